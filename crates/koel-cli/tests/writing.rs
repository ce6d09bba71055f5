//! Tests of how commands write files: what they keep, what they write through, and what signals,
//! limits and other processes leave.
#![cfg(unix)]
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const KOEL: &str = env!("CARGO_BIN_EXE_koel");
const ON_CPU: [&str; 4] = ["--device", "cpu", "--threads", "2"];

fn command(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null());
    command
}
fn koel(folder: &Path, arguments: &[&str]) -> Output {
    command(KOEL, folder).args(ON_CPU).args(arguments).output().unwrap()
}
fn done(folder: &Path, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = koel(folder, arguments);
    let error = String::from_utf8(stderr).unwrap();
    assert_eq!((status.code(), error.as_str()), (Some(0), ""), "{arguments:?}");
    String::from_utf8(stdout).unwrap()
}
/// Runs a line of the shell in which `$K` is koel. Returns its status, output and errors.
fn shell(folder: &Path, line: &str) -> (Option<i32>, String, String) {
    let output = command("sh", folder).args(["-c", line]).env("K", KOEL).output().unwrap();
    let [out, error] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.code(), out, error)
}
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name());
    let mut names = entries.map(|name| name.into_string().unwrap()).collect::<Vec<_>>();
    names.sort();
    names
}
fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// Makes a folder with the set `t.koel` of 1 and 2, some queries, and an empty folder `out`.
fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    fs::write(path.join("k.csv"), "1\n2\n").unwrap();
    fs::write(path.join("q.csv"), "2\n3\n").unwrap();
    done(&path, &["build", "k.csv", "--kind", "set", "-o", "t.koel"]);
    fs::create_dir(path.join("out")).unwrap();
    (folder, path)
}
const ANSWERS: &str = "key,found\n2,1\n3,0\n";

/// Adds the folder of [`folder`] a file of many queries, whose answers take seconds.
fn many_queries(folder: &Path) {
    File::create(folder.join("many.u32")).unwrap().set_len(400_000_000).unwrap();
}
/// Returns the temporary file in `out` once it has content.
fn temporary(folder: &Path, child: &mut Child) -> PathBuf {
    loop {
        let entries = fs::read_dir(folder.join("out")).unwrap().flatten();
        let mut begun = entries.filter(|e| e.metadata().is_ok_and(|m| m.len() > 0));
        if let Some(entry) = begun.next() {
            return entry.path();
        }
        assert_eq!(child.try_wait().unwrap(), None, "ended before it wrote");
        std::thread::sleep(Duration::from_millis(10));
    }
}
fn kill(signal: &str, process: u32) {
    let killed = Command::new("kill").args([format!("-{signal}"), process.to_string()]).status();
    assert!(killed.unwrap().success());
}
/// Runs a long query under a program, sends a signal to the process `of(child)` while it writes,
/// and returns its status and errors.
fn signalled(
    folder: &Path,
    mut under: Command,
    signal: &str,
    of: impl FnOnce(&Child) -> u32,
) -> (ExitStatus, String) {
    let query = ["query", "t.koel", "many.u32", "-o", "out/f.csv"];
    under.args(ON_CPU).args(query).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = under.spawn().unwrap();
    temporary(folder, &mut child);
    kill(signal, of(&child));
    let output = child.wait_with_output().unwrap();
    (output.status, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn mode_and_links_are_kept() {
    let (_keep, f) = folder();
    fs::write(f.join("out/t.koel"), "").unwrap();
    fs::set_permissions(f.join("out/t.koel"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink("out/t.koel", f.join("link")).unwrap();
    symlink("out/new.json", f.join("dangling")).unwrap();
    done(&f, &["build", "k.csv", "--kind", "set", "-o", "link", "--json", "dangling"]);
    assert_eq!(mode(&f.join("out/t.koel")), 0o600);
    assert!(fs::symlink_metadata(f.join("link")).unwrap().is_symlink());
    assert!(fs::symlink_metadata(f.join("dangling")).unwrap().is_symlink());
    assert_eq!(names(&f.join("out")), ["new.json", "t.koel"]);
    done(&f, &["info", "out/t.koel"]);
}

/// A file that another user may write to, but not give away.
#[test]
fn files_of_others_are_not_taken() {
    use std::os::unix::process::CommandExt;
    let (keep, f) = folder();
    let theirs = f.join("out/t.koel");
    fs::write(&theirs, "theirs").unwrap();
    for (path, mode) in [(keep.path(), 0o755), (&f.join("out"), 0o777), (&theirs, 0o666)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut nobody = command(KOEL, &f);
    nobody.args(ON_CPU).args(["build", "k.csv", "--kind", "set", "-o", "out/t.koel"]);
    let Ok(output) = nobody.uid(65534).gid(65534).output() else {
        println!("skipped: only root runs as another user, where that may read the program");
        return;
    };
    let error = String::from_utf8(output.stderr).unwrap();
    let expected = "error: out/t.koel: cannot be written: it belongs to user 0 and group ";
    assert!(output.status.code() == Some(2) && error.starts_with(expected), "{error}");
    assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o644)).unwrap();
    let error = String::from_utf8(nobody.output().unwrap().stderr).unwrap();
    assert!(error.contains("cannot be written: Permission denied"), "{error}");
    assert_eq!(names(&f.join("out")), ["t.koel"]);
}

#[test]
fn names_of_252_bytes_work() {
    let (_keep, f) = folder();
    let name = |ending: &str| "b".repeat(252 - ending.len()) + ending;
    let (table, answers, json) = (name(".koel"), name(".csv"), name(".json"));
    done(&f, &["build", "k.csv", "--kind", "set", "-o", &table]);
    done(&f, &["query", &table, "q.csv", "-o", &answers, "--json", &json]);
    assert_eq!(fs::read_to_string(f.join(answers)).unwrap(), ANSWERS);
}

#[test]
fn streams_are_written_through() {
    let (_keep, f) = folder();
    // Standard output has the answers alone, also added to a file.
    for name in ["/dev/stdout", "/dev/fd/1"] {
        let line = format!("$K query t.koel q.csv -o {name} --device cpu");
        let (status, out, error) = shell(&f, &line);
        assert_eq!((status, out.as_str()), (Some(0), ANSWERS), "{error}");
        assert!(error.contains("1 of 2 keys found"), "{error}");
    }
    fs::write(f.join("log"), "before\n").unwrap();
    let line = "$K query t.koel q.csv -o /dev/stdout --device cpu >> log 2> errors";
    assert_eq!(shell(&f, line).0, Some(0));
    assert_eq!(fs::read_to_string(f.join("log")).unwrap(), format!("before\n{ANSWERS}"));
    let (status, _, error) = shell(&f, "$K query t.koel q.csv -o /dev/stdout --json - | cat; true");
    assert!(status == Some(0) && error.contains("one output must not replace another"), "{error}");
    // A reader that has enough is no error.
    many_queries(&f);
    let line = "($K query t.koel many.u32 -o /dev/stdout --device cpu; echo $? > rc) | head -1";
    assert_eq!(shell(&f, line), (Some(0), "key,found\n".into(), String::new()));
    assert_eq!(fs::read_to_string(f.join("rc")).unwrap(), "0\n");
    // A named pipe, by its own name and by a link; its name need not say csv.
    let line = "mkfifo out/pipe && ln -s out/pipe link.csv && for o in out/pipe link.csv; do \
        cat out/pipe & $K query t.koel q.csv -o $o --device cpu > report || exit; wait; done";
    assert_eq!(shell(&f, line), (Some(0), ANSWERS.repeat(2), String::new()));
    let line = "cat out/pipe & $K info t.koel --json out/pipe > report; wait";
    let (_, out, error) = shell(&f, line);
    assert!(out.ends_with("}\n") && error.is_empty(), "{out}{error}");
    assert!(fs::symlink_metadata(f.join("out/pipe")).unwrap().file_type().is_fifo());
    // What is written last, at the beginning, needs a file.
    symlink("pipe", f.join("out/a.npy")).unwrap();
    for arguments in [
        &["query", "t.koel", "q.csv", "-o", "out/a.npy"][..],
        &["build", "k.csv", "--kind", "set", "-o", "out/pipe"],
        &["build", "k.csv", "--kind", "set", "-o", "/dev/stdout"],
    ] {
        let output = koel(&f, arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains("expected a regular file"));
    }
    done(&f, &["query", "t.koel", "q.csv", "-o", "/dev/null", "--json", "/dev/null"]);
    if Path::new("/dev/full").exists() {
        let output = koel(&f, &["query", "t.koel", "q.csv", "-o", "/dev/full"]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.starts_with("error: /dev/full: cannot be written: No space left"), "{error}");
        assert_eq!(output.status.code(), Some(1));
    }
    assert_eq!(names(&f.join("out")), ["a.npy", "pipe"]);
}

#[test]
fn signals_leave_nothing() {
    let (_keep, f) = folder();
    many_queries(&f);
    let signals =
        [("HUP", 1), ("INT", 2), ("QUIT", 3), ("BUS", 7), ("USR1", 10), ("TERM", 15), ("XCPU", 24)];
    for (signal, number) in signals {
        if is_ignored(number) {
            println!("skipped: {signal} is ignored here, and so by koel");
            continue;
        }
        let (status, error) = signalled(&f, command(KOEL, &f), signal, Child::id);
        if cfg!(target_os = "linux") {
            assert_eq!(status.code(), Some(128 + number), "{signal}");
        }
        assert_eq!(error.lines().count(), usize::from(signal == "BUS"), "{signal}: {error}");
        assert_eq!(names(&f.join("out")), [""; 0], "{signal}");
    }
    let (status, _) = signalled(&f, command(KOEL, &f), "ABRT", Child::id);
    assert_eq!((status.signal(), names(&f.join("out"))), (Some(6), vec![]));
    // `nohup` goes on.
    let mut nohup = command("sh", &f);
    nohup.args(["-c", r#"trap "" HUP; exec "$0" "$@""#, KOEL]);
    let (status, _) = signalled(&f, nohup, "TERM", |child| {
        kill("HUP", child.id());
        std::thread::sleep(Duration::from_millis(50));
        child.id()
    });
    assert_eq!((status.code(), names(&f.join("out"))), (Some(143), vec![]));
}

/// Returns whether this process ignores a signal, as under `nohup`, and so what it runs.
fn is_ignored(number: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (number - 1) & 1 == 1
}

/// The kernel ignores the default action of signals to process 1 of a container.
#[cfg(target_os = "linux")]
#[test]
fn process_1_obeys_signals() {
    let (_keep, f) = folder();
    many_queries(&f);
    let Some(alone) = process_1() else { return };
    for (signal, status) in [("TERM", 143), ("INT", 130), ("BUS", 135)] {
        let mut under = command(alone[0], &f);
        under.args(&alone[1..]).arg(KOEL);
        let (ended, _) = signalled(&f, under, signal, |child| {
            let id = child.id();
            let inside = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
            inside.trim().parse().unwrap()
        });
        assert_eq!((ended.code(), names(&f.join("out"))), (Some(status), vec![]), "{signal}");
    }
}
/// Returns a command that runs another as process 1.
#[cfg(target_os = "linux")]
fn process_1() -> Option<&'static [&'static str]> {
    let all = [&["unshare", "-pf"][..], &["unshare", "-Urpf"]];
    let works = |words: &&&[&str]| {
        let tried = Command::new(words[0]).args(&words[1..]).arg("true").output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    let found = all.iter().find(works).copied();
    if found.is_none() {
        println!("skipped: no right to make process namespaces");
    }
    found
}

/// Two containers on one volume: both are process 1.
#[cfg(target_os = "linux")]
#[test]
fn processes_of_one_number_do_not_mix_their_files() {
    let (_keep, f) = folder();
    let Some(alone) = process_1() else { return };
    let sizes = [3_000_000u64, 2_000_000];
    for (name, size) in ["a.u32", "b.u32"].iter().zip(sizes) {
        File::create(f.join(name)).unwrap().set_len(4 * size).unwrap();
    }
    let children = ["a.u32", "b.u32"].map(|queries| {
        let mut under = command(alone[0], &f);
        under.args(&alone[1..]).arg(KOEL).args(ON_CPU);
        under.args(["query", "t.koel", queries, "-o", "out/f.csv"]).stdout(Stdio::null());
        under.spawn().unwrap()
    });
    for mut child in children {
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
    let rows = fs::read_to_string(f.join("out/f.csv")).unwrap();
    assert!(rows.starts_with("key,found\n0,0\n") && rows.ends_with("\n0,0\n"));
    assert!(sizes.contains(&(rows.lines().count() as u64 - 1)));
    assert_eq!(names(&f.join("out")), ["f.csv"]);
}

#[test]
fn killed_processes_leave_nothing_for_long() {
    let (_keep, f) = folder();
    many_queries(&f);
    let (status, _) = signalled(&f, command(KOEL, &f), "KILL", Child::id);
    assert_eq!((status.signal(), names(&f.join("out")).len()), (Some(9), 1));
    // A living process keeps its own.
    let mut living = command(KOEL, &f);
    living.args(ON_CPU).args(["query", "t.koel", "many.u32", "-o", "out/g.csv"]);
    let mut living = living.stdout(Stdio::null()).spawn().unwrap();
    let is_of_g = |name: &String| name.starts_with(".g.csv.");
    while !names(&f.join("out")).iter().any(is_of_g) {
        assert_eq!(living.try_wait().unwrap(), None);
        std::thread::sleep(Duration::from_millis(10));
    }
    done(&f, &["query", "t.koel", "q.csv", "-o", "out/f.csv"]);
    let left = names(&f.join("out"));
    assert!(left.len() == 2 && left.iter().any(is_of_g) && left[1] == "f.csv", "{left:?}");
    kill("TERM", living.id());
    living.wait().unwrap();
    assert_eq!(names(&f.join("out")), ["f.csv"]);
}

/// A table that is used in place and truncated meanwhile.
#[test]
fn a_truncated_table_is_told() {
    let (_keep, f) = folder();
    many_queries(&f);
    let mut child = command(KOEL, &f);
    child.args(ON_CPU).args(["query", "t.koel", "many.u32", "-o", "out/f.csv", "--quick"]);
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    temporary(&f, &mut child);
    File::options().write(true).open(f.join("t.koel")).unwrap().set_len(0).unwrap();
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("error: ") && error.contains("truncated"), "{error}");
    assert_eq!((output.status.code(), names(&f.join("out"))), (Some(128 + 7), vec![]));
}

#[test]
fn limits_and_full_disks_are_told() {
    let (_keep, f) = folder();
    many_queries(&f);
    let line = "ulimit -f 2000; $K query t.koel many.u32 -o out/f.csv --device cpu";
    let (status, _, error) = shell(&f, line);
    assert!(error.starts_with("error: out/f.csv: cannot be written: File too large"), "{error}");
    assert_eq!((status, names(&f.join("out"))), (Some(1), vec![]));
    // An old file stays.
    fs::File::create(f.join("out/f.csv")).unwrap().write_all(b"old").unwrap();
    assert_eq!(shell(&f, line).0, Some(1));
    assert_eq!(fs::read(f.join("out/f.csv")).unwrap(), b"old");
    fs::create_dir(f.join("small")).unwrap();
    let line = "unshare -rm sh -c 'mount -t tmpfs -o size=1m tmpfs small || exit 77; \
        $K query t.koel many.u32 -o small/f.csv --device cpu; echo rc=$?; ls -A small' || exit 77";
    match shell(&f, line) {
        (Some(77) | None, ..) => println!("skipped: no right to mount"),
        (_, out, error) => {
            assert_eq!(out, "rc=1\n");
            let full = "error: small/f.csv: cannot be written: No space left";
            assert!(error.starts_with(full), "{error}");
        }
    }
}

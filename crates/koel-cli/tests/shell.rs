//! Tests of `koel completions` and `koel man`.
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn koel() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_koel"));
    command.stdin(Stdio::null());
    command
}
fn run(arguments: &[&str]) -> Output {
    koel().args(arguments).output().unwrap()
}
/// Expects success. Returns standard output.
fn done(arguments: &[&str]) -> String {
    let output = run(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), error.as_ref()), (Some(0), ""), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}
/// Expects bad usage: status 2, nothing on standard output. Returns the line on standard error.
fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.len(), error.lines().count()),
        (Some(2), 0, 1),
        "{error}"
    );
    error
}
/// Returns the commands that `--help` lists, without `help` itself.
fn commands(of: &[&str]) -> Vec<String> {
    let help = done(&[of, &["--help"]].concat());
    let list = help
        .split("Commands:\n")
        .nth(1)
        .unwrap_or("")
        .lines()
        .take_while(|line| line.starts_with("  "));
    let names =
        list.filter_map(|line| line.split_whitespace().next().filter(|_| !line.starts_with("   ")));
    names.filter(|name| *name != "help").map(String::from).collect()
}
fn names(folder: &Path) -> BTreeSet<String> {
    fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_shell_gets_every_command() {
    let commands = commands(&[]);
    assert!(commands.len() >= 11, "{commands:?}");
    let help = done(&["completions", "--help"]);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(help.contains(&format!("\n  koel completions {shell} >")), "{help}");
        let script = done(&["completions", shell]);
        for word in commands.iter().map(String::as_str).chain(["voxel-grid", "threads"]) {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[cfg(unix)]
#[test]
fn bash_completes_commands_and_options() {
    let complete = "eval \"$1\"; COMP_WORDS=(koel \"${@:2}\"); COMP_CWORD=$(($# - 1)); \
        _koel koel \"${@: -1}\"; echo \"${COMPREPLY[@]}\"";
    let script = done(&["completions", "bash"]);
    for (words, expected) in [
        (&["comp"][..], "completions"),
        (&["qu"], "query"),
        (&["build", "--voxel"], "--voxel-grid"),
        (&["completions", "f"], "fish"),
        (&["models", "li"], "list"),
    ] {
        let bash =
            Command::new("bash").args(["-c", complete, "bash", &script]).args(words).output();
        let Ok(output) = bash else {
            println!("skipped: no bash on this machine");
            return;
        };
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected, "{words:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
    }
}

#[test]
fn every_command_has_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("share/man1");
    assert_eq!(done(&["man", "--out", pages.to_str().unwrap()]), "");
    let mut expected = BTreeSet::from(["koel.1".to_string()]);
    for command in commands(&[]) {
        expected
            .extend(commands(&[&command]).iter().map(|below| format!("koel-{command}-{below}.1")));
        expected.insert(format!("koel-{command}.1"));
    }
    assert!(expected.contains("koel-models-add.1") && expected.contains("koel-lab-thresholds.1"));
    assert_eq!(names(&pages), expected);
    let main = done(&["man"]);
    assert_eq!(main, fs::read_to_string(pages.join("koel.1")).unwrap());
    assert!(main.contains("koel\\-query(1)"), "{main}");
    for (file, says) in [
        ("koel.1", "\nkoel bench               hash millions"),
        ("koel-build.1", "\nkoel build keys.npy \\-\\-values values.npy \\-o table.koel\n"),
        ("koel-man.1", "\nkoel man > koel.1  "),
        ("koel-models.1", "\nkoel models list signs.koelmodels\n"),
    ] {
        let page = fs::read_to_string(pages.join(file)).unwrap();
        let name = file.trim_end_matches(".1");
        let title = format!(
            "\n.TH {name} 1 \" \" \"koel {}\" \"User Commands\"\n",
            env!("CARGO_PKG_VERSION")
        );
        assert!(page.contains(&title), "{page}");
        assert!(page.contains("\n.SH EXAMPLES\n.nf\n") && page.contains(says), "{page}");
        assert!(page.contains("\\-\\-device"), "{page}");
    }
    // Again, over the existing files.
    assert_eq!(done(&["man", "--out", pages.to_str().unwrap()]), "");
    assert_eq!(names(&pages), expected);
}

#[test]
fn bad_usage_is_refused_in_one_line() {
    assert!(refused(&["completions", "tcsh"]).contains("'tcsh'"));
    assert!(refused(&["completions"]).contains("SHELL"));
    assert!(refused(&["completions", "bash", "--json", "-"]).contains("--json"));
    assert!(refused(&["man", "--json", "-"]).contains("--json"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "as it was").unwrap();
    assert!(refused(&["man", "--out", file.to_str().unwrap()]).contains("file: cannot"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "as it was");
}

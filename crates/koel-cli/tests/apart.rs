//! No command overwrites its inputs or writes one output over another. Such commands are refused
//! before anything is read or written, whatever the file names, and every file stays unchanged.
use koel_vision::synthetic::texture;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_koel"));
    command.current_dir(folder).args(["--device", "cpu", "--threads", "2"]).args(arguments);
    command.stdin(Stdio::null()).output().unwrap()
}
fn done(folder: &Path, arguments: &[&str]) {
    let output = run(folder, arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
}
/// Expects status 2 and one line on standard error, with nothing on standard output.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = run(folder, arguments);
    let error = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2), "{arguments:?}: {error}");
    assert!(stdout.is_empty() && error.lines().count() == 1, "{arguments:?}: {error}");
    error
}
/// Returns every file of a folder and its subfolders.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            true => all.extend(
                contents(&path).into_iter().map(|(below, c)| (format!("{name}/{below}"), c)),
            ),
            false => drop(all.insert(name, fs::read(&path).unwrap())),
        }
    }
    all
}
fn save(name: &str, folder: &Path, seed: u64) {
    let grey = texture(120, 100, seed);
    let pixels = grey.pixels.iter().map(|&v| v as u8).collect();
    image::GrayImage::from_raw(120, 100, pixels).unwrap().save(folder.join(name)).unwrap();
}

#[test]
fn inputs_and_outputs_stay_apart() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    fs::write(f.join("k.csv"), "1,10\n2,20\n").unwrap();
    fs::write(f.join("v.csv"), "5\n6\n").unwrap();
    fs::write(f.join("k.u32"), words(&[1, 2, 3])).unwrap();
    fs::write(f.join("p.csv"), "op,n,load,peer,mops\nbuild,16,0.8,x,1\n").unwrap();
    fs::write(f.join("a.obj"), "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n").unwrap();
    fs::write(f.join("b.obj"), "v 0 0 1\nv 1 0 1\nv 0 1 1\nf 1 2 3\n").unwrap();
    fs::write(f.join("r.a.bin"), "v 0 0 0\n").unwrap();
    fs::create_dir(f.join("figures")).unwrap();
    fs::write(f.join("figures/p.svg"), "no rates").unwrap();
    fs::create_dir(f.join("frames")).unwrap();
    for (seed, name) in
        ["m.png", "s.png", "frames/f-0.png", "frames/f-1.png"].into_iter().enumerate()
    {
        save(name, f, seed as u64);
    }
    done(f, &["build", "k.u32", "-o", "t.koel"]);
    done(f, &["models", "add", "db", "m.png"]);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("k.csv", f.join("symbolic.csv")).unwrap();
        fs::hard_link(f.join("k.csv"), f.join("hard.csv")).unwrap();
    }
    let before = contents(f);
    let check = |arguments: &[&str], both: [&str; 2]| {
        let error = refused(f, arguments);
        assert!(both.iter().all(|name| error.contains(name)), "{arguments:?}: {error}");
        assert!(contents(f) == before, "{arguments:?}");
    };
    check(&["build", "k.csv", "-o", "k.csv"], ["--out k.csv", "KEYS k.csv"]);
    check(&["build", "k.csv", "-o", "figures/../k.csv"], ["--out figures/../k.csv", "KEYS k.csv"]);
    check(
        &["build", "k.csv", "--values", "v.csv", "-o", "v.csv"],
        ["--out v.csv", "--values v.csv"],
    );
    check(&["build", "k.csv", "-o", "o", "--json", "k.csv"], ["--json k.csv", "KEYS k.csv"]);
    check(&["build", "k.csv", "-o", "o", "--json", "./o"], ["--json ./o", "--out o"]);
    check(&["query", "t.koel", "k.csv", "-o", "k.csv"], ["--out k.csv", "QUERIES k.csv"]);
    check(
        &["query", "t.koel", "k.csv", "-o", "o.csv", "--json", "t.koel"],
        ["--json t.koel", "TABLE t.koel"],
    );
    check(&["info", "t.koel", "--json", "t.koel"], ["--json t.koel", "TABLE t.koel"]);
    let intersect = ["intersect", "a.obj", "b.obj", "--grid", "8"];
    let intersected = |more: &[&str], both| check(&[&intersect, more].concat(), both);
    intersected(&["--out", "b.obj"], ["--out b.obj", "B b.obj"]);
    intersected(&["--out", "r.json", "--out-cloud", "a.obj"], ["--out-cloud a.obj", "A a.obj"]);
    let mesh = ["--out", "r.json", "--boolean", "union", "--out-mesh"];
    intersected(&[&mesh[..], &["a.obj"]].concat(), ["--out-mesh a.obj", "A a.obj"]);
    intersected(
        &[&mesh[..], &["x", "--out-cloud", "x"]].concat(),
        ["--out-cloud x", "--out-mesh x"],
    );
    intersected(&[&mesh[..], &["r.json"]].concat(), ["--out-mesh r.json", "--out r.json"]);
    intersected(
        &[&mesh[..], &["r.b.bin"]].concat(),
        ["--out-mesh r.b.bin", "the labels of --out, r.b.bin"],
    );
    check(
        &["intersect", "r.a.bin", "b.obj", "--out", "r.json"],
        ["the labels of --out, r.a.bin", "A r.a.bin"],
    );
    check(
        &["view", "a.obj", "b.obj", "--port", "0", "--json", "a.obj"],
        ["--json a.obj", "A a.obj"],
    );
    check(&["match", "m.png", "s.png", "--overlay", "s.png"], ["--overlay s.png", "SCENE s.png"]);
    check(&["match", "m.png", "s.png", "--votes", "m.png"], ["--votes m.png", "MODEL m.png"]);
    check(
        &["match", "m.png", "s.png", "--votes", "x", "--overlay", "x"],
        ["--votes x", "--overlay x"],
    );
    check(&["match", "--models", "db", "s.png", "--json", "db"], ["--json db", "--models db"]);
    let frames = ["match", "m.png", "frames", "--overlay", "frames/f-%d.png"];
    check(&frames, ["--overlay frames/f-0.png", "SCENE frames/f-0.png"]);
    check(&["models", "add", "m.png", "m.png"], ["DB m.png", "IMAGES m.png"]);
    let bench = ["bench", "--budget", "0.01", "--table", "hashbrown"];
    let benched = |more: &[&str], both| check(&[&bench, more].concat(), both);
    benched(&["--keys", "k.u32", "--json", "k.u32"], ["--json k.u32", "--keys k.u32"]);
    benched(&["--mesh", "a.obj", "--json", "a.obj"], ["--json a.obj", "--mesh a.obj"]);
    benched(
        &["--plot", "figures", "--peers", "p.csv", "--json", "p.csv"],
        ["--json p.csv", "--peers p.csv"],
    );
    benched(
        &["--plot", "figures", "--peers", "figures/p.svg"],
        ["--plot figures", "--peers figures/p.svg"],
    );
    let lab = ["lab", "chains", "--plot", "figures", "--json", "figures/x.csv"];
    check(&lab, ["--plot figures", "--json figures/x.csv"]);
    #[cfg(unix)]
    for link in ["symbolic.csv", "hard.csv"] {
        check(&["build", "k.csv", "-o", link], [&format!("--out {link}"), "KEYS k.csv"]);
        check(&["build", link, "-o", "k.csv"], ["--out k.csv", &format!("KEYS {link}")]);
    }
    // Different files in one folder are fine.
    done(f, &["build", "k.csv", "-o", "o", "--json", "o.json"]);
    let plotted = ["--n", "4", "--plot", "figures", "--peers", "p.csv", "--json", "figures/r.json"];
    done(f, &[&bench[..], &plotted].concat());
}

#[cfg(unix)]
#[test]
fn devices_are_not_replaced_by_files() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("k.csv"), "1\n2\n").unwrap();
    let error = refused(folder.path(), &["build", "k.csv", "-o", "/dev/null"]);
    assert!(
        error.contains("/dev/null: cannot be written: expected a regular file, or none"),
        "{error}"
    );
}

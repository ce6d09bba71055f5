//! Tests of the program: exit status, output, and the files it leaves.
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn koel() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_koel"));
    // The same everywhere unless a test says otherwise.
    command.env_remove("RAYON_NUM_THREADS").stdin(Stdio::null());
    command
}
fn run(arguments: &[&str]) -> Output {
    koel().args(arguments).output().unwrap()
}
fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
/// Expects bad usage or bad input: status 2, nothing on standard output, one line on standard
/// error. Returns the line.
fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    assert_eq!((out.as_str(), error.lines().count()), ("", 1), "{arguments:?}: {error}");
    assert!(
        error.starts_with("error: ") && !error.contains('\x1b') && !error.contains("panicked"),
        "{error}"
    );
    error
}
fn names(folder: &Path) -> Vec<String> {
    let mut names = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect::<Vec<_>>();
    names.sort();
    names
}
const SMALL: [&str; 7] = ["bench", "--device", "cpu", "--threads", "2", "--budget", "0.1"];
fn small(arguments: &[&str]) -> Vec<String> {
    SMALL.iter().chain(arguments).map(|a| a.to_string()).collect()
}
fn bench_json(arguments: &[&str]) -> Value {
    let output = koel().args(small(arguments)).args(["--json", "-"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn help_has_examples() {
    for arguments in [&["--help"][..], &["bench", "--help"]] {
        let output = run(arguments);
        let help = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0));
        assert!(help.contains("Example") && help.contains("\n  koel bench"), "{help}");
        assert!(!help.contains('\x1b'), "no colour in a pipe");
    }
    let nothing = run(&[]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(nothing.stdout.is_empty() && text(&nothing.stderr).contains("Usage: koel"));
}

#[test]
fn bad_usage_is_refused_in_one_line() {
    for (arguments, says) in [
        (&["bnch"][..], "'bnch'"),
        (&["bench", "--tabel", "x"], "similar argument exists: '--table'"),
        (&["bench", "--table", "hashbrown,nosuch"], "no table 'nosuch'; available are main, all, "),
        (&["bench", "--table", "cuckoo"], "no table 'cuckoo'"),
        (&["bench", "--op", "build,grow"], "no operation 'grow'; available are build, find_hit"),
        (&["bench", "--op", "insert"], "no operation 'insert'; available are build, find_hit"),
        (&["bench", "--load", "1.5"], "above 0 and below 1"),
        (&["bench", "--load", "0"], "above 0 and below 1"),
        (&["bench", "--load", "NaN"], "above 0 and below 1"),
        (&["bench", "--load", "0.5,"], "--load"),
        (&["bench", "--n", "47"], "at most 2^31"),
        (&["bench", "--n", "1e6"], "whole number"),
        (&["bench", "--n", "99999999999999999999"], "whole number"),
        (&["bench", "--grid", "1025"], "1..=1024"),
        (&["bench", "--grid", "0"], "1..=1024"),
        (&["bench", "--hit-share", "101"], "--hit-share"),
        (&["bench", "--batch", "x"], "whole number"),
        (
            &["bench", "--n", "9", "--duplicates", "thrice"],
            "expected unique, twice, hot, zipf, equal or a percentage",
        ),
        (&["bench", "--duplicates", "zipf"], "--duplicates requires random keys"),
        (&["bench", "--policy", "reject"], "expected unchecked, keep_last or keep_first"),
        (&["bench", "--functions", "6"], "2..=5"),
        (&["bench", "--family", "md5"], "expected mixed, linear2011, linear2009, xor"),
        (&["bench", "--stash", "on"], "expected 0, or a number of pairs up to 1048576"),
        (&["bench", "--bucket-slots", "17"], "2..=16"),
        (&["bench", "--sets", "0"], "1..=64"),
        (&["bench", "--coinciding", "last"], "expected first-match, advance or random"),
        (&["bench", "--stop-at-empty", "yes"], "expected on or off"),
        (
            &["bench", "--table", "sorted,two-level", "--functions", "3"],
            "--functions: none of the chosen tables has this parameter (two-level, sorted); \
             those with it are single-level, ",
        ),
        (&["bench", "--bucket-slots", "4"], "those with it are bucketed-cuckoo"),
        (&["bench", "--peers", "a.csv"], "--plot"),
        (&["bench", "--runs", "0"], "--runs"),
        (&["bench", "--budget=-1"], "--budget"),
        (&["bench", "--threads", "0"], "--threads"),
        (&["bench", "--seed", "x"], "--seed"),
        (&["bench", "--device", "gpu"], "expected auto, cpu, cuda or cuda:N"),
        (&["bench", "--keys", "random", "--mesh", "a.ply"], "--mesh"),
        (&["bench", "--n", "9", "--order", "morton"], "--order requires --keys voxels"),
        (&["bench", "--order", "hilbert"], "'hilbert'"),
        (&["bench", "--keys", "voxels", "--n", "20"], "--n"),
    ] {
        let error = refused(arguments);
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
}

#[test]
fn bad_files_are_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let missing = folder.path().join("missing.u32").to_str().unwrap().to_owned();
    let head = "ply\nformat ascii 1.0\nelement vertex 1\n\
        property float x\nproperty float y\nproperty float z\nend_header\n";
    for (keys, says) in [
        (missing.clone(), "cannot be read"),
        (missing.replace("u32", "ply"), "cannot be read"),
        (
            file("truncated.u32", &[1, 2, 3, 4, 5, 6]),
            "6 bytes: expected a multiple of 4, the last 2 at byte 4",
        ),
        (file("empty.u32", &[]), "is empty, expected 32-bit little-endian keys"),
        (file("wide.u64", &[0; 8]), "measures tables of 32-bit keys, expected a file named .u32"),
        (file("keys.csv", b"1,2"), "expected random, voxels, or a file named .u32, .ply or .obj"),
        (file("garbage.ply", &[0xFF; 99]), "garbage.ply"),
        (file("nan.ply", format!("{head}nan 0 0\n").as_bytes()), "NaN, infinite"),
        (file("short.ply", format!("{head}1 2\n").as_bytes()), "short.ply: line 8"),
        (file("nothing.obj", b"# nothing\n"), "holds no vertices"),
    ] {
        let error = refused(&["bench", "--keys", &keys]);
        assert!(error.contains(says) && error.contains(&keys), "{keys}: {error}");
    }
    let plain_file = file("file", b"");
    let inside = format!("{plain_file}/out.json");
    let folder_itself = folder.path().to_str().unwrap();
    for (option, value) in [
        ("--json", inside.as_str()),
        ("--json", folder_itself),
        ("--json", "/nonexistent/out.json"),
        ("--plot", plain_file.as_str()),
        ("--plot", inside.as_str()),
    ] {
        let error = refused(&["bench", "--n", "4", option, value]);
        assert!(error.contains(value), "{error}");
    }
}

#[test]
fn a_device_that_is_not_there_is_no_panic() {
    let output = run(&["bench", "--device", "cuda:4000", "--n", "4"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(error.starts_with("error: no CUDA") && error.lines().count() == 1, "{error}");
}

#[test]
fn json_has_what_others_rely_on() {
    let report =
        bench_json(&["--table", "all", "--n", "9,1000", "--op", "build,find", "--load", "0.5"]);
    for (object, fields) in [
        (&report["machine"], &["device", "kind", "threads", "os", "arch", "version"][..]),
        (&report["limit"], &["random_reads", "copy_gb_per_s"]),
        (&report, &["seed", "command", "date", "commit", "keys", "notes"]),
    ] {
        for field in fields {
            assert!(!object[field].is_null(), "{field}");
        }
    }
    assert!(report["command"].as_str().unwrap().starts_with("koel bench --device cpu"));
    assert!(
        report.as_object().unwrap().contains_key("driver") && report["driver"].is_null(),
        "no GPU was measured"
    );
    assert!(report["limit"]["copy_gb_per_s"].as_f64().unwrap() > 0.0);
    let rows = report["rows"].as_array().unwrap();
    for row in rows {
        let number =
            |field: &str| row[field].as_f64().unwrap_or_else(|| panic!("{field} of {row}"));
        assert_eq!(row["verified"], true);
        assert!([512, 1000].contains(&row["n"].as_u64().unwrap()));
        assert!(
            ["build", "find_hit", "find_half", "find_miss"].contains(&row["op"].as_str().unwrap())
        );
        assert!(
            number("mops_min") > 0.0
                && number("mops_min") <= number("mops")
                && number("mops") <= number("mops_max")
        );
        assert!(number("load") > 0.0 && number("load") <= 1.0);
        // A pair of 32-bit words, plus the rounding of small tables.
        assert!(number("bytes_per_pair") >= 8.0, "{row}");
        assert!(number("limit_ratio") > 0.0 && number("hashbrown_ratio") > 0.0);
        assert_eq!(row["build"]["pairs"], row["n"]);
        assert!(row["build"]["attempts"].as_u64().unwrap() >= 1);
    }
    for table in ["hashbrown", "hashbrown-sharded", "dashmap"] {
        let ops = rows
            .iter()
            .filter(|row| row["table"] == table && row["n"] == 512)
            .map(|row| row["op"].as_str().unwrap());
        assert_eq!(ops.collect::<Vec<_>>(), ["build", "find_hit", "find_half", "find_miss"]);
    }
    assert!(rows.iter().any(|row| row["table"] == "single-level" && row["load"] == 0.5));
}

#[test]
fn without_arguments_voxels_are_found_again() {
    let output =
        koel().args(small(&["--grid", "64", "--table", "hashbrown,sorted"])).output().unwrap();
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(table.contains("voxels of cortex.ply on a grid of 64^3"), "{table}");
    for op in ["build", "find_hit", "find_miss"] {
        assert!(table.lines().any(|line| line.starts_with(op)), "{table}");
    }
    assert_eq!(table.lines().filter(|line| line.starts_with("hashbrown")).count(), 3);
    assert_eq!(table.lines().filter(|line| line.starts_with("sorted")).count(), 3);
    assert!(table.contains("Every answer was verified."));
    assert!(table.lines().all(|line| line.chars().count() <= 100) && !table.contains('\x1b'));
    assert_eq!(text(&output.stderr), "", "no progress bar in a pipe");
}

#[test]
fn files_of_keys_and_scans_are_hashed() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("k.u32");
    let words = [5u32, 0, u32::MAX, 5, 7].map(u32::to_le_bytes).concat();
    fs::write(&keys, words).unwrap();
    let report = bench_json(&["--table", "hashbrown", "--keys", keys.to_str().unwrap()]);
    assert_eq!(report["keys"][0]["n"], 4);
    assert_eq!(report["keys"][0]["dropped"], 1);
    let mesh = folder.path().join("m.obj");
    fs::write(&mesh, "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n").unwrap();
    let mesh = mesh.to_str().unwrap();
    let by_keys = bench_json(&["--table", "hashbrown", "--keys", mesh, "--grid", "16"]);
    let by_mesh = bench_json(&["--table", "hashbrown", "--mesh", mesh, "--grid", "16"]);
    assert!(by_keys["keys"][0]["n"].as_u64().unwrap() > 50);
    assert_eq!(by_keys["keys"], by_mesh["keys"]);
    assert_eq!(by_keys["keys"][0]["order"], "row-major");
    let morton =
        bench_json(&["--table", "map", "--mesh", mesh, "--grid", "16", "--order", "morton"]);
    assert_eq!(morton["keys"][0]["order"], "morton");
    assert_eq!(morton["keys"][0]["n"], by_keys["keys"][0]["n"]);
    assert!(morton["rows"].as_array().unwrap().iter().all(|row| row["verified"] == true));
}

#[test]
fn json_and_figures_are_written_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (json, figures) = (folder.path().join("out.json"), folder.path().join("new/figures"));
    let paths = [json.to_str().unwrap(), figures.to_str().unwrap()];
    let arguments = [
        "--table",
        "hashbrown,single-level",
        "--n",
        "8,9",
        "--load",
        "0.5,0.6",
        "--op",
        "find_hit",
        "--json",
        paths[0],
        "--plot",
        paths[1],
    ];
    let output = koel().args(small(&arguments)).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!output.stdout.is_empty(), "the table is printed too");
    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert!(!report["rows"].as_array().unwrap().is_empty());
    assert_eq!(names(folder.path()), ["new", "out.json"]);
    let stems = [
        "rate-against-load_find_hit_n-256",
        "rate-against-load_find_hit_n-512",
        "rate-against-n_find_hit_load-0.5",
        "rate-against-n_find_hit_load-0.6",
    ];
    assert_eq!(
        names(&figures),
        stems.map(|stem| [format!("{stem}.png"), format!("{stem}.svg")]).concat()
    );
    for stem in stems {
        let svg = fs::read_to_string(figures.join(format!("{stem}.svg"))).unwrap();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        for name in ["random 64-byte reads", "hashbrown", "single-level", "million per second"] {
            assert!(svg.contains(name), "{stem}: {name}");
        }
        assert!(
            fs::read(figures.join(format!("{stem}.png")))
                .unwrap()
                .starts_with(b"\x89PNG\r\n\x1a\n")
        );
    }
}

#[test]
fn sweeps_are_rows_and_figures() {
    let folder = tempfile::tempdir().unwrap();
    let (json, figures) = (folder.path().join("out.json"), folder.path().join("figures"));
    let sweep = |arguments: &[&str]| {
        let out = [json.to_str().unwrap(), figures.to_str().unwrap()];
        let arguments =
            [arguments, &["--table", "map,hashbrown", "--json", out[0], "--plot", out[1]]].concat();
        let output = koel().args(small(&arguments)).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(
            text(&output.stdout).lines().all(|line| line.chars().count() <= 100),
            "{}",
            text(&output.stdout)
        );
        let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        let rows = report["rows"].as_array().unwrap().clone();
        assert!(!rows.is_empty() && rows.iter().all(|row| row["verified"] == true));
        let drawn = names(&figures);
        fs::remove_dir_all(&figures).unwrap();
        (rows, drawn)
    };
    let drawn = |stems: &[&str]| {
        stems
            .iter()
            .flat_map(|stem| [format!("{stem}.png"), format!("{stem}.svg")])
            .collect::<Vec<_>>()
    };
    let (rows, figures_drawn) =
        sweep(&["--n", "1000", "--hit-share", "0,25,100", "--policy", "keep_last"]);
    assert_eq!(figures_drawn, drawn(&["rate-against-hit-share_n-1000"]));
    let of_map = |field: &str| {
        rows.iter().filter(|r| r["table"] == "map").map(|r| r[field].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of_map("op"), ["find_hit", "find_25", "find_miss"]);
    assert_eq!(of_map("hit_share"), [100, 25, 0]);
    assert!(rows.iter().all(|row| row["policy"] == "keep_last" && row["duplicates"] == "unique"));

    let (rows, figures_drawn) = sweep(&["--n", "10", "--op", "find_hit", "--batch", "4,10"]);
    assert_eq!(figures_drawn, drawn(&["rate-against-batch_find_hit_n-1024"]));
    assert_eq!(
        (&rows[0]["batch"], &rows[0]["calls"], &rows[1]["batch"]),
        (&16.into(), &64.into(), &1024.into())
    );

    let (rows, figures_drawn) =
        sweep(&["--n", "1000", "--op", "rebuild,build", "--duplicates", "unique,10%"]);
    assert_eq!(
        figures_drawn,
        drawn(&["rate-against-duplicates_hashbrown_n-1000", "rate-against-duplicates_map_n-1000"])
    );
    let of = |duplicates: &str, op: &str| {
        rows.iter()
            .find(|row| row["duplicates"] == duplicates && row["op"] == op && row["table"] == "map")
            .unwrap()
    };
    assert_eq!(
        (&of("unique", "rebuild")["policy"], &of("10%", "build")["policy"]),
        (&"unchecked".into(), &"keep_last".into())
    );
    assert!(of("10%", "rebuild")["build"]["pairs"].as_u64().unwrap() < 1000);
    assert!(
        of("10%", "rebuild")["hashbrown_ratio"].as_f64().unwrap() > 0.0,
        "beside hashbrown's build"
    );
}

#[test]
fn parameters_are_rows_with_names() {
    let folder = tempfile::tempdir().unwrap();
    let (json, figures) = (folder.path().join("out.json"), folder.path().join("figures"));
    let arguments = [
        "--table",
        "single-level,bucketed-cuckoo,sorted",
        "--n",
        "9",
        "--op",
        "find_hit",
        "--functions",
        "2,3",
        "--family",
        "xor",
        "--stash",
        "0,table:16",
        "--load",
        "0.4",
        "--json",
        json.to_str().unwrap(),
        "--plot",
        figures.to_str().unwrap(),
    ];
    let output = koel().args(small(&arguments)).output().unwrap();
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    assert!(table.contains("\n  functions 3, family xor, stash table:16\n"), "{table}");
    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let of = |name: &str| rows.iter().filter(|row| row["table"] == name).collect::<Vec<_>>();
    assert!(rows.iter().all(|row| row["verified"] == true));
    let parameters =
        |name: &str| of(name).iter().map(|row| row["parameters"].clone()).collect::<Vec<Value>>();
    let single = parameters("single-level");
    assert_eq!(single.len(), 4);
    assert_eq!(
        single[3],
        serde_json::json!({
            "functions": 3, "family": "xor", "stash": "table:16", "max-evictions": null,
            "coinciding": "first-match", "stop-at-empty": false,
        })
    );
    let bucketed = parameters("bucketed-cuckoo");
    assert_eq!((bucketed.len(), &bucketed[0]["bucket-slots"]), (2, &4.into()));
    assert!(of("single-level").iter().all(|row| row["build"]["family"] == "xor modulo 4294967291"));
    assert_eq!(parameters("sorted"), [serde_json::json!({})]);
    let notes = report["notes"].to_string();
    for note in [
        "--functions does not apply to sorted",
        "--family does not apply to sorted",
        "--stash does not apply to sorted, bucketed-cuckoo",
    ] {
        assert!(notes.contains(note) && table.contains(note), "{notes}");
    }
    let svg = fs::read_to_string(figures.join("rates_n-512.svg")).unwrap();
    for name in
        ["single-level, functions 3, family xor, stash table:16", "bucketed-cuckoo, functions 2"]
    {
        assert!(svg.contains(name), "{name}");
    }
    // Two parameters that exclude each other.
    let excluded = ["--table", "single-level", "--n", "5", "--op", "build"];
    let set = ["--coinciding", "random,advance", "--stop-at-empty", "on"];
    let report = bench_json(&[&excluded[..], &set].concat());
    assert_eq!(report["rows"].as_array().unwrap().len(), 1);
    assert!(
        report["notes"].to_string().contains(
            "single-level, coinciding random, stop-at-empty on: left out: \
             `stop_at_empty` is true, must be false when functions are picked at random"
        ),
        "{report:#}"
    );
}

#[test]
fn tables_of_lists_are_measured() {
    let tables = "two-level-multi,two-level-compacting,single-level-set,single-level-compacting,\
                  single-level-multi,sorted-multi";
    let report = bench_json(&["--table", tables, "--n", "1000", "--duplicates", "unique,zipf"]);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6 * 2 * 3, "{report:#}");
    for row in rows {
        let (pairs, repeats) = (row["build"]["pairs"].as_u64().unwrap(), &row["duplicates"]);
        assert_eq!(row["verified"], true);
        assert_eq!(row["policy"], if repeats == "unique" { "unchecked" } else { "keep_all" });
        assert_eq!(pairs == 1000, repeats == "unique");
    }
}

#[test]
fn rates_of_others_are_drawn_beside() {
    let folder = tempfile::tempdir().unwrap();
    let (peers, figures) = (folder.path().join("peers.csv"), folder.path().join("figures"));
    let rates = "# One GPU, 2026-11-20; median of 7\nop,n,load,peer,mops\n\
        build,512,0.8,slow one,1\nbuild,512,0.8,quick one,2\n\
        build,512,0.5,other load,3\nbuild,64,0.8,too few,4\n";
    fs::write(&peers, rates).unwrap();
    let (peers, out) = (peers.to_str().unwrap(), figures.to_str().unwrap());
    let arguments =
        ["--table", "map", "--op", "rebuild", "--n", "8,10", "--plot", out, "--peers", peers];
    let output = koel().args(small(&arguments)).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let svg = fs::read_to_string(figures.join("rate-against-n_rebuild.svg")).unwrap();
    assert!(
        svg.contains("quick one")
            && svg.contains("measured 2026-11-20 on One GPU, a different machine")
    );
    for absent in ["slow one", "other load", "too few"] {
        assert!(!svg.contains(absent), "{absent}");
    }
    fs::write(peers, "op,n,load,peer,mops\nbuild,512,0.8,x,fast\n").unwrap();
    let error = refused(&["bench", "--n", "8", "--plot", out, "--peers", peers]);
    assert!(
        error.contains("peers.csv: line 2, field 'mops': 'fast', expected a number above 0"),
        "{error}"
    );
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut command = koel();
    command
        .args(small(&["--table", "hashbrown", "--n", "4"]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("out.json");
    let arguments = [
        "bench",
        "--device",
        "cpu",
        "--n",
        "23",
        "--budget",
        "1000",
        "--json",
        json.to_str().unwrap(),
    ];
    let mut child =
        koel().args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(names(folder.path()), [""; 0]);
}

/// Drivers that are there and do not work: with `auto` the CPU does the work, which is said once.
#[test]
#[cfg(target_os = "linux")]
fn a_driver_that_does_not_work_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../koel/tests/support/stand_in_driver.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let library = path("libcuda.so");
    let built = Command::new(rustc)
        .args(["--edition=2024", "--crate-type=cdylib", source, "-o", &library])
        .status();
    assert!(built.is_ok_and(|status| status.success()));
    fs::write(path("keys.csv"), "1\n2\n3\n").unwrap();
    let build = |device: &str, fail: &str| {
        let output = koel()
            .args(["build", &path("keys.csv"), "--kind", "set", "--device", device])
            .args(["-o", &path("table.koel")])
            .env("LD_LIBRARY_PATH", folder.path())
            .env("STAND_IN_FAIL", fail)
            .output()
            .unwrap();
        let _ = fs::remove_file(path("table.koel"));
        (output.status.code(), text(&output.stderr))
    };
    let busy = "the CUDA driver failed in cuDevicePrimaryCtxRetain: ";
    let (code, said) = build("auto", "cuDevicePrimaryCtxRetain=46");
    assert!(code == Some(0) && said.matches(busy).count() == 1, "{said}");
    assert_eq!(said.matches(": using the CPU").count(), 1, "{said}");
    let (code, said) = build("cuda", "cuDevicePrimaryCtxRetain=46");
    assert!(code == Some(1) && said.contains(busy), "{said}");
    fs::write(&library, "no library").unwrap();
    for (device, expected) in [("auto", 0), ("cuda", 1)] {
        let (code, said) = build(device, "");
        assert!(code == Some(expected) && said.contains("no CUDA driver: "), "{device}: {said}");
    }
}

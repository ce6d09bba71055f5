//! Tests of `koel build`, `koel query` and `koel info`: answers, refused input and its messages,
//! and the files they leave.
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn koel(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_koel"));
    command
        .current_dir(folder)
        .args(["--device", "cpu", "--threads", "2"])
        .args(arguments)
        .stdin(Stdio::null());
    command
}
fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = koel(folder, arguments).output().unwrap();
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(0), String::new()),
        "{arguments:?}"
    );
    text(&output.stdout)
}
fn json(folder: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&done(folder, &[arguments, &["--json", "-"]].concat())).unwrap()
}
/// Expects status 2 and one line on standard error, nothing else, within a minute: a pipe that is
/// not refused is waited for. Returns the line.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let mut command = koel(folder, arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed().as_secs() >= 60 {
            child.kill().unwrap();
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let error = text(&stderr);
    assert_eq!(status.code(), Some(2), "{arguments:?}: {error}");
    assert!(
        stdout.is_empty() && error.lines().count() == 1 && error.starts_with("error: "),
        "{arguments:?}: {error}"
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
fn u32s(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}
fn u64s(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}
/// Encodes an array as NumPy does.
fn npy(descr: &str, len: usize, bytes: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({len},), }}");
    let header = format!("{header:117}\n");
    [b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes(), bytes].concat()
}
fn folder_with(files: &[(&str, &[u8])]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_path_buf();
    for (name, content) in files {
        fs::write(path.join(name), content).unwrap();
    }
    (folder, path)
}

#[test]
fn help_has_examples() {
    for command in ["build", "query", "info"] {
        let help = done(Path::new("."), &[command, "--help"]);
        assert!(help.contains("Examples:\n  koel ") && help.contains("--json"), "{help}");
    }
}

/// Runs the examples of `--help` and of the README, in order.
#[test]
fn examples_run_as_written() {
    let numbers = (0..100u32).collect::<Vec<_>>();
    let wide = numbers.iter().map(|&n| n.into()).collect::<Vec<u64>>();
    let people = (0..50).map(|i| format!("{i},{},Oslo\n", 20 + i % 7)).collect::<String>();
    let cloud = b"ply\nformat ascii 1.0\nelement vertex 2\n\
        property float x\nproperty float y\nproperty float z\nend_header\n0 0 0\n1 1 1\n";
    let (_keep, folder) = folder_with(&[
        ("ids.u64", &u64s(&wide)),
        ("keys.npy", &npy("<u8", 100, &u64s(&wide))),
        ("values.npy", &npy("<u4", 100, &u32s(&numbers))),
        ("people.csv", format!("id,age,city\n{people}").as_bytes()),
        ("orders.csv", b"order,customer\n1,30\n2,31\n3,30\n"),
        ("scan.ply", cloud),
        ("users.csv", b"uuid,age\nf47ac10b-58cc-4372-a567-0e02b2c3d479,30\n0x0,40\n"),
        ("queries.u32", &u32s(&[5, 1000])),
        ("queries.npy", &npy("<u4", 2, &u32s(&[5, 1000]))),
        ("numbers.u32", &u32s(&[0, 4, 5])),
    ]);
    let mut lines =
        ["build", "query", "info"].map(|command| done(&folder, &[command, "--help"])).concat();
    lines.push_str(include_str!("../../../README.md"));
    let tables = ["build ", "query ", "info "];
    let examples = lines.lines().filter_map(|line| line.trim().strip_prefix("koel "));
    let examples = examples
        .filter(|line| tables.iter().any(|table| line.starts_with(table)))
        .collect::<Vec<_>>();
    assert!(examples.len() >= 15, "{examples:?}");
    for seq in ["seq 1000000 > ids.csv", "seq 999990 1000010 > more.csv"] {
        assert!(lines.contains(seq), "{seq}");
    }
    let rows =
        |range: std::ops::RangeInclusive<u32>| range.map(|n| format!("{n}\n")).collect::<String>();
    fs::write(folder.join("ids.csv"), rows(1..=1_000_000)).unwrap();
    fs::write(folder.join("more.csv"), rows(999_990..=1_000_010)).unwrap();
    for example in examples {
        // Text after two blanks is a remark.
        let arguments = example.split("  ").next().unwrap().split('#').next().unwrap();
        done(&folder, &arguments.split_whitespace().collect::<Vec<_>>());
    }
    let found = fs::read_to_string(folder.join("found.csv")).unwrap();
    assert_eq!((found.lines().count(), found.matches(",1\n").count()), (22, 11));
}

#[test]
fn numbers_of_every_format_are_found_again() {
    let (keys, values) = ([7u32, 0, u32::MAX, 7], [1u64, 2, u64::MAX, 4]);
    let wide = keys.map(u64::from);
    let csv = keys.iter().zip(values).map(|(k, v)| format!("{v},x,{k}\n")).collect::<String>();
    let (_keep, folder) = folder_with(&[
        ("keys.u32", &u32s(&keys)),
        ("keys.u64", &u64s(&wide)),
        ("keys32.npy", &npy("<u4", 4, &u32s(&keys))),
        ("keys64.NPY", &npy("<i8", 4, &u64s(&wide))),
        ("values.u64", &u64s(&values)),
        ("values.npy", &npy("<u8", 4, &u64s(&values))),
        ("pairs.csv", csv.as_bytes()),
        ("named.csv", format!("value,what,my key\n{csv}").as_bytes()),
        ("queries.csv", b"q\n7\n4294967296\n8\n4294967295\n"),
    ]);
    for (arguments, key) in [
        (&["keys.u32", "--values", "values.u64"][..], "u32"),
        (&["keys.u64", "--values", "values.npy"], "u64"),
        (&["keys.u64", "--values", "values.npy", "--key-type", "u32"], "u32"),
        (&["keys32.npy", "--values", "values.npy"], "u32"),
        (&["keys32.npy", "--values", "values.npy", "--key-type", "u64"], "u64"),
        (&["keys64.NPY", "--values", "values.u64"], "u64"),
        (&["pairs.csv", "--column", "3", "--value-column", "1"], "u32"),
        (&["named.csv", "--column", "my key", "--value-column", "value"], "u32"),
        (&["keys.u32", "--values", "named.csv", "--value-column", "value"], "u32"),
        (&["keys.u32", "--values", "pairs.csv"], "u32"),
    ] {
        let built = json(&folder, &[&["build", "-o", "t.koel"], arguments].concat());
        let expected = (key.into(), "u64".into(), 3.into(), 1.into());
        let found = |report: &Value| {
            ["key", "value", "pairs", "duplicates"].map(|f| report[f].clone()).into()
        };
        assert_eq!(found(&built), expected, "{arguments:?}");
        let info = json(&folder, &["info", "t.koel"]);
        assert_eq!((found(&info), &info["checked"]), (expected, &"all".into()));
        assert_eq!(info["bytes"], fs::metadata(folder.join("t.koel")).unwrap().len());
        done(&folder, &["query", "t.koel", "queries.csv", "-o", "a.csv"]);
        let answers = fs::read_to_string(folder.join("a.csv")).unwrap();
        assert_eq!(
            answers,
            format!("key,found,value\n7,1,4\n4294967296,0,\n8,0,\n4294967295,1,{}\n", u64::MAX)
        );
    }
}

/// Returns standard error and the JSON report of a command.
fn noted(folder: &Path, arguments: &[&str]) -> (String, Value) {
    let output = koel(folder, &[arguments, &["--json", "-"]].concat()).output().unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
    (error, serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn every_line_of_a_csv_file_is_accounted_for() {
    let ten_to_31 = 10u128.pow(31);
    let (_keep, folder) = folder_with(&[
        ("blanks.csv", b" 1,10\n 2,20\n 3,30"),
        ("named.csv", b"id,v\n1,10\n\n2,20\n"),
        ("minus.csv", b"-1\n2\n"),
        ("numbers.csv", b"7\n8\n"),
        ("wide.csv", format!("{ten_to_31}\nf47ac10b58cc4372a5670e02b2c3d479\n").as_bytes()),
        ("k.u32", &u32s(&[1, 2])),
    ]);
    let (error, built) = noted(&folder, &["build", "blanks.csv", "--kind", "set", "-o", "t.koel"]);
    assert_eq!((error.as_str(), &built["keys"]), ("", &3.into()));
    assert_eq!(built["inputs"][0]["lines"], 3);
    assert!(built["inputs"][0]["heading"].is_null() && built["notes"] == Value::Array(vec![]));
    let told = done(&folder, &["query", "t.koel", "blanks.csv"]);
    assert!(
        told.contains(
            "3 of 3 keys found\nblanks.csv: 3 lines read, 3 rows, no heading: the selected fields \
             of the first line are numbers; --header yes, if they are names\n"
        ),
        "{told}"
    );

    let (error, built) = noted(&folder, &["build", "named.csv", "-o", "t.koel"]);
    let note = "named.csv: 1 blank lines were skipped, the first is line 3";
    assert_eq!(
        (error.trim(), &built["notes"][0]),
        (format!("note: {note}").as_str(), &note.into())
    );
    let input = &built["inputs"][0];
    assert_eq!(["lines", "blank_lines", "rows"].map(|f| input[f].as_u64().unwrap()), [4, 1, 2]);
    assert_eq!((&input["file"], &input["heading"]["line"]), (&"named.csv".into(), &1.into()));
    assert_eq!(input["heading"]["text"], "id,v");
    let why = input["heading"]["why"].as_str().unwrap();
    let told = text(&koel(&folder, &["query", "t.koel", "named.csv"]).output().unwrap().stdout);
    let line =
        format!("named.csv: 4 lines read, 2 rows, line 1, \"id,v\", is the heading: {why}\n");
    assert!(told.contains(&line), "{told}");

    // --header overrides the rule.
    for command in [&["build", "-o", "o.koel"][..], &["query", "t.koel"]] {
        let error = refused(&folder, &[command, &["minus.csv"]].concat());
        assert!(error.contains("minus.csv: line 1, column 1: found \"-1\""), "{error}");
        let (_, report) = noted(&folder, &[command, &["minus.csv", "--header", "yes"]].concat());
        let heading = report["inputs"][0]["heading"].clone();
        assert_eq!((&heading["text"], &heading["why"]), (&"-1".into(), &"--header yes".into()));
        let error = refused(&folder, &[command, &["named.csv", "--header", "no"]].concat());
        assert!(error.contains("line 1, column 1: found \"id\""), "{error}");
        let error = refused(&folder, &[command, &["k.u32", "--header", "yes"]].concat());
        assert!(error.contains("--header requires a CSV file"), "{error}");
    }
    assert_eq!(
        json(&folder, &["build", "numbers.csv", "--header", "yes", "-o", "o.koel"])["keys"],
        1
    );

    let wide = ["build", "wide.csv", "--key-type", "u128", "--kind", "set", "-o", "t.koel"];
    let (error, built) = noted(&folder, &wide);
    assert!(
        error.starts_with("note: wide.csv: 1 keys of 32 digits") && error.lines().count() == 1,
        "{error}"
    );
    assert_eq!(built["notes"].as_array().unwrap().len(), 1);
    fs::write(folder.join("q.u128"), [ten_to_31.to_le_bytes(), 0x10u128.to_le_bytes()].concat())
        .unwrap();
    assert_eq!(json(&folder, &["query", "t.koel", "q.u128"])["found"], 1);
}

#[test]
fn what_a_scan_loses_is_noted() {
    let header = "ply\nformat ascii 1.0\nelement vertex 3\n\
        property float x\nproperty float y\nproperty float z\n";
    let ply = format!("{header}property uchar red\nend_header\n0 0 0 1\n1 1 1 2\nnan 1 1 3\n");
    let (_keep, folder) = folder_with(&[("c.ply", ply.as_bytes())]);
    let (error, built) =
        noted(&folder, &["build", "c.ply", "--voxel-grid", "16", "--kind", "set", "-o", "t.koel"]);
    assert_eq!(
        (&built["inputs"][0]["rows"], &built["inputs"][0]["dropped"]),
        (&2.into(), &1.into())
    );
    let notes = [
        "c.ply: 1 points with non-finite coordinates or normals were dropped",
        "c.ply: line 3: element vertex: properties not kept: red",
    ];
    assert_eq!(built["notes"], Value::from(notes.to_vec()));
    assert_eq!(error, notes.map(|note| format!("note: {note}\n")).concat());
}

#[test]
fn without_values_a_key_has_its_row_number() {
    let (_keep, folder) =
        folder_with(&[("keys.u64", &u64s(&[50, 60, 50])), ("q.u32", &u32s(&[60, 70, 50]))]);
    for (policy, row) in [("last", 2), ("first", 0)] {
        let text = done(&folder, &["build", "keys.u64", "-o", "t.koel", "--duplicates", policy]);
        assert!(
            text.starts_with("t.koel: map of u64 -> u32, 2 pairs, 1 with a repeated key dropped"),
            "{text}"
        );
        let table = done(&folder, &["query", "t.koel", "q.u32"]);
        let rows = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>();
        assert_eq!(rows[..4], ["key value", "60 1", "70 not found", &format!("50 {row}")]);
        assert_eq!(rows[4], "2 of 3 keys found");
    }
    let info = done(&folder, &["info", "t.koel", "--quick"]);
    assert!(
        info.contains("map of u64 -> u32") && info.contains("checked: only the header"),
        "{info}"
    );
    // A few answers are shown in full, many only in part.
    fs::write(folder.join("many.u32"), u32s(&[60; 1000])).unwrap();
    let table = done(&folder, &["query", "t.koel", "many.u32"]);
    assert_eq!(
        (table.lines().count(), table.contains("1,000 of 1,000 keys found")),
        (1 + 20 + 1 + 2, true),
        "{table}"
    );
    fs::write(folder.join("none.u32"), []).unwrap();
    fs::write(folder.join("none.csv"), []).unwrap();
    fs::write(folder.join("heading.csv"), "id\n").unwrap();
    fs::write(folder.join("none.npy"), npy("<u4", 0, &[])).unwrap();
    // Empty tables work, and are noted.
    for none in ["none.u32", "none.csv", "heading.csv", "none.npy"] {
        let note = format!("note: {none}: has no rows\n");
        let (error, built) = noted(&folder, &["build", none, "-o", "none.koel"]);
        assert_eq!((error, &built["pairs"]), (note.clone(), &0.into()));
        assert_eq!(json(&folder, &["query", "none.koel", "q.u32"])["found"], 0);
        let (error, asked) = noted(&folder, &["query", "t.koel", none]);
        assert_eq!((error, &asked["queries"]), (note, &0.into()));
    }
    let error = refused(&folder, &["build", "none.csv", "--column", "id", "-o", "o.koel"]);
    assert!(error.contains("none.csv: is empty, expected a column \"id\""), "{error}");
}

#[test]
fn answers_are_arrays_that_numpy_reads() {
    let (_keep, folder) = folder_with(&[
        ("keys.u32", &u32s(&[5, 6])),
        ("values.u64", &u64s(&[500, 600])),
        ("q.u64", &u64s(&[6, 1 << 40])),
    ]);
    done(&folder, &["build", "keys.u32", "--values", "values.u64", "-o", "t.koel"]);
    done(&folder, &["query", "t.koel", "q.u64", "-o", "a.npy"]);
    let bytes = fs::read(folder.join("a.npy")).unwrap();
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert_eq!((&bytes[..8], start % 64), (&b"\x93NUMPY\x01\x00"[..], 0));
    let header = "{'descr': [('key', '<u8'), ('found', '|b1'), ('value', '<u8')], \
        'fortran_order': False, 'shape': (2,), }";
    assert_eq!(text(&bytes[10..start]).trim_end(), header);
    let rows = [u64s(&[6]), vec![1], u64s(&[600]), u64s(&[1 << 40]), vec![0], u64s(&[0])].concat();
    assert_eq!(bytes[start..], rows);
}

/// Builds a table of each kind from the same column; checks its description and its answers.
#[test]
fn every_kind_is_built_and_asked() {
    let (_keep, folder) = folder_with(&[
        ("rows.csv", b"city,id\n70,1\n30,2\n70,3\n4294967295,4\n50,5\n70,6\n"),
        ("q.csv", b"50\n60\n70\n4294967366\n4294967295\n"),
        ("ids.u32", &u32s(&[3, 0, 4])),
    ]);
    for (kind, arguments, value, counts, answers) in [
        (
            "map",
            &["--value-column", "id"][..],
            Some("u32"),
            [4, 4, 2],
            "key,found,value\n50,1,5\n60,0,\n70,1,6\n4294967366,0,\n4294967295,1,4\n",
        ),
        ("set", &[], None, [4, 4, 2], "key,found\n50,1\n60,0\n70,1\n4294967366,0\n4294967295,1\n"),
        (
            "index",
            &[],
            Some("u32"),
            [4, 4, 0],
            "key,found,id\n50,1,3\n60,0,\n70,1,0\n4294967366,0,\n4294967295,1,2\n",
        ),
        (
            "multimap",
            &["--value-column", "id", "--value-type", "u64"],
            Some("u64"),
            [4, 6, 0],
            "key,found,value\n50,1,5\n60,0,\n70,1,1\n70,1,3\n70,1,6\n\
             4294967366,0,\n4294967295,1,4\n",
        ),
    ] {
        let build = ["build", "rows.csv", "--column", "city", "--kind", kind, "-o", "t.koel"];
        let built = json(&folder, &[&build, arguments].concat());
        let info = json(&folder, &["info", "t.koel"]);
        for report in [built, info] {
            assert_eq!((&report["kind"], report["key"].as_str()), (&kind.into(), Some("u32")));
            assert_eq!(report.get("value").and_then(Value::as_str), value, "{kind}");
            assert_eq!(
                ["keys", "pairs", "duplicates"].map(|f| report[f].as_u64().unwrap()),
                counts,
                "{kind}"
            );
        }
        let told = done(&folder, &["info", "t.koel"]);
        let what = value.map_or("u32".into(), |value| format!("u32 -> {value}"));
        assert!(told.contains(&format!("kind   {kind} of {what}\n")), "{told}");
        let asked = json(&folder, &["query", "t.koel", "q.csv", "-o", "a.csv"]);
        let rows = answers.lines().count() - 1;
        assert_eq!(
            ["queries", "found", "rows"].map(|f| asked[f].as_u64().unwrap()),
            [5, 3, rows as u64]
        );
        assert_eq!(fs::read_to_string(folder.join("a.csv")).unwrap(), answers);
        // The same rows as an array.
        done(&folder, &["query", "t.koel", "q.csv", "-o", "a.npy"]);
        let (bytes, mut expected) = (fs::read(folder.join("a.npy")).unwrap(), vec![]);
        for line in answers.lines().skip(1) {
            let mut fields = line.split(',').map(|field| field.parse::<u64>().unwrap_or(0));
            expected.extend(fields.next().unwrap().to_le_bytes());
            expected.push(fields.next().unwrap() as u8);
            match value {
                None => {}
                Some("u32") => expected.extend((fields.next().unwrap() as u32).to_le_bytes()),
                Some(_) => expected.extend(fields.next().unwrap().to_le_bytes()),
            }
        }
        let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        assert!(text(&bytes[10..start]).contains(&format!("'shape': ({rows},)")), "{kind}");
        assert_eq!(bytes[start..], expected, "{kind}");
        let shown = done(&folder, &["query", "t.koel", "q.csv"]);
        assert!(shown.contains("3 of 5 keys found") && shown.contains("not found"), "{shown}");
        assert_eq!(shown.contains("5 values"), kind == "multimap", "{shown}");
        // Ids back to keys.
        if kind == "index" {
            done(&folder, &["query", "t.koel", "ids.u32", "--ids", "-o", "a.csv"]);
            let keys = fs::read_to_string(folder.join("a.csv")).unwrap();
            assert_eq!(keys, "id,found,key\n3,1,50\n0,1,70\n4,0,\n");
        } else {
            let error = refused(&folder, &["query", "t.koel", "ids.u32", "--ids"]);
            assert!(
                error.contains("t.koel: holds a") && error.contains("--ids requires an index"),
                "{error}"
            );
        }
    }
}

/// Strings as keys, in a table of each kind: without their quotes, and with them in answers.
#[test]
fn keys_of_bytes_are_built_and_asked() {
    let (_keep, folder) = folder_with(&[
        ("k.csv", b"city,v\nUlm,1\n\"a \"\"b\"\", c\",2\n,3\nUlm,4294967296\n"),
        ("q.csv", b"city\nUlm\nOslo\n\"a \"\"b\"\", c\"\n"),
        ("q.u32", &u32s(&[1])),
        ("ids.u32", &u32s(&[1, 3])),
    ]);
    for (kind, value, pairs, answers) in [
        ("map", Some("u64"), 3, &["Ulm,1,4294967296", "Oslo,0,", "\"a \"\"b\"\", c\",1,2"][..]),
        ("set", None, 3, &["Ulm,1", "Oslo,0", "\"a \"\"b\"\", c\",1"]),
        ("index", Some("u32"), 3, &["Ulm,1,0", "Oslo,0,", "\"a \"\"b\"\", c\",1,1"]),
        (
            "multimap",
            Some("u64"),
            4,
            &["Ulm,1,1", "Ulm,1,4294967296", "Oslo,0,", "\"a \"\"b\"\", c\",1,2"],
        ),
    ] {
        let build = ["build", "-o", "t.koel", "k.csv", "--column", "city", "--key-type", "bytes"];
        let values = if value == Some("u64") { &["--value-column", "v"][..] } else { &[] };
        let built = json(&folder, &[&build[..], &["--kind", kind], values].concat());
        for report in [built, json(&folder, &["info", "t.koel"])] {
            assert_eq!((&report["kind"], report["key"].as_str()), (&kind.into(), Some("bytes")));
            assert_eq!(report.get("value").and_then(Value::as_str), value, "{kind}");
            assert_eq!(["keys", "pairs"].map(|f| report[f].as_u64().unwrap()), [3, pairs]);
        }
        for quick in [&[][..], &["--quick"]] {
            let query = ["query", "t.koel", "q.csv", "--column", "city", "-o", "a.csv"];
            let asked = json(&folder, &[&query[..], quick].concat());
            assert_eq!((&asked["queries"], &asked["found"]), (&3.into(), &2.into()), "{kind}");
            let told = fs::read_to_string(folder.join("a.csv")).unwrap();
            assert!(told.lines().skip(1).eq(answers.iter().copied()), "{told}");
        }
        let shown = done(&folder, &["query", "t.koel", "q.csv", "--header", "yes"]);
        assert!(shown.contains("2 of 3 keys found") && shown.contains("Oslo"), "{shown}");
        let error = refused(&folder, &["query", "t.koel", "q.u32"]);
        assert!(error.contains("expected a CSV file"), "{error}");
        let error = refused(&folder, &["query", "t.koel", "q.csv", "-o", "a.npy"]);
        assert!(error.contains("an array holds no strings, expected a file named .csv"), "{error}");
        if kind == "index" {
            done(&folder, &["query", "t.koel", "ids.u32", "--ids", "-o", "a.csv"]);
            let keys = fs::read_to_string(folder.join("a.csv")).unwrap();
            assert_eq!(keys, "id,found,key\n1,1,\"a \"\"b\"\", c\"\n3,0,\n");
        }
    }
    for (arguments, says) in [
        (&["q.u32"][..], "--key-type bytes requires a CSV file"),
        (&["k.csv", "--reproducible"], "--reproducible requires keys of 32 or 64 bits"),
        (
            &["k.csv", "--column", "city", "--duplicates", "reject"],
            "k.csv: key \"Ulm\" occurs more than once",
        ),
    ] {
        let build = ["build", "-o", "o.koel", "--key-type", "bytes"];
        let error = refused(&folder, &[&build[..], arguments].concat());
        assert!(error.contains(says), "{error}");
    }
    // A heading cannot be told from a key.
    let note = "was taken for the heading";
    assert!(
        text(
            &koel(&folder, &["build", "q.csv", "-o", "o", "--key-type", "bytes"])
                .output()
                .unwrap()
                .stderr
        )
        .contains(note)
    );
}

/// 128-bit keys, raw and as text, in a table of each kind.
#[test]
fn keys_of_128_bits_are_built_and_asked() {
    let uuid = 0xF47A_C10B_58CC_4372_A567_0E02_B2C3_D479u128;
    let raw = |keys: &[u128]| keys.iter().flat_map(|key| key.to_le_bytes()).collect::<Vec<u8>>();
    let (_keep, folder) = folder_with(&[
        ("k.u128", &raw(&[uuid, 7, u128::MAX, uuid])),
        ("v.u64", &u64s(&[1, 2, 3, 1 << 40])),
        (
            "k.csv",
            b"uuid,v\nf47ac10b-58cc-4372-a567-0e02b2c3d479,1\n7,2\n\
              0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF,3\n\
              f47ac10b58cc4372a5670e02b2c3d479,1099511627776\n",
        ),
        ("q.u128", &raw(&[7, 8, uuid])),
        ("q.csv", b"F47AC10B-58CC-4372-A567-0E02B2C3D478\n0x7\n"),
        ("ids.u32", &u32s(&[2, 3])),
    ]);
    let text = |key: u128| format!("{key:#034x}");
    for input in [&["k.u128"][..], &["k.csv", "--key-type", "u128"]] {
        for (kind, value, duplicates, answers) in [
            ("map", Some("u64"), 1, ["1,2", "0,", "1,1099511627776"]),
            ("set", None, 1, ["1", "0", "1"]),
            ("index", Some("u32"), 1, ["1,1", "0,", "1,0"]),
            ("multimap", Some("u64"), 0, ["1,2", "0,", "1,1"]),
        ] {
            let values = match (value, input.len()) {
                (Some("u64"), 1) => &["--values", "v.u64"][..],
                (Some("u64"), _) => &["--value-column", "v"],
                _ => &[],
            };
            // A row for each value.
            let more = u64::from(kind == "multimap");
            let built = json(
                &folder,
                &[&["build", "-o", "t.koel", "--kind", kind], input, values].concat(),
            );
            for report in [built, json(&folder, &["info", "t.koel"])] {
                assert_eq!((&report["kind"], report["key"].as_str()), (&kind.into(), Some("u128")));
                assert_eq!(report.get("value").and_then(Value::as_str), value, "{kind}");
                assert_eq!(
                    ["keys", "pairs", "duplicates"].map(|f| report[f].as_u64().unwrap()),
                    [3, 3 + more, duplicates]
                );
            }
            let asked = json(&folder, &["query", "t.koel", "q.u128", "-o", "a.csv"]);
            let counts = ["queries", "found", "rows"].map(|f| asked[f].as_u64().unwrap());
            assert_eq!(counts, [3, 2, 3 + more]);
            let told = fs::read_to_string(folder.join("a.csv")).unwrap();
            let rows = [7, 8, uuid].into_iter().zip(answers);
            let rows = rows.map(|(key, answer)| format!("{},{answer}", text(key)));
            let last = (more > 0).then(|| format!("{},1,1099511627776", text(uuid)));
            assert!(told.lines().skip(1).eq(rows.chain(last)), "{told}");
            // Answers can be used as queries.
            let again = json(&folder, &["query", "t.koel", "a.csv", "--column", "key"]);
            assert_eq!(again["found"], 2 + more);
            let shown = done(&folder, &["query", "t.koel", "q.csv"]);
            assert!(
                shown.contains("1 of 2 keys found") && shown.contains(&text(uuid - 1)),
                "{shown}"
            );
            if kind == "map" {
                done(&folder, &["query", "t.koel", "q.u128", "-o", "a.npy"]);
                let bytes = fs::read(folder.join("a.npy")).unwrap();
                let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
                let header = self::text(&bytes[10..start]);
                assert!(
                    header.contains("[('key', '|V16'), ('found', '|b1'), ('value', '<u8')]"),
                    "{header}"
                );
                let row = |key: u128, found: u8, value: u64| {
                    [&raw(&[key])[..], &[found], &u64s(&[value])].concat()
                };
                assert_eq!(
                    bytes[start..],
                    [row(7, 1, 2), row(8, 0, 0), row(uuid, 1, 1 << 40)].concat()
                );
            }
            if kind == "index" {
                done(&folder, &["query", "t.koel", "ids.u32", "--ids", "-o", "a.csv"]);
                let keys = fs::read_to_string(folder.join("a.csv")).unwrap();
                assert_eq!(keys, format!("id,found,key\n2,1,{}\n3,0,\n", text(u128::MAX)));
            }
        }
    }
    // In tables of narrower keys, wide queries find only keys that fit.
    done(&folder, &["build", "v.u64", "-o", "t.koel", "--kind", "set"]);
    fs::write(folder.join("few.u128"), raw(&[1, 1 | 1 << 64, 1 << 40])).unwrap();
    assert_eq!(json(&folder, &["query", "t.koel", "few.u128"])["found"], 2);
    for (arguments, says) in [
        (
            &["k.csv", "--key-type", "u128", "--reproducible"][..],
            "--reproducible requires keys of 32 or 64 bits",
        ),
        (
            &["k.u128", "--key-type", "u64"],
            "k.u128: key 0 is 324969006592305634633390616021200786553, expected at most",
        ),
        (&["v.u64", "--values", "k.u128"], "k.u128: values of 128 bits, expected at most 64"),
        (&["v.u64", "--value-type", "u128"], "--value-type"),
        (&["k.csv"], "expected a whole number from 0 to 18446744073709551615"),
        (
            &["k.u128", "--duplicates", "reject"],
            "k.u128: key 324969006592305634633390616021200786553 occurs more than once",
        ),
    ] {
        let error = refused(&folder, &[&["build", "-o", "o.koel"], arguments].concat());
        assert!(error.contains(says), "{error}");
    }
    fs::write(folder.join("short.u128"), [0; 24]).unwrap();
    let error = refused(&folder, &["build", "short.u128", "-o", "o.koel"]);
    assert!(
        error.contains("24 bytes: expected a multiple of 16, the last 8 at byte 16"),
        "{error}"
    );
}

/// More queries than one lookup takes, in every format, and more values than one retrieval takes.
#[test]
fn many_queries_are_answered_piece_by_piece() {
    let queries = (0..2_500_000u32).map(|i| i.wrapping_mul(0x9E37_79B9) >> 12).collect::<Vec<_>>();
    let lines = queries.iter().map(|query| format!("x,{query}\n")).collect::<String>();
    let (_keep, folder) = folder_with(&[
        ("keys.u32", &u32s(&(0..500_000).collect::<Vec<_>>())),
        ("q.u32", &u32s(&queries)),
        ("q.npy", &npy("<u4", queries.len(), &u32s(&queries))),
        ("q.csv", format!("what,key\n{lines}").as_bytes()),
        ("few.u32", &u32s(&[7; 3])),
        ("hot.u32", &u32s(&[[7; 2_000_000], [8; 2_000_000]].concat())),
    ]);
    done(&folder, &["build", "keys.u32", "--kind", "set", "-o", "t.koel"]);
    let expected =
        queries.iter().map(|&query| [query, u32::from(query < 500_000)]).collect::<Vec<_>>();
    let all =
        expected.iter().map(|[query, found]| format!("{query},{found}\n")).collect::<String>();
    for (file, column) in [("q.u32", "1"), ("q.npy", "1"), ("q.csv", "key")] {
        done(&folder, &["query", "t.koel", file, "--column", column, "-o", "a.csv"]);
        assert!(
            fs::read_to_string(folder.join("a.csv")).unwrap() == format!("key,found\n{all}"),
            "{file}"
        );
    }
    done(&folder, &["query", "t.koel", "q.u32", "-o", "a.npy"]);
    let bytes = fs::read(folder.join("a.npy")).unwrap();
    let rows = expected
        .iter()
        .flat_map(|&[query, found]| [&query.to_le_bytes()[..], &[found as u8]].concat());
    assert!(bytes[bytes.len() - 5 * queries.len()..].iter().copied().eq(rows));

    done(&folder, &["build", "hot.u32", "--kind", "multimap", "-o", "t.koel"]);
    let asked = json(&folder, &["query", "t.koel", "few.u32", "-o", "a.npy"]);
    assert_eq!(["queries", "found", "rows"].map(|f| asked[f].as_u64().unwrap()), [3, 3, 6_000_000]);
    let bytes = fs::read(folder.join("a.npy")).unwrap();
    let last = [&7u32.to_le_bytes()[..], &[1], &1_999_999u32.to_le_bytes()].concat();
    assert_eq!(bytes[bytes.len() - 9..], last);
}

#[test]
fn voxels_of_a_scan_are_keys() {
    let mesh = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n";
    let (_keep, folder) = folder_with(&[
        ("m.obj", mesh),
        (
            "c.ply",
            b"ply\nformat ascii 1.0\n\
        element vertex 2\nproperty float x\nproperty float y\nproperty float z\nend_header\n\
        0 0 0\n1 1 1\n",
        ),
    ]);
    let built = json(&folder, &["build", "m.obj", "--voxel-grid", "16", "-o", "t.koel"]);
    assert!(built["pairs"].as_u64().unwrap() > 50 && built["key"] == "u32", "{built}");
    let built = json(&folder, &["build", "c.ply", "--voxel-grid", "2000", "-o", "t.koel"]);
    assert_eq!((&built["pairs"], &built["key"]), (&2.into(), &"u64".into()));
    // Every format that is read is a list of keys, too.
    let help = text(&koel(&folder, &["build", "--help"]).output().unwrap().stdout);
    for (name, bytes) in [
        ("m.off", &b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"[..]),
        ("c.xyz", b"0 0 0\n1 1 1\n"),
        ("c.ASC", b"0 0 0\n1 1 1\n"),
        ("c.e57", b"no E57"),
    ] {
        fs::write(folder.join(name), bytes).unwrap();
        let output =
            koel(&folder, &["build", name, "--voxel-grid", "16", "-o", "s.koel"]).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.success(), name != "c.e57", "{name}: {said}");
        assert!(!said.contains("unknown format"), "{said}");
        let extension = name[1..].to_lowercase();
        assert!(help.contains(&extension), "{extension}");
    }
}

#[test]
fn the_same_seed_gives_the_same_file() {
    let keys = u32s(&(0..5000).map(|i: u32| i.wrapping_mul(0x9E37_79B9)).collect::<Vec<_>>());
    let (_keep, folder) = folder_with(&[("keys.u32", &keys)]);
    let build = |seed: &str, load: &str| {
        done(&folder, &["--seed", seed, "build", "keys.u32", "-o", "t.koel", "--load", load]);
        fs::read(folder.join("t.koel")).unwrap()
    };
    let one = build("1", "0.8");
    assert!(one == build("1", "0.8"));
    assert!(one != build("2", "0.8") && one != build("12884901888", "0.8"));
    assert!(build("1", "0.5").len() > one.len());
}

#[test]
fn bad_usage_is_refused() {
    let (_keep, folder) = folder_with(&[
        ("k.u32", &u32s(&[1, 2])),
        ("k.csv", b"1\n"),
        ("m.obj", b"v 0 0 0\n"),
        ("k.txt", b"1\n"),
        ("t.koel", b""),
    ]);
    for (arguments, says) in [
        (&["build", "k.u32"][..], "--out"),
        (&["build", "-o", "o"], "KEYS"),
        (
            &["build", "k.u32", "-o", "o", "--kind", "set", "--values", "k.u32"],
            "--values requires --kind map or multimap",
        ),
        (
            &["build", "k.csv", "-o", "o", "--kind", "index", "--value-column", "1"],
            "--value-column requires --kind map or multimap",
        ),
        (
            &["build", "k.u32", "-o", "o", "--kind", "index", "--value-type", "u64"],
            "--value-type requires --kind map or multimap",
        ),
        (
            &["build", "k.u32", "-o", "o", "--kind", "multimap", "--duplicates", "last"],
            "--duplicates requires --kind map",
        ),
        (
            &["build", "k.u32", "-o", "o", "--kind", "set", "--reproducible"],
            "--reproducible requires --kind map",
        ),
        (&["build", "k.u32", "-o", "o", "--kind", "tree"], "'tree'"),
        (&["build", "k.u32", "-o", "o", "--load", "0.99"], "--load 0.99: expected 0.3 to 0.95"),
        (&["build", "k.u32", "-o", "o", "--load", "NaN"], "--load NaN: expected 0.3 to 0.95"),
        (&["build", "k.u32", "-o", "o", "--duplicates", "both"], "'both'"),
        (
            &["build", "k.u32", "-o", "o", "--voxel-grid", "8"],
            "k.u32: --voxel-grid requires a point cloud or mesh",
        ),
        (&["build", "m.obj", "-o", "o", "--voxel-grid", "0"], "--voxel-grid"),
        (&["build", "m.obj", "-o", "o"], "m.obj: a scan has no numbers, expected --voxel-grid N"),
        (&["build", "m.obj", "-o", "o", "--voxel-grid", "8", "--values", "k.u32"], "--values"),
        (
            &["build", "k.u32", "-o", "o", "--value-column", "2"],
            "--value-column requires a CSV file",
        ),
        (&["build", "k.csv", "-o", "o", "--column", "0"], "columns are counted from 1"),
        (
            &["build", "k.txt", "-o", "o"],
            "k.txt: unknown format, expected a file named .u32, .u64, .u128, .npy, .csv or .tsv, \
             or --format",
        ),
        (&["build", "k.u32", "-o", "."], ".: is a folder"),
        (&["build", "k.u32", "-o", "no/o"], "no/o: cannot be written"),
        (&["build", "k.u32", "-o", "o", "--json", "no/j"], "no/j: cannot be written"),
        (
            &["query", "t.koel", "k.u32", "-o", "a.txt"],
            "a.txt: unknown format, expected a file named .npy or .csv",
        ),
        (&["query", "t.koel", "m.obj"], "m.obj: a scan is not a list of keys"),
        (&["query", "t.koel", "k.txt"], "k.txt: unknown format"),
        (&["build", "k.u32", "-o", "o", "--format", "npy"], "--format is for files whose name"),
        (&["query", "t.koel", "k.u32", "--format", "u32"], "--format is for files whose name"),
        (&["build", "k.csv", "-o", "-"], "-: a table is written to a file"),
        (&["query", "-", "k.csv"], "-: a table is read from a file, not from standard input"),
        (&["info", "-"], "-: a table is read from a file, not from standard input"),
        (&["query", "t.koel", "k.csv", "-o", "-", "--json", "-"], "both standard output"),
        (
            &["build", "-", "--values", "-", "-o", "o"],
            "--values - and KEYS - are the same file: a stream is read once",
        ),
    ] {
        let error = refused(&folder, arguments);
        assert!(error.contains(says), "{arguments:?}: {error}");
        assert_eq!(names(&folder), ["k.csv", "k.txt", "k.u32", "m.obj", "t.koel"], "{arguments:?}");
    }
}

#[test]
fn bad_numbers_are_refused_with_their_place() {
    let (_keep, folder) = folder_with(&[
        ("good.u32", &u32s(&[1, 2, 1])),
        ("short.u32", &[0; 6]),
        ("short.u64", &[0; 12]),
        ("big.u64", &u64s(&[1, 1 << 32])),
        ("text.npy", b"1,2,3\n"),
        ("short.npy", &npy("<u4", 3, &[0; 11])),
        ("float.npy", &npy("<f4", 3, &[0; 12])),
        ("minus.npy", &npy("<i4", 3, &u32s(&[1, -5i32 as u32, 3]))),
        ("word.csv", b"1\n2\nthree\n"),
        ("ragged.csv", b"1,2\n3\n"),
        ("names.csv", b"a,b\n1,2\n"),
        ("nan.obj", b"v nan 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"),
    ]);
    let before = names(&folder);
    for (arguments, says) in [
        (&["missing.u32"][..], "missing.u32: cannot be read: No such file"),
        (
            &["short.u32"],
            "short.u32: 6 bytes: expected a multiple of 4, the last 2 at byte 4 are incomplete",
        ),
        (
            &["short.u64"],
            "short.u64: 12 bytes: expected a multiple of 8, the last 4 at byte 8 are incomplete",
        ),
        (
            &["big.u64", "--key-type", "u32"],
            "big.u64: key 1 is 4294967296, expected at most 4294967295 for u32",
        ),
        (
            &["big.u64", "--values", "big.u64", "--value-type", "u32"],
            "big.u64: value 1 is 4294967296",
        ),
        (
            &["good.u32", "--values", "big.u64"],
            "big.u64: 2 values, expected one for each of 3 keys",
        ),
        (
            &["good.u32", "--duplicates", "reject"],
            "good.u32: key 1 occurs more than once: at 0 and at 2",
        ),
        (&["text.npy"], "text.npy: is not a .npy file: begins with \"1,2,3\\n\""),
        (&["short.npy"], "short.npy: truncated: 139 bytes, 3 elements need 140"),
        (
            &["float.npy"],
            "float.npy: the elements are '<f4', expected '<u4', '<u8', '<i4' or '<i8'",
        ),
        (&["minus.npy"], "minus.npy: element 1 is -5, expected no negative number"),
        (&["word.csv"], "word.csv: line 3, column 1: found \"three\", expected a whole number"),
        (&["ragged.csv"], "ragged.csv: line 2: 1 columns, expected 2 as before"),
        (
            &["names.csv", "--column", "c"],
            "names.csv: line 1: no column \"c\", the columns are a, b",
        ),
        (&["names.csv", "--column", "3"], "names.csv: line 1: 2 columns, column 3 was selected"),
        (&["nan.obj", "--voxel-grid", "8"], "nan.obj: line 1"),
    ] {
        let error = refused(&folder, &[&["build", "-o", "o.koel"], arguments].concat());
        assert!(error.contains(says), "{arguments:?}: {error}");
        assert_eq!(names(&folder), before, "{arguments:?}");
    }
}

#[test]
fn bad_tables_are_refused_by_what_is_wrong_with_them() {
    let (_keep, folder) = folder_with(&[("keys.u32", &u32s(&(0..100).collect::<Vec<_>>()))]);
    done(&folder, &["build", "keys.u32", "-o", "good.koel"]);
    let good = fs::read(folder.join("good.koel")).unwrap();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let length = good.len();
    let slots = format!("truncated: {} bytes, the section of slots needs {length}", length - 1);
    for (bytes, says) in [
        (vec![], "truncated: 0 bytes, the header needs 4096"),
        (good[..4095].to_vec(), "truncated: 4095 bytes, the header needs 4096"),
        (good[..length - 1].to_vec(), slots.as_str()),
        ([&good[..], b"\n"].concat(), "extra bytes after the section of the stash"),
        (b"key,value\n1,2\n".to_vec(), "is not a koel table: begins with \"key,value\\n1,2\\n\""),
        (with(8, 3), "has format version 3, this koel reads versions up to 2"),
        (with(60, 99), "corrupted: the header has checksum"),
        (with(length - 5, !good[length - 5]), "corrupted: the section of slots has checksum"),
    ] {
        fs::write(folder.join("bad.koel"), bytes).unwrap();
        for arguments in
            [&["info", "bad.koel"][..], &["query", "bad.koel", "keys.u32", "-o", "a.csv"]]
        {
            let error = refused(&folder, arguments);
            assert!(
                error.starts_with("error: bad.koel: ") && error.contains(says),
                "{arguments:?}: {error}"
            );
            assert_eq!(names(&folder), ["bad.koel", "good.koel", "keys.u32"]);
        }
    }
    // Bad queries after the first piece leave no answers.
    let bad = (0..1_100_000).map(|i| format!("{i}\n")).chain(["x\n".into()]).collect::<String>();
    fs::write(folder.join("bad.csv"), bad).unwrap();
    let error = refused(&folder, &["query", "good.koel", "bad.csv", "-o", "a.npy"]);
    assert!(error.contains("bad.csv: line 1100001, column 1: found \"x\""), "{error}");
    assert_eq!(names(&folder), ["bad.csv", "bad.koel", "good.koel", "keys.u32"]);
    // bad.koel is damaged only in its slots.
    done(&folder, &["info", "bad.koel", "--quick"]);
    assert!(
        done(&folder, &["query", "--quick", "bad.koel", "keys.u32"]).contains(" of 100 keys found")
    );
    assert!(
        refused(&folder, &["info", "missing.koel"])
            .contains("missing.koel: cannot be read: No such file")
    );
    assert!(
        refused(&folder, &["info", "."]).contains(".: cannot be read: expected a regular file")
    );
}

#[test]
fn a_device_that_is_not_there_leaves_nothing() {
    let (_keep, folder) = folder_with(&[("keys.u32", &u32s(&[1]))]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_koel"));
    let arguments = ["--device", "cuda:4000", "build", "keys.u32", "-o", "t.koel"];
    let output = command.current_dir(&folder).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert_eq!(names(&folder), ["keys.u32"]);
}

#[cfg(unix)]
#[test]
fn an_interrupted_query_leaves_no_answers() {
    let queries = u32s(&(0..40_000_000).collect::<Vec<_>>());
    let (_keep, folder) = folder_with(&[("keys.u32", &u32s(&[1, 2, 3])), ("q.u32", &queries)]);
    done(&folder, &["build", "keys.u32", "-o", "t.koel"]);
    for milliseconds in [100, 500] {
        let arguments = ["query", "t.koel", "q.u32", "-o", "a.csv"];
        let mut child = koel(&folder, &arguments).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        let code = child.wait().unwrap().code();
        match code {
            Some(130) => assert_eq!(names(&folder), ["keys.u32", "q.u32", "t.koel"]),
            other => assert_eq!(
                (other, names(&folder).len()),
                (Some(0), 4),
                "done before it was interrupted"
            ),
        }
        let _ = fs::remove_file(folder.join("a.csv"));
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_what_was_there() {
    let keys = u32s(&(0..20_000_000).map(|i: u32| i.wrapping_mul(0x9E37_79B9)).collect::<Vec<_>>());
    let (_keep, folder) = folder_with(&[("keys.u32", &keys), ("t.koel", b"old")]);
    for milliseconds in [50, 400, 900] {
        let mut child = koel(&folder, &["build", "keys.u32", "-o", "t.koel"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        let code = child.wait().unwrap().code();
        let whole = fs::read(folder.join("t.koel")).unwrap();
        assert_eq!(names(&folder), ["keys.u32", "t.koel"]);
        match code {
            Some(130) => assert!(whole == b"old" || whole.len() > 4096),
            other => assert_eq!(
                (other, whole.len() > 4096),
                (Some(0), true),
                "done before it was interrupted"
            ),
        }
    }
}

/// Runs a command with this standard input. Returns its status, output and errors.
fn piped(folder: &Path, arguments: &[&str], input: &[u8]) -> (Option<i32>, Vec<u8>, String) {
    let mut command = koel(folder, arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || _ = stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    (output.status.code(), output.stdout, text(&output.stderr))
}

#[test]
fn quotes_lose_no_row() {
    let (_keep, folder) = folder_with(&[
        ("spans.csv", b"id,note\n1,\"open\n2,b\n3,c\"\n4,d\n"),
        ("doubled.csv", b"1,\"a\"\n2,\"b\"\"\n3,\"c\"\n4,\"d\"\n5,\"e\"\"\n6,\"f\"\n"),
        ("open.csv", b"id,note\n1,5\" pipe\n2,\"unclosed\n3,b\n4,c\n5,d\n"),
        ("backslash.csv", b"id,note\n1,\"say \\\"hi\\\"\"\n2,b\n"),
        ("k.csv", b"1\n2\n3\n4\n5\n6\n"),
    ]);
    let (error, built) =
        noted(&folder, &["build", "spans.csv", "--column", "id", "--kind", "set", "-o", "t.koel"]);
    let note = "spans.csv: 1 quoted fields span several lines, the first lines 2 to 4 in column 2";
    assert_eq!((error, &built["keys"]), (format!("note: {note}\n"), &2.into()));
    done(&folder, &["build", "k.csv", "--kind", "set", "-o", "t.koel"]);
    let before = names(&folder);
    for (file, says) in [
        ("doubled.csv", "doubled.csv: line 3, column 2: found \"c\\\"\" after a closing quote"),
        ("open.csv", "open.csv: line 3: a quote is never closed"),
        ("backslash.csv", "backslash.csv: line 2, column 2: found \"hi"),
    ] {
        let built = refused(&folder, &["build", file, "--kind", "set", "-o", "o.koel"]);
        let asked = refused(&folder, &["query", "t.koel", file, "-o", "a.csv"]);
        assert!(built == asked && built.contains(says), "{built}{asked}");
        assert_eq!(names(&folder), before);
    }
}

#[test]
fn rows_of_two_files_are_joined_in_step() {
    let (_keep, folder) = folder_with(&[
        ("k.csv", b"1\n\n3\n4\n"),
        ("shifted.csv", b"10\n20\n\n40\n"),
        ("twice.csv", b"10\n\n\n30\n40\n"),
        ("none.csv", b"10\n30\n40\n"),
        ("same.csv", b"v\n\n10\n\n30\n40\n\n\n"),
        ("v.u32", &u32s(&[10, 30, 40])),
    ]);
    for (values, says) in [
        (
            "shifted.csv",
            "k.csv has 1 after 1 rows, from line 2, shifted.csv has 1 after 2 rows, from line 3",
        ),
        (
            "twice.csv",
            "k.csv has 1 after 1 rows, from line 2, twice.csv has 2 after 1 rows, from line 2",
        ),
        ("none.csv", "k.csv has 1 after 1 rows, from line 2, none.csv has no more"),
    ] {
        let error = refused(&folder, &["build", "k.csv", "--values", values, "-o", "o.koel"]);
        let both = format!("k.csv and {values} are joined by row, but their blank lines differ");
        assert!(error.contains(&both) && error.contains(says), "{error}");
    }
    for values in ["same.csv", "v.u32"] {
        let (_, built) = noted(&folder, &["build", "k.csv", "--values", values, "-o", "t.koel"]);
        assert_eq!(built["pairs"], 3);
        let (_, asked) = noted(&folder, &["query", "t.koel", "k.csv", "-o", "a.csv"]);
        assert_eq!(asked["found"], 3);
        let answers = fs::read_to_string(folder.join("a.csv")).unwrap();
        assert_eq!(answers, "key,found,value\n1,1,10\n3,1,30\n4,1,40\n");
    }
}

#[test]
fn guesses_about_a_heading_are_told() {
    let (_keep, folder) = folder_with(&[
        ("years.csv", b"2019,2020\n5,6\n7,8\n"),
        ("typed.csv", b"O15\n16\n"),
        ("null.csv", b"NULL\n16\n"),
    ]);
    fn build<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
        [&["build", "-o", "t.koel", "--kind", "set"], arguments].concat()
    }
    let told = done(&folder, &build(&["years.csv"]));
    let says = "3 rows, no heading: the selected fields of the first line are numbers; --header yes, \
                if they are names";
    assert!(told.contains(says), "{told}");
    let why = json(&folder, &build(&["years.csv"]))["inputs"][0]["no_heading"].clone();
    assert!(why.as_str().unwrap().contains("--header yes"), "{why}");
    let error = refused(&folder, &build(&["years.csv", "--column", "2020"]));
    let says = "column 2020 was selected by its position; the column with the name \"2020\" is column \
                2, and --header yes makes this line the heading";
    assert!(error.contains(says), "{error}");
    let built = json(&folder, &build(&["years.csv", "--column", "2", "--header", "yes"]));
    assert_eq!(built["keys"], 2);
    let (error, built) = noted(&folder, &build(&["typed.csv"]));
    assert!(
        error.contains("line 1, \"O15\", was taken for the heading") && built["keys"] == 1,
        "{error}"
    );
    assert!(error.contains("--header no, if it is a row"), "{error}");
    let error = refused(&folder, &build(&["null.csv"]));
    assert!(error.contains("found \"NULL\"") && error.contains("--header yes"), "{error}");
}

#[test]
fn standard_input_and_output_are_files_too() {
    let (_keep, folder) = folder_with(&[("k.csv", b"id\n1\n2\n3\n"), ("q.tsv", b"v\tid\n9\t2\n")]);
    done(&folder, &["build", "k.csv", "--kind", "set", "-o", "t.koel"]);
    let set = ["--kind", "set", "-o", "p.koel"];
    for (format, input) in [
        (&[][..], b"1\n2\n3\n".to_vec()),
        (&["--format", "csv"], b"id,v\n1,a\n2,b\n3,c\n".to_vec()),
        (&["--format", "tsv", "--column", "id"], b"v\tid\n9\t1\n9\t2\n9\t3\n".to_vec()),
        (&["--format", "u32"], u32s(&[1, 2, 3])),
        (&["--format", "u64"], u64s(&[1, 2, 3])),
        (&["--format", "npy"], npy("<u8", 3, &u64s(&[1, 2, 3]))),
    ] {
        let names = if cfg!(target_os = "linux") { &["-", "/dev/stdin"][..] } else { &["-"] };
        for name in names {
            let build = [&["build", name], format, &set, &["--json", "-"]].concat();
            let (code, out, error) = piped(&folder, &build, &input);
            assert_eq!((code, error.as_str()), (Some(0), ""), "{build:?}");
            assert_eq!(serde_json::from_slice::<Value>(&out).unwrap()["keys"], 3);
        }
    }
    for (format, input, says) in [
        (
            "u64",
            &[0; 12][..],
            "-: 12 bytes: expected a multiple of 8, the last 4 at byte 8 are incomplete",
        ),
        ("npy", &npy("<u4", 3, &[0; 11]), "-: truncated: 2 of 3 elements"),
        ("npy", &npy("<u4", 3, &[0; 13]), "-: has more bytes than its 3 elements"),
        ("npy", b"\x93NUMPY\x01\x00\xff", "-: truncated: 9 bytes, the header needs 10"),
        ("csv", b"1\n2,3\n", "-: line 2: 2 columns, expected 1 as before"),
        ("csv", b"\x1f\x8b\x08", "-: is not CSV in UTF-8 but gzip: gunzip -c FILE | koel ... -"),
    ] {
        let build = [&["build", "-", "--format", format], &set[..]].concat();
        let (code, out, error) = piped(&folder, &build, input);
        assert_eq!((code, out.len(), error), (Some(2), 0, format!("error: {says}\n")));
    }
    // Answers on standard output, the report on standard error.
    let queries = b"2\n7\n3\n";
    let names = if cfg!(target_os = "linux") { &["-", "/dev/stdout"][..] } else { &["-"] };
    for name in names {
        let (code, out, error) = piped(&folder, &["query", "t.koel", "-", "-o", name], queries);
        assert_eq!((code, text(&out).as_str()), (Some(0), "key,found\n2,1\n7,0\n3,1\n"));
        assert!(error.starts_with("2 of 3 keys found\n-: 3 lines read"), "{error}");
    }
    let query = ["query", "t.koel", "q.tsv", "--column", "id", "-o", "-", "--json", "r.json"];
    assert_eq!(text(&piped(&folder, &query, b"").1), "key,found\n2,1\n");
    let report = fs::read(folder.join("r.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&report).unwrap()["found"], 1);
    // A reader that closes the pipe ends the query without an error.
    let many = "1\n".repeat(2_000_000);
    fs::write(folder.join("many.csv"), many).unwrap();
    let mut query = koel(&folder, &["query", "t.koel", "many.csv", "-o", "-"]);
    let mut child = query.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[cfg(unix)]
#[test]
fn named_pipes_are_read() {
    let (_keep, folder) = folder_with(&[]);
    for name in ["in.csv", "in", "values.u32"] {
        assert!(Command::new("mkfifo").arg(folder.join(name)).status().unwrap().success());
    }
    let write = |name: &str, bytes: &[u8]| {
        let (path, bytes) = (folder.join(name), bytes.to_vec());
        std::thread::spawn(move || fs::write(path, bytes).unwrap())
    };
    for name in ["in.csv", "in"] {
        let writer = write(name, b"1\n2\n3\n");
        assert_eq!(json(&folder, &["build", name, "--kind", "set", "-o", "t.koel"])["keys"], 3);
        writer.join().unwrap();
    }
    let writers = [write("in", b"1\n2\n"), write("values.u32", &u32s(&[10, 20]))];
    let built = json(&folder, &["build", "in", "--values", "values.u32", "-o", "t.koel"]);
    assert_eq!(built["pairs"], 2);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    for (arguments, says) in [
        (&["build", "in", "--values", "in", "-o", "o"][..], "a stream is read once"),
        (&["query", "t.koel", "in", "-o", "in"], "an output must not replace an input"),
        (&["query", "in", "values.u32"], "in: cannot be read: expected a regular file"),
    ] {
        let error = refused(&folder, arguments);
        assert!(error.contains(says), "{error}");
    }
}

/// Runs a command under a limit of its address space, in KiB.
#[cfg(target_os = "linux")]
fn limited(folder: &Path, kib: usize, arguments: &str) -> (Option<i32>, String) {
    let koel = env!("CARGO_BIN_EXE_koel");
    let run = format!("ulimit -v {kib}; exec {koel} --device cpu --threads 1 {arguments}");
    let output = Command::new("sh").current_dir(folder).args(["-c", &run]).output().unwrap();
    (output.status.code(), text(&output.stderr))
}

#[cfg(target_os = "linux")]
#[test]
fn input_larger_than_memory_is_an_error() {
    let rows = (0..3_000_000u64).map(|i| format!("{}\n", 10_000_000_000 + i)).collect::<String>();
    let words = (0..3_000_000u64).collect::<Vec<_>>();
    let (_keep, folder) = folder_with(&[
        ("small.csv", b"1\n"),
        ("k.csv", rows.as_bytes()),
        ("fields.csv", format!("1{}\n", ",".repeat(4_000_000)).as_bytes()),
        ("field.csv", format!("1,{}\n2,\"{0}\"\n", "x".repeat(20_000_000)).as_bytes()),
        ("k.u64", &u64s(&words)),
        ("k.npy", &npy("<u8", words.len(), &u64s(&words))),
    ]);
    // The least memory with which a file is opened and read.
    let least = |status, arguments: &str| {
        let fits = |&kib: &usize| limited(&folder, kib, arguments).0 == Some(status);
        (4..1 << 9).map(|i| i << 12).find(fits).unwrap()
    };
    let to_read = least(2, "build small.csv --column 9 --kind set -o t.koel");
    for input in ["k.csv", "fields.csv", "k.u64", "k.npy", "- --format u64 < k.u64"] {
        let build = format!("build --kind set -o o.koel {input}");
        let (code, error) = limited(&folder, to_read + 2048, &build);
        assert_eq!((code, error.lines().count()), (Some(1), 1), "{build}: {error}");
        assert!(error.contains("out of memory for "), "{build}: {error}");
    }
    // Fields that are not selected take no memory.
    let build = "build field.csv --kind set -o o.koel";
    let to_build = least(0, "build small.csv --kind set -o t.koel");
    assert_eq!(limited(&folder, to_build + 2048, build), (Some(0), String::new()));
}
/// Tables of strings are described, and asked if their values are unsigned numbers or strings.
#[test]
fn tables_of_strings_are_described() {
    let folder = tempfile::tempdir().unwrap();
    let table =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/table/string_map.koel");
    fs::copy(table, folder.path().join("words.koel")).unwrap();
    let info = json(folder.path(), &["info", "words.koel"]);
    assert_eq!(
        (&info["kind"], &info["key"], &info["value"]),
        (&"map".into(), &"bytes".into(), &"i32".into())
    );
    fs::write(folder.path().join("keys.csv"), "x\n").unwrap();
    let error = refused(folder.path(), &["query", "words.koel", "keys.csv"]);
    let says = "words.koel: holds a map of strings of bytes -> i32, expected keys and values of";
    assert!(error.contains(says), "{error}");
    let table = koel::MapToStrings::build(&koel::Device::cpu().unwrap(), &[7u64], &["a,b"]);
    table.unwrap().save(folder.path().join("names.koel")).unwrap();
    fs::write(folder.path().join("keys.csv"), "7\n8\n").unwrap();
    done(folder.path(), &["query", "names.koel", "keys.csv", "-o", "a.csv"]);
    let told = fs::read_to_string(folder.path().join("a.csv")).unwrap();
    assert_eq!(told, "key,found,value\n7,1,\"a,b\"\n8,0,\n");
}

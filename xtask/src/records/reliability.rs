//! Figures of docs/reliability.md: counted in the sources, or read from records.
use super::{read, thousands};
use crate::metadata::{FOLDERS, path_in_repository};
use crate::mutants;
use crate::ptx::Kernels;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const SANITIZERS: &str = "results/h200/2026-11-23/sanitizers.txt";
const GPU_TESTS: &str = "results/h200/2026-11-24/tests-2.txt";

/// Returns all tables.
pub(super) fn figures(root: &Path) -> Result<String, String> {
    let parts = [counts(root)?, planted(root)?, fuzzed(root)?, sanitized(root)?];
    Ok(format!("{}\n", parts.join("\n")))
}

/// Returns the counts from the sources, and of the tests that passed on a GPU.
fn counts(root: &Path) -> Result<String, String> {
    let faults = read(&root.join("crates/koel-simt/src/host/fault.rs"))?;
    let ci = read(&root.join(".ci/run"))?;
    let miri = ci
        .lines()
        .filter_map(|line| Some(line.split_once("cargo +nightly miri test ")?.1))
        .collect::<Vec<_>>();
    let gpu = read(&root.join(GPU_TESTS))?;
    let passed = gpu.lines().filter_map(|line| number_before(line, " passed")).sum::<u64>();
    let failed = gpu.lines().filter_map(|line| number_before(line, " failed")).sum::<u64>();
    let mut text = String::from("| figure | | counted in |\n|---|---|---|\n");
    let mut row = |what: &str, number: String, place: &str| {
        let _ = writeln!(text, "| {what} | {number} | {place} |");
    };
    for kernels in Kernels::published(root) {
        let (name, entries) = (kernels.package(), read(&kernels.list())?);
        let number = number_of_entries(&entries).ok_or("entries.rs: no list of kernels")?;
        row(
            &format!("kernels of {name}, each compiled for GPUs and for the test executor"),
            number.to_string(),
            &format!("`{name}/src/entries.rs`"),
        );
    }
    let kinds = number_of_variants(&faults, "FaultKind").ok_or("fault.rs: no FaultKind")?;
    row(
        "kinds of faults that the executor reports",
        kinds.to_string(),
        "`koel-simt/src/host/fault.rs`",
    );
    for (name, tests) in tests_of_crates(root)? {
        row(
            &format!("tests of {name}"),
            tests.to_string(),
            &format!("`{}`", path_in_repository(root, &name)),
        );
    }
    row(
        "runs of tests under Miri",
        miri.len().to_string(),
        &format!("`.ci/run`: `{}`", miri.join("`; `")),
    );
    row(
        "tests that passed, and failed, on an H200",
        format!("{passed}, {failed}"),
        &linked(GPU_TESTS),
    );
    Ok(text)
}
/// Returns the number of kernels in the list of `entries.rs`.
fn number_of_entries(text: &str) -> Option<usize> {
    let list = text.split_once("pub const ALL: &[&KernelSpec] = &[")?.1.split_once("];")?.0;
    Some(list.lines().filter(|line| line.ends_with("::SPEC,")).count())
}
fn number_of_variants(text: &str, name: &str) -> Option<usize> {
    let body = text.split_once(&format!("pub enum {name} {{"))?.1.split_once("\n}")?.0;
    let is_variant = |line: &&str| {
        line.starts_with("    ") && line.trim().starts_with(|c: char| c.is_ascii_uppercase())
    };
    Some(body.lines().filter(is_variant).count())
}
fn number_before(line: &str, mark: &str) -> Option<u64> {
    line.split_once(mark)?.0.rsplit(' ').next()?.parse().ok()
}
/// Returns the number of tests of each crate, including properties.
fn tests_of_crates(root: &Path) -> Result<BTreeMap<String, usize>, String> {
    let mut tests = BTreeMap::new();
    let mut files = vec![];
    FOLDERS.iter().try_for_each(|folder| super::list(&root.join(folder), &mut files))?;
    for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "rs")) {
        let inside = file.strip_prefix(root).map_err(|e| e.to_string())?;
        let Some(name) = inside.components().nth(1) else { continue };
        if inside
            .components()
            .any(|part| ["target", "node_modules"].iter().any(|other| part.as_os_str() == *other))
        {
            continue;
        }
        let number = read(file)?.lines().filter(|line| line.trim() == "#[test]").count();
        *tests.entry(name.as_os_str().to_string_lossy().into_owned()).or_insert(0) += number;
    }
    tests.retain(|_, number| *number > 0);
    Ok(tests)
}

/// Returns the table of planted faults: their number per crate, and the outcomes of those that were
/// run.
fn planted(root: &Path) -> Result<String, String> {
    let list = read(&root.join("xtask/mutants.txt"))?;
    let mutants = mutants::parse(&list)?;
    let records = super::newest::paths(root)?;
    let newest =
        records.get(&("cpu-2core".into(), "mutants".into())).and_then(|paths| paths.first());
    let path = format!("results/{}", newest.ok_or("no record of planted faults")?);
    let record = lines(root, &path)?;
    let verdict = |name: &str| {
        record.iter().find(|line| line["mutant"] == name).and_then(|line| line["verdict"].as_str())
    };
    let crate_of = |file: &str| file.split('/').nth(1).unwrap_or_default().to_string();
    let mut rows = BTreeMap::<String, [usize; 4]>::new();
    for m in &mutants {
        let row = rows.entry(crate_of(m.file)).or_default();
        row[0] += 1;
        let place = match verdict(m.name) {
            Some("caught") => 1,
            Some("survived") => 2,
            _ => 3,
        };
        row[place] += 1;
    }
    let all = rows.values().fold([0; 4], |all, row| std::array::from_fn(|i| all[i] + row[i]));
    rows.insert("~all".into(), all);
    let about = record.first().map_or("not recorded".to_string(), |line| {
        let field = |name: &str| {
            line[name]
                .as_str()
                .unwrap_or("unknown")
                .split('T')
                .next()
                .unwrap_or_default()
                .to_string()
        };
        format!("{} of commit {}, {}", linked(&path), field("commit"), field("date"))
    });
    let mut text = format!("Planted faults (`xtask/mutants.txt`; verdicts: {about}):\n\n");
    text +=
        "| crate | planted | caught | survived | not run in the record |\n|---|---|---|---|---|\n";
    for (name, [all, caught, survived, left]) in rows {
        let _ = writeln!(
            text,
            "| {} | {all} | {caught} | {survived} | {left} |",
            name.trim_start_matches('~')
        );
    }
    Ok(text)
}

/// Returns the table of fuzz targets, with the sums of all records of fuzzing.
fn fuzzed(root: &Path) -> Result<String, String> {
    let manifest = read(&root.join("fuzz/Cargo.toml"))?;
    let tests = read(&root.join("crates/koel-cli/tests/seeds.rs"))?;
    let records = records_of_fuzzing(root)?;
    let mut runs = vec![];
    for record in &records {
        runs.extend(lines(root, record)?);
    }
    let targets = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("path = \"fuzz_targets/")?.strip_suffix(".rs\""));
    // Targets without seeds read no input.
    let targets = targets.filter(|target| root.join("fuzz/seeds").join(target).is_dir());
    let mut text = String::from(
        "| fuzz target | seeds | mutations in `cargo test` | executions on record | findings |\n",
    );
    text += "|---|---|---|---|---|\n";
    for target in targets {
        let mut seeds = vec![];
        super::list(&root.join("fuzz/seeds").join(target), &mut seeds)?;
        let mutations = mutations_of(&tests, target)
            .ok_or_else(|| format!("seeds.rs: `{target}` is not run"))?;
        let sum = |field: &str| {
            let of_target = runs.iter().filter(|line| line["target"] == target);
            let numbers = of_target.map(|line| line[field].as_u64()).collect::<Vec<_>>();
            let sum = numbers.iter().copied().sum::<Option<u64>>();
            sum.filter(|_| !numbers.is_empty()).map_or("not recorded".into(), thousands)
        };
        let (executions, findings) = (sum("executions"), sum("findings"));
        let (seeds, mutations) = (seeds.len(), thousands(mutations));
        let _ = writeln!(text, "| {target} | {seeds} | {mutations} | {executions} | {findings} |");
    }
    if !records.is_empty() {
        let links = records.iter().map(|record| linked(record)).collect::<Vec<_>>();
        let _ = writeln!(text, "\nExecutions, added up: {}.", links.join(", "));
    }
    Ok(text)
}
/// Returns the paths of the records of fuzzing (`results/<machine>/<date>/fuzz*.jsonl`), sorted.
fn records_of_fuzzing(root: &Path) -> Result<Vec<String>, String> {
    let mut files = vec![];
    super::list(&root.join("results"), &mut files)?;
    let mut records = files
        .iter()
        .filter_map(|file| file.strip_prefix(root).ok()?.to_str())
        .filter(|path| path.rsplit('/').next().is_some_and(|name| name.starts_with("fuzz")))
        .filter(|path| path.ends_with(".jsonl"))
        .map(String::from)
        .collect::<Vec<_>>();
    records.sort();
    Ok(records)
}
/// Returns the number after the name in `run("name", number, ..)`.
fn mutations_of(tests: &str, target: &str) -> Option<u64> {
    let behind = tests.split_once(&format!("run(\"{target}\", "))?.1;
    behind.split(',').next()?.replace('_', "").parse().ok()
}

/// Returns the table of the sanitizers' runs.
fn sanitized(root: &Path) -> Result<String, String> {
    let text = read(&root.join(SANITIZERS))?;
    let mut tools = BTreeMap::<&str, [usize; 3]>::new();
    for line in text.lines() {
        let Some((tool, rest)) = line.split_once(' ') else { continue };
        // Any exit status other than 0 and 9 means that the program was ended, for example by the
        // time limit.
        let place = match rest
            .split_once(": exit ")
            .map(|(_, status)| status.split(';').next().unwrap_or_default())
        {
            Some("0") => 0,
            Some("9") => 1,
            Some(_) => 2,
            None if rest.contains("SUMMARY: 0 ") => 0,
            None => 1,
        };
        tools.entry(tool).or_default()[place] += 1;
    }
    let mut text = format!("compute-sanitizer on an H200 ({}):\n\n", linked(SANITIZERS));
    text += "| tool | programs without findings | with findings | not ended |\n|---|---|---|---|\n";
    for (tool, [clean, found, ended]) in tools {
        let _ = writeln!(text, "| {tool} | {clean} | {found} | {ended} |");
    }
    Ok(text)
}

/// Returns the lines of a record; none if the file does not exist.
fn lines(root: &Path, file: &str) -> Result<Vec<Value>, String> {
    let Ok(text) = std::fs::read_to_string(root.join(file)) else { return Ok(vec![]) };
    text.lines()
        .map(|line| serde_json::from_str(line).map_err(|e| format!("{file}: {e}")))
        .collect()
}
/// Returns a link to a file of the repository, from docs/.
fn linked(file: &str) -> String {
    format!("[{file}](../{file})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_counted() {
        let entries = "use a;\npub const ALL: &[&KernelSpec] = &[\
            \n    &crate::a::one::SPEC,\n    &crate::a::two::u32::SPEC,\n];\n";
        assert_eq!(number_of_entries(entries), Some(2));
        let kinds = "/// What.\npub enum FaultKind {\n    /// A\n    A,\n    /// Big\
            \n    B(u32),\n}\npub enum Other {\n    C,\n}\n";
        assert_eq!(number_of_variants(kinds, "FaultKind"), Some(2));
        assert_eq!(
            number_before("map: test result: ok. 16 passed; 0 failed; 0 ignored", " passed"),
            Some(16)
        );
        assert_eq!(mutations_of("run(\"npy\", 50_000, npy::check);", "npy"), Some(50_000));
        assert_eq!(mutations_of("run(\"npy\", 50_000, npy::check);", "ply"), None);
    }
}

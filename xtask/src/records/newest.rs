//! Table of the newest record of each kind, for results/README.md.
use super::{list, read};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Returns the paths of all files below `results/`, sorted.
fn all(root: &Path) -> Result<Vec<String>, String> {
    let results = root.join("results");
    let mut files = vec![];
    list(&results, &mut files)?;
    let path = |file: &PathBuf| file.strip_prefix(&results).unwrap_or(file).display().to_string();
    let mut paths = files.iter().map(path).collect::<Vec<_>>();
    paths.sort();
    Ok(paths)
}
/// Returns the machine, the name without its number, and the ending of `MACHINE/DATE/NAME`. `None`
/// for files in other places.
fn kind(path: &str) -> Option<(String, String, String)> {
    let &[machine, _, name] = &path.split('/').collect::<Vec<_>>()[..] else { return None };
    let (name, ending) = name.split_once('.')?;
    Some((machine.into(), unnumbered(name).into(), ending.into()))
}
fn is_record(path: &str) -> bool {
    path.ends_with(".json") || path.ends_with(".jsonl")
}
/// Returns the paths of all records below `results/`, by machine and name; the newest first.
pub(super) fn paths(root: &Path) -> Result<BTreeMap<(String, String), Vec<String>>, String> {
    let mut paths = BTreeMap::<_, Vec<String>>::new();
    for path in all(root)?.into_iter().filter(|path| is_record(path)) {
        if let Some((machine, name, _)) = kind(&path) {
            paths.entry((machine, name)).or_default().push(path);
        }
    }
    for paths in paths.values_mut() {
        paths.sort_by(|a, b| order(b).cmp(&order(a)));
    }
    Ok(paths)
}
/// Returns a table of the newest record of each name and machine: `results/MACHINE/DATE/NAME`. A
/// number at the end of a name counts the records of one day.
pub(super) fn table(root: &Path) -> Result<String, String> {
    for path in all(root)?.iter().filter(|path| is_record(path)) {
        // Folders below a date hold comparisons, which their own tables discuss.
        let parts = path.split('/').collect::<Vec<_>>();
        let is_placed = parts.len() > 3 || parts.len() == 3 && is_date(parts[1]);
        if !is_placed {
            return Err(misplaced(path));
        }
    }
    let mut text =
        String::from("| machine | record | date | commit | command |\n|---|---|---|---|---|\n");
    for ((machine, name), paths) in paths(root)? {
        let path = &paths[0];
        let record = first(&read(&root.join("results").join(path))?)
            .map_err(|e| format!("results/{path}: {e}"))?;
        let of = |field: &str| record[field].as_str().unwrap_or("unknown").replace('|', "\\|");
        let commit = of("commit").chars().take(12).collect::<String>();
        let date = &path[machine.len() + 1..][..10];
        let command = of("command");
        let _ =
            writeln!(text, "| {machine} | [{name}]({path}) | {date} | {commit} | `{command}` |");
    }
    Ok(text)
}
/// Fails if the tree has records or plots that are neither the newest of their kind nor cited: they
/// belong to the history.
pub(super) fn check_superseded(root: &Path) -> Result<(), String> {
    let mut texts = vec![];
    for folder in ["docs", "xtask"] {
        list(&root.join(folder), &mut texts)?;
    }
    let named = ["README.md", "CHANGELOG.md", "ARCHITECTURE.md", "results/README.md"];
    texts.extend(named.map(|name| root.join(name)));
    let is_text =
        |file: &Path| file.extension().is_some_and(|e| e == "md" || e == "rs" || e == "txt");
    let texts = texts.iter().filter(|file| is_text(file) && file.exists());
    let cited = texts.map(|file| read(file)).collect::<Result<String, _>>()?;
    let paths = all(root)?;
    let mut newest = BTreeMap::new();
    for path in &paths {
        let other = kind(path).map(|kind| newest.entry(kind).or_insert(path));
        if let Some(other) = other.filter(|other| order(path) > order(other)) {
            *other = path;
        }
    }
    let is_newest = |path: &String| kind(path).is_some_and(|kind| newest[&kind] == path);
    let in_folders = paths.iter().filter(|path| path.contains('/'));
    let superseded = in_folders.filter(|path| !is_newest(path) && !cited.contains(*path));
    let superseded = superseded.map(String::as_str).collect::<Vec<_>>();
    if superseded.is_empty() {
        return Ok(());
    }
    Err(format!(
        "results: {} files are neither the newest of their kind nor cited; `git rm` keeps them in \
         the history:\n       {}",
        superseded.len(),
        superseded.join("\n       ")
    ))
}
/// Returns what sorts the records of one name and machine by time: dates sort as text, and numbers
/// of one day below ten do, too.
pub(super) fn order(path: &str) -> (&str, usize, &str) {
    (path.split('/').nth(1).unwrap_or_default(), path.len(), path)
}
fn misplaced(path: &str) -> String {
    format!("results/{path}: expected results/MACHINE/YEAR-MONTH-DAY/NAME")
}
/// Returns the record, or the first of its lines.
fn first(text: &str) -> Result<Value, String> {
    let line = text.lines().next().unwrap_or_default();
    serde_json::from_str(line).or_else(|_| serde_json::from_str(text)).map_err(|e| e.to_string())
}
fn is_date(text: &str) -> bool {
    let shape = text.bytes().map(|b| if b.is_ascii_digit() { b'0' } else { b });
    shape.eq(*b"0000-00-00")
}
/// Returns a name without the number at its end that tells records of one day apart.
pub(super) fn unnumbered(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((before, number))
            if number.len() == 1 && number.bytes().all(|b| b.is_ascii_digit()) =>
        {
            before
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_each_name_is_listed() {
        let root = std::env::temp_dir().join(format!("koel-records-{}", std::process::id()));
        let write = |path: &str, command: &str| {
            let path = root.join("results").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text = format!(r#"{{"commit":"0123456789abcdef","command":"{command}"}}"#);
            std::fs::write(path, text + "\n{}\n").unwrap();
        };
        write("m/2026-11-22/map.jsonl", "old");
        write("m/2026-11-24/map.jsonl", "morning");
        write("m/2026-11-24/map-2.jsonl", "a | b");
        write("m/2026-11-24/structs/map-1-after.jsonl", "c");
        write("n/2026-11-20/map.jsonl", "d");
        assert_eq!(
            table(&root).unwrap().lines().skip(2).collect::<Vec<_>>(),
            [
                "| m | [map](m/2026-11-24/map-2.jsonl) | 2026-11-24 | 0123456789ab | `a \\| b` |",
                "| n | [map](n/2026-11-20/map.jsonl) | 2026-11-20 | 0123456789ab | `d` |",
            ]
        );
        write("m/2026-11-24/plots/load.svg", "f");
        std::fs::create_dir_all(root.join("xtask")).unwrap();
        std::fs::create_dir_all(root.join("docs")).unwrap();
        std::fs::write(root.join("docs/a.md"), "(../results/m/2026-11-24/map.jsonl)").unwrap();
        let said = check_superseded(&root).unwrap_err();
        assert!(said.contains("results: 3 files"), "{said}");
        assert!(said.contains("m/2026-11-22/map.jsonl") && said.contains("plots/load.svg"));
        std::fs::write(
            root.join("docs/b.md"),
            "m/2026-11-22/map.jsonl m/2026-11-24/plots/load.svg m/2026-11-24/structs/map-1-after.jsonl",
        )
        .unwrap();
        check_superseded(&root).unwrap();
        write("n/map.jsonl", "e");
        assert!(table(&root).unwrap_err().contains("n/map.jsonl: expected results/MACHINE"));
        std::fs::remove_dir_all(&root).unwrap();
    }
}

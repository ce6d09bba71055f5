//! The tables of docs/papers.md that list every item of the papers: each file and each test that a
//! row names must exist. A test of koel-cli parses the commands.
use super::read;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

const DOCUMENT: &str = "docs/papers.md";
/// Heading of a table of items.
const HEADING: &str = "| item | source | in koel | command | test | note |";

/// Fails if a row names a file, an example or a test that does not exist.
pub(super) fn check(root: &Path) -> Result<(), String> {
    let text = read(&root.join(DOCUMENT))?;
    let tests = tests(&root.join("crates"))?;
    let (mut rows, mut wrong) = (0, vec![]);
    for (line, cells) in items(&text) {
        rows += 1;
        let faults = match cells[..] {
            [_, _, files, command, names, _] => faults(root, &tests, [files, command, names]),
            _ => vec!["expected six cells".into()],
        };
        wrong.extend(faults.into_iter().map(|fault| format!("{DOCUMENT}:{line}: {fault}")));
    }
    match wrong.is_empty() {
        true if rows == 0 => Err(format!("{DOCUMENT}: no table of items")),
        true => {
            println!("{DOCUMENT}: {rows} items, whose files and tests exist");
            Ok(())
        }
        false => Err(wrong.join("\n       ")),
    }
}

/// Returns the rows of all tables of items: number of the line, and cells.
fn items(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let mut is_inside = false;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        let was_inside = is_inside;
        is_inside = line == HEADING || is_inside && line.starts_with('|');
        let cells = line.strip_prefix('|')?.strip_suffix('|')?;
        let is_row = was_inside && is_inside && !line.starts_with("|-");
        is_row.then(|| (number, cells.split('|').map(str::trim).collect()))
    })
}
/// Returns the words in backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn faults(root: &Path, tests: &HashSet<String>, [files, command, names]: [&str; 3]) -> Vec<String> {
    let is_missing = |path: &String| !root.join(path).exists();
    let named = quoted(files).map(|file| format!("crates/{file}"));
    let missing = named.chain(quoted(command).filter_map(program)).filter(is_missing);
    let unknown = quoted(names).filter(|&name| !tests.contains(name));
    missing
        .map(|path| format!("no file `{path}`"))
        .chain(unknown.map(|name| format!("no test `{name}`")))
        .collect()
}
/// Returns the source of the example or binary that `cargo run` starts.
fn program(command: &str) -> Option<String> {
    let words = command.strip_prefix("cargo run ")?.split(' ').collect::<Vec<_>>();
    let after = |option: &str| words.get(words.iter().position(|word| *word == option)? + 1);
    let package = after("-p")?;
    let example = after("--example").map(|name| format!("crates/{package}/examples/{name}.rs"));
    example.or_else(|| Some(format!("crates/{package}/src/bin/{}.rs", after("--bin")?)))
}

/// Returns the names of all tests, alone and with their file: `test` and `file::test`.
fn tests(folder: &Path) -> Result<HashSet<String>, String> {
    let mut files = vec![];
    super::list(folder, &mut files)?;
    let mut tests = HashSet::new();
    let is_source = |file: &&PathBuf| file.extension().is_some_and(|ending| ending == "rs");
    for file in files.iter().filter(is_source) {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        for name in tests_of(&read(file)?) {
            tests.insert(format!("{stem}::{name}"));
            tests.insert(name.into());
        }
    }
    Ok(tests)
}
/// Returns the names of a file's tests.
fn tests_of(text: &str) -> impl Iterator<Item = &str> {
    let mut is_test = false;
    text.lines().map(str::trim).filter_map(move |line| {
        let name = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        let found = name.filter(|_| is_test).and_then(|name| name.split('(').next());
        is_test = line.starts_with("#[") && line.ends_with("test]") || is_test && found.is_none();
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
| item | source | in koel | command | test | note |
|---|---|---|---|---|---|
| a | 1 | `k/a.rs`, `k/b.rs` | `koel bench --n 4` | `a::holds` | |
| b | 2 | not implemented | - | - | why |

| item |
| c |
";

    #[test]
    fn rows_are_those_of_tables_of_items() {
        let rows = items(TEXT).collect::<Vec<_>>();
        assert_eq!(rows.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(rows[0].1[2..5], ["`k/a.rs`, `k/b.rs`", "`koel bench --n 4`", "`a::holds`"]);
        assert_eq!(quoted(rows[0].1[2]).collect::<Vec<_>>(), ["k/a.rs", "k/b.rs"]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let tests = HashSet::from(["holds".to_string(), "a::holds".to_string()]);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let faults = |files, command, names| faults(&root, &tests, [files, command, names]);
        assert!(faults("`koel/src/lib.rs`", "`koel bench`", "`a::holds`, `holds`").is_empty());
        assert!(faults("not implemented", "-", "-").is_empty());
        let run = "`cargo run --release -p koel --example none -- 1`";
        assert_eq!(
            faults("`koel/src/none.rs`", run, "`b::holds`"),
            [
                "no file `crates/koel/src/none.rs`",
                "no file `crates/koel/examples/none.rs`",
                "no test `b::holds`",
            ]
        );
    }

    #[test]
    fn tests_are_functions_with_the_attribute() {
        let text = "#[test]\nfn a() {}\nfn b() {}\n    #[test]\n    /// Why.\n    fn c(\n\
                    #[tokio::test]\nasync fn d() {}\n#[cfg(test)]\nmod tests {\nfn e() {}\n";
        assert_eq!(tests_of(text).collect::<Vec<_>>(), ["a", "c", "d"]);
    }
}

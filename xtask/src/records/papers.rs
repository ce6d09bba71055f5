//! The tables of docs/papers.md that list every item of the papers: each file that a row names must
//! exist, and each test must be one that plain `cargo test` runs: a function of one file under the
//! attribute `#[test]`, without `#[ignore]`. A name that several files have needs its file. A test
//! of koel-cli parses the commands.
use super::read;
use crate::metadata::{FOLDERS, path_in_repository};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

const DOCUMENT: &str = "docs/papers.md";
/// Heading of a table of items.
const HEADING: &str = "| item | source | in koel | command | test | note |";

/// Fails if a row names a file, an example or a test that does not exist.
pub(super) fn check(root: &Path) -> Result<(), String> {
    let text = read(&root.join(DOCUMENT))?;
    let tests = Tests::of(&FOLDERS.map(|folder| root.join(folder)))?;
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
            println!("{DOCUMENT}: {rows} items, whose files exist and whose tests run");
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

fn faults(root: &Path, tests: &Tests, [files, command, names]: [&str; 3]) -> Vec<String> {
    let named = quoted(files).map(str::to_owned).chain(quoted(command).filter_map(program));
    let paths = named.map(|file| path_in_repository(root, &file));
    let missing = paths.filter(|path| !root.join(path).exists());
    let missing = missing.map(|path| format!("no file `{path}`"));
    missing.chain(quoted(names).filter_map(|name| tests.fault(name))).collect()
}
/// Returns the source of the example or binary that `cargo run` starts, from its crate on.
fn program(command: &str) -> Option<String> {
    let words = command.strip_prefix("cargo run ")?.split(' ').collect::<Vec<_>>();
    let after = |option: &str| words.get(words.iter().position(|word| *word == option)? + 1);
    let package = after("-p")?;
    let example = after("--example").map(|name| format!("{package}/examples/{name}.rs"));
    example.or_else(|| Some(format!("{package}/src/bin/{}.rs", after("--bin")?)))
}

/// Where tests lie: by name, the file of each, and whether it is ignored.
#[derive(Default)]
struct Tests(HashMap<String, Vec<(PathBuf, bool)>>);
impl Tests {
    /// Finds the tests of all sources in folders.
    fn of(folders: &[PathBuf]) -> Result<Tests, String> {
        let mut files = vec![];
        folders.iter().try_for_each(|folder| super::list(folder, &mut files))?;
        let mut tests = Tests::default();
        for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "rs")) {
            for (name, is_ignored) in tests_of(&read(file)?) {
                tests.0.entry(name.into()).or_default().push((file.clone(), is_ignored));
            }
        }
        Ok(tests)
    }
    /// Returns what is wrong with a named test: `test`, or `file::test` where several files have a
    /// test of this name.
    fn fault(&self, name: &str) -> Option<String> {
        let (file, test) =
            name.rsplit_once("::").map_or((None, name), |(file, test)| (Some(file), test));
        let in_file = |path: &Path| file.is_none_or(|f| path.file_stem().is_some_and(|s| s == f));
        let all = self.0.get(test).into_iter().flatten();
        let found = all.filter(|(path, _)| in_file(path)).collect::<Vec<_>>();
        match found[..] {
            [] => Some(format!("no test `{name}`")),
            [(path, true)] => Some(format!("`{name}` is ignored in {}", path.display())),
            [_] => None,
            _ => Some(format!("{} tests are named `{name}`: name the file too", found.len())),
        }
    }
}
/// Returns the names of a file's tests, and whether they are ignored.
fn tests_of(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let (mut is_test, mut is_ignored) = (false, false);
    text.lines().map(str::trim).filter_map(move |line| {
        let name = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        let name = name.and_then(|name| name.split('(').next());
        let found = name.filter(|_| is_test).map(|name| (name, is_ignored));
        // Attributes and comments may stand between the attribute and the function.
        let goes_on = line.starts_with("#[") || line.starts_with("//");
        is_test = line.starts_with("#[") && line.ends_with("test]") || is_test && goes_on;
        is_ignored = line.starts_with("#[ignore") || is_ignored && goes_on;
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
        let file = |name: &str, is_ignored| (PathBuf::from(name), is_ignored);
        let tests = Tests(HashMap::from([
            ("holds".into(), vec![file("k/a.rs", false)]),
            ("waits".into(), vec![file("k/a.rs", true)]),
            ("repeats".into(), vec![file("k/a.rs", false), file("k/c.rs", false)]),
        ]));
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let faults = |files, command, names| faults(&root, &tests, [files, command, names]);
        assert!(
            faults(
                "`koel/src/lib.rs`, `koel-lab/src/lib.rs`",
                "`koel bench`",
                "`a::holds`, `holds`"
            )
            .is_empty()
        );
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
        assert!(faults("-", "-", "`c::repeats`").is_empty());
        assert_eq!(
            faults("-", "-", "`repeats`"),
            ["2 tests are named `repeats`: name the file too"]
        );
        assert_eq!(faults("-", "-", "`waits`"), ["`waits` is ignored in k/a.rs"]);
    }

    #[test]
    fn tests_are_functions_with_the_attribute() {
        let text = "#[test]\nfn a() {}\nfn b() {}\n    #[test]\n    /// Why.\n    fn c(\n\
                    #[tokio::test]\nasync fn d() {}\n#[cfg(test)]\nmod tests {\nfn e() {}\n\
                    #[test]\n#[ignore = \"slow\"]\nfn f() {}\n#[test]\nfn g() {}\n";
        let expected = [("a", false), ("c", false), ("d", false), ("f", true), ("g", false)];
        assert_eq!(tests_of(text).collect::<Vec<_>>(), expected);
    }
}

//! Records under `results/`: checks that each states its provenance, and generates the tables in
//! documents that are made from records. Checks what documents name.
mod claims;
mod newest;
mod papers;
mod performance;
mod readme;
mod reliability;

use serde_json::Value;
use std::path::{Path, PathBuf};

/// Fields that every record has.
const FIELDS: [&str; 4] = ["commit", "command", "driver", "date"];

/// Generated section of a document, between two comments that name the command.
struct Section {
    file: &'static str,
    option: &'static str,
    /// Name among the sections of one option; empty if there is one.
    part: &'static str,
    text: fn(&Path, part: &str) -> Result<String, String>,
}
/// Returns all sections.
fn sections() -> Vec<Section> {
    let reliability = "docs/reliability.md";
    let performance = "docs/performance.md";
    let mut sections = vec![
        Section::of("README.md", "--readme", "", |root, _| readme::table(root)),
        Section::of(reliability, "--reliability", "", |root, _| reliability::figures(root)),
        Section::of("results/README.md", "--newest", "", |root, _| newest::table(root)),
    ];
    let parts = performance::parts();
    sections.extend(
        parts.map(|part| Section::of(performance, "--performance", part, performance::part)),
    );
    sections
}

/// Checks all records and generated sections, or writes the named sections.
pub(crate) fn records(root: &Path, options: &[&str]) -> Result<(), String> {
    if options == ["--check"] {
        let number = check_all(root)?;
        println!("{number} records, each of which names its commit, command, driver and date");
        check_links(root)?;
        newest::check_superseded(root)?;
        papers::check(root)?;
        claims::check(root)?;
        return sections().iter().try_for_each(|section| section.check(root));
    }
    let sections = sections();
    if let Some(option) = options.iter().find(|o| sections.iter().all(|s| s.option != **o)) {
        return Err(format!("records: no option `{option}`"));
    }
    let mut chosen = sections.iter().filter(|section| options.contains(&section.option)).peekable();
    if chosen.peek().is_none() {
        let all = "--check, --readme, --reliability, --performance or --newest";
        return Err(format!("records: expected {all}"));
    }
    chosen.try_for_each(|section| section.write(root))
}

impl Section {
    const fn of(
        file: &'static str,
        option: &'static str,
        part: &'static str,
        text: fn(&Path, part: &str) -> Result<String, String>,
    ) -> Section {
        Section { file, option, part, text }
    }
    fn marks(&self) -> [String; 2] {
        let part = if self.part.is_empty() { "" } else { &format!(": {}", self.part) };
        [format!("<!-- cargo xtask records {}{part} -->\n", self.option), "<!-- end -->".into()]
    }
    /// Returns the document as it is, and as it should be.
    fn texts(&self, root: &Path) -> Result<[String; 2], String> {
        let old = read(&root.join(self.file))?;
        let [begin, end] = self.marks();
        let parts = old
            .split_once(&begin)
            .and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
        let (before, behind) =
            parts.ok_or_else(|| format!("{}: no `{}` with an end", self.file, begin.trim()))?;
        let new = format!("{before}{begin}{}{end}{behind}", (self.text)(root, self.part)?);
        Ok([old, new])
    }
    fn check(&self, root: &Path) -> Result<(), String> {
        let [old, new] = self.texts(root)?;
        if old == new {
            println!("{} {}: up to date", self.file, self.part);
            return Ok(());
        }
        let line = old.lines().zip(new.lines()).take_while(|(old, new)| old == new).count() + 1;
        let option = self.option;
        Err(format!(
            "{}:{line}: differs from the records: run `cargo xtask records {option}`",
            self.file
        ))
    }
    fn write(&self, root: &Path) -> Result<(), String> {
        let [_, new] = self.texts(root)?;
        std::fs::write(root.join(self.file), new).map_err(|e| format!("{}: {e}", self.file))
    }
}

/// Fails if a document links to a file that is not in the repository.
fn check_links(root: &Path) -> Result<(), String> {
    let mut files = vec![root.join("results/README.md")];
    list(&root.join("docs"), &mut files)?;
    let mut dead = vec![];
    for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "md")) {
        let text = read(file)?;
        let folder = file.parent().unwrap_or(root);
        let missing = links(&text).filter(|link| !folder.join(link).exists());
        let name = file.strip_prefix(root).unwrap_or(file).display();
        dead.extend(missing.map(|link| format!("{name}: no file `{link}`")));
    }
    if dead.is_empty() { Ok(()) } else { Err(dead.join("\n       ")) }
}
/// Returns the paths of links, without anchors.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let paths = targets.filter_map(|target| target.split('#').next());
    paths.filter(|path| {
        !path.is_empty() && !path.contains("://") && !path.contains(char::is_whitespace)
    })
}

/// Returns the number of records; fails if one is incomplete.
fn check_all(root: &Path) -> Result<usize, String> {
    let mut files = vec![];
    list(&root.join("results"), &mut files)?;
    files.sort();
    let (mut number, mut wrong) = (0, vec![]);
    for file in &files {
        let name = file.strip_prefix(root).unwrap_or(file).display().to_string();
        let has_lines = match file.extension().and_then(|ending| ending.to_str()) {
            Some("json") => false,
            Some("jsonl") => true,
            _ => continue,
        };
        number += 1;
        wrong.extend(check(&read(file)?, has_lines).err().map(|e| format!("{name}: {e}")));
    }
    if wrong.is_empty() { Ok(number) } else { Err(wrong.join("\n       ")) }
}
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let say = |e: std::io::Error| format!("{}: {e}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(say)? {
        let path = entry.map_err(say)?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Checks a record. Unknown fields are `null`, provided that `recorded_in` names the commit that
/// added the record.
fn check(text: &str, has_lines: bool) -> Result<(), String> {
    let parse = |text: &str, line: usize| {
        serde_json::from_str::<Value>(text)
            .map_err(|e| if has_lines { format!("line {line}: {e}") } else { e.to_string() })
    };
    let record = match has_lines {
        true => {
            let lines = text.lines().enumerate().map(|(i, line)| parse(line, i + 1));
            lines.collect::<Result<Vec<_>, _>>()?.into_iter().next().ok_or("is empty")?
        }
        false => parse(text, 1)?,
    };
    for field in FIELDS {
        let there = record.get(field).ok_or_else(|| format!("does not name its {field}"))?;
        let is_known = match there.as_str() {
            Some(text) => !text.is_empty(),
            None if there.is_null() => false,
            None => return Err(format!("{field} is {there}, expected text or null")),
        };
        let may_miss = record.get("recorded_in").is_some_and(Value::is_string)
            || field == "driver" && !is_of_gpu(&record);
        if !is_known && !may_miss {
            return Err(format!(
                "{field} is {there}, and no `recorded_in` names the commit that added the record"
            ));
        }
    }
    match record["commit"].as_str() {
        Some(c) if !(7..=40).contains(&c.len()) || !c.bytes().all(|b| b.is_ascii_hexdigit()) => {
            Err(format!("commit is `{c}`, expected 7 to 40 hexadecimal digits"))
        }
        _ => Ok(()),
    }
}
/// Returns whether the record measures a GPU: the machine is a name, or has a kind.
fn is_of_gpu(record: &Value) -> bool {
    let machine = &record["machine"];
    machine.as_str().is_some_and(|name| name.contains("NVIDIA")) || machine["kind"] == "cuda"
}
fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}
fn parsed(root: &Path, file: &str) -> Result<Value, String> {
    serde_json::from_str(&read(&root.join(file))?).map_err(|e| format!("{file}: {e}"))
}
/// Returns the number with commas between thousands.
fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str =
        r#"{"commit":"0123456789ab","command":"c","driver":null,"date":"2026-11-24"}"#;

    #[test]
    fn records_name_what_they_are_of() {
        assert_eq!(check(WHOLE, false), Ok(()));
        assert_eq!(check(&format!("{WHOLE}\n{{\"op\":\"copy\"}}\n"), true), Ok(()));
        for (text, has_lines, said) in [
            (r#"{"rows":[],"seed":1}"#, false, "does not name its commit"),
            ("{\"op\":\"copy\"}\n{\"op\":\"build\"}\n", true, "does not name its commit"),
            ("", true, "is empty"),
            (&WHOLE.replace(r#""c""#, "null"), false, "command is null, and no `recorded_in`"),
            (&WHOLE.replace("0123456789ab", "unknown"), false, "commit is `unknown`"),
            (&WHOLE.replace("}", r#","machine":"NVIDIA H200"}"#), false, "driver is null"),
            (&WHOLE.replace("}", r#","machine":{"kind":"cuda"}}"#), false, "driver is null"),
            (&format!("{WHOLE}\n{{\n"), true, "line 2: "),
        ] {
            let found = check(text, has_lines).unwrap_err();
            assert!(found.contains(said), "{text}: {found}");
        }
        let brought =
            WHOLE.replace("\"0123456789ab\"", "null").replace('}', r#","recorded_in":"d751ffe"}"#);
        assert_eq!(check(&brought, false), Ok(()));
    }

    #[test]
    fn links_are_found_in_documents() {
        let text = "[a](../results/a.json#x) and ![b](b.png), [c](https://c.org/d), [e](#f) (g)";
        assert_eq!(links(text).collect::<Vec<_>>(), ["../results/a.json", "b.png"]);
    }

    #[test]
    fn numbers_are_written_with_commas() {
        assert_eq!([0, 999, 1000, 5_464_075].map(thousands), ["0", "999", "1,000", "5,464,075"]);
    }
}

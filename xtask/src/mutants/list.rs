//! The list of faults, `xtask/mutants.txt`.
use std::path::Path;

/// Planted fault: the text to replace, its replacement, and the tests that must notice.
pub(crate) struct Mutant<'a> {
    pub name: &'a str,
    pub file: &'a str,
    /// Arguments of `cargo test`.
    pub tests: Vec<&'a str>,
    pub old: String,
    pub new: String,
}

/// Parses blocks of: name, file, `= cargo test arguments`, then `- ` lines (old) and `+ ` lines
/// (new). An error names the mutant.
pub(crate) fn parse(list: &str) -> Result<Vec<Mutant<'_>>, String> {
    let blocks = list.split("\n\n").map(|b| b.trim_start_matches('\n'));
    let blocks = blocks.filter(|b| !b.trim().is_empty() && !b.starts_with('#'));
    blocks
        .map(|block| {
            let mut lines = block.lines();
            let name = lines.next().unwrap_or_default();
            let wrong = |what: &str| format!("mutants.txt: `{name}`: {what}");
            let file = lines.next().ok_or_else(|| wrong("no file"))?;
            let tests = lines.next().and_then(|l| l.strip_prefix("= "));
            let tests = tests.ok_or_else(|| wrong("no `= ` line"))?.split_whitespace().collect();
            let text = |sign: char| {
                let lines = block.lines().skip(3).filter(|l| l.starts_with(sign));
                lines.map(|l| l.get(2..).unwrap_or("")).collect::<Vec<_>>().join("\n")
            };
            if let Some(l) = lines.find(|l| !l.starts_with(['-', '+'])) {
                return Err(wrong(&format!("neither `- ` nor `+ `: {l}")));
            }
            Ok(Mutant { name, file, tests, old: text('-'), new: text('+') })
        })
        .collect()
}

/// Fails if a text to be replaced does not occur exactly once in its file.
pub(super) fn check(root: &Path, mutants: &[Mutant]) -> Result<(), String> {
    let mut wrong = vec![];
    for m in mutants {
        let places = super::read(&root.join(m.file))?.matches(&m.old).count();
        if places != 1 {
            wrong.push(format!("mutant `{}`: {places} places in {} match", m.name, m.file));
        }
        if m.old == m.new {
            wrong.push(format!("mutant `{}`: changes nothing", m.name));
        }
        if mutants.iter().filter(|other| other.name == m.name).count() > 1 {
            wrong.push(format!("mutant `{}`: another mutant has the same name", m.name));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n       ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read() {
        let list =
            "# a comment\n\nno barrier\nsrc/a.rs\n= -p a --test b\n- x();\n- \n- y();\n+ y();\n\n";
        let mutants = parse(list).unwrap();
        assert_eq!(mutants.len(), 1);
        let m = &mutants[0];
        let tests = &["-p", "a", "--test", "b"][..];
        assert_eq!((m.name, m.file, m.tests.as_slice()), ("no barrier", "src/a.rs", tests));
        assert_eq!((m.old.as_str(), m.new.as_str()), ("x();\n\ny();", "y();"));
        assert!(parse("name\nfile\n- no tests").is_err());
        assert!(parse("name\nfile\n= -p a\n- x\ny").is_err());
    }

    #[test]
    fn texts_must_match_once() {
        let folder = std::env::temp_dir().join(format!("koel-mutants-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("a.rs"), "x();\ny();\nx();\n").unwrap();
        let of = |list: &str| check(&folder, &parse(list).unwrap());
        assert_eq!(of("one\na.rs\n= -p a\n- y();\n+ z();\n"), Ok(()));
        let two = "two\na.rs\n= -p a\n- x();\n+ z();\n\nnone\na.rs\n= -p a\n- w();\n+ z();\n";
        let said = of(two).unwrap_err();
        assert!(said.contains("`two`: 2 places in a.rs"), "{said}");
        assert!(said.contains("`none`: 0 places in a.rs"), "{said}");
        assert!(
            of("same\na.rs\n= -p a\n- y();\n+ y();\n").unwrap_err().contains("changes nothing")
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

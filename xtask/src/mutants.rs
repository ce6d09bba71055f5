//! Planted faults: each must be caught by the host tests.
use std::path::Path;
use std::process::Command;

/// One fault: what to write in place of what, and the tests that must notice.
struct Mutant<'a> {
    name: &'a str,
    file: &'a str,
    tests: Vec<&'a str>,
    old: String,
    new: String,
}

/// Applies each mutant of `mutants.txt` alone to a copy of the sources and runs its tests there.
pub fn mutants(root: &Path, only: &[&str]) -> Result<(), String> {
    let list =
        std::fs::read_to_string(root.join("xtask/mutants.txt")).map_err(|e| format!("xtask/mutants.txt: {e}"))?;
    let mutants = parse(&list)?;
    let chosen = |m: &&Mutant| only.is_empty() || only.iter().any(|o| m.name.contains(o));
    let copy = root.join("target/mutants/tree");
    copy_sources(root, &copy)?;
    let mut survivors = vec![];
    for m in mutants.iter().filter(chosen) {
        let path = copy.join(m.file);
        let source = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", m.file))?;
        let places = source.matches(&m.old).count();
        if places != 1 {
            return Err(format!("mutant `{}`: {places} places in {} match", m.name, m.file));
        }
        write(&path, &source.replace(&m.old, &m.new))?;
        let outcome = test(root, &copy, &m.tests);
        write(&path, &source)?;
        match outcome? {
            Outcome::Passed => {
                println!("SURVIVED {}", m.name);
                survivors.push(m.name);
            }
            Outcome::Failed(said) => println!("caught   {}\n         {said}", m.name),
            Outcome::NoVerdict(said) => return Err(format!("mutant `{}` was not tested: {said}", m.name)),
        }
    }
    if survivors.is_empty() { Ok(()) } else { Err(format!("survived: {}", survivors.join(", "))) }
}

/// Blocks of: name, file, `= cargo test arguments`, then `- ` lines (old) and `+ ` lines (new).
fn parse(list: &str) -> Result<Vec<Mutant<'_>>, String> {
    let blocks =
        list.split("\n\n").map(|b| b.trim_start_matches('\n')).filter(|b| !b.trim().is_empty() && !b.starts_with('#'));
    blocks
        .map(|block| {
            let mut lines = block.lines();
            let name = lines.next().unwrap_or_default();
            let wrong = |what: &str| format!("mutants.txt: `{name}`: {what}");
            let file = lines.next().ok_or_else(|| wrong("no file"))?;
            let tests = lines.next().and_then(|l| l.strip_prefix("= ")).ok_or_else(|| wrong("no `= ` line"))?;
            let tests = tests.split_whitespace().collect();
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

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}
/// What git knows or would know; a file that is the same already keeps its time, so that little is built again.
fn copy_sources(root: &Path, copy: &Path) -> Result<(), String> {
    let list = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("git: {e}"))?;
    for file in String::from_utf8_lossy(&list.stdout).split('\0').filter(|f| !f.is_empty()) {
        let (from, to) = (root.join(file), copy.join(file));
        let Ok(text) = std::fs::read(&from) else { continue }; // deleted, not yet committed
        if std::fs::read(&to).is_ok_and(|old| old == text) {
            continue;
        }
        std::fs::create_dir_all(to.parent().unwrap_or(copy)).map_err(|e| e.to_string())?;
        std::fs::write(&to, text).map_err(|e| format!("{}: {e}", to.display()))?;
    }
    Ok(())
}

enum Outcome {
    Passed,
    /// and what the tests said
    Failed(String),
    NoVerdict(String),
}
fn test(root: &Path, copy: &Path, tests: &[&str]) -> Result<Outcome, String> {
    let out = Command::new("cargo")
        .args(["test", "--quiet"])
        .args(tests)
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", root.join("target/mutants/build"))
        .env_remove("CARGO_MANIFEST_DIR")
        .output()
        .map_err(|e| format!("cargo: {e}"))?;
    if out.status.success() {
        return Ok(Outcome::Passed);
    }
    let log = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    let line = |marks: &[&str]| log.lines().find(|l| marks.iter().any(|m| l.contains(m))).map(|l| l.trim().to_string());
    // What dies of a signal, as of a stack that is too small, has told nothing.
    if let Some(said) = line(&["error[", "could not compile", "error: no test target", "(signal: "]) {
        return Ok(Outcome::NoVerdict(said));
    }
    // What the first panic says stands below its place.
    let said = log.lines().skip_while(|l| !l.contains("panicked at")).find(|l| !l.contains("panicked at"));
    Ok(Outcome::Failed(said.unwrap_or("without a word").trim().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read() {
        let list = "# a comment\n\nno barrier\nsrc/a.rs\n= -p a --test b\n- x();\n- \n- y();\n+ y();\n\n";
        let mutants = parse(list).unwrap();
        assert_eq!(mutants.len(), 1);
        let m = &mutants[0];
        assert_eq!((m.name, m.file, m.tests.as_slice()), ("no barrier", "src/a.rs", &["-p", "a", "--test", "b"][..]));
        assert_eq!((m.old.as_str(), m.new.as_str()), ("x();\n\ny();", "y();"));
        assert!(parse("name\nfile\n- no tests").is_err() && parse("name\nfile\n= -p a\n- x\ny").is_err());
    }
}

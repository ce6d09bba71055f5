//! Planted faults: each must be caught by the host tests.
use crate::weight::cpu_of_children;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Seconds after which tests that do not end are ended: a fault may make a loop endless.
const MOST_SECONDS: &str = "600";

/// One fault: what to write in place of what, and the tests that must notice.
pub struct Mutant<'a> {
    pub name: &'a str,
    pub file: &'a str,
    tests: Vec<&'a str>,
    old: String,
    new: String,
}

/// Which mutants to run, and where to record what came of them.
#[derive(Default, PartialEq, Debug)]
struct Choice<'a> {
    /// Parts of names or of paths of files; all mutants if there are none.
    names: Vec<&'a str>,
    /// Only look whether every text matches exactly one place.
    only_check: bool,
    /// So many of them, drawn by the seed, or by the commit.
    sample: Option<usize>,
    seed: Option<u64>,
    /// Seconds of processor time after which no other mutant is begun.
    budget: Option<f64>,
    /// File to which a line of JSON is added for each mutant.
    json: Option<&'a Path>,
}
impl<'a> Choice<'a> {
    fn parse(args: &[&'a str]) -> Result<Choice<'a>, String> {
        let mut choice = Choice::default();
        let mut args = args.iter();
        while let Some(&arg) = args.next() {
            let mut value = || args.next().copied().ok_or(format!("mutants: {arg}: no value"));
            fn number<T: std::str::FromStr>(option: &str, text: &str) -> Result<Option<T>, String> {
                text.parse().map(Some).map_err(|_| format!("mutants: {option}: `{text}` is no such number"))
            }
            match arg {
                "--check" => choice.only_check = true,
                "--sample" => choice.sample = number(arg, value()?)?,
                "--seed" => choice.seed = number(arg, value()?)?,
                "--budget" => choice.budget = number(arg, value()?)?,
                "--json" => choice.json = Some(value()?.as_ref()),
                _ if arg.starts_with('-') => return Err(format!("mutants: `{arg}` is no option")),
                name => choice.names.push(name),
            }
        }
        Ok(choice)
    }
    /// Selects mutants. Without a budget, those of one crate and one test are beside each other:
    /// builds share what they can.
    fn of<'m>(&self, mutants: &'m [Mutant<'m>], commit: u64) -> Vec<&'m Mutant<'m>> {
        let is_of = |m: &Mutant, name| m.name.contains(name) || m.file.contains(name);
        let is_named = |m: &&Mutant| self.names.is_empty() || self.names.iter().any(|&name| is_of(m, name));
        let mut chosen = mutants.iter().filter(is_named).collect::<Vec<_>>();
        if let Some(n) = self.sample {
            let seed = self.seed.unwrap_or(commit);
            chosen.sort_by_key(|m| random_rank(seed, m.name));
            chosen.truncate(n);
        }
        if self.budget.is_none() {
            chosen.sort_by_key(|m| (m.file.split("/src/").next(), m.tests.clone(), m.file));
        }
        chosen
    }
}
/// Returns a number that orders names differently for every seed (64-bit FNV-1a, mixed).
fn random_rank(seed: u64, name: &str) -> u64 {
    let start = 0xCBF2_9CE4_8422_2325 ^ seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let hash = name.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    let mixed = (hash ^ hash >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    mixed ^ mixed >> 32
}

/// Applies each chosen mutant of `mutants.txt` alone to a copy of the sources and runs its tests there.
pub fn mutants(root: &Path, args: &[&str]) -> Result<(), String> {
    let choice = Choice::parse(args)?;
    let list = read(&root.join("xtask/mutants.txt"))?;
    let mutants = parse(&list)?;
    check(root, &mutants)?;
    if choice.only_check {
        println!("{} planted faults, each of which matches one place", mutants.len());
        return Ok(());
    }
    let mut chosen = choice.of(&mutants, crate::commit_number(root));
    let copy = root.join("target/mutants/tree");
    copy_sources(root, &copy)?;
    let mut record = choice.json.map(|file| Record::begin(root, file)).transpose()?;
    if let Some(record) = &record {
        chosen.retain(|m| !record.done.contains(m.name));
    }
    let (mut caught, mut survivors, mut untested) = (0, vec![], vec![]);
    let before = cpu_of_children()?;
    for m in &chosen {
        let (began, used) = (Instant::now(), cpu_of_children()?);
        if choice.budget.is_some_and(|budget| used - before >= budget) {
            break;
        }
        let path = copy.join(m.file);
        let source = read(&path)?;
        write(&path, &source.replace(&m.old, &m.new))?;
        let outcome = test(root, &copy, &m.tests);
        write(&path, &source)?;
        let outcome = outcome?;
        match &outcome {
            Outcome::Passed => {
                println!("SURVIVED {}", m.name);
                survivors.push(m.name);
            }
            Outcome::Failed(said) => {
                println!("caught   {}\n         {said}", m.name);
                caught += 1;
            }
            Outcome::NoVerdict(said) => {
                println!("NOT RUN  {}\n         {said}", m.name);
                untested.push(m.name);
            }
        }
        if let Some(record) = &mut record {
            record.add(m, &outcome, cpu_of_children()? - used, began.elapsed().as_secs_f64())?;
        }
    }
    let left = chosen.len() - caught - survivors.len();
    let (all, used) = (mutants.len(), cpu_of_children()? - before);
    println!(
        "{caught} caught, {} survived, {left} of {} chosen not run; {all} planted faults; {used:.0} CPU-seconds",
        survivors.len(),
        chosen.len()
    );
    match (&survivors[..], &untested[..]) {
        ([], []) => Ok(()),
        ([], untested) => Err(format!("not tested: {}", untested.join(", "))),
        (survivors, _) => Err(format!("survived: {}", survivors.join(", "))),
    }
}

/// Fails if a text to be replaced does not stand exactly once in its file.
fn check(root: &Path, mutants: &[Mutant]) -> Result<(), String> {
    let mut wrong = vec![];
    for m in mutants {
        let places = read(&root.join(m.file))?.matches(&m.old).count();
        if places != 1 {
            wrong.push(format!("mutant `{}`: {places} places in {} match", m.name, m.file));
        }
        if m.old == m.new {
            wrong.push(format!("mutant `{}`: changes nothing", m.name));
        }
        if mutants.iter().filter(|other| other.name == m.name).count() > 1 {
            wrong.push(format!("mutant `{}`: another one has the same name", m.name));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n       ")) }
}

/// A file of JSON lines: what it is of, then a mutant a line.
struct Record {
    file: std::fs::File,
    /// Mutants that it has lines of already.
    done: HashSet<String>,
}
impl Record {
    /// Begins the file, or goes on with one that is there, if that is of the same commit.
    fn begin(root: &Path, path: &Path) -> Result<Record, String> {
        let say = |e: std::io::Error| format!("{}: {e}", path.display());
        let here = crate::provenance_here(root)?;
        let lines = std::fs::read_to_string(path).unwrap_or_default();
        let lines = lines.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
        let lines = lines.map_err(|e| format!("{}: {e}", path.display()))?;
        let file = std::fs::File::options().create(true).append(true).open(path).map_err(say)?;
        let done = lines.iter().filter_map(|line| Some(line["mutant"].as_str()?.to_string())).collect();
        let mut record = Record { file, done };
        match lines.first().map(|first| &first["commit"]) {
            None => record.line(&here)?,
            Some(commit) if *commit == here.commit => {}
            Some(commit) => return Err(format!("{}: is of commit {commit}, not of {}", path.display(), here.commit)),
        }
        Ok(record)
    }
    fn add(&mut self, m: &Mutant, outcome: &Outcome, cpu: f64, wall: f64) -> Result<(), String> {
        let (verdict, said) = match outcome {
            Outcome::Passed => ("survived", None),
            Outcome::Failed(said) => ("caught", Some(said)),
            Outcome::NoVerdict(said) => ("not run", Some(said)),
        };
        let tests = m.tests.join(" ");
        let tenths = |seconds: f64| (10.0 * seconds).round() / 10.0;
        self.line(&json!({
            "mutant": m.name, "file": m.file, "tests": tests, "verdict": verdict, "said": said,
            "cpu_s": tenths(cpu), "wall_s": tenths(wall),
        }))
    }
    fn line(&mut self, line: &impl Serialize) -> Result<(), String> {
        let text = serde_json::to_string(line).map_err(|e| e.to_string())?;
        writeln!(self.file, "{text}").map_err(|e| format!("--json: {e}"))
    }
}

/// Blocks of: name, file, `= cargo test arguments`, then `- ` lines (old) and `+ ` lines (new).
pub fn parse(list: &str) -> Result<Vec<Mutant<'_>>, String> {
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

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
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
    let cargo = |program: &str, before: &[&str], behind: &[&str]| {
        Command::new(program)
            .args(before)
            .args(["test", "--quiet"])
            .args(tests.iter().take_while(|arg| **arg != "--"))
            .args(behind)
            .args(tests.iter().skip_while(|arg| **arg != "--"))
            .current_dir(copy)
            .env("CARGO_TARGET_DIR", root.join("target/mutants/build"))
            // A fault changes one crate: the rest of its code, and of those that depend on it, is not compiled again.
            .envs([("CARGO_INCREMENTAL", "1"), ("CARGO_PROFILE_DEV_DEBUG", "0")])
            .env_remove("CARGO_MANIFEST_DIR")
            .output()
            .map_err(|e| format!("{program}: {e}"))
    };
    // Builds take as long as they take: only tests are ended.
    let mut out = cargo("cargo", &[], &["--no-run"])?;
    if out.status.success() {
        out = cargo("timeout", &[MOST_SECONDS, "cargo"], &[])?;
    }
    if out.status.success() {
        return Ok(Outcome::Passed);
    }
    if out.status.code() == Some(124) {
        return Ok(Outcome::Failed(format!("did not end in {MOST_SECONDS} seconds")));
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

    #[test]
    fn samples_follow_the_seed() {
        let list = (0..20).map(|i| format!("fault {i}\na.rs\n= -p a\n- x\n+ y\n\n")).collect::<String>();
        let mutants = parse(&list).unwrap();
        let names = |args: &[&str], commit| {
            Choice::parse(args).unwrap().of(&mutants, commit).iter().map(|m| m.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[], 1).len(), 20);
        assert_eq!(names(&["--sample", "5"], 1).len(), 5);
        assert_eq!(names(&["--sample", "5"], 7), names(&["--sample", "5", "--seed", "7"], 1));
        assert_ne!(names(&["--sample", "5"], 1), names(&["--sample", "5"], 2));
        assert_eq!(names(&["fault 7", "fault 13"], 1), ["fault 7", "fault 13"]);
    }

    #[test]
    fn options_are_read() {
        let choice = Choice::parse(&["a", "--sample", "3", "--seed", "9", "--budget", "60", "--json", "f"]).unwrap();
        let json = Some(Path::new("f"));
        let expected =
            Choice { names: vec!["a"], only_check: false, sample: Some(3), seed: Some(9), budget: Some(60.0), json };
        assert_eq!(choice, expected);
        assert!(Choice::parse(&["--check"]).unwrap().only_check);
        for wrong in [&["--sample"][..], &["--sample", "x"], &["--seed", "-1"], &["--others"]] {
            assert!(Choice::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn texts_must_match_once() {
        let folder = std::env::temp_dir().join(format!("koel-mutants-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("a.rs"), "x();\ny();\nx();\n").unwrap();
        let of = |list: &str| check(&folder, &parse(list).unwrap());
        assert_eq!(of("one\na.rs\n= -p a\n- y();\n+ z();\n"), Ok(()));
        let said = of("two\na.rs\n= -p a\n- x();\n+ z();\n\nnone\na.rs\n= -p a\n- w();\n+ z();\n").unwrap_err();
        assert!(said.contains("`two`: 2 places in a.rs") && said.contains("`none`: 0 places in a.rs"), "{said}");
        assert!(of("same\na.rs\n= -p a\n- y();\n+ y();\n").unwrap_err().contains("changes nothing"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

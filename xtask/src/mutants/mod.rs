//! Planted faults: the host tests must catch each.
mod list;
mod record;
mod roots;
mod run;
mod switch;
mod together;

use crate::weight::cpu_of_children;
pub(crate) use list::{Mutant, parse};
use record::Record;
use run::TestResult;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use together::Together;

/// Selection of mutants, and where to record their results.
#[derive(Default, PartialEq, Debug)]
struct Choice<'a> {
    /// Parts of names or of file paths; empty: all mutants.
    names: Vec<&'a str>,
    /// Only check that every text matches exactly once.
    only_check: bool,
    /// Build all of them once, each behind a switch.
    together: bool,
    /// Number of mutants besides the named ones: a share of the others, chosen by the seed or the
    /// commit.
    sample: Option<usize>,
    seed: Option<u64>,
    /// File to which a line of JSON is appended per mutant.
    json: Option<&'a Path>,
}
impl<'a> Choice<'a> {
    fn parse(args: &[&'a str]) -> Result<Choice<'a>, String> {
        let mut choice = Choice::default();
        let mut args = args.iter();
        while let Some(&arg) = args.next() {
            let mut value = || args.next().copied().ok_or(format!("mutants: {arg}: no value"));
            fn number<T: std::str::FromStr>(option: &str, text: &str) -> Result<Option<T>, String> {
                text.parse()
                    .map(Some)
                    .map_err(|_| format!("mutants: {option}: `{text}` is not a valid number"))
            }
            match arg {
                "--check" => choice.only_check = true,
                "--together" => choice.together = true,
                "--sample" => choice.sample = number(arg, value()?)?,
                "--seed" => choice.seed = number(arg, value()?)?,
                "--json" => choice.json = Some(value()?.as_ref()),
                _ if arg.starts_with('-') => return Err(format!("mutants: no option `{arg}`")),
                name => choice.names.push(name),
            }
        }
        Ok(choice)
    }
    /// Selects mutants, in an order in which those of one test follow each other.
    fn of<'m>(&self, mutants: &'m [Mutant<'m>], commit: u64) -> Vec<&'m Mutant<'m>> {
        let is_of = |m: &Mutant, name| m.name.contains(name) || m.file.contains(name);
        let is_named = |m: &&Mutant| self.names.iter().any(|&name| is_of(m, name));
        let mut all = mutants.iter().collect::<Vec<_>>();
        all.sort_by_key(|m| (m.tests.clone(), m.file));
        let (mut named, others) = all.into_iter().partition::<Vec<_>, _>(is_named);
        if let Some(n) = self.sample {
            // Neighbours share builds; the last share begins again at the first.
            let shares = others.len().div_ceil(n.max(1)).max(1);
            let share = (self.seed.unwrap_or(commit) % shares as u64) as usize;
            named.extend(others.iter().cycle().skip(share * n).take(n.min(others.len())));
        } else if self.names.is_empty() {
            named = others;
        }
        named
    }
}

/// Plants each selected mutant of `mutants.txt` in a copy of the sources and runs its tests there,
/// one by one or all in one build.
pub(crate) fn mutants(root: &Path, args: &[&str]) -> Result<(), String> {
    let choice = Choice::parse(args)?;
    let list = read(&root.join("xtask/mutants.txt"))?;
    let mutants = parse(&list)?;
    list::check(root, &mutants)?;
    if choice.only_check {
        println!("{} planted faults, each of which matches one place", mutants.len());
        return Ok(());
    }
    let before = cpu_of_children()?;
    let mut chosen = choice.of(&mutants, crate::commit_number(root));
    let mut record = choice.json.map(|file| Record::begin(root, file)).transpose()?;
    if let Some(record) = &record {
        chosen.retain(|m| !record.done.contains(m.name));
    }
    let build = root.join("target/mutants");
    let (copy, copy_of_all) = (build.join("tree"), build.join("together"));
    let numbers = (1u32..).zip(&mutants).map(|(number, m)| (m.name, number));
    let numbers = numbers.collect::<HashMap<_, _>>();
    let number = |m: &Mutant| numbers[m.name];
    let together = if choice.together && !chosen.is_empty() {
        let numbered = chosen.iter().map(|m| (number(m), *m)).collect::<Vec<_>>();
        let together = Together::build(root, &copy_of_all, &build, &numbered)?;
        let used = cpu_of_children()? - before;
        let switched = chosen.len() - together.alone.len();
        println!("{switched} faults in one build, {used:.0} CPU-seconds");
        for m in &chosen {
            let why = together.alone.get(&number(m));
            why.iter().for_each(|why| println!("alone    {}\n         {why}", m.name));
        }
        // Last, because mutants planted alone change the copy.
        chosen.sort_by_key(|m| together.alone.contains_key(&number(m)));
        Some(together)
    } else {
        copy_sources(root, &copy, &HashMap::new())?;
        None
    };
    let (mut caught, mut survivors, mut untested) = (0, vec![], vec![]);
    for m in &chosen {
        let (began, used) = (Instant::now(), cpu_of_children()?);
        let outcome = match &together {
            Some(together) => together.test(number(m), m)?,
            None => planted(&copy, &build, m)?,
        };
        match &outcome {
            TestResult::Passed => {
                println!("SURVIVED {}", m.name);
                survivors.push(m.name);
            }
            TestResult::Failed(said) => {
                println!("caught   {}\n         {said}", m.name);
                caught += 1;
            }
            TestResult::NoVerdict(said) => {
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
        "{caught} caught, {} survived, {left} of {} chosen not run; \
         {all} planted faults; {used:.0} CPU-seconds",
        survivors.len(),
        chosen.len()
    );
    match (&survivors[..], &untested[..]) {
        ([], []) => Ok(()),
        ([], untested) => Err(format!("not tested: {}", untested.join(", "))),
        (survivors, _) => Err(format!("survived: {}", survivors.join(", "))),
    }
}

/// Plants one mutant in a copy of the sources, runs its tests, and removes it.
fn planted(copy: &Path, build: &Path, m: &Mutant) -> Result<TestResult, String> {
    let path = copy.join(m.file);
    let source = read(&path)?;
    write(&path, &source.replace(&m.old, &m.new))?;
    let outcome = run::by_cargo(copy, build, &m.tests);
    write(&path, &source)?;
    outcome
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}
fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}
/// Writes a file unless it has this text already, in which case it keeps its modification time.
fn write_if_other(path: &Path, text: &str) -> Result<(), String> {
    if read(path)? == text { Ok(()) } else { write(path, text) }
}
/// Returns the files that git tracks or would track.
fn files(root: &Path) -> Result<Vec<String>, String> {
    let list = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("git: {e}"))?;
    let list = String::from_utf8_lossy(&list.stdout);
    Ok(list.split('\0').filter(|file| !file.is_empty()).map(String::from).collect())
}
/// Copies the sources, with other texts for some. Unchanged files keep their modification times, so
/// that little is rebuilt; files that no longer exist are removed from the copy.
fn copy_sources(root: &Path, copy: &Path, changed: &HashMap<String, String>) -> Result<(), String> {
    let files = files(root)?;
    remove_others(copy, copy, &files.iter().map(String::as_str).collect())?;
    for file in files {
        let to = copy.join(&file);
        let text = match changed.get(&file) {
            Some(text) => text.clone().into_bytes(),
            None => match std::fs::read(root.join(&file)) {
                Ok(text) => text,
                Err(_) => continue, // deleted, not yet committed
            },
        };
        if std::fs::read(&to).is_ok_and(|old| old == text) {
            continue;
        }
        std::fs::create_dir_all(to.parent().unwrap_or(copy)).map_err(|e| e.to_string())?;
        std::fs::write(&to, text).map_err(|e| format!("{}: {e}", to.display()))?;
    }
    Ok(())
}

/// Removes the files in a folder of a copy that are not among the sources.
fn remove_others(copy: &Path, folder: &Path, sources: &HashSet<&str>) -> Result<(), String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let source = path.strip_prefix(copy).ok().and_then(Path::to_str);
        if path.is_dir() {
            remove_others(copy, &path, sources)?;
            // Only if nothing is left: the manifest names all folders of some folders.
            let _ = std::fs::remove_dir(&path);
        } else if source.is_none_or(|source| !sources.contains(source)) {
            std::fs::remove_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_source_leaves_the_copy() {
        let copy = std::env::temp_dir().join(format!("koel-mutants-{}", std::process::id()));
        std::fs::create_dir_all(copy.join("src/old")).unwrap();
        for file in ["src/a.rs", "src/old/mod.rs", "Cargo.toml"] {
            std::fs::write(copy.join(file), "").unwrap();
        }
        remove_others(&copy, &copy, &HashSet::from(["src/a.rs", "Cargo.toml"])).unwrap();
        let is_there = |file| copy.join(file).exists();
        assert!(is_there("src/a.rs") && is_there("Cargo.toml") && !is_there("src/old"));
        std::fs::remove_dir_all(copy).unwrap();
    }
    #[test]
    fn samples_follow_the_seed() {
        let list =
            (0..20).map(|i| format!("fault {i}\na.rs\n= -p a\n- x\n+ y\n\n")).collect::<String>();
        let mutants = parse(&list).unwrap();
        let names = |args: &[&str], commit| {
            Choice::parse(args)
                .unwrap()
                .of(&mutants, commit)
                .iter()
                .map(|m| m.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&[], 1).len(), 20);
        assert_eq!(names(&["--sample", "5"], 1).len(), 5);
        assert_eq!(names(&["--sample", "5"], 7), names(&["--sample", "5", "--seed", "7"], 1));
        assert_ne!(names(&["--sample", "5"], 1), names(&["--sample", "5"], 2));
        assert_eq!(names(&["fault 7", "fault 13"], 1), ["fault 7", "fault 13"]);
        let of_both = names(&["fault 7", "fault 13", "--sample", "6"], 1);
        assert_eq!((&of_both[..2], of_both.len()), (&["fault 7", "fault 13"][..], 8));
        let shares = (0..4).flat_map(|commit| names(&["--sample", "6"], commit));
        assert_eq!(shares.collect::<HashSet<_>>().len(), 20);
    }

    #[test]
    fn options_are_read() {
        let choice = Choice::parse(&["a", "--sample", "3", "--seed", "9", "--json", "f"]).unwrap();
        let json = Some(Path::new("f"));
        let (sample, seed) = (Some(3), Some(9));
        let expected = Choice { names: vec!["a"], sample, seed, json, ..Choice::default() };
        assert_eq!(choice, expected);
        assert!(Choice::parse(&["--check"]).unwrap().only_check);
        assert!(Choice::parse(&["--together"]).unwrap().together);
        for wrong in [&["--sample"][..], &["--sample", "x"], &["--seed", "-1"], &["--others"]] {
            assert!(Choice::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}

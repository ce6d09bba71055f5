//! The record of a run: a file of JSON lines.
use super::list::Mutant;
use super::run::TestResult;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

/// File of JSON lines: provenance, then a line per mutant.
pub(super) struct Record {
    file: std::fs::File,
    /// Mutants that it has lines for.
    pub done: HashSet<String>,
}
impl Record {
    /// Creates the file, or continues an existing one of the same commit.
    pub(super) fn begin(root: &Path, path: &Path) -> Result<Record, String> {
        let say = |e: std::io::Error| format!("{}: {e}", path.display());
        let here = crate::provenance_here(root)?;
        let lines = std::fs::read_to_string(path).unwrap_or_default();
        let lines = lines.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
        let lines = lines.map_err(|e| format!("{}: {e}", path.display()))?;
        let file = std::fs::File::options().create(true).append(true).open(path).map_err(say)?;
        let done = lines.iter().filter_map(|line| Some(line["mutant"].as_str()?.to_string()));
        let mut record = Record { file, done: done.collect() };
        match lines.first().map(|first| &first["commit"]) {
            None => record.line(&here)?,
            Some(commit) if *commit == here.commit => {}
            Some(commit) => {
                let path = path.display();
                return Err(format!("{path}: records commit {commit}, not {}", here.commit));
            }
        }
        Ok(record)
    }
    /// Appends the outcome of a mutant, and the seconds it took.
    pub(super) fn add(
        &mut self,
        m: &Mutant,
        came: &TestResult,
        cpu: f64,
        wall: f64,
    ) -> Result<(), String> {
        let (verdict, said) = match came {
            TestResult::Passed => ("survived", None),
            TestResult::Failed(said) => ("caught", Some(said)),
            TestResult::NoVerdict(said) => ("not run", Some(said)),
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

//! Fuzz targets: built with the flags that libFuzzer needs, run from their seeds, and counted.
use koel_provenance::Provenance;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Coverage counters for libFuzzer, and AddressSanitizer.
const FLAGS: [&str; 8] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Zsanitizer=address",
];
/// The target that reads no input, for which one run suffices.
const ONCE: &str = "soundness";
/// Maximum size of one allocation, in megabytes: no input should need more.
const MAX_MEMORY: u32 = 64;

/// Options of a run.
#[derive(Default)]
struct Task {
    /// Names of targets; empty: all.
    targets: Vec<String>,
    seconds: u64,
    /// Concurrent processes per target.
    jobs: usize,
    release: bool,
    build_only: bool,
    /// Whether to run [`ONCE`] and one other target, chosen by the commit.
    sample: bool,
    /// Folder of existing binaries, if they are not to be built.
    binaries: Option<PathBuf>,
    json: Option<PathBuf>,
}

/// Runs `fuzz [TARGET].. [--sample] [--seconds N] [--jobs N] [--release] [--build] [--binaries DIR]
/// [--json FILE]`.
pub(crate) fn fuzz(root: &Path, args: &[&str]) -> Result<(), String> {
    let mut task = parse(args)?;
    if task.targets.is_empty() {
        task.targets = names(root)?;
    }
    if task.sample {
        task.targets = sample(&task.targets, crate::commit_number(root));
    }
    let binaries = match &task.binaries {
        Some(folder) => folder.clone(),
        None => build(root, &task)?,
    };
    if task.build_only {
        println!("{}", binaries.display());
        return Ok(());
    }
    let mut counted = BTreeMap::new();
    for target in &task.targets {
        let counts = run(root, &binaries, target, &task)?;
        println!(
            "{target}: {} executions in {} s by {} processes, {} findings",
            counts.executions, counts.seconds, counts.processes, counts.findings
        );
        counted.insert(target.clone(), counts);
    }
    if let Some(file) = &task.json {
        record(root, file, &counted)?;
    }
    match counted.iter().find(|(_, counts)| counts.findings > 0) {
        Some((target, _)) => Err(format!("{target}: see fuzz/artifacts/{target}")),
        None => Ok(()),
    }
}
fn parse(args: &[&str]) -> Result<Task, String> {
    let mut task = Task { seconds: 5, jobs: 1, ..Task::default() };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("fuzz: {arg} needs a value"));
        let number = |text: &str| text.parse::<u64>().map_err(|e| format!("fuzz: {arg}: {e}"));
        match *arg {
            "--seconds" => task.seconds = number(value()?)?,
            "--jobs" => task.jobs = number(value()?)?.max(1) as usize,
            "--release" => task.release = true,
            "--build" => task.build_only = true,
            "--sample" => task.sample = true,
            "--binaries" => task.binaries = Some(value()?.into()),
            "--json" => task.json = Some(value()?.into()),
            option if option.starts_with('-') => return Err(format!("fuzz: unknown {option}")),
            target => task.targets.push(target.to_string()),
        }
    }
    Ok(task)
}

/// Returns [`ONCE`] and one other target.
fn sample(targets: &[String], number: u64) -> Vec<String> {
    let (once, others) = targets.iter().partition::<Vec<_>, _>(|target| *target == ONCE);
    let other = others.get((number % others.len().max(1) as u64) as usize);
    once.into_iter().chain(other.copied()).cloned().collect()
}

/// Returns the names of all targets.
fn names(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let stem = |path: PathBuf| Some(path.file_stem()?.to_str()?.to_string());
    let mut names = entries.flatten().filter_map(|e| stem(e.path())).collect::<Vec<_>>();
    names.sort();
    Ok(names)
}

/// Builds the targets; returns the folder with the binaries. Debug builds are for short runs.
fn build(root: &Path, task: &Task) -> Result<PathBuf, String> {
    let host = host()?;
    let mut command = Command::new("cargo");
    command
        .args(["+nightly", "build", "--locked", "--target", &host])
        .args(task.targets.iter().flat_map(|target| ["--bin", target]))
        .args(task.release.then_some("--release"))
        .current_dir(root.join("fuzz"))
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"));
    for variable in ["RUSTFLAGS", "RUSTUP_TOOLCHAIN", "CARGO", "CARGO_TARGET_DIR"] {
        command.env_remove(variable);
    }
    let status = command.status().map_err(|e| format!("cargo: {e}"))?;
    let profile = if task.release { "release" } else { "debug" };
    match status.success() {
        true => Ok(root.join("fuzz/target").join(host).join(profile)),
        false => Err("the fuzz targets could not be built".into()),
    }
}
/// Returns the target triple of this machine: with `--target`, build scripts get no sanitizer.
fn host() -> Result<String, String> {
    let out = Command::new("rustc").arg("-vV").output().map_err(|e| format!("rustc: {e}"))?;
    let text = String::from_utf8_lossy(&out.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_string).ok_or("rustc -vV names no host".into())
}

/// Results of a target's runs.
#[derive(Default)]
struct Counts {
    executions: u64,
    seconds: u64,
    processes: usize,
    /// Processes that ended with a fault.
    findings: u64,
}

fn run(root: &Path, binaries: &Path, target: &str, task: &Task) -> Result<Counts, String> {
    let processes = if target == ONCE { 1 } else { task.jobs };
    let started = (0..processes).map(|job| start(root, binaries, target, job, task));
    let started = started.collect::<Result<Vec<_>, _>>()?;
    let mut counts = Counts { seconds: task.seconds, processes, ..Counts::default() };
    for process in started {
        let out = process.wait_with_output().map_err(|e| format!("{target}: {e}"))?;
        let log = String::from_utf8_lossy(&out.stderr);
        let count =
            |line: &str| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok();
        counts.executions += log.lines().find_map(count).unwrap_or(0u64);
        if !out.status.success() {
            counts.findings += 1;
            let lines = log.lines().collect::<Vec<_>>();
            eprintln!("{}", lines[lines.len().saturating_sub(60)..].join("\n"));
        }
    }
    Ok(counts)
}
/// Starts a process of a target, with its own random seed and a corpus shared by all processes.
fn start(
    root: &Path,
    binaries: &Path,
    target: &str,
    job: usize,
    task: &Task,
) -> Result<Child, String> {
    let folder = |kind: &str| root.join("fuzz").join(kind).join(target);
    for kind in ["corpus", "artifacts"] {
        std::fs::create_dir_all(folder(kind)).map_err(|e| format!("{target}: {e}"))?;
    }
    let program = binaries.join(target);
    let mut command = Command::new(&program);
    command
        .arg("-print_final_stats=1")
        .arg(format!("-artifact_prefix={}/", folder("artifacts").display()))
        .arg(format!("-malloc_limit_mb={MAX_MEMORY}"))
        .current_dir(root)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    if target == ONCE {
        // The attempts leak memory on purpose.
        command.env("ASAN_OPTIONS", "detect_leaks=0").arg("-timeout=600");
        command.arg("-malloc_limit_mb=0").arg(root.join("fuzz/Cargo.toml"));
    } else {
        command
            .arg(format!("-max_total_time={}", task.seconds))
            .arg(format!("-seed={}", job + 1))
            .arg("-reload=10")
            .args([folder("corpus"), folder("seeds")]);
    }
    command.spawn().map_err(|e| format!("{}: {e}", program.display()))
}

/// Line of the record.
#[derive(Serialize)]
struct Line<'a> {
    target: &'a str,
    executions: u64,
    seconds: u64,
    processes: usize,
    findings: u64,
}
/// Writes the counts, after a line with their provenance.
fn record(root: &Path, file: &Path, counted: &BTreeMap<String, Counts>) -> Result<(), String> {
    let json = |e: serde_json::Error| e.to_string();
    let of: Provenance = crate::provenance_here(root)?;
    let mut text = serde_json::to_string(&of).map_err(json)? + "\n";
    for (target, counts) in counted {
        let &Counts { executions, seconds, processes, findings } = counts;
        let line = Line { target, executions, seconds, processes, findings };
        text += &(serde_json::to_string(&line).map_err(json)? + "\n");
    }
    std::fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_take_every_target_in_turn() {
        let all = ["groups", "las", ONCE, "table"].map(String::from);
        let sampled = (0..3).map(|number| sample(&all, number)).collect::<Vec<_>>();
        assert!(sampled.iter().all(|targets| targets.len() == 2 && targets[0] == ONCE));
        assert!(sampled.iter().map(|targets| &targets[1]).eq(["groups", "las", "table"]));
    }
}

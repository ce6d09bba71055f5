//! Cost of depending on koel: seconds of compile time, bytes of programs.
//!
//! Crates that depend on koel by path are built cold, each in its own target folder under
//! `target/weight`.
use crate::metadata::path_in_repository;
use crate::ptx::Kernels;
use koel_provenance::Provenance;
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Program to build: name, crates, and its source.
struct Program {
    name: &'static str,
    crates: &'static [&'static str],
    source: &'static str,
}
const PROGRAMS: [Program; 4] = [
    Program { name: "empty", crates: &[], source: "fn main() {}\n" },
    Program { name: "cpu", crates: &["koel"], source: include_str!("weight/cpu.rs") },
    Program { name: "map", crates: &["koel"], source: include_str!("weight/map.rs") },
    Program {
        name: "everything",
        crates: &["koel", "koel-classic", "koel-spatial", "koel-vision"],
        source: include_str!("weight/everything.rs"),
    },
];

/// Measurements of one build.
struct Measured {
    wall: f64,
    cpu: f64,
    /// Wall time of the crate `koel` alone, in seconds.
    koel: Option<f64>,
    bytes: u64,
}

/// Builds all programs in release mode, and `map` in dev mode too, and prints a table; also writes
/// JSON. With `quick`, only `map` in release mode.
pub(crate) fn weigh(root: &Path, quick: bool, json: Option<&Path>) -> Result<(), String> {
    let mut lines = vec![];
    let mut empty = 0;
    println!(
        "{:24} {:>9} {:>9} {:>9} {:>12} {:>12}",
        "program", "wall s", "CPU s", "koel s", "bytes", "over empty"
    );
    for program in PROGRAMS.iter().filter(|p| !quick || ["empty", "map"].contains(&p.name)) {
        for release in [true, false] {
            if !release && (quick || program.name != "map") {
                continue;
            }
            let built = build(root, program, release)?;
            if program.name == "empty" {
                empty = built.bytes;
            }
            let kind = if release { "release" } else { "dev" };
            let over = if release { built.bytes.saturating_sub(empty) } else { 0 };
            let koel = built.koel.map_or("-".into(), |s| format!("{s:.1}"));
            let name = format!("{} ({kind})", program.name);
            println!(
                "{name:24} {:9.1} {:9.1} {koel:>9} {:12} {over:12}",
                built.wall, built.cpu, built.bytes
            );
            let mut line = String::new();
            let _ = write!(
                line,
                r#"{{"program":"{}","profile":"{kind}","wall_s":{:.1},"cpu_s":{:.1},"koel_s":{},"bytes":{},"over_empty":{over}}}"#,
                program.name,
                built.wall,
                built.cpu,
                built.koel.map_or("null".into(), |s| format!("{s:.1}")),
                built.bytes
            );
            lines.push(line);
        }
    }
    for kernels in Kernels::published(root) {
        let (name, (files, bytes)) = (kernels.package(), sizes(&kernels.images())?);
        println!("images of {name}: {files} files, {bytes} bytes");
        lines.push(format!(r#"{{"crate":"{name}","images":{files},"bytes":{bytes}}}"#));
    }
    if let Some(path) = json {
        let say = |e: std::io::Error| format!("{}: {e}", path.display());
        std::fs::write(path, format!("{}\n{}\n", provenance(root)?, lines.join("\n")))
            .map_err(say)?;
    }
    Ok(())
}

/// Returns the line with the record's provenance.
fn provenance(root: &Path) -> Result<String, String> {
    let out = Command::new("rustc")
        .arg("--version")
        .current_dir(root)
        .output()
        .map_err(|e| format!("rustc: {e}"))?;
    let line = Described {
        provenance: crate::provenance_here(root)?,
        rustc: String::from_utf8_lossy(&out.stdout).trim().to_string(),
        cores: std::thread::available_parallelism().map_or(0, |n| n.get()),
    };
    serde_json::to_string(&line).map_err(|e| e.to_string())
}
/// What the measurements depend on.
#[derive(Serialize)]
struct Described {
    #[serde(flatten)]
    provenance: Provenance,
    rustc: String,
    cores: usize,
}

fn sizes(folder: &Path) -> Result<(usize, u64), String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let sizes =
        entries.flatten().filter_map(|e| e.metadata().ok()).map(|m| m.len()).collect::<Vec<_>>();
    Ok((sizes.len(), sizes.iter().sum()))
}

fn build(root: &Path, program: &Program, release: bool) -> Result<Measured, String> {
    let folder = root.join("target/weight").join(program.name);
    let say = |e: std::io::Error| format!("{}: {e}", folder.display());
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("src")).map_err(say)?;
    std::fs::write(folder.join("src/main.rs"), program.source).map_err(say)?;
    std::fs::write(folder.join("Cargo.toml"), manifest(root, program)).map_err(say)?;
    // Pins the versions that koel is tested with.
    std::fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).map_err(say)?;
    let cargo = |args: &[&str]| {
        let mut command = Command::new("cargo");
        command.args(args).current_dir(&folder).stdout(Stdio::null()).stderr(Stdio::piped());
        for variable in
            ["CARGO_TARGET_DIR", "RUSTFLAGS", "CARGO_MANIFEST_DIR", "CARGO_PROFILE_DEV_DEBUG"]
        {
            command.env_remove(variable);
        }
        let out = command.output().map_err(|e| format!("cargo: {e}"))?;
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        if out.status.success() { Ok(()) } else { Err(format!("{}: {text}", program.name)) }
    };
    cargo(&["fetch"])?;
    let (began, before) = (Instant::now(), cpu_of_children()?);
    cargo(if release { &["build", "--release", "--timings"] } else { &["build", "--timings"] })?;
    let (wall, cpu) = (began.elapsed().as_secs_f64(), cpu_of_children()? - before);
    let timings = std::fs::read_to_string(folder.join("target/cargo-timings/cargo-timing.html"))
        .unwrap_or_default();
    let profile = if release { "release" } else { "debug" };
    let path: PathBuf =
        folder.join("target").join(profile).join(format!("weight-{}", program.name));
    let bytes = std::fs::metadata(&path).map_err(|e| format!("{}: {e}", path.display()))?.len();
    Ok(Measured { wall, cpu, koel: seconds_of("koel", &timings), bytes })
}

fn manifest(root: &Path, program: &Program) -> String {
    let mut text = format!(
        "[package]\nname = \"weight-{}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [workspace]\n[profile.release]\n\
         strip = true\n[dependencies]\n",
        program.name
    );
    for name in program.crates {
        let path = root.join(path_in_repository(root, name));
        let _ = writeln!(text, "{name} = {{ path = \"{}\" }}", path.display());
    }
    text
}

/// Returns the seconds that the library of this name took, from the output of
/// `cargo build --timings`.
fn seconds_of(name: &str, timings: &str) -> Option<f64> {
    let units = timings.split_once("UNIT_DATA = ")?.1;
    let unit = units.split("\n  {").find(|unit| {
        unit.contains(&format!("\"name\": \"{name}\","))
            && unit.contains("\"target\": \"\"")
            && unit.contains("duration")
    })?;
    unit.split_once("\"duration\": ")?.1.split([',', '\n']).next()?.trim().parse().ok()
}

/// Returns the processor time of all children that have ended, in seconds.
pub(crate) fn cpu_of_children() -> Result<f64, String> {
    let text =
        std::fs::read_to_string("/proc/self/stat").map_err(|e| format!("/proc/self/stat: {e}"))?;
    let fields =
        text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect::<Vec<_>>();
    // Fields 16 and 17: user and system time of the children, in hundredths of a second.
    let field = |i: usize| {
        fields.get(i).and_then(|f| f.parse::<f64>().ok()).ok_or("/proc/self/stat: too short")
    };
    Ok((field(13)? + field(14)?) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_read_from_cargos_report() {
        let unit = |name: &str, target: &str, s: f64| {
            format!(
                "\n  {{\n    \"i\": 1,\n    \"name\": \"{name}\",\
                 \n    \"target\": \"{target}\",\n    \"duration\": {s},\n    \"x\": 1\n  }}"
            )
        };
        let text = format!(
            "const UNIT_DATA = [{},{},{}];",
            unit("koel-simt", "", 1.5),
            unit("koel", " build-script", 2.5),
            unit("koel", "", 3.5)
        );
        assert_eq!(seconds_of("koel", &text), Some(3.5));
        assert_eq!(seconds_of("koel-simt", &text), Some(1.5));
        assert_eq!(seconds_of("other", &text), None);
    }
}

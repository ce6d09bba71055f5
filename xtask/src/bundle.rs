//! Bundle for a machine with a GPU but without Rust: tests, benchmarks and one script.
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Packages whose tests run on a GPU.
const TESTED: [&str; 5] =
    ["koel", "koel-classic", "koel-spatial", "koel-vision", "koel-vision-classic"];
/// Packages with the programs that measure something there.
const PROGRAMS: [&[&str]; 5] = [
    &["-p", "koel-rates", "--bins"],
    &["-p", "koel", "--examples"],
    &["-p", "koel-cli", "--bins"],
    &["-p", "koel-spatial", "--example", "label_errors"],
    &["-p", "koel-vision", "--example", "many_models"],
];

/// Builds everything in release mode, strips it and lays it out under `device-bundle/`.
pub(crate) fn bundle(root: &Path) -> Result<(), String> {
    let to = root.join("device-bundle");
    let _ = std::fs::remove_dir_all(&to);
    std::fs::create_dir_all(to.join("tests")).map_err(|e| format!("{}: {e}", to.display()))?;
    let mut cargo = Command::new("cargo");
    cargo.args(["test", "--release", "--no-run", "--message-format=json-render-diagnostics"]);
    // As in the regular tests.
    cargo.args(["--config", "profile.release.overflow-checks=true"]);
    for package in TESTED {
        cargo.args(["-p", package]);
    }
    for program in executables(cargo.arg("--tests").current_dir(root))? {
        put(&program, &to.join("tests").join(&program.name))?;
    }
    for programs in PROGRAMS {
        let mut cargo = Command::new("cargo");
        cargo
            .args(["build", "--release", "--message-format=json-render-diagnostics"])
            .args(programs);
        for program in executables(cargo.current_dir(root))? {
            put(&program, &to.join(&program.name))?;
        }
    }
    let peers = "peers-h200.csv";
    std::fs::copy(root.join("results").join(peers), to.join(peers))
        .map_err(|e| format!("results/{peers}: {e}"))?;
    let script = to.join("run");
    std::fs::write(&script, include_str!("bundle/run"))
        .map_err(|e| format!("{}: {e}", script.display()))?;
    let commit =
        Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).current_dir(root).output();
    let commit =
        commit.map_or("unknown".into(), |o| String::from_utf8_lossy(&o.stdout).trim().to_string());
    std::fs::write(to.join("commit"), &commit).map_err(|e| e.to_string())?;
    println!(
        "device-bundle/ is complete, for commit {commit}. \
         Copy it to a machine with a GPU and run there:"
    );
    println!("    bash device-bundle/run OUT          # OUT: a folder for the results");
    println!(
        "or only parts of it: \
         bash device-bundle/run OUT tests sanitize rates bench sweeps figures trials labels"
    );
    Ok(())
}

struct Program {
    path: PathBuf,
    name: String,
}

/// Returns the programs that a cargo command built, according to its messages.
fn executables(cargo: &mut Command) -> Result<Vec<Program>, String> {
    let out = cargo.stderr(Stdio::inherit()).output().map_err(|e| format!("cargo: {e}"))?;
    if !out.status.success() {
        return Err("the build failed".into());
    }
    let field = |line: &str, key: &str| {
        let rest = &line[line.find(&format!("\"{key}\":"))? + key.len() + 3..];
        Some(rest.trim_start_matches(['[', '"']).split('"').next()?.to_string())
    };
    let messages = String::from_utf8_lossy(&out.stdout);
    let programs = messages.lines().filter_map(|line| {
        let path = PathBuf::from(
            field(line, "executable").filter(|p| p.starts_with('/') || p.contains(":\\"))?,
        );
        let file = path.file_name()?.to_string_lossy().into_owned();
        // Test binaries end in `-<hash>`.
        let name = file
            .rsplit_once('-')
            .filter(|(_, h)| h.len() == 16)
            .map_or(file.clone(), |(n, _)| n.to_string());
        Some(Program { path, name })
    });
    Ok(programs.collect())
}

fn put(program: &Program, to: &Path) -> Result<(), String> {
    std::fs::copy(&program.path, to).map_err(|e| format!("{}: {e}", program.path.display()))?;
    // Smaller to transfer; without `strip`, the file is only larger.
    let _ = Command::new("strip").arg(to).status();
    Ok(())
}

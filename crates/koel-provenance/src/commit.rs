//! The commit that a program is built from.
use std::process::Command;

/// Sets the variable `KOEL_COMMIT` for the crate whose build script calls this: the commit of its
/// package, or of the repository that it is in, or `unknown`. A variable of this name in the
/// environment takes its place.
pub fn embed_commit() {
    println!("cargo::rerun-if-env-changed=KOEL_COMMIT");
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(arguments)
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
    };
    // HEAD's log grows with every commit and checkout.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        .filter(|log| std::path::Path::new(log).exists())
    {
        println!("cargo::rerun-if-changed={log}");
    }
    let commit = std::env::var("KOEL_COMMIT")
        .ok()
        .or_else(packaged)
        .or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    println!("cargo::rustc-env=KOEL_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

/// Returns the commit that this package was made from, as recorded by cargo. Asking git would be
/// wrong here: the package may lie inside another repository.
fn packaged() -> Option<String> {
    let note = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    Some(note.split("\"sha1\": \"").nth(1)?.get(..12)?.to_owned())
}

//! What cargo knows about packages.
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders of the crates of the workspace: koel with its applications, and the papers' line.
pub(crate) const FOLDERS: [&str; 2] = ["crates", "papers"];

/// Returns the path of a file or folder of a crate (`koel/src/lib.rs`), relative to the
/// repository's root: that in the folder which has it, else that in the first one.
pub(crate) fn path_in_repository(root: &Path, path: &str) -> String {
    let paths = FOLDERS.map(|folder| format!("{folder}/{path}"));
    let found = paths.iter().find(|path| root.join(path).exists());
    found.unwrap_or(&paths[0]).clone()
}

/// Answer of `cargo metadata`.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub packages: Vec<Package>,
    pub target_directory: PathBuf,
}

#[derive(Deserialize)]
pub(crate) struct Package {
    pub name: String,
    pub version: String,
    pub license: Option<String>,
    /// `None` for packages of the workspace.
    pub source: Option<String>,
    /// Registries that may get the package; `None`: all.
    publish: Option<Vec<String>>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

impl Metadata {
    /// Returns the packages of the workspace.
    pub(crate) fn of_workspace(root: &Path) -> Result<Metadata, String> {
        read(root, &["--no-deps"])
    }
    /// Returns the packages of the workspace and everything that they depend on, for any target.
    pub(crate) fn of_all(root: &Path) -> Result<Metadata, String> {
        read(root, &["--all-features"])
    }
}

impl Package {
    pub(crate) fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }
    /// Returns the name of the library, if the package has one that is not made of macros.
    pub(crate) fn library(&self) -> Option<&str> {
        let is_library = |target: &&Target| target.kind.iter().any(|kind| kind == "lib");
        self.targets.iter().find(is_library).map(|target| target.name.as_str())
    }
}

fn read(root: &Path, options: &[&str]) -> Result<Metadata, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--format-version=1", "--locked"]).args(options);
    let out = cargo.current_dir(root).output().map_err(|e| format!("cargo: {e}"))?;
    if !out.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&out.stderr).trim()));
    }
    parse(&out.stdout)
}
fn parse(json: &[u8]) -> Result<Metadata, String> {
    serde_json::from_slice(json).map_err(|e| format!("cargo metadata: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_found_in_their_folders() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (path, expected) in [
            ("koel/src/lib.rs", "crates/koel/src/lib.rs"),
            ("koel-classic", "papers/koel-classic"),
            ("koel/src/none.rs", "crates/koel/src/none.rs"),
        ] {
            assert_eq!(path_in_repository(&root, path), expected);
        }
    }

    #[test]
    fn published_libraries_are_told_from_macros_and_programs() {
        let package = |name: &str, publish: &str, kind: &str| {
            format!(
                r#"{{"name":"{name}","version":"1.0.0","license":null,"source":null,
                "publish":{publish},"targets":[{{"name":"{name}_x","kind":["{kind}"]}}]}}"#
            )
        };
        let packages = [
            package("a", "null", "lib"),
            package("b", "[]", "lib"),
            package("c", "null", "proc-macro"),
            package("d", "null", "bin"),
        ];
        let json = format!(r#"{{"packages":[{}],"target_directory":"/t"}}"#, packages.join(","));
        let read = parse(json.as_bytes()).unwrap();
        let found = read.packages.iter().map(|p| (p.is_published(), p.library()));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [(true, Some("a_x")), (false, Some("b_x")), (true, None), (true, None)]
        );
    }
}

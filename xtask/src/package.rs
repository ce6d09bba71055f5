//! The crates as users get them: packages them, and builds a program against the packages instead
//! of the repository.
use crate::metadata::{self, Metadata};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The registry's limit for a compressed package, in bytes.
const LIMIT: u64 = 10 << 20;
/// Files at the repository's root that every package contains unchanged.
const LICENCES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

/// Packages every public crate of the workspace and unpacks the packages into
/// `target/package-test/`. Runs a program there that depends on koel, and checks a library that
/// depends on koel-spatial and koel-vision.
///
/// # Errors
/// Fails if a package is larger than [`LIMIT`], or lacks its README, a licence or a file that its
/// source includes; or if a build or the program fails.
pub(crate) fn package(root: &Path) -> Result<(), String> {
    let folder = root.join("target/package-test");
    let (packed, unpacked) = (folder.join("target/package"), folder.join("crates"));
    for old in [&packed, &unpacked] {
        if old.exists() {
            fs::remove_dir_all(old).map_err(|e| format!("{}: {e}", old.display()))?;
        }
        fs::create_dir_all(old).map_err(|e| format!("{}: {e}", old.display()))?;
    }
    let public = Metadata::of_workspace(root)?.packages;
    let public = public.into_iter().filter(metadata::Package::is_published);
    let mut names = public.map(|package| package.name).collect::<Vec<_>>();
    names.sort();
    let mut cargo = cargo(&folder, "package");
    cargo.args(["--no-verify", "--allow-dirty", "--locked"]).current_dir(root);
    run(names.iter().fold(&mut cargo, |cargo, name| cargo.args(["-p", name])))?;

    let files = file_names(&packed)?;
    let packages = packages(&names, &files)?;
    let mut wrong = vec![];
    for package in &packages {
        let file = packed.join(package.file_name());
        let size = fs::metadata(&file).map_err(|e| format!("{}: {e}", file.display()))?.len();
        println!("{:<22}{:>8}{:>11}", package.name, package.version, kibibytes(size));
        if size > LIMIT {
            wrong.push(format!("{}: larger than {}", package.file_name(), kibibytes(LIMIT)));
        }
        // Files get the present time, for packages have a fixed one: cargo would not see changes.
        run(Command::new("tar").arg("-xzmf").arg(&file).arg("-C").arg(&unpacked))?;
        let package = unpacked.join(package.folder());
        wrong.extend(missing(root, &package));
        outside(&package, &package.join("src"), &mut wrong)?;
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }

    let user = folder.join("user");
    for (path, content) in [
        ("Cargo.toml", workspace(&packages)),
        ("tables/Cargo.toml", member("tables", &packages, &["koel"])?),
        ("tables/src/main.rs", include_str!("package/tables.rs").into()),
        (
            "clouds/Cargo.toml",
            member("clouds", &packages, &["koel", "koel-spatial", "koel-vision"])?,
        ),
        ("clouds/src/lib.rs", include_str!("package/clouds.rs").into()),
    ] {
        write(&user.join(path), &content)?;
    }
    // Pins other crates to the versions that the repository is tested with.
    fs::copy(root.join("Cargo.lock"), user.join("Cargo.lock"))
        .map_err(|e| format!("Cargo.lock: {e}"))?;
    run(cargo_in(&user, &folder, "run").args(["-p", "tables"]))?;
    run(cargo_in(&user, &folder, "check").args(["-p", "clouds"]))?;
    println!("a program and a library were built from these packages");
    Ok(())
}

/// Packaged crate.
#[derive(Debug, PartialEq)]
struct Package<'a> {
    name: &'a str,
    version: &'a str,
}

impl Package<'_> {
    fn folder(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
    fn file_name(&self) -> String {
        self.folder() + ".crate"
    }
}

/// Returns the package of each crate, found by the names of the files that cargo wrote. A crate's
/// name may be a prefix of another's.
fn packages<'a>(names: &'a [String], files: &'a [String]) -> Result<Vec<Package<'a>>, String> {
    let version = |name: &str, file: &'a String| {
        let version = file.strip_prefix(name)?.strip_prefix('-')?.strip_suffix(".crate")?;
        version.starts_with(|c: char| c.is_ascii_digit()).then_some(version)
    };
    let package = |name: &'a String| {
        let version = files.iter().find_map(|file| version(name, file));
        version
            .map(|version| Package { name, version })
            .ok_or_else(|| format!("cargo wrote no package of {name}"))
    };
    names.iter().map(package).collect()
}

/// Returns the manifest of the users' workspace, in which the packages replace those of the
/// registry.
fn workspace(packages: &[Package]) -> String {
    let patches = packages
        .iter()
        .map(|p| format!("{} = {{ path = \"../crates/{}\" }}\n", p.name, p.folder()));
    let head =
        "[workspace]\nresolver = \"3\"\nmembers = [\"tables\", \"clouds\"]\n\n[patch.crates-io]\n";
    head.to_string() + &patches.collect::<String>()
}

/// Returns the manifest of a user's crate. It names versions, as for any crate of the registry.
fn member(name: &str, packages: &[Package], dependencies: &[&str]) -> Result<String, String> {
    let mut manifest = format!(
        "[package]\nname = \"{name}\"\nedition = \"2024\"\npublish = false\n\n[dependencies]\n"
    );
    for dependency in dependencies {
        let package = packages
            .iter()
            .find(|p| p.name == *dependency)
            .ok_or_else(|| format!("no crate {dependency}"))?;
        manifest += &format!("{dependency} = \"{}\"\n", package.version);
    }
    Ok(manifest)
}

/// Returns what an unpacked package lacks.
fn missing(root: &Path, package: &Path) -> Vec<String> {
    let licences = LICENCES.map(|file| (file, fs::read(root.join(file)).ok()));
    let unlike = licences
        .into_iter()
        .filter(|(file, text)| text.is_none() || fs::read(package.join(file)).ok() != *text);
    let unlike = unlike
        .map(|(file, _)| format!("{}: {file} differs from the repository's", package.display()));
    let readme = (!package.join("README.md").is_file())
        .then(|| format!("{}: no README.md", package.display()));
    unlike.chain(readme).collect()
}

/// Reports files that the sources in a folder of a package include but that are not in the package.
fn outside(package: &Path, folder: &Path, wrong: &mut Vec<String>) -> Result<(), String> {
    for name in file_names(folder)? {
        let file = folder.join(name);
        if file.is_dir() {
            outside(package, &file, wrong)?;
        } else if file.extension().is_some_and(|extension| extension == "rs") {
            let source =
                fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            // Resolved, because `..` may lead out of the package to an existing file.
            let is_inside =
                |path: &&str| match (folder.join(path).canonicalize(), package.canonicalize()) {
                    (Ok(path), Ok(package)) => path.starts_with(package),
                    _ => false,
                };
            let outside = included(&source).into_iter().filter(|path| !is_inside(path));
            wrong.extend(
                outside.map(|path| format!("{}: {path} is not in the package", file.display())),
            );
        }
    }
    Ok(())
}

/// Returns the files that a source includes, as written there. Paths made by macros are omitted.
fn included(source: &str) -> Vec<&str> {
    let marks = ["include!(\"", "include_str!(\"", "include_bytes!(\"", "#[path = \""];
    let after = marks.iter().flat_map(|mark| source.split(mark).skip(1));
    after.filter_map(|rest| rest.split('"').next()).collect()
}

fn kibibytes(bytes: u64) -> String {
    format!("{} KiB", bytes.div_ceil(1024))
}

/// Returns a cargo command whose output is in `folder`, apart from the workspace's build.
fn cargo(folder: &Path, command: &str) -> Command {
    let mut cargo = Command::new("cargo");
    cargo
        .args([command, "--quiet", "--target-dir"])
        .arg(folder.join("target"))
        .env_remove("CARGO_MANIFEST_DIR");
    cargo
}

/// Returns the same, run in the folder of a user.
fn cargo_in(user: &Path, folder: &Path, command: &str) -> Command {
    let mut cargo = cargo(folder, command);
    cargo.current_dir(user);
    cargo
}

fn run(command: &mut Command) -> Result<(), String> {
    let status =
        command.status().map_err(|e| format!("{}: {e}", command.get_program().display()))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed ({status})")) }
}

fn write(path: &PathBuf, content: &str) -> Result<(), String> {
    let folder = path.parent().ok_or("no folder")?;
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, content))
        .map_err(|e| format!("{}: {e}", path.display()))
}

/// Returns the names of the entries of a folder, sorted.
fn file_names(folder: &Path) -> Result<Vec<String>, String> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut names =
        entries.iter().map(|e| e.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn packages_are_found_among_names_that_begin_alike() {
        let names = strings(&["koel", "koel-simt", "koel-simt-macros"]);
        let files = strings(&[
            "koel-0.1.0.crate",
            "koel-simt-0.2.0-rc.1.crate",
            "koel-simt-macros-1.0.0.crate",
            "tmp-crate",
        ]);
        let found = packages(&names, &files).unwrap();
        let versions = found.iter().map(|p| (p.name, p.version)).collect::<Vec<_>>();
        assert_eq!(
            versions,
            [("koel", "0.1.0"), ("koel-simt", "0.2.0-rc.1"), ("koel-simt-macros", "1.0.0")]
        );
        assert_eq!(found[1].file_name(), files[1]);
        let none = packages(&names, &files[1..]).unwrap_err();
        assert_eq!(none, "cargo wrote no package of koel");
    }

    #[test]
    fn users_name_versions_and_get_the_packages() {
        let packages = [
            Package { name: "koel", version: "0.1.0" },
            Package { name: "koel-simt", version: "0.2.0" },
        ];
        let workspace = workspace(&packages);
        assert!(workspace.starts_with("[workspace]\n"));
        assert!(workspace.ends_with(
            "[patch.crates-io]\nkoel = { path = \"../crates/koel-0.1.0\" }\n\
             koel-simt = { path = \"../crates/koel-simt-0.2.0\" }\n"
        ));
        let member = member("tables", &packages, &["koel-simt"]).unwrap();
        assert!(
            member.contains("name = \"tables\"\n")
                && member.ends_with("[dependencies]\nkoel-simt = \"0.2.0\"\n")
        );
        assert_eq!(
            super::member("tables", &packages, &["koel-lab"]).unwrap_err(),
            "no crate koel-lab"
        );
    }

    #[test]
    fn what_a_source_includes_is_found() {
        let source = "#[path = \"a.rs\"]\nmod a;\nconst B: &[u8] = include_bytes!(\"../b\");\n\
            #[doc = include_str!(\"c.md\")]\n\
            const D: &str = include_str!(concat!(env!(\"D\"), \"/d\"));\n";
        assert_eq!(included(source), ["c.md", "../b", "a.rs"]);
    }

    #[test]
    fn sizes_are_rounded_up() {
        assert_eq!(
            (kibibytes(0), kibibytes(1025), kibibytes(LIMIT)),
            ("0 KiB".into(), "2 KiB".into(), "10240 KiB".into())
        );
    }

    /// The example of the crate's README is compiled and run as a test of koel; the repository's
    /// README must have the same.
    #[test]
    fn both_readmes_have_the_same_example() {
        let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("..");
        let examples = ["README.md", "crates/koel/README.md"].map(|file| {
            let text = fs::read_to_string(root.join(file)).unwrap();
            let blocks = text
                .split("```")
                .skip(1)
                .step_by(2)
                .filter_map(|block| block.strip_prefix("rust\n"));
            blocks.map(String::from).collect::<Vec<_>>()
        });
        assert_eq!(examples[0].len(), 1);
        assert_eq!(examples[0], examples[1]);
    }
}

//! Public items of the published libraries, one a line, under `docs/api`: a change of the API shows
//! in the diff of a commit. A crate of macros has no file: koel-simt exports them. Nor has a crate
//! of kernels that offers nothing else.
//!
//! rustdoc's JSON is unstable. This program is therefore also the `rustdoc` that cargo calls: it
//! allows rustdoc, and nothing else, to use unstable options. rustc would compile every dependency
//! again if the variable were set for it.
use crate::metadata::{Metadata, Package};
use crate::ptx;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Environment variable that is set only when cargo calls this program as `rustdoc`.
pub(crate) const RUSTDOC: &str = "XTASK_RUSTDOC";
/// Folder of the files, relative to the repository's root.
const FOLDER: &str = "docs/api";
/// What crates of kernels offer by themselves, as their READMEs say. Only this is listed of them,
/// and what other libraries export. The rest are kernels, which nobody else launches and which
/// change with every release.
const PARTS: [&str; 1] = ["koel_kernels::hash"];
/// Lines of a difference that are printed for each file.
const SHOWN: usize = 20;

/// Runs rustdoc with unstable options allowed.
pub(crate) fn rustdoc(args: &[String]) -> Result<(), String> {
    let status = Command::new("rustdoc").args(args).env("RUSTC_BOOTSTRAP", "1").status();
    let status = status.map_err(|e| format!("rustdoc: {e}"))?;
    // rustdoc has said why.
    if status.success() { Ok(()) } else { std::process::exit(status.code().unwrap_or(1)) }
}

/// Writes the files, and removes those of crates that are no longer published.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    let folder = root.join(FOLDER);
    let say = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    let texts = texts(root)?;
    fs::create_dir_all(&folder).map_err(|e| say(&folder, e))?;
    for path in unknown(&folder, &texts)? {
        fs::remove_file(&path).map_err(|e| say(&path, e))?;
    }
    for (name, text) in &texts {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|e| say(&path, e))?;
        println!("{FOLDER}/{name}: {} lines", text.lines().count());
    }
    Ok(())
}

/// Compares the files with the sources.
///
/// # Errors
/// Fails if a file differs, is missing, or belongs to no published library; or if rustdoc reports a
/// warning.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let folder = root.join(FOLDER);
    let texts = texts(root)?;
    let mut wrong = String::new();
    for (name, text) in &texts {
        let old = fs::read_to_string(folder.join(name)).unwrap_or_default();
        if old != *text {
            let _ = write!(wrong, "\n{FOLDER}/{name}:\n{}", difference(&old, text, SHOWN));
        }
    }
    for path in unknown(&folder, &texts)? {
        let path = path.strip_prefix(root).unwrap_or(&path).display();
        let _ = write!(wrong, "\n{path}: not the name of a published library");
    }
    if wrong.is_empty() {
        println!("{FOLDER}: up to date");
        return Ok(());
    }
    Err(format!("the public API differs from {FOLDER}: run `cargo xtask api`{wrong}"))
}

/// Returns the name and the text of each file.
///
/// Documents the whole workspace with all features, as CI does, because dependencies then have the
/// same features and are not compiled again.
fn texts(root: &Path) -> Result<Vec<(String, String)>, String> {
    let metadata = Metadata::of_workspace(root)?;
    let this = std::env::current_exe().map_err(|e| format!("name of this program: {e}"))?;
    let status = Command::new("cargo")
        .args(["doc", "--workspace", "--lib", "--all-features", "--no-deps", "--locked", "--quiet"])
        .current_dir(root)
        .env("RUSTDOC", this)
        .env("RUSTDOCFLAGS", "-D warnings -Z unstable-options --output-format json")
        .env(RUSTDOC, "1")
        .env_remove("CARGO_MANIFEST_DIR")
        .status()
        .map_err(|e| format!("cargo: {e}"))?;
    if !status.success() {
        return Err(format!("cargo doc failed ({status})"));
    }
    let docs = metadata.target_directory.join("doc");
    let libraries = metadata.packages.iter().filter(|p| p.is_published());
    let libraries =
        libraries.filter_map(|p| Some((p, docs.join(format!("{}.json", p.library()?)))));
    let libraries = libraries.collect::<Vec<_>>();

    let has_kernels = |package: &Package| ptx::CRATES.contains(&package.name.as_str());
    let mut parts = PARTS.map(String::from).to_vec();
    for (_, json) in libraries.iter().filter(|(package, _)| !has_kernels(package)) {
        parts.extend(exports(json)?);
    }
    let text = |(package, json): &(&Package, PathBuf)| {
        let mut text = items(json)?;
        if has_kernels(package) {
            let root = format!("{}::", package.library().unwrap_or_default());
            let own = parts.iter().filter(|part| part.starts_with(&root)).collect::<Vec<_>>();
            let lines = text.lines().filter(|line| own.iter().any(|part| concerns(line, part)));
            text = lines.map(|line| format!("{line}\n")).collect();
        }
        Ok((format!("{}.txt", package.name), text))
    };
    let mut texts = libraries.iter().map(text).collect::<Result<Vec<_>, String>>()?;
    texts.retain(|(_, text)| !text.is_empty());
    Ok(texts)
}

/// Returns the paths of the items of other crates that a crate exports.
fn exports(json: &Path) -> Result<Vec<String>, String> {
    let say = |e: &dyn std::fmt::Display| format!("{}: {e}", json.display());
    let text = fs::read(json).map_err(|e| say(&e))?;
    let docs = serde_json::from_slice::<serde_json::Value>(&text).map_err(|e| say(&e))?;
    let index = docs["index"].as_object().ok_or_else(|| say(&"no `index`"))?;
    let sources = index.values().filter_map(|item| item["inner"]["use"]["source"].as_str());
    Ok(sources.map(String::from).collect())
}

/// Returns whether a line lists a part of a crate, something in it, or an implementation of it or
/// for it. The part is a path that begins with the crate's name.
fn concerns(line: &str, part: &str) -> bool {
    let begins = |text: &str| {
        let rest = text.strip_prefix(part);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    if let Some(rest) = line.strip_prefix("impl") {
        let head = rest.split(" where ").next().unwrap_or(rest);
        let head = head[generics(head)..].trim_start();
        return begins(head) || head.split(" for ").nth(1).is_some_and(begins);
    }
    let name = part.split_inclusive("::").next().unwrap_or(part);
    line.find(name).is_some_and(|at| begins(&line[at..]))
}
/// Returns the length of the parameters in angle brackets with which a text begins.
fn generics(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            // The arrow of a function's type closes nothing.
            '>' if !text[..at].ends_with('-') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if c == '>' { at + 1 } else { 0 };
        }
    }
    0
}

/// Returns the public items of a crate, one a line.
///
/// Omits implementations that the compiler derives or that hold for every type: the types' lines
/// would drown in them.
fn items(json: &Path) -> Result<String, String> {
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .map_err(|e| format!("{}: {e}", json.display()))?;
    Ok(api.to_string())
}

/// Returns the files that belong to no text.
fn unknown(folder: &Path, texts: &[(String, String)]) -> Result<Vec<PathBuf>, String> {
    if !folder.exists() {
        return Ok(vec![]);
    }
    let say = |e: std::io::Error| format!("{}: {e}", folder.display());
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut paths = entries.map_err(say)?.iter().map(|entry| entry.path()).collect::<Vec<_>>();
    paths.retain(|path| texts.iter().all(|(name, _)| !path.ends_with(name)));
    paths.sort();
    Ok(paths)
}

/// Returns the lines of only one of two texts, at most `shown` of them: removed ones with `-`,
/// added ones with `+`.
fn difference(old: &str, new: &str, shown: usize) -> String {
    let only = |one: &str, other: &str, sign: char| {
        let other = other.lines().collect::<std::collections::HashSet<_>>();
        let lines = one.lines().filter(|line| !other.contains(line));
        lines.map(|line| format!("  {sign} {line}")).collect::<Vec<_>>()
    };
    let mut lines = [only(old, new, '-'), only(new, old, '+')].concat();
    if lines.is_empty() {
        return "  the same lines in another order or number".into();
    }
    let more = lines.len().saturating_sub(shown);
    lines.truncate(shown);
    if more > 0 {
        lines.push(format!("  and {more} more lines"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_short() {
        let (old, new) = ("pub fn a()\npub fn b()\n", "pub fn b()\npub fn c()\npub fn d()\n");
        assert_eq!(difference(old, new, 9), "  - pub fn a()\n  + pub fn c()\n  + pub fn d()");
        assert_eq!(difference(old, new, 1), "  - pub fn a()\n  and 2 more lines");
        assert!(difference("a\nb\n", "b\na\n", 9).contains("another order"));
        assert!(difference("a\n", "a\na\n", 9).contains("number"));
    }

    #[test]
    fn parts_of_a_crate_are_found() {
        let layout = "impl<L: a::table::Layout, F: Fn(u32) -> L>";
        for (line, found) in [
            ("pub struct a::table::Map<K>", true),
            ("#[repr(C)] pub struct a::table::Map", true),
            ("pub fn a::table::Map::get(self, a::Key) -> u32", true),
            ("pub struct a::table::MapRef", false),
            ("pub fn a::find(a::table::Map)", false),
            (&format!("{layout} a::table::Map<L, F>"), true),
            (&format!("{layout} a::Arg for a::table::Map<L>"), true),
            (&format!("{layout} a::Arg for a::table::Set<L> where L: a::table::Map"), false),
            ("impl a::table::Map for u32", true),
            ("impl core::clone::Clone for a::Find<a::table::Map>", false),
        ] {
            assert_eq!(concerns(line, "a::table::Map"), found, "{line}");
        }
        assert!(concerns("pub mod a::table", "a::table"));
    }

    #[test]
    fn files_of_other_crates_are_found() {
        let texts = [("koel.txt".to_string(), String::new())];
        let folder = std::env::temp_dir().join(format!("xtask-api-{}", std::process::id()));
        assert_eq!(unknown(&folder, &texts), Ok(vec![]));
        fs::create_dir(&folder).unwrap();
        for name in ["koel.txt", "old.koel.txt", "b.txt"] {
            fs::write(folder.join(name), "").unwrap();
        }
        let found = unknown(&folder, &texts);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, Ok(vec![folder.join("b.txt"), folder.join("old.koel.txt")]));
    }
}

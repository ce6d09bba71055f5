//! GPU code of the kernels: builds canonical PTX and assembles machine code from it, then writes
//! both or compares them with the committed files.
use crate::images::{self, CPUS, Share, Texts};
use crate::linker;
use crate::metadata::path_in_repository;
use crate::nvcc::{Tools, in_parallel};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiler of the committed PTX: another one produces other bytes.
const TOOLCHAIN: &str = "1.95.0";

/// Build profile, so that every workspace produces the same code.
const PROFILE: [&str; 7] = [
    "inherits='release'",
    "panic='abort'",
    "debug=0",
    "lto=true",
    "codegen-units=1",
    "strip=true",
    "debug-assertions=false",
];

/// Maximum number of resident threads per multiprocessor of each target: ptxas ignores launch
/// bounds with more blocks than fit.
const RESIDENT_THREADS: [(&str, u32); 2] = [("sm_75", 1024), ("sm_90", 2048)];

/// The published crates of kernels: that of the tables, those of the applications, and that of the
/// papers' line.
pub(crate) const CRATES: [&str; 4] =
    ["koel-kernels", "koel-spatial-kernels", "koel-vision-kernels", "koel-classic-kernels"];

/// Crate of kernels: one of [`CRATES`], or a user's.
pub(crate) struct Kernels {
    folder: PathBuf,
    package: String,
    /// Whether arithmetic that overflows ends the launch with a trap: for tests on a GPU.
    overflow_checks: bool,
}
impl Kernels {
    /// Returns [`CRATES`].
    pub(crate) fn published(root: &Path) -> [Kernels; CRATES.len()] {
        CRATES.map(|package| Kernels {
            folder: root.join(path_in_repository(root, package)),
            package: package.into(),
            overflow_checks: false,
        })
    }
    pub(crate) fn with_overflow_checks(self) -> Kernels {
        Kernels { overflow_checks: true, ..self }
    }
    /// Returns the crate in a folder, inside or outside of this workspace.
    pub(crate) fn of_user(folder: &Path) -> Result<Kernels, String> {
        let folder = folder.canonicalize().map_err(|e| format!("{}: {e}", folder.display()))?;
        let manifest = folder.join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest)
            .map_err(|e| format!("{}: {e}", manifest.display()))?;
        let package = text
            .split_once("[package]")
            .and_then(|(_, t)| {
                t.lines().find_map(|l| l.trim().strip_prefix("name")?.trim().strip_prefix('='))
            })
            .map(|name| name.trim().trim_matches('"').to_string())
            .ok_or(format!("{}: no package name", manifest.display()))?;
        Ok(Kernels { folder, package, overflow_checks: false })
    }
    pub(crate) fn package(&self) -> &str {
        &self.package
    }
    /// Returns the folder of the images.
    pub(crate) fn images(&self) -> PathBuf {
        self.folder.join("images")
    }
    /// Returns the path of the list of kernels that name an image.
    pub(crate) fn list(&self) -> PathBuf {
        self.folder.join("src/entries.rs")
    }
    /// Returns the path of what is expected of the machine code.
    pub(crate) fn expectations(&self) -> PathBuf {
        self.folder.join("sass-expectations.txt")
    }
    /// Returns the path of the PTX of kernels that name no image.
    fn ptx(&self, cpu: &str) -> PathBuf {
        self.folder.join("ptx").join(format!("{cpu}.ptx"))
    }
}

/// PTX of a crate for one target: by image, and that of the kernels that name none.
struct Ptx {
    header: String,
    families: BTreeMap<String, String>,
    others: String,
    /// Module path of each entry of a family, from the crate root.
    modules: BTreeMap<String, String>,
}
impl Ptx {
    /// Returns the source of the list of all kernels.
    fn list(&self) -> String {
        let mut text = String::from(
            "//! Every kernel, where all families are compiled: \
             made by `cargo xtask ptx`; do not edit.\n\
             use koel_simt::KernelSpec;\n\n\
             /// What a launcher must know of each entry of the images.\n\
             pub const ALL: &[&KernelSpec] = &[\n",
        );
        for module in self.modules.values() {
            text += &format!("    &crate::{module}::SPEC,\n");
        }
        text + "];\n"
    }
    fn of(&self, family: &str) -> String {
        [&*self.header, self.families.get(family).map_or("", String::as_str)].concat()
    }
    fn others(&self) -> Option<String> {
        (!self.others.is_empty()).then(|| [&*self.header, &*self.others].concat())
    }
    fn summary(&self) -> String {
        let text = self.families.values().chain([&self.others]).flat_map(|text| text.lines());
        let (mut entries, mut waiting) = (0, 0);
        for line in text {
            entries += entry_name(line).is_some() as u32;
            waiting += linker::waits(line) as u32;
        }
        format!("{entries} entries, {waiting} barriers and warp operations, none of them copied")
    }
}
/// Returns the PTX of all images, for all targets.
fn families(built: &[Ptx; CPUS.len()]) -> BTreeMap<String, Texts> {
    let names = built[0].families.keys();
    names.map(|name| (name.clone(), built.each_ref().map(|ptx| ptx.of(name)))).collect()
}

/// Builds for all targets in parallel: each is one crate, which LLVM compiles on one thread.
fn build_all(root: &Path, kernels: &Kernels) -> Result<[Ptx; CPUS.len()], String> {
    let built = in_parallel(&CPUS, |cpu| build(root, kernels, cpu))?;
    for (cpu, ptx) in CPUS.iter().zip(&built) {
        println!("{cpu}: {}", ptx.summary());
    }
    built.try_into().map_err(|_| "one text a target".into())
}

/// Builds and writes everything.
pub(crate) fn write(root: &Path, kernels: &Kernels) -> Result<(), String> {
    let built = build_all(root, kernels)?;
    for (cpu, ptx) in CPUS.iter().zip(&built).filter_map(|(cpu, ptx)| Some((cpu, ptx.others()?))) {
        let file = kernels.ptx(cpu);
        std::fs::create_dir_all(file.parent().ok_or("no folder")?).map_err(|e| e.to_string())?;
        std::fs::write(&file, &ptx).map_err(|e| format!("{}: {e}", file.display()))?;
        println!("{}: {} bytes", file.display(), ptx.len());
    }
    match families(&built) {
        none if none.is_empty() => Ok(()),
        families => {
            let file = kernels.list();
            std::fs::write(&file, built[0].list())
                .map_err(|e| format!("{}: {e}", file.display()))?;
            images::write(&kernels.images(), &Tools::new(root)?, &families)
        }
    }
}

/// Builds everything and fails if the committed files differ. With `sample`, a share of the machine
/// code is compared, chosen by the commit.
pub(crate) fn check(root: &Path, kernels: &Kernels, sample: bool) -> Result<(), String> {
    let built = build_all(root, kernels)?;
    for (cpu, ptx) in CPUS.iter().zip(&built).filter_map(|(cpu, ptx)| Some((cpu, ptx.others()?))) {
        let file = kernels.ptx(cpu);
        let old = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        if old != ptx {
            let same = old.lines().zip(ptx.lines()).take_while(|(a, b)| a == b).count();
            let entry =
                ptx.lines().take(same + 1).filter_map(entry_name).last().unwrap_or("the header");
            let place = format!("{}:{} (in {entry})", file.display(), same + 1);
            return Err(format!("{place} is out of date: run the same command without `--check`"));
        }
        println!("{}: up to date", file.display());
    }
    match families(&built) {
        none if none.is_empty() => Ok(()),
        families => {
            let file = kernels.list();
            let list =
                std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            if list != built[0].list() {
                return Err(format!("{} does not belong to these kernels", file.display()));
            }
            let share = sample.then(|| Share::of(crate::commit_number(root)));
            images::check(&kernels.images(), &Tools::new(root)?, &families, share)
        }
    }
}

fn entry_name(line: &str) -> Option<&str> {
    line.strip_prefix(".visible .entry ").map(|l| l.trim_end_matches(['(', ')']))
}

/// Compiles the kernels, then makes the text canonical. Even before that, other build folders and
/// other paths of the toolchain gave the same bytes (cargo hashes the path inside the workspace,
/// not the whole path). What does change them:
///   * The crate hash in mangled names (package name and version, compiler version and host
///     triple). It appears in comments (`// %_RNv..exit`) and in the names of functions that were
///     not inlined, and may change the order of entries.
///   * `$L__BB7_3`, `__local_depot7`: labels and arrays in local memory contain the number of the
///     entry, that is, its position in the file.
///   * Paths, only in panic messages and debug info; the caller's RUSTFLAGS and cargo
///     configuration; the compiler.
///
/// Therefore: drop comments, sort the entries by name, drop their numbers, reject mangled names,
/// functions and global data, and fix the flags and the toolchain.
fn build(root: &Path, kernels: &Kernels, cpu: &str) -> Result<Ptx, String> {
    let target = root.join("target/ptx").join(cpu);
    // A fixed list of flags instead of the caller's: RUSTFLAGS and .cargo/config.toml must not
    // change the bytes.
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut flags = vec![
        format!("-Ctarget-cpu={cpu}"),
        format!("--cfg=simt_sm=\"{}\"", cpu.trim_start_matches("sm_")),
        "-Cno-prepopulate-passes".into(),
        "-Zmir-opt-level=0".into(),
        format!("-Clinker={}", me.display()),
        format!("--remap-path-prefix={}=/", root.display()),
        format!("--remap-path-prefix={}=/", kernels.folder.display()),
    ];
    if kernels.overflow_checks {
        // A panic becomes a trap in place: no message, no call.
        flags.extend(["-Zunstable-options".into(), "-Cpanic=immediate-abort".into()]);
    }
    let flags = flags.join("\x1f");
    let rustc = Command::new("rustc")
        .arg(format!("+{TOOLCHAIN}"))
        .args(["--print", "target-libdir"])
        .env_remove("RUSTUP_TOOLCHAIN")
        .output()
        .map_err(|e| e.to_string())?;
    let llvm = Path::new(String::from_utf8_lossy(&rustc.stdout).trim())
        .parent()
        .ok_or("rustc: no target-libdir")?
        .join("bin");
    // cargo does not notice changes of its linker (this program): force a relink.
    for e in std::fs::read_dir(target.join("nvptx64-nvidia-cuda/ptx/.fingerprint"))
        .into_iter()
        .flatten()
        .flatten()
    {
        if e.file_name().to_string_lossy().starts_with(&format!("{}-", kernels.package)) {
            let _ = std::fs::remove_dir_all(e.path());
        }
    }
    let mut cargo = Command::new("cargo");
    if kernels.overflow_checks {
        cargo.env(linker::INLINES_ALL, "1"); // checks make them longer
    }
    let status = cargo
        .args([
            &format!("+{TOOLCHAIN}"),
            "rustc",
            "--locked",
            "--lib",
            "-p",
            &kernels.package,
            "--profile",
            "ptx",
            "--crate-type",
            "cdylib",
        ])
        .args(["--target", "nvptx64-nvidia-cuda", "-Zbuild-std=core", "--target-dir"])
        .arg(&target)
        .args(
            PROFILE
                .iter()
                .flat_map(|setting| ["--config".into(), format!("profile.ptx.{setting}")]),
        )
        .args(["--config", &format!("profile.ptx.overflow-checks={}", kernels.overflow_checks)])
        .current_dir(&kernels.folder)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags)
        .env(linker::LLVM, llvm)
        .env(linker::CPU, cpu)
        .env(linker::PACKAGE, &kernels.package)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO") // this may run under another toolchain's cargo
        .env_remove("RUSTUP_TOOLCHAIN")
        .status()
        .map_err(|e| format!("cargo: {e}"))?;
    if !status.success() {
        return Err("the PTX build failed".into());
    }
    let file =
        target.join(format!("nvptx64-nvidia-cuda/ptx/{}.ptx", kernels.package.replace('-', "_")));
    let raw = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    canonical(&raw, cpu, kernels)
}

fn canonical(raw: &str, cpu: &str, kernels: &Kernels) -> Result<Ptx, String> {
    const MAX_RESIDENT: u32 = 2048;
    let resident = RESIDENT_THREADS
        .iter()
        .find(|(name, _)| *name == cpu)
        .ok_or(format!("unknown target {cpu}"))?
        .1;
    let (mut bounds, mut local_arrays, mut images) =
        (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
    let mut modules = BTreeMap::new();
    let (mut header, mut entries) = (vec![], BTreeMap::<String, Vec<String>>::new());
    let mut current: Option<String> = None;
    for line in raw.lines() {
        if let Some(rest) = line.strip_prefix("//@simt ") {
            let field = |key: &str| {
                rest.split_whitespace()
                    .find_map(|w| w.strip_prefix(key))
                    .map(str::to_string)
                    .ok_or(format!("bad line: {line}"))
            };
            let number = |key: &str| field(key)?.parse::<u32>().map_err(|e| format!("{line}: {e}"));
            let (entry, threads, blocks) =
                (field("entry=")?, number("maxntid=")?, number("minnctapersm=")?);
            if field("crate=")? != kernels.package {
                continue; // a crate that this one depends on
            }
            if !(1..=1024).contains(&threads) || blocks == 0 || threads * blocks > MAX_RESIDENT {
                return Err(format!(
                    "`{entry}`: no GPU holds {blocks} blocks of {threads} threads \
                     per multiprocessor"
                ));
            }
            // An older GPU may hold fewer.
            let blocks = blocks.min(resident / threads).max(1);
            if field("local=")? == "true" {
                local_arrays.insert(entry.clone());
            }
            let image = field("image=")?;
            if image != "-" {
                images.insert(entry.clone(), image.to_lowercase());
                let place = field("place=")?;
                let (_, module) = place.split_once("::").ok_or(format!("bad line: {line}"))?;
                modules.insert(entry.clone(), module.to_string());
            }
            if bounds.insert(entry.clone(), (threads, blocks)).is_some() {
                return Err(format!("two kernels have the name `{entry}`"));
            }
            continue;
        }
        let line = line.split("//").next().unwrap().trim_end();
        if line.is_empty() {
            continue;
        }
        for (bad, why) in [
            (
                ".func",
                "a function that was not inlined \
                 (or an LLVM intrinsic this compiler no longer knows)",
            ),
            (".local", "local memory: an array that did not fit in registers, rolled loop?"),
            (".global .", "a global variable: a table or a panic message"),
            ("call", "a call"),
            ("trap", "a panic is reachable: use code that cannot panic"),
        ] {
            if bad == "trap" && kernels.overflow_checks {
                continue;
            }
            if bad == ".local" && current.as_ref().is_some_and(|entry| local_arrays.contains(entry))
            {
                continue;
            }
            if line.split_whitespace().any(|w| w.starts_with(bad))
                || line.contains(bad) && bad.contains(' ')
            {
                return Err(format!(
                    "in `{}`: {why}: {}",
                    current.as_deref().unwrap_or("module"),
                    line.trim()
                ));
            }
        }
        if let Some(name) = entry_name(line).map(str::to_string) {
            entries.insert(name.clone(), vec![]);
            current = Some(name);
        }
        match &current {
            None => header.push(line.to_string()),
            Some(name) => {
                let body = entries.get_mut(name).unwrap();
                if line == ")" {
                    let (threads, blocks) =
                        bounds.get(name).ok_or(format!("entry `{name}` has no //@simt line"))?;
                    body.extend([
                        ")".into(),
                        format!(".maxntid {threads}, 1, 1"),
                        format!(".minnctapersm {blocks}"),
                    ]);
                } else {
                    body.push(renumber(line));
                }
                if line == "}" {
                    current = None;
                }
            }
        }
    }
    if let Some(name) = bounds.keys().find(|n| !entries.contains_key(*n)) {
        return Err(format!("no entry `{name}` in the PTX"));
    }
    if let Some((name, line)) =
        entries.iter().find_map(|(name, body)| Some((name, high_word(body)?)))
    {
        let why = "the high word of a 64-bit product: use `koel_simt::mul_hi`, \
                   whose documentation gives the reason";
        return Err(format!("in `{name}`: {why}: {}", line.trim()));
    }
    // Mangled names (`_ZN..`, `_R..`) contain the crate's hash.
    if let Some(line) = header
        .iter()
        .chain(entries.values().flatten())
        .find(|l| l.contains("_ZN") || l.contains("_R"))
    {
        return Err(format!("a mangled name: {line}"));
    }
    let lines =
        |lines: &[String]| lines.iter().flat_map(|l| [l.as_str(), "\n"]).collect::<String>();
    let header = format!("// made by xtask with rustc {TOOLCHAIN} for {cpu}; do not edit\n")
        + &lines(&header);
    let mut ptx = Ptx { header, families: BTreeMap::new(), others: String::new(), modules };
    for (name, body) in &entries {
        match images.get(name) {
            Some(image) => ptx.families.entry(image.clone()).or_default().push_str(&lines(body)),
            None => ptx.others.push_str(&lines(body)),
        }
    }
    Ok(ptx)
}
/// Returns the line at which a body takes the high word of a product of two values that are not
/// constants.
fn high_word(body: &[String]) -> Option<&str> {
    let of = |line: &str, op: &str| -> Option<Vec<String>> {
        let rest = line.trim().strip_prefix(op)?.trim_end_matches(';');
        Some(rest.split(',').map(|w| w.trim_matches([' ', '\t', '{', '}']).to_string()).collect())
    };
    let products =
        body.iter().filter_map(|line| of(line, "mul.lo.s64").or_else(|| of(line, "mul.wide.u32")));
    let products = products
        .filter(|p| p[1].starts_with('%') && p[2].starts_with('%'))
        .map(|mut p| p.swap_remove(0));
    let products = products.collect::<BTreeSet<_>>();
    let takes = |line: &&String| match (of(line, "mov.b64"), of(line, "shr.u64")) {
        (Some(parts), _) => parts.len() == 3 && parts[0] == "_" && products.contains(&parts[2]),
        (_, Some(parts)) => parts[2] == "32" && products.contains(&parts[1]),
        _ => false,
    };
    body.iter().find(takes).map(String::as_str)
}
/// Turns `$L__BB7_3` into `$L__BB_3`, and `__local_depot7` into `__local_depot`: these names are
/// local to an entry, and its number is its position in the file.
fn renumber(line: &str) -> String {
    ["$L__BB", "__local_depot"].iter().fold(line.to_string(), |line, name| {
        let mut parts = line.split(name);
        let mut out = parts.next().unwrap_or_default().to_string();
        for part in parts {
            out.push_str(name);
            out.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_the_number_of_their_entry() {
        for (line, expected) in [
            ("@%p3 bra $L__BB17_4;", "@%p3 bra $L__BB_4;"),
            ("brx.idx %r1, {$L__BB7_3, $L__BB7_12};", "brx.idx %r1, {$L__BB_3, $L__BB_12};"),
            (".local .align 8 .b8 __local_depot9[240];", ".local .align 8 .b8 __local_depot[240];"),
            ("mov.b64 %SPL, __local_depot115;", "mov.b64 %SPL, __local_depot;"),
            ("add.s32 %r17, %r3, 44;", "add.s32 %r17, %r3, 44;"),
        ] {
            assert_eq!(renumber(line), expected);
        }
    }
}

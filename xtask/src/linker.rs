//! The linker of nvptx64: bitcode in, PTX out.
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

/// Environment variable with the folder of the LLVM tools; set only when rustc calls this program
/// as its linker.
pub(crate) const LLVM: &str = "XTASK_LLVM";
/// Environment variable: set if functions must be inlined however long they are.
pub(crate) const INLINES_ALL: &str = "XTASK_INLINES_ALL";
/// Environment variable with the `-mcpu` of this build.
pub(crate) const CPU: &str = "XTASK_CPU";

/// Environment variable with the package whose entries are kept. Crates that it depends on ship
/// their own.
pub(crate) const PACKAGE: &str = "XTASK_PACKAGE";

/// Links bitcode into PTX. Why not use `llvm-bitcode-linker`, which does the same in four lines
/// less:
///
/// rustc does not mark functions `convergent`. LLVM then treats a call of, say,
/// `block::exclusive_sum` like any other call and copies it into both arms of a branch (seen in
/// CallSiteSplitting), with its barriers and shuffles, *before* inlining it; `#[inline(always)]`
/// does not prevent that. clang marks every GPU function and lets LLVM remove the mark where it is
/// provably unnecessary. This linker does the same, before any pass has run
/// (`-C no-prepopulate-passes`).
pub(crate) fn link(args: &[String]) -> Result<(), String> {
    let llvm = PathBuf::from(std::env::var_os(LLVM).ok_or("not called by rustc")?);
    let cpu = std::env::var(CPU).map_err(|e| e.to_string())?;
    let package = format!("crate={}", std::env::var(PACKAGE).map_err(|e| e.to_string())?);
    let after = |flag: &str| {
        args.iter()
            .zip(&args[1..])
            .filter(|(a, _)| *a == flag)
            .map(|(_, b)| b.clone())
            .collect::<Vec<_>>()
    };
    let out = after("-o").pop().ok_or("no -o")?;
    let objects = args.iter().filter(|a| a.ends_with(".o")).collect::<Vec<_>>();
    let tool = |name: &str, args: &[&str]| {
        let o = Command::new(llvm.join(name))
            .args(args)
            .output()
            .map_err(|e| format!("{name}: {e} (rustup component add llvm-tools)"))?;
        if o.status.success() {
            Ok(())
        } else {
            Err(format!("{name}: {}", String::from_utf8_lossy(&o.stderr)))
        }
    };
    let (linked, marked, optimised) =
        (format!("{out}.ll"), format!("{out}.marked.ll"), format!("{out}.opt.bc"));
    tool(
        "llvm-link",
        &[&["-S", "-o", &linked], &*objects.iter().map(|o| o.as_str()).collect::<Vec<_>>()]
            .concat(),
    )?;
    let text = std::fs::read_to_string(&linked).map_err(|e| e.to_string())?;
    let groups = text
        .lines()
        .filter(|l| l.starts_with("define "))
        .flat_map(|l| l.split_whitespace().filter(|w| w.starts_with('#')))
        .collect::<BTreeSet<_>>();
    let mark = |l: &str| match l.strip_prefix("attributes ").and_then(|r| r.split_once(" = { ")) {
        Some((group, rest)) if groups.contains(group) => {
            format!("attributes {group} = {{ convergent {rest}\n")
        }
        _ => format!("{l}\n"),
    };
    if text.lines().any(|l| l.starts_with("define ") && !l.contains(" #")) {
        return Err("a function without attributes: cannot mark it".into());
    }
    std::fs::write(&marked, text.lines().map(mark).collect::<String>())
        .map_err(|e| e.to_string())?;
    let own = text
        .lines()
        .filter_map(|l| {
            l.strip_prefix("module asm \"//@simt entry=")?.trim_end_matches('"').split_once(' ')
        })
        .filter(|(_, rest)| rest.split(' ').any(|word| word == package))
        .map(|(entry, _)| entry)
        .collect::<BTreeSet<_>>();
    let keep = own.iter().copied().collect::<Vec<_>>().join(",");
    let keep = format!("--internalize-public-api-list={keep}");
    let mut optimise = vec!["--passes=internalize,default<O3>", &keep, "-o", &optimised, &marked];
    if std::env::var_os(INLINES_ALL).is_some() {
        optimise.push("-inline-threshold=1000000");
    }
    tool("opt", &optimise)?;
    tool("llc", &["-O3", &format!("-mcpu={cpu}"), "-mattr=+ptx78", "-o", &out, &optimised])?;
    let ptx = std::fs::read_to_string(&out).map_err(|e| e.to_string())?;
    nothing_copied(&text, &ptx, &own)
}

/// Returns whether a line of PTX is a barrier or a warp operation.
pub(crate) fn waits(line: &str) -> bool {
    ["bar.", "barrier.", "shfl.", "vote.", "match.", "redux."]
        .iter()
        .any(|o| line.trim_start().starts_with(o))
}

/// Fails unless the PTX of each entry has as many barriers and warp operations as its source. They
/// are counted along the calls in the IR as rustc wrote it, before any MIR or LLVM pass. A higher
/// count means that something copied them. (A loop around one that LLVM unrolls would be a false
/// alarm; none so far.)
fn nothing_copied(ir: &str, ptx: &str, own: &BTreeSet<&str>) -> Result<(), String> {
    let (mut calls, mut function, mut entries) = (BTreeMap::<&str, Vec<&str>>::new(), "", vec![]);
    for line in ir.lines() {
        if line.starts_with("define ") {
            function = line.split('@').nth(1).unwrap().split('(').next().unwrap();
            if line.contains("ptx_kernel") {
                entries.push(function);
            }
        } else if let Some(i) = line
            .find("call ")
            .filter(|_| !line.contains(" asm "))
            .and_then(|i| line[i..].find('@').map(|j| i + j + 1))
        {
            calls.entry(function).or_default().push(line[i..].split('(').next().unwrap());
        }
    }
    const SYNC: [&str; 5] = [
        "llvm.nvvm.barrier",
        "llvm.nvvm.bar.",
        "llvm.nvvm.shfl",
        "llvm.nvvm.vote",
        "llvm.nvvm.match",
    ];
    fn count(f: &str, calls: &BTreeMap<&str, Vec<&str>>, depth: u32) -> usize {
        if SYNC.iter().any(|s| f.starts_with(s)) || f.starts_with("llvm.nvvm.redux") {
            return 1;
        }
        if depth > 64 {
            0
        } else {
            calls.get(f).map_or(0, |c| c.iter().map(|c| count(c, calls, depth + 1)).sum())
        }
    }
    for e in entries.into_iter().filter(|e| own.contains(e)) {
        let body = ptx
            .split(&format!(".entry {e}("))
            .nth(1)
            .and_then(|b| b.split("\n}").next())
            .ok_or(format!("no entry {e}"))?;
        let is = body.lines().filter(|l| waits(l)).count();
        let want = count(e, &calls, 0);
        if is > want {
            return Err(format!(
                "`{e}`: {want} barriers and warp operations in the source, {is} in the PTX: \
                 something copied them"
            ));
        }
    }
    Ok(())
}

//! Compares what ptxas makes of the PTX (registers, spills, instructions) with the expectations.
//! Needs no GPU.
use crate::images;
use crate::images::CPUS;
use crate::nvcc::{Assembled, Tools, in_parallel};
use crate::ptx::Kernels;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Kernel after ptxas: the number of occurrences of each instruction, with its modifiers
/// (`LDG.E.128.CONSTANT`).
#[derive(Default)]
struct Kernel {
    used: String,
    /// bytes of registers spilled to local memory
    spilled: u32,
    /// bytes of local memory, including spills
    local: u32,
    instructions: BTreeMap<String, u32>,
}

/// Assembles and checks the committed PTX of all crates for each target; prints details of the
/// named kernels.
pub(crate) fn sass(root: &Path, details: &[&str]) -> Result<(), String> {
    let tools = Tools::new(root)?;
    let mut wrong = vec![];
    let mut unknown = details.to_vec();
    for of in Kernels::published(root) {
        let file = of.expectations();
        let expectations =
            std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        for cpu in CPUS {
            let families = images::ptx(&of.images(), cpu)?;
            let families = in_parallel(&families, |ptx| disassemble(ptx, cpu, &tools))?;
            let kernels = families.into_iter().flatten().collect::<BTreeMap<_, _>>();
            for (name, kernel) in kernels.iter().filter(|(n, _)| details.contains(&n.as_str())) {
                print(cpu, name, kernel);
            }
            unknown.retain(|name| !kernels.contains_key(*name));
            wrong.extend(kernels.iter().flat_map(|(name, k)| {
                forbidden(k).into_iter().map(move |f| format!("{cpu} {name}: {f}"))
            }));
            let say = |e| format!("{}: {e}", of.package());
            let (checked, unmet) = compare(&expectations, cpu, &kernels).map_err(say)?;
            println!(
                "{} for {cpu}: {} kernels, no generic memory; {checked} expectations",
                of.package(),
                kernels.len()
            );
            wrong.extend(unmet);
        }
    }
    if let Some(name) = unknown.first() {
        return Err(format!("no kernel `{name}`"));
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("{} wrong:\n  {}", wrong.len(), wrong.join("\n  ")))
    }
}

/// Prints details of a kernel.
fn print(cpu: &str, name: &str, kernel: &Kernel) {
    println!(
        "{cpu} {name}: {}, {} instructions",
        kernel.used,
        kernel.instructions.values().sum::<u32>()
    );
    let list = kernel.instructions.iter().filter(|(o, _)| moves_or_waits(o));
    let list = list.map(|(o, n)| format!("{o} {n}")).collect::<Vec<_>>();
    println!("    {}", list.join(", "));
}

/// Assembles and disassembles the kernels of one family.
fn disassemble(ptx: &str, cpu: &str, tools: &Tools) -> Result<BTreeMap<String, Kernel>, String> {
    let Assembled { cubin, log } = tools.assemble(ptx, cpu)?;
    let say = |e: std::io::Error| format!("{}: {e}", tools.nvdisasm.display());
    let out = Command::new(&tools.nvdisasm).arg("-c").arg(&cubin).output().map_err(say)?;
    if !out.status.success() {
        return Err(String::from_utf8_lossy(&out.stderr).into_owned());
    }
    let text = String::from_utf8_lossy(&out.stdout);
    let mut kernels = BTreeMap::<String, Kernel>::new();
    let mut name = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(n) = line.strip_prefix(".section\t.text.") {
            name = n.split(',').next().unwrap_or(n).to_string();
        } else if let Some((_, code)) = line.split_once("*/").filter(|_| line.starts_with("/*")) {
            // /*0070*/ @P0 EXIT ;
            let mut words = code.split_whitespace().skip_while(|w| w.starts_with('@'));
            // Before sm_80, ptxas implements warp operations in potentially divergent code as calls
            // of its own subroutines.
            let op = if code.contains("$__cuda_sm70_")
                && (code.contains("sync_") || code.contains("warpsync"))
            {
                Some("WARPSYNC.CALL")
            } else {
                words.next()
            };
            if let Some(op) = op {
                let op = op.trim_end_matches(';').to_string();
                *kernels.entry(name.clone()).or_default().instructions.entry(op).or_default() += 1;
            }
        }
    }
    // ptxas -v: "Function properties for NAME", then "... bytes spill ...", then "Used 32
    // registers, ...".
    for line in log.lines() {
        if let Some(n) = line.split("Function properties for ").nth(1) {
            name = n.trim().to_string();
        } else if let Some(kernel) = kernels.get_mut(&name) {
            let bytes = |what: &str| {
                let before = line.split(what).next().filter(|l| *l != line)?;
                before.split_whitespace().last()?.parse::<u32>().ok()
            };
            if let Some(spilled) = bytes(" bytes spill stores") {
                (kernel.spilled, kernel.local) =
                    (spilled, bytes(" bytes stack frame").ok_or(line)?);
            } else if let Some(used) = line.split("Used").nth(1) {
                kernel.used = used.trim().to_string();
            }
        }
        if line.contains("ptxas warning") {
            return Err(line.to_string());
        }
    }
    Ok(kernels)
}

fn moves_or_waits(op: &str) -> bool {
    const FAMILIES: [&str; 12] = [
        "LD", "ST", "ATOM", "RED", "BAR", "SHFL", "VOTE", "MATCH", "WARPSYNC", "BSSY", "MEMBAR",
        "CCTL",
    ];
    FAMILIES.iter().any(|p| op.starts_with(p)) && !op.starts_with("LDC")
}
/// Returns the instructions that no kernel may use. Spills, local arrays and calls are checked
/// against the expectations.
fn forbidden(kernel: &Kernel) -> Vec<String> {
    let family = |o: &str| o.split('.').next().unwrap_or("").to_string();
    let bad = |o: &&String| match family(o).as_str() {
        "LD" | "ST" | "ATOM" => true,
        "LDL" | "STL" => kernel.local == 0,
        _ => false,
    };
    kernel
        .instructions
        .keys()
        .filter(bad)
        .map(|o| format!("{o}: generic or local memory"))
        .collect()
}

/// Checks lines of `KERNEL [CPU]: EXPECTATION...` (see the file). Returns how many were checked,
/// and which are not met.
fn compare(
    text: &str,
    cpu: &str,
    kernels: &BTreeMap<String, Kernel>,
) -> Result<(u32, Vec<String>), String> {
    let (mut checked, mut unmet) = (0, vec![]);
    let (mut may_spill, mut local, mut may_call) =
        (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    for (number, line) in
        text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'))
    {
        let place = format!("sass-expectations.txt:{}", number + 1);
        let (head, expectations) = line.split_once(':').ok_or(format!("{place}: no colon"))?;
        let mut head = head.split_whitespace();
        let pattern = head.next().ok_or(format!("{place}: no kernel"))?;
        if head.next().is_some_and(|only| only != cpu) {
            continue;
        }
        let of = |name: &str| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == pattern,
        };
        if !kernels.keys().any(|name| of(name)) {
            return Err(format!("{place}: no kernel `{pattern}`"));
        }
        for (name, kernel) in kernels.iter().filter(|(name, _)| of(name)) {
            for expectation in expectations.split_whitespace() {
                checked += 1;
                let limit = |prefix: &str| expectation.strip_prefix(prefix).map(str::parse::<u32>);
                let limits = [(&mut may_spill, limit("spill<=")), (&mut local, limit("local<="))];
                if let Some((of, bytes)) =
                    limits.into_iter().find_map(|(of, bytes)| Some((of, bytes?)))
                {
                    of.insert(name, bytes.map_err(|e| format!("{place}: {expectation}: {e}"))?);
                    continue;
                }
                if expectation == "may-call" {
                    may_call.insert(name);
                    continue;
                }
                let (op, wanted) = match expectation.split_once('=') {
                    Some((op, n)) => (
                        op,
                        Some(n.parse::<u32>().map_err(|e| format!("{place}: {expectation}: {e}"))?),
                    ),
                    None if expectation.starts_with('!') => (&expectation[1..], Some(0)),
                    None => (expectation, None),
                };
                let is = kernel
                    .instructions
                    .iter()
                    .filter(|(o, _)| is_a(o, op))
                    .map(|(_, n)| n)
                    .sum::<u32>();
                if wanted.map_or(is == 0, |n| n != is) {
                    unmet.push(format!(
                        "{cpu} {name}: expected {expectation} ({place}), found {is} {op}"
                    ));
                }
            }
        }
    }
    for (name, kernel) in
        kernels.iter().filter(|(n, k)| k.spilled > may_spill.get(n).copied().unwrap_or(0))
    {
        unmet.push(format!(
            "{cpu} {name}: {} bytes of registers are spilled ({})",
            kernel.spilled, kernel.used
        ));
    }
    // Spilled registers take local memory too, but may share it.
    let arrays = |n: &String, k: &Kernel| {
        k.local > k.spilled.next_multiple_of(8).max(local.get(n).copied().unwrap_or(0))
    };
    for (name, kernel) in kernels.iter().filter(|(n, k)| arrays(n, k)) {
        unmet.push(format!(
            "{cpu} {name}: {} bytes of local memory ({})",
            kernel.local, kernel.used
        ));
    }
    let calls = |k: &Kernel| k.instructions.keys().any(|o| is_a(o, "CALL"));
    for (name, _) in kernels.iter().filter(|(n, k)| calls(k) && !may_call.contains(n)) {
        unmet.push(format!("{cpu} {name}: a call"));
    }
    Ok((checked, unmet))
}
/// Returns whether an instruction is of the given kind: same name, and all its modifiers in that
/// order. `LDG.E.128.CONSTANT` is an `LDG.128`.
fn is_a(instruction: &str, kind: &str) -> bool {
    let mut parts = instruction.split('.');
    let mut kinds = kind.split('.');
    parts.next() == kinds.next() && kinds.all(|k| parts.any(|p| p == k))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernels(ops: &[(&str, u32)]) -> BTreeMap<String, Kernel> {
        let instructions = ops.iter().map(|(o, n)| (o.to_string(), *n)).collect();
        BTreeMap::from([(
            "copy".into(),
            Kernel { used: "32 registers".into(), spilled: 8, local: 8, instructions },
        )])
    }
    #[test]
    fn kinds_of_instructions() {
        assert!(is_a("LDG.E.128.CONSTANT", "LDG.128") && is_a("BAR.SYNC.DEFER_BLOCKING", "BAR"));
        assert!(
            !is_a("LDG.E.64", "LDG.128")
                && !is_a("ATOMS.ADD", "ATOM")
                && !is_a("LDG.E.128", "LDG.128.E")
        );
    }
    #[test]
    fn expectations_are_compared() {
        let k = kernels(&[("LDG.E.128.CONSTANT", 2), ("BAR.SYNC", 1)]);
        let unmet = |text: &str| compare(text, "sm_90", &k).map(|(_, u)| u.len());
        assert_eq!(
            unmet("# nothing\n\ncopy: LDG.128=2 BAR=1 !ATOMS spill<=8\ncopy sm_75: ATOMS"),
            Ok(0)
        );
        assert_eq!(unmet("cop*: LDG.128=1 !BAR ATOMS LDG spill<=8"), Ok(3));
        assert_eq!(unmet("copy: BAR spill<=4"), Ok(1));
        let mut k = kernels(&[("STL", 3)]);
        k.get_mut("copy").unwrap().local = 48;
        let unmet_local = |text: &str| compare(text, "sm_90", &k).map(|(_, u)| u.len());
        assert_eq!(
            (unmet_local("copy: spill<=8"), unmet_local("copy: spill<=8 local<=48")),
            (Ok(1), Ok(0))
        );
        assert!(
            unmet("none: BAR").is_err()
                && unmet("copy: BAR=x").is_err()
                && unmet("copy BAR").is_err()
        );
    }
    #[test]
    fn what_no_kernel_may_do() {
        assert!(
            forbidden(&kernels(&[("LDS.128", 1), ("LDG.E", 1), ("ATOMS.ADD", 1)])["copy"])
                .is_empty()
        );
        assert_eq!(
            forbidden(&kernels(&[("LD.E", 1), ("ATOM.E.ADD", 1), ("LD.E.64", 1)])["copy"]).len(),
            3
        );
        let unspilled = Kernel {
            spilled: 0,
            local: 0,
            ..kernels(&[("STL", 1)]).remove("copy").unwrap_or_default()
        };
        assert_eq!(forbidden(&unspilled).len(), 1);
    }
}

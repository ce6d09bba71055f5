//! What ptxas makes of the PTX: registers, spills, instructions. Needs no GPU.
use crate::ptx::{CPUS, committed};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Needs no GPU. `.cu` users: pass a cubin instead of the PTX through `nvdisasm` by hand.
fn sass_of(ptx: &Path, cpu: &str, ptxas: &str, nvdisasm: &str) -> Result<(), String> {
    let cubin = std::env::temp_dir().join(format!("xtask-{}.cubin", std::process::id()));
    let out = Command::new(ptxas).args(["-v", &format!("-arch={cpu}"), "-o"]).arg(&cubin).arg(ptx).output().map_err(|e| e.to_string())?;
    let log = String::from_utf8_lossy(&out.stderr).into_owned();
    if !out.status.success() {
        return Err(log);
    }
    let text = Command::new(nvdisasm).arg("-c").arg(&cubin).output().map_err(|e| e.to_string())?.stdout;
    let _ = std::fs::remove_file(&cubin);
    let (mut name, mut counts) = (String::new(), BTreeMap::<String, BTreeMap<String, u32>>::new());
    for line in String::from_utf8_lossy(&text).lines() {
        if let Some(n) = line.trim().strip_prefix(".section\t.text.") {
            name = n.split(',').next().unwrap().to_string();
        }
        if let Some(i) = line.find("*/").map(|i| &line[i + 2..]).filter(|_| line.trim_start().starts_with("/*")) {
            let op = i.trim().trim_start_matches(|c| c != ' ' || i.trim().starts_with(|c: char| c.is_alphabetic()));
            let op = if i.trim().starts_with('@') { op.trim() } else { i.trim() };
            let op = op.split([' ', ';']).next().unwrap();
            *counts.entry(name.clone()).or_default().entry(op.to_string()).or_default() += 1;
        }
    }
    let mut lines = log.lines();
    while let Some(l) = lines.next() {
        if let Some(n) = l.split('\'').nth(1) {
            let used = lines.by_ref().find(|l| l.contains("Used")).unwrap_or("").split("Used").nth(1).unwrap_or("").trim().to_string();
            let ops = &counts[n];
            println!("{n}: {used}, {} instructions", ops.values().sum::<u32>());
            let memory = ops.iter().filter(|(o, _)| {
                ["LD", "ST", "ATOM", "RED", "BAR", "SHFL", "VOTE", "MATCH", "WARPSYNC", "BSSY"].iter().any(|p| o.starts_with(p))
                    && !o.starts_with("LDC")
            });
            println!("    {}", memory.map(|(o, n)| format!("{o} {n}")).collect::<Vec<_>>().join(", "));
            for o in ops.keys() {
                let o = o.split('.').next().unwrap();
                if ["LD", "ST", "LDL", "STL", "ATOM", "CALL"].contains(&o) {
                    return Err(format!("`{n}` uses {o}: generic or local memory, or a call"));
                }
            }
        }
    }
    if log.lines().any(|l| l.contains("spill") && !l.contains("0 bytes spill stores, 0 bytes spill loads")) {
        return Err("spills".into());
    }
    Ok(())
}


pub fn sass(root: &Path, ptxas: &str, nvdisasm: &str) -> Result<(), String> {
    CPUS.iter().try_for_each(|cpu| sass_of(&committed(root, cpu), cpu, ptxas, nvdisasm))
}

//! What a CUDA launcher hands to the driver, against what the committed PTX declares.
use koel_kernels::PTX;
use koel_kernels::entries::ALL;
use koel_simt::KernelSpec;
use std::collections::{BTreeMap, BTreeSet};

/// What the PTX says of an entry.
struct Entry {
    /// bytes of each parameter
    params: Vec<usize>,
    threads: u32,
    min_blocks: u32,
}
fn declared(ptx: &str) -> BTreeMap<&str, Entry> {
    let entry = |text: &'static str| text;
    let mut entries = BTreeMap::new();
    for text in ptx.split(entry("\n.visible .entry ")).skip(1) {
        let (name, rest) = text.split_once('(').expect("a parameter list");
        let (params, rest) = rest.split_once(')').expect("its end");
        let size = |line: &str| match line {
            _ if line.contains(".b8") => line.split(['[', ']']).nth(1).and_then(|n| n.parse().ok()).expect("a length"),
            _ if line.contains(".u64") || line.contains(".b64") => 8,
            _ if line.contains(".u32") || line.contains(".b32") => 4,
            _ => panic!("`{name}`: parameter {line}"),
        };
        let bound = |key: &str| {
            let line = rest.lines().find_map(|l| l.strip_prefix(key)).expect(key);
            line.split(',').next().and_then(|n| n.trim().parse().ok()).expect(key)
        };
        let params = params.lines().map(str::trim).filter(|l| !l.is_empty()).map(size).collect();
        entries.insert(name, Entry { params, threads: bound(".maxntid"), min_blocks: bound(".minnctapersm") });
    }
    entries
}

#[test]
fn every_entry_of_the_ptx_is_listed_and_takes_what_launchers_pass() {
    for (capability, ptx) in PTX {
        let entries = declared(ptx);
        let listed = ALL.iter().map(|k| k.name).collect::<BTreeSet<_>>();
        assert_eq!(listed.len(), ALL.len(), "a kernel is listed twice in entries.rs");
        let in_ptx = entries.keys().copied().collect::<BTreeSet<_>>();
        let missing =
            |a: &BTreeSet<&'static str>, b: &BTreeSet<&'static str>| a.difference(b).copied().collect::<Vec<_>>();
        assert!(
            in_ptx == listed,
            "only in the PTX for {capability}: {:?}; only in entries.rs: {:?}",
            missing(&in_ptx, &listed),
            missing(&listed, &in_ptx)
        );
        for KernelSpec { name, threads, min_blocks, params, param_bytes, .. } in ALL {
            let entry = &entries[name];
            assert_eq!(entry.params, *param_bytes, "`{name}` for {capability}: parameters {params:?}");
            assert_eq!(entry.threads, *threads, "`{name}` for {capability}");
            // An older multiprocessor may hold fewer blocks than were asked for.
            let held = if capability == 75 { (1024 / threads).max(1) } else { u32::MAX };
            assert_eq!(entry.min_blocks, held.min(*min_blocks), "`{name}` for {capability}");
        }
    }
}

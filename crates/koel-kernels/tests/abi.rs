//! Checks what a CUDA launcher passes to the driver against what the committed images declare and
//! hold.
use koel_kernels::entries::ALL;
use koel_kernels::images;
use koel_simt::{Code, CodeKind, Image, KernelSpec};
use std::collections::{BTreeMap, BTreeSet};

/// Declaration of an entry in PTX.
struct Entry {
    /// Bytes of each parameter.
    params: Vec<usize>,
    threads: u32,
    min_blocks: u32,
}
fn declared(ptx: &str) -> BTreeMap<&str, Entry> {
    let mut entries = BTreeMap::new();
    for text in ptx.split("\n.visible .entry ").skip(1) {
        let (name, rest) = text.split_once('(').expect("a parameter list");
        let (params, rest) = rest.split_once(')').expect("its end");
        let size = |line: &str| match line {
            _ if line.contains(".b8") => {
                line.split(['[', ']']).nth(1).and_then(|n| n.parse().ok()).expect("a length")
            }
            _ if line.contains(".u64") || line.contains(".b64") => 8,
            _ if line.contains(".u32") || line.contains(".b32") => 4,
            _ => panic!("`{name}`: parameter {line}"),
        };
        let bound = |key: &str| {
            let line = rest.lines().find_map(|l| l.strip_prefix(key)).expect(key);
            line.split(',').next().and_then(|n| n.trim().parse().ok()).expect(key)
        };
        let params = params.lines().map(str::trim).filter(|l| !l.is_empty()).map(size).collect();
        entries.insert(
            name,
            Entry { params, threads: bound(".maxntid"), min_blocks: bound(".minnctapersm") },
        );
    }
    entries
}

/// Returns the PTX of an image for each capability.
fn ptx_of(image: &Image) -> Vec<(u32, String)> {
    let codes = image.codes().expect(image.name);
    let ptx = codes.into_iter().filter(|code| code.kind == CodeKind::Ptx);
    ptx.map(|code| {
        (code.capability, String::from_utf8(image.decode(code).expect(image.name)).expect("text"))
    })
    .collect()
}

#[test]
fn every_entry_of_the_ptx_is_listed_and_takes_what_launchers_pass() {
    let names = ALL.iter().map(|k| k.name).collect::<BTreeSet<_>>();
    assert_eq!(names.len(), ALL.len(), "a kernel is listed twice in entries.rs");
    for image in images::ALL {
        let of_image = |k: &&&KernelSpec| k.image.is_some_and(|i| std::ptr::eq(i, *image));
        let listed = ALL.iter().filter(of_image).map(|k| k.name).collect::<BTreeSet<_>>();
        let texts = ptx_of(image);
        assert_eq!(
            texts.iter().map(|(capability, _)| *capability).collect::<Vec<_>>(),
            [75, 90],
            "{}",
            image.name
        );
        for (capability, ptx) in &texts {
            let entries = declared(ptx);
            let in_ptx = entries.keys().copied().collect::<BTreeSet<_>>();
            let missing = |a: &BTreeSet<&str>, b: &BTreeSet<&str>| {
                format!("{:?}", a.difference(b).collect::<Vec<_>>())
            };
            assert!(
                in_ptx == listed,
                "image `{}`: only in the PTX for {capability}: {}; only in entries.rs: {}",
                image.name,
                missing(&in_ptx, &listed),
                missing(&listed, &in_ptx)
            );
            for KernelSpec { name, threads, min_blocks, params, param_bytes, .. } in
                ALL.iter().filter(of_image)
            {
                let entry = &entries[name];
                assert_eq!(
                    entry.params, *param_bytes,
                    "`{name}` for {capability}: parameters {params:?}"
                );
                assert_eq!(entry.threads, *threads, "`{name}` for {capability}");
                // An older multiprocessor may hold fewer blocks than requested.
                let held = if *capability == 75 { (1024 / threads).max(1) } else { u32::MAX };
                assert_eq!(entry.min_blocks, held.min(*min_blocks), "`{name}` for {capability}");
            }
        }
    }
    assert!(ALL.iter().all(|k| k.image.is_some()), "a kernel of no image");
}

#[test]
fn machine_code_is_made_from_the_ptx_beside_it() {
    for image in images::ALL {
        let texts = ptx_of(image);
        let from = Image::checksum(texts.iter().map(|(_, text)| text.as_str()));
        assert_eq!(image.origins(), Ok(vec![from; 4]), "{}: run `cargo xtask ptx`", image.name);
        let kernels = ALL.iter().filter(|k| k.image.is_some_and(|i| std::ptr::eq(i, *image)));
        let sections = kernels.map(|k| format!("\0.text.{}\0", k.name)).collect::<Vec<_>>();
        let of_machine = |code: &Code| code.kind == CodeKind::Machine;
        let codes =
            image.codes().expect(image.name).into_iter().filter(of_machine).collect::<Vec<_>>();
        assert_eq!(
            codes.iter().map(|c| c.capability).collect::<Vec<_>>(),
            [86, 89, 80, 90, 100, 120],
            "{}",
            image.name
        );
        for code in codes {
            let cubin = image.decode(code).expect(image.name);
            assert!(cubin.starts_with(b"\x7fELF"), "{}: {code:?}", image.name);
            let names = String::from_utf8_lossy(&cubin);
            assert!(
                sections.iter().all(|s| names.contains(s.as_str())),
                "{}: {code:?}: a kernel is missing",
                image.name
            );
        }
    }
}

#[test]
fn a_gpu_gets_the_code_made_for_it() {
    let machine = |gpu| {
        images::MAP.code(CodeKind::Machine, gpu).expect("readable").map(|(code, _)| code.capability)
    };
    let expected =
        [(75, None), (80, Some(80)), (86, Some(86)), (87, None), (89, Some(89)), (90, Some(90))];
    assert!(expected.into_iter().all(|(gpu, code)| machine(gpu) == code));
    assert_eq!(
        [100, 103, 110, 120, 121].map(machine),
        [Some(100), Some(100), None, Some(120), Some(120)]
    );
    let ptx = |gpu| {
        images::MAP.code(CodeKind::Ptx, gpu).expect("readable").map(|(code, _)| code.capability)
    };
    assert_eq!([70, 75, 89, 90, 121].map(ptx), [None, Some(75), Some(75), Some(90), Some(90)]);
}

//! Agreement of a crate's images with its kernels, for tests.
use super::{Code, CodeKind, Image, KernelSpec};
use std::collections::{BTreeMap, BTreeSet};

/// Compute capabilities that the PTX of an image is made for.
const PTX: [u32; 2] = [75, 90];
/// Compute capabilities that its machine code is made for.
const MACHINE_CODE: [u32; 6] = [86, 89, 80, 90, 100, 120];

/// Checks that images hold what launchers expect of them, in a test of the crate that has them:
/// `images` and `kernels` are the lists of its modules `images` and `entries`. Every file must be
/// embedded (features `ptx`, `sm_8x`, `sm_90` and `sm_1xx`).
///
/// # Panics
/// Panics if an entry of the PTX is not listed, or a listed one is missing; if its parameters or
/// its bounds are not those that launchers pass; or if machine code was not made from the PTX
/// beside it.
pub fn assert_images(images: &[&Image], kernels: &[&KernelSpec]) {
    check_entries(images, kernels);
    check_machine_code(images, kernels);
}

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

/// Checks that every entry of the PTX is listed and takes what launchers pass.
fn check_entries(images: &[&Image], kernels: &[&KernelSpec]) {
    let names = kernels.iter().map(|k| k.name).collect::<BTreeSet<_>>();
    assert_eq!(names.len(), kernels.len(), "a kernel is listed twice in entries.rs");
    for image in images {
        let of_image = |k: &&&KernelSpec| k.image.is_some_and(|i| std::ptr::eq(i, *image));
        let listed = kernels.iter().filter(of_image).map(|k| k.name).collect::<BTreeSet<_>>();
        let texts = ptx_of(image);
        assert_eq!(
            texts.iter().map(|(capability, _)| *capability).collect::<Vec<_>>(),
            PTX,
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
                kernels.iter().filter(of_image)
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
    assert!(kernels.iter().all(|k| k.image.is_some()), "a kernel of no image");
}

/// Checks that machine code was made from the PTX beside it.
fn check_machine_code(images: &[&Image], kernels: &[&KernelSpec]) {
    for image in images {
        let texts = ptx_of(image);
        let from = Image::checksum(texts.iter().map(|(_, text)| text.as_str()));
        assert_eq!(image.origins(), Ok(vec![from; 4]), "{}: run `cargo xtask ptx`", image.name);
        let kernels = kernels.iter().filter(|k| k.image.is_some_and(|i| std::ptr::eq(i, *image)));
        let sections = kernels.map(|k| format!("\0.text.{}\0", k.name)).collect::<Vec<_>>();
        let of_machine = |code: &Code| code.kind == CodeKind::Machine;
        let codes =
            image.codes().expect(image.name).into_iter().filter(of_machine).collect::<Vec<_>>();
        assert_eq!(
            codes.iter().map(|c| c.capability).collect::<Vec<_>>(),
            MACHINE_CODE,
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

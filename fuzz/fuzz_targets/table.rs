//! Any bytes as a table file, as they are and with the checksums that they should have: an error or a table in which lookups stay, never
//! a panic, a hang or memory out of proportion.
//! `cargo +nightly fuzz run table fuzz/corpus/table fuzz/seeds/table -- -malloc_limit_mb=64`

#![no_main]

use koel::map::{Key, Value};
use koel::{Device, Map};
use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::LazyLock;
use twox_hash::XxHash3_64;

static DEVICE: LazyLock<Device> = LazyLock::new(|| Device::cpu_with_threads(1).unwrap());
static FILE: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("koel-fuzz-{}.koel", std::process::id())));

fuzz_target!(|bytes: &[u8]| {
    all_types(bytes);
    let mut sealed = bytes.to_vec();
    if seal(&mut sealed).is_some() && sealed != bytes {
        all_types(&sealed);
    }
});

fn all_types(bytes: &[u8]) {
    std::fs::write(&*FILE, bytes).unwrap();
    let info = koel::file::info(&*FILE);
    assert!(info.is_ok() || koel::file::verify(&*FILE).is_err());
    check::<u32, u32>(bytes);
    check::<u32, u64>(bytes);
    check::<u64, u32>(bytes);
    check::<u64, u64>(bytes);
}

fn check<K: Key, V: Value>(bytes: &[u8]) {
    let loaded = Map::<K, V>::load_bytes(&DEVICE, bytes);
    let opened = Map::<K, V>::open_on(&DEVICE, &*FILE);
    if let Ok(map) = &opened {
        assert_eq!(map.verify().is_ok(), loaded.is_ok());
    }
    assert!(loaded.is_err() || opened.is_ok());
    // Keys as they may stand in the slots, and others.
    let words = bytes.as_chunks::<8>().0.iter().rev().take(256).map(|&word| u64::from_le_bytes(word));
    let keys = words.chain([0, u64::MAX]).flat_map(|word| [K::narrowed(word), K::narrowed(word >> 32)]).collect::<Vec<K>>();
    for map in [&loaded, &opened].into_iter().flatten() {
        assert_eq!(map.get(&keys).unwrap().iter().flatten().count() as u64, map.count(&keys).unwrap());
        assert!(map.pairs().unwrap().len() <= bytes.len());
    }
    if let Ok(map) = &loaded {
        let mut again = std::io::Cursor::new(vec![]);
        map.save_to(&mut again).unwrap();
        assert_eq!(again.get_ref(), bytes, "what is read is what would be written");
    }
}

/// Puts the checksums in that the bytes should have; `None` if there is not even a header.
fn seal(bytes: &mut [u8]) -> Option<()> {
    let long = |bytes: &[u8], at: usize| bytes[at..].first_chunk().map(|&word| u64::from_le_bytes(word) as usize);
    bytes.get(..4096)?;
    for at in [64, 88] {
        let (start, length) = (long(bytes, at)?, long(bytes, at + 8)?);
        if let Some(section) = bytes.get(start..).and_then(|rest| rest.get(..length)) {
            let checksum = XxHash3_64::oneshot(section);
            bytes[at + 16..at + 24].copy_from_slice(&checksum.to_le_bytes());
        }
    }
    let checksum = XxHash3_64::oneshot(&bytes[..4088]);
    bytes[4088..4096].copy_from_slice(&checksum.to_le_bytes());
    Some(())
}

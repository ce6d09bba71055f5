//! Maps saved, loaded and opened on every device, compared with an oracle; and hostile files.
use super::super::{MapBuilder, MapOptions};
use super::*;
use crate::Device;
use crate::cpu;
use crate::error::Error;
use crate::file::format::Header;
use crate::file::testing::{bytes, kind, old_file, opened, opened_here, seal, taken_back};
use crate::file::writer::{PIECE, replace};
use crate::file::{self, FileErrorKind};
use crate::table::plan::Plan;
use crate::table::{BuildReport, Storage};
use crate::types::{KeyBits, ValueBits};
use koel_kernels::hash::mix::splitmix_at;
use koel_kernels::table::layout::{Layout, Narrow};
use std::collections::HashMap;
use std::fs;
use std::io::Cursor;

/// Keys with copies among them, including the least and the greatest key and the ambiguous key of
/// `seed`.
fn keys<K: KeyBits>(n: usize, seed: u32) -> Vec<K> {
    let random = |i: u32| K::narrowed(splitmix_at(9, i / 2 * 2 + i % 3 / 2));
    let ambiguous = LayoutFor::<K, u32>::unmixed(seed, LayoutFor::<K, u32>::AMBIGUOUS);
    let special = [ambiguous, K::narrowed(0), K::narrowed(u64::MAX)];
    special.into_iter().chain((0..).map(random)).take(n).collect()
}
/// Keys of which all but four go to the stash, if there are no others.
fn crowded<K: KeyBits, V: ValueBits>(n: usize, seed: u32) -> Vec<K> {
    let shape = Plan::new(n, 0.8).unwrap().shape;
    let hash = |key| LayoutFor::<K, V>::hash(LayoutFor::<K, V>::mixed(seed, key));
    let random = (0..).map(|i| K::narrowed(splitmix_at(3, i)));
    random
        .filter(|&key| shape.first_place(hash(key)) == 0 && shape.second_place(hash(key)) == 0)
        .take(n)
        .collect()
}
fn build<K: KeyBits, V: ValueBits>(
    device: &Device,
    keys: &[K],
    values: &[V],
    seed: u32,
) -> Map<K, V> {
    let options = MapOptions::default().with_seed(seed);
    let mut builder = MapBuilder::new(device, options).unwrap();
    let (keys, values) = (device.stage(keys).unwrap(), device.stage(values).unwrap());
    builder.build(&device.stream().unwrap(), keys.view(), values.view()).unwrap()
}
fn check<K: KeyBits, V: ValueBits>(map: &Map<K, V>, oracle: &HashMap<K, V>) {
    let report = map.report().unwrap();
    assert_eq!(report.entries, oracle.len());
    let strange = (0..100).map(|i| K::narrowed(splitmix_at(77, i)));
    let queries = oracle.keys().copied().chain(strange).collect::<Vec<K>>();
    let expected = queries.iter().map(|key| oracle.get(key).copied()).collect::<Vec<_>>();
    assert_eq!(map.get(&queries).unwrap(), expected, "{map:?}");
    assert_eq!(map.count(&queries).unwrap(), expected.iter().flatten().count() as u64);
    assert_eq!(map.join(&queries).unwrap().len(), expected.iter().flatten().count());
    let mut pairs = map.pairs().unwrap();
    let mut all = oracle.iter().map(|(&key, &value)| (key, value)).collect::<Vec<_>>();
    pairs.sort();
    all.sort();
    assert_eq!(pairs, all);
}
fn maps_come_back<K: KeyBits, V: ValueBits>(n: usize, executor: bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map.koel");
    let host = Device::cpu_with_threads(2).unwrap();
    let gpu = Device::executor(n as u64);
    let built_on = if executor { &gpu } else { &host };
    for (seed, keys) in
        [(0, keys::<K>(n, 0)), (5, keys::<K>(n, 5)), (3, crowded::<K, V>(n.min(40), 3))]
    {
        let values =
            (0..keys.len() as u32).map(|i| V::narrowed(splitmix_at(1, i))).collect::<Vec<V>>();
        let oracle = keys.iter().copied().zip(values.iter().copied()).collect::<HashMap<K, V>>();
        let map = build(built_on, &keys, &values, seed);
        let stashed = map.report().unwrap().stashed;
        assert_eq!(stashed > 0, seed == 3 && keys.len() > 4, "{n} keys");
        let mut maps = taken_back(&map, &path, &[&host, &gpu]);
        let written = bytes(&map);
        let info = file::info(&path).unwrap();
        assert_eq!(
            (info.pairs, info.keys, info.duplicates),
            (oracle.len(), oracle.len(), keys.len() - oracle.len())
        );
        assert_eq!(
            (info.seed, info.stashed, info.slots),
            (seed, stashed, map.report().unwrap().slots)
        );
        assert!((info.load() * info.slots as f64 - info.pairs as f64).abs() < 1e-6);
        for device in [&gpu, &host] {
            maps.push(maps[0].to_device(device).unwrap());
        }
        for map in &maps {
            check(map, &oracle);
            assert_eq!(bytes(map), written, "{map:?}");
            let report = map.report().unwrap();
            assert_eq!((report.duplicates, report.attempts), (keys.len() - oracle.len(), 0));
        }
    }
}
#[test]
fn maps_of_all_types_and_sizes_come_back() {
    for n in [0, 1, 4, 5, 31, 32, 33, 1000] {
        maps_come_back::<u32, u32>(n, false);
        maps_come_back::<u32, u64>(n, false);
        maps_come_back::<u64, u32>(n, false);
        maps_come_back::<u64, u64>(n, false);
    }
    maps_come_back::<u32, u32>(20_000, false);
}
#[test]
fn maps_of_kernels_come_back() {
    for n in [0, 5, 500] {
        maps_come_back::<u32, u32>(n, true);
        maps_come_back::<u32, u64>(n, true);
        maps_come_back::<u64, u32>(n, true);
        maps_come_back::<u64, u64>(n, true);
    }
}
/// Slots in several pieces, of several partitions.
#[test]
fn a_map_of_many_pieces_comes_back() {
    let device = Device::cpu().unwrap();
    let keys = (0..200_000u64).collect::<Vec<_>>();
    let map = build(&device, &keys, &keys, 1);
    assert!(map.shape().partitions > 1 && map.bytes() > 8 * PIECE);
    let loaded = Map::<u64, u64>::load_bytes(&device, &bytes(&map)).unwrap();
    check(&loaded, &keys.iter().map(|&k| (k, k)).collect());
}

#[test]
fn an_opened_file_is_never_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map.koel");
    let device = Device::cpu().unwrap();
    build(&device, &[1u32, 2, 3], &[10u32, 20, 30], 0).save(&path).unwrap();
    let before = fs::read(&path).unwrap();

    let mut map = opened::<Map<u32, u32>>(&device, &path).unwrap();
    let mut builder = MapBuilder::new(&device, MapOptions::default()).unwrap();
    for new in [[4u32, 5, 6], [7, 8, 9]] {
        let keys = device.upload(&new).unwrap();
        builder.rebuild(&mut map, &device.stream().unwrap(), keys.view(), keys.view()).unwrap();
        check(&map, &new.iter().map(|&k| (k, k)).collect());
        assert_eq!(fs::read(&path).unwrap(), before);
    }
    // Replacing the file does not affect an opened map either.
    let old = opened_here::<Map<u32, u32>>(&path).unwrap();
    map.save(&path).unwrap();
    assert_eq!(old.get(&[1, 7]).unwrap(), [Some(10), None]);
    assert_eq!(opened_here::<Map<u32, u32>>(&path).unwrap().get(&[1, 7]).unwrap(), [None, Some(7)]);
    old.save(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn damage_to_the_slots_is_found_by_those_that_read_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map.koel");
    let device = Device::cpu().unwrap();
    let keys = (0..1000u32).collect::<Vec<_>>();
    let map = build(&device, &keys, &keys, 0);
    let whole = bytes(&map);
    let first = whole[4096..].chunks(8).position(|head| head != [0xFF; 8]).unwrap();
    let mut damaged = whole.clone();
    damaged[4096 + 8 * first + 5] ^= 1;
    // A pair that the header does not count: exporting all pairs would write beyond the end of the
    // arrays.
    let mut more = whole.clone();
    more[40..48].copy_from_slice(&999u64.to_le_bytes());
    seal(&mut more);
    for (content, corrupted) in [(damaged, true), (more, false)] {
        fs::write(&path, &content).unwrap();
        let is_right = |kind: FileErrorKind| match kind {
            FileErrorKind::Checksum { section, .. } => corrupted && section == file::Section::Slots,
            FileErrorKind::Pairs { found, expected } => {
                !corrupted && (found, expected) == (1000, 999)
            }
            _ => false,
        };
        let opened = opened::<Map<u32, u32>>(&device, &path).unwrap();
        opened.get(&keys).unwrap();
        opened.pairs().unwrap();
        assert!(is_right(kind(opened.verify())));
        assert!(is_right(kind(opened.save_to(&mut Cursor::new(vec![])))));
        assert!(is_right(kind(file::verify(&path))));
        for device in [&device, &Device::executor(1)] {
            assert!(is_right(kind(opened.to_device(device))));
            assert!(is_right(kind(Map::<u32, u32>::load(device, &path))));
        }
        assert_eq!(file::info(&path).unwrap().slots, map.report().unwrap().slots);
    }
}

/// Slots that no build made, in tables of unusual shapes: lookups stay within the table, which
/// debug assertions and the executor check.
fn nonsense_is_harmless<K: KeyBits, V: ValueBits>(seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map.koel");
    let (host, gpu) = (Device::cpu_with_threads(2).unwrap(), Device::executor(seed));
    for (partitions, buckets) in [(1, 1), (1, 2), (7, 1), (3, 5), (1, 600)] {
        let random = |i: usize| splitmix_at(seed, i as u32);
        // Many equal mixed keys, and empty slots anywhere.
        let all = partitions as usize * buckets as usize * LayoutFor::<K, V>::WORDS;
        let words = (0..all).map(|i| match random(i) % 5 {
            0 => u64::MAX,
            1 => random(i % 3),
            _ => random(i) >> 3,
        });
        let words = words.collect::<Vec<u64>>();
        let shape = koel_kernels::table::layout::Shape { partitions, buckets };
        let mut stash = (0..20).map(|i| random(1000 + i) >> 1).collect::<Vec<_>>();
        stash.sort_by_key(|&head| LayoutFor::<K, V>::key_in(head));
        let stash = stash
            .iter()
            .flat_map(|&head| [head, 5].into_iter().take(LayoutFor::<K, V>::SLOT_WORDS));
        let stash = stash.collect::<Vec<u64>>();
        let mut header = Header {
            kind: TableKind::Map,
            types: Map::<K, V>::types(),
            meaning: Meaning::plain(Map::<K, V>::types()),
            seed: 3,
            held: Some(6),
            pairs: 21,
            duplicates: 0,
            shape,
            stashed: 20,
            values: 0,
            key_bytes: 0,
            fingerprints: 0,
            checksums: Default::default(),
        };
        let content = |header: &Header| {
            let body = words.iter().chain(&stash).flat_map(|word| word.to_le_bytes());
            let mut content = header.encode().into_iter().chain(body).collect::<Vec<u8>>();
            seal(&mut content);
            content
        };
        // The header must state the number of pairs for the file to be loaded.
        if let Err(Error::File(e)) = Map::<K, V>::load_bytes(&host, &content(&header)) {
            match e.kind {
                FileErrorKind::Pairs { found, expected: 0 } => header.pairs += found,
                other => panic!("{other}"),
            }
        }
        fs::write(&path, content(&header)).unwrap();
        let keys = words
            .iter()
            .map(|&head| LayoutFor::<K, V>::unmixed(3, LayoutFor::<K, V>::key_in(head)));
        let keys = keys.chain((0..200).map(|i| K::narrowed(random(i)))).collect::<Vec<K>>();
        for map in [
            opened::<Map<K, V>>(&host, &path).unwrap(),
            Map::load(&host, &path).unwrap(),
            Map::load(&gpu, &path).unwrap(),
        ] {
            map.get(&keys).unwrap();
            map.contains(&keys).unwrap();
            map.join(&keys).unwrap();
            assert_eq!(map.pairs().unwrap().len(), header.pairs as usize);
        }
    }
}
#[test]
fn nonsense_in_the_slots_is_harmless() {
    for seed in 0..3 {
        nonsense_is_harmless::<u32, u32>(seed);
        nonsense_is_harmless::<u32, u64>(seed);
        nonsense_is_harmless::<u64, u32>(seed);
        nonsense_is_harmless::<u64, u64>(seed);
    }
}

#[test]
fn wrong_files_are_told_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let device = Device::cpu().unwrap();
    build(&device, &[1u32], &[2u64], 0).save(at("right")).unwrap();
    fs::write(at("empty"), []).unwrap();
    fs::write(at("text"), "key,value\n1,2\n").unwrap();
    for (name, says) in [
        ("missing", "cannot be read: No such file"),
        ("", "cannot be read: expected a regular file"),
        ("empty", "truncated: 0 bytes, the header needs 4096"),
        ("text", "is not a koel table: begins with \"key,value\\n1,2\\n\", expected"),
        ("right", "holds pairs u32 -> u64, expected u64 -> u64"),
    ] {
        let path = at(name);
        for error in [
            Map::<u64, u64>::load(&device, &path).unwrap_err(),
            opened::<Map<u64, u64>>(&device, &path).unwrap_err(),
        ] {
            let error = error.to_string();
            assert!(error.starts_with(&format!("{}: {says}", path.display())), "{error}");
        }
        assert_eq!(file::info(&path).is_ok(), name == "right");
    }
    let error = opened::<Map<u32, u64>>(&Device::executor(0), at("right")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`device` is test executor (seed 0), must be a CPU: load copies a file to other devices"
    );
}

#[test]
fn a_failed_save_leaves_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map.koel");
    let device = Device::cpu().unwrap();
    let map = build(&device, &[1u32], &[2u32], 0);
    map.save(&path).unwrap();
    let names =
        || fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
    let before = fs::read(&path).unwrap();
    let failed = replace(&path, |file| {
        file.write_all(b"half").unwrap();
        Err(Error::TooMany { what: "pairs in the stash", n: 2, max: 1 })
    });
    assert_eq!(failed.unwrap_err().to_string(), "2 pairs in the stash are too many: at most 1");
    assert_eq!((fs::read(&path).unwrap(), names()), (before, vec!["map.koel".into()]));
    for wrong in
        [folder.path().to_owned(), folder.path().join("no/map.koel"), path.join("map.koel")]
    {
        let error = map.save(&wrong).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: cannot be written: ", wrong.display())), "{error}");
    }
    assert_eq!(names(), ["map.koel"]);
    // A full disk.
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    impl Seek for Full {
        fn seek(&mut self, _: std::io::SeekFrom) -> std::io::Result<u64> {
            Ok(0)
        }
    }
    for room in [0, 4096, 4100, 4096 + 32] {
        assert!(matches!(kind(map.save_to(&mut Full(room))), FileErrorKind::Write(_)), "{room}");
    }
}

/// More pairs in the stash than a file can hold. No build leaves as many.
#[test]
fn a_stash_that_no_device_could_hold_is_refused() {
    let device = Device::cpu().unwrap();
    let mut map = build::<u32, u32>(&device, &[1], &[1], 0);
    let stashed = (1 << 20) + 1;
    let Storage::Cpu(table) = &mut map.as_table_mut().storage else {
        unreachable!("the CPU built it")
    };
    table.stash =
        cpu::Stash::from_pairs((0..stashed).map(|key| Narrow::pair(key, 0)), None).unwrap();
    let report = BuildReport { stashed: stashed as usize, ..map.as_table().report().unwrap() };
    map.as_table().set_report(report);
    let error = map.save_to(&mut Cursor::new(vec![])).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{stashed} pairs in the stash are too many: at most 1048576")
    );
}

/// Files written when version 1 was new, kept in `fuzz/seeds`: they stay readable.
fn old_files_are_read<K: KeyBits, V: ValueBits>() {
    let n = 14;
    let ambiguous = LayoutFor::<K, V>::unmixed(5, LayoutFor::<K, V>::AMBIGUOUS);
    let mut keys = crowded::<K, V>(n, 5);
    keys.truncate(n - 2);
    keys.extend([ambiguous, keys[0]]);
    let values = (0..n as u32).map(|i| V::narrowed(splitmix_at(6, i))).collect::<Vec<V>>();
    let oracle = keys.iter().copied().zip(values.iter().copied()).collect::<HashMap<K, V>>();
    let device = Device::cpu_with_threads(1).unwrap();
    let path =
        old_file(&format!("{}_{}.koel", std::any::type_name::<K>(), std::any::type_name::<V>()));
    let info = file::verify(&path).unwrap();
    // No 32-bit key of a wide pair need be ambiguous.
    let held = LayoutFor::<K, V>::mixed(5, ambiguous) == LayoutFor::<K, V>::AMBIGUOUS;
    assert_eq!((info.seed, info.duplicates, info.stashed > 0, info.held), (5, 1, true, held));
    check(&Map::<K, V>::load(&device, &path).unwrap(), &oracle);
    check(&opened::<Map<K, V>>(&device, &path).unwrap(), &oracle);
}
#[test]
fn files_of_version_1_stay_readable() {
    old_files_are_read::<u32, u32>();
    old_files_are_read::<u32, u64>();
    old_files_are_read::<u64, u32>();
    old_files_are_read::<u64, u64>();
}

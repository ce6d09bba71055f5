//! Sets saved, loaded and opened on every device, compared with an oracle; and hostile files.
use super::super::kernels::plan_of;
use super::super::{SetBuilder, SetOptions};
use super::*;
use crate::Device;
use crate::file::format::Header;
use crate::file::testing::{bytes, kind, old_file, opened, opened_here, seal, taken_back};
use crate::file::{self, FileErrorKind, Section};
use crate::types::KeyBits;
use koel_kernels::hash::mix::splitmix_at;
use koel_kernels::set::layout::{hash, mixed, unmixed};
use koel_kernels::table::layout::Shape;
use std::collections::BTreeSet;
use std::fs;
use std::io::Cursor;

/// Keys with copies among them, including the least and the greatest key and the ambiguous key of
/// `seed`.
fn keys<K: KeyBits>(n: usize, seed: u32) -> Vec<K> {
    let random = |i: u32| K::narrowed(splitmix_at(9, i / 2 * 2 + i % 3 / 2));
    let special = [unmixed(seed, K::EMPTY), K::narrowed(0), K::narrowed(u64::MAX)];
    special.into_iter().chain((0..).map(random)).take(n).collect()
}
/// Keys of which all but one bucket's go to the stash, if there are no others.
fn crowded<K: KeyBits>(n: usize, seed: u32) -> Vec<K> {
    let shape = plan_of::<K>(n, 0.8).unwrap().shape;
    let in_first = |&key: &K| {
        let h = hash(mixed(seed, key));
        shape.first_place(h) == 0 && shape.second_place(h) == 0
    };
    (0..).map(|i| K::narrowed(splitmix_at(3, i))).filter(in_first).take(n).collect()
}
fn build<K: KeyBits>(device: &Device, keys: &[K], seed: u32) -> Set<K> {
    let options = SetOptions::default().with_seed(seed);
    let keys = device.stage(keys).unwrap();
    SetBuilder::new(device, options).unwrap().build(&device.stream().unwrap(), keys.view()).unwrap()
}
fn check<K: KeyBits>(set: &Set<K>, oracle: &BTreeSet<K>) {
    let strange = (0..100).map(|i| K::narrowed(splitmix_at(77, i)));
    let queries = oracle.iter().copied().chain(strange).collect::<Vec<K>>();
    let expected = queries.iter().map(|key| oracle.contains(key)).collect::<Vec<_>>();
    assert_eq!(set.contains(&queries).unwrap(), expected, "{set:?}");
    assert_eq!(
        set.count(&queries).unwrap(),
        expected.iter().filter(|&&found| found).count() as u64
    );
    let mut keys = set.keys().unwrap();
    keys.sort();
    assert!(keys.iter().eq(oracle), "{set:?}");
}

fn sets_come_back<K: KeyBits>(n: usize, executor: bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.koel");
    let (host, gpu) = (Device::cpu_with_threads(2).unwrap(), Device::executor(n as u64));
    let built_on = if executor { &gpu } else { &host };
    for (seed, keys) in
        [(0, keys::<K>(n, 0)), (5, keys::<K>(n, 5)), (3, crowded::<K>(n.min(40), 3))]
    {
        let oracle = keys.iter().copied().collect::<BTreeSet<K>>();
        let set = build(built_on, &keys, seed);
        let (report, written) = (set.report().unwrap(), bytes(&set));
        assert_eq!(report.stashed > 0, seed == 3 && keys.len() > K::SLOTS as usize, "{n} keys");
        let mut sets = taken_back(&set, &path, &[&host, &gpu]);
        let info = file::info(&path).unwrap();
        assert_eq!(
            (info.keys, info.pairs, info.duplicates),
            (oracle.len(), oracle.len(), report.duplicates)
        );
        assert_eq!((info.seed, info.stashed, info.slots), (seed, report.stashed, report.slots));
        for device in [&gpu, &host] {
            sets.push(sets[0].to_device(device).unwrap());
        }
        for set in &sets {
            check(set, &oracle);
            assert_eq!(bytes(set), written, "{set:?}");
            let report = set.report().unwrap();
            assert_eq!(
                (report.duplicates, report.attempts, report.slots),
                (keys.len() - oracle.len(), 0, info.slots)
            );
        }
    }
}
#[test]
fn sets_of_all_types_and_sizes_come_back() {
    for n in [0, 1, 4, 5, 8, 9, 31, 32, 33, 1000] {
        sets_come_back::<u32>(n, false);
        sets_come_back::<u64>(n, false);
    }
    sets_come_back::<u32>(20_000, false);
}
#[test]
fn sets_of_kernels_come_back() {
    for n in [0, 5, 500] {
        sets_come_back::<u32>(n, true);
        sets_come_back::<u64>(n, true);
    }
}

#[test]
fn an_opened_set_is_never_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.koel");
    let device = Device::cpu().unwrap();
    build(&device, &[1u32, 2, 3], 0).save(&path).unwrap();
    let before = fs::read(&path).unwrap();
    let mut set = opened::<Set<u32>>(&device, &path).unwrap();
    let mut builder = SetBuilder::new(&device, SetOptions::default()).unwrap();
    for new in [[4u32, 5, 6], [7, 8, 9]] {
        let keys = device.upload(&new).unwrap();
        builder.rebuild(&mut set, &device.stream().unwrap(), keys.view()).unwrap();
        check(&set, &new.into());
        assert_eq!(fs::read(&path).unwrap(), before);
    }
    // A set in memory with room for more keys than it was built from.
    let keys = device.upload(&(0..1000u32).collect::<Vec<_>>()).unwrap();
    for n in [1000, 10] {
        builder
            .rebuild(&mut set, &device.stream().unwrap(), keys.view().slice(..n).unwrap())
            .unwrap();
        let loaded = Set::<u32>::load_bytes(&device, &bytes(&set)).unwrap();
        check(&loaded, &(0..n as u32).collect());
    }
}

#[test]
fn damage_is_found_by_those_that_read_the_slots() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.koel");
    let device = Device::cpu().unwrap();
    let keys = (0..1000u64).collect::<Vec<_>>();
    let whole = bytes(&build(&device, &keys, 0));
    let mut damaged = whole.clone();
    damaged[5000] ^= 1;
    // A key that the header does not count: exporting all keys would write beyond the end of the
    // array.
    let mut more = whole;
    more[40..48].copy_from_slice(&999u64.to_le_bytes());
    seal(&mut more);
    for (content, corrupted) in [(damaged, true), (more, false)] {
        fs::write(&path, &content).unwrap();
        let is_right = |kind: FileErrorKind| match kind {
            FileErrorKind::Checksum { section, .. } => corrupted && section == Section::Slots,
            FileErrorKind::Pairs { found, expected } => {
                !corrupted && (found, expected) == (1000, 999)
            }
            _ => false,
        };
        let opened = opened::<Set<u64>>(&device, &path).unwrap();
        opened.contains(&keys).unwrap();
        opened.keys().unwrap();
        assert!(is_right(kind(opened.verify())));
        assert!(is_right(kind(opened.save_to(&mut Cursor::new(vec![])))));
        assert!(is_right(kind(file::verify(&path))));
        for device in [&device, &Device::executor(1)] {
            assert!(is_right(kind(opened.to_device(device))));
            assert!(is_right(kind(Set::<u64>::load(device, &path))));
        }
    }
    assert!(matches!(kind(opened_here::<Set<u32>>(&path)), FileErrorKind::WrongTypes { .. }));
    assert!(matches!(kind(opened_here::<crate::Map<u64, u64>>(&path)), FileErrorKind::Kind { .. }));
}

/// Slots that no build made, in tables of unusual shapes: lookups stay within the table, which
/// debug assertions and the executor check.
fn nonsense_is_harmless<K: KeyBits>(seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set.koel");
    let (host, gpu) = (Device::cpu_with_threads(2).unwrap(), Device::executor(seed));
    for (partitions, buckets) in [(1, 1), (1, 2), (7, 1), (3, 5), (1, 600)] {
        let shape = Shape { partitions, buckets };
        let random = |i: usize| splitmix_at(seed, i as u32);
        let slots =
            (0..shape.all_buckets() as usize * K::SLOTS as usize).map(|i| match random(i) % 5 {
                0 => K::EMPTY,
                1 => K::narrowed(random(i % 3)),
                _ => K::narrowed(random(i) >> 3),
            });
        let slots = slots.collect::<Vec<K>>();
        // In a full bucket, a key that does not belong there is a filler.
        let keys_of = |(place, bucket): (usize, &[K])| {
            let is_full = !bucket.ends_with(&[K::EMPTY]);
            let is_key =
                |key: K| key != K::EMPTY && (!is_full || shape.belongs(hash(key), place as u32));
            bucket.iter().filter(|&&key| is_key(key)).count() as u64
        };
        let pairs = slots.chunks(K::SLOTS as usize).enumerate().map(keys_of).sum::<u64>() + 1;
        let header = Header {
            kind: TableKind::Set,
            types: Set::<K>::types(),
            meaning: Meaning::plain(Set::<K>::types()),
            seed: 3,
            held: Some(0),
            pairs,
            duplicates: 0,
            shape,
            stashed: 0,
            values: 0,
            key_bytes: 0,
            fingerprints: 0,
            checksums: Default::default(),
        };
        let mut content = [&header.encode()[..], bytemuck::cast_slice(&slots)].concat();
        seal(&mut content);
        fs::write(&path, content).unwrap();
        let keys = slots
            .iter()
            .map(|&key| unmixed(3, key))
            .chain((0..200).map(|i| K::narrowed(random(i))));
        let keys = keys.collect::<Vec<K>>();
        for set in [
            opened::<Set<K>>(&host, &path).unwrap(),
            Set::load(&host, &path).unwrap(),
            Set::load(&gpu, &path).unwrap(),
        ] {
            let found = set.contains(&keys).unwrap();
            assert_eq!(
                set.count(&keys).unwrap(),
                found.into_iter().filter(|&found| found).count() as u64
            );
            assert_eq!(set.keys().unwrap().len(), header.pairs as usize);
        }
    }
}
#[test]
fn nonsense_in_the_slots_is_harmless() {
    for seed in 0..3 {
        nonsense_is_harmless::<u32>(seed);
        nonsense_is_harmless::<u64>(seed);
    }
}

/// Files written when version 1 was new, kept in `fuzz/seeds`.
fn old_files_are_read<K: KeyBits>() {
    let mut keys = crowded::<K>(14, 5);
    keys.truncate(12);
    keys.extend([unmixed(5, K::EMPTY), keys[0]]);
    let device = Device::cpu_with_threads(1).unwrap();
    let path = old_file(&format!("set_{}.koel", std::any::type_name::<K>()));
    let info = file::verify(&path).unwrap();
    assert_eq!((info.seed, info.duplicates, info.stashed > 0, info.held), (5, 1, true, true));
    for set in [Set::<K>::load(&device, &path).unwrap(), opened::<Set<K>>(&device, &path).unwrap()]
    {
        check(&set, &keys.iter().copied().collect());
    }
}
#[test]
fn files_of_version_1_stay_readable() {
    old_files_are_read::<u32>();
    old_files_are_read::<u64>();
}

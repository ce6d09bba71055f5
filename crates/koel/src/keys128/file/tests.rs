//! Keys of 128 bits saved, loaded and opened, on every device, against an oracle; and the effect of
//! hostile files.
use super::*;
use crate::MapOptions;
use crate::file::testing::{bytes, kind, old_file, opened, opened_here, seal, section, taken_back};
use crate::file::{self, FileErrorKind};
use crate::keys128::{Map128Builder, Set128Builder};
use crate::table::plan::Plan;
use crate::types::ValueBits;
use crate::{Device, Duplicates, Index, IndexBuilder, IndexOptions, Map, NO_ID, Set, SetOptions};
use koel_kernels::hash::mix::splitmix_at;
use koel_kernels::keys128::fingerprint::Fingerprint;
use koel_kernels::table::layout::Layout;
use std::collections::HashMap;
use std::fs;
use std::io::Cursor;

/// Offsets in the header of the entries for the keys, and for the values of a map.
const KEYS: usize = 112;
const VALUES: usize = 136;

fn random(seed: u64, i: u32) -> u128 {
    splitmix_at(seed, 2 * i) as u128 | (splitmix_at(seed, 2 * i + 1) as u128) << 64
}
/// Keys with up to three copies, among them the least and the greatest, in no order.
fn keys(n: usize) -> Vec<u128> {
    [u128::MAX, 0, 1 << 64]
        .into_iter()
        .chain((0..).map(|i| random(9, i / 3 * 3 + i % 2)))
        .take(n)
        .collect()
}
/// Keys of which all but four go to the stash, if there are no others and the fingerprint function
/// is that of `seed`.
fn crowded(n: usize, seed: u32) -> Vec<u128> {
    let (shape, function) = (Plan::new(n, 0.8).unwrap().shape, Fingerprint::new(seed.into()));
    let in_first = |&key: &u128| {
        let h = Slots::hash(Slots::mixed(seed, function.of(key)));
        shape.first_place(h) == 0 && shape.second_place(h) == 0
    };
    (0..).map(|i| random(3, i)).filter(in_first).take(n).collect()
}
fn values<V: ValueBits>(n: usize) -> Vec<V> {
    (0..n as u32).map(|i| V::narrowed(splitmix_at(1, i))).collect()
}
/// Builds a map in which key `i` has value `i`, mixed; the last of equal keys stays.
fn map<V: ValueBits>(device: &Device, keys: &[u128], seed: u32) -> Map128<V> {
    let options = MapOptions::default().with_seed(seed);
    let values = values::<V>(keys.len());
    let (keys, values) = (device.stage(keys).unwrap(), device.stage(&values).unwrap());
    let mut builder = Map128Builder::new(device, options).unwrap();
    builder.build(&device.stream().unwrap(), keys.view(), values.view()).unwrap()
}
fn set(device: &Device, keys: &[u128], seed: u32) -> Set128 {
    let keys = device.stage(keys).unwrap();
    let mut builder = Set128Builder::new(device, SetOptions::default().with_seed(seed)).unwrap();
    builder.build(&device.stream().unwrap(), keys.view()).unwrap()
}
fn index(device: &Device, keys: &[u128], seed: u32) -> Index<u128> {
    let keys = device.stage(keys).unwrap();
    let mut builder = IndexBuilder::new(device, IndexOptions::default().with_seed(seed)).unwrap();
    builder.build(&device.stream().unwrap(), keys.view()).unwrap()
}
/// Present keys, and others.
fn queries(keys: &[u128]) -> Vec<u128> {
    keys.iter()
        .copied()
        .chain((0..50).map(|i| random(77, i)))
        .chain(keys.iter().map(|key| key ^ 1 << 127))
        .collect()
}
fn check<V: ValueBits>(map: &Map128<V>, keys: &[u128]) {
    let values = values::<V>(keys.len());
    let oracle = keys.iter().copied().zip(values.iter().copied()).collect::<HashMap<u128, V>>();
    let queries = queries(keys);
    assert_eq!(map.len(), oracle.len());
    assert!(
        map.get(&queries)
            .unwrap()
            .into_iter()
            .eq(queries.iter().map(|key| oracle.get(key).copied())),
        "{map:?}"
    );
    assert_eq!(map.pairs().unwrap().into_iter().collect::<HashMap<_, _>>(), oracle);
    check_set(map.set(), &queries, |key| oracle.contains_key(key));
}
fn check_set(set: &Set128, queries: &[u128], has: impl Fn(&u128) -> bool) {
    assert!(set.contains(queries).unwrap().into_iter().eq(queries.iter().map(&has)), "{set:?}");
    assert_eq!(set.count(queries).unwrap(), queries.iter().filter(|key| has(key)).count() as u64);
    // SAFETY: the set is in host memory, and nothing changes it here.
    let rows = unsafe { set.rows(&set.device().stream().unwrap()).unwrap().on_host() };
    let keys = set.keys_view().download().unwrap();
    for &key in queries {
        assert_eq!(
            rows.row(key).map(|row| keys[row as usize]),
            has(&key).then_some(key),
            "{set:?}"
        );
    }
}
fn check_index(index: &Index<u128>, keys: &[u128]) {
    let mut ids = HashMap::new();
    for &key in keys {
        let next = ids.len() as u32;
        ids.entry(key).or_insert(next);
    }
    let queries = queries(keys);
    assert!(
        index
            .ids(&queries)
            .unwrap()
            .into_iter()
            .eq(queries.iter().map(|key| ids.get(key).copied())),
        "{index:?}"
    );
    let found = index.keys_of(&[NO_ID, index.len() as u32]).unwrap();
    assert_eq!(found, [None, None]);
    assert!(index.keys_view().download().unwrap().iter().zip(0..).all(|(key, id)| ids[key] == id));
    check_set(index.set(), &queries, |key| ids.contains_key(key));
}

fn tables_come_back<V: ValueBits>(n: usize, executor: bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.koel");
    let (host, gpu) = (Device::cpu_with_threads(2).unwrap(), Device::executor(n as u64));
    let built_on = if executor { &gpu } else { &host };
    for (seed, keys) in [(0, keys(n)), (5, keys(n)), (3, crowded(n.min(40), 3))] {
        let distinct = keys.iter().collect::<std::collections::HashSet<_>>().len();
        let is_told = |duplicates: usize, stashed: usize| {
            let info = file::info(&path).unwrap();
            let counts = (info.keys, info.pairs, info.duplicates, info.stashed, info.seed);
            assert_eq!(counts, (distinct, distinct, duplicates, stashed, seed));
            assert_eq!(stashed > 0, seed == 3 && keys.len() > 4, "{n} keys");
        };
        let map = map::<V>(built_on, &keys, seed);
        let report = map.report().unwrap();
        let mut maps = taken_back(&map, &path, &[&host, &gpu]);
        is_told(report.duplicates, report.stashed);
        maps.extend([&gpu, &host].map(|device| maps[0].to_device(device).unwrap()));
        for taken in &maps {
            check(taken, &keys);
            assert_eq!(bytes(taken), bytes(&map), "{taken:?}");
            let of_taken = taken.report().unwrap();
            assert_eq!((of_taken.duplicates, of_taken.attempts), (keys.len() - distinct, 0));
            assert_eq!((of_taken.entries, of_taken.stashed), (distinct, report.stashed));
        }
        let set = set(built_on, &keys, seed);
        let mut sets = taken_back(&set, &path, &[&host, &gpu]);
        is_told(set.report().unwrap().duplicates, set.report().unwrap().stashed);
        sets.extend([&gpu, &host].map(|device| sets[0].to_device(device).unwrap()));
        for taken in &sets {
            check_set(taken, &queries(&keys), |key| keys.contains(key));
            assert_eq!(bytes(taken), bytes(&set));
        }
        let index = index(built_on, &keys, seed);
        let mut indexes = taken_back(&index, &path, &[&host, &gpu]);
        is_told(index.report().unwrap().duplicates, index.report().unwrap().stashed);
        indexes.extend([&gpu, &host].map(|device| indexes[0].to_device(device).unwrap()));
        for taken in &indexes {
            check_index(taken, &keys);
            assert_eq!(bytes(taken), bytes(&index));
        }
    }
}
#[test]
fn tables_of_all_sizes_come_back() {
    for n in [0, 1, 2, 4, 5, 31, 32, 33, 1000] {
        tables_come_back::<u32>(n, false);
        tables_come_back::<u64>(n, false);
    }
}
#[test]
fn tables_of_kernels_come_back() {
    for n in [0, 5, 300] {
        tables_come_back::<u32>(n, true);
        tables_come_back::<u64>(n, true);
    }
}
/// Columns longer than a piece, whose lengths are not whole words; a fingerprint function drawn at
/// random.
#[test]
fn columns_of_many_pieces_come_back() {
    let device = Device::cpu().unwrap();
    let keys = (0..file::writer::PIECE as u128 + 3).map(|i| i << 99 | i).collect::<Vec<_>>();
    let mut map = map::<u32>(&device, &keys, 1);
    let options = MapOptions::default().with_duplicates(Duplicates::Unchecked);
    let mut builder = Map128Builder::new(&device, options).unwrap();
    for n in [keys.len(), 1001] {
        let (staged, of_keys) = (device.stage(&keys[..n]).unwrap(), values::<u32>(n));
        let staged_values = device.stage(&of_keys).unwrap();
        builder
            .rebuild(&mut map, &device.stream().unwrap(), staged.view(), staged_values.view())
            .unwrap();
        // Only content of the last build is written.
        let loaded = Map128::<u32>::load_bytes(&device, &bytes(&map)).unwrap();
        assert_eq!(loaded.keys_view().download().unwrap(), keys[..n]);
        assert_eq!(loaded.values_view().download().unwrap(), of_keys);
        assert!(loaded.get(&keys[..n]).unwrap().into_iter().flatten().eq(of_keys));
    }
}
#[test]
fn an_opened_table_is_never_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map.koel");
    let device = Device::cpu().unwrap();
    map::<u64>(&device, &keys(100), 0).save(&path).unwrap();
    let before = fs::read(&path).unwrap();
    let mut opened = opened::<Map128<u64>>(&device, &path).unwrap();
    let mut builder = Map128Builder::new(&device, MapOptions::default()).unwrap();
    for n in [50, 90] {
        let new = (0..n).map(|i| random(40, i)).collect::<Vec<_>>();
        let (staged, of_keys) =
            (device.upload(&new).unwrap(), device.upload(&values::<u64>(new.len())).unwrap());
        builder
            .rebuild(&mut opened, &device.stream().unwrap(), staged.view(), of_keys.view())
            .unwrap();
        check(&opened, &new);
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

/// Files with nonsense rows and correct checksums: lookups in an opened file stay in bounds, and
/// operations that read everything reject it.
#[test]
fn nonsense_in_opened_files_is_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.koel");
    let (host, gpu) = (Device::cpu_with_threads(2).unwrap(), Device::executor(1));
    let keys = keys(200);
    let whole = bytes(&map::<u32>(&host, &keys, 0));
    for seed in 0..10 {
        let random = |i: usize| splitmix_at(seed, i as u32) as u32;
        let mut content = whole.clone();
        let words = content[section(&whole, 64)].as_chunks_mut::<8>().0;
        for bucket in words.chunks_exact_mut(Slots::WORDS) {
            for slot in 0..4 {
                if bucket[slot] != [0xFF; 8] {
                    let any = [random(slot), u32::MAX, u32::MAX - 1, 134, 150, 66]
                        [random(slot + 7) as usize % 6];
                    bucket[slot + 4][..4].copy_from_slice(&any.to_le_bytes());
                }
            }
        }
        seal(&mut content);
        fs::write(&path, &content).unwrap();
        let opened = opened::<Map128<u32>>(&host, &path).unwrap();
        let (n, queries) = (opened.len(), queries(&keys));
        let there = opened.contains(&queries).unwrap();
        let values = opened.get(&queries).unwrap();
        assert!(there.iter().zip(&values).all(|(&there, value)| there == value.is_some()));
        // A key is found only in its own row.
        let own = opened.keys_view().download().unwrap();
        assert!(queries.iter().zip(&there).all(|(key, &there)| !there || own.contains(key)));
        let (stream, staged) = (host.stream().unwrap(), host.stage(&queries).unwrap());
        let mut rows = host.alloc::<u32>(queries.len()).unwrap();
        opened.set().rows.rows_into(&stream, staged.view(), rows.view_mut()).unwrap();
        assert!(rows.download().unwrap().iter().all(|&row| row == NO_ID || (row as usize) < n));
        assert_eq!(opened.pairs().unwrap().len(), n);

        let last = n as u64 - 1;
        let is_right = |kind: FileErrorKind| matches!(kind, FileErrorKind::Number { most, .. } if most == last);
        assert!(is_right(kind(opened.set().rows(&stream))));
        assert!(is_right(kind(opened.verify())));
        assert!(is_right(kind(opened.save_to(&mut Cursor::new(vec![])))));
        assert!(is_right(kind(file::verify(&path))));
        for device in [&host, &gpu] {
            assert!(is_right(kind(opened.to_device(device))));
            assert!(is_right(kind(opened.set().to_device(device))));
            assert!(is_right(kind(Map128::<u32>::load(device, &path))));
        }
    }
}
#[test]
fn damage_is_found_by_those_that_read_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.koel");
    let device = Device::cpu().unwrap();
    let whole = bytes(&map::<u64>(&device, &keys(1000), 0));
    for (at, section_name) in
        [(64, Section::Slots), (KEYS, Section::Keys), (VALUES, Section::Values)]
    {
        let mut damaged = whole.clone();
        damaged[section(&whole, at).start + 5] ^= 1;
        fs::write(&path, &damaged).unwrap();
        let opened = opened::<Map128<u64>>(&device, &path).unwrap();
        opened.get(&keys(1000)).unwrap();
        let loaded = Map128::<u64>::load(&device, &path);
        for kind in [kind(opened.verify()), kind(opened.to_device(&device)), kind(loaded)] {
            assert!(
                matches!(kind, FileErrorKind::Checksum { section, .. } if section == section_name),
                "{kind}"
            );
        }
    }
    for kind in [
        kind(opened_here::<Set128>(&path)),
        kind(opened_here::<Index<u128>>(&path)),
        kind(opened_here::<Map<u64, u64>>(&path)),
    ] {
        assert!(matches!(kind, FileErrorKind::Kind { found: TableKind::Map128, .. }), "{kind}");
    }
    assert!(matches!(kind(opened_here::<Map128<u32>>(&path)), FileErrorKind::WrongTypes { .. }));
    Set::build(&device, &[1u64]).unwrap().save(&path).unwrap();
    assert!(matches!(
        kind(opened_here::<Set128>(&path)),
        FileErrorKind::Kind { found: TableKind::Set, .. }
    ));
}

/// Files written when these kinds were new, kept in `fuzz/seeds`: they stay readable.
#[test]
fn files_of_version_1_stay_readable() {
    let mut keys = crowded(14, 5);
    keys.truncate(12);
    keys.extend([u128::MAX, keys[0], 0, keys[1], keys[0]]);
    let device = Device::cpu_with_threads(1).unwrap();
    for name in ["map128_u32", "map128_u64", "set128", "index128"] {
        let path = old_file(&format!("{name}.koel"));
        let info = file::verify(&path).unwrap();
        assert_eq!(
            (info.seed, info.keys, info.duplicates, info.stashed > 0),
            (5, 14, 3, true),
            "{name}"
        );
    }
    check(&Map128::<u32>::load(&device, old_file("map128_u32.koel")).unwrap(), &keys);
    check(&opened::<Map128<u64>>(&device, old_file("map128_u64.koel")).unwrap(), &keys);
    check_set(&Set128::load(&device, old_file("set128.koel")).unwrap(), &queries(&keys), |key| {
        keys.contains(key)
    });
    check_index(&opened::<Index<u128>>(&device, old_file("index128.koel")).unwrap(), &keys);
}

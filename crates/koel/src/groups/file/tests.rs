//! Indexes and multimaps saved, loaded and opened, on every device, against an oracle; and the
//! effect of hostile files.
use super::*;
use crate::file::testing::{bytes, kind, old_file, opened, opened_here, seal, section, taken_back};
use crate::file::{self, FileErrorKind, Section};
use crate::groups::reduction::{Min, Reduction, Sum};
use crate::table::plan::Plan;
use crate::types::ValueBits;
use crate::{
    Device, IndexBuilder, IndexOptions, MultiMapBuilder, MultiMapOptions, NO_ID, Retriever,
};
use koel_kernels::hash::mix::splitmix_at;
use koel_kernels::table::layout::Layout;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

mod rows;

/// Offsets in the header of the entries for the keys and the starts.
const KEYS: usize = 112;
const STARTS: usize = 136;

/// Keys with up to three copies, the least and the greatest, and the ambiguous one of `seed`.
fn keys<K: KeyBits>(n: usize, seed: u32) -> Vec<K> {
    let random = |i: u32| K::narrowed(splitmix_at(9, i / 3 * 3 + i % 2));
    let ambiguous = K::Layout::<u32>::unmixed(seed, K::Layout::<u32>::AMBIGUOUS);
    let special = [ambiguous, K::narrowed(0), K::narrowed(u64::MAX)];
    special.into_iter().chain((0..).map(random)).take(n).collect()
}
/// Keys of which all but four go to the stash, if there are no others.
fn crowded<K: KeyBits>(n: usize, seed: u32) -> Vec<K> {
    let shape = Plan::new(n, 0.8).unwrap().shape;
    let in_first = |&key: &K| {
        let h = K::Layout::<u32>::hash(K::Layout::<u32>::mixed(seed, key));
        shape.first_place(h) == 0 && shape.second_place(h) == 0
    };
    (0..).map(|i| K::narrowed(splitmix_at(3, i))).filter(in_first).take(n).collect()
}
/// Builds a multimap in which key `i` has value `i`, mixed.
fn multimap<K: KeyBits, V: ValueBits>(device: &Device, keys: &[K], seed: u32) -> MultiMap<K, V> {
    let options = MultiMapOptions::default().with_seed(seed);
    let values = (0..keys.len() as u32).map(|i| V::narrowed(splitmix_at(1, i))).collect::<Vec<V>>();
    let (keys, values) = (device.stage(keys).unwrap(), device.stage(&values).unwrap());
    let mut builder = MultiMapBuilder::new(device, options).unwrap();
    builder.build(&device.stream().unwrap(), keys.view(), values.view()).unwrap()
}
fn index<K: KeyBits>(device: &Device, keys: &[K], seed: u32) -> Index<K> {
    let keys = device.stage(keys).unwrap();
    let mut builder = IndexBuilder::new(device, IndexOptions::default().with_seed(seed)).unwrap();
    builder.build(&device.stream().unwrap(), keys.view()).unwrap()
}
fn oracle<K: KeyBits, V: ValueBits>(keys: &[K]) -> BTreeMap<K, Vec<V>> {
    let mut oracle = BTreeMap::<K, Vec<V>>::new();
    for (i, &key) in (0..).zip(keys) {
        oracle.entry(key).or_default().push(V::narrowed(splitmix_at(1, i)));
    }
    oracle
}
fn queries<K: KeyBits, V>(oracle: &BTreeMap<K, V>) -> Vec<K> {
    oracle.keys().copied().chain((0..50).map(|i| K::narrowed(splitmix_at(77, i)))).collect()
}
/// Checks an index of these distinct keys, in the order of their ids.
fn check_index<K: KeyBits>(index: &Index<K>, distinct: &[K]) {
    let id_of = distinct.iter().copied().zip(0u32..).collect::<BTreeMap<_, _>>();
    let queries = queries(&id_of);
    let ids = queries.iter().map(|key| id_of.get(key).copied()).collect::<Vec<_>>();
    assert_eq!(index.ids(&queries).unwrap(), ids, "{index:?}");
    assert_eq!(index.keys_view().download().unwrap(), distinct);
    let back = (0..distinct.len() as u32 + 2).rev().collect::<Vec<_>>();
    let keys = index.keys_of(&back).unwrap();
    assert!(keys[..2].iter().all(Option::is_none));
    assert!(keys[2..].iter().rev().flatten().eq(distinct));
}
/// Returns the distinct keys in order of first occurrence.
fn distinct<K: KeyBits>(keys: &[K]) -> Vec<K> {
    let mut seen = BTreeSet::new();
    keys.iter().copied().filter(|&key| seen.insert(key)).collect()
}
fn check<K: KeyBits, V: ValueBits>(map: &MultiMap<K, V>, oracle: &BTreeMap<K, Vec<V>>) {
    check_index(map.index(), &oracle.keys().copied().collect::<Vec<_>>());
    assert_eq!(map.len(), oracle.values().map(Vec::len).sum::<usize>());
    let queries = queries(oracle);
    let of = |key: &K| oracle.get(key).map_or(&[][..], |values| values);
    let found = map.retrieve(&queries).unwrap();
    for (i, key) in queries.iter().enumerate() {
        assert_eq!(found.of(i), of(key), "{map:?}");
    }
    let counts = map.counts(&queries).unwrap();
    assert!(counts.into_iter().eq(queries.iter().map(|key| of(key).len() as u32)));
    let (stream, mut sum) = (map.device().stream().unwrap(), 0u64);
    if !map.device().runs_kernels() {
        // SAFETY: the table is in host memory, and nothing changes it here.
        let table = unsafe { map.table(&stream).unwrap().on_host() };
        queries
            .iter()
            .for_each(|&key| table.for_each(key, |value| sum = sum.wrapping_add(value.widened())));
        assert_eq!(
            sum,
            oracle.values().flatten().fold(0u64, |sum, value| sum.wrapping_add(value.widened()))
        );
    }
}

fn tables_come_back<K: KeyBits, V: ValueBits>(n: usize, executor: bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.koel");
    let (host, gpu) = (Device::cpu_with_threads(2).unwrap(), Device::executor(n as u64));
    let built_on = if executor { &gpu } else { &host };
    for (seed, keys) in
        [(0, keys::<K>(n, 0)), (5, keys::<K>(n, 5)), (3, crowded::<K>(n.min(40), 3))]
    {
        let oracle = oracle::<K, V>(&keys);
        let map = multimap::<K, V>(built_on, &keys, seed);
        let mut maps = taken_back(&map, &path, &[&host, &gpu]);
        let info = file::info(&path).unwrap();
        assert_eq!(
            (info.keys, info.pairs, info.duplicates, info.seed),
            (oracle.len(), keys.len(), 0, seed)
        );
        assert_eq!(info.stashed > 0, seed == 3 && keys.len() > 4, "{n} keys");
        for device in [&gpu, &host] {
            maps.push(maps[0].to_device(device).unwrap());
        }
        for map in &maps {
            check(map, &oracle);
        }
        assert_eq!(bytes(&maps[maps.len() - 1]), bytes(&map));

        let index = index::<K>(built_on, &keys, seed);
        let mut indexes = taken_back(&index, &path, &[&host, &gpu]);
        assert_eq!(file::info(&path).unwrap().pairs, oracle.len());
        for device in [&gpu, &host] {
            indexes.push(indexes[0].to_device(device).unwrap());
        }
        for index in &indexes {
            check_index(index, &distinct(&keys));
        }
        assert_eq!(bytes(&indexes[indexes.len() - 1]), bytes(&index));
    }
}
#[test]
fn tables_of_all_types_and_sizes_come_back() {
    for n in [0, 1, 2, 4, 5, 31, 32, 33, 300] {
        tables_come_back::<u32, u32>(n, false);
        tables_come_back::<u32, u64>(n, false);
        tables_come_back::<u64, u32>(n, false);
        tables_come_back::<u64, u64>(n, false);
    }
    tables_come_back::<u32, u32>(5_001, false);
}
#[test]
fn tables_of_kernels_come_back() {
    for n in [0, 5, 130] {
        tables_come_back::<u32, u32>(n, true);
        tables_come_back::<u64, u64>(n, true);
    }
    tables_come_back::<u32, u64>(100, true);
    tables_come_back::<u64, u32>(100, true);
}

/// Columns longer than a piece, whose lengths are not whole words.
#[test]
fn columns_of_many_pieces_come_back() {
    let device = Device::cpu().unwrap();
    let keys = (0..file::writer::PIECE as u32 + 3).collect::<Vec<_>>();
    let map = multimap::<u32, u64>(&device, &keys, 1);
    let loaded = MultiMap::<u32, u64>::load_bytes(&device, &bytes(&map)).unwrap();
    assert_eq!(loaded.index().keys_view().download().unwrap(), keys);
    assert_eq!(loaded.starts_view().download().unwrap(), map.starts_view().download().unwrap());
    assert_eq!(loaded.values_view().download().unwrap(), map.values_view().download().unwrap());
}

/// Files with nonsense starts and ids and correct checksums: lookups in an opened file stay in
/// bounds, and operations that read everything reject it.
fn nonsense_is_harmless<K: KeyBits, V: ValueBits>()
where
    Sum: Reduction<V>,
    Min: Reduction<V>,
{
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.koel");
    let host = Device::cpu_with_threads(2).unwrap();
    let gpu = Device::executor(1);
    let keys = keys::<K>(200, 0);
    let table = multimap::<K, V>(&host, &keys, 0);
    // The first number that no key has.
    let end = table.index().len() as u32;
    let whole = bytes(&table);
    for seed in 0..20 {
        let mut content = whole.clone();
        let random = |i: usize| splitmix_at(seed, i as u32) as u32;
        let which = seed % 3;
        if which != 0 {
            let starts = section(&content, STARTS);
            for (i, start) in content[starts].chunks_exact_mut(4).enumerate() {
                let any = [0, random(i), random(i) % 300, 1 << 31, u32::MAX]
                    [random(i + 1000) as usize % 5];
                start.copy_from_slice(&any.to_le_bytes());
            }
        }
        if which != 1 {
            // Overwrite all ids: with narrow pairs they follow the key, else the four heads.
            let words = content[section(&whole, 64)].as_chunks_mut::<8>().0;
            for bucket in words.chunks_exact_mut(K::Layout::<u32>::WORDS) {
                for slot in 0..4 {
                    if bucket[slot] != [0xFF; 8] {
                        let any = [random(slot), u32::MAX, end - 1, end]
                            [random(slot + 7) as usize % 4]
                            .to_le_bytes();
                        match K::Layout::<u32>::WORDS {
                            4 => bucket[slot][4..].copy_from_slice(&any),
                            _ => bucket[slot + 4][..4].copy_from_slice(&any),
                        }
                    }
                }
            }
        }
        seal(&mut content);
        fs::write(&path, &content).unwrap();
        let map = opened::<MultiMap<K, V>>(&host, &path).unwrap();
        let n = map.index().len() as u32;
        let ids = map.index().ids(&keys).unwrap();
        assert!(ids.iter().flatten().all(|&id| id < n));
        let (stream, staged) = (host.stream().unwrap(), host.stage(&keys).unwrap());
        let mut into = host.alloc::<u32>(keys.len()).unwrap();
        map.index().ids_into(&stream, staged.view(), into.view_mut()).unwrap();
        assert!(into.download().unwrap().into_iter().eq(ids.iter().map(|id| id.unwrap_or(NO_ID))));
        map.index().keys_of(&into.download().unwrap()).unwrap();
        let (counts, found) = (map.counts(&keys).unwrap(), map.retrieve(&keys).unwrap());
        for (i, count) in counts.into_iter().enumerate() {
            assert_eq!(found.of(i).len(), count as usize);
        }
        map.reduce::<Sum>().unwrap();
        map.reduce::<Min>().unwrap();
        let mut retriever = Retriever::new(&host, keys.len()).unwrap();
        retriever.find(&stream, &map, staged.view()).unwrap();
        retriever.values_into(&stream, &map, host.alloc::<V>(10).unwrap().view_mut()).unwrap();

        let is_right = |kind: FileErrorKind| match kind {
            FileErrorKind::Element { section: Section::Starts, .. } => which != 0,
            FileErrorKind::Number { .. } => which != 1,
            _ => false,
        };
        assert!(is_right(kind(map.table(&stream).map(|_| ()))));
        assert!(is_right(kind(map.verify())));
        assert!(is_right(kind(file::verify(&path))));
        for device in [&host, &gpu] {
            assert!(is_right(kind(map.to_device(device))));
            assert!(is_right(kind(map.index().to_device(device))));
            assert!(is_right(kind(MultiMap::<K, V>::load(device, &path))));
        }
    }
}
#[test]
fn nonsense_in_opened_files_is_harmless() {
    nonsense_is_harmless::<u32, u32>();
    nonsense_is_harmless::<u64, u64>();
    nonsense_is_harmless::<u32, u64>();
}

#[test]
fn damage_is_found_by_those_that_read_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.koel");
    let device = Device::cpu().unwrap();
    let whole = bytes(&multimap::<u32, u32>(&device, &keys(1000, 0), 0));
    for (at, section_name) in
        [(KEYS, Section::Keys), (STARTS, Section::Starts), (160, Section::Values)]
    {
        let mut damaged = whole.clone();
        damaged[section(&whole, at).start + 5] ^= 1;
        fs::write(&path, &damaged).unwrap();
        let opened = opened::<MultiMap<u32, u32>>(&device, &path).unwrap();
        opened.retrieve(&keys(1000, 0)).unwrap();
        for kind in [
            kind(opened.verify()),
            kind(opened.to_device(&device)),
            kind(MultiMap::<u32, u32>::load(&device, &path)),
        ] {
            assert!(
                matches!(kind, FileErrorKind::Checksum { section, .. } if section == section_name),
                "{kind}"
            );
        }
    }
    assert!(matches!(kind(opened_here::<Index<u32>>(&path)), FileErrorKind::Kind { .. }));
    assert!(matches!(
        kind(opened_here::<MultiMap<u32, u64>>(&path)),
        FileErrorKind::WrongTypes { .. }
    ));
}

/// The keys of files written when version 1 was new, kept in `fuzz/seeds`.
fn old_keys<K: KeyBits>() -> Vec<K> {
    let mut keys = crowded::<K>(14, 5);
    keys.truncate(12);
    keys.extend([
        K::Layout::<u32>::unmixed(5, K::Layout::<u32>::AMBIGUOUS),
        keys[0],
        keys[1],
        keys[0],
    ]);
    keys
}
fn old_files_are_read<K: KeyBits, V: ValueBits>() {
    let device = Device::cpu_with_threads(1).unwrap();
    let (key, value) = (std::any::type_name::<K>(), std::any::type_name::<V>());
    let (of_index, of_map) =
        (old_file(&format!("index_{key}.koel")), old_file(&format!("multimap_{key}_{value}.koel")));
    let oracle = oracle::<K, V>(&old_keys());
    for path in [&of_index, &of_map] {
        let info = file::verify(path).unwrap();
        assert_eq!((info.seed, info.keys, info.stashed > 0, info.held), (5, 13, true, true));
    }
    // Their ids follow the order of the keys.
    let sorted = oracle.keys().copied().collect::<Vec<_>>();
    check_index(&Index::<K>::load(&device, &of_index).unwrap(), &sorted);
    check_index(&opened::<Index<K>>(&device, &of_index).unwrap(), &sorted);
    check(&MultiMap::<K, V>::load(&device, &of_map).unwrap(), &oracle);
    check(&opened::<MultiMap<K, V>>(&device, &of_map).unwrap(), &oracle);
}
#[test]
fn files_of_version_1_stay_readable() {
    old_files_are_read::<u32, u32>();
    old_files_are_read::<u64, u64>();
}

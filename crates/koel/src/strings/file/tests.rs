//! Strings saved, loaded and opened, on every device, against an oracle; and the effect of hostile
//! files.
use super::*;
use crate::file::testing::{bytes, kind, old_file, opened, opened_here, seal, section, taken_back};
use crate::file::{self, FileErrorKind};
use crate::{Device, NO_ID, Outcome, SetOptions};
use koel_kernels::hash::mix::splitmix_at;
use std::collections::HashMap;
use std::fs;
use std::io::Cursor;

mod to_strings;

/// Offsets in the header of the third, fourth and fifth sections.
const THIRD: usize = 112;
const FOURTH: usize = 136;
const FIFTH: usize = 160;

fn string(seed: u64, i: u32) -> String {
    let word = splitmix_at(seed, i);
    "é\0x".repeat(word as usize % 5) + &(word >> 40).to_string()
}
/// Strings with up to three copies, among them the empty one, in no order.
fn strings(n: usize) -> Vec<String> {
    let others = (0..).map(|i| string(9, i / 3 * 3 + i % 2));
    ["x".repeat(300), String::new()].into_iter().chain(others).take(n).collect()
}
fn queries(keys: &[String]) -> Vec<String> {
    let others = (0..40).map(|i| string(77, i));
    keys.iter().cloned().chain(others).chain(keys.iter().map(|key| key.clone() + "\0")).collect()
}
fn values<V: Value>(n: usize) -> Vec<V> {
    (0..n as u32).map(|i| V::unpack(u128::from(splitmix_at(1, i)) << (i % 2 * 60))).collect()
}
fn check<V: Value + PartialEq + std::fmt::Debug>(map: &StringMap<V>, keys: &[String]) {
    let values = values::<V>(keys.len());
    let oracle = keys.iter().zip(&values).collect::<HashMap<_, _>>();
    let queries = queries(keys);
    assert_eq!(map.len(), oracle.len());
    let found = map.get(&queries).unwrap();
    assert!(
        found.iter().eq(queries
            .iter()
            .map(|key| oracle.get(key).map(|&&v| v))
            .collect::<Vec<_>>()
            .iter()),
        "{map:?}"
    );
    let held = map.keys().unwrap();
    let own = map.values().unwrap();
    for (key, value) in held.iter().zip(own) {
        let key = String::from_utf8(key.to_vec()).unwrap();
        assert_eq!(*oracle[&key], value);
    }
}
fn check_index(index: &StringIndex, keys: &[String]) {
    let mut ids = HashMap::new();
    for key in keys {
        let next = ids.len() as u32;
        ids.entry(key).or_insert(next);
    }
    let queries = queries(keys);
    let expected = queries.iter().map(|key| ids.get(key).copied());
    assert!(index.ids(&queries).unwrap().into_iter().eq(expected), "{index:?}");
    assert_eq!(index.keys_of(&[NO_ID, index.len() as u32]).unwrap(), [None, None]);
}
fn tables_come_back<V: Value + PartialEq + std::fmt::Debug>(n: usize, executor: bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.koel");
    let (host, gpu) = (Device::cpu_with_threads(2).unwrap(), Device::executor(n as u64));
    let built_on = if executor { &gpu } else { &host };
    let keys = strings(n);
    let distinct = keys.iter().collect::<std::collections::HashSet<_>>().len();

    let map = StringMap::build(built_on, &keys, &values::<V>(n)).unwrap();
    let mut maps = taken_back(&map, &path, &[&host, &gpu]);
    let info = file::info(&path).unwrap();
    assert_eq!((info.keys, info.pairs, info.duplicates), (distinct, distinct, n - distinct));
    assert_eq!((info.version, info.meaning.key()), (2, "bytes"));
    maps.extend([&gpu, &host].map(|device| maps[0].to_device(device).unwrap()));
    for taken in &maps {
        check(taken, &keys);
        assert_eq!(bytes(taken), bytes(&map), "{taken:?}");
        let report = taken.report().unwrap();
        assert_eq!((report.entries, report.duplicates), (distinct, n - distinct));
    }
    let set = StringSet::build(built_on, &keys).unwrap();
    let mut sets = taken_back(&set, &path, &[&host, &gpu]);
    sets.extend([&gpu, &host].map(|device| sets[0].to_device(device).unwrap()));
    for taken in &sets {
        let queries = queries(&keys);
        let expected = queries.iter().map(|key| keys.contains(key));
        assert!(taken.contains(&queries).unwrap().into_iter().eq(expected), "{taken:?}");
        assert_eq!((bytes(taken), taken.keys().unwrap()), (bytes(&set), set.keys().unwrap()));
    }
    let index = StringIndex::build(built_on, &keys).unwrap();
    let mut indexes = taken_back(&index, &path, &[&host, &gpu]);
    indexes.extend([&gpu, &host].map(|device| indexes[0].to_device(device).unwrap()));
    for taken in &indexes {
        check_index(taken, &keys);
        assert_eq!(bytes(taken), bytes(&index));
    }
}
#[test]
fn tables_of_all_sizes_come_back() {
    for n in [0, 1, 2, 3, 31, 33, 600] {
        tables_come_back::<u32>(n, false);
        tables_come_back::<[u64; 2]>(n, false);
    }
}
#[test]
fn tables_of_kernels_come_back() {
    for n in [0, 2, 100] {
        tables_come_back::<i16>(n, true);
    }
}
/// Columns longer than a piece.
#[test]
fn columns_of_many_pieces_come_back() {
    let device = Device::cpu().unwrap();
    let keys = (0..file::writer::PIECE as u32 + 3).map(|i| string(4, i) + &i.to_string());
    let keys = keys.collect::<Vec<_>>();
    let map = StringMap::build(&device, &keys, &values::<u32>(keys.len())).unwrap();
    check(&StringMap::<u32>::load_bytes(&device, &bytes(&map)).unwrap(), &keys);
}
/// The same strings give the same bytes, wherever they began and whatever was behind them.
#[test]
fn columns_are_written_from_their_start() {
    let device = Device::cpu().unwrap();
    let column = |offsets: &[u64], text: [&[u8; 8]; 2]| {
        let words = text.map(|text| u64::from_le_bytes(*text));
        let (offsets, words) = (device.upload(offsets).unwrap(), device.upload(&words).unwrap());
        Strings::from_parts(offsets, words).unwrap()
    };
    let stream = device.stream().unwrap();
    let bytes_of = |column: &Strings| {
        let options = SetOptions::default().with_seed(3);
        bytes(&StringSet::build_from(&stream, options, column).unwrap())
    };
    let plain = bytes_of(&column(&[0, 3, 3, 8, 10], [b"onethree", b"ab\0\0\0\0\0\0"]));
    assert_eq!(bytes_of(&column(&[0, 3, 3, 8, 10], [b"onethree", b"abxxxxxx"])), plain);
    assert_eq!(bytes_of(&column(&[2, 5, 5, 10, 12], [b"xxonethr", b"eeabxxxx"])), plain);
    let loaded = StringSet::load_bytes(&device, &plain).unwrap();
    assert_eq!(loaded.keys().unwrap(), ["one", "", "three", "ab"]);
}
#[test]
fn an_opened_table_is_never_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("map.koel");
    let device = Device::cpu().unwrap();
    let keys = strings(100);
    StringMap::build(&device, &keys, &values::<u64>(100)).unwrap().save(&path).unwrap();
    let before = fs::read(&path).unwrap();
    let mut map = opened::<StringMap<u64>>(&device, &path).unwrap();
    let new = ["new", "newer"];
    assert_eq!(map.insert(&new, &[1, 2]).unwrap(), [Outcome::Inserted; 2]);
    assert_eq!(map.erase(&keys[2..50]).unwrap().len(), 48);
    assert_eq!(map.get(&["new", &keys[3], &keys[0]]).unwrap()[..2], [Some(1), None]);
    assert_eq!(fs::read(&path).unwrap(), before);
    let again = StringMap::<u64>::load_bytes(&device, &bytes(&map)).unwrap();
    assert_eq!(again.keys().unwrap(), map.keys().unwrap());
}
/// Files with nonsense offsets or rows and correct checksums: lookups in an opened file stay in
/// bounds, and operations that read everything reject it.
#[test]
fn nonsense_in_opened_files_is_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.koel");
    let (host, gpu) = (Device::cpu_with_threads(2).unwrap(), Device::executor(1));
    let keys = strings(60);
    let map = StringMap::build(&host, &keys, &values::<u32>(60)).unwrap();
    let (whole, end) = (bytes(&map), map.keys().unwrap().iter().map(<[u8]>::len).sum::<usize>());
    for seed in 0..12 {
        let mut content = whole.clone();
        let offsets = content[section(&whole, FOURTH)].as_chunks_mut::<8>().0;
        let count = offsets.len();
        let some = [end as u64 + 1, u64::MAX, 0, 5][seed % 4];
        // Never the value that is there.
        let at = 1 + splitmix_at(2, seed as u32) as usize % (count - 2);
        let is_there = u64::from_le_bytes(offsets[at]);
        let before = u64::from_le_bytes(offsets[at - 1]);
        if some == is_there || (before..=u64::from_le_bytes(offsets[at + 1])).contains(&some) {
            continue;
        }
        offsets[at] = some.to_le_bytes();
        seal(&mut content);
        fs::write(&path, &content).unwrap();
        let mut opened = opened::<StringMap<u32>>(&host, &path).unwrap();
        let queries = queries(&keys);
        let there = opened.contains(&queries).unwrap();
        let found = opened.get(&queries).unwrap();
        assert!(there.iter().zip(&found).all(|(&there, value)| there == value.is_some()));
        assert_eq!(opened.values().unwrap().len(), opened.len());
        assert_eq!(opened.keys().unwrap().iter().len(), opened.len());
        let column = opened.set().column();
        let is_right = |kind: FileErrorKind| {
            matches!(kind, FileErrorKind::Element { section: Section::Starts, .. })
        };
        assert!(is_right(kind(column.to_device(&gpu))));
        assert!(is_right(kind(StringSet::build_from(
            &host.stream().unwrap(),
            SetOptions::default(),
            column
        ))));
        assert!(is_right(kind(opened.verify())));
        assert!(is_right(kind(opened.save_to(&mut Cursor::new(vec![])))));
        assert!(is_right(kind(file::verify(&path))));
        assert!(is_right(kind(opened.insert(&["new"], &[1]))));
        for device in [&host, &gpu] {
            assert!(is_right(kind(opened.to_device(device))));
            assert!(is_right(kind(StringMap::<u32>::load(device, &path))));
        }
    }
    // Bytes behind the last string.
    assert!(end % 8 > 0, "there is room behind it");
    let mut content = whole.clone();
    content[section(&whole, FIFTH).end - 1] = 1;
    seal(&mut content);
    let found = kind(StringMap::<u32>::load_bytes(&host, &content));
    assert!(matches!(found, FileErrorKind::Element { section: Section::Keys, .. }), "{found}");
}
#[test]
fn damage_is_found_by_those_that_read_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.koel");
    let device = Device::cpu().unwrap();
    let keys = strings(500);
    let whole = bytes(&StringMap::build(&device, &keys, &values::<u64>(500)).unwrap());
    for (at, section_name) in [
        (64, Section::Slots),
        (THIRD, Section::Values),
        (FOURTH, Section::Starts),
        (FIFTH, Section::Keys),
    ] {
        let mut damaged = whole.clone();
        damaged[section(&whole, at).start + 5] ^= 1;
        fs::write(&path, &damaged).unwrap();
        let opened = opened::<StringMap<u64>>(&device, &path).unwrap();
        opened.get(&keys).unwrap();
        let loaded = StringMap::<u64>::load(&device, &path);
        for kind in [kind(opened.verify()), kind(opened.to_device(&device)), kind(loaded)] {
            let is_right =
                matches!(kind, FileErrorKind::Checksum { section, .. } if section == section_name);
            assert!(is_right, "{kind}");
        }
    }
    for kind in [
        kind(opened_here::<StringSet>(&path)),
        kind(opened_here::<StringIndex>(&path)),
        kind(opened_here::<crate::Map<u64, u64>>(&path)),
    ] {
        assert!(matches!(kind, FileErrorKind::Kind { found: TableKind::StringMap, .. }), "{kind}");
    }
    let found = kind(opened_here::<StringMap<f64>>(&path));
    let FileErrorKind::WrongTypes { found, expected } = found else { panic!("{found}") };
    assert_eq!((&found[..], &expected[..]), ("pairs bytes -> u64", "bytes -> f64"));
    // Strings have no version 1, and their keys one name.
    for (at, byte) in [(8, 1), (200, b'c')] {
        let mut other = whole.clone();
        other[at] = byte;
        if at == 8 {
            other[200..328].fill(0);
        }
        seal(&mut other);
        let found = kind(StringMap::<u64>::load_bytes(&device, &other));
        assert!(matches!(found, FileErrorKind::Field { .. }), "{found}");
    }
}
/// Files written when these kinds were new, kept in `fuzz/seeds`: they stay readable.
#[test]
fn files_of_version_2_stay_readable() {
    let device = Device::cpu_with_threads(1).unwrap();
    let keys = strings(40);
    check(&StringMap::<i32>::load(&device, old_file("string_map.koel")).unwrap(), &keys);
    check_index(&opened::<StringIndex>(&device, old_file("string_index.koel")).unwrap(), &keys);
    let set = StringSet::load(&device, old_file("string_set.koel")).unwrap();
    assert!(set.contains(&keys).unwrap().into_iter().all(|found| found));
    assert!(matches!(set.contains(&["none"]), Ok(found) if found == [false]));
}

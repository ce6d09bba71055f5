//! Tables whose keys are in rows, updated in batches: see [`updates`].
use crate::support::{Random, devices, is_fast};
use crate::updates::{self, Batch, Oracle, Table};
use koel::keys128::Map128Builder;
use koel::types::ValueBits;
use koel::{
    Buffer, Device, Duplicates, Map, Map128, MapBuilder, MapJoiner, MapOptions, MapUpdater,
    Operation, Operations, Outcome, Set, Set128, SetBuilder, SetOperation, SetOptions, SetUpdater,
    Stream, StringMap, StringSet, ViewMut,
};
use rustc_hash::FxHashMap;
use std::path::Path;

/// More bytes than an empty table has.
const SMALLEST: usize = 8192;
const ENDS: [u128; 4] = [0, 1, u128::MAX, 1 << 127];
fn often_an_end(random: u64, other: u128) -> u128 {
    if random.is_multiple_of(5) { ENDS[(random >> 32) as usize % ENDS.len()] } else { other }
}

/// A map with keys in rows, whose updater keeps its memory.
struct MapInRows<V: ValueBits>(Map<u128, V>);
impl<V: ValueBits> Table for MapInRows<V> {
    type Key = u128;
    type Value = V;
    type Updater = MapUpdater<u128, V>;
    const OPERATIONS: &'static [Operation] =
        &[Operation::Insert, Operation::InsertOrAssign, Operation::InsertOrAdd, Operation::Erase];

    fn build(
        device: &Device,
        keys: &[u128],
        values: &[V],
        load: f64,
    ) -> (Self, MapUpdater<u128, V>) {
        let (k, v) = (device.stage(keys).unwrap(), device.stage(values).unwrap());
        let options = MapOptions::default().with_load(load).with_seed(0);
        let mut builder = MapBuilder::new(device, options).unwrap();
        let stream = device.stream().unwrap();
        let mut map = builder.build(&stream, k.view(), v.view()).unwrap();
        builder.rebuild(&mut map, &stream, k.view(), v.view()).unwrap();
        (MapInRows(map), MapUpdater::new(device, options).unwrap())
    }
    fn update(
        &mut self,
        updater: &mut MapUpdater<u128, V>,
        stream: &Stream,
        batch: Batch<'_, u128, V>,
        outcomes: ViewMut<'_, u8>,
        _: bool,
    ) -> koel::Result<()> {
        let Batch { operations, keys, values } = batch;
        let operations = match operations {
            updates::Operations::All(operation) => Operations::All(operation),
            updates::Operations::Each(codes) => Operations::Each(codes),
        };
        updater.apply(&mut self.0, stream, operations, keys, values, outcomes)
    }
    fn insert(&mut self, keys: &[u128]) -> Vec<Outcome> {
        self.0.insert(keys, &vec![V::default(); keys.len()]).unwrap()
    }
    fn erase(&mut self, keys: &[u128]) -> Vec<Outcome> {
        self.0.erase(keys).unwrap()
    }
    fn shrink(&mut self) {
        self.0.shrink().unwrap();
    }
    fn device(&self) -> &Device {
        self.0.device()
    }
    fn len(&self) -> usize {
        self.0.len().unwrap()
    }
    /// About as many rows as there is room for.
    fn slots(&self) -> usize {
        self.0.bytes().saturating_sub(SMALLEST) / 36
    }
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
    fn report(&self) -> String {
        format!("{:?}", self.0.report())
    }
    fn get(&self, keys: &[u128]) -> Vec<Option<V>> {
        self.0.get(keys).unwrap()
    }
    fn count(&self, keys: &[u128]) -> u64 {
        self.0.count(keys).unwrap()
    }
    fn pairs(&self) -> Vec<(u128, V)> {
        self.0.pairs().unwrap()
    }
    fn check_uses(&self, oracle: &Oracle<Self>, keys: &[u128]) {
        let expected = (0..keys.len()).filter_map(|i| oracle.get(&keys[i]).map(|&v| (i as u32, v)));
        let expected = expected.collect::<Vec<_>>();
        assert!(self.0.join(keys).unwrap() == expected);
        let (kept, missing): (Vec<_>, Vec<_>) =
            keys.iter().partition(|key| oracle.contains_key(key));
        assert_eq!(
            (self.0.semi_join(keys).unwrap(), self.0.anti_join(keys).unwrap()),
            (kept.clone(), missing.clone())
        );
        check_joiner(&self.0, keys, &expected, [&kept, &missing]);
    }
    fn to_device(&self, device: &Device) -> Self {
        MapInRows(self.0.to_device(device).unwrap())
    }
    fn saved(&self) -> Vec<u8> {
        let mut bytes = std::io::Cursor::new(vec![]);
        self.0.save_to(&mut bytes).unwrap();
        bytes.into_inner()
    }
    fn loaded(device: &Device, bytes: &[u8]) -> Self {
        MapInRows(Map::load_bytes(device, bytes).unwrap())
    }
    fn opened(path: &Path) -> Self {
        // SAFETY: nothing changes the file.
        MapInRows(unsafe { Map::open(path) }.unwrap())
    }
    fn often_special(random: u64, other: u128) -> u128 {
        often_an_end(random, other)
    }
}
/// Checks a joiner, twice: rows that are found, with their values, and queries of either kind.
fn check_joiner<V: ValueBits>(
    map: &Map<u128, V>,
    queries: &[u128],
    expected: &[(u32, V)],
    kinds: [&[u128]; 2],
) {
    let (device, stream, n) = (map.device(), map.device().stream().unwrap(), queries.len());
    let mut joiner = MapJoiner::new(device).unwrap();
    let uploaded = device.upload(queries).unwrap();
    let (mut numbers, mut values) = (device.alloc::<u32>(n + 1).unwrap(), device.alloc(n).unwrap());
    let (mut kept, mut count) = (device.alloc::<u128>(n).unwrap(), device.upload(&[!0]).unwrap());
    let rows = |count: &Buffer<u64>| count.download().unwrap()[0] as usize;
    for part in [n / 2, n] {
        let of_part = uploaded.view().slice(..part).unwrap();
        let (to, to_values) = (numbers.view_mut(), values.view_mut());
        joiner.join_into(&stream, map, of_part, to, to_values, count.view_mut()).unwrap();
        let found = numbers.download().unwrap().into_iter().zip(values.download().unwrap());
        let found = found.take(rows(&count)).collect::<Vec<_>>();
        let (found_keys, to) = (&queries[..part], expected.partition_point(|r| r.0 < part as u32));
        assert!(found == expected[..to], "{} of {part}", device.name());
        for (is_there, kind) in [true, false].into_iter().zip(kinds) {
            let to = kept.view_mut();
            let join = if is_there { MapJoiner::semi_join_into } else { MapJoiner::anti_join_into };
            join(&mut joiner, &stream, map, of_part, to, count.view_mut()).unwrap();
            let len = rows(&count);
            assert!(kept.download().unwrap()[..len] == kind[..len], "{}", device.name());
            let all = if is_there { found.len() } else { found_keys.len() - found.len() };
            assert_eq!(len, all, "{}", device.name());
        }
        joiner.count_into(&stream, map, of_part, count.view_mut()).unwrap();
        assert_eq!(rows(&count), found.len());
    }
}
/// A set with keys in rows, whose updater keeps its memory.
struct SetInRows(Set<u128>);
impl Table for SetInRows {
    type Key = u128;
    type Value = u32;
    type Updater = SetUpdater<u128>;
    const OPERATIONS: &'static [Operation] = &[Operation::Insert, Operation::Erase];

    fn build(device: &Device, keys: &[u128], _: &[u32], load: f64) -> (Self, SetUpdater<u128>) {
        let staged = device.stage(keys).unwrap();
        let options = SetOptions::default().with_load(load).with_seed(0);
        let mut builder = SetBuilder::new(device, options).unwrap();
        let stream = device.stream().unwrap();
        let mut set = builder.build(&stream, staged.view()).unwrap();
        builder.rebuild(&mut set, &stream, staged.view()).unwrap();
        (SetInRows(set), SetUpdater::new(device, options).unwrap())
    }
    fn update(
        &mut self,
        updater: &mut SetUpdater<u128>,
        stream: &Stream,
        batch: Batch<'_, u128, u32>,
        outcomes: ViewMut<'_, u8>,
        _: bool,
    ) -> koel::Result<()> {
        let operations = match batch.operations {
            updates::Operations::All(Operation::Erase) => Operations::All(SetOperation::Erase),
            updates::Operations::All(_) => Operations::All(SetOperation::Insert),
            updates::Operations::Each(codes) => Operations::Each(codes),
        };
        updater.apply(&mut self.0, stream, operations, batch.keys, outcomes)
    }
    fn insert(&mut self, keys: &[u128]) -> Vec<Outcome> {
        self.0.insert(keys).unwrap()
    }
    fn erase(&mut self, keys: &[u128]) -> Vec<Outcome> {
        self.0.erase(keys).unwrap()
    }
    fn shrink(&mut self) {
        self.0.shrink().unwrap();
    }
    fn device(&self) -> &Device {
        self.0.device()
    }
    fn len(&self) -> usize {
        self.0.len().unwrap()
    }
    fn slots(&self) -> usize {
        self.0.bytes().saturating_sub(SMALLEST) / 36
    }
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
    fn report(&self) -> String {
        format!("{:?}", self.0.report())
    }
    fn get(&self, keys: &[u128]) -> Vec<Option<u32>> {
        self.0.contains(keys).unwrap().into_iter().map(|found| found.then_some(0)).collect()
    }
    fn count(&self, keys: &[u128]) -> u64 {
        self.0.count(keys).unwrap()
    }
    fn pairs(&self) -> Vec<(u128, u32)> {
        self.0.keys().unwrap().into_iter().map(|key| (key, 0)).collect()
    }
    fn to_device(&self, device: &Device) -> Self {
        SetInRows(self.0.to_device(device).unwrap())
    }
    fn saved(&self) -> Vec<u8> {
        let mut bytes = std::io::Cursor::new(vec![]);
        self.0.save_to(&mut bytes).unwrap();
        bytes.into_inner()
    }
    fn loaded(device: &Device, bytes: &[u8]) -> Self {
        SetInRows(Set::load_bytes(device, bytes).unwrap())
    }
    fn opened(path: &Path) -> Self {
        // SAFETY: nothing changes the file.
        SetInRows(unsafe { Set::open(path) }.unwrap())
    }
    fn often_special(random: u64, other: u128) -> u128 {
        often_an_end(random, other)
    }
}

#[test]
fn random_histories() {
    updates::histories::<MapInRows<u32>>(1);
    updates::histories::<MapInRows<u64>>(2);
}
#[test]
fn random_histories_of_sets() {
    updates::histories::<SetInRows>(3);
}
#[test]
fn frequent_keys() {
    updates::frequent_keys::<MapInRows<u64>>();
    updates::frequent_keys::<SetInRows>();
}
#[test]
fn updated_tables_are_tables() {
    updates::updated_tables_are_tables::<MapInRows<u64>>();
    updates::updated_tables_are_tables::<SetInRows>();
}
#[test]
fn opened_tables_are_updated_in_memory() {
    updates::opened_tables_are_updated_in_memory::<MapInRows<u32>>();
    updates::opened_tables_are_updated_in_memory::<SetInRows>();
}
#[test]
fn tables_of_damaged_files_are_not_updated() {
    updates::damaged_files_are_not_updated::<MapInRows<u32>>();
    updates::damaged_files_are_not_updated::<SetInRows>();
}
#[test]
fn tables_grow_from_nothing() {
    updates::tables_grow_from_nothing::<MapInRows<u32>>();
    updates::tables_grow_from_nothing::<SetInRows>();
}
#[test]
fn tables_do_not_shrink_to_more() {
    updates::tables_do_not_shrink_to_more::<MapInRows<u64>>();
    updates::tables_do_not_shrink_to_more::<SetInRows>();
}

/// A second batch of as many operations needs no more memory that is kept; sizes around block
/// edges, with and without copies.
#[test]
fn updaters_keep_their_memory() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let keys = (0..1025u64).map(|i| [i.wrapping_mul(0x9E37_79B9_7F4A_7C15), !i]);
        let keys = keys.collect::<Vec<_>>();
        let mut map = Map::build(&device, &keys[..3], &[1.5f32; 3]).unwrap();
        let mut updater = MapUpdater::new(&device, MapOptions::default()).unwrap();
        let mut oracle = keys[..3].iter().map(|&key| (key, 1.5)).collect::<FxHashMap<_, _>>();
        let mut bytes = vec![];
        let sizes = [1025, 0, 1, 255, 256, 257, 1024, 1025, 1025, 0, 1025];
        for (round, n) in sizes.into_iter().enumerate() {
            let (is_odd, value) = (round % 2 == 1, round as f32);
            let asked = (0..n).map(|i| keys[if is_odd { i / 2 } else { i }]).collect::<Vec<_>>();
            let (k, v) = (device.upload(&asked).unwrap(), device.upload(&vec![value; n]).unwrap());
            let mut outcomes = device.alloc::<u8>(n).unwrap();
            let operation = [Operation::InsertOrAssign, Operation::Erase][usize::from(round == 6)];
            let (all, to) = (Operations::All(operation), outcomes.view_mut());
            updater.apply(&mut map, &stream, all, k.view(), v.view(), to).unwrap();
            let outcomes = outcomes.download().unwrap().into_iter().map(Outcome::of);
            for (key, outcome) in asked.iter().zip(outcomes) {
                let expected = match (operation, oracle.contains_key(key)) {
                    (Operation::Erase, true) => Outcome::Erased,
                    (Operation::Erase, false) => Outcome::Missing,
                    (_, true) => Outcome::Assigned,
                    (_, false) => Outcome::Inserted,
                };
                assert_eq!(outcome, Some(expected), "{n} on {}", device.name());
                match operation {
                    Operation::Erase => oracle.remove(key),
                    _ => oracle.insert(*key, value),
                };
            }
            let found = map.get(&keys).unwrap();
            let expected = keys.iter().map(|key| oracle.get(key).copied());
            assert_eq!(found, expected.collect::<Vec<_>>(), "{n} on {}", device.name());
            assert_eq!(map.len().unwrap(), oracle.len());
            bytes.push(updater.scratch_bytes());
        }
        assert!(bytes[10] > 0 && bytes[8] == bytes[10], "{bytes:?} on {}", device.name());
        let said = format!("{updater:?}");
        assert!(said.contains(&format!("[{} bytes]", bytes[10])), "{said}");
    }
}

/// Rows after a batch: those that stay where they are, the last ones in the gaps, new ones in order
/// of first occurrence. The same on every device.
#[test]
fn rows_stay_in_order() {
    for device in devices() {
        let place = device.name();
        let keys = (0..10u128).collect::<Vec<_>>();
        let mut map = Map128::build(&device, &keys, &[7u32; 10]).unwrap();
        map.insert(&[5, 12, 11, 12], &[1, 2, 3, 4]).unwrap();
        assert_eq!(map.keys().unwrap(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 11], "{place}");
        map.erase(&[1, 99, 9, 4, 1]).unwrap();
        assert_eq!(map.keys().unwrap(), [0, 12, 2, 3, 11, 5, 6, 7, 8], "{place}");
        assert_eq!(map.values().unwrap(), [7, 2, 7, 7, 3, 7, 7, 7, 7], "{place}");
        // Keys that moved are found in their new rows.
        let found = [Some(2), Some(3), Some(7), None];
        assert_eq!(map.get(&[12, 11, 8, 9]).unwrap(), found, "{place}");
        let mut strings =
            StringMap::build(&device, &["a", "bb", "", "dddd"], &[1, 2, 3, 4]).unwrap();
        strings.insert(&["", "eeeeeeeeeeee", "f"], &[9, 5, 6]).unwrap();
        assert_eq!(
            strings.keys().unwrap(),
            ["a", "bb", "", "dddd", "eeeeeeeeeeee", "f"],
            "{place}"
        );
        strings.erase(&["a", "", "f"]).unwrap();
        assert_eq!(strings.keys().unwrap(), ["dddd", "bb", "eeeeeeeeeeee"], "{place}");
        assert_eq!(strings.values().unwrap(), [4, 2, 5], "{place}");
        let found = [Some(4), Some(5), Some(2), None];
        assert_eq!(strings.get(&["dddd", "eeeeeeeeeeee", "bb", "a"]).unwrap(), found, "{place}");
    }
}

/// Strings of a few lengths, of which many are equal.
fn string(i: u64) -> Vec<u8> {
    let mut text = format!("{i:x}").repeat((i % 7) as usize).into_bytes();
    text.truncate((i % 40) as usize);
    text
}
#[test]
fn random_histories_of_strings() {
    for device in devices() {
        let (place, mut random) = (device.name(), Random(11));
        let (most, batches) = if is_fast(&device) { (20_000, 20) } else { (700, 8) };
        let mut map = StringMap::build(&device, &[""; 0], &[0u64; 0]).unwrap();
        let mut set = StringSet::build(&device, &[""; 0]).unwrap();
        let mut oracle = FxHashMap::<Vec<u8>, u64>::default();
        for _ in 0..batches {
            let (n, world) = (random.below(most), 1 + random.below(2 * most));
            let keys = (0..n).map(|_| string(random.below(world))).collect::<Vec<_>>();
            let values = (0..n).map(|_| random.word()).collect::<Vec<_>>();
            let kind = random.below(4);
            let (outcomes, of_set) = match kind {
                0 => (map.insert(&keys, &values), set.insert(&keys)),
                1 => (map.insert_or_assign(&keys, &values), set.insert(&keys)),
                2 => (map.insert_or_add(&keys, &values), set.insert(&keys)),
                _ => (map.erase(&keys), set.erase(&keys)),
            };
            let outcomes = outcomes.unwrap().into_iter().zip(of_set.unwrap());
            for ((key, value), (outcome, of_set)) in keys.iter().zip(values).zip(outcomes) {
                let before = oracle.get(key).copied();
                let (after, expected) = match (kind, before) {
                    (3, None) => (None, Outcome::Missing),
                    (3, Some(_)) => (None, Outcome::Erased),
                    (_, None) => (Some(value), Outcome::Inserted),
                    (0, Some(before)) => (Some(before), Outcome::Kept),
                    (1, Some(_)) => (Some(value), Outcome::Assigned),
                    (_, Some(before)) => (Some(before.wrapping_add(value)), Outcome::Added),
                };
                match after {
                    Some(value) => oracle.insert(key.clone(), value),
                    None => oracle.remove(key),
                };
                assert_eq!(outcome, expected, "{key:?} on {place}");
                let is_present = matches!(expected, Outcome::Assigned | Outcome::Added);
                let expected = if is_present { Outcome::Kept } else { expected };
                assert_eq!(of_set, expected, "{key:?} on {place}");
            }
            assert_eq!((map.len(), set.len()), (oracle.len(), oracle.len()), "{place}");
            let held = map.keys().unwrap();
            for (key, value) in held.iter().zip(map.values().unwrap()) {
                assert_eq!(oracle.get(key), Some(&value), "{key:?} on {place}");
            }
            assert_eq!(held, set.keys().unwrap(), "{place}");
            let expected = keys.iter().map(|key| oracle.get(key).copied()).collect::<Vec<_>>();
            assert_eq!(map.get(&keys).unwrap(), expected, "{place}");
            let joined = (0..).zip(&expected).filter_map(|(i, value)| Some((i, (*value)?)));
            assert!(map.join(&keys).unwrap().into_iter().eq(joined), "{place}");
        }
    }
}

/// Values of 128 bits: neither added, nor told apart by their low halves.
#[test]
fn random_histories_of_wide_values() {
    for device in devices() {
        let (place, mut random) = (device.name(), Random(12));
        let (most, batches) = if is_fast(&device) { (20_000, 20) } else { (700, 8) };
        let mut map = Map::<(u64, i16), [u64; 2]>::build(&device, &[], &[]).unwrap();
        let mut oracle = FxHashMap::<(u64, i16), [u64; 2]>::default();
        for _ in 0..batches {
            let (n, world) = (random.below(most), 1 + random.below(2 * most));
            let key = |i: u64| (i / 3, (i % 3) as i16 - 1);
            let keys = (0..n).map(|_| key(random.below(world))).collect::<Vec<_>>();
            let values = (0..n).map(|_| [1, random.word()]).collect::<Vec<_>>();
            let kind = random.below(3);
            let outcomes = match kind {
                0 => map.insert(&keys, &values),
                1 => map.insert_or_assign(&keys, &values),
                _ => map.erase(&keys),
            };
            for ((key, value), outcome) in keys.iter().zip(values).zip(outcomes.unwrap()) {
                let before = oracle.get(key).copied();
                let expected = match (kind, before) {
                    (2, None) => Outcome::Missing,
                    (2, Some(_)) => Outcome::Erased,
                    (_, None) => Outcome::Inserted,
                    (0, Some(_)) => Outcome::Kept,
                    _ => Outcome::Assigned,
                };
                match expected {
                    Outcome::Erased => _ = oracle.remove(key),
                    Outcome::Inserted | Outcome::Assigned => _ = oracle.insert(*key, value),
                    _ => (),
                }
                assert_eq!(outcome, expected, "{key:?} on {place}");
            }
            assert_eq!(map.len().unwrap(), oracle.len(), "{place}");
            let held = map.pairs().unwrap().into_iter().collect::<FxHashMap<_, _>>();
            assert!(held == oracle, "{place}: the pairs differ");
            let expected = keys.iter().map(|key| oracle.get(key).copied());
            assert!(map.get(&keys).unwrap().into_iter().eq(expected), "{place}");
        }
        let each = map.update(&[Operation::InsertOrAdd], &[(1, 2)], &[[1, 2]]).unwrap_err();
        assert!(each.to_string().contains("no addition of values"), "{each}");
    }
}
/// Lengths that differ change nothing.
#[test]
fn lengths_are_checked() {
    for device in devices() {
        let stream = device.stream().unwrap();
        for keys in [[1u128, 2, 3], [1, 2, 1]] {
            let mut map = Map128::build(&device, &[1], &[10u32]).unwrap();
            let (of_keys, values) =
                (device.upload(&keys).unwrap(), device.upload(&[7u32; 3]).unwrap());
            let (codes, mut outcomes) =
                (device.upload(&[1u8; 2]).unwrap(), device.alloc(3).unwrap());
            let (all, few) = (values.view(), values.view().slice(..2).unwrap());
            let assign = Operations::All(Operation::InsertOrAssign);
            let mut fails = |operations, values, n| {
                let to = outcomes.view_mut().slice(..n).unwrap();
                let e = map.apply(&stream, operations, of_keys.view(), values, to).unwrap_err();
                assert!(matches!(e, koel::Error::Length { .. }), "{e}");
                assert_eq!(map.pairs().unwrap(), [(1, 10)], "{}", device.name());
            };
            fails(Operations::Each(codes.view()), all, 3);
            fails(assign, few, 3);
            fails(assign, all, 2);
            let mut set = Set128::build(&device, &[1]).unwrap();
            let each = Operations::Each(codes.view());
            let e = set.apply(&stream, each, of_keys.view(), outcomes.view_mut()).unwrap_err();
            assert!(matches!(e, koel::Error::Length { .. }), "{e}");
            assert_eq!(set.keys().unwrap(), [1], "{}", device.name());
        }
    }
}
/// A new key with the fingerprint of one that is held, or of another new one: another function is
/// drawn.
#[test]
fn shared_fingerprints_are_told_apart() {
    for device in devices() {
        let pair = crate::keys128::colliding(1, 2).concat();
        let (one, other) = (pair[0], pair[1]);
        let options = MapOptions::default().with_seed(0).with_duplicates(Duplicates::KeepFirst);
        let stream = device.stream().unwrap();
        let build = |keys: &[u128]| {
            let (keys, values) =
                (device.stage(keys).unwrap(), device.stage(&[5u32, 6][..keys.len()]).unwrap());
            let mut builder = Map128Builder::new(&device, options).unwrap();
            builder.build(&stream, keys.view(), values.view()).unwrap()
        };
        let mut map = build(&[one, 3]);
        map.insert(&[other], &[7]).unwrap();
        assert_eq!(map.get(&[one, 3, other]).unwrap(), [Some(5), Some(6), Some(7)]);
        let mut map = build(&[3, 4]);
        map.insert(&[other, 9, one], &[7, 8, 9]).unwrap();
        let found = map.get(&[one, 3, other, 4]).unwrap();
        assert_eq!(found, [Some(9), Some(5), Some(7), Some(6)]);
    }
}

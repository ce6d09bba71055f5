//! Maps that are updated in batches, against a `HashMap`, on every device: outcomes, lookups and pairs after each batch.
mod support;

use koel::map::layout::{Layout, Narrow};
use koel::{
    Device, DeviceKind, Key, Map, MapBuilder, MapJoiner, MapOptions, MapUpdater, Operation, Operations, Outcome,
};
use koel::{Stream, Value};
use std::collections::HashMap;
use support::{KEY_SETS, Random, devices, is_fast, scramble};

const ALL: [Operation; 4] = [Operation::Insert, Operation::InsertOrAssign, Operation::InsertOrAdd, Operation::Erase];

fn key<K: Key>(word: u32) -> K {
    K::narrowed((scramble(word, 77) as u64) << 32 | word as u64)
}
fn build<K: Key, V: Value>(device: &Device, keys: &[K], load: f64) -> (Map<K, V>, HashMap<K, V>) {
    let values = (0..keys.len() as u64).map(|i| V::narrowed(i << 32 | i)).collect::<Vec<_>>();
    let (k, v) = (device.stage(keys).unwrap(), device.stage(&values).unwrap());
    let mut builder = MapBuilder::new(device, MapOptions { load, ..MapOptions::default() }).unwrap();
    let map = builder.build(&device.stream().unwrap(), k.view(), v.view()).unwrap();
    (map, keys.iter().copied().zip(values).collect())
}
/// One operation on the oracle.
fn apply<K: Key, V: Value>(oracle: &mut HashMap<K, V>, operation: Operation, key: K, value: V) -> Outcome {
    match (operation, oracle.get(&key).copied()) {
        (Operation::Erase, before) => {
            oracle.remove(&key);
            if before.is_some() { Outcome::Erased } else { Outcome::Missing }
        }
        (_, None) => {
            oracle.insert(key, value);
            Outcome::Inserted
        }
        (Operation::Insert, Some(_)) => Outcome::Kept,
        (Operation::InsertOrAssign, Some(_)) => {
            oracle.insert(key, value);
            Outcome::Assigned
        }
        (Operation::InsertOrAdd, Some(before)) => {
            oracle.insert(key, V::narrowed(before.widened().wrapping_add(value.widened())));
            Outcome::Added
        }
    }
}
/// A batch on the map and the oracle. `operation`: `None` if they are mixed.
fn batch<K: Key, V: Value>(
    updater: &mut MapUpdater<K, V>,
    map: &mut Map<K, V>,
    oracle: &mut HashMap<K, V>,
    stream: &Stream,
    operation: Option<Operation>,
    keys: &[K],
    random: &mut Random,
) {
    let device = stream.device();
    let values = keys.iter().map(|_| V::narrowed(random.word())).collect::<Vec<_>>();
    let of = |random: &mut Random| operation.unwrap_or(ALL[random.below(4) as usize]);
    let operations = keys.iter().map(|_| of(random)).collect::<Vec<_>>();
    let codes = operations.iter().map(|&o| o as u8).collect::<Vec<_>>();
    let (k, v, o) = (device.upload(keys).unwrap(), device.upload(&values).unwrap(), device.upload(&codes).unwrap());
    let mut outcomes = device.upload(&vec![0xAA; keys.len()]).unwrap();
    let all = operation.map_or(Operations::Each(o.view()), Operations::All);
    updater.apply(map, stream, all, k.view(), v.view(), outcomes.view_mut()).unwrap();
    for (i, outcome) in outcomes.download().unwrap().into_iter().enumerate() {
        let expected = apply(oracle, operations[i], keys[i], values[i]);
        assert_eq!(Outcome::of(outcome), Some(expected), "{:?} of {:?} on {device:?}", operations[i], keys[i]);
    }
}
fn check<K: Key, V: Value>(map: &Map<K, V>, oracle: &HashMap<K, V>, others: &[K]) {
    let place = map.device().name();
    assert_eq!(map.len().unwrap(), oracle.len(), "{place}: {:?}", map.report());
    let queries = oracle.keys().chain(others).copied().collect::<Vec<_>>();
    for (q, found) in queries.iter().zip(map.get(&queries).unwrap()) {
        assert_eq!(found, oracle.get(q).copied(), "{place}: key {q:?}, {:?}", map.report());
    }
    let count = queries.iter().filter(|q| oracle.contains_key(q)).count() as u64;
    assert_eq!(map.count(&queries).unwrap(), count, "{place}");
    let pairs = map.pairs().unwrap();
    assert_eq!(pairs.len(), oracle.len(), "{place}");
    assert!(pairs.into_iter().collect::<HashMap<_, _>>() == *oracle, "{place}: the pairs are others");
}

/// Batches at random: sizes, operations, how many keys there are, some of them often.
fn histories<K: Key, V: Value>(seed: u64) {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (most, batches) = if is_fast(&device) { (20_000, 30) } else { (900, 10) };
        for load in [0.5, 0.9] {
            let mut random = Random(seed);
            let ambiguous = LayoutOf::<K, V>::ambiguous();
            let any = |random: &mut Random, world: u64| match random.below(16) {
                0 => ambiguous,
                1 => key(random.below(3) as u32),
                _ => key(random.below(world) as u32),
            };
            let n = random.below(most) as u32;
            let (mut map, mut oracle) = build::<K, V>(&device, &(0..n).map(key).collect::<Vec<_>>(), load);
            let mut updater = MapUpdater::new(&device, MapOptions { load, ..MapOptions::default() }).unwrap();
            for _ in 0..batches {
                let (n, world) = (random.below(most), 1 + random.below(most));
                let keys = (0..n).map(|_| any(&mut random, world)).collect::<Vec<_>>();
                let operation = ALL.get(random.below(6) as usize).copied();
                batch(&mut updater, &mut map, &mut oracle, &stream, operation, &keys, &mut random);
                check(&map, &oracle, &keys);
            }
        }
    }
}
/// The key that looks like an empty slot, if there is one of this type.
struct LayoutOf<K, V>(std::marker::PhantomData<(K, V)>);
impl<K: Key, V: Value> LayoutOf<K, V> {
    fn ambiguous() -> K {
        type L<K, V> = <K as Key>::Layout<V>;
        L::<K, V>::unmixed(0, L::<K, V>::AMBIGUOUS)
    }
}
#[test]
fn random_histories() {
    histories::<u32, u32>(1);
    histories::<u64, u64>(2);
}
#[test]
fn random_histories_of_other_pairings() {
    histories::<u32, u64>(3);
    histories::<u64, u32>(4);
}

/// Keys that break weak hash functions: in, changed, out.
#[test]
fn every_key_set() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let n = if is_fast(&device) { 30_000 } else { 1_500 };
        for set in KEY_SETS {
            let keys = (0..n).map(set.key).collect::<Vec<_>>();
            let (mut map, mut oracle) = build::<u32, u32>(&device, &keys[..n as usize / 2], 0.8);
            let mut updater = MapUpdater::new(&device, MapOptions::default()).unwrap();
            let mut random = Random(n as u64);
            for operation in [Some(Operation::InsertOrAdd), None, Some(Operation::Erase)] {
                batch(&mut updater, &mut map, &mut oracle, &stream, operation, &keys, &mut random);
                check(&map, &oracle, &keys[..100]);
            }
            assert!(map.is_empty().unwrap());
        }
    }
}
/// Keys made for the mixer: all in one partition, or in one bucket, where no growth helps.
#[test]
fn keys_made_to_collide() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (mut map, mut oracle) = build::<u32, u32>(&device, &(0..3000).collect::<Vec<_>>(), 0.8);
        let mut updater = MapUpdater::new(&device, MapOptions::default()).unwrap();
        let mut random = Random(1);
        let n = if is_fast(&device) { 20_000 } else { 3_000 };
        let keys = (0..n).map(|i| Narrow::unmixed(0, i)).collect::<Vec<_>>();
        for operation in [Some(Operation::Insert), None, Some(Operation::Erase)] {
            batch(&mut updater, &mut map, &mut oracle, &stream, operation, &keys, &mut random);
            check(&map, &oracle, &keys[..100]);
        }
    }
}
/// A frequent key among others, and one alone.
#[test]
fn frequent_keys() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let n = if is_fast(&device) { 50_000u32 } else { 2_000 };
        let (mut map, mut oracle) = build::<u64, u32>(&device, &(0..n).map(key).collect::<Vec<_>>(), 0.8);
        let mut updater = MapUpdater::new(&device, MapOptions::default()).unwrap();
        let mut random = Random(1);
        for share in [2, 1] {
            let keys = (0..n).map(|i| if i % share == 0 { key(n + 1) } else { key(i) }).collect::<Vec<_>>();
            for operation in ALL.into_iter().map(Some).chain([None]) {
                batch(&mut updater, &mut map, &mut oracle, &stream, operation, &keys, &mut random);
                check(&map, &oracle, &keys[..10]);
            }
        }
    }
}
/// Maps that came from files and from other devices, and what is made of maps that were updated: joins, copies, files.
#[test]
fn updated_maps_are_maps() {
    let all = devices();
    for (device, other) in all.iter().zip(all.iter().rev()) {
        let stream = device.stream().unwrap();
        let keys = (0..2000).map(key).collect::<Vec<u32>>();
        let (map, mut oracle) = build::<u32, u64>(other, &keys, 0.9);
        let mut map = map.to_device(device).unwrap();
        let mut updater = MapUpdater::new(device, MapOptions::default()).unwrap();
        let mut random = Random(3);
        for round in 0..3 {
            let some = (0..700).map(|_| key(random.below(2500) as u32)).collect::<Vec<_>>();
            batch(&mut updater, &mut map, &mut oracle, &stream, None, &some, &mut random);
            check(&map, &oracle, &some);
            let mut rows = map.join(&some).unwrap();
            rows.sort_unstable();
            let expected = (0..some.len()).filter_map(|i| oracle.get(&some[i]).map(|&v| (i as u32, v)));
            assert!(rows == expected.collect::<Vec<_>>(), "{}", device.name());
            map = match round {
                0 => {
                    let mut bytes = std::io::Cursor::new(vec![]);
                    map.save_to(&mut bytes).unwrap();
                    Map::load_bytes(device, bytes.get_ref()).unwrap()
                }
                _ => map.to_device(other).unwrap().to_device(device).unwrap(),
            };
            check(&map, &oracle, &some);
        }
    }
}
/// A map that was opened where its file is gets memory of its own; the file stays as it was.
#[test]
fn an_opened_map_is_updated_in_memory() {
    let device = Device::cpu().unwrap();
    let path = tempfile::tempdir().unwrap().keep().join("map.koel");
    Map::build(&device, &[1u32, 2, 3], &[4u32, 5, 6]).unwrap().save(&path).unwrap();
    let before = std::fs::read(&path).unwrap();
    let mut map = Map::<u32, u32>::open(&path).unwrap();
    assert_eq!(map.insert(&[3, 4], &[7, 8]).unwrap(), [Outcome::Kept, Outcome::Inserted]);
    assert_eq!(map.get(&[1, 3, 4]).unwrap(), [Some(4), Some(6), Some(8)]);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}
/// From nothing, by small batches, through host slices.
#[test]
fn maps_grow_from_nothing() {
    for device in devices() {
        let mut map = Map::<u64, u64>::build(&device, &[], &[]).unwrap();
        let (most, mut n) = (if is_fast(&device) { 100_000u32 } else { 4_000 }, 1);
        let mut next = 0;
        while next < most {
            let keys = (next..next + n).map(key).collect::<Vec<u64>>();
            let outcomes = map.insert_or_add(&keys, &keys).unwrap();
            assert!(outcomes.iter().all(|&o| o == Outcome::Inserted), "{next} on {}", device.name());
            (next, n) = (next + n, n * 3);
        }
        let keys = (0..next).map(key).collect::<Vec<u64>>();
        check(&map, &keys.iter().map(|&k| (k, k)).collect(), &[]);
        assert!(map.report().unwrap().slots < 2 * next as usize + 64);
        assert!(map.erase(&keys).unwrap().iter().all(|&o| o == Outcome::Erased));
        map.shrink().unwrap();
        assert!(map.is_empty().unwrap() && map.report().unwrap().slots < 100);
    }
}
/// Updates and lookups in a graph, with other keys each time.
#[test]
fn updates_are_part_of_a_graph() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let n = 500u32;
        let (mut map, mut oracle) = build::<u32, u32>(&device, &(0..4 * n).map(key).collect::<Vec<_>>(), 0.5);
        let mut updater = MapUpdater::new(&device, MapOptions::default()).unwrap();
        let keys = device.upload(&(0..n).map(key::<u32>).collect::<Vec<_>>()).unwrap();
        let mut outcomes = device.alloc::<u8>(n as usize).unwrap();
        let all = Operations::All(Operation::InsertOrAdd);
        updater.enqueue(&mut map, &stream, all, keys.view(), keys.view(), outcomes.view_mut()).unwrap();
        for word in (0..n).map(key::<u32>) {
            apply(&mut oracle, Operation::InsertOrAdd, word, word);
        }
        let mut graph = stream
            .capture((updater, map, keys, outcomes), move |stream, (updater, map, keys, outcomes)| {
                updater.enqueue(map, stream, all, keys.view(), keys.view(), outcomes.view_mut())
            })
            .unwrap();
        for round in 0..3 {
            let words = (0..n).map(|i| key::<u32>(i * 7 + round * n)).collect::<Vec<_>>();
            graph.state_mut().2.view_mut().copy_from_host(&words).unwrap();
            graph.launch(&stream).unwrap();
            let outcomes = graph.state().3.download().unwrap();
            for (&word, outcome) in words.iter().zip(outcomes) {
                let expected = apply(&mut oracle, Operation::InsertOrAdd, word, word);
                assert_eq!(Outcome::of(outcome), Some(expected), "round {round} on {}", device.name());
            }
            check(&graph.state().1, &oracle, &words);
        }
    }
}
/// A joiner and an updater take turns.
#[test]
fn joins_see_updates() {
    for device in devices().into_iter().filter(|d| d.kind() != DeviceKind::Cpu) {
        let stream = device.stream().unwrap();
        let n = 1000u32;
        let keys = (0..n).map(key).collect::<Vec<u32>>();
        let mut map = Map::build(&device, &keys, &keys).unwrap();
        let (mut updater, mut joiner) =
            (MapUpdater::new(&device, MapOptions::default()).unwrap(), MapJoiner::new(&device).unwrap());
        let staged = device.upload(&keys).unwrap();
        let (mut outcomes, mut count) = (device.alloc::<u8>(100).unwrap(), device.alloc(1).unwrap());
        for round in 0..5u64 {
            let part = staged.view().slice(round as usize * 100..(round as usize + 1) * 100).unwrap();
            let none = staged.view().slice(..0).unwrap();
            let erase = Operations::All(Operation::Erase);
            updater.enqueue(&mut map, &stream, erase, part, none, outcomes.view_mut()).unwrap();
            joiner.count_into(&stream, &map, staged.view(), count.view_mut()).unwrap();
            assert_eq!(count.download().unwrap(), [n as u64 - (round + 1) * 100]);
        }
    }
}

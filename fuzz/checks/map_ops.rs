//! What must hold of maps and their updates: after every batch, outcomes and lookups are those of a `HashMap`.
use koel::map::{Key, Value};
use koel::{Device, Duplicates, Map, MapBuilder, MapOptions, MapUpdater, Operation, Operations, Outcome};
use koel_kernels::map::layout::{Layout, Number};
use std::collections::HashMap;
use std::fmt::Debug;
use std::io::Cursor;
use std::sync::LazyLock;

use crate::script::{self, Batch, Header, Step};

static CPUS: LazyLock<[Device; 2]> = LazyLock::new(|| [1, 2].map(|threads| Device::cpu_with_threads(threads).unwrap()));
/// Operations and keys that the executor is asked of, at most: it takes milliseconds for each launch.
const MOST_ON_EXECUTOR: usize = 64;
/// Pairs that every map has room for, wherever they belong: a bucket has four slots, of which updates leave one free.
const ROOM: usize = 3;
const OPERATIONS: [Operation; 4] =
    [Operation::Insert, Operation::InsertOrAssign, Operation::InsertOrAdd, Operation::Erase];

/// Runs the bytes as a script.
pub fn check(bytes: &[u8]) {
    let Some((header, batches)) = script::read(bytes) else { return };
    match header.types {
        0 => on_devices::<u32, u32>(&header, &batches),
        1 => on_devices::<u32, u64>(&header, &batches),
        2 => on_devices::<u64, u32>(&header, &batches),
        _ => on_devices::<u64, u64>(&header, &batches),
    }
}
fn on_devices<K: Key + Debug, V: Value + Debug>(header: &Header, batches: &[Batch]) {
    CPUS.iter().for_each(|cpu| run::<K, V>(cpu, header, batches));
    let all = header.keys + batches.iter().map(Batch::len).sum::<usize>();
    if header.on_executor && all <= MOST_ON_EXECUTOR {
        run::<K, V>(&Device::executor(u64::from(header.seed)), header, batches);
    }
}

fn run<K: Key + Debug, V: Value + Debug>(device: &Device, header: &Header, batches: &[Batch]) {
    let unmixed = |mixed: u64| match size_of::<<K::Layout<V> as Layout>::Mixed>() {
        4 => K::Layout::<V>::unmixed(header.seed, Number::narrowed(mixed >> 32)),
        _ => K::Layout::<V>::unmixed(header.seed, Number::narrowed(mixed)),
    };
    let alphabet = (0..=255).map(|i| script::key(i, K::narrowed, unmixed)).collect::<Vec<_>>();
    // Half of the keys that the map is built of are of the alphabet, of which some may be equal.
    let of_number = |i: usize| alphabet.get(2 * i).copied().unwrap_or_else(|| K::narrowed(script::word(i as u32)));
    let keys = (0..header.keys).map(of_number).collect::<Vec<K>>();
    let values = (0..header.keys).map(|i| V::narrowed(script::word(!i as u32))).collect::<Vec<V>>();
    let mut oracle = keys.iter().copied().zip(values.iter().copied()).collect::<HashMap<K, V>>();

    let options = MapOptions {
        load: header.load,
        duplicates: Duplicates::KeepLast,
        seed: Some(header.seed),
        reproducible: header.reproducible,
    };
    let stream = device.stream().unwrap();
    let mut builder = MapBuilder::new(device, options).unwrap();
    let (k, v) = (device.stage(&keys).unwrap(), device.stage(&values).unwrap());
    let mut map = builder.build(&stream, k.view(), v.view()).unwrap();
    let mut updater = MapUpdater::<K, V>::new(device, options).unwrap();
    compare(&map, &oracle, &alphabet);
    for batch in batches {
        match batch {
            Batch::Shrunk(load) => map.shrink_to(*load).unwrap(),
            Batch::Reread => {
                let mut bytes = Cursor::new(vec![]);
                map.save_to(&mut bytes).unwrap();
                map = Map::load_bytes(device, &bytes.into_inner()).unwrap();
            }
            Batch::All(code, steps) => {
                let steps = steps.iter().map(|&step| Step { operation: *code, ..step }).collect::<Vec<_>>();
                let all = Operations::All(OPERATIONS[usize::from(*code)]);
                update(&mut updater, &mut map, &mut oracle, &alphabet, &steps, all, true);
            }
            Batch::Each(steps) | Batch::Enqueued(steps) => {
                let codes = steps.iter().map(|step| OPERATIONS[usize::from(step.operation)] as u8).collect::<Vec<_>>();
                let codes = device.stage(&codes).unwrap();
                let each = Operations::Each(codes.view());
                let grows = matches!(batch, Batch::Each(_));
                update(&mut updater, &mut map, &mut oracle, &alphabet, steps, each, grows);
            }
        }
        compare(&map, &oracle, &alphabet);
    }
    let mut pairs = map.pairs().unwrap();
    pairs.sort_unstable_by_key(|&(key, _)| Into::<u64>::into(key));
    let mut expected = oracle.into_iter().collect::<Vec<_>>();
    expected.sort_unstable_by_key(|&(key, _)| Into::<u64>::into(key));
    assert_eq!(pairs, expected);
}

/// Does the steps in the map and in the oracle, and compares outcomes. What does not grow may leave steps, but
/// not when there is room.
fn update<K: Key + Debug, V: Value + Debug>(
    updater: &mut MapUpdater<K, V>,
    map: &mut Map<K, V>,
    oracle: &mut HashMap<K, V>,
    alphabet: &[K],
    steps: &[Step],
    operations: Operations<'_>,
    grows: bool,
) {
    let device = map.device().clone();
    let stream = device.stream().unwrap();
    let keys = steps.iter().map(|step| alphabet[usize::from(step.key)]).collect::<Vec<_>>();
    let values = steps.iter().map(|step| V::narrowed(step.value)).collect::<Vec<_>>();
    let (k, v) = (device.stage(&keys).unwrap(), device.stage(&values).unwrap());
    let mut outcomes = device.alloc::<u8>(steps.len()).unwrap();
    let on = (k.view(), v.view(), outcomes.view_mut());
    match grows {
        true => updater.apply(map, &stream, operations, on.0, on.1, on.2).unwrap(),
        false => updater.enqueue(map, &stream, operations, on.0, on.1, on.2).unwrap(),
    }
    stream.synchronize().unwrap();
    let outcomes = outcomes.download().unwrap();
    let room_needed = oracle.len() + keys.iter().filter(|key| !oracle.contains_key(key)).count();
    let mut left = vec![];
    for (i, outcome) in outcomes.iter().enumerate() {
        let (outcome, key) = (Outcome::of(*outcome).unwrap(), keys[i]);
        if outcome == Outcome::NotDone {
            assert!(
                !grows && room_needed > ROOM,
                "operation {i} on {key:?} was not done: {room_needed} pairs have room"
            );
            left.push(key);
            continue;
        }
        assert!(!left.contains(&key), "operation {i} on {key:?} was done behind one that was not");
        let operation = OPERATIONS[usize::from(steps[i].operation)];
        assert_eq!(outcome, apply(oracle, operation, key, values[i]), "operation {i}, {operation:?} {key:?}");
    }
}
fn apply<K: Key, V: Value>(oracle: &mut HashMap<K, V>, operation: Operation, key: K, value: V) -> Outcome {
    let Some(before) = oracle.get(&key).copied() else {
        if operation == Operation::Erase {
            return Outcome::Missing;
        }
        oracle.insert(key, value);
        return Outcome::Inserted;
    };
    let sum = V::narrowed(Into::<u64>::into(before).wrapping_add(value.into()));
    match operation {
        Operation::Insert => Outcome::Kept,
        Operation::InsertOrAssign => {
            oracle.insert(key, value);
            Outcome::Assigned
        }
        Operation::InsertOrAdd => {
            oracle.insert(key, sum);
            Outcome::Added
        }
        Operation::Erase => {
            oracle.remove(&key);
            Outcome::Erased
        }
    }
}

/// Compares all lookups of the alphabet's keys.
fn compare<K: Key + Debug, V: Value + Debug>(map: &Map<K, V>, oracle: &HashMap<K, V>, alphabet: &[K]) {
    assert_eq!(map.len().unwrap(), oracle.len());
    let expected = alphabet.iter().map(|key| oracle.get(key).copied()).collect::<Vec<_>>();
    assert_eq!(map.get(alphabet).unwrap(), expected);
    let there = expected.iter().map(Option::is_some).collect::<Vec<_>>();
    assert_eq!(map.count(alphabet).unwrap(), there.iter().filter(|&&there| there).count() as u64);
    assert_eq!(map.contains(alphabet).unwrap(), there);
}

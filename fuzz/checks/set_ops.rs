//! What must hold of sets and their updates: after every batch, outcomes and lookups are those of a `HashSet`.
use koel::map::Key;
use koel::{Device, Operations, Outcome, Set, SetBuilder, SetOperation, SetOptions, SetUpdater};
use koel_kernels::map::layout::{Layout, Number};
use std::collections::HashSet;
use std::fmt::Debug;
use std::io::Cursor;
use std::sync::LazyLock;

#[allow(dead_code, reason = "sets have no values, and are reproducible without being asked")]
use crate::script::{self, Batch, Header, Step};

static CPUS: LazyLock<[Device; 2]> = LazyLock::new(|| [1, 2].map(|threads| Device::cpu_with_threads(threads).unwrap()));
/// Operations and keys that the executor is asked of, at most: it takes milliseconds for each launch.
const MOST_ON_EXECUTOR: usize = 64;
/// Keys that every set has room for, wherever they belong: a bucket has four slots or eight, of which updates
/// leave one free.
const ROOM: usize = 3;
const OPERATIONS: [SetOperation; 2] = [SetOperation::Insert, SetOperation::Erase];

/// Runs the bytes as a script.
pub fn check(bytes: &[u8]) {
    let Some((header, batches)) = script::read(bytes) else { return };
    match header.types & 1 {
        0 => on_devices::<u32>(&header, &batches),
        _ => on_devices::<u64>(&header, &batches),
    }
}
fn on_devices<K: Key + Debug>(header: &Header, batches: &[Batch]) {
    CPUS.iter().for_each(|cpu| run::<K>(cpu, header, batches));
    let all = header.keys + batches.iter().map(Batch::len).sum::<usize>();
    if header.on_executor && all <= MOST_ON_EXECUTOR {
        run::<K>(&Device::executor(u64::from(header.seed)), header, batches);
    }
}
fn operation(code: u8) -> SetOperation {
    OPERATIONS[usize::from(code & 1)]
}

fn run<K: Key + Debug>(device: &Device, header: &Header, batches: &[Batch]) {
    // Sets mix their keys as maps do.
    let unmixed = |mixed: u64| match size_of::<<K::Layout<u32> as Layout>::Mixed>() {
        4 => K::Layout::<u32>::unmixed(header.seed, Number::narrowed(mixed >> 32)),
        _ => K::Layout::<u32>::unmixed(header.seed, Number::narrowed(mixed)),
    };
    let alphabet = (0..=255).map(|i| script::key(i, K::narrowed, unmixed)).collect::<Vec<_>>();
    // Half of the keys that the set is built of are of the alphabet, of which some may be equal.
    let of_number = |i: usize| alphabet.get(2 * i).copied().unwrap_or_else(|| K::narrowed(script::word(i as u32)));
    let keys = (0..header.keys).map(of_number).collect::<Vec<K>>();
    let mut oracle = keys.iter().copied().collect::<HashSet<K>>();

    let options = SetOptions { load: header.load, seed: Some(header.seed) };
    let stream = device.stream().unwrap();
    let k = device.stage(&keys).unwrap();
    let mut set = SetBuilder::new(device, options).unwrap().build(&stream, k.view()).unwrap();
    let mut updater = SetUpdater::<K>::new(device, options).unwrap();
    compare(&set, &oracle, &alphabet);
    for batch in batches {
        match batch {
            Batch::Shrunk(load) => set.shrink_to(*load).unwrap(),
            Batch::Reread => {
                let mut bytes = Cursor::new(vec![]);
                set.save_to(&mut bytes).unwrap();
                set = Set::load_bytes(device, &bytes.into_inner()).unwrap();
            }
            Batch::All(code, steps) => {
                let steps = steps.iter().map(|&step| Step { operation: *code, ..step }).collect::<Vec<_>>();
                let all = Operations::All(operation(*code));
                update(&mut updater, &mut set, &mut oracle, &alphabet, &steps, all, true);
            }
            Batch::Each(steps) | Batch::Enqueued(steps) => {
                let codes = steps.iter().map(|step| operation(step.operation) as u8).collect::<Vec<_>>();
                let codes = device.stage(&codes).unwrap();
                let each = Operations::Each(codes.view());
                let grows = matches!(batch, Batch::Each(_));
                update(&mut updater, &mut set, &mut oracle, &alphabet, steps, each, grows);
            }
        }
        compare(&set, &oracle, &alphabet);
    }
    let sorted = |mut keys: Vec<K>| {
        keys.sort_unstable_by_key(|&key| Into::<u64>::into(key));
        keys
    };
    assert_eq!(sorted(set.keys().unwrap()), sorted(oracle.into_iter().collect()));
}

/// Does the steps in the set and in the oracle, and compares outcomes. What does not grow may leave steps, but
/// not when there is room.
fn update<K: Key + Debug>(
    updater: &mut SetUpdater<K>,
    set: &mut Set<K>,
    oracle: &mut HashSet<K>,
    alphabet: &[K],
    steps: &[Step],
    operations: Operations<'_, SetOperation>,
    grows: bool,
) {
    let device = set.device().clone();
    let stream = device.stream().unwrap();
    let keys = steps.iter().map(|step| alphabet[usize::from(step.key)]).collect::<Vec<_>>();
    let k = device.stage(&keys).unwrap();
    let mut outcomes = device.alloc::<u8>(steps.len()).unwrap();
    match grows {
        true => updater.apply(set, &stream, operations, k.view(), outcomes.view_mut()).unwrap(),
        false => updater.enqueue(set, &stream, operations, k.view(), outcomes.view_mut()).unwrap(),
    }
    stream.synchronize().unwrap();
    let outcomes = outcomes.download().unwrap();
    let room_needed = oracle.len() + keys.iter().filter(|&key| !oracle.contains(key)).count();
    let mut left = vec![];
    for (i, outcome) in outcomes.iter().enumerate() {
        let (outcome, key) = (Outcome::of(*outcome).unwrap(), keys[i]);
        if outcome == Outcome::NotDone {
            assert!(
                !grows && room_needed > ROOM,
                "operation {i} on {key:?} was not done: {room_needed} keys have room"
            );
            left.push(key);
            continue;
        }
        assert!(!left.contains(&key), "operation {i} on {key:?} was done behind one that was not");
        let expected = match operation(steps[i].operation) {
            SetOperation::Insert if oracle.insert(key) => Outcome::Inserted,
            SetOperation::Insert => Outcome::Kept,
            SetOperation::Erase if oracle.remove(&key) => Outcome::Erased,
            SetOperation::Erase => Outcome::Missing,
        };
        assert_eq!(outcome, expected, "operation {i}, {:?} {key:?}", operation(steps[i].operation));
    }
}

/// Compares all lookups of the alphabet's keys.
fn compare<K: Key + Debug>(set: &Set<K>, oracle: &HashSet<K>, alphabet: &[K]) {
    assert_eq!(set.len().unwrap(), oracle.len());
    let there = alphabet.iter().map(|key| oracle.contains(key)).collect::<Vec<_>>();
    assert_eq!(set.contains(alphabet).unwrap(), there);
    assert_eq!(set.count(alphabet).unwrap(), there.iter().filter(|&&there| there).count() as u64);
}

//! Bytes as a script: options of a table, then batches of operations on a small alphabet of keys.
//! The checks of maps, sets and groups include this file.
use koel::{Device, Key, Outcome, Value};
use koel_kernels::table::layout::{Layout, Number};
use std::fmt::Debug;
use std::sync::LazyLock;

static CPUS: LazyLock<[Device; 2]> =
    LazyLock::new(|| [1, 2].map(|threads| Device::cpu_with_threads(threads).unwrap()));
/// Operations and keys that the executor is asked of, at most: it takes milliseconds for each
/// launch.
const MAX_ON_EXECUTOR: usize = 64;
/// Keys that every table has room for, wherever they belong: a bucket has four slots or eight, of
/// which updates leave one free.
const ROOM: usize = 3;

/// What a script begins with.
pub struct Header {
    /// Which types keys and values have.
    pub types: u8,
    pub reproducible: bool,
    pub load: f64,
    /// Whether the test executor is asked too, if the script is short.
    pub on_executor: bool,
    pub seed: u32,
    /// How many keys the table is built of.
    pub keys: usize,
}
/// A key of the alphabet, what is done with it and with which value.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub key: u8,
    pub operation: u8,
    pub value: u64,
}
/// What is done at once.
#[derive(Debug)]
pub enum Batch {
    /// The same operation on every key.
    All(u8, Vec<Step>),
    /// Each step's own operation.
    Each(Vec<Step>),
    /// As `Each`, by what neither waits nor lets the table grow.
    Enqueued(Vec<Step>),
    /// The table is built again, at this load.
    Shrunk(f64),
    /// The table is written to bytes, and read again.
    Reread,
}
impl Batch {
    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        match self {
            Batch::All(_, steps) | Batch::Each(steps) | Batch::Enqueued(steps) => steps.len(),
            Batch::Shrunk(_) | Batch::Reread => 0,
        }
    }
}

/// Loads that tables are built for.
const LOADS: [f64; 4] = [0.5, 0.8, 0.9, 0.95];
/// Keys that tables are built of: from one bucket to several partitions.
const KEYS: [usize; 8] = [0, 1, 2, 3, 9, 60, 500, 4000];
/// Operations of a script, at most: a longer one is cut.
const MAX_OPERATIONS: usize = 2000;

/// A table, what it must hold, and what changes both.
pub trait World: Sized {
    /// As the header says, of keys of which half are of the alphabet.
    fn new(device: &Device, header: &Header) -> Self;
    /// The table is built again, at this load.
    fn shrink(&mut self, load: f64);
    /// The table is written to bytes, and read again.
    fn reread(&mut self);
    /// Does the steps, all by operation `all` or each by its own, and compares outcomes. What does
    /// not grow may leave steps, but not when there is room.
    fn update(&mut self, all: Option<u8>, steps: &[Step], grows: bool);
    /// Compares lookups of the alphabet's keys.
    fn compare(&self);
    /// Compares all that it holds.
    fn compare_all(&self);
}
/// Runs a script on the CPU and, if it asks for that and is short, on the executor.
pub fn run<W: World>(header: &Header, batches: &[Batch]) {
    let all = header.keys + batches.iter().map(Batch::len).sum::<usize>();
    on_devices(header, all, |device| {
        let mut world = W::new(device, header);
        world.compare();
        for batch in batches {
            match batch {
                Batch::All(code, steps) => world.update(Some(*code), steps, true),
                Batch::Each(steps) => world.update(None, steps, true),
                Batch::Enqueued(steps) => world.update(None, steps, false),
                Batch::Shrunk(load) => world.shrink(*load),
                Batch::Reread => world.reread(),
            }
            world.compare();
        }
        world.compare_all();
    });
}
/// Compares outcomes of a batch on these keys with what is expected of each operation, which
/// `expected` does in the oracle. What does not grow may leave operations, if more than `ROOM` keys
/// need room, and then all later ones on the same key.
pub fn compare_outcomes<K: Key + Debug>(
    outcomes: &[u8],
    keys: &[K],
    (grows, room_needed): (bool, usize),
    mut expected: impl FnMut(usize, K) -> Outcome,
) {
    let mut left = vec![];
    for (i, (&outcome, &key)) in outcomes.iter().zip(keys).enumerate() {
        let outcome = Outcome::of(outcome).unwrap();
        if outcome == Outcome::NotDone {
            assert!(
                !grows && room_needed > ROOM,
                "operation {i} on {key:?} was not done: {room_needed} keys have room"
            );
            left.push(key);
            continue;
        }
        assert!(!left.contains(&key), "operation {i} on {key:?} was done behind one that was not");
        assert_eq!(outcome, expected(i, key), "operation {i} on {key:?}");
    }
}
/// Calls with the CPU, of one thread and of two, and with the executor for no more than some keys.
pub fn on_devices(header: &Header, keys: usize, check: impl Fn(&Device)) {
    CPUS.iter().for_each(&check);
    if header.on_executor && keys <= MAX_ON_EXECUTOR {
        check(&Device::executor(u64::from(header.seed)));
    }
}

/// Reads a script; `None` if there is not even a header.
pub fn read(bytes: &[u8]) -> Option<(Header, Vec<Batch>)> {
    let (header, mut rest) = read_header(bytes)?;
    let (mut batches, mut all) = (vec![], 0);
    while let Some(batch) = next(&mut rest) {
        all += batch.len();
        if all > MAX_OPERATIONS {
            break;
        }
        batches.push(batch);
    }
    Some((header, batches))
}
/// Reads a header; and the bytes behind it.
pub fn read_header(bytes: &[u8]) -> Option<(Header, &[u8])> {
    let (&[first, second, s0, s1, s2, s3], rest) = bytes.split_first_chunk()?;
    let header = Header {
        types: first & 3,
        reproducible: first & 4 != 0,
        load: LOADS[usize::from(first >> 3 & 3)],
        on_executor: first & 32 != 0,
        seed: u32::from_le_bytes([s0, s1, s2, s3]),
        keys: KEYS[usize::from(second & 7)],
    };
    Some((header, rest))
}
fn next(rest: &mut &[u8]) -> Option<Batch> {
    let code = byte(rest)?;
    let count = usize::from(code >> 3 & 15) + 1;
    // Every second code has runs of 16 keys.
    let run = if code & 128 != 0 { 16 } else { 1 };
    let mut steps = || {
        let mut steps = vec![];
        for _ in 0..count {
            let (Some(key), Some(what)) = (byte(rest), byte(rest)) else { break };
            let value =
                if what >> 2 == 63 { u64::MAX } else { u64::from(what >> 2) * 0x1_0000_0001 };
            steps.extend((0..run).map(|i| Step {
                key: key.wrapping_add(i),
                operation: what & 3,
                value,
            }));
        }
        steps
    };
    Some(match code & 7 {
        operation @ 0..4 => Batch::All(operation, steps()),
        4 => Batch::Each(steps()),
        5 => Batch::Enqueued(steps()),
        6 => Batch::Shrunk(LOADS[count & 3]),
        _ => Batch::Reread,
    })
}
fn byte(rest: &mut &[u8]) -> Option<u8> {
    let (&byte, behind) = rest.split_first()?;
    *rest = behind;
    Some(byte)
}

/// A word whose bits tell keys apart, for numbers below 2^32.
pub fn word(i: u32) -> u64 {
    u64::from(i).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
/// The alphabet of a table with this seed.
pub fn alphabet<K: Key, V: Value>(seed: u32) -> Vec<K> {
    let shift = 64 - size_of::<<K::Layout<V> as Layout>::Mixed>() * 8;
    let unmixed = |mixed: u64| K::Layout::<V>::unmixed(seed, Number::narrowed(mixed >> shift));
    (0..=255).map(|i| key(i, K::narrowed, unmixed)).collect()
}
/// Returns key `i` of the alphabet: special keys, keys whose hashes are neighbours, small numbers.
/// `unmixed` gives the key of a mixed word, of which the high 32 bits are the hash; all ones are
/// those of the ambiguous key.
fn key<K>(i: u8, raw: impl Fn(u64) -> K, unmixed: impl Fn(u64) -> K) -> K {
    match i {
        0 => unmixed(u64::MAX),
        1 => raw(0),
        2 => raw(u64::MAX),
        3 => unmixed(u64::MAX - (1 << 32)),
        // What fillers have: the least hashes, and those from the middle on, that do not belong to
        // a bucket.
        4..10 => unmixed(u64::from(i - 4) << 32),
        10..16 => unmixed(u64::from(i - 10) << 32 | 1 << 63),
        16..128 => unmixed(u64::from(i) << 32 | 1 << 62),
        128.. => raw(u64::from(i - 127)),
    }
}

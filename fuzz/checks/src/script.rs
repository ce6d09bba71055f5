//! Interprets bytes as a script: options of a table, then batches of operations on a small alphabet
//! of keys. The checks of maps, sets and groups use it.
use koel::types::{KeyBits, ValueBits};
use koel::{Device, Outcome};
use koel_kernels::table::layout::{Layout, Number};
use std::fmt::Debug;
use std::sync::LazyLock;

static CPUS: LazyLock<[Device; 2]> =
    LazyLock::new(|| [1, 2].map(|threads| Device::cpu_with_threads(threads).unwrap()));
/// Maximum number of operations and keys on the executor, which takes milliseconds per launch.
const MAX_ON_EXECUTOR: usize = 64;
/// Number of keys that every table has room for, wherever they belong: a bucket has four or eight
/// slots, of which updates keep one free.
const ROOM: usize = 3;

/// Header of a script.
pub(crate) struct Header {
    /// Types of keys and values.
    pub types: u8,
    pub reproducible: bool,
    pub load: f64,
    /// Whether the test executor runs too, if the script is short.
    pub on_executor: bool,
    pub seed: u32,
    /// Number of keys that the table is built from.
    pub keys: usize,
}
/// Key of the alphabet, with an operation and a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub key: u8,
    pub operation: u8,
    pub value: u64,
}
/// Operations performed together.
#[derive(Debug)]
pub(crate) enum Batch {
    /// The same operation on every key.
    All(u8, Vec<Step>),
    /// Each step's own operation.
    Each(Vec<Step>),
    /// As `Each`, but asynchronous and without growing the table.
    Enqueued(Vec<Step>),
    /// Rebuilds the table at this load.
    Shrunk(f64),
    /// Writes the table to bytes and reads it back.
    Reread,
}
impl Batch {
    /// Returns the number of operations.
    pub(crate) fn len(&self) -> usize {
        match self {
            Batch::All(_, steps) | Batch::Each(steps) | Batch::Enqueued(steps) => steps.len(),
            Batch::Shrunk(_) | Batch::Reread => 0,
        }
    }
}

/// Loads that tables are built with.
const LOADS: [f64; 4] = [0.5, 0.8, 0.9, 0.95];
/// Numbers of keys that tables are built from: from one bucket to several partitions.
const KEYS: [usize; 8] = [0, 1, 2, 3, 9, 60, 500, 4000];
/// Maximum number of operations in a script; more are cut off.
const MAX_OPERATIONS: usize = 2000;

/// A table, its oracle, and the operations that change both.
pub(crate) trait World: Sized {
    /// Builds the table that the header describes; half of its keys are in the alphabet.
    fn new(device: &Device, header: &Header) -> Self;
    /// Rebuilds the table at this load.
    fn shrink(&mut self, load: f64);
    /// Writes the table to bytes and reads it back.
    fn reread(&mut self);
    /// Executes the steps, all with operation `all` or each with its own, and compares outcomes. If
    /// the table may not grow, steps may remain undone, but only for lack of room.
    fn update(&mut self, all: Option<u8>, steps: &[Step], grows: bool);
    /// Compares lookups of the alphabet's keys.
    fn compare(&self);
    /// Compares the whole contents.
    fn compare_all(&self);
}
/// Runs a script on the CPU and, if it requests that and is short, on the executor.
pub(crate) fn run<W: World>(header: &Header, batches: &[Batch]) {
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
/// Compares the outcomes of a batch on these keys with the expected ones, which `expected` computes
/// by applying each operation to the oracle. If the table may not grow and more than `ROOM` keys
/// need room, operations may remain undone, and then all later ones on the same key must too.
pub(crate) fn compare_outcomes<K: KeyBits + Debug>(
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
                "operation {i} on {key:?} was not done: {room_needed} keys need room"
            );
            left.push(key);
            continue;
        }
        assert!(!left.contains(&key), "operation {i} on {key:?} was done after one that was not");
        assert_eq!(outcome, expected(i, key), "operation {i} on {key:?}");
    }
}
/// Calls `check` with the CPU, with one thread and with two, and for small numbers of keys with the
/// executor.
pub(crate) fn on_devices(header: &Header, keys: usize, check: impl Fn(&Device)) {
    CPUS.iter().for_each(&check);
    if header.on_executor && keys <= MAX_ON_EXECUTOR {
        check(&Device::executor(u64::from(header.seed)));
    }
}

/// Reads a script; returns `None` if the bytes are too short for a header.
pub(crate) fn read(bytes: &[u8]) -> Option<(Header, Vec<Batch>)> {
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
/// Reads a header; returns it with the remaining bytes.
pub(crate) fn read_header(bytes: &[u8]) -> Option<(Header, &[u8])> {
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
    // Half of the codes have runs of 16 keys.
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

/// Returns a word for a number below 2^32; its bits distinguish keys.
pub(crate) fn word(i: u32) -> u64 {
    u64::from(i).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
/// Returns the alphabet of a table with this seed.
pub(crate) fn alphabet<K: KeyBits, V: ValueBits>(seed: u32) -> Vec<K> {
    let shift = 64 - size_of::<<K::Layout<V> as Layout>::Mixed>() * 8;
    let unmixed = |mixed: u64| K::Layout::<V>::unmixed(seed, Number::narrowed(mixed >> shift));
    (0..=255).map(|i| key(i, K::narrowed, unmixed)).collect()
}
/// Returns key `i` of the alphabet: special keys, keys with adjacent hashes, or small numbers.
/// `unmixed` returns the key of a mixed word, whose high 32 bits are the hash; all ones belong to
/// the ambiguous key.
fn key<K>(i: u8, raw: impl Fn(u64) -> K, unmixed: impl Fn(u64) -> K) -> K {
    match i {
        0 => unmixed(u64::MAX),
        1 => raw(0),
        2 => raw(u64::MAX),
        3 => unmixed(u64::MAX - (1 << 32)),
        // Hashes of filler keys: the lowest ones, and those from the middle up, which belong to no
        // bucket.
        4..10 => unmixed(u64::from(i - 4) << 32),
        10..16 => unmixed(u64::from(i - 10) << 32 | 1 << 63),
        16..128 => unmixed(u64::from(i) << 32 | 1 << 62),
        128.. => raw(u64::from(i - 127)),
    }
}

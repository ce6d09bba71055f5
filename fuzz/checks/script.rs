//! Bytes as a script: options of a table, then batches of operations on a small alphabet of keys.
//! The checks of maps and of sets include this file.

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
const MOST: usize = 2000;

/// Reads a script; `None` if there is not even a header.
pub fn read(bytes: &[u8]) -> Option<(Header, Vec<Batch>)> {
    let (&[first, second, s0, s1, s2, s3], mut rest) = bytes.split_first_chunk()?;
    let header = Header {
        types: first & 3,
        reproducible: first & 4 != 0,
        load: LOADS[usize::from(first >> 3 & 3)],
        on_executor: first & 32 != 0,
        seed: u32::from_le_bytes([s0, s1, s2, s3]),
        keys: KEYS[usize::from(second & 7)],
    };
    let (mut batches, mut all) = (vec![], 0);
    while let Some(batch) = next(&mut rest) {
        all += batch.len();
        if all > MOST {
            break;
        }
        batches.push(batch);
    }
    Some((header, batches))
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
            let value = if what >> 2 == 63 { u64::MAX } else { u64::from(what >> 2) * 0x1_0000_0001 };
            steps.extend((0..run).map(|i| Step { key: key.wrapping_add(i), operation: what & 3, value }));
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
/// Returns key `i` of the alphabet: special keys, keys whose hashes are neighbours, small numbers. `unmixed` gives
/// the key of a mixed word, of which the high 32 bits are the hash; all ones are those of the ambiguous key.
pub fn key<K>(i: u8, raw: impl Fn(u64) -> K, unmixed: impl Fn(u64) -> K) -> K {
    match i {
        0 => unmixed(u64::MAX),
        1 => raw(0),
        2 => raw(u64::MAX),
        3 => unmixed(u64::MAX - (1 << 32)),
        // What fillers have: the least hashes, and those from the middle on, that do not belong to a bucket.
        4..10 => unmixed(u64::from(i - 4) << 32),
        10..16 => unmixed(u64::from(i - 10) << 32 | 1 << 63),
        16..128 => unmixed(u64::from(i) << 32 | 1 << 62),
        128.. => raw(u64::from(i - 127)),
    }
}

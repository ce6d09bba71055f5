//! Small batches of updates in host memory, beside hashbrown with the hash function of rustc, in
//! one run: one JSON line each.
//!
//! ```text
//! cargo run --release -p koel-rates --bin batch_rates -- threads 2 1000 2^20
//! ```
//!
//! Sizes are those of maps; the default is 10^3, 10^6 and 10^7. Keys and values are slices, and
//! hashbrown changes one key after the other on one thread. `ns`: nanoseconds per key, the median
//! of 5 runs, each of some 2^17 keys or more; `of_hashbrown`: divided by hashbrown's. Operations:
//!
//! * `insert`, `erase`: in turn, of keys that are new in each batch;
//! * `assign`, `add`: of present keys at random;
//! * `stream`: batches of new keys from an empty map to one of the size;
//! * `churn`: rounds that erase a tenth of the map and insert as many new keys, in such batches.
//!   `bytes_of_built`: the map's memory after them, divided by that of a map built of the same
//!   pairs.
//!
//! All outcomes are compared, and the whole map in the end.
use hashbrown::HashMap;
use koel::{Device, Map, Outcome, Result};
use koel_kernels::hash::mix::splitmix_at;
use koel_rates::{Arguments, decimals, print_provenance, repeat, row, seconds_of};
use rustc_hash::FxBuildHasher;
use std::hash::Hash;
use std::ops::Range;

const RUNS: usize = 5;
const BATCHES: [usize; 6] = [1, 8, 64, 1024, 10_000, 100_000];
type Peer<K> = HashMap<K, u32, FxBuildHasher>;

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let threads = args.numbered("threads", 2).unwrap_or(1);
    let device = Device::cpu_with_threads(threads)?;
    print_provenance(&device);
    for n in args.sizes(&[1000, 1_000_000, 10_000_000])? {
        rates::<u32>(&device, n, Keys { name: "u32", of_word: |word| word as u32 })?;
        rates::<u64>(&device, n, Keys { name: "u64", of_word: |word| word })?;
    }
    Ok(())
}
/// Prints the times of both, per key.
fn show(
    (op, key, n, batch): (&str, &str, usize, usize),
    keys: usize,
    times: [koel_rates::Times; 2],
    bytes_of_built: Option<f64>,
    verified: bool,
) {
    let [ours, theirs] = times;
    let ns = |seconds: f64| decimals(seconds / keys as f64 * 1e9, 2);
    row![
        ("op", op),
        ("key", key),
        ("n", n),
        ("batch", batch),
        ("ns", ns(ours.median)),
        ("ns_min", ns(ours.min)),
        ("ns_max", ns(ours.max)),
        ("of_hashbrown", decimals(ours.median / theirs.median, 3)),
        ("bytes_of_built", bytes_of_built.map(|share| decimals(share, 3))),
        ("verified", verified)
    ]
    .print();
}

/// Keys of one type.
#[derive(Clone, Copy)]
struct Keys<K> {
    name: &'static str,
    of_word: fn(u64) -> K,
}
impl<K: koel::Key + Eq + Hash> Keys<K> {
    /// Returns keys by their numbers. A bijection of 32 bits: all keys are distinct.
    fn numbered(self, of: Range<usize>) -> Vec<K> {
        let word = |i: usize| u64::from((i as u32).wrapping_mul(0x9E37_79B1)) * 0x1_0000_0001;
        of.map(|i| (self.of_word)(word(i))).collect()
    }
}
fn rates<K: koel::Key + Eq + Hash>(device: &Device, n: usize, keys: Keys<K>) -> Result<()> {
    let (first, values) = (keys.numbered(0..n), (0..n as u32).collect::<Vec<_>>());
    let mut both = Both {
        map: Map::build(device, &first, &values)?,
        peer: first.iter().copied().zip(values).collect(),
    };
    let mut new = n;
    for batch in BATCHES.into_iter().filter(|&batch| batch <= n) {
        batches(&mut both, (&first, &mut new), batch, keys)?;
    }
    assert!(both.are_same()?, "maps differ");
    for batch in [1024, 100_000].into_iter().filter(|&batch| batch <= n) {
        stream(device, &first, batch, keys)?;
    }
    for batch in [1024, 100_000].into_iter().filter(|&batch| batch <= n / 10) {
        churn(device, &first, batch, keys)?;
    }
    Ok(())
}
/// A map, and hashbrown's with the same pairs.
struct Both<K: koel::Key> {
    map: Map<K, u32>,
    peer: Peer<K>,
}
impl<K: koel::Key + Eq + Hash> Both<K> {
    fn are_same(&self) -> Result<bool> {
        let pairs = self.map.pairs()?;
        let is_there = |(key, value): &(K, u32)| self.peer.get(key) == Some(value);
        Ok(pairs.len() == self.peer.len() && pairs.iter().all(is_there))
    }
}
/// Calls `apply` with the batches of these keys. Returns the seconds. Batches are timed together:
/// the clock takes as long as a key.
fn seconds_of_all<K>(
    keys: &[K],
    batch: usize,
    mut apply: impl FnMut(&[K]) -> Result<()>,
) -> Result<f64> {
    seconds_of(|| keys.chunks(batch).try_for_each(&mut apply)).map(|((), seconds)| seconds)
}
/// Batches of one size, on a map that stays as it is.
fn batches<K: koel::Key + Eq + Hash>(
    both: &mut Both<K>,
    (first, new): (&[K], &mut usize),
    batch: usize,
    keys: Keys<K>,
) -> Result<()> {
    let Both { map, peer } = both;
    let n = first.len();
    let of_round = batch.max((n / 8).min(1 << 17)) / batch * batch;
    let rounds = (1usize << 18).div_ceil(of_round);
    let (mut verified, values, mut random) = (true, (0..batch as u32).collect::<Vec<_>>(), 0);
    let mut present = || {
        random += 1;
        first[(splitmix_at(5, random) % n as u64) as usize]
    };
    let times = repeat(RUNS, || {
        let mut seconds = [0.0; 8];
        for _ in 0..rounds {
            let fresh = keys.numbered(*new..*new + of_round);
            *new += of_round;
            let present = (0..of_round).map(|_| present()).collect::<Vec<_>>();
            let mut all = |done: Vec<Outcome>, expected: Outcome| {
                verified &= done.len() == batch && done.iter().all(|&of| of == expected);
                Result::Ok(())
            };
            let of_round = [
                seconds_of_all(&fresh, batch, |keys| {
                    all(map.insert(keys, &values)?, Outcome::Inserted)
                })?,
                seconds_of_all(&fresh, batch, |keys| all(map.erase(keys)?, Outcome::Erased))?,
                seconds_of_all(&present, batch, |keys| {
                    all(map.insert_or_assign(keys, &values)?, Outcome::Assigned)
                })?,
                seconds_of_all(&present, batch, |keys| {
                    all(map.insert_or_add(keys, &values)?, Outcome::Added)
                })?,
                seconds_of_all(&fresh, batch, |keys| {
                    let pairs = keys.iter().zip(&values);
                    pairs.for_each(|(&key, &value)| _ = peer.entry(key).or_insert(value));
                    Ok(())
                })?,
                seconds_of_all(&fresh, batch, |keys| {
                    assert!(keys.iter().all(|key| peer.remove(key).is_some()));
                    Ok(())
                })?,
                seconds_of_all(&present, batch, |keys| {
                    keys.iter().zip(&values).for_each(|(&key, &value)| _ = peer.insert(key, value));
                    Ok(())
                })?,
                seconds_of_all(&present, batch, |keys| {
                    for (&key, &value) in keys.iter().zip(&values) {
                        let to = peer.entry(key).or_insert(0);
                        *to = to.wrapping_add(value);
                    }
                    Ok(())
                })?,
            ];
            seconds.iter_mut().zip(of_round).for_each(|(sum, of)| *sum += of);
        }
        Result::Ok(seconds)
    })?;
    for (i, op) in ["insert", "erase", "assign", "add"].into_iter().enumerate() {
        let times = [times[i], times[i + 4]];
        show((op, keys.name, n, batch), rounds * of_round, times, None, verified);
    }
    Ok(())
}
/// Batches of new keys from an empty map on.
fn stream<K: koel::Key + Eq + Hash>(
    device: &Device,
    first: &[K],
    batch: usize,
    keys: Keys<K>,
) -> Result<()> {
    let (values, mut verified) = ((0..batch as u32).collect::<Vec<_>>(), true);
    let times = repeat(RUNS, || {
        let mut both = Both { map: Map::build(device, &[], &[])?, peer: Peer::default() };
        let ours = seconds_of_all(first, batch, |keys| {
            both.map.insert(keys, &values[..keys.len()]).map(|_| ())
        })?;
        let theirs = seconds_of_all(first, batch, |keys| {
            both.peer.extend(keys.iter().copied().zip(values.iter().copied()));
            Ok(())
        })?;
        verified &= both.are_same()?;
        Result::Ok([ours, theirs])
    })?;
    show(("stream", keys.name, first.len(), batch), first.len(), times, None, verified);
    Ok(())
}
/// A tenth of the map goes in each round, the oldest keys first, and others come.
fn churn<K: koel::Key + Eq + Hash>(
    device: &Device,
    first: &[K],
    batch: usize,
    keys: Keys<K>,
) -> Result<()> {
    let (n, values) = (first.len(), (0..first.len() as u32).collect::<Vec<_>>());
    let mut both = Both {
        map: Map::build(device, first, &values)?,
        peer: first.iter().copied().zip(values.iter().copied()).collect(),
    };
    let rounds = if n > 1_000_000 { 20 } else { 100 };
    let (mut oldest, mut seconds) = (0, [0.0; 2]);
    for _ in 0..rounds * (n / 10 / batch) {
        let gone = keys.numbered(oldest..oldest + batch);
        let new = keys.numbered(oldest + n..oldest + n + batch);
        oldest += batch;
        let ((), ours) = seconds_of(|| {
            both.map.erase(&gone)?;
            both.map.insert(&new, &values[..batch]).map(|_| ())
        })?;
        let ((), theirs) = seconds_of(|| {
            gone.iter().for_each(|key| _ = both.peer.remove(key));
            both.peer.extend(new.iter().copied().zip(values.iter().copied()));
            Result::Ok(())
        })?;
        (seconds[0], seconds[1]) = (seconds[0] + ours, seconds[1] + theirs);
    }
    let (left, values) = both.map.pairs()?.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
    let share = both.map.bytes() as f64 / Map::build(device, &left, &values)?.bytes() as f64;
    let times = repeat(1, || Result::Ok(seconds))?;
    show(("churn", keys.name, n, batch), 2 * oldest, times, Some(share), both.are_same()?);
    Ok(())
}

//! Counts, sums, encodings and distinct keys of columns in host memory, with few groups and with
//! many, beside hashbrown with the hash function of rustc and beside sorting, in one run: one JSON
//! line each.
//!
//! ```text
//! cargo run --release -p koel-rates --bin few_group_rates -- threads 1 100_000 10_000_000
//! ```
//!
//! `ns`: nanoseconds of CPU time per row, of all threads together, the median of 5 runs after 2
//! warm-up runs. `of_peer`: divided by the peer's in the same run; below 1 koel is faster. A peer
//! runs on one thread, or sorts on as many as koel has. Operations:
//!
//! * `count`: [`koel::count`]; the peer adds 1 to the entry of each key;
//! * `sum`: [`koel::group_by`] and the sums of a column; the peer adds to the entry of each key;
//! * `group_counts`: [`koel::group_counts`]; the peer also sorts its pairs;
//! * `encode`: [`Index::encode`](koel::Index::encode); the peer enters each key with the number of
//!   keys before, and writes the ids and the distinct keys;
//! * `unique`: [`koel::set::unique`]; the peer sorts a copy and removes repeated keys.
//!
//! `keys`: how many of the rows' keys are distinct, drawn at random, `zipf` by Zipf's law; `sorted`
//! if rows are in the order of their keys. Every answer is compared with the peer's.
use hashbrown::HashMap;
use koel::{Device, Index, Result};
use koel_measure::{Arrangement, NumberedKey, Times, repeat};
use koel_rates::{Arguments, cpu_seconds, decimals, drawn, print_provenance, row};
use rayon::prelude::*;
use rustc_hash::FxBuildHasher;
use std::hash::Hash;
use std::hint::black_box;

const RUNS: usize = 5;
type Peer<K, V> = HashMap<K, V, FxBuildHasher>;

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let threads = args.numbered("threads", 1).unwrap_or(1);
    let device = Device::cpu_with_threads(threads)?;
    let ops = args.list("op", "count,sum,group_counts,encode,unique", |op| Some(op.to_string()))?;
    print_provenance(&device);
    for n in args.sizes(&[100_000, 10_000_000])? {
        all::<u32>(&device, "u32", &ops, n)?;
        all::<u64>(&device, "u64", &ops, n)?;
    }
    Ok(())
}
/// Keys of rows, and their name in the output.
struct Column<K> {
    key: &'static str,
    keys: Vec<K>,
    of: String,
    threads: usize,
}
fn all<K>(device: &Device, key: &'static str, ops: &[String], n: usize) -> Result<()>
where
    K: NumberedKey + koel::Key + koel::types::SlotKey + koel::verbs::Keyed + Ord + Hash,
{
    let has = |op: &str| ops.iter().any(|of| of == op);
    let column = |ranks: Vec<u32>, is_sorted: bool, name: String| {
        let mut keys = ranks.into_par_iter().map(K::numbered).collect::<Vec<_>>();
        if is_sorted {
            keys.par_sort_unstable();
        }
        let of = if is_sorted { format!("{name}, sorted") } else { name };
        Column { key, keys, of, threads: device.parallelism() }
    };
    for distinct in [10, 1000, 10_000, 1_000_000].into_iter().filter(|&distinct| distinct <= n) {
        let column = column(drawn(n, distinct), false, distinct.to_string());
        if has("count") {
            count(device, &column)?;
        }
        if has("sum") {
            sum(device, &column)?;
        }
        if has("group_counts") {
            group_counts(device, &column)?;
        }
    }
    let drawn_of = [1 << 10, 1 << 20, n].into_iter().filter(|&distinct| distinct <= n);
    let cases = drawn_of.flat_map(|distinct| [(distinct, false), (distinct, true)]);
    for (distinct, is_sorted) in cases.chain([(0, false)]) {
        let column = match distinct {
            0 => column(Arrangement::Zipf.ranks(n, 1, |rank| rank), is_sorted, "zipf".into()),
            all if all == n => column(drawn(n, n), is_sorted, "all".into()),
            _ => column(drawn(n, distinct), is_sorted, distinct.to_string()),
        };
        if has("encode") {
            encode(device, &column)?;
        }
        if has("unique") {
            unique(device, &column)?;
        }
    }
    Ok(())
}
/// Returns what a call returns, and its CPU time, also for dropping nothing.
fn cpu_time<R>(call: impl FnOnce() -> Result<R>) -> Result<(R, f64)> {
    let before = cpu_seconds();
    let result = black_box(call()?);
    Ok((result, cpu_seconds() - before))
}
/// Prints the times of koel and of its peer.
fn show<K>(op: &str, column: &Column<K>, [ours, theirs]: [Times; 2], verified: bool) {
    let n = column.keys.len();
    let ns = |seconds: f64| decimals(seconds / n as f64 * 1e9, 3);
    row![
        ("op", op),
        ("key", column.key),
        ("n", n),
        ("keys", column.of),
        ("threads", column.threads),
        ("ns", ns(ours.median)),
        ("ns_min", ns(ours.min)),
        ("ns_max", ns(ours.max)),
        ("ns_of_peer", ns(theirs.median)),
        ("of_peer", decimals(ours.median / theirs.median, 3)),
        ("verified", verified)
    ]
    .print();
}
fn count<K: koel::verbs::Keyed + Copy + Eq + Hash>(
    device: &Device,
    column: &Column<K>,
) -> Result<()> {
    let mut verified = true;
    let times = repeat(RUNS, || {
        let (counts, ours) = cpu_time(|| koel::count(device, &column.keys))?;
        let (peer, theirs) = cpu_time(|| {
            let mut peer = Peer::default();
            column.keys.iter().for_each(|&key| *peer.entry(key).or_insert(0u32) += 1);
            Ok(peer)
        })?;
        verified &= counts.len() == peer.len()
            && counts.iter().all(|(key, count)| peer.get(key) == Some(count));
        Result::Ok([ours, theirs])
    })?;
    show("count", column, times, verified);
    Ok(())
}
fn sum<K: koel::verbs::Keyed + Copy + Eq + Hash>(
    device: &Device,
    column: &Column<K>,
) -> Result<()> {
    // Sums are exact, in any order.
    let values = (0..column.keys.len()).map(|i| (i % 2) as f32).collect::<Vec<_>>();
    let mut verified = true;
    let times = repeat(RUNS, || {
        let (groups, ours) = cpu_time(|| koel::group_by(device, &column.keys)?.sum(&values))?;
        let (peer, theirs) = cpu_time(|| {
            let mut peer = Peer::default();
            let rows = column.keys.iter().zip(&values);
            rows.for_each(|(&key, value)| *peer.entry(key).or_insert(0f32) += value);
            Ok(peer)
        })?;
        let (sums,) = groups.results();
        verified &= groups.len() == peer.len()
            && groups.keys().iter().zip(sums).all(|(key, sum)| peer.get(key) == Some(sum));
        Result::Ok([ours, theirs])
    })?;
    show("sum", column, times, verified);
    Ok(())
}
fn group_counts<K: koel::types::SlotKey + Ord + Hash>(
    device: &Device,
    column: &Column<K>,
) -> Result<()> {
    let mut verified = true;
    let times = repeat(RUNS, || {
        let (counts, ours) = cpu_time(|| koel::group_counts(device, &column.keys))?;
        let (pairs, theirs) = cpu_time(|| {
            let mut peer = Peer::default();
            column.keys.iter().for_each(|&key| *peer.entry(key).or_insert(0u32) += 1);
            let mut pairs = peer.into_iter().collect::<Vec<_>>();
            pairs.sort_unstable();
            Ok(pairs)
        })?;
        verified &= counts == pairs;
        Result::Ok([ours, theirs])
    })?;
    show("group_counts", column, times, verified);
    Ok(())
}
fn encode<K: koel::Key + Eq + Hash>(device: &Device, column: &Column<K>) -> Result<()> {
    let mut verified = true;
    let times = repeat(RUNS, || {
        let ((index, ids), ours) = cpu_time(|| Index::encode(device, &column.keys))?;
        let ((expected, distinct), theirs) = cpu_time(|| {
            let (mut peer, mut distinct) = (Peer::default(), Vec::new());
            let ids = column.keys.iter().map(|&key| {
                *peer.entry(key).or_insert_with(|| {
                    distinct.push(key);
                    distinct.len() as u32 - 1
                })
            });
            Ok((ids.collect::<Vec<_>>(), distinct))
        })?;
        verified &= ids == expected && index.keys()? == distinct;
        Result::Ok([ours, theirs])
    })?;
    show("encode", column, times, verified);
    Ok(())
}
fn unique<K: koel::Key + Ord>(device: &Device, column: &Column<K>) -> Result<()> {
    let mut verified = true;
    let times = repeat(RUNS, || {
        let (mut keys, ours) = cpu_time(|| koel::set::unique(device, &column.keys))?;
        let (sorted, theirs) = cpu_time(|| {
            let mut sorted = column.keys.clone();
            if column.threads == 1 {
                sorted.sort_unstable();
            } else {
                sorted.par_sort_unstable();
            }
            sorted.dedup();
            Ok(sorted)
        })?;
        keys.par_sort_unstable();
        verified &= keys == sorted;
        Result::Ok([ours, theirs])
    })?;
    show("unique", column, times, verified);
    Ok(())
}

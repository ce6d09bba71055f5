//! Rates of [`StringMap`], [`StringSet`] and [`StringIndex`] on this machine's best device, or on
//! the CPU, where hashbrown's are in the same run: one JSON line each.
//!
//!     cargo run --release -p koel-rates --bin string_rates -- 2^22 2^24 length=16,64 cpu
//!
//! `gps`: 10^9 keys per second, the median of 7 runs after 2 warm-up runs, and on a CPU with
//! hashbrown of 3. Keys are random letters and distinct; their lengths are spread evenly from half
//! of `length` to one and a half. A build makes a table of a column that is on the device, and
//! allocates all of it. Queries are in another order than keys; absent ones have the same lengths.
//! `encode` builds an index of `n` keys drawn from `distinct`, and looks up the id of each.
//! `verified`: the answers for all keys, present and absent, or all ids, equal the host's.
//!
//! hashbrown's tables have borrowed keys, foldhash and one thread; `ratio` is koel's rate over
//! theirs, from the same slices in host memory.
use hashbrown::{HashMap, HashSet};
use koel::{
    Device, Error, IndexOptions, MapOptions, Result, SetOptions, Stream, StringIndex, StringMap,
    StringSet, Strings, string_counts,
};
use koel_kernels::hash::mix::splitmix_at;
use koel_rates::{Row, median, print_copies, print_provenance, rate, row, size};
use rayon::prelude::*;
use std::time::Instant;

fn main() -> Result<()> {
    let (mut sizes, mut lengths, mut cpu) = (vec![], vec![16], false);
    for arg in std::env::args().skip(1) {
        match arg.split_once('=') {
            _ if arg == "cpu" => cpu = true,
            Some(("length", list)) => {
                let lengths_of = list.split(',').map(|l| l.parse().map_err(|_| wrong(&arg)));
                lengths = lengths_of.collect::<Result<_>>()?;
            }
            _ => sizes.push(size(&arg)?),
        }
    }
    if sizes.is_empty() {
        sizes = vec![1 << 20, 1 << 22];
    }
    let device = if cpu { Device::cpu()? } else { Device::best()? };
    eprintln!("{}", device.name());
    print_provenance(&device);
    let stream = device.stream()?;
    print_copies(&stream)?;
    for &n in &sizes {
        for &length in &lengths {
            on_device(&stream, n, length)?;
            if cpu {
                beside_hashbrown(&device, n, length)?;
            }
        }
    }
    Ok(())
}
fn wrong(arg: &str) -> Error {
    let expected = "2^k, cpu, or length= with a list".into();
    Error::Setting { field: "argument", found: arg.into(), expected }
}
/// Returns string `i`, distinct for distinct numbers.
fn string(i: u32, length: usize) -> Vec<u8> {
    let seed = splitmix_at(length as u64, i);
    let bytes = (length / 2 + seed as usize % (length + 1)).max(7);
    let letter = |k: usize| match k {
        // Seven digits of 26 tell all numbers apart.
        0..7 => b'a' + (i as u64 / 26u64.pow(k as u32) % 26) as u8,
        _ => b'a' + (splitmix_at(seed, k as u32) % 26) as u8,
    };
    (0..bytes).rev().map(letter).collect()
}
fn strings(numbers: impl ParallelIterator<Item = u32>, length: usize) -> Vec<Vec<u8>> {
    numbers.map(|i| string(i, length)).collect()
}
/// Returns `0..n` in another order.
fn shuffled(n: usize) -> Vec<u32> {
    let mut numbers = (0..n as u32).collect::<Vec<_>>();
    numbers.par_sort_unstable_by_key(|&i| splitmix_at(8, i));
    numbers
}

fn on_device(stream: &Stream, n: usize, length: usize) -> Result<()> {
    let (device, order) = (stream.device(), shuffled(n));
    let all = strings((0..n as u32).into_par_iter(), length);
    let column = Strings::upload(device, &all)?;
    let present = Strings::upload(device, &strings(order.par_iter().copied(), length))?;
    let absent = (n as u32..2 * n as u32).into_par_iter();
    let absent = Strings::upload(device, &strings(absent, length))?;
    let what = row![("length", length), ("n", n), ("bytes_of_keys", column.bytes())];

    let options = SetOptions::default();
    let seconds = median(stream, || StringSet::build_from(stream, options, &column).map(drop))?;
    let set = StringSet::build_from(stream, options, &column)?;
    let mut rows = device.alloc(n)?;
    set.rows_into(stream, &present, rows.view_mut())?;
    let mut verified = set.len() == n && rows.download()? == order;
    set.rows_into(stream, &absent, rows.view_mut())?;
    verified &= rows.download()?.par_iter().all(|&row| row == koel::NO_ID);
    done("string_set_build", &what, n, seconds, verified);
    for (kind, queries) in [("present", &present), ("absent", &absent)] {
        let seconds = median(stream, || set.rows_into(stream, queries, rows.view_mut()))?;
        done(&format!("string_set_rows_{kind}"), &what, n, seconds, verified);
    }
    let values = (0..n as u32).collect::<Vec<_>>();
    let map = StringMap::build(device, &all, &values)?;
    let mut found = device.alloc(n)?;
    map.get_or_into(stream, &present, found.view_mut(), 0)?;
    let verified = found.download()? == order;
    let seconds = median(stream, || map.get_or_into(stream, &present, found.view_mut(), 0))?;
    done("string_map_get_or_present", &what, n, seconds, verified);
    for distinct in [n, n / 8, n / 4096] {
        encode(stream, n, distinct.max(1), length)?;
    }
    Ok(())
}
fn encode(stream: &Stream, n: usize, distinct: usize, length: usize) -> Result<()> {
    let numbers = drawn(n, distinct);
    let column = Strings::upload(stream.device(), &strings(numbers.par_iter().copied(), length))?;
    let run = || StringIndex::encode_from(stream, IndexOptions::default(), &column);
    let seconds = median(stream, || run().map(drop))?;
    let (index, ids) = run()?;
    let mut first = HashMap::new();
    let expected = numbers.iter().map(|&number| {
        let next = first.len() as u32;
        *first.entry(number).or_insert(next)
    });
    let verified = ids.download()?.into_iter().eq(expected) && index.len() == first.len();
    let what = row![("length", length), ("n", n), ("distinct", index.len())];
    done("string_index_encode", &what, n, seconds, verified);
    Ok(())
}
fn drawn(n: usize, distinct: usize) -> Vec<u32> {
    let number =
        |i: u32| if distinct == n { i } else { (splitmix_at(3, i) % distinct as u64) as u32 };
    (0..n as u32).map(number).collect()
}
fn done(op: &str, what: &Row, n: usize, seconds: f64, verified: bool) {
    row![("op", op)].and(what).and(&rate(n, seconds)).and(&row![("verified", verified)]).print();
}

/// Runs both in turn, and returns the median seconds of each and what they returned last.
fn in_turn<A, B>(
    mut koel: impl FnMut() -> Result<A>,
    mut other: impl FnMut() -> B,
) -> Result<([f64; 2], A, B)> {
    let (mut times, mut last) = (vec![], None);
    for _ in 0..4 {
        let begin = Instant::now();
        let of_koel = koel()?;
        let middle = Instant::now();
        let of_other = other();
        times.push([(middle - begin).as_secs_f64(), middle.elapsed().as_secs_f64()]);
        last = Some((of_koel, of_other));
    }
    let median_of = |which: usize| {
        let mut of = times[1..].iter().map(|both| both[which]).collect::<Vec<_>>();
        of.sort_by(f64::total_cmp);
        of[of.len() / 2]
    };
    let Some((of_koel, of_other)) = last else { unreachable!("four runs") };
    Ok(([median_of(0), median_of(1)], of_koel, of_other))
}
fn beside_hashbrown(device: &Device, n: usize, length: usize) -> Result<()> {
    let order = shuffled(n);
    let all = strings((0..n as u32).into_par_iter(), length);
    let keys = all.iter().map(Vec::as_slice).collect::<Vec<&[u8]>>();
    // Copies, as queries have memory of their own.
    let asked = strings(order.par_iter().copied(), length);
    let asked = asked.iter().map(Vec::as_slice).collect::<Vec<_>>();
    let absent = strings((n as u32..2 * n as u32).into_par_iter(), length);
    let absent = absent.iter().map(Vec::as_slice).collect::<Vec<_>>();
    let values = (0..n as u32).collect::<Vec<_>>();
    let what = row![("length", length), ("n", n)];
    let compared = |op: &str, what: &Row, [koel, other]: [f64; 2], verified: bool| {
        row![("op", op)]
            .and(what)
            .and(&row![("ratio", other / koel), ("verified", verified)])
            .print();
    };
    let (seconds, map, theirs) = in_turn(
        || StringMap::build_with(device, MapOptions::default(), &keys, &values),
        || {
            let pairs = keys.iter().copied().zip(values.iter().copied());
            pairs.collect::<HashMap<&[u8], u32>>()
        },
    )?;
    compared("build", &what, seconds, map.len() == theirs.len());
    for (op, queries) in [("get_present", &asked), ("get_absent", &absent)] {
        let (seconds, found, expected) = in_turn(
            || map.get(queries),
            || queries.iter().map(|key| theirs.get(key).copied()).collect::<Vec<_>>(),
        )?;
        compared(op, &what, seconds, found == expected);
    }
    drop((map, theirs));
    let (seconds, set, theirs) = in_turn(
        || StringSet::build(device, &keys),
        || keys.iter().copied().collect::<HashSet<&[u8]>>(),
    )?;
    compared("set_build", &what, seconds, set.len() == theirs.len());
    for distinct in [n / 8, n / 4096] {
        let numbers = drawn(n, distinct.max(1));
        let keys = numbers.iter().map(|&i| keys[i as usize]).collect::<Vec<_>>();
        let (seconds, (words, counts), theirs) = in_turn(
            || string_counts(device, &keys),
            || {
                let mut counts = HashMap::<&[u8], u32>::new();
                keys.iter().for_each(|&key| *counts.entry(key).or_default() += 1);
                counts
            },
        )?;
        let is_right = |(word, count): (&[u8], &u32)| theirs.get(word) == Some(count);
        let verified = words.len() == theirs.len() && words.iter().zip(&counts).all(is_right);
        let what = row![("length", length), ("n", n), ("distinct", words.len())];
        compared("counts", &what, seconds, verified);
    }
    Ok(())
}

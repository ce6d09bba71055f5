//! Rates of [`StringMap`], [`StringSet`] and [`StringIndex`] on a device, and on the CPU
//! beside hashbrown's in the same run: one JSON line each.
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
    Device, DeviceKind, IndexOptions, MapOptions, Result, SetOptions, Stream, StringIndex,
    StringMap, StringSet, Strings, string_counts,
};
use koel_kernels::hash::mix::splitmix_at;
use koel_rates::{
    Arguments, Row, Times, drawn, ids_of, on_stream, print_copies, rate, repeat, row, seconds_of,
};
use rayon::prelude::*;

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let lengths = args.list("length", "16", |length| length.parse().ok())?;
    let device = args.device()?;
    let stream = device.stream()?;
    print_copies(&stream)?;
    for n in args.sizes(&[1 << 20, 1 << 22])? {
        for &length in &lengths {
            on_device(&stream, n, length)?;
            if device.kind() == DeviceKind::Cpu {
                beside_hashbrown(&device, n, length)?;
            }
        }
    }
    Ok(())
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
    let times = on_stream(stream, || StringSet::build_from(stream, options, &column).map(drop))?;
    let set = StringSet::build_from(stream, options, &column)?;
    let mut rows = device.alloc(n)?;
    set.rows_into(stream, &present, rows.view_mut())?;
    let mut verified = set.len() == n && rows.download()? == order;
    set.rows_into(stream, &absent, rows.view_mut())?;
    verified &= rows.download()?.par_iter().all(|&row| row == koel::NO_ID);
    done("string_set_build", &what, n, times, verified);
    for (kind, queries) in [("present", &present), ("absent", &absent)] {
        let times = on_stream(stream, || set.rows_into(stream, queries, rows.view_mut()))?;
        done(&format!("string_set_rows_{kind}"), &what, n, times, verified);
    }
    let values = (0..n as u32).collect::<Vec<_>>();
    let map = StringMap::build(device, &all, &values)?;
    let mut found = device.alloc(n)?;
    map.get_or_into(stream, &present, found.view_mut(), 0)?;
    let verified = found.download()? == order;
    let times = on_stream(stream, || map.get_or_into(stream, &present, found.view_mut(), 0))?;
    done("string_map_get_or_present", &what, n, times, verified);
    for distinct in [n, n / 8, n / 4096] {
        encode(stream, n, distinct, length)?;
    }
    Ok(())
}
fn encode(stream: &Stream, n: usize, distinct: usize, length: usize) -> Result<()> {
    let numbers = drawn(n, distinct);
    let column = Strings::upload(stream.device(), &strings(numbers.par_iter().copied(), length))?;
    let run = || StringIndex::encode_from(stream, IndexOptions::default(), &column);
    let times = on_stream(stream, || run().map(drop))?;
    let (index, ids) = run()?;
    let (expected, distinct) = ids_of(&numbers);
    let verified = ids.download()? == expected && index.len() == distinct;
    let what = row![("length", length), ("n", n), ("distinct", index.len())];
    done("string_index_encode", &what, n, times, verified);
    Ok(())
}
fn done(op: &str, what: &Row, n: usize, times: Times, verified: bool) {
    row![("op", op)].and(what).and(&rate(n, times)).and(&row![("verified", verified)]).print();
}

/// Runs both in turn, and returns the times of each and what they returned last.
fn in_turn<A, B>(
    mut koel: impl FnMut() -> Result<A>,
    mut other: impl FnMut() -> B,
) -> Result<([Times; 2], A, B)> {
    let mut last = None;
    let times = repeat(3, || {
        let (of_koel, seconds) = seconds_of(&mut koel)?;
        let (of_other, seconds_of_other) = seconds_of(|| Result::Ok(other()))?;
        last = Some((of_koel, of_other));
        Result::Ok([seconds, seconds_of_other])
    })?;
    let Some((of_koel, of_other)) = last else { unreachable!("they have run") };
    Ok((times, of_koel, of_other))
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
    let compared = |op: &str, what: &Row, [koel, other]: [Times; 2], verified: bool| {
        row![("op", op)]
            .and(what)
            .and(&row![("ratio", other.median / koel.median), ("verified", verified)])
            .print();
    };
    let (times, map, theirs) = in_turn(
        || StringMap::build_with(device, MapOptions::default(), &keys, &values),
        || {
            let pairs = keys.iter().copied().zip(values.iter().copied());
            pairs.collect::<HashMap<&[u8], u32>>()
        },
    )?;
    compared("build", &what, times, map.len() == theirs.len());
    for (op, queries) in [("get_present", &asked), ("get_absent", &absent)] {
        let (times, found, expected) = in_turn(
            || map.get(queries),
            || queries.iter().map(|key| theirs.get(key).copied()).collect::<Vec<_>>(),
        )?;
        compared(op, &what, times, found == expected);
    }
    drop((map, theirs));
    let (times, set, theirs) = in_turn(
        || StringSet::build(device, &keys),
        || keys.iter().copied().collect::<HashSet<&[u8]>>(),
    )?;
    compared("set_build", &what, times, set.len() == theirs.len());
    for distinct in [n / 8, n / 4096] {
        let numbers = drawn(n, distinct);
        let keys = numbers.iter().map(|&i| keys[i as usize]).collect::<Vec<_>>();
        let (times, (words, counts), theirs) = in_turn(
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
        compared("counts", &what, times, verified);
    }
    Ok(())
}

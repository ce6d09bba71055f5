//! Rates of [`Set`](koel::Set) and [`SetCombiner`] on this machine's best device, with the
//! machine's own limits: one JSON line each.
//!
//!     cargo run --release -p koel-rates --bin set_rates -- 2^22 2^24 2^27 load=0.8,0.9 bits=32,64
//!
//! `gps`: 10^9 keys per second, the median of 7 runs after 2 warm-up runs. A build inserts keys
//! that are on the device into an existing set (`rebuild`). `unique` takes `n` keys drawn from
//! `distinct`. Unions, intersections and differences take two arrays of `n` keys, half of which are
//! in both; both arrays count. `verified`: the answers for all keys, or all keys of a result, equal
//! the host's. `of_limit`: the rate divided by that of random 32-byte reads from as much memory, in
//! the same run.
use koel::limits;
use koel::types::KeyBits;
use koel::{Buffer, Device, Error, Result, SetBuilder, SetCombiner, SetOptions, Stream};
use koel_kernels::hash::mix::{mix, splitmix_at};
use koel_rates::{RUNS, median, print_copies, print_provenance, rate, rate_of_limit, row, size};
use rayon::prelude::*;

fn main() -> Result<()> {
    let (mut sizes, mut loads, mut bits) = (vec![], vec![0.8], vec!["32", "64"]);
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    for arg in &args {
        match arg.split_once('=') {
            Some(("load", list)) => {
                loads = list
                    .split(',')
                    .map(|l| l.parse().map_err(|_| wrong(arg)))
                    .collect::<Result<_>>()?;
            }
            Some(("bits", list)) => bits = list.split(',').collect(),
            _ => sizes.push(size(arg)?),
        }
    }
    if sizes.is_empty() {
        sizes = vec![1 << 22, 1 << 24];
    }
    let device = Device::best()?;
    eprintln!("{}", device.name());
    print_provenance(&device);
    let stream = device.stream()?;
    print_copies(&stream)?;
    for &n in &sizes {
        for &bits in &bits {
            match bits {
                "32" => rates::<u32>(&stream, n, &loads)?,
                "64" => rates::<u64>(&stream, n, &loads)?,
                _ => return Err(wrong(bits)),
            }
        }
    }
    Ok(())
}
fn wrong(arg: &str) -> Error {
    let expected = "2^k, or load= or bits= with a list".into();
    Error::Setting { field: "argument", found: arg.into(), expected }
}
/// Returns a key, distinct for distinct numbers.
fn key<K: KeyBits>(i: u32) -> K {
    if size_of::<K>() == 4 {
        K::narrowed(mix(i ^ 0x5BD1_E995).into())
    } else {
        K::narrowed(splitmix_at(0, i))
    }
}
fn keys<K: KeyBits>(numbers: impl IndexedParallelIterator<Item = u32>) -> Vec<K> {
    numbers.map(key).collect()
}

fn rates<K: KeyBits>(stream: &Stream, n: usize, loads: &[f64]) -> Result<()> {
    let (device, bits) = (stream.device(), 8 * size_of::<K>());
    let present = device.upload(&keys::<K>((0..n as u32).into_par_iter()))?;
    let absent = device.upload(&keys::<K>((n as u32..2 * n as u32).into_par_iter()))?;
    let (mut found, mut mask) = (device.alloc::<u8>(n)?, device.alloc::<u32>(n.div_ceil(32))?);
    let mut count = device.alloc::<u64>(1)?;
    for &load in loads {
        let mut builder = SetBuilder::new(device, SetOptions::default().with_load(load))?;
        let mut set = builder.build(stream, present.view())?;
        let build = median(stream, || builder.rebuild(&mut set, stream, present.view()))?;
        let report = set.report()?;
        set.contains_into(stream, present.view(), found.view_mut())?;
        let all_present = found.download()?.par_iter().all(|&f| f == 1);
        set.contains_into(stream, absent.view(), found.view_mut())?;
        let verified =
            all_present && report.entries == n && found.download()?.par_iter().all(|&f| f == 0);
        row![("op", "set_build"), ("bits", bits), ("load", load), ("n", n)]
            .and(&rate(n, build))
            .and(&row![
                ("verified", verified),
                ("stashed", report.stashed),
                ("overflowed", report.overflowed),
                ("attempts", report.attempts),
                ("bytes", report.bytes),
                ("scratch_bytes", report.scratch_bytes)
            ])
            .print();
        let limit = limits::random_reads(stream, report.bytes, RUNS)?.rates.median;
        for (kind, queries) in [("present", &present), ("absent", &absent)] {
            for op in ["contains", "contains_bits", "count"] {
                let seconds = median(stream, || match op {
                    "contains" => set.contains_into(stream, queries.view(), found.view_mut()),
                    "contains_bits" => {
                        set.contains_bits_into(stream, queries.view(), mask.view_mut())
                    }
                    _ => set.count_into(stream, queries.view(), count.view_mut()),
                })?;
                row![("op", format!("set_{op}_{kind}")), ("bits", bits), ("load", load), ("n", n)]
                    .and(&rate_of_limit(n, seconds, limit))
                    .and(&row![("verified", verified)])
                    .print();
            }
        }
    }
    drop((absent, found, mask));
    combinations(stream, n, &present, count)
}

/// Measures the distinct keys of inputs with increasingly many copies, then the combinations of two
/// arrays.
fn combinations<K: KeyBits>(
    stream: &Stream,
    n: usize,
    distinct_keys: &Buffer<K>,
    mut count: Buffer<u64>,
) -> Result<()> {
    let (device, bits) = (stream.device(), 8 * size_of::<K>());
    let mut combiner = SetCombiner::new(device)?;
    let mut output = device.alloc::<K>(n)?;
    for distinct in [n, n / 8, n / 64, n / 4096, 1] {
        let drawn = |i: u32| (splitmix_at(1, i) % distinct.max(1) as u64) as u32;
        let numbers =
            (0..n as u32).into_par_iter().map(|i| if distinct == n { i } else { drawn(i) });
        let mut host = keys::<K>(numbers);
        let input = device.upload(&host)?;
        let seconds = median(stream, || {
            combiner.unique_into(stream, input.view(), output.view_mut(), count.view_mut())
        })?;
        let mut found = output.view().slice(..count.download()?[0] as usize)?.download()?;
        host.par_sort_unstable();
        host.dedup();
        found.par_sort_unstable();
        row![("op", "unique"), ("bits", bits), ("n", n), ("distinct", host.len())]
            .and(&rate(n, seconds))
            .and(&row![("verified", found == host), ("scratch_bytes", combiner.scratch_bytes())])
            .print();
    }
    let half = n / 2;
    let others = device.upload(&keys::<K>((half as u32..(half + n) as u32).into_par_iter()))?;
    output = device.alloc::<K>(2 * n)?;
    for (op, expected) in [("union", n + half), ("intersection", n - half), ("difference", half)] {
        let seconds = median(stream, || {
            let (a, b, to, sum) =
                (distinct_keys.view(), others.view(), output.view_mut(), count.view_mut());
            match op {
                "union" => combiner.union_into(stream, a, b, to, sum),
                "intersection" => combiner.intersection_into(stream, a, b, to, sum),
                _ => combiner.difference_into(stream, a, b, to, sum),
            }
        })?;
        let mut found = output.view().slice(..count.download()?[0] as usize)?.download()?;
        let numbers = match op {
            "union" => 0..n + half,
            "intersection" => half..n,
            _ => 0..half,
        };
        let mut right = keys::<K>((numbers.start as u32..numbers.end as u32).into_par_iter());
        right.par_sort_unstable();
        found.par_sort_unstable();
        row![("op", op), ("bits", bits), ("n", n)]
            .and(&rate(2 * n, seconds))
            .and(&row![
                ("verified", found.len() == expected && found == right),
                ("scratch_bytes", combiner.scratch_bytes())
            ])
            .print();
    }
    Ok(())
}

//! Rates of [`Set`](koel::Set) and [`SetCombiner`] on this machine's best device, with the
//! machine's own limits: one JSON line each.
//!
//!     cargo run --release -p koel-rates --bin set_rates -- 2^22 2^24 load=0.8,0.9 bits=32,64,128
//!
//! `gps`: 10^9 keys per second, the median of 7 runs after 2 warm-up runs. A build inserts keys
//! that are on the device into an existing set (`rebuild`). `unique` takes `n` keys drawn from
//! `distinct`. Unions, intersections and differences take two arrays of `n` keys, half of which are
//! in both; both arrays count. `verified`: the answers for all keys, or all keys of a result, equal
//! the host's. `of_limit`: the rate divided by that of random 32-byte reads from as much memory, in
//! the same run. Operations on sets of 128-bit keys are named `set128_...`.
use koel::limits;
use koel::types::SlotKey;
use koel::{Buffer, DeviceKey, Result, SetBuilder, SetCombiner, SetOptions, Stream};
use koel_rates::{
    Arguments, NumberedKey, RUNS, bits, drawn, keys, on_stream, print_copies, rate, rate_of_limit,
    row,
};
use rayon::prelude::*;

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let loads = args.list("load", "0.8", |load| load.parse().ok())?;
    let widths = args.list("bits", "32,64", bits)?;
    let stream = args.device()?.stream()?;
    print_copies(&stream)?;
    for n in args.sizes(&[1 << 22, 1 << 24])? {
        for bits in &widths {
            match bits {
                32 => {
                    rates::<u32>(&stream, n, "set", &loads)?;
                    combinations::<u32>(&stream, n)?;
                }
                64 => {
                    rates::<u64>(&stream, n, "set", &loads)?;
                    combinations::<u64>(&stream, n)?;
                }
                _ => rates::<u128>(&stream, n, "set128", &loads)?,
            }
        }
    }
    Ok(())
}

fn rates<K: DeviceKey + NumberedKey>(
    stream: &Stream,
    n: usize,
    kind: &str,
    loads: &[f64],
) -> Result<()> {
    let (device, bits) = (stream.device(), 8 * size_of::<K>());
    let present = device.upload(&keys::<K>(0..n))?;
    let absent = device.upload(&keys::<K>(n..2 * n))?;
    let (mut found, mut mask) = (device.alloc::<u8>(n)?, device.alloc::<u32>(n.div_ceil(32))?);
    let mut count = device.alloc::<u64>(1)?;
    for &load in loads {
        let mut builder = SetBuilder::new(device, SetOptions::default().with_load(load))?;
        let mut set = builder.build(stream, present.view())?;
        let build = on_stream(stream, || builder.rebuild(&mut set, stream, present.view()))?;
        let report = set.report()?;
        let mut verified = report.entries == n;
        for (queries, flag) in [(&present, 1), (&absent, 0)] {
            set.contains_into(stream, queries.view(), found.view_mut())?;
            set.count_into(stream, queries.view(), count.view_mut())?;
            verified &= found.download()?.par_iter().all(|&found| found == flag)
                && count.download()? == [u64::from(flag) * n as u64];
        }
        let what = |op: &str| {
            row![("op", format!("{kind}_{op}")), ("bits", bits), ("load", load), ("n", n)]
        };
        what("build")
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
        for (which, queries) in [("present", &present), ("absent", &absent)] {
            for op in ["contains", "contains_bits", "count"] {
                let times = on_stream(stream, || match op {
                    "contains" => set.contains_into(stream, queries.view(), found.view_mut()),
                    "contains_bits" => {
                        set.contains_bits_into(stream, queries.view(), mask.view_mut())
                    }
                    _ => set.count_into(stream, queries.view(), count.view_mut()),
                })?;
                what(&format!("{op}_{which}"))
                    .and(&rate_of_limit(n, times, limit))
                    .and(&row![("verified", verified)])
                    .print();
            }
        }
    }
    Ok(())
}

/// Measures the distinct keys of inputs with increasingly many copies, then the combinations of two
/// arrays.
fn combinations<K: DeviceKey + SlotKey + NumberedKey + Ord>(
    stream: &Stream,
    n: usize,
) -> Result<()> {
    let (device, bits) = (stream.device(), 8 * size_of::<K>());
    let mut combiner = SetCombiner::new(device)?;
    let (mut output, mut count) = (device.alloc::<K>(2 * n)?, device.alloc::<u64>(1)?);
    let sorted = |mut keys: Vec<K>| {
        keys.par_sort_unstable();
        keys
    };
    let found = |output: &Buffer<K>, count: &Buffer<u64>| {
        let held = count.download()?[0] as usize;
        Result::Ok(sorted(output.view().slice(..held)?.download()?))
    };
    for distinct in [n, n / 8, n / 64, n / 4096, 1] {
        let numbers = drawn(n, distinct);
        let mut host = numbers.par_iter().map(|&i| K::numbered(i)).collect::<Vec<_>>();
        let input = device.upload(&host)?;
        let times = on_stream(stream, || {
            let output = output.view_mut().slice(..n)?;
            combiner.unique_into(stream, input.view(), output, count.view_mut())
        })?;
        host = sorted(host);
        host.dedup();
        let verified = found(&output, &count)? == host;
        row![("op", "unique"), ("bits", bits), ("n", n), ("distinct", host.len())]
            .and(&rate(n, times))
            .and(&row![("verified", verified), ("scratch_bytes", combiner.scratch_bytes())])
            .print();
    }
    let half = n / 2;
    let inputs = [device.upload(&keys::<K>(0..n))?, device.upload(&keys::<K>(half..half + n))?];
    for (op, expected) in
        [("union", 0..half + n), ("intersection", half..n), ("difference", 0..half)]
    {
        let times = on_stream(stream, || {
            let [a, b] = [inputs[0].view(), inputs[1].view()];
            let (to, sum) = (output.view_mut(), count.view_mut());
            match op {
                "union" => combiner.union_into(stream, a, b, to, sum),
                "intersection" => combiner.intersection_into(stream, a, b, to, sum),
                _ => combiner.difference_into(stream, a, b, to, sum),
            }
        })?;
        let verified = found(&output, &count)? == sorted(keys(expected));
        row![("op", op), ("bits", bits), ("n", n)]
            .and(&rate(2 * n, times))
            .and(&row![("verified", verified), ("scratch_bytes", combiner.scratch_bytes())])
            .print();
    }
    Ok(())
}

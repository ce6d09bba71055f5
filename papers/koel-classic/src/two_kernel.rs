//! The two-kernel table of Wang and Hu, "Real-Time Hashing on GPU Architecture with CUDA"
//! (ShanghaiTech).
//!
//! A simplification of the 2009 table: each key takes the next place in a bucket of 512 slots,
//! without a counting pass or a scan, and one block turns each bucket into a cuckoo table of the
//! same slots in shared memory. The report names no functions for use inside the buckets. Three of
//! the family [`Family::Mixed`] are used, because the keys of one bucket are those that the first
//! function failed to separate.
//!
//! Memory: 8 / load bytes per pair (the report uses load 0.5) and 4 per bucket. A lookup reads one
//! to three slots of one bucket.
use super::input::{self, Pairs};
use super::restarts::{self, Attempt, Outcome};
use super::{Family, Kind, Options, SchemeReport, Table, cpu, find_args, runs_kernels};
use koel::{Buffer, Result, Stream, View, ViewMut};
use koel_classic_kernels::two_kernel::{
    MAX_EVICTIONS, NOWHERE, SLOTS, TwoKernelRef, next_slot, two_kernel_build,
    two_kernel_distribute, two_kernel_find,
};
use koel_classic_kernels::{EMPTY, key_of, status};
use koel_kernels::hash::Functions;
use rayon::prelude::*;

/// Parameters of the report.
#[derive(Clone, Debug)]
pub struct TwoKernel {
    /// Family of the function from keys to buckets.
    pub family: Family,
}
impl TwoKernel {
    /// The report's family for the buckets, [`Family::Linear2009`].
    pub const PUBLISHED: TwoKernel = TwoKernel { family: Family::Linear2009 };
}
/// Number of functions inside a bucket.
const FUNCTIONS: u32 = 3;

struct TwoKernelTable {
    bucket_of: Functions,
    functions: Functions,
    all_ones: u32,
    buckets: Buffer<u64>,
    report: SchemeReport,
}

impl Kind for TwoKernel {
    fn name(&self) -> &'static str {
        "two-kernel"
    }
    fn about(&self) -> &'static str {
        "Wang and Hu: fixed-size buckets, built by two kernels"
    }
    fn default_load(&self) -> f64 {
        0.5
    }
    fn max_load(&self) -> f64 {
        // Above it, some bucket of 512 receives more pairs than three functions can place.
        0.7
    }
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn Table>> {
        restarts::build(self, self.family, stream, (keys, values), options, attempt_build)
    }
}
impl restarts::Restarting for TwoKernelTable {
    fn complete(&mut self, report: SchemeReport) {
        self.report =
            SchemeReport { slots: self.buckets.len(), bytes: self.buckets.bytes(), ..report };
    }
}

fn attempt_build(
    stream: &Stream,
    pairs: Pairs<'_>,
    load: f64,
    attempt: Attempt,
) -> Result<Outcome<TwoKernelTable>> {
    let (device, n) = (stream.device(), pairs.n);
    let mean = load / attempt.growth * SLOTS as f64;
    let count = input::groups(n, load, n as f64 / mean, SLOTS)?;
    let slots = count * SLOTS;
    let bucket_of = Functions::new(attempt.family, 1, count, attempt.seed);
    let functions = Functions::new(Family::Mixed, FUNCTIONS, SLOTS, !attempt.seed);
    let mut counts = device.alloc::<u32>(count as usize)?;
    let mut buckets = device.alloc::<u64>(slots as usize)?;
    let mut status = device.alloc::<u32>(status::WORDS)?;

    let ((), distributing) = stream.time(|| {
        counts.view_mut().fill_bytes(0, stream)?;
        status.view_mut().fill_bytes(0, stream)?;
        let grid = n.div_ceil(two_kernel_distribute::SPEC.threads);
        let pairs = pairs.arg(stream)?;
        let (counts, buckets) =
            (counts.view_mut().arg("counts", stream)?, buckets.view_mut().arg("buckets", stream)?);
        let status = status.view_mut().arg("status", stream)?;
        // SAFETY: `n` keys and values; one count and 512 slots per bucket, and `bucket_of` stays
        // below the number of buckets; the kernel checks that a bucket is not full.
        unsafe {
            two_kernel_distribute::launch(stream, grid, pairs, bucket_of, counts, buckets, status)
        }
    })?;
    if status.download()?[status::FAILED as usize] != 0 {
        return Ok(Outcome { table: None, seconds: distributing });
    }
    let ((), building) = stream.time(|| {
        if runs_kernels(device) {
            let counts = counts.view().arg("counts", stream)?;
            let buckets = buckets.view_mut().arg("buckets", stream)?;
            let status = status.view_mut().arg("status", stream)?;
            // SAFETY: bucket `b` begins with `counts[b]` pairs, at most 512.
            unsafe { two_kernel_build::launch(stream, count, functions, counts, buckets, status) }
        } else {
            build_on_cpu(stream, functions, &counts, &mut buckets, &mut status);
            Ok(())
        }
    })?;
    let (status, seconds) = (status.download()?, distributing + building);
    if status[status::FAILED as usize] != 0 {
        return Ok(Outcome { table: None, seconds });
    }
    let all_ones = status[status::ALL_ONES as usize];
    Ok(Outcome {
        table: Some(TwoKernelTable {
            bucket_of,
            functions,
            all_ones,
            buckets,
            report: SchemeReport::default(),
        }),
        seconds,
    })
}

/// Does the work of the second kernel on the CPU: the same functions and eviction order, with pairs
/// inserted sequentially.
fn build_on_cpu(
    stream: &Stream,
    functions: Functions,
    counts: &Buffer<u32>,
    buckets: &mut Buffer<u64>,
    status: &mut Buffer<u32>,
) {
    let (mut buckets, mut status) = (buckets.view_mut(), status.view_mut());
    let (Some(counts), Some(buckets), Some(status)) =
        (counts.view().host(), buckets.host_mut(), status.host_mut())
    else {
        return;
    };
    let failed = stream.device().install(|| {
        buckets
            .par_chunks_mut(SLOTS as usize)
            .zip(counts)
            .map(|(bucket, &count)| {
                let mut items = [EMPTY; SLOTS as usize];
                items[..count as usize].copy_from_slice(&bucket[..count as usize]);
                bucket.fill(EMPTY);
                !items[..count as usize].iter().all(|&item| place(item, functions, bucket)) as u32
            })
            .sum::<u32>()
    });
    status[status::FAILED as usize] += failed;
}
/// Places a pair; returns whether it and all pairs it evicted found a slot.
fn place(item: u64, functions: Functions, bucket: &mut [u64]) -> bool {
    let (mut e, mut at) = (item, NOWHERE);
    for _ in 0..MAX_EVICTIONS {
        at = next_slot(key_of(e), at, &functions);
        e = std::mem::replace(&mut bucket[at as usize], e);
        if e == EMPTY {
            return true;
        }
    }
    false
}

/// Slots that may hold a key: all in one bucket.
struct Slots<'a>(&'a TwoKernelTable);
impl cpu::Probe for Slots<'_> {
    /// First slot of the bucket.
    type Key = u32;
    fn probes(&self) -> u32 {
        self.0.functions.count()
    }
    #[inline(always)]
    fn start(&self, key: u32) -> u32 {
        self.0.bucket_of.slot(0, key) * SLOTS
    }
    #[inline(always)]
    fn slots(&self, i: u32) -> impl Fn(u32, u32) -> usize {
        let slot = self.0.functions.bind(i);
        move |key, bucket| (bucket + slot(key)) as usize
    }
}

impl Table for TwoKernelTable {
    fn report(&self) -> &SchemeReport {
        &self.report
    }
    fn get_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        mut values: ViewMut<'_, u32>,
        mut found: ViewMut<'_, u8>,
    ) -> Result<()> {
        let args = find_args(stream, &queries, &mut values, &mut found)?;
        let (bucket_of, functions, all_ones) = (self.bucket_of, self.functions, self.all_ones);
        if !runs_kernels(stream.device()) {
            let rest = |key| (all_ones != 0 && key == u32::MAX).then_some(EMPTY);
            cpu::find(
                stream.device(),
                &Slots(self),
                self.buckets.view(),
                queries,
                values,
                found,
                rest,
            );
            return Ok(());
        }
        let grid = args.n.div_ceil(two_kernel_find::SPEC.threads);
        let slots = self.buckets.view().arg("buckets", stream)?;
        let table = TwoKernelRef { bucket_of, functions, slots, all_ones };
        // SAFETY: `n` queries and answers; the buckets were built with these functions.
        unsafe { two_kernel_find::launch(stream, grid, table, args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use koel::Device;
    use koel_kernels::hash::mix::mix;
    use std::collections::HashMap;

    /// The layout of the report: buckets of 512 slots, one after another; each key in the bucket
    /// that the linear function gives, in one of its three slots there, and each pair once.
    #[test]
    fn slots_lie_as_wang_and_hu_describe() {
        for device in [Device::cpu_with_threads(1).unwrap(), Device::executor(5)] {
            let stream = device.stream().unwrap();
            let pairs = (0..1000).map(|i| (mix(i), i)).collect::<HashMap<u32, u32>>();
            let (keys, values): (Vec<u32>, Vec<u32>) = pairs.iter().unzip();
            let (k, v) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
            let input = Pairs { keys: k.view(), values: v.view(), n: pairs.len() as u32 };
            let attempt = Attempt { number: 0, family: Family::Linear2009, seed: 3, growth: 1.0 };
            let table = attempt_build(&stream, input, 0.5, attempt).unwrap().table.unwrap();
            let slots = table.buckets.download().unwrap();
            assert_eq!(slots.len(), 4 * 512);
            let bucket_of = Functions::new(Family::Linear2009, 1, 4, 3);
            let mut left = pairs;
            for (at, &entry) in (0..).zip(&slots).filter(|(_, entry)| **entry != EMPTY) {
                let key = key_of(entry);
                assert_eq!(bucket_of.slot(0, key), at / 512, "key {key} at {at}");
                let inside = (0..3).any(|f| table.functions.slot(f, key) == at % 512);
                assert!(inside, "key {key} at {at}");
                assert_eq!(left.remove(&key), Some((entry >> 32) as u32), "key {key} at {at}");
            }
            assert!(left.is_empty(), "{} pairs are in no slot", left.len());
        }
    }
}

//! Grouping of pairs by bucket: the first steps of the two-level tables.
use super::Family;
use super::input::Pairs;
use super::restarts::Attempt;
use super::runs_kernels;
use koel::{Buffer, Device, Result, Stream};
use koel_classic_kernels::BucketsIn;
use koel_classic_kernels::two_level::{CountsOut, two_level_count, two_level_scatter};
use koel_kernels::hash::Functions;

/// Returns the family of the function from keys to buckets.
///
/// The paper takes the key modulo the number of buckets first, which keeps neighbours together. If
/// that fails, it takes a linear function modulo the prime of the functions inside buckets. Keys
/// that are equal modulo the prime then share both bucket and slots, so that four of them cannot be
/// placed, and of a million random keys many are. Here bijective mixing spreads them over the
/// buckets.
pub(super) fn family(attempt: Attempt) -> Family {
    match attempt.number {
        0 if attempt.family == Family::Linear2009 => Family::Modulo,
        0 => attempt.family,
        _ => Family::Mixed,
    }
}

/// Number of pairs per bucket, on average, that choose between two buckets at the same time on a
/// GPU. A pair misses the others' choices: with a thread per pair, buckets of small inputs would
/// differ more than without a choice. Simulated builds at a load of 0.83 have at most 505 pairs in
/// a bucket of 512 with 16, and overfull buckets with 48.
const CHOOSING: usize = 16;

/// The buckets, and the input pairs in bucket order.
pub(super) struct ByBucket {
    /// Function from keys to buckets, or two of which a key takes the less loaded bucket.
    pub bucket_of: Functions,
    /// Number of pairs in each bucket, and where they start.
    pub counts: Buffer<u32>,
    pub starts: Buffer<u32>,
    /// Rank of each input pair in its bucket, and which of two functions gives the bucket.
    pub offsets: Buffer<u32>,
    pub together: Buffer<u64>,
}
impl ByBucket {
    /// Allocates memory for `n` pairs in `buckets` buckets.
    pub(super) fn new(
        device: &Device,
        bucket_of: Functions,
        buckets: usize,
        n: usize,
    ) -> Result<ByBucket> {
        Ok(ByBucket {
            bucket_of,
            counts: device.alloc(buckets)?,
            starts: device.alloc(buckets)?,
            offsets: device.alloc(n)?,
            together: device.alloc(n)?,
        })
    }
    /// Counts the pairs of each bucket, and sets the failure status if one has more than `limit`.
    /// Two fills and one launch.
    ///
    /// # Safety
    /// There is one count per bucket, and `bucket_of` stays below their number; as many offsets as
    /// pairs; `status::WORDS` words of status.
    pub(super) unsafe fn count(
        &mut self,
        stream: &Stream,
        pairs: Pairs<'_>,
        limit: u32,
        status: &mut Buffer<u32>,
    ) -> Result<()> {
        self.counts.view_mut().fill_bytes(0, stream)?;
        status.view_mut().fill_bytes(0, stream)?;
        let mut threads = pairs.n;
        if self.bucket_of.count() > 1 && runs_kernels(stream.device()) {
            threads = threads.min((CHOOSING * self.counts.len()).min(u32::MAX as usize) as u32);
        }
        let grid = threads.div_ceil(two_level_count::SPEC.threads);
        let keys = pairs.keys.arg("keys", stream)?;
        let out = CountsOut {
            counts: self.counts.view_mut().arg("counts", stream)?,
            offsets: self.offsets.view_mut().arg("offsets", stream)?,
            status: status.view_mut().arg("status", stream)?,
        };
        // SAFETY: `n` keys; the rest is the caller's contract.
        unsafe { two_level_count::launch(stream, grid, keys, pairs.n, self.bucket_of, limit, out) }
    }
    /// Scatters the pairs into bucket order. One launch.
    ///
    /// # Safety
    /// The same pairs have been counted, `starts` holds the exclusive sums of the counts, and there
    /// is room for all pairs.
    pub(super) unsafe fn scatter(&mut self, stream: &Stream, pairs: Pairs<'_>) -> Result<()> {
        let grid = pairs.n.div_ceil(two_level_scatter::SPEC.threads);
        let pairs = pairs.arg(stream)?;
        let starts = self.starts.view().arg("starts", stream)?;
        let offsets = self.offsets.view().arg("offsets", stream)?;
        let together = self.together.view_mut().arg("pairs", stream)?;
        // SAFETY: `n` keys and values, and by the caller's contract `n` offsets and pairs; counting
        // with the same `bucket_of` gave each pair its own place below `n`.
        unsafe {
            two_level_scatter::launch(
                stream,
                grid,
                pairs,
                self.bucket_of,
                starts,
                offsets,
                together,
            )
        }
    }
    /// Returns the pairs in bucket order as a kernel argument.
    pub(super) fn arg(&self, stream: &Stream) -> Result<BucketsIn> {
        Ok(BucketsIn {
            starts: self.starts.view().arg("starts", stream)?,
            counts: self.counts.view().arg("counts", stream)?,
            pairs: self.together.view().arg("pairs", stream)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use koel_classic_kernels::status;
    use koel_classic_kernels::two_level::SECOND;
    use koel_kernels::hash::{Family, mix::mix};
    use std::collections::HashSet;

    /// Threads that choose at the same time would fill a bucket beyond its limit. Those that find
    /// it full take the other one: only pairs that find both full are failures, and every rank is
    /// given once.
    #[test]
    fn no_bucket_of_two_exceeds_the_limit() {
        let (buckets, limit, n) = (8, 56, 440);
        let mut built = 0;
        for seed in 0..20 {
            let device = Device::executor(seed);
            let stream = device.stream().unwrap();
            let keys = device.upload(&(0..n).map(mix).collect::<Vec<u32>>()).unwrap();
            let pairs = Pairs { keys: keys.view(), values: keys.view(), n };
            let bucket_of = Functions::new(Family::Mixed, 2, buckets, seed);
            let mut by_bucket =
                ByBucket::new(&device, bucket_of, buckets as usize, n as usize).unwrap();
            let mut status = device.alloc(status::WORDS).unwrap();
            // SAFETY: memory for `n` pairs and for all buckets of `bucket_of`; `status::WORDS`
            // words.
            unsafe { by_bucket.count(&stream, pairs, limit, &mut status) }.unwrap();
            let failed = status.download().unwrap()[status::FAILED as usize];
            let counts = by_bucket.counts.download().unwrap();
            let above = counts.iter().map(|count| count.saturating_sub(limit)).sum::<u32>();
            assert_eq!((above, counts.iter().sum()), (failed, n), "seed {seed}: {counts:?}");
            if failed > 0 {
                continue;
            }
            built += 1;
            let offsets = by_bucket.offsets.download().unwrap();
            let places = (0..n).zip(&offsets).map(|(i, &offset)| {
                let bucket = bucket_of.slot(offset / SECOND, mix(i));
                assert!(offset % SECOND < counts[bucket as usize], "seed {seed}");
                (bucket, offset % SECOND)
            });
            assert_eq!(places.collect::<HashSet<_>>().len(), n as usize, "seed {seed}");
        }
        assert!(built > 10, "{built} of 20 builds hold all pairs");
    }
}

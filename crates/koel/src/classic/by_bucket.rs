//! Grouping of pairs by bucket: the first steps of the two-level tables.
use super::Family;
use super::input::Pairs;
use super::restarts::Attempt;
use crate::device::{Buffer, Device, Stream};
use crate::error::Result;
use koel_kernels::classic::BucketsIn;
use koel_kernels::classic::two_level::{CountsOut, two_level_count, two_level_scatter};
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

/// The buckets, and the input pairs in bucket order.
pub(super) struct ByBucket {
    /// Function from keys to buckets.
    pub bucket_of: Functions,
    /// Number of pairs in each bucket, and where they start.
    pub counts: Buffer<u32>,
    pub starts: Buffer<u32>,
    /// Rank of each input pair in its bucket.
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
        let grid = pairs.n.div_ceil(two_level_count::SPEC.threads);
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

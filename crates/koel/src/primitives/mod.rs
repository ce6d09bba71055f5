//! Building blocks of tables, on every device: scan, reduction, compaction, runs, histogram,
//! partition, radix sort.
//!
//! Each works on views of device memory, in the order of a stream. Primitives that need scratch
//! memory are plans: created once for a maximum number of elements, then run any number of times
//! without allocating. Nothing here waits for the device: counts and totals stay on it, unless a
//! function says that it reads them back.
//!
//! A GPU and the test executor run kernels. The CPU device runs native code on its threads, which
//! may allocate small arrays of counts.
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
pub mod compact;
mod distribute;
pub mod histogram;
pub(crate) mod lookback;
pub mod partition;
pub mod radix_sort;
pub mod reduce;
pub mod runs;
pub mod scan;

pub use compact::{Compact, compact, compact_pairs};
pub use histogram::{Bins, histogram, histogram_into};
pub use partition::{ExactPartition, partition_exact, partition_with_slack};
pub use radix_sort::{SortKeys, SortPairs, sort_keys, sort_pairs};
pub use reduce::{max, max_into, min, min_into, sum, sum_into};
pub use runs::Runs;
pub use scan::{Scan, exclusive_scan, inclusive_scan};

use crate::device::Device;
use crate::error::{Error, Result, count32};

/// Checks `n` elements against the plan's maximum `max`.
fn check_planned(what: &'static str, n: usize, max: usize) -> Result<u32> {
    if n > max {
        return Err(Error::TooMany { what, n, max });
    }
    count32(what, n)
}
/// Returns the number of blocks for `n` elements in a grid-stride loop of `turn` elements per
/// block: enough to fill the device, no more than there is work for.
fn filling_grid(device: &Device, n: u32, turn: u32) -> u32 {
    const BLOCKS_PER_MULTIPROCESSOR: usize = 8;
    n.div_ceil(turn).min((device.parallelism() * BLOCKS_PER_MULTIPROCESSOR) as u32)
}

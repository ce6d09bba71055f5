//! Tables of rows, of which copies are dropped before the table is planned: from bins of all pairs.
//!
//! [`partition`] writes all pairs to bins, as in any build. [`find_copies`] finds the rows with
//! equal keys, which meet in one bin; the caller compares what the keys stand for. [`build_ranked`]
//! builds a table of the rows that stay from the same bins.
use super::copies::FindCopies;
use super::partition::{Bins, PairsOf, Parted};
use super::simd::Line;
use super::{
    BIN_BYTES, Copied, Counts, How, Memory, Pages, RANKED_BIN_BYTES, Ranked, Ranks, Scratch, Stash,
    bins, bucket_bytes, check_table, fill_bins, gather, lines_of, lock, part, prepare, stretches,
};
use crate::device::Device;
use crate::error::{Result, check_length};
use crate::fallible::{collect, reserve};
use crate::parallel;
use koel_kernels::table::layout::{Layout, Shape};
use std::marker::PhantomData;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Pairs in bins, in the memory of builds.
#[derive(Clone, Copy)]
pub(crate) struct InBins {
    bins: Bins,
    seed: u32,
    pairs: usize,
}
impl InBins {
    /// Returns the seed of the mixed keys.
    pub(crate) fn seed(self) -> u32 {
        self.seed
    }
}
/// Partitions pairs into bins for a table of this shape. Errors: mismatched lengths, out of memory.
pub(crate) fn partition<L: Layout>(
    device: &Device,
    shape: Shape,
    seed: u32,
    (keys, values): (&[L::Key], &[L::Value]),
    scratch: &mut Scratch<L>,
) -> Result<InBins> {
    check_length("values", values.len(), "keys", keys.len())?;
    // The same bins for every number of threads: the order of the pairs depends on them.
    let bins = bins(shape, bucket_bytes::<L>(), 0, BIN_BYTES);
    let Scratch { pages, level, ref mut arena, ref mut parted, .. } = *scratch;
    device.install(|| {
        part::<PairsOf<L>>(level, pages, bins, seed, keys, values, arena, parted).map(drop)
    })?;
    Ok(InBins { bins, seed, pairs: keys.len() })
}
/// Calls `take` with the rows, the values of wide pairs, that came after others with the same key,
/// some at a time: one row of each key is not dropped, its first if `keep_first`, otherwise its
/// last. The pairs have been [partitioned](partition).
///
/// Reads the bins once. Returns false if the search was given up, since the keys were probably
/// chosen against the seed to slow it down. Errors: out of memory.
pub(crate) fn find_copies<L: Layout<Value = u32>>(
    device: &Device,
    in_bins: InBins,
    keep_first: bool,
    take: impl Fn(&[Copied]) + Sync,
    scratch: &mut Scratch<L>,
) -> Result<bool> {
    let InBins { bins, pairs, .. } = in_bins;
    let is_crowded = &AtomicBool::new(false);
    let Scratch { pages, level, ref mut arena, ref parted, ref mut seen, .. } = *scratch;
    device.install(|| {
        reserve(seen, rayon::current_num_threads())?;
        seen.resize_with(rayon::current_num_threads().max(seen.len()), Mutex::default);
        let parts = &parts::<L>(in_bins, pages, arena, parted)?;
        let expected = pairs.div_ceil(bins.count());
        parallel::try_each(0..bins.count(), |_, bin| {
            let seen = &mut *lock(&seen[rayon::current_thread_index().unwrap_or(0)]);
            let take = &take;
            let layout = PhantomData::<L>;
            let work =
                FindCopies { layout, seen, parts, bin, expected, keep_first, take, is_crowded };
            level.run(work)
        })?;
        Ok(!is_crowded.load(Ordering::Relaxed))
    })
}
/// Builds a table of those pairs whose rows, their values, are kept: with their ranks as values.
/// Without `ranks` all rows are kept. The keys are distinct, and the pairs have been
/// [partitioned](partition), for a table of any shape. Otherwise like [`build`].
///
/// Memory traffic: the bins (read, two or three times if there are ranks), the table (written).
pub(crate) fn build_ranked<L: Layout>(
    device: &Device,
    (in_bins, ranks): (InBins, Option<&Ranks>),
    shape: Shape,
    how: How,
    table: &mut [u64],
    stash: &mut Stash<L>,
    scratch: &mut Scratch<L>,
) -> Result<Option<Counts>> {
    check_table::<L>(shape, table.len())?;
    let Scratch {
        pages, level, ref mut arena, ref parted, ref mut builders, ref mut begun, ..
    } = *scratch;
    let stashed = &AtomicUsize::new(0);
    let ranked = ranks.map(|ranks| Ranked { ranks, bins: in_bins.bins });
    let bin_bytes = if ranks.is_some() { RANKED_BIN_BYTES } else { BIN_BYTES };
    let bins = bins(shape, bucket_bytes::<L>(), 0, bin_bytes);
    device.install(|| {
        let parts = &parts::<L>(in_bins, pages, arena, parted)?;
        prepare(builders, rayon::current_num_threads(), bins, in_bins.pairs)?;
        *begun = true;
        fill_bins(bins, how, (parts, ranked), stashed, table, (level, builders))
    })?;
    if stashed.load(Ordering::Relaxed) > how.most_stashed {
        return Ok(None);
    }
    let kept = ranks.map_or(in_bins.pairs, Ranks::kept);
    Ok(Some(gather(builders, kept, stash)?.0))
}
/// Returns each thread's output of [`partition`] with its arena.
fn parts<'a, L: Layout>(
    in_bins: InBins,
    pages: Pages,
    arena: &'a mut Memory,
    parted: &'a [Parted],
) -> Result<Vec<(&'a Parted, &'a [u64])>> {
    let (_, lines) = stretches::<PairsOf<L>>(in_bins.bins, in_bins.pairs)?;
    let bytes = lines.iter().sum::<usize>() * size_of::<Line>();
    let arena = lines_of(arena, bytes, pages)?;
    let arenas = parallel::split(arena, lines.into_iter());
    let arenas = arenas.map(|arena| bytemuck::cast_slice(arena) as &[u64]);
    Ok(collect(parted.iter().zip(arenas))?)
}

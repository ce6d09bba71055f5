//! A table of some other size with the keys of a table and other values: a table of rows in which
//! the rows of dropped keys are counted no more.
//!
//! The pairs of a table are in the order of their hashes. [`extract`] writes them to bins of the new
//! table one after the other, as fast as memory is read: nothing is mixed again, and no access
//! depends on the order of the input. [`build_extracted`] fills the new table from the bins. The old
//! table may be freed between.
use super::partition::{BLOCK, Bins, Out, Parted};
use super::simd::{GROUP, LINE, Line, Simd, Work, behind_at, heads};
use super::stash::Stash;
use super::{Counts, How, STREAM_BYTES, Scratch, alone_bytes, bins, collect, fill_bins, prepare};
use crate::device::Device;
use crate::error::Result;
use crate::parallel;
use koel_kernels::table::layout::{BUCKET, EMPTY, Layout, Shape};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Pairs in bins, in the memory of a builder.
pub(crate) struct Extracted {
    bins: Bins,
    pairs: usize,
    /// Number of lines of each thread's arena.
    lines: Vec<usize>,
}

/// Partitions the `pairs` pairs of a table into bins for a table of shape `to`, with `value` of
/// their values. Returns `None` if a thread got many more pairs than its share, which happens only
/// to keys that were chosen for that.
///
/// Reads the table once and writes 8 bytes per pair, 16 if wide. Errors: out of memory.
pub(crate) fn extract<L: Layout>(
    device: &Device,
    (from, words, stash): (Shape, &[u64], &Stash<L>),
    (to, pairs): (Shape, usize),
    value: impl Fn(L::Value) -> L::Value + Sync,
    scratch: &mut Scratch<L>,
) -> Result<Option<Extracted>> {
    let alone = alone_bytes(device.parallelism()).min(scratch.max_alone);
    let bins = bins::<L>(to, alone);
    let threads = if bins.count() == 1 { 1 } else { device.parallelism() };
    let buckets = (from.all_buckets() as usize).div_ceil(threads).max(1);
    let share = pairs.div_ceil(threads);
    // Six standard deviations above the mean, the stash, and a batch.
    let most = share.min(pairs) + 6 * share.isqrt() + stash.len() + 1 + GROUP;
    let lines_of_thread = bins.lines(most * L::SLOT_WORDS) + GROUP * (BLOCK / LINE);
    let parts = words.chunks(buckets * L::WORDS);
    let lines = vec![lines_of_thread; parts.len()];
    let bytes = lines.iter().sum::<usize>() * size_of::<Line>();
    let Scratch { pages, level, ref mut arena, ref mut parted, .. } = *scratch;
    let arena = bytemuck::cast_slice_mut::<u8, Line>(arena.get(bytes, pages)?);
    parted.resize_with(parts.len().max(parted.len()), Parted::default);
    let held = stash.held().map(|held| L::pair(L::AMBIGUOUS, held));
    let apart = stash.iter().chain(held).collect::<Vec<_>>();
    let (value, stream) = (&value, bytes > STREAM_BYTES);
    let has_room = AtomicBool::new(true);
    let arenas = parallel::split(arena, lines.iter().copied());
    let extract = || {
        parallel::each(parts.zip(arenas).zip(parted), |i, ((words, arena), parted)| {
            let apart = if i == 0 { &apart[..] } else { &[] };
            let work = Extract::<L, _> { words, apart, value, bins, parted, arena, stream };
            if !level.run(work) {
                has_room.store(false, Relaxed);
            }
        });
    };
    if threads == 1 {
        extract()
    } else {
        device.install(extract)
    }
    Ok(has_room.into_inner().then_some(Extracted { bins, pairs, lines }))
}

/// Builds a table from pairs that were [extracted](extract) for its shape, whose keys are distinct.
/// Otherwise like [`build`](super::build).
pub(crate) fn build_extracted<L: Layout>(
    device: &Device,
    Extracted { bins, pairs, lines }: Extracted,
    how: How,
    table: &mut [u64],
    stash: &mut Stash<L>,
    scratch: &mut Scratch<L>,
) -> Result<Option<Counts>> {
    let shape = bins.shape;
    super::check_table::<L>(shape, table.len())?;
    let Scratch { pages, level, ref mut arena, ref parted, ref mut builders, .. } = *scratch;
    let stashed = &AtomicUsize::new(0);
    let bytes = lines.iter().sum::<usize>() * size_of::<Line>();
    let arena = bytemuck::cast_slice_mut::<u8, Line>(arena.get(bytes, pages)?);
    let arenas = parallel::split(arena, lines.into_iter()).into_iter();
    let parts =
        parted.iter().zip(arenas.map(|arena| bytemuck::cast_slice(arena))).collect::<Vec<_>>();
    prepare(builders, if bins.count() == 1 { 1 } else { device.parallelism() });
    let mut fill = || fill_bins(shape, bins, how, &parts, stashed, table, (level, builders));
    if bins.count() == 1 {
        fill()
    } else {
        device.install(fill)
    }
    if stashed.load(Relaxed) > how.most_stashed {
        return Ok(None);
    }
    Ok(Some(collect(builders, pairs, stash).0))
}

/// Work that partitions the pairs of a part of a table.
struct Extract<'a, L: Layout, F> {
    words: &'a [u64],
    /// Pairs that are in no bucket.
    apart: &'a [L::Pair],
    value: &'a F,
    bins: Bins,
    parted: &'a mut Parted,
    arena: &'a mut [Line],
    /// Whether stores to the bins bypass the cache.
    stream: bool,
}
impl<L: Layout, F: Fn(L::Value) -> L::Value> Work for Extract<'_, L, F> {
    /// Whether there was room.
    type Output = bool;
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> bool {
        if self.stream { self.extract::<S, true>(simd) } else { self.extract::<S, false>(simd) }
    }
}
impl<L: Layout, F: Fn(L::Value) -> L::Value> Extract<'_, L, F> {
    #[inline(always)]
    fn extract<S: Simd, const STREAM: bool>(self, simd: S) -> bool {
        let Extract { words, apart, value, bins, parted, arena, .. } = self;
        let mut out = Out::<L, S, STREAM>::new(simd, bins, parted, arena);
        let push = |out: &mut Out<'_, L, S, STREAM>, pairs: &[L::Pair]| {
            let has_room = out.has_room(pairs.len());
            if has_room {
                for &pair in pairs {
                    let mixed = L::key(pair);
                    out.push(bins.of(L::hash(mixed)), L::pair(mixed, value(L::value(pair))));
                }
            }
            has_room
        };
        // Without branches that depend on how many slots of a bucket are taken.
        let (mut pairs, mut count) = ([L::EMPTY_PAIR; 2 * GROUP], 0);
        for place in 0..words.len() / L::WORDS {
            let heads = heads::<L>(words, place);
            for (slot, &head) in heads.iter().enumerate() {
                pairs[count % (2 * GROUP)] = L::with_head(head, words[behind_at::<L>(place, slot)]);
                count += (head != EMPTY) as usize;
            }
            if count >= GROUP {
                if !push(&mut out, &pairs[..GROUP]) {
                    return false;
                }
                pairs.copy_within(GROUP..GROUP + BUCKET, 0);
                count -= GROUP;
            }
        }
        let has_room = push(&mut out, &pairs[..count])
            && apart.chunks(GROUP).all(|apart| push(&mut out, apart));
        out.finish();
        has_room
    }
}

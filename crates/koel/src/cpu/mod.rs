//! The flagship table's CPU engine: builds and searches the bytes that
//! `koel_kernels::table::layout` defines, at the speed of the host's memory.
//!
//! A build takes two passes: `partition` mixes the pairs and partitions them into bins of whole
//! partitions, each small enough for `build` to fill in cache. The calling thread fills a small
//! table alone, in one pass. A lookup reads one or two cache lines, with some 128 in flight
//! (`find`). `simd` holds the code written by hand for an instruction set; the best one that the
//! machine has is selected at run time.
//!
//! The table's bytes depend on shape, pairs and policy, but not on the number of threads, the bins
//! or the instruction set. For bytes that are the same for every order of the pairs and on other
//! devices, `reproduce` places the pairs anew before a bin is written.
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
mod answers;
mod batch;
mod bucketed;
mod buckets;
mod build;
mod builder;
mod copies;
mod double;

mod find;
mod finder;
mod in_place;
mod iter;
mod mixed;
mod outcome;
mod partition;
mod place;
mod ranks;
mod reproduce;
mod rows;
pub(crate) mod set;
mod simd;
mod stash;
mod stashed;
#[cfg(test)]
mod tests;
mod update;

use crate::device::Device;
pub(crate) use crate::device::memory::{Memory, Pages};
use crate::duplicates::Duplicates;
use crate::error::{Error, Result, check_length};
use crate::fallible::{collect, extend, reserve};
use crate::parallel;
pub(crate) use batch::{Batch, Updated};
pub(crate) use bucketed::{Buckets, OfMap, OfSet};
use build::{BuildBin, Source};
use builder::Builder;
pub(crate) use copies::Copied;
use copies::Seen;
pub(crate) use double::{double, doubled};
pub(crate) use find::{Probe, Tables};
pub(crate) use finder::{Finder, PairFinder};
pub(crate) use in_place::{Distributed, InPlace, update_in_place};
pub(crate) use iter::Iter;
use koel_kernels::table::layout::{Layout, Number, Shape};
use partition::{Bins, Entries, InArenas, PairsOf, Parted, Partition};
use ranks::Ranked;
pub(crate) use ranks::Ranks;
pub(crate) use rows::{InBins, build_ranked, find_copies, partition};
use simd::Line;
pub(crate) use simd::{GROUP, Level, Simd, Work};
pub(crate) use stash::{Stash, put_pair};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
pub(crate) use update::{Applying, Updates, update};

/// Bytes of a bin's buckets while they are filled, if partitions are smaller. Together with its
/// pairs they stay in a core's L2 cache. From 80 to 256 KiB the build rate is the same within 3 %
/// (Zen 5, 2^24 pairs); at 640 KiB it is 10 % lower.
const BIN_BYTES: u64 = 128 << 10;
/// The same for a table of other rows than the bins that it is built from. Each of its bins reads
/// two of those only in part: with 128 KiB, they took a quarter of the time.
const RANKED_BIN_BYTES: u64 = 384 << 10;
/// Maximum bytes of a table that the calling thread builds alone, as one bin, however few threads
/// there are: beyond, misses in L2 cost more than partitioning.
const MAX_ALONE: u64 = 2 << 20;
/// Nanoseconds to build one byte of a table alone while its buckets fit L2, and of CPU time to
/// partition and build it in bins. Zen 5, AVX-512: 3.0 to 3.5 and 4.2 ns for a pair of 10 bytes.
const ALONE_NS: f64 = 0.33;
const IN_BINS_NS: f64 = 0.42;
/// Nanoseconds to wake threads for both passes and to wait for them.
const WAKE_NS: f64 = 150e3;
/// Maximum number of bins per build; the largest tables get larger bins instead.
const MAX_BINS: u32 = 4096;
/// Larger arrays are written with stores that bypass the cache, where they would not stay until
/// read.
const STREAM_BYTES: usize = 4 << 20;

/// Working memory of builds. Reuse for a build of the same size allocates nothing.
pub(crate) struct Scratch<L: Layout> {
    pages: Pages,
    level: Level,
    /// Maximum bytes of a table that the calling thread builds alone.
    max_alone: u64,
    arena: Memory,
    parted: Vec<Parted>,
    builders: Vec<Mutex<Builder<L>>>,
    seen: Vec<Mutex<Seen>>,
    /// Whether the last build has begun to write the table.
    pub begun: bool,
}
impl<L: Layout> Scratch<L> {
    /// Creates empty working memory, whose big arrays will use these pages.
    pub(crate) fn new(pages: Pages) -> Scratch<L> {
        Scratch::with_level(pages, Level::best())
    }
    /// Creates empty working memory for builds with instruction set `level`.
    pub(crate) fn with_level(pages: Pages, level: Level) -> Scratch<L> {
        let (max_alone, arena) = (MAX_ALONE, Memory::default());
        let (parted, builders, seen) = (Vec::new(), Vec::new(), Vec::new());
        Scratch { pages, level, max_alone, arena, parted, builders, seen, begun: false }
    }
    /// Builds tables of any size in bins.
    #[cfg(test)]
    pub(crate) fn in_bins(self) -> Scratch<L> {
        Scratch { max_alone: 0, ..self }
    }
    /// Returns the number of bytes held.
    pub(crate) fn bytes(&self) -> usize {
        let builder = |b: &Mutex<Builder<L>>| lock(b).bytes();
        let seen = |s: &Mutex<Seen>| lock(s).bytes();
        self.arena.bytes()
            + self.parted.iter().map(Parted::bytes).sum::<usize>()
            + self.builders.iter().map(builder).sum::<usize>()
            + self.seen.iter().map(seen).sum::<usize>()
    }
}
fn lock<T>(of_thread: &Mutex<T>) -> MutexGuard<'_, T> {
    of_thread.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts of a build.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Number of pairs in the table and its stash.
    pub pairs: usize,
    /// Number of pairs dropped because another has the same key.
    pub duplicates: usize,
    /// Number of pairs in the stash, without that of the ambiguous key.
    pub stashed: usize,
    /// Number of pairs moved to their other bucket while others were placed.
    pub evictions: u64,
}

/// Parameters of a build.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// Treatment of equal keys.
    pub policy: Duplicates,
    /// Whether the bytes are the same for every order of distinct keys, and equal to those of the
    /// other devices' reproducible tables.
    pub reproducible: bool,
    /// Maximum number of stashed pairs.
    pub most_stashed: usize,
}

/// Builds a table of these pairs: overwrites every slot of `table` and the stash. Returns `None` if
/// more pairs would be stashed than [allowed](How::most_stashed): `table` is then partly written,
/// and the keys were probably chosen against the seed.
///
/// Memory traffic is about one pass over each of: the pairs (read), the bins (8 bytes per pair, 16
/// if wide, written and read), the table (written). The calling thread builds a [small](bins) table
/// alone, without bins.
///
/// Errors: mismatched lengths, more than 2^32 - 1 buckets, out of memory; equal keys with
/// [`Duplicates::Reject`] (`table` is then partly written).
#[allow(clippy::too_many_arguments, reason = "one call inside the crate, which has them all apart")]
pub(crate) fn build<L: Layout>(
    device: &Device,
    shape: Shape,
    seed: u32,
    keys: &[L::Key],
    values: &[L::Value],
    how: How,
    table: &mut [u64],
    stash: &mut Stash<L>,
    scratch: &mut Scratch<L>,
) -> Result<Option<Counts>> {
    check_length("values", values.len(), "keys", keys.len())?;
    check_table::<L>(shape, table.len())?;
    let level = scratch.level;
    let alone = alone_bytes(device.parallelism()).min(scratch.max_alone);
    let bins = bins(shape, bucket_bytes::<L>(), alone, BIN_BYTES);
    let stashed = &AtomicUsize::new(0);
    if bins.count() == 1 {
        prepare(&mut scratch.builders, 1, bins, keys.len())?;
        scratch.begun = true;
        let (source, stream) =
            (Source::Input { seed, keys, values }, table.len() * 8 > STREAM_BYTES);
        let builder = &mut *lock(&scratch.builders[0]);
        let (bin, first_partition, source) = (0, 0, &source);
        level.run(BuildBin {
            builder,
            shape,
            how,
            stashed,
            source,
            bin,
            first_partition,
            table,
            stream,
        })?;
    } else {
        device.install(|| build_in_bins(seed, bins, keys, values, how, stashed, table, scratch))?;
    }
    if stashed.load(Ordering::Relaxed) > how.most_stashed {
        return Ok(None);
    }
    let (counts, repeated) = gather(&mut scratch.builders, keys.len(), stash)?;
    match repeated {
        Some(mixed) => Err(repeated_key::<L>(seed, keys, mixed)),
        None => Ok(Some(counts)),
    }
}

/// Returns the bytes of a bucket of pairs.
fn bucket_bytes<L: Layout>() -> usize {
    L::WORDS * size_of::<u64>()
}
/// Returns the smallest number of bins, of whole partitions, whose buckets of `bucket` bytes fit
/// into `bin` bytes; one bin for a table of up to `alone` bytes.
fn bins(shape: Shape, bucket: usize, alone: u64, bin: u64) -> Bins {
    let partition = shape.buckets as u64 * bucket as u64;
    let whole = shape.partitions.next_power_of_two().ilog2();
    if shape.partitions as u64 * partition <= alone {
        return Bins { shape, shift: whole };
    }
    let fit = (bin / partition).max(1).ilog2();
    let most = shape.partitions.div_ceil(MAX_BINS).next_power_of_two().ilog2();
    Bins { shape, shift: fit.max(most).min(whole) }
}
/// Returns the maximum bytes of a table that one thread builds as fast as `threads` threads: 1.2 MB
/// for 2 threads, 0.5 MB for many.
fn alone_bytes(threads: usize) -> u64 {
    let saved_ns = ALONE_NS - IN_BINS_NS / threads as f64;
    if saved_ns > 0.0 { ((WAKE_NS / saved_ns) as u64).min(MAX_ALONE) } else { MAX_ALONE }
}

#[inline]
fn check_table<L: Layout>(shape: Shape, words: usize) -> Result<()> {
    let buckets = shape.all_buckets();
    let is_right = buckets > 0 && buckets <= u32::MAX.into();
    if is_right && words == buckets as usize * L::WORDS {
        return Ok(());
    }
    wrong_table::<L>(shape, words)
}
#[cold]
fn wrong_table<L: Layout>(shape: Shape, words: usize) -> Result<()> {
    let buckets = shape.all_buckets();
    if buckets == 0 {
        return Err(Error::Setting {
            field: "shape",
            found: format!("{shape:?}"),
            expected: "not empty".into(),
        });
    }
    if buckets > u32::MAX.into() {
        return Err(Error::TooMany {
            what: "buckets",
            n: buckets as usize,
            max: u32::MAX as usize,
        });
    }
    check_length("table", words, "shape", buckets as usize * L::WORDS)
}

/// Makes one builder for each thread ready for bins of a build of `pairs` pairs. Errors: out of
/// memory.
fn prepare<L: Layout>(
    builders: &mut Vec<Mutex<Builder<L>>>,
    threads: usize,
    bins: Bins,
    pairs: usize,
) -> Result<()> {
    reserve(builders, threads.saturating_sub(builders.len()))?;
    builders.resize_with(threads.max(builders.len()), Mutex::default);
    for builder in builders {
        let builder = builder.get_mut().unwrap_or_else(PoisonError::into_inner);
        builder.begin();
        builder.reserve(bins.buckets(), pairs)?;
    }
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "as `build`")]
fn build_in_bins<L: Layout>(
    seed: u32,
    bins: Bins,
    keys: &[L::Key],
    values: &[L::Value],
    how: How,
    stashed: &AtomicUsize,
    table: &mut [u64],
    scratch: &mut Scratch<L>,
) -> Result<()> {
    let Scratch {
        pages,
        level,
        ref mut arena,
        ref mut parted,
        ref mut builders,
        ref mut begun,
        ..
    } = *scratch;
    prepare(builders, rayon::current_num_threads(), bins, keys.len())?;
    let parts = part::<PairsOf<L>>(level, pages, bins, seed, keys, values, arena, parted)?;
    *begun = true;
    fill_bins(bins, how, (&parts, None), stashed, table, (level, builders))
}
/// Fills the bins of a table from partitioned pairs, on the threads of a pool.
fn fill_bins<L: Layout>(
    bins: Bins,
    how: How,
    (parts, ranked): (&[(&Parted, &[u64])], Option<Ranked<'_>>),
    stashed: &AtomicUsize,
    table: &mut [u64],
    (level, builders): (Level, &[Mutex<Builder<L>>]),
) -> Result<()> {
    let (shape, source) = (bins.shape, Source::Bins { parts, ranked });
    let stream = table.len() * 8 > STREAM_BYTES;
    let bin_words = bins.buckets() * L::WORDS;
    parallel::try_each(table.chunks_mut(bin_words), |bin, table| {
        let builder = &mut *lock(&builders[rayon::current_thread_index().unwrap_or(0)]);
        let first_partition = (bin as u32) << bins.shift;
        let source = &source;
        level.run(BuildBin {
            builder,
            shape,
            how,
            stashed,
            source,
            bin,
            first_partition,
            table,
            stream,
        })
    })?;
    Ok(())
}
/// Partitions entries into bins on the threads of a pool. Returns each thread's output with its
/// arena.
#[allow(clippy::too_many_arguments, reason = "as `build`")]
fn part<'a, E: Entries>(
    level: Level,
    pages: Pages,
    bins: Bins,
    seed: u32,
    keys: &[E::Key],
    values: &[E::Value],
    arena: &'a mut Memory,
    parted: &'a mut Vec<Parted>,
) -> Result<InArenas<'a, E::Word>> {
    let (stretch, lines) = stretches::<E>(bins, keys.len())?;
    let bytes = lines.iter().sum::<usize>() * size_of::<Line>();
    let stream = bytes > STREAM_BYTES;
    let arena = lines_of(arena, bytes, pages)?;
    reserve(parted, lines.len().saturating_sub(parted.len()))?;
    parted.resize_with(lines.len().max(parted.len()), Parted::default);
    for (parted, &lines) in parted.iter_mut().zip(&lines) {
        parted.reserve(bins, lines)?;
    }

    let mut arenas = collect(parallel::split(arena, lines.into_iter()))?;
    let stretches = keys.chunks(stretch).zip(values.chunks(stretch));
    let stretches = stretches.zip(&mut parted[..arenas.len()]).zip(&mut arenas);
    parallel::each(stretches, |_, (((keys, values), parted), arena)| {
        level.run(Partition::<E> { seed, keys, values, bins, parted, arena, stream })
    });

    let whole = |arena: &'a mut [Line]| bytemuck::cast_slice(arena) as &[E::Word];
    Ok(collect(parted.iter().zip(arenas.into_iter().map(whole)))?)
}
/// Returns `bytes` bytes of an arena as lines.
fn lines_of(arena: &mut Memory, bytes: usize, pages: Pages) -> Result<&mut [Line]> {
    // No memory at all is not aligned.
    if bytes == 0 { Ok(&mut []) } else { Ok(bytemuck::cast_slice_mut(arena.get(bytes, pages)?)) }
}
/// Returns how many of `n` entries each thread of the pool partitions, and the lines of each one's
/// arena.
fn stretches<E: Entries>(bins: Bins, n: usize) -> Result<(usize, Vec<usize>)> {
    let threads = rayon::current_num_threads();
    // Each thread takes one contiguous range; positions inside it are 32-bit numbers.
    let stretch = n.div_ceil(threads).clamp(1, (1 << 31) / E::WORDS);
    let lines_from = |start: usize| bins.lines::<E>(stretch.min(n - start));
    Ok((stretch, collect((0..n).step_by(stretch).map(lines_from))?))
}
/// Collects the outcomes of all threads for `n` pairs, and fills the stash. Returns a mixed key
/// that occurs more than once too, if those are rejected.
fn gather<L: Layout>(
    builders: &mut [Mutex<Builder<L>>],
    n: usize,
    stash: &mut Stash<L>,
) -> Result<(Counts, Option<L::Mixed>)> {
    stash.clear();
    let (mut counts, mut stashed, mut repeated) = (Counts::default(), Vec::new(), None);
    for builder in builders {
        let outcome = &builder.get_mut().unwrap_or_else(PoisonError::into_inner).outcome;
        counts.duplicates += outcome.duplicates as usize;
        counts.evictions += outcome.evictions;
        extend(&mut stashed, outcome.stashed.iter().copied())?;
        stash.hold(stash.held().or(outcome.held));
        repeated = repeated.into_iter().chain(outcome.repeated).min();
    }
    // Sort, so that the order does not depend on which thread built which bin.
    stashed.sort_unstable_by_key(|&pair| L::key(pair));
    stash.reserve(stashed.len())?;
    stashed.iter().for_each(|&pair| stash.insert(pair));
    counts.stashed = stashed.len();
    counts.pairs = n - counts.duplicates;
    Ok((counts, repeated.map(|(_, mixed)| mixed)))
}
/// Returns the error that locates a key that occurs more than once.
fn repeated_key<L: Layout>(seed: u32, keys: &[L::Key], mixed: L::Mixed) -> Error {
    let mut places = keys.iter().enumerate().filter(|&(_, &key)| L::mixed(seed, key) == mixed);
    let (first, key) = places.next().map_or((0, 0), |(i, key)| (i, key.widened()));
    let second = places.next().map_or(first, |(i, _)| i);
    Error::DuplicateKey { key: key.into(), first, second }
}

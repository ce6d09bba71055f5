//! The CPU engine of sets: keys are mixed and partitioned into bins, which are
//! [filled](fill) in cache one at a time. Lookups are those of maps, on [buckets of keys](find).
mod fill;
mod find;
#[cfg(test)]
mod tests;

use super::partition::{Bins, Entries, InArenas, Parted};
use super::simd::halves;
use super::{BIN_BYTES, Level, Memory, Pages, STREAM_BYTES, Stash, alone_bytes, bins, part};
use crate::device::Device;
use crate::error::{Result, check_length};
use crate::fallible::{self, collect, push, repeat, resize, try_collect};
use crate::parallel;
use bytemuck::Pod;
use fill::{Fill, Filler, Finish};
pub(crate) use find::Keys;
use koel_kernels::set::combine::how;
use koel_kernels::set::fill::{evict, slot_of};
use koel_kernels::set::layout::{Member, fillers, mixed, unmixed};
use koel_kernels::table::layout::{Layout, Shape};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory for partitioning an array. Reuse for an array of the same size allocates nothing here.
pub(crate) struct Scratch {
    level: Level,
    arena: Memory,
    parted: Vec<Parted>,
    /// Whether the last build has begun to write the table.
    pub begun: bool,
}
impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::with_level(Level::best())
    }
}
impl Scratch {
    /// Creates empty memory for work with instruction set `level`.
    fn with_level(level: Level) -> Scratch {
        Scratch { level, arena: Memory::default(), parted: Vec::new(), begun: false }
    }
    /// Returns the number of bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.arena.bytes() + self.parted.iter().map(Parted::bytes).sum::<usize>()
    }
}

/// Counts of a build.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Number of keys in the set.
    pub keys: usize,
    /// Number of keys dropped as already present.
    pub duplicates: usize,
    /// Number of keys in the stash.
    pub stashed: usize,
}

/// Keys of a set, as a pass moves them.
struct KeysOf<K>(PhantomData<K>);
impl<K: Member + Pod> Entries for KeysOf<K> {
    type Key = K;
    type Value = ();
    type Word = K;
    type Entry = K;
    const WORDS: usize = 1;
    const ANY: K = K::EMPTY;
    #[inline(always)]
    fn entry(seed: u32, key: K, (): ()) -> (K, u32) {
        let mixed = mixed(seed, key);
        (mixed, K::Pairs::hash(mixed))
    }
    #[inline(always)]
    fn put(words: &mut [K], at: usize, key: K) {
        words[at] = key;
    }
}
/// An array partitioned into bins.
enum Parts<'a, K> {
    /// One bin, not mixed yet.
    Input(u32, &'a [K]),
    Bins(InArenas<'a, K>),
}
impl<'a, K: Member + Pod> Parts<'a, K> {
    fn new(
        pages: Pages,
        bins: Bins,
        seed: u32,
        keys: &'a [K],
        (level, arena, parted): (Level, &'a mut Memory, &'a mut Vec<Parted>),
    ) -> Result<Parts<'a, K>> {
        // An empty array needs no bins.
        if bins.count() == 1 || keys.is_empty() {
            return Ok(Parts::Input(seed, keys));
        }
        // Takes no memory.
        let values = &*repeat((), keys.len())?;
        part::<KeysOf<K>>(level, pages, bins, seed, keys, values, arena, parted).map(Parts::Bins)
    }
    /// Calls `each` with the mixed keys of a bin, some at a time, and the address of the next,
    /// until it returns false. Returns what the last call did. Errors: those of `each`.
    #[inline(always)]
    fn each_run(
        &self,
        bin: usize,
        mut each: impl FnMut(&[K], *const K) -> fallible::Result<bool>,
    ) -> fallible::Result<bool> {
        match self {
            Parts::Input(seed, keys) => {
                let mut run = [K::EMPTY; RUN];
                for keys in keys.chunks(RUN) {
                    let run = &mut run[..keys.len()];
                    run.iter_mut().zip(keys).for_each(|(to, &key)| *to = mixed(*seed, key));
                    if !each(run, run.as_ptr())? {
                        return Ok(false);
                    }
                }
            }
            Parts::Bins(parts) => {
                for (run, next) in parts.iter().flat_map(|(parted, arena)| parted.runs(bin, arena))
                {
                    if !each(run, next)? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}
/// Keys of one bin that are mixed at a time.
const RUN: usize = 512;

/// Returns the bins of a set.
fn bins_of<K: Member>(device: &Device, shape: Shape) -> Bins {
    let bucket = K::SLOTS as usize * size_of::<K>();
    bins(shape, bucket, alone_bytes(device.parallelism()), BIN_BYTES)
}
/// Runs work on bins: on the calling thread if there is only one.
fn on_threads<R: Send>(device: &Device, bins: Bins, work: impl FnOnce() -> R + Send) -> R {
    if bins.count() == 1 { work() } else { device.install(work) }
}

/// Builds a set of these keys: overwrites every slot of `table` and the stash. Returns `None` if
/// more than `most_stashed` keys would be stashed: `table` is then partly written, and the keys
/// were probably chosen against the seed.
///
/// Errors: a mismatched length, out of memory.
#[allow(clippy::too_many_arguments, reason = "as of maps")]
pub(crate) fn build<K: Member + Pod>(
    device: &Device,
    shape: Shape,
    seed: u32,
    keys: &[K],
    most_stashed: usize,
    table: &mut [K],
    stash: &mut Stash<K::Pairs>,
    scratch: &mut Scratch,
) -> Result<Option<Counts>> {
    check_length("table", table.len(), "shape", shape.all_buckets() as usize * K::SLOTS as usize)?;
    let bins = bins_of::<K>(device, shape);
    let stream = size_of_val(table) > STREAM_BYTES;
    let all_stashed = AtomicUsize::new(0);
    let outcomes = on_threads(device, bins, || -> Result<_> {
        let Scratch { level, ref mut arena, ref mut parted, ref mut begun } = *scratch;
        let parts = Parts::new(device.pages(), bins, seed, keys, (level, arena, parted))?;
        *begun = true;
        let bins_of_table = table.chunks_mut(bins.buckets() * K::SLOTS as usize);
        let all_stashed = &all_stashed;
        let build = BuildBin { level, bins, most_stashed, all_stashed, parts, stream };
        parallel::map_with(
            bins_of_table,
            || Ok(Filler::new(bins.buckets(), keys.len())?),
            |filler: &mut Filler<K>, bin, table: &mut [K]| build.bin(filler, bin, table),
        )
    })?;
    let outcomes = try_collect(outcomes)?;
    if all_stashed.into_inner() > most_stashed {
        return Ok(None);
    }
    stash.clear();
    let mut counts = Counts::default();
    for Outcomes { kept, held, stashed } in outcomes {
        counts.keys += kept;
        counts.stashed += stashed.len();
        stash.hold(stash.held().or(held.then_some(K::narrowed(0))));
        // Bins come in order, and so do their homeless keys.
        stash.reserve(stashed.len())?;
        stashed.into_iter().for_each(|key| stash.insert(K::Pairs::pair(key, K::narrowed(0))));
    }
    counts.duplicates = keys.len() - counts.keys;
    Ok(Some(counts))
}
/// A build whose keys are in bins.
struct BuildBin<'a, K> {
    level: Level,
    bins: Bins,
    most_stashed: usize,
    /// Number of stashed keys over all bins. Beyond the maximum the build has failed, and remaining
    /// bins are not written.
    all_stashed: &'a AtomicUsize,
    parts: Parts<'a, K>,
    stream: bool,
}
impl<K: Member + Pod> BuildBin<'_, K> {
    /// Builds a bin. Errors: out of memory.
    fn bin(
        &self,
        filler: &mut Filler<K>,
        bin: usize,
        table: &mut [K],
    ) -> fallible::Result<Outcomes<K>> {
        let BuildBin { level, bins, most_stashed, all_stashed, ref parts, stream } = *self;
        let is_hopeless = || all_stashed.load(Ordering::Relaxed) > most_stashed;
        if is_hopeless() {
            return Ok(Outcomes::default());
        }
        let (buckets, room) =
            (table.len() / K::SLOTS as usize, table.len().saturating_add(most_stashed));
        let arrays = [parts];
        let filled = level.run(Fill { filler, bins, bin, buckets, arrays, room })?;
        let (host, homeless) = filler.host(bins, bin, buckets);
        let Some((kept, [held])) = filled
            .filter(|_| homeless.len() <= most_stashed || host.surplus(homeless) <= most_stashed)
        else {
            all_stashed.store(most_stashed + 1, Ordering::Relaxed);
            return Ok(Outcomes::default());
        };
        let mut stashed = Vec::new();
        for &key in homeless {
            if let Some(key) = evict(host, key) {
                push(&mut stashed, key)?;
                all_stashed.fetch_add(1, Ordering::Relaxed);
            }
            if is_hopeless() {
                return Ok(Outcomes::default());
            }
        }
        level.run(Finish { filler, table, stream });
        Ok(Outcomes { kept, held, stashed })
    }
}
/// Outcome of one bin.
struct Outcomes<K> {
    /// Number of distinct keys.
    kept: usize,
    /// Whether the ambiguous key is one of them.
    held: bool,
    stashed: Vec<K>,
}
impl<K> Default for Outcomes<K> {
    fn default() -> Outcomes<K> {
        Outcomes { kept: 0, held: false, stashed: Vec::new() }
    }
}

/// Writes a combination of two arrays, selected by [`how`], to `output` in unspecified order.
/// Returns the number of keys. `shape` partitions the keys; it must be sized for the total number
/// of keys in both arrays.
///
/// Errors: out of memory.
pub(crate) fn combine<K: Member + Pod>(
    device: &Device,
    shape: Shape,
    seed: u32,
    what: u32,
    [first, second]: [&[K]; 2],
    output: &mut [K],
    [scratch, second_scratch]: [&mut Scratch; 2],
) -> Result<usize> {
    let bins = bins_of::<K>(device, shape);
    on_threads(device, bins, || {
        let (pages, lengths) = (device.pages(), first.len() + second.len());
        let Scratch { level, ref mut arena, ref mut parted, .. } = *scratch;
        let first = Parts::new(pages, bins, seed, first, (level, arena, parted))?;
        let Scratch { ref mut arena, ref mut parted, .. } = *second_scratch;
        let second = Parts::new(pages, bins, seed, second, (level, arena, parted))?;
        let combined = Combine { level, bins, seed, what, arrays: [first, second] };
        let of_bins = parallel::map_with(
            0..bins.count(),
            || Ok((Filler::new(bins.buckets(), lengths)?, Vec::new())),
            |(filler, hits), _, bin| combined.bin(filler, hits, bin),
        )?;
        let of_bins = try_collect(of_bins)?;
        let parts = parallel::split(output, of_bins.iter().map(Vec::len));
        parallel::each(parts.zip(&of_bins), |_, (part, keys)| part.copy_from_slice(keys));
        Ok(of_bins.iter().map(Vec::len).sum())
    })
}
/// A combination of arrays in bins.
struct Combine<'a, K> {
    level: Level,
    bins: Bins,
    seed: u32,
    what: u32,
    arrays: [Parts<'a, K>; 2],
}
impl<K: Member + Pod> Combine<'_, K> {
    /// Returns the keys of a bin. Errors: out of memory.
    fn bin(
        &self,
        filler: &mut Filler<K>,
        hits: &mut Vec<bool>,
        bin: usize,
    ) -> fallible::Result<Vec<K>> {
        let Combine { level, bins, seed, what, arrays: [ref first, ref second] } = *self;
        let (buckets, any, mut held) = (bins.buckets(), usize::MAX, [false; 2]);
        if what == how::UNION {
            let arrays = [first, second];
            let filled = level.run(Fill { filler, bins, bin, buckets, arrays, room: any })?;
            held = filled.map_or(held, |(_, held)| held);
        } else {
            let arrays = [first];
            let filled = level.run(Fill { filler, bins, bin, buckets, arrays, room: any })?;
            held[0] = filled.is_some_and(|(_, [held])| held);
        }
        let (host, homeless) = filler.host(bins, bin, buckets);
        hits.clear();
        resize(hits, host.slots.len() + homeless.len(), false)?;
        if what == how::INTERSECTION || what == how::DIFFERENCE {
            let in_homeless =
                |key| homeless.binary_search(&key).ok().map(|i| (host.slots.len() + i) as u32);
            second.each_run(bin, |run, _| {
                for &key in run {
                    if key == K::EMPTY {
                        held[1] = true;
                    } else if let Some(slot) = slot_of(host, key, || in_homeless(key)) {
                        hits[slot as usize] = true;
                    }
                }
                Ok(true)
            })?;
        }
        let wanted = |hit: bool| match what {
            how::INTERSECTION => hit,
            how::DIFFERENCE => !hit,
            _ => true,
        };
        let slots = host.slots.iter().map(Cell::get);
        let kept = slots.chain(homeless.iter().copied()).zip(&*hits);
        let kept = kept.filter(|&(key, &hit)| key != K::EMPTY && wanted(hit)).map(|(key, _)| key);
        let ambiguous =
            if what == how::UNION { held[0] || held[1] } else { held[0] && wanted(held[1]) };
        let kept = kept.chain(ambiguous.then_some(K::EMPTY));
        collect(kept.map(|key| unmixed(seed, key)))
    }
}

/// Returns the mixed keys in the slots of bucket `place`.
pub(crate) fn keys_of_bucket<K: Member>(
    shape: Shape,
    place: u32,
    slots: &[K],
) -> impl Iterator<Item = K> {
    let fillers = fillers::<K>(shape, place, &halves(slots));
    let is_key = move |&(s, &key): &(u32, &K)| key != K::EMPTY && fillers >> s & 1 == 0;
    (0..).zip(slots).filter(is_key).map(|(_, &key)| key)
}

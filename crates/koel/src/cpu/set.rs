//! The CPU engine of sets: the same steps as on other devices, [filling](koel_kernels::set::fill)
//! bins in cache one at a time.
//!
//! Keys are mixed and partitioned into bins like the pairs of a map, each with itself as its value:
//! twice the bytes needed. Filling and lookup are portable code that handles one key at a time;
//! buckets are prefetched some keys ahead.
use super::partition::{Bins, Parted};
use super::{BIN_BYTES, Level, Memory, Pages, Stash, alone_bytes, bins, part, query_piece};
use crate::device::Device;
use crate::device::memory::prefetch;
use crate::error::{Result, check_length};
use crate::fallible::{self, collect, push, repeat, reserve, resize, try_collect};
use crate::parallel;
use koel_kernels::set::combine::how;
use koel_kernels::set::fill::{Filling, Outcome, evict, meet, meet_second, slot_of};
use koel_kernels::set::layout::{Member, fillers, finished, in_bucket, mixed, search, unmixed};
use koel_kernels::table::layout::{Layout, Shape};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory for partitioning an array. Reuse for an array of the same size allocates nothing here.
#[derive(Default)]
pub(crate) struct Scratch {
    arena: Memory,
    parted: Vec<Parted>,
    /// Whether the last build has begun to write the table.
    pub begun: bool,
}
impl Scratch {
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

/// An array partitioned into bins.
enum Parts<'a, K> {
    /// One bin, not mixed yet.
    Input(u32, &'a [K]),
    Bins(Vec<(&'a Parted, &'a [u64])>),
}
impl<'a, K: Member> Parts<'a, K> {
    fn new(
        pages: Pages,
        bins: Bins,
        seed: u32,
        keys: &'a [K],
        (arena, parted): (&'a mut Memory, &'a mut Vec<Parted>),
    ) -> Result<Parts<'a, K>> {
        // An empty array needs no bins.
        if bins.count() == 1 || keys.is_empty() {
            return Ok(Parts::Input(seed, keys));
        }
        part::<K::Pairs>(Level::best(), pages, bins, seed, keys, keys, arena, parted)
            .map(Parts::Bins)
    }
    /// Calls `each` with every mixed key of a bin.
    fn each(&self, bin: usize, mut each: impl FnMut(K)) {
        match self {
            Parts::Input(seed, keys) => keys.iter().for_each(|&key| each(mixed(*seed, key))),
            Parts::Bins(parts) => {
                for (run, _) in parts.iter().flat_map(|(parted, arena)| parted.runs(bin, arena)) {
                    run.chunks_exact(K::Pairs::SLOT_WORDS)
                        .for_each(|pair| each(K::narrowed(pair[0])));
                }
            }
        }
    }
}

/// Buckets of a bin while it is filled, numbered from the bin's first bucket.
#[derive(Clone, Copy)]
struct Host<'a, K> {
    shape: Shape,
    first_partition: u32,
    slots: &'a [Cell<K>],
    marks: &'a [Cell<u8>],
}
impl<K: Member> Host<'_, K> {
    /// Returns the first bucket of a hash's partition.
    fn base(self, h: u32) -> u32 {
        (self.shape.partition(h) - self.first_partition) * self.shape.buckets
    }
    fn at(self, bucket: u32) -> usize {
        bucket as usize * K::SLOTS as usize
    }
}
impl<K: Member> Filling<K> for Host<'_, K> {
    #[inline(always)]
    fn first(self, h: u32) -> u32 {
        self.base(h) + self.shape.first(h)
    }
    #[inline(always)]
    fn other(self, h: u32, bucket: u32) -> u32 {
        let base = self.base(h);
        base + self.shape.other(h, bucket - base)
    }
    #[inline(always)]
    fn half(self, bucket: u32, half: u32) -> K::Half {
        let at = self.at(bucket) + (half * K::SLOTS / 2) as usize;
        let keys = &self.slots[at..at + K::SLOTS as usize / 2];
        K::half(|i| keys[i as usize].get())
    }
    #[inline(always)]
    fn last(self, bucket: u32) -> K {
        self.slots[self.at(bucket) + K::SLOTS as usize - 1].get()
    }
    #[inline(always)]
    fn replace(self, bucket: u32, slot: u32, old: K, new: K) -> K {
        let slot = &self.slots[self.at(bucket) + slot as usize];
        let there = slot.get();
        if there == old {
            slot.set(new);
        }
        there
    }
    #[inline(always)]
    fn mark(self, bucket: u32, class: u32) {
        let mark = &self.marks[bucket as usize];
        mark.set(mark.get() | 1 << class);
    }
}

/// State of a thread that fills bins.
struct Filler<K> {
    marks: Vec<u8>,
    /// Distinct keys whose buckets were both full, in ascending order.
    waiting: Vec<K>,
}
impl<K: Member> Filler<K> {
    /// Makes room for bins of `slots` slots, of an array of `keys` keys. More is needed only if
    /// many keys find no room. Errors: out of memory.
    fn new(slots: usize, keys: usize) -> Result<Filler<K>> {
        let mut filler = Filler { marks: Vec::new(), waiting: Vec::new() };
        reserve(&mut filler.marks, slots / K::SLOTS as usize)?;
        reserve(&mut filler.waiting, slots.min(keys))?;
        Ok(filler)
    }
    /// Gives each key in a bin of some arrays a slot, or leaves it waiting. Returns the number of
    /// distinct keys, and for each array whether it has the ambiguous key. `None` if more than
    /// `room` distinct keys wait. Errors: out of memory.
    fn fill<const ARRAYS: usize>(
        &mut self,
        shape: Shape,
        bins: Bins,
        bin: usize,
        arrays: [&Parts<'_, K>; ARRAYS],
        slots: &mut [K],
        room: usize,
    ) -> fallible::Result<Option<(usize, [bool; ARRAYS])>> {
        slots.fill(K::EMPTY);
        self.marks.clear();
        resize(&mut self.marks, slots.len() / K::SLOTS as usize, 0)?;
        self.waiting.clear();
        let Filler { marks, waiting } = self;
        let table = host(shape, bins, bin, slots, marks);
        let (mut new, mut held) = (0, [false; ARRAYS]);
        // Copies of a key wait too, and are dropped from time to time.
        let (mut look, mut is_hopeless, mut failed) = (room, false, Ok(()));
        for (array, held) in arrays.into_iter().zip(&mut held) {
            array.each(bin, |key| {
                if is_hopeless || failed.is_err() {
                    return;
                }
                if key == K::EMPTY {
                    *held = true;
                    return;
                }
                let mut outcome = meet(table, table.first(K::Pairs::hash(key)), key);
                if outcome == Outcome::Full {
                    outcome = meet_second(table, key);
                }
                match outcome {
                    Outcome::New => new += 1,
                    Outcome::Met => {}
                    Outcome::Full => failed = push(waiting, key),
                }
                if waiting.len() > look {
                    drop_copies(waiting);
                    look = waiting.len().saturating_add(room);
                    is_hopeless = waiting.len() > room;
                }
            });
        }
        failed?;
        drop_copies(waiting);
        let kept = new + waiting.len() + held.contains(&true) as usize;
        Ok((waiting.len() <= room).then_some((kept, held)))
    }
}
/// Returns how many of the waiting keys, given in ascending order, find no room whatever is
/// evicted, because their partitions have fewer empty slots.
fn surplus<K: Member>(table: Host<'_, K>, waiting: &[K]) -> usize {
    let partition_of = |key: &K| table.shape.partition(K::Pairs::hash(*key));
    let each = table.shape.buckets as usize * K::SLOTS as usize;
    let of_partition = |keys: &[K]| {
        let first = (partition_of(&keys[0]) - table.first_partition) as usize * each;
        let empty =
            table.slots[first..first + each].iter().filter(|slot| slot.get() == K::EMPTY).count();
        keys.len().saturating_sub(empty)
    };
    waiting.chunk_by(|a, b| partition_of(a) == partition_of(b)).map(of_partition).sum()
}
/// Sorts the keys and drops copies.
fn drop_copies<K: Member>(keys: &mut Vec<K>) {
    keys.sort_unstable();
    keys.dedup();
}
fn host<'a, K: Member>(
    shape: Shape,
    bins: Bins,
    bin: usize,
    slots: &'a mut [K],
    marks: &'a mut [u8],
) -> Host<'a, K> {
    Host {
        shape,
        first_partition: (bin as u32) << bins.shift,
        slots: Cell::from_mut(slots).as_slice_of_cells(),
        marks: Cell::from_mut(marks).as_slice_of_cells(),
    }
}
/// Returns the number of slots per bin.
fn bin_slots<K: Member>(bins: Bins) -> usize {
    bins.buckets() * K::SLOTS as usize
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
pub(crate) fn build<K: Member>(
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
    let bins = bins::<K::Pairs>(shape, alone_bytes(device.parallelism()), BIN_BYTES);
    let all_stashed = AtomicUsize::new(0);
    let outcomes = on_threads(device, bins, || -> Result<_> {
        let Scratch { arena, parted, begun } = scratch;
        let parts = Parts::new(device.pages(), bins, seed, keys, (arena, parted))?;
        let bins_of_table = table.chunks_mut(bin_slots::<K>(bins));
        let filler = || Filler::new(bin_slots::<K>(bins), keys.len());
        let fill = |filler: &mut Filler<K>, bin, slots: &mut [K]| -> fallible::Result<_> {
            let is_hopeless = || all_stashed.load(Ordering::Relaxed) > most_stashed;
            if is_hopeless() {
                return Ok(Outcomes::default());
            }
            let room = slots.len().saturating_add(most_stashed);
            let Some((kept, [held])) = filler.fill(shape, bins, bin, [&parts], slots, room)? else {
                all_stashed.store(most_stashed + 1, Ordering::Relaxed);
                return Ok(Outcomes::default());
            };
            let Filler { marks, waiting } = filler;
            let table = host(shape, bins, bin, slots, marks);
            if waiting.len() > most_stashed && surplus(table, waiting) > most_stashed {
                all_stashed.store(most_stashed + 1, Ordering::Relaxed);
                return Ok(Outcomes::default());
            }
            let mut stashed = Vec::new();
            for &key in &*waiting {
                if let Some(key) = evict(table, key) {
                    push(&mut stashed, key)?;
                    all_stashed.fetch_add(1, Ordering::Relaxed);
                }
                if is_hopeless() {
                    return Ok(Outcomes::default());
                }
            }
            for (slots, &bits) in slots.chunks_exact_mut(K::SLOTS as usize).zip(&*marks) {
                let bucket = finished::<K>(bucket(slots), bits.into());
                slots
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, slot)| *slot = in_bucket::<K>(&bucket, i));
            }
            Ok(Outcomes { kept, held, stashed })
        };
        *begun = true;
        parallel::map_with(bins_of_table, filler, fill)
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
        // Bins come in order, and so do their waiting keys.
        stash.reserve(stashed.len())?;
        stashed.into_iter().for_each(|key| stash.insert(K::Pairs::pair(key, K::narrowed(0))));
    }
    counts.duplicates = keys.len() - counts.keys;
    Ok(Some(counts))
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
pub(crate) fn combine<K: Member>(
    device: &Device,
    shape: Shape,
    seed: u32,
    what: u32,
    [first, second]: [&[K]; 2],
    output: &mut [K],
    [scratch, second_scratch]: [&mut Scratch; 2],
) -> Result<usize> {
    let bins = bins::<K::Pairs>(shape, alone_bytes(device.parallelism()), BIN_BYTES);
    on_threads(device, bins, || {
        let (pages, lengths) = (device.pages(), first.len() + second.len());
        let first =
            Parts::new(pages, bins, seed, first, (&mut scratch.arena, &mut scratch.parted))?;
        let Scratch { arena, parted, .. } = second_scratch;
        let second = Parts::new(pages, bins, seed, second, (arena, parted))?;
        let of_bins = parallel::map_with(
            0..bins.count(),
            || {
                let slots = bin_slots::<K>(bins);
                Ok((Filler::new(slots, lengths)?, repeat(K::EMPTY, slots)?, Vec::new()))
            },
            |(filler, slots, hits), _, bin| -> fallible::Result<_> {
                let mut held = [false; 2];
                let any = usize::MAX;
                if what == how::UNION {
                    let filled = filler.fill(shape, bins, bin, [&first, &second], slots, any)?;
                    held = filled.map_or(held, |(_, held)| held);
                } else {
                    let filled = filler.fill(shape, bins, bin, [&first], slots, any)?;
                    held[0] = filled.is_some_and(|(_, [held])| held);
                }
                let Filler { marks, waiting } = filler;
                hits.clear();
                resize(hits, slots.len() + waiting.len(), false)?;
                if what == how::INTERSECTION || what == how::DIFFERENCE {
                    let table = host(shape, bins, bin, slots, marks);
                    second.each(bin, |key| {
                        if key == K::EMPTY {
                            held[1] = true;
                        } else if let Some(slot) = slot_of(table, key, || {
                            waiting.binary_search(&key).ok().map(|i| (table.slots.len() + i) as u32)
                        }) {
                            hits[slot as usize] = true;
                        }
                    });
                }
                let wanted = |hit: bool| match what {
                    how::INTERSECTION => hit,
                    how::DIFFERENCE => !hit,
                    _ => true,
                };
                let there = slots.iter().chain(&*waiting).zip(&*hits);
                let kept = there
                    .filter(|&(&key, &hit)| key != K::EMPTY && wanted(hit))
                    .map(|(&key, _)| key);
                let ambiguous = if what == how::UNION {
                    held[0] || held[1]
                } else {
                    held[0] && wanted(held[1])
                };
                let kept = kept.chain(ambiguous.then_some(K::EMPTY));
                collect(kept.map(|key| unmixed(seed, key)))
            },
        )?;
        let of_bins = try_collect(of_bins)?;
        let parts = parallel::split(output, of_bins.iter().map(Vec::len));
        parallel::each(parts.zip(&of_bins), |_, (part, keys)| part.copy_from_slice(keys));
        Ok(of_bins.iter().map(Vec::len).sum())
    })
}

/// Returns the bucket in these slots.
fn bucket<K: Member>(slots: &[K]) -> [K::Half; 2] {
    let half = |half: usize| K::half(|i| slots[half * K::SLOTS as usize / 2 + i as usize]);
    [half(0), half(1)]
}
/// Returns the mixed keys in the slots of bucket `place`.
pub(crate) fn keys_of_bucket<K: Member>(
    shape: Shape,
    place: u32,
    slots: &[K],
) -> impl Iterator<Item = K> {
    let fillers = fillers::<K>(shape, place, &bucket(slots));
    let is_key = move |&(s, &key): &(u32, &K)| key != K::EMPTY && fillers >> s & 1 == 0;
    (0..).zip(slots).filter(is_key).map(|(_, &key)| key)
}
/// Returns the mixed keys in the slots of a set, in slot order.
pub(crate) fn keys<K: Member>(shape: Shape, table: &[K]) -> impl Iterator<Item = K> {
    let buckets = (0..).zip(table.chunks_exact(K::SLOTS as usize));
    buckets.flat_map(move |(place, slots)| keys_of_bucket(shape, place, slots))
}

/// Lookups in a set.
#[derive(Clone, Copy)]
pub(crate) struct Finder<'a, K: Member> {
    pub shape: Shape,
    pub seed: u32,
    pub table: &'a [K],
    pub stash: &'a Stash<K::Pairs>,
}
impl<'a, K: Member> Finder<'a, K> {
    /// Of a set that [`build`] or another device built with this seed.
    ///
    /// Errors: a length that does not fit the shape.
    pub(crate) fn new(
        shape: Shape,
        seed: u32,
        table: &'a [K],
        stash: &'a Stash<K::Pairs>,
    ) -> Result<Finder<'a, K>> {
        let slots = shape.all_buckets() as usize * K::SLOTS as usize;
        check_length("table", table.len(), "shape", slots)?;
        Ok(Finder { shape, seed, table, stash })
    }
    fn bucket(&self, place: u32) -> [K::Half; 2] {
        bucket(&self.table[place as usize * K::SLOTS as usize..][..K::SLOTS as usize])
    }
    /// Looks up each key and calls `tell(i, found)` in order.
    fn each(&self, queries: &[K], mut tell: impl FnMut(usize, bool)) {
        const GROUP: usize = 32;
        let (mut groups, mut group, mut i) = (queries.chunks(GROUP), [K::EMPTY; GROUP], 0);
        // The buckets of the next batch are in flight while a batch is looked up.
        let mut ask = |group: &mut [K; GROUP]| {
            let keys = groups.next().unwrap_or(&[]);
            for (&key, to) in keys.iter().zip(group) {
                *to = mixed(self.seed, key);
                let place = self.shape.first_place(K::Pairs::hash(*to));
                prefetch(self.table.as_ptr().wrapping_add(place as usize * K::SLOTS as usize));
            }
            keys.len()
        };
        let mut count = ask(&mut group);
        while count > 0 {
            let mut next = [K::EMPTY; GROUP];
            let following = ask(&mut next);
            for &key in &group[..count] {
                let found = match key == K::EMPTY {
                    true => self.stash.held().is_some(),
                    false => search(self.shape, key, |place| self.bucket(place))
                        .unwrap_or_else(|| self.stash.get(key).is_some()),
                };
                tell(i, found);
                i += 1;
            }
            (group, count) = (next, following);
        }
    }
    /// Writes whether the set holds each query, as 1 or 0. Errors: mismatched lengths.
    pub(crate) fn contains(&self, device: &Device, queries: &[K], found: &mut [u8]) -> Result<()> {
        check_length("found", found.len(), "queries", queries.len())?;
        let piece = query_piece(device, queries.len());
        let answer = |(queries, found): (&[K], &mut [u8])| {
            self.each(queries, |i, there| found[i] = there as u8)
        };
        if queries.len() <= piece {
            answer((queries, found));
        } else {
            let pieces = queries.chunks(piece).zip(found.chunks_mut(piece));
            device.install(|| parallel::each(pieces, |_, piece| answer(piece)));
        }
        Ok(())
    }
    /// Writes whether the set holds each query, one bit each: query `i` is bit `i % 32` of word `i
    /// / 32`; the rest of the last word is zero. Errors: `bits` is not one word per started 32
    /// queries.
    pub(crate) fn contains_bits(
        &self,
        device: &Device,
        queries: &[K],
        bits: &mut [u32],
    ) -> Result<()> {
        check_length("bits", bits.len(), "queries", queries.len().div_ceil(32))?;
        let piece = query_piece(device, queries.len());
        let answer = |(queries, bits): (&[K], &mut [u32])| {
            bits.fill(0);
            self.each(queries, |i, there| bits[i / 32] |= (there as u32) << (i % 32));
        };
        if queries.len() <= piece {
            answer((queries, bits));
        } else {
            let pieces = queries.chunks(piece).zip(bits.chunks_mut(piece / 32));
            device.install(|| parallel::each(pieces, |_, piece| answer(piece)));
        }
        Ok(())
    }
    /// Returns how many of the queries the set holds.
    pub(crate) fn count(&self, device: &Device, queries: &[K]) -> Result<usize> {
        let piece = query_piece(device, queries.len());
        let answer = |queries: &[K]| {
            let mut found = 0;
            self.each(queries, |_, there| found += there as usize);
            found
        };
        if queries.len() <= piece {
            return Ok(answer(queries));
        }
        let pieces = queries.chunks(piece);
        let counts = device.install(|| parallel::map(pieces, |_, piece| answer(piece)))?;
        Ok(counts.into_iter().sum())
    }
}

//! The second pass of a build: fills the buckets of a bin in cache and writes them out.
//!
//! Pairs come in input order. A pair whose first bucket has room stays there. After all pairs have
//! come, those without room go to their second bucket if that has room. Each pair still left then
//! evicts another pair to its other bucket, and so on. Until then buckets lose no pair, so of two
//! pairs with one key the later finds the earlier in the same step, or waits after it.
use super::How;
use super::buckets::{add_unchecked, find_places, pass_run, put, without_repeats};
use super::builder::{Builder, grow, room_of};
use super::mixed::MixedChoices;
use super::outcome::{Outcome, hold_all, hold_or_reject, repeats, resolve};
use super::partition::{BLOCK, Parted, mix_pairs};
use super::ranks::{Ranked, Ranks};
use super::simd::{GROUP, LINE, Line, Simd, Work, behind_at, heads, heads_unchecked, write_out};
use super::stash::{Stash, pair_at, pair_unchecked, put_pair};
use crate::duplicates::Duplicates;
use crate::fallible::{Result, extend, reserve_map, resize};
use koel_kernels::table::layout::{BUCKET, EMPTY, Layout, Number, Shape, class};
use std::collections::HashMap;
use std::hint::select_unpredictable;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of evictions before a pair goes to the stash; lower in a partition where that has
/// happened.
const MAX_EVICTIONS: u32 = 512;

/// A run of pairs is mixed if copies begin at one pair in this many: their beginnings are predicted
/// wrongly, which costs more than what [`MixedChoices`] does for every pair.
const MIXED: usize = 16;

/// Source of a bin's pairs.
pub(super) enum Source<'a, L: Layout> {
    Bins {
        /// Output of each thread's partitioning, with its arena.
        parts: &'a [(&'a Parted, &'a [u64])],
        /// If the bins are those of a table of another shape, of which some rows are kept.
        ranked: Option<Ranked<'a>>,
    },
    /// The whole input, not mixed yet.
    Input { seed: u32, keys: &'a [L::Key], values: &'a [L::Value] },
}

/// Work that builds one bin; see the module. Errors: out of memory.
pub(super) struct BuildBin<'a, L: Layout> {
    pub builder: &'a mut Builder<L>,
    pub shape: Shape,
    /// How the table is built. If reproducible, a last step places the pairs anew, independent of
    /// their order.
    pub how: How,
    /// Number of stashed pairs over all bins. Beyond [the maximum](How::most_stashed) the build has
    /// failed, and remaining bins are not written.
    pub stashed: &'a AtomicUsize,
    pub source: &'a Source<'a, L>,
    /// Index of the bin.
    pub bin: usize,
    /// Number of partitions before those of the bin.
    pub first_partition: u32,
    /// The bin's part of the table.
    pub table: &'a mut [u64],
    /// Whether stores to the table bypass the cache.
    pub stream: bool,
}
impl<L: Layout> Work for BuildBin<'_, L> {
    type Output = Result<()>;
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Result<()> {
        let BuildBin { builder, shape, how, stashed, source, bin, first_partition, table, stream } =
            self;
        let How { policy, reproducible, most_stashed } = how;
        if stashed.load(Ordering::Relaxed) > most_stashed {
            return Ok(());
        }
        let count = table.len() / L::WORDS;
        let room = room_of(count);
        builder.buckets.clear();
        resize(&mut builder.buckets, room * L::WORDS / LINE, Line([EMPTY; LINE]))?;
        builder.fills.clear();
        resize(&mut builder.fills, room, 0)?;
        builder.overflowed.clear();
        resize(&mut builder.overflowed, room, 0)?;
        builder.bin_stash.clear();
        builder.failures.clear();
        let mut filling = Filling::<L, S> {
            simd,
            shape,
            policy,
            bin,
            all: shape.all_buckets() as u32,
            base: first_partition * shape.buckets,
            first_partition,
            spare: count,
            buckets: bytemuck::cast_slice_mut(&mut builder.buckets),
            fills: &mut builder.fills,
            overflowed: &mut builder.overflowed,
            waiting: &mut builder.waiting,
            waits: 0,
            is_mixed: false,
            stash: &mut builder.bin_stash,
            outcome: &mut builder.outcome,
            failures: &mut builder.failures,
            most_stashed,
            // In reproducible tables the placement rule decides how many pairs end without a slot.
            most_homeless: if reproducible { usize::MAX } else { most_stashed },
        };
        let filled = match policy {
            Duplicates::Unchecked => filling.fill::<false>(source)?,
            _ => filling.fill::<true>(source)?,
        };
        if !filled {
            stashed.store(most_stashed + 1, Ordering::Relaxed);
            return Ok(());
        }
        // Leave out the spare bucket, which is never read.
        let buckets = bytemuck::cast_slice_mut::<Line, u64>(&mut builder.buckets);
        if reproducible {
            let (buckets, bits) = (&mut buckets[..table.len()], &mut builder.overflowed[..count]);
            let stash = &mut builder.bin_stash;
            builder.reproducer.place(shape, first_partition, buckets, bits, stash)?;
        }
        if stashed.fetch_add(builder.bin_stash.len(), Ordering::Relaxed) + builder.bin_stash.len()
            > most_stashed
        {
            return Ok(());
        }
        extend(&mut builder.outcome.stashed, builder.bin_stash.iter())?;
        for (buckets, bits) in
            buckets.chunks_exact_mut(8 * L::WORDS).zip(builder.overflowed.as_chunks::<8>().0)
        {
            simd.order::<L>(buckets, bits);
        }
        write_out(simd, &buckets[..table.len()], table, stream);
        Ok(())
    }
}

/// Writes those pairs of a run that are kept and in these partitions, with ranks as values, to
/// `memory`. No branch.
#[inline(always)]
fn with_ranks<'a, L: Layout>(
    run: &[u64],
    ranks: &Ranks,
    (shape, partitions): (Shape, Range<u32>),
    memory: &'a mut [u64; BLOCK],
) -> &'a [u64] {
    let (first, count, mut kept) = (partitions.start, partitions.end - partitions.start, 0);
    for i in 0..run.len() / L::SLOT_WORDS {
        let pair = pair_at::<L>(run, i);
        let (rank, is_kept) = ranks.of(L::value(pair).widened() as u32);
        let is_here = shape.partition(L::hash(L::key(pair))).wrapping_sub(first) < count;
        let ranked = L::pair(L::key(pair), L::Value::narrowed(rank.into()));
        put_pair::<L>(memory, kept, ranked);
        kept += (is_kept & is_here) as usize;
    }
    &memory[..kept * L::SLOT_WORDS]
}

/// A bin being filled.
struct Filling<'a, L: Layout, S> {
    simd: S,
    shape: Shape,
    policy: Duplicates,
    bin: usize,
    /// Number of buckets in the table.
    all: u32,
    /// Number of the table's buckets before those of the bin.
    base: u32,
    first_partition: u32,
    /// Index of the bucket for pairs without room.
    spare: usize,
    buckets: &'a mut [u64],
    fills: &'a mut [u8],
    overflowed: &'a mut [u8],
    waiting: &'a mut Vec<L::Pair>,
    /// Number of waiting pairs.
    waits: usize,
    /// Whether copies and other pairs were mixed in the last run.
    is_mixed: bool,
    stash: &'a mut Stash<L>,
    outcome: &'a mut Outcome<L>,
    /// For each partition, the number of pairs that found no room; empty until one did.
    failures: &'a mut Vec<u8>,
    /// Maximum number of stashed pairs, at the end and during evictions.
    most_stashed: usize,
    most_homeless: usize,
}

impl<L: Layout, S: Simd> Filling<'_, L, S> {
    /// Fills the bin; returns whether few enough pairs are stashed.
    #[inline(always)]
    fn fill<const CHECKED: bool>(&mut self, source: &Source<'_, L>) -> Result<bool> {
        // Up to this number of waiting pairs, the bin and the stash may have room.
        let mut look = (self.spare * BUCKET).saturating_add(self.most_stashed);
        match *source {
            Source::Bins { parts, ranked } => {
                let partitions = (self.spare / self.shape.buckets as usize) as u32;
                let partitions = self.first_partition..self.first_partition + partitions;
                let bins = match ranked {
                    Some(ranked) => ranked.bins_of(self.shape, partitions.clone()),
                    None => self.bin..self.bin + 1,
                };
                let of_bin = |bin| parts.iter().flat_map(move |(p, arena)| p.runs(bin, arena));
                let mut memory = [0; BLOCK];
                for (mut run, next) in bins.flat_map(of_bin) {
                    if let Some(Ranked { ranks, .. }) = ranked {
                        let part = (self.shape, partitions.clone());
                        run = with_ranks::<L>(run, ranks, part, &mut memory);
                    }
                    self.reserve(run.len() / L::SLOT_WORDS)?;
                    self.first_choices::<CHECKED>(run, next);
                    if self.waits > look {
                        if self.has_no_room()? {
                            return Ok(false);
                        }
                        look = self.waits * 2;
                    }
                }
            }
            Source::Input { seed, keys, values } => {
                let (mut pairs, piece) = ([0; BLOCK], BLOCK / L::SLOT_WORDS);
                for (keys, values) in keys.chunks(piece).zip(values.chunks(piece)) {
                    let pairs = &mut pairs[..keys.len() * L::SLOT_WORDS];
                    mix_pairs::<L>(seed, keys, values, pairs);
                    self.reserve(keys.len())?;
                    self.first_choices::<CHECKED>(pairs, pairs.as_ptr());
                }
            }
        }
        self.second_choices::<CHECKED>();
        self.evictions::<CHECKED>()?;
        Ok(self.stash.len() <= self.most_homeless)
    }
    /// Returns whether more distinct keys wait than the slots of the bin and the stash can hold.
    /// Copies of one key may wait too and do not count.
    #[cold]
    fn has_no_room(&self) -> Result<bool> {
        let room = self.spare * BUCKET + self.most_stashed;
        let mut keys = HashMap::new();
        reserve_map(&mut keys, room + 1)?;
        let is_one_too_many = |&pair: &L::Pair| {
            keys.insert(L::key(pair).widened(), ()).is_none() && keys.len() > room
        };
        Ok(self.waiting[..self.waits].iter().any(is_one_too_many))
    }

    /// Puts pairs into their first buckets; pairs whose first bucket is full wait. Prefetches the
    /// pairs at `next` meanwhile.
    #[inline(always)]
    fn first_choices<const CHECKED: bool>(&mut self, run: &[u64], next: *const u64) {
        let begun = if CHECKED && self.is_mixed {
            self.mixed_choices(run, next)
        } else {
            self.unmixed_choices::<CHECKED>(run, next)
        };
        self.is_mixed =
            self.policy != Duplicates::Reject && begun * MIXED > run.len() / L::SLOT_WORDS;
    }
    /// Keeps room for a run of waiting pairs, and a whole batch after it for `second_choices`.
    #[inline(always)]
    fn reserve(&mut self, count: usize) -> Result<()> {
        let least = self.waits + count + GROUP;
        if self.waiting.len() >= least { Ok(()) } else { grow(self.waiting, least, L::EMPTY_PAIR) }
    }
    /// [`first_choices`](Self::first_choices) of a run whose copies are mixed with other pairs.
    /// Returns how often copies begin.
    #[inline(always)]
    fn mixed_choices(&mut self, run: &[u64], next: *const u64) -> usize {
        let mut kept = [0; BLOCK];
        let mut rest = without_repeats::<L>(run, self.policy, &mut kept);
        let dropped = (run.len() - rest) / L::SLOT_WORDS;
        let kept = &mut kept[..rest];
        let ambiguous = |pair: &[u64]| L::key_in(pair[0]) == L::AMBIGUOUS;
        if kept.chunks_exact(L::SLOT_WORDS).fold(false, |any, pair| any | ambiguous(pair)) {
            rest = hold_all::<L>(kept, self.policy, self.bin, self.outcome);
        }
        let Filling { simd, policy, all, base, spare, .. } = *self;
        // The compiler makes it a function of its own, whose state stays in registers.
        let choices = simd.vectorize(MixedChoices::<L> {
            run: &kept[..rest],
            next,
            of_table: (all, base),
            spare,
            keep_first: policy == Duplicates::KeepFirst,
            buckets: self.buckets,
            fills: self.fills,
            waiting: &mut self.waiting[self.waits..],
        });
        // The run may have ended before all of the next was prefetched.
        for start in (rest..run.len()).step_by(LINE) {
            simd.ask(next.wrapping_add(start));
        }
        self.waits += choices.waits;
        self.outcome.duplicates += (dropped + choices.copies) as u64;
        dropped + choices.begun
    }
    /// [`first_choices`](Self::first_choices) of a run with few copies, or long runs of them.
    /// Returns how often copies begin.
    #[inline(always)]
    fn unmixed_choices<const CHECKED: bool>(&mut self, run: &[u64], next: *const u64) -> usize {
        let count = run.len() / L::SLOT_WORDS;
        let Filling { simd, policy, bin, all, base, spare, .. } = *self;
        let (buckets, fills, waiting) =
            (&mut *self.buckets, &mut *self.fills, &mut self.waiting[self.waits..]);
        // The unchecked accesses below rely on this and on the bounds that `find_places` checks.
        assert!(
            spare < fills.len()
                && fills.len() * L::WORDS <= buckets.len()
                && count <= waiting.len()
        );
        let rejects = policy == Duplicates::Reject;
        let (mut waits, mut copies, mut begun) = (0, 0, 0);
        // As in `Partition`: through memory, one batch ahead.
        let mut places = [[0; GROUP]; 2];
        for step in 0..=count.div_ceil(GROUP) {
            let start = step * GROUP;
            if start < count {
                simd.ask_group(next.wrapping_add(start * L::SLOT_WORDS).cast::<L::Pair>());
                find_places::<L>(run, start, (all, base), spare, &mut places[step % 2]);
            }
            if step == 0 {
                continue;
            }
            let (start, places) = (start - GROUP, &places[(step - 1) % 2]);
            let in_group = GROUP.min(count - start);
            let group = &run[start * L::SLOT_WORDS..(start + in_group) * L::SLOT_WORDS];
            let mut i = 0;
            while i < in_group {
                // This loop makes no calls, so its state stays in registers, and no bounds checks,
                // which took a twentieth of the build time. It ends at a pair whose key has come
                // before.
                loop {
                    // SAFETY: `i` is below `in_group`.
                    let pair = unsafe { pair_unchecked::<L>(group, i) };
                    let (mixed, place) = (L::key(pair), places[i % GROUP] as usize);
                    // SAFETY: the place is below `spare`, and there are at least `spare` buckets.
                    let heads = unsafe { heads_unchecked::<L>(buckets, place) };
                    let same = if CHECKED { simd.slot::<L>(heads, mixed) } else { None };
                    if same.is_some() || mixed == L::AMBIGUOUS {
                        break;
                    }
                    // SAFETY: as above, and bucket `spare` exists; at most `count` pairs wait.
                    unsafe {
                        let full = add_unchecked::<L>(buckets, fills, place, spare, pair, false);
                        *waiting.get_unchecked_mut(waits) = pair;
                        waits += full as usize;
                    }
                    i += 1;
                    if i == in_group {
                        break;
                    }
                    // SAFETY: `i` is below `in_group`.
                    let next = unsafe { pair_unchecked::<L>(group, i) };
                    if CHECKED && L::key(next) == mixed {
                        break;
                    }
                }
                if i == in_group {
                    break;
                }
                let (pair, place) = (pair_at::<L>(group, i), places[i % GROUP] as usize);
                if rejects || L::key(pair) == L::AMBIGUOUS {
                    hold_or_reject(pair, policy, bin, self.outcome);
                    i += 1;
                    continue;
                }
                let more = &mut waiting[waits..];
                let (end, waiting_too) = pass_run::<L>(buckets, place, (group, i), policy, more);
                copies += end - i - waiting_too;
                waits += waiting_too;
                // A run of copies may go on in the next batch.
                begun += (i > 0) as usize;
                i = end;
            }
        }
        self.outcome.duplicates += copies as u64;
        self.waits += waits;
        begun
    }

    /// Puts the waiting pairs into their second buckets; pairs that find these full too keep
    /// waiting.
    #[inline(always)]
    fn second_choices<const CHECKED: bool>(&mut self) {
        let Filling { simd, shape, policy, bin, first_partition, spare, .. } = *self;
        let (buckets, fills, overflowed) =
            (&mut *self.buckets, &mut *self.fills, &mut *self.overflowed);
        let waiting = &mut self.waiting[..];
        let (mut first, mut second) = ([0; GROUP], [0; GROUP]);
        let mut waits = 0;
        let mut start = 0;
        while start < self.waits {
            let count = (self.waits - start).min(GROUP);
            // Entries after the last pair are arbitrary: their places are not used.
            let group = &waiting[start..start + GROUP];
            for i in 0..GROUP {
                let h = L::hash(L::key(group[i]));
                let partition =
                    shape.partition(h).wrapping_sub(first_partition).wrapping_mul(shape.buckets);
                let one = shape.first(h);
                first[i] = partition.wrapping_add(one);
                second[i] = partition.wrapping_add(shape.other(h, one));
            }
            for i in 0..count {
                let pair = waiting[start + i];
                let place = second[i] as usize;
                let mixed = L::key(pair);
                overflowed[first[i] as usize] |= 1 << class(L::hash(mixed));
                if CHECKED && let Some(slot) = simd.slot::<L>(heads::<L>(buckets, place), mixed) {
                    resolve(buckets, place, slot, pair, policy, bin, self.outcome);
                    continue;
                }
                let fill = fills[place] as usize;
                let full = fill == BUCKET;
                put::<L>(buckets, select_unpredictable(full, spare, place), fill % BUCKET, pair);
                fills[place] = (fill + !full as usize) as u8;
                waiting[waits] = pair;
                waits += full as usize;
            }
            start += count;
        }
        self.waits = waits;
    }
    /// Makes room for the pairs still waiting.
    #[inline(always)]
    fn evictions<const CHECKED: bool>(&mut self) -> Result<()> {
        for i in 0..self.waits {
            if self.stash.len() > self.most_homeless {
                return Ok(());
            }
            let pair = self.waiting[i];
            let mixed = L::key(pair);
            let (first, second) = self.places(L::hash(mixed));
            if CHECKED {
                let in_first = self.simd.slot::<L>(heads::<L>(self.buckets, first), mixed);
                let in_second = self.simd.slot::<L>(heads::<L>(self.buckets, second), mixed);
                let there = match in_first {
                    Some(slot) => Some((first, slot)),
                    None => in_second.map(|slot| (second, slot)),
                };
                if let Some((place, slot)) = there {
                    resolve(self.buckets, place, slot, pair, self.policy, self.bin, self.outcome);
                    continue;
                }
                if self.stash.get(mixed).is_some() {
                    if repeats(mixed, self.policy, self.bin, self.outcome) {
                        self.stash.replace(pair);
                    }
                    continue;
                }
            }
            self.evict(pair, second)?;
        }
        Ok(())
    }
    /// Returns the first and the second bucket of a hash, relative to the bin.
    #[inline(always)]
    fn places(&self, h: u32) -> (usize, usize) {
        let partition = (self.shape.partition(h) - self.first_partition) * self.shape.buckets;
        let first = self.shape.first(h);
        ((partition + first) as usize, (partition + self.shape.other(h, first)) as usize)
    }
    /// Puts a pair into a full bucket: evicts a pair to its other bucket, preferring one whose
    /// other bucket has room, and continues with the evicted pair. If the limit is reached, the
    /// last evicted pair goes to the stash. It has been tried in both its buckets.
    /// Choices depend on the pair and its partition alone: bins of any size give the same table.
    #[inline(always)]
    fn evict(&mut self, mut pair: L::Pair, mut place: usize) -> Result<()> {
        let shape = self.shape;
        let mut random = 0x2545_F491 ^ L::hash(L::key(pair));
        let partition = (shape.partition(L::hash(L::key(pair))) - self.first_partition) as usize;
        let base = partition * shape.buckets as usize;
        let most = self
            .failures
            .get(partition)
            .map_or(MAX_EVICTIONS, |&failures| MAX_EVICTIONS >> failures);
        for _ in 0..most {
            let bucket = heads::<L>(self.buckets, place);
            let here = (place - base) as u32;
            let mut others = [0; BUCKET];
            let mut room = 0u32;
            for i in 0..BUCKET {
                others[i] = base + shape.other(L::hash(L::key_in(bucket[i])), here) as usize;
                room |= ((self.fills[others[i]] < BUCKET as u8) as u32) << i;
            }
            random = random.wrapping_mul(0x2C1B_3C6D).wrapping_add(0x297A_2D39);
            let slot = select_unpredictable(room != 0, room.trailing_zeros(), random >> 30)
                as usize
                % BUCKET;
            let evicted = L::with_head(bucket[slot], self.buckets[behind_at::<L>(place, slot)]);
            put::<L>(self.buckets, place, slot, pair);
            pair = evicted;
            self.outcome.evictions += 1;
            // The pair overflows if this was its first bucket.
            let h = L::hash(L::key(pair));
            self.overflowed[place] |= ((shape.first(h) == here) as u8) << class(h);
            place = others[slot];
            if room != 0 {
                put::<L>(self.buckets, place, self.fills[place] as usize % BUCKET, pair);
                self.fills[place] += 1;
                return Ok(());
            }
        }
        let h = L::hash(L::key(pair));
        let (first, _) = self.places(h);
        self.overflowed[first] |= 1 << class(h);
        // Only unchecked builds may bring a copy.
        self.outcome.duplicates += self.stash.insert_or_replace(pair)? as u64;
        self.patience_ends(partition)
    }
    /// Records an eviction that found no room in this partition: later ones try half as many steps,
    /// and none if every slot is taken.
    #[cold]
    fn patience_ends(&mut self, partition: usize) -> Result<()> {
        const NONE: u8 = (MAX_EVICTIONS.ilog2() + 1) as u8;
        if self.failures.is_empty() {
            resize(self.failures, self.spare / self.shape.buckets as usize, 0)?;
        }
        let failures = &mut self.failures[partition];
        *failures = (*failures + 1).min(NONE);
        if *failures == 1 {
            let buckets = self.shape.buckets as usize;
            let mut all = partition * buckets..(partition + 1) * buckets;
            if all.all(|place| heads::<L>(self.buckets, place)[BUCKET - 1] != EMPTY) {
                *failures = NONE;
            }
        }
        Ok(())
    }
}

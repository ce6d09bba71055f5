//! The second pass of a build: the buckets of a bin are filled in cache and written out.
//!
//! Pairs come in the order of the input. One whose first bucket has room stays there. When all have come, those that have none
//! go to their second bucket if that has room. When these have been tried, each that is left evicts another pair to its
//! other bucket, and so on. Buckets lose no pair before, so of two pairs with one key the later finds the earlier in the
//! same step, or waits behind it.
use super::partition::{BLOCK, Parted, mix_pairs};
use super::simd::{Bucket, EMPTY_BUCKET, GROUP, LINE, Line, Simd, Work};
use super::stash::Stash;
use crate::classic::Duplicates;
use koel_kernels::hash::mulhi;
use koel_kernels::map::layout::{AMBIGUOUS, BUCKET, EMPTY, Shape, class, pair};
use std::hint::select_unpredictable;

/// Evictions until a pair goes to the stash. Fewer in a partition where that has happened.
const MOST_EVICTIONS: u32 = 512;

/// What builds bins, one after the other. Its memory is kept from build to build.
#[derive(Default)]
pub struct Builder {
    /// The buckets of a bin, and one where pairs go that have no room.
    buckets: Vec<Bucket>,
    /// For each bucket, its pairs.
    fills: Vec<u8>,
    /// For each bucket, the classes of the keys that overflowed from it.
    overflowed: Vec<u8>,
    /// Pairs whose first bucket was full.
    waiting: Vec<u64>,
    /// Pairs of the partitions of the bin for which neither bucket had room.
    bin_stash: Stash,
    /// For each partition of the bin, how many pairs found no room; nothing until one did.
    failures: Vec<u8>,
    /// Of this thread's bins.
    pub outcome: Outcome,
}
/// What became of the pairs.
#[derive(Default)]
pub struct Outcome {
    /// Pairs for which neither bucket had room.
    pub stashed: Vec<u64>,
    /// Pairs dropped because another has the same key.
    pub duplicates: u64,
    /// Pairs moved to their other bucket.
    pub evictions: u64,
    /// Whether the ambiguous pair is in the table.
    pub ambiguous: bool,
    /// Of the lowest bin that has equal keys: the bin, and such a mixed key.
    pub repeated: Option<(usize, u32)>,
}
impl Outcome {
    fn clear(&mut self) {
        self.stashed.clear();
        *self = Outcome { stashed: std::mem::take(&mut self.stashed), ..Outcome::default() };
    }
}

impl Builder {
    /// Forgets the last build.
    pub fn begin(&mut self) {
        self.outcome.clear();
    }
    /// Bytes that are kept.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.buckets[..]) + self.fills.len() + self.overflowed.len() + size_of_val(&self.waiting[..])
    }
}

/// Where a bin's pairs come from.
pub enum Source<'a> {
    /// What each thread parted, with its arena.
    Bins(&'a [(&'a Parted, &'a [u64])]),
    /// Everything, not mixed yet.
    Input { keys: &'a [u32], values: &'a [u32] },
}

/// Builds one bin; see the module.
pub struct BuildBin<'a> {
    pub builder: &'a mut Builder,
    pub shape: Shape,
    pub policy: Duplicates,
    pub source: &'a Source<'a>,
    /// The number of the bin.
    pub bin: usize,
    /// The partitions before those of the bin.
    pub first_partition: u32,
    /// The bin's part of the table.
    pub table: &'a mut [u64],
    /// Whether it is written past the cache.
    pub stream: bool,
}
impl Work for BuildBin<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let BuildBin { builder, shape, policy, source, bin, first_partition, table, stream } = self;
        let count = table.len() / BUCKET;
        let room = (count + 1).next_multiple_of(8);
        builder.buckets.clear();
        builder.buckets.resize(room, EMPTY_BUCKET);
        builder.fills.clear();
        builder.fills.resize(room, 0);
        builder.overflowed.clear();
        builder.overflowed.resize(room, 0);
        builder.bin_stash.clear();
        builder.failures.clear();
        let mut filling = Filling {
            simd,
            shape,
            policy,
            bin,
            all: shape.all_buckets() as u32,
            base: first_partition * shape.buckets,
            first_partition,
            spare: count,
            buckets: &mut builder.buckets,
            fills: &mut builder.fills,
            overflowed: &mut builder.overflowed,
            waiting: &mut builder.waiting,
            waits: 0,
            stash: &mut builder.bin_stash,
            outcome: &mut builder.outcome,
            all_ones: None,
            failures: &mut builder.failures,
        };
        match policy {
            Duplicates::Unchecked => filling.fill::<false>(source),
            _ => filling.fill::<true>(source),
        }
        builder.outcome.stashed.extend(builder.bin_stash.iter());
        // Not the spare bucket: it is never read.
        let (groups, _) = builder.buckets.as_chunks_mut::<8>();
        for (buckets, bits) in groups.iter_mut().zip(builder.overflowed.as_chunks::<8>().0) {
            simd.order(buckets, bits);
        }
        write_out(simd, &builder.buckets.as_flattened()[..table.len()], table, stream);
    }
}

#[inline(always)]
fn write_out<S: Simd>(simd: S, from: &[u64], to: &mut [u64], stream: bool) {
    if !stream {
        return to.copy_from_slice(from);
    }
    let (head, lines, tail) = bytemuck::pod_align_to_mut::<u64, Line>(to);
    let (from_head, from) = from.split_at(head.len());
    let (from_lines, from_tail) = from.as_chunks::<LINE>();
    head.copy_from_slice(from_head);
    for (to, from) in lines.iter_mut().zip(from_lines) {
        simd.stream(to, from);
    }
    tail.copy_from_slice(from_tail);
    simd.fence();
}

/// A bin that is being filled.
struct Filling<'a, S> {
    simd: S,
    shape: Shape,
    policy: Duplicates,
    bin: usize,
    /// Buckets of the table.
    all: u32,
    /// Buckets of the table before those of the bin.
    base: u32,
    first_partition: u32,
    /// The bucket where pairs go that have no room.
    spare: usize,
    buckets: &'a mut [Bucket],
    fills: &'a mut [u8],
    overflowed: &'a mut [u8],
    waiting: &'a mut Vec<u64>,
    /// How many wait.
    waits: usize,
    stash: &'a mut Stash,
    outcome: &'a mut Outcome,
    /// The value of the ambiguous key: empty slots look like it, so it comes last.
    all_ones: Option<u32>,
    /// For each partition, how many pairs found no room; nothing until one did.
    failures: &'a mut Vec<u8>,
}

impl<S: Simd> Filling<'_, S> {
    #[inline(always)]
    fn fill<const CHECKED: bool>(&mut self, source: &Source<'_>) {
        match *source {
            Source::Bins(parts) => {
                for (parted, arena) in parts {
                    for (run, next) in parted.runs(self.bin, arena) {
                        self.first_choices::<CHECKED>(run, next);
                    }
                }
            }
            Source::Input { keys, values } => {
                let mut pairs = [0; BLOCK];
                for (keys, values) in keys.chunks(BLOCK).zip(values.chunks(BLOCK)) {
                    let pairs = &mut pairs[..keys.len()];
                    mix_pairs(self.shape, keys, values, pairs);
                    self.first_choices::<CHECKED>(pairs, pairs.as_ptr());
                }
            }
        }
        self.second_choices::<CHECKED>();
        self.evictions::<CHECKED>();
        self.ambiguous_key();
    }

    /// Puts pairs into their first buckets; those that find them full wait. Meanwhile the pairs at `next` are asked for.
    #[inline(always)]
    fn first_choices<const CHECKED: bool>(&mut self, run: &[u64], next: *const u64) {
        // Room for a whole group behind the last, for `second_choices`.
        if self.waiting.len() < self.waits + run.len() + GROUP {
            self.waiting.resize((self.waits + run.len()) * 2 + GROUP, 0);
        }
        let Filling { simd, policy, bin, all, base, spare, .. } = *self;
        let (buckets, fills, waiting) = (&mut *self.buckets, &mut *self.fills, &mut self.waiting[..]);
        let mut waits = self.waits;
        // As in `Partition`: through memory, a group ahead.
        let mut places = [[0; GROUP]; 2];
        let groups = run.len().div_ceil(GROUP);
        for step in 0..=groups {
            if step < groups {
                let start = step * GROUP;
                simd.ask(next.wrapping_add(start));
                simd.ask(next.wrapping_add(start + LINE));
                let group = &run[start..run.len().min(start + GROUP)];
                if let Some(group) = group.as_array::<GROUP>() {
                    for i in 0..GROUP {
                        places[step % 2][i] = mulhi(group[i] as u32, all).wrapping_sub(base);
                    }
                } else {
                    for i in 0..group.len() {
                        places[step % 2][i] = mulhi(group[i] as u32, all).wrapping_sub(base);
                    }
                }
            }
            if step == 0 {
                continue;
            }
            let start = (step - 1) * GROUP;
            let group = &run[start..run.len().min(start + GROUP)];
            for (&pair, &place) in group.iter().zip(&places[(step - 1) % 2]) {
                let (h, place) = (pair as u32, place as usize);
                if h == AMBIGUOUS {
                    take_ambiguous(&mut self.all_ones, pair, policy, bin, self.outcome);
                    continue;
                }
                if CHECKED {
                    let same = simd.matches(&buckets[place], h);
                    if same != 0 {
                        let old = &mut buckets[place][same.trailing_zeros() as usize / 2];
                        resolve(old, pair, policy, bin, self.outcome);
                        continue;
                    }
                }
                // No branch: one bucket in four is full, which nothing predicts.
                let fill = fills[place] as usize;
                let full = fill == BUCKET;
                buckets[select_unpredictable(full, spare, place)][fill % BUCKET] = pair;
                fills[place] = (fill + !full as usize) as u8;
                waiting[waits] = pair;
                waits += full as usize;
            }
        }
        self.waits = waits;
    }

    /// Puts the pairs that wait into their second buckets; those that find them full wait on.
    #[inline(always)]
    fn second_choices<const CHECKED: bool>(&mut self) {
        let Filling { simd, shape, policy, bin, first_partition, spare, .. } = *self;
        let (buckets, fills, overflowed) = (&mut *self.buckets, &mut *self.fills, &mut *self.overflowed);
        let waiting = &mut self.waiting[..];
        let (mut first, mut second) = ([0; GROUP], [0; GROUP]);
        let mut waits = 0;
        let mut start = 0;
        while start < self.waits {
            let count = (self.waits - start).min(GROUP);
            // Beyond the last is anything: its places are not used.
            let group = &waiting[start..start + GROUP];
            for i in 0..GROUP {
                let h = group[i] as u32;
                let partition = shape.partition(h).wrapping_sub(first_partition).wrapping_mul(shape.buckets);
                let one = shape.first(h);
                first[i] = partition.wrapping_add(one);
                second[i] = partition.wrapping_add(shape.other(h, one));
            }
            for i in 0..count {
                let pair = waiting[start + i];
                let place = second[i] as usize;
                overflowed[first[i] as usize] |= 1 << class(pair as u32);
                let bucket = &mut buckets[place];
                if CHECKED {
                    let same = simd.matches(bucket, pair as u32);
                    if same != 0 {
                        resolve(&mut bucket[same.trailing_zeros() as usize / 2], pair, policy, bin, self.outcome);
                        continue;
                    }
                }
                let fill = fills[place] as usize;
                let full = fill == BUCKET;
                buckets[select_unpredictable(full, spare, place)][fill % BUCKET] = pair;
                fills[place] = (fill + !full as usize) as u8;
                waiting[waits] = pair;
                waits += full as usize;
            }
            start += count;
        }
        self.waits = waits;
    }
    /// Makes room for the pairs that still wait.
    #[inline(always)]
    fn evictions<const CHECKED: bool>(&mut self) {
        let mut random = 0x2545_F491 ^ self.bin as u32;
        for i in 0..self.waits {
            let pair = self.waiting[i];
            let h = pair as u32;
            let (first, second) = self.places(h);
            if CHECKED {
                let in_first = self.simd.matches(&self.buckets[first], h);
                let in_second = self.simd.matches(&self.buckets[second], h);
                if in_first | in_second != 0 {
                    let (place, same) = if in_first != 0 { (first, in_first) } else { (second, in_second) };
                    let old = &mut self.buckets[place][same.trailing_zeros() as usize / 2];
                    resolve(old, pair, self.policy, self.bin, self.outcome);
                    continue;
                }
                if let Some(old) = self.stash.pair_mut(h) {
                    resolve(old, pair, self.policy, self.bin, self.outcome);
                    continue;
                }
            }
            self.evict(pair, second, &mut random);
        }
    }
    /// The first and the second bucket of a mixed key, among those of the bin.
    #[inline(always)]
    fn places(&self, h: u32) -> (usize, usize) {
        let partition = (self.shape.partition(h) - self.first_partition) * self.shape.buckets;
        let first = self.shape.first(h);
        ((partition + first) as usize, (partition + self.shape.other(h, first)) as usize)
    }
    /// Puts a pair into a full bucket: another must go to its other bucket, one for which there is room there if there is such a
    /// one, else any, and so on. If none finds room, the last goes to the stash: it has been tried in both its buckets.
    #[inline(always)]
    fn evict(&mut self, mut pair: u64, mut place: usize, random: &mut u32) {
        let shape = self.shape;
        let partition = (shape.partition(pair as u32) - self.first_partition) as usize;
        let base = partition * shape.buckets as usize;
        let most = self.failures.get(partition).map_or(MOST_EVICTIONS, |&failures| MOST_EVICTIONS >> failures);
        for _ in 0..most {
            let bucket = &mut self.buckets[place];
            let here = (place - base) as u32;
            let mut others = [0; BUCKET];
            let mut room = 0u32;
            for i in 0..BUCKET {
                others[i] = base + shape.other(bucket[i] as u32, here) as usize;
                room |= ((self.fills[others[i]] < BUCKET as u8) as u32) << i;
            }
            *random = random.wrapping_mul(0x2C1B_3C6D).wrapping_add(0x297A_2D39);
            let slot = select_unpredictable(room != 0, room.trailing_zeros(), *random >> 30) as usize % BUCKET;
            std::mem::swap(&mut pair, &mut bucket[slot]);
            self.outcome.evictions += 1;
            // It overflows if this was its first bucket.
            let h = pair as u32;
            self.overflowed[place] |= ((shape.first(h) == here) as u8) << class(h);
            place = others[slot];
            if room != 0 {
                let fill = &mut self.fills[place];
                self.buckets[place][*fill as usize % BUCKET] = pair;
                *fill += 1;
                return;
            }
        }
        let h = pair as u32;
        let (first, _) = self.places(h);
        self.overflowed[first] |= 1 << class(h);
        self.stash.insert(pair);
        self.patience_ends(partition);
    }
    /// An eviction found no room in this partition: later ones try half as often, and not at all if every slot is taken.
    #[cold]
    fn patience_ends(&mut self, partition: usize) {
        const NONE: u8 = (MOST_EVICTIONS.ilog2() + 1) as u8;
        if self.failures.is_empty() {
            self.failures.resize(self.spare / self.shape.buckets as usize, 0);
        }
        let failures = &mut self.failures[partition];
        *failures = (*failures + 1).min(NONE);
        if *failures == 1 {
            let buckets = self.shape.buckets as usize;
            let full = |bucket: &Bucket| bucket[BUCKET - 1] != EMPTY;
            if self.buckets[partition * buckets..][..buckets].iter().all(full) {
                *failures = NONE;
            }
        }
    }

    /// Stores the ambiguous key, where nothing is mistaken for it any more.
    #[inline(always)]
    fn ambiguous_key(&mut self) {
        let Some(value) = self.all_ones else { return };
        let pair = pair(AMBIGUOUS, value);
        if pair == EMPTY {
            self.outcome.ambiguous = true;
            return;
        }
        let (first, second) = self.places(AMBIGUOUS);
        for place in [first, second] {
            let fill = self.fills[place] as usize;
            if fill < BUCKET {
                self.buckets[place][fill] = pair;
                self.fills[place] += 1;
                return;
            }
            self.overflowed[first] |= 1 << class(AMBIGUOUS);
        }
        self.evict(pair, second, &mut 0x2545_F491);
    }
}

/// A pair of the ambiguous key.
#[cold]
fn take_ambiguous(value: &mut Option<u32>, new: u64, policy: Duplicates, bin: usize, outcome: &mut Outcome) {
    let mut stored = new;
    if let Some(value) = *value {
        stored = pair(AMBIGUOUS, value);
        resolve(&mut stored, new, policy, bin, outcome);
    }
    *value = Some((stored >> 32) as u32);
}

/// A pair with the same key as one that is stored.
#[cold]
fn resolve(old: &mut u64, new: u64, policy: Duplicates, bin: usize, outcome: &mut Outcome) {
    outcome.duplicates += 1;
    match policy {
        Duplicates::KeepLast | Duplicates::Unchecked => *old = new,
        Duplicates::KeepFirst => {}
        Duplicates::Reject => {
            if outcome.repeated.is_none_or(|(lowest, _)| bin < lowest) {
                outcome.repeated = Some((bin, new as u32));
            }
        }
    }
}

//! The second pass of a build: the buckets of a bin are filled in cache and written out.
//!
//! Pairs come in the order of the input. One whose first bucket has room stays there; the others wait until all have come, and
//! then go to their second bucket, from which they may evict another pair to its other bucket, and so on. As a key has
//! one first bucket, a pair with the same key is found there, or both wait.
use super::partition::{BLOCK, Parted, mix_pairs};
use super::simd::{Bucket, EMPTY_BUCKET, LINE, Line, Simd, Work};
use super::stash::Stash;
use crate::classic::Duplicates;
use koel_kernels::hash::mulhi;
use koel_kernels::map::layout::{AMBIGUOUS, BUCKET, EMPTY, Shape, class, pair};

/// Evictions until a pair goes to the stash. Fewer in a partition where that has happened.
const MOST_EVICTIONS: u32 = 512;

/// What builds bins, one after the other. Its memory is kept from build to build.
#[derive(Default)]
pub struct Builder {
    /// The buckets of a bin, and one where pairs go that have no room.
    buckets: Vec<Bucket>,
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
        size_of_val(&self.buckets[..]) + self.overflowed.len() + size_of_val(&self.waiting[..])
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
        builder.buckets.clear();
        builder.buckets.resize((count + 1).next_multiple_of(8), EMPTY_BUCKET);
        builder.overflowed.clear();
        builder.overflowed.resize((count + 1).next_multiple_of(8), 0);
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
                    for run in parted.runs(self.bin, arena) {
                        self.first_choices::<CHECKED>(run);
                    }
                }
            }
            Source::Input { keys, values } => {
                let mut pairs = [0; BLOCK];
                for (keys, values) in keys.chunks(BLOCK).zip(values.chunks(BLOCK)) {
                    let pairs = &mut pairs[..keys.len()];
                    mix_pairs(self.shape, keys, values, pairs);
                    self.first_choices::<CHECKED>(pairs);
                }
            }
        }
        self.second_choices::<CHECKED>();
        self.ambiguous_key();
    }

    /// Puts pairs into their first buckets; those that find them full wait.
    #[inline(always)]
    fn first_choices<const CHECKED: bool>(&mut self, run: &[u64]) {
        if self.waiting.len() < self.waits + run.len() {
            self.waiting.resize((self.waits + run.len()) * 2, 0);
        }
        for &pair in run {
            let h = pair as u32;
            if h == AMBIGUOUS {
                self.take_ambiguous(pair);
                continue;
            }
            let place = (mulhi(h, self.all) - self.base) as usize;
            let bucket = &mut self.buckets[place];
            if CHECKED {
                let same = self.simd.matches(bucket, h);
                if same != 0 {
                    resolve(&mut bucket[same.trailing_zeros() as usize / 2], pair, self.policy, self.bin, self.outcome);
                    continue;
                }
            }
            // No branch: one bucket in four is full, which nothing predicts.
            let empties = self.simd.empties(bucket);
            let full = empties == 0;
            let to = if full { self.spare } else { place };
            self.buckets[to][empties.trailing_zeros() as usize % BUCKET] = pair;
            self.waiting[self.waits] = pair;
            self.waits += full as usize;
        }
    }
    #[cold]
    fn take_ambiguous(&mut self, new: u64) {
        match self.all_ones {
            None => self.all_ones = Some((new >> 32) as u32),
            Some(value) => {
                let mut old = pair(AMBIGUOUS, value);
                resolve(&mut old, new, self.policy, self.bin, self.outcome);
                self.all_ones = Some((old >> 32) as u32);
            }
        }
    }

    /// Puts the pairs that wait into their second buckets.
    #[inline(always)]
    fn second_choices<const CHECKED: bool>(&mut self) {
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
            self.overflowed[first] |= 1 << class(h);
            let empties = self.simd.empties(&self.buckets[second]);
            if empties != 0 {
                self.buckets[second][empties.trailing_zeros() as usize] = pair;
            } else {
                self.evict(pair, second, &mut random);
            }
        }
    }
    /// The first and the second bucket of a mixed key, among those of the bin.
    #[inline(always)]
    fn places(&self, h: u32) -> (usize, usize) {
        let partition = (self.shape.partition(h) - self.first_partition) * self.shape.buckets;
        let first = self.shape.first(h);
        ((partition + first) as usize, (partition + self.shape.other(h, first)) as usize)
    }
    /// Puts a pair into a full bucket: another must go to its other bucket, and so on at random, until one finds room. If none
    /// does, the last goes to the stash: it has been tried in both its buckets.
    #[inline(always)]
    fn evict(&mut self, mut pair: u64, mut place: usize, random: &mut u32) {
        let partition = (self.shape.partition(pair as u32) - self.first_partition) as usize;
        let most = self.failures.get(partition).map_or(MOST_EVICTIONS, |&failures| MOST_EVICTIONS >> failures);
        for _ in 0..most {
            *random ^= *random << 13;
            *random ^= *random >> 17;
            *random ^= *random << 5;
            std::mem::swap(&mut pair, &mut self.buckets[place][*random as usize % BUCKET]);
            self.outcome.evictions += 1;
            let h = pair as u32;
            let (first, second) = self.places(h);
            if place == first {
                self.overflowed[first] |= 1 << class(h);
                place = second;
            } else {
                place = first;
            }
            let empties = self.simd.empties(&self.buckets[place]);
            if empties != 0 {
                self.buckets[place][empties.trailing_zeros() as usize] = pair;
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
            let empties = self.simd.empties(&self.buckets[place]);
            if empties != 0 {
                self.buckets[place][empties.trailing_zeros() as usize] = pair;
                return;
            }
            self.overflowed[first] |= 1 << class(AMBIGUOUS);
        }
        self.evict(pair, second, &mut 0x2545_F491);
    }
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

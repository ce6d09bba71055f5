//! Lookups with many queries in flight.
//!
//! A batch of queries is mixed and its buckets are prefetched; some batches later the buckets have
//! arrived and are compared, without branches. The few queries that must look into their second
//! bucket wait in a ring until that has arrived too, and leave it one batch at a time.
use super::answers::Answers;
use super::bucketed::OfMap;
use super::check_table;
use super::place;
use super::simd::{Compared, GROUP, Simd, Work};
use super::stash::Stash;
use crate::error::Result;
use koel_kernels::hash::mulhi;
use koel_kernels::table::layout::{Layout, Number, Shape};
use std::hint::select_unpredictable;

/// Batches between prefetching a bucket and reading it: 4 lower the rate by 12 %, 8 are no better.
const AHEAD: usize = 6;
/// Batches kept: those in flight, the one being mixed and the one being compared.
const SLOTS: usize = (AHEAD + 2).next_power_of_two();
/// Batches between prefetching queries and mixing them. Without this prefetch, lookups ran at three
/// quarters of the rate.
const STREAM_AHEAD: usize = 24;
/// Minimum number of queries that follow a query in the ring before its second bucket is read.
const SECOND_AHEAD: usize = 32;
/// Capacity of the ring: fewer waiting queries than that plus a batch, and one incoming batch.
const RING: usize = SECOND_AHEAD + 2 * GROUP;

/// A table as lookups see it: buckets that are compared with mixed keys, and a stash.
pub(crate) trait Probe: Copy + Send + Sync {
    /// Type of the queries.
    type Key: Copy + Send + Sync;
    /// Type of the mixed keys.
    type Mixed: Number;
    /// Type of the values; `()` if there are none.
    type Value: Copy + Default + Send + Sync;
    /// The mixed key that looks like an empty slot.
    const AMBIGUOUS: Self::Mixed;

    /// Returns the partitions and buckets.
    fn shape(&self) -> Shape;
    /// Mixes a key.
    fn mixed(&self, key: Self::Key) -> Self::Mixed;
    /// Returns the 32 bits of a mixed key that determine where it may lie.
    fn hash(mixed: Self::Mixed) -> u32;
    /// Returns the address of a bucket, which need not exist.
    fn address(&self, place: u32) -> *const u64;
    /// Compares each mixed key of a batch with one bucket. The places must be below the number of
    /// buckets.
    fn compare<S: Simd>(
        &self,
        simd: S,
        places: &[u32; GROUP],
        mixed: &[Self::Mixed; GROUP],
        missing: Self::Value,
    ) -> Compared<Self::Value>;
    /// Returns the value of a key by the definition of the layout. The fast path must agree with
    /// it, and uses it for the queries of an incomplete last batch.
    fn find(&self, key: Self::Key) -> Option<Self::Value>;
    /// Returns the value of the ambiguous key.
    fn held(&self) -> Option<Self::Value>;
    /// Returns those of the mixed keys in `bits` that the stash may hold.
    fn suspects(&self, mixed: &[Self::Mixed; GROUP], bits: u32) -> u32;
    /// Returns the value of a mixed key in the stash.
    fn in_stash(&self, mixed: Self::Mixed) -> Option<Self::Value>;
}

/// Pairs in buckets, and their stash.
#[derive(Clone, Copy)]
pub(crate) struct Tables<'a, L: Layout> {
    shape: Shape,
    seed: u32,
    /// Words of the buckets of all partitions.
    buckets: &'a [u64],
    stash: &'a Stash<L>,
}
impl<'a, L: Layout> Tables<'a, L> {
    /// Of a table that [`build`](super::build) or another device built with this seed. Errors:
    /// mismatched lengths.
    #[inline]
    pub(crate) fn new(
        shape: Shape,
        seed: u32,
        buckets: &'a [u64],
        stash: &'a Stash<L>,
    ) -> Result<Tables<'a, L>> {
        check_table::<L>(shape, buckets.len())?;
        Ok(Tables { shape, seed, buckets, stash })
    }
}
impl<L: Layout> Probe for Tables<'_, L> {
    type Key = L::Key;
    type Mixed = L::Mixed;
    type Value = L::Value;
    const AMBIGUOUS: L::Mixed = L::AMBIGUOUS;

    #[inline(always)]
    fn shape(&self) -> Shape {
        self.shape
    }
    #[inline(always)]
    fn mixed(&self, key: L::Key) -> L::Mixed {
        L::mixed(self.seed, key)
    }
    #[inline(always)]
    fn hash(mixed: L::Mixed) -> u32 {
        L::hash(mixed)
    }
    #[inline(always)]
    fn address(&self, place: u32) -> *const u64 {
        self.buckets.as_ptr().wrapping_add(place as usize * L::WORDS)
    }
    #[inline(always)]
    fn compare<S: Simd>(
        &self,
        simd: S,
        places: &[u32; GROUP],
        mixed: &[L::Mixed; GROUP],
        missing: L::Value,
    ) -> Compared<L::Value> {
        simd.compare::<L>(self.buckets, places, mixed, missing)
    }
    #[inline]
    fn find(&self, key: L::Key) -> Option<L::Value> {
        place::find::<OfMap<L>>(self.shape, self.seed, self.buckets, self.stash, key)
    }
    #[inline(always)]
    fn held(&self) -> Option<L::Value> {
        self.stash.held()
    }
    #[inline(always)]
    fn suspects(&self, mixed: &[L::Mixed; GROUP], bits: u32) -> u32 {
        self.stash.suspects(mixed, bits)
    }
    #[inline(always)]
    fn in_stash(&self, mixed: L::Mixed) -> Option<L::Value> {
        self.stash.get(mixed)
    }
}

/// Work that looks up queries.
pub(super) struct Find<'a, T: Probe, A> {
    pub table: T,
    pub queries: &'a [T::Key],
    pub answers: A,
}

impl<T: Probe, A: Answers<T::Value>> Work for Find<'_, T, A> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let (table, queries) = (self.table, self.queries);
        let all = table.shape().all_buckets() as u32;
        let (groups, rest) = queries.as_chunks::<GROUP>();
        // State of each batch whose buckets have been prefetched.
        let (mut mixed, mut places) = ([[T::AMBIGUOUS; GROUP]; SLOTS], [[0; GROUP]; SLOTS]);
        let mut has_ambiguous = [false; SLOTS];
        let mut second = Ring::<T::Mixed>::new(T::AMBIGUOUS);

        for step in 0..groups.len() + AHEAD + 1 {
            // Hardware prefetching stops at the end of each page.
            simd.ask_group(queries.as_ptr().wrapping_add((step + STREAM_AHEAD) * GROUP));
            self.answers.ask(simd, (step + STREAM_AHEAD) * GROUP);
            // New queries are mixed one step before their buckets are prefetched.
            if let Some(keys) = groups.get(step) {
                let slot = step % SLOTS;
                has_ambiguous[slot] = false;
                for i in 0..GROUP {
                    let key = table.mixed(keys[i]);
                    mixed[slot][i] = key;
                    places[slot][i] = mulhi(T::hash(key), all);
                    has_ambiguous[slot] |= key == T::AMBIGUOUS;
                }
            }
            if step >= 1 && step <= groups.len() {
                for &place in &places[(step - 1) % SLOTS] {
                    simd.ask(table.address(place));
                }
            }
            if step > AHEAD {
                let group = step - AHEAD - 1;
                let slot = group % SLOTS;
                self.first_choices(
                    simd,
                    group,
                    &mixed[slot],
                    &places[slot],
                    has_ambiguous[slot],
                    &mut second,
                );
            }
            if second.len() >= GROUP + SECOND_AHEAD {
                self.second_choices(simd, &mut second);
            }
        }
        while second.len() > 0 {
            self.second_choices(simd, &mut second);
        }
        for (i, &key) in rest.iter().enumerate() {
            self.answers.put(groups.len() * GROUP + i, self.table.find(key));
        }
        self.answers.finish();
    }
}

impl<T: Probe, A: Answers<T::Value>> Find<'_, T, A> {
    /// Compares a batch with its first buckets, and prefetches the second buckets of queries that
    /// may be there.
    #[inline(always)]
    fn first_choices<S: Simd>(
        &mut self,
        simd: S,
        group: usize,
        mixed: &[T::Mixed; GROUP],
        places: &[u32; GROUP],
        has_ambiguous: bool,
        second: &mut Ring<T::Mixed>,
    ) {
        let (table, shape, start) = (self.table, self.table.shape(), group * GROUP);
        let mut compared = table.compare(simd, places, mixed, self.answers.missing());
        if has_ambiguous {
            self.ambiguous_key(mixed, &mut compared);
        }
        self.answers.put_group(start, &compared);
        let (mut numbers, mut others) = ([0; GROUP], [0; GROUP]);
        for i in 0..GROUP {
            let h = T::hash(mixed[i]);
            numbers[i] = (start + i) as u32;
            others[i] = shape.partition(h) * shape.buckets + shape.other(h, shape.first(h));
        }
        let again = compared.overflowed;
        let others = simd.compact(&others, again);
        second.push(
            simd.compact(&numbers, again),
            simd.compact(mixed, again),
            others,
            again.count_ones(),
        );
        // Prefetch four lines, substituting a bucket that is already there for unneeded ones: a
        // loop with an unpredictable length would cost more.
        for i in 0..4 {
            let wanted = i < again.count_ones();
            let place = select_unpredictable(wanted, others[i as usize], places[0]);
            simd.ask(table.address(place));
        }
        for i in 4..again.count_ones() {
            simd.ask(table.address(others[i as usize]));
        }
    }
    /// Answers queries for the ambiguous key, which looks like an empty slot.
    #[cold]
    fn ambiguous_key(&self, mixed: &[T::Mixed; GROUP], compared: &mut Compared<T::Value>) {
        let held = self.table.held();
        for i in (0..GROUP).filter(|&i| mixed[i] == T::AMBIGUOUS) {
            let bit = 1 << i;
            compared.values[i] = held.unwrap_or(self.answers.missing());
            compared.found = compared.found & !bit | (held.is_some() as u32) << i;
            compared.overflowed &= !bit;
        }
    }
    /// Compares the next queries of the ring with their second buckets and, where these are full,
    /// with the stash.
    #[inline(always)]
    fn second_choices<S: Simd>(&mut self, simd: S, second: &mut Ring<T::Mixed>) {
        let (numbers, mixed, places, count) = second.pop();
        let mut compared = self.table.compare(simd, &places, &mixed, self.answers.missing());
        let full = compared.full & !compared.found & ((1 << count) - 1);
        let mut suspects = self.table.suspects(&mixed, full);
        while suspects != 0 {
            let i = suspects.trailing_zeros() as usize % GROUP;
            if let Some(value) = self.table.in_stash(mixed[i]) {
                compared.values[i] = value;
                compared.found |= 1 << i;
            }
            suspects &= suspects - 1;
        }
        for (i, &number) in numbers[..count].iter().enumerate() {
            self.answers.put_second(
                number as usize,
                compared.values[i],
                compared.found >> i & 1 != 0,
            );
        }
    }
}

/// FIFO of queries whose second buckets have been prefetched: number, mixed key, bucket.
struct Ring<M> {
    numbers: [u32; RING],
    mixed: [M; RING],
    places: [u32; RING],
    end: usize,
}
/// Batch from the ring: numbers, mixed keys, buckets, and the count of queries.
type Seconds<M> = ([u32; GROUP], [M; GROUP], [u32; GROUP], usize);
impl<M: Number> Ring<M> {
    #[inline(always)]
    fn new(any: M) -> Ring<M> {
        Ring { numbers: [0; RING], mixed: [any; RING], places: [0; RING], end: 0 }
    }
    #[inline(always)]
    fn len(&self) -> usize {
        self.end
    }
    /// Adds the first `count` queries of a batch.
    #[inline(always)]
    fn push(&mut self, numbers: [u32; GROUP], mixed: [M; GROUP], places: [u32; GROUP], count: u32) {
        self.numbers[self.end..][..GROUP].copy_from_slice(&numbers);
        self.mixed[self.end..][..GROUP].copy_from_slice(&mixed);
        self.places[self.end..][..GROUP].copy_from_slice(&places);
        self.end += count as usize;
    }
    /// Removes and returns the oldest queries, up to a batch; the others move up.
    #[inline(always)]
    fn pop(&mut self) -> Seconds<M> {
        let count = self.end.min(GROUP);
        let taken = (take(&mut self.numbers), take(&mut self.mixed), take(&mut self.places), count);
        self.end -= count;
        taken
    }
}
#[inline(always)]
fn take<T: Number>(words: &mut [T; RING]) -> [T; GROUP] {
    let taken = std::array::from_fn(|i| words[i]);
    for i in GROUP..RING {
        words[i - GROUP] = words[i];
    }
    taken
}

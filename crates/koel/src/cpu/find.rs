//! Lookups, many in flight.
//!
//! A group of queries is mixed and its buckets are asked for; some groups later they have come and are compared, without a
//! branch. The few that must look into their second bucket wait in a ring until that has come too, and are taken from it a
//! group at a time.
use super::simd::{Bucket, GROUP, Simd, Work};
use super::stash::Stash;
use koel_kernels::hash::mulhi;
use koel_kernels::map::layout::{AMBIGUOUS, EMPTY, Shape};
use std::hint::select_unpredictable;

/// Groups between asking for a bucket and reading it: with 4 the rate is 12 % lower, 8 are no better.
const AHEAD: usize = 6;
/// Groups that are kept: those, the one being mixed and the one being compared.
const SLOTS: usize = (AHEAD + 2).next_power_of_two();
/// Groups between asking for queries and mixing them. Without, lookups ran at three quarters of the rate.
const STREAM_AHEAD: usize = 24;
/// Queries that are ahead of one whose second bucket is read.
const SECOND_AHEAD: usize = 32;
/// What the ring has room for: less than what waits and a group, and a group that comes.
const RING: usize = SECOND_AHEAD + 2 * GROUP;

/// A table and its stash, to read.
#[derive(Clone, Copy)]
pub struct Tables<'a> {
    pub shape: Shape,
    /// Buckets of all partitions.
    pub buckets: &'a [Bucket],
    pub stash: &'a Stash,
}
impl Tables<'_> {
    /// The value of a key, by the definition of the layout: what the fast path must agree with, and what it leaves over.
    pub fn find(&self, key: u32) -> Option<u32> {
        let h = self.shape.mixed(key);
        if h == AMBIGUOUS && self.stash.holds_ambiguous() {
            return Some(u32::MAX);
        }
        let (partition, first) = (self.shape.partition(h), self.shape.first(h));
        for bucket in [first, self.shape.other(h, first)] {
            let bucket = &self.buckets[self.shape.place(partition, bucket) as usize];
            if let Some(&pair) = bucket.iter().find(|&&pair| pair as u32 == h && pair != EMPTY) {
                return Some((pair >> 32) as u32);
            }
            if bucket[3] == EMPTY {
                return None;
            }
        }
        self.stash.get(h)
    }
}

/// Looks up queries. `VALUES` and `FOUND` tell which outputs are wanted; the others may be empty.
pub struct Find<'a, const VALUES: bool, const FOUND: bool> {
    pub table: Tables<'a>,
    pub queries: &'a [u32],
    /// As many as queries: the value of each, or `missing`.
    pub values: &'a mut [u32],
    pub missing: u32,
    /// As many as queries: 1 or 0.
    pub found: &'a mut [u8],
}

impl<const VALUES: bool, const FOUND: bool> Find<'_, VALUES, FOUND> {
    #[inline(always)]
    fn put(&mut self, i: usize, value: Option<u32>) {
        if VALUES {
            self.values[i] = value.unwrap_or(self.missing);
        }
        if FOUND {
            self.found[i] = value.is_some() as u8;
        }
    }
}

impl<const VALUES: bool, const FOUND: bool> Work for Find<'_, VALUES, FOUND> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let Tables { shape, buckets, .. } = self.table;
        let (all, queries) = (buckets.len() as u32, self.queries);
        let (groups, rest) = queries.as_chunks::<GROUP>();
        let key_of_ambiguous = shape.unmixed(AMBIGUOUS);
        let mut asked_ambiguous = false;
        // Of each group whose buckets have been asked for.
        let (mut mixed, mut places) = ([[0; GROUP]; SLOTS], [[0; GROUP]; SLOTS]);
        let mut second = Ring::new();

        for step in 0..groups.len() + AHEAD + 1 {
            // The machine's own prefetching stops at the end of each page.
            simd.ask(queries.as_ptr().wrapping_add((step + STREAM_AHEAD) * GROUP));
            if VALUES {
                simd.ask(self.values.as_ptr().wrapping_add((step + STREAM_AHEAD) * GROUP));
            }
            if FOUND {
                simd.ask(self.found.as_ptr().wrapping_add((step + STREAM_AHEAD) * GROUP));
            }
            // New queries are mixed a step before their buckets are asked for.
            if let Some(keys) = groups.get(step) {
                let slot = step % SLOTS;
                for i in 0..GROUP {
                    let h = shape.mixed(keys[i]);
                    mixed[slot][i] = h;
                    places[slot][i] = mulhi(h, all);
                    asked_ambiguous |= keys[i] == key_of_ambiguous;
                }
            }
            if step >= 1 && step <= groups.len() {
                for &place in &places[(step - 1) % SLOTS] {
                    simd.ask(buckets.as_ptr().wrapping_add(place as usize));
                }
            }
            if step > AHEAD {
                let group = step - AHEAD - 1;
                let slot = group % SLOTS;
                self.first_choices(simd, group, &mixed[slot], &places[slot], &mut second);
            }
            if second.len() >= GROUP + SECOND_AHEAD {
                self.second_choices(simd, &mut second);
            }
        }
        while second.len() > 0 {
            self.second_choices(simd, &mut second);
        }
        for (i, &key) in rest.iter().enumerate() {
            self.put(groups.len() * GROUP + i, self.table.find(key));
        }
        // Empty slots look like this key.
        if asked_ambiguous {
            let value = self.table.find(key_of_ambiguous);
            for i in (0..queries.len()).filter(|&i| queries[i] == key_of_ambiguous) {
                self.put(i, value);
            }
        }
    }
}

impl<const VALUES: bool, const FOUND: bool> Find<'_, VALUES, FOUND> {
    /// Compares a group with its first buckets, and asks for the second ones of those that may be there.
    #[inline(always)]
    fn first_choices<S: Simd>(
        &mut self,
        simd: S,
        group: usize,
        mixed: &[u32; GROUP],
        places: &[u32; GROUP],
        second: &mut Ring,
    ) {
        let Tables { shape, buckets, .. } = self.table;
        let start = group * GROUP;
        let compared = simd.compare(buckets, places, mixed, self.missing);
        if VALUES {
            self.values[start..start + GROUP].copy_from_slice(&compared.values);
        }
        if FOUND {
            for (i, found) in self.found[start..start + GROUP].iter_mut().enumerate() {
                *found = (compared.found >> i & 1) as u8;
            }
        }
        let (mut numbers, mut others) = ([0; GROUP], [0; GROUP]);
        for i in 0..GROUP {
            let h = mixed[i];
            numbers[i] = (start + i) as u32;
            others[i] = shape.partition(h) * shape.buckets + shape.other(h, shape.first(h));
        }
        let again = compared.overflowed;
        let others = simd.compact(&others, again);
        second.push(simd.compact(&numbers, again), simd.compact(mixed, again), others, again.count_ones());
        // Those of a few, and one bucket that is there already: a loop whose length nothing predicts would cost more.
        for i in 0..4 {
            let wanted = i < again.count_ones();
            let place = select_unpredictable(wanted, others[i as usize], places[0]);
            simd.ask(buckets.as_ptr().wrapping_add(place as usize));
        }
        for i in 4..again.count_ones() {
            simd.ask(buckets.as_ptr().wrapping_add(others[i as usize] as usize));
        }
    }
    /// Compares the next queries of the ring with their second buckets, and with the stash.
    #[inline(always)]
    fn second_choices<S: Simd>(&mut self, simd: S, second: &mut Ring) {
        let (numbers, mixed, places, count) = second.pop();
        let compared = simd.compare(self.table.buckets, &places, &mixed, self.missing);
        for (i, &number) in numbers[..count].iter().enumerate() {
            if VALUES {
                self.values[number as usize] = compared.values[i];
            }
            if FOUND {
                self.found[number as usize] = (compared.found >> i & 1) as u8;
            }
        }
        if !self.table.stash.is_empty() {
            for i in (0..count).filter(|&i| compared.found >> i & 1 == 0) {
                self.put(numbers[i] as usize, self.table.stash.get(mixed[i]));
            }
        }
    }
}

/// Queries whose second buckets have been asked for, first in first out: number, mixed key, bucket.
struct Ring {
    numbers: [u32; RING],
    mixed: [u32; RING],
    places: [u32; RING],
    end: usize,
}
impl Ring {
    #[inline(always)]
    fn new() -> Ring {
        Ring { numbers: [0; RING], mixed: [0; RING], places: [0; RING], end: 0 }
    }
    #[inline(always)]
    fn len(&self) -> usize {
        self.end
    }
    /// Adds the first `count` of a group.
    #[inline(always)]
    fn push(&mut self, numbers: [u32; GROUP], mixed: [u32; GROUP], places: [u32; GROUP], count: u32) {
        self.numbers[self.end..][..GROUP].copy_from_slice(&numbers);
        self.mixed[self.end..][..GROUP].copy_from_slice(&mixed);
        self.places[self.end..][..GROUP].copy_from_slice(&places);
        self.end += count as usize;
    }
    /// Takes the oldest, at most a group; the others move up.
    #[inline(always)]
    fn pop(&mut self) -> ([u32; GROUP], [u32; GROUP], [u32; GROUP], usize) {
        let count = self.end.min(GROUP);
        let taken = (take(&mut self.numbers), take(&mut self.mixed), take(&mut self.places), count);
        self.end -= count;
        taken
    }
}
#[inline(always)]
fn take(words: &mut [u32; RING]) -> [u32; GROUP] {
    let taken = std::array::from_fn(|i| words[i]);
    for i in GROUP..RING {
        words[i - GROUP] = words[i];
    }
    taken
}

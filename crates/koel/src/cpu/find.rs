//! Lookups, many in flight.
//!
//! A group of queries is mixed and its buckets are asked for; some groups later they have come and are compared, without a
//! branch. The few queries that must look into their second bucket wait in a ring until that has come too.
use super::simd::{Bucket, Simd, Work};
use super::stash::Stash;
use koel_kernels::hash::mulhi;
use koel_kernels::map::layout::{AMBIGUOUS, EMPTY, Shape, class};

/// Queries of a group.
const GROUP: usize = 16;
/// Groups between asking for a bucket and reading it.
const AHEAD: usize = 8;
/// Waiting queries that the ring has room for: those of so many groups, and one.
const RING: usize = 256;
const _: () = assert!((AHEAD + 1) * GROUP <= RING && AHEAD.is_power_of_two());

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
        let Tables { shape, buckets, stash } = self.table;
        let all = buckets.len() as u32;
        let (groups, rest) = self.queries.as_chunks::<GROUP>();
        // Of the groups whose buckets have been asked for.
        let (mut mixed_keys, mut places) = ([[0u32; GROUP]; AHEAD], [[0u32; GROUP]; AHEAD]);
        // The queries that wait for their second bucket: number and mixed key, and the bucket.
        let (mut waiting, mut second) = ([(0u32, 0u32); RING], [0u32; RING]);
        let (mut begin, mut end) = (0usize, 0usize);
        // Where the ring ended after each of the last groups.
        let mut ends = [0usize; AHEAD];
        let key_of_ambiguous = shape.unmixed(AMBIGUOUS);
        let mut asked_ambiguous = false;

        for step in 0..groups.len() + 2 * AHEAD {
            let slot = step % AHEAD;
            // The buckets that were asked for twice as long ago: second choices.
            while begin != ends[slot] {
                let (i, h) = waiting[begin % RING];
                let bucket = &buckets[second[begin % RING] as usize];
                let same = simd.matches(bucket, h);
                let mut value = (same != 0).then(|| value_of(bucket, same));
                if same == 0 && !stash.is_empty() {
                    value = stash.get(h);
                }
                self.put(i as usize, value);
                begin += 1;
            }
            // First choices.
            if step >= AHEAD && step - AHEAD < groups.len() {
                let start = (step - AHEAD) * GROUP;
                let begin_of_new = end;
                for i in 0..GROUP {
                    let h = mixed_keys[slot][i];
                    let bucket = &buckets[places[slot][i] as usize];
                    let same = simd.matches(bucket, h);
                    if VALUES {
                        let value = value_of(bucket, same);
                        self.values[start + i] = if same != 0 { value } else { self.missing };
                    }
                    if FOUND {
                        self.found[start + i] = (same != 0) as u8;
                    }
                    waiting[end % RING] = ((start + i) as u32, h);
                    end += ((same == 0) & simd.overflowed(bucket, class(h))) as usize;
                }
                for i in begin_of_new..end {
                    let (_, h) = waiting[i % RING];
                    let partition = shape.partition(h);
                    let place = shape.place(partition, shape.other(h, shape.first(h))) as u32;
                    second[i % RING] = place;
                    simd.prefetch(&buckets[place as usize]);
                }
            }
            ends[slot] = end;
            // New queries.
            if let Some(keys) = groups.get(step) {
                for i in 0..GROUP {
                    let h = shape.mixed(keys[i]);
                    mixed_keys[slot][i] = h;
                    places[slot][i] = mulhi(h, all);
                }
                asked_ambiguous |= keys.contains(&key_of_ambiguous);
                for i in 0..GROUP {
                    simd.prefetch(&buckets[places[slot][i] as usize]);
                }
            }
        }
        for (i, &key) in rest.iter().enumerate() {
            self.put(groups.len() * GROUP + i, self.table.find(key));
        }
        // Empty slots look like this key.
        if asked_ambiguous {
            let value = self.table.find(key_of_ambiguous);
            for i in (0..self.queries.len()).filter(|&i| self.queries[i] == key_of_ambiguous) {
                self.put(i, value);
            }
        }
    }
}

/// The value beside the first match; anything if there is none.
#[inline(always)]
fn value_of(bucket: &Bucket, same: u32) -> u32 {
    (bucket[(same.trailing_zeros() / 2 % 4) as usize] >> 32) as u32
}

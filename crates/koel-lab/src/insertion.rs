//! The published ways to insert into a cuckoo table, one key after another, and what each took.
use crate::choices::Choices;
use crate::matching::Search;
use koel_kernels::hash::mix::splitmix_at;

/// How evicted keys go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Each key takes the function after the one it was evicted from (Alcantara et al. 2011).
    RoundRobin,
    /// A random one of its other functions (Frieze, Mitzenmacher and Melsted 2009).
    RandomWalk,
    /// The nearest free slot is searched first (Fotakis et al. 2005).
    Bfs,
}
impl Method {
    /// Every one.
    pub const ALL: [Method; 3] = [Method::RoundRobin, Method::RandomWalk, Method::Bfs];
    /// As in reports.
    pub fn name(self) -> &'static str {
        match self {
            Method::RoundRobin => "round-robin",
            Method::RandomWalk => "random-walk",
            Method::Bfs => "bfs",
        }
    }
}

/// No key.
pub const NOBODY: u32 = u32::MAX;

/// Slots, those of a bucket side by side; each holds the number of a key.
pub struct Table {
    bucket: u32,
    /// Who is in each slot, or [`NOBODY`].
    pub slots: Vec<u32>,
}
impl Table {
    /// Empty.
    pub fn new(buckets: u32, bucket: u32) -> Table {
        Table { bucket, slots: vec![NOBODY; buckets as usize * bucket as usize] }
    }
    /// Slots of a bucket.
    pub fn slots_of(&self, bucket: u32) -> std::ops::Range<u32> {
        bucket * self.bucket..(bucket + 1) * self.bucket
    }
    /// A slot of a bucket that nobody is in.
    pub fn free_slot(&self, bucket: u32) -> Option<u32> {
        self.slots_of(bucket).find(|&slot| self.slots[slot as usize] == NOBODY)
    }
    /// Panics unless the first `placed` keys are each in one of their buckets, once, and nobody
    /// else is.
    pub fn check(&self, choices: &Choices, placed: usize) {
        let mut seen = vec![false; placed];
        for (slot, &key) in self.slots.iter().enumerate().filter(|(_, key)| **key != NOBODY) {
            assert!((key as usize) < placed && !seen[key as usize], "key {key} in slot {slot}");
            assert!(
                choices.of(key).contains(&(slot as u32 / self.bucket)),
                "key {key} is in no bucket of its own"
            );
            seen[key as usize] = true;
        }
        assert!(seen.iter().all(|s| *s), "a key is lost");
    }
}

/// A method at work.
pub struct Insertion<'a> {
    choices: &'a Choices,
    method: Method,
    /// Exchanges before a key is given up; of a search, buckets that it looks at.
    limit: u32,
    random_start: bool,
    /// The table so far.
    pub table: Table,
    search: Search,
    /// Of each bucket: which of its slots is evicted from next.
    turn: Vec<u8>,
    seed: u64,
    steps: u32,
}
impl<'a> Insertion<'a> {
    /// Into an empty table of buckets of `bucket` slots.
    pub fn new(
        choices: &'a Choices,
        bucket: u32,
        method: Method,
        limit: u32,
        seed: u64,
    ) -> Insertion<'a> {
        let buckets = choices.buckets();
        Insertion {
            choices,
            method,
            limit,
            random_start: false,
            table: Table::new(buckets, bucket),
            search: Search::new(if method == Method::Bfs { buckets } else { 0 }),
            turn: vec![0; buckets as usize],
            seed,
            steps: 0,
        }
    }
    /// New keys begin with a random function.
    pub fn random_start(self) -> Insertion<'a> {
        Insertion { random_start: true, ..self }
    }
    /// Inserts the next key. How many keys took a slot: 1 if its first was free; `None` if it, or
    /// one that it evicted, was given up.
    pub fn insert(&mut self, key: u32) -> Option<u32> {
        if self.method == Method::Bfs {
            return self.search.place(self.choices, &mut self.table, key, self.limit as usize);
        }
        let d = self.choices.functions();
        let mut f = if self.random_start { self.random(d) } else { 0 };
        let mut key = key;
        for exchanges in 1..=self.limit {
            let bucket = self.choices.of(key)[f as usize];
            if let Some(free) = self.table.free_slot(bucket) {
                self.table.slots[free as usize] = key;
                return Some(exchanges);
            }
            let slots = self.table.bucket;
            let evicted = self.table.slots_of(bucket).start
                + match self.method {
                    Method::RoundRobin => {
                        let turn = &mut self.turn[bucket as usize];
                        *turn = if u32::from(*turn) + 1 < slots { *turn + 1 } else { 0 };
                        u32::from(*turn)
                    }
                    _ => self.random(slots),
                };
            key = std::mem::replace(&mut self.table.slots[evicted as usize], key);
            let by = self.choices.of(key).iter().position(|&b| b == bucket).unwrap_or(0) as u32;
            f = match self.method {
                Method::RandomWalk => (by + 1 + self.random(d - 1)) % d,
                _ => (by + 1) % d,
            };
        }
        None
    }
    /// Below `n`.
    fn random(&mut self, n: u32) -> u32 {
        self.steps = self.steps.wrapping_add(1);
        (((splitmix_at(self.seed, self.steps) >> 32) * u64::from(n)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        /// Nobody is lost, nobody is where they may not be, by any method, up to the first failure.
        #[test]
        fn keys_stay_in_their_buckets(
            functions in 2..6u32, bucket in 1..9u32, buckets in 8..200u32, method in 0..3usize, start: bool, seed: u64,
        ) {
            let choices = Choices::random((buckets * bucket) as usize, functions, buckets, seed);
            let mut insertion = Insertion::new(&choices, bucket, Method::ALL[method], 500, seed);
            if start {
                insertion = insertion.random_start();
            }
            for key in 0..choices.len() as u32 {
                if insertion.table.slots.iter().all(|&k| k != NOBODY) || insertion.insert(key).is_none() {
                    break;
                }
                insertion.table.check(&choices, key as usize + 1);
            }
        }
    }
}

//! The published insertion methods of cuckoo tables, run sequentially, with their costs.
use crate::choices::Choices;
use crate::matching::Search;
use crate::table::Table;
use koel_kernels::hash::mix::splitmix_at;

/// Choice of the next function for an evicted key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// The function after the one it was evicted from (Alcantara et al. 2011).
    RoundRobin,
    /// A random one of its other functions (Frieze, Mitzenmacher and Melsted 2009).
    RandomWalk,
    /// A breadth-first search for the nearest free slot (Fotakis et al. 2005).
    Bfs,
}
impl Method {
    /// All methods.
    pub const ALL: [Method; 3] = [Method::RoundRobin, Method::RandomWalk, Method::Bfs];
    /// Returns the name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Method::RoundRobin => "round-robin",
            Method::RandomWalk => "random-walk",
            Method::Bfs => "bfs",
        }
    }
}

/// State of an insertion method.
pub struct Insertion<'a> {
    choices: &'a Choices,
    method: Method,
    /// Maximum number of exchanges per insertion, or of buckets visited per search.
    limit: u32,
    random_start: bool,
    /// Table built so far.
    pub table: Table,
    search: Search,
    /// For each bucket, the slot to evict from next.
    turn: Vec<u8>,
    seed: u64,
    steps: u32,
}
impl<'a> Insertion<'a> {
    /// Starts with an empty table of buckets of `bucket` slots.
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
    /// Makes new keys start with a random function.
    pub fn random_start(self) -> Insertion<'a> {
        Insertion { random_start: true, ..self }
    }
    /// Inserts the next key. Returns the number of keys that took a slot, 1 if the first slot was
    /// free; `None` if the key, or one that it evicted, could not be placed within the limit.
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
    /// Returns a random number below `n`.
    fn random(&mut self, n: u32) -> u32 {
        self.steps = self.steps.wrapping_add(1);
        (((splitmix_at(self.seed, self.steps) >> 32) * u64::from(n)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::NOBODY;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        /// Up to the first failure, every method keeps every key, and keeps it in one of its
        /// buckets.
        #[test]
        fn keys_stay_in_their_buckets(
            functions in 2..6u32, bucket in 1..9u32, buckets in 8..200u32,
            method in 0..3usize, start: bool, seed: u64,
        ) {
            let choices = Choices::random((buckets * bucket) as usize, functions, buckets, seed);
            let mut insertion = Insertion::new(&choices, bucket, Method::ALL[method], 500, seed);
            if start {
                insertion = insertion.random_start();
            }
            for key in 0..choices.len() as u32 {
                if insertion.table.slots.iter().all(|&k| k != NOBODY)
                    || insertion.insert(key).is_none()
                {
                    break;
                }
                insertion.table.check(&choices, key as usize + 1);
            }
        }
    }
}

//! Rounds of the bucket builds of the 2009 paper: parallel cuckoo hashing by simultaneous claims.
//!
//! All keys without a slot write themselves into the next sub-table at once. The last write to a
//! slot wins; the keys that it overwrites try the sub-table after. One pass over the three
//! sub-tables is a round.
use crate::table::NOBODY;
use koel_kernels::hash::{Family, Functions, mix::splitmix_at};
use rayon::prelude::*;

/// Sub-tables per bucket.
pub const SUB_TABLES: u32 = 3;
/// Slots per sub-table.
pub const SUB_SLOTS: u32 = 192;
/// Keys per bucket on average.
pub const MEAN_KEYS: usize = 409;
/// Maximum number of keys per bucket; a build with more in one bucket restarts.
pub const MOST_KEYS: usize = 512;

/// Limits of the build of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Rounds after which a bucket takes another seed.
    pub rounds: u32,
    /// Seeds after which the bucket is given up.
    pub seeds: u32,
}
impl Limits {
    /// Another seed after 25 rounds, as published, and at most 16 seeds, as in koel.
    pub const PUBLISHED: Limits = Limits { rounds: 25, seeds: 16 };
    /// One seed, until a bucket that is still not built can be taken to go round in a cycle.
    pub const NO_RESEED: Limits = Limits { rounds: 10_000, seeds: 1 };
}

/// A bucket that was built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// Number of the key in each slot, or [`NOBODY`]. The slots of a sub-table are consecutive.
    pub slots: Vec<u32>,
    /// Rounds with the last seed, which built the bucket.
    pub rounds: u32,
    /// Seeds tried.
    pub seeds: u32,
}

/// Builds a bucket of distinct keys. Returns `None` if no seed builds it within the limits.
pub fn build(keys: &[u32], family: Family, limits: Limits, seed: u64) -> Option<Bucket> {
    (0..limits.seeds).find_map(|tried| {
        let functions = Functions::new(family, SUB_TABLES, SUB_SLOTS, splitmix_at(seed, tried));
        let (slots, rounds) = place(keys, functions, limits.rounds)?;
        Some(Bucket { slots, rounds, seeds: tried + 1 })
    })
}

/// Builds each bucket with seeds of its own, in order.
pub fn build_all(
    buckets: &[Vec<u32>],
    family: Family,
    limits: Limits,
    seed: u64,
) -> Vec<Option<Bucket>> {
    let one =
        |(b, keys): (usize, &Vec<u32>)| build(keys, family, limits, splitmix_at(seed, b as u32));
    buckets.par_iter().enumerate().map(one).collect()
}

/// Returns the slots and the number of rounds, if every key gets a slot within `limit` rounds.
fn place(keys: &[u32], functions: Functions, limit: u32) -> Option<(Vec<u32>, u32)> {
    let mut slots = vec![NOBODY; (SUB_TABLES * SUB_SLOTS) as usize];
    let mut homeless = (0..keys.len() as u32).collect::<Vec<u32>>();
    let mut overwritten = vec![];
    for round in 1..=limit {
        for j in 0..SUB_TABLES {
            let slot_of = functions.bind(j);
            for &key in &homeless {
                let slot = j * SUB_SLOTS + slot_of(keys[key as usize]);
                let previous = std::mem::replace(&mut slots[slot as usize], key);
                if previous != NOBODY {
                    overwritten.push(previous);
                }
            }
            // The key with the highest number writes last.
            overwritten.sort_unstable();
            homeless.clear();
            std::mem::swap(&mut homeless, &mut overwritten);
        }
        if homeless.is_empty() {
            return Some((slots, round));
        }
    }
    None
}

/// Spreads keys over buckets by the key modulo their number, the first attempt of the paper.
pub fn spread(keys: &[u32], buckets: usize) -> Vec<Vec<u32>> {
    let mut spread = vec![vec![]; buckets];
    keys.iter().for_each(|&key| spread[key as usize % buckets].push(key));
    spread
}

/// Statistics of the builds of many buckets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rounds {
    /// Buckets that were built.
    pub built: usize,
    /// Buckets that were built, but not with their first seed.
    pub reseeded: usize,
    /// Buckets that no seed built.
    pub failed: usize,
    /// Mean rounds of a built bucket with the seed that built it.
    pub mean: f64,
    /// Mean rounds of a built bucket with all its seeds.
    pub mean_of_all_seeds: f64,
    /// Most rounds that a built bucket took with the seed that built it.
    pub most: u32,
}
impl Rounds {
    /// Summarizes buckets that were built within these limits.
    pub fn of(buckets: &[Option<Bucket>], limits: Limits) -> Rounds {
        let built = buckets.iter().flatten().collect::<Vec<_>>();
        let mean = |rounds: fn(&Bucket, Limits) -> u32| {
            let sum = built.iter().map(|b| f64::from(rounds(b, limits))).sum::<f64>();
            sum / built.len().max(1) as f64
        };
        Rounds {
            built: built.len(),
            reseeded: built.iter().filter(|b| b.seeds > 1).count(),
            failed: buckets.len() - built.len(),
            mean: mean(|b, _| b.rounds),
            mean_of_all_seeds: mean(|b, limits| (b.seeds - 1) * limits.rounds + b.rounds),
            most: built.iter().map(|b| b.rounds).max().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The block's steps as the paper words them: all write, then all look whether they own a slot.
    fn literally(keys: &[u32], functions: Functions, limit: u32) -> Option<u32> {
        let mut owners = vec![NOBODY; (SUB_TABLES * SUB_SLOTS) as usize];
        let mut at = vec![None; keys.len()];
        for round in 1..=limit {
            for j in 0..SUB_TABLES {
                let slot = |id: usize| (j * SUB_SLOTS + functions.slot(j, keys[id])) as usize;
                for id in (0..keys.len()).filter(|&id| at[id].is_none()).collect::<Vec<_>>() {
                    owners[slot(id)] = id as u32;
                    at[id] = Some(slot(id));
                }
                for (id, at) in at.iter_mut().enumerate() {
                    *at = at.filter(|&slot| owners[slot] == id as u32);
                }
            }
            if at.iter().all(Option::is_some) {
                return Some(round);
            }
        }
        None
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        /// The rounds are those of the literal steps, and a built bucket holds every key once, in
        /// one of its three slots.
        #[test]
        fn every_key_owns_one_of_its_slots(n in 1..MOST_KEYS + 1, seed: u64) {
            let keys = (0..n as u32).map(|i| splitmix_at(seed, i) as u32).collect::<Vec<_>>();
            let functions = Functions::new(Family::Mixed, SUB_TABLES, SUB_SLOTS, seed);
            let placed = place(&keys, functions, 25);
            prop_assert_eq!(placed.as_ref().map(|p| p.1), literally(&keys, functions, 25));
            if let Some((slots, _)) = placed {
                let owned = (0..slots.len()).filter(|&slot| slots[slot] != NOBODY);
                let mut seen = vec![false; n];
                for slot in owned {
                    let (key, j) = (slots[slot] as usize, slot as u32 / SUB_SLOTS);
                    prop_assert_eq!(j * SUB_SLOTS + functions.slot(j, keys[key]), slot as u32);
                    prop_assert!(!std::mem::replace(&mut seen[key], true));
                }
                prop_assert!(seen.iter().all(|seen| *seen));
            }
        }
    }
}

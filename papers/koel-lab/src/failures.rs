//! Failure rates of builds.
use crate::choices::Choices;
use crate::insertion::{Insertion, Method};
use crate::keys::KeySet;
use koel_kernels::hash::{Family, Functions, mix::splitmix_at, mulhi};
use rayon::prelude::*;

/// Source of hash functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A hash family of the library.
    Family(Family),
    /// The high bits of `a k mod 2^32` for an odd `a`, which Dietzfelbinger and Schellbach (2009)
    /// warn against.
    Multiplicative,
}
impl Source {
    /// Returns every source except the key modulo the slots, which has no constants to redraw.
    pub fn all() -> impl Iterator<Item = Source> {
        let families =
            Family::ALL.iter().filter(|f| **f != Family::Modulo).map(|f| Source::Family(*f));
        families.chain([Source::Multiplicative])
    }
    /// Returns the description used in reports.
    pub fn describe(self) -> &'static str {
        match self {
            Source::Family(family) => family.describe(),
            Source::Multiplicative => "multiplicative, high bits",
        }
    }
    fn choices(self, keys: &[u32], functions: u32, slots: u32, seed: u64) -> Choices {
        match self {
            Source::Family(family) => {
                let drawn = Functions::new(family, functions, slots, seed);
                let bound = (0..functions).map(|f| drawn.bind(f)).collect::<Vec<_>>();
                Choices::of_keys(keys, functions, slots, |key, f| bound[f as usize](key))
            }
            Source::Multiplicative => Choices::of_keys(keys, functions, slots, |key, f| {
                mulhi(key.wrapping_mul(splitmix_at(seed, f) as u32 | 1), slots)
            }),
        }
    }
}

/// Parameters of a build.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// Number of keys.
    pub n: usize,
    /// Number of hash functions, 2 to 5.
    pub functions: u32,
    /// Load factor: keys per slot.
    pub load: f64,
    /// Maximum number of exchanges per insertion; beyond it, the build fails. 7 lg n in the 2011
    /// paper.
    pub limit: u32,
}
impl Build {
    /// Returns the parameters published in 2011: four functions, 1.25 slots per key, chains of at
    /// most 7 lg n exchanges.
    pub fn published(n: usize) -> Build {
        Build { n, functions: 4, load: 0.8, limit: (7.0 * (n.max(2) as f64).log2()) as u32 }
    }
    /// Runs `runs` builds, each with its own functions and keys, and returns the number of
    /// failures.
    pub fn failures(&self, source: Source, keys: &KeySet, runs: usize, seed: u64) -> usize {
        let slots = (self.n as f64 / self.load).ceil() as u32;
        let fails = |run: &usize| {
            let seed = splitmix_at(seed, *run as u32);
            let keys = keys.keys(self.n, seed);
            let choices = source.choices(&keys, self.functions, slots, seed);
            let mut insertion = Insertion::new(&choices, 1, Method::RoundRobin, self.limit, seed);
            (0..keys.len() as u32).any(|key| insertion.insert(key).is_none())
        };
        (0..runs).into_par_iter().filter(fails).count()
    }
}

/// Returns how many of `runs` random key sets overflow a bucket: the keys are spread over buckets
/// of 409 on average, and a bucket holds 512. These are the restarts of the 2009 paper.
pub fn overfull_buckets(n: usize, runs: usize, seed: u64) -> usize {
    let buckets = n.div_ceil(409);
    let fails = |run: &usize| {
        let seed = splitmix_at(seed, *run as u32);
        let mut counts = vec![0u32; buckets];
        (0..n as u32).any(|i| {
            let count =
                &mut counts[mulhi((splitmix_at(seed, i) >> 32) as u32, buckets as u32) as usize];
            *count += 1;
            *count > 512
        })
    };
    (0..runs).into_par_iter().filter(fails).count()
}

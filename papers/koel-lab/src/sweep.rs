//! Loads that insertion reaches, and the lengths of the chains on the way.
use crate::choices::Choices;
use crate::insertion::{Insertion, Method};
use crate::matching::place_all_it_can;
use crate::theory;
use rayon::prelude::*;

/// Shape of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Number of hash functions.
    pub functions: u32,
    /// Slots per bucket.
    pub bucket: u32,
}

/// Returns the largest load at which all keys were placed, for each run, in ascending order.
///
/// `method`: `None` for exact matching. `limit`: maximum number of exchanges per insertion (of
/// buckets visited per search).
pub fn largest_loads(
    shape: Shape,
    method: Option<Method>,
    slots: u32,
    limit: u32,
    runs: usize,
    seed: u64,
) -> Vec<f64> {
    let buckets = (slots / shape.bucket).max(1);
    let one = |run: usize| {
        let seed = seed.wrapping_mul(1_000_003).wrapping_add(run as u64);
        let slots = buckets as usize * shape.bucket as usize;
        let choices = Choices::random(slots, shape.functions, buckets, seed);
        let placed = match method {
            None => place_all_it_can(&choices, shape.bucket).0,
            Some(method) => {
                let mut insertion = Insertion::new(&choices, shape.bucket, method, limit, seed);
                (0..slots as u32).take_while(|&key| insertion.insert(key).is_some()).count()
            }
        };
        placed as f64 / slots as f64
    };
    let mut loads = (0..runs.max(1)).into_par_iter().map(one).collect::<Vec<f64>>();
    loads.sort_by(f64::total_cmp);
    loads
}

/// Statistics of exchanges per insertion (keys that took a slot).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chains {
    /// Load factor at the end: keys per slot.
    pub load: f64,
    /// Median over insertions.
    pub median: u32,
    /// 99.9th percentile over insertions.
    pub most_of_999: u32,
    /// Maximum over insertions.
    pub max: u32,
    /// Mean per inserted key.
    pub mean: f64,
    /// The 2011 paper's estimate of the mean.
    pub estimate: f64,
    /// Keys that could not be placed.
    pub failed: usize,
}

/// Fills tables with one slot per bucket to each load and counts exchanges. `loads` must ascend.
/// Keys are inserted once; the statistics at a load cover all keys inserted up to it.
pub fn chains(
    functions: u32,
    method: Method,
    random_start: bool,
    slots: u32,
    loads: &[f64],
    limit: u32,
    seed: u64,
) -> Vec<Chains> {
    let most = loads.last().map_or(0, |load| (load * f64::from(slots)) as usize);
    let choices = Choices::random(most, functions, slots, seed);
    let mut insertion = Insertion::new(&choices, 1, method, limit, seed);
    if random_start {
        insertion = insertion.random_start();
    }
    let (mut counts, mut total, mut failed, mut key) =
        (vec![0usize; limit as usize + 1], 0u64, 0, 0u32);
    let at_load = |&load: &f64| {
        while f64::from(key) < (load * f64::from(slots)).floor() {
            match insertion.insert(key) {
                Some(exchanges) => {
                    counts[exchanges as usize] += 1;
                    total += u64::from(exchanges);
                }
                None => failed += 1,
            }
            key += 1;
        }
        let inserted = counts.iter().sum::<usize>();
        let quantile = |part: f64| {
            let rank = (part * inserted as f64).ceil().max(1.0) as usize;
            let mut below = 0;
            counts.iter().position(|count| {
                below += count;
                below >= rank
            })
        };
        let keys = f64::from(key);
        Chains {
            load,
            median: quantile(0.5).unwrap_or(0) as u32,
            most_of_999: quantile(0.999).unwrap_or(0) as u32,
            max: counts.iter().rposition(|count| *count > 0).unwrap_or(0) as u32,
            mean: total as f64 / inserted.max(1) as f64,
            estimate: theory::exchanges(keys, f64::from(slots)) / keys.max(1.0),
            failed,
        }
    };
    loads.iter().map(at_load).collect()
}

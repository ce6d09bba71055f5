//! Loads that are reached, and chains on the way there.
use crate::choices::Choices;
use crate::insertion::{Insertion, Method};
use crate::matching::place_all_it_can;
use crate::theory;
use rayon::prelude::*;

/// A table's shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Hash functions.
    pub functions: u32,
    /// Slots of a bucket.
    pub bucket: u32,
}

/// Largest loads at which all keys were placed, of the runs: ascending.
///
/// `method`: `None` for exact matching. `limit`: exchanges (of a search: buckets looked at) before
/// a key is given up.
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

/// Exchanges that insertions took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chains {
    /// Keys per slot at the end.
    pub load: f64,
    /// Of one insertion.
    pub median: u32,
    /// All but one in a thousand took at most so many.
    pub most_of_999: u32,
    /// The longest.
    pub max: u32,
    /// All of them, per key.
    pub mean: f64,
    /// The 2011 paper's estimate of that.
    pub estimate: f64,
    /// Keys that were given up.
    pub failed: usize,
}

/// Fills tables with one slot a bucket to each load and counts. `loads` must ascend; keys are
/// inserted once, and the figures of a load are those of all keys up to there.
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

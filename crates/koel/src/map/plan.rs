//! How a table of n pairs is laid out and built: chosen in one place, from the number of pairs and the load alone, so that
//! a table has the same shape on every device.
use crate::error::{Error, Result, count32};
use koel_kernels::map::build::{MOST, shared_bytes};
use koel_kernels::map::header;
use koel_kernels::map::layout::Shape;
use koel_kernels::map::partition::{Bins, NARROW, OVERFLOW, SMALL, Tile, WIDE};

/// What plans are made of.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Pairs of a partition on average.
    pub pairs: u32,
    /// Partitions that one pass can make.
    pub one_pass: u32,
}
impl Sizes {
    /// One block's work, of which four fit a multiprocessor of compute capability 9.0; as many partitions as the widest tile has
    /// bins on every device.
    pub const TUNED: Sizes = Sizes { pairs: 3600, one_pass: 1024 };
}
/// Shared memory of the block that builds a partition, at most: what compute capability 7.5 has.
const SHARED: u32 = 64 << 10;

/// Everything that follows from the number of pairs, the load and the seed.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub n: u32,
    pub shape: Shape,
    /// Pairs that may miss their first bucket, in the lists of the build.
    pub list: u32,
    /// The stash has 2^this slots.
    pub stash_bits: u32,
    /// The bins of the last pass: partitions.
    pub partitions: Bins,
    /// The bins of the first of two passes; `None`: one pass is enough.
    pub groups: Option<Bins>,
}

impl Plan {
    pub fn new(n: usize, load: f64, seed: u32) -> Result<Plan> {
        Plan::sized(n, load, seed, Sizes::TUNED)
    }
    /// With other sizes than the best: small ones, so that tests take every way.
    pub fn sized(n: usize, load: f64, seed: u32, sizes: Sizes) -> Result<Plan> {
        let n = count32("pairs", n)?;
        let lists = |pairs: f64| ((pairs * missed(4.0 * load) * 1.2) as u32 + 96) & !1;
        let buckets = |pairs: f64| (pairs / (4.0 * load)).ceil().max(1.0) as u32;
        // Low loads need many buckets for few pairs.
        let mut pairs = sizes.pairs;
        while shared_bytes(buckets(pairs as f64), lists(pairs as f64)) > SHARED {
            pairs -= 100;
        }
        let wanted = n.div_ceil(pairs).max(1);
        let (groups, each) = if wanted <= sizes.one_pass {
            (1, wanted)
        } else {
            let groups = (wanted as f64).sqrt().ceil() as u32;
            let groups = groups.max(wanted.div_ceil(NARROW.bins));
            (groups, wanted.div_ceil(groups))
        };
        if groups > 1024 {
            return Err(Error::TooMany { what: "pairs", n: n as usize, max: (pairs * NARROW.bins) as usize * 1024 });
        }
        let partitions = groups * each;
        let mean = n as f64 / partitions as f64;
        let shape = Shape { partitions, buckets: buckets(mean), seed };
        let bins = |count: u32, all: u32, deviations: f64, word| {
            let mean = n as f64 / all as f64;
            let room = (mean + deviations * mean.sqrt()) as u32 / 2 * 2 + 64;
            Bins { count, room, overflow: all * room, overflow_word: word }
        };
        let mut last = bins(each, partitions, 6.0, header::OVERFLOW_SECOND);
        last.room = last.room.min(MOST);
        last.overflow = partitions * last.room;
        // Kernels count places in 32 bits, and keep some of the highest for "nowhere".
        count32("places", partitions as usize * last.room as usize + 2 * OVERFLOW as usize)?;
        let groups = (groups > 1).then(|| bins(groups, groups, 8.0, header::OVERFLOW_FIRST));
        let stash_bits = (n.max(1).ilog2().saturating_sub(4)).clamp(8, 16);
        Ok(Plan { n, shape, list: lists(mean), stash_bits, partitions: last, groups })
    }
    /// Whether scratch memory for this plan does for another one.
    pub fn has_the_memory_of(&self, other: &Plan) -> bool {
        let sizes = |p: &Plan| (p.shape.partitions, p.partitions, p.groups);
        sizes(self) == sizes(other)
    }
    /// Slots of the table.
    pub fn slots(&self) -> usize {
        self.shape.all_buckets() as usize * 4
    }
    /// The tile of the pass over the input, on a device whose blocks may use this much shared memory.
    pub fn first_tile(&self, max_shared: u32) -> Tile {
        match self.groups.unwrap_or(self.partitions).count {
            0..=256 => NARROW,
            _ if max_shared < 150 << 10 => SMALL,
            _ => WIDE,
        }
    }
}

/// The share of the keys that find their first bucket full, where buckets of four get `mean` keys on average: the excess of
/// a Poisson distribution over four.
fn missed(mean: f64) -> f64 {
    let mut probability = (-mean).exp();
    let mut kept = 0.0;
    for i in 0..4 {
        kept += probability * (4 - i) as f64;
        probability *= mean / (i + 1) as f64;
    }
    // E[min(X, 4)] = 4 - E[(4 - X)+].
    1.0 - (4.0 - kept) / mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_what_the_measurements_say() {
        // 1.13 sectors a hit at load 0.8, 1.21 at 0.9 (measured).
        assert!((missed(3.2) - 0.13).abs() < 0.02, "{}", missed(3.2));
        assert!((missed(3.6) - 0.17).abs() < 0.02, "{}", missed(3.6));
    }
    #[test]
    fn every_plan_fits() {
        for load in [0.3, 0.5, 0.7, 0.8, 0.9, 0.95] {
            for n in [0, 1, 2, 3, 100, 3600, 3601, 100_000, 1 << 20, 3_686_400, 3_686_401, 1 << 24, 1 << 27, 1 << 28] {
                let plan = Plan::new(n, load, 0).unwrap();
                let (shape, last) = (plan.shape, plan.partitions);
                assert!(shared_bytes(shape.buckets, plan.list) <= SHARED, "{plan:?}");
                assert!(plan.slots() as f64 >= n as f64 / load && last.room <= MOST);
                assert!(last.room as f64 >= n as f64 / shape.partitions as f64, "{plan:?}");
                assert!(
                    plan.slots() as f64
                        <= (n as f64 + 4.0 * shape.partitions as f64) / load + 4.0 * shape.partitions as f64
                );
                match plan.groups {
                    None => assert!(last.count == shape.partitions && last.count <= 1024),
                    Some(groups) => {
                        assert_eq!(groups.count * last.count, shape.partitions);
                        assert!(groups.count <= 1024 && last.count <= 256);
                    }
                }
            }
        }
    }
}

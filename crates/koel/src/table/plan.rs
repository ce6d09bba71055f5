//! Plans: the shape of a table and the steps of its build. The number of pairs and the load alone
//! determine them, so that a table has the same shape on every device.
use crate::duplicates::Duplicates;
use crate::error::{Error, Result, count32};
use koel_kernels::map::build::{MAX_PAIRS, shared_bytes};
use koel_kernels::map::partition::{MEDIUM, NARROW, SMALL, Tile, WIDE};
use koel_kernels::map::small::MAX_TILE;
use koel_kernels::table::bins::Source;
use koel_kernels::table::bins::{Bins, MAX_OVERFLOW};
use koel_kernels::table::layout::{BUCKET, Layout, Narrow, Shape};
use koel_kernels::table::{stash, state};

/// Parameters of plans.
#[derive(Clone, Copy)]
pub(crate) struct PlanTuning {
    /// Slots per bucket.
    pub bucket: u32,
    /// Maximum number of pairs per partition, not counting overflow.
    pub most: u32,
    /// Function that returns the bytes of shared memory for a partition, given its buckets and the
    /// capacity of its lists in pairs.
    pub shared: fn(u32, u32) -> u32,
    /// Average number of pairs per partition.
    pub pairs: u32,
    /// Average number of pairs per partition of an input of up to `medium` pairs, so that all
    /// multiprocessors have work until the end.
    pub medium_pairs: u32,
    /// Maximum number of pairs in a medium input.
    pub medium: u32,
    /// Number of copies of every key that bins have room for: copies make the number of pairs in a
    /// partition vary more.
    pub copies: f64,
    /// Bin headroom, in standard deviations of the number of pairs in a partition.
    pub deviations: f64,
    /// Maximum number of partitions of a single pass.
    pub one_pass: u32,
    /// Minimum number of bins of the first of two passes; a power of two.
    pub coarse: u32,
    /// Pairs that the second of two passes is ahead of the build, if one launch does both; 0 if
    /// none does.
    pub lead: u32,
    /// Maximum number of pairs in a small input.
    pub small: u32,
    /// Number of partitions of a small input, unless they would have too few pairs.
    pub small_partitions: u32,
}
impl PlanTuning {
    /// Tuned sizes. Four blocks that build a partition fit a multiprocessor of compute capability
    /// 9.0. A single pass makes as many partitions as the widest tile has bins, on every device.
    pub(crate) const TUNED: PlanTuning = PlanTuning {
        bucket: BUCKET as u32,
        most: MAX_PAIRS,
        shared: shared_bytes,
        pairs: 3600,
        // 2^20 pairs give three partitions to each of 132 multiprocessors.
        medium_pairs: 2650,
        medium: 1 << 20,
        copies: 1.0,
        // About one in ten builds of 2^27 pairs has pairs that do not fit a partition's bin. More
        // headroom would need more scratch memory.
        deviations: 4.5,
        one_pass: 1280,
        coarse: 256,
        // 16 MB of 32-bit pairs: a third of the L2 cache of a big GPU. Measured.
        lead: 1 << 21,
        small: SMALL_INPUT,
        small_partitions: 512,
    };

    /// Returns the number of buckets for `pairs` pairs.
    fn buckets(self, pairs: f64, load: f64) -> u32 {
        (pairs / (self.bucket as f64 * load)).ceil().max(1.0) as u32
    }
    /// Returns the capacity of the list of those among `pairs` pairs that miss their first bucket.
    fn list(self, pairs: f64, load: f64) -> u32 {
        ((pairs * missed(self.bucket, self.bucket as f64 * load) * 1.2) as u32 + 96) & !1
    }
    /// Returns whether a partition of `pairs` pairs fits shared memory.
    fn fit(self, pairs: f64, load: f64) -> bool {
        (self.shared)(self.buckets(pairs, load), self.list(pairs, load)) <= SHARED
    }
    /// Returns the average number of pairs per partition for `n` pairs in total. For a small input
    /// it is low enough that all multiprocessors of a big GPU have work, and high enough that
    /// hardly any partition gets more pairs than it has slots: the relative standard deviation of
    /// its load is one over the square root of its pairs.
    fn pairs_of(self, n: u32, load: f64) -> u32 {
        let margin = MAX_LOCAL_LOAD / load - 1.0;
        let least = ((4.0 / margin).powi(2) as u32).max(MIN_PAIRS);
        if n <= self.small {
            (n / self.small_partitions).max(least).min(self.pairs)
        } else if n <= self.medium {
            self.medium_pairs.max(least).min(self.pairs)
        } else {
            self.pairs
        }
    }
}
const _: () = assert!(
    PlanTuning::TUNED.one_pass <= SMALL.bins
        && SMALL.bins == MEDIUM.bins
        && SMALL.bins == WIDE.bins,
    "a block of a single pass counts the pairs of each partition in shared memory"
);
/// Maximum number of pairs in a small input; measured.
const SMALL_INPUT: u32 = 1 << 17;
/// Minimum number of pairs per partition of a small input.
const MIN_PAIRS: u32 = 500;
/// Maximum load of a partition. Two choices of four slots reach 0.9768.
const MAX_LOCAL_LOAD: f64 = 0.97;
/// Maximum average number of keys per partition, if keys are ordered by partition.
const MAX_ORDERED: f64 = 4000.0;
/// Minimum number of pairs per block of the pass over a small input, and maximum number of its
/// blocks.
const MIN_TILE: u32 = 256;
const SMALL_BLOCKS: u32 = 512;
/// Maximum bytes of shared memory of a block that builds a partition: those of compute capability
/// 7.5.
const SHARED: u32 = 64 << 10;
/// Minimum number of pairs per overflow area.
const MIN_OVERFLOW: u32 = 1 << 16;
/// Maximum number of copies of every key that bins have room for, beyond 2^30 pairs.
const MANY_COPIES: f64 = 6.0;
/// Maximum number of bins of the first of two passes.
const MAX_COARSE: u32 = 1024;

/// Everything that the number of pairs and the load determine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub n: u32,
    pub shape: Shape,
    /// Capacity of a build's lists of pairs that miss their first bucket.
    pub list: u32,
    /// log2 of the number of slots in the stash.
    pub stash_bits: u32,
    /// log2 of the number of slots in the table of contested keys.
    pub contested_bits: u32,
    /// Bins of the last pass: partitions.
    pub partitions: Bins,
    /// Bins of the first of two passes; `None` if one pass suffices.
    pub coarse: Option<Bins>,
    /// Pairs that the second of two passes is ahead of the build, if one launch does both; 0 if
    /// none does.
    pub lead: u32,
    /// Pairs per block of the pass, if the input is small and built from records.
    pub small_tile: Option<u32>,
}

impl Plan {
    pub(crate) fn new(n: usize, load: f64) -> Result<Plan> {
        Plan::sized(n, load, PlanTuning::TUNED)
    }
    /// Returns the plan of an existing table of this shape, for lookups: nothing is built with it.
    pub(crate) fn of_table(n: usize, shape: Shape) -> Result<Plan> {
        // Planning for 0 pairs cannot fail, whatever `n` is.
        Ok(Plan { n: count32("pairs", n)?, shape, ..Plan::new(0, 0.8)? })
    }
    /// Plans with sizes other than the tuned ones: tests use small ones to take every path.
    pub(crate) fn sized(n: usize, load: f64, sizes: PlanTuning) -> Result<Plan> {
        // Low loads need many buckets for few pairs.
        let mut pairs = sizes.pairs_of(u32::try_from(n).unwrap_or(u32::MAX), load);
        while !sizes.fit(pairs as f64, load) {
            pairs -= 100;
        }
        let max = pairs as usize * NARROW.bins as usize * MAX_COARSE as usize;
        if n > max {
            return Err(Error::TooMany { what: "pairs", n, max });
        }
        let n = count32("pairs", n)?;
        let wanted = n.div_ceil(pairs).max(1);
        let small_tile =
            (n <= sizes.small).then(|| n.div_ceil(SMALL_BLOCKS).clamp(MIN_TILE, MAX_TILE));
        let (coarse, partitions) = if small_tile.is_some() || wanted <= sizes.one_pass {
            (1, wanted)
        } else {
            let coarse = sizes.coarse.max(wanted.div_ceil(NARROW.bins).next_power_of_two());
            (coarse, coarse * wanted.div_ceil(coarse))
        };
        let mean = n as f64 / partitions as f64;
        let shape = Shape { partitions, buckets: sizes.buckets(mean, load) };
        let (last, coarse) = divide(n, partitions, coarse, sizes)?;
        // Near the maximum load of two choices, some partitions have more pairs than fit. At lower
        // loads, hardly any pair is stashed.
        let lg = n.max(1).ilog2();
        let stash_bits = lg.saturating_sub(4).clamp(8, 16).max(if load > 0.9 {
            lg.saturating_sub(8).min(stash::MAX_BITS)
        } else {
            0
        });
        // Contested are only copies in one tile or in an overflow area, unless there are too few
        // partitions for stamps.
        let stamps = coarse.map_or(partitions, |coarse| coarse.count);
        let contested =
            if small_tile.is_some() { 0 } else { n / stamps.saturating_sub(2).clamp(1, 256) };
        let contested_bits = (contested as u64).next_power_of_two().ilog2().max(8);
        Ok(Plan {
            n,
            shape,
            list: sizes.list(mean, load),
            stash_bits,
            contested_bits,
            partitions: last,
            coarse,
            lead: sizes.lead,
            small_tile,
        })
    }
    /// Plans for `n` keys that are in the order of `ordered` partitions, of which each partition of
    /// the table covers as many as possible. Returns `None` if the table's partitions would have
    /// too many keys, or fewer than `least` on average.
    pub(crate) fn of_ordered(
        n: usize,
        load: f64,
        ordered: u32,
        least: u32,
    ) -> Result<Option<Plan>> {
        let (sizes, whole) = (PlanTuning::TUNED, Plan::new(n, load)?);
        let mean = |partitions: u32| n as f64 / partitions as f64;
        let fits = |&partitions: &u32| {
            mean(partitions) <= MAX_ORDERED && sizes.fit(mean(partitions), load)
        };
        let divided =
            (0..32).rev().map(|bits| 1 << bits).filter(|&each: &u32| ordered.is_multiple_of(each));
        let Some(partitions) = divided.map(|each| ordered / each).find(fits) else {
            return Ok(None);
        };
        if mean(partitions) < least as f64 {
            return Ok(None);
        }
        let shape = Shape { partitions, buckets: sizes.buckets(mean(partitions), load) };
        let (last, _) = divide(whole.n, partitions, 1, sizes)?;
        let list = sizes.list(mean(partitions), load);
        Ok(Some(Plan { shape, list, partitions: last, coarse: None, small_tile: None, ..whole }))
    }
    /// Plans for another array of `n` keys, with the same partitions.
    pub(crate) fn with_the_same_partitions(&self, n: usize, sizes: PlanTuning) -> Result<Plan> {
        let n = count32("keys", n)?;
        let (partitions, coarse) =
            divide(n, self.shape.partitions, self.coarse.map_or(1, |g| g.count), sizes)?;
        Ok(Plan { n, partitions, coarse, ..*self })
    }
    /// Returns the maximum number of pairs that a build stashes before it takes another seed: half
    /// the slots of the stash.
    pub(crate) fn most_stashed(&self) -> usize {
        (1 << self.stash_bits) / 2
    }
    /// Returns the number of places in the bins of the first of two passes.
    pub(crate) fn coarse_places(&self) -> usize {
        self.coarse.map_or(0, |g| g.count as usize * g.room as usize)
    }
    /// Returns the number of places in the bins of the last pass.
    pub(crate) fn partition_places(&self) -> usize {
        self.shape.partitions as usize * self.partitions.room as usize
    }
    /// Returns the number of bins of both passes.
    pub(crate) fn bins(&self) -> u32 {
        self.coarse.map_or(0, |g| g.count) + self.shape.partitions
    }
    /// Returns the tile of the pass over the input, on a device with `max_shared` bytes of shared
    /// memory per block.
    pub(crate) fn first_tile(&self, max_shared: u32) -> Tile {
        match self.coarse.map_or(self.shape.partitions, |g| g.count) {
            0..=256 => NARROW,
            _ if max_shared < MEDIUM.shared() => SMALL,
            // Fewer wide tiles would leave many multiprocessors idle.
            _ if max_shared < WIDE.shared() || self.n < 100 * WIDE.pairs::<Narrow>() => MEDIUM,
            _ => WIDE,
        }
    }
    /// Returns the bins of the pass over the input.
    pub(crate) fn first_bins(&self) -> Bins {
        self.coarse.unwrap_or(self.partitions)
    }
    /// Returns the parameters of blocks that build partitions.
    pub(crate) fn source(&self) -> Source {
        Source {
            room: self.partitions.room,
            stash_bits: self.stash_bits,
            contested_bits: self.contested_bits,
            list: self.list,
            area: self.partitions.area,
            each: self.shape.partitions / self.coarse.map_or(1, |g| g.count),
            coarse: self.coarse.map_or(0, |g| g.count),
            flags: 0,
        }
    }
    /// Returns the number of words in the buckets of a table.
    pub(crate) fn words<L: Layout>(&self) -> usize {
        self.shape.all_buckets() as usize * L::WORDS
    }
}

/// Returns the bins of the last pass, and those of the first one if there are two.
fn divide(n: u32, partitions: u32, coarse: u32, sizes: PlanTuning) -> Result<(Bins, Option<Bins>)> {
    let area = (n / 128).next_multiple_of(2).clamp(MIN_OVERFLOW, MAX_OVERFLOW);
    // Room for many copies would need more places than kernels can count.
    let copies = if n <= 1 << 30 { sizes.copies } else { sizes.copies.min(MANY_COPIES) };
    let bins = |count: u32, all: u32, deviations: f64, most: u32, overflow, overflow_word| {
        let mean = n as f64 / all as f64;
        let room = (mean + deviations * (mean * copies).sqrt()) as u32 / 2 * 2 + 8;
        Bins { count, room: room.min(most), crowd: !0, area, overflow, overflow_word, flags: 0 }
    };
    let last = bins(
        partitions / coarse,
        partitions,
        sizes.deviations,
        sizes.most,
        area,
        state::OVERFLOW_SECOND,
    );
    let coarse =
        (coarse > 1).then(|| bins(coarse, coarse, 6.0, u32::MAX, 0, state::OVERFLOW_FIRST));
    // Kernels count places in 31 bits.
    let coarse_places = coarse.map_or(0, |g: Bins| g.room as usize * g.count as usize);
    let places = coarse_places.max(last.room as usize * partitions as usize);
    if places >= 1 << 31 {
        return Err(Error::TooMany { what: "places of pairs", n: places, max: (1 << 31) - 1 });
    }
    Ok((last, coarse))
}

/// Returns bins for a pass with tiles of `tile` pairs: sets the limit from which a bin counts as
/// crowded, and its copies are dropped.
pub(crate) fn with_crowd(bins: Bins, duplicates: Duplicates, tile: u32) -> Bins {
    let mean = tile as f64 / bins.count as f64;
    let limit = (mean + 5.0 * mean.sqrt()) as u32 + 4;
    Bins { crowd: if duplicates == Duplicates::Unchecked { !0 } else { limit }, ..bins }
}

/// Returns the share of keys that find their first bucket full, if buckets of `slots` slots get
/// `mean` keys on average: the excess of a Poisson distribution over the slots.
fn missed(slots: u32, mean: f64) -> f64 {
    let mut probability = (-mean).exp();
    let mut free = 0.0;
    for i in 0..slots {
        free += probability * (slots - i) as f64;
        probability *= mean / (i + 1) as f64;
    }
    // E[min(X, slots)] = slots - E[(slots - X)+].
    1.0 - (slots as f64 - free) / mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_what_the_measurements_say() {
        // 1.13 sectors per hit at load 0.8, 1.21 at 0.9 (measured).
        assert!((missed(4, 3.2) - 0.13).abs() < 0.02, "{}", missed(4, 3.2));
        assert!((missed(4, 3.6) - 0.17).abs() < 0.02, "{}", missed(4, 3.6));
        // For buckets of eight, the sum over the counts beyond eight.
        assert!((missed(8, 6.4) - 0.0668).abs() < 0.0001, "{}", missed(8, 6.4));
    }
    #[test]
    fn every_plan_fits() {
        for load in [0.3, 0.5, 0.7, 0.8, 0.9, 0.95] {
            for n in [
                0,
                1,
                2,
                3,
                100,
                3600,
                3601,
                100_000,
                1 << 20,
                3_686_400,
                3_686_401,
                1 << 24,
                1 << 27,
                1 << 29,
            ] {
                let plan = Plan::new(n, load).unwrap();
                let (shape, last) = (plan.shape, plan.partitions);
                let slots = shape.all_buckets() as usize * BUCKET;
                assert!(shared_bytes(shape.buckets, plan.list) <= SHARED, "{plan:?}");
                assert!(slots as f64 >= n as f64 / load && last.room <= MAX_PAIRS);
                assert!(last.room as f64 >= n as f64 / shape.partitions as f64, "{plan:?}");
                assert!(
                    slots as f64
                        <= (n as f64 + 4.0 * shape.partitions as f64) / load
                            + 4.0 * shape.partitions as f64
                );
                match plan.coarse {
                    None => assert!(last.count == shape.partitions && last.count <= 1280),
                    Some(coarse) => {
                        assert_eq!(coarse.count * last.count, shape.partitions);
                        assert!(coarse.count.is_power_of_two());
                        assert!(coarse.count <= 1024 && last.count <= 256);
                    }
                }
                let scratch = plan.partition_places() * 8
                    + plan.bins() as usize * 8
                    + (12 << plan.contested_bits);
                assert!(
                    n < 1 << 22 || load < 0.5 || scratch as f64 <= 1.1 * 8.0 * n as f64,
                    "{}",
                    scratch as f64 / 8.0 / n as f64
                );
                assert!(n < 1 << 22 || plan.coarse_places() <= slots, "{plan:?}");
            }
        }
    }
}

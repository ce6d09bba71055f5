//! Division of the input of a build: tiles, stretches of tiles, and the stamps of their pairs.
use crate::duplicates::Duplicates;
use crate::table::plan::Plan;
use koel_kernels::map::partition::{NARROW, Tile};
use koel_kernels::map::stamps::{CoarseStamps, Stamps};
use koel_kernels::table::bins::{Bins, Source};
use koel_kernels::table::layout::Layout;
use koel_kernels::table::state::MAX_STRETCHES;

/// How a build divides its input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Division {
    pub tile: Tile,
    /// Number of tiles of the pass over the input.
    pub tiles: u32,
    /// Regions of each bin of the first of two passes: one for each stretch of the input.
    pub regions: u32,
    /// Pairs per region.
    room: u32,
    pub stamps: Stamps,
}
impl Division {
    /// Divides the input of a build on a device with `max_shared` bytes of shared memory per block.
    ///
    /// Builds of two passes that choose among copies have several stretches. Each is as long as the
    /// bits that a bin implies can tell its tiles apart, and as the pairs that it sends to a bin
    /// fit a region, with few exceptions.
    pub(crate) fn new<L: Layout>(plan: &Plan, duplicates: Duplicates, max_shared: u32) -> Division {
        let tile = plan.first_tile(max_shared);
        let tiles = plan.n.div_ceil(tile.pairs::<L>()).max(1);
        let bins = plan.coarse.map_or(1, |coarse| coarse.count);
        let coarse_room = plan.coarse.map_or(0, |coarse| coarse.room);
        let whole = Division { tile, tiles, regions: 1, room: coarse_room, stamps: Stamps::NONE };
        let used = plan.coarse.is_some() as u32;
        if duplicates == Duplicates::Unchecked {
            let coarse = CoarseStamps { used, ..Stamps::NONE.coarse };
            return Division { stamps: Stamps { coarse, ..Stamps::NONE }, ..whole };
        }
        let bits = if bins >= 4 { bins.ilog2() } else { 0 };
        let distinguished = if bits > 0 { bins - 2 } else { 1 };
        let per_stretch = match plan.coarse {
            Some(_) => tiles_per_region::<L>(tile, bins).min(tiles).min(distinguished),
            None => tiles,
        };
        let regions = tiles.div_ceil(per_stretch);
        let coarse = CoarseStamps {
            used,
            mask: if bits > 0 { !(u32::MAX >> bits) } else { 0 },
            shift: (32 - bits) & 31,
            per_stretch,
            count: per_stretch * regions,
            stretches: regions,
        };
        let keep_first = (duplicates == Duplicates::KeepFirst) as u32;
        let stamps = Stamps { coarse, keep_first, ..stamps(plan.shape.partitions, coarse.count) };
        let room = if regions > 1 { NARROW.pairs::<L>().min(coarse_room) } else { coarse_room };
        Division { regions, room, stamps, ..whole }
    }
    /// Returns the divisions that builds of this plan can have: on a device with little shared
    /// memory or much, with and without a choice among copies.
    fn all<L: Layout>(plan: &Plan) -> impl Iterator<Item = Division> {
        let choices = [Duplicates::Unchecked, Duplicates::KeepLast];
        [0, u32::MAX]
            .into_iter()
            .flat_map(move |max| choices.map(|choice| Division::new::<L>(plan, choice, max)))
    }
    /// Returns the maximum number of places in the bins of the first of two passes.
    pub(crate) fn max_coarse_places<L: Layout>(plan: &Plan) -> usize {
        Division::all::<L>(plan).map(|d| d.coarse_places(plan)).max().unwrap_or(0)
    }
    /// Returns the maximum number of words for the bins of both passes.
    pub(crate) fn max_words<L: Layout>(plan: &Plan) -> usize {
        Division::all::<L>(plan).map(|d| d.words(plan)).max().unwrap_or(0) as usize
    }
    /// Returns the number of words for the regions of the first of two passes and, if its bins have
    /// several, for their flags.
    pub(crate) fn coarse_words(&self, plan: &Plan) -> u32 {
        let flags = (self.regions > 1) as u32;
        plan.coarse.map_or(0, |coarse| coarse.count * (self.regions + flags))
    }
    /// Returns the number of words for the bins of both passes.
    pub(crate) fn bin_words(&self, plan: &Plan) -> u32 {
        self.coarse_words(plan) + plan.shape.partitions
    }
    /// Returns the number of words for the bins of both passes and, behind them, for the finished
    /// tiles of each bin of the first one.
    pub(crate) fn words(&self, plan: &Plan) -> u32 {
        self.bin_words(plan) + plan.coarse.map_or(0, |coarse| coarse.count)
    }
    /// Returns the places in the bins of the first of two passes.
    pub(crate) fn coarse_places(&self, plan: &Plan) -> usize {
        let bins = plan.coarse.map_or(0, |coarse| coarse.count as usize);
        bins * self.regions as usize * self.room as usize
    }
    /// Returns the bins of the pass over the input.
    pub(crate) fn first_bins(&self, plan: &Plan) -> Bins {
        plan.coarse.map_or(plan.partitions, |coarse| Bins {
            room: self.room,
            flags: if self.regions > 1 { coarse.count * self.regions } else { 0 },
            ..coarse
        })
    }
    /// Returns the parameters of blocks that build partitions.
    pub(crate) fn source(&self, plan: &Plan) -> Source {
        let flags = self.first_bins(plan).flags;
        Source { coarse: self.coarse_words(plan), flags, ..plan.source() }
    }
}

/// Returns how many tiles of the pass over the input a region holds: their pairs for one of `bins`
/// bins fill it. About one region in 4,000 gets more pairs than that.
fn tiles_per_region<L: Layout>(tile: Tile, bins: u32) -> u32 {
    const DEVIATIONS: f64 = 3.5;
    let room = NARROW.pairs::<L>() as f64;
    let mean = tile.pairs::<L>() as f64 / bins as f64;
    (((room - DEVIATIONS * room.sqrt()) / mean) as u32).max(1)
}
/// Returns stamps, for at most `count` tiles or groups of adjacent tiles, in the bits that a
/// partition implies.
fn stamps(partitions: u32, count: u32) -> Stamps {
    // A partition has at most 2^32 / partitions + 1 hashes, and its base is less by at most 2.
    let slack = if partitions.is_power_of_two() { 0 } else { 3 };
    let shift = log2_ceil_wide((1u64 << 32) / partitions as u64 + slack);
    if shift > 30 {
        return Stamps::NONE;
    }
    let distinguished = (1u32 << (32 - shift)) - 1;
    let stamp_shift = log2_ceil(count.div_ceil(distinguished));
    let count = count.div_ceil(1 << stamp_shift);
    let step = ((1u128 << 64) / partitions as u128) as u64;
    Stamps {
        mask: (1 << shift) - 1,
        shift,
        step_low: step as u32,
        step_high: (step >> 32) as u32,
        count,
        stamp_shift,
        word_shift: log2_ceil(count.div_ceil(MAX_STRETCHES)),
        ..Stamps::NONE
    }
}
fn log2_ceil(x: u32) -> u32 {
    log2_ceil_wide(x as u64)
}
fn log2_ceil_wide(x: u64) -> u32 {
    x.max(1).next_power_of_two().ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::plan::PlanTuning;
    use koel_kernels::table::layout::{Narrow, Wide};

    const SIZES: [usize; 7] = [100_000, 1 << 20, 3_700_000, 1 << 22, 1 << 24, 100_000_000, 1 << 29];
    fn plan(n: usize) -> Plan {
        Plan::sized(n, 0.8, PlanTuning { small: 0, ..PlanTuning::TUNED }).unwrap()
    }
    /// Stamps never decrease along the input, or never increase if the first of equal keys stays;
    /// most tiles have one of their own.
    fn in_order<L: Layout>(fine: impl Fn(usize, u32) -> u32) {
        for (n, max_shared) in SIZES.into_iter().flat_map(|n| [(n, 0), (n, u32::MAX)]) {
            for duplicates in [Duplicates::KeepLast, Duplicates::KeepFirst] {
                let division = Division::new::<L>(&plan(n), duplicates, max_shared);
                let (stamps, tiles) = (division.stamps, division.tiles);
                let all = (0..tiles).map(|tile| stamps.of_tile(tile)).collect::<Vec<_>>();
                assert!(all.iter().all(|&s| s < stamps.count), "{division:?}");
                assert!(stamps.word(stamps.count - 1) < MAX_STRETCHES, "{division:?}");
                let rising = |(a, b): (&u32, &u32)| {
                    let step = if duplicates == Duplicates::KeepLast { b - a } else { a - b };
                    step <= 1
                };
                assert!(all.iter().zip(&all[1..]).all(rising), "{division:?}");
                let of_one =
                    tiles.div_ceil(all.iter().max().unwrap() - all.iter().min().unwrap() + 1);
                assert!(of_one <= fine(n, max_shared), "{n} {of_one} {division:?}");
                for tile in 0..tiles {
                    let (stretch, coarse) = stamps.coarse_of_tile(tile);
                    assert!(stretch < division.regions && coarse < stamps.coarse.per_stretch);
                    assert_eq!(stamps.of_coarse(stretch, coarse), stamps.of_tile(tile));
                    let coarse_stamps = stamps.coarse;
                    if coarse_stamps.mask != 0 {
                        let (h, top) = (0x1234_5678, coarse_stamps.top(3));
                        let stamped = coarse_stamps.with(h, coarse);
                        assert_eq!(coarse_stamps.of(stamped), coarse);
                        assert_eq!(coarse_stamps.hash(stamped, top), h & !coarse_stamps.mask | top);
                    }
                }
            }
        }
    }
    #[test]
    fn stamps_are_in_the_order_of_the_input() {
        let much = |n: usize| (n > 100_000_000) as u32;
        in_order::<Narrow>(|n, max_shared| 1 + much(n) * (max_shared == 0) as u32);
        // Tiles of wide pairs are smaller.
        in_order::<Wide<u64, u64>>(|_, max_shared| if max_shared == 0 { 8 } else { 4 });
    }
    /// The first and the last hash of each partition survive any stamp.
    #[test]
    fn hashes_survive_their_stamps() {
        for partitions in [4, 5, 7, 100, 1024, 1025, 1280, 4719, 4864, 65_535, 65_536, 149_131] {
            let stamps = stamps(partitions, 1 << 20);
            let first = |p: u32| ((p as u64) << 32).div_ceil(partitions as u64);
            for p in [0, 1, partitions / 3, partitions / 2, partitions - 2, partitions - 1] {
                let base = stamps.base(p);
                for h in [first(p), first(p) + 1, first(p + 1) - 1].map(|h| h as u32) {
                    for stamp in [0, 1, stamps.count / 2, stamps.count - 1] {
                        let stamped = stamps.with(h, stamp);
                        assert_eq!(stamps.hash(stamped, base), h, "{partitions} {p} {stamps:?}");
                        assert_eq!(stamps.of(stamped), stamp, "{partitions} {p} {stamps:?}");
                    }
                }
            }
        }
        let few = stamps(3, 100);
        assert_eq!((few.with(0x9ABC_DEF0, 7), few.of_tile(99)), (0x9ABC_DEF0, 0));
    }
    /// The table itself has room for the bins of the first pass, except at high loads.
    #[test]
    fn bins_fit_the_table() {
        for (n, load) in [1 << 22, 1 << 24, 1 << 27].into_iter().flat_map(|n| [(n, 0.5), (n, 0.9)])
        {
            let plan = Plan::new(n, load).unwrap();
            let slots = plan.shape.all_buckets() as usize * 4;
            for places in [
                Division::max_coarse_places::<Narrow>(&plan),
                Division::max_coarse_places::<Wide<u64, u64>>(&plan),
            ] {
                assert!(places <= slots, "{n} {load}: {places} places, {slots} slots");
            }
        }
    }
}

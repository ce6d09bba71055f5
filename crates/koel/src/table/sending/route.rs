//! Routes: whether queries are partitioned, and by which passes.
use koel_kernels::map::join::{DIRECT_ITEMS, shared_bytes};
use koel_kernels::table::append::ANSWERING;
use koel_kernels::table::layout::{Layout, Shape};
use koel_kernels::table::sending::{BINS, MANY_BINS, MANY_SHARED, Pass};

/// Parameters that decide whether and how queries are partitioned.
#[derive(Clone, Copy)]
pub(crate) struct RouteTuning {
    /// Maximum bytes of a table that queries read at random, because the cache holds it.
    pub cached: usize,
    /// Maximum number of pairs per query. With more, most of the table would be read in vain.
    pub pairs: u32,
    /// Whether partitions are answered from shared memory, if they fit.
    pub shared: bool,
    /// Otherwise, the maximum bytes of the part of the table that the queries of a bin read, so
    /// that the cache keeps it.
    pub part: usize,
    /// Maximum number of bins of a pass, and of a first pass by the kernel for many bins.
    pub bins: u32,
    pub many_bins: u32,
    /// Whether the first pass makes as many bins as it can, even if fewer suffice.
    pub smallest: bool,
    /// Places of the overflow area, in addition to an eighth of the queries.
    pub area: u32,
    /// Minimum number of answering blocks, if partitions have queries for several blocks.
    pub blocks: u32,
}
impl RouteTuning {
    pub(crate) const TUNED: RouteTuning = RouteTuning {
        cached: 64 << 20,
        pairs: 4,
        shared: true,
        part: 16 << 20,
        bins: BINS,
        many_bins: MANY_BINS,
        smallest: false,
        area: 1 << 12,
        blocks: 1 << 11,
    };
}

/// Path of queries to the bins from which they are answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    /// First of two passes.
    pub coarse: Option<Pass>,
    /// Last pass, or the only one.
    pub last: Pass,
    /// Whether the first pass, or the only one, has more bins than the smaller of its kernels can
    /// have.
    pub many: bool,
    /// Whether bins are partitions, answered from shared memory. Otherwise, queries are looked up
    /// in device memory, bin by bin.
    pub shared: bool,
    /// Number of blocks that share the queries of a bin.
    pub blocks: u32,
}
impl Route {
    /// Returns the route of `n` queries to a table of `pairs` pairs. `values`: whether their values
    /// are wanted, too. Returns `None` if the queries are better looked up as they come.
    pub(crate) fn new<L: Layout>(
        n: u32,
        pairs: u32,
        values: bool,
        shape: Shape,
        max_shared: u32,
        tuning: RouteTuning,
    ) -> Option<Route> {
        let (all, bytes) = (shape.partitions, shape.all_buckets() as usize * L::WORDS * 8);
        if bytes <= tuning.cached || n < pairs / tuning.pairs {
            return None;
        }
        // Partitions per bin of the first pass.
        let most = if max_shared >= MANY_SHARED { tuning.many_bins } else { tuning.bins };
        let each = match all.div_ceil(tuning.bins) {
            _ if all <= most => 1,
            few if few <= tuning.bins && !tuning.smallest => few,
            _ => all.div_ceil(most),
        };
        let pass = |each: u32| {
            let mean = n as f64 * each as f64 / all as f64;
            let room = ((mean + 8.0 * mean.sqrt()) as u32 + 16).next_multiple_of(4);
            Pass::new(each, room, n / 8 + tuning.area)
        };
        let shared =
            tuning.shared && shared_bytes(shape.buckets, values && L::SLOT_WORDS > 1) <= max_shared;
        let (coarse, last) =
            if shared && each > 1 { (Some(pass(each)), pass(1)) } else { (None, pass(each)) };
        let blocks = match shared {
            true => (tuning.blocks / all).clamp(1, last.room.div_ceil(ANSWERING * 8)),
            false => last.room.div_ceil(ANSWERING * DIRECT_ITEMS),
        };
        let route = Route { coarse, last, many: all.div_ceil(each) > tuning.bins, shared, blocks };
        let fits = if shared {
            each <= tuning.bins
        } else {
            bytes / all as usize * each as usize <= tuning.part
        };
        (fits && route.places(all).into_iter().all(|places| places < 1 << 31)).then_some(route)
    }
    /// Returns the number of bins of the first of two passes, and of the last pass.
    pub(crate) fn bins(&self, partitions: u32) -> [u32; 2] {
        [
            self.coarse.map_or(0, |g| partitions.div_ceil(g.each)),
            partitions.div_ceil(self.last.each),
        ]
    }
    /// Returns the number of places in the bins of each pass, and in the overflow area.
    pub(crate) fn places(&self, partitions: u32) -> [usize; 3] {
        let [coarse, last] = self.bins(partitions).map(|bins| bins as usize);
        let of_coarse = self.coarse.map_or(0, |g| coarse * g.room as usize);
        [of_coarse, last * self.last.room as usize, self.last.area as usize]
    }
}

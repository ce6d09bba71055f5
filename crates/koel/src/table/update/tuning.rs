//! Sizes of the pieces of a batch.
use super::{Updatable, slots_of_bucket};
use crate::table::plan::Plan;
use crate::table::sending::RouteTuning;
use koel_kernels::table::layout::{Layout, Shape};
use koel_kernels::table::update::operation;

/// Sizes of the pieces of a batch, and maximum load of partitions.
#[derive(Clone, Copy)]
pub(crate) struct UpdateTuning {
    /// Rule by which operations are partitioned.
    pub route: RouteTuning,
    /// Maximum average number of operations per partition.
    pub operations: u32,
    /// Headroom of a block's entries: in standard deviations of the number of its operations, and
    /// additional entries.
    pub deviations: f64,
    pub spare: u32,
    /// Maximum load of a partition.
    pub most_load: f64,
    /// Load from which on a table of the CPU engine grows if two evictions make no room for a key.
    /// Beyond, that would be the case in most batches, and each time a partition is unpacked.
    pub crowded: f64,
    /// Whether operations may change only the buckets of their keys, rather than whole partitions.
    pub sparse: bool,
    /// A batch that inserts is applied to whole partitions if its keys and those that the table was
    /// built for exceed this load, and if there are more operations per bucket than this share (of
    /// narrow pairs; twice as many of wide ones): too many would have to evict others.
    pub sparse_load: f64,
    pub sparse_share: f64,
    /// Maximum average number of operations per bin, if only the buckets of their keys change.
    pub coarse_bin: u32,
}
impl UpdateTuning {
    /// Limits for maps.
    pub(crate) const TUNED: UpdateTuning = UpdateTuning {
        route: RouteTuning { cached: 0, pairs: 1, area: 0, ..RouteTuning::TUNED },
        operations: 600,
        deviations: 6.0,
        spare: 24,
        most_load: 0.97,
        crowded: 0.88,
        sparse: true,
        sparse_load: 0.8,
        sparse_share: 0.15,
        coarse_bin: 2100,
    };
    /// Limits for sets, whose partitions have up to twice as many keys.
    pub(crate) const OF_SETS: UpdateTuning =
        UpdateTuning { operations: 1000, sparse_share: 0.5, ..UpdateTuning::TUNED };
    /// Returns the number of keys that a block has room for, given the average number of its
    /// operations.
    pub(super) fn entries(self, mean: f64) -> u32 {
        ((mean + self.deviations * mean.sqrt()) * 1.2) as u32 + self.spare
    }
    /// Returns the maximum average number of operations per partition; `None` if such partitions do
    /// not fit a block.
    pub(super) fn most_operations<F: Updatable>(
        self,
        shape: Shape,
        each: bool,
        max_shared: u32,
    ) -> Option<u32> {
        let bytes = |mean: u32| F::shared_bytes(shape.buckets, self.entries(mean as f64), each);
        let fits = |&mean: &u32| bytes(mean).is_some_and(|bytes| bytes <= max_shared);
        let mut means = std::iter::successors(Some(self.operations), |&mean| {
            Some(mean * 3 / 4).filter(|&mean| mean > 0)
        });
        means.find(fits)
    }
    /// Returns whether operations change only the buckets of their keys, as far as possible.
    pub(super) fn is_sparse<F: Updatable>(
        self,
        n: usize,
        code: u32,
        plan: &Plan,
        slots: usize,
    ) -> bool {
        let is_dense = (plan.n as usize + n) as f64 > self.sparse_load * slots as f64;
        let share = self.sparse_share * <F::Pairs as Layout>::SLOT_WORDS as f64;
        let evicts = code == operation::INSERT
            && is_dense
            && n as f64 > share * plan.shape.all_buckets() as f64;
        self.sparse && !evicts && plan.shape.all_buckets() > 1
    }
    pub(super) fn most_pairs<F: Updatable>(self, shape: Shape) -> u32 {
        (shape.buckets as f64 * slots_of_bucket::<F>() as f64 * self.most_load) as u32
    }
}

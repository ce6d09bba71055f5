//! How batches are cut.
use super::{Updatable, slots_of_bucket};
use crate::table::plan::Plan;
use crate::table::sending::Rule;
use koel_kernels::table::layout::{Layout, Shape};
use koel_kernels::table::update::operation;

/// How batches are cut, and how full partitions may be.
#[derive(Clone, Copy)]
pub struct Limits {
    /// How operations are partitioned.
    pub rule: Rule,
    /// Operations of a partition on average, at most.
    pub operations: u32,
    /// Entries of a block, in deviations of what comes to it, and beyond.
    pub deviations: f64,
    pub spare: u32,
    /// Of a partition's slots that pairs may take.
    pub most_load: f64,
    /// Whether only the buckets of the keys are read, or partitions as a whole.
    pub few: bool,
    /// From which load on, of what the table was built for and what comes, and from how many
    /// operations a bucket on (of narrow pairs; twice as many of wide ones), it is partitions
    /// where keys are inserted: too many would have to evict others.
    pub few_load: f64,
    pub few_share: f64,
    /// Of those operations of a group on average, at most.
    pub group: u32,
}
impl Limits {
    /// Of maps.
    pub const TUNED: Limits = Limits {
        rule: Rule { cached: 0, pairs: 1, area: 0, ..Rule::TUNED },
        operations: 600,
        deviations: 6.0,
        spare: 24,
        most_load: 0.97,
        few: true,
        few_load: 0.8,
        few_share: 0.15,
        group: 2100,
    };
    /// Of sets: partitions have up to twice the keys.
    pub const OF_SETS: Limits = Limits { operations: 1000, few_share: 0.5, ..Limits::TUNED };
    /// Keys that a block has room for, if there are so many operations for it on average.
    pub(super) fn entries(self, mean: f64) -> u32 {
        ((mean + self.deviations * mean.sqrt()) * 1.2) as u32 + self.spare
    }
    /// Operations of a partition on average, at most; `None`: blocks have no room for such
    /// partitions.
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
    /// Whether operations are done in the buckets of their keys, as far as they can be.
    pub(super) fn are_few<F: Updatable>(
        self,
        n: usize,
        code: u32,
        plan: &Plan,
        slots: usize,
    ) -> bool {
        let is_dense = (plan.n as usize + n) as f64 > self.few_load * slots as f64;
        let share = self.few_share * <F::Pairs as Layout>::SLOT_WORDS as f64;
        let evicts = code == operation::INSERT
            && is_dense
            && n as f64 > share * plan.shape.all_buckets() as f64;
        self.few && !evicts && plan.shape.all_buckets() > 1
    }
    pub(super) fn most_pairs<F: Updatable>(self, shape: Shape) -> u32 {
        (shape.buckets as f64 * slots_of_bucket::<F>() as f64 * self.most_load) as u32
    }
}

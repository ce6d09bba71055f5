//! Grouping pairs by key without sorting: partitions them by hash, in the passes of a
//! [`Map`](crate::Map), and groups each partition.
//!
//! A partition gets whole groups, so the larger the groups, the more the partition sizes vary: the
//! maximum partition size depends on how often keys occur. A sample estimates that. If keys are too
//! frequent for any partition size, or a bin overflows, no groups are formed and the caller sorts.
use super::{Grouping, Groups};
use crate::device::{Apart, Buffer, Device, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::Result;
use crate::map::kernels::{Division, OrderedGroups, Passes, partition};
use crate::primitives::Scan;
use crate::seed::Seeds;
use crate::table::DeviceLayout;
use crate::table::plan::{Plan, PlanTuning};
use crate::table::slots::stash_words;
use crate::types::{KeyBits, ValueBits};
use koel_kernels::groups::{SAMPLE, SAMPLES, group_sample};
use koel_kernels::map::from_groups::map_compact_groups;
use koel_kernels::map::group::{GroupsOut, MAX_PAIRS, THREADS, Ungrouped, map_group};
use koel_kernels::map::kinds::MapLayout;
use koel_kernels::map::partition::Input;
use koel_kernels::table::layout::Layout;
use koel_kernels::table::state;
use koel_simt::In;

#[cfg(test)]
mod tests;

/// Sizes for partitioning pairs.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartingSizes {
    /// Minimum number of pairs: below it, sorting is as fast.
    pub least: usize,
    /// Mean number of narrow pairs per partition if keys rarely repeat; two thirds of that for wide
    /// pairs.
    pub pairs: u32,
    /// Maximum number of partitions of a single pass.
    pub one_pass: u32,
    /// Number of bins of the first of two passes, if that is enough: a power of two.
    pub coarse: u32,
    /// Minimum mean number of keys per partition of the index table, if that reuses the partitions
    /// of the pairs.
    pub keys: u32,
}
impl PartingSizes {
    /// Partitions like those of a map.
    pub(super) const TUNED: PartingSizes =
        PartingSizes { least: 1 << 18, pairs: 3000, one_pass: 1024, coarse: 256, keys: 1500 };
    /// Minimum number of pairs per partition: below it, reading the bins costs as much as sorting.
    const MIN_PAIRS: f64 = 1024.0;
    /// Bin headroom, in standard deviations. A bin exceeds it with probability 3 in 10^7; the pairs
    /// are then sorted instead.
    const DEVIATIONS: f64 = 5.0;

    /// Returns the sizes of a plan, if the mean group size, over all pairs, is `copies`. `None`:
    /// the groups are too large.
    fn of<L: Layout>(self, copies: f64) -> Option<PlanTuning> {
        // The greatest mean whose deviations still fit: mean + deviations * sqrt(mean * copies) =
        // most.
        let spread = Self::DEVIATIONS * copies.sqrt();
        let root = ((spread * spread + 4.0 * (MAX_PAIRS - 16) as f64).sqrt() - spread) / 2.0;
        let usual = if L::SLOT_WORDS == 1 { self.pairs } else { self.pairs * 2 / 3 };
        let pairs = (root * root).min(usual as f64);
        let enough = pairs >= Self::MIN_PAIRS.min(usual as f64 / 3.0);
        let PartingSizes { one_pass, coarse, .. } = self;
        enough.then_some(PlanTuning {
            most: MAX_PAIRS,
            shared: |_, _| 0,
            pairs: pairs as u32,
            copies,
            deviations: Self::DEVIATIONS,
            one_pass,
            coarse,
            small: 0,
            medium: 0,
            ..PlanTuning::TUNED
        })
    }
}

/// Partitions per block of the kernel that compacts groups.
const WARPS: u32 = THREADS / 32;

/// Estimates the mean group size over all `n` pairs from the number of couples (equal keys) in a
/// sample; errs on the high side.
#[inline]
fn copies(couples: u32, n: usize) -> f64 {
    let of_sample = SAMPLES as f64 * SAMPLE as f64 * (SAMPLE - 1) as f64 / 2.0;
    let one = n as f64 / of_sample;
    // The number of couples is approximately Poisson distributed.
    one * (couples as f64 + 2.0 * (couples as f64).sqrt()) + 4.0
}

/// Memory for partitioning.
pub(super) struct Parting {
    by_coarse: Buffer<u64>,
    by_partition: Buffer<u64>,
    overflow: Buffer<u64>,
    cursors: Buffer<u32>,
    valid: Buffer<u32>,
    stash: Buffer<u64>,
    state: Buffer<u32>,
    /// Number of groups, first group and first pair of each partition.
    sizes: Buffer<u32>,
    firsts: Buffer<u32>,
    offsets: Buffer<u32>,
    scan: Scan<u32>,
}
impl Parting {
    fn new<L: Layout>(device: &Device, plan: &Plan) -> Result<Parting> {
        let [by_coarse, by_partition, overflow, bins] = Parting::needs::<L>(plan);
        Ok(Parting {
            by_coarse: device.alloc(by_coarse)?,
            by_partition: device.alloc(by_partition)?,
            overflow: device.alloc(overflow)?,
            cursors: device.alloc(bins)?,
            valid: device.alloc(bins)?,
            stash: device.alloc(stash_words::<L>(plan))?,
            state: device.alloc(state::WORDS)?,
            sizes: device.alloc(bins)?,
            firsts: device.alloc(bins)?,
            offsets: device.alloc(bins)?,
            scan: Scan::new(device, bins)?,
        })
    }
    /// Returns the words of pairs for the first-pass bins, the partitions and the overflow, and the
    /// number of bins.
    fn needs<L: Layout>(plan: &Plan) -> [usize; 4] {
        let words =
            [plan.coarse_places(), plan.partition_places(), 2 * plan.partitions.area as usize];
        let [by_coarse, by_partition, overflow] = words.map(|places| places * L::SLOT_WORDS);
        [by_coarse, by_partition, overflow, plan.bins() as usize]
    }
    fn fits<L: Layout>(&self, plan: &Plan) -> bool {
        let has = [&self.by_coarse, &self.by_partition, &self.overflow].map(|b| b.len());
        has.into_iter()
            .chain([self.cursors.len()])
            .zip(Parting::needs::<L>(plan))
            .all(|(has, needs)| has >= needs)
    }
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        let words =
            [&self.by_coarse, &self.by_partition, &self.overflow, &self.stash].map(|b| b.bytes());
        let halves =
            [&self.cursors, &self.valid, &self.state, &self.sizes, &self.firsts, &self.offsets]
                .map(|b| b.bytes());
        words.iter().sum::<usize>() + halves.iter().sum::<usize>()
    }
}

/// Groups the pairs. Keys and starts go to `grouping`, spaced as the pairs of the partitions are,
/// the values to `grouped`. Returns `None` if the pairs must be sorted. Waits twice.
///
/// On a GPU: a launch for the sample, five fills, one or two partition passes, and three launches,
/// one of which groups.
pub(super) fn group<'a, K: KeyBits, V: ValueBits>(
    stream: &Stream,
    sizes: PartingSizes,
    seeds: Seeds,
    (keys, values): (View<'_, K>, View<'_, V>),
    kept: &'a mut Option<Parting>,
    grouping: &'a mut Grouping<K>,
    mut grouped: ViewMut<'_, V>,
) -> Result<Option<OrderedGroups<'a, K>>> {
    let _apart = Apart::begin();
    let (device, n) = (stream.device(), keys.len());
    if !device.runs_kernels() || n < sizes.least.max(1) {
        return Ok(None);
    }
    let (aligned, of) = (keys.is_aligned(16) && values.is_aligned(16), keys.arg("keys", stream)?);
    let values = values.arg("values", stream)?;
    // SAFETY: all keys of `keys`, at least one.
    let couples = unsafe { count_couples(stream, n as u32, of, grouping) }?;
    let Some(plan) = plan_of::<K::Layout<V>>(sizes, couples, n) else { return Ok(None) };
    let memory = super::reserve(
        kept,
        |kept| kept.fits::<K::Layout<V>>(&plan),
        || Parting::new::<K::Layout<V>>(device, &plan),
    )?;
    let (seed, n32) = (seeds.first, plan.n);
    let input = Input { keys: of, values, n: n32, seed, aligned: aligned as u32 };
    memory.part::<K::Layout<V>>(stream, &plan, input)?;
    // SAFETY: partitioned just now by this plan; `grouping` and `grouped` have room for all pairs.
    unsafe { memory.group_partitions(stream, &plan, seeds.first, grouping, &mut grouped) }?;
    let (groups, failed) = match grouping.count.download()?[..] {
        [groups, failed] => (groups as usize, failed != 0),
        _ => unreachable!("two counts"),
    };
    let of_all = ..plan.shape.partitions as usize;
    Ok(match failed {
        true => None,
        false => Some(OrderedGroups {
            keys: grouping.distinct.view(),
            starts: grouping.starts.view(),
            numbers: grouping.numbers.view().slice(..groups)?,
            groups,
            pairs: n,
            offsets: memory.offsets.view().slice(of_all)?,
            firsts: memory.firsts.view().slice(of_all)?,
            seeds,
        }),
    })
}
/// Returns the number of couples (equal keys) in a sample. Two fills and one launch; waits.
///
/// # Safety
/// `n` keys, at least one.
unsafe fn count_couples<K: KeyBits>(
    stream: &Stream,
    n: u32,
    keys: In<K>,
    grouping: &mut Grouping<K>,
) -> Result<u32> {
    grouping.count.view_mut().fill_bytes(0, stream)?;
    // SAFETY: the keys are valid by the caller's contract; one sum.
    unsafe {
        let couples = grouping.count.view_mut().arg("couples", stream)?;
        group_sample::launch::<<K::Pairs as MapLayout>::OfKey, _>(stream, SAMPLES, n, keys, couples)
    }?;
    let couples = grouping.count.download()?[0];
    grouping.count.view_mut().fill_bytes(0, stream)?;
    Ok(couples)
}
/// Returns the partition plan for `n` pairs with `couples` couples in the sample; `None` if they
/// must be sorted.
fn plan_of<L: Layout>(sizes: PartingSizes, couples: u32, n: usize) -> Option<Plan> {
    let sizes = sizes.of::<L>(copies(couples, n))?;
    // This fails if two passes cannot make enough partitions.
    let plan = Plan::sized(n, 0.5, sizes).ok()?;
    // There is no stash or conflict handling, and ranges of the input need not be distinguished.
    Some(Plan { stash_bits: 0, ..plan })
}
impl Parting {
    /// Partitions the pairs: three fills, one or two passes.
    fn part<L: DeviceLayout>(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        input: Input<L>,
    ) -> Result<()> {
        self.cursors.view_mut().fill_bytes(0, stream)?;
        self.valid.view_mut().fill_bytes(0xFF, stream)?;
        self.state.view_mut().fill_bytes(0, stream)?;
        let passes = Passes {
            by_coarse: self.by_coarse.view_mut(),
            by_partition: self.by_partition.view_mut(),
            overflow: self.overflow.view_mut(),
            cursors: self.cursors.view_mut(),
            valid: self.valid.view_mut(),
            stash: self.stash.view_mut(),
            state: self.state.view_mut(),
        };
        let division =
            Division::new::<L>(plan, Duplicates::Unchecked, stream.device().max_shared());
        partition::<L>(stream, plan, &division, input, Duplicates::Unchecked, passes)
    }
    /// Groups the pairs of each partition, and computes the first group and the first pair of each:
    /// three launches.
    ///
    /// # Safety
    /// The pairs have been [partitioned](Self::part) by this plan and seed, and `grouping` and
    /// `grouped` have room for all of them.
    unsafe fn group_partitions<K: KeyBits, V: ValueBits>(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        seed: u32,
        grouping: &mut Grouping<K>,
        grouped: &mut ViewMut<'_, V>,
    ) -> Result<()> {
        let partitions = plan.shape.partitions;
        let coarse = plan.coarse.map_or(0, |bins| bins.count as usize);
        let of_all = ..partitions as usize;
        let counts = self.cursors.view().slice(coarse..plan.bins() as usize)?;
        self.scan.exclusive(stream, counts, self.offsets.view_mut().slice(of_all)?)?;
        let from = Ungrouped {
            pairs: self.by_partition.view().arg("pairs", stream)?,
            counts: counts.arg("counts", stream)?,
            offsets: self.offsets.view().arg("offsets", stream)?,
            build_state: self.state.view().arg("state", stream)?,
            partitions,
            room: plan.partitions.room,
            seed,
        };
        let to = GroupsOut::<K::Layout<V>> {
            keys: grouping.distinct.view_mut().arg("keys", stream)?,
            starts: grouping.starts.view_mut().arg("starts", stream)?,
            values: grouped.arg("values", stream)?,
            sizes: self.sizes.view_mut().arg("sizes", stream)?,
            groups: grouping.count.view_mut().arg("groups", stream)?,
        };
        // SAFETY: the bins are as the passes left them, with at most the capacity of a block; no
        // more groups than pairs; one size per partition, and two counts.
        unsafe { map_group::launch(stream, partitions, from, to) }?;
        self.scan.exclusive(
            stream,
            self.sizes.view().slice(of_all)?,
            self.firsts.view_mut().slice(of_all)?,
        )
    }
}
/// Compacts the groups into new buffers of exact size. One launch.
pub(super) fn brought<K: KeyBits>(
    stream: &Stream,
    groups: &OrderedGroups<'_, K>,
) -> Result<Groups<K>> {
    let device = stream.device();
    let (mut keys, mut starts) = (device.alloc(groups.groups)?, device.alloc(groups.groups + 1)?);
    let (mut to_keys, mut to_starts) = (keys.view_mut(), starts.view_mut());
    let compacting = groups.compacting(stream, 1, &mut to_keys, &mut to_starts)?;
    let grid = compacting.ordered.partitions.div_ceil(WARPS);
    // SAFETY: no more groups than pairs; room for all keys and for one start more; one offset and
    // one first group per partition.
    unsafe { map_compact_groups::launch(stream, grid, compacting) }?;
    Ok(Groups { keys, starts })
}

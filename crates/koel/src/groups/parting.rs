//! Pairs brought together by key without sorting: parted by hash, in the passes of a
//! [`Map`](crate::Map), and grouped in each partition.
//!
//! How large partitions may be depends on how often keys come: a partition gets whole groups, so
//! its pairs vary the more, the larger they are. A sample tells. Where keys are too frequent for
//! any partition, or more pairs come to a bin than it has room for, there are no groups, and the
//! caller sorts.
use super::{Grouping, Groups};
use crate::device::{Buffer, Device, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::Result;
use crate::key::{Key, Value};
use crate::map::kernels::{OrderedGroups, Passes, partition};
use crate::primitives::Scan;
use crate::seed::Seeds;
use crate::table::DeviceLayout;
use crate::table::plan::{Plan, Sizes};
use crate::table::slots::stash_words;
use koel_kernels::groups::{SAMPLE, SAMPLES, group_sample};
use koel_kernels::map::group::{GroupsOut, MAX_PAIRS, THREADS, Ungrouped, map_group};
use koel_kernels::map::kinds::MapLayout;
use koel_kernels::map::of_groups::map_bring_groups;
use koel_kernels::map::partition::Input;
use koel_kernels::map::stamps::Stamps;
use koel_kernels::table::layout::Layout;
use koel_kernels::table::state;
use koel_simt::In;

#[cfg(test)]
mod tests;

/// How pairs are parted.
#[derive(Clone, Copy, Debug)]
pub struct PartingSizes {
    /// Of fewer pairs than that sorting takes no longer.
    pub least: usize,
    /// Narrow pairs of a partition on average, if keys come seldom; two thirds as many wide ones.
    pub pairs: u32,
    /// Partitions that one pass can make.
    pub one_pass: u32,
    /// Groups that the first of two passes makes, if that is enough: a power of two.
    pub groups: u32,
    /// Keys of a partition of their table on average, at least, if it is made of the partitions
    /// that the pairs had.
    pub keys: u32,
}
impl PartingSizes {
    /// Partitions as those of a map.
    pub const TUNED: PartingSizes =
        PartingSizes { least: 1 << 18, pairs: 3000, one_pass: 1024, groups: 256, keys: 1500 };
    /// Pairs of a partition, at least: of fewer, reading the bins would cost as much as sorting.
    const MIN_PAIRS: f64 = 1024.0;
    /// Deviations that a partition's bin has room for; its pairs exceed them three times in 10^7.
    /// What exceeds them is sorted.
    const DEVIATIONS: f64 = 5.0;

    /// What a plan is made of, if the key of a pair has `copies` pairs on average over all pairs;
    /// `None`: too many.
    fn of<L: Layout>(self, copies: f64) -> Option<Sizes> {
        // The greatest mean whose deviations still fit: mean + deviations * sqrt(mean * copies) =
        // most.
        let spread = Self::DEVIATIONS * copies.sqrt();
        let root = ((spread * spread + 4.0 * (MAX_PAIRS - 16) as f64).sqrt() - spread) / 2.0;
        let usual = if L::SLOT_WORDS == 1 { self.pairs } else { self.pairs * 2 / 3 };
        let pairs = (root * root).min(usual as f64);
        let enough = pairs >= Self::MIN_PAIRS.min(usual as f64 / 3.0);
        let PartingSizes { one_pass, groups, .. } = self;
        enough.then_some(Sizes {
            most: MAX_PAIRS,
            shared: |_, _| 0,
            pairs: pairs as u32,
            copies,
            deviations: Self::DEVIATIONS,
            one_pass,
            groups,
            small: 0,
            ..Sizes::TUNED
        })
    }
}

/// Partitions whose groups a block brings.
const WARPS: u32 = THREADS / 32;

/// How many pairs the key of a pair has, on average over all `n` pairs, if a sample of them has so
/// many couples of equal keys; rather too many than too few.
fn copies(couples: u32, n: usize) -> f64 {
    let of_sample = SAMPLES as f64 * SAMPLE as f64 * (SAMPLE - 1) as f64 / 2.0;
    let one = n as f64 / of_sample;
    // Couples are about Poisson distributed.
    one * (couples as f64 + 2.0 * (couples as f64).sqrt()) + 4.0
}

/// Memory for parting.
pub struct Parting {
    by_group: Buffer<u64>,
    by_partition: Buffer<u64>,
    overflow: Buffer<u64>,
    cursors: Buffer<u32>,
    valid: Buffer<u32>,
    stash: Buffer<u64>,
    state: Buffer<u32>,
    /// The groups of each partition, its first, and its first pair.
    sizes: Buffer<u32>,
    firsts: Buffer<u32>,
    offsets: Buffer<u32>,
    scan: Scan<u32>,
}
impl Parting {
    fn new<L: Layout>(device: &Device, plan: &Plan) -> Result<Parting> {
        let [by_group, by_partition, overflow, bins] = Parting::needs::<L>(plan);
        Ok(Parting {
            by_group: device.alloc(by_group)?,
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
    /// Words of pairs by group, by partition, behind the bins, and bins.
    fn needs<L: Layout>(plan: &Plan) -> [usize; 4] {
        let words =
            [plan.group_places(), plan.partition_places(), 2 * plan.partitions.area as usize];
        let [by_group, by_partition, overflow] = words.map(|places| places * L::SLOT_WORDS);
        [by_group, by_partition, overflow, plan.bins() as usize]
    }
    fn fits<L: Layout>(&self, plan: &Plan) -> bool {
        let has = [&self.by_group, &self.by_partition, &self.overflow].map(|b| b.len());
        has.into_iter()
            .chain([self.cursors.len()])
            .zip(Parting::needs::<L>(plan))
            .all(|(has, needs)| has >= needs)
    }
    pub fn bytes(&self) -> usize {
        let words =
            [&self.by_group, &self.by_partition, &self.overflow, &self.stash].map(|b| b.bytes());
        let halves =
            [&self.cursors, &self.valid, &self.state, &self.sizes, &self.firsts, &self.offsets]
                .map(|b| b.bytes());
        words.iter().sum::<usize>() + halves.iter().sum::<usize>()
    }
}

/// Groups the pairs: keys and starts come to `grouping`, as far apart as partitions are, the values
/// to `grouped`. `None` if the pairs must be sorted. Waits twice.
///
/// On a GPU: a launch for the sample; five fills, one partition pass or two, and three launches, of
/// which one groups.
pub fn group<'a, K: Key, V: Value>(
    stream: &Stream,
    sizes: PartingSizes,
    seeds: Seeds,
    (keys, values): (View<'_, K>, View<'_, V>),
    kept: &'a mut Option<Parting>,
    grouping: &'a mut Grouping<K>,
    mut grouped: ViewMut<'_, V>,
) -> Result<Option<OrderedGroups<'a, K>>> {
    let (device, n) = (stream.device(), keys.len());
    if !device.runs_kernels() || n < sizes.least.max(1) {
        return Ok(None);
    }
    let (aligned, of) = (keys.is_aligned(16) && values.is_aligned(16), keys.arg("keys", stream)?);
    let values = values.arg("values", stream)?;
    // SAFETY: all keys of `keys`, more than none.
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
    // SAFETY: just parted by this plan; `grouping` and `grouped` have room for all pairs.
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
/// How many couples of equal keys a sample has. Two fills and a launch; waits.
///
/// # Safety
/// `n` keys, more than none.
unsafe fn count_couples<K: Key>(
    stream: &Stream,
    n: u32,
    keys: In<K>,
    grouping: &mut Grouping<K>,
) -> Result<u32> {
    grouping.count.view_mut().fill_bytes(0, stream)?;
    // SAFETY: the keys are the caller's; one sum.
    unsafe {
        let couples = grouping.count.view_mut().arg("couples", stream)?;
        group_sample::launch::<<K::Pairs as MapLayout>::OfKey, _>(stream, SAMPLES, n, keys, couples)
    }?;
    let couples = grouping.count.download()?[0];
    grouping.count.view_mut().fill_bytes(0, stream)?;
    Ok(couples)
}
/// How `n` pairs are parted whose sample has so many couples; `None`: they must be sorted.
fn plan_of<L: Layout>(sizes: PartingSizes, couples: u32, n: usize) -> Option<Plan> {
    let sizes = sizes.of::<L>(copies(couples, n))?;
    // An error: more partitions than two passes make.
    let plan = Plan::sized(n, 0.5, sizes).ok()?;
    // Nothing is stashed or contested, and no stretch of the input must be told from another.
    Some(Plan { parts: 1, stash_bits: 0, ..plan })
}
impl Parting {
    /// Brings the pairs to their partitions: three fills, one pass or two.
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
            by_group: self.by_group.view_mut(),
            by_partition: self.by_partition.view_mut(),
            overflow: self.overflow.view_mut(),
            cursors: self.cursors.view_mut(),
            valid: self.valid.view_mut(),
            stash: self.stash.view_mut(),
            state: self.state.view_mut(),
        };
        partition::<L>(stream, plan, input, Duplicates::Unchecked, Stamps::NONE, passes)
    }
    /// Groups the pairs of each partition, and tells which groups and pairs are its first: three
    /// launches.
    ///
    /// # Safety
    /// The pairs have been [parted](Self::part) by this plan and seed, and there is room for all of
    /// them in `grouping` and `grouped`.
    unsafe fn group_partitions<K: Key, V: Value>(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        seed: u32,
        grouping: &mut Grouping<K>,
        grouped: &mut ViewMut<'_, V>,
    ) -> Result<()> {
        let partitions = plan.shape.partitions;
        let groups = plan.groups.map_or(0, |g| g.count as usize);
        let of_all = ..partitions as usize;
        let counts = self.cursors.view().slice(groups..plan.bins() as usize)?;
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
        // SAFETY: the bins as the passes left them, of no more room than a block has; no more
        // groups than pairs; a size for each partition, and two counts.
        unsafe { map_group::launch(stream, partitions, from, to) }?;
        self.scan.exclusive(
            stream,
            self.sizes.view().slice(of_all)?,
            self.firsts.view_mut().slice(of_all)?,
        )
    }
}
/// Groups brought together, as they stay. Allocates them; a launch.
pub fn brought<K: Key>(stream: &Stream, groups: &OrderedGroups<'_, K>) -> Result<Groups<K>> {
    let device = stream.device();
    let (mut keys, mut starts) = (device.alloc(groups.groups)?, device.alloc(groups.groups + 1)?);
    let (mut to_keys, mut to_starts) = (keys.view_mut(), starts.view_mut());
    let bringing = groups.bringing(stream, 1, &mut to_keys, &mut to_starts)?;
    let grid = bringing.ordered.partitions.div_ceil(WARPS);
    // SAFETY: no more groups than pairs; room for as many keys and for a start more; an offset and
    // a first of each partition.
    unsafe { map_bring_groups::launch(stream, grid, bringing) }?;
    Ok(Groups { keys, starts })
}

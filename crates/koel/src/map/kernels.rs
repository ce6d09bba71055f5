//! Builds by kernels, on a GPU or on the test executor. Nothing here waits for the device.
mod division;
mod passes;

use crate::device::{Buffer, Device, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::{Result, count32};
use crate::seed::Seeds;
use crate::table::plan::{Plan, with_crowd};
use crate::table::slots::{FINALIZE_TILE, Slots, resident, stash_words};
use crate::table::{DeviceLayout, THREADS};
use crate::types::KeyBits;
pub(crate) use division::Division;
use koel_kernels::map::build::{Target, map_build, map_build_unchecked};
use koel_kernels::map::contested_words;
use koel_kernels::map::export::map_export;
use koel_kernels::map::finalize::{Finalizing, Memory, PairsIn, lock_words, map_finalize};
use koel_kernels::map::find::map_find;
use koel_kernels::map::from_groups::{Compacting, Ordered, map_build_from_groups};
use koel_kernels::map::partition::Input;
use koel_kernels::map::pipeline::{Pipeline, TILE, map_pipeline, map_pipeline_unchecked};
use koel_kernels::map::reproduce::{map_reproduce, map_unstash, unstashed_words};
use koel_kernels::map::small::{KeysIn, map_build_small, map_records};
use koel_kernels::table::bins::PartitionsIn;
use koel_kernels::table::bins::{BinsOut, Source, StashOut};
use koel_kernels::table::layout::{BUCKET, Layout, Wide};
use koel_kernels::table::state;
pub(crate) use passes::{Passes, partition};

const _: () = assert!(
    map_find::narrow::SPEC.threads == THREADS && map_export::narrow::SPEC.threads == THREADS
);

/// Scratch memory of a build: about 1.1 times the input.
pub(crate) struct Scratch {
    /// Output of the first of two passes; empty if the table has room for it.
    by_coarse: Buffer<u64>,
    by_partition: Buffer<u64>,
    /// Overflow areas of both passes.
    overflow: Buffer<u64>,
    /// Cursors of the bins of both passes, then how many pairs of each bin are valid.
    cursors: Buffer<u32>,
    valid: Buffer<u32>,
    contested: Buffer<u64>,
    ranks: Buffer<u32>,
    state: Buffer<u32>,
    /// Whether all shared words are reset, as builds leave them.
    clean: bool,
    /// Plan of the latest build, which fits.
    built: Option<Plan>,
}
/// Lengths of the arrays of scratch memory: by coarse bin, by partition, overflow, bins, contested
/// keys, their ranks.
type Lengths = [usize; 6];
impl Scratch {
    pub(crate) fn new<L: Layout>(device: &Device, plan: &Plan) -> Result<Scratch> {
        Scratch::alloc(device, Scratch::needs::<L>(plan))
    }
    /// Returns memory for builds of this plan and of those that `self` fits, so that two sizes can
    /// alternate.
    pub(crate) fn grown<L: Layout>(self, device: &Device, plan: &Plan) -> Result<Scratch> {
        let mut lengths = Scratch::needs::<L>(plan);
        lengths.iter_mut().zip(self.lengths()).for_each(|(length, had)| *length = had.max(*length));
        // Free the old memory first: both need not fit.
        drop(self);
        Scratch::alloc(device, lengths)
    }
    fn alloc(device: &Device, lengths: Lengths) -> Result<Scratch> {
        let [by_coarse, by_partition, overflow, bins, contested, ranks] = lengths;
        Ok(Scratch {
            by_coarse: device.alloc(by_coarse)?,
            by_partition: device.alloc(by_partition)?,
            overflow: device.alloc(overflow)?,
            cursors: device.alloc(bins)?,
            valid: device.alloc(bins)?,
            contested: device.alloc(contested)?,
            ranks: device.alloc(ranks)?,
            state: device.alloc(state::WORDS)?,
            clean: false,
            built: None,
        })
    }
    pub(crate) fn bytes(&self) -> usize {
        let words = [&self.by_coarse, &self.by_partition, &self.overflow, &self.contested]
            .map(|b| b.bytes());
        let halves = [&self.cursors, &self.valid, &self.ranks, &self.state].map(|b| b.bytes());
        words.iter().sum::<usize>() + halves.iter().sum::<usize>()
    }
    /// Returns whether the words that builds share are reset, as they must be before and after a
    /// build.
    #[cfg(test)]
    pub(crate) fn is_clean(&self) -> bool {
        let zero = |b: &Buffer<u32>| b.download().unwrap().iter().all(|&w| w == 0);
        zero(&self.cursors)
            && zero(&self.ranks)
            && zero(&self.state)
            && self.valid.download().unwrap().iter().all(|&w| w == !0)
            && self.contested.download().unwrap().iter().all(|&w| w == !0)
    }
    /// Returns whether the memory suffices for a build of this plan.
    pub(crate) fn fits<L: Layout>(&self, plan: &Plan) -> bool {
        let enough = |(&has, needs)| has >= needs;
        self.built == Some(*plan)
            || self.lengths().iter().zip(Scratch::needs::<L>(plan)).all(enough)
    }
    fn lengths(&self) -> Lengths {
        let words =
            [&self.by_coarse, &self.by_partition, &self.overflow, &self.contested].map(|b| b.len());
        let [by_coarse, by_partition, overflow, contested] = words;
        [by_coarse, by_partition, overflow, self.cursors.len(), contested, self.ranks.len()]
    }
    /// Resets the words that builds share, unless the previous build was enqueued completely and
    /// does so.
    fn begin(&mut self, stream: &Stream) -> Result<()> {
        if !self.clean {
            self.state.view_mut().fill_bytes(0, stream)?;
            self.cursors.view_mut().fill_bytes(0, stream)?;
            self.valid.view_mut().fill_bytes(0xFF, stream)?;
            self.contested.view_mut().fill_bytes(0xFF, stream)?;
            self.ranks.view_mut().fill_bytes(0, stream)?;
        }
        self.clean = false;
        Ok(())
    }
    /// Returns the memory of the partition passes. The output of the first of two passes is stored
    /// at the end of the table, if there is room: see [`koel_kernels::map::pipeline`].
    fn passes<'a, L: Layout>(
        &'a mut self,
        plan: &Plan,
        division: &Division,
        table: &'a mut Slots,
    ) -> Result<Passes<'a>> {
        // `by_coarse` may have memory that another plan needed.
        let in_table = Words::of::<L>(plan).by_coarse == 0;
        let coarse = division.coarse_places(plan) * L::SLOT_WORDS;
        let words = plan.words::<L>();
        Ok(Passes {
            by_coarse: match in_table {
                true => table.slots.view_mut().slice(words - coarse..words)?,
                false => self.by_coarse.view_mut(),
            },
            by_partition: self.by_partition.view_mut(),
            overflow: self.overflow.view_mut(),
            cursors: self.cursors.view_mut(),
            valid: self.valid.view_mut(),
            stash: table.stash.view_mut(),
            state: self.state.view_mut(),
        })
    }
    /// Returns the lengths that a build of this plan needs.
    fn needs<L: Layout>(plan: &Plan) -> Lengths {
        let Words { by_coarse, by_partition, overflow, .. } = Words::of::<L>(plan);
        let (contested, ranks) = (contested_words(plan.contested_bits), 1 << plan.contested_bits);
        [by_coarse, by_partition, overflow, Division::max_words::<L>(plan), contested, ranks]
    }
}
/// Lengths of the arrays of pairs, in words.
struct Words {
    by_coarse: usize,
    by_partition: usize,
    overflow: usize,
    /// Words of `by_partition` that hold waiting pairs, after the locks, when a failed build is
    /// repeated.
    waiting: usize,
}
impl Words {
    fn of<L: Layout>(plan: &Plan) -> Words {
        let coarse = Division::max_coarse_places::<L>(plan) * L::SLOT_WORDS;
        let locks = lock_words(plan.shape.all_buckets()) as usize;
        let by_partition = (plan.partition_places() * L::SLOT_WORDS).max(locks + 16);
        Words {
            by_coarse: if coarse <= plan.words::<L>() { 0 } else { coarse },
            by_partition,
            // The areas and the stamps of their pairs. Holds the pairs of the stash while a table
            // is made reproducible.
            overflow: (2 * plan.partitions.area as usize * (L::SLOT_WORDS + 1))
                .max(unstashed_words::<L>(plan.stash_bits)),
            waiting: by_partition - locks,
        }
    }
}

/// Input and parameters of a build.
pub(crate) struct Building<'a, L: Layout> {
    pub keys: View<'a, L::Key>,
    pub values: View<'a, L::Value>,
    pub duplicates: Duplicates,
    pub seeds: Seeds,
    pub reproducible: bool,
}

/// Enqueues a build. The table's header states the result once it has run.
///
/// Launches: one partition pass or two, the build, and the end of the build; two more if the table
/// is reproducible. The second pass and the build can be one launch.
pub(crate) fn build<L: DeviceLayout>(
    stream: &Stream,
    plan: &Plan,
    building: Building<'_, L>,
    table: &mut Slots,
    scratch: &mut Scratch,
) -> Result<()> {
    let Building { keys, values, duplicates, seeds, reproducible } = building;
    let seed = seeds.first;
    scratch.begin(stream)?;
    scratch.built = Some(*plan);
    let aligned = keys.is_aligned(16) && values.is_aligned(16);
    let (keys, values) = (keys.arg("keys", stream)?, values.arg("values", stream)?);
    let input = Input::<L> { keys, values, n: plan.n, seed, aligned: aligned as u32 };
    let division = Division::new::<L>(plan, duplicates, stream.device().max_shared());
    match plan.small_tile {
        Some(tile) => build_small::<L>(stream, plan, duplicates, tile, input, table, scratch)?,
        None => {
            let mut memory = scratch.passes::<L>(plan, &division, table)?;
            if is_pipelined::<L>(plan, duplicates) {
                memory.pass_over_input::<L>(stream, plan, &division, input, duplicates)?;
                run_pipeline::<L>(stream, plan, &division, duplicates, table, scratch)?;
            } else {
                partition::<L>(stream, plan, &division, input, duplicates, memory)?;
                build_partitions::<L>(stream, plan, &division, duplicates, table, scratch)?;
            }
        }
    }
    let pairs = PairsIn::<L> { keys, values };
    finalize::<L>(stream, plan, &division, (seeds, reproducible), pairs, table, scratch)?;
    if reproducible {
        make_reproducible::<L>(stream, plan, table, scratch)?;
    }
    scratch.clean = true;
    Ok(())
}
/// Groups of pairs in the order of partitions, none of which has the ambiguous key. The groups of a
/// partition lie where its pairs begin.
pub(crate) struct OrderedGroups<'a, K: KeyBits> {
    pub keys: View<'a, K>,
    /// Start of the values of each group.
    pub starts: View<'a, u32>,
    /// Numbers of the groups, from 0 on.
    pub numbers: View<'a, u32>,
    /// Number of groups, and number of pairs.
    pub groups: usize,
    pub pairs: usize,
    /// Start of the pairs of each partition.
    pub offsets: View<'a, u32>,
    /// First group of each partition.
    pub firsts: View<'a, u32>,
    /// Seeds, of which the first is that of the hash which determines partitions.
    pub seeds: Seeds,
}
impl<K: KeyBits> OrderedGroups<'_, K> {
    /// Returns the argument of kernels that compact the groups of `each` partitions at a time.
    pub(crate) fn compacting(
        &self,
        stream: &Stream,
        each: u32,
        keys_kept: &mut ViewMut<'_, K>,
        starts_kept: &mut ViewMut<'_, u32>,
    ) -> Result<Compacting<K>> {
        let (groups, pairs) = (count32("groups", self.groups)?, count32("pairs", self.pairs)?);
        let partitions = self.firsts.len() as u32;
        Ok(Compacting {
            ordered: Ordered { groups, pairs, partitions, each, seed: self.seeds.first },
            keys: self.keys.arg("keys", stream)?,
            starts: self.starts.arg("starts", stream)?,
            offsets: self.offsets.arg("offsets", stream)?,
            firsts: self.firsts.arg("firsts", stream)?,
            keys_kept: keys_kept.arg("keys", stream)?,
            starts_kept: starts_kept.arg("starts", stream)?,
        })
    }
}
/// Like [`build`], from the keys of groups to their numbers. Writes the compacted keys and starts
/// to `kept`. Launches: the build and the end of the build.
pub(crate) fn build_from_groups<K: KeyBits>(
    stream: &Stream,
    plan: &Plan,
    groups: OrderedGroups<'_, K>,
    (mut keys_kept, mut starts_kept): (ViewMut<'_, K>, ViewMut<'_, u32>),
    table: &mut Slots,
    scratch: &mut Scratch,
) -> Result<()> {
    scratch.begin(stream)?;
    table.stash.view_mut().fill_bytes(0xFF, stream)?;
    let partitions = plan.shape.partitions;
    let each = groups.firsts.len() as u32 / partitions;
    let compacting = groups.compacting(stream, each, &mut keys_kept, &mut starts_kept)?;
    let to = target(stream, plan.source(), table, scratch)?;
    // SAFETY: there are no more groups than pairs; there is room for as many keys and for one more
    // start; there is an offset and a first group for each partition; the rest is as in
    // `build_partitions`.
    unsafe {
        map_build_from_groups::launch::<K::Layout<u32>, _>(
            stream, partitions, plan.shape, compacting, to,
        )
    }?;
    let (keys, values) =
        (keys_kept.view().arg("keys", stream)?, groups.numbers.arg("numbers", stream)?);
    let pairs = PairsIn::<K::Layout<u32>> { keys, values };
    let max_shared = stream.device().max_shared();
    let division = Division::new::<K::Layout<u32>>(plan, Duplicates::Unchecked, max_shared);
    finalize(stream, plan, &division, (groups.seeds, false), pairs, table, scratch)?;
    scratch.clean = true;
    Ok(())
}
/// Launches the end of a build.
fn finalize<L: DeviceLayout>(
    stream: &Stream,
    plan: &Plan,
    division: &Division,
    (seeds, keeps_seed): (Seeds, bool),
    pairs: PairsIn<L>,
    table: &mut Slots,
    scratch: &mut Scratch,
) -> Result<()> {
    let &Division { tile, tiles, stamps, .. } = division;
    let finalizing = Finalizing {
        n: plan.n,
        tile: tile.pairs::<L>(),
        tiles,
        seed: seeds.first,
        redraws: seeds.redraws,
        stash_bits: plan.stash_bits,
        contested_bits: plan.contested_bits,
        bins: division.words(plan),
        waiting: (Words::of::<L>(plan).waiting / L::SLOT_WORDS) as u32,
        keeps_seed: keeps_seed as u32,
        gives_up: seeds.gives_up as u32,
    };
    let grid = resident(stream, plan.n, FINALIZE_TILE);
    let memory = Memory {
        contested: scratch.contested.view_mut().arg("contested", stream)?,
        ranks: scratch.ranks.view_mut().arg("ranks", stream)?,
        locks: scratch.by_partition.view_mut().arg("locks", stream)?,
        cursors: scratch.cursors.view_mut().arg("cursors", stream)?,
        valid: scratch.valid.view_mut().arg("valid", stream)?,
        build_state: scratch.state.view_mut().arg("state", stream)?,
    };
    let table = table.table_mut(stream, plan)?;
    // SAFETY: all memory is as the build left it.
    unsafe { map_finalize::launch(stream, grid, finalizing, stamps, pairs, table, memory) }
}
/// Places the pairs of a finished table anew. Uses the memory of the build: stashed pairs wait in
/// the overflow areas.
pub(crate) fn make_reproducible<L: DeviceLayout>(
    stream: &Stream,
    plan: &Plan,
    table: &mut Slots,
    scratch: &mut Scratch,
) -> Result<()> {
    let shape = plan.shape;
    // One word per partition, all ones between builds.
    let ours = ..shape.partitions as usize;
    let lists = scratch.valid.view_mut().slice(ours)?.arg("lists", stream)?;
    let stash = table.stash.view_mut().arg("stash", stream)?;
    let header = table.header.view().arg("header", stream)?;
    let unstashed = scratch.overflow.view_mut().arg("unstashed", stream)?;
    // SAFETY: the table is built; there is a word for each partition, and room for the whole stash.
    unsafe {
        map_unstash::launch::<L::Stored, _>(
            stream,
            1,
            shape,
            plan.stash_bits,
            stash,
            unstashed,
            lists,
            header,
        )
    }?;
    let unstashed = scratch.overflow.view().arg("unstashed", stream)?;
    let table = table.table_mut(stream, plan)?;
    // SAFETY: as above; the stashed pairs are as that launch left them.
    unsafe {
        map_reproduce::launch::<L::Stored, _>(stream, shape.partitions, table, unstashed, lists)
    }
}

/// Returns the output of the last pass: pairs, or records of pairs.
fn partitions_in(stream: &Stream, scratch: &mut Scratch) -> Result<PartitionsIn> {
    Ok(PartitionsIn {
        pairs: scratch.by_partition.view_mut().arg("pairs", stream)?,
        counts: scratch.cursors.view_mut().arg("counts", stream)?,
        valid: scratch.valid.view_mut().arg("valid", stream)?,
        overflow: scratch.overflow.view_mut().arg("overflow", stream)?,
    })
}
/// Returns the output of the kernels that build partitions.
fn target(
    stream: &Stream,
    source: Source,
    table: &mut Slots,
    scratch: &mut Scratch,
) -> Result<Target> {
    Ok(Target {
        source,
        slots: table.slots.view_mut().arg("slots", stream)?,
        stash: table.stash.view_mut().arg("stash", stream)?,
        contested: scratch.contested.view_mut().arg("contested", stream)?,
        build_state: scratch.state.view_mut().arg("state", stream)?,
    })
}
/// Builds the buckets of all partitions from the output of the passes.
fn build_partitions<L: DeviceLayout>(
    stream: &Stream,
    plan: &Plan,
    division: &Division,
    duplicates: Duplicates,
    table: &mut Slots,
    scratch: &mut Scratch,
) -> Result<()> {
    let shape = plan.shape;
    let from = partitions_in(stream, scratch)?;
    let to = target(stream, division.source(plan), table, scratch)?;
    let launch = match duplicates {
        Duplicates::Unchecked => map_build_unchecked::launch::<L::Stored, Stream>,
        _ => map_build::launch::<L::Stored, Stream>,
    };
    // SAFETY: the bins are as the passes left them; `slots` has the buckets of all partitions, the
    // stash 2^`stash_bits` slots.
    unsafe { launch(stream, shape.partitions, shape, division.stamps, from, to) }
}
/// Returns whether one launch does the second of two passes and the build. Narrow builds that drop
/// copies have two launches: on an H100 one would be 2 to 5 % faster with distinct keys, on an H200
/// as much slower, and slower on both where many copies do not fit their bins.
fn is_pipelined<L: Layout>(plan: &Plan, duplicates: Duplicates) -> bool {
    let gains = duplicates == Duplicates::Unchecked || L::SLOT_WORDS > 1;
    plan.coarse.is_some() && plan.lead != 0 && gains
}
/// Launches the second of two passes together with the build of all partitions.
fn run_pipeline<L: DeviceLayout>(
    stream: &Stream,
    plan: &Plan,
    division: &Division,
    duplicates: Duplicates,
    table: &mut Slots,
    scratch: &mut Scratch,
) -> Result<()> {
    let shape = plan.shape;
    let in_table = Words::of::<L>(plan).by_coarse == 0;
    let to = target(stream, division.source(plan), table, scratch)?;
    let from = partitions_in(stream, scratch)?;
    let mut passes = scratch.passes::<L>(plan, division, table)?;
    let (coarse, pairs, out) = passes.between::<L>(stream, plan, division, duplicates, TILE)?;
    let groups = coarse.bins.count;
    let in_group = coarse.bins.room * coarse.regions * L::SLOT_WORDS as u32;
    let pipeline = Pipeline {
        lead: (plan.lead / in_group).clamp(1, groups),
        last: resident(stream, shape.partitions, 1),
        finished: division.bin_words(plan),
        bins: match in_table {
            true => shape.all_buckets() * BUCKET as u64 - division.coarse_places(plan) as u64,
            false => u64::MAX,
        },
    };
    let blocks = pipeline.blocks(groups, coarse.tiles * coarse.regions, to.source.each);
    let launch = match duplicates {
        Duplicates::Unchecked => map_pipeline_unchecked::launch::<L::Stored, Stream>,
        _ => map_pipeline::launch::<Wide<u64, u64>, Stream>,
    };
    // SAFETY: pairs whose copies are dropped are wide, all of which are stored in one way; the bins
    // of the first pass are as it left them; the rest is as in `pass_over_coarse` and
    // `build_partitions`. What the buckets of a group overwrite, in the table, is no bin of a later
    // group.
    unsafe {
        launch(stream, blocks, shape, division.stamps, pipeline, coarse, pairs, out, from, to)
    }
}
/// Builds a small input: a pass over it, then the buckets, from records.
fn build_small<L: DeviceLayout>(
    stream: &Stream,
    plan: &Plan,
    duplicates: Duplicates,
    tile: u32,
    input: Input<L>,
    table: &mut Slots,
    scratch: &mut Scratch,
) -> Result<()> {
    let shape = plan.shape;
    let keep_first = (duplicates == Duplicates::KeepFirst) as u32;
    let blocks = plan.n.div_ceil(tile).max(1);
    let keys = KeysIn::<L::OfKey> { keys: input.keys, n: plan.n, seed: input.seed };
    let records = BinsOut {
        bins: with_crowd(plan.partitions, duplicates, tile),
        pairs: scratch.by_partition.view_mut().arg("records", stream)?,
        overflow: scratch.overflow.view_mut().arg("overflow", stream)?,
        cursors: scratch.cursors.view_mut().arg("cursors", stream)?,
        valid: scratch.valid.view_mut().arg("valid", stream)?,
        build_state: scratch.state.view_mut().arg("state", stream)?,
    };
    let slots = table.stash.view_mut().arg("stash", stream)?;
    let stash = StashOut { slots, words: stash_words::<L>(plan) as u32 };
    // SAFETY: there are `n` keys, a cursor per bin, room for the records of every bin, and the
    // overflow area.
    unsafe { map_records::launch(stream, blocks, keys, tile, keep_first, records, stash) }?;
    let from = partitions_in(stream, scratch)?;
    let to = target(stream, plan.source(), table, scratch)?;
    // SAFETY: the records of this input are as the pass left them; the rest is as in
    // `build_partitions`.
    unsafe { map_build_small::launch(stream, shape.partitions, shape, input, keep_first, from, to) }
}

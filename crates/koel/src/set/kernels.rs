//! Builds and combinations by kernels, on a GPU or on the test executor. Nothing here waits for the
//! device.
use super::Keys;
use crate::device::{Apart, Buffer, Device, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::Result;
use crate::seed::Seeds;
use crate::table::plan::{Plan, PlanTuning, with_crowd};
use crate::table::slots::{FINALIZE_TILE, Slots, resident, stash_words};
use crate::table::{THREADS, slots_of};
use crate::types::KeyBits;
use koel_kernels::set::build::{Arrived, set_build};
use koel_kernels::set::combine::{
    Combined, Ending, combine_bytes, how, set_combine, set_combined, spare_words,
};
use koel_kernels::set::export::set_export;
use koel_kernels::set::finalize::{Finalizing, Memory, mark_words, set_finalize};
use koel_kernels::set::find::set_contains;
use koel_kernels::set::layout::Member;
use koel_kernels::set::partition::{
    FEW_BINS, KeysIn, MANY_BINS, set_from_coarse, set_from_input, set_from_input_many,
};
use koel_kernels::table::append::KeysOut;
use koel_kernels::table::bins::{Bins, BinsOut, CoarseIn, StashOut};
use koel_kernels::table::state;
use koel_simt::{Buf, In};

const _: () =
    assert!(set_contains::u32::SPEC.threads == THREADS && set_export::u32::SPEC.threads == THREADS);

/// Returns the sizes for plans of sets. A block takes twice as many 32-bit keys as 64-bit keys, in
/// as many bytes.
pub(super) fn sizes<K: Member>() -> PlanTuning {
    let (pairs, shared): (u32, fn(u32, u32) -> u32) = match size_of::<K>() {
        4 => (7200, |buckets, list| combine_bytes(buckets, list, 4)),
        _ => (3600, |buckets, list| combine_bytes(buckets, list, 8)),
    };
    PlanTuning {
        bucket: K::SLOTS,
        most: u32::MAX,
        shared,
        pairs,
        medium: 0,
        one_pass: MANY_BINS.bins,
        copies: 6.0,
        ..PlanTuning::TUNED
    }
}
/// Plans a set of `n` keys.
pub(super) fn plan_of<K: Member>(n: usize, load: f64) -> Result<Plan> {
    Plan::sized(n, load, sizes::<K>())
}

/// Memory of the partition passes over an array of keys.
pub(crate) struct Passes<K: KeyBits> {
    /// Bins of the first of two passes; empty if they are stored elsewhere.
    by_coarse: Buffer<K>,
    /// Bins of the last pass; afterwards memory for the fallback.
    by_partition: Buffer<K>,
    /// Overflow areas of both passes.
    overflow: Buffer<K>,
    /// Cursors of the bins of both passes, then how many keys of each bin are valid.
    cursors: Buffer<u32>,
    valid: Buffer<u32>,
    state: Buffer<u32>,
    /// Whether cursors, valid counts and state are reset, as builds leave them.
    clean: bool,
}
/// Lengths of the arrays of keys.
#[derive(Clone, Copy)]
pub(crate) struct Lengths {
    pub by_coarse: usize,
    pub by_partition: usize,
}
impl Lengths {
    /// Returns the lengths for the build of a set.
    pub(crate) fn of_set<K: KeyBits>(plan: &Plan) -> Lengths {
        let coarse = plan.coarse_places();
        Lengths {
            by_coarse: if coarse <= slots_of::<Keys<K>>(plan.shape) { 0 } else { coarse },
            by_partition: plan.partition_places().max(marks::<K>(plan) + waiting(plan) as usize),
        }
    }
    /// Returns the lengths for an array that is combined. The fallback has a table for `keys` keys.
    pub(crate) fn of_array(plan: &Plan, keys: usize) -> Lengths {
        let again = spare_words(spare_slots(keys) as usize);
        Lengths {
            by_coarse: plan.coarse_places(),
            by_partition: plan.partition_places().max(again),
        }
    }
}
/// Returns the number of words for the marks of a set that is built again. `waiting` returns the
/// slots of its table of waiting keys: more than there are keys.
fn marks<K: KeyBits>(plan: &Plan) -> usize {
    mark_words::<K>(plan.shape.all_buckets()) as usize
}
fn waiting(plan: &Plan) -> u32 {
    plan.n + 1
}
/// Returns the slots of the fallback's table for `keys` keys of a combination.
fn spare_slots(keys: usize) -> u32 {
    (keys + keys / 32 + 1) as u32
}
impl<K: KeyBits> Passes<K> {
    pub(crate) fn new(device: &Device, plan: &Plan, lengths: Lengths) -> Result<Passes<K>> {
        Ok(Passes {
            by_coarse: device.alloc(lengths.by_coarse)?,
            by_partition: device.alloc(lengths.by_partition)?,
            overflow: device.alloc(2 * plan.partitions.area as usize)?,
            cursors: device.alloc(plan.bins() as usize)?,
            valid: device.alloc(plan.bins() as usize)?,
            state: device.alloc(state::WORDS)?,
            clean: false,
        })
    }
    pub(crate) fn bytes(&self) -> usize {
        let keys = [&self.by_coarse, &self.by_partition, &self.overflow].map(|b| b.bytes());
        let words = [&self.cursors, &self.valid, &self.state].map(|b| b.bytes());
        keys.iter().sum::<usize>() + words.iter().sum::<usize>()
    }
    /// Returns whether the memory suffices for this plan.
    pub(crate) fn fits(&self, plan: &Plan, lengths: Lengths) -> bool {
        self.by_coarse.len() >= lengths.by_coarse
            && self.by_partition.len() >= lengths.by_partition
            && self.overflow.len() >= 2 * plan.partitions.area as usize
            && self.cursors.len() >= plan.bins() as usize
    }
    /// Returns whether the words that builds share are reset, as they must be before and after a
    /// build.
    #[cfg(test)]
    pub(crate) fn is_clean(&self) -> bool {
        let zero = |b: &Buffer<u32>| b.download().unwrap().iter().all(|&w| w == 0);
        zero(&self.cursors)
            && zero(&self.state)
            && self.valid.download().unwrap().iter().all(|&w| w == !0)
    }
    /// Partitions the keys: one or two launches. `coarse` receives the output of the first of two
    /// passes, unless `self` has memory for it. `stash` is cleared.
    fn run(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        seed: u32,
        keys: View<'_, K>,
        mut coarse: Option<ViewMut<'_, K>>,
        stash: StashOut,
    ) -> Result<()> {
        if !self.clean {
            self.state.view_mut().fill_bytes(0, stream)?;
            self.cursors.view_mut().fill_bytes(0, stream)?;
            self.valid.view_mut().fill_bytes(0xFF, stream)?;
        }
        self.clean = false;
        if self.by_coarse.len() >= plan.coarse_places() {
            coarse = None;
        }
        self.pass_over_input(stream, plan, seed, keys, coarse.as_mut(), stash)?;
        match plan.coarse {
            Some(coarse_bins) => self.pass_over_coarse(stream, plan, coarse_bins, coarse),
            None => Ok(()),
        }
    }
    /// Launches the pass over the input, to the bins of the first of two passes or to the
    /// partitions.
    fn pass_over_input(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        seed: u32,
        keys: View<'_, K>,
        coarse: Option<&mut ViewMut<'_, K>>,
        stash: StashOut,
    ) -> Result<()> {
        let (n, aligned) = (plan.n, keys.is_aligned(16) as u32);
        let input = KeysIn { keys: keys.arg("keys", stream)?, n, seed, aligned };
        let first = plan.first_bins();
        let many = first.count > FEW_BINS.bins;
        let in_tile = if many { MANY_BINS } else { FEW_BINS }.keys::<K>();
        let ours = ..plan.coarse.map_or(plan.bins(), |coarse| coarse.count) as usize;
        let out = BinsOut {
            bins: with_crowd(first, Duplicates::KeepLast, in_tile),
            pairs: match (plan.coarse, coarse) {
                (None, _) => self.by_partition.view_mut().arg("partitions", stream)?,
                (Some(_), Some(coarse)) => coarse.arg("coarse", stream)?,
                (Some(_), None) => self.by_coarse.view_mut().arg("coarse", stream)?,
            },
            overflow: self.overflow.view_mut().arg("overflow", stream)?,
            cursors: self.cursors.view_mut().slice(ours)?.arg("cursors", stream)?,
            valid: self.valid.view_mut().slice(ours)?.arg("valid", stream)?,
            build_state: self.state.view_mut().arg("state", stream)?,
        };
        let launch = match many {
            true => set_from_input_many::launch::<K, Stream>,
            false => set_from_input::launch::<K, Stream>,
        };
        // SAFETY: there are `n` keys, a cursor per bin, room for every bin, and both overflow
        // areas.
        unsafe { launch(stream, n.div_ceil(in_tile).max(1), input, out, stash) }
    }
    /// Launches the second pass, from the bins of the first one (in `coarse`, or else in `self`) to
    /// the partitions.
    fn pass_over_coarse(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        coarse_bins: Bins,
        coarse: Option<ViewMut<'_, K>>,
    ) -> Result<()> {
        let (of_coarse, bins) = (coarse_bins.count as usize, plan.bins() as usize);
        let in_tile = FEW_BINS.keys::<K>();
        let tiles = coarse_bins.room.div_ceil(in_tile);
        let from = CoarseIn {
            bins: coarse_bins,
            tiles,
            regions: 1,
            cursors: self.cursors.view().slice(..of_coarse)?.arg("cursors", stream)?,
            valid: self.valid.view().slice(..of_coarse)?.arg("valid", stream)?,
        };
        let keys = match &coarse {
            Some(coarse) => coarse.view().arg("coarse", stream)?,
            None => self.by_coarse.view().arg("coarse", stream)?,
        };
        let out = BinsOut {
            bins: with_crowd(plan.partitions, Duplicates::KeepLast, in_tile),
            pairs: self.by_partition.view_mut().arg("partitions", stream)?,
            overflow: self.overflow.view_mut().arg("overflow", stream)?,
            cursors: self.cursors.view_mut().slice(of_coarse..bins)?.arg("cursors", stream)?,
            valid: self.valid.view_mut().slice(of_coarse..bins)?.arg("valid", stream)?,
            build_state: self.state.view_mut().arg("state", stream)?,
        };
        let (grid, partitions) = (coarse_bins.count * tiles, plan.shape.partitions);
        // SAFETY: there is a cursor per bin; the input bins are as the first pass left them; there
        // is room for every output bin, and both overflow areas.
        unsafe { set_from_coarse::launch(stream, grid, partitions, from, keys, out) }
    }
    /// Returns the output of the last pass.
    fn arrived(&mut self, stream: &Stream, plan: &Plan) -> Result<Arrived<K>> {
        Ok(Arrived {
            shape: plan.shape,
            source: plan.source(),
            keys: self.by_partition.view().arg("keys", stream)?,
            counts: self.cursors.view().arg("counts", stream)?,
            valid: self.valid.view().arg("valid", stream)?,
            overflow: self.overflow.view().arg("overflow", stream)?,
            build_state: self.state.view_mut().arg("state", stream)?,
        })
    }
    /// Returns the words that the end of a build resets.
    fn counters(&mut self, stream: &Stream) -> Result<[Buf<u32>; 3]> {
        Ok([
            self.cursors.view_mut().arg("cursors", stream)?,
            self.valid.view_mut().arg("valid", stream)?,
            self.state.view_mut().arg("state", stream)?,
        ])
    }
}
/// Returns memory for the passes over an array: `kept` if that suffices, otherwise new memory.
pub(super) fn reserve<'a, K: KeyBits>(
    device: &Device,
    kept: &'a mut Option<Passes<K>>,
    plan: &Plan,
    lengths: Lengths,
) -> Result<&'a mut Passes<K>> {
    let memory = match kept.take() {
        Some(memory) if memory.fits(plan, lengths) => memory,
        // Free the old memory first: both need not fit.
        other => {
            drop(other);
            Passes::new(device, plan, lengths)?
        }
    };
    Ok(kept.insert(memory))
}

/// Enqueues a build. The set's header states the result once it has run.
///
/// Launches: one partition pass or two, the build, and the end of the build.
pub(super) fn build<K: KeyBits>(
    stream: &Stream,
    plan: &Plan,
    seeds: Seeds,
    keys: View<'_, K>,
    set: &mut Slots<K>,
    passes: &mut Passes<K>,
) -> Result<()> {
    let Seeds { first: seed, redraws, gives_up } = seeds;
    let stash = set.stash.view_mut().arg("stash", stream)?;
    let cleared = StashOut { slots: stash, words: stash_words::<K::Pairs>(plan) as u32 };
    passes.run(stream, plan, seed, keys, Some(set.slots.view_mut()), cleared)?;
    let slots = set.slots.view_mut().arg("slots", stream)?;
    let arrived = passes.arrived(stream, plan)?;
    // SAFETY: the bins are as the passes left them; `slots` has the buckets of all partitions, the
    // stash 2^`stash_bits` slots.
    unsafe { set_build::launch(stream, plan.shape.partitions, arrived, slots, stash) }?;
    let finalizing = Finalizing {
        n: plan.n,
        seed,
        redraws,
        bins: plan.bins(),
        waiting: waiting(plan),
        gives_up: gives_up as u32,
    };
    let keys = keys.arg("keys", stream)?;
    let spare = passes.by_partition.view_mut().arg("spare", stream)?;
    let [cursors, valid, build_state] = passes.counters(stream)?;
    let memory = Memory { spare, cursors, valid, build_state };
    let (grid, table) = (resident(stream, plan.n, FINALIZE_TILE), set.table_mut(stream, plan)?);
    // SAFETY: all memory is as the build left it; the spare memory has the marks, and a slot for
    // each key.
    unsafe { set_finalize::launch(stream, grid, finalizing, keys, table, memory) }?;
    passes.clean = true;
    Ok(())
}

/// A partitioned array, with the memory that this took.
#[derive(Clone, Copy)]
struct Parted<K: KeyBits> {
    n: u32,
    bins: u32,
    arrived: Arrived<K>,
    /// Words that the end of the combination resets.
    counters: [Buf<u32>; 3],
    input: In<K>,
}
/// Partitions an array that is combined.
fn part_array<K: KeyBits>(
    stream: &Stream,
    plan: &Plan,
    seed: u32,
    keys: View<'_, K>,
    passes: &mut Passes<K>,
    count: &mut ViewMut<'_, u64>,
) -> Result<Parted<K>> {
    // There is no stash to clear: none of these words is accessed.
    let no_stash = StashOut { slots: count.arg("count", stream)?, words: 0 };
    passes.run(stream, plan, seed, keys, None, no_stash)?;
    Ok(Parted {
        n: plan.n,
        bins: plan.bins(),
        arrived: passes.arrived(stream, plan)?,
        counters: passes.counters(stream)?,
        input: keys.arg("keys", stream)?,
    })
}

/// Enqueues a combination of one array or two: `keys[..count[0]]`, in any order. Both arrays have
/// the same partitions.
///
/// Launches: one partition pass or two for each array, the combination, and its end; and a fill.
pub(super) fn combine_arrays<K: KeyBits>(
    stream: &Stream,
    what: u32,
    seed: u32,
    (plan, first_keys, first_passes): (&Plan, View<'_, K>, &mut Passes<K>),
    mut second: Option<(&Plan, View<'_, K>, &mut Passes<K>)>,
    mut keys: ViewMut<'_, K>,
    mut count: ViewMut<'_, u64>,
) -> Result<()> {
    let _apart = Apart::begin();
    debug_assert_eq!(second.is_none(), what == how::DISTINCT);
    count.fill_bytes(0, stream)?;
    let first = part_array(stream, plan, seed, first_keys, first_passes, &mut count)?;
    let other = match &mut second {
        Some((plan, keys, passes)) => part_array(stream, plan, seed, *keys, passes, &mut count)?,
        // The first array stands in for it.
        None => Parted { n: 0, bins: 0, ..first },
    };
    let to = KeysOut { keys: keys.arg("keys", stream)?, count: count.arg("count", stream)? };
    let partitions = plan.shape.partitions;
    // SAFETY: the bins of both arrays are as their passes left them; there is room for the largest
    // possible result.
    unsafe {
        set_combine::launch(stream, partitions, what, seed, first.arrived, other.arrived, to)
    }?;
    let n = [first.n, other.n];
    let put = if what == how::UNION { n[0] as usize + n[1] as usize } else { n[0] as usize };
    let bins = [first.bins, other.bins];
    let ending = Ending { what, seed, n, bins, slots: spare_slots(put) };
    let [cursors, valid, states] = [0, 1, 2].map(|i| [first.counters[i], other.counters[i]]);
    let combined = Combined {
        inputs: [first.input, other.input],
        spare: first_passes.by_partition.view_mut().arg("spare", stream)?,
        cursors,
        valid,
        states,
    };
    let grid = resident(stream, n[0].max(n[1]), FINALIZE_TILE);
    // SAFETY: as above; the spare memory has a slot for each key that is inserted there.
    unsafe { set_combined::launch(stream, grid, ending, combined, to) }?;
    first_passes.clean = true;
    if let Some((.., passes)) = second {
        passes.clean = true;
    }
    Ok(())
}

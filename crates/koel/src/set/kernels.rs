//! Builds, lookups and combinations by kernels: on a GPU, and on the test executor. Nothing here
//! waits.
use crate::device::{Buffer, Device, Element, Stream, View, ViewMut};
use crate::duplicates::Duplicates;
use crate::error::Result;
use crate::map::kernels::{Slots, resident, stash_words};
use crate::map::plan::{Plan, Sizes, with_crowd};
use crate::seed::Seeds;
use koel_kernels::map::build::Source;
use koel_kernels::map::few::Few;
use koel_kernels::map::layout::Shape;
use koel_kernels::map::partition::Bins;
use koel_kernels::map::state;
use koel_kernels::map::update::Applying;
use koel_kernels::set::combine::{Ending, combine_bytes, how, spare_words};
use koel_kernels::set::find::Table;
use koel_kernels::set::layout::Member;
use koel_kernels::set::partition::{FEW_BINS, MANY_BINS};
use koel_kernels::set::settle::{Settling, mark_words};
use koel_kernels::set::{build, combine, export, few, find, partition, settle, update};
use koel_simt::{Buf, In};

macro_rules! kernels { ($($(#[$doc:meta])* $f:ident($($arg:ident: $of:ty),* $(; table; $($more:ident: $more_of:ty),*)?): $module:ident $u32:ident $u64:ident;)*) => {
    /// A type of keys and its kernels: each function launches one of them on a stream, in `grid`
    /// blocks. Kernels take a table in parts.
    #[allow(clippy::too_many_arguments, reason = "as many as the kernels have")]
    pub trait Kernels: Member<Pairs: crate::map::kernels::Kernels> + Element {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// The arguments must fit the kernel.
            unsafe fn $f(stream: &Stream, grid: u32, $($arg: $of,)* $(table: Table<Self>, $($more: $more_of),*)?) -> Result<()>;
        )*
    }
    kernels!(@key u32 $([$f($($arg: $of),* $(; table; $($more: $more_of),*)?): $module $u32])*);
    kernels!(@key u64 $([$f($($arg: $of),* $(; table; $($more: $more_of),*)?): $module $u64])*);
};
    (@key $key:ident $([$f:ident($($arg:ident: $of:ty),* $(; table; $($more:ident: $more_of:ty),*)?): $module:ident $kernel:ident])*) => {
        impl Kernels for $key {
            $(
                unsafe fn $f(stream: &Stream, grid: u32, $($arg: $of,)* $(table: Table<Self>, $($more: $more_of),*)?) -> Result<()> {
                    // SAFETY: the caller's.
                    unsafe {
                        $module::$kernel::launch::<Stream>(
                            stream, grid, $($arg,)* $(table.shape, table.stash_bits, table.slots, table.stash, table.header, $($more),*)?
                        )
                    }
                }
            )*
        }
    };
}
kernels! {
    /// The pass over the input, into few bins.
    from_input(
        seed: u32, n: u32, aligned: u32, keys: In<Self>, bins: Bins, out: Buf<Self>, overflow: Buf<Self>, cursors: Buf<u32>, valid: Buf<u32>,
        stash: Buf<u64>, stash_words: u32, build_state: Buf<u32>
    ): partition set_from_input_u32 set_from_input_u64;
    /// The same, into many.
    from_input_many(
        seed: u32, n: u32, aligned: u32, keys: In<Self>, bins: Bins, out: Buf<Self>, overflow: Buf<Self>, cursors: Buf<u32>, valid: Buf<u32>,
        stash: Buf<u64>, stash_words: u32, build_state: Buf<u32>
    ): partition set_from_input_many_u32 set_from_input_many_u64;
    /// The pass inside the groups.
    from_groups(
        groups: Bins, tiles: u32, group_cursors: In<u32>, group_valid: In<u32>, input: In<Self>, bins: Bins, partitions: u32, out: Buf<Self>,
        overflow: Buf<Self>, cursors: Buf<u32>, valid: Buf<u32>, build_state: Buf<u32>
    ): partition set_from_groups_u32 set_from_groups_u64;
    /// The buckets of each partition, one block a partition.
    build_partitions(
        shape: Shape, source: Source, keys: In<Self>, counts: In<u32>, valid: In<u32>, overflow: In<Self>, slots: Buf<Self>, stash: Buf<u64>,
        build_state: Buf<u32>
    ): build set_build_u32 set_build_u64;
    /// The end of a build, in blocks that are resident all at once.
    settle(
        shape: Shape, settling: Settling, keys: In<Self>, slots: Buf<Self>, stash: Buf<u64>, spare: Buf<Self>, cursors: Buf<u32>,
        valid: Buf<u32>, build_state: Buf<u32>, table_header: Buf<u32>
    ): settle set_settle_u32 set_settle_u64;
    /// Found flags.
    find_flags(n: u32; table; queries: In<Self>, found: Buf<u8>): find set_contains_u32 set_contains_u64;
    /// Found bits.
    find_bits(n: u32; table; queries: In<Self>, found: Buf<u32>): find set_contains_bits_u32 set_contains_bits_u64;
    /// How many are found.
    find_count(n: u32; table; queries: In<Self>, count: Buf<u64>): find set_count_u32 set_count_u64;
    /// All keys.
    export(; table; keys: Buf<Self>, count: Buf<u64>): export set_export_u32 set_export_u64;
    /// The operations of each partition, one block a partition.
    update(
        shape: Shape, applying: Applying, sent: In<u64>, overflow: In<u64>, cursors: In<u32>, spilled: In<u32>, group_spilled: In<u32>,
        sent_state: In<u32>, operations: In<u8>, unstashed: Buf<u64>, lists: Buf<u32>, slots: Buf<Self>, stash: Buf<u64>, statuses: Buf<u8>,
        table_header: Buf<u32>, batch_state: Buf<u32>
    ): update set_update_u32 set_update_u64;
    /// What few operations left.
    update_left(
        shape: Shape, applying: Applying, sent: In<u64>, overflow: In<u64>, cursors: In<u32>, spilled: In<u32>, group_spilled: In<u32>,
        sent_state: In<u32>, operations: In<u8>, unstashed: Buf<u64>, lists: Buf<u32>, slots: Buf<Self>, stash: Buf<u64>, statuses: Buf<u8>,
        table_header: Buf<u32>, batch_state: Buf<u32>
    ): update set_update_left_u32 set_update_left_u64;
    /// The operations of each group, one block a group, as far as that is done in few buckets.
    update_few(
        shape: Shape, few: Few, sent: In<u64>, overflow: In<u64>, cursors: Buf<u32>, spilled: In<u32>, sent_state: In<u32>,
        values: In<Self>, operations: In<u8>, slots: Buf<Self>, stash: Buf<u64>, statuses: Buf<u8>, table_header: Buf<u32>,
        batch_state: Buf<u32>
    ): few set_update_few_u32 set_update_few_u64;
    /// What is made of two arrays, one block a partition.
    combine(
        what: u32, seed: u32, shape: Shape, source: Source, arrived: In<Self>, counts: In<u32>, valid: In<u32>, overflow: In<Self>,
        build_state: Buf<u32>, second_source: Source, second_arrived: In<Self>, second_counts: In<u32>, second_valid: In<u32>,
        second_overflow: In<Self>, second_state: Buf<u32>, keys: Buf<Self>, count: Buf<u64>
    ): combine set_combine_u32 set_combine_u64;
    /// The end of that, in blocks that are resident all at once.
    combined(
        ending: Ending, input: In<Self>, second_input: In<Self>, spare: Buf<Self>, cursors: Buf<u32>, valid: Buf<u32>, build_state: Buf<u32>,
        second_cursors: Buf<u32>, second_valid: Buf<u32>, second_state: Buf<u32>, keys: Buf<Self>, count: Buf<u64>
    ): combine set_combined_u32 set_combined_u64;
}

/// Keys that are enough for a block of the end of a build, if everything must be built again.
const SETTLED: u32 = 2048;
/// Threads of a block of the lookups and of the export.
pub const THREADS: u32 = 256;
const _: () = assert!(
    find::set_contains_u32::SPEC.threads == THREADS
        && export::set_export_u32::SPEC.threads == THREADS
);

/// What plans of sets are made of: twice the keys of 32 bits for a block as of 64, in as many
/// bytes.
pub fn sizes<K: Member>() -> Sizes {
    let (pairs, shared): (u32, fn(u32, u32) -> u32) = match size_of::<K>() {
        4 => (7200, |buckets, list| combine_bytes(buckets, list, 4)),
        _ => (3600, |buckets, list| combine_bytes(buckets, list, 8)),
    };
    Sizes { bucket: K::SLOTS, most: u32::MAX, shared, pairs, copies: 6.0, ..Sizes::TUNED }
}
/// The plan of a set.
pub fn plan_of<K: Member>(n: usize, load: f64) -> Result<Plan> {
    Plan::sized(n, load, sizes::<K>())
}
/// Slots of a set.
pub fn slots_of<K: Member>(plan: &Plan) -> usize {
    plan.shape.all_buckets() as usize * K::SLOTS as usize
}

/// Memory for a set of this plan.
pub fn slots<K: Kernels>(device: &Device, plan: &Plan) -> Result<Slots<K>> {
    Slots::alloc(device, slots_of::<K>(plan), stash_words::<K::Pairs>(plan))
}
/// Whether there is memory for a set of this plan.
pub fn fits<K: Kernels>(slots: &Slots<K>, plan: &Plan) -> bool {
    slots.has(slots_of::<K>(plan), stash_words::<K::Pairs>(plan))
}
/// A set as kernels see it.
pub fn table<K: Kernels>(slots: &Slots<K>, stream: &Stream, plan: &Plan) -> Result<Table<K>> {
    let (stash, header) =
        (slots.stash.view().arg("stash", stream)?, slots.header.view().arg("header", stream)?);
    Ok(Table::new(
        plan.shape,
        plan.stash_bits,
        slots.slots.view().arg("slots", stream)?,
        stash,
        header,
    ))
}

/// Memory in which the keys of an array come to their partitions.
pub struct Passes<K> {
    /// Keys by group: empty if there is room elsewhere.
    by_group: Buffer<K>,
    /// Keys by partition; afterwards memory for what is done again.
    by_partition: Buffer<K>,
    /// Behind the bins of both passes.
    overflow: Buffer<K>,
    /// Of both passes: cursors, then how much of each bin is valid.
    cursors: Buffer<u32>,
    valid: Buffer<u32>,
    state: Buffer<u32>,
    /// Cursors and state are as builds leave them: cleared.
    clean: bool,
}
/// Lengths of its arrays of keys.
#[derive(Clone, Copy)]
pub struct Lengths {
    pub by_group: usize,
    pub by_partition: usize,
}
impl Lengths {
    /// Of the build of a set.
    pub fn of_set<K: Kernels>(plan: &Plan) -> Lengths {
        let groups = plan.group_places();
        Lengths {
            by_group: if groups <= slots_of::<K>(plan) { 0 } else { groups },
            by_partition: plan.partition_places().max(marks::<K>(plan) + waiting(plan) as usize),
        }
    }
    /// Of an array that is combined, with a table for `keys` if that must be done again.
    pub fn of_array(plan: &Plan, keys: usize) -> Lengths {
        let again = spare_words(spare_slots(keys) as usize);
        Lengths { by_group: plan.group_places(), by_partition: plan.partition_places().max(again) }
    }
}
/// Words of the marks of a set that is built again, and slots of the table of keys that wait: more
/// than there are keys.
fn marks<K: Kernels>(plan: &Plan) -> usize {
    mark_words::<K>(plan.shape.all_buckets()) as usize
}
fn waiting(plan: &Plan) -> u32 {
    plan.n + 1
}
/// Slots of a table of so many keys for what is combined again.
fn spare_slots(keys: usize) -> u32 {
    (keys + keys / 32 + 1) as u32
}
impl<K: Kernels> Passes<K> {
    pub fn new(device: &Device, plan: &Plan, lengths: Lengths) -> Result<Passes<K>> {
        Ok(Passes {
            by_group: device.alloc(lengths.by_group)?,
            by_partition: device.alloc(lengths.by_partition)?,
            overflow: device.alloc(2 * plan.partitions.area as usize)?,
            cursors: device.alloc(plan.bins() as usize)?,
            valid: device.alloc(plan.bins() as usize)?,
            state: device.alloc(state::WORDS)?,
            clean: false,
        })
    }
    pub fn bytes(&self) -> usize {
        let keys = [&self.by_group, &self.by_partition, &self.overflow].map(|b| b.bytes());
        let words = [&self.cursors, &self.valid, &self.state].map(|b| b.bytes());
        keys.iter().sum::<usize>() + words.iter().sum::<usize>()
    }
    /// Whether there is memory for this plan.
    pub fn fits(&self, plan: &Plan, lengths: Lengths) -> bool {
        self.by_group.len() >= lengths.by_group
            && self.by_partition.len() >= lengths.by_partition
            && self.overflow.len() >= 2 * plan.partitions.area as usize
            && self.cursors.len() >= plan.bins() as usize
    }
    /// Whether what builds share is cleared, as it must be before a build and after it.
    #[cfg(test)]
    pub fn is_clean(&self) -> bool {
        let zero = |b: &Buffer<u32>| b.download().unwrap().iter().all(|&w| w == 0);
        zero(&self.cursors)
            && zero(&self.state)
            && self.valid.download().unwrap().iter().all(|&w| w == !0)
    }
    /// The partition passes: one or two launches. `groups`: where keys by group go if this has no
    /// memory for them. `stash`: what is to be cleared, and its words.
    fn run(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        seed: u32,
        keys: View<'_, K>,
        mut groups: Option<ViewMut<'_, K>>,
        (stash, stash_words): (Buf<u64>, u32),
    ) -> Result<()> {
        if !self.clean {
            self.state.view_mut().fill_bytes(0, stream)?;
            self.cursors.view_mut().fill_bytes(0, stream)?;
            self.valid.view_mut().fill_bytes(0xFF, stream)?;
        }
        self.clean = false;
        if self.by_group.len() >= plan.group_places() {
            groups = None;
        }
        self.pass_over_input(stream, plan, seed, keys, groups.as_mut(), (stash, stash_words))?;
        match plan.groups {
            Some(group_bins) => self.pass_in_groups(stream, plan, group_bins, groups),
            None => Ok(()),
        }
    }
    /// The first pass: to the bins of the groups, or of the partitions if there are no groups.
    fn pass_over_input(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        seed: u32,
        keys: View<'_, K>,
        groups: Option<&mut ViewMut<'_, K>>,
        (stash, stash_words): (Buf<u64>, u32),
    ) -> Result<()> {
        let (n, aligned) = (plan.n, keys.is_aligned(16) as u32);
        let keys = keys.arg("keys", stream)?;
        let overflow = self.overflow.view_mut().arg("overflow", stream)?;
        let state = self.state.view_mut().arg("state", stream)?;
        let out = match (plan.groups, groups) {
            (None, _) => self.by_partition.view_mut().arg("partitions", stream)?,
            (Some(_), Some(groups)) => groups.arg("groups", stream)?,
            (Some(_), None) => self.by_group.view_mut().arg("groups", stream)?,
        };
        let first = plan.first_bins();
        let many = first.count > FEW_BINS.bins;
        let in_tile = if many { MANY_BINS } else { FEW_BINS }.keys::<K>();
        let ours = ..plan.groups.map_or(plan.bins(), |groups| groups.count) as usize;
        let cursors = self.cursors.view_mut().slice(ours)?.arg("cursors", stream)?;
        let valid = self.valid.view_mut().slice(ours)?.arg("valid", stream)?;
        let (tiles, bins) =
            (n.div_ceil(in_tile).max(1), with_crowd(first, Duplicates::KeepLast, in_tile));
        // SAFETY: `n` keys; one cursor a bin; `out` has every bin's room, `overflow` both areas.
        unsafe {
            let launch = if many { K::from_input_many } else { K::from_input };
            launch(
                stream,
                tiles,
                seed,
                n,
                aligned,
                keys,
                bins,
                out,
                overflow,
                cursors,
                valid,
                stash,
                stash_words,
                state,
            )
        }
    }
    /// The second pass, from the groups that the first one left (`groups`, or else its own memory)
    /// to the bins of the partitions.
    fn pass_in_groups(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        group_bins: Bins,
        groups: Option<ViewMut<'_, K>>,
    ) -> Result<()> {
        let (of_groups, bins) = (group_bins.count as usize, plan.bins() as usize);
        let in_tile = FEW_BINS.keys::<K>();
        let tiles = group_bins.room.div_ceil(in_tile);
        let group_cursors = self.cursors.view().slice(..of_groups)?.arg("cursors", stream)?;
        let group_valid = self.valid.view().slice(..of_groups)?.arg("valid", stream)?;
        let input = match &groups {
            Some(groups) => groups.view().arg("groups", stream)?,
            None => self.by_group.view().arg("groups", stream)?,
        };
        let partitions = self.by_partition.view_mut().arg("partitions", stream)?;
        let overflow = self.overflow.view_mut().arg("overflow", stream)?;
        let cursors = self.cursors.view_mut().slice(of_groups..bins)?.arg("cursors", stream)?;
        let valid = self.valid.view_mut().slice(of_groups..bins)?.arg("valid", stream)?;
        let state = self.state.view_mut().arg("state", stream)?;
        let bins = with_crowd(plan.partitions, Duplicates::KeepLast, in_tile);
        // SAFETY: one cursor a bin; the input has every group's room, as the first pass left it;
        // `partitions` has every bin's, `overflow` both areas.
        unsafe {
            K::from_groups(
                stream,
                group_bins.count * tiles,
                group_bins,
                tiles,
                group_cursors,
                group_valid,
                input,
                bins,
                plan.shape.partitions,
                partitions,
                overflow,
                cursors,
                valid,
                state,
            )
        }
    }
    /// What came to the partitions.
    fn arrived(&mut self, stream: &Stream) -> Result<Arrived<K>> {
        Ok(Arrived {
            keys: self.by_partition.view().arg("keys", stream)?,
            counts: self.cursors.view().arg("counts", stream)?,
            valid: self.valid.view().arg("valid", stream)?,
            overflow: self.overflow.view().arg("overflow", stream)?,
            state: self.state.view_mut().arg("state", stream)?,
        })
    }
    /// What the end of a build clears.
    fn counters(&mut self, stream: &Stream) -> Result<[Buf<u32>; 3]> {
        Ok([
            self.cursors.view_mut().arg("cursors", stream)?,
            self.valid.view_mut().arg("valid", stream)?,
            self.state.view_mut().arg("state", stream)?,
        ])
    }
}
/// Memory for the passes over an array: what is there, if it is enough.
pub fn reserve<'a, K: Kernels>(
    device: &Device,
    kept: &'a mut Option<Passes<K>>,
    plan: &Plan,
    lengths: Lengths,
) -> Result<&'a mut Passes<K>> {
    let memory = match kept.take() {
        Some(memory) if memory.fits(plan, lengths) => memory,
        // The old one is given back first: both need not fit.
        other => {
            drop(other);
            Passes::new(device, plan, lengths)?
        }
    };
    Ok(kept.insert(memory))
}
/// Keys in their partitions, as kernels read them.
#[derive(Clone, Copy)]
struct Arrived<K> {
    keys: In<K>,
    counts: In<u32>,
    valid: In<u32>,
    overflow: In<K>,
    state: Buf<u32>,
}

/// Puts a build on the stream. The set's header tells how it went, when it has run.
///
/// Launches: a pass over the input, with two passes another one, the build, the end of the build.
pub fn build<K: Kernels>(
    stream: &Stream,
    plan: &Plan,
    seeds: Seeds,
    keys: View<'_, K>,
    set: &mut Slots<K>,
    passes: &mut Passes<K>,
) -> Result<()> {
    let (n, shape) = (plan.n, plan.shape);
    let stash = set.stash.view_mut().arg("stash", stream)?;
    let Seeds { first: seed, redraws, gives_up } = seeds;
    passes.run(
        stream,
        plan,
        seed,
        keys,
        Some(set.slots.view_mut()),
        (stash, stash_words::<K::Pairs>(plan) as u32),
    )?;
    let slots = set.slots.view_mut().arg("slots", stream)?;
    let Arrived { keys: by_partition, counts, valid, overflow, state } = passes.arrived(stream)?;
    // SAFETY: the bins as the passes left them; `slots` has every partition's buckets, the stash
    // 2^`stash_bits` slots.
    unsafe {
        K::build_partitions(
            stream,
            shape.partitions,
            shape,
            plan.source(),
            by_partition,
            counts,
            valid,
            overflow,
            slots,
            stash,
            state,
        )
    }?;
    let settling = Settling {
        n,
        seed,
        redraws,
        stash_bits: plan.stash_bits,
        bins: plan.bins(),
        waiting: waiting(plan),
        gives_up: gives_up as u32,
    };
    let keys = keys.arg("keys", stream)?;
    let spare = passes.by_partition.view_mut().arg("spare", stream)?;
    let [cursors, valid, state] = passes.counters(stream)?;
    let header = set.header.view_mut().arg("header", stream)?;
    let grid = resident(stream, n, SETTLED);
    // SAFETY: everything as the build left it; the spare memory has marks and a slot for each key.
    unsafe {
        K::settle(
            stream, grid, shape, settling, keys, slots, stash, spare, cursors, valid, state, header,
        )
    }?;
    passes.clean = true;
    Ok(())
}

/// An array that was brought to its partitions, with the memory that this took.
#[derive(Clone, Copy)]
struct Parted<K> {
    n: u32,
    bins: u32,
    source: Source,
    arrived: Arrived<K>,
    /// What the end clears.
    counters: [Buf<u32>; 3],
    input: In<K>,
}
/// The passes over an array that is combined.
fn part_array<K: Kernels>(
    stream: &Stream,
    plan: &Plan,
    seed: u32,
    keys: View<'_, K>,
    passes: &mut Passes<K>,
    count: &mut ViewMut<'_, u64>,
) -> Result<Parted<K>> {
    // There is no stash to clear: none of its words is touched.
    let no_stash = (count.arg("count", stream)?, 0);
    passes.run(stream, plan, seed, keys, None, no_stash)?;
    Ok(Parted {
        n: plan.n,
        bins: plan.bins(),
        source: plan.source(),
        arrived: passes.arrived(stream)?,
        counters: passes.counters(stream)?,
        input: keys.arg("keys", stream)?,
    })
}

/// Puts on the stream what is made of one array or two: `keys[..count[0]]`, in any order. Both have
/// the same partitions.
///
/// Launches: for each array a pass over it, with two passes another one; one that combines, and the
/// end; and a fill.
pub fn combine_arrays<K: Kernels>(
    stream: &Stream,
    what: u32,
    seed: u32,
    (plan, first_keys, first_passes): (&Plan, View<'_, K>, &mut Passes<K>),
    mut second: Option<(&Plan, View<'_, K>, &mut Passes<K>)>,
    mut keys: ViewMut<'_, K>,
    mut count: ViewMut<'_, u64>,
) -> Result<()> {
    debug_assert_eq!(second.is_none(), what == how::DISTINCT);
    count.fill_bytes(0, stream)?;
    let first = part_array(stream, plan, seed, first_keys, first_passes, &mut count)?;
    let other = match &mut second {
        Some((plan, keys, passes)) => part_array(stream, plan, seed, *keys, passes, &mut count)?,
        // The first array stands for it.
        None => Parted { n: 0, bins: 0, ..first },
    };
    let (keys, count) = (keys.arg("keys", stream)?, count.arg("count", stream)?);
    let (of_first, of_other, shape) = (first.arrived, other.arrived, plan.shape);
    // SAFETY: the bins of both arrays as their passes left them; `keys` has room for all that may
    // be wanted.
    unsafe {
        K::combine(
            stream,
            shape.partitions,
            what,
            seed,
            shape,
            first.source,
            of_first.keys,
            of_first.counts,
            of_first.valid,
            of_first.overflow,
            of_first.state,
            other.source,
            of_other.keys,
            of_other.counts,
            of_other.valid,
            of_other.overflow,
            of_other.state,
            keys,
            count,
        )
    }?;
    let n = [first.n, other.n];
    let put = if what == how::UNION { n[0] as usize + n[1] as usize } else { n[0] as usize };
    let bins = [first.bins, other.bins];
    let ending = Ending { what, seed, n, bins, slots: spare_slots(put) };
    let spare = first_passes.by_partition.view_mut().arg("spare", stream)?;
    let [cursors, valid, state] = first.counters;
    let [other_cursors, other_valid, other_state] = other.counters;
    let grid = resident(stream, n[0].max(n[1]), SETTLED);
    // SAFETY: as above; the spare memory has a slot for each key that is put there.
    unsafe {
        K::combined(
            stream,
            grid,
            ending,
            first.input,
            other.input,
            spare,
            cursors,
            valid,
            state,
            other_cursors,
            other_valid,
            other_state,
            keys,
            count,
        )
    }?;
    first_passes.clean = true;
    if let Some((.., passes)) = second {
        passes.clean = true;
    }
    Ok(())
}

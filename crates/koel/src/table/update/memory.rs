//! Scratch memory of updates, and the launches for a piece of a batch.
use super::on_cpu;
use super::{BatchOf, Launch, Operations, Updatable, UpdateTuning, WordOf};
use crate::device::{Buffer, Device, Stream, ViewMut};
use crate::error::Result;
use crate::table::plan::Plan;
use crate::table::sending::{Route, SendMemory, reserve, send};
use crate::table::slots::Slots;
use koel_kernels::map::kinds::MapLayout;
use koel_kernels::map::reproduce::{self, map_unstash, unstashed_words};
use koel_kernels::table::layout::{Layout, Shape, TableMut};
use koel_kernels::table::sending::Numbered;
use koel_kernels::table::sparse::Sparse;
use koel_kernels::table::update::{Applying, BatchIn, Unstashed, operation, state};
use koel_simt::In;

/// Scratch memory of updates.
pub(crate) struct Memory {
    pub(super) sent: SendMemory<u64>,
    /// Words that the passes share; after them, from `state` on, words that blocks write for the
    /// host.
    pub(super) counters: Buffer<u32>,
    pub(super) state: usize,
    /// Pairs taken from the stash, and the first one of each partition: all ones between batches.
    unstashed: Buffer<u64>,
    pub lists: Buffer<u32>,
    are_ones: bool,
    /// Empty array of operations, for a batch that has one for all keys.
    no_operations: Buffer<u8>,
    /// Number of operations done since the class bits of whole partitions were last computed from
    /// their pairs.
    pub(super) uncounted: usize,
    pub(super) of_cpu: on_cpu::Memory,
}

/// Claim words per operation, for a bin with the average number of operations; and maximum number
/// of claim words per bin.
const CLAIMS: usize = 3;
const MAX_CLAIMS: usize = 1 << 13;
/// Maximum number of blocks for whole partitions after few operations. They nearly always find
/// nothing to do, and fewer blocks finish sooner.
const LEFT_BLOCKS: u32 = 528;
/// Maximum number of blocks that empty a stash.
const MAX_UNSTASHING: u32 = 64;
/// Returns the parameters for `n` operations on this route, if they are sparse.
pub(super) fn sparse(route: &Route, n: usize, shape: Shape, operation: u32) -> Sparse {
    let coarse = route.bins(shape.partitions)[1] as usize;
    let claims = (CLAIMS * n / coarse).clamp(4, MAX_CLAIMS).next_power_of_two() as u32 - 1;
    Sparse { pass: route.last, operation, claims }
}
/// Returns the number of words that blocks write for the host.
pub(super) fn state_words(shape: Shape) -> usize {
    state::LEFT as usize + shape.partitions as usize
}

impl Memory {
    /// Allocates as little as possible.
    pub(super) fn new(device: &Device) -> Result<Memory> {
        Ok(Memory {
            sent: SendMemory::new(device)?,
            counters: device.alloc(state::LEFT as usize)?,
            state: 0,
            unstashed: device.alloc(0)?,
            lists: device.alloc(0)?,
            are_ones: false,
            no_operations: device.alloc(0)?,
            uncounted: 0,
            of_cpu: on_cpu::Memory::default(),
        })
    }
    pub(super) fn bytes(&self) -> usize {
        let Memory { sent, counters, unstashed, lists, of_cpu, .. } = self;
        let words = sent.bytes() + unstashed.bytes() + counters.bytes() + lists.bytes();
        words + of_cpu.bytes()
    }
    /// Enqueues a piece of a batch: a fill and three or four launches. `is_sparse`: reads only the
    /// buckets of the keys where that suffices. `is_first`: this is the first piece, so the words
    /// that blocks write are reset. `recounts`: class bits are computed anew where whole
    /// partitions are read.
    #[allow(clippy::too_many_arguments, reason = "what an update has at hand")]
    pub(super) fn run<F: Updatable>(
        &mut self,
        stream: &Stream,
        plan: &Plan,
        route: &Route,
        tuning: UpdateTuning,
        table: &mut Slots<WordOf<F>>,
        batch: BatchOf<'_, F>,
        mut outcomes: ViewMut<'_, u8>,
        again: bool,
        is_sparse: bool,
        is_first: bool,
        recounts: bool,
    ) -> Result<()> {
        let (n, shape) = (batch.keys.len(), plan.shape);
        let (code, operations) = match batch.operations {
            Operations::Each(each) => (operation::EACH, each),
            all => (all.code(), self.no_operations.view()),
        };
        let (values, operations) =
            (batch.values.arg("values", stream)?, operations.arg("operations", stream)?);
        let in_header = table.header.view().arg("header", stream)?;
        let (memory, counters) = (&mut self.sent, &mut self.counters);
        let words = state_words(shape);
        let behind = if is_first { words } else { 0 };
        let came = send::<F::Pairs, Numbered>(
            stream, route, shape, in_header, batch.keys, memory, counters, behind,
        )?;
        self.state = came.counters;

        self.ready_lists::<F::Pairs>(stream, plan)?;
        let applying = Applying {
            pass: route.last,
            coarse_bin: route.coarse.map_or(0, |coarse| coarse.each),
            operation: code,
            again: (again || is_sparse) as u32,
            entries: tuning.entries(n as f64 / shape.partitions as f64),
            most: tuning.most_pairs::<F>(shape),
            recounts: recounts as u32,
        };
        let of_state = self.state..self.state + words;
        let on = Launch::<F> {
            table: table.table_mut(stream, plan)?,
            sent: came.sent,
            cursors: came.to_cursors,
            unstashed: Unstashed {
                pairs: self.unstashed.view_mut().arg("unstashed", stream)?,
                lists: self.lists.view_mut().arg("lists", stream)?,
            },
            batch: BatchIn {
                values,
                operations,
                statuses: outcomes.arg("outcomes", stream)?,
                state: self.counters.view_mut().slice(of_state)?.arg("state", stream)?,
            },
        };
        let sparse =
            is_sparse.then(|| (route.bins(shape.partitions)[1], sparse(route, n, shape, code)));
        // SAFETY: the operations are as sent, with `n` elements in each of their arrays; the table
        // is as built with this plan; the lists were reset above.
        unsafe { launch_sent::<F>(stream, sparse, applying, in_header, on) }?;
        self.are_ones = true;
        Ok(())
    }
    /// Reserves room for the pairs taken from the stash, and resets the lists to all ones.
    fn ready_lists<L: Layout>(&mut self, stream: &Stream, plan: &Plan) -> Result<()> {
        let partitions = plan.shape.partitions as usize;
        reserve(&mut self.unstashed, unstashed_words::<L>(plan.stash_bits))?;
        self.are_ones &= self.lists.len() >= partitions;
        reserve(&mut self.lists, partitions)?;
        if !self.are_ones {
            self.lists.view_mut().fill_bytes(0xFF, stream)?;
        }
        self.are_ones = false;
        Ok(())
    }
}
/// Applies sent operations. If they are `sparse` (with the blocks for that), changes the buckets of
/// their keys first. Then empties the stash, and updates whole partitions.
///
/// # Safety
/// The operations must be as they were sent, with their codes, values and outcomes; the table must
/// be built for this shape; there must be a list of all ones for each partition, and room for the
/// whole stash.
unsafe fn launch_sent<F: Updatable>(
    stream: &Stream,
    sparse: Option<(u32, Sparse)>,
    applying: Applying,
    in_header: In<u32>,
    on: Launch<F>,
) -> Result<()> {
    if let Some((grid, sparse)) = sparse {
        // SAFETY: guaranteed by the caller.
        unsafe { F::launch_sparse(stream, grid, sparse, on) }?;
    }
    let TableMut { shape, stash_bits, stash, .. } = on.table;
    let grid = (1u32 << stash_bits).div_ceil(reproduce::THREADS).min(MAX_UNSTASHING);
    let Unstashed { pairs: unstashed, lists } = on.unstashed;
    // SAFETY: the table is built; there is a word for each partition, and room for the whole stash.
    unsafe {
        map_unstash::launch::<<F::Pairs as MapLayout>::Stored, _>(
            stream, grid, shape, stash_bits, stash, unstashed, lists, in_header,
        )
    }?;
    match sparse {
        // SAFETY: as above; the stash is as that launch left it.
        Some(_) => unsafe {
            F::launch_left(stream, LEFT_BLOCKS.min(shape.partitions), applying, on)
        },
        // SAFETY: the same.
        None => unsafe { F::launch(stream, applying, on) },
    }
}

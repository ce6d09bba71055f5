//! Device memory of a table that kernels build, change and read.
use super::plan::Plan;
use crate::device::{Buffer, DeviceKind, Element, Stream};
use crate::error::Result;
use koel_kernels::table::layout::{Layout, Shape, TableMut};
use koel_simt::In;

/// Arrays of a table, for kernels that read them.
#[derive(Clone, Copy)]
pub(crate) struct Handles<W: koel_simt::Word> {
    pub shape: Shape,
    pub stash_bits: u32,
    pub slots: In<W>,
    pub stash: In<u64>,
    pub header: In<u32>,
}

/// Pairs per block at the end of a build, in case everything is built again.
pub(crate) const FINALIZE_TILE: u32 = 2048;

/// A table in device memory, whose buckets have words of type `W`.
pub(crate) struct Slots<W = u64> {
    pub slots: Buffer<W>,
    pub stash: Buffer<u64>,
    pub header: Buffer<u32>,
}
impl<W: Element> Slots<W> {
    pub(crate) fn bytes(&self) -> usize {
        self.slots.bytes() + self.stash.bytes() + self.header.bytes()
    }
    /// Removes all entries.
    pub(crate) fn clear(&mut self, stream: &Stream) -> Result<()> {
        self.slots.view_mut().fill_bytes(0xFF, stream)?;
        self.stash.view_mut().fill_bytes(0xFF, stream)?;
        self.header.view_mut().fill_bytes(0, stream)
    }
    /// Returns the arrays for kernels that read them.
    pub(crate) fn handles(&self, stream: &Stream, plan: &Plan) -> Result<Handles<W>> {
        Ok(Handles {
            shape: plan.shape,
            stash_bits: plan.stash_bits,
            slots: self.slots.view().arg("slots", stream)?,
            stash: self.stash.view().arg("stash", stream)?,
            header: self.header.view().arg("header", stream)?,
        })
    }
    /// Returns the arrays for kernels that change them.
    pub(crate) fn table_mut(&mut self, stream: &Stream, plan: &Plan) -> Result<TableMut<W>> {
        Ok(TableMut {
            shape: plan.shape,
            stash_bits: plan.stash_bits,
            slots: self.slots.view_mut().arg("slots", stream)?,
            stash: self.stash.view_mut().arg("stash", stream)?,
            header: self.header.view_mut().arg("header", stream)?,
        })
    }
}
/// Returns the number of words in a plan's stash.
pub(crate) fn stash_words<L: Layout>(plan: &Plan) -> usize {
    L::SLOT_WORDS << plan.stash_bits
}
/// Returns the number of blocks for a kernel whose blocks wait for each other, given `n` pairs, of
/// which `each` suffice for a block. All blocks must be resident at once: on a GPU, up to two per
/// multiprocessor.
pub(crate) fn resident(stream: &Stream, n: u32, each: u32) -> u32 {
    let most = match stream.device().kind() {
        DeviceKind::Cuda => 2 * stream.device().parallelism() as u32,
        _ => 2,
    };
    most.min(n.div_ceil(each).max(1))
}

//! Device memory of a table that kernels build, change and read.
use super::family::{Family, Handles};
use super::plan::Plan;
use super::{WordOf, words_of};
use crate::device::{Buffer, Device, DeviceKind, Element, Stream};
use crate::error::Result;
use koel_kernels::table::header;
use koel_kernels::table::layout::{Layout, TableMut};

/// Pairs per block at the end of a build, in case everything is built again.
pub(crate) const FINALIZE_TILE: u32 = 2048;

/// A table in device memory, whose buckets have words of type `W`.
pub(crate) struct Slots<W = u64> {
    pub slots: Buffer<W>,
    pub stash: Buffer<u64>,
    pub header: Buffer<u32>,
}
impl<W: Element> Slots<W> {
    /// Allocates memory for a table of this plan.
    pub(crate) fn new<F: Family>(device: &Device, plan: &Plan) -> Result<Slots<W>>
    where
        F::Buckets: crate::cpu::Buckets<Word = W>,
    {
        let slots = device.alloc(words_of::<F>(plan.shape))?;
        let stash = device.alloc(stash_words::<F::Pairs>(plan))?;
        Ok(Slots { slots, stash, header: device.alloc(header::WORDS)? })
    }
    /// Returns whether the memory suffices for a table of this plan.
    pub(crate) fn fits<F: Family>(&self, plan: &Plan) -> bool {
        self.slots.len() >= words_of::<F>(plan.shape)
            && self.stash.len() >= stash_words::<F::Pairs>(plan)
    }
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
/// Returns the bytes of a table that kernels build.
pub(crate) fn device_bytes<F: Family>(plan: &Plan) -> usize {
    words_of::<F>(plan.shape) * size_of::<WordOf<F>>()
        + stash_words::<F::Pairs>(plan) * size_of::<u64>()
        + header::WORDS * size_of::<u32>()
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

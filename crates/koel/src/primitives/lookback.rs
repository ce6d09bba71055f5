//! Scratch memory of decoupled look-back.
use crate::device::{Buffer, Device, Stream};
use crate::error::Result;
use koel_kernels::lookback::{MAX_EPOCH, Tiles};

/// Status words and the ticket counter. Each launch has a new epoch, so the words need not be
/// cleared.
pub(crate) struct Lookback {
    status: Buffer<u64>,
    ticket: Buffer<u32>,
    /// Epoch of the last launch.
    pub(super) epoch: u32,
}

impl Lookback {
    /// Allocates `words` status words, or none on a device that does not run kernels.
    pub(crate) fn new(device: &Device, words: usize) -> Result<Lookback> {
        let words = if device.runs_kernels() { words } else { 0 };
        let (status, mut ticket) = (device.alloc(words)?, device.alloc(1)?);
        ticket.view_mut().fill_bytes(0, &device.stream()?)?;
        Ok(Lookback { status, ticket, epoch: MAX_EPOCH })
    }
    /// Fails if `stream` is not on the plan's device.
    pub(crate) fn check_device(&self, stream: &Stream) -> Result<()> {
        self.ticket.view().arg("the plan's scratch memory", stream).map(drop)
    }
    /// Returns the arguments of the next launch on `stream`.
    pub(crate) fn tiles(&mut self, stream: &Stream) -> Result<Tiles> {
        // A graph repeats its epoch, so it clears the words; its epoch, 1, has ended before the
        // next launch outside.
        let again = stream.is_capturing();
        if again || self.epoch == MAX_EPOCH {
            self.status.view_mut().fill_bytes(0, stream)?;
        }
        let epoch = if again { 1 } else { self.epoch % MAX_EPOCH + 1 };
        if !again {
            self.epoch = epoch;
        }
        let (status, ticket) = (
            self.status.view_mut().arg("status", stream)?,
            self.ticket.view_mut().arg("ticket", stream)?,
        );
        Ok(Tiles { status, ticket, epoch })
    }
    /// Returns its device memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.status.bytes() + self.ticket.bytes()
    }
}

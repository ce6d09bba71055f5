//! Buffers for the answers of lookups.
use super::super::contenders::Built;
use koel::device::Element;
use koel::{Buffer, Device, Stream, View};
use std::borrow::Cow;
use std::ops::Range;

/// Elements in host memory.
type Host<'a, T> = Cow<'a, [T]>;

/// Answers: a value and a flag for each query, or the start and the count of a range.
pub(super) struct Answers {
    /// Values or starts.
    words: Buffer<u32>,
    /// Empty if lookups return ranges.
    found: Buffer<u8>,
    /// Empty if lookups return values.
    counts: Buffer<u32>,
}
impl Answers {
    /// Allocates buffers for `n` answers: ranges if `lists` is set, else values.
    pub(super) fn new(device: &Device, n: usize, lists: bool) -> koel::Result<Answers> {
        let (flags, counts) = if lists { (0, n) } else { (n, 0) };
        Ok(Answers {
            words: device.alloc(n)?,
            found: device.alloc(flags)?,
            counts: device.alloc(counts)?,
        })
    }
    /// Overwrites them with what no table returns.
    pub(super) fn spoil(&mut self, stream: &Stream) -> koel::Result<()> {
        self.words.view_mut().fill_bytes(0xA5, stream)?;
        self.found.view_mut().fill_bytes(0xA5, stream)?;
        self.counts.view_mut().fill_bytes(0xA5, stream)
    }
    /// Looks up queries. Their answers go to `range`.
    pub(super) fn find(
        &mut self,
        stream: &Stream,
        table: &Built,
        queries: View<'_, u32>,
        range: Range<usize>,
    ) -> koel::Result<()> {
        let words = self.words.view_mut().slice(range.clone())?;
        match table {
            Built::Pairs(table) => {
                table.get_into(stream, queries, words, self.found.view_mut().slice(range)?)
            }
            Built::Lists(table, _) => {
                table.get_into(stream, queries, words, self.counts.view_mut().slice(range)?)
            }
        }
    }
    /// Returns the first values and flags, in host memory.
    pub(super) fn values(&self, n: usize) -> koel::Result<(Host<'_, u32>, Host<'_, u8>)> {
        Ok((on_host(self.words.view().slice(..n)?)?, on_host(self.found.view().slice(..n)?)?))
    }
    /// Returns the first starts and counts, in host memory.
    pub(super) fn ranges(&self, n: usize) -> koel::Result<(Host<'_, u32>, Host<'_, u32>)> {
        Ok((on_host(self.words.view().slice(..n)?)?, on_host(self.counts.view().slice(..n)?)?))
    }
}

/// Returns the elements of a view in host memory.
pub(super) fn on_host<T: Element>(view: View<'_, T>) -> koel::Result<Host<'_, T>> {
    Ok(match view.host() {
        Some(elements) => Cow::Borrowed(elements),
        None => Cow::Owned(view.download()?),
    })
}

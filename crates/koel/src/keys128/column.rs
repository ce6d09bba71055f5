//! Columns of keys of 128 bits.
use crate::device::memory::prefetch;
use crate::device::{Device, Stream, View};
use crate::duplicates::first_duplicate;
use crate::error::{Error, Result};
use crate::file::stored::Stored;
use crate::rows::{Column, Gaps, InRows, Kept, Queries, RowTable, THREADS, gathered};
use koel_kernels::keys128::build::{keys128_fingerprints, keys128_verify};
use koel_kernels::keys128::find::{RowsRef, keys128_rows};
use koel_kernels::keys128::fingerprint::Fingerprint;
use koel_simt::Buf;

impl Queries for &[u128] {
    type Function = Fingerprint;
    #[inline(always)]
    fn fingerprints(&self, function: Fingerprint, to: &mut [u64]) {
        to.iter_mut().zip(*self).for_each(|(to, &key)| *to = function.of(key));
    }
}
impl InRows for &[u128] {
    const STEPS: usize = 1;
    #[inline(always)]
    fn prefetch(&self, i: usize, _: usize) {
        prefetch(self.as_ptr().wrapping_add(i));
    }
}
impl Column for Stored<u128> {
    type View<'v> = View<'v, u128>;
    type Key = u128;
    type Host<'v> = &'v [u128];
    type Function = Fingerprint;
    #[inline]
    fn function(draw: u64) -> Fingerprint {
        Fingerprint::new(draw)
    }
    #[inline]
    fn view(&self, len: usize) -> View<'_, u128> {
        self.view().first(len)
    }
    #[inline]
    fn bytes(&self) -> usize {
        self.bytes()
    }
    #[inline]
    fn count(keys: View<'_, u128>) -> usize {
        keys.len()
    }
    #[inline]
    fn check(keys: View<'_, u128>, stream: &Stream) -> Result<()> {
        keys.arg("keys", stream).map(|_| ())
    }
    #[inline]
    fn on_host<'v>(keys: Self::View<'v>) -> Option<Self::Host<'v>> {
        keys.host()
    }
    #[inline]
    unsafe fn launch_fingerprints(
        stream: &Stream,
        (n, first): (u32, u32),
        keys: View<'_, u128>,
        function: Fingerprint,
        to: Buf<u64>,
        rows: Buf<u32>,
    ) -> Result<()> {
        let (grid, from) = (n.div_ceil(THREADS), keys.arg("keys", stream)?);
        // SAFETY: the caller's contract, for as many keys.
        unsafe { keys128_fingerprints::launch(stream, grid, n, first, function, from, to, rows) }
    }
    #[inline]
    unsafe fn launch_rows(
        stream: &Stream,
        n: u32,
        keys: View<'_, u128>,
        (function, table): (Fingerprint, RowTable),
        queries: View<'_, u128>,
        to: Buf<u32>,
    ) -> Result<()> {
        let (grid, rows) = (n.div_ceil(THREADS), rows_ref(stream, keys, function, table)?);
        // SAFETY: the caller's contract, for as many queries.
        unsafe { keys128_rows::launch(stream, grid, rows, n, queries.arg("keys", stream)?, to) }
    }
    #[inline]
    unsafe fn launch_verify(
        stream: &Stream,
        n: u32,
        keys: View<'_, u128>,
        (function, table): (Fingerprint, RowTable),
        kept: Buf<u8>,
        counts: Buf<u32>,
    ) -> Result<()> {
        let (grid, rows) = (n.div_ceil(THREADS), rows_ref(stream, keys, function, table)?);
        // SAFETY: the caller's contract, for as many keys.
        unsafe { keys128_verify::launch(stream, grid, rows, n, kept, counts) }
    }
    #[inline]
    fn keep(kept: &mut Kept<'_>, stream: &Stream, keys: View<'_, u128>) -> Result<Self> {
        let mut own = kept.device.alloc(kept.counts().1)?;
        kept.select(stream, keys, own.view_mut())?;
        Ok(Stored::Own(own))
    }
    #[inline]
    fn select(keys: View<'_, u128>, stream: &Stream, rows: View<'_, u32>) -> Result<Self> {
        gathered(stream, rows, keys).map(Stored::Own)
    }
    #[inline]
    fn append(&mut self, stream: &Stream, len: usize, more: View<'_, u128>) -> Result<()> {
        let room = len + more.len();
        self.grow(stream, len, room)?;
        self.reserve(stream.device(), room)?.view_mut().slice(len..room)?.copy_from(more, stream)
    }
    /// Room for more stays.
    #[inline]
    fn truncate(&mut self, _: usize) {}
    fn fill_gaps(&mut self, stream: &Stream, gaps: &Gaps, moved: View<'_, u128>) -> Result<()> {
        gaps.fill(stream, moved, self.reserve(stream.device(), gaps.len)?.view_mut())
    }
    #[inline]
    fn copied(&self, len: usize, device: &Device) -> Result<Self> {
        Ok(Stored::Own(self.upload(len, device)?))
    }
    #[inline]
    fn first_duplicate(keys: View<'_, u128>) -> Result<Error> {
        Ok(first_duplicate(&keys.download()?))
    }
}
/// Returns rows as a kernel argument.
#[inline]
pub(super) fn rows_ref(
    stream: &Stream,
    keys: View<'_, u128>,
    fingerprint: Fingerprint,
    table: RowTable,
) -> Result<RowsRef> {
    Ok(RowsRef { fingerprint, table, keys: keys.arg("rows", stream)? })
}

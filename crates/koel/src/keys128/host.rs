//! Native lookups, for devices that run no kernels.
use crate::cpu::Finder;
use crate::device::Device;
use crate::device::memory::prefetch;
use crate::error::Result;
use crate::parallel;
use koel_kernels::keys128::find::NO_ROW;
use koel_kernels::keys128::fingerprint::Fingerprint;
use koel_kernels::table::layout::Wide;
use std::sync::OnceLock;

/// Queries that a thread answers at a time: a multiple of 32, so that their bits are whole words.
pub(super) const CHUNK: usize = 2048;
/// Keys prefetched before they are compared.
const IN_FLIGHT: usize = 64;

/// Keys in host memory, and the table of their rows.
#[derive(Clone, Copy)]
pub(super) struct HostRows<'a> {
    pub device: &'a Device,
    pub fingerprint: Fingerprint,
    pub table: Finder<'a, Wide<u64, u32>>,
    pub keys: &'a [u128],
}
impl HostRows<'_> {
    /// Looks up queries in chunks of [`CHUNK`]: `put` receives each chunk's part of the answers,
    /// and its rows, or [`NO_ROW`].
    pub(super) fn look_up<A: Send>(
        &self,
        queries: &[u128],
        answers: impl Iterator<Item = A> + Send,
        put: impl Fn(A, &[u32]) + Sync,
    ) -> Result<()> {
        let failed = OnceLock::new();
        let of_chunk = |_, (queries, answers): (&[u128], A)| {
            let mut rows = [NO_ROW; CHUNK];
            let rows = &mut rows[..queries.len()];
            match self.find(queries, rows) {
                Ok(()) => put(answers, rows),
                Err(e) => _ = failed.set(e),
            }
        };
        self.device.install(|| parallel::each(queries.chunks(CHUNK).zip(answers), of_chunk));
        failed.into_inner().map_or(Ok(()), Err)
    }
    /// Finds the rows of at most [`CHUNK`] queries on the calling thread.
    fn find(&self, queries: &[u128], rows: &mut [u32]) -> Result<()> {
        let mut fingerprints = [0; CHUNK];
        let fingerprints = &mut fingerprints[..queries.len()];
        fingerprints.iter_mut().zip(queries).for_each(|(to, &key)| *to = self.fingerprint.of(key));
        self.table.values(self.device, fingerprints, rows, NO_ROW)?;
        for (queries, rows) in queries.chunks(IN_FLIGHT).zip(rows.chunks_mut(IN_FLIGHT)) {
            rows.iter().for_each(|&row| prefetch(self.keys.as_ptr().wrapping_add(row as usize)));
            for (query, row) in queries.iter().zip(rows) {
                // `NO_ROW` is out of bounds too.
                if self.keys.get(*row as usize) != Some(query) {
                    *row = NO_ROW;
                }
            }
        }
        Ok(())
    }
}

//! Native code for devices that run no kernels: lookups, and the ranks of kept rows.
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

/// Rows that are kept: for every 32 rows, the number of those kept before, and a bit for each.
pub(super) struct Ranks<'a> {
    words: &'a [[u32; 2]],
}
impl<'a> Ranks<'a> {
    /// Makes the ranks of rows whose flags are 1 if they are kept, 0 otherwise, in `memory` for at
    /// least one word per row, of which there are two or more. Called on a pool of threads.
    pub(super) fn new(kept: &[u8], memory: &'a mut [u32]) -> Ranks<'a> {
        let words = &mut memory.as_chunks_mut().0[..kept.len().div_ceil(32)];
        let counts = parallel::map(kept.chunks(RANKED), |_, kept| {
            kept.chunks(255).map(|kept| kept.iter().sum::<u8>() as u32).sum::<u32>()
        });
        let before = counts.iter().scan(0, |before, &count| {
            *before += count;
            Some(*before - count)
        });
        let chunks = words.chunks_mut(RANKED / 32).zip(kept.chunks(RANKED)).zip(before);
        parallel::each(chunks, |_, ((words, kept), mut before)| {
            for (word, kept) in words.iter_mut().zip(kept.chunks(32)) {
                let mut flags = [0; 32];
                flags[..kept.len()].copy_from_slice(kept);
                // The product moves the lowest bit of each byte to the highest byte.
                let bits = |i: usize| {
                    let eight = u64::from_le_bytes(flags.as_chunks().0[i]);
                    (eight.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
                };
                let bits = (0..4).fold(0, |all, i| all | bits(i) << (8 * i));
                *word = [before, bits];
                before += bits.count_ones();
            }
        });
        Ranks { words }
    }
    /// Returns the number of kept rows before a row. Panics if there is no such row.
    #[inline(always)]
    pub(super) fn of(&self, row: u32) -> u32 {
        let [before, bits] = self.words[row as usize / 32];
        before + (bits & ((1 << (row % 32)) - 1)).count_ones()
    }
}
/// Rows that a thread ranks at a time.
const RANKED: usize = 64 << 10;

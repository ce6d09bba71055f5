//! Native code for devices that run no kernels: lookups, and which keys of an input stay.
use crate::cpu::{Finder, InBins, Ranks, Simd, Work};
use crate::device::Device;
use crate::device::memory::prefetch;
use crate::error::Result;
use crate::fallible::collect;
use crate::map::MapBuilder;
use crate::parallel;
use koel_kernels::keys128::find::NO_ROW;
use koel_kernels::keys128::fingerprint::Fingerprint;
use koel_kernels::table::layout::Wide;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

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
        answers: impl ExactSizeIterator<Item = A> + Send,
        put: impl Fn(A, &[u32]) + Sync,
    ) -> Result<()> {
        let of_chunk = |_, (queries, answers): (&[u128], A)| {
            let mut rows = [NO_ROW; CHUNK];
            let rows = &mut rows[..queries.len()];
            self.find(queries, rows)?;
            put(answers, rows);
            Ok(())
        };
        self.device.install(|| parallel::try_each(queries.chunks(CHUNK).zip(answers), of_chunk))
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

/// Work that writes the fingerprints of keys, and their rows: the first is `row`.
pub(super) struct Fingerprints<'a> {
    pub fingerprint: Fingerprint,
    pub keys: &'a [u128],
    pub row: u32,
    pub to: &'a mut [u64],
    pub to_rows: &'a mut [u32],
}
impl Work for Fingerprints<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Fingerprints { fingerprint, keys, row, to, to_rows } = self;
        to.iter_mut().zip(keys).for_each(|(to, &key)| *to = fingerprint.of(key));
        to_rows.iter_mut().zip(row..).for_each(|(to, row)| *to = row);
    }
}

/// Which keys of an input stay, and memory to find that.
#[derive(Default)]
pub(super) struct Kept {
    /// 1 for keys that are dropped.
    dropped: Vec<AtomicU8>,
    pub ranks: Ranks,
}
impl Kept {
    /// Returns memory for `n` keys. Errors: out of memory.
    pub(super) fn new(n: usize) -> Result<Kept> {
        let dropped = collect((0..n).map(|_| AtomicU8::new(0)))?;
        Ok(Kept { dropped, ranks: Ranks::default() })
    }
    /// Returns the number of bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.dropped.len() + self.ranks.bytes()
    }
    /// Finds which of the keys stay, of those with equal fingerprints the first or the last.
    /// Returns the bins with the fingerprints and rows of all keys, or `None` if different keys
    /// have one fingerprint, or their fingerprints were probably chosen to share a place. Errors:
    /// out of memory.
    pub(super) fn find(
        &mut self,
        tables: &mut MapBuilder<u64, u32>,
        keys: &[u128],
        (fingerprints, rows): (&[u64], &[u32]),
        keep_first: bool,
    ) -> Result<Option<InBins>> {
        let dropped = &mut self.dropped[..keys.len()];
        dropped.iter_mut().for_each(|dropped| *dropped.get_mut() = 0);
        let (dropped, differ) = (&*dropped, AtomicBool::new(false));
        let found = tables.find_copies(fingerprints, rows, keep_first, |copies| {
            // Keys and flags are far apart.
            for copies in copies.chunks(IN_FLIGHT) {
                for copy in copies {
                    prefetch(&raw const keys[copy.row as usize]);
                    prefetch(&raw const keys[copy.first() as usize]);
                    prefetch(&raw const dropped[copy.dropped(keep_first) as usize]);
                }
                let mut differ_here = false;
                for copy in copies {
                    differ_here |= keys[copy.row as usize] != keys[copy.first() as usize];
                    dropped[copy.dropped(keep_first) as usize].store(1, Relaxed);
                }
                if differ_here {
                    differ.store(true, Relaxed);
                }
            }
        })?;
        self.ranks.rank(dropped)?;
        Ok(found.filter(|_| !differ.into_inner()))
    }
}

//! Native code for devices that run no kernels: lookups, and which keys of an input stay.
use super::{InRows, Queries};
use crate::cpu::{InBins, Level, PairFinder, Ranks, Simd, Work};
use crate::device::Device;
use crate::device::memory::prefetch;
use crate::error::Result;
use crate::fallible::collect;
use crate::map::SlotMapBuilder;
use crate::parallel;
use koel_kernels::keys128::find::NO_ROW;
use koel_kernels::table::layout::Wide;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

/// Queries that a thread answers at a time: a multiple of 32, so that their bits are whole words.
pub(crate) const CHUNK: usize = 2048;
/// Keys prefetched before they are compared.
const IN_FLIGHT: usize = 64;

/// Keys in host memory, and the table of their rows.
#[derive(Clone, Copy)]
pub(crate) struct HostRows<'a, K: InRows> {
    pub device: &'a Device,
    pub function: K::Function,
    pub table: PairFinder<'a, Wide<u64, u32>>,
    pub keys: K,
}
impl<K: InRows> HostRows<'_, K> {
    /// Looks up queries in chunks of [`CHUNK`]: `put` receives each chunk's part of the answers,
    /// and its rows, or [`NO_ROW`].
    pub(crate) fn look_up<Q, A: Send>(
        &self,
        queries: Q,
        answers: impl ExactSizeIterator<Item = A> + Send,
        put: impl Fn(A, &[u32]) + Sync,
    ) -> Result<()>
    where
        Q: Queries<Key = K::Key, Function = K::Function>,
    {
        let starts = (0..queries.len()).step_by(CHUNK);
        let of_chunk = |_, (start, answers): (usize, A)| {
            let mut rows = [NO_ROW; CHUNK];
            let len = CHUNK.min(queries.len() - start);
            let rows = &mut rows[..len];
            self.find(queries.part(start, len), rows)?;
            put(answers, rows);
            Ok(())
        };
        self.device.install(|| parallel::try_each(starts.zip(answers), of_chunk))
    }
    /// Returns the row of the only query.
    #[inline]
    pub(crate) fn row<Q>(&self, query: Q) -> Option<usize>
    where
        Q: Queries<Key = K::Key, Function = K::Function>,
    {
        let mut fingerprint = [0];
        query.fingerprints(self.function, &mut fingerprint);
        let row = self.table.get(fingerprint[0])? as usize;
        let own = self.keys.key(row);
        (own.is_some() && own == query.key(0)).then_some(row)
    }
    /// Finds the rows of at most [`CHUNK`] queries on the calling thread.
    fn find<Q>(&self, queries: Q, rows: &mut [u32]) -> Result<()>
    where
        Q: Queries<Key = K::Key, Function = K::Function>,
    {
        let mut fingerprints = [0; CHUNK];
        let fingerprints = &mut fingerprints[..queries.len()];
        queries.fingerprints(self.function, fingerprints);
        self.table.values(self.device, fingerprints, rows, NO_ROW)?;
        for (group, rows) in rows.chunks_mut(IN_FLIGHT).enumerate() {
            for step in 0..K::STEPS {
                rows.iter().for_each(|&row| self.keys.prefetch(row as usize, step));
            }
            for (i, row) in rows.iter_mut().enumerate() {
                let own = self.keys.key(*row as usize);
                // `NO_ROW` is out of bounds too.
                if own.is_none() || own != queries.key(group * IN_FLIGHT + i) {
                    *row = NO_ROW;
                }
            }
        }
        Ok(())
    }
}

/// Writes the fingerprint and the row of each key. The first row is `first`.
pub(super) fn write_fingerprints<K: Queries>(
    device: &Device,
    keys: K,
    function: K::Function,
    first: u32,
    (to, to_rows): (&mut [u64], &mut [u32]),
) {
    let (level, chunks) = (Level::best(), to.chunks_mut(CHUNK).zip(to_rows.chunks_mut(CHUNK)));
    device.install(|| {
        parallel::each(chunks, |chunk, (to, to_rows)| {
            let (row, keys) = (first + (chunk * CHUNK) as u32, keys.part(chunk * CHUNK, to.len()));
            level.run(Fingerprints { function, keys, row, to, to_rows });
        })
    });
}
/// Work that writes the fingerprints of keys, and their rows: the first is `row`.
struct Fingerprints<'a, K: Queries> {
    pub function: K::Function,
    pub keys: K,
    pub row: u32,
    pub to: &'a mut [u64],
    pub to_rows: &'a mut [u32],
}
impl<K: Queries> Work for Fingerprints<'_, K> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Fingerprints { function, keys, row, to, to_rows } = self;
        keys.fingerprints(function, to);
        to_rows.iter_mut().zip(row..).for_each(|(to, row)| *to = row);
    }
}

/// Which keys of an input stay, and memory to find that.
#[derive(Default)]
pub(super) struct Stayed {
    /// 1 for keys that are dropped.
    dropped: Vec<AtomicU8>,
    pub ranks: Ranks,
}
impl Stayed {
    /// Returns memory for `n` keys. Errors: out of memory.
    #[inline]
    pub(super) fn new(n: usize) -> Result<Stayed> {
        let dropped = collect((0..n).map(|_| AtomicU8::new(0)))?;
        Ok(Stayed { dropped, ranks: Ranks::default() })
    }
    /// Returns the number of bytes held.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.dropped.len() + self.ranks.bytes()
    }
    /// Finds which of the keys stay, of those with equal fingerprints the first or the last.
    /// Returns the bins with the fingerprints and rows of all keys, or `None` if different keys
    /// have one fingerprint, or their fingerprints were probably chosen to share a place. Errors:
    /// out of memory.
    pub(super) fn find<K: InRows>(
        &mut self,
        tables: &mut SlotMapBuilder<u64, u32>,
        keys: K,
        (fingerprints, rows): (&[u64], &[u32]),
        keep_first: bool,
    ) -> Result<Option<InBins>> {
        let dropped = &mut self.dropped[..keys.len()];
        dropped.iter_mut().for_each(|dropped| *dropped.get_mut() = 0);
        let (dropped, differ) = (&*dropped, AtomicBool::new(false));
        let found = tables.find_copies(fingerprints, rows, keep_first, |copies| {
            // Keys and flags are far apart.
            for copies in copies.chunks(IN_FLIGHT) {
                for step in 0..K::STEPS {
                    for copy in copies {
                        keys.prefetch(copy.row as usize, step);
                        keys.prefetch(copy.first() as usize, step);
                    }
                }
                for copy in copies {
                    prefetch(&raw const dropped[copy.dropped(keep_first) as usize]);
                }
                let mut differ_here = false;
                for copy in copies {
                    differ_here |= keys.key(copy.row as usize) != keys.key(copy.first() as usize);
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

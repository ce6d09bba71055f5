//! Lookups on all threads: see [`Finder`].
use super::Level;
use super::answers::{Answers, Bits, Count, Flags, Options, Values, ValuesAndFlags};
use super::find::{Find, Probe, Tables};
use crate::device::Device;
use crate::error::{Result, check_length};
use crate::fallible::{push, repeat, with_room};
use crate::parallel;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicUsize;

/// The calling thread answers fewer queries than this.
const PARALLEL_QUERIES: usize = 8192;
/// Queries that a thread takes at a time.
const QUERY_PIECE: usize = 32 << 10;

/// Returns how many of the queries a thread answers at a time: whole words of bits.
fn query_piece(device: &Device, queries: usize) -> usize {
    let threads = device.parallelism();
    if threads == 1 || queries < PARALLEL_QUERIES {
        return queries.next_multiple_of(32).max(32);
    }
    queries.div_ceil(threads).next_multiple_of(32).min(QUERY_PIECE)
}

/// Lookups in a table of pairs.
pub(crate) type PairFinder<'a, L> = Finder<Tables<'a, L>>;
/// Lookups in a table.
#[derive(Clone, Copy)]
pub(crate) struct Finder<T> {
    table: T,
    level: Level,
}
impl<T: Probe> Finder<T> {
    /// Creates a finder for a table.
    pub(crate) fn new(table: T) -> Finder<T> {
        Finder { table, level: Level::best() }
    }
    /// Selects an instruction set other than the best.
    #[cfg(test)]
    pub(crate) fn with_level(self, level: Level) -> Finder<T> {
        Finder { level, ..self }
    }
    /// Returns the value of a key.
    #[inline]
    pub(crate) fn get(&self, key: T::Key) -> Option<T::Value> {
        self.table.find(key)
    }
    /// Writes the value of each query, or `missing`, and whether the table holds it (1 or 0).
    /// Errors: mismatched lengths.
    ///
    /// Reads one or two cache lines per query, with some 128 in flight on each thread. The calling
    /// thread answers small inputs.
    pub(crate) fn find(
        &self,
        device: &Device,
        queries: &[T::Key],
        values: &mut [T::Value],
        missing: T::Value,
        found: &mut [u8],
    ) -> Result<()> {
        check_length("values", values.len(), "queries", queries.len())?;
        check_length("found", found.len(), "queries", queries.len())?;
        self.search(
            device,
            queries,
            ValuesAndFlags { values: Values { values, missing }, flags: Flags { found } },
        )
    }
    /// Writes the value of each query, or `missing`. Otherwise like [`find`](Self::find).
    pub(crate) fn values(
        &self,
        device: &Device,
        queries: &[T::Key],
        values: &mut [T::Value],
        missing: T::Value,
    ) -> Result<()> {
        check_length("values", values.len(), "queries", queries.len())?;
        self.search(device, queries, Values { values, missing })
    }
    /// Writes the value of each query, made of its bits by `of_bits`, or `None` if the table does
    /// not hold it: initialises all of `answers`. Otherwise like [`find`](Self::find).
    pub(crate) fn options<V: Send>(
        &self,
        device: &Device,
        queries: &[T::Key],
        answers: &mut [MaybeUninit<Option<V>>],
        of_bits: impl Fn(T::Value) -> V + Copy + Sync,
    ) -> Result<()> {
        check_length("answers", answers.len(), "queries", queries.len())?;
        // Queries at a time: their answers fit the nearest caches, and the pipeline is rarely
        // empty.
        const ONCE: usize = 4096;
        let missing = T::Value::default();
        let some = |start: usize, answers: &mut [MaybeUninit<Option<V>>]| {
            let queries = &queries[start..][..answers.len()];
            let once = ONCE.min(queries.len());
            let (mut values, mut found) = (repeat(missing, once)?, repeat(0, once)?);
            for (queries, answers) in queries.chunks(ONCE).zip(answers.chunks_mut(ONCE)) {
                let (values, found) = (&mut values[..queries.len()], &mut found[..queries.len()]);
                let (of_values, flags) =
                    (Values { values: &mut *values, missing }, Flags { found: &mut *found });
                self.search_piece(queries, ValuesAndFlags { values: of_values, flags });
                self.level.run(Options { values, found, answers, of_bits });
            }
            Ok(())
        };
        // A piece allocates memory, and there are some for each thread.
        let piece = (queries.len() / (4 * device.parallelism())).clamp(ONCE, QUERY_PIECE);
        device.fill(answers, piece * size_of::<Option<V>>(), &some)
    }
    /// Writes whether the table holds each query, as 1 or 0. Otherwise like [`find`](Self::find).
    pub(crate) fn contains(
        &self,
        device: &Device,
        queries: &[T::Key],
        found: &mut [u8],
    ) -> Result<()> {
        check_length("found", found.len(), "queries", queries.len())?;
        self.search(device, queries, Flags { found })
    }
    /// Writes whether the table holds each query, one bit each: query `i` is bit `i % 32` of word
    /// `i / 32`; the rest of the last word is zero. Otherwise like [`find`](Self::find). Errors:
    /// `bits` is not one word per started 32 queries.
    pub(crate) fn contains_bits(
        &self,
        device: &Device,
        queries: &[T::Key],
        bits: &mut [u32],
    ) -> Result<()> {
        check_length("bits", bits.len(), "queries", queries.len().div_ceil(32))?;
        bits.fill(0);
        self.search(device, queries, Bits { words: bits })
    }
    /// Returns how many of the queries the table holds. Otherwise like [`find`](Self::find).
    pub(crate) fn count(&self, device: &Device, queries: &[T::Key]) -> Result<usize> {
        let total = AtomicUsize::new(0);
        self.search(device, queries, Count { total: &total, found: 0 })?;
        Ok(total.into_inner())
    }
    /// Searches on the calling thread if that is as fast.
    fn search<A: Answers<T::Value>>(
        &self,
        device: &Device,
        queries: &[T::Key],
        answers: A,
    ) -> Result<()> {
        let piece = query_piece(device, queries.len());
        if queries.len() <= piece {
            self.search_piece(queries, answers);
            return Ok(());
        }
        let (mut queries, mut answers) = (queries, answers);
        let mut pieces = with_room(queries.len().div_ceil(piece))?;
        while queries.len() > piece {
            let ((own, later), (own_answers, later_answers)) =
                (queries.split_at(piece), answers.split_at(piece));
            push(&mut pieces, (own, own_answers))?;
            (queries, answers) = (later, later_answers);
        }
        push(&mut pieces, (queries, answers))?;
        device.install(|| {
            parallel::each(pieces.into_iter(), |_, (queries, answers)| {
                self.search_piece(queries, answers)
            })
        });
        Ok(())
    }
    /// Searches on this thread.
    fn search_piece<A: Answers<T::Value>>(&self, queries: &[T::Key], answers: A) {
        self.level.run(Find { table: self.table, queries, answers });
    }
}

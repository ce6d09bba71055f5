//! Parallel loops of host code, on the threads of the pool in which they are called.
//!
//! rayon's iterators are compiled anew for every closure and type. Here the code that spreads the
//! parts over threads is compiled once, which saves a quarter of the compile time of the tables.
//! Parts should take microseconds or more: each costs about 100 ns.
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
use crate::error::{Error, Result};
use crate::fallible::{self, with_room};
use rayon::prelude::*;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::{Mutex, PoisonError, TryLockError};

/// Calls `task` with each number below `count`: on the calling thread if there is only one, so that
/// no pool is started or waited for.
fn run(count: usize, task: &(dyn Fn(usize) + Sync)) {
    if count <= 1 {
        return (0..count).for_each(task);
    }
    (0..count).into_par_iter().with_max_len(1).for_each(task);
}

/// Calls `task` with each part and its number. Without memory for the parts, one after the other on
/// the calling thread.
pub(crate) fn each<P: Send>(
    parts: impl ExactSizeIterator<Item = P>,
    task: impl Fn(usize, P) + Sync,
) {
    let Ok(mut taken) = with_room(parts.len()) else {
        return parts.enumerate().for_each(|(i, part)| task(i, part));
    };
    taken.extend(parts.map(|part| Mutex::new(Some(part))));
    run(taken.len(), &|i| {
        // No other thread has this number.
        if let Some(part) = taken[i].lock().unwrap_or_else(PoisonError::into_inner).take() {
            task(i, part);
        }
    });
}

/// As [`each`], and returns the results in the order of the parts. Errors: out of memory, before
/// the first call.
pub(crate) fn map<P: Send, R: Send>(
    parts: impl ExactSizeIterator<Item = P>,
    task: impl Fn(usize, P) -> R + Sync,
) -> fallible::Result<Vec<R>> {
    let (mut slots, mut results) = (with_room(parts.len())?, with_room(parts.len())?);
    slots.resize_with(parts.len(), || None);
    each(parts.zip(&mut slots), |i, (part, to)| *to = Some(task(i, part)));
    results.extend(slots.into_iter().flatten());
    Ok(results)
}

/// As [`each`] for tasks that may fail. Errors: one of theirs; other tasks run nevertheless.
pub(crate) fn try_each<P: Send, E: Send>(
    parts: impl ExactSizeIterator<Item = P>,
    task: impl Fn(usize, P) -> std::result::Result<(), E> + Sync,
) -> std::result::Result<(), E> {
    let failed = Mutex::new(Ok(()));
    each(parts, |i, part| keep_error(&failed, task(i, part)));
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}
/// Keeps the first error.
fn keep_error<E>(failed: &Mutex<std::result::Result<(), E>>, done: std::result::Result<(), E>) {
    if let Err(e) = done {
        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = std::mem::replace(&mut *failed, Ok(())).and(Err(e));
    }
}

/// As [`map`], with memory that each thread keeps from one part to the next. All memory is made
/// before the first call. Errors: also those of `memory`.
#[allow(clippy::disallowed_methods, reason = "there is room")]
pub(crate) fn map_with<S: Send, P: Send, R: Send>(
    parts: impl ExactSizeIterator<Item = P>,
    memory: impl Fn() -> Result<S> + Sync,
    task: impl Fn(&mut S, usize, P) -> R + Sync,
) -> Result<Vec<R>> {
    let threads = parts.len().min(rayon::current_num_threads()).max(1);
    let mut of_threads = with_room(threads)?;
    for _ in 0..threads {
        of_threads.push(Mutex::new(memory()?));
    }
    let mut results = with_room(parts.len())?;
    let done = map(parts, |i, part| {
        let own = &of_threads[rayon::current_thread_index().unwrap_or(0) % threads];
        match own.try_lock() {
            Ok(mut own) => Ok::<_, Error>(task(&mut own, i, part)),
            Err(TryLockError::Poisoned(own)) => Ok(task(&mut own.into_inner(), i, part)),
            // The thread took this part while it waited inside another, or is not of the pool.
            Err(TryLockError::WouldBlock) => Ok(task(&mut memory()?, i, part)),
        }
    })?;
    for result in done {
        results.push(result?);
    }
    Ok(results)
}

/// How memory is divided among threads.
///
/// No two pieces of large memory share a huge page, which every thread that touches it first would
/// clear.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces {
    len: usize,
    /// Elements of the first piece: it ends at a page.
    first: usize,
    /// Elements of all others.
    each: usize,
}
impl Pieces {
    /// Divides memory of less than [`LARGE`] bytes into pieces of `small` bytes.
    pub(crate) fn of<T>(memory: &[T], small: usize) -> Pieces {
        let unit = if size_of_val(memory) >= LARGE { HUGE_PAGE } else { small };
        let size = size_of::<T>().max(1);
        let each = (unit / size).max(1);
        let first = match memory.as_ptr().addr() % unit {
            0 => each,
            behind => ((unit - behind) / size).max(1),
        };
        Pieces { len: memory.len(), first, each }
    }
    pub(crate) fn count(&self) -> usize {
        match self.len {
            0 => 0,
            len => 1 + len.saturating_sub(self.first).div_ceil(self.each),
        }
    }
    /// Returns the elements of piece `i`.
    pub(crate) fn range(&self, i: usize) -> Range<usize> {
        let start = |i: usize| match i {
            0 => 0,
            i => (self.first + (i - 1) * self.each).min(self.len),
        };
        start(i)..start(i + 1)
    }
}
impl Pieces {
    /// Splits memory into parts, for which there is room.
    fn split_to<'a, T>(&self, memory: &'a mut [T], parts: &mut Vec<Part<'a, T>>) {
        let lengths = (0..self.count()).map(|i| self.range(i).len());
        parts.extend(split(memory, lengths).map(|part| Mutex::new(Some(part))));
    }
}
/// For copies that go through pinned memory.
#[cfg(any(feature = "cuda", test))]
impl Pieces {
    /// Splits memory that is divided like this, for [`Parts::take`].
    /// Errors: out of memory.
    pub(crate) fn split<'a, T>(&self, memory: &'a mut [T]) -> Result<Parts<'a, T>> {
        let mut parts = with_room(self.count())?;
        self.split_to(memory, &mut parts);
        Ok(Parts(parts))
    }
    /// Divides `len` elements into pieces of `each`.
    pub(crate) fn even(len: usize, each: usize) -> Pieces {
        Pieces { len, first: each, each }
    }
    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
    /// Returns the maximum number of elements of a piece.
    pub(crate) fn longest(&self) -> usize {
        self.first.max(self.each).min(self.len)
    }
}
/// Memory of which each piece is taken once, by any thread.
pub(crate) struct Parts<'a, T>(Vec<Part<'a, T>>);
type Part<'a, T> = Mutex<Option<&'a mut [T]>>;
impl<'a, T> Parts<'a, T> {
    /// Returns piece `i`; an empty one if it was taken before.
    pub(crate) fn take(&self, i: usize) -> &'a mut [T] {
        self.0[i].lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }
}
/// Bytes of a huge page.
pub(crate) const HUGE_PAGE: usize = 2 << 20;
/// Bytes from which on memory is large: huge pages are worth their clearing.
pub(crate) const LARGE: usize = 16 << 20;
/// Bytes of the pieces of smaller memory, if they are only copied or converted.
pub(crate) const SMALL_PIECE: usize = 256 << 10;

/// Initialises memory that begins with the element of an index.
pub(crate) type Write<'a, T> = dyn Fn(usize, &mut [MaybeUninit<T>]) -> Result<()> + Sync + 'a;
/// Calls `write` with the pieces of memory, and the index of the first element of each. `write`
/// initialises them unless it fails. Pieces have `small` bytes if the memory is not
/// [large](LARGE). Without memory for the pieces, there is one. Errors: those of `write`.
pub(crate) fn fill<T: Send>(
    to: &mut [MaybeUninit<T>],
    small: usize,
    write: &Write<'_, T>,
) -> Result<()> {
    let pieces = Pieces::of(to, small);
    let Some(mut parts) = (pieces.count() > 1).then(|| with_room(pieces.count()).ok()).flatten()
    else {
        return write(0, to);
    };
    pieces.split_to(to, &mut parts);
    let parts = Parts(parts);
    let failed = Mutex::new(Ok(()));
    run(pieces.count(), &|i| {
        keep_error(&failed, write(pieces.range(i).start, parts.take(i)));
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Splits the beginning of a slice into parts of these lengths, one for each task.
pub(crate) fn split<T>(
    whole: &mut [T],
    lengths: impl ExactSizeIterator<Item = usize>,
) -> impl ExactSizeIterator<Item = &mut [T]> {
    let mut rest = whole;
    lengths.map(move |length| {
        let (part, behind) = std::mem::take(&mut rest).split_at_mut(length);
        rest = behind;
        part
    })
}

/// Sorts numbers.
pub(crate) fn sort(numbers: &mut [u64]) {
    numbers.par_sort_unstable(); // in place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_taken_once_and_results_are_in_order() {
        for n in [0, 1, 2, 100, 3000] {
            let mut parts = vec![0; n];
            each(parts.iter_mut(), |i, part| *part += i + 1);
            assert!(parts.iter().copied().eq(1..=n));
            let sums = map(parts.iter(), |i, &part| i + part).unwrap();
            assert!(sums.into_iter().eq((0..n).map(|i| 2 * i + 1)));
        }
    }
    #[test]
    fn parts_lie_behind_each_other() {
        let mut whole = [1, 2, 3, 4, 5, 6];
        let parts = split(&mut whole, [2, 0, 3].into_iter());
        assert_eq!(parts.collect::<Vec<_>>(), [&mut [1, 2][..], &mut [], &mut [3, 4, 5]]);
    }
    #[test]
    fn pieces_cover_memory_once_and_end_at_pages() {
        let memory = vec![0u32; LARGE / 4 + 1000];
        for (from, len) in [(0, 0), (0, 1), (3, 2), (5, 70_000), (1, LARGE / 4 + 900)] {
            let part = &memory[from..][..len];
            let pieces = Pieces::of(part, SMALL_PIECE);
            let ranges = (0..pieces.count()).map(|i| pieces.range(i)).collect::<Vec<_>>();
            assert!(ranges.iter().cloned().flatten().eq(0..len), "{pieces:?}");
            assert!(ranges.iter().all(|r| !r.is_empty() && r.len() <= pieces.longest()));
            let unit = if 4 * len >= LARGE { HUGE_PAGE } else { SMALL_PIECE };
            let inner = ranges.iter().skip(1).map(|r| part.as_ptr().addr() + 4 * r.start);
            assert!(inner.into_iter().all(|start| start.is_multiple_of(unit)), "{pieces:?}");
        }
        assert_eq!(Pieces::even(10, 4).count(), 3);
        assert_eq!(Pieces::even(10, 4).range(2), 8..10);
    }
    #[test]
    fn memory_belongs_to_one_part_at_a_time() {
        let nested = |depth: &mut Vec<u32>, _, n: u32| {
            depth.push(n);
            // Waits, so that this thread may take another part meanwhile.
            let sum = map(0..20u32, |_, x| x).unwrap().into_iter().sum::<u32>();
            depth.pop() == Some(n) && depth.is_empty() && sum == 190
        };
        let alone = map_with(0..500, || Ok(Vec::new()), nested).unwrap();
        assert!(alone.into_iter().all(|alone| alone));
    }
    #[test]
    fn a_panic_is_passed_on() {
        let failed = std::panic::catch_unwind(|| each(0..10, |_, i| assert!(i != 7, "seven")));
        assert!(failed.is_err());
    }
}

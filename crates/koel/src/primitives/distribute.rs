//! Stable distribution into bins on the CPU: count, scan and scatter, each in parallel over chunks.
use crate::error::Result;
use crate::fallible::{collect, repeat};
use crate::parallel;
use std::marker::PhantomData;

/// Minimum chunk of a thread, in items: large enough to amortize the counts of a chunk.
const CHUNK: usize = 1 << 14;

/// An array that several threads write, each index by one of them.
#[derive(Clone, Copy)]
pub(super) struct Places<'a, T> {
    ptr: *mut T,
    len: usize,
    of: PhantomData<&'a mut [T]>,
}
// SAFETY: a `&mut [T]` that is only written, each index by one thread (the contract of `put`).
unsafe impl<T: Send> Sync for Places<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Places<'_, T> {}
impl<'a, T: Copy> Places<'a, T> {
    pub(super) fn new(of: &'a mut [T]) -> Places<'a, T> {
        Places { ptr: of.as_mut_ptr(), len: of.len(), of: PhantomData }
    }
    /// # Safety
    /// `i` is in bounds, and no other thread writes index `i`.
    #[inline(always)]
    pub(super) unsafe fn put(&self, i: usize, v: T) {
        debug_assert!(i < self.len);
        // SAFETY: in bounds, and no other thread's.
        unsafe { self.ptr.add(i).write(v) }
    }
}

/// Calls `put(i, bin, place)` for every item `i` below `n`. The places of a bin are consecutive,
/// starting at `first(counts)[bin]`, in item order: each place is used once if the bins' ranges do
/// not overlap. Returns the counts. Errors: out of memory, before the first call of `put`.
///
/// The closures are copied into each thread's loop, so that their captures stay in registers
/// despite the writes.
pub(super) fn distribute(
    threads: usize,
    n: usize,
    bins: usize,
    bin: impl Fn(usize) -> usize + Copy + Send + Sync,
    first: impl FnOnce(&[usize]) -> Result<Vec<usize>>,
    put: impl Fn(usize, usize, usize) + Copy + Send + Sync,
) -> Result<Vec<usize>> {
    let chunk = CHUNK.max(n.div_ceil(threads * 4)).max(bins);
    let range = move |c: usize| c * chunk..n.min((c + 1) * chunk);
    let mut cursors = repeat(0usize, n.div_ceil(chunk) * bins)?;
    parallel::each(cursors.chunks_mut(bins), move |c, counts| {
        range(c).for_each(|i| counts[bin(i)] += 1)
    });
    // Start of each chunk within the bins; finally, the counts.
    let mut counts = repeat(0usize, bins)?;
    for of_chunk in cursors.chunks_mut(bins) {
        for (cursor, all) in of_chunk.iter_mut().zip(&mut counts) {
            *all += std::mem::replace(cursor, *all);
        }
    }
    let first = first(&counts)?;
    parallel::each(cursors.chunks_mut(bins), |c, cursor| {
        cursor.iter_mut().zip(&first).for_each(|(cursor, first)| *cursor += first);
        let (bin_of, put) = (bin, put);
        for i in range(c) {
            let bin = bin_of(i);
            put(i, bin, cursor[bin]);
            cursor[bin] += 1;
        }
    });
    Ok(counts)
}
/// Returns the starts of consecutive bins without gaps.
pub(super) fn packed(counts: &[usize]) -> Result<Vec<usize>> {
    let sums = counts.iter().scan(0, |all, count| Some(std::mem::replace(all, *all + count)));
    Ok(collect(sums)?)
}

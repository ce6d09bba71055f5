//! Parallel loops of host code, on the threads of the pool in which they are called.
//!
//! rayon's iterators are compiled anew for every closure and type. Here the code that spreads the
//! parts over threads is compiled once, which saves a quarter of the compile time of the tables.
//! Parts should take microseconds or more: each costs about 100 ns.
use rayon::prelude::*;
use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError, TryLockError};

/// Calls `task` with each number below `count`.
fn run(count: usize, task: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().with_max_len(1).for_each(task);
}

/// Calls `task` with each part and its number.
pub(crate) fn each<P: Send>(parts: impl Iterator<Item = P>, task: impl Fn(usize, P) + Sync) {
    let parts = parts.map(|part| Mutex::new(Some(part))).collect::<Vec<_>>();
    run(parts.len(), &|i| {
        // No other thread has this number.
        if let Some(part) = parts[i].lock().unwrap_or_else(PoisonError::into_inner).take() {
            task(i, part);
        }
    });
}

/// As [`each`], and returns the results in the order of the parts.
pub(crate) fn map<P: Send, R: Send>(
    parts: impl Iterator<Item = P>,
    task: impl Fn(usize, P) -> R + Sync,
) -> Vec<R> {
    let parts = parts.collect::<Vec<_>>();
    let mut results = Vec::new();
    results.resize_with(parts.len(), || None);
    each(parts.into_iter().zip(&mut results), |i, (part, to)| *to = Some(task(i, part)));
    results.into_iter().flatten().collect()
}

/// As [`map`], with memory that each thread keeps from one part to the next.
pub(crate) fn map_with<S: Send, P: Send, R: Send>(
    parts: impl Iterator<Item = P>,
    memory: impl Fn() -> S + Sync,
    task: impl Fn(&mut S, usize, P) -> R + Sync,
) -> Vec<R> {
    let mut of_threads = Vec::new();
    of_threads.resize_with(rayon::current_num_threads(), || Mutex::new(None));
    map(parts, |i, part| {
        let own = &of_threads[rayon::current_thread_index().unwrap_or(0) % of_threads.len()];
        match own.try_lock() {
            Ok(mut own) => task(own.get_or_insert_with(&memory), i, part),
            Err(TryLockError::Poisoned(own)) => {
                task(own.into_inner().get_or_insert_with(&memory), i, part)
            }
            // The thread took this part while it waited inside another, or is not of the pool.
            Err(TryLockError::WouldBlock) => task(&mut memory(), i, part),
        }
    })
}

/// Calls `write` with the parts of memory, and the index of the first element of each. `write`
/// initialises them. Each part is a quarter of a megabyte, so that the threads also share the page
/// faults of fresh memory.
pub(crate) fn fill<T: Send>(
    to: &mut [MaybeUninit<T>],
    write: impl Fn(usize, &mut [MaybeUninit<T>]) + Sync,
) {
    let part = ((256 << 10) / size_of::<T>().max(1)).max(1);
    if to.len() <= 2 * part {
        return write(0, to);
    }
    each(to.chunks_mut(part), |i, to| write(i * part, to));
}

/// Splits the beginning of a slice into parts of these lengths, one for each task.
pub(crate) fn split<T>(whole: &mut [T], lengths: impl Iterator<Item = usize>) -> Vec<&mut [T]> {
    let mut rest = whole;
    let split_off = |length| {
        let (part, behind) = std::mem::take(&mut rest).split_at_mut(length);
        rest = behind;
        part
    };
    lengths.map(split_off).collect()
}

/// Sorts numbers.
pub(crate) fn sort(numbers: &mut [u64]) {
    numbers.par_sort_unstable();
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
            assert!(
                map(parts.iter(), |i, &part| i + part).into_iter().eq((0..n).map(|i| 2 * i + 1))
            );
        }
    }
    #[test]
    fn parts_lie_behind_each_other() {
        let mut whole = [1, 2, 3, 4, 5, 6];
        let parts = split(&mut whole, [2, 0, 3].into_iter());
        assert_eq!(parts, [&mut [1, 2][..], &mut [], &mut [3, 4, 5]]);
    }
    #[test]
    fn memory_belongs_to_one_part_at_a_time() {
        let nested = |depth: &mut Vec<u32>, _, n: u32| {
            depth.push(n);
            // Waits, so that this thread may take another part meanwhile.
            let sum = map(0..20u32, |_, x| x).into_iter().sum::<u32>();
            depth.pop() == Some(n) && depth.is_empty() && sum == 190
        };
        assert!(map_with(0..500, Vec::new, nested).into_iter().all(|alone| alone));
    }
    #[test]
    fn a_panic_is_passed_on() {
        let failed = std::panic::catch_unwind(|| each(0..10, |_, i| assert!(i != 7, "seven")));
        assert!(failed.is_err());
    }
}

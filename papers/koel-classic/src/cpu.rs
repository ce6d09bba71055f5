//! Insertion and lookup of the published tables on a CPU, with many random accesses in flight.
//!
//! The kernels' threads, run sequentially, would wait for one cache miss at a time: an atomic
//! exchange cannot be reordered, and a branch on a loaded slot is often mispredicted. Here a thread
//! works round-robin on a batch of pairs or queries, and prefetches each slot one round before it
//! reads it. Hash functions, slots and eviction order are the kernels'.
use koel::{Device, View, ViewMut};
use koel_classic_kernels::{EMPTY, holds, key_of, pair, value_of};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Number of pairs or queries in flight per thread: 32 to 128 measured the same.
const GROUP: usize = 128;

/// Prefetches the cache line of an address. A hint: any address is allowed.
#[inline(always)]
fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, which reads nothing, whatever the address; every x86-64 has SSE.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a hint without effects that a program can observe.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{0}]",
            in(reg) address,
            options(nostack, readonly, preserves_flags)
        );
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

/// Probe sequence of a table: the slots that may hold a key, in probe order.
pub(super) trait Probe: Sync {
    /// State shared by all probes of a key.
    type Key: Copy + Default;
    /// Returns the number of slots that may hold a key.
    fn probes(&self) -> u32;
    /// Computes the shared state, before the first probe.
    fn start(&self, key: u32) -> Self::Key;
    /// Returns a function from a key and its shared state to the slot of probe `i`.
    fn slots(&self, i: u32) -> impl Fn(u32, Self::Key) -> usize;
    /// Returns whether an empty slot ends the search.
    fn stops_at_empty(&self) -> bool {
        false
    }
}

/// Looks up `queries` in `slots`; calls `otherwise` for a key found in none of its slots.
pub(super) fn find(
    device: &Device,
    probe: &impl Probe,
    slots: View<'_, u64>,
    queries: View<'_, u32>,
    mut values: ViewMut<'_, u32>,
    mut found: ViewMut<'_, u8>,
    otherwise: impl Fn(u32) -> Option<u64> + Sync,
) {
    let (Some(slots), Some(queries)) = (slots.host(), queries.host()) else { return };
    let (Some(values), Some(found)) = (values.host_mut(), found.host_mut()) else { return };
    const CHUNK: usize = 1 << 12;
    let run = |(queries, (values, found)): (&[u32], (&mut [u32], &mut [u8]))| {
        for ((q, v), f) in
            queries.chunks(GROUP).zip(values.chunks_mut(GROUP)).zip(found.chunks_mut(GROUP))
        {
            find_group(probe, slots, q, v, f, &otherwise);
        }
    };
    if queries.len() <= CHUNK {
        run((queries, (values, found)));
    } else {
        device.install(|| {
            queries
                .par_chunks(CHUNK)
                .zip(values.par_chunks_mut(CHUNK).zip(found.par_chunks_mut(CHUNK)))
                .for_each(run)
        });
    }
}
#[inline(always)]
fn find_group<P: Probe>(
    probe: &P,
    slots: &[u64],
    queries: &[u32],
    values: &mut [u32],
    found: &mut [u8],
    otherwise: &impl Fn(u32) -> Option<u64>,
) {
    let (mut shared, mut at, mut open) = ([P::Key::default(); GROUP], [0; GROUP], [0u8; GROUP]);
    let mut left = queries.len();
    for (i, &q) in queries.iter().enumerate() {
        shared[i] = probe.start(q);
        open[i] = i as u8;
    }
    for step in 0..probe.probes() {
        let slot = probe.slots(step);
        for &i in &open[..left] {
            let i = i as usize;
            at[i] = slot(queries[i], shared[i]);
            prefetch(&raw const slots[at[i]]);
        }
        // No branches on loaded slots: the answer is overwritten until the query is closed.
        let mut still = 0;
        for k in 0..left {
            let i = open[k] as usize;
            let e = slots[at[i]];
            let hit = holds(e, queries[i]);
            values[i] = if hit { value_of(e) } else { 0 };
            found[i] = hit as u8;
            open[still] = i as u8;
            still += !(hit || probe.stops_at_empty() && e == EMPTY) as usize;
        }
        left = still;
    }
    for (i, &q) in queries.iter().enumerate() {
        if found[i] == 0
            && let Some(e) = otherwise(q)
        {
            (values[i], found[i]) = (value_of(e), 1);
        }
    }
}

/// Inserts pairs by exchange, as [`SingleLevel`](super::SingleLevel) does; each thread works
/// round-robin on a batch. `next` returns the slot that a pair tries after a slot (`u32::MAX` for a
/// new pair) in its `step`-th move. `give_up` receives pairs that found no slot in `max_moves`
/// moves. Returns whether the pair of all ones was among the input.
pub(super) fn insert(
    device: &Device,
    keys: View<'_, u32>,
    values: View<'_, u32>,
    mut slots: ViewMut<'_, u64>,
    max_moves: u32,
    next: impl Fn(u32, u32, u32) -> u32 + Sync,
    give_up: impl Fn(u64) + Sync,
) -> bool {
    let (Some(keys), Some(values), Some(slots)) = (keys.host(), values.host(), slots.host_mut())
    else {
        return false;
    };
    // SAFETY: size and alignment are equal (`u64` is 8-aligned where `AtomicU64` is used here), and
    // `slots` is borrowed mutably, so all other access is through this slice.
    let slots = unsafe { &*(std::ptr::from_mut(slots) as *const [AtomicU64]) };
    let all_ones = AtomicU32::new(0);
    const CHUNK: usize = 1 << 14;
    device.install(|| {
        keys.par_chunks(CHUNK).zip(values.par_chunks(CHUNK)).for_each(|(keys, values)| {
            let mut input = keys.iter().zip(values).map(|(&k, &v)| pair(k, v));
            let mut take = || {
                let e = input.by_ref().find(|&e| {
                    if e == EMPTY {
                        all_ones.store(1, Relaxed);
                    }
                    e != EMPTY
                })?;
                let at = next(key_of(e), u32::MAX, 0);
                prefetch(&raw const slots[at as usize]);
                Some((e, at, 0))
            };
            let mut group = Vec::with_capacity(GROUP);
            group.extend(std::iter::from_fn(&mut take).take(GROUP));
            while !group.is_empty() {
                let mut i = 0;
                while i < group.len() {
                    let (e, at, step): (u64, u32, u32) = group[i];
                    let evicted = slots[at as usize].swap(e, Relaxed);
                    let goes_on = evicted != EMPTY && step + 1 < max_moves;
                    if evicted != EMPTY && !goes_on {
                        give_up(evicted);
                    }
                    let now = if goes_on {
                        let to = next(key_of(evicted), at, step);
                        prefetch(&raw const slots[to as usize]);
                        Some((evicted, to, step + 1))
                    } else {
                        take()
                    };
                    match now {
                        Some(now) => {
                            group[i] = now;
                            i += 1;
                        }
                        None => drop(group.swap_remove(i)),
                    }
                }
            }
        })
    });
    all_ones.into_inner() != 0
}

//! Access to the buckets of a bin while it is filled.
use super::partition::BLOCK;
use super::simd::{GROUP, Heads, behind_at, heads};
use super::stash::{pair_at, put_pair};
use crate::duplicates::Duplicates;
use koel_kernels::hash::mulhi;
use koel_kernels::table::layout::{BUCKET, Layout};
use std::hint::select_unpredictable;

/// Finds the first buckets of a batch of pairs, from pair `start` of a run on: their numbers in the
/// table, of `all` buckets, less `base`. Panics unless they are below `spare`.
#[inline(always)]
pub(super) fn find_places<L: Layout>(
    run: &[u64],
    start: usize,
    (all, base): (u32, u32),
    spare: usize,
    places: &mut [u32; GROUP],
) {
    let count = run.len() / L::SLOT_WORDS;
    let place_of = |head: u64| mulhi(L::hash(L::key_in(head)), all).wrapping_sub(base);
    if start + GROUP <= count {
        // No bounds are checked below, so that the loop becomes vector instructions.
        let pairs = &run[start * L::SLOT_WORDS..][..GROUP * L::SLOT_WORDS];
        let mut group = [0; GROUP];
        for (i, place) in group.iter_mut().enumerate() {
            *place = place_of(pairs[i * L::SLOT_WORDS]);
        }
        let greatest = group.iter().fold(0, |greatest, &place| place.max(greatest));
        assert!((greatest as usize) < spare);
        *places = group;
    } else {
        for (i, place) in places.iter_mut().enumerate().take(count - start) {
            *place = place_of(run[(start + i) * L::SLOT_WORDS]);
            assert!((*place as usize) < spare);
        }
    }
}

/// Returns the slot of a key in a bucket that may have been written a moment ago. The words are
/// loaded one by one: a vector would wait until the stores, which are narrower, have reached the
/// cache. With 100 copies in a row that took twice as long.
#[inline(always)]
fn slot_of_recent<L: Layout>(heads: &Heads, mixed: L::Mixed) -> Option<usize> {
    let is_at = |i: usize| ((L::key_in(heads[i]) == mixed) as u32) << i;
    let bits = (0..BUCKET).fold(0, |bits, i| bits | is_at(i));
    (bits != 0).then_some(bits.trailing_zeros() as usize)
}

/// Passes over pair `i` and those after it with its key, which came before: the last of them
/// takes the place of the stored pair, if the policy is to keep it. If the bucket was full, the
/// pair before waits, and so do these. Returns the next pair, and how many wait.
#[inline(always)]
pub(super) fn pass_run<L: Layout>(
    buckets: &mut [u64],
    place: usize,
    (pairs, i): (&[u64], usize),
    policy: Duplicates,
    waiting: &mut [L::Pair],
) -> (usize, usize) {
    let (mixed, count) = (L::key(pair_at::<L>(pairs, i)), pairs.len() / L::SLOT_WORDS);
    let is_other = |&i: &usize| L::key(pair_at::<L>(pairs, i)) != mixed;
    let end = (i + 1..count).find(is_other).unwrap_or(count);
    match slot_of_recent::<L>(heads::<L>(buckets, place), mixed) {
        Some(slot) => {
            if policy == Duplicates::KeepLast {
                put::<L>(buckets, place, slot, pair_at::<L>(pairs, end - 1));
            }
            (end, 0)
        }
        None => {
            for (to, i) in waiting.iter_mut().zip(i..end) {
                *to = pair_at::<L>(pairs, i);
            }
            (end, end - i)
        }
    }
}

/// Stores a pair.
#[inline(always)]
pub(super) fn put<L: Layout>(buckets: &mut [u64], place: usize, slot: usize, pair: L::Pair) {
    let bucket = &mut buckets[place * L::WORDS..][..L::WORDS];
    // With narrow values this is the position of the head, so the head is written last.
    bucket[behind_at::<L>(0, slot)] = L::behind(pair);
    bucket[slot] = L::head(pair);
}

/// Like [`put`], without bounds checks.
///
/// # Safety
/// The bucket exists, and the slot is below 4.
#[inline(always)]
pub(super) unsafe fn put_unchecked<L: Layout>(
    buckets: &mut [u64],
    place: usize,
    slot: usize,
    pair: L::Pair,
) {
    debug_assert!((place + 1) * L::WORDS <= buckets.len() && slot < BUCKET);
    // SAFETY: by the caller's contract.
    unsafe {
        *buckets.get_unchecked_mut(behind_at::<L>(place, slot)) = L::behind(pair);
        *buckets.get_unchecked_mut(place * L::WORDS + slot) = L::head(pair);
    }
}

/// Copies a run of pairs to `kept`, but of neighbours with one key only the last or, if the policy
/// is to keep that, the first. Returns the number of words kept. No branch. Panics if the run is
/// longer than a block.
#[inline(always)]
pub(super) fn without_repeats<L: Layout>(
    run: &[u64],
    policy: Duplicates,
    kept: &mut [u64; BLOCK],
) -> usize {
    if run.is_empty() {
        return 0;
    }
    let keeps_last = (policy == Duplicates::KeepLast) as usize;
    let (mut last, mut count) = (pair_at::<L>(run, 0), 1);
    put_pair::<L>(kept, 0, last);
    for i in 1..run.len() / L::SLOT_WORDS {
        let pair = pair_at::<L>(run, i);
        let is_copy = (L::key(pair) == L::key(last)) as usize;
        // A copy takes the place of the pair before, or a place that the next pair takes.
        put_pair::<L>(kept, count - (is_copy & keeps_last), pair);
        count += 1 - is_copy;
        last = pair;
    }
    count * L::SLOT_WORDS
}

/// Adds a pair to a bucket, or writes it to bucket `spare` if that is full. A copy is written to
/// the same slot, but not counted: the slot stays free. Returns whether the bucket is full. No
/// branch: one bucket in four is full, unpredictably, and copies may come unpredictably too. The
/// slot does not depend on `is_copy`: comparisons with other buckets would wait for its address.
///
/// # Safety
/// Both buckets and their fills exist.
#[inline(always)]
pub(super) unsafe fn add_unchecked<L: Layout>(
    buckets: &mut [u64],
    fills: &mut [u8],
    place: usize,
    spare: usize,
    pair: L::Pair,
    is_copy: bool,
) -> bool {
    debug_assert!(place.max(spare) < fills.len());
    // SAFETY: by the caller's contract.
    unsafe {
        let fill = *fills.get_unchecked(place) as usize;
        let full = fill == BUCKET;
        put_unchecked::<L>(buckets, select_unpredictable(full, spare, place), fill % BUCKET, pair);
        *fills.get_unchecked_mut(place) = (fill + !(full | is_copy) as usize) as u8;
        full
    }
}

//! First choices of a run of pairs in which copies and other pairs are mixed.
use super::buckets::{add_unchecked, find_places, put};
use super::partition::BLOCK;
use super::simd::{GROUP, Simd, Work, heads, heads_unchecked};
use super::stash::{pair_at, pair_unchecked};
use koel_kernels::table::layout::{BUCKET, Layout};
use std::hint::select_unpredictable;

/// Work that puts a run of pairs into their first buckets, without branches that depend on whether
/// a key has come before: a copy is written like a new pair, to a slot that stays free, and noted.
/// The noted copies are resolved after the run.
pub(super) struct MixedChoices<'a, L: Layout> {
    /// At most a block; no pair has the ambiguous key.
    pub run: &'a [u64],
    /// Pairs to prefetch.
    pub next: *const u64,
    /// Number of buckets in the table, and of those before the bin's.
    pub of_table: (u32, u32),
    pub spare: usize,
    pub keep_first: bool,
    pub buckets: &'a mut [u64],
    pub fills: &'a mut [u8],
    pub waiting: &'a mut [L::Pair],
}
/// Outcome of [`MixedChoices`].
pub(super) struct Mixed {
    /// Number of pairs that wait.
    pub waits: usize,
    /// Number of pairs whose key has come before.
    pub copies: usize,
    /// Number of those that follow another pair.
    pub begun: usize,
}
impl<L: Layout> Work for MixedChoices<'_, L> {
    type Output = Mixed;
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) -> Mixed {
        let mut places = [0; BLOCK];
        let count = self.run.len() / L::SLOT_WORDS;
        for (start, places) in (0..count).step_by(GROUP).zip(places.as_chunks_mut().0) {
            find_places::<L>(self.run, start, self.of_table, self.spare, places);
        }
        let mut copies = [0; BLOCK];
        let (waits, copied) = self.place(simd, &places, &mut copies);
        let begun = self.resolve(simd, &places, &copies[..copied]);
        Mixed { waits, copies: copied, begun }
    }
}
impl<L: Layout> MixedChoices<'_, L> {
    /// Writes the pairs to their places and notes which are copies. Returns how many wait, and how
    /// many are copies.
    #[inline(always)]
    fn place<S: Simd>(
        &mut self,
        simd: S,
        places: &[u32; BLOCK],
        copies: &mut [u16; BLOCK],
    ) -> (usize, usize) {
        let (run, next, spare) = (self.run, self.next, self.spare);
        let (buckets, fills, waiting) = (&mut *self.buckets, &mut *self.fills, &mut *self.waiting);
        let count = run.len() / L::SLOT_WORDS;
        // The unchecked accesses below rely on this and on the bounds that `find_places` checks.
        assert!(
            spare < fills.len()
                && fills.len() * L::WORDS <= buckets.len()
                && count <= waiting.len().min(BLOCK)
        );
        let (mut waits, mut copied) = (0, 0);
        for start in (0..count).step_by(GROUP) {
            simd.ask_group(next.wrapping_add(start * L::SLOT_WORDS).cast::<L::Pair>());
            for i in start..count.min(start + GROUP) {
                // SAFETY: `i` is below `count`, and so below the number of places; the place is
                // below `spare`, and there are buckets and fills up to `spare`; at most `count`
                // pairs wait or are copies.
                unsafe {
                    let pair = pair_unchecked::<L>(run, i);
                    let place = *places.get_unchecked(i) as usize;
                    let heads = heads_unchecked::<L>(buckets, place);
                    let is_copy = simd.slot::<L>(heads, L::key(pair)).is_some();
                    let full = add_unchecked::<L>(buckets, fills, place, spare, pair, is_copy);
                    *waiting.get_unchecked_mut(waits) = pair;
                    waits += (full & !is_copy) as usize;
                    *copies.get_unchecked_mut(copied) = i as u16;
                    copied += is_copy as usize;
                }
            }
        }
        (waits, copied)
    }
    /// Lets copies replace the stored pairs, if the policy is to keep the last, and empties the
    /// slots that they were written to. Returns how many of them follow another pair.
    #[inline(always)]
    fn resolve<S: Simd>(&mut self, simd: S, places: &[u32; BLOCK], copies: &[u16]) -> usize {
        let (mut begun, mut after) = (0, usize::MAX);
        for &i in copies {
            let i = i as usize;
            let (pair, place) = (pair_at::<L>(self.run, i), places[i] as usize);
            // The stored pair is in the first of the slots with its key.
            let same = simd.slot::<L>(heads::<L>(self.buckets, place), L::key(pair));
            if !self.keep_first
                && let Some(slot) = same
            {
                put::<L>(self.buckets, place, slot, pair);
            }
            let fill = self.fills[place] as usize;
            let free = select_unpredictable(fill == BUCKET, self.spare, place);
            put::<L>(self.buckets, free, fill % BUCKET, L::EMPTY_PAIR);
            begun += (i != after) as usize;
            after = i + 1;
        }
        begun
    }
}

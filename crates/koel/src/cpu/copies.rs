//! Copies among the pairs of a bin: pairs whose key has come before.
//!
//! The keys of a bin go to a small sparse table, which stays in a core's L2 cache: faster than to
//! build a table of them that lookups need. For tables whose size depends on how many keys there
//! are, and whose keys are only equal for sure after a comparison elsewhere.
use super::buckets::put;
use super::partition::Parted;
use super::simd::{LINE, Line, Simd, Work, behind_at, heads};
use super::stash::pair_at;
use koel_kernels::hash::mulhi;
use koel_kernels::table::layout::{BUCKET, EMPTY, Layout, Number};

/// Copies given away at a time: their memory accesses overlap.
const BATCH: usize = 512;

/// The keys of a bin that have come, and memory for copies. Reused from bin to bin.
pub(super) struct Seen<L: Layout> {
    /// Buckets of four slots, like those of a table.
    buckets: Vec<Line>,
    copies: Vec<Copied<L>>,
}
/// Values of a pair that is dropped and of the pair that stays.
pub(crate) type Copied<L> = [<L as Layout>::Value; 2];
impl<L: Layout> Default for Seen<L> {
    fn default() -> Seen<L> {
        Seen { buckets: vec![], copies: vec![] }
    }
}
impl<L: Layout> Seen<L> {
    /// Returns the number of bytes held.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.buckets[..]) + self.copies.capacity() * size_of::<Copied<L>>()
    }
}

/// Work that finds the copies of a bin.
pub(super) struct FindCopies<'a, L: Layout, F> {
    pub seen: &'a mut Seen<L>,
    /// Output of each thread's partitioning, with its arena.
    pub parts: &'a [(&'a Parted, &'a [u64])],
    pub bin: usize,
    /// Expected number of pairs.
    pub expected: usize,
    /// Whether the first of pairs with one key stays, or the last.
    pub keep_first: bool,
    /// Receives the copies, some at a time.
    pub take: &'a F,
}
impl<L: Layout, F: Fn(&[Copied<L>])> Work for FindCopies<'_, L, F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let FindCopies { seen: Seen { buckets, copies }, parts, bin, keep_first, take, .. } = self;
        buckets.clear();
        // Two in five slots are taken: hardly any bucket is full.
        let lines = (self.expected * 5).div_ceil(2 * BUCKET).max(2) * L::WORDS;
        buckets.resize(lines.div_ceil(LINE), Line([EMPTY; LINE]));
        let mut words = bytemuck::cast_slice_mut::<Line, u64>(buckets);
        let (mut room, mut ambiguous) = (words.len() / L::SLOT_WORDS * 3 / 4, None);
        for (parted, arena) in parts {
            for (run, next) in parted.runs(bin, arena) {
                for i in 0..run.len() / L::SLOT_WORDS {
                    if (i * L::SLOT_WORDS).is_multiple_of(LINE) {
                        simd.ask(next.wrapping_add(i * L::SLOT_WORDS));
                    }
                    let pair = pair_at::<L>(run, i);
                    let stored = if L::key(pair) == L::AMBIGUOUS {
                        replace_ambiguous::<L>(&mut ambiguous, pair, keep_first)
                    } else {
                        match place_of::<L, S>(simd, words, L::key(pair)) {
                            (place, slot, true) => {
                                let behind = words[behind_at::<L>(place, slot)];
                                let head = heads::<L>(words, place)[slot];
                                if !keep_first {
                                    put::<L>(words, place, slot, pair);
                                }
                                Some(L::value_in(head, behind))
                            }
                            (place, slot, false) => {
                                put::<L>(words, place, slot, pair);
                                room -= 1;
                                None
                            }
                        }
                    };
                    if let Some(stored) = stored {
                        let new = L::value(pair);
                        copies.push(if keep_first { [new, stored] } else { [stored, new] });
                        if copies.len() == BATCH {
                            take(copies);
                            copies.clear();
                        }
                    }
                    if room == 0 {
                        room = words.len() / L::SLOT_WORDS * 3 / 4;
                        grow::<L, S>(simd, buckets);
                        words = bytemuck::cast_slice_mut(buckets);
                    }
                }
            }
        }
        take(copies);
        copies.clear();
    }
}
/// Returns the bucket and the slot of a key and true, or those that it can take and false. There is
/// a free slot.
#[inline(always)]
fn place_of<L: Layout, S: Simd>(simd: S, words: &[u64], mixed: L::Mixed) -> (usize, usize, bool) {
    let buckets = words.len() / L::WORDS;
    // The hash has determined the bin.
    let mut place = mulhi(mixed.widened() as u32, buckets as u32) as usize;
    loop {
        let heads = heads::<L>(words, place);
        if let Some(slot) = simd.slot::<L>(heads, mixed) {
            return (place, slot, true);
        }
        if let Some(slot) = simd.slot::<L>(heads, L::AMBIGUOUS) {
            return (place, slot, false);
        }
        place = if place + 1 == buckets { 0 } else { place + 1 };
    }
}
/// Doubles the number of buckets.
#[cold]
fn grow<L: Layout, S: Simd>(simd: S, buckets: &mut Vec<Line>) {
    let old = std::mem::take(buckets);
    buckets.resize(old.len() * 2, Line([EMPTY; LINE]));
    let words = bytemuck::cast_slice_mut(buckets);
    let old = bytemuck::cast_slice::<Line, u64>(&old);
    for at in 0..old.len() / L::WORDS {
        for (slot, &head) in heads::<L>(old, at).iter().enumerate().filter(|(_, h)| **h != EMPTY) {
            let pair = L::with_head(head, old[behind_at::<L>(at, slot)]);
            let (place, slot, _) = place_of::<L, S>(simd, words, L::key(pair));
            put::<L>(words, place, slot, pair);
        }
    }
}
/// Handles a pair with the ambiguous key, which looks like an empty slot. Returns the value of the
/// pair that came before.
#[cold]
fn replace_ambiguous<L: Layout>(
    held: &mut Option<L::Value>,
    pair: L::Pair,
    keep_first: bool,
) -> Option<L::Value> {
    let stored = *held;
    if stored.is_none() || !keep_first {
        *held = Some(L::value(pair));
    }
    stored
}

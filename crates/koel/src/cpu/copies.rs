//! Copies among the pairs of a bin: pairs whose key has come before.
//!
//! The keys of a bin go to a small sparse table, which stays in a core's L2 cache: faster than to
//! build a table of them that lookups need. For tables whose size depends on how many keys there
//! are, and whose keys are only equal for sure after a comparison elsewhere.
use super::buckets::put;
use super::partition::{BLOCK, Parted};
use super::simd::{LINE, Line, Simd, Work, behind_at, heads};
use super::stash::pair_at;
use koel_kernels::hash::mulhi;
use koel_kernels::table::layout::{BUCKET, EMPTY, Layout, Number};
use std::hint::select_unpredictable;
use std::marker::PhantomData;

/// Minimum number of copies given away at a time: their memory accesses overlap.
const BATCH: usize = 512;
/// Copies are mixed with other pairs if one pair in this many is a copy.
const FREQUENT: usize = 16;

/// The keys of a bin that have come, and memory for copies. Reused from bin to bin.
#[derive(Default)]
pub(super) struct Seen {
    /// Buckets of four slots, like those of a table. The value of a slot is the first row of its
    /// key in the upper half, and the row that stays in the lower half.
    buckets: Vec<Line>,
    copies: Vec<Copied>,
    /// Whether copies and other pairs were mixed in the last run.
    is_mixed: bool,
}
/// A row that came after another one with the same key.
#[derive(Clone, Copy, Default)]
pub(crate) struct Copied {
    /// The row that is dropped.
    pub dropped: u32,
    /// The first row with the same key in the bin.
    pub first: u32,
    /// The row that has come now.
    pub row: u32,
}
impl Seen {
    /// Returns the number of bytes held.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.buckets[..]) + size_of_val(&self.copies[..])
    }
}

/// Work that finds the copies of a bin of wide pairs whose values are rows.
pub(super) struct FindCopies<'a, L, F> {
    pub layout: PhantomData<L>,
    pub seen: &'a mut Seen,
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
impl<L: Layout<Value = u32>, F: Fn(&[Copied])> Work for FindCopies<'_, L, F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let FindCopies { seen, parts, bin, expected, keep_first, take, .. } = self;
        let Seen { buckets, copies, is_mixed } = seen;
        buckets.clear();
        // Two in five slots are taken: hardly any bucket is full.
        let slots = ((expected * 5).div_ceil(2) + BUCKET).next_multiple_of(8 * BUCKET);
        buckets.resize(slots * L::SLOT_WORDS / LINE, Line([EMPTY; LINE]));
        copies.resize(BATCH + BLOCK, Copied::default());
        let (mut room, mut count, mut ambiguous) = (room_of::<L>(buckets), 0, None);
        for (parted, arena) in parts {
            for (run, next) in parted.runs(bin, arena) {
                for at in (0..run.len()).step_by(LINE) {
                    simd.ask(next.wrapping_add(at));
                }
                let pairs = run.len() / L::SLOT_WORDS;
                while room < pairs {
                    let taken = room_of::<L>(buckets) - room;
                    grow::<L, S>(simd, buckets);
                    room = room_of::<L>(buckets) - taken;
                }
                let words = bytemuck::cast_slice_mut(buckets);
                let more = &mut copies[count..][..BLOCK];
                let of_run = Run::<S> { simd, words, keep_first, ambiguous: &mut ambiguous };
                let found = if *is_mixed {
                    of_run.find::<L, true>(run, more)
                } else {
                    of_run.find::<L, false>(run, more)
                };
                *is_mixed = found * FREQUENT > pairs;
                room -= pairs - found;
                count += found;
                if count > BATCH {
                    take(&copies[..count]);
                    count = 0;
                }
            }
        }
        take(&copies[..count]);
    }
}
/// A run of pairs whose copies are found.
struct Run<'a, S> {
    simd: S,
    /// Buckets with room for all pairs, and a spare one at the end.
    words: &'a mut [u64],
    keep_first: bool,
    /// Rows of the ambiguous key, which looks like an empty slot.
    ambiguous: &'a mut Option<u64>,
}
impl<S: Simd> Run<'_, S> {
    /// Writes the copies; returns how many there are. Without a branch on whether a pair is a copy
    /// if they are `MIXED` with others: it could not be predicted. Otherwise it is, and memory
    /// accesses wait for less.
    #[inline(always)]
    fn find<L: Layout<Value = u32>, const MIXED: bool>(
        self,
        run: &[u64],
        copies: &mut [Copied],
    ) -> usize {
        let Run { simd, words, keep_first, ambiguous } = self;
        let spare = words.len() - L::WORDS;
        let mut count = 0;
        for i in 0..run.len() / L::SLOT_WORDS {
            let pair = pair_at::<L>(run, i);
            let (mixed, row) = (L::key(pair), L::value(pair));
            if mixed == L::AMBIGUOUS {
                if let Some(rows) = *ambiguous {
                    copies[count] = copied(rows, row, keep_first);
                    count += 1;
                }
                *ambiguous = Some(rows_with(ambiguous.unwrap_or(only(row)), row, keep_first));
                continue;
            }
            let (place, slot, is_copy) = place_of::<L, S, MIXED>(simd, words, mixed);
            let behind = behind_at::<L>(place, slot);
            if !MIXED && !is_copy {
                words[place * L::WORDS + slot] = L::head(pair);
                words[behind] = only(row);
                continue;
            }
            let rows = select_unpredictable(is_copy, words[behind], only(row));
            words[behind] = rows_with(rows, row, keep_first);
            if MIXED {
                // The head of a copy is there. Written again, loads of the whole bucket would wait
                // until the narrower store has reached the cache.
                let head = select_unpredictable(is_copy, spare, place * L::WORDS + slot);
                words[head] = L::head(pair);
            }
            copies[count] = copied(rows, row, keep_first);
            count += is_copy as usize;
        }
        count
    }
}
/// Returns the value of a slot whose key has come once.
#[inline(always)]
fn only(row: u32) -> u64 {
    (row as u64) << 32 | row as u64
}
/// Returns the value of a slot after another row has come.
#[inline(always)]
fn rows_with(rows: u64, row: u32, keep_first: bool) -> u64 {
    if keep_first { rows } else { (rows >> 32) << 32 | row as u64 }
}
#[inline(always)]
fn copied(rows: u64, row: u32, keep_first: bool) -> Copied {
    let (first, stored) = ((rows >> 32) as u32, rows as u32);
    Copied { dropped: if keep_first { row } else { stored }, first, row }
}
/// Returns how many slots may be taken.
fn room_of<L: Layout>(buckets: &[Line]) -> usize {
    (buckets.len() * LINE / L::SLOT_WORDS - BUCKET) * 3 / 4
}
/// Returns the bucket and the slot of a key and true, or those that it can take and false. There is
/// a free slot before the spare bucket.
#[inline(always)]
fn place_of<L: Layout, S: Simd, const MIXED: bool>(
    simd: S,
    words: &[u64],
    mixed: L::Mixed,
) -> (usize, usize, bool) {
    let buckets = words.len() / L::WORDS - 1;
    // The hash has determined the bin.
    let mut place = mulhi(mixed.widened() as u32, buckets as u32) as usize;
    loop {
        let heads = heads::<L>(words, place);
        let (same, free) = (simd.slot::<L>(heads, mixed), simd.slot::<L>(heads, L::AMBIGUOUS));
        match (same, free) {
            (Some(slot), _) if !MIXED => return (place, slot, true),
            (None, Some(slot)) if !MIXED => return (place, slot, false),
            (None, None) => {}
            _ => {
                let (is_copy, free) = (same.is_some(), free.unwrap_or(0));
                return (place, select_unpredictable(is_copy, same.unwrap_or(0), free), is_copy);
            }
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
    for at in 0..old.len() / L::WORDS - 1 {
        for (slot, &head) in heads::<L>(old, at).iter().enumerate().filter(|(_, h)| **h != EMPTY) {
            let pair = L::with_head(head, old[behind_at::<L>(at, slot)]);
            let (place, slot, _) = place_of::<L, S, false>(simd, words, L::key(pair));
            put::<L>(words, place, slot, pair);
        }
    }
}

//! Copies among the pairs of a bin: pairs whose key has come before.
//!
//! The keys of a bin go to a small sparse table, which stays in a core's L2 cache: faster than to
//! build a table of them that lookups need. For tables whose size depends on how many keys there
//! are, and whose keys are only equal for sure after a comparison elsewhere.
use super::buckets::put;
use super::partition::{BLOCK, Parted};
use super::simd::{LINE, Line, Simd, Work, behind_at, heads};
use crate::fallible::{Result, repeat, resize};
use koel_kernels::hash::mulhi;
use koel_kernels::table::layout::{BUCKET, EMPTY, Layout, Number};
use std::hint::select_unpredictable;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Minimum number of copies given away at a time: their memory accesses overlap.
const BATCH: usize = 512;
/// Maximum steps past full buckets per pair of a bin. Random keys take far fewer; keys chosen
/// against the seed could share a place and take a quadratic number.
const MAX_STEPS: usize = 4;
/// Steps that a bin with few pairs may take.
const FIRST_STEPS: isize = 1 << 12;
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
/// A row that came after others with the same key.
#[derive(Clone, Copy, Default)]
pub(crate) struct Copied {
    /// The first row with the key, and the one that was to stay until now.
    before: u64,
    /// The row that came.
    pub row: u32,
}
impl Copied {
    /// Returns the first row with the key.
    pub(crate) fn first(self) -> u32 {
        (self.before >> 32) as u32
    }
    /// Returns the row that is dropped.
    pub(crate) fn dropped(self, keep_first: bool) -> u32 {
        if keep_first { self.row } else { self.before as u32 }
    }
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
    /// Set if the keys of a bin take too many steps: the search is then given up.
    pub is_crowded: &'a AtomicBool,
}
impl<L: Layout<Value = u32>, F: Fn(&[Copied])> Work for FindCopies<'_, L, F> {
    type Output = Result<()>;
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Result<()> {
        let FindCopies { seen, parts, bin, expected, keep_first, take, is_crowded, .. } = self;
        let Seen { buckets, copies, is_mixed } = seen;
        buckets.clear();
        // Two in five slots are taken: hardly any bucket is full.
        let slots = ((expected * 5).div_ceil(2) + BUCKET).next_multiple_of(8 * BUCKET);
        resize(buckets, slots * L::SLOT_WORDS / LINE, Line([EMPTY; LINE]))?;
        resize(copies, BATCH + BLOCK, Copied::default())?;
        let (mut room, mut count, mut ambiguous) = (room_of::<L>(buckets), 0, None);
        let mut steps_left = FIRST_STEPS;
        for (parted, arena) in parts {
            for (run, next) in parted.runs(bin, arena) {
                for at in (0..run.len()).step_by(LINE) {
                    simd.ask(next.wrapping_add(at));
                }
                let pairs = run.len() / L::SLOT_WORDS;
                steps_left += (pairs * MAX_STEPS) as isize;
                while room < pairs {
                    let taken = room_of::<L>(buckets) - room;
                    grow::<L, S>(simd, buckets)?;
                    room = room_of::<L>(buckets) - taken;
                }
                let words = bytemuck::cast_slice_mut(buckets);
                let more = &mut copies[count..][..BLOCK];
                let steps_left = &mut steps_left;
                let of_run = Run::<S> { simd, words, ambiguous: &mut ambiguous, steps_left };
                let found = match (*is_mixed, keep_first) {
                    (false, false) => of_run.find::<L, false, false>(run, more),
                    (false, true) => of_run.find::<L, false, true>(run, more),
                    (true, false) => of_run.find::<L, true, false>(run, more),
                    (true, true) => of_run.find::<L, true, true>(run, more),
                };
                if *steps_left < 0 || is_crowded.load(Relaxed) {
                    is_crowded.store(true, Relaxed);
                    return Ok(());
                }
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
        Ok(())
    }
}
/// A run of pairs whose copies are found.
struct Run<'a, S> {
    simd: S,
    /// Buckets with room for all pairs, and a spare one at the end.
    words: &'a mut [u64],
    /// Rows of the ambiguous key, which looks like an empty slot.
    ambiguous: &'a mut Option<u64>,
    /// Number of steps past full buckets that may still be taken.
    steps_left: &'a mut isize,
}
impl<S: Simd> Run<'_, S> {
    /// Writes the copies; returns how many there are. Without a branch on whether a pair is a copy
    /// if they are `MIXED` with others: it could not be predicted. Otherwise it is, and memory
    /// accesses wait for less.
    #[inline(always)]
    fn find<L: Layout<Value = u32>, const MIXED: bool, const KEEP_FIRST: bool>(
        self,
        run: &[u64],
        copies: &mut [Copied],
    ) -> usize {
        let Run { simd, words, ambiguous, steps_left } = self;
        let spare = words.len() - L::WORDS;
        let (mut count, mut last) = (0, (EMPTY, 0));
        for pair in run.chunks_exact(L::SLOT_WORDS) {
            let (head, row) = (pair[0], pair[L::SLOT_WORDS - 1] as u32);
            // The value of a slot whose key has come once, and after this row has come.
            let only = (row as u64) << 32 | row as u64;
            let with_row =
                |rows: u64| if KEEP_FIRST { rows } else { rows >> 32 << 32 | row as u64 };
            if L::key_in(head) == L::AMBIGUOUS {
                if let Some(before) = *ambiguous {
                    copies[count] = Copied { before, row };
                    count += 1;
                }
                *ambiguous = Some(ambiguous.map_or(only, with_row));
                continue;
            }
            if head == last.0 {
                // Loads of the bucket would wait for the narrower stores of the pair before.
                let before = words[last.1];
                words[last.1] = with_row(before);
                copies[count] = Copied { before, row };
                count += 1;
                continue;
            }
            let (place, slot, is_copy) =
                place_of::<L, S, MIXED>(simd, words, L::key_in(head), steps_left);
            let (at, behind) = (place * L::WORDS + slot, behind_at::<L>(place, slot));
            last = (head, behind);
            if !MIXED && !is_copy {
                words[at] = head;
                words[behind] = only;
                continue;
            }
            let before = words[behind];
            words[behind] = select_unpredictable(is_copy, with_row(before), only);
            if MIXED {
                // The head of a copy is there. Written again, loads of the whole bucket would wait
                // until the narrower store has reached the cache.
                words[select_unpredictable(is_copy, spare, at)] = head;
            }
            copies[count] = Copied { before, row };
            count += is_copy as usize;
        }
        count
    }
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
    steps_left: &mut isize,
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
        *steps_left -= 1;
        place = if place + 1 == buckets { 0 } else { place + 1 };
    }
}
/// Doubles the number of buckets. Errors: out of memory.
#[cold]
fn grow<L: Layout, S: Simd>(simd: S, buckets: &mut Vec<Line>) -> Result<()> {
    let larger = repeat(Line([EMPTY; LINE]), buckets.len() * 2)?;
    let old = std::mem::replace(buckets, larger);
    let words = bytemuck::cast_slice_mut(buckets);
    let old = bytemuck::cast_slice::<Line, u64>(&old);
    for at in 0..old.len() / L::WORDS - 1 {
        for (slot, &head) in heads::<L>(old, at).iter().enumerate().filter(|(_, h)| **h != EMPTY) {
            let pair = L::with_head(head, old[behind_at::<L>(at, slot)]);
            let (place, slot, _) = place_of::<L, S, false>(simd, words, L::key(pair), &mut 0);
            put::<L>(words, place, slot, pair);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{self, How, Iter, Level, OfMap, Pages, Ranks, Scratch, Stash};
    use crate::device::Device;
    use crate::duplicates::Duplicates;
    use crate::table::plan::Plan;
    use koel_kernels::hash::mix::splitmix_at;
    use koel_kernels::table::layout::{Shape, Wide};
    use rustc_hash::FxHashMap;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

    type L = Wide<u64, u32>;
    const SEED: u32 = 3;

    /// Which rows are dropped, and the table of the others.
    struct Found {
        dropped: Vec<bool>,
        copies: Vec<Copied>,
        shape: Shape,
        table: Vec<u64>,
        stash: Stash<L>,
    }
    fn find(device: &Device, level: Level, keys: &[u64], keep_first: bool) -> Found {
        let shape_for = |n| Plan::new(n, 0.8).unwrap().shape;
        let rows = (0..keys.len() as u32).collect::<Vec<_>>();
        let scratch = &mut Scratch::<L>::with_level(Pages::System, level);
        let in_bins =
            cpu::partition(device, shape_for(keys.len()), SEED, (keys, &rows), scratch).unwrap();
        let (dropped, copies) =
            (keys.iter().map(|_| AtomicU8::new(0)).collect::<Vec<_>>(), Mutex::new(vec![]));
        let take = |some: &[Copied]| {
            for copy in some {
                let before = dropped[copy.dropped(keep_first) as usize].swap(1, Relaxed);
                assert_eq!(before, 0, "dropped once");
            }
            copies.lock().unwrap().extend_from_slice(some);
        };
        assert!(cpu::find_copies(device, in_bins, keep_first, take, scratch).unwrap());
        let mut ranks = Ranks::default();
        ranks.rank(&dropped).unwrap();
        let dropped = dropped.iter().map(|flag| flag.load(Relaxed) != 0).collect::<Vec<_>>();
        let shape = shape_for(ranks.kept());
        let (mut table, mut stash) =
            (vec![7; shape.all_buckets() as usize * L::WORDS], Stash::default());
        let how =
            How { policy: Duplicates::Unchecked, reproducible: false, most_stashed: usize::MAX };
        let kept = dropped.iter().any(|&dropped| dropped).then_some(&ranks);
        let source = (in_bins, kept);
        let counts = cpu::build_ranked(device, source, shape, how, &mut table, &mut stash, scratch);
        assert_eq!(counts.unwrap().unwrap().pairs, ranks.kept());
        Found { dropped, copies: copies.into_inner().unwrap(), shape, table, stash }
    }
    fn check(keys: &[u64], keep_first: bool) {
        let (mut stays, mut firsts) = (FxHashMap::default(), FxHashMap::default());
        for (row, &key) in (0..).zip(keys) {
            let first = *firsts.entry(key).or_insert(row);
            stays.insert(key, if keep_first { first } else { row });
        }
        let mut bytes = None;
        for (threads, levels) in [(1, Level::available()), (3, vec![Level::best()])] {
            let device = Device::cpu_with_threads(threads).unwrap();
            for level in levels {
                let found = find(&device, level, keys, keep_first);
                let place =
                    format!("{} keys, {threads} threads, {level:?}, {keep_first}", keys.len());
                let (mut rank, mut ranks) = (0, FxHashMap::default());
                for (row, (&key, &dropped)) in (0..).zip(keys.iter().zip(&found.dropped)) {
                    assert_eq!(dropped, stays[&key] != row, "row {row} of {place}");
                    if !dropped {
                        ranks.insert(key, rank);
                        rank += 1;
                    }
                }
                let copies = &found.copies;
                assert_eq!(copies.len(), keys.len() - stays.len(), "{place}");
                let is_right = |copy: &Copied| {
                    let key = keys[copy.row as usize];
                    copy.first() == firsts[&key] && copy.first() < copy.row
                };
                assert!(copies.iter().all(is_right), "{place}");
                let pairs = Iter::<OfMap<L>>::new(found.shape, SEED, &found.table, &found.stash)
                    .collect::<FxHashMap<_, _>>();
                assert_eq!(pairs, ranks, "{place}");
                // The same table for every number of threads and instruction set.
                assert_eq!(*bytes.get_or_insert(found.table.clone()), found.table, "{place}");
            }
        }
    }

    #[test]
    fn rows_of_every_arrangement() {
        let most = if cfg!(miri) { 600 } else { 9000 };
        for n in [0, 1, 2, 33, 255, 256, 257, most] {
            let key = |i: u64| L::unmixed(SEED, splitmix_at(9, i as u32));
            let columns: [&dyn Fn(u64) -> u64; 7] = [
                &|i| key(i),
                &|i| key(i / 2),
                &|i| key(i % (n as u64).div_ceil(2)),
                &|i| key(splitmix_at(1, i as u32) % (n as u64)),
                &|i| key(if i % 90 == 0 { 0 } else { i }),
                &|_| key(5),
                // With the ambiguous key.
                &|i| if i % 3 == 0 { L::unmixed(SEED, L::AMBIGUOUS) } else { key(i % 70) },
            ];
            // The most keys have several bins.
            for column in columns.into_iter().step_by(if n == most { 3 } else { 1 }) {
                let keys = (0..n as u64).map(column).collect::<Vec<_>>();
                check(&keys, true);
                check(&keys, false);
            }
        }
    }
    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn a_bin_with_all_keys_grows() {
        // All have one hash: one bin gets several times the keys that it expects.
        let n = 30_000u64;
        let keys = (0..n)
            .map(|i| L::unmixed(SEED, 77 << 32 | splitmix_at(4, i as u32 / 2) >> 32))
            .collect::<Vec<_>>();
        let device = Device::cpu_with_threads(2).unwrap();
        let rows = (0..n as u32).collect::<Vec<_>>();
        let scratch = &mut Scratch::<L>::new(Pages::System);
        let shape = Plan::new(n as usize, 0.8).unwrap().shape;
        assert!(shape.partitions > 10);
        let in_bins = cpu::partition(&device, shape, SEED, (&keys, &rows), scratch).unwrap();
        let copies = Mutex::new(vec![]);
        let take = |some: &[Copied]| copies.lock().unwrap().extend_from_slice(some);
        assert!(cpu::find_copies(&device, in_bins, true, take, scratch).unwrap());
        let mut copies = copies.into_inner().unwrap();
        copies.sort_unstable_by_key(|copy| copy.row);
        let found = copies.iter().map(|copy| (copy.dropped(true), copy.first()));
        assert!(found.eq((1..n as u32).step_by(2).map(|row| (row, row - 1))));
    }
    /// A quadratic number of steps would take hours.
    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn keys_chosen_for_one_place_are_given_up() {
        let n = 1 << 20;
        let keys = (0..n).map(|i| L::unmixed(SEED, i << 32 | 5)).collect::<Vec<_>>();
        let (device, rows) =
            (Device::cpu_with_threads(2).unwrap(), (0..n as u32).collect::<Vec<_>>());
        let shape = Plan::new(n as usize, 0.8).unwrap().shape;
        let scratch = &mut Scratch::<L>::new(Pages::System);
        let in_bins = cpu::partition(&device, shape, SEED, (&keys, &rows), scratch).unwrap();
        assert!(!cpu::find_copies(&device, in_bins, true, |_| {}, scratch).unwrap());
    }
}

//! Fills the buckets of a bin of a set in cache.
//!
//! A key goes to its first bucket if that has room; else it waits, and goes to its second bucket
//! after all others have come. Nothing is moved meanwhile, so copies of a key meet where the first
//! of them went. Keys that find both buckets full are *homeless*: they
//! [evict](koel_kernels::set::fill::evict) others.
use super::Parts;
use crate::cpu::builder::grow;
use crate::cpu::partition::Bins;
use crate::cpu::simd::{GROUP, LINE, Line, Simd, Work, halves, holds, write_out};
use crate::fallible::{Result, reserve, resize};
use bytemuck::Pod;
use koel_kernels::hash::mulhi;
use koel_kernels::set::fill::Filling;
use koel_kernels::set::layout::{Member, in_bucket, is_full};
use koel_kernels::table::layout::{EMPTY, Layout, Shape, class};
use std::cell::Cell;
use std::hint::select_unpredictable;

/// Memory of a thread that fills bins.
pub(super) struct Filler<K> {
    /// Buckets of a bin, and a spare one for keys without room.
    buckets: Vec<Line>,
    /// Number of keys in each bucket.
    fills: Vec<u8>,
    /// For each bucket, the classes of the keys that overflowed from it.
    marks: Vec<u8>,
    /// Keys that wait; after [`Fill`] the homeless ones, distinct and in ascending order.
    pub waiting: Vec<K>,
}
/// Lines of some buckets and a spare one.
fn lines_of<K: Member>(buckets: usize) -> usize {
    ((buckets + 1) * K::SLOTS as usize * size_of::<K>()).div_ceil(size_of::<Line>())
}
impl<K: Member + Pod> Filler<K> {
    /// Makes room for bins of `buckets` buckets, of an array of `keys` keys. More is needed only if
    /// many keys find no room. Errors: out of memory.
    pub(super) fn new(buckets: usize, keys: usize) -> Result<Filler<K>> {
        let mut filler = Filler {
            buckets: Vec::new(),
            fills: Vec::new(),
            marks: Vec::new(),
            waiting: Vec::new(),
        };
        reserve(&mut filler.buckets, lines_of::<K>(buckets))?;
        reserve(&mut filler.fills, buckets + 1)?;
        reserve(&mut filler.marks, buckets + 1)?;
        reserve(&mut filler.waiting, (buckets * K::SLOTS as usize / 4).min(keys))?;
        Ok(filler)
    }
    /// Returns the bin that has been filled, to be changed, and the homeless keys.
    pub(super) fn host(&mut self, bins: Bins, bin: usize, buckets: usize) -> (Host<'_, K>, &[K]) {
        let slots = &mut bytemuck::cast_slice_mut(&mut self.buckets)[..buckets * K::SLOTS as usize];
        let host = Host {
            shape: bins.shape,
            first_partition: (bin as u32) << bins.shift,
            slots: Cell::from_mut(slots).as_slice_of_cells(),
            marks: Cell::from_mut(&mut self.marks[..buckets]).as_slice_of_cells(),
        };
        (host, &self.waiting)
    }
}

/// Work that gives each key in a bin of some arrays a slot, or leaves it homeless. Returns the
/// number of distinct keys, and for each array whether it has the ambiguous key. `None` if more
/// than `room` distinct keys are homeless. Errors: out of memory.
pub(super) struct Fill<'a, K: Member + Pod, const ARRAYS: usize> {
    pub filler: &'a mut Filler<K>,
    pub bins: Bins,
    pub bin: usize,
    /// Number of buckets in the bin.
    pub buckets: usize,
    pub arrays: [&'a Parts<'a, K>; ARRAYS],
    pub room: usize,
}
impl<K: Member + Pod, const ARRAYS: usize> Work for Fill<'_, K, ARRAYS> {
    type Output = Result<Option<(usize, [bool; ARRAYS])>>;
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Self::Output {
        let Fill { filler, bins, bin, buckets: spare, arrays, room } = self;
        let Filler { buckets, fills, marks, waiting } = filler;
        buckets.clear();
        resize(buckets, lines_of::<K>(spare), Line([EMPTY; LINE]))?;
        for bytes in [&mut *fills, &mut *marks] {
            bytes.clear();
            resize(bytes, spare + 1, 0)?;
        }
        let mut choices = Choices {
            simd,
            shape: bins.shape,
            first_partition: (bin as u32) << bins.shift,
            spare,
            buckets: bytemuck::cast_slice_mut(buckets),
            fills,
            marks,
            waiting,
            waits: 0,
            homeless: 0,
            new: 0,
        };
        // Copies may wait, too: they are dropped whenever as many keys wait as there are slots.
        let each = spare * K::SLOTS as usize;
        let (mut look, mut held) = (each, [false; ARRAYS]);
        for (array, held) in arrays.into_iter().zip(&mut held) {
            let is_done = array.each_run(bin, |run, next| {
                *held |= choices.first(run, next)?;
                if choices.waits > look {
                    choices.second();
                    look = choices.waits + each;
                }
                Ok(choices.homeless <= room)
            })?;
            if !is_done {
                return Ok(None);
            }
        }
        choices.second();
        let (new, homeless) = (choices.new, choices.homeless);
        waiting.truncate(homeless);
        let kept = new + homeless + held.contains(&true) as usize;
        Ok((homeless <= room).then_some((kept, held)))
    }
}

/// A bin being filled.
struct Choices<'a, K, S> {
    simd: S,
    shape: Shape,
    first_partition: u32,
    /// Index of the bucket for keys without room.
    spare: usize,
    buckets: &'a mut [K],
    fills: &'a mut [u8],
    marks: &'a mut [u8],
    waiting: &'a mut Vec<K>,
    /// Number of waiting keys. The first of them are homeless, and distinct.
    waits: usize,
    homeless: usize,
    /// Number of keys that found room.
    new: usize,
}
impl<K: Member + Pod, S: Simd> Choices<'_, K, S> {
    /// Puts keys into their first buckets; keys whose first bucket is full wait. Returns whether
    /// the ambiguous key is among them, which is left out. Prefetches the keys at `next` meanwhile.
    #[inline(always)]
    fn first(&mut self, run: &[K], next: *const K) -> Result<bool> {
        let least = self.waits + run.len() + GROUP;
        if self.waiting.len() < least {
            grow(self.waiting, least, K::EMPTY)?;
        }
        let (all, base) =
            (self.shape.all_buckets() as u32, self.first_partition * self.shape.buckets);
        let place_of = |key: K| mulhi(K::Pairs::hash(key), all).wrapping_sub(base);
        let (groups, rest) = run.as_chunks::<GROUP>();
        let (mut held, mut last) = (false, K::EMPTY);
        let (mut places, mut is_ambiguous) = ([[0; GROUP]; 2], [false; 2]);
        // Places go through memory, one batch ahead: that is faster than extracting them from
        // vectors.
        for step in 0..=groups.len() {
            if let Some(keys) = groups.get(step) {
                self.simd.ask_group(next.wrapping_add(step * GROUP));
                let (mut greatest, mut any) = (0, false);
                for i in 0..GROUP {
                    places[step % 2][i] = place_of(keys[i]);
                    greatest = places[step % 2][i].max(greatest);
                    any |= keys[i] == K::EMPTY;
                }
                assert!((greatest as usize) < self.spare || any);
                is_ambiguous[step % 2] = any;
            }
            if step == 0 {
                continue;
            }
            let (keys, places) = (&groups[step - 1], &places[(step - 1) % 2]);
            if is_ambiguous[(step - 1) % 2] {
                held = true;
                self.others(keys, place_of);
                continue;
            }
            for i in 0..GROUP {
                // In a run of copies, each would wait until the last store has reached the cache.
                if keys[i] != last {
                    self.put(places[i] as usize, keys[i]);
                    last = keys[i];
                }
            }
        }
        held |= rest.contains(&K::EMPTY);
        self.others(rest, place_of);
        Ok(held)
    }
    /// Puts keys other than the ambiguous one into their first buckets, one at a time.
    #[inline(always)]
    fn others(&mut self, keys: &[K], place_of: impl Fn(K) -> u32) {
        for &key in keys.iter().filter(|&&key| key != K::EMPTY) {
            let place = place_of(key) as usize;
            assert!(place < self.spare);
            self.put(place, key);
        }
    }
    /// Puts a key into a bucket; it waits if that is full. No branch: whether a bucket is full, and
    /// whether a key has come before, may be unpredictable. A copy writes an empty slot again.
    #[inline(always)]
    fn put(&mut self, place: usize, key: K) {
        let slots = K::SLOTS as usize;
        let keys = &self.buckets[place * slots..][..slots];
        let same = holds(keys, key);
        let fill = self.fills[place] as usize;
        let full = fill == slots;
        let to = select_unpredictable(full, self.spare, place) * slots + fill % slots;
        self.buckets[to] = select_unpredictable(same, K::EMPTY, key);
        let is_new = !(full | same);
        self.fills[place] = (fill + is_new as usize) as u8;
        self.new += is_new as usize;
        self.waiting[self.waits] = key;
        self.waits += (full & !same) as usize;
    }
    /// Puts the waiting keys into their second buckets; those that find these full too are
    /// homeless.
    #[inline(always)]
    fn second(&mut self) {
        let (shape, waits) = (self.shape, self.waits);
        self.waits = self.homeless;
        for i in self.homeless..waits {
            let key = self.waiting[i];
            let h = K::Pairs::hash(key);
            let partition = (shape.partition(h) - self.first_partition) * shape.buckets;
            let first = shape.first(h);
            self.marks[(partition + first) as usize] |= 1 << class(h);
            // The key takes a place that has been read.
            self.put((partition + shape.other(h, first)) as usize, key);
        }
        self.waits = drop_copies(&mut self.waiting[..self.waits]);
        self.homeless = self.waits;
    }
}
/// Sorts the keys and drops copies. Returns how many are left.
#[inline(never)]
fn drop_copies<K: Member>(keys: &mut [K]) -> usize {
    keys.sort_unstable();
    let mut kept = 0;
    for i in 0..keys.len() {
        if i == 0 || keys[i] != keys[kept - 1] {
            keys[kept] = keys[i];
            kept += 1;
        }
    }
    kept
}

/// Work that writes a bin to the table, its full buckets with their class bits.
pub(super) struct Finish<'a, K: Member> {
    pub filler: &'a mut Filler<K>,
    pub table: &'a mut [K],
    /// Whether stores to the table bypass the cache.
    pub stream: bool,
}
impl<K: Member + Pod> Work for Finish<'_, K> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Finish { filler, table, stream } = self;
        let slots = &mut bytemuck::cast_slice_mut(&mut filler.buckets)[..table.len()];
        for (slots, &bits) in slots.chunks_exact_mut(K::SLOTS as usize).zip(&filler.marks) {
            let old = halves(slots);
            let coded = K::with_class_bits(old, bits.into());
            let new = select_unpredictable(is_full::<K>(&old), coded, old);
            for (i, slot) in slots.iter_mut().enumerate() {
                *slot = in_bucket::<K>(&new, i);
            }
        }
        write_out(simd, slots, table, stream);
    }
}

/// Buckets of a bin that has been filled, numbered from the bin's first bucket.
#[derive(Clone, Copy)]
pub(super) struct Host<'a, K> {
    shape: Shape,
    first_partition: u32,
    pub slots: &'a [Cell<K>],
    marks: &'a [Cell<u8>],
}
impl<K: Member> Host<'_, K> {
    /// Returns the first bucket of a hash's partition.
    fn base(self, h: u32) -> u32 {
        (self.shape.partition(h) - self.first_partition) * self.shape.buckets
    }
    fn at(self, bucket: u32) -> usize {
        bucket as usize * K::SLOTS as usize
    }
    /// Returns how many of the homeless keys, given in ascending order, find no room whatever is
    /// evicted, because their partitions have fewer empty slots.
    pub(super) fn surplus(self, homeless: &[K]) -> usize {
        let partition_of = |key: &K| self.shape.partition(K::Pairs::hash(*key));
        let each = self.shape.buckets as usize * K::SLOTS as usize;
        let of_partition = |keys: &[K]| {
            let first = (partition_of(&keys[0]) - self.first_partition) as usize * each;
            let slots = &self.slots[first..first + each];
            let empty = slots.iter().filter(|slot| slot.get() == K::EMPTY).count();
            keys.len().saturating_sub(empty)
        };
        homeless.chunk_by(|a, b| partition_of(a) == partition_of(b)).map(of_partition).sum()
    }
}
impl<K: Member> Filling<K> for Host<'_, K> {
    #[inline(always)]
    fn first(self, h: u32) -> u32 {
        self.base(h) + self.shape.first(h)
    }
    #[inline(always)]
    fn other(self, h: u32, bucket: u32) -> u32 {
        let base = self.base(h);
        base + self.shape.other(h, bucket - base)
    }
    #[inline(always)]
    fn half(self, bucket: u32, half: u32) -> K::Half {
        let at = self.at(bucket) + (half * K::SLOTS / 2) as usize;
        let keys = &self.slots[at..at + K::SLOTS as usize / 2];
        K::half(|i| keys[i as usize].get())
    }
    #[inline(always)]
    fn last(self, bucket: u32) -> K {
        self.slots[self.at(bucket) + K::SLOTS as usize - 1].get()
    }
    #[inline(always)]
    fn replace(self, bucket: u32, slot: u32, old: K, new: K) -> K {
        let slot = &self.slots[self.at(bucket) + slot as usize];
        let there = slot.get();
        if there == old {
            slot.set(new);
        }
        there
    }
    #[inline(always)]
    fn mark(self, bucket: u32, class: u32) {
        let mark = &self.marks[bucket as usize];
        mark.set(mark.get() | 1 << class);
    }
}

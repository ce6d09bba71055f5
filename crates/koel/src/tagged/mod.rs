//! Tables of single keys: what [`HostMap`](crate::HostMap) and [`HostSet`](crate::HostSet) are.
//!
//! Tables of buckets are made for batches: they are full, and what a lookup must know is in the
//! order of their keys. One key after the other is found and changed faster in a table with more
//! room, which says more of each key.
//!
//! A table is a power of two of *groups* of seven slots. The first word of a group has a byte for
//! each slot: its *tag*, seven bits of the hash of the key, or zero if it is free. A lookup
//! compares the seven tags of a group at once, and reads only keys whose tags are equal: one or two
//! adjacent cache lines. The eighth byte has a bit for each of eight classes of keys, set if a key
//! of that class *overflowed*: it found the group full, and is in one of those that follow. A
//! lookup goes on only if the bit of its class is set. So a removal frees a slot and does nothing
//! else, and no slot is marked as removed; bits that became stale are cleared when the table is
//! written anew, which happens after as many removals from such groups as there are groups.
//!
//! The group of a key is given by some bits of its hash: a table that grows to twice its groups
//! reads them in order, and writes two of them at a time. The hash is a product of 128 bits,
//! folded, with random factors: nobody can choose keys that share their groups.
mod iter;
mod slots;
#[cfg(test)]
mod tests;

use crate::device::memory::{collect, prefetch};
use crate::device::words::{HostWords, NONE};
use crate::error::Result;
use crate::fallible::out_of_memory;
use crate::hash::folded;
use crate::seed::unforeseeable;
use equal::{equal_tags, first_equal};
pub(crate) use iter::Iter;
use rayon::iter::ParallelIterator;
use rayon::slice::ParallelSlice;
pub(crate) use slots::Field;
use slots::{SLOTS, Slots};
use std::hint::assert_unchecked;
use std::iter::from_fn;
use std::marker::PhantomData;
use std::mem::replace;

/// The highest bit of each tag: set if the slot is taken.
const TAKEN: u64 = 0x0080_8080_8080_8080;
/// The lowest bit of each byte.
const ONES: u64 = 0x0101_0101_0101_0101;
/// The first of the bits of classes.
const CLASSES: u32 = 56;
/// Entries per group up to which a table is filled: load 0.86.
const MOST_PER_GROUP: usize = SLOTS - 1;
/// An odd number with as many ones as zeros: 2^64 by the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
/// The lowest bits of a hash that tell its group, and its class. The highest byte tells its tag.
const GROUP_SHIFT: u32 = 28;
const CLASS_SHIFT: u32 = GROUP_SHIFT - 3;
/// Minimum number of groups.
const FEWEST_GROUPS: usize = 2;
/// Words of the largest table that a core's own cache holds.
const CACHED: usize = 1 << 17;
/// Groups that a parallel iterator reads at a time.
const PIECE: usize = if cfg!(test) { 1 } else { 1 << 9 };
/// Keys between asking for a group and reading it.
const AHEAD: usize = 32;

/// Where a key lies, as [`Tagged::find`] says: where its group begins, and its slot.
#[derive(Clone, Copy)]
struct At {
    group: usize,
    slot: usize,
}
/// A table of keys of the bits `K`, with values of the bits `V`; `()` if there are none.
pub(crate) struct Tagged<K, V> {
    words: HostWords,
    /// The number of groups, less one: the bits of a hash that tell its group.
    mask: usize,
    factors: [u64; 2],
    len: usize,
    /// Number of entries beyond which the table grows.
    most: usize,
    /// Removals from groups from which keys overflowed, since the table was written.
    stale: usize,
    of: PhantomData<(K, V)>,
}
impl<K: Field, V: Field> Tagged<K, V> {
    /// Returns an empty table, without memory.
    pub(crate) fn new() -> Tagged<K, V> {
        let factors = [unforeseeable(), unforeseeable() | 1];
        Tagged::with_factors(factors)
    }
    fn with_factors(factors: [u64; 2]) -> Tagged<K, V> {
        const { assert!(FEWEST_GROUPS * Slots::<K, V>::WORDS <= NONE) };
        let (words, of) = (HostWords::none(), PhantomData);
        Tagged { words, mask: FEWEST_GROUPS - 1, factors, len: 0, most: 0, stale: 0, of }
    }
    pub(crate) fn len(&self) -> usize {
        self.len
    }
    /// Returns the bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.words.bytes()
    }
    /// Returns the number of groups.
    pub(crate) fn groups(&self) -> usize {
        self.mask + 1
    }
    #[inline(always)]
    fn hash(&self, key: K) -> u64 {
        let [low, high] = key.words();
        let h = folded(low ^ self.factors[0], self.factors[1]);
        let h = if K::BYTES == 16 { folded(high ^ h, self.factors[1]) } else { h };
        // Without it, some factors leave gaps between the groups of keys that ascend.
        h.wrapping_mul(SPREAD)
    }
    /// Returns the number of the first group of a hash: the lowest of its bits from the middle on.
    #[inline(always)]
    fn group_of(&self, h: u64) -> usize {
        (h >> GROUP_SHIFT) as usize & self.mask
    }
    /// Returns where the first group of a hash begins.
    #[inline(always)]
    fn first_group(&self, h: u64) -> usize {
        self.group_of(h) * Slots::<K, V>::WORDS
    }
    /// Returns where the group after another one begins; the last one is followed by the first.
    fn group_after(&self, group: usize) -> usize {
        let next = group + Slots::<K, V>::WORDS;
        if next >= self.groups() * Slots::<K, V>::WORDS { 0 } else { next }
    }
    /// Returns the words of a group, which begins where [`first_group`](Self::first_group) or
    /// [`group_after`](Self::group_after) says.
    #[inline(always)]
    fn group(&self, group: usize) -> &[u64] {
        &self.words[group..][..Slots::<K, V>::WORDS]
    }
    #[inline(always)]
    fn group_mut(&mut self, group: usize) -> &mut [u64] {
        &mut self.words[group..][..Slots::<K, V>::WORDS]
    }
    /// Returns where the first group of a hash begins, and its words.
    #[inline(always)]
    fn first(&self, h: u64) -> (usize, &[u64]) {
        let group = self.first_group(h);
        debug_assert!(group + Slots::<K, V>::WORDS <= self.words.len());
        // SAFETY: `resize` and `with_factors`, which alone set `mask` and `words`, set both so that
        // there are `mask + 1` groups.
        (group, unsafe { self.words.get_unchecked(group..group + Slots::<K, V>::WORDS) })
    }
    /// Returns where a key lies.
    #[inline(always)]
    fn find(&self, key: K, h: u64) -> Option<At> {
        let (group, words) = self.first(h);
        if let Some(slot) = slot_of::<K, V>(words, key, h) {
            return Some(At { group, slot });
        }
        if !has_overflowed(words[0], h) {
            return None;
        }
        self.find_after(group, key, h)
    }
    /// Returns the words of a group with a slot.
    ///
    /// # Safety
    /// [`find`](Self::find) has returned the place, and the table was not written anew since.
    #[inline(always)]
    unsafe fn found(&self, At { group, slot }: At) -> &[u64] {
        debug_assert!(group + Slots::<K, V>::WORDS <= self.words.len() && slot < SLOTS);
        // SAFETY: by the caller's contract.
        unsafe {
            assert_unchecked(slot < SLOTS);
            self.words.get_unchecked(group..group + Slots::<K, V>::WORDS)
        }
    }
    /// As [`found`](Self::found), to be changed.
    ///
    /// # Safety
    /// As there. A table in which a key was found has memory.
    #[inline(always)]
    unsafe fn found_mut(&mut self, At { group, slot }: At) -> &mut [u64] {
        debug_assert!(group + Slots::<K, V>::WORDS <= self.words.len() && slot < SLOTS);
        // SAFETY: by the caller's contract.
        unsafe {
            assert_unchecked(slot < SLOTS);
            self.words.get_unchecked_mut(group..group + Slots::<K, V>::WORDS)
        }
    }
    #[inline(never)]
    fn find_after(&self, first: usize, key: K, h: u64) -> Option<At> {
        let mut group = first;
        loop {
            group = self.group_after(group);
            let words = self.group(group);
            if let Some(slot) = slot_of::<K, V>(words, key, h) {
                return Some(At { group, slot });
            }
            // In the end, if all groups have overflowed.
            if !has_overflowed(words[0], h) || group == first {
                return None;
            }
        }
    }
    /// Returns the value of a key.
    #[inline]
    pub(crate) fn get(&self, key: K) -> Option<V> {
        let at = self.find(key, self.hash(key))?;
        // SAFETY: it was just found.
        Some(Slots::<K, V>::value(unsafe { self.found(at) }, at.slot))
    }
    /// Returns the `answer` of the value of each key, in order. Waits for the memory of many keys
    /// at a time. Errors: out of memory.
    pub(crate) fn get_each<Q: Copy, T>(
        &self,
        keys: &[Q],
        bits: impl Fn(Q) -> K,
        answer: impl Fn(Option<V>) -> T,
    ) -> Result<Vec<T>> {
        let mut ahead = keys.iter();
        let mut ask = || {
            if let Some(&key) = ahead.next() {
                self.ask(bits(key));
            }
        };
        collect(keys.len(), |to| {
            (0..AHEAD).for_each(|_| ask());
            for (&key, to) in keys.iter().zip(to) {
                ask();
                to.write(answer(self.get(bits(key))));
            }
            Ok(())
        })
    }
    /// Prefetches the first group of a key, unless the table is in a cache.
    #[inline(always)]
    fn ask(&self, key: K) {
        if self.words.len() <= CACHED {
            return;
        }
        let first = self.words.as_ptr().wrapping_add(self.first_group(self.hash(key)));
        prefetch(first);
        // The groups of larger slots have more lines; most keys are in the first ones.
        if Slots::<K, V>::WORDS > 8 {
            prefetch(first.wrapping_add(8));
        }
    }
    /// Sets the value of a key to what `change` makes of it; `None` is that of a missing key.
    /// Returns the value before.
    ///
    /// Errors: out of memory, if the key was missing and is to be inserted.
    #[inline]
    pub(crate) fn alter(
        &mut self,
        key: K,
        change: impl FnOnce(Option<V>) -> Option<V>,
    ) -> Result<Option<V>> {
        let h = self.hash(key);
        let Some(at) = self.find(key, h) else {
            if let Some(value) = change(None) {
                self.insert(key, value, h)?;
            }
            return Ok(None);
        };
        // SAFETY: it was just found, here and below: `change` cannot reach the table.
        let before = Some(Slots::<K, V>::value(unsafe { self.found(at) }, at.slot));
        match change(before) {
            Some(_) if V::BYTES == 0 => {}
            // SAFETY: as above.
            Some(value) => Slots::<K, V>::put(unsafe { self.found_mut(at) }, at.slot, key, value),
            // SAFETY: as above.
            None => unsafe { self.vacate(at) },
        }
        Ok(before)
    }
    /// Removes a key. Returns the value that it had.
    #[inline]
    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        let at = self.find(key, self.hash(key))?;
        // SAFETY: it was just found.
        let value = Slots::<K, V>::value(unsafe { self.found(at) }, at.slot);
        // SAFETY: as above.
        unsafe { self.vacate(at) };
        Some(value)
    }
    /// Removes the entry in a slot.
    ///
    /// # Safety
    /// As of [`found`](Self::found).
    #[inline(always)]
    unsafe fn vacate(&mut self, at: At) {
        // SAFETY: by the caller's contract.
        let tags = &mut unsafe { self.found_mut(at) }[0];
        *tags &= !(0xFF << (8 * at.slot));
        let overflows = *tags >> CLASSES != 0;
        self.len -= 1;
        if overflows {
            self.count_stale();
        }
    }
    fn count_stale(&mut self) {
        self.stale += 1;
        if self.stale > self.groups() {
            self.stale = 0;
            // Without memory for it, lookups read more groups until the next time.
            drop(self.resize(self.groups()));
        }
    }
    /// Inserts a missing key. Not inlined: lookups that find their keys are smaller without it.
    #[inline(never)]
    fn insert(&mut self, key: K, value: V, h: u64) -> Result<()> {
        if self.len >= self.most {
            self.grow()?;
        }
        self.place(key, value, h);
        Ok(())
    }
    /// Puts a missing key into the first free slot from its group on. There is one.
    #[inline(always)]
    fn place(&mut self, key: K, value: V, h: u64) {
        let mut group = self.first_group(h);
        loop {
            let words = self.group_mut(group);
            let free = !words[0] & TAKEN;
            if free != 0 {
                let slot = first_slot(free);
                words[0] |= tag(h) << (8 * slot);
                Slots::<K, V>::put(words, slot, key, value);
                self.len += 1;
                return;
            }
            words[0] |= class_bit(h);
            group = self.group_after(group);
        }
    }
    #[cold]
    fn grow(&mut self) -> Result<()> {
        self.resize(groups_for(self.len.saturating_add(1))?.max(self.groups()))
    }
    /// Makes room for more entries. Errors: out of memory; then the table is as before.
    pub(crate) fn reserve(&mut self, more: usize) -> Result<()> {
        let room = self.len.saturating_add(more);
        if room <= self.most { Ok(()) } else { self.resize(groups_for(room)?) }
    }
    /// Frees memory that the entries do not need. Errors: as [`reserve`](Self::reserve).
    pub(crate) fn shrink(&mut self) -> Result<()> {
        if self.len == 0 {
            *self = Tagged::with_factors(self.factors);
            return Ok(());
        }
        let groups = groups_for(self.len)?;
        if groups < self.groups() { self.resize(groups) } else { Ok(()) }
    }
    /// Writes the table anew, with this many groups, which have room for its entries.
    fn resize(&mut self, groups: usize) -> Result<()> {
        let words = groups.saturating_mul(Slots::<K, V>::WORDS);
        let mut to = Tagged {
            words: HostWords::new(words)?,
            mask: groups - 1,
            most: groups * MOST_PER_GROUP,
            ..Tagged::with_factors(self.factors)
        };
        if groups == 2 * self.groups() && self.len > 0 {
            self.double(&mut to);
        } else {
            self.iter().for_each(|(key, value)| to.place(key, value, to.hash(key)));
        }
        *self = to;
        Ok(())
    }
    /// Copies the entries to a new table of twice the groups. Those of a group go to two groups,
    /// which nothing else fills but what overflows from those before them: slots are counted, not
    /// looked for.
    fn double(&self, to: &mut Tagged<K, V>) {
        let groups = self.groups();
        for i in 0..groups {
            let group = self.group(i * Slots::<K, V>::WORDS);
            let both = [i, i + groups].map(|i| i * Slots::<K, V>::WORDS);
            let mut tags = both.map(|group| to.words[group]);
            let mut counts = tags.map(|tags| (tags & TAKEN).count_ones() as usize);
            // Others wait until the tags are written.
            let mut others = 0;
            for slot in taken_slots(group[0]) {
                let key = Slots::<K, V>::key(group, slot);
                let h = to.hash(key);
                let which = usize::from(to.group_of(h) != self.group_of(h));
                let count = counts[which];
                if self.group_of(h) != i || count == SLOTS {
                    others |= 0x80 << (8 * slot);
                    continue;
                }
                let value = Slots::<K, V>::value(group, slot);
                Slots::<K, V>::put(to.group_mut(both[which]), count, key, value);
                tags[which] |= tag(h) << (8 * count);
                counts[which] = count + 1;
                to.len += 1;
            }
            both.into_iter().zip(tags).for_each(|(group, tags)| to.words[group] = tags);
            for slot in taken_slots(others) {
                let key = Slots::<K, V>::key(group, slot);
                to.place(key, Slots::<K, V>::value(group, slot), to.hash(key));
            }
        }
    }
    /// Sets the values of keys, of equal ones to the last value. Waits for the memory of many keys
    /// at a time. Errors: out of memory; the entries before are in the table.
    pub(crate) fn extend(&mut self, entries: impl Iterator<Item = (K, V)>) -> Result<()> {
        let mut entries = entries.fuse();
        let hint = entries.size_hint().0;
        // Some may be in the table already.
        self.reserve(if self.len == 0 { hint } else { hint / 2 })?;
        // Those whose groups are on their way, the oldest first from `i % AHEAD` on.
        let mut asked = [(K::default(), V::default()); AHEAD];
        let count = asked.iter_mut().zip(&mut entries).map(|(to, entry)| *to = entry).count();
        asked[..count].iter().for_each(|&(key, _)| self.ask(key));
        let mut i = 0;
        for entry in entries {
            self.ask(entry.0);
            let (key, value) = replace(&mut asked[i % AHEAD], entry);
            self.alter(key, |_| Some(value))?;
            i += 1;
        }
        for j in i..i + count {
            let (key, value) = asked[j % AHEAD];
            self.alter(key, |_| Some(value))?;
        }
        Ok(())
    }
    /// Removes the entries that are not to be kept. Writes nothing else, also if `keep` panics.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(K, V) -> bool) {
        for group in 0..self.groups() {
            let group = group * Slots::<K, V>::WORDS;
            let tags = self.group(group)[0];
            let overflows = tags >> CLASSES != 0;
            for slot in taken_slots(tags) {
                let words = self.group(group);
                if !keep(Slots::<K, V>::key(words, slot), Slots::<K, V>::value(words, slot)) {
                    self.group_mut(group)[0] &= !(0xFF << (8 * slot));
                    self.len -= 1;
                    self.stale += usize::from(overflows);
                }
            }
        }
    }
    /// Removes all entries, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
        (self.len, self.stale) = (0, 0);
    }
    /// Returns the entries, in any order.
    pub(crate) fn iter(&self) -> Iter<'_, K, V> {
        Iter::new(&self.words)
    }
    /// Returns the entries, in any order, as a parallel iterator.
    pub(crate) fn par_iter(&self) -> impl ParallelIterator<Item = (K, V)> + use<'_, K, V> {
        // The words of a table without memory may end within a group.
        let groups = &self.words[..self.groups() * Slots::<K, V>::WORDS];
        groups.par_chunks(PIECE * Slots::<K, V>::WORDS).flat_map_iter(Iter::new)
    }
    /// Returns a copy. Errors: out of memory.
    pub(crate) fn try_clone(&self) -> Result<Tagged<K, V>> {
        Ok(Tagged { words: self.words.try_clone()?, ..*self })
    }
}
/// Returns the number of groups for this many entries. Errors: out of memory.
fn groups_for(entries: usize) -> Result<usize> {
    let groups = entries.div_ceil(MOST_PER_GROUP).checked_next_power_of_two();
    Ok(groups.ok_or_else(|| out_of_memory(usize::MAX))?.max(FEWEST_GROUPS))
}
#[inline(always)]
fn tag(h: u64) -> u64 {
    h >> 56 | 0x80
}
/// Returns the bit of the class of a hash.
#[inline(always)]
fn class_bit(h: u64) -> u64 {
    1 << (CLASSES + (h >> CLASS_SHIFT) as u32 % 8)
}
#[inline(always)]
fn has_overflowed(tags: u64, h: u64) -> bool {
    tags & class_bit(h) != 0
}
/// Returns the slots that are taken, in order.
#[inline(always)]
fn taken_slots(tags: u64) -> impl Iterator<Item = usize> {
    let mut taken = tags & TAKEN;
    from_fn(move || {
        let slot = (taken != 0).then(|| first_slot(taken))?;
        taken &= taken - 1;
        Some(slot)
    })
}
/// Returns the slot of the lowest bit of [`TAKEN`] that is set.
#[inline(always)]
fn first_slot(bits: u64) -> usize {
    bits.trailing_zeros() as usize / 8
}
/// Returns the slot of a key in its group.
#[inline(always)]
fn slot_of<K: Field, V: Field>(words: &[u64], key: K, h: u64) -> Option<usize> {
    let mut equal = equal_tags(words[0], tag(h));
    while equal != 0 {
        let slot = first_equal(equal);
        if Slots::<K, V>::key(words, slot) == key {
            return Some(slot);
        }
        equal &= equal - 1;
    }
    None
}
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod equal {
    use super::{ONES, SLOTS};
    use std::arch::x86_64::*;

    /// Returns a bit for each of the tags that is equal to `tag`.
    #[inline(always)]
    pub(super) fn equal_tags(tags: u64, tag: u64) -> u32 {
        #[inline]
        #[target_feature(enable = "sse2")]
        fn equal_bytes(a: u64, b: u64) -> u32 {
            let [a, b] = [a, b].map(|bytes| _mm_cvtsi64_si128(bytes as i64));
            _mm_movemask_epi8(_mm_cmpeq_epi8(a, b)) as u32
        }
        // SAFETY: the program is compiled for processors that have these instructions.
        unsafe { equal_bytes(tags, tag.wrapping_mul(ONES)) & ((1 << SLOTS) - 1) }
    }
    #[inline(always)]
    pub(super) fn first_equal(bits: u32) -> usize {
        bits.trailing_zeros() as usize
    }
}
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
mod equal {
    use super::{ONES, TAKEN, first_slot};

    /// Returns the highest bit of each of the tags that is equal to `tag`, and perhaps of one that
    /// follows it, which its key tells.
    #[inline(always)]
    pub(super) fn equal_tags(tags: u64, tag: u64) -> u64 {
        let differences = tags ^ tag.wrapping_mul(ONES);
        differences.wrapping_sub(ONES) & !differences & TAKEN
    }
    #[inline(always)]
    pub(super) fn first_equal(bits: u64) -> usize {
        first_slot(bits)
    }
}

//! A growing table that numbers keys in order of first occurrence.
use super::{BATCH, Own, Pace};
use crate::cpu::{GROUP, Level, Simd, Work};
use crate::device::memory::{prefetch, zeroed};
use crate::error::Result;
use crate::fallible::{extend, reserve};

/// Maximum number of slots that are probed for a key: more are a sign of keys chosen against the
/// seed.
pub(super) const PROBES: usize = 256;
/// Bytes of a table from which on slots are prefetched, and of one that is kept at most half as
/// full: the first probe of a sparse table is nearly always the last.
const PREFETCHED: usize = 1 << 18;
const SPARSE: usize = 1 << 16;
/// Bits of the number of slots of the first table.
const FIRST_BITS: u32 = 10;
/// Slots from which on a table doubles. Smaller ones grow four times.
const DOUBLING: usize = 1 << 20;
/// Keys of a batch that are equal to the one before, from which on only the others are looked up.
const LEAST_REPEATS: u32 = 32;

/// Keys numbered in order of first occurrence.
pub(super) struct Numbering<O> {
    pub keys: Vec<O>,
    /// Row of the first occurrence of each.
    pub firsts: Vec<u32>,
    /// Whether occurrences are counted.
    pub is_counting: bool,
    /// How often each key occurs, in even and in odd places of batches: two counters, as neither
    /// then waits for its last increment if a key comes twice in succession.
    pub counts: Vec<[u32; 2]>,
    /// Hash in the high half, number plus 1 in the low half; 0 if the slot is free. The highest
    /// bits of a hash are the slot where it is searched for; it lies there, or in one of the
    /// [`PROBES`] slots behind. Slots are in about the order of their hashes, so that a table grows
    /// from its beginning to its end. No slots as long as the keys ascend: then a key is new, or
    /// the last one.
    slots: Vec<u64>,
    shift: u32,
    seed: u64,
}
/// Whether keys were numbered, or why not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    Numbered,
    /// Another way is faster, or many keys share a place.
    GivenUp,
}
/// Keys to be numbered, by place.
pub(super) trait Source<O> {
    fn len(&self) -> usize;
    /// Copies the keys from `start` on.
    fn copy(&self, start: usize, to: &mut [O]);
    /// Returns the row of a key.
    fn row(&self, i: usize) -> u32;
}

/// Numbers keys with a table: [`Work`].
pub(super) struct Number<'a, O, F> {
    pub numbering: &'a mut Numbering<O>,
    pub source: F,
    /// Receives the number of each key.
    pub ids: Option<&'a mut [u32]>,
    /// Tells whether to go on, if there is another way.
    pub pace: Option<Pace<'a>>,
}
impl<O: Own, F: Source<O>> Work for Number<'_, O, F> {
    type Output = Result<Ended>;
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Result<Ended> {
        let Number { numbering, source, mut ids, pace } = self;
        let n = source.len();
        let mut start = 0;
        if numbering.slots.is_empty() {
            start = numbering.ascending(&source, ids.as_deref_mut())?;
        }
        if start == n {
            return Ok(Ended::Numbered);
        }
        if !numbering.make_room(start, pace)? {
            return Ok(Ended::GivenUp);
        }
        // A batch is hashed, and its slots are prefetched, before the one in front is looked up.
        let (mut next, mut next_hashes, mut found) = ([O::any(); BATCH], [0; BATCH], [0; BATCH]);
        numbering.hash_ahead(&source, start, &mut next, &mut next_hashes);
        let mut before = None;
        while start < n {
            if !numbering.make_room(start, pace)? {
                return Ok(Ended::GivenUp);
            }
            let (keys, hashes) = (next, next_hashes);
            let len = BATCH.min(n - start);
            if start + BATCH < n {
                numbering.hash_ahead(&source, start + BATCH, &mut next, &mut next_hashes);
            }
            let (keys, row) = (&keys[..len], |i: usize| source.row(start + i));
            if !numbering.batch(simd, (before, keys), &hashes, row, &mut found) {
                return Ok(Ended::GivenUp);
            }
            if let Some(ids) = &mut ids {
                let to = &mut ids[start..start + len];
                to.iter_mut().zip(&found).for_each(|(to, found)| *to = found - 1);
            }
            before = keys.last().copied();
            start += len;
        }
        Ok(Ended::Numbered)
    }
}
impl<O: Own> Numbering<O> {
    /// Numbers no keys yet, and takes no memory.
    pub(super) fn new(seed: u64, is_counting: bool) -> Numbering<O> {
        let (keys, firsts, counts, slots) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Numbering { keys, firsts, is_counting, counts, slots, shift: u32::BITS, seed }
    }
    /// Reserves room for the keys of a batch.
    #[inline(always)]
    fn reserve(&mut self) -> Result<()> {
        reserve(&mut self.keys, BATCH)?;
        reserve(&mut self.firsts, BATCH)?;
        if self.is_counting {
            reserve(&mut self.counts, BATCH)?;
        }
        Ok(())
    }
    /// Numbers a key that is new. There is room.
    #[inline(always)]
    #[allow(clippy::disallowed_methods, reason = "there is room")]
    fn add(&mut self, key: O, row: u32) {
        self.keys.push(key);
        self.firsts.push(row);
        if self.is_counting {
            self.counts.push([0; 2]);
        }
    }

    /// Numbers the batches of keys up to one in which they do not ascend. Returns how many keys
    /// these have.
    #[inline(always)]
    fn ascending<F: Source<O>>(
        &mut self,
        source: &F,
        mut ids: Option<&mut [u32]>,
    ) -> Result<usize> {
        if !O::IS_ORDERED {
            return Ok(0);
        }
        let n = source.len();
        let mut batch = [O::any(); BATCH];
        for start in (0..n).step_by(BATCH) {
            let keys = &mut batch[..BATCH.min(n - start)];
            source.copy(start, keys);
            let first = *self.keys.first().unwrap_or(&keys[0]);
            let before = self.keys.last().copied();
            let ascends = |a: O, b: O| O::ascend(first, a, b);
            let is_ascending = before.is_none_or(|before| ascends(before, keys[0]))
                && keys.array_windows().fold(true, |all, &[a, b]| all & ascends(a, b));
            if !is_ascending {
                return Ok(start);
            }
            self.reserve()?;
            let mut id = self.keys.len() as u32;
            let heads = match repeats(keys) {
                0 => heads(before, &keys[..1]) | (u64::MAX >> (BATCH - keys.len()) & !1),
                _ => heads(before, keys),
            };
            let mut rest = heads;
            while rest != 0 {
                let i = rest.trailing_zeros() as usize;
                self.add(keys[i], source.row(start + i));
                rest &= rest - 1;
            }
            if let Some(ids) = &mut ids {
                for (i, to) in ids[start..][..keys.len()].iter_mut().enumerate() {
                    id += (heads >> i & 1) as u32;
                    *to = id - 1;
                }
            }
            if self.is_counting {
                let mut at = self.counts.len() - heads.count_ones() as usize;
                for i in 0..keys.len() {
                    at += (heads >> i & 1) as usize;
                    self.counts[at - 1][i % 2] += 1;
                }
            }
        }
        Ok(n)
    }

    /// Makes room for a batch, behind the keys seen. Returns whether to go on: whether that pays,
    /// and every key has a slot.
    #[inline(always)]
    fn make_room(&mut self, seen: usize, pace: Option<Pace<'_>>) -> Result<bool> {
        self.reserve()?;
        if pace.is_some_and(|pace| pace.is_stopped()) {
            return Ok(false);
        }
        let needed = self.keys.len() + BATCH;
        let has = self.capacity();
        let full = if has * size_of::<u64>() <= SPARSE { has / 4 } else { has / 2 };
        if needed <= full {
            return Ok(true);
        }
        let pays = pace.is_none_or(|pace| pace.pays(seen, self.keys.len()));
        if pays { self.grow(needed) } else { Ok(false) }
    }
    /// Number of slots that hashes lead to.
    fn capacity(&self) -> usize {
        self.slots.len().saturating_sub(PROBES)
    }
    #[cold]
    #[inline(never)]
    fn grow(&mut self, needed: usize) -> Result<bool> {
        let has = self.capacity();
        let factor = if has < DOUBLING { 4 } else { 2 };
        let slots = (factor * has).max(2 * needed).next_power_of_two();
        let bits = slots.ilog2().max(FIRST_BITS);
        if bits > u32::BITS - 1 {
            return Ok(false);
        }
        let old = std::mem::replace(&mut self.slots, zeroed((1 << bits) + PROBES)?);
        self.shift = u32::BITS - bits;
        if old.is_empty() {
            return Ok(self.enter_all());
        }
        let (slots, shift) = (&mut self.slots[..], self.shift);
        for slot in old.into_iter().filter(|&slot| slot != 0) {
            let place = ((slot >> 32) as u32 >> shift) as usize;
            match slots[place..][..PROBES].iter_mut().find(|slot| **slot == 0) {
                Some(free) => *free = slot,
                None => return Ok(false),
            }
        }
        Ok(true)
    }
    /// Enters all keys, which are distinct, into a table without keys.
    fn enter_all(&mut self) -> bool {
        let (slots, shift, seed) = (&mut self.slots[..], self.shift, self.seed);
        let mut number = 0;
        for keys in self.keys.chunks(BATCH) {
            let mut hashes = [0; BATCH];
            hashes.iter_mut().zip(keys).for_each(|(to, key)| *to = key.hash(seed));
            let hashes = &hashes[..keys.len()];
            hashes.iter().for_each(|&hash| prefetch(&raw const slots[(hash >> shift) as usize]));
            for &hash in hashes {
                number += 1;
                let place = (hash >> shift) as usize;
                match slots[place..][..PROBES].iter_mut().find(|slot| **slot == 0) {
                    Some(free) => *free = slot_of(hash, number),
                    None => return false,
                }
            }
        }
        true
    }

    /// Copies a batch, hashes it, and prefetches its slots.
    #[inline(always)]
    fn hash_ahead<F: Source<O>>(
        &self,
        source: &F,
        start: usize,
        keys: &mut [O; BATCH],
        to: &mut [u32; BATCH],
    ) {
        match source.len() - start {
            BATCH.. => source.copy(start, keys),
            len => source.copy(start, &mut keys[..len]),
        }
        to.iter_mut().zip(keys).for_each(|(to, key)| *to = key.hash(self.seed));
        if size_of_val(&self.slots[..]) >= PREFETCHED {
            for &hash in to.iter() {
                prefetch(self.slots.as_ptr().wrapping_add((hash >> self.shift) as usize));
            }
        }
    }
    /// Writes the numbers of a batch, each plus 1, and counts them. There is room. Returns whether
    /// no key needs too many probes.
    #[inline(always)]
    fn batch<S: Simd>(
        &mut self,
        simd: S,
        (before, keys): (Option<O>, &[O]),
        hashes: &[u32; BATCH],
        row: impl Fn(usize) -> u32,
        found: &mut [u32; BATCH],
    ) -> bool {
        if O::IS_ORDERED {
            // A sample of fixed length, for vector instructions.
            if keys.first_chunk::<49>().is_some_and(|keys| repeats(keys) >= LEAST_REPEATS) {
                return self.runs(keys, heads(before, keys) | 1, hashes, row, found);
            }
        }
        let mut missing = 0u64;
        for (part, (hashes, found)) in
            hashes.as_chunks().0.iter().zip(found.as_chunks_mut().0).enumerate()
        {
            let bits = simd.tagged(&self.slots, self.shift, hashes, found);
            missing |= u64::from(!bits) << (GROUP * part);
        }
        if !O::IS_EXACT {
            missing |= self.others(keys, found);
        }
        missing &= u64::MAX >> (BATCH - keys.len());
        while missing != 0 {
            let i = missing.trailing_zeros() as usize;
            match self.number(keys[i], hashes[i], || row(i)) {
                Some(number) => found[i] = number,
                None => return false,
            }
            missing &= missing - 1;
        }
        if self.is_counting {
            let (counts, (pairs, last)) = (&mut self.counts[..], found[..keys.len()].as_chunks());
            for &[even, odd] in pairs {
                counts[even as usize - 1][0] += 1;
                counts[odd as usize - 1][1] += 1;
            }
            last.iter().for_each(|&number| counts[number as usize - 1][0] += 1);
        }
        true
    }
    /// Does the same for keys of which many are equal to the one before: looks the others up.
    #[inline(always)]
    fn runs(
        &mut self,
        keys: &[O],
        mut heads: u64,
        hashes: &[u32; BATCH],
        row: impl Fn(usize) -> u32,
        found: &mut [u32; BATCH],
    ) -> bool {
        while heads != 0 {
            let i = heads.trailing_zeros() as usize;
            heads &= heads - 1;
            let end = if heads == 0 { keys.len() } else { heads.trailing_zeros() as usize };
            let Some(number) = self.number(keys[i], hashes[i], || row(i)) else { return false };
            found[i..end].fill(number);
            if self.is_counting {
                self.counts[number as usize - 1][0] += (end - i) as u32;
            }
        }
        true
    }
    /// Returns the keys of a batch that are not those of the numbers found for their hashes.
    #[inline(always)]
    fn others(&self, keys: &[O], found: &[u32; BATCH]) -> u64 {
        let Some(last) = self.keys.len().checked_sub(1) else { return u64::MAX };
        let own = |number: u32| (number as usize).wrapping_sub(1).min(last);
        if size_of_val(&self.keys[..]) >= PREFETCHED {
            for &number in found {
                prefetch(&raw const self.keys[own(number)]);
            }
        }
        O::prefetch(found[..keys.len()].iter().map(|&number| self.keys[own(number)]));
        let is_other = |(&key, &number): (&O, &u32)| !key.is(self.keys[own(number)]);
        // Nearly always none.
        if !keys.iter().zip(found).map(is_other).fold(false, |any, is| any | is) {
            return 0;
        }
        let bits = keys.iter().zip(found).map(is_other).enumerate();
        bits.fold(0, |all, (i, is)| all | u64::from(is) << i)
    }
    /// Returns the number of a key plus 1, if need be a new one. `None` if that takes too many
    /// probes.
    #[inline(always)]
    fn number(&mut self, key: O, hash: u32, row: impl FnOnce() -> u32) -> Option<u32> {
        let place = (hash >> self.shift) as usize;
        for slot in &mut self.slots[place..][..PROBES] {
            let number = *slot as u32;
            if number == 0 {
                let number = self.keys.len() as u32 + 1;
                *slot = slot_of(hash, number);
                self.add(key, row());
                return Some(number);
            }
            let is_own = || O::IS_EXACT || self.keys[number as usize - 1].is(key);
            if (*slot >> 32) as u32 == hash && is_own() {
                return Some(number);
            }
        }
        None
    }

    /// Adds the keys of another numbering, of later rows. Returns the number of each of them;
    /// `None` if some need too many probes.
    pub(super) fn merge(&mut self, other: &Numbering<O>) -> Result<Option<Vec<u32>>> {
        let (mut ids, source) = (zeroed(other.keys.len())?, Later(other));
        // Their occurrences are counted.
        let is_counting = std::mem::replace(&mut self.is_counting, false);
        let (numbering, of_ids) = (&mut *self, Some(&mut ids[..]));
        let ended = Level::best().run(Number { numbering, source, ids: of_ids, pace: None })?;
        self.is_counting = is_counting;
        if ended == Ended::GivenUp {
            return Ok(None);
        }
        if is_counting {
            let new = self.keys.len() - self.counts.len();
            extend(&mut self.counts, std::iter::repeat_n([0; 2], new))?;
            for (&id, [even, odd]) in ids.iter().zip(&other.counts) {
                self.counts[id as usize][0] += even + odd;
            }
        }
        Ok(Some(ids))
    }
}
/// The keys of a numbering of later rows.
struct Later<'a, O>(&'a Numbering<O>);
impl<O: Own> Source<O> for Later<'_, O> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.0.keys.len()
    }
    #[inline(always)]
    fn copy(&self, start: usize, to: &mut [O]) {
        to.copy_from_slice(&self.0.keys[start..][..to.len()]);
    }
    #[inline(always)]
    fn row(&self, i: usize) -> u32 {
        self.0.firsts[i]
    }
}
#[inline(always)]
fn slot_of(hash: u32, number: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(number)
}
/// Returns how many keys are equal to the one before.
#[inline(always)]
fn repeats<O: Own>(keys: &[O]) -> u32 {
    keys.array_windows().map(|[a, b]| u32::from(a.is(*b))).sum()
}
/// Returns the places of a batch whose keys differ from the ones before.
#[inline(always)]
fn heads<O: Own>(before: Option<O>, keys: &[O]) -> u64 {
    let first = before.is_none_or(|before| !before.is(keys[0])) as u64;
    let bit = |(i, &[a, b]): (usize, &[O; 2])| u64::from(!a.is(b)) << (i + 1);
    keys.array_windows().enumerate().map(bit).fold(first, |all, bit| all | bit)
}

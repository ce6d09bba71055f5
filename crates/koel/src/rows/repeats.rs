//! Distinct keys of a column in host memory in which keys repeat.
//!
//! Each thread numbers the distinct keys of a part of the column in a table of its own, which stays
//! in cache if they are few; then only the distinct keys of all parts go into a table of rows. This
//! gains if keys repeat near each other, and gives up early if they do not.
use super::Keys;
use crate::device::Device;
use crate::device::memory::prefetch;
use crate::error::Result;
use crate::fallible::{self, push, repeat};
use crate::parallel;
use crate::types::Bits;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Keys that may repeat.
pub(crate) trait Hashed: Keys {
    /// What a table keeps of a key: the key, or a hash that only probably differs from others.
    type Tag: Copy + PartialEq + Default + Send;
    /// Whether equal tags are those of equal keys.
    const IS_EXACT: bool;
    /// After a sixteenth of a part, at most this fraction of its keys may be distinct.
    const MOST_DISTINCT: f64;
    /// Writes the tags of all keys.
    fn tags(&self, seed: u64, to: &mut [Self::Tag]);
    /// Returns a fast hash of a tag. Its highest bits count.
    fn hash(tag: Self::Tag, seed: u64) -> u64;
}
/// Keys whose memory is prefetched together.
const BATCH: usize = 64;
/// Minimum number of keys of a part.
const LEAST: usize = 1 << 14;
/// The fraction of a part after which its distinct keys are counted.
const TRIED: usize = 16;
/// Maximum number of slots that are probed for a key: more are a sign of keys chosen against the
/// seed.
const PROBES: usize = 256;

/// The distinct keys of a part of a column.
#[derive(PartialEq, Debug)]
pub(crate) struct Part {
    /// Number of keys in the part.
    pub len: usize,
    /// Row of the first of each, in order.
    pub firsts: Vec<u32>,
    /// How often each occurs.
    pub counts: Vec<u32>,
}
/// Numbers the distinct keys of parts of a column, in order of first occurrence, and writes the
/// number of each key to `ids`, if they are wanted. Returns `None` if that does not pay, if
/// different keys share a hash, or if many share a place. Errors: out of memory.
pub(crate) fn parts_of<K: Hashed>(
    device: &Device,
    keys: K,
    seed: u64,
    ids: Option<&mut [u32]>,
) -> Result<Option<Vec<Part>>> {
    let parts = (keys.len() / LEAST).clamp(1, device.parallelism());
    let each = keys.len().div_ceil(parts).max(1);
    let ranges = (0..keys.len()).step_by(each).map(|start| start..keys.len().min(start + each));
    let gives_up = AtomicBool::new(false);
    let number = |range: Range<usize>, mut ids: Option<&mut [u32]>| {
        let (len, keys) = (range.len(), keys.part(range.start, range.len()));
        let (mut numbering, tried) = (Numbering::<K>::new(len, seed)?, len / TRIED);
        let (mut tags, mut numbers) = ([K::Tag::default(); BATCH], [0; BATCH]);
        // Where the first of each are: reading rows again would miss caches.
        let mut firsts = Vec::new();
        for first in (0..len).step_by(BATCH) {
            let distinct = numbering.part.firsts.len();
            let is_tried = (tried..tried + BATCH).contains(&first) && first > 0;
            if is_tried && distinct as f64 > K::MOST_DISTINCT * first as f64
                || gives_up.load(Relaxed)
            {
                return Ok(None);
            }
            let count = BATCH.min(len - first);
            let (tags, numbers) = (&mut tags[..count], &mut numbers[..count]);
            let batch = keys.part(first, count);
            batch.tags(seed, tags);
            numbering.make_room()?;
            if !numbering.number((first, tags), numbers)? {
                return Ok(None);
            }
            if !K::IS_EXACT {
                let new = numbering.part.firsts[firsts.len()..].iter();
                fallible::extend(&mut firsts, new.filter_map(|&row| keys.key(row as usize)))?;
                if !is_same(&firsts, &batch, numbers) {
                    return Ok(None);
                }
            }
            if let Some(ids) = &mut ids {
                ids[first..][..count].copy_from_slice(numbers);
            }
        }
        let mut part = numbering.part;
        part.firsts.iter_mut().for_each(|row| *row += range.start as u32);
        Ok(Some(part))
    };
    let of_part = |(range, ids): (Range<usize>, Option<&mut [u32]>)| {
        let numbered: fallible::Result<Option<Part>> = number(range, ids);
        if !matches!(numbered, Ok(Some(_))) {
            gives_up.store(true, Relaxed);
        }
        numbered
    };
    let parts = match ids {
        Some(ids) => {
            let of_parts = ranges.zip(ids.chunks_mut(each).map(Some));
            device.install(|| parallel::map(of_parts, |_, part| of_part(part)))?
        }
        None => device.install(|| parallel::map(ranges, |_, range| of_part((range, None))))?,
    };
    let mut all = fallible::with_room(parts.len())?;
    for part in parts {
        match part? {
            Some(part) => push(&mut all, part)?,
            None => return Ok(None),
        }
    }
    Ok(Some(all))
}
/// Returns whether keys are equal to the first ones of their numbers.
fn is_same<K: Keys>(firsts: &[&K::Key], keys: &K, ids: &[u32]) -> bool {
    for &id in ids {
        prefetch(std::ptr::from_ref(firsts[id as usize]).cast::<u8>());
    }
    ids.iter().enumerate().all(|(i, &id)| keys.key(i) == Some(firsts[id as usize]))
}

impl<B: Bits> Hashed for &[B] {
    type Tag = B;
    const IS_EXACT: bool = true;
    /// A table of all keys is built faster than many numbers are merged.
    const MOST_DISTINCT: f64 = 0.5;
    #[inline(always)]
    fn tags(&self, _: u64, to: &mut [B]) {
        to.copy_from_slice(self);
    }
    #[inline(always)]
    fn hash(tag: B, seed: u64) -> u64 {
        let bits: u128 = tag.into();
        let low = folded(bits as u64 ^ seed, seed | 1);
        // Known of the type.
        if size_of::<B>() <= 8 { low } else { folded(low ^ (bits >> 64) as u64, !seed | 1) }
    }
}

/// Returns both halves of a product, one over the other: a fast hash of `a` for a random odd `b`.
#[inline(always)]
pub(crate) fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Numbers of tags, by linear probing.
struct Numbering<K: Hashed> {
    part: Part,
    /// Tag, and number plus 1; 0 if the slot is free. At least twice as many as numbers.
    slots: Vec<(K::Tag, u32)>,
    seed: u64,
    /// The highest bits of a hash are the first slot.
    shift: u32,
}
/// Bytes of slots from which on they are prefetched.
const PREFETCHED: usize = 1 << 18;
impl<K: Hashed> Numbering<K> {
    /// Makes a table for a part of `len` keys.
    fn new(len: usize, seed: u64) -> fallible::Result<Numbering<K>> {
        let part = Part { len, firsts: Vec::new(), counts: Vec::new() };
        let (bits, free) = (10, (K::Tag::default(), 0));
        Ok(Numbering { part, slots: repeat(free, 1 << bits)?, seed, shift: u64::BITS - bits })
    }
    /// Makes room for a batch.
    fn make_room(&mut self) -> fallible::Result<()> {
        if 2 * (self.part.firsts.len() + BATCH) <= self.slots.len() {
            return Ok(());
        }
        let mut larger = repeat((K::Tag::default(), 0), 4 * self.slots.len())?;
        self.shift -= 2;
        for &(tag, id) in self.slots.iter().filter(|slot| slot.1 != 0) {
            let mut at = (K::hash(tag, self.seed) >> self.shift) as usize;
            while larger[at].1 != 0 {
                at = (at + 1) % larger.len();
            }
            larger[at] = (tag, id);
        }
        self.slots = larger;
        Ok(())
    }
    /// Writes the numbers of the keys from `first` on, for which there is room. Returns whether
    /// none needs too many probes. Errors: out of memory.
    fn number(
        &mut self,
        (first, tags): (usize, &[K::Tag]),
        ids: &mut [u32],
    ) -> fallible::Result<bool> {
        let Numbering { part: Part { firsts, counts, .. }, slots, seed, shift } = self;
        if size_of_val(&slots[..]) >= PREFETCHED {
            for &tag in tags {
                prefetch(&raw const slots[(K::hash(tag, *seed) >> *shift) as usize]);
            }
        }
        let mask = slots.len() - 1;
        for ((&tag, to), row) in tags.iter().zip(ids).zip(first..) {
            let (mut at, mut probes) = ((K::hash(tag, *seed) >> *shift) as usize & mask, 0);
            while slots[at].1 == 0 || slots[at].0 != tag {
                if slots[at].1 == 0 {
                    push(firsts, row as u32)?;
                    push(counts, 0)?;
                    slots[at] = (tag, firsts.len() as u32);
                    break;
                }
                (at, probes) = ((at + 1) & mask, probes + 1);
                if probes == PROBES {
                    return Ok(false);
                }
            }
            *to = slots[at].1 - 1;
            counts[*to as usize] += 1;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use koel_kernels::hash::mix::{mix64, splitmix_at};

    /// Numbers with hashes of any kind.
    #[derive(Clone, Copy)]
    struct Numbers<'a>(&'a [u32], fn(u32) -> u64);
    impl Keys for Numbers<'_> {
        type Key = u32;
        fn len(&self) -> usize {
            self.0.len()
        }
        fn key(&self, i: usize) -> Option<&u32> {
            self.0.get(i)
        }
        fn part(&self, start: usize, len: usize) -> Self {
            Numbers(&self.0[start..][..len], self.1)
        }
    }
    impl Hashed for Numbers<'_> {
        type Tag = u64;
        const IS_EXACT: bool = false;
        const MOST_DISTINCT: f64 = 0.9;
        fn tags(&self, _: u64, to: &mut [u64]) {
            to.iter_mut().zip(self.0).for_each(|(to, &key)| *to = (self.1)(key));
        }
        fn hash(tag: u64, _: u64) -> u64 {
            tag
        }
    }
    fn mixed(key: u32) -> u64 {
        mix64(key.into())
    }
    fn found(threads: usize, keys: &[u32], hash: fn(u32) -> u64) -> Option<(Vec<Part>, Vec<u32>)> {
        let (device, mut ids) = (Device::cpu_with_threads(threads).unwrap(), vec![0; keys.len()]);
        let parts = parts_of(&device, Numbers(keys, hash), 0, Some(&mut ids)).unwrap();
        let counted = parts_of(&device, Numbers(keys, hash), 0, None).unwrap();
        assert_eq!(counted, parts);
        parts.map(|parts| (parts, ids))
    }
    fn column(n: usize, distinct: u64) -> Vec<u32> {
        (0..n as u32).map(|i| (splitmix_at(4, i) % distinct) as u32).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn distinct_keys_are_numbered_as_they_come() {
        for threads in [1, 3] {
            for n in [0, 1, 63, 64, 65, 1000, LEAST, 2 * LEAST + 1, 5 * LEAST] {
                for distinct in [1, 2, 100, 5000] {
                    let keys = column(n, distinct);
                    let Some((parts, ids)) = found(threads, &keys, mixed) else {
                        // Few keys in a part are distinct by chance.
                        assert!(n < 3 * LEAST && distinct == 5000, "{n}, {distinct}");
                        continue;
                    };
                    let expected = (n / LEAST).clamp(1, threads).min(n);
                    assert_eq!(parts.len(), expected, "{n}, {threads}");
                    let mut start = 0;
                    for part in &parts {
                        check(part, start, &keys, &ids);
                        start += part.len;
                    }
                    assert_eq!(start, n);
                }
            }
        }
    }
    fn check(part: &Part, start: usize, keys: &[u32], ids: &[u32]) {
        let (mut firsts, mut counts) = (vec![], vec![]);
        for (row, &id) in (start..).zip(&ids[start..][..part.len]) {
            if id as usize == firsts.len() {
                firsts.push(row as u32);
                counts.push(0);
            }
            counts[id as usize] += 1;
            assert_eq!(keys[firsts[id as usize] as usize], keys[row]);
        }
        let mut distinct = firsts.iter().map(|&row| keys[row as usize]).collect::<Vec<_>>();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), firsts.len(), "a key has two numbers");
        assert_eq!((&part.firsts, &part.counts), (&firsts, &counts));
    }
    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn keys_that_do_not_repeat_are_given_up() {
        let n = 3 * LEAST;
        for threads in [1, 3] {
            assert!(found(threads, &(0..n as u32).collect::<Vec<_>>(), mixed).is_none());
            // Only in one part.
            let mut keys = column(n, 100);
            (2 * LEAST..n).for_each(|i| keys[i] = i as u32);
            assert_eq!(found(threads, &keys, mixed).is_none(), threads == 3);
        }
    }
    /// Keys that share their hash, or their place.
    #[test]
    fn keys_of_one_hash_are_told() {
        let keys = column(2000, 50);
        let pairs = |key: u32| mix64(u64::from(key / 2));
        assert!(found(1, &keys, pairs).is_none());
        let one = |key: u32| u64::from(key);
        assert!(found(1, &column(4000, PROBES as u64 / 2), one).is_some());
        assert!(found(1, &column(40_000, 2 * PROBES as u64), one).is_none());
        // At the end of the table, places go on at its beginning.
        let last = |key: u32| !u64::from(key);
        assert!(found(1, &column(4000, PROBES as u64 / 2), last).is_some());
    }
}

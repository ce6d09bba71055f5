//! Distinct keys of a column in host memory, numbered in order of first occurrence.
//!
//! Each thread numbers the keys of a stretch of the column in one pass, with a [growing
//! table](table) of its own. As long as keys ascend, it needs no table; a run of equal keys is
//! looked up once. Then the distinct keys of all stretches are numbered in the order of the
//! stretches, and the numbers of each stretch are replaced. Numbers do not depend on the number of
//! threads, the seed or the machine.
//!
//! This is for columns in which keys repeat, and for those in order: the table of few keys stays
//! in cache, where the tables of maps, which partition their keys first, are not yet faster.
//! [`Pace::pays`] gives it up for others.
mod table;
#[cfg(test)]
mod tests;

use super::Keys;
use crate::cpu::Level;
use crate::device::Device;
use crate::error::Result;
use crate::fallible::{collect, push, with_room};
use crate::hash::folded;
use crate::parallel;
use crate::seed::unforeseeable;
use crate::types::Bits;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use table::{Ended, Number, Numbering, Source};

/// Keys that may repeat.
pub(crate) trait Hashed: Keys {
    type Own<'k>: Own
    where
        Self: 'k;
    /// Copies the keys from `start` on. Panics if there are not as many.
    fn copy<'k>(&'k self, start: usize, to: &mut [Self::Own<'k>]);
}
/// A key, or where it is.
pub(crate) trait Own: Copy + Send + Sync {
    /// Whether equal hashes are those of equal keys.
    const IS_EXACT: bool;
    /// Whether keys have an [order](Self::ascend).
    const IS_ORDERED: bool;
    /// Returns any key.
    fn any() -> Self;
    /// Returns a fast hash, of which the highest bits count most.
    fn hash(self, seed: u64) -> u32;
    /// Returns whether two keys are equal.
    fn is(self, other: Self) -> bool;
    /// Returns whether `b` is `a`, or comes after it in an order that begins with `first`.
    #[inline(always)]
    fn ascend(_first: Self, _a: Self, _b: Self) -> bool {
        false
    }
    /// Prefetches what is compared.
    #[inline(always)]
    fn prefetch(_keys: impl Iterator<Item = Self>) {}
}
impl<B: Bits> Hashed for &[B] {
    type Own<'k>
        = B
    where
        Self: 'k;
    #[inline(always)]
    fn copy(&self, start: usize, to: &mut [B]) {
        to.copy_from_slice(&self[start..][..to.len()]);
    }
}
impl<B: Bits> Own for B {
    /// Mixing is a bijection of 32 bits.
    const IS_EXACT: bool = size_of::<B>() == 4;
    const IS_ORDERED: bool = true;
    #[inline(always)]
    fn any() -> B {
        B::default()
    }
    #[inline(always)]
    fn hash(self, seed: u64) -> u32 {
        let bits: u128 = self.into();
        // Known of the type.
        match size_of::<B>() {
            4 => {
                let mixed = (bits as u32 ^ seed as u32).wrapping_mul((seed >> 32) as u32 | 1);
                (mixed ^ mixed >> 15).wrapping_mul(0x2C1B_3C6D)
            }
            8 => folded_low(bits as u64, seed),
            _ => folded_low(folded(bits as u64 ^ seed, seed | 1) ^ (bits >> 64) as u64, !seed),
        }
    }
    #[inline(always)]
    fn is(self, other: B) -> bool {
        self == other
    }
    /// Both signed and unsigned numbers ascend in the order that begins with the least of them.
    #[inline(always)]
    fn ascend(first: B, a: B, b: B) -> bool {
        let first = first.into();
        let behind = |key: B| -> u128 { B::of_packed(key.into().wrapping_sub(first)).into() };
        behind(a) <= behind(b)
    }
}
/// Returns a hash of 64 bits, of operations that vector instructions have.
#[inline(always)]
fn folded_low(bits: u64, seed: u64) -> u32 {
    let mixed = (bits ^ seed).wrapping_mul(seed.rotate_left(32) | 1);
    ((mixed ^ mixed >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

/// Keys that are looked up together.
const BATCH: usize = 64;
/// Minimum number of keys of a stretch.
const LEAST: usize = 1 << 14;

/// The distinct keys of a column, in order of first occurrence.
#[derive(PartialEq, Debug)]
pub(crate) struct Numbered<O> {
    pub keys: Vec<O>,
    /// Row of the first occurrence of each.
    pub firsts: Vec<u32>,
    /// How often each occurs, if that was wanted.
    pub counts: Vec<u32>,
}
/// How keys are numbered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// Whether occurrences are counted.
    pub counts: bool,
    /// What numbers, or finds, distinct keys otherwise.
    pub other: Other,
}
/// Another way than numbering.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Other {
    /// None: numbering is never given up for its time.
    #[cfg(test)]
    Nothing,
    /// A map from all keys to their first rows, and a lookup of each.
    Map,
    /// A partitioned set of keys.
    Set,
    /// A sort of all keys.
    Sort,
}
/// When a stretch is given up.
#[derive(Clone, Copy)]
struct Pace<'a> {
    /// Another stretch has been given up.
    stopped: &'a AtomicBool,
    other: Other,
    /// Number of keys of the column and of the stretch, and number of stretches.
    n: usize,
    len: usize,
    stretches: usize,
}
impl Pace<'_> {
    #[inline(always)]
    fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }
    /// Returns whether numbering pays after some keys of the stretch, of which some are distinct,
    /// and whose table grows.
    #[inline(never)]
    fn pays(&self, seen: usize, distinct: usize) -> bool {
        let Pace { other, n, len, stretches, .. } = *self;
        let least = match other {
            #[cfg(test)]
            Other::Nothing => return true,
            Other::Map => MAP_FROM,
            Other::Set | Other::Sort => SET_FROM,
        };
        if distinct < TRIED {
            return true;
        }
        // Of `d` equally frequent keys, `seen` ones have about seen^2 / 2 d repeats.
        let (seen, repeats) = (seen as f64, (seen - distinct) as f64);
        let expected = (seen * seen / (2.0 * repeats)).max(distinct as f64);
        let (n, expected_here) = (n as f64, expected.min(len as f64));
        // One thread merges all others' keys.
        let merged = (stretches - 1) as f64 * expected_here;
        merged * stretches as f64 <= MERGED * n && (expected_here < least || expected < MOST * n)
    }
}
/// Distinct keys of a stretch after which it may be given up.
const TRIED: usize = 1 << 12;
/// Keys that are merged by one thread in the time in which all threads number one otherwise.
const MERGED: f64 = 4.0;
/// Maximum share of distinct keys among many keys.
const MOST: f64 = 0.5;
/// Number of distinct keys from which on a map, or a set, of all keys takes less time.
const MAP_FROM: f64 = 4e6;
const SET_FROM: f64 = 1e4;

/// Numbers the distinct keys of a column, and writes the number of each key to `ids`, if they are
/// wanted. Returns `None` if that does not pay, or if many keys share a place: then `ids` are
/// arbitrary. Errors: out of memory.
pub(crate) fn number<'k, K: Hashed>(
    device: &Device,
    keys: &'k K,
    way: Way,
    ids: Option<&mut [u32]>,
) -> Result<Option<Numbered<K::Own<'k>>>> {
    number_with(device, keys, way, unforeseeable(), ids)
}
/// Does the same with a seed that nobody can foresee. Keys chosen against it are given up.
fn number_with<'k, K: Hashed>(
    device: &Device,
    keys: &'k K,
    way: Way,
    seed: u64,
    mut ids: Option<&mut [u32]>,
) -> Result<Option<Numbered<K::Own<'k>>>> {
    let n = keys.len();
    let stretches = (n / LEAST).clamp(1, device.parallelism());
    let each = n.div_ceil(stretches).max(1);
    let starts = (0..n).step_by(each);
    let stopped = AtomicBool::new(false);
    let stretch = |start: usize, ids: Option<&mut [u32]>| {
        let mut numbering = Numbering::<K::Own<'k>>::new(seed, way.counts);
        let len = each.min(n - start);
        let pace = Pace { stopped: &stopped, other: way.other, n, len, stretches };
        let source = Stretch { keys, start, len };
        let number = Number { numbering: &mut numbering, source, ids, pace: Some(pace) };
        let ended = Level::best().run(number);
        if !matches!(ended, Ok(Ended::Numbered)) {
            stopped.store(true, Relaxed);
        }
        ended.map(|ended| (ended == Ended::Numbered).then_some(numbering))
    };
    let numbered = match &mut ids {
        Some(ids) => {
            let of_stretches = starts.zip(ids.chunks_mut(each));
            let stretch = |_, (start, ids)| stretch(start, Some(ids));
            device.install(|| parallel::map(of_stretches, stretch))?
        }
        None => device.install(|| parallel::map(starts, |_, start| stretch(start, None)))?,
    };
    let mut all = Numbering::<K::Own<'k>>::new(seed, way.counts);
    let mut later = with_room(numbered.len())?;
    for (i, numbering) in numbered.into_iter().enumerate() {
        let Some(numbering) = numbering? else { return Ok(None) };
        if i == 0 {
            all = numbering;
            continue;
        }
        let Some(merged) = all.merge(&numbering)? else { return Ok(None) };
        push(&mut later, merged)?;
    }
    if let (Some(ids), false) = (ids, later.is_empty()) {
        let of_stretches = ids[each..].chunks_mut(each).zip(&later);
        device.install(|| {
            parallel::each(of_stretches, |_, (ids, merged)| {
                ids.iter_mut().for_each(|id| *id = merged[*id as usize]);
            })
        });
    }
    let Numbering { keys, firsts, counts, .. } = all;
    let counts = collect(counts.into_iter().map(|[even, odd]| even + odd))?;
    Ok(Some(Numbered { keys, firsts, counts }))
}
/// Keys of a stretch of a column.
struct Stretch<'k, K> {
    keys: &'k K,
    start: usize,
    len: usize,
}
impl<'k, K: Hashed> Source<K::Own<'k>> for Stretch<'k, K> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.len
    }
    #[inline(always)]
    fn copy(&self, start: usize, to: &mut [K::Own<'k>]) {
        self.keys.copy(self.start + start, to);
    }
    #[inline(always)]
    fn row(&self, i: usize) -> u32 {
        (self.start + i) as u32
    }
}

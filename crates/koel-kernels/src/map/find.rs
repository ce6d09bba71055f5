//! Lookups: one thread per query, which reads one sector, and rarely a second.
use crate::table::answers::{tell_bits, tell_count, tell_flags};
use crate::table::layout::{EMPTY, Layout, Narrow, Number, Shape, Wide, class, class_bit};
use crate::table::{header, stash};
use core::marker::PhantomData;
use koel_simt::{Buf, In, Thread, U64x2, kernel, unroll};

/// A map as kernels see it: one parameter of a kernel.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct MapRef<L: Layout> {
    /// Number of partitions and buckets.
    pub shape: Shape,
    /// Base-2 logarithm of the slots in the stash.
    pub stash_bits: u32,
    /// The buckets.
    pub slots: In<u64>,
    /// The stash.
    pub stash: In<u64>,
    /// The header.
    pub header: In<u32>,
    /// How pairs are stored.
    pub layout: PhantomData<L>,
}
/// Where a key was found.
pub(crate) enum Hit {
    /// In this bucket and slot, with this head.
    Slot(u32, u32, u64),
    /// In neither bucket; it may be in the stash.
    Stash,
}
/// Searches for a key in its first bucket, whose heads were already read, and, if it may have
/// overflowed, in the second, which `heads` reads. `first` and `second` may number buckets in any
/// way. The key must not be the ambiguous one.
#[inline(always)]
#[track_caller]
pub(crate) fn search<L: Layout>(
    key: L::Mixed,
    first: u32,
    first_heads: [u64; 4],
    second: impl FnOnce() -> u32,
    heads: impl FnOnce(u32) -> [u64; 4],
) -> Option<Hit> {
    let (mut bucket, mut hit) = (first, matching::<L>(first_heads, key));
    if hit.is_none() && first_heads[3] != EMPTY && class_bit::<L>(first_heads, class(L::hash(key)))
    {
        bucket = second();
        let heads = heads(bucket);
        hit = matching::<L>(heads, key);
        if hit.is_none() && heads[3] != EMPTY {
            return Some(Hit::Stash);
        }
    }
    hit.map(|(slot, head)| Hit::Slot(bucket, slot, head))
}
impl<L: Layout> MapRef<L> {
    /// Returns the same table for host code outside a kernel, which can then look keys up.
    ///
    /// # Safety
    /// The table must be on a device whose memory is the host's. It must stay allocated and
    /// unchanged while the result is used.
    #[cfg(not(target_arch = "nvptx64"))]
    pub unsafe fn on_host(self) -> MapRef<L> {
        // SAFETY: the caller upholds the contract.
        unsafe { koel_simt::Arg::native(self) }
    }
    #[inline(always)]
    #[track_caller]
    fn heads(&self, place: u32) -> [u64; 4] {
        let at = place as u64 * (L::WORDS as u64 / 2);
        let U64x2([a, b]) = self.slots.x2().get(at);
        let U64x2([c, d]) = self.slots.x2().get(at + 1);
        [a, b, c, d]
    }
    /// Returns the heads of the first bucket of a mixed key.
    #[inline(always)]
    #[track_caller]
    pub(super) fn first_heads(&self, key: L::Mixed) -> [u64; 4] {
        self.heads(self.shape.first_place(L::hash(key)))
    }
    /// Searches both buckets, given the heads of the first. The key must not be the ambiguous one.
    #[inline(always)]
    #[track_caller]
    fn search(&self, key: L::Mixed, first_heads: [u64; 4]) -> Option<Hit> {
        let h = L::hash(key);
        let second = || self.shape.second_place(h);
        search::<L>(key, self.shape.first_place(h), first_heads, second, |place| self.heads(place))
    }
    /// Returns the value of a key that is in neither bucket.
    #[inline(always)]
    #[track_caller]
    pub(super) fn in_stash(&self, key: L::Mixed) -> Option<L::Value> {
        if self.header.get(header::STASHED) != 0 {
            stash::find::<L>(self.stash, self.stash_bits, key)
        } else {
            None
        }
    }
    /// Returns the value of the ambiguous key.
    #[inline(always)]
    #[track_caller]
    pub(super) fn held(&self) -> Option<L::Value> {
        if self.header.get(header::HELD) != 0 { Some(held_value(self.header)) } else { None }
    }
    /// Returns the value of a key.
    ///
    /// Reads one 32-byte sector; a second one if the first bucket is full and keys of this class
    /// overflowed from it; and with wide values, if the key is found, the sector of the bucket's
    /// values.
    #[inline(always)]
    #[track_caller]
    pub fn get(&self, key: L::Key) -> Option<L::Value> {
        let key = L::mixed(self.header.get(header::SEED), key);
        self.get_mixed(key, self.first_heads(key))
    }
    /// Returns the value of a mixed key, given the heads of its first bucket.
    #[inline(always)]
    #[track_caller]
    pub(super) fn get_mixed(&self, key: L::Mixed, first_heads: [u64; 4]) -> Option<L::Value> {
        if key == L::AMBIGUOUS {
            return self.held();
        }
        match self.search(key, first_heads) {
            None => None,
            Some(Hit::Slot(place, slot, head)) => {
                let at = place as u64 * L::WORDS as u64 + 4 + slot as u64;
                Some(L::value_in(head, if L::SLOT_WORDS > 1 { self.slots.get(at) } else { 0 }))
            }
            Some(Hit::Stash) => self.in_stash(key),
        }
    }
    /// Returns whether a key is present, like [`get`](Self::get) but without reading values.
    #[inline(always)]
    #[track_caller]
    pub fn contains(&self, key: L::Key) -> bool {
        let key = L::mixed(self.header.get(header::SEED), key);
        self.contains_mixed(key, self.first_heads(key))
    }
    /// Returns whether a mixed key is present, given the heads of its first bucket.
    #[inline(always)]
    #[track_caller]
    pub(super) fn contains_mixed(&self, key: L::Mixed, first_heads: [u64; 4]) -> bool {
        if key == L::AMBIGUOUS {
            return self.header.get(header::HELD) != 0;
        }
        match self.search(key, first_heads) {
            None => false,
            Some(Hit::Slot(..)) => true,
            Some(Hit::Stash) => self.in_stash(key).is_some(),
        }
    }
}
/// Returns the value of the ambiguous key.
#[inline(always)]
pub(super) fn held_value<V: Number>(table_header: In<u32>) -> V {
    let (low, high) =
        (table_header.get(header::HELD_VALUE), table_header.get(header::HELD_VALUE + 1));
    V::narrowed((high as u64) << 32 | low as u64)
}
/// Returns the slot and the head of a mixed key in a bucket.
#[inline(always)]
fn matching<L: Layout>(heads: [u64; 4], key: L::Mixed) -> Option<(u32, u64)> {
    let mut hit = None;
    unroll::<4>(|s| {
        if L::key_in(heads[s]) == key {
            hit = Some((s as u32, heads[s]));
        }
    });
    hit
}

/// Looks up query `i`: writes the value and a found flag, or two zeros.
#[kernel(threads = 256, starts_early, for L in [
    Narrow { image = MAP }, Wide<u32, u64> { image = MAP_WIDE },
    Wide<u64, u32> { image = MAP_WIDE }, Wide<u64, u64> { image = MAP_WIDE }
])]
pub fn map_find<L: Layout>(
    t: Thread,
    table: MapRef<L>,
    n: u32,
    queries: In<L::Key>,
    values: Buf<L::Value>,
    found: Buf<u8>,
) {
    t.wait_for_previous();
    t.let_next_start();
    let i = t.global_id();
    if i < n {
        let hit = table.get(queries.get_stream(i));
        values.store_stream(i, hit.unwrap_or_default());
        found.store_stream(i, hit.is_some() as u8);
    }
}
/// Looks up query `i`: writes the value, or `missing`.
#[kernel(threads = 256, starts_early, for L in [
    Narrow { image = MAP }, Wide<u32, u64> { image = MAP_WIDE },
    Wide<u64, u32> { image = MAP_WIDE }, Wide<u64, u64> { image = MAP_WIDE }
])]
pub fn map_find_or<L: Layout>(
    t: Thread,
    table: MapRef<L>,
    n: u32,
    missing: L::Value,
    queries: In<L::Key>,
    values: Buf<L::Value>,
) {
    t.wait_for_previous();
    t.let_next_start();
    let i = t.global_id();
    if i < n {
        values.store_stream(i, table.get(queries.get_stream(i)).unwrap_or(missing));
    }
}
/// Looks up query `i`: writes 1 or 0.
#[kernel(threads = 256, starts_early, for L in [
    Narrow { image = MAP }, Wide<u32, u64> { image = MAP_WIDE },
    Wide<u64, u32> { image = MAP_WIDE }, Wide<u64, u64> { image = MAP_WIDE }
])]
pub fn map_contains<L: Layout>(
    t: Thread,
    table: MapRef<L>,
    n: u32,
    queries: In<L::Key>,
    found: Buf<u8>,
) {
    tell_flags(t, n, found, |i| table.contains(queries.get_stream(i)))
}
/// Looks up query `i`: writes bit `i % 32` of word `i / 32`. The bits after the last query are 0.
#[kernel(threads = 256, starts_early, for L in [
    Narrow { image = MAP }, Wide<u32, u64> { image = MAP_WIDE },
    Wide<u64, u32> { image = MAP_WIDE }, Wide<u64, u64> { image = MAP_WIDE }
])]
pub fn map_contains_bits<L: Layout>(
    t: Thread,
    table: MapRef<L>,
    n: u32,
    queries: In<L::Key>,
    found: Buf<u32>,
) {
    tell_bits(t, n, found, |i| table.contains(queries.get_stream(i)))
}
/// Adds the number of queries that are in the table to `count`.
#[kernel(threads = 256, starts_early, for L in [
    Narrow { image = MAP }, Wide<u32, u64> { image = MAP_WIDE },
    Wide<u64, u32> { image = MAP_WIDE }, Wide<u64, u64> { image = MAP_WIDE }
])]
pub fn map_count<L: Layout>(
    t: Thread,
    table: MapRef<L>,
    n: u32,
    queries: In<L::Key>,
    count: Buf<u64>,
) {
    tell_count(t, n, count, |i| table.contains(queries.get_stream(i)))
}

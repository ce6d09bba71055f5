//! Lookups: one thread a query, one sector read, a second one for the few that need it.
use super::layout::{AMBIGUOUS, EMPTY, Shape, class, class_bit};
use super::{header, stash};
use koel_simt::{Buf, In, Thread, U64x2, kernel};

/// A table as a kernel sees it: for `#[kernel]` parameters it is passed in parts.
#[derive(Clone, Copy)]
pub struct Table {
    /// Partitions and buckets.
    pub shape: Shape,
    /// The stash has 2^this slots.
    pub stash_bits: u32,
    /// The buckets.
    pub slots: In<u64>,
    /// The stash.
    pub stash: In<u64>,
    /// The header.
    pub header: In<u32>,
}
impl Table {
    #[inline(always)]
    #[track_caller]
    fn bucket(&self, place: u64) -> [u64; 4] {
        let U64x2([a, b]) = self.slots.x2().get(2 * place);
        let U64x2([c, d]) = self.slots.x2().get(2 * place + 1);
        [a, b, c, d]
    }
    /// The value of a key.
    #[inline(always)]
    #[track_caller]
    pub fn get(&self, key: u32) -> Option<u32> {
        let h = self.shape.mixed(key);
        let y = self.bucket(self.shape.first_place(h) as u64);
        let mut hit = matching(y, h);
        if hit.is_none() && y[3] != EMPTY && class_bit(y, class(h)) {
            let second = self.shape.other(h, self.shape.first(h));
            let z = self.bucket(self.shape.place(self.shape.partition(h), second));
            hit = matching(z, h);
            if hit.is_none() && z[3] != EMPTY && self.header.get(header::STASHED) != 0 {
                hit = stash::find(self.stash, self.stash_bits, h);
            }
        }
        if h == AMBIGUOUS && hit.is_none_or(|e| e == EMPTY) {
            hit = if self.header.get(header::AMBIGUOUS) != 0 { Some(EMPTY) } else { None };
        }
        hit.map(|e| (e >> 32) as u32)
    }
}
/// The pair of a mixed key in a bucket: the first, because an empty slot, which is behind, matches the ambiguous one.
#[inline(always)]
fn matching(y: [u64; 4], h: u32) -> Option<u64> {
    let mut hit = None;
    koel_simt::unroll::<4>(|s| {
        if y[3 - s] as u32 == h {
            hit = Some(y[3 - s]);
        }
    });
    hit
}

/// Looks up query `i`: value and found flag, or two zeros.
#[kernel(threads = 256, independent, starts_early)]
pub fn map_find(
    t: Thread,
    n: u32,
    shape: Shape,
    stash_bits: u32,
    slots: In<u64>,
    stash: In<u64>,
    table_header: In<u32>,
    queries: In<u32>,
    values: Buf<u32>,
    found: Buf<u8>,
) {
    t.wait_for_previous();
    t.let_next_start();
    let i = t.global_id();
    if i >= n {
        return;
    }
    let table = Table { shape, stash_bits, slots, stash, header: table_header };
    let hit = table.get(queries.get_stream(i));
    values.store_stream(i, hit.unwrap_or(0));
    found.store_stream(i, hit.is_some() as u8);
}

/// Looks up query `i`: the value, or `missing`.
#[kernel(threads = 256, independent, starts_early)]
pub fn map_find_or(
    t: Thread,
    n: u32,
    missing: u32,
    shape: Shape,
    stash_bits: u32,
    slots: In<u64>,
    stash: In<u64>,
    table_header: In<u32>,
    queries: In<u32>,
    values: Buf<u32>,
) {
    t.wait_for_previous();
    t.let_next_start();
    let i = t.global_id();
    if i >= n {
        return;
    }
    let table = Table { shape, stash_bits, slots, stash, header: table_header };
    values.store_stream(i, table.get(queries.get_stream(i)).unwrap_or(missing));
}

//! Lookups in the perfect spatial table of Lefebvre and Hoppe 2006: one read of the offset table
//! and one of the hash table.
use super::{EMPTY, Queries, holds};
use koel_kernels::hash::mix::mix;
use koel_simt::{In, Thread, kernel};

/// Shapes of the tables: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Domain {
    /// Number of dimensions, 2 or 3.
    pub dimensions: u32,
    /// Slots per side of the hash table.
    pub side: u32,
    /// Entries per side of the offset table.
    pub offset_side: u32,
    /// If not 0, keys are mixed with this word before they are used as positions.
    pub scramble: u32,
}

/// Returns the bits per coordinate in a key or an offset, the last coordinate lowest. In three
/// dimensions the first coordinate also has the two remaining bits.
#[inline(always)]
const fn bits(dimensions: u32) -> u32 {
    if dimensions == 2 { 16 } else { 10 }
}
/// Returns `a mod n`, or 0 if `n` is 0, because a kernel cannot panic.
#[inline(always)]
fn remainder(a: u32, n: u32) -> u32 {
    a.checked_rem(n).unwrap_or(0)
}
/// Returns the maximum side of a hash table: offsets have this many values per coordinate.
pub const fn max_side(dimensions: u32) -> u32 {
    1 << bits(dimensions)
}

impl Domain {
    /// Returns the position of a key. In two dimensions the first coordinate is 0.
    #[inline(always)]
    pub fn position(&self, key: u32) -> [u32; 3] {
        let key = if self.scramble != 0 { mix(key ^ self.scramble) } else { key };
        let (b, mask) = (bits(self.dimensions), max_side(self.dimensions) - 1);
        if self.dimensions == 2 {
            [0, key >> b, key & mask]
        } else {
            [key >> (2 * b), key >> b & mask, key & mask]
        }
    }
    /// Packs an offset.
    #[inline(always)]
    pub fn pack(&self, [x, y, z]: [u32; 3]) -> u32 {
        let b = bits(self.dimensions);
        if self.dimensions == 2 { y << b | z } else { x << (2 * b) | y << b | z }
    }
    #[inline(always)]
    fn unpack(&self, offset: u32) -> [u32; 3] {
        let (b, mask) = (bits(self.dimensions), max_side(self.dimensions) - 1);
        if self.dimensions == 2 {
            [0, offset >> b, offset & mask]
        } else {
            [offset >> (2 * b), offset >> b & mask, offset & mask]
        }
    }
    /// Returns the index in the offset table for a position.
    #[inline(always)]
    pub fn entry(&self, [x, y, z]: [u32; 3]) -> u32 {
        let r = self.offset_side;
        (remainder(x, r) * r + remainder(y, r)) * r + remainder(z, r)
    }
    /// Returns the slot of a position, given its offset.
    #[inline(always)]
    pub fn slot(&self, [x, y, z]: [u32; 3], offset: u32) -> u32 {
        let (m, [ox, oy, oz]) = (self.side, self.unpack(offset));
        let along = |p, o| remainder(remainder(p, m) + o, m);
        (along(x, ox) * m + along(y, oy)) * m + along(z, oz)
    }
}

/// A perfect spatial table: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct PerfectSpatialRef {
    /// Shapes of the tables.
    pub domain: Domain,
    /// Offset table.
    pub offsets: In<u32>,
    /// Hash table.
    pub slots: In<u64>,
    /// 1 if the table holds the all-ones pair, else 0.
    pub all_ones: u32,
}

/// Looks up query `i`.
#[kernel(image = CLASSIC, threads = 128, independent)]
pub fn perfect_spatial_find(t: Thread, table: PerfectSpatialRef, queries: Queries) {
    let domain = table.domain;
    let i = t.global_id();
    if i >= queries.n {
        return;
    }
    let key = queries.keys.get_stream(i);
    let position = domain.position(key);
    let offset = table.offsets.get(domain.entry(position));
    let e = table.slots.get(domain.slot(position, offset));
    let mut hit = if holds(e, key) { Some(e) } else { None };
    if hit.is_none() && table.all_ones != 0 && key == u32::MAX {
        hit = Some(EMPTY);
    }
    queries.answer(i, hit);
}

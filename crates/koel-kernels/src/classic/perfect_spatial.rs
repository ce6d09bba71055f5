//! Lookups in the perfect spatial table of Lefebvre and Hoppe 2006: one read of the offset table,
//! one of the hash table.
use super::{EMPTY, Queries, holds};
use crate::hash::mix::mix;
use koel_simt::{In, Thread, kernel};

/// The tables' shapes: a kernel's argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Domain {
    /// 2 or 3.
    pub dimensions: u32,
    /// Slots along a side of the hash table.
    pub side: u32,
    /// Entries along a side of the offset table.
    pub offset_side: u32,
    /// Not 0: keys are mixed with it before they are taken for positions.
    pub scramble: u32,
}

/// Bits of a coordinate in a key or an offset: the last one is the lowest. In three dimensions the
/// first coordinate has the two bits that are left over.
#[inline(always)]
const fn bits(dimensions: u32) -> u32 {
    if dimensions == 2 { 16 } else { 10 }
}
/// `a mod n`; 0 if `n` is 0, as a kernel cannot panic.
#[inline(always)]
fn remainder(a: u32, n: u32) -> u32 {
    a.checked_rem(n).unwrap_or(0)
}
/// The greatest side of a hash table: offsets have so many bits.
pub const fn max_side(dimensions: u32) -> u32 {
    1 << bits(dimensions)
}

impl Domain {
    /// The position that a key stands for. In two dimensions the first coordinate is 0.
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
    /// An offset as it is stored.
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
    /// The entry of the offset table for a position.
    #[inline(always)]
    pub fn entry(&self, [x, y, z]: [u32; 3]) -> u32 {
        let r = self.offset_side;
        (remainder(x, r) * r + remainder(y, r)) * r + remainder(z, r)
    }
    /// The slot of a position, by its offset.
    #[inline(always)]
    pub fn slot(&self, [x, y, z]: [u32; 3], offset: u32) -> u32 {
        let (m, [ox, oy, oz]) = (self.side, self.unpack(offset));
        let along = |p, o| remainder(remainder(p, m) + o, m);
        (along(x, ox) * m + along(y, oy)) * m + along(z, oz)
    }
}

/// A perfect spatial table: a kernel's argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct PerfectSpatialRef {
    /// The tables' shapes.
    pub domain: Domain,
    /// The offset table.
    pub offsets: In<u32>,
    /// The hash table.
    pub slots: In<u64>,
    /// 1: it holds the pair of all ones.
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

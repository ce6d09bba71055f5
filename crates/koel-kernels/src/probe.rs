//! Random reads: the upper bound that lookup rates are compared with.
use crate::hash::mulhi;
use koel_simt::{Buf, In, Thread, U64x2, kernel};

/// Returns what [`number_sectors`](fn@number_sectors) writes into 32-byte sector `s`: words that
/// differ between sectors and within one.
#[inline(always)]
pub fn sector_words(s: u32) -> [u64; 4] {
    let first = (4 * s as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    [first, first ^ 0x5555, first.wrapping_add(0x1234_5678_9ABC_DEF1), !first]
}

/// Returns the sector that read `i` of a run goes to: the finaliser of MurmurHash3 (Appleby) with
/// other constants, then a multiplication that maps it to `0..sectors`.
#[inline(always)]
pub fn random_sector(i: u32, sectors: u32, seed: u32) -> u32 {
    let mut h = (i ^ seed).wrapping_mul(0x9E37_79B1);
    h ^= h >> 15;
    h = h.wrapping_mul(0x2C1B_3C6D);
    h ^= h >> 12;
    h = h.wrapping_mul(0x297A_2D39);
    h ^= h >> 15;
    mulhi(h, sectors)
}

/// Returns a digest of a sector that depends on all four words.
#[inline(always)]
pub fn sector_digest([a, b, c, d]: [u64; 4]) -> u32 {
    let x = a ^ b ^ c ^ d;
    (x ^ x >> 32) as u32
}

/// Fills a table of 32-byte sectors, one thread per sector.
#[kernel(image = PROBE, threads = 256, independent)]
pub fn number_sectors(t: Thread, sectors: u32, table: Buf<u64>) {
    let s = t.global_id();
    if s >= sectors {
        return;
    }
    let [a, b, c, d] = sector_words(s);
    table.x2().store(2 * s, U64x2([a, b]));
    table.x2().store(2 * s + 1, U64x2([c, d]));
}

/// Reads one random 32-byte sector per thread.
#[kernel(image = PROBE, threads = 256, independent)]
pub fn random_sectors(t: Thread, n: u32, sectors: u32, seed: u32, table: In<u64>, out: Buf<u32>) {
    let i = t.global_id();
    if i >= n {
        return;
    }
    let at = random_sector(i, sectors, seed);
    let U64x2([a, b]) = table.x2().get(2 * at);
    let U64x2([c, d]) = table.x2().get(2 * at + 1);
    out.store_stream(i, sector_digest([a, b, c, d]));
}

//! Random reads: the limit that lookups are measured against.
use koel_simt::{Buf, In, Thread, U64x2, kernel};

/// Each thread reads one random 32-byte sector.
#[kernel(threads = 256, independent)]
pub fn random_sectors(t: Thread, n: u32, sectors: u32, seed: u32, table: In<u64>, out: Buf<u32>) {
    let i = t.global_id();
    if i >= n {
        return;
    }
    let mut h = (i ^ seed).wrapping_mul(0x9E37_79B1);
    h ^= h >> 15;
    h = h.wrapping_mul(0x2C1B_3C6D);
    h ^= h >> 12;
    h = h.wrapping_mul(0x297A_2D39);
    h ^= h >> 15;
    let at = ((h as u64 * sectors as u64) >> 32) as u32;
    let U64x2([a, b]) = table.x2().get(2 * at);
    let U64x2([c, d]) = table.x2().get(2 * at + 1);
    out.store_stream(i, (a ^ b ^ c ^ d) as u32);
}

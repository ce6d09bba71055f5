//! Keys that are equal modulo a prime: linear functions modulo it send them all to the same slots.
use super::at_least_one;
use koel_simt::{Buf, In, Thread, kernel};

/// Writes the remainder of each key. `prime` is at least 1.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn residues(t: Thread, n: u32, prime: u32, keys: In<u32>, out: Buf<u32>) {
    let i = t.global_id();
    if i < n {
        out.store(i, keys.get_stream(i) % at_least_one(prime));
    }
}

/// Counts the residues, in ascending order, that are equal to the one `room` places before: those
/// beyond the first `room` of each. The caller clears the count.
#[kernel(image = CLASSIC, threads = 256, independent)]
pub fn residues_beyond(t: Thread, n: u32, room: u32, residues: In<u32>, count: Buf<u32>) {
    let i = t.global_id();
    if i < n && i >= room && residues.get(i) == residues.get(i - room) {
        count.fetch_add(0, 1);
    }
}

//! Kernels before and after the build of the fingerprint map.
use super::find::RowsRef;
use super::fingerprint::Fingerprint;
use koel_simt::{Buf, In, Thread, kernel};

/// Counters of the [verification](fn@keys128_verify): zero before it.
pub mod counts {
    /// Keys that are not found because another key has their fingerprint.
    pub const UNFOUND: u32 = 0;
    /// Keys whose own row is found: the distinct ones.
    pub const KEPT: u32 = 1;
    /// Number of words.
    pub const WORDS: usize = 2;
}

/// Sets `fingerprints[i]` to that of `keys[i]`, and `rows[i]` to `first + i`. One thread per key.
#[kernel(image = KEYS128, threads = 256)]
pub fn keys128_fingerprints(
    t: Thread,
    n: u32,
    first: u32,
    fingerprint: Fingerprint,
    keys: In<u128>,
    fingerprints: Buf<u64>,
    rows: Buf<u32>,
) {
    let i = t.global_id();
    if i < n {
        fingerprints.store(i, fingerprint.of(keys.get_stream(i)));
        rows.store(i, first + i);
    }
}

/// Looks up every key, one thread per key, and tells which stay: see [`tell_kept`].
#[kernel(image = KEYS128, threads = 256)]
pub fn keys128_verify(t: Thread, rows: RowsRef, n: u32, kept: Buf<u8>, counts: Buf<u32>) {
    let i = t.global_id();
    tell_kept(t, n, if i < n { rows.row(rows.keys.get(i)) } else { None }, kept, counts);
}
/// Sets `kept[i]` of thread `i` to 1 if row `i` is found for its key; to 0 if none is, or another
/// row, which then has an equal key. Adds to [`counts`]. Called by all threads of a block.
#[inline(always)]
#[track_caller]
pub fn tell_kept(t: Thread, n: u32, found: Option<u32>, kept: Buf<u8>, counts: Buf<u32>) {
    let i = t.global_id();
    let own = found == Some(i);
    if i < n {
        kept.store_stream(i, own as u8);
    }
    let unfound = t.barrier_count(i < n && found.is_none());
    let own = t.barrier_count(own);
    if t.id() == 0 {
        if unfound != 0 {
            counts.fetch_add(counts::UNFOUND, unfound);
        }
        counts.fetch_add(counts::KEPT, own);
    }
}

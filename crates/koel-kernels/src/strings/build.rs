//! Kernels before and after the build of the fingerprint map, and those that move strings.
use super::column::{StringsIn, at_most};
use super::find::StringRowsRef;
use super::fingerprint::StringFingerprint;
use crate::keys128::build::tell_kept;
use koel_simt::{Buf, In, Thread, kernel};

/// Counts offsets that are greater than the next one or than `bytes`, in `wrong[0]`, which is zero
/// before. One thread per string.
#[kernel(image = STRINGS, threads = 256)]
pub fn strings_check(t: Thread, n: u32, bytes: u64, offsets: In<u64>, wrong: Buf<u32>) {
    let i = t.global_id();
    let is_wrong = i < n && {
        let next = offsets.get(i as u64 + 1);
        offsets.get(i) > next || next > bytes
    };
    let count = t.barrier_count(is_wrong);
    if t.id() == 0 && count != 0 {
        wrong.fetch_add(0, count);
    }
}

/// Sets `fingerprints[i]` to that of string `i`, and `rows[i]` to `first + i`. One thread per
/// string.
#[kernel(image = STRINGS, threads = 256)]
pub fn strings_fingerprints(
    t: Thread,
    n: u32,
    first: u32,
    fingerprint: StringFingerprint,
    keys: StringsIn,
    fingerprints: Buf<u64>,
    rows: Buf<u32>,
) {
    let i = t.global_id();
    if i < n {
        fingerprints.store(i, keys.fingerprint(&fingerprint, i));
        rows.store(i, first + i);
    }
}

/// Looks up every string, one thread per string, and tells which stay: see [`tell_kept`].
#[kernel(image = STRINGS, threads = 256)]
pub fn strings_verify(t: Thread, rows: StringRowsRef, n: u32, kept: Buf<u8>, counts: Buf<u32>) {
    let i = t.global_id();
    tell_kept(t, n, if i < n { rows.row(&rows.keys, i) } else { None }, kept, counts);
}

/// Sets `lengths[k]` to the number of bytes of string `rows[k]`; 0 if there is no such string among
/// `strings`. One thread per row.
#[kernel(image = STRINGS, threads = 256)]
pub fn strings_lengths(
    t: Thread,
    n: u32,
    strings: u32,
    rows: In<u32>,
    offsets: In<u64>,
    lengths: Buf<u64>,
) {
    let k = t.global_id();
    if k < n {
        let row = rows.get(k);
        let length = if row < strings { offsets.get(row as u64 + 1) - offsets.get(row) } else { 0 };
        lengths.store(k, length);
    }
}

/// Copies `n` strings, of the given rows, to `offsets[0]..offsets[n]`: one thread per word of eight
/// bytes, which finds its first string by bisection. In the first word, the bytes before stay; in
/// the last one, those behind become 0.
#[kernel(image = STRINGS, threads = 256)]
pub fn strings_copy(
    t: Thread,
    n: u32,
    rows: In<u32>,
    from: StringsIn,
    offsets: In<u64>,
    words: Buf<u64>,
) {
    let (first, last) = (offsets.get(0), offsets.get(n));
    let number = first / 8 + t.global_id() as u64;
    let of_word = 8 * number;
    if of_word >= last {
        return;
    }
    let end = if last < of_word + 8 { last } else { of_word + 8 };
    let (mut at, mut word) = (of_word, 0);
    if at < first {
        at = first;
        word = words.load(number) & !(!0 << (8 * (at - of_word)));
    }
    // The last string that begins at most here.
    let (mut k, mut behind) = (0, n);
    while behind - k > 1 {
        let middle = k + (behind - k) / 2;
        if offsets.get(middle) <= at { k = middle } else { behind = middle }
    }
    while at < end {
        let next = offsets.get(k as u64 + 1);
        let until = if next < end { next } else { end };
        if at < until {
            let count = at_most(8, until - at);
            let (start, _) = from.range(rows.get(k));
            let copied = from.bytes(start + (at - offsets.get(k)), count);
            word |= copied << (8 * (at - of_word));
            at = until;
        }
        k += 1;
    }
    words.store(number, word);
}

//! Kernels of batches that change tables whose keys are in rows. One thread per element.
use super::find::NO_ROW;
use koel_simt::{Arg, Buf, In, Thread, Word, kernel};

/// Counters of [changes](fn@rows_changed) and of [gaps](fn@rows_gaps): zero before them.
pub mod changes {
    /// Keys that are new, or gaps.
    pub const FIRST: u32 = 0;
    /// Keys that are gone.
    pub const GONE: u32 = 1;
    /// Number of words.
    pub const WORDS: usize = 2;
}

/// Tells how a batch changes a table. `rows[i]` is the row of distinct key `i` of the batch before
/// it, or [`NO_ROW`]; `held[i]` is not 0 if the table holds the key after it. Sets `is_new[i]` and
/// `is_gone[i]` to 1 or 0, and adds to [`changes`].
#[kernel(image = KEYS128, threads = 256)]
pub fn rows_changed(
    t: Thread,
    n: u32,
    rows: In<u32>,
    held: In<u8>,
    is_new: Buf<u8>,
    is_gone: Buf<u8>,
    counts: Buf<u32>,
) {
    let i = t.global_id();
    let (mut new, mut gone) = (false, false);
    if i < n {
        let (before, after) = (rows.get_stream(i) != NO_ROW, held.get_stream(i) != 0);
        (new, gone) = (!before && after, before && !after);
        is_new.store(i, new as u8);
        is_gone.store(i, gone as u8);
    }
    let (new, gone) = (t.barrier_count(new), t.barrier_count(gone));
    if t.id() == 0 {
        counts.fetch_add(changes::FIRST, new);
        counts.fetch_add(changes::GONE, gone);
    }
}

/// Tells which of the rows that are gone leave a gap among the first `len` rows, and which of the
/// rows from `len` on are gone too: sets `is_gap[i]` to 1 or 0, and `is_last[row - len]` to 0. Adds
/// the number of gaps to [`changes::FIRST`].
#[kernel(image = KEYS128, threads = 256)]
pub fn rows_gaps(
    t: Thread,
    n: u32,
    len: u32,
    gone: In<u32>,
    is_gap: Buf<u8>,
    is_last: Buf<u8>,
    counts: Buf<u32>,
) {
    let i = t.global_id();
    let mut gap = false;
    if i < n {
        let row = gone.get_stream(i);
        gap = row < len;
        is_gap.store(i, gap as u8);
        if !gap {
            is_last.store(row - len, 0);
        }
    }
    let gaps = t.barrier_count(gap);
    if t.id() == 0 {
        counts.fetch_add(changes::FIRST, gaps);
    }
}

/// Sets `to[rows[i]]` to `from[i]`, unless the row is [`NO_ROW`]. No other row occurs twice.
#[kernel(image = KEYS128, threads = 256, for T in [u32, u64, u128])]
pub fn rows_put<T: Word + Arg>(t: Thread, n: u32, rows: In<u32>, from: In<T>, to: Buf<T>) {
    let i = t.global_id();
    if i < n {
        let row = rows.get_stream(i);
        if row != NO_ROW {
            to.store(row, from.get(i));
        }
    }
}

//! Kernels of batches that change tables whose keys are in rows. One thread per element.
use super::find::NO_ROW;
use crate::table::layout::Number;
use crate::table::update::{applied, operation, status_of};
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

/// What rows hold besides keys.
pub mod held {
    /// Nothing.
    pub const KEYS: u32 = 0;
    /// Values.
    pub const VALUES: u32 = 1;
    /// Values elsewhere: that of operation `i` is `i`; what the row of its key holds is `n + i`.
    pub const PLACES: u32 = 2;
}
/// A batch of operations on distinct keys: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct DistinctIn<V: Number> {
    /// Kind of each operation, if they differ.
    pub operations: In<u8>,
    /// Row of each key, or [`NO_ROW`].
    pub rows: In<u32>,
    /// Value of each operation.
    pub values: In<V>,
    /// Value of each row.
    pub own: In<V>,
}
/// What a batch leads to: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SettledOut<V: Number> {
    /// Whether each key is held after the batch.
    pub is_held: Buf<u8>,
    /// Its value then.
    pub values: Buf<V>,
    /// Outcome of each operation.
    pub statuses: Buf<u8>,
}
impl<V: Number> DistinctIn<V> {
    /// Returns the value of the key of operation `i` before a batch of `n` operations and after it,
    /// and the outcome. `kind`: that of all operations, or of none; `what`: see [`held`].
    #[inline(always)]
    #[track_caller]
    pub fn settled(self, n: u32, kind: u32, what: u32, i: u32) -> (Option<V>, u8) {
        let operation = operation::of_number(kind, self.operations, i, what != held::KEYS);
        let row = self.rows.get_stream(i);
        let before = (row != NO_ROW).then(|| match what {
            held::VALUES => self.own.get(row),
            held::PLACES => V::narrowed(n as u64 + i as u64),
            _ => V::default(),
        });
        let value = match what {
            held::VALUES if operation != operation::ERASE => self.values.get_stream(i),
            held::PLACES => V::narrowed(i as u64),
            _ => V::default(),
        };
        (applied(operation, before, value), status_of(operation, before.is_some()))
    }
}
/// Applies a batch of operations on distinct keys: see [`DistinctIn::settled`].
#[kernel(image = KEYS128, threads = 256, for V in [u32, u64])]
pub fn rows_settled<V: Number>(
    t: Thread,
    n: u32,
    kind: u32,
    what: u32,
    batch: DistinctIn<V>,
    to: SettledOut<V>,
) {
    let i = t.global_id();
    if i < n {
        let (after, status) = batch.settled(n, kind, what, i);
        to.is_held.store(i, after.is_some() as u8);
        to.values.store(i, after.unwrap_or_default());
        to.statuses.store(i, status);
    }
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

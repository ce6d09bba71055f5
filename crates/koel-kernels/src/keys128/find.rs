//! Lookups: one thread a query.
use super::fingerprint::Fingerprint;
use crate::map::find::MapRef;
use crate::table::answers::{tell_bits, tell_count, tell_flags};
use crate::table::layout::{Number, Wide};
use koel_simt::{Buf, In, Thread, kernel};

/// The row of a key that is not there.
pub const NO_ROW: u32 = u32::MAX;

/// Keys of 128 bits as kernels see them: one parameter of a kernel.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct RowsRef {
    /// What the table has in place of keys.
    pub fingerprint: Fingerprint,
    /// The row of each fingerprint.
    pub table: MapRef<Wide<u64, u32>>,
    /// The key of each row.
    pub keys: In<u128>,
}
impl RowsRef {
    /// The same for host code outside of a kernel, which can then look keys up.
    ///
    /// # Safety
    /// It is on a device whose memory is the host's, and is there and not changed as long as the
    /// result is used.
    #[cfg(not(target_arch = "nvptx64"))]
    pub unsafe fn on_host(self) -> RowsRef {
        // SAFETY: the caller's.
        unsafe { koel_simt::Arg::native(self) }
    }
    /// The row of a key.
    ///
    /// A [lookup](MapRef::get) of its fingerprint: one sector of 32 bytes, seldom a second one. If
    /// that is there, the sector of the row beside it, and that of the key in this row, which
    /// must be equal.
    #[inline(always)]
    #[track_caller]
    pub fn row(&self, key: u128) -> Option<u32> {
        match self.table.get(self.fingerprint.of(key)) {
            Some(row) if self.keys.get(row) == key => Some(row),
            _ => None,
        }
    }
}

/// Looks up query `i`: its row, or [`NO_ROW`].
#[kernel(image = KEYS128, threads = 256, starts_early)]
pub fn keys128_rows(t: Thread, rows: RowsRef, n: u32, queries: In<u128>, found: Buf<u32>) {
    t.wait_for_previous();
    t.let_next_start();
    let i = t.global_id();
    if i < n {
        found.store_stream(i, rows.row(queries.get_stream(i)).unwrap_or(NO_ROW));
    }
}
/// Looks up query `i`: 1 or 0.
#[kernel(image = KEYS128, threads = 256, starts_early)]
pub fn keys128_contains(t: Thread, rows: RowsRef, n: u32, queries: In<u128>, found: Buf<u8>) {
    tell_flags(t, n, found, |i| rows.row(queries.get_stream(i)).is_some())
}
/// Looks up query `i`: bit `i % 32` of word `i / 32`. The bits behind the last query are 0.
#[kernel(image = KEYS128, threads = 256, starts_early)]
pub fn keys128_contains_bits(t: Thread, rows: RowsRef, n: u32, queries: In<u128>, found: Buf<u32>) {
    tell_bits(t, n, found, |i| rows.row(queries.get_stream(i)).is_some())
}
/// Adds to `count` how many of the queries are there.
#[kernel(image = KEYS128, threads = 256, starts_early)]
pub fn keys128_count(t: Thread, rows: RowsRef, n: u32, queries: In<u128>, count: Buf<u64>) {
    tell_count(t, n, count, |i| rows.row(queries.get_stream(i)).is_some())
}

/// Looks up query `i`: value and found flag, or two zeros. `of_rows`: the value of each row.
#[kernel(image = KEYS128, threads = 256, starts_early, for V in [u32, u64])]
pub fn keys128_find<V: Number>(
    t: Thread,
    rows: RowsRef,
    of_rows: In<V>,
    n: u32,
    queries: In<u128>,
    values: Buf<V>,
    found: Buf<u8>,
) {
    t.wait_for_previous();
    t.let_next_start();
    let i = t.global_id();
    if i < n {
        let row = rows.row(queries.get_stream(i));
        values.store_stream(i, row.map_or(V::default(), |row| of_rows.get(row)));
        found.store_stream(i, row.is_some() as u8);
    }
}
/// Looks up query `i`: the value, or `missing`. `of_rows`: the value of each row.
#[kernel(image = KEYS128, threads = 256, starts_early, for V in [u32, u64])]
pub fn keys128_find_or<V: Number>(
    t: Thread,
    rows: RowsRef,
    of_rows: In<V>,
    n: u32,
    missing: V,
    queries: In<u128>,
    values: Buf<V>,
) {
    t.wait_for_previous();
    t.let_next_start();
    let i = t.global_id();
    if i < n {
        let row = rows.row(queries.get_stream(i));
        values.store_stream(i, row.map_or(missing, |row| of_rows.get(row)));
    }
}

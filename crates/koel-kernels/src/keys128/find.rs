//! Lookups: one thread per query.
use super::fingerprint::Fingerprint;
use crate::map::find::MapRef;
use crate::table::answers::{tell_bits, tell_count, tell_flags};
use crate::table::layout::Wide;
use koel_simt::{Arg, Buf, In, Thread, Word, kernel};

/// Row of a missing key.
pub const NO_ROW: u32 = u32::MAX;

/// 128-bit keys as kernels see them: one kernel parameter.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct RowsRef {
    /// Hash function from keys to the fingerprints that the table holds.
    pub fingerprint: Fingerprint,
    /// Maps each fingerprint to its row.
    pub table: MapRef<Wide<u64, u32>>,
    /// Key of each row.
    pub keys: In<u128>,
}
impl RowsRef {
    /// Returns the same table for host code outside a kernel, which can then look keys up.
    ///
    /// # Safety
    /// The table must be on a device whose memory is the host's. Its memory must stay allocated and
    /// unchanged while the result is used.
    #[cfg(not(target_arch = "nvptx64"))]
    pub unsafe fn on_host(self) -> RowsRef {
        // SAFETY: guaranteed by the caller.
        unsafe { koel_simt::Arg::native(self) }
    }
    /// Returns the row of a key.
    ///
    /// [Looks up](MapRef::get) its fingerprint, which reads one 32-byte sector and rarely a second
    /// one. If the fingerprint is found, reads the adjacent sector with the row, and the sector of
    /// the key in that row, which must be equal.
    #[inline(always)]
    #[track_caller]
    pub fn row(&self, key: u128) -> Option<u32> {
        match self.table.get(self.fingerprint.of(key)) {
            Some(row) if self.keys.get(row) == key => Some(row),
            _ => None,
        }
    }
}

/// Looks up query `i` and writes its row, or [`NO_ROW`].
#[kernel(image = KEYS128, threads = 256, starts_early)]
pub fn keys128_rows(t: Thread, rows: RowsRef, n: u32, queries: In<u128>, found: Buf<u32>) {
    t.wait_for_previous();
    t.let_next_start();
    let i = t.global_id();
    if i < n {
        found.store_stream(i, rows.row(queries.get_stream(i)).unwrap_or(NO_ROW));
    }
}
/// Looks up query `i` and writes 1 or 0.
#[kernel(image = KEYS128, threads = 256, starts_early)]
pub fn keys128_contains(t: Thread, rows: RowsRef, n: u32, queries: In<u128>, found: Buf<u8>) {
    tell_flags(t, n, found, |i| rows.row(queries.get_stream(i)).is_some())
}
/// Looks up query `i` and writes bit `i % 32` of word `i / 32`. Bits after the last query are 0.
#[kernel(image = KEYS128, threads = 256, starts_early)]
pub fn keys128_contains_bits(t: Thread, rows: RowsRef, n: u32, queries: In<u128>, found: Buf<u32>) {
    tell_bits(t, n, found, |i| rows.row(queries.get_stream(i)).is_some())
}
/// Adds the number of queries that are found to `count`.
#[kernel(image = KEYS128, threads = 256, starts_early)]
pub fn keys128_count(t: Thread, rows: RowsRef, n: u32, queries: In<u128>, count: Buf<u64>) {
    tell_count(t, n, count, |i| rows.row(queries.get_stream(i)).is_some())
}

/// Looks up query `i` and writes the value and a found flag, or two zeros. `of_rows` holds the
/// value of each row.
#[kernel(image = KEYS128, threads = 256, starts_early, for V in [u32, u64, u128])]
pub fn keys128_find<V: Word + Arg + Default>(
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
/// Looks up query `i` and writes the value, or `missing`. `of_rows` holds the value of each row.
#[kernel(image = KEYS128, threads = 256, starts_early, for V in [u32, u64, u128])]
pub fn keys128_find_or<V: Word + Arg>(
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

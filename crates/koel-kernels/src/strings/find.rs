//! Lookups: one thread per query.
use super::column::StringsIn;
use super::fingerprint::StringFingerprint;
use crate::keys128::find::NO_ROW;
use crate::map::find::MapRef;
use crate::table::layout::Wide;
use koel_simt::{Buf, Thread, kernel};

/// Strings in rows, and the table of their rows, as kernels see them: one kernel parameter.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct StringRowsRef {
    /// Hash function from strings to the fingerprints that the table holds.
    pub fingerprint: StringFingerprint,
    /// Maps each fingerprint to its row.
    pub table: MapRef<Wide<u64, u32>>,
    /// String of each row.
    pub keys: StringsIn,
}
impl StringRowsRef {
    /// Returns the row of string `i` of a column.
    ///
    /// [Looks up](MapRef::get) its fingerprint, which reads one 32-byte sector and rarely a second
    /// one. If the fingerprint is found, reads the adjacent sector with the row, that of two
    /// offsets, and those of the string in that row, which must be equal.
    #[inline(always)]
    #[track_caller]
    pub fn row(&self, queries: &StringsIn, i: u32) -> Option<u32> {
        match self.table.get(queries.fingerprint(&self.fingerprint, i)) {
            Some(row) if queries.is_equal(i, &self.keys, row) => Some(row),
            _ => None,
        }
    }
}

/// Looks up query `i` and writes its row, or [`NO_ROW`].
#[kernel(image = STRINGS, threads = 256)]
pub fn strings_rows(t: Thread, rows: StringRowsRef, n: u32, queries: StringsIn, found: Buf<u32>) {
    let i = t.global_id();
    if i < n {
        found.store_stream(i, rows.row(&queries, i).unwrap_or(NO_ROW));
    }
}

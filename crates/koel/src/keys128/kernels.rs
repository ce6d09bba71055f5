//! Launches of the lookups that depend on the type of values.
use crate::device::Stream;
use crate::error::Result;
use crate::primitives::compact::CompactElement;
use koel_kernels::keys128::find::{self, Rows};
use koel_kernels::map::layout::Number;
use koel_simt::{Buf, In};

/// Threads of a block of all kernels here.
pub const THREADS: u32 = 256;
const _: () = assert!(
    find::keys128_rows::SPEC.threads == THREADS && find::keys128_find_u32::SPEC.threads == THREADS
);

/// Values of rows: `u32`, `u64`. Each function launches a kernel.
#[allow(clippy::too_many_arguments, reason = "as many as the kernels have")]
pub trait RowValue: CompactElement + Number {
    /// Values and found flags.
    ///
    /// # Safety
    /// The arguments must fit the kernel.
    unsafe fn find(
        stream: &Stream,
        grid: u32,
        n: u32,
        rows: Rows,
        of_rows: In<Self>,
        queries: In<u128>,
        values: Buf<Self>,
        found: Buf<u8>,
    ) -> Result<()>;
    /// Values, or `missing`.
    ///
    /// # Safety
    /// The arguments must fit the kernel.
    unsafe fn find_or(
        stream: &Stream,
        grid: u32,
        n: u32,
        missing: Self,
        rows: Rows,
        of_rows: In<Self>,
        queries: In<u128>,
        values: Buf<Self>,
    ) -> Result<()>;
}
/// A launch of a kernel that takes rows in parts.
macro_rules! with_rows {
    ($rows:expr, $launch:path, ($($before:expr),*), ($($after:expr),*)) => {{
        let (rows, table) = ($rows, $rows.table);
        $launch(
            $($before,)* rows.fingerprint, table.shape, table.stash_bits, table.slots, table.stash, table.header, rows.keys, $($after),*
        )
    }};
}
pub(super) use with_rows;
macro_rules! row_values { ($($v:ident $find:ident $find_or:ident;)*) => { $(
    impl RowValue for $v {
        unsafe fn find(
            stream: &Stream,
            grid: u32,
            n: u32,
            rows: Rows,
            of_rows: In<$v>,
            queries: In<u128>,
            values: Buf<$v>,
            found: Buf<u8>,
        ) -> Result<()> {
            // SAFETY: the caller's.
            unsafe { with_rows!(rows, find::$find::launch, (stream, grid, n), (of_rows, queries, values, found)) }
        }
        unsafe fn find_or(
            stream: &Stream,
            grid: u32,
            n: u32,
            missing: $v,
            rows: Rows,
            of_rows: In<$v>,
            queries: In<u128>,
            values: Buf<$v>,
        ) -> Result<()> {
            // SAFETY: the caller's.
            unsafe { with_rows!(rows, find::$find_or::launch, (stream, grid, n, missing), (of_rows, queries, values)) }
        }
    }
)* } }
row_values! {
    u32 keys128_find_u32 keys128_find_or_u32;
    u64 keys128_find_u64 keys128_find_or_u64;
}

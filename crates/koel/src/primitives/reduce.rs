//! Sum, least and greatest.
//!
//! On a GPU: one fill and one launch, every element read once; a block adds its result by one
//! global atomic. No scratch memory. The same result on every device and in every run: integers,
//! and sums wrap at 64 bits.
use super::filling_grid;
use crate::device::{Element, Stream, View, ViewMut};
use crate::error::{Result, check_length, count32};
use koel_kernels::reduce::TURN;
use rayon::prelude::*;

/// What can be reduced: `u32`, `u64`.
pub trait ReduceElement: Element + Ord + sealed::Launch {}
impl ReduceElement for u32 {}
impl ReduceElement for u64 {}

mod sealed {
    use crate::device::Stream;
    use crate::error::Result;
    use koel_kernels::reduce::*;
    use koel_simt::{Buf, In};

    pub trait Launch: Copy {
        const LEAST: Self;
        const GREATEST: Self;
        fn widen(self) -> u64;
        /// # Safety
        /// `input` holds `n` elements, `out` one; `aligned` means to sixteen bytes.
        unsafe fn sum(
            stream: &Stream,
            grid: u32,
            aligned: u32,
            n: u32,
            input: In<Self>,
            out: Buf<u64>,
        ) -> Result<()>;
        /// # Safety
        /// As `sum`.
        unsafe fn min(
            stream: &Stream,
            grid: u32,
            aligned: u32,
            n: u32,
            input: In<Self>,
            out: Buf<Self>,
        ) -> Result<()>;
        /// # Safety
        /// As `sum`.
        unsafe fn max(
            stream: &Stream,
            grid: u32,
            aligned: u32,
            n: u32,
            input: In<Self>,
            out: Buf<Self>,
        ) -> Result<()>;
    }
    macro_rules! launch { ($t:ident: $($f:ident $kernel:ident $out:ident)*) => {
        impl Launch for $t {
            const LEAST: $t = 0;
            const GREATEST: $t = $t::MAX;
            fn widen(self) -> u64 {
                self as u64
            }
            $(unsafe fn $f(stream: &Stream, grid: u32, aligned: u32, n: u32, input: In<$t>, out: Buf<$out>) -> Result<()> {
                // SAFETY: the caller's.
                unsafe { $kernel::launch(stream, grid, aligned, n, input, out) }
            })*
        }
    } }
    launch!(u32: sum reduce_sum_u32 u64 min reduce_min_u32 u32 max reduce_max_u32 u32);
    launch!(u64: sum reduce_sum_u64 u64 min reduce_min_u64 u64 max reduce_max_u64 u64);
}

/// Elements of a chunk on the CPU.
const CHUNK: usize = 1 << 16;

macro_rules! reductions { ($($(#[$doc:meta])* $into:ident $(#[$now_doc:meta])* $now:ident, $out:ty, $byte:literal, $kernel:ident, |$part:ident| $fold:expr, $merge:expr;)*) => { $(
    $(#[$doc])*
    ///
    /// Errors: an output that does not hold one element, more elements than 32-bit indices reach,
    /// buffers of another device.
    pub fn $into<T: ReduceElement>(stream: &Stream, input: View<'_, T>, mut out: ViewMut<'_, $out>) -> Result<()> {
        check_length("out", out.len(), "one result", 1)?;
        let n = count32("elements to reduce", input.len())?;
        let from = input.arg("input", stream)?;
        out.fill_bytes($byte, stream)?;
        if !stream.device().runs_kernels() {
            if let (Some(input), Some(out)) = (input.host(), out.host_mut()) {
                out[0] = stream.device().install(|| input.par_chunks(CHUNK).map(|$part| $fold).reduce(|| out[0], $merge));
            }
            return Ok(());
        }
        let grid = filling_grid(stream.device(), n, TURN);
        // SAFETY: lengths as passed.
        unsafe { <T as sealed::Launch>::$kernel(stream, grid, input.is_aligned(16) as u32, n, from, out.arg("out", stream)?) }
    }
    $(#[$now_doc])*
    /// Allocates the result, waits and reads it back.
    pub fn $now<T: ReduceElement>(stream: &Stream, input: View<'_, T>) -> Result<$out> {
        let mut out = stream.device().alloc(1)?;
        $into(stream, input, out.view_mut())?;
        Ok(out.download()?[0])
    }
)* } }
reductions! {
    /// `out[0]` = the sum of the elements, modulo 2^64; 0 if there are none.
    sum_into
    /// The sum of the elements, modulo 2^64; 0 if there are none.
    sum, u64, 0, sum, |part| part.iter().fold(0u64, |a, x| a.wrapping_add(sealed::Launch::widen(*x))), u64::wrapping_add;
    /// `out[0]` = the least element; all ones if there are none.
    min_into
    /// The least element; all ones if there are none.
    min, T, 0xff, min, |part| part.iter().copied().min().unwrap_or(T::GREATEST), Ord::min;
    /// `out[0]` = the greatest element; 0 if there are none.
    max_into
    /// The greatest element; 0 if there are none.
    max, T, 0, max, |part| part.iter().copied().max().unwrap_or(T::LEAST), Ord::max;
}

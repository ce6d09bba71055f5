//! Sum, minimum and maximum.
//!
//! On a GPU: one fill and one launch, every element read once; a block adds its result with one
//! global atomic. Needs no scratch memory. The result is the same on every device and in every run:
//! elements are integers, and sums wrap at 64 bits.
use super::filling_grid;
use crate::device::{Apart, Element, Stream, View, ViewMut};
use crate::error::{Result, check_length, count32};
use crate::parallel;
use koel_kernels::fold::{Accumulate, Form, Max, Min, Sum};
use koel_kernels::reduce::{Chunked, TURN, reduce};
use koel_kernels::table::layout::Number;

/// Elements that can be reduced: `u32`, `u64`.
pub trait ReduceElement: Element + Number + Chunked {}
impl ReduceElement for u32 {}
impl ReduceElement for u64 {}

/// Elements per chunk on the CPU.
const CHUNK: usize = 1 << 16;

/// Sets `out[0]` to the fold of the elements. `neutral` is every byte of an empty fold's result.
fn fold_into<F: Accumulate<Value: ReduceElement, Part: Element>>(
    stream: &Stream,
    neutral: u8,
    input: View<'_, F::Value>,
    mut out: ViewMut<'_, F::Part>,
) -> Result<()> {
    let _apart = Apart::begin();
    check_length("out", out.len(), "the total", 1)?;
    let n = count32("elements to reduce", input.len())?;
    let from = input.arg("input", stream)?;
    out.fill_bytes(neutral, stream)?;
    if !stream.device().runs_kernels() {
        if let (Some(input), Some(out)) = (input.host(), out.host_mut()) {
            let of_chunk = |chunk: &[F::Value]| {
                chunk.iter().fold(F::neutral(), |part, &value| {
                    F::merge(part, F::part(value, Form::UNSIGNED))
                })
            };
            let parts = stream
                .device()
                .install(|| parallel::map(input.chunks(CHUNK), |_, chunk| of_chunk(chunk)))?;
            out[0] = parts.into_iter().fold(F::neutral(), F::merge);
        }
        return Ok(());
    }
    let grid = filling_grid(stream.device(), n, TURN);
    let (aligned, to) = (input.is_aligned(16) as u32, out.arg("out", stream)?);
    // SAFETY: lengths as passed.
    unsafe { reduce::launch::<F, _>(stream, grid, aligned, n, from, to) }
}
/// Sets `out[0]` to the sum of the elements, modulo 2^64; 0 if there are none.
///
/// Errors: an output not of length 1; more elements than 32-bit indices address; buffers of another
/// device.
pub fn sum_into<T: ReduceElement>(
    stream: &Stream,
    input: View<'_, T>,
    out: ViewMut<'_, u64>,
) -> Result<()> {
    fold_into::<Sum<T>>(stream, 0, input, out)
}
/// Returns the sum of the elements, modulo 2^64; 0 if there are none. Allocates the result, waits
/// and reads it back.
pub fn sum<T: ReduceElement>(stream: &Stream, input: View<'_, T>) -> Result<u64> {
    let mut out = stream.device().alloc(1)?;
    sum_into(stream, input, out.view_mut())?;
    Ok(out.download()?[0])
}
/// Sets `out[0]` to the minimum of the elements; all ones if there are none.
///
/// Errors: an output not of length 1; more elements than 32-bit indices address; buffers of another
/// device.
pub fn min_into<T: ReduceElement>(
    stream: &Stream,
    input: View<'_, T>,
    out: ViewMut<'_, T>,
) -> Result<()> {
    fold_into::<Min<T>>(stream, 0xff, input, out)
}
/// Returns the minimum of the elements; all ones if there are none. Allocates the result, waits and
/// reads it back.
pub fn min<T: ReduceElement>(stream: &Stream, input: View<'_, T>) -> Result<T> {
    let mut out = stream.device().alloc(1)?;
    min_into(stream, input, out.view_mut())?;
    Ok(out.download()?[0])
}
/// Sets `out[0]` to the maximum of the elements; 0 if there are none.
///
/// Errors: an output not of length 1; more elements than 32-bit indices address; buffers of another
/// device.
pub fn max_into<T: ReduceElement>(
    stream: &Stream,
    input: View<'_, T>,
    out: ViewMut<'_, T>,
) -> Result<()> {
    fold_into::<Max<T>>(stream, 0, input, out)
}
/// Returns the maximum of the elements; 0 if there are none. Allocates the result, waits and reads
/// it back.
pub fn max<T: ReduceElement>(stream: &Stream, input: View<'_, T>) -> Result<T> {
    let mut out = stream.device().alloc(1)?;
    max_into(stream, input, out.view_mut())?;
    Ok(out.download()?[0])
}

//! Lengths and vectors that depend on the input: what is too long, or finds no memory, is an error,
//! never an abort.
use koel::{Error, Result};

/// Checks that `found` equals `expected`.
pub(crate) fn check_length(
    name: &'static str,
    found: usize,
    other: &'static str,
    expected: usize,
) -> Result<()> {
    if found == expected { Ok(()) } else { Err(Error::Length { name, found, other, expected }) }
}
/// Converts to a 32-bit count, for kernels that index by `u32`.
pub(crate) fn count32(what: &'static str, n: usize) -> Result<u32> {
    // Slightly below 2^32, so that rounding up to whole blocks does not wrap.
    const MAX: usize = u32::MAX as usize - (1 << 16);
    if n <= MAX { Ok(n as u32) } else { Err(Error::TooMany { what, n, max: MAX }) }
}

/// Reserves room for `more` elements. Errors: out of memory.
#[inline]
fn reserve<T>(all: &mut Vec<T>, more: usize) -> Result<()> {
    if all.capacity() - all.len() >= more { Ok(()) } else { grow(all, more) }
}
#[cold]
#[inline(never)]
fn grow<T>(all: &mut Vec<T>, more: usize) -> Result<()> {
    all.try_reserve(more).map_err(|_| out_of_memory::<T>(more))
}
/// Returns the error of a failed allocation of `n` elements in host memory.
pub(crate) fn out_of_memory<T>(n: usize) -> Error {
    let asked = n.saturating_mul(size_of::<T>());
    Error::OutOfMemory { device: "the host".into(), asked, free: 0 }
}
/// Appends an element. Errors: out of memory.
#[inline]
pub(crate) fn push<T>(all: &mut Vec<T>, element: T) -> Result<()> {
    reserve(all, 1)?;
    all.push(element);
    Ok(())
}
/// Returns a vector with room for `len` elements. Errors: out of memory.
pub(crate) fn with_room<T>(len: usize) -> Result<Vec<T>> {
    let mut all = Vec::new();
    reserve(&mut all, len)?;
    Ok(all)
}
/// Returns a vector of the elements of an iterator. Errors: out of memory.
pub(crate) fn collect<T>(elements: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let elements = elements.into_iter();
    let mut all = with_room(elements.size_hint().0)?;
    for element in elements {
        push(&mut all, element)?;
    }
    Ok(all)
}
/// Returns a vector of `len` copies of `value`. Errors: out of memory.
pub(crate) fn repeat<T: Clone>(value: T, len: usize) -> Result<Vec<T>> {
    let mut all = with_room(len)?;
    all.resize(len, value);
    Ok(all)
}

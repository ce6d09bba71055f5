//! Vectors whose size depends on the input: a failed allocation is an error, never an abort.
//!
//! Modules that hold data of the input deny the methods of `clippy.toml`, which abort. Allocations
//! of constant size remain elsewhere: parts of a device or stream, messages of errors, and rayon's
//! queues.
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
use crate::error::Error;
use std::collections::HashMap;
use std::hash::Hash;

/// A failed allocation of host memory: the bytes requested. An [`Error`] is larger than registers,
/// which would slow loops that rarely allocate down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoMemory(usize);
impl From<NoMemory> for Error {
    fn from(NoMemory(bytes): NoMemory) -> Error {
        out_of_memory(bytes)
    }
}
/// Returns the error of a failed allocation of host memory.
pub(crate) fn out_of_memory(bytes: usize) -> Error {
    Error::OutOfMemory { device: "the host".into(), asked: bytes, free: 0 }
}
/// Returns whether a test makes this allocation fail.
pub(crate) fn is_to_fail() -> bool {
    #[cfg(feature = "executor")]
    return crate::device::failing::fails();
    #[cfg(not(feature = "executor"))]
    false
}
/// The result of what fails only without memory.
pub(crate) type Result<T> = std::result::Result<T, NoMemory>;

/// Reserves room for `more` elements. Errors: out of memory.
#[inline]
pub(crate) fn reserve<T>(all: &mut Vec<T>, more: usize) -> Result<()> {
    if all.capacity() - all.len() >= more { Ok(()) } else { grow(all, more) }
}
#[cold]
#[inline(never)]
fn grow<T>(all: &mut Vec<T>, more: usize) -> Result<()> {
    let reserved = if is_to_fail() { None } else { all.try_reserve(more).ok() };
    reserved.ok_or(NoMemory(more.saturating_mul(size_of::<T>())))
}
/// Appends an element. Errors: out of memory.
#[inline]
#[allow(clippy::disallowed_methods, reason = "there is room")]
pub(crate) fn push<T>(all: &mut Vec<T>, element: T) -> Result<()> {
    reserve(all, 1)?;
    all.push(element);
    Ok(())
}
/// Appends the elements of an iterator. Errors: out of memory.
pub(crate) fn extend<T>(all: &mut Vec<T>, elements: impl IntoIterator<Item = T>) -> Result<()> {
    let elements = elements.into_iter();
    reserve(all, elements.size_hint().0)?;
    for element in elements {
        push(all, element)?;
    }
    Ok(())
}
/// Changes the length; new elements are copies of `value`. Errors: out of memory.
///
/// Compiled for the vector instructions of its caller.
#[inline(always)]
#[allow(clippy::disallowed_methods, reason = "there is room")]
pub(crate) fn resize<T: Clone>(all: &mut Vec<T>, len: usize, value: T) -> Result<()> {
    reserve(all, len.saturating_sub(all.len()))?;
    all.resize(len, value);
    Ok(())
}
/// Returns a vector of the elements of an iterator. Errors: out of memory.
pub(crate) fn collect<T>(elements: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let mut all = Vec::new();
    extend(&mut all, elements)?;
    Ok(all)
}
/// As [`collect`]. Errors: also those of the elements.
pub(crate) fn try_collect<T, E: From<NoMemory>>(
    elements: impl IntoIterator<Item = std::result::Result<T, E>>,
) -> std::result::Result<Vec<T>, E> {
    let elements = elements.into_iter();
    let mut all = with_room(elements.size_hint().0)?;
    for element in elements {
        push(&mut all, element?)?;
    }
    Ok(all)
}
/// Returns a vector of `len` copies of `value`. Errors: out of memory.
pub(crate) fn repeat<T: Clone>(value: T, len: usize) -> Result<Vec<T>> {
    let mut all = Vec::new();
    resize(&mut all, len, value)?;
    Ok(all)
}
/// Reserves room for `more` keys. Errors: out of memory.
pub(crate) fn reserve_map<K: Eq + Hash, V>(map: &mut HashMap<K, V>, more: usize) -> Result<()> {
    if map.capacity() - map.len() >= more {
        return Ok(());
    }
    let reserved = if is_to_fail() { None } else { map.try_reserve(more).ok() };
    reserved.ok_or(NoMemory(more.saturating_mul(size_of::<(K, V)>())))
}
/// Returns a map of pairs. Errors: out of memory.
pub(crate) fn collect_map<K: Eq + Hash, V>(
    pairs: impl IntoIterator<Item = (K, V)>,
) -> Result<HashMap<K, V>> {
    let pairs = pairs.into_iter();
    let mut map = HashMap::new();
    reserve_map(&mut map, pairs.size_hint().0)?;
    for (key, value) in pairs {
        reserve_map(&mut map, 1)?;
        map.insert(key, value);
    }
    Ok(map)
}
/// Returns a vector with room for `len` elements. Errors: out of memory.
pub(crate) fn with_room<T>(len: usize) -> Result<Vec<T>> {
    let mut all = Vec::new();
    reserve(&mut all, len)?;
    Ok(all)
}

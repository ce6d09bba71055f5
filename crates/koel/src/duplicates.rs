//! The caller's policy for equal keys.
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
use crate::device::Element;
use crate::error::Error;
use crate::fallible::{self, reserve_map};
use std::collections::HashMap;
use std::hash::Hash;

/// What happens to pairs with equal keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Duplicates {
    /// Keeps the last pair of the input, as extending a `HashMap` does.
    #[default]
    KeepLast,
    /// Keeps the first pair of the input.
    KeepFirst,
    /// Returns an error that names a key.
    Reject,
    /// The caller promises that there are none. A broken promise never hangs or crashes, but
    /// lookups in a [`Map`](crate::Map) may miss keys.
    Unchecked,
}

/// Returns the error for the first key that occurred before, or that of too little memory to find
/// it.
pub(crate) fn first_duplicate<K: Element + Into<u128> + Hash + Eq>(keys: &[K]) -> Error {
    match first_repeated(keys.iter().copied()) {
        Ok(Some((key, first, second))) => Error::DuplicateKey { key: key.into(), first, second },
        Ok(None) => Error::DuplicateKey { key: 0, first: 0, second: 0 },
        Err(e) => e.into(),
    }
}
/// Returns the first key that occurred before, and both places. Errors: out of memory.
pub(crate) fn first_repeated<K: Copy + Hash + Eq>(
    keys: impl ExactSizeIterator<Item = K>,
) -> fallible::Result<Option<(K, usize, usize)>> {
    let mut seen = HashMap::new();
    reserve_map(&mut seen, keys.len())?;
    for (second, key) in keys.enumerate() {
        if let Some(first) = seen.insert(key, second) {
            return Ok(Some((key, first, second)));
        }
    }
    Ok(None)
}

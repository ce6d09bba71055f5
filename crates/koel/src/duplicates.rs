//! What happens to equal keys: the caller's policy.
use crate::device::Element;
use crate::error::Error;
use std::collections::HashMap;

/// What happens to pairs whose keys are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Duplicates {
    /// The last pair of the input stays, as when a `HashMap` is extended.
    #[default]
    KeepLast,
    /// The first pair of the input stays.
    KeepFirst,
    /// They are an error that names a key.
    Reject,
    /// The caller promises that there are none, as the papers do. A promise that is broken never
    /// hangs or crashes: the published tables then keep one of the pairs, but lookups in the
    /// flagship may miss keys.
    Unchecked,
}

/// The first key that was there before.
pub(crate) fn first_duplicate<K: Element + Into<u128> + std::hash::Hash + Eq>(keys: &[K]) -> Error {
    let mut seen = HashMap::with_capacity(keys.len());
    for (second, &key) in keys.iter().enumerate() {
        if let Some(first) = seen.insert(key, second) {
            return Error::DuplicateKey { key: key.into(), first, second };
        }
    }
    Error::DuplicateKey { key: 0, first: 0, second: 0 }
}

//! Keys of a batch: see [`AsKeys`].

/// Keys that a table is asked for at a time: a reference to a slice, an array or a vector of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a slice of keys `{K}`",
    label = "not a reference to a slice, an array or a vector of `{K}`",
    note = "tables take many keys at a time: `map.get(&[key])`, `map.insert(&[key], &[value])`",
    note = "one key after the other: `map.host()?.get(key)`, or a `koel::HostMap` or `HostSet`, \
            which changes in this way"
)]
pub trait AsKeys<K> {
    /// Returns the keys.
    fn as_keys(&self) -> &[K];
}
impl<K, T: AsRef<[K]> + ?Sized> AsKeys<K> for &T {
    fn as_keys(&self) -> &[K] {
        (*self).as_ref()
    }
}
impl<K, T: AsRef<[K]> + ?Sized> AsKeys<K> for &mut T {
    fn as_keys(&self) -> &[K] {
        (**self).as_ref()
    }
}

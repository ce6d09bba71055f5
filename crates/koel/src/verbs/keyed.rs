//! What a column of keys is: see [`Keyed`].
use super::row_keys::{ByteRows, Bytes, RowKeys};
use crate::device::Device;
use crate::error::{Result, count32};
use crate::types::{BitsOf, Key, key_bits};

mod sealed {
    pub trait Sealed {}
}

/// Elements of a column of keys: every [`Key`] (integers, floats, tuples, structs and so on), and
/// strings: `&str`, `String`, `&String`, `&[u8]`, `Vec<u8>`. The trait is sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key of a column",
    label = "neither a `koel::Key` nor a string",
    note = "columns hold keys of at most 16 bytes (`#[derive(koel::Key)]` makes a struct one), \
            `&str`, `String`, `&[u8]` or `Vec<u8>`; `koel::any` takes several columns as a key"
)]
pub trait Keyed: Clone + Send + Sync + Sized + sealed::Sealed {
    #[doc(hidden)]
    fn column<'a>(device: &Device, keys: &'a [Self]) -> Result<KeyColumn<'a>>;
}
/// A column of keys as the verbs take it.
#[doc(hidden)]
pub struct KeyColumn<'a>(pub(super) RowKeys<'a>);

impl<K: Key> sealed::Sealed for K {}
impl<K: Key> Keyed for K {
    fn column<'a>(device: &Device, keys: &'a [K]) -> Result<KeyColumn<'a>> {
        Ok(KeyColumn(RowKeys::of_bits(key_bits::<K, BitsOf<K>>(device, keys)?)))
    }
}
macro_rules! strings {
    ($($type:ty as $bytes:ident;)+) => {
        $(
            impl sealed::Sealed for $type {}
            impl Keyed for $type {
                fn column<'a>(_: &Device, keys: &'a [$type]) -> Result<KeyColumn<'a>> {
                    count32("keys", keys.len())?;
                    Ok(KeyColumn(RowKeys::Bytes(ByteRows::of(Bytes::$bytes(keys)))))
                }
            }
        )+
    };
}
strings! {
    &str as Strs;
    String as Strings;
    &String as OfStrings;
    &[u8] as Slices;
    Vec<u8> as Vecs;
}

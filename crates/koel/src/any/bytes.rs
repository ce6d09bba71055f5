//! Strings in host memory, as Arrow or slices have them: see [`Bytes`].
use crate::error::{Error, Result};
use crate::strings::StringVec;
use crate::verbs::row_keys::{self, ByteRows};

/// Strings of bytes in host memory: slices, or bytes and offsets.
#[derive(Clone, Copy)]
pub struct Bytes<'a>(pub(super) ByteRows<'a>);
impl<'a> Bytes<'a> {
    /// Returns the strings with the bytes `offsets[i]..offsets[i + 1]`: Arrow's `Utf8` and
    /// `Binary`.
    ///
    /// ```
    /// use koel::any::Bytes;
    ///
    /// let strings = Bytes::from_offsets32(&[0, 3, 3, 8], b"onethree")?;
    /// assert_eq!((strings.len(), strings.get(2)), (3, Some(&b"three"[..])));
    /// assert!(Bytes::from_offsets32(&[0, 9], b"onethree").is_err());
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: no offset; one that is greater than the next, negative, or greater than the number
    /// of bytes.
    pub fn from_offsets32(offsets: &'a [i32], bytes: &'a [u8]) -> Result<Bytes<'a>> {
        check_offsets(offsets, |&offset| i64::from(offset), bytes.len())?;
        Ok(Bytes(ByteRows::of(row_keys::Bytes::Offsets32(offsets, bytes))))
    }
    /// As [`from_offsets32`](Self::from_offsets32): Arrow's `LargeUtf8` and `LargeBinary`.
    pub fn from_offsets64(offsets: &'a [i64], bytes: &'a [u8]) -> Result<Bytes<'a>> {
        check_offsets(offsets, |&offset| offset, bytes.len())?;
        // None is negative.
        let offsets = bytemuck::cast_slice(offsets);
        Ok(Bytes(ByteRows::of(row_keys::Bytes::Offsets64(offsets, bytes))))
    }
    pub(super) fn of_vec(strings: &'a StringVec) -> Bytes<'a> {
        let (offsets, bytes) = strings.as_parts();
        Bytes(ByteRows::of(row_keys::Bytes::Offsets64(offsets, bytes)))
    }
    /// Returns the number of strings.
    pub fn len(self) -> usize {
        crate::rows::Keys::len(&self.0)
    }
    /// Returns whether there are no strings.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
    /// Returns the bytes of string `i`; `None` if there are not as many.
    #[inline(always)]
    pub fn get(self, i: usize) -> Option<&'a [u8]> {
        self.0.get(i)
    }
}
fn check_offsets<O>(offsets: &[O], number: impl Fn(&O) -> i64, bytes: usize) -> Result<()> {
    let wrong = |found: String, expected: &str| {
        Err(Error::Setting { field: "offsets", found, expected: expected.into() })
    };
    if offsets.is_empty() {
        return wrong("none".into(), "one more than there are strings");
    }
    let most = i64::try_from(bytes).unwrap_or(i64::MAX);
    let mut before = 0;
    for (i, offset) in offsets.iter().map(number).enumerate() {
        if offset < before || offset > most {
            let expected = format!("from {before} to {most}: ascending, in the bytes");
            return wrong(format!("{offset} at {i}"), &expected);
        }
        before = offset;
    }
    Ok(())
}

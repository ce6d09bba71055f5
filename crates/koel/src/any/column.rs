//! Columns: see [`Column`] and [`ColumnVec`].
use super::data_type::{DataType, Slice, Typed, with_data};
use crate::device::Device;
use crate::device::memory::collect as filled;
use crate::error::{Error, Result, check_length};
use crate::fallible::collect;
use crate::parallel::SMALL_PIECE;
use crate::strings::StringVec;
use crate::verbs::NO_ROW;
use crate::verbs::row_keys::{self, ByteRows};
use std::fmt;

/// A column of values in host memory, of a type known at run time; with nulls, if it has a
/// [`Validity`].
///
/// ```
/// use koel::any::{Column, DataType, Validity};
///
/// let column = Column::from(&[1.5f32, 0.0]);
/// assert_eq!((column.data_type(), column.len()), (DataType::F32, 2));
/// let bits = Validity::Bits { bytes: &[0b01], offset: 0 };
/// let column = column.with_validity(bits)?;
/// assert_eq!((column.is_null(0), column.is_null(1), column.nulls()), (false, true, 1));
/// let words = vec!["one", "two"];
/// assert_eq!(Column::from(&words).data_type(), DataType::Bytes);
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Column<'a> {
    pub(super) data: Data<'a>,
    pub(super) validity: Option<Validity<'a>>,
}
/// Values of a column.
#[derive(Clone, Copy)]
pub(super) enum Data<'a> {
    Bool(&'a [bool]),
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    I128(&'a [i128]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    U128(&'a [u128]),
    F32(&'a [f32]),
    F64(&'a [f64]),
    Bytes(Bytes<'a>),
}
/// Values of a column in own memory.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum DataVec {
    Bool(Vec<bool>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    I128(Vec<i128>),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    U128(Vec<u128>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bytes(StringVec),
}

/// Which rows of a column have a value: the others are null.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Validity<'a> {
    /// A flag for each row.
    Flags(&'a [bool]),
    /// A bit for each row from bit `offset` on, the lowest of each byte first, as Arrow has them.
    Bits {
        /// The bytes.
        bytes: &'a [u8],
        /// Number of the first row's bit.
        offset: usize,
    },
}
impl Validity<'_> {
    /// Returns the number of rows that there are flags or bits for.
    fn len(&self) -> usize {
        match *self {
            Validity::Flags(flags) => flags.len(),
            Validity::Bits { bytes, offset } => {
                bytes.len().saturating_mul(8).saturating_sub(offset)
            }
        }
    }
    /// Returns whether a row, which exists, has a value.
    #[inline(always)]
    fn is_valid(&self, row: usize) -> bool {
        match *self {
            Validity::Flags(flags) => flags[row],
            Validity::Bits { bytes, offset } => {
                let bit = offset + row;
                bytes[bit / 8] >> (bit % 8) & 1 != 0
            }
        }
    }
}

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

impl<'a> Column<'a> {
    pub(super) fn new(data: Data<'a>) -> Column<'a> {
        Column { data, validity: None }
    }
    /// Returns the column with nulls where the validity has none. Further bits are ignored.
    ///
    /// Errors: another number of flags than rows, fewer bits than rows.
    pub fn with_validity(self, validity: Validity<'a>) -> Result<Column<'a>> {
        let (found, rows) = (validity.len(), self.len());
        match validity {
            Validity::Bits { .. } if found >= rows => (),
            Validity::Bits { .. } => {
                check_length("validity bits", found, "rows", rows)?;
            }
            Validity::Flags(_) => check_length("validity flags", found, "rows", rows)?,
        }
        Ok(Column { validity: Some(validity), ..self })
    }
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.data.len()
    }
    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the type of the values.
    pub fn data_type(&self) -> DataType {
        self.data.data_type()
    }
    /// Returns whether the column may have nulls: whether it has a validity.
    pub fn is_nullable(&self) -> bool {
        self.validity.is_some()
    }
    /// Returns whether a row is null. Panics if there is no such row.
    #[inline(always)]
    pub fn is_null(&self, row: usize) -> bool {
        self.validity.is_some_and(|validity| !validity.is_valid(row))
    }
    /// Returns the number of nulls.
    pub fn nulls(&self) -> usize {
        (0..self.len()).filter(|&row| self.is_null(row)).count()
    }
    /// Returns the values as a slice, those of nulls included.
    ///
    /// Errors: they are of another type.
    pub fn values<T: Typed>(&self) -> Result<&'a [T]> {
        T::unwrap(Slice(self.data)).ok_or_else(|| other_type(self.data_type(), &T::TYPE))
    }
    /// Returns the values as strings, those of nulls included.
    ///
    /// Errors: they are of another type.
    pub fn bytes(&self) -> Result<Bytes<'a>> {
        match self.data {
            Data::Bytes(bytes) => Ok(bytes),
            _ => Err(other_type(self.data_type(), &DataType::Bytes)),
        }
    }
    /// Returns the values of these rows, in this order; null for [`NO_ROW`], as of a
    /// [join](super::join) that found no match.
    ///
    /// ```
    /// use koel::any::Column;
    ///
    /// let device = koel::Device::cpu()?;
    /// let taken = Column::from(&["a", "b"]).take(&device, &[1, koel::verbs::NO_ROW, 1])?;
    /// let strings = taken.as_column();
    /// assert_eq!((strings.bytes()?.get(0), strings.is_null(1)), (Some(&b"b"[..]), true));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: a row that does not exist, more than 2^35 - 8 bytes of strings, out of memory.
    pub fn take(&self, device: &Device, rows: &[u32]) -> Result<ColumnVec> {
        let n = self.len();
        let wrong = rows.iter().find(|&&row| row as usize >= n && row != NO_ROW);
        if let Some(row) = wrong {
            let (found, expected) = (row.to_string(), format!("one of {n} rows, or NO_ROW"));
            return Err(Error::Setting { field: "row", found, expected });
        }
        let has_nulls = self.is_nullable() || rows.contains(&NO_ROW);
        let is_valid = |&row: &u32| row != NO_ROW && !self.is_null(row as usize);
        let valid =
            has_nulls.then(|| made(device, rows.len(), |i| is_valid(&rows[i]))).transpose()?;
        let data = with_data!(
            self.data,
            values => {
                let value = |i: usize| values.get(rows[i] as usize).copied().unwrap_or_default();
                Typed::wrap_vec(made(device, rows.len(), value)?).0
            },
            bytes => DataVec::Bytes(StringVec::of(device, rows.len(), |i| {
                bytes.get(rows[i] as usize).unwrap_or(&[])
            })?)
        );
        Ok(ColumnVec { data, valid })
    }
}
impl fmt::Debug for Column<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nullable = if self.is_nullable() { ", with nulls" } else { "" };
        write!(f, "Column[{} of {}{nullable}]", self.len(), self.data_type())
    }
}
fn other_type(found: DataType, expected: &DataType) -> Error {
    Error::Setting {
        field: "column type",
        found: found.to_string(),
        expected: expected.to_string(),
    }
}
/// Returns `len` elements, made in parallel. Errors: out of memory.
pub(super) fn made<T: Send>(
    device: &Device,
    len: usize,
    element: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>> {
    filled(len, |to| {
        device.fill(to, SMALL_PIECE, |start, part| {
            (start..).zip(part).for_each(|(i, to)| _ = to.write(element(i)));
            Ok(())
        })
    })
}

impl<'a, T: Typed> From<&'a [T]> for Column<'a> {
    fn from(values: &'a [T]) -> Column<'a> {
        Column::new(T::wrap(values).0)
    }
}
impl<'a> From<Bytes<'a>> for Column<'a> {
    fn from(bytes: Bytes<'a>) -> Column<'a> {
        Column::new(Data::Bytes(bytes))
    }
}
impl<'a, T, const N: usize> From<&'a [T; N]> for Column<'a>
where
    Column<'a>: From<&'a [T]>,
{
    fn from(values: &'a [T; N]) -> Column<'a> {
        Column::from(&values[..])
    }
}
impl<'a, T> From<&'a Vec<T>> for Column<'a>
where
    Column<'a>: From<&'a [T]>,
{
    fn from(values: &'a Vec<T>) -> Column<'a> {
        Column::from(&values[..])
    }
}
macro_rules! strings {
    ($($type:ty as $bytes:ident;)+) => {
        $(impl<'a> From<&'a [$type]> for Column<'a> {
            fn from(strings: &'a [$type]) -> Column<'a> {
                Bytes(ByteRows::of(row_keys::Bytes::$bytes(strings))).into()
            }
        })+
    };
}
strings! {
    &'a str as Strs;
    &'a [u8] as Slices;
    String as Strings;
    Vec<u8> as Vecs;
}

/// A column of values in own memory, of a type known at run time: what verbs return.
#[derive(Clone, PartialEq)]
pub struct ColumnVec {
    data: DataVec,
    /// Whether each row has a value; `None`: all have.
    valid: Option<Vec<bool>>,
}
impl ColumnVec {
    pub(super) fn new(data: DataVec, valid: Option<Vec<bool>>) -> ColumnVec {
        ColumnVec { data, valid }
    }
    /// Returns the column as a borrowed one.
    pub fn as_column(&self) -> Column<'_> {
        let validity = self.valid.as_deref().map(Validity::Flags);
        Column { data: self.data.as_data(), validity }
    }
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.as_column().len()
    }
    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the type of the values.
    pub fn data_type(&self) -> DataType {
        self.as_column().data_type()
    }
    /// Returns the values as a slice, those of nulls included: they are 0.
    ///
    /// Errors: they are of another type.
    pub fn values<T: Typed>(&self) -> Result<&[T]> {
        self.as_column().values()
    }
    /// Returns the values as strings, those of nulls included: they are empty.
    ///
    /// Errors: they are of another type.
    pub fn bytes(&self) -> Result<Bytes<'_>> {
        self.as_column().bytes()
    }
    /// Returns the value of each row, or `None` for null.
    ///
    /// Errors: they are of another type, out of memory.
    pub fn to_options<T: Typed>(&self) -> Result<Vec<Option<T>>> {
        let column = self.as_column();
        let values = column.values::<T>()?.iter().enumerate();
        Ok(collect(values.map(|(row, &value)| (!column.is_null(row)).then_some(value)))?)
    }
}
impl fmt::Debug for ColumnVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnVec({:?})", self.as_column())
    }
}

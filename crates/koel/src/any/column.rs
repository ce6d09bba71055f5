//! Columns: see [`Column`] and [`ColumnVec`].
use super::bytes::Bytes;
use super::data_type::{Data, DataType, DataVec, Slice, Typed, with_data};
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
        device.fill(to, SMALL_PIECE, &|start, part| {
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
    /// Returns the values, and whether each row has one.
    pub(super) fn into_parts(self) -> (DataVec, Option<Vec<bool>>) {
        (self.data, self.valid)
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
impl<T: Typed> From<Vec<T>> for ColumnVec {
    fn from(values: Vec<T>) -> ColumnVec {
        ColumnVec::new(T::wrap_vec(values).0, None)
    }
}
impl From<StringVec> for ColumnVec {
    fn from(strings: StringVec) -> ColumnVec {
        ColumnVec::new(DataVec::Bytes(strings), None)
    }
}
impl fmt::Debug for ColumnVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnVec({:?})", self.as_column())
    }
}

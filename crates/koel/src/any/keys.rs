//! Rows of one or several columns as keys: see [`Keys`].
use super::column::{Column, made};
use super::data_type::{Data, DataType, with_data};
use crate::device::Device;
use crate::device::memory::collect as filled;
use crate::error::{Error, Result, check_length, count32};
use crate::fallible::{collect, repeat};
use crate::parallel::{self, SMALL_PIECE};
use crate::types::{Bits, BitsOf, Key, Value, key_bits};
use crate::verbs::row_keys::RowKeys;
use std::borrow::Cow;
use std::fmt;

/// What a null in a key equals.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Nulls {
    /// Null equals null, and nothing else: as `GROUP BY` and `DISTINCT` of SQL have it.
    #[default]
    Equal,
    /// Null equals nothing: rows with a null in a column of the key are in no group and match no
    /// row, as in a join of SQL.
    Excluded,
}

/// Rows of one or several columns as keys: two rows are equal if they are in every column.
///
/// ```
/// use koel::How;
/// use koel::any::{Column, Keys, Nulls, Validity, join};
///
/// let device = koel::Device::cpu()?;
/// let (left, right, flags) = ([1, 0, 2], [0, 2], [true, false, true]);
/// let left = Column::from(&left).with_validity(Validity::Flags(&flags))?;
/// let right = Column::from(&right).with_validity(Validity::Flags(&flags[1..]))?;
/// let pairs = |nulls| {
///     let (left, right) = (Keys::new([left])?.with_nulls(nulls), Keys::new([right])?);
///     let joined = join(&device, &left, &right.with_nulls(nulls), How::Inner)?;
///     Ok::<_, koel::Error>((joined.left, joined.right))
/// };
/// assert_eq!(pairs(Nulls::Equal)?, (vec![1, 2], vec![0, 1]));
/// assert_eq!(pairs(Nulls::Excluded)?, (vec![2], vec![1]));
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone)]
pub struct Keys<'a> {
    columns: Vec<Column<'a>>,
    nulls: Nulls,
    len: usize,
}
impl<'a> Keys<'a> {
    /// Makes keys of these columns, in which null equals null.
    ///
    /// Errors: no column, columns of different lengths, more rows than 31-bit indices can address,
    /// out of memory.
    pub fn new(columns: impl IntoIterator<Item = Column<'a>>) -> Result<Keys<'a>> {
        let columns = collect(columns)?;
        let Some(len) = columns.first().map(Column::len) else {
            let (found, expected) = ("none".into(), "at least one".into());
            return Err(Error::Setting { field: "columns of a key", found, expected });
        };
        count32("rows", len)?;
        for column in &columns {
            check_length("a column of a key", column.len(), "the first one", len)?;
        }
        Ok(Keys { columns, nulls: Nulls::default(), len })
    }
    /// Returns the keys with another meaning of nulls.
    pub fn with_nulls(self, nulls: Nulls) -> Keys<'a> {
        Keys { nulls, ..self }
    }
    /// Errors: another meaning of nulls.
    pub(super) fn check_nulls(&self, others: &Keys<'_>) -> Result<()> {
        if others.nulls == self.nulls {
            return Ok(());
        }
        let (found, expected) = (format!("{:?}", others.nulls), format!("{:?}", self.nulls));
        Err(Error::Setting { field: "nulls", found, expected })
    }
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Returns the columns.
    pub fn columns(&self) -> &[Column<'a>] {
        &self.columns
    }
    /// Returns the rows without a null in columns of which keys do not say that they are null, if
    /// there are others.
    fn complete_rows(&self, device: &Device, layout: &Layout) -> Result<Option<Vec<u32>>> {
        let fields = || self.columns.iter().zip(&layout.fields);
        let of_nulls = || fields().filter(|(column, field)| column.is_nullable() && !field.1);
        if of_nulls().next().is_none() {
            return Ok(None);
        }
        let is_complete = |row: usize| of_nulls().all(|(column, _)| !column.is_null(row));
        let complete = made(device, self.len, is_complete)?;
        let rows = (0..).zip(complete).filter(|(_, is_complete)| *is_complete);
        Ok(Some(collect(rows.map(|(row, _)| row))?))
    }
}
impl fmt::Debug for Keys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("columns", &self.columns)
            .field("nulls", &self.nulls)
            .finish_non_exhaustive()
    }
}

/// How rows become keys.
pub(super) struct Layout {
    /// Type of each column, and whether the key says that it is null.
    fields: Vec<(DataType, bool)>,
    /// Bits of all numbers, and of all nulls, if there are no strings.
    bits: Option<usize>,
}
impl Layout {
    /// Returns the layout of these keys, and of others that are compared with them.
    pub(super) fn of(keys: &Keys<'_>) -> Result<Layout> {
        let says_null = |column: &Column<'_>| keys.nulls == Nulls::Equal && column.is_nullable();
        let field = |column: &Column<'_>| (column.data_type(), says_null(column));
        let fields = collect(keys.columns.iter().map(field))?;
        let width = |(data_type, says_null): &(DataType, bool)| {
            data_type.size().map(|size| 8 * size + usize::from(*says_null))
        };
        Ok(Layout { bits: fields.iter().map(width).sum(), fields })
    }
    /// Errors: columns of another number or of other types.
    pub(super) fn check(&self, keys: &Keys<'_>) -> Result<()> {
        check_length("columns of a key", keys.columns.len(), "the other", self.fields.len())?;
        let pairs = keys.columns.iter().map(Column::data_type).zip(&self.fields);
        let other = pairs.enumerate().find(|(_, (found, field))| *found != field.0);
        let Some((i, (found, (expected, _)))) = other else { return Ok(()) };
        Err(Error::Setting {
            field: "type of a key",
            found: format!("{found} in column {i}"),
            expected: format!("{expected}, as on the other side"),
        })
    }
    /// Returns the keys of all rows; or those of some, and these rows: a row that has a null where
    /// keys do not say so has none. The columns have been checked.
    pub(super) fn row_keys<'a>(
        &self,
        device: &Device,
        keys: &Keys<'a>,
    ) -> Result<(RowKeys<'a>, Option<Vec<u32>>)> {
        let rows = keys.complete_rows(device, self)?;
        Ok((self.keys_of(device, keys, rows.as_deref())?, rows))
    }
    fn keys_of<'a>(
        &self,
        device: &Device,
        keys: &Keys<'a>,
        rows: Option<&[u32]>,
    ) -> Result<RowKeys<'a>> {
        if let ([column], [(_, false)], None) = (&keys.columns[..], &self.fields[..], rows) {
            return with_data!(
                column.data,
                values => one(device, values),
                bytes => Ok(RowKeys::Bytes(bytes.0))
            );
        }
        let of = Rows { columns: &keys.columns, fields: &self.fields, rows, len: keys.len };
        Ok(match self.bits {
            Some(..=32) => RowKeys::of_bits(of.packed::<u32>(device)?),
            Some(33..=64) => RowKeys::of_bits(of.packed::<u64>(device)?),
            Some(65..=128) => RowKeys::of_bits(of.packed::<u128>(device)?),
            _ => of.encoded(device)?,
        })
    }
}
/// Returns a column without nulls as keys.
fn one<'a, K: Key>(device: &Device, keys: &'a [K]) -> Result<RowKeys<'a>> {
    Ok(RowKeys::of_bits(key_bits::<K, BitsOf<K>>(device, keys)?))
}

/// Rows that become keys.
struct Rows<'r, 'a> {
    columns: &'r [Column<'a>],
    fields: &'r [(DataType, bool)],
    /// `None`: all.
    rows: Option<&'r [u32]>,
    /// Number of rows of the columns.
    len: usize,
}
/// Rows whose fields are packed together.
const BATCH: usize = 256;
/// Rows that a thread measures or encodes at a time.
const PIECE: usize = 1 << 12;
impl Rows<'_, '_> {
    /// Returns the number of keys.
    fn count(&self) -> usize {
        self.rows.map_or(self.len, <[u32]>::len)
    }
    /// Returns the row of key `i`.
    #[inline(always)]
    fn row(&self, i: usize) -> usize {
        self.rows.map_or(i, |rows| rows[i] as usize)
    }
    /// Returns each key as a number: the columns' numbers, one after the other, and the nulls.
    fn packed<B: Bits>(&self, device: &Device) -> Result<Cow<'static, [B]>> {
        filled(self.count(), |to| {
            device.fill(to, SMALL_PIECE, &|start, part| {
                for (batch, part) in part.chunks_mut(BATCH).enumerate() {
                    let mut numbers = [0; BATCH];
                    self.pack(start + batch * BATCH, &mut numbers[..part.len()]);
                    let numbers = numbers.into_iter().map(B::of_packed);
                    part.iter_mut().zip(numbers).for_each(|(to, number)| _ = to.write(number));
                }
                Ok(())
            })
        })
        .map(Cow::Owned)
    }
    /// Packs the keys from `first` on.
    fn pack(&self, first: usize, numbers: &mut [u128]) {
        let mut at = 0;
        for (column, &(data_type, says_null)) in self.columns.iter().zip(self.fields) {
            with_data!(
                column.data,
                values => self.pack_column(first, numbers, column, (values, at)),
                _bytes => ()
            );
            at += 8 * data_type.size().unwrap_or(0);
            if says_null {
                for (i, number) in (first..).zip(&mut *numbers) {
                    *number |= u128::from(column.is_null(self.row(i))) << at;
                }
                at += 1;
            }
        }
    }
    fn pack_column<K: Key>(
        &self,
        first: usize,
        numbers: &mut [u128],
        column: &Column<'_>,
        (values, at): (&[K], usize),
    ) {
        for (i, number) in (first..).zip(numbers) {
            let row = self.row(i);
            // What memory holds at a null does not count.
            if !column.is_null(row) {
                *number |= values[row].canonical().pack() << at;
            }
        }
    }
    /// Returns each key as bytes: a bit per column that may be null; the numbers; the strings, each
    /// but the last one behind its length.
    fn encoded<'a>(&self, device: &Device) -> Result<RowKeys<'a>> {
        let n = self.count();
        let is_string = |&(data_type, _): &(DataType, bool)| data_type.size().is_none();
        let nulls = self.fields.iter().filter(|(_, says_null)| *says_null).count().div_ceil(8);
        let numbers = self.fields.iter().filter_map(|(data_type, _)| data_type.size());
        let fixed = nulls + numbers.sum::<usize>();
        let strings = self.fields.iter().filter(|field| is_string(field)).count();
        let length = |i: usize| {
            self.strings_of(self.row(i)).enumerate().fold(fixed, |sum: usize, (k, string)| {
                let prefix = if k + 1 < strings { length_bytes(string.len()) } else { 0 };
                sum.saturating_add(string.len()).saturating_add(prefix)
            })
        };
        let mut offsets = repeat(0u64, n + 1)?;
        let pieces = offsets[1..].chunks_mut(PIECE);
        device.install(|| {
            parallel::each(pieces, |piece, lengths| {
                (piece * PIECE..).zip(lengths).for_each(|(i, to)| *to = length(i) as u64);
            })
        });
        let mut end = 0u64;
        for offset in &mut offsets[1..] {
            end = end.saturating_add(*offset);
            *offset = end;
        }
        let mut bytes = repeat(0u8, usize::try_from(end).unwrap_or(usize::MAX))?;
        let pieces = || (0..n).step_by(PIECE).map(|start| start..n.min(start + PIECE));
        let lengths = pieces().map(|keys| (offsets[keys.end] - offsets[keys.start]) as usize);
        let parts = parallel::split(&mut bytes, lengths).zip(pieces());
        device.install(|| {
            parallel::each(parts, |_, (mut bytes, keys)| {
                for i in keys {
                    let (key, rest) = bytes.split_at_mut((offsets[i + 1] - offsets[i]) as usize);
                    self.encode(self.row(i), key, (nulls, strings));
                    bytes = rest;
                }
            })
        });
        Ok(RowKeys::OwnBytes(offsets, bytes))
    }
    /// Returns the strings of a row; empty ones for nulls.
    fn strings_of(&self, row: usize) -> impl Iterator<Item = &[u8]> {
        self.columns.iter().filter_map(move |column| match column.data {
            Data::Bytes(bytes) if !column.is_null(row) => Some(bytes.get(row).unwrap_or(&[])),
            Data::Bytes(_) => Some(&[][..]),
            _ => None,
        })
    }
    /// Writes the key of a row, whose bytes are 0.
    fn encode(&self, row: usize, key: &mut [u8], (nulls, strings): (usize, usize)) {
        let (mut null, mut at) = (0, nulls);
        for (column, &(_, says_null)) in self.columns.iter().zip(self.fields) {
            let is_null = column.is_null(row);
            if says_null {
                key[null / 8] |= u8::from(is_null) << (null % 8);
                null += 1;
            }
            with_data!(
                column.data,
                values => {
                    let size = size_of_val(&values[row]);
                    if !is_null {
                        let packed = values[row].canonical().pack().to_le_bytes();
                        key[at..][..size].copy_from_slice(&packed[..size]);
                    }
                    at += size;
                },
                _bytes => ()
            );
        }
        for (k, string) in self.strings_of(row).enumerate() {
            if k + 1 < strings {
                at += write_length(string.len(), &mut key[at..]);
            }
            key[at..][..string.len()].copy_from_slice(string);
            at += string.len();
        }
    }
}
/// Returns the number of bytes of a length: seven bits in each.
fn length_bytes(length: usize) -> usize {
    (usize::BITS - (length | 1).leading_zeros()).div_ceil(7) as usize
}
/// Writes a length, and returns the number of its bytes.
fn write_length(mut length: usize, to: &mut [u8]) -> usize {
    let count = length_bytes(length);
    for (i, to) in to[..count].iter_mut().enumerate() {
        *to = length as u8 & 0x7F | if i + 1 < count { 0x80 } else { 0 };
        length >>= 7;
    }
    count
}

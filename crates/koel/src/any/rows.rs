//! Rows of several columns, or with nulls, as numbers or as bytes, and back.
use super::bytes::Bytes;
use super::column::{Column, ColumnVec, made};
use super::data_type::{Data, DataType, DataVec, Typed, with_data, with_type};
use super::numbers::Form;
use crate::device::Device;
use crate::device::memory::collect as filled;
use crate::error::Result;
use crate::fallible::repeat;
use crate::parallel::{self, SMALL_PIECE};
use crate::strings::StringVec;
use crate::types::{Bits, Key};
use crate::verbs::row_keys::RowKeys;
use std::borrow::Cow;

/// A column of keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) data_type: DataType,
    /// Whether keys say that it is null.
    pub(super) says_null: bool,
}
impl Field {
    /// Returns the bits of the number, 0 for strings.
    fn bits(self) -> usize {
        self.bytes() * 8
    }
    fn bytes(self) -> usize {
        self.data_type.size().unwrap_or(0)
    }
    fn is_string(self) -> bool {
        self.data_type.size().is_none()
    }
}

/// Where the parts of a key are.
///
/// In a number, a column has its bits, and one above them if it may be null. Bytes are a bit for
/// each column that may be null; the numbers; the strings, each but the last one behind its length.
#[derive(Clone, Copy)]
pub(super) struct Parts<'f> {
    pub(super) fields: &'f [Field],
    pub(super) form: Form,
}
impl Parts<'_> {
    /// Returns the lowest bit of column `i` in a number.
    pub(super) fn place(self, i: usize) -> u32 {
        let below = match self.form {
            Form::Packed => &self.fields[..i],
            Form::Ordered => &self.fields[i + 1..],
        };
        below.iter().map(|field| field.bits() as u32 + u32::from(field.says_null)).sum()
    }
    /// Returns the bit in a number that says that column `i` is null, if there is one.
    pub(super) fn null_place(self, i: usize) -> u32 {
        self.place(i) + self.fields[i].bits() as u32
    }
    /// Returns the bits of column `i` in a number.
    pub(super) fn number(self, key: u128, i: usize) -> u128 {
        key.unbounded_shr(self.place(i)) & u128::MAX >> (128 - self.fields[i].bits())
    }
    /// Returns whether column `i` of a number is null.
    pub(super) fn is_null(self, key: u128, i: usize) -> bool {
        self.fields[i].says_null && key.unbounded_shr(self.null_place(i)) & 1 != 0
    }
    /// Returns column `i` of keys that are numbers.
    pub(super) fn of_numbers(
        self,
        device: &Device,
        keys: &Column<'_>,
        key: impl Fn(usize) -> u128 + Sync,
        i: usize,
    ) -> Result<ColumnVec> {
        let is_null = |row: usize| keys.is_null(row) || self.is_null(key(row), i);
        let number = |row: usize| self.number(key(row), i);
        self.column(device, keys, (is_null, number), i)
    }
    /// Returns a column of numbers, null where `is_null` says so.
    fn column(
        self,
        device: &Device,
        keys: &Column<'_>,
        (is_null, number): (impl Fn(usize) -> bool + Sync, impl Fn(usize) -> u128 + Sync),
        i: usize,
    ) -> Result<ColumnVec> {
        let n = keys.len();
        let data = with_type!(
            self.fields[i].data_type,
            T => {
                let value = |row| match is_null(row) {
                    true => T::default(),
                    false => self.form.key::<T>(number(row)),
                };
                T::wrap_vec(made(device, n, value)?).0
            },
            bytes => DataVec::Bytes(StringVec::of(device, 0, |_| &[])?)
        );
        Ok(ColumnVec::new(data, self.valid(device, keys, is_null, i)?))
    }
    /// Returns which rows of column `i` have a value, if there may be others.
    fn valid(
        self,
        device: &Device,
        keys: &Column<'_>,
        is_null: impl Fn(usize) -> bool + Sync,
        i: usize,
    ) -> Result<Option<Vec<bool>>> {
        let has_nulls = keys.is_nullable() || self.fields[i].says_null;
        has_nulls.then(|| made(device, keys.len(), |row| !is_null(row))).transpose()
    }

    /// Returns the bytes that say which columns are null.
    fn null_bytes(self) -> usize {
        self.fields.iter().filter(|field| field.says_null).count().div_ceil(8)
    }
    /// Returns the bytes in front of the strings.
    fn fixed_bytes(self) -> usize {
        self.null_bytes() + self.fields.iter().map(|field| field.bytes()).sum::<usize>()
    }
    /// Returns the number of columns of strings.
    fn strings(self) -> usize {
        self.fields.iter().filter(|field| field.is_string()).count()
    }
    /// Returns column `i` of keys that are bytes. What a damaged key lacks is 0 or empty.
    pub(super) fn of_bytes(
        self,
        device: &Device,
        keys: &Column<'_>,
        bytes: Bytes<'_>,
        i: usize,
    ) -> Result<ColumnVec> {
        let (field, before) = (self.fields[i], &self.fields[..i]);
        let key = |row: usize| bytes.get(row).unwrap_or(&[]);
        let null = before.iter().filter(|field| field.says_null).count();
        let is_null = |row: usize| {
            let says_null =
                |key: &[u8]| key.get(null / 8).is_some_and(|b| b >> (null % 8) & 1 != 0);
            keys.is_null(row) || field.says_null && says_null(key(row))
        };
        if field.is_string() {
            let (k, fixed, strings) = (
                before.iter().filter(|field| field.is_string()).count(),
                self.fixed_bytes(),
                self.strings(),
            );
            let string = |row| match is_null(row) {
                true => &[],
                false => string_of(key(row).get(fixed..).unwrap_or(&[]), k, strings),
            };
            let data = DataVec::Bytes(StringVec::of(device, keys.len(), string)?);
            return Ok(ColumnVec::new(data, self.valid(device, keys, is_null, i)?));
        }
        let at = self.null_bytes() + before.iter().map(|field| field.bytes()).sum::<usize>();
        let number = |row: usize| {
            let mut number = [0; 16];
            let of = key(row).get(at..at + field.bytes()).unwrap_or(&[]);
            number.iter_mut().zip(of).for_each(|(to, byte)| *to = *byte);
            u128::from_le_bytes(number)
        };
        Parts { form: Form::Packed, ..self }.column(device, keys, (is_null, number), i)
    }
}
/// Returns string `k` of some, each but the last one behind its length.
fn string_of(mut bytes: &[u8], k: usize, strings: usize) -> &[u8] {
    for _ in 0..k {
        let (length, at) = read_length(bytes);
        bytes = bytes.get(at.saturating_add(length)..).unwrap_or(&[]);
    }
    if k + 1 == strings {
        return bytes;
    }
    let (length, at) = read_length(bytes);
    bytes.get(at..at.saturating_add(length)).unwrap_or(&[])
}

/// Rows that become keys.
pub(super) struct Rows<'r, 'a> {
    pub(super) columns: &'r [Column<'a>],
    pub(super) parts: Parts<'r>,
    /// `None`: all.
    pub(super) rows: Option<&'r [u32]>,
}
/// Rows whose columns are packed together.
const BATCH: usize = 256;
/// Rows that a thread measures or encodes at a time.
const PIECE: usize = 1 << 12;
impl Rows<'_, '_> {
    /// Returns the number of keys.
    fn count(&self) -> usize {
        self.rows.map_or(self.columns.first().map_or(0, Column::len), <[u32]>::len)
    }
    /// Returns the row of key `i`.
    #[inline(always)]
    fn row(&self, i: usize) -> usize {
        self.rows.map_or(i, |rows| rows[i] as usize)
    }
    /// Returns each key as a number.
    pub(super) fn packed<B: Bits>(&self, device: &Device) -> Result<Cow<'static, [B]>> {
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
        for (i, column) in self.columns.iter().enumerate() {
            with_data!(
                column.data,
                values => self.pack_column(first, numbers, column, (values, self.parts.place(i))),
                _bytes => ()
            );
            if self.parts.fields[i].says_null {
                let at = self.parts.null_place(i);
                for (key, number) in (first..).zip(&mut *numbers) {
                    *number |= u128::from(column.is_null(self.row(key))) << at;
                }
            }
        }
    }
    fn pack_column<K: Key>(
        &self,
        first: usize,
        numbers: &mut [u128],
        column: &Column<'_>,
        (values, at): (&[K], u32),
    ) {
        for (i, number) in (first..).zip(numbers) {
            let row = self.row(i);
            // What memory holds at a null does not count.
            if !column.is_null(row) {
                *number |= self.parts.form.number(values[row]) << at;
            }
        }
    }
    /// Returns each key as bytes.
    pub(super) fn encoded<'a>(&self, device: &Device) -> Result<RowKeys<'a>> {
        let (n, fixed) = (self.count(), self.parts.fixed_bytes());
        let (nulls, strings) = (self.parts.null_bytes(), self.parts.strings());
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
        for (column, field) in self.columns.iter().zip(self.parts.fields) {
            let is_null = column.is_null(row);
            if field.says_null {
                key[null / 8] |= u8::from(is_null) << (null % 8);
                null += 1;
            }
            with_data!(
                column.data,
                values => if !is_null {
                    let packed = Form::Packed.number(values[row]).to_le_bytes();
                    key[at..][..field.bytes()].copy_from_slice(&packed[..field.bytes()]);
                },
                _bytes => ()
            );
            at += field.bytes();
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
/// Returns a length, and the number of its bytes.
fn read_length(bytes: &[u8]) -> (usize, usize) {
    let (mut length, mut count) = (0usize, 0);
    for &byte in bytes {
        length |= usize::from(byte & 0x7F).unbounded_shl(7 * count);
        count += 1;
        if byte & 0x80 == 0 {
            break;
        }
    }
    (length, count as usize)
}

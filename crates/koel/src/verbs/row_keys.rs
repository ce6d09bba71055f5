//! Keys of rows as the engine of the verbs takes them: see [`RowKeys`].
use crate::device::Device;
use crate::duplicates::Duplicates;
use crate::error::Result;
use crate::fallible::collect;
use crate::map::{Map, MapOptions};
use crate::rows::{Hashed, Keys};
use crate::strings::StringMap;
use crate::types::Bits;
use std::borrow::Cow;

/// Keys of the rows of one or several columns, in host memory: equal keys have equal bits, or equal
/// bytes.
pub(crate) enum RowKeys<'a> {
    Bits32(Cow<'a, [u32]>),
    Bits64(Cow<'a, [u64]>),
    Bits128(Cow<'a, [u128]>),
    Bytes(ByteRows<'a>),
    /// Start of each row among the bytes, and the end of the last one.
    OwnBytes(Vec<u64>, Vec<u8>),
}
/// Evaluates an expression with keys of one type.
macro_rules! with_keys {
    ($row_keys:expr, $keys:ident => $what:expr) => {
        match $row_keys {
            RowKeys::Bits32(of) => {
                let $keys: &[u32] = of;
                $what
            }
            RowKeys::Bits64(of) => {
                let $keys: &[u64] = of;
                $what
            }
            RowKeys::Bits128(of) => {
                let $keys: &[u128] = of;
                $what
            }
            RowKeys::Bytes(of) => {
                let $keys: ByteRows<'_> = *of;
                $what
            }
            RowKeys::OwnBytes(offsets, bytes) => {
                let $keys = ByteRows::of(Bytes::Offsets64(offsets, bytes));
                $what
            }
        }
    };
}
pub(crate) use with_keys;
impl<'a> RowKeys<'a> {
    /// Returns bits as what they are.
    pub(crate) fn of_bits<B: Bits>(bits: Cow<'a, [B]>) -> RowKeys<'a> {
        fn cast<'a, A: Bits, B: Bits>(bits: Cow<'a, [A]>) -> Cow<'a, [B]> {
            match bits {
                Cow::Borrowed(bits) => Cow::Borrowed(bytemuck::cast_slice(bits)),
                Cow::Owned(bits) => Cow::Owned(bytemuck::cast_vec(bits)),
            }
        }
        match size_of::<B>() {
            4 => RowKeys::Bits32(cast(bits)),
            8 => RowKeys::Bits64(cast(bits)),
            _ => RowKeys::Bits128(cast(bits)),
        }
    }
    /// Returns keys of these bits. Panics if they are of others.
    pub(crate) fn bits<B: Bits>(&self) -> &[B] {
        match (self, size_of::<B>()) {
            (RowKeys::Bits32(bits), 4) => bytemuck::cast_slice(bits),
            (RowKeys::Bits64(bits), 8) => bytemuck::cast_slice(bits),
            (RowKeys::Bits128(bits), 16) => bytemuck::cast_slice(bits),
            _ => unreachable!("keys of other bits"),
        }
    }
    /// Returns keys of bytes, each where it is. Panics if they are bits. Errors: out of memory.
    #[inline]
    pub(crate) fn slices(&self) -> Result<Vec<&[u8]>> {
        let rows = match self {
            RowKeys::Bytes(rows) => *rows,
            RowKeys::OwnBytes(offsets, bytes) => ByteRows::of(Bytes::Offsets64(offsets, bytes)),
            _ => unreachable!("keys of bits"),
        };
        Ok(collect((0..rows.len).map(|i| rows.get(i).unwrap_or(&[])))?)
    }
}

/// Keys of any number of bytes, each where it is.
#[derive(Clone, Copy)]
pub(crate) struct ByteRows<'a> {
    of: Bytes<'a>,
    start: usize,
    len: usize,
}
/// Where bytes are.
#[derive(Clone, Copy)]
pub(crate) enum Bytes<'a> {
    Slices(&'a [&'a [u8]]),
    Strs(&'a [&'a str]),
    Strings(&'a [String]),
    OfStrings(&'a [&'a String]),
    Vecs(&'a [Vec<u8>]),
    /// Offsets, one more than there are keys, and the bytes.
    Offsets32(&'a [i32], &'a [u8]),
    Offsets64(&'a [u64], &'a [u8]),
}
impl<'a> Bytes<'a> {
    #[inline]
    fn len(self) -> usize {
        match self {
            Bytes::Slices(of) => of.len(),
            Bytes::Strs(of) => of.len(),
            Bytes::Strings(of) => of.len(),
            Bytes::OfStrings(of) => of.len(),
            Bytes::Vecs(of) => of.len(),
            Bytes::Offsets32(of, _) => of.len().saturating_sub(1),
            Bytes::Offsets64(of, _) => of.len().saturating_sub(1),
        }
    }
    #[inline(always)]
    fn get(self, i: usize) -> Option<&'a [u8]> {
        match self {
            Bytes::Slices(of) => of.get(i).copied(),
            Bytes::Strs(of) => of.get(i).map(|key| key.as_bytes()),
            Bytes::Strings(of) => of.get(i).map(String::as_bytes),
            Bytes::OfStrings(of) => of.get(i).map(|key| key.as_bytes()),
            Bytes::Vecs(of) => of.get(i).map(Vec::as_slice),
            Bytes::Offsets32(of, bytes) => {
                let &[start, end] = of.get(i..)?.first_chunk()?;
                bytes.get(start as usize..end as usize)
            }
            Bytes::Offsets64(of, bytes) => {
                let &[start, end] = of.get(i..)?.first_chunk()?;
                bytes.get(start as usize..end as usize)
            }
        }
    }
}
impl<'a> ByteRows<'a> {
    #[inline]
    pub(crate) fn of(bytes: Bytes<'a>) -> ByteRows<'a> {
        ByteRows { of: bytes, start: 0, len: bytes.len() }
    }
    /// Returns a key; `None` if there is none of this number.
    #[inline(always)]
    pub(crate) fn get(self, i: usize) -> Option<&'a [u8]> {
        if i < self.len { self.of.get(self.start + i) } else { None }
    }
}
impl Keys for ByteRows<'_> {
    type Key = [u8];
    #[inline(always)]
    fn len(&self) -> usize {
        self.len
    }
    #[inline(always)]
    fn key(&self, i: usize) -> Option<&[u8]> {
        self.get(i)
    }
    #[inline]
    fn part(&self, start: usize, len: usize) -> Self {
        debug_assert!(start + len <= self.len, "no such part");
        ByteRows { of: self.of, start: self.start + start, len }
    }
}

/// Keys that a map leads from.
pub(crate) trait Mapped: Hashed {
    /// Map from keys to numbers.
    type Map;
    /// Builds the map from keys to their numbers; of equal keys the first one counts.
    fn map_to(self, device: &Device, numbers: &[u32]) -> Result<Self::Map>;
    /// Builds the map of the keys of these rows only.
    fn map_of(self, device: &Device, rows: &[u32], numbers: &[u32]) -> Result<Self::Map>;
    /// Returns the number of each key.
    fn numbers_in(self, map: &Self::Map) -> Result<Vec<Option<u32>>>;
}
impl<B: Bits> Mapped for &[B] {
    type Map = Map<B, u32>;
    fn map_to(self, device: &Device, numbers: &[u32]) -> Result<Map<B, u32>> {
        let options = MapOptions::default().with_duplicates(Duplicates::KeepFirst);
        Map::build_with(device, options, self, numbers)
    }
    fn map_of(self, device: &Device, rows: &[u32], numbers: &[u32]) -> Result<Map<B, u32>> {
        bits_of(self, rows)?.map_to(device, numbers)
    }
    fn numbers_in(self, map: &Map<B, u32>) -> Result<Vec<Option<u32>>> {
        map.get(self)
    }
}
fn bits_of<B: Bits>(keys: &[B], rows: &[u32]) -> Result<Vec<B>> {
    Ok(collect(rows.iter().map(|&row| keys[row as usize]))?)
}
impl Mapped for ByteRows<'_> {
    type Map = StringMap<u32>;
    #[inline]
    fn map_to(self, device: &Device, numbers: &[u32]) -> Result<StringMap<u32>> {
        let options = MapOptions::default().with_duplicates(Duplicates::KeepFirst);
        StringMap::build_of(device, options, self, numbers)
    }
    #[inline]
    fn map_of(self, device: &Device, rows: &[u32], numbers: &[u32]) -> Result<StringMap<u32>> {
        ByteRows::of(Bytes::Slices(&bytes_of(self, rows)?)).map_to(device, numbers)
    }
    #[inline]
    fn numbers_in(self, map: &StringMap<u32>) -> Result<Vec<Option<u32>>> {
        map.get_of(self)
    }
}
#[inline]
fn bytes_of<'a>(keys: ByteRows<'a>, rows: &[u32]) -> Result<Vec<&'a [u8]>> {
    Ok(collect(rows.iter().map(|&row| keys.get(row as usize).unwrap_or(&[])))?)
}

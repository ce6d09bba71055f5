//! Columns of strings.
use crate::device::memory::prefetch;
use crate::device::{Apart, Buffer, Device, Stream, View, ViewMut};
use crate::duplicates::first_repeated;
use crate::error::{Error, Result, check_length, count32};
use crate::fallible::{collect, repeat};
use crate::file::reader::Mapping;
use crate::file::stored::Stored;
use crate::groups::numbers;
use crate::hash::folded;
use crate::parallel;
use crate::primitives::Scan;
use crate::rows::{Column, Gaps, Hashed, InRows, Kept, Keys, Own, Queries, RowTable, THREADS};
use koel_kernels::strings::build::{
    strings_check, strings_copy, strings_fingerprints, strings_lengths, strings_verify,
};
use koel_kernels::strings::column::StringsIn;
use koel_kernels::strings::find::{StringRowsRef, strings_rows};
use koel_kernels::strings::fingerprint::{StringFingerprint, last_piece};
use koel_simt::Buf;
use std::fmt;
use std::ops::Range;

/// Strings that a thread measures or copies at a time.
const PIECE: usize = 1 << 12;
/// Bytes per word.
const WORD: usize = 8;
/// Maximum number of bytes of a column: as many words as 32-bit indices address.
const MOST_BYTES: usize = u32::MAX as usize * WORD;
/// Letters of a key that a message shows.
const SHOWN: usize = 40;

/// A column of byte strings in a device's memory, one after the other, as Arrow's `LargeBinary` and
/// `LargeUtf8` have them.
///
/// String `i` has the bytes `offsets[i]..offsets[i + 1]`. The bytes are in words of eight, the
/// first one lowest.
///
/// ```
/// use koel::{Device, Strings};
///
/// let device = Device::cpu()?;
/// let strings = Strings::upload(&device, &["one", "", "three"])?;
/// assert_eq!((strings.len(), strings.offsets().download()?), (3, vec![0, 3, 3, 8]));
/// assert_eq!(strings.words().download()?, [u64::from_le_bytes(*b"onethree")]);
/// assert_eq!(strings.download()?.get(2), Some(&b"three"[..]));
/// # Ok::<(), koel::Error>(())
/// ```
pub struct Strings {
    /// One more than there are strings; checked, unless they are in a file that has not been
    /// verified. May have room for more.
    offsets: Stored<u64>,
    words: Stored<u64>,
    len: usize,
    /// Number of words in use.
    used: usize,
}
impl Strings {
    /// Returns a column without room for more. The offsets have been checked.
    #[inline]
    fn new(offsets: Buffer<u64>, words: Buffer<u64>) -> Strings {
        Strings::stored(Stored::Own(offsets), Stored::Own(words))
    }
    /// Returns a column of a table, which may be in a file.
    #[inline]
    pub(super) fn stored(offsets: Stored<u64>, words: Stored<u64>) -> Strings {
        let (len, used) = (offsets.len() - 1, words.len());
        Strings { offsets, words, len, used }
    }
    /// Returns the file that contains the column.
    #[inline]
    pub(super) fn file(&self) -> Option<&Mapping> {
        self.offsets.file()
    }
    /// Checks the file that contains the column, if there is one, unless already done. Errors:
    /// faults of the file.
    #[inline]
    pub(super) fn verify_once(&self) -> Result<()> {
        self.file().map_or(Ok(()), Mapping::verify_once)
    }
    /// Copies strings to a device.
    ///
    /// Errors: more than 2^32 - 1 strings or 2^35 - 8 bytes, out of memory.
    pub fn upload<S: AsRef<[u8]> + Sync>(device: &Device, strings: &[S]) -> Result<Strings> {
        Strings::of_keys(device, Slices(strings))
    }
    /// Copies keys to a device, likewise.
    pub(super) fn of_keys(device: &Device, keys: impl Keys<Key = [u8]>) -> Result<Strings> {
        Strings::of(device, keys.len(), |i| keys.key(i).unwrap_or(&[]))
    }
    /// Returns `n` strings.
    pub(super) fn of<'s>(
        device: &Device,
        n: usize,
        string: impl Fn(usize) -> &'s [u8] + Sync,
    ) -> Result<Strings> {
        let measured = Measured::of(device, n, &string)?;
        let (mut offsets, mut words) = (device.alloc(n + 1)?, device.alloc(measured.words())?);
        if let (Some(offsets), Some(words)) = (offsets.host_mut(), words.host_mut()) {
            measured.copy(device, string, offsets, words)?;
        } else {
            let of_host = measured.copied(device, string)?;
            offsets.view_mut().copy_from_host(&of_host.offsets)?;
            words.view_mut().copy_from_host(&of_host.words)?;
        }
        Ok(Strings::new(offsets, words))
    }
    /// Takes offsets and bytes that are on a device already. Reads the offsets once, to check them,
    /// and waits.
    ///
    /// ```
    /// let device = koel::Device::cpu()?;
    /// let offsets = device.upload(&[0, 3, 3, 8])?;
    /// let words = device.upload(&[u64::from_le_bytes(*b"onethree")])?;
    /// let strings = koel::Strings::from_parts(offsets, words)?;
    /// assert_eq!(strings.download()?.get(0), Some(&b"one"[..]));
    /// let offsets = device.upload(&[0, 9])?;
    /// let words = device.upload(&[7])?;
    /// assert!(koel::Strings::from_parts(offsets, words).is_err());
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: no offset, one that is greater than the next or than the number of bytes, buffers of
    /// two devices, more strings or bytes than [`upload`](Self::upload) takes.
    #[inline]
    pub fn from_parts(offsets: Buffer<u64>, words: Buffer<u64>) -> Result<Strings> {
        let _apart = Apart::begin();
        let wrong = |found: &str, expected: &str| {
            let (found, expected) = (found.into(), expected.into());
            Error::Setting { field: "offsets", found, expected }
        };
        let Some(n) = offsets.len().checked_sub(1) else {
            return Err(wrong("none", "one more than there are strings"));
        };
        let (n, bytes) = (count32("strings", n)?, count32("words of strings", words.len())?);
        let (device, bytes) = (offsets.device().clone(), bytes as u64 * WORD as u64);
        let stream = device.stream()?;
        words.view().arg("words", &stream)?;
        let count = match offsets.view().host().filter(|_| !device.runs_kernels()) {
            Some(offsets) => {
                let is_wrong = |pair: &&[u64; 2]| pair[0] > pair[1] || pair[1] > bytes;
                offsets.array_windows().filter(is_wrong).count()
            }
            None => {
                let mut wrong = device.alloc::<u32>(1)?;
                wrong.view_mut().fill_bytes(0, &stream)?;
                let (from, mut to) = (offsets.view().arg("offsets", &stream)?, wrong.view_mut());
                let (grid, to) = (n.div_ceil(THREADS), to.arg("wrong", &stream)?);
                // SAFETY: one more offset than strings, and a counter.
                unsafe { strings_check::launch(&stream, grid, n, bytes, from, to) }?;
                wrong.download()?[0] as usize
            }
        };
        if count > 0 {
            let found = format!("{count} that are not");
            return Err(wrong(&found, "ascending, and at most the number of bytes"));
        }
        Ok(Strings::new(offsets, words))
    }
    /// Returns the number of strings.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
    /// Returns whether there are no strings.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the device that holds the strings.
    #[inline]
    pub fn device(&self) -> &Device {
        self.offsets.device()
    }
    /// Returns the bytes of device memory that the column occupies.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.offsets.bytes() + self.words.bytes()
    }
    /// Returns the offsets: one more than there are strings.
    #[inline]
    pub fn offsets(&self) -> View<'_, u64> {
        self.offsets.view().first(self.len + 1)
    }
    /// Returns the bytes, eight in each word.
    #[inline]
    pub fn words(&self) -> View<'_, u64> {
        self.words.view().first(self.used)
    }
    /// Returns where the first string begins, and where the last one ends, in bytes. Waits for
    /// pending writes.
    #[inline]
    pub(super) fn bounds(&self) -> Result<Range<usize>> {
        let (mut first, mut last) = ([0], [0]);
        let offsets = self.offsets();
        offsets.slice(..1)?.copy_to_host(&mut first)?;
        offsets.slice(self.len..)?.copy_to_host(&mut last)?;
        Ok(first[0] as usize..last[0] as usize)
    }
    /// Copies the strings to host memory. Waits for pending writes.
    ///
    /// Errors: out of memory.
    #[inline]
    pub fn download(&self) -> Result<StringVec> {
        Ok(StringVec { offsets: self.offsets().download()?, words: self.words().download()? })
    }
    /// Copies the strings to another device, or to the same one, through host memory. Waits.
    #[inline]
    pub fn to_device(&self, device: &Device) -> Result<Strings> {
        self.verify_once()?;
        let StringVec { offsets, words } = self.download()?;
        Ok(Strings::new(device.upload(&offsets)?, device.upload(&words)?))
    }
    /// Returns the strings of these rows, in this order; empty ones for rows that there are not.
    /// Waits for their number of bytes.
    #[inline]
    pub(crate) fn select(&self, stream: &Stream, rows: View<'_, u32>) -> Result<Strings> {
        let _apart = Apart::begin();
        let (device, k) = (self.device(), rows.len());
        count32("rows", k)?;
        if let (Some(all), Some(rows)) = (StringsOnHost::of(self), rows.host())
            && !device.runs_kernels()
        {
            return Strings::of(device, k, |k| all.key(rows[k] as usize).unwrap_or(&[]));
        }
        let mut offsets = device.alloc(k + 1)?;
        let end = self.offsets_of(stream, rows, 0, offsets.view_mut())?;
        let mut words = device.alloc(end.div_ceil(WORD))?;
        self.copy_rows(stream, rows, offsets.view(), 0..end, words.view_mut())?;
        Ok(Strings::new(offsets, words))
    }
    /// Returns the strings of these rows in host memory: see [`select`](Self::select).
    #[inline]
    pub(super) fn rows(&self, rows: &[u32]) -> Result<StringVec> {
        let (staged, stream) = (self.device().stage32("ids", rows)?, self.device().stream()?);
        self.select(&stream, staged.view())?.download()
    }
    /// Returns the string of each row, if there is one.
    #[inline]
    pub(super) fn options(&self, rows: &[u32]) -> Result<Vec<Option<Vec<u8>>>> {
        let (strings, n) = (self.rows(rows)?, self.len());
        let own = |(&row, bytes): (&u32, &[u8])| {
            let copied = || collect(bytes.iter().copied());
            ((row as usize) < n).then(copied).transpose()
        };
        Ok(crate::fallible::try_collect(rows.iter().zip(strings.iter()).map(own))?)
    }
    /// Writes the offsets of the strings of these rows, one after the other from byte `first` on,
    /// by kernels. Waits. Returns the byte behind the last one.
    #[inline]
    fn offsets_of(
        &self,
        stream: &Stream,
        rows: View<'_, u32>,
        first: usize,
        mut offsets: ViewMut<'_, u64>,
    ) -> Result<usize> {
        let (device, k) = (stream.device(), rows.len());
        let (n, strings) = (count32("rows", k)?, self.len as u32);
        // An exclusive scan of the first byte and all lengths but the last.
        let mut lengths = device.alloc(k + 1)?;
        lengths.view_mut().slice(..1)?.copy_from_host(&[first as u64])?;
        let mut to = lengths.view_mut().slice(1..)?;
        let (from, of_rows) = (self.offsets().arg("strings", stream)?, rows.arg("rows", stream)?);
        let to = to.arg("lengths", stream)?;
        // SAFETY: `n` rows and lengths; one more offset than strings.
        unsafe {
            strings_lengths::launch(stream, n.div_ceil(THREADS), n, strings, of_rows, from, to)
        }?;
        let mut scan = Scan::new(device, k + 1)?;
        scan.inclusive(stream, lengths.view(), offsets.reborrow())?;
        let mut end = [0u64];
        offsets.view().slice(k..)?.copy_to_host(&mut end)?;
        // Rows may repeat.
        let end = usize::try_from(end[0]).unwrap_or(usize::MAX);
        if end > MOST_BYTES {
            return Err(Error::TooMany { what: "bytes of strings", n: end, max: MOST_BYTES });
        }
        Ok(end)
    }
    /// Copies the strings of these rows to their offsets, which are these bytes, by a kernel. The
    /// bytes before them stay.
    #[inline]
    fn copy_rows(
        &self,
        stream: &Stream,
        rows: View<'_, u32>,
        offsets: View<'_, u64>,
        bytes: Range<usize>,
        mut words: ViewMut<'_, u64>,
    ) -> Result<()> {
        let n = count32("rows", rows.len())?;
        let grid = (bytes.end.div_ceil(WORD) - bytes.start / WORD).div_ceil(THREADS as usize);
        let (from, rows) = (self.arg("strings", stream)?, rows.arg("rows", stream)?);
        let (offsets, to) = (offsets.arg("offsets", stream)?, words.arg("words", stream)?);
        // SAFETY: offsets of `n` strings whose rows are those whose lengths were added up, and as
        // many words as their bytes need.
        unsafe { strings_copy::launch(stream, grid as u32, n, rows, from, offsets, to) }
    }
    /// Makes room for `len` strings in `words` words, and keeps the strings of the column.
    #[inline]
    fn grow(&mut self, stream: &Stream, len: usize, words: usize) -> Result<()> {
        self.offsets.grow(stream, self.len + 1, len + 1)?;
        self.words.grow(stream, self.used, words)
    }
    /// Adds the strings of another column.
    #[inline]
    fn extend(&mut self, stream: &Stream, more: &Strings) -> Result<()> {
        let (device, before, k) = (stream.device(), self.len, more.len);
        if k == 0 {
            return Ok(());
        }
        self.verify_once()?;
        more.verify_once()?;
        let mut first = [0];
        self.offsets.view().slice(before..before + 1)?.copy_to_host(&mut first)?;
        let first = first[0] as usize;
        let end = if let (Some(all), false) = (StringsOnHost::of(more), device.runs_kernels()) {
            let end = first + (all.offsets[k] - all.offsets[0]) as usize;
            if end > MOST_BYTES {
                return Err(Error::TooMany { what: "bytes of strings", n: end, max: MOST_BYTES });
            }
            self.grow(stream, before + k, end.div_ceil(WORD))?;
            let mut offsets = self.offsets.reserve(device, before + k + 1)?.view_mut();
            let mut words = self.words.reserve(device, end.div_ceil(WORD))?.view_mut();
            let (offsets, words) = (offsets.elements("offsets")?, words.elements("words")?);
            let (bytes, mut at) = (bytemuck::cast_slice_mut::<_, u8>(words), first);
            for (i, offset) in offsets[before + 1..][..k].iter_mut().enumerate() {
                let string = all.key(i).unwrap_or(&[]);
                bytes[at..][..string.len()].copy_from_slice(string);
                at += string.len();
                *offset = at as u64;
            }
            bytes[at..at.next_multiple_of(WORD)].fill(0);
            at
        } else {
            let (rows, mut offsets) = (numbers(device, 0, k)?, device.alloc(k + 1)?);
            let end = more.offsets_of(stream, rows.view(), first, offsets.view_mut())?;
            self.grow(stream, before + k, end.div_ceil(WORD))?;
            let words = self.words.reserve(device, end.div_ceil(WORD))?.view_mut();
            more.copy_rows(stream, rows.view(), offsets.view(), first..end, words)?;
            let offsets_of_all = self.offsets.reserve(device, before + k + 1)?;
            let mut own = offsets_of_all.view_mut().slice(before..=before + k)?;
            own.copy_from(offsets.view(), stream)?;
            end
        };
        (self.len, self.used) = (before + k, end.div_ceil(WORD));
        Ok(())
    }
    /// Returns the column as a kernel argument. Errors: buffers of another device; faults of a file
    /// that contains it.
    #[inline]
    pub(super) fn arg(&self, name: &'static str, stream: &Stream) -> Result<StringsIn> {
        self.verify_once()?;
        let (offsets, words) = (self.offsets(), self.words());
        Ok(StringsIn { offsets: offsets.arg(name, stream)?, words: words.arg(name, stream)? })
    }
}
impl fmt::Debug for Strings {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Strings[{}] on {}", self.len(), self.device().name())
    }
}

/// Byte strings in host memory, one after the other.
///
/// ```
/// let device = koel::Device::cpu()?;
/// let strings = koel::Strings::upload(&device, &["b", "", "ab"])?.download()?;
/// assert_eq!(strings, ["b", "", "ab"]);
/// assert_eq!((strings.get_str(2), strings.get(3)), (Some("ab"), None));
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone)]
pub struct StringVec {
    /// One more than there are strings; checked.
    offsets: Vec<u64>,
    words: Vec<u64>,
}
impl StringVec {
    /// Returns the number of strings.
    #[inline]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }
    /// Returns whether there are no strings.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the bytes of string `i`; `None` if there are not as many.
    #[inline]
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        self.on_host().string(i)
    }
    /// Returns string `i` as text; `None` if there are not as many, or if it is not UTF-8.
    #[inline]
    pub fn get_str(&self, i: usize) -> Option<&str> {
        std::str::from_utf8(self.get(i)?).ok()
    }
    /// Returns the bytes of all strings.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.get(i).unwrap_or(&[]))
    }
    /// Returns `n` strings, copied in parallel. Errors: more than a column holds, out of memory.
    pub(crate) fn of<'s>(
        device: &Device,
        n: usize,
        string: impl Fn(usize) -> &'s [u8] + Sync,
    ) -> Result<StringVec> {
        Measured::of(device, n, &string)?.copied(device, string)
    }
    /// Returns the offsets and the bytes, which may be more than the last offset.
    #[inline]
    pub(crate) fn as_parts(&self) -> (&[u64], &[u8]) {
        (&self.offsets, bytemuck::cast_slice(&self.words))
    }
    #[inline]
    fn on_host(&self) -> StringsOnHost<'_> {
        let (offsets, bytes) = self.as_parts();
        StringsOnHost { offsets, bytes }
    }
}
impl PartialEq for StringVec {
    #[inline]
    fn eq(&self, other: &StringVec) -> bool {
        self.iter().eq(other.iter())
    }
}
impl Eq for StringVec {}
impl<S: AsRef<[u8]>> PartialEq<[S]> for StringVec {
    fn eq(&self, other: &[S]) -> bool {
        self.iter().eq(other.iter().map(AsRef::as_ref))
    }
}
impl<S: AsRef<[u8]>, const N: usize> PartialEq<[S; N]> for StringVec {
    fn eq(&self, other: &[S; N]) -> bool {
        *self == other[..]
    }
}
impl fmt::Debug for StringVec {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(String::from_utf8_lossy)).finish()
    }
}

/// Strings that have been measured, to be copied.
struct Measured {
    n: usize,
    /// Bytes of the strings of each piece.
    sums: Vec<usize>,
    total: usize,
}
impl Measured {
    /// Errors: more than a column holds, out of memory.
    fn of<'s>(
        device: &Device,
        n: usize,
        string: impl Fn(usize) -> &'s [u8] + Sync,
    ) -> Result<Measured> {
        count32("strings", n)?;
        let length = |i: usize| string(i).len();
        // The same bytes may be those of many strings.
        let sum = |_, part: Range<usize>| part.map(length).fold(0, usize::saturating_add);
        let sums = device.install(|| parallel::map(pieces(n), sum))?;
        let total = sums.iter().fold(0, |a: usize, &b| a.saturating_add(b));
        if total > MOST_BYTES {
            return Err(Error::TooMany { what: "bytes of strings", n: total, max: MOST_BYTES });
        }
        Ok(Measured { n, sums, total })
    }
    /// Returns the number of words.
    #[inline]
    fn words(&self) -> usize {
        self.total.div_ceil(WORD)
    }
    /// Returns the strings. Errors: out of memory.
    fn copied<'s>(
        &self,
        device: &Device,
        string: impl Fn(usize) -> &'s [u8] + Sync,
    ) -> Result<StringVec> {
        let (mut offsets, mut words) = (repeat(0, self.n + 1)?, repeat(0, self.words())?);
        self.copy(device, string, &mut offsets, &mut words)?;
        Ok(StringVec { offsets, words })
    }
    /// Copies the strings and writes their offsets. Errors: out of memory.
    fn copy<'s>(
        &self,
        device: &Device,
        string: impl Fn(usize) -> &'s [u8] + Sync,
        offsets: &mut [u64],
        words: &mut [u64],
    ) -> Result<()> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
        let mut start = 0;
        let starts = collect(self.sums.iter().map(|sum| (start, start += sum).0))?;
        let parts = parallel::split(&mut bytes[..self.total], self.sums.iter().copied());
        let parts = parts.zip(offsets[1..].chunks_mut(PIECE)).zip(pieces(self.n).zip(starts));
        device.install(|| {
            parallel::each(parts, |_, ((mut bytes, offsets), (strings, mut at))| {
                for (i, offset) in strings.zip(offsets) {
                    let from = string(i);
                    // A type may return other bytes now than when it was measured.
                    let (to, rest) = bytes.split_at_mut(from.len().min(bytes.len()));
                    to.copy_from_slice(&from[..to.len()]);
                    at += to.len();
                    (*offset, bytes) = (at as u64, rest);
                }
            })
        });
        Ok(())
    }
}
/// Returns the numbers of the strings that threads measure or copy together.
#[inline]
fn pieces(n: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
    (0..n).step_by(PIECE).map(move |start| start..n.min(start + PIECE))
}

/// Strings in host memory, as a column has them.
#[derive(Clone, Copy)]
pub(crate) struct StringsOnHost<'s> {
    offsets: &'s [u64],
    bytes: &'s [u8],
}
impl<'s> StringsOnHost<'s> {
    #[inline]
    pub(super) fn of(strings: &'s Strings) -> Option<StringsOnHost<'s>> {
        let bytes = bytemuck::cast_slice(strings.words().host()?);
        Some(StringsOnHost { offsets: strings.offsets().host()?, bytes })
    }
    #[inline(always)]
    fn string(self, i: usize) -> Option<&'s [u8]> {
        let &[start, end] = self.offsets.get(i..)?.first_chunk()?;
        self.bytes.get(start as usize..end as usize)
    }
}
impl Keys for StringsOnHost<'_> {
    type Key = [u8];
    #[inline(always)]
    fn len(&self) -> usize {
        self.offsets.len() - 1
    }
    #[inline(always)]
    fn key(&self, i: usize) -> Option<&[u8]> {
        self.string(i)
    }
    #[inline]
    fn part(&self, start: usize, len: usize) -> Self {
        StringsOnHost { offsets: &self.offsets[start..][..len + 1], ..*self }
    }
}
impl InRows for StringsOnHost<'_> {
    /// The offsets, then the bytes.
    const STEPS: usize = 2;
    #[inline(always)]
    fn prefetch(&self, i: usize, step: usize) {
        match step {
            0 => prefetch(self.offsets.as_ptr().wrapping_add(i)),
            _ => {
                if let Some(&start) = self.offsets.get(i) {
                    prefetch(self.bytes.as_ptr().wrapping_add(start as usize));
                }
            }
        }
    }
}

/// Strings in host memory, each where it is.
pub(super) struct Slices<'s, S>(pub &'s [S]);
impl<S> Clone for Slices<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S> Copy for Slices<'_, S> {}
impl<S: AsRef<[u8]> + Sync> Keys for Slices<'_, S> {
    type Key = [u8];
    #[inline(always)]
    fn len(&self) -> usize {
        self.0.len()
    }
    #[inline(always)]
    fn key(&self, i: usize) -> Option<&[u8]> {
        self.0.get(i).map(AsRef::as_ref)
    }
    fn part(&self, start: usize, len: usize) -> Self {
        Slices(&self.0[start..][..len])
    }
}

impl<K: Keys<Key = [u8]>> Queries for K {
    type Function = StringFingerprint;
    #[inline(always)]
    fn fingerprints(&self, function: StringFingerprint, to: &mut [u64]) {
        for (i, to) in to.iter_mut().enumerate() {
            *to = function.of(self.key(i).unwrap_or(&[]));
        }
    }
}
impl<K: Keys<Key = [u8]>> Hashed for K {
    type Own<'k>
        = &'k [u8]
    where
        K: 'k;
    #[inline(always)]
    fn copy<'k>(&'k self, start: usize, to: &mut [&'k [u8]]) {
        to.iter_mut().zip(start..).for_each(|(to, i)| *to = self.key(i).unwrap_or(&[]));
    }
}
impl Own for &[u8] {
    const IS_EXACT: bool = false;
    const IS_ORDERED: bool = false;
    #[inline(always)]
    fn any() -> Self {
        &[]
    }
    #[inline(always)]
    fn hash(self, seed: u64) -> u32 {
        let factors = [seed | 1, !seed | 1];
        let (words, rest) = self.as_chunks();
        let start = folded(self.len() as u64 ^ seed, factors[1]);
        let hash = words
            .iter()
            .fold(start, |hash, word| folded(hash ^ u64::from_le_bytes(*word), factors[0]));
        let last = if rest.is_empty() { 0 } else { last_piece(rest) };
        (folded(hash ^ last, factors[1]) >> 32) as u32
    }
    #[inline(always)]
    fn is(self, other: Self) -> bool {
        self == other
    }
    #[inline(always)]
    fn prefetch(keys: impl Iterator<Item = Self>) {
        keys.for_each(|key| prefetch(key.as_ptr()));
    }
}

impl Column for Strings {
    type View<'v> = &'v Strings;
    type Key = [u8];
    type Host<'v> = StringsOnHost<'v>;
    type Function = StringFingerprint;
    #[inline]
    fn function(draw: u64) -> StringFingerprint {
        StringFingerprint::new(draw)
    }
    /// A column knows its length.
    #[inline]
    fn view(&self, _: usize) -> &Strings {
        self
    }
    #[inline]
    fn bytes(&self) -> usize {
        self.bytes()
    }
    #[inline]
    fn count(keys: &Strings) -> usize {
        keys.len()
    }
    #[inline]
    fn check(keys: &Strings, stream: &Stream) -> Result<()> {
        keys.arg("keys", stream).map(|_| ())
    }
    #[inline]
    fn on_host<'v>(keys: Self::View<'v>) -> Option<Self::Host<'v>> {
        StringsOnHost::of(keys)
    }
    #[inline]
    unsafe fn launch_fingerprints(
        stream: &Stream,
        (n, first): (u32, u32),
        keys: &Strings,
        function: StringFingerprint,
        to: Buf<u64>,
        rows: Buf<u32>,
    ) -> Result<()> {
        let (grid, from) = (n.div_ceil(THREADS), keys.arg("keys", stream)?);
        // SAFETY: the caller's contract, for as many strings, whose offsets are checked.
        unsafe { strings_fingerprints::launch(stream, grid, n, first, function, from, to, rows) }
    }
    #[inline]
    unsafe fn launch_rows(
        stream: &Stream,
        n: u32,
        keys: &Strings,
        (fingerprint, table): (StringFingerprint, RowTable),
        queries: &Strings,
        to: Buf<u32>,
    ) -> Result<()> {
        let rows = StringRowsRef { fingerprint, table, keys: keys.arg("rows", stream)? };
        let (grid, queries) = (n.div_ceil(THREADS), queries.arg("keys", stream)?);
        // SAFETY: the caller's contract, for as many strings, whose offsets are checked.
        unsafe { strings_rows::launch(stream, grid, rows, n, queries, to) }
    }
    #[inline]
    unsafe fn launch_verify(
        stream: &Stream,
        n: u32,
        keys: &Strings,
        (fingerprint, table): (StringFingerprint, RowTable),
        kept: Buf<u8>,
        counts: Buf<u32>,
    ) -> Result<()> {
        let rows = StringRowsRef { fingerprint, table, keys: keys.arg("keys", stream)? };
        // SAFETY: the caller's contract, for as many strings, whose offsets are checked.
        unsafe { strings_verify::launch(stream, n.div_ceil(THREADS), rows, n, kept, counts) }
    }
    #[inline]
    fn keep(kept: &mut Kept<'_>, stream: &Stream, keys: &Strings) -> Result<Strings> {
        let (n, stayed) = kept.counts();
        check_length("keys", keys.len(), "the keys", n)?;
        if stayed == n {
            let copy = |from: View<'_, u64>| {
                let mut to = stream.device().alloc(from.len())?;
                to.view_mut().copy_from(from, stream)?;
                Result::Ok(to)
            };
            return Ok(Strings::new(copy(keys.offsets())?, copy(keys.words())?));
        }
        let rows = kept.rows(stream)?;
        keys.select(stream, rows.view())
    }
    #[inline]
    fn select(keys: &Strings, stream: &Stream, rows: View<'_, u32>) -> Result<Strings> {
        keys.select(stream, rows)
    }
    #[inline]
    fn append(&mut self, stream: &Stream, len: usize, more: &Strings) -> Result<()> {
        self.truncate(len);
        self.extend(stream, more)
    }
    #[inline]
    fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
    /// Copies the column, without the strings that are gone.
    #[inline]
    fn fill_gaps(&mut self, stream: &Stream, gaps: &Gaps, _: &Strings) -> Result<()> {
        if gaps.is_any {
            let mut rows = numbers(stream.device(), 0, gaps.len)?;
            gaps.fill(stream, gaps.last.view(), rows.view_mut())?;
            *self = self.select(stream, rows.view())?;
        }
        Ok(())
    }
    #[inline]
    fn copied(&self, _: usize, device: &Device) -> Result<Strings> {
        self.to_device(device)
    }
    #[inline]
    fn first_duplicate(keys: &Strings) -> Result<Error> {
        let keys = keys.download()?;
        let (key, first, second) = first_repeated(keys.iter())?.unwrap_or_default();
        Ok(Error::DuplicateString { key: shown(key), first, second })
    }
}
/// Returns what messages show of a key.
#[inline]
pub(super) fn shown(key: &[u8]) -> String {
    let mut shown = String::from_utf8_lossy(&key[..key.len().min(4 * SHOWN)]).into_owned();
    if let Some((end, _)) = shown.char_indices().nth(SHOWN) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

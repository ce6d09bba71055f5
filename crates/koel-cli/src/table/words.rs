//! Streams of little-endian words, raw or as NumPy arrays.
use super::column::Column;
use super::faults::{cannot_be_read, in_file, out_of_memory};
use crate::failure::Outcome;
use koel::file::Width;
use koel_formats::npy::{self, Element};
use std::io::Read;
use std::path::Path;

/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// A stream of little-endian words.
pub(super) struct Words<R> {
    from: R,
    pub width: Width,
    /// Whether words are signed; negative numbers are then an error.
    signed: bool,
    /// Number of words, if an array's header tells it.
    len: Option<u64>,
    /// Numbers read so far; `left` counts the remaining ones, if they are known.
    pub done: u64,
    pub left: Option<u64>,
    piece: Vec<u8>,
}
impl<R: Read> Words<R> {
    /// Opens raw words, `bytes` of them if that is known.
    pub(super) fn raw(file: &Path, from: R, bytes: Option<u64>, width: Width) -> Outcome<Words<R>> {
        let each = u64::from(width.bits() / 8);
        let bytes = bytes.unwrap_or(0);
        check_whole(file, bytes, each)?;
        let left = Some(bytes / each).filter(|&left| left > 0);
        Words { from, width, signed: false, len: None, done: 0, left, piece: vec![] }.ready(file)
    }
    /// Opens a one-dimensional NumPy array.
    pub(super) fn array(file: &Path, mut from: R, bytes: Option<u64>) -> Outcome<Words<R>> {
        let header = npy::read_header(&mut from, bytes).map_err(|e| in_file(file, e))?;
        let width = if header.element.bytes() == 4 { Width::U32 } else { Width::U64 };
        let signed = matches!(header.element, Element::I32 | Element::I64);
        let len = Some(header.len);
        Words { from, width, signed, len, done: 0, left: len, piece: vec![] }.ready(file)
    }
    fn ready(mut self, file: &Path) -> Outcome<Words<R>> {
        self.piece = with_capacity(file, PIECE as u64)?;
        self.piece.resize(PIECE, 0);
        Ok(self)
    }
    /// Appends at most `most` numbers to `column`, which must have this width. Returns their
    /// number, 0 at the end.
    ///
    /// Errors: a number is negative; the stream ends within a word or is not as long as the array.
    pub(super) fn read(&mut self, file: &Path, column: &mut Column, most: usize) -> Outcome<usize> {
        let each = self.width.bits() as usize / 8;
        let mut read = 0;
        while read < most {
            let wanted = (most - read).min(PIECE / each);
            let wanted = match self.len {
                Some(len) => (len - self.done).min(wanted as u64) as usize,
                None => wanted,
            };
            // One byte more tells whether the array is longer than its header.
            let is_end = wanted == 0;
            let piece = &mut self.piece[..(wanted * each).max(1)];
            let bytes = npy::fill(&mut self.from, piece).map_err(|e| cannot_be_read(file, e))?;
            if is_end && bytes > 0 {
                let len = self.done;
                return Err(in_file(file, format_args!("has more bytes than its {len} elements")));
            }
            if let Some(len) = self.len.filter(|_| bytes < wanted * each) {
                let found = self.done + (bytes / each) as u64;
                return Err(in_file(file, format_args!("truncated: {found} of {len} elements")));
            }
            let whole = self.done * each as u64 + bytes as u64;
            check_whole(file, whole, each as u64)?;
            if bytes == 0 {
                break;
            }
            let piece = &self.piece[..bytes];
            let negative = match column {
                Column::U32(column) => {
                    let words = append(file, column, piece, u32::from_le_bytes)?;
                    let negative = |(i, &n)| Some((i, i64::from(n as i32))).filter(|(_, n)| *n < 0);
                    if self.signed { words.iter().enumerate().find_map(negative) } else { None }
                }
                Column::U64(column) => {
                    let words = append(file, column, piece, u64::from_le_bytes)?;
                    let negative = |(i, &n)| Some((i, n as i64)).filter(|(_, n)| *n < 0);
                    if self.signed { words.iter().enumerate().find_map(negative) } else { None }
                }
                Column::U128(column) => {
                    append(file, column, piece, u128::from_le_bytes)?;
                    None
                }
                Column::Strings(..) => None,
            };
            if let Some((i, n)) = negative {
                let i = self.done + i as u64;
                return Err(in_file(
                    file,
                    format_args!("element {i} is {n}, expected no negative number"),
                ));
            }
            let numbers = bytes / each;
            (self.done, read) = (self.done + numbers as u64, read + numbers);
            self.left = self.left.map(|left| left.saturating_sub(numbers as u64));
        }
        Ok(read)
    }
}
/// Appends the words of `piece`. Returns them. Errors: out of memory.
fn append<'a, T: Copy, const N: usize>(
    file: &Path,
    column: &'a mut Vec<T>,
    piece: &[u8],
    word: impl Fn([u8; N]) -> T,
) -> Outcome<&'a [T]> {
    let (before, words) = (column.len(), piece.as_chunks::<N>().0);
    column
        .try_reserve(words.len())
        .map_err(|_| out_of_memory(file, format_args!("{} numbers", before + words.len())))?;
    column.extend(words.iter().map(|&bytes| word(bytes)));
    Ok(&column[before..])
}
/// Checks that `bytes` are words of `each` bytes.
fn check_whole(file: &Path, bytes: u64, each: u64) -> Outcome {
    if bytes.is_multiple_of(each) {
        return Ok(());
    }
    let (rest, whole) = (bytes % each, bytes / each * each);
    let fault = format_args!(
        "{bytes} bytes: expected a multiple of {each}, the last {rest} at byte {whole} are \
         incomplete"
    );
    Err(in_file(file, fault))
}
/// Returns an empty vector with capacity for `n` numbers. Errors: out of memory.
pub(super) fn with_capacity<T>(file: &Path, n: u64) -> Outcome<Vec<T>> {
    let mut numbers = Vec::new();
    match usize::try_from(n).map(|n| numbers.try_reserve_exact(n)) {
        Ok(Ok(())) => Ok(numbers),
        _ => Err(out_of_memory(file, format_args!("{n} numbers"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    #[test]
    fn words_come_in_pieces() {
        let numbers = (0..600_000u32).map(|i| i.wrapping_mul(0x9E37_79B9)).collect::<Vec<_>>();
        let bytes = numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
        for most in [1000, 299_999, usize::MAX] {
            let mut words =
                Words::raw(Path::new("k.u32"), &bytes[..], Some(bytes.len() as u64), Width::U32)
                    .unwrap();
            let mut column = Column::U32(vec![]);
            while words.read(Path::new("k.u32"), &mut column, most).unwrap() > 0 {}
            assert!(column == Column::U32(numbers.clone()));
        }
        // A negative number in a later piece is reported at its position in the file.
        let mut bytes = npy::header("'<i8'", 400_000);
        bytes.extend((0..400_000i64).flat_map(|i| if i == 300_000 { -7 } else { i }.to_le_bytes()));
        let file = Path::new("k.npy");
        let mut words = Words::array(file, &bytes[..], Some(bytes.len() as u64)).unwrap();
        let mut column = Column::U64(vec![]);
        assert_eq!(words.read(file, &mut column, 250_000).unwrap(), 250_000);
        let error = words.read(file, &mut column, 250_000).unwrap_err();
        assert!(matches!(error, Failure::Usage(m)
                if m == "k.npy: element 300000 is -7, expected no negative number"));
    }
}

//! Columns of byte strings as kernels see them.
use super::fingerprint::{PIECE, StringFingerprint};
use koel_simt::In;

/// Byte strings one after the other: a kernel argument.
///
/// String `i` is in bytes `offsets[i]..offsets[i + 1]`, of which `words` holds eight each, the
/// first one lowest. Offsets do not fall, and the last one is at most eight times the number of
/// words.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct StringsIn {
    /// One more than there are strings.
    pub offsets: In<u64>,
    /// The bytes.
    pub words: In<u64>,
}
impl StringsIn {
    /// Returns the first byte of a string, and the byte behind it.
    #[inline(always)]
    #[track_caller]
    pub(super) fn range(&self, i: u32) -> (u64, u64) {
        (self.offsets.get(i), self.offsets.get(i as u64 + 1))
    }
    /// Returns `count` bytes from byte `at` on, one to eight, as a number.
    #[inline(always)]
    #[track_caller]
    pub(super) fn bytes(&self, at: u64, count: u32) -> u64 {
        let (word, first) = (at / 8, (at % 8) as u32);
        let mut bytes = self.words.get(word) >> (8 * first);
        if first + count > 8 {
            bytes |= self.words.get(word + 1) << (64 - 8 * first);
        }
        bytes & (!0 >> (64 - 8 * count))
    }
    /// Returns the fingerprint of a string.
    #[inline(always)]
    #[track_caller]
    pub(super) fn fingerprint(&self, function: &StringFingerprint, i: u32) -> u64 {
        let (start, end) = self.range(i);
        let (mut values, mut at) = ([0; 2], start);
        while at < end {
            let count = at_most(PIECE, end - at);
            function.add(&mut values, self.bytes(at, count));
            at += count as u64;
        }
        function.finish(values, end - start)
    }
    /// Returns whether a string is equal to one of another column.
    #[inline(always)]
    #[track_caller]
    pub(super) fn is_equal(&self, i: u32, other: &StringsIn, j: u32) -> bool {
        let ((mut at, end), (mut there, there_end)) = (self.range(i), other.range(j));
        if end - at != there_end - there {
            return false;
        }
        while at < end {
            let count = at_most(8, end - at);
            if self.bytes(at, count) != other.bytes(there, count) {
                return false;
            }
            (at, there) = (at + count as u64, there + count as u64);
        }
        true
    }
}
/// Returns the number, or `most` if it is greater.
#[inline(always)]
pub(super) fn at_most(most: u32, number: u64) -> u32 {
    if number < most as u64 { number as u32 } else { most }
}

#[cfg(test)]
mod tests {
    use super::*;
    use koel_simt::Arg;

    /// Strings and their column, behind a few other bytes.
    fn column(strings: &[Vec<u8>], before: usize) -> (Vec<u64>, Vec<u64>) {
        let (mut offsets, mut bytes) = (vec![before as u64], vec![0xEE; before]);
        for string in strings {
            bytes.extend(string);
            offsets.push(bytes.len() as u64);
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0xEE);
        let words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        (offsets, words.collect())
    }

    #[test]
    fn strings_of_two_columns_are_compared_and_hashed() {
        let string = |n: usize| (0..n).map(|i| (7 * i + 1) as u8).collect::<Vec<u8>>();
        let mut strings = vec![];
        for n in (0..20).chain([31, 32, 33]) {
            strings.push(string(n));
            for at in 0..n {
                let mut other = string(n);
                other[at] ^= 0x10;
                strings.push(other);
            }
        }
        let function = StringFingerprint::new(5);
        for before in [0, 3, 8] {
            let [(a, of_a), (b, of_b)] = [column(&strings, 0), column(&strings, before)];
            let column =
                |offsets, words| StringsIn { offsets: In::new(offsets), words: In::new(words) };
            // SAFETY: host memory, which outlives both and does not change.
            let (a, b) = unsafe { (column(&a, &of_a).native(), column(&b, &of_b).native()) };
            for (i, own) in strings.iter().enumerate() {
                for (j, other) in strings.iter().enumerate() {
                    let is_equal = a.is_equal(i as u32, &b, j as u32);
                    assert_eq!(is_equal, own == other, "{own:?}, {other:?}");
                }
                assert_eq!(b.fingerprint(&function, i as u32), function.of(own), "{own:?}");
            }
        }
    }
}

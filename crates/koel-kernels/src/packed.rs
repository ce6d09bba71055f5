//! Keys and values in memory as the bits that tables store, and back.
//!
//! Bits have 4, 8 or 16 bytes. Elements of fewer bytes are filled up with zeros. Each consists of
//! one number or several, which can be changed on the way: floats become canonical (-0.0 as 0.0,
//! every NaN as one), or the bits become a number that compares as the elements do.
use crate::fold::Form;
use koel_simt::{Arg, Buf, In, Thread, Word, kernel, unroll};

const THREADS: u32 = 256;
/// Elements per thread: enough loads under way.
const ITEMS: usize = 4;
/// Elements per block of all kernels here.
pub const TILE: u32 = THREADS * ITEMS as u32;

/// What the bytes of elements mean, and what becomes of them: a kernel argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Arg)]
#[repr(C)]
pub struct Packing {
    /// Bytes per element, up to those of the bits.
    pub size: u32,
    /// Bytes per number in an element: 1, 2, 4, 8 or 16.
    pub number: u32,
    /// Numbers per element.
    pub count: u32,
    /// Sum of the [changes](change).
    pub changes: u32,
}
/// What becomes of each number.
pub mod change {
    /// Floats of 4 or 8 bytes become canonical.
    pub const CANONICAL: u32 = 1;
    /// Numbers with a sign become numbers without that compare as they do.
    pub const SIGNED: u32 = 2;
    /// The same for floats.
    pub const FLOATS: u32 = 4;
    /// The first number becomes the highest.
    pub const REVERSED: u32 = 8;
}

/// Bits of 4, 8 or 16 bytes.
pub trait Packed: Word {
    /// Returns bits of two halves. Ignores those that do not fit.
    fn of_halves(halves: [u64; 2]) -> Self;
    /// Returns the low and the high half.
    fn halves(self) -> [u64; 2];
}
macro_rules! packed {
    ($($bits:ty)+) => {
        $(impl Packed for $bits {
            #[inline(always)]
            fn of_halves(halves: [u64; 2]) -> $bits {
                halves[0] as $bits
            }
            #[inline(always)]
            fn halves(self) -> [u64; 2] {
                [self.into(), 0]
            }
        })+
    };
}
packed! { u32 u64 }
impl Packed for u128 {
    #[inline(always)]
    fn of_halves([low, high]: [u64; 2]) -> u128 {
        (high as u128) << 64 | low as u128
    }
    #[inline(always)]
    fn halves(self) -> [u64; 2] {
        [self as u64, (self >> 64) as u64]
    }
}

/// Returns the canonical form of a float of 32 bits.
#[inline(always)]
fn canonical32(bits: u32) -> u32 {
    match bits & 0x7FFF_FFFF {
        0 => 0,
        0x7F80_0001.. => 0x7FC0_0000,
        _ => bits,
    }
}
/// Returns the canonical form of a float of 64 bits.
#[inline(always)]
fn canonical64(bits: u64) -> u64 {
    match bits & !(1 << 63) {
        0 => 0,
        0x7FF0_0000_0000_0001.. => 0x7FF8_0000_0000_0000,
        _ => bits,
    }
}
impl Packing {
    const fn has(self, change: u32) -> bool {
        self.changes & change != 0
    }
    /// Returns how numbers of up to 8 bytes are ordered.
    #[inline(always)]
    fn form(self) -> Form {
        match (self.has(change::SIGNED), self.has(change::FLOATS)) {
            (true, _) => Form::signed(8 * self.number),
            (_, true) => Form::floats(8 * self.number),
            _ => Form::UNSIGNED,
        }
    }
    #[inline(always)]
    fn changed(self, number: u64) -> u64 {
        let number = match (self.has(change::CANONICAL), self.number) {
            (false, _) => number,
            (true, 4) => canonical32(number as u32) as u64,
            (true, _) => canonical64(number),
        };
        self.form().ordered(number)
    }
    /// Changes the numbers of an element, whose bits have these halves, or `BACK` again. What is
    /// canonical stays so.
    #[inline(always)]
    fn all<const BACK: bool>(self, halves: [u64; 2]) -> [u64; 2] {
        if self.changes == 0 {
            return halves;
        }
        if self.number == 16 {
            return [halves[0], halves[1] ^ ((self.has(change::SIGNED) as u64) << 63)];
        }
        let (bits, count) = (8 * self.number, self.count);
        let (mut to, mut i) = ([0; 2], 0);
        while i < count {
            let other = if self.has(change::REVERSED) { count - 1 - i } else { i };
            let (from, at) = if BACK { (other * bits, i * bits) } else { (i * bits, other * bits) };
            // Halves by constant index, so that they stay in registers.
            let half = if from < 64 { halves[0] } else { halves[1] };
            let number = half >> (from % 64) & u64::MAX >> (64 - bits);
            let number = if BACK { self.form().unordered(number) } else { self.changed(number) };
            let number = number << (at % 64);
            to[0] |= if at < 64 { number } else { 0 };
            to[1] |= if at < 64 { 0 } else { number };
            i += 1;
        }
        to
    }
}

/// Returns the elements of a thread, one per round: neighbours have neighbouring elements.
#[inline(always)]
fn at(t: Thread, j: usize) -> u32 {
    t.block() * TILE + j as u32 * THREADS + t.id()
}
/// Loads the bits of a thread's elements, all at a time.
#[inline(always)]
fn loaded<B: Packed>(t: Thread, n: u32, from: In<B>) -> [B; ITEMS] {
    let mut all = [B::default(); ITEMS];
    unroll::<ITEMS>(|j| {
        if at(t, j) < n {
            all[j] = from.get_stream(at(t, j));
        }
    });
    all
}
/// Sets `to[i]` to the bits of element `i` of an array of bytes. One block per [`TILE`].
#[kernel(image = PRIMITIVES, threads = 256, for B in [u32, u64, u128])]
pub fn widen<B: Packed>(t: Thread, n: u32, packing: Packing, bytes: In<u8>, to: Buf<B>) {
    let mut all = [[0; 2]; ITEMS];
    unroll::<ITEMS>(|j| {
        if at(t, j) < n {
            let start = at(t, j) as usize * packing.size as usize;
            // As many rounds for all sizes, so that no load waits for another.
            unroll::<16>(|k| {
                if k < size_of::<B>() && (k as u32) < packing.size {
                    all[j][k / 8] |= (bytes.get(start + k) as u64) << (k % 8 * 8);
                }
            });
        }
    });
    unroll::<ITEMS>(|j| {
        if at(t, j) < n {
            to.store(at(t, j), B::of_halves(packing.all::<false>(all[j])));
        }
    });
}
/// Does the same for elements that have as many bytes as their bits.
#[kernel(image = PRIMITIVES, threads = 256, for B in [u32, u64, u128])]
pub fn convert<B: Packed>(t: Thread, n: u32, packing: Packing, from: In<B>, to: Buf<B>) {
    let all = loaded(t, n, from);
    unroll::<ITEMS>(|j| {
        if at(t, j) < n {
            to.store(at(t, j), B::of_halves(packing.all::<false>(all[j].halves())));
        }
    });
}
/// Writes the elements whose bits these are, with the changes undone. One block per [`TILE`].
#[kernel(image = PRIMITIVES, threads = 256, for B in [u32, u64, u128])]
pub fn narrow<B: Packed>(t: Thread, n: u32, packing: Packing, from: In<B>, bytes: Buf<u8>) {
    let all = loaded(t, n, from);
    unroll::<ITEMS>(|j| {
        if at(t, j) < n {
            let start = at(t, j) as usize * packing.size as usize;
            let halves = packing.all::<true>(all[j].halves());
            unroll::<16>(|k| {
                if k < size_of::<B>() && (k as u32) < packing.size {
                    bytes.store(start + k, (halves[k / 8] >> (k % 8 * 8)) as u8);
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elements of several numbers, in every order.
    #[test]
    fn changes_can_be_undone() {
        use change::*;
        let halves = [0x8123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210];
        for (size, number) in [(16, 1), (16, 2), (12, 4), (16, 8), (6, 2), (3, 1), (8, 8), (16, 16)]
        {
            let kept = |halves: [u64; 2]| {
                (halves[0] as u128 | (halves[1] as u128) << 64) & u128::MAX >> (128 - 8 * size)
            };
            for changes in [0, REVERSED, SIGNED, SIGNED | REVERSED, FLOATS, FLOATS | REVERSED] {
                let packing = Packing { size, number, count: size / number, changes };
                let back = packing.all::<true>(packing.all::<false>(halves));
                assert_eq!(kept(back), kept(halves), "{packing:?}");
            }
        }
        let reversed = Packing { size: 6, number: 2, count: 3, changes: REVERSED };
        assert_eq!(reversed.all::<false>([0x3333_2222_1111, 0]), [0x1111_2222_3333, 0]);
    }
    #[test]
    fn floats_are_canonical_as_on_the_host() {
        let words = [0, 1, 0x7F80_0000, 0x7F80_0001, 0x7FC0_0000, 0x7FFF_FFFF, 0x3F80_0000];
        for word in words.into_iter().flat_map(|word| [word, word | 1 << 31]) {
            let float = f32::from_bits(word);
            let expected = if float.is_nan() { 0x7FC0_0000 } else { (float + 0.0).to_bits() };
            assert_eq!(canonical32(word), expected, "{word:x}");
            for low in [0, 1, u32::MAX] {
                let word = (word as u64) << 32 | low as u64;
                let float = f64::from_bits(word);
                let expected = if float.is_nan() { 0x7FF8 << 48 } else { (float + 0.0).to_bits() };
                assert_eq!(canonical64(word), expected, "{word:x}");
            }
        }
    }
}

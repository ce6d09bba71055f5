//! Widths of packed types, as types: the width of a tuple is the sum of those of its fields.
use super::Bits;

mod sealed {
    pub trait Sealed {}
    impl<const N: usize> Sealed for super::Bytes<N> {}
}

/// A width of `N` bytes.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<const N: usize>;

/// Width of a packed type: [`Bytes`] of 1 to 16. The trait is sealed.
pub trait Width: sealed::Sealed {
    /// Bits that are stored.
    type Bits: Bits;
    /// Number of bytes.
    const BYTES: u32;
}
/// Widths that can be added: their sum is at most 16 bytes.
#[diagnostic::on_unimplemented(
    message = "these fields have more than 16 bytes",
    label = "more than 16 bytes",
    note = "keys and values have at most 16 bytes, packed; `koel::strings` has tables for keys of \
            any number of bytes"
)]
pub trait Plus<W: Width>: Width {
    /// The sum.
    type Sum: Width;
}
/// Widths that can be multiplied by `N`: the product is at most 16 bytes.
#[diagnostic::on_unimplemented(
    message = "an array of {N} such elements has more than 16 bytes",
    label = "more than 16 bytes",
    note = "keys and values have at most 16 bytes, packed; `koel::strings` has tables for keys of \
            any number of bytes"
)]
pub trait Times<const N: usize>: Width {
    /// The product.
    type Product: Width;
}

macro_rules! widths {
    ($($bits:ty: $($n:literal)+;)+) => {
        $($(impl Width for Bytes<$n> {
            type Bits = $bits;
            const BYTES: u32 = $n;
        })+)+
    };
}
widths! { u32: 1 2 3 4; u64: 5 6 7 8; u128: 9 10 11 12 13 14 15 16; }

macro_rules! sums {
    ($($a:literal: $($b:literal)+;)+) => {
        $($(impl Plus<Bytes<$b>> for Bytes<$a> {
            type Sum = Bytes<{ $a + $b }>;
        })+)+
    };
}
sums! {
    1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15;
    2: 1 2 3 4 5 6 7 8 9 10 11 12 13 14;
    3: 1 2 3 4 5 6 7 8 9 10 11 12 13;
    4: 1 2 3 4 5 6 7 8 9 10 11 12;
    5: 1 2 3 4 5 6 7 8 9 10 11;
    6: 1 2 3 4 5 6 7 8 9 10;
    7: 1 2 3 4 5 6 7 8 9;
    8: 1 2 3 4 5 6 7 8;
    9: 1 2 3 4 5 6 7;
    10: 1 2 3 4 5 6;
    11: 1 2 3 4 5;
    12: 1 2 3 4;
    13: 1 2 3;
    14: 1 2;
    15: 1;
}

macro_rules! products {
    ($($a:literal: $($n:literal)+;)+) => {
        $($(impl Times<$n> for Bytes<$a> {
            type Product = Bytes<{ $a * $n }>;
        })+)+
    };
}
products! {
    1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16;
    2: 1 2 3 4 5 6 7 8;
    3: 1 2 3 4 5;
    4: 1 2 3 4;
    5: 1 2 3;
    6: 1 2;
    7: 1 2;
    8: 1 2;
    9: 1;
    10: 1;
    11: 1;
    12: 1;
    13: 1;
    14: 1;
    15: 1;
    16: 1;
}

//! Sum, minimum and maximum of values: partial results, and how they are merged.
use crate::table::layout::Number;
use core::marker::PhantomData;
use koel_simt::Buf;

/// What the bits of values mean, so that one kernel serves all types of a width: a kernel argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Form {
    /// The bit of the sign; 0 for numbers without.
    pub sign: u64,
    /// Not 0 if the bits are those of floats. Otherwise negative numbers are complements of two.
    pub floats: u32,
}
impl Form {
    /// Numbers without a sign.
    pub const UNSIGNED: Form = Form { sign: 0, floats: 0 };
    /// Returns the form of signed integers of this many bits, whose higher bits are 0.
    pub const fn signed(bits: u32) -> Form {
        Form { sign: 1 << (bits - 1), floats: 0 }
    }
    /// Returns the form of floats of this many bits.
    pub const fn floats(bits: u32) -> Form {
        Form { floats: 1, ..Form::signed(bits) }
    }
    /// Maps bits to a number that compares as the values do: floats as by `total_cmp`.
    #[inline(always)]
    pub fn ordered<V: Number>(self, bits: V) -> V {
        let bits = bits.widened();
        V::narrowed(bits ^ self.flip(bits & self.sign != 0))
    }
    /// Recovers the bits from the number.
    #[inline(always)]
    pub fn unordered<V: Number>(self, number: V) -> V {
        let number = number.widened();
        V::narrowed(number ^ self.flip(number & self.sign == 0))
    }
    /// Negative floats are the smaller, the greater their bits are.
    #[inline(always)]
    fn flip(self, is_negative: bool) -> u64 {
        let magnitude = self.floats != 0 && is_negative;
        self.sign | if magnitude { self.sign - 1 } else { 0 }
    }
    /// Returns an integer, its sign extended to 64 bits.
    #[inline(always)]
    fn extended<V: Number>(self, bits: V) -> u64 {
        (bits.widened() ^ self.sign).wrapping_sub(self.sign)
    }
}

/// A reduction of values.
pub trait Fold: Copy + 'static {
    /// Value type of the caller.
    type Value: Number;
    /// Partial result of some values, and the final result.
    type Part: Number;
    /// Returns the part of no values.
    fn neutral() -> Self::Part;
    /// Returns the part of one value.
    fn part(value: Self::Value, form: Form) -> Self::Part;
    /// Merges two parts.
    fn merge(a: Self::Part, b: Self::Part) -> Self::Part;
    /// Returns the final result from the part of all values.
    #[inline(always)]
    fn result(all: Self::Part, _form: Form) -> Self::Part {
        all
    }
}
/// A fold whose parts can be merged by an atomic operation.
pub trait Accumulate: Fold {
    /// Merges a part into `out[0]`.
    fn accumulate(out: Buf<Self::Part>, part: Self::Part);
}

/// Sum of integers, modulo 2^64.
#[derive(Clone, Copy)]
pub struct Sum<V>(PhantomData<V>);
impl<V: Number> Fold for Sum<V> {
    type Value = V;
    type Part = u64;
    #[inline(always)]
    fn neutral() -> u64 {
        0
    }
    #[inline(always)]
    fn part(value: V, form: Form) -> u64 {
        form.extended(value)
    }
    #[inline(always)]
    fn merge(a: u64, b: u64) -> u64 {
        a.wrapping_add(b)
    }
}
impl<V: Number> Accumulate for Sum<V> {
    #[inline(always)]
    #[track_caller]
    fn accumulate(out: Buf<u64>, part: u64) {
        out.fetch_add(0, part);
    }
}
/// Minimum.
#[derive(Clone, Copy)]
pub struct Min<V>(PhantomData<V>);
impl<V: Number> Fold for Min<V> {
    type Value = V;
    type Part = V;
    #[inline(always)]
    fn neutral() -> V {
        V::narrowed(u64::MAX)
    }
    #[inline(always)]
    fn part(value: V, form: Form) -> V {
        form.ordered(value)
    }
    #[inline(always)]
    fn merge(a: V, b: V) -> V {
        a.min(b)
    }
    #[inline(always)]
    fn result(all: V, form: Form) -> V {
        form.unordered(all)
    }
}
impl<V: Number> Accumulate for Min<V> {
    #[inline(always)]
    #[track_caller]
    fn accumulate(out: Buf<V>, part: V) {
        out.fetch_min(0, part);
    }
}
/// Maximum.
#[derive(Clone, Copy)]
pub struct Max<V>(PhantomData<V>);
impl<V: Number> Fold for Max<V> {
    type Value = V;
    type Part = V;
    #[inline(always)]
    fn neutral() -> V {
        V::narrowed(0)
    }
    #[inline(always)]
    fn part(value: V, form: Form) -> V {
        form.ordered(value)
    }
    #[inline(always)]
    fn merge(a: V, b: V) -> V {
        a.max(b)
    }
    #[inline(always)]
    fn result(all: V, form: Form) -> V {
        form.unordered(all)
    }
}
impl<V: Number> Accumulate for Max<V> {
    #[inline(always)]
    #[track_caller]
    fn accumulate(out: Buf<V>, part: V) {
        out.fetch_max(0, part);
    }
}

/// Sum of floats, whose values and results are represented by their bits.
#[derive(Clone, Copy)]
pub struct SumOfFloats<V>(PhantomData<V>);
macro_rules! sums_of_floats {
    ($($bits:ty: $float:ty;)+) => {
        $(impl Fold for SumOfFloats<$bits> {
            type Value = $bits;
            type Part = $bits;
            /// -0, so that a sum of nothing but -0 is -0.
            #[inline(always)]
            fn neutral() -> $bits {
                1 << (<$bits>::BITS - 1)
            }
            #[inline(always)]
            fn part(value: $bits, _: Form) -> $bits {
                value
            }
            #[inline(always)]
            fn merge(a: $bits, b: $bits) -> $bits {
                (<$float>::from_bits(a) + <$float>::from_bits(b)).to_bits()
            }
        })+
    };
}
sums_of_floats! { u32: f32; u64: f64; }

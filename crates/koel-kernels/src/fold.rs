//! Sum, minimum and maximum of values: partial results, and how they are merged.
use crate::table::layout::Number;
use core::marker::PhantomData;
use koel_simt::Buf;

/// A reduction of values.
pub trait Fold: Copy + 'static {
    /// Value type of the caller.
    type Value: Number;
    /// Partial result of some values, and the final result.
    type Part: Number;
    /// Returns the part of no values.
    fn neutral() -> Self::Part;
    /// Returns the part of one value.
    fn part(value: Self::Value) -> Self::Part;
    /// Merges two parts.
    fn merge(a: Self::Part, b: Self::Part) -> Self::Part;
    /// Returns the final result from the part of all values.
    #[inline(always)]
    fn result(all: Self::Part) -> Self::Part {
        all
    }
}
/// A fold whose parts can be merged by an atomic operation.
pub trait Accumulate: Fold {
    /// Merges a part into `out[0]`.
    fn accumulate(out: Buf<Self::Part>, part: Self::Part);
}

/// Sum modulo 2^64.
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
    fn part(value: V) -> u64 {
        value.widened()
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
    fn part(value: V) -> V {
        value
    }
    #[inline(always)]
    fn merge(a: V, b: V) -> V {
        a.min(b)
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
    fn part(value: V) -> V {
        value
    }
    #[inline(always)]
    fn merge(a: V, b: V) -> V {
        a.max(b)
    }
}
impl<V: Number> Accumulate for Max<V> {
    #[inline(always)]
    #[track_caller]
    fn accumulate(out: Buf<V>, part: V) {
        out.fetch_max(0, part);
    }
}

/// Sum of `f32`, whose values and results are represented by their bits.
#[derive(Clone, Copy)]
pub struct SumF32;
impl Fold for SumF32 {
    type Value = u32;
    type Part = u32;
    /// -0, so that a sum of nothing but -0 is -0.
    #[inline(always)]
    fn neutral() -> u32 {
        1 << 31
    }
    #[inline(always)]
    fn part(value: u32) -> u32 {
        value
    }
    #[inline(always)]
    fn merge(a: u32, b: u32) -> u32 {
        (f32::from_bits(a) + f32::from_bits(b)).to_bits()
    }
}
/// Maps the bits of an `f32` to a number in the order of `f32::total_cmp`.
#[inline(always)]
fn ordered(bits: u32) -> u32 {
    bits ^ if bits >> 31 != 0 { !0 } else { 1 << 31 }
}
/// Recovers the bits from the number.
#[inline(always)]
fn unordered(number: u32) -> u32 {
    number ^ if number >> 31 != 0 { 1 << 31 } else { !0 }
}
/// Minimum of `f32`, in the order of `f32::total_cmp`.
#[derive(Clone, Copy)]
pub struct MinF32;
impl Fold for MinF32 {
    type Value = u32;
    type Part = u32;
    #[inline(always)]
    fn neutral() -> u32 {
        u32::MAX
    }
    #[inline(always)]
    fn part(value: u32) -> u32 {
        ordered(value)
    }
    #[inline(always)]
    fn merge(a: u32, b: u32) -> u32 {
        a.min(b)
    }
    #[inline(always)]
    fn result(all: u32) -> u32 {
        unordered(all)
    }
}
/// Maximum of `f32`, in the order of `f32::total_cmp`.
#[derive(Clone, Copy)]
pub struct MaxF32;
impl Fold for MaxF32 {
    type Value = u32;
    type Part = u32;
    #[inline(always)]
    fn neutral() -> u32 {
        0
    }
    #[inline(always)]
    fn part(value: u32) -> u32 {
        ordered(value)
    }
    #[inline(always)]
    fn merge(a: u32, b: u32) -> u32 {
        a.max(b)
    }
    #[inline(always)]
    fn result(all: u32) -> u32 {
        unordered(all)
    }
}

//! Sum, minimum and maximum of the values of each key.
use super::{CHUNK, MultiMap, places};
use crate::device::{Apart, Buffer, Element, Stream, View, ViewMut};
use crate::error::{Error, Result, check_length, count32};
use crate::parallel;
use crate::types::{BitsOf, Key, SlotValue};
use koel_kernels::fold::{self, Fold, Form};
use koel_kernels::group_reduce::{
    GroupedIn, PartsOut, THREADS, TILE, group_reduce, group_reduce_join,
};

/// Reduction of the values of a key: [`Sum`], [`Min`], [`Max`] of integers and floats.
pub trait Reduction<V: SlotValue>: sealed::Folded<V> {
    /// Result type on the host.
    type Result: Send;
    /// Converts the result from its device representation.
    fn result(word: Self::Word) -> Self::Result;
}
/// The sum. Of integers in 64 bits, modulo 2^64: `u64`, or `i64` for signed ones. Of floats in
/// their own type: the order of additions is fixed, so every run gives the same result; the CPU
/// adds in a different order than the kernels.
#[derive(Clone, Copy, Debug)]
pub struct Sum;
/// The minimum. Of floats in the order of [`f32::total_cmp`]: -0.0 is less than 0.0, and NaN is
/// greater than all numbers, or less if it has a sign.
#[derive(Clone, Copy, Debug)]
pub struct Min;
/// The maximum, in the same order as [`Min`].
#[derive(Clone, Copy, Debug)]
pub struct Max;

pub(crate) mod sealed {
    use super::{BitsOf, Element, Fold, Form, SlotValue};

    pub trait Folded<V: SlotValue> {
        /// A result on a device.
        type Word: Element;
        type Fold: Fold<Value = BitsOf<V>, Part = Self::Word>;
        const FORM: Form;
    }
}
/// Implements a reduction for types whose bits are numbers of this form.
macro_rules! reductions {
    ($(
        $reduction:ident of $type:ty as $form:expr => $word:ty, $fold:ty, $result:ty, $of:expr;
    )+) => {
        $(
            impl sealed::Folded<$type> for $reduction {
                type Word = $word;
                type Fold = $fold;
                const FORM: Form = $form;
            }
            impl Reduction<$type> for $reduction {
                type Result = $result;
                fn result(word: $word) -> $result {
                    let of: fn($word) -> $result = $of;
                    of(word)
                }
            }
        )+
    };
}
macro_rules! numbers {
    ($($type:ty as $form:expr, $sum:ty, $to_sum:expr;)+) => {
        $(reductions! {
            Sum of $type as $form => u64, fold::Sum<BitsOf<$type>>, $sum, $to_sum;
            Min of $type as $form => BitsOf<$type>, fold::Min<BitsOf<$type>>, $type, unpacked;
            Max of $type as $form => BitsOf<$type>, fold::Max<BitsOf<$type>>, $type, unpacked;
        })+
    };
}
fn unpacked<V: SlotValue>(bits: BitsOf<V>) -> V {
    V::unpack(bits.into())
}
numbers! {
    u8 as Form::UNSIGNED, u64, |sum| sum;
    u16 as Form::UNSIGNED, u64, |sum| sum;
    u32 as Form::UNSIGNED, u64, |sum| sum;
    u64 as Form::UNSIGNED, u64, |sum| sum;
    usize as Form::UNSIGNED, u64, |sum| sum;
    i8 as Form::signed(8), i64, |sum| sum as i64;
    i16 as Form::signed(16), i64, |sum| sum as i64;
    i32 as Form::signed(32), i64, |sum| sum as i64;
    i64 as Form::signed(64), i64, |sum| sum as i64;
    isize as Form::signed(64), i64, |sum| sum as i64;
}
reductions! {
    Sum of f32 as Form::floats(32) => u32, fold::SumOfFloats<u32>, f32, f32::from_bits;
    Min of f32 as Form::floats(32) => u32, fold::Min<u32>, f32, f32::from_bits;
    Max of f32 as Form::floats(32) => u32, fold::Max<u32>, f32, f32::from_bits;
    Sum of f64 as Form::floats(64) => u64, fold::SumOfFloats<u64>, f64, f64::from_bits;
    Min of f64 as Form::floats(64) => u64, fold::Min<u64>, f64, f64::from_bits;
    Max of f64 as Form::floats(64) => u64, fold::Max<u64>, f64, f64::from_bits;
}

/// Values of a group that the CPU reduces sequentially.
const STRETCH: usize = 1 << 14;

impl<K: Key, V: SlotValue> MultiMap<K, V> {
    /// Returns the sum, minimum or maximum of the values of each key, in the order of
    /// [`index`](Self::index). Copies and waits.
    ///
    /// ```
    /// use koel::groups::reduction::{Max, Min, Sum};
    /// use koel::{Device, MultiMap};
    ///
    /// let device = Device::cpu()?;
    /// let map = MultiMap::build(&device, &[7u32, 3, 7], &[70u32, 30, 71])?;
    /// assert_eq!(map.reduce::<Sum>()?, [30, 141]);
    /// assert_eq!(map.reduce::<Max>()?, [30, 71]);
    /// let map = MultiMap::build(&device, &["b", "a", "b"].map(str::len), &[-5i8, -128, 3])?;
    /// assert_eq!((map.reduce::<Sum>()?, map.reduce::<Min>()?), (vec![-130], vec![-128]));
    /// let map = MultiMap::build(&device, &[7, 3, 7], &[0.5, 2.0, 1.0])?;
    /// assert_eq!(map.reduce::<Sum>()?, [2.0, 1.5]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: out of memory.
    pub fn reduce<R: Reduction<V>>(&self) -> Result<Vec<R::Result>> {
        let mut out = self.device().alloc(self.index().len())?;
        self.reduce_into::<R>(&self.device().stream()?, out.view_mut())?;
        out.view().download_map(R::result)
    }
    /// Writes the sum, minimum or maximum of the values of key `id` to `out[id]`, as its bits: 64
    /// for a sum of integers, otherwise those of a value.
    ///
    /// Takes two launches, reads every value once and writes one element per key; does not wait.
    /// Allocates up to 12 bytes per 2,048 values. The time does not depend on how the values are
    /// distributed over the keys. Errors: `out` is not one element per key, out of memory, buffers
    /// of another device.
    pub fn reduce_into<R: Reduction<V>>(
        &self,
        stream: &Stream,
        out: ViewMut<'_, R::Word>,
    ) -> Result<()> {
        check_length("out", out.len(), "the distinct keys", self.index().len())?;
        reduce_groups::<R::Fold>(
            stream,
            R::FORM,
            self.starts_view(),
            self.grouped.values.view(),
            out,
        )
    }
}
/// Reduces the values of each group. Asynchronous.
pub(crate) fn reduce_groups<F: Fold<Value: Element, Part: Element>>(
    stream: &Stream,
    form: Form,
    starts: View<'_, u32>,
    values: View<'_, F::Value>,
    mut out: ViewMut<'_, F::Part>,
) -> Result<()> {
    let _apart = Apart::begin();
    let (n, groups) = (count32("values", values.len())?, out.len() as u32);
    let (of_groups, from) = (starts.arg("starts", stream)?, values.arg("values", stream)?);
    let to = out.arg("out", stream)?;
    if !stream.device().runs_kernels() {
        if let (Some(starts), Some(values), Some(out)) =
            (starts.host(), values.host(), out.host_mut())
        {
            // Groups may be large.
            let chunk = out.len().div_ceil(stream.device().parallelism() * 16).clamp(1, CHUNK);
            stream.device().install(|| {
                parallel::try_each(out.chunks_mut(chunk), |number, out| {
                    for (to, group) in out.iter_mut().zip((number * chunk) as u32..) {
                        *to = on_host::<F>(&values[places(starts, group, values.len())], form)?;
                    }
                    Ok::<_, Error>(())
                })
            })?;
        }
        return Ok(());
    }
    if n == 0 {
        return Ok(());
    }
    let tiles = n.div_ceil(TILE);
    let (mut firsts, mut heads): (Buffer<u32>, Buffer<F::Part>) =
        (stream.device().alloc(tiles as usize)?, stream.device().alloc(tiles as usize)?);
    let grouped = GroupedIn { starts: of_groups, values: from, n, groups };
    let parts = PartsOut {
        firsts: firsts.view_mut().arg("firsts", stream)?,
        heads: heads.view_mut().arg("heads", stream)?,
    };
    // SAFETY: the groups are as built; memory for all tiles, with one block per tile in the first
    // kernel and one warp per tile in the second.
    unsafe {
        group_reduce::launch::<F, _>(stream, tiles, form, grouped, parts, to)?;
        group_reduce_join::launch::<F, _>(
            stream,
            tiles.div_ceil(THREADS / 32),
            form,
            n,
            of_groups,
            firsts.view().arg("firsts", stream)?,
            heads.view().arg("heads", stream)?,
            to,
        )
    }
}
/// Reduces the values of a group, which is not empty.
fn on_host<F: Fold>(values: &[F::Value], form: Form) -> Result<F::Part> {
    let stretch = |values: &[F::Value]| {
        values.iter().fold(F::neutral(), |part, &value| F::merge(part, F::part(value, form)))
    };
    if values.len() <= STRETCH {
        return Ok(F::result(stretch(values), form));
    }
    // Merge in the order of the ranges, regardless of which finishes first.
    let parts = parallel::map(values.chunks(STRETCH), |_, values| stretch(values))?;
    Ok(F::result(parts.into_iter().fold(F::neutral(), F::merge), form))
}

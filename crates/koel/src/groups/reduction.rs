//! Sum, minimum and maximum of the values of each key.
use super::{CHUNK, MultiMap, places};
use crate::device::{Apart, Buffer, Element, Stream, ViewMut};
use crate::error::{Result, check_length, count32};
use crate::parallel;
use crate::types::{KeyBits, ValueBits};
use koel_kernels::fold::{self, Fold};
use koel_kernels::group_reduce::{
    GroupedIn, PartsOut, THREADS, TILE, group_reduce, group_reduce_join,
};

/// Reduction of the values of a key: [`Sum`], [`Min`], [`Max`] of integers; [`SumF32`], [`MinF32`],
/// [`MaxF32`] of values that are the bits of `f32`.
pub trait Reduction<V: ValueBits>: sealed::Folded<V> {
    /// Result type on the host.
    type Result: PartialEq + std::fmt::Debug + Send;
    /// Converts the result from its device representation.
    fn result(word: Self::Word) -> Self::Result;
}
/// The sum, modulo 2^64.
#[derive(Clone, Copy, Debug)]
pub struct Sum;
/// The minimum.
#[derive(Clone, Copy, Debug)]
pub struct Min;
/// The maximum.
#[derive(Clone, Copy, Debug)]
pub struct Max;
/// The sum of values that are the bits of `f32`. The order of additions is fixed, so every run
/// gives the same result; the CPU adds in a different order than the kernels.
#[derive(Clone, Copy, Debug)]
pub struct SumF32;
/// The minimum of values that are the bits of `f32`, in the order of [`f32::total_cmp`].
#[derive(Clone, Copy, Debug)]
pub struct MinF32;
/// The maximum of values that are the bits of `f32`, in the order of [`f32::total_cmp`].
#[derive(Clone, Copy, Debug)]
pub struct MaxF32;

mod sealed {
    use super::{Element, Fold};

    pub trait Folded<V> {
        /// A result on a device.
        type Word: Element;
        type Fold: Fold<Value = V, Part = Self::Word>;
    }
}
impl<V: ValueBits> sealed::Folded<V> for Sum {
    type Word = u64;
    type Fold = fold::Sum<V>;
}
impl<V: ValueBits> Reduction<V> for Sum {
    type Result = u64;
    fn result(sum: u64) -> u64 {
        sum
    }
}
impl<V: ValueBits> sealed::Folded<V> for Min {
    type Word = V;
    type Fold = fold::Min<V>;
}
impl<V: ValueBits> Reduction<V> for Min {
    type Result = V;
    fn result(least: V) -> V {
        least
    }
}
impl<V: ValueBits> sealed::Folded<V> for Max {
    type Word = V;
    type Fold = fold::Max<V>;
}
impl<V: ValueBits> Reduction<V> for Max {
    type Result = V;
    fn result(greatest: V) -> V {
        greatest
    }
}
macro_rules! of_floats { ($($of:ident)*) => { $(
    impl sealed::Folded<u32> for $of {
        type Word = u32;
        type Fold = fold::$of;
    }
    impl Reduction<u32> for $of {
        type Result = f32;
        fn result(bits: u32) -> f32 {
            f32::from_bits(bits)
        }
    }
)* } }
of_floats!(SumF32 MinF32 MaxF32);

/// Values of a group that the CPU reduces sequentially.
const STRETCH: usize = 1 << 14;

impl<K: KeyBits, V: ValueBits> MultiMap<K, V> {
    /// Returns the sum, minimum or maximum of the values of each key, in the order of
    /// [`index`](Self::index). Copies and waits.
    ///
    /// ```
    /// use koel::groups::reduction::{Max, Sum, SumF32};
    /// use koel::{Device, MultiMap};
    ///
    /// let device = Device::cpu()?;
    /// let map = MultiMap::build(&device, &[7u32, 3, 7], &[70u32, 30, 71])?;
    /// assert_eq!(map.reduce::<Sum>()?, [30, 141]);
    /// assert_eq!(map.reduce::<Max>()?, [30, 71]);
    /// let map = MultiMap::build(&device, &[7u32, 3, 7], &[0.5f32, 2.0, 1.0].map(f32::to_bits))?;
    /// assert_eq!(map.reduce::<SumF32>()?, [2.0, 1.5]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// Errors: out of memory.
    pub fn reduce<R: Reduction<V>>(&self) -> Result<Vec<R::Result>> {
        let mut out = self.device().alloc(self.index().len())?;
        self.reduce_into::<R>(&self.device().stream()?, out.view_mut())?;
        out.view().download_map(R::result)
    }
    /// Writes the sum, minimum or maximum of the values of key `id` to `out[id]`; for [`SumF32`],
    /// [`MinF32`] and [`MaxF32`] its bits.
    ///
    /// Takes two launches, reads every value once and writes one element per key; does not wait.
    /// Allocates up to 12 bytes per 2,048 values. The time does not depend on how the values are
    /// distributed over the keys. Errors: `out` is not one element per key, out of memory, buffers
    /// of another device.
    pub fn reduce_into<R: Reduction<V>>(
        &self,
        stream: &Stream,
        mut out: ViewMut<'_, R::Word>,
    ) -> Result<()> {
        let _apart = Apart::begin();
        check_length("out", out.len(), "the distinct keys", self.index().len())?;
        let (n, groups) = (count32("values", self.len())?, self.index().len() as u32);
        let (starts, values) =
            (self.starts_view().arg("starts", stream)?, self.values_view().arg("values", stream)?);
        let to = out.arg("out", stream)?;
        if !stream.device().runs_kernels() {
            if let (Some(starts), Some(values), Some(out)) =
                (self.starts_view().host(), self.values_view().host(), out.host_mut())
            {
                // Groups may be large.
                let chunk = out.len().div_ceil(stream.device().parallelism() * 16).clamp(1, CHUNK);
                stream.device().install(|| {
                    parallel::try_each(out.chunks_mut(chunk), |number, out| {
                        for (to, group) in out.iter_mut().zip((number * chunk) as u32..) {
                            let of = places(starts, group, values.len());
                            *to = on_host::<R::Fold>(&values[of])?;
                        }
                        Ok(())
                    })
                })?;
            }
            return Ok(());
        }
        if n == 0 {
            return Ok(());
        }
        let tiles = n.div_ceil(TILE);
        let (mut firsts, mut heads): (Buffer<u32>, Buffer<R::Word>) =
            (stream.device().alloc(tiles as usize)?, stream.device().alloc(tiles as usize)?);
        let grouped = GroupedIn { starts, values, n, groups };
        let parts = PartsOut {
            firsts: firsts.view_mut().arg("firsts", stream)?,
            heads: heads.view_mut().arg("heads", stream)?,
        };
        // SAFETY: the groups are as built; memory for all tiles, with one block per tile in the
        // first kernel and one warp per tile in the second.
        unsafe {
            group_reduce::launch::<R::Fold, _>(stream, tiles, grouped, parts, to)?;
            group_reduce_join::launch::<R::Fold, _>(
                stream,
                tiles.div_ceil(THREADS / 32),
                n,
                starts,
                firsts.view().arg("firsts", stream)?,
                heads.view().arg("heads", stream)?,
                to,
            )
        }
    }
}
/// Reduces the values of a group, which is not empty.
fn on_host<F: Fold>(values: &[F::Value]) -> Result<F::Part> {
    let stretch = |values: &[F::Value]| {
        values.iter().fold(F::neutral(), |part, &value| F::merge(part, F::part(value)))
    };
    if values.len() <= STRETCH {
        return Ok(F::result(stretch(values)));
    }
    // Merge in the order of the ranges, regardless of which finishes first.
    let parts = parallel::map(values.chunks(STRETCH), |_, values| stretch(values))?;
    Ok(F::result(parts.into_iter().fold(F::neutral(), F::merge)))
}

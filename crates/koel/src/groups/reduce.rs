//! Sum, least and greatest of the values of each key.
use super::{MultiMap, places};
use crate::device::{Buffer, Element, Stream, ViewMut};
use crate::error::{Result, check_length, count32};
use crate::map::{Key, Value};
use koel_kernels::fold::{self, Fold};
use koel_kernels::group_reduce::{
    GroupedIn, PartsOut, THREADS, TILE, group_reduce, group_reduce_join,
};
use rayon::prelude::*;

/// What becomes of the values of a key: [`Sum`], [`Min`], [`Max`] of integers; [`SumF32`],
/// [`MinF32`], [`MaxF32`] of values that are the bits of `f32`.
pub trait Reduction<V: Value>: sealed::Folded<V> {
    /// The result on the host.
    type Result: PartialEq + std::fmt::Debug;
    /// From that on a device.
    fn result(word: Self::Word) -> Self::Result;
}
/// The sum, modulo 2^64.
#[derive(Clone, Copy, Debug)]
pub struct Sum;
/// The least value.
#[derive(Clone, Copy, Debug)]
pub struct Min;
/// The greatest value.
#[derive(Clone, Copy, Debug)]
pub struct Max;
/// The sum of values that are the bits of `f32`. Always added in the same order, so the same in
/// every run; on a CPU in another order than by kernels.
#[derive(Clone, Copy, Debug)]
pub struct SumF32;
/// The least of values that are the bits of `f32`, in the order of [`f32::total_cmp`].
#[derive(Clone, Copy, Debug)]
pub struct MinF32;
/// The greatest of values that are the bits of `f32`, in the order of [`f32::total_cmp`].
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
impl<V: Value> sealed::Folded<V> for Sum {
    type Word = u64;
    type Fold = fold::Sum<V>;
}
impl<V: Value> Reduction<V> for Sum {
    type Result = u64;
    fn result(sum: u64) -> u64 {
        sum
    }
}
impl<V: Value> sealed::Folded<V> for Min {
    type Word = V;
    type Fold = fold::Min<V>;
}
impl<V: Value> Reduction<V> for Min {
    type Result = V;
    fn result(least: V) -> V {
        least
    }
}
impl<V: Value> sealed::Folded<V> for Max {
    type Word = V;
    type Fold = fold::Max<V>;
}
impl<V: Value> Reduction<V> for Max {
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

/// Values of a group that are reduced one after the other on the CPU.
const STRETCH: usize = 1 << 14;

impl<K: Key, V: Value> MultiMap<K, V> {
    /// Sum, least or greatest of the values of each key, in the order of [`index`](Self::index).
    /// Copies, and waits.
    ///
    /// ```
    /// use koel::{Device, MultiMap, reduction::{Max, Sum, SumF32}};
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
        Ok(out.download()?.into_iter().map(R::result).collect())
    }
    /// `out[id]` = sum, least or greatest of the values of key `id`; of [`SumF32`] and its kin the
    /// bits.
    ///
    /// Two launches; every value is read once, and an element written for each key; waits for
    /// nothing. Allocates up to 12 bytes for each 2,048 values. Takes as long whether keys have
    /// one value or all. Errors: as many results as there are not keys, out of memory, buffers of
    /// another device.
    pub fn reduce_into<R: Reduction<V>>(
        &self,
        stream: &Stream,
        mut out: ViewMut<'_, R::Word>,
    ) -> Result<()> {
        check_length("out", out.len(), "the distinct keys", self.index().len())?;
        let (n, groups) = (count32("values", self.len())?, self.index().len() as u32);
        let (starts, values) =
            (self.starts().arg("starts", stream)?, self.values().arg("values", stream)?);
        let to = out.arg("out", stream)?;
        if !stream.device().runs_kernels() {
            if let (Some(starts), Some(values), Some(out)) =
                (self.starts().host(), self.values().host(), out.host_mut())
            {
                let of = |(to, at): (&mut R::Word, &[u32])| {
                    *to = on_host::<R::Fold>(&values[places(at, 0, values.len())])
                };
                stream
                    .device()
                    .install(|| out.par_iter_mut().zip(starts.par_windows(2)).for_each(of));
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
        // SAFETY: groups as they were built; memory for all tiles, and a block for each of them,
        // then a warp.
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
/// Of the values of a group, which is not empty.
fn on_host<F: Fold>(values: &[F::Value]) -> F::Part {
    let stretch = |values: &[F::Value]| {
        values.iter().fold(F::neutral(), |part, &value| F::merge(part, F::part(value)))
    };
    if values.len() <= STRETCH {
        return F::result(stretch(values));
    }
    // In the order of the stretches, whoever is first.
    let parts = values.par_chunks(STRETCH).map(stretch).collect::<Vec<_>>();
    F::result(parts.into_iter().fold(F::neutral(), F::merge))
}

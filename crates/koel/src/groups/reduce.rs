//! Sum, least and greatest of the values of each key.
use super::{MultiMap, places};
use crate::device::{Buffer, Element, Stream, ViewMut};
use crate::error::{Result, check_length, count32};
use crate::map::{Key, Value};
use koel_kernels::group_reduce::{self as kernels, Fold, THREADS, TILE};
use rayon::prelude::*;

/// What becomes of the values of a key: [`Sum`], [`Min`], [`Max`] of integers; [`SumF32`],
/// [`MinF32`], [`MaxF32`] of values that are the bits of `f32`.
pub trait Reduction<V: Value>: sealed::Launch<V> {
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
    use crate::device::Stream;
    use crate::error::Result;
    use koel_simt::{Buf, In};

    pub trait Launch<V> {
        /// A result on a device.
        type Word: Element;
        type Fold: Fold<Value = V, Part = Self::Word>;
        /// # Safety
        /// `starts` of `groups`, none of which is empty, and the end of the last one, which is `n`;
        /// as many values; elements of `firsts` and `heads` for all tiles, of `out` for all
        /// groups.
        #[allow(clippy::too_many_arguments, reason = "as many as the kernel has")]
        unsafe fn reduce(
            stream: &Stream,
            n: u32,
            groups: u32,
            starts: In<u32>,
            values: In<V>,
            firsts: Buf<u32>,
            heads: Buf<Self::Word>,
            out: Buf<Self::Word>,
        ) -> Result<()>;
        /// # Safety
        /// As `reduce`, after it.
        unsafe fn join(
            stream: &Stream,
            n: u32,
            starts: In<u32>,
            firsts: In<u32>,
            heads: In<Self::Word>,
            out: Buf<Self::Word>,
        ) -> Result<()>;
    }
}
macro_rules! reductions { ($($of:ident $v:ident $word:ident $result:ident $fold:ty, $reduce:ident $join:ident, |$found:ident| $convert:expr;)*) => { $(
    impl Reduction<$v> for $of {
        type Result = $result;
        fn result($found: $word) -> $result {
            $convert
        }
    }
    impl sealed::Launch<$v> for $of {
        type Word = $word;
        type Fold = $fold;
        unsafe fn reduce(
            stream: &Stream,
            n: u32,
            groups: u32,
            starts: koel_simt::In<u32>,
            values: koel_simt::In<$v>,
            firsts: koel_simt::Buf<u32>,
            heads: koel_simt::Buf<$word>,
            out: koel_simt::Buf<$word>,
        ) -> Result<()> {
            // SAFETY: the caller's.
            unsafe { kernels::$reduce::launch(stream, n.div_ceil(TILE), n, groups, starts, values, firsts, heads, out) }
        }
        unsafe fn join(
            stream: &Stream,
            n: u32,
            starts: koel_simt::In<u32>,
            firsts: koel_simt::In<u32>,
            heads: koel_simt::In<$word>,
            out: koel_simt::Buf<$word>,
        ) -> Result<()> {
            let grid = n.div_ceil(TILE).div_ceil(THREADS / 32);
            // SAFETY: the caller's.
            unsafe { kernels::$join::launch(stream, grid, n, starts, firsts, heads, out) }
        }
    }
)* } }
reductions! {
    Sum u32 u64 u64 kernels::Sum<u32>, group_sum_u32 group_sum_join_u32, |sum| sum;
    Sum u64 u64 u64 kernels::Sum<u64>, group_sum_u64 group_sum_join_u64, |sum| sum;
    Min u32 u32 u32 kernels::MinU32, group_min_u32 group_min_join_u32, |least| least;
    Min u64 u64 u64 kernels::MinU64, group_min_u64 group_min_join_u64, |least| least;
    Max u32 u32 u32 kernels::MaxU32, group_max_u32 group_max_join_u32, |greatest| greatest;
    Max u64 u64 u64 kernels::MaxU64, group_max_u64 group_max_join_u64, |greatest| greatest;
    SumF32 u32 u32 f32 kernels::SumF32, group_sum_f32 group_sum_join_f32, |sum| f32::from_bits(sum);
    MinF32 u32 u32 f32 kernels::MinF32, group_min_f32 group_min_join_f32, |least| f32::from_bits(least);
    MaxF32 u32 u32 f32 kernels::MaxF32, group_max_f32 group_max_join_f32, |greatest| f32::from_bits(greatest);
}

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
        let tiles = n.div_ceil(TILE) as usize;
        let (mut firsts, mut heads): (Buffer<u32>, Buffer<R::Word>) =
            (stream.device().alloc(tiles)?, stream.device().alloc(tiles)?);
        let (to_firsts, to_heads) =
            (firsts.view_mut().arg("firsts", stream)?, heads.view_mut().arg("heads", stream)?);
        // SAFETY: groups as they were built; memory for all tiles.
        unsafe {
            R::reduce(stream, n, groups, starts, values, to_firsts, to_heads, to)?;
            R::join(
                stream,
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
        values.iter().fold(F::NEUTRAL, |part, &value| F::merge(part, F::part(value)))
    };
    if values.len() <= STRETCH {
        return F::result(stretch(values));
    }
    // In the order of the stretches, whoever is first.
    let parts = values.par_chunks(STRETCH).map(stretch).collect::<Vec<_>>();
    F::result(parts.into_iter().fold(F::NEUTRAL, F::merge))
}

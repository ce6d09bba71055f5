//! Aggregates of columns by group: see [`Aggregator`].
use super::NO_ROW;
use super::groups::{Histogram, NO_GROUP};
use crate::device::Device;
use crate::device::memory::zeroed;
use crate::error::{Result, check_length};
use crate::fallible::{self, collect, repeat};
use crate::groups::MultiMap;
use crate::groups::reduction::sealed::Folded;
use crate::groups::reduction::{Reduction, Sum, reduce_groups};
use crate::parallel;
use crate::rows::gathered;
use crate::types::{SlotValue, Value, bits_of_value, stage_values};
use koel_kernels::fold::{Fold, Form};
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Minimum number of rows that a thread reduces at a time. Not a number of threads: the order of
/// additions is the same in every run.
const STRETCH: usize = 1 << 16;

/// Groups of rows, to aggregate columns of as many rows.
pub(crate) struct Aggregator {
    device: Device,
    /// Group of each row, or [`NO_GROUP`].
    ids: Vec<u32>,
    groups: usize,
    /// Number of rows of each group, when they were asked for.
    sizes: OnceLock<Vec<u32>>,
    /// Memory for them, so that asking cannot fail: zeros.
    room: Mutex<Vec<u32>>,
    /// Rows by group, for kernels, when the first column was aggregated.
    order: OnceLock<MultiMap<u32, u32>>,
}
impl Aggregator {
    /// Errors: out of memory.
    #[inline]
    pub(crate) fn new(device: &Device, ids: Vec<u32>, groups: usize) -> Result<Aggregator> {
        let (room, device) = (Mutex::new(zeroed(groups)?), device.clone());
        let (sizes, order) = (OnceLock::new(), OnceLock::new());
        Ok(Aggregator { device, ids, groups, sizes, room, order })
    }
    #[inline]
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }
    /// Returns the group of each row.
    #[inline]
    pub(crate) fn ids(&self) -> &[u32] {
        &self.ids
    }
    /// Returns the number of rows of each group. Counts them when called first.
    #[inline]
    pub(crate) fn sizes(&self) -> &[u32] {
        self.sizes.get_or_init(|| {
            let mut sizes =
                std::mem::take(&mut *self.room.lock().unwrap_or_else(PoisonError::into_inner));
            let counted = Histogram::of(&self.device, &self.ids, self.groups);
            match counted.and_then(|counted| Ok(counted.total()?)) {
                Ok(counted) => counted,
                // By this thread, in memory that there is.
                Err(_) => {
                    for &id in &self.ids {
                        if let Some(size) = sizes.get_mut(id as usize) {
                            *size += 1;
                        }
                    }
                    sizes
                }
            }
        })
    }
    /// Returns the same groups without some rows; they may be empty then.
    pub(crate) fn masked(&self, keeps: impl Fn(usize) -> bool) -> Result<Aggregator> {
        let kept = |(row, &id): (usize, &u32)| if keeps(row) { id } else { NO_GROUP };
        let ids = collect(self.ids.iter().enumerate().map(kept))?;
        Aggregator::new(&self.device, ids, self.groups)
    }
    /// Reduces the values of each group. The result of an empty one is arbitrary.
    pub(crate) fn reduce<A: Reduction<V>, V: SlotValue>(
        &self,
        values: &[V],
    ) -> Result<Vec<A::Result>> {
        check_length("values", values.len(), "rows", self.ids.len())?;
        let parts = if self.device.runs_kernels() {
            self.by_kernels::<A, V>(values)?
        } else {
            self.on_host::<<A as Folded<V>>::Fold, V>(A::FORM, values, bits_of_value)?
        };
        Ok(collect(parts.into_iter().map(A::result))?)
    }
    /// Returns the mean of the values of each group: their sum as `f64`, divided by their number.
    pub(crate) fn mean<V: Numeric>(&self, values: &[V]) -> Result<Vec<f64>> {
        check_length("values", values.len(), "rows", self.ids.len())?;
        let sums = if self.device.runs_kernels() {
            let values = collect(values.iter().map(|value| value.as_f64()))?;
            self.by_kernels::<Sum, f64>(&values)?
        } else {
            let bits = |value: V| value.as_f64().to_bits();
            let form = <Sum as Folded<f64>>::FORM;
            self.on_host::<<Sum as Folded<f64>>::Fold, V>(form, values, bits)?
        };
        let means = sums.into_iter().zip(self.sizes());
        Ok(collect(means.map(|(sum, &size)| f64::from_bits(sum) / f64::from(size)))?)
    }
    /// Returns the row of each group whose value comes before those of the others, the first of
    /// equal ones; [`NO_ROW`] for an empty group. On the host, on every device.
    pub(crate) fn foremost(
        &self,
        is_before: impl Fn(usize, usize) -> bool + Sync,
    ) -> Result<Vec<u32>> {
        let merge = |kept: u32, other: u32| match (kept, other) {
            (NO_ROW, row) | (row, NO_ROW) => row,
            _ if is_before(other as usize, kept as usize) => other,
            _ => kept,
        };
        // No more rows than 32-bit numbers.
        Ok(self.merged(NO_ROW, |rows| rows.map(|row| row as u32), merge)?)
    }
    fn on_host<F: Fold, V: Copy + Sync>(
        &self,
        form: Form,
        values: &[V],
        bits: impl Fn(V) -> F::Value + Sync,
    ) -> fallible::Result<Vec<F::Part>> {
        let part = |&value: &V| F::part(bits(value), form);
        let parts = |rows: Range<usize>| values[rows].iter().map(part);
        let mut all = self.merged(F::neutral(), parts, F::merge)?;
        all.iter_mut().for_each(|all| *all = F::result(*all, form));
        Ok(all)
    }
    /// Merges the parts of the rows of each group. Reads the rows once, in their order.
    fn merged<P: Copy + Send + Sync, I: Iterator<Item = P>>(
        &self,
        neutral: P,
        parts: impl Fn(Range<usize>) -> I + Sync,
        merge: impl Fn(P, P) -> P + Sync,
    ) -> fallible::Result<Vec<P>> {
        let (groups, ids) = (self.groups, &self.ids);
        // All results of stretches together take at most twice the memory of the rows.
        let each = STRETCH.max(4 * groups);
        let stretch = |number: usize, ids: &[u32]| {
            let (start, mut merged) = (number * each, repeat(neutral, groups)?);
            for (&id, part) in ids.iter().zip(parts(start..start + ids.len())) {
                if let Some(to) = merged.get_mut(id as usize) {
                    *to = merge(*to, part);
                }
            }
            Ok(merged)
        };
        let stretches = self.device.install(|| parallel::map(ids.chunks(each), stretch))?;
        let mut all = Vec::new();
        for parts in stretches {
            let parts = parts?;
            if all.is_empty() {
                all = parts;
            } else {
                all.iter_mut().zip(parts).for_each(|(all, part)| *all = merge(*all, part));
            }
        }
        Ok(all)
    }
    /// Gathers the values by group, and reduces each group where it lies.
    fn by_kernels<A: Reduction<V>, V: SlotValue>(&self, values: &[V]) -> Result<Vec<A::Word>> {
        let (order, stream) = (self.order()?, self.device.stream()?);
        let values = stage_values(&self.device, values)?;
        let by_group = gathered(&stream, order.values_view(), values.view())?;
        let mut out = self.device.alloc(order.index().len())?;
        let (starts, to) = (order.starts_view(), out.view_mut());
        reduce_groups::<A::Fold>(&stream, A::FORM, starts, by_group.view(), to)?;
        let results = out.download()?;
        if results.len() == self.groups {
            return Ok(results);
        }
        // Empty groups are not in the order.
        let mut results = results.into_iter();
        let result = |&size: &u32| if size > 0 { results.next() } else { None };
        Ok(collect(self.sizes().iter().map(result).map(Option::unwrap_or_default))?)
    }
    /// Returns the rows of each group that is not empty.
    #[inline]
    fn order(&self) -> Result<&MultiMap<u32, u32>> {
        if let Some(order) = self.order.get() {
            return Ok(order);
        }
        let rows = || (0..).zip(&self.ids).filter(|(_, id)| **id != NO_GROUP);
        let ids = collect(rows().map(|(_, &id)| id))?;
        let rows = collect(rows().map(|(row, _)| row))?;
        let order = MultiMap::build(&self.device, &ids, &rows)?;
        Ok(self.order.get_or_init(|| order))
    }
}

/// Numbers that have a mean: integers and floats.
pub trait Numeric: Value {
    /// Converts to the nearest `f64`.
    fn as_f64(self) -> f64;
}
macro_rules! numeric {
    ($($type:ty)+) => {
        $(impl Numeric for $type {
            fn as_f64(self) -> f64 {
                self as f64
            }
        })+
    };
}
numeric! { u8 i8 u16 i16 u32 i32 u64 i64 usize isize f32 f64 }

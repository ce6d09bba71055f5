//! Counts and aggregates of the rows with equal keys.
use super::aggregate::{Aggregator, Numeric};
use super::groups::Groups;
use super::keyed::Keyed;
use crate::device::Device;
use crate::error::Result;
use crate::fallible::collect;
use crate::groups::reduction::{Max, Min, Reduction, Sum};
use crate::types::SlotValue;
use std::fmt;

/// Returns each distinct key of a column, in order of first occurrence, and how often it occurs.
///
/// ```
/// let device = koel::Device::cpu()?;
/// assert_eq!(koel::count(&device, &[7, -3, 7])?, [(7, 2), (-3, 1)]);
/// assert_eq!(koel::count(&device, &["b", "a", "b"])?, [("b", 2), ("a", 1)]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// Errors: more keys than 31-bit indices can address, out of memory.
#[doc(alias("value_counts", "histogram"))]
pub fn count<K: Keyed>(device: &Device, keys: &[K]) -> Result<Vec<(K, u32)>> {
    let (firsts, sizes) = Groups::sized(device, &K::column(device, keys)?.0)?;
    Ok(collect(
        firsts.into_iter().zip(sizes).map(|(row, size)| (keys[row as usize].clone(), size)),
    )?)
}
/// Groups the rows of a column by key, to aggregate other columns of as many rows.
///
/// ```
/// let device = koel::Device::cpu()?;
/// let (cities, degrees) = (["Ulm", "Bern", "Ulm"], [21.5, 19.0, 24.5]);
/// let rain = [3i16, 0, -1];
/// let groups = koel::group_by(&device, &cities)?.mean(&degrees)?.min(&rain)?.sum(&rain)?;
/// assert_eq!((groups.keys(), groups.sizes()), (&["Ulm", "Bern"][..], &[2, 1][..]));
/// let (mean, least, total) = groups.results();
/// assert_eq!((mean, least, total), (&vec![23.0, 19.0], &vec![-1, 0], &vec![2, 0]));
/// # Ok::<(), koel::Error>(())
/// ```
///
/// Errors: more keys than 31-bit indices can address, out of memory.
#[doc(alias("groupby", "aggregate"))]
pub fn group_by<K: Keyed>(device: &Device, keys: &[K]) -> Result<GroupBy<K>> {
    let (ids, firsts) = Groups::uncounted(device, &K::column(device, keys)?.0)?;
    let keys = collect(firsts.into_iter().map(|row| keys[row as usize].clone()))?;
    let aggregator = Aggregator::new(device, ids, keys.len())?;
    Ok(GroupBy { keys, aggregator, results: () })
}

/// Groups with one more column of results, of this type.
type With<K, R, C> = Result<GroupBy<K, <R as Results>::With<C>>>;
/// A column of the results of a reduction.
type Reduced<A, V> = Vec<<A as Reduction<V>>::Result>;

/// Rows grouped by key, with the results of the aggregates so far, each with one element per group:
/// see [`group_by`].
pub struct GroupBy<K, R = ()> {
    keys: Vec<K>,
    aggregator: Aggregator,
    results: R,
}
impl<K, R: Results> GroupBy<K, R> {
    /// Returns the number of groups.
    pub fn len(&self) -> usize {
        self.keys.len()
    }
    /// Returns whether there are no groups, because there are no rows.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
    /// Returns the key of each group, in order of first occurrence.
    pub fn keys(&self) -> &[K] {
        &self.keys
    }
    /// Returns the group of each row.
    pub fn ids(&self) -> &[u32] {
        self.aggregator.ids()
    }
    /// Returns the number of rows of each group. The first call counts them.
    pub fn sizes(&self) -> &[u32] {
        self.aggregator.sizes()
    }
    /// Returns the results: a tuple of columns, in the order of the calls.
    pub fn results(&self) -> &R {
        &self.results
    }
    /// Returns the keys and the results.
    pub fn into_parts(self) -> (Vec<K>, R) {
        (self.keys, self.results)
    }

    /// Aggregates a column by a [`Reduction`] of each group's values. Reads the column once; on a
    /// GPU, copies it there, and the results back.
    ///
    /// Errors: another number of values than rows, out of memory.
    pub fn reduce<A: Reduction<V>, V: SlotValue>(self, values: &[V]) -> With<K, R, Reduced<A, V>> {
        let results = self.aggregator.reduce::<A, V>(values)?;
        Ok(self.with(results))
    }
    /// Adds the sum of each group's values: of integers as `i64` or `u64`, modulo 2^64; of floats
    /// in their own type. Errors: as [`reduce`](Self::reduce).
    pub fn sum<V: SlotValue>(self, values: &[V]) -> With<K, R, Reduced<Sum, V>>
    where
        Sum: Reduction<V>,
    {
        self.reduce::<Sum, V>(values)
    }
    /// Adds the least of each group's values: see [`Min`]. Errors: as [`reduce`](Self::reduce).
    pub fn min<V: SlotValue>(self, values: &[V]) -> With<K, R, Vec<V>>
    where
        Min: Reduction<V, Result = V>,
    {
        self.reduce::<Min, V>(values)
    }
    /// Adds the greatest of each group's values: see [`Max`]. Errors: as [`reduce`](Self::reduce).
    pub fn max<V: SlotValue>(self, values: &[V]) -> With<K, R, Vec<V>>
    where
        Max: Reduction<V, Result = V>,
    {
        self.reduce::<Max, V>(values)
    }
    /// Adds the mean of each group's values: their sum as `f64`, divided by their number. NaN if
    /// one of them is NaN. Errors: as [`reduce`](Self::reduce).
    #[doc(alias("average"))]
    pub fn mean<V: Numeric>(self, values: &[V]) -> With<K, R, Vec<f64>> {
        let means = self.aggregator.mean(values)?;
        Ok(self.with(means))
    }
    fn with<C>(self, column: C) -> GroupBy<K, R::With<C>> {
        let GroupBy { keys, aggregator, results } = self;
        GroupBy { keys, aggregator, results: results.with(column) }
    }
}
impl<K, R> fmt::Debug for GroupBy<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, device) = (self.aggregator.ids().len(), self.aggregator.device().name());
        write!(f, "GroupBy[{rows} rows in {} groups] on {device}", self.keys.len())
    }
}

/// Results that another column can be added to: tuples of up to seven.
pub trait Results {
    /// The results with a column of this type.
    type With<C>;
    /// Adds a column behind the others.
    fn with<C>(self, column: C) -> Self::With<C>;
}
macro_rules! results {
    ($($($column:ident)*;)+) => {
        $(impl<$($column,)*> Results for ($($column,)*) {
            type With<C> = ($($column,)* C,);
            #[allow(non_snake_case, reason = "columns are named as their types")]
            fn with<C>(self, column: C) -> Self::With<C> {
                let ($($column,)*) = self;
                ($($column,)* column,)
            }
        })+
    };
}
results! {
    ;
    A;
    A B;
    A B D;
    A B D E;
    A B D E F;
    A B D E F G;
    A B D E F G H;
}

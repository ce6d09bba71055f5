//! Multi-value table for few, dense keys.

/// Multi-value table by direct addressing: the values of key `k` are `values[starts[k]..starts[k +
/// 1]]`, in insertion order.
///
/// Built with a counting sort: the invariants of [`crate::bases`] have 576 keys, fewer than a hash
/// table has buckets.
pub(crate) struct DenseMultiTable<T> {
    starts: Vec<u32>,
    values: Vec<T>,
}

impl<T: Copy> DenseMultiTable<T> {
    /// Builds a table from pairs whose keys are below `keys`.
    pub(crate) fn build(keys: u32, pairs: &[(u32, T)]) -> DenseMultiTable<T> {
        let mut starts = vec![0u32; keys as usize + 1];
        for &(key, _) in pairs {
            starts[key as usize + 1] += 1;
        }
        for k in 1..starts.len() {
            starts[k] += starts[k - 1];
        }
        let mut order = (0..pairs.len()).collect::<Vec<usize>>();
        order.sort_by_key(|&i| pairs[i].0);
        let values = order.into_iter().map(|i| pairs[i].1).collect();
        DenseMultiTable { starts, values }
    }
    /// Returns the start of each key's values, followed by the end of the last.
    pub(crate) fn starts(&self) -> &[u32] {
        &self.starts
    }
    /// Returns all values, sorted by key.
    pub(crate) fn values(&self) -> &[T] {
        &self.values
    }
}

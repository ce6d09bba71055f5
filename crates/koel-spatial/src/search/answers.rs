//! What bulk queries return.

/// The neighbours of many queries: one list of indices, and where each query's part begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbours {
    offsets: Vec<u64>,
    indices: Vec<u32>,
}

impl Neighbours {
    /// Of offsets that ascend, from 0 to the number of indices.
    pub(super) fn new(offsets: Vec<u64>, indices: Vec<u32>) -> Neighbours {
        Neighbours { offsets, indices }
    }
    /// Queries.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }
    /// Whether there were no queries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Neighbours of all queries together.
    pub fn total(&self) -> usize {
        self.indices.len()
    }
    /// The neighbours of a query, by index of the point.
    ///
    /// # Panics
    /// If there is no such query.
    pub fn of(&self, query: usize) -> &[u32] {
        &self.indices[self.offsets[query] as usize..self.offsets[query + 1] as usize]
    }
    /// The neighbours of every query, in turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        (0..self.len()).map(|query| self.of(query))
    }
    /// Where each query's part of [`indices`](Self::indices) begins, and the end.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }
    /// All neighbours, one query after the other.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }
}

/// The nearest points of many queries: equally many for each.
#[derive(Clone, Debug, PartialEq)]
pub struct Nearest {
    k: usize,
    indices: Vec<u32>,
    squared_distances: Vec<f64>,
}

impl Nearest {
    /// Of `k` neighbours a query.
    pub(super) fn new(k: usize, indices: Vec<u32>, squared_distances: Vec<f64>) -> Nearest {
        Nearest { k, indices, squared_distances }
    }
    /// Neighbours of each query: as many as asked for, or all points.
    pub fn k(&self) -> usize {
        self.k
    }
    /// The nearest points of a query, the nearest first.
    ///
    /// # Panics
    /// If there is no such query.
    pub fn of(&self, query: usize) -> &[u32] {
        &self.indices[query * self.k..][..self.k]
    }
    /// The squares of their distances.
    ///
    /// # Panics
    /// If there is no such query.
    pub fn squared_distances_of(&self, query: usize) -> &[f64] {
        &self.squared_distances[query * self.k..][..self.k]
    }
    /// All neighbours, k for each query.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }
}

//! Results of bulk queries.

/// Neighbours of many queries: one list of indices, and the offset of each query's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbours {
    offsets: Vec<u64>,
    indices: Vec<u32>,
}

impl Neighbours {
    /// Wraps ascending offsets, from 0 to the number of indices.
    pub(super) fn new(offsets: Vec<u64>, indices: Vec<u32>) -> Neighbours {
        Neighbours { offsets, indices }
    }
    /// Returns the number of queries.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }
    /// Returns whether there were no queries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the total number of neighbours of all queries.
    pub fn total(&self) -> usize {
        self.indices.len()
    }
    /// Returns the neighbours of a query, as indices of points.
    ///
    /// # Panics
    /// If the query does not exist.
    pub fn of(&self, query: usize) -> &[u32] {
        &self.indices[self.offsets[query] as usize..self.offsets[query + 1] as usize]
    }
    /// Iterates over the neighbours of each query, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        (0..self.len()).map(|query| self.of(query))
    }
    /// Returns the start of each query's part of [`indices`](Self::indices), followed by the end.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }
    /// Returns all neighbours, in the order of the queries.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }
}

/// Nearest points of many queries, the same number for each.
#[derive(Clone, Debug, PartialEq)]
pub struct Nearest {
    k: usize,
    indices: Vec<u32>,
    squared_distances: Vec<f64>,
}

impl Nearest {
    /// Wraps `k` neighbours per query.
    pub(super) fn new(k: usize, indices: Vec<u32>, squared_distances: Vec<f64>) -> Nearest {
        Nearest { k, indices, squared_distances }
    }
    /// Returns the number of neighbours per query: the requested number, or the number of points if
    /// that is smaller.
    pub fn k(&self) -> usize {
        self.k
    }
    /// Returns the nearest points of a query, in ascending order of distance.
    ///
    /// # Panics
    /// If the query does not exist.
    pub fn of(&self, query: usize) -> &[u32] {
        &self.indices[query * self.k..][..self.k]
    }
    /// Returns the squared distances of a query's nearest points.
    ///
    /// # Panics
    /// If the query does not exist.
    pub fn squared_distances_of(&self, query: usize) -> &[f64] {
        &self.squared_distances[query * self.k..][..self.k]
    }
    /// Returns all neighbours, k per query.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }
}

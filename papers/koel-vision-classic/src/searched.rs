//! Lists of entries that are searched on the host, to compare the hash tables with: by brute force
//! and by a kd-tree.
//!
//! Both find the entries of the query's own cell, as the tables do, so that the votes are the same.
use kiddo::{ImmutableKdTree, SquaredEuclidean};
use koel::primitives::sort_pairs;
use koel::{Buffer, Stream, View, ViewMut};
use koel_classic::{ListTable, SchemeReport};
use rayon::prelude::*;

/// Way to find the entries of a cell.
enum Search {
    /// Compares the query with the key of every entry, in ascending order.
    Brute(Vec<u32>),
    /// Takes the nearest of the cells that have entries, if it is the query's own.
    Tree {
        /// Column and row of the cells; `None` if there are none.
        cells: Option<ImmutableKdTree<f32, 2>>,
        /// First entry of each cell, and the number of entries.
        starts: Vec<u32>,
    },
}

/// Column and row of a cell, which floats represent exactly.
fn place(key: u32) -> [f32; 2] {
    [(key & 0xFFFF) as f32, (key >> 16) as f32]
}

/// Entries in the order of their keys, and how a cell's are found.
pub(crate) struct Searched {
    names: Buffer<u32>,
    search: Search,
    report: SchemeReport,
}
impl Searched {
    /// Sorts the entries on the device of `stream` and reads their keys back. Brute force keeps the
    /// keys, 4 bytes per entry. The tree keeps 8 bytes per cell, and 4 for its first entry.
    pub(crate) fn build(
        stream: &Stream,
        keys: View<'_, u32>,
        names: View<'_, u32>,
        is_brute: bool,
    ) -> koel::Result<Searched> {
        let (device, n) = (stream.device(), keys.len());
        let (mut sorted, mut of_sorted) = (device.alloc::<u32>(n)?, device.alloc::<u32>(n)?);
        sort_pairs(stream, keys, names, sorted.view_mut(), of_sorted.view_mut())?;
        let sorted = sorted.download()?;
        let lists = sorted.chunk_by(|a, b| a == b);
        let cells = lists.clone().map(|list| place(list[0])).collect::<Vec<[f32; 2]>>();
        let report = SchemeReport {
            pairs: cells.len(),
            duplicates: n - cells.len(),
            slots: n,
            bytes: of_sorted.bytes() + if is_brute { 4 * n } else { 12 * cells.len() },
            attempts: 1,
            ..SchemeReport::default()
        };
        let search = if is_brute {
            Search::Brute(sorted)
        } else {
            let mut starts = vec![0];
            starts.extend(lists.scan(0, |end, list| {
                *end += list.len() as u32;
                Some(*end)
            }));
            Search::Tree { cells: tree(&cells)?, starts }
        };
        Ok(Searched { names: of_sorted, search, report })
    }
    /// Returns the first entry of the cell with this key and the number of its entries.
    fn find(&self, key: u32) -> (u32, u32) {
        match &self.search {
            Search::Brute(keys) => {
                // Both are sums over all entries: nothing follows from the order of the keys.
                let (mut before, mut equal) = (0, 0);
                for &own in keys {
                    before += u32::from(own < key);
                    equal += u32::from(own == key);
                }
                if equal == 0 { (0, 0) } else { (before, equal) }
            }
            Search::Tree { cells: None, .. } => (0, 0),
            Search::Tree { cells: Some(cells), starts } => {
                let nearest =
                    cells.query(&place(key)).nearest_one::<SquaredEuclidean<f32>>().execute();
                if nearest.distance != 0.0 {
                    return (0, 0);
                }
                let cell = nearest.item as usize;
                (starts[cell], starts[cell + 1] - starts[cell])
            }
        }
    }
}
/// Builds a kd-tree of distinct cells.
fn tree(cells: &[[f32; 2]]) -> koel::Result<Option<ImmutableKdTree<f32, 2>>> {
    if cells.is_empty() {
        return Ok(None);
    }
    let built = ImmutableKdTree::new_from_slice(cells);
    built.map(Some).map_err(|e| koel::Error::Setting {
        field: "lookup",
        found: format!("a kd-tree of {} cells: {e}", cells.len()),
        expected: "another lookup".into(),
    })
}

impl ListTable for Searched {
    fn report(&self) -> &SchemeReport {
        &self.report
    }
    fn list(&self) -> View<'_, u32> {
        self.names.view()
    }
    /// Copies the queries to the host, searches on all threads there, and copies the answers back.
    fn get_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        mut starts: ViewMut<'_, u32>,
        mut counts: ViewMut<'_, u32>,
    ) -> koel::Result<()> {
        let device = stream.device();
        stream.synchronize()?;
        let keys = queries.download()?;
        let (first, number): (Vec<u32>, Vec<u32>) =
            keys.par_iter().map(|&key| self.find(key)).unzip();
        starts.copy_from(device.upload(&first)?.view(), stream)?;
        counts.copy_from(device.upload(&number)?.view(), stream)?;
        // The uploaded answers live until they are copied.
        stream.synchronize()
    }
}

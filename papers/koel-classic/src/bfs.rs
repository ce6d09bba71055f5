//! Single-level cuckoo table with BFS insertion: each pair searches for its shortest eviction chain
//! before it evicts (Fotakis et al. 2005; Zachmann's lectures, which doubt that it pays).
//!
//! Insertion is parallel and lock-free: a chain broken by another thread is planned again. Memory
//! and lookups are those of [`SingleLevel`](super::SingleLevel); a build temporarily takes another
//! 512 bytes for each of a fixed number of threads.
use super::restarts::{self, Attempt, Outcome, Published};
use super::{Family, Kind, Options, Table, cuckoo};
use koel::{Result, Stream, View};
use koel_classic_kernels::bfs::{Search, bfs_insert};

/// Parameters of the table.
#[derive(Clone, Debug)]
pub struct Bfs {
    /// Number of hash functions, 2 to 5.
    pub functions: u32,
    /// Hash family.
    pub family: Family,
}
impl Bfs {
    /// Four functions.
    pub const PUBLISHED: Bfs = Bfs { functions: 4, family: Family::Mixed };
}
/// Number of slots that a search visits: chains of three with four functions.
const MAX_NODES: u32 = 64;
/// Number of blocks per core or multiprocessor.
const BLOCKS: u32 = 8;

impl Kind for Bfs {
    fn name(&self) -> &'static str {
        "bfs"
    }
    fn about(&self) -> &'static str {
        "2005: the single-level table, the shortest eviction chain is looked for first"
    }
    fn default_load(&self) -> f64 {
        if self.functions == 2 { 0.4 } else { 0.8 }
    }
    fn max_load(&self) -> f64 {
        cuckoo::max_load(self.functions)
    }
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn Table>> {
        cuckoo::check_functions(self.functions)?;
        let attempt =
            |stream: &Stream, pairs: super::input::Pairs<'_>, load: f64, attempt: Attempt| {
                let functions = cuckoo::functions(self.functions, pairs.n, load, attempt)?;
                let max_exchanges =
                    cuckoo::max_exchanges(self.functions, pairs.n, load / attempt.growth);
                let search = Search { max_exchanges, max_nodes: MAX_NODES };
                let threads = bfs_insert::SPEC.threads;
                let grid =
                    pairs.n.div_ceil(threads).min(stream.device().parallelism() as u32 * BLOCKS);
                let mut nodes =
                    stream.device().alloc::<u64>(grid as usize * (threads * MAX_NODES) as usize)?;
                let built: Outcome<cuckoo::CuckooTable> =
                    cuckoo::build(stream, pairs, functions, |pairs, table| {
                        let nodes = nodes.view_mut().arg("nodes", stream)?;
                        // SAFETY: `n` keys and values; the functions stay below the number of slots;
                        // each thread has `MAX_NODES` nodes; `status::WORDS` words.
                        unsafe { bfs_insert::launch(stream, grid, pairs, search, table, nodes) }
                    })?;
                Ok(built)
            };
        let published = Published::with_room(self.family, self.functions);
        restarts::build(self, published, stream, (keys, values), options, attempt)
    }
}

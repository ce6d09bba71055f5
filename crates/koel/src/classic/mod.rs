//! The papers' tables, as published, behind one interface.
//!
//! Every kind is built from pairs of 32-bit keys and values, answers lookups in bulk, and reports
//! how its build went. A build does not fail but for lack of memory: where the published scheme
//! cannot hold a set of keys, it falls back to one that can, and the report says so.
pub mod best_of;
pub mod bfs;
pub mod bucketed;
mod by_bucket;
pub mod chaining;
mod cpu;
mod cuckoo;
mod duplicates;
pub mod fks;
pub mod function_id;
mod input;
pub mod lists;
pub mod multi_value;
pub mod perfect_spatial;
pub mod probing;
pub mod random_walk;
mod restarts;
pub mod set;
pub mod single_level;
pub mod sorted;
pub mod two_kernel;
pub mod two_level;
pub mod two_level_multi;

use crate::device::{Stream, View, ViewMut};
pub use crate::duplicates::Duplicates;
use crate::error::{Result, check_length, count32};
pub use best_of::BestOf;
pub use bfs::Bfs;
pub use bucketed::Bucketed;
pub use chaining::Chaining;
pub use fks::Fks;
pub use function_id::FunctionId;
use koel_kernels::classic::Queries;
pub use koel_kernels::hash::Family;
pub use lists::{ListKind, ListTable, Listed, list_kinds};
pub use multi_value::{SingleLevelMulti, SortedMulti};
pub use perfect_spatial::PerfectSpatial;
pub use probing::Probing;
pub use random_walk::RandomWalk;
pub use set::{SingleLevelCompacting, SingleLevelSet};
pub use single_level::SingleLevel;
pub use sorted::Sorted;
pub use two_kernel::TwoKernel;
pub use two_level::TwoLevel;
pub use two_level_multi::{TwoLevelCompacting, TwoLevelMulti};

/// What a build is asked for, of any kind of table.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pairs per slot, above 0 and at most [`Kind::max_load`]. `None`: [`Kind::default_load`]. A
    /// sorted array has no empty slots whatever is asked.
    pub load: Option<f64>,
    /// Equal keys.
    pub duplicates: Duplicates,
    /// Hash functions are drawn from it: same seed, same functions.
    pub seed: u64,
}
impl Default for Options {
    fn default() -> Self {
        Options { load: None, duplicates: Duplicates::default(), seed: 1 }
    }
}

/// How a build went.
#[derive(Clone, Debug, Default)]
pub struct BuildReport {
    /// Pairs stored: those given, less dropped duplicates.
    pub pairs: usize,
    /// Slots of the table.
    pub slots: usize,
    /// Bytes of device memory that the finished table keeps.
    pub bytes: usize,
    /// Builds begun, the successful one included.
    pub attempts: u32,
    /// Pairs in the stash.
    pub stashed: usize,
    /// Pairs dropped because a later (or earlier) one had the same key.
    pub duplicates: usize,
    /// The hash family of the finished table.
    pub family: &'static str,
    /// Seconds that the device worked on it, clearing and failed attempts included, host work
    /// between launches not.
    pub device_seconds: f64,
    /// If not as the paper has it: what was changed, and why.
    pub fallback: Option<String>,
}

/// A finished table.
pub trait Table: Send + Sync {
    /// How its build went.
    fn report(&self) -> &BuildReport;
    /// Looks up every query: `found[i]` becomes 1 and `values[i]` the value if the table holds
    /// `queries[i]`, else both become 0. One launch; allocates nothing. Queries are read and
    /// answers written once, in order (4 + 5 bytes a query); the table is read at random.
    ///
    /// Errors: lengths that differ, buffers of another device.
    fn find_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        values: ViewMut<'_, u32>,
        found: ViewMut<'_, u8>,
    ) -> Result<()>;

    /// Looks up host queries: `Some(value)` where the table holds the key. Copies both ways and
    /// waits.
    fn find(&self, stream: &Stream, queries: &[u32]) -> Result<Vec<Option<u32>>> {
        let device = stream.device();
        let staged = device.stage(queries)?;
        let (mut values, mut found) = (device.alloc(queries.len())?, device.alloc(queries.len())?);
        self.find_into(stream, staged.view(), values.view_mut(), found.view_mut())?;
        let (values, found) = (values.download()?, found.download()?);
        Ok(values.into_iter().zip(found).map(|(v, f)| (f != 0).then_some(v)).collect())
    }
}

/// A kind of table: how it is called, and how one is built.
pub trait Kind: Send + Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// The paper it is from, and what it is, in a line.
    fn about(&self) -> &'static str;
    /// The load it has when none is asked for.
    fn default_load(&self) -> f64;
    /// The greatest load that it can be asked for.
    fn max_load(&self) -> f64;
    /// Builds a table on the device of `stream`, of pairs `keys[i]`, `values[i]`. Any key and any
    /// value.
    ///
    /// Errors: lengths that differ, more pairs than 32-bit indices reach, buffers of another
    /// device, a load out of range, a rejected duplicate, out of memory.
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn Table>>;
}

/// Every kind there is: those of the papers, in their order, then those they compare with and build
/// on. A new one is a file and a line here.
pub fn kinds() -> &'static [&'static dyn Kind] {
    &[
        &TwoLevel::PUBLISHED,
        &SingleLevel::PUBLISHED,
        &TwoKernel::PUBLISHED,
        &Sorted,
        &Chaining::PUBLISHED,
        &Probing::LINEAR,
        &Probing::QUADRATIC,
        &Probing::DOUBLE,
        &Fks::PUBLISHED,
        &PerfectSpatial::PUBLISHED_2D,
        &PerfectSpatial::PUBLISHED_3D,
        &Bucketed::PUBLISHED,
        &RandomWalk::PUBLISHED,
        &RandomWalk::RANDOM_START,
        &Bfs::PUBLISHED,
        &FunctionId::PUBLISHED,
        &BestOf::PUBLISHED,
    ]
}

/// The queries of a lookup as kernels take them. Checks lengths and devices.
fn find_args(
    stream: &Stream,
    queries: &View<'_, u32>,
    values: &mut ViewMut<'_, u32>,
    found: &mut ViewMut<'_, u8>,
) -> Result<Queries> {
    check_length("values", values.len(), "queries", queries.len())?;
    check_length("found", found.len(), "queries", queries.len())?;
    let n = count32("queries", queries.len())?;
    let (keys, values) = (queries.arg("queries", stream)?, values.arg("values", stream)?);
    Ok(Queries { keys, values, found: found.arg("found", stream)?, n })
}

//! The published hash tables of the papers behind one interface, on the GPU and on the CPU.
//!
//! Every kind is built from pairs of 32-bit keys and values, answers lookups in bulk, and reports
//! how its build went. Given valid arguments, a build fails only when out of memory: where the
//! published scheme cannot hold a set of keys, the build falls back to one that can and says so in
//! the report.
//!
//! ```
//! use koel_classic::{Kind, Options, SingleLevel};
//!
//! let device = koel::Device::cpu()?;
//! let stream = device.stream()?;
//! let (keys, values) = (device.upload(&[3u32, 5, 7])?, device.upload(&[30u32, 50, 70])?);
//! let options = Options::default();
//! let table = SingleLevel::PUBLISHED.build(&stream, keys.view(), values.view(), &options)?;
//! assert_eq!(table.get(&stream, &[5, 6])?, [Some(50), None]);
//! # Ok::<(), koel::Error>(())
//! ```
//!
//! [`kinds`] lists the tables of distinct keys, [`list_kinds`] those of repeated keys.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod best_of;
pub mod bfs;
pub mod bucketed;
mod by_bucket;
pub mod chaining;
mod cpu;
mod cuckoo;
mod duplicates;
mod fallible;
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
pub mod stored_step;
pub mod two_kernel;
pub mod two_level;
pub mod two_level_multi;

use crate::fallible::{check_length, collect, count32};
pub use best_of::BestOf;
pub use bfs::Bfs;
pub use bucketed::Bucketed;
pub use chaining::Chaining;
pub use fks::Fks;
pub use function_id::FunctionId;
pub use koel::Duplicates;
use koel::{Device, DeviceKind, Result, Stream, View, ViewMut};
use koel_classic_kernels::Queries;
pub use koel_kernels::hash::Family;
pub use lists::{ListKind, ListTable, Listed, list_kinds};
pub use multi_value::{SingleLevelMulti, SortedMulti};
pub use perfect_spatial::PerfectSpatial;
pub use probing::Probing;
pub use random_walk::RandomWalk;
pub use set::{SingleLevelCompacting, SingleLevelSet};
pub use single_level::SingleLevel;
pub use sorted::Sorted;
pub use stored_step::StoredStep;
pub use two_kernel::TwoKernel;
pub use two_level::TwoLevel;
pub use two_level_multi::{TwoLevelCompacting, TwoLevelMulti};

/// Build options, common to all kinds of table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Load factor in pairs per slot: above 0, maximum [`Kind::max_load`]. `None`:
    /// [`Kind::default_load`]. A sorted array ignores it, having no empty slots.
    pub load: Option<f64>,
    /// Treatment of equal keys. If the promise of [`Duplicates::Unchecked`] is broken, the table
    /// keeps one of the pairs of each key.
    pub duplicates: Duplicates,
    /// Seed of the hash functions: the same seed draws the same functions.
    pub seed: u64,
}
koel::option_setters! { Options:
    load by with_load: impl Into<Option<f64>>;
    duplicates by with_duplicates: Duplicates;
    seed by with_seed: u64;
}
impl Default for Options {
    fn default() -> Self {
        Options { load: None, duplicates: Duplicates::default(), seed: 1 }
    }
}

/// Report of a build.
#[derive(Clone, Debug, Default)]
pub struct SchemeReport {
    /// Number of pairs stored: those given minus dropped duplicates.
    pub pairs: usize,
    /// Number of slots in the table.
    pub slots: usize,
    /// Bytes of device memory that the finished table occupies.
    pub bytes: usize,
    /// Number of build attempts, including the successful one.
    pub attempts: u32,
    /// Number of pairs in the stash.
    pub stashed: usize,
    /// Number of pairs in the largest bucket (of chained tables: the longest list), where a table
    /// counts it.
    pub largest_bucket: Option<usize>,
    /// Number of pairs dropped because a later (or earlier) pair had the same key.
    pub duplicates: usize,
    /// Hash family of the finished table.
    pub family: &'static str,
    /// Device time of the build in seconds: includes clearing and failed attempts, excludes host
    /// work between launches.
    pub device_seconds: f64,
    /// Deviation from the published scheme, if any: what was changed and why.
    pub fallback: Option<String>,
}

/// A finished table.
pub trait Table: Send + Sync {
    /// Returns the report of the build.
    fn report(&self) -> &SchemeReport;
    /// Looks up every query: sets `found[i]` to 1 and `values[i]` to the value if the table holds
    /// `queries[i]`; sets both to 0 otherwise. Takes one launch and allocates nothing. Reads the
    /// queries and writes the answers once, in order (4 + 5 bytes per query); reads the table at
    /// random.
    ///
    /// Errors: mismatched lengths, buffers of another device.
    fn get_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        values: ViewMut<'_, u32>,
        found: ViewMut<'_, u8>,
    ) -> Result<()>;

    /// Looks up queries in host memory: returns `Some(value)` for each key that the table holds.
    /// Copies both ways and waits.
    fn get(&self, stream: &Stream, queries: &[u32]) -> Result<Vec<Option<u32>>> {
        let device = stream.device();
        count32("queries", queries.len())?;
        let staged = device.stage(queries)?;
        let (mut values, mut found) = (device.alloc(queries.len())?, device.alloc(queries.len())?);
        self.get_into(stream, staged.view(), values.view_mut(), found.view_mut())?;
        let answers = values.download()?.into_iter().zip(found.download()?);
        collect(answers.map(|(value, found)| (found != 0).then_some(value)))
    }
}

/// A kind of table: its name, its limits and its build.
pub trait Kind: Send + Sync {
    /// Returns its name on the command line.
    fn name(&self) -> &'static str;
    /// Returns the paper it is from and what it is, in one line.
    fn about(&self) -> &'static str;
    /// Returns the load factor used when none is requested.
    fn default_load(&self) -> f64;
    /// Returns the maximum load factor.
    fn max_load(&self) -> f64;
    /// Builds a table from pairs `keys[i]`, `values[i]` on the device of `stream`. All keys and
    /// values are allowed.
    ///
    /// Errors: mismatched lengths, more pairs than 32-bit indices can address, buffers of another
    /// device, a load factor out of range, a rejected duplicate, out of memory.
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn Table>>;
}

/// Returns all kinds: those of the papers in the papers' order, then the tables that they are
/// compared with or build on. A new kind takes a file and a line here.
pub fn kinds() -> &'static [&'static dyn Kind] {
    &[
        &TwoLevel::PUBLISHED,
        &TwoLevel::TWO_CHOICES,
        &TwoLevel::SIZED,
        &SingleLevel::PUBLISHED,
        &TwoKernel::PUBLISHED,
        &Sorted,
        &Chaining::PUBLISHED,
        &Chaining::TWO_CHOICES,
        &Chaining::FOUR_LEFT,
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
        &StoredStep::PUBLISHED,
        &BestOf::PUBLISHED,
    ]
}

/// Returns whether tables are built by kernels (a GPU, the executor) instead of native host code.
fn runs_kernels(device: &Device) -> bool {
    device.kind() != DeviceKind::Cpu
}

/// Returns the arguments of a lookup kernel. Checks lengths and devices.
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

/// Tests the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! Tables with repeated keys behind one interface: sets, compacting tables and multi-value tables.
//!
//! A lookup returns where the entries of the key start in a list and how many there are. A
//! multi-value table lists the values, those of one key adjacent. A compacting table lists each
//! distinct key once, so that the position of a key is its number: a two-way index. A set has no
//! list; each of its keys counts one entry.
use super::{
    Options, SchemeReport, SingleLevelCompacting, SingleLevelMulti, SingleLevelSet, SortedMulti,
    TwoLevelCompacting, TwoLevelMulti,
};
use crate::fallible::{check_length, collect, count32};
use koel::{Error, Result, Stream, View, ViewMut};
use koel_classic_kernels::ListQueries;

/// A finished table.
pub trait ListTable: Send + Sync {
    /// Returns the report of the build. `pairs` counts distinct keys, `duplicates` the pairs after
    /// the first of each key.
    fn report(&self) -> &SchemeReport;
    /// Returns the list that lookups index; empty for a set.
    fn list(&self) -> View<'_, u32>;
    /// Looks up every query: `counts[i]` entries of the list starting at `starts[i]` belong to
    /// `queries[i]`. Both are 0 if the table does not hold the key. In sets and compacting tables
    /// every key has one entry. Allocates nothing, except one byte per query in tables that look up
    /// twice.
    ///
    /// Errors: mismatched lengths, buffers of another device.
    fn get_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        starts: ViewMut<'_, u32>,
        counts: ViewMut<'_, u32>,
    ) -> Result<()>;

    /// Looks up queries in host memory: returns start and count of each. Copies both ways and
    /// waits.
    fn get(&self, stream: &Stream, queries: &[u32]) -> Result<Vec<(u32, u32)>> {
        let device = stream.device();
        count32("queries", queries.len())?;
        let staged = device.stage(queries)?;
        let (mut starts, mut counts) = (device.alloc(queries.len())?, device.alloc(queries.len())?);
        self.get_into(stream, staged.view(), starts.view_mut(), counts.view_mut())?;
        collect(starts.download()?.into_iter().zip(counts.download()?))
    }
}

/// A kind of table.
pub trait ListKind: Send + Sync {
    /// Returns its name.
    fn name(&self) -> &'static str;
    /// Returns the paper it is from and what it is, in one line.
    fn about(&self) -> &'static str;
    /// Returns what its list holds.
    fn lists(&self) -> Listed;
    /// Builds a table from pairs `keys[i]`, `values[i]` on the device of `stream`; sets and
    /// compacting tables ignore the values. All keys and values and any number of equal keys are
    /// allowed; `options.duplicates` is ignored. Tables that sort keep the values of a key in input
    /// order; the others leave their order unspecified.
    ///
    /// Errors: mismatched lengths, more pairs than 32-bit indices can address, buffers of another
    /// device, a load factor out of range, out of memory.
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn ListTable>>;
}
/// Content of a table's list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listed {
    /// No list.
    Nothing,
    /// The distinct keys, each once.
    Keys,
    /// The values.
    Values,
}

/// Returns all kinds in the order of their papers. A new kind takes a file and a line here.
pub fn list_kinds() -> &'static [&'static dyn ListKind] {
    &[
        &TwoLevelMulti,
        &TwoLevelCompacting,
        &SingleLevelSet,
        &SingleLevelCompacting,
        &SingleLevelMulti,
        &SortedMulti,
    ]
}

/// Checks the lengths and the load factor.
pub(super) fn check(
    keys: View<'_, u32>,
    values: View<'_, u32>,
    options: &Options,
    (default, max): (f64, f64),
) -> Result<(u32, f64)> {
    check_length("values", values.len(), "keys", keys.len())?;
    let load = options.load.unwrap_or(default);
    if !(load > 0.0 && load <= max) {
        let expected = format!("above 0 and at most {max}");
        return Err(Error::Setting { field: "load", found: format!("{load:?}"), expected });
    }
    Ok((count32("pairs", keys.len())?, load))
}

/// Returns the arguments of a lookup kernel. Checks lengths and devices.
pub(super) fn find_args(
    stream: &Stream,
    queries: &View<'_, u32>,
    starts: &mut ViewMut<'_, u32>,
    counts: &mut ViewMut<'_, u32>,
) -> Result<ListQueries> {
    check_length("starts", starts.len(), "queries", queries.len())?;
    check_length("counts", counts.len(), "queries", queries.len())?;
    let n = count32("queries", queries.len())?;
    let (keys, starts) = (queries.arg("queries", stream)?, starts.arg("starts", stream)?);
    Ok(ListQueries { keys, starts, counts: counts.arg("counts", stream)?, n })
}

//! The multi-value table of Alcantara et al. 2011, and the baseline of both papers: the same
//! without the hash table.
//!
//! A radix sort makes the values of each key adjacent. A prefix sum over the first pair of each key
//! numbers the distinct keys. A single-level table maps keys to numbers, and an array maps numbers
//! to the start of the values. The baseline finds the number of a key by binary search.
//!
//! Memory: 4 bytes per value, 4 per distinct key, and the table of the distinct keys (8 / load
//! bytes each; 8 in the baseline). A lookup is one lookup in that table and a read of 8 adjacent
//! bytes.
use super::lists::{self, ListKind, ListTable, Listed};
use super::{Duplicates, Kind, Options, SchemeReport, SingleLevel, Sorted, Table};
use koel::primitives::{self, Scan};
use koel::{Buffer, Result, Stream, View, ViewMut};
use koel_classic_kernels::ListQueries;
use koel_classic_kernels::multi_value::{
    DistinctOut, multi_value_heads, multi_value_list, multi_value_places,
};

/// Multi-value table: sorted values, hashed keys.
#[derive(Clone, Copy, Debug)]
pub struct SingleLevelMulti;
/// Multi-value baseline: sorted values, binary search for keys.
#[derive(Clone, Copy, Debug)]
pub struct SortedMulti;

struct SortedMultiTable {
    /// Table from keys to their numbers.
    numbers: Box<dyn Table>,
    /// Start of the values of each number, and the end of the last.
    places: Buffer<u32>,
    values: Buffer<u32>,
    report: SchemeReport,
}

impl ListKind for SingleLevelMulti {
    fn name(&self) -> &'static str {
        "single-level-multi"
    }
    fn about(&self) -> &'static str {
        "2011: values sorted by key, a single-level table of the distinct keys"
    }
    fn lists(&self) -> Listed {
        Listed::Values
    }
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn ListTable>> {
        build(&SingleLevel::PUBLISHED, stream, keys, values, options)
    }
}
impl ListKind for SortedMulti {
    fn name(&self) -> &'static str {
        "sorted-multi"
    }
    fn about(&self) -> &'static str {
        "the yardstick: values sorted by key, binary search among the distinct keys"
    }
    fn lists(&self) -> Listed {
        Listed::Values
    }
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn ListTable>> {
        build(&Sorted, stream, keys, values, options)
    }
}

fn build(
    kind: &dyn Kind,
    stream: &Stream,
    keys: View<'_, u32>,
    values: View<'_, u32>,
    options: &Options,
) -> Result<Box<dyn ListTable>> {
    let (n, load) = lists::check(keys, values, options, (kind.default_load(), kind.max_load()))?;
    let (device, all) = (stream.device(), n as usize);
    let (mut sorted_keys, mut sorted_values) =
        (device.alloc::<u32>(all)?, device.alloc::<u32>(all)?);
    let (mut heads, mut numbers) = (device.alloc::<u32>(all)?, device.alloc::<u32>(all)?);
    let mut scan = Scan::new(device, all)?;
    let ((), sorting) = stream.time(|| {
        primitives::sort_pairs(
            stream,
            keys,
            values,
            sorted_keys.view_mut(),
            sorted_values.view_mut(),
        )?;
        {
            let grid = n.div_ceil(multi_value_heads::SPEC.threads);
            let (keys, heads) =
                (sorted_keys.view().arg("keys", stream)?, heads.view_mut().arg("heads", stream)?);
            // SAFETY: `n` keys and marks.
            unsafe { multi_value_heads::launch(stream, grid, keys, n, heads) }?;
        }
        scan.exclusive(stream, heads.view(), numbers.view_mut())
    })?;
    let distinct = if n == 0 { 0 } else { scan.total().download()?[0] };
    let (mut unique, mut ids) =
        (device.alloc::<u32>(distinct as usize)?, device.alloc::<u32>(distinct as usize)?);
    let mut places = device.alloc::<u32>(distinct as usize + 1)?;
    let ((), listing) = stream.time(|| {
        // At least one block, which writes the end of the last key.
        let grid = n.div_ceil(multi_value_list::SPEC.threads).max(1);
        let (keys, heads) =
            (sorted_keys.view().arg("keys", stream)?, heads.view().arg("heads", stream)?);
        let numbers = numbers.view().arg("numbers", stream)?;
        let out = DistinctOut {
            keys: unique.view_mut().arg("unique", stream)?,
            ids: ids.view_mut().arg("ids", stream)?,
            places: places.view_mut().arg("places", stream)?,
            count: distinct,
        };
        // SAFETY: `n` keys, marks and numbers; the numbers are below `distinct`, and `places` has
        // one element more.
        unsafe { multi_value_list::launch(stream, grid, keys, n, heads, numbers, out) }
    })?;
    let options = options.clone().with_load(Some(load)).with_duplicates(Duplicates::Unchecked);
    let numbers = kind.build(stream, unique.view(), ids.view(), &options)?;
    let mut report = numbers.report().clone();
    report.duplicates = all - distinct as usize;
    report.bytes += places.bytes() + sorted_values.bytes();
    report.device_seconds += sorting + listing;
    Ok(Box::new(SortedMultiTable { numbers, places, values: sorted_values, report }))
}

impl ListTable for SortedMultiTable {
    fn report(&self) -> &SchemeReport {
        &self.report
    }
    fn list(&self) -> View<'_, u32> {
        self.values.view()
    }
    fn get_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        mut starts: ViewMut<'_, u32>,
        mut counts: ViewMut<'_, u32>,
    ) -> Result<()> {
        lists::find_args(stream, &queries, &mut starts, &mut counts)?;
        let mut found = stream.device().alloc::<u8>(queries.len())?;
        self.numbers.get_into(stream, queries, starts.reborrow(), found.view_mut())?;
        let ListQueries { n, starts, counts, .. } =
            lists::find_args(stream, &queries, &mut starts, &mut counts)?;
        let (found, places) =
            (found.view().arg("found", stream)?, self.places.view().arg("places", stream)?);
        let grid = n.div_ceil(multi_value_places::SPEC.threads);
        // SAFETY: `n` queries and answers; the numbers are those of distinct keys, and `places` has
        // one element more.
        unsafe { multi_value_places::launch(stream, grid, n, found, places, starts, counts) }
    }
}

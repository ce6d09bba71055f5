//! The baseline of all the papers: pairs sorted by a radix sort, found by binary search.
//!
//! Memory: 8 bytes per pair. A lookup reads about `lg n` keys.
use super::duplicates::{self, Distinct};
use super::{Duplicates, Kind, Options, SchemeReport, Table, find_args, input};
use koel::{Result, Stream, View, ViewMut};
use koel_classic_kernels::sorted::sorted_find;

/// Sorted array: radix sort and binary search.
#[derive(Clone, Copy, Debug)]
pub struct Sorted;

struct SortedTable {
    pairs: Distinct,
    report: SchemeReport,
}

impl Kind for Sorted {
    fn name(&self) -> &'static str {
        "sorted"
    }
    fn about(&self) -> &'static str {
        "the yardstick: radix sort, then binary search"
    }
    fn default_load(&self) -> f64 {
        1.0
    }
    fn max_load(&self) -> f64 {
        1.0
    }
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn Table>> {
        // The load factor is ignored: there are no empty slots.
        input::check(self, keys, values, &options.clone().with_load(None))?;
        let (pairs, device_seconds) = match options.duplicates {
            // Equal keys stay, adjacent; a search finds one of them.
            Duplicates::Unchecked => {
                stream.time(|| duplicates::sort_pairs(stream, keys, values))?
            }
            policy => stream.time(|| duplicates::resolve(stream, keys, values, policy))?,
        };
        let report = SchemeReport {
            pairs: pairs.len(),
            slots: pairs.len(),
            bytes: 8 * pairs.len(),
            attempts: 1,
            duplicates: pairs.dropped,
            family: "none",
            device_seconds,
            ..SchemeReport::default()
        };
        Ok(Box::new(SortedTable { pairs, report }))
    }
}

impl Table for SortedTable {
    fn report(&self) -> &SchemeReport {
        &self.report
    }
    fn get_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        mut values: ViewMut<'_, u32>,
        mut found: ViewMut<'_, u8>,
    ) -> Result<()> {
        let args = find_args(stream, &queries, &mut values, &mut found)?;
        let grid = args.n.div_ceil(sorted_find::SPEC.threads);
        let pairs = self.pairs.pairs().arg(stream)?;
        // SAFETY: `n` queries and answers; `pairs.n` sorted keys with their values.
        unsafe { sorted_find::launch(stream, grid, pairs, args) }
    }
}

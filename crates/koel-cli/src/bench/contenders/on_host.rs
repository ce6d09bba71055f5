//! Baselines in host memory behind the interface of all tables.
use koel::device::Element;
use koel::{Error, Stream, View, ViewMut};
use koel_classic::{Kind, Options, SchemeReport, Table};
use rayon::prelude::*;
use std::marker::PhantomData;

/// A hash table in host memory.
pub(super) trait HostTable: Send + Sync + Sized + 'static {
    /// Its name on the command line.
    const NAME: &'static str;
    /// What it is, in one line.
    const ABOUT: &'static str;
    /// Builds a table from as many keys as values.
    fn of(keys: &[u32], values: &[u32]) -> Self;
    /// Reports its pairs, slots and bytes.
    fn report(&self) -> SchemeReport;
    /// Looks up a key.
    fn get(&self, key: u32) -> Option<u32>;
}

/// The kind of such a table.
pub(super) struct OnHost<T>(pub PhantomData<T>);
/// A table and its report.
struct Standing<T> {
    table: T,
    report: SchemeReport,
}

impl<T: HostTable> Kind for OnHost<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }
    fn about(&self) -> &'static str {
        T::ABOUT
    }
    fn default_load(&self) -> f64 {
        0.875
    }
    /// Any load is accepted; the actual one follows from the powers of two of the slots.
    fn max_load(&self) -> f64 {
        1.0
    }
    fn build(
        &self,
        _: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        _: &Options,
    ) -> koel::Result<Box<dyn Table>> {
        let (keys, values) = (on_host("keys", keys)?, on_host("values", values)?);
        check_length("values", values.len(), "keys", keys.len())?;
        let table = T::of(keys, values);
        let report = table.report();
        let duplicates = keys.len() - report.pairs;
        let report = SchemeReport { duplicates, attempts: 1, family: "FxHash", ..report };
        Ok(Box::new(Standing { table, report }))
    }
}

impl<T: HostTable> Table for Standing<T> {
    fn report(&self) -> &SchemeReport {
        &self.report
    }
    /// Looks up each query, on all threads.
    fn get_into(
        &self,
        _: &Stream,
        queries: View<'_, u32>,
        mut values: ViewMut<'_, u32>,
        mut found: ViewMut<'_, u8>,
    ) -> koel::Result<()> {
        /// Queries per task: enough to hide rayon's overhead, few enough to balance the load.
        const CHUNK: usize = 1 << 12;
        let queries = on_host("queries", queries)?;
        let values = on_host_mut("values", &mut values)?;
        let found = on_host_mut("found", &mut found)?;
        for (name, length) in [("values", values.len()), ("found", found.len())] {
            check_length(name, length, "queries", queries.len())?;
        }
        let chunks = queries
            .par_chunks(CHUNK)
            .zip(values.par_chunks_mut(CHUNK))
            .zip(found.par_chunks_mut(CHUNK));
        chunks.for_each(|((queries, values), found)| {
            for ((&query, value), found) in queries.iter().zip(values).zip(found) {
                let answer = self.table.get(query);
                *found = answer.is_some().into();
                *value = answer.unwrap_or(0);
            }
        });
        Ok(())
    }
}

/// Returns the elements of a view in host memory.
fn on_host<'a, T: Element>(name: &'static str, view: View<'a, T>) -> koel::Result<&'a [T]> {
    view.host().ok_or_else(|| not_on_host(name, view.device().name()))
}
/// Returns the elements of a mutable view in host memory.
fn on_host_mut<'a, T: Element>(
    name: &'static str,
    view: &'a mut ViewMut<'_, T>,
) -> koel::Result<&'a mut [T]> {
    let device = view.device().name();
    view.host_mut().ok_or_else(|| not_on_host(name, device))
}
fn not_on_host(name: &'static str, found: String) -> Error {
    Error::WrongDevice { name, found, expected: "the host".into() }
}
fn check_length(
    name: &'static str,
    found: usize,
    other: &'static str,
    expected: usize,
) -> koel::Result<()> {
    match found == expected {
        true => Ok(()),
        false => Err(Error::Length { name, found, other, expected }),
    }
}

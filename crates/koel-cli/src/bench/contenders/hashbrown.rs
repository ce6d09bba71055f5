//! hashbrown, the hash table of Rust's standard library, with rustc's hash function.
use super::{find_each, on_host};
use ::hashbrown::HashMap;
use koel::{Error, Stream, View, ViewMut};
use koel_classic::{Kind, Options, SchemeReport, Table};
use rustc_hash::FxBuildHasher;

pub(super) type Map = HashMap<u32, u32, FxBuildHasher>;

/// Built by one thread, as it must be; queried by all.
pub(super) struct Hashbrown;
struct HashbrownTable {
    map: Map,
    report: SchemeReport,
}

impl Kind for Hashbrown {
    fn name(&self) -> &'static str {
        "hashbrown"
    }
    fn about(&self) -> &'static str {
        "hashbrown with FxHash: one thread builds, all threads look up"
    }
    fn default_load(&self) -> f64 {
        0.875
    }
    /// Any load is accepted; the actual one follows from the power of two of the slots.
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
        let (keys, values) = pairs(keys, values)?;
        let mut map = Map::with_capacity_and_hasher(keys.len(), FxBuildHasher);
        map.extend(keys.iter().copied().zip(values.iter().copied()));
        let report = SchemeReport {
            duplicates: keys.len() - map.len(),
            ..report_of(std::slice::from_ref(&map))
        };
        Ok(Box::new(HashbrownTable { map, report }))
    }
}

impl Table for HashbrownTable {
    fn report(&self) -> &SchemeReport {
        &self.report
    }
    fn get_into(
        &self,
        _: &Stream,
        queries: View<'_, u32>,
        values: ViewMut<'_, u32>,
        found: ViewMut<'_, u8>,
    ) -> koel::Result<()> {
        find_each(queries, values, found, |query| self.map.get(&query).copied())
    }
}

/// Returns equally many keys and values in host memory.
pub(super) fn pairs<'a>(
    keys: View<'a, u32>,
    values: View<'a, u32>,
) -> koel::Result<(&'a [u32], &'a [u32])> {
    let (keys, values) = (on_host("keys", keys)?, on_host("values", values)?);
    match keys.len() == values.len() {
        true => Ok((keys, values)),
        false => Err(Error::Length {
            name: "values",
            found: values.len(),
            other: "keys",
            expected: keys.len(),
        }),
    }
}

/// Returns the report of a table made of these maps.
pub(super) fn report_of(maps: &[Map]) -> SchemeReport {
    SchemeReport {
        pairs: maps.iter().map(Map::len).sum(),
        slots: maps.iter().map(|map| slots_of(map.capacity())).sum(),
        bytes: maps.iter().map(Map::allocation_size).sum(),
        attempts: 1,
        family: "FxHash",
        ..SchemeReport::default()
    }
}

/// Returns the slots for a capacity. hashbrown's capacity is 7/8 of its slots, or all but one of
/// fewer than 8; an empty table has none.
pub(super) fn slots_of(capacity: usize) -> usize {
    match capacity {
        0 => 0,
        1..8 => (capacity + 1).next_power_of_two(),
        _ => capacity / 7 * 8,
    }
}

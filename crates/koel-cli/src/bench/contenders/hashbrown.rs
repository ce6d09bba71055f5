//! hashbrown, the hash table of Rust's standard library, with rustc's hash function.
use super::on_host::HostTable;
use ::hashbrown::HashMap;
use koel_classic::SchemeReport;
use rustc_hash::FxBuildHasher;

/// Built by one thread, as it must be; queried by all.
pub(super) type Map = HashMap<u32, u32, FxBuildHasher>;

impl HostTable for Map {
    const NAME: &'static str = "hashbrown";
    const ABOUT: &'static str = "hashbrown with FxHash: one thread builds, all threads look up";
    fn of(keys: &[u32], values: &[u32]) -> Map {
        let mut map = Map::with_capacity_and_hasher(keys.len(), FxBuildHasher);
        map.extend(keys.iter().copied().zip(values.iter().copied()));
        map
    }
    fn report(&self) -> SchemeReport {
        report_of(std::slice::from_ref(self))
    }
    fn get(&self, key: u32) -> Option<u32> {
        HashMap::get(self, &key).copied()
    }
}

/// Returns the report of a table made of these maps.
pub(super) fn report_of(maps: &[Map]) -> SchemeReport {
    SchemeReport {
        pairs: maps.iter().map(Map::len).sum(),
        slots: maps.iter().map(|map| slots_of(map.capacity())).sum(),
        bytes: maps.iter().map(Map::allocation_size).sum(),
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

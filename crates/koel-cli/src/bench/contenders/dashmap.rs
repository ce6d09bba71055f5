//! dashmap, a widely used concurrent hash table in Rust: shards with locks.
use super::find_each;
use super::hashbrown::{pairs, slots_of};
use ::dashmap::DashMap;
use koel::{Stream, View, ViewMut};
use koel_classic::{Kind, Options, SchemeReport, Table};
use rayon::prelude::*;
use rustc_hash::FxBuildHasher;

pub(super) const NAME: &str = "dashmap";

/// Built and queried by all threads.
pub(super) struct Dashmap;
struct DashmapTable {
    map: DashMap<u32, u32, FxBuildHasher>,
    report: SchemeReport,
}

impl Kind for Dashmap {
    fn name(&self) -> &'static str {
        NAME
    }
    fn about(&self) -> &'static str {
        "dashmap with FxHash, built and queried by all threads"
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
        let (keys, values) = pairs(keys, values)?;
        let map = DashMap::with_capacity_and_hasher(keys.len(), FxBuildHasher);
        keys.par_iter().zip(values).with_min_len(1 << 10).for_each(|(&key, &value)| {
            map.insert(key, value);
        });
        // dashmap reports only its capacity, summed over the shards; exact from 8 slots per shard.
        let slots = slots_of(map.capacity());
        let report = SchemeReport {
            pairs: map.len(),
            slots,
            bytes: slots * (size_of::<(u32, u32)>() + 1),
            attempts: 1,
            duplicates: keys.len() - map.len(),
            family: "FxHash",
            ..SchemeReport::default()
        };
        Ok(Box::new(DashmapTable { map, report }))
    }
}

impl Table for DashmapTable {
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
        find_each(queries, values, found, |query| self.map.get(&query).map(|pair| *pair.value()))
    }
}

//! dashmap, a widely used concurrent hash table in Rust: shards with locks.
use super::hashbrown::slots_of;
use super::on_host::HostTable;
use ::dashmap::DashMap;
use koel_classic::SchemeReport;
use rayon::prelude::*;
use rustc_hash::FxBuildHasher;

/// Built and queried by all threads.
pub(super) type Map = DashMap<u32, u32, FxBuildHasher>;

impl HostTable for Map {
    const NAME: &'static str = "dashmap";
    const ABOUT: &'static str = "dashmap with FxHash, built and queried by all threads";
    fn of(keys: &[u32], values: &[u32]) -> Map {
        let map = Map::with_capacity_and_hasher(keys.len(), FxBuildHasher);
        keys.par_iter().zip(values).with_min_len(1 << 10).for_each(|(&key, &value)| {
            map.insert(key, value);
        });
        map
    }
    fn report(&self) -> SchemeReport {
        // dashmap reports only its capacity, summed over the shards; exact from 8 slots per shard.
        let slots = slots_of(self.capacity());
        let bytes = slots * (size_of::<(u32, u32)>() + 1);
        SchemeReport { pairs: self.len(), slots, bytes, ..SchemeReport::default() }
    }
    fn get(&self, key: u32) -> Option<u32> {
        DashMap::get(self, &key).map(|pair| *pair.value())
    }
}

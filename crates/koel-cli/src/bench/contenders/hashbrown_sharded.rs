//! Sixty-four hashbrown tables, selected by bits of the hash and built in parallel.
use super::hashbrown::{Map, report_of};
use super::on_host::HostTable;
use koel_classic::SchemeReport;
use rayon::prelude::*;
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher;

const SHARDS: usize = 64;

/// The simplest parallel build of a hash table: partition the pairs by shard, then build each shard
/// on one thread.
pub(super) struct Shards(Vec<Map>);

/// Uses high bits except the top seven, which a hashbrown table compares as its tags.
fn shard_of(key: u32) -> usize {
    (FxBuildHasher.hash_one(key) >> 51) as usize % SHARDS
}

impl HostTable for Shards {
    const NAME: &'static str = "hashbrown-sharded";
    const ABOUT: &'static str = "64 hashbrown tables with FxHash, built and queried by all threads";
    fn of(keys: &[u32], values: &[u32]) -> Shards {
        let chunk = keys.len().div_ceil(rayon::current_num_threads()).max(1);
        let parted = |(keys, values): (&[u32], &[u32])| {
            let room = keys.len() / SHARDS * 9 / 8 + 8;
            let mut parts = (0..SHARDS).map(|_| Vec::with_capacity(room)).collect::<Vec<_>>();
            for (&key, &value) in keys.iter().zip(values) {
                parts[shard_of(key)].push((key, value));
            }
            parts
        };
        let parted =
            keys.par_chunks(chunk).zip(values.par_chunks(chunk)).map(parted).collect::<Vec<_>>();
        let shard = |i: usize| {
            let pairs = parted.iter().map(|parts| parts[i].len()).sum();
            let mut map = Map::with_capacity_and_hasher(pairs, FxBuildHasher);
            for parts in &parted {
                map.extend(parts[i].iter().copied());
            }
            map
        };
        Shards((0..SHARDS).into_par_iter().map(shard).collect())
    }
    fn report(&self) -> SchemeReport {
        report_of(&self.0)
    }
    fn get(&self, key: u32) -> Option<u32> {
        self.0[shard_of(key)].get(&key).copied()
    }
}

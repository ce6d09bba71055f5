//! Sixty-four hashbrown tables, selected by bits of the hash and built in parallel.
use super::find_each;
use super::hashbrown::{Map, pairs, report_of};
use koel::{Stream, View, ViewMut};
use koel_classic::{Kind, Options, SchemeReport, Table};
use rayon::prelude::*;
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher;

const SHARDS: usize = 64;

/// The simplest parallel build of a hash table: partition the pairs by shard, then build each shard
/// on one thread.
pub(super) struct HashbrownSharded;
struct Shards {
    shards: Vec<Map>,
    report: SchemeReport,
}

/// Uses high bits except the top seven, which a hashbrown table compares as its tags.
fn shard_of(key: u32) -> usize {
    (FxBuildHasher.hash_one(key) >> 51) as usize % SHARDS
}

impl Kind for HashbrownSharded {
    fn name(&self) -> &'static str {
        "hashbrown-sharded"
    }
    fn about(&self) -> &'static str {
        "64 hashbrown tables with FxHash, built and queried by all threads"
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
        let shards = (0..SHARDS).into_par_iter().map(shard).collect::<Vec<Map>>();
        let report = report_of(&shards);
        let report = SchemeReport { duplicates: keys.len() - report.pairs, ..report };
        Ok(Box::new(Shards { shards, report }))
    }
}

impl Table for Shards {
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
        find_each(queries, values, found, |query| self.shards[shard_of(query)].get(&query).copied())
    }
}

//! Lookups and changes of one key after the other in host memory, beside hashbrown with the hash
//! function of rustc, in one run on one thread: one JSON line each.
//!
//!     cargo run --release -p koel-rates --bin one_key_rates -- 1000 2^20
//!
//! `ns`: nanoseconds per key, the median of 7 runs after 2 warm-up runs, each of 2^20 keys or more
//! in an order of its own. `of_hashbrown`: the time divided by hashbrown's for the same keys. What
//! is found, or the sum of all values afterwards, is compared.
//!
//! Lookups: `ref_get`, of a [`HostMapRef`](koel::map::HostMapRef); `get`, of a [`HostMap`];
//! `batch_get`, [`Map::get`] of all queries at once on one thread. Changes: `assign`, insertions of
//! keys that are present; `count`, [`HostMap::entry`] of these; `replace`, a removal of one and an
//! insertion of another key; `grow`, insertions into an empty map; `iterate`, all pairs.
use hashbrown::HashMap;
use koel::{Device, HostMap, Map, Result};
use koel_kernels::hash::mix::splitmix_at;
use koel_rates::{Arguments, RUNS, Times, decimals, print_provenance, repeat, row, seconds_of};
use rustc_hash::FxBuildHasher;
use std::hint::black_box;

fn main() -> Result<()> {
    let sizes = Arguments::read().sizes(&[100, 1000, 10_000, 100_000, 1_000_000, 10_000_000])?;
    let device = Device::cpu_with_threads(1)?;
    print_provenance(&device);
    for n in sizes {
        rates::<u32>(&device, "u32", n, |word| word as u32)?;
        rates::<u64>(&device, "u64", n, |word| word)?;
        rates::<u128>(&device, "u128", n, |word| u128::from(word) << 64 | 7)?;
    }
    Ok(())
}
fn rates<K: koel::Key + Eq + std::hash::Hash>(
    device: &Device,
    name: &str,
    n: usize,
    key: impl Fn(u64) -> K,
) -> Result<()> {
    let keys = |stream: u64| (0..n as u32).map(|i| key(splitmix_at(stream, i))).collect::<Vec<_>>();
    let (present, absent, values) = (keys(1), keys(2), (0..n as u32).collect::<Vec<_>>());
    let map = Map::build(device, &present, &values)?;
    let mut other = HashMap::with_capacity_and_hasher(n, FxBuildHasher);
    other.extend(present.iter().copied().zip(values));
    let mut owned = HostMap::try_from_iter(device, present.iter().copied().zip(0..))?;
    let host = map.host()?;
    let asked = n.max(1 << 20);
    let row = |of: (&str, &str), hashbrown: f64, times: Times, verified: bool| {
        row![
            ("op", of.0),
            ("key", name),
            ("n", n),
            ("queries", of.1),
            ("ns", decimals(times.median, 2)),
            ("ns_min", decimals(times.min, 2)),
            ("ns_max", decimals(times.max, 2)),
            ("of_hashbrown", decimals(times.median / hashbrown, 3)),
            ("verified", verified)
        ]
        .print();
    };
    let in_order = |of: &[K]| {
        let queries = (0..asked as u32).map(|i| of[(splitmix_at(3, i) % n as u64) as usize]);
        queries.collect::<Vec<_>>()
    };
    for (kind, of) in [("present", &present), ("absent", &absent)] {
        let queries = in_order(of);
        let sum = |found: &mut dyn Iterator<Item = Option<u32>>| {
            found.flatten().fold(0u64, |sum, value| sum + u64::from(value))
        };
        let expected = sum(&mut queries.iter().map(|key| other.get(key).copied()));
        let fold = |sum: u64, value: Option<u32>| sum + u64::from(value.unwrap_or(0));
        let time = |op: &str, hashbrown: Option<f64>, run: &dyn Fn() -> Result<u64>| {
            let mut verified = true;
            let [times] = repeat(RUNS, || {
                let (found, seconds) = seconds_of(run)?;
                verified &= found == expected;
                Result::Ok([seconds / asked as f64 * 1e9])
            })?;
            row((op, kind), hashbrown.unwrap_or(times.median), times, verified);
            Result::Ok(times.median)
        };
        let of_other = || Ok(queries.iter().fold(0, |sum, key| fold(sum, other.get(key).copied())));
        let hashbrown = Some(time("hashbrown", None, &of_other)?);
        let of_ref = || Ok(queries.iter().fold(0, |sum, &key| fold(sum, host.get(key))));
        time("ref_get", hashbrown, &of_ref)?;
        let of_owned = || Ok(queries.iter().fold(0, |sum, &key| fold(sum, owned.get(key))));
        time("get", hashbrown, &of_owned)?;
        time("batch_get", hashbrown, &|| Ok(sum(&mut map.get(&queries)?.into_iter())))?;
    }
    let queries = in_order(&present);
    let total = |values: &mut dyn Iterator<Item = u32>| {
        values.fold(0u64, |sum, value| sum + u64::from(value))
    };
    // Each change is made by hashbrown, then by koel, in turn.
    let mut change =
        |op: &str,
         asked: usize,
         of_other: &mut dyn FnMut(&mut HashMap<K, u32, FxBuildHasher>),
         of_owned: &mut dyn FnMut(&mut HostMap<K, u32>) -> Result<()>| {
            let mut verified = true;
            let [hashbrown, koel] = repeat(RUNS, || {
                let (_, a) = seconds_of(|| {
                    of_other(&mut other);
                    Result::Ok(())
                })?;
                let (_, b) = seconds_of(|| of_owned(&mut owned))?;
                let expected = (other.len(), total(&mut other.values().copied()));
                verified &= expected == (owned.len(), total(&mut owned.values()));
                Result::Ok([a, b].map(|seconds| seconds / asked as f64 * 1e9))
            })?;
            row(("hashbrown", op), hashbrown.median, hashbrown, verified);
            row(("koel", op), hashbrown.median, koel, verified);
            Result::Ok(())
        };
    change(
        "assign",
        asked,
        &mut |map| (0..).zip(&queries).for_each(|(i, &key)| _ = map.insert(key, i)),
        &mut |map| (0..).zip(&queries).try_for_each(|(i, &key)| map.insert(key, i).map(drop)),
    )?;
    change(
        "count",
        asked,
        &mut |map| {
            for &key in &queries {
                map.entry(key).and_modify(|count| *count = count.wrapping_add(1)).or_insert(1);
            }
        },
        &mut |map| {
            for &key in &queries {
                let entry = map.entry(key).and_modify(|count| *count = count.wrapping_add(1));
                entry.or_insert(1)?;
            }
            Ok(())
        },
    )?;
    // Back and forth, so that the maps are as before.
    let ways = [(&present, &absent), (&absent, &present)];
    change(
        "replace",
        4 * n,
        &mut |map| {
            for (&from, &to) in ways.iter().flat_map(|(from, to)| from.iter().zip(*to)) {
                let value = map.remove(&from);
                map.insert(to, value.unwrap_or(0));
            }
        },
        &mut |map| {
            for (&from, &to) in ways.iter().flat_map(|(from, to)| from.iter().zip(*to)) {
                let value = map.remove(from);
                map.insert(to, value.unwrap_or(0))?;
            }
            Ok(())
        },
    )?;
    change(
        "grow",
        n,
        &mut |map| {
            *map = HashMap::default();
            present.iter().for_each(|&key| _ = map.insert(key, 1));
        },
        &mut |map| {
            *map = HostMap::new(device)?;
            present.iter().try_for_each(|&key| map.insert(key, 1).map(drop))
        },
    )?;
    change("iterate", n, &mut |map| _ = black_box(total(&mut map.values().copied())), &mut |map| {
        Ok(_ = black_box(total(&mut map.values())))
    })
}

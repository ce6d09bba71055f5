//! Lookups of one key after the other in host memory, beside hashbrown with the hash function of
//! rustc, in one run on one thread: one JSON line each.
//!
//!     cargo run --release -p koel-rates --bin one_key_rates -- 1000 2^20
//!
//! `ns`: nanoseconds per lookup, the median of 7 runs after 2 warm-up runs, each of 2^20 lookups or
//! more in an order of its own. `of_hashbrown`: the time divided by hashbrown's for the same keys.
//! Operations: `host_get`, [`HostMap::get`](koel::map::HostMap::get); `batch_get`, [`Map::get`] of
//! all queries at once on one thread. The sum of all values found is compared.
use hashbrown::HashMap;
use koel::{Device, Map, Result};
use koel_kernels::hash::mix::splitmix_at;
use koel_rates::{Arguments, RUNS, decimals, print_provenance, repeat, row, seconds_of};
use rustc_hash::FxBuildHasher;

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
    let host = map.host()?;
    let asked = n.max(1 << 20);
    for (kind, of) in [("present", &present), ("absent", &absent)] {
        let queries = (0..asked as u32)
            .map(|i| of[(splitmix_at(3, i) % n as u64) as usize])
            .collect::<Vec<_>>();
        let sum = |found: &mut dyn Iterator<Item = Option<u32>>| {
            found.flatten().fold(0u64, |sum, value| sum + u64::from(value))
        };
        let expected = sum(&mut queries.iter().map(|key| other.get(key).copied()));
        let mut verified = true;
        let mut time = |run: &dyn Fn() -> Result<u64>| {
            let [times] = repeat(RUNS, || {
                let (found, seconds) = seconds_of(run)?;
                verified &= found == expected;
                Result::Ok([seconds / asked as f64 * 1e9])
            })?;
            Result::Ok(times)
        };
        let fold = |sum: u64, value: Option<u32>| sum + u64::from(value.unwrap_or(0));
        let hashbrown =
            time(&|| Ok(queries.iter().fold(0, |sum, key| fold(sum, other.get(key).copied()))))?;
        let one = time(&|| Ok(queries.iter().fold(0, |sum, &key| fold(sum, host.get(key)))))?;
        let batch = time(&|| Ok(sum(&mut map.get(&queries)?.into_iter())))?;
        for (op, ns) in [("hashbrown", hashbrown), ("host_get", one), ("batch_get", batch)] {
            row![
                ("op", op),
                ("key", name),
                ("n", n),
                ("queries", kind),
                ("ns", decimals(ns.median, 2)),
                ("ns_min", decimals(ns.min, 2)),
                ("ns_max", decimals(ns.max, 2)),
                ("of_hashbrown", decimals(ns.median / hashbrown.median, 3)),
                ("verified", verified)
            ]
            .print();
        }
    }
    Ok(())
}

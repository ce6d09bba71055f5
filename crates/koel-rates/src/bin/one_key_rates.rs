//! Lookups and changes of one key after the other in host memory, beside hashbrown with the hash
//! function of rustc, in one run on one thread: one JSON line each.
//!
//!     cargo run --release -p koel-rates --bin one_key_rates -- 1000 2^20
//!
//! `ns`: nanoseconds per key, the median of 7 runs after 2 warm-up runs, each of 2^20 keys or more
//! in an order of its own. `of_hashbrown`: the time divided by hashbrown's for the same keys. What
//! is found, or the sum of all values afterwards, is compared.
//!
//! Lookups: `get`, of a [`HostMap`]; `get_many`, of all queries at once; `ref_get`, of a
//! [`HostMapRef`](koel::map::HostMapRef); `batch_get`, [`Map::get`] of all queries at once on one
//! thread. Changes: `assign`, insertions of keys that are present; `count`, [`HostMap::entry`] of
//! these; `replace`, a removal of one and an insertion of another key; `churn`, of a tenth of the
//! keys at a time; `grow`, insertions into an empty map; `stream`, 1,024 at a time; `extend`, all
//! at once; `iterate`, all pairs. `bytes_of_hashbrown`: the memory of such a map, by hashbrown's.
use hashbrown::HashMap;
use koel::{Device, HostMap, Map, Result};
use koel_kernels::hash::mix::splitmix_at;
use koel_rates::{Arguments, RUNS, Times, decimals, print_provenance, repeat, row, seconds_of};
use rustc_hash::FxBuildHasher;
use std::hash::Hash;
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
fn rates<K: koel::Key + Eq + Hash>(
    device: &Device,
    name: &'static str,
    n: usize,
    key: impl Fn(u64) -> K,
) -> Result<()> {
    let keys = |stream: u64| (0..n as u32).map(|i| key(splitmix_at(stream, i))).collect::<Vec<_>>();
    let maps = Maps { name, device, present: keys(1), absent: keys(2), asked: n.max(1 << 20) };
    maps.lookups()?;
    maps.changes()?;
    maps.growth()
}
/// Keys of the maps that are compared.
struct Maps<'d, K> {
    name: &'static str,
    device: &'d Device,
    present: Vec<K>,
    absent: Vec<K>,
    /// Number of queries.
    asked: usize,
}
type Other<K> = HashMap<K, u32, FxBuildHasher>;
impl<K: koel::Key + Eq + Hash> Maps<'_, K> {
    /// Returns a map of the present keys, in their order.
    fn other(&self) -> Other<K> {
        let mut map = HashMap::with_capacity_and_hasher(self.present.len(), FxBuildHasher);
        map.extend(self.present.iter().copied().zip(0..));
        map
    }
    fn owned(&self) -> Result<HostMap<K, u32>> {
        HostMap::try_from_iter(self.present.iter().copied().zip(0..))
    }
    /// Returns these keys in an order of its own, some of them several times.
    fn queries(&self, of: &[K]) -> Vec<K> {
        let at = |i: u32| (splitmix_at(3, i) % of.len() as u64) as usize;
        (0..self.asked as u32).map(|i| of[at(i)]).collect()
    }
    fn row(&self, op: &str, queries: &str, hashbrown: f64, times: Times, verified: bool) {
        row![
            ("op", op),
            ("key", self.name),
            ("n", self.present.len()),
            ("queries", queries),
            ("ns", decimals(times.median, 2)),
            ("ns_min", decimals(times.min, 2)),
            ("ns_max", decimals(times.max, 2)),
            ("of_hashbrown", decimals(times.median / hashbrown, 3)),
            ("verified", verified)
        ]
        .print();
    }
    fn lookups(&self) -> Result<()> {
        let values = (0..self.present.len() as u32).collect::<Vec<_>>();
        let (map, other) = (Map::build(self.device, &self.present, &values)?, self.other());
        let (host, owned) = (map.host()?, self.owned()?);
        for (kind, of) in [("present", &self.present), ("absent", &self.absent)] {
            let queries = self.queries(of);
            let sum = |found: &mut dyn Iterator<Item = Option<u32>>| {
                found.flatten().fold(0u64, |sum, value| sum + u64::from(value))
            };
            let expected = sum(&mut queries.iter().map(|key| other.get(key).copied()));
            let time = |op: &str, hashbrown: Option<f64>, run: &dyn Fn() -> Result<u64>| {
                let mut verified = true;
                let [times] = repeat(RUNS, || {
                    let (found, seconds) = seconds_of(run)?;
                    verified &= found == expected;
                    Result::Ok([seconds / self.asked as f64 * 1e9])
                })?;
                self.row(op, kind, hashbrown.unwrap_or(times.median), times, verified);
                Result::Ok(times.median)
            };
            let fold = |sum: u64, value: Option<u32>| sum + u64::from(value.unwrap_or(0));
            let of_other = || {
                let found = |sum, key| fold(sum, other.get(key).copied());
                Ok(queries.iter().fold(0, found))
            };
            let hashbrown = Some(time("hashbrown", None, &of_other)?);
            let of_owned = || Ok(queries.iter().fold(0, |sum, &key| fold(sum, owned.get(key))));
            time("get", hashbrown, &of_owned)?;
            let of_many = || Ok(sum(&mut owned.get_many(&queries)?.into_iter()));
            time("get_many", hashbrown, &of_many)?;
            let of_ref = || Ok(queries.iter().fold(0, |sum, &key| fold(sum, host.get(key))));
            time("ref_get", hashbrown, &of_ref)?;
            time("batch_get", hashbrown, &|| Ok(sum(&mut map.get(&queries)?.into_iter())))?;
        }
        Ok(())
    }
    /// Makes a change by hashbrown, then by koel, in turn, and prints the times of `keys` keys.
    fn change(
        &self,
        (other, owned): (&mut Other<K>, &mut HostMap<K, u32>),
        (op, keys): (&str, usize),
        mut of_other: impl FnMut(&mut Other<K>),
        mut of_owned: impl FnMut(&mut HostMap<K, u32>) -> Result<()>,
    ) -> Result<()> {
        let mut verified = true;
        let [hashbrown, koel] = repeat(RUNS, || {
            let ((), a) = seconds_of(|| {
                of_other(other);
                Result::Ok(())
            })?;
            let ((), b) = seconds_of(|| of_owned(owned))?;
            let expected = (other.len(), total(&mut other.values().copied()));
            verified &= expected == (owned.len(), total(&mut owned.values()));
            Result::Ok([a, b].map(|seconds| seconds / keys as f64 * 1e9))
        })?;
        self.row("hashbrown", op, hashbrown.median, hashbrown, verified);
        self.row("koel", op, hashbrown.median, koel, verified);
        Ok(())
    }
    /// Changes maps of the present keys, which have the same number of keys afterwards.
    fn changes(&self) -> Result<()> {
        let (n, asked, queries) = (self.present.len(), self.asked, self.queries(&self.present));
        let (mut other, mut owned) = (self.other(), self.owned()?);
        self.change(
            (&mut other, &mut owned),
            ("assign", asked),
            |map| (0..).zip(&queries).for_each(|(i, &key)| _ = map.insert(key, i)),
            |map| (0..).zip(&queries).try_for_each(|(i, &key)| map.insert(key, i).map(drop)),
        )?;
        let add = |count: &mut u32| *count = count.wrapping_add(1);
        self.change(
            (&mut other, &mut owned),
            ("count", asked),
            |map| {
                queries.iter().for_each(|&key| _ = map.entry(key).and_modify(add).or_insert(1));
            },
            |map| {
                let mut all = queries.iter();
                all.try_for_each(|&key| map.entry(key).and_modify(add).or_insert(1).map(drop))
            },
        )?;
        // Back and forth, so that the maps are as before.
        let ways = [(&self.present, &self.absent), (&self.absent, &self.present)];
        let pairs = || ways.iter().flat_map(|(from, to)| from.iter().zip(*to));
        self.change(
            (&mut other, &mut owned),
            ("replace", 4 * n),
            |map| {
                for (&from, &to) in pairs() {
                    let value = map.remove(&from);
                    map.insert(to, value.unwrap_or(0));
                }
            },
            |map| {
                pairs().try_for_each(|(&from, &to)| {
                    let value = map.remove(from);
                    map.insert(to, value.unwrap_or(0)).map(drop)
                })
            },
        )?;
        let tenth = n.div_ceil(10);
        let parts = || {
            let parts = self.present.chunks(tenth).zip(self.absent.chunks(tenth));
            parts.flat_map(|(present, absent)| [(present, absent), (absent, present)])
        };
        self.change(
            (&mut other, &mut owned),
            ("churn", 4 * n),
            |map| {
                for (from, to) in parts() {
                    from.iter().for_each(|key| _ = map.remove(key));
                    map.extend(to.iter().map(|&key| (key, 1)));
                }
            },
            |map| {
                parts().try_for_each(|(from, to)| {
                    from.iter().for_each(|&key| _ = map.remove(key));
                    map.try_extend(to.iter().map(|&key| (key, 1)))
                })
            },
        )?;
        Ok(())
    }
    /// Fills empty maps, and reads and measures full ones.
    fn growth(&self) -> Result<()> {
        let n = self.present.len();
        let (mut other, mut owned) = (self.other(), self.owned()?);
        self.change(
            (&mut other, &mut owned),
            ("grow", n),
            |map| {
                *map = HashMap::default();
                self.present.iter().for_each(|&key| _ = map.insert(key, 1));
            },
            |map| {
                *map = HostMap::new();
                self.present.iter().try_for_each(|&key| map.insert(key, 1).map(drop))
            },
        )?;
        self.change(
            (&mut other, &mut owned),
            ("stream", n),
            |map| {
                *map = HashMap::default();
                let all = self.present.chunks(1024);
                all.for_each(|keys| map.extend(keys.iter().map(|&key| (key, 1))));
            },
            |map| {
                *map = HostMap::new();
                let mut all = self.present.chunks(1024);
                all.try_for_each(|keys| map.try_extend(keys.iter().map(|&key| (key, 1))))
            },
        )?;
        self.change(
            (&mut other, &mut owned),
            ("extend", n),
            |map| {
                *map = HashMap::default();
                map.extend(self.present.iter().map(|&key| (key, 1)));
            },
            |map| {
                *map = HostMap::new();
                map.try_extend(self.present.iter().map(|&key| (key, 1)))
            },
        )?;
        self.change(
            (&mut other, &mut owned),
            ("iterate", n),
            |map| _ = black_box(total(&mut map.values().copied())),
            |map| Ok(_ = black_box(total(&mut map.values()))),
        )?;
        let bytes = self.owned()?.bytes() as f64 / self.other().allocation_size() as f64;
        row![
            ("op", "memory"),
            ("key", self.name),
            ("n", n),
            ("bytes_of_hashbrown", decimals(bytes, 3))
        ]
        .print();
        Ok(())
    }
}
fn total(values: &mut dyn Iterator<Item = u32>) -> u64 {
    values.fold(0, |sum, value| sum + u64::from(value))
}

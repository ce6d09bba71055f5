//! Maps that threads share, beside dashmap, papaya and scc, in one run: one JSON line each.
//!
//! ```text
//! cargo run --release -p koel-rates --bin concurrent_map_rates -- threads=1,2 1000000
//! ```
//!
//! Keys are distinct words without a pattern, as many as the size says; each map holds all of them.
//! The others have the hash function of rustc. `reads`: the percentage of lookups; all other
//! operations replace the value of a present key. `keys`: drawn `uniform`, or by `zipf`'s law with
//! exponent 0.99. `mops`: million operations per second of all threads, the median of 5 runs after
//! 2 warm-up runs, each of 2^20 operations per thread; the maps take turns. `of_best`: divided by
//! that of the fastest other map in the row's setting.
//!
//! `koel_batch`: the same operations in batches of 1,024 keys, each batch of lookups or of changes.
//! Operation `fill`: insertion of all keys into an empty map without reserved room, once per run.
//! Every value found is verified.
use dashmap::DashMap;
use koel::{ConcurrentMap, Device, Result};
use koel_rates::{Arguments, decimals, print_provenance, random_word, repeat, row, unit};
use rustc_hash::FxBuildHasher;
use std::hash::Hash;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

const RUNS: usize = 5;
/// Operations of each thread in a run.
const OPERATIONS: usize = 1 << 20;
const BATCH: usize = 1024;
/// The maps, in the order of their turns.
const NAMES: [&str; 5] = ["koel", "koel_batch", "dashmap", "papaya", "scc"];
/// The first of the others.
const OTHERS: usize = 2;

/// What keys, and values, are.
trait Number: koel::types::SlotKey + koel::types::SlotValue + Hash + Eq {
    const NAME: &str;
    fn of(word: u64) -> Self;
    /// The other value of a key.
    fn flipped(self) -> Self;
}
impl Number for u32 {
    const NAME: &str = "u32";
    fn of(word: u64) -> u32 {
        (word as u32).wrapping_mul(0x9E37_79B1)
    }
    fn flipped(self) -> u32 {
        !self
    }
}
impl Number for u64 {
    const NAME: &str = "u64";
    fn of(word: u64) -> u64 {
        random_word(1, word)
    }
    fn flipped(self) -> u64 {
        !self
    }
}
/// A map as threads use it.
trait Shared<N: Number>: Sync + Sized {
    fn empty() -> Result<Self>;
    /// Looks keys up; of those marked, replaces the values. Returns whether all values were right.
    fn run(&self, keys: &[N], is_write: &[bool]) -> Result<bool>;
    /// Inserts keys.
    fn fill(&self, keys: &[N]) -> Result<()>;
}
fn is_right<N: Number>(key: N, value: Option<N>) -> bool {
    value.is_some_and(|value| value == key || value == key.flipped())
}
/// Implements [`Shared`] by a lookup and an insertion of one key.
macro_rules! one_key {
    ($(
        $map:ty: $new:expr, |$all:ident, $pinned:ident, $key:ident, $value:ident| $pin:expr,
            $get:expr, $set:expr;
    )+) => {
        $(impl<N: Number> Shared<N> for $map {
            fn empty() -> Result<Self> {
                Ok($new)
            }
            fn run(&self, keys: &[N], is_write: &[bool]) -> Result<bool> {
                let (mut is_verified, $all) = (true, self);
                let $pinned = $pin;
                for (&$key, &is_write) in keys.iter().zip(is_write) {
                    if is_write {
                        let $value = $key.flipped();
                        $set;
                    } else {
                        is_verified &= is_right($key, $get);
                    }
                }
                Ok(is_verified)
            }
            fn fill(&self, keys: &[N]) -> Result<()> {
                let $all = self;
                let $pinned = $pin;
                for &$key in keys {
                    let $value = $key;
                    $set;
                }
                Ok(())
            }
        })+
    };
}
type Fx = FxBuildHasher;
one_key! {
    ConcurrentMap<N, N>: ConcurrentMap::new()?, |all, map, key, value| all,
        map.get(key), black_box(map.insert(key, value)?);
    DashMap<N, N, Fx>: DashMap::default(), |all, map, key, value| all,
        map.get(&key).map(|v| *v), black_box(map.insert(key, value));
    papaya::HashMap<N, N, Fx>: papaya::HashMap::default(), |all, map, key, value| all.pin(),
        map.get(&key).copied(), { black_box(map.insert(key, value)); };
    scc::HashMap<N, N, Fx>: scc::HashMap::default(), |all, map, key, value| all,
        map.read_sync(&key, |_, v| *v), black_box(map.upsert_sync(key, value));
}
/// koel's batches.
struct Batches<N: Number>(ConcurrentMap<N, N>);
impl<N: Number> Shared<N> for Batches<N> {
    fn empty() -> Result<Self> {
        Ok(Batches(ConcurrentMap::new()?))
    }
    fn run(&self, keys: &[N], is_write: &[bool]) -> Result<bool> {
        if is_write[0] {
            let values = keys.iter().map(|key| key.flipped()).collect::<Vec<_>>();
            self.0.insert_many(keys, &values)?;
            return Ok(true);
        }
        let values = self.0.get_many(keys)?;
        Ok(keys.iter().zip(values).all(|(&key, value)| is_right(key, value)))
    }
    fn fill(&self, keys: &[N]) -> Result<()> {
        for keys in keys.chunks(BATCH) {
            self.0.insert_many(keys, keys)?;
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let threads = args.list("threads", "1,2", koel_rates::size)?;
    print_provenance(&Device::cpu_with_threads(threads.iter().copied().max().unwrap_or(1))?);
    for n in args.sizes(&[1_000_000])? {
        for &threads in &threads {
            rates::<u64>(n, threads)?;
            rates::<u32>(n, threads)?;
        }
    }
    Ok(())
}
/// Runs `work` on threads at the same time. Returns the seconds, and whether all were right.
fn on_threads(threads: usize, work: impl Fn(usize) -> Result<bool> + Sync) -> Result<(f64, bool)> {
    let barrier = Barrier::new(threads + 1);
    thread::scope(|scope| {
        let (barrier, work) = (&barrier, &work);
        let run = |thread| {
            scope.spawn(move || {
                barrier.wait();
                work(thread)
            })
        };
        let running = (0..threads).map(run).collect::<Vec<_>>();
        barrier.wait();
        let start = Instant::now();
        let mut is_right = true;
        for thread in running {
            is_right &= thread.join().expect("a thread of the measurement")?;
        }
        Ok((start.elapsed().as_secs_f64(), is_right))
    })
}
/// What all maps do in a row.
struct Setting<'a> {
    n: usize,
    threads: usize,
    op: &'a str,
    drawn: &'a str,
    reads: Option<u64>,
    operations: usize,
}
impl Setting<'_> {
    /// Measures all maps in turns and prints their rows.
    fn show<N: Number>(&self, mut run: impl FnMut(usize) -> Result<(f64, bool)>) -> Result<()> {
        let mut verified = [true; NAMES.len()];
        let times = repeat(RUNS, || {
            let mut seconds = [0.0; NAMES.len()];
            for map in 0..NAMES.len() {
                let (of_map, is_right) = run(map)?;
                seconds[map] = of_map;
                verified[map] &= is_right;
            }
            Result::Ok(seconds)
        })?;
        let best = times[OTHERS..].iter().map(|times| times.median).fold(f64::MAX, f64::min);
        for ((name, times), verified) in NAMES.iter().zip(times).zip(verified) {
            let mops = |seconds: f64| decimals(self.operations as f64 / seconds / 1e6, 2);
            row![
                ("op", self.op),
                ("map", name),
                ("key", N::NAME),
                ("n", self.n),
                ("threads", self.threads),
                ("keys", self.drawn),
                ("reads", self.reads),
                ("mops", mops(times.median)),
                ("mops_min", mops(times.max)),
                ("mops_max", mops(times.min)),
                ("of_best", decimals(best / times.median, 3)),
                ("verified", verified)
            ]
            .print();
        }
        Ok(())
    }
}
/// Returns the keys' numbers that a thread asks for.
fn drawn(n: usize, thread: usize, cumulative: Option<&[f64]>) -> Vec<usize> {
    let draw = |i: usize| {
        let word = random_word(7 + thread as u64, i as u64);
        match cumulative {
            None => (word % n as u64) as usize,
            Some(sums) => sums.partition_point(|&sum| sum < unit(word) * sums[n - 1]).min(n - 1),
        }
    };
    (0..OPERATIONS).map(draw).collect()
}
fn rates<N: Number>(n: usize, threads: usize) -> Result<()> {
    let all = (0..n as u64).map(N::of).collect::<Vec<_>>();
    let share = n.div_ceil(threads);
    let filling = |thread: usize| &all[(thread * share).min(n)..((thread + 1) * share).min(n)];
    let setting =
        |op, drawn, reads, operations| Setting { n, threads, op, drawn, reads, operations };
    fn fill<N: Number, M: Shared<N>>(parts: &[&[N]]) -> Result<(f64, bool)> {
        let map = M::empty()?;
        on_threads(parts.len(), |thread| map.fill(parts[thread]).map(|()| true))
    }
    let parts = (0..threads).map(filling).collect::<Vec<_>>();
    setting("fill", "all", None, n).show::<N>(|map| match map {
        0 => fill::<N, ConcurrentMap<N, N>>(&parts),
        1 => fill::<N, Batches<N>>(&parts),
        2 => fill::<N, DashMap<N, N, Fx>>(&parts),
        3 => fill::<N, papaya::HashMap<N, N, Fx>>(&parts),
        _ => fill::<N, scc::HashMap<N, N, Fx>>(&parts),
    })?;

    let koel = ConcurrentMap::<N, N>::empty()?;
    let batches = Batches::<N>::empty()?;
    let dashmap = DashMap::<N, N, Fx>::empty()?;
    let papaya = papaya::HashMap::<N, N, Fx>::empty()?;
    let scc = scc::HashMap::<N, N, Fx>::empty()?;
    koel.fill(&all)?;
    batches.fill(&all)?;
    dashmap.fill(&all)?;
    Shared::fill(&papaya, &all)?;
    scc.fill(&all)?;
    let sums = (1..=n).scan(0.0, |sum, rank| {
        *sum += (rank as f64).powf(-0.99);
        Some(*sum)
    });
    let sums = sums.collect::<Vec<_>>();
    for (name, sums) in [("uniform", None), ("zipf", Some(&*sums))] {
        let asked = (0..threads)
            .map(|thread| drawn(n, thread, sums).into_iter().map(|i| all[i]).collect::<Vec<_>>());
        let asked = asked.collect::<Vec<_>>();
        for reads in [90, 50, 0] {
            let is_write = |i: usize| random_word(3, i as u64) % 100 >= reads;
            let writes = (0..OPERATIONS).map(is_write).collect::<Vec<_>>();
            let of_batch = (0..OPERATIONS).map(|i| writes[i / BATCH]).collect::<Vec<_>>();
            fn run<N: Number>(
                map: &impl Shared<N>,
                asked: &[Vec<N>],
                writes: &[bool],
            ) -> Result<(f64, bool)> {
                on_threads(asked.len(), |thread| {
                    let batches = asked[thread].chunks(BATCH).zip(writes.chunks(BATCH));
                    let mut is_right = true;
                    for (keys, writes) in batches {
                        is_right &= map.run(keys, writes)?;
                    }
                    Ok(is_right)
                })
            }
            setting("mixed", name, Some(reads), OPERATIONS * threads).show::<N>(
                |map| match map {
                    0 => run(&koel, &asked, &writes),
                    1 => run(&batches, &asked, &of_batch),
                    2 => run(&dashmap, &asked, &writes),
                    3 => run(&papaya, &asked, &writes),
                    _ => run(&scc, &asked, &writes),
                },
            )?;
        }
    }
    Ok(())
}

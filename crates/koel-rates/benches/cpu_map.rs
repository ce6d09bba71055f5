//! The CPU engine of the flagship table, measured against the machine's limit and hashbrown in one
//! run.
//!
//! `cargo bench -p koel-rates --bench cpu_map -- [lg N,...] [load] [threads]`. `NO_PEERS=1` skips
//! hashbrown, `PIN=1` binds threads to cores, `PAIRINGS=u32-u32,u64-u64` selects the types of keys
//! and values (also `u32-u64`, `u64-u32`). Rates are in million operations per second, by wall
//! clock and, in brackets, by CPU time divided by the number of threads, which other load on the
//! machine disturbs less. Each is the best of several runs. Every answer is verified.
use koel::Device;
use koel::classic::Duplicates;
use koel::cpu::{Finder, How, Level, Pages, Scratch, Stash, build, map};
use koel_kernels::table::layout::{Layout, Narrow, Number, Shape, Wide};
use rayon::prelude::*;
use rustc_hash::FxBuildHasher;
use std::hash::{BuildHasher, Hash};
use std::time::Instant;

type Fx<L> = hashbrown::HashMap<<L as Layout>::Key, <L as Layout>::Value, FxBuildHasher>;

/// Pairs per partition, as on the GPU.
const PARTITION: f64 = 3600.0;

fn scramble(x: u32, seed: u32) -> u32 {
    let mut x = x ^ seed;
    x = (x ^ x >> 16).wrapping_mul(0x7FEB_352D);
    x = (x ^ x >> 15).wrapping_mul(0x846C_A68B);
    x ^ x >> 16
}
fn cpu_seconds() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is valid; the call writes the time to it.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

/// Binds each of the device's threads to a core.
fn pin_threads() {
    for entry in std::fs::read_dir("/proc/self/task").unwrap().map(Result::unwrap) {
        let name = std::fs::read_to_string(entry.path().join("comm")).unwrap();
        let Some(core) = name.trim().strip_prefix("koel-") else { continue };
        let thread = entry.file_name().to_string_lossy().parse::<i32>().unwrap();
        // SAFETY: a set of cores is plain bits, all zero when empty; the call only reads it.
        let pinned = unsafe {
            let mut cores = std::mem::zeroed::<libc::cpu_set_t>();
            libc::CPU_SET(core.parse().unwrap(), &mut cores);
            libc::sched_setaffinity(thread, size_of_val(&cores), &cores)
        };
        assert_eq!(pinned, 0, "{name} cannot be bound to its core");
    }
}

/// Best times in seconds: by wall clock, and by CPU time divided by `threads`.
struct Best {
    threads: usize,
    wall: f64,
    cpu: f64,
}
impl Best {
    fn of<R>(threads: usize, runs: usize, mut run: impl FnMut() -> R) -> Best {
        let mut best = Best { threads, wall: f64::MAX, cpu: f64::MAX };
        for _ in 0..runs {
            best.once(&mut run);
        }
        best
    }
    fn once<R>(&mut self, run: impl FnOnce() -> R) -> R {
        let (start, cpu) = (Instant::now(), cpu_seconds());
        let result = run();
        self.wall = self.wall.min(start.elapsed().as_secs_f64());
        self.cpu = self.cpu.min((cpu_seconds() - cpu) / self.threads as f64);
        result
    }
    fn rate(&self, n: usize) -> f64 {
        n as f64 / self.cpu / 1e6
    }
    fn show(&self, name: &str, n: usize) {
        println!("  {name:<28} {:7.1} [{:7.1}]", n as f64 / self.wall / 1e6, self.rate(n));
    }
}

/// Returns build options without a limit on the stash.
fn how(policy: Duplicates, reproducible: bool) -> How {
    How { policy, reproducible, most_stashed: usize::MAX }
}

fn main() {
    let arguments = std::env::args().skip(1).filter(|a| a != "--bench").collect::<Vec<_>>();
    let sizes = arguments
        .first()
        .map_or("22,24", String::as_str)
        .split(',')
        .map(|s| s.parse::<u32>().unwrap());
    let load = arguments.get(1).map_or(0.8, |s| s.parse::<f64>().unwrap());
    let device = match arguments.get(2) {
        Some(threads) => Device::cpu_with_threads(threads.parse().unwrap()).unwrap(),
        None => Device::cpu().unwrap(),
    };
    if std::env::var_os("PIN").is_some() {
        pin_threads();
    }
    let peers = std::env::var_os("NO_PEERS").is_none();
    let pairings = std::env::var("PAIRINGS").unwrap_or("u32-u32,u64-u64".into());
    for lg in sizes {
        for pairing in pairings.split(',') {
            println!("keys and values: {pairing}");
            match pairing {
                "u32-u32" => measure::<Narrow>(&device, 1 << lg, load, peers),
                "u32-u64" => measure::<Wide<u32, u64>>(&device, 1 << lg, load, peers),
                "u64-u32" => measure::<Wide<u64, u32>>(&device, 1 << lg, load, peers),
                _ => measure::<Wide<u64, u64>>(&device, 1 << lg, load, peers),
            }
        }
    }
}

/// Hash seed of the table.
const SEED: u32 = 1;

fn measure<L: Layout<Key: Hash>>(device: &Device, n: usize, load: f64, peers: bool) {
    let threads = device.parallelism();
    let partitions = (n as f64 / PARTITION).ceil();
    let buckets = (n as f64 / load / 4.0 / partitions).ceil();
    let shape = Shape { partitions: partitions as u32, buckets: buckets as u32 };
    let words = shape.all_buckets() as usize * L::WORDS;
    println!(
        "{n} pairs at load {load}, {threads} threads, {:.2} bytes per pair",
        words as f64 * 8.0 / n as f64
    );
    // The low halves are distinct.
    let key = |i: u32| L::Key::narrowed((scramble(i, 11) as u64) << 32 | scramble(i, 7) as u64);
    let value = |i: usize| L::Value::narrowed(i as u64);
    let keys = (0..n as u32).map(key).collect::<Vec<_>>();
    let values = (0..n).map(value).collect::<Vec<_>>();
    let order = |i: usize| (i.wrapping_mul(0x9E37_79B1) + 12_345) % n;
    let hits = (0..n).map(|i| keys[order(i)]).collect::<Vec<_>>();
    let misses = (0..n as u32).map(|i| key(n as u32 + i)).collect::<Vec<_>>();

    for pages in [Pages::System, Pages::Huge] {
        let mut best = Best { threads, wall: f64::MAX, cpu: f64::MAX };
        for _ in 0..3 {
            best.once(|| {
                let mut memory = map(words * 8, pages).unwrap();
                let (mut stash, mut scratch) = (Stash::default(), Scratch::<L>::new(pages));
                let table = bytemuck::cast_slice_mut(&mut memory);
                build(
                    device,
                    shape,
                    SEED,
                    &keys,
                    &values,
                    how(Duplicates::KeepLast, false),
                    table,
                    &mut stash,
                    &mut scratch,
                )
                .unwrap();
            });
        }
        best.show(&format!("build, cold, {pages:?} pages"), n);
    }
    let mut memory = map(words * 8, Pages::Huge).unwrap();
    let table = bytemuck::cast_slice_mut::<u8, u64>(&mut memory);
    let (mut stash, mut scratch) = (Stash::default(), Scratch::<L>::new(Pages::Huge));
    let mut again = |policy, reproducible, runs| {
        Best::of(threads, runs, || {
            build(
                device,
                shape,
                SEED,
                &keys,
                &values,
                how(policy, reproducible),
                table,
                &mut stash,
                &mut scratch,
            )
            .unwrap()
        })
    };
    again(Duplicates::KeepLast, true, 1);
    again(Duplicates::Unchecked, false, 7).show("build, warm, Unchecked", n);
    again(Duplicates::KeepLast, true, 7).show("build, warm, reproducible", n);
    let warm = again(Duplicates::KeepLast, false, 7);
    warm.show("build, warm, KeepLast", n);
    for level in Level::available() {
        let mut scratch = Scratch::with_level(Pages::Huge, level);
        let mut go = || {
            build(
                device,
                shape,
                SEED,
                &keys,
                &values,
                how(Duplicates::KeepLast, false),
                table,
                &mut stash,
                &mut scratch,
            )
            .unwrap()
        };
        Best::of(threads, 3, &mut go).show(&format!("build, warm, {level:?}"), n);
    }

    let lines = random_lines(threads, table);
    lines.show("random lines, 128 in flight", READS * threads);
    // Every key twice, with the copies half the input apart; Zipf-distributed keys; all keys equal.
    let twice = (0..n).map(|i| keys[i % n.div_ceil(2)]).collect::<Vec<_>>();
    let zipf = (0..n as u32)
        .map(|i| keys[((n as f64).powf(scramble(i, 3) as f64 / 4294967296.0) as usize).min(n - 1)]);
    for (name, keys) in
        [("every key twice", twice), ("Zipf", zipf.collect()), ("one key", vec![key(5); n])]
    {
        let mut go = || {
            build(
                device,
                shape,
                SEED,
                &keys,
                &values,
                how(Duplicates::KeepLast, false),
                table,
                &mut stash,
                &mut scratch,
            )
            .unwrap()
        };
        Best::of(threads, 3, &mut go).show(&format!("build, warm, {name}"), n);
    }
    let counts = build(
        device,
        shape,
        SEED,
        &keys,
        &values,
        how(Duplicates::KeepLast, false),
        table,
        &mut stash,
        &mut scratch,
    )
    .unwrap()
    .unwrap();
    println!(
        "  {:.4} evictions per pair, {} pairs in the stash",
        counts.evictions as f64 / n as f64,
        counts.stashed
    );

    let finder = Finder::new(shape, SEED, table, &stash).unwrap();
    for batch in [1, 16, 100, 999] {
        let (queries, mut out) = (&hits[..batch], vec![value(0); batch]);
        let mut go =
            || (0..1000).for_each(|_| finder.values(device, queries, &mut out, value(7)).unwrap());
        println!("  find of {batch}: {:.2} us", Best::of(1, 5, &mut go).wall * 1e3);
    }
    let (mut out, mut found) = (vec![value(0); n], vec![0; n]);
    let hit = Best::of(threads, 7, || finder.values(device, &hits, &mut out, value(7)).unwrap());
    assert!(out.par_iter().enumerate().all(|(i, &v)| v == value(order(i))));
    hit.show("find present", n);
    for level in Level::available() {
        let finder = finder.with_level(level);
        let hit =
            Best::of(threads, 3, || finder.values(device, &hits, &mut out, value(7)).unwrap());
        hit.show(&format!("find present, {level:?}"), n);
    }
    Best::of(threads, 7, || finder.find(device, &hits, &mut out, value(7), &mut found).unwrap())
        .show("find present, with flags", n);
    assert!(found.iter().all(|&f| f == 1));
    let miss = Best::of(threads, 7, || finder.values(device, &misses, &mut out, value(7)).unwrap());
    assert!(out.par_iter().all(|&v| v == value(7)));
    miss.show("find absent", n);
    Best::of(threads, 7, || finder.contains(device, &misses, &mut found).unwrap())
        .show("contains absent", n);
    assert!(found.iter().all(|&f| f == 0));
    let mut bits = vec![0; n.div_ceil(32)];
    Best::of(threads, 7, || finder.contains_bits(device, &misses, &mut bits).unwrap())
        .show("bits absent", n);
    assert!(bits.iter().all(|&word| word == 0));
    Best::of(threads, 7, || finder.count(device, &hits)).show("count present", n);
    assert_eq!(finder.count(device, &hits), n);
    let after = random_lines(threads, table);
    let limit = Best { threads, wall: lines.wall.min(after.wall), cpu: lines.cpu.min(after.cpu) };
    for (name, find) in [("present", &hit), ("absent", &miss)] {
        let ratio = |find: f64, limit: f64| n as f64 / find / ((READS * threads) as f64 / limit);
        println!(
            "  find {name} / limit: {:.2} [{:.2}]",
            ratio(find.wall, limit.wall),
            ratio(find.cpu, limit.cpu)
        );
    }
    if !peers {
        return;
    }
    drop(memory);

    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let mut fx = Fx::<L>::default();
    let mut one = Best { threads: 1, wall: f64::MAX, cpu: f64::MAX };
    for _ in 0..2 {
        one.once(|| {
            fx = Fx::<L>::with_capacity_and_hasher(n, FxBuildHasher);
            fx.extend(keys.iter().copied().zip(values.iter().copied()));
        });
    }
    one.show("hashbrown: build, 1 thread", n);
    for (name, queries) in [("hashbrown: find present", &hits), ("hashbrown: find absent", &misses)]
    {
        let best = Best::of(threads, 3, || {
            pool.install(|| {
                let pieces = out.par_chunks_mut(1 << 14).zip(queries.par_chunks(1 << 14));
                pieces.for_each(|(out, queries)| {
                    out.iter_mut()
                        .zip(queries)
                        .for_each(|(out, q)| *out = fx.get(q).copied().unwrap_or(value(7)));
                });
            });
        });
        best.show(name, n);
        println!(
            "    koel is {:.1} times that",
            [&hit, &miss][(name.ends_with("absent")) as usize].rate(n) / best.rate(n)
        );
    }
    drop(fx);
    let sharded = Best::of(threads, 3, || pool.install(|| build_sharded::<L>(&keys, &values)));
    sharded.show("hashbrown x 64: build", n);
    println!("    koel, warm, is {:.1} times that", warm.rate(n) / sharded.rate(n));
}

/// Reads per thread in one run of the limit.
const READS: usize = 1 << 23;
/// Measures what `koel::limits::random_reads` does, but on the table itself, and by CPU time too.
fn random_lines(threads: usize, table: &[u64]) -> Best {
    let lines = table.as_chunks::<8>().0;
    Best::of(threads, 7, || {
        std::thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || {
                    let line = |i: usize| {
                        let x =
                            (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (thread as u64) << 60;
                        let h = (x ^ x >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 32;
                        ((h * lines.len() as u64) >> 32) as usize
                    };
                    let (mut asked, mut sum) = ([0; 128], 0u64);
                    for i in 0..READS + 128 {
                        if i >= 128 {
                            sum = sum.wrapping_add(lines[asked[i % 128]][i % 8]);
                        }
                        let next = line(i);
                        asked[i % 128] = next;
                        #[cfg(target_arch = "x86_64")]
                        // SAFETY: a prefetch hint, which reads nothing; the address is valid.
                        unsafe {
                            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                            _mm_prefetch::<_MM_HINT_T0>(lines[next].as_ptr().cast());
                        }
                    }
                    std::hint::black_box(sum)
                });
            }
        });
    })
}

fn build_sharded<L: Layout<Key: Hash>>(keys: &[L::Key], values: &[L::Value]) -> Vec<Fx<L>> {
    const SHARDS: usize = 64;
    let shard_of = |key: L::Key| (FxBuildHasher.hash_one(key) >> 51) as usize % SHARDS;
    let chunk = keys.len().div_ceil(rayon::current_num_threads());
    let parted = |(keys, values): (&[L::Key], &[L::Value])| {
        let mut parts = (0..SHARDS)
            .map(|_| Vec::with_capacity(keys.len() / SHARDS * 9 / 8 + 8))
            .collect::<Vec<_>>();
        for (&key, &value) in keys.iter().zip(values) {
            parts[shard_of(key)].push((key, value));
        }
        parts
    };
    let parted =
        keys.par_chunks(chunk).zip(values.par_chunks(chunk)).map(parted).collect::<Vec<_>>();
    let shard = |i: usize| {
        let mut map = Fx::<L>::with_capacity_and_hasher(
            parted.iter().map(|p| p[i].len()).sum(),
            FxBuildHasher,
        );
        parted.iter().for_each(|parts| map.extend(parts[i].iter().copied()));
        map
    };
    (0..SHARDS).into_par_iter().map(shard).collect()
}

//! Builds by kernels, with plans that no map of a few thousand pairs would get, so that every path
//! is taken.
mod reproduce;

use super::Pairs;
use super::kernels::{Building, Scratch, build};
use crate::device::{Device, Stream};
use crate::duplicates::Duplicates::{self, KeepFirst, KeepLast, Unchecked};
use crate::seed::Seeds;
use crate::table::header::{Header, read_header};
use crate::table::plan::{Plan, PlanTuning};
use crate::table::slots::Slots;
use crate::types::{KeyBits, ValueBits};
use koel_kernels::hash::mix::{mix, splitmix_at};
use koel_kernels::map::find::MapRef;
use koel_kernels::table::layout::{BUCKET, EMPTY, Layout, class, class_bit};
use koel_simt::In;
use koel_testing::Arrangement;
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::marker::PhantomData;

type Of<K, V> = <K as KeyBits>::Layout<V>;

/// Seeds of all builds in these tests.
pub(super) const SEEDS: Seeds = Seeds { first: 7, redraws: 7, gives_up: false };
/// Scratch memory that successive builds share.
struct Bench<K: KeyBits, V: ValueBits> {
    stream: Stream,
    scratch: Option<Scratch>,
    keys: Vec<K>,
    values: Vec<V>,
    reproducible: bool,
    /// Slots and stash of the last table.
    table: [Vec<u64>; 2],
}
impl<K: KeyBits, V: ValueBits> Bench<K, V> {
    fn new(seed: u64) -> Self {
        let stream =
            Device::executor_with(seed, |exec| exec.patience = 10_000_000).stream().unwrap();
        Bench {
            stream,
            scratch: None,
            keys: vec![],
            values: vec![],
            reproducible: false,
            table: [vec![], vec![]],
        }
    }
    fn with(mut self, pairs: impl IntoIterator<Item = (u64, u64)>) -> Self {
        (self.keys, self.values) =
            pairs.into_iter().map(|(k, v)| (K::narrowed(k), V::narrowed(v))).unzip();
        self
    }
    fn n(&self) -> usize {
        self.keys.len()
    }
    /// Builds with a plan. Compares the content of the table and lookups in it with an oracle, and
    /// checks that the scratch memory is reset.
    fn check(&mut self, plan: &Plan, duplicates: Duplicates) -> Header<V> {
        let words = self.build(plan, duplicates);
        self.check_table(plan, duplicates, &words)
    }
    /// Builds with a plan. Returns the words of the header.
    fn build(&mut self, plan: &Plan, duplicates: Duplicates) -> Vec<u32> {
        let device = self.stream.device();
        let (keys, values) =
            (device.upload(&self.keys).unwrap(), device.upload(&self.values).unwrap());
        let mut table = Slots::new::<Pairs<K, V>>(device, plan).unwrap();
        // Previous content must not matter.
        table.slots.view_mut().fill_bytes(0x55, &self.stream).unwrap();
        table.stash.view_mut().fill_bytes(0x55, &self.stream).unwrap();
        let fitting = self.scratch.take().filter(|s| s.fits::<Of<K, V>>(plan));
        let mut scratch =
            fitting.unwrap_or_else(|| Scratch::new::<Of<K, V>>(device, plan).unwrap());
        let input = Building {
            keys: keys.view(),
            values: values.view(),
            duplicates,
            seeds: SEEDS,
            reproducible: self.reproducible,
        };
        build::<Of<K, V>>(&self.stream, plan, input, &mut table, &mut scratch).unwrap();
        assert!(scratch.is_clean(), "a build must leave its memory as it found it");
        self.scratch = Some(scratch);
        self.table = [table.slots.download().unwrap(), table.stash.download().unwrap()];
        table.header.download().unwrap()
    }
    fn check_table(&self, plan: &Plan, duplicates: Duplicates, words: &[u32]) -> Header<V> {
        let mut oracle = FxHashMap::default();
        for (&key, &value) in self.keys.iter().zip(&self.values) {
            if duplicates == KeepFirst {
                oracle.entry(key).or_insert(value);
            } else {
                oracle.insert(key, value);
            }
        }
        let header = read_header::<V>(words);
        assert!(!header.failed);
        assert_eq!(
            (header.pairs, header.dropped),
            (oracle.len() as u32, (self.n() - oracle.len()) as u32)
        );
        let [slots, stash] = &self.table;
        check_layout(plan, &header, slots, stash, &oracle, header.dropped > 0);
        let found = MapRef::<Of<K, V>> {
            shape: plan.shape,
            stash_bits: plan.stash_bits,
            slots: In::new(slots),
            stash: In::new(stash),
            header: In::new(words),
            layout: PhantomData,
        };
        // SAFETY: the arrays are borrowed until the end of the function.
        let found = unsafe { found.on_host() };
        let strange = (0..200).map(|i| K::narrowed(splitmix_at(0xABCD, i)));
        for key in
            self.keys.iter().copied().chain(strange).chain([K::narrowed(0), K::narrowed(u64::MAX)])
        {
            assert_eq!(found.get(key), oracle.get(&key).copied(), "key {key:?}");
            assert_eq!(found.contains(key), oracle.contains_key(&key));
        }
        header
    }
}
/// Checks that a table holds what the oracle holds, in the layout that lookups rely on. `fillers`:
/// whether there may be fillers.
pub(super) fn check_layout<S: BuildHasher, K: KeyBits, V: ValueBits>(
    plan: &Plan,
    header: &Header<V>,
    slots: &[u64],
    stash: &[u64],
    oracle: &HashMap<K, V, S>,
    fillers: bool,
) {
    type L<K, V> = Of<K, V>;
    let shape = plan.shape;
    let mut held = FxHashMap::default();
    let mut overflowed = vec![0; shape.all_buckets() as usize];
    let mut hold = |pair| {
        let key = L::<K, V>::unmixed(header.seed, L::<K, V>::key(pair));
        assert_eq!(held.insert(key, L::<K, V>::value(pair)), None, "key {key:?} twice");
        L::<K, V>::hash(L::<K, V>::key(pair))
    };
    let words = L::<K, V>::WORDS;
    let pair_at = |place: usize, s: usize| {
        let at = place * words + s;
        L::<K, V>::with_head(slots[at], if words > BUCKET { slots[at + BUCKET] } else { 0 })
    };
    for place in 0..shape.all_buckets() as usize {
        let fill = (0..4).position(|s| slots[place * words + s] == EMPTY).unwrap_or(4);
        for s in 0..4 {
            assert_eq!(slots[place * words + s] == EMPTY, s >= fill, "empty slots are last");
            if s < fill {
                let h = L::<K, V>::hash(L::<K, V>::key(pair_at(place, s)));
                if !shape.belongs(h, place as u32) {
                    assert!(fill == 4 && fillers, "fillers keep full buckets full");
                    continue;
                }
                hold(pair_at(place, s));
                let first = shape.first_place(h) as usize;
                overflowed[first] |= if place == first { 0 } else { 1 << class(h) };
            }
        }
    }
    let mut stashed = 0;
    for slot in stash.chunks(words / BUCKET).take(1 << plan.stash_bits) {
        if slot[0] != EMPTY {
            let h = hold(L::<K, V>::with_head(slot[0], *slot.last().unwrap()));
            overflowed[shape.first_place(h) as usize] |= 1 << class(h);
            let second = shape.second_place(h) as usize * words;
            assert!(slots[second..second + 4].iter().all(|&head| head != EMPTY));
            stashed += 1;
        }
    }
    assert_eq!(stashed, header.stashed);
    for (place, bits) in overflowed.into_iter().enumerate() {
        let heads = [0, 1, 2, 3].map(|s| slots[place * words + s]);
        for class in (0..4).filter(|class| bits >> class & 1 != 0) {
            assert!(
                heads[3] != EMPTY && class_bit::<L<K, V>>(heads, class),
                "bucket {place} class {class}"
            );
        }
    }
    if let Some(value) = header.held {
        held.insert(L::<K, V>::unmixed(header.seed, L::<K, V>::AMBIGUOUS), value);
    }
    for (key, value) in oracle {
        assert_eq!(held.get(key), Some(value), "key {key:?}; {header:?}");
    }
    assert_eq!(held.len(), oracle.len());
}
/// Two passes from 400 pairs on.
const SMALL: PlanTuning = PlanTuning {
    pairs: 100,
    one_pass: 4,
    coarse: 4,
    small: 0,
    small_partitions: 1,
    ..PlanTuning::TUNED
};
fn small(n: usize, load: f64) -> Plan {
    Plan::sized(n, load, SMALL).unwrap()
}
fn unique(n: usize, seed: u64) -> impl Iterator<Item = (u64, u64)> {
    // The low halves are distinct, too.
    (0..n as u32).map(move |i| {
        (splitmix_at(seed, i) << 32 | mix(i ^ seed as u32) as u64, splitmix_at(!seed, i))
    })
}

fn two_passes<K: KeyBits, V: ValueBits>() {
    for (seed, n) in [(1, 401), (2, 3000), (3, 9000)] {
        let mut bench = Bench::<K, V>::new(seed).with(unique(n, seed));
        for policy in [KeepLast, Unchecked] {
            let plan = small(n, 0.8);
            let groups = plan.coarse.unwrap().count;
            // Two launches; or one or two groups are scattered before the first is built, or all.
            for lead in [0, 1, n as u32 / groups * 2, u32::MAX] {
                let header = bench.check(&Plan { lead, ..plan }, policy);
                assert_eq!((header.attempts, header.contested), (1, 0));
            }
        }
    }
}
#[test]
fn two_passes_of_every_pairing() {
    two_passes::<u32, u32>();
    two_passes::<u32, u64>();
    two_passes::<u64, u32>();
    two_passes::<u64, u64>();
}
/// Bins that are too small, in either pass: pairs that do not fit go to the overflow area.
fn overflow<K: KeyBits, V: ValueBits>() {
    for seed in 1..4 {
        let mut bench = Bench::<K, V>::new(seed).with(unique(5000, seed));
        let mut plan = small(5000, 0.7);
        let mut coarse = plan.coarse.unwrap();
        coarse.room = 5000 / coarse.count / 2 * 2;
        plan.coarse = Some(coarse);
        plan.partitions.room = 96;
        plan.lead = [0, 1, 2000][seed as usize - 1];
        let header = bench.check(&plan, if seed == 1 { KeepLast } else { Unchecked });
        assert!(header.overflowed > 100 && header.attempts == 1, "{header:?}");
        // Copies in the overflow area and in the bins, from different tiles.
        let all = unique(9000, seed).chain(unique(9000, seed).map(|(k, v)| (k, !v)));
        let mut plan = small(18_000, 0.7);
        plan.partitions.room = 96;
        plan.lead = 3000;
        let header = bench.with(all).check(&plan, KeepFirst);
        assert!(header.overflowed > 0 && header.attempts == 1, "{header:?}");
    }
    let mut plan = Plan::sized(3000, 0.8, PlanTuning { small: 0, ..PlanTuning::TUNED }).unwrap();
    plan.partitions.room = 1200;
    let header = Bench::<K, V>::new(1).with(unique(3000, 1)).check(&plan, KeepLast);
    assert!(header.overflowed > 0 && header.attempts == 1, "{header:?}");
}
#[test]
fn overflow_is_not_lost() {
    overflow::<u32, u32>();
    overflow::<u64, u64>();
}
/// Small inputs: copies of a key that are all in the overflow area, and reach nearly full buckets
/// at the same time.
fn copies_behind<K: KeyBits, V: ValueBits>() {
    for seed in 1..5 {
        let copies = |part: u64| unique(1000, seed).map(move |(k, v)| (k, v ^ part));
        let mut bench = Bench::<K, V>::new(seed).with(copies(0).chain(copies(1)).chain(copies(2)));
        let mut plan = Plan::new(3000, 0.8).unwrap();
        assert!(plan.small_tile.is_some());
        // The buckets have room for the keys, but not for their copies.
        plan.shape.buckets = 1250 / (4 * plan.shape.partitions);
        plan.partitions.room = 32;
        // All copies that miss at the same time are listed. A full list ends the attempt.
        plan.list = 2000;
        for policy in [KeepLast, KeepFirst] {
            let header = bench.check(&plan, policy);
            assert!(
                header.overflowed > 2000 && header.attempts == 1 && header.contested == 0,
                "{header:?}"
            );
        }
    }
}
#[test]
fn copies_behind_small_bins_are_found() {
    copies_behind::<u32, u32>();
    copies_behind::<u64, u64>();
}
/// Lists that are too short, and more pairs than two choices can place: the stash takes them.
fn stash<K: KeyBits, V: ValueBits>() {
    for seed in 1..4 {
        let mut bench = Bench::<K, V>::new(seed).with(unique(2000, seed));
        let mut plan = small(2000, 0.9);
        plan.list = 40;
        bench.check(&plan, KeepLast);
        let mut plan = small(2000, 0.95);
        plan.shape.buckets -= 1;
        for policy in [KeepLast, Unchecked] {
            let header = bench.check(&plan, policy);
            assert!(header.stashed > 10, "{header:?}");
        }
        // With copies of some keys, stashed or not.
        let copies =
            unique(2000, seed).chain(unique(300, seed).map(|(k, v)| (k, !v))).collect::<Vec<_>>();
        let mut plan = small(2300, 0.95);
        plan.shape.buckets = plan.shape.buckets * 2000 / 2300 - 1;
        let header = bench.with(copies).check(&plan, KeepLast);
        assert!(header.stashed > 10, "{header:?}");
    }
}
#[test]
fn the_stash_takes_what_has_no_place() {
    stash::<u32, u32>();
    stash::<u64, u64>();
}
/// More pairs in one partition than fit anywhere, and keys that fill the stash with one seed: the
/// build restarts.
fn again<K: KeyBits, V: ValueBits>() {
    for seed in 1..3 {
        let mut bench = Bench::<K, V>::new(seed).with(unique(3000, seed));
        let mut plan = small(3000, 0.8);
        plan.list = 2;
        for policy in [KeepFirst, Unchecked] {
            let header = bench.check(&plan, policy);
            assert_eq!(header.attempts, 2, "{header:?}");
        }
        // Most pairs have one key.
        let skewed = unique(4000, seed)
            .enumerate()
            .map(|(i, (k, v))| if i % 3 != 0 { (5, v) } else { (k, v) });
        bench = bench.with(skewed);
        let mut plan = small(4000, 0.8);
        plan.partitions.room = 16;
        assert!(bench.check(&plan, KeepLast).dropped > 2000);
        bench.check(&plan, KeepFirst);
    }
    // With the second attempt's seed, too, all keys are in one partition: the third must succeed.
    let mut plan = small(200, 0.8);
    plan.list = 2;
    plan.stash_bits = 2;
    let second = mix(7 ^ mix(1));
    let of_partition = |&key: &u64| {
        plan.shape.partition(Of::<K, V>::hash(Of::<K, V>::mixed(second, K::narrowed(key)))) == 1
    };
    let keys = (0..).map(|i| splitmix_at(9, i)).filter(of_partition).take(200);
    let header = Bench::<K, V>::new(1).with(keys.map(|k| (k, !k))).check(&plan, KeepLast);
    assert_eq!(header.attempts, 3, "{header:?}");
}
#[test]
fn a_build_that_fails_is_done_again() {
    again::<u32, u32>();
    again::<u64, u32>();
    again::<u64, u64>();
}
/// Copies near each other and far apart, few and many.
fn duplicates<K: KeyBits, V: ValueBits>() {
    let n = 3000;
    for seed in 1..3u64 {
        let key = |i: usize| splitmix_at(seed, i as u32);
        let value = |i: usize| splitmix_at(!seed, i as u32);
        let kinds: [Box<dyn Fn(usize) -> u64>; 6] = [
            Box::new(|i| key(i / 2)),
            Box::new(|i| key(i % (n / 2))),
            Box::new(|i| key(if i == n - 1 { 0 } else { i })),
            Box::new(|i| key(i % 700)),
            Box::new(|i| key((value(i) % n as u64) as usize)),
            Box::new(|_| key(1)),
        ];
        for (kind, of) in kinds.iter().enumerate() {
            let mut bench = Bench::<K, V>::new(seed).with((0..n).map(|i| (of(i), value(i))));
            for policy in [KeepLast, KeepFirst] {
                let two = bench.check(&small(n, 0.8), policy);
                let one = bench.check(&Plan::new(n, 0.8).unwrap(), policy);
                // With four first-pass bins, stamps help little, but they are used.
                assert!(
                    kind > 2 || (two.attempts, one.attempts) == (1, 1),
                    "{kind} {two:?} {one:?}"
                );
            }
        }
    }
}
/// Too few partitions for stamps: nothing ranks copies, and every tile is searched for them.
fn copies_without_stamps<K: KeyBits, V: ValueBits>() {
    let (n, seed) = (8000, 1);
    let sizes = PlanTuning { small: 0, medium_pairs: 3600, ..PlanTuning::TUNED };
    let plan = Plan::sized(n, 0.8, sizes).unwrap();
    assert_eq!((plan.shape.partitions, plan.coarse), (3, None));
    // The last and the first copies of some keys are in the last tile and in the first.
    for distinct in [n - 100, n / 2] {
        let pairs = (0..n)
            .map(|i| (splitmix_at(seed, (i % distinct) as u32), splitmix_at(!seed, i as u32)));
        let mut bench = Bench::<K, V>::new(seed).with(pairs);
        for policy in [KeepLast, KeepFirst] {
            let header = bench.check(&plan, policy);
            assert!(header.attempts == 1 && header.contested > 50, "{policy:?}: {header:?}");
        }
    }
}
#[test]
fn copies_are_found_without_stamps() {
    copies_without_stamps::<u32, u32>();
    copies_without_stamps::<u64, u64>();
}
/// Copies at all distances, with several regions for each bin of the first pass; every `step`th
/// arrangement.
fn arrangements<K: KeyBits, V: ValueBits>(step: usize) {
    let n = 25_000;
    let sizes = PlanTuning { pairs: 1000, coarse: 8, ..SMALL };
    let one_pass = PlanTuning { one_pass: 1280, ..sizes };
    let key = |rank| splitmix_at(5, rank);
    for (seed, name) in (1..).zip(ARRANGEMENTS).step_by(step) {
        let ranks = name.parse::<Arrangement>().unwrap().ranks(n, 0, key);
        let pairs = (0..).zip(&ranks).map(|(i, &rank)| (key(rank), splitmix_at(!seed, i)));
        let mut bench = Bench::<K, V>::new(seed).with(pairs);
        // Every arrangement with the last of equal keys, and by turns one of the others.
        let other = if seed % 2 == 0 { (sizes, KeepFirst) } else { (one_pass, KeepLast) };
        for (tuning, policy) in [(sizes, KeepLast), other] {
            let plan = Plan::sized(n, 0.8, tuning).unwrap();
            let header = bench.check(&plan, policy);
            // Hardly any copies are left to the end of the build.
            assert!(
                header.attempts == 1 && header.contested < 200,
                "{name} {policy:?}: {header:?}"
            );
        }
    }
}
const ARRANGEMENTS: [&str; 12] = [
    "near1x0.01",
    "near1x0.2",
    "near100x0.2",
    "near5000x0.2",
    "runs2",
    "runs1000",
    "blocks3000",
    "concat2",
    "share0.1",
    "sorted0.1",
    "reversed0.3",
    "zipf",
];
#[test]
fn copies_at_all_distances_are_resolved() {
    arrangements::<u32, u32>(1);
    arrangements::<u64, u64>(3);
}
#[test]
fn equal_keys_are_resolved() {
    duplicates::<u32, u32>();
    duplicates::<u64, u64>();
}
/// A few keys have most of the pairs: their copies are dropped in the tiles of the input, and in
/// those of the second pass.
fn skewed<K: KeyBits, V: ValueBits>(seed: u64) {
    let n = 20_000;
    let random = |i: usize| splitmix_at(seed, i as u32);
    let kinds: [Box<dyn Fn(usize) -> u64>; 4] = [
        Box::new(|i| if i % 4 != 0 { 5 } else { random(i) }),
        // Zipf's law.
        Box::new(|i| {
            ((n as f64).ln() * (random(i) >> 11) as f64 / (1u64 << 53) as f64).exp() as u64
        }),
        Box::new(|i| if i < n / 2 { random(i % 10) } else { random(i) }),
        Box::new(|_| u64::MAX),
    ];
    for (kind, of) in kinds.iter().enumerate() {
        let mut bench = Bench::<K, V>::new(seed).with((0..n).map(|i| (of(i), random(!i))));
        for policy in [KeepLast, KeepFirst] {
            for plan in [small(n, 0.8), Plan::new(n, 0.8).unwrap()] {
                let header = bench.check(&plan, policy);
                assert_eq!(header.attempts, 1, "{kind} {policy:?} {plan:?} {header:?}");
                // One copy per tile fits the bin.
                let fits = kind != 3 || plan.small_tile.is_none();
                assert!(fits || header.overflowed == 0, "{policy:?} {plan:?} {header:?}");
            }
        }
    }
}
#[test]
fn copies_of_skewed_keys_do_not_overflow() {
    skewed::<u32, u32>(1);
    skewed::<u64, u64>(2);
}
/// Different keys with equal hashes.
#[test]
fn wide_keys_of_one_hash_are_told_apart() {
    let mixed = |i: u32| (0x1234_5678u64 + (i as u64 / 3 * 0x0100_0000)) << 32 | i as u64;
    let keys =
        (0..600).map(|i| (Of::<u64, u64>::unmixed(7, mixed(i)), i as u64)).collect::<Vec<_>>();
    let mut bench = Bench::<u64, u64>::new(1).with(keys.iter().copied());
    bench.check(&Plan::new(600, 0.5).unwrap(), KeepLast);
    let mut bench =
        bench.with(keys.iter().copied().chain(keys.iter().map(|&(k, v)| (k, v + 1000))));
    bench.check(&Plan::new(1200, 0.8).unwrap(), KeepLast);
}
/// The ambiguous key, which looks like an empty slot.
fn ambiguous<K: KeyBits, V: ValueBits>() {
    let it = Of::<K, V>::unmixed(7, Of::<K, V>::AMBIGUOUS);
    let held = Of::<K, V>::mixed(7, it) == Of::<K, V>::AMBIGUOUS;
    for n in [0, 1, 30, 500] {
        for of_it in [&[u64::MAX][..], &[3], &[3, u64::MAX], &[u64::MAX, 3, 4]] {
            let mut pairs = unique(n, 5).collect::<Vec<_>>();
            for (i, &value) in of_it.iter().enumerate() {
                pairs.insert((i * n / 2).min(pairs.len()), (it.widened(), value));
            }
            let all = pairs.len();
            let mut bench = Bench::<K, V>::new(3).with(pairs);
            for policy in [KeepLast, KeepFirst] {
                let header = bench.check(&small(all, 0.8), policy);
                assert_eq!(header.held.is_some(), held);
            }
        }
    }
}
#[test]
fn the_ambiguous_key_is_a_key_like_others() {
    ambiguous::<u32, u32>();
    // With this seed, no 32-bit key of a wide pair is ambiguous.
    ambiguous::<u32, u64>();
    ambiguous::<u64, u32>();
    ambiguous::<u64, u64>();
}

/// Two plans, each of which needs more memory of some kind than the other: memory grown from one to
/// the other serves both.
#[test]
fn scratch_memory_serves_two_sizes() {
    let device = Device::executor(1);
    let [many, few] = [200_000, 100_000].map(|n| Plan::new(n, 0.8).unwrap());
    let scratch = |plan| Scratch::new::<Of<u64, u32>>(&device, plan).unwrap();
    assert!(
        !scratch(&many).fits::<Of<u64, u32>>(&few) && !scratch(&few).fits::<Of<u64, u32>>(&many)
    );
    for (first, second) in [(&many, &few), (&few, &many)] {
        let grown = scratch(first).grown::<Of<u64, u32>>(&device, second).unwrap();
        assert!(grown.fits::<Of<u64, u32>>(first) && grown.fits::<Of<u64, u32>>(second));
    }
}

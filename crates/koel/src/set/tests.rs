//! Builds and combinations by kernels, with plans that no set of a few thousand keys would get, so
//! that every path is taken.
use super::Keys;
use super::combine::SetCombiner;
use super::kernels::{Lengths, Passes, build};
use crate::device::{Device, Stream};
use crate::seed::Seeds;
use crate::table::Family;
use crate::table::header::{Header, read_header};
use crate::table::plan::{Plan, PlanTuning};
use crate::table::slots::Slots;
use crate::types::KeyBits;
use koel_kernels::hash::mix::{mix, splitmix_at};
use koel_kernels::set::layout::{fillers, hash, in_bucket, mixed, unmixed};
use koel_kernels::set::partition::{FEW_BINS, MANY_BINS};
use koel_kernels::table::layout::{EMPTY, Layout, class};
use std::collections::HashSet;

/// Seeds of all builds in these tests.
const SEEDS: Seeds = Seeds { first: 7, redraws: 7, gives_up: false };

fn executor(seed: u64) -> Stream {
    Device::executor_with(seed, |exec| exec.patience = 10_000_000).stream().unwrap()
}
/// Scratch memory that successive builds share.
struct Bench<K: KeyBits> {
    stream: Stream,
    passes: Option<Passes<K>>,
    keys: Vec<K>,
}
impl<K: KeyBits> Bench<K> {
    fn new(seed: u64, keys: impl IntoIterator<Item = u64>) -> Self {
        Bench {
            stream: executor(seed),
            passes: None,
            keys: keys.into_iter().map(K::narrowed).collect(),
        }
    }
    /// Builds with a plan. Compares the content of the set and lookups in it with an oracle, and
    /// checks that the scratch memory is reset.
    fn check(&mut self, plan: &Plan) -> Header<u32> {
        let device = self.stream.device();
        let keys = device.upload(&self.keys).unwrap();
        let mut set = Slots::new::<Keys<K>>(device, plan).unwrap();
        // Previous content must not matter.
        set.slots.view_mut().fill_bytes(0x55, &self.stream).unwrap();
        set.stash.view_mut().fill_bytes(0x55, &self.stream).unwrap();
        let lengths = Lengths::of_set::<K>(plan);
        let fitting = self.passes.take().filter(|s| s.fits(plan, lengths));
        let mut passes = fitting.unwrap_or_else(|| Passes::new(device, plan, lengths).unwrap());
        build(&self.stream, plan, SEEDS, keys.view(), &mut set, &mut passes).unwrap();
        assert!(passes.is_clean(), "a build must leave its memory as it found it");
        self.passes = Some(passes);
        self.check_set(plan, &set)
    }
    fn check_set(&self, plan: &Plan, set: &Slots<K>) -> Header<u32> {
        let oracle = self.keys.iter().copied().collect::<HashSet<_>>();
        let header = read_header::<u32>(&set.header.download().unwrap());
        assert!(!header.failed);
        let dropped = (self.keys.len() - oracle.len()) as u32;
        assert_eq!((header.pairs, header.dropped), (oracle.len() as u32, dropped), "{header:?}");
        assert_eq!(header.held.is_some(), oracle.contains(&unmixed(header.seed, K::EMPTY)));
        check_layout(plan, &header, set, &oracle, false);
        // SAFETY: the set is in host memory, and nothing changes it here.
        let found =
            unsafe { Keys::<K>::table_ref(set.handles(&self.stream, plan).unwrap()).on_host() };
        let strange = (0..200).map(|i| K::narrowed(splitmix_at(0xABCD, i)));
        for key in
            self.keys.iter().copied().chain(strange).chain([K::narrowed(0), K::narrowed(u64::MAX)])
        {
            assert_eq!(found.contains(key), oracle.contains(&key), "key {key:?}");
        }
        header
    }
}
/// Checks that a set holds what the oracle holds, in the layout that lookups rely on. `may_fill`:
/// whether there may be fillers.
pub(super) fn check_layout<K: KeyBits>(
    plan: &Plan,
    header: &Header<u32>,
    set: &Slots<K>,
    oracle: &HashSet<K>,
    may_fill: bool,
) {
    let (shape, slots) = (plan.shape, set.slots.download().unwrap());
    let mut held = HashSet::new();
    let mut overflowed = vec![0; shape.all_buckets() as usize];
    let mut hold = |key: K| {
        assert!(held.insert(unmixed(header.seed, key)), "key {key:?} twice");
    };
    let bucket = |place: usize| {
        let half = |half: usize| {
            K::half(|i| slots[(2 * place + half) * K::SLOTS as usize / 2 + i as usize])
        };
        [half(0), half(1)]
    };
    let keys =
        |place: usize| (0..K::SLOTS as usize).map(move |i| in_bucket::<K>(&bucket(place), i));
    for place in 0..shape.all_buckets() as usize {
        let (mut ended, gone) = (false, fillers::<K>(shape, place as u32, &bucket(place)));
        assert!(gone == 0 || may_fill);
        for key in keys(place).enumerate().filter(|(s, _)| gone >> s & 1 == 0).map(|(_, key)| key) {
            assert!(key == K::EMPTY || !ended, "empty slots are last");
            ended |= key == K::EMPTY;
            if key != K::EMPTY {
                hold(key);
                assert!(shape.belongs(hash(key), place as u32), "key {key:?} in bucket {place}");
                let first = shape.first_place(hash(key)) as usize;
                overflowed[first] |= if place == first { 0 } else { 1 << class(hash(key)) };
            }
        }
    }
    let mut stashed = 0;
    let stash = set.stash.download().unwrap();
    for slot in stash.chunks(K::Pairs::SLOT_WORDS).take(1 << plan.stash_bits) {
        if slot[0] != EMPTY {
            let key = K::narrowed(slot[0]);
            hold(key);
            overflowed[shape.first_place(hash(key)) as usize] |= 1 << class(hash(key));
            assert!(keys(shape.second_place(hash(key)) as usize).all(|key| key != K::EMPTY));
            stashed += 1;
        }
    }
    assert_eq!(stashed, header.stashed);
    for (place, bits) in overflowed.into_iter().enumerate() {
        for class in (0..4).filter(|class| bits >> class & 1 != 0) {
            let full = keys(place).all(|key| key != K::EMPTY);
            assert!(full && K::class_bit(bucket(place), class), "bucket {place} class {class}");
        }
    }
    held.extend(header.held.map(|_| unmixed(header.seed, K::EMPTY)));
    assert!(held == *oracle, "the keys are others");
}
/// Two passes from 400 keys on.
fn small_sizes<K: KeyBits>() -> PlanTuning {
    let sizes = super::kernels::sizes::<K>();
    PlanTuning { pairs: 100, one_pass: 4, coarse: 4, small: 0, small_partitions: 1, ..sizes }
}
fn small<K: KeyBits>(n: usize, load: f64) -> Plan {
    Plan::sized(n, load, small_sizes::<K>()).unwrap()
}
/// Returns keys whose low halves are distinct, too.
fn unique(n: usize, seed: u64) -> impl Iterator<Item = u64> {
    (0..n as u32).map(move |i| splitmix_at(seed, i) << 32 | mix(i ^ seed as u32) as u64)
}

fn two_passes<K: KeyBits>() {
    for (seed, n) in [(1, 401), (2, 3000), (3, 9000)] {
        for load in [0.3, 0.8, 0.95] {
            let plan = small::<K>(n, load);
            assert!(plan.coarse.is_some());
            let header = Bench::<K>::new(seed, unique(n, seed)).check(&plan);
            assert_eq!((header.attempts, header.overflowed), (1, 0));
        }
    }
}
#[test]
fn two_passes_of_both_types() {
    two_passes::<u32>();
    two_passes::<u64>();
}
/// A block counts the keys of each bin in shared memory, with room for the bins of its tile.
#[test]
fn bins_fit_the_tiles_of_passes() {
    fn of<K: KeyBits>() {
        for n in
            (10..30).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + (1 << bits) / 3])
        {
            let plan = super::kernels::plan_of::<K>(n, 0.8).unwrap();
            let first = plan.coarse.map_or(plan.partitions.count, |coarse| coarse.count);
            assert!(first <= MANY_BINS.bins, "{n}: {plan:?}");
            assert!(
                plan.coarse.is_none() || plan.partitions.count <= FEW_BINS.bins,
                "{n}: {plan:?}"
            );
        }
    }
    of::<u32>();
    of::<u64>();
}
/// One pass, by both of its kernels, with sizes around those of tiles, rounds and warps.
fn one_pass<K: KeyBits>() {
    for n in [0, 1, 2, 6, 7, 31, 33, 255, 257, 2047, 2049, 7000] {
        Bench::<K>::new(1, unique(n, 5)).check(&super::kernels::plan_of::<K>(n, 0.8).unwrap());
    }
    let sizes = PlanTuning { pairs: 30, one_pass: 1024, ..small_sizes::<K>() };
    for n in [9000, 12_000] {
        let plan = Plan::sized(n, 0.8, sizes).unwrap();
        assert!(plan.coarse.is_none() && plan.partitions.count > 256);
        Bench::<K>::new(2, unique(n, 6)).check(&plan);
    }
}
#[test]
fn one_pass_of_both_types() {
    one_pass::<u32>();
    one_pass::<u64>();
}
/// Bins that are too small, in either pass: keys that do not fit go to the overflow area.
fn overflow<K: KeyBits>() {
    for seed in 1..4 {
        let mut plan = small::<K>(5000, 0.7);
        let mut coarse = plan.coarse.unwrap();
        coarse.room = 5000 / coarse.count / 2 * 2;
        plan.coarse = Some(coarse);
        plan.partitions.room = 96;
        let header = Bench::<K>::new(seed, unique(5000, seed)).check(&plan);
        assert!(header.overflowed > 100 && header.attempts == 1, "{header:?}");
        // Copies in the overflow area and in the bins.
        let header =
            Bench::<K>::new(seed, unique(2500, seed).chain(unique(2500, seed))).check(&plan);
        assert!(header.overflowed > 0 && header.attempts == 1, "{header:?}");
        // Copies that are all in the overflow area.
        let mut plan = super::kernels::plan_of::<K>(3000, 0.8).unwrap();
        plan.partitions.room = 32;
        let copies = (0..3).flat_map(|_| unique(1000, seed));
        let header = Bench::<K>::new(seed, copies).check(&plan);
        assert!(header.overflowed > 2000 && header.attempts == 1, "{header:?}");
    }
}
#[test]
fn overflow_is_not_lost() {
    overflow::<u32>();
    overflow::<u64>();
}
/// Lists that are too short for the keys that miss their first bucket: all keys are read again.
fn short_lists<K: KeyBits>() {
    for seed in 1..4 {
        let copies = (0..6).flat_map(|_| unique(1500, seed));
        let mut plan =
            Plan::sized(9000, 0.8, PlanTuning { pairs: 1200, ..small_sizes::<K>() }).unwrap();
        // The buckets have room for the keys. The lists have room for those that wait, but not for
        // all copies of those that are listed.
        plan.shape.buckets =
            (1500.0 / 0.9 / (plan.shape.partitions * K::SLOTS) as f64).ceil() as u32;
        plan.list = 60;
        let header = Bench::<K>::new(seed, copies).check(&plan);
        assert_eq!(header.attempts, 1, "{header:?}");
    }
}
#[test]
fn short_lists_lose_nothing() {
    short_lists::<u32>();
    short_lists::<u64>();
}
/// More keys than there are slots: the stash takes the rest.
fn stash<K: KeyBits>() {
    for seed in 1..4 {
        let mut plan = small::<K>(2000, 0.95);
        plan.shape.buckets -= 1;
        plan.stash_bits = 10;
        let header = Bench::<K>::new(seed, unique(2000, seed)).check(&plan);
        assert!(header.stashed > 10, "{header:?}");
        // With copies of some keys, stashed or not.
        let copies = unique(2000, seed).chain(unique(300, seed));
        let mut plan = small::<K>(2300, 0.95);
        plan.shape.buckets = 1960 / (plan.shape.partitions * K::SLOTS);
        plan.stash_bits = 10;
        let header = Bench::<K>::new(seed, copies).check(&plan);
        assert!(header.stashed > 10, "{header:?}");
    }
}
#[test]
fn the_stash_takes_what_has_no_place() {
    stash::<u32>();
    stash::<u64>();
}
/// More waiting keys than there is room for, and keys that fill the stash with one seed: the build
/// restarts.
fn again<K: KeyBits>() {
    for seed in 1..3 {
        let mut plan = small::<K>(3000, 0.9);
        plan.list = 2;
        let header = Bench::<K>::new(seed, unique(3000, seed)).check(&plan);
        assert_eq!(header.attempts, 2, "{header:?}");
        let copies = (0..3).flat_map(|_| unique(1000, seed)).chain([5; 100]);
        let mut plan = small::<K>(3100, 0.9);
        plan.shape.buckets = plan.shape.buckets * 2 / 5;
        plan.list = 2;
        let header = Bench::<K>::new(seed, copies).check(&plan);
        assert_eq!(header.attempts, 2, "{header:?}");
    }
    // First more overflow than fits; then, with the second attempt's seed, all keys in one
    // partition: the third must succeed.
    let mut plan = small::<K>(200, 0.8);
    plan.partitions.room = 16;
    plan.partitions.area = 2;
    plan.stash_bits = 2;
    let second = mix(7 ^ mix(1));
    let of_partition =
        |&key: &u64| plan.shape.partition(hash(mixed(second, K::narrowed(key)))) == 1;
    let keys = (0..).map(|i| splitmix_at(9, i)).filter(of_partition).take(200);
    let header = Bench::<K>::new(1, keys).check(&plan);
    assert_eq!(header.attempts, 3, "{header:?}");
}
#[test]
fn a_build_that_fails_is_done_again() {
    again::<u32>();
    again::<u64>();
}
/// Copies near each other and far apart, few and many.
fn duplicates<K: KeyBits>() {
    let n = 3000;
    for seed in 1..3u64 {
        let key = |i: usize| splitmix_at(seed, i as u32);
        let kinds: [Box<dyn Fn(usize) -> u64>; 6] = [
            Box::new(|i| key(i / 2)),
            Box::new(|i| key(i % (n / 2))),
            Box::new(|i| key(if i == n - 1 { 0 } else { i })),
            Box::new(|i| key(i % 700)),
            Box::new(|i| key((key(!i) % n as u64) as usize)),
            Box::new(|_| key(1)),
        ];
        for of in &kinds {
            let mut bench = Bench::<K>::new(seed, (0..n).map(of));
            bench.check(&small::<K>(n, 0.8));
            let header = bench.check(&super::kernels::plan_of::<K>(n, 0.8).unwrap());
            assert_eq!(header.attempts, 1, "{header:?}");
        }
    }
}
#[test]
fn equal_keys_are_one() {
    duplicates::<u32>();
    duplicates::<u64>();
}
/// A few keys have most of the copies: these are dropped in the tiles of the input, and in those of
/// the second pass.
fn skewed<K: KeyBits>() {
    let n = 24_000;
    for seed in 1..3u64 {
        let random = |i: usize| splitmix_at(seed, i as u32);
        let kinds: [Box<dyn Fn(usize) -> u64>; 4] = [
            Box::new(|i| if i % 4 != 0 { 5 } else { random(i) }),
            // Zipf's law.
            Box::new(|i| {
                ((n as f64).ln() * (random(i) >> 11) as f64 / (1u64 << 53) as f64).exp() as u64
            }),
            Box::new(|i| if i < n / 2 { random(i % 10) } else { random(i) }),
            Box::new(|_| 77),
        ];
        for (kind, of) in kinds.iter().enumerate() {
            let mut bench = Bench::<K>::new(seed, (0..n).map(of));
            for plan in [small::<K>(n, 0.8), super::kernels::plan_of::<K>(n, 0.8).unwrap()] {
                let header = bench.check(&plan);
                assert_eq!(header.attempts, 1, "{kind} {plan:?} {header:?}");
                // One copy per tile fits the bin.
                assert!(kind != 3 || header.overflowed == 0, "{plan:?} {header:?}");
            }
        }
    }
}
#[test]
fn copies_of_skewed_keys_do_not_overflow() {
    skewed::<u32>();
    skewed::<u64>();
}
/// Partitions of several rounds, of which the first shows whether there are many copies: there are
/// none, few, many, or many later.
fn large_partitions<K: KeyBits>() {
    let n = 22_000;
    let sizes = PlanTuning {
        pairs: super::kernels::sizes::<K>().pairs,
        one_pass: 64,
        ..small_sizes::<K>()
    };
    for seed in 1..3u64 {
        let random = |i: usize| splitmix_at(seed, i as u32);
        let kinds: [Box<dyn Fn(usize) -> u64>; 6] = [
            Box::new(random),
            Box::new(|i| random(if i % 300 == 7 { 5 } else { i })),
            Box::new(|i| random(i % (n * 3 / 4))),
            Box::new(|i| random(i % 4000)),
            Box::new(|i| random(i % 900)),
            Box::new(|i| random(if i < n / 2 { i } else { i % 1500 })),
        ];
        for of in &kinds {
            let mut bench = Bench::<K>::new(seed, (0..n).map(of));
            let mut plan = Plan::sized(n, 0.8, sizes).unwrap();
            assert!(n / plan.shape.partitions as usize > 2 * 1024);
            assert_eq!(bench.check(&plan).attempts, 1);
            // Some keys overflow.
            plan.partitions.room = plan.partitions.room * 6 / 8 / 2 * 2;
            assert_eq!(bench.check(&plan).attempts, 1);
        }
        let stream = executor(seed);
        let mut combiner = SetCombiner::with_tuning(stream.device(), sizes).unwrap();
        let [a, b] = [&kinds[3], &kinds[5]]
            .map(|of| (0..n / 2).map(|i| K::narrowed(of(2 * i))).collect::<Vec<_>>());
        combine(&mut combiner, &stream, &a, &b);
        combine(&mut combiner, &stream, &b, &a);
    }
}
#[test]
fn partitions_of_several_rounds() {
    large_partitions::<u32>();
    large_partitions::<u64>();
}
/// Different keys with equal hashes.
#[test]
fn wide_keys_of_one_hash_are_told_apart() {
    let mixed = |i: u32| (0x1234_5678u64 + (i as u64 / 3 * 0x0100_0000)) << 32 | i as u64;
    let keys = (0..600).map(|i| unmixed(7, mixed(i))).collect::<Vec<_>>();
    Bench::<u64>::new(1, keys.iter().copied())
        .check(&super::kernels::plan_of::<u64>(600, 0.5).unwrap());
    Bench::<u64>::new(1, keys.iter().chain(&keys).copied()).check(&small::<u64>(1200, 0.8));
}
/// The ambiguous key, which looks like an empty slot.
fn ambiguous<K: KeyBits>() {
    let it = unmixed(7, K::EMPTY).widened();
    for n in [0, 1, 30, 500] {
        for copies in [1, 2, 40] {
            let mut keys = unique(n, 5).collect::<Vec<_>>();
            (0..copies).for_each(|i| keys.insert(i * n / copies, it));
            let header =
                Bench::<K>::new(3, keys.iter().copied()).check(&small::<K>(n + copies, 0.8));
            assert!(header.held.is_some());
        }
    }
}
#[test]
fn the_ambiguous_key_is_a_key_like_others() {
    ambiguous::<u32>();
    ambiguous::<u64>();
}

/// Compares combinations of two arrays with an oracle, in all ways.
fn combine<K: KeyBits>(combiner: &mut SetCombiner<K>, stream: &Stream, a: &[K], b: &[K]) {
    let device = stream.device();
    let (on_a, on_b) = (device.upload(a).unwrap(), device.upload(b).unwrap());
    let (set_a, set_b) = ([a, b].map(|keys| keys.iter().copied().collect::<HashSet<_>>())).into();
    let expected: [Vec<K>; 4] = [
        set_a.iter().copied().collect(),
        set_a.union(&set_b).copied().collect(),
        set_a.intersection(&set_b).copied().collect(),
        set_a.difference(&set_b).copied().collect(),
    ];
    for (what, mut expected) in expected.into_iter().enumerate() {
        let mut keys = device.alloc::<K>(a.len() + b.len()).unwrap();
        let mut count = device.alloc(1).unwrap();
        let (first, second, output, sum) =
            (on_a.view(), on_b.view(), keys.view_mut(), count.view_mut());
        match what {
            0 => combiner.unique_into(stream, first, output, sum),
            1 => combiner.union_into(stream, first, second, output, sum),
            2 => combiner.intersection_into(stream, first, second, output, sum),
            _ => combiner.difference_into(stream, first, second, output, sum),
        }
        .unwrap();
        let count = count.download().unwrap()[0] as usize;
        let mut found = keys.view().slice(..count).unwrap().download().unwrap();
        found.sort_unstable();
        expected.sort_unstable();
        assert!(
            found == expected,
            "{what} of {} and {} keys: {count}, not {}",
            a.len(),
            b.len(),
            expected.len()
        );
        assert!(combiner.is_clean(), "memory must be left as it was found");
    }
}
fn combinations<K: KeyBits>(seed: u64) {
    let keys = |range: std::ops::Range<u32>, seed| {
        range.map(|i| K::narrowed(splitmix_at(seed, i))).collect::<Vec<_>>()
    };
    let stream = executor(seed);
    let mut tuned = SetCombiner::<K>::new(stream.device()).unwrap();
    let mut small = SetCombiner::with_tuning(stream.device(), small_sizes::<K>()).unwrap();
    for (a, b) in
        [(0..0, 0..0), (0..1, 0..0), (0..0, 0..1), (0..500, 250..260), (0..2000, 700..3000)]
    {
        let (mut a, mut b) = (keys(a, 3), keys(b, 3));
        // The same arrays again, with copies and the ambiguous key in one or the other.
        for copies in 0..3 {
            combine(&mut tuned, &stream, &a, &b);
            combine(&mut small, &stream, &a, &b);
            if copies % 2 == 0 { &mut a } else { &mut b }
                .push(unmixed(Seeds::new(None, false).first, K::EMPTY));
            a.extend_from_within(..a.len() / 2);
            b.extend_from_within(..b.len().min(40));
        }
    }
    // One key is most of the array.
    let skewed = (0..9000)
        .map(|i| K::narrowed(if i % 5 == 0 { splitmix_at(8, i) } else { 9 }))
        .collect::<Vec<_>>();
    combine(&mut small, &stream, &skewed, &keys(0..3000, 8));
    combine(&mut small, &stream, &keys(0..3000, 8), &skewed);
}
#[test]
fn arrays_are_combined() {
    combinations::<u32>(1);
    combinations::<u64>(2);
}
/// Keys crafted against the mixer, all in one partition: the combination restarts in device memory.
fn combinations_again<K: KeyBits>(seed: u64) {
    let shift = 64 - size_of::<K>() as u32 * 8;
    // The high bits of the hash select one partition.
    let keys = |range: std::ops::Range<u64>| {
        range
            .map(|i| {
                unmixed(
                    Seeds::new(None, false).first,
                    K::narrowed(mix(i as u32) as u64 >> 10 << (32 - shift) | i),
                )
            })
            .collect::<Vec<_>>()
    };
    let stream = executor(seed);
    let mut small = SetCombiner::with_tuning(stream.device(), small_sizes::<K>()).unwrap();
    for (a, b) in [(0..3000, 1000..2500), (0..100, 0..3000), (0..3000, 50..100)] {
        let (mut a, mut b) = (keys(a), keys(b));
        combine(&mut small, &stream, &a, &b);
        a.push(unmixed(mix(!0), K::EMPTY));
        a.extend_from_within(100..);
        combine(&mut small, &stream, &a, &b);
        b.push(unmixed(mix(!0), K::EMPTY));
        combine(&mut small, &stream, &a, &b);
    }
}
#[test]
fn combinations_that_fail_are_done_again() {
    combinations_again::<u32>(1);
    combinations_again::<u64>(2);
}

//! Reproducible tables, built by kernels under every schedule and on the CPU, against the bytes
//! that the rule defines.
use super::*;
use crate::cpu;
use crate::map::kernels::make_reproducible;
use crate::table::header::header_words;
use koel_kernels::map::reproduce::{LAST_LEVEL, MAX_BUCKETS, MAX_STASHED, shared_bytes};
use koel_kernels::table::layout::{Number, Shape, with_class_bits};
use std::collections::{BTreeMap, BTreeSet};

/// Slots, and the pairs of the stash in ascending order, each with the word after its head.
type Bytes = (Vec<u64>, Vec<(u64, u64)>);
type PairOf<K, V> = <Of<K, V> as Layout>::Pair;

/// Computes the bytes of these pairs by definition: grows the sets of made and of refused proposals
/// until they are consistent.
fn by_rule<K: KeyBits, V: ValueBits>(
    shape: Shape,
    pairs: &FxHashMap<K, V>,
    last_level: u64,
) -> Bytes {
    type L<K, V> = Of<K, V>;
    let mixed = pairs.iter().map(|(&key, &value)| L::<K, V>::pair(L::<K, V>::mixed(7, key), value));
    let pairs =
        mixed.filter(|&pair| L::<K, V>::key(pair) != L::<K, V>::AMBIGUOUS).collect::<Vec<_>>();
    let key = |i: usize| L::<K, V>::key(pairs[i]);
    let place = |i: usize, level: u64| {
        let h = L::<K, V>::hash(key(i));
        if level.is_multiple_of(2) { shape.first_place(h) } else { shape.second_place(h) }
    };
    let mut levels = vec![0u64; pairs.len()];
    let mut made = vec![BTreeSet::new(); shape.all_buckets() as usize];
    for i in 0..pairs.len() {
        made[place(i, 0) as usize].insert((0, key(i), i));
    }
    let mut changed = true;
    while changed {
        let refused = |i: usize| {
            let proposal = (levels[i], key(i), i);
            levels[i] <= last_level
                && made[place(i, levels[i]) as usize].range(proposal..).nth(BUCKET).is_some()
        };
        let refused = (0..pairs.len()).filter(|&i| refused(i)).collect::<Vec<_>>();
        changed = !refused.is_empty();
        for i in refused {
            levels[i] += 1;
            if levels[i] <= last_level {
                made[place(i, levels[i]) as usize].insert((levels[i], key(i), i));
            }
        }
    }
    let mut bits = vec![0; shape.all_buckets() as usize];
    for (i, &level) in levels.iter().enumerate() {
        if level > last_level || place(i, level) != place(i, 0) {
            bits[place(i, 0) as usize] |= 1 << class(L::<K, V>::hash(key(i)));
        }
    }
    let mut slots = vec![EMPTY; shape.all_buckets() as usize * L::<K, V>::WORDS];
    for (place, made) in made.iter().enumerate() {
        let mut bucket =
            made.iter().rev().take(BUCKET).map(|&(_, _, i)| pairs[i]).collect::<Vec<_>>();
        bucket.sort_by_key(|&pair| L::<K, V>::key(pair));
        if let Ok(four) = <[PairOf<K, V>; 4]>::try_from(&bucket[..]) {
            bucket = with_class_bits::<L<K, V>>(four, bits[place]).to_vec();
        } else {
            assert_eq!(bits[place], 0, "nothing overflows from a bucket that is not full");
        }
        let words = &mut slots[place * L::<K, V>::WORDS..][..L::<K, V>::WORDS];
        for (slot, &pair) in bucket.iter().enumerate() {
            words[L::<K, V>::WORDS - BUCKET + slot] = L::<K, V>::behind(pair);
            words[slot] = L::<K, V>::head(pair);
        }
    }
    let homeless = (0..pairs.len()).filter(|&i| levels[i] > last_level);
    let mut stashed = homeless
        .map(|i| (L::<K, V>::head(pairs[i]), L::<K, V>::behind(pairs[i])))
        .collect::<Vec<_>>();
    stashed.sort_unstable();
    (slots, stashed)
}
fn by_kernels<K: KeyBits, V: ValueBits>(bench: &Bench<K, V>, plan: &Plan) -> Bytes {
    let [slots, stash] = &bench.table;
    let each = Of::<K, V>::SLOT_WORDS;
    let stash = stash[..each << plan.stash_bits].chunks(each).filter(|slot| slot[0] != EMPTY);
    let behind = |slot: &[u64]| if each > 1 { slot[1] } else { 0 };
    let mut stash = stash.map(|slot| (slot[0], behind(slot))).collect::<Vec<_>>();
    stash.sort_unstable();
    (slots.clone(), stash)
}
fn by_cpu<K: KeyBits, V: ValueBits>(
    device: &Device,
    level: cpu::Level,
    plan: &Plan,
    policy: Duplicates,
    bench: &Bench<K, V>,
) -> Bytes {
    let mut slots = vec![0x55; plan.words::<Of<K, V>>()];
    let mut stash = cpu::Stash::<Of<K, V>>::default();
    let mut scratch = cpu::Scratch::with_level(cpu::Pages::System, level);
    let (keys, values) = (&bench.keys, &bench.values);
    let how = cpu::How { policy, reproducible: true, most_stashed: usize::MAX };
    cpu::build(device, plan.shape, 7, keys, values, how, &mut slots, &mut stash, &mut scratch)
        .unwrap()
        .unwrap();
    let mut stashed = stash
        .iter()
        .map(|pair| (Of::<K, V>::head(pair), Of::<K, V>::behind(pair)))
        .collect::<Vec<_>>();
    stashed.sort_unstable();
    (slots, stashed)
}
/// Compares two tables, and reports their first difference.
fn compare(found: &Bytes, expected: &Bytes, place: &str) {
    let first = found.0.iter().zip(&expected.0).position(|(a, b)| a != b);
    assert!(first.is_none() && found.0.len() == expected.0.len(), "{place}: word {first:?}");
    assert_eq!(found.1, expected.1, "{place}: the stash");
}
fn shuffled<T: Copy>(of: &[T], seed: u64) -> Vec<T> {
    let mut order = of.iter().copied().zip((0..).map(|i| splitmix_at(seed, i))).collect::<Vec<_>>();
    order.sort_by_key(|&(_, random)| random);
    order.into_iter().map(|(it, _)| it).collect()
}
/// Builds with this plan in every way and in two orders of the input (one if keys may be equal),
/// and checks that the bytes are those of the rule. Returns the number of stashed pairs.
fn check_all<K: KeyBits, V: ValueBits>(
    plan: &Plan,
    policy: Duplicates,
    pairs: &[(u64, u64)],
    seeds: u64,
) -> usize {
    let mut oracle = FxHashMap::default();
    for &(key, value) in pairs {
        let (key, value) = (K::narrowed(key), V::narrowed(value));
        if policy == KeepFirst {
            oracle.entry(key).or_insert(value);
        } else {
            oracle.insert(key, value);
        }
    }
    let expected = by_rule(plan.shape, &oracle, LAST_LEVEL);
    for seed in 0..seeds {
        let distinct = oracle.len() == pairs.len();
        let order = if seed == 0 || !distinct { pairs.to_vec() } else { shuffled(pairs, seed) };
        let mut bench = Bench::<K, V>::new(seed).with(order);
        bench.reproducible = true;
        let header = bench.check(plan, policy);
        assert_eq!(header.seed, 7, "{header:?}");
        compare(
            &by_kernels(&bench, plan),
            &expected,
            &format!("seed {seed}, {policy:?}, {plan:?}"),
        );
        if seed < 2 {
            for threads in 1..4 {
                let device = Device::cpu_with_threads(threads).unwrap();
                for level in cpu::Level::available() {
                    let found = by_cpu(&device, level, plan, policy, &bench);
                    compare(
                        &found,
                        &expected,
                        &format!("{threads} threads, {level:?}, {policy:?}, {plan:?}"),
                    );
                }
            }
        }
    }
    expected.1.len()
}

fn sizes<K: KeyBits, V: ValueBits>() {
    for (n, load) in [
        (0, 0.8),
        (1, 0.3),
        (2, 0.95),
        (5, 0.95),
        (100, 0.9),
        (1000, 0.5),
        (3599, 0.8),
        (3601, 0.95),
    ] {
        let pairs = unique(n, 3).collect::<Vec<_>>();
        let plan = Plan::new(n, load).unwrap();
        check_all::<K, V>(&plan, KeepLast, &pairs, if n < 2000 { 4 } else { 2 });
        if n > 5 {
            check_all::<K, V>(&small(n, load), Unchecked, &pairs, 2);
        }
    }
}
#[test]
fn every_size_of_every_pairing() {
    sizes::<u32, u32>();
    sizes::<u32, u64>();
    sizes::<u64, u32>();
    sizes::<u64, u64>();
}
#[test]
fn several_partitions() {
    let pairs = unique(20_000, 5).collect::<Vec<_>>();
    for (plan, policy) in
        [(Plan::new(20_000, 0.8).unwrap(), KeepFirst), (small(20_000, 0.9), Unchecked)]
    {
        check_all::<u32, u32>(&plan, policy, &pairs, 2);
    }
    let pairs = unique(8000, 6).collect::<Vec<_>>();
    check_all::<u64, u64>(&Plan::new(8000, 0.95).unwrap(), KeepLast, &pairs, 2);
}
/// Equal keys: the bytes depend only on the pairs that stay.
fn duplicates<K: KeyBits, V: ValueBits>() {
    let distinct = unique(1500, 8).collect::<Vec<_>>();
    // Every second key occurs twice, one very often.
    let twice = distinct
        .iter()
        .flat_map(|&(k, v)| [(k, v), (k, !v)].into_iter().take(1 + (v % 2) as usize));
    let all = shuffled(&twice.chain((0..500).map(|i| (distinct[3].0, i))).collect::<Vec<_>>(), 9);
    for plan in [small(all.len(), 0.8), Plan::new(all.len(), 0.8).unwrap()] {
        for policy in [KeepLast, KeepFirst] {
            check_all::<K, V>(&plan, policy, &all, 3);
            // Only the pairs that stay, with the same plan.
            let mut kept = BTreeMap::new();
            for &(key, value) in &all {
                let value =
                    if policy == KeepFirst { *kept.get(&key).unwrap_or(&value) } else { value };
                kept.insert(key, value);
            }
            let kept = kept.into_iter().collect::<Vec<_>>();
            check_all::<K, V>(&Plan { n: kept.len() as u32, ..plan }, Unchecked, &kept, 1);
        }
    }
}
#[test]
fn equal_keys_leave_no_trace() {
    duplicates::<u32, u32>();
    duplicates::<u32, u64>();
    duplicates::<u64, u64>();
}
/// Fewer slots than pairs, in all partitions or in one.
fn crowded<K: KeyBits, V: ValueBits>() {
    let pairs = unique(2000, 1).collect::<Vec<_>>();
    let mut plan = small(2000, 0.95);
    plan.shape.buckets -= 1;
    for (policy, seeds) in [(KeepLast, 1), (Unchecked, 1)] {
        assert!(check_all::<K, V>(&plan, policy, &pairs, seeds) > 10);
    }
    let plan = Plan { shape: Shape { partitions: 1, buckets: 30 }, ..Plan::new(300, 0.8).unwrap() };
    assert!(check_all::<K, V>(&plan, KeepLast, &pairs[..300], 1) >= 180);
    // Keys whose hashes put them in one partition.
    let mut plan = small(1500, 0.9);
    (plan.stash_bits, plan.list) = (11, 1000);
    let of_partition = |&key: &u64| {
        plan.shape.partition(Of::<K, V>::hash(Of::<K, V>::mixed(7, K::narrowed(key)))) == 2
    };
    let keys = (0..).map(|i| splitmix_at(9, i)).filter(of_partition).take(700);
    let pairs = keys.map(|key| (key, !key)).chain(unique(800, 4)).collect::<Vec<_>>();
    assert!(check_all::<K, V>(&plan, KeepLast, &pairs, 1) > 500);
}
#[test]
fn what_has_no_place_is_the_same() {
    crowded::<u32, u32>();
    crowded::<u64, u64>();
}
/// A build that failed and was repeated pair by pair, with the same seed.
#[test]
fn a_build_that_is_done_again_is_reproducible() {
    fn again<K: KeyBits, V: ValueBits>() {
        let pairs = unique(2500, 1).collect::<Vec<_>>();
        let plan = Plan { list: 2, ..small(2500, 0.8) };
        for policy in [KeepFirst, Unchecked] {
            check_all::<K, V>(&plan, policy, &pairs, 2);
            let mut bench = Bench::<K, V>::new(5).with(pairs.iter().copied());
            bench.reproducible = true;
            assert_eq!(bench.check(&plan, policy).attempts, 2);
        }
    }
    again::<u32, u32>();
    again::<u64, u64>();
}
/// Different keys with equal hashes: the words of their proposals are equal, too.
#[test]
fn wide_keys_of_one_hash() {
    let key = |i: u64| {
        Of::<u64, u64>::unmixed(7, (0x1234_5678 + i / 7 * 0x0100_0000) << 32 | mix(i as u32) as u64)
    };
    let pairs = (0..700).map(|i| (key(i), i)).collect::<Vec<_>>();
    check_all::<u64, u64>(&Plan::new(700, 0.5).unwrap(), KeepLast, &pairs, 4);
    check_all::<u64, u64>(&Plan::new(700, 0.95).unwrap(), Unchecked, &pairs, 4);
    // All keys have one hash.
    let pairs =
        (0..100).map(|i| (Of::<u64, u64>::unmixed(7, 0x89AB_CDEF << 32 | mix(i) as u64), i as u64));
    assert_eq!(
        check_all::<u64, u64>(
            &Plan::new(100, 0.8).unwrap(),
            KeepLast,
            &pairs.collect::<Vec<_>>(),
            4
        ),
        92
    );
}
/// Hashes of 80 keys, found by search, for which 20 buckets have exactly as many slots, in the
/// first of two partitions. All keys could be placed, but the last chain of evictions would take
/// one level more than there are.
#[rustfmt::skip]
const CHOSEN: [u32; 80] = [
    0x39ce53a3, 0x0c3aff72, 0x5cb7cc57, 0x28434449, 0x02b05b95, 0x020049d2, 0x17804f3b, 0x69c8cac7,
    0x0042ce73, 0x192fb3b9, 0x7d55687b, 0x452ec979, 0x1ec10cbc, 0x77d01aae, 0x15b605ae, 0x5e11e885,
    0x5e4d5280, 0x35e8fabf, 0x009ed7db, 0x648c0316, 0x660fefab, 0x0e837744, 0x6c8ed6c9, 0x64ba0e2c,
    0x1f9964a6, 0x1040123c, 0x0cca1a4b, 0x33e07347, 0x5a7e47de, 0x5ac41913, 0x1c9f078d, 0x3707f7fb,
    0x66e97f35, 0x7e18475a, 0x10817ffa, 0x13a989fb, 0x1ed9fb22, 0x0b9f27dc, 0x1ef11d7e, 0x04b441da,
    0x3f2eed05, 0x0573f6b8, 0x5ceb97b4, 0x1a023617, 0x374bd17b, 0x008d3acd, 0x6b9d9fb5, 0x6f176e4d,
    0x6f743832, 0x5bfa41b4, 0x61bdd359, 0x7e7ae169, 0x137647c0, 0x0ad3c76e, 0x0eca26a5, 0x01076819,
    0x069ee725, 0x1b936508, 0x6ee8ef77, 0x722b5d3f, 0x3cb75369, 0x3e9777e3, 0x203610ae, 0x6dbac823,
    0x2225567d, 0x193a3230, 0x09ff6641, 0x107fe2ea, 0x7ca22451, 0x0e245da6, 0x3becf3f7, 0x381d139a,
    0x1af18059, 0x38777259, 0x6903d4d0, 0x06895651, 0x3671b3cd, 0x624d00b4, 0x15053cfb, 0x13a248c3,
];
/// A stash that is too small for the pairs that the rule leaves homeless: that partition stays as
/// it was, and loses nothing.
#[test]
fn what_the_stash_has_no_room_for_stays() {
    fn full<K: KeyBits, V: ValueBits>() {
        type L<K, V> = Of<K, V>;
        let n = CHOSEN.len() as u32 + 5;
        let mut plan = Plan { n, stash_bits: 3, ..small(161, 0.95) };
        plan.shape.buckets = 20;
        assert_eq!(plan.shape.partitions, 2);
        // In the other partition, five keys whose two buckets are the same.
        let of_one = |&h: &u32| (plan.shape.first_place(h), plan.shape.second_place(h)) == (23, 23);
        let mixed = CHOSEN.into_iter().chain((0..).map(mix).filter(of_one).take(5)).map(u64::from);
        let key = |h: u64| {
            L::<K, V>::unmixed(7, <L<K, V> as Layout>::Mixed::narrowed(h << L::<K, V>::HASH_SHIFT))
        };
        let pairs = mixed.map(|h| (key(h), V::narrowed(h))).collect::<Vec<_>>();
        let oracle = pairs.iter().copied().collect();
        let ([built, last], words) = (
            [99, LAST_LEVEL].map(|level| by_rule(plan.shape, &oracle, level)),
            80 * L::<K, V>::WORDS / 4,
        );
        assert_eq!((built.1.len(), last.1.len()), (1, 2));
        for stash_bits in [0, 1, 2] {
            plan.stash_bits = 3;
            let mut bench =
                Bench::<K, V>::new(1).with(pairs.iter().map(|&(k, v)| (k.widened(), v.widened())));
            bench.build(&plan, KeepLast);
            // The same pairs, as a build without limits would have placed them.
            plan.stash_bits = stash_bits;
            let device = bench.stream.device();
            let mut stash = vec![EMPTY; L::<K, V>::SLOT_WORDS << stash_bits];
            (stash[L::<K, V>::SLOT_WORDS - 1], stash[0]) = (built.1[0].1, built.1[0].0);
            let header = header_words::<V>(7, pairs.len(), 1, None);
            let mut table = Slots {
                slots: device.upload(&built.0).unwrap(),
                stash: device.upload(&stash).unwrap(),
                header: device.upload(&header).unwrap(),
            };
            let mut scratch = bench.scratch.take().unwrap();
            make_reproducible::<L<K, V>>(&bench.stream, &plan, &mut table, &mut scratch).unwrap();
            assert!(scratch.is_clean());
            bench.table = [table.slots.download().unwrap(), table.stash.download().unwrap()];
            let stashed =
                bench.check_table(&plan, Unchecked, &table.header.download().unwrap()).stashed;
            let found = by_kernels(&bench, &plan);
            if stash_bits == 0 {
                assert_eq!((stashed, found.1.len()), (1, 1));
                assert_eq!(
                    (&found.0[..words], &found.0[words..]),
                    (&built.0[..words], &last.0[words..])
                );
            } else {
                compare(&found, &last, "room for two");
                assert_eq!(stashed, 2);
            }
        }
    }
    full::<u32, u32>();
    full::<u64, u64>();
}
/// A broken promise neither hangs nor crashes.
#[test]
fn unchecked_equal_keys_end() {
    let pairs =
        unique(300, 2).chain(unique(300, 2)).chain((0..50).map(|i| (7, i))).collect::<Vec<_>>();
    for plan in [small(pairs.len(), 0.8), Plan::new(pairs.len(), 0.9).unwrap()] {
        let stream = Device::executor(3).stream().unwrap();
        let device = stream.device();
        let (keys, values): (Vec<u64>, Vec<u64>) = pairs.iter().copied().unzip();
        let (keys, values) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        let mut table = Slots::new::<Pairs<u64, u64>>(device, &plan).unwrap();
        let mut scratch = Scratch::new::<Of<u64, u64>>(device, &plan).unwrap();
        let input = Building {
            keys: keys.view(),
            values: values.view(),
            duplicates: Unchecked,
            seeds: SEEDS,
            reproducible: true,
        };
        build::<Of<u64, u64>>(&stream, &plan, input, &mut table, &mut scratch).unwrap();
        assert!(scratch.is_clean());
    }
}
/// More pairs of one partition than a list holds: the partition stays as it was built, and every
/// key is found.
#[test]
fn more_than_any_stash_of_kernels() {
    let n = MAX_STASHED + 100;
    let keys = (0..n).collect::<Vec<_>>();
    let plan = Plan { shape: Shape { partitions: 1, buckets: 2 }, ..Plan::new(10, 0.8).unwrap() };
    let bench = Bench::<u32, u32>::new(1).with(keys.iter().map(|&k| (k as u64, !k as u64)));
    let (slots, stashed) =
        by_cpu(&Device::cpu_with_threads(1).unwrap(), cpu::Level::best(), &plan, Unchecked, &bench);
    let pair = |head: u64| (Of::<u32, u32>::unmixed(7, head as u32), (head >> 32) as u32);
    let mut held = slots
        .into_iter()
        .chain(stashed.into_iter().map(|(head, _)| head))
        .map(pair)
        .collect::<Vec<_>>();
    held.sort_unstable();
    assert_eq!(held, keys.iter().map(|&k| (k, !k)).collect::<Vec<_>>());
}
#[test]
fn every_plan_fits_a_block() {
    for load in [0.3, 0.5, 0.8, 0.95] {
        for n in [0, 1, 3600, 10_000, 1 << 20, 1 << 24, 1 << 29] {
            let plan = Plan::new(n, load).unwrap();
            assert!(
                plan.shape.buckets <= MAX_BUCKETS && shared_bytes(plan.shape.buckets) <= 64 << 10,
                "{plan:?}"
            );
            assert!(1 << plan.stash_bits <= MAX_STASHED, "{plan:?}");
        }
    }
}

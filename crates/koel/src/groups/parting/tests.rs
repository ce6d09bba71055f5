//! Pairs partitioned by hash, in partitions so small that a few thousand pairs fill many, against
//! an oracle.
use super::*;
use crate::groups::{Groups, IndexOptions};
use crate::groups::{Index, KeyGrouper, MultiMap};
use crate::map::SlotMapBuilder;
use crate::map::kernels::OrderedGroups;
use crate::{MultiMapOptions, ValueOrder};
use koel_kernels::hash::mix::{mix, splitmix_at};
use koel_kernels::table::layout::{Narrow, Shape, Wide};
use std::collections::BTreeMap;
use std::ops::Range;

/// One pass for up to four partitions, two passes above that.
const SMALL: PartingSizes = PartingSizes { least: 1, pairs: 300, one_pass: 4, coarse: 4, keys: 20 };
const SEED: u32 = 7;

fn executor(seed: u64) -> Stream {
    Device::executor_with(seed, |exec| exec.patience = 10_000_000).stream().unwrap()
}
/// Key `i` of `n`.
type Column = fn(i: u64, n: u64) -> u64;
const RANDOM: Column = |i, _| splitmix_at(5, i as u32);
const SEQUENTIAL: Column = |i, _| i;
const FOUR: Column = |i, n| (mix(i as u32) as u64 % n / 4) << 20;
const SIXTEEN: Column = |i, n| splitmix_at(9, (mix(i as u32) as u64 % n / 16) as u32);
const EQUAL: Column = |_, _| u64::MAX;
const HALF: Column = |i, _| if i % 2 == 0 { 5 } else { i * 64 };

/// Groups pairs, and compares the groups with an oracle's. Returns whether they were grouped.
fn check<K: KeyBits, V: ValueBits>(
    stream: &Stream,
    kept: &mut Option<Parting>,
    sizes: PartingSizes,
    keys: &[K],
) -> bool {
    let (device, n) = (stream.device(), keys.len());
    let values = (0..n as u64).map(|i| V::narrowed(!i << 7 ^ i)).collect::<Vec<_>>();
    let mut oracle = BTreeMap::<K, Vec<V>>::new();
    for (&key, &value) in keys.iter().zip(&values) {
        oracle.entry(key).or_default().push(value);
    }
    let (on_device, values) = (device.upload(keys).unwrap(), device.upload(&values).unwrap());
    let (mut grouping, mut grouped) =
        (Grouping::new(device, n).unwrap(), device.alloc::<V>(n).unwrap());
    let to = grouped.view_mut();
    let found = group(
        stream,
        sizes,
        Seeds::new(Some(SEED), true),
        (on_device.view(), values.view()),
        kept,
        &mut grouping,
        to,
    )
    .unwrap();
    let Some(parted) = found else { return false };
    let (found, firsts) = (parted.groups, parted.firsts.download().unwrap());
    assert_eq!((found, parted.pairs), (oracle.len(), n));
    assert!(
        firsts[0] == 0 && firsts.is_sorted() && firsts.iter().all(|&first| first as usize <= found)
    );
    let Groups { keys, starts } = brought(stream, &parted).unwrap();
    let (keys, starts, grouped) =
        (keys.download().unwrap(), starts.download().unwrap(), grouped.download().unwrap());
    assert_eq!((starts[0], starts[found]), (0, n as u32));
    for (key, at) in keys.iter().zip(starts.windows(2)) {
        let mut of = grouped[at[0] as usize..at[1] as usize].to_vec();
        let mut expected =
            oracle.remove(key).unwrap_or_else(|| panic!("{key:?} comes twice, or never came"));
        of.sort();
        expected.sort();
        assert!(of == expected, "values of {key:?}");
    }
    true
}
fn column<K: KeyBits>(of: Column, n: u64) -> Vec<K> {
    (0..n).map(|i| K::narrowed(of(i, n))).collect()
}
fn all_sizes<K: KeyBits, V: ValueBits>(seeds: Range<u64>) {
    for seed in seeds {
        let (stream, mut kept) = (executor(seed), None);
        // Memory is reused for smaller and larger inputs.
        for n in [1, 2, 31, 300, 1025, 4000, 257, 6000] {
            for (c, of) in [RANDOM, SEQUENTIAL, FOUR, SIXTEEN].into_iter().enumerate() {
                if n > 2000 && (c as u64 + n + seed).is_multiple_of(2) {
                    continue;
                }
                let keys = column::<K>(of, n);
                assert!(
                    check::<K, V>(&stream, &mut kept, SMALL, &keys),
                    "column {c}, {n} keys: sorted"
                );
            }
        }
    }
}
#[test]
fn narrow_pairs() {
    all_sizes::<u32, u32>(0..1);
}
#[test]
fn wide_values() {
    all_sizes::<u32, u64>(2..3);
}
#[test]
fn wide_keys() {
    all_sizes::<u64, u32>(3..4);
}
#[test]
fn wide_pairs() {
    all_sizes::<u64, u64>(4..5);
}
/// A block at its capacity.
#[test]
fn full_partitions() {
    let sizes = PartingSizes { pairs: 3600, ..SMALL };
    for (seed, of) in [(1, RANDOM), (2, SIXTEEN)] {
        assert!(check::<u32, u32>(&executor(seed), &mut None, sizes, &column(of, 10_000)));
        assert!(check::<u64, u64>(&executor(seed), &mut None, sizes, &column(of, 7_000)));
    }
}
#[test]
fn frequent_keys_are_sorted() {
    let (stream, mut kept) = (executor(4), None);
    let sizes = PartingSizes { pairs: PartingSizes::TUNED.pairs, ..SMALL };
    for of in [EQUAL, HALF] {
        assert!(!check::<u32, u32>(&stream, &mut kept, sizes, &column(of, 9000)));
        assert!(kept.is_none(), "the sample tells");
    }
}
/// Failures that the sample does not predict: bins that are too small, and the key that bins cannot
/// distinguish from an empty place.
#[test]
fn what_does_not_come_to_its_bin_is_sorted() {
    let (stream, mut kept) = (executor(5), None);
    // All keys in one partition of many, chosen by their mixed form.
    let alike = (0..2000u32).map(|i| Narrow::unmixed(SEED, i * 1000)).collect::<Vec<_>>();
    assert!(!check::<u32, u32>(&stream, &mut kept, SMALL, &alike));
    let mut keys = column::<u32>(RANDOM, 3000);
    assert!(check::<u32, u32>(&stream, &mut kept, SMALL, &keys));
    keys[1234] = Narrow::unmixed(SEED, Narrow::AMBIGUOUS);
    assert!(!check::<u32, u32>(&stream, &mut kept, SMALL, &keys));
    let mut keys = column::<u64>(RANDOM, 3000);
    keys[77] = Wide::<u64, u32>::unmixed(SEED, u64::MAX);
    assert!(!check::<u64, u32>(&stream, &mut None, SMALL, &keys));
    // The next build is unaffected.
    assert!(check::<u32, u32>(&stream, &mut kept, SMALL, &column(RANDOM, 3000)));
}
/// Groups `keys` keys of one bin of a partition, with `each` pairs each, dispersed among `n`
/// others. Returns whether they were grouped rather than sorted.
fn alike<K: KeyBits, V: ValueBits>(
    of_bin: impl Fn(u64) -> K,
    keys: u64,
    each: u64,
    n: u64,
    sizes: PartingSizes,
) -> bool {
    let mut column = column::<K>(RANDOM, n);
    column.extend((0..keys * each).map(|i| of_bin(i % keys)));
    column.sort_by_cached_key(|&key| mix(key.widened() as u32));
    let apart = |i: usize| i * 7919 % column.len();
    let column = (0..column.len()).map(|i| column[apart(i)]).collect::<Vec<_>>();
    check::<K, V>(&executor(keys), &mut None, sizes, &column)
}
/// Bins with several keys: for a team of lanes, for a warp, for a whole block, and too large to be
/// ordered.
#[test]
fn bins_of_several_keys() {
    let narrow = |i: u64| Narrow::unmixed(SEED, 0x4000_0000 + i as u32);
    // Equal hashes, too.
    let wide = |i: u64| {
        <Wide<u64, u64>>::unmixed(SEED, 0x4000_0000_4000_0000 + (((i / 2) << 32) | (i % 2)))
    };
    let sizes = [
        (2, 1),
        (3, 1),
        (2, 4),
        (8, 1),
        (3, 3),
        (8, 3),
        (32, 1),
        (33, 1),
        (31, 2),
        (5, 14),
        (32, 4),
        (128, 1),
        (32, 5),
        (2, 90),
    ];
    for (keys, each) in sizes {
        assert!(alike::<u32, u32>(narrow, keys, each, 1201, SMALL), "{keys} keys of {each} pairs");
        assert!(alike::<u64, u64>(wide, keys, each, 1201, SMALL), "{keys} keys of {each} pairs");
    }
    let large = PartingSizes { pairs: PartingSizes::TUNED.pairs, ..SMALL };
    assert!(alike::<u32, u32>(narrow, 6, 200, 6000, large));
    // Too many keys for a block, and too many pairs.
    assert!(!alike::<u32, u32>(narrow, 40, 4, 3001, SMALL));
    assert!(!alike::<u64, u64>(wide, 35, 4, 3001, SMALL));
    assert!(!alike::<u32, u32>(narrow, 7, 230, 9000, large));
}
#[test]
fn samples_tell_how_often_keys_come() {
    let stream = executor(6);
    for (each, n) in [(1, 1 << 15), (8, 1 << 15), (100, 3 << 14)] {
        let keys =
            stream.device().upload(&(0..n).map(|i| mix(i / each)).collect::<Vec<_>>()).unwrap();
        let mut couples = stream.device().upload(&[0u32]).unwrap();
        let to = couples.view_mut().arg("couples", &stream).unwrap();
        // SAFETY: `n` keys; one sum.
        unsafe {
            let keys = keys.view().arg("keys", &stream).unwrap();
            group_sample::launch::<Narrow, _>(&stream, SAMPLES, n, keys, to).unwrap()
        };
        let found = copies(couples.download().unwrap()[0], n as usize);
        assert!((each as f64..each as f64 * 1.2 + 6.0).contains(&found), "{found} of {each}");
    }
}
#[test]
fn partitions_fit_blocks() {
    for copies in [1.0, 4.0, 20.0, 100.0, 400.0, 700.0] {
        for n in [1 << 18, 1 << 22, 1 << 24, 1 << 27, 1 << 29] {
            let Some(sizes) = PartingSizes::TUNED.of::<Narrow>(copies) else {
                assert!(copies > 600.0, "{copies}");
                continue;
            };
            let Ok(plan) = Plan::sized(n, 0.5, sizes) else {
                assert!(n == 1 << 29 && copies > 300.0, "{copies}");
                continue;
            };
            let (mean, room) = (n as f64 / plan.shape.partitions as f64, plan.partitions.room);
            assert!(
                room <= MAX_PAIRS && room as f64 >= mean + 4.9 * (mean * copies).sqrt(),
                "{plan:?}"
            );
        }
    }
    assert!(PartingSizes::TUNED.of::<Narrow>(4.0).unwrap().pairs == PartingSizes::TUNED.pairs);
    assert!(PartingSizes::TUNED.of::<Wide<u64, u64>>(5000.0).is_none());
}
/// Multimaps of both orders give the same answers, whether the table reuses the partitions of the
/// pairs or not.
fn in_any_order<K: KeyBits, V: ValueBits>(keys_at_least: u32) {
    let stream = executor(8);
    let device = stream.device();
    let options = MultiMapOptions::default().with_order(ValueOrder::Any).with_seed(3);
    let sizes = PartingSizes { keys: keys_at_least, ..SMALL };
    let mut builder = KeyGrouper::<K, V>::sized(device, options, sizes).unwrap();
    for (of, n) in
        [(FOUR, 2500), (HALF, 900), (SIXTEEN, 1500), (RANDOM, 0), (RANDOM, 1), (RANDOM, 1200)]
    {
        let keys = column::<K>(of, n);
        let values = (0..n).map(|i| V::narrowed(i)).collect::<Vec<_>>();
        let (on_device, values_on) =
            (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        let (store, grouped) =
            builder.grouped(&stream, on_device.view(), values_on.view()).unwrap();
        let map = MultiMap::<K, V> { index: Index { store }, grouped };
        let sorted = crate::MultiMap::build(device, &keys, &values).unwrap();
        assert_eq!((map.len(), map.index().len()), (sorted.len(), sorted.index().len()));
        let queries = keys
            .iter()
            .step_by(7)
            .copied()
            .chain([1, 2, u64::MAX].map(K::narrowed))
            .collect::<Vec<_>>();
        let (found, expected) =
            (map.retrieve(&queries).unwrap(), sorted.retrieve(&queries).unwrap());
        assert_eq!(found.offsets, expected.offsets);
        for i in 0..queries.len() {
            let mut of = found.of(i).to_vec();
            of.sort();
            assert!(of == expected.of(i));
        }
        // Ids map to keys, and back.
        let ids =
            map.index().ids(&keys).unwrap().into_iter().map(Option::unwrap).collect::<Vec<_>>();
        assert!(map.index().keys_of(&ids).unwrap().into_iter().eq(keys.iter().copied().map(Some)));
        let mut file = std::io::Cursor::new(vec![]);
        map.save_to(&mut file).unwrap();
        let loaded =
            crate::MultiMap::<K, V>::load_bytes(&Device::cpu().unwrap(), file.get_ref()).unwrap();
        assert!(loaded.retrieve(&queries).unwrap() == found);
    }
    assert!(builder.scratch_bytes() > 0);
}
#[test]
fn multimaps_in_any_order() {
    in_any_order::<u32, u32>(SMALL.keys);
    in_any_order::<u64, u32>(SMALL.keys);
    // Here pairs are mixed differently from the numbers of their keys.
    in_any_order::<u32, u64>(SMALL.keys);
    in_any_order::<u32, u32>(u32::MAX);
}

/// Builds the table, keys and starts of groups in the order of `partitions` partitions, with
/// `keys_of(p)` keys in partition `p`.
fn table_from_groups<K: KeyBits>(
    partitions: u32,
    load: f64,
    keys_of: fn(u32) -> usize,
    exec_seed: u64,
) {
    let stream = executor(exec_seed);
    let device = stream.device();
    let shape = Shape { partitions, buckets: 1 };
    let partition =
        |key: K| shape.partition(<K::Layout<u32>>::hash(<K::Layout<u32>>::mixed(SEED, key)));
    let mut of = vec![vec![]; partitions as usize];
    let mut missing = (0..partitions).map(keys_of).sum::<usize>();
    let mut i = 0;
    while missing > 0 {
        let key = K::narrowed(splitmix_at(11, i));
        let p = partition(key);
        if of[p as usize].len() < keys_of(p) && !of[p as usize].contains(&key) {
            of[p as usize].push(key);
            missing -= 1;
        }
        i += 1;
    }
    // Each partition has twice as many pairs as groups.
    let firsts =
        of.iter().scan(0, |first, keys| Some(std::mem::replace(first, *first + keys.len() as u32)));
    let firsts = firsts.collect::<Vec<_>>();
    let offsets = firsts.iter().map(|first| 2 * first).collect::<Vec<_>>();
    let keys = of.concat();
    let (n, starts) = (keys.len(), (0..=keys.len() as u32).map(|i| i * 2).collect::<Vec<_>>());
    let (mut keys_apart, mut starts_apart) = (vec![K::default(); 2 * n], vec![0; 2 * n]);
    for ((at, &to), &from) in of.iter().zip(&offsets).zip(&firsts) {
        keys_apart[to as usize..][..at.len()].copy_from_slice(at);
        starts_apart[to as usize..][..at.len()]
            .copy_from_slice(&starts[from as usize..][..at.len()]);
    }
    let (keys_on, starts_on) =
        (device.upload(&keys_apart).unwrap(), device.upload(&starts_apart).unwrap());
    let (offsets, firsts) = (device.upload(&offsets).unwrap(), device.upload(&firsts).unwrap());
    let (mut keys_kept, mut starts_kept) = (device.alloc(n).unwrap(), device.alloc(n + 1).unwrap());
    let numbers = super::super::numbers(device, 0, n).unwrap();
    let mut builder = SlotMapBuilder::<K, u32>::new(
        device,
        IndexOptions::default().with_load(load).with_seed(0).of_map(),
    )
    .unwrap();
    for _ in 0..2 {
        let groups = OrderedGroups {
            keys: keys_on.view(),
            starts: starts_on.view(),
            numbers: numbers.view(),
            groups: n,
            pairs: 2 * n,
            offsets: offsets.view(),
            firsts: firsts.view(),
            seeds: Seeds::new(Some(SEED), true),
        };
        let together = brought(&stream, &groups).unwrap();
        assert!(
            together.keys.download().unwrap() == keys
                && together.starts.download().unwrap() == starts
        );
        let plan = Plan::of_ordered(n, load, partitions, 1).unwrap().unwrap();
        let kept = (keys_kept.view_mut(), starts_kept.view_mut());
        let map = builder.build_from_groups(&stream, plan, groups, kept).unwrap();
        assert!(keys_kept.download().unwrap() == keys && starts_kept.download().unwrap() == starts);
        let report = map.report().unwrap();
        assert_eq!((report.entries, report.duplicates), (n, 0));
        assert!(
            map.get(&keys).unwrap().into_iter().eq((0..n as u32).map(Some)),
            "{partitions} partitions"
        );
        let absent =
            (0..500).map(|i| K::narrowed(splitmix_at(12, i))).filter(|key| !keys.contains(key));
        assert!(
            map.get(&absent.collect::<Vec<_>>()).unwrap().into_iter().all(|value| value.is_none())
        );
        // The numbers of keys whose buckets are full are in other buckets, or in the stash.
        assert!(load < 0.9 || report.stashed > 0 || report.attempts > 1, "{report:?}");
    }
}
#[test]
fn tables_from_groups() {
    for exec_seed in 0..3 {
        // One partition of the table; four; one without keys; partitions with one key for a thread,
        // for a warp and for a round, and with one key more.
        table_from_groups::<u32>(1, 0.8, |_| 700, exec_seed);
        table_from_groups::<u64>(12, 0.8, |_| 1100, exec_seed);
        table_from_groups::<u32>(3, 0.7, |p| [1, 1500, 0][p as usize], exec_seed);
        table_from_groups::<u64>(5, 0.5, |p| [0, 1, 1024, 1025, 255][p as usize], exec_seed);
    }
}
/// More keys than a partition has slots for, and more than a block handles.
#[test]
fn groups_that_are_not_spread() {
    table_from_groups::<u32>(3, 0.95, |p| [300, 100, 10][p as usize], 1);
    table_from_groups::<u64>(7, 0.95, |p| if p == 3 { 900 } else { 60 }, 2);
    table_from_groups::<u32>(8, 0.8, |p| if p == 7 { 9000 } else { 2 }, 3);
}
#[test]
fn partitions_of_tables_consist_of_those_of_pairs() {
    for (n, ordered) in [
        (1 << 25, 37376),
        (1 << 25, 44800),
        (1 << 21, 44800),
        (1 << 27, 44800),
        (3000, 1),
        (5000, 6),
    ] {
        let plan = Plan::of_ordered(n, 0.8, ordered, 1500).unwrap().unwrap();
        let mean = n as f64 / plan.shape.partitions as f64;
        assert!(
            ordered.is_multiple_of(plan.shape.partitions) && (1500.0..=4000.0).contains(&mean),
            "{plan:?}"
        );
    }
    // Too few keys for any partition, too many for each, and a number of partitions that cannot be
    // divided.
    for (n, ordered) in [(1000, 16), (9000, 2), (1 << 20, 2047)] {
        assert!(Plan::of_ordered(n, 0.8, ordered, 1500).unwrap().is_none());
    }
}

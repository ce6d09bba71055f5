//! [`koel::Map`] against a `HashMap`, on every device, with keys and values of every type.

use crate::support::{KEY_SETS, Random, devices, is_fast, scramble, value_of};
use koel::map::layout::{Layout, Narrow};
use koel::types::{KeyBits, ValueBits};
use koel::{Device, DeviceKind, Duplicates, Error, Map, MapBuilder, MapOptions, Stream};
use koel_testing::Arrangement;
use proptest::prelude::*;
use rustc_hash::FxHashMap;

fn options(load: f64, duplicates: Duplicates) -> MapOptions {
    MapOptions::default().with_load(load).with_duplicates(duplicates).with_seed(0)
}
fn build<K: KeyBits, V: ValueBits>(
    stream: &Stream,
    keys: &[K],
    values: &[V],
    load: f64,
    duplicates: Duplicates,
) -> koel::Result<Map<K, V>> {
    let device = stream.device();
    let (k, v) = (device.stage(keys)?, device.stage(values)?);
    MapBuilder::new(device, options(load, duplicates))?.build(stream, k.view(), v.view())
}
/// Returns a key of any type for each 32-bit word.
fn key<K: KeyBits>(word: u32) -> K {
    K::narrowed((scramble(word, 77) as u64) << 32 | word as u64)
}
/// Returns a value of any type for each 32-bit word.
fn value<V: ValueBits>(word: u32) -> V {
    V::narrowed((value_of(word) as u64) << 32 | word as u64)
}
/// Checks every present key, as many absent ones, and the special ones, with every kind of lookup;
/// and all pairs.
fn check<K: KeyBits, V: ValueBits>(map: &Map<K, V>, oracle: &FxHashMap<K, V>, place: &str) {
    let report = map.report().unwrap();
    assert_eq!(
        (map.len().unwrap(), map.is_empty().unwrap()),
        (oracle.len(), oracle.is_empty()),
        "{place}: {report:?}"
    );
    let mut random = Random(2);
    let mut queries = oracle.keys().copied().collect::<Vec<_>>();
    queries.sort_unstable();
    queries.extend((0..queries.len() + 8).map(|_| K::narrowed(random.word())));
    queries.extend([0, 1, u64::MAX, u64::MAX - 1].map(K::narrowed));
    queries.push(K::narrowed(Narrow::unmixed(0, Narrow::AMBIGUOUS).into()));
    let expected = queries.iter().map(|q| oracle.get(q).copied()).collect::<Vec<_>>();
    let queried = || queries.iter().zip(&expected);
    for ((q, expected), a) in queried().zip(map.get(&queries).unwrap()) {
        assert_eq!(a, *expected, "{place}: key {q:?}, {report:?}");
    }
    let (device, stream) = (map.device(), map.device().stream().unwrap());
    let (staged, missing) = (device.stage(&queries).unwrap(), V::narrowed(77));
    let mut values = device.alloc(queries.len()).unwrap();
    map.get_or_into(&stream, staged.view(), values.view_mut(), missing).unwrap();
    let there = map.contains(&queries).unwrap();
    let mut bits = device.alloc::<u32>(queries.len().div_ceil(32)).unwrap();
    map.contains_bits_into(&stream, staged.view(), bits.view_mut()).unwrap();
    let bits = bits.download().unwrap();
    for (i, ((q, expected), a)) in queried().zip(values.download().unwrap()).enumerate() {
        assert_eq!(a, expected.unwrap_or(missing), "{place}: key {q:?}");
        assert_eq!(there[i], expected.is_some(), "{place}: key {q:?}");
        assert_eq!(bits[i / 32] >> (i % 32) & 1 != 0, there[i], "{place}: key {q:?}");
    }
    // Looks keys up as a kernel would.
    if device.kind() != DeviceKind::Cuda {
        // SAFETY: the table is in host memory, and nothing changes it here.
        let table = unsafe { map.table(&stream).unwrap().on_host() };
        for (&q, expected) in queried() {
            assert_eq!(table.get(q), *expected, "{place}: key {q:?} in a kernel");
        }
    }
    let present = there.iter().filter(|&&t| t).count() as u64;
    assert_eq!(
        bits.iter().map(|b| b.count_ones() as u64).sum::<u64>(),
        present,
        "{place}: bits behind the last"
    );
    assert_eq!(map.count(&queries).unwrap(), present);
    if queries.len() < 50_000 {
        let mut rows = map.join(&queries).unwrap();
        rows.sort_unstable();
        let expected = (0..).zip(&expected).filter_map(|(i, value)| Some((i, (*value)?)));
        assert!(rows == expected.collect::<Vec<_>>(), "{place}: the rows of a join differ");
        for (flag, mut keys) in
            [(true, map.semi_join(&queries).unwrap()), (false, map.anti_join(&queries).unwrap())]
        {
            keys.sort_unstable();
            let mut expected = (0..queries.len())
                .filter(|&i| there[i] == flag)
                .map(|i| queries[i])
                .collect::<Vec<_>>();
            expected.sort_unstable();
            assert!(keys == expected, "{place}: the keys of a join differ");
        }
    }
    let pairs = map.pairs().unwrap();
    assert_eq!(pairs.len(), oracle.len());
    assert!(pairs.into_iter().collect::<FxHashMap<_, _>>() == *oracle, "{place}: the pairs differ");
}

fn sizes_and_loads<K: KeyBits, V: ValueBits>(sizes: &[u32], big: &[u32]) {
    for device in devices() {
        let stream = device.stream().unwrap();
        for &n in sizes.iter().chain(if is_fast(&device) { big } else { &[] }) {
            for load in [0.3, 0.5, 0.8, 0.9, 0.95] {
                if load != 0.8 && (n > 500_000 || !is_fast(&device) && n != 3601) {
                    continue;
                }
                // Two passes, which only a GPU has.
                if n > 1_000_000 && device.kind() != DeviceKind::Cuda {
                    continue;
                }
                let keys = (0..n).map(|i| key(scramble(i, n))).collect::<Vec<K>>();
                let values = (0..n).map(value).collect::<Vec<V>>();
                let oracle = keys.iter().copied().zip(values.iter().copied()).collect();
                let map = build(&stream, &keys, &values, load, Duplicates::KeepLast).unwrap();
                let report = map.report().unwrap();
                assert_eq!((report.attempts, report.duplicates), (1, 0), "{report:?}");
                check(&map, &oracle, &format!("{} pairs at {load} on {}", n, device.name()));
                if n > 100_000 {
                    let pair = if size_of::<(K, V)>() == 8 { 8.0 } else { 16.0 };
                    let per_pair = pair * report.slots as f64 / n as f64;
                    assert!(per_pair <= 1.025 * pair / load, "{per_pair} bytes a pair at {load}");
                }
            }
        }
    }
}
#[test]
fn every_size_and_load() {
    let sizes = [0, 1, 2, 3, 4, 5, 31, 32, 33, 1023, 1025, 3599, 3600, 3601, 8000];
    sizes_and_loads::<u32, u32>(&sizes, &[100_000, 800_000, 4_000_000]);
}
#[test]
fn every_pairing_of_types() {
    sizes_and_loads::<u32, u64>(&[0, 1, 33, 3601], &[100_000]);
    sizes_and_loads::<u64, u32>(&[0, 1, 33, 3601], &[100_000]);
    sizes_and_loads::<u64, u64>(&[0, 1, 33, 3601, 8000], &[100_000, 4_000_000]);
}

#[test]
fn every_key_set() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let n = if is_fast(&device) { 100_000 } else { 4_000 };
        for set in KEY_SETS {
            let n = if set.name.starts_with("equal modulo") { n.min(20_000) } else { n };
            let keys = (0..n).map(set.key).collect::<Vec<_>>();
            let values = keys.iter().map(|&k| value_of(k)).collect::<Vec<_>>();
            let oracle = keys.iter().copied().zip(values.iter().copied()).collect();
            let map = build(&stream, &keys, &values, 0.8, Duplicates::KeepLast).unwrap();
            let place = format!("{} on {}", set.name, device.name());
            check(&map, &oracle, &place);
            let wide = keys.iter().map(|&k| (k as u64) << 30).collect::<Vec<_>>();
            let oracle = wide.iter().copied().zip(values.iter().copied()).collect();
            check(
                &build(&stream, &wide, &values, 0.8, Duplicates::KeepLast).unwrap(),
                &oracle,
                &place,
            );
        }
    }
}

/// Keys crafted against the mixer: all in one partition, or all in one bucket. The build restarts,
/// or the stash takes them.
#[test]
fn keys_made_to_collide() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let n = if is_fast(&device) { 30_000u32 } else { 5_000 };
        let unmixed = |i| Narrow::unmixed(0, i);
        let one_partition = (0..n).map(unmixed).collect::<Vec<_>>();
        let mut one_bucket =
            (0..40).map(unmixed).chain((0..n).map(|i| scramble(i, 3))).collect::<Vec<_>>();
        one_bucket.sort_unstable();
        one_bucket.dedup();
        for keys in [one_partition, one_bucket] {
            let values = keys.iter().map(|&k| value_of(k)).collect::<Vec<_>>();
            let oracle = keys.iter().copied().zip(values.iter().copied()).collect();
            let map = build(&stream, &keys, &values, 0.8, Duplicates::KeepLast).unwrap();
            check(&map, &oracle, &device.name());
        }
    }
}

fn policies<K: KeyBits, V: ValueBits>(sizes: [u32; 2]) {
    for device in devices() {
        let stream = device.stream().unwrap();
        let n = sizes[!is_fast(&device) as usize];
        let few: &[u32] =
            if is_fast(&device) { &[1, 2, 100, n / 2, n - 1] } else { &[1, n / 2, n - 1] };
        for &distinct in few {
            let mut random = Random(distinct as u64);
            let keys = (0..n)
                .map(|i| if i < distinct { i } else { random.below(distinct as u64) as u32 })
                .map(key)
                .collect::<Vec<K>>();
            let values = (0..n).map(|i| V::narrowed(i as u64)).collect::<Vec<_>>();
            let last: FxHashMap<_, _> = keys.iter().copied().zip(values.iter().copied()).collect();
            let first: FxHashMap<_, _> =
                keys.iter().copied().zip(values.iter().copied()).rev().collect();
            let of = |policy| build(&stream, &keys, &values, 0.8, policy);
            let map = of(Duplicates::KeepLast).unwrap();
            assert_eq!(map.report().unwrap().duplicates, keys.len() - last.len());
            check(&map, &last, &format!("last of {distinct} on {}", device.name()));
            check(
                &of(Duplicates::KeepFirst).unwrap(),
                &first,
                &format!("first of {distinct} on {}", device.name()),
            );
            let Err(Error::DuplicateKey { key, first, second }) = of(Duplicates::Reject) else {
                panic!("{distinct}")
            };
            assert!(
                first < second
                    && key == u128::from(keys[first].widened())
                    && keys[first] == keys[second]
            );
            // A broken promise: nothing hangs, and every value found belongs to its key.
            let map = of(Duplicates::Unchecked).unwrap();
            for (q, a) in keys.iter().zip(map.get(&keys).unwrap()) {
                assert!(
                    a.is_none_or(|v| keys[v.widened() as usize] == *q),
                    "{distinct} on {}",
                    device.name()
                );
            }
        }
    }
}
#[test]
fn duplicates_follow_the_policy() {
    policies::<u32, u32>([60_000, 4_000]);
    policies::<u64, u64>([20_000, 3_000]);
}
/// Copies at all distances, in one pass and in two.
#[test]
fn duplicates_of_all_arrangements() {
    let names = [
        "near1x0.2",
        "near100x0.2",
        "near10000x0.2",
        "sorted0.1",
        "reversed0.1",
        "runs2",
        "runs1000",
        "blocks10000",
        "concat3",
        "share0.1",
        "zipf",
    ];
    for device in devices() {
        let stream = device.stream().unwrap();
        // The greatest size takes two passes on a GPU.
        let sizes: &[usize] = match device.kind() {
            DeviceKind::Cuda if is_fast(&device) => &[300_000, 5_000_000],
            DeviceKind::Cpu if is_fast(&device) => &[300_000],
            _ => &[9_000],
        };
        for (i, &n) in sizes.iter().enumerate() {
            for (j, name) in names.into_iter().enumerate() {
                let keep_last = (i + j) % 2 == 0;
                let policy = if keep_last { Duplicates::KeepLast } else { Duplicates::KeepFirst };
                let ranks = name.parse::<Arrangement>().unwrap().ranks(n, 0, key::<u32>);
                let keys = ranks.iter().map(|&rank| key(rank)).collect::<Vec<u32>>();
                let values = (0..n as u32).collect::<Vec<_>>();
                let mut stays = vec![None; n];
                for (&rank, &value) in ranks.iter().zip(&values) {
                    let there = &mut stays[rank as usize];
                    *there = there.filter(|_| !keep_last).or(Some(value));
                }
                let map = build(&stream, &keys, &values, 0.8, policy).unwrap();
                let report = map.report().unwrap();
                let distinct = stays.iter().flatten().count();
                assert_eq!(
                    (report.attempts, report.entries),
                    (1, distinct),
                    "{name} on {}: {report:?}",
                    device.name()
                );
                let found = map.get(&keys).unwrap();
                let right = found.iter().zip(&ranks).all(|(f, &rank)| *f == stays[rank as usize]);
                assert!(right, "{name} on {}", device.name());
            }
        }
    }
}

/// The key that looks like an empty slot, with values that look like one and with others; other
/// keys with its value.
#[test]
fn the_ambiguous_key_is_a_key() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let key = Narrow::unmixed(0, Narrow::AMBIGUOUS);
        for (one, two) in [(u32::MAX, 5), (5, u32::MAX), (u32::MAX, u32::MAX)] {
            let (keys, values) = ([key, 1, key], [one, 2, two]);
            let oracle = [(key, two), (1, 2)].into_iter().collect();
            check(
                &build(&stream, &keys, &values, 0.8, Duplicates::KeepLast).unwrap(),
                &oracle,
                &device.name(),
            );
        }
        for n in [0, 10, 3000] {
            for value in [u32::MAX, 0] {
                for with in [false, true] {
                    let mut keys =
                        (0..n).map(|i| scramble(i, 4)).filter(|&k| k != key).collect::<Vec<_>>();
                    let mut values = vec![u32::MAX; keys.len()];
                    if with {
                        keys.insert(keys.len() / 2, key);
                        values.insert(values.len() / 2, value);
                    }
                    let oracle = keys.iter().copied().zip(values.iter().copied()).collect();
                    for policy in [Duplicates::KeepLast, Duplicates::Unchecked] {
                        let map = build(&stream, &keys, &values, 0.8, policy).unwrap();
                        check(
                            &map,
                            &oracle,
                            &format!("{n} pairs, value {value}, {with}, {}", device.name()),
                        );
                    }
                }
            }
        }
    }
}

/// One builder and one map, with all sizes and types of input in sequence; another seed changes no
/// answer.
#[test]
fn a_map_is_rebuilt_again_and_again() {
    for device in devices() {
        let stream = device.stream().unwrap();
        for duplicates in [Duplicates::KeepLast, Duplicates::Unchecked] {
            let seeded = options(0.8, duplicates).with_seed(5);
            let mut builder = MapBuilder::new(&device, seeded).unwrap();
            let none = device.stage::<u64>(&[]).unwrap();
            let mut map = builder.build(&stream, none.view(), none.view()).unwrap();
            for n in [5000, 5000, 100, 9000, 0, 5000] {
                let keys = (0..n).map(|i| key(scramble(i, n))).collect::<Vec<u64>>();
                let staged = device.stage(&keys).unwrap();
                builder.rebuild(&mut map, &stream, staged.view(), staged.view()).unwrap();
                let oracle = keys.iter().map(|&k| (k, k)).collect();
                check(&map, &oracle, &device.name());
                let other = builder.build(&stream, staged.view(), staged.view()).unwrap();
                check(&other, &oracle, &device.name());
            }
        }
    }
}
/// Rebuilt and queried in a graph, which is recorded once: with different values each time, and
/// with copies in one round.
#[test]
fn a_rebuild_is_part_of_a_graph() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let n = 3000u32;
        let keys = device.upload(&(0..n).map(key::<u64>).collect::<Vec<_>>()).unwrap();
        let values = device.upload(&(0..n).collect::<Vec<_>>()).unwrap();
        let found = device.alloc::<u32>(n as usize).unwrap();
        let mut builder = MapBuilder::new(&device, MapOptions::default()).unwrap();
        let map = builder.build(&stream, keys.view(), values.view()).unwrap();
        let mut graph = stream
            .capture(
                (builder, map, keys, values, found),
                |stream, (builder, map, keys, values, found)| {
                    builder.rebuild(map, stream, keys.view(), values.view())?;
                    map.get_or_into(stream, keys.view(), found.view_mut(), 7)
                },
            )
            .unwrap();
        for round in 0..3 {
            let copies = if round == 1 { 2 } else { 1 };
            let words = (0..n).map(|i| i / copies + round).collect::<Vec<_>>();
            let values = (0..n).map(|i| i ^ round).collect::<Vec<_>>();
            let (_, _, graph_keys, graph_values, _) = graph.state_mut();
            graph_keys
                .view_mut()
                .copy_from_host(&words.iter().map(|&w| key::<u64>(w)).collect::<Vec<_>>())
                .unwrap();
            graph_values.view_mut().copy_from_host(&values).unwrap();
            graph.launch(&stream).unwrap();
            let (_, map, _, _, found) = graph.state();
            assert_eq!(
                map.len().unwrap(),
                (n / copies) as usize,
                "round {round} on {}",
                device.name()
            );
            let last = words.iter().copied().zip(values).collect::<FxHashMap<_, _>>();
            assert!(found.download().unwrap().iter().zip(&words).all(|(f, w)| *f == last[w]));
        }
    }
}
/// Rejected duplicates: the error comes from `rebuild` itself.
#[test]
fn a_rebuild_rejects_too() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut builder = MapBuilder::new(&device, options(0.8, Duplicates::Reject)).unwrap();
        let (good, bad) =
            (device.upload(&[1u32, 2, 3]).unwrap(), device.upload(&[4u32, 5, 4]).unwrap());
        let mut map = builder.build(&stream, good.view(), good.view()).unwrap();
        let e = builder.rebuild(&mut map, &stream, bad.view(), good.view()).unwrap_err();
        assert!(matches!(e, Error::DuplicateKey { key: 4, first: 0, second: 2 }), "{e}");
        assert_eq!((map.len().unwrap(), map.get(&[1, 4]).unwrap()), (0, vec![None, None]));
        assert_eq!((map.count(&[1, 4, 5]).unwrap(), map.pairs().unwrap()), (0, vec![]));
        builder.rebuild(&mut map, &stream, good.view(), bad.view()).unwrap();
        assert_eq!(map.get(&[3, 4]).unwrap(), [Some(4), None]);
    }
}
/// A table built on one device answers on another; crowded, so that the stash is copied too.
#[test]
fn a_table_answers_on_every_device() {
    let device = Device::cpu().unwrap();
    let n = 3000;
    let shape = Map::build(&device, &vec![0u32; n], &vec![0u32; n]).unwrap().shape();
    // A dozen keys for the same two buckets.
    let both = |&h: &u32| {
        (shape.first_place(h), shape.second_place(h))
            == (shape.first_place(0), shape.second_place(0))
    };
    let collide = (0..u32::MAX)
        .filter(both)
        .take(12)
        .chain([Narrow::AMBIGUOUS])
        .map(|h| Narrow::unmixed(0, h));
    let mut keys = collide.collect::<std::collections::BTreeSet<u32>>();
    let mut others = (0..).map(|i| scramble(i, 3));
    while keys.len() < n {
        keys.extend(others.next());
    }
    let keys = keys.into_iter().collect::<Vec<_>>();
    for from in devices() {
        let map = build(&from.stream().unwrap(), &keys, &keys, 0.8, Duplicates::KeepLast).unwrap();
        assert!(map.report().unwrap().stashed > 0);
        let wide = keys.iter().map(|&k| key::<u64>(k)).collect::<Vec<_>>();
        let of_wide =
            build(&from.stream().unwrap(), &wide, &keys, 0.9, Duplicates::KeepLast).unwrap();
        for to in devices() {
            let place = format!("from {} to {}", from.name(), to.name());
            check(&map.to_device(&to).unwrap(), &keys.iter().map(|&k| (k, k)).collect(), &place);
            let oracle = wide.iter().copied().zip(keys.iter().copied()).collect();
            check(&of_wide.to_device(&to).unwrap(), &oracle, &place);
        }
    }
}
/// Arrays with any alignment.
#[test]
fn views_of_any_alignment() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let n = 5000;
        let keys = (0..n as u32 + 3).map(key).collect::<Vec<u64>>();
        let values = (0..n as u32 + 3).collect::<Vec<_>>();
        let (k, v) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        for (i, j) in [(0, 1), (1, 0), (3, 2)] {
            let (k, v) = (k.view().slice(i..i + n).unwrap(), v.view().slice(j..j + n).unwrap());
            let map = MapBuilder::new(&device, MapOptions::default())
                .unwrap()
                .build(&stream, k, v)
                .unwrap();
            let oracle =
                keys[i..i + n].iter().copied().zip(values[j..j + n].iter().copied()).collect();
            check(&map, &oracle, &device.name());
        }
    }
}
/// While one map is rebuilt, another one answers, on its own stream and thread.
#[test]
fn a_rebuild_does_not_disturb_others() {
    for device in devices() {
        let n = if is_fast(&device) { 100_000u32 } else { 4_000 };
        let keys = (0..n).collect::<Vec<_>>();
        let still =
            build(&device.stream().unwrap(), &keys, &keys, 0.8, Duplicates::KeepLast).unwrap();
        std::thread::scope(|s| {
            s.spawn(|| {
                let stream = device.stream().unwrap();
                let staged = device.stage(&keys).unwrap();
                let mut builder =
                    MapBuilder::<u32, u32>::new(&device, MapOptions::default()).unwrap();
                let mut map = builder.build(&stream, staged.view(), staged.view()).unwrap();
                for _ in 0..4 {
                    builder.rebuild(&mut map, &stream, staged.view(), staged.view()).unwrap();
                }
                assert!(map.get(&keys).unwrap().iter().zip(&keys).all(|(f, k)| *f == Some(*k)));
            });
            for _ in 0..4 {
                assert!(still.get(&keys).unwrap().iter().zip(&keys).all(|(f, k)| *f == Some(*k)));
            }
        });
    }
}
/// As many small builds as time allows, with keys that are hard for hash functions.
#[test]
fn many_small_builds() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut builder = MapBuilder::new(&device, MapOptions::default()).unwrap();
        let (builds, most) = if is_fast(&device) { (3_000, 2_000) } else { (25, 200) };
        let none = device.stage::<u32>(&[]).unwrap();
        let mut map = builder.build(&stream, none.view(), none.view()).unwrap();
        let mut random = Random(6);
        for _ in 0..builds {
            let set = &KEY_SETS[random.below(KEY_SETS.len() as u64) as usize];
            let (n, start) = (random.below(most) as u32, random.word() as u32 >> 1);
            let keys = (0..n).map(|i| (set.key)((start + i) % 3_000_000)).collect::<Vec<_>>();
            let staged = device.stage(&keys).unwrap();
            builder.rebuild(&mut map, &stream, staged.view(), staged.view()).unwrap();
            let expected = keys.iter().collect::<std::collections::HashSet<_>>().len();
            assert_eq!(map.len().unwrap(), expected, "{n} keys of {} from {start}", set.name);
            assert!(map.get(&keys).unwrap().iter().zip(&keys).all(|(f, k)| *f == Some(*k)));
        }
    }
}

#[test]
fn wrong_arguments_are_named() {
    let device = Device::cpu().unwrap();
    let e = Map::build(&device, &[1u32, 2, 3], &[1u32, 2]).err().unwrap();
    assert_eq!(e.to_string(), "`values` holds 2 elements, but `keys` needs 3");
    for load in [0.0, 0.29, 0.96, f64::NAN, f64::INFINITY] {
        let e = MapBuilder::<u32, u32>::new(&device, options(load, Duplicates::KeepLast))
            .err()
            .unwrap();
        assert!(matches!(e, Error::Setting { field: "load", .. }), "{e}");
    }
    let map = Map::build(&device, &[1u32, 2, 3], &[1u32, 2, 3]).unwrap();
    let (stream, keys) = (device.stream().unwrap(), device.upload(&[1u32, 2, 3]).unwrap());
    let (mut values, mut found) = (device.alloc(3).unwrap(), device.alloc(2).unwrap());
    let e = map.get_into(&stream, keys.view(), values.view_mut(), found.view_mut()).unwrap_err();
    assert_eq!(e.to_string(), "`found` holds 2 elements, but `keys` needs 3");
    let (mut bits, mut count) = (device.alloc(2).unwrap(), device.alloc(1).unwrap());
    let e = map.contains_bits_into(&stream, keys.view(), bits.view_mut()).unwrap_err();
    assert_eq!(e.to_string(), "`found` holds 2 elements, but `keys / 32` needs 1");
    let mut short = device.alloc(2).unwrap();
    let e = map
        .export_into(&stream, short.view_mut(), values.view_mut(), count.view_mut())
        .unwrap_err();
    assert_eq!(e.to_string(), "`keys` holds 2 elements, but `pairs` needs 3");
    let other = Device::executor(1);
    let elsewhere = other.stream().unwrap();
    let e = map.get_or_into(&elsewhere, keys.view(), values.view_mut(), 0).unwrap_err();
    assert!(matches!(e, Error::WrongDevice { name: "stream", .. }), "{e}");
    let mut builder = MapBuilder::new(&other, MapOptions::default()).unwrap();
    let (mut map, keys) = (map, other.upload(&[1u32]).unwrap());
    let e = builder.rebuild(&mut map, &elsewhere, keys.view(), keys.view()).unwrap_err();
    assert!(matches!(e, Error::WrongDevice { name: "map", .. }), "{e}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    /// Any pairs, with few or many equal keys, in any policy.
    #[test]
    fn answers_as_a_hash_map(
        pairs in prop::collection::vec(
            (prop_oneof![0..40u32, any::<u32>(), Just(u32::MAX)], any::<u32>()),
            0..300
        ),
        load in 0.3..0.95,
        first in any::<bool>(),
        executor in any::<bool>(),
    ) {
        let device = if executor {
            Device::executor(pairs.len() as u64)
        } else {
            Device::cpu_with_threads(1).unwrap()
        };
        let (keys, values): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
        let policy = if first { Duplicates::KeepFirst } else { Duplicates::KeepLast };
        let oracle: FxHashMap<_, _> = if first {
            pairs.into_iter().rev().collect()
        } else {
            pairs.into_iter().collect()
        };
        check(
            &build(&device.stream().unwrap(), &keys, &values, load, policy).unwrap(),
            &oracle,
            &device.name()
        );
        let wide = keys.iter().map(|&k| key::<u64>(k)).collect::<Vec<_>>();
        let oracle = oracle.into_iter().map(|(k, v)| (key(k), v)).collect();
        check(
            &build(&device.stream().unwrap(), &wide, &values, load, policy).unwrap(),
            &oracle,
            &device.name()
        );
    }
}

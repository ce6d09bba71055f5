//! [`koel::Set`] against a `HashSet`, on every device, with keys of both types; and set operations
//! on arrays.

use crate::support::{KEY_SETS, Random, devices, is_fast, scramble};
use koel::set::layout::{Member, unmixed};
use koel::set::{difference, intersection, union, unique};
use koel::types::KeyBits;
use koel::{Device, DeviceKind, Error, Set, SetBuilder, SetCombiner, SetOptions, Stream};
use proptest::prelude::*;
use std::collections::HashSet;

fn build<K: KeyBits>(stream: &Stream, keys: &[K], load: f64) -> koel::Result<Set<K>> {
    let device = stream.device();
    let options = SetOptions::default().with_load(load).with_seed(0);
    SetBuilder::new(device, options)?.build(stream, device.stage(keys)?.view())
}
/// Returns a key of any type for each 32-bit word.
fn key<K: KeyBits>(word: u32) -> K {
    K::narrowed((scramble(word, 77) as u64) << 32 | word as u64)
}
fn set_of<K: KeyBits>(keys: &[K]) -> HashSet<K> {
    keys.iter().copied().collect()
}
/// Checks every present key, as many absent ones, and the special ones, with every kind of lookup;
/// and all keys.
fn check<K: KeyBits>(set: &Set<K>, oracle: &HashSet<K>, place: &str) {
    let report = set.report().unwrap();
    assert_eq!(
        (set.len().unwrap(), set.is_empty().unwrap()),
        (oracle.len(), oracle.is_empty()),
        "{place}: {report:?}"
    );
    let mut random = Random(2);
    let mut queries = oracle.iter().copied().collect::<Vec<_>>();
    queries.sort_unstable();
    queries.extend((0..queries.len() + 8).map(|_| K::narrowed(random.word())));
    queries.extend([0, 1, u64::MAX, u64::MAX - 1].map(K::narrowed));
    queries.push(unmixed(0, K::EMPTY));
    let (device, stream) = (set.device(), set.device().stream().unwrap());
    let there = set.contains(&queries).unwrap();
    let staged = device.stage(&queries).unwrap();
    let mut bits = device.alloc::<u32>(queries.len().div_ceil(32)).unwrap();
    set.contains_bits_into(&stream, staged.view(), bits.view_mut()).unwrap();
    let bits = bits.download().unwrap();
    // Looks keys up as a kernel would.
    // SAFETY: the table is in host memory, and nothing changes it here.
    let table = (device.kind() != DeviceKind::Cuda)
        .then(|| unsafe { set.table(&stream).unwrap().on_host() });
    for (i, q) in queries.iter().enumerate() {
        assert_eq!(there[i], oracle.contains(q), "{place}: key {q:?}, {report:?}");
        assert_eq!(bits[i / 32] >> (i % 32) & 1 != 0, there[i], "{place}: key {q:?}");
        assert!(
            table.is_none_or(|table| table.contains(*q) == there[i]),
            "{place}: key {q:?} in a kernel"
        );
    }
    let present = there.iter().filter(|&&t| t).count() as u64;
    assert_eq!(
        bits.iter().map(|b| b.count_ones() as u64).sum::<u64>(),
        present,
        "{place}: bits behind the last"
    );
    assert_eq!(set.count(&queries).unwrap(), present, "{place}");
    let keys = set.keys().unwrap();
    assert_eq!(keys.len(), oracle.len());
    assert!(set_of(&keys) == *oracle, "{place}: the keys differ");
}

fn sizes_and_loads<K: KeyBits>(sizes: &[u32], big: &[u32]) {
    for device in devices() {
        let stream = device.stream().unwrap();
        for &n in sizes.iter().chain(if is_fast(&device) { big } else { &[] }) {
            for load in [0.3, 0.5, 0.8, 0.9, 0.95] {
                if load != 0.8 && (n > 1_000_000 || !is_fast(&device) && n != 7201) {
                    continue;
                }
                // Two passes, which the CPU does not have.
                if n > 1_000_000 && device.kind() != DeviceKind::Cuda {
                    continue;
                }
                let keys = (0..n).map(|i| key(scramble(i, n))).collect::<Vec<K>>();
                let set = build(&stream, &keys, load).unwrap();
                let report = set.report().unwrap();
                assert_eq!((report.attempts, report.duplicates), (1, 0), "{report:?}");
                check(&set, &set_of(&keys), &format!("{n} keys at {load} on {}", device.name()));
                if n > 100_000 {
                    let a_key = size_of::<K>() as f64 * report.slots as f64 / n as f64;
                    assert!(
                        a_key <= 1.025 * size_of::<K>() as f64 / load,
                        "{a_key} bytes a key at {load}"
                    );
                }
            }
        }
    }
}
#[test]
fn every_size_and_load() {
    sizes_and_loads::<u32>(
        &[0, 1, 2, 6, 7, 8, 9, 31, 32, 33, 1025, 7199, 7200, 7201],
        &[100_000, 9_000_000],
    );
    sizes_and_loads::<u64>(&[0, 1, 2, 3, 4, 5, 33, 3601, 7201], &[100_000, 4_000_000]);
}
#[test]
fn every_key_set() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let n = if is_fast(&device) { 100_000 } else { 4_000 };
        for set in KEY_SETS {
            let n = if set.name.starts_with("equal modulo") { n.min(20_000) } else { n };
            let keys = (0..n).map(set.key).collect::<Vec<_>>();
            let place = format!("{} on {}", set.name, device.name());
            check(&build(&stream, &keys, 0.8).unwrap(), &set_of(&keys), &place);
            let wide = keys.iter().map(|&k| (k as u64) << 30).collect::<Vec<_>>();
            check(&build(&stream, &wide, 0.8).unwrap(), &set_of(&wide), &place);
        }
    }
}
/// Keys crafted against the mixer: all in one partition, or all in one bucket. The build restarts,
/// or the stash takes them.
#[test]
fn keys_made_to_collide() {
    fn collide<K: KeyBits>(stream: &Stream, n: u32) {
        let one =
            |i: u32| unmixed::<K>(0, K::narrowed((i as u64) << (size_of::<K>() as u32 * 8 - 32)));
        let one_partition = (0..n).map(one).collect::<Vec<_>>();
        let one_bucket =
            (0..60).map(one).chain((0..n).map(|i| key(scramble(i, 3)))).collect::<Vec<_>>();
        for keys in [one_partition, one_bucket] {
            let place = stream.device().name();
            check(&build(stream, &keys, 0.8).unwrap(), &set_of(&keys), &place);
            let half = &keys[..keys.len() / 2];
            let sorted = |mut keys: Vec<K>| {
                keys.sort_unstable();
                keys
            };
            let once = |keys: &[K]| sorted(set_of(keys).into_iter().collect());
            assert!(sorted(unique(stream.device(), &keys).unwrap()) == once(&keys), "{place}");
            assert!(
                sorted(intersection(stream.device(), &keys, half).unwrap()) == once(half),
                "{place}"
            );
        }
    }
    for device in devices() {
        let n = 30_000;
        collide::<u32>(&device.stream().unwrap(), n);
        collide::<u64>(&device.stream().unwrap(), n);
    }
}
#[test]
fn equal_keys_are_one() {
    fn copies<K: KeyBits>(stream: &Stream, n: u32, distinct: u32) {
        let mut random = Random(distinct as u64);
        let word = |i: u32| if i < distinct { i } else { random.below(distinct as u64) as u32 };
        let keys = (0..n).map(word).map(key).collect::<Vec<K>>();
        let set = build(stream, &keys, 0.8).unwrap();
        assert_eq!(set.report().unwrap().duplicates, (n - distinct) as usize);
        check(&set, &set_of(&keys), &format!("{distinct} of {n} on {}", stream.device().name()));
    }
    for device in devices() {
        let stream = device.stream().unwrap();
        let n = if is_fast(&device) { 60_000 } else { 4_000 };
        for distinct in [1, 2, 100, n / 2, n - 1] {
            copies::<u32>(&stream, n, distinct);
            copies::<u64>(&stream, n / 2, distinct.div_ceil(2));
        }
        if device.kind() == DeviceKind::Cuda {
            // In two passes: few copies of many keys, and many copies of few.
            for distinct in [5_000_000, 1_000_000, 1_000] {
                copies::<u32>(&stream, 9_000_000, distinct);
            }
        }
    }
}
#[test]
fn the_ambiguous_key_is_a_key() {
    for device in devices() {
        let stream = device.stream().unwrap();
        for n in [0, 10, 3000] {
            for copies in 0..3 {
                let mut keys = (0..n).map(key::<u64>).collect::<Vec<_>>();
                keys.extend(vec![unmixed(0, u64::EMPTY); copies]);
                check(&build(&stream, &keys, 0.8).unwrap(), &set_of(&keys), &device.name());
                let mut narrow = (0..n).map(key::<u32>).collect::<Vec<_>>();
                narrow.extend(vec![unmixed(0, u32::EMPTY); copies]);
                check(&build(&stream, &narrow, 0.8).unwrap(), &set_of(&narrow), &device.name());
            }
        }
    }
}
/// One builder and one set, with all sizes of input in sequence; another seed changes no answer.
#[test]
fn a_set_is_rebuilt_again_and_again() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut builder = SetBuilder::new(&device, SetOptions::default().with_seed(5)).unwrap();
        let none = device.stage::<u64>(&[]).unwrap();
        let mut set = builder.build(&stream, none.view()).unwrap();
        for n in [5000, 5000, 100, 9000, 0, 5000] {
            let keys = (0..n).map(|i| key(scramble(i, n))).collect::<Vec<u64>>();
            let staged = device.stage(&keys).unwrap();
            builder.rebuild(&mut set, &stream, staged.view()).unwrap();
            check(&set, &set_of(&keys), &device.name());
            check(&builder.build(&stream, staged.view()).unwrap(), &set_of(&keys), &device.name());
        }
    }
}
/// Rebuilt and queried in a graph, which is recorded once, with set operations on the same keys,
/// and with copies in one round.
#[test]
fn a_rebuild_is_part_of_a_graph() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let n = 3000u32;
        let keys = device.upload(&(0..n).map(key::<u64>).collect::<Vec<_>>()).unwrap();
        let (found, distinct) =
            (device.alloc::<u8>(n as usize).unwrap(), device.alloc::<u64>(n as usize).unwrap());
        let mut builder = SetBuilder::new(&device, SetOptions::default()).unwrap();
        let set = builder.build(&stream, keys.view()).unwrap();
        let mut combiner = SetCombiner::new(&device).unwrap();
        let (mut distinct, mut count) = (distinct, device.alloc(1).unwrap());
        combiner.unique_into(&stream, keys.view(), distinct.view_mut(), count.view_mut()).unwrap();
        let state = (builder, combiner, set, keys, found, distinct, count);
        let mut graph = stream
            .capture(state, |stream, (builder, combiner, set, keys, found, distinct, count)| {
                builder.rebuild(set, stream, keys.view())?;
                combiner.unique_into(stream, keys.view(), distinct.view_mut(), count.view_mut())?;
                set.contains_into(stream, keys.view(), found.view_mut())
            })
            .unwrap();
        for round in 0..3 {
            let copies = if round == 1 { 2 } else { 1 };
            let keys = (0..n).map(|i| key::<u64>(i / copies + round)).collect::<Vec<_>>();
            graph.state_mut().3.view_mut().copy_from_host(&keys).unwrap();
            graph.launch(&stream).unwrap();
            let (_, _, set, _, found, distinct, count) = graph.state();
            assert_eq!(
                set.len().unwrap(),
                (n / copies) as usize,
                "round {round} on {}",
                device.name()
            );
            assert!(found.download().unwrap().iter().all(|&f| f == 1));
            let distinct = distinct
                .view()
                .slice(..count.download().unwrap()[0] as usize)
                .unwrap()
                .download()
                .unwrap();
            assert!(distinct.len() == (n / copies) as usize && set_of(&distinct) == set_of(&keys));
        }
    }
}
/// A set built on one device answers on another; crowded, so that the stash is copied too.
#[test]
fn a_set_answers_on_every_device() {
    fn crowded<K: KeyBits>(n: usize) {
        let device = Device::cpu().unwrap();
        let shape = Set::build(&device, &vec![K::narrowed(0); n]).unwrap().shape();
        // Some keys for the same two buckets.
        let both = |&h: &u32| {
            (shape.first_place(h), shape.second_place(h))
                == (shape.first_place(0), shape.second_place(0))
        };
        let of_hash = |h: u32| K::narrowed((h as u64) << (size_of::<K>() as u32 * 8 - 32));
        let collide = (0..u32::MAX).filter(both).take(25).map(|h| unmixed(0, of_hash(h)));
        let mut keys = collide.chain([unmixed(0, K::EMPTY)]).collect::<HashSet<K>>();
        let mut others = (0..).map(|i| key::<K>(scramble(i, 3)));
        while keys.len() < n {
            keys.extend(others.next());
        }
        let all = keys.iter().copied().collect::<Vec<_>>();
        for from in devices() {
            let set = build(&from.stream().unwrap(), &all, 0.8).unwrap();
            assert!(set.report().unwrap().stashed > 0);
            for to in devices() {
                check(
                    &set.to_device(&to).unwrap(),
                    &keys,
                    &format!("from {} to {}", from.name(), to.name()),
                );
            }
        }
    }
    crowded::<u32>(3000);
    crowded::<u64>(3000);
}
/// Arrays with any alignment.
#[test]
fn views_of_any_alignment() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (n, keys) = (9000, (0..9003).map(key::<u32>).collect::<Vec<_>>());
        let uploaded = device.upload(&keys).unwrap();
        let mut output = device.alloc(2 * n + 10).unwrap();
        let mut count = device.alloc(1).unwrap();
        for i in 0..4 {
            let view = uploaded.view().slice(i..i + n).unwrap();
            let set = SetBuilder::new(&device, SetOptions::default())
                .unwrap()
                .build(&stream, view)
                .unwrap();
            check(&set, &set_of(&keys[i..i + n]), &device.name());
            let others = uploaded.view().slice(3 - i..).unwrap();
            let mut combiner = SetCombiner::new(&device).unwrap();
            let to = output.view_mut().slice(i..).unwrap();
            combiner.union_into(&stream, view, others, to, count.view_mut()).unwrap();
            let union = output
                .view()
                .slice(i..i + count.download().unwrap()[0] as usize)
                .unwrap()
                .download()
                .unwrap();
            let expected: HashSet<u32> =
                keys[i..i + n].iter().chain(&keys[3 - i..]).copied().collect();
            assert!(
                union.len() == expected.len() && set_of(&union) == expected,
                "{i} on {}",
                device.name()
            );
        }
    }
}

/// Set operations on two arrays, on every device.
fn combined<K: KeyBits>(device: &Device, a: &[K], b: &[K], place: &str) {
    let (set_a, set_b) = (set_of(a), set_of(b));
    let expected: [HashSet<K>; 4] = [
        set_a.clone(),
        set_a.union(&set_b).copied().collect(),
        set_a.intersection(&set_b).copied().collect(),
        set_a.difference(&set_b).copied().collect(),
    ];
    let found = [
        unique(device, a),
        union(device, a, b),
        intersection(device, a, b),
        difference(device, a, b),
    ];
    for (i, (found, expected)) in found.into_iter().zip(expected).enumerate() {
        let found = found.unwrap();
        assert_eq!(found.len(), expected.len(), "{i}: {place}");
        assert!(set_of(&found) == expected, "{i}: {place}");
    }
}
fn combinations<K: KeyBits>() {
    for device in devices() {
        let most = match device.kind() {
            DeviceKind::Cuda => 9_000_000,
            _ if is_fast(&device) => 100_000,
            _ => 8_000,
        };
        for (a, b) in [(0, 0), (1, 0), (0, 1), (100, 5), (most, most / 3), (most / 100, most)] {
            let keys = |n: u32, step: u32| (0..n).map(|i| key(i * step / 2)).collect::<Vec<K>>();
            let place = format!("{a} and {b} on {}", device.name());
            let (mut a, mut b) = (keys(a, 1), keys(b, 3));
            combined(&device, &a, &b, &place);
            a.push(unmixed(0, K::EMPTY));
            combined(&device, &a, &b, &place);
            b.push(unmixed(0, K::EMPTY));
            combined(&device, &a, &b, &place);
        }
    }
}
#[test]
fn arrays_are_combined() {
    combinations::<u32>();
    combinations::<u64>();
}

#[test]
fn wrong_arguments_are_named() {
    let device = Device::cpu().unwrap();
    for load in [0.0, 0.29, 0.96, f64::NAN, f64::INFINITY] {
        let e =
            SetBuilder::<u32>::new(&device, SetOptions::default().with_load(load).with_seed(None))
                .err()
                .unwrap();
        assert!(matches!(e, Error::Setting { field: "load", .. }), "{e}");
    }
    let set = Set::build(&device, &[1u32, 2, 3]).unwrap();
    let (stream, keys) = (device.stream().unwrap(), device.upload(&[1u32, 2, 3]).unwrap());
    let (mut found, mut bits) = (device.alloc(2).unwrap(), device.alloc(2).unwrap());
    let e = set.contains_into(&stream, keys.view(), found.view_mut()).unwrap_err();
    assert_eq!(e.to_string(), "`found` holds 2 elements, but `keys` needs 3");
    let e = set.contains_bits_into(&stream, keys.view(), bits.view_mut()).unwrap_err();
    assert_eq!(e.to_string(), "`found` holds 2 elements, but `keys / 32` needs 1");
    let (mut short, mut count, mut counts) =
        (device.alloc(2).unwrap(), device.alloc(1).unwrap(), device.alloc(2).unwrap());
    let e = set.export_into(&stream, short.view_mut(), count.view_mut()).unwrap_err();
    assert_eq!(e.to_string(), "`keys` holds 2 elements, but `keys of the set` needs 3");
    let mut combiner = SetCombiner::new(&device).unwrap();
    let e =
        combiner.unique_into(&stream, keys.view(), short.view_mut(), count.view_mut()).unwrap_err();
    assert_eq!(e.to_string(), "`output` holds 2 elements, but `keys` needs 3");
    let e = combiner
        .unique_into(&stream, keys.view(), short.view_mut(), counts.view_mut())
        .unwrap_err();
    assert_eq!(e.to_string(), "`count` holds 2 elements, but `the total` needs 1");
    let other = Device::executor(1);
    let elsewhere = other.stream().unwrap();
    let e = set.count_into(&elsewhere, keys.view(), count.view_mut()).unwrap_err();
    assert!(matches!(e, Error::WrongDevice { name: "stream", .. }), "{e}");
    let mut builder = SetBuilder::new(&other, SetOptions::default()).unwrap();
    let (mut set, keys) = (set, other.upload(&[1u32]).unwrap());
    let e = builder.rebuild(&mut set, &elsewhere, keys.view()).unwrap_err();
    assert!(matches!(e, Error::WrongDevice { name: "set", .. }), "{e}");
    let e = combiner
        .unique_into(&elsewhere, keys.view(), short.view_mut(), count.view_mut())
        .unwrap_err();
    assert!(matches!(e, Error::WrongDevice { name: "stream", .. }), "{e}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    /// Any keys, few or many of them equal.
    #[test]
    fn answers_as_a_hash_set(
        words in prop::collection::vec(prop_oneof![0..40u32, any::<u32>(), Just(u32::MAX)], 0..300),
        others in prop::collection::vec(prop_oneof![0..60u32, any::<u32>()], 0..300),
        load in 0.3..0.95,
        executor in any::<bool>(),
    ) {
        let device = if executor {
            Device::executor(words.len() as u64)
        } else {
            Device::cpu_with_threads(1).unwrap()
        };
        let stream = device.stream().unwrap();
        check(&build(&stream, &words, load).unwrap(), &set_of(&words), &device.name());
        combined(&device, &words, &others, &device.name());
        let wide = |words: &[u32]| words.iter().map(|&k| key::<u64>(k)).collect::<Vec<_>>();
        check(
            &build(&stream, &wide(&words), load).unwrap(),
            &set_of(&wide(&words)),
            &device.name()
        );
        combined(&device, &wide(&words), &wide(&others), &device.name());
    }
}

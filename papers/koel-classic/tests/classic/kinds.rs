//! The published tables against a `HashMap`, on every device.

use koel::{Device, Error, Stream};
use koel_classic::{
    Duplicates, Family, Kind, Options, SingleLevel, TwoKernel, TwoLevel, kinds,
    single_level::{Coinciding, StashKind},
};
use koel_testing::tables::{KEY_SETS, Random, devices, is_fast, scramble, value_of};
use proptest::prelude::*;
use rustc_hash::FxHashMap;

/// Returns whether a kind is fast enough for big inputs on a device: on a CPU, only the papers' own
/// kinds. The others run their kernels there, and tests are not optimised.
fn is_quick(kind: &dyn Kind, device: &Device) -> bool {
    let quick = ["single-level", "two-kernel", "sorted"];
    is_fast(device) && (quick.contains(&kind.name()) || kind.name().starts_with("two-level"))
}
/// Builds, checks the report, and looks up every key and as many absent keys.
fn check(
    kind: &dyn Kind,
    stream: &Stream,
    keys: &[u32],
    values: &[u32],
    options: &Options,
    oracle: &FxHashMap<u32, u32>,
) {
    let device = stream.device();
    let (k, v) = (device.stage(keys).unwrap(), device.stage(values).unwrap());
    let table = kind.build(stream, k.view(), v.view(), options).unwrap();
    let report = table.report();
    let place = format!("{} on {}, n = {}, {options:?}", kind.name(), device.name(), keys.len());
    assert_eq!(report.pairs + report.duplicates, keys.len(), "{place}");
    if options.duplicates != Duplicates::Unchecked {
        assert_eq!(report.pairs, oracle.len(), "{place}");
    }
    assert!(report.bytes >= 8 * report.pairs && report.attempts >= 1, "{place}: {report:?}");
    let mut queries = oracle.keys().copied().collect::<Vec<_>>();
    queries.sort_unstable();
    let mut random = Random(1);
    queries.extend((0..keys.len() + 8).map(|_| random.word() as u32));
    queries.extend([0, 1, u32::MAX, u32::MAX - 1]);
    let answers = table.get(stream, &queries).unwrap();
    for (q, a) in queries.iter().zip(answers) {
        assert_eq!(a, oracle.get(q).copied(), "{place}: key {q}");
    }
}
fn unchecked(load: Option<f64>, seed: u64) -> Options {
    Options::default().with_load(load).with_duplicates(Duplicates::Unchecked).with_seed(seed)
}

#[test]
fn every_kind_holds_every_size() {
    for device in devices() {
        let stream = device.stream().unwrap();
        for kind in kinds() {
            let sizes: &[u32] = match is_quick(*kind, &device) {
                true => &[
                    0, 1, 2, 3, 31, 32, 33, 408, 409, 410, 511, 512, 513, 1023, 1024, 1025, 4097,
                    100_000, 300_000,
                ],
                false => &[0, 1, 2, 3, 31, 32, 33, 409, 410, 512, 513, 1025, 2049],
            };
            for &n in sizes {
                let keys = (0..n).map(|i| scramble(i, n)).collect::<Vec<_>>();
                let values = keys.iter().map(|&k| value_of(k)).collect::<Vec<_>>();
                let oracle = keys.iter().copied().zip(values.iter().copied()).collect();
                check(*kind, &stream, &keys, &values, &unchecked(None, n as u64), &oracle);
            }
        }
    }
}

#[test]
fn every_kind_holds_every_key_set() {
    for device in devices() {
        let stream = device.stream().unwrap();
        for kind in kinds() {
            let n = if is_quick(*kind, &device) { 15_000 } else { 700 };
            for set in KEY_SETS {
                let keys = (0..n).map(set.key).collect::<Vec<_>>();
                let values = keys.iter().map(|&k| value_of(k)).collect::<Vec<_>>();
                let oracle: FxHashMap<u32, u32> =
                    keys.iter().copied().zip(values.iter().copied()).collect();
                assert_eq!(oracle.len(), n as usize, "{} repeats keys", set.name);
                check(*kind, &stream, &keys, &values, &unchecked(None, 3), &oracle);
            }
        }
    }
}

/// Minimum and maximum bytes per pair at a load, as the kinds document.
fn bytes_per_pair(name: &str, load: f64) -> (f64, f64) {
    let (about, spread) = match name {
        "sorted" => (8.0, 0.01),
        "chaining" | "chaining-2-choices" | "chaining-4-left" => (12.0 + 4.0 / load, 0.01),
        "function-id" | "stored-step" => (8.0 / load + 4.0, 0.01),
        "fks" => (8.0 / load + 8.0 * load / (1.0 - load), 0.1),
        // Random keys are not a surface: they need many offsets. And sides are whole numbers.
        "perfect-spatial-2d" | "perfect-spatial-3d" => {
            return (8.0 / load, 1.3 * 8.0 / load + 50.0);
        }
        _ => (8.0 / load, 0.19),
    };
    (about * (1.0 - spread), about * (1.0 + spread))
}

#[test]
fn every_kind_holds_every_load() {
    for device in devices() {
        let stream = device.stream().unwrap();
        for kind in kinds() {
            let n = if is_quick(*kind, &device) { 100_000 } else { 1_500 };
            let keys = (0..n).map(|i| scramble(i, 5)).collect::<Vec<_>>();
            let values = keys.iter().map(|&k| value_of(k)).collect::<Vec<_>>();
            let oracle = keys.iter().copied().zip(values.iter().copied()).collect();
            for part in [0.1, 0.5, 0.8, 0.95, 1.0] {
                check(
                    *kind,
                    &stream,
                    &keys,
                    &values,
                    &unchecked(Some(part * kind.max_load()), 3),
                    &oracle,
                );
            }
            let load = 0.9 * kind.max_load();
            let (k, v) = (device.stage(&keys).unwrap(), device.stage(&values).unwrap());
            let table = kind.build(&stream, k.view(), v.view(), &unchecked(Some(load), 3)).unwrap();
            let per_pair = table.report().bytes as f64 / n as f64;
            let (least, most) = bytes_per_pair(kind.name(), load);
            assert!(
                per_pair > least && per_pair < most,
                "{}: {per_pair} bytes a pair",
                kind.name()
            );
            for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, kind.max_load() + 0.01] {
                let (k, v) = (device.stage(&keys).unwrap(), device.stage(&values).unwrap());
                let built = kind.build(&stream, k.view(), v.view(), &unchecked(Some(wrong), 3));
                if kind.name() != "sorted" {
                    let Err(Error::Setting { field: "load", .. }) = built else {
                        panic!("{}: load {wrong}", kind.name())
                    };
                }
            }
        }
    }
}

/// Loads so low that no memory holds the slots.
#[test]
fn tiny_loads_are_errors_with_the_numbers() {
    let device = koel::Device::cpu_with_threads(2).unwrap();
    let stream = device.stream().unwrap();
    let keys = (0..1500).map(|i| scramble(i, 5)).collect::<Vec<u32>>();
    let (k, v) = (device.stage(&keys).unwrap(), device.stage(&keys).unwrap());
    for load in [1e-9, 1e-12, 1e-17, 1e-100, 1e-300, f64::MIN_POSITIVE, 5e-324] {
        let options = Options::default().with_load(Some(load)).with_seed(3);
        for kind in kinds() {
            match kind.build(&stream, k.view(), v.view(), &options) {
                // Kinds that have no slots to leave empty, or a documented minimum.
                Ok(table) if ["sorted", "fks", "two-level-sized"].contains(&kind.name()) => {
                    assert_eq!(table.report().pairs, keys.len());
                }
                Err(e @ (Error::Setting { .. } | Error::TooMany { .. })) => {
                    assert!(e.to_string().contains("1500 pairs"), "{}: {e}", kind.name());
                }
                other => panic!("{} at {load:?}: {:?}", kind.name(), other.map(|_| ())),
            }
        }
        for kind in koel_classic::list_kinds() {
            match kind.build(&stream, k.view(), v.view(), &options) {
                Ok(table) if kind.name() == "sorted-multi" => {
                    assert_eq!(table.report().pairs, keys.len());
                }
                Err(e) => assert!(e.to_string().contains("1500 pairs"), "{}: {e}", kind.name()),
                Ok(_) => panic!("{} at {load:?}", kind.name()),
            }
        }
    }
}

#[test]
fn single_level_in_every_variant() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let n = if is_fast(&device) { 30_000 } else { 800 };
        let keys = (0..n).map(|i| scramble(i, 6)).chain([u32::MAX]).collect::<Vec<_>>();
        let values =
            keys.iter().map(|&k| if k == u32::MAX { k } else { value_of(k) }).collect::<Vec<_>>();
        let oracle: FxHashMap<_, _> = keys.iter().copied().zip(values.iter().copied()).collect();
        for functions in 2..=5 {
            for coinciding in [Coinciding::FirstMatch, Coinciding::Advance, Coinciding::Random] {
                for stash in [None, Some((StashKind::Array, 64)), Some((StashKind::Table, 64))] {
                    let kind = SingleLevel {
                        functions,
                        coinciding,
                        stash,
                        stop_at_empty: coinciding != Coinciding::Random,
                        ..SingleLevel::PUBLISHED
                    };
                    check(&kind, &stream, &keys, &values, &unchecked(None, 4), &oracle);
                }
            }
        }
        for &family in Family::ALL {
            let kind = SingleLevel { family, ..SingleLevel::PUBLISHED };
            check(&kind, &stream, &keys, &values, &unchecked(None, 4), &oracle);
            for kind in [TwoLevel::PUBLISHED, TwoLevel::TWO_CHOICES, TwoLevel::SIZED] {
                let kind = TwoLevel { family, ..kind };
                check(&kind, &stream, &keys, &values, &unchecked(None, 4), &oracle);
            }
            check(&TwoKernel { family }, &stream, &keys, &values, &unchecked(None, 4), &oracle);
        }
    }
}

/// With chains so short that many are given up, the stash must hold and find the rest.
#[test]
fn the_stash_is_used() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let keys = (0..1000).map(|i| scramble(i, 8)).collect::<Vec<_>>();
        let values = keys.iter().map(|&k| value_of(k)).collect::<Vec<_>>();
        let oracle = keys.iter().copied().zip(values.iter().copied()).collect();
        for stash_kind in [StashKind::Array, StashKind::Table] {
            let kind = SingleLevel {
                max_evictions: Some(2),
                stash: Some((stash_kind, 1000)),
                ..SingleLevel::PUBLISHED
            };
            check(&kind, &stream, &keys, &values, &unchecked(None, 4), &oracle);
            let (k, v) = (device.stage(&keys).unwrap(), device.stage(&values).unwrap());
            let table = kind.build(&stream, k.view(), v.view(), &unchecked(None, 4)).unwrap();
            assert!(table.report().stashed > 50, "{:?}", table.report());
        }
    }
}

/// The pitfall with the papers' primes: the build falls back, and reports it.
#[test]
fn weak_functions_fall_back() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let build = |kind: &dyn Kind, prime: u32, copies: u32| {
            let groups = if is_fast(&device) { 100 } else { 10 } * 40 / copies.max(40) + 1;
            let keys =
                (0..copies * groups).map(|i| (i % copies) * prime + i / copies).collect::<Vec<_>>();
            let values = keys.iter().map(|&k| value_of(k)).collect::<Vec<_>>();
            let oracle = keys.iter().copied().zip(values.iter().copied()).collect();
            check(kind, &stream, &keys, &values, &unchecked(None, 4), &oracle);
            let (k, v) = (device.stage(&keys).unwrap(), device.stage(&values).unwrap());
            kind.build(&stream, k.view(), v.view(), &unchecked(None, 4)).unwrap().report().clone()
        };
        let paper = SingleLevel { family: Family::Linear2011, ..SingleLevel::PUBLISHED };
        // No constants tell the keys apart, so other functions are drawn at once where that is
        // known.
        for (kind, prime, copies, attempts) in [
            (&paper as &dyn Kind, 334_214_459, 12, 2),
            (&TwoLevel::PUBLISHED, 1_900_813, 40, 5),
            (&TwoLevel::TWO_CHOICES, 1_900_813, 40, 5),
            (&TwoLevel::SIZED, 1_900_813, 40, 5),
            (&TwoKernel::PUBLISHED, 1_900_813, 700, 5),
        ] {
            let report = build(kind, prime, copies);
            assert_eq!(report.family, "bijective mixing", "{}", kind.name());
            assert!(report.attempts == attempts && report.fallback.is_some(), "{report:?}");
        }
        let report = build(&paper, 334_214_459, 12);
        let groups = report.pairs / 12;
        let said = format!("({} too many are equal to others modulo 334214459)", 8 * groups);
        assert!(report.fallback.unwrap().contains(&said), "{groups} groups");
        // A bucket overflows, and the keys are not at fault: the first restart succeeds, with the
        // published functions inside buckets.
        let buckets = 20_000u32.div_ceil(409);
        let key = |i: u32| i * buckets + if i < 600 { 0 } else { 1 + i % (buckets - 1) };
        let keys = (0..20_000).map(key).collect::<Vec<u32>>();
        let (k, v) = (device.stage(&keys).unwrap(), device.stage(&keys).unwrap());
        let table = TwoLevel::PUBLISHED.build(&stream, k.view(), v.view(), &unchecked(None, 4));
        let report = table.unwrap().report().clone();
        assert_eq!((report.attempts, &report.fallback), (2, &None), "{report:?}");
        let report = build(&paper, 1000, 3);
        assert_eq!((report.attempts, &report.fallback), (1, &None));
    }
}

#[test]
fn duplicates_follow_the_policy() {
    for device in devices() {
        let stream = device.stream().unwrap();
        for kind in kinds() {
            let n = if is_quick(*kind, &device) { 2_500u32 } else { 300 };
            let few: &[u32] =
                if is_quick(*kind, &device) { &[1, 2, 100, n / 2, n - 1] } else { &[1, n / 2] };
            for &distinct in few {
                let mut random = Random(distinct as u64);
                let keys = (0..n)
                    .map(|i| if i < distinct { i } else { random.below(distinct as u64) as u32 })
                    .map(|k| scramble(k, 1))
                    .collect::<Vec<_>>();
                let values = (0..n).collect::<Vec<_>>();
                let last: FxHashMap<_, _> =
                    keys.iter().copied().zip(values.iter().copied()).collect();
                let first: FxHashMap<_, _> =
                    keys.iter().copied().zip(values.iter().copied()).rev().collect();
                let of = |duplicates| Options::default().with_duplicates(duplicates);
                check(*kind, &stream, &keys, &values, &of(Duplicates::KeepLast), &last);
                check(*kind, &stream, &keys, &values, &of(Duplicates::KeepFirst), &first);
                let (k, v) = (device.stage(&keys).unwrap(), device.stage(&values).unwrap());
                let rejected = kind.build(&stream, k.view(), v.view(), &of(Duplicates::Reject));
                let Err(Error::DuplicateKey { key, first, second }) = rejected else {
                    panic!("{}", kind.name())
                };
                assert!(
                    first < second && key == u128::from(keys[first]) && keys[first] == keys[second]
                );
                // A broken promise: one of the pairs stays, nothing hangs.
                let table =
                    kind.build(&stream, k.view(), v.view(), &of(Duplicates::Unchecked)).unwrap();
                for (q, a) in keys.iter().zip(table.get(&stream, &keys).unwrap()) {
                    assert!(a.is_some_and(|v| keys[v as usize] == *q), "{}: {q}", kind.name());
                }
            }
        }
    }
}

#[test]
fn the_pair_of_all_ones_is_a_pair() {
    for device in devices() {
        let stream = device.stream().unwrap();
        for kind in kinds() {
            for (keys, values) in [
                (vec![u32::MAX], vec![u32::MAX]),
                (vec![u32::MAX], vec![0]),
                (vec![5, u32::MAX, 7], vec![u32::MAX; 3]),
                ((0..600).map(|i| !i).collect(), (0..600).map(|i| !i).collect()),
            ] {
                let oracle = keys.iter().copied().zip(values.iter().copied()).collect();
                check(*kind, &stream, &keys, &values, &Options::default(), &oracle);
                check(*kind, &stream, &keys, &values, &unchecked(None, 9), &oracle);
            }
        }
    }
}

#[test]
fn wrong_arguments_are_named() {
    let device = Device::cpu().unwrap();
    let (stream, other) = (device.stream().unwrap(), Device::executor(1));
    let (three, four) = ([1u32, 2, 3], [1u32, 2, 3, 4]);
    for kind in kinds() {
        let (k, v) = (device.stage(&three).unwrap(), device.stage(&four).unwrap());
        let Err(e) = kind.build(&stream, k.view(), v.view(), &Options::default()) else { panic!() };
        assert_eq!(e.to_string(), "`values` holds 4 elements, but `keys` needs 3");
        let table = kind.build(&stream, k.view(), k.view(), &Options::default()).unwrap();
        let (mut values, mut found) = (device.alloc(3).unwrap(), device.alloc(4).unwrap());
        let e = table.get_into(&stream, k.view(), values.view_mut(), found.view_mut()).unwrap_err();
        assert_eq!(e.to_string(), "`found` holds 4 elements, but `queries` needs 3");
        let elsewhere = other.upload(&three).unwrap();
        let Err(e) = kind.build(&stream, elsewhere.view(), elsewhere.view(), &Options::default())
        else {
            panic!()
        };
        assert!(matches!(e, Error::WrongDevice { .. }), "{e}");
    }
    let idle = SingleLevel { max_evictions: Some(0), ..SingleLevel::PUBLISHED };
    let k = device.stage(&three).unwrap();
    let built = idle.build(&stream, k.view(), k.view(), &Options::default());
    let Err(Error::Setting { field: "max_evictions", .. }) = built else { panic!() };
    let (k, bad) =
        (device.stage(&three).unwrap(), SingleLevel { functions: 6, ..SingleLevel::PUBLISHED });
    let Err(Error::Setting { field: "functions", .. }) =
        bad.build(&stream, k.view(), k.view(), &Options::default())
    else {
        panic!()
    };
}

/// Views need only the alignment of their elements.
#[test]
fn parts_of_buffers_will_do() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let keys = (0..3000).map(|i| scramble(i, 3)).collect::<Vec<_>>();
        let (k, v) = (device.upload(&keys).unwrap(), device.upload(&keys).unwrap());
        for kind in kinds() {
            for start in 1..4 {
                let (k, v) = (
                    k.view().slice(start..start + 2500).unwrap(),
                    v.view().slice(start..start + 2500).unwrap(),
                );
                let table = kind.build(&stream, k, v, &Options::default()).unwrap();
                let answers = table.get(&stream, &keys).unwrap();
                for (i, a) in answers.into_iter().enumerate() {
                    assert_eq!(a, (start..start + 2500).contains(&i).then_some(keys[i]));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Any pairs, with few or many equal keys, in any policy, any kind and load.
    #[test]
    fn every_kind_answers_as_a_hash_map(
        pairs in prop::collection::vec(
            (prop_oneof![0..40u32, any::<u32>(), Just(u32::MAX)], any::<u32>()),
            0..300
        ),
        kind in 0..kinds().len(),
        load in 0.05..1.0,
        first in any::<bool>(),
        executor in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let device = if executor {
            Device::executor(seed)
        } else {
            Device::cpu_with_threads(1).unwrap()
        };
        let (keys, values): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
        let duplicates = if first { Duplicates::KeepFirst } else { Duplicates::KeepLast };
        let oracle = if first {
            pairs.into_iter().rev().collect()
        } else {
            pairs.into_iter().collect()
        };
        let options = Options::default()
            .with_load(Some(load * kinds()[kind].max_load()))
            .with_duplicates(duplicates)
            .with_seed(seed);
        check(kinds()[kind], &device.stream().unwrap(), &keys, &values, &options, &oracle);
    }
}

//! Sets, compacting and multi-value tables against a `HashMap` of lists, on every device.

use koel::{Error, Stream};
use koel_classic::{ListKind, Listed, Options, list_kinds};
use koel_testing::tables::{KEY_SETS, Random, devices, is_fast, scramble};
use proptest::prelude::*;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Builds, checks the list, and looks up every key and as many absent keys.
fn check(kind: &dyn ListKind, stream: &Stream, keys: &[u32], values: &[u32], seed: u64) {
    let device = stream.device();
    let (k, v) = (device.stage(keys).unwrap(), device.stage(values).unwrap());
    let table =
        kind.build(stream, k.view(), v.view(), &Options::default().with_seed(seed)).unwrap();
    let place = format!("{} on {}, n = {}", kind.name(), device.name(), keys.len());
    let mut oracle: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    keys.iter().zip(values).for_each(|(k, v)| oracle.entry(*k).or_default().push(*v));
    let (report, list) = (table.report(), table.list().download().unwrap());
    assert_eq!(
        (report.pairs, report.pairs + report.duplicates),
        (oracle.len(), keys.len()),
        "{place}"
    );
    let length = match kind.lists() {
        Listed::Nothing => 0,
        Listed::Keys => oracle.len(),
        Listed::Values => keys.len(),
    };
    assert_eq!(list.len(), length, "{place}");

    let mut queries =
        oracle.keys().copied().collect::<BTreeSet<u32>>().into_iter().collect::<Vec<_>>();
    let mut random = Random(1);
    queries.extend((0..keys.len() + 8).map(|_| random.word() as u32));
    queries.extend([0, 1, u32::MAX, u32::MAX - 1]);
    for (q, (start, count)) in queries.iter().zip(table.get(stream, &queries).unwrap()) {
        let (part, expected) = (start as usize..(start + count) as usize, oracle.get(q));
        match (kind.lists(), expected) {
            (_, None) => assert_eq!((start, count), (0, 0), "{place}: key {q}"),
            (Listed::Nothing, Some(_)) => assert_eq!((start, count), (0, 1), "{place}: key {q}"),
            (Listed::Keys, Some(_)) => {
                assert_eq!((&list[part], count), (&[*q][..], 1), "{place}: key {q}")
            }
            (Listed::Values, Some(expected)) => {
                let (mut found, mut expected) = (list[part].to_vec(), expected.clone());
                if !kind.name().contains("two-level") {
                    assert_eq!(found, expected, "{place}: key {q}, in the order of the input");
                }
                found.sort();
                expected.sort();
                assert_eq!(found, expected, "{place}: key {q}");
            }
        }
    }
}

#[test]
fn every_kind_holds_every_size_and_multiplicity() {
    for device in devices() {
        let stream = device.stream().unwrap();
        for kind in list_kinds() {
            let sizes: &[u32] =
                if is_fast(&device) { &[0, 1, 2, 33, 513, 4097, 15_000] } else { &[0, 1, 33, 600] };
            for &n in sizes {
                for multiplicity in [1, 3, 100, 100_000] {
                    let keys = (0..n)
                        .map(|i| scramble(i % n.div_ceil(multiplicity), 3))
                        .collect::<Vec<u32>>();
                    let values = (0..n).map(|i| !i).collect::<Vec<u32>>();
                    check(*kind, &stream, &keys, &values, 4);
                }
            }
        }
    }
}

#[test]
fn every_kind_holds_every_key_set() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let n = if is_fast(&device) { 2_000 } else { 300 };
        for kind in list_kinds() {
            for set in KEY_SETS {
                // Every third key twice.
                let keys = (0..n)
                    .map(set.key)
                    .chain((0..n / 3).map(|i| (set.key)(3 * i)))
                    .collect::<Vec<u32>>();
                check(*kind, &stream, &keys, &keys, 5);
            }
            check(*kind, &stream, &[u32::MAX; 3], &[u32::MAX; 3], 6);
        }
    }
}

#[test]
fn wrong_arguments_are_named() {
    let device = koel::Device::cpu().unwrap();
    let stream = device.stream().unwrap();
    let (three, four) =
        (device.upload(&[1u32, 2, 3]).unwrap(), device.upload(&[1u32, 2, 3, 4]).unwrap());
    for kind in list_kinds() {
        let Err(e) = kind.build(&stream, three.view(), four.view(), &Options::default()) else {
            panic!()
        };
        assert_eq!(e.to_string(), "`values` holds 4 elements, but `keys` needs 3");
        for load in [0.0, -1.0, f64::NAN, 1.01] {
            let options = Options::default().with_load(Some(load));
            let built = kind.build(&stream, three.view(), three.view(), &options);
            assert!(
                matches!(built, Err(Error::Setting { field: "load", .. })),
                "{}: load {load}",
                kind.name()
            );
        }
        let table = kind.build(&stream, three.view(), three.view(), &Options::default()).unwrap();
        let (mut starts, mut counts) = (device.alloc(3).unwrap(), device.alloc(4).unwrap());
        let e = table
            .get_into(&stream, three.view(), starts.view_mut(), counts.view_mut())
            .unwrap_err();
        assert_eq!(e.to_string(), "`counts` holds 4 elements, but `queries` needs 3");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn every_kind_answers_as_a_map_of_lists(
        pairs in prop::collection::vec(
            (prop_oneof![0..40u32, any::<u32>(), Just(u32::MAX)], any::<u32>()),
            0..300
        ),
        kind in 0..list_kinds().len(),
        executor in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let device = match executor {
            true => koel::Device::executor(seed),
            false => koel::Device::cpu_with_threads(1).unwrap(),
        };
        let (keys, values): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        check(list_kinds()[kind], &device.stream().unwrap(), &keys, &values, seed);
    }
}

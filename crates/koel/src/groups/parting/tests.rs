//! Pairs parted by hash, in partitions so small that a few thousand pairs fill many, against an oracle.
use super::*;
use crate::groups::{Grouped, Groups};
use crate::{MultiMapBuilder, MultiMapOptions, ValueOrder};
use koel_kernels::hash::mix::{mix, splitmix_at};
use koel_kernels::map::layout::{Narrow, Wide};
use std::collections::BTreeMap;

/// One pass up to four partitions, from there on two.
const SMALL: PartingSizes = PartingSizes { least: 1, pairs: 300, one_pass: 4, groups: 4 };
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

/// Groups pairs, and compares the groups with an oracle's. Whether there are any.
fn check<K: Key, V: Value>(stream: &Stream, kept: &mut Option<Parting>, sizes: PartingSizes, keys: &[K]) -> bool {
    let (device, n) = (stream.device(), keys.len());
    let values = (0..n as u64).map(|i| V::narrowed(!i << 7 ^ i)).collect::<Vec<_>>();
    let mut oracle = BTreeMap::<K, Vec<V>>::new();
    for (&key, &value) in keys.iter().zip(&values) {
        oracle.entry(key).or_default().push(value);
    }
    let (on_device, values) = (device.upload(keys).unwrap(), device.upload(&values).unwrap());
    let (mut grouping, mut grouped) = (Grouping::new(device, n).unwrap(), device.alloc::<V>(n).unwrap());
    let to = grouped.view_mut();
    let found = group(stream, sizes, SEED, (on_device.view(), values.view()), kept, &mut grouping, to).unwrap();
    let Some(found) = found else { return false };
    assert_eq!(found, oracle.len());
    let Groups { keys, starts } = grouping.kept(stream, found).unwrap();
    let (keys, starts, grouped) = (keys.download().unwrap(), starts.download().unwrap(), grouped.download().unwrap());
    assert_eq!((starts[0], starts[found]), (0, n as u32));
    for (key, at) in keys.iter().zip(starts.windows(2)) {
        let mut of = grouped[at[0] as usize..at[1] as usize].to_vec();
        let mut expected = oracle.remove(key).unwrap_or_else(|| panic!("{key:?} comes twice, or never came"));
        of.sort();
        expected.sort();
        assert!(of == expected, "values of {key:?}");
    }
    true
}
fn column<K: Key>(of: Column, n: u64) -> Vec<K> {
    (0..n).map(|i| K::narrowed(of(i, n))).collect()
}
fn all_sizes<K: Key, V: Value>() {
    for seed in 0..3 {
        let (stream, mut kept) = (executor(seed), None);
        // Memory is used again, for fewer and for more.
        for n in [1, 2, 31, 300, 1023, 1025, 4000, 257, 9000] {
            for (c, of) in [RANDOM, SEQUENTIAL, FOUR, SIXTEEN].into_iter().enumerate() {
                if n > 2000 && (c as u64 + n + seed).is_multiple_of(2) {
                    continue;
                }
                let keys = column::<K>(of, n);
                assert!(check::<K, V>(&stream, &mut kept, SMALL, &keys), "column {c}, {n} keys: sorted");
            }
        }
    }
}
#[test]
fn narrow_pairs() {
    all_sizes::<u32, u32>();
}
#[test]
fn wide_values() {
    all_sizes::<u32, u64>();
}
#[test]
fn wide_keys() {
    all_sizes::<u64, u32>();
}
#[test]
fn wide_pairs() {
    all_sizes::<u64, u64>();
}
/// Where a block has all that it can hold.
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
/// What the sample does not tell: bins that are too small, the key that bins cannot tell from nothing.
#[test]
fn what_does_not_come_to_its_bin_is_sorted() {
    let (stream, mut kept) = (executor(5), None);
    // All keys of one partition of many, by what they are mixed to.
    let alike = (0..2000u32).map(|i| Narrow::unmixed(SEED, i * 1000)).collect::<Vec<_>>();
    assert!(!check::<u32, u32>(&stream, &mut kept, SMALL, &alike));
    let mut keys = column::<u32>(RANDOM, 3000);
    assert!(check::<u32, u32>(&stream, &mut kept, SMALL, &keys));
    keys[1234] = Narrow::unmixed(SEED, Narrow::AMBIGUOUS);
    assert!(!check::<u32, u32>(&stream, &mut kept, SMALL, &keys));
    let mut keys = column::<u64>(RANDOM, 3000);
    keys[77] = Wide::<u64, u32>::unmixed(SEED, u64::MAX);
    assert!(!check::<u64, u32>(&stream, &mut None, SMALL, &keys));
    // And the next build is not disturbed.
    assert!(check::<u32, u32>(&stream, &mut kept, SMALL, &column(RANDOM, 3000)));
}
#[test]
fn samples_tell_how_often_keys_come() {
    let stream = executor(6);
    for (each, n) in [(1, 1 << 15), (8, 1 << 15), (100, 3 << 14)] {
        let keys = stream.device().upload(&(0..n).map(|i| mix(i / each)).collect::<Vec<_>>()).unwrap();
        let mut couples = stream.device().upload(&[0u32]).unwrap();
        let to = couples.view_mut().arg("couples", &stream).unwrap();
        // SAFETY: `n` keys; one sum.
        unsafe { u32::sample(&stream, SAMPLES, n, keys.view().arg("keys", &stream).unwrap(), to).unwrap() };
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
            assert!(room <= MOST && room as f64 >= mean + 4.9 * (mean * copies).sqrt(), "{plan:?}");
        }
    }
    assert!(PartingSizes::TUNED.of::<Narrow>(4.0).unwrap().pairs == 3600);
    assert!(PartingSizes::TUNED.of::<Wide<u64, u64>>(5000.0).is_none());
}
/// Multimaps of both orders answer alike.
#[test]
fn multimaps_in_any_order() {
    let stream = executor(8);
    let device = stream.device();
    let options = MultiMapOptions { order: ValueOrder::Any, seed: 3, ..MultiMapOptions::default() };
    let mut builder = MultiMapBuilder::<u32, u32>::sized(device, options, SMALL).unwrap();
    for (of, n) in [(FOUR, 5000), (HALF, 900), (SIXTEEN, 3000), (RANDOM, 0), (RANDOM, 1)] {
        let keys = column::<u32>(of, n);
        let values = (0..n as u32).collect::<Vec<_>>();
        let (on_device, values_on) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        let map = builder.build(&stream, on_device.view(), values_on.view()).unwrap();
        let sorted = crate::MultiMap::build(device, &keys, &values).unwrap();
        assert_eq!((map.len(), map.index().len()), (sorted.len(), sorted.index().len()));
        let queries = keys.iter().step_by(7).copied().chain([1, 2, u32::MAX]).collect::<Vec<_>>();
        let (found, expected) = (map.retrieve(&queries).unwrap(), sorted.retrieve(&queries).unwrap());
        assert_eq!(found.offsets, expected.offsets);
        for i in 0..queries.len() {
            let mut of = found.of(i).to_vec();
            of.sort();
            assert!(of == expected.of(i));
        }
        // Ids lead to keys, and back.
        let ids = map.index().ids(&keys).unwrap().into_iter().map(Option::unwrap).collect::<Vec<_>>();
        assert!(map.index().keys_of(&ids).unwrap().into_iter().eq(keys.iter().copied().map(Some)));
        let mut file = std::io::Cursor::new(vec![]);
        map.save_to(&mut file).unwrap();
        let loaded = crate::MultiMap::<u32, u32>::load_bytes(&Device::cpu().unwrap(), file.get_ref()).unwrap();
        assert!(loaded.retrieve(&queries).unwrap() == found);
    }
    assert!(builder.scratch_bytes() > 0);
}

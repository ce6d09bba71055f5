//! Keys crafted against a known seed: builds take another seed, and stay as fast; answers are
//! right.

use crate::support::special::chosen_keys;
use crate::support::{devices, is_fast};
use koel::types::{KeyBits, ValueBits};
use koel::{
    Device, DeviceKind, Duplicates, Map, MapBuilder, MapOptions, MapUpdater, Operation, Operations,
    SetBuilder, SetOperation, SetOptions, SetUpdater,
};
use koel_kernels::hash::mix::splitmix_at;

const SEED: u32 = 7;
/// Maximum number of attempts of a build: nobody knew the second seed.
const MAX_ATTEMPTS: u32 = 4;

fn sizes(device: &Device) -> &'static [u32] {
    if is_fast(device) { &[5_000, 60_000] } else { &[2_000] }
}
/// Maximum number of pairs that a build of `n` pairs stashes.
fn most_stashed(n: usize) -> usize {
    (n / 32).max(128)
}
fn value<V: ValueBits>(i: usize) -> V {
    V::narrowed(!(i as u64))
}
fn map_of<K: KeyBits, V: ValueBits>(device: &Device, keys: &[K], options: MapOptions) -> Map<K, V> {
    let values = (0..keys.len()).map(value).collect::<Vec<V>>();
    let (keys, values) = (device.stage(keys).unwrap(), device.stage(&values).unwrap());
    let mut builder = MapBuilder::new(device, options).unwrap();
    builder.build(&device.stream().unwrap(), keys.view(), values.view()).unwrap()
}
fn check_map<K: KeyBits, V: ValueBits>(map: &Map<K, V>, keys: &[K]) {
    let report = map.report().unwrap();
    let place = map.device().name();
    assert_eq!(report.entries, keys.len(), "{place}: {report:?}");
    assert!(report.stashed <= most_stashed(keys.len()), "{place}: {report:?}");
    let expected = (0..keys.len()).map(|i| Some(value(i)));
    assert!(map.get(keys).unwrap().into_iter().eq(expected), "{place}: {report:?}");
    let others = chosen_keys::<K::Layout<V>>(SEED + 1, 1000);
    let there = |key: &K| keys.contains(key);
    assert!(
        map.contains(&others).unwrap().into_iter().eq(others.iter().map(there)),
        "{place}: {report:?}"
    );
}

fn maps<K: KeyBits, V: ValueBits>() {
    for device in devices() {
        for &n in sizes(&device) {
            let keys = chosen_keys::<K::Layout<V>>(SEED, n);
            let options = MapOptions::default().with_seed(SEED);
            let map = map_of::<K, V>(&device, &keys, options);
            check_map(&map, &keys);
            let attempts = map.report().unwrap().attempts;
            assert!(
                (2..=MAX_ATTEMPTS).contains(&attempts),
                "{attempts} attempts on {}",
                device.name()
            );
            // Under another seed they are ordinary keys.
            let map = map_of::<K, V>(&device, &keys, options.with_seed(SEED + 1));
            check_map(&map, &keys);
            assert_eq!(map.report().unwrap().attempts, 1, "{}", device.name());
            let map = map_of::<K, V>(&device, &keys, MapOptions::default());
            assert_eq!(map.report().unwrap().attempts, 1, "{}", device.name());
        }
    }
}
#[test]
fn maps_take_another_seed() {
    maps::<u32, u32>();
    maps::<u64, u32>();
    maps::<u64, u64>();
}
/// The seed follows from the keys and the first seed, not from the order of the keys or the number
/// of threads.
#[test]
fn reproducible_maps_take_the_same_seed() {
    fn fingerprints<K: KeyBits>() {
        let n = if is_fast(&Device::cpu().unwrap()) { 40_000 } else { 3_000 };
        let mut pairs =
            chosen_keys::<K::Layout<u32>>(SEED, n).into_iter().zip(0..).collect::<Vec<(K, u32)>>();
        let options = MapOptions::default().with_seed(SEED).with_reproducible(true);
        let mut of = |threads| {
            let device = Device::cpu_with_threads(threads).unwrap();
            let (keys, values): (Vec<K>, Vec<u32>) = pairs.iter().copied().unzip();
            pairs.rotate_left(1_234);
            let (k, v) = (device.stage(&keys).unwrap(), device.stage(&values).unwrap());
            let mut builder = MapBuilder::new(&device, options).unwrap();
            let map = builder.build(&device.stream().unwrap(), k.view(), v.view()).unwrap();
            assert!(map.report().unwrap().attempts > 1);
            assert!(map.get(&keys).unwrap().into_iter().eq(values.into_iter().map(Some)));
            map.fingerprint().unwrap()
        };
        assert_eq!(of(1), of(3));
    }
    fingerprints::<u32>();
    fingerprints::<u64>();
}
#[test]
fn sets_take_another_seed() {
    fn sets<K: KeyBits>() {
        for device in devices() {
            for &n in sizes(&device) {
                let keys = chosen_keys::<K::Pairs>(SEED, n);
                let options = SetOptions::default().with_seed(SEED);
                let staged = device.stage(&keys).unwrap();
                let mut builder = SetBuilder::new(&device, options).unwrap();
                let set = builder.build(&device.stream().unwrap(), staged.view()).unwrap();
                let (report, place) = (set.report().unwrap(), device.name());
                assert_eq!((report.entries, report.duplicates), (keys.len(), 0), "{place}");
                assert!((2..=MAX_ATTEMPTS).contains(&report.attempts), "{place}: {report:?}");
                assert!(report.stashed <= most_stashed(keys.len()), "{place}: {report:?}");
                assert_eq!(set.count(&keys).unwrap(), keys.len() as u64, "{place}");
            }
        }
    }
    sets::<u32>();
    sets::<u64>();
}
/// Copies of few keys that share their buckets fit: they are not mistaken for many keys.
#[test]
fn copies_do_not_look_like_chosen_keys() {
    for device in devices().into_iter().filter(|device| device.kind() == DeviceKind::Cpu) {
        let keys = chosen_keys::<<u64 as KeyBits>::Layout<u32>>(SEED, 100);
        let many = (0..300_000).map(|i| keys[i % keys.len()]).collect::<Vec<_>>();
        let map = map_of::<u64, u32>(&device, &many, MapOptions::default().with_seed(SEED));
        let report = map.report().unwrap();
        assert_eq!((report.entries, report.attempts), (keys.len(), 1), "{report:?}");
        assert!(map.contains(&keys).unwrap().into_iter().all(|found| found));
        let (staged, options) =
            (device.stage(&many).unwrap(), SetOptions::default().with_seed(SEED));
        let mut builder = SetBuilder::new(&device, options).unwrap();
        let report =
            builder.build(&device.stream().unwrap(), staged.view()).unwrap().report().unwrap();
        assert_eq!((report.entries, report.attempts), (keys.len(), 1), "{report:?}");
    }
}
/// Some keys that share their buckets, each several times, among others: one copy of each stays,
/// however many keys share buckets.
#[test]
fn copies_of_keys_that_look_alike_become_one() {
    fn check<K: KeyBits, V: ValueBits>(
        alike: u32,
        others: u32,
        copies: usize,
        duplicates: Duplicates,
    ) {
        let mut keys = chosen_keys::<K::Layout<V>>(SEED, alike);
        keys.extend((0..others).map(|i| K::narrowed(splitmix_at(5, i))));
        let distinct = keys.len();
        // Copies are far from each other, in a different order each time.
        let input = (0..copies)
            .flat_map(|copy| (0..distinct).map(move |i| (i * 7_919 + copy * 31) % distinct));
        let input = input.map(|i| keys[i]).collect::<Vec<K>>();
        let expected = keys.iter().map(|key| match duplicates {
            Duplicates::KeepFirst => input.iter().position(|k| k == key),
            _ => input.iter().rposition(|k| k == key),
        });
        let expected = expected.map(|at| at.map(value::<V>)).collect::<Vec<_>>();
        for device in devices() {
            let options = MapOptions::default().with_seed(SEED).with_duplicates(duplicates);
            let map = map_of::<K, V>(&device, &input, options);
            let (report, place) = (map.report().unwrap(), device.name());
            assert_eq!(
                (report.entries, report.duplicates),
                (distinct, input.len() - distinct),
                "{place}: {report:?}"
            );
            assert_eq!(map.get(&keys).unwrap(), expected, "{place}: {report:?}");
            assert!(report.attempts == 1 || alike >= 75, "{place}: {report:?}");
        }
    }
    // The first case fits in the stash, the last ones take another seed. In between, the order of
    // the threads decides whether the lists of a partition have room for all copies.
    for (alike, others, copies) in
        [(60, 500, 2), (75, 1_000, 2), (90, 0, 2), (150, 100, 2), (120, 1_300, 3), (180, 1_500, 2)]
    {
        check::<u64, u32>(alike, others, copies, Duplicates::KeepLast);
        check::<u64, u64>(alike, others, copies, Duplicates::KeepFirst);
        check::<u32, u32>(alike, others, copies, Duplicates::KeepFirst);
    }
}

/// Batches crafted against the seed of a table of other keys: the stash does not grow with them.
fn updates<K: KeyBits, V: ValueBits>() {
    for device in devices() {
        let n = if is_fast(&device) { 40_000 } else { 1_500 };
        let stream = device.stream().unwrap();
        let others = chosen_keys::<K::Layout<V>>(SEED + 1, n);
        let options = MapOptions::default().with_seed(SEED);
        let mut keys = chosen_keys::<K::Layout<V>>(SEED, n);
        keys.retain(|key| others.binary_search(key).is_err());
        let mut map = map_of::<K, V>(&device, &others, options);
        let mut updater = MapUpdater::new(&device, options).unwrap();
        let mut all = others.clone();
        for keys in keys.chunks(keys.len() / 4 + 1) {
            let values = (all.len()..all.len() + keys.len()).map(value).collect::<Vec<V>>();
            all.extend(keys);
            let (k, v) = (device.stage(keys).unwrap(), device.stage(&values).unwrap());
            let mut outcomes = device.alloc(keys.len()).unwrap();
            let insert = Operations::All(Operation::Insert);
            updater
                .apply(&mut map, &stream, insert, k.view(), v.view(), outcomes.view_mut())
                .unwrap();
            check_map(&map, &all);
        }
        let erased = map.erase(&keys).unwrap();
        assert!(erased.iter().all(|&outcome| outcome == koel::Outcome::Erased));
        check_map(&map, &others);
    }
}
#[test]
fn updates_of_maps_take_another_seed() {
    updates::<u32, u32>();
    updates::<u64, u64>();
}
#[test]
fn updates_of_sets_take_another_seed() {
    fn updates<K: KeyBits>() {
        for device in devices() {
            let n = if is_fast(&device) { 40_000 } else { 1_500 };
            let (stream, keys) = (device.stream().unwrap(), chosen_keys::<K::Pairs>(SEED, n));
            let options = SetOptions::default().with_seed(SEED);
            let none = device.stage::<K>(&[]).unwrap();
            let mut set =
                SetBuilder::new(&device, options).unwrap().build(&stream, none.view()).unwrap();
            let mut updater = SetUpdater::new(&device, options).unwrap();
            for keys in keys.chunks(keys.len() / 4 + 1) {
                let (k, mut outcomes) =
                    (device.stage(keys).unwrap(), device.alloc(keys.len()).unwrap());
                let insert = Operations::All(SetOperation::Insert);
                updater.apply(&mut set, &stream, insert, k.view(), outcomes.view_mut()).unwrap();
            }
            let (report, place) = (set.report().unwrap(), device.name());
            assert_eq!(set.count(&keys).unwrap(), keys.len() as u64, "{place}");
            assert!(report.stashed <= most_stashed(keys.len()), "{place}: {report:?}");
        }
    }
    updates::<u32>();
    updates::<u64>();
}

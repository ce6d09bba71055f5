//! Indexes and multimaps on every device against naive oracles.

use crate::support::{Random, devices, is_fast};
use koel::groups::reduction::{Max, Min, Reduction, Sum};
use koel::types::{Bits, KeyBits, SlotValue, ValueBits};
use koel::{
    Device, DeviceKind, Error, Index, IndexBuilder, IndexOptions, MultiMap, MultiMapBuilder,
    MultiMapOptions, NO_ID, Retriever, ValueOrder,
};
use proptest::prelude::*;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

/// Columns in which keys occur once, often, or nearly always: key `i` of `n`, from random bits `r`.
type Column = fn(i: u64, n: u64, r: u64) -> u64;
const COLUMNS: [(&str, Column); 8] = [
    ("distinct", |i, _, _| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
    ("sequential", |i, _, _| i),
    ("four times each", |i, n, r| (r ^ i) % (n / 4 + 1) * 0x0001_0001_0001),
    ("three keys", |_, _, r| [0, u64::MAX, 1 << 40 | 7][r as usize % 3]),
    ("all equal", |_, _, _| u64::MAX),
    ("equal low bits", |_, _, r| (r % 500) << 20 | 0x3_0000),
    ("one key has half", |i, _, r| if r % 2 == 0 { 5 } else { i * 64 }),
    ("Zipf", |_, n, r| ((n as f64).ln() * (r >> 11) as f64 / (1u64 << 53) as f64).exp() as u64),
];
fn sizes(device: &Device) -> Vec<usize> {
    let mut sizes = vec![0, 1, 2, 31, 33, 255, 256, 257, 1025, 4097];
    sizes.push(match device.kind() {
        DeviceKind::Cuda if is_fast(device) => 300_000,
        _ if is_fast(device) => 30_000,
        _ => 7000,
    });
    sizes
}
/// Returns a key that differs from others as its number does, in its highest bits, too.
fn key<K: Bits>(number: u64) -> K {
    K::of_packed(u128::from(number) | u128::from(number.rotate_left(9)) << 64)
}
fn column<K: Bits>(of: Column, n: usize) -> Vec<K> {
    let mut random = Random(n as u64);
    (0..n as u64).map(|i| key(of(i, n as u64, random.word()))).collect()
}
/// Returns keys that are present, and some that most likely are not.
fn queries<K: Bits>(keys: &[K]) -> Vec<K> {
    let mut random = Random(!0);
    let strange = (0..300).map(|_| key(random.word())).collect::<Vec<_>>();
    let ends = [key(0), key(u64::MAX), key(1)];
    keys.iter().rev().step_by(3).copied().chain(strange).chain(ends).collect()
}

fn check_index<K: Bits + Eq>(
    builder: &mut IndexBuilder<K>,
    device: &Device,
    keys: &[K],
    place: &str,
) {
    let (mut of_key, mut distinct, mut counts) = (HashMap::new(), vec![], vec![]);
    let mut expected = vec![];
    for &key in keys {
        let id = *of_key.entry(key).or_insert(distinct.len() as u32);
        if id as usize == distinct.len() {
            distinct.push(key);
            counts.push(0u32);
        }
        counts[id as usize] += 1;
        expected.push(id);
    }
    let stream = device.stream().unwrap();
    let column = device.upload(keys).unwrap();
    let (index, counted) = builder.build_counted(&stream, column.view()).unwrap();
    assert!(counted.download().unwrap() == counts, "{place}");
    let mut ids = device.alloc(keys.len()).unwrap();
    let encoded = builder.encode(&stream, column.view(), ids.view_mut()).unwrap();
    assert!(ids.download().unwrap() == expected, "{place}");
    let asked = queries(keys);
    for index in [index, encoded, builder.build(&stream, column.view()).unwrap()] {
        assert_eq!((index.len(), index.is_empty()), (distinct.len(), keys.is_empty()), "{place}");
        assert!(index.keys_view().download().unwrap() == distinct, "{place}");
        let found = asked.iter().map(|key| of_key.get(key).copied());
        assert!(index.ids(&asked).unwrap().into_iter().eq(found), "{place}");
        let mut ids = device.alloc(keys.len()).unwrap();
        index.ids_into(&stream, column.view(), ids.view_mut()).unwrap();
        let ids = ids.download().unwrap();
        assert!(ids == expected, "{place}");
        // And back; invalid ids have no key.
        let all = index.keys_of(&[&ids[..], &[index.len() as u32, NO_ID]].concat()).unwrap();
        assert!(all.into_iter().eq(keys.iter().copied().map(Some).chain([None, None])), "{place}");
    }
}
fn check_group_counts<K: KeyBits>(
    builder: &mut IndexBuilder<K>,
    device: &Device,
    keys: &[K],
    place: &str,
) {
    let mut counts = BTreeMap::new();
    for &key in keys {
        *counts.entry(key).or_insert(0u32) += 1;
    }
    let column = device.upload(keys).unwrap();
    let (grouped, counted) =
        builder.group_counts(&device.stream().unwrap(), column.view()).unwrap();
    assert!(grouped.download().unwrap().iter().eq(counts.keys()), "{place}");
    assert!(counted.download().unwrap().iter().eq(counts.values()), "{place}");
}
fn indexes<K: Bits + Eq>(also: impl Fn(&mut IndexBuilder<K>, &Device, &[K], &str)) {
    for device in devices() {
        let options = IndexOptions::default().with_load(0.9).with_seed(3);
        let mut builder = IndexBuilder::<K>::new(&device, options).unwrap();
        // Largest first, then again after smaller ones: memory is reused for inputs of other sizes.
        for (s, n) in sizes(&device).into_iter().rev().chain([2000]).enumerate() {
            for (name, of) in COLUMNS.into_iter().skip(s % 3).step_by(3) {
                let (keys, place) = (column(of, n), format!("{name}, {n} on {}", device.name()));
                check_index(&mut builder, &device, &keys, &place);
                also(&mut builder, &device, &keys, &place);
            }
        }
        assert!(builder.scratch_bytes() > 0);
    }
}
#[test]
fn indexes_of_narrow_keys() {
    indexes::<u32>(check_group_counts);
}
#[test]
fn indexes_of_wide_keys() {
    indexes::<u64>(check_group_counts);
}
#[test]
fn indexes_of_keys_in_rows() {
    indexes::<u128>(|_, _, _, _| ());
}

/// Multimaps of keys in slots are in key order, others in order of first occurrence.
fn check_multi_map<K: Bits + Ord + Debug, V: ValueBits>(
    builder: &mut MultiMapBuilder<K, V>,
    device: &Device,
    keys: &[K],
    place: &str,
) where
    Sum: Reduction<V, Result = u64>,
    Min: Reduction<V, Result = V>,
    Max: Reduction<V, Result = V>,
{
    let values = (0..keys.len() as u64).map(|i| V::narrowed(!i << 3 ^ i)).collect::<Vec<_>>();
    let (mut oracle, mut order) = (BTreeMap::<K, Vec<V>>::new(), vec![]);
    for (&key, &value) in keys.iter().zip(&values) {
        let of_key = oracle.entry(key).or_default();
        if of_key.is_empty() {
            order.push(key);
        }
        of_key.push(value);
    }
    if size_of::<K>() <= 8 {
        order.sort_unstable();
    }
    let in_order = || order.iter().map(|key| &oracle[key]);
    let stream = device.stream().unwrap();
    let (on_device, values_on) = (device.upload(keys).unwrap(), device.upload(&values).unwrap());
    let map = builder.build(&stream, on_device.view(), values_on.view()).unwrap();
    assert_eq!((map.len(), map.index().len()), (keys.len(), oracle.len()), "{place}");
    assert!(map.index().keys_view().download().unwrap() == order, "{place}");
    assert!(map.values_view().download().unwrap().iter().eq(in_order().flatten()), "{place}");
    let all = |of: fn(&[V]) -> u64| in_order().map(move |values| of(values));
    let wrapping = |values: &[V]| values.iter().fold(0u64, |sum, v| sum.wrapping_add(v.widened()));
    assert!(map.reduce::<Sum>().unwrap().into_iter().eq(all(wrapping)), "{place}");
    assert!(
        map.reduce::<Min>().unwrap().into_iter().map(V::widened).eq(all(|v| v
            .iter()
            .min()
            .unwrap()
            .widened())),
        "{place}"
    );
    assert!(
        map.reduce::<Max>().unwrap().into_iter().map(V::widened).eq(all(|v| v
            .iter()
            .max()
            .unwrap()
            .widened())),
        "{place}"
    );
    // Retrieving each key as often as it occurs would be too much if one key has nearly all values.
    let often = oracle.values().any(|v| v.len() > 1000);
    let asked = if often {
        oracle.keys().rev().copied().chain(queries(&[])).collect()
    } else {
        queries(keys)
    };
    let of = |key: &K| oracle.get(key).map_or(&[][..], |v| v);
    assert!(
        map.counts(&asked).unwrap().into_iter().eq(asked.iter().map(|k| of(k).len() as u32)),
        "{place}"
    );
    let found = map.retrieve(&asked).unwrap();
    assert_eq!(found.offsets.len(), asked.len() + 1, "{place}");
    for (i, key) in asked.iter().enumerate() {
        assert!(found.of(i) == of(key), "{key:?}, {place}");
    }
    // With less room, only that much.
    let room = found.values.len() / 2;
    let (mut some, staged) = (device.alloc(room + 1).unwrap(), device.upload(&asked).unwrap());
    some.view_mut().fill_bytes(0x55, &stream).unwrap();
    let mut retriever = Retriever::new(device, asked.len()).unwrap();
    retriever.find(&stream, &map, staged.view()).unwrap();
    assert_eq!(retriever.total().unwrap(), found.values.len(), "{place}");
    retriever.values_into(&stream, &map, some.view_mut().slice(..room).unwrap()).unwrap();
    let some = some.download().unwrap();
    assert!(
        some[..room] == found.values[..room] && some[room] == V::narrowed(0x5555_5555_5555_5555),
        "{place}"
    );
}
fn multi_maps<K: Bits + Ord + Debug, V: ValueBits>(step: usize)
where
    Sum: Reduction<V, Result = u64>,
    Min: Reduction<V, Result = V>,
    Max: Reduction<V, Result = V>,
{
    for device in devices() {
        let mut builder =
            MultiMapBuilder::<K, V>::new(&device, MultiMapOptions::default()).unwrap();
        for (s, n) in sizes(&device).into_iter().rev().chain([2000]).enumerate() {
            for (name, of) in COLUMNS.into_iter().skip(s % step).step_by(step) {
                let place = format!("{name}, {n} on {}", device.name());
                check_multi_map(&mut builder, &device, &column::<K>(of, n), &place);
            }
        }
    }
}
#[test]
fn multi_maps_of_narrow_pairs() {
    multi_maps::<u32, u32>(2);
}
#[test]
fn multi_maps_of_wide_pairs() {
    multi_maps::<u64, u64>(3);
}
#[test]
fn multi_maps_of_mixed_pairs() {
    multi_maps::<u32, u64>(4);
    multi_maps::<u64, u32>(4);
}
#[test]
fn multi_maps_of_keys_in_rows() {
    multi_maps::<u128, u32>(3);
    multi_maps::<u128, u64>(4);
}
/// Multimaps of wide types, whatever order is requested, and moved to other devices.
#[test]
fn multi_maps_of_wide_types() {
    for device in devices() {
        let column = column::<u64>(COLUMNS[2].1, if is_fast(&device) { 20_000 } else { 1000 });
        let keys = column.iter().map(|&k| (k as i64, k as u8 & 1)).collect::<Vec<_>>();
        let values = (0..keys.len()).map(|i| i as f32 / 2.0).collect::<Vec<_>>();
        let mut oracle = HashMap::<(i64, u8), Vec<f32>>::new();
        for (&key, &value) in keys.iter().zip(&values) {
            oracle.entry(key).or_default().push(value);
        }
        for order in [ValueOrder::Input, ValueOrder::Any] {
            let options = MultiMapOptions::default().with_order(order).with_load(0.9);
            let built = MultiMap::build_with(&device, options, &keys, &values).unwrap();
            for map in [built.to_device(&Device::cpu().unwrap()).unwrap(), built] {
                let asked = [&keys[..], &[(i64::MIN, 9)]].concat();
                let found = map.retrieve(&asked).unwrap();
                let counts = map.counts(&asked).unwrap();
                for (i, key) in asked.iter().enumerate() {
                    let expected = oracle.get(key).map_or(&[][..], Vec::as_slice);
                    assert_eq!(found.of(i), expected, "{key:?} on {}", device.name());
                    assert_eq!(counts[i] as usize, expected.len());
                }
                let sums = map.reduce::<Sum>().unwrap();
                let keys = map.index().keys().unwrap();
                assert!(sums.iter().zip(&keys).all(|(s, k)| *s == oracle[k].iter().sum::<f32>()));
                assert!(map.bytes() > map.index().bytes());
            }
        }
        let e = MultiMap::build(&device, &keys[..2], &values[..1]).unwrap_err();
        assert!(matches!(e, Error::Length { name: "values", found: 1, expected: 2, .. }), "{e}");
    }
}
/// With the values of a key in any order: large enough inputs are not sorted.
fn in_any_order<K: KeyBits, V: ValueBits>() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let options = MultiMapOptions::default().with_order(ValueOrder::Any);
        let mut builder = MultiMapBuilder::<K, V>::new(&device, options).unwrap();
        // Elsewhere they are sorted, or too few.
        let parts = device.kind() == DeviceKind::Cuda && is_fast(&device);
        let sizes = if parts { vec![5_000_000, 300_000, 0, 1] } else { vec![1000, 0] };
        for (n, (name, of)) in sizes.into_iter().flat_map(|n| COLUMNS.map(|column| (n, column))) {
            let (keys, place) = (column::<K>(of, n), format!("{name}, {n} on {}", device.name()));
            let values = (0..n as u64).map(|i| V::narrowed(!i << 3 ^ i)).collect::<Vec<_>>();
            let (on_device, values_on) =
                (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
            let map = builder.build(&stream, on_device.view(), values_on.view()).unwrap();
            let mut sorted = keys.iter().copied().zip(values).collect::<Vec<_>>();
            sorted.sort_unstable();
            let mut distinct = keys;
            distinct.sort_unstable();
            distinct.dedup();
            let found = map.retrieve(&distinct).unwrap();
            assert_eq!((map.index().len(), found.values.len()), (distinct.len(), n), "{place}");
            let of_key = |(i, &key): (usize, &K)| {
                let mut of = found.of(i).iter().map(|&value| (key, value)).collect::<Vec<_>>();
                of.sort_unstable();
                of
            };
            assert!(distinct.iter().enumerate().flat_map(of_key).eq(sorted), "{place}");
        }
    }
}
#[test]
fn narrow_pairs_in_any_order() {
    in_any_order::<u32, u32>();
}
#[test]
fn wide_pairs_in_any_order() {
    in_any_order::<u64, u32>();
    in_any_order::<u32, u64>();
}
/// Checks the reductions of values of a type.
fn check_reductions<V: SlotValue + PartialEq + Debug, S: PartialEq + Debug>(
    of: impl Fn(u64) -> V,
    order: impl Fn(&V, &V) -> Ordering + Copy,
    sum: impl Fn(&[V]) -> S,
) where
    Sum: Reduction<V, Result = S>,
    Min: Reduction<V, Result = V>,
    Max: Reduction<V, Result = V>,
{
    for device in devices() {
        for (name, of_keys) in COLUMNS {
            let keys = column::<u32>(of_keys, 7000);
            let mut random = Random(1);
            let values = keys.iter().map(|_| of(random.below(u64::MAX))).collect::<Vec<_>>();
            let mut oracle = BTreeMap::<u32, Vec<V>>::new();
            for (&key, &value) in keys.iter().zip(&values) {
                oracle.entry(key).or_default().push(value);
            }
            let map = MultiMap::build(&device, &keys, &values).unwrap();
            let place = format!("{} of {name} on {}", std::any::type_name::<V>(), device.name());
            let sums = map.reduce::<Sum>().unwrap();
            assert!(sums.into_iter().eq(oracle.values().map(|v| sum(v))), "{place}");
            let least = |v: &Vec<V>| v.iter().copied().min_by(order).unwrap();
            assert!(
                map.reduce::<Min>().unwrap().into_iter().eq(oracle.values().map(least)),
                "{place}"
            );
            let greatest = |v: &Vec<V>| v.iter().copied().max_by(order).unwrap();
            assert!(
                map.reduce::<Max>().unwrap().into_iter().eq(oracle.values().map(greatest)),
                "{place}"
            );
        }
    }
}
/// Halves of small numbers: their sums are exact in any order.
fn half(word: u64) -> f64 {
    (word % 2001) as f64 / 2.0 - 500.0
}
#[test]
fn floats_are_reduced() {
    check_reductions(|word| half(word) as f32, f32::total_cmp, |v| v.iter().sum());
    check_reductions(half, f64::total_cmp, |v| v.iter().sum());
    for device in devices() {
        // Values without a numeric order have one here; and zeros keep their signs.
        let values = [f32::NAN, 1.0, f32::NEG_INFINITY, -0.0, 0.0];
        let map = MultiMap::build(&device, &[1u32, 1, 2, 3, 3], &values).unwrap();
        let (least, greatest) = (map.reduce::<Min>().unwrap(), map.reduce::<Max>().unwrap());
        assert!(greatest[0].is_nan() && least[0] == 1.0);
        assert!(least[2].is_sign_negative() && greatest[2].is_sign_positive());
        assert_eq!(map.reduce::<Sum>().unwrap()[1], f32::NEG_INFINITY);
        let sum = MultiMap::build(&device, &[3u32], &[-0.0f64]).unwrap().reduce::<Sum>().unwrap();
        assert!(sum[0].is_sign_negative(), "a sum of one value is that value");
    }
}
#[test]
fn signed_and_narrow_integers_are_reduced() {
    fn wide<V: Copy + Into<i64>>(values: &[V]) -> i64 {
        values.iter().map(|&value| value.into()).fold(0, i64::wrapping_add)
    }
    check_reductions(|word| word as i8, i8::cmp, wide);
    check_reductions(|word| word as i16, i16::cmp, wide);
    check_reductions(|word| word as i32, i32::cmp, wide);
    check_reductions(|word| word as i64, i64::cmp, wide);
    let sum = |values: &[u8]| values.iter().map(|&value| value as u64).sum::<u64>();
    check_reductions(|word| word as u8, u8::cmp, sum);
}
#[test]
fn what_does_not_fit_is_refused() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let map = MultiMap::build(&device, &[7u32, 3, 7], &[70u64, 30, 71]).unwrap();
        let (queries, mut counts) =
            (device.upload(&[3u32, 7, 8]).unwrap(), device.alloc(2).unwrap());
        let mut retriever = Retriever::new(&device, 2).unwrap();
        let e = retriever.find(&stream, &map, queries.view()).unwrap_err();
        assert!(matches!(e, Error::TooMany { n: 3, max: 2, .. }), "{e}");
        let e = map.counts_into(&stream, queries.view(), counts.view_mut()).unwrap_err();
        assert!(matches!(e, Error::Length { name: "counts", found: 2, expected: 3, .. }), "{e}");
        // Nothing was looked up.
        assert_eq!(retriever.total().unwrap(), 0);
        let e = MultiMap::build(&device, &[7u32], &[1u32, 2]).unwrap_err();
        assert!(matches!(e, Error::Length { name: "values", found: 2, expected: 1, .. }), "{e}");
        let e = IndexBuilder::<u32>::new(
            &device,
            IndexOptions::default().with_load(0.99).with_seed(None),
        )
        .err()
        .unwrap();
        assert!(matches!(e, Error::Setting { field: "load", .. }), "{e}");
        let elsewhere = Device::executor(5).upload(&[1u32, 2]).unwrap();
        let e = IndexBuilder::new(&device, IndexOptions::default())
            .unwrap()
            .build(&stream, elsewhere.view())
            .unwrap_err();
        assert!(matches!(e, Error::WrongDevice { .. }), "{e}");
    }
}
/// Groups longer than a block of retrieval writes go on behind their first part and end where the
/// next query's values begin, whichever group that is.
#[test]
fn long_groups_end_where_the_next_begins() {
    // Key `k` occurs this often. Values differ everywhere.
    const SIZES: [usize; 5] = [4097, 3, 5000, 1, 8193];
    let keys = (0u32..).zip(SIZES).flat_map(|(key, n)| vec![key; n]).collect::<Vec<_>>();
    let values = (0..keys.len() as u32).map(|i| !i).collect::<Vec<_>>();
    let of = |key: u32| {
        let start = SIZES[..key as usize].iter().sum::<usize>();
        &values[start..start + SIZES[key as usize]]
    };
    // Never in the order of the groups; the last query's group is long, too.
    let asked = [4, 3, 0, 0, 1, 2, 1, 4, 2];
    let expected = asked.into_iter().flat_map(of).copied().collect::<Vec<_>>();
    for device in devices() {
        let stream = device.stream().unwrap();
        let map = MultiMap::build(&device, &keys, &values).unwrap();
        let queries = device.upload(&asked).unwrap();
        let mut retriever = Retriever::new(&device, asked.len()).unwrap();
        retriever.find(&stream, &map, queries.view()).unwrap();
        // Behind the values is more room, which stays as it is.
        let room = expected.len() + 5000;
        let mut found = device.alloc::<u32>(room).unwrap();
        found.view_mut().fill_bytes(0x55, &stream).unwrap();
        retriever.values_into(&stream, &map, found.view_mut()).unwrap();
        let found = found.download().unwrap();
        let (found, behind) = found.split_at(expected.len());
        assert!(found == expected, "on {}", device.name());
        assert!(behind.iter().all(|&value| value == 0x5555_5555), "on {}", device.name());
    }
}
/// Offsets of one multimap and values of another with fewer: wrong answers, but nothing out of
/// bounds.
#[test]
fn values_of_another_map_are_harmless() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let big = MultiMap::build(&device, &[7u32; 100], &[1u32; 100]).unwrap();
        let small = MultiMap::build(&device, &[9u32], &[5u32]).unwrap();
        let queries = device.upload(&[7u32, 7, 9]).unwrap();
        let mut retriever = Retriever::new(&device, 3).unwrap();
        retriever.find(&stream, &big, queries.view()).unwrap();
        let mut values = device.alloc(retriever.total().unwrap()).unwrap();
        retriever.values_into(&stream, &small, values.view_mut()).unwrap();
        stream.synchronize().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5, ..ProptestConfig::default() })]
    #[test]
    fn any_column(keys in prop::collection::vec(0u64..200, 0..2000), spread in any::<u64>()) {
        let keys = keys.into_iter().map(|k| k.wrapping_mul(spread | 1)).collect::<Vec<_>>();
        for device in devices() {
            let mut builder =
                MultiMapBuilder::<u64, u32>::new(&device, MultiMapOptions::default()).unwrap();
            check_multi_map(&mut builder, &device, &keys, "any column");
            let wide = keys.iter().map(|&k| key::<u128>(k)).collect::<Vec<_>>();
            let mut builder =
                MultiMapBuilder::<u128, u32>::new(&device, MultiMapOptions::default()).unwrap();
            check_multi_map(&mut builder, &device, &wide, "any column");
            let mut builder = IndexBuilder::new(&device, IndexOptions::default()).unwrap();
            check_index(&mut builder, &device, &keys, "any column");
            check_group_counts(&mut builder, &device, &keys, "any column");
            let mut builder = IndexBuilder::new(&device, IndexOptions::default()).unwrap();
            check_index(&mut builder, &device, &wide, "any column");
        }
    }
    #[test]
    fn encoding_is_undone(keys in prop::collection::vec(any::<u32>(), 0..500)) {
        for device in devices() {
            let (index, ids) = Index::encode(&device, &keys).unwrap();
            let back = index.keys_of(&ids).unwrap();
            prop_assert!(back.into_iter().eq(keys.iter().copied().map(Some)));
        }
    }
}

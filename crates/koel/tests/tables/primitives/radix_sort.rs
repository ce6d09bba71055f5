use super::{PATTERNS, sizes};
use crate::support::{devices, is_fast, written};
use koel::primitives::radix_sort::{SortKey, SortValue};
use koel::primitives::{SortKeys, SortPairs, sort_keys, sort_pairs};
use koel::{Device, Error};
use koel_kernels::radix_sort::{THREADS, items};
use proptest::prelude::*;
use std::ops::Range;

/// Returns the number of keys or pairs in a tile.
fn tile<K, V>() -> usize {
    THREADS * items::<K, V>()
}

/// Keys whose bits are compared.
trait Bits: Ord + Copy {
    fn part(self, bits: &Range<u32>) -> u64;
}
impl Bits for u64 {
    fn part(self, bits: &Range<u32>) -> u64 {
        let width = bits.end - bits.start;
        if width == 0 { 0 } else { self >> bits.start & u64::MAX >> (64 - width) }
    }
}
impl Bits for u32 {
    fn part(self, bits: &Range<u32>) -> u64 {
        (self as u64).part(bits)
    }
}

/// Sorts keys alone, and pairs whose value is their index in the input: equal keys must keep their
/// order.
fn check<K: SortKey + Bits, V: SortValue>(
    device: &Device,
    keys: &[K],
    bits: Range<u32>,
    value: fn(usize) -> V,
    offset: usize,
    what: &str,
) {
    let stream = device.stream().unwrap();
    let n = keys.len();
    let place = format!("{n} keys, {what}, bits {bits:?}, offset {offset}, {}", device.name());
    let mut order = (0..n).collect::<Vec<_>>();
    order.sort_by_key(|&i| keys[i].part(&bits));
    let (want, want_values) = (
        order.iter().map(|&i| keys[i]).collect::<Vec<_>>(),
        order.iter().map(|&i| value(i)).collect::<Vec<_>>(),
    );
    let values = (0..n).map(value).collect::<Vec<_>>();
    let shift = offset.min(n);
    let (k_on, v_on) = (
        device.upload(&[&keys[..shift], keys].concat()).unwrap(),
        device.upload(&[&values[..shift], &values[..]].concat()).unwrap(),
    );
    let (k, v) = (k_on.view().slice(shift..).unwrap(), v_on.view().slice(shift..).unwrap());
    let (mut k_to, mut v_to) = (written(device, n + shift), written(device, n + shift));

    let mut plan = SortPairs::new(device, n).unwrap().bits(bits.clone()).unwrap();
    let (k_to_view, v_to_view) =
        (k_to.view_mut().slice(shift..).unwrap(), v_to.view_mut().slice(shift..).unwrap());
    plan.run(&stream, k, v, k_to_view, v_to_view).unwrap();
    assert!(k_to.download().unwrap()[shift..] == want[..], "keys of pairs: {place}");
    assert!(v_to.download().unwrap()[shift..] == want_values[..], "values: {place}");

    let mut plan = SortKeys::new(device, n + 3).unwrap().bits(bits).unwrap();
    plan.run(&stream, k, k_to.view_mut().slice(shift..).unwrap()).unwrap();
    assert!(k_to.download().unwrap()[shift..] == want[..], "keys alone: {place}");
    assert!(k_on.download().unwrap()[shift..] == *keys, "the input was changed: {place}");
}

#[test]
fn sorts_u32() {
    for device in devices() {
        let of_keys = tile::<u32, ()>();
        let sizes = [sizes(&device, tile::<u32, u32>()), vec![of_keys - 1, of_keys, of_keys + 1]];
        for (s, n) in sizes.concat().into_iter().enumerate() {
            let pattern = &PATTERNS[s % PATTERNS.len()];
            check(&device, &pattern.keys32(n, n as u64), 0..32, |i| i as u32, s % 3, pattern.name);
        }
        for pattern in &PATTERNS {
            check(
                &device,
                &pattern.keys32(tile::<u32, u32>() + 300, 9),
                0..32,
                |i| i as u32,
                0,
                pattern.name,
            );
        }
        check(
            &device,
            &PATTERNS[0].keys32(tile::<u32, u64>() + 300, 9),
            0..32,
            |i| i as u64 | 1 << 60,
            1,
            "wide values",
        );
    }
}
#[test]
fn sorts_u64() {
    for device in devices() {
        let tile = tile::<u64, u32>();
        let sizes = if is_fast(&device) {
            sizes(&device, tile)
        } else {
            vec![0, 1, 33, 1024, tile - 1, tile, tile + 1]
        };
        for (s, n) in sizes.into_iter().enumerate() {
            let pattern = &PATTERNS[s % PATTERNS.len()];
            check(&device, &pattern.keys64(n, n as u64), 0..64, |i| i as u32, s % 3, pattern.name);
        }
        check(
            &device,
            &PATTERNS[0].keys64(tile + 300, 9),
            0..64,
            |i| i as u64 | 1 << 60,
            1,
            "wide values",
        );
        check(
            &device,
            &PATTERNS[5].keys64(tile + 300, 9),
            0..64,
            |i| i as u64 | 1 << 60,
            1,
            "few distinct, wide values",
        );
    }
}
#[test]
fn sorts_by_some_bits_only() {
    for device in devices() {
        for bits in [0..0, 0..1, 0..8, 3..12, 7..30, 31..32, 8..32] {
            check(&device, &PATTERNS[0].keys32(1200, 1), bits, |i| i as u32, 0, "random");
        }
        for bits in [0..63, 60..64, 30..41] {
            check(&device, &PATTERNS[0].keys64(1200, 1), bits, |i| i as u32, 0, "random");
        }
    }
}
/// A plan is reused, for fewer keys and for more.
#[test]
fn a_plan_has_no_memory() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut plan = SortKeys::new(&device, 8000).unwrap();
        for (i, n) in [8000, 1, 0, 100, 7990].into_iter().enumerate() {
            let mut keys = PATTERNS[i].keys32(n, 3);
            let (from, mut to) = (device.upload(&keys).unwrap(), device.alloc(n).unwrap());
            plan.run(&stream, from.view(), to.view_mut()).unwrap();
            keys.sort_unstable();
            assert!(to.download().unwrap() == keys, "{n} keys on {}", device.name());
        }
    }
}
#[test]
fn without_a_plan() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (k, v) = (
            device.upload(&[5u64, 1 << 40, 5, 0]).unwrap(),
            device.upload(&[0u32, 1, 2, 3]).unwrap(),
        );
        let (mut k_to, mut v_to) = (device.alloc(4).unwrap(), device.alloc(4).unwrap());
        sort_pairs(&stream, k.view(), v.view(), k_to.view_mut(), v_to.view_mut()).unwrap();
        assert_eq!(
            (k_to.download().unwrap(), v_to.download().unwrap()),
            (vec![0, 5, 5, 1 << 40], vec![3, 0, 2, 1])
        );
        sort_keys(&stream, k.view(), k_to.view_mut()).unwrap();
        assert_eq!(k_to.download().unwrap(), [0, 5, 5, 1 << 40]);
    }
}
#[test]
fn refuses_what_does_not_fit() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (k, mut to, mut v_to) = (
            device.upload(&[1u32; 9]).unwrap(),
            device.alloc(9).unwrap(),
            device.alloc::<u32>(8).unwrap(),
        );
        let mut plan = SortKeys::new(&device, 8).unwrap();
        let e = plan.run(&stream, k.view(), to.view_mut()).unwrap_err();
        assert!(matches!(e, Error::TooMany { n: 9, max: 8, .. }), "{e}");
        let e = plan.run(&stream, k.view().slice(1..).unwrap(), to.view_mut()).unwrap_err();
        assert!(matches!(e, Error::Length { name: "out", found: 9, expected: 8, .. }), "{e}");
        let e =
            sort_pairs(&stream, k.view(), k.view(), to.view_mut(), v_to.view_mut()).unwrap_err();
        assert!(
            matches!(e, Error::Length { name: "values_out", found: 8, expected: 9, .. }),
            "{e}"
        );
        for bits in [0..33, Range { start: 9, end: 8 }] {
            assert!(matches!(
                SortKeys::<u32>::new(&device, 8).unwrap().bits(bits),
                Err(Error::Setting { field: "bits", .. })
            ));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]
    #[test]
    fn any_keys(
        keys in prop::collection::vec(any::<u32>(), 0..12_000),
        offset in 0usize..5,
        seed in any::<u64>(),
        few in any::<bool>()
    ) {
        let keys = keys.iter().map(|&k| if few { (k % 5) << 13 } else { k }).collect::<Vec<_>>();
        for device in [Device::executor(seed), Device::cpu_with_threads(2).unwrap()] {
            check(&device, &keys, 0..32, |i| i as u32, offset, "any");
        }
    }
}

use super::sizes;
use crate::support::{Random, devices, written};
use koel::primitives::compact::{CompactElement, CompactPair};
use koel::primitives::{Compact, compact, compact_pairs};
use koel::{Device, Error};
use proptest::prelude::*;

/// Alone and as pairs, with shifted views.
fn check<K: CompactPair<V>, V: CompactElement>(
    plan: &mut Compact,
    device: &Device,
    flags: &[u8],
    keys: &[K],
    values: &[V],
    offset: usize,
) {
    let stream = device.stream().unwrap();
    let place = format!("{} elements, offset {offset}, {}", flags.len(), device.name());
    fn kept<T: Copy>(flags: &[u8], all: &[T]) -> Vec<T> {
        flags.iter().zip(all).filter(|(f, _)| **f != 0).map(|(_, &x)| x).collect()
    }
    let (want, want_values) = (kept(flags, keys), kept(flags, values));
    let padded = |n: usize| n + offset;
    let flags_on = device.upload(&[vec![1; offset], flags.to_vec()].concat()).unwrap();
    let keys_on = device.upload(&[&keys[..offset.min(keys.len())], keys].concat()).unwrap();
    let values_on = device.upload(&[&values[..offset.min(keys.len())], values].concat()).unwrap();
    let (mut keys_to, mut values_to) =
        (written::<K>(device, padded(keys.len())), written::<V>(device, padded(keys.len())));
    let mut count = device.alloc::<u32>(1).unwrap();
    let from = keys_on.len() - keys.len();

    let (f, k, v) = (
        flags_on.view().slice(offset..).unwrap(),
        keys_on.view().slice(from..).unwrap(),
        values_on.view().slice(from..).unwrap(),
    );
    let to = keys_to.view_mut().slice(offset..).unwrap();
    plan.run(&stream, f, k, to, count.view_mut()).unwrap();
    assert_eq!(count.download().unwrap(), [want.len() as u32], "{place}");
    assert!(keys_to.download().unwrap()[offset..][..want.len()] == want[..], "{place}");

    keys_to.view_mut().fill_bytes(0, &stream).unwrap();
    let (to, values_at) = (
        keys_to.view_mut().slice(offset..).unwrap(),
        values_to.view_mut().slice(offset..).unwrap(),
    );
    plan.run_pairs(&stream, f, k, v, to, values_at, count.view_mut()).unwrap();
    assert_eq!(count.download().unwrap(), [want.len() as u32], "{place}");
    assert!(keys_to.download().unwrap()[offset..][..want.len()] == want[..], "{place}");
    assert!(values_to.download().unwrap()[offset..][..want.len()] == want_values[..], "{place}");
}
fn check_all(plan: &mut Compact, device: &Device, flags: &[u8], offset: usize) {
    let narrow = (0..flags.len() as u32).collect::<Vec<_>>();
    let wide = (0..flags.len() as u64).map(|i| i << 33 | 5).collect::<Vec<_>>();
    check(plan, device, flags, &narrow, &narrow, offset);
    check(plan, device, flags, &narrow, &wide, offset);
    check(plan, device, flags, &wide, &narrow, offset);
    check(plan, device, flags, &wide, &wide, offset);
}

/// Kept elements of every 256.
const KEPT: [u64; 6] = [128, 256, 0, 250, 3, 77];
fn flags(n: usize, kept: u64) -> Vec<u8> {
    let mut random = Random(n as u64);
    (0..n).map(|_| if random.below(256) < kept { 1 + random.below(255) as u8 } else { 0 }).collect()
}

#[test]
fn matches_the_oracle_and_keeps_the_order() {
    for device in devices() {
        let sizes = sizes(&device, 4096);
        let mut plan = Compact::new(&device, *sizes.iter().max().unwrap()).unwrap();
        for (s, n) in sizes.into_iter().enumerate() {
            check_all(&mut plan, &device, &flags(n, KEPT[s % KEPT.len()]), s % 4);
        }
    }
}
#[test]
fn without_a_plan() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let flags = device.upload(&[1u8, 0, 7, 0, 255]).unwrap();
        let (keys, values) = (
            device.upload(&[10u32, 20, 30, 40, 50]).unwrap(),
            device.upload(&[1u64, 2, 3, 4, 5]).unwrap(),
        );
        let (mut to, mut values_to) = (written(&device, 5), written(&device, 5));
        assert_eq!(compact(&stream, flags.view(), keys.view(), to.view_mut()).unwrap(), 3);
        assert_eq!(to.download().unwrap()[..3], [10, 30, 50]);
        let n = compact_pairs(
            &stream,
            flags.view(),
            keys.view(),
            values.view(),
            to.view_mut(),
            values_to.view_mut(),
        );
        assert_eq!((n.unwrap(), &values_to.download().unwrap()[..3]), (3, &[1, 3, 5][..]));
    }
}
#[test]
fn refuses_what_does_not_fit() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (flags, keys) = (device.upload(&[1u8; 9]).unwrap(), device.upload(&[1u32; 8]).unwrap());
        let (mut to, mut count) = (device.alloc(8).unwrap(), device.alloc(1).unwrap());
        let mut plan = Compact::new(&device, 7).unwrap();
        let e = plan
            .run(&stream, flags.view(), keys.view(), to.view_mut(), count.view_mut())
            .unwrap_err();
        assert!(matches!(e, Error::Length { name: "flags", found: 9, expected: 8, .. }), "{e}");
        let f = flags.view().slice(1..).unwrap();
        let e = plan.run(&stream, f, keys.view(), to.view_mut(), count.view_mut()).unwrap_err();
        assert!(matches!(e, Error::TooMany { n: 8, max: 7, .. }), "{e}");
        let short = keys.view().slice(..7).unwrap();
        let e = plan.run(&stream, f, short, to.view_mut(), count.view_mut()).unwrap_err();
        assert!(matches!(e, Error::Length { name: "output", found: 8, expected: 7, .. }), "{e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]
    #[test]
    fn any_flags(
        flags in prop::collection::vec(any::<u8>(), 0..5000),
        offset in 0usize..5,
        seed in any::<u64>()
    ) {
        for device in [Device::executor(seed), Device::cpu_with_threads(2).unwrap()] {
            check_all(&mut Compact::new(&device, 5000).unwrap(), &device, &flags, offset);
        }
    }
}

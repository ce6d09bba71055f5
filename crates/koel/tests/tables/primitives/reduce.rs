use super::{PATTERNS, sizes};
use crate::support::devices;
use koel::primitives::{max, min, sum, sum_into};
use koel::{Device, Error};
use proptest::prelude::*;

fn check(device: &Device, narrow: &[u32], wide: &[u64], offset: usize) {
    let stream = device.stream().unwrap();
    let place = format!("{} elements, offset {offset}, {}", narrow.len(), device.name());
    let a = device.upload(&[vec![0; offset], narrow.to_vec()].concat()).unwrap();
    let b = device.upload(&[vec![0; offset], wide.to_vec()].concat()).unwrap();
    let (a, b) = (a.view().slice(offset..).unwrap(), b.view().slice(offset..).unwrap());
    assert_eq!(sum(&stream, a).unwrap(), narrow.iter().map(|&x| x as u64).sum::<u64>(), "{place}");
    assert_eq!(
        sum(&stream, b).unwrap(),
        wide.iter().fold(0, |s: u64, &x| s.wrapping_add(x)),
        "{place}"
    );
    assert_eq!(
        min(&stream, a).unwrap(),
        narrow.iter().copied().min().unwrap_or(u32::MAX),
        "{place}"
    );
    assert_eq!(min(&stream, b).unwrap(), wide.iter().copied().min().unwrap_or(u64::MAX), "{place}");
    assert_eq!(max(&stream, a).unwrap(), narrow.iter().copied().max().unwrap_or(0), "{place}");
    assert_eq!(max(&stream, b).unwrap(), wide.iter().copied().max().unwrap_or(0), "{place}");
}

#[test]
fn matches_the_oracle() {
    for device in devices() {
        for (s, n) in sizes(&device, 4096).into_iter().enumerate() {
            let pattern = &PATTERNS[s % PATTERNS.len()];
            check(&device, &pattern.keys32(n, n as u64), &pattern.keys64(n, n as u64), s % 3);
        }
        // Extremes at either end, which a thread might miss.
        for at in [0, 4999] {
            let (mut low, mut high) = (vec![7; 5000], vec![7; 5000]);
            (low[at], high[at]) = (0, u64::MAX);
            check(&device, &low.iter().map(|&x| x as u32).collect::<Vec<_>>(), &high, 0);
        }
    }
}
#[test]
fn refuses_what_does_not_fit() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (input, mut out) = (device.upload(&[1u32; 9]).unwrap(), device.alloc(2).unwrap());
        let e = sum_into(&stream, input.view(), out.view_mut()).unwrap_err();
        assert!(matches!(e, Error::Length { found: 2, expected: 1, .. }), "{e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn any_input(
        input in prop::collection::vec(any::<u64>(), 0..3000),
        offset in 0usize..5,
        seed in any::<u64>()
    ) {
        let narrow = input.iter().map(|&x| x as u32).collect::<Vec<_>>();
        for device in [Device::executor(seed), Device::cpu_with_threads(2).unwrap()] {
            check(&device, &narrow, &input, offset);
        }
    }
}

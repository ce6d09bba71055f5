use super::{PATTERNS, sizes};
use crate::support::{devices, written};
use koel::primitives::scan::ScanElement;
use koel::primitives::{Scan, exclusive_scan, inclusive_scan};
use koel::{Device, Error};
use proptest::prelude::*;

/// Returns exclusive and inclusive sums and the total.
fn oracle<T: ScanElement>(input: &[T], zero: T, add: fn(T, T) -> T) -> (Vec<T>, Vec<T>, T) {
    let (mut exclusive, mut inclusive, mut sum) = (vec![], vec![], zero);
    for &x in input {
        exclusive.push(sum);
        sum = add(sum, x);
        inclusive.push(sum);
    }
    (exclusive, inclusive, sum)
}
/// `offset` shifts the views by that many elements, so that they are not aligned.
fn check<T: ScanElement>(
    plan: &mut Scan<T>,
    device: &Device,
    input: &[T],
    offset: usize,
    zero: T,
    add: fn(T, T) -> T,
) {
    let stream = device.stream().unwrap();
    let (exclusive, inclusive, total) = oracle(input, zero, add);
    let padded = [vec![zero; offset], input.to_vec()].concat();
    let from = device.upload(&padded).unwrap();
    let mut to = written::<T>(device, input.len() + offset);
    let view = from.view().slice(offset..).unwrap();
    for (kind, want) in [(0, exclusive), (1, inclusive)] {
        let out = to.view_mut().slice(offset..).unwrap();
        if kind == 0 {
            plan.exclusive(&stream, view, out)
        } else {
            plan.inclusive(&stream, view, out)
        }
        .unwrap();
        let place =
            format!("{} elements, offset {offset}, kind {kind}, {}", input.len(), device.name());
        assert!(to.download().unwrap()[offset..] == want[..], "{place}");
        assert_eq!(plan.total().download().unwrap(), [total], "{place}");
    }
}

#[test]
fn matches_the_oracle() {
    for device in devices() {
        let sizes = sizes(&device, 4096);
        let most = *sizes.iter().max().unwrap();
        let (mut narrow, mut wide) =
            (Scan::new(&device, most).unwrap(), Scan::new(&device, most).unwrap());
        for (s, n) in sizes.into_iter().enumerate() {
            let pattern = &PATTERNS[s % PATTERNS.len()];
            check(&mut narrow, &device, &pattern.keys32(n, n as u64), s % 5, 0, u32::wrapping_add);
            check(&mut wide, &device, &pattern.keys64(n, n as u64), s % 3, 0, u64::wrapping_add);
        }
    }
}
/// More tiles than one look-back of a warp covers, with threads scheduled at nearly every point, so
/// that half-published sums are observed.
#[test]
fn looks_back_over_many_tiles() {
    let device = Device::executor_with(3, |e| (e.preempt, e.resident) = (3, 8));
    let n = 2048 * 70 + 1;
    let (mut narrow, mut wide) =
        (Scan::new(&device, 2 * n).unwrap(), Scan::new(&device, n).unwrap());
    check(&mut narrow, &device, &PATTERNS[0].keys32(2 * n, 5), 0, 0, u32::wrapping_add);
    check(&mut narrow, &device, &PATTERNS[0].keys32(5000, 6), 1, 0, u32::wrapping_add);
    check(&mut wide, &device, &PATTERNS[0].keys64(n, 7), 0, 0, u64::wrapping_add);
}
#[test]
fn without_a_plan() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let input = device.upload(&[3u64, 1, 4, 1, 5]).unwrap();
        let mut out = device.alloc(5).unwrap();
        assert_eq!(exclusive_scan(&stream, input.view(), out.view_mut()).unwrap(), 14);
        assert_eq!(out.download().unwrap(), [0, 3, 4, 8, 9]);
        assert_eq!(inclusive_scan(&stream, input.view(), out.view_mut()).unwrap(), 14);
        assert_eq!(out.download().unwrap(), [3, 4, 8, 9, 14]);
    }
}
#[test]
fn refuses_what_does_not_fit() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (input, mut short, mut out) = (
            device.upload(&[1u32; 9]).unwrap(),
            device.alloc(8).unwrap(),
            device.alloc(9).unwrap(),
        );
        let mut plan = Scan::new(&device, 8).unwrap();
        let e = plan.exclusive(&stream, input.view(), short.view_mut()).unwrap_err();
        assert!(matches!(e, Error::Length { found: 8, expected: 9, .. }), "{e}");
        let e = plan.inclusive(&stream, input.view(), out.view_mut()).unwrap_err();
        assert!(matches!(e, Error::TooMany { n: 9, max: 8, .. }), "{e}");
        let other = Device::executor(9);
        let foreign = other.upload(&[1u32; 9]).unwrap();
        let e = exclusive_scan(&stream, foreign.view(), out.view_mut()).unwrap_err();
        assert!(matches!(e, Error::WrongDevice { name: "input", .. }), "{e}");
        assert!(matches!(Scan::<u32>::new(&device, 1 << 40), Err(Error::TooMany { .. })));
    }
}
proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn any_input(
        input in prop::collection::vec(any::<u32>(), 0..6000),
        offset in 0usize..5,
        seed in any::<u64>()
    ) {
        for device in [Device::executor(seed), Device::cpu_with_threads(2).unwrap()] {
            check(
                &mut Scan::new(&device, 6000).unwrap(),
                &device,
                &input,
                offset,
                0,
                u32::wrapping_add
            );
        }
    }
}

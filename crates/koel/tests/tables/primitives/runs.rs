use super::{PATTERNS, sizes};
use crate::support::{devices, written};
use koel::primitives::Runs;
use koel::primitives::runs::RunElement;
use koel::{Device, Error};

fn check<T: RunElement>(plan: &mut Runs, device: &Device, elements: &[T], place: &str) {
    let stream = device.stream().unwrap();
    let mut want: Vec<(T, u32)> = vec![];
    for (i, &e) in elements.iter().enumerate() {
        if i == 0 || elements[i - 1] != e {
            want.push((e, i as u32));
        }
    }
    let on_device = device.upload(elements).unwrap();
    let (mut distinct, mut starts) =
        (written(device, elements.len()), written::<u32>(device, elements.len() + 1));
    let mut count = device.alloc(1).unwrap();
    plan.run(&stream, on_device.view(), distinct.view_mut(), starts.view_mut(), count.view_mut())
        .unwrap();
    let place = format!("{place}, {} elements on {}", elements.len(), device.name());
    assert_eq!(count.download().unwrap(), [want.len() as u32], "{place}");
    let starts = starts.download().unwrap();
    let found =
        distinct.download().unwrap().into_iter().zip(starts.iter().copied()).take(want.len());
    assert!(found.eq(want.iter().copied()), "{place}");
    assert_eq!(starts[want.len()], elements.len() as u32, "{place}");
}

#[test]
fn matches_the_oracle() {
    for device in devices() {
        let sizes = sizes(&device, 4096);
        let mut plan = Runs::new(&device, *sizes.iter().max().unwrap()).unwrap();
        for (s, n) in sizes.into_iter().enumerate() {
            for pattern in PATTERNS.iter().skip(s % 3).step_by(3) {
                let (mut narrow, mut wide) = (pattern.keys32(n, 5), pattern.keys64(n, 6));
                check(&mut plan, &device, &wide, pattern.name);
                narrow.sort_unstable();
                wide.sort_unstable();
                check(&mut plan, &device, &narrow, pattern.name);
                check(&mut plan, &device, &wide, pattern.name);
            }
        }
    }
}
#[test]
fn refuses_what_does_not_fit() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let elements = device.upload(&[1u32; 8]).unwrap();
        let (mut distinct, mut starts, mut count) =
            (device.alloc(8).unwrap(), device.alloc(9).unwrap(), device.alloc(1).unwrap());
        let mut plan = Runs::new(&device, 7).unwrap();
        let e = plan
            .run(&stream, elements.view(), distinct.view_mut(), starts.view_mut(), count.view_mut())
            .unwrap_err();
        assert!(matches!(e, Error::TooMany { n: 8, max: 7, .. }), "{e}");
        let short = starts.view_mut().slice(..8).unwrap();
        let e = plan
            .run(&stream, elements.view(), distinct.view_mut(), short, count.view_mut())
            .unwrap_err();
        assert!(matches!(e, Error::Length { name: "starts", found: 8, expected: 9, .. }), "{e}");
    }
}

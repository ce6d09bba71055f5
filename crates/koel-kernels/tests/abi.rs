//! Checks what a CUDA launcher passes to the driver against what the committed images declare and
//! hold.
use koel_kernels::{entries, images};
use koel_simt::CodeKind;

#[test]
fn images_hold_what_launchers_expect() {
    koel_simt::host::assert_images(images::ALL, entries::ALL);
}

#[test]
fn a_gpu_gets_the_code_made_for_it() {
    let machine = |gpu| {
        images::MAP.code(CodeKind::Machine, gpu).expect("readable").map(|(code, _)| code.capability)
    };
    let expected =
        [(75, None), (80, Some(80)), (86, Some(86)), (87, None), (89, Some(89)), (90, Some(90))];
    assert!(expected.into_iter().all(|(gpu, code)| machine(gpu) == code));
    assert_eq!(
        [100, 103, 110, 120, 121].map(machine),
        [Some(100), Some(100), None, Some(120), Some(120)]
    );
    let ptx = |gpu| {
        images::MAP.code(CodeKind::Ptx, gpu).expect("readable").map(|(code, _)| code.capability)
    };
    assert_eq!([70, 75, 89, 90, 121].map(ptx), [None, Some(75), Some(75), Some(90), Some(90)]);
}

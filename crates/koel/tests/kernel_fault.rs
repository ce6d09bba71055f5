//! A kernel that faults on a GPU loses the context, so this test has a process of its own.
use koel::{Device, Error};
use koel_kernels::probe::random_sectors;

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_fault_names_the_device_and_the_kernel() {
    if std::env::var_os("KOEL_TEST_SMALL").is_some() {
        println!("skipped: a sanitizer would report the fault that is wanted here");
        return;
    }
    let device = Device::cuda(0).unwrap();
    let stream = device.stream().unwrap();
    let (table, mut out) = (device.alloc::<u64>(4).unwrap(), device.alloc::<u32>(256).unwrap());
    let table = table.view().arg("table", &stream).unwrap();
    let out = out.view_mut().arg("out", &stream).unwrap();
    // SAFETY: unsound on purpose: it reads far outside the table, which is what this test is about.
    // Nothing on the device is used again.
    unsafe { random_sectors::launch(&stream, 1, 256, u32::MAX, 7, table, out) }.unwrap();
    let Err(Error::KernelFault { launched, message, .. }) = stream.synchronize() else {
        panic!("no fault")
    };
    assert_eq!(launched, "random_sectors");
    assert!(message.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{message}");
}

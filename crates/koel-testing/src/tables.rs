//! Devices to test on, sets of keys, and random words.
use koel::Device;
pub use koel_measure::Random;

/// Returns the devices to test on: the CPU with all its threads and with one, the test executor, a
/// GPU if there is one. `KOEL_TEST_DEVICES` may name kinds (`cpu,executor,cuda`): only those, and
/// they must exist.
pub fn devices() -> Vec<Device> {
    let named = std::env::var("KOEL_TEST_DEVICES").ok();
    let wanted = |kind| named.as_deref().is_none_or(|n| n.split(',').any(|k| k == kind));
    let mut devices = vec![];
    if wanted("cpu") {
        devices.extend([Device::cpu().unwrap(), Device::cpu_with_threads(1).unwrap()]);
    }
    if wanted("executor") {
        devices.push(Device::executor(seed_of_test()));
    }
    if wanted("cuda") {
        match Device::cuda(0) {
            Ok(device) => devices.push(device),
            Err(e) => assert!(named.is_none(), "KOEL_TEST_DEVICES names cuda: {e}"),
        }
    }
    devices
}
/// Returns the seed of the executor: every test has schedules of its own, the same in each run.
fn seed_of_test() -> u64 {
    let thread = std::thread::current();
    thread.name().unwrap_or_default().bytes().fold(1, |seed, b| seed * 31 % 1_000_003 + b as u64)
}
/// Returns whether big inputs are fast: not on the executor, not with one thread, and not under a
/// sanitizer (`KOEL_TEST_SMALL`).
pub fn is_fast(device: &Device) -> bool {
    device.kind() != koel::DeviceKind::Executor
        && device.parallelism() > 1
        && std::env::var_os("KOEL_TEST_SMALL").is_none()
}

/// Returns a buffer that has been written, so that all of it may be read back whatever a test
/// writes.
pub fn written<T: koel::device::Element>(device: &Device, len: usize) -> koel::Buffer<T> {
    let mut buffer = device.alloc(len).unwrap();
    let stream = device.stream().unwrap();
    buffer.view_mut().fill_bytes(0, &stream).unwrap();
    stream.synchronize().unwrap();
    buffer
}

/// A bijection of the 32-bit words, different for each seed.
pub fn scramble(x: u32, seed: u32) -> u32 {
    let mut x = x ^ seed;
    x = (x ^ x >> 16).wrapping_mul(0x7FEB_352D);
    x = (x ^ x >> 15).wrapping_mul(0x846C_A68B);
    x ^ x >> 16
}
/// The value of a key in tests.
pub fn value_of(key: u32) -> u32 {
    !scramble(key, 99)
}

/// A set of distinct keys of any size.
pub struct KeySet {
    /// What the keys are like.
    pub name: &'static str,
    /// Returns key `i`.
    pub key: fn(u32) -> u32,
}
/// Random keys, and those that break weak hash functions.
pub const KEY_SETS: &[KeySet] = &[
    KeySet { name: "random", key: |i| scramble(i, 7) },
    KeySet { name: "sequential", key: |i| i },
    KeySet { name: "downwards from all ones", key: |i| !i },
    KeySet { name: "stride 64", key: |i| i.wrapping_mul(64).wrapping_add(i >> 26) },
    KeySet { name: "stride 4096", key: |i| i.wrapping_mul(4096).wrapping_add(i >> 20) },
    KeySet { name: "equal low bits", key: |i| i.rotate_left(12) },
    KeySet { name: "bit-reversed", key: |i| i.reverse_bits() },
    KeySet { name: "equal modulo 334214459", key: |i| (i % 12) * 334_214_459 + i / 12 },
    KeySet { name: "equal modulo 1900813", key: |i| (i % 2259) * 1_900_813 + i / 2259 },
];

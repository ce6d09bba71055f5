//! Shared by the tests: devices, key sets, and the naive oracle's pairs.
#![allow(dead_code, reason = "each test file uses a part")]
#[path = "../../src/special.rs"]
pub(crate) mod special;

use koel::Device;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the devices to test on: the CPU with all its threads and with one, the test executor, a
/// GPU if there is one. `KOEL_TEST_DEVICES` may name kinds (`cpu,executor,cuda`): only those, and
/// they must exist.
pub(crate) fn devices() -> Vec<Device> {
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
pub(crate) fn is_fast(device: &Device) -> bool {
    device.kind() != koel::DeviceKind::Executor
        && device.parallelism() > 1
        && std::env::var_os("KOEL_TEST_SMALL").is_none()
}

/// Returns a buffer that has been written, so that all of it may be read back whatever a test
/// writes.
pub(crate) fn written<T: koel::device::Element>(device: &Device, len: usize) -> koel::Buffer<T> {
    let mut buffer = device.alloc(len).unwrap();
    let stream = device.stream().unwrap();
    buffer.view_mut().fill_bytes(0, &stream).unwrap();
    stream.synchronize().unwrap();
    buffer
}

/// Returns whether koel's use of the driver can be tested with a stand-in here: there is no driver,
/// and no stand-in yet. Prints the reason if not.
pub(crate) fn can_stand_in() -> bool {
    let reason = match (std::env::var_os("STAND_IN"), Device::cuda(0)) {
        (Some(_), _) => "this is the program that runs with the stand-in",
        (None, Ok(_)) => "the GPU's own driver is in the stand-in's place",
        (None, Err(_)) => return true,
    };
    println!("skipped: {reason}");
    false
}
/// Builds a stand-in library for the driver, once. Returns the folder that holds it alone.
pub(crate) fn stand_in() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let name = program.file_stem().unwrap().to_string_lossy().into_owned();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stand-in-of-{name}"));
    static BUILT: std::sync::Once = std::sync::Once::new();
    BUILT.call_once(|| {
        std::fs::create_dir_all(&folder).unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/stand_in_driver.rs");
        let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
        let args = ["--edition=2024", "--crate-type=cdylib", "-Copt-level=1", source, "-o"];
        let library = folder.join("libcuda.so");
        assert!(Command::new(rustc).args(args).arg(library).status().is_ok_and(|s| s.success()));
    });
    folder
}
/// Runs a test of this program again, with a stand-in library for the driver. Returns its output.
pub(crate) fn run_with_stand_in(test: &str, settings: &[(&str, &str)]) -> String {
    run_with_library(&stand_in(), test, settings)
}
/// As [`run_with_stand_in`], with the library `libcuda.so` of a folder.
pub(crate) fn run_with_library(folder: &Path, test: &str, settings: &[(&str, &str)]) -> String {
    let out = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--include-ignored"])
        .env("LD_LIBRARY_PATH", folder)
        .env("STAND_IN", "1")
        .envs(settings.iter().copied())
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && text.contains("1 passed"), "{test} {settings:?}: {text}");
    text
}

/// A bijection of the 32-bit words, different for each seed.
pub(crate) fn scramble(x: u32, seed: u32) -> u32 {
    let mut x = x ^ seed;
    x = (x ^ x >> 16).wrapping_mul(0x7FEB_352D);
    x = (x ^ x >> 15).wrapping_mul(0x846C_A68B);
    x ^ x >> 16
}
/// The value of a key in tests.
pub(crate) fn value_of(key: u32) -> u32 {
    !scramble(key, 99)
}

/// A set of distinct keys of any size.
pub(crate) struct KeySet {
    pub name: &'static str,
    pub key: fn(u32) -> u32,
}
/// Random keys, and those that break weak hash functions.
pub(crate) const KEY_SETS: &[KeySet] = &[
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

/// A generator of random words.
pub(crate) struct Random(pub u64);
impl Random {
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.word() % n.max(1)
    }
}

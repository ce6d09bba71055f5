//! Every primitive on every device against a naive oracle: sizes around warps, blocks and tiles,
//! adversarial inputs.
mod compact;
mod histogram;
mod partition;
mod radix_sort;
mod reduce;
mod runs;
mod scan;

use crate::support::{Random, devices, is_fast};
use koel::primitives::{Bins, Compact, ExactPartition, Scan, SortKeys, SortPairs};
use koel::{Device, Error};

const SIZES: [usize; 12] = [0, 1, 2, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025];

/// Returns the common sizes, those around `tile`, and a large one.
fn sizes(device: &Device, tile: usize) -> Vec<usize> {
    let mut sizes = SIZES.to_vec();
    sizes.extend([tile - 1, tile, tile + 1, 2 * tile + 5]);
    sizes.push(if is_fast(device) { 1_000_003 } else { 5 * tile / 2 });
    sizes
}

/// Adversarial keys: `make(i, n)`, from 64 random bits in `r`.
struct Pattern {
    name: &'static str,
    key: fn(i: u64, n: u64, r: u64) -> u64,
}
const PATTERNS: [Pattern; 9] = [
    Pattern { name: "random", key: |_, _, r| r },
    Pattern { name: "sorted", key: |i, _, _| i * 0x1_0000_0100 },
    Pattern { name: "reversed", key: |i, n, _| (n - i) * 0x1_0000_0100 },
    Pattern { name: "all equal", key: |_, _, _| 0x1234_5678_9ABC_DEF0 },
    Pattern { name: "all ones", key: |_, _, _| u64::MAX },
    Pattern { name: "few distinct", key: |_, _, r| (r % 3) * 0x0F01_0000_0F01 },
    Pattern { name: "equal low bits", key: |_, _, r| r << 16 & 0xFFFF_0000_FFFF_0000 | 0x77 },
    Pattern {
        name: "equal high bits",
        key: |_, _, r| r & 0xFFFF_0000_FFFF | 0x7700_0000_7700_0000,
    },
    Pattern { name: "mostly one key", key: |_, _, r| if r % 16 == 0 { r } else { 5 } },
];
impl Pattern {
    fn keys64(&self, n: usize, seed: u64) -> Vec<u64> {
        let mut random = Random(seed);
        (0..n as u64).map(|i| (self.key)(i, n as u64, random.word())).collect()
    }
    fn keys32(&self, n: usize, seed: u64) -> Vec<u32> {
        self.keys64(n, seed).into_iter().map(|k| k as u32).collect()
    }
}

#[test]
fn plans_belong_to_a_device() {
    for device in devices() {
        let (stream, other) = (device.stream().unwrap(), Device::executor(9));
        let (keys, flags) =
            (device.upload(&[3u32, 1, 2]).unwrap(), device.upload(&[1u8, 0, 1]).unwrap());
        let (mut to, mut values_to, mut count) =
            (device.alloc(3).unwrap(), device.alloc(3).unwrap(), device.alloc(1).unwrap());
        let (mut pairs, mut starts) = (device.alloc(3).unwrap(), device.alloc(5).unwrap());
        let mut exact = ExactPartition::new(&other, Bins::Hash { bins: 4 }).unwrap();
        for refused in [
            Scan::new(&other, 3).unwrap().exclusive(&stream, keys.view(), to.view_mut()),
            SortKeys::new(&other, 3).unwrap().run(&stream, keys.view(), to.view_mut()),
            SortPairs::new(&other, 3).unwrap().run(
                &stream,
                keys.view(),
                keys.view(),
                to.view_mut(),
                values_to.view_mut(),
            ),
            Compact::new(&other, 3).unwrap().run(
                &stream,
                flags.view(),
                keys.view(),
                to.view_mut(),
                count.view_mut(),
            ),
            exact.run(&stream, keys.view(), keys.view(), pairs.view_mut(), starts.view_mut()),
        ] {
            assert!(
                matches!(refused, Err(Error::WrongDevice { .. })),
                "{refused:?} on {}",
                device.name()
            );
        }
    }
}

use super::{PATTERNS, sizes};
use crate::support::devices;
use koel::primitives::{Bins, histogram, histogram_into};
use koel::{Device, Error};
use proptest::prelude::*;

/// Both GPU variants: counted in shared memory, and in global memory.
pub(super) const BINS: [Bins; 9] = [
    Bins::Bits { shift: 0, bits: 8 },
    Bins::Bits { shift: 24, bits: 8 },
    Bins::Bits { shift: 11, bits: 10 },
    Bins::Bits { shift: 31, bits: 1 },
    Bins::Hash { bins: 1 },
    Bins::Hash { bins: 97 },
    Bins::Hash { bins: 1024 },
    Bins::Bits { shift: 16, bits: 16 },
    Bins::Hash { bins: 60_000 },
];
/// Independent of the library's implementation.
pub(super) fn bin(bins: Bins, key: u32) -> usize {
    match bins {
        Bins::Bits { shift, bits } => (key >> shift) as usize % (1 << bits),
        Bins::Hash { bins: n } => ((bins.stored(key) as u64 * n as u64) >> 32) as usize,
    }
}
fn check(device: &Device, keys: &[u32], bins: Bins, offset: usize) {
    let stream = device.stream().unwrap();
    let mut want = vec![0; bins.count()];
    keys.iter().for_each(|&k| want[bin(bins, k)] += 1);
    let on = device.upload(&[vec![0; offset], keys.to_vec()].concat()).unwrap();
    let found = histogram(&stream, on.view().slice(offset..).unwrap(), bins).unwrap();
    assert!(found == want, "{} keys, {bins:?}, offset {offset}, {}", keys.len(), device.name());
}

#[test]
fn matches_the_oracle() {
    for device in devices() {
        for (s, n) in sizes(&device, 4096).into_iter().enumerate() {
            check(&device, &PATTERNS[s % PATTERNS.len()].keys32(n, n as u64), BINS[s % 7], s % 3);
        }
        for (pattern, bins) in PATTERNS.iter().zip(BINS) {
            check(&device, &pattern.keys32(5000, 3), bins, 0);
        }
    }
}
#[test]
fn stored_keys_come_back() {
    for bins in BINS {
        for key in (0..5000u32).map(|i| i.wrapping_mul(0x9E37_79B1)).chain([0, u32::MAX]) {
            assert_eq!(bins.key(bins.stored(key)), key);
            assert_eq!(bins.bin(key) as usize, bin(bins, key));
        }
    }
}
#[test]
fn refuses_what_does_not_fit() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let keys = device.upload(&[1u32; 9]).unwrap();
        for bins in [
            Bins::Hash { bins: 0 },
            Bins::Hash { bins: 65_537 },
            Bins::Bits { shift: 0, bits: 0 },
            Bins::Bits { shift: 0, bits: 17 },
            Bins::Bits { shift: 25, bits: 8 },
            Bins::Bits { shift: 32, bits: 1 },
            Bins::Bits { shift: u32::MAX, bits: u32::MAX },
        ] {
            let e = histogram(&stream, keys.view(), bins).unwrap_err();
            assert!(matches!(e, Error::Setting { field: "bins", .. }), "{bins:?}: {e}");
        }
        let mut counts = device.alloc(255).unwrap();
        let e = histogram_into(&stream, keys.view(), BINS[0], counts.view_mut()).unwrap_err();
        assert!(matches!(e, Error::Length { found: 255, expected: 256, .. }), "{e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn any_keys(
        keys in prop::collection::vec(any::<u32>(), 0..3000),
        offset in 0usize..5,
        bins in 1u32..300,
        shift in 0u32..24,
        seed in any::<u64>()
    ) {
        for device in [Device::executor(seed), Device::cpu_with_threads(2).unwrap()] {
            check(&device, &keys, Bins::Hash { bins }, offset);
            check(&device, &keys, Bins::Bits { shift, bits: 8 }, offset);
        }
    }
}

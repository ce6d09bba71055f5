//! Reproducible maps: one fingerprint on every device, in every run and for every order of the
//! pairs.

use crate::support::{Random, devices, is_fast, scramble};
use koel::map::layout::{Layout, Narrow};
use koel::types::{KeyBits, ValueBits};
use koel::{Device, DeviceKind, Duplicates, Map, MapBuilder, MapOptions};

fn options(load: f64) -> MapOptions {
    MapOptions::default().with_load(load).with_reproducible(true)
}
fn build<K: KeyBits, V: ValueBits>(
    device: &Device,
    pairs: &[(K, V)],
    options: MapOptions,
) -> Map<K, V> {
    let (keys, values): (Vec<K>, Vec<V>) = pairs.iter().copied().unzip();
    let (keys, values) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
    let mut builder = MapBuilder::new(device, options).unwrap();
    builder.build(&device.stream().unwrap(), keys.view(), values.view()).unwrap()
}
/// Returns distinct keys, in an order given by this seed.
fn pairs<K: KeyBits, V: ValueBits>(n: u32, seed: u64) -> Vec<(K, V)> {
    let word = |i: u32| (scramble(i, 3) as u64) << 32 | i.wrapping_mul(0x9E37_79B1) as u64;
    let mut pairs =
        (0..n).map(|i| (K::narrowed(word(i)), V::narrowed(!word(i)))).collect::<Vec<_>>();
    let mut random = Random(seed);
    for i in (1..pairs.len()).rev() {
        pairs.swap(i, (random.word() % (i as u64 + 1)) as usize);
    }
    pairs
}

/// Fingerprints of these maps. Changes of the layout, the rule, the mixer or the plans change them.
const GOLDEN: [(u32, f64, [u64; 4]); 6] = [
    (
        0,
        0.8,
        [
            0x56C5_0359_8E2C_BB60,
            0xDCF2_7B97_7EDA_27C2,
            0xDCF2_7B97_7EDA_27C2,
            0xDCF2_7B97_7EDA_27C2,
        ],
    ),
    (
        1,
        0.8,
        [
            0x0207_743A_B191_81C7,
            0x7D56_B30B_3B42_3A9B,
            0x7139_E4FD_307D_0657,
            0x3A64_9BCF_4E80_A1FB,
        ],
    ),
    (
        100,
        0.5,
        [
            0x51F4_4E14_C5B3_7109,
            0x1A99_3E74_0280_6487,
            0xDC62_00BC_1D4F_2349,
            0x0E83_5208_93F4_473D,
        ],
    ),
    (
        3600,
        0.9,
        [
            0x58C0_A8EF_A70C_1A03,
            0x3140_D52D_F982_A6C4,
            0x29FE_91FF_EAB1_351A,
            0x0B93_25EB_A562_0C04,
        ],
    ),
    (
        20_000,
        0.8,
        [
            0x8A51_B131_1290_74BE,
            0x119A_4DE3_744C_0523,
            0x7372_E95B_6E18_C532,
            0x48B6_18CE_68FE_4785,
        ],
    ),
    (
        12_000,
        0.95,
        [
            0xDC14_906E_5FD7_7178,
            0xDDF1_DC39_23A6_7C14,
            0x69CB_38DF_0B1C_AA2E,
            0x579A_A144_E440_2893,
        ],
    ),
];
#[test]
fn fingerprints_are_what_they_were() {
    fn fingerprint<K: KeyBits, V: ValueBits>(n: u32, load: f64) -> u64 {
        let build =
            |(seed, device): (u64, &Device)| build(device, &pairs::<K, V>(n, seed), options(load));
        let found =
            (1..).zip(&devices()).map(|it| build(it).fingerprint().unwrap()).collect::<Vec<_>>();
        assert!(found.iter().all(|&it| it == found[0]), "{n} pairs at load {load}: {found:x?}");
        found[0]
    }
    let found = GOLDEN.map(|(n, load, _)| {
        let narrow = fingerprint::<u32, u32>(n, load);
        let wide = [
            fingerprint::<u32, u64>(n, load),
            fingerprint::<u64, u32>(n, load),
            fingerprint::<u64, u64>(n, load),
        ];
        (n, load, [narrow, wide[0], wide[1], wide[2]])
    });
    assert!(found == GOLDEN, "{found:#x?}");
}
/// Big enough for two passes where that is affordable, and dense: some pairs are in the stash.
#[test]
fn big_maps_are_the_same_everywhere() {
    let mut of_size = std::collections::HashMap::new();
    // The CPU with one thread, too.
    let small = !devices().iter().any(is_fast);
    let big = |device: &Device| !small && device.kind() != DeviceKind::Executor;
    for (seed, device) in (1..).zip(devices().into_iter().filter(big)) {
        let most = if device.kind() == DeviceKind::Cuda { 5_000_000 } else { 300_000 };
        for (n, load) in [(300_000, 0.95), (5_000_000, 0.8)].into_iter().filter(|&(n, _)| n <= most)
        {
            for order in 0..2 {
                let map = build(&device, &pairs::<u32, u32>(n, seed * 2 + order), options(load));
                let fingerprint = map.fingerprint().unwrap();
                assert_eq!(
                    *of_size.entry(n).or_insert(fingerprint),
                    fingerprint,
                    "{n} pairs on {}",
                    device.name()
                );
            }
        }
    }
}
/// A rebuilt map, whatever and however much it held; a copy on another device; and lookups.
#[test]
fn rebuilt_and_copied_maps_have_the_same_fingerprint() {
    let cpu = Device::cpu().unwrap();
    let all = pairs::<u64, u32>(6000, 1);
    let expected = |n: usize| build(&cpu, &all[..n], options(0.9)).fingerprint().unwrap();
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut builder = MapBuilder::new(&device, options(0.9)).unwrap();
        let (keys, values): (Vec<u64>, Vec<u32>) = all.iter().copied().unzip();
        let (keys, values) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        let mut map = builder.build(&stream, keys.view(), values.view()).unwrap();
        assert_eq!(map.fingerprint().unwrap(), expected(6000), "{}", device.name());
        for n in [500, 6000, 4000] {
            let (keys, values) =
                (keys.view().slice(..n).unwrap(), values.view().slice(..n).unwrap());
            builder.rebuild(&mut map, &stream, keys, values).unwrap();
            assert_eq!(map.fingerprint().unwrap(), expected(n), "{n} on {}", device.name());
            let copy = map.to_device(&cpu).unwrap().to_device(&device).unwrap();
            assert_eq!(copy.fingerprint().unwrap(), expected(n), "{n} on {}", device.name());
        }
        let queries = all.iter().map(|&(key, _)| key).chain([0, 1, u64::MAX]).collect::<Vec<_>>();
        let wanted = (0..6003).map(|i| (i < 4000).then(|| all[i].1));
        assert!(map.get(&queries).unwrap().into_iter().eq(wanted), "{}", device.name());
    }
}
/// A map rebuilt with fewer pairs, with a stash before and after: a copy has only the stash of the
/// last build.
#[test]
fn copies_of_smaller_maps_have_their_stash() {
    // Keys of one bucket pair: more than it has room for.
    let crowded = |n: usize| {
        let shape =
            build(&Device::cpu().unwrap(), &pairs::<u32, u32>(n as u32, 1), options(0.8)).shape();
        let of_one = move |&key: &u32| {
            let h = Narrow::hash(Narrow::mixed(0, key));
            (shape.first_place(h), shape.second_place(h)) == (3, 3)
        };
        let mut keys = (0..).filter(of_one).take(12).collect::<Vec<_>>();
        keys.extend((0..n as u32 - 12).map(|i| u32::MAX - i));
        keys
    };
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut builder = MapBuilder::new(&device, options(0.8)).unwrap();
        let mut map = Map::build(&device, &[], &[]).unwrap();
        for n in [12_000, 100] {
            let host = crowded(n);
            let keys = device.upload(&host).unwrap();
            builder.rebuild(&mut map, &stream, keys.view(), keys.view()).unwrap();
            assert_eq!(map.report().unwrap().stashed, 8, "{n} on {}", device.name());
            for copy in
                [map.to_device(&device).unwrap(), map.to_device(&Device::executor(1)).unwrap()]
            {
                assert_eq!(copy.fingerprint().unwrap(), map.fingerprint().unwrap());
                assert!(
                    copy.get(&host).unwrap().into_iter().eq(host.iter().map(|&key| Some(key))),
                    "{}",
                    device.name()
                );
                assert_eq!(copy.pairs().unwrap().len(), n);
            }
        }
    }
}
/// Differences that the fingerprint detects: a value, a key, the seed, the load.
#[test]
fn fingerprints_differ() {
    for device in devices() {
        let all = pairs::<u32, u32>(200, 1);
        let mut found = vec![build(&device, &all, options(0.8)).fingerprint().unwrap()];
        let mut other = all.clone();
        other[7].1 ^= 1;
        found.push(build(&device, &other, options(0.8)).fingerprint().unwrap());
        other[7] = (other[7].0 ^ 0x8000_0001, all[7].1);
        found.push(build(&device, &other, options(0.8)).fingerprint().unwrap());
        found.push(build(&device, &all, options(0.8).with_seed(1)).fingerprint().unwrap());
        found.push(build(&device, &all, options(0.7)).fingerprint().unwrap());
        // The last and the first of two copies.
        let twice =
            all.iter().copied().chain(all.iter().map(|&(k, v)| (k, !v))).collect::<Vec<_>>();
        for duplicates in [Duplicates::KeepLast, Duplicates::KeepFirst] {
            let map = build(&device, &twice, options(0.8).with_duplicates(duplicates));
            found.push(map.fingerprint().unwrap());
        }
        let all_found = found.len();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), all_found, "{}", device.name());
    }
}

use super::histogram::bin;
use super::{PATTERNS, sizes};
use crate::support::{devices, written};
use koel::primitives::partition::slack_room;
use koel::primitives::{Bins, ExactPartition, partition_exact, partition_with_slack};
use koel::{Device, Error};
use koel_kernels::bins::{Binning, Bits, Hash};
use koel_kernels::partition::{PairsIn, RoomsOut, SMALL, partition_small};
use koel_simt::{Buf, Exec, In};
use proptest::prelude::*;

const BINS: [Bins; 6] = [
    Bins::Hash { bins: 256 },
    Bins::Bits { shift: 24, bits: 8 },
    Bins::Hash { bins: 1 },
    Bins::Hash { bins: 1000 },
    Bins::Bits { shift: 3, bits: 10 },
    Bins::Hash { bins: 37 },
];
/// Returns the pairs of each bin, sorted, because their order is undefined on a GPU.
fn oracle(bins: Bins, keys: &[u32], values: &[u32]) -> Vec<Vec<u64>> {
    let mut of_bin = vec![vec![]; bins.count()];
    for (&k, &v) in keys.iter().zip(values) {
        of_bin[bin(bins, k)].push((v as u64) << 32 | bins.stored(k) as u64);
    }
    of_bin.iter_mut().for_each(|b| b.sort_unstable());
    of_bin
}
fn check(device: &Device, keys: &[u32], bins: Bins, offset: usize) {
    let stream = device.stream().unwrap();
    let values = (0..keys.len() as u32).map(|i| !i).collect::<Vec<_>>();
    let place = format!("{} pairs, {bins:?}, offset {offset}, {}", keys.len(), device.name());
    let want = oracle(bins, keys, &values);
    let on_device = |x: &[u32]| device.upload(&[vec![0; offset], x.to_vec()].concat()).unwrap();
    let (k, v) = (on_device(keys), on_device(&values));
    let (k, v) = (k.view().slice(offset..).unwrap(), v.view().slice(offset..).unwrap());

    let (out, starts) = partition_exact(&stream, bins, k, v).unwrap();
    let out = out.download().unwrap();
    for (b, want) in want.iter().enumerate() {
        let mut found = out[starts[b] as usize..starts[b + 1] as usize].to_vec();
        found.sort_unstable();
        assert!(&found == want, "bin {b}, exact: {place}");
    }
    assert_eq!((starts[0], starts[bins.count()] as usize), (0, keys.len()), "{place}");

    let room = want.iter().map(Vec::len).max().unwrap();
    let (mut out, mut cursors, mut overflow) = (
        written(device, room * bins.count()),
        device.alloc(bins.count()).unwrap(),
        device.alloc(1).unwrap(),
    );
    partition_with_slack(
        &stream,
        bins,
        room,
        k,
        v,
        out.view_mut(),
        cursors.view_mut(),
        overflow.view_mut(),
    )
    .unwrap();
    let (out, cursors) = (out.download().unwrap(), cursors.download().unwrap());
    for (b, want) in want.iter().enumerate() {
        let mut found = out[b * room..][..cursors[b] as usize].to_vec();
        found.sort_unstable();
        assert!(&found == want, "bin {b}, with slack: {place}");
    }
    assert_eq!(overflow.download().unwrap(), [0], "{place}");
}

#[test]
fn matches_the_oracle() {
    for device in devices() {
        for (s, n) in sizes(&device, 7680).into_iter().enumerate() {
            let n = n.min(200_000);
            check(
                &device,
                &PATTERNS[s % PATTERNS.len()].keys32(n, n as u64),
                BINS[s % BINS.len()],
                s % 3,
            );
        }
        for (p, pattern) in PATTERNS.iter().enumerate() {
            check(&device, &pattern.keys32(20_000, 3), BINS[(p + 3) % BINS.len()], 0);
        }
    }
}
/// A full bin loses pairs, reports how many, and affects no other bin: memory after its room is
/// unchanged.
#[test]
fn overflow_is_counted_and_stays_inside() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let bins = Bins::Bits { shift: 0, bits: 2 };
        for (room, n) in [(0, 9), (5, 100), (100, 30_000), (8000, 30_000)] {
            // Bin 3 gets nearly all, bin 0 five, bin 2 none.
            let keys = (0..n)
                .map(|i| {
                    if i % (n / 5 + 1) == 0 {
                        0
                    } else if i == 7 {
                        1
                    } else {
                        3
                    }
                })
                .collect::<Vec<u32>>();
            let k = device.upload(&keys).unwrap();
            let mark = 0x5555_5555_5555_5555u64;
            let mut out = device.upload(&vec![mark; 4 * room + 16]).unwrap();
            let (mut cursors, mut overflow) = (device.alloc(4).unwrap(), device.alloc(1).unwrap());
            let to = out.view_mut().slice(8..8 + 4 * room).unwrap();
            partition_with_slack(
                &stream,
                bins,
                room,
                k.view(),
                k.view(),
                to,
                cursors.view_mut(),
                overflow.view_mut(),
            )
            .unwrap();
            let (out, place) =
                (out.download().unwrap(), format!("room {room}, {n} pairs, {}", device.name()));
            let counts =
                (0..4).map(|b| keys.iter().filter(|&&k| k == b).count()).collect::<Vec<_>>();
            assert_eq!(
                cursors.download().unwrap(),
                counts.iter().map(|&c| c as u32).collect::<Vec<_>>(),
                "{place}"
            );
            let lost = overflow.download().unwrap()[0] as usize;
            let least = counts.iter().map(|&c| c.saturating_sub(room)).sum::<usize>();
            assert!(
                least <= lost && lost <= least + counts.len() * room,
                "{lost} lost, {least} at least: {place}"
            );
            assert!(out[..8].iter().chain(&out[8 + 4 * room..]).all(|&e| e == mark), "{place}");
            for (b, &count) in counts.iter().enumerate() {
                let found = &out[8 + b * room..][..room];
                let pair = (b as u64) << 32 | b as u64;
                assert!(found.iter().all(|&e| e == pair || e == mark), "bin {b}: {place}");
                if count <= room {
                    assert_eq!(
                        found.iter().filter(|&&e| e == pair).count(),
                        count,
                        "bin {b}: {place}"
                    );
                }
            }
        }
    }
}
/// The kernels for GPUs with 64 KB of shared memory, which no test device has.
#[test]
fn small_shape() {
    let n = 15_000;
    let keys = PATTERNS[0].keys32(n, 1);
    let bins = Bins::Hash { bins: 1000 };
    let room = slack_room(n, 1000);
    let run = |keys: &[u32], hash: bool| {
        let (mut out, mut cursors, mut overflow) = (vec![0; room * 1000], vec![0; 1000], [0]);
        let (exec, n, keys) = (Exec::new(4), n as u32, In::new(keys));
        let grid = n.div_ceil(SMALL.tile());
        let binning = Binning { bins: 1000, drop: 0 };
        let input = PairsIn { keys, values: keys, n, aligned: 0 };
        let to = RoomsOut {
            pairs: Buf::new(&mut out),
            cursors: Buf::new(&mut cursors),
            overflow: Buf::new(&mut overflow),
            stride: room as u32,
            room: room as u32,
        };
        // SAFETY: the arrays have the lengths passed.
        unsafe {
            if hash {
                partition_small::launch::<Hash, _>(&exec, grid, binning, input, to).unwrap();
            } else {
                partition_small::launch::<Bits, _>(&exec, grid, binning, input, to).unwrap();
            }
        }
        assert_eq!(overflow, [0]);
        out.chunks(room as usize)
            .zip(cursors)
            .map(|(o, c)| o[..c as usize].to_vec())
            .collect::<Vec<_>>()
    };
    let mut found = run(&keys, true);
    found.iter_mut().for_each(|b| b.sort_unstable());
    assert!(found == oracle(bins, &keys, &keys));
    // The same bins for keys that are already mixed.
    let mixed = keys.iter().map(|&k| bins.stored(k)).collect::<Vec<_>>();
    let sizes = |found: &[Vec<u64>]| found.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(sizes(&run(&mixed, false)), sizes(&found));
}
#[test]
fn refuses_what_does_not_fit() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (keys, mut out) = (device.upload(&[1u32; 9]).unwrap(), device.alloc(64).unwrap());
        let (mut cursors, mut overflow) = (device.alloc(4).unwrap(), device.alloc(1).unwrap());
        let mut run = |bins, room, values: usize| {
            let values = keys.view().slice(..values).unwrap();
            partition_with_slack(
                &stream,
                bins,
                room,
                keys.view(),
                values,
                out.view_mut(),
                cursors.view_mut(),
                overflow.view_mut(),
            )
        };
        let four = Bins::Hash { bins: 4 };
        let e = run(four, 16, 8).unwrap_err();
        assert!(matches!(e, Error::Length { name: "values", found: 8, expected: 9, .. }), "{e}");
        let e = run(four, 15, 9).unwrap_err();
        assert!(matches!(e, Error::Length { name: "out", found: 64, expected: 60, .. }), "{e}");
        let e = run(four, usize::MAX, 9).unwrap_err();
        assert!(matches!(e, Error::Length { name: "out", .. }), "{e}");
        let e = run(Bins::Hash { bins: 8 }, 8, 9).unwrap_err();
        assert!(matches!(e, Error::Length { name: "cursors", found: 4, expected: 8, .. }), "{e}");
        let e = run(Bins::Hash { bins: 1025 }, 8, 9).unwrap_err();
        assert!(matches!(e, Error::Setting { field: "bins", .. }), "{e}");
        let mut plan = ExactPartition::new(&device, four).unwrap();
        let mut starts = device.alloc(4).unwrap();
        let to = out.view_mut().slice(..9).unwrap();
        let e = plan.run(&stream, keys.view(), keys.view(), to, starts.view_mut()).unwrap_err();
        assert!(matches!(e, Error::Length { name: "starts", found: 4, expected: 5, .. }), "{e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn any_keys(
        keys in prop::collection::vec(any::<u32>(), 0..9000),
        offset in 0usize..5,
        bins in 1u32..300,
        seed in any::<u64>()
    ) {
        for device in [Device::executor(seed), Device::cpu_with_threads(2).unwrap()] {
            check(&device, &keys, Bins::Hash { bins }, offset);
        }
    }
}

//! The kernel against a `HashMap`, on every available device.
use koel::{Device, Error, Map};
use std::collections::HashMap;
use user_kernel::kernels::BITS;
use user_kernel::{PTX, load, sum_neighbours};

fn devices() -> Vec<Device> {
    let mut devices = vec![Device::cpu().unwrap(), Device::executor(1), Device::executor(2)];
    devices.extend(Device::cuda(0)); // if there is a GPU
    devices
}
/// Returns voxels in a few clumps, two of them at the ends of the grid: keys, values, and as
/// queries all voxels of the clumps and around them.
fn scene(seed: u32) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let mut state = seed;
    let mut random = move || {
        state = state.wrapping_mul(0x915F_77F5).wrapping_add(0x9E37_79B9);
        (state ^ state >> 15).wrapping_mul(0x2C1B_3C6D) >> 8
    };
    let (mut keys, mut values, mut queries) = (vec![], vec![], vec![]);
    for corner in [0u32, 500, 1016] {
        for at in 0..8 * 8 * 8 {
            let of = |axis: u32| corner + (at >> (3 * axis) & 7);
            let voxel = of(0) | of(1) << BITS | of(2) << (2 * BITS);
            queries.push(voxel);
            if random() % 3 == 0 {
                keys.push(voxel);
                values.push(random());
            }
        }
    }
    (keys, values, queries)
}
fn expected(map: &HashMap<u32, u32>, voxel: u32) -> u32 {
    let of = |axis: u32| (voxel >> (BITS * axis) & 1023) as i32;
    let mut sum = 0u32;
    for (x, y, z) in [(-1, 0, 0), (1, 0, 0), (0, -1, 0), (0, 1, 0), (0, 0, -1), (0, 0, 1)] {
        let at = [of(0) + x, of(1) + y, of(2) + z];
        if at.iter().all(|c| (0..1024).contains(c)) {
            let key = at[0] as u32 | (at[1] as u32) << BITS | (at[2] as u32) << (2 * BITS);
            sum = sum.wrapping_add(map.get(&key).copied().unwrap_or(0));
        }
    }
    sum
}

#[test]
fn sums_are_those_of_a_hash_map() {
    for device in devices() {
        load(&device).unwrap();
        let stream = device.stream().unwrap();
        for seed in 1..4 {
            let (keys, values, queries) = scene(seed);
            let oracle =
                keys.iter().copied().zip(values.iter().copied()).collect::<HashMap<_, _>>();
            let map = Map::build(&device, &keys, &values).unwrap();
            let (voxels, mut sums) =
                (device.upload(&queries).unwrap(), device.alloc(queries.len()).unwrap());
            sum_neighbours(&stream, &map, voxels.view(), sums.view_mut()).unwrap();
            let sums = sums.download().unwrap();
            for (voxel, sum) in queries.iter().zip(sums) {
                assert_eq!(
                    sum,
                    expected(&oracle, *voxel),
                    "voxel {voxel:#x}, seed {seed}, {device:?}"
                );
            }
        }
    }
}

/// The launch is recorded once and replayed for every frame.
#[test]
fn it_runs_in_a_graph() {
    for device in devices() {
        load(&device).unwrap();
        let stream = device.stream().unwrap();
        let (keys, values, queries) = scene(9);
        let oracle = keys.iter().copied().zip(values.iter().copied()).collect::<HashMap<_, _>>();
        let map = Map::build(&device, &keys, &values).unwrap();
        let (voxels, sums) =
            (device.upload(&queries).unwrap(), device.alloc(queries.len()).unwrap());
        let mut frame = stream
            .capture((map, voxels, sums), |stream, (map, voxels, sums)| {
                sum_neighbours(stream, map, voxels.view(), sums.view_mut())
            })
            .unwrap();
        for turn in [0, 5, 700] {
            let mut queries = queries.clone();
            queries.rotate_left(turn);
            frame.state_mut().1.view_mut().copy_from_host(&queries).unwrap();
            frame.launch(&stream).unwrap();
            let sums = frame.state().2.download().unwrap();
            assert!(
                queries.iter().zip(sums).all(|(voxel, sum)| sum == expected(&oracle, *voxel)),
                "{device:?}"
            );
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    for device in devices() {
        load(&device).unwrap();
        load(&device).unwrap();
        let changed = PTX.map(|(capability, ptx)| (capability, ptx.replace("ret;", "\tret;")));
        let changed = changed.each_ref().map(|(capability, ptx)| (*capability, ptx.as_str()));
        assert!(matches!(
            device.load_kernels(&changed),
            Err(Error::KernelExists { kernel }) if kernel == "neighbour_sums"
        ));
        let stream = device.stream().unwrap();
        let (map, mut sums) = (Map::build(&device, &[1], &[2]).unwrap(), device.alloc(2).unwrap());
        let e = sum_neighbours(&stream, &map, device.upload(&[1]).unwrap().view(), sums.view_mut())
            .unwrap_err();
        assert_eq!(e.to_string(), "`sums` holds 2 elements, but `voxels` needs 1");
    }
}

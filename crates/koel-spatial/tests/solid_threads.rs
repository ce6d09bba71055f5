//! Volumes and meshes of Booleans use the threads of their device, not those of rayon's global
//! pool. A process of its own, because the test occupies that pool.

mod intersect_scenes;

use intersect_scenes::{Random, Scan, Shape, scan};
use koel::Device;
use koel_spatial::Grid;
use koel_spatial::intersect::{Boolean, Intersector, Method, Pose};
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
fn solids_use_the_threads_of_their_device() {
    const CLEAN: Scan =
        Scan { noise: 0.0, degrees: 0.0, outliers: 0.0, flipped: 0.0, hole: 0.0, density: 0.0 };
    let mut random = Random(1);
    let cloud = scan(Shape::Sphere(0.5), 8_000, CLEAN, 2.0 / 32.0, &mut random).cloud;
    let grid = Grid::new([-1.0; 3], 2.0 / 32.0, 32).unwrap();
    let pose = Pose { translation: [0.3, 0.0, 0.0], ..Pose::IDENTITY };
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().unwrap();
    let device = Device::cpu_with_threads(1).unwrap();
    let mut frames = Intersector::new(&device, &cloud, &cloud, grid, Method::default()).unwrap();
    frames.frame(&Pose::IDENTITY, &pose).unwrap();

    // Work for the global pool would never begin.
    let (release, occupied) = channel::<()>();
    rayon::spawn(move || _ = occupied.recv());
    let (done, result) = channel();
    std::thread::spawn(move || {
        let solids = frames.solids().unwrap();
        let volume = solids.volume(Boolean::Union);
        let smooth = solids.smooth_mesh(Boolean::Union).mesh.triangles.len();
        let of_voxels = solids.mesh(Boolean::Union).mesh.triangles.len();
        done.send((solids.volumes()[0].volume, volume, smooth, of_voxels)).unwrap();
    });
    let found = result.recv_timeout(Duration::from_secs(100));
    let (smooth, voxels, triangles, of_voxels) = found.expect("solids wait for the global pool");
    release.send(()).unwrap();
    assert!((smooth / voxels - 1.0).abs() < 0.05 && triangles == of_voxels);
}

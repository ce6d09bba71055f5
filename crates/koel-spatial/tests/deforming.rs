//! Clouds whose points are new in every frame have the labels of clouds made of these points.

mod intersect_scenes;

use intersect_scenes::{Random, Scan, Shape, assert_same, scan};
use koel::Device;
use koel_spatial::intersect::{
    IntersectError, Intersector, Method, PaperOptions, Pose, RobustOptions, Side,
};
use koel_spatial::{Grid, PointCloud};

fn grid() -> Grid {
    Grid::new([-1.6; 3], 0.2, 16).unwrap()
}
/// Returns a sphere and a torus, of about this many points each.
fn clouds(points: usize) -> [PointCloud; 2] {
    let mut random = Random(7);
    [Shape::Sphere(0.6), Shape::Torus { major: 0.55, minor: 0.22 }]
        .map(|shape| scan(shape, points, Scan::default(), 0.2, &mut random).cloud)
}
/// Bends a cloud: the normals do not follow, and get other lengths.
fn bent(cloud: &PointCloud, by: f32) -> PointCloud {
    let mut cloud = cloud.clone();
    for (i, p) in cloud.positions.iter_mut().enumerate() {
        *p = [p[0] + by * p[1] * p[1], p[1] * (1.0 + by), p[2] - by * p[0]];
        if i % 97 == 5 {
            p[i % 3] = if i % 2 == 0 { f32::NAN } else { 9.0 };
        }
    }
    for (i, n) in cloud.normals.iter_mut().flatten().enumerate() {
        *n = n.map(|c| c * (1 + i % 5) as f32 * 0.3);
    }
    cloud
}
/// Returns the first points of a cloud, or all of them and some again.
fn resized(cloud: &PointCloud, n: usize) -> PointCloud {
    let part = |of: &[[f32; 3]]| of.iter().cycle().take(n).copied().collect::<Vec<_>>();
    PointCloud { positions: part(&cloud.positions), normals: cloud.normals.as_deref().map(part) }
}
/// Asserts that clouds of the same points in another order have the same voxels, and nearly the same
/// labels: the winding number of the surface is that of samples, which depend on the order.
#[track_caller]
fn assert_alike(found: &mut Intersector, expected: &mut Intersector) {
    for side in Side::BOTH {
        let [own, other] = [&*found, &*expected].map(|i| i.voxels(side).unwrap());
        assert!(own.iter().map(|v| v.voxel).eq(other.iter().map(|v| v.voxel)));
        let differ = own.iter().zip(&other).filter(|(a, b)| a.label != b.label).count();
        assert!(differ <= own.len() / 50, "{differ} of {}", own.len());
        let [own, other] = [&mut *found, &mut *expected].map(|i| i.point_labels(side).unwrap());
        assert_eq!(own.len(), other.len());
        let differ = own.iter().zip(&other).filter(|(a, b)| a != b).count();
        assert!(differ <= own.len() / 50, "{differ} of {}", own.len());
        let dropped = |i: &mut Intersector| i.summary().unwrap().side(side).dropped;
        assert_eq!(dropped(found), dropped(expected));
    }
}
/// Returns what both clouds are in each frame: bent, with fewer and with more points than at first.
fn sequence(device: &Device) -> Vec<[PointCloud; 2]> {
    let quick = device.kind() != koel::DeviceKind::Executor;
    let [a, b] = clouds(if quick { 5000 } else { 500 });
    let more = a.positions.len() * 5 / 4;
    vec![
        [a.clone(), b.clone()],
        [bent(&a, 0.1), b.clone()],
        [bent(&a, 0.2), bent(&b, -0.1)],
        [resized(&a, more), bent(&b, 0.3)],
        [bent(&resized(&a, more), 0.1), resized(&b, 33)],
        [resized(&a, 1), b.clone()],
        [a, b],
    ]
}
fn devices() -> impl Iterator<Item = Device> {
    let host = [Device::cpu_with_threads(2).unwrap(), Device::executor(1), Device::executor(2)];
    host.into_iter().chain(Device::cuda(0).ok())
}

/// Frames of a sequence, with room for the largest.
fn first_of(device: &Device, frames: &[[PointCloud; 2]], method: Method) -> Intersector {
    let most = |i: usize| frames.iter().map(|f| f[i].positions.len()).max().unwrap();
    let [a, b] = &frames[0];
    Intersector::with_room(device, [a, b], [most(0), most(1)], grid(), method).unwrap()
}
const MOVED: Pose = Pose { translation: [0.15, 0.1, -0.05], ..Pose::IDENTITY };

#[test]
fn new_points_have_the_labels_of_new_clouds() {
    let robust = Method::Robust(RobustOptions::default().with_assume_closed(true));
    for device in devices() {
        for method in [robust, Method::Paper(PaperOptions::default())] {
            let frames = sequence(&device);
            let mut all = first_of(&device, &frames, method);
            for (number, [a, b]) in frames.iter().enumerate() {
                all.set_cloud(Side::A, a).unwrap();
                all.set_cloud(Side::B, b).unwrap();
                all.frame(&Pose::IDENTITY, &MOVED).unwrap();
                let mut alone = Intersector::new(&device, a, b, grid(), method).unwrap();
                alone.frame(&Pose::IDENTITY, &MOVED).unwrap();
                // The first frame has the order of the clouds; the 2009 paper's needs none.
                if number == 0 || method != robust {
                    assert_same(&mut all, &mut alone);
                } else {
                    assert_alike(&mut all, &mut alone);
                }
            }
        }
    }
}

#[test]
fn recorded_frames_take_new_points_on_every_device() {
    for device in devices() {
        let (frames, method) = (sequence(&device), Method::default());
        let host = Device::cpu_with_threads(1).unwrap();
        let mut expected = first_of(&host, &frames, method);
        let mut recorded = first_of(&device, &frames, method).record().unwrap();
        for clouds in &frames {
            for (side, cloud) in Side::BOTH.into_iter().zip(clouds) {
                let words =
                    |of: &[[f32; 3]]| device.upload(bytemuck::cast_slice::<_, u32>(of)).unwrap();
                let positions = words(&cloud.positions);
                let normals = words(cloud.normals.as_deref().unwrap());
                recorded
                    .intersector_mut()
                    .set_points(side, positions.view(), normals.view())
                    .unwrap();
                expected.set_cloud(side, cloud).unwrap();
            }
            recorded.frame(&Pose::IDENTITY, &MOVED).unwrap();
            expected.frame(&Pose::IDENTITY, &MOVED).unwrap();
            assert_same(recorded.intersector_mut(), &mut expected);
        }
    }
}

#[test]
fn points_that_cannot_be_are_refused_and_change_nothing() {
    let device = Device::cpu_with_threads(1).unwrap();
    let [a, b] = clouds(500);
    let new = || Intersector::new(&device, &a, &b, grid(), Method::default()).unwrap();
    let (mut tried, mut expected) = (new(), new());
    let n = a.positions.len();
    let refused = |tried: &mut Intersector, positions: usize, normals: usize| {
        let words = |n: usize| device.upload(&vec![0u32; n]).unwrap();
        let (positions, normals) = (words(positions), words(normals));
        tried.set_points(Side::A, positions.view(), normals.view()).unwrap_err().to_string()
    };
    assert_eq!(refused(&mut tried, 0, 0), "cloud A has no points");
    assert_eq!(
        refused(&mut tried, 32, 32),
        "the new points of cloud A have 32 coordinates, expected a multiple of 3"
    );
    assert_eq!(refused(&mut tried, 33, 30), "cloud A has 11 points but 10 normals");
    let (places, points) = (n.next_multiple_of(4), n + 4);
    assert_eq!(
        refused(&mut tried, 3 * points, 3 * points),
        format!(
            "cloud A has room for {places} points, not for {points}: reserve it with \
             Intersector::with_room"
        )
    );
    let without = PointCloud { normals: None, ..a.clone() };
    let error = tried.set_cloud(Side::B, &without).unwrap_err();
    assert!(matches!(error, IntersectError::NoNormals { cloud: Side::B }));
    let room = [koel_spatial::intersect::MAX_POINTS + 1, 0];
    let error = Intersector::with_room(&device, [&a, &b], room, grid(), Method::default()).err();
    assert!(matches!(error, Some(IntersectError::TooManyPoints { cloud: Side::A, .. })));
    for intersector in [&mut tried, &mut expected] {
        intersector.frame(&Pose::IDENTITY, &Pose::IDENTITY).unwrap();
    }
    assert_same(&mut tried, &mut expected);
}

//! Samples that move with the triangles of an animated mesh, and frames of them.

use koel::Device;
use koel_spatial::intersect::{Intersector, Label, Method, Pose, Side};
use koel_spatial::sample::{MovingSamples, TriangleEnvelope, sample_cloud};
use koel_spatial::{DeformingMesh, Grid, PointCloud};
use koel_testing::gltf_scenes::{BEND, bending_bar};

/// Checks that every point of the triangles, of a grid on each, has a sample within `radius`.
fn is_covered(
    triangles: &[[u32; 3]],
    positions: &[[f32; 3]],
    (cloud, radius): (&PointCloud, f64),
    what: &str,
) {
    for corners in triangles {
        let [a, b, c] = corners.map(|i| positions[i as usize].map(f64::from));
        for (i, j) in (0..6).flat_map(|i| (0..6 - i).map(move |j| (i, j))) {
            let (u, v) = (f64::from(i) / 5.0, f64::from(j) / 5.0);
            let p: [f64; 3] = std::array::from_fn(|k| a[k] + u * (b[k] - a[k]) + v * (c[k] - a[k]));
            let nearest = cloud
                .positions
                .iter()
                .map(|q| (0..3).map(|k| (p[k] - f64::from(q[k])).powi(2)).sum::<f64>());
            let nearest = nearest.fold(f64::INFINITY, f64::min).sqrt();
            assert!(nearest <= radius * (1.0 + 1e-5), "{what}: {nearest}");
        }
    }
}

/// A triangle that grows along one axis, then along the other, and shrinks.
#[test]
fn moving_samples_cover_triangles_that_grow() {
    let shape = |x: f32, y: f32| [[0.0, 0.0, 0.0], [x, 0.0, 0.0], [0.25 * x, y, 0.0]];
    let shapes = [shape(1.0, 1.0), shape(4.0, 1.0), shape(1.0, 3.0), shape(0.5, 0.2)];
    let (triangles, radius) = ([[0, 1, 2]], 0.1);
    for first in 0..shapes.len() {
        let mut envelope = TriangleEnvelope::new(&triangles, &shapes[first]).unwrap();
        shapes.iter().for_each(|shape| envelope.include(shape).unwrap());
        let samples = MovingSamples::new(envelope, radius).unwrap();
        for (number, shape) in shapes.iter().enumerate() {
            let cloud = samples.cloud(shape).unwrap();
            is_covered(&triangles, shape, (&cloud, radius), &format!("{number} after {first}"));
        }
    }
}

/// Each point of a frame has a sample nearby, and samples keep their number and order.
#[test]
fn moving_samples_cover_every_frame() {
    let mesh = DeformingMesh::parse(&bending_bar(9, [0.0; 3]).glb()).unwrap();
    let radius = 0.11;
    let times = [0.0, 0.5, 1.0, 1.5, BEND];
    let mut envelope = TriangleEnvelope::new(mesh.triangles(), &mesh.positions()).unwrap();
    times.iter().for_each(|&t| envelope.include(&mesh.positions_at(0, t)).unwrap());
    let samples = MovingSamples::new(envelope, radius).unwrap();
    for &t in &times {
        let positions = mesh.positions_at(0, t);
        let cloud = samples.cloud(&positions).unwrap();
        assert_eq!(cloud.positions.len(), samples.len());
        is_covered(mesh.triangles(), &positions, (&cloud, radius), &format!("at {t}"));
        let normals = cloud.normals.unwrap();
        assert!(normals.iter().all(|n| (n.iter().map(|c| c * c).sum::<f32>() - 1.0).abs() < 1e-5));
    }
    // Without deformation there are as many samples as of a still mesh.
    let still = sample_cloud(&mesh.mesh(), radius).unwrap();
    let envelope = TriangleEnvelope::new(mesh.triangles(), &mesh.positions()).unwrap();
    let moving = MovingSamples::new(envelope, radius).unwrap();
    let ratio = moving.len() as f64 / still.positions.len() as f64;
    assert!((0.95..1.05).contains(&ratio), "{ratio}");
    let error = moving.cloud(&mesh.positions()[1..]).unwrap_err().to_string();
    assert_eq!(error, "35 positions, expected 36");
}

/// A frame that is recorded once follows an animation: its labels are those of frames launched one
/// by one, on every device.
#[test]
fn recorded_frames_follow_an_animation() {
    let mesh = DeformingMesh::parse(&bending_bar(9, [0.0; 3]).glb()).unwrap();
    let grid = Grid::new([-1.0, -2.0, -3.2], 0.2, 32).unwrap();
    let times = [0.0, 0.9, BEND];
    let mut envelope = TriangleEnvelope::new(mesh.triangles(), &mesh.positions()).unwrap();
    times.iter().for_each(|&t| envelope.include(&mesh.positions_at(0, t)).unwrap());
    let samples = MovingSamples::new(envelope, 0.0999).unwrap();
    let still = sample_cloud(&mesh.mesh(), 0.0999).unwrap();
    let frames = times.map(|t| samples.cloud(&mesh.positions_at(0, t)).unwrap());
    let above = Pose { translation: [-0.5, 0.9, 0.05], ..Pose::IDENTITY };
    let new = |device: &Device| {
        Intersector::new(device, &frames[0], &still, grid, Method::default()).unwrap()
    };
    let host = Device::cpu_with_threads(2).unwrap();
    for device in [Some(host.clone()), Some(Device::executor(1)), Device::cuda(0).ok()] {
        let Some(device) = device else { continue };
        let (mut plain, mut recorded) = (new(&host), new(&device).record().unwrap());
        let mut inside = vec![];
        for frame in &frames {
            plain.set_cloud(Side::A, frame).unwrap();
            plain.frame(&Pose::IDENTITY, &above).unwrap();
            recorded.intersector_mut().set_cloud(Side::A, frame).unwrap();
            recorded.frame(&Pose::IDENTITY, &above).unwrap();
            for side in Side::BOTH {
                let found = recorded.intersector_mut().point_labels(side).unwrap();
                assert_eq!(found, plain.point_labels(side).unwrap());
                inside.push(found.iter().filter(|&&label| label == Label::Inside).count());
            }
        }
        assert!(inside[0] == 0 && inside[2] > 20, "the bar bends into the other: {inside:?}");
    }
}

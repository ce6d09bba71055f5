//! Homographies: from affine poses of a tilted model, alike on every device.
use crate::synthetic::{texture, tilted_pair};
use crate::{Affine, Homography, Matcher, Model, Options};
use koel::Device;

/// Returns the affine map that fits a homography at a point of the model.
fn tangent(map: &Homography, at: (f32, f32)) -> Affine {
    let near = |dx: f32, dy: f32| map.apply((at.0 + dx, at.1 + dy)).unwrap();
    let (o, x, y) = (near(0.0, 0.0), near(1.0, 0.0), near(0.0, 1.0));
    let linear = [[x.0 - o.0, y.0 - o.0], [x.1 - o.1, y.1 - o.1]];
    Affine { linear, shift: [0.0; 2] }.moving(at, o)
}

/// From the middle, both attempts succeed; from a corner, only the one that grows, as elsewhere the
/// tangent lies farther from the edges than others do.
#[test]
fn homographies_grow_from_a_part() {
    let textures = (0..3).map(|seed| texture(660, 500, seed)).collect::<Vec<_>>();
    let found = |device: Device, cases: &[(u64, (f32, f32))]| {
        let matcher = Matcher::new(&device, Options::default()).unwrap();
        let one = |&(seed, at): &(u64, (f32, f32))| {
            let pair = tilted_pair(55.0, &textures, seed);
            let model = Model::of(&pair.model).unwrap();
            let scene = matcher.scene(&pair.scene).unwrap();
            let map = tangent(&pair.truth, at);
            let homography = matcher.perspective(&model, &scene, (map, map)).unwrap();
            let homography = homography.unwrap_or_else(|| panic!("{seed}, {at:?}: affine"));
            for corner in [(0.0, 0.0), (239.0, 0.0), (239.0, 179.0), (0.0, 179.0)] {
                let (a, b) = (homography.apply(corner).unwrap(), pair.truth.apply(corner).unwrap());
                let off = (a.0 - b.0).hypot(a.1 - b.1);
                assert!(off < 1.0, "{seed}, {at:?}, {corner:?}: {off} px");
            }
            homography
        };
        cases.iter().map(one).collect::<Vec<Homography>>()
    };
    let (corner, middle) = ((30.0, 30.0), (120.0, 90.0));
    let cases = [(1, corner), (1, middle), (2, corner), (2, middle), (3, corner), (3, middle)];
    let here = found(Device::cpu().unwrap(), &cases);
    assert_eq!(found(Device::executor(3), &cases[..1]), here[..1]);
    if let Ok(gpu) = Device::cuda(0) {
        assert_eq!(found(gpu, &cases), here);
    }
}

//! Tilted models in perspective: the homography lies closer than the affine map.
use koel::Device;
use koel_vision::synthetic::{TiltedPair, texture, tilted_pair};
use koel_vision::{Affine, Found, Freedom, Grey, Homography, Matcher, Model, Options};

fn textures() -> Vec<Grey> {
    (0..3).map(|seed| texture(660, 500, seed)).collect()
}
fn search(pair: &TiltedPair, options: Options) -> Option<Found> {
    let matcher = Matcher::new(&Device::cpu().unwrap(), options.with_wide(false)).unwrap();
    let (model, scene) = (Model::of(&pair.model).unwrap(), matcher.scene(&pair.scene).unwrap());
    matcher.find(&model, &scene).unwrap().found
}
/// Mean distance of the four corners.
fn error(a: &Homography, b: &Homography) -> f32 {
    let [a, b] = [a, b].map(|h| h.outline(240, 180).unwrap());
    a.iter().zip(b).map(|(a, b)| (a.0 - b.0).hypot(a.1 - b.1)).sum::<f32>() / 4.0
}

#[test]
fn homographies_of_tilted_models() {
    for (degrees, seed) in [(30.0, 1), (45.0, 2)] {
        let pair = tilted_pair(degrees, &textures(), seed);
        let found = search(&pair, Options::default()).unwrap_or_else(|| panic!("{degrees}"));
        let homography = found.homography.unwrap_or_else(|| panic!("{degrees}: affine"));
        let (before, after) =
            (error(&found.map.into(), &pair.truth), error(&homography, &pair.truth));
        assert!(after < 1.0 && before > 3.0 * after, "{degrees}: {before} px, then {after} px");
    }
}

/// A plate with square modules, such as a code, seen by a near camera: under the best affine map,
/// its far side differs.
#[test]
fn luminance_is_judged_in_perspective() {
    let module = |x: usize, y: usize| (x * 7919 + y * 104_729 + x * y * 31) % 97 < 48;
    let plate = |seed: usize| {
        let inked = |i: usize| {
            let (x, y) = (i % 200, i / 200);
            let inside = (16..184).contains(&x) && (16..184).contains(&y);
            if inside && module(x / 8 + seed, y / 8) { 15.0 } else { 245.0 }
        };
        Grey { width: 200, height: 200, pixels: (0..200 * 200).map(inked).collect() }
    };
    let rows = [[0.85, -0.1, 180.0], [0.12, 0.9, 120.0], [-0.0004, 0.0009, 1.0]];
    let (map, background) = (Homography { rows }, texture(560, 460, 4));
    let back = map.inverse().unwrap();
    let model = Model::of(&plate(0)).unwrap();
    for seed in [0, 3] {
        let shown = plate(seed);
        let at = |i: usize| {
            let (x, y) = ((i % 560) as f32, (i / 560) as f32);
            let part = |k: u32| {
                let p =
                    (x + (k % 3) as f32 / 3.0 - 1.0 / 3.0, y + (k / 3) as f32 / 3.0 - 1.0 / 3.0);
                back.apply(p).and_then(|(u, v)| shown.at(u, v)).unwrap_or(background.pixels[i])
            };
            (0..9).map(part).sum::<f32>() / 9.0
        };
        let scene = Grey { width: 560, height: 460, pixels: (0..560 * 460).map(at).collect() };
        let options = Options::default().with_wide(false);
        let matcher = Matcher::new(&Device::cpu().unwrap(), options).unwrap();
        let outcome = matcher.find(&model, &matcher.scene(&scene).unwrap()).unwrap();
        assert_eq!(
            outcome.found.is_some(),
            seed == 0,
            "{:?} {:?}",
            outcome.doubt,
            outcome.agreement
        );
        let off = |found: Found| {
            let [a, b] = [found.homography.unwrap(), map].map(|h| h.outline(200, 200).unwrap());
            a.iter().zip(b).map(|(a, b)| (a.0 - b.0).hypot(a.1 - b.1)).sum::<f32>() / 4.0
        };
        assert!(outcome.found.is_none_or(|found| off(found) < 1.0));
    }
}

#[test]
fn homographies_are_for_what_is_tilted_and_may_be() {
    let upright = tilted_pair(0.0, &textures(), 1);
    assert_eq!(search(&upright, Options::default()).unwrap().homography, None);
    let tilted = tilted_pair(30.0, &textures(), 1);
    let options = Options::default().with_perspective(false);
    assert_eq!(search(&tilted, options).unwrap().homography, None);
    let rigid = Options::default().with_freedom(Freedom::Similarity);
    assert!(search(&tilted, rigid).is_none_or(|found| found.homography.is_none()));
}

#[test]
fn homographies_invert_and_compose() {
    let map = tilted_pair(45.0, &textures()[..1], 3).truth;
    let back = map.inverse().unwrap();
    assert!(error(&map.after(&back).unwrap(), &Affine::IDENTITY.into()) < 1e-3);
    let horizon = Homography { rows: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-0.01, 0.0, 1.0]] };
    assert_eq!(horizon.apply((50.0, 2.0)), Some((100.0, 4.0)));
    assert_eq!((horizon.apply((100.0, 2.0)), horizon.outline(200, 10)), (None, None));
}

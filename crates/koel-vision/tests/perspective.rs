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

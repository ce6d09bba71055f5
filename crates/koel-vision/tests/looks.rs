//! Mirrored and negative models, by option only, and scenes that are a part of the model.
use koel::Device;
use koel_vision::synthetic::texture;
use koel_vision::{Affine, Grey, MatchOutcome, Matcher, Model, Options};

const SIZE: (usize, usize) = (200, 150);
/// Background of all scenes.
fn background() -> Grey {
    texture(420, 320, 5)
}
fn model() -> Grey {
    texture(SIZE.0, SIZE.1, 8)
}
/// One stage: what is absent takes little time.
fn options() -> Options {
    let options = Options::default().with_wide(false);
    let first = options.passes[..1].to_vec();
    options.with_passes(first)
}
fn search(options: Options, model: &Grey, scene: &Grey) -> MatchOutcome {
    let matcher = Matcher::new(&Device::cpu().unwrap(), options).unwrap();
    matcher.find(&Model::of(model).unwrap(), &matcher.scene(scene).unwrap()).unwrap()
}
fn negated(image: &Grey) -> Grey {
    Grey { pixels: image.pixels.iter().map(|v| 255.0 - v).collect(), ..*image }
}
fn pasted(model: &Grey, scene: &Grey, map: &Affine) -> Grey {
    let back = map.inverse().unwrap();
    let at = |i: usize| {
        let (x, y) = back.apply(((i % scene.width) as f32, (i / scene.width) as f32));
        model.at(x, y).unwrap_or(scene.pixels[i])
    };
    Grey { pixels: (0..scene.pixels.len()).map(at).collect(), ..*scene }
}
/// A rotation and reduction, mirrored or not.
fn pose(mirrored: bool) -> Affine {
    let map = Affine::similarity(0.5, 0.9, (99.5, 74.5), (210.0, 160.0));
    let flip = Affine { linear: [[-1.0, 0.0], [0.0, 1.0]], shift: [199.0, 0.0] };
    if mirrored { map.after(&flip) } else { map }
}

#[test]
fn other_looks_are_found_by_option_only() {
    for (mirrored, negative) in [(true, false), (false, true), (true, true)] {
        let case = format!("mirrored {mirrored}, negative {negative}");
        let shown = if negative { negated(&model()) } else { model() };
        let scene = pasted(&shown, &background(), &pose(mirrored));
        let options = options();
        assert_eq!(search(options.clone(), &model(), &scene).found, None, "{case}");
        let outcome =
            search(options.with_mirrored(mirrored).with_negative(negative), &model(), &scene);
        let found = outcome.found.unwrap_or_else(|| panic!("{case}: {:?}", outcome.doubt));
        assert_eq!(found.negative, negative, "{case}");
        assert_eq!(found.map.determinant() < 0.0, mirrored, "{case}");
        let error = found.map.corner_error(&pose(mirrored), SIZE.0, SIZE.1);
        assert!(error < 1.5, "{case}: {error} px");
        assert!(!found.part && found.inliers > 100, "{case}: {} inliers", found.inliers);
    }
}

#[test]
fn options_change_nothing_for_what_is_upright_or_absent() {
    let both = || options().with_mirrored(true).with_negative(true);
    let scene = pasted(&model(), &background(), &pose(false));
    let [plain, other] = [options(), both()].map(|o| search(o, &model(), &scene));
    assert_eq!(plain.found, other.found);
    assert!(plain.found.is_some());
    for seed in 20..22 {
        let outcome = search(both(), &texture(SIZE.0, SIZE.1, seed), &scene);
        assert_eq!(outcome.found, None, "seed {seed}: {} nats", outcome.evidence);
    }
}

#[test]
fn tables_find_other_looks_too() {
    let options = options().with_mirrored(true).with_negative(true);
    let matcher = Matcher::new(&Device::cpu().unwrap(), options).unwrap();
    let models = [texture(150, 120, 31), model()].map(|m| Model::of(&m).unwrap());
    let scene = pasted(&negated(&model()), &background(), &pose(true));
    let scene = matcher.scene(&scene).unwrap();
    let outcomes = matcher.find_all(&matcher.table(&models).unwrap(), &scene).unwrap();
    assert_eq!(outcomes[0].1.found, None);
    let found = outcomes[1].1.found.as_ref().unwrap();
    assert!(found.negative && found.map.determinant() < 0.0, "{:?}", found.map);
    // Alone, it is found at the same place.
    assert_eq!(Some(found), matcher.find(&models[1], &scene).unwrap().found.as_ref());
}

#[test]
fn a_scene_that_is_a_part_of_the_model() {
    let whole = texture(640, 480, 41);
    // The scene shows 200 x 160 pixels of the model, turned and 1.2 times as large.
    let truth = Affine::similarity(0.3, 1.2, (400.0, 230.0), (110.0, 90.0));
    let back = truth.inverse().unwrap();
    let cut = |map: &Affine, image: &Grey| {
        let at = |i: usize| {
            let (x, y) = map.apply(((i % 220) as f32, (i / 220) as f32));
            image.at(x, y).unwrap()
        };
        Grey { width: 220, height: 180, pixels: (0..220 * 180).map(at).collect() }
    };
    let device = Device::cpu().unwrap();
    let matcher = |options| Matcher::new(&device, options).unwrap();
    let plain = matcher(options());
    let picture = plain.scene(&whole).unwrap();
    let shown = cut(&back, &whole);
    let outcome = plain.find_part(&picture, &plain.scene(&shown).unwrap()).unwrap();
    let found = outcome.found.unwrap_or_else(|| panic!("{:?}", outcome.doubt));
    assert!(found.part && !found.negative);
    // Errors at the model's far corners are larger than in the scene, so compare in the model.
    let (there, true_there) = (found.map.inverse().unwrap(), back);
    assert!(there.corner_error(&true_there, 220, 180) < 1.5, "{:?}", found.map);
    let inside = |p: &(f32, f32)| p.0 > -3.0 && p.1 > -3.0 && p.0 < 223.0 && p.1 < 183.0;
    assert!(found.inlier_points.iter().all(inside));
    // Another scene is no part of the model, and a negative one only by option.
    let other = plain.scene(&texture(220, 180, 42)).unwrap();
    assert_eq!(plain.find_part(&picture, &other).unwrap().found, None);
    let negative = plain.scene(&negated(&shown)).unwrap();
    assert_eq!(plain.find_part(&picture, &negative).unwrap().found, None);
    let outcome = matcher(options().with_negative(true)).find_part(&picture, &negative).unwrap();
    assert!(outcome.found.is_some_and(|f| f.negative && f.part));
    let flat = plain.scene(&Grey::filled(220, 180, 9.0)).unwrap();
    assert_eq!(plain.find_part(&picture, &flat).unwrap().found, None);
}

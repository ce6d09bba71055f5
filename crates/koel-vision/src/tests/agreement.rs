//! Agreement of luminance: the visible part of a model that is covered in part, and drawings that
//! are alike in part.
use crate::agreement::regions::of_block;
use crate::agreement::{Compared, Luminance, Patch, agreement};
use crate::device::upload;
use crate::random::Random;
use crate::synthetic::texture;
use crate::{Affine, Grey, Matcher, Model, Options};
use koel::Device;

const MODEL: (usize, usize) = (160, 120);
const AT: (f32, f32) = (70.0, 50.0);

/// Compares on a device with kernels.
fn compared_on(device: &Device, model: &Grey, scene: &Grey, map: Affine, fits: bool) -> Compared {
    let stream = device.stream().unwrap();
    let image = upload(scene, device).unwrap();
    let scene = Luminance { grey: scene, on_device: Some((&stream, &image)) };
    agreement(&Patch::of(model), scene, map, fits).unwrap()
}
/// Compares on the host.
fn compared_here(model: &Grey, scene: &Grey, map: Affine, fits: bool) -> Compared {
    let scene = Luminance { grey: scene, on_device: None };
    agreement(&Patch::of(model), scene, map, fits).unwrap()
}

/// Returns a scene with a model at `AT`, covered from the fraction `from` of its width on.
fn covered(model: &Grey, from: f32) -> Grey {
    let (mut scene, other) = (texture(300, 220, 31), texture(300, 220, 32));
    for i in 0..scene.pixels.len() {
        let (x, y) = ((i % 300) as f32 - AT.0, (i / 300) as f32 - AT.1);
        if let Some(value) = model.at(x, y) {
            let shown = x < from * MODEL.0 as f32;
            scene.pixels[i] = if shown { value } else { other.pixels[i] };
        }
    }
    scene
}
fn compared(model: &Grey, scene: &Grey, shift: (f32, f32)) -> Compared {
    let map = Affine { shift: [AT.0 + shift.0, AT.1 + shift.1], ..Affine::IDENTITY };
    let here = compared_here(model, scene, map, false);
    // The kernels, run by this thread.
    assert_eq!(here, compared_on(&Device::cpu().unwrap(), model, scene, map, false));
    here
}

/// Frames of sides around those of blocks and warps, bent, turned, enlarged, shrunk, outside in
/// part, and drawings.
#[test]
fn every_device_compares_alike() {
    let gpu = Device::cuda(0).ok();
    let devices = [Device::cpu().unwrap(), Device::executor(2)].into_iter().chain(gpu);
    for device in devices {
        for (number, (w, h)) in [(12, 12), (13, 31), (47, 33), (64, 48)].into_iter().enumerate() {
            let (texture, scene) = (texture(w, h, 7), texture(140, 110, 8));
            let drawing = Grey {
                pixels: texture
                    .pixels
                    .iter()
                    .map(|v| if *v > 128.0 { 230.0 } else { 10.0 })
                    .collect(),
                ..texture.clone()
            };
            let (model, angle, scale) = match number % 2 {
                0 => (texture, 0.1, 1.3),
                _ => (drawing, -0.05, 0.8),
            };
            let mut scene = scene;
            let map = Affine::similarity(angle, scale, (0.0, 0.0), (30.0, 20.0));
            for i in 0..scene.pixels.len() {
                let (x, y) = ((i % 140) as f32, (i / 140) as f32);
                // Bent by some pixels.
                let bend = 2.5 * (x / 9.0).sin();
                let back = map.inverse().unwrap().apply((x, y + bend));
                scene.pixels[i] = model.at(back.0, back.1).unwrap_or(scene.pixels[i]);
            }
            for off in [(0.0, 0.0), (2.0, -1.0), (60.0, 50.0), (900.0, 0.0)] {
                let shift = [map.shift[0] + off.0, map.shift[1] + off.1];
                let map = Affine { shift, ..map };
                let here = compared_here(&model, &scene, map, true);
                let there = compared_on(&device, &model, &scene, map, true);
                assert_eq!(here, there, "{w} x {h}, {off:?}, {}", device.name());
            }
        }
    }
}

/// Of shifts of neighbours: on the host, too, it is the kernel's.
#[test]
fn the_median_is_the_upper_one() {
    let mut random = crate::random::Random::new(6);
    for n in (1..10).cycle().take(300) {
        let values = (0..n).map(|_| random.below(7) as i32 - 3).collect::<Vec<i32>>();
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let median = koel_vision_kernels::compare::median(n as u32, |k| values[k as usize]);
        assert_eq!(median, sorted[n / 2], "{values:?}");
    }
}

#[test]
fn the_visible_part_is_found_and_the_covered_one_does_not_count() {
    for seed in 0..4 {
        let model = texture(MODEL.0, MODEL.1, 40 + seed);
        for visible in [0.4, 0.7, 1.0] {
            let compared = compared(&model, &covered(&model, visible), (0.0, 0.0));
            let nats = compared.agreement.visible;
            assert!(nats > 12.0, "{seed}, {visible}: {nats} nats");
            let (mut missed, mut wrong) = (0, 0);
            for k in 0..100 {
                let (x, y) = ((k % 10) as f32 * 0.1 + 0.05, (k / 10) as f32 * 0.1 + 0.05);
                let inside = compared.visible.contains((x, y));
                // A block on the border is partly covered.
                missed += (x < visible - 0.1 && !inside) as usize;
                wrong += (x > visible + 0.1 && inside) as usize;
            }
            assert!(missed <= 8 && wrong <= 8, "{seed}, {visible}: {missed}, {wrong}");
        }
    }
}

/// A third of a photograph is accepted for the evidence of that part: other rules refuse it.
#[test]
fn a_third_of_a_photograph_suffices() {
    for seed in 0..4 {
        let model = texture(MODEL.0, MODEL.1, 40 + seed);
        let agreement = compared(&model, &covered(&model, 0.3), (0.0, 0.0)).agreement;
        assert!(agreement.accepts(40.0, 30.0), "{seed}: {agreement:?}");
        let without = crate::Agreement { visible: 0.0, ..agreement };
        assert!(!without.accepts(40.0, 30.0), "{seed}: {agreement:?}");
    }
}

/// The edges of the covered part speak against the pose, those of the visible part suffice.
#[test]
fn what_is_covered_for_the_most_part_is_found() {
    let matcher = Matcher::new(&Device::cpu().unwrap(), Options::default()).unwrap();
    let truth = Affine { shift: [AT.0, AT.1], ..Affine::IDENTITY };
    let visible = MODEL.0 * 35 / 100;
    for seed in 0..3 {
        let model = texture(MODEL.0, MODEL.1, 40 + seed);
        let scene = matcher.scene(&covered(&model, 0.35)).unwrap();
        let outcome = matcher.find(&Model::of(&model).unwrap(), &scene).unwrap();
        let found = outcome
            .found
            .unwrap_or_else(|| panic!("{seed}: {:?}, {:?}", outcome.doubt, outcome.agreement));
        assert!(found.map.corner_error(&truth, visible, MODEL.1) < 4.0, "{seed}: {:?}", found.map);
    }
}

#[test]
fn chance_has_little_evidence() {
    let other = texture(300, 220, 77);
    for seed in 0..4 {
        let model = texture(MODEL.0, MODEL.1, 40 + seed);
        let scene = covered(&model, 1.0);
        for (scene, shift) in [(&other, (0.0, 0.0)), (&other, (30.0, 20.0)), (&scene, (31.0, 23.0))]
        {
            let compared = compared(&model, scene, shift);
            assert!(compared.agreement.visible < 8.0, "{seed}: {:?}", compared.agreement);
            assert!(!compared.agreement.is_partly_visible());
        }
    }
}

/// A scene without structure, or outside: nothing is visible, and nothing overflows.
#[test]
fn nothing_is_visible_of_what_is_blank_or_outside() {
    let model = texture(MODEL.0, MODEL.1, 40);
    let blank = compared(&model, &Grey::filled(300, 220, 128.0), (0.0, 0.0));
    assert_eq!(blank.agreement.visible, 0.0);
    let outside = compared(&model, &texture(300, 220, 31), (900.0, 0.0));
    assert_eq!(outside.agreement.visible, 0.0);
    assert!(!outside.visible.contains((0.5, 0.5)));
    let of_blank = compared(&Grey::filled(160, 120, 9.0), &texture(300, 220, 31), (0.0, 0.0));
    assert_eq!(of_blank.agreement.visible, 0.0);
}

/// Two independent values with a correlation of 0.9 have 1.661 nats, of which chance has 1.2.
#[test]
fn the_evidence_of_a_block_is_that_of_a_linear_relation_less_that_of_chance() {
    let block = |r: f32, of_model: f32| of_block(Some(&[r, of_model, 20.0]), 6.0, 0.5);
    assert!((block(0.9, 20.0) - 0.4607).abs() < 1e-3);
    assert!((block(0.0, 20.0) + 1.2).abs() < 1e-6 && block(-1.0, 20.0) == block(0.0, 20.0));
    assert_eq!(block(1.0, 20.0), block(0.9985, 20.0));
    assert_eq!(block(0.9, 5.0), 0.0);
    assert_eq!(of_block(None, 6.0, 0.5), -1.0);
}

/// Draws dark on bright, with the mean of 3 x 3 samples in each pixel.
fn drawn(width: usize, height: usize, dark: impl Fn(f32, f32) -> bool) -> Grey {
    let at = |i: usize| {
        let (x, y) = ((i % width) as f32, (i / width) as f32);
        let inked = (0..9).filter(|k| dark(x + (k % 3) as f32 / 3.0, y + (k / 3) as f32 / 3.0));
        240.0 - 220.0 * inked.count() as f32 / 9.0
    };
    Grey { width, height, pixels: (0..width * height).map(at).collect() }
}
/// Letters of 3 x 5 cells from the left and the top on, each 40 pixels wide.
fn is_inked(letters: &[u64], x: f32, y: f32) -> bool {
    let letter = (x >= 0.0).then(|| letters.get(x as usize / 40)).flatten();
    letter.is_some_and(|&letter| {
        let (column, row) = (x as usize % 40 / 10, (y / 10.0).floor());
        let cells = Random::new(900 + letter).bits();
        column < 3 && (0.0..5.0).contains(&row) && cells >> (3 * row as usize + column) & 1 == 1
    })
}
/// A word on a plate.
fn word(letters: &[u64]) -> Grey {
    drawn(40 + 40 * letters.len(), 66, |x, y| is_inked(letters, x - 24.0, y - 8.0))
}
/// A round sign with two letters; white outside.
fn sign(letters: &[u64]) -> Grey {
    drawn(150, 150, |x, y| {
        let r = (x - 75.0).hypot(y - 75.0);
        (52.0..67.0).contains(&r) || is_inked(letters, x - 40.0, y - 50.0)
    })
}
/// Returns a scene with a drawing at `AT`, as a camera sees it, where `shows` says so.
fn seen(drawing: &Grey, shows: impl Fn(f32, f32) -> bool) -> Grey {
    on(texture(380, 260, 33), drawing, shows)
}
fn on(mut scene: Grey, drawing: &Grey, shows: impl Fn(f32, f32) -> bool) -> Grey {
    let mut noise = Random::new(5);
    for i in 0..scene.pixels.len() {
        let (x, y) = ((i % 380) as f32 - AT.0, (i / 380) as f32 - AT.1);
        if let Some(value) = drawing.at(x, y).filter(|_| shows(x, y)) {
            scene.pixels[i] = 0.8 * value + 15.0 + noise.between(-4.0, 4.0);
        }
    }
    scene
}
fn is_accepted(model: &Grey, scene: &Grey) -> bool {
    let agreement = compared(model, scene, (0.0, 0.0)).agreement;
    agreement.accepts(100.0, 30.0)
}

/// A word that differs from another in some letters is not covered there: the plate is visible.
#[test]
fn words_with_letters_in_common_are_not_the_same() {
    let model = word(&[0, 1, 2, 3, 4]);
    assert!(is_accepted(&model, &seen(&model, |_, _| true)));
    for other in [[0, 1, 2, 5, 6], [7, 8, 2, 3, 4], [0, 1, 9, 3, 4], [0, 1, 2, 3, 9]] {
        let scene = seen(&word(&other), |_, _| true);
        assert!(
            !is_accepted(&model, &scene),
            "{other:?}: {:?}",
            compared(&model, &scene, (0.0, 0.0)).agreement
        );
    }
    let right_third = seen(&model, |x, _| x < 150.0);
    assert!(
        is_accepted(&model, &right_third),
        "{:?}",
        compared(&model, &right_third, (0.0, 0.0)).agreement
    );
}

/// Beside a round sign, which the model shows on white, is anything.
#[test]
fn round_signs_before_anything() {
    let round = |x: f32, y: f32| (x - 75.0).hypot(y - 75.0) < 66.5;
    for (a, b) in [(0, 1), (2, 3), (4, 5)] {
        let model = sign(&[a, b]);
        for scene in [seen(&model, round), on(Grey::filled(380, 260, 90.0), &model, round)] {
            let agreement = compared(&model, &scene, (0.0, 0.0)).agreement;
            assert!(agreement.accepts(100.0, 30.0), "{a} {b}: {agreement:?}");
        }
        for other in [[a, 7], [8, b], [7, 8]] {
            let scene = seen(&sign(&other), round);
            assert!(!is_accepted(&model, &scene), "{a} {b} as {other:?}");
        }
    }
}

/// Outlines that are alike in nearly every block of a reduced model, or are tilts of each other.
#[test]
fn plain_shapes_of_few_blocks_are_told_apart() {
    let radius = |sides: f32, angle: f32| {
        let part = std::f32::consts::TAU / sides;
        (0.5 * part).cos() / (angle.rem_euclid(part) - 0.5 * part).cos()
    };
    let shape = |sides: f32| {
        drawn(60, 60, |x, y| {
            (x - 30.0).hypot(y - 30.0) < 24.0 * radius(sides, (y - 30.0).atan2(x - 30.0))
        })
    };
    let kinds = [4.0, 6.0, 90.0].map(shape);
    for (i, model) in kinds.iter().enumerate() {
        for (k, other) in kinds.iter().enumerate() {
            let scene = seen(other, |_, _| true);
            assert_eq!(
                is_accepted(model, &scene),
                i == k,
                "{i} in {k}: {:?}",
                compared(model, &scene, (0.0, 0.0)).agreement
            );
        }
    }
    let disc = compared(&kinds[2], &seen(&kinds[2], |_, _| true), (0.0, 0.0)).agreement;
    let tilted = |ratio: f32| Affine { linear: [[ratio, 0.0], [0.0, 1.0]], ..Affine::IDENTITY };
    assert!(!disc.is_another_outline(&tilted(1.5)) && disc.is_another_outline(&tilted(0.55)));
    let model = word(&[0, 1, 2, 3, 4]);
    let of_word = compared(&model, &seen(&model, |_, _| true), (0.0, 0.0)).agreement;
    assert!(!of_word.is_another_outline(&tilted(0.55)));
    assert!(of_word.is_another_outline(&tilted(0.35)));
    let photograph = crate::Agreement { entropy: 3.0, ..of_word };
    assert!(!photograph.is_another_outline(&tilted(0.35)));
}

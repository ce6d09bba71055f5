//! Agreement of luminance: the visible part of a model that is covered in part.
use crate::agreement::regions::of_block;
use crate::agreement::{Compared, Patch, agreement};
use crate::synthetic::texture;
use crate::{Affine, Grey};

const MODEL: (usize, usize) = (160, 120);
const AT: (f32, f32) = (70.0, 50.0);

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
    agreement(&Patch::of(model), scene, map, false)
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
    let block = |r: f32, of_model: f32| of_block(Some(&[r, of_model, 20.0]), 6.0, || 0.5);
    assert!((block(0.9, 20.0) - 0.4607).abs() < 1e-3);
    assert!((block(0.0, 20.0) + 1.2).abs() < 1e-6 && block(-1.0, 20.0) == block(0.0, 20.0));
    assert_eq!(block(1.0, 20.0), block(0.9985, 20.0));
    assert_eq!(block(0.9, 5.0), 0.0);
    assert_eq!(of_block(None, 6.0, || 0.5), -1.0);
}

//! Models seen tilted, in perspective.
use crate::homography::Homography;
use crate::picture::Grey;
use crate::random::Random;
use crate::synthetic::{SCENE, part, striking_part};
use std::f32::consts::TAU;

/// Distance of the camera, in widths of the model.
const DISTANCE: f64 = 2.5;

/// Model and scene with the true homography.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TiltedPair {
    /// Image to search for.
    pub model: Grey,
    /// Image to search in.
    pub scene: Grey,
    /// Map from model pixels to scene pixels.
    pub truth: Homography,
}

/// Generates a model of 240 x 180 pixels in the middle of a scene of 640 x 480: turned by any
/// angle, then tilted by `degrees` about a random axis, as a camera sees it from 2.5 times the
/// model's width. Deterministic for a seed.
///
/// # Panics
///
/// Panics without photographs.
pub fn tilted_pair(degrees: f64, photographs: &[Grey], seed: u64) -> TiltedPair {
    let mut random = Random::new(seed.wrapping_mul(0x1000_0001) ^ 0x711);
    let (first, shift) = (random.below(photographs.len()), 1 + random.below(2));
    let model = striking_part(&photographs[first], &mut random);
    let behind = &photographs[(first + shift) % photographs.len()];
    let mut scene = part(behind, SCENE.0, SCENE.1, &mut random);
    let (turn, axis) = (random.between(0.0, TAU), random.between(0.0, TAU));
    let truth = view(
        &model,
        (degrees.to_radians(), axis as f64, turn as f64),
        random.between(1.0, 1.3) as f64,
    );
    if let Some(back) = truth.inverse() {
        paste(&mut scene, &model, &back);
    }
    scene.pixels.iter_mut().for_each(|v| *v = v.round().clamp(0.0, 255.0));
    TiltedPair { model, scene, truth }
}

/// Returns the view of a model from its front, tilted about an axis and turned.
fn view(model: &Grey, (tilt, axis, turn): (f64, f64, f64), scale: f64) -> Homography {
    let middle = [0.5 * (model.width - 1) as f64, 0.5 * (model.height - 1) as f64];
    let centre = [0.5 * (SCENE.0 - 1) as f64, 0.5 * (SCENE.1 - 1) as f64];
    let (s, c) = axis.sin_cos();
    // Across the axis, lengths are shortened and depths grow.
    let (along, across) = ([c, s], [-s, c]);
    let tilted = |i: usize, j: usize| along[i] * along[j] + tilt.cos() * across[i] * across[j];
    let depth = across.map(|a| a * tilt.sin() / (DISTANCE * model.width as f64));
    let (s, c) = turn.sin_cos();
    let turned = [[c, -s], [s, c]];
    let linear =
        |i: usize, j: usize| scale * (turned[i][0] * tilted(0, j) + turned[i][1] * tilted(1, j));
    let row = |i: usize| {
        let [a, b] = [0, 1].map(|j| linear(i, j) + centre[i] * depth[j]);
        [a, b, centre[i] - a * middle[0] - b * middle[1]]
    };
    let last = 1.0 - depth[0] * middle[0] - depth[1] * middle[1];
    let rows = [row(0), row(1), [depth[0], depth[1], last]];
    Homography { rows: rows.map(|row| row.map(|v| v / last)) }
}

/// Pastes a model, each pixel as the mean of four samples; `back` leads from scene to model.
fn paste(scene: &mut Grey, model: &Grey, back: &Homography) {
    for i in 0..scene.pixels.len() {
        let (x, y) = ((i % scene.width) as f32, (i / scene.width) as f32);
        let behind = scene.pixels[i];
        let sample = |k: usize| {
            let (dx, dy) = ((k % 2) as f32 * 0.5 - 0.25, (k / 2) as f32 * 0.5 - 0.25);
            let place = back.apply((x + dx, y + dy));
            place.and_then(|(u, v)| model.at(u, v)).unwrap_or(behind)
        };
        scene.pixels[i] = (0..4).map(sample).sum::<f32>() / 4.0;
    }
}

//! Pictures: the model's outline in the scene, and a map of the votes.
use crate::failure::{Failure, Outcome};
use crate::output;
use image::{ImageFormat, Rgb, RgbImage};
use koel_vision::{Found, Grey};
use std::io::Cursor;
use std::path::Path;

const OUTLINE: Rgb<u8> = Rgb([255, 60, 60]);
const INLIER: Rgb<u8> = Rgb([60, 255, 120]);

/// Draws the outlines and the inliers of what is found over the scene.
pub(super) fn overlay<'f>(
    scene: &RgbImage,
    all: impl Iterator<Item = (&'f Found, (usize, usize))>,
) -> RgbImage {
    let mut picture = scene.clone();
    for (found, (width, height)) in all {
        for &(x, y) in &found.inlier_points {
            dot(&mut picture, x, y, 0, INLIER);
        }
        let tilted = found.homography.and_then(|h| h.outline(width, height));
        let corners = tilted.unwrap_or_else(|| found.map.outline(width, height));
        for (i, &from) in corners.iter().enumerate() {
            line(&mut picture, from, corners[(i + 1) % 4]);
        }
    }
    picture
}

/// Draws the votes for each position of the model's centre as a heat map over the dimmed scene.
pub(super) fn votes(scene: &Grey, hypotheses: &[((f32, f32), f32)]) -> RgbImage {
    let (width, height) = (scene.width, scene.height);
    const REACH: i64 = 4;
    let mut sums = vec![0.0f32; width * height];
    for &((x, y), votes) in hypotheses {
        let (cx, cy) = (x.round() as i64, y.round() as i64);
        for y in (cy - REACH).max(0)..=(cy + REACH).min(height as i64 - 1) {
            for x in (cx - REACH).max(0)..=(cx + REACH).min(width as i64 - 1) {
                let distance2 = ((x - cx).pow(2) + (y - cy).pow(2)) as f32;
                sums[y as usize * width + x as usize] += votes * (-0.2 * distance2).exp();
            }
        }
    }
    let most = sums.iter().fold(1e-6f32, |a, &b| a.max(b));
    RgbImage::from_fn(width as u32, height as u32, |x, y| {
        let at = y as usize * width + x as usize;
        let (dim, heat) = (0.3 * scene.pixels[at], (sums[at] / most).sqrt());
        Rgb([
            dim + heat * (255.0 - dim),
            dim + heat * heat * (220.0 - dim).max(0.0),
            dim * (1.0 - heat),
        ]
        .map(|v| v as u8))
    })
}

/// Writes a picture as PNG, whole or not at all.
pub(super) fn write(path: &Path, picture: &RgbImage) -> Outcome {
    let mut bytes = Cursor::new(vec![]);
    picture
        .write_to(&mut bytes, ImageFormat::Png)
        .map_err(|e| Failure::Other(format!("{}: {e}", path.display())))?;
    output::write_file(path, bytes.get_ref())
}

fn dot(picture: &mut RgbImage, x: f32, y: f32, reach: i64, color: Rgb<u8>) {
    let (cx, cy) = (x.round() as i64, y.round() as i64);
    for y in cy - reach..=cy + reach {
        for x in cx - reach..=cx + reach {
            if x >= 0 && y >= 0 && x < picture.width() as i64 && y < picture.height() as i64 {
                picture.put_pixel(x as u32, y as u32, color);
            }
        }
    }
}

/// Draws a line three pixels wide.
fn line(picture: &mut RgbImage, from: (f32, f32), to: (f32, f32)) {
    // The ends may lie anywhere; `dot` clips to the picture.
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let steps = dx.abs().max(dy.abs()).clamp(1.0, 100_000.0) as usize;
    for i in 0..=steps {
        let part = i as f32 / steps as f32;
        dot(picture, from.0 + part * dx, from.1 + part * dy, 1, OUTLINE);
    }
}

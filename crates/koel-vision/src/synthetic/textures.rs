//! Structured images generated from a seed, for tests without photographs.
use crate::picture::Grey;
use crate::random::Random;
use std::f32::consts::TAU;

/// Generates overlapping ellipses and bars of many sizes, each with its own shade and a gradient,
/// slightly blurred. Deterministic for a seed.
pub fn texture(width: usize, height: usize, seed: u64) -> Grey {
    let mut random = Random::new(seed ^ 0x7E57_1A6E);
    let mut image = Grey::filled(width, height, random.between(60.0, 200.0));
    for _ in 0..width * height / 1200 {
        let (x, y) = (random.between(0.0, width as f32), random.between(0.0, height as f32));
        let size = 6.0 * (random.unit() * 2.3).exp();
        let (long, short) = (size, size * random.between(0.3, 1.0));
        let (sin, cos) = random.between(0.0, TAU).sin_cos();
        let (shade, slope, bar) =
            (random.between(10.0, 245.0), random.between(-30.0, 30.0), random.below(2) == 0);
        let reach = 1.5 * size;
        let part = |from: f32, n: usize| {
            (from - reach).max(0.0) as usize..((from + reach).max(0.0) as usize + 1).min(n)
        };
        for py in part(y, height) {
            for px in part(x, width) {
                let (dx, dy) = (px as f32 - x, py as f32 - y);
                let (u, v) = ((cos * dx + sin * dy) / long, (cos * dy - sin * dx) / short);
                if if bar { u.abs().max(v.abs()) < 1.0 } else { u * u + v * v < 1.0 } {
                    image.pixels[py * width + px] = (shade + slope * u).clamp(0.0, 255.0);
                }
            }
        }
    }
    let at = |x: usize, y: usize| image.pixels[y.min(height - 1) * width + x.min(width - 1)];
    let smooth = |i: usize| {
        let (x, y) = (i % width, i / width);
        0.25 * (at(x, y) + at(x + 1, y) + at(x, y + 1) + at(x + 1, y + 1))
    };
    Grey { width, height, pixels: (0..width * height).map(smooth).collect() }
}

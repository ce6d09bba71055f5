//! Corners: pixels that differ from most of a circle around them (FAST: Rosten and Drummond 2006; 9
//! of 16 pixels, as in ORB).
//!
//! Launch order: [`vision_corner_scores()`], [`vision_corner_peaks()`], then
//! [`crate::edges::vision_pixels()`] and [`vision_corners()`]. The computation for one pixel is a
//! function that the CPU engine also calls, so both give identical bits.
use crate::{Size, at_least_one};
use koel_simt::{Buf, In, Thread, kernel, unroll};

/// Radius of the circle in pixels. Pixels closer to the border are skipped.
pub const RADIUS: u32 = 3;
/// Pixels of the circle, clockwise from the top.
const CIRCLE: [(i32, i32); 16] = [
    (0, -3),
    (1, -3),
    (2, -2),
    (3, -1),
    (3, 0),
    (3, 1),
    (2, 2),
    (1, 3),
    (0, 3),
    (-1, 3),
    (-2, 2),
    (-3, 1),
    (-3, 0),
    (-3, -1),
    (-2, -2),
    (-1, -3),
];

/// Returns the minimum score of a corner in grey levels, given the bin of the noise's median
/// ([`crate::edges::noise_bin`]).
#[inline(always)]
pub fn least_score(bin: u32) -> f32 {
    let noise = bin as f32 / 16.0 / 0.6745;
    (4.0 * noise).clamp(10.0, 60.0)
}

/// Returns the score of a corner in grey levels: the maximum difference by which nine consecutive
/// pixels on the circle are all brighter than the middle, or all darker. Returns 0 unless it
/// exceeds `least`. `at(dx, dy)` is the luminance.
#[inline(always)]
pub fn corner_score(least: f32, at: impl Fn(i32, i32) -> f32) -> f32 {
    let middle = at(0, 0);
    let difference = |k: usize| at(CIRCLE[k].0, CIRCLE[k].1) - middle;
    // Nine consecutive pixels include at least one of each two opposite pixels.
    let (a, b, c, d) = (difference(0), difference(8), difference(4), difference(12));
    let bright = (a > least || b > least) && (c > least || d > least);
    let dark = (a < -least || b < -least) && (c < -least || d < -least);
    if !bright && !dark {
        return 0.0;
    }
    let mut d = [0.0; 16];
    unroll::<16>(|k| d[k] = difference(k));
    let lesser = |a: f32, b: f32| if b < a { b } else { a };
    // The minimum of nine pixels starting at each pixel, from minima of 2, 4, 8 and 9.
    let weakest = |d: [f32; 16]| {
        let (mut two, mut four, mut best) = ([0.0; 16], [0.0; 16], f32::MIN);
        unroll::<16>(|k| two[k] = lesser(d[k], d[(k + 1) % 16]));
        unroll::<16>(|k| four[k] = lesser(two[k], two[(k + 2) % 16]));
        unroll::<16>(|k| {
            let nine = lesser(lesser(four[k], four[(k + 4) % 16]), d[(k + 8) % 16]);
            best = if nine > best { nine } else { best };
        });
        best
    };
    let mut negative = [0.0; 16];
    unroll::<16>(|k| negative[k] = -d[k]);
    let (bright, dark) = (weakest(d), weakest(negative));
    let score = if dark > bright { dark } else { bright };
    if score > least { score } else { 0.0 }
}

/// Returns whether the score of a pixel is the maximum of its 3 x 3 window; the first of equal
/// scores wins. `at(1, 1)` is the pixel's own score.
#[inline(always)]
pub fn is_peak(at: impl Fn(u32, u32) -> f32) -> bool {
    let own = at(1, 1);
    let before = own > at(0, 0) && own > at(1, 0) && own > at(2, 0) && own > at(0, 1);
    own > 0.0 && before && own >= at(2, 1) && own >= at(0, 2) && own >= at(1, 2) && own >= at(2, 2)
}

/// Writes the [`corner_score`] of each pixel to `scores`, as a float; 0 near the border. One thread
/// per pixel. `median` is the output of [`crate::edges::vision_median()`].
#[kernel(image = VISION, threads = 256, independent)]
pub fn vision_corner_scores(
    t: Thread,
    size: Size,
    image: In<u32>,
    median: In<u32>,
    scores: Buf<u32>,
) {
    let (i, width, height) = (t.global_id(), at_least_one(size.width), size.height);
    if i >= width * height {
        return;
    }
    let (x, y) = (i % width, i / width);
    let inside = x >= RADIUS && y >= RADIUS && x + RADIUS < width && y + RADIUS < height;
    let mut score = 0.0;
    if inside {
        let at = |dx: i32, dy: i32| {
            let (x, y) = (x.wrapping_add(dx as u32), y.wrapping_add(dy as u32));
            f32::from_bits(image.get(y * width + x))
        };
        score = corner_score(least_score(median.get(0)), at);
    }
    scores.store(i, score.to_bits());
}

/// Sets `flags[p]` to 1 if pixel `p` is a corner, else to 0. One thread per pixel.
#[kernel(image = VISION, threads = 256, independent)]
pub fn vision_corner_peaks(t: Thread, size: Size, scores: In<u32>, flags: Buf<u8>) {
    let (i, width, height) = (t.global_id(), at_least_one(size.width), size.height);
    if i >= width * height {
        return;
    }
    let (x, y) = (i % width, i / width);
    let mut peak = false;
    if x >= RADIUS && y >= RADIUS && x + RADIUS < width && y + RADIUS < height {
        let corner = i - width - 1;
        peak = is_peak(|dx, dy| f32::from_bits(scores.get(corner + dy * width + dx)));
    }
    flags.store(i, peak as u8);
}

/// Writes to `corners`, for each of the `count[0]` corners, the number of its pixel and its score.
/// One thread per potential corner, `n` threads.
#[kernel(image = VISION, threads = 256, independent)]
pub fn vision_corners(
    t: Thread,
    n: u32,
    count: In<u32>,
    pixels: In<u32>,
    scores: In<u32>,
    corners: Buf<u32>,
) {
    let to = t.global_id();
    if to < n && to < count.get(0) {
        let i = pixels.get(to);
        corners.store(2 * to, i);
        corners.store(2 * to + 1, scores.get(i));
    }
}

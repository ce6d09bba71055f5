//! Models that repeat themselves, such as chessboards.
use crate::picture::Grey;

/// Longer side, in pixels, of the image that is compared with itself.
const SIDE: f32 = 48.0;
/// Correlation of shifts that belong to the peak around no shift, and that of a repetition.
const PEAK: f32 = 0.4;
const REPEATED: f32 = 0.7;
/// Minimum part of each side of the image that is compared with itself.
const OVERLAP: f32 = 0.55;

/// Returns whether an image, shifted, looks like itself: its correlation falls, and rises again.
pub(super) fn repeats(image: &Grey) -> bool {
    let factor = (image.width.max(image.height) as f32 / SIDE).max(1.0);
    let small = image.shrunk(factor);
    let most = |n: usize| ((1.0 - OVERLAP) * n as f32) as isize;
    let (right, down) = (most(small.width), most(small.height));
    let columns = 2 * right + 1;
    let shift = |k: isize| (k % columns - right, k / columns - down);
    let count = columns * (2 * down + 1);
    // That of the opposite shift is equal, to the last bit: the same pairs in the same order.
    let half = (0..=count / 2).map(|k| correlation(&small, shift(k))).collect::<Vec<f32>>();
    let all = half.iter().chain(half.iter().rev().skip(1)).copied().collect::<Vec<f32>>();
    let mut in_peak = vec![false; all.len()];
    let mut next: Vec<(isize, isize)> = vec![(0, 0)];
    while let Some((x, y)) = next.pop() {
        let (inside, k) = (x.abs() <= right && y.abs() <= down, (y + down) * columns + x + right);
        if inside && !in_peak[k as usize] && all[k as usize] > PEAK {
            in_peak[k as usize] = true;
            next.extend([(x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)]);
        }
    }
    all.iter().zip(in_peak).any(|(correlation, in_peak)| !in_peak && *correlation > REPEATED)
}

/// Returns the correlation of an image with itself, shifted.
fn correlation(image: &Grey, (dx, dy): (isize, isize)) -> f32 {
    let range = |n: usize, by: isize| by.max(0) as usize..(n as isize + by.min(0)) as usize;
    let xs = range(image.width, dx);
    let (mut n, mut sums) = (0.0f32, [0.0f32; 5]);
    for y in range(image.height, dy) {
        let other = (y as isize - dy) as usize * image.width;
        for x in xs.clone() {
            let u = image.pixels[y * image.width + x] - 128.0;
            let v = image.pixels[other + (x as isize - dx) as usize] - 128.0;
            n += 1.0;
            sums.iter_mut().zip([u, v, u * u, v * v, u * v]).for_each(|(s, v)| *s += v);
        }
    }
    let [u, v, uu, vv, uv] = sums.map(|s| s / n.max(1.0));
    let variance = (uu - u * u).max(0.0) * (vv - v * v).max(0.0);
    if variance > 1.0 { (uv - u * v) / variance.sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::texture;

    fn drawn(width: usize, height: usize, dark: impl Fn(usize, usize) -> bool) -> Grey {
        let value = |i: usize| if dark(i % width, i / width) { 20.0 } else { 230.0 };
        Grey { width, height, pixels: (0..width * height).map(value).collect() }
    }

    #[test]
    fn boards_and_fences_repeat_themselves() {
        for side in [20, 28, 40] {
            let square = |x: usize, y: usize| (x / side + y / side).is_multiple_of(2);
            let inside = |x: usize, y: usize| (12..228).contains(&x) && (12..228).contains(&y);
            assert!(repeats(&drawn(240, 240, |x, y| inside(x, y) && square(x, y))), "{side}");
        }
        assert!(repeats(&drawn(240, 100, |x, _| x % 30 < 12)));
    }
    #[test]
    fn signs_and_textures_do_not() {
        let disc = |x: usize, y: usize| x.abs_diff(100).pow(2) + y.abs_diff(80).pow(2) < 3000;
        assert!(!repeats(&drawn(200, 160, disc)));
        assert!(!repeats(&drawn(200, 160, |x, y| x > 90 && y > 30)));
        assert!(!repeats(&texture(200, 160, 3)));
    }
}

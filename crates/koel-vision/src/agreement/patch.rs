//! Luminance of a model and of the part of a scene under it.
use crate::affine::Affine;
use crate::picture::Grey;
use crate::picture::size;
use koel_vision_kernels::Size;
use koel_vision_kernels::compare::View;
use rayon::prelude::*;

/// Minimum number of rows that a thread takes at a time.
const ROWS: usize = 16;
/// Maximum side of a model's luminance, in pixels; of a narrow model, the shorter side has at least
/// `NARROW` of them if its image does.
const SIDE: f32 = 256.0;
const NARROW: f32 = 48.0;
/// Maximum entropy, in bits, of drawings, signs and text.
pub(super) const DRAWING: f32 = 2.2;

/// Luminance of a model, reduced, in 8 bits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Patch {
    pub width: usize,
    pub height: usize,
    pub pixels: Vec<u8>,
}
impl Patch {
    /// Reduces an image.
    pub(crate) fn of(image: &Grey) -> Patch {
        let (width, height) = (image.width as f32, image.height as f32);
        let factor = (width.max(height) / SIDE).min(width.min(height) / NARROW).max(1.0);
        let small = if factor > 1.0 { image.shrunk(factor) } else { image.clone() };
        // Dark and pale images use all values, too.
        let mut ordered = small.pixels.iter().map(|&v| order(v)).collect::<Vec<i32>>();
        let mut part = |percent: usize| {
            let rank = (ordered.len() - 1) * percent / 100;
            from_order(*ordered.select_nth_unstable(rank).1)
        };
        let (low, span) = (part(1), (part(99) - part(1)).max(8.0));
        // The conversion drops the fraction, and keeps to the range.
        let stretched = |v: &f32| (255.0 * (v - low) / span + 0.5) as u8;
        let pixels = small.pixels.iter().map(stretched).collect();
        Patch { width: small.width, height: small.height, pixels }
    }
    /// Returns that of the negative: dark and bright exchanged.
    pub(crate) fn negative(mut self) -> Patch {
        self.pixels.iter_mut().for_each(|v| *v = 255 - *v);
        self
    }
    /// Returns whether this is a drawing, a sign or text.
    pub(crate) fn is_drawing(&self) -> bool {
        self.entropy() < DRAWING
    }
    /// Returns the entropy of the values, in bits.
    pub(super) fn entropy(&self) -> f32 {
        let mut counts = [0u32; 16];
        self.pixels.iter().for_each(|v| counts[(v / 16) as usize] += 1);
        let n = self.pixels.len() as f32;
        let part = |&c: &u32| if c > 0 { -(c as f32 / n) * (c as f32 / n).log2() } else { 0.0 };
        counts.iter().map(part).sum()
    }
    pub(crate) fn grey(&self) -> Grey {
        let pixels = self.pixels.iter().map(|&v| v as f32).collect();
        Grey { width: self.width, height: self.height, pixels }
    }
}

/// Returns a number in the order of the floats, and the float of such a number.
fn order(v: f32) -> i32 {
    let bits = v.to_bits() as i32;
    bits ^ (bits >> 31) & i32::MAX
}
fn from_order(number: i32) -> f32 {
    f32::from_bits((number ^ (number >> 31) & i32::MAX) as u32)
}
/// Returns the taps of a Gaussian blur.
pub(super) fn taps(sigma: f32) -> Vec<f32> {
    let reach = (3.0 * sigma).ceil() as isize;
    let taps =
        (-reach..=reach).map(|i| (-0.5 * (i as f32 / sigma).powi(2)).exp()).collect::<Vec<f32>>();
    let sum = taps.iter().sum::<f32>();
    taps.iter().map(|t| t / sum).collect()
}
/// Gaussian blur; borders repeat the last pixel. Returns a copy for a deviation of 0.
pub(super) fn blurred(image: &Grey, sigma: f32) -> Grey {
    if sigma <= 0.0 {
        return image.clone();
    }
    let taps = taps(sigma);
    let reach = (taps.len() / 2) as isize;
    let (w, h) = (image.width, image.height);
    let inside = |i: isize, n: usize| i.clamp(0, n as isize - 1) as usize;
    let mut rows = vec![0.0; w * h];
    let across = |wide: &mut Vec<f32>, (out, row): (&mut [f32], &[f32])| {
        for (i, value) in wide.iter_mut().enumerate() {
            *value = row[inside(i as isize - reach, w)];
        }
        for (k, tap) in taps.iter().enumerate() {
            out.iter_mut().zip(&wide[k..]).for_each(|(o, v)| *o += tap * v);
        }
    };
    let wide = || vec![0.0; w + taps.len() - 1];
    let lines = rows.par_chunks_exact_mut(w).zip(image.pixels.par_chunks_exact(w));
    lines.with_min_len(ROWS).for_each_init(wide, across);
    let mut pixels = vec![0.0; w * h];
    let down = |(y, out): (usize, &mut [f32])| {
        for (k, tap) in taps.iter().enumerate() {
            let from = inside(y as isize + k as isize - reach, h) * w;
            out.iter_mut().zip(&rows[from..from + w]).for_each(|(o, v)| *o += tap * v);
        }
    };
    pixels.par_chunks_exact_mut(w).enumerate().with_min_len(ROWS).for_each(down);
    Grey { width: w, height: h, pixels }
}

/// Returns the parameters of a view of a scene in a frame of the given size; `map` leads from the
/// frame to the scene.
pub(super) fn view(scene: &Grey, map: &Affine, frame: Size) -> View {
    let scale = map.scale();
    let [[a, b], [c, d]] = map.linear;
    View {
        map: [a, b, c, d, map.shift[0], map.shift[1]],
        frame,
        scene: size(scene.width, scene.height),
        samples: (scale.ceil() as u32).clamp(1, 8),
    }
}
/// Draws a view of a scene. Each pixel is the mean over its area; NaN outside the scene.
pub(super) fn warped(scene: &Grey, view: &View) -> Grey {
    let (width, height) = (view.frame.width as usize, view.frame.height as usize);
    let mut pixels = vec![0.0; width * height];
    let row = |(y, out): (usize, &mut [f32])| {
        let pixel = |x: usize| view.pixel((x as u32, y as u32), |x, y| scene.pixel(x, y));
        out.iter_mut().enumerate().for_each(|(x, o)| *o = pixel(x));
    };
    pixels.par_chunks_exact_mut(width).enumerate().with_min_len(ROWS / 4).for_each(row);
    Grey { width, height, pixels }
}

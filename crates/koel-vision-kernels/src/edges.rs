//! Edges of an image: where the luminance changes most, to a fraction of a pixel, and the direction
//! of the change.
//!
//! Launch order: [`vision_gradient()`], [`vision_noise()`], [`vision_median()`],
//! [`vision_row_sums()`], [`vision_ridges()`], [`vision_pixels()`], [`vision_edges()`]. The
//! computation for one pixel is a function that the CPU engine also calls, so both give identical
//! bits. Sums over windows are integers, so that their order does not matter.
use crate::direction::direction;
use crate::{Size, at_least_one};
use koel_kernels::compact::keep;
use koel_kernels::lookback::Tiles;
use koel_kernels::math::sqrt;
use koel_simt::{Buf, In, Thread, U32x4, block, kernel, unroll};

/// Standard deviation of the blur before the derivative, in pixels.
pub const SIGMA: f32 = 1.8;
/// Half the side of the blur's window, in pixels: 3.6 standard deviations, rounded up.
pub const REACH: u32 = 7;
/// Weights of the blur.
pub const TAPS: [f32; 2 * REACH as usize + 1] = [
    1.152474e-4,
    8.568422e-4,
    4.678744e-3,
    0.0187636,
    0.055266432,
    0.11955432,
    0.18994486,
    0.22164008,
    0.18994486,
    0.11955432,
    0.055266432,
    0.0187636,
    4.678744e-3,
    8.568422e-4,
    1.152474e-4,
];
/// Half the side of the window of the local mean, in pixels.
pub const WINDOW: u32 = 20;
/// Minimum ratio of an edge's magnitude to the mean of its window.
const CONTRAST: f32 = 0.7;
/// Minimum ratio of the second difference of a ridge's gradient, across the ridge, to the gradient.
/// A step blurred by [`SIGMA`] has about 0.3.
const FLATTEST: f32 = 0.01;
/// Width of the border without edges, in pixels.
pub const MARGIN: u32 = 3;
/// Minimum side of an image with edges, in pixels.
pub const MIN_SIDE: u32 = 8;
/// Bins of the noise histogram, 16 per grey level.
pub const NOISE_BINS: u32 = 4096;
/// Magnitudes are summed in units of 1/4096 grey level per pixel, up to 256: the sum of a 41 x 41
/// window fits 32 bits.
const UNIT: f32 = 4096.0;
const MAX_UNITS: u32 = 1 << 20;
/// No edge.
pub const NONE: u32 = u32::MAX;

/// Mirrors an index at both ends of `n` elements, without repeating the end elements.
#[inline(always)]
pub fn mirrored(i: i32, n: u32) -> u32 {
    let last = n.saturating_sub(1);
    let period = at_least_one(2 * last);
    let i = i.unsigned_abs() % period;
    if i <= last { i } else { period - i }
}

/// Returns the gradient (Sobel) of a window of 3 x 3 pixels, in grey levels per pixel.
#[inline(always)]
pub fn gradient(at: impl Fn(u32, u32) -> f32) -> (f32, f32) {
    let gx = (at(2, 0) - at(0, 0)) + 2.0 * (at(2, 1) - at(0, 1)) + (at(2, 2) - at(0, 2));
    let gy = (at(0, 2) - at(0, 0)) + 2.0 * (at(1, 2) - at(1, 0)) + (at(2, 2) - at(2, 0));
    (gx / 8.0, gy / 8.0)
}
/// Returns the length of a gradient.
#[inline(always)]
pub fn magnitude((gx, gy): (f32, f32)) -> f32 {
    sqrt(gx * gx + gy * gy)
}
/// Returns a magnitude in the units of sums.
#[inline(always)]
pub fn summand(magnitude: f32) -> u32 {
    let units = (magnitude * UNIT) as u32;
    if units < MAX_UNITS { units } else { MAX_UNITS }
}
/// Returns the mean magnitude of `pixels` summands.
#[inline(always)]
pub fn mean(sum: u32, pixels: u32) -> f32 {
    sum as f32 * (1.0 / UNIT) / pixels as f32
}
/// Returns the start and the end of `i - reach..=i + reach`, clipped to `0..n`.
#[inline(always)]
pub fn window(i: u32, reach: u32, n: u32) -> (u32, u32) {
    let end = i + reach + 1;
    (i.saturating_sub(reach), if end < n { end } else { n })
}

/// Returns the noise bin of a window of 3 x 3 pixels: a second difference in both directions, which
/// is hardly affected by structure (J. Immerkaer, Fast noise variance estimation, 1996).
#[inline(always)]
pub fn noise_bin(at: impl Fn(u32, u32) -> f32) -> u32 {
    let second = |y: u32| at(0, y) - 2.0 * at(1, y) + at(2, y);
    let v = (second(0) - 2.0 * second(1) + second(2)).abs() / 6.0;
    let bin = (v * 16.0) as u32;
    if bin < NOISE_BINS { bin } else { NOISE_BINS - 1 }
}
/// Returns the minimum magnitude of an edge, given the bin of the median.
#[inline(always)]
pub fn threshold(bin: u32) -> f32 {
    let noise = bin as f32 / 16.0 / 0.6745;
    (3.0 * noise / (5.0 * SIGMA * SIGMA)).clamp(0.8, 4.0)
}

/// A point of an edge.
#[derive(Clone, Copy)]
pub struct EdgePoint {
    /// Pixels from the centres of the leftmost column.
    pub x: f32,
    /// Pixels from the centres of the top row.
    pub y: f32,
    /// Unit vector from dark to bright.
    pub normal: (f32, f32),
    /// Grey levels per pixel, times the contrast (at most 3).
    pub strength: f32,
    /// Ratio of the magnitude to that of the surroundings.
    pub contrast: f32,
}

/// Returns the edge at a pixel, if the gradient has a maximum there along its own direction and
/// exceeds the threshold and `CONTRAST` times the local mean. Returns `None` where NaN pixels
/// contribute.
#[inline(always)]
pub fn edge_at(
    (x, y): (u32, u32),
    threshold: f32,
    magnitude: impl Fn(u32, u32) -> f32,
    gradient: impl Fn() -> (f32, f32),
    mean: impl Fn() -> f32,
) -> Option<EdgePoint> {
    let m = magnitude(x, y);
    let is_strong = m > threshold;
    if !is_strong {
        return None;
    }
    let (gx, gy) = gradient();
    let normal = (gx / m, gy / m);
    let between = |x: f32, y: f32| {
        let (x0, y0) = (x as u32, y as u32);
        let (u, v) = (x - x0 as f32, y - y0 as f32);
        let row = |y: u32| {
            let (a, b) = (magnitude(x0, y), magnitude(x0 + 1, y));
            a + (b - a) * u
        };
        let (top, bottom) = (row(y0), row(y0 + 1));
        top + (bottom - top) * v
    };
    let ahead = between(x as f32 + normal.0, y as f32 + normal.1);
    let behind = between(x as f32 - normal.0, y as f32 - normal.1);
    // Accept a ridge, not the rounding errors of a slope.
    let curvature = 2.0 * m - ahead - behind;
    let is_ridge = m > ahead && m >= behind && curvature >= FLATTEST * m;
    if !is_ridge {
        return None;
    }
    let contrast = m / (mean() + 0.5);
    let stands_out = contrast > CONTRAST;
    if !stands_out {
        return None;
    }
    // Vertex of the parabola through the three values.
    let off = (0.5 * (ahead - behind) / curvature).clamp(-0.5, 0.5);
    Some(EdgePoint {
        x: x as f32 + off * normal.0,
        y: y as f32 + off * normal.1,
        normal,
        strength: m * if contrast < 3.0 { contrast } else { 3.0 },
        contrast,
    })
}

const THREADS: u32 = 256;
/// Pixels per block of [`vision_gradient()`].
pub const TILE: (u32, u32) = (32, 16);
/// Blurred pixels for a tile, and the input pixels for those.
const SOFT: (u32, u32) = (TILE.0 + 2, TILE.1 + 2);
const RAW: (u32, u32) = (SOFT.0 + 2 * REACH, SOFT.1 + 2 * REACH);

/// Applies Gaussian blur and Sobel filter: writes the blurred image to `smooth`, and the lengths of
/// its gradients to `magnitudes`, 0 at the border. One block per [`TILE`]. All values are floats.
///
/// Reads every pixel 3 times, and writes 8 bytes per pixel.
#[kernel(
    image = VISION, threads = 256,
    shared = (RAW.0 * RAW.1 + RAW.0 * SOFT.1 + SOFT.0 * SOFT.1) * 4
)]
pub fn vision_gradient(
    t: Thread,
    size: Size,
    image: In<u32>,
    smooth: Buf<u32>,
    magnitudes: Buf<u32>,
) {
    let Size { width, height } = size;
    let mut shared = t.shared();
    let raw = shared.array::<u32>(RAW.0 * RAW.1);
    let tall = shared.array::<u32>(RAW.0 * SOFT.1);
    let soft = shared.array::<u32>(SOFT.0 * SOFT.1);
    let columns = at_least_one(width.div_ceil(TILE.0));
    let (left, top) = (t.block() % columns * TILE.0, t.block() / columns * TILE.1);

    let mut i = t.id();
    while i < RAW.0 * RAW.1 {
        let (x, y) = (left + i % RAW.0, top + i / RAW.0);
        let outside = (REACH + 1) as i32;
        let (x, y) = (mirrored(x as i32 - outside, width), mirrored(y as i32 - outside, height));
        raw.store(i, image.get(y * width + x));
        i += THREADS;
    }
    t.barrier();
    i = t.id();
    while i < RAW.0 * SOFT.1 {
        let mut sum = 0.0;
        unroll::<{ TAPS.len() }>(|k| {
            sum += TAPS[k] * f32::from_bits(raw.load(i + k as u32 * RAW.0))
        });
        tall.store(i, sum.to_bits());
        i += THREADS;
    }
    t.barrier();
    i = t.id();
    while i < SOFT.0 * SOFT.1 {
        let first = i / SOFT.0 * RAW.0 + i % SOFT.0;
        let mut sum = 0.0;
        unroll::<{ TAPS.len() }>(|k| sum += TAPS[k] * f32::from_bits(tall.load(first + k as u32)));
        soft.store(i, sum.to_bits());
        i += THREADS;
    }
    t.barrier();
    i = t.id();
    while i < TILE.0 * TILE.1 {
        let (x, y) = (left + i % TILE.0, top + i / TILE.0);
        if x < width && y < height {
            let corner = i / TILE.0 * SOFT.0 + i % TILE.0;
            let at = |dx: u32, dy: u32| f32::from_bits(soft.load(corner + dy * SOFT.0 + dx));
            smooth.store(y * width + x, at(1, 1).to_bits());
            let inside = x > 0 && y > 0 && x + 1 < width && y + 1 < height;
            let m = if inside { magnitude(gradient(at)) } else { 0.0 };
            magnitudes.store(y * width + x, m.to_bits());
        }
        i += THREADS;
    }
}

/// Adds to `counts[b]` the number of pixels, without the border, whose [`noise_bin`] is `b`. Works
/// with any grid.
#[kernel(image = VISION, threads = 256, shared = NOISE_BINS * 4)]
pub fn vision_noise(t: Thread, size: Size, image: In<u32>, counts: Buf<u32>) {
    let own = t.shared().array::<u32>(NOISE_BINS);
    let mut bin = t.id();
    while bin < NOISE_BINS {
        own.store(bin, 0);
        bin += THREADS;
    }
    t.barrier();
    let (width, height) = (at_least_one(size.width), size.height);
    for i in t.strided(t.global_id(), t.grid_dim() * THREADS, width * height) {
        let (x, y) = (i % width, i / width);
        if x > 0 && y > 0 && x + 1 < width && y + 1 < height {
            let corner = i - width - 1;
            own.fetch_add(
                noise_bin(|dx, dy| f32::from_bits(image.get(corner + dy * width + dx))),
                1,
            );
        }
    }
    t.barrier();
    bin = t.id();
    while bin < NOISE_BINS {
        let count = own.load(bin);
        if count != 0 {
            counts.fetch_add(bin, count);
        }
        bin += THREADS;
    }
}

/// Writes the bin of the median of `counts` to `out[0]`. One block.
#[kernel(image = VISION, threads = 256, shared = 32 * 4)]
pub fn vision_median(t: Thread, counts: In<u32>, out: Buf<u32>) {
    const BINS: u32 = NOISE_BINS / THREADS;
    let sums = t.shared().array::<u32>(32);
    let first = t.id() * BINS;
    let mut own = 0;
    unroll::<{ BINS as usize }>(|k| own += counts.get(first + k as u32));
    let (mut below, all) = block::exclusive_sum(t, own, sums);
    let half = all / 2;
    if below <= half && below + own > half {
        let mut bin = first;
        loop {
            below += counts.get(bin);
            if below > half {
                break;
            }
            bin += 1;
        }
        out.store(0, bin);
    }
}

/// Writes to `sums`, for each pixel, the sum of the [`summand`]s of its row up to [`WINDOW`] pixels
/// to both sides. One thread per pixel.
#[kernel(image = VISION, threads = 256, independent)]
pub fn vision_row_sums(t: Thread, size: Size, magnitudes: In<u32>, sums: Buf<u32>) {
    let (i, width) = (t.global_id(), at_least_one(size.width));
    if i >= width * size.height {
        return;
    }
    let x = i % width;
    let (begin, end) = window(x, WINDOW, width);
    let (mut at, last) = (i - x + begin, i - x + end);
    let mut sum = 0;
    while at < last {
        sum += summand(f32::from_bits(magnitudes.get(at)));
        at += 1;
    }
    sums.store(i, sum);
}

/// Input of [`edge_at`]: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SlopesIn {
    /// Blurred image.
    pub smooth: In<u32>,
    /// Lengths of the gradients of the blurred image.
    pub magnitudes: In<u32>,
    /// Sums of the lengths along rows, from [`vision_row_sums()`].
    pub row_sums: In<u32>,
    /// Size of the image.
    pub size: Size,
}
impl SlopesIn {
    /// Returns the edge at pixel `i`.
    #[inline(always)]
    #[track_caller]
    fn edge(self, i: u32, threshold: f32) -> Option<EdgePoint> {
        let (width, height) = (at_least_one(self.size.width), self.size.height);
        let (x, y) = (i % width, i / width);
        if x < MARGIN || y < MARGIN || x + MARGIN >= width || y + MARGIN >= height {
            return None;
        }
        let corner = i - width - 1;
        let strength = |x: u32, y: u32| f32::from_bits(self.magnitudes.get(y * width + x));
        let slope = || gradient(|dx, dy| f32::from_bits(self.smooth.get(corner + dy * width + dx)));
        let mean = || {
            let (begin, end) = window(y, WINDOW, height);
            let (mut sum, mut row) = (0, begin);
            while row < end {
                sum += self.row_sums.get(row * width + x);
                row += 1;
            }
            let (left, right) = window(x, WINDOW, width);
            mean(sum, (end - begin) * (right - left))
        };
        edge_at((x, y), threshold, strength, slope, mean)
    }
}

/// Sets `flags[p]` to 1 if pixel `p` has an edge, else to 0. One thread per pixel.
#[kernel(image = VISION, threads = 256, independent)]
pub fn vision_ridges(t: Thread, slopes: SlopesIn, median: In<u32>, flags: Buf<u8>) {
    let i = t.global_id();
    if i < slopes.size.width * slopes.size.height {
        flags.store(i, slopes.edge(i, threshold(median.get(0))).is_some() as u8);
    }
}

/// Writes the numbers of the pixels whose flag is not 0 to `pixels`, in order, and their count to
/// `count[0]`. One block per tile of [`koel_kernels::compact::TILE`] pixels. `status` and `ticket`
/// must be 0 initially.
#[kernel(image = VISION, threads = 256, min_blocks = 4, shared = 32 * 4 + 4 + 4)]
pub fn vision_pixels(
    t: Thread,
    n: u32,
    flags: In<u8>,
    pixels: Buf<u32>,
    count: Buf<u32>,
    status: Buf<u64>,
    ticket: Buf<u32>,
) {
    let (put, end) = (|to, i| pixels.store(to, i), |kept| count.store(0, kept));
    let tiles = Tiles { status, ticket, epoch: 1 };
    keep(t, n, |i| flags.get_stream(i) != 0, put, end, tiles)
}

/// Output of edges: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct EdgesOut {
    /// For each edge: x, y and the normal's x, y (floats).
    pub places: Buf<u32>,
    /// For each edge: direction, strength, contrast (floats) and the number of its pixel.
    pub traits: Buf<u32>,
}

/// Writes the edges of the `count[0]` pixels that have one. One thread per potential edge pixel.
#[kernel(image = VISION, threads = 256, independent)]
pub fn vision_edges(
    t: Thread,
    slopes: SlopesIn,
    median: In<u32>,
    pixels: In<u32>,
    count: In<u32>,
    out: EdgesOut,
) {
    let to = t.global_id();
    if to >= slopes.size.width * slopes.size.height || to >= count.get(0) {
        return;
    }
    let i = pixels.get(to);
    if let Some(e) = slopes.edge(i, threshold(median.get(0))) {
        let turned = direction(e.normal.0, e.normal.1);
        let place = [e.x, e.y, e.normal.0, e.normal.1].map(f32::to_bits);
        out.places.x4().store(to, U32x4(place));
        out.traits.x4().store(to, U32x4([turned, e.strength.to_bits(), e.contrast.to_bits(), i]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_are_a_gauss() {
        let gauss = (-7..=7)
            .map(|d| (-0.5 * (d as f64 / SIGMA as f64).powi(2)).exp())
            .collect::<Vec<f64>>();
        let sum = gauss.iter().sum::<f64>();
        for (tap, exact) in TAPS.iter().zip(gauss) {
            assert!((*tap as f64 - exact / sum).abs() < 1e-7 * exact, "{tap} {}", exact / sum);
        }
    }

    #[test]
    fn indices_are_mirrored() {
        let expected = [2, 1, 0, 1, 2, 3, 2, 1, 0, 1];
        for (i, expected) in (-2..8).zip(expected) {
            assert_eq!(mirrored(i, 4), expected, "{i}");
        }
        assert!((-20..20).all(|i| mirrored(i, 1) == 0));
    }
}

//! Comparison of two images of one frame, block by block.
//!
//! In the order of the data flow: [`vision_warp()`] draws the scene in the frame of the model,
//! [`vision_blur()`] blurs both, [`vision_shift_scores()`], [`vision_best_shifts()`] and
//! [`vision_smooth_shifts()`] find the local shift of each block, and [`vision_correlations()`] and
//! [`vision_likest()`] correlate the blocks. [`vision_distinctness()`] and [`vision_level_sums()`]
//! describe them. All arrays hold floats. A CPU works row by row instead, with the same functions
//! of one pixel or block, in the same order.
use crate::{Size, at_least_one};
use koel_kernels::math::sqrt;
use koel_simt::{Buf, In, Thread, kernel, unroll};

/// Maximum local shift, in pixels of the frame, and the number of shifts along a side of the grid
/// that are compared.
const REACH: i32 = 8;
const SHIFTS: u32 = 9;
/// Number of shifts that are compared for a block: none, and those of the grid.
pub const TRIED: u32 = 1 + SHIFTS * SHIFTS;
/// Correlation that a shift must gain over none.
const GAIN: f32 = 0.05;
/// No correlation exceeds it, whatever is rounded.
pub const MOST: f32 = 1.001;
/// Number of shifts that are compared around the local one of a block, with none.
pub const NEAR: u32 = 10;
/// Pixels of a row that are summed side by side, one in each lane of vector registers.
pub const LANES: usize = 8;
/// Sums of a block: of both images, their squares and their products, about mid-grey.
pub const SUMS: usize = 5;
/// Words of a block that [`vision_likest()`] writes: the correlation, the deviations of both sides,
/// and the shift (signed halves); the correlation is NaN if there is none.
pub const LIKEST: u32 = 4;
/// Words of a block that [`vision_level_sums()`] writes: four sums of 64 bits.
pub const LEVELS: u32 = 8;

/// Returns the shift of a candidate for [`vision_shift_scores()`].
#[inline(always)]
pub fn shift_of(candidate: u32) -> (i32, i32) {
    match candidate.checked_sub(1) {
        None => (0, 0),
        Some(k) => (2 * (k % SHIFTS) as i32 - REACH, 2 * (k / SHIFTS) as i32 - REACH),
    }
}
/// Returns the candidate with the best of the scores; a shift must gain something over none.
#[inline(always)]
pub fn best_shift(score: impl Fn(u32) -> f32) -> (i32, i32) {
    let mut best = (score(0) + GAIN, 0);
    if best.0 <= MOST {
        let mut k = 1;
        while k < TRIED {
            let one = score(k);
            best = if one > best.0 { (one, k) } else { best };
            k += 1;
        }
    }
    shift_of(best.1)
}
/// Returns the shift of a candidate near a block's own for [`vision_correlations()`]; `None` if it
/// is compared already.
#[inline(always)]
pub fn near((x, y): (i32, i32), candidate: u32) -> Option<(i32, i32)> {
    match candidate.checked_sub(1) {
        None => Some((0, 0)),
        Some(_) if (x, y) == (0, 0) => None,
        Some(k) => Some((x + (k % 3) as i32 - 1, y + (k / 3) as i32 - 1)),
    }
}
/// Interpolates linearly between the pixels of an image; `None` outside.
#[inline(always)]
pub fn between(size: Size, (x, y): (f32, f32), pixel: impl Fn(u32, u32) -> f32) -> Option<f32> {
    let (last_x, last_y) = (size.width.wrapping_sub(1), size.height.wrapping_sub(1));
    if !(x >= 0.0 && y >= 0.0 && x <= last_x as f32 && y <= last_y as f32) {
        return None;
    }
    // A conversion to a signed number is one instruction.
    let (x0, y0) = ((x as i32 as u32).min(last_x), (y as i32 as u32).min(last_y));
    let (x1, y1) = ((x0 + 1).min(last_x), (y0 + 1).min(last_y));
    let (u, v) = (x - x0 as f32, y - y0 as f32);
    let row = |y: u32| {
        let (a, b) = (pixel(x0, y), pixel(x1, y));
        a + (b - a) * u
    };
    let (top, bottom) = (row(y0), row(y1));
    Some(top + (bottom - top) * v)
}
/// Returns the correlation of two blocks of `n` pixels and the deviations of both, from their sums;
/// `None` if a pixel is missing.
#[inline(always)]
pub fn correlation([a, b, aa, bb, ab]: [f32; SUMS], n: f32) -> Option<[f32; 3]> {
    let (va, vb) = (aa / n - (a / n) * (a / n), bb / n - (b / n) * (b / n));
    let covariance = ab / n - (a / n) * (b / n);
    let deviation = |v: f32| if v > 0.0 { sqrt(v) } else { 0.0 };
    let (da, db) = (deviation(va), deviation(vb));
    let both = da * db;
    let correlation = covariance / if both > 1.0 { both } else { 1.0 };
    // NaN and infinity fail.
    (correlation.abs() <= f32::MAX).then_some([correlation, da, db])
}
/// Returns how much a structure is of two dimensions, from 0 (a straight edge) to 1, from the sums
/// of the products of the gradient's components.
#[inline(always)]
fn distinctness([xx, xy, yy]: [f32; 3]) -> f32 {
    let (trace, gap) = (xx + yy, sqrt((xx - yy) * (xx - yy) + 4.0 * xy * xy));
    let part = if trace > 0.0 { (trace - gap) / trace } else { 0.0 };
    part.clamp(0.0, 1.0)
}

/// Blocks of a frame: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Tiling {
    /// Size of the frame.
    pub size: Size,
    /// Number of blocks in a row.
    pub columns: u32,
    /// Number of rows of blocks.
    pub rows: u32,
}
impl Tiling {
    /// Returns the number of blocks.
    #[inline(always)]
    pub fn blocks(self) -> u32 {
        self.columns * self.rows
    }
    /// Returns the column and the row of a block.
    #[inline(always)]
    pub fn place(self, block: u32) -> (u32, u32) {
        let columns = at_least_one(self.columns);
        (block % columns, block / columns)
    }
    /// Returns the left, top, right and bottom of a block's pixels; the last two are not included.
    #[inline(always)]
    pub fn extent(self, block: u32) -> [u32; 4] {
        let (i, j) = self.place(block);
        let (columns, rows) = (at_least_one(self.columns), at_least_one(self.rows));
        let Size { width, height } = self.size;
        [i * width / columns, j * height / rows, (i + 1) * width / columns, (j + 1) * height / rows]
    }
    /// Returns the first and the last row or column of blocks around one.
    #[inline(always)]
    pub fn around(k: u32, n: u32) -> (u32, u32) {
        (k.saturating_sub(1), if k + 2 < n { k + 2 } else { n })
    }
    /// Returns the distinctness of a block of an image: see [`vision_distinctness()`].
    #[inline(always)]
    pub fn distinctness(self, block: u32, at: impl Fn(u32, u32) -> f32) -> f32 {
        let ([left, top, right, bottom], Size { width, height }) = (self.extent(block), self.size);
        let (mut xx, mut xy, mut yy) = (0.0f32, 0.0, 0.0);
        let mut y = if top > 0 { top } else { 1 };
        while y < bottom && y + 1 < height {
            let mut x = if left > 0 { left } else { 1 };
            while x < right && x + 1 < width {
                let (gx, gy) = (at(x + 1, y) - at(x - 1, y), at(x, y + 1) - at(x, y - 1));
                (xx, xy, yy) = (xx + gx * gx, xy + gx * gy, yy + gy * gy);
                x += 1;
            }
            y += 1;
        }
        distinctness([xx, xy, yy])
    }
    /// Returns the correlation of a block of `a` with `b` shifted; `None` if a pixel is missing.
    #[inline(always)]
    fn correlation(
        self,
        a: In<u32>,
        b: In<u32>,
        block: u32,
        (dx, dy): (i32, i32),
    ) -> Option<[f32; 3]> {
        let ([left, top, right, bottom], Size { width, height }) = (self.extent(block), self.size);
        let (x, y) = (left.wrapping_add(dx as u32), top.wrapping_add(dy as u32));
        // Negative numbers are large.
        let inside = x < width && y < height;
        if !inside || x + (right - left) > width || y + (bottom - top) > height {
            return None;
        }
        let mut sums = [[0.0f32; LANES]; SUMS];
        let mut add = |lane: usize, of_a: u32, of_b: u32| {
            let (u, v) = (f32::from_bits(a.get(of_a)) - 128.0, f32::from_bits(b.get(of_b)) - 128.0);
            let values = [u, v, u * u, v * v, u * v];
            unroll::<SUMS>(|k| sums[k][lane] += values[k]);
        };
        let mut row = 0;
        while row < bottom - top {
            let (of_a, of_b) = ((top + row) * width + left, (y + row) * width + x);
            let (mut column, columns) = (0, right - left);
            while column + LANES as u32 <= columns {
                unroll::<LANES>(|lane| {
                    let at = column + lane as u32;
                    add(lane, of_a + at, of_b + at);
                });
                column += LANES as u32;
            }
            unroll::<LANES>(|lane| {
                let at = column + lane as u32;
                if at < columns {
                    add(lane, of_a + at, of_b + at);
                }
            });
            row += 1;
        }
        let mut totals = [0.0; SUMS];
        unroll::<SUMS>(|k| unroll::<LANES>(|lane| totals[k] += sums[k][lane]));
        correlation(totals, ((right - left) * (bottom - top)) as f32)
    }
}

/// View of a scene in another frame: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct View {
    /// Map from pixels of the frame to those of the scene: a, b, c, d, x0, y0 of
    /// `x' = a x + b y + x0`, `y' = c x + d y + y0`.
    pub map: [f32; 6],
    /// Size of the frame.
    pub frame: Size,
    /// Size of the scene.
    pub scene: Size,
    /// Samples of a pixel along each axis.
    pub samples: u32,
}
impl View {
    /// Returns a pixel of the frame: the mean over its area; NaN outside the scene.
    #[inline(always)]
    pub fn pixel(&self, (x, y): (u32, u32), scene: impl Fn(u32, u32) -> f32) -> f32 {
        let n = at_least_one(self.samples);
        let [a, b, c, d, x0, y0] = self.map;
        let offset = |k: u32| (k as f32 + 0.5) / n as f32 - 0.5;
        let (mut sum, mut k) = (0.0, 0);
        while k < n * n {
            let (x, y) = (x as f32 + offset(k % n), y as f32 + offset(k / n));
            let at = (a * x + b * y + x0, c * x + d * y + y0);
            sum += between(self.scene, at, &scene).unwrap_or(f32::NAN);
            k += 1;
        }
        sum / (n * n) as f32
    }
}

/// Draws a scene in another frame. One thread per pixel of the frame.
#[kernel(image = VISION, threads = 128, independent)]
pub fn vision_warp(t: Thread, view: View, scene: In<u32>, out: Buf<u32>) {
    let (i, width) = (t.global_id(), at_least_one(view.frame.width));
    if i >= view.frame.width * view.frame.height {
        return;
    }
    let pixel = |x: u32, y: u32| f32::from_bits(scene.get(y * view.scene.width + x));
    out.store(i, view.pixel((i % width, i / width), pixel).to_bits());
}

/// A blur along one axis of an image: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Blur {
    /// Size of the image.
    pub size: Size,
    /// 0: along the rows, else along the columns.
    pub along_columns: u32,
    /// Index of the first of `2 reach + 1` taps.
    pub first: u32,
    /// Distance of the farthest pixels that count.
    pub reach: u32,
}

/// Blurs along the rows or the columns; borders repeat the last pixel. One thread per pixel.
#[kernel(image = VISION, threads = 128, independent)]
pub fn vision_blur(t: Thread, blur: Blur, taps: In<u32>, image: In<u32>, out: Buf<u32>) {
    let Blur { size, along_columns, first, reach } = blur;
    let (i, width) = (t.global_id(), at_least_one(size.width));
    if i >= size.width * size.height {
        return;
    }
    let (x, y) = (i % width, i / width);
    let (at, n, step, start) = match along_columns {
        0 => (x, size.width, 1, y * width),
        _ => (y, size.height, width, x),
    };
    let (mut sum, mut k) = (0.0, 0);
    while k <= 2 * reach {
        let from = (at + k).saturating_sub(reach);
        let from = if from < n { from } else { n - 1 };
        let value = f32::from_bits(image.get(start + from * step));
        sum += f32::from_bits(taps.get(first + k)) * value;
        k += 1;
    }
    out.store(i, sum.to_bits());
}

/// Writes the correlation of each block of `a` with `b` shifted, -1 if a pixel is missing, to
/// `scores[candidate blocks + block]`. One thread for each of [`TRIED`] candidates and block.
#[kernel(image = VISION, threads = 128, independent)]
pub fn vision_shift_scores(t: Thread, tiling: Tiling, a: In<u32>, b: In<u32>, scores: Buf<u32>) {
    let (id, blocks) = (t.global_id(), at_least_one(tiling.blocks()));
    let (block, candidate) = (id % blocks, id / blocks);
    if candidate >= TRIED {
        return;
    }
    let score = match tiling.correlation(a, b, block, shift_of(candidate)) {
        Some([correlation, ..]) => correlation,
        None => -1.0,
    };
    scores.store(id, score.to_bits());
}

/// Encodes a shift.
#[inline(always)]
fn packed((x, y): (i32, i32)) -> u32 {
    x as u16 as u32 | (y as u32) << 16
}
/// Decodes a shift.
#[inline(always)]
pub fn unpacked(word: u32) -> (i32, i32) {
    (word as i16 as i32, (word >> 16) as i16 as i32)
}

/// Writes the best shift of each block. One thread per block.
#[kernel(image = VISION, threads = 32, independent)]
pub fn vision_best_shifts(t: Thread, tiling: Tiling, scores: In<u32>, shifts: Buf<u32>) {
    let (block, blocks) = (t.global_id(), tiling.blocks());
    if block < blocks {
        let score = |candidate: u32| f32::from_bits(scores.get(candidate * blocks + block));
        shifts.store(block, packed(best_shift(score)));
    }
}

/// Writes the median of the shifts of a block and its neighbours, along each axis. One thread per
/// block.
#[kernel(image = VISION, threads = 32, independent)]
pub fn vision_smooth_shifts(t: Thread, tiling: Tiling, shifts: In<u32>, out: Buf<u32>) {
    let block = t.global_id();
    if block >= tiling.blocks() {
        return;
    }
    let (i, j) = tiling.place(block);
    let ((left, right), (top, bottom)) =
        (Tiling::around(i, tiling.columns), Tiling::around(j, tiling.rows));
    let (columns, rows) = (right - left, bottom - top);
    let at = |k: u32| {
        let columns = at_least_one(columns);
        unpacked(shifts.get((top + k / columns) * tiling.columns + left + k % columns))
    };
    let n = columns * rows;
    out.store(block, packed((median(n, |k| at(k).0), median(n, |k| at(k).1))));
}
/// Returns the upper median of `n` values, a few.
#[inline(always)]
pub fn median(n: u32, of: impl Fn(u32) -> i32) -> i32 {
    let (mut k, mut found) = (0, 0);
    while k < n {
        let (value, mut below, mut equal, mut other) = (of(k), 0, 0, 0);
        while other < n {
            below += (of(other) < value) as u32;
            equal += (of(other) == value) as u32;
            other += 1;
        }
        if below <= n / 2 && n / 2 < below + equal {
            found = value;
        }
        k += 1;
    }
    found
}

/// Writes the correlation of each block of `a` with `b`, and the deviations of both, to three words
/// from `3 (candidate blocks + block)` on, for each of [`NEAR`] shifts around its own; NaN if there
/// is none. One thread for each candidate and block.
#[kernel(image = VISION, threads = 128, independent)]
pub fn vision_correlations(
    t: Thread,
    tiling: Tiling,
    a: In<u32>,
    b: In<u32>,
    shifts: In<u32>,
    correlations: Buf<u32>,
) {
    let (id, blocks) = (t.global_id(), at_least_one(tiling.blocks()));
    let (block, candidate) = (id % blocks, id / blocks);
    if candidate >= NEAR {
        return;
    }
    let mut out = [f32::NAN, 0.0, 0.0];
    if let Some(shift) = near(unpacked(shifts.get(block)), candidate)
        && let Some(found) = tiling.correlation(a, b, block, shift)
    {
        out = found;
    }
    unroll::<3>(|k| correlations.store(3 * id + k as u32, out[k].to_bits()));
}

/// Writes the most alike of the candidates of [`vision_correlations()`] to [`LIKEST`] words of each
/// block, from `LIKEST block` on: the first of equal ones. One thread per block.
#[kernel(image = VISION, threads = 32, independent)]
pub fn vision_likest(
    t: Thread,
    tiling: Tiling,
    shifts: In<u32>,
    correlations: In<u32>,
    out: Buf<u32>,
) {
    let (block, blocks) = (t.global_id(), tiling.blocks());
    if block >= blocks {
        return;
    }
    let at = |candidate: u32| 3 * (candidate * blocks + block);
    let of = |candidate: u32| f32::from_bits(correlations.get(at(candidate)));
    let (mut best, mut k) = (0, 1);
    while k < NEAR {
        // NaN is less than everything.
        best = if of(k) > of(best) || of(best).is_nan() { k } else { best };
        k += 1;
    }
    unroll::<3>(|k| {
        out.store(LIKEST * block + k as u32, correlations.get(at(best) + k as u32));
    });
    let shift = near(unpacked(shifts.get(block)), best).unwrap_or((0, 0));
    out.store(LIKEST * block + 3, packed(shift));
}

/// Writes how much the structure of each block is of two dimensions, from 0 (a straight edge) to 1.
/// One thread per block.
#[kernel(image = VISION, threads = 32, independent)]
pub fn vision_distinctness(t: Thread, tiling: Tiling, image: In<u32>, out: Buf<u32>) {
    let block = t.global_id();
    if block >= tiling.blocks() {
        return;
    }
    let at = |x: u32, y: u32| f32::from_bits(image.get(y * tiling.size.width + x));
    out.store(block, tiling.distinctness(block, at).to_bits());
}

/// Writes the sums over each block of `a`, of `b` at the shift of the block's `likest`, of the
/// squares of `a` and of the products, in 64 bits each, to [`LEVELS`] words from `LEVELS block` on;
/// zeros if the block has no correlation. One thread per block.
#[kernel(image = VISION, threads = 32, independent)]
pub fn vision_level_sums(
    t: Thread,
    tiling: Tiling,
    a: In<u32>,
    b: In<u32>,
    likest: In<u32>,
    out: Buf<u32>,
) {
    let block = t.global_id();
    if block >= tiling.blocks() {
        return;
    }
    let mut sums = [0.0f64; 4];
    if !f32::from_bits(likest.get(LIKEST * block)).is_nan() {
        let (dx, dy) = unpacked(likest.get(LIKEST * block + 3));
        let [left, top, right, bottom] = tiling.extent(block);
        let width = tiling.size.width;
        let by = (dy as u32).wrapping_mul(width).wrapping_add(dx as u32);
        let mut y = top;
        while y < bottom {
            let mut x = left;
            while x < right {
                let at = y * width + x;
                let u = f32::from_bits(a.get(at)) as f64;
                let v = f32::from_bits(b.get(at.wrapping_add(by))) as f64;
                let values = [u, v, u * u, u * v];
                unroll::<4>(|k| sums[k] += values[k]);
                x += 1;
            }
            y += 1;
        }
    }
    unroll::<4>(|k| {
        let bits = sums[k].to_bits();
        out.store(LEVELS * block + 2 * k as u32, bits as u32);
        out.store(LEVELS * block + 2 * k as u32 + 1, (bits >> 32) as u32);
    });
}

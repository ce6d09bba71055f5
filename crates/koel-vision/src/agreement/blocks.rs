//! Blocks of a frame, and their correlations.
use crate::picture::Grey;
use crate::picture::size;
use koel_vision_kernels::compare::{self, LANES, SUMS, Tiling};
use rayon::prelude::*;

/// Side of a block in pixels of the frame, and the number of blocks along the shorter side of a
/// small model.
const BLOCK: (usize, usize) = (16, 6);
/// Minimum side of a block.
pub(super) const MIN_BLOCK: usize = 6;
/// Minimum number of blocks that a thread takes at a time.
const TOGETHER: usize = 8;

/// Sums over pairs of pixels, in lanes: of both, their squares and their products, about mid-grey.
#[derive(Default)]
struct Sums([[f32; LANES]; SUMS]);
impl Sums {
    #[inline(always)]
    fn add(&mut self, lane: usize, u: f32, v: f32) {
        let (u, v) = (u - 128.0, v - 128.0);
        for (sum, value) in self.0.iter_mut().zip([u, v, u * u, v * v, u * v]) {
            sum[lane] += value;
        }
    }
    fn add_row(&mut self, a: &[f32], b: &[f32]) {
        let ((a, rest_a), (b, rest_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
        for (a, b) in a.iter().zip(b) {
            for lane in 0..LANES {
                self.add(lane, a[lane], b[lane]);
            }
        }
        for (lane, (&u, &v)) in rest_a.iter().zip(rest_b).enumerate() {
            self.add(lane, u, v);
        }
    }
    fn total(&self) -> [f32; SUMS] {
        self.0.map(|lanes| lanes.iter().sum())
    }
}

/// Blocks of a frame.
pub(super) struct Blocks {
    pub columns: usize,
    pub rows: usize,
    pub width: usize,
    pub height: usize,
}
impl Blocks {
    pub(super) fn of(width: usize, height: usize) -> Blocks {
        let side = (width.min(height) / BLOCK.1).clamp(MIN_BLOCK, BLOCK.0);
        let count = |n: usize| (n / side).max(1);
        Blocks { columns: count(width), rows: count(height), width, height }
    }
    /// Returns the blocks as a kernel argument.
    pub(super) fn tiling(&self) -> Tiling {
        let size = size(self.width, self.height);
        Tiling { size, columns: self.columns as u32, rows: self.rows as u32 }
    }
    pub(super) fn len(&self) -> usize {
        self.columns * self.rows
    }
    /// Returns the result of `f` for each block, computed by all threads.
    pub(super) fn each<T: Send>(&self, f: impl Fn(usize) -> T + Send + Sync) -> Vec<T> {
        (0..self.len()).into_par_iter().with_min_len(TOGETHER).map(f).collect()
    }
    /// Returns the columns and rows of a block's pixels.
    pub(super) fn extent(&self, block: usize) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        let [left, top, right, bottom] = self.tiling().extent(block as u32).map(|v| v as usize);
        (left..right, top..bottom)
    }
    /// Returns whether a block is at the border of the frame.
    pub(super) fn is_at_border(&self, block: usize) -> bool {
        let (i, j) = (block % self.columns, block / self.columns);
        i == 0 || j == 0 || i + 1 == self.columns || j + 1 == self.rows
    }
    pub(super) fn middle(&self, block: usize) -> (f32, f32) {
        let (xs, ys) = self.extent(block);
        let middle = |r: std::ops::Range<usize>| 0.5 * (r.start + r.end - 1) as f32;
        (middle(xs), middle(ys))
    }
    /// Returns the correlation of a block of `a` with `b` shifted, and the deviations of both;
    /// `None` if a pixel is missing.
    pub(super) fn correlation(
        &self,
        a: &Grey,
        b: &Grey,
        block: usize,
        shift: (i32, i32),
    ) -> Option<[f32; 3]> {
        let (xs, ys) = self.extent(block);
        let n = (xs.len() * ys.len()) as f32;
        let left = xs.start.checked_add_signed(shift.0 as isize)?;
        if left + xs.len() > self.width {
            return None;
        }
        let mut sums = Sums::default();
        for y in ys {
            let other = y.checked_add_signed(shift.1 as isize).filter(|&o| o < self.height)?;
            let of_a = &a.pixels[y * self.width..][xs.clone()];
            let of_b = &b.pixels[other * self.width + left..][..xs.len()];
            sums.add_row(of_a, of_b);
        }
        compare::correlation(sums.total(), n)
    }
    /// Returns a block and those next to it.
    pub(super) fn around(&self, block: usize) -> impl Iterator<Item = usize> + use<> {
        let (columns, rows) = (self.columns, self.rows);
        let (i, j) = (block % columns, block / columns);
        let near = |k: usize, n: usize| k.saturating_sub(1)..(k + 2).min(n);
        near(j, rows).flat_map(move |y| near(i, columns).map(move |x| y * columns + x))
    }
    /// Returns the blocks that share a side with a block.
    pub(super) fn beside(&self, block: usize) -> impl Iterator<Item = usize> + use<> {
        let columns = self.columns;
        self.around(block).filter(move |other| {
            let (x, y) = (other % columns, other / columns);
            x.abs_diff(block % columns) + y.abs_diff(block / columns) == 1
        })
    }
    /// Returns how much a block's structure is of two dimensions, from 0 (a straight edge) to 1.
    pub(super) fn distinctness(&self, a: &Grey, block: usize) -> f32 {
        self.tiling().distinctness(block as u32, |x, y| a.pixel(x, y))
    }
    /// Returns the local shift of each block: the best of its own, smoothed by the median of its
    /// neighbours, because a surface bends smoothly.
    pub(super) fn shifts(&self, a: &Grey, b: &Grey) -> Vec<(i32, i32)> {
        let score = |block, shift| self.correlation(a, b, block, shift).map_or(-1.0, |c| c[0]);
        let best = |block: usize| compare::best_shift(|k| score(block, compare::shift_of(k)));
        let own = self.each(best);
        let smooth = |block: usize| {
            let (xs, ys) = self.around(block).map(|other| own[other]).unzip();
            let middle = |v: Vec<i32>| compare::median(v.len() as u32, |k| v[k as usize]);
            (middle(xs), middle(ys))
        };
        (0..self.len()).map(smooth).collect()
    }
}

//! Corners (FAST, 9 of 16): other features for the [published method](crate::paper), and an even
//! choice of them.
//!
//! A GPU (and the test executor) finds them by kernels, the CPU by rows; what is said of one pixel
//! is the same code: [`koel_kernels::vision::corners`].
use crate::device::{grid, in_kernels, size};
use crate::edges::{Noise, noise_median};
use crate::picture::Grey;
use koel::Stream;
use koel_kernels::vision::corners::*;
use rayon::prelude::*;

/// A corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Corner {
    /// Pixels from the left.
    pub x: usize,
    /// Pixels from the top.
    pub y: usize,
    /// By how much nine pixels in a row on a circle around it are all brighter, or all darker,
    /// grey levels.
    pub score: f32,
}

/// Side of the cells of the even choice, pixels.
const CELL: usize = 32;

/// The corners of an image, from the top, row by row: those whose score is the greatest around,
/// above the image's noise.
///
/// None in an image of less than 8 pixels a side. On the CPU a pass over rows; by kernels 6
/// launches and 3 fills, after which their number and then they, 8 bytes each, are read back. The
/// same bits on every device.
pub fn corners(stream: &Stream, image: &Grey) -> koel::Result<Vec<Corner>> {
    let (w, h) = (image.width, image.height);
    if w.min(h) < koel_kernels::vision::edges::MIN_SIDE as usize {
        return Ok(vec![]);
    }
    if !in_kernels(stream) {
        return Ok(on_host(image));
    }
    let (device, pixels, n) = (stream.device(), w * h, (w * h) as u32);
    let bits = image.pixels.iter().map(|v| v.to_bits()).collect::<Vec<u32>>();
    let image = device.upload(&bits)?;
    let noise = Noise::measure(stream, &image, w, h)?;
    let (mut scores, mut flags) = (device.alloc::<u32>(pixels)?, device.alloc::<u8>(pixels)?);
    let mut corners = device.alloc::<u32>(2 * pixels)?;
    let size = size(w, h);
    // SAFETY: a word a pixel, two for corners, a byte for flags; sides are at least 8 pixels.
    unsafe {
        vision_corner_scores::launch(
            stream,
            grid(n),
            size,
            image.view().arg("image", stream)?,
            noise.median.view().arg("median", stream)?,
            scores.view_mut().arg("scores", stream)?,
        )?;
        let scores = scores.view().arg("scores", stream)?;
        vision_corner_peaks::launch(
            stream,
            grid(n),
            size,
            scores,
            flags.view_mut().arg("flags", stream)?,
        )?;
        let (found, count) = crate::edges::flagged_pixels(stream, &flags)?;
        vision_corners::launch(
            stream,
            grid(n),
            n,
            count.view().arg("count", stream)?,
            found.view().arg("pixels", stream)?,
            scores,
            corners.view_mut().arg("corners", stream)?,
        )?;
        let words = corners.view().slice(..2 * count.download()?[0] as usize)?.download()?;
        let corner = |c: &[u32]| {
            let (pixel, score) = (c[0] as usize, f32::from_bits(c[1]));
            Corner { x: pixel % w, y: pixel / w, score }
        };
        Ok(words.chunks_exact(2).map(corner).collect())
    }
}

fn on_host(image: &Grey) -> Vec<Corner> {
    let (w, h, r) = (image.width, image.height, RADIUS as usize);
    let least = least_score(noise_median(image));
    let mut scores = vec![0.0f32; w * h];
    scores.par_chunks_mut(w).enumerate().skip(r).take(h - 2 * r).for_each(|(y, row)| {
        for (x, score) in row.iter_mut().enumerate().take(w - r).skip(r) {
            let at = |dx: i32, dy: i32| {
                image.pixels
                    [y.wrapping_add_signed(dy as isize) * w + x.wrapping_add_signed(dx as isize)]
            };
            *score = corner_score(least, at);
        }
    });
    let scores = &scores;
    let corner = |x: usize, y: usize| {
        let at = |dx: u32, dy: u32| scores[(y + dy as usize - 1) * w + x + dx as usize - 1];
        is_peak(at).then(|| Corner { x, y, score: scores[y * w + x] })
    };
    let rows = (r..h - r).into_par_iter();
    rows.flat_map_iter(|y| (r..w - r).filter_map(move |x| corner(x, y))).collect()
}

/// At most `most` corners, evenly over the image: the strongest of each cell of 32 x 32 pixels,
/// then the second of each, and so on; of each turn the strongest first. Equal ones as they stand.
pub fn evenly(corners: &[Corner], most: usize) -> Vec<Corner> {
    let cell = |c: &Corner| (c.y / CELL, c.x / CELL);
    let stronger = |a: &Corner, b: &Corner| b.score.total_cmp(&a.score);
    let mut by_cell = corners.to_vec();
    by_cell.sort_by(|a, b| cell(a).cmp(&cell(b)).then(stronger(a, b)));
    let mut turn = 0;
    let mut turns = vec![];
    for (i, c) in by_cell.iter().enumerate() {
        turn = if i > 0 && cell(&by_cell[i - 1]) == cell(c) { turn + 1 } else { 0 };
        turns.push((turn, *c));
    }
    turns.sort_by(|(t, a), (u, b)| t.cmp(u).then(stronger(a, b)));
    turns.into_iter().take(most).map(|(_, c)| c).collect()
}

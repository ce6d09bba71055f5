//! Corners (FAST, 9 of 16), and an even selection of them.
//!
//! A GPU (and the test executor) finds them with kernels, the CPU row by row. The per-pixel code is
//! shared: [`koel_vision_kernels::corners`].
use crate::device::{grid, in_kernels};
use crate::edges::{Noise, noise_median};
use crate::picture::{Grey, size};
use koel::Stream;
use koel_vision_kernels::corners::*;
use rayon::prelude::*;

/// Corner of an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Corner {
    /// Pixels from the left.
    pub x: usize,
    /// Pixels from the top.
    pub y: usize,
    /// Amount, in grey levels, by which nine consecutive pixels on a circle around it are all
    /// brighter or all darker.
    pub score: f32,
}

/// Side of the cells of the even selection, in pixels.
const CELL: usize = 32;

/// Returns the corners of an image in row-major order: local maxima of the score, above the image's
/// noise.
///
/// Returns none for an image of fewer than 8 pixels per side. On the CPU, a pass over rows. With
/// kernels, 6 launches and 3 fills; then their number and the corners themselves, 8 bytes each, are
/// read back. Bitwise identical on every device.
pub(crate) fn corners(stream: &Stream, image: &Grey) -> koel::Result<Vec<Corner>> {
    let (w, h) = (image.width, image.height);
    if w.min(h) < koel_vision_kernels::edges::MIN_SIDE as usize {
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
    // SAFETY: there are one word per pixel, two per corner, and one byte per flag; sides are at
    // least 8 pixels.
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

/// Selects up to `most` corners, spread evenly over the image: the strongest of each cell of 32 x
/// 32 pixels, then the second of each, and so on; within a round the strongest first. Ties keep
/// their order.
pub(crate) fn evenly(corners: &[Corner], most: usize) -> Vec<Corner> {
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

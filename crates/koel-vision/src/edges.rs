//! Edges: where the luminance changes most, to a fraction of a pixel, with the direction of the change.
use crate::picture::Grey;
use koel_kernels::vision::direction::direction;
use rayon::prelude::*;

/// Blur before the derivative: standard deviation, pixels.
const SIGMA: f32 = 1.8;
/// Half the side of the window of the local mean, pixels.
const WINDOW: usize = 20;
/// An edge is at least this much stronger than the mean of its window.
const CONTRAST: f32 = 0.7;
/// The second difference of a ridge's gradient, across it, over the gradient: a step blurred by [`SIGMA`] has about 0.3.
const FLATTEST: f32 = 0.01;
/// Nothing is looked for this close to the border.
const MARGIN: usize = 3;

/// A point of an edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// Pixels from the centre of the leftmost ones.
    pub x: f32,
    /// Pixels from the centre of the topmost ones.
    pub y: f32,
    /// Unit vector from dark to bright.
    pub normal: (f32, f32),
    /// Its direction, 2^32 to the turn.
    pub direction: u32,
    /// Grey levels a pixel, times the contrast (at most 3).
    pub strength: f32,
    /// How much stronger than its surroundings.
    pub contrast: f32,
}

/// Ten rows are work enough for a thread.
const ROWS: usize = 10;

/// Applies `f` to each row of a new image of the same size.
fn by_rows(width: usize, height: usize, f: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f32> {
    let mut out = vec![0.0; width * height];
    out.par_chunks_mut(width * ROWS).enumerate().for_each(|(block, rows)| {
        rows.chunks_mut(width).enumerate().for_each(|(y, row)| f(block * ROWS + y, row));
    });
    out
}

/// Mirrors an index at both ends, without repeating the last.
fn mirrored(i: isize, n: usize) -> usize {
    let period = 2 * (n as isize - 1).max(1);
    let i = i.rem_euclid(period);
    if i < n as isize { i as usize } else { (period - i) as usize }
}

fn blurred(image: &Grey) -> Vec<f32> {
    let (w, h) = (image.width, image.height);
    let reach = (3.6 * SIGMA).ceil() as isize;
    let mut taps = (-reach..=reach).map(|d| (-0.5 * (d as f32 / SIGMA).powi(2)).exp()).collect::<Vec<f32>>();
    let sum = taps.iter().sum::<f32>();
    taps.iter_mut().for_each(|t| *t /= sum);
    let columns = by_rows(w, h, |y, row| {
        for (k, &tap) in taps.iter().enumerate() {
            let from = mirrored(y as isize + k as isize - reach, h) * w;
            row.iter_mut().zip(&image.pixels[from..from + w]).for_each(|(o, &v)| *o += tap * v);
        }
    });
    by_rows(w, h, |y, row| {
        let from = &columns[y * w..][..w];
        let padded = (-reach..w as isize + reach).map(|x| from[mirrored(x, w)]).collect::<Vec<f32>>();
        for (k, &tap) in taps.iter().enumerate() {
            row.iter_mut().zip(&padded[k..]).for_each(|(o, &v)| *o += tap * v);
        }
    })
}

/// The mean over a square window, as much of it as is inside.
fn local_mean(values: &[f32], w: usize, h: usize) -> Vec<f32> {
    let sums = by_rows(w, h, |y, row| {
        // Of each row: running sums, so that a window is a difference.
        let mut prefix = Vec::with_capacity(w + 1);
        let mut sum = 0.0f64;
        prefix.push(sum);
        prefix.extend(values[y * w..][..w].iter().map(|&v| {
            sum += v as f64;
            sum
        }));
        for (x, o) in row.iter_mut().enumerate() {
            let (begin, end) = (x.saturating_sub(WINDOW), (x + WINDOW + 1).min(w));
            *o = ((prefix[end] - prefix[begin]) / (end - begin) as f64) as f32;
        }
    });
    by_rows(w, h, |y, row| {
        let (begin, end) = (y.saturating_sub(WINDOW), (y + WINDOW + 1).min(h));
        for from in sums[begin * w..end * w].chunks_exact(w) {
            row.iter_mut().zip(from).for_each(|(o, v)| *o += v);
        }
        row.iter_mut().for_each(|o| *o /= (end - begin) as f32);
    })
}

/// The standard deviation of the noise (J. Immerkaer, Fast noise variance estimation, 1996, with a median): grey levels.
fn noise(image: &Grey) -> f32 {
    let (w, h) = (image.width, image.height);
    const BINS: usize = 4096;
    let counts = (1..h - 1)
        .into_par_iter()
        .fold(
            || vec![0u32; BINS],
            |mut counts, y| {
                let row = |dy: usize| &image.pixels[(y + dy - 1) * w..][..w];
                let (above, here, below) = (row(0), row(1), row(2));
                for x in 1..w - 1 {
                    let second = |r: &[f32]| r[x - 1] - 2.0 * r[x] + r[x + 1];
                    let v = (second(above) - 2.0 * second(here) + second(below)).abs() / 6.0;
                    counts[((v * 16.0) as usize).min(BINS - 1)] += 1;
                }
                counts
            },
        )
        .reduce(
            || vec![0; BINS],
            |mut a, b| {
                a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
                a
            },
        );
    let half = counts.iter().map(|&c| c as u64).sum::<u64>() / 2;
    let mut below = 0;
    let bin = counts.iter().position(|&c| {
        below += c as u64;
        below > half
    });
    bin.unwrap_or(0) as f32 / 16.0 / 0.6745
}

/// The edges of an image, from the top, row by row: Gauss, Sobel, then the places where the gradient is largest along its own
/// direction, above the noise and above the local mean.
///
/// None in an image of less than 8 pixels a side. About 25 passes over the image; the same for any number of threads.
pub fn edges(image: &Grey) -> Vec<Edge> {
    let (w, h) = (image.width, image.height);
    if w < 8 || h < 8 {
        return vec![];
    }
    let threshold = (3.0 * noise(image) / (5.0 * SIGMA * SIGMA)).clamp(0.8, 4.0);
    let smooth = blurred(image);
    let gradient = |x: usize, y: usize| {
        let at = |dx: usize, dy: usize| smooth[(y + dy - 1) * w + x + dx - 1];
        let gx = (at(2, 0) - at(0, 0)) + 2.0 * (at(2, 1) - at(0, 1)) + (at(2, 2) - at(0, 2));
        let gy = (at(0, 2) - at(0, 0)) + 2.0 * (at(1, 2) - at(1, 0)) + (at(2, 2) - at(2, 0));
        (gx / 8.0, gy / 8.0)
    };
    let magnitude = by_rows(w, h, |y, row| {
        if y > 0 && y + 1 < h {
            for (x, o) in row.iter_mut().enumerate().take(w - 1).skip(1) {
                let (gx, gy) = gradient(x, y);
                *o = (gx * gx + gy * gy).sqrt();
            }
        }
    });
    let mean = local_mean(&magnitude, w, h);
    let between = |x: f32, y: f32| {
        let (x0, y0) = (x as usize, y as usize);
        let (u, v) = (x - x0 as f32, y - y0 as f32);
        let m = &magnitude[y0 * w + x0..];
        let (top, bottom) = (m[0] + (m[1] - m[0]) * u, m[w] + (m[w + 1] - m[w]) * u);
        top + (bottom - top) * v
    };
    let edge_at = |x: usize, y: usize| {
        let m = magnitude[y * w + x];
        let contrast = m / (mean[y * w + x] + 0.5);
        if m <= threshold || contrast <= CONTRAST {
            return None;
        }
        let (gx, gy) = gradient(x, y);
        let normal = (gx / m, gy / m);
        let ahead = between(x as f32 + normal.0, y as f32 + normal.1);
        let behind = between(x as f32 - normal.0, y as f32 - normal.1);
        // A ridge, and not the rounding errors of a slope.
        let curvature = 2.0 * m - ahead - behind;
        if m <= ahead || m < behind || curvature < FLATTEST * m {
            return None;
        }
        // The top of the parabola through the three.
        let off = (0.5 * (ahead - behind) / curvature).clamp(-0.5, 0.5);
        Some(Edge {
            x: x as f32 + off * normal.0,
            y: y as f32 + off * normal.1,
            normal,
            direction: direction(normal.0, normal.1),
            strength: m * contrast.min(3.0),
            contrast,
        })
    };
    let edge_at = &edge_at;
    let rows = (MARGIN..h - MARGIN).into_par_iter();
    rows.flat_map_iter(|y| (MARGIN..w - MARGIN).filter_map(move |x| edge_at(x, y))).collect()
}

/// At most `most` of the edges, the first in `order` first, such that no two of like direction (within 60 degrees) are closer than `apart`
/// pixels.
pub fn spread(edges: &[Edge], order: impl Iterator<Item = usize>, apart: f32, most: usize) -> Vec<usize> {
    let cell = apart.max(1.0);
    let of = |e: &Edge| ((e.x / cell) as usize + 1, (e.y / cell) as usize + 1);
    let (columns, rows) =
        edges.iter().map(of).fold((0, 0), |(c, r), (x, y)| (usize::max(c, x + 2), usize::max(r, y + 2)));
    const NONE: u32 = u32::MAX;
    let mut heads = vec![NONE; columns * rows];
    let mut next = vec![NONE; edges.len()];
    let mut kept = vec![];
    for i in order {
        let (e, (cx, cy)) = (&edges[i], of(&edges[i]));
        let crowded = (cy - 1..=cy + 1).any(|y| {
            (cx - 1..=cx + 1).any(|x| {
                let mut j = heads[y * columns + x];
                while j != NONE {
                    let o = &edges[j as usize];
                    let (dx, dy) = (e.x - o.x, e.y - o.y);
                    let alike = e.normal.0 * o.normal.0 + e.normal.1 * o.normal.1 > 0.5;
                    if alike && dx * dx + dy * dy < apart * apart {
                        return true;
                    }
                    j = next[j as usize];
                }
                false
            })
        });
        if crowded {
            continue;
        }
        next[i] = heads[cy * columns + cx];
        heads[cy * columns + cx] = i as u32;
        kept.push(i);
        if kept.len() == most {
            break;
        }
    }
    kept
}

/// Indices in falling order of a value; equal ones as they stand.
pub fn strongest_first(edges: &[Edge], value: impl Fn(&Edge) -> f32) -> Vec<usize> {
    let mut order = (0..edges.len()).collect::<Vec<usize>>();
    order.sort_by(|&a, &b| value(&edges[b]).total_cmp(&value(&edges[a])));
    order
}

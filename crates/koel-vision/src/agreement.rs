//! Agreement of luminance: whether the scene looks like the model under a pose.
//!
//! Edges alone confuse things of one kind: another page of text, the same sign with another number.
//! The scene is warped into the frame of the model and compared with it block by block.
use crate::affine::Affine;
use crate::fit::{Freedom, PointPair, fit};
use crate::picture::Grey;

/// Maximum side of a model's luminance, in pixels.
const SIDE: f32 = 256.0;
/// Side of a block in pixels of the frame, and the number of blocks along the shorter side of a
/// small model.
const BLOCK: (usize, usize) = (16, 6);
/// Minimum side of a block.
const MIN_BLOCK: usize = 6;
/// Maximum local shift, in pixels of the frame.
const REACH: i32 = 8;
/// Minimum standard deviation of a block with structure, in grey levels.
const STRUCTURE: f32 = 6.0;
/// Correlation of agreeing blocks: the minimum, and the maximum of the minimum.
const AGREES: (f32, f32) = (0.6, 0.9);
/// Maximum number of fits of a map to the places of blocks, and the minimum number of places.
const REFITS: usize = 8;
const LEAST_PLACES: usize = 8;
/// Correlation of the upper quarter of a model's blocks from which on it is not bent.
const PRECISE: f32 = 0.97;
/// Maximum entropy, in bits, of drawings, signs and text.
const DRAWING: f32 = 2.2;
/// Minimum number of blocks with structure.
const LEAST_BLOCKS: f32 = 12.0;
/// Deviation, in grey levels, that a block of the scene may have beyond the model's where the model
/// has little.
const TOLERATED: f32 = 10.0;

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
        let factor = (image.width.max(image.height) as f32 / SIDE).max(1.0);
        let small = if factor > 1.0 { image.shrunk(factor) } else { image.clone() };
        // Dark and pale images use all values, too.
        let mut sorted = small.pixels.clone();
        sorted.sort_unstable_by(f32::total_cmp);
        let part = |percent: usize| sorted[(sorted.len() - 1) * percent / 100];
        let (low, span) = (part(1), (part(99) - part(1)).max(8.0));
        let stretched = |v: &f32| (255.0 * (v - low) / span).round().clamp(0.0, 255.0) as u8;
        let pixels = small.pixels.iter().map(stretched).collect();
        Patch { width: small.width, height: small.height, pixels }
    }
    /// Returns the entropy of the values, in bits.
    fn entropy(&self) -> f32 {
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

/// Comparison of a model with a scene under a pose.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Agreement {
    /// Number of blocks of the model with structure that lie in the scene.
    pub blocks: f32,
    /// Number of those that agree.
    pub agreeing: f32,
    /// Number of those that agree, each weighted by how much its structure is of two dimensions.
    pub distinct: f32,
    /// Correlation that agreeing blocks exceed.
    pub least: f32,
    /// Upper quartile of the correlations.
    pub upper: f32,
    /// Number of agreeing blocks in whose neighbourhood nearly everything agrees, weighted as
    /// `distinct`.
    pub solid: f32,
    /// Number of disagreeing blocks that are surrounded by agreeing ones.
    pub enclosed: f32,
    /// Entropy of the model's luminance, in bits; low for drawings, signs and text.
    pub entropy: f32,
}

impl Agreement {
    /// Returns the fraction of the blocks with structure that agree.
    pub fn share(&self) -> f32 {
        if self.blocks > 0.0 { self.agreeing / self.blocks } else { 0.0 }
    }
    /// Returns whether the scene shows the model, rather than chance or a thing of the same kind.
    ///
    /// A photograph may be covered for the most part, if what is visible of it agrees as a whole.
    /// The parts of a sign, a word or a page of text are parts of others too: nothing else may be
    /// in its middle, and most of it must be visible.
    pub(crate) fn accepts(&self, evidence: f32, required: f32) -> bool {
        if self.blocks < LEAST_BLOCKS {
            return false;
        }
        let (share, whole) = (self.share(), self.share() >= 0.8);
        if self.entropy < DRAWING {
            return self.upper >= 0.95
                && self.enclosed <= (0.02 * self.blocks).max(1.0)
                && (whole || self.solid >= 3.0 && share >= 0.5);
        }
        // Straight edges alone, as of buildings, prove little, unless many edges agree.
        self.upper >= 0.85 && (self.solid >= 5.0 || whole && self.solid >= 2.0)
            || self.upper >= 0.97 && share >= 0.35 && evidence >= 2.0 * required
    }
    /// Returns whether the visible parts lie where the map says: the model is not bent.
    pub(crate) fn is_precise(&self) -> bool {
        self.upper >= PRECISE
    }
    /// Returns whether luminance alone is nearly proof, so that less evidence from edges suffices.
    pub(crate) fn is_strong(&self) -> bool {
        self.blocks >= 40.0 && self.upper >= 0.93 && (self.share() >= 0.8 || self.solid >= 8.0)
    }
}

/// Gaussian blur with mirrored borders. Returns a copy for a deviation of 0.
fn blurred(image: &Grey, sigma: f32) -> Grey {
    if sigma <= 0.0 {
        return image.clone();
    }
    let reach = (3.0 * sigma).ceil() as isize;
    let taps =
        (-reach..=reach).map(|i| (-0.5 * (i as f32 / sigma).powi(2)).exp()).collect::<Vec<f32>>();
    let sum = taps.iter().sum::<f32>();
    let taps = taps.iter().map(|t| t / sum).collect::<Vec<f32>>();
    let (w, h) = (image.width, image.height);
    let inside = |i: isize, n: usize| i.clamp(0, n as isize - 1) as usize;
    let mut rows = vec![0.0; w * h];
    for (out, row) in rows.chunks_exact_mut(w).zip(image.pixels.chunks_exact(w)) {
        for (k, tap) in taps.iter().enumerate() {
            for (x, o) in out.iter_mut().enumerate() {
                *o += tap * row[inside(x as isize + k as isize - reach, w)];
            }
        }
    }
    let mut pixels = vec![0.0; w * h];
    for (y, out) in pixels.chunks_exact_mut(w).enumerate() {
        for (k, tap) in taps.iter().enumerate() {
            let from = inside(y as isize + k as isize - reach, h) * w;
            out.iter_mut().zip(&rows[from..from + w]).for_each(|(o, v)| *o += tap * v);
        }
    }
    Grey { width: w, height: h, pixels }
}

/// Warps the scene into a frame of the given size; `map` leads from the frame to the scene. Each
/// pixel is the mean over its area; NaN outside the scene.
fn warped(scene: &Grey, map: &Affine, width: usize, height: usize) -> Grey {
    let scale = map.determinant().abs().sqrt();
    let n = (scale.ceil() as usize).clamp(1, 8);
    let offset = |k: usize| (k as f32 + 0.5) / n as f32 - 0.5;
    let at = |i: usize| {
        let (x, y) = ((i % width) as f32, (i / width) as f32);
        let mut sum = 0.0;
        for k in 0..n * n {
            let (u, v) = map.apply((x + offset(k % n), y + offset(k / n)));
            sum += scene.at(u, v).unwrap_or(f32::NAN);
        }
        sum / (n * n) as f32
    };
    Grey { width, height, pixels: (0..width * height).map(at).collect() }
}

/// Blocks of a frame.
struct Blocks {
    columns: usize,
    rows: usize,
    width: usize,
    height: usize,
}
impl Blocks {
    fn of(width: usize, height: usize) -> Blocks {
        let side = (width.min(height) / BLOCK.1).clamp(MIN_BLOCK, BLOCK.0);
        let count = |n: usize| (n / side).max(1);
        Blocks { columns: count(width), rows: count(height), width, height }
    }
    fn len(&self) -> usize {
        self.columns * self.rows
    }
    /// Returns the columns and rows of a block's pixels.
    fn extent(&self, block: usize) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        let (i, j) = (block % self.columns, block / self.columns);
        let part = |k: usize, n: usize, of: usize| k * of / n..(k + 1) * of / n;
        (part(i, self.columns, self.width), part(j, self.rows, self.height))
    }
    fn middle(&self, block: usize) -> (f32, f32) {
        let (xs, ys) = self.extent(block);
        let middle = |r: std::ops::Range<usize>| 0.5 * (r.start + r.end - 1) as f32;
        (middle(xs), middle(ys))
    }
    /// Returns the correlation of a block of `a` with `b` shifted, and the deviations of both;
    /// `None` if a pixel is missing.
    fn correlation(&self, a: &Grey, b: &Grey, block: usize, shift: (i32, i32)) -> Option<[f32; 3]> {
        let (xs, ys) = self.extent(block);
        let (mut sa, mut sb, mut aa, mut bb, mut ab, mut n) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
        let left = xs.start.checked_add_signed(shift.0 as isize)?;
        if left + xs.len() > self.width {
            return None;
        }
        for y in ys {
            let other = y.checked_add_signed(shift.1 as isize).filter(|&o| o < self.height)?;
            let of_a = &a.pixels[y * self.width..][xs.clone()];
            let of_b = &b.pixels[other * self.width + left..][..xs.len()];
            for (&u, &v) in of_a.iter().zip(of_b) {
                let (u, v) = (u - 128.0, v - 128.0);
                (sa, sb, aa, bb, ab, n) =
                    (sa + u, sb + v, aa + u * u, bb + v * v, ab + u * v, n + 1.0);
            }
        }
        let (va, vb) = (aa / n - (sa / n) * (sa / n), bb / n - (sb / n) * (sb / n));
        let covariance = ab / n - (sa / n) * (sb / n);
        let (da, db) = (va.max(0.0).sqrt(), vb.max(0.0).sqrt());
        let correlation = covariance / (da * db).max(1.0);
        correlation.is_finite().then_some([correlation, da, db])
    }
    /// Returns a block and those next to it.
    fn around(&self, block: usize) -> impl Iterator<Item = usize> + use<> {
        let (columns, rows) = (self.columns, self.rows);
        let (i, j) = (block % columns, block / columns);
        let near = |k: usize, n: usize| k.saturating_sub(1)..(k + 2).min(n);
        near(j, rows).flat_map(move |y| near(i, columns).map(move |x| y * columns + x))
    }
    /// Returns how much a block's structure is of two dimensions, from 0 (a straight edge) to 1.
    fn distinctness(&self, a: &Grey, block: usize) -> f32 {
        let (xs, ys) = self.extent(block);
        let (mut xx, mut xy, mut yy) = (0.0f32, 0.0, 0.0);
        for y in ys.start.max(1)..ys.end.min(self.height - 1) {
            for x in xs.start.max(1)..xs.end.min(self.width - 1) {
                let at = |dx: usize, dy: usize| a.pixels[(y + dy - 1) * self.width + x + dx - 1];
                let (gx, gy) = (at(2, 1) - at(0, 1), at(1, 2) - at(1, 0));
                (xx, xy, yy) = (xx + gx * gx, xy + gx * gy, yy + gy * gy);
            }
        }
        let (trace, gap) = (xx + yy, ((xx - yy).powi(2) + 4.0 * xy * xy).sqrt());
        if trace > 0.0 { ((trace - gap) / trace).clamp(0.0, 1.0) } else { 0.0 }
    }
    /// Returns the local shift of each block: the best of its own, smoothed by the median of its
    /// neighbours, because a surface bends smoothly.
    fn shifts(&self, a: &Grey, b: &Grey) -> Vec<(i32, i32)> {
        let score = |block, shift| self.correlation(a, b, block, shift).map_or(-1.0, |c| c[0]);
        let best = |block: usize| {
            // A shift must gain something over none.
            let mut best = (score(block, (0, 0)) + 0.05, (0, 0));
            for k in 0..81 {
                let shift = (2 * (k % 9) - REACH, 2 * (k / 9) - REACH);
                let one = (score(block, shift), shift);
                best = if one.0 > best.0 { one } else { best };
            }
            best.1
        };
        let own = (0..self.len()).map(best).collect::<Vec<(i32, i32)>>();
        let smooth = |block: usize| {
            let (xs, ys) = self.around(block).map(|other| own[other]).unzip();
            let middle = |mut v: Vec<i32>| {
                v.sort_unstable();
                v[v.len() / 2]
            };
            (middle(xs), middle(ys))
        };
        (0..self.len()).map(smooth).collect()
    }
}

/// Comparison and where the agreeing blocks are: points of the patch with their places in the
/// scene.
pub(crate) type Compared = (Agreement, Vec<PointPair>);

/// Compares a model with a scene; `map` leads from pixels of the patch to pixels of the scene.
///
/// Where a model is bent, the blocks lie beside their places under the map, and few are alike to
/// the last detail: if so, the map is fitted to them, and the better one of both is returned. The
/// map of a rigid model is exact on its edges, and blocks that agree by chance would only spoil it.
pub(crate) fn agreement(
    patch: &Patch,
    scene: &Grey,
    map: Affine,
    fits: bool,
) -> (Agreement, Affine) {
    let (mut best, mut places) = compared(patch, scene, &map);
    let mut map = map;
    for _ in 0..REFITS {
        let moved = |&(p, q): &PointPair| {
            let (x, y) = map.apply(p);
            (x - q.0).hypot(y - q.1)
        };
        let most = places.iter().map(moved).fold(0.0f32, f32::max);
        if !fits || best.is_precise() || places.len() < LEAST_PLACES || most < 1.0 {
            break;
        }
        let Some(fitted) = fit(Freedom::Affine, &places) else { break };
        let (other, others) = compared(patch, scene, &fitted);
        if other.agreeing < best.agreeing || other.upper < best.upper - 0.02 {
            break;
        }
        (best, places, map) = (other, others, fitted);
    }
    (best, map)
}

fn compared(patch: &Patch, scene: &Grey, map: &Affine) -> Compared {
    let scale = map.determinant().abs().sqrt();
    let (mut model, mut map, mut to_patch) = (patch.grey(), *map, Affine::IDENTITY);
    if scale.is_nan() || scale < 1.0 {
        // A model is not finer than the scene.
        let small = model.shrunk((1.0 / scale).clamp(1.0, 32.0));
        let (x, y) =
            (model.width as f32 / small.width as f32, model.height as f32 / small.height as f32);
        let larger = Affine::between_sizes(x, y);
        (model, map, to_patch) = (small, map.after(&larger), larger);
    }
    let (width, height) = (model.width, model.height);
    if width.min(height) < 2 * MIN_BLOCK {
        return Default::default();
    }
    let view = warped(scene, &map, width, height);
    let blocks = Blocks::of(width, height);
    let (a, b) = (blurred(&model, 1.0), blurred(&view, 1.0));
    let shifts = blocks.shifts(&blurred(&a, 1.5), &blurred(&b, 1.5));
    let correlations = sharpest(&blocks, (&a, &b), &shifts);
    let (agreement, agreeing) = summary(&blocks, (&a, &b), &correlations);
    let place = |(block, shift): Place| {
        let (x, y) = blocks.middle(block);
        (to_patch.apply((x, y)), map.apply((x + shift.0 as f32, y + shift.1 as f32)))
    };
    let agreement = Agreement { entropy: patch.entropy(), ..agreement };
    (agreement, agreeing.into_iter().map(place).collect())
}

/// Correlation of each block, the deviations of both sides, and the shift.
type Correlated = Option<([f32; 3], (i32, i32))>;

/// Returns the correlations of all blocks, after the blur of either side that makes them most
/// alike: the camera of one may be less sharp.
fn sharpest(blocks: &Blocks, (a, b): (&Grey, &Grey), shifts: &[(i32, i32)]) -> Vec<Correlated> {
    let of_block = |a: &Grey, b: &Grey, block: usize| {
        let (sx, sy) = shifts[block];
        let mut best: Correlated = blocks.correlation(a, b, block, (0, 0)).map(|c| (c, (0, 0)));
        for k in 0..9 {
            let shift = (sx + k % 3 - 1, sy + k / 3 - 1);
            let one = blocks.correlation(a, b, block, shift).map(|c| (c, shift));
            if (sx, sy) != (0, 0) && one.is_some_and(|o| best.is_none_or(|b| o.0[0] > b.0[0])) {
                best = one;
            }
        }
        best
    };
    let mut best = (f32::MIN, vec![]);
    for (of_a, of_b) in [(0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (3.5, 0.0), (0.0, 1.5)] {
        let (soft_a, soft_b) = (blurred(a, of_a), blurred(b, of_b));
        let all = (0..blocks.len())
            .map(|block| of_block(&soft_a, &soft_b, block))
            .collect::<Vec<Correlated>>();
        let structured =
            all.iter().flatten().filter(|c| c.0[1] >= STRUCTURE).map(|c| c.0[0].max(0.0));
        let mean = structured.clone().sum::<f32>() / structured.count().max(1) as f32;
        // A blur must gain something.
        if mean > best.0 + 0.02 {
            best = (mean, all);
        }
    }
    best.1
}

/// Returns the gain of the fit `scene = gain * model + offset` to the pixels of agreeing blocks.
fn gain_of(blocks: &Blocks, (a, b): (&Grey, &Grey), agreeing: &[Place]) -> Option<f64> {
    let (mut n, mut sa, mut sb, mut aa, mut ab) = (0.0f64, 0.0, 0.0, 0.0, 0.0);
    for &(block, shift) in agreeing {
        for (u, v) in pixels(blocks, (a, b), block, shift) {
            let (u, v) = (u as f64, v as f64);
            (n, sa, sb, aa, ab) = (n + 1.0, sa + u, sb + v, aa + u * u, ab + u * v);
        }
    }
    let variance = n * aa - sa * sa;
    let gain = (n * ab - sa * sb) / variance;
    (variance > 0.0 && gain > 0.05).then_some(gain)
}

/// Returns the pixels of a block in both images.
fn pixels<'a>(
    blocks: &Blocks,
    (a, b): (&'a Grey, &'a Grey),
    block: usize,
    shift: (i32, i32),
) -> impl Iterator<Item = (f32, f32)> + 'a {
    let (xs, ys) = blocks.extent(block);
    let (width, height) = (blocks.width, blocks.height);
    ys.flat_map(move |y| xs.clone().map(move |x| (x, y))).filter_map(move |(x, y)| {
        let to =
            |at: usize, by: i32, n: usize| at.checked_add_signed(by as isize).filter(|&o| o < n);
        let (u, v) = (to(x, shift.0, width)?, to(y, shift.1, height)?);
        let pair = (a.pixels[y * width + x], b.pixels[v * width + u]);
        pair.1.is_finite().then_some(pair)
    })
}

/// What a block shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shows {
    /// The same structure as the model's.
    Same,
    /// As little structure as the model's.
    Blank,
    /// Something else.
    Other,
    /// Nothing: it is outside the scene.
    Outside,
}

/// A block, and its displacement in the scene.
type Place = (usize, (i32, i32));

/// Counts what agrees and what does not.
fn summary(
    blocks: &Blocks,
    (a, b): (&Grey, &Grey),
    correlations: &[Correlated],
) -> (Agreement, Vec<Place>) {
    let structured = |c: &Correlated| c.filter(|c| c.0[1] >= STRUCTURE);
    let mut all = correlations.iter().filter_map(structured).map(|c| c.0[0]).collect::<Vec<f32>>();
    all.sort_by(f32::total_cmp);
    let Some(&upper) = all.get(all.len() * 3 / 4) else { return Default::default() };
    let least = (1.0 - 6.0 * (1.0 - upper)).clamp(AGREES.0, AGREES.1);
    let agrees = |c: &Correlated| structured(c).is_some_and(|c| c.0[0] >= least);
    let places = correlations.iter().enumerate().filter(|(_, c)| agrees(c));
    let places = places.filter_map(|(block, c)| Some((block, c.as_ref()?.1)));
    let places = places.collect::<Vec<Place>>();
    let gain = gain_of(blocks, (a, b), &places).map_or(1.0, |gain| gain as f32);
    let shows = |c: &Correlated| match c {
        None => Shows::Outside,
        Some(([_, of_model, of_scene], _)) if *of_model < STRUCTURE => {
            if *of_scene / gain < of_model + TOLERATED { Shows::Blank } else { Shows::Other }
        }
        Some(_) if agrees(c) => Shows::Same,
        Some(_) => Shows::Other,
    };
    let shown = correlations.iter().map(shows).collect::<Vec<Shows>>();
    let mut result = Agreement {
        blocks: all.len() as f32,
        least,
        upper,
        enclosed: enclosed(blocks, &shown) as f32,
        ..Default::default()
    };
    for block in (0..blocks.len()).filter(|&block| shown[block] == Shows::Same) {
        let distinct = blocks.distinctness(a, block);
        let around = blocks.around(block).map(|other| shown[other]);
        let (same, other) = around.fold((0, 0), |(same, other), s| {
            (same + (s == Shows::Same) as u32, other + (s == Shows::Other) as u32)
        });
        result.agreeing += 1.0;
        result.distinct += distinct;
        result.solid += if same >= 4 && other <= 1 { distinct } else { 0.0 };
    }
    (result, places)
}

/// Returns the number of blocks that show something else and are not connected, by others such,
/// with the border of the model.
fn enclosed(blocks: &Blocks, shown: &[Shows]) -> usize {
    let open = |block: usize| matches!(shown[block], Shows::Other | Shows::Outside);
    let (columns, rows) = (blocks.columns, blocks.rows);
    let at_border = |block: usize| {
        let (i, j) = (block % columns, block / columns);
        i == 0 || j == 0 || i + 1 == columns || j + 1 == rows
    };
    let mut reached = (0..blocks.len()).map(|b| open(b) && at_border(b)).collect::<Vec<bool>>();
    let mut next = (0..blocks.len()).filter(|&b| reached[b]).collect::<Vec<usize>>();
    while let Some(block) = next.pop() {
        let (i, j) = (block % columns, block / columns);
        let beside = |other: &usize| {
            let (x, y) = (other % columns, other / columns);
            x.abs_diff(i) + y.abs_diff(j) == 1
        };
        for other in blocks.around(block).filter(beside).filter(|&o| open(o)).collect::<Vec<_>>() {
            if !reached[other] {
                reached[other] = true;
                next.push(other);
            }
        }
    }
    (0..blocks.len()).filter(|&b| shown[b] == Shows::Other && !reached[b]).count()
}

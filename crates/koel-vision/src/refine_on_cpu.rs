//! Sums of the refinement on a CPU: those of [`koel_vision_kernels::refine::vision_moments()`] and
//! [`vision_strips()`](koel_vision_kernels::refine::vision_strips), bit by bit, in another order.
//!
//! A kernel's thread takes one point after the other, and waits for four reads of each, every one
//! at an address that the one before returned. Here, the eight strips of a candidate are the lanes
//! of vectors, and a block of points takes one step after the other: their reads overlap, no branch
//! depends on one of them, and all arithmetic is SIMD.
use koel_simt::host::{Work, on_v3};
use koel_vision_kernels::direction::direction;
use koel_vision_kernels::refine::{FAR, GOES_ON, MAP, OUTSIDE, Refinement, STRIPS, SUMS};
use koel_vision_kernels::{CLASSES, class};

const LANES: usize = STRIPS as usize;
/// Points that take a step together: their values stay in the first-level cache.
const BLOCK: usize = 32 * LANES;
const WORDS: usize = SUMS as usize;
/// Words of the sums: the moments for xx, xy and yy, the right-hand sides, score and pairs.
const RIGHT: usize = 18;
const SCORE: usize = 24;
const PAIRS: usize = 25;

/// Scene, as [`koel_vision_kernels::SceneIn`] has it, with one of its likelihoods.
pub(crate) struct SceneOnCpu<'s> {
    edges: &'s [[u32; 4]],
    index: &'s [u32],
    nearest: &'s [u8],
    likelihood: &'s [u8],
    width: u32,
    height: u32,
    /// For each code of `nearest`: the distance in the index to the pixel of the edge, and the
    /// squared distance, infinite without an edge.
    offsets: [(u32, f32); 256],
}
impl<'s> SceneOnCpu<'s> {
    pub(crate) fn new(
        edges: &'s [u32],
        (index, nearest, likelihood): (&'s [u32], &'s [u8], &'s [u8]),
        offsets: &[u32],
        (width, height): (u32, u32),
    ) -> SceneOnCpu<'s> {
        let decoded = |code: usize| {
            let known = offsets.get(code).filter(|_| code != FAR as usize);
            known.map_or((0, f32::INFINITY), |&offset| {
                let (dx, dy) = (offset as i16 as i32, (offset >> 16) as i16 as i32);
                ((dy * width as i32 + dx) as u32, (dx * dx + dy * dy) as f32)
            })
        };
        let (edges, _) = edges.as_chunks();
        let offsets = std::array::from_fn(decoded);
        SceneOnCpu { edges, index, nearest, likelihood, width, height, offsets }
    }
}

/// Points of a model, lane by lane, in the order in which the strips of a kernel take them: each
/// eight strips in some blocks of their own, filled up with points of no effect.
pub(crate) struct PointsOnCpu {
    blocks: Vec<Block>,
}
/// Some of the points of eight strips.
struct Block {
    /// Whether it is the last of these strips.
    ends: bool,
    len: usize,
    exists: [u32; BLOCK],
    x: [f32; BLOCK],
    y: [f32; BLOCK],
    normal: ([f32; BLOCK], [f32; BLOCK]),
    weight: [f32; BLOCK],
}
impl PointsOnCpu {
    /// Decodes points of four words with their weights, which `strips` threads share.
    pub(crate) fn of(points: &[u32], weights: &[u32], strips: usize) -> PointsOnCpu {
        let (points, _) = points.as_chunks::<4>();
        let mut blocks = vec![];
        for first in (0..strips).step_by(LANES) {
            let rows = (first..points.len()).step_by(strips).collect::<Vec<usize>>();
            let of_strips = rows.chunks(BLOCK / LANES);
            let last = of_strips.len();
            for (number, rows) in of_strips.enumerate() {
                let zeros = [0.0; BLOCK];
                let mut block = Block {
                    ends: number + 1 == last,
                    len: rows.len() * LANES,
                    exists: [0; BLOCK],
                    x: zeros,
                    y: zeros,
                    normal: (zeros, zeros),
                    weight: zeros,
                };
                for (row, &from) in rows.iter().enumerate() {
                    let own = points[from..].iter().zip(&weights[from..]).take(LANES);
                    for (k, (point, weight)) in (row * LANES..).zip(own) {
                        let [x, y, nx, ny] = point.map(f32::from_bits);
                        (block.x[k], block.y[k], block.exists[k]) = (x, y, 1);
                        (block.normal.0[k], block.normal.1[k]) = (nx, ny);
                        block.weight[k] = f32::from_bits(*weight);
                    }
                }
                blocks.push(block);
            }
        }
        PointsOnCpu { blocks }
    }
}

/// Writes the sums of each candidate that continues, as
/// [`vision_step()`](koel_vision_kernels::refine::vision_step) reads them. `of` has the index in
/// `points` of each candidate's model, `states` and `sums` are as for the kernels.
pub(crate) fn moments(
    scene: &SceneOnCpu,
    points: &[PointsOnCpu],
    (refinement, of): (&Refinement, &[usize]),
    states: &[u32],
    sums: &mut [u32],
) {
    let n = of.len();
    for (i, &model) in of.iter().enumerate() {
        if states[GOES_ON as usize * n + i] == 0 {
            continue;
        }
        let map = std::array::from_fn(|k| f32::from_bits(states[(MAP as usize + k) * n + i]));
        let mut totals = [[0.0; LANES]; WORDS];
        let blocks = &points[model].blocks;
        on_v3(Candidate { scene, refinement, map, blocks, totals: &mut totals });
        for (word, total) in totals.iter().enumerate() {
            for (strip, sum) in total.iter().enumerate() {
                sums[(word * LANES + strip) * n + i] = sum.to_bits();
            }
        }
    }
}

/// A candidate: its map, its model's points, and the sums over them.
struct Candidate<'c> {
    scene: &'c SceneOnCpu<'c>,
    refinement: &'c Refinement,
    map: [f32; 6],
    blocks: &'c [Block],
    totals: &'c mut [[f32; LANES]; WORDS],
}

/// Pairs of the points of a block: 0 where there is none.
struct Pairs {
    /// Place in the maps, and in the index.
    at: [u32; BLOCK],
    pixel: [u32; BLOCK],
    /// Position of the moved point, and then what leads to its edge.
    x: [f32; BLOCK],
    y: [f32; BLOCK],
    said: [f32; BLOCK],
    exists: [f32; BLOCK],
    normal: ([f32; BLOCK], [f32; BLOCK]),
    xx: [f32; BLOCK],
    xy: [f32; BLOCK],
    yy: [f32; BLOCK],
}

impl Work for Candidate<'_> {
    #[inline(always)]
    fn run(self) {
        let Candidate { scene, refinement, map, blocks, totals } = self;
        let zeros = [0.0; BLOCK];
        let mut pairs = Pairs {
            at: [0; BLOCK],
            pixel: [0; BLOCK],
            x: zeros,
            y: zeros,
            said: zeros,
            exists: zeros,
            normal: (zeros, zeros),
            xx: zeros,
            xy: zeros,
            yy: zeros,
        };
        let mut sums = [[0.0; LANES]; WORDS];
        for block in blocks {
            pairs.place(scene, &map, block);
            pairs.read_likelihoods(scene, block);
            add(&mut sums[SCORE], block.len, |k| block.weight[k] * pairs.said[k]);
            // The last step needs nothing but the score.
            if refinement.last == 0 {
                pairs.read_edges(scene, refinement.radius, block);
                pairs.weigh(refinement, block);
                pairs.sum(block, &mut sums);
            }
            if block.ends {
                for (total, sum) in totals.iter_mut().zip(&mut sums) {
                    total.iter_mut().zip(sum.iter()).for_each(|(total, sum)| *total += sum);
                    *sum = [0.0; LANES];
                }
            }
        }
    }
}
impl Pairs {
    /// Moves the points.
    #[inline(always)]
    fn place(&mut self, scene: &SceneOnCpu, map: &[f32; 6], block: &Block) {
        let ([a, b, c, d, x0, y0], &SceneOnCpu { width, height, .. }) = (*map, scene);
        for k in 0..block.len {
            let (px, py) = (block.x[k], block.y[k]);
            let (qx, qy) = (a * px + b * py + x0, c * px + d * py + y0);
            let (nx, ny) = (block.normal.0[k], block.normal.1[k]);
            let class = class(direction(d * nx - c * ny, a * ny - b * nx));
            let (x, y) = ((qx + 0.5) as i32 as u32, (qy + 0.5) as i32 as u32);
            let inside = (x < width) & (y < height) & (block.exists[k] != 0);
            let pixel = y.wrapping_mul(width).wrapping_add(x);
            let at = class.wrapping_mul(width.wrapping_mul(height)).wrapping_add(pixel);
            (self.x[k], self.y[k]) = (qx, qy);
            self.pixel[k] = pixel;
            self.at[k] = if inside { at } else { u32::MAX };
        }
    }
    #[inline(always)]
    fn read_likelihoods(&mut self, scene: &SceneOnCpu, block: &Block) {
        let likelihood = &scene.likelihood[..(CLASSES * scene.width * scene.height) as usize];
        for k in 0..block.len {
            let said = likelihood.get(self.at[k] as usize).map_or(OUTSIDE, |l| *l as i8 as i32);
            self.said[k] = said as f32;
        }
    }
    /// Finds the edges that are within the radius.
    #[inline(always)]
    fn read_edges(&mut self, scene: &SceneOnCpu, radius: f32, block: &Block) {
        let SceneOnCpu { edges, index, nearest, offsets, .. } = scene;
        for k in 0..block.len {
            let code = nearest.get(self.at[k] as usize).copied().unwrap_or(FAR);
            let (offset, distance2) = offsets[code as usize];
            let exists = distance2 <= radius * radius;
            let pixel = if exists { self.pixel[k].wrapping_add(offset) } else { 0 };
            let edge = if exists { index[pixel as usize] } else { 0 };
            let [x, y, ux, uy] = edges[edge as usize].map(f32::from_bits);
            self.exists[k] = if exists { 1.0 } else { 0.0 };
            (self.x[k], self.y[k]) = (x - self.x[k], y - self.y[k]);
            (self.normal.0[k], self.normal.1[k]) = (ux, uy);
        }
    }
    /// Computes the weights of the pairs, across the edge and along it, and the sums' factors.
    #[inline(always)]
    fn weigh(&mut self, refinement: &Refinement, block: &Block) {
        let Refinement { radius, along, .. } = *refinement;
        let sharpness = 2.0 / (radius * radius);
        for k in 0..block.len {
            let (ex, ey, ux, uy) = (self.x[k], self.y[k], self.normal.0[k], self.normal.1[k]);
            // Approximates exp(-z).
            let z = (ex * ex + ey * ey) * sharpness;
            let w = 1.0 / (1.0 + z * (1.0 + z * (0.5 + z * (1.0 / 6.0 + z * (1.0 / 24.0)))));
            let v = w * along;
            let exists = self.exists[k] != 0.0;
            let of_pair = |value: f32| if exists { value } else { 0.0 };
            let (sxx, sxy, syy) = (
                of_pair(w * ux * ux + v * uy * uy),
                of_pair((w - v) * ux * uy),
                of_pair(w * uy * uy + v * ux * ux),
            );
            (self.xx[k], self.xy[k], self.yy[k]) = (sxx, sxy, syy);
            (self.x[k], self.y[k]) = (sxx * ex + sxy * ey, sxy * ex + syy * ey);
        }
    }
    /// Adds the pairs to the sums. What does not exist adds 0, which changes no sum.
    #[inline(always)]
    fn sum(&self, block: &Block, sums: &mut [[f32; LANES]; WORDS]) {
        let (x, y, n) = (&block.x, &block.y, block.len);
        for (factors, first) in [(&self.xx, 0), (&self.xy, 6), (&self.yy, 12)] {
            add(&mut sums[first], n, |k| factors[k] * (x[k] * x[k]));
            add(&mut sums[first + 1], n, |k| factors[k] * (x[k] * y[k]));
            add(&mut sums[first + 2], n, |k| factors[k] * (y[k] * y[k]));
            add(&mut sums[first + 3], n, |k| factors[k] * x[k]);
            add(&mut sums[first + 4], n, |k| factors[k] * y[k]);
            add(&mut sums[first + 5], n, |k| factors[k]);
        }
        for (factors, first) in [(&self.x, RIGHT), (&self.y, RIGHT + 3)] {
            add(&mut sums[first], n, |k| factors[k] * x[k]);
            add(&mut sums[first + 1], n, |k| factors[k] * y[k]);
            add(&mut sums[first + 2], n, |k| factors[k]);
        }
        add(&mut sums[PAIRS], n, |k| self.exists[k]);
    }
}

/// Adds `n` values to the sums of their lanes.
#[inline(always)]
fn add(sum: &mut [f32; LANES], n: usize, value: impl Fn(usize) -> f32) {
    let mut total = *sum;
    for row in (0..n.min(BLOCK)).step_by(LANES) {
        for (lane, total) in total.iter_mut().enumerate() {
            *total += value(row + lane);
        }
    }
    *sum = total;
}

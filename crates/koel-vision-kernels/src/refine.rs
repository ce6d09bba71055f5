//! Refinement: moves each candidate, an affine map from model to scene, so that its points lie on
//! edges.
//!
//! Uses iterated closest points. Each step pairs the moved model points with the nearest scene edge
//! of their direction by one read of a map, several threads per candidate. It then solves for the
//! affine change that brings them together: mostly across the edge, a little along it.
//!
//! [`vision_refine()`] takes all steps in one launch. Its threads wait for each other, so a CPU
//! runs [`vision_moments()`], [`vision_strips()`] and [`vision_step()`] for each step instead,
//! which give the same bits.
use crate::SceneIn;
use crate::direction::direction;
use koel_simt::{Buf, In, Thread, U32x4, kernel, unroll};

/// Code of a pixel without an edge nearby.
pub const FAR: u8 = 255;
/// Score of a point that falls outside the scene, in sixteenths.
pub const OUTSIDE: i32 = -15;
/// Minimum number of pairs for a step.
const MIN_PAIRS: f32 = 8.0;
/// The refinement ends if the determinant of the linear part is outside this range, or if the ratio
/// `s` of its singular values has `s + 1/s` above twice `STRETCH`: the model would collapse or
/// explode.
const DETERMINANTS: (f32, f32) = (0.1, 3.5);
const STRETCH: f32 = 2.6;

/// Scores that differ by less than this fraction count as equal.
const TIE: f32 = 0.02;

/// Minimum number of threads per candidate in [`vision_moments()`], and the number of sums that
/// [`vision_step()`] adds up: a thread takes every eighth point of few. The points of longer lists
/// are shared by more threads, a multiple of this, and [`vision_strips()`] adds their sums up to
/// this number. The order is fixed.
pub const STRIPS: u32 = 8;
/// First word of the map in a candidate's state. The state is stored word by word, each for all
/// candidates. The map has six words: the linear part by rows, in pixels per unit, and the position
/// of the model's centre.
pub const MAP: u32 = 0;
/// First word of the latest of the best maps so far.
pub const BEST: u32 = 6;
/// Word of that map's score. The top score follows.
pub const BEST_SCORE: u32 = 12;
const TOP: u32 = 13;
/// Word that is not 0 while the candidate continues.
pub const GOES_ON: u32 = 14;
/// Words per candidate.
pub const STATE: u32 = 15;
/// Words of the sums of a strip, all floats: moments for xx, xy and yy of the directions, the
/// right-hand sides, the score, the number of pairs.
pub const SUMS: u32 = 3 * 6 + 2 * 3 + 2;

/// Parameters of one step of a batch: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Refinement {
    /// Number of candidates.
    pub candidates: u32,
    /// Threads per candidate in [`vision_moments()`].
    pub strips: u32,
    /// Maximum distance of an edge, in pixels.
    pub radius: f32,
    /// Weight of the distance along the edge relative to that across it.
    pub along: f32,
    /// Damping, relative to the mean of the diagonal.
    pub damping: f32,
    /// 1 if this step only computes the score and moves nothing, else 0; [`vision_refine()`] sets
    /// it.
    pub last: u32,
    /// Number of steps of [`vision_refine()`].
    pub steps: u32,
    /// Ratio of the radii of two successive steps.
    pub shrink: f32,
    /// 1 if the candidates of [`vision_refine()`] start again from their best maps, else 0.
    pub again: u32,
}

/// Models and their candidates: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct ModelsIn {
    /// For each model: its first point, the number of its points, the unit of their coordinates
    /// (pixels, a float), 0.
    pub models: In<u32>,
    /// Model of each candidate.
    pub of: In<u32>,
    /// For each model point: x, y (in units, relative to the model's centre) and the normal's x, y.
    pub points: In<u32>,
    /// Weight of each model point's vote.
    pub weights: In<u32>,
}

impl ModelsIn {
    /// Returns the unit of the coordinates of a candidate's model, in pixels.
    #[inline(always)]
    fn unit(&self, candidate: u32) -> f32 {
        let U32x4([_, _, unit, _]) = self.models.x4().get(self.of.get(candidate));
        f32::from_bits(unit)
    }
}

/// Index of an element of a symmetric matrix in its lower triangle, stored row by row.
#[inline(always)]
pub(crate) const fn at(row: usize, column: usize) -> usize {
    row * (row + 1) / 2 + column
}

/// Solves `a x = b` for a positive definite `a` of `N` rows, given by its lower triangle of `T`
/// elements (square-root-free Cholesky). Returns `None` if `a` is not positive definite.
#[inline(always)]
pub(crate) fn solve<const N: usize, const T: usize>(
    mut a: [f32; T],
    mut b: [f32; N],
) -> Option<[f32; N]> {
    const { assert!(T == at(N, 0)) };
    let mut good = true;
    unroll::<N>(|j| {
        unroll::<N>(|k| {
            if k < j {
                // Column k is done: a[j][k] is element (j, k) of L times D.
                let scaled = a[at(j, k)];
                let l = scaled / a[at(k, k)];
                unroll::<N>(|i| {
                    if i >= j {
                        // a[i][k] still holds L times D, because row i is not reached yet.
                        a[at(i, j)] -= a[at(i, k)] * l;
                    }
                });
                b[j] -= l * b[k];
            }
        });
        good &= a[at(j, j)] > 1e-12;
    });
    // b is now D times L^T x, and a[i][k] for i > k is L times D.
    unroll::<N>(|back| {
        let j = N - 1 - back;
        unroll::<N>(|i| {
            if i > j {
                b[j] -= a[at(i, j)] * b[i];
            }
        });
        b[j] /= a[at(j, j)];
    });
    good.then_some(b)
}

/// Sums over the points of a strip.
struct Moments {
    /// Normal equations: six moments of the pairs, for each of xx, xy and yy of the directions.
    xx: [f32; 6],
    xy: [f32; 6],
    yy: [f32; 6],
    /// Their right-hand sides.
    rx: [f32; 3],
    ry: [f32; 3],
    score: f32,
    pairs: f32,
}
impl Moments {
    /// Sums over a strip of the points of a model that is moved by `map`.
    #[inline(always)]
    fn of(
        refinement: &Refinement,
        models: &ModelsIn,
        model: u32,
        map: &[f32; 6],
        strip: u32,
        scene: &SceneIn,
        likelihood: In<u8>,
    ) -> Moments {
        let Refinement { strips, radius, along, .. } = *refinement;
        let ModelsIn { models, points, weights, .. } = *models;
        let U32x4([first, count, _, _]) = models.x4().get(model);
        let [a, b, c, d, x0, y0] = *map;
        let mut moments = Moments {
            xx: [0.0; 6],
            xy: [0.0; 6],
            yy: [0.0; 6],
            rx: [0.0; 3],
            ry: [0.0; 3],
            score: 0.0,
            pairs: 0.0,
        };
        let sharpness = 2.0 / (radius * radius);
        let (end, mut k) = (first + count, first + strip);
        while k < end {
            let U32x4(point) = points.x4().get(k);
            let [px, py, nx, ny] = point.map(f32::from_bits);
            let weight = f32::from_bits(weights.get(k));
            let (qx, qy) = (a * px + b * py + x0, c * px + d * py + y0);
            k += strips;
            let towards = || direction(d * nx - c * ny, a * ny - b * nx);
            let Some(place) = scene.place((qx, qy), towards) else {
                moments.score += weight * OUTSIDE as f32;
                continue;
            };
            moments.score += weight * (likelihood.get(place.index) as i8 as f32);
            let Some([ex, ey, ux, uy]) = scene.nearest(place, radius) else { continue };
            let (ex, ey) = (ex - qx, ey - qy);
            // Approximates exp(-z).
            let z = (ex * ex + ey * ey) * sharpness;
            let w = 1.0 / (1.0 + z * (1.0 + z * (0.5 + z * (1.0 / 6.0 + z * (1.0 / 24.0)))));
            moments.add((px, py), (ex, ey), (ux, uy), w, w * along);
        }
        moments
    }
    /// Adds a pair: a model point (px, py), whose edge is at (ex, ey) from where it was moved, with
    /// normal (ux, uy). `w` and `v` are the weights across the edge and along it.
    #[inline(always)]
    fn add(
        &mut self,
        (px, py): (f32, f32),
        (ex, ey): (f32, f32),
        (ux, uy): (f32, f32),
        w: f32,
        v: f32,
    ) {
        self.pairs += 1.0;
        let (sxx, sxy, syy) =
            (w * ux * ux + v * uy * uy, (w - v) * ux * uy, w * uy * uy + v * ux * ux);
        let (fx, fy) = (sxx * ex + sxy * ey, sxy * ex + syy * ey);
        let moments = [px * px, px * py, py * py, px, py, 1.0];
        unroll::<6>(|n| {
            self.xx[n] += sxx * moments[n];
            self.xy[n] += sxy * moments[n];
            self.yy[n] += syy * moments[n];
        });
        unroll::<3>(|n| {
            self.rx[n] += fx * moments[3 + n];
            self.ry[n] += fy * moments[3 + n];
        });
    }
    /// Writes the words of the sums with `put`.
    #[inline(always)]
    fn write(&self, put: impl Fn(usize, u32)) {
        unroll::<6>(|n| {
            put(n, self.xx[n].to_bits());
            put(6 + n, self.xy[n].to_bits());
            put(12 + n, self.yy[n].to_bits());
        });
        unroll::<3>(|n| {
            put(18 + n, self.rx[n].to_bits());
            put(21 + n, self.ry[n].to_bits());
        });
        put(24, self.score.to_bits());
        put(25, self.pairs.to_bits());
    }
}

/// Sums over one strip of the points of each candidate that continues. Thread `s n + i` takes strip
/// `s` of candidate `i` of `n`.
///
/// `likelihood` is stored class by class, signed, in sixteenths. Word `w` of a strip goes to
/// `sums[w strips n + thread]`.
#[kernel(image = VISION, threads = 128, independent, native_v3)]
pub fn vision_moments(
    t: Thread,
    refinement: Refinement,
    models: ModelsIn,
    scene: SceneIn,
    likelihood: In<u8>,
    states: In<u32>,
    sums: Buf<u32>,
) {
    let Refinement { candidates, strips, .. } = refinement;
    let of = models.of;
    let (id, candidates) = (t.global_id(), crate::at_least_one(candidates));
    let (i, strip) = (id % candidates, id / candidates);
    if strip >= strips || states.get(GOES_ON * candidates + i) == 0 {
        return;
    }
    let mut map = [0.0f32; 6];
    unroll::<6>(|k| map[k] = f32::from_bits(states.get((MAP + k as u32) * candidates + i)));
    let moments = Moments::of(&refinement, &models, of.get(i), &map, strip, &scene, likelihood);
    moments.write(|word, bits| sums.store(word as u32 * strips * candidates + id, bits));
}

/// Adds the sums of `strips` threads up to those of [`STRIPS`]: of each word of each candidate,
/// those of every eighth strip. One thread for each word and candidate of `out`, which is stored
/// like `sums`.
#[kernel(image = VISION, threads = 128, independent)]
pub fn vision_strips(
    t: Thread,
    words: u32,
    candidates: u32,
    strips: u32,
    sums: In<u32>,
    out: Buf<u32>,
) {
    let (id, row) = (t.global_id(), crate::at_least_one(STRIPS * candidates));
    let (word, first) = (id / row, id % row);
    if word >= words {
        return;
    }
    let (mut sum, mut at) = (0.0, first);
    while at < strips * candidates {
        sum += f32::from_bits(sums.get(word * strips * candidates + at));
        at += row;
    }
    out.store(id, sum.to_bits());
}

/// Returns the sum of a word of candidate `i` of `n` over [`STRIPS`] strips.
#[inline(always)]
pub(crate) fn over_strips(sums: In<u32>, word: usize, (i, n): (u32, u32)) -> f32 {
    let mut sum = 0.0;
    unroll::<{ STRIPS as usize }>(|strip| {
        let at = (word as u32 * STRIPS + strip as u32) * n + i;
        sum += f32::from_bits(sums.get(at));
    });
    sum
}

/// Performs a step of each candidate that continues, from the sums of [`vision_moments()`]. One
/// thread per candidate.
#[kernel(image = VISION, threads = 32, independent)]
pub fn vision_step(
    t: Thread,
    refinement: Refinement,
    models: ModelsIn,
    sums: In<u32>,
    states: Buf<u32>,
) {
    let Refinement { candidates, .. } = refinement;
    let i = t.global_id();
    if i >= candidates || states.load(GOES_ON * candidates + i) == 0 {
        return;
    }
    let sum = |word: usize| over_strips(sums, word, (i, candidates));
    let mut candidate = Candidate::load(|word| states.load(word * candidates + i));
    let unit = models.unit(i);
    let goes_on = candidate.advance(&refinement, unit, sum);
    candidate.store(|word, bits| states.store(word * candidates + i, bits));
    if !goes_on {
        states.store(GOES_ON * candidates + i, 0);
    }
}

/// Threads per block of [`vision_refine()`], and the maximum number of candidates that they share.
pub const TOGETHER: u32 = 128;
const SHARING: u32 = TOGETHER / STRIPS;
/// Bytes of shared memory: the sums of all threads, those of all strips, and the maps, with a word
/// that is not 0 while the candidate continues.
const SHARED: usize = 4 * (SUMS * TOGETHER + SUMS * SHARING + 7 * SHARING) as usize;

/// Takes all steps and computes the last score of each candidate. `strips` threads per candidate;
/// a block has as many candidates as its threads suffice for.
#[kernel(image = VISION, threads = 128, shared = SHARED)]
pub fn vision_refine(
    t: Thread,
    refinement: Refinement,
    models: ModelsIn,
    scene: SceneIn,
    likelihood: In<u8>,
    states: Buf<u32>,
) {
    let Refinement { candidates, strips, steps, shrink, .. } = refinement;
    let strips = if strips < STRIPS { STRIPS } else { strips };
    let together = crate::at_least_one(TOGETHER / strips);
    let mut shared = t.shared();
    let sums = shared.array::<u32>(SUMS * TOGETHER);
    let totals = shared.array::<u32>(SUMS * SHARING);
    let maps = shared.array::<u32>(7 * SHARING);
    let (own, strip) = (t.id() / strips, t.id() % strips);
    let i = t.block() * together + own;
    let (exists, leads) = (i < candidates, strip == 0);
    let state = |word: u32| if exists { states.load(word * candidates + i) } else { 0 };
    let mut candidate = Candidate::load(state);
    if refinement.again != 0 {
        candidate = Candidate { map: candidate.best, score: f32::MIN, top: f32::MIN, ..candidate };
    }
    let mut goes_on = exists;
    let publish = |candidate: &Candidate, goes_on: bool| {
        unroll::<6>(|k| maps.store(k as u32 * SHARING + own, candidate.map[k].to_bits()));
        maps.store(6 * SHARING + own, goes_on as u32);
    };
    if leads {
        publish(&candidate, goes_on);
    }
    t.barrier();
    let (mut step, mut now) = (0, refinement);
    while step <= steps {
        now.last = (step == steps) as u32;
        let runs = maps.load(6 * SHARING + own) != 0;
        if runs {
            let mut map = [0.0f32; 6];
            unroll::<6>(|k| map[k] = f32::from_bits(maps.load(k as u32 * SHARING + own)));
            let model = models.of.get(i);
            let moments = Moments::of(&now, &models, model, &map, strip, &scene, likelihood);
            moments.write(|word, bits| sums.store(word as u32 * TOGETHER + t.id(), bits));
        }
        t.barrier();
        let mut at = t.id();
        while at < SUMS * together {
            let (word, of) = (at / together, at % together);
            if maps.load(6 * SHARING + of) != 0 {
                let first = word * TOGETHER + of * strips;
                let mut total = 0.0;
                unroll::<{ STRIPS as usize }>(|group| {
                    let (mut sum, mut k) = (0.0, group as u32);
                    while k < strips {
                        sum += f32::from_bits(sums.load(first + k));
                        k += STRIPS;
                    }
                    total += sum;
                });
                totals.store(word * SHARING + of, total.to_bits());
            }
            at += TOGETHER;
        }
        t.barrier();
        if leads && goes_on {
            let sum = |word: usize| f32::from_bits(totals.load(word as u32 * SHARING + own));
            goes_on = candidate.advance(&now, models.unit(i), sum);
            publish(&candidate, goes_on);
        }
        t.barrier();
        now.radius *= shrink;
        step += 1;
    }
    if leads && exists {
        candidate.store(|word, bits| states.store(word * candidates + i, bits));
    }
}

/// A candidate: its map, the best map so far with its score, and the top score.
struct Candidate {
    map: [f32; 6],
    best: [f32; 6],
    score: f32,
    top: f32,
}
impl Candidate {
    #[inline(always)]
    fn load(state: impl Fn(u32) -> u32) -> Candidate {
        let (mut map, mut best) = ([0.0f32; 6], [0.0f32; 6]);
        unroll::<6>(|k| {
            map[k] = f32::from_bits(state(MAP + k as u32));
            best[k] = f32::from_bits(state(BEST + k as u32));
        });
        let (score, top) = (f32::from_bits(state(BEST_SCORE)), f32::from_bits(state(TOP)));
        Candidate { map, best, score, top }
    }
    #[inline(always)]
    fn store(&self, set: impl Fn(u32, u32)) {
        unroll::<6>(|k| {
            set(MAP + k as u32, self.map[k].to_bits());
            set(BEST + k as u32, self.best[k].to_bits());
        });
        set(BEST_SCORE, self.score.to_bits());
        set(TOP, self.top.to_bits());
    }
    /// Takes a step, from the sums over all points; returns whether the candidate continues.
    #[inline(always)]
    fn advance(&mut self, refinement: &Refinement, unit: f32, sum: impl Fn(usize) -> f32) -> bool {
        // Scores are coarse and steps are fine: a later map is closer unless its score drops.
        let score = sum(24);
        self.top = if score > self.top { score } else { self.top };
        if score >= self.top - TIE * self.top.abs() {
            (self.best, self.score) = (self.map, score);
        }
        if refinement.last != 0 || sum(25) < MIN_PAIRS {
            return false;
        }
        // Unknowns: the change of a, b, x0, then of c, d, y0. The moments of (px, py, 1) with
        // itself are: xx xy x / yy y / 1.
        let (mut xx, mut xy, mut yy) = ([0.0f32; 6], [0.0f32; 6], [0.0f32; 6]);
        unroll::<6>(|n| (xx[n], xy[n], yy[n]) = (sum(n), sum(6 + n), sum(12 + n)));
        let mut n = [
            xx[0], //
            xx[1], xx[2], //
            xx[3], xx[4], xx[5], //
            xy[0], xy[1], xy[3], yy[0], //
            xy[1], xy[2], xy[4], yy[1], yy[2], //
            xy[3], xy[4], xy[5], yy[3], yy[4], yy[5],
        ];
        let mut trace = 0.0;
        unroll::<6>(|j| trace += n[at(j, j)]);
        unroll::<6>(|j| n[at(j, j)] += refinement.damping * trace * (1.0 / 6.0));
        let change = solve(n, [sum(18), sum(19), sum(20), sum(21), sum(22), sum(23)]);
        let [a, b, x, c, d, y] = change.unwrap_or([0.0; 6]);
        let m = &mut self.map;
        *m = [m[0] + a, m[1] + b, m[2] + c, m[3] + d, m[4] + x, m[5] + y];
        let unit2 = unit * unit;
        let determinant = (m[0] * m[3] - m[1] * m[2]) / unit2;
        let frobenius = (m[0] * m[0] + m[1] * m[1] + m[2] * m[2] + m[3] * m[3]) / unit2;
        // The comparisons are written so that NaN fails.
        change.is_some()
            && determinant >= DETERMINANTS.0
            && determinant <= DETERMINANTS.1
            && frobenius <= 2.0 * STRETCH * determinant
            && m[4].abs() + m[5].abs() < 1e6
    }
}

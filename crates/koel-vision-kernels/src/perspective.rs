//! Perspective: moves each candidate, a homography from model to scene, to the edges next to the
//! model's contour.
//!
//! Gauss-Newton steps as in [`crate::refine`], with eight unknowns. [`vision_perspective()`] takes
//! all of them in one launch. Its threads wait for each other, so a CPU runs
//! [`vision_perspective_moments()`], which pairs the moved points with edges, several threads per
//! candidate, [`crate::refine::vision_strips()`], which adds their sums up, and
//! [`vision_perspective_step()`], which solves, for each step instead. They give the same bits. All
//! candidates are of one model.
use crate::SceneIn;
use crate::direction::direction;
use crate::refine::{ModelsIn, OUTSIDE, STRIPS, at, over_strips, solve};
use koel_simt::{Buf, In, Thread, U32x4, kernel, unroll};

/// Number of candidates: one that does not move, for comparison, and two that do.
pub const CANDIDATES: u32 = 3;
/// Words of a candidate's state, each stored for all candidates: a, b, d, e, x0, y0, g, h of the
/// map `x' = x0 + (a x + b y) / w`, `y' = y0 + (d x + e y) / w`, `w = g x + h y + 1`, floats, and a
/// word that is not 0 while the candidate continues. Model coordinates are relative to the middle
/// of the model's points, in units; scene coordinates are pixels.
pub const STATE: u32 = 9;
/// The last of these words.
pub const GOES_ON: u32 = 8;
/// Number of unknowns, and of the elements of a symmetric matrix of them.
const UNKNOWNS: usize = 8;
const TRIANGLE: usize = 36;
/// Words of the sums of a strip, all floats: normal equations, their right-hand sides, the number
/// of pairs.
pub const SUMS: u32 = (TRIANGLE + UNKNOWNS) as u32 + 1;
/// Minimum number of pairs for a step.
const LEAST_EDGES: f32 = 40.0;
/// Relative damping of the affine unknowns, and of the two of perspective.
const DAMPING: (f32, f32) = (1e-6, 1e-3);
/// Maximum ratio of the distances of two corners of the model from the viewer.
const MAX_DEPTH: f32 = 3.0;
/// Minimum area, in the scene, of an area of the model.
const LEAST_AREA: f32 = 1e-4;

/// Words of the limits of a step, for each candidate: the maximum distance of an edge, in pixels,
/// and the square of the distance from the middle, in units, within which points count; floats.
pub const LIMITS: u32 = 2;
/// Threads per candidate of [`vision_perspective()`], and in [`vision_perspective_moments()`].
pub const MOVING: u32 = 32 * STRIPS;

/// Parameters: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Perspective {
    /// Number of the model among those whose points are given.
    pub model: u32,
    /// Number of the step, or of the first one of [`vision_perspective()`].
    pub step: u32,
    /// Number of steps that have limits.
    pub end: u32,
    /// Point of the model, in units, around which points count.
    pub middle: [f32; 2],
    /// Left, top, right and bottom of the model, in units.
    pub sides: [f32; 4],
}

/// Homography of a candidate.
struct Map([f32; UNKNOWNS]);
impl Map {
    #[inline(always)]
    fn load(state: impl Fn(u32) -> u32) -> Map {
        let mut map = [0.0; UNKNOWNS];
        unroll::<UNKNOWNS>(|k| map[k] = f32::from_bits(state(k as u32)));
        Map(map)
    }
    /// Returns the place of a point relative to that of the middle, and the depth there.
    #[inline(always)]
    fn apply(&self, x: f32, y: f32) -> ((f32, f32), f32) {
        let Map([a, b, d, e, _, _, g, h]) = *self;
        let w = g * x + h * y + 1.0;
        (((a * x + b * y) / w, (d * x + e * y) / w), w)
    }
    /// Returns the derivatives, times the depth, by x and y of the two coordinates of a point that
    /// is mapped to (u, v).
    #[inline(always)]
    fn derivatives(&self, (u, v): (f32, f32)) -> [f32; 4] {
        let Map([a, b, d, e, _, _, g, h]) = *self;
        [a - u * g, b - u * h, d - v * g, e - v * h]
    }
    /// Takes a step, from the sums over all points of a model of this unit; returns the new map,
    /// and whether the candidate continues.
    #[inline(always)]
    fn advanced(&self, step: &Perspective, unit: f32, sum: impl Fn(usize) -> f32) -> (Map, bool) {
        let mut normal = [0.0f32; TRIANGLE];
        let mut right = [0.0f32; UNKNOWNS];
        unroll::<UNKNOWNS>(|m| {
            unroll::<UNKNOWNS>(|n| {
                if n <= m {
                    normal[at(m, n)] = sum(at(m, n));
                }
            });
            normal[at(m, m)] *= 1.0 + if m < 6 { DAMPING.0 } else { DAMPING.1 };
            right[m] = sum(TRIANGLE + m);
        });
        let change = solve(normal, right);
        let mut goes_on = sum(TRIANGLE + UNKNOWNS) >= LEAST_EDGES && change.is_some();
        let [da, db, dc, dd, de, df, dg, dh] = change.unwrap_or([0.0; UNKNOWNS]);
        let Map([a, b, d, e, x0, y0, g, h]) = *self;
        let (g, h) = (g + dg, h + dh);
        // The middle moves by (dc, df); the other words are relative to it.
        let (a, b) = (a + da - dc * g, b + db - dc * h);
        let (d, e) = (d + dd - df * g, e + de - df * h);
        let map = Map([a, b, d, e, x0 + dc, y0 + df, g, h]);
        let least = LEAST_AREA * unit * unit;
        let [left, top, right, bottom] = step.sides;
        let (mut nearest, mut farthest) = (f32::MAX, 0.0f32);
        unroll::<4>(|corner| {
            let x = if corner % 2 == 0 { left } else { right };
            let y = if corner / 2 == 0 { top } else { bottom };
            let (at, depth) = map.apply(x, y);
            let [a, b, d, e] = map.derivatives(at);
            nearest = if depth < nearest { depth } else { nearest };
            farthest = if depth > farthest { depth } else { farthest };
            let area = (a * e - b * d) / (depth * depth);
            // NaN fails.
            goes_on &= depth > 0.0 && area > least;
        });
        goes_on &= farthest <= MAX_DEPTH * nearest;
        (map, goes_on)
    }
}

/// Sums over a strip of the contour's points.
struct Moments {
    normal: [f32; TRIANGLE],
    right: [f32; UNKNOWNS],
    pairs: f32,
}
impl Moments {
    /// Sums over strip `strip` of [`MOVING`], for candidate `i`, which is at `map`.
    #[inline(always)]
    fn of(
        step: &Perspective,
        limits: In<u32>,
        models: &ModelsIn,
        scene: &SceneIn,
        (i, map): (u32, &Map),
        strip: u32,
    ) -> Moments {
        let U32x4([first, count, _, _]) = models.models.x4().get(step.model);
        let Map([_, _, _, _, x0, y0, _, _]) = *map;
        let of_step = LIMITS * (step.step * CANDIDATES + i);
        let radius = f32::from_bits(limits.get(of_step));
        let reach2 = f32::from_bits(limits.get(of_step + 1));
        let [mx, my] = step.middle;
        let mut moments = Moments { normal: [0.0; TRIANGLE], right: [0.0; UNKNOWNS], pairs: 0.0 };
        let mut k = first + strip;
        while k < first + count {
            let U32x4(point) = models.points.x4().get(k);
            let [px, py, nx, ny] = point.map(f32::from_bits);
            k += MOVING;
            if (px - mx) * (px - mx) + (py - my) * (py - my) > reach2 {
                continue;
            }
            let ((u, v), w) = map.apply(px, py);
            let [a, b, d, e] = map.derivatives((u, v));
            let towards = || direction(e * nx - d * ny, a * ny - b * nx);
            let (qx, qy) = (x0 + u, y0 + v);
            let Some(place) = scene.place((qx, qy), towards) else { continue };
            let Some([ex, ey, ux, uy]) = scene.nearest(place, radius) else { continue };
            let (ex, ey) = (ex - qx, ey - qy);
            // An edge lies beside the middle of its pixel.
            if ex * ex + ey * ey > radius * radius {
                continue;
            }
            let across = ux * ex + uy * ey;
            let off = across / radius;
            let weight = (1.0 - off * off) * (1.0 - off * off);
            let along = ux * u + uy * v;
            let (x, y, one) = (px / w, py / w, 1.0 / w);
            let row = [ux * x, ux * y, ux * one, uy * x, uy * y, uy * one, -along * x, -along * y];
            unroll::<UNKNOWNS>(|m| {
                unroll::<UNKNOWNS>(|n| {
                    if n <= m {
                        moments.normal[at(m, n)] += weight * row[m] * row[n];
                    }
                });
                moments.right[m] += weight * across * row[m];
            });
            moments.pairs += 1.0;
        }
        moments
    }
    /// Writes the words of the sums with `put`.
    #[inline(always)]
    fn write(&self, put: impl Fn(usize, u32)) {
        unroll::<UNKNOWNS>(|m| {
            unroll::<UNKNOWNS>(|n| {
                if n <= m {
                    put(at(m, n), self.normal[at(m, n)].to_bits());
                }
            });
            put(TRIANGLE + m, self.right[m].to_bits());
        });
        put(TRIANGLE + UNKNOWNS, self.pairs.to_bits());
    }
}

/// Sums over one strip of the contour's points for each candidate that continues. Thread `s n + i`
/// takes strip `s` of candidate `i` of `n`. Word `w` of a strip goes to `sums[w strips n +
/// thread]`.
#[kernel(image = VISION, threads = 128, independent)]
pub fn vision_perspective_moments(
    t: Thread,
    step: Perspective,
    limits: In<u32>,
    models: ModelsIn,
    scene: SceneIn,
    states: In<u32>,
    sums: Buf<u32>,
) {
    let (id, i, strip) = (t.global_id(), t.global_id() % CANDIDATES, t.global_id() / CANDIDATES);
    if strip >= MOVING || states.get(GOES_ON * CANDIDATES + i) == 0 {
        return;
    }
    let map = Map::load(|word| states.get(word * CANDIDATES + i));
    let moments = Moments::of(&step, limits, &models, &scene, (i, &map), strip);
    moments.write(|word, bits| sums.store(word as u32 * MOVING * CANDIDATES + id, bits));
}

/// Moves each candidate that continues, by the sums of [`STRIPS`] strips. A candidate with too few
/// pairs, or one that would turn a corner of the model over or away, does not continue. One thread
/// per candidate.
#[kernel(image = VISION, threads = 32, independent)]
pub fn vision_perspective_step(
    t: Thread,
    step: Perspective,
    models: ModelsIn,
    sums: In<u32>,
    states: Buf<u32>,
) {
    let i = t.global_id();
    if i >= CANDIDATES || states.load(GOES_ON * CANDIDATES + i) == 0 {
        return;
    }
    let U32x4([_, _, unit, _]) = models.models.x4().get(step.model);
    let map = Map::load(|word| states.load(word * CANDIDATES + i));
    let sum = |word: usize| over_strips(sums, word, (i, CANDIDATES));
    let (map, goes_on) = map.advanced(&step, f32::from_bits(unit), sum);
    unroll::<UNKNOWNS>(|k| states.store(k as u32 * CANDIDATES + i, map.0[k].to_bits()));
    if !goes_on {
        states.store(GOES_ON * CANDIDATES + i, 0);
    }
}

/// Bytes of shared memory: the sums of all threads, those of [`STRIPS`] strips, and the state.
const SHARED: usize = 4 * (SUMS * MOVING + SUMS * STRIPS + STATE) as usize;

const _: () = assert!(MOVING == 256);

/// Takes the steps `step.step..step.end` of each candidate that continues. One block per candidate.
#[kernel(image = VISION, threads = 256, shared = SHARED)]
pub fn vision_perspective(
    t: Thread,
    step: Perspective,
    limits: In<u32>,
    models: ModelsIn,
    scene: SceneIn,
    states: Buf<u32>,
) {
    let (id, i) = (t.id(), t.block());
    let mut shared = t.shared();
    let sums = shared.array::<u32>(SUMS * MOVING);
    let totals = shared.array::<u32>(SUMS * STRIPS);
    let state = shared.array::<u32>(STATE);
    if id < STATE {
        state.store(id, states.load(id * CANDIDATES + i));
    }
    t.barrier();
    let U32x4([_, _, unit, _]) = models.models.x4().get(step.model);
    let mut now = step;
    while now.step < step.end && state.load(GOES_ON) != 0 {
        let map = Map::load(|word| state.load(word));
        let moments = Moments::of(&now, limits, &models, &scene, (i, &map), id);
        moments.write(|word, bits| sums.store(word as u32 * MOVING + id, bits));
        t.barrier();
        let mut total = id;
        while total < SUMS * STRIPS {
            let (word, mut strip) = (total / STRIPS, total % STRIPS);
            let mut sum = 0.0;
            while strip < MOVING {
                sum += f32::from_bits(sums.load(word * MOVING + strip));
                strip += STRIPS;
            }
            totals.store(total, sum.to_bits());
            total += MOVING;
        }
        t.barrier();
        if id == 0 {
            let sum = |word: usize| {
                let mut sum = 0.0;
                unroll::<{ STRIPS as usize }>(|strip| {
                    sum += f32::from_bits(totals.load(word as u32 * STRIPS + strip as u32));
                });
                sum
            };
            let (map, goes_on) = map.advanced(&now, f32::from_bits(unit), sum);
            unroll::<UNKNOWNS>(|k| state.store(k as u32, map.0[k].to_bits()));
            state.store(GOES_ON, goes_on as u32);
        }
        t.barrier();
        now.step += 1;
    }
    if id < STATE {
        states.store(id * CANDIDATES + i, state.load(id));
    }
}

/// Writes what `likelihood` says of each point of a model under each candidate, in sixteenths,
/// times the point's weight, to `scores[point n + candidate]`. One thread for each point and
/// candidate of `n`.
///
/// Arrays as in [`crate::refine`].
#[kernel(image = VISION, threads = 128, independent)]
pub fn vision_perspective_scores(
    t: Thread,
    model: u32,
    models: ModelsIn,
    scene: SceneIn,
    likelihood: In<u8>,
    states: In<u32>,
    scores: Buf<u32>,
) {
    let (id, i) = (t.global_id(), t.global_id() % CANDIDATES);
    let U32x4([first, count, _, _]) = models.models.x4().get(model);
    if id >= count * CANDIDATES {
        return;
    }
    let k = first + id / CANDIDATES;
    let map = Map::load(|word| states.get(word * CANDIDATES + i));
    let U32x4(point) = models.points.x4().get(k);
    let [px, py, nx, ny] = point.map(f32::from_bits);
    let ((u, v), _) = map.apply(px, py);
    let [a, b, d, e] = map.derivatives((u, v));
    let Map([_, _, _, _, x0, y0, _, _]) = map;
    let towards = || direction(e * nx - d * ny, a * ny - b * nx);
    let said = match scene.place((x0 + u, y0 + v), towards) {
        Some(place) => likelihood.get(place.index) as i8 as f32,
        None => OUTSIDE as f32,
    };
    scores.store(id, (said * f32::from_bits(models.weights.get(k))).to_bits());
}

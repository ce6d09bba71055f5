//! Hypotheses: every ordered pair of scene points looks up the model bases with the same
//! invariants, and each such basis is tested on a few points of the model.
//!
//! This is geometric hashing (Lamdan and Wolfson 1988; Alcantara et al. 2009, section 6) with
//! oriented points. The invariants of a pair are the directions of its two points relative to that
//! of the pair. One lookup therefore gives complete hypotheses, and the votes are reads of a
//! likelihood map instead of increments of counters.
use crate::direction::direction;
use crate::{CLASSES, at_least_one, class};
use koel_kernels::hash::mulhi;
use koel_simt::{Buf, In, Thread, U32x4, kernel};

/// Model points that vote per hypothesis.
pub const TESTS: u32 = 32;
/// Score of a point that falls outside the scene.
pub const OUTSIDE: i8 = -20;
/// Minimum score of a hypothesis after 8, 16 and all 32 votes. Lower ones are dropped early.
pub const STAGES: [i32; 3] = [-30, -20, 0];

/// Parameters of a search: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Search {
    /// Number of scene points.
    pub points: u32,
    /// Width of the scene in pixels.
    pub width: u32,
    /// Height of the scene in pixels.
    pub height: u32,
    /// Width times height.
    pub pixels: u32,
    /// Bins per turn of each of the two invariants.
    pub bins: u32,
    /// Square of the minimum distance of a pair, in pixels squared.
    pub shortest2: f32,
    /// Square of the maximum distance.
    pub longest2: f32,
    /// Square of the minimum scale, scene over model.
    pub smallest2: f32,
    /// Square of the maximum scale.
    pub largest2: f32,
    /// Hypotheses kept per model and scene point.
    pub keep: u32,
    /// Threads that share a first point. Each takes every `strips`-th second point. At least 1.
    pub strips: u32,
}

/// Bases of the models in one table: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct BasesIn {
    /// First entry of each key, and the end of the last one.
    pub starts: In<u32>,
    /// 8 words per entry: basis vector over its squared length (x, y), basis origin (x, y),
    /// direction of the basis, first group of test points of its tilt, its model, its number in the
    /// model.
    pub entries: In<u32>,
    /// 12 words per group of four points: their x, their y, their directions.
    pub tests: In<u32>,
    /// 0 for each model that is not searched for.
    pub alive: In<u32>,
}

/// Returns the key of a pair: the bins of its two directions, each relative to the direction from
/// the first point to the second.
#[inline(always)]
pub fn key(bins: u32, first: u32, second: u32, pair: u32) -> u32 {
    let bin = |direction: u32| mulhi(direction.wrapping_sub(pair), bins);
    bin(first) * bins + bin(second)
}

/// Packs a hypothesis: its score plus 1 in the upper 16 bits (so that 0 is an empty slot), the
/// number of the basis, the second point.
#[inline(always)]
pub fn pack(score: i32, number: u32, second: u32) -> u64 {
    ((score + 1) as u64) << 48 | (number as u64) << 24 | second as u64
}
/// Returns score, number of the basis and second point of a kept hypothesis, or `None` for an empty
/// slot.
pub fn unpack(kept: u64) -> Option<(u32, u32, u32)> {
    let score = (kept >> 48) as u32;
    (score > 0).then(|| (score - 1, (kept >> 24) as u32 & 0xFF_FFFF, kept as u32 & 0xFF_FFFF))
}

/// A similarity from the tilted model to the scene.
#[derive(Clone, Copy)]
struct Pose {
    cos: f32,
    sin: f32,
    /// Model point that maps to `(x, y)`.
    origin: (f32, f32),
    x: f32,
    y: f32,
    turn: u32,
}

/// Returns the sum of the votes of four model points. Has no branches, because the result of each
/// read arrives late.
#[inline(always)]
#[track_caller]
fn four_votes(pose: Pose, group: u32, scene: Search, tests: In<u32>, likelihood: In<u8>) -> i32 {
    let (xs, ys, directions) =
        (tests.x4().get(3 * group), tests.x4().get(3 * group + 1), tests.x4().get(3 * group + 2));
    let place = |x: u32, y: u32, direction: u32| {
        let (x, y) = (f32::from_bits(x) - pose.origin.0, f32::from_bits(y) - pose.origin.1);
        let (x, y) = (pose.cos * x - pose.sin * y + pose.x, pose.sin * x + pose.cos * y + pose.y);
        // SAFETY: the coordinates are finite and far below 2^31, because the pair's length and the
        // scale are within their bounds.
        let (x, y) =
            unsafe { (x.to_int_unchecked::<i32>() as u32, y.to_int_unchecked::<i32>() as u32) };
        let inside = (x < scene.width) & (y < scene.height);
        let at = class(direction.wrapping_add(pose.turn)) * scene.pixels;
        // A point outside the scene gets a meaningless index here, which is not used.
        let at = at.wrapping_add(y.wrapping_mul(scene.width)).wrapping_add(x);
        if inside { at } else { scene.pixels * CLASSES }
    };
    let (U32x4([x0, x1, x2, x3]), U32x4([y0, y1, y2, y3]), U32x4([d0, d1, d2, d3])) =
        (xs, ys, directions);
    let at = [place(x0, y0, d0), place(x1, y1, d1), place(x2, y2, d2), place(x3, y3, d3)];
    let vote = |at: u32| likelihood.get(at) as i8 as i32;
    vote(at[0]) + vote(at[1]) + vote(at[2]) + vote(at[3])
}

/// Keeps a hypothesis if it is among the best of `slots`. The best stay regardless of the order of
/// arrival: a slot is only overwritten by a better hypothesis, and the one replaced was the worst
/// of all. Returns a lower bound of all slots from now on.
#[inline(always)]
#[track_caller]
fn keep(best: Buf<u64>, first: u32, slots: u32, kept: u64) -> u64 {
    loop {
        let (mut worst, mut at, mut slot) = (u64::MAX, first, 0);
        while slot < slots {
            let other = best.load_relaxed(first + slot);
            if other < worst {
                (worst, at) = (other, first + slot);
            }
            slot += 1;
        }
        if kept <= worst || best.cas(at, worst, kept) == worst {
            return worst;
        }
    }
}

/// Finds the best hypotheses of each model and scene point, in no particular order. Each point has
/// [`Search::strips`] threads; thread `s` tries the pairs with every `strips`-th point from `s` on.
///
/// `points` holds x, y, direction, 0 of each scene point. `likelihood` is stored class by class,
/// row by row, signed, followed by [`OUTSIDE`]. `best` has [`Search::keep`] slots for each model
/// and point, which are 0 initially or hold the results of another table.
#[kernel(image = VISION, threads = 256, min_blocks = 4, independent)]
pub fn vision_vote(
    t: Thread,
    search: Search,
    points: In<u32>,
    bases: BasesIn,
    likelihood: In<u8>,
    best: Buf<u64>,
) {
    let BasesIn { starts, entries, tests, alive } = bases;
    let strips = at_least_one(search.strips);
    let (i, strip) = (t.global_id() / strips, t.global_id() % strips);
    if i >= search.points {
        return;
    }
    let U32x4([xi, yi, di, _]) = points.x4().get(i);
    let (xi, yi) = (f32::from_bits(xi), f32::from_bits(yi));
    // The slots used last, and a lower bound of them.
    let (mut known, mut least) = (u32::MAX, 0);
    let mut j = strip;
    while j < search.points {
        let U32x4([xj, yj, dj, _]) = points.x4().get(j);
        let (dx, dy) = (f32::from_bits(xj) - xi, f32::from_bits(yj) - yi);
        let length2 = dx * dx + dy * dy;
        if length2 >= search.shortest2 && length2 <= search.longest2 {
            let pair = direction(dx, dy);
            let key = key(search.bins, di, dj, pair);
            let (mut e, end) = (starts.get(key), starts.get(key + 1));
            while e < end {
                let U32x4([bx, by, ox, oy]) = entries.x4().get(2 * e);
                let (bx, by) = (f32::from_bits(bx), f32::from_bits(by));
                let (cos, sin) = (dx * bx + dy * by, dy * bx - dx * by);
                let scale2 = cos * cos + sin * sin;
                if scale2 >= search.smallest2 && scale2 <= search.largest2 {
                    let U32x4([turned, first, model, number]) = entries.x4().get(2 * e + 1);
                    let origin = (f32::from_bits(ox), f32::from_bits(oy));
                    let turn = pair.wrapping_sub(turned);
                    // Add half a pixel, because conversion to pixels truncates.
                    let pose = Pose { cos, sin, origin, x: xi + 0.5, y: yi + 0.5, turn };
                    let some = |group| four_votes(pose, group, search, tests, likelihood);
                    let mut score = if alive.get(model) != 0 {
                        some(first) + some(first + 1)
                    } else {
                        i32::MIN
                    };
                    if score >= STAGES[0] {
                        score += some(first + 2) + some(first + 3);
                        if score >= STAGES[1] {
                            score += some(first + 4)
                                + some(first + 5)
                                + some(first + 6)
                                + some(first + 7);
                            if score >= STAGES[2] {
                                let (kept, slots) = (
                                    pack(score, number, j),
                                    (model * search.points + i) * search.keep,
                                );
                                if slots != known || kept > least {
                                    (known, least) = (slots, keep(best, slots, search.keep, kept));
                                }
                            }
                        }
                    }
                }
                e += 1;
            }
        }
        j += strips;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use koel_simt::Exec;

    /// Every thread keeps eight values in one of two lists.
    #[kernel(image = VISION, threads = 64)]
    fn keep_all(t: Thread, values: In<u64>, slots: u32, best: Buf<u64>) {
        let mut i = t.global_id();
        while i < 8 * t.grid_dim() * t.block_dim() {
            keep(best, i % 2 * slots, slots, values.get(i));
            i += t.grid_dim() * t.block_dim();
        }
    }

    #[test]
    fn the_best_stay_whoever_comes_first() {
        for (seed, slots) in [(1, 1), (2, 4), (3, 8), (4, 8), (5, 4)] {
            // All values are distinct, as hypotheses are. They rise in the last round and fall in
            // the one before.
            let value = |i: u64| match seed {
                4 => 5000 - i,
                5 => 1 + i,
                _ => 1 + (i * 2_654_435_761 + seed * 77) % 65_537,
            };
            let values = (0..1024).map(value).collect::<Vec<u64>>();
            let mut best = vec![0; 2 * slots];
            // SAFETY: `values` has 8 values for each thread of two blocks, and `best` has room for
            // two lists.
            unsafe {
                keep_all::launch(
                    &Exec::new(seed),
                    2,
                    In::new(&values),
                    slots as u32,
                    Buf::new(&mut best),
                )
                .unwrap()
            };
            for (list, kept) in best.chunks_exact_mut(slots).enumerate() {
                let mut expected =
                    values.iter().skip(list).step_by(2).copied().collect::<Vec<u64>>();
                expected.sort_by(|a, b| b.cmp(a));
                kept.sort_by(|a, b| b.cmp(a));
                assert_eq!(kept, &expected[..slots], "seed {seed}, list {list}");
            }
        }
    }
}

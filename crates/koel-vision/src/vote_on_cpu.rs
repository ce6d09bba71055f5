//! Votes on a CPU: the hypotheses of [`koel_vision_kernels::vote`], bit by bit, in another order.
//!
//! A kernel's thread tests one hypothesis after the other, and waits for the reads of each. Here,
//! all hypotheses of a scene point take a step together, eight voting points at a time, which suits
//! SIMD: their reads overlap, and no branch depends on one of them.
use crate::bases::BINS;
use koel_simt::host::{Work, on_v3};
use koel_vision_kernels::direction::direction;
use koel_vision_kernels::vote::{STAGES, Search, TESTS, key, pack};
use koel_vision_kernels::{CLASSES, class};
use rayon::prelude::*;

/// Voting points that are placed together.
const LANES: usize = 8;
/// Scene points per task; enough work for a thread.
const POINTS: usize = 16;
/// Scene points that are skipped together if all are too far from another: they are neighbours.
const RUN: usize = 16;

/// Words of a table for one pass, as [`koel_vision_kernels::vote::BasesIn`] has them.
#[derive(Clone, Copy)]
pub(crate) struct Words<'t> {
    pub starts: &'t [u32],
    pub entries: &'t [u32],
    pub tests: &'t [u32],
}

/// Eight voting points.
#[derive(Clone, Copy)]
struct Tests {
    x: [f32; LANES],
    y: [f32; LANES],
    direction: [u32; LANES],
}
impl Tests {
    /// Decodes two groups of four.
    fn of(words: &[u32; 24]) -> Tests {
        let at = |k: usize, row: usize| words[k / 4 * 12 + row * 4 + k % 4];
        Tests {
            x: std::array::from_fn(|k| f32::from_bits(at(k, 0))),
            y: std::array::from_fn(|k| f32::from_bits(at(k, 1))),
            direction: std::array::from_fn(|k| at(k, 2)),
        }
    }
}

/// One part of the models' bases.
struct Bases<'t> {
    search: Search,
    starts: &'t [u32],
    entries: &'t [[u32; 8]],
    tests: Vec<Tests>,
}

/// Scene of a search: its points, word by word, and its likelihoods.
struct Scene<'s> {
    x: Vec<f32>,
    y: Vec<f32>,
    direction: Vec<u32>,
    /// Bounds of each [`RUN`] points.
    runs: Vec<Bounds>,
    likelihood: &'s [u8],
}

/// Smallest and largest coordinates of some points.
struct Bounds {
    x: (f32, f32),
    y: (f32, f32),
}
impl Bounds {
    fn of(points: &[[u32; 4]]) -> Bounds {
        let extent = |k: usize| {
            let all = points.iter().map(|p| f32::from_bits(p[k]));
            all.fold((f32::MAX, f32::MIN), |(least, most), v| (least.min(v), most.max(v)))
        };
        Bounds { x: extent(0), y: extent(1) }
    }
    /// Returns a square that no point's squared distance from (x, y) is below: rounding is
    /// monotonic, so that this holds to the last bit.
    #[inline(always)]
    fn off2(&self, x: f32, y: f32) -> f32 {
        let off = |(least, most): (f32, f32), v: f32| (least - v).max(v - most).max(0.0);
        let (dx, dy) = (off(self.x, x), off(self.y, y));
        dx * dx + dy * dy
    }
}

/// Pair of scene points.
#[derive(Clone, Copy, Default)]
struct Pair {
    dx: f32,
    dy: f32,
    second: u32,
}

/// A similarity from a tilted model to the scene, and what it has scored so far.
#[derive(Clone, Copy, Default)]
struct Hypothesis {
    cos: f32,
    sin: f32,
    origin: (f32, f32),
    turn: u32,
    /// First group of four voting points.
    tests: u32,
    model: u32,
    number: u32,
    second: u32,
    score: i32,
}

/// Lists of a task, which are reused from point to point.
#[derive(Default)]
struct Lists {
    pairs: Vec<Pair>,
    keys: Vec<(u32, u32)>,
    hypotheses: Vec<Hypothesis>,
}

/// Returns the `keep` best hypotheses of each model and scene point, 0 where there are fewer: model
/// by model, point by point, in no particular order. The same as
/// [`koel_vision_kernels::vote::vision_vote()`], for any number of threads.
///
/// `points` and `likelihood` are as for the kernel, `alive` has a word for each model. Each part of
/// the table has its own search, with equal `points`, sizes and `keep`.
pub(crate) fn best_hypotheses(
    points: &[[u32; 4]],
    parts: &[(Search, Words<'_>)],
    alive: &[u32],
    likelihood: &[u8],
) -> Vec<u64> {
    let scene = Scene {
        x: points.iter().map(|p| f32::from_bits(p[0])).collect(),
        y: points.iter().map(|p| f32::from_bits(p[1])).collect(),
        direction: points.iter().map(|p| p[2]).collect(),
        runs: points.chunks(RUN).map(Bounds::of).collect(),
        likelihood,
    };
    let parts = parts.iter().map(|&(search, words)| Bases {
        search,
        starts: words.starts,
        entries: words.entries.as_chunks().0,
        tests: words.tests.as_chunks().0.iter().map(Tests::of).collect(),
    });
    let parts = parts.collect::<Vec<Bases>>();
    let slots = parts.first().map_or(0, |part| part.search.keep as usize);
    let of_point = slots * alive.len();
    let mut by_point = vec![0u64; of_point * points.len()];
    let tasks = by_point.par_chunks_mut((of_point * POINTS).max(1)).enumerate();
    tasks.for_each(|(task, best)| {
        on_v3(Task { scene: &scene, parts: &parts, alive, first: task * POINTS, best });
    });
    if alive.len() == 1 {
        return by_point;
    }
    let slot = |model: usize, i: usize| &by_point[i * of_point + model * slots..][..slots];
    (0..alive.len())
        .flat_map(|m| (0..points.len()).flat_map(move |i| slot(m, i)))
        .copied()
        .collect()
}

/// Search of some scene points for all models.
struct Task<'s> {
    scene: &'s Scene<'s>,
    parts: &'s [Bases<'s>],
    alive: &'s [u32],
    /// First of the points.
    first: usize,
    /// Slots of each point.
    best: &'s mut [u64],
}
impl Work for Task<'_> {
    #[inline(always)]
    fn run(self) {
        let Task { scene, parts, alive, first, best } = self;
        let mut lists = Lists::default();
        let of_point = alive.len() * parts.first().map_or(0, |p| p.search.keep as usize);
        for (i, best) in (first..).zip(best.chunks_mut(of_point)) {
            for part in parts {
                part.vote(scene, i, alive, &mut lists, best);
            }
        }
    }
}

impl Bases<'_> {
    /// Adds the hypotheses of scene point `i` to `best`, which has the slots of all models.
    #[inline(always)]
    fn vote(&self, scene: &Scene, i: usize, alive: &[u32], lists: &mut Lists, best: &mut [u64]) {
        let Lists { pairs, keys, hypotheses } = lists;
        self.pairs(scene, i, pairs);
        // Without branches, in a loop of its own.
        keys.clear();
        keys.extend(pairs.iter().map(|p| {
            let pair = direction(p.dx, p.dy);
            (key(BINS, scene.direction[i], scene.direction[p.second as usize], pair), pair)
        }));
        self.hypotheses(pairs, keys, alive, hypotheses);
        let place = (scene.x[i] + 0.5, scene.y[i] + 0.5);
        let mut first = 0;
        for (last, least) in [1, 2, TESTS / 8].into_iter().zip(STAGES) {
            for h in hypotheses.iter_mut() {
                for group in first..last {
                    let tests = &self.tests[(h.tests / 2 + group) as usize];
                    h.score += self.votes(h, place, tests, scene.likelihood);
                }
            }
            retain(hypotheses, |h| h.score >= least);
            first = last;
        }
        let slots = self.search.keep as usize;
        for h in hypotheses.iter() {
            keep(&mut best[h.model as usize * slots..][..slots], pack(h.score, h.number, h.second));
        }
    }
    /// Lists the points at a possible distance from point `i`.
    #[inline(always)]
    fn pairs(&self, scene: &Scene, i: usize, pairs: &mut Vec<Pair>) {
        let Search { shortest2, longest2, .. } = self.search;
        let (x, y, n) = (scene.x[i], scene.y[i], scene.x.len());
        // Not cleared: all that is kept is written first.
        pairs.resize(n, Pair::default());
        let mut kept = 0;
        let runs = scene.x.chunks(RUN).zip(scene.y.chunks(RUN)).zip(&scene.runs);
        for (run, ((xs, ys), bounds)) in runs.enumerate() {
            if bounds.off2(x, y) > longest2 {
                continue;
            }
            for (second, (&xj, &yj)) in (RUN * run..).zip(xs.iter().zip(ys)) {
                let (dx, dy) = (xj - x, yj - y);
                let length2 = dx * dx + dy * dy;
                pairs[kept] = Pair { dx, dy, second: second as u32 };
                kept += (length2 >= shortest2 && length2 <= longest2) as usize;
            }
        }
        pairs.truncate(kept);
    }
    /// Lists the hypotheses of all pairs whose scale is possible.
    #[inline(always)]
    fn hypotheses(
        &self,
        pairs: &[Pair],
        keys: &[(u32, u32)],
        alive: &[u32],
        hypotheses: &mut Vec<Hypothesis>,
    ) {
        let Search { smallest2, largest2, .. } = self.search;
        hypotheses.clear();
        for (&Pair { dx, dy, second }, &(key, pair)) in pairs.iter().zip(keys) {
            let run = self.starts[key as usize] as usize..self.starts[key as usize + 1] as usize;
            for entry in &self.entries[run] {
                let [bx, by, ox, oy] = [entry[0], entry[1], entry[2], entry[3]].map(f32::from_bits);
                let [_, _, _, _, turned, tests, model, number] = *entry;
                let (cos, sin) = (dx * bx + dy * by, dy * bx - dx * by);
                let scale2 = cos * cos + sin * sin;
                if scale2 >= smallest2 && scale2 <= largest2 && alive[model as usize] != 0 {
                    hypotheses.push(Hypothesis {
                        cos,
                        sin,
                        origin: (ox, oy),
                        turn: pair.wrapping_sub(turned),
                        tests,
                        model,
                        number,
                        second,
                        score: 0,
                    });
                }
            }
        }
    }
    /// Returns the sum of the votes of eight points of a model whose origin is at `place`.
    #[inline(always)]
    fn votes(&self, h: &Hypothesis, place: (f32, f32), tests: &Tests, likelihood: &[u8]) -> i32 {
        let Search { width, height, pixels, .. } = self.search;
        let mut at = [0u32; LANES];
        for (k, at) in at.iter_mut().enumerate() {
            let (x, y) = (tests.x[k] - h.origin.0, tests.y[k] - h.origin.1);
            let (x, y) = (h.cos * x - h.sin * y + place.0, h.sin * x + h.cos * y + place.1);
            let (x, y) = (x as i32 as u32, y as i32 as u32);
            let inside = (x < width) & (y < height);
            let plane = class(tests.direction[k].wrapping_add(h.turn)).wrapping_mul(pixels);
            let there = plane.wrapping_add(y.wrapping_mul(width)).wrapping_add(x);
            *at = if inside { there } else { pixels * CLASSES };
        }
        at.iter().map(|&at| likelihood[at as usize] as i8 as i32).sum()
    }
}

/// Keeps the hypotheses for which `is_kept`, in order, without a branch.
#[inline(always)]
fn retain(hypotheses: &mut Vec<Hypothesis>, is_kept: impl Fn(&Hypothesis) -> bool) {
    let mut kept = 0;
    for k in 0..hypotheses.len() {
        let h = hypotheses[k];
        hypotheses[kept] = h;
        kept += is_kept(&h) as usize;
    }
    hypotheses.truncate(kept);
}

/// Puts a hypothesis in place of the worst, if it is better.
#[inline(always)]
fn keep(slots: &mut [u64], kept: u64) {
    if let Some(worst) = slots.iter_mut().min() {
        *worst = kept.max(*worst);
    }
}

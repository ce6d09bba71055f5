//! Refinement of candidates in batches, with the kernel of [`koel_vision_kernels::refine`].
use crate::affine::Affine;
use crate::device::in_kernels;
use crate::edges::Edge;
use crate::maps::Likelihood;
use crate::model::Model;
use crate::refine_on_cpu::{PointsOnCpu, SceneOnCpu, moments};
use crate::scene::Scene;
use koel::{Buffer, Device, Stream};
use koel_vision_kernels::maps::{Placed, vision_inliers};
use koel_vision_kernels::refine::*;
use rayon::prelude::*;

/// Parameters of the refinement of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// Number of steps.
    pub steps: u32,
    /// Maximum distance of edges, in pixels, in the first and in the last step.
    pub radii: (f32, f32),
    /// Weight of the distance along the edge relative to that across.
    pub along: f32,
    /// Damping of the normal equations.
    pub damping: f32,
}

/// Refinement of the best candidates.
pub(crate) const MIDDLE: Schedule =
    Schedule { steps: 8, radii: (5.6, 3.0), along: 0.2, damping: 0.001 };
/// Refinement of what is close to its place.
pub(crate) const CLOSE: Schedule =
    Schedule { steps: 15, radii: (5.0, 1.8), along: 0.1, damping: 0.0005 };

/// Coordinates in which a model's points have mean 0 and spread 1, so that the normal equations are
/// well conditioned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    center: (f32, f32),
    unit: f32,
}
impl Frame {
    /// Frame of an empty set of points.
    pub(crate) const NONE: Frame = Frame { center: (0.0, 0.0), unit: 1.0 };
    /// Returns the frame of the model's points.
    pub(crate) fn of(model: &Model) -> Frame {
        let n = model.points.len() as f32;
        let mean = |of: fn(&Edge) -> f32| model.points.iter().map(of).sum::<f32>() / n;
        let center = (mean(|p| p.x), mean(|p| p.y));
        let square = |p: &Edge| (p.x - center.0).powi(2) + (p.y - center.1).powi(2);
        let unit = (model.points.iter().map(square).sum::<f32>() / n).sqrt();
        Frame { center, unit: unit.max(1.0) }
    }
    /// Returns the map into the frame, and the one out of it.
    pub(crate) fn maps(&self) -> (Affine, Affine) {
        let (unit, (x, y)) = (self.unit, self.center);
        let scaled = |s: f32| Affine { linear: [[s, 0.0], [0.0, s]], shift: [0.0; 2] };
        (scaled(1.0 / unit).moving((x, y), (0.0, 0.0)), scaled(unit).moving((0.0, 0.0), (x, y)))
    }
    /// Returns a point's coordinates in the frame.
    pub(crate) fn point(&self, (x, y): (f32, f32)) -> [f32; 2] {
        [(x - self.center.0) / self.unit, (y - self.center.1) / self.unit]
    }
    /// Returns the words of a map from the frame: its linear part by rows, and the place of the
    /// frame's middle.
    pub(crate) fn enter(&self, map: &Affine) -> [u32; 6] {
        let [[a, b], [c, d]] = map.linear.map(|row| row.map(|v| v * self.unit));
        let (x, y) = map.apply(self.center);
        [a, b, c, d, x, y].map(f32::to_bits)
    }
    fn leave(&self, words: &[u32; 6]) -> Affine {
        let v = |k: usize| f32::from_bits(words[k]);
        let linear = [[v(0) / self.unit, v(1) / self.unit], [v(2) / self.unit, v(3) / self.unit]];
        Affine { linear, shift: [0.0; 2] }.moving(self.center, (v(4), v(5)))
    }
    fn place(&self, p: &Edge) -> [u32; 4] {
        let [x, y] = self.point((p.x, p.y));
        [x, y, p.normal.0, p.normal.1].map(f32::to_bits)
    }
}

/// Number of threads that share the points of a candidate on a GPU: few for many candidates of few
/// points, and more where each has many. Their sums are added up in an order that depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strips(u32);
impl Strips {
    /// For hundreds of candidates, or few points.
    pub(crate) const FEW: Strips = Strips(STRIPS);
    /// For all voting points.
    pub(crate) const SOME: Strips = Strips(2 * STRIPS);
    /// For contours.
    pub(crate) const MANY: Strips = Strips(16 * STRIPS);
}

/// Concatenated points of several models with the weights of their votes, in host memory.
#[derive(Default)]
pub(crate) struct PointLists {
    frames: Vec<Frame>,
    /// Four words per model: first point, number of points, unit, 0.
    models: Vec<u32>,
    points: Vec<u32>,
    weights: Vec<u32>,
}
impl PointLists {
    /// Appends the points of a model. Without weights, all weigh 1.
    pub(crate) fn push<'e>(
        &mut self,
        frame: Frame,
        points: impl Iterator<Item = &'e Edge>,
        weights: Option<&[f32]>,
    ) {
        let first = self.weights.len();
        self.points.extend(points.flat_map(|p| frame.place(p)));
        match weights {
            Some(weights) => self.weights.extend(weights.iter().map(|w| w.to_bits())),
            None => self.weights.resize(self.points.len() / 4, 1f32.to_bits()),
        }
        self.models.extend([
            first as u32,
            (self.weights.len() - first) as u32,
            frame.unit.to_bits(),
            0,
        ]);
        self.frames.push(frame);
    }
    /// Copies the lists to a device, where `strips` threads share those of a candidate.
    pub(crate) fn upload(self, device: &Device, strips: Strips) -> koel::Result<Points> {
        let (models, points) = (self.models.len(), self.models.len() + self.points.len());
        let words = [self.models, self.points, self.weights].concat();
        Ok(Points {
            strips: strips.0,
            frames: self.frames,
            models,
            points,
            words: device.upload(&words)?,
        })
    }
}

/// Points of several models on a device.
pub(crate) struct Points {
    strips: u32,
    frames: Vec<Frame>,
    /// Ends of the words of models, and of points.
    models: usize,
    points: usize,
    /// Models, points and weights: one copy to the device.
    words: Buffer<u32>,
}
impl Points {
    /// Returns the points of a model, if they are in host memory.
    fn on_cpu(&self, model: usize) -> Option<PointsOnCpu> {
        let words = self.words.view().host()?;
        let (models, rest) = words.split_at(self.models);
        let (points, weights) = rest.split_at(self.points - self.models);
        let (first, count) = (models[4 * model] as usize, models[4 * model + 1] as usize);
        let points = &points[4 * first..4 * (first + count)];
        Some(PointsOnCpu::of(points, &weights[first..first + count], self.strips as usize))
    }
    /// Returns the lists as a kernel argument; `of`: the model of each candidate.
    pub(crate) fn arg(&self, of: &Buffer<u32>, stream: &Stream) -> koel::Result<ModelsIn> {
        let words = self.words.view();
        Ok(ModelsIn {
            models: words.slice(..self.models)?.arg("models", stream)?,
            of: of.view().arg("of", stream)?,
            points: words.slice(self.models..self.points)?.arg("points", stream)?,
            weights: words.slice(self.points..)?.arg("weights", stream)?,
        })
    }
}

/// Candidate and its evidence: the sum of its points' log-likelihood ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scored {
    /// Index of the model.
    pub model: usize,
    /// Map from model points to scene points.
    pub map: Affine,
    /// Evidence in nats.
    pub score: f32,
}

/// Returns the initial state of each candidate for the kernels: map, best map, best score, top
/// score, and whether it continues.
fn initial_states(points: &Points, candidates: &[Scored]) -> Vec<u32> {
    let maps = candidates.iter().map(|c| points.frames[c.model].enter(&c.map));
    let (maps, n) = (maps.collect::<Vec<[u32; 6]>>(), candidates.len());
    let words = (0..6).flat_map(|k| maps.iter().map(move |map| map[k]));
    starting(&words.collect::<Vec<u32>>(), n)
}
/// Returns the states of `n` candidates that start from maps, given word by word.
fn starting(maps: &[u32], n: usize) -> Vec<u32> {
    let mut words = vec![f32::MIN.to_bits(); STATE as usize * n];
    words[MAP as usize * n..][..6 * n].copy_from_slice(maps);
    words[BEST as usize * n..][..6 * n].copy_from_slice(maps);
    words[GOES_ON as usize * n..].fill(1);
    words
}

/// Number of candidates that are refined together on a CPU: what they read of the maps, about 60 KB
/// each, stays in the cache from one step to the next.
const BATCH: usize = 8;

/// Refinement of candidates by some of their models' points.
#[derive(Clone, Copy)]
pub(crate) struct Round<'p> {
    pub points: &'p Points,
    pub likelihood: Likelihood,
    pub schedule: Schedule,
}
impl<'p> Round<'p> {
    /// Only computes scores.
    pub(crate) fn scores(points: &'p Points) -> Round<'p> {
        let schedule = Schedule { steps: 0, radii: (1.0, 1.0), along: 1.0, damping: 0.0 };
        Round { points, likelihood: Likelihood::Fine, schedule }
    }
    /// Returns the parameters for a number of candidates.
    fn of(&self, candidates: usize) -> Refinement {
        let Schedule { steps, radii: (first, last), along, damping } = self.schedule;
        Refinement {
            candidates: candidates as u32,
            strips: self.points.strips,
            radius: first,
            along,
            damping,
            last: 0,
            steps,
            shrink: (last / first).powf(1.0 / steps.saturating_sub(1).max(1) as f32),
            again: 0,
        }
    }
}

/// Refines candidates in some rounds, each of which starts from the best maps of the one before.
/// Returns them in the same order, each with the best map and score of the last round. All rounds'
/// points are of the same models.
///
/// With kernels, takes a launch per round, 2 uploads and a download, regardless of the number of
/// models. A CPU refines candidates in batches. The result is the same on every device, and for
/// each candidate independent of the others.
pub(crate) fn refined(
    stream: &Stream,
    scene: &Scene,
    rounds: &[Round<'_>],
    candidates: &[Scored],
) -> koel::Result<Vec<Scored>> {
    let together = |candidates: &[Scored]| refined_together(stream, scene, rounds, candidates);
    if in_kernels(stream) {
        return together(candidates);
    }
    let batches = candidates.par_chunks(BATCH).map(together);
    Ok(batches.collect::<koel::Result<Vec<Vec<Scored>>>>()?.concat())
}
fn refined_together(
    stream: &Stream,
    scene: &Scene,
    rounds: &[Round<'_>],
    candidates: &[Scored],
) -> koel::Result<Vec<Scored>> {
    let (Some(first), false) = (rounds.first(), candidates.is_empty()) else {
        return Ok(candidates.to_vec());
    };
    let (device, n, points) = (stream.device(), candidates.len(), first.points);
    let of = device.upload(&candidates.iter().map(|c| c.model as u32).collect::<Vec<u32>>())?;
    let mut states = device.upload(&initial_states(points, candidates))?;
    for (number, round) in rounds.iter().enumerate() {
        let refinement = Refinement { again: (number > 0) as u32, ..round.of(n) };
        if !in_kernels(stream) {
            refined_by_steps(stream, scene, (round, refinement), &of, &mut states)?;
            continue;
        }
        // SAFETY: there are 4 words per model, point and edge, and a weight per point; maps hold
        // every class and pixel, and their codes are offsets that stay inside the scene and lead to
        // edges; there are a model and a state per candidate.
        unsafe {
            vision_refine::launch(
                stream,
                refinement.candidates.div_ceil(TOGETHER / refinement.strips),
                refinement,
                round.points.arg(&of, stream)?,
                scene.arg(stream)?,
                scene.said(round.likelihood).view().arg("likelihood", stream)?,
                states.view_mut().arg("states", stream)?,
            )
        }?;
    }
    let words =
        states.view().slice(BEST as usize * n..(BEST_SCORE as usize + 1) * n)?.download()?;
    let scored = |(i, c): (usize, &Scored)| Scored {
        map: points.frames[c.model].leave(&std::array::from_fn(|k| words[k * n + i])),
        score: f32::from_bits(words[(BEST_SCORE - BEST) as usize * n + i]) / 16.0,
        ..*c
    };
    Ok(candidates.iter().enumerate().map(scored).collect())
}

/// Takes all steps on a CPU.
fn refined_by_steps(
    stream: &Stream,
    scene: &Scene,
    (round, mut refinement): (&Round<'_>, Refinement),
    of: &Buffer<u32>,
    states: &mut Buffer<u32>,
) -> koel::Result<()> {
    let (device, n) = (stream.device(), refinement.candidates);
    if refinement.again != 0 {
        let all = n as usize;
        let best = states.view().slice(BEST as usize * all..BEST_SCORE as usize * all)?;
        *states = device.upload(&starting(&best.download()?, all))?;
    }
    let mut sums = device.alloc::<u32>((SUMS * STRIPS * n) as usize)?;
    let on_cpu = OnCpu::of(scene, round, of);
    for step in 0..=refinement.steps {
        refinement.last = (step == refinement.steps) as u32;
        let done = on_cpu.as_ref().and_then(|on_cpu| on_cpu.sum(&refinement, states, &mut sums));
        if done.is_none() {
            sum_in_kernels(stream, scene, (round, refinement), (of, states), &mut sums)?;
        }
        // SAFETY: as in `refined_together`; there are the sums of all strips per candidate.
        unsafe {
            vision_step::launch(
                stream,
                n.div_ceil(32),
                refinement,
                round.points.arg(of, stream)?,
                sums.view().arg("sums", stream)?,
                states.view_mut().arg("states", stream)?,
            )?;
        }
        refinement.radius *= refinement.shrink;
    }
    Ok(())
}

/// Scene, and the points of each candidate's model.
struct OnCpu<'s> {
    scene: SceneOnCpu<'s>,
    models: Vec<PointsOnCpu>,
    /// Index in `models` of each candidate's.
    of: Vec<usize>,
}
impl<'s> OnCpu<'s> {
    /// Returns `None` if a graph may write what is to be read.
    fn of(scene: &'s Scene, round: &Round<'_>, of: &Buffer<u32>) -> Option<OnCpu<'s>> {
        let of = of.view().host()?;
        // Candidates are grouped by model.
        let mut distinct = of.to_vec();
        distinct.dedup();
        let models = distinct.iter().map(|&model| round.points.on_cpu(model as usize));
        Some(OnCpu {
            scene: scene.on_cpu(round.likelihood)?,
            models: models.collect::<Option<Vec<PointsOnCpu>>>()?,
            of: of.iter().map(|of| distinct.iter().position(|m| m == of)).collect::<Option<_>>()?,
        })
    }
    /// Sums over the points of each candidate that continues.
    fn sum(
        &self,
        refinement: &Refinement,
        states: &Buffer<u32>,
        sums: &mut Buffer<u32>,
    ) -> Option<()> {
        let OnCpu { scene, models, of } = self;
        let mut sums = sums.view_mut();
        moments(scene, models, (refinement, of), states.view().host()?, sums.host_mut()?);
        Some(())
    }
}

/// Sums over the points of each candidate that continues, with kernels.
fn sum_in_kernels(
    stream: &Stream,
    scene: &Scene,
    (round, refinement): (&Round<'_>, Refinement),
    (of, states): (&Buffer<u32>, &Buffer<u32>),
    sums: &mut Buffer<u32>,
) -> koel::Result<()> {
    let (n, strips) = (refinement.candidates, refinement.strips);
    let mut of_threads = stream.device().alloc::<u32>((SUMS * strips * n) as usize)?;
    // SAFETY: as in `refined_together`; there are the sums of all threads.
    unsafe {
        vision_moments::launch(
            stream,
            (n * strips).div_ceil(128),
            refinement,
            round.points.arg(of, stream)?,
            scene.arg(stream)?,
            scene.said(round.likelihood).view().arg("likelihood", stream)?,
            states.view().arg("states", stream)?,
            of_threads.view_mut().arg("sums", stream)?,
        )
    }?;
    add_strips(stream, SUMS, n, &of_threads, sums)?;
    Ok(())
}

/// Adds the sums of all strips of `words` words of `n` candidates up to those of [`STRIPS`], in
/// `out`, which is returned.
pub(crate) fn add_strips<'o>(
    stream: &Stream,
    words: u32,
    n: u32,
    sums: &Buffer<u32>,
    out: &'o mut Buffer<u32>,
) -> koel::Result<&'o Buffer<u32>> {
    let strips = sums.len() as u32 / (words * n);
    // SAFETY: `sums` holds all words of `n` candidates for a number of strips, `out` for `STRIPS`.
    unsafe {
        vision_strips::launch(
            stream,
            (words * STRIPS * n).div_ceil(128),
            words,
            n,
            strips,
            sums.view().arg("sums", stream)?,
            out.view_mut().arg("out", stream)?,
        )
    }?;
    Ok(out)
}

/// Keeps the `most` candidates of each model with the highest scores, best first; ties keep their
/// order. Candidates are grouped by model, before and after.
pub(crate) fn best(mut scored: Vec<Scored>, most: usize) -> Vec<Scored> {
    scored.sort_by(|a, b| a.model.cmp(&b.model).then(b.score.total_cmp(&a.score)));
    let (mut model, mut rank) = (usize::MAX, 0);
    scored.retain(|s| {
        rank = if s.model == model { rank + 1 } else { 0 };
        model = s.model;
        rank < most
    });
    scored
}

/// Model point that lies on an edge of its direction.
pub(crate) struct Inlier {
    /// Position in the model.
    pub point: (f32, f32),
    /// Normal of the edge.
    pub normal: (f32, f32),
    /// Position in the scene.
    pub at: (f32, f32),
    /// Distance to the edge, in pixels.
    pub off: f32,
    /// Signed distance across the edge.
    pub across: f32,
}

/// Returns the model points within `most` pixels of an edge of their direction.
///
/// One launch with one thread per point; the result is the same on every device.
pub(crate) fn inliers(
    stream: &Stream,
    map: &Affine,
    points: &[Edge],
    scene: &Scene,
    most: f32,
) -> koel::Result<Vec<Inlier>> {
    let device = stream.device();
    let places = points.iter().flat_map(Edge::place).collect::<Vec<u32>>();
    let (places, mut partners) = (device.upload(&places)?, device.alloc::<u32>(places.len())?);
    let [[a, b], [c, d]] = map.linear;
    let placed =
        Placed { points: points.len() as u32, map: [a, b, c, d, map.shift[0], map.shift[1]] };
    // SAFETY: there are 4 words per point and edge; maps as in `refined`.
    unsafe {
        vision_inliers::launch(
            stream,
            placed.points.div_ceil(128),
            placed,
            places.view().arg("points", stream)?,
            scene.arg(stream)?,
            partners.view_mut().arg("partners", stream)?,
        )
    }?;
    let partners = partners.download()?;
    let inlier = |(p, partner): (&Edge, &[u32])| {
        let [x, y, nx, ny] = [partner[0], partner[1], partner[2], partner[3]].map(f32::from_bits);
        let at = map.apply((p.x, p.y));
        let (ex, ey) = (x - at.0, y - at.1);
        let (off, across) = (ex.hypot(ey), nx * ex + ny * ey);
        let there = (nx, ny) != (0.0, 0.0) && off <= most;
        there.then_some(Inlier { point: (p.x, p.y), normal: (nx, ny), at, off, across })
    };
    let pairs = points.iter().zip(partners.chunks_exact(4));
    Ok(pairs.filter_map(inlier).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::texture;

    /// Sums on a CPU are those of the kernels: of two models, one with many points, for each number
    /// of threads, with points outside the scene, and a candidate that does not continue.
    #[test]
    fn a_cpu_sums_what_the_kernels_sum() {
        let device = Device::cpu().unwrap();
        let stream = device.stream().unwrap();
        let schedule = Schedule { steps: 6, radii: (9.0, 5.0), along: 0.2, damping: 0.003 };
        let scene = Scene::of(&stream, &texture(220, 160, 2)).unwrap();
        let models = [(60, 50), (300, 200)].map(|(w, h)| Model::of(&texture(w, h, 2)).unwrap());
        let turned = |k: usize| Affine::similarity(0.8, 0.1 * k as f32, (0.0, 0.0), (9.0, 30.0));
        let map = |k: usize| if k.is_multiple_of(3) { Affine::IDENTITY } else { turned(k) };
        let candidate = |k: usize| Scored { model: k / 3, map: map(k), score: 0.0 };
        let candidates = (0..6).map(candidate).collect::<Vec<Scored>>();
        for strips in [Strips::FEW, Strips::SOME, Strips::MANY] {
            let mut lists = PointLists::default();
            for model in &models {
                let weights = Some(model.weights.as_slice());
                lists.push(Frame::of(model), model.points.iter(), weights);
            }
            let points = lists.upload(&device, strips).unwrap();
            let of = candidates.iter().map(|c| c.model as u32).collect::<Vec<u32>>();
            let of = device.upload(&of).unwrap();
            let mut states = initial_states(&points, &candidates);
            states[GOES_ON as usize * 6 + 1] = 0;
            let states = device.upload(&states).unwrap();
            for likelihood in [Likelihood::Loose, Likelihood::Fine] {
                let round = Round { points: &points, likelihood, schedule };
                let [mut own, mut other] =
                    [(); 2].map(|()| device.upload(&[0; (SUMS * STRIPS * 6) as usize]).unwrap());
                let refinement = round.of(6);
                let on_cpu = OnCpu::of(&scene, &round, &of).unwrap();
                on_cpu.sum(&refinement, &states, &mut own).unwrap();
                let given = (&of, &states);
                sum_in_kernels(&stream, &scene, (&round, refinement), given, &mut other).unwrap();
                let (own, other) = (own.download().unwrap(), other.download().unwrap());
                assert!(own.iter().filter(|&&sum| sum != 0).count() > 500);
                for (at, (own, other)) in own.iter().zip(&other).enumerate() {
                    // The kernels leave words of what does not continue as they are.
                    assert!(at % 6 == 1 || own == other, "{strips:?}, word {at}");
                }
            }
        }
    }
}

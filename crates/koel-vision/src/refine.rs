//! Refinement of candidates in batches, with the kernel of [`koel_kernels::vision::refine`].
use crate::affine::Affine;
use crate::device::in_kernels;
use crate::edges::Edge;
use crate::model::Model;
use crate::scene::Scene;
use koel::{Buffer, Device, Stream};
use koel_kernels::vision::maps::{Placed, vision_inliers};
use koel_kernels::vision::refine::*;
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

/// Likelihood maps of the scene used for scoring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Likelihood {
    /// For coarse poses.
    Loose,
    /// For refined poses.
    Fine,
}

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
    fn enter(&self, map: &Affine) -> [u32; 6] {
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
        let (x, y) = ((p.x - self.center.0) / self.unit, (p.y - self.center.1) / self.unit);
        [x, y, p.normal.0, p.normal.1].map(f32::to_bits)
    }
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
    /// Copies the lists to a device.
    pub(crate) fn upload(self, device: &Device) -> koel::Result<Points> {
        Ok(Points {
            models: device.upload(&self.models)?,
            points: device.upload(&self.points)?,
            weights: device.upload(&self.weights)?,
            frames: self.frames,
        })
    }
}

/// Points of several models on a device.
pub(crate) struct Points {
    frames: Vec<Frame>,
    models: Buffer<u32>,
    points: Buffer<u32>,
    weights: Buffer<u32>,
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
    let n = candidates.len();
    let mut words = vec![f32::MIN.to_bits(); STATE as usize * n];
    for (i, c) in candidates.iter().enumerate() {
        let map = points.frames[c.model].enter(&c.map);
        for (k, word) in map.into_iter().enumerate() {
            words[(MAP as usize + k) * n + i] = word;
            words[(BEST as usize + k) * n + i] = word;
        }
    }
    words[GOES_ON as usize * n..].fill(1);
    words
}

/// Number of candidates that are refined together on a CPU: what they read of the maps, about 60 KB
/// each, stays in the cache from one step to the next.
const BATCH: usize = 8;

/// Refines candidates and returns them in the same order, each with the best score it reached.
/// Without steps, only computes scores.
///
/// With kernels, takes two launches per step and two for the last score, regardless of the number
/// of models, plus 2 uploads and a download. A CPU refines them in batches. The result is the same
/// on every device and for each candidate independent of the others.
pub(crate) fn refined(
    stream: &Stream,
    scene: &Scene,
    points: &Points,
    likelihood: Likelihood,
    schedule: Schedule,
    candidates: &[Scored],
) -> koel::Result<Vec<Scored>> {
    let together = |candidates: &[Scored]| {
        refined_together(stream, scene, points, likelihood, schedule, candidates)
    };
    if in_kernels(stream) {
        return together(candidates);
    }
    let batches = candidates.par_chunks(BATCH).map(together);
    Ok(batches.collect::<koel::Result<Vec<Vec<Scored>>>>()?.concat())
}
fn refined_together(
    stream: &Stream,
    scene: &Scene,
    points: &Points,
    likelihood: Likelihood,
    schedule: Schedule,
    candidates: &[Scored],
) -> koel::Result<Vec<Scored>> {
    if candidates.is_empty() {
        return Ok(vec![]);
    }
    let (device, n) = (stream.device(), candidates.len());
    let of = device.upload(&candidates.iter().map(|c| c.model as u32).collect::<Vec<u32>>())?;
    let mut states = device.upload(&initial_states(points, candidates))?;
    let mut sums = device.alloc::<u32>((SUMS * STRIPS) as usize * n)?;
    let likelihood = match likelihood {
        Likelihood::Loose => &scene.maps.loose,
        Likelihood::Fine => &scene.maps.fine,
    };
    let (first, last) = schedule.radii;
    let shrink = (last / first).powf(1.0 / schedule.steps.saturating_sub(1).max(1) as f32);
    let mut refinement = Refinement {
        candidates: n as u32,
        radius: first,
        along: schedule.along,
        damping: schedule.damping,
        last: 0,
    };
    for step in 0..=schedule.steps {
        refinement.last = (step == schedule.steps) as u32;
        // SAFETY: there are 4 words per model, point and edge, and a weight per point; maps hold
        // every class and pixel, and their codes are offsets that stay inside the scene and lead to
        // edges; there are a model, a state and the sums of all strips per candidate.
        unsafe {
            let models = ModelsIn {
                models: points.models.view().arg("models", stream)?,
                of: of.view().arg("of", stream)?,
                points: points.points.view().arg("points", stream)?,
                weights: points.weights.view().arg("weights", stream)?,
            };
            vision_moments::launch(
                stream,
                (refinement.candidates * STRIPS).div_ceil(128),
                refinement,
                models,
                scene.arg(stream)?,
                likelihood.view().arg("likelihood", stream)?,
                states.view().arg("states", stream)?,
                sums.view_mut().arg("sums", stream)?,
            )?;
            vision_step::launch(
                stream,
                refinement.candidates.div_ceil(32),
                refinement,
                models,
                sums.view().arg("sums", stream)?,
                states.view_mut().arg("states", stream)?,
            )?;
        }
        refinement.radius *= shrink;
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
    /// Index among the points.
    pub index: usize,
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
    let inlier = |(index, (p, partner)): (usize, (&Edge, &[u32]))| {
        let [x, y, nx, ny] = [partner[0], partner[1], partner[2], partner[3]].map(f32::from_bits);
        let at = map.apply((p.x, p.y));
        let (ex, ey) = (x - at.0, y - at.1);
        let (off, across) = (ex.hypot(ey), nx * ex + ny * ey);
        let there = (nx, ny) != (0.0, 0.0) && off <= most;
        there.then_some(Inlier { index, point: (p.x, p.y), normal: (nx, ny), at, off, across })
    };
    let pairs = points.iter().zip(partners.chunks_exact(4));
    Ok(pairs.enumerate().filter_map(inlier).collect())
}

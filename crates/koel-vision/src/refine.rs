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
    pub(crate) const MANY: Strips = Strips(8 * STRIPS);
    /// For contours of two or three candidates.
    pub(crate) const MOST: Strips = Strips(32 * STRIPS);

    /// Returns their number.
    pub(crate) fn number(self) -> u32 {
        self.0
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
    /// Copies the lists to a device, where `strips` threads share those of a candidate.
    pub(crate) fn upload(self, device: &Device, strips: Strips) -> koel::Result<Points> {
        Ok(Points {
            strips: strips.0,
            models: device.upload(&self.models)?,
            points: device.upload(&self.points)?,
            weights: device.upload(&self.weights)?,
            frames: self.frames,
        })
    }
}

/// Points of several models on a device.
pub(crate) struct Points {
    strips: u32,
    frames: Vec<Frame>,
    models: Buffer<u32>,
    points: Buffer<u32>,
    weights: Buffer<u32>,
}
impl Points {
    /// Returns the lists as a kernel argument; `of`: the model of each candidate.
    pub(crate) fn arg(&self, of: &Buffer<u32>, stream: &Stream) -> koel::Result<ModelsIn> {
        Ok(ModelsIn {
            models: self.models.view().arg("models", stream)?,
            of: of.view().arg("of", stream)?,
            points: self.points.view().arg("points", stream)?,
            weights: self.weights.view().arg("weights", stream)?,
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
/// With kernels, takes two or three launches per step and for the last score, regardless of the
/// number of models, plus 2 uploads and a download. A CPU refines them in batches. The result is the same
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
    let mut sums = device.alloc::<u32>((SUMS * points.strips) as usize * n)?;
    let mut fewer = match points.strips > STRIPS {
        true => Some(device.alloc::<u32>((SUMS * STRIPS) as usize * n)?),
        false => None,
    };
    let likelihood = match likelihood {
        Likelihood::Loose => &scene.maps.loose,
        Likelihood::Fine => &scene.maps.fine,
    };
    let (first, last) = schedule.radii;
    let shrink = (last / first).powf(1.0 / schedule.steps.saturating_sub(1).max(1) as f32);
    let mut refinement = Refinement {
        candidates: n as u32,
        strips: points.strips,
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
            let models = points.arg(&of, stream)?;
            vision_moments::launch(
                stream,
                (refinement.candidates * points.strips).div_ceil(128),
                refinement,
                models,
                scene.arg(stream)?,
                likelihood.view().arg("likelihood", stream)?,
                states.view().arg("states", stream)?,
                sums.view_mut().arg("sums", stream)?,
            )?;
            let sums = match &mut fewer {
                Some(fewer) => add_strips(stream, SUMS, n as u32, &sums, fewer)?,
                None => &sums,
            };
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

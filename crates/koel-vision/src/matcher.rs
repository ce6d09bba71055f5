//! The default matcher: where a model is in a scene, or that it is not there.
use crate::affine::Affine;
use crate::bases::{Bases, Pass};
use crate::edges::Edge;
use crate::fit::{Freedom, fit};
use crate::model::Model;
use crate::random::Random;
use crate::refine::{Frame, Likelihood, Points, Schedule, Scored, best, refined};
use crate::scene::{Scene, StagedScene};
use crate::vote::candidates;
use koel::{Device, Stream};
use koel_kernels::vision::direction::direction;
use std::time::Instant;

/// What the matcher does.
#[derive(Clone, Debug)]
pub struct Options {
    /// Everything random follows from it.
    pub seed: u64,
    /// A model is there if what speaks for it is at least this, nats.
    pub evidence: f32,
    /// The maps that are allowed; `None`: affine ones.
    pub freedom: Option<Freedom>,
    /// The searches, whose candidates are refined together.
    pub passes: Vec<Pass>,
}
impl Default for Options {
    /// Two passes: one without tilts, with many bases and scene points; one with eleven tilts.
    fn default() -> Options {
        let level = Pass { tilts: vec![], bases: 200, scene_points: 3000, scales: (0.6, 1.5), a_point: 4, quota: 4000 };
        let tilted = Pass {
            tilts: vec![(1.4, 4), (1.9, 6)],
            bases: 60,
            scene_points: 1500,
            scales: (0.45, 1.5),
            a_point: 8,
            quota: 6000,
        };
        Options { seed: 1, evidence: 30.0, freedom: None, passes: vec![level, tilted] }
    }
}

/// Coarse: few points of every candidate; then all points of the best, then ever closer.
const COARSE: Schedule = Schedule { steps: 6, radii: (9.0, 5.0), along: 0.2, damping: 0.003 };
const MIDDLE: Schedule = Schedule { steps: 12, radii: (8.0, 3.0), along: 0.2, damping: 0.001 };
const CLOSE: Schedule = Schedule { steps: 15, radii: (5.0, 1.8), along: 0.1, damping: 0.0005 };
const LAST: Schedule = Schedule { steps: 12, radii: (4.0, 1.2), along: 0.05, damping: 0.0002 };
/// For a model that no affine map fits everywhere (it bends, or is seen in perspective): the best compromise, not the best part.
const WIDE: Schedule = Schedule { steps: 20, radii: (9.0, 6.0), along: 0.1, damping: 0.0002 };
/// It is such a model if, of the points within the first distance of an edge, fewer than the part are within the second, pixels.
const WIDE_INLIER: f32 = 6.0;
const CLOSE_PART: f32 = 0.6;
const CLOSE_INLIER: f32 = 1.5;
const NO_STEPS: Schedule = Schedule { steps: 0, radii: (1.0, 1.0), along: 1.0, damping: 0.0 };
/// How many go on.
const KEPT: [usize; 3] = [600, 30, 5];
/// Model points of the coarse refinement.
const COARSE_POINTS: usize = 100;
/// An inlier is at most this far from an edge of its direction, pixels.
const INLIER: f32 = 3.0;

/// Where a model is.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// From pixels of the model image to pixels of the scene image.
    pub map: Affine,
    /// Model points that lie on edges of the scene.
    pub votes: usize,
    /// Points of the model's contours that do, at most 3 pixels off.
    pub inliers: usize,
    /// How far these are off across the edge: root mean square, scene pixels.
    pub rmse: f32,
    /// Where the inliers lie in the scene image.
    pub inlier_points: Vec<(f32, f32)>,
}

/// The answer for one model.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// `None`: it is not there.
    pub found: Option<Found>,
    /// What speaks for the best pose, nats; at least [`Options::evidence`] if found.
    pub evidence: f32,
    /// Where the candidates of the votes put the middle of the model, scene pixels, and what speaks for each, nats.
    pub hypotheses: Vec<((f32, f32), f32)>,
    /// Seconds: tables and votes, refinement, verdict.
    pub seconds: [f64; 3],
}

/// Finds models in scenes on a device.
pub struct Matcher {
    stream: Stream,
    options: Options,
}

impl Matcher {
    /// On a device.
    pub fn new(device: &Device, options: Options) -> koel::Result<Matcher> {
        Ok(Matcher { stream: device.stream()?, options })
    }
    /// A scene made ready for the device.
    pub fn stage<'a>(&self, scene: &'a Scene) -> koel::Result<StagedScene<'a>> {
        scene.stage(self.stream.device())
    }
    /// Looks for a model in a scene. The same answer on every device, for any number of threads.
    pub fn find(&self, model: &Model, staged: &StagedScene) -> koel::Result<Outcome> {
        let mut random = Random::new(self.options.seed);
        let begin = Instant::now();
        let mut all = vec![];
        for pass in &self.options.passes {
            let bases = Bases::of(model, pass, &mut random);
            all.extend(candidates(&self.stream, staged, &bases, pass)?);
        }
        let voted = Instant::now();
        let maps = all.iter().map(|s| s.map).collect::<Vec<Affine>>();
        let (finalists, points) = self.refine(model, staged, &maps, &mut random)?;
        let refined = Instant::now();
        let outcome = self.verdict(model, staged, &finalists, &points)?;
        let seconds = [voted - begin, refined - voted, refined.elapsed()].map(|d| d.as_secs_f64());
        let middle = (0.5 * (model.width - 1) as f32, 0.5 * (model.height - 1) as f32);
        let middle = model.to_image.inverse().unwrap_or(Affine::IDENTITY).apply(middle);
        let place = |s: &Scored| (staged.scene.to_image.apply(s.map.apply(middle)), s.score);
        Ok(Outcome { seconds, hypotheses: all.iter().map(place).collect(), ..outcome })
    }

    /// The best few after all refinements but the last, by their weighted evidence, best first; the model's points.
    fn refine(
        &self,
        model: &Model,
        scene: &StagedScene,
        candidates: &[Affine],
        random: &mut Random,
    ) -> koel::Result<(Vec<Scored>, Points)> {
        let (stream, device) = (&self.stream, self.stream.device());
        let frame = Frame::of(model);
        let mut order = (0..model.points.len()).collect::<Vec<usize>>();
        random.shuffle(&mut order);
        order.truncate(COARSE_POINTS);
        let few = Points::upload(device, frame, order.iter().map(|&i| &model.points[i]), None)?;
        let all = Points::upload(device, frame, model.points.iter(), None)?;
        let weighted = Points::upload(device, frame, model.points.iter(), Some(&model.weights))?;
        let maps = |scored: &[Scored]| scored.iter().map(|s| s.map).collect::<Vec<Affine>>();
        let coarse = best(refined(stream, scene, &few, Likelihood::Loose, COARSE, candidates)?, KEPT[0]);
        let middle = best(refined(stream, scene, &all, Likelihood::Loose, MIDDLE, &maps(&coarse))?, KEPT[1]);
        let close = refined(stream, scene, &all, Likelihood::Fine, CLOSE, &maps(&middle))?;
        let close = refined(stream, scene, &weighted, Likelihood::Fine, NO_STEPS, &maps(&close))?;
        Ok((best(close, KEPT[2]), weighted))
    }

    /// The last refinement, by all contours, and the decision.
    fn verdict(
        &self,
        model: &Model,
        staged: &StagedScene,
        finalists: &[Scored],
        points: &Points,
    ) -> koel::Result<Outcome> {
        let maps = finalists.iter().map(|s| s.map).collect::<Vec<Affine>>();
        let contour = Points::upload(self.stream.device(), Frame::of(model), model.contour.iter(), None)?;
        let last = refined(&self.stream, staged, &contour, Likelihood::Fine, LAST, &maps)?;
        let maps = last.iter().map(|s| s.map).collect::<Vec<Affine>>();
        let last = best(refined(&self.stream, staged, points, Likelihood::Fine, NO_STEPS, &maps)?, 1);
        let nothing = Outcome { found: None, evidence: 0.0, hypotheses: vec![], seconds: [0.0; 3] };
        let (Some(first), Some(pose)) = (finalists.first(), last.first()) else { return Ok(nothing) };
        let evidence = first.score.max(pose.score);
        if evidence < self.options.evidence {
            return Ok(Outcome { evidence, ..nothing });
        }
        let scene = staged.scene;
        let mut map = pose.map;
        let on_edges = inliers(&map, &model.contour, scene, WIDE_INLIER);
        let close = on_edges.iter().filter(|i| i.off <= CLOSE_INLIER).count();
        if (close as f32) < CLOSE_PART * on_edges.len() as f32 {
            map = refined(&self.stream, staged, &contour, Likelihood::Loose, WIDE, &[map])?[0].map;
        }
        if let Some(freedom) = self.options.freedom {
            let scored = |map: Affine| -> koel::Result<f32> {
                Ok(refined(&self.stream, staged, points, Likelihood::Fine, NO_STEPS, &[map])?[0].score)
            };
            match restricted(freedom, map, model, scene) {
                Some(other) if scored(other)? >= self.options.evidence => map = other,
                _ => return Ok(Outcome { evidence, ..nothing }),
            }
        }
        let inliers = |points: &[Edge]| inliers(&map, points, scene, INLIER);
        let (votes, inliers) = (inliers(&model.points).len(), inliers(&model.contour));
        let shrunk = scene.to_image.determinant().abs().sqrt();
        let square = |i: &Inlier| (i.across * shrunk).powi(2);
        let rmse = (inliers.iter().map(square).sum::<f32>() / inliers.len().max(1) as f32).sqrt();
        let to_points = model.to_image.inverse().unwrap_or(Affine::IDENTITY);
        let found = Found {
            map: scene.to_image.after(&map).after(&to_points),
            votes,
            inliers: inliers.len(),
            rmse,
            inlier_points: inliers.iter().map(|i| scene.to_image.apply(i.at)).collect(),
        };
        Ok(Outcome { found: Some(found), evidence, ..nothing })
    }
}

/// The best map with less freedom: first the closest to `map`, then, step by step, to the edges around.
fn restricted(freedom: Freedom, map: Affine, model: &Model, scene: &Scene) -> Option<Affine> {
    let place = |p: &Edge| ((p.x, p.y), map.apply((p.x, p.y)));
    let mut map = fit(freedom, &model.contour.iter().map(place).collect::<Vec<_>>())?;
    for radius in [8.0, 6.0, 5.0, 4.0, INLIER, INLIER] {
        let pair = |i: Inlier| (i.point, (i.at.0 + i.across * i.normal.0, i.at.1 + i.across * i.normal.1));
        map = fit(freedom, &inliers(&map, &model.contour, scene, radius).into_iter().map(pair).collect::<Vec<_>>())?;
    }
    Some(map)
}

/// A model point that lies on an edge of its direction.
struct Inlier {
    /// The model point.
    point: (f32, f32),
    /// The normal of the edge.
    normal: (f32, f32),
    /// Where, in the scene.
    at: (f32, f32),
    /// How far the edge is, pixels.
    off: f32,
    /// How far across the edge, signed.
    across: f32,
}

/// The model points that lie at most `most` pixels from an edge of their direction.
fn inliers(map: &Affine, points: &[Edge], scene: &Scene, most: f32) -> Vec<Inlier> {
    let maps = &scene.maps;
    let inlier = |p: &Edge| {
        let (qx, qy) = map.apply((p.x, p.y));
        let (x, y) = ((qx + 0.5).floor(), (qy + 0.5).floor());
        if !(x >= 0.0 && y >= 0.0 && x < maps.width as f32 && y < maps.height as f32) {
            return None;
        }
        let (nx, ny) = map.apply_normal(p.normal);
        let edge = &scene.edges[maps.nearest_edge(direction(nx, ny), x as usize, y as usize)?];
        let (ex, ey) = (edge.x - qx, edge.y - qy);
        let (off, across) = (ex.hypot(ey), edge.normal.0 * ex + edge.normal.1 * ey);
        (off <= most).then_some(Inlier { point: (p.x, p.y), normal: edge.normal, at: (qx, qy), off, across })
    };
    points.iter().filter_map(inlier).collect()
}

//! Default matcher: the pose of a model in a scene, or its absence.
use crate::affine::Affine;
use crate::agreement::{Agreement, agreement};
use crate::bases::Pass;
use crate::edges::Edge;
use crate::fit::{Freedom, fit};
use crate::joint::JointTable;
use crate::model::Model;
use crate::picture::Grey;
use crate::refine::{Inlier, Likelihood, Schedule, Scored, best, inliers, refined};
use crate::scene::Scene;
use crate::vote::candidates;
use koel::{Device, Stream};
use std::time::Instant;

/// Options of a [`Matcher`].
///
/// ```
/// use koel_vision::{Freedom, Options, Pass};
///
/// let pass = Pass::default().with_bases(60).with_tilts(vec![(1.4, 4)]);
/// let options =
///     Options::quick().with_seed(7).with_freedom(Freedom::Rigid).with_passes(vec![pass]);
/// assert_eq!(options.freedom, Some(Freedom::Rigid));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Seed of all random choices.
    pub seed: u64,
    /// Minimum evidence, in nats, for a model to count as present.
    pub evidence: f32,
    /// Allowed maps; `None`: affine.
    pub freedom: Option<Freedom>,
    /// Searches, whose candidates are refined together.
    pub passes: Vec<Pass>,
    /// Number of candidates per model kept after each of three refinements.
    pub kept: [usize; 3],
}
impl Default for Options {
    /// Returns two passes: one without tilts but with many bases and scene points, and one with
    /// eleven tilts.
    fn default() -> Options {
        let tilted = Pass {
            tilts: vec![(1.4, 4), (1.9, 6)],
            bases: 60,
            lengths: (0.3, 0.75),
            scene_points: 1200,
            scales: (0.45, 1.5),
            a_point: 8,
            quota: 6000,
            around: 1.0,
        };
        Options {
            seed: 1,
            evidence: 30.0,
            freedom: None,
            passes: vec![Pass::default(), tilted],
            kept: [600, 30, 5],
        }
    }
}
impl Options {
    /// Returns options with a fortieth of the work per model: for many models that are clearly
    /// visible.
    pub fn quick() -> Options {
        let level = Pass {
            tilts: vec![],
            bases: 48,
            lengths: (0.3, 0.75),
            scene_points: 900,
            scales: (0.6, 1.5),
            a_point: 2,
            quota: 150,
            around: 0.5,
        };
        let tilted = Pass {
            tilts: vec![(1.4, 4), (1.9, 6)],
            bases: 12,
            scene_points: 600,
            scales: (0.45, 1.5),
            ..level.clone()
        };
        Options { passes: vec![level, tilted], kept: [60, 10, 2], ..Options::default() }
    }
}

koel::option_setters! { Options:
    seed by with_seed: u64;
    evidence by with_evidence: f32;
    freedom by with_freedom: impl Into<Option<Freedom>>;
    passes by with_passes: Vec<Pass>;
    kept by with_kept: [usize; 3];
}

/// Coarse: few points of every candidate; then all points of the best, with decreasing radii.
const COARSE: Schedule = Schedule { steps: 6, radii: (9.0, 5.0), along: 0.2, damping: 0.003 };
const MIDDLE: Schedule = Schedule { steps: 12, radii: (8.0, 3.0), along: 0.2, damping: 0.001 };
const CLOSE: Schedule = Schedule { steps: 15, radii: (5.0, 1.8), along: 0.1, damping: 0.0005 };
const LAST: Schedule = Schedule { steps: 12, radii: (4.0, 1.2), along: 0.05, damping: 0.0002 };
/// For a model that no affine map fits everywhere (it is bent, or seen in perspective): finds the
/// best compromise instead of the best-fitting part.
const WIDE: Schedule = Schedule { steps: 30, radii: (20.0, 9.0), along: 0.3, damping: 0.0002 };
/// `WIDE` applies if, of the points within `WIDE_INLIER` pixels of an edge, a fraction below
/// `CLOSE_PART` is within `CLOSE_INLIER`.
const WIDE_INLIER: f32 = 6.0;
const CLOSE_PART: f32 = 0.6;
const CLOSE_INLIER: f32 = 1.5;
const NO_STEPS: Schedule = Schedule { steps: 0, radii: (1.0, 1.0), along: 1.0, damping: 0.0 };
/// Maximum distance of an inlier from an edge of its direction, in pixels.
const INLIER: f32 = 3.0;

/// Pose of a model in a scene.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Found {
    /// Map from pixels of the model image to pixels of the scene image.
    pub map: Affine,
    /// Number of model points that lie on edges of the scene.
    pub votes: usize,
    /// Number of contour points within 3 pixels of an edge of the scene.
    pub inliers: usize,
    /// Root mean square of the inliers' distances across the edge, in scene pixels.
    pub rmse: f32,
    /// Positions of the inliers in the scene image.
    pub inlier_points: Vec<(f32, f32)>,
}

/// Result for one model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// Pose of the model; `None` if it is absent.
    pub found: Option<Found>,
    /// Evidence for the best pose, in nats; at least [`Options::evidence`] if found.
    pub evidence: f32,
    /// Comparison of the luminance of model and scene under the best pose; `None` without a pose, or
    /// for a model from a file of version 1.
    pub agreement: Option<Agreement>,
    /// Position of the model's centre, in scene pixels, for each candidate of the votes, and its
    /// evidence in nats.
    pub hypotheses: Vec<((f32, f32), f32)>,
    /// Seconds for tables and votes, refinement, and verdict. In a search for many models, the
    /// share of this model.
    pub seconds: [f64; 3],
}
impl Outcome {
    const NOTHING: Outcome =
        Outcome { found: None, evidence: 0.0, agreement: None, hypotheses: vec![], seconds: [0.0; 3] };
}

/// Finder of models in scenes, on a device.
///
/// Pairs of edge points of a scene look up pairs of a model's points that have the same invariants;
/// the hypotheses with the most evidence are refined to affine maps that lie on edges, and the best
/// one is accepted if chance does not explain it.
///
/// Results do not depend on the device, the number of threads or the run; they depend on
/// [`Options::seed`].
pub struct Matcher {
    stream: Stream,
    options: Options,
}

impl Matcher {
    /// Creates a matcher on a device, with a stream of its own.
    pub fn new(device: &Device, options: Options) -> koel::Result<Matcher> {
        Ok(Matcher { stream: device.stream()?, options })
    }
    /// Builds the scene of an image on the matcher's device; see [`Scene::of`] for the cost.
    pub fn scene(&self, image: &Grey) -> koel::Result<Scene> {
        Scene::of(&self.stream, image)
    }
    /// Builds a table of models for a joint search, with the matcher's options; see
    /// [`JointTable::add`] for cost and errors.
    pub fn table<'m>(
        &self,
        models: impl IntoIterator<Item = &'m Model>,
    ) -> koel::Result<JointTable> {
        let mut table =
            JointTable::new(self.stream.device(), &self.options.passes, self.options.seed)?;
        table.add(models)?;
        Ok(table)
    }
    /// Searches a scene for a model. The result is the same on every device and for any number of
    /// threads. A scene without edges is no error: nothing is found in it.
    ///
    /// Builds a table of the model each time: for several scenes, [`table`](Self::table) and
    /// [`find_all`](Self::find_all) build it once. Allocates, launches kernels and waits; fails if
    /// the device does.
    pub fn find(&self, model: &Model, scene: &Scene) -> koel::Result<Outcome> {
        let begin = Instant::now();
        let table = self.table([model])?;
        let built = begin.elapsed().as_secs_f64();
        let mut outcome =
            self.find_all(&table, scene)?.pop().map_or(Outcome::NOTHING, |(_, outcome)| outcome);
        outcome.seconds[0] += built;
        Ok(outcome)
    }
    /// Searches a scene for all models of a table. Returns an outcome for each model with its
    /// number in the table, in ascending order of the numbers. Each outcome equals that of
    /// [`find`](Self::find) for the model alone, if the table was built by a matcher with the same
    /// options.
    ///
    /// The number of launches does not depend on the number of models, except that each model found
    /// takes at least two more.
    pub fn find_all(
        &self,
        table: &JointTable,
        scene: &Scene,
    ) -> koel::Result<Vec<(usize, Outcome)>> {
        let begin = Instant::now();
        let mut all = vec![];
        for (number, pass) in table.passes().iter().enumerate() {
            all.extend(candidates(&self.stream, scene, table, number, pass)?);
        }
        // For each model, candidates of the first pass come first.
        all.sort_by_key(|c| c.model);
        let voted = Instant::now();
        let finalists = self.refine(table, scene, &all)?;
        let refined = Instant::now();
        let mut outcomes = self.verdicts(table, scene, &finalists)?;
        let n = outcomes.len().max(1) as f64;
        let seconds =
            [voted - begin, refined - voted, refined.elapsed()].map(|d| d.as_secs_f64() / n);
        let mut rest = all.as_slice();
        for ((slot, outcome), (_, model)) in outcomes.iter_mut().zip(table.models()) {
            let own = rest.partition_point(|c| c.model <= *slot);
            let middle = (0.5 * (model.width - 1) as f32, 0.5 * (model.height - 1) as f32);
            let middle = model.to_image.inverse().unwrap_or(Affine::IDENTITY).apply(middle);
            let place = |s: &Scored| (scene.to_image.apply(s.map.apply(middle)), s.score);
            outcome.hypotheses = rest[..own].iter().map(place).collect();
            outcome.seconds = seconds;
            rest = &rest[own..];
        }
        Ok(outcomes)
    }

    /// Returns the best few candidates of each model after all refinements but the last, by their
    /// weighted evidence, best first.
    ///
    /// Wide tolerances move poses, fine ones rank them: the fine evidence separates a pose that
    /// half of the model supports from chance.
    fn refine(
        &self,
        table: &JointTable,
        scene: &Scene,
        candidates: &[Scored],
    ) -> koel::Result<Vec<Scored>> {
        let (stream, points, kept) = (&self.stream, table.points(), self.options.kept);
        let ranked = |poses: Vec<Scored>, most: usize| -> koel::Result<Vec<Scored>> {
            Ok(best(
                refined(stream, scene, &points.weighted, Likelihood::Fine, NO_STEPS, &poses)?,
                most,
            ))
        };
        // Using all points of all candidates would cost more than it gains.
        let coarse = refined(stream, scene, &points.few, Likelihood::Loose, COARSE, candidates)?;
        let coarse = ranked(best(coarse, 4 * kept[0]), kept[0])?;
        let middle = ranked(
            refined(stream, scene, &points.all, Likelihood::Loose, MIDDLE, &coarse)?,
            kept[1],
        )?;
        ranked(refined(stream, scene, &points.all, Likelihood::Fine, CLOSE, &middle)?, kept[2])
    }

    /// Runs the last refinement, on all contours, and decides.
    fn verdicts(
        &self,
        table: &JointTable,
        scene: &Scene,
        finalists: &[Scored],
    ) -> koel::Result<Vec<(usize, Outcome)>> {
        let (stream, points) = (&self.stream, table.points());
        let last = refined(stream, scene, &points.contour, Likelihood::Fine, LAST, finalists)?;
        let last =
            best(refined(stream, scene, &points.weighted, Likelihood::Fine, NO_STEPS, &last)?, 1);
        let first_of = |of: &[Scored], slot: usize| of.iter().find(|c| c.model == slot).copied();
        let outcome = |(slot, model): (usize, &Model)| {
            let outcome = match (first_of(finalists, slot), first_of(&last, slot)) {
                (Some(first), Some(pose)) => {
                    self.verdict(table, model, scene, first.score.max(pose.score), pose)?
                }
                _ => Outcome::NOTHING,
            };
            Ok((slot, outcome))
        };
        table.models().map(outcome).collect()
    }

    /// Decides on a pose and assembles its result.
    fn verdict(
        &self,
        table: &JointTable,
        model: &Model,
        scene: &Scene,
        evidence: f32,
        mut pose: Scored,
    ) -> koel::Result<Outcome> {
        let nothing = Outcome { evidence, ..Outcome::NOTHING };
        if evidence < self.options.evidence {
            return Ok(nothing);
        }
        let (stream, points) = (&self.stream, table.points());
        let on_edges = inliers(stream, &pose.map, &model.contour, scene, WIDE_INLIER)?;
        let close = on_edges.iter().filter(|i| i.off <= CLOSE_INLIER).count();
        if (close as f32) < CLOSE_PART * on_edges.len() as f32 {
            pose = refined(stream, scene, &points.contour, Likelihood::Loose, WIDE, &[pose])?[0];
        }
        if let Some(freedom) = self.options.freedom {
            let Some(map) = self.restricted(freedom, pose.map, model, scene)? else {
                return Ok(nothing);
            };
            let other = Scored { map, ..pose };
            let scored =
                refined(stream, scene, &points.weighted, Likelihood::Fine, NO_STEPS, &[other])?;
            if scored[0].score < self.options.evidence {
                return Ok(nothing);
            }
            pose = other;
        }
        let inliers = |points: &[Edge]| inliers(stream, &pose.map, points, scene, INLIER);
        let agreement = model.patch.as_ref().map(|patch| agreement(patch, &scene.grey, &{
            let (w, h) = model.working();
            let (x, y) = (w / patch.width as f32, h / patch.height as f32);
            pose.map.after(&Affine { linear: [[x, 0.0], [0.0, y]], shift: [0.5 * x - 0.5, 0.5 * y - 0.5] })
        }));
        let nothing = Outcome { agreement, ..nothing };
        let (votes, inliers) = (inliers(&model.points)?.len(), inliers(&model.contour)?);
        let shrunk = scene.to_image.determinant().abs().sqrt();
        let square = |i: &Inlier| (i.across * shrunk).powi(2);
        let rmse = (inliers.iter().map(square).sum::<f32>() / inliers.len().max(1) as f32).sqrt();
        let to_points = model.to_image.inverse().unwrap_or(Affine::IDENTITY);
        let found = Found {
            map: scene.to_image.after(&pose.map).after(&to_points),
            votes,
            inliers: inliers.len(),
            rmse,
            inlier_points: inliers.iter().map(|i| scene.to_image.apply(i.at)).collect(),
        };
        Ok(Outcome { found: Some(found), ..nothing })
    }

    /// Finds the best map with less freedom: first the closest to `map`, then iteratively fitted to
    /// the edges around.
    fn restricted(
        &self,
        freedom: Freedom,
        map: Affine,
        model: &Model,
        scene: &Scene,
    ) -> koel::Result<Option<Affine>> {
        let place = |p: &Edge| ((p.x, p.y), map.apply((p.x, p.y)));
        let mut restricted = fit(freedom, &model.contour.iter().map(place).collect::<Vec<_>>());
        for radius in [8.0, 6.0, 5.0, 4.0, INLIER, INLIER] {
            let Some(map) = restricted else { break };
            let pair = |i: Inlier| {
                (i.point, (i.at.0 + i.across * i.normal.0, i.at.1 + i.across * i.normal.1))
            };
            let inliers = inliers(&self.stream, &map, &model.contour, scene, radius)?;
            restricted = fit(freedom, &inliers.into_iter().map(pair).collect::<Vec<_>>());
        }
        Ok(restricted)
    }
}

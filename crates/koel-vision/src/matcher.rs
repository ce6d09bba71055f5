//! Default matcher: the pose of a model in a scene, or its absence.
use crate::affine::Affine;
use crate::agreement::Agreement;
use crate::bases::Pass;
use crate::device::in_kernels;
use crate::fit::Freedom;
use crate::homography::Homography;
use crate::joint::JointTable;
use crate::model::{Model, TooFewEdges};
use crate::picture::Grey;
use crate::refine::{Likelihood, Round, Schedule, Scored, best, refined};
use crate::scene::Scene;
use crate::verdict::Doubt;
use crate::vote::candidates;
use koel::{Device, Stream};
use std::ops::Range;
use std::panic::resume_unwind;
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
    /// Searches, in the order of [`stages`](Self::stages).
    pub passes: Vec<Pass>,
    /// Number of passes in each stage: their candidates are refined together, and models that are
    /// not found go on to the next stage. Passes beyond the sum are in the last stage.
    pub stages: Vec<usize>,
    /// Whether luminance must agree, beside edges.
    pub agreement: bool,
    /// Whether colour must agree, if model and scene have any.
    pub colour: bool,
    /// Whether [`Matcher::find`] also searches reduced versions of model and scene, for scales of
    /// 0.25 to 4, and compares models of few pixels with every place of the scene.
    pub wide: bool,
    /// Whether a model may also be mirrored: the map then has a negative determinant. What is not
    /// found takes twice the time.
    pub mirrored: bool,
    /// Whether a model may also be negative, with dark and bright exchanged. What is not found
    /// takes twice the time, with [`mirrored`](Self::mirrored) four times.
    pub negative: bool,
    /// Whether the affine map of a model that is found is refined to a homography. Ignored unless
    /// [`freedom`](Self::freedom) is affine.
    pub perspective: bool,
    /// Number of candidates per model kept after each of three refinements; half as many in the
    /// first of several stages.
    pub kept: [usize; 3],
}
impl Default for Options {
    /// Returns a pass of many short bases, which most models in a scene are found by; for the
    /// others, one of long bases and one with eleven tilts.
    fn default() -> Options {
        let long = Pass {
            tilts: vec![],
            bases: 48,
            lengths: (0.25, 0.6),
            scene_points: 1200,
            scales: (0.45, 1.6),
            a_point: 3,
            quota: 500,
            around: 0.5,
        };
        let tilted = Pass {
            tilts: vec![(1.4, 4), (1.9, 6)],
            bases: 16,
            lengths: (0.15, 0.5),
            scene_points: 1000,
            a_point: 4,
            quota: 800,
            ..long.clone()
        };
        let short = Pass::default();
        let shortest = Pass { bases: 40, scene_points: 1500, quota: 200, ..short.clone() };
        Options {
            seed: 1,
            evidence: 30.0,
            freedom: None,
            passes: vec![shortest, short, long, tilted],
            stages: vec![1, 1, 2],
            agreement: true,
            colour: true,
            wide: true,
            mirrored: false,
            negative: false,
            perspective: true,
            kept: [200, 20, 4],
        }
    }
}
impl Options {
    /// Returns options with a single stage and little work per model: for many models that are
    /// clearly visible.
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
        Options {
            passes: vec![level, tilted],
            stages: vec![],
            wide: false,
            perspective: false,
            kept: [60, 10, 2],
            ..Options::default()
        }
    }
}

koel::option_setters! { Options:
    seed by with_seed: u64;
    evidence by with_evidence: f32;
    freedom by with_freedom: impl Into<Option<Freedom>>;
    passes by with_passes: Vec<Pass>;
    stages by with_stages: Vec<usize>;
    agreement by with_agreement: bool;
    colour by with_colour: bool;
    wide by with_wide: bool;
    mirrored by with_mirrored: bool;
    negative by with_negative: bool;
    perspective by with_perspective: bool;
    kept by with_kept: [usize; 3];
}

/// Coarse: few points of every candidate; then all points of the best, with decreasing radii, first
/// in a few steps.
const COARSE: Schedule = Schedule { steps: 6, radii: (9.0, 5.0), along: 0.2, damping: 0.003 };
const FIRST: Schedule = Schedule { steps: 4, radii: (8.0, 6.1), along: 0.2, damping: 0.001 };
pub(crate) const MIDDLE: Schedule =
    Schedule { steps: 8, radii: (5.6, 3.0), along: 0.2, damping: 0.001 };
/// Part of the candidates that go on after the first steps.
const PROMISING: usize = 4;
pub(crate) const CLOSE: Schedule =
    Schedule { steps: 15, radii: (5.0, 1.8), along: 0.1, damping: 0.0005 };
/// Factor of the required evidence from which on no further stage is searched, if luminance is
/// nearly proof too.
pub(crate) const PROVED: f32 = 3.0;

/// Maximum number of times that a search goes on after all best poses were those of others.
const REFUSED: usize = 8;
/// Mean distance of the corners from those of a refused pose, as a fraction of the diagonal, within
/// which a pose is at the same place.
const BESIDE: f32 = 0.15;

/// Pose of a model in a scene.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Found {
    /// Map from pixels of the model image to pixels of the scene image. Its determinant is negative
    /// if the model is mirrored.
    pub map: Affine,
    /// The same map in perspective, if the scene shows the model so clearly tilted that it has more
    /// evidence: see [`Options::perspective`].
    pub homography: Option<Homography>,
    /// Whether dark and bright are exchanged: see [`Options::negative`].
    pub negative: bool,
    /// Whether the scene shows a part of the model: see [`Matcher::find_part`].
    pub part: bool,
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
    /// Comparison of the luminance of model and scene under the best pose; `None` without a pose,
    /// or for a model from a file of version 1.
    pub agreement: Option<Agreement>,
    /// Fraction of the colour of model and scene that agrees under the best pose; `None` unless
    /// both have colour and it was compared.
    pub colour: Option<f32>,
    /// Why the best pose is not accepted.
    pub doubt: Option<Doubt>,
    /// Position of the model's centre, in scene pixels, for each candidate of the votes, and its
    /// evidence in nats.
    pub hypotheses: Vec<((f32, f32), f32)>,
    /// Seconds for tables and votes, refinement, and verdict. In a search for many models, the
    /// share of this model.
    pub seconds: [f64; 3],
}
impl Outcome {
    pub(crate) const NOTHING: Outcome = Outcome {
        found: None,
        evidence: 0.0,
        agreement: None,
        colour: None,
        doubt: None,
        hypotheses: vec![],
        seconds: [0.0; 3],
    };

    /// Returns whether a further search can improve little: the model is found, and its visible
    /// parts lie where the map says, or edges and luminance both prove it. A bent model may lie
    /// better elsewhere, and so may one that agrees in part, if it repeats itself: a second stage
    /// tells.
    fn is_settled(&self, stages: usize, required: f32) -> bool {
        let is_proved = self.evidence >= PROVED * required;
        let settles = |a: Agreement| match a.is_whole() {
            true => a.is_precise() || is_proved && a.is_strong(),
            false => stages > 1 && (a.is_precise() || is_proved && a.is_strong()),
        };
        self.found.is_some() && self.agreement.is_none_or(settles)
    }
    /// Adds the result of a further search: keeps the pose that is accepted; of two, the one in
    /// which more agrees, or else the one with more evidence.
    pub(crate) fn merge(&mut self, mut other: Outcome) {
        let rank = |o: &Outcome| {
            let agreeing = o.agreement.map_or(0.0, |a| a.agreeing);
            (o.found.is_some(), if o.found.is_some() { agreeing } else { 0.0 }, o.evidence)
        };
        if rank(&other) > rank(self) {
            std::mem::swap(self, &mut other);
        }
        self.hypotheses.append(&mut other.hypotheses);
        self.seconds.iter_mut().zip(other.seconds).for_each(|(all, s)| *all += s);
    }
}

/// State of a search after some of its stages.
struct Progress {
    /// Number of stages done.
    done: usize,
    /// Whether a model needs further ones.
    wanted: Vec<bool>,
    outcomes: Vec<(usize, Outcome)>,
    judged: Judged,
}
/// Poses that were judged.
#[derive(Default)]
pub(crate) struct Judged {
    pub all: Vec<Scored>,
    /// Those that have the model's edges but, by colour or luminance, show something else.
    pub of_others: Vec<Scored>,
}
impl Progress {
    fn of(table: &JointTable) -> Progress {
        let wanted = table.slots().iter().map(Option::is_some).collect();
        Progress { done: 0, wanted, outcomes: vec![], judged: Judged::default() }
    }
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
    pub(crate) stream: Stream,
    pub(crate) options: Options,
}

impl Matcher {
    /// Creates a matcher on a device, with a stream of its own.
    pub fn new(device: &Device, options: Options) -> koel::Result<Matcher> {
        Ok(Matcher { stream: device.stream()?, options })
    }
    /// Builds the scene of an image on the matcher's device; see [`Scene::of`] for the cost.
    pub fn scene(&self, image: &Grey) -> koel::Result<Scene> {
        self.stream.device().install(|| Scene::of(&self.stream, image))
    }
    /// Makes the model of one image and the scene of another. On a GPU, the host makes the model
    /// meanwhile; otherwise this is [`Model::of`] and [`scene`](Self::scene).
    pub fn model_and_scene(
        &self,
        model: &Grey,
        scene: &Grey,
    ) -> koel::Result<(Result<Model, TooFewEdges>, Scene)> {
        if !in_kernels(&self.stream) {
            return Ok((Model::of(model), self.scene(scene)?));
        }
        std::thread::scope(|threads| {
            let model = threads.spawn(|| Model::of(model));
            let scene = self.scene(scene)?;
            Ok((model.join().unwrap_or_else(|panic| resume_unwind(panic)), scene))
        })
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
    /// Builds a table of the model each time, for the stages that it needs: for several scenes,
    /// [`table`](Self::table) and [`find_all`](Self::find_all) build it once. Allocates, launches
    /// kernels and waits; fails if the device does.
    pub fn find(&self, model: &Model, scene: &Scene) -> koel::Result<Outcome> {
        // All in one pool: threads of two pools would wait for each other.
        self.stream.device().install(|| self.in_all_looks(model, |m| self.find_anywhere(m, scene)))
    }
    fn find_anywhere(&self, model: &Model, scene: &Scene) -> koel::Result<Outcome> {
        let mut outcome = self.find_here(model, scene, usize::MAX)?;
        if outcome.found.is_none() && self.options.wide {
            self.find_beyond(model, scene, &mut outcome)?;
        }
        if outcome.found.is_none() && self.options.wide {
            self.find_small(model, scene, &mut outcome)?;
        }
        Ok(outcome)
    }
    /// Searches at the scales of the passes, in at most `most` stages.
    pub(crate) fn find_here(
        &self,
        model: &Model,
        scene: &Scene,
        most: usize,
    ) -> koel::Result<Outcome> {
        let begin = Instant::now();
        let Options { passes, seed, .. } = &self.options;
        let stages = self.stages(passes.len());
        let ready = stages.first().map_or(0, |first| first.end);
        let mut table = JointTable::of_one(self.stream.device(), model, (passes, ready), *seed)?;
        let mut progress = Progress::of(&table);
        let mut built = begin.elapsed().as_secs_f64();
        for stage in stages.iter().take(most) {
            let begin = Instant::now();
            table.make_ready(stage.end)?;
            built += begin.elapsed().as_secs_f64();
            if self.advance(&table, scene, (&stages, stage), &mut progress)? {
                break;
            }
        }
        let mut outcome = progress.outcomes.pop().map_or(Outcome::NOTHING, |(_, outcome)| outcome);
        outcome.seconds[0] += built;
        Ok(outcome)
    }
    /// Searches a scene for all models of a table. Returns an outcome for each model with its
    /// number in the table, in ascending order of the numbers. Each outcome equals that of
    /// [`find`](Self::find) for the model alone, if the table was built by a matcher with the same
    /// options.
    ///
    /// The number of launches does not depend on the number of models, except that each model found
    /// takes at least two more. With [`Options::mirrored`] or [`Options::negative`], the models
    /// that are not found are entered, in their other looks, in a table built for this scene.
    pub fn find_all(
        &self,
        table: &JointTable,
        scene: &Scene,
    ) -> koel::Result<Vec<(usize, Outcome)>> {
        let mut outcomes = self.staged(table, scene, usize::MAX)?;
        self.find_other_looks(table, scene, &mut outcomes)?;
        Ok(outcomes)
    }
    /// Searches in at most `most` stages.
    pub(crate) fn staged(
        &self,
        table: &JointTable,
        scene: &Scene,
        most: usize,
    ) -> koel::Result<Vec<(usize, Outcome)>> {
        let (stages, mut progress) = (self.stages(table.passes().len()), Progress::of(table));
        for stage in stages.iter().take(most) {
            if self.advance(table, scene, (&stages, stage), &mut progress)? {
                break;
            }
        }
        Ok(progress.outcomes)
    }
    /// Searches one of the stages; returns whether no model needs further ones.
    fn advance(
        &self,
        table: &JointTable,
        scene: &Scene,
        (stages, stage): (&[Range<usize>], &Range<usize>),
        progress: &mut Progress,
    ) -> koel::Result<bool> {
        let Progress { done, wanted, outcomes, judged } = progress;
        let halved = (*done == 0 && stages.len() > 1) as usize;
        let kept = self.options.kept.map(|n| n.div_ceil(1 + halved));
        let others = self.stage(table, scene, stage.clone(), (wanted, kept), judged)?;
        if *done == 0 {
            *outcomes = others;
        } else {
            let both = outcomes.iter_mut().zip(others);
            both.filter(|((slot, _), _)| wanted[*slot]).for_each(|((_, a), (_, b))| a.merge(b));
        }
        *done += 1;
        outcomes.iter().for_each(|(slot, outcome)| {
            wanted[*slot] = !outcome.is_settled(*done, self.options.evidence)
        });
        Ok(!wanted.contains(&true))
    }
    /// Returns the passes of each stage.
    fn stages(&self, passes: usize) -> Vec<Range<usize>> {
        let (mut ranges, mut begin) = (vec![], 0);
        for &n in &self.options.stages {
            let end = (begin + n).min(passes);
            ranges.push(begin..end);
            begin = end;
        }
        match ranges.last_mut() {
            Some(last) => last.end = passes,
            None => ranges.push(0..passes),
        }
        ranges
    }

    /// Searches a scene for the wanted models of a table with some of the passes.
    fn stage(
        &self,
        table: &JointTable,
        scene: &Scene,
        passes: Range<usize>,
        (wanted, kept): (&[bool], [usize; 3]),
        judged: &mut Judged,
    ) -> koel::Result<Vec<(usize, Outcome)>> {
        let begin = Instant::now();
        let alive = wanted.iter().map(|&w| w as u32).collect::<Vec<u32>>();
        let alive = self.stream.device().upload(&alive)?;
        let mut all = vec![];
        for number in passes {
            all.extend(candidates(&self.stream, scene, table, number, &alive)?);
        }
        // For each model, candidates of the first pass come first.
        all.sort_by_key(|c| c.model);
        let voted = Instant::now();
        let mut known = judged.of_others.len();
        // Using all points of all candidates would cost more than it gains.
        let few = &table.points().few;
        let few = Round { points: few, likelihood: Likelihood::Loose, schedule: COARSE };
        let coarse = refined(&self.stream, scene, &[few], &all)?;
        let finalists = self.refine(table, scene, (&coarse, &judged.of_others), kept)?;
        let refined = Instant::now();
        let mut outcomes = self.verdicts(table, scene, &finalists, judged)?;
        // Another thing of the same kind has as much evidence as the model, which may be elsewhere.
        for _ in 0..REFUSED {
            let new = &judged.of_others[known..];
            let is_open = |slot: usize| {
                new.iter().any(|pose| pose.model == slot)
                    && outcomes.iter().any(|(of, o)| *of == slot && o.found.is_none())
            };
            let open = coarse.iter().filter(|c| is_open(c.model)).copied().collect::<Vec<Scored>>();
            if open.is_empty() {
                break;
            }
            known = judged.of_others.len();
            let finalists = self.refine(table, scene, (&open, &judged.of_others), kept)?;
            let others = self.verdicts(table, scene, &finalists, judged)?;
            outcomes.iter_mut().zip(others).for_each(|((_, a), (_, b))| a.merge(b));
        }
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

    /// Returns the best few of the coarse candidates of each model after all refinements but the
    /// last, by their weighted evidence, best first; none at the place of a refused pose.
    ///
    /// Wide tolerances move poses, fine ones rank them: the fine evidence separates a pose that
    /// half of the model supports from chance.
    fn refine(
        &self,
        table: &JointTable,
        scene: &Scene,
        (coarse, refused): (&[Scored], &[Scored]),
        kept: [usize; 3],
    ) -> koel::Result<Vec<Scored>> {
        let (stream, points) = (&self.stream, table.points());
        let elsewhere = |pose: &Scored| {
            let Some(model) = table.slots()[pose.model].as_ref() else { return true };
            let (w, h) = model.model.working();
            let off = |r: &Scored| r.map.corner_error(&pose.map, w as usize, h as usize);
            let near = BESIDE * w.hypot(h) * pose.map.scale();
            refused.iter().all(|r| r.model != pose.model || off(r) > near)
        };
        let ranked = Round::scores(&points.weighted);
        let all = |likelihood, schedule| Round { points: &points.all, likelihood, schedule };
        let best_of = |rounds: &[Round<'_>], poses: &[Scored], most: usize| {
            let mut poses = refined(stream, scene, rounds, poses)?;
            poses.retain(elsewhere);
            Ok::<_, koel::Error>(best(poses, most))
        };
        let coarse = coarse.iter().filter(|pose| elsewhere(pose)).copied().collect();
        let coarse = best(coarse, 4 * kept[0]);
        let coarse = best_of(&[ranked], &coarse, kept[0])?;
        let promising = (kept[0] / PROMISING).max(2 * kept[1]);
        let first = best_of(&[all(Likelihood::Loose, FIRST), ranked], &coarse, promising)?;
        let middle = best_of(&[all(Likelihood::Loose, MIDDLE), ranked], &first, kept[1])?;
        best_of(&[all(Likelihood::Fine, CLOSE), ranked], &middle, kept[2])
    }
}

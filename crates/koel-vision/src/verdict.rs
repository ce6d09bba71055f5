//! Verdict: the last refinement of a few poses, and the decision whether one is the model's.
use crate::affine::Affine;
use crate::agreement::{Agreement, Compared, Luminance, Patch, Region, VISIBLE, agreement};
use crate::colour::{self, Colours};
use crate::device::{in_kernels, upload};
use crate::edges::Edge;
use crate::fit::{Freedom, fit};
use crate::homography::Homography;
use crate::joint::{AllPoints, JointTable};
use crate::maps::Likelihood;
use crate::matcher::Matcher;
use crate::model::Model;
use crate::outcome::{Doubt, Found, MatchOutcome, PROVED};
use crate::rectified::{closest, rectified};
use crate::refine::{
    CLOSE, Frame, Inlier, PointLists, Round, Schedule, Scored, Strips, best, inliers, refined,
};
use crate::scene::Scene;

const LAST: Schedule = Schedule { steps: 12, radii: (4.0, 1.2), along: 0.05, damping: 0.0002 };
/// For a model that no affine map fits everywhere (it is bent, or seen in perspective): finds the
/// best compromise instead of the best-fitting part.
const WIDE: Schedule = Schedule { steps: 30, radii: (20.0, 9.0), along: 0.3, damping: 0.0002 };
/// `WIDE` applies if, of the points within `WIDE_INLIER` pixels of an edge, a fraction below
/// `CLOSE_PART` is within `CLOSE_INLIER`.
const WIDE_INLIER: f32 = 6.0;
const CLOSE_PART: f32 = 0.6;
const CLOSE_INLIER: f32 = 1.5;
/// Fraction of the contour within `CLOSE_INLIER` of an edge from which on a pose that is refused
/// shows something of the model's kind.
const ALIKE: f32 = 0.8;
/// Maximum distance of an inlier from an edge of its direction, in pixels.
const INLIER: f32 = 3.0;

/// Mean distance of the corners, in pixels, below which a pose counts as one that was judged.
const SAME: f32 = 0.5;
/// Poses of a model that are compared with the scene's luminance.
const COMPARED: usize = 3;
/// The fraction of the required evidence from which on a photograph is compared: the covered points
/// of a true pose may speak against it more than the visible ones speak for it.
const COVERED: f32 = -0.5;
/// Evidence, as a fraction of that required, that a pose must gain to be moved from where the
/// blocks lie to where the edges do.
const POLISHED: f32 = 0.5;
/// Maximum ratio of the scales along the two axes of a map, and its range of scales in the images
/// that are searched: beyond it, poses are chance.
const MAX_TILT: f32 = 3.0;
const SCALES: (f32, f32) = (0.35, 2.1);

/// A pose, and what speaks for and against it so far.
struct Judgement {
    pose: Scored,
    evidence: f32,
    agreement: Option<Agreement>,
    /// The part of the model that is visible, if luminance was compared.
    visible: Option<Region>,
    homography: Option<Homography>,
    doubt: Option<Doubt>,
}

impl Judgement {
    fn of(pose: Scored, evidence: f32) -> Judgement {
        let (agreement, visible, homography, doubt) = (None, None, None, None);
        Judgement { pose, evidence, agreement, visible, homography, doubt }
    }
}

/// Poses that were judged.
#[derive(Default)]
pub(crate) struct Judged {
    pub all: Vec<Scored>,
    /// Those that have the model's edges but, by colour or luminance, show something else.
    pub of_others: Vec<Scored>,
}

impl Matcher {
    /// Runs the last refinement, on all contours, and decides. Leaves out the poses in `judged`,
    /// and adds the others to it: later stages lead to the same ones again. A model of which all
    /// poses are left out has the least evidence that there is.
    pub(crate) fn verdicts(
        &self,
        table: &JointTable,
        scene: &Scene,
        finalists: &[Scored],
        judged: &mut Judged,
    ) -> koel::Result<Vec<(usize, MatchOutcome)>> {
        let (stream, points) = (&self.stream, table.points());
        let rounds = [contour(points, Likelihood::Fine, LAST), Round::scores(&points.weighted)];
        let last = best(refined(stream, scene, &rounds, finalists)?, COMPARED);
        let outcome = |(slot, model): (usize, &Model)| {
            let first = finalists.iter().find(|c| c.model == slot);
            let mut outcome: Option<MatchOutcome> = None;
            let (w, h) = model.working();
            let mut left_out = false;
            for (rank, pose) in last.iter().filter(|c| c.model == slot).enumerate() {
                let off = |j: &Scored| j.map.corner_error(&pose.map, w as usize, h as usize);
                if judged.all.iter().any(|j| j.model == slot && off(j) < SAME) {
                    left_out = true;
                    continue;
                }
                judged.all.push(*pose);
                let before = first.filter(|_| rank == 0).map_or(f32::MIN, |f| f.score);
                let evidence = pose.score.max(before);
                let one = self.verdict(table, model, scene, evidence, *pose)?;
                let found = one.found.is_some();
                if self.is_of_another(&one, (model, pose), scene)? {
                    judged.of_others.push(*pose);
                }
                match &mut outcome {
                    Some(outcome) => outcome.merge(one),
                    None => outcome = Some(one),
                }
                if found {
                    break;
                }
            }
            let evidence = if left_out { f32::MIN } else { 0.0 };
            Ok((slot, outcome.unwrap_or(MatchOutcome { evidence, ..MatchOutcome::NOTHING })))
        };
        table.models().map(outcome).collect()
    }

    /// Returns whether a pose that was refused has the model's edges but shows something else.
    fn is_of_another(
        &self,
        outcome: &MatchOutcome,
        (model, pose): (&Model, &Scored),
        scene: &Scene,
    ) -> koel::Result<bool> {
        match outcome.doubt {
            Some(Doubt::Colour) => Ok(true),
            Some(Doubt::Agreement) if outcome.evidence >= PROVED * self.options.evidence => {
                let on_edges =
                    inliers(&self.stream, &pose.map, &model.contour, scene, CLOSE_INLIER)?;
                Ok(on_edges.len() as f32 >= ALIKE * model.contour.len() as f32)
            }
            _ => Ok(false),
        }
    }
    /// Decides on a pose and assembles its result.
    fn verdict(
        &self,
        table: &JointTable,
        model: &Model,
        scene: &Scene,
        evidence: f32,
        mut pose: Scored,
    ) -> koel::Result<MatchOutcome> {
        let of_part = pose.map;
        let refused =
            |doubt| Ok(MatchOutcome { evidence, doubt: Some(doubt), ..MatchOutcome::NOTHING });
        if self.lacks_evidence(model, evidence) {
            return refused(Doubt::Evidence);
        }
        let (stream, points) = (&self.stream, table.points());
        let on_edges = inliers(stream, &pose.map, &model.contour, scene, WIDE_INLIER)?;
        let close = on_edges.iter().filter(|i| i.off <= CLOSE_INLIER).count();
        let exact = pose;
        if (close as f32) < CLOSE_PART * on_edges.len() as f32 {
            let wide = contour(points, Likelihood::Loose, WIDE);
            pose = refined(stream, scene, &[wide], &[pose])?[0];
        }
        if let Some(freedom) = self.options.freedom {
            let Some(map) = self.restricted(freedom, pose.map, model, scene)? else {
                return refused(Doubt::Freedom);
            };
            let other = Scored { map, ..pose };
            let scored = refined(stream, scene, &[Round::scores(&points.weighted)], &[other])?;
            if scored[0].score < self.options.evidence {
                return refused(Doubt::Evidence);
            }
            pose = other;
        }
        let free = matches!(self.options.freedom, None | Some(Freedom::Affine));
        let tilts = free && self.options.perspective;
        let mut judgement = Judgement::of(pose, evidence);
        if self.options.agreement {
            judgement = self.by_luminance(table, (model, scene), exact, judgement)?;
            if tilts {
                judgement = self.by_tilt((model, scene), of_part, judgement)?;
            }
        } else if tilts {
            judgement.homography = self.perspective(model, scene, (pose.map, of_part))?;
        }
        self.outcome(model, scene, judgement)
    }
    /// Returns whether the evidence from edges is too little for any further look at a pose.
    fn lacks_evidence(&self, model: &Model, evidence: f32) -> bool {
        let required = self.options.evidence;
        let compared = model.patch.as_ref().filter(|_| self.options.agreement);
        let least = match compared {
            Some(patch) if !patch.is_drawing() => COVERED,
            _ => 1.0,
        };
        // A crowded model is found by correlation, if at all.
        model.is_crowded()
            // Options may ask for less than nothing.
            || evidence < (least * required).min(required)
    }
    /// Compares the luminance under a pose, or under the `exact` one that it was refined from, and
    /// refines it by what is visible.
    fn by_luminance(
        &self,
        table: &JointTable,
        (model, scene): (&Model, &Scene),
        exact: Scored,
        mut judgement: Judgement,
    ) -> koel::Result<Judgement> {
        let poses = [exact, judgement.pose];
        let differ = self.options.freedom.is_none() && exact.map != judgement.pose.map;
        if let Some(compared) = self.compare(model, scene, &poses[!differ as usize..])? {
            let polished = self.polished(table, (model, scene), judgement.evidence, compared)?;
            let ((pose, compared), evidence) = self.of_visible_part((model, scene), polished)?;
            (judgement.pose, judgement.evidence) = (pose, evidence);
            judgement.agreement = Some(compared.agreement);
            judgement.visible = Some(compared.visible);
        }
        let Judgement { pose, evidence, agreement, .. } = &judgement;
        judgement.doubt = self.doubt(pose, *evidence, agreement.as_ref());
        Ok(judgement)
    }
    /// Looks for a homography that fits better: of an accepted pose, or of one that is refused
    /// because its luminance differs. `of_part` is the pose before its refinement.
    fn by_tilt(
        &self,
        (model, scene): (&Model, &Scene),
        of_part: Affine,
        mut judgement: Judgement,
    ) -> koel::Result<Judgement> {
        let Judgement { pose, evidence, agreement, doubt, .. } = judgement;
        // Chance has too little luminance for a tilt to be the reason.
        let may_be_tilted = |a: Agreement| a.visible >= VISIBLE;
        let is_possible =
            matches!(doubt, None | Some(Doubt::Agreement)) && agreement.is_none_or(may_be_tilted);
        if !is_possible {
            return Ok(judgement);
        }
        let Some(tilted) = self.perspective(model, scene, (pose.map, of_part))? else {
            return Ok(judgement);
        };
        let compared = match &model.patch {
            Some(patch) => self.compare_tilted((patch, model.working()), scene, &tilted)?,
            None => None,
        };
        // What only the homography fits has the closest affine map.
        let moved = match doubt {
            Some(_) => closest(&tilted, model.working()).map(|map| Scored { map, ..pose }),
            None => Some(pose),
        };
        let accepted = compared
            .zip(moved)
            .filter(|(c, moved)| self.doubt(moved, evidence, Some(&c.agreement)).is_none());
        if let Some((compared, moved)) = accepted {
            judgement.pose = moved;
            judgement.agreement = Some(compared.agreement);
            judgement.visible = Some(compared.visible);
            judgement.doubt = None;
        }
        if judgement.doubt.is_none() {
            judgement.homography = Some(tilted);
        }
        Ok(judgement)
    }
    /// Describes a pose that was judged, and compares colours if nothing else speaks against it.
    fn outcome(
        &self,
        model: &Model,
        scene: &Scene,
        judgement: Judgement,
    ) -> koel::Result<MatchOutcome> {
        let Judgement { pose, evidence, agreement, visible, homography, doubt } = judgement;
        if doubt.is_some() {
            return Ok(MatchOutcome { evidence, agreement, doubt, ..MatchOutcome::NOTHING });
        }
        let found = self.found(model, scene, &pose, homography)?;
        let outcome =
            MatchOutcome { found: Some(found), evidence, agreement, ..MatchOutcome::NOTHING };
        let Some(visible) = visible.filter(|_| agreement.is_some_and(|a| !a.is_whole())) else {
            return Ok(self.with_colour(outcome, model.colours(), scene, |_| true));
        };
        let (to_points, (w, h)) = (model.to_image.inverse(), model.working());
        let is_visible = |p: (f32, f32)| {
            let at = to_points.map(|to_points| to_points.apply(p));
            at.is_some_and(|(x, y)| visible.contains((x / w, y / h)))
        };
        Ok(self.with_colour(outcome, model.colours(), scene, is_visible))
    }

    /// Compares the luminance of a model, of the given size in the coordinates of its points, with
    /// a scene under a homography between their points; `None` if the model reaches the horizon.
    pub(crate) fn compare_tilted(
        &self,
        (patch, size): (&Patch, (f32, f32)),
        scene: &Scene,
        homography: &Homography,
    ) -> koel::Result<Option<Compared>> {
        let of_grey = Homography::from(scene.to_grey).after(homography);
        let turned = of_grey.and_then(|map| rectified(&scene.grey, &map, size));
        let Some((grey, map)) = turned else { return Ok(None) };
        let image = match in_kernels(&self.stream) {
            true => Some(upload(&grey, self.stream.device())?),
            false => None,
        };
        let on_device = image.as_ref().map(|image| (&self.stream, image));
        let map = map.after(&patch_to_points(size, patch.width, patch.height));
        agreement(patch, Luminance { grey: &grey, on_device }, map, false).map(Some)
    }
    /// Compares colours under the pose of an outcome, and refuses it if they differ. `is_visible`
    /// tells which points of the model's image are not covered.
    pub(crate) fn with_colour(
        &self,
        mut outcome: MatchOutcome,
        (model, is_drawing): (Option<&Colours>, bool),
        scene: &Scene,
        is_visible: impl Fn((f32, f32)) -> bool,
    ) -> MatchOutcome {
        let both = model.zip(scene.colours.as_ref());
        let both = both.filter(|_| self.options.colour && self.options.agreement);
        let (Some(colours), Some(found)) = (both, &outcome.found) else { return outcome };
        let map = |p: (f32, f32)| match &found.homography {
            Some(homography) => homography.apply(p),
            None => Some(found.map.apply(p)),
        };
        if let Some(compared) = colour::compared(colours, map, is_visible, is_drawing) {
            outcome.colour = Some(compared.agreement);
            if !compared.accepts(is_drawing) {
                (outcome.found, outcome.doubt) = (None, Some(Doubt::Colour));
            }
        }
        outcome
    }

    /// Compares the luminance of model and scene under each of some poses, fitted to the places of
    /// the blocks. Returns the best one; `None` if the model has no luminance, or no pose is in the
    /// range.
    fn compare(
        &self,
        model: &Model,
        scene: &Scene,
        poses: &[Scored],
    ) -> koel::Result<Option<(Scored, Compared)>> {
        let Some(patch) = &model.patch else { return Ok(None) };
        let to_points = patch_to_points(model.working(), patch.width, patch.height);
        let (Some(to_patch), Some(of_grey)) = (to_points.inverse(), scene.to_grey.inverse()) else {
            return Ok(None);
        };
        let fits = self.options.freedom.is_none();
        let mut best: Option<(Scored, Compared)> = None;
        for pose in poses.iter().filter(|pose| in_range(&pose.map)) {
            let map = scene.to_grey.after(&pose.map).after(&to_points);
            let one = agreement(patch, scene.luminance(&self.stream), map, fits)?;
            let better = |(_, b): &(_, Compared)| one.agreement.is_better(&b.agreement);
            if best.as_ref().is_none_or(better) {
                let map = of_grey.after(&one.map).after(&to_patch);
                best = Some((Scored { map, ..*pose }, one));
            }
        }
        Ok(best)
    }
    /// Refines a pose again to the edges, from where the blocks have moved it, if that gives it
    /// much more evidence: the search may have led to a tilt too far off for the edges alone. A
    /// model that is bent gains nothing: a part of it would fit better. Returns the evidence, too.
    fn polished(
        &self,
        table: &JointTable,
        (model, scene): (&Model, &Scene),
        evidence: f32,
        (pose, compared): (Scored, Compared),
    ) -> koel::Result<((Scored, Compared), f32)> {
        if !compared.fitted {
            return Ok(((pose, compared), evidence));
        }
        let (stream, points) = (&self.stream, table.points());
        let close = Round { points: &points.all, likelihood: Likelihood::Fine, schedule: CLOSE };
        let last = contour(points, Likelihood::Fine, LAST);
        let rounds = [close, last, Round::scores(&points.weighted)];
        let last = refined(stream, scene, &rounds, &[pose])?;
        let more = last[0].score;
        if more < evidence + POLISHED * self.options.evidence.max(0.0) {
            return Ok(((pose, compared), evidence));
        }
        Ok(match self.compare(model, scene, &last)? {
            Some((other, again)) if again.agreement.agreeing >= compared.agreement.agreeing => {
                ((other, again), more)
            }
            _ => ((pose, compared), evidence),
        })
    }
    /// Refines a pose that has too little evidence to the edges of the visible part alone, and
    /// returns it with the evidence of that part, if there is one and any affine map is allowed.
    ///
    /// Takes one or two launches, and a comparison.
    fn of_visible_part(
        &self,
        (model, scene): (&Model, &Scene),
        ((pose, compared), evidence): ((Scored, Compared), f32),
    ) -> koel::Result<((Scored, Compared), f32)> {
        let suffices = evidence >= self.options.evidence;
        let free = self.options.freedom.is_none();
        if suffices || !free || !compared.agreement.is_partly_visible() {
            return Ok(((pose, compared), evidence));
        }
        let (w, h) = model.working();
        let points = model.points.iter().zip(&model.weights);
        let (points, weights): (Vec<&Edge>, Vec<f32>) =
            points.filter(|(p, _)| compared.visible.contains((p.x / w, p.y / h))).unzip();
        let mut lists = PointLists::default();
        lists.push(Frame::of(model), points.into_iter(), Some(&weights));
        let points = lists.upload(self.stream.device(), Strips::SOME)?;
        // The only model of the list.
        let alone = [Scored { model: 0, ..pose }];
        let scores = Round::scores(&points);
        let scored = |round: Round<'_>| -> koel::Result<Scored> {
            let scored = refined(&self.stream, scene, &[round], &alone)?;
            Ok(Scored { model: pose.model, ..scored[0] })
        };
        let moved = scored(Round { schedule: CLOSE, ..scores })?;
        Ok(match self.compare(model, scene, &[moved])? {
            Some((other, again)) if again.agreement.visible >= compared.agreement.visible => {
                ((other, again), moved.score.max(evidence))
            }
            _ => ((pose, compared), scored(scores)?.score.max(evidence)),
        })
    }
    /// Returns the doubt about a pose, after the comparison.
    fn doubt(&self, pose: &Scored, evidence: f32, agreement: Option<&Agreement>) -> Option<Doubt> {
        if !in_range(&pose.map) {
            return Some(Doubt::Range);
        }
        let agreement = agreement?;
        if evidence < self.options.evidence * agreement.relief() {
            return Some(Doubt::Evidence);
        }
        let accepts = agreement.accepts(evidence, self.options.evidence)
            && !agreement.is_another_outline(&pose.map);
        (!accepts).then_some(Doubt::Agreement)
    }
    /// Describes a pose that is accepted, and its homography between points of model and scene.
    pub(crate) fn found(
        &self,
        model: &Model,
        scene: &Scene,
        pose: &Scored,
        homography: Option<Homography>,
    ) -> koel::Result<Found> {
        let inliers = |points: &[Edge]| inliers(&self.stream, &pose.map, points, scene, INLIER);
        let (votes, inliers) = (inliers(&model.points)?.len(), inliers(&model.contour)?);
        let shrunk = scene.to_image.scale();
        let square = |i: &Inlier| (i.across * shrunk).powi(2);
        let rmse = (inliers.iter().map(square).sum::<f32>() / inliers.len().max(1) as f32).sqrt();
        let to_points = model.to_image.inverse().unwrap_or(Affine::IDENTITY);
        let to_image = Homography::from(scene.to_image);
        let homography = homography.and_then(|h| to_image.after(&h)?.after(&to_points.into()));
        Ok(Found {
            map: scene.to_image.after(&pose.map).after(&to_points),
            homography,
            negative: false,
            part: false,
            votes,
            inliers: inliers.len(),
            rmse,
            inlier_points: inliers.iter().map(|i| scene.to_image.apply(i.at)).collect(),
        })
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

/// Returns a refinement by the contours.
fn contour(points: &AllPoints, likelihood: Likelihood, schedule: Schedule) -> Round<'_> {
    Round { points: &points.contour, likelihood, schedule }
}

/// Returns the map from pixels of a model's patch to the coordinates of its points, in which the
/// model has a size of `(w, h)`.
fn patch_to_points((w, h): (f32, f32), width: usize, height: usize) -> Affine {
    Affine::between_sizes(w / width as f32, h / height as f32)
}

/// Returns whether a map has a scale and a tilt that are searched.
fn in_range(map: &Affine) -> bool {
    let scale = map.determinant().max(0.0).sqrt();
    scale >= SCALES.0 && scale <= SCALES.1 && map.is_tilted_at_most(MAX_TILT)
}

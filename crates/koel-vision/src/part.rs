//! Scenes that show a part of the model: the scene is searched for in the model's picture.
use crate::affine::Affine;
use crate::agreement::{Agreement, Patch};
use crate::colour::Colours;
use crate::homography::Homography;
use crate::matcher::Matcher;
use crate::model::Model;
use crate::outcome::{Doubt, Found, MatchOutcome};
use crate::scene::Scene;
use crate::small::window;

/// Maximum number of stages: such a scene is visible as a whole.
const STAGES: usize = 1;
/// Factor of the evidence that is required, and the fraction of the scene's structure that must
/// agree.
const EVIDENCE: f32 = 1.5;
const LEAST_SHARE: f32 = 0.5;
/// Fraction of the scene's longer side by which a model must leave the scene: poses are not exact.
const LEAVES: f32 = 0.01;
/// Minimum side of what is visible of a model, in pixels.
const LEAST_SIDE: usize = 16;

/// Exchanges left and right.
const MIRROR: Affine = Affine { linear: [[-1.0, 0.0], [0.0, 1.0]], shift: [0.0; 2] };

impl Matcher {
    /// Searches a model's `picture` for a scene that shows a part of it. A match has
    /// [`Found::part`]; its map still leads from the model to the scene. The evidence is over the
    /// area of the scene, the agreement over what is visible of the model.
    /// [`MatchOutcome::hypotheses`] is empty.
    ///
    /// For scenes in which [`find`](Self::find) finds nothing: it needs points around every basis
    /// to be visible, here the model's picture has them. The model must leave the scene. What is
    /// visible of it is judged as in `find`: luminance, and colour if both have any. Covers scales
    /// of 0.6 to 2.2, scene over model, after both are reduced to 1024 pixels per side. Requires
    /// 1.5 times the usual evidence, and that half of the scene's structure agrees.
    ///
    /// Costs a table of the scene and the first of the three stages of `find`; fails if the
    /// device does.
    pub fn find_part(&self, picture: &Scene, scene: &Scene) -> koel::Result<MatchOutcome> {
        let edges = scene.edges.download()?;
        let model = Model::of_working(&edges, scene.size(), scene.to_image, &scene.grey);
        let Ok(model) = model else { return Ok(MatchOutcome::NOTHING) };
        let search = |model: &Model| {
            let mut outcome = self.find_here(model, picture, STAGES)?;
            let doubt = if outcome.evidence < EVIDENCE * self.options.evidence {
                Some(Doubt::Evidence)
            } else if outcome.agreement.is_some_and(|a| a.share() < LEAST_SHARE) {
                Some(Doubt::Agreement)
            } else {
                None
            };
            if outcome.found.is_some() && doubt.is_some() {
                (outcome.found, outcome.doubt) = (None, doubt);
            }
            Ok(outcome)
        };
        let mut outcome = self.in_all_looks(&model, search)?;
        outcome.hypotheses.clear();
        let back = outcome.found.as_ref().and_then(|found| found.map.inverse());
        outcome.found = outcome.found.zip(back).map(|(found, back)| inverted(found, &back));
        self.judged_as_part(outcome, picture, scene)
    }
    /// Refuses a pose under which the model does not leave the scene, or what is visible of it does
    /// not look like the scene.
    fn judged_as_part(
        &self,
        mut outcome: MatchOutcome,
        picture: &Scene,
        scene: &Scene,
    ) -> koel::Result<MatchOutcome> {
        let Some(found) = &outcome.found else { return Ok(outcome) };
        let refused = |outcome: MatchOutcome, doubt| MatchOutcome {
            found: None,
            doubt: Some(doubt),
            ..outcome
        };
        if !leaves(found, picture.size(), scene.size()) {
            return Ok(refused(outcome, Doubt::Agreement));
        }
        let Some((patch, size, to_scene)) = visible_of(found, picture, scene) else {
            return Ok(refused(outcome, Doubt::Agreement));
        };
        let (negative, map) = (found.negative, found.map);
        let patch = if negative { patch.negative() } else { patch };
        if self.options.agreement {
            let compared = self.compare_tilted((&patch, size), scene, &to_scene)?;
            let upright = if map.determinant() < 0.0 { map.after(&MIRROR) } else { map };
            let accepts = |a: &Agreement| {
                a.accepts(outcome.evidence, self.options.evidence)
                    && !a.is_another_outline(&upright)
            };
            let agreement = compared.map(|c| c.agreement);
            let is_accepted = agreement.as_ref().is_some_and(accepts);
            outcome.agreement = agreement;
            if !is_accepted {
                return Ok(refused(outcome, Doubt::Agreement));
            }
        }
        let colours = picture.colours.as_ref();
        let turned = colours.filter(|_| negative).map(Colours::negative);
        let colours = turned.as_ref().or(colours);
        Ok(self.with_colour(outcome, (colours, patch.is_drawing()), scene, |_| true))
    }
}

/// Returns whether a part of a model's outline is outside the scene.
fn leaves(found: &Found, (width, height): (usize, usize), scene: (usize, usize)) -> bool {
    let outline = found.homography.and_then(|h| h.outline(width, height));
    let outline = outline.unwrap_or_else(|| found.map.outline(width, height));
    let (right, bottom) = (scene.0 as f32 - 1.0, scene.1 as f32 - 1.0);
    let most = LEAVES * right.max(bottom);
    let beyond = |&(x, y): &(f32, f32)| (-x).max(x - right).max(-y).max(y - bottom) > most;
    outline.iter().any(beyond)
}

/// Returns the visible part of a model, its size in pixels of the working image, and the map from
/// those to the scene's edges; `None` if there is next to nothing.
fn visible_of(
    found: &Found,
    picture: &Scene,
    scene: &Scene,
) -> Option<(Patch, (f32, f32), Homography)> {
    let map = found.homography.unwrap_or_else(|| found.map.into());
    let (width, height) = scene.size();
    let to_working = picture.to_image.inverse()?;
    let corners = map.inverse()?.outline(width, height)?.map(|p| to_working.apply(p));
    let range = |values: [f32; 4], n: usize| {
        let low = values.iter().fold(f32::MAX, |a, &b| a.min(b)).floor().max(0.0) as usize;
        let high = values.iter().fold(0.0f32, |a, &b| a.max(b)).ceil() as usize;
        low.min(n)..(high + 1).min(n)
    };
    let grey = &picture.grey;
    let xs = range(corners.map(|p| p.0), grey.width);
    let ys = range(corners.map(|p| p.1), grey.height);
    if xs.len().min(ys.len()) < LEAST_SIDE {
        return None;
    }
    let part = window(grey, (xs.start, ys.start), (xs.len(), ys.len()));
    let shift = [xs.start as f32, ys.start as f32];
    let to_image = picture.to_image.after(&Affine { shift, ..Affine::IDENTITY });
    let to_edges = Homography::from(scene.to_image.inverse()?).after(&map)?;
    let size = (part.width as f32, part.height as f32);
    Some((Patch::of(&part), size, to_edges.after(&to_image.into())?))
}

/// Turns the pose of a scene in a model's picture into that of the model in the scene.
fn inverted(found: Found, back: &Affine) -> Found {
    let scale = back.scale();
    let inlier_points = found.inlier_points.iter().map(|&p| back.apply(p)).collect();
    let homography = found.homography.and_then(|h| h.inverse());
    Found { map: *back, homography, rmse: scale * found.rmse, inlier_points, part: true, ..found }
}

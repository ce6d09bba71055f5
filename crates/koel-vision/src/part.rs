//! Scenes that show a part of the model: the scene is searched for in the model's picture.
use crate::affine::Affine;
use crate::matcher::{Found, Matcher, Outcome};
use crate::model::Model;
use crate::scene::Scene;
use crate::verdict::Doubt;

/// Maximum number of stages: such a scene is visible as a whole.
const STAGES: usize = 1;
/// Factor of the evidence that is required, and the fraction of the scene's structure that must
/// agree.
const EVIDENCE: f32 = 1.5;
const LEAST_SHARE: f32 = 0.5;

impl Matcher {
    /// Searches a model's `picture` for a scene that shows a part of it. A match has
    /// [`Found::part`]; its map still leads from the model to the scene, and the evidence and the
    /// agreement are over the area of the scene. [`Outcome::hypotheses`] is empty.
    ///
    /// For scenes in which [`find`](Self::find) finds nothing: it needs points around every basis
    /// to be visible, here the model's picture has them. Covers scales of 0.6 to 2.2, scene over
    /// model, after both are reduced to 1024 pixels per side. Requires 1.5 times the usual
    /// evidence, and that half of the scene's structure agrees.
    ///
    /// Costs a table of the scene and the first of the three stages of `find`; fails if the
    /// device does.
    pub fn find_part(&self, picture: &Scene, scene: &Scene) -> koel::Result<Outcome> {
        let edges = scene.edges.download()?;
        let model = Model::of_working(&edges, scene.size(), scene.to_image, &scene.grey);
        let Ok(model) = model else { return Ok(Outcome::NOTHING) };
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
        Ok(outcome)
    }
}

/// Turns the pose of a scene in a model's picture into that of the model in the scene.
fn inverted(found: Found, back: &Affine) -> Found {
    let scale = back.scale();
    let inlier_points = found.inlier_points.iter().map(|&p| back.apply(p)).collect();
    let homography = found.homography.and_then(|h| h.inverse());
    Found { map: *back, homography, rmse: scale * found.rmse, inlier_points, part: true, ..found }
}

//! Scales beyond those of the passes: reduced versions of model and scene.
use crate::affine::Affine;
use crate::edges::edges;
use crate::matcher::{Matcher, Outcome};
use crate::model::Model;
use crate::picture::Grey;
use crate::scene::Scene;
use crate::verdict::Doubt;

/// Factors by which a model is reduced, and a scene. The passes cover scales of 0.45 to 1.6.
const OF_MODEL: [f32; 2] = [2.6, 6.8];
const OF_SCENE: f32 = 2.6;
/// Minimum side of a reduced model and scene, in pixels.
const LEAST: f32 = 28.0;
/// Maximum number of stages, and the factor of the evidence that is required.
const STAGES: usize = 2;
const EVIDENCE: f32 = 1.5;

impl Matcher {
    /// Searches for the model at smaller and larger scales and merges the results into `outcome`.
    pub(crate) fn find_beyond(
        &self,
        model: &Model,
        scene: &Scene,
        outcome: &mut Outcome,
    ) -> koel::Result<()> {
        let Some(patch) = &model.patch else { return Ok(()) };
        let grey = patch.grey();
        for factor in OF_MODEL {
            let (width, height) = model.working();
            // The last is for scenes of many pixels, which are shrunk more than the model is.
            if width.min(height) / factor < LEAST
                || factor > 3.0 && scene.to_image.determinant().sqrt() < 1.5
            {
                continue;
            }
            let Some(smaller) = reduced(model, &grey, factor) else { continue };
            outcome.merge(self.find_reduced(&smaller, scene)?);
            if outcome.found.is_some() {
                return Ok(());
            }
        }
        let (width, height) = (scene.grey.width as f32, scene.grey.height as f32);
        if width.min(height) / OF_SCENE >= 2.0 * LEAST {
            let small = scene.grey.shrunk(OF_SCENE);
            let mut smaller = Scene::of(&self.stream, &small)?;
            let to_scene = between(&small, width, height);
            // What a finer search has refused must not look alike for lack of detail.
            smaller.to_grey = scene.to_grey.after(&to_scene).after(&smaller.to_image);
            smaller.grey = scene.grey.clone();
            smaller.to_image = scene.to_image.after(&to_scene).after(&smaller.to_image);
            (smaller.width, smaller.height) = (scene.width, scene.height);
            outcome.merge(self.find_reduced(model, &smaller)?);
        }
        Ok(())
    }
    /// Searches in fewer stages, and doubts what has little evidence: many scales are many chances.
    fn find_reduced(&self, model: &Model, scene: &Scene) -> koel::Result<Outcome> {
        let mut outcome = self.find_here(model, scene, STAGES)?;
        if outcome.found.is_some() && outcome.evidence < EVIDENCE * self.options.evidence {
            (outcome.found, outcome.doubt) = (None, Some(Doubt::Evidence));
        }
        Ok(outcome)
    }
}

/// Returns the map from pixels of a reduced image to those of the original of the given size.
fn between(small: &Grey, width: f32, height: f32) -> Affine {
    Affine::between_sizes(width / small.width as f32, height / small.height as f32)
}

/// Returns a model of the same image with the edges of `factor` times fewer pixels per side, from
/// the luminance kept, and all of that luminance; `None` if it has too few edges then.
fn reduced(model: &Model, grey: &Grey, factor: f32) -> Option<Model> {
    let (width, height) = model.working();
    let of_patch = (factor * grey.width as f32 / width).max(1.0);
    let small = grey.shrunk(of_patch);
    let to_image = model.to_image.after(&between(&small, width, height));
    let (w, h) = model.size();
    let reduced = Model::of_working(&edges(&small), (w, h), to_image, &small).ok()?;
    Some(Model { patch: model.patch.clone(), ..reduced })
}

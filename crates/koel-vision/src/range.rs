//! Scales beyond those of the passes: reduced versions of model and scene.
use crate::affine::Affine;
use crate::edges::edges;
use crate::matcher::Matcher;
use crate::model::Model;
use crate::outcome::{Doubt, Found, MatchOutcome};
use crate::picture::Grey;
use crate::scene::Scene;
use koel::Stream;

/// Factors by which a model is reduced, and a scene. The passes cover scales of 0.45 to 1.6.
const OF_MODEL: [f32; 2] = [2.6, 6.8];
const OF_SCENE: f32 = 2.6;
/// Minimum side of a reduced model and scene, in pixels.
const LEAST: f32 = 28.0;
/// Maximum number of stages, and the factor of the evidence that is required.
const STAGES: usize = 2;
const EVIDENCE: f32 = 1.5;
/// Least scale of a drawing that is found: a tenth less than the least that is searched, 0.25.
/// Poses of reduced models may be smaller, and what is left of a word there passes for strokes of
/// another.
const LEAST_OF_DRAWINGS: f32 = 0.225;

impl Matcher {
    /// Searches for the model at smaller and larger scales and merges the results into `outcome`.
    pub(crate) fn find_beyond(
        &self,
        model: &Model,
        scene: &Scene,
        outcome: &mut MatchOutcome,
    ) -> koel::Result<()> {
        let Some(patch) = &model.patch else { return Ok(()) };
        let grey = patch.grey();
        for factor in OF_MODEL {
            let (width, height) = model.working();
            // The last is for scenes of many pixels, which are shrunk more than the model is.
            if width.min(height) / factor < LEAST || factor > 3.0 && scene.to_image.scale() < 1.5 {
                continue;
            }
            let Some(smaller) = reduced(model, &grey, factor) else { continue };
            let mut other = self.find_reduced(&smaller, scene)?;
            let is_small = |found: &Found| scale_of(&found.map, model, scene) < LEAST_OF_DRAWINGS;
            if patch.is_drawing() && other.found.as_ref().is_some_and(is_small) {
                (other.found, other.doubt) = (None, Some(Doubt::Range));
            }
            outcome.merge(other);
            if outcome.found.is_some() {
                return Ok(());
            }
        }
        let (width, height) = (scene.grey.width as f32, scene.grey.height as f32);
        if width.min(height) / OF_SCENE >= 2.0 * LEAST {
            let smaller = reduced_scene(&self.stream, scene)?;
            outcome.merge(self.find_reduced(model, &smaller)?);
        }
        Ok(())
    }
    /// Searches in fewer stages, and doubts what has little evidence: many scales are many chances.
    fn find_reduced(&self, model: &Model, scene: &Scene) -> koel::Result<MatchOutcome> {
        let mut outcome = self.find_here(model, scene, STAGES)?;
        if outcome.found.is_some() && outcome.evidence < EVIDENCE * self.options.evidence {
            (outcome.found, outcome.doubt) = (None, Some(Doubt::Evidence));
        }
        Ok(outcome)
    }
}

/// Returns the scale of a map between pixels of the images, or between those that are searched,
/// where the model is reduced more than the scene.
fn scale_of(map: &Affine, model: &Model, scene: &Scene) -> f32 {
    map.scale() * (model.to_image.scale() / scene.to_image.scale()).max(1.0)
}

/// Returns a scene with the edges of [`OF_SCENE`] times fewer pixels per side, and all of the
/// luminance: what a finer search has refused must not look alike for lack of detail.
fn reduced_scene(stream: &Stream, scene: &Scene) -> koel::Result<Scene> {
    let small = scene.grey.shrunk(OF_SCENE);
    let smaller = Scene::of(stream, &small)?;
    let to_scene = between(&small, scene.grey.width as f32, scene.grey.height as f32);
    let to_scene = to_scene.after(&smaller.to_image);
    Ok(Scene {
        to_grey: scene.to_grey.after(&to_scene),
        grey: scene.grey.clone(),
        on_device: scene.on_device.clone(),
        colours: scene.colours.clone(),
        to_image: scene.to_image.after(&to_scene),
        width: scene.width,
        height: scene.height,
        ..smaller
    })
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
    Some(Model { patch: model.patch.clone(), colours: model.colours.clone(), ..reduced })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::texture;
    use koel::Device;

    /// Scales are those of the images, unless the model has more pixels than are searched.
    #[test]
    fn scales_are_those_of_images_or_of_what_is_searched() {
        let stream = Device::cpu().unwrap().stream().unwrap();
        let map = Affine::similarity(0.7, 0.2, (0.0, 0.0), (9.0, 9.0));
        let side = |n: usize| texture(n, n, 3);
        let near = |a: f32, b: f32| assert!((a - b).abs() < 0.01 * b, "{a} {b}");
        let scale = |model: usize, scene: usize| {
            let model = Model::of(&side(model)).unwrap();
            scale_of(&map, &model, &Scene::of(&stream, &side(scene)).unwrap())
        };
        near(scale(200, 300), 0.2);
        near(scale(200, 3000), 0.2);
        let model = Model::of(&side(3000)).unwrap();
        near(scale(3000, 300), 0.2 * 3000.0 / model.working().0);
    }

    /// A reduced scene has fewer edges, the same luminance, and the edges' places in both images.
    #[test]
    fn reduced_scenes_keep_their_luminance() {
        let stream = Device::cpu().unwrap().stream().unwrap();
        for (width, height) in [(300, 220), (1536, 400)] {
            let scene = Scene::of(&stream, &texture(width, height, 4)).unwrap();
            let small = reduced_scene(&stream, &scene).unwrap();
            assert_eq!(small.grey, scene.grey);
            assert_eq!(small.size(), (width, height));
            assert!(small.edges() < scene.edges());
            let (x, y) = small.to_grey.apply((40.0, 20.0));
            assert!((x - 105.5).abs() < 1.0 && (y - 52.5).abs() < 1.0, "({x}, {y})");
            let (u, v) = small.to_image.apply((40.0, 20.0));
            let (x, y) = scene.to_image.apply((x, y));
            assert!((u - x).abs() < 0.01 && (v - y).abs() < 0.01, "({u}, {v})");
        }
    }
}

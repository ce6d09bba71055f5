//! Default matcher: the pose of a model in a scene, or its absence.
use crate::device::in_kernels;
use crate::joint::JointTable;
use crate::model::{Model, TooFewEdges};
use crate::options::Options;
use crate::picture::Grey;
use crate::scene::Scene;
use koel::{Device, Stream};
use std::panic::resume_unwind;

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
}

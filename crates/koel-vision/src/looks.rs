//! Looks of a model beside its own: mirrored, with dark and bright exchanged, or both.
use crate::affine::Affine;
use crate::agreement::Patch;
use crate::colour::Colours;
use crate::edges::Edge;
use crate::joint::JointTable;
use crate::matcher::Matcher;
use crate::model::Model;
use crate::options::Options;
use crate::outcome::{Doubt, MatchOutcome};
use crate::scene::Scene;
use koel_vision_kernels::direction::direction;

/// Look of a model that is searched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Look {
    mirrored: bool,
    negative: bool,
}
impl Look {
    fn of(self, model: &Model) -> Model {
        let model = if self.mirrored { model.mirrored() } else { model.clone() };
        if self.negative { model.negative() } else { model }
    }
}

impl Options {
    /// Returns the looks that are searched for beside the model's own.
    fn looks(&self) -> Vec<Look> {
        let all = [(true, false), (false, true), (true, true)];
        let all = all.map(|(mirrored, negative)| Look { mirrored, negative });
        let wanted = |l: &Look| self.mirrored >= l.mirrored && self.negative >= l.negative;
        all.into_iter().filter(wanted).collect()
    }
    /// Marks an outcome of a look. Every look is one more chance of a wrong answer, so each needs
    /// more evidence: by the logarithm of the number of searches.
    fn doubted(&self, mut outcome: MatchOutcome, look: Look) -> MatchOutcome {
        let required = self.evidence * outcome.agreement.map_or(1.0, |a| a.relief());
        let searches = 1 + self.looks().len();
        if outcome.evidence < required + (searches as f32).ln() {
            let found = outcome.found.take();
            outcome.doubt = found.map(|_| Doubt::Evidence).or(outcome.doubt);
        }
        if let Some(found) = &mut outcome.found {
            found.negative = look.negative;
        }
        outcome
    }
}

impl Model {
    /// Returns the model of the mirrored image, left and right exchanged. Poses still map pixels of
    /// the image itself: their determinant is negative.
    pub(crate) fn mirrored(&self) -> Model {
        let (width, _) = self.working();
        let flip = Affine { linear: [[-1.0, 0.0], [0.0, 1.0]], shift: [width - 1.0, 0.0] };
        let flipped = |e: &Edge| {
            let (x, y) = flip.apply((e.x, e.y));
            let normal = (-e.normal.0, e.normal.1);
            Edge { x, y, normal, direction: direction(normal.0, normal.1), ..*e }
        };
        let mut model = self.with_edges(flipped);
        model.to_image = self.to_image.after(&flip);
        if let Some(patch) = &mut model.patch {
            patch.pixels.chunks_exact_mut(patch.width).for_each(<[u8]>::reverse);
        }
        model
    }
    /// Returns the model of the negative: dark and bright exchanged.
    pub(crate) fn negative(&self) -> Model {
        let turned = |e: &Edge| {
            let normal = (-e.normal.0, -e.normal.1);
            Edge { normal, direction: direction(normal.0, normal.1), ..*e }
        };
        let mut model = self.with_edges(turned);
        model.patch = model.patch.map(Patch::negative);
        model.colours = self.colours.as_ref().map(Colours::negative);
        model
    }
    fn with_edges(&self, change: impl Fn(&Edge) -> Edge) -> Model {
        let changed = |edges: &[Edge]| edges.iter().map(&change).collect::<Vec<Edge>>();
        Model { points: changed(&self.points), contour: changed(&self.contour), ..self.clone() }
    }
}

impl Matcher {
    /// Runs `search` for the model, then for its other looks, until it is found.
    pub(crate) fn in_all_looks(
        &self,
        model: &Model,
        search: impl Fn(&Model) -> koel::Result<MatchOutcome>,
    ) -> koel::Result<MatchOutcome> {
        let mut outcome = search(model)?;
        for look in self.options.looks() {
            if outcome.found.is_some() {
                break;
            }
            outcome.merge(self.options.doubted(search(&look.of(model))?, look));
        }
        Ok(outcome)
    }
    /// Searches for other looks of those models of a table that are not found, and merges the
    /// results into the `outcomes` of all. Builds a table of these looks.
    pub(crate) fn find_other_looks(
        &self,
        table: &JointTable,
        scene: &Scene,
        outcomes: &mut [(usize, MatchOutcome)],
    ) -> koel::Result<()> {
        for look in self.options.looks() {
            let missing = |o: &&mut (usize, MatchOutcome)| o.1.found.is_none();
            let models = table.models().zip(outcomes.iter()).filter(|(_, o)| o.1.found.is_none());
            let models = models.map(|((_, model), _)| look.of(model)).collect::<Vec<Model>>();
            if models.is_empty() {
                break;
            }
            let others = self.staged(&self.table(&models)?, scene, usize::MAX)?;
            for (outcome, (_, other)) in outcomes.iter_mut().filter(missing).zip(others) {
                outcome.1.merge(self.options.doubted(other, look));
            }
        }
        Ok(())
    }
}

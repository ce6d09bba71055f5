//! Poses of other methods, judged by the rules of the default one.
use crate::joint::JointTable;
use crate::maps::Likelihood;
use crate::matcher::Matcher;
use crate::model::Model;
use crate::outcome::MatchOutcome;
use crate::refine::{CLOSE, MIDDLE, Round, Scored, refined};
use crate::scene::Scene;
use crate::verdict::Judged;

impl Matcher {
    /// Judges the pose of an outcome of another method ([`Found::at`](crate::Found::at)): edges,
    /// luminance and colour as in [`find`](Self::find), after a refinement from this pose. An
    /// accepted outcome keeps its pose and its evidence.
    ///
    /// Points alone do not tell apart things of one kind, such as labels of another flavour. Costs
    /// the verdict on one pose; fails if the device does.
    pub fn confirmed(
        &self,
        model: &Model,
        scene: &Scene,
        outcome: MatchOutcome,
    ) -> koel::Result<MatchOutcome> {
        let (Some(found), Some(back)) = (&outcome.found, scene.to_image.inverse()) else {
            return Ok(outcome);
        };
        let map = back.after(&found.map).after(&model.to_image);
        let pose = Scored { model: 0, map, score: 0.0 };
        self.stream.device().install(|| {
            let table = JointTable::of_one(self.stream.device(), model, (&[], 0), 0)?;
            let points = table.points();
            let moves = |likelihood, schedule| Round { points: &points.all, likelihood, schedule };
            let rounds = [
                moves(Likelihood::Loose, MIDDLE),
                moves(Likelihood::Fine, CLOSE),
                Round::scores(&points.weighted),
            ];
            let poses = refined(&self.stream, scene, &rounds, &[pose])?;
            let mut judged = self.verdicts(&table, scene, &poses, &mut Judged::default())?;
            let Some((_, judged)) = judged.pop() else { return Ok(outcome) };
            let found = outcome.found.filter(|_| judged.found.is_some());
            let MatchOutcome { agreement, colour, doubt, .. } = judged;
            Ok(MatchOutcome { found, agreement, colour, doubt, ..outcome })
        })
    }
}

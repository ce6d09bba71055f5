//! Search for models in scenes by the default matcher, in stages.
use crate::affine::Affine;
use crate::joint::JointTable;
use crate::maps::Likelihood;
use crate::matcher::Matcher;
use crate::model::Model;
use crate::options::Options;
use crate::outcome::MatchOutcome;
use crate::refine::{CLOSE, MIDDLE, Round, Schedule, Scored, best, refined};
use crate::scene::Scene;
use crate::verdict::Judged;
use crate::vote::candidates;
use std::ops::Range;
use std::time::Instant;

/// Coarse: few points of every candidate; then all points of the best, with decreasing radii, first
/// in a few steps.
const COARSE: Schedule = Schedule { steps: 6, radii: (9.0, 5.0), along: 0.2, damping: 0.003 };
const FIRST: Schedule = Schedule { steps: 4, radii: (8.0, 6.1), along: 0.2, damping: 0.001 };
/// Part of the candidates that go on after the first steps.
const PROMISING: usize = 4;
/// Maximum number of times that a search goes on after all best poses were those of others.
const REFUSED: usize = 8;
/// Mean distance of the corners from those of a refused pose, as a fraction of the diagonal, within
/// which a pose is at the same place.
const BESIDE: f32 = 0.15;

/// State of a search after some of its stages.
struct Progress {
    /// Number of stages done.
    done: usize,
    /// Whether a model needs further ones.
    wanted: Vec<bool>,
    outcomes: Vec<(usize, MatchOutcome)>,
    judged: Judged,
}
impl Progress {
    fn of(table: &JointTable) -> Progress {
        let wanted = table.slots().iter().map(Option::is_some).collect();
        Progress { done: 0, wanted, outcomes: vec![], judged: Judged::default() }
    }
}

impl Matcher {
    /// Searches a scene for a model. The result is the same on every device and for any number of
    /// threads. A scene without edges is no error: nothing is found in it.
    ///
    /// Builds a table of the model each time, for the stages that it needs: for several scenes,
    /// [`table`](Self::table) and [`find_all`](Self::find_all) build it once. Allocates, launches
    /// kernels and waits; fails if the device does.
    pub fn find(&self, model: &Model, scene: &Scene) -> koel::Result<MatchOutcome> {
        // All in one pool: threads of two pools would wait for each other.
        self.stream.device().install(|| self.in_all_looks(model, |m| self.find_anywhere(m, scene)))
    }
    fn find_anywhere(&self, model: &Model, scene: &Scene) -> koel::Result<MatchOutcome> {
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
    ) -> koel::Result<MatchOutcome> {
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
        let mut outcome =
            progress.outcomes.pop().map_or(MatchOutcome::NOTHING, |(_, outcome)| outcome);
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
    ) -> koel::Result<Vec<(usize, MatchOutcome)>> {
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
    ) -> koel::Result<Vec<(usize, MatchOutcome)>> {
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
    ) -> koel::Result<Vec<(usize, MatchOutcome)>> {
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

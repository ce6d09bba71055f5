//! Refinement of candidates in batches, by the kernel of [`koel_kernels::vision::refine`].
use crate::affine::Affine;
use crate::edges::Edge;
use crate::model::Model;
use crate::scene::StagedScene;
use koel::device::Staged;
use koel::{Buffer, Device, Stream};
use koel_kernels::vision::refine::{Refinement, vision_refine};

/// How a batch is refined.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Steps.
    pub steps: u32,
    /// How far edges may be, pixels: in the first step and in the last.
    pub radii: (f32, f32),
    /// Weight of the distance along the edge against that across.
    pub along: f32,
    /// Damping.
    pub damping: f32,
}

/// Which of the scene's likelihoods score.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Likelihood {
    /// For coarse poses.
    Loose,
    /// For refined ones.
    Fine,
}

/// Coordinates in which a model's points have mean 0 and spread 1, so that the normal equations are well conditioned.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    center: (f32, f32),
    unit: f32,
}
impl Frame {
    /// Of the model's points.
    pub fn of(model: &Model) -> Frame {
        let n = model.points.len() as f32;
        let mean = |of: fn(&Edge) -> f32| model.points.iter().map(of).sum::<f32>() / n;
        let center = (mean(|p| p.x), mean(|p| p.y));
        let square = |p: &Edge| (p.x - center.0).powi(2) + (p.y - center.1).powi(2);
        let unit = (model.points.iter().map(square).sum::<f32>() / n).sqrt();
        Frame { center, unit: unit.max(1.0) }
    }
    fn enter(&self, map: &Affine) -> [u32; 6] {
        let [[a, b], [c, d]] = map.linear.map(|row| row.map(|v| v * self.unit));
        let (x, y) = map.apply(self.center);
        [a, b, c, d, x, y].map(f32::to_bits)
    }
    fn leave(&self, words: &[u32]) -> Affine {
        let v = |k: usize| f32::from_bits(words[k]);
        let linear = [[v(0) / self.unit, v(1) / self.unit], [v(2) / self.unit, v(3) / self.unit]];
        Affine { linear, shift: [0.0; 2] }.moving(self.center, (v(4), v(5)))
    }
}

/// Model points on a device.
pub struct Points {
    frame: Frame,
    count: u32,
    points: Buffer<u32>,
    weights: Buffer<u32>,
}
impl Points {
    /// Uploads points and the weights of their votes (all 1 where there are none).
    pub fn upload<'e>(
        device: &Device,
        frame: Frame,
        points: impl Iterator<Item = &'e Edge>,
        weights: Option<&[f32]>,
    ) -> koel::Result<Points> {
        let words = points
            .flat_map(|p| {
                let (x, y) = ((p.x - frame.center.0) / frame.unit, (p.y - frame.center.1) / frame.unit);
                [x, y, p.normal.0, p.normal.1].map(f32::to_bits)
            })
            .collect::<Vec<u32>>();
        let count = words.len() / 4;
        let weights = match weights {
            Some(weights) => weights.iter().map(|w| w.to_bits()).collect::<Vec<u32>>(),
            None => vec![1f32.to_bits(); count],
        };
        let (points, weights) = (device.upload(&words)?, device.upload(&weights)?);
        Ok(Points { frame, count: count as u32, points, weights })
    }
}

/// A candidate and what speaks for it: the sum of its points' log-likelihood ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// From model points to scene points.
    pub map: Affine,
    /// In nats.
    pub score: f32,
}

/// Candidates after refinement, each with the best score it had on the way, in their order. No steps: only the scores.
///
/// One launch of a thread a candidate; the same answer on every device.
pub fn refined(
    stream: &Stream,
    scene: &StagedScene,
    points: &Points,
    likelihood: Likelihood,
    schedule: Schedule,
    candidates: &[Affine],
) -> koel::Result<Vec<Scored>> {
    if candidates.is_empty() {
        return Ok(vec![]);
    }
    let device = stream.device();
    let words = candidates.iter().flat_map(|m| points.frame.enter(m)).collect::<Vec<u32>>();
    let mut maps = device.upload(&words)?;
    let mut scores = device.alloc::<u32>(candidates.len())?;
    let (first, last) = schedule.radii;
    let refinement = Refinement {
        candidates: candidates.len() as u32,
        points: points.count,
        width: scene.scene.maps.width as u32,
        height: scene.scene.maps.height as u32,
        steps: schedule.steps,
        unit: points.frame.unit,
        radius: first,
        shrink: (last / first).powf(1.0 / schedule.steps.saturating_sub(1).max(1) as f32),
        along: schedule.along,
        damping: schedule.damping,
    };
    let likelihood: &Staged<u8> = match likelihood {
        Likelihood::Loose => &scene.loose,
        Likelihood::Fine => &scene.fine,
    };
    // SAFETY: 4 words a point and an edge, a weight a point; maps of every class and pixel, whose numbers are those of
    // offsets that stay inside the scene; 6 words and a score a candidate.
    unsafe {
        vision_refine::launch(
            stream,
            refinement.candidates.div_ceil(32),
            refinement,
            points.points.view().arg("points", stream)?,
            points.weights.view().arg("weights", stream)?,
            scene.edges.view().arg("edges", stream)?,
            scene.index.view().arg("index", stream)?,
            scene.nearest.view().arg("nearest", stream)?,
            scene.offsets.view().arg("offsets", stream)?,
            likelihood.view().arg("likelihood", stream)?,
            maps.view_mut().arg("maps", stream)?,
            scores.view_mut().arg("scores", stream)?,
        )
    }?;
    let (maps, scores) = (maps.download()?, scores.download()?);
    let scored = |(words, &score): (&[u32], &u32)| Scored {
        map: points.frame.leave(words),
        score: f32::from_bits(score) / 16.0,
    };
    Ok(maps.chunks_exact(6).zip(&scores).map(scored).collect())
}

/// The `most` with the highest scores, best first; equal ones as they stand.
pub fn best(mut scored: Vec<Scored>, most: usize) -> Vec<Scored> {
    scored.sort_by(|a, b| b.score.total_cmp(&a.score));
    scored.truncate(most);
    scored
}

//! Stages of the published method against a known map: where a model is lost.
use crate::basis::{Point, PointBasis};
use crate::options::PaperOptions;
use crate::search::Bases;
use crate::votes::Ballot;
use koel::Stream;
use koel_vision::PointSet;
use std::collections::HashMap;

/// Distance, in pixels, within which points repeat.
const REPEATING: f32 = 1.5;
/// Distance, in pixels, within which the points of true pairs of bases lie.
const TRUE: f32 = 2.5;

/// What remains of a model at each stage.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stages {
    /// Number of points of model and scene.
    pub points: (usize, usize),
    /// Number of model points with a scene point within 1.5 pixels of their true place.
    pub repeating: usize,
    /// Number of bases of model and scene.
    pub bases: (usize, usize),
    /// Number of scene bases all points of which repeat points of the model.
    pub repeating_bases: usize,
    /// Number of pairs of bases that correspond: all points within 2.5 pixels.
    pub true_pairs: usize,
    /// Of the repeating points in reach of these, the share of which both entries are in one cell.
    pub same_cell: f32,
    /// The share of which they are in the same or neighbouring cells.
    pub near_cell: f32,
    /// Mean votes of true pairs, and of all pairs.
    pub votes: (f32, f32),
    /// Ranks of the true pairs among all pairs of their scene basis, best first.
    pub ranks: Vec<usize>,
    /// Number of true pairs that are verified.
    pub verified: usize,
}

impl Stages {
    /// Measures the stages of a search at the points' size, without its verification. `truth` maps
    /// the model's points to the scene's.
    pub fn measure(
        stream: &Stream,
        model: &PointSet,
        scene: &PointSet,
        truth: impl Fn(Point) -> Point,
        options: &PaperOptions,
    ) -> koel::Result<Stages> {
        let (model, scene) = (&model.points, &scene.points);
        let bases = Bases::choose(model, scene, options);
        let true_places = model.iter().map(|&p| truth(p)).collect::<Vec<Point>>();
        let off = |m: usize, s: usize| {
            (true_places[m].0 - scene[s].0).hypot(true_places[m].1 - scene[s].1)
        };
        let partners = |within: f32| {
            (0..scene.len())
                .map(|s| (0..model.len()).filter(|&m| off(m, s) <= within).collect())
                .collect::<Vec<Vec<usize>>>()
        };
        let close = partners(REPEATING);
        let mut repeated = close.concat();
        repeated.sort_unstable();
        repeated.dedup();
        let true_partners = partners(TRUE);
        let pairs = true_pairs(&bases, &true_partners);
        let all = PaperOptions { candidates: usize::MAX, threshold: false, ..options.clone() };
        let ballot = Ballot::new(stream, model, &bases.model, &bases.cells, &all)?;
        let (mut votes, mut ranks, mut chance) = (0.0, vec![], 0.0);
        let (mut same, mut near, mut of) = (0, 0, 0);
        for &(s, m) in &pairs {
            let row = &bases.scene[s..s + 1];
            let row = ballot.count(scene, row, s)?.hypotheses;
            let rank = row.iter().position(|h| h.model == m).unwrap_or(bases.model.len());
            votes += row.get(rank).map_or(0.0, |h| h.votes);
            chance += row.iter().map(|h| h.votes).sum::<f32>() / bases.model.len() as f32;
            ranks.push(rank);
            let frames = [(&bases.model[m], model), (&bases.scene[s], scene)]
                .map(|(basis, of)| basis.frame(of, options.freedom).and_then(|f| f.inverse()));
            let [Some(of_model), Some(of_scene)] = frames else { continue };
            for (s, models) in close.iter().enumerate() {
                for &m in models {
                    let (at, place) = (of_model.apply(model[m]), of_scene.apply(scene[s]));
                    if at.0.abs().max(at.1.abs()) > options.reach {
                        continue;
                    }
                    let Some(key) = bases.cells.key(at) else { continue };
                    of += 1;
                    same += (bases.cells.key(place) == Some(key)) as usize;
                    near += bases.cells.around(place).any(|k| k == key) as usize;
                }
            }
        }
        ranks.sort_unstable();
        let n = pairs.len().max(1) as f32;
        let repeats = |b: &&PointBasis| b.0.iter().all(|&i| !close[i as usize].is_empty());
        Ok(Stages {
            points: (model.len(), scene.len()),
            repeating: repeated.len(),
            bases: (bases.model.len(), bases.scene.len()),
            repeating_bases: bases.scene.iter().filter(repeats).count(),
            true_pairs: pairs.len(),
            same_cell: same as f32 / of.max(1) as f32,
            near_cell: near as f32 / of.max(1) as f32,
            votes: (votes / n, chance / n),
            verified: ranks.iter().filter(|&&r| r < options.candidates).count(),
            ranks,
        })
    }
}

/// Returns the pairs of a scene basis and a model basis that correspond, given the model points at
/// the place of each scene point.
fn true_pairs(bases: &Bases, partners: &[Vec<usize>]) -> Vec<(usize, usize)> {
    let by_points =
        (0..).zip(&bases.model).map(|(i, b)| (b.0, i)).collect::<HashMap<[u32; 3], usize>>();
    let mut pairs = vec![];
    for (s, basis) in bases.scene.iter().enumerate() {
        let [a, b, c] = basis.0.map(|i| &partners[i as usize]);
        for (&a, &b) in a.iter().flat_map(|a| b.iter().map(move |b| (a, b))) {
            let two = basis.0[1] == basis.0[2];
            for &c in if two { std::slice::from_ref(&b) } else { c.as_slice() } {
                let own = [a, b, c].map(|i| i as u32);
                pairs.extend(by_points.get(&own).map(|&m| (s, m)));
            }
        }
    }
    pairs
}

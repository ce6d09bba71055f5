//! Votes: the number of scene points, in coordinates of a scene basis, that coincide with model
//! points in coordinates of a model basis.
use super::basis::PointBasis;
use super::cells::Cells;
use super::table::MultiTable;
use super::{PaperOptions, Point};
use rayon::prelude::*;

/// Weights of votes: the lecture's three observations about noise. Without any, each vote counts 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Weights {
    /// The longer the basis, the less an error of its points matters.
    pub by_length: bool,
    /// The closer a point is to the basis, the less errors of the basis matter.
    pub by_distance: bool,
    /// A cell with many entries carries little information.
    pub by_density: bool,
}

koel::option_setters! { Weights:
    by_length by with_by_length: bool;
    by_distance by with_by_distance: bool;
    by_density by with_by_density: bool;
}

/// Pair of bases.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hypothesis {
    /// Index of the model's basis.
    pub model: usize,
    /// Index of the scene's basis.
    pub scene: usize,
    /// Sum of the votes' weights.
    pub votes: f32,
    /// Number of standard deviations above chance for this scene basis.
    pub above: f32,
}

/// Maximum number of hypotheses that are verified.
const MAX_VOTED: usize = 2000;
/// Scene bases looked up at once.
const BATCH: usize = 64;

/// Returns the pairs of bases with more votes than chance explains, the most significant first, and
/// the number of lookups.
///
/// Mean and variance of the votes that one scene basis gives to all model bases are measured as
/// chance. A pair is kept if its votes are so far above the mean that fewer than one such pair is
/// expected among all pairs (normal tail). Counts are segments, one for each scene basis, so no two
/// threads share a counter.
pub(super) fn count(
    scene: &[Point],
    bases: &[PointBasis],
    model_bases: usize,
    cells: &Cells,
    table: &MultiTable,
    options: &PaperOptions,
) -> koel::Result<(Vec<Hypothesis>, usize)> {
    let pairs = (bases.len() * model_bases).max(2) as f32;
    let threshold = (2.0 * pairs.ln()).sqrt();
    let batch = |(first, bases): (usize, &[PointBasis])| -> koel::Result<(Vec<Hypothesis>, usize)> {
        let (mut keys, mut weights, mut ends) = (vec![], vec![], vec![]);
        for basis in bases {
            let length = basis.length(scene);
            for (_, at) in basis.coordinates(scene, options.freedom) {
                let mut weight = 1.0;
                if options.weights.by_length {
                    weight *= (length / 100.0).min(2.0);
                }
                if options.weights.by_distance {
                    weight /= 1.0 + at.0.hypot(at.1);
                }
                let before = keys.len();
                if options.neighbour_votes {
                    keys.extend(cells.around(at));
                } else {
                    keys.extend(cells.key(at));
                }
                weights.resize(weights.len() + keys.len() - before, weight);
            }
            ends.push(keys.len());
        }
        let values = table.get(&keys)?;
        let mut found = vec![];
        let mut votes = vec![0.0f32; model_bases];
        let mut begin = 0;
        for (i, &end) in ends.iter().enumerate() {
            votes.fill(0.0);
            for (values, &weight) in values[begin..end].iter().zip(&weights[begin..end]) {
                let weight = match options.weights.by_density {
                    true => weight / (1.0 + values.len() as f32).ln_1p(),
                    false => weight,
                };
                values.iter().for_each(|&b| votes[b as usize] += weight);
            }
            begin = end;
            let n = votes.len().max(1) as f32;
            let mean = votes.iter().sum::<f32>() / n;
            let deviation =
                (votes.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / n).sqrt().max(1e-6);
            found.extend(votes.iter().enumerate().filter_map(|(model, &votes)| {
                let above = (votes - mean) / deviation;
                (above >= threshold).then_some(Hypothesis { model, scene: first + i, votes, above })
            }));
        }
        Ok((found, keys.len()))
    };
    let batches = bases.par_chunks(BATCH).enumerate().map(|(i, bases)| batch((i * BATCH, bases)));
    let mut all = vec![];
    let mut lookups = 0;
    for result in batches.collect::<Vec<_>>() {
        let (mut found, keys) = result?;
        all.append(&mut found);
        lookups += keys;
    }
    all.sort_by(|a, b| b.votes.total_cmp(&a.votes));
    all.truncate(MAX_VOTED);
    Ok((all, lookups))
}

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

/// Scene bases looked up at once.
const BATCH: usize = 64;

/// Returns the pairs of bases with the most votes, in the order of the scene's bases, and the
/// number of lookups.
///
/// A scene basis is a row of the matrix of votes, which one thread fills and reduces, so no two
/// threads share a counter. Of each row, the most significant candidates remain, at most as many as
/// the options say: the votes of a model basis are compared with those that its number of entries
/// attracts by chance. With the options' `threshold`, a pair must also have more votes than chance
/// is expected to give to any of all pairs (normal tail).
pub(super) fn count(
    scene: &[Point],
    bases: &[PointBasis],
    first: usize,
    sizes: &[f32],
    cells: &Cells,
    table: &MultiTable,
    options: &PaperOptions,
) -> koel::Result<(Vec<Hypothesis>, usize)> {
    let pairs = (bases.len() * sizes.len()).max(2) as f32;
    let threshold = if options.threshold { (2.0 * pairs.ln()).sqrt() } else { 0.0 };
    let batch = |(first, bases): (usize, &[PointBasis])| -> koel::Result<(Vec<Hypothesis>, usize)> {
        let (keys, weights, ends) = asked(scene, bases, cells, options);
        let values = table.get(&keys)?;
        let mut found = vec![];
        let mut votes = vec![0.0f32; sizes.len()];
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
            found.extend(best(&votes, sizes, threshold, options.candidates).into_iter().map(
                |(model, above)| Hypothesis { model, scene: first + i, votes: votes[model], above },
            ));
        }
        Ok((found, keys.len()))
    };
    let batches =
        bases.par_chunks(BATCH).enumerate().map(|(i, bases)| batch((first + i * BATCH, bases)));
    let mut all = vec![];
    let mut lookups = 0;
    for result in batches.collect::<Vec<_>>() {
        let (mut found, keys) = result?;
        all.append(&mut found);
        lookups += keys;
    }
    Ok((all, lookups))
}

/// Returns the keys that scene bases look up, their weights, and the end of each basis's keys.
fn asked(
    scene: &[Point],
    bases: &[PointBasis],
    cells: &Cells,
    options: &PaperOptions,
) -> (Vec<u32>, Vec<f32>, Vec<usize>) {
    let (mut keys, mut weights, mut ends) = (vec![], vec![], vec![]);
    for basis in bases {
        let length = basis.length(scene);
        for at in basis.coordinates(scene, options.freedom, options.reach) {
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
    (keys, weights, ends)
}

/// Returns up to `most` model bases whose votes are at least `threshold` standard deviations above
/// chance, with that number.
///
/// `sizes` are the bases' shares of all entries. By chance, a basis gets its share of all votes,
/// and the variance is the one that is observed, in proportion to the share.
fn best(votes: &[f32], sizes: &[f32], threshold: f32, most: usize) -> Vec<(usize, f32)> {
    let all = votes.iter().sum::<f32>();
    let square = |(v, s): (&f32, &f32)| (v - all * s).powi(2) / s.max(f32::MIN_POSITIVE);
    let used = votes.iter().zip(sizes).filter(|(_, s)| **s > 0.0);
    let n = used.clone().count().max(1) as f32;
    let variance = (used.map(square).sum::<f32>() / n).max(f32::MIN_POSITIVE);
    let above = |(v, s): (&f32, &f32)| (v - all * s) / (variance * s).sqrt();
    let mut found = votes
        .iter()
        .zip(sizes)
        .enumerate()
        .filter(|(_, (v, s))| **v > 0.0 && **s > 0.0)
        .map(|(i, pair)| (i, above(pair)))
        .filter(|(_, above)| *above >= threshold)
        .collect::<Vec<(usize, f32)>>();
    let order = |a: &(usize, f32), b: &(usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if found.len() > most {
        found.select_nth_unstable_by(most, order);
        found.truncate(most);
    }
    found.sort_by(order);
    found
}

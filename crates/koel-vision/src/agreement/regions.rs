//! Regions of blocks: the part of a model that is visible, and what is in its middle.
use super::blocks::Blocks;

/// What a block shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shows {
    /// The same structure as the model's.
    Same,
    /// As little structure as the model's.
    Blank,
    /// Something else.
    Other,
    /// Nothing: it is outside the scene.
    Outside,
}

/// Returns for each block whether it is open and connected, by open ones, with the border of the
/// model.
pub(super) fn open_from_border(blocks: &Blocks, open: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut open = (0..blocks.len()).map(open).collect::<Vec<bool>>();
    let mut reached = vec![false; blocks.len()];
    let at_border = (0..blocks.len()).filter(|&block| blocks.is_at_border(block));
    let mut next = at_border.collect::<Vec<usize>>();
    while let Some(block) = next.pop() {
        if std::mem::take(&mut open[block]) {
            reached[block] = true;
            next.extend(blocks.beside(block));
        }
    }
    reached
}

/// Correlation beyond which a block is no more alike: pixels are rounded.
const ALIKE: f32 = 0.998;
/// Number of independent values of a block with a straight edge, and how many more another has.
const VALUES: (f32, f32) = (1.0, 2.0);
/// Evidence, in nats, that chance gives a block at the edges that led to the pose, where the best
/// of some shifts and blurs is chosen.
const CHANCE: f32 = 1.2;
/// Minimum evidence of a block: it may be covered. And that of a block outside the scene.
const COVERED: f32 = -2.0;
const OUTSIDE: f32 = -1.0;

/// Returns the evidence, in nats, that a block shows the model rather than chance, from the
/// correlation and the deviations of both sides; 0 where the model has no structure.
///
/// The correlation `r` of `n` independent values has a likelihood ratio of `(1 - r^2)^(-n/2)`.
pub(crate) fn of_block(correlation: Option<&[f32; 3]>, structure: f32, distinctness: f32) -> f32 {
    match correlation {
        None => OUTSIDE,
        Some([_, of_model, _]) if *of_model < structure => 0.0,
        Some([r, ..]) => {
            let (r, values) = (r.clamp(0.0, ALIKE), VALUES.0 + VALUES.1 * distinctness);
            (-0.5 * values * (1.0 - r * r).ln() - CHANCE).max(COVERED)
        }
    }
}

/// Set of blocks of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Region {
    columns: usize,
    rows: usize,
    inside: Vec<bool>,
}
impl Region {
    /// Returns whether a point is inside, given in fractions of the model's sides.
    pub(crate) fn contains(&self, (x, y): (f32, f32)) -> bool {
        let part = |v: f32, n: usize| ((v * n as f32) as usize).min(n.saturating_sub(1));
        let block = part(y, self.rows) * self.columns + part(x, self.columns);
        self.inside.get(block).is_some_and(|&inside| inside)
    }
}

/// Returns the connected region with the most evidence, and its evidence. A block belongs to a
/// region if it and its neighbours have more than 0 together: what is visible is contiguous.
pub(super) fn visible(blocks: &Blocks, evidence: &[f32]) -> (f32, Region) {
    let around = |block: usize| blocks.around(block).map(|other| evidence[other]).sum::<f32>();
    let mut open = (0..blocks.len()).map(|block| around(block) > 0.0).collect::<Vec<bool>>();
    let mut best = (0.0, vec![]);
    for first in 0..blocks.len() {
        if !std::mem::take(&mut open[first]) {
            continue;
        }
        let mut region = vec![first];
        let mut done = 0;
        while let Some(&block) = region.get(done) {
            done += 1;
            for other in blocks.beside(block) {
                if std::mem::take(&mut open[other]) {
                    region.push(other);
                }
            }
        }
        let sum = region.iter().map(|&block| evidence[block]).sum::<f32>();
        if sum > best.0 {
            best = (sum, region);
        }
    }
    let mut inside = vec![false; blocks.len()];
    best.1.iter().for_each(|&block| inside[block] = true);
    (best.0, Region { columns: blocks.columns, rows: blocks.rows, inside })
}

//! Agreement of luminance: whether the scene looks like the model under a pose.
//!
//! Edges alone confuse things of one kind: another page of text, the same sign with another number.
//! The scene is warped into the frame of the model and compared with it block by block.
mod blocks;
mod levels;
mod on_device;
mod patch;
pub(crate) mod regions;
mod repeated;
mod sight;

use crate::affine::Affine;
use crate::device::{Image, in_pool};
use crate::fit::{Freedom, PointPair, fit};
use crate::picture::Grey;
use blocks::{Blocks, MIN_BLOCK};
use koel::Stream;
use koel_vision_kernels::compare::MOST;
use levels::{Levels, Seen};
use on_device::OnDevice;
use patch::DRAWING;
pub(crate) use patch::Patch;
pub(crate) use regions::Region;
use regions::{Shows, of_block, open_from_border, visible};
use repeated::repeats;
use sight::{BLURS, Correlated, OnHost, Place, Sight, rows};
use std::borrow::Cow;

/// Minimum standard deviation of a block with structure, in grey levels.
const STRUCTURE: f32 = 6.0;
/// Correlation of agreeing blocks: the minimum, and the maximum of the minimum.
const AGREES: (f32, f32) = (0.6, 0.9);
/// Maximum number of fits of a map to the places of blocks, and the minimum number of places.
const REFITS: usize = 8;
const LEAST_PLACES: usize = 8;
/// Correlation of the upper quarter of a model's blocks from which on it is not bent.
const PRECISE: f32 = 0.97;
/// Minimum evidence of luminance, in nats, for the visible part of a photograph. Poses of chance
/// that edges lead to have 0 to 5.
pub(crate) const VISIBLE: f32 = 12.0;
/// Fraction of the blocks that agree from which on a model counts as wholly visible.
const WHOLE: f32 = 0.8;
/// The fraction from which on it is not covered, but may be bent.
const MOSTLY: f32 = 0.6;
/// Ratio of agreeing blocks from which on one pose has clearly more than another.
const MORE: f32 = 1.05;
/// Minimum number of blocks with structure.
const LEAST_BLOCKS: f32 = 12.0;
/// Deviation, in grey levels, that a block of the scene may have beyond the model's where the model
/// has little.
const TOLERATED: f32 = 10.0;
/// Fraction of the required evidence that suffices where luminance is nearly proof.
const STRONG: f32 = 1.0 / 3.0;
/// Maximum tilt of the pose of a drawing: farther than the bases are tilted, the strokes of one
/// word pass for some of another.
const TILTED: f32 = 2.4;
/// Maximum `distinct` of a smooth outline, such as a disc, and the maximum tilt of its pose: tilted
/// further, it is another outline.
const SMOOTH: (f32, f32) = (1.0, 1.6);

/// Comparison of a model with a scene under a pose.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Agreement {
    /// Number of blocks of the model with structure that lie in the scene.
    pub blocks: f32,
    /// Number of those that agree.
    pub agreeing: f32,
    /// Number of those that agree, each weighted by how much its structure is of two dimensions.
    pub distinct: f32,
    /// Correlation that agreeing blocks exceed.
    pub least: f32,
    /// Upper quartile of the correlations.
    pub upper: f32,
    /// Number of agreeing blocks in whose neighbourhood nearly everything agrees, weighted as
    /// `distinct`.
    pub solid: f32,
    /// Evidence, in nats, of the part that is most likely visible: the connected region of blocks
    /// whose correlations chance explains worst. Poses of chance have 0 to 5.
    pub visible: f32,
    /// For a drawing, the number of blocks that differ where nothing covers the model; 0 for a
    /// photograph. A cover comes in from the border and hides the ground, too. Of a model that
    /// repeats itself, such as a chessboard, all blocks that differ.
    pub enclosed: f32,
    /// Entropy of the model's luminance, in bits; low for drawings, signs and text.
    pub entropy: f32,
}

impl Agreement {
    /// Returns the fraction of the blocks with structure that agree.
    pub fn share(&self) -> f32 {
        if self.blocks > 0.0 { self.agreeing / self.blocks } else { 0.0 }
    }
    /// Returns whether the scene shows the model, rather than chance or a thing of the same kind.
    ///
    /// A photograph may be covered for the most part, if what is visible of it agrees as a whole,
    /// or is more alike than chance explains. The parts of a sign, a word or a page of text are
    /// parts of others too: nothing else may be on its visible ground, and most of it must be
    /// visible.
    pub(crate) fn accepts(&self, evidence: f32, required: f32) -> bool {
        if self.blocks < LEAST_BLOCKS {
            return false;
        }
        let (share, whole) = (self.share(), self.is_whole());
        if self.entropy < DRAWING {
            return self.upper >= 0.95
                && self.visible >= VISIBLE
                && self.enclosed <= (0.02 * self.blocks).max(1.0)
                && (whole || self.solid >= 3.0 && share >= 0.5);
        }
        if self.is_partly_visible() {
            return true;
        }
        // Straight edges alone, as of buildings, prove little, unless many edges agree.
        self.upper >= 0.85 && (self.solid >= 5.0 || whole && self.solid >= 2.0)
            || self.upper >= 0.97 && share >= 0.35 && evidence >= 2.0 * required
    }
    /// Returns whether a drawing under a pose is another one, although all blocks may agree: it is
    /// tilted too far, which for a smooth outline is soon, as every ellipse is a tilt of every
    /// other.
    pub(crate) fn is_another_outline(&self, pose: &Affine) -> bool {
        let most = if self.distinct < SMOOTH.0 { SMOOTH.1 } else { TILTED };
        self.entropy < DRAWING && !pose.is_tilted_at_most(most)
    }
    /// Returns whether all of the model agrees, or nearly.
    pub(crate) fn is_whole(&self) -> bool {
        self.share() >= WHOLE
    }
    /// Returns whether this pose, which has been fitted to more of the model than the `other`, is
    /// better: most of the model agrees, a part is certainly visible, or clearly more agrees, or
    /// else, what is visible is more alike. The covered part would only spoil the pose.
    pub(crate) fn is_better(&self, other: &Agreement) -> bool {
        let more = |a: &Agreement, b: &Agreement| a.agreeing > MORE * b.agreeing;
        match (self.is_partly_visible(), other.is_partly_visible()) {
            _ if self.share() >= MOSTLY => true,
            (true, false) => true,
            (false, true) => false,
            _ => more(self, other) || !more(other, self) && self.visible >= other.visible,
        }
    }
    /// Returns whether a photograph has a part that is certainly visible: only the evidence in this
    /// part needs to suffice.
    pub(crate) fn is_partly_visible(&self) -> bool {
        self.entropy >= DRAWING && self.visible >= VISIBLE
    }
    /// Returns whether the visible parts lie where the map says: the model is not bent.
    pub(crate) fn is_precise(&self) -> bool {
        self.upper >= PRECISE
    }
    /// Returns whether luminance alone is nearly proof.
    pub(crate) fn is_strong(&self) -> bool {
        self.blocks >= 40.0 && self.upper >= 0.93 && (self.is_whole() || self.solid >= 8.0)
    }
    /// Returns the fraction of the required evidence that edges must give. Less suffices for a
    /// photograph if its luminance is nearly proof; that of a drawing says little more than its
    /// edges.
    pub(crate) fn relief(&self) -> f32 {
        if self.is_strong() && self.entropy >= DRAWING { STRONG } else { 1.0 }
    }
}

/// Comparison of a model with a scene under a map.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Compared {
    pub agreement: Agreement,
    /// Map from pixels of the patch to pixels of the scene.
    pub map: Affine,
    /// Whether the map was fitted to the places of the blocks.
    pub fitted: bool,
    /// Part of the model that is most likely visible.
    pub visible: Region,
    /// Points of the patch in agreeing blocks, with their places in the scene.
    places: Vec<PointPair>,
}

/// Luminance of a scene.
#[derive(Clone, Copy)]
pub(crate) struct Luminance<'s> {
    pub grey: &'s Grey,
    /// The same in device memory, if it is compared there.
    pub on_device: Option<(&'s Stream, &'s Image)>,
}

/// Compares a model with a scene; `map` leads from pixels of the patch to pixels of the scene. The
/// result is the same on the host and on a device.
///
/// Where a model is bent, the blocks lie beside their places under the map, and few are alike to
/// the last detail: if so, the map is fitted to them, and the better one of both is returned. The
/// map of a rigid model is exact on its edges, and blocks that agree by chance would only spoil it.
pub(crate) fn agreement(
    patch: &Patch,
    scene: Luminance<'_>,
    map: Affine,
    fits: bool,
) -> koel::Result<Compared> {
    match scene.on_device {
        Some(_) => fitted(patch, scene, map, fits),
        None => in_pool(|| fitted(patch, scene, map, fits)),
    }
}
fn fitted(patch: &Patch, scene: Luminance<'_>, map: Affine, fits: bool) -> koel::Result<Compared> {
    let (model, entropy) = (patch.grey(), patch.entropy());
    let compared = |map: Affine| compared((&model, entropy), scene, map);
    let mut best = compared(map)?;
    for _ in 0..REFITS {
        let moved = |&(p, q): &PointPair| {
            let (x, y) = best.map.apply(p);
            (x - q.0).hypot(y - q.1)
        };
        let most = best.places.iter().map(moved).fold(0.0f32, f32::max);
        if !fits || best.agreement.is_precise() || best.places.len() < LEAST_PLACES || most < 1.0 {
            break;
        }
        let Some(fitted) = fit(Freedom::Affine, &best.places) else { break };
        let other = compared(fitted)?;
        let (a, b) = (&best.agreement, &other.agreement);
        if b.agreeing < a.agreeing || b.upper < a.upper - 0.02 || !b.is_better(a) {
            break;
        }
        best = Compared { fitted: true, ..other };
    }
    Ok(best)
}

fn compared(
    (patch, entropy): (&Grey, f32),
    scene: Luminance<'_>,
    of_patch: Affine,
) -> koel::Result<Compared> {
    let scale = of_patch.scale();
    let (mut model, mut map, mut to_patch) = (Cow::Borrowed(patch), of_patch, Affine::IDENTITY);
    if scale.is_nan() || scale < 1.0 {
        // A model is not finer than the scene.
        let small = model.shrunk((1.0 / scale).clamp(1.0, 32.0));
        let (x, y) =
            (model.width as f32 / small.width as f32, model.height as f32 / small.height as f32);
        let larger = Affine::between_sizes(x, y);
        (model, map, to_patch) = (Cow::Owned(small), map.after(&larger), larger);
    }
    let (width, height) = (model.width, model.height);
    if width.min(height) < 2 * MIN_BLOCK {
        return Ok(Compared {
            agreement: Agreement::default(),
            map: of_patch,
            fitted: false,
            visible: Region::default(),
            places: vec![],
        });
    }
    let blocks = Blocks::of(width, height);
    let summary = match scene.on_device {
        Some((stream, pixels)) => {
            let sight = OnDevice::of(stream, &blocks, &model, (scene.grey, pixels), &map)?;
            summary(&blocks, &sight, entropy)?
        }
        None => summary(&blocks, &OnHost::of(&blocks, &model, scene.grey, &map), entropy)?,
    };
    let place = |(block, shift): Place| {
        let (x, y) = blocks.middle(block);
        (to_patch.apply((x, y)), map.apply((x + shift.0 as f32, y + shift.1 as f32)))
    };
    let (agreement, visible, places) = summary;
    let places = places.into_iter().map(place).collect();
    Ok(Compared { agreement, map: of_patch, fitted: false, visible, places })
}

/// Mean correlation that a blur must gain.
const MORE_ALIKE: f32 = 0.02;

/// Returns the correlations of all blocks after the blur of either side that makes them most alike,
/// and its number.
fn sharpest(sight: &impl Sight) -> (Vec<Correlated>, usize) {
    let (mut most, mut best) = (f32::MIN, (vec![], 0));
    for blur in 0..BLURS.len() {
        if most + MORE_ALIKE > MOST {
            break;
        }
        let all = sight.correlations(blur);
        let structured =
            all.iter().flatten().filter(|c| c.0[1] >= STRUCTURE).map(|c| c.0[0].max(0.0));
        let mean = structured.clone().sum::<f32>() / structured.count().max(1) as f32;
        if mean > most + MORE_ALIKE {
            (most, best) = (mean, (all, blur));
        }
    }
    best
}

/// Counts what agrees and what does not. Returns the part that is most likely visible, and the
/// places of the blocks that agree.
fn summary(
    blocks: &Blocks,
    sight: &impl Sight,
    entropy: f32,
) -> koel::Result<(Agreement, Region, Vec<Place>)> {
    let ((correlations, blur), distinctness) = (sharpest(sight), sight.distinctness());
    let evidence = correlations.iter().zip(&distinctness);
    let evidence = evidence
        .map(|(c, &distinctness)| of_block(c.map(|c| c.0).as_ref(), STRUCTURE, distinctness))
        .collect::<Vec<f32>>();
    let (nats, region) = visible(blocks, &evidence);
    let mut result = Agreement { entropy, visible: nats, ..Agreement::default() };
    let structured = |c: &Correlated| c.filter(|c| c.0[1] >= STRUCTURE);
    let mut all = correlations.iter().filter_map(structured).map(|c| c.0[0]).collect::<Vec<f32>>();
    all.sort_by(f32::total_cmp);
    let Some(&upper) = all.get(all.len() * 3 / 4) else { return Ok((result, region, vec![])) };
    let least = (1.0 - 6.0 * (1.0 - upper)).clamp(AGREES.0, AGREES.1);
    (result.blocks, result.least, result.upper) = (all.len() as f32, least, upper);
    let agrees = |c: &Correlated| structured(c).is_some_and(|c| c.0[0] >= least);
    let places = correlations.iter().enumerate().filter(|(_, c)| agrees(c));
    let places = places.filter_map(|(block, c)| Some((block, c.as_ref()?.1)));
    let places = places.collect::<Vec<Place>>();
    let sums = places.iter().map(|&place| {
        let (columns, rows) = blocks.extent(place.0);
        (columns.len() * rows.len(), sight.level_sums(blur, place))
    });
    let levels = Levels::of(sums);
    let shows = |c: &Correlated| match c {
        None => Shows::Outside,
        Some(([_, of_model, of_scene], _)) if *of_model < STRUCTURE => {
            if *of_scene / levels.gain < of_model + TOLERATED { Shows::Blank } else { Shows::Other }
        }
        Some(_) if agrees(c) => Shows::Same,
        Some(_) => Shows::Other,
    };
    let shown = correlations.iter().map(shows).collect::<Vec<Shows>>();
    if entropy < DRAWING {
        let (a, b) = sight.images()?;
        let seen = blocks.each(|block| {
            let (_, shift) = correlations[block]?;
            Some(levels.seen(rows(blocks, (&a, &b), (block, shift))))
        });
        let repeats = shown.contains(&Shows::Other) && repeats(&a);
        result.enclosed = enclosed(blocks, &shown, &seen, repeats) as f32;
    }
    for block in (0..blocks.len()).filter(|&block| shown[block] == Shows::Same) {
        let distinct = distinctness[block];
        let around = blocks.around(block).map(|other| shown[other]);
        let (same, other) = around.fold((0, 0), |(same, other), s| {
            (same + (s == Shows::Same) as u32, other + (s == Shows::Other) as u32)
        });
        result.agreeing += 1.0;
        result.distinct += distinct;
        result.solid += if same >= 4 && other <= 1 { distinct } else { 0.0 };
    }
    Ok((result, region, places))
}

/// Counts the blocks that differ where nothing covers the model. If the model repeats itself, that
/// is everywhere: a part of a larger chessboard has other squares where the model has its margin,
/// as if it were covered there.
fn enclosed(blocks: &Blocks, shown: &[Shows], seen: &[Option<Seen>], repeats: bool) -> usize {
    // Beside a model without a border of its own, such as a disc, there may be anything.
    let covered = open_from_border(blocks, |block| seen[block].is_none_or(|s| s.is_hidden()));
    // A cover ends within the blocks beside it.
    let is_covered = |block| covered[block] || blocks.beside(block).any(|other| covered[other]);
    let differs =
        |block: usize| shown[block] == Shows::Other && seen[block].is_some_and(|s| s.differs());
    if repeats {
        return (0..blocks.len()).filter(|&block| differs(block)).count();
    }
    let inside = (0..blocks.len()).filter(|&block| !blocks.is_at_border(block));
    inside.filter(|&block| differs(block) && !is_covered(block)).count()
}

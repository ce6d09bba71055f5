//! Geometric hashing as published, based on points alone, for comparison with the default matcher.
//!
//! Implements Alcantara et al. 2009, section 6 (two points form a basis; votes for pairs of bases),
//! and Zachmann's lecture (rigid and affine bases; verification; measures against noise). Bases of
//! points give every other point two coordinates that are invariant under motion. Cells of these
//! are the keys of a multi-value table whose values are the model's bases. A scene's bases look up
//! the cells of their points and count. Pairs of bases with more votes than chance explains are
//! verified.
//!
//! [`match_images`] searches an image for another; [`PointSet`] takes the points from an image or a
//! model, [`match_points`] searches one set for another, and [`find`] does the same for plain
//! points and reports more.
//!
//! ```
//! use koel_vision::paper::{PaperOptions, match_images};
//! use koel_vision::{Freedom, synthetic::texture};
//!
//! let stream = koel::Device::cpu()?.stream()?;
//! let options = PaperOptions::default()
//!     .with_freedom(Freedom::Rigid)
//!     .with_points((50, 100))
//!     .with_bases((1000, 100))
//!     .with_sizes(vec![(1.0, 1.0)]);
//! let [model, scene] = [1, 2].map(|seed| texture(160, 120, seed));
//! let outcome = match_images(&stream, &model, &scene, &options)?;
//! assert_eq!(outcome.found, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
mod basis;
mod cells;
mod lists;
mod matrix;
mod measured;
mod searched;
mod stages;
mod verify;
mod votes;

pub use basis::BasisRules;
pub use cells::Partition;
pub use lists::Lookup;
pub use measured::{Lookups, Voting, look_up, vote};
pub use stages::Stages;
pub use verify::Verified;
pub use votes::{Hypothesis, Weights};

use crate::affine::Affine;
use crate::corners::{corners, evenly};
use crate::edges::{DeviceEdges, Edge, smoothed, spread, strongest_first};
use crate::fit::Freedom;
use crate::model::{Model, working_size};
use crate::outcome::{Found, MatchOutcome};
use crate::picture::Grey;
use crate::random::Random;
use basis::{PointBasis, choose};
use cells::Cells;
use koel::Stream;
use rayon::prelude::*;
use std::borrow::Cow;
use std::time::Instant;
use verify::Verifier;
use votes::{Ballot, Counted};

/// Point of the plane.
pub type Point = (f32, f32);

/// Features of an image that the published method uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Features {
    /// Strongest edges, evenly spread.
    Edges,
    /// Corners (FAST) of the smoothed image, the strongest of each cell of the image first.
    #[default]
    Corners,
}
impl std::str::FromStr for Features {
    type Err = String;
    fn from_str(text: &str) -> Result<Features, String> {
        match text {
            "edges" => Ok(Features::Edges),
            "corners" => Ok(Features::Corners),
            _ => Err("expected edges or corners".into()),
        }
    }
}

impl std::str::FromStr for Partition {
    type Err = String;
    fn from_str(text: &str) -> Result<Partition, String> {
        match text {
            "uniform" => Ok(Partition::Uniform),
            "transfer" => Ok(Partition::Transfer),
            "elastic" => Ok(Partition::Elastic),
            _ => Err("expected uniform, transfer or elastic".into()),
        }
    }
}
/// Options of the published method. Every measure against noise is a switch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PaperOptions {
    /// Allowed maps, which determine the type of basis.
    pub freedom: Freedom,
    /// Points of images.
    pub features: Features,
    /// Factors by which model and scene are shrunk, tried in turn until the model is found.
    pub sizes: Vec<(f32, f32)>,
    /// Maximum number of points of the model and of the scene, strongest first.
    pub points: (usize, usize),
    /// Minimum distance between edges, in pixels.
    pub apart: f32,
    /// Selection rules for bases.
    pub rules: BasisRules,
    /// Maximum number of bases of the model and of the scene.
    pub bases: (usize, usize),
    /// Maximum coordinate of points that enter and vote, in lengths of the basis.
    pub reach: f32,
    /// Lookup method of the table.
    pub lookup: Lookup,
    /// Name bases in the table by their points, as published. Each vote then looks up the number of
    /// its basis in an index.
    pub two_way_index: bool,
    /// Partition of the coordinate plane into cells.
    pub partition: Partition,
    /// Width of uniform cells in lengths of the basis; for rigid maps, in units of 60 pixels.
    pub cell: f32,
    /// Enter each model point into the cells around its own too: nine times the memory.
    pub neighbour_entries: bool,
    /// Let each scene point vote in the cells around its own too: nine times the lookups.
    pub neighbour_votes: bool,
    /// Weights of votes.
    pub weights: Weights,
    /// Verify only pairs of bases with more votes than chance explains.
    pub threshold: bool,
    /// Maximum number of pairs that are verified for each basis of the scene.
    pub candidates: usize,
    /// Verify and refine by all edges, in addition to the points.
    pub outlines: bool,
    /// Maximum distance of an inlier from a scene point, in pixels.
    pub inlier: f32,
    /// Probability that noise alone is accepted.
    pub false_alarm: f64,
    /// Seed of all random choices.
    pub seed: u64,
}
impl Default for PaperOptions {
    /// Returns options that find models in photographs: corners, bases of close points, and
    /// candidates of every basis of the scene.
    fn default() -> PaperOptions {
        PaperOptions {
            freedom: Freedom::Similarity,
            features: Features::Corners,
            sizes: vec![(1.0, 1.0), (1.4, 1.0), (2.0, 1.0), (2.8, 1.0), (1.0, 1.4), (1.0, 2.0)],
            points: (400, 1500),
            apart: 8.0,
            rules: BasisRules::default(),
            bases: (10_000, 2048),
            reach: 2.0,
            lookup: Lookup::Hash,
            two_way_index: false,
            partition: Partition::Uniform,
            cell: 0.1,
            neighbour_entries: false,
            neighbour_votes: false,
            weights: Weights::default(),
            threshold: false,
            candidates: 20,
            outlines: true,
            inlier: 3.0,
            false_alarm: 1e-3,
            seed: 1,
        }
    }
}
impl PaperOptions {
    /// Returns the options as published: 200 edges, a third of all pairs at a distance of 40 to 250
    /// pixels, up to 1,500 of the model and 1,500 of the scene, and a threshold of votes.
    pub fn published() -> PaperOptions {
        PaperOptions {
            features: Features::Edges,
            sizes: vec![(1.0, 1.0)],
            points: (200, 200),
            rules: BasisRules { lengths: (40.0, 250.0), thinnest: 0.4, ..BasisRules::default() },
            bases: (1500, 1500),
            reach: f32::MAX,
            two_way_index: true,
            threshold: true,
            candidates: 2000,
            outlines: false,
            ..PaperOptions::default()
        }
    }
}

koel::option_setters! { PaperOptions:
    freedom by with_freedom: Freedom;
    features by with_features: Features;
    sizes by with_sizes: Vec<(f32, f32)>;
    points by with_points: (usize, usize);
    apart by with_apart: f32;
    rules by with_rules: BasisRules;
    bases by with_bases: (usize, usize);
    reach by with_reach: f32;
    lookup by with_lookup: Lookup;
    two_way_index by with_two_way_index: bool;
    partition by with_partition: Partition;
    cell by with_cell: f32;
    neighbour_entries by with_neighbour_entries: bool;
    neighbour_votes by with_neighbour_votes: bool;
    weights by with_weights: Weights;
    threshold by with_threshold: bool;
    candidates by with_candidates: usize;
    outlines by with_outlines: bool;
    inlier by with_inlier: f32;
    false_alarm by with_false_alarm: f64;
    seed by with_seed: u64;
}

/// Result of the published method.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PaperOutcome {
    /// Best map that chance does not explain.
    pub found: Option<Verified>,
    /// Improbability of the best map, accepted or not, in nats.
    pub evidence: f32,
    /// Pairs of bases with the most votes, best first.
    pub hypotheses: Vec<Hypothesis>,
    /// Maps of the hypotheses, and their votes.
    pub maps: Vec<(Affine, f32)>,
    /// Number of entries in the table.
    pub entries: usize,
    /// Number of lookups.
    pub lookups: usize,
    /// Seconds for table, votes, and verification.
    pub seconds: [f64; 3],
}

/// Number of outline points of a model, and their minimum distance in pixels.
const OUTLINE: (usize, f32) = (800, 3.0);

/// Returns the strongest edges, evenly spread.
fn strongest(edges: &[Edge], apart: f32, most: usize) -> Vec<Point> {
    let order = strongest_first(edges, |e| e.strength);
    let kept = spread(edges, order.into_iter(), apart, most);
    kept.into_iter().map(|i| (edges[i].x, edges[i].y)).collect()
}

/// Image as a set of points. With points of your own, the fields say what they are.
#[derive(Clone, Debug)]
pub struct PointSet {
    /// Points in working coordinates.
    pub points: Vec<Point>,
    /// Points of outlines, which only verify; may be empty.
    pub outline: Vec<Point>,
    /// Size of the image in pixels.
    pub size: (usize, usize),
    /// Map from the points' coordinates to pixels of the image.
    pub to_image: Affine,
}
/// Side of a pair of images.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Image that is searched for.
    Model,
    /// Image that is searched.
    Scene,
}
impl PointSet {
    /// Returns a model's strongest edges.
    pub fn of_model(model: &Model, options: &PaperOptions) -> PointSet {
        let outline = model.contour.iter().map(|e| (e.x, e.y));
        PointSet {
            points: strongest(&model.points, options.apart, options.points.0),
            outline: if options.outlines { outline.collect() } else { vec![] },
            size: (model.width, model.height),
            to_image: model.to_image,
        }
    }
    /// Returns the points of an image that is shrunk by a factor of at least 1. Finds them on the
    /// device of `stream` and reads them back; images of more than 1024 pixels per side are shrunk
    /// further.
    pub fn of_image(
        stream: &Stream,
        image: &Grey,
        factor: f32,
        side: Side,
        options: &PaperOptions,
    ) -> koel::Result<PointSet> {
        let (working, _) = working_size(image);
        let factor = factor.max(1.0) * image.width.max(image.height) as f32
            / working.width.max(working.height) as f32;
        let small = if factor > 1.0 { Cow::Owned(image.shrunk(factor)) } else { working };
        let to_image = Affine::between_sizes(
            image.width as f32 / small.width as f32,
            image.height as f32 / small.height as f32,
        );
        let most = if side == Side::Model { options.points.0 } else { options.points.1 };
        let edges = || DeviceEdges::find(stream, &small)?.download();
        let (points, edges) = match options.features {
            Features::Edges => {
                let edges = edges()?;
                (strongest(&edges, options.apart, most), edges)
            }
            Features::Corners => {
                let chosen = evenly(&corners(stream, &smoothed(&small))?, most);
                let points = chosen.into_iter().map(|c| (c.x as f32, c.y as f32)).collect();
                (points, if options.outlines { edges()? } else { vec![] })
            }
        };
        let outline = match (options.outlines, side) {
            (false, _) => vec![],
            (true, Side::Model) => strongest(&edges, OUTLINE.1, OUTLINE.0),
            (true, Side::Scene) => edges.iter().map(|e| (e.x, e.y)).collect(),
        };
        Ok(PointSet { points, outline, size: (image.width, image.height), to_image })
    }
}

/// Searches an image for another, at one pair of sizes after the other.
pub fn match_images(
    stream: &Stream,
    model: &Grey,
    scene: &Grey,
    options: &PaperOptions,
) -> koel::Result<MatchOutcome> {
    search_sizes(stream, scene, options, |factor| {
        PointSet::of_image(stream, model, factor, Side::Model, options).map(Some)
    })
}

/// Searches an image for a model of edges, at the sizes that leave the model as it is.
pub fn match_model(
    stream: &Stream,
    model: &Model,
    scene: &Grey,
    options: &PaperOptions,
) -> koel::Result<MatchOutcome> {
    let options = options.clone().with_features(Features::Edges);
    search_sizes(stream, scene, &options, |factor| {
        Ok((factor <= 1.0).then(|| PointSet::of_model(model, &options)))
    })
}

/// Matches points at each pair of sizes until the model is found; returns the outcome with the most
/// evidence.
fn search_sizes(
    stream: &Stream,
    scene: &Grey,
    options: &PaperOptions,
    model: impl Fn(f32) -> koel::Result<Option<PointSet>>,
) -> koel::Result<MatchOutcome> {
    let mut best: Option<MatchOutcome> = None;
    let mut seconds = [0.0; 3];
    // Several sizes of the model in turn are searched for in one size of the scene.
    let mut last: Option<(f32, PointSet)> = None;
    for &(of_model, of_scene) in &options.sizes {
        let Some(model) = model(of_model)? else { continue };
        let (_, scene) = match last.take().filter(|(factor, _)| *factor == of_scene) {
            Some(same) => last.insert(same),
            None => last.insert((
                of_scene,
                PointSet::of_image(stream, scene, of_scene, Side::Scene, options)?,
            )),
        };
        let outcome = match_points(stream, &model, scene, options)?;
        seconds.iter_mut().zip(outcome.seconds).for_each(|(all, s)| *all += s);
        let found = outcome.found.is_some();
        if best.as_ref().is_none_or(|b| found || outcome.evidence > b.evidence) {
            best = Some(outcome);
        }
        if found {
            break;
        }
    }
    Ok(MatchOutcome { seconds, ..best.unwrap_or(MatchOutcome::NOTHING) })
}

/// Runs [`find`] on images and returns the result in their pixels. Its hypotheses count votes
/// instead of evidence.
pub fn match_points(
    stream: &Stream,
    model: &PointSet,
    scene: &PointSet,
    options: &PaperOptions,
) -> koel::Result<MatchOutcome> {
    let outcome =
        search(stream, (&model.points, &model.outline), (&scene.points, &scene.outline), options)?;
    let to_points = model.to_image.inverse().unwrap_or(Affine::IDENTITY);
    let shrunk = scene.to_image.scale();
    let votes = outcome.hypotheses.first().map_or(0, |h| h.votes as usize);
    let found = outcome.found.as_ref().map(|v| Found {
        map: scene.to_image.after(&v.map).after(&to_points),
        homography: None,
        negative: false,
        part: false,
        votes,
        inliers: v.inliers.len(),
        rmse: v.rmse * shrunk,
        inlier_points: v.inliers.iter().map(|&p| scene.to_image.apply(p)).collect(),
    });
    let middle =
        to_points.apply((0.5 * (model.size.0 - 1) as f32, 0.5 * (model.size.1 - 1) as f32));
    let place = |(map, votes): &(Affine, f32)| (scene.to_image.apply(map.apply(middle)), *votes);
    Ok(MatchOutcome {
        found,
        evidence: outcome.evidence,
        hypotheses: outcome.maps.iter().map(place).collect(),
        seconds: outcome.seconds,
        ..MatchOutcome::NOTHING
    })
}

/// Bases of model and scene, and the cells of their coordinates.
struct Bases {
    model: Vec<PointBasis>,
    scene: Vec<PointBasis>,
    cells: Cells,
}
impl Bases {
    fn choose(model: &[Point], scene: &[Point], options: &PaperOptions) -> Bases {
        let PaperOptions { freedom, rules, bases, .. } = options;
        let mut random = Random::new(options.seed);
        let of_model = choose(model, *freedom, rules, bases.0, true, &mut random);
        let of_scene = choose(scene, *freedom, rules, bases.1, false, &mut random);
        let cells = Cells::of(options, model, &of_model, &mut random);
        Bases { model: of_model, scene: of_scene, cells }
    }
}

/// Returns the keys that a model's bases enter into the table, one for each point and basis, and
/// those that a scene's bases look up: the input of a hash table, for measurements.
///
/// Depends only on the points and the options.
pub fn table_keys(model: &[Point], scene: &[Point], options: &PaperOptions) -> [Vec<u32>; 2] {
    let bases = Bases::choose(model, scene, options);
    [(model, &bases.model), (scene, &bases.scene)].map(|(points, own)| {
        entries(points, own, &bases.cells, options).into_iter().map(|(key, _)| key).collect()
    })
}

/// Returns the table entries of a set of points: for every basis, the cells of the other points
/// with the index of the basis.
fn entries(
    points: &[Point],
    bases: &[PointBasis],
    cells: &Cells,
    options: &PaperOptions,
) -> Vec<(u32, u32)> {
    let mut pairs = vec![];
    for (b, basis) in bases.iter().enumerate() {
        for at in basis.coordinates(points, options.freedom, options.reach) {
            if options.neighbour_entries {
                pairs.extend(cells.around(at).map(|key| (key, b as u32)));
            } else {
                pairs.extend(cells.key(at).map(|key| (key, b as u32)));
            }
        }
    }
    pairs
}

/// Number of scene bases that vote before their candidates are verified.
const ROUND: usize = 1024;
/// Maximum number of hypotheses that are reported.
const REPORTED: usize = 2000;

/// Searches a scene's points for a model's. The result is the same on every device. Too few points
/// are no error: nothing is found.
///
/// Bases are chosen and candidates are verified on the host; cells, table and votes are computed on
/// the device of `stream`. Allocates and waits.
pub fn find(
    stream: &Stream,
    model: &[Point],
    scene: &[Point],
    options: &PaperOptions,
) -> koel::Result<PaperOutcome> {
    search(stream, (model, &[]), (scene, &[]), options)
}

/// Points that vote, and points of outlines.
type Points<'a> = (&'a [Point], &'a [Point]);

fn search(
    stream: &Stream,
    model: Points<'_>,
    scene: Points<'_>,
    options: &PaperOptions,
) -> koel::Result<PaperOutcome> {
    let begin = Instant::now();
    let bases = Bases::choose(model.0, scene.0, options);
    let ballot = Ballot::new(stream, model.0, &bases.model, &bases.cells, options)?;
    // Chance has tried each pair of bases.
    let tried = (bases.model.len().max(1) as f64 * bases.scene.len().max(1) as f64).ln();
    let verifier = Verifier::new(model, scene, tried, options);
    let mut outcome = PaperOutcome {
        found: None,
        evidence: 0.0,
        hypotheses: vec![],
        maps: vec![],
        entries: ballot.entries(),
        lookups: 0,
        seconds: [begin.elapsed().as_secs_f64(), 0.0, 0.0],
    };
    let mut best: Option<(Affine, f64)> = None;
    for (round, own) in bases.scene.chunks(ROUND).enumerate() {
        let begin = Instant::now();
        let first = round * ROUND;
        let Counted { hypotheses, lookups, .. } = ballot.count(scene.0, own, first)?;
        outcome.seconds[1] += begin.elapsed().as_secs_f64();
        outcome.lookups += lookups;
        let begin = Instant::now();
        let mapped = |h: &Hypothesis| {
            let map = bases.map(h, model.0, scene.0, options.freedom)?;
            let around = bases.model[h.model].first();
            Some((verifier.rank(&map, around), map, around))
        };
        let maps = hypotheses.par_iter().filter_map(mapped).collect::<Vec<_>>();
        let found = verifier.best(maps);
        best = [best, found].into_iter().flatten().reduce(|a, b| if b.1 > a.1 { b } else { a });
        outcome.hypotheses.extend(hypotheses);
        outcome.hypotheses.sort_by(|a, b| b.votes.total_cmp(&a.votes));
        outcome.hypotheses.truncate(REPORTED);
        outcome.seconds[2] += begin.elapsed().as_secs_f64();
        if let Some((map, evidence)) = best {
            outcome.evidence = evidence as f32;
            if verifier.accepts(evidence) {
                outcome.found = Some(verifier.verified(map, evidence));
                break;
            }
        }
    }
    let map = |h: &Hypothesis| Some((bases.map(h, model.0, scene.0, options.freedom)?, h.votes));
    outcome.maps = outcome.hypotheses.iter().filter_map(map).collect();
    Ok(outcome)
}
impl Bases {
    /// Returns the map that takes a model basis to a scene basis.
    fn map(
        &self,
        pair: &Hypothesis,
        model: &[Point],
        scene: &[Point],
        freedom: Freedom,
    ) -> Option<Affine> {
        let (from, to) = (&self.model[pair.model], &self.scene[pair.scene]);
        Some(to.frame(scene, freedom)?.after(&from.frame(model, freedom)?.inverse()?))
    }
}

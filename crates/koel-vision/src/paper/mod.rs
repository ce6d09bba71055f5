//! Geometric hashing as published, based on points alone, for comparison with the default matcher.
//!
//! Implements Alcantara et al. 2009, section 6 (two points form a basis; votes for pairs of bases),
//! and Zachmann's lecture (rigid and affine bases; verification; measures against noise). Bases of
//! points give every other point two coordinates that are invariant under motion. Cells of these
//! are the keys of a multi-value table whose values are the model's bases. A scene's bases look up
//! the cells of their points and count. Pairs of bases with more votes than chance explains are
//! verified.
//!
//! [`PointSet`] takes the points from an image, a model or a scene, [`match_points`] searches one
//! set for another, and [`find`] does the same for plain points and reports more.
//!
//! ```
//! use koel_vision::paper::{PaperOptions, PointSet, match_points};
//! use koel_vision::{Freedom, synthetic::texture};
//!
//! let stream = koel::Device::cpu()?.stream()?;
//! let options = PaperOptions::default().with_freedom(Freedom::Rigid).with_points(100);
//! let set = |seed| PointSet::of_edges(&stream, &texture(160, 120, seed), &options);
//! let outcome = match_points(&stream, &set(1)?, &set(2)?, &options)?;
//! assert_eq!(outcome.found, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
mod basis;
mod cells;
pub(crate) mod table;
mod verify;
mod votes;

pub use basis::BasisRules;
pub use cells::Partition;
pub use table::Lookup;
pub use verify::Verified;
pub use votes::{Hypothesis, Weights};

use crate::affine::Affine;
use crate::corners::{corners, evenly};
use crate::edges::{DeviceEdges, Edge, spread, strongest_first};
use crate::fit::Freedom;
use crate::matcher::{Found, Outcome};
use crate::model::{Model, working_size};
use crate::picture::Grey;
use crate::random::Random;
use crate::scene::Scene;
use basis::{PointBasis, choose};
use cells::Cells;
use koel::Stream;
use std::time::Instant;
use table::MultiTable;
use verify::verify;
use votes::count;

/// Point of the plane.
pub type Point = (f32, f32);

/// Features of an image that the published method uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Features {
    /// Strongest edges, evenly spread.
    #[default]
    Edges,
    /// Corners (FAST), the strongest of each cell of the image first.
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

/// Options of the published method. Every measure against noise is a switch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PaperOptions {
    /// Allowed maps, which determine the type of basis.
    pub freedom: Freedom,
    /// Maximum number of points of an image, strongest first.
    pub points: usize,
    /// Minimum distance between points, in pixels.
    pub apart: f32,
    /// Selection rules for bases.
    pub rules: BasisRules,
    /// Maximum number of bases of the model and of the scene.
    pub bases: (usize, usize),
    /// Lookup method of the table.
    pub lookup: Lookup,
    /// Partition of the coordinate plane into cells.
    pub partition: Partition,
    /// Enter each model point into the cells around its own too: nine times the memory.
    pub neighbour_entries: bool,
    /// Let each scene point vote in the cells around its own too: nine times the lookups.
    pub neighbour_votes: bool,
    /// Weights of votes.
    pub weights: Weights,
    /// Maximum distance of an inlier from a scene point, in pixels.
    pub inlier: f32,
    /// Probability that noise alone is accepted.
    pub false_alarm: f64,
    /// Seed of all random choices.
    pub seed: u64,
}
impl Default for PaperOptions {
    /// Returns options for similarities with 200 points and a third of the pairs, up to 1,500 of
    /// the model and 1,500 of the scene.
    fn default() -> PaperOptions {
        PaperOptions {
            freedom: Freedom::Similarity,
            points: 200,
            apart: 8.0,
            rules: BasisRules::default(),
            bases: (1500, 1500),
            lookup: Lookup::Hash,
            partition: Partition::Uniform,
            neighbour_entries: false,
            neighbour_votes: false,
            weights: Weights::default(),
            inlier: 3.0,
            false_alarm: 1e-3,
            seed: 1,
        }
    }
}

koel::option_setters! { PaperOptions:
    freedom by with_freedom: Freedom;
    points by with_points: usize;
    apart by with_apart: f32;
    rules by with_rules: BasisRules;
    bases by with_bases: (usize, usize);
    lookup by with_lookup: Lookup;
    partition by with_partition: Partition;
    neighbour_entries by with_neighbour_entries: bool;
    neighbour_votes by with_neighbour_votes: bool;
    weights by with_weights: Weights;
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

/// Returns the points of an image that the published method uses: the strongest edges, evenly
/// spread.
fn points_of(edges: &[Edge], options: &PaperOptions) -> Vec<Point> {
    let order = strongest_first(edges, |e| e.strength);
    spread(edges, order.into_iter(), options.apart, options.points)
        .into_iter()
        .map(|i| (edges[i].x, edges[i].y))
        .collect()
}

/// Image as a set of points. With points of your own, the fields say what they are.
#[derive(Clone, Debug)]
pub struct PointSet {
    /// Points in working coordinates.
    pub points: Vec<Point>,
    /// Size of the image in pixels.
    pub size: (usize, usize),
    /// Map from the points' coordinates to pixels of the image.
    pub to_image: Affine,
}
impl PointSet {
    /// Returns a model's strongest edges.
    pub fn of_model(model: &Model, options: &PaperOptions) -> PointSet {
        let points = points_of(&model.points, options);
        PointSet { points, size: (model.width, model.height), to_image: model.to_image }
    }
    /// Returns a scene's strongest edges. Reads its edges back.
    pub fn of_scene(scene: &Scene, options: &PaperOptions) -> koel::Result<PointSet> {
        let points = points_of(&scene.edges.download()?, options);
        Ok(PointSet { points, size: (scene.width, scene.height), to_image: scene.to_image })
    }
    /// Returns an image's strongest edges. Finds them on the device of `stream` and reads them
    /// back.
    pub fn of_edges(
        stream: &Stream,
        image: &Grey,
        options: &PaperOptions,
    ) -> koel::Result<PointSet> {
        let (small, to_image) = working_size(image);
        let points = points_of(&DeviceEdges::find(stream, &small)?.download()?, options);
        Ok(PointSet { points, size: (image.width, image.height), to_image })
    }
    /// Returns an image's corners. Finds them on the device of `stream` and reads them back.
    pub fn of_corners(
        stream: &Stream,
        image: &Grey,
        options: &PaperOptions,
    ) -> koel::Result<PointSet> {
        let (small, to_image) = working_size(image);
        let chosen = evenly(&corners(stream, &small)?, options.points);
        let points = chosen.into_iter().map(|c| (c.x as f32, c.y as f32)).collect();
        Ok(PointSet { points, size: (image.width, image.height), to_image })
    }
}

/// Runs [`find`] on images and returns the result in their pixels. Its hypotheses count votes
/// instead of evidence.
pub fn match_points(
    stream: &Stream,
    model: &PointSet,
    scene: &PointSet,
    options: &PaperOptions,
) -> koel::Result<Outcome> {
    let outcome = find(stream, &model.points, &scene.points, options)?;
    let to_points = model.to_image.inverse().unwrap_or(Affine::IDENTITY);
    let shrunk = scene.to_image.determinant().abs().sqrt();
    let votes = outcome.hypotheses.first().map_or(0, |h| h.votes as usize);
    let found = outcome.found.as_ref().map(|v| Found {
        map: scene.to_image.after(&v.map).after(&to_points),
        votes,
        inliers: v.inliers.len(),
        rmse: v.rmse * shrunk,
        inlier_points: v.inliers.iter().map(|&p| scene.to_image.apply(p)).collect(),
    });
    let middle =
        to_points.apply((0.5 * (model.size.0 - 1) as f32, 0.5 * (model.size.1 - 1) as f32));
    let place = |(map, votes): &(Affine, f32)| (scene.to_image.apply(map.apply(middle)), *votes);
    Ok(Outcome {
        agreement: None,
        doubt: None,
        evidence: outcome.found.map_or(0.0, |v| v.evidence),
        found,
        hypotheses: outcome.maps.iter().map(place).collect(),
        seconds: outcome.seconds,
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
        let PaperOptions { freedom, rules, bases, partition, .. } = options;
        let mut random = Random::new(options.seed);
        let of_model = choose(model, *freedom, rules, bases.0, &mut random);
        let of_scene = choose(scene, *freedom, rules, bases.1, &mut random);
        let cells = Cells::of(*partition, *freedom, model, &of_model, &mut random);
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
        for (_, at) in basis.coordinates(points, options.freedom) {
            if options.neighbour_entries {
                pairs.extend(cells.around(at).map(|key| (key, b as u32)));
            } else {
                pairs.extend(cells.key(at).map(|key| (key, b as u32)));
            }
        }
    }
    pairs
}

/// Searches a scene's points for a model's. The result is the same on every device. Too few points
/// are no error: nothing is found.
///
/// Bases and votes are computed on the host, the table is built and looked up on the device of
/// `stream`; allocates and waits.
pub fn find(
    stream: &Stream,
    model: &[Point],
    scene: &[Point],
    options: &PaperOptions,
) -> koel::Result<PaperOutcome> {
    let begin = Instant::now();
    let Bases { model: model_bases, scene: scene_bases, cells } =
        Bases::choose(model, scene, options);
    let pairs = entries(model, &model_bases, &cells, options);
    let table = MultiTable::build(stream, &pairs, options.lookup)?;
    let built = Instant::now();
    let (hypotheses, lookups) =
        count(scene, &scene_bases, model_bases.len(), &cells, &table, options)?;
    let voted = Instant::now();
    let maps = hypotheses.iter().filter_map(|h| {
        let (from, to) = (&model_bases[h.model], &scene_bases[h.scene]);
        let map = to
            .frame(scene, options.freedom)?
            .after(&from.frame(model, options.freedom)?.inverse()?);
        Some((map, h.votes))
    });
    let maps = maps.collect::<Vec<(Affine, f32)>>();
    let tried = model_bases.len() * scene_bases.len();
    let found = verify(
        stream,
        model,
        scene,
        &maps.iter().map(|m| m.0).collect::<Vec<Affine>>(),
        tried,
        options,
    )?;
    let seconds = [built - begin, voted - built, voted.elapsed()].map(|d| d.as_secs_f64());
    Ok(PaperOutcome { found, hypotheses, maps, entries: pairs.len(), lookups, seconds })
}

//! Geometric hashing as published: by points alone, for comparison with the default matcher.
//!
//! Alcantara et al. 2009, section 6 (two points make a basis; votes for pairs of bases), and
//! Zachmann's lecture (rigid and affine bases; verification; what helps against noise). The modules
//! follow the data: bases of points ([`basis`]) give every other point two coordinates that no
//! movement changes; cells of these ([`cells`]) are the keys of a multi-value table ([`table`])
//! whose values are the model's bases; a scene's bases look up their points' cells and count
//! ([`votes`]); the pairs of bases with more votes than chance explains are verified
//! ([`mod@verify`]). [`naive`] tries everything.
pub mod basis;
pub mod cells;
pub mod naive;
pub mod table;
pub mod verify;
pub mod votes;

use crate::affine::Affine;
use crate::corners::{corners, evenly};
use crate::edges::{Edge, spread, strongest_first};
use crate::fit::Freedom;
use crate::matcher::{Found, Outcome};
use crate::model::{Model, working_size};
use crate::picture::Grey;
use crate::random::Random;
use crate::scene::Scene;
use basis::{BasisRules, PointBasis, choose};
use cells::{Cells, Partition};
use koel::Stream;
use std::time::Instant;
use table::{Lookup, MultiTable};
use verify::{Verified, verify};
use votes::{Hypothesis, Weights, count};

/// A point of the plane.
pub type Point = (f32, f32);

/// Which points of an image the published method uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Features {
    /// The strongest edges, evenly spread.
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

/// What the published method does. Every remedy against noise is a switch.
#[derive(Clone, Debug)]
pub struct PaperOptions {
    /// Which maps are looked for, and so what a basis is.
    pub freedom: Freedom,
    /// Points of an image, the strongest first, this far apart.
    pub points: usize,
    /// Pixels between points.
    pub apart: f32,
    /// Which bases are used.
    pub rules: BasisRules,
    /// Bases of the model and of the scene, at most.
    pub bases: (usize, usize),
    /// How the table is looked up.
    pub lookup: Lookup,
    /// How the plane of coordinates is cut into cells.
    pub partition: Partition,
    /// Each model point is entered into the cells around its own too: nine times the memory.
    pub neighbour_entries: bool,
    /// Each scene point votes in the cells around its own too: nine times the lookups.
    pub neighbour_votes: bool,
    /// What a vote weighs.
    pub weights: Weights,
    /// An inlier is at most this far from a scene point, pixels.
    pub inlier: f32,
    /// The chance that noise alone is accepted.
    pub false_alarm: f64,
    /// Everything random follows from it.
    pub seed: u64,
}
impl Default for PaperOptions {
    /// Similarities, by 200 points; a third of the pairs, at most 1,500 of the model and 1,500 of
    /// the scene.
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

/// What came out.
#[derive(Clone, Debug)]
pub struct PaperOutcome {
    /// The best map that chance does not explain.
    pub found: Option<Verified>,
    /// The pairs of bases with the most votes, best first.
    pub hypotheses: Vec<Hypothesis>,
    /// The maps that these stand for, and their votes.
    pub maps: Vec<(Affine, f32)>,
    /// Entries of the table.
    pub entries: usize,
    /// Lookups.
    pub lookups: usize,
    /// Seconds: table, votes, verification.
    pub seconds: [f64; 3],
}

/// The points of an image that the published method uses: the strongest edges, evenly spread.
pub fn points_of(edges: &[Edge], options: &PaperOptions) -> Vec<Point> {
    let order = strongest_first(edges, |e| e.strength);
    spread(edges, order.into_iter(), options.apart, options.points)
        .into_iter()
        .map(|i| (edges[i].x, edges[i].y))
        .collect()
}

/// An image as the published method sees it.
#[derive(Clone, Debug)]
pub struct PointSet {
    /// The points.
    pub points: Vec<Point>,
    /// The image's size in pixels.
    pub size: (usize, usize),
    /// From the points' coordinates to pixels of the image.
    pub to_image: Affine,
}
impl PointSet {
    /// A model's strongest edges.
    pub fn of_model(model: &Model, options: &PaperOptions) -> PointSet {
        let points = points_of(&model.points, options);
        PointSet { points, size: (model.width, model.height), to_image: model.to_image }
    }
    /// A scene's strongest edges. Reads its edges back.
    pub fn of_scene(scene: &Scene, options: &PaperOptions) -> koel::Result<PointSet> {
        let points = points_of(&scene.edges.download()?, options);
        Ok(PointSet { points, size: (scene.width, scene.height), to_image: scene.to_image })
    }
    /// An image's corners.
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

/// [`find`] for images, with the answer in their pixels.
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
        evidence: outcome.found.map_or(0.0, |v| v.evidence),
        found,
        hypotheses: outcome.maps.iter().map(place).collect(),
        seconds: outcome.seconds,
    })
}

/// What points enter into the table: of every basis the cells of the other points, with the number
/// of the basis.
pub fn entries(
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
/// Looks for a model's points among a scene's. The same answer on every device.
pub fn find(
    stream: &Stream,
    model: &[Point],
    scene: &[Point],
    options: &PaperOptions,
) -> koel::Result<PaperOutcome> {
    let mut random = Random::new(options.seed);
    let begin = Instant::now();
    let model_bases = choose(model, options.freedom, &options.rules, options.bases.0, &mut random);
    let scene_bases = choose(scene, options.freedom, &options.rules, options.bases.1, &mut random);
    let cells = Cells::of(options.partition, options.freedom, model, &model_bases, &mut random);
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

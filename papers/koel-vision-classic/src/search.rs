//! Searches: of points for points, and of images for images.
use crate::basis::{Point, PointBasis, choose};
use crate::cells::Cells;
use crate::options::PaperOptions;
use crate::verify::{Verified, Verifier};
use crate::votes::{Ballot, Counted, Hypothesis};
use koel::Stream;
use koel_vision::synthetic::Random;
use koel_vision::{Affine, Features, Found, Freedom, Grey, MatchOutcome, Model, PointSet, Side};
use rayon::prelude::*;
use std::time::Instant;

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

/// Searches an image for another, at one pair of sizes after the other.
pub fn match_images(
    stream: &Stream,
    model: &Grey,
    scene: &Grey,
    options: &PaperOptions,
) -> koel::Result<MatchOutcome> {
    search_sizes(stream, scene, options, |factor| {
        PointSet::of_image(stream, model, factor, Side::Model, &options.point_rules()).map(Some)
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
        Ok((factor <= 1.0).then(|| PointSet::of_model(model, &options.point_rules())))
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
    let rules = options.point_rules();
    // Several sizes of the model in turn are searched for in one size of the scene.
    let mut last: Option<(f32, PointSet)> = None;
    for &(of_model, of_scene) in &options.sizes {
        let Some(model) = model(of_model)? else { continue };
        let (_, scene) = match last.take().filter(|(factor, _)| *factor == of_scene) {
            Some(same) => last.insert(same),
            None => last.insert((
                of_scene,
                PointSet::of_image(stream, scene, of_scene, Side::Scene, &rules)?,
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
    let mut best = best.unwrap_or(MatchOutcome::NOTHING);
    best.seconds = seconds;
    Ok(best)
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
    let found = outcome.found.as_ref().map(|v| {
        let mut found = Found::at(scene.to_image.after(&v.map).after(&to_points));
        (found.votes, found.inliers, found.rmse) = (votes, v.inliers.len(), v.rmse * shrunk);
        found.inlier_points = v.inliers.iter().map(|&p| scene.to_image.apply(p)).collect();
        found
    });
    let middle =
        to_points.apply((0.5 * (model.size.0 - 1) as f32, 0.5 * (model.size.1 - 1) as f32));
    let place = |(map, votes): &(Affine, f32)| (scene.to_image.apply(map.apply(middle)), *votes);
    let mut in_pixels = MatchOutcome::NOTHING;
    (in_pixels.found, in_pixels.evidence) = (found, outcome.evidence);
    in_pixels.hypotheses = outcome.maps.iter().map(place).collect();
    in_pixels.seconds = outcome.seconds;
    Ok(in_pixels)
}

/// Bases of model and scene, and the cells of their coordinates.
pub(crate) struct Bases {
    pub(crate) model: Vec<PointBasis>,
    pub(crate) scene: Vec<PointBasis>,
    pub(crate) cells: Cells,
}
impl Bases {
    pub(crate) fn choose(model: &[Point], scene: &[Point], options: &PaperOptions) -> Bases {
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
pub(crate) fn entries(
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
    pub(crate) fn map(
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

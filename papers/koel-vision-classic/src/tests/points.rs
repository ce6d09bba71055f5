//! The published method against the exhaustive oracle.
use super::naive::naive;
use crate::{BasisRules, Lookup, PaperOptions, Partition, Point, Weights, find, look_up};
use koel::Device;
use koel_vision::synthetic::Random;
use koel_vision::{Affine, Freedom};
use std::f32::consts::TAU;

fn points(n: usize, size: f32, random: &mut Random) -> Vec<Point> {
    (0..n).map(|_| (random.between(0.0, size), random.between(0.0, size))).collect()
}
/// A map with this freedom that keeps a model of 200 pixels within 600.
fn map(freedom: Freedom, random: &mut Random) -> Affine {
    let scale = if freedom == Freedom::Rigid { 1.0 } else { random.between(0.7, 1.4) };
    let turned =
        Affine::similarity(random.between(0.0, TAU), scale, (100.0, 100.0), (300.0, 300.0));
    let shear = Affine {
        linear: [[1.0, random.between(-0.3, 0.3)], [0.0, random.between(0.8, 1.2)]],
        shift: [0.0; 2],
    };
    if freedom == Freedom::Affine { turned.after(&shear) } else { turned }
}
/// The mapped model, each point displaced by up to `noise`, among other points.
fn scene(
    model: &[Point],
    map: &Affine,
    noise: f32,
    others: usize,
    random: &mut Random,
) -> Vec<Point> {
    let mut scene = model.iter().map(|&p| map.apply(p)).collect::<Vec<Point>>();
    scene.iter_mut().for_each(|p| {
        *p = (p.0 + random.between(-noise, noise), p.1 + random.between(-noise, noise))
    });
    scene.extend(points(others, 600.0, random));
    random.shuffle(&mut scene);
    scene
}
const ALL: [Freedom; 3] = [Freedom::Rigid, Freedom::Similarity, Freedom::Affine];

#[test]
fn finds_what_trying_everything_finds() {
    let stream = Device::cpu().unwrap().stream().unwrap();
    for (seed, freedom) in (0..6).flat_map(|seed| ALL.map(|f| (seed, f))) {
        let mut random = Random::new(seed);
        let model = points(7, 200.0, &mut random);
        let truth = map(freedom, &mut random);
        let scene =
            scene(&model, &truth, 0.0, if freedom == Freedom::Affine { 1 } else { 6 }, &mut random);
        let (oracle, inliers) = naive(freedom, &model, &scene, 1.0).unwrap();
        assert_eq!(inliers, model.len());
        assert!(oracle.corner_error(&truth, 200, 200) < 1.0);
        let rules = BasisRules { chance: 1.0, lengths: (20.0, 400.0), thinnest: 0.2 };
        let options = PaperOptions {
            freedom,
            rules,
            bases: (5000, 5000),
            reach: f32::MAX,
            neighbour_votes: true,
            candidates: 100,
            false_alarm: 1.0,
            ..PaperOptions::default()
        };
        let found =
            find(&stream, &model, &scene, &options).unwrap().found.expect("what the oracle finds");
        assert_eq!(found.inliers.len(), model.len(), "{freedom:?}, seed {seed}");
        assert!(
            found.map.corner_error(&oracle, 200, 200) < 2.0,
            "{freedom:?}, seed {seed}: {found:?}"
        );
    }
}

#[test]
fn every_remedy_and_lookup_finds_a_noisy_model() {
    let stream = Device::cpu().unwrap().stream().unwrap();
    let plain = PaperOptions::default();
    let weights =
        |by_length, by_distance, by_density| Weights { by_length, by_distance, by_density };
    let variants = [
        plain.clone(),
        PaperOptions { lookup: Lookup::BinarySearch, ..plain.clone() },
        PaperOptions { lookup: Lookup::TwoLevel, ..plain.clone() },
        PaperOptions { lookup: Lookup::KdTree, ..plain.clone() },
        PaperOptions { lookup: Lookup::BruteForce, ..plain.clone() },
        PaperOptions { two_way_index: true, ..plain.clone() },
        PaperOptions { two_way_index: true, lookup: Lookup::BinarySearch, ..plain.clone() },
        PaperOptions { neighbour_entries: true, ..plain.clone() },
        PaperOptions { neighbour_votes: true, ..plain.clone() },
        PaperOptions { weights: weights(true, false, false), ..plain.clone() },
        PaperOptions { weights: weights(false, true, false), ..plain.clone() },
        PaperOptions { weights: weights(false, false, true), ..plain.clone() },
        PaperOptions { partition: Partition::Transfer, ..plain.clone() },
        PaperOptions { partition: Partition::Elastic, ..plain },
    ];
    let mut random = Random::new(4);
    let model = points(60, 200.0, &mut random);
    let truth = map(Freedom::Similarity, &mut random);
    let scene = scene(&model, &truth, 1.0, 40, &mut random);
    let mut outcomes = vec![];
    for (i, options) in variants.iter().enumerate() {
        let outcome = find(&stream, &model, &scene, options).unwrap();
        let found = outcome.found.as_ref().unwrap_or_else(|| panic!("variant {i}"));
        assert!(found.map.corner_error(&truth, 200, 200) < 2.0, "variant {i}: {found:?}");
        assert!(found.rmse < 2.0);
        outcomes.push(outcome);
    }
    // The lookups differ only in speed; neighbours cost the documented factor.
    for other in &outcomes[1..7] {
        assert_eq!(outcomes[0].hypotheses, other.hypotheses);
    }
    assert_eq!(9 * outcomes[0].entries, outcomes[7].entries);
    assert_eq!(9 * outcomes[0].lookups, outcomes[8].lookups);
}

/// All lookups return the same number of entries for every cell, present or absent.
#[test]
fn every_lookup_finds_the_same_entries() {
    let stream = Device::cpu().unwrap().stream().unwrap();
    let mut random = Random::new(6);
    let (model, scene) = (points(30, 200.0, &mut random), points(40, 200.0, &mut random));
    let of = |lookup| {
        let options = PaperOptions { lookup, ..PaperOptions::default() };
        look_up(&stream, &model, &scene, &options, 2).unwrap()
    };
    let hash = of(Lookup::Hash);
    assert_eq!(hash.seconds.len(), 2);
    assert!(hash.counts.contains(&0) && hash.counts.iter().any(|&count| count > 1));
    for lookup in [Lookup::TwoLevel, Lookup::BinarySearch, Lookup::KdTree, Lookup::BruteForce] {
        let other = of(lookup);
        assert_eq!(
            (other.entries, other.cells, other.counts),
            (hash.entries, hash.cells, hash.counts.clone()),
            "{lookup:?}"
        );
    }
}

#[test]
fn chance_is_not_accepted() {
    let stream = Device::cpu().unwrap().stream().unwrap();
    for seed in 0..10 {
        let mut random = Random::new(seed);
        let (model, scene) = (points(60, 200.0, &mut random), points(100, 600.0, &mut random));
        let outcome = find(&stream, &model, &scene, &PaperOptions::default()).unwrap();
        assert_eq!(outcome.found, None, "seed {seed}");
    }
}

#[test]
fn few_points_are_no_error() {
    let stream = Device::cpu().unwrap().stream().unwrap();
    for freedom in ALL {
        let options = PaperOptions { freedom, ..PaperOptions::default() };
        for (model, scene) in [(0, 0), (1, 5), (2, 2), (5, 0), (3, 1)] {
            let same = |n| vec![(10.0, 10.0); n];
            assert_eq!(find(&stream, &same(model), &same(scene), &options).unwrap().found, None);
        }
    }
}

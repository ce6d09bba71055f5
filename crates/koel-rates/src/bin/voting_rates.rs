//! Votes of geometric hashing as published, with hash tables and with sorted lists: the comparison
//! of Alcantara et al. 2009, Table 1.
//!
//! `cargo run --release -p koel-rates --bin voting_rates -- [cpu|cuda] [RUNS] [BASES]` prints lines
//! of JSON: milliseconds for a model's table and for the votes of all bases of a scene, from host
//! memory to hypotheses there; the median of `RUNS`. The model is a photograph with as many of its
//! edges as give the paper's numbers of entries, the scene another with `BASES` bases (1,500).
//! Every method must return the same hypotheses.
//!
//! `... -- [cpu|cuda] [RUNS] [BASES] lookups` measures the lookups of cells alone, in tables of
//! about 10^4 to 10^6 entries, for all points of `BASES` scene bases: nanoseconds per lookup in the
//! fastest of `RUNS`, as other programs can only slow it down, and the multiple of those by
//! hashing. On a CPU also by kd-tree and by brute force, which run on the host; brute force in one
//! run. Every method must return the same number of entries for each.
use koel::{Device, DeviceKind, Stream};
use koel_rates::{Arguments, Times, decimals, repeat, row};
use koel_vision::{Freedom, Grey, PointSet, Side, decode};
use koel_vision_classic::{BasisRules, Lookup, PaperOptions, Point, Voting, look_up, vote};
use std::error::Error;
use std::path::Path;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Points of the model that give about 440,000, 550,000, 3 and 4 million entries.
const POINTS: [usize; 4] = [118, 127, 220, 242];
/// Points of the model that give about 10^4 to 10^6 entries, in equal steps of the logarithm, and
/// points of the scene.
const POINTS_OF_LOOKUPS: [usize; 5] = [32, 47, 69, 102, 149];
const SCENE_POINTS: usize = 200;

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let lookups = args.has("lookups");
    let device = args.device()?;
    let numbers = args.sizes(&[])?;
    let number = |i: usize, default| numbers.get(i).copied().unwrap_or(default);
    let (runs, bases) = (number(0, 7), number(1, 1500));
    let image = |name: &str, bytes: &[u8]| decode(bytes, Path::new(name), 1 << 30);
    let model = image("box_in_scene", include_bytes!("../../../../assets/box_in_scene.jpg"))?.grey;
    let scene = image("box", include_bytes!("../../../../assets/box.jpg"))?.grey;
    if lookups {
        return POINTS_OF_LOOKUPS.iter().try_for_each(|&points| {
            compare_lookups(&device, points, bases, (&model, &scene), runs)
        });
    }
    for points in POINTS {
        compare(&device, points, bases, (&model, &scene), runs)?;
    }
    Ok(())
}

/// Measures all methods with a number of points.
fn compare(
    device: &Device,
    points: usize,
    bases: usize,
    (model, scene): (&Grey, &Grey),
    runs: usize,
) -> Result<()> {
    let (stream, options) = (device.stream()?, options((points, points), bases));
    let (model, scene) = points_of(&stream, (model, scene), &options)?;
    let mut expected: Option<Voting> = None;
    for (lookup, table) in [
        (Lookup::Hash, "hash"),
        (Lookup::TwoLevel, "two-level hash of 2009"),
        (Lookup::BinarySearch, "binary search"),
    ] {
        for two_way_index in [true, false] {
            let options = options.clone().with_lookup(lookup).with_two_way_index(two_way_index);
            let mut last = None;
            let times = repeat(runs, || -> Result<[f64; 2]> {
                Ok(last.insert(vote(&stream, &model, &scene, &options)?).seconds)
            })?;
            let Some(voting) = last else { unreachable!("it has run") };
            let known = expected.get_or_insert_with(|| voting.clone());
            if voting.hypotheses != known.hypotheses {
                return Err(format!("{table}: other hypotheses than by hashing").into());
            }
            print(device, &model, &voting, times, table, two_way_index);
        }
    }
    Ok(())
}
/// Returns the options for a number of points and of bases of the scene.
fn options(points: (usize, usize), bases: usize) -> PaperOptions {
    PaperOptions::published()
        .with_freedom(Freedom::Similarity)
        .with_points(points)
        .with_apart(5.0)
        // Each pair of points is one basis here and two in the paper.
        .with_rules(BasisRules::default().with_chance(2.0 / 3.0).with_lengths((40.0, 500.0)))
        .with_bases((usize::MAX >> 8, bases))
}
/// Returns the points of model and scene.
fn points_of(
    stream: &Stream,
    (model, scene): (&Grey, &Grey),
    options: &PaperOptions,
) -> Result<(Vec<Point>, Vec<Point>)> {
    let rules = options.point_rules();
    let set = |image, side| PointSet::of_image(stream, image, 1.0, side, &rules);
    Ok((set(model, Side::Model)?.points, set(scene, Side::Scene)?.points))
}
/// Measures the lookups of all methods with a number of points.
fn compare_lookups(
    device: &Device,
    points: usize,
    bases: usize,
    images: (&Grey, &Grey),
    runs: usize,
) -> Result<()> {
    let options = options((points, SCENE_POINTS), bases).with_two_way_index(false);
    let stream = device.stream()?;
    let (model, scene) = points_of(&stream, images, &options)?;
    let mut hash: Option<(Vec<u32>, f64)> = None;
    for (lookup, table) in [
        (Lookup::Hash, "hash"),
        (Lookup::TwoLevel, "two-level hash of 2009"),
        (Lookup::BinarySearch, "binary search"),
        (Lookup::KdTree, "kd-tree"),
        (Lookup::BruteForce, "brute force"),
    ] {
        let is_host = matches!(lookup, Lookup::KdTree | Lookup::BruteForce);
        if is_host && device.kind() != DeviceKind::Cpu {
            continue;
        }
        let runs = if lookup == Lookup::BruteForce { 1 } else { runs };
        let options = options.clone().with_lookup(lookup);
        let found = look_up(&stream, &model, &scene, &options, runs)?;
        let seconds = found.seconds.iter().copied().fold(f64::MAX, f64::min);
        let lookups = found.counts.len();
        let present = found.counts.iter().filter(|&&count| count > 0).count();
        let (counts, of_hash) = hash.get_or_insert_with(|| (found.counts.clone(), seconds));
        if found.counts != *counts {
            return Err(format!("{table}: other entries than by hashing").into());
        }
        row![
            ("device", device.name()),
            ("points", model.len()),
            ("entries", found.entries),
            ("cells", found.cells),
            ("lookups", lookups),
            ("present", present),
            ("lists", table.to_string()),
            ("runs", runs),
            ("table_ms", decimals(found.table_seconds * 1e3, 3)),
            ("lookup_ns", decimals(seconds / lookups.max(1) as f64 * 1e9, 2)),
            ("times_hash", decimals(seconds / *of_hash, 2))
        ]
        .print();
    }
    Ok(())
}
fn print(
    device: &Device,
    model: &[Point],
    v: &Voting,
    [building, voting]: [Times; 2],
    table: &str,
    two_way_index: bool,
) {
    let milliseconds = |seconds: f64| decimals(seconds * 1e3, 3);
    row![
        ("device", device.name()),
        ("points", model.len()),
        ("entries", v.entries),
        ("bases_model", v.bases.0),
        ("bases_scene", v.bases.1),
        ("lookups", v.lookups),
        ("votes", v.votes),
        ("lists", table.to_string()),
        ("two_way_index", two_way_index),
        ("table_ms", milliseconds(building.median)),
        ("votes_ms", milliseconds(voting.median)),
        ("votes_ms_min", milliseconds(voting.min)),
        ("votes_ms_max", milliseconds(voting.max)),
        ("mega_votes_per_s", decimals(v.votes as f64 / voting.median / 1e6, 1))
    ]
    .print();
}

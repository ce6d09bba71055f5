//! The published method on the pairs of the quality table: the effect of each measure against
//! noise, and hashing against binary search (the comparison of Alcantara et al. 2009, Table 1).
//! The levels have scales of 0.7 to 1.4, so only these sizes are searched.
//!
//! `cargo run --release -p koel-vision-classic --example paper -- FIRST_SEED PAIRS PHOTOGRAPH...`
use koel_vision::synthetic::{Level, pair};
use koel_vision::{Features, Freedom, Grey, read};
use koel_vision_classic::{Lookup, PaperOptions, Partition, Weights, match_images};
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<String>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(2)
        }
    }
}

fn variants() -> Vec<(&'static str, PaperOptions)> {
    let published = PaperOptions::published();
    let plain = PaperOptions::default().with_sizes(vec![(1.0, 1.0), (1.4, 1.0), (1.0, 1.4)]);
    let weights = Weights::default();
    let (by_length, by_distance, by_density) = (
        weights.with_by_length(true),
        weights.with_by_distance(true),
        weights.with_by_density(true),
    );
    let all = by_length.with_by_distance(true).with_by_density(true);
    let weighted = |weights| plain.clone().with_weights(weights);
    let parted = |partition| plain.clone().with_partition(partition);
    vec![
        ("as published, hash", published.clone()),
        ("as published, binary search", published.with_lookup(Lookup::BinarySearch)),
        ("default, hash", plain.clone()),
        ("default, binary search", plain.clone().with_lookup(Lookup::BinarySearch)),
        ("edges", plain.clone().with_features(Features::Edges)),
        ("affine bases", plain.clone().with_freedom(Freedom::Affine)),
        ("neighbour-cell entries", plain.clone().with_neighbour_entries(true)),
        ("neighbour-cell votes", plain.clone().with_neighbour_votes(true)),
        ("weights by basis length", weighted(by_length)),
        ("weights by distance", weighted(by_distance)),
        ("weights by cell density", weighted(by_density)),
        ("all three weights", weighted(all)),
        ("rehashed by a transfer function", parted(Partition::Transfer)),
        ("learnt elastic grid", parted(Partition::Elastic)),
    ]
}

fn run(args: &[String]) -> Result<(), Box<dyn Error>> {
    let [first, pairs, files @ ..] = args else {
        return Err("expected: FIRST_SEED PAIRS PHOTOGRAPH...".into());
    };
    let (first, pairs) = (first.parse::<u64>()?, pairs.parse::<u64>()?.max(1));
    let photographs = files
        .iter()
        .map(|f| Ok(read(Path::new(f))?.grey))
        .collect::<Result<Vec<Grey>, Box<dyn Error>>>()?;
    if photographs.len() < 3 {
        return Err("expected at least three photographs".into());
    }
    let stream = koel::Device::cpu()?.stream()?;
    let levels = [Level::Clean, Level::Noise, Level::Occluded30, Level::Displaced3, Level::Absent];
    let names = levels.map(Level::name).join(" | ");
    println!("Seeds {first} to {}; reached in % of {pairs} pairs.\n", first + pairs - 1);
    println!("| method | {names} | ms: table | votes | verification |");
    println!("|---|{}", "---|".repeat(levels.len() + 3));
    for (name, options) in variants() {
        let (mut reached, mut seconds) = (vec![], [0.0; 3]);
        for level in levels {
            let mut good = 0;
            for seed in first..first + pairs {
                let pair = pair(level, &photographs, seed);
                let outcome = match_images(&stream, &pair.model, &pair.scene, &options)?;
                good += match (&outcome.found, &pair.truth) {
                    (Some(f), Some(truth)) => {
                        f.map.corner_error(truth, pair.model.width, pair.model.height)
                            <= level.goal().0
                    }
                    (found, truth) => found.is_none() && truth.is_none(),
                } as u64;
                seconds.iter_mut().zip(outcome.seconds).for_each(|(all, s)| *all += s);
            }
            reached.push(format!("{:.0}", 100.0 * good as f64 / pairs as f64));
        }
        let runs = levels.len() as f64 * pairs as f64;
        let [table, votes, verification] = seconds.map(|s| 1e3 * s / runs);
        let reached = reached.join(" | ");
        println!("| {name} | {reached} | {table:.0} | {votes:.0} | {verification:.0} |");
    }
    Ok(())
}

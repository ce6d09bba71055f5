//! The quality of the matcher on synthetic pairs of known truth: a table, by level.
//!
//! `cargo run --release -p koel-vision --example quality -- FIRST_SEED PAIRS PHOTOGRAPH...`
use koel_vision::synthetic::{Level, pair};
use koel_vision::{Grey, Matcher, Model, Options, Scene, read};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<String>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let [first, pairs, files @ ..] = args else { return Err("expected: FIRST_SEED PAIRS PHOTOGRAPH...".into()) };
    let (first, pairs) = (first.parse::<u64>()?, pairs.parse::<u64>()?);
    let photographs =
        files.iter().map(|f| Ok(read(Path::new(f))?.grey)).collect::<Result<Vec<Grey>, koel_vision::ReadError>>()?;
    if photographs.len() < 3 {
        return Err("expected at least three photographs".into());
    }
    let device = koel::Device::cpu()?;
    let matcher = Matcher::new(&device, Options::default())?;
    let verbose = std::env::var_os("QUALITY_VERBOSE").is_some();
    println!("| level | within | goal | reached | median error, px | evidence, least to most | s a pair |");
    println!("|---|---|---|---|---|---|---|");
    let only = std::env::var("QUALITY_LEVEL").ok();
    for level in Level::ALL.into_iter().filter(|l| only.as_ref().is_none_or(|o| l.name() == o)) {
        let (within, goal) = level.goal();
        let (mut good, mut errors, mut evidence, mut seconds) = (0, vec![], vec![], 0.0);
        for seed in first..first + pairs {
            let pair = pair(level, &photographs, seed);
            if let Some(dir) = std::env::var_os("QUALITY_DUMP") {
                for (g, what) in [(&pair.model, "model"), (&pair.scene, "scene")] {
                    let px = g.pixels.iter().map(|&v| v as u8).collect::<Vec<u8>>();
                    image::GrayImage::from_raw(g.width as u32, g.height as u32, px)
                        .unwrap()
                        .save(Path::new(&dir).join(format!("{seed}-{what}.png")))?;
                }
                println!("{seed} {:?}", pair.truth);
                continue;
            }
            let begin = Instant::now();
            let model = Model::of(&pair.model)?;
            let a = begin.elapsed().as_secs_f64();
            let scene = Scene::of(&pair.scene);
            let b = begin.elapsed().as_secs_f64();
            let outcome = matcher.find(&model, &matcher.stage(&scene)?)?;
            seconds += begin.elapsed().as_secs_f64();
            let error = match (&outcome.found, &pair.truth) {
                (Some(f), Some(truth)) => f.map.corner_error(truth, pair.model.width, pair.model.height),
                (None, None) => 0.0,
                _ => f32::INFINITY,
            };
            if verbose {
                println!(
                    "{} {seed}: error {error:.2} evidence {:.0} model {a:.3} scene {b:.3} {:.3?}",
                    level.name(),
                    outcome.evidence,
                    outcome.seconds
                );
            }
            good += (error <= within) as u64;
            errors.push(error);
            evidence.push(outcome.evidence);
        }
        errors.sort_by(f32::total_cmp);
        evidence.sort_by(f32::total_cmp);
        println!(
            "| {} | {within} px | {:.0} % | {:.0} % | {:.2} | {:.0} to {:.0} | {:.2} |",
            level.name(),
            100.0 * goal,
            100.0 * good as f32 / pairs as f32,
            errors[errors.len() / 2],
            evidence[0],
            evidence[evidence.len() - 1],
            seconds / pairs as f64
        );
    }
    Ok(())
}

//! Matches a scene against many models in one table: milliseconds per scene, by stage.
//!
//! `cargo run --release -p koel-vision --example many_models -- MODELS SCENES PHOTOGRAPH... [cpu]
//! [default]`
//!
//! Models have 240 x 180 pixels and scenes 640 x 480, as in the quality table's clean level; each
//! scene shows one of the models. Uses [`Options::quick`], or the default options, on the best
//! device, or on the CPU.
use koel::Device;
use koel_vision::synthetic::{Level, Pair, pair};
use koel_vision::{Grey, Matcher, Model, Options, read};
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Step from one model shown to the next; a prime.
const SCATTER: usize = 7919;

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<String>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &[String]) -> Result<(), Box<dyn Error>> {
    let [models, scenes, others @ ..] = args else {
        return Err("expected: MODELS SCENES PHOTOGRAPH... [cpu] [default]".into());
    };
    let (models, scenes) = (models.parse::<u64>()?.max(1), scenes.parse::<usize>()?.max(1));
    let said = |word: &str| others.iter().any(|o| o == word);
    let files = others.iter().filter(|o| *o != "cpu" && *o != "default");
    let photographs = files
        .map(|f| Ok(read(Path::new(f))?.grey))
        .collect::<Result<Vec<Grey>, Box<dyn Error>>>()?;
    if photographs.len() < 3 {
        return Err("expected at least three photographs".into());
    }
    let device = if said("cpu") { Device::cpu()? } else { Device::best()? };
    let options = if said("default") { Options::default() } else { Options::quick() };
    let matcher = Matcher::new(&device, options)?;
    let pairs =
        (0..models).map(|seed| pair(Level::Clean, &photographs, seed)).collect::<Vec<Pair>>();
    let all = pairs.iter().map(|p| Model::of(&p.model)).collect::<Result<Vec<Model>, _>>()?;
    let begin = Instant::now();
    let mut table = matcher.table(&all)?;
    let built = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    let last = table.models().last().map_or(0, |(number, _)| number);
    table.remove(last)?;
    table.add([&all[last]])?;
    println!(
        "{}: {models} models, {} entries, table in {:.1} ms, one removed and \
         added again in {:.1} ms",
        device.name(),
        table.living_entries(),
        1e3 * built,
        1e3 * begin.elapsed().as_secs_f64()
    );
    let (mut times, mut stages, mut good, mut others) = (vec![], [0.0; 3], 0, 0);
    // The first round warms up.
    for round in 0..=scenes {
        let shown = SCATTER * round % pairs.len();
        let begin = Instant::now();
        let scene = matcher.scene(&pairs[shown].scene)?;
        let features = begin.elapsed().as_secs_f64();
        let outcomes = matcher.find_all(&table, &scene)?;
        let total = begin.elapsed().as_secs_f64();
        if round == 0 {
            continue;
        }
        times.push((total, features));
        for (number, outcome) in outcomes {
            stages
                .iter_mut()
                .zip(outcome.seconds)
                .for_each(|(all, s)| *all += 1e3 * s / scenes as f64);
            let Some(found) = outcome.found else { continue };
            let Pair { model, truth, .. } = &pairs[shown];
            let there = number == shown
                && truth.is_some_and(|truth| {
                    found.map.corner_error(&truth, model.width, model.height) <= 3.0
                });
            (good, others) = (good + there as usize, others + !there as usize);
        }
    }
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (total, features) = times[times.len() / 2];
    let [votes, refinement, verdicts] = stages;
    println!(
        "per scene: median {:.1} ms; edges and maps {:.1}, mean votes {votes:.1}, \
         refinement {refinement:.1}, verdicts {verdicts:.1}",
        1e3 * total,
        1e3 * features
    );
    println!(
        "the model shown found in {good} of {scenes} scenes; other models or positions in {others}"
    );
    Ok(())
}

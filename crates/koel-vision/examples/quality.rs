//! Quality of the default matcher on synthetic pairs with known truth, as a table by level.
//!
//! `cargo run --release -p koel-vision --example quality -- FIRST_SEED PAIRS PHOTOGRAPH...
//! [LEVEL...] [quick] [cpu]`
//!
//! Photographs are files (at least three). Levels are names from the table's first column; default:
//! all. `quick` uses `Options::quick`; `cpu` uses the CPU instead of this machine's best device.
//! `QUALITY_PAIRS=1` also prints every pair.
use koel::Device;
use koel_vision::synthetic::{Level, pair};
use koel_vision::{Grey, Matcher, Options, read};
use std::error::Error;
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

fn run(args: &[String]) -> Result<(), Box<dyn Error>> {
    let [first, pairs, others @ ..] = args else {
        return Err("expected: FIRST_SEED PAIRS PHOTOGRAPH... [LEVEL...]".into());
    };
    let (first, pairs) = (first.parse::<u64>()?, pairs.parse::<u64>()?.max(1));
    let mut levels = Level::ALL.to_vec();
    levels.retain(|level| others.iter().any(|o| o == level.name()));
    let [quick, cpu] = ["quick", "cpu"].map(|word| others.iter().any(|o| o == word));
    let is_level = |o: &str| Level::ALL.iter().any(|level| o == level.name());
    let files = others.iter().filter(|o| *o != "quick" && *o != "cpu" && !is_level(o));
    let photographs = files
        .map(|f| Ok(read(Path::new(f))?.grey))
        .collect::<Result<Vec<Grey>, Box<dyn Error>>>()?;
    if photographs.len() < 3 {
        return Err("expected at least three photographs".into());
    }
    let device = if cpu { Device::cpu()? } else { Device::best()? };
    let matcher = Matcher::new(&device, if quick { Options::quick() } else { Options::default() })?;
    let every_pair = std::env::var_os("QUALITY_PAIRS").is_some();
    println!(
        "Seeds {first} to {}, {} photographs, {}.\n",
        first + pairs - 1,
        photographs.len(),
        device.name()
    );
    println!(
        "| level | within, px | goal | reached | median error, px | evidence, nats \
         | s per pair | of it votes |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for level in if levels.is_empty() { Level::ALL.to_vec() } else { levels } {
        let (within, goal) = level.goal();
        let (mut good, mut seconds, mut voting) = (0, 0.0, 0.0);
        let (mut errors, mut evidence) = (vec![], vec![]);
        for seed in first..first + pairs {
            let pair = pair(level, &photographs, seed);
            let begin = Instant::now();
            let (model, scene) = matcher.model_and_scene(&pair.model, &pair.scene)?;
            let outcome = matcher.find(&model?, &scene)?;
            seconds += begin.elapsed().as_secs_f64();
            voting += outcome.seconds[0];
            let error = match (&outcome.found, &pair.truth) {
                (Some(f), Some(truth)) => {
                    f.map.corner_error(truth, pair.model.width, pair.model.height)
                }
                (None, None) => 0.0,
                _ => f32::INFINITY,
            };
            if every_pair {
                let agreement = outcome.agreement.map_or(String::new(), |a| {
                    format!(
                        ", {:.0} of {:.0} blocks agree, {:.1} nats of the visible part",
                        a.agreeing, a.blocks, a.visible
                    )
                });
                let doubt = outcome.doubt.map_or(String::new(), |d| format!(": {d}"));
                println!(
                    "{} {seed}: error {error:.2} px, evidence {:.0}{agreement}{doubt}",
                    level.name(),
                    outcome.evidence
                );
            }
            good += (error <= within) as u64;
            errors.push(error);
            evidence.push(outcome.evidence);
        }
        errors.sort_by(f32::total_cmp);
        evidence.sort_by(f32::total_cmp);
        println!(
            "| {} | {within} | {:.0} % | {:.1} % | {:.2} | {:.0} to {:.0} | {:.3} | {:.0} % |",
            level.name(),
            100.0 * goal,
            100.0 * good as f32 / pairs as f32,
            errors[errors.len() / 2],
            evidence[0],
            evidence[evidence.len() - 1],
            seconds / pairs as f64,
            100.0 * voting / seconds
        );
    }
    Ok(())
}

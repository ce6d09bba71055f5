//! Pairs of pictures in a folder: writes those of the quality levels, and searches all of them.
//!
//! `cargo run --release -p koel-vision --example pictures -- write FOLDER FIRST_SEED PAIRS
//! PHOTOGRAPH...` writes the pairs of every level as `LEVEL-SEED-m.png` and `-s.png` and prints
//! one JSON object per pair: name, true matrix, or null.
//!
//! `... -- find FOLDER [quick|always|part|short|narrow]...` reads names of pairs from standard
//! input, one a line, and prints one JSON object per pair: name, matrix or null, evidence in nats,
//! agreement, and CPU-seconds from pixels to verdict, on the CPU, and of these (on the clock) those
//! for votes, refinement and verdicts. `quick` uses `Options::quick`; `always` reports the best pose
//! whatever its evidence. `part` also searches the model for the scene, as `koel match` does.
//! `short` omits the last stage, of long and tilted bases, `narrow` reduced images.
use koel::Device;
use koel_vision::synthetic::{Level, pair};
use koel_vision::{Affine, Grey, Matcher, Model, Options, read};
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = std::env::args().skip(1).collect::<Vec<String>>();
    let done = match args.iter().map(String::as_str).collect::<Vec<&str>>().as_slice() {
        ["write", folder, first, pairs, photographs @ ..] => {
            write(Path::new(folder), first, pairs, photographs)
        }
        ["find", folder, how @ ..] => find(Path::new(folder), how),
        _ => Err("expected: write FOLDER FIRST_SEED PAIRS PHOTOGRAPH..., or find FOLDER".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(2)
        }
    }
}

fn matrix(map: Option<&Affine>) -> String {
    map.map_or("null".into(), |m| {
        let ([[a, b], [c, d]], [x, y]) = (m.linear, m.shift);
        format!("[[{a},{b},{x}],[{c},{d},{y}]]")
    })
}

fn write(
    folder: &Path,
    first: &str,
    pairs: &str,
    photographs: &[&str],
) -> Result<(), Box<dyn Error>> {
    let photographs = photographs
        .iter()
        .map(|f| Ok(read(Path::new(f))?.grey))
        .collect::<Result<Vec<Grey>, Box<dyn Error>>>()?;
    if photographs.len() < 3 {
        return Err("expected at least three photographs".into());
    }
    let first = first.parse::<u64>()?;
    for level in Level::ALL {
        for seed in first..first + pairs.parse::<u64>()? {
            let pair = pair(level, &photographs, seed);
            let name = format!("{}-{seed}", level.name().replace([' ', ',', '%'], "_"));
            for (grey, end) in [(&pair.model, "m"), (&pair.scene, "s")] {
                let pixels = grey.pixels.iter().map(|&v| v as u8).collect();
                image::GrayImage::from_raw(grey.width as u32, grey.height as u32, pixels)
                    .ok_or("an image has as many pixels as its size says")?
                    .save(folder.join(format!("{name}-{end}.png")))?;
            }
            println!("{{\"name\":\"{name}\",\"truth\":{}}}", matrix(pair.truth.as_ref()));
        }
    }
    Ok(())
}

/// Returns the CPU-seconds that this process has used.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks = fields.skip(11).take(2).map(str::parse::<f64>).sum::<Result<f64, _>>()?;
    Ok(ticks / 100.0)
}

fn find(folder: &Path, how: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut options = if how.contains(&"quick") { Options::quick() } else { Options::default() };
    if how.contains(&"short") {
        let short = options.passes[..2].to_vec();
        options = options.with_passes(short).with_stages(vec![1, 1]);
    }
    if how.contains(&"narrow") {
        options = options.with_wide(false);
    }
    if how.contains(&"always") {
        options = options.with_evidence(-1e9).with_agreement(false);
    }
    let matcher = Matcher::new(&Device::cpu()?, options)?;
    for name in std::io::stdin().lines() {
        let name = name?;
        let picture = |end: &str| read(&folder.join(format!("{name}-{end}.png")));
        let (model, scene) = (picture("m")?, picture("s")?);
        let begin = cpu_seconds()?;
        let sought = Model::of(&model.grey)?.with_colours(model.colours.as_ref());
        let scene = matcher.scene(&scene.grey)?.with_colours(scene.colours);
        let mut outcome = matcher.find(&sought, &scene)?;
        if outcome.found.is_none() && how.contains(&"part") {
            outcome = matcher
                .find_part(&matcher.scene(&model.grey)?.with_colours(model.colours), &scene)?;
        }
        println!(
            "{{\"name\":\"{name}\",\"matrix\":{},\"homography\":{},\"evidence\":{},\"agreement\":{},\"colour\":{},\"doubt\":{},\"seconds\":{},\"of_these\":{:?}}}",
            matrix(outcome.found.as_ref().map(|f| &f.map)),
            outcome
                .found
                .as_ref()
                .and_then(|f| f.homography)
                .map_or("null".into(), |h| format!("{:?}", h.rows)),
            outcome.evidence,
            outcome.agreement.map_or("null".into(), |a| format!(
                "[{},{},{},{},{},{},{},{},{}]",
                a.blocks,
                a.agreeing,
                a.distinct,
                a.least,
                a.upper,
                a.solid,
                a.enclosed,
                a.entropy,
                a.visible
            )),
            outcome.colour.map_or("null".into(), |c| c.to_string()),
            outcome.doubt.map_or("null".into(), |d| format!("\"{d}\"")),
            cpu_seconds()? - begin,
            outcome.seconds
        );
    }
    Ok(())
}

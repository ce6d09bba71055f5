//! Models seen tilted: the share found, and corner errors of affine maps and homographies.
//!
//! `cargo run --release -p koel-vision --example tilts -- FIRST_SEED PAIRS PHOTOGRAPH...` prints a
//! line per tilt. `... -- graffiti graf1.png graf3.png H1to3p.xml` searches parts of graffiti, and
//! the whole.
use koel::Device;
use koel_vision::synthetic::{TiltedPair, tilted_pair};
use koel_vision::{Found, Grey, Homography, Matcher, Model, Options, read};
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = std::env::args().skip(1).collect::<Vec<String>>();
    let done = match args.iter().map(String::as_str).collect::<Vec<&str>>().as_slice() {
        ["graffiti", model, scene, truth] => graffiti(model, scene, truth),
        [first, pairs, photographs @ ..] if !photographs.is_empty() => {
            tilts(first, pairs, photographs)
        }
        _ => Err("expected: FIRST_SEED PAIRS PHOTOGRAPH..., or graffiti MODEL SCENE TRUTH".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(2)
        }
    }
}

fn search(matcher: &Matcher, model: &Grey, scene: &Grey) -> Result<Option<Found>, Box<dyn Error>> {
    Ok(matcher.find(&Model::of(model)?, &matcher.scene(scene)?)?.found)
}
/// Mean distance of the four corners.
fn error(map: &Homography, truth: &Homography, model: &Grey) -> Option<f32> {
    let [a, b] = [map, truth].map(|h| h.outline(model.width, model.height));
    Some(a?.iter().zip(b?).map(|(a, b)| (a.0 - b.0).hypot(a.1 - b.1)).sum::<f32>() / 4.0)
}

fn tilts(first: &str, pairs: &str, photographs: &[&str]) -> Result<(), Box<dyn Error>> {
    let read = |f: &&str| Ok(read(Path::new(f))?.grey);
    let photographs =
        photographs.iter().map(read).collect::<Result<Vec<Grey>, Box<dyn Error>>>()?;
    let (first, pairs) = (first.parse::<u64>()?, pairs.parse::<u64>()?);
    let matcher = Matcher::new(&Device::cpu()?, Options::default())?;
    for degrees in [0.0, 30.0, 45.0, 60.0] {
        let (mut affine, mut best, mut refined) = (vec![], vec![], 0);
        for seed in first..first + pairs {
            let TiltedPair { model, scene, truth, .. } = tilted_pair(degrees, &photographs, seed);
            let Some(found) = search(&matcher, &model, &scene)? else { continue };
            refined += found.homography.is_some() as u32;
            let map = Homography::from(found.map);
            affine.extend(error(&map, &truth, &model));
            best.extend(error(&found.homography.unwrap_or(map), &truth, &model));
        }
        let found = affine.len();
        let said = [affine, best].map(|mut errors| {
            errors.sort_by(f32::total_cmp);
            let at = |i: usize| errors.get(i).copied().unwrap_or(f32::NAN);
            format!("median {:.2}, most {:.2}", at(errors.len() / 2), at(errors.len().max(1) - 1))
        });
        let found = format!(
            "{found} found, {refined} refined; px of affine maps: {}; refined: {}",
            said[0], said[1]
        );
        println!("{degrees} degrees, {pairs} pairs: {found}");
    }
    Ok(())
}

fn graffiti(model: &str, scene: &str, truth: &str) -> Result<(), Box<dyn Error>> {
    let (whole, scene) = (read(Path::new(model))?.grey, read(Path::new(scene))?.grey);
    let text = std::fs::read_to_string(truth)?;
    let data = text.split("<data>").nth(1).and_then(|t| t.split("</data>").next());
    let numbers = data.unwrap_or("").split_whitespace().map(str::parse::<f64>);
    let numbers = numbers.collect::<Result<Vec<f64>, _>>()?;
    let [a, b, c, d, e, f, g, h, i] = numbers.as_slice() else {
        return Err(format!("{truth}: expected 9 numbers, found {}", numbers.len()).into());
    };
    let rows = [[a, b, c], [d, e, f], [g, h, i]].map(|row| row.map(|v| v / i));
    let matcher = Matcher::new(&Device::cpu()?, Options::default())?;
    let parts = [
        (60, 60, 260, 200),
        (330, 120, 260, 200),
        (120, 330, 260, 200),
        (420, 330, 260, 200),
        (250, 200, 300, 240),
        (0, 0, whole.width, whole.height),
    ];
    for (left, top, width, height) in parts {
        let at = |i: usize| whole.pixels[(top + i / width) * whole.width + left + i % width];
        let model = Grey { width, height, pixels: (0..width * height).map(at).collect() };
        let [x, y] = [left as f64, top as f64];
        let shifted = rows.map(|[a, b, c]| [a, b, a * x + b * y + c]);
        let last = shifted[2][2];
        let truth = Homography { rows: shifted.map(|row| row.map(|v| v / last)) };
        let said = match search(&matcher, &model, &scene)? {
            None => "not found".into(),
            Some(found) => {
                let affine = error(&found.map.into(), &truth, &model);
                let refined = found.homography.and_then(|h| error(&h, &truth, &model));
                format!("px of the affine map {affine:.2?}, of the homography {refined:.2?}")
            }
        };
        println!("{width} x {height} at ({left}, {top}): {said}");
    }
    Ok(())
}

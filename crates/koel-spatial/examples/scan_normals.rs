//! Sides of estimated normals of a scan taken from a known position: `cargo run --release -p
//! koel-spatial --example scan_normals -- SCAN X,Y,Z [--write CLOUD.ply]`
//!
//! Estimates normals three times: outwards, outwards with the direction from the scanner's side for
//! open parts, and towards the scanner at X, Y, Z (coordinates of the file). Prints a line of JSON
//! for each: the share that faces away from the scanner. The printed
//! position of the scanner is relative to the origin of the points. With `--write`, also writes the
//! points with the directions to the scanner as normals (PLY), for other programs to be measured by
//! `tools/truth/scan_normals.py`.

mod measured;

use koel::Device;
use koel_spatial::{NormalOptions, Orientation, estimate_normals, read};
use measured::{cpu_seconds, write_ply};
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

/// Planes within 10 degrees of the line of sight: which side faces the scanner is uncertain.
const STEEP: f64 = 0.173_648;

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: scan_normals SCAN X,Y,Z [--write CLOUD.ply]";
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (path, scanner, out) = match &args[..] {
        [path, scanner] => (path, scanner, None),
        [path, scanner, option, out] if option == "--write" => {
            (path, scanner, Some(PathBuf::from(out)))
        }
        _ => return Err(usage.into()),
    };
    let scanner: Vec<f64> = scanner.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let scanner: [f64; 3] = scanner.try_into().map_err(|_| usage)?;
    let scan = read(path)?;
    let positions = &scan.points.positions;
    // Positions are relative to the origin.
    let scanner: [f32; 3] = std::array::from_fn(|a| (scanner[a] - scan.report.origin[a]) as f32);
    let sights: Vec<[f32; 3]> = positions.iter().map(|&p| direction(p, scanner)).collect();
    if let Some(out) = out {
        write_ply(&out, positions, &sights)?;
    }
    let device = Device::cpu()?;
    let (outwards, bounds) = (NormalOptions::default(), scan.bounds()?);
    let middle = std::array::from_fn(|a| 0.5 * (bounds.min()[a] + bounds.max()[a]));
    for (name, options) in [
        ("outwards", outwards.clone()),
        ("open towards", outwards.clone().with_open_towards(Some(direction(middle, scanner)))),
        ("viewpoint", outwards.clone().with_orientation(Orientation::Towards(scanner))),
    ] {
        let (start, busy) = (Instant::now(), cpu_seconds());
        let estimate = estimate_normals(&device, positions, &options)?;
        let (clock, busy) = (start.elapsed().as_secs_f64(), cpu_seconds() - busy);
        let cosines: Vec<f64> = (estimate.normals.iter().zip(&sights))
            .map(|(n, s)| (0..3).map(|a| f64::from(n[a] * s[a])).sum())
            .collect();
        let (clear, steep): (Vec<f64>, Vec<f64>) = cosines.iter().partition(|c| c.abs() > STEEP);
        let report = &estimate.report;
        println!(
            "{{\"orientation\": \"{name}\", \"scanner\": {scanner:?}, \"points\": {}, \
             \"away_percent\": {:.4}, \"away_clear_percent\": {:.4}, \"steep_percent\": {:.3}, \
             \"seconds\": {clock:.2}, \"cpu_seconds\": {busy:.2}, \"parts\": {}, \
             \"open_points\": {}, \"undecided_points\": {}, \"grazing\": {}, \"undetermined\": {}}}",
            positions.len(),
            percent_away(&cosines),
            percent_away(&clear),
            100.0 * steep.len() as f64 / cosines.len() as f64,
            report.parts,
            report.open_points,
            report.undecided_points,
            report.grazing,
            report.undetermined,
        );
    }
    Ok(())
}

/// Returns the unit vector from a point to the scanner.
fn direction(point: [f32; 3], scanner: [f32; 3]) -> [f32; 3] {
    let to: [f64; 3] = std::array::from_fn(|a| f64::from(scanner[a]) - f64::from(point[a]));
    let length = to.iter().map(|c| c * c).sum::<f64>().sqrt();
    to.map(|c| (c / length) as f32)
}

/// Returns the share of normals that face away from the scanner, in percent.
fn percent_away(cosines: &[f64]) -> f64 {
    100.0 * cosines.iter().filter(|&&c| c < 0.0).count() as f64 / cosines.len() as f64
}

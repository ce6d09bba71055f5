//! The published method on images with a known map, stage by stage, as published and by default.
//!
//! `cargo run --release -p koel-vision-classic --example paper_stages -- BASIS PAIRS`
//!
//! BASIS is rigid, similarity or affine. Each line of the file PAIRS names a model and a scene, in
//! its folder, and the nine numbers of the homography from one to the other, row by row; without
//! them only the outcome is printed.
use koel_vision::{Found, Freedom, Grey, PointSet, Side, read};
use koel_vision_classic::{PaperOptions, Stages, match_images};
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

type Point = (f32, f32);

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<String>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(2)
        }
    }
}

/// Projective map of the plane.
struct Homography([f64; 9]);
impl Homography {
    fn apply(&self, (x, y): Point) -> Point {
        let (x, y) = (x as f64, y as f64);
        let [u, v, w] = [0, 3, 6].map(|i| self.0[i] * x + self.0[i + 1] * y + self.0[i + 2]);
        ((u / w) as f32, (v / w) as f32)
    }
    /// Returns the scale at a point.
    fn scale(&self, (x, y): Point) -> f32 {
        let [o, p, q] = [(x, y), (x + 1.0, y), (x, y + 1.0)].map(|p| self.apply(p));
        ((p.0 - o.0) * (q.1 - o.1) - (p.1 - o.1) * (q.0 - o.0)).abs().sqrt()
    }
    /// Returns the mean distance of a map's corners from the true ones.
    fn error(&self, found: &Found, model: &Grey) -> f32 {
        let corners = found.map.outline(model.width, model.height);
        let (right, bottom) = (model.width as f32 - 1.0, model.height as f32 - 1.0);
        let places = [(0.0, 0.0), (right, 0.0), (right, bottom), (0.0, bottom)];
        let off = |(p, q): (&Point, &Point)| {
            let p = self.apply(*p);
            (p.0 - q.0).hypot(p.1 - q.1)
        };
        places.iter().zip(&corners).map(off).sum::<f32>() / 4.0
    }
}

fn run(args: &[String]) -> Result<(), Box<dyn Error>> {
    let [basis, file] = args else { return Err("expected: BASIS PAIRS".into()) };
    let freedom = basis.parse::<Freedom>()?;
    let stream = koel::Device::cpu()?.stream()?;
    println!(
        "| model, scene | method | points | repeat | bases | scene bases that repeat | true pairs | \
         same cell | near | votes | by chance | ranks: best, median | verified | evidence | off, px \
         | s |"
    );
    println!("|---|{}", "---|".repeat(15));
    for line in std::fs::read_to_string(file)?.lines() {
        let words = line.split_whitespace().collect::<Vec<&str>>();
        let [model_name, scene_name, numbers @ ..] = words.as_slice() else { continue };
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        let [model, scene] = [model_name, scene_name].map(|name| read(&folder.join(name)));
        let (model, scene) = (model?.grey, scene?.grey);
        let numbers = numbers.iter().map(|n| n.parse()).collect::<Result<Vec<f64>, _>>()?;
        let truth = numbers.try_into().ok().map(Homography);
        for (name, options) in
            [("published", PaperOptions::published()), ("default", PaperOptions::default())]
        {
            let options = options.with_freedom(freedom);
            let begin = Instant::now();
            let outcome = match_images(&stream, &model, &scene, &options)?;
            let seconds = begin.elapsed().as_secs_f64();
            let stages = match &truth {
                Some(truth) => stages(&stream, &model, &scene, truth, &options)?,
                None => vec!["-".into(); 11],
            };
            let error = outcome.found.as_ref().map(|found| {
                truth.as_ref().map_or("found".into(), |t| format!("{:.1}", t.error(found, &model)))
            });
            println!(
                "| {model_name}, {scene_name} | {name} | {} | {:.0} | {} | {seconds:.1} |",
                stages.join(" | "),
                outcome.evidence,
                error.unwrap_or("not found".into()),
            );
        }
    }
    Ok(())
}

/// Returns the cells of a row: the stages at the pair of sizes closest to the true scale.
fn stages(
    stream: &koel::Stream,
    model: &Grey,
    scene: &Grey,
    truth: &Homography,
    options: &PaperOptions,
) -> koel::Result<Vec<String>> {
    let scale = truth.scale((0.5 * model.width as f32, 0.5 * model.height as f32));
    let off = |&(m, s): &(f32, f32)| (m / s * scale).ln().abs();
    let sizes = options.sizes.iter().min_by(|a, b| off(a).total_cmp(&off(b)));
    let &(of_model, of_scene) = sizes.unwrap_or(&(1.0, 1.0));
    let rules = options.point_rules();
    let model = PointSet::of_image(stream, model, of_model, Side::Model, &rules)?;
    let scene = PointSet::of_image(stream, scene, of_scene, Side::Scene, &rules)?;
    let back = scene.to_image.inverse().unwrap_or(koel_vision::Affine::IDENTITY);
    let place = |p| back.apply(truth.apply(model.to_image.apply(p)));
    let s = Stages::measure(stream, &model, &scene, place, options)?;
    let rank = |at: usize| s.ranks.get(at).map_or("-".into(), |rank| format!("{}", rank + 1));
    Ok(vec![
        format!("{}, {}", s.points.0, s.points.1),
        format!("{}", s.repeating),
        format!("{}, {}", s.bases.0, s.bases.1),
        format!("{}", s.repeating_bases),
        format!("{}", s.true_pairs),
        format!("{:.0} %", 100.0 * s.same_cell),
        format!("{:.0} %", 100.0 * s.near_cell),
        format!("{:.0}", s.votes.0),
        format!("{:.0}", s.votes.1),
        format!("{}, {}", rank(0), rank(s.ranks.len() / 2)),
        format!("{}", s.verified),
    ])
}

//! The published method on pairs of images with a known map, stage by stage.
//!
//! `cargo run --release -p koel-vision --example paper_stages -- PAIRS BASIS [OPTION=VALUE...]`
use koel_vision::paper::*;
use koel_vision::*;
use std::path::Path;

fn apply(h: &[f64], p: (f32, f32)) -> (f32, f32) {
    let (x, y) = (p.0 as f64, p.1 as f64);
    let w = h[6] * x + h[7] * y + h[8];
    (((h[0] * x + h[1] * y + h[2]) / w) as f32, ((h[3] * x + h[4] * y + h[5]) / w) as f32)
}
fn main() {
    let args = std::env::args().skip(1).collect::<Vec<String>>();
    let stream = koel::Device::cpu().unwrap().stream().unwrap();
    let mut o = PaperOptions::default().with_freedom(args[1].parse().unwrap());
    let mut stages = false;
    let mut filter = String::new();
    for a in &args[2..] {
        let (k, v) = a.split_once('=').unwrap();
        let f = || v.parse::<f32>().unwrap();
        let n = || v.parse::<usize>().unwrap();
        match k {
            "published" => o = PaperOptions::published().with_freedom(o.freedom),
            "features" => o.features = v.parse().unwrap(),
            "pm" => o.points.0 = n(),
            "ps" => o.points.1 = n(),
            "bm" => o.bases.0 = n(),
            "bs" => o.bases.1 = n(),
            "lmin" => o.rules.lengths.0 = f(),
            "lmax" => o.rules.lengths.1 = f(),
            "thin" => o.rules.thinnest = f(),
            "reach" => o.reach = f(),
            "cell" => o.cell = f(),
            "cand" => o.candidates = n(),
            "inlier" => o.inlier = f(),
            "nv" => o.neighbour_votes = n() == 1,
            "wd" => o.weights.by_distance = n() == 1,
            "wy" => o.weights.by_density = n() == 1,
            "fa" => o.false_alarm = f() as f64,
            "stages" => stages = n() == 1,
            "only" => filter = v.into(),
            "size" => {
                let s = f();
                o.sizes = vec![(s.max(1.0), (1.0 / s).max(1.0))]
            }
            _ => panic!("{k}"),
        }
    }
    let folder = Path::new(&args[0]).parent().unwrap();
    for line in std::fs::read_to_string(&args[0]).unwrap().lines() {
        let t = line.split_whitespace().collect::<Vec<_>>();
        if !line.contains(&filter) {
            continue;
        }
        let h = t[2..].iter().map(|v| v.parse::<f64>().unwrap()).collect::<Vec<f64>>();
        let [m, s] = [t[0], t[1]].map(|f| read(&folder.join(f)).unwrap().grey);
        let corners = [
            (0.0, 0.0),
            (m.width as f32 - 1.0, 0.0),
            (m.width as f32 - 1.0, m.height as f32 - 1.0),
            (0.0, m.height as f32 - 1.0),
        ];
        if stages && h.len() == 9 {
            // The size closest to the true one.
            let mid = (m.width as f32 / 2.0, m.height as f32 / 2.0);
            let (a, b, c) =
                (apply(&h, mid), apply(&h, (mid.0 + 1.0, mid.1)), apply(&h, (mid.0, mid.1 + 1.0)));
            let scale = ((b.0 - a.0) * (c.1 - a.1) - (b.1 - a.1) * (c.0 - a.0)).abs().sqrt();
            let best = *o
                .sizes
                .iter()
                .min_by(|x, y| {
                    let d = |z: &(f32, f32)| (z.0 / z.1 * scale).ln().abs();
                    d(x).total_cmp(&d(y))
                })
                .unwrap();
            let model = PointSet::of_image(&stream, &m, best.0, Side::Model, &o).unwrap();
            let scene = PointSet::of_image(&stream, &s, best.1, Side::Scene, &o).unwrap();
            let back = scene.to_image.inverse().unwrap();
            let truth = |p| back.apply(apply(&h, model.to_image.apply(p)));
            let st = Stages::measure(&stream, &model, &scene, truth, &o).unwrap();
            let r = &st.ranks;
            println!(
                "   size {best:?} points {:?} repeat {} | bases {:?} repeating scene bases {} true pairs {} | same cell {:.2} near {:.2} | votes {:.1} chance {:.1} | ranks best {:?} median {:?} verified {}",
                st.points,
                st.repeating,
                st.bases,
                st.repeating_bases,
                st.true_pairs,
                st.same_cell,
                st.near_cell,
                st.votes.0,
                st.votes.1,
                r.first(),
                r.get(r.len() / 2),
                st.verified
            );
        }
        let t0 = std::time::Instant::now();
        let out = match_images(&stream, &m, &s, &o).unwrap();
        let dt = t0.elapsed().as_secs_f32();
        let error = out.found.as_ref().filter(|_| h.len() == 9).map(|f| {
            corners
                .iter()
                .map(|&p| {
                    let (a, b) = (f.map.apply(p), apply(&h, p));
                    (a.0 - b.0).hypot(a.1 - b.1)
                })
                .sum::<f32>()
                / 4.0
        });
        println!(
            "{} {} found {} error {:?} evidence {:.1} inliers {:?} {:.1} s {:?}",
            t[0],
            t[1],
            out.found.is_some(),
            error,
            out.evidence,
            out.found.as_ref().map(|f| f.inliers),
            dt,
            out.seconds.map(|s| (s * 100.0).round() / 100.0)
        );
    }
}

//! Refinement: the definition of a score, the convergence of steps, and the independence of
//! candidates in a batch.
use crate::maps::Likelihood;
use crate::random::Random;
use crate::refine::{Frame, PointLists, Points, Round, Schedule, Scored, Strips, refined};
use crate::synthetic::texture;
use crate::{Affine, Grey, Model, Scene};
use koel::{Device, Stream};
use koel_vision_kernels::direction::direction;
use koel_vision_kernels::{class, refine};

const STEPS: Schedule = Schedule { steps: 10, radii: (7.0, 2.0), along: 0.2, damping: 0.001 };

/// Returns a scene, models that are parts of it (at (20 + 9 k, 10 + 5 k)), and their points.
fn staged(stream: &Stream, strips: Strips) -> (Scene, Vec<Model>, Points) {
    let image = texture(170, 120, 4);
    let part = |k: usize| {
        let at = |i: usize| image.pixels[(10 + 5 * k + i / 100) * 170 + 20 + 9 * k + i % 100];
        Grey { width: 100, height: 80, pixels: (0..100 * 80).map(at).collect() }
    };
    let models = (0..3).map(|k| Model::of(&part(k)).unwrap()).collect::<Vec<Model>>();
    let mut lists = PointLists::default();
    for (k, model) in models.iter().enumerate() {
        let weights = (k > 0).then_some(&model.weights[..]);
        lists.push(Frame::of(model), model.points.iter(), weights);
    }
    (Scene::of(stream, &image).unwrap(), models, lists.upload(stream.device(), strips).unwrap())
}
fn steps(points: &Points, likelihood: Likelihood) -> Round<'_> {
    Round { points, likelihood, schedule: STEPS }
}
/// Returns the pose of each model, perturbed by a few pixels and degrees.
fn around(random: &mut Random, n: usize) -> Vec<Scored> {
    let near = |i: usize| {
        let model = i % 3;
        let (x, y) = (20.0 + 9.0 * model as f32, 10.0 + 5.0 * model as f32);
        let to = (x + 50.0 + random.between(-3.0, 3.0), y + 40.0 + random.between(-3.0, 3.0));
        let map = Affine::similarity(
            random.between(-0.04, 0.04),
            random.between(0.97, 1.03),
            (50.0, 40.0),
            to,
        );
        Scored { model, map, score: 0.0 }
    };
    (0..n).map(near).collect()
}

#[test]
fn the_score_is_the_sum_of_what_is_said_of_the_points() {
    // The kernels of the refinement run on the executor only.
    for (device, n) in [(Device::cpu().unwrap(), 40), (Device::executor(4), 6)] {
        let stream = device.stream().unwrap();
        for strips in [Strips::FEW, Strips::SOME] {
            let (scene, models, points) = staged(&stream, strips);
            for likelihood in [Likelihood::Loose, Likelihood::Fine] {
                scores_are_sums(&stream, (&scene, &models, &points), likelihood, n);
            }
        }
    }
}
fn scores_are_sums(
    stream: &Stream,
    (scene, models, points): (&Scene, &[Model], &Points),
    likelihood: Likelihood,
    n: usize,
) {
    let (width, height) = (scene.maps.width, scene.maps.height);
    let map = if likelihood == Likelihood::Loose { &scene.maps.loose } else { &scene.maps.fine };
    let said = map.download().unwrap();
    let mut candidates = around(&mut Random::new(7), n);
    // Some lie half outside.
    candidates.iter_mut().step_by(4).for_each(|c| c.map.shift[0] -= 60.0);
    let scores = Round { likelihood, ..Round::scores(points) };
    let scored = refined(stream, scene, &[scores], &candidates).unwrap();
    for (c, scored) in candidates.iter().zip(&scored) {
        let model = &models[c.model];
        let of_point = |(i, p): (usize, &crate::edges::Edge)| {
            let (x, y) = c.map.apply((p.x, p.y));
            let (nx, ny) = c.map.apply_normal(p.normal);
            let (x, y) = ((x + 0.5).floor(), (y + 0.5).floor());
            let inside = x >= 0.0 && y >= 0.0 && x < width as f32 && y < height as f32;
            let place =
                || (class(direction(nx, ny)) as usize * height + y as usize) * width + x as usize;
            let said = if inside { said[place()] as i8 as f32 } else { refine::OUTSIDE as f32 };
            said / 16.0 * if c.model > 0 { model.weights[i] } else { 1.0 }
        };
        let expected = model.points.iter().enumerate().map(of_point).sum::<f32>();
        // A point on the border of two pixels may fall on either side.
        assert!((scored.score - expected).abs() < 3.0, "{} {expected}", scored.score);
        assert!(scored.map.corner_error(&c.map, 100, 80) < 1e-3);
    }
}

#[test]
fn steps_lead_onto_the_edges() {
    let stream = Device::cpu().unwrap().stream().unwrap();
    let (scene, _, points) = staged(&stream, Strips::SOME);
    for seed in 0..5 {
        let candidates = around(&mut Random::new(seed), 30);
        let scored =
            refined(&stream, &scene, &[steps(&points, Likelihood::Fine)], &candidates).unwrap();
        for c in &scored {
            let (x, y) = (20.0 + 9.0 * c.model as f32, 10.0 + 5.0 * c.model as f32);
            let truth = Affine { shift: [x, y], ..Affine::IDENTITY };
            let off = c.map.corner_error(&truth, 100, 80);
            assert!(off < 0.5, "seed {seed}, model {}: {off} px", c.model);
        }
    }
}

#[test]
fn each_candidate_is_refined_as_if_it_were_alone_on_every_device() {
    let candidates = around(&mut Random::new(3), 7);
    for strips in [Strips::FEW, Strips::SOME, Strips::MANY] {
        are_refined_as_if_alone(&candidates, strips);
    }
}
fn are_refined_as_if_alone(candidates: &[Scored], strips: Strips) {
    let gpu = Device::cuda(0).ok();
    let devices = [Device::cpu().unwrap(), Device::executor(2)].into_iter().chain(gpu);
    let mut all = devices.map(|device| {
        let stream = device.stream().unwrap();
        let (scene, _, points) = staged(&stream, strips);
        let run = |some: &[Scored]| {
            // The last scores are lower: those of the round before do not count.
            let loose = Round { likelihood: Likelihood::Loose, ..Round::scores(&points) };
            let rounds = [steps(&points, Likelihood::Fine), loose];
            refined(&stream, &scene, &rounds, some).unwrap()
        };
        let together = run(candidates);
        for (i, one) in together.iter().enumerate() {
            assert_eq!(run(&candidates[i..=i]), [*one], "candidate {i}");
        }
        assert_eq!(run(&[]), []);
        together
    });
    let cpu = all.next();
    assert!(all.all(|other| Some(other) == cpu));
}

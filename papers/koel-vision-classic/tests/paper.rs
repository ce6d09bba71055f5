//! The published method on images: the real box, and textures under known maps.
use koel::{Device, Stream};
use koel_vision::synthetic::texture;
use koel_vision::{Affine, Features, Freedom, Grey, PointSet, Side, read};
use koel_vision_classic::{PaperOptions, Stages, match_images, match_points};
use std::path::Path;

fn stream() -> Stream {
    Device::cpu().unwrap().stream().unwrap()
}
fn asset(name: &str) -> Grey {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets");
    read(&folder.join(name)).unwrap().grey
}
/// Affine map closest to the box's homography, which SIFT and MAGSAC++ found.
const BOX: Affine =
    Affine { linear: [[0.52998, -0.10474], [0.06119, 0.52576]], shift: [114.04, 156.43] };
/// The image under a map, on a texture.
fn placed(image: &Grey, map: &Affine, width: usize, height: usize) -> Grey {
    let back = map.inverse().unwrap();
    let mut scene = texture(width, height, 77);
    for (i, pixel) in scene.pixels.iter_mut().enumerate() {
        let (x, y) = back.apply(((i % width) as f32, (i / width) as f32));
        *pixel = image.at(x, y).unwrap_or(*pixel);
    }
    scene
}

#[test]
fn the_box_is_found_in_its_scene() {
    let (model, scene) = (asset("box.jpg"), asset("box_in_scene.jpg"));
    for freedom in [Freedom::Similarity, Freedom::Affine] {
        let options = PaperOptions::default().with_freedom(freedom);
        let outcome = match_images(&stream(), &model, &scene, &options).unwrap();
        let found = outcome.found.unwrap_or_else(|| panic!("{freedom:?}: {}", outcome.evidence));
        let error = found.map.corner_error(&BOX, model.width, model.height);
        assert!(error <= 10.0, "{freedom:?}: {error} px");
    }
}

/// Of the box's points a third repeat, and true pairs of bases win the vote of their scene basis.
#[test]
fn true_bases_rank_first() {
    let options = PaperOptions::default();
    let stream = stream();
    let set = |name, factor, side| {
        PointSet::of_image(&stream, &asset(name), factor, side, &options.point_rules()).unwrap()
    };
    let model = set("box.jpg", 2.0, Side::Model);
    let scene = set("box_in_scene.jpg", 1.0, Side::Scene);
    let truth = |p| BOX.apply(model.to_image.apply(p));
    let stages = Stages::measure(&stream, &model, &scene, truth, &options).unwrap();
    assert!(3 * stages.repeating > stages.points.0, "{stages:?}");
    assert!(stages.true_pairs >= 10, "{stages:?}");
    assert!(2 * stages.verified > stages.true_pairs, "{stages:?}");
    assert!(stages.votes.0 > 2.0 * stages.votes.1, "{stages:?}");
    // As published, few points repeat.
    let published = PaperOptions::published();
    let set = |name, side| {
        PointSet::of_image(&stream, &asset(name), 1.0, side, &published.point_rules()).unwrap()
    };
    let (model, scene) = (set("box.jpg", Side::Model), set("box_in_scene.jpg", Side::Scene));
    let stages = Stages::measure(&stream, &model, &scene, |p| BOX.apply(p), &published).unwrap();
    assert!(5 * stages.repeating < stages.points.0, "{stages:?}");
}

#[test]
fn every_freedom_finds_a_texture_by_corners_and_by_edges() {
    let model = texture(200, 160, 5);
    let (from, to) = ((100.0, 80.0), (180.0, 150.0));
    let sheared = Affine { linear: [[0.9, -0.45], [0.25, 0.8]], shift: [0.0; 2] };
    for (freedom, map) in [
        (Freedom::Rigid, Affine::similarity(0.4, 1.0, from, to)),
        (Freedom::Similarity, Affine::similarity(-2.0, 0.72, from, to)),
        (Freedom::Affine, sheared.moving(from, to)),
    ] {
        let scene = placed(&model, &map, 360, 300);
        for features in [Features::Corners, Features::Edges] {
            let options = PaperOptions::default()
                .with_freedom(freedom)
                .with_features(features)
                .with_sizes(vec![(1.0, 1.0), (1.4, 1.0)]);
            let outcome = match_images(&stream(), &model, &scene, &options).unwrap();
            let found = outcome
                .found
                .unwrap_or_else(|| panic!("{freedom:?}, {features:?}: {}", outcome.evidence));
            let error = found.map.corner_error(&map, model.width, model.height);
            assert!(error < 3.0, "{freedom:?}, {features:?}: {error} px");
        }
    }
}

#[test]
fn what_is_not_there_is_not_found() {
    let (model, scene) = (asset("box.jpg"), asset("box_in_scene.jpg"));
    for (model, scene) in [(&model, &texture(360, 300, 8)), (&texture(200, 160, 9), &scene)] {
        for freedom in [Freedom::Rigid, Freedom::Similarity, Freedom::Affine] {
            let options = PaperOptions::default()
                .with_freedom(freedom)
                .with_bases((10_000, 1024))
                .with_sizes(vec![(1.0, 1.0), (2.0, 1.0)]);
            let outcome = match_images(&stream(), model, scene, &options).unwrap();
            assert_eq!(outcome.found, None, "{freedom:?}");
            assert!(outcome.evidence < 0.0, "{freedom:?}: {}", outcome.evidence);
        }
    }
}

/// Lines of dark words with the line spacing of a page, no two of them alike.
fn page(width: usize, height: usize, seed: u64) -> Grey {
    let noise = texture(width, height, seed);
    let mut page = Grey { width, height, pixels: vec![230.0; width * height] };
    for line in 0..height / 14 {
        let mut x = 6;
        while x + 40 < width {
            // The texture decides on the lengths of words and gaps.
            let length = 6 + noise.pixels[14 * line * width + x] as usize % 30;
            for (dx, dy) in (0..length).flat_map(|dx| (3..10).map(move |dy| (dx, dy))) {
                let is_ink = (dx * 7 + dy * 3 + length) % 5 < 3;
                page.pixels[(14 * line + dy) * width + x + dx] = if is_ink { 40.0 } else { 230.0 };
            }
            x += length + 5;
        }
    }
    page
}

/// Other pages with the same spacing of lines are not the one that is sought, by neither kind of
/// points.
#[test]
fn another_page_is_not_found() {
    for features in [Features::Edges, Features::Corners] {
        let options = PaperOptions::default()
            .with_features(features)
            .with_bases((2000, 512))
            .with_sizes(vec![(1.0, 1.0)]);
        for seed in 0..4 {
            let (model, scene) = (page(160, 112, 2 * seed + 1), page(320, 240, 2 * seed + 2));
            let outcome = match_images(&stream(), &model, &scene, &options).unwrap();
            assert_eq!(outcome.found, None, "{features:?}, seed {seed}: {}", outcome.evidence);
        }
    }
}

#[test]
fn every_device_finds_the_same() {
    let model = texture(200, 160, 5);
    let map = Affine::similarity(0.4, 1.0, (100.0, 80.0), (130.0, 110.0));
    let scene = placed(&model, &map, 260, 220);
    let options = PaperOptions::default()
        .with_points((200, 400))
        .with_bases((1000, 300))
        .with_sizes(vec![(1.0, 1.0)]);
    let outcomes = [Device::cpu_with_threads(1).unwrap(), Device::executor(1)].map(|device| {
        let stream = device.stream().unwrap();
        let set = |image, side| {
            PointSet::of_image(&stream, image, 1.0, side, &options.point_rules()).unwrap()
        };
        let (model, scene) = (set(&model, Side::Model), set(&scene, Side::Scene));
        let mut outcome = match_points(&stream, &model, &scene, &options).unwrap();
        outcome.seconds = [0.0; 3];
        outcome
    });
    assert!(!outcomes[0].hypotheses.is_empty());
    assert_eq!(outcomes[0], outcomes[1]);
}

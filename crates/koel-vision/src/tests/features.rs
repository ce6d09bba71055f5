//! Edges, their even selection and their maps: the kernels (here on the test executor) produce the
//! same bytes as the CPU.
use crate::corners::{Corner, corners, evenly};
use crate::edges::{DeviceEdges, Edge, edges, spread, strongest_first};
use crate::maps::Maps;
use crate::random::Random;
use crate::synthetic::texture;
use crate::{Grey, Scene};
use koel::{Device, DeviceKind, Stream};
use std::collections::HashMap;

fn cpu() -> Stream {
    Device::cpu().unwrap().stream().unwrap()
}
/// Returns streams that run kernels: the executor, and a GPU if available.
fn kernels(seed: u64) -> impl Iterator<Item = Stream> {
    [Some(Device::executor(seed)), Device::cuda(0).ok()]
        .into_iter()
        .flatten()
        .map(|d| d.stream().unwrap())
}
fn image(width: usize, height: usize, at: impl Fn(usize, usize) -> f32) -> Grey {
    Grey { width, height, pixels: (0..width * height).map(|i| at(i % width, i / width)).collect() }
}
/// Sizes around tiles, warps and words; structure, noise, regular patterns with identical edges,
/// and uniform images.
fn images() -> Vec<(&'static str, Grey)> {
    let noise = |x: usize, y: usize| Random::new((y * 1000 + x) as u64).between(0.0, 255.0);
    let bars = |x: usize, _: usize| if (x / 6).is_multiple_of(2) { 40.0 } else { 200.0 };
    let checks = |x: usize, y: usize| if (x / 9 + y / 9).is_multiple_of(2) { 90.0 } else { 120.0 };
    let step = |x: usize, y: usize| if x + y > 40 { 255.0 } else { 0.0 };
    vec![
        ("texture", texture(96, 70, 1)),
        ("odd texture", texture(97, 33, 2)),
        ("a tile", texture(32, 16, 3)),
        ("wide", texture(131, 9, 4)),
        ("tall", texture(8, 75, 5)),
        ("least", image(8, 8, |x, _| 30.0 * x as f32)),
        ("noise", image(60, 50, noise)),
        ("bars", image(65, 40, bars)),
        ("checks", image(64, 48, checks)),
        ("step", image(50, 50, step)),
        (
            "not numbers",
            image(40, 30, |x, y| if (x, y) == (20, 15) { f32::NAN } else { step(x, y) }),
        ),
        ("flat", Grey::filled(40, 40, 128.0)),
        ("narrow", texture(7, 100, 6)),
        ("a pixel", Grey::filled(1, 1, 9.0)),
    ]
}
fn bits(edges: &[Edge]) -> Vec<[u32; 7]> {
    let floats =
        |e: &Edge| [e.x, e.y, e.normal.0, e.normal.1, e.strength, e.contrast].map(f32::to_bits);
    let all = |e: &Edge| {
        let [x, y, nx, ny, strength, contrast] = floats(e);
        [x, y, nx, ny, strength, contrast, e.direction]
    };
    edges.iter().map(all).collect()
}

#[test]
fn kernels_find_the_edges_of_the_cpu() {
    let mut found = 0;
    for (seed, (name, image)) in (1..).zip(images()) {
        let expected = edges(&image);
        assert!(
            expected.iter().all(|e| e.strength > 0.0 && e.x + e.y >= 0.0),
            "{name}: what is no number is no edge"
        );
        for stream in kernels(seed) {
            let found = DeviceEdges::find(&stream, &image).unwrap();
            assert_eq!(bits(&found.download().unwrap()), bits(&expected), "{name}, {stream:?}");
        }
        let rows = DeviceEdges::find(&cpu(), &image).unwrap();
        assert_eq!(bits(&rows.download().unwrap()), bits(&expected), "{name}");
        found += expected.len();
    }
    assert!(found > 2000, "{found}");
}

#[test]
fn kernels_choose_the_edges_of_the_cpu() {
    for (seed, (name, image)) in (1..).zip(images()) {
        for (apart, most) in [(5.0, 8192), (2.0, 60), (9.5, 3), (1.0, 8192)] {
            let all = edges(&image);
            let expected =
                spread(&all, strongest_first(&all, |e| e.contrast).into_iter(), apart, most);
            let place =
                |&i: &usize| [all[i].x.to_bits(), all[i].y.to_bits(), all[i].direction, i as u32];
            let expected = expected.iter().flat_map(place).collect::<Vec<u32>>();
            for stream in kernels(seed).chain([cpu()]) {
                let found = DeviceEdges::find(&stream, &image).unwrap();
                let words = found.spread(&stream, apart, most).unwrap();
                assert_eq!(words, expected, "{name}, {apart} px, {stream:?}");
            }
        }
    }
}

/// The selection, checked against its definition.
#[test]
fn chosen_edges_are_apart_and_no_other_fits() {
    for seed in 0..5 {
        let all = edges(&texture(120, 90, seed));
        let order = strongest_first(&all, |e| e.strength);
        assert!(order.windows(2).all(|w| all[w[0]].strength >= all[w[1]].strength));
        let kept = spread(&all, order.iter().copied(), 5.0, usize::MAX);
        let crowd = |&i: &usize, &j: &usize| {
            let (a, b) = (&all[i], &all[j]);
            let alike = a.normal.0 * b.normal.0 + a.normal.1 * b.normal.1 > 0.5;
            alike && (a.x - b.x).powi(2) + (a.y - b.y).powi(2) < 25.0
        };
        let rank = |i: &usize| order.iter().position(|o| o == i);
        for i in &order {
            let before = kept.iter().filter(|j| rank(j) < rank(i));
            assert_eq!(
                kept.contains(i),
                !before.into_iter().any(|j| crowd(i, j)),
                "seed {seed}, edge {i}"
            );
        }
        assert_eq!(spread(&all, order.iter().copied(), 5.0, 7), kept[..7]);
    }
}

/// Asserts that two scenes' maps are equal; reports the first difference.
fn same_maps(expected: &Maps, found: &Maps, what: &str) {
    let differ = |of: fn(&Maps) -> &koel::Buffer<u8>| {
        let (expected, found) = (of(expected).download().unwrap(), of(found).download().unwrap());
        assert_eq!(expected.len(), found.len());
        expected
            .iter()
            .zip(&found)
            .position(|(a, b)| a != b)
            .map(|at| (at, expected[at], found[at]))
    };
    assert_eq!(differ(|m| &m.nearest), None, "{what}: nearest");
    assert_eq!(differ(|m| &m.loose), None, "{what}: loose");
    assert_eq!(differ(|m| &m.fine), None, "{what}: fine");
    assert_eq!(expected.index.download().unwrap(), found.index.download().unwrap(), "{what}");
    assert_eq!(expected.offsets.download().unwrap(), found.offsets.download().unwrap());
}

#[test]
fn kernels_make_the_maps_of_the_cpu() {
    for (seed, (name, image)) in (1..).zip(images()) {
        let maps = |stream: &Stream| {
            Maps::of(stream, &DeviceEdges::find(stream, &image).unwrap()).unwrap()
        };
        let expected = maps(&cpu());
        for stream in kernels(seed) {
            same_maps(&expected, &maps(&stream), &format!("{name}, {stream:?}"));
        }
    }
}

/// More rows than a strip and more columns than a window, so that data leave the window. On a GPU a
/// whole frame.
#[test]
fn maps_of_larger_scenes_are_the_same_too() {
    for stream in kernels(3) {
        let on_gpu = stream.device().kind() == DeviceKind::Cuda;
        let image = if on_gpu { texture(1111, 777, 8) } else { texture(90, 150, 8) };
        let [expected, found] = [&cpu(), &stream].map(|stream| Scene::of(stream, &image).unwrap());
        same_maps(&expected.maps, &found.maps, &format!("{stream:?}"));
        assert_eq!(expected.point_words, found.point_words);
        assert!(expected.points() > 50);
    }
}

#[test]
fn kernels_find_the_corners_of_the_cpu() {
    let mut found = 0;
    for (seed, (name, image)) in (1..).zip(images()) {
        let expected = corners(&cpu(), &image).unwrap();
        for stream in kernels(seed) {
            assert_eq!(corners(&stream, &image).unwrap(), expected, "{name}, {stream:?}");
        }
        found += expected.len();
    }
    assert!(found > 50, "{found}");
}

/// Corners checked against their definition: nine consecutive pixels on the circle, all brighter or
/// all darker by more than a threshold.
#[test]
fn corners_are_what_they_are_said_to_be() {
    let mut all = 0;
    for seed in 0..4 {
        // Patches of whole grey levels, so that scores are whole numbers.
        let side = 4 + seed as usize;
        let patch = |x: usize, y: usize| {
            Random::new(seed << 32 | (x / side * 100 + y / side) as u64).below(256) as f32
        };
        let image = image(70, 60, patch);
        let circle = [(0, -3), (1, -3), (2, -2), (3, -1), (3, 0), (3, 1), (2, 2), (1, 3)];
        let circle =
            circle.into_iter().chain(circle.map(|(x, y)| (-x, -y))).collect::<Vec<(i32, i32)>>();
        let at = |x: i32, y: i32| image.pixels[y as usize * image.width + x as usize];
        let is_corner = |x: i32, y: i32, t: f32| {
            let nine = |of: &dyn Fn(f32) -> bool| {
                let ring = circle
                    .iter()
                    .map(|(dx, dy)| of(at(x + dx, y + dy) - at(x, y)))
                    .collect::<Vec<bool>>();
                (0..16).any(|from| (0..9).all(|k| ring[(from + k) % 16]))
            };
            nine(&|d| d > t) || nine(&|d| d < -t)
        };
        // The greatest threshold at which it is a corner, searched from above.
        let score = |x: i32, y: i32| {
            (10..256).rev().map(|t| t as f32).find(|&t| is_corner(x, y, t)).map(|t| t + 1.0)
        };
        let found = corners(&cpu(), &image).unwrap();
        let corner_at =
            found.iter().map(|c| ((c.x as i32, c.y as i32), c.score)).collect::<HashMap<_, _>>();
        all += found.len();
        for (x, y) in (4..56).flat_map(|y| (4..66).map(move |x| (x, y))) {
            let own = score(x, y);
            let around = (-1..=1).flat_map(|dy| (-1..=1).map(move |dx| (dx, dy)));
            let others = around
                .filter(|&d| d != (0, 0))
                .map(|(dx, dy)| ((dy, dx) < (0, 0), score(x + dx, y + dy)));
            let peak = others
                .into_iter()
                .all(|(before, other)| if before { other < own } else { other <= own });
            let expected = own.filter(|_| peak);
            assert_eq!(corner_at.get(&(x, y)).copied(), expected, "seed {seed}, ({x}, {y})");
        }
    }
    assert!(all > 50, "{all}");
}

#[test]
fn corners_are_chosen_evenly() {
    let mut random = Random::new(2);
    let corner =
        |_| Corner { x: random.below(100), y: random.below(70), score: random.below(40) as f32 };
    let mut all = (0..300).map(corner).collect::<Vec<Corner>>();
    // Far more corners, and stronger ones, in one cell.
    all.extend((0..200).map(|i| Corner { x: i % 32, y: 5, score: 100.0 + i as f32 }));
    let cell = |c: &Corner| (c.x / 32, c.y / 32);
    for most in [0, 1, 12, 13, 40, 499, 9999] {
        let chosen = evenly(&all, most);
        assert_eq!(chosen.len(), most.min(all.len()));
        let count = |of: &[Corner], c: &Corner| of.iter().filter(|o| cell(o) == cell(c)).count();
        for c in &chosen {
            // No corner is omitted in a cell that has two fewer.
            for other in all.iter().filter(|o| count(&chosen, o) + 2 <= count(&chosen, c)) {
                assert_eq!(count(&chosen, other), count(&all, other), "{most}: {c:?} {other:?}");
            }
            let weaker = chosen
                .iter()
                .filter(|o| cell(o) == cell(c))
                .map(|o| o.score)
                .fold(f32::MAX, f32::min);
            let better = all.iter().filter(|o| cell(o) == cell(c) && o.score > weaker).count();
            assert!(better < count(&chosen, c).max(1), "{most}: {c:?}");
        }
    }
}

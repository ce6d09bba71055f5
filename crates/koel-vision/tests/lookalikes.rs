//! Things of one kind have the same edges in part: only the model itself is found. Scales and sizes
//! far from the model's own.
use koel::Device;
use koel_vision::synthetic::texture;
use koel_vision::{Affine, Grey, MatchOutcome, Matcher, Model, Options};

fn find(options: Options, model: &Grey, scene: &Grey) -> MatchOutcome {
    let matcher = Matcher::new(&Device::cpu().unwrap(), options).unwrap();
    matcher.find(&Model::of(model).unwrap(), &matcher.scene(scene).unwrap()).unwrap()
}
fn bits(seed: u64) -> u64 {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}
/// Averages 3 x 3 pixels of a drawing, as a scanner would.
fn drawn(width: usize, height: usize, dark: impl Fn(f32, f32) -> bool) -> Grey {
    let at = |i: usize| {
        let (x, y) = ((i % width) as f32, (i / width) as f32);
        let inked = (0..9).filter(|k| dark(x + (k % 3) as f32 / 3.0, y + (k / 3) as f32 / 3.0));
        240.0 - 220.0 * inked.count() as f32 / 9.0
    };
    Grey { width, height, pixels: (0..width * height).map(at).collect() }
}
/// Lines of letters, each of 3 x 5 cells, from an alphabet of ten.
fn text(seed: u64) -> Grey {
    drawn(220, 160, |x, y| {
        let (column, row) = ((x / 16.0) as u64, (y / 26.0) as u64);
        let (cx, cy) = ((x % 16.0 / 4.0) as u64, (y % 26.0 / 4.0) as u64);
        let letter = bits(seed * 1000 + row * 40 + column) % 10;
        cx < 3 && cy < 5 && bits(77 + letter) >> (3 * cy + cx) & 1 == 1
    })
}
/// A round sign with a digit of seven segments.
fn sign(segments: u8) -> Grey {
    drawn(140, 140, move |x, y| {
        let r = (x - 70.0).hypot(y - 70.0);
        let bars = [(50, 35, 40, 10), (80, 35, 10, 35), (80, 70, 10, 35), (50, 95, 40, 10)];
        let more = [(50, 70, 10, 35), (50, 35, 10, 35), (50, 65, 40, 10)];
        let inside = |&(left, top, w, h): &(i32, i32, i32, i32)| {
            (left as f32..(left + w) as f32).contains(&x)
                && (top as f32..(top + h) as f32).contains(&y)
        };
        let bars = bars.iter().chain(&more).enumerate();
        (56.0..66.0).contains(&r)
            || bars.into_iter().any(|(k, bar)| segments >> k & 1 == 1 && inside(bar))
    })
}
fn pasted(model: &Grey, scene: &Grey, map: &Affine) -> Grey {
    let back = map.inverse().unwrap();
    let n = map.determinant().sqrt().recip().ceil().max(1.0) as usize;
    let offset = |k: usize| (k as f32 + 0.5) / n as f32 - 0.5;
    let at = |i: usize| {
        let (x, y) = ((i % scene.width) as f32, (i / scene.width) as f32);
        let part = |k: usize| {
            let (u, v) = back.apply((x + offset(k % n), y + offset(k / n)));
            model.at(u, v).unwrap_or(scene.pixels[i])
        };
        (0..n * n).map(part).sum::<f32>() / (n * n) as f32
    };
    Grey {
        width: scene.width,
        height: scene.height,
        pixels: (0..scene.pixels.len()).map(at).collect(),
    }
}

#[test]
fn another_page_and_another_sign_are_not_the_model() {
    // The digits 9, 2, 4 and 7.
    let signs = [0b110_1111, 0b101_1011, 0b110_0110, 0b000_0111].map(sign);
    let pages = [1, 2].map(text);
    let background = texture(420, 320, 5);
    let map = Affine::similarity(0.2, 1.1, (70.0, 70.0), (200.0, 150.0));
    for (things, kind) in [(&signs[..], "sign"), (&pages[..], "page")] {
        for (number, other) in things.iter().enumerate() {
            let scene = pasted(other, &background, &map);
            let model = &things[0];
            let outcome = find(Options::default(), model, &scene);
            match (number, &outcome.found) {
                (0, Some(found)) => {
                    let error = found.map.corner_error(&map, model.width, model.height);
                    assert!(error < 2.0, "{kind}: {error} px");
                    assert!(outcome.agreement.unwrap().enclosed <= 2.0, "{kind}: {outcome:?}");
                }
                (0, None) => panic!("{kind}: {:?}, {:?}", outcome.doubt, outcome.agreement),
                (_, found) => {
                    assert_eq!(*found, None, "{kind} {number}: {:?}", outcome.agreement);
                    assert!(outcome.doubt.is_some(), "{kind} {number}");
                }
            }
        }
    }
}

/// A shelf: many things of the model's kind have as much evidence as the model, which is one of
/// them.
#[test]
fn the_model_is_found_among_many_of_its_kind() {
    // Nines among other digits, and among eights, which have one segment more.
    let (nine, eight) = (sign(0b110_1111), sign(0b111_1111));
    let others = [0b101_1011, 0b110_0110, 0b000_0111].map(sign);
    let place = |k: usize| (12.0 + 158.0 * (k % 5) as f32, 12.0 + 150.0 * (k / 5) as f32);
    for others in [&others[..], &[eight]] {
        let shelf = |right: Option<usize>| {
            (0..20).fold(texture(800, 620, 5), |scene, k| {
                let (x, y) = place(k);
                let shown = if right == Some(k) { &nine } else { &others[k % others.len()] };
                pasted(shown, &scene, &Affine { shift: [x, y], ..Affine::IDENTITY })
            })
        };
        let options = || Options::default().with_wide(false);
        for right in [3, 12] {
            let outcome = find(options(), &nine, &shelf(Some(right)));
            let found = outcome.found.as_ref().map(|f| f.map.apply((0.0, 0.0)));
            let off = found.map(|(x, y)| (x - place(right).0).hypot(y - place(right).1));
            assert!(off.is_some_and(|off| off < 2.0), "{right}: {found:?}, {:?}", outcome.doubt);
        }
        let outcome = find(options(), &nine, &shelf(None));
        assert_eq!(outcome.found, None, "{:?}", outcome.agreement);
    }
}

/// A plain shape on a plain plate: the radius, as a fraction of that of the disc, by angle.
fn shape(radius: impl Fn(f32) -> f32) -> Grey {
    drawn(180, 180, |x, y| {
        let (x, y) = (x - 90.0, y - 90.0);
        x.hypot(y) < 72.0 * radius(y.atan2(x))
    })
}
fn polygon(sides: f32, angle: f32) -> f32 {
    let part = std::f32::consts::TAU / sides;
    (0.5 * part).cos() / (angle.rem_euclid(part) - 0.5 * part).cos()
}

/// In a reduced scene, a shape has few blocks, and another shape is alike in all of them.
#[test]
fn another_plain_shape_is_not_the_model() {
    let shapes = [shape(|_| 1.0), shape(|a| polygon(6.0, a)), shape(|a| polygon(5.0, a))];
    let background = Grey::filled(640, 480, 170.0);
    let map = Affine::similarity(0.7, 1.0, (90.0, 90.0), (300.0, 220.0));
    for (number, other) in shapes.iter().enumerate() {
        let scene = pasted(other, &background, &map);
        for (model, of) in shapes.iter().zip(0..) {
            let outcome = find(Options::default(), model, &scene);
            assert_eq!(outcome.found.is_some(), of == number, "{of} in {number}: {outcome:?}");
        }
    }
}

/// A board of squares with a margin.
fn board(squares: usize, side: f32, margin: f32) -> Grey {
    let size = (squares as f32 * side + 2.0 * margin) as usize;
    drawn(size, size, move |x, y| {
        let (i, j) = ((x - margin) / side, (y - margin) / side);
        let inside = |v: f32| v >= 0.0 && v < squares as f32;
        inside(i) && inside(j) && (i as u32 + j as u32).is_multiple_of(2)
    })
}

/// A part of a larger board has the same squares: only the margin tells.
#[test]
fn another_chessboard_is_not_the_model() {
    let boards = [board(6, 28.0, 16.0), board(9, 28.0, 24.0)];
    let background = texture(520, 420, 5);
    let middle = |b: &Grey| (0.5 * b.width as f32, 0.5 * b.height as f32);
    for (number, shown) in boards.iter().enumerate() {
        let map = Affine::similarity(0.3, 0.9, middle(shown), (250.0, 205.0));
        let scene = pasted(shown, &background, &map);
        for (of, model) in boards.iter().enumerate() {
            let outcome = find(Options::default(), model, &scene);
            assert_eq!(outcome.found.is_some(), of == number, "{of} in {number}: {outcome:?}");
        }
    }
}

/// A label: a band with strokes, a disc, and a text in other strokes.
fn label(name: u64) -> Grey {
    drawn(200, 270, |x, y| {
        let stroke = |seed: u64, at: f32| bits(seed * 100 + (at / 7.0) as u64).is_multiple_of(2);
        let band = y < 80.0 && !((30.0..55.0).contains(&y) && x > 15.0 && stroke(7, x));
        let disc = (x - 100.0).hypot(y - 150.0) < 42.0;
        let line = (215.0..235.0).contains(&y) && (20.0..120.0).contains(&x) && stroke(name, x);
        band || disc || line || (250.0..260.0).contains(&y) && x < 90.0 && stroke(9, x)
    })
}

/// Another label is refused, and is no part of the model either: a part is what the scene shows of
/// a model that leaves it.
#[test]
fn another_label_is_no_part_of_the_model() {
    let labels = [label(1), label(2)];
    let background = texture(420, 340, 6);
    let map = Affine::similarity(0.2, 1.0, (100.0, 135.0), (200.0, 170.0));
    let matcher = Matcher::new(&Device::cpu().unwrap(), Options::default()).unwrap();
    let scene = matcher.scene(&pasted(&labels[1], &background, &map)).unwrap();
    let outcome = matcher.find(&Model::of(&labels[0]).unwrap(), &scene).unwrap();
    assert_eq!(outcome.found, None);
    for number in [0, 1] {
        let picture = matcher.scene(&labels[number]).unwrap();
        let part = matcher.find_part(&picture, &scene).unwrap();
        assert_eq!(part.found, None, "{number}: the outline is in the scene");
    }
    // The lower two thirds of a label, at the border of a scene.
    let cut = Affine::similarity(0.0, 1.0, (100.0, 135.0), (160.0, 45.0));
    for (number, shown) in labels.iter().enumerate() {
        let scene = pasted(shown, &texture(320, 190, 6), &cut);
        let scene = matcher.scene(&scene).unwrap();
        let part = matcher.find_part(&matcher.scene(&labels[0]).unwrap(), &scene).unwrap();
        assert!(number == 0 || part.found.is_none(), "{:?}", part.agreement);
    }
}

/// Of a narrow model, luminance keeps enough rows to be compared.
#[test]
fn narrow_strips_are_found() {
    let scene = texture(900, 420, 12);
    for (width, height) in [(800, 24), (700, 16), (24, 380)] {
        let (x, y) = (60, 20);
        let at = |i: usize| scene.pixels[(y + i / width) * scene.width + x + i % width];
        let strip = Grey { width, height, pixels: (0..width * height).map(at).collect() };
        let outcome = find(Options::default(), &strip, &scene);
        let found =
            outcome.found.unwrap_or_else(|| panic!("{width} x {height}: {:?}", outcome.doubt));
        let truth = Affine { shift: [x as f32, y as f32], ..Affine::IDENTITY };
        assert!(found.map.corner_error(&truth, width, height) < 2.0, "{:?}", found.map);
    }
}

#[test]
fn scales_of_a_quarter_to_four() {
    let (model, background) = (texture(260, 200, 8), texture(900, 760, 9));
    for scale in [0.3, 3.2] {
        let map = Affine::similarity(0.3, scale, (129.5, 99.5), (440.0, 380.0));
        let outcome = find(Options::default(), &model, &pasted(&model, &background, &map));
        let Some(found) = outcome.found else {
            panic!("scale {scale}: {} nats, {:?}", outcome.evidence, outcome.doubt)
        };
        let error = found.map.corner_error(&map, 260, 200);
        assert!(error < 3.0 * scale.max(1.0), "scale {scale}: {error} px");
    }
    let map = Affine::similarity(0.3, 0.3, (129.5, 99.5), (440.0, 380.0));
    let scene = pasted(&model, &background, &map);
    assert!(find(Options::default().with_wide(false), &model, &scene).found.is_none());
}

/// Both images are reduced, by different factors.
#[test]
fn a_large_model_in_a_larger_scene() {
    let small = texture(470, 360, 3);
    let enlarged = |g: &Grey, width: usize, height: usize, by: f32, x0: f32, y0: f32| {
        let at = |i: usize| {
            let (x, y) = ((i % width) as f32, (i / width) as f32);
            g.at((x / by + x0).min(469.0), (y / by + y0).min(359.0)).unwrap()
        };
        Grey { width, height, pixels: (0..width * height).map(at).collect() }
    };
    let scene = enlarged(&small, 3700, 2800, 8.0, 0.0, 0.0);
    let model = enlarged(&small, 1400, 1000, 8.0, 150.0, 100.0);
    let outcome = find(Options::default(), &model, &scene);
    let found =
        outcome.found.unwrap_or_else(|| panic!("{} nats, {:?}", outcome.evidence, outcome.doubt));
    let truth = Affine { linear: [[1.0, 0.0], [0.0, 1.0]], shift: [1200.0, 800.0] };
    assert!(found.map.corner_error(&truth, 1400, 1000) < 12.0, "{:?}", found.map);
}

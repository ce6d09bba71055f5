//! Colours: the same drawing in another colour is another thing, in another light it is not.
use image::{DynamicImage, Rgb, RgbImage};
use koel::Device;
use koel_vision::{Affine, Doubt, Found, MatchOutcome, Matcher, Model, Models, Options, Picture};
use std::path::Path;

const BLUE: [u8; 3] = [40, 60, 150];
/// With the luminance of the blue one.
const RED: [u8; 3] = [160, 37, 20];
const WHITE: [u8; 3] = [255; 3];

/// A button of a user interface with strokes instead of letters.
fn button(fill: [u8; 3], letters: [u8; 3]) -> RgbImage {
    let bars =
        [(50, 28, 8, 36), (50, 28, 30, 8), (50, 56, 30, 8), (96, 28, 8, 36), (120, 28, 8, 36)];
    RgbImage::from_fn(200, 90, |x, y| {
        let inside = |&(left, top, w, h): &(u32, u32, u32, u32)| {
            (left..left + w).contains(&x) && (top..top + h).contains(&y)
        };
        let more = [(96, 44, 32, 8), (150, 28, 8, 36), (146, 28, 16, 6)];
        Rgb(match () {
            _ if !(4..196).contains(&x) || !(4..86).contains(&y) => [235; 3],
            _ if bars.iter().chain(&more).any(inside) => letters,
            _ => fill,
        })
    })
}
/// A page with rows of small boxes, some of them in colour, and buttons.
fn page(coloured: bool, buttons: &[(&RgbImage, (u32, u32))]) -> RgbImage {
    let mut page = RgbImage::from_fn(700, 460, |x, y| {
        let in_row = x > 20 && x < 150 && y % 40 > 14 && y % 40 < 30 && (x / 9 + y / 40) % 3 > 0;
        Rgb(match in_row {
            true if coloured && y / 40 % 4 == 0 => [200, 120, 20],
            true => [70; 3],
            false => [240; 3],
        })
    });
    for (button, (x, y)) in buttons {
        image::imageops::replace(&mut page, *button, i64::from(*x), i64::from(*y));
    }
    page
}
fn picture(image: RgbImage) -> Picture {
    Picture::of(&DynamicImage::ImageRgb8(image))
}
fn model(button: RgbImage) -> Model {
    let picture = picture(button);
    Model::of(&picture.grey).unwrap().with_colours(picture.colours.as_ref())
}
fn find(options: Options, model: &Model, scene: &Picture) -> MatchOutcome {
    let matcher = Matcher::new(&Device::cpu().unwrap(), options.with_wide(false)).unwrap();
    let scene = matcher.scene(&scene.grey).unwrap().with_colours(scene.colours.clone());
    matcher.find(model, &scene).unwrap()
}

#[test]
fn a_button_in_another_colour_is_another() {
    let (blue, red) = (button(BLUE, WHITE), button(RED, WHITE));
    let grey = button([190; 3], [220; 3]);
    let model = model(blue.clone());
    for (shown, coloured, found) in [
        (&blue, true, true),
        (&blue, false, true),
        (&red, true, false),
        (&red, false, false),
        (&grey, true, false),
        (&grey, false, false),
    ] {
        let scene = picture(page(coloured, &[(shown, (400, 200))]));
        let outcome = find(Options::default(), &model, &scene);
        assert_eq!(outcome.found.is_some(), found, "{coloured} {:?}", outcome.colour);
        if !found {
            assert_eq!(outcome.doubt, Some(Doubt::Colour));
            assert!(outcome.colour.unwrap() < 0.3);
            let ignoring = find(Options::default().with_colour(false), &model, &scene);
            assert!(ignoring.found.is_some_and(|_| ignoring.colour.is_none()));
        }
    }
    // The file of models keeps colours.
    let mut models = Models::default();
    models.add("blue".into(), model).unwrap();
    let loaded = Models::from_bytes(&models.to_bytes(), Path::new("a")).unwrap();
    assert_eq!(loaded, models);
}

/// On a screen, colours are exact: a lamp would explain these.
#[test]
fn a_button_on_a_screen_is_not_in_another_light() {
    let (violet, blue) = ([90.0, 60.0, 150.0], [60.0, 120.0, 160.0]);
    for (colour, light) in [(violet, 1.0), (violet, 1.5), (blue, 1.0)] {
        let dark = colour.map(|v: f32| 0.4 * v);
        let lit = |[r, g, b]: [f32; 3]| [r * (0.3f32 * light).exp(), g, b * (-0.45 * light).exp()];
        let [fill, letters, lit_fill, lit_letters] =
            [colour, dark, lit(colour), lit(dark)].map(|c| c.map(|v| v as u8));
        let model = model(button(fill, letters));
        for (shown, found) in [((fill, letters), true), ((lit_fill, lit_letters), false)] {
            let scene = picture(page(false, &[(&button(shown.0, shown.1), (400, 200))]));
            let outcome = find(Options::default(), &model, &scene);
            assert_eq!(outcome.found.is_some(), found, "{colour:?}, {light}: {:?}", outcome.colour);
        }
    }
}

/// Lamps, exposures, cameras, files with less colour, and pictures without any.
#[test]
fn a_button_in_another_light_is_the_same() {
    let model = model(button(BLUE, WHITE));
    let scene = page(true, &[(&button(BLUE, WHITE), (400, 200))]);
    let changed = |change: &dyn Fn([f32; 3]) -> [f32; 3]| {
        let pixel = |x, y| Rgb(change(scene.get_pixel(x, y).0.map(f32::from)).map(|v| v as u8));
        picture(RgbImage::from_fn(scene.width(), scene.height(), pixel))
    };
    let less = |part: f32| {
        move |[r, g, b]: [f32; 3]| {
            let grey = 0.2126 * r + 0.7152 * g + 0.0722 * b;
            [r, g, b].map(|v| grey + part * (v - grey))
        }
    };
    let gamma = |v: f32| 255.0 * (v / 255.0).powf(1.3);
    for (name, scene, compared) in [
        ("warm", changed(&|[r, g, b]| [1.0 * r, 0.92 * g, 0.75 * b]), true),
        ("cool", changed(&|[r, g, b]| [0.78 * r, 0.9 * g, b]), true),
        ("dark", changed(&|p| p.map(|v| 0.4 * v)), true),
        ("gamma", changed(&|p| p.map(gamma)), true),
        ("haze", changed(&|p| p.map(|v| 60.0 + 0.7 * v)), true),
        ("pale", changed(&less(0.5)), true),
        ("grey", changed(&less(0.0)), false),
        (
            "tinted",
            changed(&|p| {
                let [v, ..] = less(0.0)(p);
                [v, 0.93 * v, 0.8 * v]
            }),
            false,
        ),
    ] {
        let outcome = find(Options::default(), &model, &scene);
        assert!(outcome.found.is_some(), "{name}: {:?} {:?}", outcome.doubt, outcome.colour);
        assert_eq!(outcome.colour.is_some(), compared, "{name}");
    }
    let grey = DynamicImage::ImageLuma8(DynamicImage::ImageRgb8(scene).to_luma8());
    assert_eq!(Picture::of(&grey).colours, None);
}

/// What is transparent has no colour.
#[test]
fn transparent_parts_have_no_colour() {
    let opaque = button(BLUE, WHITE);
    let cut = image::RgbaImage::from_fn(200, 90, |x, y| {
        let [r, g, b] = opaque.get_pixel(x, y).0;
        let inside = (4..196).contains(&x) && (4..86).contains(&y);
        image::Rgba(if inside { [r, g, b, 255] } else { [250, 0, 0, 0] })
    });
    let cut = Picture::of(&DynamicImage::ImageRgba8(cut));
    let model = Model::of(&cut.grey).unwrap().with_colours(cut.colours.as_ref());
    let scene = picture(page(true, &[(&opaque, (400, 200))]));
    let outcome = find(Options::default(), &model, &scene);
    assert!(outcome.found.is_some() && outcome.colour.unwrap() > 0.95, "{outcome:?}");
}

/// Other methods may not tell colours apart: the default one's rules judge their poses.
#[test]
fn a_pose_of_points_is_judged_by_colour_too() {
    let (blue, red) = (button(BLUE, WHITE), button(RED, WHITE));
    let model = model(blue.clone());
    let matcher = Matcher::new(&Device::cpu().unwrap(), Options::default()).unwrap();
    let map = Affine::IDENTITY.moving((0.0, 0.0), (400.0, 200.0));
    let mut found = MatchOutcome::NOTHING;
    (found.found, found.evidence) = (Some(Found::at(map)), 9.0);
    for (shown, is_right) in [(&blue, true), (&red, false)] {
        let scene = picture(page(true, &[(shown, (400, 200))]));
        let made = matcher.scene(&scene.grey).unwrap().with_colours(scene.colours.clone());
        let judged = matcher.confirmed(&model, &made, found.clone()).unwrap();
        assert_eq!(judged.evidence, found.evidence);
        match is_right {
            true => assert_eq!((judged.found, judged.doubt), (found.found.clone(), None)),
            false => assert_eq!((judged.found, judged.doubt), (None, Some(Doubt::Colour))),
        }
    }
}

/// Icons have too few edges, and are sought pixel by pixel.
#[test]
fn an_icon_is_found_among_others_of_its_kind() {
    for (side, cell) in [(32, 4), (20, 8), (16, 3)] {
        let icon = |fill: [u8; 3]| {
            RgbImage::from_fn(side, side, |x, y| {
                let is_filled = (x / cell * 5 + y / cell * 3 + x * y / 64) % 7 < 3;
                Rgb(if is_filled { fill } else { [230; 3] })
            })
        };
        let icons = [icon(BLUE), icon(RED)];
        // In grey, each correlates with both: it is not the best place in both cases.
        for (own, other) in [(&icons[0], &icons[1]), (&icons[1], &icons[0])] {
            is_found_among(own, other, &format!("{side}, {cell}"));
        }
    }
}
/// Checks that an icon is found among 19 others, and not among 20.
fn is_found_among(own: &RgbImage, other: &RgbImage, what: &str) {
    let model = model(own.clone());
    let place = |k: u32| (20 + 60 * (k % 5), 20 + 70 * (k / 5));
    let search = |right: Option<u32>| {
        let mut page = RgbImage::from_pixel(400, 320, Rgb([240; 3]));
        for k in 0..20 {
            let ((x, y), shown) = (place(k), if right == Some(k) { own } else { other });
            image::imageops::replace(&mut page, shown, x.into(), y.into());
        }
        let scene = picture(page);
        let matcher = Matcher::new(&Device::cpu().unwrap(), Options::default()).unwrap();
        let made = matcher.scene(&scene.grey).unwrap().with_colours(scene.colours.clone());
        matcher.find(&model, &made).unwrap()
    };
    let outcome = search(Some(13));
    let (x, y) = place(13);
    let at = outcome.found.as_ref().map(|f| f.map.apply((0.0, 0.0)));
    let is_near = at.is_some_and(|(u, v)| (u - x as f32).hypot(v - y as f32) < 2.0);
    assert!(is_near, "{what}: {at:?}, {:?}", outcome.doubt);
    let outcome = search(None);
    assert_eq!((outcome.found.is_none(), outcome.doubt), (true, Some(Doubt::Colour)), "{what}");
}

#[test]
fn all_instances_are_found() {
    let (blue, red) = (button(BLUE, WHITE), button(RED, WHITE));
    let places = [(180, 30), (460, 60), (300, 330)];
    let mut shown = places.map(|place| (&blue, place)).to_vec();
    shown.push((&red, (470, 200)));
    let (model, scene) = (model(blue.clone()), picture(page(true, &shown)));
    for (options, count) in [(Options::default(), 3), (Options::default().with_colour(false), 4)] {
        let matcher = Matcher::new(&Device::cpu().unwrap(), options.with_wide(false)).unwrap();
        let made = matcher.scene(&scene.grey).unwrap().with_colours(scene.colours.clone());
        let first = matcher.find(&model, &made).unwrap();
        let all = matcher.find_others(&model, &scene, first).unwrap();
        let at = |o: &MatchOutcome| o.found.as_ref().map(|f| f.map.apply((0.0, 0.0))).unwrap();
        let found = all.iter().map(at).collect::<Vec<_>>();
        assert_eq!(found.len(), count, "{found:?}");
        for (x, y) in places.map(|(x, y)| (x as f32, y as f32)) {
            let near = |p: &&(f32, f32)| (p.0 - x).hypot(p.1 - y) < 2.0;
            assert_eq!(found.iter().filter(near).count(), 1, "{found:?}");
        }
    }
}

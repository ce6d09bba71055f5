//! Models of 32 x 32 pixels: icons in a made screenshot.
use koel::Device;
use koel_vision::{Affine, Freedom, Grey, Matcher, Model, Options};

/// Draws icon `kind` of nine, as dark lines and areas on a pale ground: nine samples per pixel.
fn icon(kind: usize) -> Grey {
    icon_of(kind, 32)
}
/// Draws an icon of `side` pixels.
fn icon_of(kind: usize, side: usize) -> Grey {
    let dark = |x: f32, y: f32| {
        let (u, v) = (x - 16.0, y - 16.0);
        let r = u.hypot(v);
        match kind {
            0 => (9.0..12.0).contains(&r) || u.abs() < 1.5 && (-7.0..0.0).contains(&v),
            1 => (u.abs() - v.abs()).abs() < 2.2 && r < 13.0,
            2 => (3.0..28.0).contains(&x) && [7.0, 15.0, 23.0].iter().any(|l| (y - l).abs() < 1.8),
            3 => {
                (6.0..9.0).contains(&(u + 3.0).hypot(v + 3.0))
                    || (u - v).abs() < 2.5 && (4.0..12.0).contains(&u)
            }
            4 => {
                y > 14.0 && y < 27.0 && x > 7.0 && x < 25.0
                    || (y - 14.0) > -(10.0 - u.abs()) && y < 14.0 && v < 0.0
            }
            5 => {
                (v > -8.0 && v < 9.0 && u.abs() < 12.0) && !(v > -5.0 && v < 6.0 && u.abs() < 9.0)
                    || (v - 0.6 * u.abs() + 5.0).abs() < 1.5 && u.abs() < 11.0
            }
            6 => u > -8.0 && u < 10.0 && v.abs() < (10.0 - u) * 0.6,
            7 => r < 12.0 && !(r < 8.0 && u > 0.0 && v < 3.0),
            // An arrow to a bar. A cross would be icon 1, turned: the edges find it.
            _ => {
                u.abs() < 2.0 && (-12.0..2.0).contains(&v)
                    || (0.0..8.0).contains(&v) && u.abs() < 8.0 - v
                    || (10.0..13.0).contains(&v) && u.abs() < 11.0
            }
        }
    };
    let at = |i: usize| {
        let (x, y) = ((i % side) as f32, (i / side) as f32);
        let of_32 = |v: f32, k: usize| (v + k as f32 / 3.0) * 32.0 / side as f32;
        let inked = (0..9).filter(|k| dark(of_32(x, k % 3), of_32(y, k / 3)));
        235.0 - 190.0 * inked.count() as f32 / 9.0
    };
    Grey { width: side, height: side, pixels: (0..side * side).map(at).collect() }
}
/// Windows with title bars, lines of text, and a row of the icons in `shown`, 44 pixels apart.
fn screenshot(shown: &[usize]) -> Grey {
    let (width, height) = (640, 400);
    let mut image = Grey::filled(width, height, 235.0);
    let mut fill = |left: usize, top: usize, w: usize, h: usize, value: f32| {
        for y in top..(top + h).min(height) {
            image.pixels[y * width + left..][..w.min(width - left)].fill(value);
        }
    };
    for (left, top, w, h) in [(20, 90, 380, 280), (430, 110, 190, 240)] {
        fill(left, top, w, h, 190.0);
        fill(left + 1, top + 24, w - 2, h - 25, 250.0);
        for line in 0..(h - 40) / 14 {
            for word in 0..(w - 20) / 9 {
                let bits = (line * 7919 + word * 104_729 + left) % 97;
                if bits % 5 > 0 {
                    let (x, y) = (left + 8 + word * 9, top + 32 + line * 14);
                    fill(x, y, 6, 1 + bits % 2, 60.0);
                    fill(x + bits % 5, y, 1, 8, 60.0);
                    fill(x, y + bits % 7, 5, 1, 90.0);
                }
            }
        }
    }
    for (place, &kind) in shown.iter().enumerate() {
        let (icon, left) = (icon(kind), 30 + 44 * place);
        for y in 0..32 {
            image.pixels[(30 + y) * width + left..][..32]
                .copy_from_slice(&icon.pixels[y * 32..][..32]);
        }
    }
    image
}

#[test]
fn nine_icons_in_a_screenshot() {
    let all = (0..9).collect::<Vec<usize>>();
    let matcher = Matcher::new(&Device::cpu().unwrap(), Options::default()).unwrap();
    let scene = matcher.scene(&screenshot(&all)).unwrap();
    for kind in all {
        let model = Model::of(&icon(kind)).unwrap();
        let outcome = matcher.find(&model, &scene).unwrap();
        let found = outcome.found.unwrap_or_else(|| {
            panic!("icon {kind}: {} nats, {:?}", outcome.evidence, outcome.doubt)
        });
        let shift = [30.0 + 44.0 * kind as f32, 30.0];
        let truth = Affine { shift, ..Affine::IDENTITY };
        let error = found.map.corner_error(&truth, 32, 32);
        assert!(error < 1.0, "icon {kind}: {error} px, {} nats", outcome.evidence);
    }
}

#[test]
fn icons_that_are_not_there() {
    let matcher = Matcher::new(&Device::cpu().unwrap(), Options::default()).unwrap();
    for kind in 0..9 {
        let others = (0..9).filter(|k| *k != kind).collect::<Vec<usize>>();
        let scene = matcher.scene(&screenshot(&others)).unwrap();
        let outcome = matcher.find(&Model::of(&icon(kind)).unwrap(), &scene).unwrap();
        assert_eq!(outcome.found, None, "icon {kind}: {} nats", outcome.evidence);
    }
}

#[test]
fn icons_at_other_scales() {
    let screen = screenshot(&[0, 3, 5]);
    let (width, height) = (800, 500);
    let at = |i: usize| {
        let (x, y) = ((i % width) as f32, (i / width) as f32);
        screen
            .at(((x + 0.5) / 1.25 - 0.5).max(0.0), ((y + 0.5) / 1.25 - 0.5).max(0.0))
            .unwrap_or(235.0)
    };
    let large = Grey { width, height, pixels: (0..width * height).map(at).collect() };
    let device = Device::cpu().unwrap();
    let search = |options| {
        let matcher = Matcher::new(&device, options).unwrap();
        let model = Model::of(&icon(3)).unwrap();
        matcher.find(&model, &matcher.scene(&large).unwrap()).unwrap().found
    };
    let truth = Affine { linear: [[1.25, 0.0], [0.0, 1.25]], shift: [92.625, 37.625] };
    let found = search(Options::default()).unwrap();
    assert!(found.map.corner_error(&truth, 32, 32) < 1.5, "{:?}", found.map);
    assert_eq!(search(Options::default().with_freedom(Freedom::Rigid)), None);
}

/// Large screenshots are searched for icons in their own pixels: reduced to 1024, an icon would have
/// half as many. Of two icons, one is there.
fn in_a_screenshot_of(width: usize, height: usize, icons: &[(usize, usize)]) {
    let windows = screenshot(&[]);
    let at = |i: usize| windows.pixels[i / width % 400 * 640 + i % width % 640];
    let empty = Grey { width, height, pixels: (0..width * height).map(at).collect() };
    let matcher = Matcher::new(&Device::cpu().unwrap(), Options::default()).unwrap();
    let (left, top) = (width - 419, height - 247);
    for &(kind, side) in icons {
        let (icon, mut screen) = (icon_of(kind, side), empty.clone());
        for (y, row) in icon.pixels.chunks_exact(side).enumerate() {
            screen.pixels[(top + y) * width + left..][..side].copy_from_slice(row);
        }
        let scene = matcher.scene(&screen).unwrap();
        let outcome = matcher.find(&Model::of(&icon).unwrap(), &scene).unwrap();
        let found = outcome.found.unwrap_or_else(|| panic!("icon {kind}: {:?}", outcome.doubt));
        let truth = Affine { shift: [left as f32, top as f32], ..Affine::IDENTITY };
        let error = found.map.corner_error(&truth, side, side);
        assert!(error < 1.0, "icon {kind}: {error} px, {} nats", outcome.evidence);
        let other = matcher.find(&Model::of(&icon_of(7, side)).unwrap(), &scene).unwrap();
        assert_eq!(other.found, None, "icon 7 beside {kind}: {} nats", other.evidence);
    }
}

#[test]
fn icons_in_a_screenshot_of_1920_pixels() {
    in_a_screenshot_of(1920, 1080, &[(3, 32), (5, 20)]);
}

#[test]
fn icons_in_a_screenshot_of_2560_pixels() {
    in_a_screenshot_of(2560, 1440, &[(1, 24)]);
}

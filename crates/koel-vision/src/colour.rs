//! Colours of a model and of a scene under a pose.
//!
//! Edges and luminance do not tell a red button from a blue one. The mean colours of cells of the
//! model are compared with those of the scene, after the change of light that makes them most alike
//! and that lamps, daylight and cameras do make.
use image::{DynamicImage, RgbImage, RgbaImage, imageops::thumbnail};

/// Maximum side, in pixels, of the colours kept of a scene and of a model.
const SIDE_OF_SCENE: u32 = 1024;
pub(crate) const SIDE_OF_MODEL: u32 = 128;
/// Number of cells along the longer side of a model, and the minimum side of a cell in pixels of
/// either image: files keep the colours of 2 x 2 pixels.
const CELLS: f32 = 20.0;
const CELL_SIDE: f32 = 3.0;
/// Minimum opacity of all samples of a cell.
const OPAQUE: f32 = 0.95;
/// Samples of a cell along each axis.
const SAMPLES: usize = 4;
/// Chroma (distance from grey in CIELAB) from which on a cell is coloured, and from which on it
/// counts fully.
const COLOURED: f32 = 14.0;
const VIVID: f32 = 60.0;
/// Difference, in parts of the chroma, up to which a cell agrees, and from which on it differs: a
/// camera that takes half of the chroma away changes it by 0.5, and so does a hue 29 degrees away.
const AGREES: f32 = 0.5;
const DIFFERS: f32 = 0.75;
/// Fraction of cells that must be coloured for a comparison.
const LEAST_COLOURED: f32 = 0.01;
/// Minimum agreement of a model that is present, and on a screen, where colours are exact.
const LEAST: f32 = 0.5;
const LEAST_ON_SCREENS: f32 = 0.8;
/// Fraction of a drawing's cells that may differ although they are vivid.
const OTHERS: f32 = 0.06;
const CLEARLY: f32 = 25.0;
/// Natural logarithms of the gains of red and blue over green from daylight to a lamp that a camera
/// corrects in part; steps from -1 to 1 of this; and gains of green from fluorescent lamps.
const WARM: (f32, f32) = (0.3, -0.45);
const STEPS: i32 = 6;
const TINTS: [f32; 3] = [0.0, -0.1, 0.1];
/// What a full step of light and a tint must add to the agreement.
const UNLIKELY: (f32, f32) = (0.1, 0.02);
/// Chroma of pixels without any colour, the fraction of a scene's pixels that have none in a
/// screenshot, and the steps of light that are possible there.
const NEUTRAL: f32 = 1.5;
const SCREENSHOT: f32 = 0.15;
const ON_SCREENS: i32 = 1;
/// Chroma of a model's bright cells that are white or grey, the number that tells the light, and by
/// how much, in logarithms of gains, the light may differ from it.
const WHITE: f32 = 8.0;
const WHITES: usize = 4;
const OFF_WHITE: f32 = 0.2;
/// Fractions of a scene's pixels one of which must be coloured, by a chroma beyond its tint.
const COLOURED_SCENE: [(f32, f32); 2] = [(0.01, 10.0), (0.0005, 25.0)];
/// Contrast of a coloured drawing in a scene without colour, relative to that of the scene, below
/// which it is greyed out.
const GREYED: f32 = 0.5;

/// Colours of an image, reduced, with opacity: sRGB of 8 bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Colours {
    /// Size of the image.
    of: (f32, f32),
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) pixels: Vec<[u8; 4]>,
}

impl Colours {
    /// Takes the colours of an image; `None` for a format without colour.
    pub(crate) fn of(image: &DynamicImage, opaque: &RgbImage) -> Option<Colours> {
        if !image.color().has_color() {
            return None;
        }
        let of = (image.width() as f32, image.height() as f32);
        let (width, height) = reduced_size((image.width(), image.height()), SIDE_OF_SCENE);
        let small = (width, height) != (image.width(), image.height());
        let pixels = if image.color().has_alpha() {
            let mut all = image.to_rgba8();
            all.pixels_mut().for_each(|p| p.0 = premultiplied(p.0));
            let all: RgbaImage = if small { thumbnail(&all, width, height) } else { all };
            all.pixels().map(|p| divided(p.0)).collect()
        } else {
            let opaque_of = |image: &RgbImage| -> Vec<[u8; 4]> {
                image.pixels().map(|p| [p.0[0], p.0[1], p.0[2], 255]).collect()
            };
            match small {
                true => opaque_of(&thumbnail(opaque, width, height)),
                false => opaque_of(opaque),
            }
        };
        Some(Colours { of, width: width as usize, height: height as usize, pixels })
    }
    /// Makes the colours of an image of the given size from reduced ones.
    pub(crate) fn from_parts(
        of: (usize, usize),
        (width, height): (usize, usize),
        pixels: Vec<[u8; 4]>,
    ) -> Colours {
        Colours { of: (of.0 as f32, of.1 as f32), width, height, pixels }
    }
    /// Reduces the colours to those kept of a model.
    pub(crate) fn of_model(&self) -> Colours {
        let (width, height) = (self.width as u32, self.height as u32);
        let (w, h) = reduced_size((width, height), SIDE_OF_MODEL);
        if (w, h) == (width, height) {
            return self.clone();
        }
        let bytes = self.pixels.iter().flat_map(|&p| premultiplied(p)).collect();
        let small = RgbaImage::from_raw(width, height, bytes).map(|image| thumbnail(&image, w, h));
        let pixels = small.iter().flat_map(RgbaImage::pixels).map(|p| divided(p.0)).collect();
        Colours { of: self.of, width: w as usize, height: h as usize, pixels }
    }
    /// Returns those of the negative.
    pub(crate) fn negative(&self) -> Colours {
        let turned = |&[r, g, b, a]: &[u8; 4]| [255 - r, 255 - g, 255 - b, a];
        Colours { pixels: self.pixels.iter().map(turned).collect(), ..self.clone() }
    }
    /// Returns the linear colour and the opacity at a point of the image; `None` outside.
    fn at(&self, (x, y): (f32, f32), linear: &[f32; 256]) -> Option<([f32; 3], f32)> {
        let (x, y) =
            ((x + 0.5) / self.of.0 * self.width as f32, (y + 0.5) / self.of.1 * self.height as f32);
        let inside = x >= 0.0 && y >= 0.0 && x < self.width as f32 && y < self.height as f32;
        let [r, g, b, a] = *inside.then(|| &self.pixels[y as usize * self.width + x as usize])?;
        Some(([r, g, b].map(|v| linear[v as usize]), a as f32 / 255.0))
    }
    /// Returns up to some 4,000 of the opaque colours, evenly spread.
    fn some(&self, linear: &[f32; 256]) -> Vec<[f32; 3]> {
        // A prime: no multiple of the width.
        let step = if self.pixels.len() > 8192 { (self.pixels.len() / 4096) | 1 } else { 1 };
        let opaque = self.pixels.iter().step_by(step).filter(|p| p[3] > 127);
        opaque.map(|&[r, g, b, _]| [r, g, b].map(|v| linear[v as usize])).collect()
    }
}

fn reduced_size((width, height): (u32, u32), side: u32) -> (u32, u32) {
    let factor = (width.max(height) as f32 / side as f32).max(1.0);
    let part = |n: u32| ((n as f32 / factor).round() as u32).max(1);
    (part(width), part(height))
}
fn premultiplied([r, g, b, a]: [u8; 4]) -> [u8; 4] {
    let part = |v: u8| ((v as u32 * a as u32 + 127) / 255) as u8;
    [part(r), part(g), part(b), a]
}
fn divided([r, g, b, a]: [u8; 4]) -> [u8; 4] {
    let whole = |v: u8| (v as u32 * 255 / (a as u32).max(1)).min(255) as u8;
    [whole(r), whole(g), whole(b), a]
}

/// Returns the linear values of sRGB of 8 bits.
fn linear() -> [f32; 256] {
    std::array::from_fn(|v| {
        let v = v as f32 / 255.0;
        if v <= 0.04045 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
    })
}
fn luminance([r, g, b]: [f32; 3]) -> f32 {
    0.2126 * r + 0.7152 * g + 0.0722 * b
}
/// Returns a* and b* of CIELAB of a linear colour.
fn chroma([r, g, b]: [f32; 3]) -> [f32; 2] {
    let f = |t: f32| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
    let x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
    let y = f(0.2126 * r + 0.7152 * g + 0.0722 * b);
    let z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089);
    [500.0 * (x - y), 200.0 * (y - z)]
}
fn length([a, b]: [f32; 2]) -> f32 {
    a.hypot(b)
}

/// Mean colours of a cell of the model and of its place in the scene.
struct Cell {
    model: [f32; 3],
    scene: [f32; 3],
}

/// Comparison of colours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Compared {
    /// Fraction of the colour that agrees.
    pub agreement: f32,
    /// Fraction of the cells that clearly differ.
    pub others: f32,
    /// Whether the scene is a screenshot, whose colours are exact.
    pub on_screen: bool,
}
impl Compared {
    /// Returns whether a photograph or a drawing may have these colours.
    pub(crate) fn accepts(&self, is_drawing: bool) -> bool {
        let least = if self.on_screen { LEAST_ON_SCREENS } else { LEAST };
        self.agreement >= least && !(is_drawing && self.others > OTHERS)
    }
}

/// Compares the colours of a model with those of a scene. `map` leads from pixels of the model's
/// image to those of the scene's, and `is_visible` tells which points of the model's image are not
/// covered. Returns `None` if one of them has no colour.
///
/// For each of some cells, chroma is compared at equal luminance: shadows do not matter. Of a scene
/// without any colour, only the contrast of a drawing is compared: a greyed-out button has less
/// than the rest of its picture.
pub(crate) fn compared(
    (model, scene): (&Colours, &Colours),
    map: impl Fn((f32, f32)) -> Option<(f32, f32)>,
    is_visible: impl Fn((f32, f32)) -> bool,
    is_drawing: bool,
) -> Option<Compared> {
    let linear = linear();
    let cells = cells((model, scene), map, is_visible, &linear);
    let coloured = cells.iter().filter(|c| length(chroma(c.model)) >= COLOURED).count();
    if coloured == 0 || (coloured as f32) < LEAST_COLOURED * cells.len() as f32 {
        return None;
    }
    let all = scene.some(&linear);
    if !is_coloured(&all) {
        let is_grey = is_drawing && is_greyed_out(&cells, &all);
        return is_grey.then_some(Compared { agreement: 0.0, others: 1.0, on_screen: false });
    }
    let neutral = all.iter().filter(|p| length(chroma(**p)) < NEUTRAL).count();
    let is_screenshot = neutral as f32 > SCREENSHOT * all.len() as f32;
    let most = if is_screenshot { ON_SCREENS } else { STEPS };
    let lights = (-most..=most).flat_map(|step| TINTS.map(|tint| (step, tint)));
    let white = light_on_white(&cells);
    let under = |(step, tint): (i32, f32)| {
        let light = step as f32 / STEPS as f32;
        let (red, blue) = (light * WARM.0 + tint, light * WARM.1 + tint);
        let unlikely = UNLIKELY.0 * light.abs() + if tint != 0.0 { UNLIKELY.1 } else { 0.0 };
        let off = white.map_or(0.0, |(r, b)| (red - r).abs().max((blue - b).abs()) - OFF_WHITE);
        let compared = under_light(&cells, [red, 0.0, blue].map(|g| (-g).exp()));
        (compared, compared.agreement - unlikely - off.max(0.0))
    };
    let best = lights.map(under).max_by(|a, b| a.1.total_cmp(&b.1));
    best.map(|(compared, _)| Compared { on_screen: is_screenshot, ..compared })
}

fn cells(
    (model, scene): (&Colours, &Colours),
    map: impl Fn((f32, f32)) -> Option<(f32, f32)>,
    is_visible: impl Fn((f32, f32)) -> bool,
    linear: &[f32; 256],
) -> Vec<Cell> {
    let (width, height) = model.of;
    let middle = (0.5 * width, 0.5 * height);
    let corners = [middle, (middle.0 + 1.0, middle.1), (middle.0, middle.1 + 1.0)].map(&map);
    let [Some(o), Some(x), Some(y)] = corners else { return vec![] };
    let area = (x.0 - o.0) * (y.1 - o.1) - (x.1 - o.1) * (y.0 - o.0);
    // Pixels of the images per kept pixel.
    let of_model = width / model.width as f32;
    let of_scene = scene.of.0 / scene.width as f32 / area.abs().sqrt().max(1e-3);
    let side = (width.max(height) / CELLS).max(CELL_SIDE * of_model.max(of_scene));
    let count = |length: f32| (length / side).round().max(1.0) as usize;
    let (columns, rows) = (count(width), count(height));
    let mut cells = vec![];
    for k in 0..columns * rows {
        let at = |i: f32, j: f32| {
            let x = ((k % columns) as f32 + i) * width / columns as f32 - 0.5;
            let y = ((k / columns) as f32 + j) * height / rows as f32 - 0.5;
            (x, y)
        };
        if !is_visible(at(0.5, 0.5)) {
            continue;
        }
        let (mut n, mut of_model, mut of_scene) = (0, [0.0f32; 3], [0.0f32; 3]);
        let mut is_opaque = true;
        for s in 0..SAMPLES * SAMPLES {
            let part = |s: usize| (s as f32 + 0.5) / SAMPLES as f32;
            let p = at(part(s % SAMPLES), part(s / SAMPLES));
            let own = model.at(p, linear);
            is_opaque &= own.is_some_and(|(_, opacity)| opacity >= OPAQUE);
            let there = map(p).and_then(|q| scene.at(q, linear));
            if let (Some((a, _)), Some((b, _))) = (own, there) {
                n += 1;
                of_model.iter_mut().zip(a).for_each(|(sum, v)| *sum += v);
                of_scene.iter_mut().zip(b).for_each(|(sum, v)| *sum += v);
            }
        }
        if is_opaque && 2 * n > SAMPLES * SAMPLES {
            let mean = |sum: [f32; 3]| sum.map(|v| v / n as f32);
            cells.push(Cell { model: mean(of_model), scene: mean(of_scene) });
        }
    }
    cells
}

/// Returns whether a picture has colours beside one tint of all.
fn is_coloured(pixels: &[[f32; 3]]) -> bool {
    let mut sum = [0.0f32; 3];
    pixels.iter().for_each(|p| sum.iter_mut().zip(p).for_each(|(s, v)| *s += v));
    // A tint that light does not have is a colour.
    let tint = |k: usize, most: f32| (sum[1].max(1e-6) / sum[k].max(1e-6)).clamp(1.0 / most, most);
    let (red, blue) = (tint(0, WARM.0.exp()), tint(2, (-WARM.1).exp()));
    let of = |p: [f32; 3]| length(chroma(p));
    let beyond = |&[r, g, b]: &[f32; 3]| of([r, g, b]).min(of([r * red, g, b * blue]));
    let beyond = pixels.iter().map(beyond).collect::<Vec<f32>>();
    COLOURED_SCENE.iter().any(|&(part, least)| {
        beyond.iter().filter(|b| **b >= least).count() as f32 > part * beyond.len() as f32
    })
}

/// Returns the logarithms of the gains of red and blue over green that the white and grey cells of
/// a model show; `None` if it has too few.
fn light_on_white(cells: &[Cell]) -> Option<(f32, f32)> {
    let is_white = |c: &&Cell| luminance(c.model) > 0.2 && length(chroma(c.model)) < WHITE;
    let gain = |c: &Cell, k: usize| {
        let of = |p: [f32; 3]| p[k].max(1e-3) / p[1].max(1e-3);
        (of(c.scene) / of(c.model)).ln()
    };
    let whites = cells.iter().filter(is_white);
    let (mut red, mut blue): (Vec<f32>, Vec<f32>) =
        whites.map(|c| (gain(c, 0), gain(c, 2))).unzip();
    if red.len() < WHITES {
        return None;
    }
    let middle = |values: &mut Vec<f32>| {
        let rank = values.len() / 2;
        *values.select_nth_unstable_by(rank, f32::total_cmp).1
    };
    Some((middle(&mut red), middle(&mut blue)))
}

/// Returns whether cells have lost the contrast that the rest of the scene has.
fn is_greyed_out(cells: &[Cell], scene: &[[f32; 3]]) -> bool {
    let level = |p: [f32; 3]| luminance(p).max(0.0).powf(1.0 / 2.2);
    let mut all = scene.iter().map(|&p| level(p)).collect::<Vec<f32>>();
    all.sort_by(f32::total_cmp);
    let rank = |percent: usize| all.get(all.len() * percent / 100).copied().unwrap_or(0.0);
    let span = rank(99) - rank(1);
    let n = cells.len().max(1) as f32;
    let levels = cells.iter().map(|c| (level(c.model), level(c.scene))).collect::<Vec<_>>();
    let (u, v) = levels.iter().fold((0.0, 0.0), |(u, v), (a, b)| (u + a / n, v + b / n));
    let (square, product) = levels.iter().fold((0.0f32, 0.0f32), |(square, product), (a, b)| {
        (square + (a - u) * (a - u), product + (a - u) * (b - v))
    });
    product < GREYED * span * square
}

/// Compares cells after gains of the scene's red, green and blue.
fn under_light(cells: &[Cell], gains: [f32; 3]) -> Compared {
    let (mut sum, mut agreeing, mut others) = (0.0, 0.0, 0.0);
    for cell in cells {
        let mut scene: [f32; 3] = std::array::from_fn(|k| cell.scene[k] * gains[k]);
        let level = (luminance(cell.model) / luminance(scene).max(1e-4)).clamp(0.2, 5.0);
        scene = scene.map(|v| v * level);
        let (a, b) = (chroma(cell.model), chroma(scene));
        let most = length(a).max(length(b));
        if most < COLOURED {
            continue;
        }
        let off = length([a[0] - b[0], a[1] - b[1]]) / most;
        let agrees = ((DIFFERS - off) / (DIFFERS - AGREES)).clamp(0.0, 1.0);
        let weight = most.min(VIVID);
        (sum, agreeing) = (sum + weight, agreeing + weight * agrees);
        others += if agrees == 0.0 && most >= CLEARLY { 1.0 } else { 0.0 };
    }
    let agreement = if sum > 0.0 { agreeing / sum } else { 1.0 };
    Compared { agreement, others: others / cells.len().max(1) as f32, on_screen: false }
}

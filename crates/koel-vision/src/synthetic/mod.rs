//! Images for tests and measurements: pairs of model and scene with known truth, in which a part of
//! one photograph is rotated, scaled and pasted into another, and textures in place of photographs.
mod textures;
mod tilted;

pub use crate::random::Random;
pub use textures::texture;
pub use tilted::{TiltedPair, tilted_pair};

use crate::affine::{Affine, corners};
use crate::fit::{Freedom, fit};
use crate::picture::Grey;
use std::f32::consts::TAU;

/// Size of the models, in pixels.
const MODEL: (usize, usize) = (240, 180);
/// Size of the scenes, in pixels.
const SCENE: (usize, usize) = (640, 480);
/// Size of the cluttered scenes, in pixels.
const MOSAIC: (usize, usize) = (1024, 768);
/// Range of scales, scene over model.
const SCALES: (f32, f32) = (0.7, 1.4);

/// Difficulty of a pair. All levels include any rotation and scales 0.7 to 1.4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// No further change.
    Clean,
    /// Noise of standard deviation 12, a different gain (0.75 to 1.25) and offset (up to 20 grey
    /// levels).
    Noise,
    /// 30 % of the model is occluded by a third photograph.
    Occluded30,
    /// 50 % of the model is occluded.
    Occluded50,
    /// Smooth displacement of 3 pixels (root mean square; waves of 80 to 200 pixels). The truth is
    /// the closest affine map.
    Displaced3,
    /// Smooth displacement of 5 pixels.
    Displaced5,
    /// Unequal scales (ratio up to 1.5) along two random perpendicular directions.
    Sheared,
    /// The scene is a mosaic of 1024 x 768 pixels.
    Cluttered,
    /// The model is absent: alternately a plain photograph or one with another model in it.
    Absent,
}

impl Level {
    /// All levels.
    pub const ALL: [Level; 9] = [
        Level::Clean,
        Level::Noise,
        Level::Occluded30,
        Level::Occluded50,
        Level::Displaced3,
        Level::Displaced5,
        Level::Sheared,
        Level::Cluttered,
        Level::Absent,
    ];
    /// Returns the name for tables.
    pub fn name(self) -> &'static str {
        match self {
            Level::Clean => "clean",
            Level::Noise => "noise",
            Level::Occluded30 => "30 % occluded",
            Level::Occluded50 => "50 % occluded",
            Level::Displaced3 => "displaced 3 px",
            Level::Displaced5 => "displaced 5 px",
            Level::Sheared => "shear, aspect",
            Level::Cluttered => "clutter",
            Level::Absent => "absent",
        }
    }
    /// Returns the maximum mean error of the four corners to count as found, in scene pixels, and
    /// the target share of pairs.
    pub fn goal(self) -> (f32, f32) {
        match self {
            Level::Clean | Level::Noise | Level::Occluded30 => (3.0, 0.97),
            Level::Occluded50 => (4.0, 0.88),
            Level::Displaced3 => (6.0, 0.97),
            Level::Displaced5 => (8.0, 0.90),
            Level::Sheared => (4.0, 0.97),
            Level::Cluttered => (4.0, 0.95),
            Level::Absent => (0.0, 0.99),
        }
    }
}

/// Model and scene with the true pose.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Pair {
    /// Image to search for.
    pub model: Grey,
    /// Image to search in.
    pub scene: Grey,
    /// Map from model pixels to scene pixels; `None` if the model is absent.
    pub truth: Option<Affine>,
}

/// Crops a part of an image and scales it to the given size.
fn part(image: &Grey, width: usize, height: usize, random: &mut Random) -> Grey {
    let fit = (image.width as f32 / width as f32).min(image.height as f32 / height as f32);
    // A photograph is magnified only as far as necessary.
    let step = if fit < 1.0 { fit } else { random.between(1.0, fit.min(2.0)) };
    let (x, y) = (
        random.between(0.0, (image.width as f32 - 1.0 - step * (width - 1) as f32).max(0.0)),
        random.between(0.0, (image.height as f32 - 1.0 - step * (height - 1) as f32).max(0.0)),
    );
    let (right, bottom) = ((image.width - 1) as f32, (image.height - 1) as f32);
    let at = |i: usize| {
        let (u, v) = (x + step * (i % width) as f32, y + step * (i / width) as f32);
        image.at(u.min(right), v.min(bottom)).unwrap_or(0.0)
    };
    Grey { width, height, pixels: (0..width * height).map(at).collect() }
}

/// Returns the part with the highest contrast of eight: models are not uniform areas such as sky.
fn striking_part(image: &Grey, random: &mut Random) -> Grey {
    let contrast = |g: &Grey| {
        let rows = g.pixels.chunks_exact(g.width);
        rows.map(|r| r.windows(2).map(|p| (p[0] - p[1]).abs().min(30.0)).sum::<f32>()).sum::<f32>()
    };
    let parts = (0..8).map(|_| part(image, MODEL.0, MODEL.1, random)).collect::<Vec<Grey>>();
    let best = parts.into_iter().max_by(|a, b| contrast(a).total_cmp(&contrast(b)));
    best.unwrap_or_else(|| Grey::filled(MODEL.0, MODEL.1, 0.0))
}

/// Returns a random map that keeps the whole model inside the scene.
fn placement(scene: (usize, usize), sheared: bool, random: &mut Random) -> Affine {
    let middle = (0.5 * (MODEL.0 - 1) as f32, 0.5 * (MODEL.1 - 1) as f32);
    let scale = random.between(SCALES.0, SCALES.1);
    let mut map = Affine::similarity(random.between(0.0, TAU), scale, middle, (0.0, 0.0));
    if sheared {
        let ratio = random.between(1.0, 1.5).sqrt();
        let turn = random.between(0.0, TAU);
        let stretch = Affine { linear: [[ratio, 0.0], [0.0, 1.0 / ratio]], shift: [0.0; 2] };
        let (there, back) = (
            Affine::similarity(turn, 1.0, (0.0, 0.0), (0.0, 0.0)),
            Affine::similarity(-turn, 1.0, (0.0, 0.0), (0.0, 0.0)),
        );
        map = there.after(&stretch).after(&back).after(&map);
    }
    let reach = corners(MODEL.0, MODEL.1).map(|c| map.apply(c));
    let (half_x, half_y) =
        reach.iter().fold((0.0f32, 0.0f32), |(x, y), r| (x.max(r.0.abs()), y.max(r.1.abs())));
    let to = |half: f32, n: usize, random: &mut Random| {
        let (low, high) = (half + 2.0, n as f32 - 3.0 - half);
        if low < high { random.between(low, high) } else { 0.5 * (n - 1) as f32 }
    };
    let center = (to(half_x, scene.0, random), to(half_y, scene.1, random));
    map.moving(middle, center)
}

/// Displacement as a sum of waves.
struct Waves(Vec<[f32; 5]>);
impl Waves {
    fn new(rms: f32, random: &mut Random) -> Waves {
        const COUNT: usize = 6;
        // Each of the n waves a sin(..) has the mean square a^2 / 2.
        let amplitude = rms * (2.0 / COUNT as f32).sqrt();
        let wave = |_| {
            let (direction, number) = (random.between(0.0, TAU), TAU / random.between(80.0, 200.0));
            let along = random.between(0.0, TAU);
            [
                number * direction.cos(),
                number * direction.sin(),
                random.between(0.0, TAU),
                amplitude * along.cos(),
                amplitude * along.sin(),
            ]
        };
        Waves((0..COUNT).map(wave).collect())
    }
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        self.0.iter().fold((0.0, 0.0), |(dx, dy), [kx, ky, phase, ax, ay]| {
            let s = (kx * x + ky * y + phase).sin();
            (dx + ax * s, dy + ay * s)
        })
    }
    /// Returns the affine map closest to the displaced model, over its area: the optimum for any
    /// matcher of affine maps.
    fn nearest_affine(&self, map: &Affine) -> Option<Affine> {
        let step = 6;
        let points = (0..MODEL.1)
            .step_by(step)
            .flat_map(|y| (0..MODEL.0).step_by(step).map(move |x| (x, y)));
        let displaced = |(x, y): (usize, usize)| {
            let point = (x as f32, y as f32);
            let undisplaced = map.apply(point);
            let mut at = undisplaced;
            // The scene shows the model point of `at` plus its displacement.
            for _ in 0..20 {
                let (dx, dy) = self.at(at.0, at.1);
                at = (undisplaced.0 - dx, undisplaced.1 - dy);
            }
            (point, at)
        };
        fit(Freedom::Affine, &points.map(displaced).collect::<Vec<_>>())
    }
}

/// Pastes the model into the scene; the area `cover` (in fractions of the model's sides) is taken
/// from another image.
fn paste(
    scene: &mut Grey,
    model: &Grey,
    map: &Affine,
    waves: Option<&Waves>,
    cover: Option<([f32; 4], &Grey)>,
) {
    let Some(back) = map.inverse() else { return };
    for y in 0..scene.height {
        for x in 0..scene.width {
            let (dx, dy) = waves.map_or((0.0, 0.0), |w| w.at(x as f32, y as f32));
            let (u, v) = back.apply((x as f32 + dx, y as f32 + dy));
            let Some(mut value) = model.at(u, v) else { continue };
            if let Some(([left, top, right, bottom], other)) = cover {
                let (s, t) = (u / model.width as f32, v / model.height as f32);
                if (left..right).contains(&s) && (top..bottom).contains(&t) {
                    value = other.pixels[(y % other.height) * other.width + x % other.width];
                }
            }
            scene.pixels[y * scene.width + x] = value;
        }
    }
}

/// Generates a pair of a level: a model of 240 x 180 pixels and a scene of 640 x 480 (1024 x 768 if
/// cluttered). Deterministic for a seed.
///
/// # Panics
///
/// Panics without photographs. Fewer than three are used several times.
pub fn pair(level: Level, photographs: &[Grey], seed: u64) -> Pair {
    let mut random = Random::new(seed.wrapping_mul(0x1000_0001).wrapping_add(level as u64));
    // Three different photographs.
    let mut order = (0..photographs.len()).collect::<Vec<usize>>();
    random.shuffle(&mut order);
    let photograph = |k: usize| &photographs[order[k % order.len()]];
    let model = striking_part(photograph(0), &mut random);
    let (width, height) = if level == Level::Cluttered { MOSAIC } else { SCENE };
    let mut scene = if level == Level::Cluttered {
        mosaic(&order[1..], photographs, &mut random)
    } else {
        part(photograph(1), width, height, &mut random)
    };
    let third = part(photograph(2), width, height, &mut random);
    let map = placement((width, height), level == Level::Sheared, &mut random);
    let waves = match level {
        Level::Displaced3 => Some(Waves::new(3.0, &mut random)),
        Level::Displaced5 => Some(Waves::new(5.0, &mut random)),
        _ => None,
    };
    let covered = match level {
        Level::Occluded30 => 0.3,
        Level::Occluded50 => 0.5,
        _ => 0.0f32,
    };
    let mut truth = Some(map);
    if level == Level::Absent {
        truth = None;
        if random.below(2) == 0 {
            let other = striking_part(photograph(2), &mut random);
            paste(&mut scene, &other, &map, None, None);
        }
    } else if covered > 0.0 {
        let wide = random.between(covered, 1.0);
        let tall = covered / wide;
        let (left, top) = (random.between(0.0, 1.0 - wide), random.between(0.0, 1.0 - tall));
        paste(&mut scene, &model, &map, None, Some(([left, top, left + wide, top + tall], &third)));
    } else {
        paste(&mut scene, &model, &map, waves.as_ref(), None);
        truth = truth.map(|map| waves.as_ref().and_then(|w| w.nearest_affine(&map)).unwrap_or(map));
    }
    if level == Level::Noise {
        let (gain, offset) = (random.between(0.75, 1.25), random.between(-20.0, 20.0));
        scene.pixels.iter_mut().for_each(|v| *v = gain * *v + offset + 12.0 * random.normal());
    }
    let rounded = |mut g: Grey| {
        g.pixels.iter_mut().for_each(|v| *v = v.round().clamp(0.0, 255.0));
        g
    };
    Pair { model: rounded(model), scene: rounded(scene), truth }
}

/// Builds a mosaic of twelve parts of photographs.
fn mosaic(of: &[usize], photographs: &[Grey], random: &mut Random) -> Grey {
    let (width, height) = (MOSAIC.0 / 4, MOSAIC.1 / 3);
    let tiles = (0..12)
        .map(|i| part(&photographs[of[i % of.len()]], width, height, random))
        .collect::<Vec<Grey>>();
    let at = |i: usize| {
        let (x, y) = (i % MOSAIC.0, i / MOSAIC.0);
        tiles[y / height * 4 + x / width].pixels[(y % height) * width + x % width]
    };
    Grey { width: MOSAIC.0, height: MOSAIC.1, pixels: (0..MOSAIC.0 * MOSAIC.1).map(at).collect() }
}

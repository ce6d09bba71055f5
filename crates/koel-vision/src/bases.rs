//! Bases of a model: pairs of its points under several tilts, in a table keyed by their invariants.
use crate::affine::Affine;
use crate::model::Model;
use crate::random::Random;
use crate::table::DenseMultiTable;
use koel_vision_kernels::direction::direction;
use koel_vision_kernels::vote::{TESTS, key};
use std::f32::consts::PI;

/// Bins per turn of each invariant.
pub(crate) const BINS: u32 = 24;

/// One search for a model: the bases tried, and the number of hypotheses kept.
///
/// More bases and scene points find models that are less visible, and take proportionally longer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Pass {
    /// Tilts of the model: ratio of the longer to the shorter direction, and the number of
    /// directions for each. The untilted model is always tried.
    pub tilts: Vec<(f32, u32)>,
    /// Bases of the model per tilt.
    pub bases: usize,
    /// Range of their lengths, as fractions of the model's diagonal. Short ones are more often
    /// visible as a whole, and have fewer pairs of scene points; long ones are more precise.
    pub lengths: (f32, f32),
    /// Scene points that pairs are made of.
    pub scene_points: usize,
    /// Range of scales, scene over model, after the tilt.
    pub scales: (f32, f32),
    /// Number of best hypotheses kept per scene point.
    pub a_point: usize,
    /// Number of best hypotheses kept in total.
    pub quota: usize,
    /// Fraction of the model's points, around the basis, from which the voting points are chosen:
    /// where the basis is visible, the rest may be occluded. 1: from all points.
    pub around: f32,
}

impl Default for Pass {
    /// Returns the first pass of the default options: no tilts, many short bases, many scene
    /// points.
    fn default() -> Pass {
        Pass {
            tilts: vec![],
            bases: 100,
            lengths: (0.08, 0.25),
            scene_points: 2400,
            scales: (0.45, 1.6),
            a_point: 3,
            quota: 500,
            around: 0.25,
        }
    }
}
koel::option_setters! { Pass:
    tilts by with_tilts: Vec<(f32, u32)>;
    bases by with_bases: usize;
    lengths by with_lengths: (f32, f32);
    scene_points by with_scene_points: usize;
    scales by with_scales: (f32, f32);
    a_point by with_a_point: usize;
    quota by with_quota: usize;
    around by with_around: f32;
}

/// Pair of model points under a tilt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Basis {
    /// Index of the tilt.
    pub tilt: usize,
    /// Index of the set of voting points.
    pub tests: usize,
    /// First point after the tilt, in pixels.
    pub origin: (f32, f32),
    /// Vector to the second point, in pixels.
    pub vector: (f32, f32),
    /// Direction of the vector.
    pub direction: u32,
}

/// Bases of a model for one pass.
pub(crate) struct Bases {
    /// Tilts: maps of determinant 1.
    pub tilts: Vec<Affine>,
    /// [`TESTS`] points for each tilt and neighbourhood: position and direction.
    pub tests: Vec<[(f32, f32, u32); TESTS as usize]>,
    /// Bases by the directions of the two ends, each entered in nine neighbouring bins.
    pub table: DenseMultiTable<Basis>,
    /// Shortest and longest basis, in pixels.
    pub lengths: (f32, f32),
}

fn tilts(pass: &Pass) -> Vec<Affine> {
    let mut all = vec![Affine::IDENTITY];
    for &(tilt, directions) in &pass.tilts {
        for k in 0..directions {
            let (sin, cos) = (PI * k as f32 / directions as f32).sin_cos();
            let (long, short) = (tilt.sqrt(), 1.0 / tilt.sqrt());
            let cross = (long - short) * sin * cos;
            let linear = [
                [long * cos * cos + short * sin * sin, cross],
                [cross, long * sin * sin + short * cos * cos],
            ];
            all.push(Affine { linear, shift: [0.0; 2] });
        }
    }
    all
}

/// Number of neighbourhoods of voting points, if not all points vote.
const NEIGHBOURHOODS: usize = 8;

/// Chooses some of the points so that the first 8, the first 16 and all of them are spread:
/// farthest first, with some randomness.
fn test_points(model: &Model, among: &[usize], random: &mut Random) -> Vec<usize> {
    let mut distance2 = vec![f32::MAX; among.len()];
    let mut chosen = vec![among[0]];
    while chosen.len() < TESTS as usize {
        let last = &model.points[chosen[chosen.len() - 1]];
        let mut farthest = (-1.0, among[0]);
        for (distance2, &i) in distance2.iter_mut().zip(among) {
            let p = &model.points[i];
            *distance2 = distance2.min((p.x - last.x).powi(2) + (p.y - last.y).powi(2));
            let off = distance2.sqrt() * random.between(0.6, 1.0);
            if off > farthest.0 {
                farthest = (off, i);
            }
        }
        chosen.push(farthest.1);
    }
    chosen
}

/// Chooses sets of voting points, each around its own centre, from the fraction `part` of all
/// points.
fn neighbourhoods(model: &Model, part: f32, random: &mut Random) -> Vec<((f32, f32), Vec<usize>)> {
    let all = (0..model.points.len()).collect::<Vec<usize>>();
    let spread = test_points(model, &all, random);
    let place = |i: usize| (model.points[i].x, model.points[i].y);
    if part >= 1.0 {
        return vec![(place(spread[0]), spread)];
    }
    let around = |&center: &usize| {
        let mut near = all.clone();
        near.sort_by(|&i, &j| {
            off2(place(i), place(center)).total_cmp(&off2(place(j), place(center)))
        });
        near.truncate(((part * all.len() as f32) as usize).max(1));
        // Restore the order, strongest first.
        near.sort_unstable();
        (place(center), test_points(model, &near, random))
    };
    spread[..NEIGHBOURHOODS].iter().map(around).collect()
}
fn off2(a: (f32, f32), b: (f32, f32)) -> f32 {
    (a.0 - b.0).powi(2) + (a.1 - b.1).powi(2)
}

impl Bases {
    /// Generates random bases of a model.
    pub(crate) fn of(model: &Model, pass: &Pass, random: &mut Random) -> Bases {
        let points = &model.points;
        let extent = |of: &dyn Fn(usize) -> f32| {
            let all = (0..points.len()).map(of);
            all.clone().fold(f32::MIN, f32::max) - all.fold(f32::MAX, f32::min)
        };
        let diagonal = extent(&|i| points[i].x).hypot(extent(&|i| points[i].y));
        let mut pairs = vec![];
        for _ in 0..pass.bases * 60 {
            let (i, j) = (random.below(points.len()), random.below(points.len()));
            let length = (points[j].x - points[i].x).hypot(points[j].y - points[i].y);
            if (pass.lengths.0 * diagonal..pass.lengths.1 * diagonal).contains(&length) {
                pairs.push((i, j));
                if pairs.len() == pass.bases {
                    break;
                }
            }
        }
        let tests = neighbourhoods(model, pass.around, random);
        let tilts = tilts(pass);
        let (mut entries, mut of_tilts) = (vec![], vec![]);
        let mut lengths = (f32::MAX, 0.0f32);
        for (number, tilt) in tilts.iter().enumerate() {
            let placed = |i: usize| {
                let (x, y) = tilt.apply((points[i].x, points[i].y));
                let (nx, ny) = tilt.apply_normal(points[i].normal);
                (x, y, direction(nx, ny))
            };
            let first_tests = of_tilts.len();
            of_tilts.extend(tests.iter().map(|(_, set)| std::array::from_fn(|k| placed(set[k]))));
            for &(i, j) in &pairs {
                let ((xi, yi, di), (xj, yj, dj)) = (placed(i), placed(j));
                let vector = (xj - xi, yj - yi);
                let length = vector.0.hypot(vector.1);
                lengths = (lengths.0.min(length), lengths.1.max(length));
                let along = direction(vector.0, vector.1);
                let (p, q) = (&points[i], &points[j]);
                let middle = (0.5 * (p.x + q.x), 0.5 * (p.y + q.y));
                let off = |set: &usize| off2(tests[*set].0, middle);
                let nearest =
                    (0..tests.len()).min_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or(0);
                let own_tests = first_tests + nearest;
                let basis = Basis {
                    tilt: number,
                    tests: own_tests,
                    origin: (xi, yi),
                    vector,
                    direction: along,
                };
                let bin = key(BINS, di, dj, along);
                for first in BINS - 1..=BINS + 1 {
                    for second in BINS - 1..=BINS + 1 {
                        let neighbour =
                            (bin / BINS + first) % BINS * BINS + (bin % BINS + second) % BINS;
                        entries.push((neighbour, basis));
                    }
                }
            }
        }
        Bases {
            tilts,
            tests: of_tilts,
            table: DenseMultiTable::build(BINS * BINS, &entries),
            lengths,
        }
    }
}

//! Bases: two or three points that define a coordinate system.
use super::Point;
use crate::affine::Affine;
use crate::fit::Freedom;
use crate::random::Random;

/// Selection rules for bases. A basis that is too short magnifies errors; one that is too long
/// leaves few cells.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BasisRules {
    /// Probability that a pair (or triple) is taken: the paper's one third.
    pub chance: f32,
    /// Minimum and maximum distance of the first two points, in pixels.
    pub lengths: (f32, f32),
    /// Minimum sine of the angle to the third point, as seen from the first. Thin triangles magnify
    /// errors.
    pub thinnest: f32,
}
impl Default for BasisRules {
    fn default() -> BasisRules {
        BasisRules { chance: 1.0 / 3.0, lengths: (40.0, 250.0), thinnest: 0.4 }
    }
}

koel::option_setters! { BasisRules:
    chance by with_chance: f32;
    lengths by with_lengths: (f32, f32);
    thinnest by with_thinnest: f32;
}

/// Indices of two points (the third repeats the second), or of three.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PointBasis(pub [u32; 3]);

/// Returns up to `most` distinct random bases.
pub(super) fn choose(
    points: &[Point],
    freedom: Freedom,
    rules: &BasisRules,
    most: usize,
    random: &mut Random,
) -> Vec<PointBasis> {
    let n = points.len();
    let good = |&PointBasis([a, b, c]): &PointBasis| {
        let [a, b, c] = [a, b, c].map(|i| points[i as usize]);
        let (x, y) = (b.0 - a.0, b.1 - a.1);
        let (u, v) = (c.0 - a.0, c.1 - a.1);
        let (length, other) = (x.hypot(y), u.hypot(v));
        let fits = |l: f32| l >= rules.lengths.0 && l <= rules.lengths.1;
        let wide = (x * v - y * u).abs() >= rules.thinnest * length * other;
        fits(length) && (freedom != Freedom::Affine || fits(other) && wide)
    };
    let depth = if freedom == Freedom::Affine { 3 } else { 2 };
    let all = (n as u64).saturating_pow(depth);
    let basis = |id: u64| {
        let [a, b, c] =
            [id % n as u64, id / n as u64 % n as u64, id / (n as u64).pow(2)].map(|i| i as u32);
        PointBasis([a, b, if depth == 3 { c } else { b }])
    };
    let mut bases = vec![];
    if all <= 4 * most as u64 {
        // Few candidates: take each with its probability.
        for id in 0..all {
            if random.unit() < rules.chance {
                bases.extend(Some(basis(id)).filter(good));
            }
        }
        random.shuffle(&mut bases);
        bases.truncate(most);
    } else {
        let mut taken = std::collections::HashSet::new();
        for _ in 0..20 * most {
            let id = random.below(all as usize) as u64;
            if good(&basis(id)) && taken.insert(id) {
                bases.push(basis(id));
                if bases.len() == most {
                    break;
                }
            }
        }
    }
    bases
}

impl PointBasis {
    /// Returns the map from basis coordinates to the plane. `None` if the points do not span it.
    pub(super) fn frame(&self, points: &[Point], freedom: Freedom) -> Option<Affine> {
        let [a, b, c] = self.0.map(|i| points[i as usize]);
        let (x, y) = (b.0 - a.0, b.1 - a.1);
        let linear = match freedom {
            Freedom::Similarity => [[x, -y], [y, x]],
            Freedom::Rigid => {
                let length = x.hypot(y);
                [[x / length, -y / length], [y / length, x / length]]
            }
            Freedom::Affine => [[x, c.0 - a.0], [y, c.1 - a.1]],
        };
        let frame = Affine { linear, shift: [a.0, a.1] };
        frame.inverse().map(|_| frame)
    }
    /// Returns the other points in the coordinates of this basis, with their indices.
    pub(super) fn coordinates<'p>(
        &self,
        points: &'p [Point],
        freedom: Freedom,
    ) -> impl Iterator<Item = (usize, Point)> + 'p {
        let own = self.0;
        let back = self.frame(points, freedom).and_then(|f| f.inverse());
        let others = points.iter().enumerate().filter(move |(i, _)| !own.contains(&(*i as u32)));
        others.filter_map(move |(i, &p)| Some((i, back?.apply(p))))
    }
    /// Returns the distance of the first two points, in pixels.
    pub(super) fn length(&self, points: &[Point]) -> f32 {
        let [a, b, _] = self.0.map(|i| points[i as usize]);
        (b.0 - a.0).hypot(b.1 - a.1)
    }
}

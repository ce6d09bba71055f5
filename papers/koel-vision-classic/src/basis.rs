//! Bases: two or three points that define a coordinate system.
use koel_vision::synthetic::Random;
use koel_vision::{Affine, Freedom};
use std::collections::HashSet;

/// Point of the plane.
pub type Point = (f32, f32);

/// Selection rules for bases. A basis that is too short magnifies errors; one that is too long
/// leaves few cells.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BasisRules {
    /// Probability that a pair (or triple) is taken: the paper's one third.
    pub chance: f32,
    /// Minimum and maximum distance of the other points from the first, in pixels.
    pub lengths: (f32, f32),
    /// Minimum sine of the angle to the third point, as seen from the first. Thin triangles magnify
    /// errors.
    pub thinnest: f32,
}
impl Default for BasisRules {
    fn default() -> BasisRules {
        BasisRules { chance: 1.0 / 3.0, lengths: (20.0, 60.0), thinnest: 0.5 }
    }
}

koel::option_setters! { BasisRules:
    chance by with_chance: f32;
    lengths by with_lengths: (f32, f32);
    thinnest by with_thinnest: f32;
}

/// Indices of two points (the third repeats the second), or of three.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct PointBasis(pub [u32; 3]);

/// Returns up to `most` distinct random bases. Triples run counter-clockwise, as maps keep that;
/// with `one_order`, each set of points is one basis, which starts at its lowest index.
///
/// Each basis is taken with its probability if the sets are few; otherwise a first point is drawn,
/// then the others among the points at an allowed distance.
pub(crate) fn choose(
    points: &[Point],
    freedom: Freedom,
    rules: &BasisRules,
    most: usize,
    one_order: bool,
    random: &mut Random,
) -> Vec<PointBasis> {
    let (shortest, longest) = rules.lengths;
    let away = |(a, b): (usize, usize)| {
        let (p, q) = (points[a], points[b]);
        a != b && (shortest..=longest).contains(&(q.0 - p.0).hypot(q.1 - p.1))
    };
    let n = points.len();
    let partners = (0..n)
        .map(|a| (0..n).filter(|&b| away((a, b))).map(|b| b as u32).collect())
        .collect::<Vec<Vec<u32>>>();
    let good = |&PointBasis([a, b, c]): &PointBasis| {
        let first = !one_order || a < b && a <= c;
        let [p, q, r] = [a, b, c].map(|i| points[i as usize]);
        let (x, y) = (q.0 - p.0, q.1 - p.1);
        let (u, v) = (r.0 - p.0, r.1 - p.1);
        let least = rules.thinnest * x.hypot(y) * u.hypot(v);
        first && (freedom != Freedom::Affine || x * v - y * u >= least.max(f32::MIN_POSITIVE))
    };
    let sets = |of: &Vec<u32>| of.len().pow(if freedom == Freedom::Affine { 2 } else { 1 });
    let all = partners.iter().map(sets).sum::<usize>();
    let mut bases = vec![];
    if all <= 4 * most {
        for (a, near) in (0..).zip(&partners) {
            for &b in near {
                let thirds = if freedom == Freedom::Affine { near } else { &vec![b] };
                for basis in thirds.iter().map(|&c| PointBasis([a, b, c])) {
                    if random.unit() < rules.chance {
                        bases.extend(Some(basis).filter(good));
                    }
                }
            }
        }
        random.shuffle(&mut bases);
        bases.truncate(most);
        return bases;
    }
    let mut taken = HashSet::new();
    for _ in 0..20 * most {
        let a = random.below(n);
        let near = &partners[a];
        let mut draw = || near.get(random.below(near.len())).copied();
        let Some(b) = draw() else { continue };
        let c = if freedom == Freedom::Affine { draw().unwrap_or(b) } else { b };
        let basis = PointBasis([a as u32, b, c]);
        if good(&basis) && taken.insert(basis) {
            bases.push(basis);
            if bases.len() == most {
                break;
            }
        }
    }
    bases
}

impl PointBasis {
    /// Returns the index of the first point.
    pub(crate) fn first(&self) -> usize {
        self.0[0] as usize
    }
    /// Returns the map from basis coordinates to the plane. `None` if the points do not span it.
    pub(crate) fn frame(&self, points: &[Point], freedom: Freedom) -> Option<Affine> {
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
    /// Returns the other points in the coordinates of this basis, as far as they are at most
    /// `reach` of its lengths away along both axes.
    pub(crate) fn coordinates<'p>(
        &self,
        points: &'p [Point],
        freedom: Freedom,
        reach: f32,
    ) -> impl Iterator<Item = Point> + 'p {
        let own = self.0;
        let back = self.frame(points, freedom).and_then(|f| f.inverse());
        let reach = if freedom == Freedom::Rigid { reach * self.length(points) } else { reach };
        let others = points.iter().enumerate().filter(move |(i, _)| !own.contains(&(*i as u32)));
        let places = others.filter_map(move |(_, &p)| Some(back?.apply(p)));
        places.filter(move |(u, v)| u.abs() <= reach && v.abs() <= reach)
    }
    /// Returns the distance of the first two points, in pixels.
    pub(crate) fn length(&self, points: &[Point]) -> f32 {
        let [a, b, _] = self.0.map(|i| points[i as usize]);
        (b.0 - a.0).hypot(b.1 - a.1)
    }
}

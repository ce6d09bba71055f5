//! Verification: checks whether a scene point is close to each mapped model point.
use crate::basis::Point;
use crate::options::PaperOptions;
use koel_vision::{Affine, Features, Freedom, fit};
use rayon::prelude::*;
use std::ops::RangeInclusive;

/// Allowed factors of areas: a model that shrinks to a spot would match any edge.
const SIZES: RangeInclusive<f32> = 0.2..=5.0;
/// Maximum ratio of the factors along the two principal axes.
const MAX_TILT: f32 = 3.0;
/// Number of model points around a basis that rank its maps.
const NEAR: usize = 96;
/// Maximum number of maps of a round that are refined.
const REFINED: usize = 400;
/// Distances of partners in the steps of the refinement, in inlier distances. The first are those
/// of points around the basis.
const STEPS: [f32; 11] = [1.5, 1.2, 1.0, 2.0, 1.8, 1.6, 1.4, 1.2, 1.0, 1.0, 1.0];
/// Number of steps that use only points around the basis.
const NEAR_STEPS: usize = 3;
/// Number of points of outlines that count as one: neighbours lie on the same edge.
const CORRELATED: f64 = 4.0;
/// Half the side of the window in which chance is measured, in cells.
const WINDOW: i32 = 30;
/// Displacements of a map that must explain it less well than its place does: lengths in inlier
/// distances, each in this number of directions.
const DISPLACED: ([f32; 2], usize) = ([2.5, 5.0], 16);
/// Number of edge points that count as one against displaced maps; calibrated on absent images.
const CORRELATED_POINTS: f64 = 2.0;
/// Maximum number of cells per side.
const MAX_SIDE: f32 = 2048.0;

/// Map that chance does not explain.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Verified {
    /// Map from model to scene.
    pub map: Affine,
    /// Mapped model points with a scene point close by.
    pub inliers: Vec<Point>,
    /// Improbability of chance: minus the logarithm of its bound, in nats.
    pub evidence: f32,
    /// Root mean square of the inliers' distances, in pixels.
    pub rmse: f32,
}

/// Cell of a [`Target`].
#[derive(Clone, Copy)]
struct Cell {
    /// Index of the point closest to its centre; `NONE` if none is within twice the inlier
    /// distance.
    nearest: u32,
    /// Share of the cells around it that are within the inlier distance of a point.
    density: f32,
}
const NONE: u32 = u32::MAX;

/// Spatial hash of scene points, with one slot per cell of their extent: the closest point to a
/// place is one read.
struct Target<'a> {
    points: &'a [Point],
    inlier: f32,
    origin: Point,
    step: f32,
    columns: usize,
    rows: usize,
    cells: Vec<Cell>,
}
impl Target<'_> {
    fn new(points: &[Point], inlier: f32) -> Target<'_> {
        let margin = 2.0 * inlier;
        let extent = |of: fn(&Point) -> f32| {
            let ends =
                points.iter().map(of).fold((f32::MAX, f32::MIN), |(a, b), v| (a.min(v), b.max(v)));
            (ends.0 - margin, (ends.1 - ends.0).max(0.0) + 2.0 * margin)
        };
        let ((left, width), (top, height)) = (extent(|p| p.0), extent(|p| p.1));
        let step = (inlier / 3.0).max(width.max(height) / MAX_SIDE);
        let side = |length: f32| (length / step).ceil() as usize + 1;
        let (columns, rows) = if points.is_empty() { (0, 0) } else { (side(width), side(height)) };
        let mut target = Target {
            points,
            inlier,
            origin: (left, top),
            step,
            columns,
            rows,
            cells: vec![Cell { nearest: NONE, density: 0.0 }; columns * rows],
        };
        let distances = target.paint(margin);
        target.measure(&distances);
        target
    }
    /// Enters each point into the cells within `radius`, and returns the cells' distances from
    /// their points.
    fn paint(&mut self, radius: f32) -> Vec<f32> {
        let mut distances = vec![f32::MAX; self.cells.len()];
        let cells = (radius / self.step).ceil() as i32;
        for (i, &(x, y)) in (0..).zip(self.points) {
            let column = ((x - self.origin.0) / self.step) as i32;
            let row = ((y - self.origin.1) / self.step) as i32;
            for r in (row - cells).max(0)..=(row + cells).min(self.rows as i32 - 1) {
                for c in (column - cells).max(0)..=(column + cells).min(self.columns as i32 - 1) {
                    let middle = |at: i32| (at as f32 + 0.5) * self.step;
                    let distance =
                        (self.origin.0 + middle(c) - x).hypot(self.origin.1 + middle(r) - y);
                    let at = r as usize * self.columns + c as usize;
                    if distance <= radius && distance < distances[at] {
                        distances[at] = distance;
                        self.cells[at].nearest = i;
                    }
                }
            }
        }
        distances
    }
    /// Measures the density around each cell.
    fn measure(&mut self, distances: &[f32]) {
        let (columns, rows) = (self.columns, self.rows);
        let mut sums = vec![0u32; (columns + 1) * (rows + 1)];
        for r in 0..rows {
            let mut sum = 0;
            for c in 0..columns {
                sum += (distances[r * columns + c] <= self.inlier) as u32;
                sums[(r + 1) * (columns + 1) + c + 1] = sums[r * (columns + 1) + c + 1] + sum;
            }
        }
        let ends = |at: usize, n: usize| {
            let at = at as i32;
            ((at - WINDOW).max(0) as usize, (at + WINDOW + 1).min(n as i32) as usize)
        };
        for r in 0..rows {
            for c in 0..columns {
                let ((top, bottom), (left, right)) = (ends(r, rows), ends(c, columns));
                let at = |r: usize, c: usize| sums[r * (columns + 1) + c] as i64;
                let close = at(bottom, right) - at(bottom, left) - at(top, right) + at(top, left);
                let area = ((bottom - top) * (right - left)) as f32;
                self.cells[r * columns + c].density = close as f32 / area;
            }
        }
    }
    fn cell(&self, (x, y): Point) -> Option<&Cell> {
        let (x, y) = ((x - self.origin.0) / self.step, (y - self.origin.1) / self.step);
        let inside = x >= 0.0 && y >= 0.0 && x < self.columns as f32 && y < self.rows as f32;
        inside.then(|| &self.cells[y as usize * self.columns + x as usize])
    }
    /// Returns the index and the distance of the point closest to a place, within twice the inlier
    /// distance (to the accuracy of a cell).
    fn closest(&self, p: Point) -> Option<(u32, f32)> {
        let nearest = self.cell(p)?.nearest;
        let q = self.points.get(nearest as usize)?;
        Some((nearest, (q.0 - p.0).hypot(q.1 - p.1)))
    }
    /// Pairs model points with the closest points to their places, within `radius`. A point that is
    /// closest to several places is paired with the nearest of them.
    fn pairs(&self, map: &Affine, model: &[Point], radius: f32) -> Vec<(Point, Point)> {
        let close = |&p: &Point| {
            let (i, distance) = self.closest(map.apply(p))?;
            (distance <= radius).then_some((i, distance, p))
        };
        let mut all = model.iter().filter_map(close).collect::<Vec<(u32, f32, Point)>>();
        all.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        all.dedup_by_key(|(i, ..)| *i);
        all.into_iter().map(|(i, _, p)| (p, self.points[i as usize])).collect()
    }
    /// Returns how many standard deviations more of the model's points are inliers than by chance.
    fn above_chance(&self, map: &Affine, model: &[Point]) -> f32 {
        let (mut more, mut variance, mut inside) = (0.0, 1.0, 0);
        for &p in model {
            let p = map.apply(p);
            let Some(cell) = self.cell(p) else { continue };
            inside += 1;
            let q = self.points.get(cell.nearest as usize);
            let hit = q.is_some_and(|q| {
                (q.0 - p.0).powi(2) + (q.1 - p.1).powi(2) <= self.inlier * self.inlier
            });
            more += hit as u32 as f32 - cell.density;
            variance += cell.density * (1.0 - cell.density);
        }
        if 2 * inside < model.len() { f32::MIN } else { more / variance.sqrt() }
    }
    /// Returns the bound on the logarithm of the probability that chance brings as many model
    /// points close to the target's. The `fixed` points that define the map do not count.
    fn log_chance(&self, map: &Affine, model: &[Point], fixed: usize) -> f64 {
        let least = std::f64::consts::PI * (self.inlier / self.step).powi(2) as f64
            / (self.columns * self.rows).max(1) as f64;
        let density = |&p: &Point| Some(self.cell(map.apply(p))?.density as f64);
        let densities = model.iter().filter_map(density).collect::<Vec<f64>>();
        let mean = densities.iter().sum::<f64>() / densities.len().max(1) as f64;
        let inliers = self.pairs(map, model, self.inlier).len();
        log_chance(
            densities.len().saturating_sub(fixed),
            inliers.saturating_sub(fixed),
            mean.clamp(least.min(0.99), 0.99),
        )
    }
    /// Like [`log_chance`](Self::log_chance), where chance is the largest share of inliers of the
    /// map at displaced places: lines of text and straight edges also match next to their place,
    /// which the density around them does not tell.
    fn log_chance_beside(&self, map: &Affine, model: &[Point], fixed: usize) -> f64 {
        let counts = |map: &Affine| {
            let inside = model.iter().filter(|p| self.cell(map.apply(**p)).is_some()).count();
            (inside, self.pairs(map, model, self.inlier).len())
        };
        let (lengths, directions) = DISPLACED;
        let share = |(length, direction): (f32, usize)| {
            let (y, x) = (direction as f32 / directions as f32 * std::f32::consts::TAU).sin_cos();
            let length = length * self.inlier;
            let shift = [map.shift[0] + length * x, map.shift[1] + length * y];
            let (inside, inliers) = counts(&Affine { shift, ..*map });
            inliers as f64 / inside.max(1) as f64
        };
        let all = lengths.iter().flat_map(|&length| (0..directions).map(move |d| (length, d)));
        let (inside, inliers) = counts(map);
        log_chance(
            inside.saturating_sub(fixed),
            inliers.saturating_sub(fixed),
            all.map(share).fold(0.0, f64::max).clamp(0.01, 0.99),
        )
    }
}

/// Returns Chernoff's bound on the natural logarithm of the probability that at least `k` of `n`
/// points are inliers, each with probability `p`. It also holds for different probabilities of mean
/// `p`.
fn log_chance(n: usize, k: usize, p: f64) -> f64 {
    let (n, part) = (n as f64, k as f64 / n as f64);
    if n == 0.0 || part <= p {
        return 0.0;
    }
    let term = |a: f64, b: f64| if a == 0.0 { 0.0 } else { a * (a / b).ln() };
    -n * (term(part, p) + term(1.0 - part, 1.0 - p))
}

/// Whether a map is in the range that is searched.
fn allowed(map: &Affine) -> bool {
    SIZES.contains(&map.determinant()) && map.is_tilted_at_most(MAX_TILT)
}

/// Points of model and scene with which maps are verified.
pub(crate) struct Verifier<'a> {
    freedom: Freedom,
    /// Points that vote, and those of the scene.
    points: (&'a [Point], Target<'a>),
    /// Points of outlines that refine, and those of the scene; `None`: the points that vote.
    outline: Option<(&'a [Point], Target<'a>)>,
    /// Evidence that is accepted; of the points alone, from which on outlines count.
    least: f64,
    /// Logarithm of the number of maps that chance has tried.
    tried: f64,
    /// Number of points that count as one against displaced maps.
    correlated: f64,
    /// Points of the outline around each point that votes.
    near: Vec<Vec<Point>>,
}
impl<'a> Verifier<'a> {
    pub(crate) fn new(
        model: (&'a [Point], &'a [Point]),
        scene: (&'a [Point], &'a [Point]),
        tried: f64,
        options: &PaperOptions,
    ) -> Verifier<'a> {
        let correlated = if options.features == Features::Edges { CORRELATED_POINTS } else { 1.0 };
        let outline = (!model.1.is_empty() && !scene.1.is_empty())
            .then(|| (model.1, Target::new(scene.1, options.inlier)));
        let around = outline.as_ref().map_or(model.0, |(points, _)| *points);
        let near = |p: &Point| {
            let off = |q: &Point| (q.0 - p.0).powi(2) + (q.1 - p.1).powi(2);
            let mut near = around.to_vec();
            let order = |a: &Point, b: &Point| off(a).total_cmp(&off(b));
            if near.len() > NEAR {
                near.select_nth_unstable_by(NEAR, order);
                near.truncate(NEAR);
            }
            near
        };
        Verifier {
            freedom: options.freedom,
            least: -options.false_alarm.ln(),
            tried,
            correlated,
            near: model.0.par_iter().map(near).collect(),
            points: (model.0, Target::new(scene.0, options.inlier)),
            outline,
        }
    }
    fn refining(&self) -> (&'a [Point], &Target<'a>) {
        let (points, target) = self.outline.as_ref().unwrap_or(&self.points);
        (points, target)
    }
    /// Returns how much more of the points around a model point agree with a map than by chance.
    pub(crate) fn rank(&self, map: &Affine, around: usize) -> f32 {
        if !allowed(map) {
            return f32::MIN;
        }
        self.refining().1.above_chance(map, &self.near[around])
    }
    /// Returns the map after least squares over closest points, alternately.
    fn refined(&self, map: Affine, around: usize) -> Affine {
        let (model, target) = self.refining();
        let mut map = map;
        for (i, step) in STEPS.iter().enumerate() {
            let points = if i < NEAR_STEPS { &self.near[around] } else { model };
            let pairs = target.pairs(&map, points, step * target.inlier);
            match fit(self.freedom, &pairs).filter(allowed) {
                Some(closer) => map = closer,
                None => break,
            }
        }
        map
    }
    /// Returns the evidence against chance, in nats: what neither the density of points nor the map
    /// at displaced places explains. Outlines count only if the points alone are improbable: dense
    /// and regular edges match by chance.
    fn evidence(&self, map: &Affine) -> f64 {
        let fixed = if self.freedom == Freedom::Affine { 3 } else { 2 };
        let of = |(model, target): &(&[Point], Target<'_>)| -target.log_chance(map, model, fixed);
        let points = of(&self.points);
        let by_density = match &self.outline {
            Some(outline) if points > self.least => points + of(outline) / CORRELATED,
            _ => points,
        } - self.tried;
        if by_density <= self.least {
            return by_density;
        }
        let (model, target) = &self.points;
        by_density.min(-target.log_chance_beside(map, model, fixed) / self.correlated)
    }
    /// Whether evidence suffices.
    pub(crate) fn accepts(&self, evidence: f64) -> bool {
        evidence > self.least
    }
    /// Refines the best-ranked of some maps, and returns the one with the most evidence. Each map
    /// comes with its rank and a model point of its basis.
    pub(crate) fn best(&self, mut maps: Vec<(f32, Affine, usize)>) -> Option<(Affine, f64)> {
        let order = |a: &(f32, Affine, usize), b: &(f32, Affine, usize)| b.0.total_cmp(&a.0);
        maps.retain(|m| m.0 > 0.0);
        maps.sort_by(order);
        maps.truncate(REFINED);
        let refined = maps.par_iter().map(|&(_, map, around)| {
            let map = self.refined(map, around);
            (map, self.evidence(&map))
        });
        let refined = refined.collect::<Vec<(Affine, f64)>>();
        refined.into_iter().rev().max_by(|a, b| a.1.total_cmp(&b.1))
    }
    /// Describes a map.
    pub(crate) fn verified(&self, map: Affine, evidence: f64) -> Verified {
        let (model, target) = self.refining();
        let pairs = target.pairs(&map, model, target.inlier);
        let square = |&(p, q): &(Point, Point)| {
            let (x, y) = map.apply(p);
            (x - q.0).powi(2) + (y - q.1).powi(2)
        };
        let rmse = (pairs.iter().map(square).sum::<f32>() / pairs.len().max(1) as f32).sqrt();
        let inliers = pairs.iter().map(|&(p, _)| map.apply(p)).collect();
        Verified { map, inliers, evidence: evidence as f32, rmse }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chernoff_bounds_the_binomial_tail() {
        let choose =
            |n: usize, k: usize| (0..k).fold(1.0, |c, i| c * (n - i) as f64 / (i + 1) as f64);
        for (n, p) in [(10, 0.1), (30, 0.3), (50, 0.05)] {
            for k in 0..=n {
                let tail = (k..=n).map(|j| {
                    choose(n, j) * f64::powi(p, j as i32) * f64::powi(1.0 - p, (n - j) as i32)
                });
                assert!(tail.sum::<f64>().ln() <= log_chance(n, k, p) + 1e-9, "{n} {k} {p}");
            }
        }
    }

    /// A line also matches further along, and parallel lines one line further: neither proves
    /// anything, however many points agree. Points without such an order do.
    #[test]
    fn what_also_matches_beside_its_place_proves_nothing() {
        let line =
            |y: f32, step: f32| (0..(400.0 / step) as usize).map(move |i| (i as f32 * step, y));
        let of_model = |p: &Point| p.0 >= 100.0 && p.0 < 300.0;
        let one = line(200.0, 8.0).collect::<Vec<Point>>();
        let many = (0..25).flat_map(|k| line(15.0 * k as f32, 8.0)).collect::<Vec<Point>>();
        let mut random = koel_vision::synthetic::Random::new(1);
        let mut place = || (random.between(0.0, 400.0), random.between(0.0, 400.0));
        let scattered = (0..100).map(|_| place()).collect::<Vec<Point>>();
        for (scene, least, most) in [(one, 0.0, 6.9), (many, 0.0, 6.9), (scattered, 40.0, 400.0)] {
            let model = scene.iter().copied().filter(of_model).collect::<Vec<Point>>();
            let target = Target::new(&scene, 3.0);
            let found = -target.log_chance_beside(&Affine::IDENTITY, &model, 2);
            assert!((least..=most).contains(&found), "{} points: {found} nats", model.len());
            let by_density = -target.log_chance(&Affine::IDENTITY, &model, 2);
            assert!(by_density > 20.0, "{} points: {by_density} nats by density", model.len());
        }
    }
}

//! Homographies: maps of planes in perspective, refined from an affine pose.
use crate::affine::{Affine, corners};
use crate::edges::Edge;
use crate::matcher::{Matcher, NO_STEPS};
use crate::model::Model;
use crate::refine::{Frame, Likelihood, PointLists, Scored, inliers, refined};
use crate::scene::Scene;
use koel_kernels::vision::direction::direction;
use nalgebra::{Matrix3, SMatrix, SVector};

/// Maximum distance of edges, in pixels, in the first and the last step: from a compromise all over
/// the model, and from a map that fits a part of it, from where the homography grows.
const FROM_ALL: (f32, f32) = (8.0, 1.5);
const FROM_PART: (f32, f32) = (3.5, 1.5);
/// Fraction of the model's diagonal around the part's middle that counts in the first step; all of
/// it does in the last ones.
const PART: f32 = 0.15;
/// Distance of edges, in pixels, up to which a point shows that the map fits.
const FITS: f32 = 1.5;
/// Number of steps.
const STEPS: i32 = 24;
/// Relative damping of the two parameters of perspective.
const DAMPING: f64 = 1e-4;
/// Evidence, in nats, that the two further parameters must add.
const GAIN: f32 = 8.0;
/// Maximum ratio of the distances of two corners of the model from the viewer.
const MAX_DEPTH: f64 = 3.0;
/// Minimum number of edges per step.
const LEAST_EDGES: usize = 40;

/// Map of a plane seen in perspective: `x' = (a x + b y + c) / w`, `y' = (d x + e y + f) / w`,
/// `w = g x + h y + 1`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Homography {
    /// Rows `[a, b, c]`, `[d, e, f]`, `[g, h, 1]`.
    pub rows: [[f64; 3]; 3],
}

/// Place of a point under a homography, with its derivatives by x and y.
struct Local {
    at: (f64, f64),
    jacobian: [[f64; 2]; 2],
}

impl From<Affine> for Homography {
    fn from(map: Affine) -> Homography {
        let ([[a, b], [d, e]], [c, f]) =
            (map.linear.map(|row| row.map(f64::from)), map.shift.map(f64::from));
        Homography { rows: [[a, b, c], [d, e, f], [0.0, 0.0, 1.0]] }
    }
}

impl Homography {
    /// Maps a point; `None` if it lies on the horizon or beyond.
    pub fn apply(&self, (x, y): (f32, f32)) -> Option<(f32, f32)> {
        let [u, v, w] = self.rows.map(|[a, b, c]| a * x as f64 + b * y as f64 + c);
        (w > 1e-9).then(|| ((u / w) as f32, (v / w) as f32))
    }
    /// Composes two maps: `other` first, then `self`. `None` if the result has no third row ending
    /// in 1.
    pub fn after(&self, other: &Homography) -> Option<Homography> {
        Homography::of(self.matrix() * other.matrix())
    }
    /// Returns the inverse; `None` if the map is singular.
    pub fn inverse(&self) -> Option<Homography> {
        Homography::of(self.matrix().try_inverse()?)
    }
    /// Maps the centres of the four corner pixels of an image, in cyclic order; `None` if one lies
    /// on the horizon or beyond.
    pub fn outline(&self, width: usize, height: usize) -> Option<[(f32, f32); 4]> {
        let [a, b, c, d] = corners(width, height).map(|p| self.apply(p));
        Some([a?, b?, c?, d?])
    }
    fn matrix(&self) -> Matrix3<f64> {
        Matrix3::from_fn(|i, j| self.rows[i][j])
    }
    fn of(matrix: Matrix3<f64>) -> Option<Homography> {
        let matrix = matrix / matrix[(2, 2)];
        let rows = std::array::from_fn(|i| std::array::from_fn(|j| matrix[(i, j)]));
        matrix.iter().all(|v| v.is_finite()).then_some(Homography { rows })
    }
    /// Maps a point, with the derivatives there; `None` on the horizon or beyond.
    fn local(&self, (x, y): (f32, f32)) -> Option<Local> {
        let [u, v, w] = self.rows.map(|[a, b, c]| a * x as f64 + b * y as f64 + c);
        if w <= 1e-9 {
            return None;
        }
        let [[a, b, _], [d, e, _], [g, h, _]] = self.rows;
        let (px, py) = (u / w, v / w);
        let jacobian = [[(a - px * g) / w, (b - px * h) / w], [(d - py * g) / w, (e - py * h) / w]];
        Some(Local { at: (px, py), jacobian })
    }
    /// Places model points in the scene, with the directions they have there; `None` if one is
    /// beyond the horizon.
    fn placed(&self, points: &[Edge]) -> Option<Vec<Edge>> {
        let one = |e: &Edge| {
            let Local { at: (x, y), jacobian: [[a, b], [c, d]] } = self.local((e.x, e.y))?;
            let linear = [[a as f32, b as f32], [c as f32, d as f32]];
            let (nx, ny) = Affine { linear, shift: [0.0; 2] }.apply_normal(e.normal);
            let length = nx.hypot(ny).max(1e-12);
            let normal = (nx / length, ny / length);
            let direction = direction(normal.0, normal.1);
            Some(Edge { x: x as f32, y: y as f32, normal, direction, ..*e })
        };
        points.iter().map(one).collect()
    }
    /// Returns whether the model's corners are in front of the viewer and no side is turned over.
    fn is_plausible(&self, width: f32, height: f32) -> bool {
        let ends = [(0.0, 0.0), (width, 0.0), (width, height), (0.0, height)];
        let [_, _, [g, h, _]] = self.rows;
        let depths = ends.map(|(x, y)| g * x as f64 + h * y as f64 + 1.0);
        let nearest = depths.iter().fold(f64::MAX, |a, &b| a.min(b));
        let farthest = depths.iter().fold(0.0f64, |a, &b| a.max(b));
        let area = |Local { jacobian: [[a, b], [c, d]], .. }: Local| a * d - b * c;
        let upright = |p: (f32, f32)| self.local(p).map(area).is_some_and(|area| area > 1e-4);
        nearest > 0.0 && farthest <= MAX_DEPTH * nearest && ends.into_iter().all(upright)
    }
}

impl Matcher {
    /// Refines an affine pose to a homography, from points of a model to those of the scene;
    /// `None` if no plausible one has clearly more evidence. `of_part` is the pose before it was
    /// fitted to the whole model.
    ///
    /// Gauss-Newton steps on the host, from the edges next to the contour: 48 launches, and about
    /// 20 more for the evidence.
    pub(crate) fn perspective(
        &self,
        model: &Model,
        scene: &Scene,
        (map, of_part): (Affine, Affine),
    ) -> koel::Result<Option<Homography>> {
        let start = Homography::from(map);
        let mut required = self.evidence_of(model, scene, &start)? + GAIN;
        let mut best = None;
        let middle = self.best_part(model, scene, &of_part)?;
        let attempts = [(start, FROM_ALL, None), (of_part.into(), FROM_PART, Some(middle))];
        for (start, radii, middle) in attempts {
            let Some(map) = self.attempt(model, scene, start, (radii, middle))? else { continue };
            let evidence = self.evidence_of(model, scene, &map)?;
            if evidence >= required {
                (best, required) = (Some(map), evidence);
            }
        }
        Ok(best)
    }
    /// Returns the contour point around which a map fits best.
    fn best_part(&self, model: &Model, scene: &Scene, map: &Affine) -> koel::Result<(f32, f32)> {
        let near = inliers(&self.stream, map, &model.contour, scene, FITS)?;
        let (width, height) = model.working();
        let reach = PART * width.hypot(height);
        let around = |p: (f32, f32)| {
            near.iter().filter(|i| (i.point.0 - p.0).hypot(i.point.1 - p.1) < reach).count()
        };
        let places = model.contour.iter().map(|e| (e.x, e.y)).step_by(20);
        Ok(places.max_by_key(|&p| around(p)).unwrap_or((0.0, 0.0)))
    }
    /// Moves a map to the edges, growing from `middle` if there is one; `None` if too few edges are
    /// near or the map degenerates.
    fn attempt(
        &self,
        model: &Model,
        scene: &Scene,
        mut map: Homography,
        ((first, last), middle): ((f32, f32), Option<(f32, f32)>),
    ) -> koel::Result<Option<Homography>> {
        let (width, height) = model.working();
        let shrink = (last / first).powf(1.0 / (STEPS - 1) as f32);
        for step in 0..STEPS {
            let part = (step as f32 / (STEPS / 2) as f32).clamp(PART, 1.0);
            let reach = middle.map(|middle| (middle, part * width.hypot(height)));
            let counts =
                |e: &&Edge| reach.is_none_or(|((x, y), reach)| (e.x - x).hypot(e.y - y) <= reach);
            let points = model.contour.iter().filter(counts).copied().collect::<Vec<Edge>>();
            let Some(placed) = map.placed(&points) else { return Ok(None) };
            let radius = first * shrink.powi(step);
            let next = self.step(model, scene, (&map, &points, &placed), radius)?;
            match next.filter(|next| next.is_plausible(width, height)) {
                Some(next) => map = next,
                None => return Ok(None),
            }
        }
        Ok(Some(map))
    }
    /// Returns a map closer to the edges within `radius` of the placed contour; `None` if there are
    /// too few.
    fn step(
        &self,
        model: &Model,
        scene: &Scene,
        (current, points, placed): (&Homography, &[Edge], &[Edge]),
        radius: f32,
    ) -> koel::Result<Option<Homography>> {
        let near = inliers(&self.stream, &Affine::IDENTITY, placed, scene, radius)?;
        if near.len() < LEAST_EDGES {
            return Ok(None);
        }
        // In the frame of the points, all parameters are of one size.
        let frame = Frame::of(model);
        let (to_frame, from_frame) = frame.maps();
        let Some(inner) = current.after(&from_frame.into()) else { return Ok(None) };
        let mut normal = SMatrix::<f64, 8, 8>::zeros();
        let mut right = SVector::<f64, 8>::zeros();
        for i in &near {
            let e = &points[i.index];
            let (x, y) = to_frame.apply((e.x, e.y));
            let [_, _, [g, h, _]] = inner.rows;
            let w = g * x as f64 + h * y as f64 + 1.0;
            let (x, y, nx, ny) = (x as f64, y as f64, i.normal.0 as f64, i.normal.1 as f64);
            let along = nx * i.at.0 as f64 + ny * i.at.1 as f64;
            let row = [nx * x, nx * y, nx, ny * x, ny * y, ny, -along * x, -along * y];
            let row = SVector::<f64, 8>::from(row) / w;
            let off = (i.across / radius) as f64;
            let weight = (1.0 - off * off).max(0.0).powi(2);
            normal += weight * row * row.transpose();
            right += weight * i.across as f64 * row;
        }
        for k in 0..8 {
            normal[(k, k)] *= 1.0 + if k < 6 { 1e-9 } else { DAMPING };
        }
        let Some(factors) = normal.cholesky() else { return Ok(None) };
        let change = factors.solve(&right);
        let mut rows = inner.rows;
        for k in 0..8 {
            rows[k / 3][k % 3] += change[k];
        }
        Ok(Homography { rows }.after(&to_frame.into()))
    }
    /// Returns the fine evidence of a homography, in nats.
    fn evidence_of(&self, model: &Model, scene: &Scene, map: &Homography) -> koel::Result<f32> {
        let Some(placed) = map.placed(&model.points) else { return Ok(f32::MIN) };
        let mut points = PointLists::default();
        points.push(Frame::NONE, placed.iter(), Some(&model.weights));
        let points = points.upload(self.stream.device())?;
        let here = [Scored { model: 0, map: Affine::IDENTITY, score: 0.0 }];
        Ok(refined(&self.stream, scene, &points, Likelihood::Fine, NO_STEPS, &here)?[0].score)
    }
}

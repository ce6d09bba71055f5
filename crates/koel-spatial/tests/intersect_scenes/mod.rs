//! Clouds of solids with a closed-form signed distance, simulated scanner errors, and the errors of
//! labels.
#![allow(dead_code, reason = "each user takes what it needs")]

use koel_spatial::intersect::{Boolean, Intersector, Label, Pose, Side};
use koel_spatial::{Mesh, PointCloud};
use std::f64::consts::{PI, TAU};

pub(crate) type V = [f64; 3];

/// Random numbers: SplitMix64 (Steele, Lea and Flood 2014).
pub(crate) struct Random(pub u64);
impl Random {
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }
    pub(crate) fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.unit()).ln()).sqrt() * (TAU * self.unit()).cos()
    }
    pub(crate) fn direction(&mut self) -> V {
        let z = self.between(-1.0, 1.0);
        let (r, a) = ((1.0 - z * z).max(0.0).sqrt(), TAU * self.unit());
        [r * a.cos(), r * a.sin(), z]
    }
    pub(crate) fn pose(&mut self, moved: V) -> Pose {
        let axis = self.direction();
        Pose::turned(axis, self.between(0.0, TAU), [0.0; 3], moved)
    }
}
pub(crate) fn dot(a: V, b: V) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}
fn length(a: V) -> f64 {
    dot(a, a).sqrt()
}

/// Surface around the origin.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Shape {
    Sphere(f64),
    /// Around the z axis.
    Torus {
        major: f64,
        minor: f64,
    },
    /// Given by its half extents.
    Plate(V),
    /// Ball with a concentric hole.
    Hollow {
        outer: f64,
        inner: f64,
    },
    /// Part of a sphere with z above a threshold: open. Its distance includes a flat lid.
    Cap {
        radius: f64,
        above: f64,
    },
}
use Shape::*;
impl Shape {
    /// Returns the signed distance, negative inside.
    pub(crate) fn distance(self, p: V) -> f64 {
        match self {
            Sphere(r) => length(p) - r,
            Cap { radius, above } => (length(p) - radius).max(above - p[2]),
            Torus { major, minor } => (p[0].hypot(p[1]) - major).hypot(p[2]) - minor,
            Plate(e) => {
                let q = [0, 1, 2].map(|a| p[a].abs() - e[a]);
                length(q.map(|c| c.max(0.0))) + q[0].max(q[1]).max(q[2]).min(0.0)
            }
            Hollow { outer, inner } => (length(p) - outer).max(inner - length(p)),
        }
    }
    /// Samples a point uniformly on the surface, with its outward normal.
    fn sample(self, random: &mut Random) -> (V, V) {
        match self {
            Sphere(r) => {
                let n = random.direction();
                (n.map(|c| r * c), n)
            }
            Cap { radius, above } => {
                let z = random.between(above / radius, 1.0);
                let (r, a) = ((1.0 - z * z).sqrt(), TAU * random.unit());
                let n = [r * a.cos(), r * a.sin(), z];
                (n.map(|c| radius * c), n)
            }
            Torus { major, minor } => loop {
                let (u, v) = (TAU * random.unit(), TAU * random.unit());
                let ring = major + minor * v.cos();
                if random.unit() * (major + minor) <= ring {
                    let n = [v.cos() * u.cos(), v.cos() * u.sin(), v.sin()];
                    return ([ring * u.cos(), ring * u.sin(), minor * v.sin()], n);
                }
            },
            Plate(e) => {
                let areas = [e[1] * e[2], e[0] * e[2], e[0] * e[1]];
                let mut pick = random.unit() * (areas[0] + areas[1] + areas[2]);
                let mut axis = 0;
                while axis < 2 && pick > areas[axis] {
                    pick -= areas[axis];
                    axis += 1;
                }
                let sign = if random.unit() < 0.5 { -1.0 } else { 1.0 };
                let mut p = e.map(|c| random.between(-c, c));
                p[axis] = sign * e[axis];
                let mut n = [0.0; 3];
                n[axis] = sign;
                (p, n)
            }
            Hollow { outer, inner } => {
                let n = random.direction();
                if random.unit() * (outer * outer + inner * inner) < outer * outer {
                    (n.map(|c| outer * c), n)
                } else {
                    (n.map(|c| inner * c), n.map(|c| -c))
                }
            }
        }
    }
    pub(crate) fn area(self) -> f64 {
        match self {
            Sphere(r) => 4.0 * PI * r * r,
            Torus { major, minor } => 4.0 * PI * PI * major * minor,
            Plate(e) => 8.0 * (e[0] * e[1] + e[1] * e[2] + e[2] * e[0]),
            Hollow { outer, inner } => 4.0 * PI * (outer * outer + inner * inner),
            Cap { .. } => f64::NAN,
        }
    }
    pub(crate) fn volume(self) -> f64 {
        match self {
            Sphere(r) => 4.0 / 3.0 * PI * r.powi(3),
            Torus { major, minor } => 2.0 * PI * PI * major * minor * minor,
            Plate(e) => 8.0 * e[0] * e[1] * e[2],
            Hollow { outer, inner } => 4.0 / 3.0 * PI * (outer.powi(3) - inner.powi(3)),
            Cap { .. } => f64::NAN,
        }
    }
}

/// Simulated scanner errors; lengths in voxels.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scan {
    /// Standard deviation of Gaussian noise of each coordinate.
    pub noise: f64,
    /// Standard deviation of Gaussian noise of each normal's direction, in degrees.
    pub degrees: f64,
    /// Share of points at random positions.
    pub outliers: f64,
    /// Share of normals that point inward.
    pub flipped: f64,
    /// Unseen share of a sphere's surface, around +x.
    pub hole: f64,
    /// Density at -z divided by density at +z.
    pub density: f64,
}
/// Cloud with the true surface position of each point; `None` for outliers.
pub(crate) struct Scanned {
    pub cloud: PointCloud,
    pub truth: Vec<Option<V>>,
    /// Area represented by each point.
    pub weights: Vec<f64>,
}
/// Scans `n` points of a shape of about unit size, with voxels of size `h`.
pub(crate) fn scan(shape: Shape, n: usize, scan: Scan, h: f64, random: &mut Random) -> Scanned {
    let (mut positions, mut normals, mut truth, mut weights) = (vec![], vec![], vec![], vec![]);
    while positions.len() < n {
        let (p, mut normal) = shape.sample(random);
        if scan.hole > 0.0 && p[0] / length(p) > 1.0 - 2.0 * scan.hole {
            continue;
        }
        let mut weight = 1.0;
        if scan.density > 1.0 {
            let share = (0.5 - 0.5 * p[2] / length(p)).clamp(0.0, 1.0);
            let density = scan.density.powf(share - 1.0);
            if random.unit() > density {
                continue;
            }
            weight = 1.0 / density;
        }
        if random.unit() < scan.outliers {
            positions.push([0; 3].map(|_| random.between(-1.1, 1.1) as f32));
            normals.push(random.direction().map(|c| c as f32));
            truth.push(None);
            weights.push(0.0);
            continue;
        }
        if scan.degrees > 0.0 {
            let other = random.direction();
            let along = dot(other, normal);
            let tangent: V = std::array::from_fn(|a| other[a] - along * normal[a]);
            let (angle, size) = ((random.normal() * scan.degrees).to_radians(), length(tangent));
            normal =
                std::array::from_fn(|a| normal[a] * angle.cos() + tangent[a] / size * angle.sin());
        }
        if random.unit() < scan.flipped {
            normal = normal.map(|c| -c);
        }
        positions.push(std::array::from_fn(|a| (p[a] + scan.noise * h * random.normal()) as f32));
        normals.push(normal.map(|c| c as f32));
        truth.push(Some(p));
        weights.push(weight);
    }
    Scanned { cloud: PointCloud { positions, normals: Some(normals) }, truth, weights }
}

/// Errors of the labels of one cloud, as shares of its area.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Errors {
    /// On the wrong side, more than 2 voxels from the other surface.
    pub far: f64,
    /// On the wrong side.
    pub wrong: f64,
    pub unknown: f64,
    /// |estimated share inside - true share|.
    pub share: f64,
}
impl Errors {
    pub(crate) fn worst(self, other: Errors) -> Errors {
        Errors {
            far: self.far.max(other.far),
            wrong: self.wrong.max(other.wrong),
            unknown: self.unknown.max(other.unknown),
            share: self.share.max(other.share),
        }
    }
}
/// Compares labels with the true side of each point. An intersection states only that both clouds
/// occupy the voxel and implies no side.
pub(crate) fn errors(
    scanned: &Scanned,
    pose: &Pose,
    labels: &[Label],
    other: Shape,
    of_other: &Pose,
    h: f64,
) -> Errors {
    let mut e = Errors::default();
    let (mut all, mut said, mut inside, mut certain) = (0.0, 0.0, 0.0, 0.0);
    for ((truth, &weight), label) in scanned.truth.iter().zip(&scanned.weights).zip(labels) {
        let Some(p) = truth else { continue };
        let p = pose.apply(*p);
        let moved: V = std::array::from_fn(|a| p[a] - of_other.translation[a]);
        let r = &of_other.rotation;
        let local: V =
            std::array::from_fn(|c| r[0][c] * moved[0] + r[1][c] * moved[1] + r[2][c] * moved[2]);
        let d = other.distance(local);
        let is_wrong = match label {
            Label::Inside => d > 0.0,
            Label::Outside => d < 0.0,
            Label::Intersection | Label::Unknown => false,
        };
        all += weight;
        inside += if d < 0.0 { weight } else { 0.0 };
        e.wrong += if is_wrong { weight } else { 0.0 };
        e.far += if is_wrong && d.abs() > 2.0 * h { weight } else { 0.0 };
        match label {
            Label::Unknown => e.unknown += weight,
            Label::Intersection => (said, certain) = (said + 0.5 * weight, certain + weight),
            Label::Inside => (said, certain) = (said + weight, certain + weight),
            Label::Outside => certain += weight,
        }
    }
    e.share = if certain > 0.0 { (said / certain - inside / all).abs() } else { 1.0 };
    Errors { far: e.far / all, wrong: e.wrong / all, unknown: e.unknown / all, share: e.share }
}

/// Solid in its pose.
pub(crate) type Placed<'a> = (Shape, &'a Pose);

/// Returns the signed distance of a position from a placed solid.
pub(crate) fn distance_of((shape, pose): Placed<'_>, p: V) -> f64 {
    let moved: V = std::array::from_fn(|a| p[a] - pose.translation[a]);
    let r = &pose.rotation;
    shape.distance(std::array::from_fn(|c| {
        r[0][c] * moved[0] + r[1][c] * moved[1] + r[2][c] * moved[2]
    }))
}
/// Returns the signed distance from the surface of a Boolean; outside near creases it is a lower
/// bound of its size.
pub(crate) fn distance_of_boolean(boolean: Boolean, solids: [Placed<'_>; 2], p: V) -> f64 {
    let [a, b] = solids.map(|solid| distance_of(solid, p));
    match boolean {
        Boolean::Union => a.min(b),
        Boolean::Intersection => a.max(b),
        Boolean::Difference => a.max(-b),
        Boolean::ReverseDifference => b.max(-a),
    }
}
/// Returns the true volumes of [`Boolean::ALL`]. See [`volume_of_both`] for `n`.
pub(crate) fn volumes_of(solids: [Placed<'_>; 2], n: u32) -> [f64; 4] {
    let [a, b] = solids.map(|(shape, _)| shape.volume());
    let found = volume_of_both(solids[0], solids[1], n);
    // The sum over boxes is not exact for a solid inside the other one.
    let both = [a, b].into_iter().find(|v| (found - v).abs() < 1e-3 * v).unwrap_or(found);
    [a + b - both, both, a - both, b - both]
}
/// Returns the areas of [`Boolean::ALL`] from `n` random points of each surface.
pub(crate) fn areas_of(solids: [Placed<'_>; 2], n: usize) -> [f64; 4] {
    let mut random = Random(99);
    let mut parts = [[0.0; 2]; 2];
    for side in 0..2 {
        let (shape, pose) = solids[side];
        for _ in 0..n {
            let p = pose.apply(shape.sample(&mut random).0);
            let is_inside = distance_of(solids[1 - side], p) < 0.0;
            parts[side][usize::from(is_inside)] += shape.area() / n as f64;
        }
    }
    let [[a_out, a_in], [b_out, b_in]] = parts;
    [a_out + b_out, a_in + b_in, a_out + b_in, b_out + a_in]
}
/// How far a mesh is from the surface of a Boolean.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MeshErrors {
    pub area: f64,
    pub volume: f64,
    /// Of points of the triangles, weighted by area.
    pub mean_distance: f64,
    pub max_distance: f64,
    /// Share of the area of triangles that face inward.
    pub inverted: f64,
}
pub(crate) fn mesh_errors(mesh: &Mesh, boolean: Boolean, solids: [Placed<'_>; 2]) -> MeshErrors {
    let mut e = MeshErrors::default();
    let of = |p: V| distance_of_boolean(boolean, solids, p);
    for t in &mesh.triangles {
        let [a, b, c] = t.map(|i| mesh.positions[i as usize].map(f64::from));
        let (u, v): (V, V) =
            (std::array::from_fn(|i| b[i] - a[i]), std::array::from_fn(|i| c[i] - a[i]));
        let normal =
            [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
        let area = 0.5 * length(normal);
        let middle: V = std::array::from_fn(|i| (a[i] + b[i] + c[i]) / 3.0);
        // Three corners and the middle: exact for quadratic distances.
        for (p, w) in [(a, 1.0 / 12.0), (b, 1.0 / 12.0), (c, 1.0 / 12.0), (middle, 0.75)] {
            let d = of(p).abs();
            e.mean_distance += w * area * d;
            e.max_distance = e.max_distance.max(d);
        }
        let ahead = |sign: f64| {
            let by = sign * 0.02 * area.sqrt() / length(normal).max(1e-300);
            of(std::array::from_fn(|i| middle[i] + by * normal[i]))
        };
        e.inverted += if ahead(1.0) < ahead(-1.0) { area } else { 0.0 };
        e.area += area;
        e.volume += dot(a, normal) / 6.0;
    }
    e.mean_distance /= e.area;
    e.inverted /= e.area;
    e
}

/// Returns the volume of the intersection of two placed solids. Boxes of [-1.6, 1.6]^3 are halved
/// until no surface crosses them or there are n per side (a power of two); boxes at a surface count
/// partially. Thin solids need much thinner boxes.
pub(crate) fn volume_of_both(a: Placed<'_>, b: Placed<'_>, n: u32) -> f64 {
    share_inside(&|p| distance_of(a, p).max(distance_of(b, p)), [0.0; 3], 1.6, n) * 3.2f64.powi(3)
}
/// Returns the share of a box (given by its centre and half side) where a distance is negative.
fn share_inside(distance: &dyn Fn(V) -> f64, centre: V, half: f64, n: u32) -> f64 {
    let d = distance(centre);
    if n == 1 || d.abs() > half * 3f64.sqrt() {
        return (0.5 - 0.5 * d / half).clamp(0.0, 1.0);
    }
    let part = |i: usize| {
        let at = std::array::from_fn(|a| {
            centre[a] + if i >> a & 1 == 0 { -0.5 * half } else { 0.5 * half }
        });
        share_inside(distance, at, 0.5 * half, n / 2)
    };
    (0..8).map(part).sum::<f64>() / 8.0
}
/// Asserts that every label and every measure agree.
#[track_caller]
pub(crate) fn assert_same(found: &mut Intersector, expected: &mut Intersector) {
    for side in Side::BOTH {
        assert_eq!(found.voxels(side).unwrap(), expected.voxels(side).unwrap());
        assert_eq!(found.point_labels(side).unwrap(), expected.point_labels(side).unwrap());
    }
    let measures = |i: &mut Intersector| format!("{:?}", i.summary().unwrap()); // NaN if empty
    assert_eq!(measures(found), measures(expected));
}

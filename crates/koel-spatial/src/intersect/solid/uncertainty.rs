//! Volumes under smooth surfaces, and how far they may be off.

use super::pieces::{Plane, Touch};
use super::quads::Quads;
use super::rows::Face;
use super::{Solids, touch};
use crate::intersect::Boolean;
use crate::thickness::ThinPiece;
use rayon::prelude::*;

/// Least uncertainty of a surface's position, in voxels.
const LEAST_OFFSET: f64 = 0.015;
/// Uncertainty of a surface's position for each voxel of spread of its points.
const OFFSET_BY_SPREAD: f64 = 0.05;
/// Uncertainty for each voxel of the volume between voxels and surface.
const OFFSET_BY_DEPTH: f64 = 0.2;
/// Height of the volume under or above a lid, for each unit of its radius. A hole of 5 % of a
/// sphere has 0.12.
const HEIGHT_OF_LID: f64 = 0.35;
/// Uncertainty of the thickness of walls and gaps that are thinner than a voxel, in voxels.
const RISK_OF_THIN_PARTS: f64 = 1.0;
/// Thickness, in voxels, below which sheets nearly cancel each other and voxels beside them may be
/// filled: the uncertainty grows as the thickness falls, up to four times.
const STEADY_THICKNESS: f64 = 0.3;
/// Area of a lid for each of its voxel faces.
const AREA_OF_FACE: f64 = 2.0 / 3.0;
/// Faces whose sums are one part, whatever the number of threads: the order of additions is fixed.
const FACES_AT_ONCE: usize = 4096;

/// Volume of a solid, with an estimate of its error, in cubic units of the points.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Volume {
    /// Volume under the smooth surface.
    pub volume: f64,
    /// Estimate of how far it may be off.
    pub error: f64,
}

/// Sums over faces of voxels.
#[derive(Clone, Copy, Default)]
struct Sums {
    /// Volume between the faces and the planes that touch the surface.
    between: f64,
    /// Area.
    area: f64,
    /// Area times mean square spread.
    spread: f64,
    /// Volume that lids may miss.
    lids: f64,
}
impl Sums {
    fn add(&mut self, other: Sums) {
        self.between += other.between;
        self.area += other.area;
        self.spread += other.spread;
        self.lids += other.lids;
    }
    /// Returns the uncertainty of the volume, in voxels.
    fn error(self) -> f64 {
        let spread = (self.spread / self.area.max(1.0)).sqrt();
        OFFSET_BY_DEPTH * self.between.abs()
            + (LEAST_OFFSET + OFFSET_BY_SPREAD * spread) * self.area
            + self.lids
    }
}
/// Sums over the faces of one solid.
#[derive(Clone, Copy, Default)]
struct OfSolid {
    /// Volume between its faces and its surface, and the part of that in the other solid.
    between: f64,
    between_inside: f64,
    /// Sums over the faces that bound each Boolean.
    bounding: [Sums; 4],
}
impl OfSolid {
    fn add(&mut self, other: OfSolid) {
        self.between += other.between;
        self.between_inside += other.between_inside;
        for (sum, other) in self.bounding.iter_mut().zip(other.bounding) {
            sum.add(other);
        }
    }
}

impl Solids {
    /// Returns the volumes of [`Boolean::ALL`] under the smooth surfaces, with estimates of their
    /// errors. They are more accurate than [the volumes of the voxels](Self::volume). The estimate
    /// of a Boolean adds, over the parts of both surfaces that bound it:
    ///
    /// * the area times the uncertainty of the surface's position: 0.015 voxels, and 0.05 of the
    ///   distance of the points from the surface (root mean square),
    /// * a fifth of the volume between the voxels and the surface,
    /// * at holes, 0.35 of the radius times the area of the lid,
    /// * where walls or gaps are thinner than a voxel ([`thinness`](crate::thinness())), a voxel
    ///   times their area, up to four below 0.3 voxels.
    ///
    /// It is an estimate, not a bound: it knows nothing of surface that the scan does not show.
    ///
    /// Cost: a least squares fit for each face of a voxel of A and of B, on the threads of the
    /// device if that is a CPU, or those of rayon. The result has the same bits on every device.
    pub fn volumes(&self) -> [Volume; 4] {
        self.device.install(|| self.volumes_under_planes())
    }
    fn volumes_under_planes(&self) -> [Volume; 4] {
        let of = [0, 1].map(|side| self.sums_of(side));
        let [a, b] = [0, 1].map(|side| self.solids[side].count() as f64 + of[side].between);
        let both = self.combined(Boolean::Intersection).count() as f64
            + of[0].between_inside
            + of[1].between_inside;
        let thin = [0, 1].map(|side| self.at_thin_parts(side));
        let voxel = self.grid.voxel_size().powi(3);
        let volumes = [a + b - both, both, a - both, b - both];
        std::array::from_fn(|op| Volume {
            volume: voxel * volumes[op].max(0.0),
            error: voxel * (of[0].bounding[op].error() + of[1].bounding[op].error())
                + voxel * (thin[0][op] + thin[1][op]),
        })
    }
    /// Returns what thin parts of a surface may add to or take from each Boolean, in voxels.
    fn at_thin_parts(&self, side: usize) -> [f64; 4] {
        let mut sums = [0.0; 4];
        for &ThinPiece { voxel, thickness, area } in &self.thin[side].pieces {
            let around = (0..27).map(|i: i32| [i / 9 - 1, i / 3 % 3 - 1, i % 3 - 1]);
            let beside = around.map(|by| [0, 1, 2].map(|a| voxel[a] + by[a]));
            let is_inside = |v: [i32; 3]| self.solids[1 - side].is_inside(v);
            let (mut inside, mut outside) = (self.thin[1 - side].is_near(voxel), false);
            beside.for_each(|v| if is_inside(v) { inside = true } else { outside = true });
            // Both sides of a wall have its area.
            let growth = (STEADY_THICKNESS / thickness.max(1e-9)).clamp(1.0, 4.0);
            let risk = 0.5 * RISK_OF_THIN_PARTS * growth * area;
            for (sum, boolean) in sums.iter_mut().zip(Boolean::ALL) {
                let other = [(inside, u64::MAX), (outside, 0)];
                let matters = other.into_iter().any(|(is_there, other)| {
                    let of = |own: u64| match side {
                        0 => boolean.of(own, other),
                        _ => boolean.of(other, own),
                    };
                    is_there && of(0) != of(u64::MAX)
                });
                *sum += if matters { risk } else { 0.0 };
            }
        }
        sums
    }
    /// Sums over the faces of a solid.
    fn sums_of(&self, side: usize) -> OfSolid {
        let faces = self.solids[side].faces();
        let touches = faces.par_iter().map(|&face| touch(face, true)).collect::<Vec<Touch>>();
        let planes = self.surfaces[side].planes(&touches);
        let measure = |(face, plane): (&Face, Option<Plane>)| {
            let plane = plane?;
            let (centre, axis) = (face.centre(), usize::from(face.axis));
            let normal = plane.normal.map(f64::from);
            let along = |a: usize| normal[a] * f64::from(plane.point[a] - centre[a]);
            let share = normal[axis].abs();
            Some(Sums {
                // The faces of each axis alone make up the whole volume; the squares of a normal
                // add up to 1.
                between: (along(0) + along(1) + along(2)) * share,
                area: share,
                spread: share * f64::from(plane.spread).powi(2),
                lids: 0.0,
            })
        };
        let found = faces.par_iter().zip(planes).map(measure).collect::<Vec<_>>();
        let radii = radii_of_lids(&faces, &found);
        let parts = faces.par_chunks(FACES_AT_ONCE).zip(found.par_chunks(FACES_AT_ONCE));
        let parts = parts
            .zip(radii.par_chunks(FACES_AT_ONCE))
            .map(|((faces, found), radii)| self.sums_of_some(side, faces, found, radii));
        let mut sums = OfSolid::default();
        parts.collect::<Vec<OfSolid>>().into_iter().for_each(|part| sums.add(part));
        sums
    }
    /// Sums over some faces of a solid.
    fn sums_of_some(
        &self,
        side: usize,
        faces: &[Face],
        found: &[Option<Sums>],
        radii: &[f64],
    ) -> OfSolid {
        let mut sums = OfSolid::default();
        for ((face, found), radius) in faces.iter().zip(found).zip(radii) {
            let lid = Sums { lids: AREA_OF_FACE * HEIGHT_OF_LID * radius, ..Sums::default() };
            let own = found.unwrap_or(lid);
            let voxels = face.voxels().map(|voxel| self.inside(voxel).map(u64::from));
            sums.between += own.between;
            // Half, if the other surface passes between the voxels, too.
            let inside = voxels[0][1 - side] + voxels[1][1 - side];
            sums.between_inside += 0.5 * inside as f64 * own.between;
            for (sum, boolean) in sums.bounding.iter_mut().zip(Boolean::ALL) {
                let [within, beyond] = voxels.map(|[a, b]| boolean.of(a, b) & 1);
                if within != beyond {
                    sum.add(own);
                }
            }
        }
        sums
    }
}
/// Returns the radius, in voxels, of the lid that each face without a plane belongs to; 0 for other
/// faces. A lid is a set of such faces that share corners.
fn radii_of_lids(faces: &[Face], found: &[Option<Sums>]) -> Vec<f64> {
    let mut radii = vec![0.0; faces.len()];
    let open = (0..faces.len()).filter(|&i| found[i].is_none()).collect::<Vec<usize>>();
    let quads = Quads::of(open.iter().map(|&i| faces[i]).collect());
    let mut is_reached = vec![false; open.len()];
    for first in 0..open.len() {
        if is_reached[first] {
            continue;
        }
        is_reached[first] = true;
        let mut lid = vec![first];
        let mut next = 0;
        while next < lid.len() {
            for vertex in quads.vertices[lid[next]] {
                for &face in quads.around(vertex as usize) {
                    let face = face as usize;
                    if !is_reached[face] {
                        is_reached[face] = true;
                        lid.push(face);
                    }
                }
            }
            next += 1;
        }
        let area = AREA_OF_FACE * lid.len() as f64;
        let radius = (area / std::f64::consts::PI).sqrt();
        lid.into_iter().for_each(|face| radii[open[face]] = radius);
    }
    radii
}

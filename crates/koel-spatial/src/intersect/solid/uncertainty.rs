//! How far volumes of voxels may be off.

use super::Solids;
use super::pieces::Piece;
use super::quads::Quads;
use crate::intersect::Boolean;
use rayon::prelude::*;

/// Least uncertainty of a surface's position, in voxels.
const LEAST_OFFSET: f64 = 0.02;
/// Uncertainty of a surface's position for each voxel of spread of its points.
const OFFSET_BY_SPREAD: f64 = 0.15;
/// Height of the volume under or above a lid, for each unit of its radius. A hole of 5 % of a
/// sphere has 0.12.
const HEIGHT_OF_LID: f64 = 0.25;
/// Area of a lid for each of its voxel faces.
const AREA_OF_FACE: f64 = 2.0 / 3.0;

/// Sums over the faces of a Boolean that one of the surfaces causes.
#[derive(Clone, Copy, Default)]
struct Sums {
    /// Volume between the voxels and the planes.
    between: f64,
    /// Area.
    area: f64,
    /// Area times mean square spread.
    spread: f64,
    /// Volume at lids.
    lids: f64,
}
impl Sums {
    fn add(self, other: Sums) -> Sums {
        Sums {
            between: self.between + other.between,
            area: self.area + other.area,
            spread: self.spread + other.spread,
            lids: self.lids + other.lids,
        }
    }
    /// Returns the uncertainty of the volume, in voxels.
    fn error(self) -> f64 {
        let spread = (self.spread / self.area.max(1.0)).sqrt();
        self.between.abs() + (LEAST_OFFSET + OFFSET_BY_SPREAD * spread) * self.area + self.lids
    }
}

impl Solids {
    /// Estimates how far each [volume](Self::volume) may be off, in the order of [`Boolean::ALL`],
    /// in cubic units of the points. The estimate adds, over the surfaces that bound the Boolean:
    ///
    /// * the volume between the voxels and the [smooth surface](Self::smooth_mesh),
    /// * the area times the uncertainty of the surface's position: 0.02 voxels, and 0.15 of the
    ///   distance of the points from the surface (root mean square),
    /// * at holes, a quarter of the radius times the area of the lid.
    ///
    /// It is an estimate, not a bound: it cannot know of surface that the scan does not show. Cost:
    /// as of a smooth mesh of both surfaces.
    pub fn volume_errors(&self) -> [f64; 4] {
        let [a, b] = [0, 1].map(|side| self.sums_of(side));
        let voxel = self.grid.voxel_size().powi(3);
        [0, 1, 2, 3].map(|op| voxel * (a[op].error() + b[op].error()))
    }
    /// Sums over the faces of a solid that bound each Boolean.
    fn sums_of(&self, side: usize) -> [Sums; 4] {
        let mut solid = self.solids[side].clone();
        solid.fill_edges();
        let quads = Quads::of(&solid);
        let offset = |scratch: &mut Vec<Piece>, face: &super::Face| {
            let plane = self.plane_of(side, *face, true, scratch)?;
            let (centre, axis) = (face.centre(), usize::from(face.axis));
            let normal = plane.normal.map(f64::from);
            let along = |a: usize| normal[a] * f64::from(plane.point[a] - centre[a]);
            let share = normal[axis].abs();
            Some(Sums {
                // Each axis' faces alone make up the whole volume; the squares of a normal add up
                // to 1.
                between: (along(0) + along(1) + along(2)) * share,
                area: share,
                spread: share * f64::from(plane.spread).powi(2),
                lids: 0.0,
            })
        };
        let found = quads.faces.par_iter().map_init(Vec::new, offset).collect::<Vec<_>>();
        let radii = radii_of_lids(&quads, &found);
        let mut sums = [Sums::default(); 4];
        for ((face, found), radius) in quads.faces.iter().zip(found).zip(radii) {
            let [inside, outside] = face.voxels().map(|voxel| self.inside(voxel).map(u64::from));
            let own = found
                .unwrap_or(Sums { lids: AREA_OF_FACE * HEIGHT_OF_LID * radius, ..Sums::default() });
            for (sum, boolean) in sums.iter_mut().zip(Boolean::ALL) {
                let [within, beyond] = [inside, outside].map(|[a, b]| boolean.of(a, b) & 1);
                if within != beyond {
                    *sum = sum.add(own);
                }
            }
        }
        sums
    }
}
/// Returns the radius, in voxels, of the lid that each face without a plane belongs to; 0 for other
/// faces.
fn radii_of_lids(quads: &Quads, found: &[Option<Sums>]) -> Vec<f64> {
    let mut lid = vec![u32::MAX; found.len()];
    let mut radii = vec![0.0; found.len()];
    for first in 0..found.len() {
        if found[first].is_some() || lid[first] != u32::MAX {
            continue;
        }
        lid[first] = first as u32;
        let mut faces = vec![first];
        let mut next = 0;
        while next < faces.len() {
            for vertex in quads.vertices[faces[next]] {
                for &face in quads.around(vertex as usize) {
                    let face = face as usize;
                    if found[face].is_none() && lid[face] == u32::MAX {
                        lid[face] = first as u32;
                        faces.push(face);
                    }
                }
            }
            next += 1;
        }
        let area = AREA_OF_FACE * faces.len() as f64;
        let radius = (area / std::f64::consts::PI).sqrt();
        faces.into_iter().for_each(|face| radii[face] = radius);
    }
    radii
}

//! Solids of two clouds: the voxels inside, volumes with their uncertainty, and the surfaces of
//! Booleans.

mod contour;
mod pieces;
mod quads;
mod rows;
mod uncertainty;

use super::{Boolean, IntersectError, Intersector, Side, Way, blocks};
use crate::grid::Grid;
use crate::thickness::Thin;
use contour::contour;
use koel::{Buffer, Device};
use koel_scans::Mesh;
use koel_spatial_kernels::intersect::clouds::Motion;
use koel_spatial_kernels::intersect::solid::spatial_fill;
use koel_spatial_kernels::intersect::state;
use pieces::{Pieces, Plane, Touch};
use quads::Quads;
use rayon::prelude::*;
use rows::{Face, Rows};
pub use uncertainty::Volume;

impl Intersector {
    /// Determines the voxels whose centres are inside each cloud's surface in the last frame, and
    /// copies the pieces of both surfaces to the host. Synchronizes.
    ///
    /// Computes a winding number for each occupied voxel, each free voxel beside one and each
    /// largest free cell, about four per voxel; too slow to run in every frame. Memory of the host:
    /// up to 0.7 N^3 bytes, with N the grid's resolution.
    ///
    /// # Errors
    /// An open surface, the paper's method, or a device failure.
    pub fn solids(&mut self) -> Result<Solids, IntersectError> {
        let Way::Robust(_) = &self.way else {
            return Err(IntersectError::NeedsRobust { what: "Booleans" });
        };
        let state = self.state.download()?;
        for side in Side::BOTH {
            let c = side.index();
            if state[state::OPEN as usize + c] != 0 {
                let closedness = f32::from_bits(state[state::CLOSEDNESS as usize + c]).into();
                return Err(IntersectError::Open { cloud: side, closedness });
            }
        }
        let s = &self.stream;
        let surfaces = self.sums.surfaces(s, &self.index)?;
        let cells = self.index.cells_of(s, 2..self.shape.levels(), &self.state);
        // One bit for each voxel of the layout, of A and of B.
        let words = 1usize << (3 * self.shape.bits - 5);
        let mut inside: Buffer<u32> = s.device().alloc(2 * words)?;
        inside.view_mut().fill_bytes(0, s)?;
        // SAFETY: there is a bit for each voxel of the layout and cloud.
        unsafe {
            spatial_fill::launch(
                s,
                blocks(cells, 64),
                cells as u32,
                surfaces,
                self.state.view().arg("state", s)?,
                inside.view_mut().arg("inside", s)?,
            )?
        };
        let (n, inside, device) = (self.grid.resolution(), inside.download()?, s.device().clone());
        let solids = device.install(|| {
            [0, 1].map(|side| {
                let mut solid = Rows::empty(n);
                solid.fill(&inside[side * words..(side + 1) * words]);
                solid
            })
        });
        let surfaces = [self.pieces(Side::A, &state)?, self.pieces(Side::B, &state)?];
        let thin = [self.thin(Side::A)?, self.thin(Side::B)?];
        Ok(Solids { grid: self.grid, device, solids, surfaces, thin })
    }
    /// Finds the parts of a surface that are thinner than a voxel, in the pose of the last frame.
    fn thin(&self, side: Side) -> Result<Thin, IntersectError> {
        let words = self.motions.download()?;
        let words = &words[side.index() * Motion::WORDS as usize..][..Motion::WORDS as usize];
        let motion: [f64; Motion::WORDS as usize] =
            std::array::from_fn(|i| f64::from_bits(words[i]));
        let (turn, shift) = motion.split_at(9);
        let values = self.points.download(side)?;
        let of = |i: usize, first: usize| {
            [first, first + 1, first + 2].map(|axis| f64::from(f32::from_bits(values[axis][i])))
        };
        let turned = |v: [f64; 3]| {
            [0, 1, 2].map(|r| turn[3 * r] * v[0] + turn[3 * r + 1] * v[1] + turn[3 * r + 2] * v[2])
        };
        let moved = |i: usize| {
            let p = turned(of(i, 0));
            let p = [0, 1, 2].map(|axis| p[axis] + shift[axis]);
            (self.grid.to_voxel_units(p), turned(of(i, 3)))
        };
        let points = (0..values[0].len()).into_par_iter().map(moved);
        Ok(self.stream.device().install(|| Thin::of(points, self.grid.resolution())))
    }
    /// Copies the pieces of a surface to the host.
    fn pieces(&self, side: Side, state: &[u32]) -> Result<Pieces, IntersectError> {
        let levels = pieces::LEVELS.min(self.shape.levels());
        let of_level = |level: u32| -> Result<_, IntersectError> {
            let place = (state::FIRST_CELL + 2 * level) as usize + side.index();
            let cells = state[place] as usize..state[place + 1] as usize;
            let codes = self.index.codes.view().slice(cells.clone())?.download()?;
            let keys = codes.into_iter().map(|code| self.shape.decode(code).2).collect();
            Ok((keys, self.sums.dipoles(cells)?))
        };
        let cells = (0..levels).map(of_level).collect::<Result<Vec<_>, _>>()?;
        Ok(Pieces::new(self.shape.bits, cells))
    }
}

/// Two solids: the voxels inside each, and its surface.
pub struct Solids {
    grid: Grid,
    /// Whose threads are used.
    device: Device,
    /// Voxels of A and B.
    solids: [Rows; 2],
    /// Surfaces of A and B.
    surfaces: [Pieces; 2],
    /// Parts of A and B that are thinner than a voxel.
    thin: [Thin; 2],
}
impl Solids {
    /// Returns the volume of a Boolean, as the volume of its voxels in cubic units of the points.
    /// [`volumes`](Self::volumes) are more accurate, and take longer.
    pub fn volume(&self, boolean: Boolean) -> f64 {
        let voxels = self.device.install(|| self.combined(boolean).count());
        voxels as f64 * self.grid.voxel_size().powi(3)
    }
    fn combined(&self, boolean: Boolean) -> Rows {
        let [a, b] = &self.solids;
        a.zip(b, |a, b| boolean.of(a, b))
    }
    /// Returns the surface of a Boolean: the faces between voxels inside and outside, as outward
    /// triangles. The surface is watertight: every edge belongs to two triangles. Where two voxels
    /// of the solid would touch only along an edge, a third is filled in. Its area is up to 1.5
    /// times that of the surface; [`smooth_mesh`](Self::smooth_mesh) has the right one.
    pub fn mesh(&self, boolean: Boolean) -> BooleanMesh {
        self.device.install(|| {
            let (quads, filled) = self.quads(boolean);
            let positions = quads.corners.par_iter().map(|c| self.in_units(c.map(f64::from)));
            let divide = |&[a, b, c, d]: &[u32; 4]| [[a, b, c], [a, c, d]];
            let triangles = quads.vertices.par_iter().flat_map_iter(divide).collect();
            let mesh = Mesh { positions: positions.collect(), triangles };
            BooleanMesh { mesh, normals: None, filled }
        })
    }
    /// Returns the surface of a Boolean as a smooth mesh with sharp creases, by dual contouring:
    /// the topology of [`mesh`](Self::mesh), with each vertex where the planes that touch the
    /// surfaces around it meet. Every edge belongs to two triangles of opposite direction, the
    /// triangles around a vertex are one fan, and no triangle is degenerate. Triangles may
    /// intersect where the surface is rougher than a voxel.
    ///
    /// A vertex stays within half a voxel of its corner along each axis, on a crease within one
    /// and a half. Where a surface has no points, as in a hole, its vertices are smoothed.
    ///
    /// Cost: a least squares fit for each face of a voxel, on the threads of the device if that is
    /// a CPU, or those of rayon. The result has the same bits on every device.
    pub fn smooth_mesh(&self, boolean: Boolean) -> BooleanMesh {
        self.device.install(|| {
            let (quads, filled) = self.quads(boolean);
            let planes = self.planes(boolean, &quads.faces);
            let (origin, h) = (self.grid.origin(), self.grid.voxel_size());
            let rounded = |p: [f64; 3]| {
                let p = self.in_units(p);
                std::array::from_fn(|a| (f64::from(p[a]) - origin[a]) / h)
            };
            let contour = contour(&quads, &planes, rounded);
            let positions = contour.positions.into_par_iter().map(|p| self.in_units(p)).collect();
            BooleanMesh {
                mesh: Mesh { positions, triangles: contour.triangles },
                normals: Some(contour.normals),
                filled,
            }
        })
    }
    /// Returns the faces of a Boolean, and the number of voxels that were filled in.
    fn quads(&self, boolean: Boolean) -> (Quads, usize) {
        let mut solid = self.combined(boolean);
        let filled = solid.fill_edges();
        (Quads::of(solid.faces()), filled)
    }
    /// Returns a position in the units of the points.
    fn in_units(&self, p: [f64; 3]) -> [f32; 3] {
        let (origin, h) = (self.grid.origin(), self.grid.voxel_size());
        std::array::from_fn(|a| (origin[a] + h * p[a]) as f32)
    }
    /// Returns whether A and B contain a voxel.
    fn inside(&self, voxel: [i32; 3]) -> [bool; 2] {
        [0, 1].map(|side| self.solids[side].is_inside(voxel))
    }
    /// Returns the planes that touch the surface of a Boolean at its faces; their normals point
    /// outward.
    fn planes(&self, boolean: Boolean, faces: &[Face]) -> Vec<Option<Plane>> {
        let [of_a, of_b] = [0, 1].map(|side| {
            let leaves = |&face: &Face| {
                let [inside, outside] = face.voxels().map(|v| self.solids[side].is_inside(v));
                (inside != outside).then_some((face, inside))
            };
            let crossed = faces.par_iter().map(leaves).collect::<Vec<_>>();
            let touches =
                crossed.par_iter().flatten_iter().map(|&(face, leaves)| touch(face, leaves));
            let mut found =
                self.surfaces[side].planes(&touches.collect::<Vec<Touch>>()).into_iter();
            let plane = |crossed: Option<(Face, bool)>| {
                let (_, leaves) = crossed?;
                let plane = found.next()??;
                let normal = if leaves { plane.normal } else { plane.normal.map(|c| -c) };
                Some(Plane { normal, ..plane })
            };
            crossed.into_iter().map(plane).collect::<Vec<Option<Plane>>>()
        });
        let choose = |((face, a), b): ((&Face, Option<Plane>), Option<Plane>)| {
            let (Some(a), Some(b)) = (a, b) else { return a.or(b) };
            // Both surfaces pass between the voxels: of a union the farther one bounds the solid.
            let axis = usize::from(face.axis);
            let height = |p: &Plane| face.step() as f32 * p.point[axis];
            Some(if (height(&a) > height(&b)) == (boolean == Boolean::Union) { a } else { b })
        };
        faces.iter().zip(of_a).zip(of_b).map(choose).collect()
    }
}
/// Returns where a surface passes a face. `leaves` says whether the step of the face leaves the
/// solid under the surface; otherwise it enters it.
fn touch(face: Face, leaves: bool) -> Touch {
    let outward = if leaves { face.step() } else { -face.step() } as f32;
    Touch { at: face.centre(), axis: usize::from(face.axis), outward }
}
/// Watertight surface of a Boolean.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BooleanMesh {
    /// Triangles, in the units of the points.
    pub mesh: Mesh,
    /// Outward unit normal of each vertex, of a [smooth mesh](Solids::smooth_mesh).
    pub normals: Option<Vec<[f32; 3]>>,
    /// Number of voxels filled in so that no edge belongs to four triangles.
    pub filled: usize,
}

#[cfg(test)]
mod tests;

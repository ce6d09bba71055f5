//! Union, intersection and differences, as labelled points and as watertight voxel surfaces.

use super::{IntersectError, Intersector, Label, Pose, Side, Way, blocks};
use crate::grid::Grid;
use crate::mesh::{Mesh, PointCloud};
use koel::Buffer;
use koel_kernels::spatial::layout::cell_of;
use koel_kernels::spatial::solid::spatial_fill;
use koel_kernels::spatial::state;
use rayon::prelude::*;

/// Boolean operation on two solids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Boolean {
    /// In A or B.
    Union,
    /// In A and B.
    Intersection,
    /// In A, not in B.
    Difference,
    /// In B, not in A.
    ReverseDifference,
}
impl Boolean {
    /// All operations.
    pub const ALL: [Boolean; 4] =
        [Boolean::Union, Boolean::Intersection, Boolean::Difference, Boolean::ReverseDifference];

    /// Applies the operation bitwise.
    fn of(self, a: u64, b: u64) -> u64 {
        match self {
            Boolean::Union => a | b,
            Boolean::Intersection => a & b,
            Boolean::Difference => a & !b,
            Boolean::ReverseDifference => b & !a,
        }
    }
    /// Returns whether the part of a cloud with this label bounds the result; if so, whether its
    /// normals must be flipped.
    pub fn keeps(self, side: Side, label: Label) -> Option<bool> {
        let (wanted, turned) = match (self, side) {
            (Boolean::Union, _) => (Label::Outside, false),
            (Boolean::Intersection, _) => (Label::Inside, false),
            (Boolean::Difference, Side::A) | (Boolean::ReverseDifference, Side::B) => {
                (Label::Outside, false)
            }
            (Boolean::Difference, Side::B) | (Boolean::ReverseDifference, Side::A) => {
                (Label::Inside, true)
            }
        };
        (label == wanted || label == Label::Intersection).then_some(turned)
    }
}

/// Points of both clouds in their poses, with labels.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LabelledPoints {
    /// Positions and normals.
    pub points: PointCloud,
    /// Cloud of each point.
    pub sides: Vec<Side>,
    /// Label of each point.
    pub labels: Vec<Label>,
}

impl Intersector {
    /// Returns the points of `a` and `b` (those given to [`new`](Self::new)) in the poses of the
    /// last frame, with their labels: all of them, or those that bound a Boolean. Synchronizes.
    ///
    /// # Errors
    /// A device failure.
    pub fn labelled_points(
        &mut self,
        clouds: [(&PointCloud, &Pose); 2],
        boolean: Option<Boolean>,
    ) -> Result<LabelledPoints, IntersectError> {
        let mut out = LabelledPoints::default();
        let mut normals = vec![];
        for (side, (cloud, pose)) in Side::BOTH.into_iter().zip(clouds) {
            let labels = self.point_labels(side)?;
            let given =
                cloud.normals.as_deref().ok_or(IntersectError::NoNormals { cloud: side })?;
            for ((p, n), label) in cloud.positions.iter().zip(given).zip(labels) {
                let turned = match boolean {
                    None => Some(false),
                    Some(boolean) => boolean.keeps(side, label),
                };
                let Some(turned) = turned else { continue };
                let sign = if turned { -1.0 } else { 1.0 };
                out.points.positions.push(pose.apply(p.map(f64::from)).map(|c| c as f32));
                normals.push(pose.turn(n.map(f64::from)).map(|c| (sign * c) as f32));
                out.sides.push(side);
                out.labels.push(label);
            }
        }
        out.points.normals = Some(normals);
        Ok(out)
    }

    /// Determines the voxels whose centres are inside each cloud's surface in the last frame.
    /// Synchronizes.
    ///
    /// Computes a winding number for each occupied voxel and each largest free cell, about four per
    /// voxel; too slow to run in every frame.
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
        let cells = self.index.cells(s, &self.state);
        let voxels = 1usize << (3 * self.shape.bits);
        let mut inside: Buffer<u32> = s.device().alloc(voxels / 32)?;
        let n = self.grid.resolution();
        let mut solids = [Rows::empty(n), Rows::empty(n)];
        for side in Side::BOTH {
            inside.view_mut().fill_bytes(0, s)?;
            // SAFETY: there is a bit for each voxel of the layout.
            unsafe {
                spatial_fill::launch(
                    s,
                    blocks(8 * cells, 64),
                    cells as u32,
                    side.index() as u32,
                    surfaces,
                    self.state.view().arg("state", s)?,
                    inside.view_mut().arg("inside", s)?,
                )?
            };
            solids[side.index()].fill(&inside.download()?);
        }
        let [a, b] = solids;
        Ok(Solids { grid: self.grid, a, b })
    }
}

/// Voxels inside each of the two solids.
pub struct Solids {
    grid: Grid,
    a: Rows,
    b: Rows,
}
impl Solids {
    /// Returns the volume of a Boolean, as the volume of its voxels in cubic units of the points.
    pub fn volume(&self, boolean: Boolean) -> f64 {
        let voxels = self
            .a
            .zip(&self.b, |a, b| boolean.of(a, b))
            .bits
            .iter()
            .map(|w| u64::from(w.count_ones()))
            .sum::<u64>();
        voxels as f64 * self.grid.voxel_size().powi(3)
    }
    /// Returns the surface of a Boolean: the faces between voxels inside and outside, as outward
    /// triangles. The surface is watertight: every edge belongs to two triangles. Where two voxels
    /// of the solid would touch only along an edge, a third is filled in.
    pub fn mesh(&self, boolean: Boolean) -> BooleanMesh {
        let mut solid = self.a.zip(&self.b, |a, b| boolean.of(a, b));
        let filled = solid.fill_edges();
        BooleanMesh { mesh: solid.surface(&self.grid), filled }
    }
}
/// Watertight surface of a Boolean.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BooleanMesh {
    /// Triangles, in the units of the points.
    pub mesh: Mesh,
    /// Number of voxels filled in so that no edge belongs to four triangles.
    pub filled: usize,
}

/// Bitmap of a cube of voxels: rows along z, in whole words.
#[derive(Clone)]
struct Rows {
    n: usize,
    words: usize,
    bits: Vec<u64>,
}
impl Rows {
    /// Creates an empty bitmap of `resolution` + 1 voxels per side, so that the last layers are
    /// free.
    fn empty(resolution: u32) -> Rows {
        let n = resolution as usize + 1;
        let words = n.div_ceil(64);
        Rows { n, words, bits: vec![0; n * n * words] }
    }
    fn row(&self, x: usize, y: usize) -> &[u64] {
        let first = (x * self.n + y) * self.words;
        &self.bits[first..first + self.words]
    }
    /// Sets the bits of a bitmap in key order.
    fn fill(&mut self, by_key: &[u32]) {
        let last = self.n as u32 - 1;
        for (i, &word) in by_key.iter().enumerate() {
            let mut rest = word;
            while rest != 0 {
                let [x, y, z] = cell_of((i as u32) << 5 | rest.trailing_zeros());
                rest &= rest - 1;
                if x < last && y < last && z < last {
                    let first = (x as usize * self.n + y as usize) * self.words;
                    self.bits[first + z as usize / 64] |= 1 << (z % 64);
                }
            }
        }
    }
    fn zip(&self, other: &Rows, of: impl Fn(u64, u64) -> u64 + Sync) -> Rows {
        let bits = self.bits.par_iter().zip(&other.bits).map(|(&a, &b)| of(a, b)).collect();
        Rows { bits, ..*self }
    }
    /// Returns word `w` of the row shifted by one voxel: bit z holds voxel z + 1.
    fn ahead(row: &[u64], w: usize) -> u64 {
        row[w] >> 1 | row.get(w + 1).map_or(0, |next| next << 63)
    }
    /// Fills voxels until no two touch only along an edge. Returns the number of filled voxels.
    fn fill_edges(&mut self) -> usize {
        let mut filled = 0;
        loop {
            let mut more = vec![];
            // For each of the three pairs of axes, take the square a, b = a + u, c = a + v, d = a +
            // u + v. If only a and d, or only b and c, are set, they must be joined.
            for x in 0..self.n - 1 {
                for y in 0..self.n - 1 {
                    let (a, b) = (self.row(x, y), self.row(x + 1, y));
                    let (c, d) = (self.row(x, y + 1), self.row(x + 1, y + 1));
                    for w in 0..self.words {
                        let mut join = |here: (usize, usize), lone: u64, shift: usize| {
                            let mut rest = lone;
                            while rest != 0 {
                                more.push((
                                    here.0,
                                    here.1,
                                    w * 64 + rest.trailing_zeros() as usize + shift,
                                ));
                                rest &= rest - 1;
                            }
                        };
                        join((x + 1, y), a[w] & d[w] & !b[w] & !c[w], 0);
                        join((x, y), b[w] & c[w] & !a[w] & !d[w], 0);
                        for (other, at) in [(b, (x + 1, y)), (c, (x, y + 1))] {
                            let (a1, o1) = (Rows::ahead(a, w), Rows::ahead(other, w));
                            join(at, a[w] & o1 & !other[w] & !a1, 0);
                            join((x, y), other[w] & a1 & !a[w] & !o1, 0);
                        }
                    }
                }
            }
            if more.is_empty() {
                return filled;
            }
            for (x, y, z) in more {
                let word = &mut self.bits[(x * self.n + y) * self.words + z / 64];
                filled += usize::from(*word >> (z % 64) & 1 == 0);
                *word |= 1 << (z % 64);
            }
        }
    }
    fn is_inside(&self, x: usize, y: usize, z: usize) -> bool {
        self.row(x, y)[z / 64] >> (z % 64) & 1 != 0
    }
    /// Emits two triangles for each face between inside and outside, with shared corners.
    fn surface(&self, grid: &Grid) -> Mesh {
        const AXIS_BITS: u32 = 11;
        let corner = |p: [usize; 3]| p.iter().fold(0u64, |key, &c| key << AXIS_BITS | c as u64);
        let faces = (0..self.n)
            .into_par_iter()
            .flat_map_iter(|x| {
                let mut faces: Vec<[u64; 4]> = vec![];
                for y in 0..self.n {
                    for z in 0..self.n {
                        if !self.is_inside(x, y, z) {
                            continue;
                        }
                        for axis in 0..3 {
                            for up in [false, true] {
                                let mut beyond = [x, y, z];
                                // Outside the grid nothing is inside.
                                let free = if up {
                                    beyond[axis] += 1;
                                    beyond[axis] == self.n
                                        || !self.is_inside(beyond[0], beyond[1], beyond[2])
                                } else if beyond[axis] == 0 {
                                    true
                                } else {
                                    beyond[axis] -= 1;
                                    !self.is_inside(beyond[0], beyond[1], beyond[2])
                                };
                                if !free {
                                    continue;
                                }
                                let mut p = [x, y, z];
                                p[axis] += usize::from(up);
                                let (u, v) = if up {
                                    ((axis + 1) % 3, (axis + 2) % 3)
                                } else {
                                    ((axis + 2) % 3, (axis + 1) % 3)
                                };
                                let with = |du: usize, dv: usize| {
                                    let mut q = p;
                                    (q[u], q[v]) = (q[u] + du, q[v] + dv);
                                    corner(q)
                                };
                                faces.push([with(0, 0), with(1, 0), with(1, 1), with(0, 1)]);
                            }
                        }
                    }
                }
                faces
            })
            .collect::<Vec<[u64; 4]>>();
        let mut corners = faces.par_iter().flatten_iter().copied().collect::<Vec<u64>>();
        corners.par_sort_unstable();
        corners.dedup();
        let number = |key: u64| corners.partition_point(|&c| c < key) as u32;
        let triangles = faces
            .par_iter()
            .flat_map_iter(|f| {
                let [a, b, c, d] = f.map(number);
                [[a, b, c], [a, c, d]]
            })
            .collect();
        let (origin, h) = (grid.origin(), grid.voxel_size());
        let position = |&key: &u64| {
            let along =
                |axis: u32| (key >> (AXIS_BITS * (2 - axis)) & ((1 << AXIS_BITS) - 1)) as f64;
            std::array::from_fn(|a| (origin[a] + h * along(a as u32)) as f32)
        };
        Mesh { positions: corners.par_iter().map(position).collect(), triangles }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn mesh_of(solid: &mut Rows) -> (Mesh, usize) {
        let filled = solid.fill_edges();
        (solid.surface(&Grid::new([0.0; 3], 1.0, solid.n as u32 - 1).unwrap()), filled)
    }
    fn assert_watertight(mesh: &Mesh) {
        let mut edges = HashMap::new();
        for t in &mesh.triangles {
            for i in 0..3 {
                let (a, b) = (t[i], t[(i + 1) % 3]);
                *edges.entry((a.min(b), a.max(b))).or_insert((0, 0)) = {
                    let (n, s) = edges.get(&(a.min(b), a.max(b))).copied().unwrap_or((0, 0));
                    (n + 1, s + if a < b { 1 } else { -1 })
                };
            }
        }
        assert!(
            edges.values().all(|&e| e == (2, 0)),
            "an edge is not shared by exactly two triangles"
        );
    }
    fn volume(mesh: &Mesh) -> f64 {
        let p = |i: u32| mesh.positions[i as usize].map(f64::from);
        let six = |t: &[u32; 3]| {
            let [a, b, c] = t.map(p);
            a[0] * (b[1] * c[2] - b[2] * c[1])
                + a[1] * (b[2] * c[0] - b[0] * c[2])
                + a[2] * (b[0] * c[1] - b[1] * c[0])
        };
        mesh.triangles.iter().map(six).sum::<f64>() / 6.0
    }

    #[test]
    fn surfaces_are_watertight_and_outward() {
        let mut state = 7u64;
        for n in [3u32, 9, 70] {
            for share in [2, 5, 9] {
                let mut solid = Rows::empty(n);
                for x in 0..n as usize {
                    for y in 0..n.min(12) as usize {
                        for z in 0..n as usize {
                            state = state
                                .wrapping_mul(6364136223846793005)
                                .wrapping_add(1442695040888963407);
                            if state >> 33 & 15 < share {
                                let first = (x * solid.n + y) * solid.words;
                                solid.bits[first + z / 64] |= 1 << (z % 64);
                            }
                        }
                    }
                }
                let before = solid.bits.iter().map(|w| w.count_ones()).sum::<u32>() as usize;
                let (mesh, filled) = mesh_of(&mut solid);
                assert_watertight(&mesh);
                assert!(
                    (volume(&mesh) - (before + filled) as f64).abs()
                        < 1e-6 * (before + filled) as f64
                );
            }
        }
    }
    #[test]
    fn booleans_keep_what_bounds_them() {
        use Boolean::*;
        assert_eq!(Union.keeps(Side::A, Label::Outside), Some(false));
        assert_eq!(Union.keeps(Side::B, Label::Inside), None);
        assert_eq!(Difference.keeps(Side::B, Label::Inside), Some(true));
        assert_eq!(ReverseDifference.keeps(Side::B, Label::Outside), Some(false));
        assert_eq!(Intersection.keeps(Side::A, Label::Intersection), Some(false));
        assert_eq!(Intersection.keeps(Side::A, Label::Unknown), None);
    }
}

//! The faces of a solid of voxels as quadrilaterals with shared vertices.

use super::rows::Face;
use rayon::prelude::*;

/// Bits of a coordinate of a corner.
const AXIS_BITS: u32 = 11;
/// Bits of a face times 4 plus a corner of it.
const SLOT_BITS: u32 = 64 - 3 * AXIS_BITS;

/// Faces of a solid with their vertices. A vertex is a corner of voxels; where two voxels touch
/// only at a corner, each has a vertex of its own, so that the faces around a vertex are one fan.
pub(super) struct Quads {
    pub faces: Vec<Face>,
    /// Vertices of each face, counterclockwise seen from outside.
    pub vertices: Vec<[u32; 4]>,
    /// Corner of each vertex.
    pub corners: Vec<[u16; 3]>,
    /// Faces around vertices, vertex by vertex.
    around: Vec<u32>,
    /// First of `around` of each vertex, and the end.
    starts: Vec<u32>,
}
impl Quads {
    /// Finds the vertices of the faces of a solid.
    pub(super) fn of(faces: Vec<Face>) -> Quads {
        let mut slots = (0..faces.len())
            .into_par_iter()
            .flat_map_iter(|i| {
                faces[i].corners().into_iter().enumerate().map(move |(k, corner)| {
                    let place = corner.iter().fold(0, |key, &c| key << AXIS_BITS | u64::from(c));
                    place << SLOT_BITS | (4 * i + k) as u64
                })
            })
            .collect::<Vec<u64>>();
        slots.par_sort_unstable();
        let mut quads = Quads {
            vertices: vec![[0; 4]; faces.len()],
            corners: vec![],
            around: Vec::with_capacity(slots.len()),
            starts: vec![0],
            faces,
        };
        for of_corner in slots.chunk_by(|a, b| a >> SLOT_BITS == b >> SLOT_BITS) {
            let key = of_corner[0] >> SLOT_BITS;
            let along =
                |axis: u32| (key >> (AXIS_BITS * (2 - axis)) & ((1 << AXIS_BITS) - 1)) as u16;
            let corner = [along(0), along(1), along(2)];
            let slot = |&key: &u64| (key & ((1 << SLOT_BITS) - 1)) as usize;
            match quads.touching(of_corner.iter().map(slot)) {
                None => quads.push(corner, of_corner.iter().map(slot)),
                Some(side) => {
                    // The first coordinate tells the two voxels apart.
                    for above in [false, true] {
                        let part = of_corner.iter().map(slot).filter(|&slot| {
                            let voxels = quads.faces[slot / 4].voxels();
                            (voxels[side][0] == i32::from(corner[0])) == above
                        });
                        let part = part.collect::<Vec<usize>>();
                        quads.push(corner, part.into_iter());
                    }
                }
            }
        }
        quads
    }
    /// Returns whether the faces around a corner are those of two voxels that touch only there: 0
    /// for two voxels inside, 1 for two outside.
    fn touching(&self, slots: impl ExactSizeIterator<Item = usize> + Clone) -> Option<usize> {
        if slots.len() != 6 {
            return None;
        }
        (0..2).find(|&side| {
            let mut voxels = slots.clone().map(|slot| self.faces[slot / 4].voxels()[side]);
            let first = voxels.next().unwrap_or_default();
            let is_opposite = |v: [i32; 3]| (0..3).all(|a| v[a] != first[a]);
            voxels.clone().any(is_opposite) && voxels.all(|v| v == first || is_opposite(v))
        })
    }
    fn push(&mut self, corner: [u16; 3], slots: impl Iterator<Item = usize>) {
        let vertex = self.corners.len() as u32;
        self.corners.push(corner);
        for slot in slots {
            self.vertices[slot / 4][slot % 4] = vertex;
            self.around.push((slot / 4) as u32);
        }
        self.starts.push(self.around.len() as u32);
    }
    /// Returns the faces around a vertex.
    pub(super) fn around(&self, vertex: usize) -> &[u32] {
        &self.around[self.starts[vertex] as usize..self.starts[vertex + 1] as usize]
    }
}

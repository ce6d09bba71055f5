//! Bitmap of the voxels inside a solid, and the faces between inside and outside.

use koel_spatial_kernels::intersect::layout::key_of;
use rayon::prelude::*;

/// Bitmap of a cube of voxels: rows along z, in whole words.
#[derive(Clone)]
pub(super) struct Rows {
    n: usize,
    words: usize,
    bits: Vec<u64>,
}
impl Rows {
    /// Creates an empty bitmap of `resolution` + 1 voxels per side, so that the last layers are
    /// free.
    pub(super) fn empty(resolution: u32) -> Rows {
        let n = resolution as usize + 1;
        let words = n.div_ceil(64);
        Rows { n, words, bits: vec![0; n * n * words] }
    }
    fn row(&self, x: usize, y: usize) -> &[u64] {
        let first = (x * self.n + y) * self.words;
        &self.bits[first..first + self.words]
    }
    fn set(&mut self, x: usize, y: usize, z: usize) {
        self.bits[(x * self.n + y) * self.words + z / 64] |= 1 << (z % 64);
    }
    /// Sets the bits of a bitmap in key order, whose words are blocks of 2 x 4 x 4 voxels.
    pub(super) fn fill(&mut self, by_key: &[u32]) {
        let (n, words) = (self.n, self.words);
        let last = n - 1;
        // The last layers of the bitmap stay free.
        let within_row = |z: usize| {
            let end = last.saturating_sub(64 * (z / 64));
            if end < 64 { (1 << end) - 1 } else { u64::MAX }
        };
        let layers = self.bits.par_chunks_mut(2 * n * words).enumerate();
        layers.for_each(|(pair, layers)| {
            for y in (0..last).step_by(4) {
                for z in (0..last).step_by(4) {
                    let block = key_of([2 * pair as u32, y as u32, z as u32]);
                    let Some(&word) = by_key.get(block as usize >> 5).filter(|word| **word != 0)
                    else {
                        continue;
                    };
                    for row in 0..8 {
                        let (dx, dy) = (row >> 2, row & 3);
                        if 2 * pair + dx >= last || y + dy >= last {
                            continue;
                        }
                        // Bits 0 and 3 of a key are z, 1 and 4 are y, 2 is x.
                        let of_row = word >> (dx << 2 | (dy & 1) << 1 | (dy & 2) << 3);
                        let four = u64::from(of_row & 3 | of_row >> 6 & 12);
                        let at = (dx * n + y + dy) * words + z / 64;
                        layers[at] |= four << (z % 64) & within_row(z);
                    }
                }
            }
        });
    }
    /// Combines two bitmaps word by word.
    pub(super) fn zip(&self, other: &Rows, of: impl Fn(u64, u64) -> u64 + Sync) -> Rows {
        let bits = self.bits.par_iter().zip(&other.bits).map(|(&a, &b)| of(a, b)).collect();
        Rows { bits, ..*self }
    }
    /// Counts the voxels inside.
    pub(super) fn count(&self) -> u64 {
        self.bits.par_iter().map(|w| u64::from(w.count_ones())).sum()
    }
    /// Returns whether a voxel is inside. None is outside the grid.
    pub(super) fn is_inside(&self, voxel: [i32; 3]) -> bool {
        if voxel.iter().any(|&c| c < 0 || c as usize >= self.n) {
            return false;
        }
        let [x, y, z] = voxel.map(|c| c as usize);
        self.row(x, y)[z / 64] >> (z % 64) & 1 != 0
    }
    /// Returns word `w` of the row shifted by one voxel: bit z holds voxel z + 1.
    fn ahead(row: &[u64], w: usize) -> u64 {
        row[w] >> 1 | row.get(w + 1).map_or(0, |next| next << 63)
    }
    /// Returns word `w` of the row shifted by one voxel: bit z holds voxel z - 1.
    fn behind(row: &[u64], w: usize) -> u64 {
        row[w] << 1 | if w == 0 { 0 } else { row[w - 1] >> 63 }
    }
    /// Fills voxels until no two touch only along an edge. Returns the number of filled voxels.
    pub(super) fn fill_edges(&mut self) -> usize {
        let mut filled = 0;
        loop {
            let rows = 0..self.n - 1;
            let more = rows.into_par_iter().flat_map_iter(|x| self.lone_edges(x));
            let more = more.collect::<Vec<[usize; 3]>>();
            if more.is_empty() {
                return filled;
            }
            for [x, y, z] in more {
                filled += usize::from(!self.is_inside([x, y, z].map(|c| c as i32)));
                self.set(x, y, z);
            }
        }
    }
    /// Returns a voxel to fill for each pair that touches only along an edge, between layers x and
    /// x + 1 or within layer x.
    fn lone_edges(&self, x: usize) -> Vec<[usize; 3]> {
        let mut more = vec![];
        // For each of the three pairs of axes, take the square a, b = a + u, c = a + v, d = a + u +
        // v. If only a and d, or only b and c, are set, they must be joined.
        for y in 0..self.n - 1 {
            let (a, b) = (self.row(x, y), self.row(x + 1, y));
            let (c, d) = (self.row(x, y + 1), self.row(x + 1, y + 1));
            for w in 0..self.words {
                let mut join = |x: usize, y: usize, lone: u64| {
                    more.extend(ones(lone).map(|z| [x, y, 64 * w + z]));
                };
                join(x + 1, y, a[w] & d[w] & !b[w] & !c[w]);
                join(x, y, b[w] & c[w] & !a[w] & !d[w]);
                for (other, ox, oy) in [(b, x + 1, y), (c, x, y + 1)] {
                    let (a1, o1) = (Rows::ahead(a, w), Rows::ahead(other, w));
                    join(ox, oy, a[w] & o1 & !other[w] & !a1);
                    join(x, y, other[w] & a1 & !a[w] & !o1);
                }
            }
        }
        more
    }
    /// Returns all faces between inside and outside, layer by layer.
    pub(super) fn faces(&self) -> Vec<Face> {
        (0..self.n).into_par_iter().flat_map_iter(|x| self.faces_of_layer(x)).collect()
    }
    fn faces_of_layer(&self, x: usize) -> Vec<Face> {
        let mut faces = vec![];
        let free = vec![0; self.words];
        let last = self.n - 1;
        for y in 0..self.n {
            let own = self.row(x, y);
            let below_x = if x == 0 { &free } else { self.row(x - 1, y) };
            let above_x = if x == last { &free } else { self.row(x + 1, y) };
            let below_y = if y == 0 { &free } else { self.row(x, y - 1) };
            let above_y = if y == last { &free } else { self.row(x, y + 1) };
            for w in 0..self.words {
                if own[w] == 0 {
                    continue;
                }
                let beyond = [
                    [below_x[w], above_x[w]],
                    [below_y[w], above_y[w]],
                    [Rows::behind(own, w), Rows::ahead(own, w)],
                ];
                for (axis, of_axis) in beyond.into_iter().enumerate() {
                    for (up, beyond) in [false, true].into_iter().zip(of_axis) {
                        faces.extend(ones(own[w] & !beyond).map(|z| Face {
                            inside: [x as u16, y as u16, (64 * w + z) as u16],
                            axis: axis as u8,
                            up,
                        }));
                    }
                }
            }
        }
        faces
    }
}
/// Returns the places of the bits that are set.
fn ones(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let z = word.trailing_zeros() as usize;
        (word != 0).then(|| {
            word &= word - 1;
            z
        })
    })
}

/// Face between a voxel inside and its neighbour outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Face {
    /// Voxel inside.
    pub inside: [u16; 3],
    /// Axis of the step to the voxel outside.
    pub axis: u8,
    /// Whether the step goes up the axis.
    pub up: bool,
}
impl Face {
    /// Returns the step from inside to outside: 1 or -1 along the axis.
    pub(super) fn step(self) -> i32 {
        if self.up { 1 } else { -1 }
    }
    /// Returns the voxel inside and the one outside.
    pub(super) fn voxels(self) -> [[i32; 3]; 2] {
        let inside = self.inside.map(i32::from);
        let mut outside = inside;
        outside[usize::from(self.axis)] += self.step();
        [inside, outside]
    }
    /// Returns the centre, in voxels.
    pub(super) fn centre(self) -> [f32; 3] {
        let mut centre = self.inside.map(|c| f32::from(c) + 0.5);
        centre[usize::from(self.axis)] += 0.5 * self.step() as f32;
        centre
    }
    /// Returns the corners, counterclockwise seen from outside.
    pub(super) fn corners(self) -> [[u16; 3]; 4] {
        let axis = usize::from(self.axis);
        let mut first = self.inside;
        first[axis] += u16::from(self.up);
        let (u, v) = if self.up {
            ((axis + 1) % 3, (axis + 2) % 3)
        } else {
            ((axis + 2) % 3, (axis + 1) % 3)
        };
        [[0, 0], [1, 0], [1, 1], [0, 1]].map(|[du, dv]| {
            let mut corner = first;
            corner[u] += du;
            corner[v] += dv;
            corner
        })
    }
}

//! From points to the sums of voxels.

use super::{BLOCK, Normals, Part, WORDS};
use koel_simt::host::Work;
use koel_spatial_kernels::intersect::clouds::LOCAL_BITS;
use koel_spatial_kernels::intersect::sums::NORMAL_BITS;
use koel_spatial_kernels::intersect::{NONE, mark};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Adds the points of a part to the sums of their voxels.
pub(super) struct Sum<'a> {
    pub part: &'a mut Part,
    pub normals: Normals<'a>,
    pub turn: &'a [f32; 9],
    /// Bricks of the index.
    pub bricks: &'a [u64],
    pub marks: Option<&'a [u32]>,
    /// Entry and cell of each point on input, its voxel on output.
    pub voxels: &'a mut [u32],
    pub sums: &'a [AtomicU64],
}
impl Work for Sum<'_> {
    #[inline(always)]
    fn run(self) {
        let Sum { part, normals: [x, y, z], turn, bricks, marks, voxels, sums } = self;
        for entry in &mut part.bricks {
            let number = entry.first as usize;
            (entry.cells, entry.first) = (bricks[2 * number], bricks[2 * number + 1] as u32);
        }
        part.elsewhere.clear();
        let (mut u, mut v, mut w) = ([0; BLOCK], [0; BLOCK], [0; BLOCK]);
        for (block, voxels) in voxels.chunks_mut(BLOCK).enumerate() {
            let begin = block * BLOCK;
            let (x, y, z) = (&x[begin..], &y[begin..], &z[begin..]);
            if marks.is_none() {
                let n = voxels.len();
                turn_normals([&x[..n], &y[..n], &z[..n]], turn, [&mut u, &mut v, &mut w]);
            }
            for (i, (voxel, local)) in voxels.iter_mut().zip(&part.local[begin..]).enumerate() {
                if *voxel == NONE {
                    continue;
                }
                let (entry, cell) = (part.bricks[(*voxel >> 6) as usize], *voxel & 63);
                *voxel = entry.first + (entry.cells & ((1 << cell) - 1)).count_ones();
                let mut normal = [u[i], v[i], w[i]];
                if let Some(marks) = marks {
                    if marks[*voxel as usize] != mark::INTERSECTION {
                        continue;
                    }
                    normal = turned([x[i], y[i], z[i]], turn);
                }
                if entry.own >> cell & 1 == 0 {
                    part.elsewhere.push(((begin + i) as u32, *voxel));
                    continue;
                }
                let to = &sums[WORDS * *voxel as usize..][..WORDS];
                let terms = terms(*local, normal);
                for word in 0..WORDS {
                    // No other part adds to this voxel now.
                    to[word].store(to[word].load(Relaxed).wrapping_add(terms[word]), Relaxed);
                }
            }
        }
    }
}
/// Turns normals and converts them to units of the sums.
#[inline(always)]
fn turn_normals([x, y, z]: Normals<'_>, turn: &[f32; 9], [u, v, w]: [&mut [i32]; 3]) {
    for (((((x, y), z), u), v), w) in x.iter().zip(y).zip(z).zip(u).zip(v).zip(w) {
        [*u, *v, *w] = turned([*x, *y, *z], turn);
    }
}
#[inline(always)]
fn turned([x, y, z]: [u32; 3], r: &[f32; 9]) -> [i32; 3] {
    let (x, y, z) = (f32::from_bits(x), f32::from_bits(y), f32::from_bits(z));
    let units = (1u32 << NORMAL_BITS) as f32;
    [
        ((r[0] * x + r[1] * y + r[2] * z) * units) as i32,
        ((r[3] * x + r[4] * y + r[5] * z) * units) as i32,
        ((r[6] * x + r[7] * y + r[8] * z) * units) as i32,
    ]
}
/// Returns what a point adds to the sums of its voxel.
#[inline(always)]
fn terms(local: u32, [u, v, w]: [i32; 3]) -> [u64; WORDS] {
    const MASK: u32 = (1 << LOCAL_BITS) - 1;
    let size = |units: i32| u64::from(units.unsigned_abs());
    [
        u64::from(local & MASK),
        u64::from(local >> LOCAL_BITS & MASK),
        u64::from(local >> (2 * LOCAL_BITS) & MASK),
        1,
        i64::from(u) as u64,
        i64::from(v) as u64,
        i64::from(w) as u64,
        size(u) + size(v) + size(w),
    ]
}

/// Writes sums as the kernels read them, and clears the integers.
pub(super) struct WriteSums<'a> {
    pub from: &'a [AtomicU64],
    pub marks: Option<&'a [u32]>,
    pub to: &'a mut [u32],
}
impl Work for WriteSums<'_> {
    #[inline(always)]
    fn run(self) {
        let WriteSums { from, marks, to } = self;
        let unit = 1.0 / (1u32 << LOCAL_BITS) as f32;
        let normal_unit = 1.0 / (1u32 << NORMAL_BITS) as f32;
        let voxels = from.chunks_exact(WORDS).zip(to.chunks_exact_mut(WORDS));
        for (i, (from, to)) in voxels.enumerate() {
            if marks.is_some_and(|marks| marks[i] != mark::INTERSECTION) {
                continue;
            }
            let mut sums = [0; WORDS];
            for word in 0..WORDS {
                sums[word] = from[word].load(Relaxed);
                from[word].store(0, Relaxed);
            }
            let count = sums[3];
            for axis in 0..3 {
                // Half a unit per point more, because positions were rounded down.
                to[axis] = ((2 * sums[axis] + count) as f32 * 0.5 * unit).to_bits();
            }
            to[3] = count as u32;
            for word in 4..WORDS {
                to[word] = (sums[word] as i64 as f32 * normal_unit).to_bits();
            }
        }
    }
}
impl Part {
    /// Adds the points in voxels of other parts, when these parts are done.
    pub(super) fn add_elsewhere(&self, normals: Normals<'_>, turn: &[f32; 9], sums: &[AtomicU64]) {
        for &(point, voxel) in &self.elsewhere {
            let normal = turned(normals.map(|n| n[self.first + point as usize]), turn);
            let to = &sums[WORDS * voxel as usize..][..WORDS];
            for (sum, term) in to.iter().zip(terms(self.local[point as usize], normal)) {
                sum.fetch_add(term, Relaxed);
            }
        }
    }
}

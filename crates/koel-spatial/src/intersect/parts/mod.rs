//! Voxels, marks and sums of points on the CPU.
//!
//! Kernels of a GPU pass over the points four times and meet in atomics at every voxel. On a CPU
//! the points are divided into parts of thousands of neighbours, and a thread handles a whole part:
//! it gathers the cells of the part's points brick by brick, so that the index is marked once per
//! brick instead of once per point, and it sums its points without atomics. A voxel belongs to the
//! part that marked it first; the few points of other parts in it are added afterwards.
//!
//! All results are those of the kernels [`spatial_voxelize`], [`spatial_mark_cells`] and
//! [`spatial_sum_points`], bit for bit: moves have the same operations in the same order, and sums
//! are in integers.
//!
//! [`spatial_voxelize`]: koel_spatial_kernels::intersect::voxelize::spatial_voxelize
//! [`spatial_mark_cells`]: koel_spatial_kernels::intersect::index::spatial_mark_cells
//! [`spatial_sum_points`]: koel_spatial_kernels::intersect::sums::spatial_sum_points

mod sum;
#[cfg(test)]
mod tests;
mod voxelize;

use koel::device::Element;
use koel::{Device, Error, Result, View, ViewMut};
use koel_simt::host::on_v3;
use koel_spatial_kernels::intersect::clouds::Motion;
use koel_spatial_kernels::intersect::layout::Shape;
use koel_spatial_kernels::intersect::state;
use koel_spatial_kernels::intersect::sums;
use koel_spatial_kernels::intersect::voxelize::Frame;
use rayon::prelude::*;
use std::sync::atomic::AtomicU64;
use sum::{Sum, WriteSums};
use voxelize::Voxelize;

/// Points per part. Smaller parts share more voxels; larger ones do not fit the cache.
const POINTS: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 13;
/// Entries of a part's cache of bricks: neighbouring points are within 8 x 16 x 16 bricks.
const CACHED: u32 = 1 << 11;
/// Points that are moved or turned at once, by vector instructions.
const BLOCK: usize = 128;
/// Voxels per task that writes their sums.
const VOXELS: usize = 1 << 12;
/// Sums of a voxel, in the order of [`sums::Sums`].
const WORDS: usize = sums::WORDS as usize;

/// The points of both clouds, A first, in parts.
pub(super) struct Parts {
    parts: Vec<Part>,
    /// Sums of each voxel: place, count, normal, |normal|_1. Zero between frames.
    sums: Box<[AtomicU64]>,
}
/// Some adjacent points of one cloud.
struct Part {
    cloud: usize,
    first: usize,
    /// Position of each point within its voxel.
    local: Vec<u32>,
    bricks: Vec<PartBrick>,
    /// Points in voxels of other parts, and their voxels.
    elsewhere: Vec<(u32, u32)>,
    dropped: u32,
}
/// A brick of level 0 with points of a part. A part may list a brick more than once.
#[derive(Clone, Copy)]
struct PartBrick {
    /// Cells with points of the part; once the index is built, all occupied cells.
    cells: u64,
    /// Cells that this entry marked first.
    own: u64,
    key: u32,
    /// Number of the brick; once the index is built, number of its first cell.
    first: u32,
}

/// Normals of both clouds, x, y and z, as the bits of `f32`.
pub(super) type Normals<'a> = [&'a [u32]; 3];

impl Parts {
    /// Divides points, those of each cloud given with padding. Allocates all memory of frames.
    ///
    /// # Errors
    /// Out of memory.
    pub(super) fn new(device: &Device, padded: [usize; 2], voxels: usize) -> Result<Parts> {
        let each = (padded[0] + padded[1]) / (4 * device.parallelism());
        let each = each.clamp(*POINTS.start(), *POINTS.end());
        let ends = [padded[0], padded[0] + padded[1]];
        let parts = [0, padded[0]].into_iter().zip(ends).enumerate().flat_map(|(cloud, (b, e))| {
            (b..e).step_by(each).map(move |first| Part::new(cloud, first, each.min(e - first)))
        });
        let bytes = WORDS * voxels * size_of::<u64>();
        let sums = bytemuck::allocation::try_zeroed_slice_box(WORDS * voxels)
            .map_err(|()| Error::OutOfMemory { device: device.name(), asked: bytes, free: 0 })?;
        Ok(Parts { parts: parts.collect(), sums })
    }
    /// Returns the bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        let of = |p: &Part| {
            p.local.capacity() * size_of::<u32>()
                + p.bricks.capacity() * size_of::<PartBrick>()
                + p.elsewhere.capacity() * size_of::<(u32, u32)>()
        };
        size_of_val(&self.sums[..]) + self.parts.iter().map(of).sum::<usize>()
    }

    /// Moves the points and finds the brick and cell of each: writes the entry of the part's bricks
    /// and, in the low 6 bits, the cell to `cells`, or [`NONE`] outside the grid. Adds to the
    /// counts of dropped points in the state.
    pub(super) fn voxelize(
        &mut self,
        device: &Device,
        positions: [&[u32]; 3],
        motions: &[u64],
        (frame, resolution): (Frame, u32),
        cells: &mut [u32],
        state: &mut [u32],
    ) {
        let motions = [0, 1].map(|cloud| motion(motions, cloud));
        let work = |part: &mut Part, cells: &mut [u32]| {
            let positions = positions.map(|p| &p[part.first..part.first + cells.len()]);
            let motion = motions[part.cloud];
            on_v3(Voxelize { part, positions, motion, frame, resolution, cells });
        };
        device.install(|| each(&mut self.parts, cells, &work));
        for part in &self.parts {
            state[state::DROPPED as usize + part.cloud] += part.dropped;
        }
    }
    /// Marks the bricks of all levels and counts those of each word.
    pub(super) fn mark_bricks(&self, shape: Shape, occupied: &mut [u32], counts: &mut [u32]) {
        for part in &self.parts {
            for entry in &part.bricks {
                for level in 0..shape.levels() {
                    let brick = entry.key >> (3 * level);
                    let word = shape.region(level, part.cloud as u32) + (brick >> 5);
                    let (word, bit) = (word as usize, 1 << (brick & 31));
                    if occupied[word] & bit != 0 {
                        break;
                    }
                    occupied[word] |= bit;
                    counts[word] += 1;
                }
            }
        }
    }
    /// Marks the cells of the numbered bricks of all levels.
    pub(super) fn mark_cells(&mut self, shape: Shape, words: &[u64], cells: &mut [u64]) {
        for part in &mut self.parts {
            let number = |level: u32, brick: u32| {
                let word = words[(shape.region(level, part.cloud as u32) + (brick >> 5)) as usize];
                let before = word as u32 & ((1 << (brick & 31)) - 1);
                (word >> 32) as u32 + before.count_ones()
            };
            for entry in &mut part.bricks {
                entry.first = number(0, entry.key);
                let of_brick = &mut cells[entry.first as usize];
                entry.own = entry.cells & !*of_brick;
                *of_brick |= entry.cells;
                if entry.own == 0 {
                    continue;
                }
                // The brick's eight cells of level 1 are a row of eight bits, its cell of level 2
                // is one bit.
                let mut bits = of_eights(entry.cells) << (8 * (entry.key & 7));
                for level in 1..shape.levels() {
                    let of_brick = &mut cells[number(level, entry.key >> (3 * level)) as usize];
                    if *of_brick & bits == bits {
                        break;
                    }
                    *of_brick |= bits;
                    bits = 1 << (entry.key >> (3 * level - 3) & 63);
                }
            }
        }
    }
    /// Replaces the entry and cell of each point by the number of its voxel, and writes the sums of
    /// each voxel, or, if there are marks, only of those marked as intersections.
    pub(super) fn sum(
        &mut self,
        device: &Device,
        (normals, motions): (Normals<'_>, &[u64]),
        bricks: &[u64],
        marks: Option<&[u32]>,
        voxels: &mut [u32],
        sums: &mut [u32],
    ) {
        let turns = [0, 1].map(|cloud| motion(motions, cloud).rotation.map(|r| r as f32));
        let all = &self.sums[..sums.len()];
        let work = |part: &mut Part, voxels: &mut [u32]| {
            let normals = normals.map(|n| &n[part.first..part.first + voxels.len()]);
            let turn = &turns[part.cloud];
            on_v3(Sum { part, normals, turn, bricks, marks, voxels, sums: all });
        };
        device.install(|| {
            each(&mut self.parts, voxels, &work);
            self.parts.par_iter_mut().for_each(|p| p.add_elsewhere(normals, &turns[p.cloud], all));
            let chunks = sums.par_chunks_mut(WORDS * VOXELS).zip(all.par_chunks(WORDS * VOXELS));
            chunks.enumerate().for_each(|(i, (to, from))| {
                let marks = marks.map(|marks| &marks[i * VOXELS..i * VOXELS + from.len() / WORDS]);
                on_v3(WriteSums { from, marks, to });
            });
        });
    }
}
impl Part {
    fn new(cloud: usize, first: usize, points: usize) -> Part {
        Part {
            cloud,
            first,
            local: vec![0; points],
            bricks: Vec::with_capacity(points),
            elsewhere: Vec::with_capacity(points),
            dropped: 0,
        }
    }
}

/// Returns one bit for each eight cells: whether one of them is set.
fn of_eights(cells: u64) -> u64 {
    (0..8).map(|i| u64::from(cells >> (8 * i) & 0xFF != 0) << i).sum()
}
/// Reads the motion of a cloud.
fn motion(motions: &[u64], cloud: usize) -> Motion {
    let word = |i: usize| f64::from_bits(motions[cloud * Motion::WORDS as usize + i]);
    Motion {
        rotation: std::array::from_fn(word),
        translation: std::array::from_fn(|axis| word(9 + axis)),
    }
}
/// Runs `work` on each part and its share of one word per point, on all threads.
fn each(parts: &mut [Part], words: &mut [u32], work: &(impl Fn(&mut Part, &mut [u32]) + Sync)) {
    match parts {
        [] => {}
        [part] => work(part, words),
        _ => {
            let (left, right) = parts.split_at_mut(parts.len() / 2);
            let (of_left, of_right) = words.split_at_mut(right[0].first - left[0].first);
            rayon::join(|| each(left, of_left, work), || each(right, of_right, work));
        }
    }
}

/// Returns the elements of a buffer of the CPU.
///
/// # Errors
/// They are not in host memory, or a graph may write them.
pub(super) fn host<T: Element>(view: View<'_, T>) -> Result<&[T]> {
    let found = || view.device().name();
    view.host().ok_or_else(|| not_on_host(found()))
}
/// Returns the elements of a buffer of the CPU mutably.
///
/// # Errors
/// As for [`host`].
pub(super) fn host_mut<'a, T: Element>(view: &'a mut ViewMut<'_, T>) -> Result<&'a mut [T]> {
    let found = view.view().device().name();
    view.host_mut().ok_or_else(|| not_on_host(found))
}
fn not_on_host(found: String) -> Error {
    Error::WrongDevice { name: "points of a frame", found, expected: "the CPU".into() }
}

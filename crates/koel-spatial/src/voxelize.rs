//! Distinct voxels of a surface or a cloud, as sorted keys.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use thiserror::Error;

use crate::grid::Grid;
use crate::key::{KeyError, Order, VoxelKey};
use crate::sample::{self, SampleError, Triangle};
use koel_scans::Mesh;

/// Covering radius in voxels: below 1/2 by more than the rounding error on a grid of 2^21.
const COVERING_RADIUS: f64 = 0.499_999;

/// Maximum resolution for which voxels are marked in a bitmap of N^3 bits (up to 256 MiB). Above
/// it, keys are gathered, sorted and deduplicated in batches.
const BITMAP_RESOLUTION: u32 = 1290;

/// Keys gathered by one thread before the first deduplication.
const BATCH: usize = 1 << 16;

/// Reason why keys cannot be computed.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum VoxelError {
    /// The grid is finer than the key can represent.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The mesh cannot be sampled: an index is out of range, or the surface is too large.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// A coordinate is NaN or infinite.
    #[error("vertex {vertex}: {axis} is {value}, expected a finite number",
        axis = crate::vector::axis_name(*.axis))]
    NotFinite {
        /// Index of the vertex or point.
        vertex: usize,
        /// 0, 1, 2 for x, y, z.
        axis: usize,
        /// The coordinate.
        value: f32,
    },
    /// A point lies outside the grid.
    #[error("vertex {vertex} at {position:?} lies outside the grid of side {side} at {origin:?}")]
    OutsideGrid {
        /// Index of the vertex or point.
        vertex: usize,
        /// Position of the vertex or point.
        position: [f32; 3],
        /// Corner of the grid.
        origin: [f64; 3],
        /// Side of the grid, in the units of the scan.
        side: f64,
    },
    /// The bitmap does not fit in memory.
    #[error("cannot allocate {bytes} bytes for the voxel bitmap")]
    OutOfMemory {
        /// Requested bytes.
        bytes: u64,
    },
}

/// Returns the distinct keys of the voxels that the mesh touches, in ascending order. The voxel
/// surface has no holes: no path of empty voxels from face neighbour to face neighbour crosses it
/// (see [`sample`]). Voxels that the surface only grazes between samples may be missing. Up to
/// rounding, every returned voxel touches the surface.
///
/// Takes about 6 samples per voxel-sized patch of surface, on all threads. Memory: N^3 / 8 bytes of
/// bitmap up to N = 1290, a few times the result beyond. Deterministic.
///
/// # Errors
/// [`VoxelError`]: the grid is too fine for the key, a vertex is not finite or outside the grid, or
/// an index is out of range.
pub fn mesh_keys<K: VoxelKey>(
    mesh: &Mesh,
    grid: &Grid,
    order: Order,
) -> Result<Vec<K>, VoxelError> {
    K::check_resolution(grid.resolution())?;
    check_inside(&mesh.positions, grid)?;
    let corners = |triangle: &[u32; 3]| -> Triangle {
        triangle.map(|index| grid.to_voxel_units(mesh.positions[index as usize].map(f64::from)))
    };
    let mut samples = 0.0;
    for (triangle, indices) in mesh.triangles.iter().enumerate() {
        let vertices = mesh.positions.len();
        if let Some(&index) = indices.iter().find(|&&i| i as usize >= vertices) {
            return Err(SampleError::IndexOutOfRange { triangle, index, vertices }.into());
        }
        samples += sample::most_samples(corners(indices), COVERING_RADIUS);
    }
    sample::check_total(samples)?;
    let pieces =
        mesh.triangles.par_iter().flat_map(|t| sample::pieces(corners(t), COVERING_RADIUS));
    // A sample is a mean of vertices inside the grid; rounding may move it just outside.
    let last = grid.resolution() - 1;
    let voxel = move |p: [f64; 3]| p.map(|c| (c as u32).min(last));
    distinct_keys(grid, order, pieces, move |piece, visit| {
        sample::cover(piece, COVERING_RADIUS, &mut |p| visit(voxel(p)));
    })
}

/// Returns the distinct keys of the voxels that contain a point, in ascending order. Memory as for
/// [`mesh_keys`].
///
/// # Errors
/// [`VoxelError`]: the grid is too fine for the key, or a point is not finite or outside the grid.
pub fn cloud_keys<K: VoxelKey>(
    positions: &[[f32; 3]],
    grid: &Grid,
    order: Order,
) -> Result<Vec<K>, VoxelError> {
    K::check_resolution(grid.resolution())?;
    check_inside(positions, grid)?;
    distinct_keys(grid, order, positions.par_iter(), |position, visit| {
        if let Some(voxel) = grid.voxel_of(position.map(f64::from)) {
            visit(voxel);
        }
    })
}

fn check_inside(positions: &[[f32; 3]], grid: &Grid) -> Result<(), VoxelError> {
    let outside = |position: &[f32; 3]| grid.voxel_of(position.map(f64::from)).is_none();
    let Some(vertex) = positions.par_iter().position_first(outside) else {
        return Ok(());
    };
    let position = positions[vertex];
    Err(match position.iter().position(|c| !c.is_finite()) {
        Some(axis) => VoxelError::NotFinite { vertex, axis, value: position[axis] },
        None => {
            let side = grid.voxel_size() * f64::from(grid.resolution());
            VoxelError::OutsideGrid { vertex, position, origin: grid.origin(), side }
        }
    })
}

/// Runs `voxels_of` on all items and collects the keys of the visited voxels.
fn distinct_keys<K: VoxelKey, T: Send>(
    grid: &Grid,
    order: Order,
    items: impl ParallelIterator<Item = T>,
    voxels_of: impl Fn(T, &mut dyn FnMut([u32; 3])) + Sync + Send,
) -> Result<Vec<K>, VoxelError> {
    if grid.resolution() > BITMAP_RESOLUTION {
        return Ok(gathered_keys(order, items, voxels_of));
    }
    let n = u64::from(grid.resolution());
    let words = (n * n * n).div_ceil(64);
    let out_of_memory = |_| VoxelError::OutOfMemory { bytes: 8 * words };
    let length = usize::try_from(words).map_err(|_| out_of_memory(()))?;
    let bitmap =
        bytemuck::allocation::try_zeroed_slice_box::<AtomicU64>(length).map_err(out_of_memory)?;
    items.for_each(|item| {
        voxels_of(item, &mut |[x, y, z]| {
            let bit = (u64::from(x) * n + u64::from(y)) * n + u64::from(z);
            let (word, mask) = (&bitmap[(bit / 64) as usize], 1 << (bit % 64));
            // Neighbouring samples mark the same voxel: usually the bit is already set, and a load
            // is cheap.
            if word.load(Ordering::Relaxed) & mask == 0 {
                word.fetch_or(mask, Ordering::Relaxed);
            }
        });
    });
    let mut keys = bitmap_keys(&bitmap, n, order);
    if order != Order::RowMajor {
        keys.par_sort_unstable();
    }
    Ok(keys)
}

/// Returns the keys of the set bits, in the order of the bits: row-major.
fn bitmap_keys<K: VoxelKey>(bitmap: &[AtomicU64], n: u64, order: Order) -> Vec<K> {
    const CHUNK: usize = 1 << 14;
    let ones = |words: &[AtomicU64]| {
        words.iter().map(|w| w.load(Ordering::Relaxed).count_ones() as usize).sum()
    };
    let counts: Vec<usize> = bitmap.par_chunks(CHUNK).map(ones).collect();
    let mut keys = vec![K::default(); counts.iter().sum()];
    let mut rest = keys.as_mut_slice();
    let mut outputs = Vec::with_capacity(counts.len());
    for count in counts {
        let (output, tail) = rest.split_at_mut(count);
        outputs.push(output);
        rest = tail;
    }
    bitmap.par_chunks(CHUNK).zip(outputs).enumerate().for_each(|(chunk, (words, output))| {
        let mut output = output.iter_mut();
        for (i, word) in words.iter().enumerate() {
            let mut left = word.load(Ordering::Relaxed);
            while left != 0 {
                let bit = ((chunk * CHUNK + i) * 64) as u64 + u64::from(left.trailing_zeros());
                let voxel = [bit / n / n, bit / n % n, bit % n].map(|c| c as u32);
                if let Some(key) = output.next() {
                    *key = order.pack(voxel);
                }
                left &= left - 1;
            }
        }
    });
    keys
}

/// Gathers keys per thread; deduplicates a thread's keys each time their number has doubled.
fn gathered_keys<K: VoxelKey, T: Send>(
    order: Order,
    items: impl ParallelIterator<Item = T>,
    voxels_of: impl Fn(T, &mut dyn FnMut([u32; 3])) + Sync + Send,
) -> Vec<K> {
    let gather = |mut batch: Batch<K>, item| {
        voxels_of(item, &mut |voxel| batch.push(order.pack(voxel)));
        batch
    };
    let mut keys = items.fold(Batch::default, gather).map(Batch::into_distinct).reduce(
        Vec::new,
        |mut a, mut b| {
            if a.len() < b.len() {
                std::mem::swap(&mut a, &mut b);
            }
            a.append(&mut b);
            a
        },
    );
    keys.par_sort_unstable();
    keys.dedup();
    keys
}

struct Batch<K> {
    keys: Vec<K>,
    full: usize,
}

impl<K> Default for Batch<K> {
    fn default() -> Self {
        Batch { keys: Vec::new(), full: BATCH }
    }
}

impl<K: VoxelKey> Batch<K> {
    fn push(&mut self, key: K) {
        if self.keys.last() == Some(&key) {
            return;
        }
        if self.keys.len() == self.full {
            self.keys.sort_unstable();
            self.keys.dedup();
            self.full = BATCH.max(2 * self.keys.len());
        }
        self.keys.push(key);
    }

    fn into_distinct(mut self) -> Vec<K> {
        self.keys.sort_unstable();
        self.keys.dedup();
        self.keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Both ways of collecting keys agree; the input forces the second one to overflow its
        /// batches.
        #[test]
        fn bitmap_and_batches_agree(
            voxels in vec(proptest::array::uniform3(0u32..9), 0..400),
            repeats in 1usize..400,
            morton in any::<bool>(),
        ) {
            let order = if morton { Order::Morton } else { Order::RowMajor };
            let grid = Grid::new([0.0; 3], 1.0, 9).unwrap();
            let visit_all =
                |_: usize, visit: &mut dyn FnMut([u32; 3])| voxels.iter().for_each(|&v| visit(v));
            let marked: Vec<u64> =
                distinct_keys(&grid, order, (0..repeats).into_par_iter(), visit_all).unwrap();
            let gathered: Vec<u64> = gathered_keys(order, (0..repeats).into_par_iter(), visit_all);
            prop_assert!(marked.is_sorted_by(|a, b| a < b));
            prop_assert_eq!(marked, gathered);
        }
    }
}

//! Turns points into occupied cells.
use super::table::{Grid, NO_CELL};
use koel_simt::{Buf, In, Thread, U32x4, U64x2, kernel};

/// Words of `bounds` in [`point_bounds`](fn@point_bounds): minimum and maximum of x, y, z.
pub const BOUNDS: usize = 6;

/// Returns the bits of coordinate `axis` of point `i`.
#[inline(always)]
#[track_caller]
pub fn coordinate(points: In<u32>, i: u32, axis: u64) -> u32 {
    points.get(3 * i as u64 + axis)
}

/// Maps the bits of a float to an integer with the same order: -NaN first, then -inf to inf, NaN
/// last.
#[inline(always)]
pub fn ordered(bits: u32) -> u32 {
    if bits >> 31 != 0 { !bits } else { bits | 1 << 31 }
}
/// Inverse of [`ordered`].
#[inline(always)]
pub fn unordered(word: u32) -> u32 {
    if word >> 31 != 0 { word & !(1 << 31) } else { !word }
}

/// Widens `bounds`: minimum of x, y, z, then maximum of x, y, z, as [`ordered`] words. Every thread
/// takes many points to keep the number of atomics low.
#[kernel(image = SEARCH, threads = 256, independent)]
pub fn point_bounds(t: Thread, n: u32, points: In<u32>, bounds: Buf<u32>) {
    let (mut low, mut high) = ([u32::MAX; 3], [0u32; 3]);
    for i in t.strided(t.global_id(), t.grid_dim() * t.block_dim(), n) {
        koel_simt::unroll::<3>(|axis| {
            let c = ordered(coordinate(points, i, axis as u64));
            low[axis] = low[axis].min(c);
            high[axis] = high[axis].max(c);
        });
    }
    koel_simt::unroll::<3>(|axis| {
        if low[axis] < bounds.load_relaxed(axis as u32) {
            bounds.fetch_min(axis as u32, low[axis]);
        }
        if high[axis] > bounds.load_relaxed(3 + axis as u32) {
            bounds.fetch_max(3 + axis as u32, high[axis]);
        }
    });
}

/// Sets `keys[i]` to the key of the cell of point `i`, and `indices[i]` to `i`.
#[kernel(image = SEARCH, threads = 256, independent)]
pub fn cell_keys(
    t: Thread,
    n: u32,
    voxels: Grid,
    points: In<u32>,
    keys: Buf<u64>,
    indices: Buf<u32>,
) {
    let i = t.global_id();
    if i >= n {
        return;
    }
    let c = |axis| f32::from_bits(coordinate(points, i, axis));
    let cell = voxels.cell_of([c(0), c(1), c(2)]);
    keys.store(i, voxels.key(cell));
    indices.store(i, i);
}

/// Sets `starts[i]` to 1 if sorted point `i` is the first of its cell, else to 0, and `places[i]`
/// to `i`.
#[kernel(image = SEARCH, threads = 256, independent)]
pub fn mark_cells(t: Thread, n: u32, keys: In<u64>, starts: Buf<u8>, places: Buf<u32>) {
    let i = t.global_id();
    if i >= n {
        return;
    }
    starts.store(i, (i == 0 || keys.get(i) != keys.get(i.wrapping_sub(1))) as u8);
    places.store(i, i);
}

/// Sets `sorted[i]` to x, y, z and index of point `indices[i]`.
#[kernel(image = SEARCH, threads = 256, independent)]
pub fn gather_points(t: Thread, n: u32, points: In<u32>, indices: In<u32>, sorted: Buf<u32>) {
    let i = t.global_id();
    if i >= n {
        return;
    }
    let index = indices.get_stream(i);
    let [x, y, z] = [0, 1, 2].map(|axis| coordinate(points, index, axis));
    sorted.x4().store(i, U32x4([x, y, z, index]));
}

/// Occupied cells of the sorted points: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct CellsIn {
    /// Key of each cell.
    pub keys: In<u64>,
    /// First point of each cell.
    pub starts: In<u32>,
    /// Number of cells.
    pub n: u32,
    /// Number of points.
    pub points: u32,
}
/// Output of the table of cells and of the pairs for the map: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct CellsOut {
    /// Two words for each cell and for the end, as in [`Cells`](super::table::Cells).
    pub cells: Buf<u64>,
    /// Name of each cell, the key in the map.
    pub names: Buf<u32>,
    /// Number of each cell among the occupied ones, the value in the map.
    pub numbers: Buf<u32>,
}

/// Writes cell `i`, and the end after the last one. `cells[2 i]` is its key; `cells[2 i + 1]` is
/// its first point and no next cell. `names[i]` is its name in the map, and `numbers[i]` is `i`.
#[kernel(image = SEARCH, threads = 256, independent)]
pub fn write_cells(t: Thread, voxels: Grid, of: CellsIn, to: CellsOut) {
    let CellsIn { keys, starts, n, points } = of;
    let CellsOut { cells, names, numbers } = to;
    let i = t.global_id();
    if i > n {
        return;
    }
    let no_next = (NO_CELL as u64) << 32;
    if i == n {
        cells.x2().store(i, U64x2([u64::MAX, no_next | points as u64]));
        return;
    }
    let key = keys.get_stream(i);
    cells.x2().store(i, U64x2([key, no_next | starts.get_stream(i) as u64]));
    names.store(i, voxels.name(key));
    numbers.store(i, i);
}

/// Links cells of equal name. `names` and `cells_of` are sorted by name, then by cell.
#[kernel(image = SEARCH, threads = 256, independent)]
pub fn link_cells(t: Thread, n: u32, names: In<u32>, cells_of: In<u32>, cells: Buf<u64>) {
    let i = t.global_id();
    let next = i.saturating_add(1);
    if next >= n || names.get(i) != names.get(next) {
        return;
    }
    let word = 2 * cells_of.get(i) as u64 + 1;
    cells.store(word, cells.load(word) & u32::MAX as u64 | (cells_of.get(next) as u64) << 32);
}

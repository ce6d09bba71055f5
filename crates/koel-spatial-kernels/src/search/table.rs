//! The grid, its occupied cells, and lookups of cells.
//!
//! Cells are numbered row by row: z fastest, then y, then x. Occupied cells are stored in that
//! order, and so are the points of all cells. The points of a run of cells along z are therefore
//! contiguous. A hash table, `koel::Map`, maps a cell to its index among the occupied ones.
//!
//! The map's keys are 32-bit *names*. In a grid of at most 2^32 cells, the name of a cell is its
//! number. In a larger grid, names are hashes of the 64-bit numbers; cells of equal name form a
//! chain in ascending order, and lookups compare the numbers.
use koel_kernels::map::find::MapRef;
use koel_kernels::table::layout::Narrow;
use koel_simt::{In, U64x2};

/// No cell.
pub const NO_CELL: u32 = u32::MAX;

/// Maximum number of cells of a grid, occupied or not.
pub const MAX_CELLS: u64 = 1 << 63;

/// A grid of cells: a kernel argument.
#[derive(Clone, Copy, PartialEq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Grid {
    /// Corner with the minimum coordinates of the points, so that no cell has a negative
    /// coordinate.
    pub origin: [f64; 3],
    /// Side of a cell.
    pub size: f64,
    /// Cells per unit of length.
    pub per_unit: f64,
    /// Cells along each axis, at least 1. Their product is at most [`MAX_CELLS`].
    pub cells: [u32; 3],
    /// Not 0 if the grid has more than 2^32 cells.
    pub wide: u32,
}

impl Grid {
    /// Returns the position of a coordinate along an axis, in cells.
    #[inline(always)]
    fn along(&self, axis: usize, c: f64) -> f64 {
        (c - self.origin[axis]) * self.per_unit
    }
    /// Returns the cell of a point, or the nearest cell for a point outside the grid. Monotonic in
    /// each coordinate, on every device.
    #[inline(always)]
    pub fn cell_of(&self, p: [f32; 3]) -> [u32; 3] {
        // The conversion saturates: negative values become 0.
        let c = |axis: usize| {
            (self.along(axis, p[axis] as f64) as u32).min(self.cells[axis].wrapping_sub(1))
        };
        [c(0), c(1), c(2)]
    }
    /// Returns the number of a cell.
    #[inline(always)]
    pub fn key(&self, [x, y, z]: [u32; 3]) -> u64 {
        let row = (x as u64).wrapping_mul(self.cells[1] as u64).wrapping_add(y as u64);
        row.wrapping_mul(self.cells[2] as u64).wrapping_add(z as u64)
    }
    /// Returns the cell with a number.
    #[inline(always)]
    pub fn cell(&self, key: u64) -> [u32; 3] {
        let (row, z) = divide(key, self.cells[2]);
        let (x, y) = divide(row, self.cells[1]);
        [x as u32, y, z]
    }
    /// Returns the name of a cell in the map: its number, or a hash of it (the finaliser of
    /// MurmurHash3, Appleby).
    #[inline(always)]
    pub fn name(&self, key: u64) -> u32 {
        if self.wide == 0 {
            return key as u32;
        }
        let mut h = key;
        h = (h ^ h >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        h = (h ^ h >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
        (h >> 32) as u32
    }
    /// Returns the range of cells along an axis that can hold a point within `radius` of `c`, end
    /// exclusive. Rounding may widen the range, but never narrows it.
    #[inline(always)]
    pub fn span(&self, axis: usize, c: f32, radius: f64) -> (u32, u32) {
        let c = c as f64;
        let reach = radius * (1.0 + SLACK) + c.abs() * SLACK;
        let (low, high) = (self.along(axis, c - reach), self.along(axis, c + reach));
        let cells = self.cells[axis];
        // No cells for NaN and for ranges outside the grid.
        if !(high >= 0.0 && low < cells as f64) {
            return (0, 0);
        }
        (low as u32, (high as u32).min(cells.wrapping_sub(1)).wrapping_add(1))
    }
    /// Returns the start of cell `i` along an axis, up to rounding.
    #[inline(always)]
    fn face(&self, axis: usize, i: u32) -> f64 {
        self.origin[axis] + i as f64 * self.size
    }
    /// Returns a lower bound of the squared distance along an axis between `c` and any point of the
    /// cells `low..high`.
    #[inline(always)]
    pub fn squared_gap(&self, axis: usize, c: f32, low: u32, high: u32) -> f64 {
        let (c, low, high) = (c as f64, self.face(axis, low), self.face(axis, high));
        let rounding = |face: f64| (c.abs() + face.abs() + self.origin[axis].abs()) * SLACK;
        let gap = (low - c - rounding(low)).max(c - high - rounding(high)).max(0.0);
        gap * gap
    }
}
/// Returns quotient and remainder.
#[inline(always)]
fn divide(a: u64, b: u32) -> (u64, u32) {
    let quotient = a.checked_div(b as u64).unwrap_or(0);
    (quotient, a.wrapping_sub(quotient.wrapping_mul(b as u64)) as u32)
}
/// Upper bound of the relative error of the arithmetic of cells, which is a few units of 2^-53.
const SLACK: f64 = 1.0 / (1u64 << 48) as f64;

/// Returns the squared distance of two points, with each difference and sum rounded to 64 bits, in
/// the order x, y, z.
#[inline(always)]
pub fn squared_distance(a: [f32; 3], b: [f32; 3]) -> f64 {
    let d = |axis: usize| a[axis] as f64 - b[axis] as f64;
    d(0) * d(0) + d(1) * d(1) + d(2) * d(2)
}

/// Points sorted by cell, the occupied cells, and the map to them: one kernel parameter.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Cells {
    /// The grid.
    pub grid: Grid,
    /// Number of occupied cells.
    pub occupied: u32,
    /// Two words for each occupied cell and for the end: the number; the first point and the next
    /// cell of the same name.
    pub cells: In<u64>,
    /// Four words for each point: x, y, z, index.
    pub points: In<u32>,
    /// Map from the name of a cell to its index.
    pub table: MapRef<Narrow>,
}
impl Cells {
    /// Returns number, first point and next cell of the same name of occupied cell `i`.
    #[inline(always)]
    #[track_caller]
    pub fn cell(&self, i: u32) -> (u64, u32, u32) {
        let U64x2([key, word]) = self.cells.x2().get(i);
        (key, word as u32, (word >> 32) as u32)
    }
    /// Returns sorted point `i` and its index.
    #[inline(always)]
    #[track_caller]
    pub fn point(&self, i: u32) -> ([f32; 3], u32) {
        let [x, y, z, index] = self.points.x4().get(i).0;
        ([f32::from_bits(x), f32::from_bits(y), f32::from_bits(z)], index)
    }
    /// Returns the index of a cell among the occupied ones, or [`NO_CELL`].
    #[inline(always)]
    #[track_caller]
    fn find(&self, key: u64) -> u32 {
        let mut at = match self.table.get(self.grid.name(key)) {
            Some(at) => at,
            None => return NO_CELL,
        };
        if self.grid.wide != 0 {
            while at != NO_CELL {
                let (found, _, next) = self.cell(at);
                if found == key {
                    break;
                }
                at = next;
            }
        }
        at
    }
    /// Returns the first occupied cell in `low..high` whose number is at least `key`, or `high`.
    #[inline(always)]
    #[track_caller]
    pub fn lower_bound(&self, mut low: u32, mut high: u32, key: u64) -> u32 {
        while low < high {
            let middle = low.wrapping_add(high.wrapping_sub(low) / 2);
            if self.cell(middle).0 < key {
                low = middle.wrapping_add(1);
            } else {
                high = middle;
            }
        }
        low
    }
    /// Returns the range of sorted points in the cells `low..high` of row x, y, end exclusive.
    /// Makes one lookup for each empty cell before the first occupied one.
    #[inline(always)]
    #[track_caller]
    pub fn row(&self, x: u32, y: u32, low: u32, high: u32) -> (u32, u32) {
        let base = self.grid.key([x, y, 0]);
        let (mut z, mut at) = (low, NO_CELL);
        while z < high && at == NO_CELL {
            at = self.find(base.wrapping_add(z as u64));
            z = z.wrapping_add(1);
        }
        if at == NO_CELL {
            return (0, 0);
        }
        let end = base.wrapping_add(high as u64);
        let start = self.cell(at).1;
        // The cells of a row are contiguous, and the entry after all cells has the maximum number.
        loop {
            at = at.wrapping_add(1);
            let (key, stop, _) = self.cell(at);
            if key >= end {
                return (start, stop);
            }
        }
    }
}

//! The two-way index of occupied cells: maps a cell's key to its number, 0, 1, 2, .. without gaps,
//! and back.
//!
//! The index is a minimal perfect hash function by rank. Each level is a bitmap of its occupied
//! bricks (1 bit for 4^3 cells), and each occupied brick is a bitmap of its cells. A cell's number
//! is the number of set bits before its own; these counts are stored per word and per brick (rank
//! directories: G. Jacobson, Space-efficient Static Trees and Graphs, 1989). A lookup reads 8 bytes
//! of the level and, if the brick is occupied, 16 bytes of the brick, and covers 64 cells at once.
//! Numbers follow the key order: they are the same on every device, and children of a cell are
//! contiguous. Memory: N^3 / 112 bytes for both clouds, plus 16 bytes per brick.
//!
//! Points mark occupied bricks in [`BrickMarks`], which are numbered into [`BricksOut`]. Points
//! then mark occupied cells in [`CellMarks`], which are numbered from [`BricksIn`] into
//! [`IndexOut`]. All later kernels read these as an [`Index`].
use super::clouds::{GROUP, Groups};
use super::layout::{Shape, spread};
use super::{NONE, state};
use koel_simt::{Buf, In, Thread, U64x2, kernel};

/// The index: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Index {
    /// For each word of 32 bricks: the bitmap of occupied bricks and, in the high half, the number
    /// of occupied bricks before the word.
    pub words: In<u64>,
    /// For each occupied brick, two words: the bitmap of its cells, and the number of its first
    /// cell.
    pub bricks: In<u64>,
    /// [Code](Shape::code) of each cell.
    pub codes: In<u32>,
    /// Shape of the grid.
    pub shape: Shape,
}

/// A brick: its occupied cells and the number of the first of them.
#[derive(Clone, Copy)]
pub struct Brick {
    /// Bit `key & 63` is set if the cell is occupied.
    pub cells: u64,
    /// Number of the first cell.
    pub first: u32,
}
impl Brick {
    /// Returns the number of a cell that is known to be occupied.
    #[inline(always)]
    pub fn number(self, bit: u32) -> u32 {
        self.first + (self.cells & ((1 << bit) - 1)).count_ones()
    }
}

impl Index {
    /// Returns level, cloud and key of the cell with this number.
    #[inline(always)]
    #[track_caller]
    pub fn cell(self, number: u32) -> (u32, u32, u32) {
        self.shape.decode(self.codes.get(number))
    }
    /// Returns a brick. An empty brick has no cells.
    #[inline(always)]
    #[track_caller]
    pub fn brick(self, level: u32, cloud: u32, brick: u32) -> Brick {
        let word = self.words.get(self.shape.region(level, cloud) + (brick >> 5));
        let bit = brick & 31;
        if word >> bit & 1 == 0 {
            return Brick { cells: 0, first: 0 };
        }
        Index::brick_at(self.bricks, brick_number(word, bit))
    }
    /// Returns the number of the cell with this key, or [`NONE`].
    #[inline(always)]
    #[track_caller]
    pub fn find(self, level: u32, cloud: u32, key: u32) -> u32 {
        let brick = self.brick(level, cloud, key >> 6);
        let bit = key & 63;
        if brick.cells >> bit & 1 != 0 { brick.number(bit) } else { NONE }
    }
    /// Returns the number of the first cell whose key is at least this, in the order of levels and
    /// clouds. The key may be one past the last.
    #[inline(always)]
    #[track_caller]
    pub fn rank(self, level: u32, cloud: u32, key: u32) -> u32 {
        let word = self.words.get(self.shape.region(level, cloud) + (key >> 11));
        let bit = (key >> 6) & 31;
        // For an empty brick this reads the next occupied one, or the end after the last.
        let U64x2([cells, first]) = self.bricks.x2().get(brick_number(word, bit));
        let inside = word >> bit & 1 != 0;
        first as u32 + if inside { (cells & ((1 << (key & 63)) - 1)).count_ones() } else { 0 }
    }
    /// Returns an occupied brick by its number.
    #[inline(always)]
    #[track_caller]
    pub fn brick_at(bricks: In<u64>, number: u32) -> Brick {
        let U64x2([cells, first]) = bricks.x2().get(number);
        Brick { cells, first: first as u32 }
    }

    /// Returns the occupied cells of a box without those of another, both given by their first and
    /// last cells. The box may extend beyond the grid. It spans at most 5 cells per axis, or 6 if
    /// it starts at an even cell, and so at most two bricks per axis.
    #[inline(always)]
    pub fn cells_in(
        self,
        level: u32,
        cloud: u32,
        from: [i32; 3],
        to: [i32; 3],
        but: Option<([i32; 3], [i32; 3])>,
    ) -> Cells {
        let last = self.shape.side(level) as i32 - 1;
        // By default exclude nothing: a box that ends before it begins.
        let (but_from, but_to) = but.unwrap_or(([1; 3], [0; 3]));
        Cells {
            index: self,
            level,
            cloud,
            x: Span::new(from[0], to[0], last, but_from[0], but_to[0]),
            y: Span::new(from[1], to[1], last, but_from[1], but_to[1]),
            z: Span::new(from[2], to[2], last, but_from[2], but_to[2]),
        }
    }
}

/// Number of corners of a [`Cells`]: its bricks, two per axis.
pub const CORNERS: u32 = 8;

/// A set of cells, brick by brick in a fixed order, and in key order within a brick. It takes no
/// closure: each kernel's loops stay in one function, in which the host's native mode checks only
/// bounds. The loops are nested, so that the threads of a warp look up their bricks together.
#[derive(Clone, Copy)]
pub struct Cells {
    index: Index,
    level: u32,
    cloud: u32,
    x: Span,
    y: Span,
    z: Span,
}
impl Cells {
    /// Returns the cells of a corner, 0 to 7.
    #[inline(always)]
    #[track_caller]
    pub fn corner(self, corner: u32) -> InBrick {
        let (bx, cx, nx) = self.x.half(corner >> 2 & 1);
        let (by, cy, ny) = self.y.half(corner >> 1 & 1);
        let (bz, cz, nz) = self.z.half(corner & 1);
        let wanted =
            (along_x(cx) & along_y(cy) & along_z(cz)) & !(along_x(nx) & along_y(ny) & along_z(nz));
        if wanted == 0 {
            return InBrick::NOTHING;
        }
        let brick = self.index.brick(
            self.level,
            self.cloud,
            spread(bx) << 2 | spread(by) << 1 | spread(bz),
        );
        InBrick { brick, rest: brick.cells & wanted }
    }
}
/// Cells within one brick.
#[derive(Clone, Copy)]
pub struct InBrick {
    brick: Brick,
    /// Cells not returned yet.
    rest: u64,
}
impl InBrick {
    const NOTHING: InBrick = InBrick { brick: Brick { cells: 0, first: 0 }, rest: 0 };
    /// Returns the number of the next cell, or [`NONE`].
    #[inline(always)]
    pub fn pop(&mut self) -> u32 {
        if self.rest == 0 {
            return NONE;
        }
        let cell = self.brick.number(self.rest.trailing_zeros());
        self.rest &= self.rest - 1;
        cell
    }
}
/// Returns the number of occupied bricks before a brick of a word.
#[inline(always)]
fn brick_number(word: u64, bit: u32) -> u32 {
    (word >> 32) as u32 + (word as u32 & ((1 << bit) - 1)).count_ones()
}

/// The part of one axis that a box covers, one or two bricks of 4 bits each, and the part to
/// exclude.
#[derive(Clone, Copy)]
struct Span {
    brick: u32,
    covered: u32,
    left_out: u32,
}
impl Span {
    #[inline(always)]
    fn new(from: i32, to: i32, last: i32, but_from: i32, but_to: i32) -> Span {
        let from = if from > 0 { from } else { 0 };
        let to = if to < last { to } else { last };
        let brick = (from >> 2) as u32;
        let origin = (brick << 2) as i32;
        let left_out = run(but_from - origin, but_to - origin);
        Span { brick, covered: run(from - origin, to - origin), left_out }
    }
    #[inline(always)]
    fn half(self, half: u32) -> (u32, u32, u32) {
        (self.brick + half, self.covered >> (4 * half) & 15, self.left_out >> (4 * half) & 15)
    }
}
/// Returns bits `from` to `to`, limited to the low 8 bits.
#[inline(always)]
fn run(from: i32, to: i32) -> u32 {
    let from = if from > 0 { from } else { 0 };
    let to = if to < 7 { to } else { 7 };
    if to < from || from > 7 { 0 } else { (0xFFu32 >> (7 - to)) & (0xFFu32 << from) }
}
/// Returns the cells of a brick whose z is in a set of 4 bits. z is bits 0 and 3 of the key.
#[inline(always)]
fn along_z(set: u32) -> u64 {
    const LOW: u64 = 0x5555_5555_5555_5555;
    const HIGH: u64 = 0x00FF_00FF_00FF_00FF;
    axis(set, LOW, HIGH)
}
/// The same for y, bits 1 and 4.
#[inline(always)]
fn along_y(set: u32) -> u64 {
    const LOW: u64 = 0x3333_3333_3333_3333;
    const HIGH: u64 = 0x0000_FFFF_0000_FFFF;
    axis(set, LOW, HIGH)
}
/// The same for x, bits 2 and 5.
#[inline(always)]
fn along_x(set: u32) -> u64 {
    const LOW: u64 = 0x0F0F_0F0F_0F0F_0F0F;
    const HIGH: u64 = 0x0000_0000_FFFF_FFFF;
    axis(set, LOW, HIGH)
}
/// `low` and `high` are the cells where that bit of the coordinate is 0.
#[inline(always)]
fn axis(set: u32, low: u64, high: u64) -> u64 {
    let pick = |bit: u32, cells: u64| if set >> bit & 1 != 0 { cells } else { 0 };
    pick(0, low & high) | pick(1, !low & high) | pick(2, low & !high) | pick(3, !low & !high)
}

/// The bitmap of bricks while points mark it: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct BrickMarks {
    /// Bitmap of occupied bricks, 32 per word.
    pub occupied: Buf<u32>,
    /// Number of occupied bricks in each word.
    pub counts: Buf<u32>,
    /// Shape of the grid.
    pub shape: Shape,
}
impl BrickMarks {
    /// Sets the bits of a voxel's bricks, from level 0 up to the first bit that is already set: the
    /// thread that set that one continues from there. Counts the bricks of each word.
    #[inline(always)]
    #[track_caller]
    pub fn mark(self, cloud: u32, key: u32) {
        let BrickMarks { occupied, counts, shape } = self;
        let mut level = 0;
        while level < shape.levels() {
            let brick = key >> (3 * level + 6);
            let (word, bit) = (shape.region(level, cloud) + (brick >> 5), 1u32 << (brick & 31));
            if occupied.load_relaxed(word) & bit != 0 || occupied.fetch_or(word, bit) & bit != 0 {
                return;
            }
            counts.fetch_add(word, 1);
            level += 1;
        }
    }
}

/// Output of numbered bricks: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct BricksOut {
    /// Words of an [`Index`].
    pub words: Buf<u64>,
    /// Cells of each brick. Set to 0.
    pub cells: Buf<u64>,
    /// Position of each brick among all bricks, occupied or not.
    pub places: Buf<u32>,
}
/// Numbered bricks while points mark their cells: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct CellMarks {
    /// Words of an [`Index`].
    pub words: In<u64>,
    /// Bitmap of the 64 cells of each brick.
    pub cells: Buf<u64>,
    /// Shape of the grid.
    pub shape: Shape,
}
/// Numbered bricks with all their cells: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct BricksIn {
    /// Words of an [`Index`].
    pub words: In<u64>,
    /// Bitmap of the 64 cells of each brick.
    pub cells: In<u64>,
    /// Number of cells in the bricks before each brick, and the total after the last one.
    pub before: In<u32>,
    /// Position of each brick among all bricks, occupied or not.
    pub places: In<u32>,
    /// Shape of the grid.
    pub shape: Shape,
}
/// Output of numbered cells: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct IndexOut {
    /// Bricks of an [`Index`].
    pub bricks: Buf<u64>,
    /// Code of each cell.
    pub codes: Buf<u32>,
    /// Number of points in each voxel. Set to 0.
    pub points: Buf<u32>,
}

/// Writes each word of `occupied` with the number of bricks before it, and the total to
/// [`state::BRICKS`]. Clears the cells of each brick. One thread per word, `n` words.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_number_bricks(
    t: Thread,
    n: u32,
    occupied: In<u32>,
    before: In<u32>,
    to: BricksOut,
    state: Buf<u32>,
) {
    let BricksOut { words, cells, places } = to;
    let i = t.global_id();
    if i >= n {
        return;
    }
    let (mut bits, mut brick) = (occupied.get(i), before.get(i));
    words.store(i, (brick as u64) << 32 | bits as u64);
    while bits != 0 {
        cells.store(brick, 0);
        places.store(brick, i << 5 | bits.trailing_zeros());
        bits &= bits - 1;
        brick += 1;
    }
    if i + 1 == n {
        state.store(state::BRICKS, brick);
    }
}
/// Sets the bits of the cells of voxel keys, from level 0 up to the first bit that is already set.
/// Records the level-0 brick of each key. One thread per four points.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_mark_cells(
    t: Thread,
    groups: Groups,
    keys: In<u32>,
    marks: CellMarks,
    bricks_of: Buf<u32>,
) {
    let CellMarks { words, cells, shape } = marks;
    let i = t.global_id();
    if i >= groups.all {
        return;
    }
    let cloud = groups.cloud(i);
    let (mut last, mut brick_of_last, mut j) = (NONE, NONE, GROUP * i);
    while j < GROUP * i + GROUP {
        let key = keys.get(j);
        if key != last {
            // Most points are in the same brick as the previous one.
            let same_brick = (key ^ last) >> 6 == 0;
            let mut level = if key == NONE { shape.levels() } else { 0 };
            while level < shape.levels() {
                let cell = key >> (3 * level);
                let mut brick = brick_of_last;
                if level != 0 || !same_brick {
                    let word = words.get(shape.region(level, cloud) + (cell >> 11));
                    brick = brick_number(word, (cell >> 6) & 31);
                }
                if level == 0 {
                    brick_of_last = brick;
                }
                let bit = 1u64 << (cell & 63);
                if cells.load_relaxed(brick) & bit != 0 || cells.fetch_or(brick, bit) & bit != 0 {
                    break;
                }
                level += 1;
            }
            last = key;
        }
        bricks_of.store(j, if key == NONE { NONE } else { brick_of_last });
        j += 1;
    }
}
/// Counts the cells of each brick.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_count_cells(t: Thread, n: u32, cells: In<u64>, state: In<u32>, counts: Buf<u32>) {
    let i = t.global_id();
    if i < n {
        // No cells after the last brick.
        counts.store(i, if i < state.get(state::BRICKS) { cells.get(i).count_ones() } else { 0 });
    }
}
/// Writes each brick's cells with the number of its first cell, the total after the last brick, and
/// each cell's code. One thread per brick, up to `most`. One more thread per level and cloud
/// describes the level: its first cell, and whether it is the first level whose cells hold enough
/// points.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_number_cells(
    t: Thread,
    most: u32,
    groups: Groups,
    numbered: BricksIn,
    to: IndexOut,
    state: Buf<u32>,
) {
    let BricksIn { cells, before, places, shape, .. } = numbered;
    let IndexOut { bricks, codes, points } = to;
    let i = t.global_id();
    if i >= most {
        let (level, cloud) = ((i - most) >> 1, (i - most) & 1);
        if level < shape.levels() {
            describe_level(numbered, level, cloud, groups.points(cloud).1, state);
        }
        return;
    }
    let all = state.load(state::BRICKS);
    if i > all {
        return;
    }
    let mut number = before.get(i);
    if i == all {
        bricks.x2().store(i, U64x2([0, number as u64]));
        return;
    }
    let (mut of_brick, place) = (cells.get(i), places.get(i));
    bricks.x2().store(i, U64x2([of_brick, number as u64]));
    let (word, mut level) = (place >> 5, 0);
    while word >= shape.region(level, 0) + 2 * shape.region_words(level) {
        level += 1;
    }
    let cloud = (word >= shape.region(level, 1)) as u32;
    let key = (place - (shape.region(level, cloud) << 5)) << 6;
    while of_brick != 0 {
        codes.store(number, shape.code(level, cloud, key | of_brick.trailing_zeros()));
        if level == 0 {
            points.store(number, 0);
        }
        of_brick &= of_brick - 1;
        number += 1;
    }
}
/// Writes the first cell of a level of a cloud and, for the last level and cloud, the end. If it is
/// the first level whose cells hold 8 points on average, or 24, also writes its number. (Coarser
/// levels have no more cells.)
#[inline(always)]
#[track_caller]
fn describe_level(bricks: BricksIn, level: u32, cloud: u32, padded: u32, state: Buf<u32>) {
    let shape = bricks.shape;
    let first = first_cell(bricks, level, cloud);
    let cells = first_cell(bricks, level, cloud + 1) - first;
    let below = if level == 0 {
        NONE
    } else {
        first_cell(bricks, level - 1, cloud + 1) - first_cell(bricks, level - 1, cloud)
    };
    let points = padded - state.load(state::DROPPED + cloud);
    state.store(state::FIRST_CELL + 2 * level + cloud, first);
    if level == shape.top() && cloud == 1 {
        state.store(state::FIRST_CELL + 2 * shape.levels(), first + cells);
    }
    if level == 0 {
        state.store(state::POINTS + cloud, points);
    }
    let choose = |each: u32, word: u32, otherwise: u32| {
        let enough = |cells: u32| points as u64 >= each as u64 * cells as u64;
        if enough(cells) && !(level != 0 && enough(below)) {
            state.store(word + cloud, level);
        } else if level == shape.top() && !enough(cells) {
            state.store(word + cloud, otherwise);
        }
    };
    choose(8, state::SATURATED, shape.top());
    choose(24, state::AREA_LEVEL, shape.top() - 2);
}
/// Returns the number of the first cell of a level of a cloud, from the numbers of the first cells
/// of the bricks. For cloud 2, returns the end of the level.
#[inline(always)]
#[track_caller]
fn first_cell(bricks: BricksIn, level: u32, cloud: u32) -> u32 {
    let BricksIn { words, before, shape, .. } = bricks;
    let word = shape.region(level, 0) + cloud * shape.region_words(level);
    let brick = if word < shape.words {
        (words.get(word) >> 32) as u32
    } else {
        let last = words.get(shape.words - 1);
        brick_number(last, 31) + (last >> 31 & 1) as u32
    };
    before.get(brick)
}

#[cfg(test)]
mod tests {
    use super::super::layout::key_of;
    use super::*;

    #[test]
    fn sets_of_an_axis_are_its_cells() {
        for cell in 0..64u32 {
            let [x, y, z] = super::super::layout::cell_of(cell);
            assert_eq!(key_of([x, y, z]), cell);
            for set in 0..16 {
                assert_eq!(along_x(set) >> cell & 1, u64::from(set >> x & 1));
                assert_eq!(along_y(set) >> cell & 1, u64::from(set >> y & 1));
                assert_eq!(along_z(set) >> cell & 1, u64::from(set >> z & 1));
            }
        }
    }
}

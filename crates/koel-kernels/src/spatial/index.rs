//! The two-way index of occupied cells: a cell's key to its number, 0, 1, 2, .. without gaps, and
//! back.
//!
//! A minimal perfect hash function by rank. Each level is a bitmap of its occupied bricks (1 bit
//! for 4^3 cells), each occupied brick a bitmap of its cells; a cell's number is the number of set
//! bits before its own, kept per word and per brick (rank directories: G. Jacobson, Space-efficient
//! Static Trees and Graphs, 1989). A lookup reads 8 bytes of the first and, if the brick is
//! occupied, 16 of the second, and tells of 64 cells at once. Numbers follow the key order: the
//! same on every device, children of a cell side by side. Memory: N^3 / 112 bytes for both clouds
//! and 16 for each brick.
//!
//! Points mark occupied bricks in [`BrickMarks`]; these are numbered into [`BricksOut`]; points
//! mark occupied cells in [`CellMarks`]; these are numbered, out of [`BricksIn`], into
//! [`IndexOut`], which all kernels behind read as an [`Index`].
use super::clouds::{GROUP, Groups};
use super::layout::{Shape, spread};
use super::{NONE, state};
use koel_simt::{Buf, In, Thread, U64x2, kernel};

/// The index: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Index {
    /// For each word of 32 bricks: which are occupied, and (above) how many come before.
    pub words: In<u64>,
    /// For each occupied brick: which cells are, and (next word) the number of its first.
    pub bricks: In<u64>,
    /// The [code](Shape::code) of each cell.
    pub codes: In<u32>,
    /// The grid.
    pub shape: Shape,
}

/// A brick: its occupied cells, and the number of the first of them.
#[derive(Clone, Copy)]
pub struct Brick {
    /// Bit `key & 63`: the cell is occupied.
    pub cells: u64,
    /// The number of its first cell.
    pub first: u32,
}
impl Brick {
    /// The number of a cell known to be occupied.
    #[inline(always)]
    pub fn number(self, bit: u32) -> u32 {
        self.first + (self.cells & ((1 << bit) - 1)).count_ones()
    }
}

impl Index {
    /// Level, cloud and key of the cell of a number.
    #[inline(always)]
    #[track_caller]
    pub fn cell(self, number: u32) -> (u32, u32, u32) {
        self.shape.decode(self.codes.get(number))
    }
    /// A brick; one that is empty has no cells.
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
    /// The number of the cell of a key, or [`NONE`].
    #[inline(always)]
    #[track_caller]
    pub fn find(self, level: u32, cloud: u32, key: u32) -> u32 {
        let brick = self.brick(level, cloud, key >> 6);
        let bit = key & 63;
        if brick.cells >> bit & 1 != 0 { brick.number(bit) } else { NONE }
    }
    /// The number of the first cell whose key is at least this, in the order of levels and clouds.
    /// The key may be one past the last.
    #[inline(always)]
    #[track_caller]
    pub fn rank(self, level: u32, cloud: u32, key: u32) -> u32 {
        let word = self.words.get(self.shape.region(level, cloud) + (key >> 11));
        let bit = (key >> 6) & 31;
        // Of an empty brick: the next one, or the end behind the last.
        let U64x2([cells, first]) = self.bricks.x2().get(brick_number(word, bit));
        let inside = word >> bit & 1 != 0;
        first as u32 + if inside { (cells & ((1 << (key & 63)) - 1)).count_ones() } else { 0 }
    }
    /// An occupied brick by its number.
    #[inline(always)]
    #[track_caller]
    pub fn brick_at(bricks: In<u64>, number: u32) -> Brick {
        let U64x2([cells, first]) = bricks.x2().get(number);
        Brick { cells, first: first as u32 }
    }

    /// The occupied cells of a box less another, both given by their first and last cells. The box
    /// may reach beyond the grid and spans at most 5 cells a side, or 6 from an even one: two
    /// bricks an axis.
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
        // Nothing is left out: a box that ends before it begins.
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

/// Corners of a [`Cells`]: its bricks, two an axis.
pub const CORNERS: u32 = 8;

/// Some cells, brick by brick in a fixed order, in each brick in key order. No closure: a kernel's
/// loops are one function, in which the host's native mode checks nothing but bounds; and loop in
/// loop, so that the threads of a warp look at their bricks together.
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
    /// Those of a corner, 0 to 7.
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
/// Cells of one brick.
#[derive(Clone, Copy)]
pub struct InBrick {
    brick: Brick,
    /// Those that are still to come.
    rest: u64,
}
impl InBrick {
    const NOTHING: InBrick = InBrick { brick: Brick { cells: 0, first: 0 }, rest: 0 };
    /// The number of the next one, or [`NONE`].
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
/// How many occupied bricks come before a word's brick.
#[inline(always)]
fn brick_number(word: u64, bit: u32) -> u32 {
    (word >> 32) as u32 + (word as u32 & ((1 << bit) - 1)).count_ones()
}

/// The part of one axis that a box covers: one brick or two, 4 bits each; and what is left out of
/// them.
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
/// Bits `from` to `to`, as far as they are among the low 8.
#[inline(always)]
fn run(from: i32, to: i32) -> u32 {
    let from = if from > 0 { from } else { 0 };
    let to = if to < 7 { to } else { 7 };
    if to < from || from > 7 { 0 } else { (0xFFu32 >> (7 - to)) & (0xFFu32 << from) }
}
/// The cells of a brick whose z is in a set of 4 bits: z is bits 0 and 3 of the key.
#[inline(always)]
fn along_z(set: u32) -> u64 {
    const LOW: u64 = 0x5555_5555_5555_5555;
    const HIGH: u64 = 0x00FF_00FF_00FF_00FF;
    axis(set, LOW, HIGH)
}
/// y is bits 1 and 4.
#[inline(always)]
fn along_y(set: u32) -> u64 {
    const LOW: u64 = 0x3333_3333_3333_3333;
    const HIGH: u64 = 0x0000_FFFF_0000_FFFF;
    axis(set, LOW, HIGH)
}
/// x is bits 2 and 5.
#[inline(always)]
fn along_x(set: u32) -> u64 {
    const LOW: u64 = 0x0F0F_0F0F_0F0F_0F0F;
    const HIGH: u64 = 0x0000_0000_FFFF_FFFF;
    axis(set, LOW, HIGH)
}
/// `low`, `high`: the cells where that bit of the coordinate is 0.
#[inline(always)]
fn axis(set: u32, low: u64, high: u64) -> u64 {
    let pick = |bit: u32, cells: u64| if set >> bit & 1 != 0 { cells } else { 0 };
    pick(0, low & high) | pick(1, !low & high) | pick(2, low & !high) | pick(3, !low & !high)
}

/// The bitmap of bricks while points mark it: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct BrickMarks {
    /// Which bricks are occupied, 32 a word.
    pub occupied: Buf<u32>,
    /// How many of each word are.
    pub counts: Buf<u32>,
    /// The grid.
    pub shape: Shape,
}
impl BrickMarks {
    /// Sets the bits of a voxel's bricks, from level 0 up to the first that is set: whoever set
    /// that one goes on from there. Counts the bricks of each word.
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

/// Where numbered bricks go: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct BricksOut {
    /// The words of an [`Index`].
    pub words: Buf<u64>,
    /// The cells of each brick: none yet.
    pub cells: Buf<u64>,
    /// The place of each brick among all, occupied or not.
    pub places: Buf<u32>,
}
/// Numbered bricks while points mark their cells: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct CellMarks {
    /// The words of an [`Index`].
    pub words: In<u64>,
    /// The cells of each brick, 64 of them.
    pub cells: Buf<u64>,
    /// The grid.
    pub shape: Shape,
}
/// Numbered bricks with all their cells: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct BricksIn {
    /// The words of an [`Index`].
    pub words: In<u64>,
    /// The cells of each brick, 64 of them.
    pub cells: In<u64>,
    /// How many cells the bricks before each have; behind the last, how many all have.
    pub before: In<u32>,
    /// The place of each brick among all, occupied or not.
    pub places: In<u32>,
    /// The grid.
    pub shape: Shape,
}
/// Where numbered cells go: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct IndexOut {
    /// The bricks of an [`Index`].
    pub bricks: Buf<u64>,
    /// The code of each cell.
    pub codes: Buf<u32>,
    /// How many points each voxel has: none yet.
    pub points: Buf<u32>,
}

/// Each word of `occupied` and what comes before it side by side; [`state::BRICKS`]: how many
/// bricks there are. One thread for a word, of `n`.
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
/// Sets the bits of the cells of voxel keys, from level 0 up to the first that is set. Notes the
/// brick of each key, of level 0. One thread for four points.
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
            // Most are in the brick of the one before.
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
/// How many cells each brick holds.
#[kernel(image = SPATIAL, threads = 128, independent, native_v3)]
pub fn spatial_count_cells(t: Thread, n: u32, cells: In<u64>, state: In<u32>, counts: Buf<u32>) {
    let i = t.global_id();
    if i < n {
        // Behind the last brick: nothing.
        counts.store(i, if i < state.get(state::BRICKS) { cells.get(i).count_ones() } else { 0 });
    }
}
/// Each brick's cells and the number of its first side by side, and behind the last the number of
/// all; each cell's code. One thread for a brick, of `most`. And one more for each level and cloud:
/// where it begins, and whether it is the first whose cells hold enough points.
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
/// Writes where a level of a cloud begins, behind the last one also where it ends; and its number,
/// if it is the first whose cells hold 8 points on average, or 24. (Coarser levels have no more
/// cells.)
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
/// The number of the first cell of a level of a cloud, from the numbers of the first cells of the
/// bricks; of cloud 2, the end of the level.
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

//! Levels of the grid, and the layout of their cells' bits.
//!
//! Level l has cells of 2^l voxels per side; the top level has 2^3 cells. A cell's key is its
//! Morton code in its level (G. M. Morton 1966; x highest), so `key >> 3` is its parent, and its
//! children are neighbours in key order. Cells are grouped into *bricks* of 4^3 cells, whose key is
//! `key >> 6`.

use super::NONE;

/// Base-2 logarithm of the voxels per side of the finest grid.
pub const MAX_BITS: u32 = 10;
/// Base-2 logarithm of the voxels per side of the coarsest grid.
pub const MIN_BITS: u32 = 3;

/// Shape of a grid: a kernel argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Shape {
    /// Base-2 logarithm of the voxels per side of the layout, 3 to 10.
    pub bits: u32,
    /// Voxels per side in use.
    pub resolution: u32,
    /// Words of 32 bricks, over all levels of both clouds.
    pub words: u32,
}

/// 1 + 8 + 64 + ..: bits 0, 3, 6, ...
const EVERY_THIRD: u32 = 0x4924_9249;
/// Returns (8^n - 1) / 7.
#[inline(always)]
const fn sum_of_powers(n: u32) -> u32 {
    EVERY_THIRD & ((1 << (3 * n)) - 1)
}

impl Shape {
    /// Returns the layout for a grid of up to 2^[`MAX_BITS`] voxels per side.
    pub const fn new(resolution: u32) -> Option<Shape> {
        if resolution == 0 || resolution > 1 << MAX_BITS {
            return None;
        }
        let mut bits = MIN_BITS;
        while 1 << bits < resolution {
            bits += 1;
        }
        Some(Shape { bits, resolution, words: 12 + 4 * sum_of_powers(bits - 3) })
    }
    /// Returns the coarsest level, which has 2^3 cells.
    #[inline(always)]
    pub const fn top(self) -> u32 {
        self.bits - 1
    }
    /// Returns the number of levels.
    #[inline(always)]
    pub const fn levels(self) -> u32 {
        self.bits
    }
    /// Returns the number of cells per side of a level.
    #[inline(always)]
    pub const fn side(self, level: u32) -> u32 {
        1 << (self.bits - level)
    }
    /// Returns the first word of the bricks of a level and cloud. Level 0 comes first, and A before
    /// B: cells are numbered in this order.
    ///
    /// A level of 16 * 2^j cells per side has 2 * 8^j words per cloud. Smaller levels have 2 words
    /// and use a part of one.
    #[inline(always)]
    pub const fn region(self, level: u32, cloud: u32) -> u32 {
        let depth = self.bits - level;
        if depth < 4 {
            return self.words - 4 * depth + 2 * cloud;
        }
        self.words - 12 - 4 * sum_of_powers(depth - 3) + (cloud << (3 * depth - 11))
    }
    /// Returns the number of words of a region.
    #[inline(always)]
    pub const fn region_words(self, level: u32) -> u32 {
        let depth = self.bits - level;
        if depth < 4 { 2 } else { 1 << (3 * depth - 11) }
    }
    /// Returns the code of a cell among all cells: its cloud in bit 31, and its key below a leading
    /// one whose position gives the level.
    #[inline(always)]
    pub const fn code(self, level: u32, cloud: u32, key: u32) -> u32 {
        cloud << 31 | 1 << (3 * (self.bits - level)) | key
    }
    /// Returns level, cloud and key of a [code](Self::code).
    #[inline(always)]
    pub const fn decode(self, code: u32) -> (u32, u32, u32) {
        let place = code & 0x7FFF_FFFF;
        let leading = 31 - (place | 1).leading_zeros();
        (self.bits.wrapping_sub(leading / 3), code >> 31, place ^ 1 << leading)
    }
}

/// Inserts two zero bits before each of the low 10 bits.
#[inline(always)]
pub const fn spread(v: u32) -> u32 {
    let v = (v | v << 16) & 0x0300_00FF;
    let v = (v | v << 8) & 0x0300_F00F;
    let v = (v | v << 4) & 0x030C_30C3;
    (v | v << 2) & 0x0924_9249
}
/// Extracts every third bit: the inverse of [`spread`].
#[inline(always)]
pub const fn gather(v: u32) -> u32 {
    let v = v & 0x0924_9249;
    let v = (v | v >> 2) & 0x030C_30C3;
    let v = (v | v >> 4) & 0x0300_F00F;
    let v = (v | v >> 8) & 0x0300_00FF;
    (v | v >> 16) & 0x0000_03FF
}
/// Returns the Morton code of a cell.
#[inline(always)]
pub const fn key_of(cell: [u32; 3]) -> u32 {
    spread(cell[0]) << 2 | spread(cell[1]) << 1 | spread(cell[2])
}
/// Returns the cell of a Morton code.
#[inline(always)]
pub const fn cell_of(key: u32) -> [u32; 3] {
    [gather(key >> 2), gather(key >> 1), gather(key)]
}

/// Returns the key of the voxel across side 0 to 5 (-x, +x, -y, +y, -z, +z), or [`NONE`] outside
/// the layout. Adds or subtracts in the bits of one axis; the bits between them are 1 to pass a
/// carry, or 0 to pass a borrow.
#[inline(always)]
pub const fn beside(key: u32, side: u32, shape: Shape) -> u32 {
    let all = (1 << (3 * shape.bits)) - 1;
    let shift = 2 - (side >> 1);
    let (first, axis) = (1 << shift, EVERY_THIRD << shift & all);
    let (own, others) = (key & axis, key & !axis);
    if side & 1 != 0 {
        if own == axis { NONE } else { (key | !axis).wrapping_add(first) & axis | others }
    } else if own == 0 {
        NONE
    } else {
        (own - first) & axis | others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_follow_each_other() {
        for resolution in [1, 8, 9, 16, 17, 100, 128, 512, 1000, 1024] {
            let shape = Shape::new(resolution).unwrap();
            let mut next = 0;
            for level in 0..=shape.top() {
                for cloud in 0..2 {
                    assert_eq!(shape.region(level, cloud), next);
                    let cells = (shape.side(level) as u64).pow(3);
                    assert!(shape.region_words(level) as u64 * 32 * 64 >= cells);
                    next += shape.region_words(level);
                }
            }
            assert_eq!(next, shape.words);
            assert!(shape.side(0) >= resolution);
        }
        assert_eq!(Shape::new(0).or(Shape::new(1025)), None);
    }

    #[test]
    fn neighbours_are_one_step_away() {
        for resolution in [1, 16, 1024] {
            let shape = Shape::new(resolution).unwrap();
            let last = shape.side(0) - 1;
            for i in 0..3000u32 {
                // Many cells at the borders.
                let cell = [7919, 104_729, 1].map(|p| match i.wrapping_mul(p) % 7 {
                    0 => 0,
                    1 => last,
                    _ => (i.wrapping_mul(p) / 7) & last,
                });
                for side in 0..6 {
                    let mut next = cell;
                    let at = &mut next[side as usize / 2];
                    *at = if side & 1 != 0 { *at + 1 } else { at.wrapping_sub(1) };
                    let expected = if *at > last { NONE } else { key_of(next) };
                    assert_eq!(beside(key_of(cell), side, shape), expected);
                }
            }
        }
    }

    #[test]
    fn keys_and_codes_round_trip() {
        for i in 0..10_000u32 {
            let cell = [i.wrapping_mul(7919) % 1024, i.wrapping_mul(104_729) % 1024, i % 1024];
            assert_eq!(cell_of(key_of(cell)), cell);
            let shape = Shape::new([8, 128, 1024][i as usize % 3]).unwrap();
            let level = i % shape.levels();
            let key = key_of(cell) & ((1 << (3 * (shape.bits - level))) - 1);
            assert_eq!(shape.decode(shape.code(level, i & 1, key)), (level, i & 1, key));
        }
    }
}

//! Intersection of two clouds of oriented points in one voxel grid: where they meet, and which part
//! of each lies inside the other.
//!
//! In the order of the data flow: [`place`] takes new points, [`begin`] the poses; [`voxelize`]
//! turns the points of both [`clouds`] into voxels; [`index`] numbers the occupied cells of all
//! [levels](layout) without gaps and looks up a cell's number; [`sums`] adds up points and normals
//! per voxel; [`area`] computes the surface area per point; [`dipoles`] turns voxels into oriented
//! pieces of surface and sums them over the levels; [`marks`] finds intersections and free cells;
//! [`winding`] (far from the other surface) and [`nearby`] (close to it) distinguish inside from
//! outside, as [`margins`]; [`labels`] decides. [`flood`] is the 2009 paper's own method from
//! intersections to labels, and [`solid`] fills space for Booleans.
//!
//! Data that one kernel writes and later kernels read has one struct for writing and one for
//! reading, except for single arrays:
//!
//! | module | from | to |
//! |---|---|---|
//! | place | [`PointsIn`] | the points of [`Clouds`], as [`PointsOut`] |
//! | begin | [`Motions`], numbers of points | [`BrickMarks`], cleared |
//! | voxelize | [`Clouds`] | [`VoxelsOut`], and in it the `BrickMarks` |
//! | index | the `BrickMarks`, the voxels' keys | [`BricksOut`], [`CellMarks`] |
//! | index | [`BricksIn`] | [`IndexOut`] |
//! | sums | the bricks of the [`Index`], the voxels' keys | [`RanksOut`] |
//! | sums | [`PointsByVoxel`], `Clouds` | sums of voxels |
//! | area | `Index`, sums of voxels | [`AreasOut`] |
//! | dipoles | `Index`, [`SumsIn`] | dipoles, which form [`Surfaces`] with the `Index` |
//! | marks | `Index` | [`MarksOut`] |
//! | winding | `Surfaces`, [`UnitQueries`] | the winding numbers of [`UnitsIn`] |
//! | nearby | `Surfaces`, voxels near the other one | [`MarginsOut`] |
//! | labels | `Index`, `UnitsIn` | the same `MarginsOut` |
//! | winding | `Surfaces`, [`VoxelQueries`] | margins of undecided voxels |
//! | labels | `Index`, [`MarginsIn`] | labels |
//!
//! [`PointsIn`]: place::PointsIn
//! [`PointsOut`]: place::PointsOut
//! [`Motions`]: clouds::Motions
//! [`Clouds`]: clouds::Clouds
//! [`VoxelsOut`]: voxelize::VoxelsOut
//! [`BrickMarks`]: index::BrickMarks
//! [`BricksOut`]: index::BricksOut
//! [`CellMarks`]: index::CellMarks
//! [`BricksIn`]: index::BricksIn
//! [`IndexOut`]: index::IndexOut
//! [`Index`]: index::Index
//! [`RanksOut`]: sums::RanksOut
//! [`PointsByVoxel`]: sums::PointsByVoxel
//! [`AreasOut`]: area::AreasOut
//! [`SumsIn`]: dipoles::SumsIn
//! [`Surfaces`]: dipoles::Surfaces
//! [`MarksOut`]: marks::MarksOut
//! [`UnitsIn`]: marks::UnitsIn
//! [`UnitQueries`]: winding::UnitQueries
//! [`VoxelQueries`]: winding::VoxelQueries
//! [`MarginsOut`]: margins::MarginsOut
//! [`MarginsIn`]: margins::MarginsIn
//!
//! Every kernel is `independent`: one source for the GPU, the executor and the CPU's native loops.
//! Sums over points are integers, floating-point sums have a fixed order, and only operations that
//! IEEE 754 rounds correctly are used. The labels are therefore bit-identical on every device and
//! in every run.
#[macro_use]
mod at_once;
pub mod area;
pub mod begin;
pub mod clouds;
pub mod dipoles;
pub mod flood;
pub mod index;
pub mod labels;
pub mod layout;
pub mod margins;
pub mod marks;
pub mod nearby;
pub mod place;
pub mod solid;
pub mod sums;
pub mod voxelize;
pub mod winding;

/// "No such cell", "no such point".
pub const NONE: u32 = u32::MAX;

/// Words of the state that kernels share in device memory. `f32` values are stored as bits. Where
/// both clouds have a word, the two are adjacent.
pub mod state {
    use super::layout::MAX_BITS;
    /// First cell of each level of each cloud: level 0 of A, of B, level 1 of A, ...; then the
    /// total number of cells.
    pub const FIRST_CELL: u32 = 0;
    /// Number of points of each cloud inside the grid.
    pub const POINTS: u32 = 2 * (MAX_BITS + 1);
    /// First level of each cloud whose cells hold 8 points on average.
    pub const SATURATED: u32 = POINTS + 2;
    /// First level of each cloud whose cells hold 24 points on average.
    pub const AREA_LEVEL: u32 = POINTS + 4;
    /// Maximum area per point of each cloud (`f32`, voxel faces).
    pub const AREA_CAP: u32 = POINTS + 6;
    /// Area of each cloud (`f32`, voxel faces).
    pub const AREA: u32 = POINTS + 8;
    /// |sum of dipoles| / area of each cloud (`f32`); 0 for a closed surface.
    pub const CLOSEDNESS: u32 = POINTS + 10;
    /// 1 if the surface is open.
    pub const OPEN: u32 = POINTS + 12;
    /// Winding number on the surface itself (`f32`).
    pub const ISO: u32 = POINTS + 14;
    /// Number of queries of the first winding pass, without the samples that precede them.
    pub const UNITS: u32 = POINTS + 16;
    /// Number of voxels near the other surface.
    pub const NEAR: u32 = POINTS + 17;
    /// Number of queries of the second winding pass.
    pub const UNDECIDED: u32 = POINTS + 18;
    /// Number of voxels in each of the two frontiers of the flood, which alternate.
    pub const FRONTIER: u32 = POINTS + 19;
    /// Number of seeds that a conflict has cleared.
    pub const CLEARED: u32 = POINTS + 21;
    /// Number of voxels whose label is uncertain after all rounds of the flood.
    pub const CONFLICTS: u32 = POINTS + 22;
    /// Number of occupied bricks over all levels.
    pub const BRICKS: u32 = POINTS + 23;
    /// Number of points of each cloud outside the grid or not finite, including padding.
    pub const DROPPED: u32 = POINTS + 24;
    /// Number of points of each cloud, without padding.
    pub const GIVEN: u32 = POINTS + 26;
    /// Number of words.
    pub const WORDS: usize = POINTS as usize + 28;
}

/// Marks: where a voxel lies relative to the other cloud.
pub mod mark {
    /// The other cloud occupies the voxel too.
    pub const INTERSECTION: u32 = 1;
    /// No free cell of a saturated level contains the voxel.
    pub const NEAR: u32 = 0;
    /// Added to the level of the largest cell that contains the voxel and is free of the other
    /// cloud.
    pub const FREE: u32 = 2;
}

/// Labels, as in `koel intersect`'s files.
pub mod label {
    /// Uncertain.
    pub const UNKNOWN: u32 = 0;
    /// Both clouds occupy the voxel.
    pub const INTERSECTION: u32 = 1;
    /// Inside the other solid.
    pub const INSIDE: u32 = 2;
    /// Outside the other solid.
    pub const OUTSIDE: u32 = 3;
}

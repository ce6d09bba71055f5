//! Two clouds of oriented points in one voxel grid: where they meet, and which part of each lies
//! inside the other.
//!
//! In the order in which data meets them: [`begin`] takes the poses; [`voxelize`] turns the points
//! of both [`clouds`] into voxels; [`index`] numbers the occupied cells of all [levels](layout)
//! without gaps and finds a cell's number; [`sums`] gathers points and normals per voxel; [`area`]
//! tells how much surface a point stands for; [`dipoles`] turns voxels into oriented pieces of
//! surface and sums them up the levels; [`marks`] finds intersections and free cells; [`winding`]
//! and [`nearby`] tell inside from outside, far from the other surface and close to it, as
//! [`margins`]; [`labels`] decides. [`flood`] is the 2009 paper's own way from intersections to
//! labels, and [`solid`] fills space for Booleans.
//!
//! What one kernel writes and the next ones read has a struct for each of the two, except for
//! single arrays:
//!
//! | module | from | to |
//! |---|---|---|
//! | begin | [`Motions`] | [`BrickMarks`], cleared |
//! | voxelize | [`Clouds`] | [`VoxelsOut`], and in it the `BrickMarks` |
//! | index | these marks, the voxels' keys | [`BricksOut`], [`CellMarks`] |
//! | index | [`BricksIn`] | [`IndexOut`] |
//! | sums | the bricks of the [`Index`], the voxels' keys | [`RanksOut`] |
//! | sums | [`PointsByVoxel`], `Clouds` | sums of voxels |
//! | area | `Index`, sums of voxels | [`AreasOut`] |
//! | dipoles | `Index`, [`SumsIn`] | dipoles, which make [`Surfaces`] of the `Index` |
//! | marks | `Index` | [`MarksOut`] |
//! | winding | `Surfaces`, [`UnitQueries`] | the winding numbers of [`UnitsIn`] |
//! | nearby | `Surfaces`, voxels near the other one | [`MarginsOut`] |
//! | labels | `Index`, `UnitsIn` | the same `MarginsOut` |
//! | winding | `Surfaces`, [`VoxelQueries`] | margins of undecided voxels |
//! | labels | `Index`, [`MarginsIn`] | labels |
//!
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
//! Sums over points are integers, sums of floating-point numbers have a fixed order, and only
//! operations that IEEE 754 rounds correctly are used: the labels are the same bits on every device
//! and in every run.
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
pub mod solid;
pub mod sums;
pub mod voxelize;
pub mod winding;

/// "No such cell", "no such point".
pub const NONE: u32 = u32::MAX;

/// Words of the state that kernels share, in device memory. `f32` are kept as bits. Words of two
/// clouds lie side by side.
pub mod state {
    use super::layout::MAX_BITS;
    /// Where each level of each cloud begins among the cells: level 0 of A, of B, level 1 of A,
    /// ...; then the number of cells.
    pub const FIRST_CELL: u32 = 0;
    /// Points inside the grid, of each cloud.
    pub const POINTS: u32 = 2 * (MAX_BITS + 1);
    /// The first level whose cells hold 8 points on average.
    pub const SATURATED: u32 = POINTS + 2;
    /// The first level whose cells hold 24 points on average.
    pub const AREA_LEVEL: u32 = POINTS + 4;
    /// The most area that a point may stand for (`f32`, voxel faces).
    pub const AREA_CAP: u32 = POINTS + 6;
    /// The area of a cloud (`f32`, voxel faces).
    pub const AREA: u32 = POINTS + 8;
    /// |sum of dipoles| / area (`f32`): 0 for a closed surface.
    pub const CLOSEDNESS: u32 = POINTS + 10;
    /// 1: the surface is open.
    pub const OPEN: u32 = POINTS + 12;
    /// The winding number on the surface itself (`f32`).
    pub const ISO: u32 = POINTS + 14;
    /// Queries of the first winding pass, behind the samples.
    pub const UNITS: u32 = POINTS + 16;
    /// Voxels close to the other surface.
    pub const NEAR: u32 = POINTS + 17;
    /// Queries of the second winding pass.
    pub const UNDECIDED: u32 = POINTS + 18;
    /// Voxels in the frontiers of the flood, alternately.
    pub const FRONTIER: u32 = POINTS + 19;
    /// Seeds that a conflict has cleared.
    pub const CLEARED: u32 = POINTS + 21;
    /// Voxels whose label is uncertain after all rounds of the flood.
    pub const CONFLICTS: u32 = POINTS + 22;
    /// Occupied bricks of all levels.
    pub const BRICKS: u32 = POINTS + 23;
    /// Points outside the grid or not finite, of each cloud, padding too.
    pub const DROPPED: u32 = POINTS + 24;
    /// Words in all.
    pub const WORDS: usize = POINTS as usize + 26;
}

/// What a voxel is told about its place: words of the marks.
pub mod mark {
    /// The other cloud occupies it too.
    pub const INTERSECTION: u32 = 1;
    /// No free cell of a saturated level holds it.
    pub const NEAR: u32 = 0;
    /// Plus the level of the largest cell that holds it and is free of the other cloud.
    pub const FREE: u32 = 2;
}

/// Labels, as in `koel intersect`'s files.
pub mod label {
    /// Not certain.
    pub const UNKNOWN: u32 = 0;
    /// Both clouds occupy the voxel.
    pub const INTERSECTION: u32 = 1;
    /// Inside the other solid.
    pub const INSIDE: u32 = 2;
    /// Outside it.
    pub const OUTSIDE: u32 = 3;
}

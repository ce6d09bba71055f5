//! Parts of a surface that lie less than a voxel from a surface that faces the other way.
//!
//! A voxel that contains both sheets of a thin wall has only one sum of normals, in which they
//! cancel each other: labels, areas and volumes then know neither. Whether that is so is judged
//! here along the surface's own normals, whatever the pose: in each voxel, points that face one way
//! are a piece, and those that face the other way another one. Around each piece, the mean height
//! of the pieces that face its way and of those that face the other way, along its normal, differ
//! by the thickness of the wall, or of the gap if it is negative.
//!
//! Cost: a sort of the points by voxel, and some 100 operations for each piece, on rayon's threads:
//! about a tenth of the time of the volumes. Not part of a frame.

use crate::grid::Grid;
use crate::vector::dot;
use koel_scans::PointCloud;
use rayon::prelude::*;

/// Distance between opposite sheets, in voxels, below which a grid does not tell them apart.
const THIN: f64 = 1.0;
/// Greatest difference of the coordinates of voxels whose pieces are compared.
const REACH: i32 = 2;
/// Greatest distance of a piece across the normal, in voxels.
const ACROSS: f64 = 1.5;
/// Least cosine between normals that agree; the negative is that of opposite ones.
const AGREEMENT: f64 = 0.3;
/// Least ratio between the points on both sides: scans with 5 % of flipped normals and few points
/// are not thin.
const BALANCE: f64 = 0.4;

/// How much of a surface is too thin for a grid.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct Thinness {
    /// Share of the surface that lies less than a voxel from a surface that faces the other way:
    /// both sides of thin walls and of narrow gaps.
    pub share: f64,
    /// Mean distance between both there, in voxels.
    pub thickness: f64,
}

/// Measures how much of a surface is too thin for a grid. Points without a normal and those outside
/// the grid do not count.
///
/// Cost: see the time of volumes in [`Solids`](crate::intersect::Solids); about a tenth of it.
pub fn thinness(cloud: &PointCloud, grid: &Grid) -> Thinness {
    let Some(normals) = &cloud.normals else { return Thinness::default() };
    let points = cloud.positions.par_iter().zip(normals);
    let points = points.map(|(p, n)| (grid.to_voxel_units(p.map(f64::from)), n.map(f64::from)));
    let Thin { pieces, area } = Thin::of(points, grid.resolution());
    let thin = pieces.iter().map(|piece| piece.area).sum::<f64>();
    let weighted = pieces.iter().map(|piece| piece.area * piece.thickness).sum::<f64>();
    match thin > 0.0 {
        true => Thinness { share: thin / area, thickness: weighted / thin },
        false => Thinness::default(),
    }
}

/// Part of a thin wall within a voxel, one side of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct ThinPiece {
    pub voxel: [i32; 3],
    /// Distance to the other side, in voxels.
    pub thickness: f64,
    /// In square voxels.
    pub area: f64,
}

/// Thin parts of a surface.
#[derive(Default)]
pub(crate) struct Thin {
    /// In the order of their voxels.
    pub pieces: Vec<ThinPiece>,
    /// Area of the whole surface, in square voxels.
    pub area: f64,
}

/// Points of a voxel that face about the same way.
#[derive(Clone, Copy)]
struct Piece {
    key: u64,
    centre: [f64; 3],
    normal: [f64; 3],
    points: f64,
    area: f64,
}

const BITS: u32 = 21;

fn key_of(voxel: [i32; 3]) -> u64 {
    voxel.iter().fold(0, |key, &c| key << BITS | (c + REACH) as u64)
}
fn voxel_of(key: u64) -> [i32; 3] {
    [2, 1, 0].map(|place| (key >> (BITS * place) & ((1 << BITS) - 1)) as i32 - REACH)
}

impl Thin {
    /// Finds the thin parts of a surface of points and normals, in voxels.
    pub(crate) fn of(
        points: impl IndexedParallelIterator<Item = ([f64; 3], [f64; 3])>,
        resolution: u32,
    ) -> Thin {
        let within = 0.0..f64::from(resolution);
        let keyed = points.filter_map(|(p, n)| {
            let length = dot(n, n).sqrt();
            let is_valid = p.iter().all(|c| within.contains(c)) && length > 0.0;
            is_valid.then(|| (key_of(p.map(|c| c as i32)), p, n.map(|c| c / length)))
        });
        let mut points = keyed.collect::<Vec<(u64, [f64; 3], [f64; 3])>>();
        // Points of a voxel in the same order in every run.
        let order = |v: [f64; 3]| v.map(f64::to_bits);
        points.par_sort_unstable_by_key(|&(key, p, n)| (key, order(p), order(n)));
        let voxels = points.par_chunk_by(|a, b| a.0 == b.0);
        let mut pieces = voxels.flat_map_iter(pieces_of).collect::<Vec<Piece>>();
        let most =
            pieces.iter().map(|piece| piece.points).sum::<f64>() / pieces.len().max(1) as f64;
        let unseen = share_seen(most);
        pieces.par_iter_mut().for_each(|piece| piece.area /= unseen);
        let area = pieces.iter().map(|piece| piece.area).sum();
        let found = pieces.par_chunks(1024).flat_map_iter(|some| thin_of(some, &pieces));
        Thin { pieces: found.collect(), area }
    }
    /// Returns whether a voxel or one beside it has a thin part.
    pub(crate) fn is_near(&self, voxel: [i32; 3]) -> bool {
        (-1..=1).any(|x| {
            (-1..=1).any(|y| {
                let row = |z: i32| key_of([voxel[0] + x, voxel[1] + y, voxel[2] + z]);
                let first = self.pieces.partition_point(|p| key_of(p.voxel) < row(-1));
                self.pieces.get(first).is_some_and(|p| key_of(p.voxel) <= row(1))
            })
        })
    }
}

/// Returns the share of the pieces of a surface that have points, if those that do have a mean of
/// `points`: points that fall at random leave some pieces out.
fn share_seen(points: f64) -> f64 {
    let all = (0..32).fold(points, |all, _| points * (1.0 - (-all).exp()));
    if all > 0.1 { 1.0 - (-all).exp() } else { 0.1 }
}

/// Returns the points of a voxel that face the way of the first one, and those that do not.
fn pieces_of(points: &[(u64, [f64; 3], [f64; 3])]) -> impl Iterator<Item = Piece> + use<> {
    let first = points[0].2;
    let of = |is_wanted: fn(f64) -> bool| {
        let (mut centre, mut normal, mut weights) = ([0.0; 3], [0.0; 3], [0.0; 2]);
        for (_, p, n) in points.iter().filter(|(_, _, n)| is_wanted(dot(*n, first))) {
            centre = add(centre, *p, 1.0);
            normal = add(normal, *n, 1.0);
            weights = [weights[0] + 1.0, weights[1] + n.iter().map(|c| c.abs()).sum::<f64>()];
        }
        let ([count, sum], length) = (weights, dot(normal, normal).sqrt());
        (length > 0.0).then(|| Piece {
            key: points[0].0,
            centre: centre.map(|c| c / count),
            normal: normal.map(|c| c / length),
            points: count,
            // On average over all positions of a plane in a voxel.
            area: count / sum,
        })
    };
    [of(|along| along >= 0.0), of(|along| along < 0.0)].into_iter().flatten()
}

/// Returns the thin ones of some neighbouring pieces.
fn thin_of(some: &[Piece], all: &[Piece]) -> Vec<ThinPiece> {
    const ROWS: usize = (2 * REACH as usize + 1).pow(2);
    let row = |i: usize| [i as i32 / (2 * REACH + 1) - REACH, i as i32 % (2 * REACH + 1) - REACH];
    // The first piece of each row around a piece moves on with the piece.
    let mut firsts: Option<[usize; ROWS]> = None;
    let mut thin = vec![];
    for piece in some {
        let voxel = voxel_of(piece.key);
        let from = |i: usize| {
            let [x, y] = row(i);
            key_of([voxel[0] + x, voxel[1] + y, voxel[2] - REACH])
        };
        let firsts = firsts.get_or_insert_with(|| {
            std::array::from_fn(|i| all.partition_point(|other| other.key < from(i)))
        });
        let (mut points, mut heights) = ([0.0; 2], [0.0; 2]);
        for (i, first) in firsts.iter_mut().enumerate() {
            let from = from(i);
            while all.get(*first).is_some_and(|other| other.key < from) {
                *first += 1;
            }
            let row = all[*first..].iter();
            for other in row.take_while(|other| other.key <= from + 2 * REACH as u64) {
                let along = dot(piece.normal, other.normal);
                let to = add(other.centre, piece.centre, -1.0);
                let height = dot(to, piece.normal);
                let across = dot(to, to) - height * height;
                if along.abs() < AGREEMENT || across > ACROSS * ACROSS {
                    continue;
                }
                let side = usize::from(along < 0.0);
                points[side] += other.points;
                heights[side] += other.points * height;
            }
        }
        let balance = points[0].min(points[1]) / points[0].max(points[1]);
        let thickness = (heights[0] / points[0] - heights[1] / points[1]).abs();
        if balance >= BALANCE && thickness < THIN {
            thin.push(ThinPiece { voxel, thickness, area: piece.area });
        }
    }
    thin
}

fn add(a: [f64; 3], b: [f64; 3], times: f64) -> [f64; 3] {
    std::array::from_fn(|i| a[i] + times * b[i])
}

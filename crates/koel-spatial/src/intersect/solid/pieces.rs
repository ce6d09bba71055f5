//! The surface of a cloud as oriented pieces on the host, and planes that touch it.

use koel_kernels::math::{exp_neg, unit};
use koel_kernels::spatial::layout::cell_of;

/// Number of levels of cells whose pieces are kept.
pub(super) const LEVELS: u32 = 4;
/// Words of a piece.
pub(super) const WORDS: usize = koel_kernels::spatial::dipoles::WORDS as usize;
/// Cells around a position that support a plane, to each side.
const REACH: i32 = 2;
/// Distance at which the weight of a piece has fallen to 1 / e, in cells.
const WIDTH: f32 = 1.5;
/// Fewest pieces and points that support a plane.
const MIN_PIECES: usize = 4;
const MIN_POINTS: u32 = 6;
/// Greatest distance of a plane from the position it was asked for, in voxels.
const MAX_OFFSET: f32 = 1.5;
/// Greatest distance of the nearest piece from the plane's point, in cells.
const MAX_GAP: f32 = 1.5;
/// Steps towards the surface.
const STEPS: usize = 3;

/// Surface in an occupied cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Centre, in voxels.
    centre: [f32; 3],
    /// Area.
    area: f32,
    /// Area times normal.
    normal: [f32; 3],
    points: u32,
}
/// Pieces of one level of cells, in bricks of 4^3.
struct Level {
    bricks_per_side: i32,
    /// For each brick of the level: 0, or the number of the occupied brick plus 1.
    numbers: Vec<u32>,
    /// Occupied cells of each occupied brick, and the number of the first piece.
    bricks: Vec<(u64, u32)>,
    pieces: Vec<Piece>,
}
impl Level {
    /// `keys` are ascending keys of cells, `words` their dipoles; `bits` is the number of bits of a
    /// cell's coordinate.
    fn new(bits: u32, keys: impl Iterator<Item = u32>, words: &[u32]) -> Level {
        let side_bits = bits.saturating_sub(2);
        let mut level = Level {
            bricks_per_side: 1 << side_bits,
            numbers: vec![0; 1 << (3 * side_bits)],
            bricks: vec![],
            pieces: Vec::with_capacity(words.len() / WORDS),
        };
        let f = f32::from_bits;
        for (key, w) in keys.zip(words.chunks_exact(WORDS)) {
            let number = &mut level.numbers[(key >> 6) as usize];
            if *number == 0 {
                level.bricks.push((0, level.pieces.len() as u32));
                *number = level.bricks.len() as u32;
            }
            level.bricks[*number as usize - 1].0 |= 1 << (key & 63);
            level.pieces.push(Piece {
                centre: [f(w[0]), f(w[1]), f(w[2])],
                area: f(w[3]),
                normal: [f(w[4]), f(w[5]), f(w[6])],
                points: w[7],
            });
        }
        level
    }
    /// Collects the pieces of the cells around a cell.
    fn around(&self, cell: [i32; 3], found: &mut Vec<Piece>) {
        found.clear();
        let last = 4 * self.bricks_per_side - 1;
        let from = cell.map(|c| (c - REACH).clamp(0, last));
        let to = cell.map(|c| (c + REACH).clamp(0, last));
        for x in from[0] >> 2..=to[0] >> 2 {
            for y in from[1] >> 2..=to[1] >> 2 {
                for z in from[2] >> 2..=to[2] >> 2 {
                    self.in_brick([x, y, z], from, to, found);
                }
            }
        }
    }
    fn in_brick(&self, brick: [i32; 3], from: [i32; 3], to: [i32; 3], found: &mut Vec<Piece>) {
        let number = self.numbers[interleaved(brick) as usize];
        let Some(&(cells, first)) = number.checked_sub(1).and_then(|i| self.bricks.get(i as usize))
        else {
            return;
        };
        let mut rest = cells;
        for piece in &self.pieces[first as usize..first as usize + cells.count_ones() as usize] {
            let within = cell_of(rest.trailing_zeros());
            rest &= rest - 1;
            if (0..3).all(|a| {
                let c = 4 * brick[a] + within[a] as i32;
                from[a] <= c && c <= to[a]
            }) {
                found.push(*piece);
            }
        }
    }
}
/// Returns the key of a brick.
fn interleaved(brick: [i32; 3]) -> u32 {
    use koel_kernels::spatial::layout::spread;
    let [x, y, z] = brick.map(|c| spread(c as u32));
    x << 2 | y << 1 | z
}

/// Plane that touches a surface.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Plane {
    /// Point of the surface, in voxels.
    pub point: [f32; 3],
    /// Unit normal.
    pub normal: [f32; 3],
    /// Root mean square distance of the pieces around from the plane, in voxels.
    pub spread: f32,
}

/// Surface of a cloud.
pub(super) struct Pieces {
    levels: Vec<Level>,
}
impl Pieces {
    /// `bits` is the number of bits of a voxel's coordinate. `cells` has the keys of each level, in
    /// ascending order, and [`WORDS`] words of dipole for each.
    pub(super) fn new(bits: u32, cells: Vec<(Vec<u32>, Vec<u32>)>) -> Pieces {
        let level = |(l, (keys, words)): (u32, (Vec<u32>, Vec<u32>))| {
            Level::new(bits.saturating_sub(l), keys.into_iter(), &words)
        };
        Pieces { levels: (0..).zip(cells).map(level).collect() }
    }
    /// Returns the plane that touches the surface near a position, through which the surface leads
    /// out along an axis (`outward` is positive or negative). `None` if the surface has no points
    /// there. `scratch` avoids allocations.
    ///
    /// The plane is a moving least squares fit to the pieces whose normals agree with the nearest
    /// one that faces `outward`: the two sides of an edge or of a thin wall do not mix.
    pub(super) fn plane(
        &self,
        at: [f32; 3],
        axis: usize,
        outward: f32,
        scratch: &mut Vec<Piece>,
    ) -> Option<Plane> {
        for (l, level) in self.levels.iter().enumerate() {
            level.around(at.map(|c| c as i32 >> l), scratch);
            let points = scratch.iter().map(|piece| piece.points).sum::<u32>();
            if scratch.len() < MIN_PIECES || points < MIN_POINTS {
                continue;
            }
            let cell = (1u32 << l) as f32;
            if let Some(plane) = touching(scratch, at, axis, outward, cell) {
                return Some(plane);
            }
        }
        None
    }
}
/// Fits a plane to pieces of cells of a side, in voxels.
fn touching(pieces: &[Piece], at: [f32; 3], axis: usize, outward: f32, cell: f32) -> Option<Plane> {
    let facing = pieces.iter().filter(|piece| outward * piece.normal[axis] > 0.0);
    let nearest = facing.min_by(|a, b| squared(a.centre, at).total_cmp(&squared(b.centre, at)))?;
    let fall = 1.0 / (WIDTH * WIDTH * cell * cell);
    let (mut x, mut normal, mut spread) = (at, unit(nearest.normal), 0.0);
    for _ in 0..STEPS {
        let (mut weight, mut distance, mut square, mut sum) = (0.0, 0.0, 0.0, [0.0; 3]);
        for piece in pieces {
            let agreement = dot(piece.normal, normal) / piece.area;
            if agreement <= 0.0 {
                continue;
            }
            let from = [0, 1, 2].map(|a| x[a] - piece.centre[a]);
            let agreement = agreement * agreement;
            let w = exp_neg(dot(from, from) * fall) * agreement * agreement;
            let above = dot(from, normal);
            weight += w * piece.area;
            // On spheres, a chord makes equal angles with the normals at its ends.
            distance += 0.5 * w * (dot(from, piece.normal) + piece.area * above);
            square += w * piece.area * above * above;
            sum = [0, 1, 2].map(|a| sum[a] + w * piece.normal[a]);
        }
        let step = distance / weight;
        if !step.is_finite() {
            return None;
        }
        spread = (square / weight).sqrt();
        x = [0, 1, 2].map(|a| x[a] - step * normal[a]);
        normal = unit(sum);
    }
    let gap = pieces.iter().map(|piece| squared(piece.centre, x)).fold(f32::MAX, f32::min).sqrt();
    let is_near = squared(x, at) <= MAX_OFFSET * MAX_OFFSET && gap <= MAX_GAP * cell;
    (is_near && outward * normal[axis] > 0.0).then_some(Plane { point: x, normal, spread })
}
fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}
fn squared(a: [f32; 3], b: [f32; 3]) -> f32 {
    let v = [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
    dot(v, v)
}

//! The surface of a cloud as oriented pieces on the host, and planes that touch it.

use koel_kernels::math::unit;
use koel_spatial_kernels::intersect::layout::{cell_of, key_of};
use rayon::prelude::*;

/// Number of levels of cells whose pieces are kept.
pub(super) const LEVELS: u32 = 4;
/// Words of a piece.
pub(super) const WORDS: usize = koel_spatial_kernels::intersect::dipoles::WORDS as usize;
/// Cells around a block of 2^3 cells whose pieces support its planes, to each side.
const REACH: i32 = 2;
/// Distance at which the weight of a piece has fallen to 0, in cells. The weight, (1 - d^2 / 9)^4,
/// is close to exp(-(d / 1.5)^2).
const WIDTH: f32 = 3.0;
/// Fewest pieces and points that support a plane.
const MIN_PIECES: usize = 4;
const MIN_POINTS: u32 = 6;
/// Greatest distance of a plane from the position it was asked for, in voxels.
const MAX_OFFSET: f32 = 1.5;
/// Greatest distance of the nearest piece from the plane's point, in cells.
const MAX_GAP: f32 = 1.5;
/// Steps towards the surface.
const STEPS: usize = 3;
/// Pieces that are computed at once.
const LANES: usize = 8;

/// Pieces of one level of cells, in bricks of 4^3.
struct Level {
    /// Cells per side.
    side: i32,
    /// For each brick of the level: 0, or the number of the occupied brick plus 1.
    numbers: Vec<u32>,
    /// Occupied cells of each occupied brick, and the number of the first piece.
    bricks: Vec<(u64, u32)>,
    /// Dipoles.
    pieces: Vec<[u32; WORDS]>,
}
impl Level {
    /// `keys` are ascending keys of cells, `words` their dipoles; `bits` is the number of bits of a
    /// cell's coordinate.
    fn new(bits: u32, keys: impl Iterator<Item = u32>, words: &[u32]) -> Level {
        let side_bits = bits.saturating_sub(2);
        let mut level = Level {
            side: 4 << side_bits,
            numbers: vec![0; 1 << (3 * side_bits)],
            bricks: vec![],
            pieces: words.as_chunks().0.to_vec(),
        };
        for (piece, key) in (0..).zip(keys) {
            let number = &mut level.numbers[(key >> 6) as usize];
            if *number == 0 {
                level.bricks.push((0, piece));
                *number = level.bricks.len() as u32;
            }
            level.bricks[*number as usize - 1].0 |= 1 << (key & 63);
        }
        level
    }
    /// Collects the pieces of the cells around a block of 2^3 cells.
    fn around(&self, block: [i32; 3], found: &mut Nearby) {
        found.clear();
        let from = block.map(|c| (2 * c - REACH).clamp(0, self.side - 1));
        let to = block.map(|c| (2 * c + 1 + REACH).clamp(0, self.side - 1));
        for x in from[0] >> 2..=to[0] >> 2 {
            for y in from[1] >> 2..=to[1] >> 2 {
                for z in from[2] >> 2..=to[2] >> 2 {
                    let number = self.numbers[key_of([x, y, z].map(|c| c as u32)) as usize];
                    let brick = number.checked_sub(1).and_then(|i| self.bricks.get(i as usize));
                    let Some(&(cells, first)) = brick else { continue };
                    let within = [x, y, z]
                        .into_iter()
                        .enumerate()
                        .map(|(a, b)| AXES[a].of(from[a] - 4 * b, to[a] - 4 * b));
                    let mut rest = within.fold(cells, |cells, within| cells & within);
                    while rest != 0 {
                        let before = (rest & rest.wrapping_neg()) - 1;
                        rest &= rest - 1;
                        let piece = first + (cells & before).count_ones();
                        found.push(&self.pieces[piece as usize]);
                    }
                }
            }
        }
    }
}

/// Cells of a brick, by one of their coordinates.
struct Axis([u64; 4]);
/// x, y and z.
static AXES: [Axis; 3] = [Axis::new(0), Axis::new(1), Axis::new(2)];
impl Axis {
    const fn new(axis: usize) -> Axis {
        let (mut cells, mut key) = ([0; 4], 0);
        while key < 64 {
            cells[cell_of(key)[axis] as usize] |= 1 << key;
            key += 1;
        }
        Axis(cells)
    }
    /// Returns the cells whose coordinate is within these bounds.
    fn of(&self, from: i32, to: i32) -> u64 {
        let within = |c: &usize| (from..=to).contains(&(*c as i32));
        (0..4).filter(within).fold(0, |cells, c| cells | self.0[c])
    }
}

/// Pieces around a block, in groups of [`LANES`].
#[derive(Default)]
struct Nearby {
    groups: Vec<Group>,
    pieces: usize,
    points: u32,
}
/// Pieces that are computed at once. The last group may have some without area, far away.
#[derive(Clone, Copy)]
struct Group {
    /// Centres, in voxels, by axis.
    centres: [[f32; LANES]; 3],
    /// Area times normal, by axis.
    normals: [[f32; LANES]; 3],
    areas: [f32; LANES],
    /// 1 / area, or 0.
    inverse: [f32; LANES],
}
impl Group {
    /// No pieces. The squares of the distances are finite.
    const NOTHING: Group = Group {
        centres: [[1e18; LANES]; 3],
        normals: [[0.0; LANES]; 3],
        areas: [0.0; LANES],
        inverse: [0.0; LANES],
    };
    fn squared_distances(&self, x: [f32; 3]) -> [f32; LANES] {
        let [a, b, c] = &self.centres;
        std::array::from_fn(|i| {
            let v = [a[i] - x[0], b[i] - x[1], c[i] - x[2]];
            v[0] * v[0] + v[1] * v[1] + v[2] * v[2]
        })
    }
}
impl Nearby {
    fn clear(&mut self) {
        self.groups.clear();
        (self.pieces, self.points) = (0, 0);
    }
    fn push(&mut self, piece: &[u32; WORDS]) {
        let lane = self.pieces % LANES;
        if lane == 0 {
            self.groups.push(Group::NOTHING);
        }
        let Some(group) = self.groups.last_mut() else { return };
        let [x, y, z, area, u, v, w, points] = *piece;
        for (axis, (c, n)) in [(x, u), (y, v), (z, w)].into_iter().enumerate() {
            group.centres[axis][lane] = f32::from_bits(c);
            group.normals[axis][lane] = f32::from_bits(n);
        }
        let area = f32::from_bits(area);
        group.areas[lane] = area;
        group.inverse[lane] = if area > 0.0 { 1.0 / area } else { 0.0 };
        self.pieces += 1;
        self.points += points;
    }
    /// Returns the normal of the piece nearest to a position that faces along an axis.
    fn nearest_facing(&self, at: [f32; 3], axis: usize, outward: f32) -> Option<[f32; 3]> {
        let (mut nearest, mut found) = (f32::MAX, None);
        for group in &self.groups {
            let squares = group.squared_distances(at);
            let normals = &group.normals[axis];
            for (i, (square, normal)) in squares.into_iter().zip(normals).enumerate() {
                if outward * normal > 0.0 && square < nearest {
                    (nearest, found) = (square, Some((group, i)));
                }
            }
        }
        found.map(|(group, i)| [0, 1, 2].map(|a| group.normals[a][i]))
    }
    /// Returns the squared distance of the nearest piece from a position.
    fn gap(&self, x: [f32; 3]) -> f32 {
        let mut least = [f32::MAX; LANES];
        for group in &self.groups {
            let squares = group.squared_distances(x);
            least = std::array::from_fn(|i| squares[i].min(least[i]));
        }
        least.into_iter().fold(f32::MAX, f32::min)
    }
    /// Fits a plane to pieces of cells of a side, in voxels.
    fn plane(&self, face: Touch, cell: f32) -> Option<Plane> {
        let Touch { at, axis, outward } = face;
        let (mut x, mut normal) = (at, unit(self.nearest_facing(at, axis, outward)?));
        let (fall, mut spread) = (1.0 / (WIDTH * WIDTH * cell * cell), 0.0);
        for _ in 0..STEPS {
            let sums = self.sums(x, normal, fall);
            let step = sums.distance / sums.weight;
            if !step.is_finite() {
                return None;
            }
            spread = (sums.square / sums.weight).sqrt();
            x = [0, 1, 2].map(|a| x[a] - step * normal[a]);
            normal = unit(sums.normal);
        }
        let v = [0, 1, 2].map(|a| x[a] - at[a]);
        let is_near = v[0] * v[0] + v[1] * v[1] + v[2] * v[2] <= MAX_OFFSET * MAX_OFFSET
            && self.gap(x).sqrt() <= MAX_GAP * cell;
        (is_near && outward * normal[axis] > 0.0).then_some(Plane { point: x, normal, spread })
    }
    /// Sums over the pieces whose normals agree with one, weighted by their distances.
    #[allow(clippy::needless_range_loop, reason = "lanes of many arrays, in vector registers")]
    fn sums(&self, x: [f32; 3], normal: [f32; 3], fall: f32) -> Sums {
        let (mut weight, mut distance, mut square) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        let [mut sum_x, mut sum_y, mut sum_z] = [[0.0; LANES]; 3];
        for group in &self.groups {
            let ([a, b, c], [u, v, w]) = (&group.centres, &group.normals);
            for i in 0..LANES {
                let area = group.areas[i];
                let agreement = u[i] * normal[0] + v[i] * normal[1] + w[i] * normal[2];
                let agreement = (agreement * group.inverse[i]).max(0.0);
                let from = [x[0] - a[i], x[1] - b[i], x[2] - c[i]];
                let r2 = from[0] * from[0] + from[1] * from[1] + from[2] * from[2];
                let near = (1.0 - r2 * fall).max(0.0) * agreement;
                let share = near * near * (near * near);
                let above = from[0] * normal[0] + from[1] * normal[1] + from[2] * normal[2];
                let flux = from[0] * u[i] + from[1] * v[i] + from[2] * w[i];
                weight[i] += share * area;
                // On spheres, a chord makes equal angles with the normals at its ends.
                distance[i] += 0.5 * share * (flux + area * above);
                square[i] += share * area * above * above;
                sum_x[i] += share * u[i];
                sum_y[i] += share * v[i];
                sum_z[i] += share * w[i];
            }
        }
        Sums {
            weight: total(weight),
            distance: total(distance),
            square: total(square),
            normal: [total(sum_x), total(sum_y), total(sum_z)],
        }
    }
}
/// Weighted sums over pieces.
struct Sums {
    weight: f32,
    /// Distance of the position, with its sign.
    distance: f32,
    /// Squared distances of the pieces from the plane through the position.
    square: f32,
    normal: [f32; 3],
}
/// Adds up lanes, in the same order on every machine.
fn total(lanes: [f32; LANES]) -> f32 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
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
/// Where a surface is wanted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Touch {
    /// Position near the surface, in voxels.
    pub at: [f32; 3],
    /// Axis along which the surface leads out.
    pub axis: usize,
    /// Direction along the axis: 1 or -1.
    pub outward: f32,
}
impl Touch {
    /// Returns the block of 2^3 cells of a level that contains the position.
    fn block(&self, level: usize) -> [i32; 3] {
        self.at.map(|c| c as i32 >> (level + 1))
    }
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
    /// Returns the plane that touches the surface near each position, `None` where the surface has
    /// no points.
    ///
    /// A plane is a moving least squares fit to the pieces whose normals agree with the nearest one
    /// that faces `outward`: the two sides of an edge or of a thin wall do not mix. Positions in
    /// the same block of 2^3 voxels share the pieces around it.
    pub(super) fn planes(&self, of: &[Touch]) -> Vec<Option<Plane>> {
        let by_block = |(i, touch): (usize, &Touch)| {
            u64::from(key_of(touch.block(0).map(|c| c as u32))) << 32 | i as u64
        };
        let mut places = of.par_iter().enumerate().map(by_block).collect::<Vec<u64>>();
        places.par_sort_unstable();
        let blocks = places.par_chunk_by(|a, b| a >> 32 == b >> 32);
        let found = blocks.map_init(<[Nearby; 2]>::default, |[shared, own], places| {
            let touches = places.iter().map(|&place| of[place as u32 as usize]);
            if let (Some(level), Some(first)) = (self.levels.first(), touches.clone().next()) {
                level.around(first.block(0), shared);
            }
            touches.map(|touch| self.plane(touch, shared, own)).collect::<Vec<_>>()
        });
        let found = found.flatten_iter().collect::<Vec<Option<Plane>>>();
        let mut planes = vec![None; of.len()];
        for (place, plane) in places.into_iter().zip(found) {
            planes[place as u32 as usize] = plane;
        }
        planes
    }
    /// Returns a plane, from the finest level with enough pieces. `shared` has those of the finest
    /// level, `own` is used for the others.
    fn plane(&self, touch: Touch, shared: &Nearby, own: &mut Nearby) -> Option<Plane> {
        for (l, level) in self.levels.iter().enumerate() {
            let nearby = if l == 0 {
                shared
            } else {
                level.around(touch.block(l), own);
                &*own
            };
            if nearby.pieces >= MIN_PIECES
                && nearby.points >= MIN_POINTS
                && let Some(plane) = nearby.plane(touch, (1u32 << l) as f32)
            {
                return Some(plane);
            }
        }
        None
    }
}

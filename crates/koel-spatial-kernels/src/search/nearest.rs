//! Finds the k nearest points of each query.
use super::cells::coordinate;
use super::table::{Cells, Grid, squared_distance};
use koel_simt::{Buf, In, Thread, kernel};

/// The best points so far, by distance, then by index. They are stored in the output.
struct Best {
    k: u32,
    first: u64,
    len: u32,
    worst: f64,
    indices: Buf<u32>,
    distances: Buf<u64>,
}
impl Best {
    /// Inserts a point if it is among the best.
    #[inline(always)]
    #[track_caller]
    fn offer(&mut self, distance: f64, index: u32) {
        let full = self.len == self.k;
        if distance > self.worst {
            return;
        }
        let mut at = if full { self.len.wrapping_sub(1) } else { self.len };
        if full && distance == self.worst && index > self.indices.load(self.first + at as u64) {
            return;
        }
        while at > 0 {
            let before = self.first + at as u64 - 1;
            let (d, i) = (self.distances.load(before), self.indices.load(before));
            if f64::from_bits(d) < distance || f64::from_bits(d) == distance && i < index {
                break;
            }
            self.distances.store(before + 1, d);
            self.indices.store(before + 1, i);
            at = at.wrapping_sub(1);
        }
        self.distances.store(self.first + at as u64, distance.to_bits());
        self.indices.store(self.first + at as u64, index);
        if !full {
            self.len = self.len.wrapping_add(1);
        }
        if self.len == self.k {
            self.worst = f64::from_bits(self.distances.load(self.first + self.k as u64 - 1));
        }
    }
}

/// The cells of a cube around the query's cell, clipped to the grid, from `low` up to but excluding
/// `high`.
#[derive(Clone, Copy)]
struct Cube {
    low: [u32; 3],
    high: [u32; 3],
}
impl Cube {
    #[inline(always)]
    fn around(grid: &Grid, centre: [u32; 3], radius: u32) -> Cube {
        let low = |a: usize| centre[a].saturating_sub(radius);
        let high = |a: usize| centre[a].saturating_add(radius).saturating_add(1).min(grid.cells[a]);
        Cube { low: [low(0), low(1), low(2)], high: [high(0), high(1), high(2)] }
    }
    /// Returns a lower bound of the squared distance to any point outside the cube, or infinity if
    /// the cube is the whole grid.
    #[inline(always)]
    fn squared_reach(&self, grid: &Grid, q: [f32; 3]) -> f64 {
        let mut least = f64::INFINITY;
        // Such a point is beyond the cube along one axis, and along the others at least as far away
        // as the grid.
        koel_simt::unroll::<3>(|a| {
            let (cells, of_grid) =
                (grid.cells[a], |b: usize| grid.squared_gap(b, q[b], 0, grid.cells[b]));
            let others = of_grid((a + 1) % 3) + of_grid((a + 2) % 3);
            if self.low[a] > 0 {
                least = least.min(grid.squared_gap(a, q[a], 0, self.low[a]) + others);
            }
            if self.high[a] < cells {
                least = least.min(grid.squared_gap(a, q[a], self.high[a], cells) + others);
            }
        });
        least
    }
}

/// Finds the `k` points nearest to query `i`, by distance, then by index. Writes their indices to
/// `indices[k i..]` and the bits of the squared distances (`f64`) to `distances[k i..]`. If there
/// are fewer points, the rest is index 2^32 - 1 with infinite distance.
///
/// Looks up small cubes of cells around the query first. If points outside may still be nearer,
/// sweeps the occupied cells outwards from the query, axis by axis, as far as they can matter.
#[kernel(image = SEARCH, threads = 128, independent)]
pub fn find_nearest(
    t: Thread,
    cells: Cells,
    n: u32,
    queries: In<u32>,
    k: u32,
    indices: Buf<u32>,
    distances: Buf<u64>,
) {
    let i = t.global_id();
    if i >= n {
        return;
    }
    let q = [0, 1, 2].map(|axis| f32::from_bits(coordinate(queries, i, axis)));
    let first = i as u64 * k as u64;
    let mut best = Best { k, first, len: 0, worst: f64::INFINITY, indices, distances };
    if k > 0 && cells.occupied > 0 && q[0].is_finite() && q[1].is_finite() && q[2].is_finite() {
        search(&cells, q, &mut best);
    }
    while best.len < k {
        indices.store(first + best.len as u64, u32::MAX);
        distances.store(first + best.len as u64, f64::INFINITY.to_bits());
        best.len = best.len.wrapping_add(1);
    }
}

/// Maximum radius of the cubes that are looked up, in cells.
const MAX_RADIUS: u32 = 2;

#[inline(always)]
#[track_caller]
fn search(cells: &Cells, q: [f32; 3], best: &mut Best) {
    let grid = &cells.grid;
    let centre = grid.cell_of(q);
    let mut radius = 0;
    while radius <= MAX_RADIUS {
        let cube = Cube::around(grid, centre, radius);
        offer_shell(cells, q, cube, centre, radius, best);
        let reach = cube.squared_reach(grid, q);
        // A point as far away as the worst may have a lower index.
        if reach == f64::INFINITY || best.len == best.k && best.worst < reach {
            return;
        }
        radius = radius.wrapping_add(1);
    }
    // Restart. The worst distance so far remains as an upper bound.
    best.len = 0;
    sweep(cells, q, centre, best);
}

/// Offers all points that can matter: slices of the grid across x, rows of a slice, cells of a row,
/// each outwards from the query.
#[inline(always)]
#[track_caller]
fn sweep(cells: &Cells, q: [f32; 3], centre: [u32; 3], best: &mut Best) {
    let grid = &cells.grid;
    let row = grid.cells[2] as u64;
    let slice = row.wrapping_mul(grid.cells[1] as u64);
    let gap = |axis: usize, i: u32| grid.squared_gap(axis, q[axis], i, i.wrapping_add(1));
    let all = Run { low: 0, high: cells.occupied };
    outwards(
        cells,
        all,
        slice,
        [centre[0], 0, 0],
        best,
        |x| gap(0, x[0]),
        |x, of_slice, best| {
            let middle = [x[0], centre[1], 0];
            outwards(
                cells,
                of_slice,
                row,
                middle,
                best,
                |y| gap(0, y[0]) + gap(1, y[1]),
                |y, of_row, best| {
                    let (middle, beside) = ([y[0], y[1], centre[2]], gap(0, y[0]) + gap(1, y[1]));
                    outwards(
                        cells,
                        of_row,
                        1,
                        middle,
                        best,
                        |z| beside + gap(2, z[2]),
                        |_, cell, best| {
                            offer_run(
                                cells,
                                q,
                                (cells.cell(cell.low).1, cells.cell(cell.high).1),
                                best,
                            );
                        },
                    );
                },
            );
        },
    );
}
/// A range of occupied cells, `low..high`.
#[derive(Clone, Copy)]
struct Run {
    low: u32,
    high: u32,
}
/// Calls `visit` for each group of `size` consecutive cell numbers that contains occupied cells of
/// a run: from the cell `middle` upwards, then downwards, each until the squared distance of a
/// group exceeds the worst.
#[inline(always)]
#[track_caller]
fn outwards(
    cells: &Cells,
    run: Run,
    size: u64,
    middle: [u32; 3],
    best: &mut Best,
    distance: impl Fn([u32; 3]) -> f64,
    mut visit: impl FnMut([u32; 3], Run, &mut Best),
) {
    let grid = &cells.grid;
    let start = cells.lower_bound(run.low, run.high, grid.key(middle));
    let (mut up, mut down) = (start, start);
    loop {
        let upwards = up < run.high;
        if !upwards && down == run.low {
            return;
        }
        let at = if upwards { up } else { down.wrapping_sub(1) };
        let key = cells.cell(at).0;
        let first = key.wrapping_sub(key.checked_rem(size).unwrap_or(0));
        let cell = grid.cell(key);
        if distance(cell) > best.worst {
            (up, down) = if upwards { (run.high, down) } else { (up, run.low) };
            continue;
        }
        let group = if upwards {
            Run { low: up, high: cells.lower_bound(up, run.high, first.wrapping_add(size)) }
        } else {
            Run { low: cells.lower_bound(run.low, down, first), high: down }
        };
        visit(cell, group, best);
        (up, down) = if upwards { (group.high, down) } else { (up, group.low) };
    }
}
/// Offers the points of the cube's cells that are `radius` cells from the centre along an axis.
#[inline(always)]
#[track_caller]
fn offer_shell(
    cells: &Cells,
    q: [f32; 3],
    cube: Cube,
    centre: [u32; 3],
    radius: u32,
    best: &mut Best,
) {
    let Cube { low, high } = cube;
    let mut x = low[0];
    while x < high[0] {
        let mut y = low[1];
        while y < high[1] {
            if x.abs_diff(centre[0]) == radius || y.abs_diff(centre[1]) == radius {
                offer_run(cells, q, cells.row(x, y, low[2], high[2]), best);
            } else {
                // In the interior, offer only the two ends of the row, unless they are clipped.
                if centre[2] >= radius {
                    offer_run(cells, q, cells.row(x, y, low[2], low[2].wrapping_add(1)), best);
                }
                if centre[2].saturating_add(radius) < cells.grid.cells[2] {
                    offer_run(cells, q, cells.row(x, y, high[2].wrapping_sub(1), high[2]), best);
                }
            }
            y = y.wrapping_add(1);
        }
        x = x.wrapping_add(1);
    }
}
#[inline(always)]
#[track_caller]
fn offer_run(cells: &Cells, q: [f32; 3], (mut i, end): (u32, u32), best: &mut Best) {
    while i < end {
        let (p, index) = cells.point(i);
        best.offer(squared_distance(p, q), index);
        i = i.wrapping_add(1);
    }
}

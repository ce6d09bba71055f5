//! Counts, then lists, all points within a radius of each query.
use super::cells::coordinate;
use super::table::{Cells, squared_distance};
use koel_simt::{Buf, In, Thread, kernel};

/// Calls `visit` with the index of every point within `radius` of `q`, in the order of cell
/// numbers, then of indices.
#[inline(always)]
#[track_caller]
fn each_within(cells: &Cells, q: [f32; 3], radius: f64, mut visit: impl FnMut(u32)) {
    let grid = cells.grid;
    let span = |axis: usize| grid.span(axis, q[axis], radius);
    let ((x0, x1), (y0, y1), (z0, z1)) = (span(0), span(1), span(2));
    if x0 == x1 || y0 == y1 || z0 == z1 {
        return;
    }
    let limit = radius * radius;
    let side = |low: u32, high: u32| high.wrapping_sub(low) as f64;
    if side(x0, x1) * side(y0, y1) * side(z0, z1) <= cells.occupied as f64 {
        let mut x = x0;
        while x < x1 {
            let mut y = y0;
            while y < y1 {
                of_run(cells, q, limit, cells.row(x, y, z0, z1), &mut visit);
                y = y.wrapping_add(1);
            }
            x = x.wrapping_add(1);
        }
        return;
    }
    // The box has more cells than are occupied: walk the occupied cells, and skip those outside the
    // box by bisection.
    let (mut at, mut next) = (0, grid.key([x0, y0, z0]));
    loop {
        at = cells.lower_bound(at, cells.occupied, next);
        let (key, start, _) = cells.cell(at);
        let [x, y, z] = grid.cell(key);
        if at >= cells.occupied || x >= x1 {
            return;
        }
        next = if y >= y1 {
            grid.key([x.wrapping_add(1), y0, z0])
        } else if z >= z1 {
            grid.key([x, y.wrapping_add(1), z0])
        } else if y < y0 || z < z0 {
            grid.key([x, y.max(y0), z0])
        } else {
            of_run(cells, q, limit, (start, cells.cell(at.wrapping_add(1)).1), &mut visit);
            key.wrapping_add(1)
        };
    }
}

#[inline(always)]
#[track_caller]
fn of_run(
    cells: &Cells,
    q: [f32; 3],
    limit: f64,
    (mut i, end): (u32, u32),
    visit: &mut impl FnMut(u32),
) {
    while i < end {
        let (p, index) = cells.point(i);
        if squared_distance(p, q) <= limit {
            visit(index);
        }
        i = i.wrapping_add(1);
    }
}

/// Sets `counts[i]` to the number of points within `radius` (the bits of an `f64`) of query `i`.
#[kernel(image = SEARCH, threads = 128, independent)]
pub fn count_within(
    t: Thread,
    cells: Cells,
    n: u32,
    queries: In<u32>,
    radius: u64,
    counts: Buf<u64>,
) {
    let i = t.global_id();
    if i >= n {
        return;
    }
    let q = [0, 1, 2].map(|axis| f32::from_bits(coordinate(queries, i, axis)));
    let mut count = 0u64;
    each_within(&cells, q, f64::from_bits(radius), |_| count += 1);
    counts.store(i, count);
}

/// Output of lists of points: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct Lists {
    /// Start of each list, and the end of the last one.
    pub offsets: In<u64>,
    /// Capacity of `found`, in indices.
    pub room: u64,
    /// Indices of the points.
    pub found: Buf<u32>,
}

/// Writes the indices of the points within `radius` of query `i` to `found[offsets[i]..]`, up to
/// `offsets[i + 1]` and `room`.
#[kernel(image = SEARCH, threads = 128, independent)]
pub fn list_within(t: Thread, cells: Cells, n: u32, queries: In<u32>, radius: u64, to: Lists) {
    let Lists { offsets, room, found } = to;
    let i = t.global_id();
    if i >= n {
        return;
    }
    let q = [0, 1, 2].map(|axis| f32::from_bits(coordinate(queries, i, axis)));
    let (mut at, end) = (offsets.get(i), offsets.get(i as u64 + 1).min(room));
    each_within(&cells, q, f64::from_bits(radius), |index| {
        if at < end {
            found.store(at, index);
            at += 1;
        }
    });
}

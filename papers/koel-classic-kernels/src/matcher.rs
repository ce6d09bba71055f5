//! Geometric hashing as published: cells of points in the coordinates of bases, votes for pairs of
//! bases, and the pairs with the most votes (Alcantara et al. 2009, section 6; Zachmann's lecture).
//!
//! Launch order: [`matcher_cells()`] for the model, [`matcher_entries()`]; for the scene
//! [`matcher_cells()`], one of the three kernels that vote, then [`matcher_sums()`],
//! [`matcher_squares()`], [`matcher_levels()`], [`matcher_cutoffs()`] and
//! [`matcher_candidates()`].
//!
//! Votes are integers, and floats are added in a fixed order, so results do not depend on the order
//! of threads.
use super::at_least_one;
use koel_kernels::map::find::MapRef;
use koel_kernels::math::sqrt;
use koel_kernels::table::layout::Narrow;
use koel_simt::{Buf, In, Thread, U32x4, kernel};

/// Key of a point without a cell. No entry has it.
pub const NO_CELL: u32 = u32::MAX;
/// Maximum coordinates of a cell; points beyond have none.
pub const REACH: i32 = 1 << 14;
/// Votes are multiples of 1 / `VOTE`.
pub const VOTE: f32 = 256.0;
/// Words of a basis in [`BasesIn::bases`].
pub const BASIS_WORDS: usize = 12;
/// Threads per row of the matrix in [`matcher_vote()`] and its siblings.
pub const VOTERS: u32 = 256;
/// Adjacent threads that share a list of entries.
const LANES: u32 = 8;
/// Partial sums per row of the matrix, one for each of as many threads.
pub const STRIPS: u32 = 32;
/// Levels of significance, of 1/16 standard deviation each. The last one has no upper end.
pub const LEVELS: u32 = 256;
/// Words of a candidate.
pub const CANDIDATE_WORDS: u32 = 3;

/// Returns the cell of a point in a partition into squares: column and row.
#[inline(always)]
pub fn square(cells_per_unit: f32, (u, v): (f32, f32)) -> (i32, i32) {
    let floor = |x: f32| {
        let whole = x as i32;
        if whole as f32 > x { whole.saturating_sub(1) } else { whole }
    };
    (floor(u * cells_per_unit), floor(v * cells_per_unit))
}
/// Returns the strip that holds a coordinate: the number of ends, in ascending order, that are not
/// above it.
#[inline(always)]
pub fn strip(ends: u32, end: impl Fn(u32) -> f32, at: f32) -> i32 {
    let (mut low, mut high) = (0, ends);
    while low < high {
        let middle = (low + high) / 2;
        if end(middle) <= at { low = middle + 1 } else { high = middle }
    }
    low as i32
}
/// Returns the index of the node that is closest to a point; the first of equally close ones.
#[inline(always)]
pub fn nearest(nodes: u32, node: impl Fn(u32) -> (f32, f32), (u, v): (f32, f32)) -> u32 {
    let (mut best, mut at, mut i) = (f32::MAX, 0, 0);
    while i < nodes {
        let (x, y) = node(i);
        let distance2 = (x - u) * (x - u) + (y - v) * (y - v);
        if distance2 < best {
            (best, at) = (distance2, i);
        }
        i += 1;
    }
    at
}
/// Returns the key of a cell, or [`NO_CELL`] if it or a neighbour is out of [`REACH`].
#[inline(always)]
pub fn key_of((u, v): (i32, i32)) -> u32 {
    let inside = |i: i32| (2 - REACH..REACH - 2).contains(&i);
    if inside(u) && inside(v) {
        (v.wrapping_add(REACH) as u32) << 16 | u.wrapping_add(REACH) as u32
    } else {
        NO_CELL
    }
}
/// Returns the key of neighbour `k` of a cell, 0 to 8, row by row; 4 is the cell itself.
#[inline(always)]
pub fn neighbour(key: u32, k: u32) -> u32 {
    if key == NO_CELL {
        return NO_CELL;
    }
    // The bits of columns and rows have room for a step.
    let (column, row) = (k % 3, k / 3);
    key.wrapping_add(column).wrapping_sub(1).wrapping_add(row << 16).wrapping_sub(1 << 16)
}

/// Points and bases of an image: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct BasesIn {
    /// x and y of each point (floats).
    pub points: In<u32>,
    /// Number of points; at least 1.
    pub points_len: u32,
    /// For each basis: the linear part of the map from the plane to its coordinates, row by row,
    /// the shift, the maximum coordinate and the weight of its votes (floats); the indices of its
    /// points; 0. The maximum is negative if the points do not span the plane.
    pub bases: In<u32>,
    /// Number of bases.
    pub bases_len: u32,
}

/// Types of partition.
pub mod partition {
    /// Squares.
    pub const SQUARES: u32 = 0;
    /// Strips along both axes.
    pub const STRIPS: u32 = 1;
    /// Cells around the nodes of a grid.
    pub const NODES: u32 = 2;
}

/// Partition of the plane into cells: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct CellsIn {
    /// A constant of [`partition`].
    pub partition: u32,
    /// Cells per unit of squares (float).
    pub cells_per_unit: f32,
    /// Ends of strips along the axes, or coordinates of nodes (floats).
    pub us: In<u32>,
    /// The same of the other axis.
    pub vs: In<u32>,
    /// Number of `us`.
    pub us_len: u32,
    /// Number of `vs`.
    pub vs_len: u32,
    /// Nodes per side of the grid; at least 1.
    pub side: u32,
}
impl CellsIn {
    /// Returns the key of a point.
    #[inline(always)]
    #[track_caller]
    fn key(self, at: (f32, f32)) -> u32 {
        let float = |words: In<u32>, i: u32| f32::from_bits(words.get(i));
        let cell = if self.partition == partition::SQUARES {
            square(self.cells_per_unit, at)
        } else if self.partition == partition::STRIPS {
            let u = strip(self.us_len, |i| float(self.us, i), at.0);
            (u, strip(self.vs_len, |i| float(self.vs, i), at.1))
        } else {
            let node = |i: u32| (float(self.us, i), float(self.vs, i));
            let (nearest, side) = (nearest(self.us_len, node, at), at_least_one(self.side));
            ((nearest % side) as i32, (nearest / side) as i32)
        };
        key_of(cell)
    }
}

/// Writes the key of each point in the coordinates of each basis, and the weight of its votes.
///
/// One thread per basis and point. A point has `fan` keys: 1, or 9 for the cells around its own,
/// too. [`NO_CELL`] stands for points of the basis itself and points out of reach.
#[kernel(image = MATCHER, threads = 256, independent)]
pub fn matcher_cells(
    t: Thread,
    bases: BasesIn,
    cells: CellsIn,
    fan: u32,
    by_distance: u32,
    keys: Buf<u32>,
    weights: Buf<u32>,
) {
    let (i, points) = (t.global_id(), at_least_one(bases.points_len));
    if i >= bases.bases_len * points {
        return;
    }
    let (basis, point) = (i / points, i % points);
    let U32x4([a, b, c, d]) = bases.bases.x4().get(3 * basis);
    let U32x4([x, y, reach, weight]) = bases.bases.x4().get(3 * basis + 1);
    let U32x4([first, second, third, _]) = bases.bases.x4().get(3 * basis + 2);
    let [a, b, c, d, x, y] = [a, b, c, d, x, y].map(f32::from_bits);
    let (reach, weight) = (f32::from_bits(reach), f32::from_bits(weight));
    let (p, q) = (
        f32::from_bits(bases.points.get(2 * point)),
        f32::from_bits(bases.points.get(2 * point + 1)),
    );
    let (u, v) = (a * p + b * q + x, c * p + d * q + y);
    let other = point != first && point != second && point != third;
    // False for coordinates that are not numbers.
    let near = u <= reach && -u <= reach && v <= reach && -v <= reach;
    let key = if other && near { cells.key((u, v)) } else { NO_CELL };
    if fan == 1 {
        keys.store(i, key);
    } else {
        let mut k = 0;
        while k < 9 {
            keys.store(9 * i + k, neighbour(key, k));
            k += 1;
        }
    }
    let distance = if by_distance != 0 { 1.0 + sqrt(u * u + v * v) } else { 1.0 };
    weights.store(i, (weight / distance).to_bits());
}

/// Entries of a model: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct EntriesOut {
    /// 1 for each key that is an entry, else 0.
    pub present: Buf<u8>,
    /// Value of each key: the name of its basis.
    pub values: Buf<u32>,
    /// Number of entries of each basis, which is 0 at first.
    pub sizes: Buf<u32>,
}

/// Marks the keys that are entries, names their bases and counts the entries of each basis.
///
/// One thread per key. A basis has `per_basis` of the `n` keys, and one of the `names`.
#[kernel(image = MATCHER, threads = 256, independent)]
pub fn matcher_entries(
    t: Thread,
    n: u32,
    per_basis: u32,
    keys: In<u32>,
    names: In<u32>,
    out: EntriesOut,
) {
    let i = t.global_id();
    if i >= n {
        return;
    }
    let basis = i / at_least_one(per_basis);
    let entry = keys.get_stream(i) != NO_CELL;
    out.present.store(i, entry as u8);
    out.values.store(i, names.get(basis));
    if entry {
        out.sizes.fetch_add(basis, 1);
    }
}

/// Lists of entries for the keys of scene bases: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct ListsIn {
    /// First entry of each key.
    pub starts: In<u32>,
    /// Number of entries of each key.
    pub counts: In<u32>,
    /// Weight of each point's votes (floats).
    pub weights: In<u32>,
    /// Divisor of the weights of lists with 0, 1, ... entries (floats); the last one is for longer
    /// lists, too.
    pub density: In<u32>,
    /// Number of divisors; 0 if weights do not depend on the number of entries.
    pub density_len: u32,
    /// Names of the model's bases.
    pub entries: In<u32>,
    /// Keys of a scene basis.
    pub per_basis: u32,
    /// Keys of a point.
    pub fan: u32,
}

/// Matrix of votes: a kernel argument. Each scene basis has a row, each model basis a column.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct MatrixOut {
    /// Votes, row by row, which are 0 at first.
    pub votes: Buf<u32>,
    /// Number of rows.
    pub rows: u32,
    /// Number of columns.
    pub columns: u32,
    /// Whether the first thread of a row does the work of all, without atomics.
    pub alone: u32,
}
/// Adds to a word, of which this thread is the only user if `alone`.
#[inline(always)]
#[track_caller]
fn add(words: Buf<u32>, at: u32, number: u32, alone: bool) {
    if alone {
        words.store(at, words.load(at).wrapping_add(number));
    } else {
        words.fetch_add(at, number);
    }
}

/// Lets the points of a scene basis vote. `number` returns the number of the basis that an entry
/// names.
#[inline(always)]
#[track_caller]
fn vote(t: Thread, lists: ListsIn, matrix: MatrixOut, number: impl Fn(u32) -> u32) {
    let (row, thread, alone) = (t.block(), t.id(), matrix.alone != 0);
    if row >= matrix.rows || (alone && thread != 0) {
        return;
    }
    let (mut key, keys, lane, lanes) =
        if alone { (0, 1, 0, 1) } else { (thread / LANES, VOTERS / LANES, thread % LANES, LANES) };
    let fan = at_least_one(lists.fan);
    while key < lists.per_basis {
        let at = row * lists.per_basis + key;
        let count = lists.counts.get(at);
        if count > 0 {
            let mut weight = f32::from_bits(lists.weights.get(at / fan));
            if lists.density_len > 0 {
                let last = lists.density_len - 1;
                let of = if count < last { count } else { last };
                weight /= f32::from_bits(lists.density.get(of));
            }
            let weight = (weight * VOTE + 0.5) as u32;
            let start = lists.starts.get(at);
            let mut entry = lane;
            while entry < count {
                let column = number(lists.entries.get(start + entry));
                if column < matrix.columns {
                    add(matrix.votes, row * matrix.columns + column, weight, alone);
                }
                entry += lanes;
            }
        }
        key += keys;
    }
}

/// Lets each point of each scene basis vote for the entries of its cells, which name bases by
/// number. One block per scene basis.
#[kernel(image = MATCHER, threads = 256, independent)]
pub fn matcher_vote(t: Thread, lists: ListsIn, matrix: MatrixOut) {
    vote(t, lists, matrix, |name| name)
}
/// The same with names of points: each vote looks up the number of its basis in a hash table.
#[kernel(image = MATCHER, threads = 256, independent)]
pub fn matcher_vote_hashed(t: Thread, lists: ListsIn, matrix: MatrixOut, numbers: MapRef<Narrow>) {
    vote(t, lists, matrix, |name| numbers.get(name).unwrap_or(u32::MAX))
}
/// The same with names of points: each vote finds the number of its basis by binary search in the
/// sorted names.
#[kernel(image = MATCHER, threads = 256, independent)]
pub fn matcher_vote_searched(
    t: Thread,
    lists: ListsIn,
    matrix: MatrixOut,
    names: In<u32>,
    numbers: In<u32>,
) {
    vote(t, lists, matrix, |name| {
        // Branch-free lower bound, which exists: every entry's name is among the names.
        let (mut low, mut size) = (0u32, matrix.columns);
        while size > 1 {
            let half = size / 2;
            low = if names.get(low + half) <= name { low + half } else { low };
            size -= half;
        }
        numbers.get(low)
    })
}

/// Matrix of votes, and what is known of its columns: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct MatrixIn {
    /// Votes, row by row.
    pub votes: In<u32>,
    /// Number of rows.
    pub rows: u32,
    /// Number of columns.
    pub columns: u32,
    /// Share of all entries that each model basis has (floats).
    pub shares: In<u32>,
    /// Number of model bases that have entries; at least 1 (float).
    pub used: f32,
    /// Minimum significance of a candidate, in standard deviations.
    pub threshold: f32,
    /// Whether the first thread of a row does the work of all, without atomics.
    pub alone: u32,
}
/// Sums of the strips of each row: a kernel argument.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SumsIn {
    /// Votes.
    pub votes: In<u64>,
    /// Squared deviations from the votes by chance, over the shares (floats).
    pub squares: In<u32>,
}
impl MatrixIn {
    /// Calls `each` for the strips of the thread's row that are this thread's, with row and strip.
    #[inline(always)]
    fn strips(self, t: Thread, mut each: impl FnMut(u32, u32)) {
        let (row, own) = (t.global_id() / STRIPS, t.global_id() % STRIPS);
        if row >= self.rows {
            return;
        }
        if self.alone == 0 {
            each(row, own);
        } else if own == 0 {
            let mut strip = 0;
            while strip < STRIPS {
                each(row, strip);
                strip += 1;
            }
        }
    }
    /// Calls `each` with column, votes and share for each column of a strip.
    #[inline(always)]
    #[track_caller]
    fn columns(self, row: u32, strip: u32, mut each: impl FnMut(u32, u32, f32)) {
        let mut column = strip;
        while column < self.columns {
            let votes = self.votes.get(row * self.columns + column);
            each(column, votes, f32::from_bits(self.shares.get(column)));
            column += STRIPS;
        }
    }
    /// Calls `each` with column, votes and significance for each candidate of a strip.
    ///
    /// The significance is the number of standard deviations above chance. By chance, a model basis
    /// gets its share of all votes of the row; the variance is the observed one, in proportion to
    /// the share.
    #[inline(always)]
    #[track_caller]
    fn candidates(self, row: u32, strip: u32, sums: SumsIn, mut each: impl FnMut(u32, u32, f32)) {
        let (mut squares, mut i) = (0.0, 0);
        while i < STRIPS {
            squares += f32::from_bits(sums.squares.get(row * STRIPS + i));
            i += 1;
        }
        let all = total(row, sums.votes);
        let variance = at_least_tiny(squares / self.used);
        self.columns(row, strip, |column, votes, share| {
            if votes > 0 && share > 0.0 {
                let above = (votes as f32 - all * share) / sqrt(variance * share);
                if above >= self.threshold {
                    each(column, votes, above);
                }
            }
        });
    }
}
#[inline(always)]
#[track_caller]
fn total(row: u32, votes: In<u64>) -> f32 {
    let (mut sum, mut i) = (0, 0);
    while i < STRIPS {
        sum += votes.get(row * STRIPS + i);
        i += 1;
    }
    sum as f32
}
#[inline(always)]
fn at_least_tiny(x: f32) -> f32 {
    if x > f32::MIN_POSITIVE { x } else { f32::MIN_POSITIVE }
}
#[inline(always)]
fn level(above: f32) -> u32 {
    let level = (above * 16.0) as u32;
    if level < LEVELS { level } else { LEVELS - 1 }
}

/// Sums the votes of each strip of each row. [`STRIPS`] threads per row, like all that follow.
#[kernel(image = MATCHER, threads = 256, independent)]
pub fn matcher_sums(t: Thread, matrix: MatrixIn, sums: Buf<u64>) {
    matrix.strips(t, |row, strip| {
        let mut sum = 0;
        matrix.columns(row, strip, |_, votes, _| sum += votes as u64);
        sums.store(row * STRIPS + strip, sum);
    })
}

/// Sums the squared deviations from the votes by chance, each over its share, of each strip of each
/// row.
#[kernel(image = MATCHER, threads = 256, independent)]
pub fn matcher_squares(t: Thread, matrix: MatrixIn, sums: In<u64>, squares: Buf<u32>) {
    matrix.strips(t, |row, strip| {
        let (all, mut sum) = (total(row, sums), 0.0);
        matrix.columns(row, strip, |_, votes, share| {
            if share > 0.0 {
                let off = votes as f32 - all * share;
                sum += off * off / share;
            }
        });
        squares.store(row * STRIPS + strip, sum.to_bits());
    })
}

/// Counts the candidates of each row by their level of significance. The caller clears the counts.
#[kernel(image = MATCHER, threads = 256, independent)]
pub fn matcher_levels(t: Thread, matrix: MatrixIn, sums: SumsIn, levels: Buf<u32>) {
    matrix.strips(t, |row, strip| {
        matrix.candidates(row, strip, sums, |_, _, above| {
            add(levels, row * LEVELS + level(above), 1, matrix.alone != 0)
        })
    })
}

/// Finds the highest level of each row that leaves at least `most` candidates, and their number: up
/// to as many more than `most` as the level holds. One thread per row.
#[kernel(image = MATCHER, threads = 64, independent)]
pub fn matcher_cutoffs(
    t: Thread,
    rows: u32,
    most: u32,
    levels: In<u32>,
    cutoffs: Buf<u32>,
    kept: Buf<u32>,
) {
    let row = t.global_id();
    if row >= rows {
        return;
    }
    let (mut level, mut sum) = (LEVELS, 0);
    while level > 0 && sum < most {
        level -= 1;
        sum += levels.get(row * LEVELS + level);
    }
    cutoffs.store(row, level);
    kept.store(row, sum);
}

/// Lists the candidates of each row from its cutoff up: column, votes, significance (float). Those
/// of a row are adjacent, in any order. The caller clears the cursors.
#[kernel(image = MATCHER, threads = 256, independent)]
pub fn matcher_candidates(
    t: Thread,
    matrix: MatrixIn,
    sums: SumsIn,
    cutoffs: In<u32>,
    starts: In<u32>,
    cursors: Buf<u32>,
    candidates: Buf<u32>,
) {
    matrix.strips(t, |row, strip| {
        let (cutoff, start) = (cutoffs.get(row), starts.get(row));
        matrix.candidates(row, strip, sums, |column, votes, above| {
            if level(above) >= cutoff {
                let at = CANDIDATE_WORDS * (start + cursors.fetch_add(row, 1));
                candidates.store(at, column);
                candidates.store(at + 1, votes);
                candidates.store(at + 2, above.to_bits());
            }
        })
    })
}

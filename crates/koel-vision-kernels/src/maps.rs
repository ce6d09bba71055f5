//! Maps of a scene's edges, by direction: for each pixel the nearest edge, and the log-likelihood
//! ratio of a model's edge here to one anywhere.
//!
//! Launch order: [`vision_members()`] records for every pixel the classes of direction of its
//! edges, with one bit for each class and tolerance (a plane). [`vision_nearest()`] turns these
//! into rows of bits, in which it finds the nearest edge by counting zeros. [`vision_log_ratios()`]
//! and [`vision_likelihoods()`] count the distances of edges around each pixel and compute scores.
use crate::refine::FAR;
use crate::vote::OUTSIDE;
use crate::{CLASSES, EdgesIn, SceneIn, Size, at_least_one, class};
use koel_simt::{Buf, In, Shared, Thread, U32x4, block, kernel, unroll};

/// Search radius for the nearest edge, in pixels. The 253 pixels within it have numbers that fit a
/// byte.
pub const REACH: u32 = 9;
/// Side of the search window, in pixels.
pub const SIDE: u32 = 2 * REACH + 1;
/// Half the side of the window of local frequencies, in pixels.
pub const WINDOW: u32 = 30;
/// Edges belong to every class within 30 degrees, or within 20 degrees for fine poses.
const TOLERANCES: [u32; 2] = [(1 << 30) / 3, (1 << 30) / 9 * 2];
/// Number of planes, one per class and tolerance; those of the wide tolerance come first.
pub const PLANES: u32 = 2 * CLASSES;
/// Number of distance bins. Larger distances are in no bin.
pub const BINS: u32 = 3;
/// Resolution of frequencies: number of steps.
pub const STEPS: u32 = 1024;
/// Entries per plane in the table: steps of the three bins, and of none.
pub const ENTRIES: u32 = (BINS + 1) * (STEPS + 1);

/// Parameters for the score of a distance: bins, and how often a true model point falls into each.
#[derive(Clone, Copy)]
pub struct Judgement {
    /// Upper ends of the bins, in pixels squared.
    pub radii2: [u32; BINS as usize],
    /// Fraction of true model points in each bin, and in none.
    pub found: [f32; BINS as usize + 1],
    /// Score where the scene has no edge of the direction.
    pub nothing: i32,
}
/// For coarse poses: 2, 4 and 7 pixels. For refined poses: 1, 2.3 and 4.3 pixels.
pub const JUDGEMENTS: [Judgement; 2] = [
    Judgement { radii2: [4, 16, 49], found: [0.34, 0.22, 0.14, 0.30], nothing: -10 },
    Judgement { radii2: [1, 5, 18], found: [0.42, 0.16, 0.10, 0.32], nothing: -12 },
];
#[inline(always)]
fn judgement(plane: u32) -> Judgement {
    if plane < CLASSES { JUDGEMENTS[0] } else { JUDGEMENTS[1] }
}

/// Returns the planes that an edge of this direction belongs to, one bit each.
#[inline(always)]
pub fn planes(direction: u32) -> u32 {
    let mut planes = 0;
    unroll::<16>(|class| {
        let off = (direction.wrapping_sub((class as u32) << 28) as i32).unsigned_abs();
        planes |= ((off < TOLERANCES[0]) as u32) << class;
        planes |= ((off < TOLERANCES[1]) as u32) << (class + CLASSES as usize);
    });
    planes
}
/// Returns the pixel of a position along an axis of `n` pixels.
#[inline(always)]
pub fn pixel(v: f32, n: u32) -> u32 {
    let i = (v + 0.5) as u32;
    if i < n { i } else { n - 1 }
}

/// Returns the natural logarithm of a positive number. The error is at most 3e-7, relative if the
/// logarithm exceeds 1.
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    // x = m 2^e, m from 1/sqrt(2) to sqrt(2); ln m = 2 artanh((m - 1) / (m + 1)).
    let bits = x.to_bits().wrapping_sub(0x3F35_04F3);
    let m = f32::from_bits((bits & 0x7F_FFFF) + 0x3F35_04F3);
    let s = (m - 1.0) / (m + 1.0);
    let q = s * s;
    let series = 2.0 * s * (1.0 + q * (1.0 / 3.0 + q * (0.2 + q * (1.0 / 7.0 + q * (1.0 / 9.0)))));
    ((bits as i32) >> 23) as f32 * core::f32::consts::LN_2 + series
}
/// Returns 16 times the logarithm of `found / background`, rounded to nearest, from -100 to 100.
#[inline(always)]
pub fn log_ratio(found: f32, background: f32) -> i32 {
    let v = 16.0 * ln(found / background);
    let rounded = if v < 0.0 { -((0.5 - v) as i32) } else { (v + 0.5) as i32 };
    rounded.clamp(-100, 100)
}
/// Returns the score of a bin: how often a true point falls into it, relative to how often any
/// point does, with weight 4/5 for points of the neighbourhood and 1/5 for points of the whole
/// image. `local` and `everywhere` are fractions.
#[inline(always)]
pub fn judged(found: f32, local: f32, everywhere: f32) -> i32 {
    log_ratio(found, (0.8 * local + 0.2 * everywhere + 0.01) / 1.04)
}
/// Returns the step of a bin's frequency. `counts` are those of the three bins in a window of
/// `rows` rows; `part` is the number of steps over the window's columns. Bin 3 stands for none.
#[inline(always)]
pub fn step(bin: u32, counts: [u32; BINS as usize], rows: f32, part: f32) -> u32 {
    let step = match bin {
        0 => counts[0] as f32 / rows * part,
        1 => counts[1] as f32 / rows * part,
        2 => counts[2] as f32 / rows * part,
        _ => STEPS as f32 - (counts[0] + counts[1] + counts[2]) as f32 / rows * part,
    };
    (step + 0.5) as u32
}

/// Adds the planes of the edges in pixel `p` to `members[p]`, and sets `index[p]` to the first of
/// these edges. One thread per edge. `members` must be 0 initially, `index` all ones.
#[kernel(image = VISION, threads = 256, independent)]
pub fn vision_members(t: Thread, edges: EdgesIn, size: Size, members: Buf<u32>, index: Buf<u32>) {
    let (EdgesIn { places, traits, count }, Size { width, height }) = (edges, size);
    let i = t.global_id();
    if i >= count {
        return;
    }
    let (x, y) = (f32::from_bits(places.get(4 * i)), f32::from_bits(places.get(4 * i + 1)));
    let at = pixel(y, height) * width + pixel(x, width);
    members.fetch_or(at, planes(traits.get(4 * i)));
    index.fetch_min(at, i);
}

const THREADS: u32 = 256;
const WARPS: u32 = THREADS / 32;
/// Pixels per block of [`vision_nearest()`].
pub const TILE: (u32, u32) = (32, 16);
const ROWS: u32 = TILE.1 + 2 * REACH;

/// What the steps of [`vision_nearest()`] share.
#[derive(Clone, Copy)]
struct Tile {
    t: Thread,
    size: Size,
    /// For each row, the words of all planes.
    rows: Shared<u64>,
    /// Number of tiles in a row of the image, and which of them this one is.
    columns: u32,
    group: u32,
    /// First pixel of the tile.
    left: u32,
    top: u32,
}
impl Tile {
    /// Loads the planes of the 50 pixels in `row` that the tile needs. In a plane's word, bit k is
    /// column left - 9 + k.
    #[inline(always)]
    fn load(self, row: u32, members: In<u32>) {
        let Tile { t, size: Size { width, height }, left, top, .. } = self;
        let y = (top + row).wrapping_sub(REACH);
        let member = |k: u32| {
            let x = (left + k).wrapping_sub(REACH);
            if k < TILE.0 + 2 * REACH && x < width && y < height {
                members.get(y * width + x)
            } else {
                0
            }
        };
        let (low, high) = (member(t.lane()), member(t.lane() + 32));
        let mut word = 0;
        unroll::<32>(|plane| {
            let pair =
                (t.warp().ballot(low >> plane & 1 != 0), t.warp().ballot(high >> plane & 1 != 0));
            if t.lane() == plane as u32 {
                word = pair.0 as u64 | (pair.1 as u64) << 32;
            }
        });
        self.rows.store(row * PLANES + t.lane(), word);
    }
    /// Returns the code of the nearest edge: its squared distance, then dx, then dy, so that the
    /// minimum is the nearest.
    #[inline(always)]
    fn nearest(self, row: u32, plane: u32) -> u32 {
        let Tile { t, rows, .. } = self;
        let mut best = u32::MAX;
        unroll::<{ SIDE as usize }>(|k| {
            let dy = k as i32 - REACH as i32;
            let window = (rows.load((row + k as u32) * PLANES + plane) >> t.lane()) as u32
                & ((1 << SIDE) - 1);
            if window != 0 {
                // Bits 0 to 8 are to the left; bit 9 is this column. If one side has no edge, its
                // distance is at least 10.
                let (before, after) = (window & ((1 << REACH) - 1), window >> REACH);
                let (before, after) =
                    (before.leading_zeros() - (31 - REACH), after.trailing_zeros());
                let dx = if before <= after { -(before as i32) } else { after as i32 };
                let code = ((dx * dx + dy * dy) << 10 | (dx + REACH as i32) << 5 | k as i32) as u32;
                best = if code < best { code } else { best };
            }
        });
        best
    }
    /// Writes the number of the offset to the nearest edge, whose code is `best`.
    #[inline(always)]
    fn write_number(
        self,
        plane: u32,
        (x, y): (u32, u32),
        best: u32,
        numbers: In<u8>,
        nearest: Buf<u8>,
    ) {
        let Size { width, height } = self.size;
        if plane < CLASSES && x < width {
            let number = if best >> 10 <= REACH * REACH {
                numbers.get((best & 31) * SIDE + (best >> 5 & 31))
            } else {
                FAR
            };
            nearest.store((plane * height + y) * width + x, number);
        }
    }
    /// Writes the bits of the warp's pixels in each bin. `distance2`: the square of this pixel's
    /// distance. All lanes of the warp call it.
    #[inline(always)]
    fn write_bits(self, plane: u32, (x, y): (u32, u32), distance2: u32, bits: Buf<u32>) {
        let Tile { t, size: Size { width, height }, .. } = self;
        let judgement = judgement(plane);
        let in_bin = |bin: usize| {
            let above = bin > 0 && distance2 <= judgement.radii2[bin.saturating_sub(1)];
            t.warp().ballot(x < width && distance2 <= judgement.radii2[bin] && !above)
        };
        let words = [in_bin(0), in_bin(1), in_bin(2)];
        let at = |bin: u32| ((plane * BINS + bin) * height + y) * self.columns + self.group;
        if t.lane() == 0 {
            unroll::<{ BINS as usize }>(|bin| bits.store(at(bin as u32), words[bin]));
        }
    }
}

/// Writes to `nearest`, for every class and pixel, the number of the offset to the nearest edge
/// pixel, or [`FAR`] if none is within [`REACH`]. Of equally near ones the leftmost wins, then the
/// topmost. Writes to `bits`, for each plane, bin and row, one bit per pixel that is in the bin, in
/// words of 32. One block per [`TILE`]. `numbers[(dy + 9) * 19 + dx + 9]` is the number of an
/// offset.
///
/// Reads 4 bytes per pixel (6 with the surroundings of the tile), writes 28.
#[kernel(image = VISION, threads = 256, shared = ROWS * PLANES * 8)]
pub fn vision_nearest(
    t: Thread,
    size: Size,
    members: In<u32>,
    numbers: In<u8>,
    nearest: Buf<u8>,
    bits: Buf<u32>,
) {
    let rows = t.shared().array::<u64>(ROWS * PLANES);
    let columns = at_least_one(size.width.div_ceil(TILE.0));
    let (group, top) = (t.block() % columns, t.block() / columns * TILE.1);
    let tile = Tile { t, size, rows, columns, group, left: group * TILE.0, top };
    let mut row = t.warp_id();
    while row < ROWS {
        tile.load(row, members);
        row += WARPS;
    }
    t.barrier();

    let x = tile.left + t.lane();
    row = t.warp_id();
    while row < TILE.1 && top + row < size.height {
        let at = (x, top + row);
        let mut plane = 0;
        while plane < PLANES {
            let best = tile.nearest(row, plane);
            tile.write_number(plane, at, best, numbers, nearest);
            tile.write_bits(plane, at, best >> 10, bits);
            plane += 1;
        }
        row += WARPS;
    }
}

/// Writes to `table`, for each plane, the score of each step of each bin ([`ENTRIES`] bytes,
/// signed). One block per plane. `bits` is the output of [`vision_nearest()`].
#[kernel(image = VISION, threads = 256, shared = 3 * 32 * 4)]
pub fn vision_log_ratios(t: Thread, size: Size, bits: In<u32>, table: Buf<u8>) {
    let Size { width, height } = size;
    let mut shared = t.shared();
    let sums = [shared.array::<u32>(32), shared.array::<u32>(32), shared.array::<u32>(32)];
    let (plane, words) = (t.block(), width.div_ceil(32) * height);
    let mut everywhere = [0.0; BINS as usize + 1];
    let (mut rest, pixels) = (width * height, (width * height) as f32);
    unroll::<{ BINS as usize }>(|bin| {
        let (mut own, mut i) = (0, t.id());
        while i < words {
            own += bits.get((plane * BINS + bin as u32) * words + i).count_ones();
            i += THREADS;
        }
        let (_, all) = block::exclusive_sum(t, own, sums[bin]);
        rest -= all;
        everywhere[bin] = all as f32 / pixels;
    });
    everywhere[BINS as usize] = rest as f32 / pixels;
    let judgement = judgement(plane);
    unroll::<{ BINS as usize + 1 }>(|bin| {
        let mut step = t.id();
        while step <= STEPS {
            let said = judged(judgement.found[bin], step as f32 / STEPS as f32, everywhere[bin]);
            let said = if everywhere[0] == 0.0 { judgement.nothing } else { said };
            table.store(plane * ENTRIES + bin as u32 * (STEPS + 1) + step, said as i8 as u8);
            step += THREADS;
        }
    });
}

/// Rows per warp of [`vision_likelihoods()`].
pub const STRIP: u32 = 64;

/// Writes the table's score for each class and pixel to `loose` (wide tolerance) and `fine` (narrow
/// tolerance). The byte after the last one of `loose` is [`OUTSIDE`]. One warp per 32 columns and
/// [`STRIP`] rows of a plane.
#[kernel(image = VISION, threads = 256, independent)]
pub fn vision_likelihoods(
    t: Thread,
    size: Size,
    bits: In<u32>,
    table: In<u8>,
    loose: Buf<u8>,
    fine: Buf<u8>,
) {
    let Size { width, height } = size;
    let (columns, strips) =
        (at_least_one(width.div_ceil(32)), at_least_one(height.div_ceil(STRIP)));
    let job = t.global_id() / 32;
    let (plane, group, strip) = (job / columns / strips, job % columns, job / columns % strips);
    let x = group * 32 + t.lane();
    if plane >= PLANES || x >= width {
        return;
    }
    if job == 0 && t.lane() == 0 {
        loose.store(CLASSES * width * height, OUTSIDE as u8);
    }
    // Counts the pixels of a bin in the row, up to 30 to both sides: 61 bits of three words, from
    // bit lane + 2 on.
    let in_row = |bin: u32, y: u32| {
        let row = ((plane * BINS + bin) * height + y) * columns;
        let word = |g: u32| if g < columns { bits.get(row + g) as u64 } else { 0 };
        let (low, high) = (word(group.wrapping_sub(1)) | word(group) << 32, word(group + 1));
        let window = low >> (t.lane() + 2) | high << (62 - t.lane());
        (window & ((1 << (2 * WINDOW + 1)) - 1)).count_ones()
    };
    let first = strip * STRIP;
    let last = if first + STRIP < height { first + STRIP } else { height };
    let mut counts = [0u32; BINS as usize];
    let (mut begin, mut end) = (first.saturating_sub(WINDOW), first.saturating_sub(WINDOW));
    let (from, to) = crate::edges::window(x, WINDOW, width);
    let part = STEPS as f32 / (to - from) as f32;
    let mut y = first;
    while y < last {
        let (next_begin, next_end) = crate::edges::window(y, WINDOW, height);
        while end < next_end {
            unroll::<{ BINS as usize }>(|bin| counts[bin] += in_row(bin as u32, end));
            end += 1;
        }
        while begin < next_begin {
            unroll::<{ BINS as usize }>(|bin| counts[bin] -= in_row(bin as u32, begin));
            begin += 1;
        }
        let own = |bin: u32| {
            bits.get(((plane * BINS + bin) * height + y) * columns + group) >> t.lane() & 1 != 0
        };
        let bin = if own(0) {
            0
        } else if own(1) {
            1
        } else if own(2) {
            2
        } else {
            BINS
        };
        let step = step(bin, counts, (end - begin) as f32, part);
        let said = table.get(plane * ENTRIES + bin * (STEPS + 1) + step);
        let at = (plane % CLASSES * height + y) * width + x;
        if plane < CLASSES {
            loose.store(at, said);
        } else {
            fine.store(at, said);
        }
        y += 1;
    }
}

/// Parameters of [`vision_inliers()`]: a kernel argument.
#[derive(Clone, Copy, Debug, koel_simt::Arg)]
#[repr(C)]
pub struct Placed {
    /// Number of model points.
    pub points: u32,
    /// Map from the model to the scene: a, b, c, d, x0, y0 of `x' = a x + b y + x0`,
    /// `y' = c x + d y + y0`. It does not mirror.
    pub map: [f32; 6],
}

/// Writes to `partners`, for each model point, the nearest scene edge of its direction: x, y and
/// the normal's x, y. The normal is zero if there is none within [`REACH`]. One thread per point.
/// `points` holds x, y and the normal's x, y of each point.
#[kernel(image = VISION, threads = 128, independent)]
pub fn vision_inliers(
    t: Thread,
    placed: Placed,
    points: In<u32>,
    scene: SceneIn,
    partners: Buf<u32>,
) {
    let SceneIn { edges, index, nearest, offsets, size: Size { width, height } } = scene;
    let i = t.global_id();
    if i >= placed.points {
        return;
    }
    let U32x4(point) = points.x4().get(i);
    let [px, py, nx, ny] = point.map(f32::from_bits);
    let [a, b, c, d, x0, y0] = placed.map;
    let (x, y) = (a * px + b * py + x0 + 0.5, c * px + d * py + y0 + 0.5);
    let mut partner = U32x4([0; 4]);
    if x >= 0.0 && y >= 0.0 && x < width as f32 && y < height as f32 {
        let (x, y) = (x as u32, y as u32);
        let class = class(crate::direction::direction(d * nx - c * ny, a * ny - b * nx));
        let code = nearest.get((class * height + y) * width + x);
        if code != FAR {
            let offset = offsets.get(code as u32);
            let (x, y) = (
                x.wrapping_add(offset as i16 as u32),
                y.wrapping_add((offset >> 16) as i16 as u32),
            );
            partner = edges.x4().get(index.get(y * width + x));
        }
    }
    partners.x4().store(i, partner);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_near() {
        for i in 1..40_000 {
            let x = i as f32 * 0.0025;
            let off = (ln(x) as f64 - (x as f64).ln()).abs();
            assert!(off <= 3e-7 * (x as f64).ln().abs().max(1.0), "{x}: {off}");
        }
    }

    #[test]
    fn edges_are_in_the_planes_of_their_direction() {
        for k in 0..16u32 {
            // Along an axis: its own class and the two next to it, 22.5 degrees off. With the
            // narrow tolerance: only its own.
            let around = |c: u32| 1 << (c % 16);
            assert_eq!(
                planes(k << 28),
                around(k) | around(k + 1) | around(k + 15) | around(k) << 16
            );
            // Halfway between two classes: both, with either tolerance.
            assert_eq!(planes((k << 28) + (1 << 27)), (around(k) | around(k + 1)) * 0x1_0001);
        }
    }
}

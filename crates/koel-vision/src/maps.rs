//! Per-pixel maps of a scene's edges, by direction: the nearest edge, and the likelihood ratio of a
//! model's edge at this position against a random position.
//!
//! A GPU (and the test executor) computes them with kernels, the CPU row by row, which suits SIMD.
//! [`koel_vision_kernels::maps`] defines the likelihoods.
use crate::device::{ALL_ONES, grid, in_kernels};
use crate::edges::{DeviceEdges, Edge};
use koel::{Buffer, Stream};
use koel_simt::host::{Work, on_v3};
use koel_vision_kernels::maps::{self as judging, *};
use koel_vision_kernels::refine::FAR;
use koel_vision_kernels::vote::OUTSIDE;
use koel_vision_kernels::{CLASSES, edges};
use rayon::prelude::*;
use std::sync::LazyLock;

/// Likelihood maps of the scene used for scoring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Likelihood {
    /// For coarse poses.
    Loose,
    /// For refined poses.
    Fine,
}

/// Search radius for the nearest edge, in pixels.
const REACH: i32 = judging::REACH as i32;
const SIDE: usize = judging::SIDE as usize;
const WINDOW: usize = judging::WINDOW as usize;

/// Offsets in ascending order of distance; a code in a map is an index into them.
struct Disc {
    offsets: Vec<(i32, i32)>,
    /// Code of offset `(dx + REACH, dy + REACH)`.
    numbers: [[u8; SIDE]; SIDE],
}
static DISC: LazyLock<Disc> = LazyLock::new(|| {
    let mut offsets = (-REACH..=REACH)
        .flat_map(|dy| (-REACH..=REACH).map(move |dx| (dx, dy)))
        .filter(|&(dx, dy)| dx * dx + dy * dy <= REACH * REACH)
        .collect::<Vec<_>>();
    offsets.sort_by_key(|&(dx, dy)| (dx * dx + dy * dy, dy, dx));
    let mut numbers = [[FAR; SIDE]; SIDE];
    for (number, &(dx, dy)) in offsets.iter().enumerate() {
        numbers[(dy + REACH) as usize][(dx + REACH) as usize] = number as u8;
    }
    Disc { offsets, numbers }
});

/// Lanes of a row of ranks: the row's pixels, and room to the right.
const LANES: usize = 32;

/// Ranks of offsets to an edge, by which the nearest is found: by distance, then by x, then by y.
struct Ranks {
    /// Rows of the disc around an edge, from the uppermost: the rank of each pixel's offset to the
    /// edge; [`FAR`] outside the disc.
    rows: [[u8; LANES]; SIDE],
    /// Code of each rank.
    codes: [u8; 256],
}
static RANKS: LazyLock<Ranks> = LazyLock::new(|| {
    let mut ordered = DISC.offsets.clone();
    ordered.sort_by_key(|&(dx, dy)| (dx * dx + dy * dy, dx, dy));
    let mut ranks = Ranks { rows: [[FAR; LANES]; SIDE], codes: [FAR; 256] };
    for (rank, &(dx, dy)) in ordered.iter().enumerate() {
        ranks.rows[(REACH - dy) as usize][(REACH - dx) as usize] = rank as u8;
        ranks.codes[rank] = DISC.numbers[(dy + REACH) as usize][(dx + REACH) as usize];
    }
    ranks
});

/// Returns the offset of each code in [`Maps::nearest`]: x in the lower half of the word, y in the
/// upper.
fn offsets() -> Vec<u32> {
    let pack = |&(dx, dy): &(i32, i32)| dx as i16 as u16 as u32 | (dy as i16 as u16 as u32) << 16;
    DISC.offsets.iter().map(pack).collect()
}

/// Maps of a scene in device memory. The maps of 16 directions are concatenated, each row by row.
pub(crate) struct Maps {
    /// Pixels per row.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
    /// Code of the offset to the nearest edge pixel, or [`FAR`].
    pub nearest: Buffer<u8>,
    /// Offset of each code: x in the lower half of the word, y in the upper, signed.
    pub offsets: Buffer<u32>,
    /// First edge at each pixel; all ones if there is none.
    pub index: Buffer<u32>,
    /// Log-likelihood ratio, times 16, of an edge at this distance for a model's edge against a
    /// random point, for coarse poses; signed. The last entry is the value for positions outside
    /// the image.
    pub loose: Buffer<u8>,
    /// The same for refined poses.
    pub fine: Buffer<u8>,
}

impl Maps {
    /// Computes the maps of an image's edges on the device of `stream`: 3 bytes per pixel and
    /// direction, plus 4 per pixel. Identical bytes on every device.
    ///
    /// With kernels: 4 launches and 2 fills, and temporarily 16 more bytes per pixel; does not
    /// synchronize.
    pub(crate) fn of(stream: &Stream, edges: &DeviceEdges) -> koel::Result<Maps> {
        let (width, height, device) = (edges.width, edges.height, stream.device());
        let (pixels, planes) = (width * height, width * height * CLASSES as usize);
        let mut maps = Maps {
            width,
            height,
            nearest: device.alloc(planes)?,
            offsets: device.upload(&offsets())?,
            index: device.alloc(pixels)?,
            loose: device.alloc(planes + 1)?,
            fine: device.alloc(planes)?,
        };
        if !in_kernels(stream) {
            let edges = edges.download()?;
            let (mut nearest, mut index) = (maps.nearest.view_mut(), maps.index.view_mut());
            let (mut loose, mut fine) = (maps.loose.view_mut(), maps.fine.view_mut());
            if let (Some(nearest), Some(index), Some(loose), Some(fine)) =
                (nearest.host_mut(), index.host_mut(), loose.host_mut(), fine.host_mut())
            {
                fill(&edges, width, HostMaps { nearest, index, loose, fine });
            }
            return Ok(maps);
        }
        let (size, n) = (edges.size(), edges.count as u32);
        let groups = size.width.div_ceil(32);
        let numbers = device.upload(DISC.numbers.as_flattened())?;
        let mut members = device.alloc::<u32>(pixels)?;
        let mut bits =
            device.alloc::<u32>((PLANES * judging::BINS * groups * size.height) as usize)?;
        let mut table = device.alloc::<u8>((PLANES * ENTRIES) as usize)?;
        members.view_mut().fill_bytes(0, stream)?;
        maps.index.view_mut().fill_bytes(ALL_ONES, stream)?;
        let tiles = size.width.div_ceil(judging::TILE.0) * size.height.div_ceil(judging::TILE.1);
        let warps = PLANES * groups * size.height.div_ceil(STRIP);
        // SAFETY: there are four words per edge and a word per pixel; a byte per class and pixel,
        // and one more in `loose`; a bit per plane, bin and pixel in rows of whole words; 361
        // offsets.
        unsafe {
            vision_members::launch(
                stream,
                grid(n),
                edges.arg(stream)?,
                size,
                members.view_mut().arg("members", stream)?,
                maps.index.view_mut().arg("index", stream)?,
            )?;
            vision_nearest::launch(
                stream,
                tiles,
                size,
                members.view().arg("members", stream)?,
                numbers.view().arg("numbers", stream)?,
                maps.nearest.view_mut().arg("nearest", stream)?,
                bits.view_mut().arg("bits", stream)?,
            )?;
            let bits = bits.view().arg("bits", stream)?;
            vision_log_ratios::launch(
                stream,
                PLANES,
                size,
                bits,
                table.view_mut().arg("table", stream)?,
            )?;
            vision_likelihoods::launch(
                stream,
                (warps * 32).div_ceil(256),
                size,
                bits,
                table.view().arg("table", stream)?,
                maps.loose.view_mut().arg("loose", stream)?,
                maps.fine.view_mut().arg("fine", stream)?,
            )?;
        }
        Ok(maps)
    }
}

/// [`Maps`] in host memory.
struct HostMaps<'a> {
    nearest: &'a mut [u8],
    index: &'a mut [u32],
    loose: &'a mut [u8],
    fine: &'a mut [u8],
}

/// Computes the maps on the host, direction by direction.
fn fill(all: &[Edge], width: usize, maps: HostMaps) {
    let HostMaps { nearest, index, loose, fine } = maps;
    let (pixels, height) = (index.len(), index.len() / width);
    let place = |e: &Edge| (pixel(e.x, width as u32) as usize, pixel(e.y, height as u32) as usize);
    index.fill(edges::NONE);
    for (i, e) in all.iter().enumerate() {
        let (x, y) = place(e);
        // The first edge at a pixel is kept.
        let there = &mut index[y * width + x];
        *there = (*there).min(i as u32);
    }
    let (loose, outside) = loose.split_at_mut(pixels * CLASSES as usize);
    outside.fill(OUTSIDE as u8);
    let members = all.iter().map(|e| judging::planes(e.direction)).collect::<Vec<u32>>();
    let planes = nearest
        .par_chunks_mut(pixels)
        .zip(loose.par_chunks_mut(pixels))
        .zip(fine.par_chunks_mut(pixels));
    planes.enumerate().for_each(|(class, ((nearest, loose), fine))| {
        let places = [0, 1].map(|tolerance| {
            let plane = class + tolerance * CLASSES as usize;
            let members = all.iter().zip(&members).filter(|(_, planes)| *planes >> plane & 1 != 0);
            members.map(|(e, _)| place(e)).collect()
        });
        on_v3(PlanesOfClass { places, width, nearest, out: [loose, fine] });
    });
}

/// Maps of one class, for the wide tolerance and the narrow one.
struct PlanesOfClass<'a> {
    /// Pixels of the edges.
    places: [Vec<(usize, usize)>; 2],
    width: usize,
    nearest: &'a mut [u8],
    /// Likelihoods.
    out: [&'a mut [u8]; 2],
}
impl Work for PlanesOfClass<'_> {
    #[inline(always)]
    fn run(self) {
        let PlanesOfClass { places, width, nearest, out } = self;
        let planes = places.into_iter().zip(out).zip(&JUDGEMENTS);
        // The result for the wide tolerance overwrites that for the narrow one.
        for ((places, out), judgement) in planes.rev() {
            out.fill(judgement.nothing as i8 as u8);
            if places.is_empty() {
                nearest.fill(FAR);
            } else {
                nearest_edges(&places, width, nearest);
                likelihoods(nearest, width, judgement, out);
            }
        }
    }
}

/// Computes the exact code of the offset from each pixel to the nearest place, up to [`REACH`]:
/// each place lowers the ranks around it.
#[inline(always)]
fn nearest_edges(places: &[(usize, usize)], width: usize, nearest: &mut [u8]) {
    let height = nearest.len() / width;
    // Pixel x of a row is at `x + REACH`, so that all lanes of a row of ranks are inside.
    let stride = width + LANES;
    let mut ranks = vec![FAR; stride * height];
    for &(x, y) in places {
        for (k, row) in RANKS.rows.iter().enumerate() {
            let Some(y) = (y + k).checked_sub(REACH as usize).filter(|&y| y < height) else {
                continue;
            };
            if let Some(lanes) = ranks[y * stride + x..].first_chunk_mut::<LANES>() {
                for (lane, rank) in lanes.iter_mut().zip(row) {
                    *lane = (*lane).min(*rank);
                }
            }
        }
    }
    for (out, row) in nearest.chunks_exact_mut(width).zip(ranks.chunks_exact(stride)) {
        for (code, &rank) in out.iter_mut().zip(&row[REACH as usize..]) {
            *code = RANKS.codes[rank as usize];
        }
    }
}

/// Computes the likelihood ratios of one direction: see [`judged`].
#[inline(always)]
fn likelihoods(nearest: &[u8], width: usize, judgement: &Judgement, out: &mut [u8]) {
    let height = nearest.len() / width;
    let bin_of = std::array::from_fn::<u8, 256, _>(|code| match DISC.offsets.get(code) {
        Some(&(dx, dy)) => {
            let distance2 = (dx * dx + dy * dy) as u32;
            judgement.radii2.iter().position(|&r| distance2 <= r).unwrap_or(3) as u8
        }
        None => 3,
    });
    // Three counts of 16 bits in a word: up to 61 x 61.
    let word = bin_of.map(|bin| if bin < 3 { 1u64 << (16 * bin) } else { 0 });
    let mut across = vec![0u64; nearest.len()];
    let mut total = [0u64; 4];
    for (row, sums) in nearest.chunks_exact(width).zip(across.chunks_exact_mut(width)) {
        let mut sum = row[..WINDOW.min(width)].iter().map(|&code| word[code as usize]).sum::<u64>();
        for x in 0..width {
            if x + WINDOW < width {
                sum += word[row[x + WINDOW] as usize];
            }
            if x > WINDOW {
                sum -= word[row[x - WINDOW - 1] as usize];
            }
            sums[x] = sum;
            total[bin_of[row[x] as usize] as usize] += 1;
        }
    }
    let tables = std::array::from_fn::<_, 4, _>(|bin| {
        let everywhere = total[bin] as f32 / nearest.len() as f32;
        let said = |at: u32| {
            judged(judgement.found[bin], at as f32 / STEPS as f32, everywhere) as i8 as u8
        };
        (0..=STEPS).map(said).collect::<Vec<u8>>()
    });
    let extent =
        |at: usize, n: usize| ((at + WINDOW + 1).min(n) - at.saturating_sub(WINDOW)) as f32;
    let part = (0..width).map(|x| STEPS as f32 / extent(x, width)).collect::<Vec<f32>>();
    let mut sums = vec![0u64; width];
    let add = |sums: &mut [u64], y: usize| {
        sums.iter_mut().zip(&across[y * width..][..width]).for_each(|(s, a)| *s += a);
    };
    for y in 0..WINDOW.min(height) {
        add(&mut sums, y);
    }
    for y in 0..height {
        if y + WINDOW < height {
            add(&mut sums, y + WINDOW);
        }
        if y > WINDOW {
            let row = &across[(y - WINDOW - 1) * width..][..width];
            sums.iter_mut().zip(row).for_each(|(s, a)| *s -= a);
        }
        let rows = extent(y, height);
        let line = y * width..(y + 1) * width;
        for (((out, &code), &sum), &part) in
            out[line.clone()].iter_mut().zip(&nearest[line]).zip(&sums).zip(&part)
        {
            let bin = bin_of[code as usize];
            // Most windows are empty.
            if sum == 0 && bin == 3 {
                *out = tables[3][STEPS as usize];
                continue;
            }
            let counts = [sum as u32 & 0xFFFF, (sum >> 16) as u32 & 0xFFFF, (sum >> 32) as u32];
            *out = tables[bin as usize][step(bin as u32, counts, rows, part) as usize];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn nearest_edges_are_the_nearest() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let (width, height) = (20 + random.below(30), 20 + random.below(30));
            let places = (0..1 + random.below(40))
                .map(|_| (random.below(width), random.below(height)))
                .collect::<Vec<(usize, usize)>>();
            let mut nearest = vec![FAR; width * height];
            nearest_edges(&places, width, &mut nearest);
            for (i, &code) in nearest.iter().enumerate() {
                let (x, y) = ((i % width) as i32, (i / width) as i32);
                let distance2 =
                    |&(px, py): &(usize, usize)| (px as i32 - x).pow(2) + (py as i32 - y).pow(2);
                let least = places.iter().map(distance2).min().unwrap();
                match DISC.offsets.get(code as usize) {
                    None => assert!(least > REACH * REACH, "seed {seed}, ({x}, {y})"),
                    Some(&(dx, dy)) => {
                        assert_eq!(dx * dx + dy * dy, least, "seed {seed}, ({x}, {y})");
                        assert!(places.contains(&((x + dx) as usize, (y + dy) as usize)));
                    }
                }
            }
        }
    }

    #[test]
    fn likelihoods_follow_their_definition() {
        let mut random = Random::new(5);
        let (width, height) = (83, 71);
        let places =
            (0..25).map(|_| (random.below(width), random.below(height))).collect::<Vec<_>>();
        let mut nearest = vec![FAR; width * height];
        nearest_edges(&places, width, &mut nearest);
        let mut out = vec![0; width * height];
        likelihoods(&nearest, width, &JUDGEMENTS[0], &mut out);
        let bin = |i: usize| match DISC.offsets.get(nearest[i] as usize) {
            Some(&(dx, dy)) => {
                let d = ((dx * dx + dy * dy) as f32).sqrt();
                [2.0, 4.0, 7.0].iter().position(|&r| d <= r).unwrap_or(3)
            }
            None => 3,
        };
        for i in (0..width * height).step_by(37) {
            let (x, y) = (i % width, i / width);
            let window = (y.saturating_sub(30)..(y + 31).min(height))
                .flat_map(|y| {
                    (x.saturating_sub(30)..(x + 31).min(width)).map(move |x| y * width + x)
                })
                .collect::<Vec<usize>>();
            let same = |i: &usize| bin(*i) == bin(y * width + x);
            let local = window.iter().filter(|i| same(i)).count() as f32 / window.len() as f32;
            let everywhere =
                (0..width * height).filter(same).count() as f32 / (width * height) as f32;
            let background = (0.8 * local + 0.2 * everywhere + 0.01) / 1.04;
            let expected = 16.0 * (JUDGEMENTS[0].found[bin(i)] / background).ln();
            assert!(
                (out[i] as i8 as f32 - expected).abs() < 1.0,
                "({x}, {y}): {} {expected}",
                out[i] as i8
            );
        }
    }
}

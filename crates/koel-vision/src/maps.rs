//! What a scene's edges say about every pixel, direction by direction: the nearest edge, and how much likelier a model's
//! edge is to be here than anywhere.
use crate::edges::Edge;
use koel_kernels::vision::refine::FAR;
use koel_kernels::vision::vote::OUTSIDE;
use koel_kernels::vision::{CLASSES, class};
use rayon::prelude::*;
use std::sync::LazyLock;

/// How far the nearest edge is looked for, pixels. 253 pixels are within it: their numbers fit a byte.
const REACH: i32 = 9;
const SIDE: usize = 2 * REACH as usize + 1;
/// Half the side of the window of local frequencies, pixels.
const WINDOW: usize = 30;
/// Edges belong to every class within 30 degrees, where poses are fine, 20.
const TOLERANCE: u32 = (1 << 30) / 3;
const FINE_TOLERANCE: u32 = (1 << 30) / 9 * 2;

/// How distances are judged: bins, and how often a true model point falls into each.
struct Judgement {
    /// Upper ends of the bins, pixels; the last bin has none.
    radii: [f32; 3],
    /// Of 1.
    found: [f32; 4],
    /// What is said where the scene has no edge of the direction.
    nothing: i8,
}
/// While poses are coarse.
const LOOSE: Judgement = Judgement { radii: [2.0, 4.0, 7.0], found: [0.34, 0.22, 0.14, 0.30], nothing: -10 };
/// For poses that are refined.
const FINE: Judgement = Judgement { radii: [1.01, 2.3, 4.3], found: [0.42, 0.16, 0.10, 0.32], nothing: -12 };

/// Offsets in the order of distance: a number in a map stands for one of these.
struct Disc {
    offsets: Vec<(i32, i32)>,
    /// The number of offset `(dx + REACH, dy + REACH)`.
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

/// The offset that each number in [`Maps::nearest`] stands for: x in the lower half of the word, y in the upper.
pub fn offsets() -> Vec<u32> {
    let pack = |&(dx, dy): &(i32, i32)| dx as i16 as u16 as u32 | (dy as i16 as u16 as u32) << 16;
    DISC.offsets.iter().map(pack).collect()
}

/// The maps of a scene. Those of 16 directions lie one behind the other, each row by row.
pub struct Maps {
    /// Pixels a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// The number of the offset to the nearest edge pixel, or [`FAR`].
    pub nearest: Vec<u8>,
    /// Of each pixel, the edge there; 0 where there is none.
    pub index: Vec<u32>,
    /// 16 times the logarithm of how much likelier a model's edge is to have an edge at this distance than a random point, while poses are
    /// coarse; signed. Behind the last: what a place outside the image says.
    pub loose: Vec<u8>,
    /// The same for refined poses.
    pub fine: Vec<u8>,
}

impl Maps {
    /// The maps of an image's edges. 3 bytes a pixel and direction, 4 a pixel.
    pub fn of(edges: &[Edge], width: usize, height: usize) -> Maps {
        let pixels = width * height;
        let place = |e: &Edge| {
            let clamp = |v: f32, n: usize| ((v + 0.5) as usize).min(n - 1);
            (clamp(e.x, width), clamp(e.y, height))
        };
        let mut index = vec![u32::MAX; pixels];
        for (i, e) in edges.iter().enumerate() {
            let (x, y) = place(e);
            // The first one stays.
            let there = &mut index[y * width + x];
            *there = (*there).min(i as u32);
        }
        index.iter_mut().filter(|i| **i == u32::MAX).for_each(|i| *i = 0);
        let mut maps = Maps {
            width,
            height,
            nearest: vec![FAR; pixels * CLASSES as usize],
            index,
            loose: vec![LOOSE.nothing as u8; pixels * CLASSES as usize + 1],
            fine: vec![FINE.nothing as u8; pixels * CLASSES as usize],
        };
        let planes = maps.nearest.par_chunks_mut(pixels).zip(maps.loose.par_chunks_mut(pixels));
        planes.zip(maps.fine.par_chunks_mut(pixels)).enumerate().for_each(|(class, ((nearest, loose), fine))| {
            let axis = (class as u32) << 28;
            let places = |tolerance: u32| {
                let alike = |e: &&Edge| (e.direction.wrapping_sub(axis) as i32).unsigned_abs() < tolerance;
                edges.iter().filter(alike).map(place).collect::<Vec<_>>()
            };
            let (wide, narrow) = (places(TOLERANCE), places(FINE_TOLERANCE));
            if !narrow.is_empty() {
                // What the wide tolerance finds overwrites it below.
                nearest_edges(&narrow, width, nearest);
                likelihoods(nearest, width, &FINE, fine);
                nearest.fill(FAR);
            }
            if !wide.is_empty() {
                nearest_edges(&wide, width, nearest);
                likelihoods(nearest, width, &LOOSE, loose);
            }
        });
        maps.loose[pixels * CLASSES as usize] = OUTSIDE as u8;
        maps
    }
    /// The edge of this direction nearest to a pixel of the image, if one is near.
    pub fn nearest_edge(&self, direction: u32, x: usize, y: usize) -> Option<usize> {
        let place = (class(direction) as usize * self.height + y) * self.width + x;
        let &(dx, dy) = DISC.offsets.get(self.nearest[place] as usize)?;
        let (x, y) = (x.checked_add_signed(dx as isize)?, y.checked_add_signed(dy as isize)?);
        Some(self.index[y * self.width + x] as usize)
    }
}

/// The number of the offset from each pixel to the nearest place, exactly, as far as [`REACH`].
fn nearest_edges(places: &[(usize, usize)], width: usize, nearest: &mut [u8]) {
    let height = nearest.len() / width;
    const NONE: i16 = i16::MAX / 2;
    // Along rows: the squared offset, and behind it the offset.
    let mut along = vec![NONE; nearest.len()];
    let mut empty = vec![true; height];
    for &(x, y) in places {
        empty[y] = false;
        let row = &mut along[y * width..][..width];
        for dx in -REACH..=REACH {
            if let Some(from) = x.checked_add_signed(-dx as isize).filter(|&from| from < width) {
                row[from] = row[from].min((dx * dx * 32 + dx + REACH) as i16);
            }
        }
    }
    // Then across them.
    let (mut best, mut from) = (vec![0i16; width], vec![0i16; width]);
    for (y, out) in nearest.chunks_exact_mut(width).enumerate() {
        best.fill(NONE);
        for dy in -REACH..=REACH {
            let Some(other) = y.checked_add_signed(dy as isize).filter(|&o| o < height && !empty[o]) else { continue };
            let row = &along[other * width..][..width];
            let more = (dy * dy * 32) as i16;
            for ((best, from), &here) in best.iter_mut().zip(&mut from).zip(row) {
                let nearer = here + more < *best;
                *best = if nearer { here + more } else { *best };
                *from = if nearer { dy as i16 } else { *from };
            }
        }
        for ((out, &best), &dy) in out.iter_mut().zip(&best).zip(&from) {
            if best < NONE {
                *out = DISC.numbers[(dy as i32 + REACH) as usize][(best & 31) as usize];
            }
        }
    }
}

/// The likelihood ratios of one direction: how often a true point is this far from an edge, over how often any point of the
/// neighbourhood (four parts of five; one part, of the whole image) is.
fn likelihoods(nearest: &[u8], width: usize, judgement: &Judgement, out: &mut [u8]) {
    let height = nearest.len() / width;
    let bin_of = std::array::from_fn::<u8, 256, _>(|code| match DISC.offsets.get(code) {
        Some(&(dx, dy)) => {
            let distance2 = (dx * dx + dy * dy) as f32;
            judgement.radii.iter().position(|r| distance2 <= r * r).unwrap_or(3) as u8
        }
        None => 3,
    });
    // Counts of three bins in a word, 16 bits each: 61 x 61 at most.
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
    const STEPS: usize = 1024;
    let tables = std::array::from_fn::<_, 4, _>(|bin| {
        let everywhere = total[bin] as f32 / nearest.len() as f32;
        (0..=STEPS)
            .map(|step| {
                let local = step as f32 / STEPS as f32;
                let background = (0.8 * local + 0.2 * everywhere + 0.01) / 1.04;
                (16.0 * (judgement.found[bin] / background).ln()).round().clamp(-100.0, 100.0) as i8 as u8
            })
            .collect::<Vec<u8>>()
    });
    let extent = |at: usize, n: usize| ((at + WINDOW + 1).min(n) - at.saturating_sub(WINDOW)) as f32;
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
        for (((out, &code), &sum), &part) in out[line.clone()].iter_mut().zip(&nearest[line]).zip(&sums).zip(&part) {
            let bin = bin_of[code as usize];
            let counts = [sum & 0xFFFF, sum >> 16 & 0xFFFF, sum >> 32];
            let step = match bin {
                3 => STEPS as f32 - (counts[0] + counts[1] + counts[2]) as f32 / rows * part,
                bin => counts[bin as usize] as f32 / rows * part,
            };
            *out = tables[bin as usize][(step + 0.5) as usize];
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
            let places =
                (0..1 + random.below(40))
                    .map(|_| (random.below(width), random.below(height)))
                    .collect::<Vec<(usize, usize)>>();
            let mut nearest = vec![FAR; width * height];
            nearest_edges(&places, width, &mut nearest);
            for (i, &code) in nearest.iter().enumerate() {
                let (x, y) = ((i % width) as i32, (i / width) as i32);
                let distance2 = |&(px, py): &(usize, usize)| (px as i32 - x).pow(2) + (py as i32 - y).pow(2);
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
        let places = (0..25).map(|_| (random.below(width), random.below(height))).collect::<Vec<_>>();
        let mut nearest = vec![FAR; width * height];
        nearest_edges(&places, width, &mut nearest);
        let mut out = vec![0; width * height];
        likelihoods(&nearest, width, &LOOSE, &mut out);
        let bin = |i: usize| match DISC.offsets.get(nearest[i] as usize) {
            Some(&(dx, dy)) => {
                let d = ((dx * dx + dy * dy) as f32).sqrt();
                LOOSE.radii.iter().position(|&r| d <= r).unwrap_or(3)
            }
            None => 3,
        };
        for i in (0..width * height).step_by(37) {
            let (x, y) = (i % width, i / width);
            let window = (y.saturating_sub(30)..(y + 31).min(height))
                .flat_map(|y| (x.saturating_sub(30)..(x + 31).min(width)).map(move |x| y * width + x))
                .collect::<Vec<usize>>();
            let same = |i: &usize| bin(*i) == bin(y * width + x);
            let local = window.iter().filter(|i| same(i)).count() as f32 / window.len() as f32;
            let everywhere = (0..width * height).filter(same).count() as f32 / (width * height) as f32;
            let background = (0.8 * local + 0.2 * everywhere + 0.01) / 1.04;
            let expected = 16.0 * (LOOSE.found[bin(i)] / background).ln();
            assert!((out[i] as i8 as f32 - expected).abs() < 1.0, "({x}, {y}): {} {expected}", out[i] as i8);
        }
    }
}

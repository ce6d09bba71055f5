//! Perfect spatial hashing of Lefebvre and Hoppe 2006: a hash table with no collisions and almost
//! no empty slots, and an offset table that maps a position to its slot.
//!
//! A key is a position in a grid of two or three dimensions. Position `p` is in slot `p mod m +
//! offsets[p mod r]`, wrapped at side `m`, so that neighbours in space are neighbours in the table.
//! The CPU finds the offsets in parallel: entries shared by the most positions come first, and each
//! takes an offset that puts all its positions into free slots. The side `r` of the offset table is
//! the least that a search finds: the side grows until a build succeeds, then is bisected.
//!
//! Distinct positions must differ modulo `m` or modulo `r`; sparse sets on wide grids may have no
//! such table of acceptable size. The build then mixes the keys before taking them as positions,
//! which scatters neighbours, and says so in the report.
//!
//! Memory: 8 / load bytes per pair, and 4 per entry of the offset table; a surface needs about `1 /
//! (2 dimensions)` entries per pair. A lookup reads one entry and one slot. Maximum: 2^30 pairs in
//! three dimensions. Lookups are deterministic; with more than one thread the offsets may differ
//! between runs.
use super::input::Pairs;
use super::restarts::{self, Attempt, Outcome};
use super::{Family, Kind, Options, SchemeReport, Table, find_args};
use crate::fallible::{collect, with_room};
use koel::{Buffer, Error, Result, Stream, View, ViewMut};
use koel_classic_kernels::perfect_spatial::{
    Domain, PerfectSpatialRef, max_side, perfect_spatial_find,
};
use koel_classic_kernels::{EMPTY, key_of, pair};
use koel_kernels::hash::mix::splitmix_at;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Parameters: the grid of the positions, and the search for the offset table.
#[derive(Clone, Debug)]
pub struct PerfectSpatial {
    /// Number of dimensions. 2: a grid of 2^16 x 2^16, with the second coordinate in the low half
    /// of the key. 3: a grid of 2^12 x 2^10 x 2^10, with the last coordinate in the lowest bits;
    /// voxels of grids up to 1024^3 in row-major order are such keys.
    pub dimensions: u32,
    /// Whether to search for the smallest offset table, as the 2009 paper does, instead of taking
    /// the first that works. The search takes five to ten times as long.
    pub smallest: bool,
}
impl PerfectSpatial {
    /// Images.
    pub const PUBLISHED_2D: PerfectSpatial = PerfectSpatial { dimensions: 2, smallest: true };
    /// Voxels.
    pub const PUBLISHED_3D: PerfectSpatial = PerfectSpatial { dimensions: 3, smallest: true };
}

struct PerfectSpatialTable {
    domain: Domain,
    all_ones: u32,
    offsets: Buffer<u32>,
    table: Buffer<u64>,
    report: SchemeReport,
}

impl Kind for PerfectSpatial {
    fn name(&self) -> &'static str {
        if self.dimensions == 2 { "perfect-spatial-2d" } else { "perfect-spatial-3d" }
    }
    fn about(&self) -> &'static str {
        match self.dimensions {
            2 => "2006: perfect spatial hashing of positions in the plane, built on the CPU",
            _ => "2006: perfect spatial hashing of positions in space, built on the CPU",
        }
    }
    fn default_load(&self) -> f64 {
        1.0
    }
    fn max_load(&self) -> f64 {
        1.0
    }
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn Table>> {
        if !(2..=3).contains(&self.dimensions) {
            let found = self.dimensions.to_string();
            return Err(Error::Setting { field: "dimensions", found, expected: "2 or 3".into() });
        }
        // The modulus of the sides is the published function; attempts with another family mix the
        // keys first.
        restarts::build(
            self,
            Family::Modulo,
            stream,
            (keys, values),
            options,
            |stream, pairs, load, attempt| self.attempt(stream, pairs, load, attempt),
        )
    }
}
impl restarts::Restarting for PerfectSpatialTable {
    fn complete(&mut self, report: SchemeReport) {
        let bytes = self.table.bytes() + self.offsets.bytes();
        self.report = SchemeReport { slots: self.table.len(), bytes, ..report };
    }
}

impl PerfectSpatial {
    /// Maximum number of offset entries per pair, multiplied by the number of the attempt.
    const MAX_ENTRIES: usize = 4;
    /// Number of offset entries always allowed, for small inputs.
    const FEW_ENTRIES: usize = 4096;

    fn attempt(
        &self,
        stream: &Stream,
        pairs: Pairs<'_>,
        load: f64,
        attempt: Attempt,
    ) -> Result<Outcome<PerfectSpatialTable>> {
        let device = stream.device();
        let n = pairs.n as usize;
        let cells = (n as f64 / load * attempt.growth).ceil().max(1.0);
        let max = (max_side(self.dimensions) as usize).pow(self.dimensions);
        if cells > max as f64 {
            let max = (max as f64 * load / attempt.growth) as usize;
            return Err(Error::TooMany { what: "pairs", n, max });
        }
        let side = self.root(cells).max(1);
        let scramble = if attempt.family == Family::Modulo { 0 } else { attempt.seed as u32 | 1 };
        let domain =
            Domain { dimensions: self.dimensions, side: side as u32, offset_side: 1, scramble };
        let (keys, values) = (pairs.keys.download()?, pairs.values.download()?);
        let start = Instant::now();
        let placed = device.install(|| {
            let mut some = with_room(n)?;
            keys.par_iter().zip(&values).map(|(&k, &v)| pair(k, v)).collect_into_vec(&mut some);
            some.retain(|&e| e != EMPTY);
            let most = Self::MAX_ENTRIES * (1 + attempt.number as usize) * n + Self::FEW_ENTRIES;
            Ok::<_, Error>((some.len() < n, self.search(domain, &some, most, attempt.seed)?))
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let (all_ones, Some(Placed { domain, offsets, table })) = placed else {
            return Ok(Outcome { table: None, seconds });
        };
        let (offsets, table) = (device.upload(&offsets)?, device.upload(&table)?);
        let built = PerfectSpatialTable {
            domain,
            all_ones: all_ones.into(),
            offsets,
            table,
            report: SchemeReport::default(),
        };
        Ok(Outcome { table: Some(built), seconds })
    }

    /// Returns the least side of a square or cube with at least `cells` cells.
    fn root(&self, cells: f64) -> usize {
        let side = cells.powf(1.0 / f64::from(self.dimensions)).floor() as usize;
        let holds = |side: usize| side.pow(self.dimensions) as f64 >= cells;
        (side.saturating_sub(1)..).find(|&s| holds(s)).unwrap_or(side)
    }

    /// Returns the offset table with the least side that the search finds, with at most `most`
    /// entries.
    fn search(
        &self,
        domain: Domain,
        pairs: &[u64],
        most: usize,
        seed: u64,
    ) -> Result<Option<Placed>> {
        let place = |offset_side: usize| {
            // With a common divisor, positions are distinguished only on a smaller grid.
            let coprime = gcd(offset_side, domain.side as usize) == 1;
            let domain = Domain { offset_side: offset_side as u32, ..domain };
            if coprime { place(domain, pairs, seed) } else { Ok(None) }
        };
        // The papers' estimate: one entry per 2 * dimensions pairs.
        let mut side = self.root(pairs.len() as f64 / f64::from(2 * self.dimensions)).max(1);
        let mut failed = if side == 1 { 0 } else { side / 2 };
        let mut found = loop {
            if side.pow(self.dimensions) > most {
                return Ok(None);
            }
            if let Some(placed) = place(side)? {
                break placed;
            }
            failed = side;
            side += (side / 8).max(1);
        };
        // Bisect between the greatest side known to fail and the least known to work; sides with a
        // common divisor count as failures.
        while self.smallest && side > failed + 1 {
            let middle = failed.midpoint(side);
            match place(middle)? {
                Some(placed) => (found, side) = (placed, middle),
                None => failed = middle,
            }
        }
        Ok(Some(found))
    }
}
fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The offset table and the hash table.
struct Placed {
    domain: Domain,
    offsets: Vec<u32>,
    table: Vec<u64>,
}

/// Finds an offset for every entry, if possible. Errors: out of memory.
fn place(domain: Domain, pairs: &[u64], seed: u64) -> Result<Option<Placed>> {
    let entries = (domain.offset_side as usize).pow(domain.dimensions);
    let slots = (domain.side as usize).pow(domain.dimensions);
    let entry_of = |e: u64| domain.entry(domain.position(key_of(e)));
    // Make the pairs of each entry adjacent. Pairs with equal keys, which the caller promised away,
    // become one.
    let mut sorted = with_room(pairs.len())?;
    pairs.par_iter().map(|&e| (entry_of(e), e)).collect_into_vec(&mut sorted);
    sorted.par_sort_unstable_by_key(|(entry, e)| (*entry, e.rotate_left(32)));
    sorted.dedup_by_key(|(_, e)| key_of(*e));
    let mut groups = collect(sorted.chunk_by(|a, b| a.0 == b.0))?;
    groups.par_sort_unstable_by_key(|group| {
        (std::cmp::Reverse(group.len()), splitmix_at(seed, group[0].0))
    });

    let taken = collect((0..slots.div_ceil(64)).map(|_| AtomicU64::new(0)))?;
    if !slots.is_multiple_of(64) {
        taken[slots / 64].store(!0 << (slots % 64), Relaxed);
    }
    let offsets = collect((0..entries).map(|_| AtomicU32::new(0)))?;
    let table = collect((0..slots).map(|_| AtomicU64::new(EMPTY)))?;
    // Large groups before small ones; groups of one size in parallel.
    let placed = groups.chunk_by(|a, b| a.len() == b.len()).all(|same| {
        same.par_iter().with_min_len(64).all(|group| {
            let positions =
                group.iter().map(|(_, e)| domain.position(key_of(*e))).collect::<Vec<_>>();
            let start = splitmix_at(seed ^ 1, group[0].0) as usize % taken.len();
            let Some(offset) = free_offset(&domain, &positions, &taken, start) else {
                return false;
            };
            offsets[group[0].0 as usize].store(offset, Relaxed);
            for ((_, e), position) in group.iter().zip(positions) {
                table[domain.slot(position, offset) as usize].store(*e, Relaxed);
            }
            true
        })
    });
    if !placed {
        return Ok(None);
    }
    Ok(Some(Placed {
        domain,
        offsets: collect(offsets.into_iter().map(AtomicU32::into_inner))?,
        table: collect(table.into_iter().map(AtomicU64::into_inner))?,
    }))
}

/// Maximum number of offsets tried per entry before the build is given up. More would succeed more
/// often, but the few entries that need them would take most of the time.
const MAX_OFFSETS: usize = 2048;

/// Returns an offset that puts all positions into free slots, and takes those slots. Tries offsets
/// that put the first position into a free slot, starting at word `start` of the bitmap.
fn free_offset(
    domain: &Domain,
    positions: &[[u32; 3]],
    taken: &[AtomicU64],
    start: usize,
) -> Option<u32> {
    let m = domain.side;
    let Some((&first, others)) = positions.split_first() else { return Some(0) };
    // Two positions may share a slot whatever the offset.
    let mut slots = positions.iter().map(|p| domain.slot(*p, 0)).collect::<Vec<u32>>();
    slots.sort_unstable();
    if slots.windows(2).any(|w| w[0] == w[1]) {
        return None;
    }
    let take = |slot: u32| {
        let bit = 1u64 << (slot % 64);
        taken[slot as usize / 64].fetch_or(bit, Relaxed) & bit == 0
    };
    let give_back =
        |slot: u32| taken[slot as usize / 64].fetch_and(!(1u64 << (slot % 64)), Relaxed);
    let mut left = MAX_OFFSETS;
    for word in (start..taken.len()).chain(0..start) {
        let mut free = !taken[word].load(Relaxed);
        while free != 0 {
            let slot = word as u32 * 64 + free.trailing_zeros();
            free &= free - 1;
            let along = [slot / m / m, slot / m % m, slot % m];
            let mut offset = [0; 3];
            for axis in 3 - domain.dimensions as usize..3 {
                offset[axis] = (along[axis] + m - first[axis] % m) % m;
            }
            let offset = domain.pack(offset);
            if !take(slot) {
                continue;
            }
            let fitted = others.iter().take_while(|p| take(domain.slot(**p, offset))).count();
            if fitted == others.len() {
                return Some(offset);
            }
            others[..fitted].iter().for_each(|p| _ = give_back(domain.slot(*p, offset)));
            give_back(slot);
            left -= 1;
            if left == 0 {
                return None;
            }
        }
    }
    None
}

impl Table for PerfectSpatialTable {
    fn report(&self) -> &SchemeReport {
        &self.report
    }
    fn get_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        mut values: ViewMut<'_, u32>,
        mut found: ViewMut<'_, u8>,
    ) -> Result<()> {
        let args = find_args(stream, &queries, &mut values, &mut found)?;
        let grid = args.n.div_ceil(perfect_spatial_find::SPEC.threads);
        let table = PerfectSpatialRef {
            domain: self.domain,
            offsets: self.offsets.view().arg("offsets", stream)?,
            slots: self.table.view().arg("table", stream)?,
            all_ones: self.all_ones,
        };
        // SAFETY: `n` queries and answers; the tables have the sides given in the domain.
        unsafe { perfect_spatial_find::launch(stream, grid, table, args) }
    }
}

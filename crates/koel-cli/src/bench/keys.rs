//! The keys that go into the tables, and those that are looked up: the same for a seed, on every machine.
use super::args::{MOST_RANDOM, Op, Source};
use crate::failure::{Failure, Outcome};
use koel_spatial::{Bounds, Grid, Order};
use rayon::prelude::*;
use serde::Serialize;
use std::path::Path;

/// Expected answer to a query whose key is absent. No value: values are indices below 2^31.
pub const ABSENT: u32 = u32::MAX;

/// Pairs to build tables from, and queries for them. The value of a key is its index.
pub struct Workload {
    /// What the keys are.
    pub about: KeysAbout,
    /// Distinct.
    pub keys: Vec<u32>,
    /// `0..n`.
    pub values: Vec<u32>,
    /// As many keys that are not among `keys`, in random order; distinct while there are enough.
    absent: Vec<u32>,
    seed: u64,
}

/// What keys are: for people and for the JSON.
#[derive(Clone, Serialize)]
pub struct KeysAbout {
    /// random, voxels, file.
    pub source: &'static str,
    /// In words.
    pub description: String,
    /// The file they come from.
    pub file: Option<String>,
    /// Voxels along a side.
    pub grid: Option<u32>,
    /// Equal keys of the file that were dropped.
    pub dropped: usize,
}

/// Keys to look up.
pub struct Queries {
    pub keys: Vec<u32>,
    /// The value of each, or [`ABSENT`].
    pub expected: Vec<u32>,
}

impl Workload {
    /// The keys of a source.
    ///
    /// Errors: a file that cannot be read, is not what it should be or has no keys; a scan that leaves no voxel free.
    pub fn of(source: &Source, seed: u64) -> Outcome<Workload> {
        match source {
            Source::Random(n) => Ok(random(*n, seed)),
            Source::Voxels(file, grid) => voxels(file.as_deref(), *grid, seed),
            Source::Words(file) => words(file, seed),
        }
    }
    pub fn n(&self) -> usize {
        self.keys.len()
    }
    /// One query for each key, in an order that has nothing to do with that of the keys. Half: half of them, rounded up,
    /// are present, at random places. A build's are those that find all of it.
    pub fn queries(&self, op: Op) -> Queries {
        let n = self.n() as u64;
        let order = Permutation::new(n, self.seed ^ 0x5EED_0001);
        let side = Permutation::new(n, self.seed ^ 0x5EED_0002);
        let present = match op {
            Op::Build | Op::FindHit => n,
            Op::FindHalf => n.div_ceil(2),
            Op::FindMiss => 0,
        };
        let query = |i: u64| match side.at(i) < present {
            true => {
                let index = order.at(i) as u32;
                (self.keys[index as usize], index)
            }
            false => (self.absent[i as usize], ABSENT),
        };
        let (keys, expected) = (0..n).into_par_iter().map(query).unzip();
        Queries { keys, expected }
    }
}

fn random(n: usize, seed: u64) -> Workload {
    let keys = Permutation::new(1 << 32, seed);
    let n = n as u64;
    let range = |range: std::ops::Range<u64>| range.into_par_iter().map(|i| keys.at(i) as u32).collect::<Vec<u32>>();
    let about =
        KeysAbout { source: "random", description: "distinct random keys".into(), file: None, grid: None, dropped: 0 };
    Workload { about, keys: range(0..n), values: (0..n as u32).collect(), absent: range(n..2 * n), seed }
}

/// Inside the program, so that it has something to do anywhere.
const SCAN_NAME: &str = "cortex.ply";
const SCAN: &[u8] = include_bytes!("../../../../assets/cortex.ply");

fn voxels(file: Option<&Path>, resolution: u32, seed: u64) -> Outcome<Workload> {
    let scan = match file {
        Some(file) => koel_spatial::read(file).map_err(Failure::input)?,
        None => koel_spatial::read::parse_ply(SCAN).map_err(|e| Failure::Other(format!("{SCAN_NAME}: {e}")))?,
    };
    let name = file.map_or(SCAN_NAME.into(), |file| file.display().to_string());
    let in_file = |e: &dyn std::fmt::Display| Failure::Usage(format!("{name}: {e}"));
    let bounds = Bounds::of(&scan.points.positions).map_err(|e| in_file(&e))?;
    let grid = Grid::enclosing(bounds, resolution).map_err(|e| in_file(&e))?;
    let keys: Vec<u32> = match scan.is_mesh() {
        true => koel_spatial::mesh_keys(&scan.into_mesh().map_err(|e| in_file(&e))?, &grid, Order::RowMajor),
        false => koel_spatial::cloud_keys(&scan.points.positions, &grid, Order::RowMajor),
    }
    .map_err(|e| in_file(&e))?;
    let side = u64::from(resolution);
    let cells = Permutation::new(side.pow(3), seed ^ 0x5EED_0003);
    let key = |cell: u64| {
        let voxel = [cell / (side * side), cell / side % side, cell % side].map(|c| c as u32);
        Order::RowMajor.encode::<u32>(voxel)
    };
    let absent = absent_keys(&keys, (0..cells.len()).filter_map(|i| key(cells.at(i)).ok()))
        .ok_or_else(|| in_file(&"every voxel of the grid is occupied: none is left to be looked up in vain"))?;
    let about = KeysAbout {
        source: "voxels",
        description: format!("voxels of {name} on a grid of {resolution}^3"),
        file: Some(name),
        grid: Some(resolution),
        dropped: 0,
    };
    Ok(of_keys(about, keys, absent, seed))
}

fn words(file: &Path, seed: u64) -> Outcome<Workload> {
    let in_file = |message: String| Failure::Usage(format!("{}: {message}", file.display()));
    let bytes = std::fs::read(file).map_err(|e| in_file(format!("cannot be read: {e}")))?;
    let (words, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        let (length, whole) = (bytes.len(), 4 * words.len());
        return Err(in_file(format!(
            "{length} bytes: expected a multiple of 4, the last {} at byte {whole} are no whole key",
            rest.len()
        )));
    }
    if words.is_empty() {
        return Err(in_file("is empty, expected 32-bit little-endian keys".into()));
    }
    let mut seen = KeySet::new();
    let keys = words.iter().map(|w| u32::from_le_bytes(*w)).filter(|&key| seen.insert(key)).collect::<Vec<u32>>();
    let dropped = words.len() - keys.len();
    if keys.len() > MOST_RANDOM {
        return Err(in_file(format!("{} distinct keys: at most 2^31", keys.len())));
    }
    let others = Permutation::new(1 << 32, seed ^ 0x5EED_0004);
    let absent = absent_keys(&keys, (0..others.len()).map(|i| others.at(i) as u32)).unwrap_or_default();
    let description = match dropped {
        0 => format!("keys of {}", file.display()),
        _ => format!("distinct keys of {} ({dropped} equal ones dropped)", file.display()),
    };
    let about = KeysAbout { source: "file", description, file: Some(file.display().to_string()), grid: None, dropped };
    Ok(of_keys(about, keys, absent, seed))
}

fn of_keys(about: KeysAbout, keys: Vec<u32>, absent: Vec<u32>, seed: u64) -> Workload {
    let values = (0..keys.len() as u32).collect();
    Workload { about, keys, values, absent, seed }
}

/// As many keys as `keys`, of the candidates that are not among them; if those run out, again from the first. `None` if there
/// are none at all.
fn absent_keys(keys: &[u32], candidates: impl Iterator<Item = u32>) -> Option<Vec<u32>> {
    let mut present = KeySet::new();
    for &key in keys {
        present.insert(key);
    }
    let absent = candidates.filter(|&key| !present.contains(key)).take(keys.len()).collect::<Vec<u32>>();
    (!absent.is_empty()).then(|| absent.iter().copied().cycle().take(keys.len()).collect())
}

/// A bit for every 32-bit key, in pages that are made when they are first touched.
struct KeySet(Vec<u64>);
impl KeySet {
    fn new() -> KeySet {
        KeySet(vec![0; 1 << 26])
    }
    /// Whether it was not there.
    fn insert(&mut self, key: u32) -> bool {
        let word = &mut self.0[key as usize / 64];
        let before = *word;
        *word |= 1 << (key % 64);
        *word != before
    }
    fn contains(&self, key: u32) -> bool {
        self.0[key as usize / 64] >> (key % 64) & 1 == 1
    }
}

/// A bijection of `0..len` onto itself that follows from a seed: rounds of "add a key, multiply by an odd number, fold the
/// high bits down" on the next power of two, walked until the image is below `len` (at most twice on average).
pub struct Permutation {
    len: u64,
    mask: u64,
    fold: u32,
    round_keys: [u64; 3],
}
impl Permutation {
    pub fn new(len: u64, seed: u64) -> Permutation {
        let mask = len.max(1).next_power_of_two() - 1;
        // Steele, Lea, Flood 2014: SplitMix, to spread the seed.
        let round_keys = [1u64, 2, 3].map(|i| {
            let mut z = seed.wrapping_add(i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ z >> 31
        });
        Permutation { len, mask, fold: mask.count_ones().div_ceil(2).max(1), round_keys }
    }
    pub fn len(&self) -> u64 {
        self.len
    }
    /// The image of `i`, which is below the length.
    pub fn at(&self, i: u64) -> u64 {
        const MULTIPLIERS: [u64; 3] = [0x9E37_79B9_85EB_CA6B, 0xD6E8_FEB8_C2B2_AE35, 0xFF51_AFD7_27D4_EB2F];
        let mut x = i;
        loop {
            for (key, multiplier) in self.round_keys.iter().zip(MULTIPLIERS) {
                x = x.wrapping_add(*key).wrapping_mul(multiplier) & self.mask;
                x ^= x >> self.fold;
            }
            if x < self.len {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn permutations_hit_everything_once() {
        for len in [1, 2, 3, 4, 5, 7, 8, 9, 100, 1000, 1024, 1025, 10_000] {
            for seed in 0..5 {
                let permutation = Permutation::new(len, seed);
                let images = (0..len).map(|i| permutation.at(i)).collect::<HashSet<u64>>();
                assert_eq!(images.len() as u64, len);
                assert!(images.iter().all(|&x| x < len));
            }
        }
    }

    #[test]
    fn permutations_mix() {
        // Neighbours end up far apart: of n pairs at random about 2 in n are neighbours still.
        let permutation = Permutation::new(100_000, 7);
        let close = (0..99_999).filter(|&i| permutation.at(i).abs_diff(permutation.at(i + 1)) < 100).count();
        assert!((100..400).contains(&close), "{close}");
        let other = Permutation::new(100_000, 8);
        assert!((0..100).any(|i| other.at(i) != permutation.at(i)));
    }

    fn check(workload: &Workload) {
        let n = workload.n();
        let set = workload.keys.iter().collect::<HashSet<_>>();
        assert_eq!(set.len(), n, "keys are distinct");
        for (op, hits) in [(Op::Build, n), (Op::FindHit, n), (Op::FindHalf, n.div_ceil(2)), (Op::FindMiss, 0)] {
            let queries = workload.queries(op);
            assert_eq!((queries.keys.len(), queries.expected.len()), (n, n));
            assert_eq!(queries.expected.iter().filter(|&&e| e != ABSENT).count(), hits);
            for (key, &expected) in queries.keys.iter().zip(&queries.expected) {
                assert_eq!(set.contains(key), expected != ABSENT);
                assert!(expected == ABSENT || workload.keys[expected as usize] == *key);
            }
        }
    }

    #[test]
    fn random_keys_follow_from_the_seed() {
        for n in [1, 2, 31, 1000] {
            check(&random(n, 3));
        }
        let (a, b, c) = (random(1000, 3), random(1000, 3), random(1000, 4));
        assert_eq!(a.keys, b.keys);
        assert_eq!(a.queries(Op::FindHalf).keys, b.queries(Op::FindHalf).keys);
        assert_ne!(a.keys, c.keys);
        // A longer run begins with the same keys: plots against N compare like with like.
        assert_eq!(random(2000, 3).keys[..1000], a.keys[..]);
        // Present and absent keys spread over all of 32 bits.
        assert!(a.keys.iter().filter(|&&k| k >> 31 == 1).count().abs_diff(500) < 100);
    }

    #[test]
    fn the_scan_inside_has_voxels() {
        let workload = voxels(None, 32, 1).unwrap();
        assert!(workload.n() > 1000 && workload.keys.is_sorted());
        check(&workload);
        assert!(
            workload
                .queries(Op::FindMiss)
                .keys
                .iter()
                .all(|k| [k >> 20, k >> 10 & 1023, k & 1023].iter().all(|&c| c < 32))
        );
        assert!(workload.queries(Op::FindHit).keys != workload.keys);
    }

    #[test]
    fn voxels_that_run_out_are_repeated_or_refused() {
        // 7 of 8 voxels are occupied: 7 queries for the one that is left.
        let keys = [0, 1, 1 << 10, 1 | 1 << 10, 1 << 20, 1 | 1 << 20, 1 << 10 | 1 << 20];
        let absent = absent_keys(&keys, [0, 1, 1 | 1 << 10 | 1 << 20, 1 << 10].into_iter()).unwrap();
        assert_eq!(absent, [1 | 1 << 10 | 1 << 20; 7]);
        assert!(voxels(None, 1, 1).is_err_and(|e| matches!(e, Failure::Usage(m) if m.contains("every voxel"))));
    }

    #[test]
    fn files_lose_their_equal_keys() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("k.u32");
        let keys = [7u32, u32::MAX, 7, 0, u32::MAX, 1];
        std::fs::write(&file, keys.map(u32::to_le_bytes).concat()).unwrap();
        let workload = words(&file, 1).unwrap();
        assert_eq!(workload.keys, [7, u32::MAX, 0, 1]);
        assert_eq!(workload.about.dropped, 2);
        check(&workload);
    }
}

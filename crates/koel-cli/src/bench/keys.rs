//! Keys to insert and to look up. They depend only on the seed, not on the machine.
use super::args::{MAX_RANDOM, Op, OrderName, Source};
use crate::failure::{Failure, Outcome};
use crate::intersect::load;
use koel::Duplicates;
use koel_measure::{Arrangement, Permutation};
use koel_spatial::{Bounds, Grid};
use rayon::prelude::*;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Expected answer to a query whose key is absent. Not a value: values are indices below 2^31.
pub(crate) const ABSENT: u32 = u32::MAX;

/// Pairs to build tables from, and queries for them. The value of a key is its index.
pub(crate) struct Workload {
    /// Description of the keys.
    pub about: KeysAbout,
    /// Keys of the pairs, distinct unless they repeat.
    pub keys: Vec<u32>,
    /// `0..n`.
    pub values: Vec<u32>,
    /// As many keys that are not among `keys`, in random order; distinct if there are enough.
    absent: Vec<u32>,
    /// Number of distinct keys.
    pub distinct: usize,
    /// For each pair, the last pair with the same key; `None` if keys are distinct.
    last: Option<Vec<u32>>,
    seed: u64,
}

/// Description of keys, for people and for the JSON.
#[derive(Clone, Default, Serialize)]
pub(crate) struct KeysAbout {
    /// random, voxels or file.
    pub source: &'static str,
    /// In words.
    pub description: String,
    /// File of the keys.
    pub file: Option<String>,
    /// Voxels per side.
    pub grid: Option<u32>,
    /// Layout of a voxel's key.
    pub order: Option<&'static str>,
    /// Repeated keys of the file that were dropped.
    pub dropped: usize,
    /// Notes on the file for the report.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// How keys repeat.
    #[serde(rename = "duplicates", serialize_with = "as_text")]
    pub repeats: Arrangement,
}
fn as_text<S: Serializer>(repeats: &Arrangement, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(repeats)
}

/// Keys to look up.
pub(crate) struct Queries {
    pub keys: Vec<u32>,
    /// Value of each key, or [`ABSENT`].
    pub expected: Vec<u32>,
}

impl Workload {
    /// Makes the keys of a source.
    ///
    /// Errors: a file cannot be read, has a wrong format or holds no keys; a scan occupies every
    /// voxel.
    pub(crate) fn of(source: &Source, seed: u64) -> Outcome<Workload> {
        match source {
            Source::Random(n, repeats) => Ok(random(*n, *repeats, seed)),
            Source::Voxels(file, grid, order) => voxels(file.as_deref(), *grid, *order, seed),
            Source::Words(file) => words(file, seed),
        }
    }
    pub(crate) fn n(&self) -> usize {
        self.keys.len()
    }
    /// Returns whether all keys are distinct.
    pub(crate) fn is_unique(&self) -> bool {
        self.last.is_none()
    }
    /// Returns, for each pair, the pair whose value its key gets under `policy`; `None`: its own.
    pub(crate) fn kept(&self, policy: Duplicates) -> Option<Cow<'_, [u32]>> {
        let last = self.last.as_ref()?;
        if policy != Duplicates::KeepFirst {
            return Some(last.into());
        }
        let first = (0..self.n()).map(|_| AtomicU32::new(u32::MAX)).collect::<Vec<_>>();
        last.par_iter().enumerate().for_each(|(i, &last)| {
            let first = &first[last as usize];
            if first.load(Relaxed) > i as u32 {
                first.fetch_min(i as u32, Relaxed);
            }
        });
        Some(last.par_iter().map(|&last| first[last as usize].load(Relaxed)).collect())
    }
    /// Returns the number of pairs with the key of each pair; `None`: one.
    pub(crate) fn multiplicities(&self) -> Option<Vec<u32>> {
        let last = self.last.as_ref()?;
        let counts = last.iter().map(|_| AtomicU32::new(0)).collect::<Vec<_>>();
        last.par_iter().for_each(|&last| _ = counts[last as usize].fetch_add(1, Relaxed));
        Some(last.par_iter().map(|&last| counts[last as usize].load(Relaxed)).collect())
    }
    /// Returns one query per pair, in an order independent of the pairs. The operation's percentage
    /// of them, rounded up, has present keys, at random positions and each pair's key at most once.
    /// Queries of a build look up every pair's key.
    pub(crate) fn queries(&self, op: Op, kept: Option<&[u32]>) -> Queries {
        let share = op.hit_share().unwrap_or(100);
        let present = (self.n() as u64 * u64::from(share)).div_ceil(100);
        let seeds = [self.seed ^ 0x5EED_0001, self.seed ^ 0x5EED_0002];
        let value = |pair: u32| kept.map_or(pair, |kept| kept[pair as usize]);
        Queries::of(&self.keys, &self.absent, present, seeds, value)
    }
}
impl Queries {
    /// Returns as many queries as keys, in an order independent of them: `present` of these keys,
    /// each at most once, at random positions among absent keys. `value` returns the expected
    /// answer for the key of a pair.
    pub(crate) fn of(
        keys: &[u32],
        absent: &[u32],
        present: u64,
        seeds: [u64; 2],
        value: impl Fn(u32) -> u32 + Sync,
    ) -> Queries {
        let [order, side] = seeds.map(|seed| Permutation::new(keys.len() as u64, seed));
        let query = |i: usize| match side.at(i as u64) < present {
            true => {
                let pair = order.at(i as u64) as u32;
                (keys[pair as usize], value(pair))
            }
            false => (absent[i], ABSENT),
        };
        let (keys, expected) = (0..keys.len()).into_par_iter().map(query).unzip();
        Queries { keys, expected }
    }
}

fn random(n: usize, repeats: Arrangement, seed: u64) -> Workload {
    let all = Permutation::new(1 << 32, seed);
    let key = |rank: u32| all.at(rank.into()) as u32;
    let about = KeysAbout {
        source: "random",
        description: repeats.about(),
        repeats,
        ..KeysAbout::default()
    };
    let absent = (n..2 * n).into_par_iter().map(|rank| key(rank as u32)).collect();
    if repeats == Arrangement::Unique {
        let keys = (0..n as u32).into_par_iter().map(key).collect();
        return of_keys(about, keys, absent, seed);
    }
    let ranks = repeats.ranks(n, seed ^ 0x5EED_0005, key);
    let last = (0..n).map(|_| AtomicU32::new(0)).collect::<Vec<_>>();
    // Stored plus 1; 0 marks a key without pairs.
    ranks.par_iter().enumerate().for_each(|(i, &rank)| {
        let (last, i) = (&last[rank as usize], i as u32 + 1);
        if last.load(Relaxed) < i {
            last.fetch_max(i, Relaxed);
        }
    });
    let distinct = last.par_iter().filter(|last| last.load(Relaxed) > 0).count();
    let keys = ranks.par_iter().map(|&rank| key(rank)).collect();
    let last = ranks.into_par_iter().map(|rank| last[rank as usize].load(Relaxed) - 1).collect();
    Workload { last: Some(last), distinct, ..of_keys(about, keys, absent, seed) }
}

/// A scan inside the program, so that it runs without input files.
const SCAN_NAME: &str = "cortex.ply";
const SCAN: &[u8] = include_bytes!("../../assets/cortex.ply");

fn voxels(file: Option<&Path>, resolution: u32, order: OrderName, seed: u64) -> Outcome<Workload> {
    let layout = order.order();
    let scan = match file {
        Some(file) => koel_spatial::read(file).map_err(Failure::input)?,
        None => koel_spatial::read::parse_ply(SCAN)
            .map_err(|e| Failure::Other(format!("{SCAN_NAME}: {e}")))?,
    };
    let name = file.map_or(SCAN_NAME.into(), |file| file.display().to_string());
    let in_file = |e: &dyn std::fmt::Display| Failure::Usage(format!("{name}: {e}"));
    let notes = file.map_or(vec![], |file| load::notes(file, &scan));
    let bounds = Bounds::of(&scan.points.positions).map_err(|e| in_file(&e))?;
    let grid = Grid::enclosing(bounds, resolution).map_err(|e| in_file(&e))?;
    let keys: Vec<u32> = match scan.is_mesh() {
        true => koel_spatial::mesh_keys(&scan.into_mesh().map_err(|e| in_file(&e))?, &grid, layout),
        false => koel_spatial::cloud_keys(&scan.points.positions, &grid, layout),
    }
    .map_err(|e| in_file(&e))?;
    let side = u64::from(resolution);
    let cells = Permutation::new(side.pow(3), seed ^ 0x5EED_0003);
    let key = |cell: u64| {
        let voxel = [cell / (side * side), cell / side % side, cell % side].map(|c| c as u32);
        layout.encode::<u32>(voxel)
    };
    let absent =
        absent_keys(&keys, cells.images().filter_map(|cell| key(cell).ok()))?.ok_or_else(|| {
            in_file(&"every voxel of the grid is occupied: none is left for lookups of absent keys")
        })?;
    let about = KeysAbout {
        source: "voxels",
        description: match order {
            OrderName::RowMajor => format!("voxels of {name} on a grid of {resolution}^3"),
            OrderName::Morton => {
                format!("voxels of {name} on a grid of {resolution}^3, Morton keys")
            }
        },
        file: Some(name),
        grid: Some(resolution),
        order: Some(order.name()),
        notes,
        ..KeysAbout::default()
    };
    Ok(of_keys(about, keys, absent, seed))
}

fn words(file: &Path, seed: u64) -> Outcome<Workload> {
    let in_file = |message: String| Failure::Usage(format!("{}: {message}", file.display()));
    let bytes = std::fs::read(file).map_err(|e| match e.kind() {
        ErrorKind::OutOfMemory => out_of_memory(format_args!("{}", file.display())),
        _ => in_file(format!("cannot be read: {e}")),
    })?;
    let (words, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        let (length, whole) = (bytes.len(), 4 * words.len());
        return Err(in_file(format!(
            "{length} bytes: expected a multiple of 4, the last {} at byte {whole} are incomplete",
            rest.len()
        )));
    }
    if words.is_empty() {
        return Err(in_file("is empty, expected 32-bit little-endian keys".into()));
    }
    let mut seen = KeySet::new()?;
    let mut keys = with_capacity(words.len())?;
    keys.extend(words.iter().map(|w| u32::from_le_bytes(*w)).filter(|&key| seen.insert(key)));
    drop(seen);
    let dropped = words.len() - keys.len();
    if keys.len() > MAX_RANDOM {
        return Err(in_file(format!("{} distinct keys: at most 2^31", keys.len())));
    }
    let others = Permutation::new(1 << 32, seed ^ 0x5EED_0004);
    let absent = absent_keys(&keys, others.images().map(|key| key as u32))?.unwrap_or_default();
    let description = match dropped {
        0 => format!("keys of {}", file.display()),
        _ => format!("distinct keys of {} ({dropped} repeated keys dropped)", file.display()),
    };
    let file = Some(file.display().to_string());
    let about = KeysAbout { source: "file", description, file, dropped, ..KeysAbout::default() };
    Ok(of_keys(about, keys, absent, seed))
}

fn of_keys(about: KeysAbout, keys: Vec<u32>, absent: Vec<u32>, seed: u64) -> Workload {
    let values = (0..keys.len() as u32).collect();
    Workload { about, distinct: keys.len(), keys, values, absent, last: None, seed }
}

/// Takes as many keys as `keys` from the candidates that are not among them. If those run out, they
/// repeat from the first. `None` if there are none. Errors: out of memory.
fn absent_keys(keys: &[u32], candidates: impl Iterator<Item = u32>) -> Outcome<Option<Vec<u32>>> {
    let mut present = KeySet::new()?;
    for &key in keys {
        present.insert(key);
    }
    let mut absent = with_capacity(keys.len())?;
    absent.extend(candidates.filter(|&key| !present.contains(key)).take(keys.len()));
    let found = absent.len();
    if found == 0 {
        return Ok(None);
    }
    (0..keys.len() - found).for_each(|i| absent.push(absent[i]));
    Ok(Some(absent))
}
/// Returns an empty vector with capacity for `n` keys. Errors: out of memory.
fn with_capacity(n: usize) -> Outcome<Vec<u32>> {
    let mut keys = Vec::new();
    keys.try_reserve_exact(n).map_err(|_| out_of_memory(format_args!("{n} keys")))?;
    Ok(keys)
}
fn out_of_memory(what: std::fmt::Arguments<'_>) -> Failure {
    Failure::Other(format!("out of memory for {what}"))
}

/// A bit per 32-bit key, in pages that the system allocates on first touch.
struct KeySet(Box<[u64]>);
impl KeySet {
    /// Errors: out of memory.
    fn new() -> Outcome<KeySet> {
        bytemuck::allocation::try_zeroed_slice_box(1 << 26)
            .map(KeySet)
            .map_err(|()| out_of_memory(format_args!("a set of keys")))
    }
    /// Inserts a key. Returns whether it was new.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn check(workload: &Workload) {
        let n = workload.n();
        let set = workload.keys.iter().collect::<HashSet<_>>();
        assert_eq!((set.len(), workload.distinct), (n, n), "keys are distinct");
        let of_share = |share: usize| (Op::Find(share as u8), (n * share).div_ceil(100));
        for (op, hits) in [0, 1, 25, 50, 99, 100]
            .map(of_share)
            .into_iter()
            .chain([(Op::Build, n), (Op::Rebuild, n)])
        {
            let queries = workload.queries(op, None);
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
            check(&random(n, Arrangement::Unique, 3));
        }
        let (a, b, c) = [3, 3, 4].map(|seed| random(1000, Arrangement::Unique, seed)).into();
        assert_eq!(a.keys, b.keys);
        assert_eq!(a.queries(Op::FIND_HALF, None).keys, b.queries(Op::FIND_HALF, None).keys);
        assert_ne!(a.keys, c.keys);
        // A longer input begins with the same keys, so that plots against N are comparable.
        assert_eq!(random(2000, Arrangement::Unique, 3).keys[..1000], a.keys[..]);
        // Present and absent keys cover the 32-bit range.
        assert!(a.keys.iter().filter(|&&k| k >> 31 == 1).count().abs_diff(500) < 100);
    }

    #[test]
    fn of_equal_keys_the_last_or_the_first_counts() {
        use std::collections::HashMap;
        for repeats in ["twice", "hot", "zipf", "equal", "30%"].map(|text| text.parse().unwrap()) {
            for n in [1usize, 2, 33, 1000] {
                let workload = random(n, repeats, 3);
                let pairs = || workload.keys.iter().copied().zip(workload.values.iter().copied());
                let last = pairs().collect::<HashMap<u32, u32>>();
                let first = pairs().rev().collect::<HashMap<u32, u32>>();
                assert_eq!(workload.distinct, last.len(), "{repeats}");
                for (policy, oracle) in
                    [(Duplicates::KeepLast, &last), (Duplicates::KeepFirst, &first)]
                {
                    let kept = workload.kept(policy).unwrap();
                    for op in [Op::Build, Op::FIND_HIT, Op::FIND_HALF, Op::FIND_MISS] {
                        let queries = workload.queries(op, Some(&kept));
                        for (key, &expected) in queries.keys.iter().zip(&queries.expected) {
                            assert_eq!(
                                oracle.get(key).copied().unwrap_or(ABSENT),
                                expected,
                                "{repeats}, {policy:?}"
                            );
                        }
                    }
                    let asked = workload
                        .queries(Op::Build, Some(&kept))
                        .keys
                        .into_iter()
                        .collect::<HashSet<_>>();
                    assert_eq!(asked.len(), oracle.len(), "every key is looked up");
                }
            }
        }
    }

    /// assets/LICENCES.md states the number. Another way of sampling may change it.
    #[test]
    fn the_scan_inside_has_as_many_voxels_as_is_stated() {
        assert_eq!(voxels(None, 512, OrderName::RowMajor, 1).unwrap().n(), 1_360_518);
        assert!(include_str!("../../assets/LICENCES.md").contains("| 337,486 | 1,360,518 |"));
    }

    #[test]
    fn the_scan_inside_has_voxels() {
        let workload = voxels(None, 32, OrderName::RowMajor, 1).unwrap();
        assert!(workload.n() > 1000 && workload.keys.is_sorted());
        check(&workload);
        assert!(
            workload.queries(Op::FIND_MISS, None).keys.iter().all(|k| [
                k >> 20,
                k >> 10 & 1023,
                k & 1023
            ]
            .iter()
            .all(|&c| c < 32))
        );
        assert!(workload.queries(Op::FIND_HIT, None).keys != workload.keys);
    }

    #[test]
    fn orders_are_keys_of_the_same_voxels() {
        let [linear, morton] = [OrderName::RowMajor, OrderName::Morton].map(|order| {
            let workload = voxels(None, 32, order, 1).unwrap();
            check(&workload);
            let decode = |&key: &u32| order.order().decode(key);
            let absent = workload.queries(Op::FIND_MISS, None).keys;
            assert!(absent.iter().map(decode).all(|voxel| voxel.iter().all(|&c| c < 32)));
            assert_eq!(workload.about.order, Some(order.name()));
            (workload.keys.iter().map(decode).collect::<HashSet<[u32; 3]>>(), workload)
        });
        assert_eq!(linear.0, morton.0);
        assert_ne!(linear.1.keys, morton.1.keys);
        assert!(morton.1.about.description.ends_with("on a grid of 32^3, Morton keys"));
    }

    #[test]
    fn voxels_that_run_out_are_repeated_or_refused() {
        // 7 of 8 voxels are occupied; 7 queries share the one that is left.
        let keys = [0, 1, 1 << 10, 1 | 1 << 10, 1 << 20, 1 | 1 << 20, 1 << 10 | 1 << 20];
        let absent = absent_keys(&keys, [0, 1, 1 | 1 << 10 | 1 << 20, 1 << 10].into_iter())
            .unwrap()
            .unwrap();
        assert_eq!(absent, [1 | 1 << 10 | 1 << 20; 7]);
        assert!(
            voxels(None, 1, OrderName::RowMajor, 1)
                .is_err_and(|e| matches!(e, Failure::Usage(m) if m.contains("every voxel")))
        );
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

//! Runs the seeds of the fuzz targets and thousands of mutations of them through the targets'
//! checks, without a fuzzer. `cargo +nightly fuzz run table` goes further.
use koel_fuzz_checks::{csv, gltf, groups, map_ops, npy, picture, scan, set_ops, table};
use std::fs;
use std::path::Path;

/// Reproducible random numbers.
struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        koel_kernels::hash::mix::mix64(self.0)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Returns a mutated seed: a few bytes changed, mostly near non-zero ones, the file truncated, or a
/// part of itself or of another file appended.
fn mutated(seed: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..1 + random.below(4) {
        let busy = (0..20)
            .map(|_| random.below(bytes.len()))
            .find(|&at| bytes.get(at).is_some_and(|&byte| byte != 0));
        // Also after them, where another field may be.
        let at = busy.unwrap_or_else(|| random.below(bytes.len()))
            + [0, 0, 4, random.below(8)][random.below(4)];
        let number = [
            0,
            1,
            2,
            0x7F,
            1 << 16,
            u32::MAX as u64,
            1 << 31,
            1 << 32,
            1 << 63,
            u64::MAX,
            random.next(),
        ];
        let number = number[random.below(number.len())].to_le_bytes();
        match random.below(8) {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_within(at.min(bytes.len())..),
            2 => bytes.extend(&other[random.below(other.len())..]),
            3 | 4 => {
                let width = [1, 2, 4, 8][random.below(4)];
                let at = at / width * width;
                bytes
                    .iter_mut()
                    .skip(at)
                    .zip(&number[..width])
                    .for_each(|(byte, &new)| *byte = new);
            }
            _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
        }
    }
    bytes
}

/// Runs the seeds of a target, and `mutations` mutations of them, through its check.
fn run(target: &str, mutations: usize, check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut files =
        fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect::<Vec<_>>();
    files.sort();
    let seeds = files.iter().map(|file| fs::read(file).unwrap()).collect::<Vec<_>>();
    assert!(!seeds.is_empty());
    seeds.iter().for_each(|seed| check(seed));
    let mut random = Random(1);
    for _ in 0..mutations {
        let (seed, other) = (random.below(seeds.len()), random.below(seeds.len()));
        check(&mutated(&seeds[seed], &seeds[other], &mut random));
    }
}

#[test]
fn table_files() {
    run("table", 6000, table::check);
}
#[test]
fn operations_on_maps() {
    run("map_ops", 200, map_ops::check);
}
#[test]
fn operations_on_sets() {
    run("set_ops", 200, set_ops::check);
}
#[test]
fn groups_of_pairs() {
    run("groups", 200, groups::check);
}
#[test]
fn numpy_arrays() {
    run("npy", 50_000, npy::check);
}
#[test]
fn csv_files() {
    run("csv", 20_000, csv::check);
    // Short texts of the bytes that matter.
    let (alphabet, mut random) = (b"\"\"\",,\r\n\n a1", Random(2));
    for _ in 0..100_000 {
        let length = random.below(16);
        let text = (0..length).map(|_| alphabet[random.below(alphabet.len())]);
        csv::check(&text.collect::<Vec<u8>>());
    }
}
#[test]
fn pictures() {
    run("picture", 20_000, picture::check);
}
#[test]
fn animated_meshes() {
    run("gltf", 20_000, gltf::check);
}
#[test]
fn scans() {
    run("ply", 20_000, |bytes| scan::check(koel_spatial::read::parse_ply(bytes)));
    run("obj", 20_000, |bytes| scan::check(koel_spatial::read::parse_obj(bytes)));
    run("pcd", 20_000, |bytes| scan::check(koel_spatial::read::parse_pcd(bytes)));
    run("stl", 20_000, |bytes| scan::check(koel_spatial::read::parse_stl(bytes)));
    run("off", 20_000, |bytes| scan::check(koel_spatial::read::parse_off(bytes)));
    run("xyz", 20_000, |bytes| scan::check(koel_spatial::read::parse_xyz(bytes)));
    run("e57", 2_000, |bytes| scan::check(koel_spatial::read::parse_e57(bytes)));
    run("las", 20_000, |bytes| scan::check(koel_spatial::read::parse_las(bytes)));
}

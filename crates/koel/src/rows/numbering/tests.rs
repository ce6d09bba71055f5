use super::table::PROBES;
use super::*;
use crate::verbs::row_keys::{ByteRows, Bytes};
use koel_kernels::hash::mix::splitmix_at;
use std::collections::HashMap;

/// A seed that everybody knows.
const SEED: u64 = 0xDF50_DC1C_7BF9_A8A4;

/// Returns the number of each key, the rows of the first ones, and how often each occurs.
fn expected<K: Eq + std::hash::Hash>(keys: &[K]) -> [Vec<u32>; 3] {
    let (mut numbers, mut ids, mut firsts, mut counts) =
        (HashMap::new(), vec![], vec![], Vec::<u32>::new());
    for (row, key) in keys.iter().enumerate() {
        let id = *numbers.entry(key).or_insert(firsts.len() as u32);
        if id as usize == firsts.len() {
            firsts.push(row as u32);
            counts.push(0);
        }
        counts[id as usize] += 1;
        ids.push(id);
    }
    [ids, firsts, counts]
}
fn numbered<K: Hashed>(threads: usize, keys: K, other: Other) -> Option<[Vec<u32>; 3]> {
    let device = Device::cpu_with_threads(threads).unwrap();
    let (mut ids, way) = (vec![7; keys.len()], Way { counts: true, other });
    let numbered = number_with(&device, &keys, way, SEED, Some(&mut ids)).unwrap();
    let uncounted = Way { counts: false, other };
    let alone = number_with(&device, &keys, uncounted, SEED, None).unwrap();
    assert_eq!(alone.map(|of| of.firsts), numbered.as_ref().map(|of| of.firsts.clone()));
    let Numbered { keys: own, firsts, counts } = numbered?;
    assert_eq!(own.len(), firsts.len());
    for (own, &first) in own.iter().zip(&firsts) {
        let mut key = [K::Own::any()];
        keys.copy(first as usize, &mut key);
        assert!(own.is(key[0]));
    }
    Some([ids, firsts, counts])
}
/// Checks columns of one arrangement, of keys of each type and of bytes.
fn check(threads: usize, name: &str, column: &[u32]) {
    let wide = |key: u32| u64::from(key) << 32 | u64::from(key);
    let columns = (
        column.iter().map(|&key| wide(key)).collect::<Vec<_>>(),
        column.iter().map(|&key| u128::from(key) << 96 | 1).collect::<Vec<_>>(),
    );
    let all = expected(column);
    let what = format!("{name}, {} rows, {threads} threads", column.len());
    let same = |found: Option<[Vec<u32>; 3]>, of: &str| {
        assert!(found.is_some_and(|found| found == all), "{what}, {of}");
    };
    same(numbered(threads, column, Other::Nothing), "u32");
    same(numbered(threads, &columns.0[..], Other::Nothing), "u64");
    if column.len() < 50_000 {
        same(numbered(threads, &columns.1[..], Other::Nothing), "u128");
        let bytes = column.iter().map(|key| key.to_le_bytes().to_vec()).collect::<Vec<_>>();
        same(numbered(threads, ByteRows::of(Bytes::Vecs(&bytes)), Other::Nothing), "bytes");
    }
    // Given up, or the same.
    for other in [Other::Map, Other::Set] {
        let found = numbered(threads, column, other);
        assert!(found.is_none_or(|found| found == all), "{what}, {other:?}");
    }
}
type Arranged = fn(usize, usize) -> u32;
const ARRANGEMENTS: [(&str, Arranged); 16] = [
    ("equal", |_, _| 0),
    ("batches", |i, _| (i % BATCH) as u32),
    ("greatest", |_, _| u32::MAX),
    ("special", |i, _| [0, u32::MAX, 1][i / 3 % 3]),
    ("random", |i, _| splitmix_at(1, i as u32) as u32),
    ("few", |i, _| splitmix_at(2, i as u32) as u32 % 10),
    ("thousands", |i, _| splitmix_at(3, i as u32) as u32 % 5000),
    ("sequential", |i, _| i as u32),
    ("around 0", |i, n| (i as u32).wrapping_sub(n as u32 / 2)),
    ("strided", |i, _| (i as u32).wrapping_mul(1 << 12)),
    ("up and down", |i, n| i.min(n - i) as u32),
    ("down", |i, n| (n - i) as u32 / 2),
    ("runs", |i, _| splitmix_at(4, i as u32 / 37) as u32 % 100),
    ("sorted copies", |i, n| (i % n.div_ceil(3).max(1)) as u32 / 2),
    ("zipf", |i, _| ((splitmix_at(5, i as u32) as u32 >> 8) as f64).exp2().log2() as u32 / 1000),
    (
        "sorted, then random",
        |i, n| if i < n / 2 { i as u32 } else { splitmix_at(6, i as u32) as u32 },
    ),
];

#[test]
#[cfg_attr(miri, ignore = "slow")]
fn keys_are_numbered_as_they_come() {
    for threads in [1, 3] {
        let edges = [0, 1, 2, BATCH - 1, BATCH, BATCH + 1, 1000];
        let of_threads = [2 * LEAST - 1, 2 * LEAST, 3 * LEAST + 1];
        for n in edges.into_iter().chain(of_threads.into_iter().filter(|_| threads > 1)) {
            for (name, key) in ARRANGEMENTS {
                check(threads, name, &(0..n).map(|i| key(i, n)).collect::<Vec<_>>());
            }
        }
    }
    for (name, key) in ARRANGEMENTS {
        check(1, name, &(0..2 * LEAST + 7).map(|i| key(i, 2 * LEAST + 7)).collect::<Vec<_>>());
    }
}
/// Columns of few keys are numbered, those of distinct keys are not: by any number of threads.
#[test]
#[cfg_attr(miri, ignore = "slow")]
fn keys_that_do_not_repeat_are_given_up() {
    let n = 4 * LEAST;
    let column = |distinct: u64| {
        (0..n as u32).map(|i| (splitmix_at(4, i) % distinct) as u32).collect::<Vec<_>>()
    };
    for threads in [1, 4] {
        for other in [Other::Map, Other::Set] {
            assert!(numbered(threads, &column(1000)[..], other).is_some(), "{threads} {other:?}");
        }
        assert!(numbered(threads, &column(1 << 40)[..], Other::Set).is_none(), "{threads}");
    }
}
/// Inverts the hash of 32-bit keys.
fn of_hash(hash: u32) -> u32 {
    let inverse =
        |odd: u32| (0..5).fold(odd, |x, _| x.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(x))));
    let mixed = hash.wrapping_mul(inverse(0x2C1B_3C6D));
    let mixed = mixed ^ mixed >> 15 ^ mixed >> 30;
    mixed.wrapping_mul(inverse((SEED >> 32) as u32 | 1)) ^ SEED as u32
}
#[test]
fn keys_of_one_place_are_told() {
    for hash in [0, 1, 0x8000_0000, u32::MAX] {
        assert_eq!(of_hash(hash).hash(SEED), hash);
    }
    // All hashes lead to the same slot, the first or the last one.
    for first in [0, u32::MAX - 2 * PROBES as u32] {
        let column = |distinct: usize| {
            let key = |i: usize| of_hash(first + (i * 7919 % distinct) as u32);
            (0..3000).map(key).collect::<Vec<_>>()
        };
        check(1, "one place", &column(PROBES / 2));
        assert!(numbered(1, &column(2 * PROBES)[..], Other::Nothing).is_none());
    }
}
/// Different keys of one hash of 32 bits.
#[derive(Clone, Copy)]
struct Alike(u32);
impl Own for Alike {
    const IS_EXACT: bool = false;
    const IS_ORDERED: bool = false;
    fn any() -> Alike {
        Alike(0)
    }
    fn hash(self, _: u64) -> u32 {
        (self.0 / 4).wrapping_mul(0x9E37_79B1)
    }
    fn is(self, other: Alike) -> bool {
        self.0 == other.0
    }
}
struct AllAlike<'a>(&'a [u32]);
impl Source<Alike> for AllAlike<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn copy(&self, start: usize, to: &mut [Alike]) {
        to.iter_mut().zip(&self.0[start..]).for_each(|(to, &key)| *to = Alike(key));
    }
    fn row(&self, i: usize) -> u32 {
        i as u32
    }
}
#[test]
fn keys_that_share_their_hash_are_told_apart() {
    let column = (0..5000).map(|i| (splitmix_at(7, i) % 900) as u32).collect::<Vec<_>>();
    let [expected_ids, firsts, counts] = expected(&column);
    for level in Level::available() {
        let (mut ids, mut numbering) = (vec![0; column.len()], Numbering::new(SEED, true));
        let to = Some(&mut ids[..]);
        let number =
            Number { numbering: &mut numbering, source: AllAlike(&column), ids: to, pace: None };
        assert_eq!(level.run(number).unwrap(), Ended::Numbered);
        let counted = numbering.counts.iter().map(|[even, odd]| even + odd).collect::<Vec<_>>();
        assert_eq!((&ids, &numbering.firsts, &counted), (&expected_ids, &firsts, &counts));
    }
}
/// All instruction sets number alike.
#[test]
fn every_set_of_instructions_agrees() {
    let column = (0..9000).map(|i| splitmix_at(8, i) as u32 % 3000).collect::<Vec<_>>();
    let [expected_ids, ..] = expected(&column);
    for level in Level::available() {
        let (mut ids, mut numbering) = (vec![0; column.len()], Numbering::new(SEED, false));
        let (keys, len) = (&&column[..], column.len());
        let source = Stretch { keys, start: 0, len };
        let number = Number { numbering: &mut numbering, source, ids: Some(&mut ids), pace: None };
        assert_eq!(level.run(number).unwrap(), Ended::Numbered);
        assert_eq!(ids, expected_ids, "{level:?}");
    }
}

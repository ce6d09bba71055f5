//! Maps, sets and indexes of strings against a `HashMap`, on every device.

use crate::support::{Random, devices, is_fast};
use koel::strings::StringFingerprint;
use koel::{
    Device, Duplicates, Error, IndexOptions, MapOptions, NO_ID, SetOptions, StringIndex, StringMap,
    StringMultiMap, StringSet, Strings, string_counts,
};
use proptest::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

/// String `i`, from random bits `r`.
type Column = fn(i: usize, r: u64) -> Vec<u8>;
const COLUMNS: [(&str, Column); 13] = [
    ("random", |_, r| (0..r % 40).map(|k| (r.rotate_left(3 * k as u32) ^ k) as u8).collect()),
    ("decimal", |i, _| i.to_string().into_bytes()),
    ("one prefix", |i, _| [&[b'/'; 99], &i.to_le_bytes()[..]].concat()),
    ("one suffix", |i, _| [&i.to_le_bytes()[..], &[b'/'; 99]].concat()),
    ("prefixes", |i, _| vec![b'a'; i % 300]),
    ("zeros", |i, _| vec![0; i % 300]),
    ("zeros before", |i, _| [vec![0; i % 20], i.to_le_bytes().to_vec()].concat()),
    ("0xFF", |i, r| [vec![0xFF; r as usize % 33], i.to_be_bytes().to_vec()].concat()),
    ("around words", |i, r| {
        let all = (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes().repeat(4);
        all[..[0, 1, 6, 7, 8, 9, 13, 14, 15, 16, 17, 21, 24, 28, 31][r as usize % 15]].to_vec()
    }),
    ("long", |i, r| [vec![b'x'; r as usize % 3000], (i % 50).to_le_bytes().to_vec()].concat()),
    ("three keys", |_, r| [&b""[..], b"\0", b"three"][(r % 3) as usize].to_vec()),
    ("all empty", |_, _| vec![]),
    ("Zipf", |_, r| {
        let rank = ((r >> 11) as f64 / (1u64 << 53) as f64 * 9.0).exp() as u64;
        format!("word {rank}").into_bytes()
    }),
];
fn column(of: Column, n: usize) -> Vec<Vec<u8>> {
    let mut random = Random(n as u64);
    (0..n).map(|i| of(i, random.word())).collect()
}
/// Sizes around warps, blocks and chunks of a CPU thread.
fn sizes(device: &Device) -> Vec<usize> {
    let mut sizes = vec![0, 1, 2, 31, 33, 255, 256, 257, 2047, 2049, 4095, 4097];
    sizes.push(if is_fast(device) { 50_000 } else { 6000 });
    sizes
}
/// Returns the pairs that are kept, in order.
fn kept(keys: &[Vec<u8>], policy: Duplicates) -> Vec<(&[u8], u32)> {
    let mut seen = FxHashSet::default();
    let pairs = keys.iter().map(Vec::as_slice).zip(0..keys.len() as u32);
    if policy == Duplicates::KeepFirst {
        return pairs.filter(|(key, _)| seen.insert(*key)).collect();
    }
    let mut pairs = pairs.rev().filter(|(key, _)| seen.insert(*key)).collect::<Vec<_>>();
    pairs.reverse();
    pairs
}
/// Returns keys that are present, and similar ones that are not.
fn queries(keys: &[&[u8]]) -> Vec<Vec<u8>> {
    let alike = keys.iter().step_by(5).flat_map(|key| {
        let (mut last, mut first) = (key.to_vec(), key.to_vec());
        last.last_mut().into_iter().for_each(|byte| *byte ^= 1);
        first.first_mut().into_iter().for_each(|byte| *byte ^= 0x80);
        [last, first, [key, &[0][..]].concat(), key[..key.len() / 2].to_vec()]
    });
    let ends = [&b""[..], b"\0", &[0; 7], &[0; 8], &[0xFF; 7], &[0xFF; 8]].map(<[u8]>::to_vec);
    keys.iter().rev().map(|key| key.to_vec()).chain(alike).chain(ends).collect()
}
fn options(duplicates: Duplicates) -> MapOptions {
    MapOptions::default().with_duplicates(duplicates).with_seed(0)
}
fn check(map: &StringMap<u32>, expected: &[(&[u8], u32)], place: &str) {
    let (device, report) = (map.device(), map.report().unwrap());
    let place = &format!("{place} on {}, {report:?}", device.name());
    let oracle = expected.iter().copied().collect::<FxHashMap<_, _>>();
    let keys = expected.iter().map(|pair| pair.0).collect::<Vec<_>>();
    assert_eq!(
        (map.len(), map.is_empty(), report.entries),
        (keys.len(), keys.is_empty(), keys.len())
    );
    assert_eq!(report.bytes, map.bytes());
    assert!(map.keys().unwrap().iter().eq(keys.iter().copied()), "{place}: the keys differ");
    assert!(map.values().unwrap().iter().eq(expected.iter().map(|pair| &pair.1)), "{place}");
    let asked = queries(&keys);
    let answers = asked.iter().map(|key| oracle.get(&key[..]).copied()).collect::<Vec<_>>();
    assert_eq!(map.get(&asked).unwrap(), answers, "{place}");
    let or = |missing| answers.iter().map(|a| a.unwrap_or(missing)).collect::<Vec<_>>();
    assert_eq!(map.get_or(&asked, 77).unwrap(), or(77), "{place}");
    let there = answers.iter().map(Option::is_some).collect::<Vec<_>>();
    assert_eq!(map.contains(&asked).unwrap(), there, "{place}");
    let count = there.iter().filter(|&&there| there).count() as u64;
    assert_eq!(map.set().count(&asked).unwrap(), count, "{place}");
    let (stream, staged) = (device.stream().unwrap(), Strings::upload(device, &asked).unwrap());
    let mut values = device.alloc(asked.len()).unwrap();
    map.get_or_into(&stream, &staged, values.view_mut(), 5).unwrap();
    assert_eq!(values.download().unwrap(), or(5), "{place}");
    assert!(staged.download().unwrap().iter().eq(asked.iter().map(Vec::as_slice)));
}

fn every_column(skip: usize) {
    for device in devices() {
        for (s, n) in sizes(&device).into_iter().enumerate() {
            for (name, of) in COLUMNS.into_iter().skip((s + skip) % 4).step_by(4) {
                let keys = column(of, n);
                let values = (0..n as u32).collect::<Vec<_>>();
                for policy in [Duplicates::KeepLast, Duplicates::KeepFirst] {
                    let map =
                        StringMap::build_with(&device, options(policy), &keys, &values).unwrap();
                    let expected = kept(&keys, policy);
                    check(&map, &expected, &format!("{name}, {n}, {policy:?}"));
                    let report = map.report().unwrap();
                    assert_eq!((report.attempts, report.duplicates), (1, n - expected.len()));
                }
            }
        }
    }
}
#[test]
fn every_column_and_size() {
    every_column(0);
}
#[test]
fn every_column_and_other_sizes() {
    every_column(2);
}

#[test]
fn indexes_number_strings_as_they_come() {
    for device in devices() {
        for n in [0, 1, 300, 5000] {
            for (name, of) in COLUMNS {
                let (keys, place) = (column(of, n), format!("{name}, {n} on {}", device.name()));
                let (mut expected, mut distinct, mut counts) = (vec![], vec![], vec![]);
                let mut ids = FxHashMap::default();
                for key in &keys {
                    let id = *ids.entry(&key[..]).or_insert_with(|| {
                        distinct.push(&key[..]);
                        counts.push(0);
                        distinct.len() as u32 - 1
                    });
                    counts[id as usize] += 1;
                    expected.push(id);
                }
                let (index, found) = StringIndex::encode(&device, &keys).unwrap();
                assert_eq!(found, expected, "{place}");
                assert!(index.keys().unwrap().iter().eq(distinct.iter().copied()), "{place}");
                let asked = queries(&distinct);
                let answers = asked.iter().map(|key| ids.get(&key[..]).copied());
                assert_eq!(index.ids(&asked).unwrap(), answers.collect::<Vec<_>>(), "{place}");
                // Strings of ids, also repeated and missing ones, in any order.
                let mut of = expected.iter().rev().copied().collect::<Vec<_>>();
                of.extend([NO_ID, index.len() as u32, u32::MAX - 1]);
                let string = |&id: &u32| distinct.get(id as usize).map(|key| key.to_vec());
                let strings = of.iter().map(string).collect::<Vec<_>>();
                assert_eq!(index.keys_of(&of).unwrap(), strings, "{place}");
                let (words, of_words) = string_counts(&device, &keys).unwrap();
                assert!(words.iter().eq(distinct.iter().copied()), "{place}");
                assert_eq!(of_words, counts, "{place}");
            }
        }
    }
}

/// Columns in which strings repeat, in several parts: the first of each is found in any of them.
#[test]
fn columns_with_repeats_are_numbered_in_parts() {
    for threads in [1, 2, 3] {
        let device = Device::cpu_with_threads(threads).unwrap();
        for (n, words) in [(40_000, 3), (70_000, 700), (100_001, 9000)] {
            let mut random = Random(words);
            let word = |i: usize| {
                // Some come late.
                let late = (i as u64 / 20_000) * words / 5;
                format!("word {}", random.word() % words + late).into_bytes()
            };
            let keys = (0..n).map(word).collect::<Vec<_>>();
            let (mut ids, mut distinct, mut counts) = (FxHashMap::default(), vec![], vec![]);
            let mut expected = vec![];
            for key in &keys {
                let id = *ids.entry(&key[..]).or_insert_with(|| {
                    distinct.push(&key[..]);
                    counts.push(0);
                    counts.len() as u32 - 1
                });
                counts[id as usize] += 1;
                expected.push(id);
            }
            let (index, found) = StringIndex::encode(&device, &keys).unwrap();
            assert!(found == expected && index.keys().unwrap().iter().eq(distinct.iter().copied()));
            let (stream, column) =
                (device.stream().unwrap(), Strings::upload(&device, &keys).unwrap());
            let (_, found) =
                StringIndex::encode_from(&stream, IndexOptions::default(), &column).unwrap();
            assert!(found.download().unwrap() == expected);
            assert_eq!(string_counts(&device, &keys).unwrap().1, counts);
        }
    }
}

/// Modulus of the fingerprints.
const PRIME: u128 = (1 << 61) - 1;
/// Returns two strings of 21 bytes that share their fingerprint under seed 0, unlike those of
/// other numbers.
fn colliding(number: u64) -> [Vec<u8>; 2] {
    let function = StringFingerprint::new(0);
    let [x, y] = function.points().map(u128::from);
    // The difference of both polynomials is a multiple of (z - x) (z - y) z^2, with small
    // coefficients.
    let negative = |v: u128| (PRIME - v % PRIME) % PRIME;
    let mut random = Random(number);
    loop {
        let c = (random.word() >> 8) as u128;
        let differences = [c, negative(c * ((x + y) % PRIME)), c * (x * y % PRIME) % PRIME];
        if differences.iter().any(|&d| d >= 1 << 56) {
            continue;
        }
        // No sum exceeds seven bytes.
        let bases = differences.map(|d| random.word() % ((1 << 56) - d as u64));
        let string = |more: [u128; 3]| {
            let pieces = bases.iter().zip(more).map(|(base, d)| base + d as u64);
            pieces.flat_map(|piece| piece.to_le_bytes()[..7].to_vec()).collect::<Vec<u8>>()
        };
        let pair = [string([0; 3]), string(differences)];
        assert_eq!(function.of(&pair[0]), function.of(&pair[1]));
        assert_ne!(pair[0], pair[1]);
        return pair;
    }
}
/// Crafted collisions: the function is redrawn, in every policy, and answers are right.
#[test]
fn strings_that_share_fingerprints() {
    let pairs = (0..200).map(colliding).collect::<Vec<_>>();
    for device in devices() {
        let mut keys = pairs.concat();
        keys.extend(column(COLUMNS[1].1, 2000));
        let distinct = keys.len();
        keys.extend_from_within(..distinct / 3);
        let values = (0..keys.len() as u32).collect::<Vec<_>>();
        for policy in [Duplicates::KeepLast, Duplicates::KeepFirst] {
            let map = StringMap::build_with(&device, options(policy), &keys, &values).unwrap();
            assert_eq!(map.report().unwrap().attempts, 2);
            check(&map, &kept(&keys, policy), "redrawn");
            let another = options(policy).with_seed(1);
            let map = StringMap::build_with(&device, another, &keys, &values).unwrap();
            assert_eq!(map.report().unwrap().attempts, 1);
        }
        let reject = options(Duplicates::Reject);
        let rejected = StringMap::build_with(&device, reject, &keys, &values).unwrap_err();
        assert!(
            matches!(
                rejected,
                Error::DuplicateString { first: 0, second, .. } if second == distinct
            ),
            "{rejected}"
        );
        let (keys, values) = (&keys[..distinct], &values[..distinct]);
        for policy in [Duplicates::Unchecked, Duplicates::Reject] {
            let map = StringMap::build_with(&device, options(policy), keys, values).unwrap();
            check(&map, &kept(keys, policy), "redrawn");
        }
        // One of each pair is there: the other one has its fingerprint, and is absent.
        let there = pairs.iter().map(|pair| &pair[0]).collect::<Vec<_>>();
        let set =
            StringSet::build_with(&device, SetOptions::default().with_seed(0), &there).unwrap();
        assert_eq!(set.report().unwrap().attempts, 1);
        let contains = set.contains(&pairs.concat()).unwrap();
        assert!(contains.chunks(2).all(|pair| *pair == [true, false]));
    }
}

#[test]
fn every_kind_of_slice_is_a_key() {
    for device in devices() {
        let map = StringMap::build(&device, &["ab", "c"], &['x', 'y']).unwrap();
        let expected = [Some('y'), None];
        assert_eq!(map.get(&["c", "d"]).unwrap(), expected);
        assert_eq!(map.get(&["c".to_string(), "d".to_string()]).unwrap(), expected);
        assert_eq!(map.get(&[vec![b'c'], vec![]]).unwrap(), expected);
        assert_eq!(map.get(&[*b"c", *b"d"]).unwrap(), expected);
        assert_eq!(map.get_or(&[b"c", b"d"], '-').unwrap(), ['y', '-']);
        let floats = StringMap::build(&device, &["a", "b"], &[[0.5f32, -0.0], [f32::NAN, 1.0]]);
        let found = floats.unwrap().get(&["b", "a"]).unwrap();
        assert!(found[0].unwrap()[0].is_nan() && found[1].unwrap()[1].is_sign_negative());
    }
}

/// Columns that were made elsewhere: any first offset, and bytes that no string has.
#[test]
fn columns_are_made_of_parts() {
    for device in devices() {
        let upload = |offsets: &[u64], bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes.resize(bytes.len().next_multiple_of(8), 0xAA);
            let words = bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word));
            let words = device.upload(&words.collect::<Vec<_>>()).unwrap();
            Strings::from_parts(device.upload(offsets).unwrap(), words)
        };
        let bytes = (0..200u8).collect::<Vec<_>>();
        let strings = upload(&[3, 3, 10, 29, 29, 101, 117, 199], &bytes).unwrap();
        let expected =
            [3..3, 3..10, 10..29, 29..29, 29..101, 101..117, 117..199].map(|place| &bytes[place]);
        assert!(strings.download().unwrap().iter().eq(expected));
        let stream = device.stream().unwrap();
        let (index, ids) =
            StringIndex::encode_from(&stream, IndexOptions::default(), &strings).unwrap();
        assert_eq!(ids.download().unwrap(), [0, 1, 2, 0, 3, 4, 5]);
        assert!(index.keys().unwrap().iter().eq([0, 1, 2, 4, 5, 6].map(|i| expected[i])));
        assert_eq!(index.ids(&[&bytes[3..10], &bytes[4..10]]).unwrap(), [Some(1), None]);
        // Nothing is dropped: the column is used as it is.
        let distinct = upload(&[1, 5, 9], &bytes).unwrap();
        let set = StringSet::build_from(&stream, SetOptions::default(), &distinct).unwrap();
        assert_eq!(
            set.contains(&[&bytes[1..5], &bytes[5..9], &bytes[1..9]]).unwrap(),
            [true, true, false]
        );
        let elsewhere = set.to_device(&device).unwrap();
        assert_eq!(elsewhere.contains(&[&bytes[5..9], &[]]).unwrap(), [true, false]);
        for (offsets, wrong) in [
            (&[0, 2, 1][..], 1),
            (&[0, 9], 1),
            (&[9, 9], 1),
            (&[5, 4, 3, u64::MAX, 0], 4),
            (&[0, 1 << 61, 8], 2),
        ] {
            let error = upload(offsets, &bytes[..8]).unwrap_err().to_string();
            assert!(error.contains(&format!("{wrong} that are not")), "{offsets:?}: {error}");
        }
        assert!(upload(&[], &bytes).is_err());
        assert!(upload(&[0], &[]).unwrap().is_empty());
        // The only offset is behind all bytes: there is no string.
        assert!(upload(&[9], &[]).unwrap().is_empty());
    }
}

#[test]
fn wrong_arguments_are_told() {
    for device in devices() {
        let error = StringMap::build(&device, &["a"], &[1, 2]).unwrap_err();
        assert!(matches!(error, Error::Length { .. }), "{error}");
        let set = StringSet::build(&device, &["a"]).unwrap();
        let (stream, keys) = (device.stream().unwrap(), Strings::upload(&device, &["a"]).unwrap());
        let mut rows = device.alloc(2).unwrap();
        let error = set.rows_into(&stream, &keys, rows.view_mut()).unwrap_err();
        assert!(matches!(error, Error::Length { .. }), "{error}");
        let other = Device::executor(9);
        let elsewhere = Strings::upload(&other, &["a"]).unwrap();
        let mut row = device.alloc(1).unwrap();
        let error = set.rows_into(&stream, &elsewhere, row.view_mut()).unwrap_err();
        assert!(matches!(error, Error::WrongDevice { .. }), "{error}");
        let options = SetOptions::default().with_load(0.99);
        assert!(StringSet::build_with(&device, options, &["a"]).is_err());
        let long = "é".repeat(100);
        let options = self::options(Duplicates::Reject);
        let error = StringMap::build_with(&device, options, &[&long, &long], &[1, 2]).unwrap_err();
        let shown = format!("key \"{}…\" occurs more than once: at 0 and at 1", "é".repeat(40));
        assert_eq!(error.to_string(), shown);
    }
}

/// A key that has other bytes each time it is asked: answers may be wrong, memory stays whole.
#[test]
fn keys_may_change_their_minds() {
    struct Fickle(std::sync::atomic::AtomicUsize);
    impl AsRef<[u8]> for Fickle {
        fn as_ref(&self) -> &[u8] {
            const ALL: &[u8] = &[7; 5000];
            let n = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            &ALL[..(n * 1237) % 5000]
        }
    }
    let keys = (0..300).map(|i| Fickle(i.into())).collect::<Vec<_>>();
    for device in devices() {
        let set = StringSet::build(&device, &keys).unwrap();
        assert!(set.len() <= keys.len());
        assert_eq!(set.contains(&keys).unwrap().len(), keys.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn tables_answer_as_a_hash_map(
        keys in prop::collection::vec(prop::collection::vec(0u8..3, 0..20), 0..300),
        seed: u32,
        load in 0.3..0.95,
        first: bool,
    ) {
        let policy = if first { Duplicates::KeepFirst } else { Duplicates::KeepLast };
        let options = options(policy).with_seed(seed).with_load(load);
        let values = (0..keys.len() as u32).collect::<Vec<_>>();
        for device in [Device::cpu().unwrap(), Device::executor(seed.into())] {
            let map = StringMap::build_with(&device, options, &keys, &values).unwrap();
            check(&map, &kept(&keys, policy), "random");
        }
    }
}

/// All values of strings, in input order, for sizes around the edges of blocks and parts.
#[test]
fn multi_maps_keep_all_values() {
    for device in devices() {
        let most = if is_fast(&device) { 20_000 } else { 700 };
        for (n, distinct) in
            [(0, 1), (1, 1), (255, 255), (256, 7), (257, 300), (most, 40), (most, most)]
        {
            let place = format!("{n} of {distinct} on {}", device.name());
            let text = |i: usize| format!("{}", i * 7919 % distinct).repeat(i % distinct % 3);
            let keys = (0..n).map(text).collect::<Vec<_>>();
            let values = (0..n).map(|i| i as i16).collect::<Vec<_>>();
            let (mut oracle, mut order) = (std::collections::HashMap::new(), vec![]);
            for (key, &value) in keys.iter().zip(&values) {
                let of_key = oracle.entry(key.as_str()).or_insert_with(Vec::new);
                if of_key.is_empty() {
                    order.push(key.as_bytes());
                }
                of_key.push(value);
            }
            let built = StringMultiMap::build(&device, &keys, &values).unwrap();
            assert_eq!((built.len(), built.is_empty()), (n, n == 0), "{place}");
            let moved = built.to_device(&Device::cpu().unwrap()).unwrap();
            for map in [built, moved] {
                assert!(map.index().keys().unwrap().iter().eq(order.iter().copied()), "{place}");
                let mut asked = keys.iter().map(String::as_str).rev().collect::<Vec<_>>();
                asked.extend(["absent", "also absent"]);
                let found = map.retrieve(&asked).unwrap();
                let counts = map.counts(&asked).unwrap();
                for (i, key) in asked.iter().enumerate() {
                    let expected = oracle.get(key).map_or(&[][..], Vec::as_slice);
                    assert_eq!((found.of(i), counts[i] as usize), (expected, expected.len()));
                }
                let in_order = order.iter().map(|key| &oracle[str::from_utf8(key).unwrap()]);
                assert!(map.values().unwrap().iter().eq(in_order.flatten()), "{place}");
                assert_eq!(map.starts_view().len(), order.len() + 1, "{place}");
            }
        }
        let e = StringMultiMap::build(&device, &["a"], &[1, 2]).unwrap_err();
        assert!(matches!(e, Error::Length { name: "values", found: 2, expected: 1, .. }), "{e}");
    }
}

//! Verbs on columns against nested loops and hash maps, on every device.
use crate::support::{Random, devices, is_fast};
use koel::groups::reduction::Sum;
use koel::verbs::{Keyed, NO_ROW};
use koel::{How, Joined, count, group_by, join};
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

/// Returns the distinct keys in order of first occurrence, and the rows of each.
fn grouped<K: Clone, I: Eq + Hash>(keys: &[K], identity: impl Fn(&K) -> I) -> Vec<(K, Vec<usize>)> {
    let (mut groups, mut numbers) = (Vec::<(K, Vec<usize>)>::new(), HashMap::new());
    for (row, key) in keys.iter().enumerate() {
        let number = *numbers.entry(identity(key)).or_insert(groups.len());
        if number == groups.len() {
            groups.push((key.clone(), vec![]));
        }
        groups[number].1.push(row);
    }
    groups
}
/// Returns the pairs of rows of a join.
fn joined<K, I: Eq + Hash>(
    left: &[K],
    right: &[K],
    how: How,
    identity: impl Fn(&K) -> I,
) -> Vec<(Option<u32>, Option<u32>)> {
    let mut of_key = HashMap::<I, Vec<u32>>::new();
    (0..).zip(right).for_each(|(row, key)| of_key.entry(identity(key)).or_default().push(row));
    let (mut pairs, mut matched) = (vec![], vec![false; right.len()]);
    for (i, key) in (0..).zip(left) {
        let rows = of_key.get(&identity(key)).map_or(&[][..], Vec::as_slice);
        rows.iter().for_each(|&row| matched[row as usize] = true);
        match how {
            How::Semi => pairs.extend(rows.first().map(|&row| (Some(i), Some(row)))),
            How::Anti if rows.is_empty() => pairs.push((Some(i), None)),
            How::Anti => (),
            _ => pairs.extend(rows.iter().map(|&row| (Some(i), Some(row)))),
        }
        if rows.is_empty() && matches!(how, How::Left | How::Full) {
            pairs.push((Some(i), None));
        }
    }
    if how == How::Full {
        let alone = (0..).zip(matched).filter(|(_, matched)| !matched);
        pairs.extend(alone.map(|(row, _)| (None, Some(row))));
    }
    pairs
}
fn check<K: Keyed + Debug, I: Eq + Hash + Debug>(
    name: &str,
    of: impl Fn(u64) -> K,
    identity: impl Fn(&K) -> I + Copy,
) {
    for device in devices() {
        let mut random = Random(9);
        for (n, world) in [(0, 1), (1, 1), (300, 7), (300, 3000), (4097, 900)] {
            let n = if is_fast(&device) { 3 * n } else { n };
            let place = format!("{name}, {n} of {world} on {}", device.name());
            let keys = (0..n).map(|_| of(random.below(world))).collect::<Vec<_>>();
            let groups = grouped(&keys, identity);
            let counts = count(&device, &keys).unwrap();
            let counts = counts.iter().map(|(key, count)| (identity(key), *count as usize));
            assert!(
                counts.eq(groups.iter().map(|(key, rows)| (identity(key), rows.len()))),
                "{place}"
            );

            let signed = (0..n).map(|_| random.word() as i16).collect::<Vec<_>>();
            let floats = signed.iter().map(|&x| f64::from(x) / 8.0).collect::<Vec<_>>();
            let by = group_by(&device, &keys).unwrap().sum(&signed).unwrap().min(&signed).unwrap();
            let by = by.max(&floats).unwrap().mean(&floats).unwrap().mean(&signed).unwrap();
            assert_eq!((by.len(), by.is_empty()), (groups.len(), n == 0), "{place}");
            assert!(by.keys().iter().map(identity).eq(groups.iter().map(|g| identity(&g.0))));
            let (sums, least, greatest, means, others) = by.results();
            for (i, (key, rows)) in groups.iter().enumerate() {
                assert!(rows.iter().all(|&row| by.ids()[row] as usize == i), "{place}");
                assert_eq!(by.sizes()[i] as usize, rows.len(), "{place}");
                let of_group = || rows.iter().map(|&row| signed[row]);
                let sum = of_group().map(i64::from).sum::<i64>();
                assert_eq!((sums[i], Some(least[i])), (sum, of_group().min()), "{key:?}, {place}");
                let max = of_group().max().map_or(0.0, |x| f64::from(x) / 8.0);
                assert_eq!(greatest[i], max, "{key:?}, {place}");
                // Sums of these are exact.
                let mean = sum as f64 / rows.len() as f64;
                assert_eq!((means[i], others[i]), (sum as f64 / 8.0 / rows.len() as f64, mean));
            }

            let left = (0..n / 2).map(|_| of(random.below(2 * world))).collect::<Vec<_>>();
            for how in [How::Inner, How::Left, How::Right, How::Full, How::Semi, How::Anti] {
                let found = join(&device, &left, &keys, how).unwrap();
                assert_eq!(found.len(), found.iter().len());
                let expected = match how {
                    How::Right => {
                        let swapped = joined(&keys, &left, How::Left, identity);
                        swapped.into_iter().map(|(left, right)| (right, left)).collect()
                    }
                    how => joined(&left, &keys, how, identity),
                };
                assert!(found.iter().eq(expected), "{how:?}, {place}");
            }
        }
    }
}

#[test]
fn columns_of_numbers() {
    check("i32", |i| i as i32 - 3, |key| *key);
    check("u64", |i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15), |key| *key);
    check("(u64, i16)", |i| (i, -(i as i16)), |key| *key);
}
#[test]
fn columns_of_floats() {
    let of = |i| [0.0, -0.0, f32::NAN, -f32::NAN, i as f32, 0.5][i as usize % 6];
    check("f32", of, |key| (!key.is_nan()).then_some((key + 0.0).to_bits()));
}
#[test]
fn columns_of_strings() {
    check("String", |i| "ab".repeat(i as usize % 9) + &(i / 9).to_string(), |key| key.clone());
    const WORDS: [&str; 7] = ["to", "be", "or", "not", "", "\0", "to be"];
    check("&str", |i| WORDS[i as usize % 7], |key| *key);
    check("Vec<u8>", |i| vec![7; i as usize % 5], |key| key.clone());
}
#[test]
fn mistakes_are_told() {
    for device in devices() {
        let e = group_by(&device, &[1, 2, 1]).unwrap().mean(&[1.0, 2.0]).unwrap_err();
        assert!(e.to_string().contains("values") && e.to_string().contains('3'), "{e}");
        let by = group_by(&device, &["x"; 3]).unwrap().reduce::<Sum, _>(&[u64::MAX, 1, 5]).unwrap();
        assert_eq!(by.into_parts(), (vec!["x"], (vec![5],)));
    }
    let Joined { right, .. } = join(&devices()[0], &[1], &[2], How::Left).unwrap();
    assert_eq!(right, [NO_ROW]);
}
/// Columns that several threads number and sort in parts, with few and with many groups.
#[test]
fn many_rows_in_parts() {
    for threads in [1, 3] {
        let device = koel::Device::cpu_with_threads(threads).unwrap();
        let n = 200_000u64;
        for world in [3, 5000, 60_000, u64::MAX] {
            let mut random = Random(world);
            let keys = (0..n).map(|_| random.below(world)).collect::<Vec<_>>();
            let groups = grouped(&keys, |&key| key);
            let values = (0..n as i32).collect::<Vec<_>>();
            let by = group_by(&device, &keys).unwrap().sum(&values).unwrap().mean(&values).unwrap();
            let place = format!("{world} on {threads}");
            assert!(by.keys().iter().eq(groups.iter().map(|group| &group.0)), "{place}");
            let (sums, means) = by.results();
            for (i, (_, rows)) in groups.iter().enumerate() {
                let sum = rows.iter().map(|&row| row as i64).sum::<i64>();
                assert_eq!((sums[i], by.sizes()[i] as usize), (sum, rows.len()), "{place}");
                assert_eq!(means[i], sum as f64 / rows.len() as f64, "{place}");
                assert!(rows.iter().all(|&row| by.ids()[row] as usize == i), "{place}");
            }
            let left = &keys[..1000];
            let right = if world < 5000 { &keys[..5000] } else { &keys };
            let found = join(&device, left, right, How::Left).unwrap();
            assert!(found.iter().eq(joined(left, right, How::Left, |&key| key)), "{place}");
        }
    }
}
/// Sums of floats are the same in every run and with any number of threads.
#[test]
fn sums_have_one_order() {
    let mut random = Random(5);
    let keys = (0..300_000).map(|_| random.below(7)).collect::<Vec<_>>();
    let values = keys.iter().map(|_| random.word() as f32 / 7.0).collect::<Vec<_>>();
    let sums = |threads| {
        let device = koel::Device::cpu_with_threads(threads).unwrap();
        let (_, (sums,)) = group_by(&device, &keys).unwrap().sum(&values).unwrap().into_parts();
        sums
    };
    let expected = sums(1);
    assert!([2, 3, 5].into_iter().all(|threads| sums(threads) == expected));
}

//! Maps to strings against hash maps, on every device: builds by each policy, and batches.
use crate::support::{Random, devices, is_fast};
use koel::{Device, Duplicates, MapOptions, MapToStrings, Outcome, StringMapToStrings};
use std::collections::HashMap;

/// Keys of an arrangement: distinct, in runs, random, or one.
fn numbers(arrangement: usize, n: usize, random: &mut Random) -> Vec<u32> {
    let mut key = |i: usize| match arrangement {
        0 => i as u32,
        1 => i as u32 / 3,
        2 => random.below(n as u64 / 2 + 1) as u32,
        _ => 5,
    };
    (0..n).map(&mut key).collect()
}
fn texts(n: usize, random: &mut Random) -> Vec<String> {
    (0..n).map(|i| "é".repeat(random.below(4) as usize) + &"x".repeat(i % 2 * 9)).collect()
}
type Oracle = HashMap<u32, String>;
/// Applies a batch to an oracle. There are no values if keys are erased.
fn applied(oracle: &mut Oracle, keys: &[u32], values: &[String], assigns: bool) -> Vec<Outcome> {
    let outcome = |(i, key): (usize, &u32)| match values.get(i) {
        None => oracle.remove(key).map_or(Outcome::Missing, |_| Outcome::Erased),
        Some(value) if !oracle.contains_key(key) => {
            oracle.insert(*key, value.clone());
            Outcome::Inserted
        }
        Some(value) if assigns => {
            oracle.insert(*key, value.clone());
            Outcome::Assigned
        }
        Some(_) => Outcome::Kept,
    };
    keys.iter().enumerate().map(outcome).collect()
}
/// Tests one type of keys; `key` makes them of numbers.
macro_rules! tests {
    ($name:ident, $table:ty, $key:expr) => {
        #[test]
        fn $name() {
            let key: fn(u32) -> _ = $key;
            let keys_of = |numbers: &[u32]| numbers.iter().map(|&i| key(i)).collect::<Vec<_>>();
            let check = |map: &$table, oracle: &Oracle, place: &str| {
                let queries = (0..1030).collect::<Vec<_>>();
                let expected = queries.iter().map(|i| oracle.get(i).map(|text| text.as_bytes()));
                let found = map.get(&keys_of(&queries)).unwrap();
                assert!(found.iter().map(Option::as_deref).eq(expected.clone()), "{place}");
                let there = map.contains(&keys_of(&queries)).unwrap();
                assert!(there.into_iter().eq(expected.map(|text| text.is_some())), "{place}");
                assert_eq!(
                    (map.len(), map.is_empty()),
                    (oracle.len(), oracle.is_empty()),
                    "{place}"
                );
            };
            for device in devices() {
                let sizes = if is_fast(&device) { &[0, 1, 31, 32, 33, 1025][..] } else { &[0, 33] };
                for (case, &n) in (0..4).flat_map(|case| sizes.iter().map(move |n| (case, n))) {
                    let mut random = Random(n as u64 + 7);
                    let (all, values) = (numbers(case, n, &mut random), texts(n, &mut random));
                    let place = format!("{n} keys of arrangement {case} on {}", device.name());
                    for duplicates in [Duplicates::KeepLast, Duplicates::KeepFirst] {
                        let options = MapOptions::default().with_duplicates(duplicates);
                        let map = <$table>::build_with(&device, options, &keys_of(&all), &values);
                        let (mut map, mut oracle) = (map.unwrap(), Oracle::new());
                        let assigns = duplicates == Duplicates::KeepLast;
                        applied(&mut oracle, &all, &values, assigns);
                        check(&map, &oracle, &place);
                        assert_eq!(map.duplicates(), n - oracle.len(), "{place}");
                        check(&map.to_device(&Device::cpu().unwrap()).unwrap(), &oracle, &place);
                        // Values are in the order of first occurrence.
                        let firsts =
                            all.iter().enumerate().filter(|(i, key)| !all[..*i].contains(key));
                        let of_ids = firsts.map(|(_, key)| oracle[key].clone()).collect::<Vec<_>>();
                        assert_eq!(map.values().download().unwrap(), of_ids[..], "{place}");
                        for batch in 0..6 {
                            let some = numbers(2, n / 2 + batch, &mut random);
                            let texts = texts(some.len(), &mut random);
                            let keys = keys_of(&some);
                            let (outcomes, expected) = match batch % 3 {
                                0 => (
                                    map.insert(&keys, &texts),
                                    applied(&mut oracle, &some, &texts, false),
                                ),
                                1 => (
                                    map.insert_or_assign(&keys, &texts),
                                    applied(&mut oracle, &some, &texts, true),
                                ),
                                _ => (map.erase(&keys), applied(&mut oracle, &some, &[], false)),
                            };
                            assert_eq!(outcomes.unwrap(), expected, "{place}");
                            check(&map, &oracle, &place);
                        }
                    }
                }
            }
        }
    };
}
tests! { keys_of_32_bits, MapToStrings<u32>, |i| i }
tests! { keys_that_are_converted, MapToStrings<(i16, bool)>, |i| (i as i16 - 9, i % 2 == 0) }
tests! { keys_of_128_bits, MapToStrings<u128>, |i| u128::from(i) << 90 | 1 }
tests! { keys_of_bytes, StringMapToStrings, |i| "k\0".repeat(i as usize % 4) + &i.to_string()[..] }

#[test]
fn wrong_arguments_are_refused() {
    let device = Device::cpu().unwrap();
    let options = MapOptions::default().with_duplicates(Duplicates::Reject);
    let error = MapToStrings::build_with(&device, options, &[-1i8, 3, 4, 3, -1], &[""; 5]);
    let says = "key 3 occurs more than once: at 1 and at 3";
    assert_eq!(error.unwrap_err().to_string(), says);
    let error = StringMapToStrings::build_with(&device, options, &["b", "a", "b"], &[""; 3]);
    let says = "key \"b\" occurs more than once: at 0 and at 2";
    assert_eq!(error.unwrap_err().to_string(), says);
    let mut map = MapToStrings::build_with(&device, options, &[1.5, -0.0], &["x", "y"]).unwrap();
    assert_eq!(map.get(&[0.0]).unwrap(), [Some(b"y".to_vec())]);
    assert!(MapToStrings::build(&device, &[1u8], &["x", "y"]).is_err());
    assert!(map.insert(&[1.0], &["x", "y"]).is_err());
    let error = MapToStrings::build_with(&device, options.with_load(0.1), &[1u8], &["x"]);
    assert!(error.unwrap_err().to_string().contains("0.1"));
    assert_eq!(map.len(), 2);
}

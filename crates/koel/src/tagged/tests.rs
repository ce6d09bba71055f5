use super::*;
use koel_kernels::hash::mix::splitmix_at;
use rayon::iter::ParallelIterator;
use std::collections::HashMap;
use std::fmt::Debug;

/// Factors by which a key is its own hash before that is spread.
const PLAIN: [u64; 2] = [0, 1];

/// Returns the key that has a hash by the [`PLAIN`] factors.
fn key_of_hash(h: u64) -> u64 {
    // Each step doubles the number of correct bits.
    let inverse =
        (0..5).fold(SPREAD, |x, _| x.wrapping_mul(2u64.wrapping_sub(SPREAD.wrapping_mul(x))));
    assert_eq!(inverse.wrapping_mul(SPREAD), 1);
    h.wrapping_mul(inverse)
}

/// Changes a table by operations at random on few keys, against a map of the standard library.
fn check<K: Field + Eq + std::hash::Hash + Debug, V: Field + Debug>(
    factors: [u64; 2],
    key: impl Fn(u64) -> K,
    value: impl Fn(u64) -> V,
) {
    let sizes = [5, 13, 1, 12, 60, 700];
    for &keys in if cfg!(miri) { &sizes[..2] } else { &sizes[..] } {
        let mut table = Tagged::<K, V>::with_factors(factors);
        let mut oracle = HashMap::new();
        for step in 0..12 * keys + 40 {
            let random = splitmix_at(step / 1000, step as u32);
            let (key, value) = (key((random >> 32) % keys), value(random));
            // It grows, then shrinks, and again.
            let inserts = random % 8 < if step / (3 * keys) % 2 == 0 { 6 } else { 2 };
            let change = |_| inserts.then_some(value);
            let before = table.alter(key, change).unwrap();
            let expected = if inserts { oracle.insert(key, value) } else { oracle.remove(&key) };
            let after = table.get(key);
            assert_eq!((before, after), (expected, inserts.then_some(value)), "{key:?}");
            if random >> 8 & 15 == 0 {
                assert_eq!(table.remove(key), oracle.remove(&key));
            }
            assert_eq!(table.len(), oracle.len());
        }
        let asked = (0..keys + 3).map(&key).collect::<Vec<_>>();
        let holds = |table: &Tagged<K, V>, oracle: &HashMap<K, V>| {
            let found = table.get_each(&asked, |key| key, |value| value).unwrap();
            for (key, found) in asked.iter().zip(found) {
                assert_eq!(found, oracle.get(key).copied(), "{key:?} of {keys}");
                assert_eq!(table.get(*key), found);
            }
            assert_eq!(&table.iter().collect::<HashMap<_, _>>(), oracle);
            assert_eq!((table.iter().count(), table.len()), (oracle.len(), oracle.len()));
            // Rayon's queues need another model of borrows.
            if !cfg!(miri) {
                assert!(table.par_iter().collect::<Vec<_>>().into_iter().eq(table.iter()));
            }
        };
        holds(&table, &oracle);
        holds(&table.try_clone().unwrap(), &oracle);
        let more = |i: u64| (key(i * 3 % keys), value(i));
        table.extend((0..2 * keys).map(more)).unwrap();
        oracle.extend((0..2 * keys).map(more));
        holds(&table, &oracle);
        let mut order = vec![];
        table.retain(|key, value| {
            order.push((key, value));
            order.len() % 3 != 0
        });
        order.iter().skip(2).step_by(3).for_each(|(key, _)| _ = oracle.remove(key));
        holds(&table, &oracle);
        table.shrink().unwrap();
        holds(&table, &oracle);
        table.reserve(keys as usize).unwrap();
        let bytes = table.bytes();
        for i in 0..keys {
            table.alter(key(i), |_| Some(value(!i))).unwrap();
            oracle.insert(key(i), value(!i));
        }
        assert_eq!(table.bytes(), bytes, "there was room for {keys}");
        holds(&table, &oracle);
        table.clear();
        holds(&table, &HashMap::new());
        table.shrink().unwrap();
        assert_eq!(table.bytes(), 0);
        holds(&table, &HashMap::new());
    }
}
/// Checks tables of all sizes of keys and values.
fn check_all(factors: [u64; 2], word: impl Fn(u64) -> u64 + Copy) {
    let wide = |i: u64| u128::from(word(i)) << 64 | u128::from(word(!i));
    check(factors, |i| word(i) as u32, |_| ());
    check(factors, |i| word(i) as u32, |i| i as u32);
    check(factors, wide, wide);
    if cfg!(miri) {
        return;
    }
    check(factors, |i| word(i) as u32, |i| i);
    check(factors, |i| word(i) as u32, wide);
    check(factors, word, |_| ());
    check(factors, word, |i| i as u32);
    check(factors, word, |i| i);
    check(factors, word, wide);
    check(factors, wide, |_| ());
    check(factors, wide, |i| i as u32);
}
#[test]
fn tables_hold_what_maps_of_the_standard_library_hold() {
    let factors = Tagged::<u32, u32>::new().factors;
    check_all(factors, |i| i);
    check_all(factors, |i| i << 20);
}
/// Keys of one group, one tag and one class; of all classes; and with equal tags.
#[test]
fn keys_of_one_group_follow_one_another() {
    check_all(PLAIN, key_of_hash);
    check_all(PLAIN, |i| key_of_hash(i << CLASS_SHIFT));
    check_all(PLAIN, |i| key_of_hash(i << GROUP_SHIFT & 3 << GROUP_SHIFT | i));
}
/// Each group overflowed in all classes, and keys are missing: lookups end.
#[test]
fn a_lookup_ends_though_all_groups_overflowed() {
    let mut table = Tagged::<u64, u32>::with_factors(PLAIN);
    table.reserve(24).unwrap();
    assert_eq!(table.groups(), 4);
    for class in 0..8 {
        for group in 0..4 {
            let key = |i: u64| key_of_hash(group << GROUP_SHIFT | class << CLASS_SHIFT | i);
            // Seven fill the group, one overflows; the others make room again.
            (0..8).for_each(|i| _ = table.alter(key(i), |_| Some(1)).unwrap());
            for i in 0..8 {
                table.stale = 0;
                assert_eq!(table.remove(key(i)), Some(1));
            }
        }
    }
    assert!((0..4).all(|group| table.words[group * Slots::<u64, u32>::WORDS] == 0xFF << 56));
    assert!((0..64).all(|key| table.get(key << 50 | key).is_none()));
    // As many removals from such groups as there are groups clear the bits.
    for i in 0..5 {
        table.alter(i, |_| Some(2)).unwrap();
        table.remove(i);
    }
    assert!(table.words.iter().all(|&word| word >> 56 == 0));
}
/// Keys that ascend by steps of any power of two fill the groups as random keys do, nearly: the
/// multiples of some factors are spread less evenly than those of others.
#[test]
fn hashes_spread_keys_of_all_patterns() {
    let mut counts = vec![];
    let (seeds, step) = if cfg!(miri) { (1, 20) } else { (20, 1) };
    for seed in 0..seeds {
        let factors = [splitmix_at(seed, 1), splitmix_at(seed, 2) | 1];
        for shift in (0..50).step_by(step) {
            let mut table = Tagged::<u64, u32>::with_factors(factors);
            table.extend((0..1152).map(|i| (i << shift, 0))).unwrap();
            assert_eq!(table.groups(), 256);
            let classes = (0..256).map(|i| table.words[i * Slots::<u64, u32>::WORDS] >> CLASSES);
            counts.push(classes.filter(|&classes| classes != 0).count());
        }
    }
    let (mean, most) = (counts.iter().sum::<usize>() / counts.len(), counts.iter().max().unwrap());
    // Random keys, 4.5 per group: 27 of 256 groups overflow.
    assert!(mean < 30 && *most < 100, "{mean} of 256 in the mean, {most} at most");
}
/// An iterator may go on after it has ended for the first time.
#[test]
fn an_iterator_that_goes_on_ends_once() {
    let mut left = [Some((3, 4)), None, Some((5, 6))].into_iter();
    let mut table = Tagged::<u32, u32>::new();
    table.extend(std::iter::from_fn(|| left.next().flatten())).unwrap();
    assert!(table.iter().eq([(3, 4)]));
}
#[test]
fn lack_of_memory_leaves_the_table_as_before() {
    let mut table = Tagged::<u32, u32>::new();
    table.extend((0..12).map(|i| (i, i))).unwrap();
    assert!(table.reserve(usize::MAX).is_err() && table.reserve(usize::MAX / 16).is_err());
    assert!((0..12).all(|i| table.get(i) == Some(i)));
    assert_eq!((table.len(), table.groups()), (12, 2));
}

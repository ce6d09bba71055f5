//! Maps and sets that change one key after the other, against those of the standard library.
use koel::{Device, HostMap, HostSet, Key, Map, MapOptions, Set, SetOptions, Value};
use koel_kernels::hash::mix::splitmix_at;
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;

/// A key that a test runs on.
trait TestKey: Key + Hash + Eq + Debug {}
impl<K: Key + Hash + Eq + Debug> TestKey for K {}

/// A map and what it must hold.
struct Checked<K: TestKey, V: Value> {
    map: HostMap<K, V>,
    oracle: HashMap<K, V>,
    name: String,
}
impl<K: TestKey, V: Value + PartialEq + Debug> Checked<K, V> {
    fn change(&mut self, word: u64, key: K, value: V) {
        let Checked { map, oracle, name } = self;
        match word % 8 {
            0 | 1 => {
                assert_eq!(map.insert(key, value).unwrap(), oracle.insert(key, value), "{name}")
            }
            2 | 3 => assert_eq!(map.remove(key), oracle.remove(&key), "{name}"),
            4 => {
                let expected = *oracle.entry(key).or_insert(value);
                assert_eq!(map.entry(key).or_insert(value).unwrap(), expected, "{name}");
            }
            5 => {
                oracle.entry(key).and_modify(|held| *held = value);
                let entry = map.entry(key).and_modify(|held| *held = value);
                assert_eq!(entry.key(), key);
            }
            6 => {
                let change = |held: Option<V>| if held.is_some() { None } else { Some(value) };
                let before = oracle.remove(&key);
                if before.is_none() {
                    oracle.insert(key, value);
                }
                assert_eq!(map.update(key, change).unwrap(), before, "{name}");
            }
            _ => {
                assert_eq!(map.get(key), oracle.get(&key).copied(), "{name}");
                assert_eq!(map.contains_key(key), oracle.contains_key(&key), "{name}");
            }
        }
        assert_eq!(map.len(), oracle.len(), "{name}");
    }
    fn check(&self, asked: &[K]) {
        let Checked { map, oracle, name } = self;
        assert_eq!((map.len(), map.is_empty()), (oracle.len(), oracle.is_empty()), "{name}");
        let iter = map.iter();
        assert_eq!(iter.len(), oracle.len(), "{name}");
        let pairs = iter.collect::<HashMap<_, _>>();
        assert_eq!((map.iter().count(), &pairs), (oracle.len(), oracle), "{name}");
        let found = map.get_many(asked).unwrap();
        for (&key, found) in asked.iter().zip(found) {
            assert_eq!(found, oracle.get(&key).copied(), "{key:?}, {name}");
            assert_eq!(map.get(key), found, "{key:?}, {name}");
        }
        use rayon::iter::ParallelIterator;
        assert_eq!(&map.par_iter().collect::<HashMap<_, _>>(), oracle, "{name}");
        let text = format!("{map:?}");
        assert!(text.contains(&format!("[{} pairs", oracle.len())), "{text}");
    }
}

/// Changes maps of several origins, sizes and loads by operations at random on few keys.
fn check_map<K: TestKey, V: Value + PartialEq + Debug>(
    name: &str,
    key: impl Fn(u64) -> K,
    value: impl Fn(u64) -> V,
) {
    let device = Device::cpu_with_threads(2).unwrap();
    for (n, load) in [(0, 0.8), (1, 0.95), (3, 0.8), (60, 0.95), (2000, 0.5), (2000, 0.95)] {
        let word = |i: usize| splitmix_at(7, i as u32);
        let keys = (0..n).map(|i| key(word(i))).collect::<Vec<_>>();
        let values = (0..n).map(|i| value(!word(i))).collect::<Vec<_>>();
        let options = MapOptions::default().with_load(load).with_seed(3);
        let map = Map::build_with(&device, options, &keys, &values).unwrap().to_host().unwrap();
        let oracle = keys.iter().copied().zip(values).collect();
        let name = format!("{name}, {n} pairs, load {load}");
        let mut checked = Checked { map, oracle, name };
        let range = n.max(40) * 3 / 2;
        let asked = (0..range).map(|i| key(word(i))).collect::<Vec<_>>();
        checked.check(&asked);
        for i in 0..4 * range {
            let random = splitmix_at(8, i as u32);
            let (key, value) = (asked[(random >> 32) as usize % range], value(random));
            // Fewer removals at first, then more: the map grows and empties.
            let word = if i > 2 * range && random & 256 != 0 { 2 } else { random };
            checked.change(word, key, value);
        }
        checked.check(&asked);
        // Grown by batches, and back to a map and again.
        let more = (0..range).map(|i| (asked[i], value(i as u64)));
        checked.map.extend(more.clone());
        checked.oracle.extend(more);
        checked.check(&asked);
        checked.map = checked.map.to_map(&device).unwrap().to_host().unwrap();
        let copy = checked.map.clone();
        assert!(copy == checked.map);
        // Some of those that stay, with the same numbers for both.
        let kept = |key: K| asked.iter().position(|&asked| asked == key).unwrap() % 3 == 1;
        checked.map.retain(|key, _| kept(key));
        checked.oracle.retain(|&key, _| kept(key));
        checked.check(&asked);
        assert_eq!(copy == checked.map, copy.len() == checked.map.len());
        checked.map.shrink_to_fit().unwrap();
        checked.check(&asked);
        checked.map.reserve(range).unwrap();
        let bytes = checked.map.bytes();
        for (i, &key) in asked.iter().enumerate() {
            checked.change(0, key, value(i as u64));
        }
        assert_eq!(checked.map.bytes(), bytes, "there was room: {}", checked.name);
        checked.check(&asked);
        assert!(checked.map == checked.oracle.iter().map(|(&key, &value)| (key, value)).collect());
        checked.map.clear();
        checked.oracle.clear();
        checked.check(&asked);
        checked.change(0, asked[0], value(1));
        checked.check(&asked);
    }
}
#[test]
fn maps_change_one_key_after_the_other() {
    check_map("u32, u32", |word| word as u32, |word| word as u32);
    check_map("i16, f64", |word| word as i16, |word| word as u32 as f64);
    check_map("u64, bool", |word| word, |word| word & 1 != 0);
    check_map("u8, u64", |word| word as u8, |word| word);
    check_map("(u32, char), u64", |word| (word as u32, 'k'), |word| word);
    check_map("u128, u32", |word| u128::from(word) << 60 | 5, |word| word as u32);
    check_map("u8, [u64; 2]", |word| word as u8, |word| [word, 1]);
}
/// Keys chosen against the seed: all share their buckets, or are the ambiguous key.
#[test]
fn keys_of_one_place_change_one_after_the_other() {
    use koel::map::layout::{Layout, Narrow, Wide};
    let crowd = |i: u64| Wide::<u64, u32>::unmixed(3, (7 << 40) | (i % 60));
    check_map("u64 of one hash", crowd, |word| word as u32);
    let last = |i: u64| Narrow::unmixed(3, u32::MAX - (i % 90) as u32);
    check_map("u32 from the ambiguous one", last, |word| word as u32);
    let low = |i: u64| (i as u32) << 20;
    check_map("u32 with equal low bits", low, |word| word);
    check_set("u64 of one hash", crowd);
    check_set("u32 from the ambiguous one", last);
}

fn check_set<K: TestKey>(name: &str, key: impl Fn(u64) -> K) {
    let device = Device::cpu_with_threads(2).unwrap();
    for (n, load) in [(0, 0.8), (1, 0.95), (60, 0.95), (2000, 0.95)] {
        let word = |i: usize| splitmix_at(7, i as u32);
        let range = n.max(40) * 3 / 2;
        let asked = (0..range).map(|i| key(word(i))).collect::<Vec<_>>();
        let options = SetOptions::default().with_load(load).with_seed(3);
        let mut set = Set::build_with(&device, options, &asked[..n]).unwrap().to_host().unwrap();
        let mut oracle = asked[..n].iter().copied().collect::<HashSet<_>>();
        let check = |set: &HostSet<K>, oracle: &HashSet<K>| {
            assert_eq!((set.len(), set.iter().len()), (oracle.len(), oracle.len()), "{name}");
            assert_eq!(&set.iter().collect::<HashSet<_>>(), oracle, "{name}, {n}, {load}");
            let found = asked.iter().map(|&key| set.contains(key)).collect::<Vec<_>>();
            assert_eq!(found, set.contains_many(&asked).unwrap(), "{name}");
            let expected = asked.iter().map(|key| oracle.contains(key));
            assert!(expected.eq(found), "{name}, {n}, {load}");
            use rayon::iter::ParallelIterator;
            assert_eq!(&set.par_iter().collect::<HashSet<_>>(), oracle, "{name}");
        };
        check(&set, &oracle);
        for i in 0..4 * range {
            let random = splitmix_at(8, i as u32);
            let key = asked[(random >> 32) as usize % range];
            if random & 1 != 0 || i > 2 * range && random & 2 != 0 {
                assert_eq!(set.remove(key), oracle.remove(&key), "{name}, {n}, {load}");
            } else {
                assert_eq!(set.insert(key).unwrap(), oracle.insert(key), "{name}, {n}, {load}");
            }
            assert_eq!(set.len(), oracle.len());
        }
        check(&set, &oracle);
        set.extend(asked.iter().copied());
        oracle.extend(asked.iter().copied());
        check(&set, &oracle);
        let copy = set.clone();
        let kept = |key: K| asked.iter().position(|&asked| asked == key).unwrap() % 3 == 1;
        set.retain(kept);
        oracle.retain(|&key| kept(key));
        check(&set, &oracle);
        assert_eq!(copy == set, copy.len() == set.len());
        set.shrink_to_fit().unwrap();
        check(&set, &oracle);
        assert!(set == oracle.iter().copied().collect());
        set.clear();
        check(&set, &HashSet::new());
    }
}
#[test]
fn sets_change_one_key_after_the_other() {
    check_set("u32", |word| word as u32);
    check_set("u64", |word| word);
    check_set("i8", |word| word as i8);
    check_set("u128", |word| u128::from(word) << 60 | 5);
}
/// Removals and insertions in turn: class bits are computed anew, and memory stays.
#[test]
fn a_map_stays_as_large_as_its_pairs_through_churn() {
    let key = |i: u32| splitmix_at(5, i) as u32;
    let mut map = HostMap::from_iter((0..5000).map(|i| (key(i), i)));
    map.reserve(500).unwrap();
    let bytes = map.bytes();
    for i in 0..40_000 {
        assert_eq!(map.remove(key(i)), Some(i));
        assert_eq!(map.insert(key(i + 5000), i + 5000).unwrap(), None);
    }
    assert_eq!(map.len(), 5000);
    assert!(map.bytes() <= bytes * 2, "{} of {bytes}", map.bytes());
    assert!((40_000..45_000).all(|i| map.get(key(i)) == Some(i)));
}
/// A panic of the caller's function leaves a table that counts its entries.
#[test]
fn a_panic_while_pairs_are_removed_leaves_a_whole_map() {
    let mut map = HostMap::from_iter((0u32..1000).map(|key| (key, key)));
    let mut asked = 0;
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        map.retain(|key, _| {
            asked += 1;
            assert!(asked < 500, "in the middle");
            key % 2 == 0
        });
    }));
    assert!(panics.is_err());
    assert_eq!(map.len(), map.iter().count());
    assert!(map.len() < 1000 && map.iter().all(|(key, value)| map.get(key) == Some(value)));
    map.insert(3, 3).unwrap();
    assert_eq!(map.len(), map.iter().count());
}
/// Maps of every device and of files are copied to host memory and back, and stay as they are.
#[test]
fn maps_of_all_devices_are_copied() {
    for device in crate::support::devices() {
        let map = Map::build(&device, &[1u32, 2], &[10u32, 20]).unwrap();
        let set = Set::build(&device, &[1u128, 2]).unwrap();
        let (mut host, mut keys) = (map.to_host().unwrap(), set.to_host().unwrap());
        assert_eq!((host.insert(1, 11).unwrap(), host.insert(3, 30).unwrap()), (Some(10), None));
        assert!(keys.remove(1) && keys.insert(5).unwrap() && keys.len() == 2);
        assert_eq!(map.get(&[1, 3]).unwrap(), [Some(10), None]);
        let back = host.to_map(&device).unwrap();
        assert_eq!(back.get(&[1, 2, 3, 4]).unwrap(), [Some(11), Some(20), Some(30), None]);
        assert_eq!(
            keys.to_set(&device).unwrap().contains(&[1, 2, 5]).unwrap(),
            [false, true, true]
        );
        if device.kind() != koel::DeviceKind::Cpu {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("map");
        map.save(&file).unwrap();
        // SAFETY: nobody changes the file.
        let opened = unsafe { Map::<u32, u32>::open(&file) }.unwrap();
        assert!(opened.to_host().unwrap() == map.to_host().unwrap());
    }
}

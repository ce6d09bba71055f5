//! Keys and values of every type, against a hash map whose keys are told apart in another way.
use crate::support::{devices, is_fast};
use koel::types::{SlotKey, Width};
use koel::{
    Device, DeviceKey, DeviceKind, DeviceValue, Duplicates, Error, Index, IndexBuilder,
    IndexOptions, Key, Map, MapBuilder, MapJoiner, MapOptions, MapUpdater, MultiMap,
    MultiMapBuilder, MultiMapOptions, Operation, Operations, Outcome, Retriever, Set, SetBuilder,
    SetCombiner, SetOperation, SetOptions, SetUpdater, TotalF32, TotalF64, Value, ValueOrder, View,
};
use koel_kernels::hash::mix::splitmix_at;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::io::Cursor;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Returns random words, of which many are small, special or repeated.
fn words(n: usize) -> impl Iterator<Item = u64> {
    const SPECIAL: [u64; 12] = [
        0,
        1,
        u64::MAX,
        u64::MAX - 1,
        1 << 63,
        1 << 31,
        0x8000,
        0x80,
        u32::MAX as u64,
        0x7FC0_0000,
        0xFFC0_0001,
        0x7FF8_0000_0000_0001,
    ];
    (0..n as u32).map(|i| match splitmix_at(7, i) {
        word if word % 5 == 0 => SPECIAL[(word >> 8) as usize % SPECIAL.len()],
        word if word % 5 == 1 => word >> 40 & 0xFF,
        word if word % 5 == 2 => splitmix_at(7, i / 2),
        word => word,
    })
}

/// Checks that keys in memory that are their packed bytes are those, and that packing is undone.
fn check_packing<T: Value + PartialEq + Debug>(all: &[T], name: &str) {
    for value in all {
        let (packed, bytes) = (value.pack(), T::Width::BYTES as usize);
        assert!(bytes == 16 || packed < 1 << (8 * bytes), "{name}: {value:?}");
        assert_eq!(T::unpack(packed), *value, "{name}");
        if bytes < 16 {
            assert_eq!(T::unpack(packed | u128::MAX << (8 * bytes)), *value, "{name}: high bits");
        }
        if T::IN_MEMORY {
            assert_eq!(size_of::<T>(), bytes, "{name}");
            // SAFETY: such types have no padding.
            let memory = unsafe {
                std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), bytes)
            };
            assert_eq!(memory, &packed.to_le_bytes()[..bytes], "{name}: {value:?}");
        }
    }
}

/// Checks maps and sets of keys of a type. `identity` tells keys apart.
fn check_keys<K: Key + Debug, I: Eq + Hash + Debug + Clone>(
    name: &str,
    of: impl Fn(u64) -> K,
    identity: impl Fn(&K) -> I,
) {
    for device in devices() {
        let place = format!("{name} on {}", device.name());
        let n = if is_fast(&device) { 20_000 } else { 700 };
        let keys = words(n).map(&of).collect::<Vec<_>>();
        let (of_table, others) = keys.split_at(n / 2);
        let rows = (0..n as u32 / 2).collect::<Vec<_>>();
        let mut oracle = HashMap::new();
        let mut map = Map::build(&device, of_table, &rows).unwrap();
        for (key, &row) in of_table.iter().zip(&rows) {
            oracle.insert(identity(key), row);
        }
        assert_eq!(map.len().unwrap(), oracle.len(), "{place}");
        let holds = |map: &Map<K, u32>, oracle: &HashMap<I, u32>| {
            let found = map.get(&keys).unwrap();
            let is_there = map.contains(&keys).unwrap();
            for ((key, found), is_there) in keys.iter().zip(found).zip(is_there) {
                let expected = oracle.get(&identity(key)).copied();
                assert_eq!((found, is_there), (expected, expected.is_some()), "{key:?}, {place}");
            }
            let pairs = map.pairs().unwrap();
            assert_eq!(pairs.len(), oracle.len(), "{place}");
            for (key, row) in pairs {
                assert_eq!(oracle.get(&identity(&key)), Some(&row), "{key:?}, {place}");
            }
        };
        holds(&map, &oracle);

        let mut joined = map.join(others).unwrap();
        joined.sort_unstable();
        let expected = (0..).zip(others);
        let expected = expected.filter_map(|(i, key)| Some((i, *oracle.get(&identity(key))?)));
        assert!(joined.into_iter().eq(expected), "{place}");
        let (kept, missing) = (map.semi_join(others).unwrap(), map.anti_join(others).unwrap());
        assert_eq!(kept.len() + missing.len(), others.len(), "{place}");
        assert!(kept.iter().all(|key| oracle.contains_key(&identity(key))), "{place}");
        assert!(missing.iter().all(|key| !oracle.contains_key(&identity(key))), "{place}");
        assert_eq!(map.count(others).unwrap() as usize, kept.len(), "{place}");

        let new = vec![77; others.len()];
        let outcomes = map.insert(others, &new).unwrap();
        for (key, outcome) in others.iter().zip(outcomes) {
            let before = oracle.len();
            oracle.entry(identity(key)).or_insert(77);
            let expected = if oracle.len() > before { Outcome::Inserted } else { Outcome::Kept };
            assert_eq!(outcome, expected, "{key:?}, {place}");
        }
        let erased = &keys[n / 4..n / 3];
        map.erase(erased).unwrap();
        erased.iter().for_each(|key| _ = oracle.remove(&identity(key)));
        holds(&map, &oracle);

        let options = MapOptions::default().with_duplicates(Duplicates::KeepFirst);
        let firsts = Map::build_with(&device, options, of_table, &rows).unwrap();
        let (again, first) = (firsts.get(of_table).unwrap(), &mut HashMap::new());
        for ((key, &row), found) in of_table.iter().zip(&rows).zip(again) {
            let expected = *first.entry(identity(key)).or_insert(row);
            assert_eq!(found, Some(expected), "{key:?}, {place}");
        }

        let identities = |keys: &[K]| keys.iter().map(&identity).collect::<HashSet<_>>();
        let mut set = Set::build(&device, of_table).unwrap();
        assert_eq!(identities(&set.keys().unwrap()), identities(of_table), "{place}");
        assert_eq!(set.len().unwrap(), identities(of_table).len(), "{place}");
        set.insert(others).unwrap();
        assert_eq!(set.len().unwrap(), identities(&keys).len(), "{place}");
        set.erase(of_table).unwrap();
        let left = &identities(others) - &identities(of_table);
        assert_eq!(identities(&set.keys().unwrap()), left, "{place}");
        for (key, found) in keys.iter().zip(set.contains(&keys).unwrap()) {
            assert_eq!(found, left.contains(&identity(key)), "{key:?}, {place}");
        }
        let difference = koel::set::difference(&device, others, of_table).unwrap();
        assert_eq!(identities(&difference), left, "{place}");
        assert_eq!(difference.len(), left.len(), "{place}");
        let distinct = koel::set::unique(&device, &keys).unwrap();
        assert_eq!(distinct.len(), identities(&keys).len(), "{place}");
    }
}
/// Checks maps of values of a type.
fn check_values<V: Value + PartialEq + Debug>(name: &str, of: impl Fn(u64) -> V) {
    for device in devices() {
        let place = format!("{name} on {}", device.name());
        let n = if is_fast(&device) { 20_000 } else { 700 };
        let values = words(n).map(&of).collect::<Vec<_>>();
        check_packing(&values, name);
        let keys = (0..n as i64).map(|i| i * 3 - 500).collect::<Vec<_>>();
        let mut map = Map::build(&device, &keys, &values).unwrap();
        let some = values.iter().map(|&value| Some(value)).collect::<Vec<_>>();
        assert_eq!(map.get(&keys).unwrap(), some, "{place}");
        assert_eq!(map.get(&[0, -499]).unwrap(), [None, None], "{place}");
        for (key, value) in map.pairs().unwrap() {
            assert_eq!(value, values[(key + 500) as usize / 3], "{place}");
        }
        let reversed = values.iter().rev().copied().collect::<Vec<_>>();
        map.insert_or_assign(&keys, &reversed).unwrap();
        for (row, value) in map.join(&keys).unwrap() {
            assert_eq!(value, reversed[row as usize], "{place}");
        }
    }
}

/// Checks indexes, whose ids follow the column. `identity` tells keys apart.
fn check_index<K: Key + Debug, I: Eq + Hash + Debug>(
    name: &str,
    of: impl Fn(u64) -> K,
    identity: impl Fn(&K) -> I,
) {
    for device in devices() {
        let n = if is_fast(&device) { 20_000 } else { 700 };
        for n in [0, 1, 255, 256, 257, n] {
            let place = format!("{n} of {name} on {}", device.name());
            let keys = words(n).map(&of).collect::<Vec<_>>();
            let mut oracle = HashMap::new();
            let ids = keys.iter().map(|key| {
                let next = oracle.len() as u32;
                *oracle.entry(identity(key)).or_insert(next)
            });
            let expected = ids.collect::<Vec<_>>();
            let (index, ids) = Index::encode(&device, &keys).unwrap();
            assert_eq!((index.len(), &ids), (oracle.len(), &expected), "{place}");
            let index = [index, Index::build(&device, &keys).unwrap()];
            let strange = (0..50).map(|i| of(splitmix_at(8, i))).collect::<Vec<_>>();
            for index in index {
                let asked = [&keys[..], &strange].concat();
                let found = asked.iter().map(|key| oracle.get(&identity(key)).copied());
                assert_eq!(index.ids(&asked).unwrap(), found.collect::<Vec<_>>(), "{place}");
                for (key, id) in index.keys().unwrap().iter().zip(0..) {
                    assert_eq!(oracle[&identity(key)], id, "{key:?}, {place}");
                }
                let back = index.keys_of(&[&ids[..], &[index.len() as u32]].concat()).unwrap();
                let back = back.iter().map(|key| key.as_ref().map(&identity));
                assert!(back.eq(keys.iter().map(|key| Some(identity(key))).chain([None])));
                let moved = index.to_device(&Device::cpu().unwrap()).unwrap();
                assert!(moved.ids(&keys).unwrap().into_iter().flatten().eq(ids.iter().copied()));
            }
        }
    }
}
/// Checks counts of groups, and multimaps, whose ids follow the order of the keys. `rank` compares
/// as keys do.
fn check_order<K: SlotKey + Debug, R: Ord + Debug + Clone>(
    name: &str,
    of: impl Fn(u64) -> K,
    rank: impl Fn(&K) -> R,
) {
    for device in devices() {
        let place = format!("{name} on {}", device.name());
        let n = if is_fast(&device) { 20_000 } else { 700 };
        let keys = words(n).map(&of).collect::<Vec<_>>();
        let mut oracle = BTreeMap::<R, Vec<i32>>::new();
        for (i, key) in (0..).zip(&keys) {
            assert_eq!(rank(&K::of_ordered(key.ordered())), rank(key), "{key:?}, {place}");
            oracle.entry(rank(key)).or_default().push(-i);
        }
        let ranks = |keys: Vec<K>| keys.iter().map(&rank).collect::<Vec<_>>();
        let expected = oracle.keys().cloned().collect::<Vec<_>>();
        let counts = koel::group_counts(&device, &keys).unwrap();
        let counts = counts.into_iter().map(|(key, count)| (rank(&key), count as usize));
        assert!(counts.eq(oracle.iter().map(|(r, of)| (r.clone(), of.len()))), "{place}");

        let values = (0..n as i32).map(|i| -i).collect::<Vec<_>>();
        let map = MultiMap::build(&device, &keys, &values).unwrap();
        assert_eq!(ranks(map.index().keys().unwrap()), expected, "{place}");
        assert!(map.values().unwrap().iter().eq(oracle.values().flatten()), "{place}");
        let found = map.retrieve(&keys).unwrap();
        let counts = map.counts(&keys).unwrap();
        for (i, key) in keys.iter().enumerate() {
            assert_eq!(found.of(i), oracle[&rank(key)], "{key:?}, {place}");
            assert_eq!(counts[i] as usize, oracle[&rank(key)].len(), "{key:?}, {place}");
        }
    }
}
/// Checks what tables ask of a type of keys: two have the same bits in canonical form, and the same
/// number that compares, if and only if they are the same key. `identity` tells keys apart.
fn check_bits<K: Key + Debug, I: Eq + Debug>(
    name: &str,
    of: impl Fn(u64) -> K,
    identity: impl Fn(&K) -> I,
) {
    let keys = words(2000).map(&of).collect::<Vec<_>>();
    for key in &keys {
        let canonical = key.canonical();
        assert_eq!(identity(&canonical), identity(key), "{name}: {key:?}");
        assert_eq!(canonical.canonical().pack(), canonical.pack(), "{name}: {key:?}");
        assert!(!K::IS_CANONICAL || canonical.pack() == key.pack(), "{name}: {key:?}");
        assert_eq!(identity(&K::of_ordered(key.ordered())), identity(key), "{name}: {key:?}");
    }
    for pair in keys.windows(2).map(|pair| [&pair[0], &pair[1]]).chain([[&keys[0]; 2]]) {
        let same = identity(pair[0]) == identity(pair[1]);
        let [a, b] = pair.map(|key| (key.canonical().pack(), key.ordered()));
        assert_eq!((a.0 == b.0, a.1 == b.1), (same, same), "{name}: {pair:?}");
        assert!(!K::IS_ORDERED || a.0.cmp(&b.0) == a.1.cmp(&b.1), "{name}: {pair:?}");
    }
}
/// Tests a type as a key that is equal to another if it is `==`, and as a value: its bits, and with
/// `in tables` every kind of table. A type adds nothing to tables but its bits, so that some types
/// of each width and form stand for all.
macro_rules! plain {
    ($($test:ident: $type:ty $(, $in_tables:ident)? = $of:expr;)+) => {
        $(
            #[test]
            fn $test() {
                let of: fn(u64) -> $type = $of;
                check_packing(&words(2000).map(of).collect::<Vec<_>>(), stringify!($type));
                check_bits(stringify!($type), of, |key| *key);
                $($in_tables!(stringify!($type), of);)?
            }
        )+
    };
}
/// Checks a type of up to 8 bytes in tables.
macro_rules! narrow {
    ($name:expr, $of:expr) => {
        check_keys($name, $of, |key| *key);
        check_index($name, $of, |key| *key);
        check_order($name, $of, |key| *key);
        check_values($name, $of);
    };
}
/// Checks a type of more than 8 bytes in tables.
macro_rules! wide {
    ($name:expr, $of:expr) => {
        check_keys($name, $of, |key| *key);
        check_index($name, $of, |key| *key);
        check_values($name, $of);
    };
}
plain! {
    bytes: u8 = |word| word as u8;
    short: i16, narrow = |word| word as i16;
    signed: i32 = |word| word as i32;
    signed_of_64_bits: i64, narrow = |word| word as i64;
    sizes: usize = |word| word as usize;
    truths: bool, narrow = |word| word & 1 != 0;
    letters: char = |word| char::from_u32(word as u32 % 0x0011_0000).unwrap_or('?');
    addresses: Ipv4Addr = |word| Ipv4Addr::from_bits(word as u32);
    pairs_of_words: (u32, u32) = |word| (word as u32, (word >> 32) as u32);
    padded_tuples: (u8, i32, u16), narrow = |word| (word as u8, word as i32, (word >> 48) as u16);
    nested: ((i8, bool), [u8; 2], u8) =
        |word| ((word as i8, word >> 9 & 1 != 0), [word as u8, (word >> 8) as u8], word as u8);
    one_field: (i64,) = |word| (word as i64,);
    arrays: [u16; 3], narrow = |word| [word as u16, (word >> 16) as u16, (word >> 32) as u16];
    whole_arrays: [i16; 4] = |word| std::array::from_fn(|i| (word >> (16 * i)) as i16);
    cells: Cell, narrow =
        |word| Cell { x: word as i16, y: (word >> 16) as i16, level: (word >> 60) as u8 };
    many_fields: Eight = |word| {
        let byte = |i: u32| (word >> (8 * i)) as u8;
        Eight(byte(0), byte(1) as i8, byte(2), byte(3), byte(4), byte(5), byte(6), byte(7) > 127)
    };
    generic: Tagged<i32> = |word| Tagged { tag: word as u8, of: word as i32 };
    numbers_of_128_bits: u128, wide = |word| (word as u128) << 64 | word as u128;
    signed_of_128_bits: i128, wide = |word| word as i64 as i128 * 0x1_0000_0001;
    addresses_of_128_bits: Ipv6Addr =
        |word| Ipv6Addr::from_bits((word as u128) << 77 | word as u128);
    times: Duration = |word| Duration::new(word >> 20, word as u32 % 1_000_000_000);
    uuids: uuid::Uuid = |word| uuid::Uuid::from_u128((word as u128) << 60 | word as u128);
    nine_bytes: (u64, u8) = |word| (word, word as u8 & 1);
    pairs_of_long_words: [i64; 2] = |word| [word as i64, 5];
    twelve_bytes: [i32; 3], wide = |word| [word as i32, 7, (word >> 32) as i32];
    sixteen_bytes: [u8; 16] = |word| std::array::from_fn(|i| (word >> (i % 8 * 8)) as u8);
    six_fields: (u8, u16, u32, i8, bool, char) = |word| {
        let letter = char::from_u32((word >> 7) as u32 % 0x0011_0000).unwrap_or('?');
        (word as u8, (word >> 8) as u16, (word >> 32) as u32, word as i8, word & 1 != 0, letter)
    };
    wide_structs: Wide, wide =
        |word| Wide { id: word, of: Cell { x: 1, y: word as i16, level: 3 }, last: -1 };
}
#[derive(koel::Key, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Wide {
    id: u64,
    of: Cell,
    last: i16,
}
#[test]
fn wide_floats_are_grouped_as_in_sql() {
    let of = |word: u64| [float(word), float(word.rotate_left(9))];
    check_keys("[f64; 2]", of, |key| key.map(of_number));
    check_index("[f64; 2]", of, |key| key.map(of_number));
    check_values("[f32; 3]", |word| [word as u8 as f32, 0.5, -0.0]);
}
/// Wide tables in files, which know their types; the file of a map with narrow keys and wide
/// values.
#[test]
fn files_of_wide_types() {
    let device = Device::cpu().unwrap();
    let keys = [(5u32, -1i16), (5, 1), (7, 0)];
    let map = Map::build(&device, &keys, &[[1.5f32, 2.0, 3.0], [0.0; 3], [9.0; 3]]).unwrap();
    let mut bytes = Cursor::new(vec![]);
    map.save_to(&mut bytes).unwrap();
    let back = Map::<(u32, i16), [f32; 3]>::load_bytes(&device, bytes.get_ref()).unwrap();
    assert_eq!(back.get(&keys).unwrap(), map.get(&keys).unwrap());
    let e = Map::<(u32, i16), [f64; 2]>::load_bytes(&device, bytes.get_ref()).unwrap_err();
    let said = "(u32, i16) -> [f32; 3], expected (u32, i16) -> [f64; 2]";
    assert!(e.to_string().contains(said), "{e}");
    assert!(Map::<u32, u32>::load_bytes(&device, bytes.get_ref()).is_err());
    let set = Set::build(&device, &[u128::MAX, 0]).unwrap();
    let mut bytes = Cursor::new(vec![]);
    set.save_to(&mut bytes).unwrap();
    let back = Set::<u128>::load_bytes(&device, bytes.get_ref()).unwrap();
    assert_eq!(back.contains(&[0, 1, u128::MAX]).unwrap(), [true, false, true]);
    assert!(Set::<i128>::load_bytes(&device, bytes.get_ref()).is_err());
    let (index, ids) = Index::encode(&device, &[(1.5f64, -1i16), (0.5, 3), (1.5, -1)]).unwrap();
    let mut bytes = Cursor::new(vec![]);
    index.save_to(&mut bytes).unwrap();
    let back = Index::<(f64, i16)>::load_bytes(&device, bytes.get_ref()).unwrap();
    assert_eq!(back.keys_of(&ids).unwrap(), index.keys_of(&ids).unwrap());
    assert!(Index::<u128>::load_bytes(&device, bytes.get_ref()).is_err());
}
/// Tables that cannot be asked to be reproducible.
#[test]
fn limits_of_wide_types_are_told() {
    let device = Device::cpu().unwrap();
    let options = MapOptions::default().with_reproducible(true);
    let e = Map::build_with(&device, options, &[1u128], &[1u32]).unwrap_err();
    assert!(e.to_string().contains("reproducible"), "{e}");
}
/// Buffers of 16 bytes.
#[test]
fn buffers_of_wide_types() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let keys = (0..1000u64).map(|i| [i, i * i]).collect::<Vec<_>>();
        let values = (0..1000).map(|i| i as f32).collect::<Vec<_>>();
        let map = Map::build(&device, &keys, &values).unwrap();
        let staged = device.upload(&[[3u64, 9], [3, 10], [999, 999 * 999]]).unwrap();
        let mut found = device.alloc(3).unwrap();
        map.get_or_into(&stream, staged.view(), found.view_mut(), -1.0).unwrap();
        assert_eq!(found.download().unwrap(), [3.0, -1.0, 999.0], "{}", device.name());
        let mut flags = device.alloc(3).unwrap();
        map.contains_into(&stream, staged.view(), flags.view_mut()).unwrap();
        assert_eq!(flags.download().unwrap(), [1, 0, 1], "{}", device.name());
        let (mut all, mut of_all) = (device.alloc(1000).unwrap(), device.alloc(1000).unwrap());
        let mut count = device.alloc(1).unwrap();
        map.export_into(&stream, all.view_mut(), of_all.view_mut(), count.view_mut()).unwrap();
        assert_eq!(all.download().unwrap(), keys, "{}", device.name());
        assert_eq!(
            (of_all.download().unwrap(), count.download().unwrap()),
            (values.clone(), vec![1000])
        );
    }
}

/// Has a byte of padding.
#[derive(koel::Key, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Cell {
    x: i16,
    y: i16,
    level: u8,
}
#[derive(koel::Key, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Eight(u8, i8, u8, u8, u8, u8, u8, bool);
#[derive(koel::Key, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Tagged<T> {
    tag: u8,
    of: T,
}
/// Has no `Debug` and no `PartialEq`: neither is needed.
#[derive(koel::Key, Clone, Copy)]
struct Voxel {
    xyz: [i16; 3],
    level: u16,
}
#[derive(koel::Value, Clone, Copy, PartialEq, Debug)]
struct Sample {
    weight: f32,
    count: u16,
}

/// Returns a float of these bits, as often as not a zero or NaN.
fn float(word: u64) -> f64 {
    match word % 7 {
        0 => 0.0,
        1 => -0.0,
        2 => f64::from_bits(0x7FF0_0000_0000_0001 | word << 1),
        3 => f64::from_bits(0xFFF8_0000_0000_0000 | word >> 13),
        4 => f64::INFINITY,
        5 => (word >> 60) as f64 * 0.5 - 3.0,
        _ => f64::from_bits(word),
    }
}
/// Returns `None` for NaN, the same bits for equal numbers.
fn of_number(x: f64) -> Option<u64> {
    if x.is_nan() { None } else { Some(if x == 0.0 { 0 } else { x.to_bits() }) }
}
#[test]
fn floats_are_grouped_as_in_sql() {
    check_keys("f64", float, |&x| of_number(x));
    check_bits("f64", float, |&x| of_number(x));
    check_bits("f32", |word| float(word) as f32, |&x| of_number(x.into()));
    let pair = |word| (float(word) as f32, word as u8 & 3);
    check_bits("(f32, u8)", pair, |&(x, tag)| (of_number(x.into()), tag));
    let both = |word: u64| [float(word) as f32, float(word.rotate_left(9)) as f32];
    check_keys("[f32; 2]", both, |key| key.map(|x| of_number(x.into())));
}
/// Numbers by value, NaN last.
#[test]
fn floats_are_ordered() {
    let rank = |x: f64| Total(if x.is_nan() { f64::NAN } else { x + 0.0 });
    check_order("f64", float, |&x| rank(x));
    check_order("TotalF64", |word| TotalF64(float(word)), |key| Total(key.0));
    let pair = |word| (float(word) as f32, word as i8 & 3);
    check_order("(f32, i8)", pair, |&(x, tag)| (rank(x.into()), tag));
}
/// A number that compares as by `total_cmp`.
#[derive(Clone, Copy, Debug)]
struct Total(f64);
impl PartialEq for Total {
    fn eq(&self, other: &Total) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Total {}
impl PartialOrd for Total {
    fn partial_cmp(&self, other: &Total) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Total {
    fn cmp(&self, other: &Total) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
#[test]
fn floats_by_bits() {
    check_keys("TotalF64", |word| TotalF64(float(word)), |key| key.0.to_bits());
    check_bits("TotalF64", |word| TotalF64(float(word)), |key| key.0.to_bits());
    check_bits("TotalF32", |word| TotalF32(float(word) as f32), |key| key.0.to_bits());
}
/// Values keep every bit: -0.0 and the payload of NaN.
#[test]
fn floats_as_values() {
    check_values("TotalF64", |word| TotalF64(float(word)));
    check_values("f32", |word| (word >> 40) as f32);
    check_values("Sample", |word| Sample { weight: word as f32, count: word as u16 });
    let device = Device::cpu().unwrap();
    let map = Map::build(&device, &[1, 2], &[-0.0, f64::from_bits(0x7FF8_0000_0000_1234)]).unwrap();
    let found = map.get(&[1, 2]).unwrap().into_iter().flatten().map(f64::to_bits);
    assert!(found.eq([1 << 63, 0x7FF8_0000_0000_1234]));
}
#[test]
fn structs_need_no_more_than_copy() {
    let device = Device::cpu().unwrap();
    let voxels = [[1, 2, 3], [-1, -2, -3]].map(|xyz| Voxel { xyz, level: 1 });
    let map = Map::build(&device, &voxels, &[10, 20]).unwrap();
    assert_eq!(map.get(&voxels[1..]).unwrap(), [Some(20)]);
    assert!(map.pairs().unwrap().iter().any(|(voxel, _)| voxel.xyz == [-1, -2, -3]));
    let lowered = Voxel { level: 0, ..voxels[0] };
    assert!(!map.contains(&[lowered]).unwrap()[0]);
}

/// The first programs of new users.
#[test]
fn first_programs() {
    let device = Device::cpu().unwrap();
    let map = Map::build(&device, &[1, 2, 3], &[2, 3, 4]).unwrap();
    assert_eq!(map.get(&[2]).unwrap(), [Some(3)]);
    let map: Map<i64, f32> = Map::build(&device, &[-1, 5], &[0.5, 1.5]).unwrap();
    assert_eq!(map.get(&[-1]).unwrap(), [Some(0.5)]);
    let set: Set<char> = Set::build(&device, &['k', 'o', 'e', 'l']).unwrap();
    assert_eq!(set.contains(&['o', 'x']).unwrap(), [true, false]);
    let set: Set<f64> = Set::build(&device, &[0.0, -0.0, f64::NAN]).unwrap();
    assert_eq!(set.contains(&[-0.0, -f64::NAN, 1.0]).unwrap(), [true, true, false]);
}

/// Buffers of types that are stored as they are.
fn check_on_device<K: DeviceKey + PartialEq + Debug, V: DeviceValue + PartialEq + Debug>(
    name: &str,
    key: impl Fn(u64) -> K,
    value: impl Fn(u64) -> V,
) {
    for device in devices() {
        let place = format!("{name} on {}", device.name());
        let stream = device.stream().unwrap();
        let n = if is_fast(&device) { 5000 } else { 500 };
        let (keys, values): (Vec<_>, Vec<_>) =
            (0..n).map(|i| (key(i * 2), value(i.wrapping_mul(0x9E37_79B9_7F4A_7C15)))).unzip();
        let queries = (0..n).map(|i| key(n + i)).collect::<Vec<_>>();
        let (on_keys, on_values, on_queries) = (
            device.upload(&keys).unwrap(),
            device.upload(&values).unwrap(),
            device.upload(&queries).unwrap(),
        );
        let mut builder = MapBuilder::new(&device, MapOptions::default()).unwrap();
        let mut map = builder.build(&stream, on_keys.view(), on_values.view()).unwrap();
        builder.rebuild(&mut map, &stream, on_keys.view(), on_values.view()).unwrap();
        let zero = device.upload(&vec![value(0); n as usize]).unwrap();
        let (mut found, mut flags) = (zero, device.alloc::<u8>(n as usize).unwrap());
        map.get_into(&stream, on_queries.view(), found.view_mut(), flags.view_mut()).unwrap();
        let (answers, flags) = (found.download().unwrap(), flags.download().unwrap());
        for (i, query) in queries.iter().enumerate() {
            let expected = keys.iter().position(|key| key == query).map(|at| values[at]);
            let answer = (flags[i] != 0).then_some(answers[i]);
            assert_eq!(answer, expected, "{query:?}, {place}");
        }
        let missing = value(99);
        map.get_or_into(&stream, on_queries.view(), found.view_mut(), missing).unwrap();
        for (answer, flag) in found.download().unwrap().into_iter().zip(&flags) {
            assert!(*flag != 0 || answer == missing, "{place}");
        }
        let mut joiner = MapJoiner::new(&device).unwrap();
        let (mut kept, mut count) =
            (device.alloc::<K>(n as usize).unwrap(), device.alloc(1).unwrap());
        let to = kept.view_mut();
        joiner.semi_join_into(&stream, &map, on_queries.view(), to, count.view_mut()).unwrap();
        let rows = count.download().unwrap()[0] as usize;
        assert_eq!(rows, flags.iter().filter(|flag| **flag != 0).count(), "{place}");
        let kept = kept.view().slice(..rows).unwrap().download().unwrap();
        assert!(kept.iter().all(|key| keys.contains(key)), "{place}");

        let mut updater = MapUpdater::new(&device, MapOptions::default()).unwrap();
        let mut outcomes = device.alloc::<u8>(n as usize).unwrap();
        let insert = Operations::All(Operation::Insert);
        let (of_keys, of_values) = (on_queries.view(), on_values.view());
        updater.apply(&mut map, &stream, insert, of_keys, of_values, outcomes.view_mut()).unwrap();
        assert_eq!(map.len().unwrap(), n as usize + n as usize / 2, "{place}");

        let mut set =
            SetBuilder::new(&device, SetOptions::default()).unwrap().build(&stream, on_keys.view());
        let set = set.as_mut().unwrap();
        let erase = Operations::All(SetOperation::Erase);
        let mut updater = SetUpdater::new(&device, SetOptions::default()).unwrap();
        updater.apply(set, &stream, erase, of_keys, outcomes.view_mut()).unwrap();
        assert_eq!(set.len().unwrap(), n as usize / 2, "{place}");
    }
}
/// Combines arrays of such keys.
fn check_combined<K: DeviceKey + SlotKey>(key: impl Fn(u64) -> K) {
    for device in devices() {
        let (stream, n) = (device.stream().unwrap(), 500);
        let [keys, others] = [0, 250].map(|first| (first..first + n).map(&key).collect::<Vec<_>>());
        let (keys, others) = (device.upload(&keys).unwrap(), device.upload(&others).unwrap());
        let mut combiner = SetCombiner::new(&device).unwrap();
        let mut output = device.alloc::<K>(2 * n as usize).unwrap();
        let mut count = device.alloc(1).unwrap();
        let (to, of_count) = (output.view_mut(), count.view_mut());
        combiner.union_into(&stream, keys.view(), others.view(), to, of_count).unwrap();
        assert_eq!(count.download().unwrap()[0], n + 250, "{}", device.name());
    }
}
#[test]
fn buffers_of_other_types() {
    check_on_device("i64, f32", |i| i as i64 - 700, |word| (word >> 40) as f32);
    check_on_device("[u32; 2], i32", |i| [i as u32, !i as u32], |word| word as i32);
    check_on_device("[i16; 2], [f32; 2]", |i| [i as i16, 5], |word| [word as u8 as f32, 1.0]);
    check_on_device("f32, u8", |i| i as f32 - 700.5, |word| word as u8);
    check_on_device("u16, [u8; 3]", |i| i as u16, |word| [word as u8, 7, !word as u8]);
    check_on_device("[u8; 3], f32", |i| [i as u8, 9, (i >> 8) as u8], |word| word as u8 as f32);
    check_on_device("[f32; 2], i16", |i| [-1.5, i as f32], |word| word as i16);
    check_combined(|i| i as i64 - 700);
    check_combined(|i| [i as i16, 5]);
    check_combined(|i| i as f32 - 700.5);
    check_combined(|i| i as i16);
    check_combined(|i| [i as u8, (i >> 8) as u8, 3]);
}
#[test]
fn buffers_of_wide_keys_and_values() {
    check_on_device("[u64; 2], f32", |i| [!i, i], |word| (word >> 40) as f32);
    check_on_device(
        "i128, [f32; 4]",
        |i| i as i128 - 700,
        |word| [word as u8 as f32, 1.0, -0.0, 2.0],
    );
    check_on_device("[u8; 16], i64", |i| (u128::from(i) << 77).to_be_bytes(), |word| word as i64);
    check_on_device("[f32; 3], [u8; 9]", |i| [0.5, i as f32, -1.0], |word| [word as u8; 9]);
    // Keys of 2 and 4 bytes are stored as 16, since their values have more than 8.
    check_on_device("i16, [u64; 2]", |i| i as i16, |word| [word, 5]);
    check_on_device("f32, u128", |i| i as f32 - 700.5, |word| u128::from(word) << 60);
}
/// Indexes and multimaps of buffers are those of slices.
fn check_groups_on_device<K: DeviceKey + PartialEq + Debug, V: DeviceValue + PartialEq + Debug>(
    name: &str,
    key: impl Fn(u64) -> K,
    value: impl Fn(u64) -> V,
) {
    for device in devices() {
        let (place, stream) = (format!("{name} on {}", device.name()), device.stream().unwrap());
        let n = if is_fast(&device) { 5000 } else { 400 };
        let keys = words(n).map(&key).collect::<Vec<_>>();
        let values = words(n).map(&value).collect::<Vec<_>>();
        let (on_keys, on_values) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        let (expected, expected_ids) = Index::encode(&device, &keys).unwrap();
        let mut ids = device.alloc::<u32>(n).unwrap();
        let mut builder = IndexBuilder::<K>::new(&device, IndexOptions::default()).unwrap();
        let index = builder.encode(&stream, on_keys.view(), ids.view_mut()).unwrap();
        let distinct = expected.keys().unwrap();
        assert_eq!(index.keys().unwrap(), distinct, "{place}");
        assert_eq!(ids.download().unwrap(), expected_ids, "{place}");
        let mut again = device.alloc::<u32>(n).unwrap();
        index.ids_into(&stream, on_keys.view(), again.view_mut()).unwrap();
        assert_eq!(again.download().unwrap(), expected_ids, "{place}");
        let numbers = (0..=distinct.len() as u32).rev().collect::<Vec<_>>();
        let (asked, missing) = (device.upload(&numbers).unwrap(), key(77));
        let mut of_ids = device.alloc::<K>(numbers.len()).unwrap();
        index.keys_of_into(&stream, asked.view(), of_ids.view_mut(), missing).unwrap();
        let reversed = std::iter::once(missing).chain(distinct.iter().rev().copied());
        let of_ids = of_ids.download().unwrap();
        assert!(of_ids.into_iter().eq(reversed), "{place}");

        let expected = MultiMap::build(&device, &keys, &values).unwrap();
        let mut builder =
            MultiMapBuilder::<K, V>::new(&device, MultiMapOptions::default()).unwrap();
        let map = builder.build(&stream, on_keys.view(), on_values.view()).unwrap();
        assert_eq!(map.values().unwrap(), expected.values().unwrap(), "{place}");
        map.counts_into(&stream, on_keys.view(), again.view_mut()).unwrap();
        assert_eq!(again.download().unwrap(), expected.counts(&keys).unwrap(), "{place}");
        let asked = distinct.iter().rev().copied().collect::<Vec<_>>();
        let found = expected.retrieve(&asked).unwrap();
        let mut retriever = Retriever::new(&device, asked.len()).unwrap();
        let on_asked = device.upload(&asked).unwrap();
        retriever.find(&stream, &map, on_asked.view()).unwrap();
        let mut all = device.alloc::<V>(n).unwrap();
        retriever.values_into(&stream, &map, all.view_mut()).unwrap();
        assert_eq!(all.download().unwrap(), found.values, "{place}");
    }
}
/// Values of more than 8 bytes go where their keys go, whichever order is asked for.
#[test]
fn multimaps_hold_wide_values() {
    for device in devices() {
        // Enough pairs for a partition by hash on a GPU.
        let n = if is_fast(&device) { 300_000 } else { 700 };
        let keys = (0..n as u32).map(|i| i.wrapping_mul(0x9E37_79B9) % (n as u32 / 3));
        let keys = keys.collect::<Vec<_>>();
        let values = (0..n as u64).map(|i| [i, !i]).collect::<Vec<_>>();
        let mut rows = HashMap::<u32, Vec<[u64; 2]>>::new();
        for (key, value) in keys.iter().zip(&values) {
            rows.entry(*key).or_default().push(*value);
        }
        for order in [ValueOrder::Input, ValueOrder::Any] {
            let options = MultiMapOptions::default().with_order(order);
            let map = MultiMap::build_with(&device, options, &keys, &values).unwrap();
            let asked = map.index().keys().unwrap();
            assert_eq!(asked.len(), rows.len(), "{}", device.name());
            let mut found = map.retrieve(&asked).unwrap();
            assert_eq!(found.values, map.values().unwrap(), "{}", device.name());
            for (i, key) in asked.iter().enumerate() {
                let (start, end) = (found.offsets[i] as usize, found.offsets[i + 1] as usize);
                if order == ValueOrder::Any {
                    found.values[start..end].sort();
                }
                assert_eq!(found.of(i), rows[key], "{order:?}, {}", device.name());
            }
        }
    }
}
/// Sorted counts of buffers are those of slices.
fn check_counts_on_device<K: DeviceKey + SlotKey + PartialEq + Debug>(key: impl Fn(u64) -> K) {
    for device in devices() {
        let (stream, keys) = (device.stream().unwrap(), words(500).map(&key).collect::<Vec<_>>());
        let mut builder = IndexBuilder::<K>::new(&device, IndexOptions::default()).unwrap();
        let on_keys = device.upload(&keys).unwrap();
        let (distinct, counts) = builder.group_counts(&stream, on_keys.view()).unwrap();
        let found = distinct.download().unwrap().into_iter().zip(counts.download().unwrap());
        assert!(found.eq(koel::group_counts(&device, &keys).unwrap()), "{}", device.name());
    }
}
#[test]
fn groups_of_buffers_of_every_type() {
    check_groups_on_device("i32, u8", |word| word as i32, |word| word as u8);
    check_groups_on_device("i64, f32", |word| word as i64, |word| word as u16 as f32);
    check_groups_on_device("u8, u64", |word| word as u8, |word| word);
    check_groups_on_device("i16, i128", |word| word as i16, |word| i128::from(word as i64));
    check_groups_on_device(
        "TotalF32, u32",
        |word| TotalF32(f32::from_bits(word as u32)),
        |word| word as u32,
    );
    check_groups_on_device("[i8; 3], u32", |word| [word as i8, 0, -1], |word| word as u32);
    check_groups_on_device(
        "i128, [f32; 3]",
        |word| i128::from(word as i64),
        |word| [word as u8 as f32; 3],
    );
    check_counts_on_device(|word| word as i32);
    check_counts_on_device(|word| word as u16);
    check_counts_on_device(|word| [word as i8, -1, 0]);
}
/// Zeros are one key and NaN are one key in buffers, too, as keys and as queries.
#[test]
fn floats_in_buffers_are_canonical() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let odd = f32::from_bits(0xFFC0_1234);
        let floats = [0.0, -0.0, f32::NAN, odd, -1.5, -f32::NAN, f32::MIN_POSITIVE / 2.0];
        let keys = device.upload(&floats).unwrap();
        let mut builder = SetBuilder::new(&device, SetOptions::default()).unwrap();
        let set = builder.build(&stream, keys.view()).unwrap();
        assert_eq!(set.len().unwrap(), 4, "{}", device.name());
        let mut found = device.alloc::<u8>(floats.len()).unwrap();
        set.contains_into(&stream, keys.view(), found.view_mut()).unwrap();
        assert_eq!(found.download().unwrap(), [1; 7], "{}", device.name());
        let mut index = IndexBuilder::<f64>::new(&device, IndexOptions::default()).unwrap();
        let keys = device.upload(&[-0.0, f64::NAN, 0.0, -f64::NAN, -2.0]).unwrap();
        let mut ids = device.alloc(5).unwrap();
        let index = index.encode(&stream, keys.view(), ids.view_mut()).unwrap();
        assert_eq!(ids.download().unwrap(), [0, 1, 0, 1, 2], "{}", device.name());
        let keys = index.keys().unwrap();
        assert!(keys[0].to_bits() == 0 && keys[1].is_nan() && keys[2] == -2.0, "{keys:?}");
        // The same with two floats a key.
        let pairs = device.upload(&[[-0.0f32, f32::NAN], [0.0, odd], [1.0, -0.0]]).unwrap();
        let mut builder = SetBuilder::new(&device, SetOptions::default()).unwrap();
        let set = builder.build(&stream, pairs.view()).unwrap();
        assert_eq!(set.len().unwrap(), 2, "{}", device.name());
    }
}
/// Outputs that an operation does not write stay as they are, whatever their type.
#[test]
fn exports_of_converted_types_leave_the_rest() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let map = Map::build(&device, &[7u16, 9], &[1u8, 2]).unwrap();
        let (mut keys, mut values) =
            (device.upload(&[5u16; 4]).unwrap(), device.upload(&[5u8; 3]).unwrap());
        let mut count = device.alloc(1).unwrap();
        map.export_into(&stream, keys.view_mut(), values.view_mut(), count.view_mut()).unwrap();
        let mut keys = keys.download().unwrap();
        keys[..2].sort();
        assert_eq!(keys, [7, 9, 5, 5], "{}", device.name());
        assert_eq!(values.download().unwrap()[2], 5, "{}", device.name());
        assert_eq!(count.download().unwrap(), [2], "{}", device.name());
    }
}
/// Nothing is converted if there is nothing.
#[test]
fn no_elements_are_converted() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (keys, values) = (device.alloc::<f32>(0).unwrap(), device.alloc::<u8>(0).unwrap());
        let mut builder = MapBuilder::new(&device, MapOptions::default()).unwrap();
        let map = builder.build(&stream, keys.view(), values.view()).unwrap();
        let (mut found, mut flags) = (device.alloc(0).unwrap(), device.alloc(0).unwrap());
        map.get_into(&stream, keys.view(), found.view_mut(), flags.view_mut()).unwrap();
        assert!(map.is_empty().unwrap(), "{}", device.name());
    }
}
/// A conversion allocates, which a graph cannot hold.
#[test]
fn conversions_are_not_captured() {
    for device in devices().into_iter().filter(|device| device.kind() != DeviceKind::Cpu) {
        let stream = device.stream().unwrap();
        let map = Map::build(&device, &[0.5f32], &[1u32]).unwrap();
        let (keys, count) = (device.upload(&[0.5f32]).unwrap(), device.alloc(1).unwrap());
        let captured = stream.capture((keys, count), move |stream, (keys, count)| {
            map.count_into(stream, keys.view(), count.view_mut())
        });
        let e = captured.map(drop).unwrap_err().to_string();
        assert!(e.contains("allocates"), "{e}");
    }
}
/// What keys in rows cannot do is an error with names.
#[test]
fn builders_of_wide_types_tell_limits() {
    let device = Device::cpu().unwrap();
    let options = MapOptions::default().with_reproducible(true);
    let e = MapBuilder::<u128, u32>::new(&device, options).err().unwrap();
    assert!(matches!(&e, Error::Setting { field: "reproducible", .. }), "{e}");
    let e =
        MapUpdater::<u128, u32>::new(&device, MapOptions::default().with_load(0.99)).unwrap_err();
    assert!(matches!(&e, Error::Setting { field: "load", .. }), "{e}");
}
/// Elements of 2 bytes may lie where no element of 4 bytes may: then they are converted.
#[test]
fn addresses_need_no_alignment_for_bits() {
    for device in devices().into_iter().filter(|device| device.kind() != DeviceKind::Cuda) {
        let stream = device.stream().unwrap();
        let halves = device.upload(&[[1u16, 2]; 9]).unwrap();
        let map = Map::build(&device, &[[1u16, 2], [2, 1]], &[5u32, 6]).unwrap();
        let mut count = device.alloc(1).unwrap();
        // SAFETY: inside of the buffer.
        let odd = unsafe { View::from_raw(&device, halves.address() + 2, 8) }.unwrap();
        map.count_into(&stream, odd, count.view_mut()).unwrap();
        assert_eq!(count.download().unwrap(), [8], "{}", device.name());
        // In host memory the same keys are copied instead.
        let memory = [0u16, 1, 2, 1, 2, 9, 9, 1];
        for start in 0..2 {
            let (keys, _) = memory[start..].as_chunks::<2>();
            let expected = keys.iter().map(|key| match *key {
                [1, 2] => Some(5),
                [2, 1] => Some(6),
                _ => None,
            });
            assert!(map.get(keys).unwrap().into_iter().eq(expected));
        }
    }
}
/// Saved tables come back as the types that they were, and as no others.
fn check_files<K: SlotKey + PartialEq + Debug, V: Value + PartialEq + Debug>(
    keys: &[K],
    values: &[V],
    name: &str,
) {
    for device in devices() {
        let saved = |table: &dyn Fn(&mut Cursor<Vec<u8>>) -> koel::Result<()>| {
            let mut bytes = Cursor::new(vec![]);
            table(&mut bytes).unwrap();
            bytes.into_inner()
        };
        let map = Map::build(&device, keys, values).unwrap();
        let bytes = saved(&|to| map.save_to(to));
        let back = Map::<K, V>::load_bytes(&device, &bytes).unwrap();
        assert_eq!(back.get(keys).unwrap(), map.get(keys).unwrap(), "{name}");
        let e = Map::<u32, u32>::load_bytes(&device, &bytes).unwrap_err();
        assert!(e.to_string().contains(&format!("holds pairs {name}, expected u32 -> u32")), "{e}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.koel");
        map.save(&path).unwrap();
        let info = koel::file::info(&path).unwrap();
        assert_eq!((info.version, info.meaning.to_string()), (2, name.to_string()));
        // SAFETY: nobody changes the file.
        let opened = unsafe { Map::<K, V>::open(&path) }.unwrap();
        assert_eq!(opened.get(keys).unwrap(), map.get(keys).unwrap(), "{name}");

        let set = Set::build(&device, keys).unwrap();
        let bytes = saved(&|to| set.save_to(to));
        let back = Set::<K>::load_bytes(&device, &bytes).unwrap();
        assert_eq!(back.contains(keys).unwrap(), vec![true; keys.len()], "{name}");
        assert!(Set::<u32>::load_bytes(&device, &bytes).is_err());
        let index = Index::build(&device, keys).unwrap();
        let bytes = saved(&|to| index.save_to(to));
        let back = Index::<K>::load_bytes(&device, &bytes).unwrap();
        assert_eq!(back.keys().unwrap(), index.keys().unwrap(), "{name}");
        assert_eq!(back.ids(keys).unwrap(), index.ids(keys).unwrap(), "{name}");
        let map = MultiMap::build(&device, keys, values).unwrap();
        let bytes = saved(&|to| map.save_to(to));
        let back = MultiMap::<K, V>::load_bytes(&device, &bytes).unwrap();
        assert_eq!(back.retrieve(keys).unwrap().values, map.retrieve(keys).unwrap().values);
        assert!(MultiMap::<u64, V>::load_bytes(&device, &bytes).is_err());
    }
}
#[test]
fn files_know_types() {
    check_files(&[-1i32, 5, -7], &[0.5f32, 1.0, -0.0], "i32 -> f32");
    check_files(&[0.5f64, -0.0, 7.0], &[1i8, 2, 3], "f64 -> i8");
    check_files(&['a', 'z'], &[[1u16, 2, 3], [4, 5, 6]], "char -> [u16; 3]");
    let cells = [Cell { x: 1, y: -1, level: 0 }, Cell { x: 1, y: -1, level: 1 }];
    check_files(&cells, &[(true, 'x'), (false, 'y')], "(i16, i16, u8) -> (bool, char)");
    // Numbers without a sign are in files of version 1, and `usize` is `u64` there.
    let device = Device::cpu().unwrap();
    let mut bytes = Cursor::new(vec![]);
    Map::build(&device, &[1usize, 2], &[3u32, 4]).unwrap().save_to(&mut bytes).unwrap();
    assert_eq!(bytes.get_ref()[8], 1);
    let map = Map::<u64, u32>::load_bytes(&device, bytes.get_ref()).unwrap();
    assert_eq!(map.get(&[2]).unwrap(), [Some(4)]);
}
/// Only integers are added.
#[test]
fn floats_are_not_added_as_bits() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let mut map = Map::build(&device, &[1u32, 2], &[0.5f32, 1.5]).unwrap();
        let refused = |e: Error| {
            assert!(matches!(&e, Error::Setting { field: "operations", .. }), "{e}");
            assert!(e.to_string().contains("f32"), "{e}");
        };
        refused(map.update(&[Operation::InsertOrAdd], &[1], &[0.25]).unwrap_err());
        map.update(&[Operation::InsertOrAssign, Operation::Erase], &[1, 2], &[0.25, 0.0]).unwrap();
        assert_eq!(map.get(&[1, 2]).unwrap(), [Some(0.25), None]);
        let mut updater = MapUpdater::new(&device, MapOptions::default()).unwrap();
        let (keys, values) = (device.upload(&[1u32]).unwrap(), device.upload(&[1f32]).unwrap());
        let (mut outcomes, each) = (device.alloc::<u8>(1).unwrap(), device.upload(&[2u8]).unwrap());
        for operations in [Operations::All(Operation::InsertOrAdd), Operations::Each(each.view())] {
            let (keys, values) = (keys.view(), values.view());
            let to = outcomes.view_mut();
            refused(updater.apply(&mut map, &stream, operations, keys, values, to).unwrap_err());
        }
        let mut sums = Map::build(&device, &[true, false], &[-5i8, 100]).unwrap();
        sums.insert_or_add(&[true, false, false], &[3, 27, 1]).unwrap();
        assert_eq!(sums.get(&[true, false]).unwrap(), [Some(-2), Some(-128)]);
    }
}

/// Lookups of one key after the other find what lookups of many find.
fn check_host<K: Key + Debug, V: Value + PartialEq + Debug>(
    name: &str,
    key: impl Fn(u64) -> K,
    value: impl Fn(u64) -> V,
) {
    let device = Device::cpu_with_threads(2).unwrap();
    for n in [0, 1, 7, 3000] {
        let keys = words(n).map(&key).collect::<Vec<_>>();
        let values = words(n).map(|word| value(!word)).collect::<Vec<_>>();
        // As full as can be: second buckets and a stash.
        for load in [0.5, 0.95] {
            let options = MapOptions::default().with_load(load).with_seed(5);
            let mut map = Map::build_with(&device, options, &keys, &values).unwrap();
            let options = SetOptions::default().with_load(load).with_seed(5);
            let set = Set::build_with(&device, options, &keys).unwrap();
            let asked = words(2 * n + 20).map(&key).collect::<Vec<_>>();
            let check = |map: &Map<K, V>| {
                let (expected, host) = (map.get(&asked).unwrap(), map.host().unwrap());
                for (&key, expected) in asked.iter().zip(expected) {
                    assert_eq!(host.get(key), expected, "{key:?}, {name}, {n}, {load}");
                    assert_eq!(host.contains_key(key), expected.is_some(), "{key:?}, {name}");
                }
            };
            check(&map);
            let host = set.host().unwrap();
            let found = asked.iter().map(|&key| host.contains(key));
            assert!(found.eq(set.contains(&asked).unwrap()), "{name}, {n}, {load}");
            map.erase(&keys[..n / 2]).unwrap();
            check(&map);
        }
    }
}
#[test]
fn one_key_after_the_other_is_found_in_host_memory() {
    check_host("u32, u32", |word| word as u32, |word| word as u32);
    check_host("i16, f64", |word| word as i16, |word| word as u32 as f64);
    check_host("u64, bool", |word| word, |word| word & 1 != 0);
    check_host("f32, u8", |word| f32::from_bits(word as u32), |word| word as u8);
    check_host("(u32, char), u64", |word| (word as u32, 'k'), |word| word);
    check_host("u128, u32", |word| u128::from(word) << 60 | 5, |word| word as u32);
    check_host("u8, [u64; 2]", |word| word as u8, |word| [word, 1]);
    for device in devices().into_iter().filter(|device| device.kind() != DeviceKind::Cpu) {
        let map = Map::build(&device, &[1u32], &[2u32]).unwrap();
        let e = map.host().map(drop).unwrap_err().to_string();
        assert!(e.contains("`map` is on") && e.contains("CPU"), "{e}");
        let set = Set::build(&device, &[1u128]).unwrap();
        assert!(set.host().is_err());
        assert_eq!(map.to_device(&Device::cpu().unwrap()).unwrap().host().unwrap().get(1), Some(2));
    }
}

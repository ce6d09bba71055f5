//! Checks of multimaps and indexes: their answers must equal those of a `HashMap` of vectors.
use koel::groups::reduction::{Max, Min, Sum};
use koel::types::{KeyBits, ValueBits};
use koel::{
    Device, IndexBuilder, IndexOptions, MultiMap, MultiMapBuilder, MultiMapOptions, ValueOrder,
};
use std::collections::HashMap;
use std::fmt::Debug;
use std::io::Cursor;

use crate::script::{self, Header};

/// Maximum number of pairs; more are cut off.
const MAX_KEYS: usize = 20_000;

/// Reads the bytes as a header, followed by runs of equal or consecutive keys of its alphabet.
pub fn check(bytes: &[u8]) {
    let Some((header, rest)) = script::read_header(bytes) else { return };
    match header.types {
        0 => run::<u32, u32>(&header, rest),
        1 => run::<u32, u64>(&header, rest),
        2 => run::<u64, u32>(&header, rest),
        _ => run::<u64, u64>(&header, rest),
    }
}
/// Returns the keys: `header.keys` different ones, then a run for each two bytes, of one key or of
/// consecutive keys.
fn keys<K: KeyBits>(header: &Header, alphabet: &[K], rest: &[u8]) -> Vec<K> {
    let mut keys =
        (0..header.keys as u32).map(|i| K::narrowed(script::word(i))).collect::<Vec<K>>();
    for &[first, how] in rest.as_chunks().0 {
        // Up to 8,128 pairs per key.
        let count = if how & 64 != 0 { usize::from(how & 63) << 7 } else { usize::from(how & 63) };
        let step = how >> 7;
        keys.extend((0..count).map(|i| alphabet[usize::from(first.wrapping_add(step * i as u8))]));
    }
    keys.truncate(MAX_KEYS);
    keys
}

/// Values that can be reduced.
trait Reduced: ValueBits + Debug {
    /// Returns the sum, minimum and maximum of each key's values.
    fn reductions<K: KeyBits>(map: &MultiMap<K, Self>) -> [Vec<u64>; 3];
}
macro_rules! reduced { ($($value:ty)*) => { $(
    impl Reduced for $value {
        fn reductions<K: KeyBits>(map: &MultiMap<K, Self>) -> [Vec<u64>; 3] {
            let words = |values: Vec<$value>| values.into_iter().map(u64::from).collect();
            let (least, greatest) = (map.reduce::<Min>().unwrap(), map.reduce::<Max>().unwrap());
            [map.reduce::<Sum>().unwrap(), words(least), words(greatest)]
        }
    }
)* } }
reduced!(u32 u64);

fn run<K: KeyBits + Debug, V: Reduced>(header: &Header, rest: &[u8]) {
    let alphabet = script::alphabet::<K, u32>(header.seed);
    let keys = keys(header, &alphabet, rest);
    let values = (0..keys.len()).map(|i| V::narrowed(script::word(!i as u32))).collect::<Vec<V>>();
    let mut oracle = HashMap::<K, Vec<V>>::new();
    keys.iter().zip(&values).for_each(|(&key, &value)| oracle.entry(key).or_default().push(value));
    script::on_devices(header, keys.len(), |device| {
        index(device, header, &keys, &alphabet, &oracle);
        let order = if header.reproducible { ValueOrder::Input } else { ValueOrder::Any };
        let options = MultiMapOptions::default()
            .with_load(header.load)
            .with_seed(header.seed)
            .with_order(order);
        let (k, v) = (device.stage(&keys).unwrap(), device.stage(&values).unwrap());
        let mut builder = MultiMapBuilder::new(device, options).unwrap();
        let map = builder.build(&device.stream().unwrap(), k.view(), v.view()).unwrap();
        compare(&map, &oracle, &alphabet, order);
        let mut bytes = Cursor::new(vec![]);
        map.save_to(&mut bytes).unwrap();
        compare(
            &MultiMap::load_bytes(device, &bytes.into_inner()).unwrap(),
            &oracle,
            &alphabet,
            order,
        );
    });
}
/// Checks an index of the keys, and the number of occurrences of each.
fn index<K: KeyBits + Debug, V>(
    device: &Device,
    header: &Header,
    keys: &[K],
    alphabet: &[K],
    oracle: &HashMap<K, Vec<V>>,
) {
    let options = IndexOptions::default().with_load(header.load).with_seed(header.seed);
    let mut builder = IndexBuilder::new(device, options).unwrap();
    let (stream, keys) = (device.stream().unwrap(), device.stage(keys).unwrap());
    let (index, counts) = builder.build_counted(&stream, keys.view()).unwrap();
    let counts = counts.download().unwrap();
    assert_eq!((index.len(), counts.len()), (oracle.len(), oracle.len()));
    let ids = index.ids(alphabet).unwrap();
    for (key, id) in alphabet.iter().zip(&ids) {
        assert_eq!(
            id.map(|id| counts[id as usize] as usize),
            oracle.get(key).map(Vec::len),
            "{key:?}"
        );
    }
    let of_ids =
        index.keys_of(&ids.iter().map(|id| id.unwrap_or(u32::MAX)).collect::<Vec<_>>()).unwrap();
    let expected = alphabet.iter().zip(ids).map(|(&key, id)| id.map(|_| key)).collect::<Vec<_>>();
    assert_eq!(of_ids, expected);
}
fn compare<K: KeyBits + Debug, V: Reduced>(
    map: &MultiMap<K, V>,
    oracle: &HashMap<K, Vec<V>>,
    alphabet: &[K],
    order: ValueOrder,
) {
    assert_eq!((map.len(), map.index().len()), (oracle.values().map(Vec::len).sum(), oracle.len()));
    let of = |key: &K| oracle.get(key).map_or(&[][..], Vec::as_slice);
    let counts = alphabet.iter().map(|key| of(key).len() as u32).collect::<Vec<_>>();
    assert_eq!(map.counts(alphabet).unwrap(), counts);
    let word = |value: &V| Into::<u64>::into(*value);
    let sorted = |values: &[V]| {
        let mut words = values.iter().map(word).collect::<Vec<_>>();
        if order == ValueOrder::Any {
            words.sort_unstable();
        }
        words
    };
    let found = map.retrieve(alphabet).unwrap();
    for (i, key) in alphabet.iter().enumerate() {
        assert_eq!(sorted(found.of(i)), sorted(of(key)), "values of {key:?}");
    }
    let [sums, least, greatest] = V::reductions(map);
    let keys = map.index().keys_view().download().unwrap();
    for (id, key) in keys.iter().enumerate() {
        let values = of(key).iter().map(word);
        let sum = values.clone().fold(0, u64::wrapping_add);
        assert_eq!(
            (sums[id], Some(least[id]), Some(greatest[id])),
            (sum, values.clone().min(), values.max())
        );
    }
}

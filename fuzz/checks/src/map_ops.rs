//! Checks of maps and their updates: after every batch, outcomes and lookups must equal those of a
//! `HashMap`.
use koel::types::{KeyBits, ValueBits};
use koel::{
    Device, Duplicates, Map, MapBuilder, MapOptions, MapUpdater, Operation, Operations, Outcome,
};
use std::collections::HashMap;
use std::fmt::Debug;
use std::io::Cursor;

use crate::script::{self, Header, Step};

const OPERATIONS: [Operation; 4] =
    [Operation::Insert, Operation::InsertOrAssign, Operation::InsertOrAdd, Operation::Erase];

/// Runs the bytes as a script.
pub fn check(bytes: &[u8]) {
    let Some((header, batches)) = script::read(bytes) else { return };
    match header.types {
        0 => script::run::<World<u32, u32>>(&header, &batches),
        1 => script::run::<World<u32, u64>>(&header, &batches),
        2 => script::run::<World<u64, u32>>(&header, &batches),
        _ => script::run::<World<u64, u64>>(&header, &batches),
    }
}
struct World<K: KeyBits, V: ValueBits> {
    alphabet: Vec<K>,
    map: Map<K, V>,
    updater: MapUpdater<K, V>,
    oracle: HashMap<K, V>,
}
impl<K: KeyBits + Debug, V: ValueBits + Debug> script::World for World<K, V> {
    fn new(device: &Device, header: &Header) -> Self {
        let alphabet = script::alphabet::<K, V>(header.seed);
        let of_number = |i: usize| {
            alphabet.get(2 * i).copied().unwrap_or_else(|| K::narrowed(script::word(i as u32)))
        };
        let keys = (0..header.keys).map(of_number).collect::<Vec<K>>();
        let values =
            (0..header.keys).map(|i| V::narrowed(script::word(!i as u32))).collect::<Vec<V>>();
        let options = MapOptions::default()
            .with_load(header.load)
            .with_duplicates(Duplicates::KeepLast)
            .with_seed(header.seed)
            .with_reproducible(header.reproducible);
        let (k, v) = (device.stage(&keys).unwrap(), device.stage(&values).unwrap());
        let mut builder = MapBuilder::new(device, options).unwrap();
        let map = builder.build(&device.stream().unwrap(), k.view(), v.view()).unwrap();
        let updater = MapUpdater::new(device, options).unwrap();
        World { alphabet, map, updater, oracle: keys.into_iter().zip(values).collect() }
    }
    fn shrink(&mut self, load: f64) {
        self.map.shrink_to(load).unwrap();
    }
    fn reread(&mut self) {
        let mut bytes = Cursor::new(vec![]);
        self.map.save_to(&mut bytes).unwrap();
        self.map = Map::load_bytes(self.map.device(), &bytes.into_inner()).unwrap();
    }
    fn update(&mut self, all: Option<u8>, steps: &[Step], grows: bool) {
        let World { alphabet, map, updater, oracle } = self;
        let (device, stream) = (map.device().clone(), map.device().stream().unwrap());
        let operation_of = |step: &Step| OPERATIONS[usize::from(all.unwrap_or(step.operation))];
        let keys = steps.iter().map(|step| alphabet[usize::from(step.key)]).collect::<Vec<_>>();
        let values = steps.iter().map(|step| V::narrowed(step.value)).collect::<Vec<_>>();
        let codes = steps.iter().map(|step| operation_of(step) as u8).collect::<Vec<_>>();
        let (k, v, codes) = (
            device.stage(&keys).unwrap(),
            device.stage(&values).unwrap(),
            device.stage(&codes).unwrap(),
        );
        let mut outcomes = device.alloc::<u8>(steps.len()).unwrap();
        let operations = match all {
            Some(code) => Operations::All(OPERATIONS[usize::from(code)]),
            None => Operations::Each(codes.view()),
        };
        let on = (k.view(), v.view(), outcomes.view_mut());
        match grows {
            true => updater.apply(map, &stream, operations, on.0, on.1, on.2).unwrap(),
            false => updater.enqueue(map, &stream, operations, on.0, on.1, on.2).unwrap(),
        }
        stream.synchronize().unwrap();
        let outcomes = outcomes.download().unwrap();
        let room_needed =
            oracle.len() + keys.iter().filter(|key| !oracle.contains_key(key)).count();
        script::compare_outcomes(&outcomes, &keys, (grows, room_needed), |i, key| {
            apply(oracle, operation_of(&steps[i]), key, values[i])
        });
    }
    fn compare(&self) {
        let World { alphabet, map, oracle, .. } = self;
        assert_eq!(map.len().unwrap(), oracle.len());
        let expected = alphabet.iter().map(|key| oracle.get(key).copied()).collect::<Vec<_>>();
        assert_eq!(map.get(alphabet).unwrap(), expected);
        let there = expected.iter().map(Option::is_some).collect::<Vec<_>>();
        assert_eq!(
            map.count(alphabet).unwrap(),
            there.iter().filter(|&&there| there).count() as u64
        );
        assert_eq!(map.contains(alphabet).unwrap(), there);
    }
    fn compare_all(&self) {
        let sorted = |mut pairs: Vec<(K, V)>| {
            pairs.sort_unstable_by_key(|&(key, _)| Into::<u64>::into(key));
            pairs
        };
        let expected = self.oracle.iter().map(|(&key, &value)| (key, value)).collect();
        assert_eq!(sorted(self.map.pairs().unwrap()), sorted(expected));
    }
}
fn apply<K: KeyBits, V: ValueBits>(
    oracle: &mut HashMap<K, V>,
    operation: Operation,
    key: K,
    value: V,
) -> Outcome {
    let Some(before) = oracle.get(&key).copied() else {
        if operation == Operation::Erase {
            return Outcome::Missing;
        }
        oracle.insert(key, value);
        return Outcome::Inserted;
    };
    let sum = V::narrowed(Into::<u64>::into(before).wrapping_add(value.into()));
    match operation {
        Operation::Insert => Outcome::Kept,
        Operation::InsertOrAssign => {
            oracle.insert(key, value);
            Outcome::Assigned
        }
        Operation::InsertOrAdd => {
            oracle.insert(key, sum);
            Outcome::Added
        }
        Operation::Erase => {
            oracle.remove(&key);
            Outcome::Erased
        }
    }
}

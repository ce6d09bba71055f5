//! Checks of sets and their updates: after every batch, outcomes and lookups must equal those of a
//! `HashSet`.
use koel::types::KeyBits;
use koel::{Device, Operations, Outcome, Set, SetBuilder, SetOperation, SetOptions, SetUpdater};
use std::collections::HashSet;
use std::fmt::Debug;
use std::io::Cursor;

use crate::script::{self, Header, Step};

const OPERATIONS: [SetOperation; 2] = [SetOperation::Insert, SetOperation::Erase];

/// Runs the bytes as a script.
pub fn check(bytes: &[u8]) {
    let Some((header, batches)) = script::read(bytes) else { return };
    match header.types & 1 {
        0 => script::run::<World<u32>>(&header, &batches),
        _ => script::run::<World<u64>>(&header, &batches),
    }
}
fn operation(code: u8) -> SetOperation {
    OPERATIONS[usize::from(code & 1)]
}

struct World<K: KeyBits> {
    alphabet: Vec<K>,
    set: Set<K>,
    updater: SetUpdater<K>,
    oracle: HashSet<K>,
}
impl<K: KeyBits + Debug> script::World for World<K> {
    fn new(device: &Device, header: &Header) -> Self {
        // Sets mix their keys as maps do.
        let alphabet = script::alphabet::<K, u32>(header.seed);
        let of_number = |i: usize| {
            alphabet.get(2 * i).copied().unwrap_or_else(|| K::narrowed(script::word(i as u32)))
        };
        let keys = (0..header.keys).map(of_number).collect::<Vec<K>>();
        let options = SetOptions::default().with_load(header.load).with_seed(header.seed);
        let k = device.stage(&keys).unwrap();
        let set = SetBuilder::new(device, options)
            .unwrap()
            .build(&device.stream().unwrap(), k.view())
            .unwrap();
        let updater = SetUpdater::new(device, options).unwrap();
        World { alphabet, set, updater, oracle: keys.into_iter().collect() }
    }
    fn shrink(&mut self, load: f64) {
        self.set.shrink_to(load).unwrap();
    }
    fn reread(&mut self) {
        let mut bytes = Cursor::new(vec![]);
        self.set.save_to(&mut bytes).unwrap();
        self.set = Set::load_bytes(self.set.device(), &bytes.into_inner()).unwrap();
    }
    fn update(&mut self, all: Option<u8>, steps: &[Step], grows: bool) {
        let World { alphabet, set, updater, oracle } = self;
        let (device, stream) = (set.device().clone(), set.device().stream().unwrap());
        let operation_of = |step: &Step| operation(all.unwrap_or(step.operation));
        let keys = steps.iter().map(|step| alphabet[usize::from(step.key)]).collect::<Vec<_>>();
        let codes = steps.iter().map(|step| operation_of(step) as u8).collect::<Vec<_>>();
        let (k, codes) = (device.stage(&keys).unwrap(), device.stage(&codes).unwrap());
        let mut outcomes = device.alloc::<u8>(steps.len()).unwrap();
        let operations = match all {
            Some(code) => Operations::All(operation(code)),
            None => Operations::Each(codes.view()),
        };
        match grows {
            true => updater.apply(set, &stream, operations, k.view(), outcomes.view_mut()).unwrap(),
            false => {
                updater.enqueue(set, &stream, operations, k.view(), outcomes.view_mut()).unwrap()
            }
        }
        stream.synchronize().unwrap();
        let outcomes = outcomes.download().unwrap();
        let room_needed = oracle.len() + keys.iter().filter(|&key| !oracle.contains(key)).count();
        script::compare_outcomes(
            &outcomes,
            &keys,
            (grows, room_needed),
            |i, key| match operation_of(&steps[i]) {
                SetOperation::Insert if oracle.insert(key) => Outcome::Inserted,
                SetOperation::Insert => Outcome::Kept,
                SetOperation::Erase if oracle.remove(&key) => Outcome::Erased,
                SetOperation::Erase => Outcome::Missing,
            },
        );
    }
    fn compare(&self) {
        let World { alphabet, set, oracle, .. } = self;
        assert_eq!(set.len().unwrap(), oracle.len());
        let there = alphabet.iter().map(|key| oracle.contains(key)).collect::<Vec<_>>();
        assert_eq!(set.contains(alphabet).unwrap(), there);
        assert_eq!(
            set.count(alphabet).unwrap(),
            there.iter().filter(|&&there| there).count() as u64
        );
    }
    fn compare_all(&self) {
        let sorted = |mut keys: Vec<K>| {
            keys.sort_unstable_by_key(|&key| Into::<u64>::into(key));
            keys
        };
        assert_eq!(sorted(self.set.keys().unwrap()), sorted(self.oracle.iter().copied().collect()));
    }
}

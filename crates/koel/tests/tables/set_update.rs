//! Sets updated in batches: see [`updates`].

use crate::support::special::often_special;
use crate::support::{Random, devices};
use crate::updates::{self, Batch, Oracle, Table, key};
use koel::set::{difference, union};
use koel::types::KeyBits;
use koel::{
    Device, Operation, Operations, Outcome, Set, SetBuilder, SetOperation, SetOptions, SetUpdater,
    Stream, ViewMut,
};
use std::path::Path;

impl<K: KeyBits> Table for Set<K> {
    type Key = K;
    type Value = u32;
    type Updater = SetUpdater<K>;
    const OPERATIONS: &'static [Operation] = &[Operation::Insert, Operation::Erase];

    fn build(device: &Device, keys: &[K], _: &[u32], load: f64) -> (Self, SetUpdater<K>) {
        let options = SetOptions::default().with_load(load).with_seed(0);
        let keys = device.stage(keys).unwrap();
        let mut builder = SetBuilder::new(device, options).unwrap();
        let set = builder.build(&device.stream().unwrap(), keys.view()).unwrap();
        (set, SetUpdater::new(device, options).unwrap())
    }
    fn update(
        &mut self,
        updater: &mut SetUpdater<K>,
        stream: &Stream,
        batch: Batch<'_, K, u32>,
        outcomes: ViewMut<'_, u8>,
        waits: bool,
    ) -> koel::Result<()> {
        let Batch { operations, keys, .. } = batch;
        let operations = match operations {
            updates::Operations::All(Operation::Erase) => Operations::All(SetOperation::Erase),
            updates::Operations::All(_) => Operations::All(SetOperation::Insert),
            updates::Operations::Each(codes) => Operations::Each(codes),
        };
        let run = if waits { SetUpdater::apply } else { SetUpdater::enqueue };
        run(updater, self, stream, operations, keys, outcomes)
    }
    fn insert(&mut self, keys: &[K]) -> Vec<Outcome> {
        Set::insert(self, keys).unwrap()
    }
    fn erase(&mut self, keys: &[K]) -> Vec<Outcome> {
        Set::erase(self, keys).unwrap()
    }
    fn shrink(&mut self) {
        Set::shrink(self).unwrap();
    }
    fn device(&self) -> &Device {
        Set::device(self)
    }
    fn len(&self) -> usize {
        Set::len(self).unwrap()
    }
    fn slots(&self) -> usize {
        Set::report(self).unwrap().slots
    }
    fn bytes(&self) -> usize {
        Set::bytes(self)
    }
    fn report(&self) -> String {
        format!("{:?}", Set::report(self))
    }
    fn get(&self, keys: &[K]) -> Vec<Option<u32>> {
        self.contains(keys).unwrap().into_iter().map(|found| found.then_some(0)).collect()
    }
    fn count(&self, keys: &[K]) -> u64 {
        Set::count(self, keys).unwrap()
    }
    fn pairs(&self) -> Vec<(K, u32)> {
        self.keys().unwrap().into_iter().map(|key| (key, 0)).collect()
    }
    fn check_uses(&self, oracle: &Oracle<Self>, keys: &[K]) {
        let device = Set::device(self);
        let mut missing = difference(device, keys, &self.keys().unwrap()).unwrap();
        missing.sort_unstable();
        let mut expected =
            keys.iter().copied().filter(|key| !oracle.contains_key(key)).collect::<Vec<_>>();
        expected.sort_unstable();
        expected.dedup();
        assert!(missing == expected, "{}", device.name());
        assert_eq!(
            union(device, keys, &self.keys().unwrap()).unwrap().len(),
            oracle.len() + missing.len()
        );
    }
    fn to_device(&self, device: &Device) -> Self {
        Set::to_device(self, device).unwrap()
    }
    fn saved(&self) -> Vec<u8> {
        let mut bytes = std::io::Cursor::new(vec![]);
        self.save_to(&mut bytes).unwrap();
        bytes.into_inner()
    }
    fn loaded(device: &Device, bytes: &[u8]) -> Self {
        Set::load_bytes(device, bytes).unwrap()
    }
    fn opened(path: &Path) -> Self {
        // SAFETY: nothing changes the file.
        unsafe { Set::open(path) }.unwrap()
    }
    fn often_special(random: u64, other: K) -> K {
        often_special::<K::Pairs>(0, random, other)
    }
}

#[test]
fn random_histories() {
    updates::histories::<Set<u32>>(1);
    updates::histories::<Set<u64>>(2);
}
#[test]
fn every_key_set() {
    updates::every_key_set::<Set<u32>>();
}
#[test]
fn keys_made_to_collide() {
    updates::keys_made_to_collide::<Set<u32>>();
}
#[test]
fn frequent_keys() {
    updates::frequent_keys::<Set<u64>>();
}
#[test]
fn updated_sets_are_sets() {
    updates::updated_tables_are_tables::<Set<u32>>();
    updates::updated_tables_are_tables::<Set<u64>>();
}
#[test]
fn an_opened_set_is_updated_in_memory() {
    updates::opened_tables_are_updated_in_memory::<Set<u32>>();
}
#[test]
fn a_set_of_a_damaged_file_is_not_updated() {
    updates::damaged_files_are_not_updated::<Set<u32>>();
}
#[test]
fn sets_grow_from_nothing() {
    updates::tables_grow_from_nothing::<Set<u32>>();
    updates::tables_grow_from_nothing::<Set<u64>>();
}
#[test]
fn sets_do_not_shrink_to_more() {
    updates::tables_do_not_shrink_to_more::<Set<u32>>();
    updates::tables_do_not_shrink_to_more::<Set<u64>>();
}
#[test]
fn updates_are_part_of_a_graph() {
    updates::updates_are_part_of_a_graph::<Set<u32>>();
}
/// Further meanings of an operation byte, on host slices and in device memory; and a set rebuilt
/// with fewer keys than it has memory for.
#[test]
fn mixed_batches_of_host_slices() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let options = SetOptions::default();
        let mut builder = SetBuilder::new(&device, options).unwrap();
        let many = device.upload(&(0..5000).map(key::<u64>).collect::<Vec<_>>()).unwrap();
        let mut set = builder.build(&stream, many.view()).unwrap();
        builder.rebuild(&mut set, &stream, many.view().slice(..100).unwrap()).unwrap();
        use Outcome::{Erased, Inserted, Kept, Missing};
        use SetOperation::{Erase, Insert};
        let (old, new) = (key::<u64>(7), key::<u64>(5001));
        let operations = [Insert, Erase, Erase, Insert, Insert, Erase, Insert];
        let outcomes = set.update(&operations, &[old, old, old, new, new, new, old]).unwrap();
        assert_eq!(
            outcomes,
            [Kept, Erased, Missing, Inserted, Kept, Erased, Inserted],
            "{}",
            device.name()
        );
        assert_eq!(
            (set.len().unwrap(), set.contains(&[old, new]).unwrap()),
            (100, vec![true, false])
        );

        let mut random = Random(1);
        let bytes = (0..200).map(|_| random.word() as u8).collect::<Vec<_>>();
        let (codes, keys) = (device.upload(&bytes).unwrap(), many.view().slice(..200).unwrap());
        let mut outcomes = device.alloc::<u8>(200).unwrap();
        let mut updater = SetUpdater::new(&device, options).unwrap();
        let each = Operations::Each(codes.view());
        updater.apply(&mut set, &stream, each, keys, outcomes.view_mut()).unwrap();
        for (i, outcome) in outcomes.download().unwrap().into_iter().enumerate() {
            let expected = match (bytes[i] & 3 == SetOperation::Erase as u8, i < 100) {
                (true, true) => Erased,
                (true, false) => Missing,
                (false, true) => Kept,
                (false, false) => Inserted,
            };
            assert_eq!(Outcome::of(outcome), Some(expected), "key {i}");
        }
        assert!(updater.scratch_bytes() > 0);
    }
}

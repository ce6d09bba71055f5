//! Maps updated in batches: see [`updates`].

use crate::support::devices;
use crate::support::special::often_special;
use crate::updates::{self, Batch, Oracle, Table, key};
use koel::map::layout::{Layout, Narrow};
use koel::types::{KeyBits, ValueBits};
use koel::{
    Device, DeviceKind, Map, MapBuilder, MapJoiner, MapOptions, MapUpdater, Operation, Operations,
    Outcome, Stream, ViewMut,
};
use std::path::Path;

impl<K: KeyBits, V: ValueBits> Table for Map<K, V> {
    type Key = K;
    type Value = V;
    type Updater = MapUpdater<K, V>;
    const OPERATIONS: &'static [Operation] =
        &[Operation::Insert, Operation::InsertOrAssign, Operation::InsertOrAdd, Operation::Erase];

    fn build(device: &Device, keys: &[K], values: &[V], load: f64) -> (Self, MapUpdater<K, V>) {
        let (k, v) = (device.stage(keys).unwrap(), device.stage(values).unwrap());
        let options = MapOptions::default().with_load(load).with_seed(0);
        let mut builder = MapBuilder::new(device, options).unwrap();
        let map = builder.build(&device.stream().unwrap(), k.view(), v.view()).unwrap();
        (map, MapUpdater::new(device, options).unwrap())
    }
    fn update(
        &mut self,
        updater: &mut MapUpdater<K, V>,
        stream: &Stream,
        batch: Batch<'_, K, V>,
        outcomes: ViewMut<'_, u8>,
        waits: bool,
    ) -> koel::Result<()> {
        let Batch { operations, keys, values } = batch;
        let operations = match operations {
            updates::Operations::All(operation) => Operations::All(operation),
            updates::Operations::Each(codes) => Operations::Each(codes),
        };
        let run = if waits { MapUpdater::apply } else { MapUpdater::enqueue };
        run(updater, self, stream, operations, keys, values, outcomes)
    }
    fn insert(&mut self, keys: &[K]) -> Vec<Outcome> {
        Map::insert(self, keys, &vec![V::narrowed(0); keys.len()]).unwrap()
    }
    fn erase(&mut self, keys: &[K]) -> Vec<Outcome> {
        Map::erase(self, keys).unwrap()
    }
    fn shrink(&mut self) {
        Map::shrink(self).unwrap();
    }
    fn device(&self) -> &Device {
        Map::device(self)
    }
    fn len(&self) -> usize {
        Map::len(self).unwrap()
    }
    fn slots(&self) -> usize {
        Map::report(self).unwrap().slots
    }
    fn bytes(&self) -> usize {
        Map::bytes(self)
    }
    fn report(&self) -> String {
        format!("{:?}", Map::report(self))
    }
    fn get(&self, keys: &[K]) -> Vec<Option<V>> {
        Map::get(self, keys).unwrap()
    }
    fn count(&self, keys: &[K]) -> u64 {
        Map::count(self, keys).unwrap()
    }
    fn pairs(&self) -> Vec<(K, V)> {
        Map::pairs(self).unwrap()
    }
    fn check_uses(&self, oracle: &Oracle<Self>, keys: &[K]) {
        let mut rows = self.join(keys).unwrap();
        rows.sort_unstable();
        let expected = (0..keys.len()).filter_map(|i| oracle.get(&keys[i]).map(|&v| (i as u32, v)));
        assert!(rows == expected.collect::<Vec<_>>(), "{}", Map::device(self).name());
    }
    fn to_device(&self, device: &Device) -> Self {
        Map::to_device(self, device).unwrap()
    }
    fn saved(&self) -> Vec<u8> {
        let mut bytes = std::io::Cursor::new(vec![]);
        self.save_to(&mut bytes).unwrap();
        bytes.into_inner()
    }
    fn loaded(device: &Device, bytes: &[u8]) -> Self {
        Map::load_bytes(device, bytes).unwrap()
    }
    fn opened(path: &Path) -> Self {
        // SAFETY: nothing changes the file.
        unsafe { Map::open(path) }.unwrap()
    }
    fn often_special(random: u64, other: K) -> K {
        often_special::<<K as KeyBits>::Layout<V>>(0, random, other)
    }
}

#[test]
fn random_histories() {
    updates::histories::<Map<u32, u32>>(1);
    updates::histories::<Map<u64, u64>>(2);
}
#[test]
fn random_histories_of_other_pairings() {
    updates::histories::<Map<u32, u64>>(3);
    updates::histories::<Map<u64, u32>>(4);
}
#[test]
fn every_key_set() {
    updates::every_key_set::<Map<u32, u32>>();
}
#[test]
fn keys_made_to_collide() {
    updates::keys_made_to_collide::<Map<u32, u32>>();
}
#[test]
fn frequent_keys() {
    updates::frequent_keys::<Map<u64, u32>>();
}
#[test]
fn updated_maps_are_maps() {
    updates::updated_tables_are_tables::<Map<u32, u64>>();
}
#[test]
fn an_opened_map_is_updated_in_memory() {
    updates::opened_tables_are_updated_in_memory::<Map<u32, u32>>();
}
#[test]
fn a_map_of_a_damaged_file_is_not_updated() {
    updates::damaged_files_are_not_updated::<Map<u32, u32>>();
}
#[test]
fn maps_grow_from_nothing() {
    updates::tables_grow_from_nothing::<Map<u64, u64>>();
}
#[test]
fn updates_are_part_of_a_graph() {
    updates::updates_are_part_of_a_graph::<Map<u32, u32>>();
}
/// A joiner and an updater take turns.
#[test]
fn joins_see_updates() {
    for device in devices().into_iter().filter(|d| d.kind() != DeviceKind::Cpu) {
        let stream = device.stream().unwrap();
        let n = 1000u32;
        let keys = (0..n).map(key).collect::<Vec<u32>>();
        let mut map = Map::build(&device, &keys, &keys).unwrap();
        let (mut updater, mut joiner) = (
            MapUpdater::new(&device, MapOptions::default()).unwrap(),
            MapJoiner::new(&device).unwrap(),
        );
        let staged = device.upload(&keys).unwrap();
        let (mut outcomes, mut count) =
            (device.alloc::<u8>(100).unwrap(), device.alloc(1).unwrap());
        for round in 0..5u64 {
            let part =
                staged.view().slice(round as usize * 100..(round as usize + 1) * 100).unwrap();
            let none = staged.view().slice(..0).unwrap();
            let erase = Operations::All(Operation::Erase);
            updater.enqueue(&mut map, &stream, erase, part, none, outcomes.view_mut()).unwrap();
            joiner.count_into(&stream, &map, staged.view(), count.view_mut()).unwrap();
            assert_eq!(count.download().unwrap(), [n as u64 - (round + 1) * 100]);
        }
    }
}
/// The ambiguous key has no slot: erasing it frees none, and inserting it needs none.
#[test]
fn the_ambiguous_key_takes_no_room() {
    use Outcome::{Erased, Inserted, Kept};
    let options = MapOptions::default().with_seed(0);
    let key = Narrow::unmixed(0, Narrow::AMBIGUOUS);
    for device in devices() {
        let stream = device.stream().unwrap();
        let only = [key];
        let staged = device.stage(&only).unwrap();
        let mut builder = MapBuilder::<u32, u32>::new(&device, options).unwrap();
        let mut map = builder.build(&stream, staged.view(), staged.view()).unwrap();
        let mut updater = MapUpdater::new(&device, options).unwrap();
        let mut enqueue = |map: &mut _, keys: &[u32], operations: &[Operation]| {
            let codes = operations.iter().map(|&operation| operation as u8).collect::<Vec<_>>();
            let mut outcomes = device.alloc::<u8>(keys.len()).unwrap();
            let (keys, codes) = (device.stage(keys).unwrap(), device.stage(&codes).unwrap());
            let each = Operations::Each(codes.view());
            updater
                .enqueue(map, &stream, each, keys.view(), keys.view(), outcomes.view_mut())
                .unwrap();
            outcomes
                .download()
                .unwrap()
                .into_iter()
                .map(|byte| Outcome::of(byte).unwrap())
                .collect::<Vec<_>>()
        };
        use Operation::{Erase, Insert};
        let outcomes = enqueue(&mut map, &[key, 1, 2], &[Erase, Insert, Insert]);
        assert_eq!(outcomes, [Erased, Inserted, Inserted], "{}", device.name());
        let outcomes = enqueue(&mut map, &[3, key, 1, key], &[Insert, Insert, Insert, Erase]);
        assert_eq!(outcomes, [Inserted, Inserted, Kept, Erased], "{}", device.name());
        let mut pairs = map.pairs().unwrap();
        pairs.sort_unstable();
        assert_eq!(pairs, [(1, 1), (2, 2), (3, 3)], "{}", device.name());
    }
}
#[test]
fn maps_do_not_shrink_to_more() {
    updates::tables_do_not_shrink_to_more::<Map<u32, u32>>();
    updates::tables_do_not_shrink_to_more::<Map<u64, u64>>();
}

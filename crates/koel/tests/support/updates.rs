//! Tables updated in batches, against a `HashMap`, on every device: outcomes, lookups and pairs
//! after each batch. Shared by maps and sets.
use super::support::{KEY_SETS, Random, devices, is_fast, scramble};
use koel::map::layout::{Layout, Narrow};
use koel::types::{Bits, ValueBits};
use koel::{Device, Operation, Outcome, Stream, View, ViewMut};
use rustc_hash::FxHashMap;
use std::path::Path;

/// The operations of a batch: one for all keys, or one byte per key.
#[derive(Clone, Copy)]
pub(crate) enum Operations<'a> {
    All(Operation),
    Each(View<'a, u8>),
}
/// Keys and values of a batch, and their operations.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a, K: Bits, V: ValueBits> {
    pub operations: Operations<'a>,
    pub keys: View<'a, K>,
    #[allow(dead_code, reason = "sets have none")]
    pub values: View<'a, V>,
}
/// A map, or a set: then all values are zero.
pub(crate) trait Table: Sized {
    type Key: Bits + Eq;
    type Value: ValueBits;
    type Updater;
    /// Operations on the table. The first inserts, the last erases.
    const OPERATIONS: &'static [Operation];

    /// Builds the table, and its updater, for this load.
    fn build(
        device: &Device,
        keys: &[Self::Key],
        values: &[Self::Value],
        load: f64,
    ) -> (Self, Self::Updater);
    /// Applies a batch, or puts it on the stream.
    fn update(
        &mut self,
        updater: &mut Self::Updater,
        stream: &Stream,
        batch: Batch<'_, Self::Key, Self::Value>,
        outcomes: ViewMut<'_, u8>,
        waits: bool,
    ) -> koel::Result<()>;
    /// The first operation and the last, on host slices.
    fn insert(&mut self, keys: &[Self::Key]) -> Vec<Outcome>;
    fn erase(&mut self, keys: &[Self::Key]) -> Vec<Outcome>;
    fn shrink(&mut self);

    fn device(&self) -> &Device;
    fn len(&self) -> usize;
    fn slots(&self) -> usize;
    fn bytes(&self) -> usize;
    fn report(&self) -> String;
    fn get(&self, keys: &[Self::Key]) -> Vec<Option<Self::Value>>;
    fn count(&self, keys: &[Self::Key]) -> u64;
    fn pairs(&self) -> Vec<(Self::Key, Self::Value)>;
    /// Compares further uses of the table with the oracle.
    fn check_uses(&self, _: &Oracle<Self>, _: &[Self::Key]) {}
    fn to_device(&self, device: &Device) -> Self;
    fn saved(&self) -> Vec<u8>;
    fn loaded(device: &Device, bytes: &[u8]) -> Self;
    fn opened(path: &Path) -> Self;
    /// Returns a key that the table treats specially, or `other`, depending on the random word.
    fn often_special(random: u64, other: Self::Key) -> Self::Key;
}
pub(crate) type Oracle<T> = FxHashMap<<T as Table>::Key, <T as Table>::Value>;

pub(crate) fn key<K: Bits>(word: u32) -> K {
    let scrambled = scramble(word, 77) as u128;
    K::of_packed(scrambled << 90 | scrambled << 32 | word as u128)
}
fn has_values<T: Table>() -> bool {
    T::OPERATIONS.len() > 2
}
fn value<T: Table>(word: u64) -> T::Value {
    T::Value::of_packed(if has_values::<T>() { word.into() } else { 0 })
}
/// A table under update, and its expected contents.
pub(crate) struct World<T: Table> {
    pub table: T,
    updater: T::Updater,
    oracle: Oracle<T>,
    stream: Stream,
    random: Random,
}
impl<T: Table> World<T> {
    pub(crate) fn new(device: &Device, keys: &[T::Key], load: f64, seed: u64) -> World<T> {
        let values = (0..keys.len() as u64).map(|i| value::<T>(i << 32 | i)).collect::<Vec<_>>();
        let (table, updater) = T::build(device, keys, &values, load);
        let oracle = keys.iter().copied().zip(values).collect();
        World { table, updater, oracle, stream: device.stream().unwrap(), random: Random(seed) }
    }
    /// Applies one operation to the oracle.
    fn expected(&mut self, operation: Operation, key: T::Key, value: T::Value) -> Outcome {
        let oracle = &mut self.oracle;
        match (operation, oracle.get(&key).copied()) {
            (Operation::Erase, before) => {
                oracle.remove(&key);
                if before.is_some() { Outcome::Erased } else { Outcome::Missing }
            }
            (_, None) => {
                oracle.insert(key, value);
                Outcome::Inserted
            }
            (Operation::Insert, Some(_)) => Outcome::Kept,
            (Operation::InsertOrAssign, Some(_)) => {
                oracle.insert(key, value);
                Outcome::Assigned
            }
            (Operation::InsertOrAdd, Some(before)) => {
                oracle.insert(
                    key,
                    T::Value::of_packed(Into::<u128>::into(before) + Into::<u128>::into(value)),
                );
                Outcome::Added
            }
        }
    }
    /// Applies a batch to the table and the oracle. `operation` is `None` for a mix.
    pub(crate) fn batch(&mut self, operation: Option<Operation>, keys: &[T::Key]) {
        let all = T::OPERATIONS;
        let values = keys.iter().map(|_| value::<T>(self.random.word())).collect::<Vec<_>>();
        let random = &mut self.random;
        let of =
            |random: &mut Random| operation.unwrap_or(all[random.below(all.len() as u64) as usize]);
        let operations = keys.iter().map(|_| of(random)).collect::<Vec<_>>();
        let codes = operations.iter().map(|&o| o as u8).collect::<Vec<_>>();
        let device = self.stream.device().clone();
        let (k, v, o) = (
            device.upload(keys).unwrap(),
            device.upload(&values).unwrap(),
            device.upload(&codes).unwrap(),
        );
        let mut outcomes = device.upload(&vec![0xAA; keys.len()]).unwrap();
        let all = operation.map_or(Operations::Each(o.view()), Operations::All);
        let batch = Batch { operations: all, keys: k.view(), values: v.view() };
        self.table
            .update(&mut self.updater, &self.stream, batch, outcomes.view_mut(), true)
            .unwrap();
        for (i, outcome) in outcomes.download().unwrap().into_iter().enumerate() {
            let expected = self.expected(operations[i], keys[i], values[i]);
            assert_eq!(
                Outcome::of(outcome),
                Some(expected),
                "{:?} of {:?} on {device:?}",
                operations[i],
                keys[i]
            );
        }
    }
    pub(crate) fn check(&self, others: &[T::Key]) {
        check(&self.table, &self.oracle, others);
    }
}
fn check<T: Table>(table: &T, oracle: &Oracle<T>, others: &[T::Key]) {
    let place = table.device().name();
    assert_eq!(table.len(), oracle.len(), "{place}: {}", table.report());
    let queries = oracle.keys().chain(others).copied().collect::<Vec<_>>();
    for (q, found) in queries.iter().zip(table.get(&queries)) {
        assert_eq!(found, oracle.get(q).copied(), "{place}: key {q:?}, {}", table.report());
    }
    let count = queries.iter().filter(|q| oracle.contains_key(q)).count() as u64;
    assert_eq!(table.count(&queries), count, "{place}");
    let pairs = table.pairs();
    assert_eq!(pairs.len(), oracle.len(), "{place}");
    assert!(pairs.into_iter().collect::<FxHashMap<_, _>>() == *oracle, "{place}: the pairs differ");
}

/// Random batches: sizes, operations, numbers of keys, frequent keys.
pub(crate) fn histories<T: Table>(seed: u64) {
    for device in devices() {
        let (most, batches) = if is_fast(&device) { (20_000, 30) } else { (900, 10) };
        for load in [0.5, 0.9] {
            let mut random = Random(seed);
            let any = |random: &mut Random, world: u64| {
                let world = if random.below(16) == 0 { 3 } else { world };
                let other = key(random.below(world) as u32);
                T::often_special(random.word(), other)
            };
            let n = random.below(most) as u32;
            let mut world =
                World::<T>::new(&device, &(0..n).map(key).collect::<Vec<_>>(), load, seed << 32);
            for _ in 0..batches {
                let (n, keys) = (random.below(most), 1 + random.below(most));
                let keys = (0..n).map(|_| any(&mut random, keys)).collect::<Vec<_>>();
                // A third of them is mixed.
                let operation = random.below(T::OPERATIONS.len() as u64 * 3 / 2);
                world.batch(T::OPERATIONS.get(operation as usize).copied(), &keys);
                world.check(&keys);
            }
        }
    }
}
/// The first operation after insertion, a mix of all, and erasing.
fn three<T: Table>() -> [Option<Operation>; 3] {
    let all = T::OPERATIONS;
    [Some(all[all.len() - 2]), None, Some(all[all.len() - 1])]
}
/// Keys that break weak hash functions: inserted, changed, erased.
pub(crate) fn every_key_set<T: Table<Key = u32>>() {
    for device in devices() {
        let n = if is_fast(&device) { 30_000 } else { 1_500 };
        for set in KEY_SETS {
            let keys = (0..n).map(set.key).collect::<Vec<_>>();
            let mut world = World::<T>::new(&device, &keys[..n as usize / 2], 0.8, n as u64);
            for operation in three::<T>() {
                world.batch(operation, &keys);
                world.check(&keys[..100]);
            }
            assert_eq!(world.table.len(), 0);
        }
    }
}
/// Keys crafted against the mixer: all in one partition, or in one bucket, where growing does not
/// help.
pub(crate) fn keys_made_to_collide<T: Table<Key = u32>>() {
    for device in devices() {
        let mut world = World::<T>::new(&device, &(0..3000).collect::<Vec<_>>(), 0.8, 1);
        let n = if is_fast(&device) { 20_000 } else { 3_000 };
        let keys = (0..n).map(|i| Narrow::unmixed(0, i)).collect::<Vec<_>>();
        for operation in [Some(Operation::Insert), None, Some(Operation::Erase)] {
            world.batch(operation, &keys);
            world.check(&keys[..100]);
        }
    }
}
/// A frequent key among others, and one alone.
pub(crate) fn frequent_keys<T: Table>() {
    for device in devices() {
        let n = if is_fast(&device) { 50_000u32 } else { 2_000 };
        let mut world = World::<T>::new(&device, &(0..n).map(key).collect::<Vec<_>>(), 0.8, 1);
        for share in [2, 1] {
            let keys = (0..n)
                .map(|i| if i % share == 0 { key(n + 1) } else { key(i) })
                .collect::<Vec<_>>();
            for operation in T::OPERATIONS.iter().copied().map(Some).chain([None]) {
                world.batch(operation, &keys);
                world.check(&keys[..10]);
            }
        }
    }
}
/// Tables from files and from other devices; and copies, files and more made from updated tables.
pub(crate) fn updated_tables_are_tables<T: Table>() {
    let all = devices();
    for (device, other) in all.iter().zip(all.iter().rev()) {
        let keys = (0..2000).map(key).collect::<Vec<T::Key>>();
        let mut world = World::<T>::new(device, &keys, 0.9, 3);
        let mut random = Random(3);
        world.table = world.table.to_device(other).to_device(device);
        for round in 0..3 {
            let some = (0..700).map(|_| key(random.below(2500) as u32)).collect::<Vec<_>>();
            world.batch(None, &some);
            world.check(&some);
            world.table.check_uses(&world.oracle, &some);
            world.table = match round {
                0 => T::loaded(device, &world.table.saved()),
                _ => world.table.to_device(other).to_device(device),
            };
            world.check(&some);
        }
        // The same for one that is less than half as full, and then empty.
        for operation in [None, Some(Operation::Erase)] {
            world.batch(operation, &keys);
            world.table = T::loaded(device, &world.table.saved());
            world.check(&keys);
        }
    }
}
/// A table opened from a file gets memory of its own; the file is unchanged.
pub(crate) fn opened_tables_are_updated_in_memory<T: Table>() {
    let device = Device::cpu().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.koel");
    let keys = [1, 2, 3, 4].map(key::<T::Key>);
    let world = World::<T>::new(&device, &keys[..3], 0.8, 1);
    let before = world.table.saved();
    std::fs::write(&path, &before).unwrap();
    let mut table = T::opened(&path);
    assert_eq!(table.insert(&keys[2..]), [Outcome::Kept, Outcome::Inserted]);
    assert_eq!(table.erase(&keys[..1]), [Outcome::Erased]);
    assert!(table.get(&keys).iter().map(Option::is_some).eq([false, true, true, true]));
    assert_eq!(std::fs::read(&path).unwrap(), before);
}
/// A table opened from a damaged file refuses batches, whose outcomes state that nothing is done.
pub(crate) fn damaged_files_are_not_updated<T: Table>() {
    let device = Device::cpu().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.koel");
    let keys = [1, 2, 3].map(key::<T::Key>);
    let mut damaged = World::<T>::new(&device, &keys, 0.8, 1).table.saved();
    // The slots start here.
    damaged[4096] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    let table = T::opened(&path);
    let device = table.device().clone();
    let mut world = World { table, ..World::<T>::new(&device, &keys, 0.8, 1) };
    let (keys, values) =
        (device.upload(&keys).unwrap(), device.upload(&[value::<T>(7); 3]).unwrap());
    let operations = Operations::All(T::OPERATIONS[0]);
    let batch = Batch { operations, keys: keys.view(), values: values.view() };
    for waits in [true, false] {
        let mut outcomes = device.upload(&[Outcome::Inserted as u8; 3]).unwrap();
        let World { table, updater, stream, .. } = &mut world;
        let e = table.update(updater, stream, batch, outcomes.view_mut(), waits).unwrap_err();
        assert!(matches!(e, koel::Error::File(_)), "{e}");
        assert_eq!(outcomes.download().unwrap(), [Outcome::NotDone as u8; 3]);
    }
}
/// Grows from an empty table, by small batches, through host slices.
pub(crate) fn tables_grow_from_nothing<T: Table>() {
    for device in devices() {
        let mut world = World::<T>::new(&device, &[], 0.8, 1);
        let (most, mut n) = (if is_fast(&device) { 100_000u32 } else { 4_000 }, 1);
        let mut next = 0;
        while next < most {
            let keys = (next..next + n).map(key).collect::<Vec<T::Key>>();
            let outcomes = world.table.insert(&keys);
            assert!(
                outcomes.iter().all(|&o| o == Outcome::Inserted),
                "{next} on {}",
                device.name()
            );
            world.oracle.extend(keys.into_iter().map(|key| (key, value::<T>(0))));
            (next, n) = (next + n, n * 3);
        }
        world.check(&[]);
        assert!(world.table.slots() < 2 * next as usize + 64);
        let keys = (0..next).map(key).collect::<Vec<T::Key>>();
        assert!(world.table.erase(&keys).iter().all(|&o| o == Outcome::Erased));
        world.table.shrink();
        assert!(world.table.len() == 0 && world.table.slots() < 100);
    }
}
/// Shrinking never takes more memory: neither for a table that is as full as a new one would be, or
/// fuller, nor for one of minimum size.
pub(crate) fn tables_do_not_shrink_to_more<T: Table>() {
    for device in devices() {
        let n = if is_fast(&device) { 100_000 } else { 2_000 };
        for (built, more) in [(0, 0), (1, 0), (3, 2), (n, 0), (n, n / 8), (n / 100, n)] {
            let keys = (0..built + more).map(key::<T::Key>).collect::<Vec<_>>();
            let mut world = World::<T>::new(&device, &keys[..built as usize], 0.8, 1);
            world.batch(Some(T::OPERATIONS[0]), &keys[built as usize..]);
            for erased in [0, keys.len() / 3] {
                world.batch(T::OPERATIONS.last().copied(), &keys[..erased]);
                let before = world.table.bytes();
                world.table.shrink();
                let after = world.table.bytes();
                assert!(
                    after <= before,
                    "{before} to {after} bytes, {built} and {more} keys on {}",
                    device.name()
                );
                assert!(
                    erased < 1000 || after < before,
                    "{before} bytes, {built} and {more} keys on {}",
                    device.name()
                );
                world.check(&keys[..keys.len().min(100)]);
            }
        }
    }
}
/// Updates and lookups in a graph, with different keys each time.
pub(crate) fn updates_are_part_of_a_graph<T: Table>() {
    for device in devices() {
        let n = 500u32;
        let mut world = World::<T>::new(&device, &(0..4 * n).map(key).collect::<Vec<_>>(), 0.5, 1);
        let stream = device.stream().unwrap();
        let first = (0..n).map(key::<T::Key>).collect::<Vec<_>>();
        let values = vec![value::<T>(1); n as usize];
        let (keys, v) = (device.upload(&first).unwrap(), device.upload(&values).unwrap());
        let mut outcomes = device.alloc::<u8>(n as usize).unwrap();
        let operation = T::OPERATIONS[T::OPERATIONS.len() - 2];
        let all = Operations::All(operation);
        let World { table, updater, .. } = &mut world;
        let batch = Batch { operations: all, keys: keys.view(), values: v.view() };
        table.update(updater, &stream, batch, outcomes.view_mut(), false).unwrap();
        for &key in &first {
            world.expected(operation, key, values[0]);
        }
        let mut graph = stream
            .capture((world, keys, outcomes, v), move |stream, (world, keys, outcomes, v)| {
                let World { table, updater, .. } = world;
                let batch = Batch { operations: all, keys: keys.view(), values: v.view() };
                table.update(updater, stream, batch, outcomes.view_mut(), false)
            })
            .unwrap();
        for round in 0..3 {
            let words = (0..n).map(|i| key::<T::Key>(i * 7 + round * n)).collect::<Vec<_>>();
            graph.state_mut().1.view_mut().copy_from_host(&words).unwrap();
            graph.launch(&stream).unwrap();
            let outcomes = graph.state().2.download().unwrap();
            for (&word, outcome) in words.iter().zip(outcomes) {
                let expected = graph.state_mut().0.expected(operation, word, values[0]);
                assert_eq!(
                    Outcome::of(outcome),
                    Some(expected),
                    "round {round} on {}",
                    device.name()
                );
            }
            graph.state().0.check(&words);
        }
    }
}

//! Updates by kernels, with plans and limits that no few thousand operations would get, and on the CPU: after each batch everything that the
//! table holds is compared with an oracle.
use super::super::kernels::{Input, Scratch, build, read_header};
use super::super::plan::Sizes;
use super::super::tests::check_layout;
use super::*;
use koel_kernels::hash::mix::{mix, splitmix_at};
use koel_kernels::map::update::operation::{ADD, ASSIGN, EACH, ERASE, INSERT};
use std::sync::Mutex;

type Of<K, V> = LayoutOf<K, V>;
const SEED: u32 = 7;
/// One pass.
const ONE: Limits = Limits { rule: Rule { bins: 64, ..Limits::TUNED.rule }, ..Limits::TUNED };
/// Two passes from nine partitions on.
const TWO: Limits = Limits { rule: Rule { bins: 8, many_bins: 8, ..Limits::TUNED.rule }, ..Limits::TUNED };
/// Blocks with room for few keys, and pieces of few operations.
const FEW: Limits = Limits { operations: 9, deviations: 0.0, spare: 1, ..ONE };
/// Only the buckets of the keys are read, if that is enough, or always whole partitions.
const SPARSE: Limits = Limits { sparse: 99.0, sparse_load: 1.0, ..ONE };
const WHOLE: Limits = Limits { sparse: 0.0, ..ONE };
/// Any number of pairs in a partition: the stash takes what has no place.
const FULL: Limits = Limits { most_load: 9.0, ..ONE };

const SMALL: Sizes = Sizes { pairs: 100, one_pass: 1024, groups: 4, small: 0, small_partitions: 1, ..Sizes::TUNED };
fn plan(n: usize, load: f64) -> Plan {
    Plan::sized(n, load, SMALL).unwrap()
}
fn device(seed: u64) -> Device {
    Device::executor_with(seed, |exec| exec.patience = 10_000_000)
}
/// A key of a small world, in which the ambiguous one is number 3.
fn key<K: Key, V: Value>(i: u64) -> K {
    match i {
        3 => Of::<K, V>::unmixed(SEED, Of::<K, V>::AMBIGUOUS),
        _ => K::narrowed(splitmix_at(5, i as u32) << 32 | mix(i as u32) as u64),
    }
}

/// A map, what it holds, and what changes both.
struct World<K: Key, V: Value> {
    stream: Stream,
    map: Map<K, V>,
    oracle: HashMap<K, V>,
    updater: MapUpdater<K, V>,
    random: u64,
}
impl<K: Key, V: Value> World<K, V> {
    /// Of the first keys of the world.
    fn new(device: &Device, plan: Plan, limits: Limits) -> Self {
        let n = plan.n as u64;
        let keys = (0..n).map(key::<K, V>).collect::<Vec<_>>();
        let values = (0..n).map(|i| V::narrowed(splitmix_at(9, i as u32))).collect::<Vec<_>>();
        let (stream, k, v) = (device.stream().unwrap(), device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        let map = if device.runs_kernels() {
            let mut slots = Slots::new::<Of<K, V>>(device, &plan).unwrap();
            let mut scratch = Scratch::new::<Of<K, V>>(device, &plan).unwrap();
            let (duplicates, reproducible) = (Duplicates::KeepLast, false);
            let input = Input { keys: k.view(), values: v.view(), duplicates, seed: SEED, reproducible };
            build::<Of<K, V>>(&stream, &plan, input, &mut slots, &mut scratch).unwrap();
            let (device, storage) = (device.clone(), Storage::Kernels(slots));
            Map { device, plan, storage, report: Mutex::new(Report::InHeader(0, None)) }
        } else {
            let options = MapOptions { seed: SEED, ..MapOptions::default() };
            let mut builder = MapBuilder::new(device, options).unwrap();
            builder.build_planned(plan, &stream, k.view(), v.view()).unwrap()
        };
        let options = MapOptions { seed: SEED, ..MapOptions::default() };
        let updater = MapUpdater::with_limits(device, options, limits).unwrap();
        World { stream, map, oracle: keys.into_iter().zip(values).collect(), updater, random: n }
    }
    fn below(&mut self, n: u64) -> u64 {
        self.random += 1;
        splitmix_at(11, self.random as u32) % n.max(1)
    }
    /// What becomes of the oracle.
    fn expected(&mut self, operation: u32, key: K, value: V) -> Outcome {
        let before = self.oracle.get(&key).copied();
        if operation == ERASE {
            self.oracle.remove(&key);
            return if before.is_some() { Outcome::Erased } else { Outcome::Missing };
        }
        let Some(before) = before else {
            self.oracle.insert(key, value);
            return Outcome::Inserted;
        };
        if operation == INSERT {
            return Outcome::Kept;
        }
        let sum = V::narrowed(before.widened().wrapping_add(value.widened()));
        self.oracle.insert(key, if operation == ADD { sum } else { value });
        if operation == ADD { Outcome::Added } else { Outcome::Assigned }
    }
    /// Applies a batch of keys of the world, and compares.
    fn apply(&mut self, operation: u32, numbers: &[u64]) {
        let n = numbers.len();
        let keys = numbers.iter().map(|&i| key::<K, V>(i)).collect::<Vec<_>>();
        let values = (0..n).map(|_| V::narrowed(self.below(u64::MAX))).collect::<Vec<_>>();
        let codes = (0..n).map(|_| if operation == EACH { self.below(4) as u8 } else { operation as u8 });
        let codes = codes.collect::<Vec<_>>();
        let device = self.stream.device().clone();
        let (k, v, o) =
            (device.upload(&keys).unwrap(), device.upload(&values).unwrap(), device.upload(&codes).unwrap());
        let mut outcomes = device.upload(&vec![0xAA; n]).unwrap();
        let operations = match operation {
            INSERT => Operations::All(Operation::Insert),
            ASSIGN => Operations::All(Operation::InsertOrAssign),
            ADD => Operations::All(Operation::InsertOrAdd),
            ERASE => Operations::All(Operation::Erase),
            _ => Operations::Each(o.view()),
        };
        let (map, outcomes_out) = (&mut self.map, outcomes.view_mut());
        self.updater.apply(map, &self.stream, operations, k.view(), v.view(), outcomes_out).unwrap();
        for (i, outcome) in outcomes.download().unwrap().into_iter().enumerate() {
            let expected = self.expected(codes[i] as u32, keys[i], values[i]);
            assert_eq!(Outcome::of(outcome), Some(expected), "operation {i} of {n}: {} on {:?}", codes[i], keys[i]);
        }
        self.check();
    }
    fn check(&self) {
        let report = self.map.report().unwrap();
        assert_eq!(report.pairs, self.oracle.len(), "{report:?}");
        if let Storage::Kernels(table) = &self.map.storage {
            let header = read_header::<V>(&table.header.download().unwrap());
            let (slots, stash) = (table.slots.download().unwrap(), table.stash.download().unwrap());
            check_layout(&self.map.plan, &header, &slots, &stash, &self.oracle, true);
            assert!(self.updater.memory.lists.download().unwrap().iter().all(|&word| word == !0));
        }
        let keys = self.oracle.keys().copied().chain((0..900).map(key::<K, V>)).collect::<Vec<_>>();
        for (key, found) in keys.iter().zip(self.map.get(&keys).unwrap()) {
            assert_eq!(found, self.oracle.get(key).copied(), "key {key:?}");
        }
        let pairs = self.map.pairs().unwrap();
        assert_eq!(pairs.len(), self.oracle.len());
        assert!(pairs.into_iter().collect::<HashMap<_, _>>() == self.oracle);
    }
    /// Keys below `world`, some of them often.
    fn some(&mut self, n: usize, world: u64) -> Vec<u64> {
        let few = 1 + self.below(9);
        (0..n).map(|_| if self.below(4) == 0 { self.below(few) } else { self.below(world) }).collect()
    }
}

/// Batches of every kind and size, one after the other.
fn batches<K: Key, V: Value>(seed: u64, limits: Limits) {
    for device in [device(seed), Device::cpu_with_threads(2).unwrap()] {
        let mut world = World::<K, V>::new(&device, plan(900, 0.8), limits);
        world.check();
        for operation in [EACH, INSERT, ERASE, ADD, ASSIGN, EACH, ERASE] {
            for n in [1, 33, 300] {
                let numbers = world.some(n, 1100);
                world.apply(operation, &numbers);
            }
        }
        world.apply(EACH, &[]);
        // Everything goes and comes again.
        world.apply(ERASE, &(0..1100).collect::<Vec<_>>());
        assert!(world.oracle.is_empty());
        world.apply(ADD, &(0..700).collect::<Vec<_>>());
    }
}
#[test]
fn every_kind_of_batch_and_pairing() {
    batches::<u32, u32>(1, WHOLE);
    batches::<u32, u64>(2, WHOLE);
    batches::<u64, u32>(3, WHOLE);
    batches::<u64, u64>(4, ONE);
}
/// Batches that are done where the table lies: slots are claimed, keys evicted at once or by a third one, fillers come and go.
fn few<K: Key, V: Value>(seed: u64, load: f64) {
    let mut world = World::<K, V>::new(&device(seed), plan(900, load), SPARSE);
    let slots = world.map.plan.slots();
    for round in 0..4 {
        world.apply(INSERT, &(900 + round * 12..912 + round * 12).collect::<Vec<_>>());
        for (operation, n) in [(ASSIGN, 60), (ADD, 90), (ERASE, 200), (INSERT, 170), (ERASE, 1), (INSERT, 1)] {
            let numbers = world.some(n, 950);
            world.apply(operation, &numbers);
        }
    }
    assert!(world.map.plan.slots() == slots || load > 0.8, "nothing must grow");
    world.apply(ERASE, &(0..950).collect::<Vec<_>>());
    assert!(world.oracle.is_empty());
}
#[test]
fn few_keys_beside_the_pairs() {
    for seed in 1..4 {
        few::<u32, u32>(seed, 0.9);
    }
    few::<u32, u32>(4, 0.5);
    few::<u32, u64>(5, 0.9);
    few::<u64, u32>(6, 0.8);
    few::<u64, u64>(7, 0.93);
}
#[test]
fn in_two_passes() {
    batches::<u32, u32>(1, TWO);
    batches::<u64, u64>(2, TWO);
}
#[test]
fn blocks_with_room_for_few_keys() {
    batches::<u32, u32>(1, FEW);
    batches::<u64, u64>(2, FEW);
}

/// Most operations are for a few keys: bins overflow, entries do not.
fn frequent<K: Key, V: Value>(seed: u64) {
    for limits in [ONE, TWO, FEW] {
        let mut world = World::<K, V>::new(&device(seed), plan(900, 0.5), limits);
        let slots = world.map.plan.slots();
        for operation in [ADD, INSERT, ASSIGN, ERASE, EACH] {
            let n = if operation == EACH { 200 } else { 1500 };
            let numbers = (0..n).map(|i| if i % 8 != 0 { 905 + i % 2 } else { i }).collect::<Vec<_>>();
            world.apply(operation, &numbers);
            world.apply(operation, &vec![3; 100]);
        }
        assert_eq!(world.map.plan.slots(), slots, "nothing must grow");
    }
}
#[test]
fn frequent_keys() {
    frequent::<u32, u32>(1);
    frequent::<u64, u64>(2);
}

/// More pairs than two choices can place: they are in the stash, can be changed and erased there, and come out of it.
fn stash<K: Key, V: Value>(seed: u64) {
    let mut world = World::<K, V>::new(&device(seed), plan(900, 0.95), FULL);
    let stashed = |world: &World<K, V>| world.map.report().unwrap().stashed;
    world.apply(INSERT, &(900..960).collect::<Vec<_>>());
    let before = stashed(&world);
    assert!(before > 10, "{before}");
    let all = (0..960).collect::<Vec<_>>();
    world.apply(ASSIGN, &all);
    world.apply(ADD, &all);
    assert!(stashed(&world) > 10);
    let numbers = world.some(200, 1000);
    world.apply(EACH, &numbers);
    world.apply(ERASE, &(0..960).step_by(2).collect::<Vec<_>>());
    // Every partition was asked for.
    assert_eq!(stashed(&world), 0);
    world.apply(INSERT, &all);
    assert!(stashed(&world) > 10);
    world.apply(ERASE, &(0..1000).collect::<Vec<_>>());
    assert_eq!((stashed(&world), world.oracle.len()), (0, 0));
}
#[test]
fn the_stash_is_emptied_when_there_is_room() {
    stash::<u32, u32>(1);
    stash::<u64, u64>(2);
    stash::<u32, u64>(3);
}
/// More stashed pairs of a partition than a block has room for stay in the stash.
#[test]
fn many_stashed_pairs_of_a_partition() {
    let limits = Limits { operations: 1, deviations: 0.0, spare: 3, ..FULL };
    let mut plan = plan(900, 0.95);
    plan.shape.buckets -= 4;
    let mut world = World::<u32, u32>::new(&device(1), plan, limits);
    let before = world.map.report().unwrap().stashed;
    assert!(before > 90, "{before}");
    world.apply(INSERT, &[1, 2, 3, 4000]);
    let numbers = world.some(40, 900);
    world.apply(EACH, &numbers);
    world.apply(ERASE, &(0..900).step_by(3).collect::<Vec<_>>());
    assert_eq!(world.map.plan.shape, plan.shape);
    assert!(world.map.report().unwrap().stashed < before);
}

/// More pairs than there is room for.
fn growth<K: Key, V: Value>(seed: u64) {
    for device in [device(seed), Device::cpu_with_threads(1).unwrap()] {
        let mut world = World::<K, V>::new(&device, plan(300, 0.8), ONE);
        let slots = world.map.plan.slots();
        world.apply(INSERT, &(0..600).collect::<Vec<_>>());
        let grown = world.map.plan.slots();
        assert!(grown > slots && grown as f64 > 600.0 / 0.85, "{slots} {grown}");
        let numbers = world.some(1200, 2000);
        world.apply(EACH, &numbers);
        // Many more than there are.
        world.apply(ADD, &(0..6000).collect::<Vec<_>>());
        let grown = world.map.plan.slots();
        assert!((7000..9000).contains(&grown), "{grown}");
        // Many times as many as there are slots.
        let mut other = World::<K, V>::new(&device, plan(10, 0.8), ONE);
        other.apply(ADD, &(0..9000).map(|i| i % 4000).collect::<Vec<_>>());
        // All known: nothing grows.
        world.apply(ASSIGN, &(0..3000).map(|i| i % 6000).collect::<Vec<_>>());
        assert_eq!(world.map.plan.slots(), grown);
        world.apply(ERASE, &(0..5900).collect::<Vec<_>>());
        world.map.shrink_to(0.5).unwrap();
        world.check();
        assert!(world.map.plan.slots() < 300, "{}", world.map.plan.slots());
        world.map.shrink().unwrap();
        world.check();
    }
}
#[test]
fn maps_grow_and_shrink() {
    growth::<u32, u32>(1);
    growth::<u64, u32>(2);
}
/// Mixed batches of which a part fits: what does not is done later, and so is all that follows on the same keys.
#[test]
fn mixed_batches_that_do_not_fit() {
    for seed in 1..5 {
        for device in [device(seed), Device::cpu_with_threads(1).unwrap()] {
            let mut world = World::<u32, u64>::new(&device, plan(300, 0.9), if seed % 2 == 0 { ONE } else { FEW });
            world.random = seed << 20;
            let numbers = world.some(1200, 700);
            world.apply(EACH, &numbers);
        }
    }
}
/// A stash that has no room: the map is built again, and holds what it did and what is new.
#[test]
fn what_the_stash_has_no_room_for() {
    for bits in [0, 3] {
        let mut plan = plan(900, 0.9);
        plan.stash_bits = bits;
        let mut world = World::<u64, u32>::new(&device(1), plan, FULL);
        world.apply(INSERT, &(800..1100).collect::<Vec<_>>());
        let numbers = world.some(300, 1300);
        world.apply(EACH, &numbers);
    }
}
/// Keys chosen so that no other table of the same seed has room for them either.
#[test]
fn keys_of_two_buckets() {
    for device in [device(1), Device::cpu_with_threads(1).unwrap()] {
        let mut world = World::<u64, u64>::new(&device, plan(200, 0.8), Limits { most_load: 0.97, ..ONE });
        let keys = (0..700).map(|i| Of::<u64, u64>::unmixed(SEED, 0x1234_5678_0000_0000 | i)).collect::<Vec<_>>();
        for (i, outcome) in world.map.insert(&keys, &keys).unwrap().into_iter().enumerate() {
            assert_eq!(outcome, world.expected(INSERT, keys[i], keys[i]));
        }
        world.check();
        let outcomes = world.map.erase(&keys[..650]).unwrap();
        for (i, outcome) in outcomes.into_iter().enumerate() {
            assert_eq!(outcome, world.expected(ERASE, keys[i], 0));
        }
        world.check();
    }
}
/// What is enqueued and not done is all or nothing of a key, and can be done later.
#[test]
fn not_done_is_told() {
    for device in [device(1), Device::cpu_with_threads(1).unwrap()] {
        let mut world = World::<u32, u32>::new(&device, plan(300, 0.8), ONE);
        let n = 340u64;
        let keys = (0..n).map(|i| key::<u32, u32>(i / 2 + 200)).collect::<Vec<_>>();
        let (k, mut outcomes) = (device.upload(&keys).unwrap(), device.alloc::<u8>(keys.len()).unwrap());
        let (all, plan) = (Operations::All(Operation::InsertOrAdd), world.map.plan);
        for _ in 0..2 {
            let (map, out) = (&mut world.map, outcomes.view_mut());
            world.updater.enqueue(map, &world.stream, all, k.view(), k.view(), out).unwrap();
            let done = outcomes.download().unwrap();
            let mut not_done = 0;
            for (i, &outcome) in done.iter().enumerate() {
                if Outcome::of(outcome) == Some(Outcome::NotDone) {
                    not_done += 1;
                } else {
                    assert_eq!(Outcome::of(outcome), Some(world.expected(ADD, keys[i], keys[i])));
                }
            }
            assert!(not_done > 0 && not_done < n, "{not_done}");
            assert!(world.map.plan == plan);
            world.check();
        }
    }
}
#[test]
fn wrong_arguments_are_errors() {
    let (device, other) = (Device::cpu().unwrap(), Device::cpu().unwrap());
    let stream = device.stream().unwrap();
    let mut map = Map::build(&device, &[1u32, 2], &[3u32, 4]).unwrap();
    let mut updater = MapUpdater::new(&device, MapOptions::default()).unwrap();
    let (two, three) = (device.upload(&[1u32, 2]).unwrap(), device.upload(&[1u32, 2, 3]).unwrap());
    let mut outcomes = device.alloc::<u8>(2).unwrap();
    let insert = Operations::All(Operation::Insert);
    let bytes = device.upload(&[0u8; 3]).unwrap();
    for (operations, keys, values) in
        [(insert, &two, &three), (insert, &three, &three), (Operations::Each(bytes.view()), &two, &two)]
    {
        let done = updater.apply(&mut map, &stream, operations, keys.view(), values.view(), outcomes.view_mut());
        assert!(matches!(done, Err(Error::Length { .. })), "{done:?}");
    }
    let elsewhere = other.stream().unwrap();
    let done = updater.apply(&mut map, &elsewhere, insert, two.view(), two.view(), outcomes.view_mut());
    assert!(matches!(done, Err(Error::WrongDevice { .. })), "{done:?}");
    assert!(MapUpdater::<u32, u32>::new(&device, MapOptions { load: 0.2, ..MapOptions::default() }).is_err());
    assert!(map.shrink_to(1.0).is_err());
    assert_eq!(map.get(&[1, 2]).unwrap(), [Some(3), Some(4)]);
}

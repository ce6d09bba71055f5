//! Tests of updates of maps and sets: a table, an oracle, and histories of batches, applied by
//! kernels, with plans and limits that no few thousand operations would get, and on the CPU. After
//! each batch, the entire content of the table is compared with the oracle.
use super::*;
use crate::special::special_keys;
use crate::table::plan::{Plan, PlanTuning};
use crate::types::KeyBits;
use koel_kernels::hash::mix::{mix, splitmix_at};
use koel_kernels::table::layout::Layout;
use koel_kernels::table::layout::Number;
use koel_kernels::table::update::operation::{ADD, ASSIGN, EACH, ERASE, INSERT};

pub(crate) const SEED: u32 = 7;
/// One pass.
pub(crate) const ONE: UpdateTuning = UpdateTuning {
    route: RouteTuning { bins: 64, ..UpdateTuning::TUNED.route },
    ..UpdateTuning::TUNED
};
/// Two passes from nine partitions on.
pub(crate) const TWO: UpdateTuning = UpdateTuning {
    route: RouteTuning { bins: 8, many_bins: 8, ..UpdateTuning::TUNED.route },
    sparse: false,
    ..UpdateTuning::TUNED
};
/// Bins of several partitions.
pub(crate) const COARSE: UpdateTuning = UpdateTuning { sparse: true, ..TWO };
/// Blocks with room for few keys, and pieces of few operations.
pub(crate) const TIGHT: UpdateTuning =
    UpdateTuning { operations: 9, deviations: 0.0, spare: 1, sparse: false, ..ONE };
/// Always whole partitions.
pub(crate) const WHOLE: UpdateTuning = UpdateTuning { sparse: false, ..ONE };
/// Any number of pairs per partition: the stash takes homeless ones.
pub(crate) const FULL: UpdateTuning = UpdateTuning { most_load: 9.0, crowded: 9.0, ..ONE };

/// A table under test.
pub(crate) trait Tested {
    type Family: Updatable<Pairs: Layout<Key: KeyBits>>;
    /// Returns the settings of rebuilds: [`SEED`] and the load.
    fn settings() -> Settings;
    fn table(&self) -> &Table<Self::Family>;
    fn table_mut(&mut self) -> &mut Table<Self::Family>;
    /// Returns the sizes of plans.
    fn sizes() -> PlanTuning;
    fn built(device: &Device, plan: Plan, keys: &[KeyOf<Self>], values: &[ValueOf<Self>]) -> Self;
    /// Returns the results of lookups.
    fn found(&self, keys: &[KeyOf<Self>]) -> Vec<Option<ValueOf<Self>>>;
    fn stashed(&self) -> usize {
        self.table().report().unwrap().stashed
    }
    /// Compares all bytes of a table that kernels update with the oracle.
    fn check_layout(&self, oracle: &EntriesOf<Self>);
    fn shrink_to(&mut self, load: f64) {
        self.table_mut().shrink(Settings { load, ..Self::settings() }).unwrap();
    }
}
pub(crate) type PairsOf<T> = <<T as Tested>::Family as Family>::Pairs;
pub(crate) type KeyOf<T> = <PairsOf<T> as Layout>::Key;
pub(crate) type ValueOf<T> = <PairsOf<T> as Layout>::Value;
pub(crate) type EntriesOf<T> = EntriesOnHost<<T as Tested>::Family>;
pub(crate) fn has_values<T: Tested>() -> bool {
    <<T::Family as Family>::Buckets as cpu::Buckets>::VALUES
}
/// Returns all operations that a batch can have for all keys.
pub(crate) fn kinds<T: Tested>() -> &'static [u32] {
    if has_values::<T>() { &[ADD, INSERT, ASSIGN, ERASE] } else { &[INSERT, ERASE] }
}

pub(crate) fn plan<T: Tested>(n: usize, load: f64) -> Plan {
    let small = PlanTuning {
        pairs: 100,
        one_pass: 1024,
        coarse: 4,
        small: 0,
        small_partitions: 1,
        ..T::sizes()
    };
    Plan::sized(n, load, small).unwrap()
}
pub(crate) fn device(seed: u64) -> Device {
    Device::executor_with(seed, |exec| exec.patience = 10_000_000)
}
fn both(seed: u64) -> [Device; 2] {
    [device(seed), Device::cpu_with_threads(2).unwrap()]
}
/// Returns key `i` of a small world. The first ones are special; [`some`](World::some) draws them
/// often.
pub(crate) fn key<T: Tested>(i: u64) -> KeyOf<T> {
    let special = special_keys::<PairsOf<T>>(SEED);
    let other = || Number::narrowed(splitmix_at(5, i as u32) << 32 | mix(i as u32) as u64);
    special.get(i as usize).copied().unwrap_or_else(other)
}
/// Number of the ambiguous key.
const AMBIGUOUS: u64 = 0;

/// A table, its expected content, and an updater.
pub(crate) struct World<T: Tested> {
    pub stream: Stream,
    pub table: T,
    pub oracle: EntriesOf<T>,
    pub updater: Updater<T::Family>,
    pub random: u64,
}
impl<T: Tested> World<T> {
    /// Builds a table of the first `plan.n` keys of the world.
    pub(crate) fn new(device: &Device, plan: Plan, tuning: UpdateTuning) -> Self {
        let n = plan.n as u64;
        let keys = (0..n).map(key::<T>).collect::<Vec<_>>();
        let value = |i| if has_values::<T>() { splitmix_at(9, i as u32) } else { 0 };
        let values = (0..n).map(|i| Number::narrowed(value(i))).collect::<Vec<_>>();
        let table = T::built(device, plan, &keys, &values);
        let updater = Updater::new(device, T::settings(), tuning).unwrap();
        let stream = device.stream().unwrap();
        World { stream, table, oracle: keys.into_iter().zip(values).collect(), updater, random: n }
    }
    pub(crate) fn slots(&self) -> usize {
        slots_of::<T::Family>(self.table.table().plan.shape)
    }
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.random += 1;
        splitmix_at(11, self.random as u32) % n.max(1)
    }
    /// Applies an operation to the oracle. Returns the expected outcome.
    pub(crate) fn expected(&mut self, code: u32, key: KeyOf<T>, value: ValueOf<T>) -> Outcome {
        let before = self.oracle.get(&key).copied();
        if code == ERASE {
            self.oracle.remove(&key);
            return if before.is_some() { Outcome::Erased } else { Outcome::Missing };
        }
        let Some(before) = before else {
            self.oracle.insert(key, value);
            return Outcome::Inserted;
        };
        // A set has no other operations.
        if code == INSERT || !has_values::<T>() {
            return Outcome::Kept;
        }
        let sum = Number::narrowed(before.widened().wrapping_add(value.widened()));
        self.oracle.insert(key, if code == ADD { sum } else { value });
        if code == ADD { Outcome::Added } else { Outcome::Assigned }
    }
    /// Applies a batch of keys of the world, and compares.
    pub(crate) fn apply(&mut self, operation: u32, numbers: &[u64]) {
        self.apply_keys(operation, &numbers.iter().map(|&i| key::<T>(i)).collect::<Vec<_>>());
        self.check();
    }
    pub(crate) fn apply_keys(&mut self, operation: u32, keys: &[KeyOf<T>]) {
        let n = keys.len();
        let value = |world: &mut Self| if has_values::<T>() { world.below(u64::MAX) } else { 0 };
        let values = (0..n).map(|_| Number::narrowed(value(self))).collect::<Vec<ValueOf<T>>>();
        let codes =
            (0..n).map(|_| if operation == EACH { self.below(4) as u8 } else { operation as u8 });
        let codes = codes.collect::<Vec<_>>();
        let device = self.stream.device().clone();
        let (k, v, o) = (
            device.upload(keys).unwrap(),
            device.upload(&values).unwrap(),
            device.upload(&codes).unwrap(),
        );
        let mut outcomes = device.upload(&vec![0xAA; n]).unwrap();
        let operations = match operation {
            EACH => Operations::Each(o.view()),
            all => Operations::All(all),
        };
        let batch = Batch { operations, keys: k.view(), values: v.view() };
        self.updater
            .apply(self.table.table_mut(), &self.stream, batch, outcomes.view_mut())
            .unwrap();
        for (i, outcome) in outcomes.download().unwrap().into_iter().enumerate() {
            let expected = self.expected(codes[i] as u32, keys[i], values[i]);
            assert_eq!(
                Outcome::of(outcome),
                Some(expected),
                "operation {i} of {n}: {} on {:?}",
                codes[i],
                keys[i]
            );
        }
    }
    pub(crate) fn check(&self) {
        assert_eq!(self.table.table().len().unwrap(), self.oracle.len());
        self.table.check_layout(&self.oracle);
        if self.stream.device().runs_kernels() {
            assert!(self.updater.memory.lists.download().unwrap().iter().all(|&word| word == !0));
        }
        // The layout and the entries tell that all keys are there; some of them are looked up.
        let keys = self.oracle.keys().copied().chain((0..900).map(key::<T>));
        let keys = keys.skip(self.random as usize % 5).step_by(5).collect::<Vec<_>>();
        for (key, found) in keys.iter().zip(self.table.found(&keys)) {
            assert_eq!(found, self.oracle.get(key).copied(), "key {key:?}");
        }
        assert!(T::Family::entries_on_host(self.table.table()).unwrap() == self.oracle);
    }
    /// Draws numbers of keys below `world`, some of them often.
    pub(crate) fn some(&mut self, n: usize, world: u64) -> Vec<u64> {
        let few = 1 + self.below(18);
        (0..n)
            .map(|_| if self.below(4) == 0 { self.below(few) } else { self.below(world) })
            .collect()
    }
}

/// Batches of every kind and size, in sequence.
pub(crate) fn batches<T: Tested>(seed: u64, tuning: UpdateTuning) {
    for device in both(seed) {
        let mut world = World::<T>::new(&device, plan::<T>(900, 0.8), tuning);
        world.check();
        for &operation in [EACH, INSERT, ERASE].iter().chain(kinds::<T>()).chain(&[EACH, ERASE]) {
            for n in [1, 33, 300] {
                let numbers = world.some(n, 1100);
                world.apply(operation, &numbers);
            }
        }
        world.apply(EACH, &[]);
        // All keys go and come back.
        world.apply(ERASE, &(0..1100).collect::<Vec<_>>());
        assert!(world.oracle.is_empty());
        world.apply(kinds::<T>()[0], &(0..700).collect::<Vec<_>>());
    }
}

/// Batches that change buckets in place: slots are claimed, keys are evicted directly or after a
/// third one, fillers come and go.
pub(crate) fn few<T: Tested>(seed: u64, load: f64) {
    let tuning =
        UpdateTuning { sparse_load: 9.0, ..if seed.is_multiple_of(2) { ONE } else { COARSE } };
    for device in both(seed) {
        let mut world = World::<T>::new(&device, plan::<T>(900, load), tuning);
        let slots = world.slots();
        for round in 0..4 {
            world.apply(INSERT, &(900 + round * 12..912 + round * 12).collect::<Vec<_>>());
            let others = if has_values::<T>() { &[(ASSIGN, 60), (ADD, 90)][..] } else { &[] };
            let all = [(ERASE, 200), (INSERT, 170), (EACH, 150), (ERASE, 1), (INSERT, 1)];
            for &(operation, n) in others.iter().chain(&all) {
                let numbers = world.some(n, 950);
                world.apply(operation, &numbers);
            }
        }
        assert!(world.slots() == slots || load > 0.8, "nothing must grow");
        world.apply(ERASE, &(0..950).collect::<Vec<_>>());
        assert!(world.oracle.is_empty());
    }
}
/// Small batches on nearly full tables of the CPU engine, some of whose keys are in the stash: what
/// they leave is done by the update of partitions, in order. Tables of every number of buckets.
pub(crate) fn in_place_beside_a_stash<T: Tested>() {
    let (mut stashed, device) = (0, Device::cpu_with_threads(1).unwrap());
    for n in [3, 9, 40, 200, 700] {
        let mut world = World::<T>::new(&device, plan::<T>(n, 0.95), FULL);
        let slots = world.slots() as u64;
        // As many keys as fill it, and some.
        world.apply(INSERT, &(0..slots + slots / 50).collect::<Vec<_>>());
        for round in 0..60 {
            let count = 1 + world.below(slots / 4);
            let numbers = world.some(count as usize, slots + slots / 20);
            world.apply([EACH, INSERT, ERASE, INSERT][round % 4], &numbers);
            stashed += world.table.stashed();
        }
    }
    assert!(stashed > 100, "{stashed}");
}
/// Batches that threads divide among them: keys in turn, repeated, and all on few partitions.
pub(crate) fn in_place_by_threads<T: Tested>() {
    let device = Device::cpu_with_threads(9).unwrap();
    let mut world = World::<T>::new(&device, plan::<T>(22_000, 0.75), ONE);
    let kinds = kinds::<T>().iter().chain(&[EACH]);
    for &operation in kinds {
        let numbers = world.some(9000, 24_000);
        world.apply(operation, &numbers);
    }
    world.apply(EACH, &(0..8192).map(|i| i % 5000).collect::<Vec<_>>());
    world.apply(EACH, &[17; 8200]);
}
/// All keys go and others come, many times: the table keeps its memory, and what they leave behind
/// is removed.
pub(crate) fn churn_in_place<T: Tested>() {
    let device = Device::cpu_with_threads(2).unwrap();
    let mut world = World::<T>::new(&device, plan::<T>(1000, 0.8), ONE);
    let (slots, erased) = (world.slots(), |world: &World<T>| match &world.table.table().storage {
        Storage::Cpu(on_cpu) => on_cpu.erased,
        Storage::Kernels(_) => unreachable!("on a CPU"),
    });
    let (mut next, mut recounts) = (0, 0);
    for _ in 0..20 {
        let before = erased(&world);
        world.apply(ERASE, &(next..next + 250).collect::<Vec<_>>());
        world.apply(INSERT, &(next + 1000..next + 1250).collect::<Vec<_>>());
        recounts += (erased(&world) < before) as u32;
        next += 250;
    }
    assert_eq!((world.slots(), recounts > 1), (slots, true));
}

/// Most operations are on a few keys: bins overflow, entries do not.
pub(crate) fn frequent<T: Tested>(seed: u64) {
    for tuning in [ONE, COARSE, TWO, TIGHT] {
        let mut world = World::<T>::new(&device(seed), plan::<T>(900, 0.5), tuning);
        let slots = world.slots();
        for &operation in kinds::<T>().iter().chain(&[EACH]) {
            let n = if operation == EACH { 200 } else { 700 };
            let numbers =
                (0..n).map(|i| if i % 8 != 0 { 905 + i % 2 } else { i }).collect::<Vec<_>>();
            world.apply(operation, &numbers);
            world.apply(operation, &[AMBIGUOUS; 100]);
        }
        // If there are few entries, the table is rebuilt with another seed: its size stays the
        // same, except for rounding.
        assert!(
            (slots..slots + slots / 100).contains(&world.slots()),
            "nothing must grow: {} of {slots}",
            world.slots()
        );
    }
}

/// More pairs than two choices can place, of which many are new: they go to the stash, can be
/// changed and erased there, and leave it.
pub(crate) fn stash<T: Tested>(seed: u64, more: u64) {
    let mut world = World::<T>::new(&device(seed), plan::<T>(900, 0.95), FULL);
    let slots = world.slots();
    let all = (0..900 + more).collect::<Vec<_>>();
    world.apply(INSERT, &all[900..]);
    let before = world.table.stashed();
    assert!(before > 10, "{before}");
    for &operation in kinds::<T>().iter().filter(|&&operation| operation != ERASE) {
        world.apply(operation, &all);
    }
    assert!(world.table.stashed() > 10);
    let numbers = world.some(200, 1000);
    world.apply(EACH, &numbers);
    world.apply(ERASE, &all.iter().copied().step_by(2).collect::<Vec<_>>());
    // The batch reached every partition.
    assert_eq!(world.table.stashed(), 0);
    world.apply(INSERT, &all);
    assert!(world.table.stashed() > 10);
    world.apply(ERASE, &(0..1000 + more).collect::<Vec<_>>());
    assert_eq!((world.table.stashed(), world.oracle.len()), (0, 0));
    assert_eq!(world.slots(), slots, "nothing must grow");
}

/// More pairs than there is room for.
pub(crate) fn growth<T: Tested>(seed: u64) {
    let [first, .., last] = kinds::<T>() else { unreachable!("there is more than one") };
    assert_eq!(*last, ERASE);
    for device in both(seed) {
        let mut world = World::<T>::new(&device, plan::<T>(300, 0.8), ONE);
        let slots = world.slots();
        world.apply(INSERT, &(0..600).collect::<Vec<_>>());
        let grown = world.slots();
        assert!(grown > slots && grown as f64 > 600.0 / 0.85, "{slots} {grown}");
        let numbers = world.some(1200, 2000);
        world.apply(EACH, &numbers);
        // Many more keys than the table holds.
        world.apply(*first, &(0..6000).collect::<Vec<_>>());
        let grown = world.slots();
        assert!((7000..9000).contains(&grown), "{grown}");
        // Many times more operations than slots.
        let mut other = World::<T>::new(&device, plan::<T>(10, 0.8), ONE);
        other.apply(*first, &(0..9000).map(|i| i % 4000).collect::<Vec<_>>());
        // All keys are present: the table does not grow.
        world.apply(INSERT, &(0..3000).map(|i| i % 6000).collect::<Vec<_>>());
        assert_eq!(world.slots(), grown);
        world.apply(ERASE, &(0..5900).collect::<Vec<_>>());
        world.table.shrink_to(0.5);
        world.check();
        assert!(world.slots() < 300, "{}", world.slots());
        world.table.shrink_to(0.8);
        world.check();
    }
}
/// Mixed batches of which only a part fits: the rest is done later, as are all later operations on
/// the same keys.
pub(crate) fn mixed_that_do_not_fit<T: Tested>() {
    for seed in 1..5 {
        for device in both(seed) {
            let tuning = if seed % 2 == 0 { ONE } else { TIGHT };
            let mut world = World::<T>::new(&device, plan::<T>(300, 0.9), tuning);
            world.random = seed << 20;
            let numbers = world.some(1200, 700);
            world.apply(EACH, &numbers);
        }
    }
}
/// A stash without room: the table is rebuilt, and holds the old and the new keys.
pub(crate) fn full_stash<T: Tested>() {
    for bits in [0, 3] {
        let mut plan = plan::<T>(900, 0.9);
        plan.stash_bits = bits;
        let mut world = World::<T>::new(&device(1), plan, FULL);
        world.apply(INSERT, &(800..1100).collect::<Vec<_>>());
        let numbers = world.some(300, 1300);
        world.apply(EACH, &numbers);
    }
}
/// Keys of 64 bits crafted so that no other table with the same seed has room for them either.
pub(crate) fn keys_of_two_buckets<T: Tested>() {
    for device in both(1) {
        let mut world = World::<T>::new(&device, plan::<T>(200, 0.8), ONE);
        let mixed = |i: u64| Number::narrowed(0x1234_5678_0000_0000 | i);
        let keys = (0..700).map(|i| PairsOf::<T>::unmixed(SEED, mixed(i))).collect::<Vec<_>>();
        world.apply_keys(INSERT, &keys);
        world.check();
        world.apply_keys(ERASE, &keys[..650]);
        world.check();
    }
}
/// Enqueues `n` operations. Of those on one key, all or none are done; those that are not can be
/// done later.
pub(crate) fn not_done_is_told<T: Tested>(n: u64) {
    for device in both(1) {
        let mut world = World::<T>::new(&device, plan::<T>(300, 0.8), ONE);
        let keys = (0..n).map(|i| key::<T>(i / 2 + 200)).collect::<Vec<_>>();
        let values = vec![ValueOf::<T>::default(); keys.len()];
        let (k, v) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        let mut outcomes = device.alloc::<u8>(keys.len()).unwrap();
        let (code, plan) = (kinds::<T>()[0], world.table.table().plan);
        let batch = Batch { operations: Operations::All(code), keys: k.view(), values: v.view() };
        for _ in 0..2 {
            world
                .updater
                .enqueue(world.table.table_mut(), &world.stream, batch, outcomes.view_mut())
                .unwrap();
            let done = outcomes.download().unwrap();
            let mut not_done = 0;
            for (i, &outcome) in done.iter().enumerate() {
                if Outcome::of(outcome) == Some(Outcome::NotDone) {
                    not_done += 1;
                } else {
                    assert_eq!(
                        Outcome::of(outcome),
                        Some(world.expected(code, keys[i], values[i]))
                    );
                }
            }
            assert!(not_done > 0 && not_done < n, "{not_done}");
            assert!(world.table.table().plan == plan);
            world.check();
        }
    }
}

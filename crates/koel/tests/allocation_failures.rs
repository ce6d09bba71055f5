//! Every allocation of device memory of an operation fails once. Each time the error is clean, and
//! existing data is unchanged.
mod support;

use koel::device::{allocation_failed, fail_allocation_after};
use koel::keys128::{Map128Builder, Map128Options, Set128Builder};
use koel::map::{MapBuilder, MapOptions, MapUpdater, Operation, Operations};
use koel::set::{SetBuilder, SetOptions};
use koel::{Device, Error, Index, Index128, Map, Map128, MultiMap, Outcome, Result, Set, Set128};
use std::io::Cursor;
use std::sync::{Mutex, PoisonError};
use support::{devices, is_fast};

/// Repeats `run`, failing another of its allocations each time, until all have failed once. After
/// each failure `intact` checks the existing data. Returns the number of failures.
fn each_failure<S>(
    name: &str,
    new: impl Fn() -> S,
    run: impl Fn(&mut S) -> Result<()>,
    intact: impl Fn(&mut S),
    done: impl Fn(&mut S),
) -> u32 {
    for n in 0.. {
        let mut state = new();
        fail_allocation_after(n);
        let result = run(&mut state);
        match (allocation_failed(), result) {
            (false, result) => {
                result.unwrap_or_else(|e| panic!("{name}: {e}"));
                done(&mut state);
                return n;
            }
            (true, Err(Error::OutOfMemory { .. })) => intact(&mut state),
            (true, Err(e)) => panic!("{name}, allocation {n}: {e}"),
            (true, Ok(())) => panic!("{name}, allocation {n}: failed, and nothing was said"),
        }
        // Runs again, with what the failure left.
        run(&mut state).unwrap_or_else(|e| panic!("{name} after allocation {n} failed: {e}"));
        done(&mut state);
    }
    unreachable!("operations end")
}

/// A device, and the numbers of keys before and after the operation.
struct Trial<'a> {
    device: &'a Device,
    old: u32,
    new: u32,
}
impl Trial<'_> {
    /// Checks that a map holds exactly the first `n` keys, with the values of a version.
    fn holds(&self, map: &Map, n: u32, version: u32) {
        assert_eq!(map.len().unwrap(), n as usize);
        let found = map.get(&keys(self.new)).unwrap();
        for (i, (found, key)) in found.into_iter().zip(keys(self.new)).enumerate() {
            assert_eq!(found, (i < n as usize).then(|| key.wrapping_add(version)), "key {i}");
        }
    }
    /// Checks that exactly the insertions with a successful outcome were done.
    fn is_as_told(&self, map: &Map, outcomes: &[u8]) {
        for (i, (found, key)) in
            map.get(&keys(self.new)).unwrap().into_iter().zip(keys(self.new)).enumerate()
        {
            let before = (i < self.old as usize).then(|| key.wrapping_add(1));
            let expected = match Outcome::of(outcomes[i]) {
                None | Some(Outcome::NotDone) => before,
                Some(_) => Some(key.wrapping_add(2)),
            };
            assert_eq!(found, expected, "key {i}, outcome {}", outcomes[i]);
        }
    }
    /// Checks that each key has its old value or that of its insertion, and no old key is missing.
    fn is_partly_changed(&self, map: &Map) {
        let found = map.get(&keys(self.new)).unwrap();
        let present = found.iter().flatten().count();
        for (i, (found, key)) in found.into_iter().zip(keys(self.new)).enumerate() {
            let values = [1, 2].map(|version| Some(key.wrapping_add(version)));
            assert!(
                values.contains(&found) || (found.is_none() && i >= self.old as usize),
                "key {i}: {found:?}"
            );
        }
        assert_eq!(map.len().unwrap(), present);
    }
}
/// A byte that no outcome has: the operation was not executed.
const NOTHING: u8 = 0xFF;
fn keys(n: u32) -> Vec<u32> {
    (0..n).map(|i| i.wrapping_mul(0x9E37_79B9)).collect()
}
fn values(n: u32, version: u32) -> Vec<u32> {
    keys(n).iter().map(|k| k.wrapping_add(version)).collect()
}
fn builds(trial: &Trial<'_>) -> u32 {
    let &Trial { device, old, .. } = trial;
    let wide = keys(old).iter().map(|&k| k as u128 | 1 << 100).collect::<Vec<_>>();
    let none = |_: &mut ()| ();
    let build =
        |name: &str, run: &dyn Fn() -> Result<()>| each_failure(name, || (), |_| run(), none, none);
    let (keys, values) = (keys(old), values(old, 1));
    build("Map::build", &|| Map::build(device, &keys, &values).map(drop))
        + build("Set::build", &|| Set::build(device, &keys).map(drop))
        + build("Index::build", &|| Index::build(device, &keys).map(drop))
        + build("MultiMap::build", &|| MultiMap::build(device, &keys, &values).map(drop))
        + build("Map128::build", &|| Map128::build(device, &wide, &values).map(drop))
        + build("Set128::build", &|| Set128::build(device, &wide).map(drop))
        + build("Index128::build", &|| Index128::build(device, &wide).map(drop))
        + build("unique", &|| koel::set::unique(device, &keys).map(drop))
}
fn rebuilds(trial: &Trial<'_>) -> u32 {
    let &Trial { device, old, new } = trial;
    let stream = device.stream().unwrap();
    let (staged, of_keys) = (keys(new), values(new, 2));
    let (staged, of_keys) = (device.upload(&staged).unwrap(), device.upload(&of_keys).unwrap());
    let maps = each_failure(
        "MapBuilder::rebuild",
        || {
            (
                Map::build(device, &keys(old), &values(old, 1)).unwrap(),
                MapBuilder::new(device, MapOptions::default()).unwrap(),
            )
        },
        |(map, builder)| builder.rebuild(map, &stream, staged.view(), of_keys.view()),
        |(map, _)| trial.holds(map, old, 1),
        |(map, _)| trial.holds(map, new, 2),
    );
    let before = keys(old);
    let sets = each_failure(
        "SetBuilder::rebuild",
        || {
            (
                Set::build(device, &before).unwrap(),
                SetBuilder::new(device, SetOptions::default()).unwrap(),
            )
        },
        |(set, builder)| builder.rebuild(set, &stream, staged.view()),
        |(set, _)| assert_eq!(set.count(&keys(new)).unwrap(), old as u64),
        |(set, _)| assert_eq!(set.count(&keys(new)).unwrap(), new as u64),
    );
    maps + sets + rebuilds_128(trial)
}
/// 128-bit keys, some of them duplicates: the kept rows take less room than the input.
fn rebuilds_128(trial: &Trial<'_>) -> u32 {
    let &Trial { device, old, new } = trial;
    let stream = device.stream().unwrap();
    let wide = |n: u32| keys(n).iter().map(|&k| (k as u128) << 90 | k as u128).collect::<Vec<_>>();
    let mut twice = wide(new);
    twice.extend(wide(old / 2));
    let of_keys = device
        .upload(&values(new, 2).into_iter().chain(values(old / 2, 2)).collect::<Vec<_>>())
        .unwrap();
    let staged = device.upload(&twice).unwrap();
    let holds = |map: &Map128, n: u32, version: u32| {
        assert_eq!(map.len(), n as usize);
        let found = map.get(&wide(new)).unwrap();
        let expected = keys(new)
            .into_iter()
            .zip(0..)
            .map(|(key, i)| (i < n).then(|| key.wrapping_add(version)));
        assert!(found.into_iter().eq(expected));
    };
    let maps = each_failure(
        "Map128Builder::rebuild",
        || {
            let map = Map128::build(device, &wide(old), &values(old, 1)).unwrap();
            (map, Map128Builder::new(device, Map128Options::default()).unwrap())
        },
        |(map, builder)| builder.rebuild(map, &stream, staged.view(), of_keys.view()),
        |(map, _)| holds(map, old, 1),
        |(map, _)| holds(map, new, 2),
    );
    let counts = |set: &Set128, n: u32| {
        assert_eq!((set.len(), set.count(&wide(new)).unwrap()), (n as usize, n as u64));
    };
    let sets = each_failure(
        "Set128Builder::rebuild",
        || {
            (
                Set128::build(device, &wide(old)).unwrap(),
                Set128Builder::new(device, SetOptions::default()).unwrap(),
            )
        },
        |(set, builder)| builder.rebuild(set, &stream, staged.view()),
        |(set, _)| counts(set, old),
        |(set, _)| counts(set, new),
    );
    maps + sets
}
/// Insertions that make a map grow, and operations of all kinds. Operations before the failure stay
/// done, as the outcomes report.
fn updates(trial: &Trial<'_>) -> u32 {
    let &Trial { device, old, new } = trial;
    let stream = device.stream().unwrap();
    let (more, of_more) =
        (device.upload(&keys(new)).unwrap(), device.upload(&values(new, 2)).unwrap());
    let grown = each_failure(
        "MapUpdater::apply",
        || {
            let map = Map::build(device, &keys(old), &values(old, 1)).unwrap();
            let outcomes = device.upload(&vec![NOTHING; new as usize]).unwrap();
            (map, MapUpdater::new(device, MapOptions::default()).unwrap(), outcomes)
        },
        |(map, updater, outcomes)| {
            let all = Operations::All(Operation::InsertOrAssign);
            updater.apply(map, &stream, all, more.view(), of_more.view(), outcomes.view_mut())
        },
        |(map, _, outcomes)| trial.is_as_told(map, &outcomes.download().unwrap()),
        |(map, ..)| trial.holds(map, new, 2),
    );
    let inserted = each_failure(
        "Map::insert_or_assign",
        || Map::build(device, &keys(old), &values(old, 1)).unwrap(),
        |map| map.insert_or_assign(&keys(new), &values(new, 2)).map(drop),
        |map| trial.is_partly_changed(map),
        |map| trial.holds(map, new, 2),
    );
    let into_set = each_failure(
        "Set::insert",
        || Set::build(device, &keys(old)).unwrap(),
        |set| set.insert(&keys(new)).map(drop),
        |set| assert_eq!(set.count(&keys(old)).unwrap(), old as u64),
        |set| assert_eq!(set.count(&keys(new)).unwrap(), new as u64),
    );
    let shrunk = each_failure(
        "Map::shrink",
        || {
            let mut map = Map::build(device, &keys(new), &values(new, 1)).unwrap();
            map.erase(&keys(new)[old as usize..]).unwrap();
            map
        },
        |map| map.shrink(),
        |map| trial.holds(map, old, 1),
        |map| trial.holds(map, old, 1),
    );
    grown + inserted + into_set + shrunk
}
fn lookups(trial: &Trial<'_>) -> u32 {
    let &Trial { device, old, new } = trial;
    let map = Map::build(device, &keys(old), &values(old, 1)).unwrap();
    let multi = MultiMap::build(device, &keys(old), &values(old, 1)).unwrap();
    let asked = keys(new);
    let ask = |name: &str, run: &dyn Fn() -> Result<()>| {
        each_failure(
            name,
            || (),
            |_| run(),
            |_| trial.holds(&map, old, 1),
            |_| trial.holds(&map, old, 1),
        )
    };
    ask("Map::get", &|| map.get(&asked).map(drop))
        + ask("Map::join", &|| map.join(&asked).map(|rows| assert_eq!(rows.len(), old as usize)))
        + ask("Map::semi_join", &|| map.semi_join(&asked).map(drop))
        + ask("Map::pairs", &|| map.pairs().map(drop))
        + ask("MultiMap::retrieve", &|| multi.retrieve(&asked).map(drop))
        + ask("Map::to_device", &|| map.to_device(device).map(drop))
        + ask("Map::save_to", &|| map.save_to(&mut Cursor::new(vec![])))
}

/// Runs tests one at a time: the failing allocation may be on any thread.
static ALONE: Mutex<()> = Mutex::new(());
fn on_all(what: &str, run: impl Fn(&Trial<'_>) -> u32) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for device in devices() {
        let (old, new) = if is_fast(&device) { (50_000, 115_000) } else { (400, 1300) };
        let failed = run(&Trial { device: &device, old, new });
        println!("{device:?}: {failed} allocations of {what} failed");
        assert!(failed > 0);
    }
}
#[test]
fn of_builds() {
    on_all("builds", builds);
}
#[test]
fn of_rebuilds() {
    on_all("rebuilds", rebuilds);
}
#[test]
fn of_updates() {
    on_all("updates", updates);
}
#[test]
fn of_lookups() {
    on_all("lookups", lookups);
}

//! Every allocation of an operation fails once. Each time the error is clean, and existing data is
//! unchanged, or the outcomes state what is done.
//!
//! On every device, koel is asked to fail: see [`fail_allocation_after`]. On CPUs, the allocator of
//! this program fails too, for [large](LARGE) allocations of any code: an allocation that cannot
//! fail would abort. The executor's own memory is no part of that.
mod support;

use koel::any::{self, Column, Keys, Kind, Nulls, Table, Validity};
use koel::device::{allocation_failed, fail_allocation_after};
use koel::groups::reduction::Sum;
use koel::keys128::{Map128Builder, Set128Builder};
use koel::map::{MapBuilder, MapOptions, MapUpdater, Operation, Operations};
use koel::primitives::{
    Bins, SortKeys, compact, exclusive_scan, histogram, partition_exact, sort_keys, sort_pairs, sum,
};
use koel::set::{
    SetBuilder, SetOperation, SetOptions, SetUpdater, difference, intersection, union, unique,
};
use koel::{
    Buffer, Device, DeviceKind, Error, How, Index, Map, Map128, MultiMap, Outcome, Result, Set,
    Set128, StringIndex, StringMap, ViewMut, string_counts,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Cursor;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use support::{devices, is_fast, run_again};

/// Fails one large allocation: the one after [`LEFT`] others, which is negative if none will fail.
struct Failing;
static LEFT: AtomicI64 = AtomicI64::new(-1);
/// Bytes from which on an allocation is large. Smaller ones do not depend on the input: queues of
/// rayon, parts of streams, errors.
const LARGE: usize = 4096;
#[global_allocator]
static ALLOCATOR: Failing = Failing;
fn fails(bytes: usize) -> bool {
    bytes >= LARGE && LEFT.load(SeqCst) >= 0 && LEFT.fetch_sub(1, SeqCst) == 0
}
// SAFETY: the system's allocator, or null, which any allocator may return.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        if fails(layout.size()) { null_mut() } else { unsafe { System.alloc(layout) } }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract.
        if fails(layout.size()) { null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }
    unsafe fn realloc(&self, old: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's contract.
        if fails(bytes) { null_mut() } else { unsafe { System.realloc(old, layout, bytes) } }
    }
    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(old, layout) }
    }
}
/// Whether the allocator fails, instead of koel.
static BY_ALLOCATOR: AtomicBool = AtomicBool::new(false);
fn fail_after(n: u32) {
    if BY_ALLOCATOR.load(SeqCst) { LEFT.store(n.into(), SeqCst) } else { fail_allocation_after(n) }
}
fn has_failed() -> bool {
    // Two threads may count at once: then it is less than -1.
    if BY_ALLOCATOR.load(SeqCst) { LEFT.swap(-1, SeqCst) < 0 } else { allocation_failed() }
}

/// Repeats `run`, failing another of its allocations each time, until all have failed once. After
/// each failure `intact` checks the existing data; after a success, in spite of a failure or
/// without, `done` does. Returns the number of failures.
fn each_failure<S>(
    name: &str,
    new: impl Fn() -> S,
    run: impl Fn(&mut S) -> Result<()>,
    intact: impl Fn(&mut S),
    done: impl Fn(&mut S),
) -> u32 {
    for n in 0.. {
        let mut state = new();
        fail_after(n);
        let result = run(&mut state);
        match (has_failed(), result) {
            (false, result) => {
                result.unwrap_or_else(|e| panic!("{name}: {e}"));
                done(&mut state);
                return n;
            }
            (true, Err(Error::OutOfMemory { .. })) => intact(&mut state),
            (true, Err(e)) => panic!("{name}, allocation {n}: {e}"),
            // There was another way, such as one thread instead of many.
            (true, Ok(())) => done(&mut state),
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
    /// Whether koel is asked to fail. The crate rdst, which sorts keys on a CPU, would abort: koel
    /// only makes sure that there is room before.
    asks: bool,
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
    /// Returns outcomes of insertions before they run: they claim that all are done.
    fn outcomes(&self) -> Buffer<u8> {
        self.device.upload(&vec![Outcome::Inserted as u8; self.new as usize]).unwrap()
    }
    /// Checks that exactly the insertions with a successful outcome were done.
    fn is_as_told(&self, map: &Map, outcomes: &[u8]) {
        for (i, (found, key)) in
            map.get(&keys(self.new)).unwrap().into_iter().zip(keys(self.new)).enumerate()
        {
            let before = (i < self.old as usize).then(|| key.wrapping_add(1));
            let expected = match Outcome::of(outcomes[i]).unwrap() {
                Outcome::NotDone => before,
                _ => Some(key.wrapping_add(2)),
            };
            assert_eq!(found, expected, "key {i}, outcome {}", outcomes[i]);
        }
    }
}
fn keys(n: u32) -> Vec<u32> {
    (0..n).map(|i| i.wrapping_mul(0x9E37_79B9)).collect()
}
fn values(n: u32, version: u32) -> Vec<u32> {
    keys(n).iter().map(|k| k.wrapping_add(version)).collect()
}
fn builds(trial: &Trial<'_>) -> u32 {
    let &Trial { device, old, asks, .. } = trial;
    let wide = keys(old).iter().map(|&k| k as u128 | 1 << 100).collect::<Vec<_>>();
    let none = |_: &mut ()| ();
    let build =
        |name: &str, run: &dyn Fn() -> Result<()>| each_failure(name, || (), |_| run(), none, none);
    let (keys, values) = (keys(old), values(old, 1));
    let wide_values = keys.iter().map(|&key| key as u64).collect::<Vec<_>>();
    let of_sorted = if asks {
        build("Index::build", &|| Index::build(device, &keys).map(drop))
            + build("MultiMap::build", &|| MultiMap::build(device, &keys, &values).map(drop))
    } else {
        0
    };
    // In bins, on several threads.
    let many = if is_fast(device) { 200_000 } else { old };
    let (many, of_many) = (self::keys(many), self::values(many, 1));
    of_sorted
        + build("Map::build", &|| Map::build(device, &keys, &values).map(drop))
        + build("Map::build in bins", &|| Map::build(device, &many, &of_many).map(drop))
        + build("Set::build", &|| Set::build(device, &keys).map(drop))
        + build("Set::build in bins", &|| Set::build(device, &many).map(drop))
        + build("Map128::build", &|| Map128::build(device, &wide, &values).map(drop))
        + build("Set128::build", &|| Set128::build(device, &wide).map(drop))
        + build("Index::build", &|| Index::build(device, &wide).map(drop))
        + build("unique", &|| unique(device, &keys).map(drop))
        + build("union", &|| union(device, &keys, &values).map(drop))
        + build("intersection", &|| intersection(device, &keys, &values).map(drop))
        + build("difference", &|| difference(device, &keys, &values).map(drop))
        + build("MapBuilder::build", &|| {
            let options = MapOptions::default().with_reproducible(true);
            let (stream, keys) = (device.stream()?, device.upload(&keys)?);
            let values = device.upload(&wide_values)?;
            MapBuilder::new(device, options)?.build(&stream, keys.view(), values.view()).map(drop)
        })
}
fn rebuilds(trial: &Trial<'_>) -> u32 {
    let &Trial { device, old, new, .. } = trial;
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
    let &Trial { device, old, new, .. } = trial;
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
            (map, Map128Builder::new(device, MapOptions::default()).unwrap())
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
/// Tables of strings, in columns in which some repeat, and all of few do.
fn strings(trial: &Trial<'_>) -> u32 {
    let &Trial { device, old, new, .. } = trial;
    let words = |n: u32| (0..n).map(|i| format!("word {i}")).collect::<Vec<_>>();
    let mut twice = words(new);
    twice.extend(words(old / 2));
    let few = (0..new).map(|i| format!("word {}", i % 7)).collect::<Vec<_>>();
    let (all, of_all) = (words(new), values(twice.len() as u32, 1));
    let map = StringMap::build(device, &twice, &of_all).unwrap();
    let repeated = |failed: &str, run: &dyn Fn() -> Result<()>| {
        each_failure(failed, || (), |()| run(), |()| (), |()| ())
    };
    repeated("StringMap::build", &|| {
        let map = StringMap::build(device, &twice, &of_all)?;
        let found = map.get(&[&all[0], &all[new as usize - 1]])?;
        assert_eq!(found, [Some(of_all[new as usize]), Some(of_all[new as usize - 1])]);
        Ok(())
    }) + repeated("StringIndex::encode", &|| {
        let (index, ids) = StringIndex::encode(device, &twice)?;
        assert!(index.len() == all.len() && ids.iter().copied().eq((0..new).chain(0..old / 2)));
        Ok(())
    }) + repeated("string_counts", &|| {
        let (words, counts) = string_counts(device, &few)?;
        assert!(words.len() == 7 && counts.iter().sum::<u32>() == new);
        Ok(())
    }) + repeated("StringMap lookups", &|| {
        assert!(map.get_or(&all, 0)?.len() == all.len() && map.contains(&all)?.iter().all(|&t| t));
        assert_eq!(map.set().count(&all)?, all.len() as u64);
        assert!(map.keys()?.len() == all.len() && map.values()?.len() == all.len());
        Ok(())
    })
}
/// Tables of columns, looked up with nulls among the keys.
fn columns(trial: &Trial<'_>) -> u32 {
    let &Trial { device, old: n, asks, .. } = trial;
    let numbers = keys(n).into_iter().map(|key| key as i32).collect::<Vec<_>>();
    let floats = values(n, 1).into_iter().map(|value| value as f32).collect::<Vec<_>>();
    let words = (0..n).map(|i| format!("word {i}")).collect::<Vec<_>>();
    let valid = (0..n).map(|i| i % 3 > 0).collect::<Vec<_>>();
    let known = valid.iter().filter(|valid| **valid).count();
    let all = |kind: Kind, keys: Column<'_>, values: Option<Column<'_>>| {
        let run = |(): &mut ()| {
            let table = Table::build(device, kind, &keys, values.as_ref())?;
            let queries = keys.with_validity(Validity::Flags(&valid))?;
            let found = table.contains(&queries)?;
            assert_eq!(found.iter().filter(|found| **found).count(), known);
            assert_eq!(table.keys()?[0].len(), keys.len());
            match kind {
                Kind::Map => {
                    assert_eq!(table.get(&queries)?.as_column().nulls(), keys.len() - known);
                    assert_eq!(table.pairs()?.1.len(), keys.len());
                }
                Kind::MultiMap => {
                    assert_eq!(table.retrieve(&queries)?.values.len(), known);
                    assert_eq!(table.pairs()?.0[0].len(), keys.len());
                }
                Kind::Index => {
                    assert_eq!(table.keys_of(&table.ids(&queries)?)?[0].len(), keys.len())
                }
                Kind::Set => (),
            }
            Ok(())
        };
        each_failure(&format!("a table of columns, {kind}"), || (), run, |()| (), |()| ())
    };
    let values = || Some(Column::from(&floats));
    let mut failed = all(Kind::Map, Column::from(&numbers), values())
        + all(Kind::Map, Column::from(&words), values())
        + all(Kind::Set, Column::from(&words), None)
        + all(Kind::Index, Column::from(&words), None);
    if asks {
        failed += all(Kind::MultiMap, Column::from(&numbers), values());
    }
    failed
}
/// Insertions that make a map grow, and operations of all kinds. Operations before the failure stay
/// done, as the outcomes report.
fn updates(trial: &Trial<'_>) -> u32 {
    let &Trial { device, old, new, .. } = trial;
    let stream = device.stream().unwrap();
    let (more, of_more) =
        (device.upload(&keys(new)).unwrap(), device.upload(&values(new, 2)).unwrap());
    let grown = each_failure(
        "MapUpdater::apply",
        || {
            let map = Map::build(device, &keys(old), &values(old, 1)).unwrap();
            (map, MapUpdater::new(device, MapOptions::default()).unwrap(), trial.outcomes())
        },
        |(map, updater, outcomes)| {
            let all = Operations::All(Operation::InsertOrAssign);
            updater.apply(map, &stream, all, more.view(), of_more.view(), outcomes.view_mut())
        },
        |(map, _, outcomes)| trial.is_as_told(map, &outcomes.download().unwrap()),
        |(map, ..)| trial.holds(map, new, 2),
    );
    let set_grown = each_failure(
        "SetUpdater::apply",
        || {
            let set = Set::build(device, &keys(old)).unwrap();
            (set, SetUpdater::new(device, SetOptions::default()).unwrap(), trial.outcomes())
        },
        |(set, updater, outcomes)| {
            let all = Operations::All(SetOperation::Insert);
            updater.apply(set, &stream, all, more.view(), outcomes.view_mut())
        },
        |(set, _, outcomes)| {
            let found = set.contains(&keys(new)).unwrap();
            for (i, outcome) in outcomes.download().unwrap().into_iter().enumerate() {
                let is_done = Outcome::of(outcome).unwrap() != Outcome::NotDone;
                assert_eq!(found[i], is_done || i < old as usize, "key {i}, outcome {outcome}");
            }
        },
        |(set, ..)| assert_eq!(set.count(&keys(new)).unwrap(), new as u64),
    );
    // Operations that are done change keys to this.
    type Expected = fn(before: Option<u32>, value: u32) -> Option<u32>;
    let batches: [(Operation, Expected); 4] = [
        (Operation::Insert, |before, value| before.or(Some(value))),
        (Operation::InsertOrAssign, |_, value| Some(value)),
        (Operation::InsertOrAdd, |before, value| Some(before.unwrap_or(0).wrapping_add(value))),
        (Operation::Erase, |_, _| None),
    ];
    let (all, of_all) = (keys(new), values(new, 2));
    let mut from_host = 0;
    for each in [false, true] {
        for (operation, expected) in batches {
            let operations = vec![operation; all.len()];
            let run = |map: &mut Map| match (each, operation) {
                (true, _) => map.update(&operations, &all, &of_all),
                (_, Operation::Insert) => map.insert(&all, &of_all),
                (_, Operation::InsertOrAssign) => map.insert_or_assign(&all, &of_all),
                (_, Operation::InsertOrAdd) => map.insert_or_add(&all, &of_all),
                (_, Operation::Erase) => map.erase(&all),
            };
            from_host += batch_fails(
                || Map::build(device, &keys(old), &values(old, 1)).unwrap(),
                run,
                |map, outcomes| {
                    let found = map.get(&all).unwrap();
                    for (i, found) in found.into_iter().enumerate() {
                        let before = (i < old as usize).then(|| all[i].wrapping_add(1));
                        let is_done = outcomes.is_some_and(|o| o[i] != Outcome::NotDone);
                        let after = if is_done { expected(before, of_all[i]) } else { before };
                        assert_eq!(found, after, "{operation:?} {i}");
                    }
                    assert_eq!(map.len().unwrap() as u64, map.count(&all).unwrap());
                },
            );
        }
    }
    // Additions to few keys, which a CPU sums first.
    let (few, added) = (keys(7), |i: usize| i as u32 + 1);
    let repeated = (0..1100).map(|i| few[i * i % 7]).collect::<Vec<_>>();
    let of_repeated = (0..1100).map(added).collect::<Vec<_>>();
    from_host += batch_fails(
        || Map::build(device, &few[..3], &values(3, 1)).unwrap(),
        |map| map.insert_or_add(&repeated, &of_repeated),
        |map, outcomes| {
            let before = |key: &u32| few[..3].contains(key).then(|| key.wrapping_add(1));
            let mut expected = few.iter().map(|key| (*key, before(key))).collect::<Vec<_>>();
            let is_done = |i: usize| outcomes.is_some_and(|o| o[i] != Outcome::NotDone);
            for (i, key) in repeated.iter().enumerate().filter(|(i, _)| is_done(*i)) {
                let (_, sum) = expected.iter_mut().find(|(of, _)| of == key).unwrap();
                *sum = Some(sum.unwrap_or(0).wrapping_add(added(i)));
            }
            for (key, expected) in expected {
                assert_eq!(map.get(&[key]).unwrap(), [expected], "key {key}");
            }
        },
    );
    for erases in [false, true] {
        let run = |set: &mut Set| if erases { set.erase(&all) } else { set.insert(&all) };
        from_host += batch_fails(
            || Set::build(device, &keys(old)).unwrap(),
            run,
            |set, outcomes| {
                for (i, found) in set.contains(&all).unwrap().into_iter().enumerate() {
                    let is_done = outcomes.is_some_and(|o| o[i] != Outcome::NotDone);
                    assert_eq!(found, if is_done { !erases } else { i < old as usize }, "{i}");
                }
                assert_eq!(set.len().unwrap() as u64, set.count(&all).unwrap());
            },
        );
    }
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
    grown + set_grown + from_host + shrunk
}
/// Fails each allocation of a batch in host memory. `check` compares a table with the outcomes, or
/// with its state before if there are none. What is not done is repeated.
fn batch_fails<T>(
    new: impl Fn() -> T,
    run: impl Fn(&mut T) -> Result<Vec<Outcome>>,
    check: impl Fn(&mut T, Option<&[Outcome]>),
) -> u32 {
    for n in 0.. {
        let mut table = new();
        fail_after(n);
        let result = run(&mut table);
        let failed = has_failed();
        match result {
            Ok(outcomes) => {
                assert!(outcomes.iter().all(|&outcome| outcome != Outcome::NotDone));
                check(&mut table, Some(&outcomes));
            }
            Err(Error::OutOfMemory { .. }) if failed => check(&mut table, None),
            Err(Error::PartlyDone { outcomes, source }) if failed => {
                assert!(matches!(*source, Error::OutOfMemory { .. }));
                assert!(outcomes.iter().any(|&outcome| outcome != Outcome::NotDone));
                check(&mut table, Some(&outcomes));
            }
            Err(e) => panic!("allocation {n}: {e}"),
        }
        if !failed {
            return n;
        }
    }
    unreachable!("batches end")
}
/// Batches on tables in rows, which are done as a whole or not at all, and verbs on columns.
fn rows(trial: &Trial<'_>) -> u32 {
    let &Trial { device, old, new, asks, .. } = trial;
    let (all, of_all) = (keys(new), values(new, 2));
    let wide = all.iter().map(|&k| k as u128 | 1 << 100).collect::<Vec<_>>();
    let strings = all.iter().map(|k| k.to_string()).collect::<Vec<_>>();
    // Every third key.
    let (some, of_some) = (wide.iter().step_by(3), strings.iter().step_by(3));
    let (some, of_some) = (some.copied().collect::<Vec<_>>(), of_some.cloned().collect::<Vec<_>>());
    let n = old as usize;
    let (firsts, values) = (values(old, 1), values(some.len() as u32, 2));
    let mut failed = 0;
    for erases in [false, true] {
        let expected = |i: usize, outcomes: Option<&[Outcome]>| match outcomes {
            Some(_) if erases && i.is_multiple_of(3) => None,
            Some(_) if !erases => Some(of_all[i]),
            _ => (i < n).then(|| all[i].wrapping_add(1)),
        };
        let check = |found: Vec<Option<u32>>, len: usize, outcomes: Option<&[Outcome]>| {
            let held = found.iter().filter(|found| found.is_some()).count();
            assert_eq!(held, len);
            for (i, found) in found.into_iter().enumerate() {
                assert_eq!(found, expected(i, outcomes), "{i}, erases: {erases}");
            }
        };
        failed += batch_fails(
            || Map128::build(device, &wide[..n], &firsts).unwrap(),
            |map| if erases { map.erase(&some) } else { map.insert_or_assign(&wide, &of_all) },
            |map, outcomes| check(map.get(&wide).unwrap(), map.len(), outcomes),
        );
        failed += batch_fails(
            || StringMap::build(device, &strings[..n], &firsts).unwrap(),
            |map| {
                if erases { map.erase(&of_some) } else { map.insert_or_assign(&strings, &of_all) }
            },
            |map, outcomes| check(map.get(&strings).unwrap(), map.len(), outcomes),
        );
        failed += batch_fails(
            || Set128::build(device, &wide[..n]).unwrap(),
            |set| if erases { set.erase(&some) } else { set.insert(&wide) },
            |set, outcomes| {
                for (i, found) in set.contains(&wide).unwrap().into_iter().enumerate() {
                    assert_eq!(found, expected(i, outcomes).is_some(), "{i}, erases: {erases}");
                }
            },
        );
    }
    let wide_values = some.iter().map(|&key| [key as u64, 7]).collect::<Vec<_>>();
    let of_wide = vec![[1, 2]; all.len()];
    let flags = all.iter().map(|key| key % 5 > 0).collect::<Vec<_>>();
    let none = |_: &mut ()| ();
    let verb =
        |name: &str, run: &dyn Fn() -> Result<()>| each_failure(name, || (), |_| run(), none, none);
    failed
        + verb("Map of wide values", &|| {
            let mut map = Map::build(device, &values, &wide_values)?;
            map.insert(&all, &of_wide).map(drop)
        })
        + verb("count", &|| koel::count(device, &strings).map(drop))
        + verb("join", &|| koel::join(device, &wide, &some, How::Full).map(drop))
        + verb("join of columns", &|| {
            let some = Column::from(&all).with_validity(Validity::Flags(&flags))?;
            let keys = Keys::new([Column::from(&strings), some])?.with_nulls(Nulls::Excluded);
            any::join(device, &keys, &keys, How::Full).map(drop)
        })
        + if asks {
            verb("group_by", &|| {
                koel::group_by(device, &all)?.mean(&of_all)?.max(&of_all).map(drop)
            })
        } else {
            0
        }
}
fn lookups(trial: &Trial<'_>) -> u32 {
    let &Trial { device, old, new, asks } = trial;
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
        + ask("Map::anti_join", &|| map.anti_join(&asked).map(drop))
        + ask("Map::contains", &|| map.contains(&asked).map(drop))
        + ask("Map::count", &|| map.count(&asked).map(drop))
        + ask("Map::fingerprint", &|| map.fingerprint().map(drop))
        + ask("MultiMap::reduce", &|| multi.reduce::<Sum>().map(drop))
        + if asks {
            ask("group_counts", &|| koel::group_counts(device, &asked).map(drop))
        } else {
            0
        }
}
/// Files in memory and on the disk, and mapped ones.
fn files(trial: &Trial<'_>) -> u32 {
    let &Trial { device, old, .. } = trial;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    let map = Map::build(device, &keys(old), &values(old, 1)).unwrap();
    let multi = MultiMap::build(device, &keys(old), &values(old, 1)).unwrap();
    let wide = keys(old).iter().map(|&k| k as u128).collect::<Vec<_>>();
    let wide = Map128::build(device, &wide, &values(old, 1)).unwrap();
    let ask = |name: &str, run: &dyn Fn() -> Result<()>| {
        each_failure(name, || (), |_| run(), |_| trial.holds(&map, old, 1), |_| ())
    };
    let saved = ask("Map::save", &|| map.save(&path));
    let bytes = std::fs::read(&path).unwrap();
    let mut of_multi = Cursor::new(vec![]);
    multi.save_to(&mut of_multi).unwrap();
    let mut of_wide = Cursor::new(vec![]);
    wide.save_to(&mut of_wide).unwrap();
    // The vector belongs to this test.
    let room = || Cursor::new(Vec::with_capacity(2 * of_wide.get_ref().len()));
    let written = each_failure("Map128::save_to", room, |to| wide.save_to(to), |_| (), |_| ());
    let opened = match device.kind() {
        DeviceKind::Cpu => {
            // SAFETY: nobody changes the file.
            let open = || unsafe { Map::<u32, u32>::open(&path) };
            ask("Map::open", &|| {
                let map = open()?;
                map.verify()?;
                map.get(&[1]).map(drop)
            })
        }
        _ => 0,
    };
    saved
        + written
        + opened
        + ask("Map::load", &|| Map::<u32, u32>::load(device, &path).map(drop))
        + ask("Map::load_bytes", &|| Map::<u32, u32>::load_bytes(device, &bytes).map(drop))
        + ask("MultiMap::load_bytes", &|| {
            MultiMap::<u32, u32>::load_bytes(device, of_multi.get_ref()).map(drop)
        })
        + ask("Map128::load_bytes", &|| {
            Map128::<u32>::load_bytes(device, of_wide.get_ref()).map(drop)
        })
}
/// Parallel algorithms on buffers.
fn primitives(trial: &Trial<'_>) -> u32 {
    let &Trial { device, new, asks, .. } = trial;
    let stream = device.stream().unwrap();
    let input = device.upload(&keys(new)).unwrap();
    let flags = device.upload(&keys(new).iter().map(|k| (k >> 7 & 1) as u8).collect::<Vec<_>>());
    let flags = flags.unwrap();
    let (room, n) = (|| device.alloc::<u32>(new as usize + 1).unwrap(), new as usize);
    let bins = Bins::Hash { bins: 1000 };
    let ask = |name: &str, run: &dyn Fn(ViewMut<'_, u32>) -> Result<()>| {
        let run = |out: &mut Buffer<u32>| run(out.view_mut().slice(..n)?);
        each_failure(name, room, run, |_| (), |_| ())
    };
    ask("exclusive_scan", &|out| exclusive_scan(&stream, input.view(), out).map(drop))
        + ask("sum", &|_| sum(&stream, input.view()).map(drop))
        + ask("compact", &|out| compact(&stream, flags.view(), input.view(), out).map(drop))
        + if asks { ask("sort_keys", &|out| sort_keys(&stream, input.view(), out)) } else { 0 }
        + ask("SortKeys of 20 bits", &|out| {
            SortKeys::new(device, n)?.bits(0..20)?.run(&stream, input.view(), out)
        })
        + ask("sort_pairs", &|out| {
            let mut sorted = device.alloc(n)?;
            sort_pairs(&stream, input.view(), input.view(), sorted.view_mut(), out)
        })
        + ask("histogram", &|_| histogram(&stream, input.view(), bins).map(drop))
        + ask("partition_exact", &|_| {
            partition_exact(&stream, bins, input.view(), input.view()).map(drop)
        })
}

/// Set where a test is the only one of its process: the failing allocation may be on any thread.
const ALONE: &str = "KOEL_TEST_ALONE";
fn on_all(what: &str, run: impl Fn(&Trial<'_>) -> u32) {
    on_all_with(what, 1, run);
}
/// Like [`on_all`], with fewer keys where operations allocate often.
fn on_all_with(what: &str, fewer: u32, run: impl Fn(&Trial<'_>) -> u32) {
    if std::env::var_os(ALONE).is_none() {
        let test = format!("of_{}", what.replace(' ', "_"));
        print!("{}", run_again(&test, |command| _ = command.env(ALONE, "1")));
        return;
    }
    let with = |device: &Device, by_allocator: bool, (old, new): (u32, u32)| {
        BY_ALLOCATOR.store(by_allocator, SeqCst);
        let failed = run(&Trial { device, old, new, asks: !by_allocator });
        println!("{device:?}: {failed} allocations of {what} failed, {by_allocator}");
        assert!(failed > 0);
    };
    for device in devices() {
        let (old, new) = if is_fast(&device) { (9_000, 20_000) } else { (400, 1300) };
        with(&device, false, (old / fewer, new / fewer));
    }
    // Several threads share the work from some thousands of keys on.
    for (threads, fewer) in [(1, fewer), (2, 1)] {
        let keys = (9_000 / fewer, 20_000 / fewer);
        with(&Device::cpu_with_threads(threads).unwrap(), true, keys);
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
fn of_strings() {
    on_all_with("strings", 4, strings);
}
#[test]
fn of_tables_of_columns() {
    on_all("tables of columns", columns);
}
#[test]
fn of_updates() {
    on_all("updates", updates);
}
#[test]
fn of_batches_in_rows() {
    on_all_with("batches in rows", 4, rows);
}
#[test]
fn of_lookups() {
    on_all("lookups", lookups);
}
#[test]
fn of_files() {
    on_all("files", files);
}
#[test]
fn of_primitives() {
    on_all("primitives", primitives);
}

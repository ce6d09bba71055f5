//! Updates of sets by kernels and on the CPU: see [`tests`](crate::table::update::tests).
use super::super::kernels::{Lengths, Passes, build, sizes};
use super::super::tests::check_layout;
use super::*;
use crate::error::Error;
use crate::seed::Seeds;
use crate::table::header::read_header;
use crate::table::plan::PlanTuning;
use crate::table::slots::Slots;
use crate::table::update::tests::{
    COARSE, EntriesOf, FULL, ONE, SEED, TIGHT, TWO, Tested, WHOLE, World, device, key, plan,
};
use crate::table::update::tests::{
    batches, churn_in_place, few, frequent, full_stash, growth, in_place_beside_a_stash,
    in_place_by_threads, keys_of_two_buckets, mixed_that_do_not_fit, not_done_is_told, stash,
};
use crate::table::{OnCpu, Storage};
use koel_kernels::set::layout::{
    Member, class_bits, finished, hash, in_bucket, mixed, unmixed, with_key,
};
use koel_kernels::table::header;
use koel_kernels::table::update::operation::{EACH, ERASE, INSERT};
use std::collections::HashSet;

impl<K: KeyBits> Tested for Set<K> {
    type Family = Keys<K>;
    fn settings() -> Settings {
        SetOptions::default().with_seed(SEED).into()
    }
    fn table(&self) -> &Table<Keys<K>> {
        self.as_table()
    }
    fn table_mut(&mut self) -> &mut Table<Keys<K>> {
        self.as_table_mut()
    }
    fn sizes() -> PlanTuning {
        sizes::<K>()
    }
    fn built(device: &Device, plan: Plan, keys: &[K], _: &[K]) -> Self {
        let (stream, k) = (device.stream().unwrap(), device.upload(keys).unwrap());
        if !device.runs_kernels() {
            let mut builder = Builder::new(device, Self::settings()).unwrap();
            return Set::of_table(builder.build(plan, &stream, k.view()).unwrap());
        }
        let mut slots = Slots::new::<Keys<K>>(device, &plan).unwrap();
        let mut passes = Passes::new(device, &plan, Lengths::of_set::<K>(&plan)).unwrap();
        build(&stream, &plan, Seeds::new(Some(SEED), true), k.view(), &mut slots, &mut passes)
            .unwrap();
        Set::of_table(Table::of_kernels(device, plan, slots, 0, None))
    }
    fn found(&self, keys: &[K]) -> Vec<Option<K>> {
        self.contains(keys).unwrap().into_iter().map(|found| found.then(K::default)).collect()
    }
    fn check_layout(&self, oracle: &EntriesOf<Self>) {
        if let Storage::Kernels(table) = &self.as_table().storage {
            let header = read_header::<u32>(&table.header.download().unwrap());
            check_layout(
                &self.as_table().plan,
                &header,
                table,
                &oracle.keys().copied().collect(),
                true,
            );
        }
    }
}

#[test]
fn every_kind_of_batch() {
    for (seed, tuning) in [(1, ONE), (2, WHOLE), (3, COARSE)] {
        batches::<Set<u32>>(seed, tuning);
        batches::<Set<u64>>(seed, tuning);
    }
}
#[test]
fn in_place_on_a_cpu() {
    in_place_beside_a_stash::<Set<u32>>();
    in_place_beside_a_stash::<Set<u64>>();
    churn_in_place::<Set<u32>>();
    churn_in_place::<Set<u64>>();
}
#[test]
fn in_place_by_several_threads() {
    in_place_by_threads::<Set<u32>>();
    in_place_by_threads::<Set<u64>>();
}
#[test]
fn few_keys_beside_others() {
    for seed in 1..4 {
        few::<Set<u32>>(seed, 0.93);
    }
    few::<Set<u32>>(4, 0.5);
    few::<Set<u64>>(5, 0.9);
    few::<Set<u64>>(6, 0.5);
}
/// Fillers are slots whose keys do not belong to their bucket, whatever their hash: other programs
/// may write other fillers than koel. A set on a CPU gets those of a set from a GPU.
#[test]
fn fillers_of_other_programs() {
    const FILLERS: usize = 20;
    for tuning in [ONE, WHOLE] {
        let mut world = World::<Set>::new(&device(1), plan::<Set>(900, 0.8), tuning);
        let shape = world.table.shape();
        let Storage::Kernels(table) = &mut world.table.as_table_mut().storage else {
            unreachable!("kernels build it")
        };
        let (mut slots, mut header) =
            (table.slots.download().unwrap(), table.header.download().unwrap());
        let full =
            slots.chunks_exact_mut(8).enumerate().filter(|(_, bucket)| bucket[7] != u32::EMPTY);
        for (place, slots) in full.take(FILLERS) {
            let bucket = [u32::half(|i| slots[i as usize]), u32::half(|i| slots[4 + i as usize])];
            world.oracle.remove(&unmixed(header[header::SEED as usize], slots[0])).unwrap();
            let foreign = (0xC000_0000..).find(|&h| !shape.belongs(h, place as u32)).unwrap();
            let bucket =
                finished::<u32>(with_key::<u32>(bucket, 0, foreign), class_bits::<u32>(bucket));
            slots.iter_mut().enumerate().for_each(|(i, slot)| *slot = in_bucket::<u32>(&bucket, i));
        }
        header[header::PAIRS as usize] -= FILLERS as u32;
        table.slots.view_mut().copy_from_host(&slots).unwrap();
        table.header.view_mut().copy_from_host(&header).unwrap();
        world.check();
        let on_cpu = |world: &World<Set>| {
            world.table.to_device(&Device::cpu_with_threads(1).unwrap()).unwrap()
        };
        let mut other = on_cpu(&world);
        for operation in [INSERT, ERASE, EACH, INSERT] {
            let numbers = world.some(150, 1000);
            world.apply(operation, &numbers);
            let kept = on_cpu(&world);
            assert!(
                kept.keys().unwrap().into_iter().collect::<HashSet<_>>()
                    == world.oracle.keys().copied().collect()
            );
        }
        // Some of the new keys replace fillers there.
        let new = (2000..2300).map(key::<Set>).collect::<Vec<_>>();
        let before = other.len().unwrap();
        assert_eq!(other.insert(&new).unwrap(), vec![Outcome::Inserted; new.len()]);
        assert_eq!(
            (other.len().unwrap(), other.keys().unwrap().len()),
            (before + new.len(), before + new.len())
        );
        assert!(other.contains(&new).unwrap().into_iter().all(|found| found));
    }
}
#[test]
fn in_two_passes() {
    batches::<Set<u32>>(1, TWO);
    batches::<Set<u64>>(2, TWO);
}
#[test]
fn blocks_with_room_for_few_keys() {
    batches::<Set<u32>>(1, TIGHT);
    batches::<Set<u64>>(2, TIGHT);
}
#[test]
fn frequent_keys() {
    frequent::<Set<u32>>(1);
    frequent::<Set<u64>>(2);
}
/// Nearly full sets, in which many keys are in their second buckets: keys come and go.
fn nearly_full<K: KeyBits>(seed: u64) {
    for device in [device(seed), Device::cpu_with_threads(1).unwrap()] {
        let mut world = World::<Set<K>>::new(&device, plan::<Set<K>>(900, 0.95), FULL);
        let slots = world.slots();
        for _ in 0..5 {
            for (operation, n) in [(ERASE, 150), (INSERT, 150), (EACH, 70)] {
                let numbers = world.some(n, 960);
                world.apply(operation, &numbers);
            }
            world.apply(INSERT, &(0..940).collect::<Vec<_>>());
        }
        assert_eq!(world.slots(), slots, "nothing must grow");
    }
}
#[test]
fn sets_that_are_nearly_full() {
    nearly_full::<u32>(1);
    nearly_full::<u64>(2);
}
#[test]
fn the_stash_is_emptied_when_there_is_room() {
    stash::<Set<u32>>(1, 140);
    stash::<Set<u64>>(2, 80);
}
/// Lookups stay as fast as in a new set: after most keys are erased in whole partitions, hardly any
/// key is in its second bucket.
fn home<K: KeyBits>(seed: u64) {
    for device in [device(seed), Device::cpu_with_threads(2).unwrap()] {
        let away = |set: &Set<K>| {
            let set = set.to_device(&Device::cpu().unwrap()).unwrap();
            let Storage::Cpu(OnCpu { table, .. }) = &set.as_table().storage else {
                unreachable!("it is there")
            };
            let shape = set.shape();
            let buckets = (0..).zip(table.host().chunks(K::SLOTS as usize));
            let keys = buckets.flat_map(|(place, keys)| keys.iter().map(move |&key| (place, key)));
            keys.filter(|&(place, key)| key != K::EMPTY && shape.first_place(hash(key)) != place)
                .count()
        };
        let mut world = World::<Set<K>>::new(&device, plan::<Set<K>>(900, 0.95), WHOLE);
        assert!(away(&world.table) > 90);
        world.apply(ERASE, &(0..900).filter(|i| i % 3 != 0).collect::<Vec<_>>());
        assert!(away(&world.table) < 20, "{}", away(&world.table));
    }
}
#[test]
fn keys_come_home() {
    home::<u32>(1);
    home::<u64>(2);
}
/// More stashed keys of a partition than a block has room for: the set is rebuilt.
#[test]
fn many_stashed_keys_of_a_partition() {
    let tuning =
        crate::table::update::UpdateTuning { operations: 1, deviations: 0.0, spare: 3, ..FULL };
    let mut plan = plan::<Set>(900, 0.95);
    plan.shape.buckets -= 3;
    let mut world = World::<Set>::new(&device(1), plan, tuning);
    let before = world.table.stashed();
    assert!(before > 90, "{before}");
    world.apply(INSERT, &[1, 2, 3, 4000]);
    let numbers = world.some(40, 900);
    world.apply(EACH, &numbers);
    assert_eq!(world.table.stashed(), 0);
}
/// A single bucket, and sets of a few keys.
#[test]
fn tiny_sets() {
    for device in [device(1), Device::cpu_with_threads(1).unwrap()] {
        for n in [0, 1, 3, 7, 8] {
            for tuning in [ONE, FULL] {
                let mut world = World::<Set<u64>>::new(&device, plan::<Set<u64>>(n, 0.95), tuning);
                for operation in [INSERT, ERASE, EACH, EACH] {
                    for numbers in [&[0, 1, 3, 3][..], &[5, 5, 2, 9, 10], &[0, 1, 2, 3, 4, 5, 6, 7]]
                    {
                        world.apply(operation, numbers);
                    }
                }
            }
        }
    }
}
#[test]
fn sets_grow_and_shrink() {
    growth::<Set<u32>>(1);
    growth::<Set<u64>>(2);
}
#[test]
fn mixed_batches_that_do_not_fit() {
    mixed_that_do_not_fit::<Set<u32>>();
    mixed_that_do_not_fit::<Set<u64>>();
}
#[test]
fn what_the_stash_has_no_room_for() {
    full_stash::<Set<u32>>();
    full_stash::<Set<u64>>();
}
#[test]
fn keys_that_collide() {
    keys_of_two_buckets::<Set<u64>>();
}
#[test]
fn what_is_not_done_is_told() {
    not_done_is_told::<Set<u32>>(360);
    not_done_is_told::<Set<u64>>(360);
}
/// A user's kernel, which looks keys up in the parts of the set, sees the changes.
#[test]
fn kernels_see_updates() {
    for device in [device(1), Device::cpu_with_threads(1).unwrap()] {
        let mut set = Set::build(&device, &(0..500u32).collect::<Vec<_>>()).unwrap();
        set.erase(&(0..300).collect::<Vec<_>>()).unwrap();
        set.insert(&[u32::MAX, 7]).unwrap();
        // SAFETY: the table is in host memory, and nothing changes it here.
        let table = unsafe { set.table(&device.stream().unwrap()).unwrap().on_host() };
        assert!(mixed(0, 7u32) != u32::EMPTY);
        assert!((0..600).all(|key| table.contains(key) == (key == 7 || (300..500).contains(&key))));
        assert!(table.contains(u32::MAX));
    }
}
#[test]
fn wrong_arguments_are_errors() {
    let (device, other) = (Device::cpu().unwrap(), Device::cpu().unwrap());
    let stream = device.stream().unwrap();
    let mut set = Set::build(&device, &[1u32, 2]).unwrap();
    let mut updater = SetUpdater::new(&device, SetOptions::default()).unwrap();
    let (two, three) = (device.upload(&[1u32, 2]).unwrap(), device.upload(&[1u32, 2, 3]).unwrap());
    let mut outcomes = device.alloc::<u8>(2).unwrap();
    let erase = Operations::All(SetOperation::Erase);
    let bytes = device.upload(&[0u8; 3]).unwrap();
    for (operations, keys) in [(erase, &three), (Operations::Each(bytes.view()), &two)] {
        let done = updater.apply(&mut set, &stream, operations, keys.view(), outcomes.view_mut());
        assert!(matches!(done, Err(Error::Length { .. })), "{done:?}");
    }
    let elsewhere = other.stream().unwrap();
    let done = updater.apply(&mut set, &elsewhere, erase, two.view(), outcomes.view_mut());
    assert!(matches!(done, Err(Error::WrongDevice { .. })), "{done:?}");
    assert!(SetUpdater::<u32>::new(&device, SetOptions::default().with_load(0.2)).is_err());
    assert!(set.shrink_to(1.0).is_err());
    assert!(set.update(&[SetOperation::Insert], &[1, 2]).is_err());
    assert_eq!(set.contains(&[1, 2]).unwrap(), [true, true]);
}

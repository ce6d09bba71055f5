//! Updates of maps by kernels and on the CPU: see [`tests`](crate::table::update::tests).
use super::super::kernels::{Building, Scratch, build};
use super::super::tests::check_layout;
use super::*;
use crate::error::Error;
use crate::seed::Seeds;
use crate::table::Storage;
use crate::table::header::{Header, header_words, read_header};
use crate::table::plan::PlanTuning;
use crate::table::slots::Slots;
use crate::table::update::UpdateTuning;
use crate::table::update::tests::{
    COARSE, EntriesOf, FULL, ONE, SEED, TIGHT, TWO, Tested, WHOLE, World, device, plan,
};
use crate::table::update::tests::{
    batches, churn_in_place, few, frequent, full_stash, growth, in_place_beside_a_stash,
    in_place_by_threads, keys_of_two_buckets, mixed_that_do_not_fit, not_done_is_told, stash,
};
use koel_kernels::table::layout::{EMPTY, Narrow, class_bit, with_class_bits};
use koel_kernels::table::update::operation::{EACH, ERASE, INSERT};

impl<K: KeyBits, V: ValueBits> Tested for Map<K, V> {
    type Family = Pairs<K, V>;
    fn settings() -> Settings {
        MapOptions::default().with_seed(SEED).into()
    }
    fn table(&self) -> &Table<Pairs<K, V>> {
        self.as_table()
    }
    fn table_mut(&mut self) -> &mut Table<Pairs<K, V>> {
        self.as_table_mut()
    }
    fn sizes() -> PlanTuning {
        PlanTuning::TUNED
    }
    fn built(device: &Device, plan: Plan, keys: &[K], values: &[V]) -> Self {
        type Of<K, V> = LayoutOf<K, V>;
        let (stream, k, v) = (
            device.stream().unwrap(),
            device.upload(keys).unwrap(),
            device.upload(values).unwrap(),
        );
        if !device.runs_kernels() {
            let mut builder = Builder::new(device, Self::settings()).unwrap();
            return Map::of_table(builder.build(plan, &stream, (k.view(), v.view())).unwrap());
        }
        let mut slots = Slots::new::<Pairs<K, V>>(device, &plan).unwrap();
        let mut scratch = Scratch::new::<Of<K, V>>(device, &plan).unwrap();
        let (duplicates, reproducible) = (Duplicates::KeepLast, false);
        let input = Building {
            keys: k.view(),
            values: v.view(),
            duplicates,
            seeds: Seeds::new(Some(SEED), true),
            reproducible,
        };
        build::<Of<K, V>>(&stream, &plan, input, &mut slots, &mut scratch).unwrap();
        Map::of_table(Table::of_kernels(device, plan, slots, 0, None))
    }
    fn found(&self, keys: &[K]) -> Vec<Option<V>> {
        self.get(keys).unwrap()
    }
    fn check_layout(&self, oracle: &EntriesOf<Self>) {
        if let Storage::Kernels(table) = &self.as_table().storage {
            let header = read_header::<V>(&table.header.download().unwrap());
            let (slots, stash) = (table.slots.download().unwrap(), table.stash.download().unwrap());
            check_layout(&self.as_table().plan, &header, &slots, &stash, oracle, true);
        }
    }
}

#[test]
fn every_kind_of_batch_and_pairing() {
    batches::<Map<u32, u32>>(1, WHOLE);
    batches::<Map<u32, u64>>(2, WHOLE);
    batches::<Map<u64, u32>>(3, WHOLE);
    batches::<Map<u64, u64>>(4, ONE);
    batches::<Map<u32, u32>>(5, COARSE);
}
#[test]
fn in_place_on_a_cpu() {
    in_place_beside_a_stash::<Map<u32, u32>>();
    in_place_beside_a_stash::<Map<u64, u32>>();
    churn_in_place::<Map<u32, u64>>();
    churn_in_place::<Map<u64, u64>>();
}
#[test]
fn in_place_by_several_threads() {
    in_place_by_threads::<Map<u32, u32>>();
    in_place_by_threads::<Map<u64, u64>>();
}
#[test]
fn few_keys_beside_the_pairs() {
    for seed in 1..4 {
        few::<Map<u32, u32>>(seed, 0.9);
    }
    few::<Map<u32, u32>>(4, 0.5);
    few::<Map<u32, u64>>(5, 0.9);
    few::<Map<u64, u32>>(6, 0.8);
    few::<Map<u64, u64>>(7, 0.93);
}
/// Fillers are slots whose keys do not belong to their bucket, whatever their hash: other programs
/// may write other fillers than koel.
#[test]
fn fillers_of_other_programs() {
    const FILLERS: usize = 20;
    for tuning in [ONE, WHOLE] {
        let mut world = World::<Map>::new(&device(1), plan::<Map>(900, 0.8), tuning);
        let shape = world.table.shape();
        let Storage::Kernels(table) = &mut world.table.as_table_mut().storage else {
            unreachable!("kernels build it")
        };
        let mut slots = table.slots.download().unwrap();
        let header = read_header::<u32>(&table.header.download().unwrap());
        let full = slots.chunks_exact_mut(4).enumerate().filter(|(_, bucket)| bucket[3] != EMPTY);
        for (place, bucket) in full.step_by(3).take(FILLERS) {
            let mut heads: [u64; 4] = std::array::from_fn(|s| bucket[s]);
            let bits = (0..4).map(|c| (class_bit::<Narrow>(heads, c) as u32) << c).sum();
            world.oracle.remove(&Narrow::unmixed(header.seed, heads[0] as u32)).unwrap();
            let foreign = (0xC000_0000..).find(|&h| !shape.belongs(h, place as u32)).unwrap();
            heads[0] = 77 << 32 | foreign as u64;
            bucket.copy_from_slice(&with_class_bits::<Narrow>(heads, bits));
        }
        let Header { seed, pairs, stashed, held, .. } = header;
        let header = header_words(seed, pairs as usize - FILLERS, stashed as usize, held);
        table.slots.view_mut().copy_from_host(&slots).unwrap();
        table.header.view_mut().copy_from_host(&header).unwrap();
        world.check();
        for operation in [ERASE, INSERT, EACH, INSERT] {
            let numbers = world.some(150, 1000);
            world.apply(operation, &numbers);
        }
    }
}
#[test]
fn in_two_passes() {
    batches::<Map<u32, u32>>(1, TWO);
    batches::<Map<u64, u64>>(2, TWO);
}
#[test]
fn blocks_with_room_for_few_keys() {
    batches::<Map<u32, u32>>(1, TIGHT);
    batches::<Map<u64, u64>>(2, TIGHT);
}
#[test]
fn frequent_keys() {
    frequent::<Map<u32, u32>>(1);
    frequent::<Map<u64, u64>>(2);
}
#[test]
fn the_stash_is_emptied_when_there_is_room() {
    stash::<Map<u32, u32>>(1, 60);
    stash::<Map<u64, u64>>(2, 60);
    stash::<Map<u32, u64>>(3, 60);
}
/// More stashed pairs of a partition than a block has room for stay in the stash.
#[test]
fn many_stashed_pairs_of_a_partition() {
    let tuning = UpdateTuning { operations: 1, deviations: 0.0, spare: 3, ..FULL };
    let mut plan = plan::<Map>(900, 0.95);
    plan.shape.buckets -= 4;
    let mut world = World::<Map>::new(&device(1), plan, tuning);
    let before = world.table.stashed();
    assert!(before > 90, "{before}");
    world.apply(INSERT, &[1, 2, 3, 4000]);
    let numbers = world.some(40, 900);
    world.apply(EACH, &numbers);
    world.apply(ERASE, &(0..900).step_by(3).collect::<Vec<_>>());
    assert_eq!(world.table.shape(), plan.shape);
    assert!(world.table.stashed() < before);
}
#[test]
fn maps_grow_and_shrink() {
    growth::<Map<u32, u32>>(1);
    growth::<Map<u64, u32>>(2);
}
#[test]
fn mixed_batches_that_do_not_fit() {
    mixed_that_do_not_fit::<Map<u32, u64>>();
}
#[test]
fn what_the_stash_has_no_room_for() {
    full_stash::<Map<u64, u32>>();
}
#[test]
fn keys_that_collide() {
    keys_of_two_buckets::<Map<u64, u64>>();
}
#[test]
fn what_is_not_done_is_told() {
    not_done_is_told::<Map<u32, u32>>(340);
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
    for (operations, keys, values) in [
        (insert, &two, &three),
        (insert, &three, &three),
        (Operations::Each(bytes.view()), &two, &two),
    ] {
        let done = updater.apply(
            &mut map,
            &stream,
            operations,
            keys.view(),
            values.view(),
            outcomes.view_mut(),
        );
        assert!(matches!(done, Err(Error::Length { .. })), "{done:?}");
    }
    let elsewhere = other.stream().unwrap();
    let done =
        updater.apply(&mut map, &elsewhere, insert, two.view(), two.view(), outcomes.view_mut());
    assert!(matches!(done, Err(Error::WrongDevice { .. })), "{done:?}");
    assert!(MapUpdater::<u32, u32>::new(&device, MapOptions::default().with_load(0.2)).is_err());
    assert!(map.shrink_to(1.0).is_err());
    assert_eq!(map.get(&[1, 2]).unwrap(), [Some(3), Some(4)]);
}

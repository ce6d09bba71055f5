//! A stream and buffers of another device are an error in every operation, on each pair of devices:
//! none answers from them, and none does nothing without a word.
use koel::keys128::{Map128Builder, Set128Builder};
use koel::{
    Device, Error, Index, Map, Map128, MapBuilder, MapJoiner, MapOptions, MapUpdater, MultiMap,
    MultiMapBuilder, MultiMapOptions, Operation, Operations, Retriever, Set, Set128, SetBuilder,
    SetCombiner, SetOperation, SetOptions, SetUpdater,
};
use std::fmt::Debug;

#[track_caller]
fn refused<T: Debug>(result: koel::Result<T>) {
    assert!(matches!(result, Err(Error::WrongDevice { .. })), "{result:?}");
}

/// Objects of `own`, streams and buffers of `other`.
fn all(own: &Device, other: &Device) {
    let stream = &other.stream().unwrap();
    let keys = &other.upload(&[3u32, 5, 9]).unwrap();
    let wide = &other.upload(&[3u128, 5, 9]).unwrap();
    let (mut values, mut counts) = (other.alloc::<u32>(3).unwrap(), other.alloc(3).unwrap());
    let (mut found, mut bits) = (other.alloc::<u8>(3).unwrap(), other.alloc::<u32>(1).unwrap());
    let mut count = other.alloc::<u64>(1).unwrap();
    let mut wide_out = other.alloc::<u128>(3).unwrap();
    let k = keys.view();

    let mut map = Map::build(own, &[3u32, 5], &[30u32, 50]).unwrap();
    refused(map.get_into(stream, k, values.view_mut(), found.view_mut()));
    refused(map.get_or_into(stream, k, values.view_mut(), 0));
    refused(map.contains_into(stream, k, found.view_mut()));
    refused(map.contains_bits_into(stream, k, bits.view_mut()));
    refused(map.count_into(stream, k, count.view_mut()));
    refused(map.export_into(stream, values.view_mut(), counts.view_mut(), count.view_mut()));
    refused(map.table(stream).map(|_| ()));
    let mut builder = MapBuilder::<u32, u32>::new(own, MapOptions::default()).unwrap();
    refused(builder.build(stream, k, k));
    refused(builder.rebuild(&mut map, stream, k, k));
    let mut updater = MapUpdater::new(own, MapOptions::default()).unwrap();
    let all = Operations::All(Operation::Insert);
    refused(updater.apply(&mut map, stream, all, k, k, found.view_mut()));
    refused(updater.enqueue(&mut map, stream, all, k, k, found.view_mut()));
    let mut joiner = MapJoiner::new(own).unwrap();
    let (to, of) = (counts.view_mut(), values.view_mut());
    refused(joiner.join_into(stream, &map, k, to, of, count.view_mut()));
    refused(joiner.semi_join_into(stream, &map, k, values.view_mut(), count.view_mut()));
    refused(joiner.anti_join_into(stream, &map, k, values.view_mut(), count.view_mut()));
    refused(joiner.count_into(stream, &map, k, count.view_mut()));

    let mut set = Set::build(own, &[3u32, 5]).unwrap();
    refused(set.contains_into(stream, k, found.view_mut()));
    refused(set.contains_bits_into(stream, k, bits.view_mut()));
    refused(set.count_into(stream, k, count.view_mut()));
    refused(set.export_into(stream, values.view_mut(), count.view_mut()));
    refused(set.table(stream).map(|_| ()));
    let mut builder = SetBuilder::<u32>::new(own, SetOptions::default()).unwrap();
    refused(builder.build(stream, k));
    refused(builder.rebuild(&mut set, stream, k));
    let mut updater = SetUpdater::new(own, SetOptions::default()).unwrap();
    let all = Operations::All(SetOperation::Insert);
    refused(updater.apply(&mut set, stream, all, k, found.view_mut()));
    let mut combiner = SetCombiner::new(own).unwrap();
    refused(combiner.unique_into(stream, k, values.view_mut(), count.view_mut()));

    let index = Index::build(own, &[3u32, 5]).unwrap();
    refused(index.ids_into(stream, k, values.view_mut()));
    refused(index.keys_of_into(stream, k, values.view_mut(), 0));
    let multi = MultiMap::build(own, &[3u32, 5, 3], &[30u32, 50, 31]).unwrap();
    refused(multi.counts_into(stream, k, values.view_mut()));
    refused(multi.table(stream).map(|_| ()));
    let mut retriever = Retriever::new(own, 3).unwrap();
    refused(retriever.find(stream, &multi, k));
    let mut builder = MultiMapBuilder::<u32, u32>::new(own, MultiMapOptions::default()).unwrap();
    refused(builder.build(stream, k, k));

    let w = wide.view();
    let mut set = Set128::build(own, &[3u128, 5]).unwrap();
    refused(set.contains_into(stream, w, found.view_mut()));
    refused(set.contains_bits_into(stream, w, bits.view_mut()));
    refused(set.count_into(stream, w, count.view_mut()));
    let mut builder = Set128Builder::new(own, SetOptions::default()).unwrap();
    refused(builder.build(stream, w));
    refused(builder.rebuild(&mut set, stream, w));
    let mut map = Map128::build(own, &[3u128, 5], &[30u32, 50]).unwrap();
    refused(map.get_into(stream, w, values.view_mut(), found.view_mut()));
    refused(map.get_or_into(stream, w, values.view_mut(), 0));
    let mut builder = Map128Builder::new(own, MapOptions::default()).unwrap();
    refused(builder.rebuild(&mut map, stream, w, k));
    let index = Index::build(own, &[3u128, 5]).unwrap();
    refused(index.ids_into(stream, w, values.view_mut()));
    refused(index.keys_of_into(stream, k, wide_out.view_mut(), 0));
}

#[test]
fn streams_and_buffers_of_another_device_are_refused() {
    let cpu = Device::cpu_with_threads(2).unwrap();
    let (one, other) = (Device::executor(1), Device::executor(2));
    all(&cpu, &one);
    all(&one, &cpu);
    all(&one, &other);
    if let Ok(gpu) = Device::cuda(0) {
        all(&cpu, &gpu);
        all(&gpu, &cpu);
    }
}

//! Arrays with more elements than 32-bit indices address are refused before anything is allocated.
//! The arrays are mapped memory that nothing touches.
use koel::device::{allocation_failed, fail_allocation_after};
use koel::groups::{IndexBuilder, IndexOptions, MultiMapBuilder, MultiMapOptions, ValueOrder};
use koel::keys128::Map128Builder;
use koel::map::{MapBuilder, MapOptions};
use koel::set::{SetBuilder, SetOptions};
use koel::{
    Device, DeviceKind, Error, How, Index, Map, Map128, MultiMap, Result, Set, Set128, StringIndex,
    StringMap, StringSet, Strings,
};
use memmap2::{MmapMut, MmapOptions};

/// Number of elements: beyond 2^32, so that none of the limits below it admits them, and so that a
/// length cut to 32 bits looks harmless.
const MANY: usize = (1 << 32) + 100;

fn untouched(bytes: usize) -> MmapMut {
    MmapOptions::new().len(bytes).no_reserve_swap().map_anon().unwrap()
}
/// Checks that a call is refused for its length, and has asked for no memory.
#[track_caller]
fn is_refused<T>(name: &str, call: impl FnOnce() -> Result<T>) {
    fail_allocation_after(0);
    let result = call();
    let allocated = allocation_failed();
    match result {
        Err(Error::TooMany { n, max, .. }) => assert!(n > max && n >= MANY, "{name}: {n}, {max}"),
        Err(e) => panic!("{name}: {e}"),
        Ok(_) => panic!("{name}: accepted"),
    }
    assert!(!allocated, "{name} allocates before it checks the length");
}

#[test]
fn arrays_beyond_32_bits_are_refused_before_anything_is_allocated() {
    let (narrow, wide) = (untouched(4 * MANY), untouched(16 * MANY));
    let (keys, wide): (&[u32], &[u128]) =
        (bytemuck::cast_slice(&narrow), bytemuck::cast_slice(&wide));
    for device in [Device::cpu().unwrap(), Device::executor(1)] {
        let d = &device;
        let (mut map, mut set) =
            (Map::build(d, &[1u32], &[2u32]).unwrap(), Set::build(d, &[1u32]).unwrap());
        let mut map128 = Map128::build(d, &[1], &[2u32]).unwrap();
        let mut set128 = Set128::build(d, &[1]).unwrap();
        let (index, index128) =
            (Index::build(d, &[1u32]).unwrap(), Index::build(d, &[1u128]).unwrap());
        let multi_map = MultiMap::build(d, &[1u32], &[2u32]).unwrap();

        let error = Map::build(d, keys, keys).unwrap_err().to_string();
        assert_eq!(error, format!("{MANY} pairs are too many: at most 943718400"));
        is_refused("Map::build", || Map::build(d, keys, keys));
        is_refused("Set::build", || Set::build(d, keys));
        is_refused("Map128::build", || Map128::build(d, wide, keys));
        is_refused("Set128::build", || Set128::build(d, wide));
        is_refused("Index::build", || Index::build(d, keys));
        is_refused("Index::encode", || Index::encode(d, keys));
        is_refused("Index::build", || Index::build(d, wide));
        is_refused("Index::encode", || Index::encode(d, wide));
        is_refused("MultiMap::build", || MultiMap::build(d, keys, keys));
        is_refused("group_counts", || koel::groups::group_counts(d, keys));

        if let (DeviceKind::Cpu, stream) = (d.kind(), &d.stream().unwrap()) {
            // Views of them: only a CPU needs no copies for that.
            let (staged, staged_wide) = (d.stage(keys).unwrap(), d.stage(wide).unwrap());
            let (keys, wide) = (staged.view(), staged_wide.view());
            let mut maps = MapBuilder::new(d, MapOptions::default()).unwrap();
            is_refused("MapBuilder::build", || maps.build(stream, keys, keys));
            let mut sets = SetBuilder::new(d, SetOptions::default()).unwrap();
            is_refused("SetBuilder::build", || sets.build(stream, keys));
            let mut maps = Map128Builder::new(d, MapOptions::default()).unwrap();
            is_refused("Map128Builder::build", || maps.build(stream, wide, keys));
            let mut indexes = IndexBuilder::new(d, IndexOptions::default()).unwrap();
            is_refused("IndexBuilder::build", || indexes.build(stream, keys));
            for order in [ValueOrder::Input, ValueOrder::Any] {
                let options = MultiMapOptions::default().with_order(order);
                let mut maps = MultiMapBuilder::new(d, options).unwrap();
                is_refused("MultiMapBuilder::build", || maps.build(stream, keys, keys));
            }
        }

        is_refused("Map::get", || map.get(keys));
        is_refused("Map::contains", || map.contains(keys));
        is_refused("Map::count", || map.count(keys));
        is_refused("Map::join", || map.join(keys));
        is_refused("Map::semi_join", || map.semi_join(keys));
        is_refused("Map::anti_join", || map.anti_join(keys));
        is_refused("Set::contains", || set.contains(keys));
        is_refused("Set::count", || set.count(keys));
        is_refused("Map128::get", || map128.get(wide));
        is_refused("Map128::contains", || map128.contains(wide));
        is_refused("Map128::count", || map128.count(wide));
        is_refused("Map128::join", || map128.join(wide));
        is_refused("Map128::insert", || map128.insert(wide, keys));
        is_refused("Map128::erase", || map128.erase(wide));
        is_refused("Set128::insert", || set128.insert(wide));
        is_refused("Map of u128", || Map::build(d, wide, keys));
        is_refused("Map of wide values", || Map::build(d, keys, wide));
        is_refused("Set of u128", || Set::build(d, wide));
        is_refused("difference of u128", || koel::set::difference(d, &wide[..9], wide));
        is_refused("count", || koel::count(d, keys));
        is_refused("group_by", || koel::group_by(d, wide));
        is_refused("join", || koel::join(d, &keys[..9], keys, How::Inner));
        is_refused("join of many", || koel::join(d, keys, &keys[..9], How::Left));
        is_refused("Set128::contains", || set128.contains(wide));
        is_refused("Set128::count", || set128.count(wide));
        is_refused("Index::ids", || index.ids(keys));
        is_refused("Index::keys_of", || index.keys_of(keys));
        is_refused("Index<u128>::ids", || index128.ids(wide));
        is_refused("Index<u128>::keys_of", || index128.keys_of(keys));
        is_refused("MultiMap::counts", || multi_map.counts(keys));
        is_refused("MultiMap::retrieve", || multi_map.retrieve(keys));

        // Strings of two bytes each.
        let strings: &[[u8; 2]] = &bytemuck::cast_slice(&narrow)[..MANY];
        let (mut of_strings, index) =
            (StringMap::build(d, &["a"], &[1]).unwrap(), StringIndex::build(d, &["a"]).unwrap());
        is_refused("StringMap::insert", || of_strings.insert(strings, keys));
        is_refused("StringMap::erase", || of_strings.erase(strings));
        is_refused("StringMap::join", || of_strings.join(strings));
        is_refused("Strings::upload", || Strings::upload(d, strings));
        is_refused("StringMap::build", || StringMap::build(d, strings, keys));
        is_refused("StringMap::get", || of_strings.get(strings));
        is_refused("StringMap::get_or", || of_strings.get_or(strings, 0));
        is_refused("StringMap::contains", || of_strings.contains(strings));
        is_refused("StringSet::build", || StringSet::build(d, strings));
        is_refused("StringSet::count", || of_strings.set().count(strings));
        is_refused("StringIndex::build", || StringIndex::build(d, strings));
        is_refused("StringIndex::encode", || StringIndex::encode(d, strings));
        is_refused("StringIndex::ids", || index.ids(strings));
        is_refused("StringIndex::keys_of", || index.keys_of(keys));
        is_refused("string_counts", || koel::string_counts(d, strings));
        let error = StringSet::build(d, strings).unwrap_err().to_string();
        assert_eq!(error, format!("{MANY} pairs are too many: at most 943718400"));

        // Keys that are converted, which takes memory for their bits.
        let short: &[i16] = &bytemuck::cast_slice(&narrow)[..MANY];
        let mut of_short = Map::build(d, &[1i16], &[2i16]).unwrap();
        is_refused("Map::build of i16", || Map::build(d, short, short));
        is_refused("Map::get of i16", || of_short.get(short));
        is_refused("Map::contains of i16", || of_short.contains(short));
        is_refused("Map::count of i16", || of_short.count(short));
        is_refused("Map::join of i16", || of_short.join(short));
        is_refused("Map::insert of i16", || of_short.insert(short, short));
        is_refused("Map::insert of many i16", || of_short.insert(&[1], short));
        let of_short = Set::build(d, &[1i16]).unwrap();
        is_refused("Set::contains of i16", || of_short.contains(short));
        is_refused("Set::count of i16", || of_short.count(short));
        is_refused("union of i16", || koel::set::union(d, &short[..9], short));
        let of_short = Index::build(d, &[1i16]).unwrap();
        is_refused("Index::ids of i16", || of_short.ids(short));
        is_refused("MultiMap::build of i16", || MultiMap::build(d, short, short));

        is_refused("Map::insert", || map.insert(keys, keys));
        is_refused("Map::insert_or_assign", || map.insert_or_assign(keys, keys));
        is_refused("Map::insert_or_add", || map.insert_or_add(keys, keys));
        is_refused("Map::erase", || map.erase(keys));
        is_refused("Set::insert", || set.insert(keys));
        is_refused("Set::erase", || set.erase(keys));

        is_refused("unique", || koel::set::unique(d, keys));
        is_refused("union", || koel::set::union(d, &keys[..9], keys));
        is_refused("intersection", || koel::set::intersection(d, keys, &keys[..9]));
        is_refused("difference", || koel::set::difference(d, &keys[..9], keys));
    }
}

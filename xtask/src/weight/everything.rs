//! Calls everything that koel has once: the upper bound of what it adds to a program.
use koel::types::Addable;
use koel::{Device, Index, Key, Map, MultiMap, Operation, Set, SetOperation, StringMap, set};
use koel_spatial::intersect::{Intersector, Method};
use koel_spatial::{Grid, PointCloud, SpatialHash};
use std::error::Error;
use std::fmt::Debug;

fn map<K: Key + Debug, V: Addable + Debug>(
    device: &Device,
    k: [K; 2],
    v: [V; 2],
) -> koel::Result<()> {
    let mut map = Map::build(device, &k, &v)?;
    map.update(&[Operation::Insert, Operation::Erase], &k, &v)?;
    map.insert_or_add(&k, &v)?;
    map.shrink()?;
    println!(
        "{:?} {:?} {}",
        map.get(&k)?,
        map.join(&k)?,
        map.semi_join(&k)?.len() + map.anti_join(&k)?.len()
    );
    println!("{} {:?} {}", map.count(&k)?, map.contains(&k)?, map.pairs()?.len());
    let multi = MultiMap::build(device, &k, &v)?;
    println!("{:?} {:?}", multi.counts(&k)?, multi.retrieve(&k)?.of(0));
    Ok(())
}
fn set<K: Key + Debug>(device: &Device, k: [K; 2]) -> koel::Result<()> {
    let mut keys = Set::build(device, &k)?;
    keys.update(&[SetOperation::Insert, SetOperation::Erase], &k)?;
    keys.shrink()?;
    println!("{:?} {} {}", keys.contains(&k)?, keys.count(&k)?, keys.keys()?.len());
    println!("{} {}", set::unique(device, &k)?.len(), set::union(device, &k, &k)?.len());
    println!(
        "{} {}",
        set::intersection(device, &k, &k)?.len(),
        set::difference(device, &k, &k)?.len()
    );
    let (index, ids) = Index::encode(device, &k)?;
    println!("{:?} {ids:?} {:?}", index.ids(&k)?, index.keys_of(&ids)?.len());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::best()?;
    let stream = device.stream()?;
    map(&device, [1u32, 2], [3u32, 4])?;
    map(&device, [1u32, 2], [3u64, 4])?;
    map(&device, [1u64, 2], [3u32, 4])?;
    map(&device, [1u64, 2], [3u64, 4])?;
    set(&device, [1u32, 2])?;
    set(&device, [1u64, 2])?;
    map(&device, [1u128, 2], [3u32, 4])?;
    map(&device, [1u128, 2], [3u64, 4])?;
    set(&device, [1u128, 2])?;
    let words = ["a", "bc"];
    println!("{:?}", StringMap::build(&device, &words, &[3u32, 4])?.get(&words)?);
    let (keys, values) = (device.upload(&[1u32, 2])?, device.upload(&[3u32, 4])?);
    for kind in koel_classic::kinds() {
        let table =
            kind.build(&stream, keys.view(), values.view(), &koel_classic::Options::default())?;
        println!("{}: {:?}", kind.name(), table.get(&stream, &[1, 5])?);
    }
    let points = vec![[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 1.0]];
    println!("{:?}", SpatialHash::build_for_nearest(&device, &points, 2)?.nearest(&points, 2)?);
    println!("{:?}", SpatialHash::build(&device, &points, 1.0)?.within(&points, 1.0)?);
    let cloud = PointCloud { positions: points.clone(), normals: Some(points.clone()) };
    let grid = Grid::new([0.0; 3], 0.1, 16)?;
    for method in [Method::Robust(Default::default()), Method::Paper(Default::default())] {
        let mut both = Intersector::new(&device, &cloud, &cloud, grid, method)?;
        both.frame(&Default::default(), &Default::default())?;
        println!("{:?}", both.timings()?);
    }
    let picture = koel_vision::Grey::filled(64, 64, 0.5);
    let matcher = koel_vision::Matcher::new(&device, koel_vision::Options::default())?;
    let scene = matcher.scene(&picture)?;
    println!("{:?}", koel_vision::Model::of(&picture).map(|model| matcher.find(&model, &scene)));
    Ok(())
}

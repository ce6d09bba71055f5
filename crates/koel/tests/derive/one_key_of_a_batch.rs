//! Single keys where tables take many at a time.
use koel::{Device, Map, MapOptions, Set};

fn main() -> koel::Result<()> {
    let device = Device::cpu()?;
    let options = MapOptions { load: 0.9, ..Default::default() };
    let mut map = Map::build_with(&device, options, &[1u32, 2], &[2.5, 5.0])?;
    map.get(1)?;
    map.contains_key(1)?;
    map.insert(3, 7.5)?;
    map.insert(&3, &[7.5])?;
    let mut set = Set::build(&device, &[(1u8, 'a')])?;
    set.contains((1, 'a'))?;
    set.erase(&(1, 'a'))?;
    Ok(())
}

//! A user's program: a map of a million pairs, looked up and compared.
use koel::{Device, Map};

fn main() -> koel::Result<()> {
    let keys: Vec<u32> = (0..1_000_000u32).map(|i| i.wrapping_mul(0x9E37_79B1)).collect();
    let values: Vec<u32> = (0..1_000_000).collect();
    let map = Map::build(&Device::cpu()?, &keys, &values)?;
    let expected: Vec<Option<u32>> = values.iter().copied().map(Some).collect();
    let absent = 1_000_000u32.wrapping_mul(0x9E37_79B1);
    if map.get(&keys)? != expected || map.get(&[absent])? != [None] {
        eprintln!("the map built from koel's package gives wrong answers");
        std::process::exit(1);
    }
    Ok(())
}

//! Structs that derive are keys, whatever names surround them.
#![allow(dead_code, non_camel_case_types, reason = "names of the prelude, hidden on purpose")]
type Option = ();
type Result = ();
type Copy = ();
type bool = ();
type u128 = ();
mod core {}
mod std {}

#[derive(Clone, ::core::marker::Copy, Debug, PartialEq, koel::Key)]
struct Cell {
    x: i16,
    r#type: i16,
    level: u8,
}
#[derive(Clone, ::core::marker::Copy, Debug, PartialEq, koel::Key)]
struct Id<T>(T);
#[derive(Clone, ::core::marker::Copy, Debug, PartialEq, koel::Key)]
struct Nested<T> {
    cells: [Id<Cell>; 3],
    last: T,
}
/// A value, but no key: its field is a key.
#[derive(Clone, ::core::marker::Copy, Debug, PartialEq, koel::Value)]
#[repr(C, packed)]
struct Packed(u8, f32);

#[test]
fn derived_keys_are_found() {
    let device = koel::Device::cpu().unwrap();
    let cells = [1, 2, 3].map(|x| Id(Cell { x, r#type: -x, level: x as u8 }));
    let nested = [Nested { cells, last: true }];
    let values = [Packed(7, 0.5)];
    let map = koel::Map::build(&device, &nested, &values).unwrap();
    assert!(map.get(&nested).unwrap() == [::core::option::Option::Some(values[0])]);
}

//! Serde's traits for maps and sets: feature `serde`.
//!
//! A map is written as a map, a set as a sequence, in any order. [`HostMap`] and [`HostSet`] are
//! read as well, of which [`HostMap::to_map`] and [`HostSet::to_set`] make tables on any device: of
//! equal keys, the last counts. Tables are saved and loaded faster in [files](crate::file) of their
//! own.
use crate::types::{Key, Value};
use crate::{HostMap, HostSet, Map, Set};
use serde_core::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde_core::ser::Error as _;
use serde_core::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;

impl<K: Key + Serialize, V: Value + Serialize> Serialize for HostMap<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self)
    }
}
impl<K: Key + Serialize> Serialize for HostSet<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}
/// Copies the pairs to host memory first.
impl<K: Key + Serialize, V: Value + Serialize> Serialize for Map<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.pairs().map_err(S::Error::custom)?)
    }
}
/// Copies the keys to host memory first.
impl<K: Key + Serialize> Serialize for Set<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.keys().map_err(S::Error::custom)?)
    }
}
impl<'de, K: Key + Deserialize<'de>, V: Value + Deserialize<'de>> Deserialize<'de>
    for HostMap<K, V>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries::<HostMap<K, V>>(PhantomData))
    }
}
impl<'de, K: Key + Deserialize<'de>> Deserialize<'de> for HostSet<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Entries::<HostSet<K>>(PhantomData))
    }
}
/// Reads the entries of a `T`, whatever their announced number: it may be wrong.
struct Entries<T>(PhantomData<T>);
impl<'de, K: Key + Deserialize<'de>, V: Value + Deserialize<'de>> Visitor<'de>
    for Entries<HostMap<K, V>>
{
    type Value = HostMap<K, V>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<HostMap<K, V>, A::Error> {
        let mut map = HostMap::new();
        while let Some((key, value)) = entries.next_entry()? {
            map.insert(key, value).map_err(A::Error::custom)?;
        }
        Ok(map)
    }
}
impl<'de, K: Key + Deserialize<'de>> Visitor<'de> for Entries<HostSet<K>> {
    type Value = HostSet<K>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence of keys")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut keys: A) -> Result<HostSet<K>, A::Error> {
        let mut set = HostSet::new();
        while let Some(key) = keys.next_element()? {
            set.insert(key).map_err(A::Error::custom)?;
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, HostMap, HostSet};
    use serde_json::{from_str, from_value, json, to_value};

    #[test]
    fn maps_and_sets_are_written_and_read() {
        let map = HostMap::from_iter((0u32..100).map(|key| (key, f64::from(key) / 2.0)));
        let text = to_value(&map).unwrap();
        assert_eq!((text["7"].as_f64(), text.as_object().unwrap().len()), (Some(3.5), 100));
        let device = Device::cpu().unwrap();
        assert_eq!(to_value(map.to_map(&device).unwrap()).unwrap(), text);
        assert!(from_value::<HostMap<u32, f64>>(text).unwrap() == map);
        let set = HostSet::from(['a', 'b']);
        let read = from_value::<HostSet<char>>(to_value(&set).unwrap()).unwrap();
        assert!(read == set);
        let keys = to_value(set.to_set(&device).unwrap()).unwrap();
        assert!(keys == json!(["a", "b"]) || keys == json!(["b", "a"]));
    }
    #[test]
    fn of_equal_keys_the_last_counts_and_others_are_errors() {
        let map = from_str::<HostMap<u8, i16>>(r#"{"1": 2, "3": 4, "1": -5}"#).unwrap();
        assert_eq!((map.get(1), map.get(3), map.len()), (Some(-5), Some(4), 2));
        for wrong in [r#"{"1": 2, "300": 4}"#, r#"{"1": "x"}"#, "[1]", r#"{"1": 2"#] {
            let e = from_str::<HostMap<u8, i16>>(wrong).unwrap_err().to_string();
            assert!(e.contains("line 1"), "{e}");
        }
        assert!(from_str::<HostSet<u8>>("[1, 1, 2]").unwrap() == HostSet::from([1, 2]));
        assert!(from_str::<HostSet<u8>>("[1, -1]").is_err());
    }
}

//! What a column of keys is: see [`Keyed`].
use crate::device::Device;
use crate::duplicates::Duplicates;
use crate::error::{Result, count32};
use crate::fallible::{collect, push, repeat};
use crate::map::{Map, MapOptions};
use crate::rows::RowsOptions;
use crate::strings::StringMap;
use crate::types::Key;

mod sealed {
    pub trait Sealed {}
}

/// Elements of a column of keys: every [`Key`] (integers, floats, tuples, structs and so on), and
/// strings: `&str`, `String`, `&String`, `&[u8]`, `Vec<u8>`. The trait is sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key of a column",
    label = "neither a `koel::Key` nor a string",
    note = "columns hold keys of at most 16 bytes (`#[derive(koel::Key)]` makes a struct one), \
            `&str`, `String`, `&[u8]` or `Vec<u8>`"
)]
pub trait Keyed: Clone + Send + Sync + Sized + sealed::Sealed {
    /// Map from keys to their first rows.
    #[doc(hidden)]
    type Map;
    #[doc(hidden)]
    fn first_rows(device: &Device, keys: &[Self], rows: &[u32]) -> Result<Self::Map>;
    #[doc(hidden)]
    fn rows_of(map: &Self::Map, keys: &[Self]) -> Result<Vec<Option<u32>>>;
}
impl<K: Key> sealed::Sealed for K {}
impl<K: Key> Keyed for K {
    type Map = Map<K, u32>;
    fn first_rows(device: &Device, keys: &[K], rows: &[u32]) -> Result<Map<K, u32>> {
        let options = MapOptions::default().with_duplicates(Duplicates::KeepFirst);
        Map::build_with(device, options, keys, rows)
    }
    fn rows_of(map: &Map<K, u32>, keys: &[K]) -> Result<Vec<Option<u32>>> {
        map.get(keys)
    }
}
macro_rules! strings {
    ($($type:ty)+) => {
        $(
            impl sealed::Sealed for $type {}
            impl Keyed for $type {
                type Map = StringMap<u32>;
                fn first_rows(device: &Device, keys: &[$type], rows: &[u32]) -> Result<Self::Map> {
                    let options = RowsOptions::default().with_duplicates(Duplicates::KeepFirst);
                    StringMap::build_with(device, options, keys, rows)
                }
                fn rows_of(map: &Self::Map, keys: &[$type]) -> Result<Vec<Option<u32>>> {
                    map.get(keys)
                }
            }
        )+
    };
}
strings! { &str String &String &[u8] Vec<u8> }

/// Groups of rows with equal keys, numbered in order of first occurrence.
pub(super) struct Groups<K: Keyed> {
    /// Map from keys to their first rows.
    map: K::Map,
    /// Group of each row.
    pub ids: Vec<u32>,
    /// First row of each group.
    pub firsts: Vec<u32>,
    /// Number of rows of each group.
    pub sizes: Vec<u32>,
}
impl<K: Keyed> Groups<K> {
    /// Errors: more keys than 31-bit indices can address, out of memory.
    pub(super) fn of(device: &Device, keys: &[K]) -> Result<Groups<K>> {
        let n = count32("keys", keys.len())?;
        let rows = collect(0..n)?;
        let map = K::first_rows(device, keys, &rows)?;
        drop(rows);
        let first_rows = K::rows_of(&map, keys)?;
        // A first row comes before the others of its group.
        let (mut ids, mut firsts) = (repeat(0, keys.len())?, Vec::new());
        for (row, first) in (0..n).zip(first_rows) {
            // A type of its own may pack into other bits now than before: then it is a new key.
            let first = first.filter(|&first| first < row);
            ids[row as usize] = if let Some(first) = first {
                ids[first as usize]
            } else {
                push(&mut firsts, row)?;
                firsts.len() as u32 - 1
            };
        }
        let mut sizes = repeat(0, firsts.len())?;
        ids.iter().for_each(|&id| sizes[id as usize] += 1);
        Ok(Groups { map, ids, firsts, sizes })
    }
    /// Returns the group of each key of another column, or `None`.
    pub(super) fn groups_of(&self, keys: &[K]) -> Result<Vec<Option<u32>>> {
        let mut rows = K::rows_of(&self.map, keys)?;
        for row in rows.iter_mut().flatten() {
            *row = self.ids[*row as usize];
        }
        Ok(rows)
    }
}

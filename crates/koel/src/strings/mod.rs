//! Keys of any number of bytes: strings, paths, names, long tuples. A map, a set and a two-way
//! index.
//!
//! Whatever is `AsRef<[u8]>` is a key: `&str`, `String`, `Vec<u8>`, `[u8; N]`. Two keys are the
//! same if their bytes are. Text is not normalised: "é" as one code point and as two are different
//! keys.
//!
//! ```
//! use koel::{Device, StringIndex, StringMap, StringSet};
//!
//! let device = Device::cpu()?; // or Device::best(): a GPU if a driver finds one
//! let map = StringMap::build(&device, &["one", "two", ""], &[1, 2, 0])?;
//! assert_eq!(map.get(&["two", "three"])?, [Some(2), None]);
//!
//! let words = "the cat and the dog".split(' ').collect::<Vec<_>>();
//! let set = StringSet::build(&device, &words)?;
//! assert_eq!((set.len(), set.contains(&["dog", "do"])?), (4, vec![true, false]));
//!
//! // Ids in order of first occurrence.
//! let (index, ids) = StringIndex::encode(&device, &words)?;
//! assert_eq!(ids, [0, 1, 2, 0, 3]);
//! assert_eq!(index.keys()?, ["the", "cat", "and", "dog"]);
//!
//! let (words, counts) = koel::string_counts(&device, &words)?;
//! assert_eq!((words.get_str(0), counts), (Some("the"), vec![2, 1, 1, 1]));
//! # Ok::<(), koel::Error>(())
//! ```
//!
//! [`StringMultiMap`] keeps several values of each string. [`MapToStrings`] and
//! [`StringMapToStrings`] have strings as values.
//!
//! # Everything else, by ids
//! Whatever takes keys of 32 bits takes a column of strings as the column of its ids:
//!
//! ```
//! use koel::groups::reduction::Sum;
//! use koel::{Device, MultiMap, StringIndex};
//!
//! let device = Device::cpu()?;
//! let (cities, people) = (["Bonn", "Rome", "Bonn"], [331u32, 2748, 332]);
//! let (index, ids) = StringIndex::encode(&device, &cities)?;
//! let by_city = MultiMap::build(&device, &ids, &people)?;
//! // As every id occurs, sums are in the order of the strings.
//! assert_eq!(by_city.reduce::<Sum>()?, [663, 2748]);
//! assert_eq!(index.keys()?, ["Bonn", "Rome"]);
//! # Ok::<(), koel::Error>(())
//! ```
//!
//! # How it works
//! As for [keys of 128 bits](crate::keys128): the strings that stay are in a column, in *rows*, in
//! input order, and a map leads from the 64-bit [fingerprint] of each to its row. A lookup finds
//! the row and compares all bytes there. The fingerprint function is drawn from a nearly universal
//! family, so that two keys of at most `7 n` bytes share a fingerprint with probability 2^-64 +
//! (`(n + 1) / 2^61`)^2; a build finds that out, and draws another function. Given valid arguments,
//! a build fails only when out of memory or, on request, for equal keys. Answers, rows and ids are
//! the same on every device and in every run.
//!
//! # Cost
//! A key takes its bytes, an offset of 8 bytes and, at load 0.8, 20 bytes of the table.
//! A lookup of a present key reads at random the sectors of a [map](crate::Map) from `u64` to `u32`
//! (1.13 of 32 bytes), that of its row, one or two of the offsets, and those of its bytes; an
//! absent key costs 1.11 sectors. On a GPU, one thread hashes and compares a key, so a column of
//! few keys with megabytes each is slow. There, queries from host memory are copied to the device
//! first; on a CPU they are used where they are.
//!
//! # Limits
//! 2^31 rows, and 2^35 - 8 bytes in a column. There are no rebuilds in place yet.
//!
//! [fingerprint]: StringFingerprint
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
mod column;
mod file;
mod index;
mod map;
mod multi_map;
mod set;
pub(crate) mod to_strings;

pub use column::{StringVec, Strings};
pub use index::{StringIndex, string_counts};
pub use koel_kernels::strings::fingerprint::StringFingerprint;
pub use map::StringMap;
pub use multi_map::StringMultiMap;
pub use set::StringSet;
pub use to_strings::{MapToStrings, StringMapToStrings, ToStrings};

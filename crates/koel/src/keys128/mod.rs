//! Keys of 128 bits: UUIDs, hashes, packed tuples. A map and a set, for buffers and custom kernels;
//! a [`Map`](crate::Map), [`Set`](crate::Set) or [`Index`] whose keys or values have more than 8
//! bytes is stored as one of these.
//!
//! # How it works
//! The keys are in an array, in *rows*, in input order. A flagship [map](crate::Map) maps a 64-bit
//! [fingerprint] of each key to its row. A lookup finds the row and compares the full key there, so
//! that equal fingerprints never give a false match.
//!
//! The fingerprint function is drawn from a universal family: two keys share a fingerprint with
//! probability 2^-64. A build compares all keys with equal fingerprints: on a GPU it looks up every
//! key of its input, on a CPU it finds the equal fingerprints among those of one bin. If two keys
//! differ, the build draws another function and restarts. For 2^27 keys that happens once in 2,000
//! builds, for 2^31 once in eight. The first draw depends on the seed. Later
//! draws are random, so that nobody can craft colliding keys; answers do not depend on the draw.
//!
//! # Guarantees
//! Every key can be stored. Equal keys are resolved by [`Duplicates`]; they take no memory in the
//! finished table. Answers, rows, ids and the order of [`pairs`](Map128::pairs) and
//! [`keys`](Set128::keys) are the same on every device and in every run, also after batches. Given
//! valid arguments, a build fails only when out of memory or, on request, for equal keys.
//!
//! ```
//! use koel::{Device, Index, Map128, Set128};
//!
//! let device = Device::cpu()?; // or Device::best(): a GPU if a driver finds one
//! let ids = [0x0193_b3a0_u128 << 96 | 7, 3, u128::MAX];
//! let map = Map128::build(&device, &ids, &[70u32, 30, 90])?;
//! assert_eq!(map.get(&[3, 4, u128::MAX])?, [Some(30), None, Some(90)]);
//!
//! let set = Set128::build(&device, &[5, 5, 1 << 100])?;
//! assert_eq!((set.len(), set.contains(&[5, 6])?), (2, vec![true, false]));
//!
//! // Ids in order of first occurrence.
//! let (index, column) = Index::encode(&device, &[1u128 << 100, 5, 1 << 100])?;
//! assert_eq!((column, index.keys_of(&[1])?), (vec![0, 1, 0], vec![Some(5)]));
//! # Ok::<(), koel::Error>(())
//! ```
//!
//! # Cost
//! A lookup of a present key at load 0.8 reads these sectors of 32 bytes at random: 1.13 of the
//! table, one for the row, one for the key, one for the value. An absent key costs 1.11 sectors. A
//! lookup takes one launch.
//!
//! On a GPU, a build of distinct keys is a launch that computes fingerprints (28 bytes of memory
//! traffic per key) and the build of a map from `u64` to `u32` (96 bytes); if that drops no equal
//! fingerprint, keys and values are copied. Otherwise a launch looks up all keys (17 bytes, and two
//! sectors at random), which tells equal keys from others with one fingerprint; the remaining ones
//! are compacted, and a smaller map is built from them. A build takes four or five launches, a fill
//! and two copies; with equal keys eleven to fourteen launches. It waits for the device once
//! midway, for counts, with equal keys twice, and at its end.
//!
//! On a CPU, fingerprints and rows (12 bytes per key, written and read) go to bins (16 bytes), as
//! in the build of a map. Each bin is searched for copies in cache, and for each copy two keys are
//! read at random. Then the table of the keys that stay is built from the bins. They are read once
//! more; with copies, up to a quarter of them twice, since the new bins have other bounds. Keys and
//! values are copied.
//!
//! Memory: 36 bytes plus a value per key at load 0.8, of which the table takes 20. In addition, a
//! builder keeps 13 bytes per key of its largest input, and what a
//! [`MapBuilder`](crate::MapBuilder) keeps.
//!
//! # In a loop, and in files
//! A `rebuild` ([`Map128Builder::rebuild`], [`Set128Builder::rebuild`],
//! [`IndexBuilder::rebuild`](crate::IndexBuilder::rebuild)) reuses the memory of a table: it
//! allocates nothing, and waits only for the counts midway.
//!
//! # Changing a table
//! Batches insert, change and remove pairs ([`Map128::apply`], [`Set128::apply`], and methods on
//! slices such as [`Map128::insert`]); the result equals that of applying the operations one after
//! the other. New keys get rows behind the others, in order of first occurrence. Where keys are
//! erased, the last rows fill the gaps.
//!
//! A batch is reduced to its distinct keys: the table of a build tells whether any occur twice. If
//! so, a build gives them rows, and a small map of their numbers finds what the operations come to.
//! Each key is looked up; then the table of fingerprints, the keys and the values change once per
//! key. Like a build it waits for counts. A new key with the fingerprint of another one leads to
//! another function, and a new table. A [`MapUpdater`](crate::MapUpdater) of a
//! [`Map`](crate::Map) with such keys, and a [`SetUpdater`](crate::SetUpdater), keep the memory of
//! a batch for the next one.
//!
//! `save`, `load` and `open` work like those of [`Map`](crate::Map): a file holds the table, the
//! keys and the values in this order, and lookups in an opened file read it in place: see
//! [`file`](mod@crate::file).
//!
//! [fingerprint]: koel_kernels::keys128::fingerprint::Fingerprint
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods))]
mod column;
mod file;
mod index;
mod map;
mod set;
mod store;

#[cfg(doc)]
use crate::{Duplicates, Index};
use column::rows_ref;
pub(crate) use index::RowIndex;
pub use koel_kernels::keys128::find::RowsRef;
pub use koel_kernels::keys128::fingerprint::Fingerprint;
pub use map::{Map128, Map128Builder};
pub use set::{Set128, Set128Builder};

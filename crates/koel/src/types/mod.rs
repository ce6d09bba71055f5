//! Types of keys and values: what they mean, and the bits that tables store.
//!
//! A table stores 32, 64 or 128 bits of a key and of a value. [`Key`] and [`Value`] say how a type
//! becomes bits and back; kernels and the CPU engine know only [bits](Bits). So no type adds a
//! kernel, and all types of the same width are equally fast.
//!
//! | type | bits of a key | bits of a value |
//! |---|---|---|
//! | integers of up to 128 bits, `usize`, `isize` | two's complement | the same |
//! | `bool`, `char`, `Ipv4Addr`, `Ipv6Addr` | as a number | the same |
//! | `Duration`; `Uuid`, with the feature `uuid` | as a number | the same |
//! | `f32`, `f64` | -0.0 as 0.0, every NaN as one | unchanged |
//! | [`TotalF32`], [`TotalF64`] | unchanged: -0.0 and 0.0 differ | the same |
//! | tuples of up to six and arrays of these | one after the other, packed | the same |
//! | structs that derive [`Key`](macro@crate::Key) | their fields, packed | the same |
//!
//! Up to 4 bytes, packed, become 32 bits; 5 to 8 bytes become 64; 9 to 16 bytes become 128, which
//! is the most. Padding is not stored. [`Value`](macro@crate::Value) can be derived alone.
//!
//! Slots of tables hold up to 64 bits. If a key or a value has more, a [`Map`](crate::Map),
//! [`Set`](crate::Set) or [`Index`](crate::Index) keeps all keys in rows, as
//! [`keys128`](crate::keys128) describes, with keys of 128 bits; so do their builders, updaters and
//! joiners, and a [`MultiMap`](crate::MultiMap) its keys. Sorted counts, reductions, and what
//! kernels take or graphs record, are of what slots hold: [`SlotKey`] and [`SlotValue`].
//!
//! # Conversion
//! A slice whose memory is its bits, such as one of `i64` or `[u32; 2]`, is used as it is. Other
//! slices, such as those of `i16`, `f32` keys or structs with padding, are converted into a new
//! array, in parallel, which takes about as long as copying them.
//!
//! Operations on buffers take numbers, and arrays of them: [`DeviceKey`] and [`DeviceValue`]. Those
//! of 4, 8 or 16 bytes at an address that is a multiple of it are used where they are, except float
//! keys, and keys of indexes and multimaps that are not numbers without a sign. Others are
//! converted by one more launch, which reads and writes them once: inputs before the operation,
//! outputs behind it, from and to memory that the call allocates. Elements of converted outputs
//! that an operation does not write become 0, but stay as they are in exports. A
//! [graph](crate::Stream::capture) cannot hold a conversion.
mod as_keys;
mod bits;
mod cast;
mod float;
mod key;
mod packed;
mod value;
mod width;

pub use as_keys::AsKeys;
pub use bits::{Bits, KeyBits, SlotKey, SlotValue, ValueBits};
pub(crate) use cast::{
    bits_of_key, bits_of_value, key_bits, ordered_bits, stage_keys, stage_ordered, stage_values,
    value_bits,
};
pub use float::{TotalF32, TotalF64};
pub use key::{BitsOf, DeviceKey, Key};
#[doc(hidden)]
pub use packed::Numbers;
pub(crate) use packed::{
    keys_of_ordered, keys_on, ordered_on, values_on, write_bits, write_ordered, write_some,
};
pub use value::{Addable, DeviceValue, Value};
pub use width::{Bytes, Plus, Times, Width};

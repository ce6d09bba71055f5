//! Real-time parallel hashing on the GPU and the CPU.
pub mod classic;
#[doc(hidden)]
pub mod cpu;
pub mod device;
mod duplicates;
mod error;
pub mod limits;
pub mod map;
pub mod primitives;

pub use device::{Buffer, Device, DeviceKind, Stream, View, ViewMut};
pub use duplicates::Duplicates;
pub use error::{Error, Result};
pub use map::{Map, MapBuilder, MapOptions, MapReport};

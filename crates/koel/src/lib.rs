//! Real-time parallel hashing on the GPU and the CPU.
#[doc(hidden)]
pub mod cpu;
pub mod device;
mod error;

pub use device::{Buffer, Device, DeviceKind, Stream, View, ViewMut};
pub use error::{Error, Result};
pub mod classic;
pub mod limits;
pub mod primitives;

//! Host data that a device can read.
use super::{Buffer, Plain, View};
use crate::device::Device;
use crate::error::Result;
use std::borrow::Cow;

/// Host data that a device can read: borrowed on the CPU, copied elsewhere.
pub struct Staged<'a, T: Plain>(Place<'a, T>);
enum Place<'a, T: Plain> {
    Host(Cow<'a, [T]>, Device),
    Copy(Buffer<T>),
}
impl<'a, T: Plain> Staged<'a, T> {
    pub(crate) fn new(device: &Device, data: impl Into<Cow<'a, [T]>>) -> Result<Staged<'a, T>> {
        let data = data.into();
        Ok(Staged(match device.runs_kernels() {
            false => Place::Host(data, device.clone()),
            true => Place::Copy(device.upload(&data)?),
        }))
    }
    /// Returns a view of all elements.
    pub fn view(&self) -> View<'_, T> {
        match &self.0 {
            Place::Host(data, device) => View::of_host(device, data),
            Place::Copy(buffer) => buffer.view(),
        }
    }
}

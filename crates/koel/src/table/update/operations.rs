//! Operations of a batch.
use crate::device::{Device, View};
use crate::error::Result;
use koel_kernels::table::update::operation;

/// Operations of a batch: on a [`Map`](crate::Map) each an [`Operation`](crate::Operation), on a
/// [`Set`](crate::Set) a [`SetOperation`](crate::SetOperation).
#[derive(Clone, Copy, Debug)]
pub enum Operations<'a, O = crate::Operation> {
    /// The same operation for every key.
    All(O),
    /// One operation per key, as a byte. Only its low two bits count.
    Each(View<'a, u8>),
}
impl<'a, O> Operations<'a, O> {
    /// Replaces operations by their codes.
    pub(crate) fn codes(self, code: impl FnOnce(O) -> u32) -> Codes<'a> {
        match self {
            Operations::All(operation) => Operations::All(code(operation)),
            Operations::Each(each) => Operations::Each(each),
        }
    }
}
/// Operations of a batch in host memory.
#[derive(Clone, Copy)]
pub(crate) enum HostOperations<'a, O> {
    All(O),
    /// One per key, as a code.
    Each(&'a [u8]),
}
impl<'a, O> HostOperations<'a, O> {
    /// Replaces operations by their codes.
    pub(crate) fn codes(self, code: impl FnOnce(O) -> u32) -> HostOperations<'a, u32> {
        match self {
            HostOperations::All(operation) => HostOperations::All(code(operation)),
            HostOperations::Each(each) => HostOperations::Each(each),
        }
    }
    /// Calls `apply` with the operations where a device reads them.
    pub(crate) fn on<R>(
        self,
        device: &Device,
        apply: impl FnOnce(Operations<'_, O>) -> Result<R>,
    ) -> Result<R> {
        match self {
            HostOperations::All(operation) => apply(Operations::All(operation)),
            HostOperations::Each(codes) => apply(Operations::Each(device.stage(codes)?.view())),
        }
    }
}
/// Operations of a batch as kernels know them: by codes.
pub(crate) type Codes<'a> = Operations<'a, u32>;
impl Codes<'_> {
    pub(super) fn code(&self) -> u32 {
        match self {
            Operations::All(code) => *code,
            Operations::Each(_) => operation::EACH,
        }
    }
}

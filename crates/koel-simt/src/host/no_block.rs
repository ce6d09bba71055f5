//! Stand-in without the executor: no block runs as coroutines, so requests for one panic or compile
//! to nothing.
use super::Extent;
use super::fault::{At, FaultKind};
use crate::Access;

/// Warp operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WarpOp {
    Sync,
    Ballot,
    Shuffle,
    Match,
    Add,
    Min,
    Max,
}

/// Block run by the executor; uninhabited.
pub(super) enum Block {}

/// Returns `None`: kernels run natively.
#[inline(always)]
pub(super) fn running_block() -> Option<&'static Block> {
    None
}
/// Panics: only the executor has blocks.
#[track_caller]
pub(super) fn current() -> &'static Block {
    panic!(
        "only the executor runs kernels that wait for other threads or use shared memory: \
         enable the feature `executor`"
    )
}
#[cold]
#[track_caller]
pub(super) fn fault(_kind: FaultKind, message: String) -> ! {
    panic!("{message}")
}
impl Block {
    pub(super) fn shared_bytes(&self) -> u32 {
        match *self {}
    }
    pub(super) fn shared_access(
        &self,
        _at: u32,
        _bytes: u32,
        _access: Access,
        _reads: bool,
        _loc: At,
    ) -> *mut u8 {
        match *self {}
    }
    pub(super) fn global_access(
        &self,
        _: &Extent,
        _: usize,
        _: usize,
        _: Access,
        _constant: bool,
        _loc: At,
    ) {
        match *self {}
    }
    pub(super) fn release(&self, _address: usize) {
        match *self {}
    }
    pub(super) fn acquire(&self, _address: usize) {
        match *self {}
    }
    pub(super) fn fence(&self) {
        match *self {}
    }
    pub(super) fn wait_barrier(&self, _at: At, _p: bool) -> u32 {
        match *self {}
    }
    pub(super) fn warp_op(
        &self,
        _id: u32,
        _mask: u32,
        _op: WarpOp,
        _value: u64,
        _aux: u32,
        _at: At,
    ) -> u64 {
        match *self {}
    }
}

//! Without the executor no block ever runs as coroutines: what asks for one is told so, or compiles
//! to nothing.
use super::Extent;
use super::fault::{At, FaultKind};
use crate::Access;

/// What a warp does together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WarpOp {
    Sync,
    Ballot,
    Shuffle,
    Match,
    Add,
    Min,
    Max,
}

/// A block that the executor runs: there is none.
pub enum Block {}

/// None: kernels run natively.
#[inline(always)]
pub fn running_block() -> Option<&'static Block> {
    None
}
/// What only the executor has.
#[track_caller]
pub fn current() -> &'static Block {
    panic!(
        "only the executor runs kernels that wait for other threads or use shared memory: feature `executor`"
    )
}
#[cold]
#[track_caller]
pub fn fault(_kind: FaultKind, message: String) -> ! {
    panic!("{message}")
}
impl Block {
    pub fn shared_bytes(&self) -> u32 {
        match *self {}
    }
    pub fn shared_access(
        &self,
        _at: u32,
        _bytes: u32,
        _access: Access,
        _reads: bool,
        _loc: At,
    ) -> *mut u8 {
        match *self {}
    }
    pub fn global_access(
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
    pub fn release(&self, _address: usize) {
        match *self {}
    }
    pub fn acquire(&self, _address: usize) {
        match *self {}
    }
    pub fn fence(&self) {
        match *self {}
    }
    pub fn wait_barrier(&self, _at: At, _p: bool) -> u32 {
        match *self {}
    }
    pub fn warp_op(
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

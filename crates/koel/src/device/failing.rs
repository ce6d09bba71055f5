//! Allocation failures on demand, for tests.
//!
//! Every allocation that a table, a builder or a stream makes on any device asks [`fails`] first:
//! device memory, mappings, and vectors whose size depends on the input.
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

/// Allocations before the one that fails; negative if none will.
static LEFT: AtomicI64 = AtomicI64::new(-1);

/// Makes one allocation of device memory, or of host memory whose size depends on the input, fail:
/// the one after the next `n`, on any device and thread. For tests of the error path;
/// [`allocation_failed`] ends it.
pub fn fail_allocation_after(n: u32) {
    LEFT.store(n.into(), SeqCst);
}
/// Returns whether the failing allocation has happened. No allocation fails from here on.
pub fn allocation_failed() -> bool {
    LEFT.swap(-1, SeqCst) < 0 // other threads may have counted on
}
/// Returns whether this allocation must fail.
pub(crate) fn fails() -> bool {
    LEFT.load(SeqCst) >= 0 && LEFT.fetch_sub(1, SeqCst) == 0
}

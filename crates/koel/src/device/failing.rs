//! Allocations that fail when a test wants them to.
//!
//! What a table, a builder or a stream needs on any device asks [`fails`] first; Rust's own
//! collections, which hold what is small, do not.
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

/// Allocations until one fails; negative: none will.
static LEFT: AtomicI64 = AtomicI64::new(-1);

/// Makes one allocation of device memory fail, the one after the next `n`, on whatever device and
/// thread it is. For tests of what happens then: [`allocation_failed`] ends it.
pub fn fail_allocation_after(n: u32) {
    LEFT.store(n.into(), SeqCst);
}
/// Whether the allocation that was to fail has come. From here on none fails.
pub fn allocation_failed() -> bool {
    LEFT.swap(-1, SeqCst) == -1
}
/// Whether this allocation is to fail.
pub(super) fn fails() -> bool {
    LEFT.load(SeqCst) >= 0 && LEFT.fetch_sub(1, SeqCst) == 0
}

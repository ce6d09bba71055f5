//! The key itself, modulo the number of slots.
use super::{Constants, Source};

/// Returns no constants.
#[inline(always)]
pub(super) fn constants(_: Source) -> Constants {
    [0; 5]
}
/// Returns `k mod slots`: adjacent keys get adjacent slots.
#[inline(always)]
pub(super) fn slot(key: u32, _: &Constants, slots: u32) -> u32 {
    remainder(key, slots)
}
/// Returns `h mod n`; 0 if `n` is 0, as a kernel cannot panic.
#[inline(always)]
pub(super) fn remainder(h: u32, n: u32) -> u32 {
    h.checked_rem(n).unwrap_or(0)
}

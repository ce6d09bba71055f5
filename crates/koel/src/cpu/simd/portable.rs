//! Portable code without explicit vector instructions: runs on every machine, and is the oracle of
//! the other sets.
use super::{Simd, Work};

/// The trait's provided methods.
#[derive(Clone, Copy)]
pub(super) struct Portable;
impl Simd for Portable {
    #[inline(always)]
    fn vectorize<W: Work>(self, work: W) -> W::Output {
        work.run(self)
    }
}

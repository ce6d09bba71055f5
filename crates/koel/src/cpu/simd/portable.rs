//! No vector instructions by hand: every machine, and the others' oracle.
use super::{Simd, Work};

/// The trait's provided methods.
#[derive(Clone, Copy)]
pub struct Portable;
impl Simd for Portable {
    #[inline(always)]
    fn vectorize<W: Work>(self, work: W) -> W::Output {
        work.run(self)
    }
}

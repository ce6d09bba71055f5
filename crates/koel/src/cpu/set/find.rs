//! Sets as [lookups](crate::cpu::Finder) see them.
use crate::cpu::find::Probe;
use crate::cpu::simd::{Compared, GROUP, Simd};
use crate::cpu::stash::Stash;
use crate::cpu::{OfSet, place};
use crate::error::{Result, check_length};
use bytemuck::Pod;
use koel_kernels::set::layout::{Member, mixed};
use koel_kernels::table::layout::{Layout, Shape};

/// Keys in buckets, and their stash.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a, K: Member> {
    shape: Shape,
    seed: u32,
    slots: &'a [K],
    stash: &'a Stash<K::Pairs>,
}
impl<'a, K: Member> Keys<'a, K> {
    /// Of a set that [`build`](super::build) or another device built with this seed.
    ///
    /// Errors: a length that does not fit the shape.
    #[inline]
    pub(crate) fn new(
        shape: Shape,
        seed: u32,
        slots: &'a [K],
        stash: &'a Stash<K::Pairs>,
    ) -> Result<Keys<'a, K>> {
        let expected = shape.all_buckets() as usize * K::SLOTS as usize;
        check_length("table", slots.len(), "shape", expected)?;
        Ok(Keys { shape, seed, slots, stash })
    }
}
impl<K: Member + Pod> Probe for Keys<'_, K> {
    type Key = K;
    type Mixed = K;
    type Value = ();
    const AMBIGUOUS: K = K::EMPTY;

    #[inline(always)]
    fn shape(&self) -> Shape {
        self.shape
    }
    #[inline(always)]
    fn mixed(&self, key: K) -> K {
        mixed(self.seed, key)
    }
    #[inline(always)]
    fn hash(mixed: K) -> u32 {
        K::Pairs::hash(mixed)
    }
    #[inline(always)]
    fn address(&self, place: u32) -> *const u64 {
        self.slots.as_ptr().wrapping_add(place as usize * K::SLOTS as usize).cast()
    }
    #[inline(always)]
    fn compare<S: Simd>(
        &self,
        simd: S,
        places: &[u32; GROUP],
        mixed: &[K; GROUP],
        (): (),
    ) -> Compared<()> {
        simd.compare_keys(self.slots, places, mixed)
    }
    #[inline]
    fn find(&self, key: K) -> Option<()> {
        place::find::<OfSet<K>>(self.shape, self.seed, self.slots, self.stash, key)
    }
    #[inline(always)]
    fn held(&self) -> Option<()> {
        self.stash.held().map(|_| ())
    }
    #[inline(always)]
    fn suspects(&self, mixed: &[K; GROUP], bits: u32) -> u32 {
        self.stash.suspects(mixed, bits)
    }
    #[inline(always)]
    fn in_stash(&self, mixed: K) -> Option<()> {
        self.stash.get(mixed).map(|_| ())
    }
}

//! Sets as [lookups](crate::cpu::Finder) see them.
use crate::cpu::find::Probe;
use crate::cpu::simd::{Compared, GROUP, Simd};
use crate::cpu::stash::Stash;
use crate::error::{Result, check_length};
use koel_kernels::set::layout::{Member, mixed, search};
use koel_kernels::table::layout::{Layout, Shape, class};

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
    #[inline(always)]
    fn keys(&self, place: u32) -> &'a [K] {
        &self.slots[place as usize * K::SLOTS as usize..][..K::SLOTS as usize]
    }
}
impl<K: Member> Probe for Keys<'_, K> {
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
        _: S,
        places: &[u32; GROUP],
        mixed: &[K; GROUP],
        (): (),
    ) -> Compared<()> {
        let mut compared = Compared { values: [(); GROUP], found: 0, full: 0, overflowed: 0 };
        for i in 0..GROUP {
            let keys = self.keys(places[i]);
            let found = holds(keys, mixed[i]);
            let full = keys[K::SLOTS as usize - 1] != K::EMPTY;
            let class = class_bit(keys, class(K::Pairs::hash(mixed[i])));
            compared.add([found.into(), full.into(), class.into()], i);
        }
        compared
    }
    fn find(&self, key: K) -> Option<()> {
        let key = mixed(self.seed, key);
        if key == K::EMPTY {
            return self.held();
        }
        let found = search(self.shape, key, |place| bucket(self.keys(place)));
        found.unwrap_or_else(|| self.stash.get(key).is_some()).then_some(())
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

/// Returns whether a key is in a bucket. Becomes a vector comparison.
#[inline(always)]
pub(super) fn holds<K: Member>(keys: &[K], mixed: K) -> bool {
    keys.iter().fold(false, |any, &key| any | (key == mixed))
}
/// Returns the bit of this class that the order of a full bucket encodes, as
/// [`Member::class_bit`] does, which would take the keys from a vector one by one.
#[inline(always)]
fn class_bit<K: Member>(keys: &[K], class: u32) -> bool {
    if K::SLOTS == 8 {
        let pair = class as usize % 4 * 2;
        keys[pair] > keys[pair + 1]
    } else {
        K::class_bit(bucket(keys), class)
    }
}
/// Returns the bucket in these slots.
#[inline(always)]
pub(super) fn bucket<K: Member>(slots: &[K]) -> [K::Half; 2] {
    let half = |half: usize| K::half(|i| slots[half * K::SLOTS as usize / 2 + i as usize]);
    [half(0), half(1)]
}

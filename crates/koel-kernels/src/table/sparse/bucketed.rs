//! Buckets that are changed in place, and what a thread knows of one.
use crate::table::layout::{Layout, Shape, class};
use crate::table::sending::Routed;
use koel_simt::{Buf, Scalar, unroll};

/// A kind of table whose buckets are each changed by one thread.
pub(crate) trait Bucketed: Copy + 'static {
    /// How keys are mixed and how the stash stores pairs.
    type Pairs: Routed;
    /// Element type of slots.
    type Word: Scalar;
    /// A bucket in registers.
    type Bucket: Copy;
    /// Slots per bucket.
    const SLOTS: usize;
    /// Whether keys have values.
    const VALUES: bool;

    fn load(slots: Buf<Self::Word>, place: u32) -> Self::Bucket;
    fn store(slots: Buf<Self::Word>, place: u32, bucket: Self::Bucket);
    /// Returns the mixed key in a slot: all ones if the slot is empty.
    fn key(bucket: &Self::Bucket, slot: usize) -> MixedOf<Self>;
    /// Returns the value in a slot that is not empty.
    fn value(bucket: &Self::Bucket, slot: usize) -> ValueOf<Self>;
    /// Sets a slot to a pair, or empties it.
    fn put(bucket: &mut Self::Bucket, slot: usize, pair: Option<(MixedOf<Self>, ValueOf<Self>)>);
    /// Returns the class bits of a full bucket.
    fn class_bits(bucket: &Self::Bucket) -> u32;
    /// Returns the bucket as it is written to `place`, with these class bits and the `free` slots
    /// empty. `needed`: the bucket must look full.
    fn ordered(
        shape: Shape,
        place: u32,
        bucket: Self::Bucket,
        free: u32,
        bits: u32,
        needed: bool,
    ) -> Self::Bucket;
    /// Writes only the value in a slot of a bucket that has these pairs.
    fn store_value(
        slots: Buf<Self::Word>,
        place: u32,
        slot: u32,
        key: MixedOf<Self>,
        value: ValueOf<Self>,
    );
}

pub(crate) type MixedOf<T> = <<T as Bucketed>::Pairs as Layout>::Mixed;

pub(crate) type ValueOf<T> = <<T as Bucketed>::Pairs as Layout>::Value;

/// A bucket that only this thread changes.
pub(super) struct Open<T: Bucketed> {
    /// Partition, and bucket in the partition.
    pub(super) p: u32,
    pub(super) b: u32,
    pub(super) there: T::Bucket,
    pub(super) is_full: bool,
    /// Class bits, if the bucket is full.
    pub(super) bits: u32,
}

impl<T: Bucketed> Open<T> {
    /// Returns the slot of a key.
    #[inline(always)]
    pub(super) fn slot_of(&self, key: MixedOf<T>) -> Option<u32> {
        let mut slot = None;
        unroll::<8>(|s| {
            if s < T::SLOTS && T::key(&self.there, s) == key {
                slot = Some(s as u32);
            }
        });
        slot
    }
    #[inline(always)]
    pub(super) fn pair(&self, slot: u32) -> (MixedOf<T>, ValueOf<T>) {
        let mut pair = (T::key(&self.there, 0), T::value(&self.there, 0));
        unroll::<8>(|s| {
            if s > 0 && s < T::SLOTS && slot == s as u32 {
                pair = (T::key(&self.there, s), T::value(&self.there, s));
            }
        });
        pair
    }
    /// Returns the slots that are empty or, in a full bucket, hold [fillers](Shape::filler).
    #[inline(always)]
    pub(super) fn free(&self, shape: Shape) -> u32 {
        let (place, mut free) = (shape.place(self.p, self.b) as u32, 0);
        unroll::<8>(|s| {
            if s < T::SLOTS {
                let key = T::key(&self.there, s);
                let is_free = if self.is_full {
                    // A key belongs here if this is its first bucket, or the other one of its
                    // first.
                    let (h, here) = (T::Pairs::hash(key), shape.place(self.p, 0) as u32);
                    let first = shape.first_place(h);
                    first != place && first != here + shape.other(h, self.b)
                } else {
                    key == T::Pairs::AMBIGUOUS
                };
                free |= (is_free as u32) << s;
            }
        });
        free
    }
    /// Puts a pair into a slot.
    #[inline(always)]
    pub(super) fn put(&mut self, slot: u32, pair: (MixedOf<T>, ValueOf<T>)) {
        unroll::<8>(|s| {
            if s < T::SLOTS && slot == s as u32 {
                T::put(&mut self.there, s, Some(pair));
            }
        });
    }
    /// Records that a key with this hash overflows from here, if this is its first bucket.
    #[inline(always)]
    pub(super) fn overflows(&mut self, shape: Shape, h: u32) {
        self.bits |= ((shape.first(h) == self.b) as u32) << class(h);
    }
}

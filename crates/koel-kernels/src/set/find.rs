//! Lookups: one thread per query reads one sector, and a second one for few queries.
use super::layout::{Member, mixed, search};
use crate::table::answers::{tell_bits, tell_count, tell_flags};
use crate::table::layout::Shape;
use crate::table::{header, stash};
use koel_simt::{Buf, In, Thread, kernel};

/// A set as kernels see it: one kernel parameter.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SetRef<K: Member> {
    /// Partitions and buckets.
    pub shape: Shape,
    /// log2 of the number of slots in the stash.
    pub stash_bits: u32,
    /// The buckets.
    pub slots: In<K>,
    /// The stash.
    pub stash: In<u64>,
    /// The header.
    pub header: In<u32>,
}
impl<K: Member> SetRef<K> {
    /// Returns the same set for host code outside a kernel, which can then look keys up.
    ///
    /// # Safety
    /// The set must be on a device whose memory is the host's. Its memory must stay allocated and
    /// unchanged while the result is used.
    #[cfg(not(target_arch = "nvptx64"))]
    pub unsafe fn on_host(self) -> SetRef<K> {
        // SAFETY: guaranteed by the caller.
        unsafe { koel_simt::Arg::native(self) }
    }
    /// Loads a bucket.
    #[inline(always)]
    #[track_caller]
    pub(super) fn bucket(&self, place: u64) -> [K::Half; 2] {
        [K::read_half(self.slots, 2 * place), K::read_half(self.slots, 2 * place + 1)]
    }
    /// Returns whether the set contains a key.
    ///
    /// Reads one 32-byte sector, and a second one if the first bucket is full and keys of this
    /// class overflowed from it.
    #[inline(always)]
    #[track_caller]
    pub fn contains(&self, key: K) -> bool {
        let mixed = mixed(self.header.get(header::SEED), key);
        if mixed == K::EMPTY {
            return self.header.get(header::HELD) != 0;
        }
        match search(self.shape, mixed, |place| self.bucket(place as u64)) {
            Some(found) => found,
            None => {
                self.header.get(header::STASHED) != 0
                    && stash::find::<K::Pairs>(self.stash, self.stash_bits, mixed).is_some()
            }
        }
    }
}

/// Looks up query `i` and writes 1 or 0.
#[kernel(image = SET, threads = 256, starts_early, for K in [u32, u64])]
pub fn set_contains<K: Member>(
    t: Thread,
    table: SetRef<K>,
    n: u32,
    queries: In<K>,
    found: Buf<u8>,
) {
    tell_flags(t, n, found, |i| table.contains(queries.get_stream(i)))
}
/// Looks up query `i` and writes bit `i % 32` of word `i / 32`. Bits after the last query are 0.
#[kernel(image = SET, threads = 256, starts_early, for K in [u32, u64])]
pub fn set_contains_bits<K: Member>(
    t: Thread,
    table: SetRef<K>,
    n: u32,
    queries: In<K>,
    found: Buf<u32>,
) {
    tell_bits(t, n, found, |i| table.contains(queries.get_stream(i)))
}
/// Adds the number of queries in the set to `count`.
#[kernel(image = SET, threads = 256, starts_early, for K in [u32, u64])]
pub fn set_count<K: Member>(t: Thread, table: SetRef<K>, n: u32, queries: In<K>, count: Buf<u64>) {
    tell_count(t, n, count, |i| table.contains(queries.get_stream(i)))
}

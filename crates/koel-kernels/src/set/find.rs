//! Lookups: one thread a query, one sector read, a second one for the few that need it.
use super::layout::{Member, mixed, search};
use crate::table::answers::{tell_bits, tell_count, tell_flags};
use crate::table::layout::Shape;
use crate::table::{header, stash};
use koel_simt::{Buf, In, Thread, kernel};

/// A set as kernels see it: one parameter of a kernel.
#[derive(Clone, Copy, koel_simt::Arg)]
#[repr(C)]
pub struct SetRef<K: Member> {
    /// Partitions and buckets.
    pub shape: Shape,
    /// The stash has 2^this slots.
    pub stash_bits: u32,
    /// The buckets.
    pub slots: In<K>,
    /// The stash.
    pub stash: In<u64>,
    /// The header.
    pub header: In<u32>,
}
impl<K: Member> SetRef<K> {
    /// The same for host code outside of a kernel, which can then look keys up.
    ///
    /// # Safety
    /// It is on a device whose memory is the host's, and is there and not changed as long as the
    /// result is used.
    #[cfg(not(target_arch = "nvptx64"))]
    pub unsafe fn on_host(self) -> SetRef<K> {
        // SAFETY: the caller's.
        unsafe { koel_simt::Arg::native(self) }
    }
    /// A bucket.
    #[inline(always)]
    #[track_caller]
    pub(super) fn bucket(&self, place: u64) -> [K::Half; 2] {
        [K::read_half(self.slots, 2 * place), K::read_half(self.slots, 2 * place + 1)]
    }
    /// Whether a key is there.
    ///
    /// Reads one sector of 32 bytes, and a second one if the first bucket is full and keys of this
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

/// Looks up query `i`: 1 or 0.
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
/// Looks up query `i`: bit `i % 32` of word `i / 32`. The bits behind the last query are 0.
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
/// Adds to `count` how many of the queries are in the set.
#[kernel(image = SET, threads = 256, starts_early, for K in [u32, u64])]
pub fn set_count<K: Member>(t: Thread, table: SetRef<K>, n: u32, queries: In<K>, count: Buf<u64>) {
    tell_count(t, n, count, |i| table.contains(queries.get_stream(i)))
}

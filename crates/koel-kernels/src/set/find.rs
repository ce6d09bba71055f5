//! Lookups: one thread a query, one sector read, a second one for the few that need it.
use super::layout::{Member, mixed, search};
use crate::map::find::{tell_bits, tell_count, tell_flags};
use crate::map::layout::Shape;
use crate::map::{header, stash};
use koel_simt::{Buf, In, Thread, kernel};

/// A set as a kernel sees it: the device-side handle. For `#[kernel]` parameters it is passed in
/// parts.
#[derive(Clone, Copy)]
pub struct Table<K> {
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
impl<K: Member> Table<K> {
    /// From its parts.
    #[inline(always)]
    pub fn new(
        shape: Shape,
        stash_bits: u32,
        slots: In<K>,
        stash: In<u64>,
        header: In<u32>,
    ) -> Table<K> {
        Table { shape, stash_bits, slots, stash, header }
    }
    /// The same for host code outside of a kernel, which can then look keys up.
    ///
    /// # Safety
    /// It is on a device whose memory is the host's, and is there and not changed as long as the
    /// result is used.
    #[cfg(not(target_arch = "nvptx64"))]
    pub unsafe fn on_host(self) -> Table<K> {
        use koel_simt::Arg;
        let Table { shape, stash_bits, slots, stash, header } = self;
        // SAFETY: the caller's.
        unsafe { Table::new(shape, stash_bits, slots.native(), stash.native(), header.native()) }
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

macro_rules! entries { ($($key:ty: $contains:ident $contains_bits:ident $count:ident;)*) => { $(
    /// Looks up query `i`: 1 or 0.
    #[kernel(image = SET, threads = 256, starts_early)]
    pub fn $contains(
        t: Thread,
        n: u32,
        shape: Shape,
        stash_bits: u32,
        slots: In<$key>,
        stash: In<u64>,
        table_header: In<u32>,
        queries: In<$key>,
        found: Buf<u8>,
    ) {
        let table = Table::<$key>::new(shape, stash_bits, slots, stash, table_header);
        tell_flags(t, n, found, |i| table.contains(queries.get_stream(i)))
    }
    /// Looks up query `i`: bit `i % 32` of word `i / 32`. The bits behind the last query are 0.
    #[kernel(image = SET, threads = 256, starts_early)]
    pub fn $contains_bits(
        t: Thread,
        n: u32,
        shape: Shape,
        stash_bits: u32,
        slots: In<$key>,
        stash: In<u64>,
        table_header: In<u32>,
        queries: In<$key>,
        found: Buf<u32>,
    ) {
        let table = Table::<$key>::new(shape, stash_bits, slots, stash, table_header);
        tell_bits(t, n, found, |i| table.contains(queries.get_stream(i)))
    }
    /// Adds to `count` how many of the queries are in the set.
    #[kernel(image = SET, threads = 256, starts_early)]
    pub fn $count(
        t: Thread,
        n: u32,
        shape: Shape,
        stash_bits: u32,
        slots: In<$key>,
        stash: In<u64>,
        table_header: In<u32>,
        queries: In<$key>,
        count: Buf<u64>,
    ) {
        let table = Table::<$key>::new(shape, stash_bits, slots, stash, table_header);
        tell_count(t, n, count, |i| table.contains(queries.get_stream(i)))
    }
)* } }
entries! {
    u32: set_contains_u32 set_contains_bits_u32 set_count_u32;
    u64: set_contains_u64 set_contains_bits_u64 set_count_u64;
}

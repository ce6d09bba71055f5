//! Work on a whole table while writers wait: copies of its pairs, clearing, replacement.
use super::bucket::{Bucket, Header};
use super::change::{Change, Locked, Refused};
use super::table::{Hashing, Table};
use super::word::Word;
use crate::error::Result;

/// A table of which all buckets are locked. Dropping it unlocks them.
pub(super) struct Held<'t, B: Bucket> {
    table: &'t Table<B>,
}
impl<B: Bucket> Table<B> {
    /// Locks all buckets, in the order of their numbers. Only one thread at a time may do that.
    pub(super) fn hold(&self) -> Held<'_, B> {
        self.buckets.iter().for_each(|bucket| std::mem::forget(Locked::wait(bucket)));
        Held { table: self }
    }
    /// Returns all pairs. They are those of one moment if the table is held.
    fn pairs(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets.iter().flat_map(|bucket| {
            Header::of(bucket.header().load()).taken().map(|slot| bucket.pair(slot))
        })
    }
}
impl<B: Bucket> Held<'_, B> {
    /// Returns all pairs.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (u64, u64)> {
        self.table.pairs()
    }
    /// Returns the number of pairs.
    pub(super) fn len(&self) -> usize {
        let headers = self.table.buckets.iter().map(|bucket| Header::of(bucket.header().load()));
        headers.map(Header::pairs).sum()
    }
    /// Removes all pairs, and returns how many there were.
    pub(super) fn clear(&self) -> usize {
        let mut removed = 0;
        for (at, bucket) in self.table.buckets.iter().enumerate() {
            let mut header = Header::of(bucket.header().load());
            removed += header.pairs();
            let filler = self.table.filler(at);
            for slot in header.taken() {
                bucket.clear(slot, filler);
                header.free(slot);
            }
            header.forget_overflowed();
            header.advance();
            bucket.header().store(header.locked());
        }
        removed
    }
    /// Returns a table with these pairs; `None` if one of them finds no room. Errors: out of
    /// memory.
    pub(super) fn copied(&self, buckets: usize, hashing: Hashing) -> Result<Option<Table<B>>> {
        let copy = Table::new(buckets, hashing)?;
        for (key, value) in self.pairs() {
            let insertion = Change { key, only_if: None, to: Some(value) };
            match copy.change(copy.place(hashing.hash(key)), insertion) {
                Ok(_) => {}
                Err(Refused::Full) => return Ok(None),
                Err(Refused::Replaced | Refused::Busy) => unreachable!("nobody else has the copy"),
            }
        }
        Ok(Some(copy))
    }
    /// Leaves all buckets locked for ever. To be called when the table that takes the place of this
    /// one can be found.
    pub(super) fn replace(self) {
        for bucket in &self.table.buckets {
            bucket.header().store(Header::of(bucket.header().load()).replaced());
        }
        std::mem::forget(self);
    }
}
impl<B: Bucket> Drop for Held<'_, B> {
    fn drop(&mut self) {
        for bucket in &self.table.buckets {
            bucket.header().store(Header::of(bucket.header().load()).unlocked());
        }
    }
}

//! Tables in host memory of which one key at a time is asked and changed.
use super::update::Updatable;
use super::{Family, KeyOf, OnCpu, Settings, Storage, Table, words_of};
use crate::cpu::{Altered, Buckets, Finder, Iter, OneKey, find};
use crate::error::Result;
use std::ops::Range;

/// Entries for which tables that change key by key have room at least: the smallest grow slowly.
pub(crate) const FEWEST: usize = 12;
/// Entries that are inserted at a time.
pub(crate) const BATCH: usize = 1 << 16;
/// Slots that a parallel iterator reads at a time.
pub(crate) const PIECE: usize = 1 << 12;

/// A table in host memory, of which one key at a time is asked on the calling thread. Knows bits
/// only.
pub trait HostTable {
    type Key;
    type Value;
    /// Key and value of each entry.
    type Entries: Iterator<Item = (Self::Key, Self::Value)>;
    fn find(&self, key: Self::Key) -> Option<Self::Value>;
    /// Returns the number of entries.
    fn len(&self) -> usize;
    /// Returns the number of slots.
    fn slots(&self) -> usize;
    /// Returns the entries in some of the slots.
    fn entries(&self, slots: Range<usize>) -> Self::Entries;
}
/// A table of buckets in host memory.
pub(crate) struct HostBuckets<'t, F: Family> {
    table: &'t Table<F>,
    on_cpu: &'t OnCpu<F>,
    finder: Finder<F::Probe<'t>>,
}
/// Value of an entry; `()` if there are none.
pub(crate) type EntryOf<F> = <<F as Family>::Buckets as Buckets>::Value;
impl<'t, F: Family> HostBuckets<'t, F> {
    #[inline]
    pub(crate) fn find(&self, key: KeyOf<F>) -> Option<EntryOf<F>> {
        self.finder.get(key)
    }
    pub(crate) fn len(&self) -> usize {
        self.table.known().entries
    }
    pub(crate) fn slots(&self) -> usize {
        self.on_cpu.entries(self.table.plan.shape).slots()
    }
    pub(crate) fn entries(&self, slots: Range<usize>) -> Iter<'t, F::Buckets> {
        self.on_cpu.entries(self.table.plan.shape).of_slots(slots)
    }
}
/// Defines the [`HostTable`] of a family, and the iterator over its entries, for other crates that
/// cannot name either.
macro_rules! host_table {
    (
        $(#[$doc:meta])* $host:ident, $iter:ident [$($parameters:tt)*] [$($arguments:tt)*]:
        $family:ty, $key:ty, $value:ty
    ) => {
        $(#[$doc])*
        pub struct $host<'t, $($parameters)*>(pub(super) $crate::table::HostBuckets<'t, $family>);
        /// Its entries.
        pub struct $iter<'t, $($parameters)*>(
            $crate::cpu::Iter<'t, <$family as $crate::table::Family>::Buckets>,
        );
        impl<$($parameters)*> Iterator for $iter<'_, $($arguments)*> {
            type Item = ($key, $value);
            #[inline]
            fn next(&mut self) -> Option<($key, $value)> {
                self.0.next()
            }
        }
        impl<'t, $($parameters)*> $crate::table::HostTable for $host<'t, $($arguments)*> {
            type Key = $key;
            type Value = $value;
            type Entries = $iter<'t, $($arguments)*>;
            #[inline]
            fn find(&self, key: $key) -> Option<$value> {
                self.0.find(key)
            }
            fn len(&self) -> usize {
                self.0.len()
            }
            fn slots(&self) -> usize {
                self.0.slots()
            }
            fn entries(&self, slots: std::ops::Range<usize>) -> $iter<'t, $($arguments)*> {
                $iter(self.0.entries(slots))
            }
        }
    };
}
pub(crate) use host_table;

impl<F: Family> Table<F> {
    /// Returns what the CPU engine needs for lookups; `None` if kernels look keys up.
    #[inline]
    pub(crate) fn finder(&self) -> Result<Option<Finder<F::Probe<'_>>>> {
        Ok(self.host()?.map(|host| host.finder))
    }
    /// Returns the table if it is in host memory.
    #[inline]
    pub(crate) fn host(&self) -> Result<Option<HostBuckets<'_, F>>> {
        match &self.storage {
            Storage::Kernels(_) => Ok(None),
            Storage::Cpu(on_cpu) => {
                let finder = on_cpu.finder(self.plan.shape)?;
                Ok(Some(HostBuckets { table: self, on_cpu, finder }))
            }
        }
    }
    /// Returns whether host code may change the table, after its file was copied to its own memory.
    /// Errors: out of memory; faults of the file.
    pub(crate) fn make_own(&mut self) -> Result<bool> {
        let Storage::Cpu(OnCpu { table, header, .. }) = &mut self.storage else { return Ok(false) };
        Ok(table.make_own(words_of::<F>(self.plan.shape))? && header.host_mut().is_some())
    }
}
/// Of tables in host memory that are [their own](Table::make_own). Others stay as they are.
impl<F: Updatable> Table<F> {
    /// Returns the value of a key.
    #[inline]
    pub(crate) fn find_own(&self, key: KeyOf<F>) -> Option<EntryOf<F>> {
        let Storage::Cpu(OnCpu { table, stash, seed, .. }) = &self.storage else {
            unreachable!("it is in host memory")
        };
        let shape = self.plan.shape;
        let Some(words) = table.host().get(..words_of::<F>(shape)) else {
            unreachable!("it is its own, as it was built")
        };
        find::<F::Buckets>(shape, *seed, words, stash, key)
    }
    /// Makes room for more entries. Errors: out of memory.
    pub(crate) fn reserve(&mut self, more: usize, settings: Settings) -> Result<()> {
        let room = self.known().entries.saturating_add(more);
        let has_room =
            F::plan(room, settings.load)?.shape.all_buckets() <= self.plan.shape.all_buckets();
        if has_room { Ok(()) } else { F::rebuild(self, &self.device.stream()?, room, settings) }
    }
    /// Sets the value of a key to what `change` makes of it; `None` is that of a missing key. Only
    /// insertions can be left. Allocates nothing.
    #[inline]
    pub(crate) fn alter(
        &mut self,
        key: KeyOf<F>,
        change: impl FnOnce(Option<EntryOf<F>>) -> Option<EntryOf<F>>,
    ) -> Altered<EntryOf<F>> {
        let altered = self.one_key().alter(key, change);
        let Altered { before, after, is_left } = altered;
        match (before.is_some(), after.is_some()) {
            (false, true) if !is_left => self.count_one(1, 0),
            (true, false) => self.count_one(0, 1),
            _ => {}
        }
        altered
    }
    /// Removes the entries that are not to be kept. Allocates nothing.
    pub(crate) fn retain(&mut self, keep: impl FnMut(KeyOf<F>, EntryOf<F>) -> bool) {
        /// Counts what is gone, also if `keep` panics.
        struct Counted<'t, F: Updatable> {
            table: &'t mut Table<F>,
            gone: usize,
        }
        impl<F: Updatable> Drop for Counted<'_, F> {
            fn drop(&mut self) {
                self.table.count_one(0, self.gone);
            }
        }
        let mut counted = Counted { table: self, gone: 0 };
        let Counted { table, gone } = &mut counted;
        table.one_key().retain(keep, gone);
    }
    /// Removes all entries, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        let gone = self.known().entries;
        let OneKey { words, stash, .. } = self.one_key();
        words.fill(F::EMPTY_WORD);
        stash.clear();
        self.count_one(0, gone);
        if let Storage::Cpu(on_cpu) = &mut self.storage {
            on_cpu.erased = 0;
        }
    }
    #[inline]
    fn one_key(&mut self) -> OneKey<'_, F::Buckets> {
        let shape = self.plan.shape;
        let Storage::Cpu(on_cpu) = &mut self.storage else { unreachable!("it is in host memory") };
        let seed = on_cpu.seed;
        let Some((words, stash)) = on_cpu.own_parts(shape) else {
            unreachable!("it is its own, and no graph writes it")
        };
        OneKey { shape, seed, words, stash }
    }
}

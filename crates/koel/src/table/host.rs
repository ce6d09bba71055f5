//! Tables in host memory of which one key at a time is asked.
use super::{Family, KeyOf, OnCpu, Storage, Table};
use crate::cpu::{Buckets, Finder, Iter};
use crate::error::Result;

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
    /// Returns the entries, in any order.
    fn entries(&self) -> Self::Entries;
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
    pub(crate) fn entries(&self) -> Iter<'t, F::Buckets> {
        self.on_cpu.entries(self.table.plan.shape)
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
            fn entries(&self) -> $iter<'t, $($arguments)*> {
                $iter(self.0.entries())
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
}

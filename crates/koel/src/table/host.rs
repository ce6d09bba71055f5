//! Lookups of one key after the other in host memory: see [`HostTable`].
use super::{Family, Storage, Table};
use crate::cpu::Finder;
use crate::error::Result;

/// A table in host memory that looks up one key on the calling thread. Knows bits only.
pub trait HostTable {
    type Key;
    type Value;
    fn find(&self, key: Self::Key) -> Option<Self::Value>;
}
impl<F: Family> Table<F> {
    /// Returns the table if it is in host memory.
    pub(crate) fn host(&self) -> Result<Option<Finder<F::Probe<'_>>>> {
        match &self.storage {
            Storage::Kernels(_) => Ok(None),
            Storage::Cpu(table) => table.finder(self.plan.shape).map(Some),
        }
    }
}

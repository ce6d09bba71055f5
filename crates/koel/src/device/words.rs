//! Words of host memory that one owner reads and writes: see [`HostWords`].
use super::cpu::HostMemory;
use super::memory::Pages;
use crate::error::Result;
use crate::fallible::out_of_memory;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Words of host memory, aligned to 128 bytes, in huge pages where the system grants them. No
/// kernel and no graph sees them, so that access checks nothing but bounds.
pub(crate) struct HostWords {
    first: NonNull<u64>,
    len: usize,
    /// Number of words that may be changed: all, or none of the [zeros](NONE).
    owned: usize,
    /// Owns the words; `None` for the zeros.
    memory: Option<HostMemory>,
}
/// Number of words of a [`HostWords`] without memory.
pub(crate) const NONE: usize = 64;
#[repr(C, align(64))]
struct Zeros([u64; NONE]);
static ZEROS: Zeros = Zeros([0; NONE]);

impl HostWords {
    /// Returns [`NONE`] zeros, which cannot be changed. Allocates nothing.
    pub(crate) const fn none() -> HostWords {
        let first = NonNull::from_ref(&ZEROS).cast();
        HostWords { first, len: NONE, owned: 0, memory: None }
    }
    /// Returns new words, all zero. Errors: out of memory.
    pub(crate) fn new(len: usize) -> Result<HostWords> {
        let bytes = len.checked_mul(size_of::<u64>()).ok_or_else(|| out_of_memory(usize::MAX))?;
        let memory = HostMemory::new(bytes, Pages::default())?;
        Ok(HostWords { first: memory.ptr.cast(), len, owned: len, memory: Some(memory) })
    }
    /// Returns a copy. Errors: out of memory.
    pub(crate) fn try_clone(&self) -> Result<HostWords> {
        if self.memory.is_none() {
            return Ok(HostWords::none());
        }
        let mut copy = HostWords::new(self.len)?;
        copy.copy_from_slice(self);
        Ok(copy)
    }
    /// Returns the size in bytes; 0 without memory.
    pub(crate) fn bytes(&self) -> usize {
        self.owned * size_of::<u64>()
    }
}
impl Deref for HostWords {
    type Target = [u64];
    #[inline(always)]
    fn deref(&self) -> &[u64] {
        // SAFETY: the first of `len` words of the memory, which lives as long and was zeroed, or of
        // the zeros, which live for ever.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}
/// No words without memory.
impl DerefMut for HostWords {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above; it is the only owner of the words of the memory, and of the zeros there
        // are none here.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.owned) }
    }
}
// SAFETY: it owns its memory, or refers to words that nobody changes.
unsafe impl Send for HostWords {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for HostWords {}

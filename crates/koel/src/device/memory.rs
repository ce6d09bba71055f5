//! Host memory: mappings in the pages that suit them, memory that is kept and reused, and hints to
//! the cache.
use crate::error::{Error, Result};
use memmap2::MmapMut;

/// Pages that big arrays are asked for.
///
/// Random accesses to huge pages seldom wait for the page tables. Where the system must first clear
/// or gather them, the first touch can be slow; it happens once for memory that is reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pages {
    /// Those that the system gives by itself.
    System,
    /// Huge ones where the system grants them (`madvise` on Linux, nothing elsewhere).
    #[default]
    Huge,
}

/// Asks for the cache line of an address: a hint, which may be wrong.
#[inline(always)]
pub fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, which reads nothing, whatever the address; every x86-64 has SSE.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a hint, which changes nothing that a program sees.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

/// Bytes from the system, zeroed at first, aligned to a page. They grow and never shrink.
#[derive(Default)]
pub struct Memory {
    map: Option<MmapMut>,
}
impl Memory {
    /// `bytes` bytes, whatever they hold from earlier uses. A new mapping only if the old one is
    /// too small.
    pub fn get(&mut self, bytes: usize, pages: Pages) -> Result<&mut [u8]> {
        if self.bytes() < bytes {
            self.map = None; // given back first: both need not fit
            self.map = Some(map(bytes, pages)?);
        }
        Ok(self.map.as_deref_mut().map_or(&mut [], |map| &mut map[..bytes]))
    }
    /// Bytes that are kept.
    pub fn bytes(&self) -> usize {
        self.map.as_ref().map_or(0, |map| map.len())
    }
}

/// What a failed allocation of host memory says.
pub fn out_of_memory(bytes: usize) -> Error {
    Error::OutOfMemory { device: "the host".into(), asked: bytes, free: 0 }
}
/// Whether a test wants this allocation to fail.
pub fn is_to_fail() -> bool {
    #[cfg(feature = "executor")]
    return super::failing::fails();
    #[cfg(not(feature = "executor"))]
    false
}

/// `bytes` zeroed bytes from the system. Errors: out of memory.
pub fn map(bytes: usize, pages: Pages) -> Result<MmapMut> {
    if is_to_fail() {
        return Err(out_of_memory(bytes));
    }
    let map = MmapMut::map_anon(bytes).map_err(|_| out_of_memory(bytes))?;
    #[cfg(all(target_os = "linux", not(miri)))]
    if pages == Pages::Huge {
        let _ = map.advise(memmap2::Advice::HugePage); // advice: refused, the pages are small
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = pages;
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_and_is_kept() {
        for pages in [Pages::System, Pages::Huge] {
            let mut memory = Memory::default();
            assert!(memory.get(0, pages).unwrap().is_empty());
            memory.get(10_000, pages).unwrap().fill(7);
            assert_eq!(memory.get(100, pages).unwrap(), &[7; 100]);
            assert_eq!(memory.bytes(), 10_000);
            assert_eq!(memory.get(20_000, pages).unwrap().len(), 20_000);
        }
    }
    #[test]
    #[cfg_attr(miri, ignore = "Miri ends there")]
    fn too_much_is_an_error() {
        assert!(
            matches!(Memory::default().get(1 << 60, Pages::Huge), Err(Error::OutOfMemory { asked, .. }) if asked == 1 << 60)
        );
    }
}

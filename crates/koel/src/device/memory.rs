//! Host memory: mappings with a choice of page size, reusable memory, and prefetch hints.
use super::{Device, DeviceKind};
use crate::error::{Result, count32};
use crate::fallible::{is_to_fail, out_of_memory};
use crate::parallel::{HUGE_PAGE, LARGE};
use bytemuck::Zeroable;
use memmap2::MmapMut;
use std::alloc::{Layout, alloc_zeroed};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Page size requested for large arrays.
///
/// Huge pages make TLB misses of random accesses rare. Where the system must first clear or
/// assemble them, the first touch can be slow; reused memory pays that once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pages {
    /// The system's default.
    System,
    /// Huge pages where the system grants them (`madvise` on Linux, no effect elsewhere).
    #[default]
    Huge,
}

/// Prefetches the cache line of an address. A hint: any address is allowed.
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, which reads nothing, whatever the address; every x86-64 has SSE.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a hint without effects that a program can observe.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{0}]",
            in(reg) address,
            options(nostack, readonly, preserves_flags)
        );
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

/// Bytes from the system, zeroed at first, page-aligned. The memory grows and never shrinks.
#[derive(Default)]
pub(crate) struct Memory {
    map: Option<MmapMut>,
}
impl Memory {
    /// Returns `bytes` bytes, with contents from earlier uses. Maps new memory only if the old
    /// mapping is too small.
    pub(crate) fn get(&mut self, bytes: usize, pages: Pages) -> Result<&mut [u8]> {
        if self.bytes() < bytes {
            self.map = None; // freed first: both may not fit
            self.map = Some(map(bytes, pages)?);
        }
        Ok(self.map.as_deref_mut().map_or(&mut [], |map| &mut map[..bytes]))
    }
    /// Returns the size of the kept memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.map.as_ref().map_or(0, |map| map.len())
    }
}

/// Maps `bytes` zeroed bytes. Errors: out of memory.
pub(crate) fn map(bytes: usize, pages: Pages) -> Result<MmapMut> {
    if is_to_fail() {
        return Err(out_of_memory(bytes));
    }
    let map = MmapMut::map_anon(bytes).map_err(|_| out_of_memory(bytes))?;
    #[cfg(all(target_os = "linux", not(miri)))]
    if pages == Pages::Huge {
        let _ = map.advise(memmap2::Advice::HugePage); // only a hint: if refused, pages are small
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = pages;
    Ok(map)
}

/// Returns a vector of `len` elements, all of which `fill` initialises unless it fails. Large
/// vectors are on huge pages where the system grants them: clearing small pages at the first touch
/// takes as long as copying them. Errors: out of memory, and those of `fill`.
pub(crate) fn collect<T>(
    len: usize,
    fill: impl FnOnce(&mut [MaybeUninit<T>]) -> Result<()>,
) -> Result<Vec<T>> {
    let mut fill = Some(fill);
    collected(len, &mut |room| fill.take().map_or(Ok(()), |fill| fill(room)))
}
/// See [`collect`]: compiled once for a type.
fn collected<T>(
    len: usize,
    fill: &mut dyn FnMut(&mut [MaybeUninit<T>]) -> Result<()>,
) -> Result<Vec<T>> {
    let mut all = Vec::new();
    let reserved = if is_to_fail() { None } else { all.try_reserve_exact(len).ok() };
    reserved.ok_or_else(|| out_of_memory(len.saturating_mul(size_of::<T>())))?;
    let room = &mut all.spare_capacity_mut()[..len];
    advise_huge(room);
    fill(room)?;
    // SAFETY: `fill` has initialised `len` elements.
    unsafe { all.set_len(len) };
    Ok(all)
}
/// Returns a vector of `len` zeros, on huge pages if it is large, as by [`collect`]. Fresh pages
/// are not touched: the system clears them when they are. Errors: out of memory.
pub(crate) fn zeroed<T: Zeroable>(len: usize) -> Result<Vec<T>> {
    let out_of_memory = || out_of_memory(len.saturating_mul(size_of::<T>()));
    let layout = Layout::array::<T>(len).map_err(|_| out_of_memory())?;
    if layout.size() == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the size is not 0.
    let memory = if is_to_fail() { None } else { NonNull::new(unsafe { alloc_zeroed(layout) }) };
    let memory = memory.ok_or_else(out_of_memory)?.cast::<T>();
    // SAFETY: the global allocator allocated `len` elements with their layout, and zero bytes are
    // valid ones.
    let mut all = unsafe { Vec::from_raw_parts(memory.as_ptr(), len, len) };
    all.clear();
    advise_huge(all.spare_capacity_mut());
    // SAFETY: as above; advice does not change contents.
    unsafe { all.set_len(len) };
    Ok(all)
}
/// As [`collect`], for the answers to `len` keys and a `fill` that begins with other work. If that
/// is work of a GPU, some threads clear the pages of a large vector meanwhile.
pub(crate) fn collect_later<T: Send>(
    device: &Device,
    len: usize,
    fill: impl FnOnce(&mut [MaybeUninit<T>]) -> Result<()>,
) -> Result<Vec<T>> {
    count32("keys", len)?;
    collect(len, |room| {
        let is_ahead = device.kind() == DeviceKind::Cuda && size_of_val(room) >= LARGE;
        if !is_ahead {
            return fill(room); // without a pool of threads, which the first use would start
        }
        let (mut fill, mut filled) = (Some(fill), Ok(()));
        FreshPages::of(room).clear_during(&mut || {
            filled = fill.take().map_or(Ok(()), |fill| fill(room));
        });
        filled
    })
}
/// The huge pages of memory that has never been touched.
struct FreshPages {
    /// Address of the next page that nobody clears yet.
    next: AtomicUsize,
    /// Address behind the last page.
    end: usize,
}
impl FreshPages {
    /// Returns the pages that are wholly inside of this memory.
    fn of<T>(memory: &[MaybeUninit<T>]) -> FreshPages {
        let (start, end) = (memory.as_ptr().addr(), memory.as_ptr_range().end.addr());
        FreshPages {
            next: AtomicUsize::new(start.next_multiple_of(HUGE_PAGE)),
            end: end / HUGE_PAGE * HUGE_PAGE,
        }
    }
    /// Lets half of the threads clear the pages while `work` runs.
    fn clear_during(&self, work: &mut dyn FnMut()) {
        rayon::in_place_scope(|scope| {
            (0..rayon::current_num_threads() / 2).for_each(|_| scope.spawn(|_| self.clear_all()));
            work();
            self.next.store(self.end, Relaxed);
        })
    }
    /// Lets the system clear pages, one after the other, until all are cleared. Changes no
    /// contents, so that others may write them at the same time.
    fn clear_all(&self) {
        loop {
            let page = self.next.fetch_add(HUGE_PAGE, Relaxed);
            if page >= self.end || !populate(page) {
                return self.next.store(self.end, Relaxed);
            }
        }
    }
}
/// Lets the system allocate and clear the memory of a huge page, as its first write would. Returns
/// whether the system can do that.
fn populate(page: usize) -> bool {
    #[cfg(all(target_os = "linux", not(miri)))]
    // SAFETY: the call reads and writes no contents, and is an error if nothing is mapped there.
    return unsafe {
        let page = std::ptr::without_provenance_mut(page);
        libc::madvise(page, HUGE_PAGE, libc::MADV_POPULATE_WRITE) == 0
    };
    #[cfg(not(all(target_os = "linux", not(miri))))]
    {
        let _ = page;
        false
    }
}
/// Returns the answer to a query: a value, if its flag is not 0.
pub(crate) fn value_if_found<T>(value: T, found: u8) -> Option<T> {
    (found != 0).then_some(value)
}
/// Requests huge pages for fresh memory, if it is large.
fn advise_huge<T>(memory: &mut [MaybeUninit<T>]) {
    #[cfg(all(target_os = "linux", not(miri)))]
    if size_of_val(memory) >= LARGE {
        let (start, end) = (memory.as_ptr().addr(), memory.as_ptr_range().end.addr());
        let (first, last) = (start.next_multiple_of(HUGE_PAGE), end / HUGE_PAGE * HUGE_PAGE);
        // SAFETY: whole pages of memory that is borrowed mutably, and only a hint.
        unsafe {
            let first = memory.as_mut_ptr().cast::<u8>().add(first - start);
            libc::madvise(first.cast(), last - first.addr(), libc::MADV_HUGEPAGE);
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = memory;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

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
        assert!(matches!(
            Memory::default().get(1 << 60, Pages::Huge),
            Err(Error::OutOfMemory { asked, .. }) if asked == 1 << 60
        ));
    }
    #[test]
    fn clearing_pages_changes_no_contents() {
        for (start, len) in [(0, 0), (0, LARGE), (5, LARGE + 12_345), (1, HUGE_PAGE)] {
            let mut memory = vec![MaybeUninit::new(7u8); start + len];
            let pages = FreshPages::of(&memory[start..]);
            let (first, end) = (pages.next.load(Relaxed), pages.end);
            let range = memory[start..].as_ptr_range();
            assert!(end < first || range.start.addr() <= first && end <= range.end.addr());
            rayon::scope(|scope| (0..4).for_each(|_| scope.spawn(|_| pages.clear_all())));
            assert!(pages.next.load(Relaxed) >= end);
            // SAFETY: all are initialised.
            assert!(memory.iter_mut().all(|byte| unsafe { byte.assume_init() } == 7));
        }
    }
}

//! The CPU device: host memory, and threads for native kernels.
use super::apart::aside;
use super::memory::{Pages, map};
use crate::error::{Error, Result};
use crate::fallible::{is_to_fail, out_of_memory};
use koel_simt::{KernelBody, KernelSpec, run_native};
use memmap2::MmapMut;
use rayon::prelude::*;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Options of a CPU device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuOptions {
    /// Number of threads; `None` means one per core.
    pub threads: Option<usize>,
    /// Page size for buffers, tables and scratch memory of 2 MB or more.
    pub pages: Pages,
}
crate::options::setters! { CpuOptions:
    threads by with_threads: impl Into<Option<usize>>;
    pages by with_pages: Pages;
}

pub(super) struct Cpu {
    pool: rayon::ThreadPool,
    pages: Pages,
}

impl Cpu {
    pub(super) fn new(options: CpuOptions) -> Result<Cpu> {
        let CpuOptions { threads, pages } = options;
        let threads =
            threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
        if threads == 0 {
            return Err(Error::Setting {
                field: "threads",
                found: "0".into(),
                expected: "at least 1".into(),
            });
        }
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("koel-{i}"))
            .build()
            .map_err(|e| Error::Setting {
                field: "threads",
                found: threads.to_string(),
                expected: format!("startable: {e}"),
            })?;
        Ok(Cpu { pool, pages })
    }
    pub(super) fn pages(&self) -> Pages {
        self.pages
    }
    pub(super) fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }
    pub(super) fn name(&self) -> String {
        format!("CPU ({} threads)", self.threads())
    }
    /// Runs `work` on the pool. Not generic: what rayon needs around it is compiled once.
    pub(super) fn run(&self, work: &mut (dyn FnMut() + Send)) {
        aside(|| self.pool.install(work))
    }

    /// # Safety
    /// As for `Backend::launch`.
    pub(super) unsafe fn launch(
        &self,
        spec: &KernelSpec,
        grid: u32,
        body: KernelBody<'_>,
    ) -> Result<()> {
        if !spec.independent {
            return Err(Error::NotIndependent { kernel: spec.name });
        }
        // Chunks are small enough to balance the load, large enough to hide their overhead.
        let chunk = (1 << 10) / spec.threads.min(1 << 10);
        // SAFETY: the caller upholds `launch`'s contract.
        let run = |first: u32| unsafe {
            run_native(spec, first..first.saturating_add(chunk).min(grid), grid, body)
        };
        if grid <= chunk {
            run(0);
        } else {
            self.run(&mut || {
                (0..grid.div_ceil(chunk)).into_par_iter().for_each(|c| run(c * chunk))
            });
        }
        Ok(())
    }
}

/// Zeroed memory, aligned to a pair of cache lines or more.
///
/// Large allocations are separate mappings, in huge pages if requested and granted by the system:
/// lookups in a table of 168 MB ran 1.3 times as fast, and clearing new memory twice as fast.
pub(super) struct HostMemory {
    pub ptr: NonNull<u8>,
    from: From,
}
enum From {
    Heap(Layout),
    Mapping(#[allow(dead_code, reason = "held until it is dropped")] MmapMut),
}
const ALIGN: usize = 128;
/// Size and alignment of huge pages, in bytes.
const HUGE: usize = 2 << 20;

impl HostMemory {
    pub(super) fn new(bytes: usize, pages: Pages) -> Result<HostMemory> {
        let out_of_memory = || out_of_memory(bytes);
        // Smaller allocations stay on the heap, which reuses them without a system call.
        if bytes >= HUGE {
            let whole = bytes
                .checked_next_multiple_of(HUGE)
                .and_then(|b| b.checked_add(HUGE))
                .ok_or_else(out_of_memory)?;
            let mut mapping = map(whole, pages).map_err(|_| out_of_memory())?;
            let start = mapping.as_mut_ptr();
            // Skips less than HUGE bytes: `bytes`, rounded up to whole pages, still follow.
            let ptr = NonNull::new(start.wrapping_add(start.align_offset(HUGE)))
                .ok_or_else(out_of_memory)?;
            return Ok(HostMemory { ptr, from: From::Mapping(mapping) });
        }
        if is_to_fail() {
            return Err(out_of_memory());
        }
        let layout =
            Layout::from_size_align(bytes.max(ALIGN), ALIGN).map_err(|_| out_of_memory())?;
        // SAFETY: the size is not zero.
        let ptr = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(out_of_memory)?;
        Ok(HostMemory { ptr, from: From::Heap(layout) })
    }
}
impl Drop for HostMemory {
    fn drop(&mut self) {
        if let From::Heap(layout) = self.from {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(self.ptr.as_ptr(), layout) }
        }
    }
}
// SAFETY: it owns its memory.
unsafe impl Send for HostMemory {}
// SAFETY: shared access goes through `&Buffer`, which only reads, or through kernels, whose
// accesses are atomic.
unsafe impl Sync for HostMemory {}

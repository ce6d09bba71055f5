//! The CPU device: host memory, and threads for native kernels.
use super::memory::{Pages, is_to_fail, map, out_of_memory};
use crate::error::{Error, Result};
use koel_simt::{KernelBody, KernelSpec, run_native};
use memmap2::MmapMut;
use rayon::prelude::*;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// How the CPU is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuOptions {
    /// Threads; `None`: as many as there are cores.
    pub threads: Option<usize>,
    /// Pages of buffers, tables and scratch memory of 2 MB and more.
    pub pages: Pages,
}

pub struct Cpu {
    pool: rayon::ThreadPool,
    pages: Pages,
}

impl Cpu {
    pub fn new(options: CpuOptions) -> Result<Cpu> {
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
    pub fn pages(&self) -> Pages {
        self.pages
    }
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }
    pub fn name(&self) -> String {
        format!("CPU ({} threads)", self.threads())
    }
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.pool.install(work)
    }

    /// # Safety
    /// As `Backend::launch`.
    pub unsafe fn launch(&self, spec: &KernelSpec, grid: u32, body: KernelBody<'_>) -> Result<()> {
        if !spec.independent {
            return Err(Error::NotIndependent { kernel: spec.name });
        }
        // Chunks small enough to balance, large enough not to be felt.
        let chunk = (1 << 10) / spec.threads.min(1 << 10);
        // SAFETY: the caller's.
        let run = |first: u32| unsafe {
            run_native(spec, first..first.saturating_add(chunk).min(grid), grid, body)
        };
        if grid <= chunk {
            run(0);
        } else {
            self.install(|| (0..grid.div_ceil(chunk)).into_par_iter().for_each(|c| run(c * chunk)));
        }
        Ok(())
    }
}

/// Zeroed memory, aligned to a cache line pair or more.
///
/// Large pieces are mappings of their own, in huge pages if those are wanted and the system grants
/// them: lookups in a table of 168 MB ran at 1.3 times the speed, and clearing new memory at twice.
pub struct HostMemory {
    pub ptr: NonNull<u8>,
    from: From,
}
enum From {
    Heap(Layout),
    Mapping(#[allow(dead_code, reason = "held until it is dropped")] MmapMut),
}
const ALIGN: usize = 128;
/// Huge pages are this large, and begin on multiples of it.
const HUGE: usize = 2 << 20;

impl HostMemory {
    pub fn new(bytes: usize, pages: Pages) -> Result<HostMemory> {
        let out_of_memory = || out_of_memory(bytes);
        // Smaller pieces stay on the heap, which gives them out again without the system.
        if bytes >= HUGE {
            let whole = bytes
                .checked_next_multiple_of(HUGE)
                .and_then(|b| b.checked_add(HUGE))
                .ok_or_else(out_of_memory)?;
            let mut mapping = map(whole, pages).map_err(|_| out_of_memory())?;
            let start = mapping.as_mut_ptr();
            // Less than HUGE bytes on: `bytes` and the rest of their last page are behind.
            let ptr = NonNull::new(start.wrapping_add(start.align_offset(HUGE)))
                .ok_or_else(out_of_memory)?;
            return Ok(HostMemory { ptr, from: From::Mapping(mapping) });
        }
        if is_to_fail() {
            return Err(out_of_memory());
        }
        let layout =
            Layout::from_size_align(bytes.max(ALIGN), ALIGN).map_err(|_| out_of_memory())?;
        // SAFETY: not of size zero.
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
// SAFETY: shared access is by `&Buffer`, which only reads, or by kernels, whose accesses are
// atomic.
unsafe impl Sync for HostMemory {}

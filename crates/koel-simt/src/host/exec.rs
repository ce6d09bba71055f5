//! The executor: distributes the blocks of a launch over OS threads and interleaves those that are
//! resident on each.
use super::block::{Block, Resident, Rng, Shared, Step};
use super::fault::{Fault, FaultKind};
use super::launch::{ArrayArg, Backend, KernelBody, KernelSpec, Params};
use super::shadow::{GlobalShadow, MAX_BLOCKS};
use super::stacks::Stacks;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Statistics of a launch.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Blocks that ran to completion.
    pub blocks: u32,
    /// Number of times a thread was resumed.
    pub switches: u64,
    /// Hash of the order in which threads ran: equal for equal schedules.
    pub schedule: u64,
}

/// Test executor: runs every thread of every block and checks what a GPU does not.
///
/// `Exec::new(seed)` enables every check; see the [crate](crate#what-the-executor-checks) for the
/// list.
///
/// The seed determines the schedule. With one worker, every run has the same schedule; with
/// several, the order inside a block is reproducible as far as the kernel's memory accesses allow.
pub struct Exec {
    /// Seed of the order of blocks and threads, of the preemption points, and of the initial
    /// contents of shared memory.
    pub seed: u64,
    /// Maximum number of OS threads. They run blocks in parallel, so that global atomics really
    /// race.
    pub workers: u32,
    /// Blocks that each worker keeps in flight and interleaves.
    pub resident: u32,
    /// Average number of memory accesses between preemptions. With 0, preemption is so rare that it
    /// only keeps threads that spin on memory from hanging.
    pub preempt: u32,
    /// Reports races in shared memory.
    pub check_races: bool,
    /// Reports races in global memory, inside a block and between blocks, in every `Buf` and in
    /// every `In` that overlaps a `Buf`.
    pub check_global_races: bool,
    /// Reports reads of shared memory that the block never wrote.
    pub check_uninitialised: bool,
    /// If not 0, a launch runs only its last blocks, this many, and loops over
    /// [`Thread::strided`](crate::Thread::strided) only their last two rounds. A small test then
    /// reaches the end of arrays with nearly 2^32 elements, where 32-bit indices may wrap. For
    /// kernels whose blocks do not wait for earlier ones; combine it with arrays in memory that the
    /// system provides when it is touched, and without `check_global_races`, whose records are four
    /// times as large as the arrays.
    pub last: u32,
    /// Stack size per thread, in bytes. Only touched pages take memory. Kernels built without
    /// optimisation or with AddressSanitizer need several times as much as others. An overflow
    /// aborts the process.
    pub stack_bytes: usize,
    /// Maximum number of switches between threads on one worker during which no thread of the
    /// launch returns; beyond it, the kernel is assumed to spin forever. The default lasts several
    /// seconds.
    pub patience: u64,
    stats: Mutex<Stats>,
}
impl Exec {
    /// Enables all checks, with two resident blocks per worker and one worker per processor
    /// (maximum four).
    pub fn new(seed: u64) -> Self {
        let workers = std::thread::available_parallelism().map_or(2, |n| n.get().min(4) as u32);
        Exec {
            seed,
            workers,
            resident: 2,
            preempt: 16,
            check_races: true,
            check_global_races: true,
            check_uninitialised: true,
            last: 0,
            stack_bytes: 512 * 1024,
            patience: 100_000_000,
            stats: Mutex::default(),
        }
    }
    /// Returns the statistics of the last launch that ended.
    pub fn stats(&self) -> Stats {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Returns the detectors for the global arrays among the arguments: one for each contiguous
    /// range of memory that contains a `Buf`.
    fn watch(&self, arrays: &[ArrayArg]) -> (Vec<Option<usize>>, Vec<GlobalShadow>) {
        if !self.check_global_races {
            return (vec![], vec![]);
        }
        let mut sorted = arrays.to_vec();
        sorted.sort_by_key(|a| a.range.start);
        let mut stretches: Vec<ArrayArg> = vec![];
        for a in sorted.into_iter().filter(|a| !a.range.is_empty()) {
            match stretches.last_mut() {
                Some(last) if a.range.start < last.range.end => {
                    last.range.end = last.range.end.max(a.range.end);
                    last.element_bytes = last.element_bytes.min(a.element_bytes);
                    last.writable |= a.writable;
                }
                _ => stretches.push(a.clone()),
            }
        }
        stretches.retain(|s| s.writable);
        let region = |a: &ArrayArg| {
            let within =
                |s: &ArrayArg| s.range.start <= a.range.start && a.range.end <= s.range.end;
            if a.range.is_empty() { None } else { stretches.iter().position(within) }
        };
        let region_of = arrays.iter().map(region).collect();
        (
            region_of,
            stretches
                .into_iter()
                .map(|s| GlobalShadow::new(s.range, s.element_bytes.min(4)))
                .collect(),
        )
    }
}

/// Blocks that have not started, in launch order.
struct Queue {
    order: Vec<u32>,
    next: AtomicU32,
}
impl Queue {
    fn pop(&self) -> Option<u32> {
        self.order.get(self.next.fetch_add(1, Relaxed) as usize).copied()
    }
}

/// Runs one OS thread's share of a launch.
fn work(
    exec: &Exec,
    worker: u32,
    launch: &Shared,
    queue: &Queue,
    failed: &AtomicBool,
    body: KernelBody<'_>,
) -> Result<Stats, Fault> {
    let resident = exec.resident.min(launch.grid.div_ceil(exec.workers.max(1))).max(1);
    let mut stacks =
        Stacks::lend((resident * launch.threads) as usize, exec.stack_bytes).map_err(|e| {
            Fault {
                kind: FaultKind::HostMemory,
                kernel: launch.kernel,
                block: 0,
                thread: None,
                at: None,
                message: format!(
                    "out of memory for {resident} x {} stacks of {} bytes: {e}",
                    launch.threads, exec.stack_bytes
                ),
            }
        })?;
    let blocks = (0..resident).map(|_| Block::new(launch)).collect::<Vec<_>>();
    let mut free = blocks.iter().collect::<Vec<_>>();
    let mut running: Vec<(Resident, &Block)> = vec![];
    let rng = Rng::new(exec.seed ^ (worker as u64) << 17 ^ 0xB10C);
    let (mut stats, mut since, mut returned) = (Stats::default(), 0, 0);
    let outcome = loop {
        while let Some(block) = free.pop() {
            let Some(id) = queue.pop() else { break };
            // SAFETY: every one of them is ended below.
            running.push((
                unsafe { Resident::start(block, id, exec, &mut stacks, body.thread) },
                block,
            ));
        }
        if running.is_empty() || failed.load(Relaxed) {
            break Ok(());
        }
        let pick = if running.len() == 1 { 0 } else { rng.below(running.len()) };
        match running[pick].0.step() {
            Ok(Step::Ran(thread)) => {
                let ran = (running[pick].0.id() as u64) << 32 | thread as u64;
                stats.schedule =
                    (stats.schedule.rotate_left(5) ^ ran).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                stats.switches += 1;
                since += 1;
                if since > exec.patience {
                    let now = launch.returned.load(Relaxed);
                    if now == returned {
                        break Err(running[pick].0.no_progress(since));
                    }
                    (since, returned) = (0, now);
                }
            }
            Ok(Step::Finished) => {
                let (resident, block) = running.swap_remove(pick);
                resident.end(&mut stacks);
                free.push(block);
                stats.blocks += 1;
            }
            Err(fault) => break Err(fault),
        }
    };
    running.into_iter().for_each(|(resident, _)| resident.end(&mut stacks));
    outcome.map(|()| stats)
}

impl Backend for Exec {
    type Error = Fault;
    unsafe fn launch(
        &self,
        spec: &KernelSpec,
        grid: u32,
        shared: u32,
        _: &Params,
        body: KernelBody<'_>,
    ) -> Result<(), Fault> {
        if !(1..=1024).contains(&spec.threads) || shared > crate::MAX_SHARED || grid > MAX_BLOCKS {
            let message = format!(
                "{grid} blocks of {} threads with {shared} bytes of shared memory; \
                 the maximum is {MAX_BLOCKS}, 1024 and {}",
                spec.threads,
                crate::MAX_SHARED
            );
            return Err(Fault {
                kind: FaultKind::Launch,
                kernel: spec.name,
                block: 0,
                thread: None,
                at: None,
                message,
            });
        }
        if grid == 0 {
            return Ok(());
        }
        let (region_of, regions) = self.watch(body.params().arrays());
        let launch = Shared {
            kernel: spec.name,
            grid,
            last: self.last != 0,
            threads: spec.threads,
            shared_bytes: shared,
            preempt: self.preempt,
            check_races: self.check_races,
            check_uninitialised: self.check_uninitialised,
            region_of,
            regions,
            releases: Default::default(),
            returned: 0.into(),
        };
        let skipped = if self.last == 0 { 0 } else { grid.saturating_sub(self.last) };
        let mut order = (skipped..grid).collect::<Vec<_>>();
        let rng = Rng::new(self.seed);
        (1..order.len()).rev().for_each(|i| order.swap(i, rng.below(i + 1)));
        let (queue, failed) = (Queue { order, next: 0.into() }, AtomicBool::new(false));
        let total = Mutex::new((Stats::default(), None));
        let worker = |id: u32| {
            let outcome = work(self, id, &launch, &queue, &failed, body);
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Ok(s) => {
                    let t = &mut total.0;
                    (t.blocks, t.switches) = (t.blocks + s.blocks, t.switches + s.switches);
                    t.schedule = t.schedule.wrapping_add(s.schedule);
                }
                Err(fault) => {
                    failed.store(true, Relaxed);
                    total.1.get_or_insert(fault);
                }
            }
        };
        std::thread::scope(|s| {
            let worker = &worker;
            for id in 1..self.workers.min(grid - skipped) {
                s.spawn(move || worker(id));
            }
            worker(0);
        });
        let (stats, fault) = total.into_inner().unwrap_or_else(PoisonError::into_inner);
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner) = stats;
        fault.map_or(Ok(()), Err)
    }
}

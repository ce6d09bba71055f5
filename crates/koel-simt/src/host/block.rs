//! One block on its OS thread: its threads as coroutines, what they wait for, and their accesses.
use super::fault::{At, Fault, FaultKind};
use super::order::{Blocks, Releases};
use super::shadow::{GlobalRace, GlobalShadow, SharedShadow, Toucher};
use super::stacks::Stacks;
use super::{Exec, Extent, Place};
use crate::{Access, Thread};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Random number generator (xorshift).
pub(super) struct Rng(Cell<u64>);
impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Rng(Cell::new((seed ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9) | 1))
    }
    /// Returns a number below `n`.
    pub(super) fn below(&self, n: usize) -> usize {
        let mut x = self.0.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.0.set(x);
        (((x >> 32) * n as u64) >> 32) as usize
    }
}

/// State that the blocks of a launch share.
pub(super) struct Shared {
    pub kernel: &'static str,
    pub grid: u32,
    /// Whether strided loops run only their last two rounds.
    pub last: bool,
    pub threads: u32,
    pub shared_bytes: u32,
    pub preempt: u32,
    pub check_races: bool,
    pub check_uninitialised: bool,
    /// for each array among the arguments, its index in `regions`; empty: no check
    pub region_of: Vec<Option<usize>>,
    pub regions: Vec<GlobalShadow>,
    pub releases: Releases,
    /// number of threads that have returned
    pub returned: AtomicU64,
}

#[derive(Clone, Copy)]
enum State {
    Ready,
    Barrier(At),
    Warp { op: WarpOp, mask: u32, at: At },
    Done,
}
impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        // Usually the same object, which avoids comparing file names; but one location may have
        // several.
        let same = |a: At, b: At| std::ptr::eq(a, b) || a == b;
        match (*self, *other) {
            (State::Ready, State::Ready) | (State::Done, State::Done) => true,
            (State::Barrier(a), State::Barrier(b)) => same(a, b),
            (State::Warp { op, mask, at }, State::Warp { op: o, mask: m, at: a }) => {
                op == o && mask == m && same(at, a)
            }
            _ => false,
        }
    }
}
/// Warp operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WarpOp {
    Sync,
    Ballot,
    Shuffle,
    Match,
    Add,
    Min,
    Max,
}
struct Lane {
    state: Cell<State>,
    yielder: Cell<*const Yielder<(), ()>>,
    value: Cell<u64>,
    aux: Cell<u32>,
    result: Cell<u64>,
    /// where another thread preempted it
    preempted_at: Cell<Option<At>>,
    /// whether it has fenced: its atomics then release
    fenced: Cell<bool>,
    /// address of its last atomic access: a fence acquires from there
    last_atomic: Cell<usize>,
}

/// Block resident on an OS thread. Only that thread accesses it: hence the `Cell`s.
pub(super) struct Block<'l> {
    launch: &'l Shared,
    id: Cell<u32>,
    shared: UnsafeCell<Vec<u128>>,
    lanes: Vec<Lane>,
    running: Cell<u32>,
    ready: RefCell<Vec<u32>>,
    rng: Rng,
    until_preempt: Cell<u32>,
    /// barriers passed by all blocks that have run here; never repeats
    epoch: Cell<u32>,
    warp_epochs: Vec<Cell<u32>>,
    /// by warp: the lanes that wait in a warp operation of any kind
    warp_waits: Vec<Cell<u32>>,
    serial: Cell<u32>,
    shadow: Option<RefCell<SharedShadow>>,
    /// the blocks whose releases this block has seen
    seen: RefCell<Blocks>,
}

thread_local! {
    static CURRENT: Cell<*const Block<'static>> = const { Cell::new(std::ptr::null()) };
}
/// Returns the block that this OS thread is running; `None` while it runs a kernel natively.
#[inline(always)]
pub(super) fn running_block() -> Option<&'static Block<'static>> {
    // SAFETY: `Resident::step` sets it only while a thread of that block runs.
    unsafe { CURRENT.get().as_ref() }
}
/// Returns the block that this OS thread is running. Panics if there is none.
#[track_caller]
pub(super) fn current() -> &'static Block<'static> {
    running_block()
        .expect("only a kernel run by the executor may wait for other threads or use shared memory")
}
/// Ends the launch with a fault. The unwinding is not a panic of the kernel: no hook runs, and
/// nothing is printed on stderr.
#[cold]
#[track_caller]
pub(super) fn fault(kind: FaultKind, message: String) -> ! {
    match running_block() {
        Some(block) => block.fail(kind, Location::caller(), message),
        None => panic!("{message}"),
    }
}

impl<'l> Block<'l> {
    pub(super) fn new(launch: &'l Shared) -> Self {
        let lane = |_| Lane {
            state: Cell::new(State::Ready),
            yielder: Cell::new(std::ptr::null()),
            value: Cell::new(0),
            aux: Cell::new(0),
            result: Cell::new(0),
            preempted_at: Cell::new(None),
            fenced: Cell::new(false),
            last_atomic: Cell::new(0),
        };
        let watched = launch.check_races || launch.check_uninitialised;
        Block {
            launch,
            id: Cell::new(0),
            shared: UnsafeCell::new(vec![0; launch.shared_bytes.div_ceil(16) as usize]),
            lanes: (0..launch.threads).map(lane).collect(),
            running: Cell::new(0),
            ready: RefCell::default(),
            rng: Rng::new(0),
            until_preempt: Cell::new(1),
            epoch: Cell::new(0),
            warp_epochs: vec![Cell::new(0); launch.threads.div_ceil(32) as usize],
            warp_waits: vec![Cell::new(0); launch.threads.div_ceil(32) as usize],
            serial: Cell::new(0),
            shadow: watched.then(|| RefCell::new(SharedShadow::new(launch.shared_bytes))),
            seen: RefCell::default(),
        }
    }
    pub(super) fn shared_bytes(&self) -> u32 {
        self.launch.shared_bytes
    }
    fn fault(
        &self,
        kind: FaultKind,
        thread: Option<u32>,
        at: Option<At>,
        message: String,
    ) -> Fault {
        Fault { kind, kernel: self.launch.kernel, block: self.id.get(), thread, at, message }
    }
    #[cold]
    fn fail(&self, kind: FaultKind, at: At, message: String) -> ! {
        resume_unwind(Box::new(self.fault(kind, Some(self.running.get()), Some(at), message)))
    }
    fn lane(&self) -> &Lane {
        &self.lanes[self.running.get() as usize]
    }
    fn suspend(&self) {
        let yielder = self.lane().yielder.get();
        // SAFETY: the running thread has set it and is alive.
        unsafe { (*yielder).suspend(()) };
    }
    /// Called before each memory access: occasionally lets another thread run first.
    #[inline(always)]
    fn yield_point(&self, at: At) {
        let left = self.until_preempt.get() - 1;
        self.until_preempt.set(left);
        if left == 0 {
            self.preempted(at);
        }
    }
    #[cold]
    fn preempted(&self, at: At) {
        self.draw_preemption();
        self.lane().preempted_at.set(Some(at));
        self.ready.borrow_mut().push(self.running.get());
        self.suspend();
    }
    /// Threads that spin must let others run even if preemption is off.
    fn draw_preemption(&self) {
        const RARELY: u32 = 4096;
        let every = if self.launch.preempt == 0 { RARELY } else { self.launch.preempt };
        self.until_preempt.set(1 + self.rng.below(2 * every as usize) as u32);
    }
    fn toucher(&self) -> Toucher {
        let thread = self.running.get();
        let warp_epoch = self.warp_epochs[thread as usize / 32].get();
        Toucher { block: self.id.get(), thread, epoch: self.epoch.get(), warp_epoch }
    }

    /// Checks one access of shared memory. `reads`: whether the value there matters.
    pub(super) fn shared_access(
        &self,
        at: u32,
        bytes: u32,
        access: Access,
        reads: bool,
        loc: At,
    ) -> *mut u8 {
        self.yield_point(loc);
        let have = self.launch.shared_bytes;
        if at.checked_add(bytes).is_none_or(|end| end > have) {
            // Only a handle left over from another launch points there.
            let m = format!("{bytes} bytes at {at} of shared memory; this launch has {have}");
            self.fail(FaultKind::OutOfBounds, loc, m);
        }
        if let Some(shadow) = &self.shadow {
            let mut shadow = shadow.borrow_mut();
            if self.launch.check_races
                && let Err((byte, r)) = shadow.touch(at..at + bytes, access, self.toucher(), loc)
            {
                let place = r.at.map_or(String::new(), |at| format!(" at {at}"));
                let m = format!(
                    "{access:?} of shared byte {byte} races with {:?} by thread {}{place}: \
                     no barrier between them",
                    r.access, r.thread
                );
                drop(shadow);
                self.fail(FaultKind::SharedRace, loc, m);
            }
            if self.launch.check_uninitialised
                && let Some(byte) =
                    shadow.uninitialised(at..at + bytes, access, reads, self.serial.get())
            {
                drop(shadow);
                let m = format!("{access:?} of shared byte {byte}, which this block never wrote");
                self.fail(FaultKind::UninitialisedShared, loc, m);
            }
        }
        // SAFETY: the accessed bytes at `at` are inside the block's `shared_bytes`.
        unsafe { (*self.shared.get()).as_mut_ptr().cast::<u8>().add(at as usize) }
    }
    /// Checks one access of global memory. `constant`: whether it is through an `In`.
    pub(super) fn global_access(
        &self,
        array: &Extent,
        address: usize,
        bytes: usize,
        access: Access,
        constant: bool,
        loc: At,
    ) {
        self.yield_point(loc);
        let Some(&Some(region)) = self.launch.region_of.get(array.slot as usize) else { return };
        let region = &self.launch.regions[region];
        if !access.plain() {
            self.lane().last_atomic.set(address);
            if access == Access::Atomic && self.lane().fenced.get() {
                self.release(address);
            }
        }
        let ordered = |block| self.seen.borrow().contains(block);
        let Err((place, race)) =
            region.touch(address..address + bytes, access, constant, self.toucher(), ordered)
        else {
            return;
        };
        let what =
            format!("{access:?} of byte {} of `{}`", place as i64 - array.first as i64, array.name);
        let m = match race {
            GlobalRace::Thread(t, kind) => {
                format!(
                    "{what} races with {kind:?} by thread {t} of this block: \
                     no barrier between them"
                )
            }
            GlobalRace::Block(b, kind) => {
                format!(
                    "{what} races with {kind:?} by block {b}: \
                     neither release and acquire nor fences order them"
                )
            }
            GlobalRace::NotConstant(b) => {
                format!("{what}, an `In` that block {b} of this launch writes")
            }
        };
        self.fail(FaultKind::GlobalRace, loc, m);
    }
    /// Called before a releasing store.
    pub(super) fn release(&self, address: usize) {
        self.launch.releases.release(address, self.id.get(), &self.seen.borrow());
    }
    /// Called after an acquiring load. If it sees a release of its own block, it orders the block's
    /// threads too.
    pub(super) fn acquire(&self, address: usize) {
        if self.launch.releases.acquire(address, self.id.get(), &mut self.seen.borrow_mut()) {
            self.epoch.set(self.epoch.get() + 1);
        }
    }
    /// Turns this thread's last atomic access before the fence into an acquire, and its atomics
    /// after the fence into releases.
    pub(super) fn fence(&self) {
        if !self.launch.region_of.is_empty() {
            self.acquire(self.lane().last_atomic.get());
            self.lane().fenced.set(true);
        }
    }

    /// Waits at a barrier; returns the number of threads whose `p` is true.
    pub(super) fn wait_barrier(&self, at: At, p: bool) -> u32 {
        let me = self.lane();
        me.value.set(p as u64);
        me.state.set(State::Barrier(at));
        self.suspend();
        me.result.get() as u32
    }
    /// Performs a warp operation. The last lane to arrive computes the result of every lane and
    /// continues immediately.
    pub(super) fn warp_op(
        &self,
        id: u32,
        mask: u32,
        op: WarpOp,
        value: u64,
        aux: u32,
        at: At,
    ) -> u64 {
        let (me, first) = (self.lane(), id & !31);
        let exists = if self.launch.threads - first >= 32 {
            !0
        } else {
            (1u32 << (self.launch.threads - first)) - 1
        };
        if mask >> (id & 31) & 1 == 0 || mask & !exists != 0 {
            let m = format!(
                "mask {mask:#010x} of {op:?} excludes the calling lane \
                 or names lanes that do not exist"
            );
            self.fail(FaultKind::WarpMisuse, at, m);
        }
        me.value.set(value);
        me.aux.set(aux);
        let waiting = State::Warp { op, mask, at };
        me.state.set(waiting);
        let lanes = || {
            (0..32).filter(|l| mask >> l & 1 != 0).map(|l| (l, &self.lanes[(first + l) as usize]))
        };
        let waits = &self.warp_waits[first as usize / 32];
        waits.set(waits.get() | 1 << (id & 31));
        // The states are compared once, after all lanes have arrived, not at each arrival.
        if waits.get() & mask != mask || lanes().any(|(_, l)| l.state.get() != waiting) {
            self.suspend();
            return me.result.get();
        }
        let values = || lanes().map(|(_, l)| l.value.get());
        let common = match op {
            WarpOp::Ballot => lanes().fold(0, |m, (i, l)| m | l.value.get() << i),
            WarpOp::Add => values().fold(0u32, |a, b| a.wrapping_add(b as u32)) as u64,
            WarpOp::Min => values().fold(u64::MAX, u64::min),
            WarpOp::Max => values().fold(0, u64::max),
            _ => 0,
        };
        for (_, l) in lanes() {
            l.result.set(match op {
                WarpOp::Shuffle if mask >> l.aux.get() & 1 == 0 => {
                    let m = format!(
                        "shuffle from lane {}, which is not in the mask {mask:#010x}",
                        l.aux.get()
                    );
                    self.fail(FaultKind::WarpMisuse, at, m);
                }
                WarpOp::Shuffle => self.lanes[(first + l.aux.get()) as usize].value.get(),
                WarpOp::Match => {
                    lanes().fold(0, |m, (i, o)| m | ((o.value.get() == l.value.get()) as u64) << i)
                }
                _ => common,
            });
        }
        // Only a sync of the whole warp counts for the race detector, which does not track parts of
        // a warp.
        if op == WarpOp::Sync && mask == exists {
            let e = &self.warp_epochs[id as usize / 32];
            e.set(e.get() + 1);
        }
        waits.set(waits.get() & !mask);
        let mut ready = self.ready.borrow_mut();
        for (l, lane) in lanes() {
            lane.state.set(State::Ready);
            if l != id & 31 {
                ready.push(first + l);
            }
        }
        drop(ready);
        me.result.get()
    }

    /// Reports how many threads wait where.
    fn divergence(&self) -> Fault {
        let mut groups: Vec<(State, u32, u32)> = vec![];
        for (t, l) in self.lanes.iter().enumerate() {
            match groups.iter_mut().find(|g| g.0 == l.state.get()) {
                Some(g) => g.1 += 1,
                None => groups.push((l.state.get(), 1, t as u32)),
            }
        }
        let parts = groups.iter().map(|(s, n, t)| {
            let place = match s {
                State::Ready => "ready (executor bug)".into(),
                State::Barrier(at) => format!("wait at the barrier at {at}"),
                State::Warp { op, mask, at } => {
                    format!("wait in warp operation {op:?} (mask {mask:#010x}) at {at}")
                }
                State::Done => "have returned".into(),
            };
            format!("{n} threads (first: {t}) {place}")
        });
        self.fault(FaultKind::Divergence, None, None, parts.collect::<Vec<_>>().join("; "))
    }
}

/// Outcome of one step of a block.
pub(super) enum Step {
    /// This thread has run.
    Ran(u32),
    Finished,
}

/// Block being executed: the coroutines of its threads.
pub(super) struct Resident<'b> {
    block: &'b Block<'b>,
    threads: Vec<Coroutine<(), (), (), DefaultStack>>,
}
impl<'b> Resident<'b> {
    /// Starts block `id` in `block`, without running a step.
    ///
    /// # Safety
    /// [`end`](Self::end) must be called while `body` and everything it refers to are alive.
    pub(super) unsafe fn start(
        block: &'b Block<'b>,
        id: u32,
        exec: &Exec,
        stacks: &mut Stacks,
        body: &'b (dyn Fn(Thread) + Sync),
    ) -> Self {
        let Shared { threads, grid, last, .. } = *block.launch;
        let place = Place { block: id, threads, grid, last };
        block.id.set(id);
        block.rng.0.set(Rng::new(exec.seed ^ ((id as u64) << 32 | 0x5bd1)).0.get());
        block.draw_preemption();
        block.epoch.set(block.epoch.get() + 1);
        block.serial.set(block.serial.get() + 1);
        block.seen.borrow_mut().clear();
        block.warp_waits.iter().for_each(|waits| waits.set(0));
        let word = block.rng.below(1 << 31) as u128 | 1 << 31; // shared memory is not zero on a GPU
        let garbage = word << 96 | word << 64 | word << 32 | word;
        // SAFETY: no thread of this block runs.
        unsafe { (*block.shared.get()).fill(garbage) };
        // SAFETY: guaranteed by the caller: the coroutines end before both.
        let (body, block_of_threads) = unsafe {
            let body = std::mem::transmute::<
                &'b (dyn Fn(Thread) + Sync),
                &'static (dyn Fn(Thread) + Sync),
            >(body);
            (body, std::mem::transmute::<&'b Block<'b>, &'static Block<'static>>(block))
        };
        let thread = |id: u32| {
            let lane = &block.lanes[id as usize];
            lane.state.set(State::Ready);
            lane.preempted_at.set(None);
            lane.fenced.set(false);
            lane.last_atomic.set(0);
            let stack = stacks.take().expect("one stack per thread was lent");
            Coroutine::with_stack(stack, move |y: &Yielder<(), ()>, ()| {
                block_of_threads.lanes[id as usize].yielder.set(y);
                body(Thread::on_host(id, place));
            })
        };
        let threads = (0..block.launch.threads).map(thread).collect();
        let mut ready = block.ready.borrow_mut();
        ready.clear();
        ready.extend(0..block.launch.threads);
        drop(ready);
        Resident { block, threads }
    }
    pub(super) fn id(&self) -> u32 {
        self.block.id.get()
    }
    /// Runs a thread until it waits, is preempted, or returns.
    pub(super) fn step(&mut self) -> Result<Step, Fault> {
        let block = self.block;
        if block.ready.borrow().is_empty() && !self.pass_barrier()? {
            return Ok(Step::Finished);
        }
        let mut ready = block.ready.borrow_mut();
        let pick = block.rng.below(ready.len());
        let t = ready.swap_remove(pick);
        drop(ready);
        block.running.set(t);
        CURRENT.set(std::ptr::from_ref(block).cast());
        let outcome = catch_unwind(AssertUnwindSafe(|| self.threads[t as usize].resume(())));
        CURRENT.set(std::ptr::null());
        match outcome {
            Ok(CoroutineResult::Yield(())) => {}
            Ok(CoroutineResult::Return(())) => {
                block.lanes[t as usize].state.set(State::Done);
                block.launch.returned.fetch_add(1, Relaxed);
            }
            Err(payload) => {
                return Err(match payload.downcast::<Fault>() {
                    Ok(f) => *f,
                    Err(p) => {
                        let text = p
                            .downcast_ref::<String>()
                            .cloned()
                            .or(p.downcast_ref::<&str>().map(|s| s.to_string()));
                        let text = text.unwrap_or_else(|| "panic with a non-string payload".into());
                        block.fault(FaultKind::Panic, Some(t), None, text)
                    }
                });
            }
        }
        Ok(Step::Ran(t))
    }
    /// Called when no thread can run. Passes the barrier if all threads wait at the same one,
    /// returns `false` if all have returned, and reports divergence otherwise.
    fn pass_barrier(&mut self) -> Result<bool, Fault> {
        let block = self.block;
        let first = block.lanes[0].state.get();
        let alike = matches!(first, State::Barrier(_) | State::Done);
        if !alike || block.lanes.iter().any(|l| l.state.get() != first) {
            return Err(block.divergence());
        }
        if first == State::Done {
            return Ok(false);
        }
        block.epoch.set(block.epoch.get() + 1);
        let said_true = block.lanes.iter().map(|l| l.value.get()).sum();
        block.lanes.iter().for_each(|l| {
            l.result.set(said_true);
            l.state.set(State::Ready);
        });
        block.ready.borrow_mut().extend(0..block.launch.threads);
        Ok(true)
    }
    /// Reports that the thread to run next has spun for too long.
    pub(super) fn no_progress(&self, switches: u64) -> Fault {
        let ready = self.block.ready.borrow();
        let place = |t: u32| self.block.lanes[t as usize].preempted_at.get().map(|at| (t, at));
        let spinning = ready.iter().find_map(|&t| place(t));
        let m = format!(
            "no thread of the launch returned while this OS thread switched {switches} times: \
             an endless loop?"
        );
        self.block.fault(FaultKind::NoProgress, spinning.map(|s| s.0), spinning.map(|s| s.1), m)
    }
    /// Returns the stacks to the pool, including those of threads that have not returned.
    pub(super) fn end(self, stacks: &mut Stacks) {
        for mut thread in self.threads {
            if !thread.done() {
                // SAFETY: a kernel owns nothing that needs dropping.
                unsafe { thread.force_reset() };
            }
            stacks.give(thread.into_stack());
        }
    }
}

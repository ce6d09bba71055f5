//! The executor: coroutines, the scheduler of a block, worker threads, faults.
use super::Place;
use super::launch::{Backend, DeviceArg, KernelBody, KernelSpec};
use super::shadow::{GlobalShadow, Shadow};
use crate::{Access, Thread};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

type At = &'static Location<'static>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    OutOfBounds,
    /// threads wait for each other at different places, or for threads that have returned
    Divergence,
    SharedRace,
    /// between blocks
    GlobalRace,
    UninitialisedShared,
    SharedLimit,
    WarpMisuse,
    /// the kernel itself panicked
    Panic,
}
/// What the executor found, and where.
#[derive(Clone, Debug)]
pub struct Fault {
    pub kind: FaultKind,
    pub kernel: &'static str,
    pub block: u32,
    pub thread: Option<u32>,
    pub at: Option<At>,
    pub message: String,
}
impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} in kernel `{}`, block {}", self.kind, self.kernel, self.block)?;
        if let Some(t) = self.thread {
            write!(f, ", thread {t} (warp {}, lane {})", t / 32, t % 32)?;
        }
        if let Some(at) = self.at {
            write!(f, ", at {at}")?;
        }
        write!(f, ": {}", self.message)
    }
}
impl std::error::Error for Fault {}

#[derive(Clone, Copy, Default, Debug)]
pub struct Stats {
    pub blocks: u32,
    /// coroutine switches
    pub switches: u64,
}

/// The CPU executor. `Exec::new(seed)` has every check on.
pub struct Exec {
    pub seed: u64,
    pub workers: u32,
    /// On average one in this many memory accesses lets another thread of the block run first. 0: none.
    pub preempt: u32,
    /// in shared memory
    pub check_races: bool,
    /// between blocks, in every `Buf`
    pub check_global_races: bool,
    pub check_uninitialised: bool,
    pub stack_bytes: usize,
    stats: Mutex<Stats>,
}
impl Exec {
    pub fn new(seed: u64) -> Self {
        let workers = std::thread::available_parallelism().map_or(2, |n| n.get() as u32);
        Exec {
            seed,
            workers,
            preempt: 16,
            check_races: true,
            check_global_races: true,
            check_uninitialised: true,
            stack_bytes: 64 * 1024,
            stats: Mutex::default(),
        }
    }
}

struct Rng(Cell<u64>);
impl Rng {
    fn new(seed: u64) -> Self {
        Rng(Cell::new((seed ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9) | 1))
    }
    fn below(&self, n: usize) -> usize {
        let mut x = self.0.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.0.set(x);
        (((x >> 32) * n as u64) >> 32) as usize
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Ready,
    Barrier(At),
    Warp { op: WarpOp, mask: u32, at: At },
    Done,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WarpOp {
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
}

/// The block that this OS thread is running. One OS thread at a time touches it, hence `Cell`s.
pub struct Block {
    kernel: &'static str,
    pub id: Cell<u32>,
    pub grid: u32,
    pub threads: u32,
    pub shared_bytes: u32,
    shared: UnsafeCell<Vec<u128>>,
    lanes: Vec<Lane>,
    running: Cell<u32>,
    ready: RefCell<Vec<u32>>,
    rng: Rng,
    preempt: u32,
    until_preempt: Cell<u32>,
    /// barriers passed, over all blocks of this worker: never repeats
    epoch: Cell<u32>,
    warp_epochs: Vec<Cell<u32>>,
    serial: Cell<u32>,
    shadow: Option<RefCell<Shadow>>,
    check_races: bool,
    check_uninitialised: bool,
    /// one for each `Buf`; empty: no check
    global: *const [GlobalShadow],
}

thread_local! {
    static CURRENT: Cell<*const Block> = const { Cell::new(std::ptr::null()) };
}

/// Whether this OS thread is running a block for the executor, not a kernel natively.
#[inline(always)]
pub fn in_executor() -> bool {
    !CURRENT.get().is_null()
}
#[inline(always)]
pub fn current() -> &'static Block {
    let p = CURRENT.get();
    assert!(!p.is_null(), "only a kernel that the executor runs may wait for other threads or use shared memory");
    unsafe { &*p }
}
/// Ends the launch. Not a panic of the kernel: no hook, no message on stderr.
#[cold]
#[track_caller]
pub fn fault(kind: FaultKind, message: String) -> ! {
    if !in_executor() {
        panic!("{message}");
    }
    let (b, at) = (current(), Location::caller());
    resume_unwind(Box::new(b.fault(kind, Some(b.running.get()), Some(at), message)))
}
/// Before each memory access.
#[inline(always)]
pub fn yield_point() {
    let b = CURRENT.get();
    if b.is_null() {
        return;
    }
    // SAFETY: the block outlives the threads that it runs.
    let b = unsafe { &*b };
    if b.preempt != 0 {
        let left = b.until_preempt.get() - 1;
        b.until_preempt.set(left);
        if left == 0 {
            b.preempted();
        }
    }
}

impl Block {
    fn new(exec: &Exec, spec: &KernelSpec, grid: u32, shared: u32, global: *const [GlobalShadow]) -> Self {
        let lane = |_| Lane {
            state: Cell::new(State::Ready),
            yielder: Cell::new(std::ptr::null()),
            value: Cell::new(0),
            aux: Cell::new(0),
            result: Cell::new(0),
        };
        Block {
            kernel: spec.name,
            id: Cell::new(0),
            grid,
            threads: spec.threads,
            shared_bytes: shared,
            shared: UnsafeCell::new(vec![0; shared.div_ceil(16) as usize]),
            lanes: (0..spec.threads).map(lane).collect(),
            running: Cell::new(0),
            ready: RefCell::default(),
            rng: Rng::new(0),
            preempt: exec.preempt,
            until_preempt: Cell::new(1),
            epoch: Cell::new(0),
            warp_epochs: vec![Cell::new(0); spec.threads.div_ceil(32) as usize],
            serial: Cell::new(0),
            shadow: (exec.check_races || exec.check_uninitialised).then(|| RefCell::new(Shadow::new(shared))),
            check_races: exec.check_races,
            check_uninitialised: exec.check_uninitialised,
            global,
        }
    }
    fn fault(&self, kind: FaultKind, thread: Option<u32>, at: Option<At>, message: String) -> Fault {
        Fault { kind, kernel: self.kernel, block: self.id.get(), thread, at, message }
    }
    fn lane(&self) -> &Lane {
        &self.lanes[self.running.get() as usize]
    }
    fn suspend(&self) {
        let lane = self.lane();
        unsafe { (*lane.yielder.get()).suspend(()) };
    }
    #[cold]
    fn preempted(&self) {
        self.until_preempt.set(1 + self.rng.below(2 * self.preempt as usize) as u32);
        self.ready.borrow_mut().push(self.running.get());
        self.suspend();
    }
    pub fn shared_ptr(&self) -> *mut u8 {
        unsafe { (*self.shared.get()).as_mut_ptr().cast() }
    }
    #[inline]
    pub fn shadow_check(&self, at: u32, bytes: u32, access: Access, loc: At) {
        let Some(shadow) = &self.shadow else { return };
        let (t, mut shadow) = (self.running.get(), shadow.borrow_mut());
        for word in at / 4..(at + bytes) / 4 {
            if self.check_races
                && let Some(r) = shadow.touch(word, access, t, self.epoch.get(), self.warp_epochs[t as usize / 32].get(), loc)
            {
                let m = format!(
                    "{access:?} of shared byte {} races with {:?} by thread {} at {}: no barrier between them",
                    word * 4,
                    r.access,
                    r.thread,
                    r.at
                );
                resume_unwind(Box::new(self.fault(FaultKind::SharedRace, Some(t), Some(loc), m)));
            }
            if self.check_uninitialised && shadow.uninitialised(word, access, self.serial.get()) {
                let m = format!("{access:?} of shared byte {}, which this block never wrote", word * 4);
                resume_unwind(Box::new(self.fault(FaultKind::UninitialisedShared, Some(t), Some(loc), m)));
            }
        }
    }
    #[inline]
    pub fn global_check(&self, name: &str, slot: u32, byte: usize, bytes: usize, access: Access, loc: At) {
        let Some(shadow) = unsafe { &*self.global }.get(slot as usize) else { return };
        for word in byte / 4..(byte + bytes) / 4 {
            if let Some((other, kind)) = shadow.touch(word, access, self.id.get()) {
                let m =
                    format!("{access:?} of byte {} of `{name}` races with {kind:?} by block {other}: nothing orders two blocks", word * 4);
                resume_unwind(Box::new(self.fault(FaultKind::GlobalRace, Some(self.running.get()), Some(loc), m)));
            }
        }
    }
    /// How many threads brought `p`.
    pub fn wait_barrier(&self, at: At, p: bool) -> u32 {
        let me = self.lane();
        me.value.set(p as u64);
        me.state.set(State::Barrier(at));
        self.suspend();
        me.result.get() as u32
    }
    /// The last lane to arrive computes everybody's result and goes on at once.
    pub fn warp_op(&self, id: u32, mask: u32, op: WarpOp, value: u64, aux: u32, at: At) -> u64 {
        let (me, first) = (self.lane(), id & !31);
        let exists = if self.threads - first >= 32 { !0 } else { (1u32 << (self.threads - first)) - 1 };
        if mask >> (id & 31) & 1 == 0 || mask & !exists != 0 {
            let m = format!("mask {mask:#010x} of {op:?} leaves out the calling lane or names lanes that do not exist");
            resume_unwind(Box::new(self.fault(FaultKind::WarpMisuse, Some(id), Some(at), m)));
        }
        me.value.set(value);
        me.aux.set(aux);
        let waiting = State::Warp { op, mask, at };
        me.state.set(waiting);
        let lanes = || (0..32).filter(|l| mask >> l & 1 != 0).map(|l| (l, &self.lanes[(first + l) as usize]));
        if lanes().any(|(_, l)| l.state.get() != waiting) {
            self.suspend();
            return me.result.get();
        }
        let values = || lanes().map(|(_, l)| l.value.get());
        let common = match op {
            WarpOp::Ballot => lanes().fold(0, |m, (i, l)| m | l.value.get() << i),
            WarpOp::Add => values().fold(0u32, |a, b| a.wrapping_add(b as u32)) as u64,
            WarpOp::Min => values().min().unwrap(),
            WarpOp::Max => values().max().unwrap(),
            _ => 0,
        };
        for (_, l) in lanes() {
            l.result.set(match op {
                WarpOp::Shuffle if mask >> l.aux.get() & 1 == 0 => {
                    let m = format!("shuffle from lane {}, which is not in the mask {mask:#010x}", l.aux.get());
                    resume_unwind(Box::new(self.fault(FaultKind::WarpMisuse, Some(id), Some(at), m)));
                }
                WarpOp::Shuffle => self.lanes[(first + l.aux.get()) as usize].value.get(),
                WarpOp::Match => lanes().fold(0, |m, (i, o)| m | ((o.value.get() == l.value.get()) as u64) << i),
                _ => common,
            });
        }
        // Only a sync of the whole warp counts for the race detector: part of a warp is not tracked.
        if op == WarpOp::Sync && mask == exists {
            let e = &self.warp_epochs[id as usize / 32];
            e.set(e.get() + 1);
        }
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

    /// Runs one block. The stacks are lent and come back.
    fn run(&self, id: u32, seed: u64, stacks: &mut Vec<DefaultStack>, body: &(dyn Fn(Thread) + Sync)) -> Result<u64, Fault> {
        let place = Place { block: id, threads: self.threads, grid: self.grid };
        self.id.set(id);
        self.rng.0.set(Rng::new(seed ^ ((id as u64) << 32 | 0x5bd1)).0.get());
        self.until_preempt.set(1 + self.rng.below(2 * self.preempt.max(1) as usize) as u32);
        self.epoch.set(self.epoch.get() + 1);
        self.serial.set(self.serial.get() + 1);
        let garbage = (self.rng.below(1 << 31) as u128) << 17 | 0xDEAD_BEEF; // shared memory is not zero on a GPU
        unsafe { (*self.shared.get()).fill(garbage) };
        // SAFETY: the coroutines are gone before `body` is.
        let body: &'static (dyn Fn(Thread) + Sync) = unsafe { std::mem::transmute(body) };
        let block: &'static Block = unsafe { &*std::ptr::from_ref(self) };
        let mut threads: Vec<Coroutine<(), (), (), DefaultStack>> = (0..self.threads)
            .map(|id| {
                self.lanes[id as usize].state.set(State::Ready);
                Coroutine::with_stack(stacks.pop().expect("a stack per thread"), move |y: &Yielder<(), ()>, ()| {
                    block.lanes[id as usize].yielder.set(y);
                    body(Thread::on_host(id, place));
                })
            })
            .collect();
        *self.ready.borrow_mut() = (0..self.threads).collect();
        let result = self.schedule(&mut threads);
        for mut t in threads {
            if !t.done() {
                unsafe { t.force_reset() }; // after a fault; a kernel owns nothing that needs dropping
            }
            stacks.push(t.into_stack());
        }
        result
    }

    fn schedule(&self, threads: &mut [Coroutine<(), (), (), DefaultStack>]) -> Result<u64, Fault> {
        let mut switches = 0;
        loop {
            loop {
                let mut ready = self.ready.borrow_mut();
                if ready.is_empty() {
                    break;
                }
                let pick = self.rng.below(ready.len());
                let t = ready.swap_remove(pick);
                drop(ready);
                self.running.set(t);
                switches += 1;
                match catch_unwind(AssertUnwindSafe(|| threads[t as usize].resume(()))) {
                    Ok(CoroutineResult::Yield(())) => {}
                    Ok(CoroutineResult::Return(())) => self.lanes[t as usize].state.set(State::Done),
                    Err(payload) => {
                        return Err(match payload.downcast::<Fault>() {
                            Ok(f) => *f,
                            Err(p) => {
                                let text = p.downcast_ref::<String>().cloned().or(p.downcast_ref::<&str>().map(|s| s.to_string()));
                                self.fault(FaultKind::Panic, Some(t), None, text.unwrap_or("?".into()))
                            }
                        });
                    }
                }
            }
            // Nobody can run: all have returned, or all wait at one barrier, or something is wrong.
            let State::Barrier(at) = self.lanes[0].state.get() else {
                if self.lanes.iter().all(|l| l.state.get() == State::Done) {
                    return Ok(switches);
                }
                return Err(self.divergence());
            };
            if self.lanes.iter().any(|l| l.state.get() != State::Barrier(at)) {
                return Err(self.divergence());
            }
            self.epoch.set(self.epoch.get() + 1);
            let said_true = self.lanes.iter().map(|l| l.value.get()).sum();
            self.lanes.iter().for_each(|l| {
                l.result.set(said_true);
                l.state.set(State::Ready);
            });
            self.ready.borrow_mut().extend(0..self.threads);
        }
    }
    /// Says how many threads are where.
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
                State::Warp { op, mask, at } => format!("wait in warp operation {op:?} (mask {mask:#010x}) at {at}"),
                State::Done => "have returned".into(),
            };
            format!("{n} threads (first: {t}) {place}")
        });
        self.fault(FaultKind::Divergence, None, None, parts.collect::<Vec<_>>().join("; "))
    }
}

impl Backend for Exec {
    type Error = Fault;
    unsafe fn launch(
        &self,
        spec: &KernelSpec,
        grid: u32,
        shared: u32,
        args: &[DeviceArg],
        body: KernelBody<'_>,
    ) -> Result<(), Fault> {
        assert!(
            (1..=1024).contains(&spec.threads) && shared <= crate::MAX_SHARED,
            "launch of `{}`: too many threads or too much shared memory",
            spec.name
        );
        let bufs = args.iter().filter_map(|a| a.buf_bytes);
        let global = if self.check_global_races { bufs.map(GlobalShadow::new).collect() } else { vec![] };
        let mut order = (0..grid).collect::<Vec<_>>();
        let rng = Rng::new(self.seed);
        (1..order.len()).rev().for_each(|i| order.swap(i, rng.below(i + 1)));
        let (next, failed, first, switches) = (AtomicU32::new(0), AtomicBool::new(false), Mutex::new(None), Mutex::new(0));
        let this = self;
        std::thread::scope(|s| {
            for _ in 0..self.workers.min(grid) {
                s.spawn(|| {
                    let block = Block::new(this, spec, grid, shared, &*global);
                    CURRENT.set(&block);
                    let mut stacks = (0..spec.threads).map(|_| DefaultStack::new(this.stack_bytes).expect("stack")).collect();
                    while !failed.load(Relaxed) {
                        let Some(&id) = order.get(next.fetch_add(1, Relaxed) as usize) else { break };
                        match block.run(id, this.seed, &mut stacks, body.thread) {
                            Ok(n) => *switches.lock().unwrap() += n,
                            Err(f) => {
                                failed.store(true, Relaxed);
                                first.lock().unwrap().get_or_insert(f);
                            }
                        }
                    }
                    CURRENT.set(std::ptr::null());
                });
            }
        });
        *self.stats.lock().unwrap() = Stats { blocks: grid, switches: switches.into_inner().unwrap() };
        first.into_inner().unwrap().map_or(Ok(()), Err)
    }
}

//! What the executor must report, and what it must not report.
#![cfg(not(miri))] // the executor's coroutines are assembly
use koel_simt::{Buf, Exec, Fault, FaultKind, In, Thread, kernel};

const SEEDS: std::ops::Range<u64> = 0..12;

macro_rules! fault {
    ($k:ident, $grid:expr $(, $arg:expr)*) => {
        // SAFETY: the executor checks what the kernel does.
        unsafe { $k::launch(&Exec::new(1), $grid $(, $arg)*) }
            .expect_err(concat!("a fault of ", stringify!($k)))
    };
}

#[kernel(threads = 64)]
fn exits_before_barrier(t: Thread) {
    if t.id() < 10 {
        return;
    }
    t.barrier();
}
#[kernel(threads = 64)]
fn two_barriers(t: Thread) {
    if t.id() < 32 {
        t.barrier();
    } else {
        // Without `black_box`, rustc merges the two arms when it optimises or emits no debug
        // information, and only one barrier is left.
        core::hint::black_box(());
        t.barrier();
    }
}
#[kernel(threads = 64)]
fn warp_operation_without_all_lanes(t: Thread) {
    if t.lane() != 5 {
        t.warp().ballot(true);
    }
}
#[kernel(threads = 64)]
fn different_masks(t: Thread) {
    t.lanes(if t.lane() < 16 { 0xffff } else { !0 }).ballot(true);
}
#[kernel(threads = 64)]
fn barrier_against_warp_operation(t: Thread) {
    if t.id() < 32 {
        t.warp().sync();
        t.barrier();
    } else {
        t.barrier();
        t.lanes(1 << t.lane()).sync();
        t.barrier();
    }
}
#[test]
fn divergence_is_reported_and_does_not_hang() {
    let faults = [
        fault!(exits_before_barrier, 3),
        fault!(two_barriers, 1),
        fault!(warp_operation_without_all_lanes, 1),
        fault!(different_masks, 1),
        fault!(barrier_against_warp_operation, 1),
    ];
    for f in faults {
        assert_eq!(f.kind, FaultKind::Divergence, "{f}");
    }
    assert!(
        fault!(exits_before_barrier, 1).message.contains("10 threads (first: 0) have returned")
    );
}

#[kernel(threads = 40)]
fn misuses_warp(t: Thread, how: u32) {
    match how {
        0 => t.lanes(!(1 << t.lane())).sync(), // without the caller
        1 if t.id() >= 32 => t.warp().sync(),  // the last warp has eight lanes
        2 if t.id() < 2 => {
            t.lanes(0b11).shfl(1u32, 2); // from a lane that is not in the mask
        }
        _ => {}
    }
}
#[test]
fn wrong_masks_are_reported() {
    for how in 0..3 {
        let f = fault!(misuses_warp, 1, how);
        assert_eq!(f.kind, FaultKind::WarpMisuse, "{f}");
    }
    // SAFETY: no arrays.
    unsafe { misuses_warp::launch(&Exec::new(1), 3, 3) }.unwrap();
}

/// Writes its own element and reads a neighbour's; `how` selects whether and how the two are
/// ordered.
macro_rules! neighbours {
    ($body:ident $memory:expr) => {
        #[inline(always)]
        fn $body(t: Thread, how: u32, scratch: Buf<u32>, out: Buf<u32>) {
            let s = $memory(t, scratch);
            s.store(t.id(), t.id());
            match how {
                0 | 4 => {}
                1 | 3 => t.warp().sync(), // orders a warp, not the block
                _ => t.barrier(),
            }
            let other = match how {
                0 | 1 => t.id() ^ 1,
                4 => t.id(),
                _ => t.id() ^ 32,
            };
            out.store(t.global_id(), s.load(other));
        }
    };
}
neighbours!(in_shared | t: Thread, _ | t.shared().array::<u32>(64));
neighbours!(in_global | t: Thread, scratch: Buf<u32> | Part { of: scratch, first: t.block() * 64 });
/// Part of a global array that belongs to one block.
struct Part {
    of: Buf<u32>,
    first: u32,
}
impl Part {
    fn load(&self, i: u32) -> u32 {
        self.of.load(self.first + i)
    }
    fn store(&self, i: u32, v: u32) {
        self.of.store(self.first + i, v)
    }
}
#[kernel(threads = 64, shared = 256)]
fn shared_neighbours(t: Thread, how: u32, scratch: Buf<u32>, out: Buf<u32>) {
    in_shared(t, how, scratch, out)
}
#[kernel(threads = 64)]
fn global_neighbours(t: Thread, how: u32, scratch: Buf<u32>, out: Buf<u32>) {
    in_global(t, how, scratch, out)
}
#[test]
fn a_removed_barrier_is_a_race_in_shared_and_in_global_memory() {
    let (mut scratch, mut out) = (vec![0; 256], vec![0; 256]);
    for seed in SEEDS {
        let exec = Exec::new(seed);
        for how in 0..5 {
            let (a, b) = (Buf::new(&mut scratch), Buf::new(&mut out));
            // SAFETY: the arrays fit the kernels.
            let (shared, global) = unsafe {
                (
                    shared_neighbours::launch(&exec, 4, how, a, b),
                    global_neighbours::launch(&exec, 4, how, a, b),
                )
            };
            if how == 0 || how == 3 {
                let kind = shared.unwrap_err().kind;
                assert!(matches!(kind, FaultKind::SharedRace | FaultKind::UninitialisedShared));
                let f = global.unwrap_err();
                assert_eq!(f.kind, FaultKind::GlobalRace, "{f}");
                assert!(
                    f.message.contains("of this block") && f.message.contains("`scratch`"),
                    "{f}"
                );
            } else {
                // Ordered by the warp's sync, by the barrier, or accessed by one thread only.
                shared.unwrap();
                global.unwrap();
            }
        }
    }
}

/// Writes its own element. After a sync of the warp, it adds to that element and adds to or reads a
/// neighbour's; in some cases another warp reads it too.
#[kernel(threads = 64, shared = 256)]
fn behind_a_sync(t: Thread, how: u32) {
    let s = t.shared().array::<u32>(64);
    for _ in 0..2 {
        s.store(t.id(), 0);
        t.warp().sync();
        if how == 0 {
            s.fetch_add(t.id(), 1);
            s.fetch_add(t.id() ^ 1, 1);
        } else {
            s.load(t.id());
            if how == 2 {
                t.barrier();
            }
            s.load(if how == 3 { t.id() ^ 1 } else { t.id() ^ 32 });
            if how == 2 {
                t.barrier();
            }
        }
        t.warp().sync();
    }
}
#[test]
fn a_sync_orders_what_a_warp_did_before_and_only_for_itself() {
    for seed in SEEDS {
        for how in 0..4 {
            // SAFETY: no arrays.
            let ran = unsafe { behind_a_sync::launch(&Exec::new(seed), 2, how) };
            if how == 1 {
                let kind = ran.unwrap_err().kind;
                assert!(matches!(kind, FaultKind::SharedRace | FaultKind::UninitialisedShared));
            } else {
                ran.unwrap();
            }
        }
    }
}

#[kernel(threads = 64, shared = 4)]
fn counts(t: Thread, how: u32, counter: Buf<u32>) {
    let s = t.shared().array::<u32>(1);
    match how {
        0 => counter.store(0, counter.load(0) + 1), // by all threads
        1 if t.id() == 0 => counter.store(0, counter.load(0) + 1), // by one thread of each block
        2 => {
            counter.fetch_add(0, 1);
        }
        3 => {
            counter.fetch_add(0, 1);
            counter.load(0); // plain, while others update it
        }
        4 | 5 => {
            if t.id() == 0 {
                s.store(0, 0);
            }
            t.barrier();
            if how == 4 { s.store(0, s.load(0) + 1) } else { _ = s.fetch_add(0, 1) }
        }
        _ => {}
    }
}
#[test]
fn updates_that_are_not_atomic_are_races() {
    let mut counter = vec![0; 1];
    for seed in SEEDS {
        for (how, grid, kind) in [
            (0, 1, Some(FaultKind::GlobalRace)),
            (0, 50, Some(FaultKind::GlobalRace)),
            (1, 1, None),
            (1, 50, Some(FaultKind::GlobalRace)),
            (2, 50, None),
            (3, 1, Some(FaultKind::GlobalRace)),
            (4, 1, Some(FaultKind::SharedRace)),
            (5, 1, None),
        ] {
            // SAFETY: the array fits the kernel.
            let outcome =
                unsafe { counts::launch(&Exec::new(seed), grid, how, Buf::new(&mut counter)) };
            assert_eq!(outcome.err().map(|f| f.kind), kind, "how {how}, {grid} blocks");
        }
    }
    // Without the detector, the result itself is wrong: preemption lets other threads interleave.
    let mut plain = Exec::new(1);
    (plain.check_global_races, plain.preempt) = (false, 4);
    for (how, lost) in [(0, true), (2, false)] {
        counter[0] = 0;
        // SAFETY: the array fits the kernel.
        unsafe { counts::launch(&plain, 50, how, Buf::new(&mut counter)) }.unwrap();
        assert_eq!(counter[0] < 3200, lost);
    }
}

/// All threads but one leave the others' bytes alone.
#[kernel(threads = 64, shared = 64)]
fn bytes(t: Thread, how: u32, out: Buf<u8>) {
    let s = t.shared().array::<u8>(64);
    s.store(t.id(), 1);
    out.store(t.global_id(), 1);
    if t.id() == 9 && how == 1 {
        s.store(8, 2);
    }
    if t.id() == 9 && how == 2 {
        out.store(t.global_id() - 1, 2);
    }
    if t.id() == 0 && how == 3 {
        out.store((1 - t.block()) * 64 + 5, 2);
    }
}
#[test]
fn bytes_of_one_word_are_apart() {
    let mut out = vec![0u8; 128];
    for seed in SEEDS {
        for (how, kind) in [
            None,
            Some(FaultKind::SharedRace),
            Some(FaultKind::GlobalRace),
            Some(FaultKind::GlobalRace),
        ]
        .into_iter()
        .enumerate()
        {
            // SAFETY: the array fits the kernel.
            let outcome =
                unsafe { bytes::launch(&Exec::new(seed), 2, how as u32, Buf::new(&mut out)) };
            assert_eq!(outcome.err().map(|f| f.kind), kind, "how {how}");
        }
    }
}

/// Reads through an `In` memory that the launch writes through a `Buf`.
#[kernel(threads = 64)]
fn copies(t: Thread, from: In<u32>, to: Buf<u32>) {
    let v = from.get(t.global_id());
    to.store(t.global_id(), v + 1);
}
#[test]
fn arrays_that_overlap() {
    let mut a = (0..192).collect::<Vec<u32>>();
    let first = a.as_mut_ptr() as u64;
    let go = |from: usize, to: usize, grid| {
        let array = |at: usize| first + 4 * at as u64;
        // SAFETY: both ranges are inside `a`.
        unsafe {
            copies::launch(
                &Exec::new(3),
                grid,
                In::from_device(array(from), 64),
                Buf::from_device(array(to), 64),
            )
        }
    };
    go(0, 64, 1).unwrap(); // disjoint
    go(0, 0, 1).unwrap(); // each thread reads what it writes
    let f = go(0, 32, 1).unwrap_err();
    assert_eq!(f.kind, FaultKind::GlobalRace, "{f}");
    assert!(f.message.contains("`from`") || f.message.contains("`to`"), "{f}");
}

/// One block publishes, the others read: by a flag, or as the last block to finish.
#[kernel(threads = 64)]
fn publishes(t: Thread, how: u32, flag: Buf<u32>, data: Buf<u32>, out: Buf<u32>) {
    if how < 3 {
        let turn = if t.id() == 0 { flag.fetch_add(1, 1) } else { 0 };
        let turn = t.warp().shfl(turn, 0);
        if t.id() == 0 && turn == 0 {
            data.store(0, 7);
            match how {
                0 => flag.store_release(0, 1),
                1 => {
                    t.fence();
                    flag.store_relaxed(0, 1);
                }
                _ => flag.store_relaxed(0, 1),
            }
        }
        if t.id() == 0 && turn != 0 {
            match how {
                0 => while flag.load_acquire(0) == 0 {},
                _ => while flag.load_relaxed(0) == 0 {},
            }
            if how == 1 {
                t.fence();
            }
            out.store(t.block(), data.load(0));
        }
    } else {
        // Each block writes a part, and the last one reads all parts.
        data.store(t.global_id(), 1);
        t.barrier();
        if t.id() == 0 {
            if how == 3 {
                t.fence();
            }
            let last = flag.fetch_add(1, 1) == t.grid_dim() - 1;
            if how == 3 {
                t.fence();
            }
            if last {
                let mut sum = 0;
                for i in 0..t.grid_dim() * 64 {
                    sum += data.load(i);
                }
                out.store(0, sum);
            }
        }
    }
}
#[test]
fn release_and_acquire_or_fences_order_blocks() {
    for seed in SEEDS {
        for (how, ordered) in [(0, true), (1, true), (2, false), (3, true), (4, false)] {
            let (mut flag, mut data, mut out) = (vec![0; 2], vec![0; 6 * 64], vec![0; 6]);
            // SAFETY: the arrays fit the kernel.
            let outcome = unsafe {
                publishes::launch(
                    &Exec::new(seed),
                    6,
                    how,
                    Buf::new(&mut flag),
                    Buf::new(&mut data),
                    Buf::new(&mut out),
                )
            };
            match outcome {
                Err(f) => assert!(!ordered && f.kind == FaultKind::GlobalRace, "how {how}: {f}"),
                Ok(()) => {
                    assert!(ordered, "how {how}: not found");
                    let right = if how < 3 {
                        out.iter().filter(|&&v| v == 7).count() == 5
                    } else {
                        out[0] == 6 * 64
                    };
                    assert!(right, "how {how}: {out:?}");
                }
            }
        }
    }
}

#[kernel(threads = 64, shared = 256)]
fn goes_out_of_bounds(t: Thread, how: u32, from: In<u32>, to: Buf<u32>) {
    let s = t.shared().array::<u32>(60);
    let i = if t.global_id() == 64 + 9 { u32::MAX } else { 0 };
    match how {
        0 => _ = from.get(from_place(t)),
        1 => to.store(128 | i, 1),
        2 => _ = to.fetch_add(i, 1),
        3 => s.store_volatile(if i == 0 { 0 } else { 60 }, 1),
        4 => _ = s.fetch_add(if i == 0 { 0 } else { 1 << 30 }, 1), // 4 bytes times that is 0
        5 => _ = to.x4().load(if i == 0 { 0 } else { 32 }),
        _ => _ = to.load(if i == 0 { 0 } else { -1 }),
    }
}
#[inline(always)]
fn from_place(t: Thread) -> u32 {
    if t.global_id() == 64 + 9 { 128 } else { t.global_id() }
}
#[test]
fn accesses_out_of_bounds_name_kernel_block_thread_and_line() {
    #[repr(align(16))]
    struct Aligned([u32; 128]);
    let (from, mut to) = (vec![0; 128], Aligned([0; 128]));
    let mut exec = Exec::new(1);
    exec.check_uninitialised = false;
    for (how, expected) in [
        (0, "index 128 of global `from`, which has 128 elements"),
        (2, "index 4294967295 of global `to`, which has 128 elements"),
        (3, "index 60 of the shared array allocated at"),
        (4, "index 1073741824 of the shared array allocated at"),
        (5, "index 32 of global `to`, which has 32 elements"),
        (6, "index 18446744073709551615 of global `to`"),
    ] {
        // SAFETY: what the kernel does is checked.
        let f = unsafe {
            goes_out_of_bounds::launch(&exec, 2, how, In::new(&from), Buf::new(&mut to.0))
        }
        .unwrap_err();
        assert_eq!(
            (f.kind, f.kernel, f.block, f.thread),
            (FaultKind::OutOfBounds, "goes_out_of_bounds", 1, Some(9)),
            "{f}"
        );
        assert!(f.message.contains(expected) && f.at.unwrap().file().ends_with("faults.rs"), "{f}");
        let text = f.to_string();
        assert!(
            text.contains("kernel `goes_out_of_bounds`, block 1, thread 9 (warp 0, lane 9)"),
            "{text}"
        );
    }
    let f = fault!(goes_out_of_bounds, 2, 1, In::new(&from), Buf::new(&mut to.0));
    assert_eq!(f.kind, FaultKind::OutOfBounds, "{f}");
}

#[kernel(threads = 32, shared = 64 * 4)]
fn misuses_shared(t: Thread, how: u32, out: Buf<u32>) {
    let mut shared = t.shared();
    let s = shared.array::<u32>(32);
    match how {
        0 => out.store(t.id(), s.load(t.id())),
        1 => _ = s.fetch_add(t.id(), 1),
        2 => _ = shared.array::<u64>(17),
        3 => {
            let bytes = shared.array::<u8>(4);
            bytes.store(t.lane() & 1, 1); // races as well; either fault may come first
        }
        4 => {
            s.store_volatile(t.id(), 1);
            _ = shared.array::<u64>(16);
        }
        5 => _ = shared.array::<u32>(5).x4(), // starts at byte 128
        _ => _ = (shared.array::<u32>(1), shared.array::<u32>(4).x4()),
    }
}
#[test]
fn shared_memory_uninitialised_too_little_misaligned() {
    let mut out = vec![0; 32];
    for (how, kind) in [
        (0, Some(FaultKind::UninitialisedShared)),
        (1, Some(FaultKind::UninitialisedShared)),
        (2, Some(FaultKind::SharedLimit)),
        (3, Some(FaultKind::SharedRace)),
        (4, None),
        (5, None),
        (6, Some(FaultKind::Misaligned)),
    ] {
        // SAFETY: the array fits the kernel.
        let outcome = unsafe { misuses_shared::launch(&Exec::new(2), 2, how, Buf::new(&mut out)) };
        assert_eq!(outcome.err().map(|f| f.kind), kind, "how {how}");
    }
    // Memory starts as garbage, not with what the previous block left there.
    let mut exec = Exec::new(2);
    exec.check_uninitialised = false;
    // SAFETY: the array fits the kernel.
    unsafe { misuses_shared::launch(&exec, 1, 0, Buf::new(&mut out)) }.unwrap();
    assert!(out.iter().all(|&v| v != 0));
}

/// `how`: 0: correct; 1: no barrier between words and their halves; 2: a half that was never
/// written; 3: past the end.
#[kernel(threads = 64, shared = 64 * 4)]
fn halves(t: Thread, how: u32, out: Buf<u32>) {
    let words = t.shared().array::<u32>(64);
    if how != 2 || t.id() != 7 {
        words.store(t.id(), (t.id() << 16) | (1000 + t.id()));
    }
    if how != 1 {
        t.barrier();
    }
    let i = 127 - 2 * t.id() + (how == 3) as u32;
    let half = words.halves();
    out.store(t.id(), ((half.load(i) as u32) << 16) | half.load(i - 1) as u32);
}
#[test]
fn halves_of_words() {
    for seed in SEEDS {
        let run = |how| {
            let mut out = vec![0; 64];
            // SAFETY: the array fits the kernel.
            unsafe { halves::launch(&Exec::new(seed), 1, how, Buf::new(&mut out)) }.map(|()| out)
        };
        assert!(run(0).unwrap().into_iter().eq((0..64).rev().map(|i| (i << 16) | (1000 + i))));
        let kinds = [1, 2, 3].map(|how| run(how).unwrap_err().kind);
        assert!(matches!(kinds[0], FaultKind::SharedRace | FaultKind::UninitialisedShared));
        assert_eq!(kinds[1..], [FaultKind::UninitialisedShared, FaultKind::OutOfBounds]);
    }
}

#[kernel(threads = 32)]
fn panics(t: Thread) {
    assert!(t.global_id() != 77, "my own assertion");
}
#[test]
fn a_panic_names_the_thread() {
    let f = fault!(panics, 4);
    assert_eq!((f.kind, f.block, f.thread), (FaultKind::Panic, 2, Some(13)));
    assert!(f.message.contains("my own assertion"));
}

#[kernel(threads = 32, shared = 4)]
fn spins(t: Thread, how: u32, full: In<u32>, flag: Buf<u32>) {
    let s = t.shared().array::<u32>(1);
    match how {
        0 => while flag.load_relaxed(0) == 0 {},
        1 => while flag.cas(0, 1, 2) != 1 {},
        2 => {
            // probes a full table for an absent key
            let mut i = t.id();
            while full.get(i & 31) != 0 {
                i += 1;
            }
        }
        3 => {
            s.store_volatile(0, 0);
            while s.load_volatile(0) == 0 {}
        }
        _ => while t.barrier_count(false) == 0 {},
    }
}
#[test]
fn endless_loops_are_reported() {
    let full = [1; 32];
    for preempt in [16, 0] {
        for how in 0..5 {
            let mut exec = Exec::new(1);
            (exec.patience, exec.preempt) = (2000, preempt);
            // SAFETY: the arrays fit the kernel.
            let f: Fault =
                unsafe { spins::launch(&exec, 3, how, In::new(&full), Buf::new(&mut [0])) }
                    .unwrap_err();
            assert_eq!((f.kind, f.kernel), (FaultKind::NoProgress, "spins"), "{f}");
            if how < 4 {
                assert!(f.at.unwrap().file().ends_with("faults.rs"), "{f}");
            }
        }
    }
}

#[kernel(threads = 64, shared = MAX + 1)]
fn asks_for_too_much(t: Thread) {
    _ = t;
}
const MAX: u32 = koel_simt::MAX_SHARED;
#[test]
fn a_launch_that_no_gpu_takes() {
    let f = fault!(asks_for_too_much, 1);
    assert_eq!(f.kind, FaultKind::Launch, "{f}");
    assert!(f.message.contains("232449 bytes"), "{f}");
}

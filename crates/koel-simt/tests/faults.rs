//! The executor's own tests: what it must report, and what it must not.
use koel_simt::{Buf, Exec, FaultKind, In, Thread, kernel};

macro_rules! fault {
    ($k:ident, $grid:expr $(, $arg:expr)*) => { unsafe { $k::launch(&Exec::new(1), $grid $(, $arg)*) }.expect_err(concat!("a fault of ", stringify!($k))) };
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
    if t.id() < 32 { t.barrier() } else { t.barrier() }
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
#[test]
fn divergence_is_reported_and_does_not_hang() {
    let mut faults = vec![fault!(exits_before_barrier, 3), fault!(warp_operation_without_all_lanes, 1), fault!(different_masks, 1)];
    // rustc's MatchBranchSimplification joins two arms that differ only in where they stand; opt-level 0 does not.
    if cfg!(debug_assertions) {
        faults.push(fault!(two_barriers, 1));
    }
    for f in faults {
        eprintln!("{f}");
        assert_eq!(f.kind, FaultKind::Divergence);
    }
    assert!(fault!(exits_before_barrier, 1).message.contains("10 threads (first: 0) have returned"));
}

#[kernel(threads = 64, shared = 256)]
fn neighbours(t: Thread, how: u32, out: Buf<u32>) {
    let s = t.shared().array::<u32>(64);
    s.store(t.id(), t.id());
    match how {
        0 => {}
        1 => t.warp().sync(), // orders a warp, not the block
        _ => t.barrier(),
    }
    out.store(t.global_id(), s.load(t.id() ^ if how == 2 || how == 3 { 32 } else { 1 }));
}
#[test]
fn shared_races() {
    let mut out = vec![0; 128];
    let mut go = |how, seed| unsafe { neighbours::launch(&Exec::new(seed), 2, how, Buf::new(&mut out)) };
    for seed in 0..20 {
        let kind = go(0, seed).unwrap_err().kind;
        assert!(matches!(kind, FaultKind::SharedRace | FaultKind::UninitialisedShared));
        go(1, seed).unwrap(); // neighbours in one warp, ordered by warp().sync()
        go(2, seed).unwrap(); // another warp, ordered by the barrier
    }
}

#[kernel(threads = 64)]
fn reads(t: Thread, from: In<u32>, to: Buf<u32>) {
    to.store(t.global_id(), from.get(t.global_id() + 1));
}
#[test]
fn bounds_name_the_place() {
    let (from, mut to) = (vec![0; 128], vec![0; 128]);
    let f = fault!(reads, 2, In::new(&from), Buf::new(&mut to));
    assert_eq!((f.kind, f.kernel, f.block, f.thread), (FaultKind::OutOfBounds, "reads", 1, Some(63)));
    assert!(f.message.contains("index 128 of global `from`, which has 128 elements") && f.at.unwrap().file().ends_with("faults.rs"));
}

#[kernel(threads = 32)]
fn counts(t: Thread, how: u32, counter: Buf<u32>) {
    let _ = t;
    match how {
        0 => counter.store(0, counter.load(0) + 1),
        _ => {
            counter.fetch_add(0, 1);
        }
    }
}
#[test]
fn lost_updates_happen_and_races_between_blocks_are_found() {
    let mut counter = vec![0; 1];
    unsafe { counts::launch(&Exec::new(1), 100, 1, Buf::new(&mut counter)) }.unwrap();
    assert_eq!(counter[0], 3200);
    assert_eq!(fault!(counts, 100, 0, Buf::new(&mut counter)).kind, FaultKind::GlobalRace);
    // Without the detector the result itself is wrong: preemption lets other threads in between.
    counter[0] = 0;
    let mut plain = Exec::new(1);
    (plain.check_global_races, plain.preempt) = (false, 4);
    unsafe { counts::launch(&plain, 100, 0, Buf::new(&mut counter)) }.unwrap();
    assert!(counter[0] < 3200);
}

#[kernel(threads = 32)]
fn panics(t: Thread) {
    assert!(t.global_id() != 77, "my own assertion");
}
#[test]
fn a_panic_names_the_thread() {
    let f = fault!(panics, 4);
    assert_eq!((f.kind, f.block, f.thread), (FaultKind::Panic, 2, Some(13)));
}

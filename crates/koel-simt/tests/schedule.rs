//! The executor's schedule: reproducible from its seed, fine-grained between blocks, and fair to
//! threads that wait.
#![cfg(not(miri))] // the executor's coroutines are assembly
use koel_simt::{Buf, Exec, FaultKind, Stats, Thread, kernel};
use std::collections::BTreeSet;

/// Records the order of the threads in `order`.
#[kernel(threads = 96)]
fn arrives(t: Thread, ticket: Buf<u32>, order: Buf<u32>) {
    for _ in 0..2 {
        order.store(ticket.fetch_add(0, 1), t.global_id());
        t.barrier();
        t.warp().sync();
    }
}
fn arrival(exec: &Exec) -> (Vec<u32>, Stats) {
    let (mut ticket, mut order) = (vec![0], vec![0; 5 * 192]);
    // SAFETY: the arrays fit the kernel.
    unsafe { arrives::launch(exec, 5, Buf::new(&mut ticket), Buf::new(&mut order)) }.unwrap();
    (order, exec.stats())
}
#[test]
fn one_worker_replays_from_the_seed() {
    let mut seen = BTreeSet::new();
    for seed in 0..20 {
        let mut exec = Exec::new(seed);
        exec.workers = 1;
        let (order, stats) = arrival(&exec);
        assert_eq!((order.clone(), stats), arrival(&exec));
        assert_eq!(stats.blocks, 5);
        assert!(stats.switches >= 5 * 96 * 3);
        seen.insert((order, stats.schedule));
    }
    assert_eq!(seen.len(), 20, "two seeds with one schedule");
}
#[test]
fn blocks_begin_in_any_order_and_interleave() {
    let mut exec = Exec::new(1);
    exec.workers = 1;
    let turns = |order: &[u32]| order.windows(2).filter(|w| w[0] / 96 != w[1] / 96).count();
    let (order, _) = arrival(&exec);
    assert!(turns(&order) > 100, "only {} turns between blocks", turns(&order));
    exec.resident = 1;
    let (order, _) = arrival(&exec);
    assert_eq!(turns(&order), 4);
    assert!(order.iter().step_by(192).copied().collect::<Vec<_>>().windows(2).any(|w| w[0] > w[1]));
}

/// Chain through the blocks: each waits for its predecessor, in ticket order or in index order.
#[kernel(threads = 64)]
fn chain(t: Thread, draw: u32, ticket: Buf<u32>, sums: Buf<u32>) {
    let turn = if draw == 0 {
        t.block()
    } else if t.id() == 0 {
        ticket.fetch_add(0, 1)
    } else {
        0
    };
    if t.id() == 0 {
        let mut before = 0;
        if turn != 0 {
            while before == 0 {
                before = sums.load_acquire(turn - 1);
            }
        }
        sums.store_release(turn, before + 1);
    }
    t.barrier();
}
#[test]
fn waiting_for_another_block_cannot_hang() {
    for (workers, resident, preempt) in
        [(1, 1, 16), (1, 2, 16), (1, 4, 0), (2, 2, 16), (3, 1, 0), (2, 3, 1)]
    {
        let mut exec = Exec::new(workers as u64);
        (exec.workers, exec.resident, exec.preempt) = (workers, resident, preempt);
        let (mut ticket, mut sums) = (vec![0], vec![0; 200]);
        // SAFETY: the arrays fit the kernel.
        unsafe { chain::launch(&exec, 200, 1, Buf::new(&mut ticket), Buf::new(&mut sums)) }
            .unwrap();
        assert_eq!(sums, (1..=200).collect::<Vec<_>>());
    }
}

/// On a GPU, too, blocks start in any order: without tickets, waiting blocks may keep the block
/// they wait for from starting.
#[test]
fn waiting_for_a_block_that_cannot_start_is_reported() {
    let mut exec = Exec::new(1);
    (exec.workers, exec.patience) = (1, 100_000);
    let (mut ticket, mut sums) = (vec![0], vec![0; 200]);
    // SAFETY: the arrays fit the kernel.
    let f = unsafe { chain::launch(&exec, 200, 0, Buf::new(&mut ticket), Buf::new(&mut sums)) }
        .unwrap_err();
    assert_eq!(f.kind, FaultKind::NoProgress, "{f}");
}

#[kernel(threads = 1024)]
fn nothing(t: Thread) {
    _ = t;
}
/// Needs more stacks than may be in use at once, from several OS threads.
#[test]
fn launches_wait_for_stacks() {
    std::thread::scope(|s| {
        for seed in 0..4 {
            s.spawn(move || {
                let mut exec = Exec::new(seed);
                (exec.workers, exec.resident, exec.stack_bytes) = (2, 4, 16 * 1024);
                // SAFETY: no arrays.
                unsafe { nothing::launch(&exec, 8) }.unwrap();
                assert_eq!(exec.stats().blocks, 8);
            });
        }
    });
    // SAFETY: no arrays.
    unsafe { nothing::launch(&Exec::new(1), 0) }.unwrap();
}

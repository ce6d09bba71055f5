//! Threads that share the work of a copy while one of them leads and calls the driver.
use crate::device::apart::aside;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::{Duration, Instant};

/// Units of work that become ready one after the other, for any number of threads. One thread, the
/// leader, says which are ready, and works itself while it has nothing else to do.
pub(super) struct Crew<'a> {
    units: usize,
    task: &'a (dyn Fn(usize) + Sync),
    /// Next unit; `units` or more at the end.
    next: AtomicUsize,
    /// Units before this one are ready.
    ready: AtomicUsize,
    /// Number of units of each group that are done.
    done: Vec<AtomicUsize>,
    /// Units of a group.
    group: usize,
    /// Whether a task panicked: nobody waits for the others then.
    broken: AtomicBool,
}
/// Time after which helpers have woken up, if they are free.
const LATE: Duration = Duration::from_micros(200);
impl<'a> Crew<'a> {
    /// No unit is ready. `task` is called once for each unit.
    pub(super) fn new(units: usize, group: usize, task: &'a (dyn Fn(usize) + Sync)) -> Crew<'a> {
        let done = (0..units.div_ceil(group)).map(|_| AtomicUsize::new(0)).collect();
        let (next, ready) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Crew { units, task, next, ready, done, group, broken: AtomicBool::new(false) }
    }
    /// Runs `lead` while up to `helpers` other threads work, and waits for them.
    pub(super) fn run<R>(&self, helpers: usize, lead: impl FnOnce() -> R) -> R {
        if helpers == 0 {
            return lead();
        }
        let all = || {
            rayon::in_place_scope(|scope| {
                (0..helpers).for_each(|_| scope.spawn(|_| self.help()));
                let _end = OnDrop(|| self.next.store(self.units, Relaxed));
                lead()
            })
        };
        aside(all)
    }
    /// Makes the units before `ready` ready.
    pub(super) fn make_ready(&self, ready: usize) {
        self.ready.store(ready, Release);
    }
    /// Returns whether all units of a group are done. Whoever learns that sees their effects.
    pub(super) fn is_done(&self, group: usize) -> bool {
        let units = self.group.min(self.units - group * self.group);
        self.done[group].load(Acquire) >= units || self.broken.load(Relaxed)
    }
    /// Does one unit, or waits a moment if none is ready.
    pub(super) fn step(&self) {
        let (next, ready) = (self.next.load(Relaxed), self.ready.load(Acquire));
        if next >= ready.min(self.units) {
            return std::hint::spin_loop();
        }
        if self.next.compare_exchange_weak(next, next + 1, Relaxed, Relaxed).is_ok() {
            let breaks = OnDrop(|| self.broken.store(true, Relaxed));
            (self.task)(next);
            std::mem::forget(breaks);
            self.done[next / self.group].fetch_add(1, Release);
        }
    }
    /// As [`step`](Self::step), unless the helpers will do it: while the leader does a long unit,
    /// no other becomes ready. `since`: the next unit, and when it was seen first.
    pub(super) fn step_if_late(&self, helpers: usize, since: &mut (usize, Instant)) {
        let next = self.next.load(Relaxed);
        if helpers > 0 && since.0 != next {
            *since = (next, Instant::now());
        }
        if helpers == 0 || since.1.elapsed() > LATE {
            return self.step();
        }
        std::hint::spin_loop();
    }
    fn help(&self) {
        let mut idle = 0u32;
        while self.next.load(Relaxed) < self.units {
            let before = self.next.load(Relaxed);
            self.step();
            idle = if before == self.next.load(Relaxed) { idle + 1 } else { 0 };
            if idle > 1000 {
                std::thread::yield_now();
            }
        }
    }
}

/// Calls a function when it is dropped.
struct OnDrop<F: Fn()>(F);
impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crew_does_what_is_ready() {
        for (helpers, units, group) in [(0, 5, 1), (0, 5, 2), (1, 1, 3), (3, 1000, 7), (2, 64, 64)]
        {
            let done = (0..units).map(|_| AtomicUsize::new(0)).collect::<Vec<_>>();
            let task = |i: usize| {
                done[i].fetch_add(1, Relaxed);
            };
            let crew = Crew::new(units, group, &task);
            crew.run(helpers, || {
                for g in 0..units.div_ceil(group) {
                    assert!(!crew.is_done(g), "not ready");
                    crew.step();
                    crew.make_ready((g + 1) * group);
                    while !crew.is_done(g) {
                        crew.step();
                    }
                }
            });
            assert!(done.iter().all(|done| done.load(Relaxed) == 1), "{helpers} {units} {group}");
            // A leader may give up.
            Crew::new(units, group, &task).run(helpers, || ());
            // A panic ends all.
            let broken = |i: usize| assert!(i != units / 2);
            let crew = Crew::new(units, group, &broken);
            let all = || {
                crew.make_ready(units);
                let groups = units.div_ceil(group);
                while !(0..groups).all(|g| crew.is_done(g)) {
                    crew.step();
                }
            };
            let ended = std::panic::AssertUnwindSafe(|| crew.run(helpers, all));
            assert!(std::panic::catch_unwind(ended).is_err());
        }
    }
}

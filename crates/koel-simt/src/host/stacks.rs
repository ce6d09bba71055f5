//! Pool of stacks for the threads of kernels, reused across launches. Creating a stack costs two
//! system calls and a page fault, about ten times as much as running a small kernel on it.
use corosensei::stack::DefaultStack;
use std::sync::{Condvar, Mutex, PoisonError};

/// Maximum number of stacks in use; further launches wait. Each stack takes two memory mappings, of
/// which Linux allows 65,530 per process.
const MAX_STACKS: usize = 1 << 14;
/// Whether stacks are reused. AddressSanitizer, which fuzz targets are built with, would consider
/// an earlier thread's data on the stack live, because coroutines end without returning from their
/// first frame.
const USED_AGAIN: bool = !cfg!(fuzzing);

struct Pool {
    free: Vec<(usize, DefaultStack)>,
    lent: usize,
}
static POOL: Mutex<Pool> = Mutex::new(Pool { free: vec![], lent: 0 });
static RETURNED: Condvar = Condvar::new();

/// Stacks of one size, returned to the pool when dropped.
pub(super) struct Stacks {
    bytes: usize,
    count: usize,
    stacks: Vec<DefaultStack>,
}
impl Stacks {
    /// Takes all stacks at once, so that no launch waits for stacks while holding others.
    pub(super) fn lend(count: usize, bytes: usize) -> std::io::Result<Stacks> {
        let mut stacks = Vec::with_capacity(count);
        {
            let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
            while pool.lent != 0 && pool.lent + count > MAX_STACKS {
                pool = RETURNED.wait(pool).unwrap_or_else(PoisonError::into_inner);
            }
            pool.lent += count;
            while stacks.len() < count
                && let Some(i) = pool.free.iter().rposition(|s| s.0 == bytes)
            {
                stacks.push(pool.free.swap_remove(i).1);
            }
            // Free stacks of other sizes make room.
            let keep = MAX_STACKS.saturating_sub(pool.lent);
            pool.free.truncate(keep);
        }
        let mut lent = Stacks { bytes, count, stacks };
        while lent.stacks.len() < count {
            lent.stacks.push(DefaultStack::new(bytes)?);
        }
        Ok(lent)
    }
    /// Takes one of the stacks; `None` if all are in use.
    pub(super) fn take(&mut self) -> Option<DefaultStack> {
        self.stacks.pop()
    }
    /// Takes back the stack of a thread that has ended.
    pub(super) fn give(&mut self, stack: DefaultStack) {
        if USED_AGAIN {
            self.stacks.push(stack);
            return;
        }
        drop(stack);
        self.stacks.extend(DefaultStack::new(self.bytes));
    }
}
impl Drop for Stacks {
    fn drop(&mut self) {
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        pool.lent -= self.count;
        if USED_AGAIN {
            pool.free.extend(self.stacks.drain(..).map(|s| (self.bytes, s)));
        }
        RETURNED.notify_all();
    }
}

//! Stacks for the threads of kernels: made once, lent to launches. Making one costs two system
//! calls and a page fault, some ten times what a small kernel takes to run on it.
use corosensei::stack::DefaultStack;
use std::sync::{Condvar, Mutex, PoisonError};

/// So many are lent at a time; further launches wait. Each is two memory mappings, of which Linux
/// gives a process 65,530.
const MAX_STACKS: usize = 1 << 14;
/// Whether a stack is used again. AddressSanitizer, with which fuzz targets are built, would take
/// what an earlier thread left there for live: coroutines end without returning from their first
/// frame.
const USED_AGAIN: bool = !cfg!(fuzzing);

struct Pool {
    free: Vec<(usize, DefaultStack)>,
    lent: usize,
}
static POOL: Mutex<Pool> = Mutex::new(Pool { free: vec![], lent: 0 });
static RETURNED: Condvar = Condvar::new();

/// Stacks of one size, given back when dropped.
pub struct Stacks {
    bytes: usize,
    count: usize,
    stacks: Vec<DefaultStack>,
}
impl Stacks {
    /// Takes all at once: nobody waits for some while holding others.
    pub fn lend(count: usize, bytes: usize) -> std::io::Result<Stacks> {
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
            // Those of another size make room.
            let keep = MAX_STACKS.saturating_sub(pool.lent);
            pool.free.truncate(keep);
        }
        let mut lent = Stacks { bytes, count, stacks };
        while lent.stacks.len() < count {
            lent.stacks.push(DefaultStack::new(bytes)?);
        }
        Ok(lent)
    }
    /// One of them, if not all are in use.
    pub fn take(&mut self) -> Option<DefaultStack> {
        self.stacks.pop()
    }
    /// Back from a thread that has ended.
    pub fn give(&mut self, stack: DefaultStack) {
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

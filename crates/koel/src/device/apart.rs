//! Use of buffers outside of the graphs that use them, too.
//!
//! A launch of a graph borrows none of its buffers: safe code can move one out of the graph's
//! state, or keep a share of it, and use it on another thread at the same time. So a launch and an
//! operation outside of it exclude each other where one of them writes. The operation waits until
//! the launch is on its stream, and the launch until the operation is over. Buffers that no graph
//! uses cost one atomic load.
use super::buffer::Shared;
use super::users::Usage;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Who uses a buffer: a number of readers, or one writer ([`WRITER`]).
#[derive(Default)]
pub(super) struct Gate {
    users: Mutex<i32>,
    left: Condvar,
}
const WRITER: i32 = -1;

impl Gate {
    fn users(&self) -> MutexGuard<'_, i32> {
        self.users.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// Enters if no conflicting user is inside. Returns whether it has entered.
    fn try_enter(users: &mut i32, usage: Usage) -> bool {
        match usage {
            Usage::Read if *users >= 0 => *users += 1,
            Usage::Write if *users == 0 => *users = WRITER,
            _ => return false,
        }
        true
    }
    /// Waits until no conflicting user is inside, and enters.
    fn enter(&self, usage: Usage) {
        let mut users = self.users();
        while !Gate::try_enter(&mut users, usage) {
            users = self.left.wait(users).unwrap_or_else(|e| e.into_inner());
        }
    }
    /// Waits until this reader is alone, and makes it the writer.
    fn become_writer(&self) {
        let mut users = self.users();
        while *users != 1 {
            users = self.left.wait(users).unwrap_or_else(|e| e.into_inner());
        }
        *users = WRITER;
    }
    fn leave(&self, usage: Usage) {
        let mut users = self.users();
        *users = if usage == Usage::Read { *users - 1 } else { 0 };
        self.left.notify_all();
    }
}

/// A user inside the gate of a buffer, which it keeps alive.
pub(super) struct Lease {
    buffer: Arc<Shared>,
    usage: Usage,
}
impl Lease {
    pub(super) fn new(buffer: &Arc<Shared>, usage: Usage) -> Lease {
        buffer.gate().enter(usage);
        Lease { buffer: buffer.clone(), usage }
    }
    pub(super) fn try_new(buffer: &Arc<Shared>, usage: Usage) -> Option<Lease> {
        Gate::try_enter(&mut buffer.gate().users(), usage)
            .then(|| Lease { buffer: buffer.clone(), usage })
    }
    /// Makes a reader a writer, when the other readers have left.
    fn write(&mut self) {
        if self.usage == Usage::Read {
            self.buffer.gate().become_writer();
            self.usage = Usage::Write;
        }
    }
    pub(super) fn buffer(&self) -> &Arc<Shared> {
        &self.buffer
    }
    pub(super) fn usage(&self) -> Usage {
        self.usage
    }
}
impl Drop for Lease {
    fn drop(&mut self) {
        self.buffer.gate().leave(self.usage);
    }
}

/// The leases of this thread's operation.
#[derive(Default)]
struct Held {
    /// How many [`Apart`]s there are, one inside the other.
    depth: u32,
    leases: Vec<Lease>,
}
thread_local! {
    static HELD: RefCell<Held> = const { RefCell::new(Held { depth: 0, leases: vec![] }) };
}

/// An operation: what this thread uses until it is dropped stays apart from launches of graphs.
/// Without one, each use ends when its work is on the stream.
pub(crate) struct Apart(PhantomData<*const ()>); // not `Send`: the leases are the thread's
impl Apart {
    pub(crate) fn begin() -> Apart {
        HELD.with_borrow_mut(|held| held.depth += 1);
        Apart(PhantomData)
    }
}
impl Drop for Apart {
    fn drop(&mut self) {
        let ended = HELD.with_borrow_mut(|held| {
            held.depth -= 1;
            if held.depth == 0 { std::mem::take(&mut held.leases) } else { vec![] }
        });
        drop(ended); // may free memory
    }
}
/// Waits for launches that conflict with this use. Until the operation of this thread is over, they
/// wait for that.
pub(super) fn keep_apart(buffer: &Arc<Shared>, usage: Usage) {
    HELD.with_borrow_mut(|held| {
        if held.depth == 0 {
            drop(Lease::new(buffer, usage));
            return;
        }
        match held.leases.iter_mut().find(|lease| Arc::ptr_eq(&lease.buffer, buffer)) {
            Some(lease) if usage == Usage::Write => lease.write(),
            Some(_) => {}
            None => held.leases.push(Lease::new(buffer, usage)),
        }
    });
}
/// Returns whether the operation of this thread uses the buffer.
pub(super) fn is_held(buffer: &Arc<Shared>) -> bool {
    HELD.with_borrow(|held| held.leases.iter().any(|lease| Arc::ptr_eq(&lease.buffer, buffer)))
}
/// Calls `work`, in which this thread may wait for parallel work and meanwhile do that of others:
/// their operations are not part of this thread's.
pub(super) fn aside<R>(work: impl FnOnce() -> R) -> R {
    struct Restores(Held);
    impl Drop for Restores {
        fn drop(&mut self) {
            HELD.set(std::mem::take(&mut self.0));
        }
    }
    let _restores = Restores(HELD.take());
    work()
}

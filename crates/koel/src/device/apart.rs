//! Use of buffers outside of the graphs that use them, too.
//!
//! A launch of a graph borrows none of its buffers: safe code can move one out of the graph's
//! state, or keep a share of it, and use it on another thread at the same time. So a launch and an
//! operation outside of it exclude each other where one of them writes. The operation waits until
//! the launch is on its stream, and the launch until the operation is over. Buffers that no graph
//! uses cost one atomic load.
//!
//! Nobody waits for ever: an operation waits for launches that have all their buffers, and a launch
//! waits before it has any, on a thread that is within no operation. Operations never wait for each
//! other, because they borrow what they use.
use super::buffer::Shared;
use super::users::Usage;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Who uses a buffer, and who waits for it.
#[derive(Default)]
pub(super) struct Gate {
    users: Mutex<GateUsers>,
    left: Condvar,
}
/// By [`By`].
#[derive(Default)]
struct GateUsers {
    inside: [Inside; 2],
    waiting: [u32; 2],
}
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Operation,
    Launch,
}
/// Numbers of users of one kind.
#[derive(Default)]
struct Inside {
    readers: u32,
    writers: u32,
}

impl Inside {
    fn of(&mut self, usage: Usage) -> &mut u32 {
        match usage {
            Usage::Read => &mut self.readers,
            Usage::Write => &mut self.writers,
        }
    }
    fn allows(&self, usage: Usage) -> bool {
        self.writers == 0 && (usage == Usage::Read || self.readers == 0)
    }
}
impl GateUsers {
    /// Launches let operations that wait pass, which would otherwise wait for the whole of a loop
    /// of launches.
    fn allows(&self, by: By, usage: Usage) -> bool {
        let [operations, launches] = &self.inside;
        let no_operation = || self.waiting[By::Operation as usize] == 0 && operations.allows(usage);
        launches.allows(usage) && (by == By::Operation || no_operation())
    }
    fn enter(&mut self, by: By, usage: Usage) {
        *self.inside[by as usize].of(usage) += 1;
    }
}
impl Gate {
    fn users(&self) -> MutexGuard<'_, GateUsers> {
        self.users.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// Waits until no conflicting user is inside.
    fn wait(&self, by: By, usage: Usage) -> MutexGuard<'_, GateUsers> {
        let mut users = self.users();
        if !users.allows(by, usage) {
            users.waiting[by as usize] += 1;
            while !users.allows(by, usage) {
                users = self.left.wait(users).unwrap_or_else(|e| e.into_inner());
            }
            users.waiting[by as usize] -= 1;
        }
        users
    }
    /// Waits until a launch may enter, which then tries anew to have all its buffers.
    pub(super) fn wait_to_launch(&self, usage: Usage) {
        drop(self.wait(By::Launch, usage));
    }
    fn leave(&self, by: By, usage: Usage) {
        let mut users = self.users();
        *users.inside[by as usize].of(usage) -= 1;
        if users.waiting != [0; 2] {
            self.left.notify_all(); // a system call
        }
    }
}

/// A user inside the gate of a buffer, which it keeps alive.
pub(super) struct Lease {
    buffer: Arc<Shared>,
    by: By,
    usage: Usage,
}
impl Lease {
    /// Waits for launches.
    fn of_operation(buffer: &Arc<Shared>, usage: Usage) -> Lease {
        let by = By::Operation;
        buffer.gate().wait(by, usage).enter(by, usage);
        Lease { buffer: buffer.clone(), by, usage }
    }
    /// Returns nothing if a conflicting user is inside.
    pub(super) fn of_launch(buffer: &Arc<Shared>, usage: Usage) -> Option<Lease> {
        let (by, mut users) = (By::Launch, buffer.gate().users());
        users.allows(by, usage).then(|| {
            users.enter(by, usage);
            Lease { buffer: buffer.clone(), by, usage }
        })
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
        self.buffer.gate().leave(self.by, self.usage);
    }
}

/// The leases of this thread's operation.
#[derive(Default)]
struct Held {
    /// How many [`Apart`]s there are, one inside the other.
    depth: u32,
    leases: Vec<Lease>,
    /// Whether an operation with leases is further down on the stack ([`aside`]).
    is_aside: bool,
}
impl Held {
    fn has_leases(&self) -> bool {
        self.is_aside || !self.leases.is_empty()
    }
}
thread_local! {
    static HELD: RefCell<Held> =
        const { RefCell::new(Held { depth: 0, leases: vec![], is_aside: false }) };
}

/// An operation: what this thread uses until it is dropped is kept apart from launches of graphs.
///
/// A graph does not borrow its buffers during a launch. They can be used outside of it at the same
/// time, once they are moved out of its state or shared with it. Each use by a kernel or a copy
/// waits for launches, and launches on other threads wait until this is dropped. koel's own
/// functions do so; begin one before the first [`View::arg`](super::View::arg) of a function of
/// your own that launches kernels. Without it, a launch may come between the argument and the
/// kernel.
///
/// Operations do not wait for each other. Do not wait in one for a thread that launches a graph;
/// a launch on this thread that would have to wait is an error. One call takes nanoseconds, and
/// buffers of no graph cost nothing more.
#[must_use]
pub struct Apart(PhantomData<*const ()>); // not `Send`: the leases are the thread's
impl Apart {
    /// Begins an operation, or a part of the one that this thread is in.
    pub fn begin() -> Apart {
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
            drop(Lease::of_operation(buffer, usage));
            return;
        }
        // A reader that becomes a writer has two.
        let has = |lease: &Lease| {
            Arc::ptr_eq(&lease.buffer, buffer)
                && (lease.usage == usage || lease.usage == Usage::Write)
        };
        if !held.leases.iter().any(has) {
            held.leases.push(Lease::of_operation(buffer, usage));
        }
    });
}
/// Returns whether a launch on this thread must not wait: it could wait for an operation of this
/// thread, or for one that waits in the same way.
pub(super) fn is_within() -> bool {
    HELD.with_borrow(Held::has_leases)
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
    let is_aside = is_within();
    let _restores = Restores(HELD.replace(Held { is_aside, ..Default::default() }));
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_let_operations_pass_that_wait() {
        use By::{Launch, Operation};
        let mut users = GateUsers::default();
        users.enter(Launch, Usage::Read);
        assert!(users.allows(Launch, Usage::Read) && users.allows(Operation, Usage::Read));
        assert!(!users.allows(Launch, Usage::Write) && !users.allows(Operation, Usage::Write));
        users.waiting[Operation as usize] = 1;
        assert!(!users.allows(Launch, Usage::Read), "another launch before one that waits");
        users = GateUsers::default();
        users.enter(Operation, Usage::Write);
        users.waiting[Launch as usize] = 1;
        assert!(users.allows(Operation, Usage::Write), "operations do not wait for operations");
        assert!(!users.allows(Launch, Usage::Read));
    }

    #[cfg(feature = "executor")]
    #[test]
    fn launches_do_not_wait_for_their_own_thread() {
        let device = crate::Device::executor(5);
        let stream = device.stream().unwrap();
        let buffer = Arc::new(Mutex::new(device.upload(&[1u32; 8]).unwrap()));
        let record = |stream: &crate::Stream, buffer: &mut Arc<Mutex<crate::Buffer<u32>>>| {
            buffer.lock().unwrap().view_mut().fill_bytes(2, stream)
        };
        let mut graph = stream.capture(buffer.clone(), record).unwrap();
        let operation = Apart::begin();
        graph.launch(&stream).unwrap();
        buffer.lock().unwrap().view().arg("buffer", &stream).unwrap();
        assert!(is_within() && aside(is_within), "work of others runs within it, too");
        for refused in [graph.launch(&stream), aside(|| graph.launch(&stream))] {
            let message = refused.unwrap_err().to_string();
            assert!(message.contains("within an operation"), "{message}");
        }
        // A reader of the operation may write: it waits for no operation.
        buffer.lock().unwrap().view_mut().fill_bytes(3, &stream).unwrap();
        assert!(graph.launch(&stream).is_err());
        // Uses of other tasks end with them.
        let other = device.upload(&[1u32; 8]).unwrap();
        let mut of_other = stream.capture(other, |s, b| b.view_mut().fill_bytes(2, s)).unwrap();
        let other = std::mem::replace(of_other.state_mut(), device.alloc(1).unwrap());
        aside(|| other.download()).unwrap();
        of_other.launch(&stream).unwrap();
        drop(operation);
        graph.launch(&stream).unwrap();
        assert_eq!(buffer.lock().unwrap().download().unwrap(), [0x0202_0202; 8]);
    }

    #[cfg(feature = "executor")]
    #[test]
    fn operations_end_when_they_panic() {
        let device = crate::Device::executor(6);
        let stream = device.stream().unwrap();
        let buffer = device.upload(&[1u32; 8]).unwrap();
        let mut graph = stream.capture(buffer, |s, b| b.view_mut().fill_bytes(2, s)).unwrap();
        let mut left = std::mem::replace(graph.state_mut(), device.alloc(1).unwrap());
        let panics = std::panic::AssertUnwindSafe(|| {
            let _apart = Apart::begin();
            left.view_mut().fill_bytes(3, &stream).unwrap();
            aside(|| panic!("a panic of parallel work"))
        });
        assert!(std::panic::catch_unwind(panics).is_err());
        graph.launch(&stream).unwrap();
        assert_eq!(left.download().unwrap(), [0x0202_0202; 8]);
    }
}

//! The executor's reports.
use std::panic::Location;

/// Location in the kernel's source.
pub(crate) type At = &'static Location<'static>;

/// Kind of a fault of a kernel or of its launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FaultKind {
    /// An index past the end of a global or shared array.
    OutOfBounds,
    /// A 16-byte view of memory that does not start at a multiple of 16 bytes.
    Misaligned,
    /// An access of a global array through a handle that was not passed to a launch.
    NotInKernel,
    /// Threads that wait for each other at different places, or for threads that have returned.
    Divergence,
    /// Two unordered accesses of a shared word by two threads of a block, at least one of them a
    /// write and at least one plain.
    SharedRace,
    /// Two unordered accesses of a global word by two threads, at least one of them a write and at
    /// least one plain.
    GlobalRace,
    /// A read of shared memory that the block never wrote.
    UninitialisedShared,
    /// Shared arrays that need more than the launch provides.
    SharedLimit,
    /// A warp operation whose mask excludes its caller or names lanes that do not exist, or a
    /// shuffle from such a lane.
    WarpMisuse,
    /// No thread returned for so long that the kernel is assumed to spin forever: see
    /// [`Exec::patience`](crate::Exec::patience).
    NoProgress,
    /// A panic of the kernel itself.
    Panic,
    /// A launch that no GPU supports: more than 1024 threads per block, or too much shared memory.
    Launch,
    /// The host is out of memory for the threads' stacks.
    HostMemory,
}

/// Fault found by the executor, with its location.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Name of the kernel.
    pub kernel: &'static str,
    /// Index of the block in the grid.
    pub block: u32,
    /// Index of the thread in the block; `None` if the fault concerns all threads.
    pub thread: Option<u32>,
    /// Line of the kernel.
    pub at: Option<&'static Location<'static>>,
    /// Details, with the numbers involved.
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

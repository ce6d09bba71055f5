//! What the executor reports.
use std::panic::Location;

/// A place in the kernel's source.
pub(crate) type At = &'static Location<'static>;

/// What is wrong with a kernel, or with its launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FaultKind {
    /// An index past the end of a global or shared array.
    OutOfBounds,
    /// A 16-byte view of memory that does not begin on a multiple of 16 bytes.
    Misaligned,
    /// A global array is accessed through a handle that no launch was given.
    NotInKernel,
    /// Threads wait for each other at different places, or for threads that have returned.
    Divergence,
    /// Two threads of a block touch a shared word, nothing orders them, one writes, one access is
    /// plain.
    SharedRace,
    /// Two threads touch a global word, nothing orders them, one writes, one access is plain.
    GlobalRace,
    /// Shared memory is read that the block never wrote.
    UninitialisedShared,
    /// The shared arrays of a kernel are larger than what the launch gave.
    SharedLimit,
    /// A warp operation whose mask leaves out its caller or names lanes that do not exist, or a
    /// shuffle from such a lane.
    WarpMisuse,
    /// No thread returned for so long that the kernel is taken to spin forever: see
    /// [`Exec::patience`](crate::Exec::patience).
    NoProgress,
    /// The kernel itself panicked.
    Panic,
    /// The launch asks for what no GPU has: more than 1024 threads a block, or too much shared
    /// memory.
    Launch,
    /// The host has no memory for the stacks of the threads.
    HostMemory,
}

/// What the executor found, and where.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// In which kernel.
    pub kernel: &'static str,
    /// In which block of the grid.
    pub block: u32,
    /// In which thread of the block; none if it concerns all of them.
    pub thread: Option<u32>,
    /// At which line of the kernel.
    pub at: Option<&'static Location<'static>>,
    /// The numbers.
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

//! Operations of a batch, and their outcomes.
use crate::device::View;
use koel_kernels::table::update::{operation, status};

/// Outcome of an operation. A set has only those that imply no value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Outcome {
    /// Not done: its partition has no room, or too many operations were for too few partitions.
    /// Only [`enqueue`](crate::MapUpdater::enqueue) leaves operations not done, and a batch that
    /// ended for lack of memory.
    NotDone = status::NOT_DONE,
    /// The key was missing and is now present, with the value.
    Inserted = status::INSERTED,
    /// The key was present and kept its value.
    Kept = status::KEPT,
    /// The key was present and now has the value.
    Assigned = status::ASSIGNED,
    /// The key was present, and the value was added to its value.
    Added = status::ADDED,
    /// The key was present and was removed.
    Erased = status::ERASED,
    /// The key to erase was missing.
    Missing = status::MISSING,
}
impl Outcome {
    const ALL: [Outcome; 7] = [
        Outcome::NotDone,
        Outcome::Inserted,
        Outcome::Kept,
        Outcome::Assigned,
        Outcome::Added,
        Outcome::Erased,
        Outcome::Missing,
    ];
    /// Returns the outcome of a byte that an updater wrote; `None` for other bytes.
    pub fn of(byte: u8) -> Option<Outcome> {
        Outcome::ALL.get(byte as usize).copied()
    }
    /// Returns the outcome of a byte that a batch wrote.
    pub(crate) fn of_byte(byte: u8) -> Outcome {
        Outcome::of(byte).unwrap_or(Outcome::NotDone)
    }
}
/// Operations of a batch: on a [`Map`](crate::Map) each an [`Operation`](crate::Operation), on a
/// [`Set`](crate::Set) a [`SetOperation`](crate::SetOperation).
#[derive(Clone, Copy, Debug)]
pub enum Operations<'a, O = crate::Operation> {
    /// The same operation for every key.
    All(O),
    /// One operation per key, as a byte. Only its low two bits count.
    Each(View<'a, u8>),
}
impl<'a, O> Operations<'a, O> {
    /// Replaces operations by their codes.
    pub(crate) fn codes(self, code: impl FnOnce(O) -> u32) -> Codes<'a> {
        match self {
            Operations::All(operation) => Operations::All(code(operation)),
            Operations::Each(each) => Operations::Each(each),
        }
    }
}
/// Operations of a batch as kernels know them: by codes.
pub(crate) type Codes<'a> = Operations<'a, u32>;
impl Codes<'_> {
    pub(super) fn code(&self) -> u32 {
        match self {
            Operations::All(code) => *code,
            Operations::Each(_) => operation::EACH,
        }
    }
}

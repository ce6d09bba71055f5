//! The operations of a batch, and what becomes of them.
use crate::device::View;
use koel_kernels::table::update::{operation, status};

/// What became of an operation. On a set it is one of those that tell of no value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Outcome {
    /// Nothing: there was no room, or too many operations were for too few partitions. Only
    /// [`enqueue`](crate::MapUpdater::enqueue) leaves it.
    NotDone = status::NOT_DONE,
    /// The key was missing and is there now, with the value.
    Inserted = status::INSERTED,
    /// The key was there, and has kept its value.
    Kept = status::KEPT,
    /// The key was there and has the value now.
    Assigned = status::ASSIGNED,
    /// The key was there and the value was added to its own.
    Added = status::ADDED,
    /// The key was there and is removed.
    Erased = status::ERASED,
    /// The key was not there, and is not.
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
    /// That of a byte which an updater has written; `None` for other bytes.
    pub fn of(byte: u8) -> Option<Outcome> {
        Outcome::ALL.get(byte as usize).copied()
    }
    /// Those of the bytes that a batch has left.
    pub(crate) fn all(bytes: Vec<u8>) -> Vec<Outcome> {
        bytes.into_iter().map(|byte| Outcome::of(byte).unwrap_or(Outcome::NotDone)).collect()
    }
}
/// The operations of a batch: on a [`Map`](crate::Map) each an [`Operation`](crate::Operation), on
/// a [`Set`](crate::Set) a [`SetOperation`](crate::SetOperation).
#[derive(Clone, Copy, Debug)]
pub enum Operations<'a, O = crate::Operation> {
    /// The same on every key.
    All(O),
    /// One for each key, as a byte, of which the low two bits count.
    Each(View<'a, u8>),
}
impl<'a, O> Operations<'a, O> {
    /// With codes in place of operations.
    pub(crate) fn codes(self, code: impl FnOnce(O) -> u32) -> Codes<'a> {
        match self {
            Operations::All(operation) => Operations::All(code(operation)),
            Operations::Each(each) => Operations::Each(each),
        }
    }
}
/// The operations of a batch as kernels know them.
pub(crate) type Codes<'a> = Operations<'a, u32>;
impl Codes<'_> {
    pub(super) fn code(&self) -> u32 {
        match self {
            Operations::All(code) => *code,
            Operations::Each(_) => operation::EACH,
        }
    }
}

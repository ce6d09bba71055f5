//! Outcomes of the operations of a batch.
use koel_kernels::table::update::status;

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

//! Hash seeds of tables: the first one of a build, and its successors when the keys do not fit.
use crate::error::Result;
use koel_kernels::hash::mix::{mix, redrawn};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// Maximum number of seeds that a build on a CPU tries. With the last one the stash takes every key
/// without a slot.
pub(crate) const MAX_ATTEMPTS: u32 = 4;

/// Random bits, drawn once per process. If no seed was given, nobody can craft keys against it.
static OF_PROCESS: LazyLock<u64> = LazyLock::new(unforeseeable);

/// Returns random bits.
pub(crate) fn unforeseeable() -> u64 {
    RandomState::new().hash_one(0u64)
}

/// The seeds that the builds of a table use, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seeds {
    /// Seed of the first attempt.
    pub first: u32,
    /// Source of the later seeds, through [`redrawn`].
    pub redraws: u32,
    /// Whether kernels give up when the first seed has no room, so that the host restarts the
    /// build. The restart is as fast as a first build, but the host must wait to know.
    pub gives_up: bool,
}
impl Seeds {
    /// Starts with the given seed, or that of the process. Later seeds are random as well, unless
    /// `reproducible`: then all follow from the seed, 0 if there is none.
    pub(crate) fn new(seed: Option<u32>, reproducible: bool) -> Seeds {
        if reproducible {
            let first = seed.unwrap_or(0);
            return Seeds { first, redraws: first, gives_up: false };
        }
        let (first, redraws) = (seed.unwrap_or(*OF_PROCESS as u32), (*OF_PROCESS >> 32) as u32);
        Seeds { first, redraws, gives_up: false }
    }
    /// Splits the seeds for a build that the host waits for: the first one alone, then the others.
    pub(crate) fn apart(self) -> [Seeds; 2] {
        [
            Seeds { gives_up: true, ..self },
            Seeds { first: self.of(2), redraws: mix(self.redraws), gives_up: false },
        ]
    }
    /// Returns the seed of an attempt, counted from 1.
    pub(crate) fn of(self, attempt: u32) -> u32 {
        if attempt == 1 { self.first } else { redrawn(self.redraws, attempt) }
    }
    /// Builds with successive seeds until the keys fit. `build(seed, most)` returns `None` if it
    /// would stash more than `most` pairs.
    pub(crate) fn build<T>(
        self,
        most: usize,
        mut build: impl FnMut(u32, usize) -> Result<Option<T>>,
    ) -> Result<Drawn<T>> {
        let mut attempts = 1;
        loop {
            let (seed, most) =
                (self.of(attempts), if attempts < MAX_ATTEMPTS { most } else { usize::MAX });
            if let Some(built) = build(seed, most)? {
                return Ok(Drawn { built, seed, attempts });
            }
            attempts += 1;
        }
    }
}
/// What was built, with which seed, and how many were tried.
pub(crate) struct Drawn<T> {
    pub built: T,
    pub seed: u32,
    pub attempts: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_that_are_asked_for_are_taken() {
        assert_eq!((Seeds::new(Some(7), false).first, Seeds::new(Some(7), true).first), (7, 7));
        assert_eq!(Seeds::new(None, true), Seeds::new(Some(0), true));
        // One process has one seed; later ones differ.
        let seeds = Seeds::new(None, false);
        assert_eq!(seeds, Seeds::new(None, false));
        assert_ne!(seeds.of(2), seeds.of(3));
    }
    #[test]
    fn another_seed_is_taken_until_there_is_room() {
        let seeds = Seeds::new(Some(3), true);
        let drawn = seeds.build(5, |seed, most| Ok((seed == seeds.of(3)).then_some(most))).unwrap();
        assert_eq!((drawn.built, drawn.seed, drawn.attempts), (5, redrawn(3, 3), 3));
        let drawn = seeds.build(5, |_, most| Ok((most > 5).then_some(()))).unwrap();
        assert_eq!(drawn.attempts, MAX_ATTEMPTS);
    }
}

//! Seeds of tables: which one a build takes first, and which ones if that has no room for the keys.
use crate::error::Result;
use koel_kernels::hash::mix::{mix, redrawn};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// Seeds that a build on a CPU tries, at most. By the last one the stash takes whatever has no
/// place.
pub const MAX_ATTEMPTS: u32 = 4;

/// Random bits, drawn once in a process: where nobody chose a seed, nobody can have chosen keys
/// against it.
static OF_PROCESS: LazyLock<u64> = LazyLock::new(unforeseeable);

/// Random bits.
pub fn unforeseeable() -> u64 {
    RandomState::new().hash_one(0u64)
}

/// The seeds that the builds of a table take, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seeds {
    /// That of the first attempt.
    pub first: u32,
    /// What those of the others follow from, by [`redrawn`].
    pub redraws: u32,
    /// Whether kernels give up when there is no room by the first one, for the host to begin
    /// again: that is as fast as a first build, but the host must wait to know.
    pub gives_up: bool,
}
impl Seeds {
    /// With this seed first, or that of the process. Those after it are random too, unless all
    /// follow from the seed: 0 if there is none.
    pub fn new(seed: Option<u32>, reproducible: bool) -> Seeds {
        if reproducible {
            let first = seed.unwrap_or(0);
            return Seeds { first, redraws: first, gives_up: false };
        }
        let (first, redraws) = (seed.unwrap_or(*OF_PROCESS as u32), (*OF_PROCESS >> 32) as u32);
        Seeds { first, redraws, gives_up: false }
    }
    /// Those of a build that the host waits for: the first alone, then the others.
    pub fn apart(self) -> [Seeds; 2] {
        [
            Seeds { gives_up: true, ..self },
            Seeds { first: self.of(2), redraws: mix(self.redraws), gives_up: false },
        ]
    }
    /// That of an attempt, from 1 on.
    pub fn of(self, attempt: u32) -> u32 {
        if attempt == 1 { self.first } else { redrawn(self.redraws, attempt) }
    }
    /// Builds with one seed after the other until one has room: `build(seed, most)` gives `None` if
    /// it would stash more than `most` pairs.
    pub fn build<T>(
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
/// What was built, by which seed, and how many were tried.
pub struct Drawn<T> {
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
        // One process, one seed; others follow it.
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

//! Single-level cuckoo table with the best of several sets of hash functions, as Zachmann's lecture
//! suggests: builds with each set, measures the eviction chains, and keeps the table with the
//! fewest exchanges in total.
//!
//! Memory and lookups are those of [`SingleLevel`](super::SingleLevel). A build takes as long as
//! `sets` builds of it, and temporarily holds two tables and 4 bytes per pair.
use super::random_walk::RandomWalk;
use super::restarts::{self, Outcome, Published};
use super::{Family, Kind, Options, Table, cuckoo};
use koel::primitives;
use koel::{Error, Result, Stream, View};
use koel_kernels::hash::mix::splitmix_at;

/// Number of sets to try, and their functions.
#[derive(Clone, Debug)]
pub struct BestOf {
    /// Number of sets of functions, 1 to 64.
    pub sets: u32,
    /// Number of functions per set, 2 to 5.
    pub functions: u32,
    /// Hash family.
    pub family: Family,
}
impl BestOf {
    /// Four sets of four functions. (The lecture gives no number.)
    pub const PUBLISHED: BestOf = BestOf { sets: 4, functions: 4, family: Family::Mixed };
}

impl Kind for BestOf {
    fn name(&self) -> &'static str {
        "best-of-sets"
    }
    fn about(&self) -> &'static str {
        "the lecture: the single-level table, the best of four sets of functions"
    }
    fn default_load(&self) -> f64 {
        if self.functions == 2 { 0.4 } else { 0.8 }
    }
    fn max_load(&self) -> f64 {
        cuckoo::max_load(self.functions)
    }
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn Table>> {
        cuckoo::check_functions(self.functions)?;
        if !(1..=64).contains(&self.sets) {
            return Err(Error::Setting {
                field: "sets",
                found: self.sets.to_string(),
                expected: "1 to 64".into(),
            });
        }
        let insertion = RandomWalk { functions: self.functions, ..RandomWalk::ROUND_ROBIN };
        restarts::build(
            self,
            Published::with_room(self.family, self.functions),
            stream,
            (keys, values),
            options,
            |stream, pairs, load, attempt| {
                let mut exchanges = stream.device().alloc::<u32>(pairs.n as usize)?;
                let (mut best, mut seconds) = (None, 0.0);
                for set in 0..self.sets {
                    let attempt =
                        restarts::Attempt { seed: splitmix_at(attempt.seed, set), ..attempt };
                    let built =
                        insertion.attempt(stream, pairs, load, attempt, Some(&mut exchanges))?;
                    seconds += built.seconds;
                    if let Some(table) = built.table {
                        let took: u64 = primitives::sum(stream, exchanges.view())?;
                        if best.as_ref().is_none_or(|(least, _)| took < *least) {
                            best = Some((took, table));
                        }
                    }
                }
                Ok(Outcome { table: best.map(|(_, table)| table), seconds })
            },
        )
    }
}

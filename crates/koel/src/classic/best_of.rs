//! The single-level cuckoo table with the best of several sets of hash functions, as Zachmann's
//! lecture suggests: build with each, see how long the eviction chains got, keep the one with the
//! fewest exchanges in all.
//!
//! Memory and lookups: those of [`SingleLevel`](super::SingleLevel); a build takes as long as
//! `sets` of them, and two tables and 4 bytes a pair while it goes on.
use super::random_walk::RandomWalk;
use super::restarts::{self, Outcome};
use super::{Family, Kind, Options, Table, cuckoo};
use crate::device::{Stream, View};
use crate::error::{Error, Result};
use crate::primitives;
use koel_kernels::hash::mix::splitmix_at;

/// How many sets are tried, of which functions.
#[derive(Clone, Debug)]
pub struct BestOf {
    /// Sets of functions, 1 to 64.
    pub sets: u32,
    /// Functions of a set, 2 to 5.
    pub functions: u32,
    /// The family they are drawn from.
    pub family: Family,
}
impl BestOf {
    /// Four sets of four functions. (The lecture names no number.)
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
            self.family,
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

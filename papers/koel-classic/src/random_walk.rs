//! Single-level cuckoo table with random choices: random-walk insertion, and round-robin insertion
//! starting at a random function (Frieze, Mitzenmacher and Melsted 2009; Zachmann's lectures).
//!
//! Memory and lookups are those of [`SingleLevel`](super::SingleLevel). A key is as likely to be in
//! the last of its slots as in the first, so a lookup of a present key reads `(functions + 1) / 2`
//! slots on average.
use super::input::Pairs;
use super::restarts::{self, Attempt, Outcome, Published};
use super::{Family, Kind, Options, Table, cuckoo};
use koel::{Buffer, Result, Stream, View};
use koel_classic_kernels::random_walk::{Walk, random_walk_insert};

/// Parameters of the insertion.
#[derive(Clone, Debug)]
pub struct RandomWalk {
    /// Number of hash functions, 2 to 5.
    pub functions: u32,
    /// Hash family.
    pub family: Family,
    /// Whether an evicted pair moves to a random one of its other functions instead of the next
    /// one.
    pub random_order: bool,
    /// Whether a new pair starts at a random function instead of the first.
    pub random_start: bool,
}
impl RandomWalk {
    /// Random-walk insertion: both choices are random.
    pub const PUBLISHED: RandomWalk =
        RandomWalk { functions: 4, family: Family::Mixed, random_order: true, random_start: true };
    /// Round-robin insertion starting at a random function.
    pub const RANDOM_START: RandomWalk =
        RandomWalk { random_order: false, ..RandomWalk::PUBLISHED };
    /// As published in 2011: neither choice is random.
    pub(super) const ROUND_ROBIN: RandomWalk =
        RandomWalk { random_order: false, random_start: false, ..RandomWalk::PUBLISHED };
}

impl Kind for RandomWalk {
    fn name(&self) -> &'static str {
        if self.random_order { "random-walk" } else { "random-start" }
    }
    fn about(&self) -> &'static str {
        match self.random_order {
            true => "2009: the single-level table, evicted pairs take a random function",
            false => "the lecture: the single-level table, new pairs begin with a random function",
        }
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
        restarts::build(
            self,
            Published::with_room(self.family, self.functions),
            stream,
            (keys, values),
            options,
            |stream, pairs, load, attempt| self.attempt(stream, pairs, load, attempt, None),
        )
    }
}

impl RandomWalk {
    /// `exchanges` receives the number of exchanges of each pair.
    pub(super) fn attempt(
        &self,
        stream: &Stream,
        pairs: Pairs<'_>,
        load: f64,
        attempt: Attempt,
        exchanges: Option<&mut Buffer<u32>>,
    ) -> Result<Outcome<cuckoo::CuckooTable>> {
        let functions = cuckoo::functions(self.functions, pairs.n, load, attempt)?;
        let walk = Walk {
            max_exchanges: cuckoo::max_exchanges(self.functions, pairs.n, load / attempt.growth),
            random_order: self.random_order.into(),
            random_start: self.random_start.into(),
            record: exchanges.is_some().into(),
        };
        cuckoo::build(stream, pairs, functions, |pairs, table| {
            let grid = pairs.n.div_ceil(random_walk_insert::SPEC.threads);
            let mut nothing = stream.device().alloc::<u32>(0)?;
            let exchanges =
                exchanges.unwrap_or(&mut nothing).view_mut().arg("exchanges", stream)?;
            // SAFETY: `n` keys and values, and `n` exchanges if they are recorded; the functions
            // stay below the number of slots; `status::WORDS` words.
            unsafe { random_walk_insert::launch(stream, grid, pairs, walk, table, exchanges) }
        })
    }
}

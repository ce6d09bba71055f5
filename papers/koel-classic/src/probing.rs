//! Open addressing: linear probing, quadratic probing and double hashing.
//!
//! These are the schemes that the papers compare cuckoo hashing with. There are no locks: a pair
//! takes the first empty slot of its probe sequence by compare-and-swap. The number of slots is the
//! next prime of the form 4k + 3, for which every sequence visits every slot, so that a build never
//! fails.
//!
//! Memory: 8 / load bytes per pair. With linear probing a lookup reads about `(1 + 1 / (1 - load))
//! / 2` slots for a present key and `(1 + 1 / (1 - load)^2) / 2` for an absent one (Knuth 1963),
//! all adjacent; with double hashing about `-ln(1 - load) / load` and `1 / (1 - load)`, at random.
use super::input::{self, Pairs};
use super::restarts::{self, Attempt, Outcome};
use super::{Family, Kind, Options, SchemeReport, Table, find_args};
use crate::fallible::count32;
use koel::{Buffer, Result, Stream, View, ViewMut};
pub use koel_classic_kernels::probing::Sequence;
use koel_classic_kernels::probing::{Probes, ProbingRef, probing_find, probing_insert};
use koel_classic_kernels::status;
use koel_kernels::hash::Functions;

/// Open addressing with one of the probe sequences.
#[derive(Clone, Debug)]
pub struct Probing {
    /// Order in which a key visits the slots.
    pub sequence: Sequence,
    /// Hash family of the first slot and the step. A weak family causes long searches, not wrong
    /// answers.
    pub family: Family,
}
impl Probing {
    /// Adjacent slots.
    pub const LINEAR: Probing = Probing { sequence: Sequence::Linear, family: Family::Mixed };
    /// Squares, added and subtracted alternately.
    pub const QUADRATIC: Probing = Probing { sequence: Sequence::Quadratic, family: Family::Mixed };
    /// Step given by a second function.
    pub const DOUBLE: Probing = Probing { sequence: Sequence::Double, family: Family::Mixed };
}

struct ProbingTable {
    probes: Probes,
    all_ones: u32,
    table: Buffer<u64>,
    report: SchemeReport,
}

impl Kind for Probing {
    fn name(&self) -> &'static str {
        match self.sequence {
            Sequence::Linear => "linear-probing",
            Sequence::Quadratic => "quadratic-probing",
            Sequence::Double => "double-hashing",
        }
    }
    fn about(&self) -> &'static str {
        match self.sequence {
            Sequence::Linear => "the textbook: slots side by side, taken by compare-and-swap",
            Sequence::Quadratic => {
                "the textbook: slots at growing distances, taken by compare-and-swap"
            }
            Sequence::Double => {
                "the textbook: slots at a distance of the key's own, taken by compare-and-swap"
            }
        }
    }
    fn default_load(&self) -> f64 {
        // 1.25 slots per pair, as in the cuckoo tables.
        0.8
    }
    fn max_load(&self) -> f64 {
        0.95
    }
    fn build(
        &self,
        stream: &Stream,
        keys: View<'_, u32>,
        values: View<'_, u32>,
        options: &Options,
    ) -> Result<Box<dyn Table>> {
        restarts::build(
            self,
            self.family,
            stream,
            (keys, values),
            options,
            |stream, pairs, load, attempt| self.attempt(stream, pairs, load, attempt),
        )
    }
}
impl restarts::Restarting for ProbingTable {
    fn complete(&mut self, report: SchemeReport) {
        self.report = SchemeReport { slots: self.table.len(), bytes: self.table.bytes(), ..report };
    }
}

impl Probing {
    /// Makes an attempt. It fails only if there are more pairs than slots.
    fn attempt(
        &self,
        stream: &Stream,
        pairs: Pairs<'_>,
        load: f64,
        attempt: Attempt,
    ) -> Result<Outcome<ProbingTable>> {
        let (device, n) = (stream.device(), pairs.n);
        let slots = input::groups(n, load, n as f64 / load * attempt.growth, 1)?;
        let slots = count32("slots", next_prime(slots as usize))?;
        let functions = Functions::new(attempt.family, 2, slots, attempt.seed);
        let probes = Probes { functions, sequence: self.sequence as u32, limit: slots };
        let mut table = device.alloc::<u64>(slots as usize)?;
        let mut status = device.alloc::<u32>(status::WORDS)?;
        let ((), seconds) = stream.time(|| {
            table.view_mut().fill_bytes(0xFF, stream)?;
            status.view_mut().fill_bytes(0, stream)?;
            let grid = n.div_ceil(probing_insert::SPEC.threads);
            let pairs = pairs.arg(stream)?;
            let (table, status) =
                (table.view_mut().arg("table", stream)?, status.view_mut().arg("status", stream)?);
            // SAFETY: `n` keys and values; `slots` slots, and every probe stays below that number;
            // `status::WORDS` words.
            unsafe { probing_insert::launch(stream, grid, pairs, probes, table, status) }
        })?;
        let status = status.download()?;
        let all_ones = status[status::ALL_ONES as usize];
        let built = ProbingTable { probes, all_ones, table, report: SchemeReport::default() };
        Ok(Outcome { table: (status[status::FAILED as usize] == 0).then_some(built), seconds })
    }
}

/// Returns the least prime of the form 4k + 3 that is not below `n`.
fn next_prime(n: usize) -> usize {
    let is_prime =
        |p: usize| (3..).step_by(2).take_while(|d| d * d <= p).all(|d| !p.is_multiple_of(d));
    (n.saturating_sub(3).div_ceil(4)..).map(|k| 4 * k + 3).find(|&p| is_prime(p)).unwrap_or(n)
}

impl Table for ProbingTable {
    fn report(&self) -> &SchemeReport {
        &self.report
    }
    fn get_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        mut values: ViewMut<'_, u32>,
        mut found: ViewMut<'_, u8>,
    ) -> Result<()> {
        let args = find_args(stream, &queries, &mut values, &mut found)?;
        let grid = args.n.div_ceil(probing_find::SPEC.threads);
        let slots = self.table.view().arg("table", stream)?;
        let table = ProbingRef { probes: self.probes, slots, all_ones: self.all_ones };
        // SAFETY: `n` queries and answers; the table was built with these probes.
        unsafe { probing_find::launch(stream, grid, table, args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_the_next_of_their_form() {
        for (n, prime) in
            [(0, 3), (1, 3), (3, 3), (4, 7), (8, 11), (12, 19), (24, 31), (1_000_000, 1_000_003)]
        {
            assert_eq!(next_prime(n), prime, "{n}");
        }
    }
}

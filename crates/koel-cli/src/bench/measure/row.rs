//! Rows of the results.
use super::super::args::Op;
use super::super::contenders;
use super::super::parameters::Parameter;
use koel::limits::{RandomReads, Rates};
use koel_classic::{Duplicates, SchemeReport};
use koel_measure::Arrangement;

/// A row of the results: what was measured, and how it compares.
#[derive(Clone)]
pub(crate) struct Row {
    pub table: &'static str,
    /// Parameters of the table that were set, and all that it has.
    pub asked: Vec<Parameter>,
    pub parameters: Vec<Parameter>,
    pub op: Op,
    /// Number of pairs.
    pub n: usize,
    /// How keys repeat.
    pub repeats: Arrangement,
    /// How builds treat repeated keys; `None`: the table lists all of them.
    pub policy: Option<Duplicates>,
    /// Lookups per call; `None`: one per pair, in one call.
    pub batch: Option<usize>,
    /// Sequential calls per run.
    pub calls: usize,
    /// The requested load if the table has it, else the actual load.
    pub load: f64,
    /// The requested load.
    pub load_asked: Option<f64>,
    /// Operations per second; `None` if an answer was wrong.
    pub rates: Option<Rates>,
    /// Number of runs that count.
    pub runs: usize,
    /// Whether every answer was right.
    pub verified: bool,
    /// Random reads from as much memory as the table takes, on the table's device.
    pub limit: Option<RandomReads>,
    /// Number of pairs that the table holds, or of keys if it has no values.
    pub held: usize,
    /// How the table was built.
    pub report: SchemeReport,
    /// The device it ran on.
    pub device: String,
}
impl Row {
    pub(crate) fn bytes_per_pair(&self) -> f64 {
        self.report.bytes as f64 / self.held.max(1) as f64
    }
    /// Returns operations per second in the median run; 0 if an answer was wrong.
    pub(crate) fn median(&self) -> f64 {
        self.rates.map_or(0.0, |rates| rates.median)
    }
    /// Returns the table with the parameters that were set.
    pub(crate) fn label(&self) -> String {
        contenders::label(self.table, &self.asked)
    }
    /// Returns random reads per second: the fastest run, which shows what the machine can do.
    pub(crate) fn limit_rate(&self) -> Option<f64> {
        Some(self.limit?.rates.max)
    }
    /// Returns operations per random read.
    pub(crate) fn limit_ratio(&self) -> Option<f64> {
        Some(self.rates?.median / self.limit_rate()?)
    }
    /// Returns whether both rows have the same pairs, policy and batch.
    pub(crate) fn is_beside(&self, other: &Row) -> bool {
        let of = |row: &Row| (row.n, row.repeats, row.policy, row.batch);
        of(self) == of(other)
    }
    /// Returns the rate relative to another table's at the same work; `None` if it has no such row.
    /// If the other table lacks this kind of build, its first build counts: a table that keeps no
    /// memory between builds has only one kind.
    pub(crate) fn times(&self, table: &str, rows: &[Row]) -> Option<f64> {
        let other = || rows.iter().filter(|row| row.table == table && row.is_beside(self));
        let any_build = || other().find(|row| self.op.is_build() && row.op.is_build());
        Some(
            self.rates?.median
                / other().find(|row| row.op == self.op).or_else(any_build)?.rates?.median,
        )
    }
}

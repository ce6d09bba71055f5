//! One line of the result: what was measured, and how it compares.
use super::super::args::Op;
use super::super::repeats::Repeats;
use koel::classic::{BuildReport, Duplicates};
use koel::limits::{RandomReads, Rates};

/// One line of the result.
#[derive(Clone)]
pub struct Row {
    pub table: &'static str,
    pub op: Op,
    /// Pairs.
    pub n: usize,
    /// How often keys occur among them.
    pub repeats: Repeats,
    /// What was done about that.
    pub policy: Duplicates,
    /// Lookups in one call; `None`: one for each pair, in one call.
    pub batch: Option<usize>,
    /// Calls of one run, one after the other.
    pub calls: usize,
    /// The load asked for where the table has it, else the one it has.
    pub load: f64,
    /// The load asked for.
    pub load_asked: Option<f64>,
    /// Operations a second; `None` if an answer was wrong.
    pub rates: Option<Rates>,
    /// Runs that count.
    pub runs: usize,
    /// Every answer was right.
    pub verified: bool,
    /// Random reads from as much memory as the table takes, where the table is.
    pub limit: Option<RandomReads>,
    /// How the table was built.
    pub report: BuildReport,
    /// Where it runs.
    pub device: String,
}
impl Row {
    pub fn bytes_per_pair(&self) -> f64 {
        self.report.bytes as f64 / self.report.pairs.max(1) as f64
    }
    /// Random reads a second: the fastest run, as the machine can do that.
    pub fn limit_rate(&self) -> Option<f64> {
        Some(self.limit?.rates.max)
    }
    /// Operations to one random read.
    pub fn limit_ratio(&self) -> Option<f64> {
        Some(self.rates?.median / self.limit_rate()?)
    }
    /// Whether both are of the same pairs, of operations of the same size.
    pub fn is_beside(&self, other: &Row) -> bool {
        let of = |row: &Row| (row.n, row.repeats, row.policy, row.batch);
        of(self) == of(other)
    }
    /// Its rate over that of another table at the same work; `None` if that has no row. Where the
    /// other table does not have this kind of build, its first one counts: a table that keeps
    /// no memory from build to build has one kind only.
    pub fn times(&self, table: &str, rows: &[Row]) -> Option<f64> {
        let other = || rows.iter().filter(|row| row.table == table && row.is_beside(self));
        let any_build = || other().find(|row| self.op.is_build() && row.op.is_build());
        Some(
            self.rates?.median
                / other().find(|row| row.op == self.op).or_else(any_build)?.rates?.median,
        )
    }
}

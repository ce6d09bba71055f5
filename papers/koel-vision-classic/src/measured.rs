//! Parts of a search, for measurements.
use crate::basis::Point;
use crate::options::PaperOptions;
use crate::search::Bases;
use crate::votes::{Ballot, Counted, Hypothesis};
use koel::Stream;
use std::time::Instant;

/// Votes of a scene, for measurements: the part of a search that precedes verification.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Voting {
    /// Pairs of bases with the most votes, in the order of the scene's bases.
    pub hypotheses: Vec<Hypothesis>,
    /// Number of bases of model and scene: the sides of the matrix.
    pub bases: (usize, usize),
    /// Number of entries in the table.
    pub entries: usize,
    /// Number of lookups.
    pub lookups: usize,
    /// Number of votes.
    pub votes: u64,
    /// Seconds for the table, and for lookups, votes and reduction.
    pub seconds: [f64; 2],
}
/// Lets all bases of a scene vote, without verification. What is timed begins with bases in host
/// memory and ends with hypotheses there.
pub fn vote(
    stream: &Stream,
    model: &[Point],
    scene: &[Point],
    options: &PaperOptions,
) -> koel::Result<Voting> {
    let bases = Bases::choose(model, scene, options);
    let begin = Instant::now();
    let ballot = Ballot::new(stream, model, &bases.model, &bases.cells, options)?;
    stream.synchronize()?;
    let table = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    let Counted { hypotheses, lookups, votes } = ballot.count(scene, &bases.scene, 0)?;
    Ok(Voting {
        hypotheses,
        bases: (bases.model.len(), bases.scene.len()),
        entries: ballot.entries(),
        lookups,
        votes,
        seconds: [table, begin.elapsed().as_secs_f64()],
    })
}

/// Lookups of a scene's cells in a model's table, for measurements.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Lookups {
    /// Number of entries in the table.
    pub entries: usize,
    /// Number of cells that have entries.
    pub cells: usize,
    /// Number of entries of each cell that is looked up.
    pub counts: Vec<u32>,
    /// Seconds for the table.
    pub table_seconds: f64,
    /// Seconds of each run.
    pub seconds: Vec<f64>,
}
/// Looks up the cells of all bases of a scene `runs` times, at least once, without votes. A run
/// begins with cells in the memory of the device and ends with ranges of the table's list there.
///
/// Takes 16 bytes of device memory per lookup.
pub fn look_up(
    stream: &Stream,
    model: &[Point],
    scene: &[Point],
    options: &PaperOptions,
    runs: usize,
) -> koel::Result<Lookups> {
    let bases = Bases::choose(model, scene, options);
    let begin = Instant::now();
    let ballot = Ballot::new(stream, model, &bases.model, &bases.cells, options)?;
    stream.synchronize()?;
    let table_seconds = begin.elapsed().as_secs_f64();
    let (counts, seconds) = ballot.look_up(scene, &bases.scene, runs)?;
    let (entries, cells) = (ballot.entries(), ballot.cells());
    Ok(Lookups { entries, cells, counts, table_seconds, seconds })
}

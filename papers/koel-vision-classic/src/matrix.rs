//! The matrix of votes, and its reduction to the most significant pairs of each row.
use crate::lists::{grid, zeros};
use koel::primitives::exclusive_scan;
use koel::{Buffer, DeviceKind, Stream};
use koel_classic_kernels::matcher::{
    CANDIDATE_WORDS, LEVELS, MatrixIn, MatrixOut, STRIPS, SumsIn, matcher_candidates,
    matcher_cutoffs, matcher_levels, matcher_squares, matcher_sums,
};

/// Votes of scene bases, a row for each, for model bases, a column for each.
pub(crate) struct Matrix {
    votes: Buffer<u32>,
    rows: u32,
    columns: u32,
}
/// What chance gives to each column, and which pairs are candidates.
pub(crate) struct Chance<'a> {
    /// Share of all entries that each model basis has (floats).
    pub shares: &'a Buffer<u32>,
    /// Number of model bases that have entries.
    pub used: f32,
    /// Minimum significance of a candidate, in standard deviations.
    pub threshold: f32,
    /// Maximum number of candidates of a row.
    pub most: usize,
}
/// A model basis with many votes of a scene basis.
pub(crate) struct Candidate {
    pub column: usize,
    pub votes: u32,
    /// Significance, in standard deviations.
    pub above: f32,
}
impl Candidate {
    fn of(words: &[u32]) -> Candidate {
        Candidate { column: words[0] as usize, votes: words[1], above: f32::from_bits(words[2]) }
    }
}

impl Matrix {
    /// Allocates a matrix without votes.
    pub(crate) fn new(stream: &Stream, rows: usize, columns: usize) -> koel::Result<Matrix> {
        let votes = zeros(stream, rows * columns)?;
        Ok(Matrix { votes, rows: rows as u32, columns: columns as u32 })
    }
    /// Returns the matrix as an argument of kernels that vote.
    pub(crate) fn arg_mut(&mut self, stream: &Stream) -> koel::Result<MatrixOut> {
        Ok(MatrixOut {
            votes: self.votes.view_mut().arg("votes", stream)?,
            rows: self.rows,
            columns: self.columns,
            alone: is_alone(stream),
        })
    }
    fn arg(&self, stream: &Stream, chance: &Chance<'_>) -> koel::Result<MatrixIn> {
        Ok(MatrixIn {
            votes: self.votes.view().arg("votes", stream)?,
            rows: self.rows,
            columns: self.columns,
            shares: chance.shares.view().arg("shares", stream)?,
            used: chance.used,
            threshold: chance.threshold,
            alone: is_alone(stream),
        })
    }
    /// Returns the candidates of each row with their row, most significant first.
    pub(crate) fn most_significant(
        &self,
        stream: &Stream,
        chance: &Chance<'_>,
    ) -> koel::Result<Vec<(usize, Candidate)>> {
        let sums = Sums::of(self, stream, chance)?;
        let (words, kept) = self.list(stream, chance, &sums)?;
        let mut rest = words.as_slice();
        let mut found = vec![];
        for (row, &n) in kept.iter().enumerate() {
            let (own, others) = rest.split_at(n as usize * CANDIDATE_WORDS as usize);
            rest = others;
            let own = own.chunks_exact(CANDIDATE_WORDS as usize).map(Candidate::of);
            let mut own = own.collect::<Vec<Candidate>>();
            own.sort_unstable_by(|a, b| b.above.total_cmp(&a.above).then(a.column.cmp(&b.column)));
            own.truncate(chance.most);
            found.extend(own.into_iter().map(|c| (row, c)));
        }
        Ok(found)
    }
    /// Returns the words of the candidates, row by row, and their number in each row: at least the
    /// most significant ones of each row, in any order.
    fn list(
        &self,
        stream: &Stream,
        chance: &Chance<'_>,
        sums: &Sums,
    ) -> koel::Result<(Vec<u32>, Vec<u32>)> {
        let (device, rows) = (stream.device(), self.rows as usize);
        let (matrix, sums) = (self.arg(stream, chance)?, sums.arg(stream)?);
        let grid = grid(self.rows * STRIPS);
        let mut levels = zeros(stream, rows * LEVELS as usize)?;
        let (mut cutoffs, mut kept) = (device.alloc::<u32>(rows)?, device.alloc::<u32>(rows)?);
        // SAFETY: the matrix and its sums are whole; `LEVELS` counts, which are 0, for each row.
        unsafe {
            let levels = levels.view_mut().arg("levels", stream)?;
            matcher_levels::launch(stream, grid, matrix, sums, levels)?;
        }
        // SAFETY: as many cutoffs and numbers as rows.
        unsafe {
            matcher_cutoffs::launch(
                stream,
                self.rows.div_ceil(matcher_cutoffs::SPEC.threads),
                self.rows,
                u32::try_from(chance.most).unwrap_or(u32::MAX),
                levels.view().arg("levels", stream)?,
                cutoffs.view_mut().arg("cutoffs", stream)?,
                kept.view_mut().arg("kept", stream)?,
            )
        }?;
        let mut starts = device.alloc::<u32>(rows)?;
        let total = exclusive_scan(stream, kept.view(), starts.view_mut())?;
        let mut candidates = device.alloc::<u32>((total * CANDIDATE_WORDS) as usize)?;
        let mut cursors = zeros(stream, rows)?;
        // SAFETY: as above; each row has room for the candidates that it counted.
        unsafe {
            matcher_candidates::launch(
                stream,
                grid,
                matrix,
                sums,
                cutoffs.view().arg("cutoffs", stream)?,
                starts.view().arg("starts", stream)?,
                cursors.view_mut().arg("cursors", stream)?,
                candidates.view_mut().arg("candidates", stream)?,
            )
        }?;
        Ok((candidates.download()?, kept.download()?))
    }
}

/// Sums of the strips of each row.
struct Sums {
    votes: Buffer<u64>,
    squares: Buffer<u32>,
}
impl Sums {
    fn of(matrix: &Matrix, stream: &Stream, chance: &Chance<'_>) -> koel::Result<Sums> {
        let strips = matrix.rows * STRIPS;
        let (device, grid) = (stream.device(), grid(strips));
        let mut votes = device.alloc::<u64>(strips as usize)?;
        let mut squares = device.alloc::<u32>(strips as usize)?;
        let matrix = matrix.arg(stream, chance)?;
        // SAFETY: `rows` times `columns` votes and as many shares as columns; `STRIPS` sums for
        // each row.
        unsafe {
            let sums = votes.view_mut().arg("sums", stream)?;
            matcher_sums::launch(stream, grid, matrix, sums)?;
            let sums = votes.view().arg("sums", stream)?;
            let squares = squares.view_mut().arg("squares", stream)?;
            matcher_squares::launch(stream, grid, matrix, sums, squares)?;
        }
        Ok(Sums { votes, squares })
    }
    fn arg(&self, stream: &Stream) -> koel::Result<SumsIn> {
        Ok(SumsIn {
            votes: self.votes.view().arg("sums", stream)?,
            squares: self.squares.view().arg("squares", stream)?,
        })
    }
}

/// Returns whether one thread works on a row.
fn is_alone(stream: &Stream) -> u32 {
    (stream.device().kind() == DeviceKind::Cpu) as u32
}

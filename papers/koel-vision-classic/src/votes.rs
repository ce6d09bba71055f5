//! Votes: the number of scene points, in coordinates of a scene basis, that coincide with model
//! points in coordinates of a model basis.
//!
//! The matrix of votes is counted and reduced on the device. A GPU gives each scene basis a block
//! of threads, which share its points and the entries of their cells; a CPU gives it one thread, as
//! the paper does.
use crate::basis::{Point, PointBasis};
use crate::cells::{Cells, DeviceCells};
use crate::lists::{DeviceBases, DeviceKeys, Lists, Numbers};
use crate::matrix::{Candidate, Chance, Matrix};
use crate::options::PaperOptions;
use koel::primitives::sum;
use koel::{Buffer, Stream};
use koel_classic_kernels::matcher::{
    ListsIn, VOTE, matcher_vote, matcher_vote_hashed, matcher_vote_searched,
};
use std::time::Instant;

/// Pair of bases.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hypothesis {
    /// Index of the model's basis.
    pub model: usize,
    /// Index of the scene's basis.
    pub scene: usize,
    /// Sum of the votes' weights.
    pub votes: f32,
    /// Number of standard deviations above chance for this scene basis.
    pub above: f32,
}

/// Votes of scene bases.
#[derive(Default)]
pub(crate) struct Counted {
    /// Pairs of bases with the most votes.
    pub hypotheses: Vec<Hypothesis>,
    /// Number of lookups.
    pub lookups: usize,
    /// Number of votes.
    pub votes: u64,
}

/// Maximum number of votes of a matrix, and of keys that are looked up at once.
const MATRIX: usize = 1 << 24;
/// Number of divisors of votes for cells with 0, 1, ... entries.
const DENSITIES: usize = 1 << 12;

/// Votes for a model's bases, and memory for counting them.
pub(crate) struct Ballot<'a> {
    stream: &'a Stream,
    options: &'a PaperOptions,
    cells: DeviceCells,
    lists: Lists,
    /// Share of all entries that each model basis has (floats).
    shares: Buffer<u32>,
    /// Number of model bases that have entries.
    used: f32,
    /// Divisors of votes by the number of entries of their cell (floats).
    density: Buffer<u32>,
}
impl<'a> Ballot<'a> {
    /// Enters a model.
    pub(crate) fn new(
        stream: &'a Stream,
        points: &[Point],
        bases: &[PointBasis],
        cells: &Cells,
        options: &'a PaperOptions,
    ) -> koel::Result<Ballot<'a>> {
        let cells = cells.upload(stream.device())?;
        let lists = Lists::build(stream, points, bases, &cells, options)?;
        let words = lists.shares.iter().map(|s| s.to_bits()).collect::<Vec<u32>>();
        let used = lists.shares.iter().filter(|s| **s > 0.0).count().max(1) as f32;
        let density = match options.weights.by_density {
            true => (0..DENSITIES).map(|n| (1.0 + n as f32).ln_1p().to_bits()).collect(),
            false => vec![],
        };
        let device = stream.device();
        let (shares, density) = (device.upload(&words)?, device.upload(&density)?);
        Ok(Ballot { stream, options, cells, lists, shares, used, density })
    }
    /// Returns the number of the model's entries.
    pub(crate) fn entries(&self) -> usize {
        self.lists.entries
    }
    /// Returns the number of cells that have entries.
    pub(crate) fn cells(&self) -> usize {
        self.lists.table.report().pairs
    }

    /// Returns the pairs of bases with the most votes, in the order of the scene's bases. `first`
    /// is the number of the first of these bases.
    ///
    /// Each scene basis has a row of the matrix of votes, each model basis a column. Of each row,
    /// the most significant candidates remain, at most as many as the options say: the votes of a
    /// model basis are compared with those that its number of entries attracts by chance. With the
    /// options' `threshold`, a pair must also have more votes than chance is expected to give to
    /// any of all pairs (normal tail).
    ///
    /// Runs on the device, for as many bases at a time as fit into a matrix of 64 MiB: 9 launches
    /// and those of the table's lookup. Reads back 4 bytes per basis and 12 per candidate.
    pub(crate) fn count(
        &self,
        scene: &[Point],
        bases: &[PointBasis],
        first: usize,
    ) -> koel::Result<Counted> {
        let fan = if self.options.neighbour_votes { 9 } else { 1 };
        let columns = self.lists.shares.len();
        let rows = MATRIX / columns.max(scene.len() * fan).max(1);
        let pairs = (bases.len() * columns).max(2) as f32;
        let threshold = if self.options.threshold { (2.0 * pairs.ln()).sqrt() } else { 0.0 };
        let mut all = Counted::default();
        for (batch, bases) in bases.chunks(rows.max(1)).enumerate() {
            self.batch(scene, bases, first + batch * rows.max(1), threshold, &mut all)?;
        }
        Ok(all)
    }

    fn batch(
        &self,
        scene: &[Point],
        bases: &[PointBasis],
        first: usize,
        threshold: f32,
        all: &mut Counted,
    ) -> koel::Result<()> {
        let (rows, columns) = (bases.len(), self.lists.shares.len());
        if scene.is_empty() || columns == 0 {
            return Ok(());
        }
        let (stream, options) = (self.stream, self.options);
        let keys = self.keys(scene, bases)?;
        let (matrix, cast) = self.cast(&keys, rows)?;
        let kept = matrix.most_significant(
            stream,
            &Chance { shares: &self.shares, used: self.used, threshold, most: options.candidates },
        )?;
        let hypothesis = |(row, c): (usize, Candidate)| Hypothesis {
            model: c.column,
            scene: first + row,
            votes: c.votes as f32 / VOTE,
            above: c.above,
        };
        all.hypotheses.extend(kept.into_iter().map(hypothesis));
        all.lookups += keys.keys.len();
        all.votes += cast;
        Ok(())
    }

    /// Returns the keys that scene bases look up.
    fn keys(&self, scene: &[Point], bases: &[PointBasis]) -> koel::Result<DeviceKeys> {
        let (device, options) = (self.stream.device(), self.options);
        DeviceBases::upload(device, scene, bases, options)?.keys(
            self.stream,
            &self.cells,
            options.neighbour_votes,
            options.weights.by_distance,
        )
    }
    /// Looks up the keys of scene bases `runs` times, at least once, without votes: returns the
    /// number of entries of each, and the seconds of each run.
    pub(crate) fn look_up(
        &self,
        scene: &[Point],
        bases: &[PointBasis],
        runs: usize,
    ) -> koel::Result<(Vec<u32>, Vec<f64>)> {
        let (stream, device, keys) = (self.stream, self.stream.device(), self.keys(scene, bases)?);
        let n = keys.keys.len();
        let (mut starts, mut counts) = (device.alloc::<u32>(n)?, device.alloc::<u32>(n)?);
        let mut seconds = vec![];
        for _ in 0..runs.max(1) {
            stream.synchronize()?;
            let begin = Instant::now();
            let (starts, counts) = (starts.view_mut(), counts.view_mut());
            self.lists.table.get_into(stream, keys.keys.view(), starts, counts)?;
            stream.synchronize()?;
            seconds.push(begin.elapsed().as_secs_f64());
        }
        Ok((counts.download()?, seconds))
    }
    /// Looks the keys up and counts the votes: returns the matrix, row by row, and their number.
    fn cast(&self, keys: &DeviceKeys, rows: usize) -> koel::Result<(Matrix, u64)> {
        let (stream, device, n) = (self.stream, self.stream.device(), keys.keys.len());
        let (mut starts, mut counts) = (device.alloc::<u32>(n)?, device.alloc::<u32>(n)?);
        self.lists.table.get_into(
            stream,
            keys.keys.view(),
            starts.view_mut(),
            counts.view_mut(),
        )?;
        let mut matrix = Matrix::new(stream, rows, self.lists.shares.len())?;
        let lists = ListsIn {
            starts: starts.view().arg("starts", stream)?,
            counts: counts.view().arg("counts", stream)?,
            weights: keys.weights.view().arg("weights", stream)?,
            density: self.density.view().arg("density", stream)?,
            density_len: self.density.len() as u32,
            entries: self.lists.names().arg("entries", stream)?,
            per_basis: keys.per_basis,
            fan: keys.fan,
        };
        let votes = matrix.arg_mut(stream)?;
        let grid = rows as u32;
        // SAFETY: the table's ranges are within its list; `per_basis` ranges for each row, a weight
        // for each `fan` of them; `rows` times `columns` votes; a sorted index has `columns` names.
        unsafe {
            match &self.lists.numbers {
                None => matcher_vote::launch(stream, grid, lists, votes),
                Some(Numbers::Hashed(map)) => {
                    matcher_vote_hashed::launch(stream, grid, lists, votes, map.table(stream)?)
                }
                Some(Numbers::Sorted(names, numbers)) => matcher_vote_searched::launch(
                    stream,
                    grid,
                    lists,
                    votes,
                    names.view().arg("names", stream)?,
                    numbers.view().arg("numbers", stream)?,
                ),
            }
        }?;
        Ok((matrix, sum(stream, counts.view())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::BasisRules;
    use crate::options::{Lookup, Partition, Weights};
    use crate::search::{Bases, entries};
    use koel::Device;
    use koel_vision::Freedom;
    use koel_vision::synthetic::Random;

    fn points(n: usize, random: &mut Random) -> Vec<Point> {
        (0..n).map(|_| (random.between(0.0, 200.0), random.between(0.0, 200.0))).collect()
    }
    /// Options with different lookups, partitions, remedies and limits.
    fn variants() -> Vec<PaperOptions> {
        let rules = BasisRules { chance: 1.0, lengths: (20.0, 150.0), thinnest: 0.3 };
        let plain = PaperOptions { rules, bases: (40, 33), candidates: 5, ..Default::default() };
        let lookup =
            |lookup, two_way_index| PaperOptions { lookup, two_way_index, ..plain.clone() };
        let parted = |partition| PaperOptions { partition, cell: 0.3, ..plain.clone() };
        let weights = Weights { by_length: true, by_distance: true, by_density: true };
        vec![
            plain.clone(),
            lookup(Lookup::TwoLevel, false),
            lookup(Lookup::BinarySearch, false),
            lookup(Lookup::KdTree, false),
            lookup(Lookup::BruteForce, false),
            lookup(Lookup::KdTree, true),
            lookup(Lookup::Hash, true),
            lookup(Lookup::BinarySearch, true),
            parted(Partition::Transfer),
            parted(Partition::Elastic),
            PaperOptions { neighbour_entries: true, ..plain.clone() },
            PaperOptions { neighbour_votes: true, ..plain.clone() },
            PaperOptions { weights, ..plain.clone() },
            PaperOptions { threshold: true, candidates: 1000, ..plain.clone() },
            PaperOptions { candidates: usize::MAX, ..plain.clone() },
            PaperOptions { freedom: Freedom::Affine, two_way_index: true, ..plain.clone() },
            // All points vote for all, so every pair of a row is as significant as the others.
            PaperOptions { cell: 1e6, ..plain },
        ]
    }
    /// Counts votes one after the other.
    fn naive(
        bases: &Bases,
        model: &[Point],
        scene: &[Point],
        options: &PaperOptions,
    ) -> Vec<Vec<u32>> {
        let entries = entries(model, &bases.model, &bases.cells, options);
        let of_key = |key: u32| entries.iter().filter(move |e| e.0 == key).map(|e| e.1 as usize);
        let row = |basis: &PointBasis| {
            let mut row = vec![0; bases.model.len()];
            for at in basis.coordinates(scene, options.freedom, options.reach) {
                let keys = match options.neighbour_votes {
                    true => bases.cells.around(at).collect::<Vec<u32>>(),
                    false => bases.cells.key(at).into_iter().collect(),
                };
                let mut weight = 1.0;
                if options.weights.by_length {
                    weight *= (basis.length(scene) / 100.0).min(2.0);
                }
                if options.weights.by_distance {
                    weight /= 1.0 + (at.0 * at.0 + at.1 * at.1).sqrt();
                }
                for key in keys {
                    let mut weight = weight;
                    if options.weights.by_density {
                        weight /= (1.0 + of_key(key).count() as f32).ln_1p();
                    }
                    of_key(key).for_each(|b| row[b] += (weight * VOTE + 0.5) as u32);
                }
            }
            row
        };
        bases.scene.iter().map(row).collect()
    }

    #[test]
    fn kernels_count_what_a_loop_counts() {
        for (seed, options) in (1..).zip(variants()) {
            let mut random = Random::new(seed);
            let (model, scene) = (points(13, &mut random), points(11, &mut random));
            let bases = Bases::choose(&model, &scene, &options);
            let expected = naive(&bases, &model, &scene, &options);
            let mut rows = vec![];
            for device in [Device::cpu().unwrap(), Device::executor(seed)]
                .into_iter()
                .chain(Device::cuda(0).ok())
            {
                let stream = device.stream().unwrap();
                let ballot =
                    Ballot::new(&stream, &model, &bases.model, &bases.cells, &options).unwrap();
                let counted = ballot.count(&scene, &bases.scene, 0).unwrap();
                let (found, lookups) = (counted.hypotheses, counted.lookups);
                assert_eq!(
                    lookups,
                    bases.scene.len() * scene.len() * if options.neighbour_votes { 9 } else { 1 }
                );
                for h in &found {
                    assert_eq!(
                        (h.votes * VOTE) as u32,
                        expected[h.scene][h.model],
                        "{options:?}, {h:?}"
                    );
                }
                for (row, votes) in expected.iter().enumerate() {
                    let own = found.iter().filter(|h| h.scene == row);
                    let least = own.clone().map(|h| h.above).fold(f32::MAX, f32::min);
                    assert!(own.clone().is_sorted_by(|a, b| a.above >= b.above));
                    assert!(own.clone().count() <= options.candidates);
                    // Without limits, every pair with more votes than by chance is a candidate.
                    let all = votes.iter().sum::<u32>() as f32;
                    let above =
                        |b: &usize| votes[*b] as f32 > all * ballot.lists.shares[*b] * 1.001;
                    let expected = (0..votes.len()).filter(above).count();
                    if options.candidates == usize::MAX {
                        assert!(own.count() >= expected, "row {row}, least {least}");
                    }
                }
                rows.push(found);
            }
            assert!(rows.iter().all(|row| *row == rows[0]), "seed {seed}: devices differ");
            assert!(!rows[0].is_empty(), "{options:?}");
        }
    }
}

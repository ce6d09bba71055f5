//! Joint table of many models: a pair of scene points looks up the bases of all of them at once.
use crate::bases::{BINS, Bases, Basis, Pass};
use crate::model::Model;
use crate::random::Random;
use crate::refine::{Frame, PointLists, Points, Strips};
use koel::{Buffer, Device, Error};
use koel_vision_kernels::vote::TESTS;

/// Number of model points in the coarse refinement.
const COARSE_POINTS: usize = 100;
/// Maximum number of entries of a model, whose indices have 24 bits.
const MAX_ENTRIES: usize = 1 << 24;
/// Inverse of the fraction of newer models, or of dead entries, above which the parts are merged
/// and dead entries dropped.
const MERGE: usize = 4;

/// Model with its precomputed data, which depends only on the model, the passes and the seed.
pub(crate) struct Prepared {
    /// Model itself.
    pub model: Model,
    /// Bases for each pass so far.
    pub bases: Vec<Bases>,
    /// Random numbers for those of the next passes.
    random: Random,
    frame: Frame,
    /// Indices of the points of the coarse refinement.
    coarse: Vec<usize>,
}
impl Prepared {
    fn new(model: &Model, seed: u64) -> Prepared {
        let mut random = Random::new(seed);
        let mut coarse = (0..model.points.len()).collect::<Vec<usize>>();
        random.shuffle(&mut coarse);
        coarse.truncate(COARSE_POINTS);
        Prepared { model: model.clone(), bases: vec![], random, frame: Frame::of(model), coarse }
    }
    /// Generates the bases of all of `passes` that have none yet.
    fn extend(&mut self, passes: &[Pass]) -> koel::Result<()> {
        while let Some(pass) = passes.get(self.bases.len()) {
            let bases = Bases::of(&self.model, pass, &mut self.random);
            let (n, max) = (bases.table.values().len(), MAX_ENTRIES);
            if n > max {
                return Err(Error::TooMany { what: "entries of a model in one pass", n, max });
            }
            self.bases.push(bases);
        }
        Ok(())
    }
    fn entries(&self) -> usize {
        self.bases.iter().map(|b| b.table.values().len()).sum()
    }
}

/// Entries of some models for one pass, on a device, sorted by key, then by model.
pub(crate) struct PassTable {
    /// Start of each key's entries, followed by the end of the last.
    pub starts: Buffer<u32>,
    /// Entries of 8 words: see [`koel_vision_kernels::vote::BasesIn::entries`].
    pub entries: Buffer<u32>,
    /// Voting points of each model's tilts: 12 words for every four.
    pub tests: Buffer<u32>,
    /// Shortest and longest basis, in pixels.
    pub lengths: (f32, f32),
}
impl PassTable {
    fn build(
        device: &Device,
        pass: usize,
        models: &[(usize, &Prepared)],
    ) -> koel::Result<PassTable> {
        let (mut starts, mut entries, mut tests) = (vec![0], vec![], vec![]);
        let mut first_tests = vec![];
        let (mut shortest, mut longest) = (f32::MAX, 0.0f32);
        for (_, prepared) in models {
            let bases = &prepared.bases[pass];
            first_tests.push((tests.len() / 12) as u32);
            tests.extend(bases.tests.iter().flat_map(|of| of.chunks_exact(4).flat_map(fours)));
            (shortest, longest) = (shortest.min(bases.lengths.0), longest.max(bases.lengths.1));
        }
        for key in 0..(BINS * BINS) as usize {
            for (&(slot, prepared), first) in models.iter().zip(&first_tests) {
                let table = &prepared.bases[pass].table;
                let run = table.starts()[key]..table.starts()[key + 1];
                entries.extend(
                    run.flat_map(|n| words(&table.values()[n as usize], *first, slot as u32, n)),
                );
            }
            starts.push((entries.len() / 8) as u32);
        }
        let (starts, entries, tests) =
            (device.upload(&starts)?, device.upload(&entries)?, device.upload(&tests)?);
        Ok(PassTable { starts, entries, tests, lengths: (shortest, longest) })
    }
}
/// Encodes an entry; `tests` is the first group of voting points of its model.
fn words(basis: &Basis, tests: u32, model: u32, number: u32) -> [u32; 8] {
    let length2 = basis.vector.0 * basis.vector.0 + basis.vector.1 * basis.vector.1;
    let inverse = (basis.vector.0 / length2, basis.vector.1 / length2);
    let [bx, by, ox, oy] = [inverse.0, inverse.1, basis.origin.0, basis.origin.1].map(f32::to_bits);
    [bx, by, ox, oy, basis.direction, tests + TESTS / 4 * basis.tests as u32, model, number]
}
/// Encodes four voting points: their x, their y, their directions.
fn fours(of: &[(f32, f32, u32)]) -> [u32; 12] {
    std::array::from_fn(|k| match (k / 4, of[k % 4]) {
        (0, (x, _, _)) => x.to_bits(),
        (1, (_, y, _)) => y.to_bits(),
        (_, (_, _, direction)) => direction,
    })
}

/// Part of the models, given by their slot numbers.
pub(crate) struct Part {
    slots: Vec<usize>,
    /// Entries for each pass.
    pub passes: Vec<PassTable>,
}
impl Part {
    /// Builds the entries of `models` for the passes before `ready` that have none yet.
    fn extend(
        &mut self,
        device: &Device,
        ready: usize,
        models: &[(usize, &Prepared)],
    ) -> koel::Result<()> {
        for pass in self.passes.len()..ready {
            self.passes.push(PassTable::build(device, pass, models)?);
        }
        Ok(())
    }
}

/// Points of all models on the device, by slot.
pub(crate) struct AllPoints {
    /// A few points, for many candidates.
    pub few: Points,
    /// All voting points.
    pub all: Points,
    /// All voting points, with weights.
    pub weighted: Points,
    /// Contours.
    pub contour: Points,
}

/// Many models in one multi-value table: keys are the invariants of a pair of points, values are
/// (model, basis).
///
/// New models go to a second, small table, and removal sets a mark: entries of other models are not
/// touched. The tables are merged, without the marked models, when the second one has more than a
/// quarter as many models as the first, or when more than a quarter of all models are marked. A
/// merge copies entries; none is recomputed. The search result for a model is the same as if it
/// were alone.
pub struct JointTable {
    device: Device,
    passes: Vec<Pass>,
    /// Number of the passes that the tables are built for so far.
    ready: usize,
    seed: u64,
    /// Models by number; `None`: free, or marked as removed.
    slots: Vec<Option<Prepared>>,
    /// Numbers that no part uses.
    free: Vec<usize>,
    parts: Vec<Part>,
    points: AllPoints,
}

impl JointTable {
    /// Creates an empty table; the seed determines all random choices.
    pub(crate) fn new(device: &Device, passes: &[Pass], seed: u64) -> koel::Result<JointTable> {
        Ok(JointTable {
            device: device.clone(),
            passes: passes.to_vec(),
            ready: passes.len(),
            seed,
            slots: vec![],
            free: vec![],
            parts: vec![],
            points: all_points(device, &[])?,
        })
    }
    /// Creates a table of one model, built for the first `ready` passes only: a model that they
    /// find needs no others. [`make_ready`](Self::make_ready) must precede further ones.
    pub(crate) fn of_one(
        device: &Device,
        model: &Model,
        (passes, ready): (&[Pass], usize),
        seed: u64,
    ) -> koel::Result<JointTable> {
        let mut table = JointTable { ready, ..JointTable::new(device, passes, seed)? };
        table.add([model])?;
        Ok(table)
    }
    /// Builds the tables for the first `ready` passes, as far as they are not built.
    pub(crate) fn make_ready(&mut self, ready: usize) -> koel::Result<()> {
        if ready <= self.ready {
            return Ok(());
        }
        for prepared in self.slots.iter_mut().flatten() {
            prepared.extend(&self.passes[..ready])?;
        }
        for part in &mut self.parts {
            let named = |&n: &usize| Some((n, self.slots[n].as_ref()?));
            let models = part.slots.iter().filter_map(named).collect::<Vec<_>>();
            part.extend(&self.device, ready, &models)?;
        }
        self.ready = ready;
        Ok(())
    }
    /// Adds models and returns their numbers, which are stable until removal.
    ///
    /// Takes time for the bases of the new models, and for a copy of the entries in the second
    /// table and of all models' points. Fails when out of memory or when there are more bases than
    /// numbers; the table is then unchanged.
    pub fn add<'m>(
        &mut self,
        models: impl IntoIterator<Item = &'m Model>,
    ) -> koel::Result<Vec<usize>> {
        let prepare = |model| {
            let mut prepared = Prepared::new(model, self.seed);
            prepared.extend(&self.passes[..self.ready])?;
            Ok(prepared)
        };
        let prepared = models.into_iter().map(prepare).collect::<koel::Result<Vec<Prepared>>>()?;
        let (before, free) = (self.slots.len(), self.free.clone());
        let mut numbers = vec![];
        for one in prepared {
            let number = self.free.pop().unwrap_or(self.slots.len());
            self.slots.resize_with(self.slots.len().max(number + 1), || None);
            self.slots[number] = Some(one);
            numbers.push(number);
        }
        let changed = self.with(&numbers);
        if changed.is_err() {
            numbers.iter().for_each(|&n| self.slots[n] = None);
            self.slots.truncate(before);
            self.free = free;
        }
        changed.map(|()| numbers)
    }
    /// Updates the parts and dependent data from the slots, of which `new` are in no part yet.
    fn with(&mut self, new: &[usize]) -> koel::Result<()> {
        let base = self.parts.first().map_or(0, |p| p.slots.len());
        let delta = self
            .parts
            .get(1)
            .map_or(&[][..], |p| &p.slots)
            .iter()
            .chain(new)
            .copied()
            .collect::<Vec<usize>>();
        let named = base + delta.len();
        let living = self.slots.iter().flatten().count();
        let merge = delta.len() * MERGE > base || (named - living) * MERGE > named;
        let points = all_points(&self.device, &self.slots)?;
        if merge {
            let all =
                (0..self.slots.len()).filter(|&n| self.slots[n].is_some()).collect::<Vec<usize>>();
            let part = self.part(all)?;
            self.parts = vec![part];
            self.free = (0..self.slots.len()).rev().filter(|&n| self.slots[n].is_none()).collect();
        } else if !new.is_empty() {
            let part = self.part(delta)?;
            self.parts.truncate(1);
            self.parts.push(part);
        }
        self.points = points;
        Ok(())
    }
    fn part(&self, mut slots: Vec<usize>) -> koel::Result<Part> {
        slots.retain(|&n| self.slots[n].is_some());
        let models =
            slots.iter().filter_map(|&n| Some((n, self.slots[n].as_ref()?))).collect::<Vec<_>>();
        let mut part = Part { slots: vec![], passes: vec![] };
        part.extend(&self.device, self.ready, &models)?;
        Ok(Part { slots, ..part })
    }
    /// Removes a model by its number and returns whether it existed. The number is reused only
    /// after the tables have been merged. Takes a copy of all models' points, and of all entries if
    /// the tables are merged; on failure the table is unchanged.
    pub fn remove(&mut self, number: usize) -> koel::Result<bool> {
        let Some(removed) = self.slots.get_mut(number).and_then(Option::take) else {
            return Ok(false);
        };
        let changed = self.with(&[]);
        if changed.is_err() {
            self.slots[number] = Some(removed);
        }
        changed.map(|()| true)
    }
    /// Returns the models with their numbers, in ascending order.
    pub fn models(&self) -> impl Iterator<Item = (usize, &Model)> {
        self.slots.iter().enumerate().filter_map(|(n, slot)| Some((n, &slot.as_ref()?.model)))
    }
    /// Returns the number of entries, including dead ones, of each part of the table: the main
    /// part, then the newer models.
    pub fn entries(&self) -> Vec<usize> {
        let of_part = |p: &Part| p.passes.iter().map(|t| t.entries.len() / 8).sum();
        self.parts.iter().map(of_part).collect()
    }
    /// Returns the number of entries of the models in the table.
    pub fn living_entries(&self) -> usize {
        self.slots.iter().flatten().map(Prepared::entries).sum()
    }
    pub(crate) fn passes(&self) -> &[Pass] {
        &self.passes
    }
    pub(crate) fn slots(&self) -> &[Option<Prepared>] {
        &self.slots
    }
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }
    pub(crate) fn points(&self) -> &AllPoints {
        &self.points
    }
}

fn all_points(device: &Device, slots: &[Option<Prepared>]) -> koel::Result<AllPoints> {
    let mut lists = [(); 4].map(|()| PointLists::default());
    for slot in slots {
        let Some(Prepared { model, frame, coarse, .. }) = slot else {
            lists.iter_mut().for_each(|list| list.push(Frame::NONE, [].iter(), None));
            continue;
        };
        let [few, all, weighted, contour] = &mut lists;
        few.push(*frame, coarse.iter().map(|&i| &model.points[i]), None);
        all.push(*frame, model.points.iter(), None);
        weighted.push(*frame, model.points.iter(), Some(&model.weights));
        contour.push(*frame, model.contour.iter(), None);
    }
    let [few, all, weighted, contour] = lists;
    Ok(AllPoints {
        few: few.upload(device, Strips::FEW)?,
        all: all.upload(device, Strips::SOME)?,
        weighted: weighted.upload(device, Strips::SOME)?,
        contour: contour.upload(device, Strips::MANY)?,
    })
}

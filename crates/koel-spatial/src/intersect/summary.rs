//! What a frame found, in numbers.

use super::{Boolean, IntersectError, Intersector, Label, Side, Way};
use koel_kernels::spatial::labels::MEASURE_BITS;
use koel_kernels::spatial::state;

/// How many voxels or points have each label.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LabelCounts {
    /// Not certain.
    pub unknown: u64,
    /// In voxels that both clouds occupy.
    pub intersection: u64,
    /// Inside the other solid.
    pub inside: u64,
    /// Outside it.
    pub outside: u64,
}
impl LabelCounts {
    /// Of so many labels.
    pub fn of(labels: impl IntoIterator<Item = Label>) -> LabelCounts {
        let mut counts = [0; 4];
        labels.into_iter().for_each(|l| counts[l as usize] += 1);
        let [unknown, intersection, inside, outside] = counts;
        LabelCounts { unknown, intersection, inside, outside }
    }
    /// All of them.
    pub fn total(&self) -> u64 {
        self.unknown + self.intersection + self.inside + self.outside
    }
}

/// What is known of one cloud after a frame.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Surface {
    /// Points given.
    pub points: usize,
    /// Of these, outside the grid or not finite.
    pub dropped: usize,
    /// Voxels by label.
    pub voxels: LabelCounts,
    /// Areas and volume; none by the paper's method.
    pub measures: Option<Measures>,
}
/// Areas in square units of the points, volumes in cubic ones.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measures {
    /// |sum of area x normal| / area: 0 for a closed surface.
    pub closedness: f64,
    /// It bounds no solid: [closedness](Self::closedness) is above 0.08, and nobody said that it is closed.
    pub open: bool,
    /// The winding number on the surface itself: 1/2 for a perfect one.
    pub iso: f64,
    /// Of the surface: unknown, intersection, inside, outside.
    pub areas: [f64; 4],
    /// Of the solid; none if it is open.
    pub volume: Option<f64>,
}
impl Measures {
    /// Of the whole surface.
    pub fn area(&self) -> f64 {
        self.areas.iter().sum()
    }
    /// The share of the area inside the other solid. Of what is in voxels of both, half.
    pub fn share_inside(&self) -> f64 {
        let [_, intersection, inside, outside] = self.areas;
        (inside + 0.5 * intersection) / (inside + intersection + outside)
    }
}

/// What a frame found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// The first cloud.
    pub a: Surface,
    /// The second.
    pub b: Surface,
    /// Volumes of [`Boolean::ALL`], in their order; none by the paper's method, or if a surface is open.
    pub volumes: Option<[f64; 4]>,
}
impl Summary {
    /// One of the two.
    pub fn side(&self, side: Side) -> &Surface {
        match side {
            Side::A => &self.a,
            Side::B => &self.b,
        }
    }
}

impl Intersector {
    /// Counts, areas and volumes of the last frame. Waits for it.
    ///
    /// Volumes follow from the labels by Gauss' theorem: each piece of surface adds a third of position x normal x area to the solid
    /// that it bounds, half of that where both clouds share the voxel or the label is unknown. What the normals lack (noise,
    /// flipped ones) is made up for by the winding number on the surface, which lacks the same share.
    ///
    /// # Errors
    /// A device that fails.
    pub fn summary(&mut self) -> Result<Summary, IntersectError> {
        let state = self.state.download()?;
        let measures = match &mut self.way {
            Way::Robust(robust) => {
                Some(robust.measure(&self.stream, &self.index, &self.sums, &self.labels, &self.state)?)
            }
            Way::Paper(_) => None,
        };
        let float = |word: u32| f64::from(f32::from_bits(state[word as usize]));
        let h = self.grid.voxel_size();
        // By cloud and label.
        let quantity = |words: &[u64], side: Side, label: usize, which: usize| {
            words[side.index() * 16 + label * 4 + which] as i64 as f64 / f64::from(1u32 << MEASURE_BITS)
        };
        let mut fluxes = [[0.0; 4]; 2];
        let mut surface = |side: Side| -> Result<Surface, IntersectError> {
            let c = side.index() as u32;
            let padding = self.points.padded_of(side) - self.points.given(side);
            let measures = measures.as_deref().map(|words| {
                let (iso, open) = (float(state::ISO + c), state[(state::OPEN + c) as usize] != 0);
                let scale = if iso > 0.1 { 0.5 / iso } else { 1.0 } * h * h * h;
                let flux: [f64; 4] = std::array::from_fn(|l| quantity(words, side, l, 3) * scale);
                fluxes[side.index()] = flux;
                Measures {
                    closedness: float(state::CLOSEDNESS + c),
                    open,
                    iso,
                    areas: std::array::from_fn(|l| quantity(words, side, l, 2) * h * h),
                    volume: (!open).then(|| flux.iter().sum()),
                }
            });
            Ok(Surface {
                points: self.points.given(side),
                dropped: state[(state::DROPPED + c) as usize] as usize - padding,
                voxels: LabelCounts::of(self.voxels(side)?.into_iter().map(|v| v.label)),
                measures,
            })
        };
        let (a, b) = (surface(Side::A)?, surface(Side::B)?);
        let closed = |s: &Surface| s.measures.is_some_and(|m| !m.open);
        let volumes = (closed(&a) && closed(&b)).then(|| {
            let [of_a, of_b] = fluxes.map(|[unknown, intersection, inside, outside]| {
                let both = 0.5 * (unknown + intersection);
                (inside + both, outside + both)
            });
            Boolean::ALL.map(|op| match op {
                Boolean::Union => of_a.1 + of_b.1,
                Boolean::Intersection => of_a.0 + of_b.0,
                Boolean::Difference => of_a.1 - of_b.0,
                Boolean::ReverseDifference => of_b.1 - of_a.0,
            })
        });
        Ok(Summary { a, b, volumes })
    }
}

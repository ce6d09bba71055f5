//! Numerical results of a frame.

use super::{IntersectError, Intersector, Label, Side, Way};
use koel_spatial_kernels::intersect::labels::MEASURE_BITS;
use koel_spatial_kernels::intersect::state;

/// Winding number that surfaces without noise have on themselves: spheres, tori and plates gave
/// 0.463 to 0.474.
const ISO_OF_CLEAN_SCANS: f64 = 0.472;

/// Number of voxels or points with each label.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LabelCounts {
    /// Not certain.
    pub unknown: u64,
    /// In voxels that both clouds occupy.
    pub intersection: u64,
    /// Inside the other solid.
    pub inside: u64,
    /// Outside the other solid.
    pub outside: u64,
}
impl LabelCounts {
    /// Counts labels.
    pub fn of(labels: impl IntoIterator<Item = Label>) -> LabelCounts {
        let mut counts = [0; 4];
        labels.into_iter().for_each(|l| counts[l as usize] += 1);
        let [unknown, intersection, inside, outside] = counts;
        LabelCounts { unknown, intersection, inside, outside }
    }
    /// Returns the sum of all counts.
    pub fn total(&self) -> u64 {
        self.unknown + self.intersection + self.inside + self.outside
    }
}

/// Results for one cloud after a frame.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Surface {
    /// Number of points given.
    pub points: usize,
    /// Number of those outside the grid or not finite.
    pub dropped: usize,
    /// Voxels by label.
    pub voxels: LabelCounts,
    /// Areas and closedness; `None` with the paper's method.
    pub measures: Option<Measures>,
}
/// Measures of a surface from the robust method.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Measures {
    /// |sum of area x normal| / area: 0 for a closed surface.
    pub closedness: f64,
    /// Whether the surface bounds no solid: [closedness](Self::closedness) is above 0.08, and the
    /// surface was not declared closed.
    pub open: bool,
    /// Winding number on the surface itself: 1/2 for a perfect one.
    pub iso: f64,
    /// Areas of the labels unknown, intersection, inside and outside, in square units of the
    /// points. Shares are more accurate than sums: noise makes a surface thick, and the winding
    /// number on the surface corrects for the extra area only on average.
    pub areas: [f64; 4],
}
impl Measures {
    /// Returns the area of the whole surface.
    pub fn area(&self) -> f64 {
        self.areas.iter().sum()
    }
    /// Returns the share of the area inside the other solid. Voxels of both clouds count half.
    pub fn share_inside(&self) -> f64 {
        let [_, intersection, inside, outside] = self.areas;
        (inside + 0.5 * intersection) / (inside + intersection + outside)
    }
}

/// Results of a frame.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// First cloud.
    pub a: Surface,
    /// Second cloud.
    pub b: Surface,
}
impl Summary {
    /// Returns the results for one cloud.
    pub fn side(&self, side: Side) -> &Surface {
        match side {
            Side::A => &self.a,
            Side::B => &self.b,
        }
    }
}

impl Intersector {
    /// Returns counts and areas of the last frame. Synchronizes. For volumes see
    /// [`Solids`](super::Solids).
    ///
    /// # Errors
    /// A device failure.
    pub fn summary(&mut self) -> Result<Summary, IntersectError> {
        let areas = match &mut self.way {
            Way::Robust(robust) => Some(robust.measure(
                &self.stream,
                &self.index,
                &self.sums,
                &self.labels,
                &self.state,
            )?),
            Way::Paper(_) => None,
        };
        let state = self.state.download()?;
        let float = |word: u32| f64::from(f32::from_bits(state[word as usize]));
        let face = self.grid.voxel_size().powi(2) / f64::from(1u32 << MEASURE_BITS);
        let surface = |side: Side| -> Result<Surface, IntersectError> {
            let c = side.index() as u32;
            let padding = self.points.padded_of(side) - self.points.given(side);
            let measures = areas.as_deref().map(|words| {
                let (iso, open) = (float(state::ISO + c), state[(state::OPEN + c) as usize] != 0);
                let scale =
                    if open { face } else { face * (ISO_OF_CLEAN_SCANS / iso).clamp(0.25, 4.0) };
                Measures {
                    closedness: float(state::CLOSEDNESS + c),
                    open,
                    iso,
                    areas: std::array::from_fn(|label| {
                        words[side.index() * 4 + label] as f64 * scale
                    }),
                }
            });
            Ok(Surface {
                points: self.points.given(side),
                dropped: (state[(state::DROPPED + c) as usize] as usize).saturating_sub(padding),
                voxels: LabelCounts::of(self.voxels(side)?.into_iter().map(|v| v.label)),
                measures,
            })
        };
        Ok(Summary { a: surface(Side::A)?, b: surface(Side::B)? })
    }
}

//! Voxel grid: a cube of N x N x N voxels in space.

use koel_scans::{Bounds, BoundsError};
use thiserror::Error;

/// Maximum resolution: 2^21 voxels per side, the limit of a 64-bit key.
pub const MAX_RESOLUTION: u32 = 1 << 21;

/// Fraction of the grid's side that the longest side of the box spans in [`Grid::enclosing`]. The
/// rest is margin: at least one free voxel on every side for 16 or more voxels per side.
const ENCLOSED_SPAN: f64 = 0.875;

/// Reason why a grid cannot be built.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum GridError {
    /// The points to put it around have no box.
    #[error(transparent)]
    Bounds(#[from] BoundsError),
    /// The resolution is 0 or above [`MAX_RESOLUTION`].
    #[error("a grid of {resolution} voxels per side was requested, expected 1 to {MAX_RESOLUTION}")]
    Resolution {
        /// Requested resolution.
        resolution: u32,
    },
    /// The origin is not finite or the voxel size is not a positive finite number.
    #[error(
        "origin {origin:?} and voxel size {voxel_size} do not describe a grid: both must be finite \
         and the size positive"
    )]
    Geometry {
        /// The origin given.
        origin: [f64; 3],
        /// The voxel size given.
        voxel_size: f64,
    },
}

/// Cube of `resolution`^3 voxels. With voxel size h, voxel (i, j, k) is the half-open box [origin +
/// h (i, j, k), origin + h (i+1, j+1, k+1)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    origin: [f64; 3],
    voxel_size: f64,
    resolution: u32,
}

impl Grid {
    /// Creates a grid with the given corner, voxel size and number of voxels per side.
    ///
    /// # Errors
    /// [`GridError::Geometry`] or [`GridError::Resolution`].
    pub fn new(origin: [f64; 3], voxel_size: f64, resolution: u32) -> Result<Self, GridError> {
        if !(1..=MAX_RESOLUTION).contains(&resolution) {
            return Err(GridError::Resolution { resolution });
        }
        if !(origin.iter().all(|o| o.is_finite()) && voxel_size.is_finite() && voxel_size > 0.0) {
            return Err(GridError::Geometry { origin, voxel_size });
        }
        Ok(Grid { origin, voxel_size, resolution })
    }

    /// Creates the grid that `koel intersect` uses, centred on the box. The longest side of the box
    /// spans 0.875 of the grid's side: the voxel size is below (longest side) / (0.85 N), and for N
    /// >= 16 free voxels surround the box. A box of one point gets voxels of size 1.
    ///
    /// # Errors
    /// [`GridError::Resolution`].
    pub fn enclosing(bounds: Bounds, resolution: u32) -> Result<Self, GridError> {
        let n = f64::from(resolution.max(1));
        let voxel_size = unit_if_zero(bounds.longest_side() / (ENCLOSED_SPAN * n));
        let half = 0.5 * voxel_size * n;
        let origin = std::array::from_fn(|a| {
            0.5 * (f64::from(bounds.min()[a]) + f64::from(bounds.max()[a])) - half
        });
        Self::new(origin, voxel_size, resolution)
    }

    /// Creates the tightest grid: it starts at the box's smallest corner, and the box's longest
    /// side spans all N voxels, less one part in 10^9 so that the far end lies inside. For
    /// benchmarks: this grid yields the most occupied voxels for a given N.
    ///
    /// # Errors
    /// [`GridError::Resolution`].
    pub fn tight(bounds: Bounds, resolution: u32) -> Result<Self, GridError> {
        let n = f64::from(resolution.max(1));
        let voxel_size = unit_if_zero(bounds.longest_side() * (1.0 + 1e-9) / n);
        Self::new(bounds.min().map(f64::from), voxel_size, resolution)
    }

    /// Returns the corner of voxel (0, 0, 0).
    pub fn origin(&self) -> [f64; 3] {
        self.origin
    }

    /// Returns the side h of a voxel, in the units of the scan.
    pub fn voxel_size(&self) -> f64 {
        self.voxel_size
    }

    /// Returns the number N of voxels per side.
    pub fn resolution(&self) -> u32 {
        self.resolution
    }

    /// Converts a point to voxel units: (p - origin) / h.
    pub fn to_voxel_units(&self, p: [f64; 3]) -> [f64; 3] {
        std::array::from_fn(|a| (p[a] - self.origin[a]) / self.voxel_size)
    }

    /// Returns the voxel that contains the point; `None` if the point lies outside the grid or is
    /// not finite.
    pub fn voxel_of(&self, p: [f64; 3]) -> Option<[u32; 3]> {
        let n = f64::from(self.resolution);
        let q = self.to_voxel_units(p);
        q.iter().all(|c| (0.0..n).contains(c)).then(|| q.map(|c| c as u32))
    }

    /// Returns the centre of a voxel, in the units of the scan.
    pub fn centre_of(&self, voxel: [u32; 3]) -> [f64; 3] {
        std::array::from_fn(|a| self.origin[a] + self.voxel_size * (f64::from(voxel[a]) + 0.5))
    }
}

fn unit_if_zero(size: f64) -> f64 {
    if size == 0.0 { 1.0 } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refuses_what_is_no_grid() {
        let bounds = Bounds::of(&[[0.0; 3], [1.0; 3]]).unwrap();
        for resolution in [0, MAX_RESOLUTION + 1, u32::MAX] {
            assert_eq!(
                Grid::enclosing(bounds, resolution),
                Err(GridError::Resolution { resolution })
            );
            assert_eq!(Grid::tight(bounds, resolution), Err(GridError::Resolution { resolution }));
        }
        for size in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(Grid::new([0.0; 3], size, 8), Err(GridError::Geometry { .. })));
        }
        assert!(matches!(Grid::new([f64::NAN, 0.0, 0.0], 1.0, 8), Err(GridError::Geometry { .. })));
    }

    #[test]
    fn one_point_lies_in_its_grid() {
        let bounds = Bounds::of(&[[3.0, -4.0, 5.0]]).unwrap();
        for n in [1, 2, 1024] {
            assert!(Grid::enclosing(bounds, n).unwrap().voxel_of([3.0, -4.0, 5.0]).is_some());
            assert_eq!(Grid::tight(bounds, n).unwrap().voxel_of([3.0, -4.0, 5.0]), Some([0; 3]));
        }
    }

    #[test]
    fn voxels_are_half_open() {
        let grid = Grid::new([0.0; 3], 0.5, 4).unwrap();
        assert_eq!(grid.voxel_of([0.0, 0.5, 1.999]), Some([0, 1, 3]));
        assert_eq!(grid.voxel_of([0.0, 0.0, 2.0]), None);
        assert_eq!(grid.voxel_of([-1e-9, 0.0, 0.0]), None);
        assert_eq!(grid.voxel_of([f64::NAN, 0.0, 0.0]), None);
    }

    proptest! {
        #[test]
        fn both_grids_hold_the_box_and_keep_the_contract(
            corners in proptest::array::uniform2(proptest::array::uniform3(-1e6f32..1e6)),
            n in 1u32..=MAX_RESOLUTION,
        ) {
            let bounds = Bounds::of(&corners).unwrap();
            let (enclosing, tight) =
                (Grid::enclosing(bounds, n).unwrap(), Grid::tight(bounds, n).unwrap());
            let longest = bounds.longest_side();
            prop_assert!(
                longest == 0.0 || enclosing.voxel_size() <= longest / (0.85 * f64::from(n))
            );
            for corner in [bounds.min(), bounds.max()] {
                let p = corner.map(f64::from);
                let voxel = enclosing.voxel_of(p).unwrap();
                prop_assert!(n < 16 || voxel.iter().all(|&v| v >= 1 && v < n - 1));
                prop_assert!(tight.voxel_of(p).is_some());
                prop_assert_eq!(enclosing.voxel_of(enclosing.centre_of(voxel)), Some(voxel));
            }
        }
    }
}

//! The box around points.

use thiserror::Error;

/// Reason why points have no box.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum BoundsError {
    /// There are no points.
    #[error("there are no points to put a box around")]
    NoPoints,
    /// A coordinate is NaN or infinite.
    #[error("vertex {vertex}: {axis} is {value}, expected a finite number",
        axis = ['x', 'y', 'z'][*.axis])]
    NotFinite {
        /// Index of the vertex, from 0.
        vertex: usize,
        /// 0, 1, 2 for x, y, z.
        axis: usize,
        /// The coordinate.
        value: f32,
    },
}

/// Axis-aligned box in the units of the scan. Never empty, always finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    min: [f32; 3],
    max: [f32; 3],
}

impl Bounds {
    /// Returns the smallest box around all positions, in linear time.
    ///
    /// # Errors
    /// [`BoundsError::NoPoints`] for an empty slice, [`BoundsError::NotFinite`] with the first
    /// vertex that is not finite.
    pub fn of(positions: &[[f32; 3]]) -> Result<Self, BoundsError> {
        let mut bounds = Bounds { min: [f32::INFINITY; 3], max: [f32::NEG_INFINITY; 3] };
        if positions.is_empty() {
            return Err(BoundsError::NoPoints);
        }
        for (vertex, p) in positions.iter().enumerate() {
            for (axis, &value) in p.iter().enumerate() {
                if !value.is_finite() {
                    return Err(BoundsError::NotFinite { vertex, axis, value });
                }
                bounds.min[axis] = bounds.min[axis].min(value);
                bounds.max[axis] = bounds.max[axis].max(value);
            }
        }
        Ok(bounds)
    }

    /// Returns the smallest box around all positions but outliers, and the number of outliers. At
    /// most one point in a thousand is an outlier, and only if all of them make the box more than
    /// ten times as long as that around 99 % of the points along each axis. Linear time;
    /// deterministic.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn without_outliers(positions: &[[f32; 3]]) -> Result<(Self, usize), BoundsError> {
        let all = Self::of(positions)?;
        let cut = positions.len() / 200;
        if cut == 0 {
            return Ok((all, 0));
        }
        let mut core = all;
        for axis in 0..3 {
            let mut along = positions.iter().map(|p| p[axis]).collect::<Vec<_>>();
            core.min[axis] = *along.select_nth_unstable_by(cut, f32::total_cmp).1;
            let last = along.len() - 1 - cut;
            core.max[axis] = *along.select_nth_unstable_by(last, f32::total_cmp).1;
        }
        let side = core.longest_side();
        let is_near = |p: &&[f32; 3]| {
            (0..3).all(|a| {
                let c = f64::from(p[a]);
                c >= f64::from(core.min[a]) - side && c <= f64::from(core.max[a]) + side
            })
        };
        let near = positions.iter().filter(is_near).copied().collect::<Vec<_>>();
        let outliers = positions.len() - near.len();
        if side == 0.0 || all.longest_side() <= 10.0 * side || outliers > positions.len() / 1000 {
            return Ok((all, 0));
        }
        Ok((Self::of(&near)?, outliers))
    }

    /// Returns the smallest box that contains both.
    pub fn union(self, other: Self) -> Self {
        Bounds {
            min: std::array::from_fn(|a| self.min[a].min(other.min[a])),
            max: std::array::from_fn(|a| self.max[a].max(other.max[a])),
        }
    }

    /// Returns the corner with the smallest coordinates.
    pub fn min(&self) -> [f32; 3] {
        self.min
    }

    /// Returns the corner with the largest coordinates.
    pub fn max(&self) -> [f32; 3] {
        self.max
    }
    /// Returns whether a position is inside or on the surface. One that is not finite is not.
    pub fn contains(&self, position: [f32; 3]) -> bool {
        (0..3).all(|a| (self.min()[a]..=self.max()[a]).contains(&position[a]))
    }

    /// Returns the length of the longest side; 0 for a single point.
    pub fn longest_side(&self) -> f64 {
        (0..3).map(|a| f64::from(self.max[a]) - f64::from(self.min[a])).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_points_have_no_box() {
        assert_eq!(Bounds::of(&[]), Err(BoundsError::NoPoints));
    }

    #[test]
    fn names_the_vertex_that_is_not_finite() {
        let error = Bounds::of(&[[0.0; 3], [0.0, f32::INFINITY, 0.0]]).unwrap_err();
        assert_eq!(error.to_string(), "vertex 1: y is inf, expected a finite number");
    }
}

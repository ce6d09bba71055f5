//! The box around clouds in their poses, in 64 bits, and the origin of 32-bit positions in it.
use super::load::Loaded;
use super::pose;
use crate::failure::{Failure, Outcome};
use koel_spatial::Bounds;
use koel_spatial::intersect::Pose;

/// Distance from the origin, in longest sides of the box, from which 32-bit positions lose digits.
const FAR: f64 = 8.0;

/// A box, relative to the origin of the files that are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Space {
    min: [f64; 3],
    max: [f64; 3],
}
impl Space {
    const EMPTY: Space = Space { min: [f64::INFINITY; 3], max: [f64::NEG_INFINITY; 3] };

    /// Returns the box around both clouds in their poses, without outliers. `origin` is what the
    /// clouds are relative to.
    pub(super) fn around(loaded: &[Loaded; 2], poses: [Pose; 2], origin: [f64; 3]) -> Space {
        let of = |(loaded, pose): (&Loaded, Pose)| {
            let (min, max) = (loaded.bounds.min(), loaded.bounds.max());
            if pose == Pose::IDENTITY {
                return Space { min: min.map(f64::from), max: max.map(f64::from) };
            }
            let motion = pose::between(&pose, origin, origin);
            // Outliers are outside the bounds.
            let is_within = |p: &&[f32; 3]| (0..3).all(|a| (min[a]..=max[a]).contains(&p[a]));
            let points = loaded.positions().iter().filter(is_within);
            points.map(|p| motion.apply(p.map(f64::from))).fold(Space::EMPTY, Space::with)
        };
        loaded.iter().zip(poses).map(of).fold(Space::EMPTY, Space::union)
    }
    fn with(self, p: [f64; 3]) -> Space {
        self.union(Space { min: p, max: p })
    }
    /// Returns the smallest box that contains both.
    pub(super) fn union(self, other: Space) -> Space {
        Space {
            min: std::array::from_fn(|a| self.min[a].min(other.min[a])),
            max: std::array::from_fn(|a| self.max[a].max(other.max[a])),
        }
    }
    /// Returns the origin for positions in 32 bits: `origin`, or one near the middle of the box if
    /// that is far from it.
    pub(super) fn origin(self, origin: [f64; 3]) -> [f64; 3] {
        let Space { min, max } = self;
        let side = (0..3).map(|a| max[a] - min[a]).fold(0.0, f64::max);
        let from_origin = min.iter().chain(&max).map(|c| c.abs()).fold(0.0, f64::max);
        if side == 0.0 || from_origin < FAR * side {
            return origin;
        }
        let unit = side.log2().ceil().exp2();
        std::array::from_fn(|a| origin[a] + (0.5 * (min[a] + max[a]) / unit).round() * unit)
    }
    /// Returns the box relative to another origin. `from` is what it is relative to.
    ///
    /// Errors: it does not fit 32-bit floating point.
    pub(super) fn bounds(self, from: [f64; 3], to: [f64; 3]) -> Outcome<Bounds> {
        let corners = [self.min, self.max]
            .map(|c| std::array::from_fn(|a| (c[a] + (from[a] - to[a])) as f32));
        Bounds::of(&corners)
            .map_err(|e| Failure::Usage(format!("the box around both clouds in their poses: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_far_away_gets_an_origin_of_its_own() {
        let near = Space { min: [-1.0, 0.0, 0.0], max: [3.0, 2.0, 1.0] };
        let origin = [1e6, 0.0, 0.0];
        assert_eq!(near.origin(origin), origin);
        let far = Space { min: [1e7 + 0.1, 0.0, 0.0], max: [1e7 + 2.1, 1.0, 1.0] };
        let own = far.origin([0.0; 3]);
        assert!((own[0] - 1e7).abs() < 4.0 && own[1..] == [0.0; 2], "{own:?}");
        let bounds = far.bounds([0.0; 3], own).unwrap();
        let (min, max) = (f64::from(bounds.min()[0]), f64::from(bounds.max()[0]));
        assert!((own[0] + min - 1e7 - 0.1).abs() < 1e-6, "{min}");
        assert!((max - min - 2.0).abs() < 1e-6, "{max}");
        let huge = Space { min: [-1e300; 3], max: [1e300; 3] };
        assert!(matches!(
            huge.bounds([0.0; 3], [0.0; 3]),
            Err(Failure::Usage(m)) if m.contains("in their poses: vertex 0: x is -inf")
        ));
    }
}

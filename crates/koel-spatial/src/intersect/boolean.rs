//! Union, intersection and differences, and the labelled points that bound them.

use super::{IntersectError, Intersector, Label, Pose, Side};
use koel_scans::PointCloud;

/// Boolean operation on two solids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Boolean {
    /// In A or B.
    Union,
    /// In A and B.
    Intersection,
    /// In A, not in B.
    Difference,
    /// In B, not in A.
    ReverseDifference,
}
impl Boolean {
    /// All operations.
    pub const ALL: [Boolean; 4] =
        [Boolean::Union, Boolean::Intersection, Boolean::Difference, Boolean::ReverseDifference];

    /// Applies the operation bitwise.
    pub(super) fn of(self, a: u64, b: u64) -> u64 {
        match self {
            Boolean::Union => a | b,
            Boolean::Intersection => a & b,
            Boolean::Difference => a & !b,
            Boolean::ReverseDifference => b & !a,
        }
    }
    /// Returns whether the part of a cloud with this label bounds the result; if so, whether its
    /// normals must be flipped.
    pub fn keeps(self, side: Side, label: Label) -> Option<bool> {
        let (wanted, turned) = match (self, side) {
            (Boolean::Union, _) => (Label::Outside, false),
            (Boolean::Intersection, _) => (Label::Inside, false),
            (Boolean::Difference, Side::A) | (Boolean::ReverseDifference, Side::B) => {
                (Label::Outside, false)
            }
            (Boolean::Difference, Side::B) | (Boolean::ReverseDifference, Side::A) => {
                (Label::Inside, true)
            }
        };
        (label == wanted || label == Label::Intersection).then_some(turned)
    }
}

/// Points of both clouds in their poses, with labels.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LabelledPoints {
    /// Positions and normals.
    pub points: PointCloud,
    /// Cloud of each point.
    pub sides: Vec<Side>,
    /// Label of each point.
    pub labels: Vec<Label>,
}

impl Intersector {
    /// Returns the points of `a` and `b` (those given to [`new`](Self::new)) in the poses of the
    /// last frame, with their labels: all of them, or those that bound a Boolean. Synchronizes.
    ///
    /// # Errors
    /// A device failure.
    pub fn labelled_points(
        &mut self,
        clouds: [(&PointCloud, &Pose); 2],
        boolean: Option<Boolean>,
    ) -> Result<LabelledPoints, IntersectError> {
        let mut out = LabelledPoints::default();
        let mut normals = vec![];
        for (side, (cloud, pose)) in Side::BOTH.into_iter().zip(clouds) {
            let labels = self.point_labels(side)?;
            let given =
                cloud.normals.as_deref().ok_or(IntersectError::NoNormals { cloud: side })?;
            for ((p, n), label) in cloud.positions.iter().zip(given).zip(labels) {
                let turned = match boolean {
                    None => Some(false),
                    Some(boolean) => boolean.keeps(side, label),
                };
                let Some(turned) = turned else { continue };
                let sign = if turned { -1.0 } else { 1.0 };
                out.points.positions.push(pose.apply(p.map(f64::from)).map(|c| c as f32));
                normals.push(pose.turn(n.map(f64::from)).map(|c| (sign * c) as f32));
                out.sides.push(side);
                out.labels.push(label);
            }
        }
        out.points.normals = Some(normals);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_keep_what_bounds_them() {
        use Boolean::*;
        assert_eq!(Union.keeps(Side::A, Label::Outside), Some(false));
        assert_eq!(Union.keeps(Side::B, Label::Inside), None);
        assert_eq!(Difference.keeps(Side::B, Label::Inside), Some(true));
        assert_eq!(ReverseDifference.keeps(Side::B, Label::Outside), Some(false));
        assert_eq!(Intersection.keeps(Side::A, Label::Intersection), Some(false));
        assert_eq!(Intersection.keeps(Side::A, Label::Unknown), None);
    }
}

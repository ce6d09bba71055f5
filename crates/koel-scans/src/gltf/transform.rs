//! Transforms of nodes.

use super::document::Node;
use super::fault::{Fault, fault};
use nalgebra::{Matrix4, Quaternion, Unit, UnitQuaternion, Vector3};

/// Transform of a node relative to its parent.
#[derive(Clone)]
pub(super) enum Local {
    Matrix(Matrix4<f64>),
    Parts { translation: Vector3<f64>, rotation: UnitQuaternion<f64>, scale: Vector3<f64> },
}
impl Local {
    pub(super) fn of(node: &Node, at: &str) -> Result<Local, Fault> {
        if let Some(matrix) = node.matrix {
            return affine(Matrix4::from_column_slice(&matrix), at).map(Local::Matrix);
        }
        let [x, y, z, w] = node.rotation.unwrap_or([0.0, 0.0, 0.0, 1.0]);
        if [x, y, z, w] == [0.0; 4] {
            return Err(fault(at.into(), "rotation is a quaternion of length 0".into()));
        }
        Ok(Local::Parts {
            translation: node.translation.unwrap_or_default().into(),
            rotation: unit(&[x, y, z, w]),
            scale: node.scale.unwrap_or([1.0; 3]).into(),
        })
    }
    pub(super) fn matrix(&self) -> Matrix4<f64> {
        match self {
            Local::Matrix(matrix) => *matrix,
            Local::Parts { translation, rotation, scale } => {
                Matrix4::new_translation(translation)
                    * rotation.to_homogeneous()
                    * Matrix4::new_nonuniform_scaling(scale)
            }
        }
    }
}

/// Checks that a matrix moves points without perspective.
pub(super) fn affine(mut matrix: Matrix4<f64>, at: &str) -> Result<Matrix4<f64>, Fault> {
    let row = [0, 1, 2, 3].map(|column| matrix[(3, column)]);
    let expected = [0.0, 0.0, 0.0, 1.0];
    if row.iter().zip(&expected).any(|(c, e)| (c - e).abs() > 1e-4) {
        let reason = format!("the last row of the matrix is {row:?}, expected {expected:?}");
        return Err(fault(at.into(), reason));
    }
    // The row may be rounded.
    (0..4).for_each(|column| matrix[(3, column)] = expected[column]);
    Ok(matrix)
}

/// Returns the rotation of a quaternion x, y, z, w of any length; none if the length is 0.
pub(super) fn unit(q: &[f64]) -> UnitQuaternion<f64> {
    let &[x, y, z, w] = q else { return UnitQuaternion::identity() };
    Unit::try_new(Quaternion::new(w, x, y, z), 0.0).unwrap_or_else(UnitQuaternion::identity)
}

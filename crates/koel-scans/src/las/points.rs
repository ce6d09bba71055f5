//! Points of a LAS file, compressed or not.

use super::extra::Field;
use super::header::{Header, take};
use crate::error::{ParseError, ParseErrorKind, Place};

/// Points read so far.
pub(super) struct Points<'a> {
    pub(super) header: &'a Header,
    pub(super) normal: Option<[Field; 3]>,
    pub(super) origin: Option<[f64; 3]>,
    pub(super) positions: Vec<[f32; 3]>,
    /// One per point if there is a normal.
    pub(super) normals: Vec<[f32; 3]>,
    /// First coordinate that is not finite.
    pub(super) not_finite: Option<ParseError>,
}

impl Points<'_> {
    /// Adds a point that begins at `place` and is as long as the header declares.
    pub(super) fn push(&mut self, point: &[u8], place: Place) {
        let Header { scale, offset, .. } = self.header;
        let at: [f64; 3] = std::array::from_fn(|axis| {
            f64::from(i32::from_le_bytes(take(point, 4 * axis))) * scale[axis] + offset[axis]
        });
        let origin =
            *self.origin.get_or_insert(at.map(|c| if c.is_finite() { c.floor() } else { 0.0 }));
        let position: [f32; 3] = std::array::from_fn(|axis| (at[axis] - origin[axis]) as f32);
        if let (None, Some(axis)) = (&self.not_finite, position.iter().position(|c| !c.is_finite()))
        {
            let (vertex, field) = (self.positions.len() as u64, ["x", "y", "z"][axis]);
            self.not_finite =
                Some(ParseErrorKind::NotFinite { vertex, field, value: at[axis] }.at(place));
        }
        if let Some(normal) = self.normal {
            let normal = normal.map(|field| field.value(point));
            let is_infinite = |c: &f64| !(*c as f32).is_finite();
            if let (None, Some(axis)) = (&self.not_finite, normal.iter().position(is_infinite)) {
                let (vertex, field) = (self.positions.len() as u64, ["nx", "ny", "nz"][axis]);
                self.not_finite = Some(
                    ParseErrorKind::NotFinite { vertex, field, value: normal[axis] }.at(place),
                );
            }
            self.normals.push(normal.map(|c| c as f32));
        }
        self.positions.push(position);
    }
}

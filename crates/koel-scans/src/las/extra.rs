//! Extra bytes of a LAS point: fields that a record describes (LAS 1.4, table 24).

use super::header::{POINT_BYTES, Record, take};
use crate::names;

/// Bytes of the description of a field.
const DESCRIPTION: usize = 192;
/// Options that say that the scale or the offset of a field applies.
const HAS_SCALE: u8 = 1 << 3;
const HAS_OFFSET: u8 = 1 << 4;

/// A number among the extra bytes.
#[derive(Clone, Copy)]
pub(super) struct Field {
    /// Offset in the point.
    at: usize,
    /// Type of the format, 1 to 10.
    kind: u8,
    scale: f64,
    offset: f64,
}

/// Fields of the extra bytes.
#[derive(Default)]
pub(super) struct Extra {
    /// Names of all fields.
    pub names: Vec<String>,
    /// Components of the normal.
    pub normal: Option<[Field; 3]>,
}

impl Extra {
    /// Finds the fields of a point of a format. Fields beyond the bytes of a point, and those after
    /// a type that does not exist, are not read.
    pub(super) fn of(records: &[Record<'_>], format: u8, point_bytes: u16) -> Extra {
        let mut at = usize::from(POINT_BYTES[usize::from(format)]);
        let (mut names, mut fields) = (vec![], vec![]);
        let described = records.iter().filter(|r| r.user == b"LASF_Spec" && r.id == 4);
        for field in described.flat_map(|record| record.content.chunks_exact(DESCRIPTION)) {
            let (kind, options) = (field[2], field[3]);
            // Types from 11 on are pairs and triples, which were deprecated in 2019.
            let (kind, count) = match kind {
                0 => (0, usize::from(options)),
                1..=30 => ((kind - 1) % 10 + 1, usize::from((kind - 1) / 10 + 1)),
                _ => break,
            };
            let size = [1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8][usize::from(kind)];
            if at + count * size > usize::from(point_bytes) {
                break;
            }
            let name = field[4..36].split(|&b| b == 0).next().unwrap_or_default();
            let name = String::from_utf8_lossy(name).trim().to_owned();
            let number =
                |option: u8, from: usize, axis: usize, otherwise: f64| match options & option != 0
                    && kind != 0
                {
                    true => f64::from_le_bytes(take(field, from + 8 * axis)),
                    false => otherwise,
                };
            let component = |axis: usize| Field {
                at: at + axis * size,
                kind,
                scale: number(HAS_SCALE, 112, axis, 1.0),
                offset: number(HAS_OFFSET, 136, axis, 0.0),
            };
            match (kind, count) {
                (0, _) => {
                    names.push(name);
                    fields.push(None);
                }
                (_, 1) => {
                    names.push(name);
                    fields.push(Some(component(0)));
                }
                _ => (0..count).for_each(|axis| {
                    names.push(format!("{name}{}", ["x", "y", "z"][axis]));
                    fields.push(Some(component(axis)));
                }),
            }
            at += count * size;
        }
        let normal = names::normal(names.iter().map(String::as_str)).and_then(|places| {
            let [x, y, z] = places.map(|place| fields[place]);
            Some([x?, y?, z?])
        });
        Extra { names, normal }
    }
}

impl Field {
    /// Returns the value in a point, which is long enough.
    pub(super) fn value(self, point: &[u8]) -> f64 {
        let at = self.at;
        let value = match self.kind {
            1 => u8::from_le_bytes(take(point, at)).into(),
            2 => i8::from_le_bytes(take(point, at)).into(),
            3 => u16::from_le_bytes(take(point, at)).into(),
            4 => i16::from_le_bytes(take(point, at)).into(),
            5 => u32::from_le_bytes(take(point, at)).into(),
            6 => i32::from_le_bytes(take(point, at)).into(),
            7 => u64::from_le_bytes(take(point, at)) as f64,
            8 => i64::from_le_bytes(take(point, at)) as f64,
            9 => f32::from_le_bytes(take(point, at)).into(),
            _ => f64::from_le_bytes(take(point, at)),
        };
        value * self.scale + self.offset
    }
}

//! Unit of length of a LAS file's coordinate system.

use super::header::{Record, take};

/// GeoTIFF key of the unit of projected coordinates.
const PROJECTED_UNITS: u16 = 3076;

/// Returns the unit in the records: a GeoTIFF key (its EPSG number), or the unit of a projected
/// system in OGC's well-known text.
pub(super) fn of_records(records: &[Record<'_>]) -> Option<String> {
    let projection =
        |id: u16| records.iter().find(move |r| r.user == b"LASF_Projection" && r.id == id);
    let geo_keys = projection(34735).and_then(|r| geo_key(r.content));
    geo_keys.or_else(|| projection(2112).and_then(|r| well_known_text(r.content)))
}

/// Finds the key in groups of four words: id, location (0: inline), count, value. One group
/// precedes the first key.
fn geo_key(content: &[u8]) -> Option<String> {
    let word = |at: usize| u16::from_le_bytes(take(content, 2 * at));
    let value =
        (1..content.len() / 8).find(|&k| word(4 * k) == PROJECTED_UNITS && word(4 * k + 1) == 0);
    value.map(|k| match word(4 * k + 3) {
        9001 => "metre".to_owned(),
        9002 => "foot".to_owned(),
        9003 => "US survey foot".to_owned(),
        other => format!("EPSG unit {other}"),
    })
}

/// Returns the first unit that is not an angle.
fn well_known_text(content: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(content);
    let units = text.split("UNIT[\"").skip(1).filter_map(|rest| rest.split('"').next());
    units.map(str::to_owned).find(|unit| !unit.to_ascii_lowercase().contains("degree"))
}

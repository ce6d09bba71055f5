//! Slots that lookups of present and absent keys read in the published tables.
use super::super::table;
use koel_lab::probes::{Probes, single_level, two_level};
use koel_lab::rounds::{Bucket, MEAN_KEYS, SUB_SLOTS, SUB_TABLES};
use rayon::prelude::*;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Row {
    table: String,
    load: f64,
    present: f64,
    absent: f64,
    /// Reads of an absent key per read of a present one.
    factor: f64,
    /// The paper's time of failed queries per time of successful ones.
    paper_factor: Option<f64>,
    /// Reads of an absent key if lookups stop at an empty slot.
    absent_until_empty: f64,
}

/// Single-level tables: functions, load, and the 2011 paper's factor: from 20.5 to 41.6 ms with
/// four functions, from 19 to 31.4 ms with three.
const SINGLE_LEVEL: [(u32, f64, Option<f64>); 4] = [
    (4, 1.0 / 1.25, Some(41.6 / 20.5)),
    (4, 1.0 / 1.42, None),
    (3, 1.0 / 1.25, Some(31.4 / 19.0)),
    (2, 1.0 / 2.5, None),
];
/// The 2011 paper's factor of the two-level table: from 30 to 33.7 ms.
const TWO_LEVEL: f64 = 33.7 / 30.0;

/// Counts the reads in these buckets, and in single-level tables of `slots` slots.
pub(super) fn measure(buckets: &[Bucket], slots: u32, seed: u64) -> Vec<Row> {
    let row = |table: String, load: f64, probes: Probes, paper_factor| Row {
        table,
        load,
        present: probes.present,
        absent: probes.absent,
        factor: probes.factor(),
        paper_factor,
        absent_until_empty: probes.absent_until_empty,
    };
    let load = MEAN_KEYS as f64 / f64::from(SUB_TABLES * SUB_SLOTS);
    let mut rows =
        vec![row("two-level, 3 sub-tables".into(), load, two_level(buckets), Some(TWO_LEVEL))];
    let single = SINGLE_LEVEL.par_iter().map(|&(functions, load, paper_factor)| {
        let probes = single_level(functions, slots, load, seed);
        row(format!("single-level, {functions} functions"), load, probes, paper_factor)
    });
    rows.append(&mut single.collect::<Vec<Row>>());
    rows
}

pub(super) fn text(rows: &[Row]) -> String {
    let row = |r: &Row| {
        vec![
            r.table.clone(),
            format!("{:.3}", r.load),
            format!("{:.3}", r.present),
            format!("{:.0}", r.absent),
            format!("{:.2}", r.factor),
            r.paper_factor.map_or("-".into(), |factor| format!("{factor:.2}")),
            format!("{:.3}", r.absent_until_empty),
        ]
    };
    let heading =
        ["table", "load", "present", "absent", "factor", "paper (times)", "stops at empty"];
    format!(
        "\nSlots read per lookup of a present key, of an absent one, and of an absent one that \
         stops at an\nempty slot. Factor: absent / present.\n{}",
        table(&heading, &rows.iter().map(row).collect::<Vec<_>>())
    )
}

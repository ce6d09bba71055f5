//! Stashed keys of the single-level table with four functions, and reads of absent keys.
use super::super::{short_number, table};
use crate::output::thousands;
use koel_lab::stash::fill;
use rayon::prelude::*;
use serde::Serialize;

const FUNCTIONS: u32 = 4;
const LOADS: [f64; 3] = [0.8, 0.9, 0.95];
/// Limits of exchanges per insertion, next to the published 7 lg N.
const LIMITS: [u32; 4] = [10, 20, 40, 80];

#[derive(Serialize)]
pub(super) struct Row {
    load: f64,
    limit: u32,
    keys: usize,
    stashed: usize,
    /// Slots that an absent key reads, those of the table included, by kind of stash.
    absent_with_array: f64,
    absent_with_table: f64,
}

/// Fills tables of `slots` slots.
pub(super) fn measure(slots: u32, seed: u64) -> Vec<Row> {
    let runs = LOADS.iter().flat_map(|&load| {
        let published = (7.0 * (load * f64::from(slots)).log2()) as u32;
        LIMITS.into_iter().chain([published]).map(move |limit| (load, limit))
    });
    let one = |&(load, limit): &(f64, u32)| {
        let found = fill(FUNCTIONS, slots, load, limit, seed);
        Row {
            load,
            limit,
            keys: found.keys,
            stashed: found.stashed,
            absent_with_array: f64::from(FUNCTIONS) + found.array_reads,
            absent_with_table: f64::from(FUNCTIONS) + found.table_reads,
        }
    };
    runs.collect::<Vec<_>>().par_iter().map(one).collect()
}

pub(super) fn text(rows: &[Row]) -> String {
    let row = |r: &Row| {
        vec![
            format!("{:.2}", r.load),
            r.limit.to_string(),
            thousands(r.stashed),
            short_number(1e6 * r.stashed as f64 / r.keys.max(1) as f64),
            short_number(r.absent_with_array),
            short_number(r.absent_with_table),
        ]
    };
    let heading = ["load", "limit", "stashed", "per million", "absent: array", "absent: table"];
    format!(
        "\nSingle-level table, {FUNCTIONS} functions, with a stash for chains that reach the \
         limit: stashed keys, and\nslots that an absent key reads with the stash as an array and \
         as a half full table (the last limit\nof a load: 7 lg N)\n{}",
        table(&heading, &rows.iter().map(row).collect::<Vec<_>>())
    )
}

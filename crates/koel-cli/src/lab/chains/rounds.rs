//! Rounds over the three sub-tables until a bucket of the 2009 paper is built.
use super::super::table;
use crate::output::thousands;
use koel_kernels::hash::Family;
use koel_lab::keys;
use koel_lab::rounds::{Bucket, Limits, MEAN_KEYS, MOST_KEYS, Rounds, build_all, spread};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Row {
    keys_per_bucket: &'static str,
    family: &'static str,
    /// Rounds after which a bucket takes another seed; none if it never does.
    reseed_after: Option<u32>,
    buckets: usize,
    rounds: f64,
    rounds_of_all_seeds: f64,
    most_rounds: u32,
    reseeded: usize,
    failed: usize,
}

/// Builds `count` buckets in every way. Also returns the buckets that are built as published.
pub(super) fn measure(count: usize, seed: u64) -> (Vec<Row>, Vec<Bucket>) {
    let random = keys::ALL[0].keys(count * MOST_KEYS, seed);
    // A bucket of more keys restarts the whole build.
    let mut average = spread(&random[..count * MEAN_KEYS], count);
    average.retain(|bucket| bucket.len() <= MOST_KEYS);
    let full = random.chunks(MOST_KEYS).map(<[u32]>::to_vec).collect::<Vec<_>>();
    let (mut rows, mut published) = (vec![], vec![]);
    for (keys_per_bucket, buckets) in [("409 on average", &average), ("512", &full)] {
        for family in [Family::Linear2009, Family::Mixed] {
            for limits in [Limits::PUBLISHED, Limits::NO_RESEED] {
                let built = build_all(buckets, family, limits, seed);
                let found = Rounds::of(&built, limits);
                rows.push(Row {
                    keys_per_bucket,
                    family: family.describe(),
                    reseed_after: (limits.seeds > 1).then_some(limits.rounds),
                    buckets: buckets.len(),
                    rounds: found.mean,
                    rounds_of_all_seeds: found.mean_of_all_seeds,
                    most_rounds: found.most,
                    reseeded: found.reseeded,
                    failed: found.failed,
                });
                if rows.len() == 1 {
                    published = built.into_iter().flatten().collect();
                }
            }
        }
    }
    (rows, published)
}

pub(super) fn text(rows: &[Row]) -> String {
    let row = |r: &Row| {
        let share =
            |buckets: usize| format!("{:.2} %", 100.0 * buckets as f64 / r.buckets.max(1) as f64);
        vec![
            format!("{}, {}", r.keys_per_bucket, r.family),
            r.reseed_after.map_or("never".into(), |rounds| rounds.to_string()),
            format!("{:.2}", r.rounds),
            format!("{:.2}", r.rounds_of_all_seeds),
            thousands(r.most_rounds as usize),
            share(r.reseeded),
            share(r.failed),
        ]
    };
    let heading = [
        "keys per bucket, functions",
        "reseed",
        "rounds",
        "all seeds",
        "most",
        "reseeded",
        "not built",
    ];
    format!(
        "\nRounds over the three sub-tables until a bucket of 2009 is built, by simultaneous \
         claims (paper: 5.5\non average), with another seed after 25 rounds and never; \
         {} buckets\n{}",
        thousands(rows.last().map_or(0, |row| row.buckets)),
        table(&heading, &rows.iter().map(row).collect::<Vec<_>>())
    )
}

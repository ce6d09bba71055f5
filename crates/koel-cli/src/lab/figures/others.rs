//! Figures of Wang and Hu's report and of Zachmann's lectures.
use super::super::chart::{Axis, Chart, Look, Scale, Series};
use super::super::short_number;
use super::measure::{Lab, keys_axis, milliseconds, mops, rate};
use crate::bench::contenders::map::Map;
use crate::failure::Outcome;
use koel_classic::single_level::StashKind;
use koel_classic::{Kind, SingleLevel, TwoKernel};

/// Times with twice as many slots as keys. Half of the lookups are of random keys.
pub(super) fn wang_hu(lab: &Lab) -> Outcome<Vec<Chart>> {
    let kinds: [(&dyn Kind, &str); 3] = [
        (&SingleLevel::PUBLISHED, "in global memory"),
        (&TwoKernel::PUBLISHED, "two kernels"),
        (&Map, "koel map"),
    ];
    let (mut inserts, mut finds) = (vec![], vec![]);
    for (color, (kind, name)) in kinds.into_iter().enumerate() {
        let (mut insert, mut find) = (vec![], vec![]);
        for n in lab.sizes() {
            let pairs = lab.random(n, 32)?;
            let (table, seconds) = lab.build(kind, &pairs, Some(0.5))?;
            insert.push((n as f64, 1e3 * seconds));
            let queries = lab.queries(&pairs, 0.5);
            find.push((n as f64, 1e3 * lab.find(kind, table.as_ref(), &queries)?));
        }
        inserts.push(Series::new(name, color, Look::Line, insert));
        finds.push(Series::new(name, color, Look::Line, find));
    }
    let (five, six) = ("Wang and Hu, figure 5: insertion", "Wang and Hu, figure 6: lookup");
    Ok(vec![
        lab.chart(five, "2^s keys into 2^(s + 1) slots", keys_axis(), milliseconds(), inserts),
        lab.chart(
            six,
            "2^s lookups, half of them of random keys",
            keys_axis(),
            milliseconds(),
            finds,
        ),
    ])
}

/// Rates against load, for several numbers of keys.
pub(super) fn lecture_loads(lab: &Lab) -> Outcome<Vec<Chart>> {
    let (mut inserts, mut finds) = (vec![], vec![]);
    for (color, down) in [6, 4, 2, 0].into_iter().enumerate() {
        let n = 1usize << lab.most.saturating_sub(down).max(8);
        let pairs = lab.random(n, 32)?;
        let queries = lab.queries(&pairs, 0.0);
        let (mut insert, mut find) = (vec![], vec![]);
        for load in [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95] {
            let (table, seconds) = lab.build(&SingleLevel::PUBLISHED, &pairs, Some(load))?;
            insert.push((load, mops(n, seconds)));
            find.push((
                load,
                mops(n, lab.find(&SingleLevel::PUBLISHED, table.as_ref(), &queries)?),
            ));
        }
        inserts.push(Series::new(format!("{n} keys"), color, Look::Line, insert));
        finds.push(Series::new(format!("{n} keys"), color, Look::Line, find));
    }
    let x = || Axis::new("load: keys per slot", Scale::From(0.0));
    let subtitle = "single-level table, 4 functions";
    Ok(vec![
        lab.chart("The lecture: insertion against load", subtitle, x(), rate(), inserts),
        lab.chart("The lecture: retrieval against load", subtitle, x(), rate(), finds),
    ])
}

/// Times against the share of absent keys: without a stash, and with stashes that hold the keys
/// whose chains reach a limit. The lecture's failed query reads four slots and a stash that is a
/// table.
pub(super) fn lecture_stash(lab: &Lab) -> Outcome<Vec<Chart>> {
    let n = 1usize << lab.most;
    let pairs = lab.random(n, 32)?;
    // A limit of 10 exchanges stashes 1.1 % of the keys at the default load.
    let room = (n as u32 / 32).clamp(64, 1 << 20);
    let stashed = |limit, kind| SingleLevel {
        max_evictions: Some(limit),
        stash: Some((kind, room)),
        ..SingleLevel::PUBLISHED
    };
    let kinds = [
        ("no stash", SingleLevel::PUBLISHED),
        ("a table, limit 40", stashed(40, StashKind::Table)),
        ("a table, limit 20", stashed(20, StashKind::Table)),
        ("a table, limit 10", stashed(10, StashKind::Table)),
        ("an array, limit 40", stashed(40, StashKind::Array)),
    ];
    let mut series = vec![];
    for (color, (name, kind)) in kinds.iter().enumerate() {
        let (table, _) = lab.build(kind, &pairs, None)?;
        let report = table.report();
        let per_million = 1e6 * report.stashed as f64 / report.pairs.max(1) as f64;
        let name = format!("{name}: {} keys per million", short_number(per_million));
        let mut points = vec![];
        for percent in (0..=100).step_by(20) {
            let queries = lab.queries(&pairs, f64::from(percent) / 100.0);
            points.push((f64::from(percent), 1e3 * lab.find(kind, table.as_ref(), &queries)?));
        }
        series.push(Series::new(name, color, Look::Line, points));
    }
    let x = Axis::new("queries whose key is absent, %", Scale::From(0.0));
    let y = Axis::new("milliseconds", Scale::From(0.0));
    let subtitle = format!("{} queries, single-level table, 4 functions", short_number(n as f64));
    Ok(vec![lab.chart("The lecture: failed queries with a stash", &subtitle, x, y, series)])
}

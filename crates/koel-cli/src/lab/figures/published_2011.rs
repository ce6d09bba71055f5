//! Alcantara et al. 2011, "Building an Efficient Hash Table on the GPU".
use super::super::chart::{Axis, Chart, Look, Scale, Series};
use super::super::short_number;
use super::measure::{Lab, keys_axis, milliseconds, mops, rate};
use super::published_2009::multiplicities;
use crate::bench::contenders::map::Map;
use crate::failure::Outcome;
use koel::Buffer;
use koel::device::Element;
use koel_classic::{
    Kind, ListKind, SingleLevel, SingleLevelCompacting, SingleLevelMulti, Sorted, SortedMulti,
    TwoLevel, TwoLevelCompacting, TwoLevelMulti,
};
use koel_classic_kernels::strided::strided_updates;
use koel_lab::theory;
use koel_simt::Scalar;

/// Load at 1.42 slots per pair, as in the two-level table.
const LOAD_142: f64 = 1.0 / 1.42;

/// Rates against the number of pairs.
pub(super) fn figure_4_4(lab: &Lab) -> Outcome<Vec<Chart>> {
    let kinds: [(&dyn Kind, &str, Option<f64>); 5] = [
        (&SingleLevel::PUBLISHED, "single-level, 1.25 N", None),
        (&SingleLevel::PUBLISHED, "single-level, 1.42 N", Some(LOAD_142)),
        (&TwoLevel::PUBLISHED, "two-level, 1.42 N", None),
        (&Sorted, "sorted", None),
        (&Map, "koel map, 1.25 N", Some(0.8)),
    ];
    let (mut inserts, mut finds) = (vec![], vec![]);
    for (color, (kind, name, load)) in kinds.into_iter().enumerate() {
        let (mut insert, mut find) = (vec![], vec![]);
        for n in lab.sizes() {
            let pairs = lab.random(n, 32)?;
            let (table, seconds) = lab.build(kind, &pairs, load)?;
            insert.push((n as f64, mops(n, seconds)));
            let queries = lab.queries(&pairs, 0.0);
            find.push((n as f64, mops(n, lab.find(kind, table.as_ref(), &queries)?)));
        }
        inserts.push(Series::new(name, color, Look::Line, insert));
        finds.push(Series::new(name, color, Look::Line, find));
    }
    Ok(vec![
        lab.chart(
            "2011, figure 4.4, left: insertion rates",
            "random pairs",
            keys_axis(),
            rate(),
            inserts,
        ),
        lab.chart(
            "2011, figure 4.4, right: retrieval rates",
            "all pairs, in random order",
            keys_axis(),
            rate(),
            finds,
        ),
    ])
}

fn against_multiplicity(
    lab: &Lab,
    title: &str,
    kinds: &[(&dyn ListKind, &str)],
) -> Outcome<Vec<Chart>> {
    let n = 1usize << lab.most;
    let times = multiplicities(lab, n, 32, kinds)?;
    let series = |part: usize| {
        let of = kinds.iter().zip(&times).enumerate();
        let of = of.map(|(color, ((_, name), times))| {
            Series::new(
                *name,
                color,
                Look::Line,
                if part == 0 { times.0.clone() } else { times.1.clone() },
            )
        });
        of.collect::<Vec<Series>>()
    };
    let x = || Axis::new("average number of times that a key occurs (logarithmic)", Scale::Log);
    let subtitle =
        format!("{} pairs, each key queried as often as it occurs", short_number(n as f64));
    Ok(vec![
        lab.chart(
            &format!("{title}, left: construction"),
            &subtitle,
            x(),
            milliseconds(),
            series(0),
        ),
        lab.chart(&format!("{title}, right: retrieval"), &subtitle, x(), milliseconds(), series(1)),
    ])
}
/// Compacting tables.
pub(super) fn figure_4_5(lab: &Lab) -> Outcome<Vec<Chart>> {
    let kinds: [(&dyn ListKind, &str); 3] = [
        (&SingleLevelCompacting, "single-level"),
        (&TwoLevelCompacting, "two-level"),
        (&SortedMulti, "sorted"),
    ];
    against_multiplicity(lab, "2011, figure 4.5: compacting", &kinds)
}
/// Multi-value tables.
pub(super) fn figure_4_6(lab: &Lab) -> Outcome<Vec<Chart>> {
    let kinds: [(&dyn ListKind, &str); 3] = [
        (&SingleLevelMulti, "single-level"),
        (&TwoLevelMulti, "two-level"),
        (&SortedMulti, "sorted"),
    ];
    against_multiplicity(lab, "2011, figure 4.6: multi-value", &kinds)
}

/// Strided updates of an array in device memory.
struct Updates {
    /// Number of updates; at most a quarter of the words.
    n: u32,
    /// 1 for loads and stores, 0 for atomic exchanges.
    plain: u32,
}
impl Updates {
    /// Returns the fastest time of an update, in nanoseconds. The number of words is a power of
    /// two.
    fn nanoseconds<W: Element + Scalar + From<u32>>(
        &self,
        lab: &Lab,
        stride: u32,
        words: &mut Buffer<W>,
    ) -> Outcome<f64> {
        let (stream, mask) = (&lab.stream, words.len() as u32 - 1);
        let (n, plain, grid) = (self.n, self.plain, self.n.div_ceil(256));
        let seconds = lab.fastest(|| {
            let words = words.view_mut().arg("words", stream)?;
            // SAFETY: the mask keeps the index below the number of words, a power of two.
            unsafe { strided_updates::launch(stream, grid, n, stride, mask, plain, words) }
        })?;
        Ok(seconds / f64::from(n) * 1e9)
    }
    /// Returns million updates per second against the stride in words.
    fn against_stride<W: Element + Scalar + From<u32>>(
        &self,
        lab: &Lab,
    ) -> Outcome<Vec<(f64, f64)>> {
        let mut words = lab.stream.device().alloc::<W>(4 * self.n as usize)?;
        words.view_mut().fill_bytes(0, &lab.stream)?;
        let strides = 0..=self.n.ilog2() - 2;
        let point = |shift: u32| {
            // Odd, so that no word repeats.
            let stride = if shift == 0 { 1 } else { (1u32 << shift) | 1 };
            let nanoseconds = self.nanoseconds(lab, stride, &mut words)?;
            Ok((f64::from(1 << shift), 1e3 / nanoseconds))
        };
        strides.map(point).collect()
    }
}

/// Updates at a stride, and construction rates: measured, and predicted from those updates by the
/// paper's model.
pub(super) fn figure_4_7(lab: &Lab) -> Outcome<Vec<Chart>> {
    let (stream, device) = (&lab.stream, lab.stream.device());
    let power = (lab.most + 4).min(26);
    let n = 1u32 << (power - 2);
    let mut words = device.alloc::<u64>(1 << power)?;
    words.view_mut().fill_bytes(0, stream)?;
    let of = |plain: u32| Updates { n, plain };
    let mut updates = vec![];
    for (name, points) in [
        ("exchanges, 64 bits", of(0).against_stride::<u64>(lab)?),
        ("exchanges, 32 bits", of(0).against_stride::<u32>(lab)?),
        ("loads and stores, 64 bits", of(1).against_stride::<u64>(lab)?),
        ("loads and stores, 32 bits", of(1).against_stride::<u32>(lab)?),
    ] {
        updates.push(Series::new(name, updates.len(), Look::Line, points));
    }
    let scattered = of(0).nanoseconds(lab, 0x9E37_79B1, &mut words)?;
    let coalesced = lab.fastest(|| words.view_mut().fill_bytes(0, stream))?;
    let coalesced = coalesced / f64::from(1u32 << power) * 1e9;
    let at_random = (0..=power - 4).map(|shift| (f64::from(1 << shift), 1e3 / scattered));
    updates.push(Series::new("at random", 7, Look::Dashed, at_random.collect()));

    // T = -m ln(1 - N/m) T_scattered + (m + N) T_coalesced.
    let keys = 1usize << lab.most;
    let pairs = lab.random(keys, 32)?;
    let (mut measured, mut model) = (vec![], vec![]);
    for space in [1.05, 1.1, 1.15, 1.25, 1.42, 1.7, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0] {
        let (_, seconds) = lab.build(&SingleLevel::PUBLISHED, &pairs, Some(1.0 / space))?;
        measured.push((space, mops(keys, seconds)));
        let exchanges = theory::exchanges(1.0, space);
        model.push((space, 1e3 / (exchanges * scattered + (space + 1.0) * coalesced)));
    }
    let construction = vec![
        Series::new("measured", 0, Look::Line, measured),
        Series::new("2011 model", 7, Look::Dashed, model),
    ];
    let stride = Axis::new("stride in words (logarithmic)", Scale::Log);
    let space = Axis::new("slots per pair", Scale::From(1.0));
    let million = Axis::new("million updates per second", Scale::From(0.0));
    let subtitle = format!("arrays of {} words", short_number(f64::from(1u32 << power)));
    let costs = format!(
        "{} pairs; model with {scattered:.3} ns per exchange, {coalesced:.4} ns per word in order",
        short_number(keys as f64)
    );
    Ok(vec![
        lab.chart(
            "2011, figure 4.7, left: updates at a stride",
            &subtitle,
            stride,
            million,
            updates,
        ),
        lab.chart(
            "2011, figure 4.7, right: construction against space",
            &costs,
            space,
            rate(),
            construction,
        ),
    ])
}

/// Lookups with a growing fraction of absent keys.
pub(super) fn failed_queries(lab: &Lab) -> Outcome<Vec<Chart>> {
    let n = 1usize << lab.most;
    let pairs = lab.random(n, 32)?;
    let three = SingleLevel { functions: 3, ..SingleLevel::PUBLISHED };
    let kinds: [(&dyn Kind, &str, Option<f64>); 4] = [
        (&SingleLevel::PUBLISHED, "single-level, 4 functions", None),
        (&three, "single-level, 3 functions", None),
        (&TwoLevel::PUBLISHED, "two-level", None),
        (&Map, "koel map", Some(0.8)),
    ];
    let mut series = vec![];
    for (color, (kind, name, load)) in kinds.into_iter().enumerate() {
        let (table, _) = lab.build(kind, &pairs, load)?;
        let mut points = vec![];
        for percent in (0..=100).step_by(20) {
            let queries = lab.queries(&pairs, f64::from(percent) / 100.0);
            points.push((f64::from(percent), 1e3 * lab.find(kind, table.as_ref(), &queries)?));
        }
        series.push(Series::new(name, color, Look::Line, points));
    }
    let x = Axis::new("queries whose key is absent, %", Scale::From(0.0));
    let y = Axis::new("milliseconds", Scale::From(0.0));
    Ok(vec![lab.chart(
        "2011: failed queries",
        &format!("{} queries", short_number(n as f64)),
        x,
        y,
        series,
    )])
}

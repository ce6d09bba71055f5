//! Alcantara et al. 2009, "Real-Time Parallel Hashing on the GPU".
use super::super::chart::{Axis, Chart, Look, Scale, Series};
use super::super::short_number;
use super::measure::{Lab, Pairs, keys_axis, milliseconds};
use crate::bench::args::{OrderName, Source};
use crate::bench::contenders::map::Map;
use crate::bench::keys::Workload;
use crate::failure::Outcome;
use koel::primitives::Scan;
use koel_classic::{
    Family, Kind, ListKind, PerfectSpatial, Sorted, SortedMulti, TwoLevel, TwoLevelMulti,
};
use koel_classic_kernels::two_level::{CountsOut, two_level_count, two_level_scatter};
use koel_classic_kernels::{PairsIn, status};
use koel_kernels::hash::Functions;
use koel_measure::repeat;
use koel_vision::synthetic::{Level, pair, texture};
use koel_vision::{PointSet, Side};
use koel_vision_classic::{PaperOptions, table_keys};

/// Times builds and lookups of all pairs, in milliseconds, against their number. Each kind gets a
/// solid and a dashed line.
fn times(lab: &Lab, sets: Vec<Pairs>, kinds: &[(&dyn Kind, &str, usize)]) -> Outcome<Vec<Series>> {
    let mut series = vec![];
    for (color, (kind, name, most)) in kinds.iter().enumerate() {
        let (mut builds, mut finds) = (vec![], vec![]);
        for pairs in sets.iter().filter(|pairs| pairs.host.len() <= *most) {
            let (table, seconds) = lab.build(*kind, pairs, None)?;
            let n = pairs.host.len() as f64;
            builds.push((n, 1e3 * seconds));
            let queries = lab.queries(pairs, 0.0);
            finds.push((n, 1e3 * lab.find(*kind, table.as_ref(), &queries)?));
        }
        // The papers omit the build time of perfect spatial hashing: its curve would dwarf the
        // others.
        if !kind.name().starts_with("perfect") {
            series.push(Series::new(format!("{name}: build"), color, Look::Line, builds));
        }
        series.push(Series::new(format!("{name}: find all"), color, Look::Dashed, finds));
    }
    Ok(series)
}

/// Voxels of one scan on finer and finer grids.
pub(super) fn figure_3(lab: &Lab) -> Outcome<Vec<Chart>> {
    let mut sets = vec![];
    for grid in [8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024] {
        let workload = Workload::of(&Source::Voxels(None, grid, OrderName::RowMajor), lab.seed)?;
        if workload.n() > 1 << lab.most {
            break;
        }
        sets.push(lab.pairs(workload.keys, vec![])?);
    }
    let most = usize::MAX;
    let kinds: [(&dyn Kind, &str, usize); 3] = [
        (&TwoLevel::PUBLISHED, "two-level", most),
        (&Sorted, "sorted", most),
        (&Map, "koel map", most),
    ];
    let series = times(lab, sets, &kinds)?;
    let title = "2009, figure 3: voxels of a scan on finer and finer grids";
    let subtitle = "the scan inside koel (the paper: Lucy); searched in random order";
    Ok(vec![lab.chart(
        title,
        subtitle,
        Axis::new("voxels (logarithmic)", Scale::Log),
        milliseconds(),
        series,
    )])
}

/// Random voxels of a 1024^3 grid.
pub(super) fn figure_4(lab: &Lab) -> Outcome<Vec<Chart>> {
    let sets = lab.sizes().map(|n| lab.random(n, 30)).collect::<Outcome<Vec<Pairs>>>()?;
    let most = usize::MAX;
    let kinds: [(&dyn Kind, &str, usize); 4] = [
        (&TwoLevel::PUBLISHED, "two-level", most),
        (&Sorted, "sorted", most),
        (&Map, "koel map", most),
        // Larger tables take seconds: the offsets are found on the CPU.
        (&PerfectSpatial::PUBLISHED_3D, "perfect spatial", 1 << 22),
    ];
    let series = times(lab, sets, &kinds)?;
    let title = "2009, figure 4: random voxels of a grid of 1024^3";
    let subtitle = "searched in random order; perfect spatial hashing up to 4,194,304";
    Ok(vec![lab.chart(title, subtitle, keys_axis(), milliseconds(), series)])
}

/// Times of the steps of the two-level build.
pub(super) fn figure_5(lab: &Lab) -> Outcome<Vec<Chart>> {
    let (stream, device) = (&lab.stream, lab.stream.device());
    let names = ["count", "prefix sum", "scatter", "cuckoo tables"];
    let mut steps = names.map(|_| vec![]);
    for n in lab.sizes() {
        let pairs = lab.random(n, 30)?;
        let (_, whole) = lab.build(&TwoLevel::PUBLISHED, &pairs, None)?;
        let buckets = n.div_ceil(409) as u32;
        let bucket_of = Functions::new(Family::Modulo, 1, buckets, lab.seed);
        let (mut counts, mut starts) =
            (device.alloc::<u32>(buckets as usize)?, device.alloc::<u32>(buckets as usize)?);
        let (mut offsets, mut together) = (device.alloc::<u32>(n)?, device.alloc::<u64>(n)?);
        let mut status = device.alloc::<u32>(status::WORDS)?;
        let mut scan = Scan::new(device, buckets as usize)?;
        let (count, grid) = (n as u32, (n as u32).div_ceil(two_level_count::SPEC.threads));
        let times = repeat(lab.runs.into(), || {
            let ((), counting) = stream.time(|| {
                counts.view_mut().fill_bytes(0, stream)?;
                let keys = pairs.keys.view().arg("keys", stream)?;
                let out = CountsOut {
                    counts: counts.view_mut().arg("counts", stream)?,
                    offsets: offsets.view_mut().arg("offsets", stream)?,
                    status: status.view_mut().arg("status", stream)?,
                };
                // SAFETY: there are `n` keys and offsets, and a count for each bucket; `bucket_of`
                // stays below the number of buckets.
                unsafe {
                    two_level_count::launch(stream, grid, keys, count, bucket_of, u32::MAX, out)
                }
            })?;
            let ((), scanning) =
                stream.time(|| scan.exclusive(stream, counts.view(), starts.view_mut()))?;
            let ((), scattering) = stream.time(|| {
                let pairs = PairsIn {
                    keys: pairs.keys.view().arg("keys", stream)?,
                    values: pairs.values.view().arg("values", stream)?,
                    n: count,
                };
                let (starts, offsets) =
                    (starts.view().arg("starts", stream)?, offsets.view().arg("offsets", stream)?);
                let together = together.view_mut().arg("pairs", stream)?;
                // SAFETY: there are `n` keys, values, offsets and pairs; counting gave each pair
                // its own position below `n`.
                unsafe {
                    two_level_scatter::launch(
                        stream, grid, pairs, bucket_of, starts, offsets, together,
                    )
                }
            })?;
            koel::Result::Ok([counting, scanning, scattering])
        })?;
        let best = times.map(|times| times.min);
        let rest = (whole - best.iter().sum::<f64>()).max(0.0);
        for (step, seconds) in steps.iter_mut().zip([best[0], best[1], best[2], rest]) {
            step.push((n as f64, 1e3 * seconds));
        }
    }
    let series = names.into_iter().zip(steps).enumerate();
    let series = series
        .map(|(color, (name, points))| Series::new(name, color, Look::Line, points))
        .collect();
    let title = "2009, figure 5: steps of the two-level build";
    let subtitle = "cuckoo tables: the whole build less the steps before";
    Ok(vec![lab.chart(title, subtitle, keys_axis(), milliseconds(), series)])
}

/// Times against the number of values per key.
pub(super) fn figure_6(lab: &Lab) -> Outcome<Vec<Chart>> {
    let n = 1usize << lab.most.min(20);
    let kinds: [(&dyn ListKind, &str); 2] =
        [(&TwoLevelMulti, "two-level"), (&SortedMulti, "sorted")];
    let series = multiplicities(lab, n, 30, &kinds)?;
    let series =
        kinds.iter().zip(series).enumerate().flat_map(|(color, ((_, name), (builds, finds)))| {
            [
                Series::new(format!("{name}: build"), color, Look::Line, builds),
                Series::new(format!("{name}: find"), color, Look::Dashed, finds),
            ]
        });
    let x = Axis::new("average number of values per key (logarithmic)", Scale::Log);
    let title = "2009, figure 6: the multi-value table";
    let subtitle = format!(
        "{} random voxels of a grid of 1024^3, a query for each value",
        short_number(n as f64)
    );
    Ok(vec![lab.chart(title, &subtitle, x, milliseconds(), series.collect())])
}

/// The tables of image matching by edges: all entries of a model, and all lookups with which a
/// scene votes.
pub(super) fn table_1(lab: &Lab) -> Outcome<Vec<Chart>> {
    let kinds: [(&dyn ListKind, &str); 2] =
        [(&TwoLevelMulti, "hash table"), (&SortedMulti, "binary search")];
    let mut times = kinds.map(|_| Times::default());
    let textures = [1, 2, 3].map(|i| texture(640, 480, lab.seed ^ i));
    let images = pair(Level::Clean, &textures, lab.seed);
    // Enough points to choose as many bases as are wanted.
    let options =
        PaperOptions::published().with_points((300, 300)).with_apart(4.0).with_seed(lab.seed);
    let rules = options.point_rules();
    let [model, scene] = [(&images.model, Side::Model), (&images.scene, Side::Scene)]
        .map(|(image, side)| PointSet::of_image(&lab.stream, image, 1.0, side, &rules));
    let (model, scene) = (model?.points, scene?.points);
    for items in lab.sizes().filter(|&items| items <= MAX_ITEMS) {
        let bases = |points: usize| items / points.max(1) + 1;
        let options = options.clone().with_bases((bases(model.len()), bases(scene.len())));
        let [entered, asked] = table_keys(&model, &scene, &options);
        let queries = lab.queries_of(&asked, &entered);
        let pairs = lab.pairs(entered, vec![])?;
        let n = pairs.host.len() as f64;
        for ((kind, _), (builds, finds)) in kinds.iter().zip(&mut times) {
            let (table, seconds) = lab.build_list(*kind, &pairs)?;
            builds.push((n, 1e3 * seconds));
            finds.push((n, 1e3 * lab.find_counted(*kind, table.as_ref(), &queries)?));
        }
    }
    let series =
        kinds.iter().zip(times).enumerate().flat_map(|(color, ((_, name), (builds, finds)))| {
            [
                Series::new(format!("{name}: build"), color, Look::Line, builds),
                Series::new(format!("{name}: look up"), color, Look::Dashed, finds),
            ]
        });
    let x = Axis::new("cells that a model's bases enter (logarithmic)", Scale::Log);
    let title = "2009, table 1: the tables of matching images";
    let subtitle = "a scene's bases look up as many cells; without counting and verifying votes";
    Ok(vec![lab.chart(title, subtitle, x, milliseconds(), series.collect())])
}
/// Maximum number of cells; the paper has three and four million. More bases would need more
/// points.
const MAX_ITEMS: usize = 1 << 22;

/// Points of builds and of lookups.
pub(super) type Times = (Vec<(f64, f64)>, Vec<(f64, f64)>);
/// Times builds and lookups, in milliseconds, of `n` pairs for each kind, with keys that repeat 1
/// to 1024 times.
pub(super) fn multiplicities(
    lab: &Lab,
    n: usize,
    bits: u32,
    kinds: &[(&dyn ListKind, &str)],
) -> Outcome<Vec<Times>> {
    let mut series = kinds.iter().map(|_| Times::default()).collect::<Vec<Times>>();
    for power in 0..=10 {
        let distinct = lab.random((n >> power).max(1), bits)?.host;
        let keys = (0..n).map(|i| distinct[i % distinct.len()]).collect::<Vec<u32>>();
        let pairs = lab.pairs(keys, vec![])?;
        let queries = lab.queries(&pairs, 0.0);
        for ((kind, _), (builds, finds)) in kinds.iter().zip(&mut series) {
            let (table, seconds) = lab.build_list(*kind, &pairs)?;
            let times = f64::from(1 << power);
            builds.push((times, 1e3 * seconds));
            let found = lab.find_list(*kind, table.as_ref(), &pairs, distinct.len(), &queries)?;
            finds.push((times, 1e3 * found));
        }
    }
    Ok(series)
}

//! Verification: checks whether a scene point is close to each mapped model point.
use super::table::{Lookup, MultiTable};
use super::{PaperOptions, Point};
use crate::affine::Affine;
use crate::fit::{Freedom, fit};
use koel::Stream;
use std::ops::RangeInclusive;

/// Allowed factors of areas: a model that shrinks to a spot would match any edge.
const SIZES: RangeInclusive<f32> = 0.2..=5.0;

/// Map that chance does not explain.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Verified {
    /// Map from model to scene.
    pub map: Affine,
    /// Mapped model points with a scene point close by.
    pub inliers: Vec<Point>,
    /// Improbability of chance: minus the logarithm of its bound, in nats.
    pub evidence: f32,
    /// Root mean square of the inliers' distances, in pixels.
    pub rmse: f32,
}

/// Scene points hashed into cells as wide as the inlier distance.
struct SpatialHash<'a> {
    points: &'a [Point],
    table: MultiTable,
    cell: f32,
}
impl SpatialHash<'_> {
    fn new<'a>(stream: &Stream, points: &'a [Point], cell: f32) -> koel::Result<SpatialHash<'a>> {
        let pairs =
            (0..).zip(points).map(|(i, &p)| (key(p, cell, 0, 0), i)).collect::<Vec<(u32, u32)>>();
        Ok(SpatialHash { points, table: MultiTable::build(stream, &pairs, Lookup::Hash)?, cell })
    }
    /// Pairs each place with its closest point within a cell. A point that is closest to several
    /// places is paired with the nearest of them.
    fn partners(&self, places: &[Point]) -> koel::Result<Vec<(usize, Point)>> {
        let around = |&p: &Point| (-1..=1).flat_map(move |dx| (-1..=1).map(move |dy| (p, dx, dy)));
        let keys = places
            .iter()
            .flat_map(around)
            .map(|(p, dx, dy)| key(p, self.cell, dx, dy))
            .collect::<Vec<u32>>();
        let values = self.table.get(&keys)?;
        let closest = |(place, values): (usize, &[&[u32]])| {
            let off = |i: u32| {
                let (p, q) = (places[place], self.points[i as usize]);
                ((q.0 - p.0).hypot(q.1 - p.1), i, place)
            };
            let near = values
                .iter()
                .flat_map(|v| v.iter())
                .map(|&i| off(i))
                .filter(|(d, ..)| *d <= self.cell);
            near.min_by(|a, b| a.0.total_cmp(&b.0))
        };
        let mut all = values
            .chunks_exact(9)
            .enumerate()
            .filter_map(closest)
            .collect::<Vec<(f32, u32, usize)>>();
        all.sort_by(|a, b| a.1.cmp(&b.1).then(a.0.total_cmp(&b.0)));
        all.dedup_by_key(|(_, point, _)| *point);
        Ok(all.into_iter().map(|(_, point, place)| (place, self.points[point as usize])).collect())
    }
}
/// Returns the key of the cell at offset `dx`, `dy` from a point's own.
fn key((x, y): Point, cell: f32, dx: i32, dy: i32) -> u32 {
    let at = |v: f32, d: i32| ((v / cell).floor() as i32).wrapping_add(d) as u16 as u32;
    at(y, dy) << 16 | at(x, dx)
}

/// Returns Chernoff's bound on the natural logarithm of the probability that at least `k` of `n`
/// points are inliers, each with probability `p`.
fn log_chance(n: usize, k: usize, p: f64) -> f64 {
    let (n, part) = (n as f64, k as f64 / n as f64);
    if n == 0.0 || part <= p {
        return 0.0;
    }
    let term = |a: f64, b: f64| if a == 0.0 { 0.0 } else { a * (a / b).ln() };
    -n * (term(part, p) + term(1.0 - part, 1.0 - p))
}

/// Returns the best of some maps, refined by least squares over its inliers; `None` if chance
/// explains it.
///
/// Chance model: model points fall anywhere, so the probability of being close to a scene point is
/// the share of the scene's extent covered by such places. The points that define a map are close
/// by construction and do not count. The candidates result from a comparison of `tried` maps: the
/// options' false-alarm rate bounds the probability that any of all these is accepted by chance.
pub(super) fn verify(
    stream: &Stream,
    model: &[Point],
    scene: &[Point],
    maps: &[Affine],
    tried: usize,
    options: &PaperOptions,
) -> koel::Result<Option<Verified>> {
    if maps.is_empty() || model.is_empty() || scene.is_empty() {
        return Ok(None);
    }
    let hash = SpatialHash::new(stream, scene, options.inlier)?;
    let inliers = |map: &Affine| -> koel::Result<Vec<(Point, Point)>> {
        let places = model.iter().map(|&p| map.apply(p)).collect::<Vec<Point>>();
        Ok(hash.partners(&places)?.into_iter().map(|(place, q)| (model[place], q)).collect())
    };
    let mut best: Option<Verified> = None;
    for &map in maps.iter().filter(|m| SIZES.contains(&m.determinant())) {
        let (mut map, mut pairs) = (map, inliers(&map)?);
        for _ in 0..4 {
            let Some(closer) =
                fit(options.freedom, &pairs).filter(|m| SIZES.contains(&m.determinant()))
            else {
                break;
            };
            let next = inliers(&closer)?;
            if next.len() < pairs.len() {
                break;
            }
            (map, pairs) = (closer, next);
        }
        if best.as_ref().is_none_or(|b| pairs.len() > b.inliers.len()) {
            let square = |&(p, q): &(Point, Point)| {
                let (x, y) = map.apply(p);
                (x - q.0).powi(2) + (y - q.1).powi(2)
            };
            let rmse = (pairs.iter().map(square).sum::<f32>() / pairs.len().max(1) as f32).sqrt();
            let inliers = pairs.iter().map(|&(p, _)| map.apply(p)).collect();
            best = Some(Verified { map, inliers, evidence: 0.0, rmse });
        }
    }
    let extent = |of: fn(&Point) -> f32| {
        let ends =
            scene.iter().map(of).fold((f32::MAX, f32::MIN), |(a, b), v| (a.min(v), b.max(v)));
        (ends.1 - ends.0 + 2.0 * options.inlier) as f64
    };
    let area = std::f64::consts::PI * (options.inlier as f64).powi(2);
    let p = (scene.len() as f64 * area / (extent(|p| p.0) * extent(|p| p.1))).clamp(1e-6, 0.99);
    let fixed = if options.freedom == Freedom::Affine { 3 } else { 2 };
    Ok(best.and_then(|b| {
        let (points, inliers) =
            (model.len().checked_sub(fixed)?, b.inliers.len().checked_sub(fixed)?);
        let chance = log_chance(points, inliers, p) + (tried as f64).ln();
        (chance < options.false_alarm.ln()).then_some(Verified { evidence: -chance as f32, ..b })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chernoff_bounds_the_binomial_tail() {
        let choose =
            |n: usize, k: usize| (0..k).fold(1.0, |c, i| c * (n - i) as f64 / (i + 1) as f64);
        for (n, p) in [(10, 0.1), (30, 0.3), (50, 0.05)] {
            for k in 0..=n {
                let tail = (k..=n).map(|j| {
                    choose(n, j) * f64::powi(p, j as i32) * f64::powi(1.0 - p, (n - j) as i32)
                });
                assert!(tail.sum::<f64>().ln() <= log_chance(n, k, p) + 1e-9, "{n} {k} {p}");
            }
        }
    }
}

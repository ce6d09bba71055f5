//! Normals for points that have none.

mod field;
mod growth;
mod hull;
mod orient;
mod plane;
mod sheets;
mod sides;

use koel::Device;
use rayon::prelude::*;
use thiserror::Error;

use crate::key::Order;
use crate::search::{SearchError, SpatialHash};
use growth::Graph;
use orient::Surface;
use plane::Fit;
use sides::Sides;
use std::f64::consts::PI;

/// Minimum number of neighbours for fitting a plane, including the point itself.
pub const MIN_NEIGHBOURS: usize = 3;

/// Options of the estimation of normals.
#[derive(Clone, Debug, PartialEq)]
pub struct NormalOptions {
    /// Least number of points that a plane is fitted to, including the point itself: at least
    /// [`MIN_NEIGHBOURS`]. More neighbours smooth out noise, but edges as well.
    pub neighbours: usize,
    /// Whether to fit planes to more points where noise requires it: until the normal's standard
    /// error is 0.03 radians, as long as the variance across the plane grows no more than that of
    /// noise, and up to 128 times as many.
    pub grow: bool,
    /// Side that a normal points to.
    pub orientation: Orientation,
    /// Direction from which parts that are not closed were seen, such as +z for scans from the air,
    /// if it is known. Only used by [`Orientation::Outwards`].
    pub open_towards: Option<[f32; 3]>,
}

koel::option_setters! { NormalOptions:
    neighbours by with_neighbours: usize;
    grow by with_grow: bool;
    orientation by with_orientation: Orientation;
    open_towards by with_open_towards: Option<[f32; 3]>;
}

impl Default for NormalOptions {
    /// Returns 16 neighbours and outward normals.
    fn default() -> Self {
        let orientation = Orientation::Outwards;
        NormalOptions { neighbours: 16, grow: true, orientation, open_towards: None }
    }
}

/// Side that a normal points to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Orientation {
    /// Out of the solid whose surface the points sample, for clouds taken from all around.
    ///
    /// Signs propagate along a minimum spanning tree of the neighbour graph (Hoppe et al. 1992).
    /// Hoppe et al. compare two normals directly; here one of them is first mirrored in the plane
    /// half-way between the points, which are moved onto their planes. Thus signs propagate around
    /// edges and in noise, and the two sides of a thin wall or a narrow gap come out opposed. The
    /// tree ends where planes do not fit; the patches that result are joined by the votes of all
    /// edges between them. Patches that are closed but for a small hole are not joined with each
    /// other, so that solids that touch stay apart.
    ///
    /// Each part that results is oriented outwards by the sign of its volume if it is closed: if it
    /// has at least 100 points, its normals, times area, sum to less than 0.1 of its area, and its
    /// volume is at least 0.1 of that of a ball of its area. Of the 64 largest closed parts, those
    /// in an odd number of others are cavities and point inwards; a solid inside a solid looks the
    /// same.
    ///
    /// Other parts are open. They point to the side from which they were seen, if
    /// [`NormalOptions::open_towards`] tells it: each normal by itself, unless it is within 10
    /// degrees of perpendicular to that direction, where its part decides. Otherwise they point to
    /// the side from which more of the part is seen in all directions, such as the outside of half
    /// a sphere; the inside of a room that was scanned from within comes out inverted. Sides that
    /// differ by less than a tenth of all directions, as those of a landscape, are undecided: then
    /// normals point along +z in mean, or along +y or +x if z is less than 0.02 of the mean.
    ///
    /// Where noise is more than half the distance between points, opposite walls that are closer
    /// than a few standard deviations of it get one plane. The winding numbers on both sides of the
    /// plane then tell a thin wall from a narrow gap, and the side of the plane that a point is on
    /// tells to which wall it belongs. Points closer to the plane than noise stay uncertain.
    Outwards,
    /// Into the half-space that contains this point: for scans taken from one position, from
    /// outside a solid or inside a room. None of the points may be there.
    Towards([f32; 3]),
    /// As the fit returns it.
    Unoriented,
}

/// Normals and a report of their estimation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NormalEstimate {
    /// Unit normal of each point.
    pub normals: Vec<[f32; 3]>,
    /// Report of the estimation.
    pub report: NormalReport,
}

/// Report of the estimation of normals.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct NormalReport {
    /// Least number of points that a plane was fitted to.
    pub neighbours: usize,
    /// Points whose neighbours are collinear or coincide. Their normals are perpendicular to the
    /// line, or +z, and carry no information.
    pub undetermined: usize,
    /// Parts that were oriented outwards separately; 0 if signs were not propagated.
    pub parts: usize,
    /// Closed parts that face inward because an odd number of other parts contains them.
    pub cavities: usize,
    /// Points of parts that are not closed or have fewer than 100 points.
    pub open_points: usize,
    /// Of these, points of parts whose sides are seen alike: their outside is a convention. 0 with
    /// [`NormalOptions::open_towards`].
    pub undecided_points: usize,
    /// Points whose plane passes within 3 degrees of the viewpoint, so that either side may face
    /// it; 0 without one.
    pub grazing: usize,
    /// Side of the cells of the neighbour search.
    pub cell_size: f64,
}

/// Reason why normals cannot be estimated.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NormalError {
    /// There are fewer points than a plane needs.
    #[error(
        "{points} points are too few for normals from {neighbours} neighbours each: expected \
         at least {MIN_NEIGHBOURS}"
    )]
    TooFew {
        /// Number of points.
        points: usize,
        /// Requested neighbours.
        neighbours: usize,
    },
    /// Fewer neighbours were requested than a plane needs.
    #[error(
        "normals from {neighbours} neighbours were requested, expected at least {MIN_NEIGHBOURS}"
    )]
    Neighbours {
        /// Requested neighbours.
        neighbours: usize,
    },
    /// The viewpoint that normals are to face is not finite.
    #[error("normals towards {found:?} were requested, expected finite coordinates")]
    Viewpoint {
        /// Requested viewpoint.
        found: [f32; 3],
    },
    /// The direction from which open parts were seen is zero or not finite.
    #[error("open parts seen from direction {found:?} were stated, expected a finite, nonzero one")]
    Direction {
        /// Stated direction.
        found: [f32; 3],
    },
    /// A point is at the viewpoint, which it cannot face.
    #[error("point {point} is at the viewpoint {viewpoint:?}, expected none there")]
    AtViewpoint {
        /// Index of the first such point.
        point: usize,
        /// Requested viewpoint.
        viewpoint: [f32; 3],
    },
    /// The neighbour search failed.
    #[error(transparent)]
    Search(#[from] SearchError),
}

/// Queries per search: bounds the memory for distances of neighbours.
const TURN: usize = 1 << 18;

/// Estimates a unit normal for each point. Neighbours are searched on the device; planes are fitted
/// on the host's threads.
///
/// The normal of a point is that of the plane that best fits its k nearest points: the eigenvector
/// of the least eigenvalue of their covariance (H. Hoppe, T. DeRose, T. Duchamp, J. McDonald, W.
/// Stuetzle: Surface reconstruction from unorganized points, 1992). Where noise makes that plane
/// uncertain, it is fitted to more points ([`NormalOptions::grow`]). This leaves the sign open;
/// [`Orientation`] determines it. Neighbours come from a [`SpatialHash`].
///
/// ```
/// use koel_spatial::{NormalOptions, estimate_normals};
///
/// let plane: Vec<[f32; 3]> = (0..100).map(|i| [(i % 10) as f32, (i / 10) as f32, 5.0]).collect();
/// let estimate = estimate_normals(&koel::Device::cpu()?, &plane, &NormalOptions::default())?;
/// assert!(estimate.normals.iter().all(|n| n[2] > 0.999));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Points are sorted by their place first, so that neighbours are close in memory.
///
/// Memory: 4 bytes per neighbour of each point, some 400 bytes per point while neighbourhoods grow,
/// and 32 per edge for [`Orientation::Outwards`]. Time: the search, half a microsecond per point
/// for the planes, as much for each doubling, a third of it for each step of growth, and a sort of
/// the edges: 0.6 to 1.9 seconds of one core for 160,000 points. The normals are the same in every
/// run and on every device.
///
/// # Errors
/// [`NormalError`]: fewer than three points or neighbours, coordinates that are not finite, or out
/// of memory.
pub fn estimate_normals(
    device: &Device,
    positions: &[[f32; 3]],
    options: &NormalOptions,
) -> Result<NormalEstimate, NormalError> {
    let (points, neighbours) = (positions.len(), options.neighbours);
    if neighbours < MIN_NEIGHBOURS {
        return Err(NormalError::Neighbours { neighbours });
    }
    if points < MIN_NEIGHBOURS {
        return Err(NormalError::TooFew { points, neighbours });
    }
    if let Orientation::Towards(viewpoint) = options.orientation {
        check_viewpoint(positions, viewpoint)?;
    }
    let open_towards = options.open_towards.map(unit).transpose()?;
    let order = order(positions);
    let sorted: Vec<[f32; 3]> = order.iter().map(|&i| positions[i as usize]).collect();
    let positions = &sorted[..];
    let hash = SpatialHash::build_for_nearest(device, positions, neighbours)?;
    let k = neighbours.min(points);
    let (mut fits, indices) = nearest_planes(&hash, positions, k)?;
    let undetermined = fits.iter().filter(|fit| !fit.determined).count();
    let graph = Graph { positions, indices: &indices, k };
    let areas = areas(&fits, k);
    if options.grow {
        growth::grow(graph, &mut fits);
    }
    let mut normals: Vec<[f64; 3]> = fits.iter().map(|fit| fit.normal).collect();
    let (mut parts, mut sides, mut grazing) = (0, Sides::default(), 0);
    match options.orientation {
        Orientation::Unoriented => {}
        Orientation::Towards(viewpoint) => {
            grazing = orient::towards(positions, viewpoint, &mut normals);
        }
        Orientation::Outwards => {
            let smooth = positions.iter().zip(&fits).map(|(p, fit)| on_plane(*p, fit)).collect();
            let surface = Surface { positions: smooth, fits: &fits, graph: &indices, k };
            let found = orient::propagate(&surface, &areas);
            sides = sides::outwards(&surface.positions, &areas, &found, open_towards, &mut normals);
            let is_closed = |i: usize| sides.closed[found.part_of[i] as usize];
            sheets::mend(&surface, &areas, is_closed, &mut normals);
            parts = found.count;
        }
    }
    let report = NormalReport {
        neighbours: k,
        undetermined,
        parts,
        cavities: sides.cavities,
        open_points: sides.open_points,
        undecided_points: sides.undecided_points,
        grazing,
        cell_size: hash.cell_size(),
    };
    let mut in_order = vec![[0.0; 3]; points];
    for (&i, normal) in order.iter().zip(normals) {
        in_order[i as usize] = normal.map(|c| c as f32);
    }
    Ok(NormalEstimate { normals: in_order, report })
}

/// Returns the indices of the points along a Morton curve. Those in one of 2^63 cells keep their
/// order.
fn order(positions: &[[f32; 3]]) -> Vec<u32> {
    const CELLS: f64 = (1u32 << 21) as f64;
    let bound = |fold: fn(f32, f32) -> f32, from: f32| {
        positions.iter().fold([from; 3], |all, p| [0, 1, 2].map(|a| fold(all[a], p[a])))
    };
    let (min, max) = (bound(f32::min, f32::INFINITY), bound(f32::max, f32::NEG_INFINITY));
    let longest = (0..3).map(|a| f64::from(max[a]) - f64::from(min[a])).fold(0.0, f64::max);
    let scale = (CELLS - 1.0) / longest.max(f64::MIN_POSITIVE);
    let key = |p: &[f32; 3]| {
        let cell = |a: usize| (scale * (f64::from(p[a]) - f64::from(min[a]))) as u32;
        Order::Morton.pack::<u64>([0, 1, 2].map(|a| cell(a).min(CELLS as u32 - 1)))
    };
    let mut keys: Vec<(u64, u32)> = positions.iter().map(key).zip(0..).collect();
    keys.par_sort_unstable();
    keys.into_iter().map(|(_, i)| i).collect()
}

/// Returns the plane and the `k` neighbours of each point.
fn nearest_planes(
    hash: &SpatialHash,
    positions: &[[f32; 3]],
    k: usize,
) -> Result<(Vec<Fit>, Vec<u32>), NormalError> {
    let mut fits = Vec::with_capacity(positions.len());
    let mut indices = Vec::with_capacity(positions.len() * k);
    for (turn, queries) in positions.chunks(TURN).enumerate() {
        let nearest = hash.nearest(queries, k)?;
        let near = nearest.indices().par_chunks(k).enumerate();
        fits.par_extend(near.map(|(i, near)| plane::fit(positions, turn * TURN + i, near)));
        indices.extend_from_slice(nearest.indices());
    }
    Ok((fits, indices))
}

/// Returns the unit vector of this direction. Errors: it has none.
fn unit(direction: [f32; 3]) -> Result<[f64; 3], NormalError> {
    let wide = direction.map(f64::from);
    let length = wide.iter().map(|c| c * c).sum::<f64>().sqrt();
    match length > 0.0 && length.is_finite() {
        true => Ok(wide.map(|c| c / length)),
        false => Err(NormalError::Direction { found: direction }),
    }
}

fn check_viewpoint(positions: &[[f32; 3]], viewpoint: [f32; 3]) -> Result<(), NormalError> {
    if !viewpoint.iter().all(|c| c.is_finite()) {
        return Err(NormalError::Viewpoint { found: viewpoint });
    }
    match positions.iter().position(|p| *p == viewpoint) {
        Some(point) => Err(NormalError::AtViewpoint { point, viewpoint }),
        None => Ok(()),
    }
}

/// Returns the median of some values, the upper one of two.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
/// Returns the area that each point stands for. Outliers count no more than other points.
fn areas(fits: &[Fit], k: usize) -> Vec<f64> {
    /// Greatest area, in medians: that of points sixteen times as sparse as most.
    const SPARSE: f64 = 16.0;
    let most = SPARSE * median(fits.iter().map(|fit| fit.along));
    // The variance of a disk along its plane is a quarter of its squared radius.
    let of = |fit: &Fit| if fit.along <= most { 4.0 * PI * fit.along / k as f64 } else { 0.0 };
    fits.iter().map(of).collect()
}

/// Returns the position, moved onto its plane.
fn on_plane(p: [f32; 3], fit: &Fit) -> [f64; 3] {
    let off = (0..3).map(|a| fit.centre[a] * fit.normal[a]).sum::<f64>();
    std::array::from_fn(|a| f64::from(p[a]) + off * fit.normal[a])
}

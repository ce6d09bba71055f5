//! Normals for points that have none.

mod growth;
mod orient;
mod plane;
mod sides;

use koel::Device;
use rayon::prelude::*;
use thiserror::Error;

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
#[non_exhaustive]
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
}

koel::option_setters! { NormalOptions:
    neighbours by with_neighbours: usize;
    grow by with_grow: bool;
    orientation by with_orientation: Orientation;
}

impl Default for NormalOptions {
    /// Returns 16 neighbours and outward normals.
    fn default() -> Self {
        NormalOptions { neighbours: 16, grow: true, orientation: Orientation::Outwards }
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
    /// Each part that results is oriented outwards by the sign of its volume, if it has at least
    /// 100 points and its normals, times area, sum to less than 0.1 of its area: then it is closed.
    /// Of the 64 largest closed parts, those in an odd number of others are cavities and point
    /// inwards; a solid inside a solid looks the same. Other parts are oriented by their outermost
    /// points along +z, +y, +x, -z, -y, -x: the one whose normal is closest to its axis points
    /// outwards. Cosines within 0.02 count as equal, and the first of them wins.
    ///
    /// Signs are wrong where opposite walls are closer than noise and spacing: their points get one
    /// plane.
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
    /// Points of parts that are not closed or have fewer than 100 points: their outside is a
    /// convention.
    pub open_points: usize,
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
/// Memory: 4 bytes per neighbour of each point, some 400 bytes per point while neighbourhoods grow,
/// and 32 per edge for [`Orientation::Outwards`]. Time: the search, about a microsecond per point
/// for the planes, as much for each doubling and a tenth of it for each step of growth, and a sort
/// of the edges: 0.8 to 3 seconds of one core for 160,000 points. The normals are the same in every
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
    let hash = SpatialHash::build_for_nearest(device, positions, neighbours)?;
    let k = neighbours.min(points);
    let mut fits = Vec::with_capacity(points);
    let mut indices = Vec::with_capacity(points * k);
    for (turn, queries) in positions.chunks(TURN).enumerate() {
        let nearest = hash.nearest(queries, k)?;
        let near = nearest.indices().par_chunks(k).enumerate();
        fits.par_extend(near.map(|(i, near)| plane::fit(positions, turn * TURN + i, near)));
        indices.extend_from_slice(nearest.indices());
    }
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
            sides = sides::outwards(&surface.positions, &areas, &found, &mut normals);
            parts = found.count;
        }
    }
    let normals = normals.into_iter().map(|n| n.map(|c| c as f32)).collect();
    let report = NormalReport {
        neighbours: k,
        undetermined,
        parts,
        cavities: sides.cavities,
        open_points: sides.open_points,
        grazing,
        cell_size: hash.cell_size(),
    };
    Ok(NormalEstimate { normals, report })
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

/// Returns the area that each point stands for. Outliers count no more than other points.
fn areas(fits: &[Fit], k: usize) -> Vec<f64> {
    /// Greatest area, in medians: that of points sixteen times as sparse as most.
    const SPARSE: f64 = 16.0;
    let mut along: Vec<f64> = fits.iter().map(|fit| fit.along).collect();
    let middle = along.len() / 2;
    let most = SPARSE * *along.select_nth_unstable_by(middle, f64::total_cmp).1;
    // The variance of a disk along its plane is a quarter of its squared radius.
    let of = |fit: &Fit| if fit.along <= most { 4.0 * PI * fit.along / k as f64 } else { 0.0 };
    fits.iter().map(of).collect()
}

/// Returns the position, moved onto its plane.
fn on_plane(p: [f32; 3], fit: &Fit) -> [f64; 3] {
    let off = (0..3).map(|a| fit.centre[a] * fit.normal[a]).sum::<f64>();
    std::array::from_fn(|a| f64::from(p[a]) + off * fit.normal[a])
}

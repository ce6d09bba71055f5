//! Normals for points that have none.

mod orient;
mod plane;

use koel::Device;
use rayon::prelude::*;
use thiserror::Error;

use crate::search::{SearchError, SpatialHash};

/// Minimum number of neighbours for fitting a plane, including the point itself.
pub const MIN_NEIGHBOURS: usize = 3;

/// Options of the estimation of normals.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NormalOptions {
    /// Points that a plane is fitted to, including the point itself: at least [`MIN_NEIGHBOURS`].
    /// More neighbours smooth out noise, but edges as well.
    pub neighbours: usize,
    /// Side that a normal points to.
    pub orientation: Orientation,
}

koel::option_setters! { NormalOptions:
    neighbours by with_neighbours: usize;
    orientation by with_orientation: Orientation;
}

impl Default for NormalOptions {
    /// Returns 16 neighbours and outward normals.
    fn default() -> Self {
        NormalOptions { neighbours: 16, orientation: Orientation::Outwards }
    }
}

/// Side that a normal points to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Orientation {
    /// Out of the solid whose surface the points sample, for clouds taken from all around.
    ///
    /// Signs propagate along a minimum spanning tree of the neighbour graph (Hoppe et al. 1992).
    /// Hoppe et al. compare two normals directly; here one of them is first mirrored in the plane
    /// half-way between the points. Thus signs propagate around edges, and the two sides of a thin
    /// wall or a narrow gap come out opposed. A graph edge costs 1 - |cosine|.
    ///
    /// Each connected component of the graph is oriented by its outermost points along +z, +y, +x,
    /// -z, -y, -x: the one whose normal is closest to its axis points outwards. Cosines within 0.02
    /// count as equal, and the first of them wins. An inner wall that is not connected to the outer
    /// one is a component of its own and also points outwards.
    Outwards,
    /// Into the half-space that contains this point: for scans taken from one position.
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
    /// Points that each plane was fitted to.
    pub neighbours: usize,
    /// Points whose neighbours are collinear or coincide. Their normals are perpendicular to the
    /// line, or +z, and carry no information.
    pub undetermined: usize,
    /// Connected components of the neighbour graph, each oriented outwards separately; 0 if signs
    /// were not propagated.
    pub parts: usize,
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
/// Stuetzle: Surface reconstruction from unorganized points, 1992). This leaves the sign open;
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
/// Memory: 4 bytes per neighbour of each point, plus 12 per edge for [`Orientation::Outwards`].
/// Time: the search, about a microsecond per point for the planes, and a sort of the edges. The
/// normals are the same in every run and on every device.
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
    if let Orientation::Towards(found) = options.orientation
        && !found.iter().all(|c| c.is_finite())
    {
        return Err(NormalError::Viewpoint { found });
    }
    let hash = SpatialHash::build_for_nearest(device, positions, neighbours)?;
    let k = neighbours.min(points);
    let mut fitted = Vec::with_capacity(points);
    let mut graph = Vec::with_capacity(points * k);
    for queries in positions.chunks(TURN) {
        let nearest = hash.nearest(queries, k)?;
        fitted.par_extend(nearest.indices().par_chunks(k).map(|near| plane::fit(positions, near)));
        graph.extend_from_slice(nearest.indices());
    }
    let undetermined = fitted.iter().filter(|fit| !fit.determined).count();
    let mut normals: Vec<[f64; 3]> = fitted.into_iter().map(|fit| fit.normal).collect();
    let parts = match options.orientation {
        Orientation::Unoriented => 0,
        Orientation::Towards(viewpoint) => {
            orient::towards(positions, viewpoint, &mut normals);
            0
        }
        Orientation::Outwards => orient::outwards(positions, &graph, k, &mut normals),
    };
    let normals = normals.into_iter().map(|n| n.map(|c| c as f32)).collect();
    let report = NormalReport { neighbours: k, undetermined, parts, cell_size: hash.cell_size() };
    Ok(NormalEstimate { normals, report })
}

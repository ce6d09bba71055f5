//! Normals of points that came without them.
//!
//! The normal of a point is that of the plane that fits its k nearest points best: the eigenvector
//! of the least eigenvalue of their covariance (H. Hoppe, T. DeRose, T. Duchamp, J. McDonald, W.
//! Stuetzle: Surface reconstruction from unorganized points, 1992). That leaves its sign open;
//! [`Orientation`] settles it. Neighbours come from a [`SpatialHash`].
//!
//! ```
//! use koel_spatial::{NormalOptions, estimate_normals};
//!
//! let plane: Vec<[f32; 3]> = (0..100).map(|i| [(i % 10) as f32, (i / 10) as f32, 5.0]).collect();
//! let estimate = estimate_normals(&koel::Device::cpu()?, &plane, &NormalOptions::default())?;
//! assert!(estimate.normals.iter().all(|n| n[2] > 0.999));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod orient;
mod plane;

use koel::Device;
use rayon::prelude::*;
use thiserror::Error;

use crate::search::{SearchError, SpatialHash};

/// The fewest neighbours that a plane is fitted to, the point itself among them.
pub const MIN_NEIGHBOURS: usize = 3;

/// How normals are estimated.
#[derive(Clone, Debug, PartialEq)]
pub struct NormalOptions {
    /// Points that a plane is fitted to, the point itself among them: at least [`MIN_NEIGHBOURS`].
    /// More smooth out noise, and edges with it.
    pub neighbours: usize,
    /// Which of the two sides a normal points to.
    pub orientation: Orientation,
}

impl Default for NormalOptions {
    /// 16 neighbours, outwards.
    fn default() -> Self {
        NormalOptions { neighbours: 16, orientation: Orientation::Outwards }
    }
}

/// Which of the two sides a normal points to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Orientation {
    /// Out of the solid that the points are the surface of, for clouds from all around.
    ///
    /// Signs spread along a minimum spanning tree of the graph of neighbours (Hoppe et al. 1992).
    /// Where they compare two normals as they are, here one of them is first mirrored in the
    /// plane half-way between the points: so signs pass round edges, and the two sides of a
    /// thin wall or of a narrow gap come out opposed. An edge costs 1 - |cosine|.
    ///
    /// Each connected part of the graph is turned so that, of its outermost points along +z, +y,
    /// +x, -z, -y, -x, the one whose normal lies closest to that axis looks outwards; the first
    /// of about equals (cosines 0.02 apart) counts. An inner wall that no neighbour joins to
    /// the outer one is a part of its own, and is turned outwards too.
    Outwards,
    /// To the half-space that holds this point: for scans taken from one place.
    Towards([f32; 3]),
    /// As the fit leaves it.
    Unoriented,
}

/// Normals, and how their estimation went.
#[derive(Clone, Debug, PartialEq)]
pub struct NormalEstimate {
    /// A unit normal for each point.
    pub normals: Vec<[f32; 3]>,
    /// How it went.
    pub report: NormalReport,
}

/// How the estimation of normals went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NormalReport {
    /// Points that each plane was fitted to.
    pub neighbours: usize,
    /// Points whose neighbours lie on a line, or all in one place: their normals are perpendicular
    /// to the line, or +z, and say nothing.
    pub undetermined: usize,
    /// Parts of the cloud that no neighbour joins, each turned outwards by itself; 0 where signs
    /// were not spread.
    pub parts: usize,
    /// Side of the cells that neighbours were searched in.
    pub cell_size: f64,
}

/// Why normals cannot be estimated.
#[derive(Debug, Error)]
pub enum NormalError {
    /// Fewer points than a plane takes.
    #[error(
        "{points} points are too few for normals from {neighbours} neighbours each: expected at least {MIN_NEIGHBOURS}"
    )]
    TooFew {
        /// Points there are.
        points: usize,
        /// Neighbours asked for.
        neighbours: usize,
    },
    /// Fewer neighbours asked for than a plane takes.
    #[error(
        "normals from {neighbours} neighbours were asked for, expected at least {MIN_NEIGHBOURS}"
    )]
    Neighbours {
        /// Neighbours asked for.
        neighbours: usize,
    },
    /// The point that normals are to look at is not finite.
    #[error("normals towards {found:?} were asked for, expected finite coordinates")]
    Viewpoint {
        /// The point.
        found: [f32; 3],
    },
    /// Neighbours cannot be searched.
    #[error(transparent)]
    Search(#[from] SearchError),
}

/// Queries of one turn: bounds the memory of neighbours' distances.
const TURN: usize = 1 << 18;

/// Estimates a unit normal for each point. Neighbours are searched on the device, planes are fitted
/// on the host's threads.
///
/// Memory: 4 bytes a neighbour of each point, and for [`Orientation::Outwards`] 12 more for each
/// edge. Time: the search, about a microsecond a point for the planes, and a sort of the edges. The
/// same normals in every run and on every device.
///
/// # Errors
/// [`NormalError`]: fewer than three points or neighbours, coordinates that are not finite, out of
/// memory.
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

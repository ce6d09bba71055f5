//! Voxelization, neighbour search, normals and intersection of scans.
//!
//! Voxel keys lead from a file (PLY, PCD, OBJ, STL, OFF, XYZ, LAS, LAZ, E57, glTF) to the distinct
//! integer keys of the voxels that its surface touches. [`SpatialHash`] finds neighbours of points;
//! [`estimate_normals`] computes their normals.
//!
//! [Read](koel_scans) a file into a [`Mesh`] or a [`PointCloud`]; choose a [`Grid`] and an
//! [`Order`] of its voxels; collect the distinct keys ([`mesh_keys`], [`cloud_keys`]). Triangles
//! are [sampled](mod@sample) so densely that the voxel surface has no holes. [`mod@intersect`] puts
//! two clouds against each other, frame by frame.
//!
//! ```
//! use koel_spatial::{Bounds, Grid, Order, mesh_keys, read};
//!
//! let text = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n";
//! let mesh = read::parse_obj(text)?.into_mesh()?;
//! let grid = Grid::enclosing(Bounds::of(&mesh.positions)?, 64)?;
//! let keys: Vec<u32> = mesh_keys(&mesh, &grid, Order::RowMajor)?;
//! assert!(keys.is_sorted());
//! let voxel = Order::RowMajor.decode(keys[0]);
//! assert!(voxel.iter().all(|&v| v < 64));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Readers and voxel keys run on the host, parallelized with rayon; searches and intersections run
//! on a [`koel::Device`]. Results do not depend on the number of threads.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod forest;
mod grid;
pub mod intersect;
mod key;
mod normals;
mod orientation;
pub mod sample;
mod search;
mod thickness;
mod vector;
mod voxelize;

pub use grid::{Grid, GridError, MAX_RESOLUTION};
pub use key::{KeyError, Order, VoxelKey};
pub use koel_scans as read;
pub use koel_scans::{
    Bounds, BoundsError, DeformingMesh, Format, Mesh, MeshAnimation, PointCloud, ReadError,
    ReadReport, Scan, read, read_cloud, read_mesh, read_oriented_cloud,
};
pub use normals::{
    MIN_NEIGHBOURS, NormalError, NormalEstimate, NormalOptions, NormalReport, Orientation,
    estimate_normals,
};
pub use orientation::{
    CloudOrientation, CloudParts, MeshOrientation, MeshSolids, Part, Solid, cloud_orientation,
    cloud_parts, mesh_orientation, mesh_solids,
};
pub use search::{Nearest, Neighbours, SearchError, SpatialHash};
pub use thickness::{Thinness, thinness};
pub use voxelize::{VoxelError, cloud_keys, mesh_keys};

/// Runs the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

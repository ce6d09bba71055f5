//! Strict readers for PLY, PCD, OBJ, STL, OFF, XYZ, LAS, LAZ, E57 and glTF files.
//!
//! A reader accepts or rejects a file as a whole. A [`ReadError`] names the file, the line (text)
//! or byte (binary), and the expected and found values. The only exception are points of a cloud
//! that are not finite: they are dropped and counted. Content other than points and triangles is
//! not kept, but [noted](ReadReport::notes). Files may be untrusted: no input makes a reader panic
//! or hang, and memory stays within a multiple of the file's size (below 300 bytes per byte and 3
//! MB for compressed data, a few bytes otherwise), whatever counts the header claims. Only the
//! nodes of a glTF file can show a mesh many times, up to a limit ([`parse_gltf`]).
//!
//! [`read()`] tells the format and returns a [`Scan`]: a [`Mesh`], or a [`PointCloud`] with or
//! without normals. [`Bounds`] are the box around its points.
//!
//! ```
//! let text = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n";
//! let scan = koel_scans::parse(text, Some("obj"))?;
//! assert_eq!(scan.bounds()?.max(), [1.0; 3]);
//! assert_eq!(scan.into_mesh()?.triangles.len(), 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Most readers are written from scratch; crates for the formats (`ply-rs-bw`, `tobj`, `pcd-rs`,
//! `stl_io`, `las`, `gltf`) serve as oracles in the tests. `docs/readers.md` of the repository has
//! what each of them does with damaged and hostile files. External are only the arithmetic decoder
//! of LAZ (the crate `laz` is given one chunk at a time, after the sizes in the chunk have been
//! checked against the file), E57 (the crate `e57`), JSON and base64 of glTF, and the division of
//! concave faces (the crate `earcut`).
#![cfg_attr(docsrs, feature(doc_cfg))]

mod assembly;
mod bounds;
mod detect;
#[cfg(feature = "e57")]
mod e57;
mod error;
mod gltf;
mod las;
mod mesh;
mod names;
mod obj;
mod off;
mod pcd;
mod ply;
mod polygon;
mod positions;
mod read;
mod report;
mod scan;
mod spanned;
mod stl;
mod xyz;

pub use bounds::{Bounds, BoundsError};
pub use error::{ParseError, ParseErrorKind, Place, ReadError};
pub use gltf::{DeformingMesh, MeshAnimation, parse_gltf};
pub use las::parse_las;
pub use mesh::{Mesh, PointCloud};
pub use obj::parse_obj;
pub use off::parse_off;
pub use pcd::parse_pcd;
pub use ply::parse_ply;
pub use read::{parse, parse_e57, read, read_cloud, read_mesh, read_oriented_cloud};
pub use report::{Format, ReadNote, ReadReport};
pub use scan::Scan;
pub use stl::parse_stl;
pub use xyz::parse_xyz;

/// Runs the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

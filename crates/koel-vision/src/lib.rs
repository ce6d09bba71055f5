//! Finds an image inside another, from edges alone.
//!
//! The modules follow the data:
//!
//! * [`picture`]: file to luminance, on the host
//! * [`edges`]: luminance to oriented edge points, and an even selection of them, by kernels (on
//!   the CPU row by row)
//! * [`maps`]: a scene's edges to per-pixel maps by direction, by kernels (on the CPU direction by
//!   direction)
//! * [`model`], [`scene`]: the data kept of either; a model on the host, a scene on the device
//! * [`bases`], [`table`], [`joint`]: pairs of model points under tilts, in a multi-value table
//!   keyed by their invariants, on the host
//! * [`vote`]: pairs of scene points look up bases, and each is tested on 32 points; one thread per
//!   point and strip
//! * [`mod@refine`]: candidates to affine maps that lie on edges; one thread per candidate
//! * [`matcher`]: the best candidate, and the decision whether the model is present, on the host
//!
//! All kernels are Rust ([`koel_kernels::vision`]), compiled to PTX for a GPU and checked on the
//! test executor; those of votes and refinement run natively on the CPU. Edges and maps are
//! stencils over whole rows, which SIMD computes about ten times as fast as one native thread per
//! pixel would. There the CPU uses separate code around the same per-pixel functions, and tests
//! check that the bytes are identical.
//!
//! [`paper`] is the published method, for comparison, based on edges or [`corners`]; [`models`]
//! stores many models in a file; [`synthetic`] generates pairs with known truth from photographs or
//! [`textures`].
//!
//! ```
//! use koel_vision::{Matcher, Model, Options, textures::texture};
//!
//! let (model, scene) = (texture(160, 120, 1), texture(300, 220, 2)); // or `read(path)?.grey`
//! let matcher = Matcher::new(&koel::Device::cpu()?, Options::default())?;
//! let outcome = matcher.find(&Model::of(&model)?, &matcher.scene(&scene)?)?;
//! assert_eq!(outcome.found, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod affine;
pub mod bases;
pub mod corners;
mod device;
pub mod edges;
pub mod fit;
pub mod joint;
pub mod maps;
pub mod matcher;
pub mod model;
pub mod models;
pub mod paper;
pub mod picture;
pub mod random;
pub mod refine;
pub mod scene;

pub mod synthetic;
pub mod table;
pub mod textures;
pub mod vote;

pub use affine::Affine;
pub use fit::{Freedom, fit};
pub use joint::JointTable;
pub use matcher::{Found, Matcher, Options, Outcome};
pub use model::Model;
pub use models::{Models, ModelsError};
pub use picture::{Grey, Picture, ReadError, read};
pub use scene::Scene;

/// Runs the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

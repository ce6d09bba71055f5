//! Finding an image inside another, from edges alone.
//!
//! The modules follow the data:
//!
//! | | | where it runs |
//! |---|---|---|
//! | [`picture`] | a file to luminance | host |
//! | [`edges`] | luminance to oriented edge points, and an even choice of them | kernels; on the CPU by rows |
//! | [`maps`] | a scene's edges to what they say of every pixel, by direction | kernels; on the CPU by directions |
//! | [`model`], [`scene`] | what is kept of either | a model: host; a scene: device |
//! | [`bases`], [`table`], [`joint`] | pairs of model points, under tilts, in a multi-value table by their invariants | host |
//! | [`vote`] | pairs of scene points look bases up; each is tried on 32 points | kernel, a thread a point and strip |
//! | [`mod@refine`] | candidates to affine maps that lie on edges | kernel, a thread a candidate |
//! | [`matcher`] | the best of them, and whether it is there at all | host |
//!
//! All kernels are Rust ([`koel_kernels::vision`]): PTX on a GPU, checked on the test executor;
//! those of votes and refinement native on the CPU. Edges and maps are stencils over whole rows,
//! which SIMD does about ten times as fast as one native thread a pixel would: there the CPU has
//! code of its own around the same functions of one pixel, and tests say that the bytes are the
//! same.
//!
//! [`paper`] is the published method, for comparison, by edges or by [`corners`]; [`models`] keeps
//! many models in a file; [`synthetic`] makes pairs of known truth, from photographs or from
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

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

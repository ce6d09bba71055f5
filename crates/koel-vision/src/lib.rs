//! Finds an image inside another by its edges, and compares luminance and colour.
//!
//! [`read`] a [`Picture`] (or make a [`Grey`] image of your own pixels), make a [`Model`] of the
//! image to be found, and let a [`Matcher`] search a [`Scene`] for it. The [`MatchOutcome`] has
//! the pose of the model, an [`Affine`] map, or says that the model is absent, and has the evidence
//! for either. [`JointTable`] searches for many models at once; [`Models`] stores them in a file.
//!
//! ```
//! use koel_vision::{Matcher, Model, Options, synthetic::texture};
//!
//! let (model, scene) = (texture(160, 120, 1), texture(300, 220, 2)); // or `read(path)?.grey`
//! let matcher = Matcher::new(&koel::Device::cpu()?, Options::default())?;
//! let outcome = matcher.find(&Model::of(&model)?, &matcher.scene(&scene)?)?;
//! assert_eq!(outcome.found, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`PointSet`] has the corners or the strongest edges of an image, for other methods.
//! [`synthetic`] generates images with known truth from photographs or textures.
//!
//! All kernels are Rust ([`koel_vision_kernels`]), compiled to PTX for a GPU and checked on the
//! test executor; those of votes and refinement run natively on the CPU. Edges and maps are
//! stencils over whole rows, which SIMD computes about ten times as fast as one native thread per
//! pixel would. There the CPU uses separate code around the same per-pixel functions, and tests
//! check that the bytes are identical.
#![cfg_attr(docsrs, feature(doc_cfg))]

// The modules follow the data:
// * `picture`: file to luminance, on the host
// * `edges`, `corners`: luminance to oriented edge points (or corners), and an even selection of
//   them, by kernels (on the CPU row by row)
// * `points`: edges or corners as points, for other methods
// * `maps`: a scene's edges to per-pixel maps by direction, by kernels (on the CPU direction by
//   direction)
// * `model`, `scene`: the data kept of either; a model on the host, a scene on the device
// * `bases`, `table`, `joint`: pairs of model points under tilts, in a multi-value table keyed by
//   their invariants, on the host
// * `vote`: pairs of scene points look up bases, and each is tested on 32 points; one thread per
//   point and strip
// * `refine`: candidates to affine maps that lie on edges; one thread per candidate
// * `agreement`: whether the scene looks like the model under a pose
// * `perspective`, `homography`: an affine pose to a map in perspective
// * `colour`: whether the scene has the model's colours under a pose, on the host
// * `matcher`, `options`, `outcome`: the matcher, what it is asked, and what it finds
// * `search`, `verdict`: the best candidate, and the decision whether the model is present, on the
//   host
// * `range`, `small`, `looks`, `part`: further searches for what is not found: other scales, models
//   of few pixels, mirrored and negative models, and scenes that show a part of the model
// * `instances`: further searches for a model that is found
mod affine;
mod agreement;
mod bases;
mod colour;
mod confirmed;
mod corners;
mod device;
mod edges;
mod fit;
mod homography;
mod instances;
mod joint;
mod looks;
mod maps;
mod matcher;
mod model;
mod models;
mod options;
mod outcome;
mod part;
mod perspective;
mod picture;
mod points;
mod random;
mod range;
mod rectified;
mod refine;
mod refine_on_cpu;
mod scene;
mod search;
mod small;
pub mod synthetic;
mod table;
mod verdict;
mod vote;
mod vote_on_cpu;

#[cfg(test)]
mod tests;

pub use affine::Affine;
pub use agreement::Agreement;
pub use bases::Pass;
pub use colour::Colours;
pub use fit::{Freedom, PointPair, fit};
pub use homography::Homography;
pub use joint::JointTable;
pub use matcher::Matcher;
pub use model::{Model, TooFewEdges};
pub use models::{Models, ModelsError};
pub use options::Options;
pub use outcome::{Doubt, Found, MatchOutcome};
pub use picture::{Grey, Picture, ReadError, decode, read};
pub use points::{Features, PointRules, PointSet, Side};
pub use scene::Scene;

/// Runs the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

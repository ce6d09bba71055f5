//! Geometric hashing as published, based on points alone, for comparison with the default matcher.
//!
//! Implements Alcantara et al. 2009, section 6 (two points form a basis; votes for pairs of bases),
//! and Zachmann's lecture (rigid and affine bases; verification; measures against noise). Bases of
//! points give every other point two coordinates that are invariant under motion. Cells of these
//! are the keys of a multi-value table whose values are the model's bases. A scene's bases look up
//! the cells of their points and count. Pairs of bases with more votes than chance explains are
//! verified.
//!
//! [`match_images`] searches an image for another; [`match_points`] searches the points of one, a
//! [`koel_vision::PointSet`], for those of another, and [`find`] does the same for plain points and
//! reports more.
//!
//! ```
//! use koel_vision::{Freedom, synthetic::texture};
//! use koel_vision_classic::{PaperOptions, match_images};
//!
//! let stream = koel::Device::cpu()?.stream()?;
//! let options = PaperOptions::default()
//!     .with_freedom(Freedom::Rigid)
//!     .with_points((50, 100))
//!     .with_bases((1000, 100))
//!     .with_sizes(vec![(1.0, 1.0)]);
//! let [model, scene] = [1, 2].map(|seed| texture(160, 120, seed));
//! let outcome = match_images(&stream, &model, &scene, &options)?;
//! assert_eq!(outcome.found, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

mod basis;
mod cells;
mod lists;
mod matrix;
mod measured;
mod options;
mod search;
mod searched;
mod stages;
#[cfg(test)]
mod tests;
mod verify;
mod votes;

pub use basis::{BasisRules, Point};
pub use measured::{Lookups, Voting, look_up, vote};
pub use options::{Lookup, PaperOptions, Partition, Weights};
pub use search::{PaperOutcome, find, match_images, match_model, match_points, table_keys};
pub use stages::Stages;
pub use verify::Verified;
pub use votes::Hypothesis;

/// Runs the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

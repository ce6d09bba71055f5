//! Finding an image inside another, from edges alone.
pub mod affine;
pub mod bases;
pub mod edges;
pub mod fit;
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
pub use matcher::{Found, Matcher, Options, Outcome};
pub use model::Model;
pub use models::{Models, ModelsError};
pub use picture::{Grey, Picture, ReadError, read};
pub use scene::Scene;

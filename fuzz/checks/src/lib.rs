//! The checks of the fuzz targets. `koel-cli/tests/seeds.rs` runs them on seeds and mutations too.

pub mod csv;
pub mod gltf;
pub mod groups;
pub mod map_ops;
pub mod npy;
pub mod picture;
pub mod scan;
mod script;
pub mod set_ops;
pub mod table;

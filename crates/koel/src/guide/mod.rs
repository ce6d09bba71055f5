//! The guide: [which table](choosing) for what, what it [costs], [recipes], how [devices], streams,
//! graphs and other libraries go together, and what [errors] mean.
//!
//! The published tables have a page each in [`classic`](crate::classic): its source, shape, memory
//! and guarantees.
//!
//! Nothing is called here: the pages are documentation whose examples are tests.
#[doc = include_str!("choosing.md")]
pub mod choosing {}
#[doc = include_str!("costs.md")]
pub mod costs {}
#[doc = include_str!("devices.md")]
pub mod devices {}
#[doc = include_str!("errors.md")]
pub mod errors {}
#[doc = include_str!("recipes.md")]
pub mod recipes {}

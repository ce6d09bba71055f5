//! The guide: [which table](choosing) to choose, which [types] keys and values may have, what
//! operations [cost](costs), [recipes], [devices] with streams, graphs and other libraries, and
//! what [errors] mean.
//!
//! Each published table has a page in the crate
//! [`koel-classic`](https://docs.rs/koel-classic): its source, shape, memory and guarantees.
//!
//! This module has no functions: its pages are documentation whose examples are tests.
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
#[doc = include_str!("types.md")]
pub mod types {}

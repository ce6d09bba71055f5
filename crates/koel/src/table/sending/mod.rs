//! Sends the queries of joins and the operations of updates to the partitions of a table:
//! partitions their keys, with or without indices.
mod route;
mod sent;

pub use route::{Route, RouteTuning};
pub use sent::{Arrived, DeviceForm, SendMemory, reserve, reserve_route, send};

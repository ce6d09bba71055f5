//! Sends keys, with what belongs to them, to the partitions of a table: the queries of joins and
//! the operations of updates.
mod route;
mod sent;

pub use route::{Route, Rule};
pub use sent::{Arrived, DeviceForm, SendMemory, reserve, reserve_route, send};

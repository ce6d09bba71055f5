//! Sends the queries of joins and the operations of updates to the partitions of a table:
//! partitions their keys, with or without indices.
mod route;
mod sent;

pub(crate) use route::{Route, RouteTuning};
pub(crate) use sent::{Arrived, DeviceForm, SendMemory, reserve, reserve_route, send};

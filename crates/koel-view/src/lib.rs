//! Two clouds intersected in real time: a server on this machine, and a page that moves one cloud
//! against the other.
//!
//! [`Server::bind`] listens, [`Server::run`] serves a [`Scene`] until it is stopped. The page
//! (`page/`, built into `assets/`) and all that it needs are part of the program: no network.
//!
//! # Who does what
//! | where | threads | what |
//! |---|---|---|
//! | page | the browser's | poses from drags, keys and the animation; draws the last frame; Booleans, which need no computing |
//! | session | all on the server's one | one a viewer: checks messages, keeps the newest pose, sends what was computed |
//! | compute | one | owns the [`Scene`]; works off one request of each viewer in turn |
//!
//! # What passes between page and server
//! One WebSocket at `/socket`. Messages of the page are JSON: `{"type": "pose", "rotation": [x, y,
//! z, w], "translation": [x, y, z]}` turns B around its centre (a unit quaternion) and moves it,
//! from where its file puts it; `{"type": "method", "name": "robust"}` (or `"paper"`); `{"type": "
//! shown", "frame": n}` says that frame n has arrived. Anything else is answered by `{"type":
//! "error", "message": ...}`, and the connection goes on; a message of more than 4 KiB ends it.
//!
//! The server's first message is JSON too (`"type": "scene"`: names, sizes, grid, method, what each
//! Boolean keeps). Binary ones are of little-endian words; the first is 1 for points (cloud, first
//! point, count; three `f32` a point, from the cloud's centre; then four signed bytes a point, the
//! normal x 127 and a zero) and 2 for a frame: number, method (0 robust, 1 paper), `f32` rotation
//! and translation of the pose, points by label (unknown, intersection, inside, outside) of A, then
//! of B, `f32` milliseconds of each stage; then a byte a point of A, of B: its label.
//!
//! # Why nothing grows
//! A viewer has one buffer: it is with the compute thread, on its way to the page, or waiting there
//! for `shown`, and only when it is back is the newest pose computed; poses between are skipped. A
//! viewer that does not read keeps that buffer and is sent away after [`Options::send_timeout`]. A
//! viewer's place is given to another only when its last request is off the compute thread's list,
//! so that the list is no longer than there are places. Points are in memory once. Connections are
//! at most [`CONNECTIONS`], and those that are no viewer's are closed after
//! [`Options::request_timeout`].
//!
//! # Who may connect
//! The server listens on 127.0.0.1 only. A request must name this machine in `Host` (127.0.0.1 or
//! localhost), so that a name that a stranger lets point here gets nothing; and a WebSocket's
//! `Origin` must be that same host and port, as pages of other sites may open WebSockets anywhere.

mod compute;
mod guard;
mod page;
mod placement;
mod protocol;
mod scene;
mod server;
mod session;

pub use placement::{Ball, Placement};
pub use protocol::MethodName;
pub use scene::{Scene, SceneOptions};
pub use server::{CONNECTIONS, Handle, Options, Server};

use koel_spatial::intersect::IntersectError;
use std::io;
use thiserror::Error;

/// Why a scene cannot be served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The port cannot be had.
    #[error(
        "port {port} of 127.0.0.1 cannot be listened on ({source}): expected a free one, or 0 for any that is free"
    )]
    Port {
        /// The one asked for.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// The system refused what a server needs.
    #[error("the server cannot run: {0}")]
    System(#[from] io::Error),
    /// The clouds cannot be intersected.
    #[error(transparent)]
    Intersect(#[from] IntersectError),
    /// The thread that computes ended by itself.
    #[error("the thread that computes frames has ended")]
    ComputeEnded,
}

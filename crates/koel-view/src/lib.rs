//! Intersects two clouds in real time: a server on this machine, and a page that moves one cloud
//! against the other.
//!
//! [`Server::bind`] listens, [`Server::run`] serves a [`Scene`] until it is stopped. The page
//! (`page/`, built into `assets/`) and everything it needs are part of the program, so no network
//! is required.
//!
//! # Structure
//! | where | threads | what |
//! |---|---|---|
//! | page | the browser's | makes poses from drags, keys and animation; draws the last frame |
//! | session | one for all | one per viewer: checks messages, keeps the newest pose, sends frames |
//! | compute | one | owns the [`Scene`]; runs one request of each viewer in turn |
//!
//! The page also applies Booleans: they select points by label and need no computation.
//!
//! # Protocol
//! Page and server share one WebSocket at `/socket`. The page sends JSON: `{"type": "pose",
//! "rotation": [x, y, z, w], "translation": [x, y, z]}` rotates B around its centre (a unit
//! quaternion) and moves it, relative to its position in the file; `{"type": "method", "name":
//! "robust"}` (or `"paper"`) selects the method; `{"type": "moment", "number": n}` selects a moment
//! of the [`Timeline`], from 0; `{"type": "shown", "frame": n}` acknowledges frame n. Anything else
//! is answered with `{"type": "error", "message": ...}` and the connection stays open; a message of
//! more than 4 KiB closes it.
//!
//! The server's first message is JSON too (`"type": "scene"`: names, sizes, grid, method, timeline
//! or null, and the points that each Boolean keeps). Its binary messages consist of little-endian
//! words.
//!
//! * The first word of points is 1: cloud, first point, count; three `f32` per point, relative to
//!   the cloud's centre; then four signed bytes per point, the normal x 127 and a zero.
//! * The first word of a frame is 2: number, method (0 robust, 1 paper), `f32` rotation and
//!   translation of the pose, point counts by label (unknown, intersection, inside, outside) of A,
//!   then of B, `f32` milliseconds of each stage, moment, and bits of the clouds whose points
//!   follow (1 for A, 2 for B); then one byte per point of A and of B: its label; then, after zeros
//!   up to a whole word, the points of A and of B whose bits are set, as in a message of points.
//!
//! The points before the first frame are those of moment 0. A frame brings the points of the clouds
//! that the timeline moves if its moment is not that of the viewer's frame before. The number of
//! points of a cloud, which may differ from moment to moment, is the sum of its counts.
//!
//! # Bounded memory
//! A viewer has one buffer. It is with the compute thread, on its way to the page, or waiting for
//! the page's `shown`; only when it is back is the newest pose computed, and poses in between are
//! skipped. A viewer that does not read holds that buffer and is disconnected after
//! [`Options::send_timeout`]. A viewer's place is freed only when its last request has left the
//! compute thread's queue, so the queue is never longer than the number of places. Points of moment
//! 0 are stored once as messages; those of other moments only while a frame of theirs is computed,
//! by the compute thread, and in the viewers' buffers. The page decides which moment it shows:
//! moments that a slow viewer or device does not reach are skipped. There are at most
//! [`CONNECTIONS`] connections, and those that do not become viewers are closed after
//! [`Options::request_timeout`].
//!
//! # Access
//! The server listens only on 127.0.0.1. A request's `Host` must name this machine (127.0.0.1 or
//! localhost), which defeats foreign names that resolve to it (DNS rebinding). A WebSocket's
//! `Origin` must be the same host and port, because pages of other sites may open WebSockets to any
//! address.

mod compute;
mod guard;
mod options;
mod page;
mod placement;
mod protocol;
mod scene;
mod server;
mod session;

pub use options::Options;
pub use placement::{Ball, Placement};
pub use protocol::MethodName;
pub use scene::{Moments, Scene, SceneOptions, Timeline};
pub use server::{CONNECTIONS, Handle, Server};

use koel_spatial::intersect::IntersectError;
use std::io;
use thiserror::Error;

/// Reason why a scene cannot be served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The port is not available.
    #[error(
        "cannot listen on port {port} of 127.0.0.1 ({source}): \
         expected a free port, or 0 for any free port"
    )]
    Port {
        /// The requested port.
        port: u16,
        /// The system's error.
        source: io::Error,
    },
    /// The system refused a resource that the server needs.
    #[error("the server cannot run: {0}")]
    System(#[from] io::Error),
    /// The clouds cannot be intersected.
    #[error(transparent)]
    Intersect(#[from] IntersectError),
    /// The compute thread ended unexpectedly.
    #[error("the compute thread has ended")]
    ComputeEnded,
}

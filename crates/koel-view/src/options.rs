//! Options of a server.

use std::time::Duration;

/// Options of a [`Server`](crate::Server).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Port; 0 for any free port.
    pub port: u16,
    /// Maximum number of viewers.
    pub viewers: u16,
    /// Time after which a viewer that does not accept a message is disconnected.
    pub send_timeout: Duration,
    /// Time after which a connection that has not become a viewer's is closed. A page's files take
    /// milliseconds.
    pub request_timeout: Duration,
}
koel::option_setters! { Options:
    port by with_port: u16;
    viewers by with_viewers: u16;
    send_timeout by with_send_timeout: Duration;
    request_timeout by with_request_timeout: Duration;
}
impl Default for Options {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Options { port: 0, viewers: 8, send_timeout: seconds(30), request_timeout: seconds(30) }
    }
}

//! Access control: only pages served by this server may connect.

use crate::protocol::SOCKET;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Rejects requests with a foreign host or from a page of another origin.
///
/// The port may differ from the server's, so that a port of another machine can be forwarded here.
pub(crate) async fn check(request: Request, next: Next) -> Response {
    match refusal(request.headers(), request.uri().path() == SOCKET) {
        None => next.run(request).await,
        Some(why) => (StatusCode::FORBIDDEN, why).into_response(),
    }
}

/// Returns why a request with these headers is rejected, if it is. Browsers send the origin with
/// every WebSocket, so one without an origin is not from a browser.
fn refusal(headers: &HeaderMap, is_socket: bool) -> Option<String> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("(not ASCII)"));
    let host = text(header::HOST).unwrap_or("(none)");
    let (name, port) = host.split_once(':').unwrap_or((host, "80"));
    if !["127.0.0.1", "localhost"].contains(&name) || port.parse::<u16>().is_err() {
        return Some(format!("host {host}: expected 127.0.0.1 or localhost\n"));
    }
    if headers.get_all(header::HOST).iter().count() > 1 {
        return Some("two hosts, expected one\n".into());
    }
    match text(header::ORIGIN) {
        None if is_socket => Some(format!("no origin: expected http://{host}\n")),
        Some(origin) if origin.strip_prefix("http://") != Some(host) => {
            Some(format!("origin {origin}: expected http://{host}\n"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(headers: &[(header::HeaderName, &str)], is_socket: bool) -> bool {
        let map =
            headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        refusal(&map, is_socket).is_some()
    }

    #[test]
    fn strangers_are_refused() {
        let (host, origin) = (header::HOST, header::ORIGIN);
        for own in ["127.0.0.1:8765", "localhost:8765", "127.0.0.1:1", "localhost"] {
            assert!(!is_refused(&[(host.clone(), own)], false));
            assert!(is_refused(&[(host.clone(), own)], true), "a WebSocket without origin");
            for is_socket in [false, true] {
                let page = format!("http://{own}");
                assert!(!is_refused(&[(host.clone(), own), (origin.clone(), &page)], is_socket));
                for foreign in [
                    "http://example.org",
                    "null",
                    "http://localhost:3000",
                    "https://127.0.0.1:8765",
                    "http://127.0.0.1:87650",
                    "",
                ] {
                    assert!(
                        is_refused(&[(host.clone(), own), (origin.clone(), foreign)], is_socket),
                        "{own} {foreign}"
                    );
                }
            }
        }
        // A foreign name that resolves to this machine.
        for rebound in [
            "example.org:8765",
            "127.0.0.1.example.org",
            "localhost.example.org:8765",
            "127.0.0.1:x",
            "127.0.0.2:8765",
            "",
        ] {
            let page = format!("http://{rebound}");
            assert!(
                is_refused(&[(host.clone(), rebound), (origin.clone(), &page)], true),
                "{rebound}"
            );
            assert!(is_refused(&[(host.clone(), rebound)], false), "{rebound}");
        }
        assert!(is_refused(&[], false) && is_refused(&[(origin, "http://127.0.0.1")], true));
    }
}

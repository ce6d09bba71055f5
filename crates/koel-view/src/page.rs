//! Files of the page, built from `page/` and part of the program.

use axum::Router;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

const FILES: [(&str, &str, &[u8]); 4] = [
    ("/", "text/html; charset=utf-8", include_bytes!("../assets/index.html")),
    ("/app.js", "text/javascript; charset=utf-8", include_bytes!("../assets/app.js")),
    ("/style.css", "text/css; charset=utf-8", include_bytes!("../assets/style.css")),
    ("/licences.txt", "text/plain; charset=utf-8", include_bytes!("../assets/licences.txt")),
];

/// Forbids foreign content, embedding in foreign pages, and caching: another scene may be served at
/// the same address next.
const HEADERS: [(header::HeaderName, HeaderValue); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        header::HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// Returns the routes to the files.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.iter().fold(Router::new(), |routes, &(path, kind, content)| {
        routes.route(path, get(async move || file(kind, content)))
    })
}
fn file(kind: &'static str, content: &'static [u8]) -> Response {
    let mut headers = HeaderMap::from_iter(HEADERS);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    (headers, content).into_response()
}

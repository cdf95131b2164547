//! The UI's files, embedded in the binary (read from disk in debug builds).

use crate::error::ApiError;
use axum::http::{header, HeaderValue, Uri};
use axum::response::{IntoResponse, Response};
use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "$WIRESPAN_UI_DIR"]
struct Assets;

/// Serves a file of the UI. Every other path outside the APIs is a page of the UI, which reads the path itself.
pub(crate) async fn serve(uri: Uri) -> Response {
    let path = uri.path().trim_start_matches('/');
    if path.starts_with("api/") {
        return ApiError::not_found(format!("there is no endpoint {}", uri.path()))
            .hint("the API is described at /api/v1/openapi.json")
            .into_response();
    }
    if let Some(file) = Assets::get(path).filter(|_| !path.is_empty()) {
        // The build puts a hash of the content into the name of each file below assets/.
        let cache = if path.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
        return answer(file, path, cache);
    }
    let is_file = path.rsplit('/').next().is_some_and(|name| name.contains('.'));
    match Assets::get("index.html") {
        Some(page) if !is_file => answer(page, "index.html", "no-cache"),
        _ => ApiError::not_found(format!("there is no {}", uri.path())).into_response(),
    }
}

fn answer(file: rust_embed::EmbeddedFile, path: &str, cache: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type(path))),
        (header::CACHE_CONTROL, HeaderValue::from_static(cache)),
    ];
    (headers, file.data).into_response()
}

/// Content types of the few kinds of file that the build makes.
fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json" | "map") => "application/json",
        Some("woff2") => "font/woff2",
        Some("png") => "image/png",
        _ => "application/octet-stream",
    }
}

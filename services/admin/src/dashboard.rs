//! Files of the dashboard. They hold no data, and need no token: the page asks for it, and sends it with its requests.

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_TYPE, REFERRER_POLICY};
use axum::response::IntoResponse;
use axum::routing::get;

/// A file, with its path and its content type.
struct File {
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

macro_rules! file {
    ($path:literal, $kind:expr, $name:literal) => {
        File { path: $path, kind: $kind, bytes: include_bytes!(concat!("dashboard/", $name)) }
    };
}

/// The files by path. Scripts are modules, loaded by one another.
const FILES: &[File] = &[
    file!("/", "text/html; charset=utf-8", "index.html"),
    file!("/dashboard/style.css", "text/css; charset=utf-8", "style.css"),
    file!("/dashboard/icon.svg", "image/svg+xml", "icon.svg"),
    file!("/dashboard/app.js", SCRIPT, "app.js"),
    file!("/dashboard/api.js", SCRIPT, "api.js"),
    file!("/dashboard/elements.js", SCRIPT, "elements.js"),
    file!("/dashboard/listing.js", SCRIPT, "listing.js"),
    file!("/dashboard/plot.js", SCRIPT, "plot.js"),
    file!("/dashboard/overview.js", SCRIPT, "overview.js"),
    file!("/dashboard/users.js", SCRIPT, "users.js"),
    file!("/dashboard/calls.js", SCRIPT, "calls.js"),
    file!("/dashboard/follow.js", SCRIPT, "follow.js"),
    file!("/dashboard/ladder.js", SCRIPT, "ladder.js"),
    file!("/dashboard/connections.js", SCRIPT, "connections.js"),
    file!("/dashboard/routes.js", SCRIPT, "routes.js"),
    file!("/dashboard/nodes.js", SCRIPT, "nodes.js"),
    file!("/dashboard/limits.js", SCRIPT, "limits.js"),
    file!("/dashboard/reasons.js", SCRIPT, "reasons.js"),
    file!("/dashboard/configuration.js", SCRIPT, "configuration.js"),
];

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Permissions of the page: scripts, styles and requests of this origin, and nothing that is written in the document.
pub(crate) const CONTENT_SECURITY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// True for the path of a file.
pub(crate) fn is_file(path: &str) -> bool {
    FILES.iter().any(|file| file.path == path)
}

pub(crate) fn router() -> Router {
    FILES.iter().fold(Router::new(), |router, file| {
        let answer = async || {
            let headers = [
                (CONTENT_TYPE, HeaderValue::from_static(file.kind)),
                (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
            ];
            (headers, file.bytes).into_response()
        };
        router.route(file.path, get(answer))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_have_nothing_that_the_policy_forbids() {
        for file in FILES {
            let text = std::str::from_utf8(file.bytes).unwrap();
            for forbidden in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "onclick=",
                " style=",
            ] {
                assert!(!text.contains(forbidden), "{} has {forbidden}", file.path);
            }
            for address in text.match_indices("http").map(|(at, _)| &text[at..]) {
                let is_name = address.starts_with("http://www.w3.org/") || !address.contains("://");
                assert!(is_name || !address[..8].contains("://"), "{} names another origin", file.path);
            }
        }
    }

    #[test]
    fn every_imported_file_is_served() {
        for file in FILES.iter().filter(|file| file.kind == SCRIPT) {
            let text = std::str::from_utf8(file.bytes).unwrap();
            for import in text.lines().filter(|line| line.starts_with("import ")) {
                let name = import.rsplit("'./").next().unwrap().trim_end_matches("';");
                assert!(is_file(&format!("/dashboard/{name}")), "{}: {import}", file.path);
            }
        }
    }
}

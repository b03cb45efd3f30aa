//! The sections of routing of the configuration file.

use crate::answer::{Shared, apply, failed, response};
use crate::body::{ReloadQuery, read_body};
use crate::control::{Change, RoutesEdit, RoutesEffect};
use crate::pages::refusal;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::header::{ETAG, IF_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;

/// Maximum size of the sections as JSON: a file of 1 MiB, most of its characters as they are.
const ROUTES_BYTES_MAX: usize = 2 << 20;

/// Body of a change.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRoutes {
    text: String,
    #[serde(default)]
    version: Option<String>,
}

/// Answers with the sections; the version of the file is also the header ETag (RFC 9110 §8.8.3).
pub(crate) async fn show(State(control): Shared) -> Response {
    let Ok(answer) = tokio::task::spawn_blocking(move || control.routes()).await else { return failed() };
    let version = answer.body.get("version").and_then(Value::as_str);
    let tag = version.and_then(|version| HeaderValue::from_str(&format!("\"{version}\"")).ok());
    let mut response = response(&answer);
    if let Some(tag) = tag {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

/// Replaces the sections of the version that the header If-Match or the body names, or tells what that would change.
pub(crate) async fn edit(
    State(control): Shared,
    query: Result<Query<ReloadQuery>, QueryRejection>,
    request: Request,
) -> Response {
    let Ok(Query(query)) = query else {
        return refusal(StatusCode::BAD_REQUEST, "write /api/routes, or /api/routes?dry_run=true");
    };
    let named = match named_version(request.headers()) {
        Ok(named) => named,
        Err(why) => return refusal(StatusCode::BAD_REQUEST, why),
    };
    let body = match read_body(request, ROUTES_BYTES_MAX).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    let new = match serde_json::from_slice::<NewRoutes>(&body) {
        Ok(new) => new,
        Err(error) => {
            let why = format!("write an object as {{\"text\": \"[[trunk]]…\", \"version\": \"…\"}}: {error}");
            return refusal(StatusCode::BAD_REQUEST, &why);
        }
    };
    let version = match (named, new.version) {
        (Some(named), Some(version)) if named != version => {
            return refusal(StatusCode::BAD_REQUEST, "If-Match and version differ; give one of them");
        }
        (Some(version), _) | (None, Some(version)) => version,
        (None, None) => {
            let why = "give the version of GET /api/routes, in If-Match or as \"version\"";
            return refusal(StatusCode::PRECONDITION_REQUIRED, why);
        }
    };
    let effect = if query.dry_run { RoutesEffect::Preview } else { RoutesEffect::Save };
    apply(control, Change::Routes(RoutesEdit { text: new.text, version, effect })).await
}

/// The version in If-Match. `*` and lists are refused: what is replaced must have been read.
fn named_version(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    let Some(value) = headers.get(IF_MATCH) else { return Ok(None) };
    let tag = value.to_str().ok().and_then(|text| text.trim().strip_prefix('"')?.strip_suffix('"'));
    match tag.filter(|tag| !tag.contains('"')) {
        Some(tag) => Ok(Some(tag.to_owned())),
        None => Err("write If-Match as the ETag of GET /api/routes"),
    }
}

//! The paths of the admin API that change the server: users, sections of routing, the rest; bodies and queries of their
//! requests, and their answers, which may wait for files.

use crate::control::{
    Answer, Change, Control, Forwards, NewBlock, NewDrain, RoutesEdit, RoutesEffect, TextPosition, UserQuery,
};
use crate::pages::{LIMIT_DEFAULT, LIMIT_MAX, PageQuery, json_of, refusal, search_text};
use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::header::{CONTENT_LENGTH, ETAG, IF_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::{delete, get, post};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Maximum size of the keys of a configuration as JSON.
const CONFIGURATION_BYTES_MAX: usize = 4 << 20;
/// Maximum size of the forwards of a user as JSON: four URIs of 255 bytes, each byte as an escape, fit twice.
const FORWARDS_BYTES_MAX: usize = 16 << 10;
/// Maximum size of an entry of a block list, or of a drain, as JSON.
const BLOCK_BYTES_MAX: usize = 4 << 10;

/// All paths that change something.
pub(crate) fn router(control: Arc<dyn Control>) -> Router {
    Router::new()
        .route("/api/reload", post(reload))
        .route("/api/blocks", get(blocks).post(block))
        .route("/api/blocks/{id}", delete(unblock))
        .route("/api/users/{user}/forward", get(forwards).put(forward).delete(end_forwards))
        .route("/api/users", get(list))
        .route("/api/users/{user}", get(one))
        .route("/api/users/{user}/registrations", delete(kick))
        .route("/api/drain", post(drain).delete(cancel_drain))
        .route("/api/certificate", post(renew_certificate))
        .route("/api/connections/{id}", delete(drop_connection))
        .route("/api/config", get(configuration))
        .route("/api/routes", get(show).put(edit))
        .with_state(control)
}

async fn reload(
    State(control): Shared,
    query: Result<Query<ReloadQuery>, QueryRejection>,
    request: Request,
) -> Response {
    let Ok(Query(query)) = query else {
        return refusal(StatusCode::BAD_REQUEST, "write /api/reload, or /api/reload?dry_run=true");
    };
    let body = match read_body(request, CONFIGURATION_BYTES_MAX).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    let change = match (query.dry_run, body.is_empty()) {
        (false, true) => Change::Reload,
        (true, true) => Change::DryRun,
        (true, false) => match serde_json::from_slice(&body) {
            Ok(KeyList(keys)) => Change::Compare(keys),
            Err(error) => {
                let why = format!("write keys and values as {{\"auth.realm\": \"\\\"a\\\"\"}}: {error}");
                return refusal(StatusCode::BAD_REQUEST, &why);
            }
        },
        (false, false) => {
            let why = "a reload reads the server's own file: send no body, or compare it with ?dry_run=true";
            return refusal(StatusCode::BAD_REQUEST, why);
        }
    };
    apply(control, change).await
}

async fn blocks(State(control): Shared, query: Result<Query<PageQuery>, QueryRejection>) -> Response {
    let parsed = query.ok().and_then(|Query(query)| {
        let after = query.after.filter(|after| !after.is_empty());
        Some((after.map_or(Some(0), |after| after.parse().ok())?, query.limit))
    });
    let Some((after, limit)) = parsed else {
        let why = "write ?after=NUMBER&limit=N, with N a number from 1 to 10000";
        return refusal(StatusCode::BAD_REQUEST, why);
    };
    let limit = limit.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX);
    match tokio::task::spawn_blocking(move || control.blocks(after, limit)).await {
        Ok(Ok(page)) => {
            let next = page.items.last().filter(|_| page.items.len() >= limit);
            let next = next.map(|last| last.id.to_string());
            json_of(&json!({ "blocks": page.items, "total": page.total, "next": next }))
        }
        Ok(Err(why)) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &why),
        Err(_) => failed(),
    }
}

async fn block(State(control): Shared, request: Request) -> Response {
    let body = match read_body(request, BLOCK_BYTES_MAX).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    match serde_json::from_slice::<NewBlock>(&body) {
        Ok(block) => apply(control, Change::Block(block)).await,
        Err(error) => {
            let why = format!("write an object as {{\"caller\": \"spam@example.com\"}}: {error}");
            refusal(StatusCode::BAD_REQUEST, &why)
        }
    }
}

async fn unblock(State(control): Shared, id: Result<Path<u64>, PathRejection>) -> Response {
    match id {
        Ok(Path(id)) => apply(control, Change::Unblock(id)).await,
        Err(_) => refusal(StatusCode::BAD_REQUEST, "write the number of an entry, as in /api/blocks/7"),
    }
}

async fn drop_connection(State(control): Shared, id: Result<Path<u64>, PathRejection>) -> Response {
    match id {
        Ok(Path(id)) => apply(control, Change::Drop(id)).await,
        Err(_) => {
            refusal(StatusCode::BAD_REQUEST, "write the number of a connection, as in /api/connections/7")
        }
    }
}

async fn drain(State(control): Shared, request: Request) -> Response {
    let body = match read_body(request, BLOCK_BYTES_MAX).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    match serde_json::from_slice::<NewDrain>(&body) {
        Ok(NewDrain { over_s }) => apply(control, Change::Drain(over_s)).await,
        Err(error) => {
            refusal(StatusCode::BAD_REQUEST, &format!("write an object as {{\"over_s\": 600}}: {error}"))
        }
    }
}

async fn cancel_drain(State(control): Shared) -> Response {
    apply(control, Change::CancelDrain).await
}

async fn renew_certificate(State(control): Shared) -> Response {
    apply(control, Change::RenewCertificate).await
}

async fn configuration(State(control): Shared) -> Response {
    answer(move || control.configuration()).await
}

async fn forwards(State(control): Shared, user: Result<Path<String>, PathRejection>) -> Response {
    match user {
        Ok(Path(user)) => answer(move || control.forwards(&user)).await,
        Err(_) => refusal(StatusCode::BAD_REQUEST, NAME_NEEDED),
    }
}

async fn forward(
    State(control): Shared,
    user: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let Ok(Path(user)) = user else { return refusal(StatusCode::BAD_REQUEST, NAME_NEEDED) };
    let body = match read_body(request, FORWARDS_BYTES_MAX).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    match serde_json::from_slice::<Forwards>(&body) {
        Ok(forwards) => apply(control, Change::Forward(user, forwards)).await,
        Err(error) => {
            let why = format!("write an object as {{\"busy\": \"sip:carol@example.org\"}}: {error}");
            refusal(StatusCode::BAD_REQUEST, &why)
        }
    }
}

async fn end_forwards(State(control): Shared, user: Result<Path<String>, PathRejection>) -> Response {
    match user {
        Ok(Path(user)) => apply(control, Change::Forward(user, Forwards::default())).await,
        Err(_) => refusal(StatusCode::BAD_REQUEST, NAME_NEEDED),
    }
}

const NAME_NEEDED: &str = "write the name of a user, as in /api/users/bob/forward";

/// Maximum number of users in one answer: each is looked up in its shard and in the store.
const USERS_LIMIT_MAX: usize = 500;
const USERS_LIMIT_DEFAULT: usize = 100;

/// Query of the list of users.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    after: Option<String>,
    limit: Option<usize>,
    q: Option<String>,
    #[serde(default)]
    position: TextPosition,
}

async fn list(State(control): Shared, query: Result<Query<ListQuery>, QueryRejection>) -> Response {
    let Ok(Query(ListQuery { after, limit, q, position })) = query else {
        let why = "write ?after=CURSOR&limit=N&q=TEXT&position=prefix, with N a number from 1 to 500, \
                   and prefix or contains";
        return refusal(StatusCode::BAD_REQUEST, why);
    };
    let text = match search_text(q.as_deref()) {
        Ok(text) => text.map(str::to_owned),
        Err(why) => return refusal(StatusCode::BAD_REQUEST, why),
    };
    let after = after.filter(|after| !after.is_empty());
    let limit = limit.unwrap_or(USERS_LIMIT_DEFAULT).clamp(1, USERS_LIMIT_MAX);
    let query = UserQuery { after, limit, text, position };
    match tokio::task::spawn_blocking(move || control.users(&query)).await {
        Ok(Ok(page)) => json_of(&json!({ "users": page.items, "total": page.total, "next": page.next })),
        Ok(Err(why)) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &why),
        Err(_) => failed(),
    }
}

async fn one(State(control): Shared, user: Result<Path<String>, PathRejection>) -> Response {
    match user {
        Ok(Path(user)) => answer(move || control.user(&user)).await,
        Err(_) => refusal(StatusCode::BAD_REQUEST, USER_NEEDED),
    }
}

async fn kick(State(control): Shared, user: Result<Path<String>, PathRejection>) -> Response {
    match user {
        Ok(Path(user)) => apply(control, Change::Kick(user)).await,
        Err(_) => refusal(StatusCode::BAD_REQUEST, USER_NEEDED),
    }
}

const USER_NEEDED: &str = "write the name of a user, as in /api/users/bob";

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
async fn show(State(control): Shared) -> Response {
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
async fn edit(
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

/// Query of a reload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReloadQuery {
    #[serde(default)]
    pub(crate) dry_run: bool,
}

/// Keys of a configuration with their values, of a bounded number.
struct KeyList(pub(crate) BTreeMap<String, Option<String>>);

impl<'de> Deserialize<'de> for KeyList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = KeyList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("keys and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<KeyList, A::Error> {
                let mut keys = BTreeMap::new();
                while let Some((key, value)) = entries.next_entry()? {
                    keys.insert(key, value);
                    if keys.len() > KEYS_MAX {
                        return Err(A::Error::custom(TOO_MANY_KEYS));
                    }
                }
                Ok(KeyList(keys))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// Reads a body of at most `bytes_max`; the error is the response.
async fn read_body(request: Request, bytes_max: usize) -> Result<Bytes, Response> {
    let length = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let declared = length.and_then(|length| length.parse::<u64>().ok()).unwrap_or_default();
    let why = format!("the body is longer than {bytes_max} bytes, or ended early");
    if declared > bytes_max as u64 {
        return Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, &why));
    }
    match tokio::time::timeout(BODY_TIME_MAX, to_bytes(request.into_body(), bytes_max)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, &why)),
        Err(_) => Err(refusal(StatusCode::REQUEST_TIMEOUT, "the body took more than 10 s; send it at once")),
    }
}

/// Maximum number of keys of a configuration.
const KEYS_MAX: usize = 100_000;
const TOO_MANY_KEYS: &str = "more than 100000 keys; for a longer configuration use `ringway reload --dry-run`, which reads the server's own file";
/// Maximum time for a body.
const BODY_TIME_MAX: Duration = Duration::from_secs(10);

pub(crate) type Shared = State<Arc<dyn Control>>;

/// Makes a change, and answers with its result.
async fn apply(control: Arc<dyn Control>, change: Change) -> Response {
    answer(move || control.apply(change)).await
}

/// Answers with the result of `work`, which may wait for files.
async fn answer(work: impl FnOnce() -> Answer + Send + 'static) -> Response {
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => response(&answer),
        Err(_) => failed(),
    }
}

pub(crate) fn response(answer: &Answer) -> Response {
    let mut response = json_of(&answer.body);
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

pub(crate) fn failed() -> Response {
    refusal(StatusCode::INTERNAL_SERVER_ERROR, "the change failed; see the server's log")
}

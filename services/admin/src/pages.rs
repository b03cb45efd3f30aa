//! The pages of the admin API, by path. `/api/trace`: what happens to the requests of a user, as a long poll.

use crate::access::{AccessCheck, TokenProof};
use crate::clients::Clients;
use crate::dashboard;
use crate::view::{MetricKind, Page, Stat, Stats, StepTimes, TraceRefusal, Traces, View};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Items in one answer unless `limit` asks for fewer or more.
pub(crate) const LIMIT_DEFAULT: usize = 1000;
/// The most items in one answer.
pub(crate) const LIMIT_MAX: usize = 10_000;

/// Maximum length of the text of a search.
const TEXT_BYTES_MAX: usize = 128;

/// Description of all paths, OpenAPI 3.1.
const DESCRIPTION: &str = include_str!("openapi.json");

type Shared = State<Arc<Shown>>;

/// Address that a request came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source(pub(crate) IpAddr);

/// Source of the pages: the server and the admin API itself.
struct Shown {
    view: Arc<dyn View>,
    clients: Arc<Clients>,
    access: Arc<AccessCheck>,
}

impl Shown {
    fn stats(&self) -> Stats {
        let limits = limits(&self.clients, &self.access);
        let limits = limits.into_iter().map(|(name, help, count)| Stat::counter(name, help, count));
        self.view.stats().into_iter().chain(limits).collect()
    }
}

/// Counters of the admin API's own limits, each with its name and its help.
pub(crate) fn limits(clients: &Clients, access: &AccessCheck) -> [(&'static str, &'static str, u64); 3] {
    let guesses = access.guesses();
    [
        (
            "admin_clients_displaced",
            "Connections of the admin API closed to make room for newer ones.",
            clients.displaced(),
        ),
        ("admin_tokens_refused", "Requests to the admin API with a wrong token.", guesses.wrong()),
        (
            "admin_tokens_slowed",
            "Requests to the admin API whose token was not compared, after too many wrong ones of their source.",
            guesses.slowed(),
        ),
    ]
}

/// The paths that show something at once, and `others`; each request must pass `access`.
pub(crate) fn router(
    view: Arc<dyn View>,
    others: Router,
    clients: Arc<Clients>,
    access: Arc<AccessCheck>,
) -> Router {
    Router::new()
        .route("/api/server", get(async |State(shown): Shared| json_of(&json!(shown.view.server()))))
        .route("/api/registrations", get(registrations))
        .route("/api/calls", get(calls))
        .route("/api/records", get(records))
        .route("/api/connections", get(connections))
        .route("/api/trunks", get(trunks))
        .route("/api/relays", get(async |State(shown): Shared| whole("relays", &shown.view.relays())))
        .route("/api/cluster", get(cluster))
        .route("/api/steps", get(async |State(shown): Shared| steps(shown.view.steps())))
        .route("/api/stats", get(async |State(shown): Shared| json_of(&stats(&shown.stats()))))
        .route(
            "/metrics",
            get(async |State(shown): Shared| {
                typed("text/plain; version=0.0.4; charset=utf-8", metrics(&shown.stats()))
            }),
        )
        .route("/api/openapi.json", get(async || typed("application/json", DESCRIPTION.to_owned())))
        .with_state(Arc::new(Shown { view, clients, access: Arc::clone(&access) }))
        .merge(others)
        .merge(dashboard::router())
        .fallback(async || refusal(StatusCode::NOT_FOUND, "nothing is here; / lists what is"))
        .method_not_allowed_fallback(async || {
            refusal(StatusCode::METHOD_NOT_ALLOWED, "this path has no such method; see docs/reference/api.md")
        })
        .layer(from_fn_with_state(access, guard))
}

async fn guard(
    State(access): State<Arc<AccessCheck>>,
    Extension(Source(source)): Extension<Source>,
    request: Request,
    next: Next,
) -> Response {
    let (method, headers) = (request.method(), request.headers());
    let is_file = dashboard::is_file(request.uri().path());
    let checked = match request.uri().path() {
        TokenProof::PATH => access
            .prove(method, headers, source)
            .map(|proof| Some(json_of(&json!({ "token": proof.is_some(), "proof": proof })))),
        _ if is_file => access.check_without_token(method, headers).map(|()| None),
        _ => access.check(method, headers, source).map(|()| None),
    };
    let mut response = match checked {
        Ok(Some(response)) => response,
        Ok(None) => next.run(request).await,
        Err((status, why)) => refusal(status, why),
    };
    let policy = if is_file { dashboard::CONTENT_SECURITY } else { "default-src 'none'" };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}

/// Query of a listing.
#[derive(Deserialize)]
pub(crate) struct PageQuery {
    pub(crate) after: Option<String>,
    pub(crate) limit: Option<usize>,
    /// Text to search for, in those listings that can be searched.
    pub(crate) q: Option<String>,
}

type QueryResult = Result<Query<PageQuery>, QueryRejection>;

async fn registrations(State(shown): Shared, query: QueryResult) -> Response {
    page("registrations", query, |after, limit, text| shown.view.registrations(after, limit, text))
}

async fn calls(State(shown): Shared, query: QueryResult) -> Response {
    page("calls", query, |after, limit, _| shown.view.calls(after, limit))
}

async fn records(State(shown): Shared, query: QueryResult) -> Response {
    page("records", query, |after, limit, _| shown.view.records(after, limit))
}

async fn connections(State(shown): Shared, query: QueryResult) -> Response {
    page("connections", query, |after, limit, text| shown.view.connections(after, limit, text))
}

async fn trunks(State(shown): Shared, query: QueryResult) -> Response {
    page("trunks", query, |after, limit, text| shown.view.trunks(after, limit, text))
}

async fn cluster(State(shown): Shared) -> Response {
    json_of(
        &shown
            .view
            .cluster()
            .map_or_else(|| json!({ "node": null, "store": null, "nodes": [] }), |cluster| json!(cluster)),
    )
}

/// Times of the steps; without any, `steps` is null.
fn steps(times: Option<StepTimes>) -> Response {
    json_of(&times.map_or_else(|| json!({ "mark_ns": null, "steps": null }), |times| json!(times)))
}

fn page<T: Serialize>(
    name: &str,
    query: QueryResult,
    list: impl Fn(Option<&str>, usize, Option<&str>) -> Page<T>,
) -> Response {
    let Ok(Query(query)) = query else {
        return refusal(
            StatusCode::BAD_REQUEST,
            "write ?after=CURSOR&limit=N, with N a number from 1 to 10000",
        );
    };
    let limit = query.limit.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX);
    let after = query.after.as_deref().filter(|after| !after.is_empty());
    let text = match search_text(query.q.as_deref()) {
        Ok(text) => text,
        Err(why) => return refusal(StatusCode::BAD_REQUEST, why),
    };
    let page = list(after, limit, text);
    json_of(&json!({ name: page.items, "total": page.total, "next": page.next }))
}

/// A listing that is never long.
fn whole<T: Serialize>(name: &str, items: &[T]) -> Response {
    json_of(&json!({ name: items, "total": items.len(), "next": null }))
}

/// Text of a search, `None` without one.
///
/// # Errors
/// The text is too long; the message for the administrator.
pub(crate) fn search_text(text: Option<&str>) -> Result<Option<&str>, &'static str> {
    let text = text.map(str::trim).filter(|text| !text.is_empty());
    match text {
        Some(text) if text.len() > TEXT_BYTES_MAX => {
            Err("?q= has more than 128 bytes; search for a shorter text")
        }
        text => Ok(text),
    }
}

/// The flat object of `/api/stats`.
fn stats(stats: &Stats) -> Value {
    let mut flat = Map::new();
    for stat in stats {
        let name = match &stat.label {
            None => stat.name.to_string(),
            Some((_, value)) => format!("{}.{value}", stat.name),
        };
        let is_whole = stat.value.fract() == 0.0 && stat.value.abs() < 9e15;
        let number =
            if is_whole { Some(Number::from(stat.value as i64)) } else { Number::from_f64(stat.value) };
        flat.insert(name, number.map_or(Value::Null, Value::Number));
    }
    Value::Object(flat)
}

/// Prometheus' text format 0.0.4.
fn metrics(stats: &Stats) -> String {
    let mut text = String::new();
    let mut last = "";
    for stat in stats {
        if last != stat.name {
            last = &stat.name;
            let kind = match stat.kind {
                MetricKind::Counter => "counter",
                MetricKind::Gauge => "gauge",
            };
            let help = stat.help.replace('\\', "\\\\").replace('\n', "\\n");
            let _ = writeln!(text, "# HELP ringway_{last} {help}\n# TYPE ringway_{last} {kind}");
        }
        let _ = match &stat.label {
            None => writeln!(text, "ringway_{last} {}", stat.value),
            Some((label, value)) => {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                writeln!(text, "ringway_{last}{{{label}=\"{value}\"}} {}", stat.value)
            }
        };
    }
    text
}

fn typed(kind: &'static str, text: String) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static(kind))], text).into_response()
}

pub(crate) fn json_of(value: &Value) -> Response {
    typed("application/json", format!("{value}\n"))
}

pub(crate) fn refusal(status: StatusCode, why: &str) -> Response {
    let mut response = (status, json_of(&json!({ "error": why }))).into_response();
    *response.status_mut() = status;
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// The path of the traces.
pub(crate) fn trace_router(view: Arc<dyn View>) -> Router {
    Router::new().route("/api/trace", get(trace)).with_state(view)
}

/// Query of a trace.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceQuery {
    user: String,
    /// Number of the last entry that the reader has; `None`: entries from now on.
    after: Option<u64>,
    /// Time in seconds to wait for an entry.
    wait: Option<u64>,
    /// True: it is the reader's last poll.
    #[serde(default)]
    end: bool,
}

/// Reader of a trace; dropped without an answer when its client closes the connection.
struct Reader<'a> {
    traces: &'a dyn Traces,
    user: &'a str,
    will_return: bool,
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        if !self.will_return {
            self.traces.leave(self.user);
        }
    }
}

async fn trace(
    State(view): State<Arc<dyn View>>,
    query: Result<Query<TraceQuery>, QueryRejection>,
) -> Response {
    let Ok(Query(query)) = query else {
        let why = "write ?user=NAME&after=N, with N the `next` of the last answer, 0 for all or no `after` for entries from now on; \
                   &wait=SECONDS and, for the last poll, &end=true if you want";
        return refusal(StatusCode::BAD_REQUEST, why);
    };
    let Some(traces) = view.traces() else {
        return refusal(StatusCode::NOT_FOUND, "this server has no traces");
    };
    let wait = query.wait.map_or(WAIT_MAX, Duration::from_secs).min(WAIT_MAX);
    let until = Instant::now() + wait;
    let mut after = query.after;
    let mut reader = Reader { traces, user: &query.user, will_return: false };
    loop {
        let page = match traces.read(&query.user, after, ENTRIES_MAX) {
            Ok(page) => page,
            Err(why) => return refused(why),
        };
        if !page.entries.is_empty() || page.lost > 0 || Instant::now() >= until {
            reader.will_return = !query.end;
            return json_of(&json!({ "entries": page.entries, "next": page.next, "lost": page.lost }));
        }
        after = Some(after.unwrap_or(page.next));
        // Looking again costs the workers nothing; to be woken by them would cost a system call for each message.
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

fn refused(why: TraceRefusal) -> Response {
    match why {
        TraceRefusal::BadName => refusal(
            StatusCode::BAD_REQUEST,
            "write the name of a user, as in ?user=bob or ?user=bob@example.org",
        ),
        TraceRefusal::TooMany => refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            "other users are traced, as many as are possible at once; end one of these traces (`ringway trace`, or Follow in the \
             dashboard) and try again. A trace whose reader is lost ends after a minute",
        ),
    }
}

/// Maximum time of a poll.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// Interval at which a poll looks for entries.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of entries in one answer.
const ENTRIES_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Stat;

    #[test]
    fn figures_are_written_for_people_and_for_prometheus() {
        let figures = vec![
            Stat::counter("requests_total", "Requests received.", 12).labelled("method", "REGISTER"),
            Stat::counter("requests_total", "Requests received.", 3).labelled("method", "IN\"VITE"),
            Stat::gauge("queue_wait_s", "Time in the queue.", 0.25),
        ];
        assert_eq!(
            stats(&figures),
            json!({"requests_total.REGISTER": 12, "requests_total.IN\"VITE": 3, "queue_wait_s": 0.25})
        );
        assert_eq!(
            metrics(&figures),
            "# HELP ringway_requests_total Requests received.\n\
             # TYPE ringway_requests_total counter\n\
             ringway_requests_total{method=\"REGISTER\"} 12\n\
             ringway_requests_total{method=\"IN\\\"VITE\"} 3\n\
             # HELP ringway_queue_wait_s Time in the queue.\n\
             # TYPE ringway_queue_wait_s gauge\n\
             ringway_queue_wait_s 0.25\n"
        );
    }
}

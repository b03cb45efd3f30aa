//! The pages of the admin API, by path.

use crate::access::AccessCheck;
use crate::clients::Clients;
use crate::view::{MetricKind, Page, Stat, Stats, View};
use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::header::{X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};
use std::fmt::Write;
use std::sync::Arc;

/// Items in one answer unless `limit` asks for fewer or more.
pub(crate) const LIMIT_DEFAULT: usize = 1000;
/// The most items in one answer.
pub(crate) const LIMIT_MAX: usize = 10_000;

const INDEX: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Ringway</title>
<h1>Ringway</h1>
<p>This server is running. What it shows:</p>
<ul>
<li><a href=\"/api/registrations\">/api/registrations</a> who is registered, and where (<code>?after=CURSOR&amp;limit=N</code>)
<li><a href=\"/api/calls\">/api/calls</a> calls under way
<li><a href=\"/api/records\">/api/records</a> calls that ended
<li><a href=\"/api/connections\">/api/connections</a> open TCP connections
<li><a href=\"/api/stats\">/api/stats</a> figures, as one flat JSON object
<li><a href=\"/api/trunks\">/api/trunks</a> trunks: up, down or silent, and what they answered
<li><a href=\"/api/relays\">/api/relays</a> media relays: up or down
<li>/api/trace?user=NAME what happens to the requests of a user
<li><a href=\"/metrics\">/metrics</a> the same for Prometheus
<li><a href=\"/api/blocks\">/api/blocks</a> who may not call
<li>/api/users/NAME/forward where the calls of a user go when it is busy, does not answer or has no phone
</ul>
<p>The same in a terminal: <code>ringway show registrations</code></p>
</html>
";

type Shared = State<Arc<Source>>;

/// Source of the pages: the server and the admin API itself.
struct Source {
    view: Arc<dyn View>,
    clients: Arc<Clients>,
}

impl Source {
    fn stats(&self) -> Stats {
        let mut stats = self.view.stats();
        let help = "Connections of the admin API closed to make room for newer ones.";
        stats.push(Stat::counter("admin_clients_displaced", help, self.clients.displaced()));
        stats
    }
}

/// The paths that show something at once, and `others`; each request must pass `access`.
pub(crate) fn router(
    view: Arc<dyn View>,
    others: Router,
    clients: Arc<Clients>,
    access: Arc<AccessCheck>,
) -> Router {
    Router::new()
        .route("/", get(async || typed("text/html; charset=utf-8", INDEX.to_owned())))
        .route("/api/registrations", get(registrations))
        .route("/api/calls", get(calls))
        .route("/api/records", get(records))
        .route("/api/connections", get(connections))
        .route("/api/trunks", get(async |State(source): Shared| whole("trunks", &source.view.trunks())))
        .route("/api/relays", get(async |State(source): Shared| whole("relays", &source.view.relays())))
        .route("/api/stats", get(async |State(source): Shared| json_of(&stats(&source.stats()))))
        .route(
            "/metrics",
            get(async |State(source): Shared| {
                typed("text/plain; version=0.0.4; charset=utf-8", metrics(&source.stats()))
            }),
        )
        .with_state(Arc::new(Source { view, clients }))
        .merge(others)
        .fallback(async || refusal(StatusCode::NOT_FOUND, "nothing is here; / lists what is"))
        .method_not_allowed_fallback(async || {
            refusal(StatusCode::METHOD_NOT_ALLOWED, "this path has no such method; see the user guide")
        })
        .layer(from_fn_with_state(access, guard))
}

async fn guard(State(access): State<Arc<AccessCheck>>, request: Request, next: Next) -> Response {
    let mut response = match access.check(request.method(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err((status, why)) => refusal(status, why),
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'"));
    response
}

/// Query of a listing.
#[derive(Deserialize)]
pub(crate) struct PageQuery {
    pub(crate) after: Option<String>,
    pub(crate) limit: Option<usize>,
}

type QueryResult = Result<Query<PageQuery>, QueryRejection>;

async fn registrations(State(source): Shared, query: QueryResult) -> Response {
    page("registrations", query, |after, limit| source.view.registrations(after, limit))
}

async fn calls(State(source): Shared, query: QueryResult) -> Response {
    page("calls", query, |after, limit| source.view.calls(after, limit))
}

async fn records(State(source): Shared, query: QueryResult) -> Response {
    page("records", query, |after, limit| source.view.records(after, limit))
}

async fn connections(State(source): Shared, query: QueryResult) -> Response {
    page("connections", query, |after, limit| source.view.connections(after, limit))
}

fn page<T: Serialize>(
    name: &str,
    query: QueryResult,
    list: impl Fn(Option<&str>, usize) -> Page<T>,
) -> Response {
    let Ok(Query(query)) = query else {
        return refusal(
            StatusCode::BAD_REQUEST,
            "write ?after=CURSOR&limit=N, with N a number from 1 to 10000",
        );
    };
    let limit = query.limit.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX);
    let after = query.after.as_deref().filter(|after| !after.is_empty());
    let page = list(after, limit);
    json_of(&json!({ name: page.items, "total": page.total, "next": page.next }))
}

/// A listing that is never long.
fn whole<T: Serialize>(name: &str, items: &[T]) -> Response {
    json_of(&json!({ name: items, "total": items.len(), "next": null }))
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

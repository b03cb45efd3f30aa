//! `/api/trace`: what happens to the requests of a user, as a long poll.

use crate::pages::{json_of, refusal};
use crate::view::{TraceRefusal, Traces, View};
use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The path of the traces.
pub(crate) fn router(view: Arc<dyn View>) -> Router {
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

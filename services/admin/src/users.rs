//! The paths of users.

use crate::answer::{Shared, answer, apply, failed};
use crate::control::{Change, TextPosition, UserQuery};
use crate::pages::{json_of, refusal, search_text};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;

/// Maximum number of users in one answer: each is looked up in its shard and in the store.
const LIMIT_MAX: usize = 500;
const LIMIT_DEFAULT: usize = 100;

/// Query of the list of users.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    after: Option<String>,
    limit: Option<usize>,
    q: Option<String>,
    #[serde(default)]
    position: TextPosition,
}

pub(crate) async fn list(
    State(control): Shared,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Response {
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
    let limit = limit.unwrap_or(LIMIT_DEFAULT).clamp(1, LIMIT_MAX);
    let query = UserQuery { after, limit, text, position };
    match tokio::task::spawn_blocking(move || control.users(&query)).await {
        Ok(Ok(page)) => json_of(&json!({ "users": page.items, "total": page.total, "next": page.next })),
        Ok(Err(why)) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &why),
        Err(_) => failed(),
    }
}

pub(crate) async fn one(State(control): Shared, user: Result<Path<String>, PathRejection>) -> Response {
    match user {
        Ok(Path(user)) => answer(move || control.user(&user)).await,
        Err(_) => refusal(StatusCode::BAD_REQUEST, NAME_NEEDED),
    }
}

pub(crate) async fn kick(State(control): Shared, user: Result<Path<String>, PathRejection>) -> Response {
    match user {
        Ok(Path(user)) => apply(control, Change::Kick(user)).await,
        Err(_) => refusal(StatusCode::BAD_REQUEST, NAME_NEEDED),
    }
}

const NAME_NEEDED: &str = "write the name of a user, as in /api/users/bob";

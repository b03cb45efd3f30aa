//! The paths of the admin API that change the server.

use crate::answer::{Shared, answer, apply, failed};
use crate::body::{KeyList, ReloadQuery, read_body};
use crate::control::{Change, Control, Forwards, NewBlock, NewDrain};
use crate::pages::{LIMIT_DEFAULT, LIMIT_MAX, PageQuery, json_of, refusal};
use crate::{routes, users};
use axum::Router;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{delete, get, post};
use serde_json::json;
use std::sync::Arc;

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
        .route("/api/users", get(users::list))
        .route("/api/users/{user}", get(users::one))
        .route("/api/users/{user}/registrations", delete(users::kick))
        .route("/api/drain", post(drain).delete(cancel_drain))
        .route("/api/connections/{id}", delete(drop_connection))
        .route("/api/config", get(configuration))
        .route("/api/routes", get(routes::show).put(routes::edit))
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

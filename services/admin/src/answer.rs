//! Answers of the control of the server, which may wait for files, as responses.

use crate::control::{Answer, Change, Control};
use crate::pages::{json_of, refusal};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use std::sync::Arc;

pub(crate) type Shared = State<Arc<dyn Control>>;

/// Makes a change, and answers with its result.
pub(crate) async fn apply(control: Arc<dyn Control>, change: Change) -> Response {
    answer(move || control.apply(change)).await
}

/// Answers with the result of `work`, which may wait for files.
pub(crate) async fn answer(work: impl FnOnce() -> Answer + Send + 'static) -> Response {
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

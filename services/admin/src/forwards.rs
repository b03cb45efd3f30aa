//! Forwards of a user: shown, replaced and removed.

use crate::pages::{Shared, json_of, refusal};
use crate::view::{ChangeError, Forwards, UserForwards};
use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

pub(crate) async fn show(State(source): Shared, Path(user): Path<String>) -> Response {
    answer(source.view.forwards(&user))
}

pub(crate) async fn replace(State(source): Shared, Path(user): Path<String>, body: Body) -> Response {
    let Ok(bytes) = to_bytes(body, BODY_BYTES_MAX).await else {
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, "the body has at most 16384 bytes");
    };
    match serde_json::from_slice::<Forwards>(&bytes) {
        Ok(forwards) => answer(source.view.set_forwards(&user, &forwards)),
        Err(error) => {
            let example =
                r#"{"busy":"sip:carol@example.org","no_answer":{"after_s":20,"to":"sip:carol@example.org"}}"#;
            refusal(StatusCode::BAD_REQUEST, &format!("{error}; write for example {example}"))
        }
    }
}

pub(crate) async fn remove(State(source): Shared, Path(user): Path<String>) -> Response {
    answer(source.view.set_forwards(&user, &Forwards::default()))
}

fn answer(result: Result<UserForwards, ChangeError>) -> Response {
    match result {
        Ok(UserForwards { user, forwards }) => json_of(&json!({ "user": user, "forwards": forwards })),
        Err(ChangeError::NotFound(why)) => refusal(StatusCode::NOT_FOUND, &why),
        Err(ChangeError::Invalid(why)) => refusal(StatusCode::BAD_REQUEST, &why),
        Err(ChangeError::Failed(why)) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &why),
    }
}

/// Maximum length of a body: four URIs of 255 bytes, each byte as an escape of JSON, fit twice.
const BODY_BYTES_MAX: usize = 16 << 10;

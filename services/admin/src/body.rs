//! Bodies and queries of requests that change something.

use crate::pages::refusal;
use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use axum::response::Response;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Query of a reload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReloadQuery {
    #[serde(default)]
    pub(crate) dry_run: bool,
}

/// Keys of a configuration with their values, of a bounded number.
pub(crate) struct KeyList(pub(crate) BTreeMap<String, Option<String>>);

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
pub(crate) async fn read_body(request: Request, bytes_max: usize) -> Result<Bytes, Response> {
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

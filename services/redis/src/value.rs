//! Parts of replies.

use redis::Value;

/// Items of an array, or of nothing.
pub(crate) fn items(value: Value) -> Vec<Value> {
    value.into_sequence().unwrap_or_default()
}

/// Bytes of a string.
pub(crate) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}

/// A string.
pub(crate) fn text(value: &Value) -> Option<&str> {
    bytes(value).and_then(|bytes| std::str::from_utf8(bytes).ok())
}

/// A number, also one written as a string.
pub(crate) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        other => text(other)?.parse().ok(),
    }
}

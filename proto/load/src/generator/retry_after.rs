//! Retry-After of a refusal (RFC 3261 §20.33).

use core::time::Duration;
use ringway_sip::{HeaderName, Message};

/// Time for which the server asks to wait, at most an hour; `None` if it does not.
pub(super) fn retry_after(message: &Message<'_>) -> Option<Duration> {
    let value = message.first(HeaderName::RetryAfter)?.trim_ascii_start();
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let seconds: u32 = core::str::from_utf8(value.get(..digits)?).ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds.min(SECONDS_MAX).into()))
}

/// Longest time.
const SECONDS_MAX: u32 = 3600;

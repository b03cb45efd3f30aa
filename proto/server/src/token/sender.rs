//! Requests as their senders have them, for responses of this server.

use super::caller_uri::with_shown_uri;
use super::topology::Inside;
use crate::Config;
use ringway_sansio::Flow;
use ringway_sip::{Limits, Message};

/// Calls `act` with a request as its sender has it, for a response of this server.
pub(crate) fn as_its_sender_has<T>(
    config: &Config,
    key: &[u8; 16],
    hidden: &[u8; 16],
    message: &Message<'_>,
    source: &Flow,
    act: impl FnOnce(&Message<'_>) -> T,
) -> T {
    if cfg!(feature = "operator")
        && !config.trunking.trunks.is_empty()
        && let Some(bytes) = Inside::new(config, key, hidden).as_trunk_has(message, source)
        && let Ok(outside) = &Message::parse(&bytes, &Limits::STORED)
    {
        return act(outside);
    }
    if cfg!(feature = "operator")
        && let Some(bytes) = with_shown_uri(config, key, message)
        && let Ok(message) = &Message::parse(&bytes, &Limits::STORED)
    {
        return act(message);
    }
    act(message)
}

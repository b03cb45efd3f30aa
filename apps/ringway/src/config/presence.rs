//! `[presence]`: SUBSCRIBE and PUBLISH for the server's users, and messages for those without a phone.

use super::{Reader, Section};
use ringway_server::{Config, Mode, PresenceConfig, Watchers};
use std::ops::RangeInclusive;

pub(super) fn read(reader: &mut Reader<'_>, top: &mut Section<'_, '_>, server: &Config) -> PresenceConfig {
    let default = PresenceConfig::default();
    let mut section = top.section(reader, "presence");
    let presence = PresenceConfig {
        enabled: section.switch(reader, "enabled", default.enabled),
        watchers: section.word(reader, "watchers", default.watchers, &WATCHERS),
        min_expires_s: section.number(reader, "min_expires_s", default.min_expires_s, EXPIRES_S),
        max_expires_s: section.number(reader, "max_expires_s", default.max_expires_s, EXPIRES_S),
        messages: section.switch(reader, "messages", default.messages),
        message_keep_days: section.number(reader, "message_keep_days", default.message_keep_days, KEEP_DAYS),
    };
    for (key, is_on) in [("enabled", presence.enabled), ("messages", presence.messages)] {
        if is_on && server.mode == Mode::Redirect {
            let message = format!("needs [routing] mode = \"proxy\"; set it, or {key} = false");
            reader.error(section.place(key).unwrap_or_default(), section.path(key), message);
        }
    }
    if presence.min_expires_s > presence.max_expires_s {
        let message = format!("is more than max_expires_s = {}; lower it", presence.max_expires_s);
        let at = section.place("min_expires_s").or_else(|| section.place("max_expires_s"));
        reader.error(at.unwrap_or_default(), section.path("min_expires_s"), message);
    }
    section.finish(reader);
    presence
}

const WATCHERS: [(&str, Watchers); 2] = [("domain", Watchers::Domain), ("self", Watchers::Oneself)];
/// Ten seconds to a day.
const EXPIRES_S: RangeInclusive<u32> = 10..=86_400;
/// Days for which a message is kept.
const KEEP_DAYS: RangeInclusive<u32> = 1..=30;

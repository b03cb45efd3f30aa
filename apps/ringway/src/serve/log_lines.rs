//! Lines of the log. Reached limits are logged at once, and then at most once per interval with a count; lines that peers can
//! cause have a rate; text from the network is escaped, on one line and limited in length.
//!
//! It reads the existing counters of the limits, so that it costs nothing on the packet path.

use ringway_sansio::{Seed, source_of};
use ringway_server::SourceRates;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Last logged count of each limit.
#[derive(Debug, Default)]
pub(super) struct LimitLog {
    limits: HashMap<&'static str, Logged>,
    due: Option<Instant>,
}

#[derive(Debug, Default)]
struct Logged {
    count: u64,
    at: Option<Instant>,
}

impl LimitLog {
    /// True once a second, when [`LimitLog::reached`] should be called.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.due.is_none_or(|due| due <= now);
        if is_due {
            self.due = Some(now + CHECK_INTERVAL);
        }
        is_due
    }

    /// Returns the limits to be logged now, with the number of times that each was reached since it was logged last.
    pub(super) fn reached<'c>(
        &mut self,
        now: Instant,
        counters: impl Iterator<Item = (&'c str, u64)>,
    ) -> Vec<(&'static str, u64)> {
        let mut reached = Vec::new();
        for (name, value) in counters {
            let Some(name) = LIMITS.iter().find(|limit| **limit == name) else { continue };
            let logged = self.limits.entry(name).or_default();
            let is_time = logged.at.is_none_or(|at| now.duration_since(at) >= LOG_INTERVAL);
            if value > logged.count && is_time {
                reached.push((*name, value - logged.count));
                *logged = Logged { count: value, at: Some(now) };
            }
        }
        reached
    }
}

/// Logs the result of [`LimitLog::reached`].
pub(super) fn write(reached: &[(&'static str, u64)]) {
    for (limit, count) in reached {
        tracing::info!(%limit, count, "limit reached");
    }
}

/// Counters of limits.
const LIMITS: &[&str] = &[
    "admin_clients_displaced",
    "admin_tokens_slowed",
    "blocked_sources",
    "calls_uncounted",
    "connections_over_source",
    "connections_refused",
    "controls_refused",
    "crowded_closes",
    "dials_refused",
    "domain_calls_refused",
    "emergencies_over_rate",
    "emergency_calls_refused",
    "ended_invites_evicted",
    "forward_loops",
    "handshakes_refused",
    "header_changes_skipped",
    "held_briefly",
    "held_drops",
    "icmp_pauses",
    "identities_over_rate",
    "inbox_drops",
    "keep_alive_closes",
    "lamps_left_out",
    "lamps_refused",
    "locates_too_many",
    "locates_too_often",
    "log_lines_dropped",
    "lookups_refused",
    "lookups_without_result",
    "messages_delayed",
    "messages_refused",
    "messages_rejected",
    "nonces_evicted",
    "notifies_delayed",
    "over_memory",
    "over_rate",
    "over_user_forwards",
    "over_user_requests",
    "overflow",
    "overload_dropped",
    "overload_refused",
    "proxy_headers_late",
    "proxy_headers_refused",
    "proxy_sources_refused",
    "publications_refused",
    "rejected_too_large",
    "rejected_too_many_headers",
    "rejected_uri_too_long",
    "registration_too_large",
    "requests_withheld",
    "responses_limited",
    "send_drops",
    "signers_refused",
    "slow_closes",
    "slowed_logins",
    "store_records_dropped",
    "stream_memory_closes",
    "stream_source_closes",
    "subscriptions_refused",
    "too_broad",
    "too_many_contacts",
    "too_many_flows",
    "topology_too_long",
    "trace_entries_lost",
    "transactions_refused",
    "trunk_calls_in_refused",
    "trunk_registrations_delayed",
    "trunk_service_routes_refused",
    "unreachable_unreported",
    "unusable_refused",
    "unused_closes",
    "user_calls_refused",
    "write_back_dropped",
    "write_queue_closes",
];

/// Minimum interval between two lines of one limit.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Limits of the lines of each source and of all.
pub(super) struct LineRates {
    by_source: SourceRates,
    of_all: SourceRates,
    /// Suppressed lines of each source since its last line.
    suppressed: HashMap<IpAddr, u64>,
}

impl LineRates {
    /// Permits `per_source` lines of a source and `all` of all sources in a second.
    pub(super) fn new((per_source, all): (u32, u32), seed: &Seed) -> Self {
        let by_source = SourceRates::new(per_source, seed);
        Self { by_source, of_all: SourceRates::new(all, seed), suppressed: HashMap::new() }
    }

    /// Admits a line for `address`; returns the number of suppressed lines of its source, or `None` if this line is
    /// suppressed.
    pub(super) fn admit(&mut self, now: ringway_sansio::Instant, address: IpAddr) -> Option<u64> {
        let source = source_of(address);
        let everybody = IpAddr::from([0, 0, 0, 0]);
        if self.by_source.admit(now, address) && self.of_all.admit(now, everybody) {
            return Some(self.suppressed.remove(&source).unwrap_or_default());
        }
        if self.suppressed.len() >= SUPPRESSED_SOURCES_MAX && !self.suppressed.contains_key(&source) {
            self.suppressed.clear();
        }
        *self.suppressed.entry(source).or_default() += 1;
        None
    }
}

/// Maximum number of sources with counts of suppressed lines; above it the counts are cleared.
const SUPPRESSED_SOURCES_MAX: usize = 16_384;

/// A value without spaces: quotes, backslashes and bytes that are not visible ASCII are written as `\xNN`.
pub(super) struct Word<'a>(pub(super) &'a [u8]);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0.iter().take(WORD_BYTES_MAX) {
            match byte {
                b'\\' | b'"' | b'\'' => write!(f, "\\x{byte:02x}")?,
                byte if byte.is_ascii_graphic() => write!(f, "{}", char::from(byte))?,
                byte => write!(f, "\\x{byte:02x}")?,
            }
        }
        if self.0.len() > WORD_BYTES_MAX { f.write_str("...") } else { Ok(()) }
    }
}

/// A message in quotes on one line without spaces: line ends as `\r\n`, other bytes that are not visible ASCII as
/// `\xNN`, credentials omitted. With a space a part of a message could look like another field or line.
pub(super) struct Quoted<'a>(pub(super) &'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        let mut hides = false;
        for line in self.0.get(..MESSAGE_BYTES_MAX).unwrap_or(self.0).split_inclusive(|&byte| byte == b'\n') {
            let is_folded = line.starts_with(b" ") || line.starts_with(b"\t");
            if is_folded && hides {
                continue;
            }
            let name = line.split(|&byte| byte == b':').next().unwrap_or_default().trim_ascii_end();
            let secret = SECRET.iter().find(|secret| secret.eq_ignore_ascii_case(name));
            hides = secret.is_some();
            match secret {
                Some(name) => {
                    write_text(f, name)?;
                    f.write_str(": ...\\r\\n")?;
                }
                None => write_text(f, line)?,
            }
        }
        if self.0.len() > MESSAGE_BYTES_MAX { f.write_str("\"...") } else { f.write_str("\"") }
    }
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &[u8]) -> fmt::Result {
    for &byte in text {
        match byte {
            b'\r' => f.write_str("\\r")?,
            b'\n' => f.write_str("\\n")?,
            b'\\' | b'"' => write!(f, "\\{}", char::from(byte))?,
            byte if byte.is_ascii_graphic() => write!(f, "{}", char::from(byte))?,
            byte => write!(f, "\\x{byte:02x}")?,
        }
    }
    Ok(())
}

/// Header fields whose values permit guessing passwords.
const SECRET: [&[u8]; 2] = [b"Authorization", b"Proxy-Authorization"];

/// Maximum length of a shown name, URI or Call-ID.
const WORD_BYTES_MAX: usize = 256;

/// Maximum length of a shown message.
const MESSAGE_BYTES_MAX: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_logged_at_once_and_then_once_per_interval() {
        let mut log = LimitLog::default();
        let start = Instant::now();
        let mut reached = |after_s: u64, value: u64| {
            log.reached(
                start + Duration::from_secs(after_s),
                [("over_rate", value), ("requests", value)].into_iter(),
            )
        };
        assert_eq!(reached(0, 0), []);
        assert_eq!(reached(1, 3), [("over_rate", 3)]);
        assert_eq!(reached(2, 500), []);
        assert_eq!(reached(60, 700), []);
        assert_eq!(reached(61, 703), [("over_rate", 700)]);
        assert_eq!(reached(122, 703), []);
        assert_eq!(reached(123, 704), [("over_rate", 1)]);
    }

    #[test]
    fn suppressed_lines_are_counted_for_each_source() {
        let mut rates = LineRates::new((1, 50), &Seed::from_number(1));
        let now = ringway_sansio::Instant::from_secs(100);
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        assert_eq!([one, one, one, other].map(|ip| rates.admit(now, ip)), [Some(0), None, None, Some(0)]);
        let later = now + std::time::Duration::from_secs(2);
        assert_eq!([other, one, one].map(|ip| rates.admit(later, ip)), [Some(0), Some(2), None]);
        for number in 0..SUPPRESSED_SOURCES_MAX as u32 * 2 {
            rates.admit(later, IpAddr::from(number.to_be_bytes()));
        }
        assert!(rates.suppressed.len() <= SUPPRESSED_SOURCES_MAX);
    }

    #[test]
    fn a_value_is_one_word_with_any_content() {
        let hostile = "a b\r\nrefused login user=x address=192.0.2.1 reason=\"y\"\\\u{1b}[31m\u{85}\u{fc}";
        let shown = Word(hostile.as_bytes()).to_string();
        assert!(shown.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"'), "{shown}");
        assert_eq!(Word(b"alice@example.org").to_string(), "alice@example.org");
        assert_eq!(Word(b"sip:a@[::1]:5060;transport=tcp").to_string(), "sip:a@[::1]:5060;transport=tcp");
        assert_eq!(Word(&[b'x'; 300]).to_string().len(), WORD_BYTES_MAX + 3);
    }

    #[test]
    fn a_message_is_one_line_without_credentials() {
        let message = b"REGISTER sip:a SIP/2.0\r\nproxy-authorization : Digest\r\n response=\"s3cret\"\r\nX: \"\x1b\xff\"\r\n\r\n";
        assert_eq!(
            Quoted(message).to_string(),
            "\"REGISTER\\x20sip:a\\x20SIP/2.0\\r\\nProxy-Authorization: ...\\r\\nX:\\x20\\\"\\x1b\\xff\\\"\\r\\n\\r\\n\""
        );
        let hostile = Quoted(b"\n INFO refused login user=x address=192.0.2.1\t\x0b\x7f\\ \" ").to_string();
        assert!(hostile.bytes().all(|byte| byte.is_ascii_graphic()), "{hostile}");
        assert!(Quoted(&[b'x'; 60_000]).to_string().len() < MESSAGE_BYTES_MAX + 10);
    }
}

//! Detection of a target that does not answer.

use ringway_sansio::{Instant, Outbox, Token};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Time of the last received message, of all threads.
#[derive(Debug)]
pub(crate) struct LastMessage {
    start: Instant,
    /// In nanoseconds; 0: none yet.
    at: AtomicU64,
}

impl LastMessage {
    pub(crate) const fn new(start: Instant) -> Self {
        Self { start, at: AtomicU64::new(0) }
    }

    /// Notes a received message.
    pub(crate) fn note(&self, now: Instant) {
        self.at.fetch_max(now.as_nanos(), Ordering::Relaxed);
    }

    fn last(&self) -> Option<Instant> {
        match self.at.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Instant::from_nanos(nanos)),
        }
    }
}

/// Requests of one thread that are not answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TargetWatch {
    target: SocketAddr,
    /// Time of the first request after the last received message.
    unanswered_since: Option<Instant>,
    /// Number of refusals so far.
    refused: u64,
    /// Time of the first refusal after the last received message.
    refused_since: Option<Instant>,
    /// Number of received messages that are not SIP, so far and at the last SIP message.
    foreign: u64,
    foreign_before: u64,
}

impl TargetWatch {
    pub(crate) const fn new(target: SocketAddr) -> Self {
        Self {
            target,
            unanswered_since: None,
            refused: 0,
            refused_since: None,
            foreign: 0,
            foreign_before: 0,
        }
    }

    /// Notes a SIP message of any peer.
    pub(crate) const fn received(&mut self) {
        self.foreign_before = self.foreign;
        self.unanswered_since = None;
        self.refused_since = None;
    }

    /// Notes packets that are about to be sent.
    pub(crate) fn sending(&mut self, out: &Outbox, now: Instant) {
        let is_request = |(packet, bytes): (&ringway_sansio::Packet, &[u8])| {
            packet.token != Token::NONE && !bytes.starts_with(b"SIP/2.0 ")
        };
        if self.unanswered_since.is_none() && out.packets().any(is_request) {
            self.unanswered_since = Some(now);
        }
    }

    /// Notes the number of refusals so far: ICMP errors, refused connections.
    pub(crate) const fn refusals(&mut self, count: u64, now: Instant) {
        if count > self.refused && self.refused_since.is_none() {
            self.refused_since = Some(now);
        }
        self.refused = count;
    }

    /// Notes the number of received messages so far that are not SIP.
    pub(crate) const fn foreign(&mut self, count: u64) {
        self.foreign = count;
    }

    /// Text for the user if the target does not answer any more. `tls` is the reason for which no TLS handshake succeeds.
    pub(crate) fn loss(&self, last_message: &LastMessage, tls: Option<&str>, now: Instant) -> Option<String> {
        let Self { target, .. } = self;
        let last = last_message.last();
        let is_refused = self.refused_since.is_some_and(|since| {
            last.is_none_or(|last| now.since(last) >= REFUSED_MAX && now.since(since) >= REFUSED_MAX)
        });
        let silence_max = if last.is_some() { SILENCE_MAX } else { FIRST_SILENCE_MAX };
        let is_silent = self.unanswered_since.is_some_and(|since| {
            now.since(since) >= silence_max && last.is_none_or(|last| now.since(last) >= silence_max)
        });
        if let (Some(reason), None) = (tls, last)
            && self.unanswered_since.is_some_and(|since| now.since(since) >= REFUSED_MAX)
        {
            return Some(format!("no TLS handshake with {target} succeeds: {reason}"));
        }
        if !(is_refused || is_silent) {
            return None;
        }
        let (in_sip, reason) = match self.foreign > self.foreign_before {
            _ if is_refused => ("", "it refuses packets"),
            true => (" in SIP", "only messages that are not SIP were received"),
            false => ("", "nothing was received"),
        };
        Some(match last {
            None => format!(
                "{target} does not answer{in_sip}: {reason} ({:.1} s); check the address, the transport, and that the server runs",
                now.since(last_message.start).as_secs_f64()
            ),
            Some(last) => format!(
                "{target} stopped answering{in_sip} {:.1} s after the start: {reason} since then ({:.1} s); the load was ended",
                last.since(last_message.start).as_secs_f64(),
                now.since(last).as_secs_f64()
            ),
        })
    }
}

/// Time without any message after which a target that never answered is given up.
const FIRST_SILENCE_MAX: Duration = Duration::from_secs(3);
/// Time without any message, although requests are unanswered, after which the load is ended.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Time of refusals without any message after which the load is ended.
const REFUSED_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::{Flow, ListenerId};

    const START: Instant = Instant::from_secs(10);

    fn watch() -> (TargetWatch, LastMessage, Outbox) {
        let target: SocketAddr = "127.0.0.1:5060".parse().unwrap();
        let mut out = Outbox::new();
        out.send(Flow::udp(ListenerId(0), target), Token(5), b"OPTIONS sip:x SIP/2.0\r\n");
        (TargetWatch::new(target), LastMessage::new(START), out)
    }

    fn after(seconds: f64) -> Instant {
        START + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_target_that_never_answers_is_given_up_after_seconds_and_one_that_refuses_at_once() {
        let (mut watch, last_message, out) = watch();
        assert_eq!(watch.loss(&last_message, None, after(60.0)), None, "nothing was sent");
        watch.sending(&out, after(1.0));
        watch.sending(&out, after(3.5));
        assert_eq!(watch.loss(&last_message, None, after(3.9)), None);
        assert!(
            watch
                .loss(&last_message, None, after(4.0))
                .unwrap()
                .starts_with("127.0.0.1:5060 does not answer")
        );
        watch.refusals(1, after(1.1));
        assert!(watch.loss(&last_message, None, after(1.1)).unwrap().contains("refuses"));
    }

    #[test]
    fn a_target_whose_handshakes_fail_is_given_up_with_the_reason() {
        let (mut watch, last_message, out) = watch();
        watch.sending(&out, after(1.0));
        assert_eq!(watch.loss(&last_message, Some("the certificate has expired"), after(1.9)), None);
        let text = watch.loss(&last_message, Some("the certificate has expired"), after(2.0)).unwrap();
        assert_eq!(text, "no TLS handshake with 127.0.0.1:5060 succeeds: the certificate has expired");
        last_message.note(after(2.0));
        assert_eq!(watch.loss(&last_message, Some("the certificate has expired"), after(2.1)), None);
    }

    #[test]
    fn a_target_that_dies_is_given_up_and_a_quiet_one_is_not() {
        let (mut watch, last_message, mut out) = watch();
        watch.sending(&out, after(1.0));
        last_message.note(after(1.5));
        watch.received();
        assert_eq!(watch.loss(&last_message, None, after(100.0)), None, "no request is unanswered");
        out.clear();
        out.send(Flow::udp(ListenerId(0), "127.0.0.1:5060".parse().unwrap()), Token::NONE, b"ACK");
        out.send(Flow::udp(ListenerId(0), "127.0.0.1:5060".parse().unwrap()), Token(7), b"SIP/2.0 200 OK");
        watch.sending(&out, after(100.0));
        assert_eq!(
            watch.loss(&last_message, None, after(200.0)),
            None,
            "an ACK and a response need no answer"
        );
        out.send(Flow::udp(ListenerId(0), "127.0.0.1:5060".parse().unwrap()), Token(8), b"BYE");
        watch.sending(&out, after(200.0));
        assert_eq!(watch.loss(&last_message, None, after(204.0)), None);
        let text = watch.loss(&last_message, None, after(205.0)).unwrap();
        assert!(text.contains("stopped answering 1.5 s after the start"), "{text}");
    }

    #[test]
    fn messages_that_are_not_sip_are_no_answers() {
        let (mut watch, last_message, out) = watch();
        watch.sending(&out, after(1.0));
        watch.foreign(3);
        assert_eq!(watch.loss(&last_message, None, after(3.9)), None);
        let text = watch.loss(&last_message, None, after(4.0)).unwrap();
        assert!(text.starts_with("127.0.0.1:5060 does not answer in SIP: only messages"), "{text}");
        last_message.note(after(4.0));
        watch.received();
        watch.sending(&out, after(5.0));
        let text = watch.loss(&last_message, None, after(10.0)).unwrap();
        assert!(text.contains("stopped answering 4.0 s after the start: nothing was received"), "{text}");
        watch.foreign(4);
        assert!(
            watch.loss(&last_message, None, after(10.0)).unwrap().contains("stopped answering in SIP 4.0 s")
        );
    }

    #[test]
    fn a_refusal_is_forgotten_with_the_next_message() {
        let (mut watch, last_message, out) = watch();
        last_message.note(after(1.0));
        watch.sending(&out, after(1.9));
        watch.refusals(3, after(2.0));
        assert_eq!(watch.loss(&last_message, None, after(2.5)), None, "it may be starting anew");
        assert!(watch.loss(&last_message, None, after(3.0)).unwrap().contains("refuses"));
        last_message.note(after(3.0));
        watch.received();
        assert_eq!(watch.loss(&last_message, None, after(60.0)), None);
    }
}

//! Result of a call: as one JSON object for programs, and in a few lines for people.

use crate::output::printable;
use ringway_linux::media::{MediaCounts, Priority};
use ringway_media::session::Report;
use ringway_phone::{CryptoSuite, Hold, Protection, SasStatus, Signalling, SrtpPolicy};
use serde_json::{Value, json};
use std::time::Duration;

/// Result of a call.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// In one word.
    pub(crate) verdict: Verdict,
    /// The status code that answered or ended it.
    pub(crate) status: u16,
    /// Reason for which it was not established, or ended other than by hanging up.
    pub(crate) reason: Option<String>,
    /// The other side.
    pub(crate) peer: String,
    /// The Request-URI is a `sips:` URI: each hop uses TLS.
    pub(crate) is_sips: bool,
    /// Sides that held it at its end.
    pub(crate) hold: Hold,
    /// From the INVITE to the answer.
    pub(crate) setup: Option<Duration>,
    /// From the answer to the end.
    pub(crate) duration: Duration,
    /// Figures of its sound; `None`: it had none.
    pub(crate) media: Option<MediaOutcome>,
}

/// A call's fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was established.
    Answered,
    /// The other side, or we, did not want it.
    Rejected,
    /// It could not be made, what was to protect it did not come about, or no sound came.
    Failed,
    /// The caller gave up.
    Cancelled,
}

impl Verdict {
    /// In one word.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Rejected => "rejected",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Protection as the contract's object.
fn security_json(protection: &Protection) -> Value {
    let of = |method: &str, suite: CryptoSuite| json!({"method": method, "suite": suite.name(), "tag_bits": suite.tag_bits()});
    match protection {
        Protection::None => json!({"method": "none", "suite": null, "tag_bits": 0}),
        Protection::Sdes { suite, signalling } => {
            let mut value = of("sdes", *suite);
            if let Value::Object(fields) = &mut value {
                let is_protected = *signalling == Signalling::TlsToServer;
                fields.insert("keys_protected".to_owned(), json!(is_protected));
            }
            value
        }
        Protection::Dtls { suite, signalling } => {
            let mut value = of("dtls", *suite);
            if let Value::Object(fields) = &mut value {
                let is_protected = *signalling == Signalling::TlsToServer;
                fields.insert("fingerprints_protected".to_owned(), json!(is_protected));
            }
            value
        }
        Protection::Zrtp { suite, sas, status } => {
            let mut value = of("zrtp", *suite);
            if let Value::Object(fields) = &mut value {
                fields.insert("sas".to_owned(), json!(sas));
                fields.insert("sas_verified".to_owned(), json!(*status == SasStatus::Compared));
                fields.insert("continuity".to_owned(), json!(continuity_name(*status)));
            }
            value
        }
    }
}

/// Sides that hold a call, in one word.
const fn hold_name(hold: Hold) -> &'static str {
    match hold {
        Hold::None => "none",
        Hold::Ours => "local",
        Hold::Theirs => "remote",
        Hold::Both => "both",
    }
}

/// Evidence of the secrets of earlier calls, in one word.
const fn continuity_name(status: SasStatus) -> &'static str {
    match status {
        SasStatus::FirstCall => "first_call",
        SasStatus::Continued | SasStatus::Compared => "continued",
        SasStatus::Broken | SasStatus::Different => "broken",
    }
}

/// Figures of a call's sound.
#[derive(Clone, Debug, Default)]
pub(crate) struct MediaOutcome {
    pub(crate) security: Protection,
    pub(crate) codec: Option<&'static str>,
    pub(crate) report: Report,
    /// Digits that the other side pressed.
    pub(crate) digits: String,
    pub(crate) priority: Priority,
    pub(crate) counts: MediaCounts,
    /// Gaps and drops at the sound card, for a person; `None` without a card.
    pub(crate) card: Option<String>,
    /// Part of it that was kept in memory.
    pub(crate) kept: Vec<i16>,
}

impl Outcome {
    /// The object that the contract names, and more.
    pub(crate) fn json(&self) -> Value {
        let media = self.media.clone().unwrap_or_default();
        let Report { sent, received, refused, .. } = &media.report;
        json!({
            "result": self.verdict.name(),
            "status": self.status,
            "reason": self.reason,
            "peer": self.peer,
            "sips": self.is_sips,
            "hold": hold_name(self.hold),
            "setup_ms": self.setup.map(|setup| rounded(setup.as_secs_f64() * 1000.0)),
            "duration_s": rounded(self.duration.as_secs_f64()),
            "security": security_json(&media.security),
            "codec": media.codec,
            "sent": {
                "packets": sent.packets,
                "kbit_s": rounded(sent.kbit_s),
                "priority": media.priority.to_string(),
                "late_ms_max": rounded(media.counts.late_ns_max as f64 / 1e6),
                "late_beats": media.counts.ticks_late,
                "skipped_beats": media.counts.ticks_skipped,
                "errors": media.counts.send_errors,
            },
            "received": {
                "packets": received.counts.received,
                "lost": received.counts.lost(),
                "reordered": received.counts.reordered,
                "duplicates": received.counts.duplicates,
                "max_delta_ms": rounded(received.delta_max_ms),
                "mean_delta_ms": rounded(received.delta_mean_ms),
                "p999_delta_ms": rounded(received.delta_p999_ms),
                "max_jitter_ms": rounded(received.jitter_max_ms),
                "mean_jitter_ms": rounded(received.jitter_mean_ms),
                "mean_difference_ms": rounded(received.difference_mean_ms),
                "max_skew_ms": rounded(received.skew_max_ms),
                "drift_ppm": rounded(received.drift_ppm),
                "kbit_s": rounded(received.kbit_s),
                "auth_failures": refused.auth_failures,
                "replays": refused.replays,
                "strangers": refused.strangers,
                "dtls_excess": refused.dtls_excess,
                "checks": refused.checks,
                "early": refused.early,
                "after_end": refused.after_end,
                "concealed_blocks": media.report.sound.concealed_samples / BLOCK_SAMPLES,
                "mos": media.report.mos.map(rounded),
                "dtmf": media.digits,
            },
        })
    }

    /// True if the two sides had no session in common.
    pub(crate) const fn is_not_acceptable(&self) -> bool {
        matches!(self.status, 406 | 488 | 606)
    }

    /// Advice for a refused session description whose refusal has no Warning; `srtp` is the protection that was offered.
    pub(crate) fn advice(&self, srtp: SrtpPolicy) -> Option<&'static str> {
        let has_warning = self.reason.as_ref().is_some_and(|reason| reason.contains(": "));
        if self.verdict != Verdict::Rejected || !self.is_not_acceptable() || has_warning {
            return None;
        }
        Some(match srtp {
            SrtpPolicy::None => "if the other side requires SRTP, call with --srtp best or --srtp dtls",
            SrtpPolicy::Best | SrtpPolicy::Sdes | SrtpPolicy::Zrtp => {
                "if the other side requires DTLS-SRTP, as browsers do, call with --srtp dtls"
            }
            SrtpPolicy::Dtls => "if the other side does not support DTLS-SRTP, call with --srtp best",
        })
    }

    /// The same for people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let peer = printable(&self.peer);
        let why = self.reason.as_deref().map(|reason| format!(": {}", printable(reason))).unwrap_or_default();
        if self.verdict != Verdict::Answered {
            let verdict = self.verdict.name();
            let first = match self.status {
                // Of an answered call that failed: its reason is not the status.
                200 => format!("{peer}: {verdict}{why}"),
                status => format!("{peer}: {verdict} ({status}{why})"),
            };
            let figures = self.media.iter().flat_map(MediaOutcome::lines);
            return std::iter::once(first).chain(figures).collect();
        }
        let setup =
            self.setup.map_or(String::new(), |setup| format!(" after {:.1} ms", setup.as_secs_f64() * 1e3));
        let mut lines = vec![format!("{peer}: answered{setup}, {:.1} s{why}", self.duration.as_secs_f64())];
        if self.is_sips {
            lines.push("signalling: TLS on every hop (sips:)".to_owned());
        }
        match self.hold {
            Hold::None => {}
            Hold::Ours => lines.push("hold: this phone held the call at its end".to_owned()),
            Hold::Theirs => lines.push("hold: the other side held the call at its end".to_owned()),
            Hold::Both => lines.push("hold: both sides held the call at its end".to_owned()),
        }
        if let Some(media) = &self.media {
            lines.extend(media.lines());
        }
        lines
    }
}

impl MediaOutcome {
    /// For people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Self { security, codec, report, priority, counts, .. } = self;
        let Report { sent, received, refused, .. } = report;
        let mut lines = vec![
            format!("sound: {}, {security}", codec.unwrap_or("none")),
            format!(
                "sent: {} packets, {:.1} kbit/s, at {priority} priority, latest {:.3} ms behind its time",
                sent.packets,
                sent.kbit_s,
                counts.late_ns_max as f64 / 1e6
            ),
            format!(
                "received: {} packets, {} lost, {:.1} kbit/s; delta max {:.3} mean {:.3} ms, jitter max {:.3} mean {:.3} ms",
                received.counts.received,
                received.counts.lost(),
                received.kbit_s,
                received.delta_max_ms,
                received.delta_mean_ms,
                received.jitter_max_ms,
                received.jitter_mean_ms
            ),
        ];
        if let Some(mos) = report.mos {
            lines.push(format!("voice quality: MOS {mos:.2} of 4.5"));
        }
        if refused.strangers > 0 {
            lines.push(format!(
                "not played: {} packets from other addresses than the other phone's",
                refused.strangers
            ));
        }
        if refused.auth_failures + refused.replays > 0 {
            lines.push(format!(
                "refused: {} packets with a wrong tag, {} that came again",
                refused.auth_failures, refused.replays
            ));
        }
        if !self.digits.is_empty() {
            lines.push(format!("keys pressed there: {}", self.digits));
        }
        lines
    }
}

/// Samples of a block of 20 ms.
const BLOCK_SAMPLES: u64 = 160;

/// Whole microseconds of milliseconds, thousandths of everything else: more is noise.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(security: Protection) -> Outcome {
        let mut report = Report { mos: Some(4.41), ..Report::default() };
        report.received.counts.received = 100;
        Outcome {
            verdict: Verdict::Answered,
            status: 200,
            reason: None,
            peer: "sip:b\u{1b}ob@example.org".to_owned(),
            is_sips: false,
            hold: Hold::None,
            setup: Some(Duration::from_micros(1234)),
            duration: Duration::from_secs(2),
            media: Some(MediaOutcome {
                security,
                report,
                digits: "12".to_owned(),
                ..MediaOutcome::default()
            }),
        }
    }

    #[test]
    fn the_object_has_every_field_of_the_contract() {
        let sdes = |signalling| Protection::Sdes { suite: CryptoSuite::AesCm128HmacSha1_80, signalling };
        let value = answered(sdes(Signalling::Open)).json();
        for field in ["result", "status", "setup_ms", "duration_s", "security", "sent", "received"] {
            assert!(!value[field].is_null(), "{field}: {value}");
        }
        for field in [
            "packets",
            "lost",
            "max_delta_ms",
            "mean_delta_ms",
            "max_jitter_ms",
            "mean_jitter_ms",
            "kbit_s",
            "auth_failures",
            "replays",
            "mos",
        ] {
            assert!(value["received"][field].is_number(), "{field}: {value}");
        }
        let mut security = json!({
            "method": "sdes",
            "suite": "AES_CM_128_HMAC_SHA1_80",
            "tag_bits": 80,
            "keys_protected": false,
        });
        assert_eq!(value["security"], security);
        security["keys_protected"] = json!(true);
        assert_eq!(answered(sdes(Signalling::TlsToServer)).json()["security"], security);
        assert_eq!((&value["result"], &value["setup_ms"]), (&json!("answered"), &json!(1.234)));
    }

    #[test]
    fn the_sides_that_hold_a_call_are_named() {
        for (hold, name, words) in [
            (Hold::None, "none", None),
            (Hold::Ours, "local", Some("this phone held")),
            (Hold::Theirs, "remote", Some("the other side held")),
            (Hold::Both, "both", Some("both sides held")),
        ] {
            let outcome = Outcome { hold, ..answered(Protection::None) };
            assert_eq!(outcome.json()["hold"], name);
            let line = outcome.lines().into_iter().find(|line| line.starts_with("hold: "));
            assert_eq!(line.is_some(), words.is_some());
            assert!(words.is_none_or(|words| line.is_some_and(|line| line.contains(words))), "{hold:?}");
        }
    }

    #[test]
    fn a_refusal_without_a_warning_gets_the_other_protection_as_advice() {
        let refused = |status, reason: &str| Outcome {
            verdict: Verdict::Rejected,
            status,
            reason: Some(reason.to_owned()),
            media: None,
            ..answered(Protection::None)
        };
        let advice = |outcome: &Outcome, srtp| outcome.advice(srtp).unwrap_or_default().to_owned();
        let bare = refused(488, "Not Acceptable Here");
        for srtp in [SrtpPolicy::Best, SrtpPolicy::Sdes, SrtpPolicy::Zrtp, SrtpPolicy::None] {
            assert!(advice(&bare, srtp).contains("--srtp dtls"));
        }
        assert!(advice(&bare, SrtpPolicy::Dtls).contains("--srtp best"));
        assert_eq!(refused(488, "Not Acceptable Here: no codec in common").advice(SrtpPolicy::Best), None);
        assert_eq!(refused(486, "Busy Here").advice(SrtpPolicy::Best), None);
        assert_eq!(answered(Protection::None).advice(SrtpPolicy::Best), None);
    }

    #[test]
    fn what_protects_is_said_and_what_came_from_the_network_moves_no_cursor() {
        let zrtp = Protection::Zrtp {
            suite: CryptoSuite::AesCm128HmacSha1_32,
            sas: "pdo8".to_owned(),
            status: SasStatus::FirstCall,
        };
        assert_eq!(answered(zrtp.clone()).json()["security"]["sas"], "pdo8");
        let text = answered(zrtp).lines().join("\n");
        assert!(text.contains("pdo8") && !text.contains('\u{1b}'), "{text}");
        assert!(answered(Protection::None).lines().join("\n").contains("not protected"));
        let suite = CryptoSuite::AesCm128HmacSha1_80;
        for (signalling, words) in [
            (Signalling::Open, "with keys that SIP carried readable (weak)"),
            (
                Signalling::TlsToServer,
                "with keys that went over TLS to the server: the servers can read them",
            ),
        ] {
            let text = answered(Protection::Sdes { suite, signalling }).lines().join("\n");
            assert!(text.contains(words), "{text}");
        }
        let refused = Outcome {
            verdict: Verdict::Rejected,
            status: 486,
            reason: Some("Busy Here".to_owned()),
            media: None,
            setup: None,
            ..answered(Protection::None)
        };
        assert_eq!(refused.lines().len(), 1);
        let unprotected = Outcome {
            verdict: Verdict::Failed,
            reason: Some("ZRTP: no answer".to_owned()),
            ..answered(Protection::None)
        };
        assert!(unprotected.lines()[0].ends_with(": failed: ZRTP: no answer"), "{:?}", unprotected.lines());
        let mut moved = answered(Protection::None);
        moved.media.as_mut().unwrap().report.refused.strangers = 7;
        assert!(moved.lines().iter().any(|line| line.starts_with("not played: 7 packets")));
        assert!(refused.lines()[0].contains("486") && refused.json()["security"]["method"] == "none");
    }
}

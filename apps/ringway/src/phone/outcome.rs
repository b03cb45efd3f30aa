//! Result of a call: as one JSON object for programs, and in a few lines for people.

use crate::output::printable;
use ringway_linux::media::{MediaCounts, Priority};
use ringway_phone::{CryptoSuite, Protection, SasStatus};
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
    /// From the INVITE to the answer.
    pub(crate) setup: Option<Duration>,
    /// From the answer to the end.
    pub(crate) duration: Duration,
    /// Figures of its sound; `None`: it had none.
    pub(crate) heard: Option<Heard>,
}

/// A call's fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was established.
    Answered,
    /// The other side, or we, did not want it.
    Rejected,
    /// It could not be made, or what was to protect it did not come about.
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
        Protection::Sdes { suite } => of("sdes", *suite),
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
pub(crate) struct Heard {
    pub(crate) security: Protection,
    pub(crate) codec: Option<&'static str>,
    pub(crate) sent: Sent,
    pub(crate) received: Received,
    pub(crate) priority: Priority,
    pub(crate) counts: MediaCounts,
    /// Gaps and drops at the sound card, for a person; `None` without a card.
    pub(crate) card: Option<String>,
    /// Part of it that was kept in memory.
    pub(crate) kept: Vec<i16>,
}

/// Our side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sent {
    pub(crate) packets: u64,
    /// Thousand bits of IP packets a second.
    pub(crate) kbit_s: f64,
}

/// The other side's, as it arrived. Delta and jitter are Wireshark's.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Received {
    pub(crate) packets: u64,
    pub(crate) lost: u64,
    pub(crate) reordered: u64,
    pub(crate) duplicates: u64,
    pub(crate) max_delta_ms: f64,
    pub(crate) mean_delta_ms: f64,
    pub(crate) p999_delta_ms: f64,
    pub(crate) max_jitter_ms: f64,
    pub(crate) mean_jitter_ms: f64,
    /// Mean of |D|: the mean jitter of older versions of Wireshark.
    pub(crate) mean_difference_ms: f64,
    pub(crate) max_skew_ms: f64,
    pub(crate) drift_ppm: f64,
    pub(crate) kbit_s: f64,
    pub(crate) auth_failures: u64,
    pub(crate) replays: u64,
    /// Packets from others than the peer.
    pub(crate) strangers: u64,
    /// Packets before the other side was known.
    pub(crate) early: u64,
    /// Packets of the peer's after our BYE or its own.
    pub(crate) after_end: u64,
    /// Blocks that had to be made up.
    pub(crate) concealed: u64,
    /// 1 to 4.5; `None`: nothing arrived.
    pub(crate) mos: Option<f64>,
    /// The keys the other side pressed.
    pub(crate) dtmf: String,
}

impl Outcome {
    /// The object that the contract names, and more.
    pub(crate) fn json(&self) -> Value {
        let heard = self.heard.clone().unwrap_or_default();
        let (sent, received) = (&heard.sent, &heard.received);
        json!({
            "result": self.verdict.name(),
            "status": self.status,
            "reason": self.reason,
            "peer": self.peer,
            "setup_ms": self.setup.map(|setup| rounded(setup.as_secs_f64() * 1000.0)),
            "duration_s": rounded(self.duration.as_secs_f64()),
            "security": security_json(&heard.security),
            "codec": heard.codec,
            "sent": {
                "packets": sent.packets,
                "kbit_s": rounded(sent.kbit_s),
                "priority": heard.priority.to_string(),
                "late_ms_max": rounded(heard.counts.late_ns_max as f64 / 1e6),
                "late_beats": heard.counts.beats_late,
                "skipped_beats": heard.counts.beats_skipped,
                "errors": heard.counts.send_errors,
            },
            "received": {
                "packets": received.packets,
                "lost": received.lost,
                "reordered": received.reordered,
                "duplicates": received.duplicates,
                "max_delta_ms": rounded(received.max_delta_ms),
                "mean_delta_ms": rounded(received.mean_delta_ms),
                "p999_delta_ms": rounded(received.p999_delta_ms),
                "max_jitter_ms": rounded(received.max_jitter_ms),
                "mean_jitter_ms": rounded(received.mean_jitter_ms),
                "mean_difference_ms": rounded(received.mean_difference_ms),
                "max_skew_ms": rounded(received.max_skew_ms),
                "drift_ppm": rounded(received.drift_ppm),
                "kbit_s": rounded(received.kbit_s),
                "auth_failures": received.auth_failures,
                "replays": received.replays,
                "strangers": received.strangers,
                "early": received.early,
                "after_end": received.after_end,
                "concealed_blocks": received.concealed,
                "mos": received.mos.map(rounded),
                "dtmf": received.dtmf,
            },
        })
    }

    /// The same for people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let peer = printable(&self.peer);
        let why = self.reason.as_deref().map(|reason| format!(": {}", printable(reason))).unwrap_or_default();
        if self.verdict != Verdict::Answered {
            let verdict = self.verdict.name();
            return vec![match self.status {
                // Of an answered call that failed: its reason is not the status.
                200 => format!("{peer}: {verdict}{why}"),
                status => format!("{peer}: {verdict} ({status}{why})"),
            }];
        }
        let setup =
            self.setup.map_or(String::new(), |setup| format!(" after {:.1} ms", setup.as_secs_f64() * 1e3));
        let mut lines = vec![format!("{peer}: answered{setup}, {:.1} s{why}", self.duration.as_secs_f64())];
        if let Some(heard) = &self.heard {
            lines.extend(heard.lines());
        }
        lines
    }
}

impl Heard {
    /// The same with the digits of the peer.
    pub(crate) fn with_digits(mut self, dtmf: String) -> Self {
        self.received.dtmf = dtmf;
        self
    }

    /// For people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Self { security, codec, sent, received, priority, counts, .. } = self;
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
                received.packets,
                received.lost,
                received.kbit_s,
                received.max_delta_ms,
                received.mean_delta_ms,
                received.max_jitter_ms,
                received.mean_jitter_ms
            ),
        ];
        if let Some(mos) = received.mos {
            lines.push(format!("voice quality: MOS {mos:.2} of 4.5"));
        }
        if received.auth_failures + received.replays > 0 {
            lines.push(format!(
                "refused: {} packets with a wrong tag, {} that came again",
                received.auth_failures, received.replays
            ));
        }
        if !received.dtmf.is_empty() {
            lines.push(format!("keys pressed there: {}", received.dtmf));
        }
        lines
    }
}

/// Whole microseconds of milliseconds, thousandths of everything else: more is noise.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(security: Protection) -> Outcome {
        let received =
            Received { packets: 100, mos: Some(4.41), dtmf: "12".to_owned(), ..Received::default() };
        Outcome {
            verdict: Verdict::Answered,
            status: 200,
            reason: None,
            peer: "sip:b\u{1b}ob@example.org".to_owned(),
            setup: Some(Duration::from_micros(1234)),
            duration: Duration::from_secs(2),
            heard: Some(Heard { security, received, ..Heard::default() }),
        }
    }

    #[test]
    fn the_object_has_every_field_of_the_contract() {
        let value = answered(Protection::Sdes { suite: CryptoSuite::AesCm128HmacSha1_80 }).json();
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
        let security = json!({"method": "sdes", "suite": "AES_CM_128_HMAC_SHA1_80", "tag_bits": 80});
        assert_eq!(value["security"], security);
        assert_eq!((&value["result"], &value["setup_ms"]), (&json!("answered"), &json!(1.234)));
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
        let refused = Outcome {
            verdict: Verdict::Rejected,
            status: 486,
            reason: Some("Busy Here".to_owned()),
            heard: None,
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
        assert!(refused.lines()[0].contains("486") && refused.json()["security"]["method"] == "none");
    }
}

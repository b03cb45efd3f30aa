//! Records for tests, made by messages.

use ringway_sansio::{Flow, Instant, ListenerId, Seed};
use ringway_server::{
    CallEvent, CallLimits, CallNames, CallRecord, CallSender, CallStep, CallTable, Condition, DiversionReason,
};
use ringway_sip::{Limits, Message};
use std::time::Duration;

/// Records with each field and without it, with texts of all bytes that a message can have.
pub(super) fn records() -> Vec<CallRecord> {
    let texts: [&[u8]; 5] =
        [b"usual@192.0.2.1", b"a\"b\\c/</script>", b"caf\xc3\xa9", b"\xff\xfe\x80", b"\x01\x1b\x7f"];
    let senders = [CallSender::Proven, CallSender::Believed, CallSender::Stranger];
    let mut records = Vec::new();
    for (number, call_id) in texts.into_iter().enumerate() {
        for sender in senders {
            for source in ["192.0.2.1:5060", "255.0.10.100:65535", "[2001:db8::1]:5060"] {
                let after = Duration::from_millis(1234 * number as u64);
                records.extend(answered(call_id, sender, source, after));
                records.extend(refused(call_id, sender, source));
            }
        }
    }
    records
}

/// Record of a call that nobody answered; `None`: no message has this Call-ID.
pub(super) fn refused(call_id: &[u8], sender: CallSender, source: &str) -> Option<CallRecord> {
    let now = Instant::from_secs(1_800_000_000);
    let steps = [CallStep::Begun, CallStep::Failed(404)];
    record(call_id, sender, source, &steps.map(|step| (now, step)))
}

fn answered(call_id: &[u8], sender: CallSender, source: &str, lasting: Duration) -> Option<CallRecord> {
    let now = Instant::from_secs(1_800_000_000);
    let steps = [
        (now, CallStep::Begun),
        (now, CallStep::Diverted(DiversionReason::Forward(Condition::Busy))),
        (now, CallStep::Ringing(180)),
        (now, CallStep::Answered(200)),
        (now + lasting, CallStep::Over),
    ];
    record(call_id, sender, source, &steps)
}

fn record(
    call_id: &[u8],
    sender: CallSender,
    source: &str,
    steps: &[(Instant, CallStep)],
) -> Option<CallRecord> {
    let limits = CallLimits { calls_max: 9, bytes_max: 1 << 20, dialog_lifetime: Duration::from_secs(60) };
    let names = CallNames::new(&Seed::from_number(2));
    let mut table = CallTable::new(limits, Instant::from_secs(1_800_000_000));
    let head = b"INVITE sip:x@example.org SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:e%40@h>;tag=1\r\n\
                 To: <sip:y@example.org>\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\nCall-ID: ";
    let text = [&head[..], call_id, b"\r\n\r\n"].concat();
    let message = Message::parse(&text, &Limits::default()).ok()?;
    let answer =
        b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP s;branch=z9hG4bK2\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\n\
                   From: <sip:e%40@h>;tag=1\r\nTo: <sip:y@example.org>;tag=2\r\nCSeq: 1 INVITE\r\n\
                   Contact: <sip:phone@192.0.2.9>\r\nContent-Length: 0\r\nCall-ID: ";
    let answer = [&answer[..], call_id, b"\r\n\r\n"].concat();
    let answer = Message::parse(&answer, &Limits::default()).unwrap();
    let flow = Some(Flow::udp(ListenerId(0), source.parse().unwrap()));
    let mut ended = Vec::new();
    let mut end = Instant::default();
    for &(now, step) in steps {
        let response = matches!(step, CallStep::Answered(_)).then_some(&answer);
        let parsed = Some(&message);
        let user = (sender == CallSender::Proven).then_some(&b"e@\xff@h"[..]);
        let event = CallEvent { parsed, response, user, flow, ..CallEvent::stored(step, &text, sender) };
        let name = names.of(&event).unwrap();
        table.on_step(now, &name, &event, |record| ended.push(record));
        end = now;
    }
    table.stop(end, 1, |record| ended.push(record));
    ended.pop()
}

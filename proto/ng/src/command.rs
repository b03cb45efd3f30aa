//! Commands of the ng protocol, and their answers.

use crate::bencode::{BadBencode, read_dictionary, write_bytes};
use alloc::string::ToString;
use alloc::vec::Vec;
use core::net::IpAddr;
use ringway_sansio::{RelayCall, RelayInterfaces, RelayKind, RelayMedia, RelayRequest, RelaySide};

/// Identifies a command and its retransmissions: 64 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cookie(pub u64);

/// Command to a relay.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// Test whether the relay answers.
    Ping,
    /// Offer, answer or delete.
    Call(&'a RelayRequest),
    /// End of a call.
    Delete(RelayCall),
}

/// Answer of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The command was executed; SDP for an offer or answer.
    Done(Option<&'a [u8]>),
    /// The relay cannot execute the command.
    Refused,
}

/// Datagram that is no answer of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadAnswer {
    /// It does not begin with a cookie of ours.
    Cookie,
    /// No dictionary follows.
    Bencode(BadBencode),
    /// The dictionary has no result.
    Result,
}

impl Command<'_> {
    /// Appends the datagram.
    pub fn write(self, cookie: Cookie, out: &mut Vec<u8>) {
        write_hex(out, cookie.0);
        out.extend_from_slice(b" d");
        match self {
            Self::Ping => pair(out, b"command", b"ping"),
            Self::Call(request) => write_call(out, request),
            Self::Delete(call) => write_delete(out, call),
        }
        out.push(b'e');
    }
}

fn write_call(out: &mut Vec<u8>, request: &RelayRequest) {
    let (offerer, answerer) = match request.offerer {
        RelaySide::Caller => (CALLER, CALLEE),
        RelaySide::Callee => (CALLEE, CALLER),
    };
    let command: &[u8] = match request.kind {
        RelayKind::Offer => b"offer",
        RelayKind::Answer => b"answer",
        RelayKind::Delete => return write_delete(out, request.call),
    };
    pair(out, b"command", command);
    call_id(out, request.call);
    pair(out, b"from-tag", offerer);
    pair(out, b"to-tag", answerer);
    pair(out, b"sdp", &request.sdp);
    if let Some(RelayInterfaces { from, to }) = &request.interfaces {
        list(out, b"direction", &[from.as_bytes(), to.as_bytes()]);
    }
    list(out, b"replace", &[b"origin"]);
    match request.source {
        // The SDP may name a host that did not ask for packets, also the relay itself.
        Some(source) => {
            write_source(out, source);
            list(out, b"flags", &[b"SIP-source-address", STRICT]);
        }
        None => list(out, b"flags", &[STRICT]),
    }
    // Packets from the address of the SDP, or of the signalling, come before those of a stranger who finds the port.
    list(out, b"endpoint-learning", &[b"heuristic"]);
    let is_offer = request.kind == RelayKind::Offer;
    match request.to {
        RelayMedia::Same => pair(out, b"ICE", b"remove"),
        RelayMedia::Plain => {
            pair(out, b"ICE", b"remove");
            if is_offer {
                pair(out, b"transport-protocol", b"RTP/AVP");
                list(out, b"rtcp-mux", &[b"demux"]);
            }
        }
        RelayMedia::Srtp => {
            pair(out, b"ICE", b"remove");
            if is_offer {
                pair(out, b"transport-protocol", b"RTP/SAVP");
                pair(out, b"DTLS", b"off");
                list(out, b"SDES", SUITES_NOT_OFFERED);
                list(out, b"rtcp-mux", &[b"demux"]);
            }
        }
        RelayMedia::Browser => {
            pair(out, b"ICE", b"force");
            if is_offer {
                pair(out, b"transport-protocol", b"UDP/TLS/RTP/SAVPF");
                list(out, b"rtcp-mux", &[b"offer"]);
                list(out, b"SDES", &[b"off"]);
            }
        }
    }
}

fn pair(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    write_bytes(out, key);
    write_bytes(out, value);
}

fn list(out: &mut Vec<u8>, key: &[u8], values: &[&[u8]]) {
    write_bytes(out, key);
    out.push(b'l');
    for value in values {
        write_bytes(out, value);
    }
    out.push(b'e');
}

fn write_delete(out: &mut Vec<u8>, call: RelayCall) {
    pair(out, b"command", b"delete");
    call_id(out, call);
    pair(out, b"from-tag", CALLER);
    // The default of 30 s would keep the ports.
    pair(out, b"delete-delay", b"0");
}

fn call_id(out: &mut Vec<u8>, call: RelayCall) {
    write_bytes(out, b"call-id");
    out.extend_from_slice(b"16:");
    write_hex(out, call.0);
}

fn write_source(out: &mut Vec<u8>, source: IpAddr) {
    let source = source.to_canonical();
    let family: &[u8] = if source.is_ipv4() { b"IP4" } else { b"IP6" };
    list(out, b"received-from", &[family, source.to_string().as_bytes()]);
}

/// Reads the datagram of a relay.
///
/// # Errors
/// The datagram is not an answer.
pub fn read_answer(datagram: &[u8]) -> Result<(Cookie, Answer<'_>), BadAnswer> {
    let (cookie, rest) = datagram.split_at_checked(16).ok_or(BadAnswer::Cookie)?;
    let cookie = read_hex(cookie).ok_or(BadAnswer::Cookie)?;
    let dictionary = rest.strip_prefix(b" ").ok_or(BadAnswer::Cookie)?;
    let dictionary = read_dictionary(dictionary).map_err(BadAnswer::Bencode)?;
    let answer = match dictionary.bytes(b"result").ok_or(BadAnswer::Result)? {
        b"ok" | b"pong" => Answer::Done(dictionary.bytes(b"sdp")),
        _ => Answer::Refused,
    };
    Ok((Cookie(cookie), answer))
}

fn write_hex(out: &mut Vec<u8>, number: u64) {
    for shift in (0..16).rev() {
        let digit = ((number >> (shift * 4)) & 15) as u8;
        out.push(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
    }
}

fn read_hex(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0, |number: u64, byte| match byte {
        b'0'..=b'9' => Some((number << 4) | u64::from(byte - b'0')),
        b'a'..=b'f' => Some((number << 4) | u64::from(byte - b'a' + 10)),
        _ => None,
    })
}

/// Tags of the sides at the relay. A call at the relay is one branch: the tags of SIP are not needed.
const CALLER: &[u8] = b"caller";
const CALLEE: &[u8] = b"callee";
/// Suites of rtpengine that no phone is offered: those without encryption, and those that phones implement rarely or
/// differently (GCM with baresip 1.0, AES-192 with libsrtp before 2.8).
const SUITES_NOT_OFFERED: &[&[u8]] = &[
    b"no-NULL_HMAC_SHA1_80",
    b"no-NULL_HMAC_SHA1_32",
    b"no-F8_128_HMAC_SHA1_80",
    b"no-F8_128_HMAC_SHA1_32",
    b"no-AEAD_AES_256_GCM",
    b"no-AEAD_AES_128_GCM",
    b"no-AES_192_CM_HMAC_SHA1_80",
    b"no-AES_192_CM_HMAC_SHA1_32",
];
/// Flag: once a side has sent from an address, its packets from others are dropped.
const STRICT: &[u8] = b"strict-source";

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use ringway_sansio::RelayHolder;

    fn written(command: Command<'_>) -> String {
        let mut out = Vec::new();
        command.write(Cookie(0x12), &mut out);
        assert!(read_dictionary(&out[17..]).is_ok());
        String::from_utf8(out).unwrap()
    }

    fn request(kind: RelayKind, offerer: RelaySide, to: RelayMedia) -> RelayRequest {
        let (holder, source) = (RelayHolder::Trusted, None);
        RelayRequest {
            kind,
            call: RelayCall(10),
            relay: None,
            offerer,
            sdp: b"v=0"[..].into(),
            to,
            holder,
            source,
            interfaces: None,
        }
    }

    #[test]
    fn the_interfaces_of_both_sides_are_written() {
        let interfaces = RelayInterfaces { from: "priv".into(), to: "pub".into() };
        let offer = RelayRequest {
            interfaces: Some(interfaces.clone()),
            ..request(RelayKind::Offer, RelaySide::Caller, RelayMedia::Same)
        };
        assert!(written(Command::Call(&offer)).contains("3:sdp3:v=09:directionl4:priv3:pube7:replace"));
        let interfaces = Some(interfaces.reversed());
        let answer = RelayRequest { kind: RelayKind::Answer, interfaces, ..offer };
        assert!(written(Command::Call(&answer)).contains("9:directionl3:pub4:prive"));
    }

    #[test]
    fn commands_are_written() {
        assert_eq!(written(Command::Ping), "0000000000000012 d7:command4:pinge");
        let offer = request(RelayKind::Offer, RelaySide::Callee, RelayMedia::Browser);
        assert_eq!(
            written(Command::Call(&offer)),
            "0000000000000012 d7:command5:offer7:call-id16:000000000000000a8:from-tag6:callee6:to-tag6:caller3:sdp3:v=0\
             7:replacel6:origine5:flagsl13:strict-sourcee17:endpoint-learningl9:heuristice3:ICE5:force18:transport-protocol17:UDP/TLS/RTP/SAVPF8:rtcp-muxl5:offere4:SDESl3:offee"
        );
        let answer = request(RelayKind::Answer, RelaySide::Caller, RelayMedia::Browser);
        assert!(written(Command::Call(&answer)).ends_with("endpoint-learningl9:heuristice3:ICE5:forcee"));
        let offer = request(RelayKind::Offer, RelaySide::Caller, RelayMedia::Plain);
        assert!(written(Command::Call(&offer)).contains("transport-protocol7:RTP/AVP8:rtcp-muxl5:demuxe"));
        let to_srtp = request(RelayKind::Offer, RelaySide::Caller, RelayMedia::Srtp);
        let to_srtp = written(Command::Call(&to_srtp));
        assert!(to_srtp.contains("transport-protocol8:RTP/SAVP4:DTLS3:off4:SDESl20:no-NULL_HMAC_SHA1_80"));
        let offer = RelayRequest { source: "::ffff:192.0.2.1".parse().ok(), ..offer };
        assert!(written(Command::Call(&offer)).contains(
            "13:received-froml3:IP49:192.0.2.1e5:flagsl18:SIP-source-address13:strict-sourcee17:endpoint-learningl9:heuristice3:ICE6:remove"
        ));
        let delete = request(RelayKind::Delete, RelaySide::Caller, RelayMedia::Same);
        assert!(written(Command::Call(&delete)).ends_with("8:from-tag6:caller12:delete-delay1:0e"));
    }

    #[test]
    fn answers_are_read() {
        let read = |text: &'static str| read_answer(text.as_bytes());
        let cookie = Cookie(0xabc);
        assert_eq!(read("0000000000000abc d6:result4:ponge"), Ok((cookie, Answer::Done(None))));
        assert_eq!(
            read("0000000000000abc d3:sdp3:v=06:result2:oke"),
            Ok((cookie, Answer::Done(Some(b"v=0"))))
        );
        assert_eq!(
            read("0000000000000abc d12:error-reason1:x6:result5:errore"),
            Ok((cookie, Answer::Refused))
        );
        assert_eq!(read("0000000000000abc de"), Err(BadAnswer::Result));
        assert_eq!(read("0000000000000ABC de"), Err(BadAnswer::Cookie));
        assert_eq!(read("0000000000000abcd6:result2:oke"), Err(BadAnswer::Cookie));
        assert_eq!(read("0000000000000abc l"), Err(BadAnswer::Bencode(BadBencode::Syntax)));
    }
}

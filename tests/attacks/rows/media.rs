//! To hear, replace or misdirect the sound of calls.

use crate::row::{Door, Row, Seen, Thesis};
use ringway_dtls::Identity;
use ringway_media::dtls::{DtlsIdentity, DtlsOutput};
use ringway_ng::{Client, Datagram};
use ringway_sansio::{
    Defence, Instant, RelayCall, RelayHolder, RelayKind, RelayMedia, RelayRequest, RelaySide, Seed,
};
use ringway_sdp::{CryptoSuite, DtlsRole, MasterKey};
use ringway_srtp::{SrtpReceiver, SrtpSender};
use ringway_stun::{StunClient, StunEvent, write_answer};
use std::net::SocketAddr;
use std::time::Duration;

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "a byte of a packet of sound is changed on its way",
        door: Door::Srtp,
        thesis: Thesis::RtpTampering,
        defence: Defence::SrtpTag,
        attack: changes_sound,
    },
    Row {
        name: "a captured packet of sound is sent again",
        door: Door::Srtp,
        thesis: Thesis::RtpInsertion,
        defence: Defence::SrtpReplay,
        attack: repeats_sound,
    },
    Row {
        name: "somebody in the middle completes the handshake with a certificate of its own",
        door: Door::Dtls,
        thesis: Thesis::RtpInsertion,
        defence: Defence::DtlsFingerprint,
        attack: stands_in_the_middle,
    },
    Row {
        name: "a stranger answers instead of the media relay, and names its own address for the sound",
        door: Door::MediaRelay,
        thesis: Thesis::CallHijacking,
        defence: Defence::RelaySource,
        attack: answers_for_the_relay,
    },
    Row {
        name: "a stranger answers instead of the STUN server, and the phone names its address for the sound",
        door: Door::Stun,
        thesis: Thesis::CallHijacking,
        defence: Defence::StunSource,
        attack: answers_for_stun,
    },
];

const STRANGER: &str = "203.0.113.66:22222";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Both sides of a session, and a packet of it.
fn session() -> (SrtpReceiver, Vec<u8>) {
    let key = MasterKey { key: vec![1; 16], salt: vec![2; 14], lifetime_packets: None, mki: Vec::new() };
    let suite = CryptoSuite::AesCm128HmacSha1_80;
    let mut sender = SrtpSender::new(suite, &key).unwrap();
    let mut packet = vec![0; 200];
    // Version 2, PCMU, sequence number 1.
    packet[..12].copy_from_slice(&[0x80, 0, 0, 1, 0, 0, 0, 160, 1, 2, 3, 4]);
    let len = sender.protect_rtp(&mut packet, 12 + 160).unwrap();
    packet.truncate(len);
    (SrtpReceiver::new(suite, &key).unwrap(), packet)
}

fn changes_sound() -> Seen {
    let (mut receiver, mut packet) = session();
    packet[20] ^= 1;
    let received_bytes = packet.len() as u64;
    let succeeded = receiver.unprotect_rtp(&mut packet).is_ok();
    Seen { succeeded, received_bytes, sent_bytes: 0 }
}

fn repeats_sound() -> Seen {
    let (mut receiver, packet) = session();
    receiver.unprotect_rtp(&mut packet.clone()).unwrap();
    let succeeded = receiver.unprotect_rtp(&mut packet.clone()).is_ok();
    Seen { succeeded, received_bytes: 2 * packet.len() as u64, sent_bytes: 0 }
}

fn answers_for_the_relay() -> Seen {
    let now = Instant::from_secs(1000);
    let relays = [address("192.0.2.7:22222")];
    let mut client = Client::new(&relays, Duration::from_secs(2), &Seed::from_number(1), now);
    let mut sent_bytes = 0;
    let mut sent = |client: &mut Client<u32>| -> Vec<Datagram> {
        let sent: Vec<_> = std::iter::from_fn(|| client.poll_send()).collect();
        sent_bytes += sent.iter().map(|one| one.bytes.len() as u64).sum::<u64>();
        sent
    };
    let answer =
        |request: &Datagram, pairs: &str| [&request.bytes[..17], b"d", pairs.as_bytes(), b"e"].concat();
    let due = client.next_due().unwrap();
    client.on_timeout(due);
    for ping in sent(&mut client) {
        client.on_datagram(due, ping.to, &answer(&ping, "6:result4:pong"));
    }
    let request = RelayRequest {
        kind: RelayKind::Offer,
        call: RelayCall(1),
        relay: None,
        offerer: RelaySide::Caller,
        sdp: b"v=0\r\nm=audio 9 RTP/AVP 0\r\n".as_slice().into(),
        to: RelayMedia::Same,
        holder: RelayHolder::Trusted,
        source: None,
        interfaces: None,
    };
    client.request(due, 7, request);
    let offer = sent(&mut client).into_iter().next_back().unwrap();
    // It sees the requests on their way, but cannot send from the address of the relay.
    let forged = answer(&offer, "3:sdp20:c=IN IP4 203.0.113.66:result2:ok");
    client.on_datagram(due, address(STRANGER), &forged);
    let result = client.poll_done().and_then(|done| done.result);
    let succeeded = result.is_some_and(|result| result.sdp.ends_with(b"203.0.113.6"));
    Seen { succeeded, received_bytes: forged.len() as u64, sent_bytes }
}

fn answers_for_stun() -> Seen {
    let now = Instant::from_secs(1000);
    let mut client = StunClient::new(address("192.0.2.3:3478"), &Seed::from_number(1));
    let mut request = Vec::new();
    client.start(now, &mut |bytes| request.extend_from_slice(bytes));
    let mut forged = Vec::new();
    write_answer(&request, address(STRANGER), &mut forged).unwrap();
    let event = client.on_datagram(now, address(STRANGER), &forged);
    Seen {
        succeeded: event == Some(StunEvent::Mapped(address(STRANGER))),
        received_bytes: forged.len() as u64,
        sent_bytes: request.len() as u64,
    }
}

fn stands_in_the_middle() -> Seen {
    let identity = || Identity::new(&Identity::SUITES).unwrap();
    let (phone, callee, attacker) = (identity(), identity(), identity());
    let mut now = Instant::from_secs(1000);
    // The phone expects the callee, and the attacker takes anybody.
    let mut ends = [
        phone.associate(DtlsRole::Active, &[callee.fingerprint()], now),
        attacker.associate(DtlsRole::Passive, &[phone.fingerprint()], now),
    ];
    let mut succeeded = false;
    for _ in 0..200 {
        for from in 0..2 {
            while let Some(output) = ends[from].poll() {
                match output {
                    DtlsOutput::Datagram(datagram) => ends[1 - from].on_datagram(now, &datagram),
                    DtlsOutput::Keys(_) => succeeded |= from == 0,
                    DtlsOutput::Failed(_) => {}
                }
            }
        }
        now = now + Duration::from_millis(50);
        ends.iter_mut().for_each(|end| end.on_timeout(now));
    }
    // Signatures have no constant length.
    Seen { succeeded, received_bytes: 0, sent_bytes: 0 }
}

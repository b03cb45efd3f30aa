//! Media: opened, mapped, protected, closed.

use crate::world::{ALICE, BOB, World};
use ringway_media::session::{MediaEvent, Sas, SecurityFailure, ZrtpSettings};
use ringway_phone::{
    CallMediaEvent, CryptoSuite, MediaCommand, Phase, PhoneCommand, PhoneEvent, Protection, SasStatus, Side,
    SrtpPolicy, StunServer,
};
use ringway_sansio::{Flow, Instant, ListenerId, Node, Received};
use ringway_sdp::{Codec, KeyManagement};
use ringway_zrtp::{Continuity, Retained, ZidCache, ZrtpConfig};
use std::time::Duration;

fn with_stun() -> World {
    World::new(|place, config| {
        if place == ALICE {
            config.stun = Some(StunServer { host: "192.0.2.99".to_owned(), port: 3478 });
        }
    })
}

#[test]
fn the_invite_waits_three_seconds_for_the_stun_server() {
    let mut world = with_stun();
    let call = world.call(ALICE, BOB);
    assert_eq!(world.stations[ALICE].phone.call(call).unwrap().phase(), Phase::Mapping);
    world.pass(Duration::from_millis(2_990));
    assert!(!world.stations[ALICE].events.contains(&PhoneEvent::Inviting { call }));
    world.pass(Duration::from_millis(20));
    let events = world.events(ALICE);
    let reason = "the STUN server does not answer".to_owned();
    assert!(events.contains(&PhoneEvent::StunFailed { reason }), "{events:?}");
    assert!(events.contains(&PhoneEvent::Inviting { call }));
}

#[test]
fn mapped_ports_are_offered_at_once() {
    let mut world = with_stun();
    let call = world.call(ALICE, BOB);
    let mapped = |rtcp: Option<&str>| {
        let rtcp = rtcp.map(|address| address.parse().unwrap());
        let event = MediaEvent::StunMapped { rtp: "198.51.100.1:40000".parse().unwrap(), rtcp };
        CallMediaEvent::Session(event)
    };
    world.media(ALICE, call, mapped(None));
    assert_eq!(world.stations[ALICE].phone.call(call).unwrap().phase(), Phase::Mapping);
    world.media(ALICE, call, mapped(Some("198.51.100.1:40001")));
    let events = world.events(ALICE);
    let seen = PhoneEvent::StunMapped {
        local: "192.0.2.1:4000".parse().unwrap(),
        mapped: "198.51.100.1:40000".parse().unwrap(),
    };
    assert_eq!(events.iter().filter(|event| **event == seen).count(), 1, "{events:?}");
    assert!(events.contains(&PhoneEvent::Inviting { call }));
}

#[test]
fn a_call_that_waits_for_the_stun_server_is_given_up_without_an_invite() {
    let mut world = with_stun();
    let call = world.call(ALICE, BOB);
    world.command(ALICE, PhoneCommand::HangUp { call });
    let reason = "given up".to_owned();
    let end = PhoneEvent::Ended { call, by: Side::Us, status: 487, reason };
    assert_eq!(world.events(ALICE).last(), Some(&end));
    world.pass(Duration::from_secs(10));
    assert!(world.events(BOB).iter().all(|event| !matches!(event, PhoneEvent::Incoming { .. })));
}

#[test]
fn media_that_cannot_be_opened_end_the_call_at_both_ends() {
    let mut world = World::new(|_, _| {});
    world.stations[ALICE].opening = Some(Err("no port is free".to_owned()));
    let call = world.call(ALICE, BOB);
    let reason = "no port is free".to_owned();
    let events = world.events(ALICE);
    assert!(events.contains(&PhoneEvent::MediaFailed { call, reason: reason.clone() }));
    assert_eq!(events.last(), Some(&PhoneEvent::Ended { call, by: Side::Failure, status: 0, reason }));
    world.stations[BOB].opening = Some(Err("no port is free".to_owned()));
    world.stations[ALICE].opening = Some(Ok("192.0.2.1:4000".parse().unwrap()));
    world.talking(ALICE, BOB);
    let ended = |event: &PhoneEvent| match event {
        PhoneEvent::Ended { by, status, .. } => Some((*by, *status)),
        _ => None,
    };
    assert_eq!(world.events(ALICE).iter().find_map(ended), Some((Side::Peer, 500)));
    assert_eq!(world.events(BOB).iter().find_map(ended), Some((Side::Failure, 500)));
}

#[test]
fn a_call_without_its_protection_is_ended() {
    let mut world = World::new(|_, config| config.srtp = SrtpPolicy::Zrtp);
    let (call, _) = world.talking(ALICE, BOB);
    assert!(world.stations[ALICE].phone.call(call).unwrap().is_securing());
    world.events(ALICE);
    world.media(ALICE, call, CallMediaEvent::Session(MediaEvent::SecurityFailed(SecurityFailure::ZrtpLeft)));
    let events = world.events(ALICE);
    let Some(PhoneEvent::SecurityFailed { reason: failure, .. }) = events.first() else {
        panic!("{events:?}")
    };
    let Some(PhoneEvent::Ended { by: Side::Failure, reason, .. }) = events.last() else {
        panic!("{events:?}")
    };
    assert_eq!(reason, failure, "the end gives the reason, not that we hung up");
}

#[test]
fn less_protection_than_required_is_no_call() {
    let mut world = World::new(|place, config| {
        config.srtp = if place == ALICE { SrtpPolicy::Sdes } else { SrtpPolicy::None };
    });
    world.talking(ALICE, BOB);
    let refused = |event: &PhoneEvent| matches!(event, PhoneEvent::Ended { status: 488, .. });
    assert!(world.events(ALICE).iter().any(refused) && world.events(BOB).iter().any(refused));
}

#[test]
fn a_comparison_is_believed_and_secrets_are_stored_with_an_identity() {
    let zrtp = || ZrtpSettings { config: ZrtpConfig::new([7; 12]), cache: ZidCache::default() };
    let mut world = World::new(|place, config| config.zrtp = (place == ALICE).then(zrtp));
    let (call, called) = world.talking(ALICE, BOB);
    let suite = CryptoSuite::AesCm128HmacSha1_80;
    let sas = Sas {
        text: "pdo8".to_owned(),
        is_verified: true,
        continuity: Continuity::Broken,
        is_hello_announced: true,
        peer_client: String::new(),
        peer_discloses: false,
    };
    let retained = Retained {
        zid: [1; 12],
        rs1: [1; 32],
        rs2: None,
        sas_verified: false,
        expires_at: Instant::FAR,
        used_at: Instant::from_secs(1),
    };
    world.media(
        ALICE,
        call,
        CallMediaEvent::Session(MediaEvent::Secured {
            suite,
            key_management: KeyManagement::Zrtp,
            sas: Some(sas),
        }),
    );
    let protection = |status| Protection::Zrtp { suite, sas: "pdo8".to_owned(), status };
    let broken = PhoneEvent::Secured { call, protection: protection(SasStatus::Broken) };
    assert_eq!(world.events(ALICE).last(), Some(&broken));
    // The last comparison counts: the user may correct a wrong key.
    for (command, status) in [
        (PhoneCommand::MarkSasVerified { call }, SasStatus::Compared),
        (PhoneCommand::MarkSasDifferent { call }, SasStatus::Different),
        (PhoneCommand::MarkSasVerified { call }, SasStatus::Compared),
    ] {
        world.command(ALICE, command);
        assert_eq!(world.stations[ALICE].phone.call(call).unwrap().protection(), &protection(status));
        let secured = PhoneEvent::Secured { call, protection: protection(status) };
        assert_eq!(world.events(ALICE).last(), Some(&secured));
    }
    for (at, call) in [(ALICE, call), (BOB, called)] {
        world.media(at, call, CallMediaEvent::Session(MediaEvent::Retain(retained.clone())));
    }
    assert_eq!((world.stations[ALICE].stored, world.stations[BOB].stored), (1, 0));
    world.media(ALICE, call, CallMediaEvent::Session(MediaEvent::Unprotected));
    assert_eq!(world.stations[ALICE].phone.call(call).unwrap().protection(), &Protection::None);
}

/// A header field of the first 200 that a phone sent, and the tag in it.
fn of_our_answer(world: &World, at: usize, name: &str) -> (String, String) {
    let answer = |event: &PhoneEvent| match event {
        PhoneEvent::Message(message) if message.line == "SIP/2.0 200 OK" => {
            Some(String::from_utf8(message.bytes.clone()).unwrap())
        }
        _ => None,
    };
    let ok = world.stations[at].events.iter().find_map(answer).unwrap();
    let value = ok.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    let tag = value.split(";tag=").nth(1).unwrap_or_default().to_owned();
    (value, tag)
}

/// A request of a stranger to a phone. `to_and_fields` is the end of the To line, and further lines.
fn from_stranger(world: &mut World, at: usize, method: &str, to_and_fields: &str) {
    let body = match method {
        "INVITE" => {
            "v=0\r\no=- 1 1 IN IP4 192.0.2.66\r\ns=-\r\nc=IN IP4 192.0.2.66\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n"
        }
        _ => "",
    };
    let text = format!(
        "{method} {} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.66;branch=z9hG4bK{method}\r\nMax-Forwards: 70\r\n\
         From: <sip:mallory@192.0.2.66>;tag=m\r\nCall-ID: r\r\nCSeq: 1 {method}\r\n\
         Contact: <sip:mallory@192.0.2.66>\r\nTo: <{0}>{to_and_fields}\r\n\
         Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
        world.uri(at),
        body.len()
    );
    let flow = Flow::udp(ListenerId(0), "192.0.2.66:5060".parse().unwrap());
    world.run(at, |phone, cx| phone.on_message(cx, Received::new(flow, text.as_bytes())));
}

#[test]
fn no_call_is_replaced_without_the_user() {
    for is_protected in [false, true] {
        let mut world = World::new(|_, config| {
            config.srtp = SrtpPolicy::None;
            config.transfers = ringway_phone::TransferPolicy::Ask;
            config.agent.trace = ringway_agent::Trace::Whole;
        });
        let (_, called) = world.talking(ALICE, BOB);
        if is_protected {
            let suite = CryptoSuite::AesCm128HmacSha1_80;
            let secured = MediaEvent::Secured { suite, key_management: KeyManagement::Sdes, sas: None };
            world.media(BOB, called, CallMediaEvent::Session(secured));
        }
        let (call_id, _) = of_our_answer(&world, BOB, "Call-ID:");
        let ((_, to), (_, from)) = (of_our_answer(&world, BOB, "To:"), of_our_answer(&world, BOB, "From:"));
        let replaces = format!("\r\nReplaces: {call_id};to-tag={to};from-tag={from}");
        world.stations[BOB].commands.clear();
        from_stranger(&mut world, BOB, "INVITE", &replaces);
        let number = world.incoming(BOB);
        let shown = world.stations[BOB].events.iter().find_map(|event| match event {
            PhoneEvent::Incoming { call, replaces, .. } if *call == number => *replaces,
            _ => None,
        });
        assert_eq!(shown, Some(called), "it is shown with the call that it ends");
        let phase = |world: &World, call| world.stations[BOB].phone.call(call).map(|call| call.phase());
        assert!(matches!(phase(&world, called), Some(Phase::Talking(_))), "the old call goes on");
        assert_eq!(phase(&world, number), Some(Phase::RingsHere));
        assert!(
            world.stations[BOB].commands.is_empty(),
            "no microphone opens: {:?}",
            world.stations[BOB].commands
        );
        world.command(BOB, PhoneCommand::Answer { call: number });
        assert_eq!(phase(&world, called), None, "its user answered");
    }
}

#[test]
fn nothing_is_sent_to_the_address_in_an_invite_before_the_ack() {
    let mut world = World::new(|_, config| {
        config.incoming = ringway_phone::IncomingPolicy::Answer;
        config.agent.trace = ringway_agent::Trace::Whole;
    });
    from_stranger(&mut world, BOB, "INVITE", "");
    let sends = |world: &World| {
        let sends = |command: &(_, MediaCommand)| match &command.1 {
            MediaCommand::Params(params) => Some((params.direction.sends(), params.direction.receives())),
            _ => None,
        };
        world.stations[BOB].commands.iter().filter_map(sends).collect::<Vec<_>>()
    };
    world.pass(Duration::from_secs(20));
    assert_eq!(sends(&world), [(false, true)]);
    let (_, tag) = of_our_answer(&world, BOB, "To:");
    from_stranger(&mut world, BOB, "ACK", &format!(";tag={tag}"));
    assert_eq!(sends(&world), [(false, true), (true, true)]);
}

#[test]
fn sound_before_the_answer_is_played_where_it_need_not_be_protected() {
    for (srtp, expected) in [
        (SrtpPolicy::None, Some(false)),
        (SrtpPolicy::Best, Some(true)),
        (SrtpPolicy::Sdes, None),
        (SrtpPolicy::Zrtp, None),
    ] {
        let mut world = World::new(|_, config| config.srtp = srtp);
        let call = world.call(ALICE, BOB);
        let offered = world.stations[ALICE].commands.iter().find_map(|command| match &command.1 {
            MediaCommand::Offered(sound) => Some((sound.receive.clone(), sound.may_be_protected)),
            _ => None,
        });
        let codecs = vec![(0, Codec::Pcmu), (8, Codec::Pcma)];
        assert_eq!(offered, expected.map(|may_be_protected| (codecs, may_be_protected)), "{srtp:?}");
        world.events(ALICE);
        for _ in 0..2 {
            world.media(ALICE, call, CallMediaEvent::Session(MediaEvent::EarlySound));
        }
        assert_eq!(world.events(ALICE), [PhoneEvent::Early { call }]);
        assert_eq!(world.stations[ALICE].phone.call(call).unwrap().phase(), Phase::EarlyMedia);
        let is_offered = |command: &(_, MediaCommand)| matches!(command.1, MediaCommand::Offered(_));
        let called = world.incoming(BOB);
        world.command(BOB, PhoneCommand::Answer { call: called });
        assert!(!world.stations[BOB].commands.iter().any(is_offered), "its offer was answered");
        world.media(ALICE, call, CallMediaEvent::Session(MediaEvent::EarlySound));
        assert!(matches!(world.stations[ALICE].phone.call(call).unwrap().phase(), Phase::Talking(_)));
    }
}

//! `cargo xtask interop phone`: calls of Ringway's phone with other implementations.
//!
//! Every peer is called and calls: directly, through Ringway's server, and through Kamailio, over UDP and
//! TCP. In every call both sides send a tone and record received sound, one of them sends digits, and one of
//! them holds and resumes the call. The recordings are kept.

pub(crate) mod call;
mod challenged;
mod ice;
mod options;
mod protection;
mod sound;
mod stun;
mod subject;

use std::time::Duration;

use super::softphone::Keys;
use super::{Scenario, Stage, Transport};
use call::{Call, Caller, Peer, Route, Side};

/// All peers by all routes in both directions, one long call, and calls that must fail.
pub(crate) fn scenarios(long: Duration) -> Vec<Scenario> {
    let mut all: Vec<Call> = Vec::new();
    for (peer, outgoing, incoming) in PEERS {
        for (way, (name, route)) in ROUTES.into_iter().enumerate() {
            for (caller, keys) in [(Caller::Phone, outgoing), (Caller::Peer, incoming)] {
                let keys = keys.get(way % keys.len()).copied().unwrap_or(Keys::None);
                // Over UDP the caller holds, over TCP the callee: so each side does both with every peer.
                let holder = match (route.transport(), caller) {
                    (Transport::Udp, Caller::Phone) | (Transport::Tcp | Transport::Tls, Caller::Peer) => {
                        Side::Phone
                    }
                    (Transport::Udp, Caller::Peer) | (Transport::Tcp | Transport::Tls, Caller::Phone) => {
                        Side::Peer
                    }
                };
                let name = format!("phone/{}/{}/{name}/{}", peer.name(), caller.name(), keys_name(keys));
                all.push(Call { name, peer, caller, route, keys, holder, holds: 1, talk: Call::TALK });
            }
        }
    }
    all.extend(dtls_calls());
    all.push(long_call(long));
    let mut scenarios: Vec<Scenario> = all.into_iter().map(scenario).collect();
    scenarios.extend(protection::again_scenarios());
    scenarios.extend(protection::scenarios());
    scenarios.extend(protection::insisted_scenarios());
    scenarios.extend(challenged::realm_scenarios());
    scenarios.extend(stun::scenarios());
    scenarios.extend(ice::scenarios());
    scenarios.extend(stun::port_row_scenarios());
    scenarios.extend(challenged::scenarios());
    scenarios.extend(options::scenarios());
    scenarios.extend(sound::scenarios());
    scenarios
}

/// Calls with DTLS-SRTP, in both roles: the called side is the DTLS client. Both peers have RSA certificates, and an
/// association of its own for RTCP.
fn dtls_calls() -> Vec<Call> {
    let with = |(peer, suite): (Peer, &'static str)| {
        let routes = [
            (Caller::Phone, Side::Phone, "direct-udp", Route::Direct(Transport::Udp)),
            (Caller::Peer, Side::Peer, "ringway-udp", Route::Ringway(Transport::Udp)),
        ];
        routes.map(|(caller, holder, route_name, route)| {
            let name = format!("phone/{}/{}/{route_name}/dtls-{suite}", peer.name(), caller.name());
            Call { name, peer, caller, route, keys: Keys::Dtls(suite), holder, holds: 1, talk: Call::TALK }
        })
    };
    let calls = [
        (Peer::Baresip, "AES_CM_128_HMAC_SHA1_80"),
        (Peer::Baresip, "AEAD_AES_128_GCM"),
        (Peer::Linphone, "AES_CM_128_HMAC_SHA1_80"),
    ];
    calls.into_iter().flat_map(with).collect()
}

/// A call with four holds at equal intervals.
fn long_call(length: Duration) -> Call {
    Call {
        name: "phone/long-call".to_owned(),
        peer: Peer::Baresip,
        caller: Caller::Phone,
        route: Route::Direct(Transport::Udp),
        keys: Keys::Sdes("AES_CM_128_HMAC_SHA1_80"),
        holder: Side::Phone,
        holds: 4,
        talk: length.saturating_sub(call::HOLD * 4).max(Duration::from_secs(10)) / 5,
    }
}

fn scenario(call: Call) -> Scenario {
    let (name, reference) = (call.name.clone(), call.has_stand_in());
    // The peer's sound stops when it gets no processor, and each of many holds may meet that.
    let is_alone = call.holds > 1;
    let scenario = Scenario { reference, ..Scenario::new(name, move |stage: &Stage| call.play(stage)) };
    if is_alone { scenario.alone() } else { scenario }
}

fn keys_name(keys: Keys) -> &'static str {
    match keys {
        Keys::None => "plain",
        Keys::Sdes(suite) => suite,
        Keys::Zrtp => "zrtp",
        Keys::Dtls(suite) => suite,
    }
}

const ROUTES: [(&str, Route); 6] = [
    ("direct-udp", Route::Direct(Transport::Udp)),
    ("direct-tcp", Route::Direct(Transport::Tcp)),
    ("ringway-udp", Route::Ringway(Transport::Udp)),
    ("ringway-tcp", Route::Ringway(Transport::Tcp)),
    ("kamailio-udp", Route::Kamailio(Transport::Udp)),
    ("kamailio-tcp", Route::Kamailio(Transport::Tcp)),
];

/// Each peer with the protection of calls to it and of calls from it, one for each route.
const PEERS: [(Peer, &[Keys], &[Keys]); 3] = [
    (Peer::Baresip, &[TAG_80, TAG_32, TAG_32, TAG_80, GCM_128, GCM_256], &[TAG_80]),
    (
        Peer::Linphone,
        &[AES_256, ZRTP, ZRTP, AES_256, AES_256, ZRTP],
        &[ZRTP, AES_256, AES_256, ZRTP, ZRTP, AES_256],
    ),
    (Peer::Twinkle, &[Keys::None], &[Keys::None]),
];

const TAG_80: Keys = Keys::Sdes("AES_CM_128_HMAC_SHA1_80");
const TAG_32: Keys = Keys::Sdes("AES_CM_128_HMAC_SHA1_32");
const GCM_128: Keys = Keys::Sdes("AEAD_AES_128_GCM");
const GCM_256: Keys = Keys::Sdes("AEAD_AES_256_GCM");
const AES_256: Keys = Keys::Sdes("AES_256_CM_HMAC_SHA1_80");
const ZRTP: Keys = Keys::Zrtp;

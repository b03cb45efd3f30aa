//! `cargo xtask interop tls`: SIP over TLS with other implementations.
//!
//! The certificates are made for each scenario. The phones call each other with SDES through Ringway's server; `openssl`
//! is a client and a server with certificates that must be refused, and a client by DTLS; Kamailio is a neighbour in both directions.

mod kamailio;
mod openssl;
mod unfinished;

use super::phone::call::{Call, Caller, Peer, Route, Side};
use super::softphone::Keys;
use super::{Scenario, Stage, Transport};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all: Vec<Scenario> = Vec::new();
    for (name, peer, suite) in [
        ("baresip", Peer::Baresip, "AES_CM_128_HMAC_SHA1_80"),
        ("linphonec", Peer::Linphone, "AES_256_CM_HMAC_SHA1_80"),
    ] {
        // Each side holds once: the change of the session also goes over the connections of the registrations.
        for (caller, holder) in [(Caller::Phone, Side::Peer), (Caller::Peer, Side::Phone)] {
            let name = format!("tls/{name}/{}", caller.name());
            let (route, keys) = (Route::Ringway(Transport::Tls), Keys::Sdes(suite));
            let call = Call { name, peer, caller, route, keys, holder, holds: 1, talk: Call::TALK };
            all.push(Scenario::new(call.name.clone(), move |stage: &Stage| call.play(stage)));
        }
    }
    all.extend(openssl::scenarios());
    all.extend(openssl::dtls_scenarios());
    all.extend(kamailio::scenarios());
    all.extend(unfinished::scenarios());
    for scenario in &mut all {
        scenario.reference = false;
    }
    all
}

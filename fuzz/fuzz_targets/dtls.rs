//! Any bytes as what happens to the datagrams of a whole DTLS session: what must hold is said in
//! `services/dtls/tests/harness/sessions.rs`.
#![no_main]

#[path = "../../services/dtls/tests/harness/sessions.rs"]
mod harness;

use ringway_dtls::Identity;
use std::sync::OnceLock;

/// Certificates of both ends, made once.
static IDENTITIES: OnceLock<[Identity; 2]> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let identity = || Identity::new(&Identity::SUITES).expect("the suites have profiles");
    let identities = IDENTITIES.get_or_init(|| [identity(), identity()]);
    let _ = harness::Session::run(identities, data).is_keyed();
});

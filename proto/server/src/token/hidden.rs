//! Addresses and Call-IDs that a trunk must not see (decision 0063): sealed texts instead of them, which this server opens when they come
//! back.
//!
//! The text of a Call-ID is bound to nothing, so that each of a dialog is the same wherever it is written. All others are bound to the
//! Call-ID that the sides inside have.

use super::sealed::{open_up_to, seal};
use super::written_param;
use crate::config::SentBy;
use alloc::vec::Vec;
use ringway_sansio::Transport;
use ringway_sip::Uri;

/// The key of the sealed texts, with their forms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cover<'k>(&'k [u8; 16]);

/// Side of a dialog that is the trunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrunkSide {
    Caller,
    Callee,
}

impl<'k> Cover<'k> {
    pub(crate) const fn new(key: &'k [u8; 16]) -> Self {
        Self(key)
    }

    /// The Call-ID that the trunk has.
    pub(crate) fn call_id_outside(self, inside: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_call_id_outside(inside, &mut out);
        out
    }

    /// Appends the Call-ID that the trunk has.
    pub(crate) fn write_call_id_outside(self, inside: &[u8], out: &mut Vec<u8>) {
        self.write_other_call_id(inside, TRUNKS, OWN, out);
    }

    /// The Call-ID that the sides inside have.
    pub(crate) fn call_id_inside(self, outside: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_other_call_id(outside, OWN, TRUNKS, &mut out);
        out
    }

    /// Appends the text that was sealed as one of `sealed_as`; any other text sealed as one of `seals_as`.
    fn write_other_call_id(self, text: &[u8], sealed_as: &[u8], seals_as: &[u8], out: &mut Vec<u8>) {
        match open_up_to(self.0, [sealed_as, b""], text, CALL_ID_SEALED_MAX) {
            Some(opened) => out.extend_from_slice(&opened),
            None if text.len() > CALL_ID_BYTES_MAX => out.extend_from_slice(text),
            None => seal(self.0, [seals_as, b""], text, out),
        }
    }

    /// Appends a URI of this server that replaces another one. `user` is its user part; empty: none.
    pub(crate) fn write_uri(
        self,
        call_id: &[u8],
        uri: &[u8],
        user: &[u8],
        host: SentBy<'_>,
        transport: Transport,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(b"sip:");
        if !user.is_empty() {
            out.extend_from_slice(user);
            out.push(b'@');
        }
        host.write(out);
        out.extend_from_slice(transport.uri_parameter().as_bytes());
        out.extend_from_slice(b";rt=");
        seal(self.0, [b"uri:", call_id], uri, out);
    }

    /// The URI that one of this server replaces in a call.
    pub(crate) fn open_uri(self, call_id: &[u8], uri: &Uri<'_>) -> Option<Vec<u8>> {
        let sealed = uri.params().value(b"rt")?;
        open_up_to(self.0, [b"uri:", call_id], sealed, SEALED_MAX)
    }

    /// Appends the parameter of our Record-Route that says which side is the trunk, and the Routes that a request of it gets behind ours.
    pub(crate) fn write_routes(self, call_id: &[u8], trunk: TrunkSide, routes: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(ROUTES);
        let side = match trunk {
            TrunkSide::Caller => b'r',
            TrunkSide::Callee => b'e',
        };
        seal(self.0, [b"routes:", call_id], &[&[side], routes].concat(), out);
    }

    /// Reads the parameter of a Route. That it opens proves that the Route is ours.
    pub(crate) fn open_routes(self, call_id: &[u8], route: &[u8]) -> Option<(TrunkSide, Vec<u8>)> {
        let sealed = route.get(written_param(route, ROUTES)?)?;
        let mut text = open_up_to(self.0, [b"routes:", call_id], sealed, SEALED_MAX)?;
        let trunk = match text.first()? {
            b'r' => TrunkSide::Caller,
            _ => TrunkSide::Callee,
        };
        text.remove(0);
        Some((trunk, text))
    }
}

/// Parameter of our Record-Route with hidden Routes.
pub(crate) const ROUTES: &[u8; 4] = b";rh=";
/// Length of its value without Routes.
pub(crate) const WITHOUT_ROUTES_BYTES: usize = 12;
/// Contexts of Call-IDs: those that are the inside's own, and those that are a trunk's own.
const OWN: &[u8] = b"call of ours";
const TRUNKS: &[u8] = b"call of a trunk";
/// Maximum length of a Call-ID that is sealed; a longer one is the same at both sides.
pub(crate) const CALL_ID_BYTES_MAX: usize = 512;
/// Maximum length of a sealed one.
const CALL_ID_SEALED_MAX: usize = 704;
/// Maximum length of URIs, or Routes, that are sealed together.
pub(crate) const HIDDEN_BYTES_MAX: usize = 1500;
/// Maximum length of their sealed form.
const SEALED_MAX: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    const COVER: Cover<'static> = Cover::new(&[3; 16]);

    #[test]
    fn a_call_id_comes_back_from_either_side() {
        for len in [1, 8, 40, 200, CALL_ID_BYTES_MAX, CALL_ID_BYTES_MAX + 1, 1000] {
            let own = alloc::vec![b'c'; len];
            let outside = COVER.call_id_outside(&own);
            assert_eq!(outside == own, len > CALL_ID_BYTES_MAX, "{len}");
            assert_eq!(COVER.call_id_inside(&outside), own);
            let inside = COVER.call_id_inside(&own);
            assert_eq!(COVER.call_id_outside(&inside), own);
        }
        assert_ne!(COVER.call_id_inside(b"a"), COVER.call_id_outside(b"a"));
    }

    #[test]
    fn what_another_call_has_opens_nothing() {
        let host = SentBy::Name("out.example", 5060);
        let mut uri = Vec::new();
        COVER.write_uri(b"1", b"sip:alice@10.0.0.7", b"", host, Transport::Tcp, &mut uri);
        assert!(uri.starts_with(b"sip:out.example:5060;transport=tcp;rt="));
        let parsed = Uri::parse(&uri).unwrap();
        assert_eq!(COVER.open_uri(b"1", &parsed).unwrap(), b"sip:alice@10.0.0.7");
        assert_eq!(COVER.open_uri(b"2", &parsed), None);
        assert_eq!(COVER.open_routes(b"1", &uri), None);
        let mut route = b"sip:out.example;lr".to_vec();
        COVER.write_routes(b"1", TrunkSide::Callee, b"<sip:10.0.0.7;lr>", &mut route);
        let opened = COVER.open_routes(b"1", &route).unwrap();
        assert_eq!(opened, (TrunkSide::Callee, b"<sip:10.0.0.7;lr>".to_vec()));
        assert_eq!(COVER.open_routes(b"2", &route), None);
        let mut alone = Vec::new();
        COVER.write_routes(b"1", TrunkSide::Callee, b"", &mut alone);
        assert_eq!(alone.len(), ROUTES.len() + WITHOUT_ROUTES_BYTES);
        for made_up in ["A", "AAAA", &"A".repeat(5000)] {
            let uri = alloc::format!("sip:h;rt={made_up};rh={made_up}");
            let parsed = Uri::parse(uri.as_bytes()).unwrap();
            let opened = (COVER.open_uri(b"1", &parsed), COVER.open_routes(b"1", uri.as_bytes()));
            assert_eq!(opened, (None, None));
        }
    }
}

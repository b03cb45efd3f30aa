//! Attributes of ICE (RFC 8839) as a lite agent has them (RFC 8445 §2.5): credentials and one candidate, and the bundle of
//! one section that browsers make (RFC 9143).
//!
//! A lite agent only answers checks, so that the candidates of the peer are not read. Without the feature `ice` nothing is
//! offered, and offers are answered without ICE.

use crate::dtls::values_for;
use crate::text::fields;
use crate::{
    Attribute, Fingerprint, MediaDescription, MediaParams, OfferAnswer, Protection, SessionDescription,
};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use base64ct::{Base64Unpadded, Encoding as _};
use core::fmt;
use core::net::SocketAddr;
use ringway_sansio::Entropy;

/// User name fragment and password of one side (RFC 8839 §5.4).
#[derive(Clone, PartialEq, Eq)]
pub struct IceCredentials {
    ufrag: String,
    password: String,
}

impl IceCredentials {
    /// Credentials of 4 to 256 and 22 to 256 characters; `None` for other lengths and characters.
    pub fn new(ufrag: &[u8], password: &[u8]) -> Option<Self> {
        let text = |value: &[u8], least: usize| {
            let is_valid = (least..=CREDENTIAL_BYTES_MAX).contains(&value.len())
                && value.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'));
            is_valid.then(|| String::from_utf8_lossy(value).into_owned())
        };
        Some(Self { ufrag: text(ufrag, 4)?, password: text(password, 22)? })
    }

    /// The user name fragment.
    pub fn ufrag(&self) -> &str {
        &self.ufrag
    }

    /// The password.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// New credentials: 48 and 144 random bits.
    fn generate(entropy: &mut Entropy) -> Self {
        let (ufrag, password): ([u8; 6], [u8; 18]) = (entropy.bytes(), entropy.bytes());
        let text = |bytes: &[u8]| {
            let mut room = [0; 24];
            // The alphabet of base64 is that of the attributes.
            Base64Unpadded::encode(bytes, &mut room).map(String::from).unwrap_or_default()
        };
        Self { ufrag: text(&ufrag), password: text(&password) }
    }
}

impl fmt::Debug for IceCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IceCredentials({})", self.ufrag)
    }
}

/// Negotiated ICE: we are the lite agent, the peer is a full one, and RTP and RTCP are one component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IceParams {
    /// Our credentials; checks of the peer are made with our password.
    pub local: IceCredentials,
    /// Credentials of the peer.
    pub remote: IceCredentials,
}

impl OfferAnswer {
    /// Adds ICE to our offer, if it has a fingerprint.
    pub(crate) fn offer_ice(
        &mut self,
        fingerprint: Option<&Fingerprint>,
        section: &mut MediaDescription,
    ) -> Vec<Attribute> {
        if !cfg!(feature = "ice") || fingerprint.is_none() {
            return Vec::new();
        }
        let local = self.ice.get_or_insert_with(|| IceCredentials::generate(&mut self.entropy)).clone();
        section.attributes.extend(attributes(&local, self.local.rtp));
        section.attributes.push(Attribute::with("mid", MID));
        [Attribute::flag("ice-lite"), Attribute::with("group", format!("BUNDLE {MID}"))].into()
    }

    /// Adds ICE to our answer, and returns the attributes of the session. Other credentials than before restart ICE:
    /// then ours are new too (RFC 8839 §4.4.1.1.1).
    pub(crate) fn answer_ice(
        &mut self,
        params: &mut MediaParams,
        remote: Option<IceCredentials>,
        offer: &SessionDescription,
        offered: &MediaDescription,
        section: &mut MediaDescription,
    ) -> Vec<Attribute> {
        let Some(remote) = remote.filter(|_| cfg!(feature = "ice")) else { return Vec::new() };
        let before = self.agreed().and_then(|agreed| agreed.ice.as_ref());
        if before.is_some_and(|before| before.remote != remote) {
            self.ice = None;
        }
        let local = self.ice.get_or_insert_with(|| IceCredentials::generate(&mut self.entropy)).clone();
        section.attributes.extend(attributes(&local, self.local.rtp));
        params.ice = Some(IceParams { local, remote });
        let mut session: Vec<Attribute> = [Attribute::flag("ice-lite")].into();
        if let Some(mid) = offered.values("mid").next().map(<[u8]>::trim_ascii) {
            let named = |name: &[u8]| Attribute { name: name.to_vec(), value: None };
            section.attributes.push(Attribute { value: Some(mid.to_vec()), ..named(b"mid") });
            let groups = offer.attributes.iter().filter(|attribute| attribute.name == b"group");
            let mut groups = groups.filter_map(|group| group.value.as_deref()).map(fields);
            if groups.any(|mut words| words.next() == Some(b"BUNDLE") && words.any(|word| word == mid)) {
                let value = [b"BUNDLE ", mid].concat();
                session.push(Attribute { value: Some(value), ..named(b"group") });
            }
        }
        session
    }

    /// ICE by the answer to our offer.
    pub(crate) fn answered_ice(&self, remote: Option<IceCredentials>) -> Option<IceParams> {
        Some(IceParams { local: self.ice.clone()?, remote: remote? })
    }
}

/// Credentials of a peer with which ICE is used. It is not used with a second lite agent, because none of the two would
/// check (RFC 8445 §6.1.1), nor without DTLS, with RTCP as a second component, or after a mismatch (RFC 8839 §4.2.5).
pub(crate) fn usable_credentials(
    description: &SessionDescription,
    section: &MediaDescription,
    protection: &Protection,
    rtcp_mux: bool,
) -> Option<IceCredentials> {
    let is_lite = description.attributes.iter().any(|attribute| attribute.name == b"ice-lite");
    let is_used = cfg!(feature = "ice") && rtcp_mux && matches!(protection, Protection::Dtls { .. });
    if is_lite || !is_used || section.has("ice-mismatch") {
        return None;
    }
    let value = |name| values_for(description, section, name).first().map(|value| value.trim_ascii());
    IceCredentials::new(value("ice-ufrag")?, value("ice-pwd")?)
}

/// The attributes of our section: one host candidate of the greatest priority (RFC 8445 §5.1.2).
fn attributes(local: &IceCredentials, rtp: SocketAddr) -> [Attribute; 4] {
    let (ip, port) = (rtp.ip(), rtp.port());
    [
        Attribute::with("ice-ufrag", local.ufrag.clone()),
        Attribute::with("ice-pwd", local.password.clone()),
        Attribute::with("ice-options", "ice2"),
        Attribute::with("candidate", format!("1 1 UDP {PRIORITY} {ip} {port} typ host")),
    ]
}

/// Type preference 126, local preference 65,535, component 1.
const PRIORITY: u32 = (126 << 24) + (65_535 << 8) + 255;

/// Identification tag of our section in our offers.
const MID: &str = "0";

/// RFC 8839 §5.4.
const CREDENTIAL_BYTES_MAX: usize = 256;

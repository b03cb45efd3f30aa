//! Attributes of ICE (RFC 8839) as a lite agent has them (RFC 8445 §2.5): credentials and one candidate, and the bundle of
//! one section that browsers make (RFC 9143).
//!
//! A lite agent only answers checks, so that the candidates of the peer are not read. Without the feature `ice`,
//! `no_ice.rs` replaces this module: nothing is offered, and offers are answered without ICE.

use crate::dtls::values_for;
use crate::text::fields;
use crate::{Attribute, MediaDescription, SessionDescription};
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

/// Our side of ICE.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalIce {
    /// `None` before the first description with ICE.
    credentials: Option<IceCredentials>,
}

impl LocalIce {
    /// Adds ICE to the section of our offer, and returns the attributes of the session.
    pub(crate) fn offer(
        &mut self,
        entropy: &mut Entropy,
        rtp: SocketAddr,
        section: &mut MediaDescription,
    ) -> Vec<Attribute> {
        let local = self.credentials.get_or_insert_with(|| IceCredentials::generate(entropy));
        section.attributes.extend(attributes(local, rtp));
        section.attributes.push(Attribute::with("mid", MID));
        [Attribute::flag("ice-lite"), Attribute::with("group", format!("BUNDLE {MID}"))].into()
    }

    /// ICE with a peer that offered these credentials. Others than `before` restart ICE: then ours are new too (RFC
    /// 8839 §4.4.2.1).
    pub(crate) fn answer(
        &mut self,
        entropy: &mut Entropy,
        before: Option<&IceParams>,
        remote: IceCredentials,
    ) -> IceParams {
        if before.is_some_and(|before| before.remote != remote) {
            self.credentials = None;
        }
        let local = self.credentials.get_or_insert_with(|| IceCredentials::generate(entropy)).clone();
        IceParams { local, remote }
    }

    /// ICE by the answer to our offer.
    pub(crate) fn answered(&self, remote: Option<IceCredentials>) -> Option<IceParams> {
        Some(IceParams { local: self.credentials.clone()?, remote: remote? })
    }
}

/// Adds ICE to the section of our answer to the section `offered`, and returns the attributes of the session.
pub(crate) fn answer_attributes(
    params: &IceParams,
    rtp: SocketAddr,
    offer: &SessionDescription,
    offered: &MediaDescription,
    section: &mut MediaDescription,
) -> Vec<Attribute> {
    section.attributes.extend(attributes(&params.local, rtp));
    let mut session: Vec<Attribute> = [Attribute::flag("ice-lite")].into();
    if let Some(mid) = offered.values("mid").next().map(<[u8]>::trim_ascii) {
        section.attributes.push(Attribute::with("mid", mid));
        let groups = offer.attributes.iter().filter(|attribute| attribute.name == b"group");
        let mut groups = groups.filter_map(|group| group.value.as_deref()).map(fields);
        if groups.any(|mut words| words.next() == Some(b"BUNDLE") && words.any(|word| word == mid)) {
            session.push(Attribute::with("group", [b"BUNDLE ", mid].concat()));
        }
    }
    session
}

/// Credentials of a peer that checks. A second lite agent does not (RFC 8445 §6.1.1), nor
/// does a peer after a mismatch (RFC 8839 §4.2.5).
pub(crate) fn credentials(
    description: &SessionDescription,
    section: &MediaDescription,
) -> Option<IceCredentials> {
    let is_lite = description.attributes.iter().any(|attribute| attribute.name == b"ice-lite");
    if is_lite || section.has("ice-mismatch") {
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

//! Policy for the protection of a call, and the choice among the keys that an offer or an answer carries.

use crate::dtls::{self, Setup};
use crate::sdes::CryptoLine;
use crate::{
    Attribute, CryptoSuite, DtlsRole, Fingerprint, KeyManagement, MediaDescription, Mismatch, Profile,
    Protection, Refused, SessionDescription,
};
use alloc::vec::Vec;

/// Protection chosen from an offered section.
#[derive(Clone, Debug)]
pub(crate) enum ChosenProtection {
    Nothing,
    Sdes(CryptoLine),
    Zrtp { peer_hello_hash: Option<[u8; 32]> },
    Dtls { role: DtlsRole, fingerprints: Vec<Fingerprint> },
}

impl ChosenProtection {
    const fn key_management(&self) -> Option<KeyManagement> {
        match self {
            Self::Nothing => None,
            Self::Sdes(_) => Some(KeyManagement::Sdes),
            Self::Zrtp { .. } => Some(KeyManagement::Zrtp),
            Self::Dtls { .. } => Some(KeyManagement::Dtls),
        }
    }
}

/// Protection of the call before this offer or answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PriorProtection {
    /// True if an earlier offer was answered.
    pub(crate) is_agreed: bool,
    /// Key management in use.
    pub(crate) key_management: Option<KeyManagement>,
    /// Our role in the DTLS association in use.
    pub(crate) dtls_role: Option<DtlsRole>,
    /// Permission to continue without protection.
    pub(crate) downgrade: Downgrade,
}

impl PriorProtection {
    /// A protected call stays protected with the same key management; after a change, packets could be sent
    /// unprotected until the new one is ready.
    fn check(self, after: Option<KeyManagement>) -> Result<(), Refused> {
        match (self.downgrade, self.key_management) {
            (Downgrade::Allowed, _) | (_, None) => Ok(()),
            (Downgrade::Refused, before) if before == after => Ok(()),
            (Downgrade::Refused, Some(_)) if after.is_some() => Err(Refused::OtherKeys),
            (Downgrade::Refused, Some(_)) => Err(Refused::Downgrade),
        }
    }
}

/// Chooses the protection of an offered section.
pub(crate) fn choose(
    policy: &SecurityPolicy,
    profile: Profile,
    offer: &SessionDescription,
    section: &MediaDescription,
    before: PriorProtection,
) -> Result<ChosenProtection, Refused> {
    match by_policy(policy, profile, offer, section, before) {
        Ok(chosen) => before.check(chosen.key_management()).map(|()| chosen),
        Err(
            Refused::Unprotected
            | Refused::Crypto
            | Refused::Sdes
            | Refused::Dtls
            | Refused::Fingerprint
            | Refused::Setup,
        ) if !profile.is_secure() && before.is_agreed => {
            // A call continues without the protection that its policy requires only if the user has permitted
            // it.
            before.check(None).map(|()| ChosenProtection::Nothing)
        }
        Err(refused) => Err(refused),
    }
}

/// Protection that our offer proposed.
#[derive(Clone, Debug)]
pub(crate) struct OfferedProtection {
    /// Key lines as written.
    pub(crate) lines: Vec<CryptoLine>,
    /// Protocol of the section.
    pub(crate) profile: Profile,
    /// True if our fingerprint was offered, and nothing else.
    pub(crate) is_dtls: bool,
}

impl OfferedProtection {
    /// The protection negotiated by the peer's answer.
    pub(crate) fn answered_by(
        &self,
        policy: &SecurityPolicy,
        answer: &SessionDescription,
        section: &MediaDescription,
        before: PriorProtection,
    ) -> Result<Protection, Refused> {
        if self.is_dtls {
            return answered_dtls(answer, section);
        }
        let sdes = self.answered_line(section)?;
        let zrtp = match policy {
            SecurityPolicy::Zrtp { .. } => Some(Protection::Zrtp { peer_hello_hash: section.zrtp_hash() }),
            SecurityPolicy::Opportunistic { hello_hash: Some(_), .. } => {
                section.zrtp_hash().map(|hash| Protection::Zrtp { peer_hello_hash: Some(hash) })
            }
            SecurityPolicy::Opportunistic { hello_hash: None, .. }
            | SecurityPolicy::None
            | SecurityPolicy::Sdes { .. }
            | SecurityPolicy::Dtls { .. } => None,
        };
        // RFC 4568 §5.1.3: an answerer with a key in its answer uses it, whatever else it supports.
        let sdes = sdes.map(|sdes| (KeyManagement::Sdes, sdes));
        let zrtp = zrtp.map(|zrtp| (KeyManagement::Zrtp, zrtp));
        let protection = in_order(before.key_management, [sdes, zrtp, None]).unwrap_or(Protection::None);
        let after = protection.key_management();
        before.check(after)?;
        let must =
            self.profile.is_secure() || matches!(policy, SecurityPolicy::Sdes { .. }) && !before.is_agreed;
        if must && after.is_none() { Err(Refused::Unprotected) } else { Ok(protection) }
    }

    /// RFC 4568 §5.1.3: an answer has exactly one of the offered suites, its tag, and a key. If no key was
    /// offered, a key in the answer is ignored, because some phones always send one.
    fn answered_line(&self, section: &MediaDescription) -> Result<Option<Protection>, Refused> {
        let mut values = section.values("crypto");
        let Some(value) = values.next().filter(|_| !self.lines.is_empty()) else { return Ok(None) };
        let mismatch = Refused::Mismatch(Mismatch::Crypto);
        if values.next().is_some() {
            return Err(mismatch);
        }
        let answered = CryptoLine::parse(value).map_err(|_| mismatch)?;
        let is_same = |line: &&CryptoLine| line.tag == answered.tag && line.suite == answered.suite;
        let offered = self.lines.iter().find(is_same).ok_or(mismatch)?;
        if self.lines.iter().any(|line| line.key.key == answered.key.key) {
            return Err(Refused::Mismatch(Mismatch::KeyReused));
        }
        let (send, receive) = (offered.key.clone(), answered.key);
        Ok(Some(Protection::Sdes { suite: answered.suite, send, receive }))
    }
}

/// The attribute that announces ZRTP (RFC 6189 §8).
pub(crate) fn zrtp_attribute(hello_hash: &[u8; 32]) -> Attribute {
    Attribute::with("zrtp-hash", ["1.10 ", &base16ct::lower::encode_string(hello_hash)].concat())
}

/// The fingerprints and our role by the answer to our offer of DTLS-SRTP. An answer without them is refused: there
/// would be no protection, or an unauthenticated one.
fn answered_dtls(answer: &SessionDescription, section: &MediaDescription) -> Result<Protection, Refused> {
    let fingerprints = dtls::fingerprints(answer, section);
    match (fingerprints.is_empty(), dtls::has_fingerprint(answer, section)) {
        (true, false) if section.has("crypto") => return Err(Refused::Sdes),
        (true, false) => return Err(Refused::Unprotected),
        (true, true) => return Err(Refused::Fingerprint),
        (false, _) => {}
    }
    let role = DtlsRole::answered(Setup::of(answer, section, Setup::Passive));
    let role = role.ok_or(Refused::Mismatch(Mismatch::Setup))?;
    Ok(Protection::Dtls { role, fingerprints })
}

/// The choice by policy alone, without the prior protection.
fn by_policy(
    policy: &SecurityPolicy,
    profile: Profile,
    offer: &SessionDescription,
    section: &MediaDescription,
    before: PriorProtection,
) -> Result<ChosenProtection, Refused> {
    match policy {
        SecurityPolicy::None if profile.is_secure() => Err(Refused::ProtectionUnwanted),
        SecurityPolicy::None => Ok(ChosenProtection::Nothing),
        SecurityPolicy::Zrtp { .. } if profile.is_secure() && section.has("crypto") => Err(Refused::Sdes),
        SecurityPolicy::Zrtp { .. } if profile.is_secure() => Err(no_key(offer, section)),
        SecurityPolicy::Zrtp { .. } => Ok(ChosenProtection::Zrtp { peer_hello_hash: section.zrtp_hash() }),
        SecurityPolicy::Sdes { .. } if profile.is_dtls() => Err(Refused::Dtls),
        SecurityPolicy::Sdes { suites } => {
            first_line(section, suites).map(ChosenProtection::Sdes).ok_or_else(|| no_key(offer, section))
        }
        SecurityPolicy::Dtls { .. } => offered_dtls(profile, offer, section, before),
        SecurityPolicy::Opportunistic { suites, hello_hash, fingerprint } => {
            let dtls = offered_dtls(profile, offer, section, before);
            let dtls = if fingerprint.is_some() { dtls } else { Err(Refused::Dtls) };
            if profile.is_dtls() {
                return dtls;
            }
            let zrtp = hello_hash.and(section.zrtp_hash()).filter(|_| !profile.is_secure());
            let zrtp = zrtp.map(|hash| ChosenProtection::Zrtp { peer_hello_hash: Some(hash) });
            let sdes = first_line(section, suites).map(ChosenProtection::Sdes);
            // RFC 6189 §8.2: one key negotiation, and that is ZRTP. Our answer then has no key. Servers on the path
            // can read the keys of SDES, but not those of DTLS.
            let zrtp = zrtp.map(|zrtp| (KeyManagement::Zrtp, zrtp));
            let no_dtls = dtls.as_ref().err().copied();
            let dtls = dtls.ok().map(|dtls| (KeyManagement::Dtls, dtls));
            let sdes = sdes.map(|sdes| (KeyManagement::Sdes, sdes));
            match in_order(before.key_management, [zrtp, dtls, sdes]) {
                Some(chosen) => Ok(chosen),
                None if profile.is_secure() => match no_key(offer, section) {
                    Refused::Dtls => Err(no_dtls.unwrap_or(Refused::Dtls)),
                    other => Err(other),
                },
                None => Ok(ChosenProtection::Nothing),
            }
        }
    }
}

/// DTLS-SRTP as an offer has it. A fingerprint is used with the protocols of SRTP, also without `UDP/TLS` before them,
/// which phones from before RFC 5764 omit; a fingerprint in an offer of unprotected RTP is ignored.
fn offered_dtls(
    profile: Profile,
    offer: &SessionDescription,
    section: &MediaDescription,
    before: PriorProtection,
) -> Result<ChosenProtection, Refused> {
    let has_fingerprint = dtls::has_fingerprint(offer, section);
    if !has_fingerprint && !profile.is_dtls() && section.has("crypto") {
        return Err(Refused::Sdes);
    }
    if !profile.is_secure() || !has_fingerprint {
        return Err(if profile.is_secure() { Refused::Fingerprint } else { Refused::Unprotected });
    }
    let fingerprints = dtls::fingerprints(offer, section);
    if fingerprints.is_empty() {
        return Err(Refused::Fingerprint);
    }
    let setup = Setup::of(offer, section, Setup::Active);
    let role = DtlsRole::answering(setup, before.dtls_role).ok_or(Refused::Setup)?;
    Ok(ChosenProtection::Dtls { role, fingerprints })
}

/// The key management in use, if it is possible, else the first that is.
fn in_order<T>(in_use: Option<KeyManagement>, candidates: [Option<(KeyManagement, T)>; 3]) -> Option<T> {
    let mut candidates: Vec<(KeyManagement, T)> = candidates.into_iter().flatten().collect();
    let at = candidates.iter().position(|(method, _)| Some(*method) == in_use).unwrap_or(0);
    (at < candidates.len()).then(|| candidates.swap_remove(at).1)
}

/// First valid and supported line, in the offerer's order (RFC 4568 §5.1.2).
fn first_line(section: &MediaDescription, suites: &[CryptoSuite]) -> Option<CryptoLine> {
    let mut lines = section.values("crypto").filter_map(|value| CryptoLine::parse(value).ok());
    lines.find(|line| suites.contains(&line.suite))
}

/// Reason why a section has no usable key.
fn no_key(offer: &SessionDescription, section: &MediaDescription) -> Refused {
    if section.has("crypto") {
        Refused::Crypto
    } else if dtls::has_fingerprint(offer, section) {
        Refused::Dtls
    } else {
        Refused::Unprotected
    }
}

/// Required and permitted protection of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecurityPolicy {
    /// Protection if the peer supports it: offers RTP/AVP with keys (RFC 8643), accepts any offer.
    Opportunistic {
        /// Suites for SDES, in order of preference.
        suites: Vec<CryptoSuite>,
        /// Hash of our ZRTP Hello, if ZRTP may be used (RFC 6189 §8).
        hello_hash: Option<[u8; 32]>,
        /// Fingerprint of our certificate, if offers of DTLS-SRTP may be answered (RFC 5763).
        fingerprint: Option<Fingerprint>,
    },
    /// No protection.
    None,
    /// SDES (RFC 4568) is required.
    Sdes {
        /// Suites, in order of preference; at least one.
        suites: Vec<CryptoSuite>,
    },
    /// ZRTP (RFC 6189) is required.
    Zrtp {
        /// Hash of our Hello.
        hello_hash: [u8; 32],
    },
    /// DTLS-SRTP (RFC 5763) is required.
    Dtls {
        /// Fingerprint of our certificate.
        fingerprint: Fingerprint,
    },
}

impl SecurityPolicy {
    pub(crate) fn suites(&self) -> &[CryptoSuite] {
        match self {
            Self::Opportunistic { suites, .. } | Self::Sdes { suites } => suites,
            Self::None | Self::Zrtp { .. } | Self::Dtls { .. } => &[],
        }
    }

    pub(crate) const fn hello_hash(&self) -> Option<&[u8; 32]> {
        match self {
            Self::Opportunistic { hello_hash, .. } => hello_hash.as_ref(),
            Self::Zrtp { hello_hash } => Some(hello_hash),
            Self::None | Self::Sdes { .. } | Self::Dtls { .. } => None,
        }
    }

    pub(crate) const fn fingerprint(&self) -> Option<&Fingerprint> {
        match self {
            Self::Opportunistic { fingerprint, .. } => fingerprint.as_ref(),
            Self::Dtls { fingerprint } => Some(fingerprint),
            Self::None | Self::Sdes { .. } | Self::Zrtp { .. } => None,
        }
    }
}

/// Permission to continue a protected call without protection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Downgrade {
    /// Not permitted: the offer or answer is rejected.
    #[default]
    Refused,
    /// Permitted by the user.
    Allowed,
}

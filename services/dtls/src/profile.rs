//! SRTP protection profiles (RFC 5764 §4.1.2, RFC 7714 §14.2), and the keys that an exporter gives for them.

use ringway_media::dtls::DtlsKeys;
use ringway_sdp::{CryptoSuite, DtlsRole, MasterKey};
use rtc_dtls::extension::extension_use_srtp::SrtpProtectionProfile;

/// Suites with a profile, best first. The profile with a tag of 32 bits is not offered: RFC 5764 has it for other
/// codecs than speech at 64 kbit/s.
pub(crate) const SUITES: [CryptoSuite; 3] =
    [CryptoSuite::AeadAes256Gcm, CryptoSuite::AeadAes128Gcm, CryptoSuite::AesCm128HmacSha1_80];

/// The profile of a suite.
pub(crate) const fn profile(suite: CryptoSuite) -> Option<SrtpProtectionProfile> {
    match suite {
        CryptoSuite::AeadAes256Gcm => Some(SrtpProtectionProfile::Srtp_Aead_Aes_256_Gcm),
        CryptoSuite::AeadAes128Gcm => Some(SrtpProtectionProfile::Srtp_Aead_Aes_128_Gcm),
        CryptoSuite::AesCm128HmacSha1_80 => Some(SrtpProtectionProfile::Srtp_Aes128_Cm_Hmac_Sha1_80),
        CryptoSuite::AesCm128HmacSha1_32
        | CryptoSuite::AesCm192HmacSha1_80
        | CryptoSuite::AesCm192HmacSha1_32
        | CryptoSuite::AesCm256HmacSha1_80
        | CryptoSuite::AesCm256HmacSha1_32 => None,
    }
}

/// The suite of a profile.
pub(crate) fn suite(negotiated: SrtpProtectionProfile) -> Option<CryptoSuite> {
    SUITES.into_iter().find(|suite| profile(*suite) == Some(negotiated))
}

/// Number of bytes to export for a suite.
pub(crate) const fn exported_bytes(suite: CryptoSuite) -> usize {
    2 * (suite.key_bytes() + suite.salt_bytes())
}

/// Divides exported bytes (RFC 5764 §4.2): the client's key, the server's, the client's salt, the server's.
pub(crate) fn keys(suite: CryptoSuite, role: DtlsRole, exported: &[u8]) -> Option<DtlsKeys> {
    let (client_key, rest) = exported.split_at_checked(suite.key_bytes())?;
    let (server_key, rest) = rest.split_at_checked(suite.key_bytes())?;
    let (client_salt, server_salt) = rest.split_at_checked(suite.salt_bytes())?;
    if server_salt.len() != suite.salt_bytes() {
        return None;
    }
    let key = |key: &[u8], salt: &[u8]| MasterKey {
        key: key.to_vec(),
        salt: salt.to_vec(),
        lifetime_packets: None,
        mki: Vec::new(),
    };
    let (client, server) = (key(client_key, client_salt), key(server_key, server_salt));
    let (send, receive) = match role {
        DtlsRole::Active => (client, server),
        DtlsRole::Passive => (server, client),
    };
    Some(DtlsKeys { suite, send, receive })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_sends_with_its_own_key_and_salt() {
        for suite in SUITES {
            let exported: Vec<u8> = (0..exported_bytes(suite) as u8).collect();
            let client = keys(suite, DtlsRole::Active, &exported).unwrap();
            let server = keys(suite, DtlsRole::Passive, &exported).unwrap();
            assert_eq!((&client.send, &client.receive), (&server.receive, &server.send));
            let (key, salt) = (suite.key_bytes() as u8, suite.salt_bytes() as u8);
            assert_eq!((client.send.key[0], client.receive.key[0]), (0, key));
            assert_eq!((client.send.salt[0], client.receive.salt[0]), (2 * key, 2 * key + salt));
            assert!(keys(suite, DtlsRole::Active, &exported[1..]).is_none());
        }
    }
}

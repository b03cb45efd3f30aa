//! Configuration of OpenSSL.

use super::OpenSsl;
use crate::files::{
    ClientAuth, PeerCa, TlsError, TlsFiles, expiry, load_certificates, load_crls, load_key,
    native_certificates,
};
use crate::identity::is_server;
use crate::offer::{Offer, Suite, TlsVersion};
use openssl::error::ErrorStack;
use openssl::pkey::{PKey, Private};
use openssl::ssl::{
    NameType, Ssl, SslContext, SslContextBuilder, SslFiletype, SslMethod, SslMode, SslOptions,
    SslSessionCacheMode, SslVerifyMode, SslVersion,
};
use openssl::stack::Stack;
use openssl::x509::store::X509Lookup;
use openssl::x509::verify::X509VerifyFlags;
use openssl::x509::{X509, X509Name, X509StoreContextRef, X509VerifyResult};
use rustls::pki_types::{CertificateDer, ServerName};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Both sides of connections by OpenSSL.
pub(crate) struct Contexts {
    server: Option<Server>,
    client: SslContext,
    verify_peer: bool,
}

impl Contexts {
    /// Loads the files. Also returns the time at which the first of the own certificates expires.
    pub(crate) fn load(files: &TlsFiles) -> Result<(Self, Option<SystemTime>), TlsError> {
        let own = files.certificate.as_ref().map(|(chain, key)| Pair::load(chain, key)).transpose()?;
        let mut expires = own.as_ref().and_then(|own| own.expires);
        let mut domains = HashMap::new();
        for domain in &files.domains {
            let pair = Pair::load(&domain.certificate, &domain.private_key)?;
            expires = expires.min(pair.expires).or(expires);
            domains.insert(domain.name.clone(), pair);
        }
        let authorities = match (&files.client_auth, &files.client_ca) {
            (ClientAuth::None, _) => Vec::new(),
            (_, None) => return Err(TlsError::NoClientCa),
            (_, Some(path)) => load_authorities("client_ca", path)?,
        };
        let crl = files.crl.clone();
        crl.as_deref().map(load_crls).transpose()?;
        let server = match own.clone() {
            None => None,
            Some(own) => {
                let rules = Rules {
                    offer: files.offer.clone(),
                    client_auth: files.client_auth,
                    authorities,
                    crl,
                    lifetime: files.session_timeout,
                };
                Some(Server::new(rules, own, &domains)?)
            }
        };
        let client = client_context(files, own.as_ref())?;
        Ok((Self { server, client, verify_peer: files.verify_peer }, expires))
    }

    /// Connection of a peer that was accepted. `None`: there is no certificate.
    pub(crate) fn accept(&self) -> Option<OpenSsl> {
        let mut ssl = Ssl::new(&self.server.as_ref()?.context()).ok()?;
        ssl.set_accept_state();
        OpenSsl::new(ssl).ok()
    }

    /// Connection to a peer that was dialled, and must be `name`.
    pub(crate) fn dial(&self, name: ServerName<'static>) -> Option<OpenSsl> {
        let mut ssl = Ssl::new(&self.client).ok()?;
        if let ServerName::DnsName(name) = &name {
            ssl.set_hostname(name.as_ref()).ok()?;
        }
        if self.verify_peer {
            ssl.set_verify_callback(SslVerifyMode::PEER, move |is_valid, chain| {
                is_accepted(is_valid, chain) && is_peer(chain, &name)
            });
        }
        ssl.set_connect_state();
        OpenSsl::new(ssl).ok()
    }
}

/// Certificate chain and private key.
#[derive(Clone)]
struct Pair {
    chain: Vec<X509>,
    key: PKey<Private>,
    expires: Option<SystemTime>,
    files: (PathBuf, PathBuf),
}

impl Pair {
    fn load(chain: &Path, key: &Path) -> Result<Self, TlsError> {
        let certificates = load_certificates("certificate", chain)?;
        let private = load_key(key)?;
        let files = (chain.to_owned(), key.to_owned());
        let private = PKey::private_key_from_der(private.secret_der()).map_err(|why| unfit(&files, &why))?;
        let expires = expiry(&certificates);
        Ok(Self { chain: of_der(&certificates)?, key: private, expires, files })
    }

    fn apply(&self, builder: &mut SslContextBuilder) -> Result<(), TlsError> {
        let mut apply = || {
            let mut chain = self.chain.iter();
            if let Some(first) = chain.next() {
                builder.set_certificate(first)?;
            }
            for further in chain {
                builder.add_extra_chain_cert(further.clone())?;
            }
            builder.set_private_key(&self.key)?;
            builder.check_private_key()
        };
        apply().map_err(|why| unfit(&self.files, &why))
    }
}

fn unfit((certificate, key): &(PathBuf, PathBuf), why: &ErrorStack) -> TlsError {
    TlsError::Pair { certificate: certificate.clone(), key: key.clone(), why: why.to_string() }
}

/// Rules of connections that are accepted.
struct Rules {
    offer: Offer,
    client_auth: ClientAuth,
    authorities: Vec<X509>,
    crl: Option<PathBuf>,
    /// Longest time for which sessions are resumed.
    lifetime: Option<Duration>,
}

/// Side that is dialled.
struct Server {
    rules: Rules,
    first: Pair,
    domains: Arc<HashMap<String, SslContext>>,
    /// The context makes the keys of tickets, and has the sessions. Another one takes its turn after the lifetime.
    current: Mutex<(Instant, SslContext)>,
}

impl Server {
    fn new(rules: Rules, first: Pair, domains: &HashMap<String, Pair>) -> Result<Self, TlsError> {
        let mut contexts = HashMap::new();
        for (name, pair) in domains {
            contexts.insert(name.clone(), rules.builder(pair)?.build());
        }
        let domains = Arc::new(contexts);
        let current = Mutex::new((Instant::now(), rules.context(&first, &domains)?));
        Ok(Self { rules, first, domains, current })
    }

    fn context(&self) -> SslContext {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = self.rules.lifetime.is_some_and(|lifetime| current.0.elapsed() >= lifetime);
        // If the revocation list cannot be read at the moment, the earlier context remains.
        if is_over && let Ok(next) = self.rules.context(&self.first, &self.domains) {
            *current = (Instant::now(), next);
        }
        current.1.clone()
    }
}

impl Rules {
    /// Context that selects the one of the domain that the client names.
    fn context(
        &self,
        first: &Pair,
        domains: &Arc<HashMap<String, SslContext>>,
    ) -> Result<SslContext, TlsError> {
        let mut builder = self.builder(first)?;
        if !domains.is_empty() {
            let domains = Arc::clone(domains);
            builder.set_servername_callback(move |ssl, _alert| {
                let named = ssl.servername(NameType::HOST_NAME).map(str::to_ascii_lowercase);
                if let Some(context) = named.and_then(|name| domains.get(&name)) {
                    // Without it the first certificate is presented.
                    let _ = ssl.set_ssl_context(context);
                }
                Ok(())
            });
        }
        Ok(builder.build())
    }

    fn builder(&self, pair: &Pair) -> Result<SslContextBuilder, TlsError> {
        let mut builder = builder(&self.offer)?;
        pair.apply(&mut builder)?;
        self.set(&mut builder).map_err(failed)?;
        set_store(&mut builder, &self.authorities, self.crl.as_deref()).map_err(failed)?;
        Ok(builder)
    }

    fn set(&self, builder: &mut SslContextBuilder) -> Result<(), ErrorStack> {
        builder.set_session_id_context(b"ringway")?;
        if self.lifetime.is_some() {
            builder.set_session_cache_mode(SslSessionCacheMode::SERVER);
            builder.set_session_cache_size(SESSIONS_MAX);
            builder.set_num_tickets(TICKETS)?;
        } else {
            builder.set_session_cache_mode(SslSessionCacheMode::OFF);
            builder.set_options(SslOptions::NO_TICKET);
            builder.set_num_tickets(0)?;
        }
        let mode = match self.client_auth {
            ClientAuth::None => return Ok(()),
            ClientAuth::Optional => SslVerifyMode::PEER,
            ClientAuth::Required => SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT,
        };
        builder.set_verify_callback(mode, is_accepted);
        let mut names = Stack::<X509Name>::new()?;
        for authority in &self.authorities {
            names.push(authority.subject_name().to_owned()?)?;
        }
        builder.set_client_ca_list(names);
        Ok(())
    }
}

fn client_context(files: &TlsFiles, own: Option<&Pair>) -> Result<SslContext, TlsError> {
    let mut builder = builder(&files.offer)?;
    if let Some(own) = own {
        own.apply(&mut builder)?;
    }
    builder.set_session_cache_mode(SslSessionCacheMode::OFF);
    if files.verify_peer {
        let authorities = match &files.peer_ca {
            PeerCa::System => of_der(&native_certificates()?)?,
            PeerCa::File(path) => load_authorities("peer_ca", path)?,
        };
        set_store(&mut builder, &authorities, files.crl.as_deref()).map_err(failed)?;
    } else {
        builder.set_verify(SslVerifyMode::NONE);
    }
    Ok(builder.build())
}

/// Context with the versions and suites of the offer.
fn builder(offer: &Offer) -> Result<SslContextBuilder, TlsError> {
    let mut builder = SslContext::builder(SslMethod::tls()).map_err(failed)?;
    for suite in offer.suites() {
        // A list with another suite would be accepted without it.
        let is_known = SslContext::builder(SslMethod::tls())
            .and_then(|mut builder| set_suites(&mut builder, std::slice::from_ref(suite)));
        is_known.map_err(|_| TlsError::NoSuite(suite.openssl_name()))?;
    }
    set_offer(&mut builder, offer).map_err(failed)?;
    Ok(builder)
}

fn set_offer(builder: &mut SslContextBuilder, offer: &Offer) -> Result<(), ErrorStack> {
    builder.set_mode(SslMode::RELEASE_BUFFERS);
    builder.set_options(
        SslOptions::NO_COMPRESSION | SslOptions::NO_RENEGOTIATION | SslOptions::CIPHER_SERVER_PREFERENCE,
    );
    builder.set_min_proto_version(offer.versions().next().map(of_version))?;
    builder.set_max_proto_version(offer.versions().last().map(of_version))?;
    let is_safe = offer.suites().is_empty() && !offer.versions().any(TlsVersion::is_legacy);
    // Level 0 permits keys of 1024 bits, SHA-1 and suites without encryption.
    builder.set_security_level(if is_safe { 2 } else { 0 });
    match offer.suites() {
        [] if is_safe => builder.set_cipher_list("ECDHE+AESGCM:ECDHE+CHACHA20"),
        [] => builder.set_cipher_list("DEFAULT"),
        suites => set_suites(builder, suites),
    }
}

fn set_suites(builder: &mut SslContextBuilder, suites: &[Suite]) -> Result<(), ErrorStack> {
    let list = |of_1_3: bool| -> String {
        let names = suites.iter().filter(|suite| suite.is_of(TlsVersion::V1_3) == of_1_3);
        names.map(|suite| suite.openssl_name()).collect::<Vec<_>>().join(":")
    };
    let (earlier, latest) = (list(false), list(true));
    if !earlier.is_empty() {
        builder.set_cipher_list(&format!("{earlier}:@SECLEVEL=0"))?;
    }
    if !latest.is_empty() {
        builder.set_ciphersuites(&latest)?;
    }
    Ok(())
}

const fn of_version(version: TlsVersion) -> SslVersion {
    match version {
        TlsVersion::V1_0 => SslVersion::TLS1,
        TlsVersion::V1_1 => SslVersion::TLS1_1,
        TlsVersion::V1_2 => SslVersion::TLS1_2,
        TlsVersion::V1_3 => SslVersion::TLS1_3,
    }
}

/// Sets the authorities of peers, and the revocation lists. As with rustls, each authority of a file is trusted, not only
/// those at the top of a chain.
fn set_store(
    builder: &mut SslContextBuilder,
    authorities: &[X509],
    crl: Option<&Path>,
) -> Result<(), ErrorStack> {
    let store = builder.cert_store_mut();
    let mut flags = X509VerifyFlags::PARTIAL_CHAIN;
    for authority in authorities {
        store.add_cert(authority.clone())?;
    }
    if let Some(path) = crl {
        store.add_lookup(X509Lookup::file())?.load_crl_file(path, SslFiletype::PEM)?;
        flags |= X509VerifyFlags::CRL_CHECK | X509VerifyFlags::CRL_CHECK_ALL;
    }
    store.set_flags(flags)
}

/// Decides on one certificate of a chain. As with rustls, authorities without a revocation list are accepted, and lists are
/// used after the time of their next update.
fn is_accepted(is_valid: bool, chain: &mut X509StoreContextRef) -> bool {
    let is_about_list = matches!(chain.error().as_raw(), UNABLE_TO_GET_CRL | CRL_HAS_EXPIRED);
    if !is_valid && is_about_list {
        chain.set_error(X509VerifyResult::OK);
    }
    is_valid || is_about_list
}

/// Verifies the identity of a server, after its chain.
fn is_peer(chain: &mut X509StoreContextRef, name: &ServerName<'_>) -> bool {
    if chain.error_depth() > 0 {
        return true;
    }
    let der = chain.current_cert().and_then(|certificate| certificate.to_der().ok());
    let is_peer = der.is_some_and(|der| is_server(&CertificateDer::from(der), name));
    if !is_peer {
        chain.set_error(X509VerifyResult::APPLICATION_VERIFICATION);
    }
    is_peer
}

fn load_authorities(key: &'static str, path: &Path) -> Result<Vec<X509>, TlsError> {
    of_der(&load_certificates(key, path)?)
}

fn of_der(certificates: &[CertificateDer<'_>]) -> Result<Vec<X509>, TlsError> {
    certificates.iter().map(|der| X509::from_der(der).map_err(failed)).collect()
}

fn failed(why: ErrorStack) -> TlsError {
    TlsError::OpenSsl(why.to_string())
}

/// Errors of `openssl/x509_vfy.h`.
const UNABLE_TO_GET_CRL: i32 = 3;
const CRL_HAS_EXPIRED: i32 = 12;
/// Number of remembered sessions of clients without tickets.
const SESSIONS_MAX: i32 = 4096;
/// Number of tickets for each TLS 1.3 connection.
const TICKETS: usize = 2;

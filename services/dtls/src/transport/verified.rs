//! Verification of a dialled server's certificate (RFC 5922).

use super::{HostNames, name_of};
use ringway_sansio::{Flow, PeerNames};
use ringway_tls::TlsMaterial;
use rustls::pki_types::{CertificateDer, ServerName};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Check of one server's certificate, and its result.
pub(super) struct ServerCheck {
    material: TlsMaterial,
    name: ServerName<'static>,
    hosts: Arc<HostNames>,
    result: Mutex<CheckResult>,
}

enum CheckResult {
    Unchecked,
    Accepted(Accepted),
    Refused(String),
}

/// Certificate that was accepted.
struct Accepted {
    chain: Vec<CertificateDer<'static>>,
    names: Option<Arc<PeerNames>>,
}

impl ServerCheck {
    /// Check that the server is `name`.
    pub(super) fn new(material: TlsMaterial, name: ServerName<'static>, hosts: Arc<HostNames>) -> Self {
        Self { material, name, hosts, result: Mutex::new(CheckResult::Unchecked) }
    }

    /// Verifies a chain in DER, the server's own certificate first, and notes the result.
    pub(super) fn verify(&self, chain: &[Vec<u8>]) -> bool {
        let chain: Vec<_> = chain.iter().map(|der| CertificateDer::from(der.as_slice())).collect();
        let result = match self.material.verify_server(&chain, &self.name) {
            Ok(names) => {
                let chain = chain.into_iter().map(CertificateDer::into_owned).collect();
                CheckResult::Accepted(Accepted { chain, names: names.map(Arc::new) })
            }
            Err(why) => CheckResult::Refused(why),
        };
        let is_accepted = matches!(result, CheckResult::Accepted(_));
        *self.result() = result;
        is_accepted
    }

    pub(super) fn is_accepted(&self) -> bool {
        matches!(&*self.result(), CheckResult::Accepted(_))
    }

    /// Reason why the certificate was refused.
    pub(super) fn refusal(&self) -> Option<String> {
        match &*self.result() {
            CheckResult::Refused(why) => Some(why.clone()),
            CheckResult::Unchecked | CheckResult::Accepted(_) => None,
        }
    }

    pub(super) fn names(&self) -> Option<Arc<PeerNames>> {
        match &*self.result() {
            CheckResult::Accepted(accepted) => accepted.names.clone(),
            CheckResult::Unchecked | CheckResult::Refused(_) => None,
        }
    }

    /// Verifies that the accepted certificate is one of the flow's host too.
    pub(super) fn verify_also(&self, flow: &Flow) -> Result<(), String> {
        let name = name_of(&self.hosts, flow).ok_or_else(|| "the host has no name any more".to_owned())?;
        match &*self.result() {
            CheckResult::Accepted(accepted) => {
                self.material.verify_server(&accepted.chain, &name).map(|_| ())
            }
            CheckResult::Unchecked | CheckResult::Refused(_) => Err("it was not verified".to_owned()),
        }
    }

    fn result(&self) -> MutexGuard<'_, CheckResult> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

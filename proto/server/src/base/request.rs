//! Request in the pipeline, and response.

use crate::base::grant::Grant;
use crate::{CallName, Config, Payer};
use core::net::IpAddr;
use ringway_sansio::{Flow, PeerNames};
use ringway_sip::{Message, Method, Uri};
use ringway_transaction::MatchKey;

/// Request that is being handled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'m, 'a> {
    pub(crate) message: &'m Message<'a>,
    pub(crate) method: Method<'a>,
    /// Request-URI as received.
    pub(crate) uri: Uri<'a>,
    pub(crate) flow: Flow,
    /// Names in the certificate of the connection that the request came over. `None` also for a stored request, whose sender
    /// is in `grant`.
    pub(crate) peer: Option<&'m PeerNames>,
    /// Key of its transaction; `None` for a REGISTER that is not matched to transactions, and for a stored request.
    pub(crate) key: Option<MatchKey>,
    /// Permission of its sender: a stranger's until the access rules are applied.
    pub(crate) grant: Grant,
    /// Name of the call that it begins or ends, if calls are recorded.
    pub(crate) call: Option<&'m CallName>,
}

/// Response on its way to the client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Response<'r, 'a> {
    pub(crate) message: &'r Message<'a>,
    pub(crate) status: u16,
    /// Flow that it was received on.
    pub(crate) flow: &'r Flow,
    /// Flow of its request; `None` without a transaction.
    pub(crate) sent_to: Option<&'r Flow>,
}

impl Request<'_, '_> {
    /// Address that it came from, to this server for the first time.
    pub(crate) fn source(&self) -> IpAddr {
        self.grant.returned.unwrap_or(self.flow.remote.ip())
    }

    /// Address that limits count it for: that of its source, or of the phone behind a front.
    pub(crate) fn client(&self, config: &Config) -> IpAddr {
        self.grant.returned.unwrap_or_else(|| config.client_of(self.message, &self.flow))
    }

    /// Account of its memory: that of its source, or of its dialog if the mark is all that it proves.
    pub(crate) fn payer(&self, config: &Config) -> Payer {
        let is_believed = self.grant.sender.is_believed();
        match self.grant.dialog {
            Some(mark) if !is_believed && self.method == Method::Bye => Payer::End(mark),
            Some(mark) if !is_believed => Payer::Dialog(mark),
            Some(_) | None => Payer::of_source(self.client(config), !is_believed),
        }
    }

    /// True if the source is verified.
    pub(crate) const fn is_verified(&self) -> bool {
        self.flow.transport.has_connections() || self.grant.is_verified
    }
}

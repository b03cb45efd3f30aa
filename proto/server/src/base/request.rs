//! Request in the pipeline, response, and owners of transactions.

use crate::base::grant::Grant;
use crate::{CallName, Config, Payer};
use core::net::IpAddr;
use ringway_sansio::{Flow, PeerNames};
use ringway_sip::{Message, Method, Start, Uri};
use ringway_transaction::{MatchKey, SlabKey};

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
    /// Index of the trunk that sent it to the contact that it registered, whose token permits it.
    pub(crate) line: Option<usize>,
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

impl<'m, 'a> Request<'m, 'a> {
    /// A request that is not matched to a transaction; `None`: the message is a response.
    #[inline]
    pub(crate) fn of(message: &'m Message<'a>, flow: Flow, grant: Grant) -> Option<Self> {
        let Start::Request { method, uri } = *message.start() else { return None };
        Some(Self { message, method, uri, flow, peer: None, key: None, grant, line: None, call: None })
    }
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
        if let Some(account) = self.grant.above_limits {
            return Payer::Dialog(account);
        }
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

/// Transactions of a shard. Server transactions belong to contexts, client transactions to branches and probes.
pub(crate) type Transactions = ringway_transaction::Transactions<SlabKey, Owner>;

/// Owner of a client transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A forwarded request.
    Branch(BranchId),
    /// An OPTIONS to a neighbour.
    Probe(ProbeId),
    /// A NOTIFY of a subscription.
    Notify(SlabKey),
    /// A message that was kept, for the user with this mailbox.
    Message(SlabKey),
    /// A REGISTER of a trunk.
    Registration(RegistrationId),
}

/// Attempt of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegistrationId {
    /// Number of the registration, which a reload does not change.
    pub(crate) registration: u16,
    /// Number of the attempt.
    pub(crate) attempt: u32,
}

/// Probe of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProbeId {
    /// Number of the neighbour, which a reload does not change.
    pub(crate) neighbour: u16,
    /// Number of the attempt.
    pub(crate) attempt: u32,
}

/// Key of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BranchId {
    context: SlabKey,
    number: u32,
}

impl BranchId {
    pub(crate) fn new(context: SlabKey, number: usize) -> Self {
        Self { context, number: u32::try_from(number).unwrap_or(u32::MAX) }
    }

    /// Context, and index of the branch in it.
    pub(crate) const fn parts(self) -> (SlabKey, usize) {
        (self.context, self.number as usize)
    }

    pub(crate) const fn context(self) -> SlabKey {
        self.context
    }
}

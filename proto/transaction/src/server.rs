//! Stored state of a server transaction.

use crate::allowance::Allowance;
use crate::clock::Clock;
use crate::matching::MatchKey;
use crate::slab::SlabKey;
use crate::state::{ServerEvent, Step, invite_server, non_invite_server};
use alloc::vec::Vec;
use core::net::SocketAddr;
use ringway_sansio::Flow;

/// Key of a server transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerId(pub(crate) SlabKey);

#[derive(Debug)]
pub(crate) struct Server<S> {
    pub(crate) machine: Machine,
    /// Flow of the responses.
    pub(crate) reply: Flow,
    /// Address of the responses after the connection is closed (RFC 3261 §18.2.2).
    pub(crate) fallback: Option<SocketAddr>,
    pub(crate) owner: S,
    pub(crate) key: MatchKey,
    /// Remaining allowance; `None` for a verified address.
    pub(crate) allowance: Option<Allowance>,
    /// Last response, as long as it may be retransmitted.
    pub(crate) last: Vec<u8>,
    pub(crate) clock: Clock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    Invite(invite_server::State),
    NonInvite(non_invite_server::State),
}

impl Machine {
    pub(crate) const fn new(is_invite: bool) -> Self {
        if is_invite {
            Self::Invite(invite_server::State::Proceeding)
        } else {
            Self::NonInvite(non_invite_server::State::Trying)
        }
    }

    pub(crate) fn on(self, event: ServerEvent, reliable: bool) -> Step<Self> {
        match self {
            Self::Invite(state) => invite_server::on(state, event, reliable).map(Self::Invite),
            Self::NonInvite(state) => non_invite_server::on(state, event, reliable).map(Self::NonInvite),
        }
    }

    pub(crate) fn is_over(self) -> bool {
        match self {
            Self::Invite(state) => state == invite_server::State::Terminated,
            Self::NonInvite(state) => state == non_invite_server::State::Terminated,
        }
    }

    pub(crate) fn is_answered(self) -> bool {
        match self {
            Self::Invite(state) => state != invite_server::State::Proceeding,
            Self::NonInvite(state) => {
                !matches!(state, non_invite_server::State::Trying | non_invite_server::State::Proceeding)
            }
        }
    }
}

//! Events of the server that a log may show: borrowed and unformatted, so that an event nobody logs costs nothing.

use crate::auth::NonceAge;
use crate::server::Request;
use crate::{BindingChange, Server, Services};
use core::net::SocketAddr;
use ringway_sansio::{Flow, Instant};
use ringway_sip::digest::{Credentials, unescape};
use ringway_sip::{HeaderName, Method};

/// One event. All bytes came from the network, and may hold anything.
#[derive(Clone, Copy, Debug)]
pub enum LogEvent<'a> {
    /// Credentials that prove nothing.
    LoginRefused {
        /// The digest's `username`, escapes undone.
        user: &'a [u8],
        /// Where the request came from.
        address: SocketAddr,
        /// Why.
        reason: LoginRefusal,
    },
    /// A REGISTER changed the bindings of a user.
    Registered {
        /// `user@domain`.
        aor: &'a [u8],
        /// How.
        change: BindingChange,
        /// The REGISTER.
        message: &'a [u8],
        /// How it came.
        flow: Flow,
    },
    /// A binding ended by itself.
    BindingEnded {
        /// `user@domain`.
        aor: &'a [u8],
        /// Its contact URI.
        contact: &'a [u8],
        /// How its REGISTER came.
        flow: Flow,
        /// Why.
        reason: BindingEnd,
    },
    /// Something happened to a call.
    Call {
        /// What.
        step: CallStep,
        /// The request or response that it happened with.
        message: &'a [u8],
        /// Where that came from, or for [`CallStep::Forwarded`] goes to.
        flow: Option<Flow>,
    },
}

/// Why a login is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginRefusal {
    /// The user exists and the digest is not that of its password.
    WrongPassword,
    /// There is no such user.
    UnknownUser,
    /// The password is that of another user than the address is of.
    NotItsAddress,
    /// A digest that this server does not offer.
    Unusable,
    /// The password was not checked: there were too many wrong ones.
    Slowed,
}

/// Why a binding ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingEnd {
    /// It was not refreshed.
    Expired,
    /// The connection that it was registered over is gone.
    ConnectionClosed,
}

/// What happened to a call. A proxy without dialog state sees no more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStep {
    /// Its INVITE came and may be forwarded.
    Begun,
    /// Its INVITE was refused with this status before it was accepted.
    Refused(u16),
    /// Its INVITE was sent to a target.
    Forwarded,
    /// A target accepted it with this status.
    Answered(u16),
    /// The caller got this status.
    Failed(u16),
    /// The caller gave up.
    Cancelled,
    /// Nobody answered in time (timer C, RFC 3261 §16.8).
    TimedOut,
    /// One side sent a BYE.
    Bye,
}

impl LoginRefusal {
    /// As a log names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WrongPassword => "wrong-password",
            Self::UnknownUser => "unknown-user",
            Self::NotItsAddress => "not-its-address",
            Self::Unusable => "unusable-digest",
            Self::Slowed => "slowed",
        }
    }
}

impl<S: Services> Server<S> {
    pub(crate) fn observe_call(&self, now: Instant, request: &Request<'_, '_>, step: CallStep) {
        let (message, flow) = (request.message.as_bytes(), Some(request.flow));
        self.services.observe(now, &LogEvent::Call { step, message, flow });
    }

    /// Reports the credentials for our realm in `header`, which have no digest that this server offers. Without a fresh nonce for
    /// its source a request is no login: the address may be forged.
    pub(crate) fn observe_unusable_digest(
        &self,
        now: Instant,
        request: &Request<'_, '_>,
        header: HeaderName,
        domain: &[u8],
    ) {
        for value in request.message.lines_of(header) {
            let Ok(Some(given)) = Credentials::parse(value) else { continue };
            if unescape(given.realm).as_ref() != self.config.auth.realm.as_bytes() {
                continue;
            }
            let nonce = self.nonces.check(now, request.flow.remote.ip(), given.nonce);
            if !matches!(nonce, NonceAge::Fresh(_)) {
                continue;
            }
            let user = unescape(given.username);
            let reason = match self.services.is_known(&user, domain) {
                true => LoginRefusal::Unusable,
                false => LoginRefusal::UnknownUser,
            };
            return self.refused_login(now, request, &user, reason);
        }
    }

    pub(crate) fn refused_login(
        &self,
        now: Instant,
        request: &Request<'_, '_>,
        user: &[u8],
        reason: LoginRefusal,
    ) {
        let address = request.flow.remote;
        self.services.observe(now, &LogEvent::LoginRefused { user, address, reason });
    }

    /// Reports an INVITE or BYE that was accepted.
    pub(crate) fn observe_accepted(&self, now: Instant, request: &Request<'_, '_>) {
        match request.method {
            Method::Invite if request.message.to().tag().is_none() => {
                self.observe_call(now, request, CallStep::Begun)
            }
            Method::Bye => self.observe_call(now, request, CallStep::Bye),
            _ => {}
        }
    }
}

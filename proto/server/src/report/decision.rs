//! Decisions of the server, each with its reason, for a trace; reasons of diversions.
#![allow(rustdoc::broken_intra_doc_links, reason = "sentences name sections of the configuration, as [auth]")]

use core::fmt::{self, Write};
use ringway_sansio::Flow;
use ringway_users::Condition;

macro_rules! reasons {
    ($($reason:ident $name:literal $sentence:literal,)*) => {
        /// Reason of a decision.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Reason {
            $(#[doc = $sentence] $reason,)*
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &[Self] = &[$(Self::$reason,)*];

            /// Name for programs.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$reason => $name,)* }
            }

            /// Sentence for people.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$reason => $sentence,)* }
            }
        }
    };
}

reasons! {
    // Before the request is understood.
    SourceBlocked "source-blocked" "dropped: the block list has its source address",
    OverRate "over-rate" "refused: its source sends more than [limits] per_source_rate",
    Overload "overload" "refused: requests wait longer than [overload] target_delay_ms",
    Withheld "withheld" "not sent: its server asks for fewer requests",
    Malformed "malformed" "refused: it is malformed",
    Absorbed "retransmission" "absorbed: it is a retransmission",
    Draining "draining" "refused: the server drains; the phone is to use another one",
    Stopping "stopping" "refused: the server is stopping or starting",
    // Login.
    NoCredentials "no-credentials" "challenged: no credentials",
    StaleNonce "stale-nonce" "challenged: its nonce is too old or was used before",
    WrongPassword "wrong-password" "challenged again: the password of the user is wrong",
    UnknownUser "unknown-user" "challenged again: there is no such user",
    UnusableDigest "unusable-digest" "challenged again: its digest cannot be verified",
    LoginSlowed "slowed" "refused: after too many wrong passwords none is checked for some seconds",
    NotItsAddress "not-its-address" "refused: the password is that of another user",
    LoginAccepted "login-accepted" "login accepted",
    // Permission to be forwarded.
    AdmittedUser "admitted-user" "admitted: a user of this server",
    AdmittedTrusted "admitted-trusted" "admitted: its address is in [auth] trusted, is that of a trunk, or is this server's",
    AdmittedUnchecked "admitted-unchecked" "admitted: [auth] enabled is false",
    AdmittedInDialog "admitted-in-dialog" "admitted: it is part of a call that was accepted",
    AdmittedStranger "admitted-stranger" "admitted: [auth] strangers lets anyone call users of this server",
    AdmittedEmergency "admitted-emergency-network" "admitted: [emergency] strangers has the network of its emergency call",
    AdmittedLine "admitted-line" "admitted: a trunk sent it to the contact that it registered",
    CallerBlocked "caller-blocked" "refused: the block list has its caller",
    IdentityAsked "identity-asked" "waits for the certificate of who has signed the identity of its caller",
    IdentityVerified "identity-verified" "the signature of the identity of its caller is valid",
    IdentityNotVerified "identity-not-verified" "the identity of its caller is not valid, or was not verified",
    Dropped "dropped" "dropped: it is an ACK of nothing that this server forwarded",
    // Registrar.
    BindingAdded "binding-added" "binding added",
    BindingRefreshed "binding-refreshed" "binding refreshed",
    BindingRemoved "binding-removed" "binding removed",
    BindingsListed "bindings-listed" "bindings listed: it has no Contact",
    BindingsUnchanged "bindings-unchanged" "bindings unchanged",
    TooBrief "too-brief" "refused: it asks for less than [registrar] min_expires_s",
    NoOutbound "no-outbound" "refused: the proxy before it does not support outbound",
    PathRefused "path-refused" "refused: its Path does not count",
    StoreFailed "store-failed" "refused: the registration cannot be stored",
    NameTaken "name-taken" "refused: another server has the name of this node",
    // Target set.
    ToPhones "to-phones" "calls the phones of the user",
    ToDialogSide "to-dialog-side" "goes to the other side of its call",
    ToFlow "to-flow" "goes over the flow of a phone of another registrar",
    ToOther "to-other-domain" "goes to another host",
    RoutedToTrunk "routed-to-trunk" "has a route to a trunk",
    ToNode "to-node" "goes to a node behind this server",
    OfTrunk "of-trunk" "is for the contact that a trunk registered",
    RoutedToUser "routed-to-user" "has a route to a user",
    ForwardAlways "forward-always" "forwarded: the user forwards all calls",
    ForwardBusy "forward-busy" "forwarded: the user is busy",
    ForwardNoAnswer "forward-no-answer" "forwarded: the user does not answer",
    ForwardUnregistered "forward-unregistered" "forwarded: the user has no phone that can be reached",
    Redirected "redirected" "a phone names another target",
    RedirectServer "redirect-server" "answered with the addresses of the user: [routing] mode is redirect",
    NumberLookup "number-lookup" "looks up the number by ENUM",
    NumberFound "number-found" "the number has a URI",
    NumberUnknown "number-unknown" "the number has no URI that may be called",
    Resolving "resolving" "looks up the servers of a host",
    Resolved "resolved" "found servers",
    NotResolved "not-resolved" "found no server that can be reached",
    // Branches.
    Forwarded "forwarded" "sent to a next hop",
    NotSent "not-sent" "not sent: the next hop cannot be reached",
    LongOverTcp "long-over-tcp" "goes over TCP: it is longer than [routing] datagram_bytes_max",
    NoTcp "no-tcp" "sends the long request in a datagram: nothing leads there by TCP",
    NextServer "next-server" "tries the next server of the host",
    NextFlow "next-flow" "tries the next flow of the phone",
    NextGroup "next-group" "tries the next phones or trunk",
    GroupTimeout "group-timeout" "gives up these phones or this trunk: no answer in time",
    HopTimeout "hop-timeout" "the next hop did not answer in time",
    HopUnreachable "hop-unreachable" "the next hop cannot be reached",
    TimerC "timer-c" "ended: no final response in time (timer C)",
    Cancelled "cancelled" "ended: the caller cancelled it",
    CancelUnknown "cancel-unknown" "refused: it cancels no request that waits for an answer",
    BestResponse "best-response" "answered with the best response of all targets",
    // Trunks.
    TrunksDown "trunks-down" "refused: every trunk of the route is down",
    IdentitySigned "identity-signed" "signs the identity of its caller for the trunk",
    IdentityNotSigned "identity-not-signed" "not signed: the caller or the called number is none of E.164",
    TrunkFull "trunk-full" "not sent: the trunk has as many calls as it may have",
    TrunkSendsTooMany "trunk-sends-too-many" "refused: the trunk that sent it has as many calls as it may begin",
    UserFull "user-full" "refused: the user has as many calls as it may begin",
    DomainFull "domain-full" "refused: the users of the domain have as many calls as they may begin",
    Emergency "emergency" "is an emergency call, which no limit refuses",
    DestinationDenied "destination-denied" "refused: a destination rule forbids the number",
    DestinationRate "destination-rate" "refused: the user made too many calls to such numbers",
    TrunkBypassed "trunk-bypassed" "refused: a trunk is reached by its routes only",
    InnerHost "inner-host" "refused: the next hop is in no network of [routing] inner_networks",
    TrunkLogin "trunk-login" "sends the trunk its credentials",
    TrunkLoginRefused "trunk-login-refused" "the trunk refused the credentials, or there are none",
    // Media relays.
    RelayAsked "relay-asked" "asks a media relay",
    RelayChosen "relay-chosen" "a media relay has the call",
    RelayFailed "relay-failed" "no media relay has the call",
    Converted "converted" "sent again with media in another form",
    // Messages for absent users.
    MessageKept "message-kept" "kept until the user has a phone: answered with 202",
    MessageNotKept "message-not-kept" "not kept for the user, who has no phone that can be reached",
    MessageSent "message-sent" "the kept message is sent to a phone of the user",
    MessageDelivered "message-delivered" "the phone took the kept message",
    MessageNotTaken "message-not-taken" "the phone did not take the kept message",
    // Locally generated responses.
    NoSuchUser "no-such-user" "refused: there is no such user, number or route",
    NotRegistered "not-registered" "refused: the user has no phone that can be reached",
    Forbidden "forbidden" "refused: it is not permitted",
    TooManyHops "too-many-hops" "refused: it has passed too many hops",
    Loop "loop" "refused: it has passed this server before",
    TooBroad "too-broad" "refused: it would have more targets than its Max-Breadth",
    FlowGone "flow-gone" "refused: the flow to the phone is gone",
    BadExtension "bad-extension" "refused: it requires an extension that is not supported",
    OverLimit "over-limit" "refused: a limit of this server is reached",
    NoResponse "no-response" "not answered: its client has given up",
    Refused "refused" "refused",
}

/// Subject of a decision. All bytes come from the network and can have any value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail<'a> {
    /// Nothing more than its reason.
    None,
    /// A URI, a name, or a phrase.
    Text(&'a [u8]),
    /// Two of them.
    Both(&'a [u8], &'a [u8]),
    /// A binding: its URI, and seconds until it ends.
    Binding(&'a [u8], u64),
    /// A number of things.
    Count(usize),
    /// Seconds.
    Seconds(u64),
    /// Status of a response, and its phrase.
    Status(u16, &'a str),
    /// Next hop.
    Flow(Flow),
}

/// Decision of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// Its reason.
    pub reason: Reason,
    /// Its subject.
    pub detail: Detail<'a>,
}

impl fmt::Display for Decision<'_> {
    /// Writes the sentence, and the detail in parentheses. Bytes other than visible ASCII and spaces are written as `\xNN`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason.sentence())?;
        match self.detail {
            Detail::None => Ok(()),
            Detail::Text(text) => write!(f, " ({})", Shown(text)),
            Detail::Both(first, second) => write!(f, " ({}: {})", Shown(first), Shown(second)),
            Detail::Binding(uri, seconds) => write!(f, " ({}, expires in {seconds} s)", Shown(uri)),
            Detail::Count(count) => write!(f, " ({count})"),
            Detail::Seconds(seconds) => write!(f, " ({seconds} s)"),
            Detail::Status(status, "") => write!(f, " ({status})"),
            Detail::Status(status, phrase) => write!(f, " ({status} {phrase})"),
            Detail::Flow(flow) => write!(f, " ({}:{})", flow.transport, flow.remote),
        }
    }
}

/// Bytes of the network for people.
struct Shown<'a>(&'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0.iter().take(SHOWN_BYTES_MAX) {
            match byte {
                b'\\' => f.write_str("\\x5c")?,
                b' '..=b'~' => f.write_char(char::from(byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        if self.0.len() > SHOWN_BYTES_MAX { f.write_str("...") } else { Ok(()) }
    }
}

/// Maximum number of bytes of a detail that are shown.
const SHOWN_BYTES_MAX: usize = 128;

/// Reason why a call goes to another target than the called user's phones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiversionReason {
    /// A forward of the called user.
    Forward(Condition),
    /// A 3xx of a phone of the called user.
    Redirect,
}

impl DiversionReason {
    /// Reason in Diversion (RFC 5806 §4), also the name in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward(Condition::Always) => "unconditional",
            Self::Forward(Condition::Busy) => "user-busy",
            Self::Forward(Condition::NoAnswer) => "no-answer",
            Self::Forward(Condition::Unregistered) => "unavailable",
            Self::Redirect => "deflection",
        }
    }

    /// Parameter `cause` of the new target (RFC 4458 §2.2).
    pub(crate) const fn cause(self) -> &'static [u8] {
        match self {
            Self::Forward(Condition::Always) => b"302",
            Self::Forward(Condition::Busy) => b"486",
            Self::Forward(Condition::NoAnswer) => b"408",
            Self::Forward(Condition::Unregistered) => b"404",
            Self::Redirect => b"480",
        }
    }

    /// Status code for Reason of the earlier target (RFC 7044 §10.2); `None` if it was not called.
    pub(crate) const fn response(self) -> Option<&'static [u8]> {
        match self {
            Self::Forward(Condition::Always | Condition::Unregistered) => None,
            Self::Forward(Condition::Busy) => Some(b"486"),
            Self::Forward(Condition::NoAnswer) => Some(b"408"),
            Self::Redirect => Some(b"302"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_are_unique_and_sentences_are_short() {
        for (number, reason) in Reason::ALL.iter().enumerate() {
            let earlier = Reason::ALL.get(..number).unwrap_or_default();
            assert!(earlier.iter().all(|other| other.name() != reason.name()), "{}", reason.name());
            assert!(reason.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'));
            assert!(reason.sentence().len() < 100 && !reason.sentence().ends_with('.'), "{reason:?}");
        }
    }

    #[test]
    fn a_detail_of_a_stranger_has_no_control_bytes_and_an_end() {
        let shown = |detail| Decision { reason: Reason::Refused, detail }.to_string();
        assert_eq!(shown(Detail::Text(b"a\x1b[31m\r\n\\")), "refused (a\\x1b[31m\\x0d\\x0a\\x5c)");
        assert_eq!(shown(Detail::Status(403, "Forbidden")), "refused (403 Forbidden)");
        assert!(shown(Detail::Text(&[b'x'; 5000])).len() < 200);
    }
}

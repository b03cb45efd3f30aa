//! What a user agent counts.

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Everything counted; values only grow.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// Tells each counter: its name, what it means, its value.
            pub fn for_each(&self, mut tell: impl FnMut(&'static str, &'static str, u64)) {
                $(tell(stringify!($name), concat!($($doc, " ",)+).trim(), self.$name);)+
            }
        }
    };
}

counters! {
    /// Requests received, repetitions included.
    requests,
    /// Responses received.
    responses,
    /// Messages that could not be read.
    unreadable,
    /// Keep-alives received.
    keep_alives,
    /// Requests answered with a failure.
    refused,
    /// Calls refused because there are as many as allowed (486).
    too_many_calls,
    /// Answers ignored because an INVITE made as many dialogs as allowed.
    too_many_early_dialogs,
    /// Requests not sent because as many wait as allowed.
    too_many_requests,
    /// Bodies over the limit (513).
    body_too_large,
    /// Route sets over the limit.
    too_many_routes,
    /// Requests there was no transaction for (503).
    overflow,
    /// Requests out of order in their dialog, or before its last one is through (500).
    out_of_order,
    /// Requests for dialogs that do not exist (481).
    no_dialog,
    /// Requests that came by two ways (482).
    merged,
    /// Session descriptions that were refused (400, 488).
    sessions_refused,
    /// Challenges answered with credentials.
    challenges_answered,
    /// Challenges not answered: of another realm, from elsewhere, inside a dialog, or once too often.
    challenges_ignored,
    /// Challenges of called phones answered with their own credentials.
    peer_challenges_answered,
    /// INVITEs answered with 401 because callers must prove a password.
    callers_challenged,
    /// INVITEs that proved a password.
    callers_proven,
    /// Wrong passwords in INVITEs, and unknown users.
    caller_passwords_wrong,
    /// INVITEs whose password was not checked because too many were wrong (503).
    callers_slowed,
    /// Accepted calls whose ACK never came.
    acks_missed,
    /// Answers and ACKs that belong to nothing.
    stray,
    /// Second and further dialogs of a forked call, ended at once.
    forks_ended,
    /// Calls made again as RTP/SAVP because RTP/AVP with keys was refused (406, 488, 606).
    srtp_insisted,
    /// Requests over 1,300 bytes sent by TCP.
    switched_to_tcp,
    /// Names that could not be looked up.
    names_not_found,
    /// Resolved names forgotten before their time because there were as many as are kept.
    names_displaced,
    /// Connections forgotten because there were as many as are kept: requests by them are not failed when they end.
    connections_displaced,
    /// Redirections with more contacts than are read.
    too_many_contacts,
}

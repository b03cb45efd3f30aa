//! What a server counts.

use ringway_sip::Reason;

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Everything one shard counted; values only grow.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)+
            /// Messages that could not be accepted, by [`Reason::index`].
            pub rejected: [u64; Reason::COUNT],
        }

        impl Counters {
            /// Tells each counter: its name, what it means, its value.
            pub fn for_each(&self, mut tell: impl FnMut(&'static str, &'static str, u64)) {
                $(tell(stringify!($name), concat!($($doc, " ",)+).trim(), self.$name);)+
                for ((name, meaning), value) in REJECTED.iter().zip(self.rejected) {
                    tell(name, meaning, value);
                }
            }
        }
    };
}

counters! {
    /// Requests received, repetitions included.
    requests,
    /// Responses received.
    responses,
    /// Requests over a source's rate, not looked at.
    over_rate,
    /// REGISTER requests that changed bindings.
    registered,
    /// Requests answered with a challenge.
    challenged,
    /// Passwords proven.
    authenticated,
    /// Passwords that were wrong, or of users that do not exist.
    wrong_passwords,
    /// Passwords not checked because too many of this user or from this source were wrong (503).
    slowed_logins,
    /// Passwords proven for the server's own URI instead of the Request-URI, which SIPp does.
    digest_uri_server,
    /// Credentials refused because they were for another Request-URI (400).
    digest_uri_other,
    /// Requests refused because the user may not do this (403).
    forbidden,
    /// Requests of callers without a password that the policy for strangers does not let through.
    strangers_refused,
    /// Responses without a transaction that were not sent because they were over the allowance of an unverified address.
    unverified_limited,
    /// Requests forwarded, each branch counted.
    forwarded,
    /// Requests answered with where the user is (302).
    redirected,
    /// Requests for users that do not exist (404).
    not_found,
    /// Requests for users that are not there (480).
    not_registered,
    /// Requests answered by this server with any other failure.
    refused,
    /// Requests whose hops were used up, or that came back to this server too often (483).
    too_many_hops,
    /// Requests with more targets than their Max-Breadth (440).
    too_broad,
    /// Requests that came back unchanged (482).
    loops,
    /// REGISTER requests refused because the store failed.
    store_refusals,
    /// REGISTER requests refused because the store keeps no record so long.
    registration_too_large,
    /// Contacts refused because a user has as many as allowed.
    too_many_contacts,
    /// INVITEs cancelled because nobody answered in time.
    timer_c,
    /// Requests refused because their source, or all sources together, keep as much memory as they may.
    over_memory,
    /// Requests refused because too many of strangers wait for the same user.
    over_user_requests,
    /// Requests that could not be given a transaction or a way.
    overflow,
    /// Responses and ACKs that belong to nothing and were dropped.
    stray,
    /// Responses that did not come from where their request went, and were dropped.
    responses_from_elsewhere,
    /// Responses to a forwarded request without a Via below ours; a final one counts as a failed branch (502).
    without_next_via,
}

const REJECTED: [(&str, &str); Reason::COUNT] = [
    ("rejected_start_line", "Messages without a readable first line."),
    ("rejected_version", "Messages of another SIP version."),
    ("rejected_header_line", "Messages with a line that is no header field."),
    ("rejected_missing", "Messages without a mandatory header field."),
    ("rejected_repeated", "Messages with a header field twice that may stand once."),
    ("rejected_header", "Messages with a malformed header value."),
    ("rejected_request_uri", "Requests with a malformed Request-URI."),
    ("rejected_cseq_method", "Requests whose CSeq names another method."),
    ("rejected_content_length", "Messages with an unusable Content-Length."),
    ("rejected_too_large", "Messages over the size limit."),
    ("rejected_too_many_headers", "Messages with more header fields than allowed."),
    ("rejected_uri_too_long", "Requests with a Request-URI over the limit."),
];

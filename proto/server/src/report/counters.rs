//! Counters of the server.

use ringway_sansio::Outbox;
use ringway_sip::{Method, Reason};

ringway_sansio::counters! {
    /// Counters of one shard; values only increase.
    pub struct Counters {
        /// Requests received, retransmissions included.
        requests,
        /// Responses received.
        responses,
        /// REGISTER requests that could be read.
        requests_register,
        /// INVITE requests that could be read.
        requests_invite,
        /// ACK requests that could be read.
        requests_ack,
        /// BYE requests that could be read.
        requests_bye,
        /// CANCEL requests that could be read.
        requests_cancel,
        /// OPTIONS requests that could be read.
        requests_options,
        /// MESSAGE requests that could be read.
        requests_message,
        /// SUBSCRIBE, NOTIFY and PUBLISH requests that could be read.
        requests_events,
        /// Requests of other methods that could be read.
        requests_other,
        /// Provisional responses sent, retransmissions and forwarded ones included.
        sent_1xx,
        /// Successful responses sent, retransmissions and forwarded ones included.
        sent_2xx,
        /// Redirections sent, retransmissions and forwarded ones included.
        sent_3xx,
        /// Responses sent that refuse a request, retransmissions and forwarded ones included.
        sent_4xx,
        /// Responses sent that a server failed, retransmissions and forwarded ones included.
        sent_5xx,
        /// Responses sent that no server can fulfil the request, retransmissions and forwarded ones included.
        sent_6xx,
        /// Requests over a source's rate, not parsed.
        over_rate,
        /// Requests refused (503) because requests waited too long.
        overload_refused,
        /// Requests dropped because requests waited much too long.
        overload_dropped,
        /// Requests not sent because their server asked for fewer (503).
        requests_withheld,
        /// Servers that asked for fewer requests and get as many as before, because too many asked.
        controls_refused,
        /// Requests of blocked networks, not parsed.
        blocked_sources,
        /// Requests of blocked callers, and of networks that their callee blocks (403).
        blocked_callers,
        /// STUN requests answered.
        stun_answered,
        /// Datagrams that begin as STUN messages, dropped: no Binding request, or malformed.
        stun_dropped,
        /// REGISTER requests that changed bindings.
        registered,
        /// Requests answered with a challenge.
        challenged,
        /// Passwords proven.
        authenticated,
        /// Passwords proven by phones whose user name in the digest is `user@domain`.
        full_usernames,
        /// Users proven by the certificates of their connections.
        certified,
        /// Passwords that were wrong, or of users that do not exist.
        wrong_passwords,
        /// Passwords not checked because too many of this user or from this source were wrong (503).
        slowed_logins,
        /// Passwords proven for the server's own URI instead of the Request-URI, which SIPp does.
        digest_uri_server,
        /// Passwords proven for a URI that differs from the Request-URI in a port or in parameters.
        digest_uri_alike,
        /// Credentials refused because they were for another Request-URI (400).
        digest_uri_other,
        /// INVITEs with a password taken for replays, because their calls are over.
        invites_replayed,
        /// INVITEs whose calls are over forgotten early, because there were too many of them.
        ended_invites_evicted,
        /// Digests with a fresh nonce in a form that is not accepted: no qop, another algorithm, another opaque.
        unusable_digests,
        /// Unusable digests refused because too many of this user from this source came before (403).
        unusable_refused,
        /// Requests inside dialogs challenged because they came from another address than their side has.
        moved_challenged,
        /// The same of senders outside our domains, refused (403).
        moved_refused,
        /// Requests whose Request-URI, From or To has a dot at the end of its domain.
        root_dots,
        /// Requests for a GRUU that is written in other capitals than the phone's.
        gruu_capitals,
        /// Requests refused because the user may not do this (403).
        forbidden,
        /// Requests of callers without a password that the policy for strangers does not let through.
        strangers_refused,
        /// ACK, BYE and CANCEL of admitted calls that passed although their source was over its rate.
        over_rate_ends,
        /// Requests of callers without a password inside their calls that a call does not need, such as REFER (403).
        strangers_methods_refused,
        /// Responses without a transaction that were not sent because they were over the allowance of an unverified address.
        unverified_limited,
        /// Requests forwarded, each branch counted.
        forwarded,
        /// Branches sent to another server of their host after the first one failed (RFC 3263 §4.3).
        failovers,
        /// Requests that were too long for a datagram, and sent over TCP.
        long_over_tcp,
        /// Requests of that length that were sent in a datagram: over a flow, without a TCP listener, or as no connection was established.
        long_in_datagrams,
        /// Groups of targets whose time passed without a final response, so that those of lower preference were called.
        serial_forks,
        /// Calls forwarded because their user forwards every call.
        calls_forwarded_always,
        /// Calls forwarded because their user was busy.
        calls_forwarded_busy,
        /// Calls forwarded because nobody answered in time.
        calls_forwarded_no_answer,
        /// Calls forwarded because their user had no phone that could be reached.
        calls_forwarded_unregistered,
        /// Calls not forwarded because they had been diverted too often.
        forward_loops,
        /// Calls not forwarded, and contacts of 3xx not called, because too many calls of their user leave our domains.
        over_user_forwards,
        /// Contacts of 3xx responses that were called.
        recursions,
        /// Contacts of 3xx responses that were not called: not permitted, called before, or over a limit.
        recursions_refused,
        /// Telephone numbers looked up by ENUM.
        number_lookups,
        /// Telephone numbers whose record was called.
        numbers_found,
        /// URIs of records of numbers that were not called: no SIP URI, a trunk's or a private address, or one with a route.
        number_uris_refused,
        /// Requests sent to a trunk, each trunk counted.
        trunk_requests,
        /// Calls to trunks sent with a signed identity of the caller.
        identities_signed,
        /// Calls to trunks that get signed ones sent without, because the caller's or the called number is none of E.164.
        identities_not_signed,
        /// Calls of trunks whose identity has a valid signature.
        identities_verified,
        /// Calls of trunks whose identity is not valid.
        identities_invalid,
        /// Calls of trunks without an identity, or whose certificate could not be fetched.
        identities_missing,
        /// Calls of trunks whose identity was not verified because of the limit of verifications in a second, or of memory.
        identities_over_rate,
        /// Requests sent to the next trunk of their route after one failed.
        trunk_failovers,
        /// Calls that a trunk did not get because it has as many as it may have.
        trunk_calls_refused,
        /// Changes of header fields by rules of a trunk that were not made, because a value or a message would be too long, or for other limits.
        header_changes_skipped,
        /// Calls from a trunk refused because it has as many as it may have (503).
        trunk_calls_in_refused,
        /// Calls of users refused because the user has as many as it may begin (403, 503).
        user_calls_refused,
        /// Calls of users refused because those of their domain have as many as they may begin (403, 503).
        domain_calls_refused,
        /// Calls of users that were not counted, and so not limited, because too many are under way.
        calls_uncounted,
        /// Emergency calls.
        emergency_calls,
        /// Emergency calls refused because their source began too many in a second (503).
        emergency_calls_refused,
        /// INVITEs of emergency calls that passed although their source was over its rate.
        over_rate_emergencies,
        /// INVITEs of emergency calls above the rate of their source, or of all, at which they pass other limits.
        emergencies_over_rate,
        /// Requests for a trunk that must not see the inside, refused because they have too much to be hidden (513).
        topology_too_long,
        /// Requests refused because all trunks of their route are down (503).
        trunks_down,
        /// Requests refused because they would reach a trunk without a route, and so past the destination rules (403).
        trunk_bypasses,
        /// Requests refused because they, a redirection or a forward named an inner host (403).
        inner_hosts_refused,
        /// Challenges of trunks answered with credentials.
        trunk_challenges,
        /// Challenges of trunks without credentials for them, or whose credentials were refused.
        trunk_auth_failures,
        /// Challenged INVITEs in dialogs at trunks whose number was forgotten before their ACK, because there were too many.
        trunk_invites_forgotten,
        /// Requests in dialogs with trunks refused because of their To tag or Request-URI (481, 403).
        trunk_targets_refused,
        /// Registrations at trunks, refreshes included.
        trunk_registrations,
        /// Attempts to register at a trunk that failed.
        trunk_registration_failures,
        /// Attempts to register at a trunk that `limits.registrations_per_s_max` delayed by more than a second.
        trunk_registrations_delayed,
        /// Service-Route values of carriers that were not used: too many, too long, without `lr`, or this server's.
        trunk_service_routes_refused,
        /// Requests for the contact that a trunk registered.
        trunk_line_calls,
        /// Sides of dialogs that moved: another Contact, connection or port.
        sides_moved,
        /// Moves and phones that were not noted, and flows that phones left which were forgotten, because the table, or the share of one user, is
        /// full.
        sides_overflow,
        /// Target refreshes that did not extend the life of their dialog, because the table, or the share of one user, is full.
        extensions_overflow,
        /// Requests in dialogs for which a binding of the user of the other side was looked up.
        sides_looked_up,
        /// Requests refused because a destination rule forbids the number (403).
        destination_refusals,
        /// Requests refused because the user made too many calls to numbers of a destination rule (403).
        destination_rates,
        /// Requests refused because too many users and destination rules are counted (403).
        destination_overflow,
        /// Requests not forwarded because their neighbour is down (480).
        neighbour_down,
        /// Requests not forwarded because too many calls to neighbours have a connection of their own (500).
        neighbour_calls_refused,
        /// Connections of calls to neighbours that were closed because the call sent nothing for too long.
        neighbour_calls_idle,
        /// Connections that neighbours opened, and that were taken for requests to them (RFC 5923).
        neighbour_aliases,
        /// Health checks sent a second late or more, because there are too many for the rate of all.
        health_checks_delayed,
        /// Requests answered with the user's contacts (302).
        redirected,
        /// Requests for users that do not exist (404).
        not_found,
        /// Requests for users without a binding (480).
        not_registered,
        /// Requests answered by this server with any other failure.
        refused,
        /// Requests with Max-Forwards 0, or that came back to this server too often (483).
        too_many_hops,
        /// Requests with more targets than their Max-Breadth (440).
        too_broad,
        /// Requests that came back unchanged (482).
        loops,
        /// REGISTER requests refused because the store failed.
        store_refusals,
        /// REGISTER requests refused because the server drains and the time of their user has come.
        drained_registers,
        /// REGISTER requests refused because another server has the name of this node.
        name_taken_registers,
        /// REGISTER requests refused because the record is too long for the store.
        registration_too_large,
        /// Contacts refused because a user has as many as allowed.
        too_many_contacts,
        /// Contacts refused because their instance has as many flows as allowed.
        too_many_flows,
        /// REGISTER requests refused because of their Path (400, 420).
        path_refused,
        /// REGISTER requests refused because a proxy before this server does not keep the flow (439).
        first_hop_lacks_outbound,
        /// Requests refused because the flow in their Route is gone (430).
        flows_gone,
        /// Branches sent over another flow of their phone after the first one failed (RFC 5626 §7).
        flow_failovers,
        /// Bindings of other nodes that were passed over: of a later version, or of more nodes than there may be.
        shared_entries_passed_over,
        /// Forwarded requests that went over the link to another node.
        forwarded_to_nodes,
        /// Read-throughs to the store that nodes share.
        locates,
        /// Read-throughs without an answer in time.
        locates_unanswered,
        /// Read-throughs that were not made because of the rate of their source.
        locates_too_often,
        /// Read-throughs that were not made because too many were under way.
        locates_too_many,
        /// Read-throughs that were not made because the user had no bindings a second ago.
        locates_remembered,
        /// Records held for a minute at most, because this node holds as many users as it may.
        held_briefly,
        /// INVITEs cancelled without a final response in time.
        timer_c,
        /// Requests refused because their source, or all sources together, reached their memory limit.
        over_memory,
        /// Requests refused because too many strangers' requests for the same user are pending.
        over_user_requests,
        /// Branches and later requests whose media are relayed.
        media_relayed,
        /// Branches sent again with an offer converted between SRTP and RTP, because their target refused the first one.
        media_converted,
        /// Requests and responses without the relay that they need: it did not answer, refused, or the SDP was too long.
        media_failed,
        /// Requests to media relays that were not sent because too many were waiting, or their responses too large.
        media_overflow,
        /// INVITEs without an offer, whose media are not relayed.
        media_without_offer,
        /// Subscriptions that began.
        subscriptions,
        /// SUBSCRIBE requests refused because of a limit of subscriptions.
        subscriptions_refused,
        /// SUBSCRIBE requests of senders who may not see this state of the user (403).
        watchers_refused,
        /// Calls of watched users that are followed for their lamps, each user of a call counted.
        lamps_lit,
        /// Calls of watched users that are not shown, or not any more, because a limit of the shown calls is reached.
        lamps_refused,
        /// Calls left out of a document, because it would be too long.
        lamps_left_out,
        /// NOTIFY requests sent.
        notifies,
        /// Times that a NOTIFY waited because of the rate of all.
        notifies_delayed,
        /// NOTIFY requests without a 2xx.
        notify_failures,
        /// Publications that began, or were replaced or refreshed.
        publications,
        /// Publications refused because of a limit.
        publications_refused,
        /// Messages kept for users without a phone (202).
        messages_kept,
        /// Messages not kept because of a limit (480, 413).
        messages_refused,
        /// Kept messages that a phone took.
        messages_delivered,
        /// Kept messages removed because the phone refused them for good, or after too many attempts.
        messages_rejected,
        /// Kept messages removed because their time has passed.
        messages_expired,
        /// Attempts to deliver a kept message that are repeated later.
        message_failures,
        /// Times that a kept message waited because of the pace of all.
        messages_delayed,
        /// Requests without a free transaction or DNS lookup.
        overflow,
        /// Responses and ACKs that match no transaction and were dropped.
        stray,
        /// Responses from another address than the next hop of their request, dropped.
        responses_from_elsewhere,
        /// Responses to a forwarded request without a Via below ours; a final one counts as a failed branch (502).
        without_next_via,
        ;
        /// Messages that the parser rejected, by [`Reason::index`].
        rejected: [u64; Reason::COUNT] = REJECTED,
    }
}

impl Counters {
    /// Counts a request by its method.
    #[inline]
    pub(crate) const fn count_method(&mut self, method: Method<'_>) {
        let counter = match method {
            Method::Register => &mut self.requests_register,
            Method::Invite => &mut self.requests_invite,
            Method::Ack => &mut self.requests_ack,
            Method::Bye => &mut self.requests_bye,
            Method::Cancel => &mut self.requests_cancel,
            Method::Options => &mut self.requests_options,
            Method::Message => &mut self.requests_message,
            Method::Subscribe | Method::Notify | Method::Publish => &mut self.requests_events,
            Method::Prack | Method::Update | Method::Info | Method::Refer | Method::Other(_) => {
                &mut self.requests_other
            }
        };
        *counter += 1;
    }

    /// Counts the responses among the packets of `out` from number `first` on.
    #[inline]
    pub(crate) fn count_sent(&mut self, out: &Outbox, first: usize) {
        for (_, bytes) in out.packets().skip(first) {
            if !bytes.starts_with(b"SIP/2.0 ") {
                continue;
            }
            match bytes.get(8) {
                Some(b'1') => self.sent_1xx += 1,
                Some(b'2') => self.sent_2xx += 1,
                Some(b'3') => self.sent_3xx += 1,
                Some(b'4') => self.sent_4xx += 1,
                Some(b'5') => self.sent_5xx += 1,
                Some(_) | None => self.sent_6xx += 1,
            }
        }
    }
}

const REJECTED: [(&str, &str); Reason::COUNT] = [
    ("rejected_start_line", "Messages without a readable first line."),
    ("rejected_version", "Messages of another SIP version."),
    ("rejected_header_line", "Messages with a line that is not a header field."),
    ("rejected_missing", "Messages without a mandatory header field."),
    ("rejected_repeated", "Messages with a duplicated header field that may occur once."),
    ("rejected_header", "Messages with a malformed header value."),
    ("rejected_request_uri", "Requests with a malformed Request-URI."),
    ("rejected_cseq_method", "Requests whose CSeq names another method."),
    ("rejected_content_length", "Messages with an unusable Content-Length."),
    ("rejected_too_large", "Messages over the size limit."),
    ("rejected_too_many_headers", "Messages with more header fields than allowed."),
    ("rejected_uri_too_long", "Requests with a Request-URI over the limit."),
];

//! Counters of a user agent.

ringway_sansio::counters! {
    /// Counters of a user agent; values only increase.
    pub struct Counters {
        /// Requests received, retransmissions included.
        requests,
        /// Responses received.
        responses,
        /// Messages that the parser rejected.
        unreadable,
        /// Keep-alives received.
        keep_alives,
        /// Requests answered with a failure.
        refused,
        /// Calls refused because of the limit of calls, or of calls that end (486).
        too_many_calls,
        /// Calls refused because too many of the same source ring (486).
        too_many_ringing_of_source,
        /// Calls refused because too many that bypass the account's server ring (486).
        too_many_ringing_bypassing,
        /// Incoming calls that rang for the maximum time (480).
        rings_timed_out,
        /// Responses ignored because an INVITE has its maximum number of dialogs.
        too_many_early_dialogs,
        /// Requests not sent because of the limit.
        too_many_requests,
        /// Reports on a transfer not sent, and REFERs refused (491), because too many reports are not answered.
        too_many_reports,
        /// Requests with bodies over a limit of bytes, parts or levels (513).
        body_too_large,
        /// Route sets over the limit.
        too_many_routes,
        /// Requests without a free transaction (503).
        overflow,
        /// Requests out of order in their dialog, or while another one is pending (500).
        out_of_order,
        /// Requests for dialogs that do not exist (481).
        no_dialog,
        /// Requests received twice on different paths (482).
        merged,
        /// Session descriptions and other bodies that were refused (400, 415, 488, 513).
        sessions_refused,
        /// Challenges answered with credentials.
        challenges_answered,
        /// Challenges not answered: of another realm, from another address, inside a dialog, or too many.
        challenges_ignored,
        /// Nonces that a server gave for the next request (Authentication-Info).
        next_nonces,
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
        /// INVITEs refused because too many digests of their user from their source could not be verified (403).
        caller_digests_refused,
        /// Accepted calls without an ACK.
        acks_missed,
        /// Responses and ACKs that match no transaction.
        stray,
        /// Second and further dialogs of a forked call, ended at once.
        forks_ended,
        /// Calls made again as RTP/SAVP because RTP/AVP with keys was refused (406, 488, 606).
        srtp_insisted,
        /// INVITEs that a busy server asked to send later (503 with a short Retry-After).
        calls_postponed,
        /// Requests over 1,300 bytes sent by TCP.
        switched_to_tcp,
        /// Requests over 1,300 bytes sent by UDP because TCP had failed to that address.
        kept_on_udp,
        /// Addresses of such failures dropped early because of the limit.
        tcp_failures_displaced,
        /// Host names without an address.
        names_not_found,
        /// Resolved names dropped early because of the limit.
        names_displaced,
        /// Connections dropped because of the limit: requests on them do not fail at their end.
        connections_displaced,
        /// Redirections with more contacts than are parsed.
        too_many_contacts,
    }
}

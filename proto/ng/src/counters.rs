//! Counters of the client.

ringway_sansio::counters! {
    /// Counters of a [`Client`](crate::Client); values only increase.
    pub struct Counters {
        /// Requests to media relays, retransmissions and pings excluded.
        relay_requests,
        /// Requests to media relays that were not sent because too many were pending.
        relay_overflow,
        /// Offers and answers that were not sent because of the limits on media streams: those of an SDP, of a source or of
        /// all sources without a password, of a user.
        relay_limited,
        /// Requests that no media relay answered in time.
        relay_timeouts,
        /// Requests that a media relay refused.
        relay_refusals,
        /// Requests sent to another media relay because the first one did not answer.
        relay_failovers,
        /// Media relays that stopped answering.
        relay_failures,
        /// Datagrams of media relays that could not be read, or answer nothing that is pending.
        relay_rejected,
    }
}

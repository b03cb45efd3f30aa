//! Defences against attacks. A build with the feature `attack-control` can switch one of them off, to prove that an attack succeeds without
//! it (docs/decisions/0077).

use crate::switch::switches;

switches! {
    /// Check that keeps an attack from succeeding.
    Defence {
        /// Nothing is relayed from strangers to strangers.
        Relaying = "relaying";
        /// Users prove their password to call in their name.
        CallerPassword = "caller-password";
        /// Users prove their password to register.
        RegisterPassword = "register-password";
        /// A password is good for the address of its user only.
        OwnAddress = "own-address";
        /// A nonce count is good once.
        NonceCount = "nonce-count";
        /// A nonce is good for the address that it was sent to.
        NonceSource = "nonce-source";
        /// A nonce has a lifetime.
        NonceLifetime = "nonce-lifetime";
        /// Wrong passwords are slowed.
        Guessing = "guessing";
        /// The digest is for the Request-URI.
        DigestUri = "digest-uri";
        /// Only the hop of an INVITE cancels it.
        CancelHop = "cancel-hop";
        /// A response comes from where its request went.
        ResponseSource = "response-source";
        /// Requests of strangers in a call have those methods that a call needs.
        CallMethods = "call-methods";
        /// Requests of strangers outside of calls have those methods that the policy names.
        StrangerMethods = "stranger-methods";
        /// A side of a dialog sends from its address.
        DialogSource = "dialog-source";
        /// The Record-Route mark has a MAC.
        DialogMark = "dialog-mark";
        /// Bytes to an address that may be forged are limited.
        Amplification = "amplification";
        /// Identities that a stranger claims are removed.
        Identities = "identities";
        /// Credentials for this server are not forwarded.
        OwnCredentials = "own-credentials";
        /// Hosts behind this server are not reached.
        InnerHosts = "inner-hosts";
        /// A contact that is not where its REGISTER came from is not dialled.
        ContactSource = "contact-source";
        /// Loops are found.
        Loops = "loops";
        /// One request causes a limited number of others.
        Breadth = "breadth";
        /// A source has a rate of requests.
        SourceRate = "source-rate";
        /// Block lists.
        Blocks = "blocks";
        /// Nothing is sent to broadcast and multicast addresses.
        Broadcast = "broadcast";
        /// A trunk reaches users of this server only.
        TrunkReach = "trunk-reach";
        /// An address proves nothing over WebSocket.
        WebSocketAddress = "websocket-address";
        /// A request URI has no header fields.
        UriHeaders = "uri-headers";
        /// The token of a flow has a MAC.
        FlowToken = "flow-token";
        /// Presence is published by its user.
        OwnPresence = "own-presence";
        /// Calls of a user are shown to that user only.
        Watchers = "watchers";
        /// Numbers may be denied.
        Destinations = "destinations";
        /// A denied number is found behind a service code.
        ServiceCodes = "service-codes";
        /// A user has a limited number of calls of strangers.
        UserRequests = "user-requests";
        /// A source without a password has a limited number of requests.
        SourceRequests = "source-requests";
        /// A limited number of calls leaves by a user's forward.
        ForwardLimit = "forward-limit";
        /// A user has a limited number of contacts.
        Contacts = "contacts";
        /// The answer of a media relay comes from the relay.
        RelaySource = "relay-source";
        /// The answer of a STUN server comes from the server.
        StunSource = "stun-source";
        /// A message on a stream is complete in time.
        MessageTime = "message-time";
        /// A connection has a message in time.
        FirstMessage = "first-message";
        /// The handshake of a connection is complete in time.
        HandshakeTime = "handshake-time";
        /// A message on a stream has a maximum length.
        MessageSize = "message-size";
        /// A peer that does not read is closed.
        WriteQueue = "write-queue";
        /// Keep-alives have a rate.
        KeepAlives = "keep-alives";
        /// Pages of named origins connect.
        WebSocketOrigin = "websocket-origin";
        /// A message over WebSocket has a maximum length.
        WebSocketSize = "websocket-size";
        /// A packet of SRTP has an authentication tag.
        SrtpTag = "srtp-tag";
        /// A packet of SRTP is accepted once.
        SrtpReplay = "srtp-replay";
        /// The certificate of DTLS has the fingerprint of the SDP.
        DtlsFingerprint = "dtls-fingerprint";
        /// A neighbour has the certificate of its name.
        NeighbourName = "neighbour-name";
        /// The listener of links is for nodes.
        LinkPeer = "link-peer";
        /// Texts of users with a password are kept only.
        KeptSender = "kept-sender";
        /// A user has a limited number of kept texts.
        KeptTexts = "kept-texts";
        /// The admin API asks for its token.
        AdminToken = "admin-token";
        /// Wrong tokens of the admin API are slowed.
        AdminGuessing = "admin-guessing";
        /// An admin listener on loopback has loopback names.
        AdminHost = "admin-host";
        /// Pages of other origins change nothing by the admin API.
        AdminOrigin = "admin-origin";
    }
}

impl Defence {
    /// True, unless a build with the feature `attack-control` switched it off.
    #[cfg(not(feature = "attack-control"))]
    #[inline(always)]
    pub const fn is_on(self) -> bool {
        true
    }

    /// True, unless it is switched off.
    #[cfg(feature = "attack-control")]
    pub fn is_on(self) -> bool {
        !crate::switch::current().off.is(self as usize)
    }

    /// Switches one defence off in this process, and all others on; `None`: all are on.
    #[cfg(feature = "attack-control")]
    pub fn switch_off(defence: Option<Self>) {
        crate::switch::current().off.set(defence.map(|defence| defence as usize));
    }
}

//! Branch of our Vias, with the state that routes a response; destination of a response (RFC 3261 §18.2.2, RFC 3581 §4), and
//! addresses that messages must not be sent to.
//!
//! `z9hG4bK` `.` kind, then hexadecimal fields of fixed width. A stateful branch has the shard and the slab key of the
//! client transaction; a stateless one the connection of the received request and a hash of the next hop's address. Both
//! end in a keyed hash of these fields, so that a forged response matches nothing. The user may append more.

use alloc::vec::Vec;
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use ringway_sansio::{Defence, Flow, PartHasher, Transport};
use ringway_sip::{HeaderName, Host, Message, Via, hex16, read_hex, write_hex};
use siphasher::sip::SipHasher13;

/// Content of a branch of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// A client transaction.
    Transaction {
        /// Its shard.
        shard: u16,
        /// Its slab key there.
        key: crate::SlabKey,
    },
    /// A statelessly forwarded request.
    Stateless(StatelessBranch),
}

/// Content of the branch of a statelessly forwarded request, and the destination of its responses, which the branch
/// confirms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatelessBranch {
    /// Number of the connection that the request was received on; 0: by datagram.
    pub connection: u64,
    /// Keyed hash of the next hop; see [`BranchKey::target_of`].
    pub target: u32,
    /// Transport of the next Via.
    pub transport: Transport,
    /// Address of the next Via; see [`reply_address`](crate::reply_address).
    pub reply: SocketAddr,
}

/// Writes and verifies branches; all shards of a server have the same.
#[derive(Clone, Copy, Debug)]
pub struct BranchKey {
    key: [u8; 16],
}

impl BranchKey {
    /// Creates it from 16 secret bytes.
    pub const fn new(key: [u8; 16]) -> Self {
        Self { key }
    }

    /// Appends the branch of a client transaction.
    pub fn write_transaction(&self, shard: u16, key: crate::SlabKey, out: &mut Vec<u8>) {
        out.extend_from_slice(TRANSACTION);
        let start = out.len();
        write_hex(out, u64::from(shard), 4);
        write_hex(out, u64::from(key.index), 8);
        write_hex(out, u64::from(key.generation), 8);
        let check = self.check(out.get(start..).unwrap_or_default());
        write_hex(out, check, 16);
    }

    /// Appends the branch of a statelessly forwarded request (RFC 3261 §16.11). It is equal for each retransmission, the
    /// ACK and the CANCEL, because it is a function of what they share.
    ///
    /// `target` is the next hop. `reply` is the result of [`reply_address`](crate::reply_address) for the request's top
    /// Via in the response.
    pub fn write_stateless(
        &self,
        request: &Message<'_>,
        reply: SocketAddr,
        connection: u64,
        target: &Flow,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(STATELESS);
        let target = self.target_of(target);
        write_hex(out, connection, 16);
        write_hex(out, u64::from(target), 8);
        let check = self.stateless_check(request, request.via(), reply, connection, target);
        write_hex(out, check, 16);
    }

    /// True if a response came from the next hop in its stateless branch: on the same connection, or, if the branch has
    /// none, from the same address.
    pub fn is_from_target(&self, source: &Flow, target: u32) -> bool {
        let any_connection = Flow { connection: None, ..*source };
        self.target_of(source) == target || self.target_of(&any_connection) == target
    }

    /// Keyed hash of a next hop's connection or address, for a stateless branch.
    pub fn target_of(&self, flow: &Flow) -> u32 {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(&self.key));
        hash.fixed(b"target");
        match flow.connection {
            Some(connection) => hash.fixed(&connection.0.to_le_bytes()),
            None => add_ip(&mut hash, flow.remote.ip()),
        }
        hash.hasher().finish() as u32
    }

    /// Branch in the top Via of a response, if it is one of ours.
    pub fn read(&self, response: &Message<'_>) -> Option<Branch> {
        let branch = response.via().branch?;
        if let Some(fields) = branch.strip_prefix(TRANSACTION) {
            return self.read_transaction(fields);
        }
        let fields = branch.strip_prefix(STATELESS)?;
        let (connection, rest) = fields.split_at_checked(16)?;
        let connection = read_hex(connection)?;
        let (target, rest) = rest.split_at_checked(8)?;
        let target = u32::try_from(read_hex(target)?).ok()?;
        let next = Via::parse(response.values(HeaderName::Via).nth(1)?).ok()?;
        let reply = crate::reply_address(&next)?;
        let check = self.stateless_check(response, &next, reply, connection, target);
        if *rest.first_chunk()? != hex16(check) {
            return None;
        }
        let transport = Transport::from_token(next.transport)?;
        Some(Branch::Stateless(StatelessBranch { connection, target, transport, reply }))
    }

    /// Client transaction of a branch whose fields are these.
    fn read_transaction(&self, fields: &[u8]) -> Option<Branch> {
        let (named, rest) = fields.split_at_checked(20)?;
        if *rest.first_chunk()? != hex16(self.check(named)) {
            return None;
        }
        let shard = u16::try_from(read_hex(named.get(..4)?)?).ok()?;
        let index = u32::try_from(read_hex(named.get(4..12)?)?).ok()?;
        let generation = u32::try_from(read_hex(named.get(12..)?)?).ok()?;
        Some(Branch::Transaction { shard, key: crate::SlabKey { index, generation } })
    }

    /// Client transaction that sent the request which begins with `quoted`, and the rest of `quoted` from its branch on. The
    /// request may be cut off.
    pub(crate) fn read_quoted<'q>(&self, quoted: &'q [u8]) -> Option<(Branch, &'q [u8])> {
        let branch = quoted.get(memchr::memmem::find(quoted, TRANSACTION)?..)?;
        Some((self.read_transaction(branch.strip_prefix(TRANSACTION)?)?, branch))
    }

    fn stateless_check(
        &self,
        message: &Message<'_>,
        via: &Via<'_>,
        reply: SocketAddr,
        connection: u64,
        target: u32,
    ) -> u64 {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(&self.key));
        hash.fixed(STATELESS);
        hash.fixed(&connection.to_le_bytes());
        hash.fixed(&target.to_le_bytes());
        add_ip(&mut hash, reply.ip());
        hash.fixed(&reply.port().to_le_bytes());
        for part in
            [via.branch.unwrap_or_default(), message.call_id(), message.from().tag().unwrap_or_default()]
        {
            hash.part(part);
        }
        hash.fixed(&message.cseq().number.to_le_bytes());
        hash.hasher().finish()
    }

    fn check(&self, named: &[u8]) -> u64 {
        let mut hash = SipHasher13::new_with_key(&self.key);
        hash.write(named);
        hash.finish()
    }
}

fn add_ip(hash: &mut PartHasher<SipHasher13>, ip: IpAddr) {
    match ip {
        IpAddr::V4(v4) => hash.fixed(&v4.octets()),
        IpAddr::V6(v6) => hash.fixed(&v6.octets()),
    }
}

/// Appends the number that distinguishes a transaction's branch from every other one.
pub(crate) fn write_unique(unique: u64, out: &mut Vec<u8>) {
    out.push(b'.');
    write_hex(out, unique, 16);
}

/// True if a transaction's branch has the number `unique`.
pub(crate) fn has_unique(branch: &[u8], unique: u64) -> bool {
    let at = TRANSACTION.len() + 20 + 16;
    branch.get(at) == Some(&b'.') && branch.get(at + 1..at + 17) == Some(&hex16(unique))
}

/// Shard of a request of ours that begins with `quoted`. `None` for a response, and for a request without a client transaction.
pub fn shard_of_quoted(quoted: &[u8]) -> Option<u16> {
    if quoted.starts_with(b"SIP/") { None } else { shard_of_response(quoted) }
}

/// Shard of a response, from the branch of its first Via, without parsing the message. `None` if this is not the branch
/// of a client transaction of ours; the shard verifies the keyed hash.
pub fn shard_of_response(bytes: &[u8]) -> Option<u16> {
    let at = memchr::memmem::find(bytes, TRANSACTION)? + TRANSACTION.len();
    // Only the first Via counts. A later one is found here only if the first is not ours; the shard then rejects the
    // response.
    u16::try_from(read_hex(bytes.get(at..at + 4)?)?).ok()
}

const TRANSACTION: &[u8] = b"z9hG4bK.t";
const STATELESS: &[u8; 9] = b"z9hG4bK.s";

/// Flow of the responses to a request with this top Via that was received on `source`.
///
/// A response on a stream or over DTLS uses the connection of its request. A response by datagram goes to the source address of the
/// request: to the source port if the client requested it (`rport`), else to the port of sent-by. `maddr` is ignored,
/// because a sender could direct responses at a third party with it.
pub fn reply_flow(via: &Via<'_>, source: Flow) -> Flow {
    if source.transport.has_connections() || via.has_rport() {
        return source;
    }
    let port = via.port.unwrap_or(source.transport.default_port());
    Flow { remote: SocketAddr::new(source.remote.ip(), port), ..source }
}

/// Address that [`reply_address`] reads from this top Via after it was stamped with `source`.
pub fn stamped_address(via: &Via<'_>, source: SocketAddr) -> SocketAddr {
    if via.wants_rport() {
        return source;
    }
    SocketAddr::new(source.ip(), via.port.unwrap_or(DEFAULT_PORT))
}

/// Destination of a response, from a Via with our stamp: `received` and `rport` if present, else sent-by. `None` for a
/// host name, port 0, and an address that no message is sent to (see [`may_send_to`]).
pub fn reply_address(via: &Via<'_>) -> Option<SocketAddr> {
    let ip = match via.received() {
        Some(text) => received_ip(text)?,
        None => via.host.ip()?,
    };
    let port = via.rport().or(via.port).unwrap_or(DEFAULT_PORT);
    if !may_send_to(ip) || port == 0 { None } else { Some(Flow::canonical(SocketAddr::new(ip, port))) }
}

/// Address in `received`: an IPv6 address has brackets or not.
fn received_ip(text: &[u8]) -> Option<IpAddr> {
    if let Ok(host) = Host::parse(text)
        && let Some(ip) = host.ip()
    {
        return Some(ip);
    }
    core::str::from_utf8(text).ok()?.trim_matches(['[', ']']).parse().ok()
}

/// Port of a URI or a Via without port and transport (RFC 3261 §18.2.2, §19.1.2).
pub const DEFAULT_PORT: u16 = Transport::DEFAULT.default_port();

/// False for a broadcast, multicast or unspecified address, IPv4-mapped ones included: no message is sent there (RFC 4475
/// §3.3.10).
pub fn may_send_to(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        _ if !Defence::Broadcast.is_on() => true,
        IpAddr::V4(v4) => !(v4.is_broadcast() || v4.is_multicast() || v4.is_unspecified()),
        IpAddr::V6(v6) => !(v6.is_multicast() || v6.is_unspecified()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::ListenerId;

    fn reply(via: &str, source: &str) -> SocketAddr {
        let via = Via::parse(via.as_bytes()).unwrap();
        reply_flow(&via, Flow::udp(ListenerId(0), source.parse().unwrap())).remote
    }

    #[test]
    fn rport_selects_the_source_port_and_sent_by_its_own() {
        let source = "192.0.2.1:40000";
        assert_eq!(reply("SIP/2.0/UDP 10.0.0.1:5070;rport", source), source.parse().unwrap());
        assert_eq!(reply("SIP/2.0/UDP 10.0.0.1:5070", source), "192.0.2.1:5070".parse().unwrap());
        assert_eq!(reply("SIP/2.0/UDP host;maddr=203.0.113.9", source), "192.0.2.1:5060".parse().unwrap());
    }

    #[test]
    fn no_response_goes_to_a_broadcast_or_multicast_address() {
        for via in ["SIP/2.0/UDP 255.255.255.255", "SIP/2.0/UDP x;received=224.0.0.1", "SIP/2.0/UDP 0.0.0.0"]
        {
            assert_eq!(reply_address(&Via::parse(via.as_bytes()).unwrap()), None, "{via}");
        }
        let via = Via::parse(b"SIP/2.0/UDP h:7;received=2001:db8::1;rport=9").unwrap();
        assert_eq!(reply_address(&via), Some("[2001:db8::1]:9".parse().unwrap()));
    }

    #[test]
    fn broadcast_multicast_and_unspecified_addresses_are_refused() {
        for address in ["255.255.255.255", "224.0.0.1", "0.0.0.0", "ff02::1", "::", "::ffff:224.0.0.1"] {
            assert!(!may_send_to(address.parse().unwrap()), "{address}");
        }
        for address in ["192.0.2.1", "127.0.0.1", "2001:db8::1", "::1"] {
            assert!(may_send_to(address.parse().unwrap()), "{address}");
        }
    }
}

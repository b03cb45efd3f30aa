//! The branch of our own Vias: it carries the way home.
//!
//! `z9hG4bK` `.` kind, then fixed-width hexadecimal fields. A stateful branch names the shard, the client transaction's
//! place and generation; a stateless one the connection the request came by and a hash of the address it went to. Both end in a keyed check
//! over what they name, so that a stranger's response finds nothing. The user may append more.

use alloc::vec::Vec;
use core::hash::Hasher;
use core::net::IpAddr;
use ringway_sansio::{Flow, PartHasher};
use ringway_sip::{HeaderName, Message, Via, hex16, read_hex, write_hex};
use siphasher::sip::SipHasher13;

/// What a branch of ours says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// A client transaction.
    Transaction {
        /// Its shard.
        shard: u16,
        /// Its place and generation there.
        key: crate::SlabKey,
    },
    /// A request forwarded without state, that came by this connection (0: by datagram).
    Stateless {
        /// The connection's number.
        connection: u64,
        /// Stands for the address that the request went to; see [`BranchKey::target_of`].
        target: u32,
    },
}

/// Writes and checks branches; all shards of a server share one.
#[derive(Clone, Copy, Debug)]
pub struct BranchKey {
    key: [u8; 16],
}

impl BranchKey {
    /// From 16 secret bytes.
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

    /// Appends the branch of a request that is forwarded without state (RFC 3261 §16.11): the same for each
    /// retransmission, its ACK and its CANCEL, because it follows from what these share.
    ///
    /// `target` is where the request goes. `reply` is what [`reply_address`](crate::reply_address) will make of the request's top Via in the response.
    pub fn write_stateless(
        &self,
        request: &Message<'_>,
        reply: core::net::SocketAddr,
        connection: u64,
        target: &Flow,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(STATELESS);
        let target = self.target_of(target);
        write_hex(out, connection, 16);
        write_hex(out, u64::from(target), 8);
        let check = self.stateless_check(request, request.via(), reply, (connection, target));
        write_hex(out, check, 16);
    }

    /// True when a response comes from where a stateless branch says that its request went: the same connection, or where none
    /// was named the same address.
    pub fn is_from_target(&self, source: &Flow, target: u32) -> bool {
        let any_connection = Flow { connection: None, ..*source };
        self.target_of(source) == target || self.target_of(&any_connection) == target
    }

    /// Stands for a next hop in a stateless branch: a keyed hash of its connection, or of its address.
    pub fn target_of(&self, flow: &Flow) -> u32 {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(&self.key));
        hash.fixed(b"target");
        match flow.connection {
            Some(connection) => hash.fixed(&connection.0.to_le_bytes()),
            None => add_ip(&mut hash, flow.remote.ip()),
        }
        hash.into_hasher().finish() as u32
    }

    /// What the top Via's branch of a response says, if it is a branch of ours.
    pub fn read(&self, response: &Message<'_>) -> Option<Branch> {
        let branch = response.via().branch?;
        if let Some(fields) = branch.strip_prefix(TRANSACTION) {
            let (named, rest) = fields.split_at_checked(20)?;
            if *rest.first_chunk()? != hex16(self.check(named)) {
                return None;
            }
            let shard = u16::try_from(read_hex(named.get(..4)?)?).ok()?;
            let index = u32::try_from(read_hex(named.get(4..12)?)?).ok()?;
            let generation = u32::try_from(read_hex(named.get(12..)?)?).ok()?;
            return Some(Branch::Transaction { shard, key: crate::SlabKey { index, generation } });
        }
        let fields = branch.strip_prefix(STATELESS)?;
        let (connection, rest) = fields.split_at_checked(16)?;
        let connection = read_hex(connection)?;
        let (target, rest) = rest.split_at_checked(8)?;
        let target = u32::try_from(read_hex(target)?).ok()?;
        let next = Via::parse(response.values(HeaderName::Via).nth(1)?).ok()?;
        let reply = crate::reply_address(&next)?;
        let check = self.stateless_check(response, &next, reply, (connection, target));
        if *rest.first_chunk()? != hex16(check) {
            return None;
        }
        Some(Branch::Stateless { connection, target })
    }

    fn stateless_check(
        &self,
        message: &Message<'_>,
        via: &Via<'_>,
        reply: core::net::SocketAddr,
        (connection, target): (u64, u32),
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
        hash.into_hasher().finish()
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

/// Appends what makes a transaction's branch differ from every other one.
pub(crate) fn write_unique(unique: u64, out: &mut Vec<u8>) {
    out.push(b'.');
    write_hex(out, unique, 16);
}

/// True when a transaction's branch has this.
pub(crate) fn has_unique(branch: &[u8], unique: u64) -> bool {
    let at = TRANSACTION.len() + 20 + 16;
    branch.get(at) == Some(&b'.') && branch.get(at + 1..at + 17) == Some(&hex16(unique))
}

/// The shard a response belongs to, read without parsing the message: from the branch of its first Via. `None` for
/// branches that are not a client transaction of ours; the check is left to the shard.
pub fn shard_of_response(bytes: &[u8]) -> Option<u16> {
    let at = memchr::memmem::find(bytes, TRANSACTION)? + TRANSACTION.len();
    // Only the first Via of the message counts; one further down would be found here only if the first is not ours,
    // and then the shard finds nothing either.
    u16::try_from(read_hex(bytes.get(at..at + 4)?)?).ok()
}

const TRANSACTION: &[u8] = b"z9hG4bK.t";
const STATELESS: &[u8] = b"z9hG4bK.s";

//! Tokens of packets: the driver reports them if it could not send a packet.

use crate::slab::SlabKey;
use ringway_sansio::Token;

/// The top 16 bits are the shard, so that the driver can route the report; one bit distinguishes servers from clients.
pub(crate) fn client_token(shard: u16, slot: SlabKey) -> Token {
    Token((u64::from(shard) << 48) | (u64::from(slot.generation) << 32) | u64::from(slot.index & !SERVER_BIT))
}

pub(crate) fn server_token(shard: u16, slot: SlabKey) -> Token {
    Token(client_token(shard, slot).0 | u64::from(SERVER_BIT))
}

pub(crate) fn read_token(token: Token) -> (SlabKey, bool) {
    let low = token.0 as u32;
    let generation = ((token.0 >> 32) & 0xffff) as u32;
    (SlabKey { index: low & !SERVER_BIT, generation }, low & SERVER_BIT != 0)
}

pub(crate) const SERVER_BIT: u32 = 1 << 31;

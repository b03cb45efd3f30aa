//! The numbers by which a driver reports what it could not send.

use crate::slab::SlabKey;
use ringway_sansio::Token;

/// The top 16 bits name the shard, so that a driver knows whom to tell; one bit tells servers from clients.
pub(crate) fn client_token(shard: u16, place: SlabKey) -> Token {
    Token(
        (u64::from(shard) << 48) | (u64::from(place.generation) << 32) | u64::from(place.index & !SERVER_BIT),
    )
}

pub(crate) fn server_token(shard: u16, place: SlabKey) -> Token {
    Token(client_token(shard, place).0 | u64::from(SERVER_BIT))
}

pub(crate) fn read_token(token: Token) -> (SlabKey, bool) {
    let low = token.0 as u32;
    let generation = ((token.0 >> 32) & 0xffff) as u32;
    (SlabKey { index: low & !SERVER_BIT, generation }, low & SERVER_BIT != 0)
}

pub(crate) const SERVER_BIT: u32 = 1 << 31;

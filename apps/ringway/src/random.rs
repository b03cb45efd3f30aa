//! Random bytes of the operating system.

use crate::failure::Failure;
use ringway_sansio::Seed;

/// Seed of a protocol machine; all of its randomness is derived from it.
pub(crate) fn seed() -> Result<Seed, Failure> {
    Ok(Seed::from_bytes(bytes()?))
}

/// Random bytes.
pub(crate) fn bytes<const LEN: usize>() -> Result<[u8; LEN], Failure> {
    let mut bytes = [0; LEN];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::failed(format!("the operating system returned no random bytes: {error}"))
    })?;
    Ok(bytes)
}

//! Random bytes of the operating system.

use crate::failure::Failure;
use ringway_sansio::Seed;

/// The seed of a protocol machine: everything unguessable in it comes from here.
pub(crate) fn seed() -> Result<Seed, Failure> {
    Ok(Seed::from_bytes(bytes()?))
}

/// Bytes that nobody can guess.
pub(crate) fn bytes<const LEN: usize>() -> Result<[u8; LEN], Failure> {
    let mut bytes = [0; LEN];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::failed(format!("the system gives no random bytes: {error}")))?;
    Ok(bytes)
}

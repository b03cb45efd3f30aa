//! Where a driver looks at its clock.

/// One step of protecting or unprotecting a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The header was read, the SSRC's state found, or the tail of the packet written.
    Headers,
    /// The index was estimated and held against the replay window, or noted there.
    Replay,
    /// The payload was encrypted or decrypted; with an AEAD suite authenticated too.
    Encryption,
    /// The tag was computed or compared.
    Authentication,
}

impl Step {
    /// Every step.
    pub const ALL: [Self; 4] = [Self::Headers, Self::Replay, Self::Encryption, Self::Authentication];
}

/// Told when a step has ended, so that a driver can time it.
///
/// There is no clock here. A look at a clock costs a tenth of a packet: sample one packet in many. Making a context is
/// key derivation and nothing else, and can be timed from outside.
pub trait Probe {
    /// `step` has just ended; what was done since the call before belongs to it. A step may come twice for a packet.
    fn ended(&mut self, step: Step);
}

/// Looks at nothing and costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProbe;

impl Probe for NoProbe {
    #[inline(always)]
    fn ended(&mut self, _step: Step) {}
}

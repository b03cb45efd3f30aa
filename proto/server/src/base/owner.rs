//! Owners of transactions.

use ringway_transaction::SlabKey;

/// Transactions of a shard. Server transactions belong to contexts, client transactions to branches and probes.
pub(crate) type Transactions = ringway_transaction::Transactions<SlabKey, Owner>;

/// Owner of a client transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A forwarded request.
    Branch(BranchId),
    /// An OPTIONS to a neighbour.
    Probe(ProbeId),
    /// A NOTIFY of a subscription.
    Notify(SlabKey),
    /// A message that was kept, for the user with this mailbox.
    Message(SlabKey),
}

/// Probe of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProbeId {
    /// Index in the configuration.
    pub(crate) neighbour: u8,
    /// Number of the attempt.
    pub(crate) attempt: u32,
}

/// Key of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BranchId {
    context: SlabKey,
    number: u32,
}

impl BranchId {
    pub(crate) fn new(context: SlabKey, number: usize) -> Self {
        Self { context, number: u32::try_from(number).unwrap_or(u32::MAX) }
    }

    /// Context, and index of the branch in it.
    pub(crate) const fn parts(self) -> (SlabKey, usize) {
        (self.context, self.number as usize)
    }

    pub(crate) const fn context(self) -> SlabKey {
        self.context
    }
}

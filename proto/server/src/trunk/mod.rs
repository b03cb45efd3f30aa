//! Trunks: gateways and carriers that routes lead to.

mod cseq;

pub(crate) use cseq::{RepeatedInvites, TrunkNumbers, at_trunk, restore_event, split_rack};

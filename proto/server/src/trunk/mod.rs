//! Trunks: gateways and carriers that routes lead to.

mod cseq;

pub(crate) use cseq::{RepeatedInvites, TrunkNumbers, at_trunk, changed_rack, restored_event};

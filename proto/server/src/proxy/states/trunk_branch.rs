//! Trunk of a branch: what it answered so far.

use crate::Trunking;

/// Trunk of a branch.
#[derive(Clone, Copy, Debug)]
pub(in crate::proxy) struct TrunkBranch {
    /// Index in the configuration.
    pub(in crate::proxy) trunk: usize,
    /// Number of challenges that were answered.
    pub(in crate::proxy) logins: u8,
    /// It sent a provisional response other than 100.
    rings: bool,
    /// It is a node behind this server.
    pub(in crate::proxy) is_node: bool,
}

/// Effect of a provisional response on the groups of targets that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) enum GroupTimer {
    /// None.
    Runs,
    /// They wait for the end of the branch.
    Stops,
    /// They are given up.
    Ends,
}

impl TrunkBranch {
    pub(in crate::proxy) const fn new(trunk: usize) -> Self {
        Self { trunk, logins: 0, rings: false, is_node: false }
    }

    /// The same for a trunk of these.
    pub(in crate::proxy) fn of(trunking: &Trunking, trunk: usize) -> Self {
        Self { is_node: trunking.is_node(trunk), ..Self::new(trunk) }
    }

    /// Notes a provisional response: one other than 100 ends the route with this trunk.
    pub(in crate::proxy) const fn note_provisional(&mut self, status: u16) -> GroupTimer {
        if status == 100 {
            return GroupTimer::Stops;
        }
        self.rings = true;
        GroupTimer::Ends
    }

    /// True if a final response with this status leads to the next trunk. A node passes on no 503; any other response of it is the one
    /// to the request.
    pub(in crate::proxy) const fn fails_over(self, status: u16) -> bool {
        match self.is_node {
            true => status == 503,
            false => !self.rings && matches!(status, 408 | 500 | 502 | 503 | 504),
        }
    }
}

//! Stages: the features of the proxy, a file for each. The proxy asks them in the order of the tables here, and does what they decide.

pub(super) mod conversion;
pub(super) mod flows;
pub(super) mod recursion;
pub(super) mod sides;
pub(super) mod trunks;

use super::call::{BranchEnd, Call, Next};

/// Stage that decides after the end of a branch.
struct After {
    run: fn(&mut Call<'_, '_>, &BranchEnd<'_>) -> Next,
    /// Reason for its position.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers, and the test of the order"))]
    why: &'static str,
}

/// Stages that may go on with a branch, first to last.
const AFTER: [After; 4] = [
    After {
        run: conversion::after,
        why: "the same phone gets another offer: a forward must not come before it",
    },
    After { run: flows::after, why: "the same phone over another flow (RFC 5626 §7)" },
    After { run: sides::after, why: "the phone has another binding now" },
    After { run: trunks::after, why: "what a trunk refuses is not called by another one" },
];

/// The same for stages that add targets to those of a branch that has failed.
const FAILED: [After; 1] = [After {
    run: recursion::after,
    why: "a 3xx answers for all of its target's flows (RFC 3261 §16.7 step 4)",
}];

/// Decision of the first stage that goes on with a branch.
pub(super) fn after(call: &mut Call<'_, '_>, end: &BranchEnd<'_>) -> Next {
    first(&AFTER, call, end)
}

/// The same after the branch has failed.
pub(super) fn failed(call: &mut Call<'_, '_>, end: &BranchEnd<'_>) -> Next {
    first(&FAILED, call, end)
}

fn first(stages: &[After], call: &mut Call<'_, '_>, end: &BranchEnd<'_>) -> Next {
    for stage in stages {
        match (stage.run)(call, end) {
            Next::Pass => {}
            next => return next,
        }
    }
    Next::Pass
}

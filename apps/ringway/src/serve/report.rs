//! Requests to reload, and their reports.

use crate::config::{KeyChange, Keys};
use serde_json::{Value, json};

/// Request to reload the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReloadRequest {
    /// Change what the file has changed.
    Apply,
    /// Tell what that would change.
    DryRun,
    /// Tell what a file with these keys would change.
    Compare(Keys),
}

/// Result of a reload: the changes, or the reasons of the refusal.
#[derive(Clone, Debug)]
pub(crate) struct ReloadReport {
    pub(super) outcome: ReloadOutcome,
    /// Keys that differ from the running configuration.
    pub(super) changes: Vec<KeyChange>,
    /// Keys that need a restart.
    pub(super) restart: Vec<&'static str>,
    /// Consequences that an administrator may not expect, one line each.
    pub(super) warnings: Vec<String>,
    /// Reasons of a refusal, one line each.
    pub(super) errors: Vec<String>,
}

/// End of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReloadOutcome {
    /// The changes are in force.
    Applied,
    /// They would be.
    Possible,
    /// The old configuration remains in force.
    Refused,
}

impl ReloadReport {
    /// HTTP status of its answer.
    pub(super) const fn status(&self) -> u16 {
        match self.outcome {
            ReloadOutcome::Applied | ReloadOutcome::Possible => 200,
            ReloadOutcome::Refused => 422,
        }
    }

    /// Answer of the admin API.
    pub(super) fn to_json(&self) -> Value {
        let change = |change: &KeyChange| {
            json!({
                "key": change.key,
                "old": change.old.text(),
                "new": change.new.text(),
                "text": change.to_string(),
            })
        };
        let shown = self.changes.iter().take(CHANGES_SHOWN_MAX);
        let mut object = json!({
            "ok": self.outcome != ReloadOutcome::Refused,
            "applied": self.outcome == ReloadOutcome::Applied,
            "changes": shown.map(change).collect::<Vec<_>>(),
            "changes_left_out": self.changes.len().saturating_sub(CHANGES_SHOWN_MAX),
            "restart": self.restart,
            "warnings": self.warnings,
            "errors": self.errors,
        });
        if let Some(first) = self.errors.first() {
            object["error"] = json!(first);
        }
        object
    }
}

/// Maximum number of changes in an answer.
const CHANGES_SHOWN_MAX: usize = 1000;

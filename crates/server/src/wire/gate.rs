//! Gates, and kinds of calls that are paused.

use resurgam::{GateStatus, Hold, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Json, both, json, rfc3339};

/// What stands before a dependency that activities talk to.
#[derive(Serialize, ToSchema)]
pub(crate) struct Gate {
    key: String,
    /// flowing, shut, probing or ramping
    standing: String,
    since_ms: i64,
    since: String,
    why: String,
    /// How it stands, since when, why and what comes next: one line.
    told: String,
    next_change_ms: Option<i64>,
    next_change: Option<String>,
    /// What an operator decided, in place of the gate.
    by_hand: Option<ByHand>,
    /// What operators stored of settings, for this key or for what it begins with.
    #[schema(value_type = Option<serde_json::Value>)]
    settings: Option<Json>,
    settings_by: Option<String>,
    /// The settings that it follows, where these bound how much begins: stored ones, or those in
    /// the code, which are known once a call has waited for its turn.
    #[schema(value_type = Option<serde_json::Value>)]
    bounds: Option<Json>,
    /// How many calls are due and wait; ten thousand at most.
    due: usize,
    /// About when the last of these begins, where a rate bounds them.
    next_turn_ms: Option<i64>,
    next_turn: Option<String>,
    first_due_ms: Option<i64>,
    first_due: Option<String>,
    /// Everything that is stored of how it stands: what the rest follows from, at any time.
    #[schema(value_type = serde_json::Value)]
    state: Json,
    /// When it was looked at.
    at_ms: i64,
    at: String,
}

/// What an operator decided about a gate.
#[derive(Serialize, ToSchema)]
struct ByHand {
    /// It is shut; else it is open.
    shut: bool,
    by: String,
    reason: Option<String>,
    since_ms: i64,
    since: String,
    until_ms: Option<i64>,
    until: Option<String>,
}

impl Gate {
    pub(crate) fn of(gate: &GateStatus, now: Timestamp) -> Self {
        let (next_change_ms, next_change) = both(gate.state.next_change());
        let (first_due_ms, first_due) = both(gate.first_due);
        let (next_turn_ms, next_turn) = both(gate.next_turn(now));
        let by_hand = gate.state.by_hand.as_ref().map(|hand| {
            let (until_ms, until) = both(hand.until);
            ByHand {
                shut: hand.shut,
                by: hand.by.clone(),
                reason: hand.reason.clone(),
                since_ms: hand.since.as_millis(),
                since: rfc3339(hand.since),
                until_ms,
                until,
            }
        });
        Gate {
            key: gate.key.clone(),
            standing: gate.state.standing().name().to_string(),
            since_ms: gate.state.since.as_millis(),
            since: rfc3339(gate.state.since),
            why: gate.state.why.to_string(),
            told: gate.told_at(now),
            next_change_ms,
            next_change,
            by_hand,
            settings: gate.settings.as_ref().map(json),
            settings_by: gate.settings_by.clone(),
            bounds: gate.bounds.as_ref().map(json),
            due: gate.due,
            next_turn_ms,
            next_turn,
            first_due_ms,
            first_due,
            state: json(&gate.state),
            at_ms: gate.at.as_millis(),
            at: rfc3339(gate.at),
        }
    }
}

/// A kind of calls that is paused as a whole.
#[derive(Serialize, ToSchema)]
pub(crate) struct PausedKind {
    /// activity or queue
    kind: String,
    name: String,
    by: String,
    reason: Option<String>,
    since_ms: i64,
    since: String,
}

impl From<&Hold> for PausedKind {
    fn from(hold: &Hold) -> Self {
        PausedKind {
            kind: hold.kind.name().to_string(),
            name: hold.name.clone(),
            by: hold.by.clone(),
            reason: hold.reason.clone(),
            since_ms: hold.since.as_millis(),
            since: rfc3339(hold.since),
        }
    }
}

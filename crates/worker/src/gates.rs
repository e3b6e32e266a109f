//! Gates and paused kinds of calls: what a handle can be asked.
//!
//! What somebody wants is a row that every node reads (`node/gates/stored.rs`). It needs nobody who
//! works, and holds for whoever does from then on.

use std::time::Duration;

use resurgam_core::Timestamp;
use resurgam_core::action::ActionAnswer;
use resurgam_core::gate::{KeyPattern, check_key};
use resurgam_store::{GateWaiting, GateWrite, StoredGates};

use crate::actions::Acted;
use crate::error::{Error, Result};
use crate::handle::{Handle, given};
use crate::node::Request;

/// How many keys with waiting calls are asked for at once.
const PAGE: usize = 1_000;

/// How many calls are counted that are due before another one.
const AHEAD: usize = 10_000;

impl Handle {
    /// What is stored of gates, and which kinds of calls are paused.
    pub async fn gates(&self) -> Result<StoredGates> {
        let _busy = self.busy();
        let found = self.store().gates().await;
        found.map_err(|error| Error::store("list gates", error))
    }

    /// The keys of gates that calls wait behind, after this one, and how many are due by now; no
    /// further than `at_most` is counted.
    pub async fn waiting_behind_gates(
        &self,
        after: &str,
        at_most: usize,
    ) -> Result<Vec<GateWaiting>> {
        let _busy = self.busy();
        let trouble = |error| Error::store("count the calls behind gates", error);
        let keys = self.store().waiting_gates(after, PAGE).await.map_err(trouble)?;
        self.store().count_waiting(keys.into(), self.now(), at_most).await.map_err(trouble)
    }

    /// How many calls behind a gate are due before one that is due then, or with it; nobody counts
    /// further than ten thousand.
    pub async fn due_before(&self, gate: &str, due: Timestamp) -> Result<usize> {
        let _busy = self.busy();
        let after = due.saturating_add(Duration::from_millis(1));
        let found = self.store().count_waiting([gate.to_string()].into(), after, AHEAD + 1).await;
        let trouble = |error| Error::store(format!("count the calls behind gate {gate}"), error);
        Ok(found.map_err(trouble)?.first().map_or(0, |found| found.due.saturating_sub(1)))
    }

    /// Stores what somebody wants of gates or kinds of calls, and answers with what that changes.
    pub async fn write_gate(&self, write: GateWrite, does: String) -> Result<Acted> {
        let what = match &write {
            GateWrite::Set { key, .. } => {
                let checked = KeyPattern::parse(key).map(drop);
                checked.map_err(|why| Error::invalid(format!("set gate {key:?}: it {why}")))?;
                format!("set gate {key}")
            }
            GateWrite::Hand { key, .. } => {
                let checked = check_key(key);
                checked.map_err(|why| Error::invalid(format!("gate {key:?}: it {why}")))?;
                format!("set gate {key} by hand")
            }
            GateWrite::Hold(hold) => {
                let what = format!("pause {} {}", hold.kind.name(), hold.name);
                given(&what, "its name", &hold.name)?;
                what
            }
            GateWrite::Release { kind, name } => format!("resume {} {name}", kind.name()),
            _ => return Err(Error::invalid("write a gate: only nodes write that")),
        };
        let writes = vec![write];
        self.ask(&what, |reply| Request::WriteGates { writes, reply }).await?;
        let _busy = self.busy();
        let owner = self.store().owner().await.map_err(|error| Error::store(&what, error))?;
        Ok(match owner {
            Some(_) => Acted::Answered(ActionAnswer::done(does)),
            None => Acted::Stored,
        })
    }
}

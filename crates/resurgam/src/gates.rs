//! Gates: looking at them, and what operators do to them and to kinds of calls.

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use resurgam_core::Timestamp;
use resurgam_core::duration::Human;
use resurgam_core::gate::{self, Decided, Gate, GateState, KeyPattern, Standing};
use resurgam_store::rows::TaskRow;
use resurgam_store::{
    ByHand, GateRow, GateWrite, HandState, Hold, HoldKind, StoredGates, StoredSettings,
};
use resurgam_worker::{Acted, Error, Result};

use crate::Client;
use crate::act::os_user;

/// How many due calls are counted behind a gate.
const COUNTED: usize = 10_000;

/// A gate, as far as anything is stored of it, and what waits behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct GateStatus {
    /// Its key.
    pub key: String,
    /// How it stands, since when, and why.
    pub state: GateState,
    /// What operators stored of settings, for this key or for what it begins with.
    pub settings: Option<Gate>,
    /// Who stored that, when, and why.
    pub settings_by: Option<String>,
    /// The settings that it follows, where these bound how much begins: those that operators
    /// stored, or those in the code, which are known here once a call has waited for its turn.
    pub bounds: Option<Gate>,
    /// How many calls are due and wait. Nobody counts further than ten thousand.
    pub due: usize,
    /// When the first of all that wait is due.
    pub first_due: Option<Timestamp>,
    /// When somebody looked at it.
    pub at: Timestamp,
}

impl GateStatus {
    /// How it stands, since when, why, and what comes next: one line.
    pub fn told_at(&self, now: Timestamp) -> String {
        let bounds = self.bounds.as_ref().and_then(Gate::told_bounds);
        let bounds = bounds.map(|bounds| format!("; {bounds}"));
        self.state.told_at(now) + &bounds.unwrap_or_default()
    }

    /// How many begin before the next that comes, and when that may, where calls begin by and by.
    fn told_turn(&self, now: Timestamp) -> Option<String> {
        if matches!(self.state.standing(), Standing::Shut | Standing::Probing) {
            return None;
        }
        let turn = self.next_turn(now).map(|at| format!(", about {}", Human(at.since(now))));
        let turn = turn.unwrap_or_default();
        Some(match self.due {
            0 => "it is next".to_string(),
            1 => format!("1 call is due before it{turn}"),
            COUNTED.. => format!("{COUNTED} calls or more are due before it"),
            due => format!("{due} calls are due before it{turn}"),
        })
    }

    /// When the last of those that are due begins, at the rate that bounds them; `None` where none
    /// does, or more than that is to come first.
    pub fn next_turn(&self, now: Timestamp) -> Option<Timestamp> {
        let rate = match (self.state.standing(), self.state.phase) {
            (Standing::Ramping, gate::Phase::Ramping { rate, .. }) => rate,
            (Standing::Flowing, _) => self.bounds.as_ref()?.rate?.per_second,
            _ => return None,
        };
        let wait = Duration::try_from_secs_f64(self.due as f64 / rate).ok();
        wait.filter(|_| self.due < COUNTED).map(|wait| now.saturating_add(wait))
    }
}

/// Something that is about to be done to a gate, or to a kind of calls; awaiting it does so, and
/// answers with what that changes.
///
/// ```
/// use resurgam::gate::{Breaker, Gate, Standing};
/// use resurgam::prelude::*;
/// use resurgam::{GateAct, GateStatus};
/// use resurgam_testing::TestApp;
/// use std::time::Duration;
///
/// #[activity]
/// async fn charge(cents: u64) -> Result<u64, Failure> {
///     Ok(cents)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), resurgam::Error> {
/// let app = TestApp::builder().activity(charge).start().await;
/// let act: GateAct = app.client().shut_gate("charge");
/// let shut = act.lasting(Duration::from_secs(3_600)).by("ana").reason("maintenance").await?;
/// assert_eq!(shut.to_string(), "gate charge is shut for 1h: nothing begins behind it");
///
/// app.submit("charge-1", charge(700)).await?;
/// app.advance(Duration::from_secs(60)).await;
/// assert_eq!(app.attempts(charge), 0);
///
/// let gates: Vec<GateStatus> = app.client().gates().await?;
/// assert_eq!((gates[0].key.as_str(), gates[0].due), ("charge", 1));
/// assert_eq!(gates[0].state.standing(), Standing::Shut);
/// app.client().auto_gate("charge").await?;
/// app.advance(Duration::from_secs(1)).await;
/// assert_eq!(app.attempts(charge), 1);
///
/// // Settings that are stored come before those in the code.
/// app.client().set_gate("charge", Gate::new().breaker(Breaker::new().min_calls(5))).await?;
/// assert!(app.client().gate("charge").await?.unwrap().settings.is_some());
/// app.client().unset_gate("charge").await?;
///
/// // All calls of an activity, or of a queue.
/// app.client().pause_activity("charge").await?;
/// assert_eq!(app.client().holds().await?[0].name, "charge");
/// app.client().resume_activity("charge").await?;
/// app.client().pause_queue("default").await?;
/// app.client().resume_queue("default").await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is done until this is awaited"]
#[derive(Clone, Debug)]
pub struct GateAct {
    client: Client,
    what: What,
    by: Option<String>,
    reason: Option<String>,
    lasting: Option<Duration>,
}

#[derive(Clone, Debug)]
enum What {
    Hand(String, HandState),
    Settings(String, Option<Gate>),
    Pause(HoldKind, String),
    Resume(HoldKind, String),
}

impl Client {
    /// The gates of which something is stored, or behind which calls are due, by their keys.
    pub async fn gates(&self) -> Result<Vec<GateStatus>> {
        let stored = self.handle().gates().await?;
        let mut found: BTreeMap<String, GateStatus> = BTreeMap::new();
        let now = self.handle().now();
        for row in stored.gates.iter().filter(|row| is_one(row)) {
            found.insert(row.key.clone(), status_of(&row.key, &stored, now));
        }
        let mut after = String::new();
        loop {
            let waiting = self.handle().waiting_behind_gates(&after, COUNTED).await?;
            let Some(last) = waiting.last() else { break };
            after.clone_from(&last.gate);
            for row in waiting {
                let is_idle = row.due == 0 && !found.contains_key(&row.gate);
                if is_idle {
                    continue;
                }
                let status = found.entry(row.gate.clone());
                let status = status.or_insert_with(|| status_of(&row.gate, &stored, now));
                (status.due, status.first_due) = (row.due, row.first);
            }
        }
        Ok(found.into_values().collect())
    }

    /// The gate of this key, if anything is stored of it or calls are due behind it.
    pub async fn gate(&self, key: &str) -> Result<Option<GateStatus>> {
        Ok(self.gates().await?.into_iter().find(|gate| gate.key == key))
    }

    /// The kinds of calls that are paused.
    pub async fn holds(&self) -> Result<Vec<Hold>> {
        Ok(self.handle().gates().await?.holds)
    }

    /// Nothing begins behind a gate from now on.
    pub fn shut_gate(&self, key: impl Into<String>) -> GateAct {
        self.gate_act(What::Hand(key.into(), HandState::Shut))
    }

    /// Everything begins behind a gate from now on, whatever becomes of it; bounds of rate and
    /// concurrency stay.
    pub fn open_gate(&self, key: impl Into<String>) -> GateAct {
        self.gate_act(What::Hand(key.into(), HandState::Open))
    }

    /// A gate that was shut or opened by hand decides by itself again.
    pub fn auto_gate(&self, key: impl Into<String>) -> GateAct {
        self.gate_act(What::Hand(key.into(), HandState::Auto))
    }

    /// Stores settings for a gate, or for all whose keys begin so (`host:*`). They come before
    /// those in the code.
    pub fn set_gate(&self, key: impl Into<String>, settings: Gate) -> GateAct {
        self.gate_act(What::Settings(key.into(), Some(settings)))
    }

    /// Removes the settings that are stored for a gate.
    pub fn unset_gate(&self, key: impl Into<String>) -> GateAct {
        self.gate_act(What::Settings(key.into(), None))
    }

    /// No attempt of any call of an activity begins until it is resumed.
    pub fn pause_activity(&self, name: impl Into<String>) -> GateAct {
        self.gate_act(What::Pause(HoldKind::Activity, name.into()))
    }

    /// Calls of an activity go on.
    pub fn resume_activity(&self, name: impl Into<String>) -> GateAct {
        self.gate_act(What::Resume(HoldKind::Activity, name.into()))
    }

    /// No attempt of any call of a queue begins until it is resumed.
    pub fn pause_queue(&self, name: impl Into<String>) -> GateAct {
        self.gate_act(What::Pause(HoldKind::Queue, name.into()))
    }

    /// Calls of a queue go on.
    pub fn resume_queue(&self, name: impl Into<String>) -> GateAct {
        self.gate_act(What::Resume(HoldKind::Queue, name.into()))
    }

    fn gate_act(&self, what: What) -> GateAct {
        GateAct { client: self.clone(), what, by: None, reason: None, lasting: None }
    }
}

impl GateAct {
    /// Who does it; the user of the operating system, unless set.
    pub fn by(mut self, by: impl Into<String>) -> Self {
        self.by = Some(by.into());
        self
    }

    /// Why.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// For how long a gate is shut or open; until somebody changes that, unless set.
    pub fn lasting(mut self, time: Duration) -> Self {
        self.lasting = Some(time);
        self
    }

    async fn act(self) -> Result<Acted> {
        let GateAct { client, what, by, reason, lasting } = self;
        let (by, handle) = (by.unwrap_or_else(os_user), client.handle());
        let at = handle.now();
        let (write, does) = match what {
            What::Hand(key, state) => {
                let does = does(&key, state, lasting);
                let until = lasting.map(|time| at.saturating_add(time));
                let hand = ByHand { state, by, reason, at, until };
                (GateWrite::Hand { key, hand }, does)
            }
            What::Settings(key, settings) => {
                let settings = settings.map(|gate| gate.check()).transpose();
                let settings =
                    settings.map_err(|why| Error::invalid(format!("set gate {key}: {why}")))?;
                let does = match &settings {
                    Some(_) => format!("gate {key} follows these settings from now on"),
                    None => format!("gate {key} follows its settings in the code from now on"),
                };
                let text = settings.map(|gate| serde_json::to_string(&gate).unwrap_or_default());
                let settings = StoredSettings { text, by, reason, at };
                (GateWrite::Set { key, settings }, does)
            }
            What::Pause(kind, name) => {
                let does = format!("{} {name} is paused: no call of it begins", kind.name());
                (GateWrite::Hold(Hold { kind, name, by, reason, since: at }), does)
            }
            What::Resume(kind, name) => {
                let does = format!("{} {name} goes on", kind.name());
                (GateWrite::Release { kind, name }, does)
            }
        };
        handle.write_gate(write, does).await
    }
}

impl IntoFuture for GateAct {
    type Output = Result<Acted>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Acted>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.act())
    }
}

fn does(key: &str, state: HandState, lasting: Option<Duration>) -> String {
    let time = lasting.map(|time| format!(" for {}", Human(time))).unwrap_or_default();
    match state {
        HandState::Shut => format!("gate {key} is shut{time}: nothing begins behind it"),
        HandState::Open => {
            format!("gate {key} is open{time}: calls begin whatever becomes of them")
        }
        HandState::Auto => format!("gate {key} decides by itself again"),
    }
}

/// True for a row of which something holds: of a gate, or of settings for all that begin so.
fn is_one(row: &GateRow) -> bool {
    row.is_set() || row.decided.is_some()
}

/// What is stored of a gate.
fn status_of(key: &str, stored: &StoredGates, now: Timestamp) -> GateStatus {
    let patterns = stored.gates.iter().filter_map(|row| {
        let settings = row.settings.as_ref()?;
        let value = serde_json::from_str(settings.text.as_deref()?).ok()?;
        let pattern = KeyPattern::parse(&row.key).ok().filter(|pattern| pattern.matches(key))?;
        Some((pattern, Gate::from_stored(&value).ok()?, settings.by.clone()))
    });
    let (settings, settings_by) = patterns
        .max_by(|one, other| one.0.cmp(&other.0))
        .map(|(_, gate, by)| (Some(gate), Some(by)))
        .unwrap_or_default();
    let state = state_of(key, stored, now);
    let of_code = || decided(stored.gates.iter().find(|row| row.key == key)?)?.bounds;
    let bounds = settings.clone().or_else(of_code).filter(Gate::has_limits);
    let (key, due, first_due) = (key.to_string(), 0, None);
    GateStatus { key, state, settings, settings_by, bounds, due, first_due, at: now }
}

fn decided(row: &GateRow) -> Option<Decided> {
    Decided::from_stored(row.decided.as_deref()?).ok()
}

/// How a gate stands, by what is stored of it.
fn state_of(key: &str, stored: &StoredGates, now: Timestamp) -> GateState {
    let row = stored.gates.iter().find(|row| row.key == key);
    let known = row.and_then(decided).map(|decided| decided.state);
    let state = known.unwrap_or_else(|| GateState::flowing(now));
    let hand = row.and_then(|row| row.hand.as_ref());
    let holds = |hand: &&ByHand| hand.state != HandState::Auto && state.by_hand.is_none();
    match hand.filter(holds).filter(|hand| hand.until.is_none_or(|until| until > now)) {
        None => state,
        // Nobody who works has taken notice of it.
        Some(hand) => {
            let (by, reason, since) = (hand.by.clone(), hand.reason.clone(), hand.at);
            let shut = hand.state == HandState::Shut;
            let by_hand = gate::ByHand { shut, by, reason, since, until: hand.until };
            state.set_by_hand(by_hand, since)
        }
    }
}

/// What holds a call back that is due.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// In words.
    pub(crate) by: String,
    /// How its gate stands, where that is what does. `due` are the calls that are due before it.
    pub(crate) gate: Option<GateStatus>,
    /// Nothing begins; otherwise it may as well wait for a slot.
    pub(crate) is_certain: bool,
}

impl Held {
    /// So many calls are due before it.
    pub(crate) fn comes_after(&mut self, ahead: usize, now: Timestamp) {
        let Some(gate) = &mut self.gate else { return };
        gate.due = ahead;
        let Some(of_gate) = gate.told_turn(now) else { return };
        let (key, told) = (&gate.key, gate.told_at(now));
        self.by = match self.is_certain {
            true => format!("gate {key} ({told}; {of_gate})"),
            false => format!("its turn at gate {key} ({told}; {of_gate}), or for a slot"),
        };
    }
}

/// What holds a call back that is due, as far as gates and paused kinds are concerned.
pub(crate) fn held_by(task: &TaskRow, stored: &StoredGates, now: Timestamp) -> Option<Held> {
    let is_one = |hold: &&Hold| match hold.kind {
        HoldKind::Activity => hold.name == task.name,
        HoldKind::Queue => hold.name == task.queue,
    };
    if let Some(Hold { kind, name, by, reason, .. }) = stored.holds.iter().find(is_one) {
        let why = reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let by = format!("{} {name} (paused by {by}{why})", kind.name());
        return Some(Held { by, gate: None, is_certain: true });
    }
    let status = status_of(&task.gate, stored, now);
    let is_certain = status.state.standing() != Standing::Flowing;
    (is_certain || status.bounds.is_some()).then(|| {
        let by = format!("gate {} ({})", status.key, status.told_at(now));
        Held { by, gate: Some(status), is_certain }
    })
}

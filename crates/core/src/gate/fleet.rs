//! One gate before many nodes: what nodes tell of it, and how much of what it allows each gets.
//!
//! One node decides. The others count what ends behind the gate, and tell it once a second while
//! there is anything to tell ([`Report`]). It adds that up ([`Fleet::seen`]), and shares out what
//! the gate allows ([`Fleet::shares`]) among those that have calls.
//!
//! - A share of a rate, of a ramp and of probes holds for a second and lapses ([`Shares::LAPSE`]):
//!   without somebody who decides, nothing begins.
//! - A share of what may run at once stays with its node until it has told that it follows a
//!   smaller one, or is dead.
//!
//! What one node is to have less of, another gets only when the first one cannot use it any more
//! (`lease.rs`). So all together never begin more than the gate allows, whoever has heard of what.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use super::grants::Share;
use super::lease::{Lease, fair};
use super::machine::{GateState, Seen, Standing};
use super::outcome::{Tally, Window};
use super::settings::{Gate, Rate};
use crate::Timestamp;

/// What a node tells of a gate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The turn of the gate that it knows.
    pub turn: u64,
    /// While the gate flows: what ended lately, by the second since the epoch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lately: Vec<(i64, Tally)>,
    /// While it does not: what ended of the attempts that began in this turn.
    pub ended: Tally,
    /// How many calls should have begun a while ago; `None` while it does not know.
    pub overdue: Option<u64>,
    /// How many calls are in line.
    pub waiting: u32,
    /// How many attempts run there.
    pub running: u32,
    /// How many of them, and of those that ended and said something, began in this turn.
    pub begun: u32,
    /// Until when the dependency wants to be left alone, as calls were told, the latest first.
    pub told: [Option<Timestamp>; 3],
    /// The number of the shares that it follows.
    pub follows: u64,
    /// Its calls are overdue because nobody worked for a while.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub after_outage: bool,
    /// It has shut the gate for itself, and nobody has decided about that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_alone: bool,
}

impl Report {
    /// True when it says nothing that matters to anybody.
    pub fn is_idle(&self) -> bool {
        let failed = self.lately.iter().any(|(_, ended)| ended.failed > 0);
        self.waiting == 0 && self.running == 0 && !failed && !self.is_alone && !self.after_outage
    }
}

/// How much of what a gate allows each node gets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Shares {
    /// How often it was shared out.
    pub number: u64,
    /// Into how many parts the rate, the ramp and the budget are divided.
    pub parts: u32,
    /// Who gets what.
    pub of: BTreeMap<String, NodeShare>,
}

/// What one node gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeShare {
    /// How many parts of the rate, of the ramp and of the budget.
    #[serde(skip_serializing_if = "is_zero")]
    pub parts: u32,
    /// How many probes in this turn.
    #[serde(skip_serializing_if = "is_zero")]
    pub probes: u32,
    /// How many attempts at once.
    #[serde(skip_serializing_if = "is_zero")]
    pub concurrency: u32,
}

impl NodeShare {
    /// True when it lapses unless it is shared out again.
    pub fn lapses(&self) -> bool {
        self.parts > 0 || self.probes > 0
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// How a gate stands, and how much of what it allows each node gets: what is stored.
///
/// ```
/// use resurgam_core::Timestamp;
/// use resurgam_core::gate::{Decided, GateState, Shares};
///
/// let state = GateState::flowing(Timestamp::EPOCH);
/// let (shares, bounds) = (Shares::default(), None);
/// let text = Decided { state: state.clone(), shares, bounds }.to_stored();
/// // Who wants to know how it stands need not know of shares.
/// assert_eq!(serde_json::from_str::<GateState>(&text)?, state);
/// assert_eq!(Decided::from_stored(&text)?.shares, Shares::default());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// How it stands.
    #[serde(flatten)]
    pub state: GateState,
    /// Who gets what.
    #[serde(default, skip_serializing_if = "Shares::is_none")]
    pub shares: Shares,
    /// The settings that it follows, where they bound how much begins: those who look at it from
    /// elsewhere do not know what the code says.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "stored_bounds")]
    pub bounds: Option<Gate>,
}

fn stored_bounds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Gate>, D::Error> {
    let stored = Option::<serde_json::Value>::deserialize(deserializer)?;
    // Whoever cannot read them says less about the gate, and nothing else.
    Ok(stored.and_then(|stored| Gate::from_stored(&stored).ok()))
}

impl Decided {
    /// The stored form.
    pub fn to_stored(&self) -> String {
        serde_json::to_string(self).expect("a state holds nothing that JSON cannot")
    }

    /// Reads the stored form.
    pub fn from_stored(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }
}

impl Shares {
    /// For how long a node follows a share of a rate, of a ramp or of probes, from when it asked
    /// for what it then read for the first time.
    pub const LAPSE: Duration = Duration::from_secs(1);

    /// How soon such shares are given out again.
    pub const RENEWED: Duration = Duration::from_millis(400);

    /// True when nothing was ever shared out.
    fn is_none(&self) -> bool {
        self.number == 0
    }

    /// What a node may begin, of all that the gate allows.
    pub fn of_node(&self, node: &str, whole: Share) -> Share {
        let own = self.of.get(node).copied().unwrap_or_default();
        let all = self.parts.max(1);
        let part = |number: f64| number * f64::from(own.parts) / f64::from(all);
        let of_rate = |rate: Rate| Rate {
            per_second: part(rate.per_second),
            // The sum over all nodes is no more than the whole.
            burst: (u64::from(rate.burst) * u64::from(own.parts) / u64::from(all)) as u32,
        };
        Share {
            standing: whole.standing,
            rate: whole.rate.map(of_rate),
            ramp: whole.ramp.map(part),
            probes: whole.probes.map(|_| own.probes),
            concurrency: whole.concurrency.map(|_| own.concurrency),
            // A ratio is the same for all.
            budget: whole.budget.map(|mut budget| {
                budget.min_per_second = part(budget.min_per_second);
                budget
            }),
        }
    }
}

/// What the node that decides knows of the others, of one gate.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// The node that decides.
    me: String,
    nodes: BTreeMap<String, Member>,
    number: u64,
    turn: u64,
    /// Who was there when it was looked last, and who is gone.
    alive: BTreeSet<String>,
    gone: BTreeSet<String>,
    /// Until when others may follow what the node before has shared out, and have not told.
    settles_at: Option<Timestamp>,
}

#[derive(Clone, Debug)]
struct Member {
    /// Since when it is known.
    since: Timestamp,
    /// When it was heard of, what it told, and when that was by its own word.
    heard: Option<(Timestamp, Report)>,
    told_at: Timestamp,
    parts: Lease,
    probes: Lease,
    permits: Lease,
}

impl Member {
    fn new(since: Timestamp) -> Self {
        Member {
            since,
            heard: None,
            told_at: Timestamp::from_millis(i64::MIN),
            parts: Lease::default(),
            probes: Lease::default(),
            permits: Lease::default(),
        }
    }

    /// It was given this by the node that decided before.
    fn has(&mut self, share: &NodeShare, now: Timestamp) {
        self.parts.allows(share.parts, 0, now);
        self.probes.allows(share.probes, 0, now);
        self.permits.allows(share.concurrency, 0, now);
    }

    fn report(&self) -> Option<&Report> {
        self.heard.as_ref().map(|(_, report)| report)
    }

    fn fresh(&self, now: Timestamp) -> Option<&Report> {
        let heard = self.heard.as_ref();
        heard.filter(|(at, _)| now.since(*at) <= Fleet::FRESH).map(|(_, report)| report)
    }
}

/// What is shared out.
#[derive(Clone, Copy, Debug)]
enum What {
    Parts,
    Probes,
    Permits,
}

impl What {
    fn of(self, member: &mut Member) -> &mut Lease {
        match self {
            What::Parts => &mut member.parts,
            What::Probes => &mut member.probes,
            What::Permits => &mut member.permits,
        }
    }

    /// How much of it a node uses, by what it told.
    fn used(self, report: &Report, turn: u64) -> u32 {
        match self {
            What::Parts => 0,
            What::Probes if report.turn == turn => report.begun,
            What::Probes => 0,
            What::Permits => report.running,
        }
    }
}

impl Fleet {
    /// How long what a node has told counts.
    const FRESH: Duration = Duration::from_secs(3);

    /// How long after a share has lapsed by the rules everybody has heard of it, and told.
    const LATE: Duration = Duration::from_secs(2);

    /// A node that has told nothing for so long is dead, where nobody knows who is there.
    pub const DEAD: Duration = Duration::from_secs(60);

    /// How long a node that wants a part of what is too little for all keeps it.
    const ROUND: i64 = 3_000;

    /// Nothing is known of others.
    pub fn new(me: impl Into<String>) -> Self {
        Fleet {
            me: me.into(),
            nodes: BTreeMap::new(),
            number: 0,
            turn: 0,
            alive: BTreeSet::new(),
            gone: BTreeSet::new(),
            settles_at: None,
        }
    }

    /// Begins where the node before ended that decided, with what is stored of that. For a moment
    /// nobody gets more: others may run what they have not told of.
    pub fn takes_over(&mut self, decided: Option<&Decided>, now: Timestamp) {
        self.settles_at = Some(now.saturating_add(Fleet::FRESH));
        let Some(Decided { state, shares, .. }) = decided else { return };
        self.number = self.number.max(shares.number);
        self.turn = state.turn;
        for (node, share) in &shares.of {
            let member = self.nodes.entry(node.clone()).or_insert_with(|| Member::new(now));
            member.has(share, now);
        }
    }

    /// A node told something, at this time by its word.
    pub fn hears(&mut self, node: &str, told_at: Timestamp, report: Report, now: Timestamp) {
        if self.gone.contains(node) {
            return;
        }
        self.number = self.number.max(report.follows);
        let member = self.nodes.entry(node.to_string()).or_insert_with(|| Member::new(now));
        let is_news = told_at > member.told_at
            || (told_at == member.told_at && member.report() != Some(&report));
        if is_news {
            member.told_at = told_at;
            member.heard = Some((now, report));
        }
    }

    /// True when nobody but the node that decides has any part in the gate.
    pub fn is_alone(&self, now: Timestamp) -> bool {
        self.nodes.keys().all(|node| *node == self.me) && self.settles_at.is_none_or(|at| at <= now)
    }

    /// When shares are to be looked at although nobody tells anything.
    pub fn next(&self) -> Option<Timestamp> {
        self.settles_at
    }

    /// What is known of the gate, with what the node that decides has seen itself.
    pub fn seen(
        &self,
        own: Seen,
        window: &Window,
        (settings, state): (&Gate, &GateState),
        now: Timestamp,
    ) -> Seen {
        let mut seen = own;
        let flows = state.standing() == Standing::Flowing;
        let mut told: Vec<Timestamp> = window.told().into_iter().flatten().collect();
        let mut lately = window.clone();
        for member in self.others() {
            // What ended in a turn counts however long ago it was told.
            let of_turn = member.report().filter(|report| report.turn == state.turn && !flows);
            seen.ended = seen.ended.and(of_turn.map_or(Tally::default(), |report| report.ended));
            let Some(report) = member.fresh(now) else { continue };
            told.extend(report.told.iter().flatten());
            if report.turn == state.turn || report.is_alone {
                lately.add_seconds(&report.lately);
            }
            seen.overdue = match (seen.overdue, report.overdue) {
                (own, _) if report.waiting == 0 && report.running == 0 => own,
                _ if report.turn != state.turn => None,
                (Some(own), Some(other)) => Some(own + other),
                _ => None,
            };
        }
        told.sort_unstable_by(|one, other| other.cmp(one));
        seen.told = told.get(2).copied();
        if flows {
            seen.ended = lately.tally(now);
            seen.worst = lately.worst(now, settings.least());
            seen.since = lately.since();
        }
        seen
    }

    /// The turn of a node that has shut a gate for itself, when nobody has decided about that.
    pub fn shut_alone(&self, turn: u64, now: Timestamp) -> Option<u64> {
        let reports = self.others().filter_map(|member| member.fresh(now));
        let alone = reports.filter(|report| report.is_alone && report.turn > turn);
        alone.map(|report| report.turn).max()
    }

    /// True when a node was given something that lapses.
    pub fn renews(&self, shares: &Shares) -> bool {
        shares.of.iter().any(|(node, share)| *node != self.me && share.lapses())
    }

    fn others(&self) -> impl Iterator<Item = &Member> {
        self.nodes.iter().filter(|(node, _)| **node != self.me).map(|(_, member)| member)
    }

    /// True when calls of a node are overdue because nobody worked for a while.
    pub fn is_after_outage(&self, turn: u64, now: Timestamp) -> bool {
        let mut reports = self.others().filter_map(|member| member.fresh(now));
        reports.any(|report| report.after_outage && report.turn == turn)
    }

    /// Shares out what the gate allows, among the nodes that have calls: the node that decides has
    /// this itself, and these are there, as far as that is known.
    pub fn shares(
        &mut self,
        whole: &Share,
        own: Report,
        alive: &BTreeSet<String>,
        now: Timestamp,
    ) -> Shares {
        self.forget_dead(alive, now);
        self.settles_at = self.settles_at.filter(|at| *at > now);
        if self.turn != own.turn {
            self.turn = own.turn;
            self.nodes.values_mut().for_each(|member| member.probes = Lease::default());
        }
        self.number += 1;
        let me = self.nodes.entry(self.me.clone()).or_insert_with(|| Member::new(now));
        me.heard = Some((now, Report { follows: self.number, ..own }));
        let parts = whole.rate.map_or(60, |rate| rate.burst.clamp(1, 60));
        let mut shares = Shares { number: self.number, parts, of: BTreeMap::new() };
        if whole.rate.is_some() || whole.ramp.is_some() || whole.budget.is_some() {
            for (node, parts) in self.share_out(What::Parts, parts, now) {
                shares.of.entry(node).or_default().parts = parts;
            }
        }
        if let Some(most) = whole.probes {
            for (node, probes) in self.share_out(What::Probes, most, now) {
                shares.of.entry(node).or_default().probes = probes;
            }
        }
        if let Some(most) = whole.concurrency {
            for (node, permits) in self.share_out(What::Permits, most, now) {
                shares.of.entry(node).or_default().concurrency = permits;
            }
        }
        shares
    }

    fn forget_dead(&mut self, alive: &BTreeSet<String>, now: Timestamp) {
        if self.alive != *alive {
            let before = std::mem::replace(&mut self.alive, alive.clone());
            self.gone.extend(before.into_iter().filter(|node| !alive.contains(node)));
        }
        self.nodes.retain(|node, member| {
            if alive.contains(node) {
                // One that is there and has nothing need not be known.
                let is_quiet = member.fresh(now).is_none_or(Report::is_idle);
                let has = [&member.parts, &member.probes, &member.permits];
                return !is_quiet || has.iter().any(|lease| lease.most() > 0);
            }
            let heard = member.heard.as_ref().map_or(member.since, |(at, _)| *at);
            !self.gone.contains(node) && now.since(heard) <= Fleet::DEAD
        });
    }

    /// How much of something each node may use from now on.
    fn share_out(&mut self, what: What, most: u32, now: Timestamp) -> BTreeMap<String, u32> {
        let wanted = self.wanted(what, most, now);
        let wants = |node: &String| wanted.get(node).copied().unwrap_or_default();
        let (turn, number) = (self.turn, self.number);
        let mut used = 0_u32;
        for (node, member) in &mut self.nodes {
            let report = member.report();
            let follows = report.map_or(0, |report| report.follows);
            let in_use = report.map_or(0, |report| what.used(report, turn));
            let lease = what.of(member);
            if *node == self.me {
                // It follows what it decides in the same moment.
                lease.allows(wants(node).min(lease.most()), number, now);
            }
            lease.is_told(follows, in_use);
            if !matches!(what, What::Permits) {
                lease.lapses(now.saturating_sub(Shares::LAPSE + Fleet::LATE));
            }
            used = used.saturating_add(lease.most());
        }
        let mut free = if self.settles_at.is_some() { 0 } else { most.saturating_sub(used) };
        let mut shares = BTreeMap::new();
        for (node, member) in &mut self.nodes {
            let lease = what.of(member);
            let has = lease.most();
            let more = wants(node).saturating_sub(has).min(free);
            free -= more;
            let allowed = wants(node).min(has + more);
            lease.allows(allowed, number, now);
            if allowed > 0 {
                shares.insert(node.clone(), allowed);
            }
        }
        shares
    }

    /// How much of something each node should have.
    fn wanted(&self, what: What, most: u32, now: Timestamp) -> BTreeMap<String, u32> {
        let fresh = || {
            let nodes = self.nodes.iter();
            nodes.filter_map(|(node, member)| Some((node, member.fresh(now)?)))
        };
        let waiting: u64 = fresh().map(|(_, report)| u64::from(report.waiting)).sum();
        let want = |report: &Report| match what {
            What::Parts => {
                let part = u64::from(report.waiting) * u64::from(most);
                u32::try_from(part.div_ceil(waiting.max(1))).unwrap_or(most)
            }
            // A probe that has begun stays where it is; who is heard of from an earlier turn has
            // none.
            What::Probes => what.used(report, self.turn).saturating_add(report.waiting),
            What::Permits => report.running.saturating_add(report.waiting),
        };
        let wants: Vec<(&String, u32)> =
            fresh().map(|(node, report)| (node, want(report))).filter(|it| it.1 > 0).collect();
        let round = match what {
            What::Probes => self.turn,
            What::Parts | What::Permits => now.as_millis().div_euclid(Fleet::ROUND).unsigned_abs(),
        };
        let mut given = fair(most, &wants, round);
        if !matches!(what, What::Probes) {
            // What nobody wants now is for whoever has calls at all.
            let left = most.saturating_sub(given.values().sum());
            let busy: Vec<(&String, u32)> = fresh()
                .filter(|(_, report)| !report.is_idle())
                .map(|(node, _)| (node, most))
                .collect();
            for (node, more) in fair(left, &busy, 0) {
                *given.entry(node).or_default() += more;
            }
        }
        given
    }
}

#[cfg(test)]
mod tests;

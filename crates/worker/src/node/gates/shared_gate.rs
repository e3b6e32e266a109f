//! What a node has of a gate that it shares with others ([`SharedGate`]).

use std::collections::BTreeSet;

use resurgam_core::Timestamp;
use resurgam_core::gate::{Decided, Fleet, GateState, Report, Share, Shares};

/// Which node this is among those that share gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Its name.
    pub(super) me: String,
    /// Since when it decides about gates, if it does.
    pub(super) decides: Option<Decides>,
}

/// A node decides about gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decides {
    /// Since when.
    pub(super) since: Timestamp,
    /// Others worked when it began to, and may have more than is known.
    pub(super) after_others: bool,
}

/// What a node has of a gate that it shares with others.
#[derive(Debug)]
pub(crate) struct SharedGate {
    me: String,
    /// What is known of the others, by the node that decides.
    fleet: Option<Fleet>,
    /// What was shared out last, as far as it is known here.
    shares: Shares,
    /// When what it says first was asked for.
    asked_at: Option<Timestamp>,
    /// This node has shut the gate for itself.
    is_alone: bool,
    /// What it told last, when, and whether it had a share then.
    told: Option<(Timestamp, Report, bool)>,
    /// What the node that decides stored last, and when it shared out last.
    stored: Shares,
    shared_at: Option<Timestamp>,
    /// Calls of other holders wait behind the gate that may run here.
    is_wanted: bool,
}

/// What follows from sharing a gate out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    /// Others are to know.
    pub(super) is_news: bool,
}

impl SharedGate {
    /// Nobody has shared it out, as far as is known.
    pub(super) fn new(place: &Place) -> Self {
        let mut shared = SharedGate {
            me: place.me.clone(),
            fleet: None,
            shares: Shares::default(),
            asked_at: None,
            is_alone: false,
            told: None,
            stored: Shares::default(),
            shared_at: None,
            is_wanted: false,
        };
        shared.is_placed(place, None);
        shared
    }

    /// This node has another place, and the gate stands as this says.
    pub(super) fn is_placed(&mut self, place: &Place, state: Option<&GateState>) {
        self.me.clone_from(&place.me);
        self.fleet = place.decides.map(|decides| {
            let mut fleet = Fleet::new(place.me.clone());
            let shares = self.shares.clone();
            let decided = state.map(|state| Decided { state: state.clone(), shares, bounds: None });
            if decides.after_others {
                fleet.takes_over(decided.as_ref(), decides.since);
            }
            fleet
        });
        self.is_alone &= self.fleet.is_none();
        self.told = None;
    }

    pub(super) fn fleet(&self) -> Option<&Fleet> {
        self.fleet.as_ref()
    }

    pub(super) fn decides(&self) -> bool {
        self.fleet.is_some()
    }

    pub(super) fn is_alone(&self) -> bool {
        self.is_alone
    }

    pub(super) fn number(&self) -> u64 {
        self.shares.number
    }

    /// What the gate allows this node, of all that it allows.
    pub(super) fn share(&self, whole: Share, now: Timestamp) -> Share {
        match self.fleet.as_ref().is_some_and(|fleet| fleet.is_alone(now)) {
            true => whole,
            false => self.shares.of_node(&self.me, whole),
        }
    }

    /// True when what it has of a rate, of a ramp or of probes holds no more.
    pub(super) fn has_lapsed(&self, now: Timestamp) -> bool {
        let until = self.asked_at.map(|at| at.saturating_add(Shares::LAPSE));
        self.fleet.is_none() && until.is_none_or(|until| until < now)
    }

    /// What was shared out was read, which was asked for then. True when that is new. A node that
    /// decides goes on from what another one has shared out.
    pub(super) fn reads(
        &mut self,
        shares: Shares,
        state: &GateState,
        (asked_at, now): (Timestamp, Timestamp),
    ) -> bool {
        let is_new = match self.decides() {
            true => shares.number > self.shares.number,
            false => shares.number != self.shares.number,
        };
        if is_new {
            (self.shares, self.asked_at) = (shares.clone(), Some(asked_at));
        }
        if let Some(fleet) = self.fleet.as_mut().filter(|_| is_new) {
            self.stored = shares.clone();
            fleet.takes_over(Some(&Decided { state: state.clone(), shares, bounds: None }), now);
        }
        is_new
    }

    /// This node shuts the gate for itself, or follows what was decided.
    pub(super) fn shuts_alone(&mut self, is_alone: bool) {
        self.is_alone = is_alone;
    }

    /// Calls of other holders wait, or do not, that may run here.
    pub(super) fn wants(&mut self, is_wanted: bool) {
        self.is_wanted = is_wanted;
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    fn has_share(&self) -> bool {
        self.shares.of.contains_key(&self.me)
    }

    /// True when no node has, wants or was told anything of it that matters.
    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        let nobody_has = self.shares.of.is_empty() && self.stored.of.is_empty();
        let is_known = self.fleet.as_ref().is_none_or(|fleet| fleet.is_alone(now));
        nobody_has && is_known && !self.is_alone && !self.is_wanted && !self.is_to_go_on()
    }

    /// True when the last word of this node was not that it has and wants nothing.
    pub(super) fn is_to_go_on(&self) -> bool {
        let told = |(_, report, had): &(Timestamp, Report, bool)| *had || !report.is_idle();
        self.has_share() || self.told.as_ref().is_some_and(told)
    }

    pub(super) fn told_at(&self) -> Option<Timestamp> {
        self.told.as_ref().map(|(at, _, _)| *at)
    }

    pub(super) fn tells(&mut self, report: Report, now: Timestamp) {
        self.told = Some((now, report, self.has_share()));
    }

    /// Another node told something.
    pub(super) fn hears(&mut self, node: &str, at: Timestamp, report: Report, now: Timestamp) {
        if let Some(fleet) = self.fleet.as_mut().filter(|_| node != self.me) {
            fleet.hears(node, at, report, now);
        }
    }

    /// When the gate is to be shared out again, by the node that decides.
    pub(super) fn next_sharing(&self, now: Timestamp) -> Option<Timestamp> {
        let fleet = self.fleet.as_ref().filter(|fleet| !fleet.is_alone(now))?;
        let again = self.shared_at.map(|at| at.saturating_add(Shares::RENEWED));
        again.or(fleet.next()).or(Some(now))
    }

    /// Shares the gate out.
    pub(super) fn share_out(
        &mut self,
        whole: &Share,
        own: Report,
        alive: &BTreeSet<String>,
        now: Timestamp,
    ) -> Sharing {
        let Some(fleet) = &mut self.fleet else { return Sharing { is_news: false } };
        let others_have = self.stored.of.keys().any(|node| *node != self.me);
        if fleet.is_alone(now) && !others_have {
            return Sharing { is_news: false };
        }
        self.shared_at = Some(now);
        self.shares = fleet.shares(whole, own, alive, now);
        let is_news = self.shares.of != self.stored.of || fleet.renews(&self.shares);
        Sharing { is_news }
    }

    /// What was shared out is about to be stored.
    pub(super) fn is_stored(&mut self) -> Shares {
        self.stored = self.shares.clone();
        self.shares.clone()
    }
}

//! Who works for whom: the sessions of remote workers, what they offer, the attempts that wait for
//! one and those that were given out. Pure: time comes in as an argument.
//!
//! | an attempt          | becomes            | when                                              |
//! |---------------------|--------------------|---------------------------------------------------|
//! | arrives             | waiting            | the engine begins it                              |
//! | arrives             | given to somebody  | a server before this one gave it to a session     |
//! | waiting             | given to a session | a poll of a session that offers it takes it       |
//! | given to somebody   | given to a session | a session names it                                |
//! | given to somebody   | lost               | nobody has named it for a lease                   |
//! | given               | over               | its session reports, or the engine ends it        |
//! | given               | lost               | its session was silent for a lease                |
//! | waiting             | unwanted           | no session that was heard of offers it any more   |
//!
//! What a session names that is not at this desk is kept with the session ([`Desk::runs`]): it is
//! at the desk of another server, or arrives here soon.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use resurgam::Timestamp;
use resurgam_core::retry::RetryPolicy;

use super::name::Name;

/// How long a session may be silent before its attempts are lost, unless somebody says otherwise.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// What a worker says about an activity that it offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Offer {
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) timeout: Option<Duration>,
}

/// Which attempts a poll takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wants {
    pub(crate) activities: BTreeSet<String>,
    /// All with an empty set.
    pub(crate) queues: BTreeSet<String>,
}

impl Wants {
    fn takes(&self, about: &About) -> bool {
        self.activities.contains(&about.activity)
            && (self.queues.is_empty() || self.queues.contains(&about.queue))
    }
}

/// Where an attempt belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) activity: String,
    pub(crate) queue: String,
}

#[derive(Debug)]
struct Session {
    heard: Timestamp,
    /// The session that began last decides about what several offer.
    began: u64,
    offers: BTreeMap<String, Arc<Offer>>,
    /// What it has that is not at this desk, and whether it was told at once that it is to end.
    elsewhere: BTreeMap<Name, bool>,
}

/// Who has an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Given {
    /// It waits.
    Nobody,
    /// A session that has not named it yet, and loses it then.
    Somebody {
        until: Timestamp,
    },
    To(String),
}

impl Given {
    fn is_to(&self, session: &str) -> bool {
        matches!(self, Given::To(given) if given == session)
    }
}

#[derive(Debug)]
struct Entry<A> {
    name: Name,
    about: About,
    given: Given,
    /// It is to end.
    cancelled: bool,
    /// A poll of its session was answered because it is to end. Others are not answered sooner for
    /// it, or a worker would ask without a pause until the attempt has ended.
    told: bool,
    attempt: A,
}

/// A poll that waits, in the order of arrival.
#[derive(Debug)]
struct Poll {
    number: u64,
    session: String,
    wants: Wants,
    /// It was told that something waits for it, and has not looked yet.
    woken: bool,
}

/// The sessions, and their attempts, which are whatever the caller keeps of them.
#[derive(Debug)]
pub(crate) struct Desk<A> {
    sessions: BTreeMap<String, Session>,
    /// By the order of arrival.
    entries: BTreeMap<u64, Entry<A>>,
    names: BTreeMap<Name, u64>,
    /// Sessions that other servers have heard of, and when.
    others: BTreeMap<String, Timestamp>,
    /// What was said about activities some time ago, and when they were last offered.
    stored: BTreeMap<String, (Arc<Offer>, Timestamp)>,
    polls: Vec<Poll>,
    next: u64,
    /// A session has come, offers something else, or names what is not here.
    changed: bool,
}

impl<A> Default for Desk<A> {
    fn default() -> Self {
        Desk {
            sessions: BTreeMap::new(),
            entries: BTreeMap::new(),
            names: BTreeMap::new(),
            others: BTreeMap::new(),
            stored: BTreeMap::new(),
            polls: Vec::new(),
            next: 0,
            changed: false,
        }
    }
}

impl<A> Desk<A> {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A session says something. True when an activity is offered now that was not before.
    pub(crate) fn hear(
        &mut self,
        session: &str,
        offers: Option<BTreeMap<String, Offer>>,
        now: Timestamp,
    ) -> bool {
        let offers = offers.filter(|offers| !self.has_offered(session, offers));
        let is_offered = |name: &String| self.offer(name).is_some();
        let is_new = offers.as_ref().is_some_and(|offers| !offers.keys().all(is_offered));
        let began = self.number();
        let (offered, elsewhere) = (BTreeMap::new(), BTreeMap::new());
        let new = || Session { heard: now, began, offers: offered, elsewhere };
        self.changed |= offers.is_some() || !self.sessions.contains_key(session);
        let known = self.sessions.entry(session.to_string()).or_insert_with(new);
        known.heard = known.heard.max(now);
        if let Some(offers) = offers {
            known.offers = offers.into_iter().map(|(name, it)| (name, Arc::new(it))).collect();
        }
        is_new
    }

    /// Whether a session says again what it said before, as most polls do.
    fn has_offered(&self, session: &str, offers: &BTreeMap<String, Offer>) -> bool {
        let Some(known) = self.sessions.get(session) else { return false };
        let known = known.offers.iter().map(|(name, offer)| (name, offer.as_ref()));
        known.eq(offers)
    }

    /// The activities that somebody offers.
    pub(crate) fn offered(&self) -> impl Iterator<Item = &str> {
        self.sessions.values().flat_map(|session| session.offers.keys().map(String::as_str))
    }

    /// What is said about an activity by the session that began last.
    pub(crate) fn offer(&self, activity: &str) -> Option<Arc<Offer>> {
        let offering =
            self.sessions.values().filter_map(|it| Some((it.began, it.offers.get(activity)?)));
        offering.max_by_key(|(began, _)| *began).map(|(_, offer)| offer.clone())
    }

    /// What is known of an activity that nobody need offer now: what was said about it last.
    pub(crate) fn known(&self, activity: &str) -> Option<Arc<Offer>> {
        let stored = || self.stored.get(activity).map(|(offer, _)| offer.clone());
        self.offer(activity).or_else(stored)
    }

    /// The activities that are known.
    pub(crate) fn all_known(&self) -> impl Iterator<Item = &str> {
        self.offered().chain(self.stored.keys().map(String::as_str))
    }

    /// Somebody offered an activity some time ago. True when it was not known.
    pub(crate) fn learns(&mut self, activity: &str, offer: Offer, at: Timestamp) -> bool {
        let is_new = self.known(activity).is_none();
        let newest = self.stored.get(activity).is_none_or(|(_, before)| *before <= at);
        if newest {
            self.stored.insert(activity.to_string(), (Arc::new(offer), at));
        }
        is_new
    }

    /// Notes that activities are offered now, of which it was noted last before `before`, or that
    /// something else is said about. Answers with what is to be stored of them, and forgets those
    /// that nobody has offered since `forgotten`.
    pub(crate) fn offers_to_store(
        &mut self,
        now: Timestamp,
        before: Timestamp,
        forgotten: Timestamp,
    ) -> Vec<(String, Arc<Offer>)> {
        let names: BTreeSet<String> = self.offered().map(str::to_string).collect();
        let mut found = Vec::new();
        for name in names {
            let Some(offer) = self.offer(&name) else { continue };
            let is_stored = self
                .stored
                .get(&name)
                .is_some_and(|(stored, at)| *at >= before && **stored == *offer);
            if !is_stored {
                self.stored.insert(name.clone(), (offer.clone(), now));
                found.push((name, offer));
            }
        }
        self.stored.retain(|_, (_, at)| *at >= forgotten);
        found
    }

    /// Another server has heard of a session, which has these attempts. What is here of them, and
    /// was given by a server before this one, is that session's.
    pub(crate) fn heard_elsewhere(
        &mut self,
        session: &str,
        at: Timestamp,
        has: impl IntoIterator<Item = Name>,
    ) {
        let heard = self.others.entry(session.to_string()).or_insert(at);
        *heard = at.max(*heard);
        for name in has {
            let number = self.number_of(name);
            let Some(entry) = number.and_then(|number| self.entries.get_mut(&number)) else {
                continue;
            };
            if matches!(entry.given, Given::Somebody { .. }) {
                entry.given = Given::To(session.to_string());
            }
        }
    }

    /// Whether a session has come since this was asked last, offers something else, or names what
    /// is not at this desk.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// What a session has that is not at this desk.
    pub(crate) fn elsewhere(&self, session: &str) -> impl Iterator<Item = Name> {
        let known = self.sessions.get(session);
        known.into_iter().flat_map(|known| known.elsewhere.keys().copied())
    }

    /// An attempt begins. Answers with its number, and with the poll that is to look.
    pub(crate) fn arrives(&mut self, name: Name, about: About, attempt: A) -> (u64, Option<u64>) {
        let woken = self.wake(&about);
        (self.enters(name, about, Given::Nobody, attempt), woken)
    }

    /// An attempt goes on that a server before this one has given to a session: to the one that has
    /// named it, or that names it until then.
    pub(crate) fn resumes(
        &mut self,
        name: Name,
        about: About,
        attempt: A,
        until: Timestamp,
    ) -> u64 {
        let has_it = self.sessions.iter_mut().find(|(_, it)| it.elsewhere.contains_key(&name));
        let given = match has_it {
            Some((session, known)) => {
                known.elsewhere.remove(&name);
                Given::To(session.clone())
            }
            None => Given::Somebody { until },
        };
        self.enters(name, about, given, attempt)
    }

    fn enters(&mut self, name: Name, about: About, given: Given, attempt: A) -> u64 {
        let number = self.number();
        self.names.insert(name, number);
        let entry = Entry { name, about, given, cancelled: false, told: false, attempt };
        self.entries.insert(number, entry);
        number
    }

    /// The attempt of this name, if it is at this desk.
    pub(crate) fn number_of(&self, name: Name) -> Option<u64> {
        self.names.get(&name).copied()
    }

    /// A session names an attempt, which it was given by whoever. Answers with its number, when it
    /// is at this desk.
    pub(crate) fn names(&mut self, session: &str, name: Name) -> Option<u64> {
        let number = self.number_of(name)?;
        let entry = self.entries.get_mut(&number)?;
        if !matches!(entry.given, Given::To(_)) {
            entry.given = Given::To(session.to_string());
        }
        Some(number)
    }

    /// What a session has, all of it. Answers with what is not at this desk, and whether it was
    /// not there before either: a report that is on its way takes an attempt from the desk, and the
    /// session names it until it has the answer.
    pub(crate) fn runs(
        &mut self,
        session: &str,
        names: impl IntoIterator<Item = Name>,
    ) -> Vec<(Name, bool)> {
        let names = names.into_iter().filter(|name| self.names(session, *name).is_none());
        let elsewhere: Vec<Name> = names.collect();
        let Some(known) = self.sessions.get_mut(session) else {
            return elsewhere.into_iter().map(|name| (name, false)).collect();
        };
        let before = std::mem::take(&mut known.elsewhere);
        let told = |name: &Name| before.get(name).copied().unwrap_or_default();
        known.elsewhere = elsewhere.iter().map(|name| (*name, told(name))).collect();
        self.changed |= elsewhere.iter().any(|name| !before.contains_key(name));
        elsewhere.into_iter().map(|name| (name, before.contains_key(&name))).collect()
    }

    /// Whether a session is to be told at once that these attempts, which are not at this desk, are
    /// to end. True once for each: whoever asks tells it.
    pub(crate) fn has_news_of_elsewhere(&mut self, session: &str, ends: &[Name]) -> bool {
        let Some(known) = self.sessions.get_mut(session) else { return false };
        let mut is_news = false;
        for name in ends {
            let told = known.elsewhere.get_mut(name);
            is_news |= told.is_some_and(|told| !std::mem::replace(told, true));
        }
        is_news
    }

    fn wake(&mut self, about: &About) -> Option<u64> {
        let poll = self.polls.iter_mut().find(|poll| !poll.woken && poll.wants.takes(about))?;
        poll.woken = true;
        Some(poll.number)
    }

    /// A poll begins to wait. Answers with its number, and with the older poll of the session that
    /// it ends.
    pub(crate) fn waits(&mut self, session: &str, wants: Wants) -> (u64, Option<u64>) {
        let older = self.polls.iter().position(|poll| poll.session == session);
        let older = older.map(|at| self.polls.remove(at).number);
        let number = self.number();
        self.polls.push(Poll { number, session: session.to_string(), wants, woken: false });
        (number, older)
    }

    /// A poll waits no more. Answers with the polls that are to look in its place.
    pub(crate) fn leaves(&mut self, poll: u64) -> Vec<u64> {
        self.polls.retain(|waiting| waiting.number != poll);
        let waiting: Vec<About> = self
            .entries
            .values()
            .filter(|it| it.given == Given::Nobody)
            .map(|it| it.about.clone())
            .collect();
        // As many as wait are told, each once.
        waiting.iter().filter_map(|about| self.wake(about)).collect()
    }

    /// Gives a session attempts that it wants, the oldest first.
    pub(crate) fn give(&mut self, session: &str, wants: &Wants, most: usize) -> Vec<u64> {
        let fitting = self.entries.iter_mut().filter(|(_, it)| it.given == Given::Nobody);
        let fitting = fitting.filter(|(_, it)| wants.takes(&it.about)).take(most);
        fitting
            .map(|(number, entry)| {
                entry.given = Given::To(session.to_string());
                *number
            })
            .collect()
    }

    /// Attempts that a session has and does not know of: the answer that gave them was lost, or
    /// another server was told how they ended.
    pub(crate) fn unknown_to<'a>(
        &'a self,
        session: &'a str,
        running: &'a BTreeSet<u64>,
    ) -> impl Iterator<Item = (u64, &'a A)> {
        let unknown = self.of(session).filter(|number| !running.contains(number));
        unknown.map(|number| (number, &self.entries[&number].attempt))
    }

    fn of<'a>(&'a self, session: &'a str) -> impl Iterator<Item = u64> + 'a {
        let given = self.entries.iter().filter(move |(_, it)| it.given.is_to(session));
        given.map(|(number, _)| *number)
    }

    /// What is kept of an attempt that a session has.
    pub(crate) fn held(&self, session: &str, number: u64) -> Option<&A> {
        let entry = self.entries.get(&number)?;
        entry.given.is_to(session).then_some(&entry.attempt)
    }

    /// The same, to be changed.
    pub(crate) fn held_mut(&mut self, session: &str, number: u64) -> Option<&mut A> {
        let entry = self.entries.get_mut(&number)?;
        entry.given.is_to(session).then_some(&mut entry.attempt)
    }

    /// Whether a session is to be told at once that one of these attempts is to end. True once for
    /// each: whoever asks tells it.
    pub(crate) fn has_news_of_ends(&mut self, session: &str, running: &BTreeSet<u64>) -> bool {
        let mut is_news = false;
        for number in running {
            let Some(entry) = self.entries.get_mut(number) else { continue };
            if entry.cancelled && entry.given.is_to(session) {
                is_news |= !std::mem::replace(&mut entry.told, true);
            }
        }
        is_news
    }

    /// The attempts of a session that are to end.
    pub(crate) fn cancelled(&self, session: &str) -> Vec<Name> {
        let all = self.of(session).map(|number| &self.entries[&number]);
        all.filter(|entry| entry.cancelled).map(|entry| entry.name).collect()
    }

    /// An attempt is to end. Answers with the poll of its session, which is to say so.
    pub(crate) fn cancel(&mut self, number: u64) -> Option<u64> {
        let entry = self.entries.get_mut(&number)?;
        entry.cancelled = true;
        let Given::To(session) = entry.given.clone() else { return None };
        let poll = self.polls.iter_mut().find(|poll| poll.session == session)?;
        poll.woken = true;
        Some(poll.number)
    }

    /// An attempt is over.
    pub(crate) fn over(&mut self, number: u64) -> Option<A> {
        let entry = self.entries.remove(&number)?;
        // Another attempt of the same name would have taken its place.
        if self.number_of(entry.name) == Some(number) {
            self.names.remove(&entry.name);
        }
        Some(entry.attempt)
    }

    /// Forgets sessions that were silent for a lease. What they had is lost.
    pub(crate) fn forget_silent(&mut self, now: Timestamp, lease: Duration) {
        self.sessions.retain(|_, session| now.since(session.heard) <= lease);
        self.others.retain(|_, heard| now.since(*heard) <= lease);
    }

    /// Those that were heard of lately, with what they offer and how many attempts they have.
    pub(crate) fn seen(&self) -> impl Iterator<Item = Seen> + '_ {
        self.sessions.iter().map(|(name, session)| Seen {
            session: name.clone(),
            heard: session.heard,
            activities: session.offers.keys().cloned().collect(),
            running: self.of(name).count(),
            polls: self.polls.iter().any(|poll| poll.session == *name),
        })
    }

    /// True when somebody has heard of a session within a lease.
    fn is_there(&self, session: &str) -> bool {
        self.sessions.contains_key(session) || self.others.contains_key(session)
    }

    /// How an attempt stands.
    pub(crate) fn standing(&self, number: u64, now: Timestamp) -> Standing {
        let Some(entry) = self.entries.get(&number) else { return Standing::Over };
        match &entry.given {
            Given::To(session) if self.is_there(session) => Standing::Given,
            Given::Somebody { until } if now < *until => Standing::Given,
            Given::To(_) | Given::Somebody { .. } => Standing::Lost,
            Given::Nobody if self.offer(&entry.about.activity).is_some() => Standing::Waits,
            Given::Nobody => Standing::Unwanted,
        }
    }
}

/// A session as somebody sees it who looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) session: String,
    pub(crate) heard: Timestamp,
    pub(crate) activities: Vec<String>,
    /// How many attempts it has.
    pub(crate) running: usize,
    /// It waits for more.
    pub(crate) polls: bool,
}

/// How an attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Waits,
    Given,
    /// Its session has gone.
    Lost,
    /// Nobody offers its activity any more.
    Unwanted,
    Over,
}

#[cfg(test)]
mod tests {
    use resurgam_core::{RunKey, Seq, Uid};
    use resurgam_watchdog::test;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn about(activity: &str) -> About {
        About { activity: activity.to_string(), queue: "default".to_string() }
    }

    /// An attempt arrives whose name is of this number.
    fn arrives(desk: &mut Desk<()>, activity: &str, token: u64) -> (u64, Option<u64>) {
        desk.arrives(name(token), about(activity), ())
    }

    fn name(token: u64) -> Name {
        Name { call: RunKey::first(Uid(1)).call(Seq(token)), token }
    }

    fn wants(activities: &[&str]) -> Wants {
        let activities = activities.iter().map(|name| (*name).to_string()).collect();
        Wants { activities, queues: BTreeSet::new() }
    }

    fn offers(desk: &mut Desk<()>, session: &str, names: &[&str], now: Timestamp) -> bool {
        let offers = names.iter().map(|name| ((*name).to_string(), Offer::default()));
        desk.hear(session, Some(offers.collect()), now)
    }

    #[test]
    fn the_oldest_poll_that_wants_an_attempt_is_woken_and_each_once() {
        let mut desk = Desk::default();
        let (refunds, _) = desk.waits("a", wants(&["refund"]));
        let (first, _) = desk.waits("b", wants(&["charge"]));
        let (second, _) = desk.waits("c", wants(&["charge", "refund"]));
        assert_eq!(arrives(&mut desk, "charge", 1).1, Some(first));
        assert_eq!(arrives(&mut desk, "charge", 2).1, Some(second));
        assert_eq!(arrives(&mut desk, "charge", 3).1, None);
        assert_eq!(desk.give("b", &wants(&["charge"]), 2).len(), 2);
        // What is left is for the next one, which was told already.
        assert!(desk.leaves(first).is_empty());
        assert_eq!(desk.give("c", &wants(&["charge"]), 2).len(), 1);
        assert!(desk.leaves(second).is_empty());
        assert_eq!(arrives(&mut desk, "refund", 4).1, Some(refunds));
    }

    #[test]
    fn a_poll_that_goes_away_leaves_its_attempts_to_the_next() {
        let mut desk = Desk::default();
        let (first, _) = desk.waits("a", wants(&["charge"]));
        assert_eq!(arrives(&mut desk, "charge", 5).1, Some(first));
        let (second, _) = desk.waits("b", wants(&["charge"]));
        assert_eq!(desk.leaves(first), [second]);
        let (third, ended) = desk.waits("b", wants(&["charge"]));
        assert_eq!((ended, desk.leaves(0)), (Some(second), vec![third]));
    }

    #[test]
    fn queues_are_minded_where_a_worker_names_some() {
        let mut desk = Desk::default();
        let queues = |name: &str| Wants { queues: [name.to_string()].into(), ..wants(&["charge"]) };
        arrives(&mut desk, "charge", 6);
        assert!(desk.give("a", &queues("pay"), 9).is_empty());
        assert_eq!(desk.give("a", &queues("default"), 9).len(), 1);
    }

    #[test]
    fn what_an_answer_gave_that_was_lost_is_given_again_and_nobody_else_has_it() {
        let mut desk = Desk::default();
        let (number, _) = arrives(&mut desk, "charge", 7);
        desk.give("a", &wants(&["charge"]), 1);
        let unknown = |session: &str, running: BTreeSet<u64>| {
            desk.unknown_to(session, &running).map(|(number, ())| number).collect::<Vec<_>>()
        };
        assert_eq!(unknown("a", BTreeSet::new()), [number]);
        assert!(unknown("a", [number].into()).is_empty());
        assert!(unknown("b", BTreeSet::new()).is_empty());
        assert!(desk.held("a", number).is_some() && desk.held("b", number).is_none());
        assert!(desk.over(number).is_some() && desk.held("a", number).is_none());
    }

    #[test]
    fn a_silent_session_loses_what_it_has_and_what_nobody_offers_is_handed_back() {
        let mut desk = Desk::default();
        assert!(offers(&mut desk, "a", &["charge"], at(0)));
        assert!(!offers(&mut desk, "a", &["charge"], at(1)));
        let (given, _) = arrives(&mut desk, "charge", 8);
        desk.give("a", &wants(&["charge"]), 1);
        let (waits, _) = arrives(&mut desk, "charge", 9);
        let mut standing = |now| {
            desk.forget_silent(now, LEASE);
            (desk.standing(given, now), desk.standing(waits, now))
        };
        assert_eq!(standing(at(31)), (Standing::Given, Standing::Waits));
        assert_eq!(standing(at(32)), (Standing::Lost, Standing::Unwanted));
        assert_eq!(desk.offer("charge"), None);
        // It comes back, and is one that has what it had.
        offers(&mut desk, "a", &["charge"], at(33));
        assert_eq!(desk.standing(given, at(33)), Standing::Given);
    }

    #[test]
    fn a_session_hears_that_its_attempt_is_to_end() {
        let mut desk = Desk::default();
        let (number, _) = arrives(&mut desk, "charge", 10);
        desk.give("a", &wants(&["charge"]), 1);
        let (poll, _) = desk.waits("a", wants(&["charge"]));
        assert_eq!(desk.cancel(number), Some(poll));
        assert_eq!((desk.cancelled("a"), desk.cancelled("b")), (vec![name(10)], vec![]));
        let running = [number, 99].into();
        assert!(!desk.has_news_of_ends("b", &running));
        assert!(desk.has_news_of_ends("a", &running) && !desk.has_news_of_ends("a", &running));
        assert_eq!(desk.standing(99, at(0)), Standing::Over);
    }

    #[test]
    fn what_a_server_before_gave_out_is_the_sessions_that_names_it_within_a_lease() {
        let mut desk = Desk::default();
        offers(&mut desk, "a", &["charge"], at(0));
        let until = at(30);
        let [named, other] =
            [1, 2].map(|token| desk.resumes(name(token), about("charge"), (), until));
        // Nobody is given it meanwhile.
        assert!(desk.give("a", &wants(&["charge"]), 9).is_empty());
        assert_eq!(desk.standing(named, at(29)), Standing::Given);
        assert_eq!(desk.runs("a", [name(1), name(7)]), [(name(7), false)]);
        assert_eq!(desk.runs("a", [name(1), name(7)]), [(name(7), true)]);
        assert!(desk.held("a", named).is_some() && desk.held("a", other).is_none());
        assert_eq!(desk.standing(named, at(30)), Standing::Given);
        assert_eq!(desk.standing(other, at(30)), Standing::Lost);
        // What it named before it arrived is its own at once.
        let late = desk.resumes(name(7), about("charge"), (), until);
        assert!(desk.held("a", late).is_some());
        assert_eq!(desk.runs("a", [name(1), name(7)]), []);
        // It is not another session's, whatever that says.
        desk.runs("b", [name(7)]);
        assert!(desk.held("a", late).is_some() && desk.held("b", late).is_none());
    }

    #[test]
    fn a_session_that_speaks_with_another_server_keeps_what_it_has() {
        let mut desk = Desk::default();
        let mine = desk.resumes(name(1), about("charge"), (), at(30));
        desk.heard_elsewhere("a", at(25), [name(1), name(7)]);
        assert_eq!(desk.standing(mine, at(40)), Standing::Given);
        desk.forget_silent(at(56), LEASE);
        assert_eq!(desk.standing(mine, at(56)), Standing::Lost);
        desk.heard_elsewhere("a", at(56), []);
        assert_eq!(desk.standing(mine, at(56)), Standing::Given);
    }

    #[test]
    fn what_was_offered_once_is_known_until_it_is_old_and_what_is_offered_is_stored_once() {
        let mut desk: Desk<()> = Desk::default();
        let offer = |seconds| Offer { retry: None, timeout: Some(Duration::from_secs(seconds)) };
        assert!(desk.learns("refund", offer(1), at(5)));
        assert!(!desk.learns("refund", offer(2), at(4)));
        assert_eq!(desk.known("refund").unwrap().timeout, Some(Duration::from_secs(1)));
        assert_eq!(desk.offer("refund"), None);
        desk.hear("a", Some([("charge".to_string(), offer(3))].into()), at(6));
        let stored = |desk: &mut Desk<()>, now, before| {
            let found = desk.offers_to_store(at(now), at(before), at(5));
            found.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(stored(&mut desk, 6, 0), ["charge"]);
        assert_eq!(stored(&mut desk, 7, 0), <[&str; 0]>::default());
        assert_eq!(stored(&mut desk, 8, 7), ["charge"]);
        desk.hear("a", Some([("charge".to_string(), offer(4))].into()), at(9));
        assert_eq!(stored(&mut desk, 9, 0), ["charge"]);
        desk.forget_silent(at(90), LEASE);
        assert_eq!(desk.known("charge").unwrap().timeout, Some(Duration::from_secs(4)));
        desk.offers_to_store(at(90), at(0), at(10));
        assert_eq!((desk.known("charge"), desk.known("refund")), (None, None));
    }

    #[test]
    fn that_an_attempt_elsewhere_is_to_end_is_told_at_once_and_once() {
        let mut desk: Desk<()> = Desk::default();
        offers(&mut desk, "a", &["charge"], at(0));
        desk.runs("a", [name(7)]);
        assert!(!desk.has_news_of_elsewhere("b", &[name(7)]));
        assert!(desk.has_news_of_elsewhere("a", &[name(7)]));
        desk.runs("a", [name(7)]);
        assert!(!desk.has_news_of_elsewhere("a", &[name(7)]));
    }

    #[test]
    fn the_session_that_began_last_decides_about_what_several_offer() {
        let mut desk: Desk<()> = Desk::default();
        let offer = |seconds| {
            let timeout = Some(Duration::from_secs(seconds));
            Some([("charge".to_string(), Offer { retry: None, timeout })].into())
        };
        desk.hear("old", offer(1), at(0));
        desk.hear("new", offer(2), at(1));
        desk.hear("old", offer(1), at(2));
        assert_eq!(desk.offer("charge").unwrap().timeout, Some(Duration::from_secs(2)));
    }
}

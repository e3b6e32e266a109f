//! Who works for whom: the sessions of remote workers, what they offer, the attempts that wait for
//! one and those that were given out. Pure: time comes in as an argument.
//!
//! | an attempt          | becomes            | when                                              |
//! |---------------------|--------------------|---------------------------------------------------|
//! | arrives             | waiting            | the engine begins it                              |
//! | waiting             | given to a session | a poll of a session that offers it takes it       |
//! | given               | over               | its session reports, or the engine ends it        |
//! | given               | lost               | its session was silent for a lease                |
//! | waiting             | unwanted           | no session that was heard of offers it any more   |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use resurgam::Timestamp;
use resurgam_core::retry::RetryPolicy;

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
}

#[derive(Debug)]
struct Entry<A> {
    about: About,
    /// Which session has it; none while it waits.
    given: Option<String>,
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
    polls: Vec<Poll>,
    next: u64,
}

impl<A> Default for Desk<A> {
    fn default() -> Self {
        Desk { sessions: BTreeMap::new(), entries: BTreeMap::new(), polls: Vec::new(), next: 0 }
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
        let new = || Session { heard: now, began, offers: BTreeMap::new() };
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

    /// An attempt begins. Answers with its number, and with the poll that is to look.
    pub(crate) fn arrives(&mut self, about: About, attempt: A) -> (u64, Option<u64>) {
        let number = self.number();
        let woken = self.wake(&about);
        self.entries
            .insert(number, Entry { about, given: None, cancelled: false, told: false, attempt });
        (number, woken)
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
            .filter(|it| it.given.is_none())
            .map(|it| it.about.clone())
            .collect();
        // As many as wait are told, each once.
        waiting.iter().filter_map(|about| self.wake(about)).collect()
    }

    /// Gives a session attempts that it wants, the oldest first.
    pub(crate) fn give(&mut self, session: &str, wants: &Wants, most: usize) -> Vec<u64> {
        let fitting = self.entries.iter_mut().filter(|(_, it)| it.given.is_none());
        let fitting = fitting.filter(|(_, it)| wants.takes(&it.about)).take(most);
        fitting
            .map(|(number, entry)| {
                entry.given = Some(session.to_string());
                *number
            })
            .collect()
    }

    /// Attempts that a session has and does not know of: the answer that gave them was lost.
    pub(crate) fn unknown_to<'a>(
        &'a self,
        session: &'a str,
        running: &'a BTreeSet<u64>,
    ) -> impl Iterator<Item = (u64, &'a A)> {
        let unknown = self.of(session).filter(|number| !running.contains(number));
        unknown.map(|number| (number, &self.entries[&number].attempt))
    }

    fn of<'a>(&'a self, session: &'a str) -> impl Iterator<Item = u64> + 'a {
        let given = self.entries.iter().filter(move |(_, it)| it.given.as_deref() == Some(session));
        given.map(|(number, _)| *number)
    }

    /// What is kept of an attempt that a session has.
    pub(crate) fn held(&self, session: &str, number: u64) -> Option<&A> {
        let entry = self.entries.get(&number)?;
        (entry.given.as_deref() == Some(session)).then_some(&entry.attempt)
    }

    /// The same, to be changed.
    pub(crate) fn held_mut(&mut self, session: &str, number: u64) -> Option<&mut A> {
        let entry = self.entries.get_mut(&number)?;
        (entry.given.as_deref() == Some(session)).then_some(&mut entry.attempt)
    }

    /// Whether a session is to be told at once that one of these attempts is to end. True once for
    /// each: whoever asks tells it.
    pub(crate) fn has_news_of_ends(&mut self, session: &str, running: &BTreeSet<u64>) -> bool {
        let mut is_news = false;
        for number in running {
            let Some(entry) = self.entries.get_mut(number) else { continue };
            if entry.cancelled && entry.given.as_deref() == Some(session) {
                is_news |= !std::mem::replace(&mut entry.told, true);
            }
        }
        is_news
    }

    /// The attempts of a session that are to end.
    pub(crate) fn cancelled(&self, session: &str) -> Vec<u64> {
        self.of(session).filter(|number| self.entries[number].cancelled).collect()
    }

    /// An attempt is to end. Answers with the poll of its session, which is to say so.
    pub(crate) fn cancel(&mut self, number: u64) -> Option<u64> {
        let entry = self.entries.get_mut(&number)?;
        entry.cancelled = true;
        let session = entry.given.clone()?;
        let poll = self.polls.iter_mut().find(|poll| poll.session == session)?;
        poll.woken = true;
        Some(poll.number)
    }

    /// An attempt is over.
    pub(crate) fn over(&mut self, number: u64) -> Option<A> {
        self.entries.remove(&number).map(|entry| entry.attempt)
    }

    /// Forgets sessions that were silent for a lease. What they had is lost.
    pub(crate) fn forget_silent(&mut self, now: Timestamp, lease: Duration) {
        self.sessions.retain(|_, session| now.since(session.heard) <= lease);
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

    /// How an attempt stands.
    pub(crate) fn standing(&self, number: u64) -> Standing {
        let Some(entry) = self.entries.get(&number) else { return Standing::Over };
        match &entry.given {
            Some(session) if self.sessions.contains_key(session) => Standing::Given,
            Some(_) => Standing::Lost,
            None if self.offer(&entry.about.activity).is_some() => Standing::Waits,
            None => Standing::Unwanted,
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
    use resurgam_watchdog::test;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn about(activity: &str) -> About {
        About { activity: activity.to_string(), queue: "default".to_string() }
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
        assert_eq!(desk.arrives(about("charge"), ()).1, Some(first));
        assert_eq!(desk.arrives(about("charge"), ()).1, Some(second));
        assert_eq!(desk.arrives(about("charge"), ()).1, None);
        assert_eq!(desk.give("b", &wants(&["charge"]), 2).len(), 2);
        // What is left is for the next one, which was told already.
        assert!(desk.leaves(first).is_empty());
        assert_eq!(desk.give("c", &wants(&["charge"]), 2).len(), 1);
        assert!(desk.leaves(second).is_empty());
        assert_eq!(desk.arrives(about("refund"), ()).1, Some(refunds));
    }

    #[test]
    fn a_poll_that_goes_away_leaves_its_attempts_to_the_next() {
        let mut desk = Desk::default();
        let (first, _) = desk.waits("a", wants(&["charge"]));
        assert_eq!(desk.arrives(about("charge"), ()).1, Some(first));
        let (second, _) = desk.waits("b", wants(&["charge"]));
        assert_eq!(desk.leaves(first), [second]);
        let (third, ended) = desk.waits("b", wants(&["charge"]));
        assert_eq!((ended, desk.leaves(0)), (Some(second), vec![third]));
    }

    #[test]
    fn queues_are_minded_where_a_worker_names_some() {
        let mut desk = Desk::default();
        let queues = |name: &str| Wants { queues: [name.to_string()].into(), ..wants(&["charge"]) };
        desk.arrives(about("charge"), ());
        assert!(desk.give("a", &queues("pay"), 9).is_empty());
        assert_eq!(desk.give("a", &queues("default"), 9).len(), 1);
    }

    #[test]
    fn what_an_answer_gave_that_was_lost_is_given_again_and_nobody_else_has_it() {
        let mut desk = Desk::default();
        let (number, _) = desk.arrives(about("charge"), ());
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
        let (given, _) = desk.arrives(about("charge"), ());
        desk.give("a", &wants(&["charge"]), 1);
        let (waits, _) = desk.arrives(about("charge"), ());
        desk.forget_silent(at(31), LEASE);
        assert_eq!(
            (desk.standing(given), desk.standing(waits)),
            (Standing::Given, Standing::Waits)
        );
        desk.forget_silent(at(32), LEASE);
        assert_eq!(
            (desk.standing(given), desk.standing(waits)),
            (Standing::Lost, Standing::Unwanted)
        );
        assert_eq!(desk.offer("charge"), None);
        // It comes back, and is one that has what it had.
        offers(&mut desk, "a", &["charge"], at(33));
        assert_eq!(desk.standing(given), Standing::Given);
    }

    #[test]
    fn a_session_hears_that_its_attempt_is_to_end() {
        let mut desk = Desk::default();
        let (number, _) = desk.arrives(about("charge"), ());
        desk.give("a", &wants(&["charge"]), 1);
        let (poll, _) = desk.waits("a", wants(&["charge"]));
        assert_eq!(desk.cancel(number), Some(poll));
        assert_eq!((desk.cancelled("a"), desk.cancelled("b")), (vec![number], vec![]));
        let running = [number, 99].into();
        assert!(!desk.has_news_of_ends("b", &running));
        assert!(desk.has_news_of_ends("a", &running) && !desk.has_news_of_ends("a", &running));
        assert_eq!(desk.standing(99), Standing::Over);
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

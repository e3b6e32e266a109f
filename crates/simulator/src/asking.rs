//! What users ask of processes, and what they are told.

use std::time::Duration;

use resurgam_core::Uid;
use resurgam_store::Result;
use resurgam_store::rows::InstanceRow;
use resurgam_worker::Outcome;
use resurgam_worker::node::Input;

use crate::host::{Arrived, Done, Look};
use crate::promises::everything;
use crate::users::{Answer, Stage, Told, wait};
use crate::world::{Event, World};

/// When whatever went wrong has no consequences any more for who stops.
const AT_REST: Duration = Duration::from_secs(59);

impl World {
    /// A user asks some process for what they want next.
    pub(crate) fn user_asks(&mut self, user: usize) {
        if self.users[user].inserts() {
            return self.user_inserts(user);
        }
        let places = self.places();
        let place = self.random.pick(&places).copied();
        if let Some(number) = place {
            let model = &self.database.model;
            let Some(request) = self.users[user].next(user, model, &self.answers) else { return };
            self.arrived(number, Arrived::input(Input::Request(request)));
        }
        let asked = self.users[user].last_asked();
        let patience = self.random.delay(Duration::from_secs(1), Duration::from_secs(30));
        self.timeline.after(patience, Event::Patience { user, asked });
    }

    /// The places where there is a process.
    pub(crate) fn places(&self) -> Vec<usize> {
        (0..self.hosts.len()).filter(|number| self.hosts[*number].host.is_some()).collect()
    }

    /// A user inserts a row into the inbox, in a transaction that also does something of their own;
    /// now and then twice, because they do not know that it is committed.
    fn user_inserts(&mut self, user: usize) {
        let pause = self.random.delay(Duration::from_millis(10), Duration::from_secs(20));
        self.timeline.after(pause, Event::User(user));
        if !self.is_up || self.database.is_full {
            return;
        }
        let id = self.users[user].id.clone();
        let start = self.users[user].start_row();
        if self.users[user].stage == Stage::Starting && self.database.promises.has_inserted(&start)
        {
            let found = self.database.model.find(&id);
            if let Some(row) = found {
                self.database.promises.start_acknowledged(&self.database.model, &id, row.uid);
                self.users[user].stage = Stage::Started(row.uid);
            } else if self.database.promises.has_taken(&start) {
                // It was deleted before they looked.
                self.users[user].stage = Stage::Content;
            }
            return;
        }
        let Some(row) = self.users[user].row() else { return };
        self.database.now = self.database_time();
        let times = if self.random.one_in(4) { 2 } else { 1 };
        (0..times).for_each(|_| self.database.insert(row.clone()));
        self.spread_news(None);
        if self.users[user].stage != Stage::Starting {
            self.users[user].is_done();
        }
    }

    /// Users hear what a process has answered. One that does not know that the database went back
    /// tells what was true before.
    pub(crate) fn told(&mut self, is_unaware: bool) {
        for told in self.answers.take() {
            if let Answer::Ended(..) = told.answer {
                self.waiting.remove(&told.asked);
            }
            if !is_unaware || self.is_true(&told) {
                self.user_told(told);
            }
        }
    }

    /// Whether what a user is told is so.
    fn is_true(&self, told: &Told) -> bool {
        if let Answer::Scheduled(_) | Answer::Acted(_) = told.answer {
            return false;
        }
        let user = &self.users[told.user];
        match (&told.answer, user.stage) {
            (Answer::Started(Ok(started)), _) => {
                self.database.model.instance(started.uid).is_some()
            }
            (Answer::Done(Ok(())), Stage::Started(_)) => user
                .request()
                .is_none_or(|request| self.database.model.signalled(&user.id, &request)),
            (Answer::Ended(..) | Answer::Stopped(_), _) => false,
            _ => true,
        }
    }

    fn user_told(&mut self, told: Told) {
        let Told { user, asked, answer } = told;
        let answer = match answer {
            Answer::Ended(uid, answer) => return self.told_end(uid, answer),
            Answer::Stopped(answer) => return self.told_stop(answer),
            Answer::Scheduled(answer) => return self.keeper_told(user, asked, answer),
            Answer::Acted(answer) => return self.operator_told(asked, answer),
            answer => answer,
        };
        if !self.users[user].asked(asked) {
            return;
        }
        let id = self.users[user].id.clone();
        let stage = self.users[user].stage;
        let model = &self.database.model;
        match (answer, stage) {
            (Answer::Started(Ok(started)), Stage::Starting) => {
                self.database.promises.start_acknowledged(model, &id, started.uid);
                self.users[user].stage = Stage::Started(started.uid);
                self.maybe_wait(user, started.uid);
                self.maybe_look();
            }
            (Answer::Started(Err(error)), Stage::Starting) if error.is_already_exists() => {
                // The same request was heard before, and its answer was lost.
                if let Some(row) = model.find_request(&format!("start-{id}")) {
                    self.users[user].stage = Stage::Started(row.uid);
                }
            }
            (Answer::Done(Ok(())), Stage::Started(uid)) => {
                if let Some(request) = self.users[user].request() {
                    self.database.promises.signal_acknowledged(model, &id, uid, &request);
                }
                self.users[user].is_done();
            }
            (Answer::Done(Err(error)), _) if error.is_closed() || error.is_unknown() => {
                self.users[user].stage = Stage::Content;
            }
            // Trouble: they ask again.
            _ => {}
        }
        let pause = self.random.delay(Duration::from_millis(10), Duration::from_secs(20));
        self.timeline.after(pause, Event::User(user));
    }

    fn maybe_wait(&mut self, user: usize, uid: resurgam_core::Uid) {
        if !self.random.one_in(3) {
            return;
        }
        let number = self.random.below(self.hosts.len() as u64) as usize;
        let Some(life) = self.hosts[number].host.as_ref().map(|host| host.life) else { return };
        self.waits += 1;
        self.waiting.insert(self.waits, (life, uid));
        let request = Input::Request(wait(user, self.waits, uid, &self.answers));
        self.arrived(number, Arrived::input(request));
    }

    /// Everything is over: who waits for an instance that is closed was told.
    pub(crate) fn check_waiting(&mut self) {
        let hosts = self.hosts.iter().filter_map(|place| place.host.as_ref());
        let lives: Vec<u64> = hosts.map(|host| host.life).collect();
        let waiting: Vec<(u64, Uid)> = self.waiting.values().copied().collect();
        for (life, uid) in waiting.into_iter().filter(|(life, _)| lives.contains(life)) {
            let row = self.database.model.instance(uid);
            if row.is_none_or(|row| row.status.is_closed()) {
                let what = format!("somebody waits for {uid} in process {life}, and it is over");
                self.database.promises.breaks(uid, what);
            }
        }
    }

    /// Now and then somebody lists all instances.
    fn maybe_look(&mut self) {
        if !self.random.one_in(4) {
            return;
        }
        let places = self.places();
        let Some(number) = self.random.pick(&places).copied() else { return };
        let Some(host) = self.hosts[number].host.as_ref().filter(|host| !host.is_unaware) else {
            return;
        };
        let store = host.reader();
        let expected = self.database.promises.acknowledged();
        let look = Look { expected, set_backs: self.set_backs };
        let list = async move { Done::Listed(store.list(everything()).await, look) };
        self.spawn(number, Duration::ZERO, list);
    }

    /// Somebody has listed all instances.
    pub(crate) fn listed(&mut self, found: Result<Vec<InstanceRow>>, look: &Look) {
        if let Ok(found) = found
            && look.set_backs == self.set_backs
        {
            self.database.promises.listed(&look.expected, &found);
        }
    }

    fn told_end(&mut self, uid: resurgam_core::Uid, answer: resurgam_worker::Result<Outcome>) {
        let Ok(outcome) = answer else { return };
        let told = match outcome {
            Outcome::Completed(_) => "completed",
            Outcome::Failed(_) => "failed",
            Outcome::Cancelled(_) => "cancelled",
            Outcome::Terminated(_) => "terminated",
        };
        let row = self.database.model.instance(uid);
        self.database.promises.outcome_told(row.as_ref(), uid, told);
    }

    /// A process that is told to stop ends in good order, where nothing was wrong for a while.
    fn told_stop(&mut self, answer: resurgam_worker::Result<()>) {
        let calm_since = self.timeline.now().saturating_sub(self.plan.trouble);
        if let Err(error) = answer
            && calm_since > AT_REST
        {
            self.database.promises.breaks(None, format!("a process could not stop: {error}"));
        }
    }

    /// The database went back in time: who has started something that is not there starts it again.
    pub(crate) fn users_forget(&mut self) {
        self.keepers_forget();
        for number in 0..self.users.len() {
            let Stage::Started(uid) = self.users[number].stage else { continue };
            if self.database.model.instance(uid).is_none() {
                self.users[number].stage = Stage::Starting;
                self.timeline.after(Duration::from_secs(1), Event::User(number));
            }
        }
    }

    /// Whether some user has not started what they want.
    pub(crate) fn users_want_more(&self) -> bool {
        let mut users = self.users.iter().enumerate();
        users.any(|(number, user)| {
            user.stage == Stage::Starting && !self.plan.without.contains(&number)
        })
    }
}

//! What users ask of processes, and what they are told.

use std::time::Duration;

use resurgam_worker::Outcome;
use resurgam_worker::node::Input;

use crate::host::Arrived;
use crate::users::{Answer, Stage, Told, wait};
use crate::world::{Event, World};

/// When whatever went wrong has no consequences any more for who stops.
const AT_REST: Duration = Duration::from_secs(59);

impl World {
    /// A user asks some process for what they want next.
    pub(crate) fn user_asks(&mut self, user: usize) {
        let places: Vec<usize> =
            (0..self.hosts.len()).filter(|number| self.hosts[*number].host.is_some()).collect();
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

    /// Users hear what a process has answered. One that does not know that the database went back
    /// tells what was true before.
    pub(crate) fn told(&mut self, is_unaware: bool) {
        for told in self.answers.take() {
            if !is_unaware || self.is_true(&told) {
                self.user_told(told);
            }
        }
    }

    /// Whether what a user is told is so.
    fn is_true(&self, told: &Told) -> bool {
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
        let request = Input::Request(wait(user, uid, &self.answers));
        self.arrived(number, Arrived::input(request));
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

//! Acts out attempts: what their programs say they do, as `attempt.rs` of the engine would run it.

use std::time::Duration;

use resurgam_core::{CallKey, Failure, Kind, Payload};
use resurgam_store::rows::Heartbeat;
use resurgam_worker::node::{
    AttemptEnd, AttemptStart, FIRST_WAIT, Input, Order, TransactionRequest,
};

use crate::dependencies::key_of;
use crate::host::{Arrived, Attempt, Host};
use crate::program::Ends;
use crate::world::{Happening, World};

/// How far clocks may be apart when a grace period ends.
const CLOCKS: Duration = Duration::from_millis(500);

/// How often an attempt looks whether it may begin, where it may not.
const GATE: Duration = Duration::from_millis(100);

/// How long an attempt is waited for that outlived its process, when whoever ran it is gone, too.
const LEASE: Duration = Duration::from_secs(3);

/// Of so many attempts that outlived their process one is lost all the same.
const LOST: u64 = 5;

/// How long an attempt that is told to end takes for it.
const CLEANING_UP: Duration = Duration::from_millis(5);

/// Something of an attempt.
#[derive(Clone, Debug)]
pub(crate) enum Moment {
    /// Its code begins.
    Begins,
    /// Its code is done.
    Ends,
    /// It reports how far it has come.
    Beats,
    /// It went on when its process died, and whoever ran it is gone by now as well.
    IsLost,
    /// It took too long, or was silent for too long.
    TimeIsUp(Failure),
    /// The time for cleaning up is over, too.
    GraceIsOver,
}

impl World {
    fn moment(&mut self, number: usize, token: u64, delay: Duration, moment: Moment) {
        self.plan_for(number, delay, Happening::Attempt { token, moment });
    }

    /// An attempt is to begin.
    pub(crate) fn start_attempt(&mut self, number: usize, start: &AttemptStart) {
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        if !host.is_unaware {
            self.database.promises.has_key(start.call, start.key);
        }
        let mut attempt = Host::attempt(start);
        // What undoes something is behind the gate of its activity.
        let task = self.database.model.tasks_of(&[start.call]);
        let gate = task.first().map(|task| task.gate.as_str());
        let is_behind = |number: &usize| gate.is_none_or(|gate| gate == key_of(*number));
        attempt.dependency = attempt.dependency.filter(is_behind);
        let beats = attempt.script.beats.map(Duration::from_millis);
        host.attempts.insert(start.token, attempt);
        let token = start.token;
        if let Some(limit) = start.limits.time {
            self.moment(number, token, limit.left, Moment::TimeIsUp(limit.failure()));
        }
        if let Some(silence) = start.limits.silence.filter(|time| beats.is_none_or(|b| b >= *time))
        {
            let failure = Failure::of_kind(Kind::HeartbeatTimeout, "no heartbeat");
            self.moment(number, token, silence, Moment::TimeIsUp(failure));
        }
        if start.resumed && token.is_multiple_of(LOST) {
            return self.moment(number, token, LEASE, Moment::IsLost);
        }
        let soon = self.random.delay(Duration::ZERO, Duration::from_micros(500));
        self.moment(number, token, soon, Moment::Begins);
    }

    /// Something of an attempt happens.
    pub(crate) fn attempt(&mut self, number: usize, token: u64, moment: Moment) {
        let Some(host) = self.hosts[number].host.as_ref() else { return };
        if !host.attempts.contains_key(&token) {
            return;
        }
        match moment {
            Moment::Begins => self.attempt_begins(number, token),
            Moment::Ends => self.attempt_ends(number, token),
            Moment::Beats => self.attempt_beats(number, token),
            Moment::IsLost => {
                let lost = Failure::of_kind(Kind::WorkerLost, "nobody has named it for a lease");
                self.end_attempt(number, token, Err(lost));
            }
            Moment::TimeIsUp(failure) => self.time_is_up(number, token, failure),
            Moment::GraceIsOver => {
                let deaf = Failure::of_kind(Kind::Cancelled, "it was told to end and did not");
                self.end_attempt(number, token, Err(deaf));
            }
        }
    }

    fn attempt_begins(&mut self, number: usize, token: u64) {
        let Some(host) = self.hosts[number].host.as_ref() else { return };
        let at = self.at(host);
        let Some(attempt) = host.attempts.get(&token) else { return };
        if !at.may_begin {
            return self.moment(number, token, GATE, Moment::Begins);
        }
        let (key, which, script) = (attempt.call, attempt.number, attempt.script);
        let (is_unaware, resumed) = (host.is_unaware, attempt.resumed);
        self.trace.line(self.timeline.now(), || {
            format!("process {number} begins attempt {which} of call {key}")
        });
        match (is_unaware, resumed) {
            (true, _) => self.database.promises.begins_unaware(key, which),
            (false, true) => {
                let model = &self.database.model;
                self.database.promises.resumes(model, (key, token, which));
            }
            (false, false) => self.check_beginning((key, token, which)),
        }
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        let Some(attempt) = host.attempts.get_mut(&token) else { return };
        attempt.begun = true;
        let dependency = attempt.dependency;
        if attempt.told && !script.deaf {
            return self.moment(number, token, CLEANING_UP, Moment::Ends);
        }
        if let Some(dependency) = dependency {
            self.check_concurrency(key, dependency);
        }
        self.moment(number, token, Duration::from_millis(script.takes), Moment::Ends);
        if let Some(beats) = script.beats {
            self.moment(number, token, Duration::from_millis(beats), Moment::Beats);
        }
    }

    fn check_beginning(&mut self, attempt: (CallKey, u64, u32)) {
        let world = self.timeline.now();
        let is_awake = |host: &&Host| host.paused_until.is_none_or(|until| until <= world);
        let hosts = self.hosts.iter().filter_map(|place| place.host.as_ref()).filter(is_awake);
        let aware = hosts.filter(|host| !host.is_unaware && self.at(host).may_begin);
        let is_over = |other: &Attempt| other.ends_by.is_some_and(|end| end <= world + CLOCKS);
        let works = aware.flat_map(|host| host.attempts.values());
        let works = works.filter(|other| other.begun && !is_over(other));
        let running: Vec<CallKey> = works.map(|other| other.call).collect();
        let model = &self.database.model;
        self.database.promises.begins(model, attempt, running.into_iter());
    }

    fn attempt_beats(&mut self, number: usize, token: u64) {
        let now = self.timeline.now();
        let Some(host) = self.hosts[number].host.as_ref() else { return };
        let at = self.at(host).now;
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        let Some(attempt) = host.attempts.get_mut(&token) else { return };
        let Some(beats) = attempt.script.beats.filter(|_| !attempt.lingers) else { return };
        let details = Payload::encode(&attempt.number).unwrap_or_else(|_| Payload::null());
        let heartbeat = Heartbeat { details, at };
        attempt.heartbeat = Some(heartbeat.clone());
        let call = attempt.call;
        let is_due = attempt.sent_at.is_none_or(|sent| now >= sent + attempt.throttle);
        if is_due {
            attempt.sent_at = Some(now);
            let input = Input::Heartbeat { call, token, heartbeat };
            self.arrived(number, Arrived::input(input));
        }
        self.moment(number, token, Duration::from_millis(beats), Moment::Beats);
    }

    fn time_is_up(&mut self, number: usize, token: u64, failure: Failure) {
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        let grace = host.grace;
        let Some(attempt) = host.attempts.get_mut(&token) else { return };
        if std::mem::replace(&mut attempt.lingers, true) {
            return;
        }
        let end = AttemptEnd {
            result: Err(failure),
            lingers: true,
            heartbeat: attempt.heartbeat.clone(),
        };
        let input = Input::AttemptEnded { call: attempt.call, token, end };
        self.ends_in_grace(number, token, grace);
        self.arrived(number, Arrived::input(input));
    }

    fn ends_in_grace(&mut self, number: usize, token: u64, grace: Duration) {
        self.tell_attempt(number, token);
        let end = self.timeline.now() + grace;
        if let Some(host) = self.hosts[number].host.as_mut()
            && let Some(attempt) = host.attempts.get_mut(&token)
        {
            attempt.ends_by.get_or_insert(end);
        }
        self.moment(number, token, grace, Moment::GraceIsOver);
    }

    /// An attempt hears that it is to end; one that is deaf goes on.
    fn tell_attempt(&mut self, number: usize, token: u64) {
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        let Some(attempt) = host.attempts.get_mut(&token) else { return };
        attempt.told = true;
        if attempt.begun && !attempt.script.deaf {
            self.moment(number, token, CLEANING_UP, Moment::Ends);
        }
    }

    pub(crate) fn order_attempt(&mut self, number: usize, token: u64, order: Order) {
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        let grace = host.grace;
        match order {
            Order::Tell => self.tell_attempt(number, token),
            Order::EndInGrace | Order::GiveUp => {
                self.ends_in_grace(number, token, grace);
            }
            // Somebody else runs it, and goes on.
            Order::LetGo => {
                let begun = host.attempts.get(&token).is_some_and(|attempt| attempt.begun);
                let left = if begun { Failure::left_running() } else { Failure::never_began() };
                self.end_attempt(number, token, Err(left));
            }
            // It has reported, and ends by itself; or it told somebody else that it goes on.
            Order::Leave | Order::Alive => {}
            Order::Cut => drop(host.attempts.remove(&token)),
        }
    }

    pub(crate) fn interrupt_attempt(&mut self, number: usize, call: CallKey, token: u64) {
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        let Some(attempt) = host.attempts.remove(&token) else { return };
        let (began, heartbeat) = (attempt.begun, attempt.heartbeat);
        let input = Input::AttemptInterrupted { call, token, began, heartbeat };
        self.arrived(number, Arrived::input(input));
    }

    fn attempt_ends(&mut self, number: usize, token: u64) {
        let Some(host) = self.hosts[number].host.as_ref() else { return };
        let Some(attempt) = host.attempts.get(&token).filter(|attempt| attempt.begun) else {
            return;
        };
        let (script, call) = (attempt.script, attempt.call);
        let is_told = attempt.told && !script.deaf;
        let refused = self.refused_by(attempt.dependency).filter(|_| !is_told);
        if host.asks.values().any(|asking| *asking == token) {
            return;
        }
        if let Some(failure) = refused {
            return self.end_attempt(number, token, Err(failure));
        }
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        let Some(attempt) = host.attempts.get(&token) else { return };
        if script.ends == Ends::InTransaction && !is_told {
            host.asked += 1;
            let ask = TransactionRequest { ask: host.asked, call, token, wait: FIRST_WAIT };
            host.asks.insert(ask.ask, token);
            return self.arrived(number, Arrived::input(Input::Transact(ask)));
        }
        let result = match script.ends {
            _ if is_told => Err(Failure::of_kind(Kind::Cancelled, "it was told to end")),
            Ends::Well | Ends::InTransaction => {
                let result = Payload::encode(&(attempt.id, attempt.number));
                Ok(result.unwrap_or_else(|_| Payload::null()))
            }
            Ends::Fails(which) => Err(Failure::of_type(format!("F{which}"), "as planned")),
            Ends::Terminally => Err(Failure::terminal("as planned")),
            Ends::Panics => Err(Failure::of_kind(Kind::Panic, "as planned")),
            Ends::RetryAfter(time) => {
                Err(Failure::retry_after(Duration::from_millis(time), "as planned"))
            }
            Ends::Snoozes(time) => Err(Failure::snooze(Duration::from_millis(time))),
        };
        self.end_attempt(number, token, result);
    }

    /// An attempt ends, and reports how.
    pub(crate) fn end_attempt(
        &mut self,
        number: usize,
        token: u64,
        result: Result<Payload, Failure>,
    ) {
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        let Some(attempt) = host.attempts.remove(&token) else { return };
        let end = AttemptEnd { result, lingers: false, heartbeat: attempt.heartbeat };
        let input = Input::AttemptEnded { call: attempt.call, token, end };
        self.arrived(number, Arrived::input(input));
    }
}

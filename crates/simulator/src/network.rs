//! What lies between the processes and the database: requests and answers take their time, and are
//! lost or late when the plan says so.

use std::time::Duration;

use resurgam_store::fleet::{MarkRead, ServerAccess, ServerIdentity, ServerReport, TimelineMark};
use resurgam_store::model::Sharing;

use crate::database::News;
use crate::faults::Fault;
use crate::wire::{Job, Reply, Sent};
use crate::world::{Event, Happening, World};

/// How many messages out of a thousand usually fare badly, of each kind of fault.
const BAD: u64 = 6;

/// What takes longer keeps a process from hearing of something.
const PROMPT: Duration = Duration::from_millis(100);

/// A request on its way to the database.
pub(crate) struct Sending {
    host: usize,
    life: u64,
    number: u64,
    session: u64,
    what: &'static str,
    writes: bool,
    server: Option<u32>,
    job: Job,
    fate: Fate,
}

/// What is going to happen to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is answered after this time.
    Answered(Duration),
    /// The database refuses it for now.
    Refused(Duration),
    /// It is done, and its answer is lost.
    AnswerLost,
    /// It never gets there.
    Lost,
    /// It gets there when nobody waits for it any more.
    Late,
}

impl World {
    /// A process sends something.
    pub(crate) fn send(&mut self, (host, life): (usize, u64), number: u64, sent: Sent) {
        let (what, writes, server, job) = match sent {
            Sent::Ask { what, writes, server, job } => (what, writes, server, job),
            Sent::Connect { remembers } => return self.connects((host, life), number, remembers),
            Sent::Sleep(time) => return self.sleeps((host, life), number, time),
            Sent::Nap(time) => {
                if let Some(host) = self.hosts[host].host.as_mut() {
                    host.nap = Some(number);
                }
                return self.sleeps((host, life), number, time);
            }
        };
        let session = self.session;
        let fate = self.fate(what, writes);
        let mut there = self.one_way();
        match fate {
            Fate::Answered(_) | Fate::Refused(_) => {}
            Fate::AnswerLost | Fate::Lost | Fate::Late => {
                let given_up = self.random.delay(there, Duration::from_secs(2)) + there;
                self.answer_after(given_up, (host, life), number, None, None);
                self.hears_late(host, self.timeline.now() + given_up);
                if fate == Fate::Lost {
                    return;
                }
                if fate == Fate::Late {
                    there = given_up + self.random.delay(there, Duration::from_secs(5));
                }
            }
        }
        let sending = Sending { host, life, number, session, what, writes, server, job, fate };
        self.timeline.after(there, Event::Arrive(Box::new(sending)));
    }

    /// A process connects: the servers that it reaches say what they are. What nobody could know is
    /// left out: who has not seen the new primary yet does not reach the old one alone.
    fn connects(&mut self, (host, life): (usize, u64), number: u64, remembers: Option<u32>) {
        let has_seen = remembers == Some(self.timeline_of_database);
        let old = self.old_primary.filter(|_| self.is_up || has_seen);
        let new = self.is_up.then_some(self.timeline_of_database);
        let servers: Vec<ServerReport> = old.into_iter().chain(new).map(report).collect();
        let delay = self.one_way() + self.one_way();
        let reply: Option<Reply> = (!servers.is_empty()).then(|| Box::new(servers) as Reply);
        self.answer_after(delay, (host, life), number, reply, Some(self.session));
    }

    fn sleeps(&mut self, (host, life): (usize, u64), number: u64, time: Duration) {
        let reply: Option<Reply> = Some(Box::new(()));
        self.answer_after(time, (host, life), number, reply, None);
    }

    fn answer_after(
        &mut self,
        delay: Duration,
        (host, life): (usize, u64),
        number: u64,
        reply: Option<Reply>,
        session: Option<u64>,
    ) {
        let what = Happening::Answer { number, reply, session };
        self.timeline.after(delay, Event::Process { host, life, what });
    }

    /// Shards move: whoever naps looks now.
    pub(crate) fn end_nap(&mut self, number: usize) {
        let Some(host) = self.hosts[number].host.as_mut() else { return };
        if let Some(nap) = host.nap.take() {
            self.sleeps_no_longer(number, nap);
        }
    }

    fn sleeps_no_longer(&mut self, number: usize, nap: u64) {
        let reply: Option<Reply> = Some(Box::new(()));
        self.answered(number, nap, reply);
    }

    /// What a process hears of takes so long.
    fn hears_late_after(&mut self, number: usize, delay: Duration) {
        if delay > PROMPT {
            self.hears_late(number, self.timeline.now() + delay);
        }
    }

    /// How long something takes to the database, or back.
    fn one_way(&mut self) -> Duration {
        let longest = match self.plan.sharing {
            Sharing::OneNode => Duration::from_micros(300),
            Sharing::ManyNodes => Duration::from_millis(3),
        };
        self.random.delay(Duration::from_micros(20), longest)
    }

    /// True when this goes wrong now.
    fn fares_badly(&mut self, fault: Fault) -> bool {
        if self.is_calm()
            || !self.goes_wrong(fault)
            || self.random.below(1_000) >= BAD * self.plan.often
        {
            return false;
        }
        self.counts.add(fault);
        true
    }

    /// True when a read of what is due takes long. It reads much, so that is no rare thing, also
    /// where nothing is wrong.
    fn takes_long(&mut self) -> bool {
        if !self.goes_wrong(Fault::ScanLate) || !self.random.one_in(2) {
            return false;
        }
        self.counts.add(Fault::ScanLate);
        true
    }

    fn fate(&mut self, what: &'static str, writes: bool) -> Fate {
        let back = self.one_way();
        if !writes {
            if self.fares_badly(Fault::ReadLost) {
                return Fate::AnswerLost;
            }
            if what.starts_with("due ") && self.takes_long() {
                return Fate::Answered(back + Duration::from_millis(self.random.below(4_000)));
            }
            if self.fares_badly(Fault::ReadLate) {
                return Fate::Answered(self.random.delay(back, Duration::from_secs(15)));
            }
            return Fate::Answered(back);
        }
        let is_commit = what == "commit" || what == "transact";
        if is_commit && self.fares_badly(Fault::CommitRefused) {
            return Fate::Refused(back);
        }
        if is_commit && self.fares_badly(Fault::CommitLate) {
            return Fate::Answered(self.random.delay(back, Duration::from_secs(4)));
        }
        if self.fares_badly(Fault::AnswerLost) {
            return Fate::AnswerLost;
        }
        if self.fares_badly(Fault::RequestLost) {
            return Fate::Lost;
        }
        if self.fares_badly(Fault::RequestLate) {
            return Fate::Late;
        }
        Fate::Answered(back)
    }

    /// A request reaches the database.
    pub(crate) fn arrives(&mut self, sending: Sending) {
        let Sending { host, life, number, session, what, writes, server, job, fate } = sending;
        let is_alive = self.hosts[host].host.as_ref().is_some_and(|host| host.life == life);
        // What a dead process has sent may be done or not; its connection ends with it, and so does
        // the lock of a file.
        let is_done = is_alive || (writes && what != "take the lock" && self.random.one_in(2));
        let is_elsewhere = server.is_some_and(|server| server != self.timeline_of_database);
        if is_elsewhere && session == self.session {
            let text = format!("{what} of process {host} reaches a server that is no primary");
            self.database.promises.breaks(None, text);
        }
        if !self.is_up || session != self.session || !is_done {
            let delay = self.one_way();
            self.hears_late(host, self.timeline.now() + delay);
            return self.answer_after(delay, (host, life), number, None, None);
        }
        if writes {
            self.trace
                .line(self.timeline.now(), || format!("? {what} of process {host}: {fate:?}"));
        }
        self.database.now = self.database_time();
        self.database.is_busy = matches!(fate, Fate::Refused(_));
        let reply = Some(job(&mut self.database));
        self.database.is_busy = false;
        self.spread_news(Some(host));
        self.check_late_claims();
        if let Fate::Answered(back) | Fate::Refused(back) = fate {
            if !writes {
                self.hears_late_after(host, back);
            }
            self.answer_after(back, (host, life), number, reply, Some(session));
        }
    }

    /// Others hear of what was done.
    pub(crate) fn spread_news(&mut self, by: Option<usize>) {
        let news = std::mem::take(&mut self.database.news);
        let News { committed, moves } = news;
        if !committed && !moves {
            return;
        }
        for number in 0..self.hosts.len() {
            let is_there = self.hosts[number].host.is_some();
            if !is_there || (by == Some(number) && !moves) {
                continue;
            }
            let mut delay = self.random.delay(Duration::from_millis(1), Duration::from_millis(30));
            if self.fares_badly(Fault::HintLate) {
                delay = self.random.delay(delay, Duration::from_secs(5));
                self.hears_late_after(number, delay);
            }
            self.plan_for(number, delay, Happening::Hint(news));
        }
    }
}

/// What a server on this timeline says about itself: somebody has worked there.
fn report(timeline: u32) -> ServerReport {
    let (system, name) = (1, format!("mark of {timeline}"));
    let started = format!("on timeline {timeline}");
    ServerReport {
        access: ServerAccess::Writable,
        identity: Some(ServerIdentity { system, timeline: Some(timeline), started }),
        mark: MarkRead::Found(TimelineMark { system, timeline, name }),
    }
}

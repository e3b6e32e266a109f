//! What goes wrong with processes, the database and clocks, and how it is mended.

use std::time::Duration;

use resurgam_core::{RunKey, Uid};
use resurgam_store::model::{ShardSet, Sharing};
use resurgam_store::rows::{InstanceFilter, InstanceRow, Status, TaskRow};
use resurgam_worker::node::Input;

use crate::database::{Database, News};
use crate::faults::Fault;
use crate::host::{Arrived, Role};
use crate::server::LEASE;
use crate::users::{self, nudge};
use crate::world::{BEGIN, Event, Mend, NUDGE, PATIENCE, Place, World};

/// By then every node that can has heard what the clock of the database says.
const HEARD_BY_ALL: Duration = Duration::from_secs(60);

/// How long nothing is to be done before everything is over.
const REST: Duration = Duration::from_secs(60);

/// How long something may be due when nothing goes wrong. Blocked runs are tried again every five
/// minutes, and nothing else waits for longer than that once a slot is free.
const OVERDUE: Duration = Duration::from_secs(3_600);

/// How long something may be due when nothing has gone wrong for twice as long, and somebody has
/// nothing else to do. What is due is read slowly, and some of it twice.
const LATE: Duration = Duration::from_secs(60);

/// How much longer than it may stay a closed instance is there at the most.
const SWEPT: Duration = Duration::from_secs(200);

impl World {
    /// When a kind of fault comes next.
    pub(crate) fn plan_fault(&mut self, fault: Fault) {
        let seconds = match fault {
            Fault::Kill | Fault::Pause | Fault::Stop | Fault::RowRefused => 60,
            Fault::ClockJump | Fault::DiskFull | Fault::SetBack => 45,
            Fault::Join | Fault::OtherCode | Fault::OtherQueues => 45,
            Fault::Restart | Fault::Failover | Fault::OldPrimary => 30,
            _ => return,
        };
        let delay =
            Duration::from_millis(self.random.between(1_000, 2_000 * seconds / self.plan.often));
        self.timeline.after(delay, Event::Fault(fault));
    }

    /// Something goes wrong.
    pub(crate) fn fault(&mut self, fault: Fault) {
        if self.is_calm() {
            return;
        }
        self.counts.add(fault);
        self.trace.line(self.timeline.now(), || format!("! {fault}"));
        let number = self.random.below(self.hosts.len() as u64) as usize;
        match fault {
            Fault::Kill => self.kill(number),
            Fault::Stop => self.stop(number),
            Fault::Pause => self.pause(number),
            Fault::OtherCode | Fault::OtherQueues => {
                let works = self.hosts[number].role.works;
                self.hosts[number].role = Role { works, ..self.new_role() };
                self.stop(number);
            }
            Fault::Join => self.join(),
            Fault::RowRefused => self.database.refuses_next = true,
            Fault::Restart => {
                self.breaks_connections();
                self.is_up = false;
                let down = self.random.delay(Duration::from_millis(10), Duration::from_secs(20));
                self.timeline.after(down, Event::Mend(Mend::Database));
            }
            Fault::OldPrimary => self.old_primary(),
            Fault::Failover => {
                self.breaks_connections();
                self.timeline_of_database += 1;
                self.ahead += self.random.below(400) as i64 - 200;
                self.clock_was_set();
                self.is_up = false;
                let down = self.random.delay(Duration::from_millis(100), Duration::from_secs(5));
                self.timeline.after(down, Event::Mend(Mend::Database));
            }
            Fault::SetBack => self.set_back(),
            Fault::DiskFull => {
                self.database.is_full = true;
                let full = self.random.delay(Duration::from_millis(100), Duration::from_secs(20));
                self.timeline.after(full, Event::Mend(Mend::Disk));
            }
            Fault::ClockJump => {
                let jump = self.random.below(120_000) as i64 - 60_000;
                self.ahead += if self.random.one_in(2) { jump } else { jump / 100 };
                self.clock_was_set();
            }
            _ => {}
        }
        self.plan_fault(fault);
    }

    /// A clock was set. Nodes on a server hear of it with their next beats.
    fn clock_was_set(&mut self) {
        self.clocks_in_doubt += 1;
        self.database.promises.clock_was_set(true);
        self.timeline.after(HEARD_BY_ALL, Event::Mend(Mend::Clock));
    }

    /// What went wrong is over.
    pub(crate) fn mend(&mut self, mend: Mend) {
        self.trace.line(self.timeline.now(), || format!("! over: {mend:?}"));
        match mend {
            Mend::Database => {
                self.is_up = true;
                let now = self.timeline.now();
                (0..self.hosts.len()).for_each(|number| self.hears_late(number, now));
                self.everybody_looks();
            }
            Mend::OldPrimary => self.old_primary = None,
            Mend::Disk => self.database.is_full = false,
            Mend::Clock => {
                self.clocks_in_doubt -= 1;
                self.database.promises.clock_was_set(self.clocks_in_doubt > 0);
            }
            Mend::Leave(number, life) => {
                if self.hosts[number].host.as_ref().is_some_and(|host| host.life == life) {
                    self.stop(number);
                }
            }
        }
    }

    fn kill(&mut self, number: usize) {
        let Some(host) = self.hosts[number].host.take() else { return };
        if self.plan.sharing == Sharing::OneNode {
            // The lock ends with the process.
            let name = host.node.name().to_string();
            self.leave(&name);
        }
        let delay = self.random.delay(Duration::from_millis(10), Duration::from_secs(30));
        self.timeline.after(delay, Event::Start(number));
    }

    fn stop(&mut self, number: usize) {
        if self.hosts[number].host.is_some() {
            let stop = Input::Request(users::stop(&self.answers));
            self.arrived(number, Arrived::input(stop));
        }
    }

    fn pause(&mut self, number: usize) {
        // Often for longer than the lease.
        let shortest = if self.random.one_in(2) { LEASE } else { Duration::from_millis(50) };
        let pause = self.random.delay(shortest, Duration::from_secs(40));
        let until = self.timeline.now() + pause;
        self.hears_late(number, until);
        if let Some(host) = self.hosts[number].host.as_mut() {
            // Everything that comes meanwhile waits for the end that is known then: a pause never
            // becomes shorter, or what came first would happen last.
            host.paused_until = host.paused_until.max(Some(until));
        }
    }

    /// One more process comes. From then on it leaves and comes back, time and again.
    fn join(&mut self) {
        if self.hosts.len() >= self.plan.nodes + self.plan.clients + 3 {
            return;
        }
        let role = self.new_role();
        let number = self.hosts.len();
        self.hosts.push(Place { role, host: None });
        self.start(number);
    }

    /// A process that has come leaves again, if it is one of those.
    pub(crate) fn leaves_later(&mut self, number: usize, life: u64) {
        if number < self.plan.nodes + self.plan.clients || self.is_calm() {
            return;
        }
        let longest = Duration::from_secs(120) / self.plan.often as u32;
        let stays = self.random.delay(Duration::from_secs(1), longest);
        self.timeline.after(stays, Event::Mend(Mend::Leave(number, life)));
    }

    /// All connections to the database break.
    fn breaks_connections(&mut self) {
        self.session += 1;
        let now = self.timeline.now();
        (0..self.hosts.len()).for_each(|number| self.hears_late(number, now));
        for host in self.hosts.iter().filter_map(|place| place.host.as_ref()) {
            host.wire.connections_broke();
            if let Some(server) = &host.store.server {
                server.connections_broke();
            }
        }
    }

    /// A standby takes over, and the primary before it comes back as it was left. Later the new one
    /// is out of reach, while the old one is still there.
    fn old_primary(&mut self) {
        self.old_primary = Some(self.timeline_of_database);
        self.timeline_of_database += 1;
        self.out_of_reach();
        let again = self.random.delay(Duration::from_secs(5), Duration::from_secs(15));
        self.timeline.after(again, Event::OutOfReach);
        let stays = self.random.delay(Duration::from_secs(10), Duration::from_secs(40));
        self.timeline.after(stays, Event::Mend(Mend::OldPrimary));
    }

    /// Nobody reaches the primary for a while.
    pub(crate) fn out_of_reach(&mut self) {
        if self.is_calm() {
            return;
        }
        self.breaks_connections();
        self.is_up = false;
        let down = self.random.delay(Duration::from_millis(100), Duration::from_secs(5));
        self.timeline.after(down, Event::Mend(Mend::Database));
    }

    /// The database is what it was a while ago.
    fn set_back(&mut self) {
        let Some(backup) = self.backup.clone() else { return };
        let (tokens, arrivals) = (self.database.tokens, self.database.arrivals);
        self.breaks_connections();
        self.timeline_of_database += 1;
        let lost = std::mem::replace(&mut self.database, *backup);
        self.database.model.counts_revisions_from(&lost.model);
        (self.database.tokens, self.database.arrivals) = (tokens, arrivals);
        self.set_backs += 1;
        let Database { model, promises, .. } = &mut self.database;
        promises.jobs_were_set_back(model, (&lost.model, &lost.promises));
        promises.policies_were_set_back(&lost.promises);
        promises.clock_was_set(self.clocks_in_doubt > 0);
        self.users_forget();
        for place in &mut self.hosts {
            // One that only asks has nothing in memory that could be wrong.
            if let Some(host) = &mut place.host {
                host.is_unaware = place.role.works;
            }
        }
        self.everybody_looks();
    }

    /// A connection that is made again says that something may have changed.
    fn everybody_looks(&mut self) {
        self.database.news = News { committed: true, moves: true };
        self.spread_news(None);
    }

    /// Nothing goes wrong any more: everything runs with the new code and serves all queues, and
    /// everything that was started must end.
    pub(crate) fn calm(&mut self) {
        self.trace.line(self.timeline.now(), || "! calm".to_string());
        (self.database.is_full, self.database.refuses_next, self.is_up) = (false, false, true);
        self.old_primary = None;
        for number in 0..self.hosts.len() {
            let place = &mut self.hosts[number];
            let Role { is_new, serves_others, .. } = place.role;
            (place.role.is_new, place.role.serves_others) = (true, true);
            if !is_new || !serves_others {
                self.stop(number);
            }
        }
        self.everybody_looks();
        self.timeline.after(NUDGE, Event::Nudge);
    }

    /// Whether nothing was to be done for so long that everything that follows has happened; or
    /// never will.
    fn is_at_rest(&mut self, is_idle: bool) -> bool {
        let now = self.timeline.now();
        let since = is_idle.then(|| self.at_rest_since.unwrap_or(now));
        self.at_rest_since = since;
        let rest = REST + self.plan.stays.map_or(Duration::ZERO, |stays| stays + SWEPT);
        since.is_some_and(|since| now >= since + rest) || now > self.plan.trouble + PATIENCE
    }

    /// What is due is begun, when nothing has gone wrong for long enough: a call for which there is
    /// a slot, and a run that has a message.
    fn check_overdue(&mut self, open: &[InstanceRow]) {
        self.check_late(open);
        if self.timeline.now() < self.plan.trouble + OVERDUE {
            return;
        }
        let before = self.database_time().saturating_sub(OVERDUE);
        let model = &self.database.model;
        let run = |row: &InstanceRow| RunKey { uid: row.uid, run: row.run };
        let tasks: Vec<TaskRow> = open.iter().flat_map(|row| model.tasks(run(row))).collect();
        let late = tasks.iter().find(|task| task.wake_at < before);
        let late = late.filter(|_| tasks.iter().all(|task| task.claim.is_none()));
        let call = late.map(|task| (task.call.run.uid, format!("call {}", task.call.seq)));
        let messages = model.due_messages(ShardSet::ALL, before, 1);
        let message = messages.first().map(|message| (message.uid, "a message".to_string()));
        if let Some((uid, what)) = call.or(message) {
            self.database.promises.breaks(uid, format!("{what} of {uid} is due for an hour"));
        }
    }

    /// What is due is begun within a minute where nobody is busy, hindered or just started. Calls
    /// that undo something wait for attempts that end late, those that killed their process wait
    /// for each other, and those behind a gate for others to probe.
    fn check_late(&mut self, open: &[InstanceRow]) {
        let calm_since = self.restarted_at.unwrap_or_default().max(self.plan.trouble);
        if self.timeline.now() < calm_since + 2 * LATE {
            return;
        }
        let before = self.database_time().saturating_sub(LATE);
        let model = &self.database.model;
        let run = |row: &InstanceRow| RunKey { uid: row.uid, run: row.run };
        let tasks: Vec<TaskRow> = open.iter().flat_map(|row| model.tasks(run(row))).collect();
        let is_late = |task: &&TaskRow| {
            task.wake_at < before
                && !task.progress.undoes
                && !task.progress.poison
                && !self.is_behind_gate(task)
        };
        let late = tasks.iter().find(is_late);
        let late = late.filter(|_| tasks.iter().all(|task| task.claim.is_none()));
        let call = late.map(|task| (task.call.run.uid, format!("call {}", task.call.seq)));
        // What is sent at once is due since ever.
        let goes_on = |uid: &Uid| {
            let is_it = |row: &&InstanceRow| row.uid == *uid && row.status == Status::Running;
            open.iter().find(is_it).is_some_and(|row| row.error.is_none())
        };
        let timers = model.due_messages(ShardSet::ALL, before, 1_000);
        let mut timers = timers.iter().filter(|timer| timer.due_at >= BEGIN);
        let timer = timers.find(|timer| goes_on(&timer.uid));
        let timer = timer.map(|timer| (timer.uid, "a timer".to_string()));
        if let Some((uid, what)) = call.or(timer) {
            self.database.promises.breaks(uid, format!("{what} of {uid} is due for a minute"));
        }
    }

    /// What still waits for a signal gets one, until everything has ended.
    pub(crate) fn nudge(&mut self) {
        let open = InstanceFilter {
            status: vec![Status::Running, Status::Blocked, Status::Paused],
            limit: 1_000,
            ..InstanceFilter::default()
        };
        let open = self.database.model.list(&open);
        let is_idle = open.is_empty() && !self.users_want_more() && !self.keepers_want_more();
        let has_rows = !self.database.model.inbox(ShardSet::ALL, 1).is_empty();
        if self.is_at_rest(is_idle && !has_rows && !self.has_open_jobs()) {
            self.is_over = true;
            return;
        }
        self.check_overdue(&open);
        self.operators_let_go_on();
        let places = self.places();
        for row in open {
            let Some(number) = self.random.pick(&places).copied() else { continue };
            for name in ["go", "stop"] {
                let request = Input::Request(nudge(row.uid, row.run, name, &self.answers));
                self.arrived(number, Arrived::input(request));
            }
        }
        // Processes are also restarted where nothing is wrong.
        if self.restarts < 3 && self.random.one_in(4) {
            self.restarts += 1;
            self.restarted_at = Some(self.timeline.now());
            let number = self.random.below(self.hosts.len() as u64) as usize;
            self.stop(number);
        }
        self.timeline.after(NUDGE, Event::Nudge);
    }
}

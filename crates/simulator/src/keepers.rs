//! Those who keep schedules: they create them, pause and resume them, and pause them in the end, so
//! that everything can come to its end.

use std::time::Duration;

use resurgam_core::schedule::{Overlap, Rule, Schedule, State, decide};
use resurgam_core::{Payload, Timestamp};
use resurgam_store::model::Model;
use resurgam_store::{ScheduleRecord, ScheduleRow, ScheduleWrite, Step};
use resurgam_worker::node::{Input, Request};
use resurgam_worker::{Result, ScheduledStart};

use crate::host::Arrived;
use crate::program::{Maker, Program, Taste};
use crate::random::Random;
use crate::users::{Answer, Answers, Told};
use crate::world::{Event, World};

/// When whatever went wrong has no consequences for schedules any more.
const SETTLED: Duration = Duration::from_secs(120);

/// How long ago a firing is at most that nobody has decided about.
const SLACK: Duration = Duration::from_secs(60);

/// Somebody who keeps a schedule.
#[derive(Debug)]
pub(crate) struct Keeper {
    id: String,
    schedule: Schedule,
    input: Payload,
    /// When they begin.
    pub(crate) begins: Duration,
    /// What they want after they have created it, in this order, and when.
    wants: Vec<(Duration, Wish)>,
    /// How much of that is done.
    done: usize,
    is_created: bool,
    /// The number of what they asked last.
    pub(crate) asked: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Create,
    Pause,
    Resume,
}

impl Keeper {
    /// The keeper of this number.
    pub(crate) fn new(number: usize, taste: Taste, random: &mut Random, trouble: Duration) -> Self {
        let id = format!("every-{number}");
        let overlaps = [Overlap::Skip, Overlap::BufferOne, Overlap::Allow];
        let overlap = random.pick(&overlaps).copied().unwrap_or_default();
        let seconds = |random: &mut Random, most| Duration::from_secs(random.between(1, most));
        let every = Duration::from_secs(random.between(5, 60));
        let schedule = Schedule::new(id.clone(), Rule::every(every))
            .overlap(overlap)
            .catch_up(seconds(random, 90))
            .jitter(if random.one_in(2) { seconds(random, 5) } else { Duration::ZERO });
        let (program, _) = Maker::new(taste, random.fork()).small();
        let begins = random.delay(Duration::ZERO, trouble / 2);
        let mut wants = Vec::new();
        let mut at = begins;
        for wish in [Wish::Pause, Wish::Resume].repeat(random.below(3) as usize) {
            at += random.delay(Duration::from_millis(100), trouble / 3);
            wants.push((at, wish));
        }
        wants.push((trouble + SETTLED, Wish::Pause));
        Keeper {
            id,
            schedule,
            input: Payload::encode(&program).unwrap_or_else(|_| Payload::null()),
            begins,
            wants,
            done: 0,
            is_created: false,
            asked: 0,
        }
    }

    /// What they want now; `None` when they want nothing more.
    fn wish(&self) -> Option<(Duration, Wish)> {
        match self.is_created {
            false => Some((self.begins, Wish::Create)),
            true => self.wants.get(self.done).copied(),
        }
    }

    /// What they want now is so.
    fn is_done(&mut self) {
        match self.is_created {
            false => self.is_created = true,
            true => self.done += 1,
        }
    }

    /// The change that makes of the schedule what they want; `None` when it is so.
    fn change(&self, wish: Wish, found: Option<ScheduleRecord>, now: Timestamp) -> Option<Write> {
        let Some(ScheduleRecord { row, revision, .. }) = found else {
            return Some(ScheduleWrite::Insert(self.created(now)?));
        };
        let paused = match wish {
            Wish::Create => return None,
            Wish::Pause => true,
            Wish::Resume => false,
        };
        let state = State::from_stored(&row.state).ok()?;
        if row.paused == paused {
            return None;
        }
        let rule = Schedule::from_stored(&row.rule).ok()?.paused(paused).to_stored();
        let row = match paused {
            true => ScheduleRow { rule, paused, next_at: None, ..row },
            false => {
                let state = state.forget_until(now).to_stored();
                ScheduleRow { rule, paused, state, next_at: Some(now), ..row }
            }
        };
        Some(ScheduleWrite::Update { row, revision })
    }

    fn created(&self, now: Timestamp) -> Option<ScheduleRow> {
        let (state, checked) = (State::new(now), self.schedule.check().ok()?);
        let options = Payload::encode(&ScheduledStart::default()).ok()?;
        Some(ScheduleRow {
            id: self.id.clone(),
            workflow: <Program as resurgam_sdk::Workflow>::NAME.to_string(),
            input: self.input.clone(),
            rule: self.schedule.to_stored(),
            options: options.as_str().to_string(),
            state: state.to_stored(),
            paused: false,
            next_at: decide(&checked, &state, now, false).wake_at,
            waits: false,
            last: None,
            error: None,
            created_at: now,
        })
    }

    fn request(&mut self, write: Write, number: usize, answers: &Answers) -> Request {
        let (asked, told) = (self.asked, answers.clone());
        let is_new = matches!(write, ScheduleWrite::Insert(_));
        let step = Box::new(Step { schedule: Some(write.into()), ..Step::default() });
        let reply = answers.reply(move |answer: Result<()>| {
            told.push(Told { user: number, asked, answer: Answer::Scheduled(answer) });
        });
        Request::Schedule { step, is_new, reply }
    }
}

type Write = ScheduleWrite;

impl World {
    /// Somebody asks some process for what they want of a schedule.
    pub(crate) fn keeper_asks(&mut self, keeper: usize) {
        let now = self.timeline.now();
        self.keepers[keeper].asked += 1;
        let asked = self.keepers[keeper].asked;
        let Some((at, wish)) = self.keepers[keeper].wish() else { return };
        if at > now {
            return self.timeline.after(at - now, Event::Keeper(keeper));
        }
        let id = self.keepers[keeper].id.clone();
        if at >= self.plan.trouble + SETTLED && now < at + Duration::from_millis(1) {
            let time = self.database_time();
            self.database.promises.schedule_is_current(&id, time, SLACK);
        }
        let places = self.places();
        if let Some(number) = self.random.pick(&places).copied()
            && let Some(host) = self.hosts[number].host.as_ref()
        {
            let time = self.at(host).now;
            let found = self.database.model.schedule(&id);
            match self.keepers[keeper].change(wish, found, time) {
                None => return self.keeper_content(keeper),
                Some(write) => {
                    let request = self.keepers[keeper].request(write, keeper, &self.answers);
                    self.arrived(number, Arrived::input(Input::Request(request)));
                }
            }
        }
        let patience = self.random.delay(Duration::from_secs(1), Duration::from_secs(30));
        self.timeline.after(patience, Event::KeeperPatience { keeper, asked });
    }

    /// Somebody who keeps a schedule is told what became of their wish.
    pub(crate) fn keeper_told(&mut self, keeper: usize, asked: u64, answer: Result<()>) {
        if self.keepers[keeper].asked != asked {
            return;
        }
        match (answer, self.keepers[keeper].wish()) {
            (Ok(()), Some((_, wish))) => {
                let id = self.keepers[keeper].id.clone();
                let (model, paused): (&Model, _) = (&self.database.model, wish == Wish::Pause);
                self.database.promises.schedule_acknowledged(model, &id, paused);
                self.keeper_content(keeper);
            }
            // Somebody else changed it, or there is trouble: they look again.
            _ => {
                let pause = self.random.delay(Duration::from_millis(10), Duration::from_secs(5));
                self.timeline.after(pause, Event::Keeper(keeper));
            }
        }
    }

    fn keeper_content(&mut self, keeper: usize) {
        self.keepers[keeper].is_done();
        self.timeline.after(Duration::from_millis(1), Event::Keeper(keeper));
    }

    /// The database went back in time: who had created a schedule that is not there does it again.
    pub(crate) fn keepers_forget(&mut self) {
        for keeper in 0..self.keepers.len() {
            if self.database.model.schedule(&self.keepers[keeper].id).is_none() {
                self.keepers[keeper].is_created = false;
            }
        }
    }

    /// Whether somebody who keeps a schedule wants something.
    pub(crate) fn keepers_want_more(&self) -> bool {
        self.keepers.iter().any(|keeper| keeper.wish().is_some())
    }
}

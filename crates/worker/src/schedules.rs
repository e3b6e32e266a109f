//! Creating, changing and looking at schedules: what a handle can be asked.
//!
//! A change reads the schedule, makes another row of it and writes that, provided that nobody wrote
//! in between; otherwise it begins again. So everybody can change a schedule while the owner fires
//! it, and neither undoes what the other did.

use std::sync::Arc;
use std::time::Duration;

use resurgam_core::schedule::{Schedule, State, decide};
use resurgam_core::{Payload, Timestamp, Uid};
use resurgam_store::{ChildStart, ScheduleRecord, ScheduleRow, ScheduleWrite, Step};

use crate::error::{Error, Result};
use crate::handle::{Handle, given, given_names};
use crate::node::Request;
use crate::plan::{Plan, ScheduledStart, stored_start};
use crate::random::Random;

/// A schedule to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSchedule {
    /// When it fires and how.
    pub schedule: Schedule,
    /// The workflow that it starts.
    pub workflow: String,
    /// The argument.
    pub input: Payload,
    /// How its instances are started.
    pub start: ScheduledStart,
    /// Whether it takes the place of one with this id that says something else.
    pub replace: bool,
}

/// How many schedules are read at once.
const PAGE: usize = 500;

/// How many instances of a backfill one commit starts.
const BACKFILL_AT_ONCE: usize = 500;

/// And how many bytes of arguments, about.
const BACKFILL_BYTES: usize = 4 << 20;

impl Handle {
    /// Creates a schedule. One that is there already and says the same is left as it is.
    pub async fn put_schedule(&self, new: NewSchedule) -> Result<()> {
        let id = new.schedule.id.to_string();
        let what = format!("schedule {id}");
        let checked = new.schedule.check();
        checked.map_err(|error| Error::invalid(format!("{what}: {error}")))?;
        let ScheduledStart { queue, tags, .. } = &new.start;
        // Whoever creates it hears of it now; nobody is there to hear of it when it fires.
        given_names(&what, &new.workflow, queue.as_deref(), tags)?;
        loop {
            let busy = self.busy();
            let trouble = |error| Error::store(&what, error);
            let write = match self.store().schedule(&id).await.map_err(trouble)? {
                None => Some(ScheduleWrite::Insert(created(&new, self.now()))),
                Some(record) => {
                    let revision = record.revision;
                    let row = changed(&new, record, self.now(), &what)?;
                    row.map(|row| ScheduleWrite::Update { row, revision })
                }
            };
            let Some(write) = write else { return Ok(()) };
            let step = Box::new(Step { schedule: Some(write.into()), ..Step::default() });
            let request = |reply| Request::Schedule { step, is_new: true, reply };
            let asked = self.ask(&what, request);
            drop(busy);
            match asked.await {
                Err(error) if error.is_overtaken() => {}
                answer => return answer,
            }
        }
    }

    /// Pauses a schedule: it does not fire, and what would have fired is forgotten.
    pub async fn pause_schedule(&self, id: &str) -> Result<()> {
        self.change_schedule("pause", id, |record, plan, _| {
            let row = with_pause(&record.row, plan, true);
            (row != record.row).then(|| (row, Vec::new()))
        })
        .await
    }

    /// Lets a paused schedule fire again, from now on.
    pub async fn resume_schedule(&self, id: &str) -> Result<()> {
        self.change_schedule("resume", id, |record, plan, now| {
            if !record.row.paused {
                return None;
            }
            let row = with_pause(&record.row, plan, false);
            let state = plan.state.clone().forget_until(now);
            Some((ScheduleRow { next_at: Some(now), ..plan.remembers(&row, &state) }, Vec::new()))
        })
        .await
    }

    /// Starts an instance of a schedule now, whether it is paused or its last instance open.
    /// Answers with the id of the instance.
    pub async fn run_schedule_now(&self, id: &str) -> Result<String> {
        let mut started = String::new();
        self.change_schedule("run now", id, |record, plan, now| {
            // Twice in one moment is two instances.
            let after = plan.state.last.map(|last| last.saturating_add(Duration::from_millis(1)));
            let nominal = after.map_or(now, |after| after.max(now));
            let mut state = plan.state.clone();
            state.start(nominal);
            started = plan.schedule.instance_id(nominal);
            let mut random = Random::from_entropy();
            let child_starts = vec![plan.child_start(&record.row, nominal, now, &mut random)];
            Some((plan.remembers(&record.row, &state), child_starts))
        })
        .await?;
        Ok(started)
    }

    /// Starts the firings of a range now, both ends included; those that have their instance
    /// already are not started again. Answers with how many were started.
    pub async fn backfill(&self, id: &str, from: Timestamp, to: Timestamp) -> Result<u64> {
        let what = format!("backfill schedule {id}");
        let (record, plan) = self.read_plan(&what, id).await?;
        let times = plan.schedule.backfill(from, to);
        let times = times.map_err(|error| Error::invalid(format!("{what}: {error}")))?;
        let fitting = BACKFILL_BYTES / record.row.input.len().max(1);
        let (mut started, mut random) = (0, Random::from_entropy());
        for times in times.chunks(fitting.clamp(1, BACKFILL_AT_ONCE)) {
            let now = self.now();
            let child_starts = times
                .iter()
                .map(|nominal| plan.child_start(&record.row, *nominal, now, &mut random));
            let child_starts: Vec<ChildStart> = child_starts.collect();
            let uids: Arc<[Uid]> = child_starts.iter().map(|child| child.row.uid).collect();
            let step = Box::new(Step { child_starts, ..Step::default() });
            let request = |reply| Request::Schedule { step, is_new: false, reply };
            self.ask(&what, request).await?;
            started += self.count_born(&what, uids).await?;
        }
        Ok(started)
    }

    /// How many of these instances are there: an id that was taken has another uid.
    async fn count_born(&self, what: &str, uids: Arc<[Uid]>) -> Result<u64> {
        let _busy = self.busy();
        let missing = self.store().missing(uids.clone()).await;
        let missing = missing.map_err(|error| Error::store(what, error))?;
        Ok((uids.len() - missing.len()) as u64)
    }

    /// Deletes a schedule. Its instances go on.
    pub async fn delete_schedule(&self, id: &str) -> Result<()> {
        let what = format!("delete schedule {id}");
        given(&what, "the id", id)?;
        let write = ScheduleWrite::Delete { id: id.to_string() };
        let step = Box::new(Step { schedule: Some(write.into()), ..Step::default() });
        let request = |reply| Request::Schedule { step, is_new: false, reply };
        match self.ask(&what, request).await {
            Err(error) if error.is_overtaken() => Err(no_schedule(&what)),
            answer => answer,
        }
    }

    /// The schedule of this id.
    pub async fn schedule(&self, id: &str) -> Result<Option<ScheduleRecord>> {
        let what = format!("look at schedule {id}");
        given(&what, "the id", id)?;
        let _busy = self.busy();
        let found = self.store().schedule(id).await;
        found.map_err(|error| Error::store(what, error))
    }

    /// All schedules, by id.
    pub async fn schedules(&self) -> Result<Vec<ScheduleRecord>> {
        let _busy = self.busy();
        let mut all: Vec<ScheduleRecord> = Vec::new();
        loop {
            let after = all.last().map_or("", |record| record.row.id.as_str());
            let page = self.store().schedules(after, PAGE).await;
            let page = page.map_err(|error| Error::store("list schedules", error))?;
            let more = page.len() == PAGE;
            all.extend(page);
            if !more {
                return Ok(all);
            }
        }
    }

    /// Writes what `change` makes of a schedule, with what it starts. `None`: there is nothing to
    /// change.
    async fn change_schedule(
        &self,
        verb: &str,
        id: &str,
        mut change: impl FnMut(
            &ScheduleRecord,
            &Plan,
            Timestamp,
        ) -> Option<(ScheduleRow, Vec<ChildStart>)>,
    ) -> Result<()> {
        let what = format!("{verb} schedule {id}");
        loop {
            let busy = self.busy();
            let (record, plan) = self.read_plan(&what, id).await?;
            let Some((row, child_starts)) = change(&record, &plan, self.now()) else {
                return Ok(());
            };
            let write = ScheduleWrite::Update { row, revision: record.revision };
            let step =
                Box::new(Step { schedule: Some(write.into()), child_starts, ..Step::default() });
            let request = |reply| Request::Schedule { step, is_new: false, reply };
            let asked = self.ask(&what, request);
            drop(busy);
            match asked.await {
                Err(error) if error.is_overtaken() => {}
                answer => return answer,
            }
        }
    }

    async fn read_plan(&self, what: &str, id: &str) -> Result<(ScheduleRecord, Plan)> {
        given(what, "the id", id)?;
        let _busy = self.busy();
        let found = self.store().schedule(id).await;
        let found = found.map_err(|error| Error::store(what, error))?;
        let record = found.ok_or_else(|| no_schedule(what))?;
        let plan = Plan::read(&record.row);
        let plan = plan.map_err(|error| {
            Error::rejected(format!("{what}: it cannot be read, replace or delete it: {error}"))
        })?;
        Ok((record, plan))
    }
}

fn no_schedule(what: &str) -> Error {
    Error::unknown(format!("{what}: there is no schedule of this id"))
}

/// The row of a schedule that begins now.
fn created(new: &NewSchedule, now: Timestamp) -> ScheduleRow {
    let state = State::new(now);
    let next_at = new.schedule.check().ok();
    let next_at = next_at.and_then(|checked| decide(&checked, &state, now, false).wake_at);
    ScheduleRow {
        id: new.schedule.id.to_string(),
        workflow: new.workflow.clone(),
        input: new.input.clone(),
        rule: new.schedule.to_stored(),
        options: stored_start(&new.start),
        state: state.to_stored(),
        paused: new.schedule.paused,
        next_at,
        waits: false,
        last: None,
        error: None,
        created_at: now,
    }
}

/// The row of a schedule that is there already; `None` when it says the same. Whether it is paused
/// is not part of what it says: a program that declares its schedules at every start must not undo
/// what an operator did.
fn changed(
    new: &NewSchedule,
    record: ScheduleRecord,
    now: Timestamp,
    what: &str,
) -> Result<Option<ScheduleRow>> {
    let before = Plan::read(&record.row).ok();
    let same = before.as_ref().is_some_and(|plan| says_the_same(new, plan, &record.row));
    if same && !(new.replace && new.schedule.paused && !record.row.paused) {
        return Ok(None);
    }
    if !new.replace {
        return Err(Error::exists(format!(
            "{what}: there is a schedule of this id that says something else; choose another id, \
             or replace it"
        )));
    }
    let mut schedule = new.schedule.clone();
    schedule.paused |= record.row.paused;
    let rule_stays = before.as_ref().is_some_and(|plan| plan.schedule.rule == schedule.rule);
    let state = match before {
        Some(plan) if rule_stays => plan.state,
        Some(plan) => plan.state.forget_until(now),
        None => State::new(now),
    };
    Ok(Some(ScheduleRow {
        state: state.to_stored(),
        paused: schedule.paused,
        // What is due is for the owner to decide, and so is what the last instance holds up.
        next_at: Some(now).filter(|_| !schedule.paused),
        waits: state.buffered.is_some(),
        rule: schedule.to_stored(),
        last: record.row.last,
        created_at: record.row.created_at,
        ..created(new, now)
    }))
}

fn says_the_same(new: &NewSchedule, plan: &Plan, row: &ScheduleRow) -> bool {
    let paused = plan.schedule.paused;
    new.schedule.clone().paused(paused) == *plan.schedule
        && new.workflow == row.workflow
        && new.start == plan.start
        && same_value(&new.input, &row.input)
}

/// Two texts of one value: the order of fields means nothing.
fn same_value(one: &Payload, other: &Payload) -> bool {
    let value = |payload: &Payload| payload.decode::<serde_json::Value>().ok();
    one == other || value(one).is_some_and(|one| value(other) == Some(one))
}

/// The row of a schedule that is paused, or no longer.
fn with_pause(row: &ScheduleRow, plan: &Plan, paused: bool) -> ScheduleRow {
    let rule = plan.schedule.clone().into_inner().paused(paused).to_stored();
    let next_at = row.next_at.filter(|_| !paused);
    ScheduleRow { rule, paused, next_at, ..row.clone() }
}

//! Instances: a start that wins its id or is refused, and changes of status.

use resurgam_core::event::Compensation;
use resurgam_core::{Payload, RunKey, Uid};
use resurgam_store::rows::{InstanceRow, Status};
use resurgam_store::{Error, InstanceWrite, Replaces, Result, StepResult};
use rusqlite::{Connection, OptionalExtension, Statement, params};

use super::prepare;
use crate::encode::{encoding, millis, past_pause, pause, settings, whole};
use crate::errors::Attempted;

pub(crate) struct Instances<'c> {
    insert: Statement<'c>,
    holder: Statement<'c>,
    request: Statement<'c>,
    release: Statement<'c>,
    status: Statement<'c>,
    status_of: Statement<'c>,
    signals: Statement<'c>,
    continues: Statement<'c>,
    pause: Statement<'c>,
    tag: Statement<'c>,
}

/// What became of an instance that a workflow starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Started {
    /// It is written.
    New,
    /// It was written before.
    Before,
    /// Another one has its id.
    IdTaken,
}

/// Every unique index may refuse it: the uid's, the id's and the request id's.
const INSERT: &str = "
    INSERT INTO instance (uid, id, workflow, status, run, queue, request_id, input_encoding, input,
                          outcome_encoding, outcome, error, created_at, closed_at, priority,
                          parent, parent_run, parent_seq, schedule, settings, compensation)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
            ?20, ?21)
    ON CONFLICT DO NOTHING";

const HOLDER: &str = "SELECT uid, status FROM instance WHERE id = ?1 AND current = 1";

const REQUEST: &str = "SELECT 1 FROM instance WHERE request_id = ?1";

const RELEASE: &str = "UPDATE instance SET current = 0 WHERE id = ?1 AND current = 1";

const STATUS_OF: &str = "SELECT status FROM instance WHERE uid = ?1";

const STATUS: &str = "
    UPDATE instance SET status = ?2, outcome_encoding = ?3, outcome = ?4, error = ?5,
                        closed_at = ?6, compensation = ?7
    WHERE uid = ?1";

const CONTINUE: &str = "
    UPDATE instance SET run = ?2, input_encoding = ?3, input = ?4, status = ?5, error = NULL,
                        closed_at = NULL, outcome_encoding = NULL, outcome = NULL,
                        compensation = NULL, pause = coalesce(?6, pause)
    WHERE uid = ?1 AND current = 1";

const PAUSE: &str = "UPDATE instance SET status = ?2, pause = ?3, error = NULL WHERE uid = ?1";

/// Counts no further than it must.
const SIGNALS: &str = "
    SELECT count(*) FROM
        (SELECT 1 FROM message WHERE uid = ?1 AND kind = 'SignalReceived' LIMIT ?2)";

const TAG: &str = "
    INSERT INTO tag (uid, name, value, created_at) VALUES (?1, ?2, ?3, ?4)";

impl<'c> Instances<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Instances {
            insert: prepare(connection, INSERT)?,
            holder: prepare(connection, HOLDER)?,
            request: prepare(connection, REQUEST)?,
            release: prepare(connection, RELEASE)?,
            status: prepare(connection, STATUS)?,
            status_of: prepare(connection, STATUS_OF)?,
            signals: prepare(connection, SIGNALS)?,
            continues: prepare(connection, CONTINUE)?,
            pause: prepare(connection, PAUSE)?,
            tag: prepare(connection, TAG)?,
        })
    }

    pub(crate) fn write(&mut self, write: &InstanceWrite) -> Result<StepResult> {
        match write {
            InstanceWrite::Insert { row, replaces } => self.insert(row, *replaces),
            InstanceWrite::Open { uid, signals_below } => match self.open(*uid)? {
                StepResult::Written => self.has_room(*uid, *signals_below),
                refused => Ok(refused),
            },
            InstanceWrite::Continue { run, input, pause } => {
                self.continues(*run, input, pause.as_deref().map(past_pause))
            }
            InstanceWrite::Status { uid, status, outcome, compensation, error, closed_at } => {
                let values = params![
                    uid.to_bytes(),
                    status.name(),
                    encoding(outcome.as_ref()),
                    outcome.as_ref().map(Payload::as_str),
                    error,
                    millis(*closed_at),
                    compensation.map(Compensation::name),
                ];
                let changed = self.status.execute(values);
                must_be_one(changed, || format!("set instance {uid} to {}", status.name()))
            }
            InstanceWrite::Pause { uid, status, pause: of } => {
                let changed = self.pause.execute(params![uid.to_bytes(), status.name(), pause(of)]);
                must_be_one(changed, || format!("set instance {uid} to {}", status.name()))
            }
        }
    }

    /// Most starts have a fresh id, so the insert is tried first and only a refusal is looked into.
    fn insert(&mut self, row: &InstanceRow, replaces: Replaces) -> Result<StepResult> {
        let one_must_hold_it = matches!(replaces, Replaces::Only(_));
        if !one_must_hold_it && self.try_insert(row)? {
            return Ok(StepResult::Written);
        }
        let holder = self.holder_of(&row.id)?;
        if !replaces.frees(holder) || self.knows_request(row)? {
            return Ok(StepResult::Duplicate);
        }
        if holder.is_some() {
            self.release.execute([&row.id]).attempted(|| format!("release the id {:?}", row.id))?;
        }
        match self.try_insert(row)? {
            true => Ok(StepResult::Written),
            false => Err(Error::data(format!(
                "insert instance {:?}: its uid {} is that of another start",
                row.id, row.uid
            ))),
        }
    }

    fn try_insert(&mut self, row: &InstanceRow) -> Result<bool> {
        let values = params![
            row.uid.to_bytes(),
            row.id,
            row.workflow,
            row.status.name(),
            row.run,
            row.queue,
            row.request_id,
            Payload::ENCODING,
            row.input.as_str(),
            encoding(row.outcome.as_ref()),
            row.outcome.as_ref().map(Payload::as_str),
            row.error,
            row.created_at.as_millis(),
            millis(row.closed_at),
            row.priority,
            row.parent.map(|parent| parent.run.uid.to_bytes()),
            row.parent.map(|parent| parent.run.run),
            row.parent.map(|parent| whole(parent.seq.0)),
            row.schedule,
            settings(&row.settings),
            row.compensation.map(Compensation::name),
        ];
        let attempted = || format!("insert instance {:?}", row.id);
        if self.insert.execute(values).attempted(attempted)? == 0 {
            return Ok(false);
        }
        for (name, value) in &row.tags {
            let values = params![row.uid.to_bytes(), name, value, row.created_at.as_millis()];
            self.tag.execute(values).attempted(attempted)?;
        }
        Ok(true)
    }

    /// The instance that a workflow starts. One that is there already by its uid was started by the
    /// same command, before a crash.
    pub(crate) fn start_child(&mut self, row: &InstanceRow, replaces: Replaces) -> Result<Started> {
        let known = self.status_of.exists([row.uid.to_bytes()]);
        if known.attempted(|| format!("look for instance {:?}", row.id))? {
            return Ok(Started::Before);
        }
        match self.insert(row, replaces)? {
            StepResult::Written => Ok(Started::New),
            _ => Ok(Started::IdTaken),
        }
    }

    fn continues(
        &mut self,
        run: RunKey,
        input: &Payload,
        pause: Option<String>,
    ) -> Result<StepResult> {
        let (uid, running) = (run.uid.to_bytes(), Status::Running.name());
        let values = params![uid, run.run, Payload::ENCODING, input.as_str(), running, pause];
        let attempted = || format!("continue instance {} with run {}", run.uid, run.run);
        let changed = self.continues.execute(values);
        // Another one may have taken over its id, which is looked into when nothing was changed.
        if matches!(changed, Ok(0))
            && self.status_of.exists([run.uid.to_bytes()]).attempted(attempted)?
        {
            return Ok(StepResult::Duplicate);
        }
        must_be_one(changed, attempted)
    }

    /// An instance whose status this version does not know counts as open.
    fn open(&mut self, uid: Uid) -> Result<StepResult> {
        let status = self
            .status_of
            .query_row([uid.to_bytes()], |row| Ok(Status::named(row.get_ref(0)?.as_str()?)))
            .optional()
            .attempted(|| format!("look whether instance {uid} is open"))?;
        Ok(match status {
            Some(status) if !status.is_some_and(Status::is_closed) => StepResult::Written,
            _ => StepResult::Closed,
        })
    }

    /// Whether fewer signals than this wait for an instance.
    fn has_room(&mut self, uid: Uid, below: Option<usize>) -> Result<StepResult> {
        let Some(most) = below.and_then(|below| i64::try_from(below).ok()) else {
            return Ok(StepResult::Written);
        };
        let values = params![uid.to_bytes(), most];
        let waiting: i64 = self
            .signals
            .query_row(values, |row| row.get(0))
            .attempted(|| format!("count the signals that wait for instance {uid}"))?;
        Ok(if waiting < most { StepResult::Written } else { StepResult::Full })
    }

    /// The current holder of an id, and whether it is closed. A status that this version does not
    /// know counts as open: a newer version may have reason to keep the id.
    fn holder_of(&mut self, id: &str) -> Result<Option<(Uid, bool)>> {
        let is_closed = |status: &str| Status::named(status).is_some_and(Status::is_closed);
        self.holder
            .query_row([id], |row| {
                Ok((Uid::from_bytes(row.get(0)?), is_closed(row.get_ref(1)?.as_str()?)))
            })
            .optional()
            .attempted(|| format!("look for the holder of the id {id:?}"))
    }

    fn knows_request(&mut self, row: &InstanceRow) -> Result<bool> {
        match &row.request_id {
            None => Ok(false),
            Some(request) => self
                .request
                .exists([request])
                .attempted(|| format!("look for the request {request:?}")),
        }
    }
}

fn must_be_one(
    changed: rusqlite::Result<usize>,
    attempted: impl Fn() -> String,
) -> Result<StepResult> {
    match changed.attempted(&attempted)? {
        1 => Ok(StepResult::Written),
        _ => Err(Error::data(format!("{}: there is no such instance", attempted()))),
    }
}

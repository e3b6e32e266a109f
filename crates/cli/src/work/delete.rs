//! `resurgam delete`: closed instances go, with everything of theirs.

use std::time::Duration;

use resurgam::{ClosedFilter, InstanceCursor, InstanceFilter, Status, Timestamp};
use resurgam_core::duration;

use crate::exit::Exit;
use crate::form::{Form, line};
use crate::operator::{Operator, Reach};
use crate::output::Output;
use crate::policy::complaint::printable;
use crate::trouble::{Mistake, Trouble};

/// How many instances are read at once where they are only counted.
const PAGE: usize = 1_000;

/// Delete closed instances with everything of theirs
///
/// One by its id, or all that options choose; several options choose what all of them say. An
/// instance that is open is never deleted: `cancel` or `terminate` it first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The instance; options choose unless given
    #[arg(conflicts_with_all = ["status", "workflow", "older_than", "tag", "all"])]
    id: Option<String>,
    /// Those of this status: completed, failed, cancelled or terminated; more than once for several
    #[arg(long, value_name = "STATUS", value_parser = closed_status)]
    status: Vec<Status>,
    /// Those of this workflow
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// Those that closed longer ago than this, such as 30d
    #[arg(long, value_name = "TIME", value_parser = time)]
    older_than: Option<Duration>,
    /// Those with this tag
    #[arg(long, value_name = "NAME=VALUE", value_parser = tag)]
    tag: Option<(String, String)>,
    /// All that are closed
    #[arg(long)]
    all: bool,
    /// Delete nothing, and say how many would go
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    pub(super) json: bool,
}

fn closed_status(name: &str) -> Result<Status, String> {
    let closed = Status::named(name).filter(|status| status.is_closed());
    closed.ok_or_else(|| "write completed, failed, cancelled or terminated".to_string())
}

fn time(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|what| format!("this {what}"))
}

fn tag(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_string(), value.to_string()))
}

impl Args {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        match (&self.id, self.dry_run) {
            (Some(id), true) => self.look_at(id).await,
            (Some(id), false) => {
                self.reach.ask(async |operator| Ok(operator.delete(id).await?)).await?;
                Ok(self.told(1, &format!("{id} is deleted")))
            }
            (None, dry_run) => self.many(dry_run).await,
        }
    }

    /// Says whether one could be deleted.
    async fn look_at(&self, id: &str) -> Result<Output, Trouble> {
        let look = async |operator: &Operator| match operator.find(id).await? {
            None => Err(resurgam::Error::no_instance(&format!("delete {id}")).into()),
            Some(row) if !row.status.is_closed() => {
                let status = row.status.name();
                let message = format!("delete {id}: the instance is open ({status})");
                Err(Mistake::new(message).hint("cancel it first").into())
            }
            Some(_) => Ok(()),
        };
        self.reach.look(look).await?;
        Ok(self.told(1, &format!("{id} would be deleted")))
    }

    async fn many(&self, dry_run: bool) -> Result<Output, Trouble> {
        let chosen = !self.status.is_empty()
            || self.workflow.is_some()
            || self.older_than.is_some()
            || self.tag.is_some();
        if !chosen && !self.all {
            let message = "delete: nobody says which instances";
            let hint = "name one by its id, or choose with --status, --workflow, --older-than or \
                        --tag; --all is everything that is closed";
            return Err(Mistake::new(message).hint(hint).into());
        }
        if dry_run {
            let count = self.reach.look(async |operator| Ok(self.count(operator).await?)).await?;
            return Ok(self.told(count, &format!("{} would be deleted", instances(count))));
        }
        let filter = ClosedFilter {
            status: self.status.clone(),
            older_than: self.older_than,
            workflow: self.workflow.clone(),
            tag: self.tag.clone(),
        };
        let deleted = async |operator: &Operator| Ok(operator.delete_closed(filter).await?);
        let count = self.reach.ask(deleted).await?;
        Ok(self.told(count, &format!("{} deleted", instances(count))))
    }

    /// How many would go, page by page.
    async fn count(&self, operator: &Operator) -> resurgam::Result<u64> {
        let now = operator.now();
        let closed_before = self.older_than.map(|time| now.saturating_sub(time));
        let is_old = |closed_at: Timestamp| closed_before.is_none_or(|before| closed_at < before);
        let closed = Status::ALL.into_iter().filter(|status| status.is_closed());
        let status = match self.status.is_empty() {
            true => closed.collect(),
            false => self.status.clone(),
        };
        let mut filter = InstanceFilter {
            status,
            workflow: self.workflow.clone(),
            tag: self.tag.clone(),
            limit: PAGE,
            ..InstanceFilter::default()
        };
        let mut count = 0;
        loop {
            let rows = operator.list(filter.clone()).await?;
            count += rows.iter().filter(|row| row.closed_at.is_some_and(is_old)).count() as u64;
            match rows.last() {
                Some(last) if rows.len() == PAGE => filter.after = Some(InstanceCursor::of(last)),
                _ => return Ok(count),
            }
        }
    }

    fn told(&self, count: u64, text: &str) -> Output {
        let name = if self.dry_run { "would_delete" } else { "deleted" };
        match self.json {
            true => Output::json(line(&Form::default().with(name, count)), Exit::Done),
            false => Output::done(printable(text) + "\n"),
        }
    }
}

fn instances(count: u64) -> String {
    match count {
        1 => "1 instance".to_string(),
        count => format!("{count} instances"),
    }
}

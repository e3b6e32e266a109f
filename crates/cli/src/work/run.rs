//! `resurgam run` and `resurgam start`: from a file to an instance.

use std::path::{Path, PathBuf};
use std::time::Duration;

use resurgam::{Client, InstanceRow};
use resurgam_core::{Code, Payload};

use super::each::{self, Each};
use super::ended::{self, Ended};
use super::node::{self, NodeArgs, Settings};
use super::screen::Screen;
use super::{wait, warn};
use crate::database::{Database, DbArgs};
use crate::exit::Exit;
use crate::form::{Form, line};
use crate::operator::{NewInstance, Operator, Reach};
use crate::output::Output;
use crate::policy::complaint::printable;
use crate::program::{self, Argument, FileArgs, InputArgs, Source};
use crate::signals::Signals;
use crate::trouble::{Mistake, Trouble};

/// How often is asked who works on a server.
const LOOK: Duration = Duration::from_secs(1);

/// Run a program or a graph and wait for its result
///
/// The result is printed as JSON. With the id of an instance that is there, the instance is
/// continued if it was started from the same program with the same input. Where another process
/// works on the database, this one waits for it, and takes over when it dies.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    what: WhatArgs,
    /// The folder of the actions; `actions` beside the file unless given
    #[arg(long, value_name = "DIR")]
    actions: Option<PathBuf>,
    /// Wait for actions that are not there yet, in place of refusing the file
    #[arg(long)]
    wait_for_actions: bool,
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    db: DbArgs,
    /// Print one JSON value
    #[arg(long)]
    pub(super) json: bool,
}

/// Start a program or a graph and leave the work to a worker
///
/// With --each, an instance for each line of a file. A line that is wrong is named, and the others
/// are started; the same file again starts nothing twice. Exit code 2 when a line was refused.
#[derive(Debug, clap::Args)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    what: WhatArgs,
    /// An instance for each line of this file, or of standard input (-): {"id": .., "input": {..}}
    /// in JSON. Without an id it is --id, or the name of this file, and the number of the line
    #[arg(long, value_name = "FILE", conflicts_with = "input")]
    each: Option<PathBuf>,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    pub(super) json: bool,
}

/// What is to be started.
#[derive(Debug, clap::Args)]
struct WhatArgs {
    #[command(flatten)]
    file: FileArgs,
    #[command(flatten)]
    input: InputArgs,
    /// The id of the instance; made up unless given
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// The queue of its actions
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
}

/// An instance that can be started.
pub(super) struct Wanted {
    pub(super) id: String,
    pub(super) workflow: String,
    pub(super) argument: Payload,
    pub(super) queue: Option<String>,
}

impl WhatArgs {
    /// Reads and checks everything that can be checked before anything is stored.
    fn read(&self) -> Result<(Source, Wanted), Trouble> {
        if self.id.as_deref() == Some("") {
            return Err(Trouble::refused("--id: an empty id is not allowed"));
        }
        let source = self.file.read()?;
        let Argument { payload, warnings } = self.input.argument(&source)?;
        warn(&source.warnings());
        warn(&warnings);
        let workflow = source.workflow();
        let id = self.id.clone().unwrap_or_else(|| made_up(&workflow));
        let wanted = Wanted { id, workflow, argument: payload, queue: self.queue.clone() };
        Ok((source, wanted))
    }
}

/// An id that nobody has: the name of the workflow with something random.
fn made_up(workflow: &str) -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("{workflow}-{}", &random[..12])
}

impl Wanted {
    /// Starts it. The error is that of a taken id, too.
    pub(super) async fn start(&self, operator: &Operator) -> resurgam::Result<()> {
        let Wanted { id, workflow, argument, queue } = self;
        let queue = queue.as_deref();
        operator.start(NewInstance { id, workflow, argument, queue }).await
    }

    /// Starts it, or finds the one that was started so before; also one whose answer was lost. True
    /// when it was there.
    async fn start_or_attach(&self, operator: &Operator, screen: &Screen) -> Result<bool, Trouble> {
        let error =
            match wait::answered(operator, screen, async || self.start(operator).await).await {
                Ok(()) => return Ok(false),
                Err(error) if error.is_already_exists() => error,
                Err(error) => return Err(error.into()),
            };
        match wait::answered(operator, screen, async || operator.find_whole(&self.id).await).await?
        {
            Some(row) => self.is_same(operator, &row).map(|()| true),
            // It was deleted in between.
            None => Err(error.into()),
        }
    }

    /// Refuses an instance that was started from something else.
    pub(super) fn is_same(&self, operator: &Operator, row: &InstanceRow) -> Result<(), Trouble> {
        let wanted = operator.shown(&self.argument);
        let different = match row.workflow == self.workflow {
            true => program::difference(&row.input, &wanted, program::key()?.as_ref()),
            false => Some(format!("it is an instance of {}, not {}", row.workflow, self.workflow)),
        };
        match different {
            None => Ok(()),
            Some(what) => {
                let message = format!("{} cannot be continued with this file: {what}", self.id);
                let hint = "choose another --id to start a new instance";
                Err(Mistake::new(message).code(Code::C3).hint(hint).into())
            }
        }
    }
}

impl StartArgs {
    pub(super) async fn run(mut self) -> Result<Output, Trouble> {
        if let Some(lines) = self.each.take() {
            return self.each(lines).await;
        }
        let (_, wanted) = self.what.read()?;
        self.reach.ask_new(async |operator| Ok(wanted.start(operator).await?)).await?;
        let Wanted { id, workflow, .. } = wanted;
        match self.json {
            true => {
                let started = Form::default().with("id", &id).with("workflow", &workflow);
                Ok(Output::json(line(&started.with("status", "running")), Exit::Done))
            }
            false => Ok(Output::done(format!("{id}\n"))),
        }
    }
}

impl StartArgs {
    /// Starts an instance for each line.
    async fn each(self, lines: PathBuf) -> Result<Output, Trouble> {
        let WhatArgs { file, input, id, queue } = self.what;
        if lines == Path::new("-") && input.store.as_deref() == Some("-") {
            let message = "--each and --store cannot both be read from standard input";
            return Err(Mistake::new(message).hint("write one of them as a file").into());
        }
        let source = file.read()?;
        warn(&source.warnings());
        let prefix = id.or_else(|| each::prefix(&lines));
        let (store, json) = (input.texts()?.store, self.json);
        let each = Each { source, lines, prefix, store, queue, json };
        let from = each.open()?;
        self.reach.ask_new(async |operator| each.start(operator, from).await).await
    }
}

impl RunArgs {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        let (source, wanted) = self.what.read()?;
        let instead = "`start --server` starts it, and `watch --server` waits for its end";
        let database = self.db.database("run", instead)?;
        let folder = node::folder_of(self.actions.as_ref(), &source.path)?;
        if !self.wait_for_actions {
            source.missing_actions(folder.as_deref())?;
        }
        let screen = Screen::new(self.json);
        screen.log();
        let busy = busy_server(&database).await?;
        // Not before: up to here there is nothing that could not just be ended.
        let mut signals = Signals::new()?;
        if let Some(client) = busy {
            // Others do the work, with actions of their own.
            tokio::select! {
                ended = self.follow(&client, &wanted, &screen, &mut signals) => {
                    let operator = Operator::Database(client.clone());
                    return ended::output(&operator, &wanted.id, ended?, &screen, self.json).await;
                }
                () = abandoned(&client) => screen.clear(),
            }
        }
        let settings = Settings { queues: Vec::new(), drain: Duration::ZERO, remote: None };
        let node = tokio::select! {
            node = self.node.begin(&database, folder, settings) => node?,
            () = signals.wait() => return Ok(ended::not_begun(&wanted.id, self.json)),
        };
        let ended = self.follow(node.client(), &wanted, &screen, &mut signals).await;
        let operator = Operator::Database(node.client().clone());
        let output = match ended {
            Ok(Ended::Interrupted) => Ok(None),
            Ok(ended) => {
                let output = ended::output(&operator, &wanted.id, ended, &screen, self.json);
                output.await.map(Some)
            }
            Err(trouble) => Err(trouble),
        };
        let stopped = tokio::select! {
            stopped = node.stop() => stopped,
            () = signals.wait() => Ok(()),
        };
        match output? {
            Some(output) => stopped.map(|()| output),
            None => {
                // What became of the attempts is for the next process to find out.
                if let Err(trouble) = stopped {
                    warn(&trouble.messages());
                }
                ended::output(&operator, &wanted.id, Ended::Interrupted, &screen, self.json).await
            }
        }
    }

    /// Starts or continues the instance and waits for it.
    async fn follow(
        &self,
        client: &Client,
        wanted: &Wanted,
        screen: &Screen,
        signals: &mut Signals,
    ) -> Result<Ended, Trouble> {
        let operator = &Operator::Database(client.clone());
        let begun = async {
            let there = wanted.start_or_attach(operator, screen).await?;
            let owner = wait::answered(operator, screen, async || client.owner().await).await?;
            Ok::<_, Trouble>((there, owner.filter(|_| !client.is_owner())))
        };
        let (there, owner) = tokio::select! {
            begun = begun => begun?,
            // A database that takes nothing may do so for long.
            () = signals.wait() => return Ok(Ended::Interrupted),
        };
        let verb = if there { "continues" } else { "started" };
        let elsewhere = owner.map(|owner| format!("; {owner} works on it"));
        let id = printable(&wanted.id);
        screen.say(&format!("{id} {verb}{}\n", elsewhere.unwrap_or_default()));
        wait::until_closed(operator, &wanted.id, screen, signals).await
    }
}

/// Waits until nobody works on a server any more. Who died is told from who is slow by a lease.
async fn abandoned(client: &Client) {
    loop {
        tokio::time::sleep(LOOK).await;
        // A database in trouble says nothing about who works.
        if let Ok(None) = client.owner().await {
            return;
        }
    }
}

/// A client of a server on which others work. On a file the one who waits is also the one who takes
/// over at once.
async fn busy_server(database: &Database) -> Result<Option<Client>, Trouble> {
    match database {
        Database::Sqlite(_) => Ok(None),
        Database::Postgres(_) => {
            let Some(client) = database.found().await? else { return Ok(None) };
            let is_busy = client.owner().await?.is_some();
            Ok(is_busy.then_some(client))
        }
    }
}

//! `resurgam worker`: works until it is told to stop.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use resurgam::Client;
use resurgam_core::duration;
use resurgam_sdk::ActivitySource;
use serde_json::json;

use super::node::{self, NodeArgs, Settings};
use super::{log, metrics};
use crate::actions::Folder;
use crate::database::{Database, DbArgs};
use crate::exit::Exit;
use crate::output::Output;
use crate::signals::Signals;
use crate::trouble::{Mistake, Trouble};

/// Work on a database until told to stop
///
/// On a SQLite file one worker works and others stand by; on PostgreSQL they share the work.
/// SIGTERM or Ctrl-C drains: no action begins any more, those that run may end by themselves; a
/// second one ends them at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder of the actions; the folder `actions` here unless given
    #[arg(long, value_name = "DIR")]
    actions: Option<PathBuf>,
    /// A queue to work on, more than once for several; all queues unless given
    #[arg(long, value_name = "QUEUE")]
    queue: Vec<String>,
    /// How long actions may go on when the worker is told to stop, before they are told as well
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "30s")]
    drain: Duration,
    /// Serve metrics at this address, such as 9464 (on this machine only) or 0.0.0.0:9464
    #[arg(long, value_name = "ADDR", value_parser = metrics::address)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    db: DbArgs,
    /// Print one JSON value at the end
    #[arg(long)]
    pub(super) json: bool,
}

impl Args {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        log::begin("info", None);
        let instead = "have a worker in any language ask the server (docs/remote-workers.md)";
        let database = self.db.database("worker", instead)?;
        let folder = self.folder()?;
        if let Some(address) = self.metrics {
            let served = metrics::serve(address).await;
            let address = served
                .map_err(|error| Trouble::refused(format!("--metrics {address}: {error}")))?;
            tracing::info!("metrics at http://{address}/metrics");
        }
        let settings = Settings { queues: self.queue.clone(), drain: self.drain, remote: None };
        let node = self.node.begin(&database, Some(folder), settings).await?;
        // Not before: up to here there is nothing that could not just be ended.
        let mut signals = Signals::new()?;
        let announced = tokio::spawn(announce(node.client().clone(), database.clone()));
        tokio::select! {
            () = signals.wait() => {}
            why = node.ended() => return Err(why),
        }
        announced.abort();
        tracing::info!("stopping: actions that run have {:?} to end by themselves", self.drain);
        let drained = tokio::select! {
            stopped = node.stop() => stopped.map(|()| true)?,
            () = signals.wait() => false,
        };
        Ok(ended(drained, self.json))
    }
}

impl Args {
    /// The folder of the actions. A worker without one would only let instances wait, so it is
    /// refused.
    fn folder(&self) -> Result<Arc<Folder>, Trouble> {
        let here = Path::new("actions");
        let path = match &self.actions {
            Some(path) => path,
            None if here.is_dir() => here,
            None => {
                let message = "a worker needs the folder of the actions that it runs, and there \
                               is no folder `actions` here";
                return Err(Mistake::new(message).hint("give it with --actions DIR").into());
            }
        };
        let folder = node::folder(path)?;
        tracing::info!("{} actions in {}", folder.names().len(), path.display());
        Ok(folder)
    }
}

fn ended(drained: bool, json: bool) -> Output {
    let exit = if drained { Exit::Done } else { Exit::Stopped };
    let stdout = match json {
        true => json!({"drained": drained}).to_string() + "\n",
        false => String::new(),
    };
    Output { stdout, stderr: String::new(), exit }
}

/// Says whether this process works or waits for its turn.
async fn announce(client: Client, database: Database) {
    if !client.is_owner()
        && let Ok(Some(owner)) = client.owner().await
    {
        tracing::info!("{owner} works on {database}; standing by");
    }
    if client.until_owner().await.is_ok() {
        tracing::info!("working on {database}");
    }
}

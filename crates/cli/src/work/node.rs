//! A process that works: an app that runs files, with a folder of actions.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use resurgam::{App, AppBuilder, Client};
use resurgam_core::Code;
use resurgam_server::Remote;
use tokio::task::JoinHandle;

use crate::actions::launch::Launcher;
use crate::actions::{Drain, Folder, GRACE, Runner};
use crate::database::Database;
use crate::program::{any_workflow, key};
use crate::trouble::{Mistake, Trouble};

/// How many actions run at once for each core: they wait more than they compute.
const SLOTS_PER_CORE: usize = 4;

/// How many attempts of remote workers are given out or wait for one at once, where no actions run.
const SLOTS_OF_REMOTE: usize = 1_000;

/// How often the folder is looked at for executables that have come.
const LOOK: Duration = Duration::from_secs(1);

/// What is left of the grace period for the last commits.
const LAST_WRITES: Duration = Duration::from_secs(1);

/// How a process works.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct NodeArgs {
    /// How many actions run at once; 4 for each core unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    slots: Option<u32>,
}

/// What else is set about a node.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// The queues whose actions run here; all when there is none.
    pub(super) queues: Vec<String>,
    /// How long actions may go on when the process is to end, before they are told.
    pub(super) drain: Duration,
    /// Where the attempts of remote workers wait, if there are any.
    pub(super) remote: Option<Remote>,
}

/// A process that works.
pub(super) struct Node {
    app: App,
    drain: Option<Drain>,
    settings: Settings,
    watch: Option<JoinHandle<()>>,
}

impl NodeArgs {
    /// Begins to work on a database.
    pub(super) async fn begin(
        &self,
        database: &Database,
        folder: Option<Arc<Folder>>,
        settings: Settings,
    ) -> Result<Node, Trouble> {
        let app = database.app(self.builder(folder.clone(), &settings)).await?;
        let drain = folder.as_ref().map(|folder| folder.runner().drain());
        let watch = folder.map(|folder| tokio::spawn(watch(folder, app.clone())));
        Ok(Node { app, drain, settings, watch })
    }

    fn builder(&self, folder: Option<Arc<Folder>>, settings: &Settings) -> AppBuilder {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // Remote workers bring their own; here their attempts only wait.
        let usual = match (&settings.remote, &folder) {
            (Some(_), None) => SLOTS_OF_REMOTE,
            _ => cores * SLOTS_PER_CORE,
        };
        let slots = self.slots.map_or(usual, |slots| slots as usize);
        let mut builder = App::builder()
            .any_workflow(any_workflow())
            .slots(slots)
            .grace(settings.drain + GRACE + LAST_WRITES);
        if let Some(remote) = &settings.remote {
            builder = builder.activities_in(remote.source());
        }
        if let Some(folder) = folder {
            let provides = folder.runner().provides();
            builder = builder.activities_in(folder).options(|options| options.provides = provides);
        }
        let queues: Arc<[String]> = settings.queues.as_slice().into();
        let some = !queues.is_empty();
        builder.options(|options| options.queues = some.then_some(queues))
    }
}

impl Node {
    pub(super) fn client(&self) -> &Client {
        &self.app
    }

    /// Waits until it has ended by itself, and says why.
    pub(super) fn ended(&self) -> impl Future<Output = Trouble> + use<> {
        let ended = self.app.ended();
        async move {
            let why = ended.await.err().map(|error| (error.to_string(), error.code()));
            let (why, code) = why.unwrap_or(("the engine has stopped".to_string(), Code::E8));
            Trouble::Failed(Box::new(Mistake::new(why).code(code)))
        }
    }

    /// Ends: actions that run have time to end by themselves, then they are told, then killed.
    pub(super) async fn stop(self) -> Result<(), Trouble> {
        if let Some(drain) = &self.drain {
            drain.begin(self.settings.drain);
        }
        let stopped = self.app.stop().await;
        self.watch.iter().for_each(JoinHandle::abort);
        Ok(stopped?)
    }
}

/// Opens a folder of actions.
pub(super) fn folder(path: &Path) -> Result<Arc<Folder>, Trouble> {
    let runner = Runner::new(Launcher::guarded()?, key()?)?;
    let opened = Folder::open(path, runner);
    let folder = opened
        .map_err(|error| Trouble::refused(format!("--actions {}: {error}", path.display())))?;
    Ok(Arc::new(folder))
}

/// The folder of actions of a file: the one that was named, else `actions` beside the file.
pub(super) fn folder_of(
    named: Option<&PathBuf>,
    file: &Path,
) -> Result<Option<Arc<Folder>>, Trouble> {
    let beside = file.parent().unwrap_or(Path::new("")).join("actions");
    match named {
        Some(path) => folder(path).map(Some),
        None if beside.is_dir() => folder(&beside).map(Some),
        None => Ok(None),
    }
}

/// Looks at the folder every now and then, for as long as it is polled.
async fn watch(folder: Arc<Folder>, client: Client) {
    loop {
        tokio::time::sleep(LOOK).await;
        let look = folder.clone();
        let looked = tokio::task::spawn_blocking(move || look.look()).await;
        match looked {
            Ok(Ok(true)) => client.activities_changed(),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => tracing::warn!("look at the folder of actions: {error}"),
            // The runtime ends.
            Err(_) => return,
        }
    }
}

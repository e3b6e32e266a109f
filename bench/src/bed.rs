//! What is measured on: a store of its own for every run.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use clap::ValueEnum;
use resurgam::{App, AppBuilder};
use resurgam_store_sqlite::{Commits, Options, SqliteStore, SyncMode};

use crate::Result;
use crate::report::Report;

/// The arguments that every mode has.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Bed {
    /// Where to run: sqlite:FILE. The file must not be there yet.
    #[arg(long, value_name = "STORE")]
    store: Location,
    /// What a commit survives: the loss of power, or only the death of the process.
    #[arg(long, value_enum, default_value_t = Sync::Full)]
    sync: Sync,
    /// How many attempts run at once; as the engine has it unless set.
    #[arg(long)]
    slots: Option<usize>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug)]
enum Location {
    Sqlite(PathBuf),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sync {
    Full,
    Normal,
}

/// An app on a fresh store, with the store's counters.
pub(crate) struct Opened {
    pub(crate) app: App,
    store: Arc<SqliteStore>,
}

impl FromStr for Location {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once(':') {
            Some(("sqlite", file)) if !file.is_empty() => Ok(Location::Sqlite(file.into())),
            _ => Err("expected sqlite:FILE".to_string()),
        }
    }
}

impl Bed {
    /// Begins an app on the store.
    pub(crate) fn open(&self, app: AppBuilder) -> Result<Opened> {
        let Location::Sqlite(file) = &self.store;
        if file.exists() {
            // Figures from a file that grew before are not comparable with those from a fresh one.
            return Err(format!("{} is there already; delete it first", file.display()).into());
        }
        let sync = match self.sync {
            Sync::Full => SyncMode::Full,
            Sync::Normal => SyncMode::Normal,
        };
        let store = Arc::new(SqliteStore::open(file, Options::default().sync(sync))?);
        let app = match self.slots {
            Some(slots) => app.slots(slots),
            None => app,
        };
        Ok(Opened { app: app.on(store.clone())?, store })
    }

    /// Prints what was measured.
    pub(crate) fn print(&self, report: &Report) -> Result<()> {
        match self.json {
            true => println!("{}", serde_json::to_string(report)?),
            false => print!("{report}"),
        }
        Ok(())
    }
}

impl Opened {
    /// What the store has written so far.
    pub(crate) fn commits(&self) -> Commits {
        self.store.commits()
    }

    /// Stops the app and waits until the file is at rest.
    pub(crate) async fn close(self) -> Result<()> {
        self.app.stop().await?;
        self.store.close().await;
        Ok(())
    }
}

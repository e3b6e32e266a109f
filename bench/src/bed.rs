//! What is measured on: a store of its own for every run.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use resurgam::{App, AppBuilder};
use resurgam_store::Store;
use resurgam_store_postgres::{Options as PostgresOptions, PostgresStore};
use resurgam_store_sqlite::{Options as SqliteOptions, SqliteStore, SyncMode};

use crate::report::{Commits, Report, percentile};
use crate::{Misuse, Result, server};

/// The arguments that every mode has.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Bed {
    /// Where to run: sqlite:FILE, which must not be there yet, or postgres://..., where a schema is
    /// made and dropped.
    #[arg(long, value_name = "STORE")]
    store: Location,
    /// What a commit survives: the loss of power, or only the death of the process.
    #[arg(long, value_enum, default_value_t = Sync::Full)]
    sync: Sync,
    /// How many attempts run at once; as the engine has it unless set.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    slots: Option<u64>,
    /// How many connections commit on PostgreSQL; as the store has it unless set.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    lanes: Option<u16>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Which database.
#[derive(Clone, Debug)]
pub(crate) enum Location {
    Sqlite(PathBuf),
    Postgres(String),
}

/// What a commit survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sync {
    Full,
    Normal,
}

/// A place where nothing is yet: a file, or a schema.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) location: Location,
    pub(crate) sync: Sync,
    /// The schema, on PostgreSQL.
    pub(crate) schema: String,
    slots: Option<u64>,
    lanes: Option<u16>,
}

/// A store that is open.
#[derive(Clone, Debug)]
pub(crate) enum Kept {
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
}

/// An app on a store.
pub(crate) struct Opened {
    pub(crate) app: App,
    store: Kept,
}

impl FromStr for Location {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once(':') {
            Some(("sqlite", file)) if !file.is_empty() => Ok(Location::Sqlite(file.into())),
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
                Ok(Location::Postgres(text.to_string()))
            }
            _ => Err("expected sqlite:FILE or postgres://USER@HOST/DATABASE".to_string()),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Sqlite(file) => write!(f, "sqlite:{}", file.display()),
            Location::Postgres(url) => f.write_str(url),
        }
    }
}

impl Bed {
    /// A place for a run of its own. Figures from a file that grew before are not comparable with
    /// those from a fresh one.
    pub(crate) fn place(&self) -> Result<Place> {
        match &self.store {
            Location::Sqlite(file) if file.exists() => {
                let taken = format!("{} is there already; delete it first", file.display());
                return Err(Misuse::because(taken));
            }
            Location::Sqlite(_) if self.lanes.is_some() => {
                return Err(Misuse::because("--lanes is for PostgreSQL: SQLite has one writer"));
            }
            Location::Postgres(_) if self.sync == Sync::Normal => {
                return Err(Misuse::because(
                    "--sync normal is for SQLite: on PostgreSQL every commit of ours insists on \
                     synchronous_commit = on",
                ));
            }
            _ => {}
        }
        let schema = format!("resurgam_bench_{:016x}", fastrand::u64(..));
        Ok(self.at(schema))
    }

    /// How many attempts run at once, where that is set.
    pub(crate) fn slots(&self) -> Option<u64> {
        self.slots
    }

    /// A place that another process has made.
    pub(crate) fn at(&self, schema: String) -> Place {
        Place {
            location: self.store.clone(),
            sync: self.sync,
            schema,
            slots: self.slots,
            lanes: self.lanes,
        }
    }

    /// Prints what was measured, and beside it what a commit survived.
    pub(crate) async fn print(&self, place: &Place, mode: &str, report: &Report) -> Result<()> {
        let title = format!("{mode} on {}", place.promise().await?);
        match self.json {
            true => {
                eprintln!("{title}");
                println!("{}", serde_json::to_string(report)?);
            }
            false => print!("{title}\n{report}"),
        }
        Ok(())
    }
}

impl Place {
    /// Another one of the same kind beside it.
    pub(crate) fn another(&self, name: &str) -> Result<Place> {
        let mut other = self.clone();
        other.schema = format!("{}_{name}", self.schema);
        if let Location::Sqlite(file) = &mut other.location {
            file.as_mut_os_string().push(format!("-{name}"));
            if file.exists() {
                let taken = format!("{} is there already; delete it first", file.display());
                return Err(Misuse::because(taken));
            }
        }
        Ok(other)
    }

    /// The arguments with which another process works on it as this one does.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let slots = self.slots.map(|slots| ["--slots".to_string(), slots.to_string()]);
        let lanes = self.lanes.map(|lanes| ["--lanes".to_string(), lanes.to_string()]);
        let store = ["--store".to_string(), self.location.to_string()];
        [Some(store), slots, lanes].into_iter().flatten().flatten().collect()
    }

    /// Opens the store.
    pub(crate) async fn store(&self) -> Result<Kept> {
        match &self.location {
            Location::Sqlite(file) => {
                let sync = match self.sync {
                    Sync::Full => SyncMode::Full,
                    Sync::Normal => SyncMode::Normal,
                };
                let store = SqliteStore::open(file, SqliteOptions::default().sync(sync))?;
                Ok(Kept::Sqlite(Arc::new(store)))
            }
            Location::Postgres(url) => {
                let options = PostgresOptions::default().schema(&self.schema);
                let options = match self.lanes {
                    Some(lanes) => options.lanes(lanes),
                    None => options,
                };
                Ok(Kept::Postgres(Arc::new(PostgresStore::connect(url, options).await?)))
            }
        }
    }

    /// Begins an app on the store.
    pub(crate) async fn open(&self, app: AppBuilder) -> Result<Opened> {
        let store = self.store().await?;
        let app = self.app(app, store.shared()).await?;
        Ok(Opened { app, store })
    }

    /// Begins an app on a store that is open, or on one that stands before it.
    pub(crate) async fn app(&self, app: AppBuilder, store: Arc<dyn Store>) -> Result<App> {
        let slots = self.slots.and_then(|slots| usize::try_from(slots).ok());
        let app = match slots {
            Some(slots) => app.slots(slots),
            None => app,
        };
        let app = app.on(store)?;
        app.handle().settled().await?;
        Ok(app)
    }

    /// What a commit survives, in the words of the database.
    pub(crate) async fn promise(&self) -> Result<String> {
        Ok(match (&self.location, self.sync) {
            (Location::Sqlite(_), Sync::Full) => "SQLite, synchronous=FULL".to_string(),
            (Location::Sqlite(_), Sync::Normal) => "SQLite, synchronous=NORMAL".to_string(),
            (Location::Postgres(url), _) => {
                let fsync = server::ask(url, "SHOW fsync").await?;
                format!("PostgreSQL, synchronous_commit=on, fsync={fsync}")
            }
        })
    }

    /// How long the disk takes for one write that is to last, in the folder of a SQLite file: the
    /// median of a few.
    pub(crate) fn fsync(&self) -> Result<Option<Duration>> {
        let Location::Sqlite(file) = &self.location else { return Ok(None) };
        let probe = file.with_extension("fsync-probe");
        let mut written = File::create(&probe)?;
        let mut times = Vec::new();
        for _ in 0..100 {
            let began = Instant::now();
            written.write_all(&[0x52; 4_096])?;
            written.sync_data()?;
            times.push(began.elapsed());
        }
        fs::remove_file(&probe)?;
        Ok(Some(percentile(&mut times, 0.5)))
    }

    /// How many megabytes the database has on the disk.
    pub(crate) async fn megabytes(&self) -> Result<f64> {
        let bytes = match &self.location {
            Location::Sqlite(file) => fs::metadata(file)?.len() as f64,
            Location::Postgres(url) => {
                let sql = format!(
                    "SELECT sum(pg_total_relation_size(oid)) FROM pg_class
                     WHERE relkind = 'r' AND relnamespace = '{}'::regnamespace",
                    self.schema
                );
                server::ask(url, &sql).await?.parse()?
            }
        };
        Ok(bytes / 1e6)
    }

    /// Leaves nothing behind on a server. A file stays for whoever wants to look at it.
    pub(crate) async fn remove(&self) -> Result<()> {
        match &self.location {
            Location::Sqlite(_) => Ok(()),
            Location::Postgres(url) => {
                server::run(url, &format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema)).await
            }
        }
    }
}

impl Kept {
    /// The store as the engine sees it.
    pub(crate) fn shared(&self) -> Arc<dyn Store> {
        match self {
            Kept::Sqlite(store) => store.clone(),
            Kept::Postgres(store) => store.clone(),
        }
    }

    /// What has been written so far.
    pub(crate) fn commits(&self) -> Commits {
        let (transactions, rows) = match self {
            Kept::Sqlite(store) => (store.commits().transactions, store.commits().rows),
            Kept::Postgres(store) => (store.commits().transactions, store.commits().rows),
        };
        Commits { transactions, rows }
    }

    /// Waits until everything is at rest.
    pub(crate) async fn close(&self) {
        match self {
            Kept::Sqlite(store) => store.close().await,
            Kept::Postgres(store) => store.close().await,
        }
    }
}

impl Opened {
    /// What the store has written so far.
    pub(crate) fn commits(&self) -> Commits {
        self.store.commits()
    }

    /// Stops the app and waits until the store is at rest.
    pub(crate) async fn close(self) -> Result<()> {
        self.app.stop().await?;
        self.store.close().await;
        Ok(())
    }
}

//! `--db`: which database, and how it is opened.

use std::fmt;
use std::path::PathBuf;

use resurgam::{App, AppBuilder, Client, PostgresOptions};
use resurgam_core::Code;

use crate::trouble::{Mistake, Trouble};

/// The environment variable that says which database. Actions do not get it.
pub(crate) const DB_VARIABLE: &str = "RESURGAM_DB";

/// The database unless one is named.
const USUAL: &str = "sqlite:resurgam.db";

/// The option of commands that need the database itself.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DbArgs {
    /// The database: FILE, sqlite:FILE or postgres://USER@HOST/NAME
    #[arg(
        long,
        value_name = "URL",
        env = DB_VARIABLE,
        hide_env_values = true,
        default_value = USUAL
    )]
    db: String,
    /// Not for these commands, which say so.
    #[arg(long, value_name = "URL", hide = true)]
    server: Option<String>,
}

/// A database.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Database {
    Sqlite(PathBuf),
    /// Its address, which may hold a password.
    Postgres(String),
}

impl DbArgs {
    /// The database that a command works on. `instead` is what to do where there is only a server.
    pub(crate) fn database(&self, command: &str, instead: &str) -> Result<Database, Trouble> {
        if self.server.is_some() {
            let message = format!("--server: `resurgam {command}` needs the database itself");
            return Err(Mistake::new(message).hint(format!("give --db, or {instead}")).into());
        }
        Database::named(&self.db)
    }
}

impl Database {
    /// The one of this address, or the usual one: a variable that is set to nothing is as good as
    /// not set.
    pub(crate) fn named(url: &str) -> Result<Self, Trouble> {
        Database::parse(if url.is_empty() { USUAL } else { url })
    }

    /// Does something as a client of whoever works on the database, now or later. The database must
    /// be there.
    pub(crate) async fn ask<T>(
        &self,
        work: impl AsyncFnOnce(&Client) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        closing(self.client().await?, work).await
    }

    /// Looks at a database, of which a copy will do, and warns when what is seen may be old.
    pub(crate) async fn look<T>(
        &self,
        work: impl AsyncFnOnce(&Client) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        let client = match self {
            Database::Postgres(url) => {
                Client::postgres_with(url, PostgresOptions::default().looking_only()).await?
            }
            Database::Sqlite(_) => self.client().await?,
        };
        let look = async |client: &Client| {
            let answer = work(client).await?;
            if let Some(staleness) = client.handle().staleness().await? {
                crate::work::warn(&[staleness.to_string()]);
            }
            Ok(answer)
        };
        closing(client, look).await
    }

    /// Does something as a client of a database, which is made when there is none, and brought up
    /// to date.
    pub(crate) async fn ask_new<T>(
        &self,
        work: impl AsyncFnOnce(&Client) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        closing(self.new_client().await?, work).await
    }
}

/// Does something with a client and closes it, however that ends: a process that just ends leaves
/// files beside a SQLite database, which keep those from looking who may not write them.
async fn closing<T>(
    client: Client,
    work: impl AsyncFnOnce(&Client) -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    let answer = work(&client).await;
    client.close().await;
    answer
}

impl Database {
    fn parse(text: &str) -> Result<Self, Trouble> {
        let refused = |message: &str, hint: String| Err(Mistake::new(message).hint(hint).into());
        match text.split_once(':') {
            Some(("sqlite", "")) => refused("--db: sqlite: names no file", forms()),
            Some(("sqlite", file)) => Ok(Database::Sqlite(PathBuf::from(file))),
            Some(("postgres" | "postgresql", _)) => Ok(Database::Postgres(text.to_string())),
            // What it is might be a secret; what it begins with is none.
            Some((scheme, rest)) if is_scheme(scheme, rest) => {
                refused(&format!("--db: {scheme}: is no kind of database that we know"), forms())
            }
            _ if text.is_empty() => refused("--db: names no database", forms()),
            // What has no scheme is a file.
            _ => Ok(Database::Sqlite(PathBuf::from(text))),
        }
    }

    /// Begins to work on the database, which is made when it is not there.
    pub(crate) async fn app(&self, builder: AppBuilder) -> Result<App, Trouble> {
        Ok(match self {
            Database::Sqlite(file) => builder.sqlite(file).await?,
            Database::Postgres(url) => builder.postgres(url).await?,
        })
    }

    /// A client, which works on nothing itself. The database stays as it is.
    async fn client(&self) -> Result<Client, Trouble> {
        match self {
            Database::Sqlite(file) if !file.exists() => {
                let message = format!("there is no database {}", file.display());
                let hint = "`resurgam run`, `start` and `worker` make one; --db names another";
                Err(Mistake::new(message).code(Code::C4).hint(hint).into())
            }
            _ => Ok(self.connect().await?),
        }
    }

    /// A client; none where there is nothing to be a client of.
    pub(crate) async fn found(&self) -> Result<Option<Client>, Trouble> {
        match self.connect().await {
            Ok(client) => Ok(Some(client)),
            // Whoever works on it brings an older one up to date.
            Err(error) if matches!(error.code(), Code::C4 | Code::D8) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn connect(&self) -> resurgam::Result<Client> {
        match self {
            Database::Sqlite(file) => Client::sqlite(file).await,
            Database::Postgres(url) => Client::postgres(url).await,
        }
    }

    /// A client, for which a database is made when there is none, and brought up to date.
    async fn new_client(&self) -> Result<Client, Trouble> {
        match self.connect().await {
            Err(error) if matches!(error.code(), Code::C4 | Code::D8) => {
                let app = self.app(App::builder().options(|options| options.work = false)).await?;
                app.stop().await?;
                self.client().await
            }
            connected => Ok(connected?),
        }
    }
}

fn forms() -> String {
    "write FILE or postgres://USER@HOST/NAME".to_string()
}

/// Whether what stands before a colon says what kind of database follows, rather than being a part
/// of a file's name.
fn is_scheme(before: &str, behind: &str) -> bool {
    behind.starts_with("//") || !before.contains(['/', '\\', '.']) && before.len() > 1
}

/// Where it is, without what must not be told.
impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Database::Sqlite(file) => write!(f, "{}", file.display()),
            Database::Postgres(url) => {
                let rest = url.split_once("://").map_or("", |(_, rest)| rest);
                let rest = rest.split(['?', '#']).next().unwrap_or_default();
                write!(f, "postgres://{}", rest.rsplit_once('@').map_or(rest, |(_, host)| host))
            }
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    fn refusal(text: &str) -> String {
        let output = Database::parse(text).unwrap_err().output(false);
        anstream::adapter::strip_str(&output.stderr).to_string()
    }

    #[test]
    fn a_database_is_a_file_or_a_server() {
        assert_eq!(Database::parse("sqlite:a.db").unwrap(), Database::Sqlite("a.db".into()));
        for file in ["a.db", "orders", "/tmp/a:b.db", "C:\\orders.db"] {
            assert_eq!(Database::parse(file).unwrap(), Database::Sqlite(file.into()));
        }
        let url = "postgresql://ada:hunter2@db.example.com:5432/orders?sslmode=require";
        let server = Database::parse(url).unwrap();
        assert_eq!(server, Database::Postgres(url.to_string()));
        assert_eq!(server.to_string(), "postgres://db.example.com:5432/orders");
    }

    #[test]
    fn what_is_no_database_is_refused_with_how_to_write_one() {
        let forms = "write FILE or postgres://USER@HOST/NAME";
        assert_eq!(refusal(""), format!("error: C1 --db: names no database; {forms}\n"));
        assert_eq!(refusal("sqlite:"), format!("error: C1 --db: sqlite: names no file; {forms}\n"));
        let mysql = refusal("mysql://ada:hunter2@host/x");
        assert!(mysql.contains("mysql: is no kind") && !mysql.contains("hunter2"), "{mysql}");
    }
}

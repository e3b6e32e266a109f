//! `--db` and `--server`: where a command of operators asks.

use std::fs;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use zeroize::Zeroizing;

use super::address::Address;
use super::{Operator, Server};
use crate::database::{DB_VARIABLE, Database};
use crate::trouble::{Mistake, Trouble};

/// The environment variable that says which server.
pub(crate) const SERVER_VARIABLE: &str = "RESURGAM_SERVER";

/// The environment variable that holds the token for it. Actions do not get it.
pub(crate) const TOKEN_VARIABLE: &str = "RESURGAM_TOKEN";

/// The options that all commands have that a server can answer, too.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Reach {
    /// The database: FILE, sqlite:FILE or postgres://USER@HOST/NAME; RESURGAM_DB or
    /// sqlite:resurgam.db unless given
    #[arg(long, value_name = "URL")]
    db: Option<String>,
    /// Ask this server in place of a database: https://HOST, with the token in RESURGAM_TOKEN;
    /// RESURGAM_SERVER unless given
    #[arg(long, value_name = "URL", conflicts_with = "db",
          value_parser = NonEmptyStringValueParser::new())]
    server: Option<String>,
    /// The file with the token for the server, in place of RESURGAM_TOKEN
    #[arg(long, value_name = "FILE", conflicts_with = "db")]
    token_file: Option<PathBuf>,
}

/// Where to ask.
enum Place {
    Database(Database),
    Server(String),
}

/// A variable that is set to nothing is as good as not set.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

impl Reach {
    fn place(&self) -> Result<Place, Trouble> {
        if let Some(server) = &self.server {
            return Ok(Place::Server(server.clone()));
        }
        if let Some(db) = &self.db {
            return Ok(Place::Database(Database::named(db)?));
        }
        match (variable(SERVER_VARIABLE), variable(DB_VARIABLE)) {
            (Some(_), Some(_)) => {
                let message = format!("{SERVER_VARIABLE} and {DB_VARIABLE} are both set");
                let hint = "give --server or --db, or unset one of them";
                Err(Mistake::new(message).hint(hint).into())
            }
            (Some(server), None) => Ok(Place::Server(server)),
            (None, _) if self.token_file.is_some() => {
                let hint = format!("give --server or set {SERVER_VARIABLE}");
                Err(Mistake::new("--token-file: there is no server to send it to")
                    .hint(hint)
                    .into())
            }
            (None, db) => Ok(Place::Database(Database::named(&db.unwrap_or_default())?)),
        }
    }

    /// Does something as a client of whoever works on the database, now or later. The database must
    /// be there.
    pub(crate) async fn ask<T>(
        &self,
        work: impl AsyncFnOnce(&Operator) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        match self.place()? {
            Place::Database(db) => {
                db.ask(async |client| work(&Operator::Database(client.clone())).await).await
            }
            Place::Server(url) => work(&self.server(&url).await?).await,
        }
    }

    /// Looks at a database, of which a copy will do, and warns when what is seen may be old.
    pub(crate) async fn look<T>(
        &self,
        work: impl AsyncFnOnce(&Operator) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        match self.place()? {
            Place::Database(db) => {
                db.look(async |client| work(&Operator::Database(client.clone())).await).await
            }
            Place::Server(url) => work(&self.server(&url).await?).await,
        }
    }

    /// Does something as a client of a database, which is made when there is none, and brought up
    /// to date.
    pub(crate) async fn ask_new<T>(
        &self,
        work: impl AsyncFnOnce(&Operator) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        match self.place()? {
            Place::Database(db) => {
                db.ask_new(async |client| work(&Operator::Database(client.clone())).await).await
            }
            Place::Server(url) => work(&self.server(&url).await?).await,
        }
    }

    async fn server(&self, url: &str) -> Result<Operator, Trouble> {
        let address = Address::parse(url)?;
        let token = self.token()?;
        if token.is_some() && !address.is_encrypted && !address.is_local() {
            let what = format!("the token travels to {address} as it is; https:// encrypts it");
            crate::work::warn(&[what]);
        }
        Ok(Operator::Server(Server::reached(address, token).await?))
    }

    /// The token, when there is one.
    fn token(&self) -> Result<Option<Zeroizing<String>>, Trouble> {
        let (place, text) = match &self.token_file {
            Some(file) => {
                let refused =
                    |error| Mistake::new(format!("--token-file {}: {error}", file.display()));
                let text = fs::read_to_string(file).map_err(refused)?;
                (format!("--token-file {}", file.display()), text)
            }
            None => match variable(TOKEN_VARIABLE) {
                Some(text) => (TOKEN_VARIABLE.to_string(), text),
                None => return Ok(None),
            },
        };
        let text = Zeroizing::new(text);
        let token = Zeroizing::new(text.trim().to_string());
        // It becomes a line of a request. What it is, is not repeated.
        match !token.is_empty() && token.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            true => Ok(Some(token)),
            false => Err(Trouble::refused(format!("{place}: there is no token in it"))),
        }
    }
}

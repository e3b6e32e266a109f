//! Connections: where the server is, and how it is spoken to.
//!
//! `sslmode` means what it means to PostgreSQL's own programs: `disable`; `prefer`, the default,
//! encrypts where the server can; `require` encrypts and believes any certificate; `verify-ca` and
//! `verify-full` check it, against the file in `sslrootcert` or else the system's authorities.

mod tls;
mod url;

use std::time::Duration;

use resurgam_store::{Error, Result};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::{MakeTlsConnect, NoTlsStream};
use tokio_postgres::{Client, Config, Connection, NoTls, Socket};

use crate::session::Session;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::errors::{self, Meaning, is_missing, meaning, said};
use tls::Check;
use url::Url;

/// How long a server may take to answer a new connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long sent bytes may stay unconfirmed before the connection counts as lost.
const SILENCE: Duration = Duration::from_secs(10);

/// Makes connections to one database.
#[derive(Clone)]
pub(crate) struct Connector {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    schema: Option<String>,
}

/// A connection with whatever carries it.
pub(crate) enum Line {
    Plain(Box<Connection<Socket, NoTlsStream>>),
    Tls(Box<Connection<Socket, TlsStream>>),
}

type TlsStream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

impl Connector {
    /// Reads a URL, or a list of settings as PostgreSQL's own programs take it.
    pub(crate) fn new(url: &str) -> Result<Connector> {
        let Url { rest, check, schema } = Url::read(url)?;
        let mut config: Config = rest.parse().map_err(|error| {
            Error::unusable(
                "connect to PostgreSQL: the URL cannot be read; it looks like \
                 postgres://user:password@host:5432/database",
            )
            .because(said(&error))
        })?;
        if let Some(Check { require: true, .. }) = &check {
            config.ssl_mode(SslMode::Require);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
        }
        if config.get_application_name().is_none() {
            config.application_name("resurgam");
        }
        let tls = match config.get_ssl_mode() {
            SslMode::Disable => None,
            _ => Some(tls::connector(check)?),
        };
        Ok(Connector { config, tls, schema })
    }

    /// The schema that the URL names.
    pub(crate) fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// Connects, and lets the connection be driven beside the caller.
    pub(crate) async fn connect(&self) -> std::result::Result<Session, tokio_postgres::Error> {
        let (client, line) = self.line().await?;
        tokio::spawn(async move {
            // Whoever waits for an answer hears of the end of the connection there.
            let _ = match line {
                Line::Plain(connection) => connection.await,
                Line::Tls(connection) => connection.await,
            };
        });
        Ok(Session::new(client))
    }

    /// Connects, and leaves driving the connection to the caller.
    pub(crate) async fn line(&self) -> std::result::Result<(Client, Line), tokio_postgres::Error> {
        match &self.tls {
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                Ok((client, Line::Plain(Box::new(connection))))
            }
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                Ok((client, Line::Tls(Box::new(connection))))
            }
        }
    }

    /// The database in the words of an error, without the password.
    pub(crate) fn place(&self) -> String {
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        match self.config.get_hosts().first() {
            Some(Host::Tcp(host)) => format!("{database} at {host}:{port}"),
            #[cfg(unix)]
            Some(Host::Unix(path)) => format!("{database} at {}:{port}", path.display()),
            None => database.to_string(),
        }
    }

    /// Trouble while connecting, with advice for what people usually run into.
    pub(crate) fn trouble(&self, error: tokio_postgres::Error) -> Error {
        let attempted = format!("connect to {}", self.place());
        let advice = match error.code().map(|code| code.code()) {
            Some("28P01") => "the password is wrong, or the user is; check both in the URL",
            Some("28000") => {
                "the server does not let this user in; check the user, and the server's pg_hba.conf"
            }
            Some("3D000") => {
                "there is no such database; create it with createdb, or check its name"
            }
            Some("42501") => "the user may not do this; see the rights in the guide",
            Some("53300") => {
                "the server has no connection left; use fewer lanes and readers, or raise its \
                 max_connections"
            }
            Some("57P03") => "the server is starting or stopping; try again",
            Some(_) => return errors::translated(error, attempted),
            None => return self.unreachable(error, attempted),
        };
        let attempted = format!("{attempted}: {advice}");
        match meaning(&error) {
            _ if is_missing(&error) => Error::missing(attempted).because(said(&error)),
            Meaning::Unusable | Meaning::Data => Error::unusable(attempted).because(said(&error)),
            Meaning::Lost | Meaning::Transient => Error::transient(attempted).because(said(&error)),
        }
    }

    fn unreachable(&self, error: tokio_postgres::Error, attempted: String) -> Error {
        let text = said(&error);
        if text.contains("password missing") {
            let advice = "the server asks for a password; put it into the URL";
            return Error::unusable(format!("{attempted}: {advice}"));
        }
        if text.contains("TLS") || text.contains("certificate") {
            let advice = "the encrypted connection failed; check sslmode and sslrootcert";
            return Error::unusable(format!("{attempted}: {advice}")).because(text);
        }
        let advice = "nobody answers there; check that the server runs, and the host and port";
        Error::transient(format!("{attempted}: {advice}")).because(text)
    }
}

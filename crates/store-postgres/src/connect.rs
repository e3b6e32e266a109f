//! Connections: where the server is, and how it is spoken to.
//!
//! A URL may name several hosts. All that answer are asked what they are (`PrimaryMemory`), and
//! the primary is used. A single host is asked too: it may be an old primary. Nothing here waits
//! without a limit.
//!
//! `sslmode` means what it means to PostgreSQL's own programs: `disable`; `prefer`, the default,
//! encrypts where the server can; `require` encrypts and believes any certificate; `verify-ca` and
//! `verify-full` check it, against the file in `sslrootcert` or else the system's authorities.

mod drive;
mod hosts;
mod primary;
mod report;
mod tls;
mod url;

use std::sync::Arc;
use std::time::Duration;

use resurgam_store::fleet::{Purpose, ServerAccess, ServerRefused, ServerReport};
use resurgam_store::{Error, Result};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::errors::{self, Meaning, is_missing, is_timeout, meaning, said};
use crate::session::Session;
use crate::statement::Schema;
pub(crate) use drive::{Held, Notifications, Warnings};
use hosts::Hosts;
use primary::Primary;
use tls::Check;
use url::Url;

/// How long a server may take to answer a new connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long one of several hosts may take to accept a connection. A machine that runs does that
/// without its server, however busy that is: this one is not reachable.
const ACCEPT: Duration = Duration::from_secs(3);
/// How long sent bytes may stay unconfirmed before the connection counts as lost.
const SILENCE: Duration = Duration::from_secs(10);
/// How long the other hosts may take when the primary that is known has answered: one of them may
/// have been promoted since. It is the same for who only looks, and cannot do any harm.
const OTHERS: Duration = Duration::from_secs(2);
/// How long the other hosts may take when a new primary has answered, and for those that were
/// silent the last time.
const FEW_OTHERS: Duration = Duration::from_millis(200);

/// Makes connections to one database.
#[derive(Clone)]
pub(crate) struct Connector {
    hosts: Arc<Hosts>,
    database: String,
    tls: Option<MakeRustlsConnect>,
    schema_of_url: Option<String>,
    schema: Schema,
    purpose: Purpose,
    limit: Duration,
    primary: Arc<Primary>,
}

/// A server that has answered.
struct Answered {
    session: Session,
    notifications: Notifications,
    report: ServerReport,
}

/// Why a host has not answered.
enum Unanswered {
    /// This is what came in place of an answer.
    Said(tokio_postgres::Error),
    /// Nothing came in time.
    Silent,
}

/// What came of asking some hosts, each with its place in the URL.
type Asked = Vec<(usize, std::result::Result<Answered, Unanswered>)>;

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
        let wanted = config.get_connect_timeout().copied();
        let limit = wanted.unwrap_or(CONNECT);
        // The driver's limit is for reaching the machine.
        config.connect_timeout(match hosts::count(&config) {
            0 | 1 => limit,
            _ => wanted.unwrap_or(ACCEPT),
        });
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
        let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
        Ok(Connector {
            hosts: Arc::new(Hosts::new(&config)),
            database: database.to_string(),
            tls,
            schema: Schema::new(schema.as_deref().unwrap_or_default()),
            schema_of_url: schema,
            purpose: Purpose::Work,
            limit,
            primary: Arc::default(),
        })
    }

    /// A connector to this database for a purpose, and for the tables of a schema.
    pub(crate) fn using(self, schema: &Schema, purpose: Purpose) -> Self {
        Connector { schema: schema.clone(), purpose, ..self }
    }

    /// A connector to this database that knows of the primary what another one knows.
    pub(crate) fn knowing(self, other: &Connector) -> Self {
        let (schema, purpose) = (other.schema.clone(), other.purpose);
        Connector { primary: other.primary.clone(), schema, purpose, ..self }
    }

    /// The schema that the URL names.
    pub(crate) fn schema(&self) -> Option<&str> {
        self.schema_of_url.as_deref()
    }

    /// Connects to the primary, and lets the connection be driven beside the caller.
    pub(crate) async fn connect(&self) -> Result<Session> {
        self.listen().await.map(|(session, _)| session)
    }

    /// Connects to the primary; what the server notifies of comes beside the answers.
    pub(crate) async fn listen(&self) -> Result<(Session, Notifications)> {
        if let Some(place) = self.hosts.fresh() {
            let asked = vec![(place, self.ask(place).await)];
            if let Ok((_, found)) = self.admit(asked).await {
                return Ok(found);
            }
        }
        self.find(true).await
    }

    /// Asks all hosts and takes the primary. Where somebody waits for it, hosts that do not answer
    /// get less time.
    async fn find(&self, is_awaited: bool) -> Result<(Session, Notifications)> {
        let asked = self.ask_all(is_awaited).await;
        let is_silent =
            |answer: &std::result::Result<_, _>| matches!(answer, Err(Unanswered::Silent));
        let silent = asked.iter().filter(|(_, answer)| is_silent(answer)).map(|(place, _)| *place);
        let silent: Vec<usize> = silent.collect();
        let admitted = self.admit(asked).await;
        self.hosts.asked(admitted.as_ref().ok().map(|(place, _)| *place), silent);
        admitted.map(|(_, found)| found)
    }

    /// Asks all hosts now and then which of them is the primary, where there are several.
    /// Connections to a server that is none any more are given up then: also where nothing breaks,
    /// when a standby is promoted beside a primary that goes on.
    pub(crate) async fn keep_looking_around(self, pause: Duration) {
        while self.hosts.all.len() > 1 {
            tokio::time::sleep(pause).await;
            // Who cannot be asked now is asked the next time.
            let _later = self.find(false).await;
        }
    }

    /// Asks all hosts at the same time. When one has answered that would do, the others have little
    /// time left: one that hangs must not keep us from those that work.
    async fn ask_all(&self, is_awaited: bool) -> Asked {
        if self.hosts.all.len() == 1 {
            return vec![(0, self.ask(0).await)];
        }
        let mut asking = JoinSet::new();
        for place in 0..self.hosts.all.len() {
            let connector = self.clone();
            asking.spawn(async move { (place, connector.ask(place).await) });
        }
        let (mut asked, mut found) = (Asked::new(), None);
        loop {
            let until = match found {
                None => Instant::now() + self.limit * 2,
                Some((found, _)) if !is_awaited => found + self.limit,
                Some((found, timeline)) => found + self.patience(&asked, timeline),
            };
            let Ok(Some(answer)) = timeout_at(until, asking.join_next()).await else { break };
            // A task that was lost is a host that did not answer.
            let Ok((place, answer)) = answer else { continue };
            if let Some(answer) = answer.as_ref().ok().filter(|answer| self.would_do(answer)) {
                let (at, highest) = found.unwrap_or((Instant::now(), None));
                found = Some((at, highest.max(answer.report.timeline())));
            }
            asked.push((place, answer));
        }
        let is_asked = |asked: &Asked, place| asked.iter().any(|(other, _)| *other == place);
        for place in 0..self.hosts.all.len() {
            if !is_asked(&asked, place) {
                asked.push((place, Err(Unanswered::Silent)));
            }
        }
        asked.sort_by_key(|(place, _)| *place);
        asked
    }

    /// Whether nobody who answers later need be better. An old primary must not use up the time of
    /// the new one.
    fn would_do(&self, answer: &Answered) -> bool {
        let alone = std::slice::from_ref(&answer.report);
        answer.report.access >= self.least_access()
            && self.primary.memory().choose(self.purpose, alone).is_ok()
    }

    /// How long those may take that have not answered yet, when another one has, with this
    /// timeline.
    fn patience(&self, asked: &Asked, timeline: Option<u32>) -> Duration {
        let is_missing = |place: &usize| !asked.iter().any(|(other, _)| other == place);
        let mut missing = (0..self.hosts.all.len()).filter(is_missing);
        let were_silent = missing.all(|place| self.hosts.was_silent(place));
        match self.primary.memory().timeline() {
            None if self.purpose == Purpose::Look => OTHERS,
            // Who remembers nothing waits to the end: another one may be the primary.
            None => self.limit,
            Some(known) if timeline > Some(known) || were_silent => FEW_OTHERS,
            Some(_) => OTHERS,
        }
    }

    /// What a server must allow at least that is not worse than any other.
    fn least_access(&self) -> ServerAccess {
        match self.purpose {
            Purpose::Work => ServerAccess::Writable,
            Purpose::Ask => ServerAccess::ReadOnly,
            Purpose::Look => ServerAccess::Standby,
        }
    }

    /// Connects to a host, and asks it what it is.
    async fn ask(&self, place: usize) -> std::result::Result<Answered, Unanswered> {
        match timeout(self.limit, self.ask_without_limit(place)).await {
            Ok(Err(error)) if !is_timeout(&error) => Err(Unanswered::Said(error)),
            Ok(Ok(answered)) => Ok(answered),
            Ok(Err(_)) | Err(_) => Err(Unanswered::Silent),
        }
    }

    async fn ask_without_limit(
        &self,
        place: usize,
    ) -> std::result::Result<Answered, tokio_postgres::Error> {
        let config = &self.hosts.all[place].config;
        let (client, (held, warnings, notifications)) = match &self.tls {
            None => {
                let (client, connection) = config.connect(NoTls).await?;
                (client, drive::spawn(connection))
            }
            Some(tls) => {
                let (client, connection) = config.connect(tls.clone()).await?;
                (client, drive::spawn(connection))
            }
        };
        let (report, is_distributed) = report::report(&client, &self.schema).await?;
        let session = Session::new(client, held, warnings, self.primary.session());
        let session = if is_distributed { session.without_preparing() } else { session };
        Ok(Answered { session, notifications, report })
    }

    /// Takes the primary among those that have answered.
    async fn admit(&self, asked: Asked) -> Result<(usize, (Session, Notifications))> {
        let (mut answered, mut unanswered) = (Vec::new(), Vec::new());
        for (place, answer) in asked {
            match answer {
                Ok(answer) => answered.push((place, answer)),
                Err(why) => unanswered.push((place, why)),
            }
        }
        let reports: Vec<ServerReport> =
            answered.iter().map(|(_, answer)| answer.report.clone()).collect();
        let chosen = match self.primary.choose(self.purpose, &reports) {
            Ok(chosen) => chosen,
            Err(refused) => {
                let places = answered.iter().map(|(place, _)| *place);
                return Err(self.refused(places.zip(refused).collect(), unanswered));
            }
        };
        let (place, Answered { mut session, notifications, mut report }) =
            answered.swap_remove(chosen);
        let memory = self.primary.memory().clone();
        let marked = report::leave_mark(&session, &self.schema, &memory, self.purpose, &mut report);
        if timeout(self.limit, marked).await.is_err() {
            let text = format!("connect to {}: no answer within {:?}", self.place(), self.limit);
            return Err(Error::transient(text));
        }
        match self.primary.admit(self.purpose, &report) {
            Ok(moves) => session.belongs_to(moves, &report),
            Err(refused) => return Err(self.refused(vec![(place, refused)], unanswered)),
        }
        Ok((place, (session, notifications)))
    }

    /// The database in the words of an error, without the password.
    pub(crate) fn place(&self) -> String {
        match self.hosts.all.is_empty() {
            true => self.database.clone(),
            false => format!("{} at {}", self.database, self.hosts.names()),
        }
    }

    /// The hosts that did not answer when all were asked last.
    pub(crate) fn silent_hosts(&self) -> Vec<String> {
        self.hosts.silent_names()
    }

    /// Nobody can be used: why not, host by host.
    fn refused(
        &self,
        refused: Vec<(usize, ServerRefused)>,
        mut unanswered: Vec<(usize, Unanswered)>,
    ) -> Error {
        if self.hosts.all.len() == 1
            && let Some((_, why)) = unanswered.pop()
        {
            return match why {
                Unanswered::Said(error) => self.trouble(error),
                Unanswered::Silent => self.silent(),
            };
        }
        let name = |place: usize| match self.hosts.all.len() {
            1 => String::new(),
            _ => format!("{}: ", self.hosts.all[place].name),
        };
        let mut lines: Vec<(usize, String)> =
            refused.iter().map(|(place, why)| (*place, format!("{}{why}", name(*place)))).collect();
        // What waiting cannot change is told as such only when it is so everywhere.
        let mut is_hopeless = refused.is_empty();
        for (place, why) in &unanswered {
            let why = match why {
                Unanswered::Silent => NOBODY.to_string(),
                Unanswered::Said(error) => {
                    is_hopeless &= meaning(error) == Meaning::Unusable && !is_missing(error);
                    match error.code() {
                        Some(_) => said(error),
                        None => format!("{NOBODY} ({})", said(error)),
                    }
                }
            };
            is_hopeless &= !why.starts_with(NOBODY);
            lines.push((*place, format!("{}{why}", name(*place))));
        }
        lines.sort();
        let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
        let text = format!("connect to {}: {}", self.place(), lines.join("; "));
        match is_hopeless {
            true => Error::unusable(text),
            false => Error::transient(text),
        }
    }

    fn silent(&self) -> Error {
        let text = format!("connect to {}: {NOBODY}", self.place());
        Error::transient(text).because(format!("no answer within {:?}", self.limit))
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
        Error::transient(format!("{attempted}: {NOBODY}")).because(text)
    }
}

const NOBODY: &str = "nobody answers there; check that the server runs, and the host and port";

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn a_machine_that_accepts_no_connection_is_given_up_sooner_than_a_silent_server() {
        let minute = Duration::from_secs(60);
        for (url, accept, limit) in [
            ("postgres://ada@one/orders", CONNECT, CONNECT),
            ("postgres://ada@one,two/orders", ACCEPT, CONNECT),
            ("postgres://ada@one,two/orders?connect_timeout=60", minute, minute),
        ] {
            let connector = Connector::new(url).unwrap();
            for host in &connector.hosts.all {
                assert_eq!(host.config.get_connect_timeout(), Some(&accept), "{url}");
            }
            assert_eq!(connector.limit, limit, "{url}");
        }
    }
}

//! `resurgam token`: who may ask the server of a database what.

use std::fmt::Write as _;

use clap::Subcommand;
use resurgam::Client;
use resurgam_server::{NewToken, Role, Token, TokenSettings};

use crate::database::{Database, DbArgs};
use crate::exit::Exit;
use crate::form::{Form, line};
use crate::help;
use crate::moment::TimeArgs;
use crate::output::Output;
use crate::policy::complaint::printable;
use crate::style::STRONG;
use crate::trouble::{Mistake, Trouble};
use resurgam::os_user;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a token, and print it this once
    ///
    /// Only its hash is stored: who loses it makes another one.
    #[command(after_help = help::TOKEN_CREATE)]
    Create(CreateArgs),
    /// List tokens, those that were revoked too
    #[command(after_help = help::TOKEN_LIST)]
    List(ListArgs),
    /// Let nobody in with a token any more; servers know it within two seconds
    #[command(after_help = help::TOKEN_REVOKE)]
    Revoke(RevokeArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct CreateArgs {
    /// What it may do: read (look), operate (start and act as well), work (run activities), admin
    #[arg(long, value_name = "ROLE")]
    role: Role,
    /// What people call it; what is done with it is recorded under this name
    #[arg(long, value_name = "NAME")]
    name: String,
    /// It sees no inputs, results and values
    #[arg(long)]
    no_payloads: bool,
    /// A queue of which it may run activities, more than once for several; all unless given
    #[arg(long, value_name = "QUEUE")]
    queue: Vec<String>,
    /// The namespace that it is for: it may run the activities of that namespace's queue, too
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// work: it may start instances as well, on its queues where it has some
    #[arg(long)]
    start: bool,
    /// How many of its requests wait at once for an attempt or a result; as the server says unless
    /// given
    #[arg(long, value_name = "NUMBER")]
    polls: Option<usize>,
    #[command(flatten)]
    db: DbArgs,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    times: TimeArgs,
    #[command(flatten)]
    db: DbArgs,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RevokeArgs {
    /// The id of the token, as the list has it
    id: String,
    #[command(flatten)]
    db: DbArgs,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

impl Command {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        match self {
            Command::Create(args) => args.run().await,
            Command::List(args) => args.run().await,
            Command::Revoke(args) => args.run().await,
        }
    }

    /// Whether standard output is for a program.
    pub(super) fn json(&self) -> bool {
        match self {
            Command::Create(args) => args.json,
            Command::List(args) => args.json,
            Command::Revoke(args) => args.json,
        }
    }
}

/// Whoever may write to the database decides who is let in.
fn database(db: &DbArgs) -> Result<Database, Trouble> {
    let instead = "ask the server for /api/v1/tokens with a token of the role admin";
    db.database("token", instead)
}

impl CreateArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let CreateArgs { role, name, no_payloads, queue, db, json, .. } = self;
        let CreateArgs { namespace, start, polls, .. } = self;
        let settings = TokenSettings { no_payloads, queues: queue, namespace, start, polls };
        let new = NewToken::new(name, role).settings(settings).by(os_user());
        let (token, secret) =
            database(&db)?.ask_new(async |client| Ok(new.clone().make(client).await?)).await?;
        Ok(match json {
            true => Output::json(line(&form(&token).with("secret", &secret)), Exit::Done),
            false => {
                let note = format!("token {} for {role}; it is shown this once\n", token.id);
                Output { stderr: note, ..Output::done(format!("{secret}\n")) }
            }
        })
    }
}

impl ListArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let read = async |client: &Client| Ok((Token::all(client).await?, client.handle().now()));
        let (tokens, now) = database(&self.db)?.look(read).await?;
        if self.json {
            let list: Vec<Form> = tokens.iter().map(form).collect();
            return Ok(Output::json(line(&list), Exit::Done));
        }
        if tokens.is_empty() {
            let note = "there are no tokens; `resurgam token create` makes one\n".to_string();
            return Ok(Output { stderr: note, ..Output::done(String::new()) });
        }
        let mut out = String::new();
        for token in &tokens {
            let role = token.role.map_or("unknown", Role::name);
            let ago = self.times.past(token.created_at, now);
            let revoked =
                token.revoked_at.map(|at| format!(", revoked {}", self.times.past(at, now)));
            let TokenSettings { no_payloads, queues, namespace, start, polls } = &token.settings;
            let blind = if *no_payloads { ", sees no payloads" } else { "" };
            let starts = if *start { ", starts instances" } else { "" };
            let queues = match queues.as_slice() {
                [] => String::new(),
                queues => format!(", of {}", queues.join(", ")),
            };
            let namespace = namespace.as_ref().map(|name| format!(", of namespace {name}"));
            let polls = polls.map(|polls| format!(", {polls} requests wait"));
            let queues =
                [queues, namespace.unwrap_or_default(), polls.unwrap_or_default()].concat();
            let _infallible = writeln!(
                out,
                "{STRONG}{}{STRONG:#}  {}  {role}{blind}{starts}{}  made by {} {ago}{}",
                token.id,
                printable(&token.name),
                printable(&queues),
                printable(&token.by),
                revoked.unwrap_or_default()
            );
        }
        Ok(Output::done(out))
    }
}

impl RevokeArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let revoke = async |client: &Client| Ok(Token::revoke(client, &self.id).await?);
        if !database(&self.db)?.ask(revoke).await? {
            let message = format!("revoke {}: there is no such token", self.id);
            let hint = "or it was revoked before; `resurgam token list` lists them";
            return Err(Mistake::new(message).hint(hint).into());
        }
        Ok(match self.json {
            true => {
                let form = Form::default().with("id", &self.id).with("revoked", true);
                Output::json(line(&form), Exit::Done)
            }
            false => Output::done(format!("{} lets nobody in any more\n", self.id)),
        })
    }
}

/// A token for programs.
fn form(token: &Token) -> Form {
    Form::default()
        .with("id", &token.id)
        .with("name", &token.name)
        .with("role", token.role.map(Role::name))
        .with("no_payloads", token.settings.no_payloads)
        .with("queues", &token.settings.queues)
        .with("namespace", &token.settings.namespace)
        .with("start", token.settings.start)
        .with("polls", token.settings.polls)
        .with("by", &token.by)
        .with("created_at_ms", token.created_at)
        .with("revoked_at_ms", token.revoked_at)
}

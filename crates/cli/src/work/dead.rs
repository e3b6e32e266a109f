//! `resurgam dead`: calls that were given up and kept, and decisions about them.

use std::fmt::Write;

use clap::Subcommand;
use resurgam::{
    Action, CallCursor, CallKey, DeadLetter, DeadLetterFilter, LetterState, Payload, RedriveCall,
    RunKey, Seq, Timestamp,
};
use resurgam_core::duration::Human;
use resurgam_graph::{NodeCall, without_secrets};

use super::forms;
use super::groups::{self, Chosen, Letters, Pages, Which, name_of};
use super::listing::{self, List, Listed};
use crate::exit::Exit;
use crate::form::{Form, line, value};
use crate::help;
use crate::moment::TimeArgs;
use crate::operator::{Again, Many, Operator, Reach, Those};
use crate::output::Output;
use crate::policy::complaint::printable;
use crate::trouble::{Mistake, Trouble};

/// How many runs before the current one are looked at for a letter.
const RUNS: u32 = 20;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(after_help = help::DEAD_LIST)]
    List(ListArgs),
    #[command(after_help = help::DEAD_SHOW)]
    Show(ShowArgs),
    #[command(after_help = help::DEAD_REDRIVE)]
    Redrive(RedriveArgs),
    #[command(after_help = help::DEAD_DISCARD)]
    Discard(DiscardArgs),
}

/// List dead letters by what they have in common
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    letters: Letters,
    /// Those of which this became: open, redriven or discarded
    #[arg(long, default_value = "open", value_parser = state)]
    state: LetterState,
    #[command(flatten)]
    pages: Pages,
    #[command(flatten)]
    times: TimeArgs,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

/// Show a dead letter, or a group of them with the newest
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The instance, and then the call; or UID.RUN.SEQ, or the fingerprint of a group
    letter: String,
    /// The call as histories name it: charge#6
    call: Option<String>,
    #[command(flatten)]
    times: TimeArgs,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

/// Try calls again that were given up
///
/// The run is reset to just before the call, which is made again with a fresh budget and the same
/// idempotency key. That needs the current run, failed by this call; otherwise it is refused. With
/// --as-new, the activity runs once more by itself: with the same arguments, policy and queue, and
/// with an idempotency key of its own. The workflow that called it hears nothing of it.
///
/// Letters that are written meanwhile are left alone. Where many are chosen, it goes on when this
/// command is ended; `resurgam bulk stop` ends it.
#[derive(Debug, clap::Args)]
pub(crate) struct RedriveArgs {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    letters: Letters,
    /// Run the activity by itself, apart from the workflow that called it
    #[arg(long, conflicts_with = "new_key")]
    as_new: bool,
    /// Make the call again with another idempotency key
    #[arg(long)]
    new_key: bool,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

/// Settle dead letters about which nothing is to be done
///
/// Letters that are written meanwhile are left alone. Where many are chosen, it goes on when this
/// command is ended; `resurgam bulk stop` ends it.
#[derive(Debug, clap::Args)]
pub(crate) struct DiscardArgs {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    letters: Letters,
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

fn state(name: &str) -> Result<LetterState, String> {
    LetterState::named(name).ok_or_else(|| "write open, redriven or discarded".to_string())
}

impl Command {
    pub(super) async fn run(self) -> Result<Output, Trouble> {
        match self {
            Command::List(args) => args.run().await,
            Command::Show(args) => args.run().await,
            Command::Redrive(args) => args.run().await,
            Command::Discard(args) => args.run().await,
        }
    }

    pub(super) fn json(&self) -> bool {
        match self {
            Command::List(args) => args.json,
            Command::Show(args) => args.json,
            Command::Redrive(args) => args.json,
            Command::Discard(args) => args.json,
        }
    }
}

fn filter(which: &Which, letters: &Letters, now: Timestamp) -> DeadLetterFilter {
    letters.narrows(DeadLetterFilter {
        fingerprint: which.fingerprint.clone(),
        activity: which.activity.clone(),
        since: which.since(now),
        ..DeadLetterFilter::default()
    })
}

impl ListArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let (limit, none) = (self.pages.limit as usize, "no dead letters");
        let list = List { reach: &self.reach, limit, times: self.times, json: self.json, none };
        let of = |now| {
            let filter = filter(&self.which, &self.letters, now);
            DeadLetterFilter { state: self.state, ..filter }
        };
        let groups =
            async |operator: &Operator, now, _| Ok(operator.dead_letter_groups(of(now)).await?);
        let each = async |operator: &Operator, now, limit| {
            let page = DeadLetterFilter { after: self.pages.after, limit, ..of(now) };
            Ok(operator.dead_letters(page).await?)
        };
        match self.pages.each {
            true => list.page(each).await,
            false => list.page(groups).await,
        }
    }
}

impl ShowArgs {
    async fn run(self) -> Result<Output, Trouble> {
        match self.call.is_none() && groups::is_fingerprint(&self.letter) {
            true => self.group().await,
            false => self.one().await,
        }
    }

    async fn one(self) -> Result<Output, Trouble> {
        let (id, call) = (&self.letter, self.call.as_deref());
        let look = async |operator: &Operator| {
            let key = letter_of(operator, "show the dead letter of", (id, call)).await?;
            Ok((operator.dead_letter(key).await?, key, operator.now()))
        };
        let (letter, key, now) = self.reach.look(look).await?;
        let Some(letter) = letter else {
            let message = format!("show {}: there is no dead letter of this call", name_of(key));
            let hint = "`resurgam dead list --each` lists those that are open";
            return Err(Mistake::new(message).hint(hint).into());
        };
        if self.json {
            return Ok(Output::json(line(&form(&letter)), Exit::Done));
        }
        Ok(Output::done(shown(&letter, now, self.times)))
    }

    async fn group(self) -> Result<Output, Trouble> {
        let of = DeadLetterFilter {
            fingerprint: Some(self.letter.clone()),
            limit: 10,
            ..DeadLetterFilter::default()
        };
        let look = async |operator: &Operator| {
            let (now, found) = (operator.now(), operator.dead_letter_groups(of.clone()).await?);
            Ok((found, operator.dead_letters(of.clone()).await?, now))
        };
        let (found, letters, now) = self.reach.look(look).await?;
        let Some(group) = found.first() else {
            let message = format!("show {}: no open letter has this fingerprint", self.letter);
            let hint = "`resurgam dead list` lists those that some have";
            return Err(Mistake::new(message).hint(hint).into());
        };
        if self.json {
            let form = group.form().with("letters", listing::forms(&letters));
            return Ok(Output::json(line(&form), Exit::Done));
        }
        Ok(Output::done(groups::shown((group, "dead letter"), &letters, now, self.times)))
    }
}

impl Listed for DeadLetter {
    fn columns(_: TimeArgs) -> Vec<&'static str> {
        vec!["LETTER", "INSTANCE", "CALL", "GIVEN UP", "WHY", "ERROR"]
    }

    fn row(&self, now: Timestamp, times: TimeArgs) -> Vec<String> {
        vec![
            name_of(self.call),
            printable(&self.instance),
            printable(&format!("{}#{}", self.activity, self.call.seq)),
            times.age(self.at, now),
            self.why.clone(),
            printable(&groups::shortened(&self.error)),
        ]
    }

    fn form(&self) -> Form {
        Form::default()
            .with("call", name_of(self.call))
            .with("instance", &self.instance)
            .with("workflow", &self.workflow)
            .with("activity", &self.activity)
            .with("seq", self.call.seq)
            .with("queue", &self.queue)
            .with("state", self.state.name())
            .with("at_ms", self.at)
            .with("why", &self.why)
            .with("attempts", self.attempts)
            .with("failure", &self.failure)
            .with("fingerprint", &self.fingerprint)
            .with("error", &self.error)
            .with("cursor", CallCursor::of_letter(self).to_string())
    }

    fn cursor(&self) -> Option<String> {
        Some(CallCursor::of_letter(self).to_string())
    }
}

/// A letter for people.
fn shown(letter: &DeadLetter, now: Timestamp, times: TimeArgs) -> String {
    let mut text = String::new();
    let DeadLetter { activity, instance, workflow, queue, why, .. } = letter;
    let (state, seq) = (letter.state.name(), letter.call.seq);
    let attempts = if letter.attempts == 1 { "attempt" } else { "attempts" };
    let mut add = |name: &str, what: &str| {
        // Nothing keeps text from taking more text.
        let _ = writeln!(text, "{name:<12} {}", printable(what));
    };
    add("call", &format!("{activity}#{seq} of {instance} ({workflow})"));
    add("letter", &name_of(letter.call));
    add("state", state);
    if let Some(settled) = &letter.settled {
        let redriven = settled.redriven_as.iter().filter(|id| *id != instance);
        let redriven = redriven.map(|id| format!(" as {id}"));
        let reason = settled.reason.iter().map(|reason| format!(": {reason}"));
        let more: String = redriven.chain(reason).collect();
        add(state, &format!("{} by {}{more}", times.past(settled.at, now), settled.by));
    }
    let given_up = times.past(letter.at, now);
    add("given up", &format!("{given_up}: {why} after {} {attempts}", letter.attempts));
    add("failure", &letter.failure.to_string());
    add("fingerprint", &format!("{} {}", letter.fingerprint, letter.error));
    add("queue", queue);
    add("input", input(letter).as_str());
    for row in &letter.ledger {
        let failure = row.failure.as_ref().map(|it| format!(": {it}")).unwrap_or_default();
        let again = row.delay().map(|delay| format!("; again in {}", Human(delay)));
        let (outcome, again) = (row.outcome.name(), again.unwrap_or_default());
        add(&format!("attempt {}", row.attempt), &format!("{outcome}{failure}{again}"));
    }
    text
}

/// What a call was made with, without secrets; of an action of a graph, what its node was given.
fn input(letter: &DeadLetter) -> Payload {
    let node = letter.input.decode().ok().and_then(|input| NodeCall::of(&input));
    match node {
        Some(node) => Payload::from_text(node.inputs.to_string()),
        None => without_secrets(&letter.input),
    }
}

/// The call with a letter that is meant by a name like `charge#6`, which says nothing about the
/// run: that of the current run, or of one of the last ones before it. After a reset, the same
/// place may be a call of another activity, which is not meant.
async fn letter_of(
    operator: &Operator,
    verb: &str,
    (id, name): (&str, Option<&str>),
) -> Result<CallKey, Trouble> {
    let key = groups::named(operator, verb, id, name).await?;
    let Some(name) = name else { return Ok(key) };
    let activity = name.rsplit_once('#').map_or("", |(activity, _)| activity);
    let (earliest, mut other) = (key.run.run.saturating_sub(RUNS).max(1), None);
    for run in (earliest..=key.run.run).rev() {
        let of_run = RunKey { run, ..key.run }.call(key.seq);
        match operator.dead_letter(of_run).await? {
            Some(letter) if activity.is_empty() || letter.activity == activity => {
                return Ok(of_run);
            }
            Some(letter) => other = other.or(Some(letter.activity)),
            None => {}
        }
    }
    let Some(other) = other else { return Ok(key) };
    let message = format!("{verb} {name} of {id}: #{} of {id} is a call of {other}", key.seq);
    Err(Mistake::new(message).into())
}

/// A letter with everything about it.
fn form(letter: &DeadLetter) -> Form {
    let settled = letter.settled.as_ref().map(|settled| {
        Form::default()
            .with("at_ms", settled.at)
            .with("by", &settled.by)
            .with("reason", &settled.reason)
            .with("redriven_as", &settled.redriven_as)
    });
    let ledger: Vec<Form> = letter.ledger.iter().map(forms::attempt).collect();
    letter
        .form()
        .with("input", value(&input(letter)))
        .with("ledger", ledger)
        .with("settled", settled)
}

impl RedriveArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let RedriveArgs { chosen, letters, as_new, new_key, reach, json } = self;
        let acted = async |operator: &Operator| {
            let Some(one) = chosen.one("redrive", Some(&letters))? else {
                let those = Those::Letters(filter(&chosen.which, &letters, operator.now()));
                let action = match as_new {
                    true => Action::RedriveAsNew,
                    false => {
                        let (call, delay_ms) = (Seq::RUN, None);
                        Action::Redrive(RedriveCall { call, new_key, delay_ms })
                    }
                };
                return chosen.carry_out(operator, Many { those, action }, json).await;
            };
            let call = letter_of(operator, "redrive", one).await?;
            let again = Again { as_new, new_key };
            Ok(groups::answered(&operator.redrive(call, again, chosen.who()).await?, json))
        };
        reach.ask(acted).await
    }
}

impl DiscardArgs {
    async fn run(self) -> Result<Output, Trouble> {
        let DiscardArgs { chosen, letters, reach, json } = self;
        let acted = async |operator: &Operator| {
            let Some(one) = chosen.one("discard", Some(&letters))? else {
                let those = Those::Letters(filter(&chosen.which, &letters, operator.now()));
                let many = Many { those, action: Action::Discard };
                return chosen.carry_out(operator, many, json).await;
            };
            if chosen.request_id.is_some() {
                let message = "discard one letter: a request id is for many".to_string();
                let hint = "leave it out: when it was discarded before, the answer says by whom";
                return Err(Mistake::new(message).hint(hint).into());
            }
            let call = letter_of(operator, "discard", one).await?;
            Ok(groups::answered(&operator.discard(call, chosen.who()).await?, json))
        };
        reach.ask(acted).await
    }
}

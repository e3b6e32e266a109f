//! What `paused` and `dead` have in common: which calls, how groups look, and who decides.

use std::time::Duration;

use resurgam::{Acted, CallCursor, CallGroup, CallKey, DeadLetterFilter, RunKey, Seq, Timestamp};
use resurgam_core::duration;

use super::bulk::How;
use super::call;
use super::listing::{self, Listed};
use crate::exit::Exit;
use crate::form::{Form, line};
use crate::moment::{Moment, TimeArgs};
use crate::operator::{Many, Operator, Who};
use crate::output::Output;
use crate::policy::complaint::printable;
use crate::trouble::{Mistake, Trouble};

/// Which ones.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Which {
    /// Only of this group: the fingerprint that `list` prints
    #[arg(long, value_name = "FINGERPRINT")]
    pub(super) fingerprint: Option<String>,
    /// Only of this activity
    #[arg(long, value_name = "NAME")]
    pub(super) activity: Option<String>,
    /// Only since then: how long ago (2h), a day or a time (2026-11-15T09:00:00Z)
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    since: Option<Moment>,
}

impl Which {
    /// The time that the options mean.
    pub(super) fn since(&self, now: Timestamp) -> Option<Timestamp> {
        self.since.map(|since| since.before(now))
    }

    fn chooses(&self) -> bool {
        self.fingerprint.is_some() || self.activity.is_some() || self.since.is_some()
    }
}

/// What else narrows dead letters.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Letters {
    /// Only of this instance; more than once for several
    #[arg(long = "id", value_name = "ID")]
    ids: Vec<String>,
    /// Only of this workflow
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// Only of this queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Only those that failed with this type, or with one that descends from it
    #[arg(long, value_name = "TYPE")]
    failure_type: Option<String>,
    /// Only those that failed with this code
    #[arg(long, value_name = "CODE")]
    failure_code: Option<String>,
}

impl Letters {
    /// The filter, narrowed by this.
    pub(super) fn narrows(&self, filter: DeadLetterFilter) -> DeadLetterFilter {
        DeadLetterFilter {
            ids: self.ids.clone(),
            workflow: self.workflow.clone(),
            queue: self.queue.clone(),
            failure_type: self.failure_type.clone(),
            failure_code: self.failure_code.clone(),
            ..filter
        }
    }

    pub(super) fn chooses(&self) -> bool {
        let names = [&self.workflow, &self.queue, &self.failure_type, &self.failure_code];
        !self.ids.is_empty() || names.iter().any(|name| name.is_some())
    }
}

/// A list of single calls, page by page.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Pages {
    /// List each one, not their groups
    #[arg(long)]
    pub(super) each: bool,
    /// With --each, go on behind this place: the one that a list ends with, or the `cursor` of a
    /// row in JSON
    #[arg(long, value_name = "CURSOR", value_parser = cursor, requires = "each")]
    pub(super) after: Option<CallCursor>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) limit: u32,
}

fn cursor(text: &str) -> Result<CallCursor, String> {
    text.parse().map_err(|what| format!("this {what}"))
}

/// Which ones something is done to: one by its name, or all that options choose.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Chosen {
    /// The instance, and then the call; or UID.RUN.SEQ, and then no call; options choose unless
    /// given
    #[arg(conflicts_with_all = ["fingerprint", "activity", "since", "all"])]
    pub(super) id: Option<String>,
    /// The call as histories name it: charge#6
    #[arg(requires = "id")]
    pub(super) call: Option<String>,
    #[command(flatten)]
    pub(super) which: Which,
    /// All of them
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub(super) how: How,
    /// Who does it, for those who look at it later; the user of the operating system by default
    #[arg(long)]
    pub(super) by: Option<String>,
    /// Why, for those who look at it later
    #[arg(long)]
    pub(super) reason: Option<String>,
    /// What makes a repeated request one: it gets the first answer
    #[arg(long, value_name = "ID")]
    pub(super) request_id: Option<String>,
}

impl Chosen {
    /// Who does it, and why.
    pub(super) fn who(&self) -> Who<'_> {
        Who {
            by: self.by.as_deref(),
            reason: self.reason.as_deref(),
            request_id: self.request_id.as_deref(),
        }
    }

    /// Does it to all that are chosen, or says what it would be done to.
    pub(super) async fn carry_out(
        &self,
        operator: &Operator,
        many: Many,
        json: bool,
    ) -> Result<Output, Trouble> {
        self.how.carry_out(operator, many, self.who(), json).await
    }

    /// The names of the one that is named: its instance, or what identifies it for ever, and its
    /// name in histories. Nobody means everything by saying nothing. `others` choose, too, where
    /// there are such options.
    pub(super) fn one(
        &self,
        verb: &str,
        others: Option<&Letters>,
    ) -> Result<Option<(&str, Option<&str>)>, Trouble> {
        let others_choose = others.is_some_and(Letters::chooses);
        match (&self.id, &self.call) {
            (Some(id), None) if is_fingerprint(id) => {
                let message = format!("{verb} a call of {id}: this is the fingerprint of a group");
                Err(Mistake::new(message).hint(format!("write --fingerprint {id}")).into())
            }
            (Some(id), _) if self.how.is_given() || others_choose => {
                let message = format!("{verb} a call of {id}: options for many, and one is named");
                Err(Mistake::new(message).hint("leave out the name, or the options").into())
            }
            (Some(id), call) => Ok(Some((id, call.as_deref()))),
            (None, _) if self.which.chooses() || others_choose || self.all => Ok(None),
            (None, _) => {
                let message = format!("{verb}: nobody says which calls");
                let more = if others.is_some() { "--since and others" } else { "--since" };
                let hint = format!(
                    "name one, or choose with --fingerprint, --activity or {more}; --all is every one"
                );
                Err(Mistake::new(message).hint(hint).into())
            }
        }
    }
}

/// A call by its instance and its name in histories, or by what identifies it for ever.
pub(super) async fn named(
    operator: &Operator,
    verb: &str,
    id: &str,
    call: Option<&str>,
) -> Result<CallKey, Trouble> {
    if let Some(key) = call::key(id).filter(|_| call.is_none()) {
        return Ok(key);
    }
    let seq = call.and_then(|call| call.rsplit('#').next()?.parse().ok());
    let seq = seq.ok_or_else(|| names_no_call(verb, id, call))?;
    let Some(row) = operator.find(id).await? else {
        let message =
            format!("{verb} {} of {id}: there is no instance of this id", call.unwrap_or(""));
        let hint = "it may be deleted; write UID.RUN.SEQ in its place, as `list --each` prints it";
        return Err(Mistake::new(message).hint(hint).into());
    };
    Ok(RunKey { uid: row.uid, run: row.run }.call(Seq(seq)))
}

/// What is said where nobody knows which call is meant.
pub(super) fn names_no_call(verb: &str, id: &str, call: Option<&str>) -> Trouble {
    let message = match call {
        Some(call) => format!("{verb} {call} of {id}: its place in the history is missing"),
        None => format!("{verb} a call of {id}: the call is missing"),
    };
    let hint = "name it as in charge#6; or write UID.RUN.SEQ in place of the instance, as \
                `list --each` prints it";
    Mistake::new(message).hint(hint).into()
}

/// True for what names a group and no instance.
pub(super) fn is_fingerprint(text: &str) -> bool {
    let Some((version, hash)) = text.split_once(':') else { return false };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(version) && (hash == "unknown" || hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A time that people write.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|what| format!("this {what}"))
}

/// A call as the command line takes it.
pub(crate) fn name_of(call: CallKey) -> String {
    format!("{}.{}.{}", call.run.uid, call.run.run, call.seq)
}

impl Listed for CallGroup {
    const BEGINS_WITH_NUMBER: bool = true;

    fn columns(_: TimeArgs) -> Vec<&'static str> {
        vec!["COUNT", "ACTIVITY", "OLDEST", "NEWEST", "FINGERPRINT", "EXAMPLE", "ERROR"]
    }

    fn row(&self, now: Timestamp, times: TimeArgs) -> Vec<String> {
        vec![
            self.count.to_string(),
            printable(&self.activity),
            times.age(self.oldest, now),
            times.age(self.newest, now),
            self.fingerprint.clone(),
            printable(&self.instance),
            printable(&shortened(&self.error)),
        ]
    }

    fn form(&self) -> Form {
        Form::default()
            .with("fingerprint", &self.fingerprint)
            .with("activity", &self.activity)
            .with("error", &self.error)
            .with("count", self.count)
            .with("oldest_ms", self.oldest)
            .with("newest_ms", self.newest)
            .with("example", name_of(self.example))
            .with("instance", &self.instance)
    }
}

/// A group with the newest of its calls.
pub(super) fn shown<T: Listed>(
    (group, what): (&CallGroup, &str),
    newest: &[T],
    now: Timestamp,
    times: TimeArgs,
) -> String {
    let plural = if group.count == 1 { "" } else { "s" };
    let head = format!(
        "{} {what}{plural} of {}: {}\nthe first {}, the last {}\n\n",
        group.count,
        printable(&group.activity),
        printable(&group.error),
        times.past(group.oldest, now),
        times.past(group.newest, now),
    );
    head + &listing::table(newest, now, times, &format!("no {what}s"))
}

/// As much as fits into a row.
pub(super) fn shortened(text: &str) -> String {
    const MOST: usize = 80;
    if text.chars().count() <= MOST {
        return text.to_string();
    }
    text.chars().take(MOST - 1).chain(['…']).collect()
}

/// What came of a decision about one.
pub(super) fn answered(acted: &Acted, json: bool) -> Output {
    // What is stored for the next worker is no mistake of who asked.
    let is_stored = matches!(acted, Acted::Stored);
    let exit = if acted.changed() || is_stored { Exit::Done } else { Exit::BadInput };
    let text = printable(&acted.to_string());
    let form = Form::default()
        .with("changed", acted.changed())
        .with("stored", is_stored)
        .with("answer", &text);
    match json {
        true => Output::json(line(&form), exit),
        false => Output { exit, ..Output::done(text + "\n") },
    }
}

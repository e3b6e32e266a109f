//! The user's code on a connection of ours, and what keeps it to its own tables.
//!
//! Three hooks are on every connection from its opening, and do nothing unless a guest is there:
//!
//! | hook | what it does while a guest is there |
//! |---|---|
//! | authorizer | refuses our tables, transaction control and settings |
//! | progress handler | interrupts a statement when the time is up |
//! | commit hook | turns every commit into a rollback |
//!
//! The last one is for a transaction that SQLite has rolled back by itself, as after `INSERT OR
//! ROLLBACK` or on a full disk: code that goes on regardless would otherwise write for good,
//! without a result beside it.
//!
//! They are installed once because installing an authorizer makes SQLite prepare every statement of
//! the connection anew. Whether a guest is there is known by thread, like the limits of `busy`:
//! each connection lives on one.
//!
//! This keeps mistakes out, not malice: the code runs in the user's own process, and rusqlite has
//! more doors than SQL.

use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use resurgam_core::duration::Human;
use resurgam_core::turn::panic_message;
use resurgam_core::{Failure, Kind, Payload, UserWork};
use resurgam_store::{Access, Error, Result, not_offered};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, Transaction};

use crate::errors::{self, Attempted};
use crate::schema::{RESERVED, TABLES};

/// How many instructions SQLite runs between two looks at the time: less than a millisecond.
const LOOK_EVERY: i32 = 1_000;

/// Code of the user, as this store takes it: it may be run more than once.
pub struct SqliteWork(Mutex<Code>);

type Code = Box<dyn Fn(&Transaction<'_>) -> Outcome<Payload> + Send>;

/// How code of the user ends.
type Outcome<T> = std::result::Result<T, Failure>;

impl SqliteWork {
    /// Takes code of the user. What it returns becomes the result of the activity.
    pub fn new(code: impl Fn(&Transaction<'_>) -> Outcome<Payload> + Send + 'static) -> Self {
        SqliteWork(Mutex::new(Box::new(code)))
    }

    /// The work, if it is meant for SQLite.
    pub(crate) fn of(work: &UserWork) -> Option<&Self> {
        work.downcast_ref()
    }

    fn run(&self, transaction: &Transaction<'_>) -> Outcome<Payload> {
        // A panic of an earlier run is no reason not to run again.
        let code = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        code(transaction)
    }
}

impl fmt::Debug for SqliteWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SqliteWork")
    }
}

/// Puts the hooks on a connection.
pub(crate) fn install(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.authorizer(Some(authorize))?;
    connection.progress_handler(LOOK_EVERY, Some(time_is_up))?;
    connection.commit_hook(Some(is_there))
}

/// Runs code of the user inside a transaction that is open. An error is trouble of the disk, and
/// the code may be run again; a failure is the code's own. In both cases the transaction is to be
/// rolled back.
pub(crate) fn run(
    work: &SqliteWork,
    transaction: &Transaction<'_>,
    access: Access,
    limit: Duration,
) -> Result<Outcome<Payload>> {
    let stay = Stay::begin(access, limit);
    let ended = catch_unwind(AssertUnwindSafe(|| work.run(transaction)));
    let guest = stay.end();
    let ended = match ended {
        Err(panic) => Err(Failure::of_kind(Kind::Panic, panic_message(&*panic))),
        Ok(_) if guest.is_late() => Err(late(limit)),
        Ok(Ok(_)) if transaction.is_autocommit() => Err(rolled_back()),
        Ok(ended) => ended,
    };
    match (guest.refused, ended) {
        (Some(refused), ended) => Ok(Err(not_allowed(refused, ended.err()))),
        (None, Err(failure)) if errors::is_of_the_disk(&failure) => {
            Err(Error::transient("run the user's code").because(failure.to_string()))
        }
        (None, ended) => Ok(ended),
    }
}

/// Lets code of the user read their tables, all at one moment of the database.
pub(crate) fn read(
    work: &UserWork,
    connection: &Connection,
    limit: Duration,
) -> Result<Outcome<()>> {
    let Some(work) = SqliteWork::of(work) else { return Ok(Err(not_offered())) };
    let begun = connection.unchecked_transaction();
    let transaction = begun.attempted(|| "begin to read".into())?;
    Ok(run(work, &transaction, Access::Read, limit)?.map(drop))
}

thread_local! {
    static GUEST: RefCell<Option<Guest>> = const { RefCell::new(None) };
}

/// Code of the user that uses the connection of this thread.
#[derive(Debug)]
struct Guest {
    access: Access,
    /// When its time is up; none for a limit without end.
    until: Option<Instant>,
    /// The first thing that was refused.
    refused: Option<String>,
}

impl Guest {
    fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// As long as this exists a guest is there.
struct Stay;

impl Stay {
    fn begin(access: Access, limit: Duration) -> Self {
        let until = Instant::now().checked_add(limit);
        GUEST.set(Some(Guest { access, until, refused: None }));
        Stay
    }

    fn end(self) -> Guest {
        GUEST.take().expect("a guest is there for as long as its stay lasts")
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        GUEST.set(None);
    }
}

fn is_there() -> bool {
    GUEST.with_borrow(Option::is_some)
}

fn time_is_up() -> bool {
    GUEST.with_borrow(|guest| guest.as_ref().is_some_and(Guest::is_late))
}

fn authorize(context: AuthContext<'_>) -> Authorization {
    GUEST.with_borrow_mut(|guest| {
        let Some(guest) = guest else { return Authorization::Allow };
        match refusal(guest.access, context.action) {
            None => Authorization::Allow,
            Some(reason) => {
                let through = context.accessor.map(|name| format!(" (through {name})"));
                let reason = format!("{reason}{}", through.unwrap_or_default());
                guest.refused.get_or_insert(reason);
                Authorization::Deny
            }
        }
    })
}

/// Why a guest may not do something.
fn refusal(access: Access, action: AuthAction<'_>) -> Option<String> {
    use AuthAction as Do;

    let table = match action {
        Do::Select | Do::Recursive | Do::Reindex { .. } => return None,
        Do::Function { function_name } => {
            let loads = function_name.eq_ignore_ascii_case("load_extension");
            return loads.then(|| "extensions cannot be loaded here".to_string());
        }
        Do::Read { table_name, .. } => return ours(table_name),
        Do::Pragma { pragma_name, pragma_value } => {
            return pragma(access, pragma_name, pragma_value);
        }
        Do::Insert { table_name }
        | Do::Update { table_name, .. }
        | Do::Delete { table_name }
        | Do::CreateTable { table_name }
        | Do::CreateVtable { table_name, .. }
        | Do::CreateView { view_name: table_name }
        | Do::CreateIndex { table_name, .. }
        | Do::CreateTrigger { table_name, .. }
        | Do::AlterTable { table_name, .. }
        | Do::DropTable { table_name }
        | Do::DropVtable { table_name, .. }
        | Do::DropView { view_name: table_name }
        | Do::DropIndex { table_name, .. }
        | Do::DropTrigger { table_name, .. }
        | Do::Analyze { table_name } => table_name,
        refused => return Some(forbidden(&refused).to_string()),
    };
    ours(table).or_else(|| {
        let reads = access == Access::Read;
        reads.then(|| format!("table {table} can only be read here"))
    })
}

/// Why a table is not the guest's.
fn ours(table: &str) -> Option<String> {
    if TABLES.iter().any(|name| table.eq_ignore_ascii_case(name)) {
        return Some(format!("table {table} is the engine's own"));
    }
    let begins =
        table.get(..RESERVED.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(RESERVED));
    begins.then(|| format!("the name of table {table} is kept for the engine"))
}

/// Settings would outlive the transaction, and are the engine's. What tells about tables is
/// allowed, and the number that programs keep for their own migrations.
fn pragma(access: Access, name: &str, value: Option<&str>) -> Option<String> {
    const ALLOWED: &[&str] = &[
        "collation_list",
        "compile_options",
        // Full-text search asks for it.
        "data_version",
        "defer_foreign_keys",
        "foreign_key_check",
        "foreign_key_list",
        "function_list",
        "index_info",
        "index_list",
        "index_xinfo",
        "module_list",
        "table_info",
        "table_list",
        "table_xinfo",
    ];
    let is = |allowed: &str| name.eq_ignore_ascii_case(allowed);
    let version = is("user_version") && (value.is_none() || access == Access::Write);
    let allowed = version || ALLOWED.iter().any(|allowed| is(allowed));
    (!allowed).then(|| format!("PRAGMA {name} is the engine's to set"))
}

fn forbidden(action: &AuthAction<'_>) -> &'static str {
    use AuthAction as Do;

    match action {
        Do::Transaction { .. } | Do::Savepoint { .. } => {
            "the transaction is the engine's to begin and to end: no BEGIN, COMMIT, ROLLBACK or \
             SAVEPOINT"
        }
        Do::Attach { .. } | Do::Detach { .. } => "other databases cannot be attached here",
        Do::CreateTempIndex { .. }
        | Do::CreateTempTable { .. }
        | Do::CreateTempTrigger { .. }
        | Do::CreateTempView { .. }
        | Do::DropTempIndex { .. }
        | Do::DropTempTable { .. }
        | Do::DropTempTrigger { .. }
        | Do::DropTempView { .. } => {
            "temporary tables would outlive the transaction on the engine's connection"
        }
        _ => "this is nothing that the engine knows to be harmless",
    }
}

/// A refusal of what the code does: that is refused again, so it is never tried again by itself.
fn not_allowed(refused: String, failure: Option<Failure>) -> Failure {
    let mut not_allowed = Failure::terminal(refused).with_type("NotAllowed");
    not_allowed.cause = failure;
    not_allowed
}

fn late(limit: Duration) -> Failure {
    let message = format!("the transaction was not done within {}", Human(limit));
    Failure::of_kind(Kind::Timeout, message)
}

fn rolled_back() -> Failure {
    Failure::of_type(
        "RolledBack",
        "SQLite rolled the transaction back when one of its statements failed; return that error",
    )
}

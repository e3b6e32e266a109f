//! What PostgreSQL's errors mean to the engine.
//!
//! The engine knows three answers: try the same again, blame the data, give up on the store. This
//! is the one place that translates.
//!
//! | PostgreSQL says (SQLSTATE) | it means | why |
//! |---|---|---|
//! | no answer, a closed connection, class 08 | transient | a network or a server that comes back |
//! | 57P01 to 57P05, 57014 | transient | it stops, starts, or somebody cancelled |
//! | class 40: serialisation, deadlock | transient | somebody else was first |
//! | 55P03, 55006, 25P03 | transient | a lock or an idle transaction took too long |
//! | class 53: disk, memory, connections used up | transient | somebody makes room |
//! | class 58: I/O errors of the server | transient | a disk that answers again later |
//! | 25006: read only | transient | a failover that is not through yet |
//! | class 22, class 23, 54000 to 54023 | data | the same row is refused again |
//! | a column of a wrong type | data | the same row is unreadable again |
//! | class 28, 42501: who we are, what we may do | unusable | waiting gives no rights |
//! | 3D000, 3F000, 42P01 | missing | database, schema or tables are gone, or never were |
//! | class 42 | unusable | we have a bug |
//! | XX001, XX002 | unusable | no writing until somebody repairs it |
//! | the rest | unusable | we have a bug |

use resurgam_store::{Error, Result};
use tokio_postgres::error::SqlState;

use crate::statement::{Part, Sent};

/// Turns PostgreSQL's answer into ours, saying what was attempted. The text is only made when there
/// is trouble.
pub(crate) trait Attempted<T> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Attempted<T> for std::result::Result<T, tokio_postgres::Error> {
    fn attempted(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| translated(error, what()))
    }
}

/// What kind of trouble it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// No answer: whatever was asked may have happened.
    Lost,
    /// Nothing happened, and the same may succeed later.
    Transient,
    /// The data is to blame.
    Data,
    /// Waiting does not help.
    Unusable,
}

/// What an error means.
pub(crate) fn meaning(error: &tokio_postgres::Error) -> Meaning {
    match error.code() {
        Some(code) => of_code(code),
        None if error.is_closed() => Meaning::Lost,
        None => of_driver(error),
    }
}

/// The text of what the server said, which the driver's own text leaves out.
pub(crate) fn said(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => {
            let detail = said.detail().map(|detail| format!("; {detail}")).unwrap_or_default();
            let advice = advice(said.code()).map(|advice| format!("; {advice}"));
            let advice = advice.unwrap_or_default();
            format!("{}{detail}{advice} (SQLSTATE {})", said.message(), said.code().code())
        }
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}

/// What to do about it, where the server's own text leaves people alone with that.
fn advice(code: &SqlState) -> Option<&'static str> {
    match code.code() {
        "42501" => Some(
            "this role may not do that: use one that may write the tables (\"Rights\" in \
             docs/postgres.md); a role that may only read them can look (list, show, history)",
        ),
        _ => None,
    }
}

/// PostgreSQL's error as ours.
pub(crate) fn translated(error: tokio_postgres::Error, attempted: String) -> Error {
    let said = said(&error);
    let kind = match meaning(&error) {
        Meaning::Lost | Meaning::Transient => Error::transient,
        Meaning::Data => Error::data,
        Meaning::Unusable if is_missing(&error) => Error::missing,
        Meaning::Unusable => Error::unusable,
    };
    kind(attempted).because(said)
}

/// True when the check of the server failed: another one answers than the one connected to.
pub(crate) fn is_of_another_server(sent: &Sent<'_>, error: &tokio_postgres::Error) -> bool {
    sent.part() == Part::Server && meaning(error) == Meaning::Data
}

/// The next try connects anew, and says which server that is.
pub(crate) fn another_server() -> Error {
    Error::transient("another server answers than the one that was connected to")
}

/// True when what was asked for is not there: the database, the schema or a table.
pub(crate) fn is_missing(error: &tokio_postgres::Error) -> bool {
    matches!(error.code().map(SqlState::code), Some("3D000" | "3F000" | "42P01"))
}

/// True when nothing came in time.
pub(crate) fn is_timeout(error: &tokio_postgres::Error) -> bool {
    let source = std::error::Error::source(error);
    let io = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::TimedOut)
}

fn of_code(code: &SqlState) -> Meaning {
    match code.code() {
        "57P01" | "57P02" | "57P03" | "57P04" | "57P05" => Meaning::Lost,
        "57014" | "55P03" | "55006" | "25P03" | "25006" => Meaning::Transient,
        "42501" | "XX001" | "XX002" => Meaning::Unusable,
        code => match code.get(..2).unwrap_or_default() {
            "08" => Meaning::Lost,
            "40" | "53" | "58" => Meaning::Transient,
            "22" | "23" | "54" => Meaning::Data,
            _ => Meaning::Unusable,
        },
    }
}

/// Trouble that the server did not speak of: the driver cannot read a row, or has no connection.
fn of_driver(error: &tokio_postgres::Error) -> Meaning {
    let source = std::error::Error::source(error);
    match source.and_then(|source| source.downcast_ref::<std::io::Error>()) {
        Some(_) => Meaning::Lost,
        None if source.is_some_and(|source| source.is::<tokio_postgres::types::WrongType>()) => {
            Meaning::Data
        }
        None => match error.to_string().as_str() {
            text if text.contains("deserializing") || text.contains("serializing") => Meaning::Data,
            // Half a message, an unexpected one: the connection is of no use any more.
            _ => Meaning::Lost,
        },
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn every_code_of_the_table_means_what_the_table_says() {
        let table: [(&[&str], Meaning); 4] = [
            (&["08006", "08003", "57P01", "57P02", "57P03"], Meaning::Lost),
            (
                &["40001", "40P01", "55P03", "53100", "53300", "58030", "25006", "57014"],
                Meaning::Transient,
            ),
            (&["22012", "22021", "22003", "23505", "23502", "54000"], Meaning::Data),
            (&["28P01", "28000", "42501", "42P01", "3D000", "XX001", "XX000"], Meaning::Unusable),
        ];
        for (codes, meaning) in table {
            for code in codes {
                assert_eq!(of_code(&SqlState::from_code(code)), meaning, "{code}");
            }
        }
    }
}

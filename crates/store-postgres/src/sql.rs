//! SQL as pieces.
//!
//! How a statement is written depends on how it is sent. Alone its values are numbered from 1, and
//! as a part of a larger one they follow those of the parts before it (`combine`). Many rows come
//! as arrays, one for each column, and a few are listed (`small_batch`). So a statement that writes
//! is a list of pieces, and its text is put together from them; it is never taken apart.
//!
//! Columns and their types are listed once for each table. What is inserted, set, compared and
//! unnested follows from such a list.

use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::ptr;
use std::sync::OnceLock;

use tokio_postgres::types::Type;

use crate::small_batch;

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    name: &'static str,
    kind: Kind,
}

/// The type of a column.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Smallint,
    Integer,
    Bigint,
    Boolean,
    Text,
    Uuid,
}

/// The columns that lead the keys of instances and of what belongs to them.
pub(crate) const SHARD: Column = Column { name: "shard", kind: Kind::Smallint };
pub(crate) const UID: Column = Column::uuid("uid");
pub(crate) const RUN: Column = Column::bigint("run");
pub(crate) const SEQ: Column = Column::bigint("seq");

impl Column {
    pub(crate) const fn integer(name: &'static str) -> Self {
        Column { name, kind: Kind::Integer }
    }

    pub(crate) const fn bigint(name: &'static str) -> Self {
        Column { name, kind: Kind::Bigint }
    }

    pub(crate) const fn boolean(name: &'static str) -> Self {
        Column { name, kind: Kind::Boolean }
    }

    pub(crate) const fn text(name: &'static str) -> Self {
        Column { name, kind: Kind::Text }
    }

    pub(crate) const fn uuid(name: &'static str) -> Self {
        Column { name, kind: Kind::Uuid }
    }

    /// The type of the array of its values.
    fn array_type(self) -> Type {
        match self.kind {
            Kind::Smallint => Type::INT2_ARRAY,
            Kind::Integer => Type::INT4_ARRAY,
            Kind::Bigint => Type::INT8_ARRAY,
            Kind::Boolean => Type::BOOL_ARRAY,
            Kind::Text => Type::TEXT_ARRAY,
            Kind::Uuid => Type::UUID_ARRAY,
        }
    }
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Smallint => "smallint",
            Kind::Integer => "integer",
            Kind::Bigint => "bigint",
            Kind::Boolean => "boolean",
            Kind::Text => "text",
            Kind::Uuid => "uuid",
        }
    }
}

/// Those columns of a table that have these names. One that the table has not ends the build.
pub(crate) const fn columns<const N: usize>(table: &[Column], names: [&str; N]) -> [Column; N] {
    let mut found = [SHARD; N];
    let mut place = 0;
    while place < N {
        found[place] = column(table, names[place]);
        place += 1;
    }
    found
}

const fn column(table: &[Column], name: &str) -> Column {
    let mut place = 0;
    while place < table.len() {
        if is_same(table[place].name.as_bytes(), name.as_bytes()) {
            return table[place];
        }
        place += 1;
    }
    panic!("the table has no such column")
}

/// Text cannot be compared while the program is built, but bytes can.
const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut place = 0;
    while place < one.len() {
        if one[place] != other[place] {
            return false;
        }
        place += 1;
    }
    true
}

/// A piece of a statement.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Text that is the same however the statement is sent.
    Text(&'static str),
    /// The value of this number.
    Value(usize),
    /// An expression that fails unless there are as many rows as the value of this number says.
    IsCount(usize),
    /// Rows by the name of `u`. Their columns are the first values of the statement.
    Rows(&'static [Column]),
    /// Rows by the name of `u` that are counted from 1 in a column `nth`. They are never listed.
    CountedRows(&'static [Column]),
    /// The names of columns.
    Names(&'static [Column]),
    /// An assignment for each column, from the rows `u`.
    Set(&'static [Column]),
    /// A comparison for each column of the table of this name with the rows `u`.
    Matches(&'static str, &'static [Column]),
    /// What several statements have in common. Rows are not in here.
    Shared(&'static [Piece]),
}

/// A statement that is made of pieces. Two of them are the same when they are one static.
#[derive(Debug)]
pub(crate) struct Sql {
    pieces: &'static [Piece],
    /// Its text when it is sent alone, for any number of rows.
    alone: OnceLock<String>,
}

/// Pieces are not compared one by one: this is asked for every batch.
impl PartialEq for Sql {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self, other)
    }
}

impl Eq for Sql {}

impl Hash for Sql {
    fn hash<H: Hasher>(&self, state: &mut H) {
        ptr::hash(self, state);
    }
}

impl Sql {
    pub(crate) const fn new(pieces: &'static [Piece]) -> Self {
        Sql { pieces, alone: OnceLock::new() }
    }

    /// Its text when it is sent alone, for any number of rows.
    pub(crate) fn alone(&self) -> &str {
        self.alone.get_or_init(|| self.after(0, 0))
    }

    /// Its text after this many values of others, for so many rows; 0 for any number of them.
    pub(crate) fn after(&self, values: usize, rows: usize) -> String {
        let mut text = String::new();
        let written = self.pieces.iter().try_for_each(|piece| piece.write(&mut text, values, rows));
        written.expect("text takes everything");
        text
    }

    /// The types of the arrays that its rows come in, which are its first values.
    pub(crate) fn row_types(&self) -> Vec<Type> {
        let rows = self.pieces.iter().find_map(|piece| match piece {
            Piece::Rows(columns) | Piece::CountedRows(columns) => Some(*columns),
            _ => None,
        });
        rows.unwrap_or_default().iter().map(|column| column.array_type()).collect()
    }
}

impl Piece {
    /// Adds it to a text, after this many values of others, for so many rows.
    fn write(&self, text: &mut String, after: usize, rows: usize) -> fmt::Result {
        match self {
            Piece::Text(piece) => text.write_str(piece),
            Piece::Value(number) => write!(text, "${}", after + number),
            Piece::IsCount(number) => text.write_str(&is_count(after + number)),
            Piece::Rows(columns) if rows == 0 => {
                let (arrays, names) = (arrays(columns, after).join(", "), names(columns));
                write!(text, "unnest({arrays}) AS u({names})")
            }
            Piece::Rows(columns) => {
                let (list, names) =
                    (small_batch::listed(&arrays(columns, after), rows), names(columns));
                write!(text, "({list}) AS u({names})")
            }
            Piece::CountedRows(columns) => {
                let (arrays, names) = (arrays(columns, after).join(", "), names(columns));
                write!(text, "unnest({arrays}) WITH ORDINALITY AS u({names}, nth)")
            }
            Piece::Names(columns) => text.write_str(&names(columns)),
            Piece::Set(columns) => {
                let set = |column: &Column| format!("{0} = u.{0}", column.name);
                text.write_str(&joined(columns, set, ", "))
            }
            Piece::Matches(table, columns) => {
                let matches = |column: &Column| format!("{table}.{0} = u.{0}", column.name);
                text.write_str(&joined(columns, matches, " AND "))
            }
            Piece::Shared(pieces) => {
                pieces.iter().try_for_each(|piece| piece.write(text, after, rows))
            }
        }
    }
}

/// An expression that fails unless there are as many rows as the value of this number says.
pub(crate) fn is_count(value: usize) -> String {
    format!("1 / (count(*) = ${value}::bigint)::int")
}

/// The array of each column, after so many other values.
fn arrays(columns: &[Column], after: usize) -> Vec<String> {
    let array = |(column, number): (&Column, usize)| format!("${number}::{}[]", column.kind.name());
    columns.iter().zip(after + 1..).map(array).collect()
}

fn names(columns: &[Column]) -> String {
    joined(columns, |column| column.name.to_string(), ", ")
}

fn joined(columns: &[Column], write: impl Fn(&Column) -> String, between: &str) -> String {
    columns.iter().map(write).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::Piece::{CountedRows, IsCount, Matches, Names, Rows, Set, Text, Value};
    use super::*;

    const TABLE: [Column; 3] = [SHARD, Column::text("id"), Column::bigint("n")];
    const KEY: &[Column] = TABLE.split_at(2).0;
    const REST: &[Column] = TABLE.split_at(2).1;

    static INSERT: Sql =
        Sql::new(&[Text("INSERT INTO a ("), Names(&TABLE), Text(") SELECT * FROM "), Rows(&TABLE)]);

    #[test]
    fn many_rows_are_unnested() {
        assert_eq!(
            INSERT.alone(),
            "INSERT INTO a (shard, id, n) SELECT * FROM \
             unnest($1::smallint[], $2::text[], $3::bigint[]) AS u(shard, id, n)"
        );
        let types = [Type::INT2_ARRAY, Type::TEXT_ARRAY, Type::INT8_ARRAY];
        assert_eq!(INSERT.row_types(), types);
    }

    #[test]
    fn a_few_rows_are_listed_and_values_follow_those_of_others() {
        assert_eq!(
            INSERT.after(4, 2),
            "INSERT INTO a (shard, id, n) SELECT * FROM \
             (VALUES (($5::smallint[])[1], ($6::text[])[1], ($7::bigint[])[1]), \
             (($5::smallint[])[2], ($6::text[])[2], ($7::bigint[])[2])) AS u(shard, id, n)"
        );
    }

    #[test]
    fn assignments_and_comparisons_follow_from_the_columns() {
        static UPDATE: Sql = Sql::new(&[
            Text("UPDATE a t SET "),
            Set(REST),
            Text(", at = "),
            Value(4),
            Text(" FROM "),
            Rows(&TABLE),
            Text(" WHERE "),
            Matches("t", KEY),
        ]);
        assert_eq!(
            UPDATE.after(1, 1),
            "UPDATE a t SET n = u.n, at = $5 FROM (VALUES (($2::smallint[])[1], ($3::text[])[1], \
             ($4::bigint[])[1])) AS u(shard, id, n) WHERE t.shard = u.shard AND t.id = u.id"
        );
    }

    #[test]
    fn rows_that_are_counted_are_never_listed() {
        static COUNTED: Sql =
            Sql::new(&[Text("SELECT "), IsCount(3), Text(" FROM "), CountedRows(KEY)]);
        assert_eq!(
            COUNTED.after(0, 1),
            "SELECT 1 / (count(*) = $3::bigint)::int FROM \
             unnest($1::smallint[], $2::text[]) WITH ORDINALITY AS u(shard, id, nth)"
        );
    }

    #[test]
    fn columns_are_found_by_their_names() {
        const FOUND: [Column; 2] = columns(&TABLE, ["n", "shard"]);
        assert_eq!(names(&FOUND), "n, shard");
    }
}
